"""Optimal routing: the programme over paths against closed forms, maximum flows and the programme over links."""

from __future__ import annotations

from collections import Counter
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from netrepro.networks.concurrent_flow import can_have, greatest_share, share_bounds
from netrepro.networks.links import Link
from netrepro.networks.topology import Topology, fat_tree, from_graph, jellyfish

LINK = Link(100.0, 0.02)
Pairs = list[tuple[str, str]]


def permutation(topology: Topology, seed: int) -> Pairs:
    order = list(topology.hosts)
    Random(seed).shuffle(order)
    return list(zip(order, order[1:] + order[:1], strict=True))


def random_network(switches: int, ports: int, servers: int, seed: int) -> tuple[Topology, Pairs]:
    """Servers dealt out in turn to switches cabled at random, and a permutation of them."""
    held = [servers // switches + (place < servers % switches) for place in range(switches)]
    topology = jellyfish(switches, ports, held, LINK, seed)
    return topology, permutation(topology, seed)


def share_over_links(topology: Topology, pairs: Pairs) -> float:
    """The same programme with what each pair of switches sends over each link as its variables."""
    home = {host: next(iter(topology.graph[host])) for host in topology.hosts}
    wanted = Counter((home[a], home[b]) for a, b in pairs if home[a] != home[b])
    links = [port for port in topology.ports if "h" not in port[0] + port[1]]
    count = len(wanted) * len(links)
    balance, room = [], np.zeros((len(links), count + 1))
    for place, ((source, destination), rate) in enumerate(wanted.items()):
        room[:, place * len(links) : (place + 1) * len(links)] = np.eye(len(links))
        for node in set(topology.switches) - {source}:
            row = np.zeros(count + 1)
            for link, (tail, head) in enumerate(links):
                row[place * len(links) + link] = (head == node) - float(tail == node)
            row[count] = -rate if node == destination else 0.0
            balance.append(row)
    goal = np.append(np.zeros(count), -1.0)
    return -linprog(goal, room, np.ones(len(links)), np.array(balance), np.zeros(len(balance))).fun


@pytest.mark.parametrize("seed", range(3))
def test_a_fat_tree_carries_every_permutation_at_full_rate(seed):
    topology = fat_tree(4, LINK)
    assert greatest_share(topology, permutation(topology, seed)) >= 1 - 1e-6


@pytest.mark.parametrize("pairs_across", [1, 2, 5])
def test_a_single_cable_is_shared_evenly(pairs_across):
    topology = from_graph(nx.path_graph(2), LINK, hosts_per_switch=5)
    pairs = [(f"h{i + 1}", f"h{i + 6}") for i in range(pairs_across)]
    assert greatest_share(topology, pairs) == pytest.approx(1 / pairs_across)


def test_a_cycle_is_used_both_ways_round():
    topology = from_graph(nx.cycle_graph(6), LINK)
    assert greatest_share(topology, [("h1", "h4")]) == pytest.approx(2)
    shift = [(f"h{i + 1}", f"h{(i + 1) % 6 + 1}") for i in range(6)]
    # Share s one cable clockwise and 1 - s five cables the other way: both directions full at 1 + 1/5.
    assert greatest_share(topology, shift) == pytest.approx(1.2)


def test_one_pair_has_the_maximum_flow_of_networkx():
    topology = jellyfish(20, 4, [1] * 18 + [0] * 2, LINK, 4)
    graph = topology.fabric.to_directed()
    nx.set_edge_attributes(graph, 1, "capacity")
    home = [next(iter(topology.graph[host])) for host in ("h1", "h9")]
    assert greatest_share(topology, [("h1", "h9")]) == pytest.approx(nx.maximum_flow_value(graph, *home))


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), servers=st.integers(4, 16))
def test_the_programmes_over_paths_and_over_links_agree(seed, servers):
    topology, pairs = random_network(8, 6, servers, seed)
    assert greatest_share(topology, pairs) == pytest.approx(share_over_links(topology, pairs), rel=1e-6)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), servers=st.integers(6, 20))
def test_bounds_close_in_on_the_share_and_no_routing_needs_fewer_cables_than_the_shortest_paths(seed, servers):
    topology, pairs = random_network(10, 5, servers, seed)
    least, most = zip(*share_bounds(topology, pairs), strict=True)
    share = greatest_share(topology, pairs)
    assert max(least) <= share * (1 + 1e-6) and min(most) >= share * (1 - 1e-6)
    assert list(most) == sorted(most, reverse=True) and most[-1] == pytest.approx(least[-1], rel=1e-6)
    hops = dict(nx.all_pairs_shortest_path_length(topology.fabric))
    home = {host: next(iter(topology.graph[host])) for host in topology.hosts}
    needed = sum(hops[home[a]][home[b]] for a, b in pairs)
    assert most[0] == pytest.approx(2 * topology.fabric.number_of_edges() / needed)


def test_a_share_can_be_had_up_to_the_greatest_and_not_beyond():
    topology = jellyfish(12, 5, [2] * 12, LINK, 3)
    pairs = permutation(topology, 3)
    share = greatest_share(topology, pairs)
    assert can_have(topology, pairs, 0.99 * share) and not can_have(topology, pairs, 1.01 * share)
    assert greatest_share(topology, pairs, 0.9 * share) == 0.9 * share
    assert greatest_share(topology, pairs, 1.1 * share) == pytest.approx(share)


def test_hosts_of_one_switch_need_no_cable_between_switches():
    topology = from_graph(nx.path_graph(2), LINK, hosts_per_switch=2)
    assert greatest_share(topology, [("h1", "h2"), ("h2", "h1")]) == np.inf
    assert can_have(topology, [("h1", "h2")], 1.0)
