"""DCell's structure and routing against closed forms, the paper's theorems and graph algorithms."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.networks import Link
from netrepro.networks.dcell import DCell, longest_path, servers_in, two_level_tree

SHAPES = [(2, 1), (3, 1), (4, 1), (6, 1), (2, 2), (3, 2), (4, 2), (2, 3)]
SMALL = [DCell(n, k) for n, k in SHAPES]
FAST = Link(1000, 0.001)


@st.composite
def cells_with_two_servers(draw):
    network = draw(st.sampled_from(SMALL))
    numbers = st.integers(0, network.sizes[-1] - 1)
    return network, network.address(draw(numbers)), network.address(draw(numbers))


@pytest.mark.parametrize(("n", "level", "servers"), [(4, 1, 20), (4, 2, 420), (4, 3, 176_820), (6, 3, 3_263_442)])
def test_the_number_of_servers_grows_doubly_exponentially(n, level, servers):
    assert servers_in(n, level) == servers
    assert (n + 0.5) ** 2**level - 0.5 < servers < (n + 1) ** 2**level - 1  # theorem 1


@pytest.mark.parametrize("network", SMALL, ids=lambda each: each.name)
def test_every_server_has_a_port_for_each_level_and_parts_are_joined_once(network):
    assert set(dict(network.graph.degree).values()) == {network.n - 1 + network.k}
    for level in range(1, network.k + 1):
        place = network.k - level
        joined = {}
        for server in network.servers:
            other = network.peer(server, level)
            assert network.peer(other, level) == server
            assert network.level(server, other) == level
            pair = frozenset((server[: place + 1], other[: place + 1]))
            joined.setdefault(pair, set()).add(frozenset((server, other)))
        assert {len(cables) for cables in joined.values()} == {1}
        parts = network.sizes[level - 1] + 1
        assert len(joined) == parts * (parts - 1) // 2 * (len(network.servers) // network.sizes[level])


@given(cells_with_two_servers())
def test_addresses_and_numbers_are_each_others_inverse(drawn):
    network, server, _ = drawn
    assert network.address(network.number(server)) == server
    network.check_server(server)


@given(cells_with_two_servers())
def test_routing_leads_over_hops_there_are_and_keeps_theorem_3(drawn):
    network, source, destination = drawn
    path = network.route(source, destination)
    assert path[0] == source and path[-1] == destination and len(set(path)) == len(path)
    assert all(network.graph.has_edge(*hop) for hop in pairwise(path))
    assert len(path) - 1 <= longest_path(network.k)


@pytest.mark.parametrize("network", SMALL, ids=lambda each: each.name)
def test_matrices_of_lengths_are_those_of_paths(network):
    routed, shortest = network.route_lengths(), network.shortest_lengths()
    assert routed.max() == longest_path(network.k) and (routed >= shortest).all()
    random = np.random.default_rng(1)
    for a, b in random.integers(0, len(network.servers), (50, 2)):
        ends = network.servers[a], network.servers[b]
        assert routed[a, b] == len(network.route(*ends)) - 1
        assert shortest[a, b] == nx.shortest_path_length(network.graph, *ends)


@pytest.mark.parametrize("network", SMALL, ids=lambda each: each.name)
def test_a_broadcast_reaches_all_by_shortest_ways_and_hands_on_over_each_port_once(network):
    source = network.servers[len(network.servers) // 2]
    hops, messages = network.broadcast(source)
    assert hops == nx.single_source_shortest_path_length(network.graph, source)
    assert messages == 2 * network.graph.number_of_edges()
    assert max(hops.values()) <= longest_path(network.k)


@given(cells_with_two_servers(), st.data())
def test_the_way_around_failures_uses_nothing_that_failed(drawn, data):
    network, source, destination = drawn
    others = [each for each in network.servers if each not in (source, destination)]
    failed = frozenset(data.draw(st.lists(st.sampled_from(others), max_size=6))) if others else frozenset()
    edges = [frozenset(edge) for edge in network.graph.edges]
    broken = frozenset(data.draw(st.lists(st.sampled_from(edges), max_size=6)))
    live = network.graph.subgraph(set(network.servers) - failed).copy()
    live.remove_edges_from([tuple(edge) for edge in broken if len(edge & failed) == 0])
    for state_level in range(network.k + 1):
        path = network.route_around(source, destination, failed, broken, state_level=state_level)
        if path is not None:
            assert path[0] == source and path[-1] == destination
            assert all(live.has_edge(*hop) for hop in pairwise(path))
    # Where all know all links, a path is found if there is one, and it is a shortest one.
    whole = network.route_around(source, destination, failed, broken, state_level=network.k)
    assert (whole is not None) == nx.has_path(live, source, destination)
    assert whole is None or len(whole) - 1 == nx.shortest_path_length(live, source, destination)


@given(cells_with_two_servers())
def test_without_failures_the_way_around_is_dcellrouting(drawn):
    network, source, destination = drawn
    assert network.route_around(source, destination) == network.route(source, destination)


@pytest.mark.parametrize("state_level", [0, 1])
def test_around_the_server_of_fig_11_leads_the_published_path(state_level):
    network = DCell(4, 1)
    assert network.route((0, 0), (4, 3)) == ((0, 0), (0, 3), (4, 0), (4, 3))
    around = network.route_around((0, 0), (4, 3), [(0, 3)], state_level=state_level)
    assert around == ((0, 0), (1, 0), (1, 3), (4, 1), (4, 3))


def test_one_proxy_saves_what_no_proxy_loses():
    network, failed = DCell(4, 2), [(0, 0, 3)]
    assert network.route((0, 0, 0), (0, 4, 3))[1] == (0, 0, 3)
    assert network.route_around((0, 0, 0), (0, 4, 3), failed, retries=0) is None
    assert network.route_around((0, 0, 0), (0, 4, 3), failed, retries=1) is not None


@given(cells_with_two_servers())
def test_paths_by_names_are_paths_of_the_topologies(drawn):
    network, source, destination = drawn
    if source == destination or network.sizes[-1] > 200:
        return
    path = network.route(source, destination)
    for topology, names in (
        (network.topology(FAST, FAST), network.names(path)),
        (network.split_topology(FAST, FAST, FAST), network.split_names(path)),
    ):
        for hop in pairwise(names):
            topology.link(*hop)


def test_users_mistakes_are_refused_by_name():
    for wrong in (lambda: DCell(1, 1), lambda: DCell(4, -1), lambda: DCell(6, 4)):
        with pytest.raises(NetreproError):
            wrong()
    network = DCell(4, 1)
    for server in ((5, 0), (0, 4), (0,), (0, -1)):
        with pytest.raises(NetreproError, match="no server"):
            network.route((0, 0), server)
    with pytest.raises(NetreproError, match=r"racks = 1\n.*2 or more"):
        two_level_tree(1, 4, FAST)


def test_the_tree_joins_racks_by_one_switch():
    tree = two_level_tree(5, 4, FAST, Link(4000, 0.001))
    assert len(tree.hosts) == 20 and tree.link("s1", "s6").rate_mbps == 4000
    assert nx.shortest_path(tree.graph, "h1", "h20") == ["h1", "s1", "s6", "s5", "h20"]
