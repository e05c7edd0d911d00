"""Hedera's schedulers: demands against water filling, first fit and annealing against what the links carry."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.networks.flow_scheduling import annealing, estimate_demands, first_fit
from netrepro.networks.links import Link
from netrepro.networks.topology import fat_tree, star

TREE = fat_tree(4, Link(10.0, 0.05))
HOST = st.sampled_from(TREE.hosts)
FLOWS = st.lists(st.tuples(HOST, HOST).filter(lambda flow: flow[0] != flow[1]), min_size=1, max_size=40)


def stride(step: int, hosts: tuple[str, ...] = TREE.hosts) -> list[tuple[str, str]]:
    return [(host, hosts[(place + step) % len(hosts)]) for place, host in enumerate(hosts)]


@given(FLOWS)
def test_estimated_demands_are_max_min_fair_shares_of_host_links(flows):
    """Water filling by a second method: raise all flows together, freeze those at a full link, go on."""
    demands = estimate_demands(flows)
    links = [("from", source) for source, _ in flows], [("to", destination) for _, destination in flows]
    rates, frozen = np.zeros(len(flows)), np.zeros(len(flows), dtype=bool)
    while not frozen.all():
        room = {}
        for side in links:
            for link in set(side):
                here = np.array([each == link for each in side])
                if (here & ~frozen).any():
                    room[link] = (1 - rates[here].sum()) / (here & ~frozen).sum()
        step = min(room.values())
        rates[~frozen] += step
        for side in links:
            for link in set(side):
                here = np.array([each == link for each in side])
                if rates[here].sum() >= 1 - 1e-12:
                    frozen |= here
    assert demands == pytest.approx(rates, abs=1e-9)


def load_of(paths, demands):
    loads = {}
    for path, demand in zip(paths, demands, strict=True):
        for link in pairwise(path):
            loads[link] = loads.get(link, 0.0) + demand
    return loads


@given(FLOWS)
@settings(max_examples=50)
def test_first_fit_overloads_no_link_and_takes_the_first_path_that_has_room(flows):
    paths = first_fit(TREE, flows)
    placed = [(path, demand) for path, demand in zip(paths, estimate_demands(flows), strict=True) if path]
    assert max(load_of(*zip(*placed, strict=True)).values()) <= 1 + 1e-6
    for flow, path in zip(flows, paths, strict=True):
        if path:
            assert (path[0], path[-1]) == flow and nx.is_path(TREE.graph, path)
            assert len(path) == nx.shortest_path_length(TREE.graph, *flow) + 1


@pytest.mark.parametrize(("k", "step"), [(4, 2), (4, 4), (4, 8), (6, 27)])
def test_annealing_places_strides_without_overload(k, step):
    """A fat-tree is rearrangeable: bijective patterns fit. The search by destination's core reaches it for these."""
    tree = fat_tree(k, Link(10.0, 0.05))
    flows = stride(step, tree.hosts)
    paths = annealing(tree, flows, seed=3, rounds=20_000)
    assert [(path[0], path[-1]) for path in paths] == flows and all(nx.is_path(tree.graph, path) for path in paths)
    assert max(load_of(paths, estimate_demands(flows)).values()) <= 1 + 1e-9


def test_annealing_is_the_same_for_the_same_seed():
    flows = stride(3) + stride(5)
    assert annealing(TREE, flows, 4) == annealing(TREE, flows, 4) != annealing(TREE, flows, 5)


def test_annealing_wants_a_fat_tree():
    with pytest.raises(NetreproError, match="fat-tree"):
        annealing(star(16, Link(10.0, 0.05)), stride(8), 1)
