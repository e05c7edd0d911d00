"""Paths: shortest ones, k shortest ones, spanning trees, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    Link,
    LinkChange,
    Routing,
    Topology,
    fat_tree,
    from_graph,
    jellyfish,
    k_shortest_paths,
    leaf_spine,
    links_in_use,
    shortest_paths,
    spanning_tree,
)

LINK = Link(100, 0.1)
graphs = st.builds(
    lambda n, p, seed: nx.gnp_random_graph(n, p, seed=seed), st.integers(2, 7), st.just(0.6), st.integers(0, 500)
)


def test_shortest_paths_are_as_many_as_a_fat_tree_has():
    # Al-Fares et al., section 2.2: (k/2)^2 between pods, k/2 within one, one below an edge switch.
    tree = fat_tree(4, LINK)
    assert [len(shortest_paths(tree, "h1", host)) for host in ("h16", "h3", "h2")] == [4, 2, 1]
    assert all(path[0] == "h1" and path[-1] == "h16" for path in shortest_paths(tree, "h1", "h16"))


@settings(max_examples=60)
@given(graphs.filter(nx.is_connected), st.integers(1, 12))
def test_k_shortest_paths_are_the_shortest_of_all_paths_without_loops(graph, k):
    net = from_graph(graph, LINK, hosts_per_switch=2)
    found = k_shortest_paths(net, "h1", net.hosts[-1], k)
    every = sorted(len(path) + 2 for path in nx.all_simple_paths(net.fabric, "s1", net.switches[-1]))
    assert [len(path) for path in found] == every[:k] and len(set(found)) == len(found)
    for path in found:
        assert path[0] == "h1" and path[-1] == net.hosts[-1] and len(set(path)) == len(path)
        assert all(pair in net.ports for pair in pairwise(path)) and all(node[0] == "s" for node in path[1:-1])


def test_k_shortest_paths_depend_on_nothing_but_the_network():
    net, again = jellyfish(30, 6, 2, LINK, 5), jellyfish(30, 6, 2, LINK, 5)
    shuffled = Topology(tuple(sorted(net.cables, key=lambda cable: cable.second)), net.name)
    pairs = [("h1", "h60"), ("h7", "h8"), ("h60", "h1")]
    assert [k_shortest_paths(again, *pair, 8) for pair in reversed(pairs)][::-1] == [
        k_shortest_paths(shuffled, *pair, 8) for pair in pairs
    ]


def test_hosts_of_one_switch_have_one_path():
    assert k_shortest_paths(leaf_spine(2, 3, 2, LINK, LINK), "h1", "h2", 8) == (("h1", "s1", "h2"),)


@settings(max_examples=60)
@given(graphs.filter(nx.is_connected))
def test_a_spanning_tree_reaches_all_and_its_ways_to_the_root_are_shortest(graph):
    net = from_graph(graph, LINK)
    for root in (net.switches[0], net.switches[-1]):
        tree = spanning_tree(net, root)
        assert (
            nx.is_tree(tree) and set(tree) == set(net.graph) and all(net.graph.has_edge(*edge) for edge in tree.edges)
        )
        distance = nx.single_source_shortest_path_length(net.graph, root)
        assert nx.single_source_shortest_path_length(tree, root) == distance


def test_a_spanning_tree_of_a_fat_tree_uses_one_core_switch():
    tree = spanning_tree(fat_tree(4, LINK), "s17")
    assert {node for edge in tree.edges for node in edge} >= {"s17"} and tree.degree("s17") == 4
    assert all(tree.degree(core) == 1 for core in ("s18", "s19", "s20"))


def test_a_spanning_tree_goes_round_what_is_down():
    net = leaf_spine(2, 2, 1, LINK, LINK)
    assert spanning_tree(net).has_edge("s1", "s3")
    mended = spanning_tree(net, without=frozenset({frozenset(("s1", "s3"))}))
    assert nx.is_tree(mended) and not mended.has_edge("s1", "s3")
    halves = spanning_tree(net, without=frozenset({frozenset(("s1", "s3")), frozenset(("s1", "s4"))}))
    assert nx.is_forest(halves) and nx.number_connected_components(halves) == 2


def test_routes_follow_changes_after_the_rerouting_time_and_a_new_rate_changes_no_route():
    net = leaf_spine(2, 2, 1, LINK, LINK)
    changes = (
        LinkChange(1, "s1", "s3", up=False),
        LinkChange(2, "s1", "s3", rate_mbps=1),
        LinkChange(3, "s3", "s1", up=True, both_directions=False),
    )
    everything = frozenset(net.ports)
    for scheme in ("ecmp", "packet_spraying", "k_shortest_paths"):
        epochs = links_in_use(net, Routing(scheme, rerouting_ms=500), changes)
        assert [from_s for from_s, _ in epochs] == [0, 1.5, 3.5]
        assert [everything - used for _, used in epochs] == [set(), {("s1", "s3"), ("s3", "s1")}, {("s1", "s3")}]
    trees = [used for _, used in links_in_use(net, Routing("spanning_tree"), changes)]
    # A cable is in the tree, or not, in both directions.
    assert [len(used) for used in trees] == [2 * 5] * 3 and ("s1", "s3") in trees[0] and ("s3", "s1") not in trees[2]


def test_a_change_that_comes_before_the_routes_have_followed_the_last_one_is_in_them():
    net = leaf_spine(2, 2, 1, LINK, LINK)
    flapping = (LinkChange(1, "s1", "s3", up=False), LinkChange(1.2, "s1", "s3", up=True))
    epochs = links_in_use(net, Routing(rerouting_ms=500), flapping)
    assert [used == frozenset(net.ports) for _, used in epochs] == [True, True, True]


@pytest.mark.parametrize(
    ("find", "says"),
    [
        (lambda net: shortest_paths(net, "h1", "h33"), "did you mean 'h3'"),
        (lambda net: k_shortest_paths(net, "h1", "h33", 2), "did you mean 'h3'"),
        (lambda net: spanning_tree(net, "s11"), "did you mean 's1'"),
        (lambda net: shortest_paths(net, "h1", "h3"), "join them by a switch"),
        (lambda net: k_shortest_paths(net, "h1", "h3", 2), "join them by a switch"),
        (lambda net: links_in_use(net, "ecmp", []), "'ecmp' is no Routing"),
    ],
)
def test_paths_that_there_are_not_are_refused_with_their_remedy(find, says):
    chain = Topology((Cable("h1", "h2", LINK), Cable("h2", "h3", LINK), Cable("h2", "s1", LINK)))
    with pytest.raises(NetreproError, match=says):
        find(chain)


def test_routes_of_a_protocol_lead_over_the_links_it_names_from_when_it_says():
    ring = Topology((*(Cable(f"h{i}", f"s{i}", LINK) for i in (1, 2)), Cable("s1", "s2", LINK)))
    first, later = tuple(ring.ports), (("h1", "s1"), ("s1", "h1"))
    found = links_in_use(ring, Routing(over=((0.0, first), (3.0, later))), (LinkChange(1.0, "s1", "s2", up=False),))
    assert found[-2:] == ((0.0, frozenset(first)), (3.0, frozenset(later)))
    assert all(at_s != 1.1 for at_s, _ in found)  # what happens to links does not matter
    for wrong in (((-1.0, first),), ((2.0, first), (1.0, later))):
        with pytest.raises(NetreproError, match="moments from 0 on"):
            Routing(over=wrong)
    with pytest.raises(NetreproError, match="use ecmp"):
        Routing("spanning_tree", over=((0.0, first),))
