"""Paths for long flows that are all known, as Hedera's controller chooses them (Al-Fares et al., NSDI 2010, section 4).

A flow is (source, destination), names of hosts; a path is its nodes, for `Flow(path=...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.routing import Path, shortest_paths
from netrepro.networks.topology import Topology

Demand = tuple[str, str]
_ways = lru_cache(maxsize=1024)(shortest_paths)  # every repetition of an experiment asks for the same


def estimate_demands(flows: Sequence[Demand]) -> np.ndarray:
    """Estimate what each flow would get in a network without bottlenecks inside, as a share of a host's link.

    Senders share out what they have left among flows that are not limited at their receiver. Receivers that are asked
    for more than a link limit the flows above the fair share. Both repeat until nothing changes (section 4.2).
    """
    sources, destinations = (np.array(ends) for ends in zip(*flows, strict=True))
    demands, limited = np.zeros(len(flows)), np.zeros(len(flows), dtype=bool)
    while True:
        before = demands.copy()
        for source in np.unique(sources):
            free = (sources == source) & ~limited
            if free.any():
                demands[free] = (1 - demands[(sources == source) & limited].sum()) / free.sum()
        for destination in np.unique(destinations):
            here = destinations == destination
            if demands[here].sum() <= 1 + 1e-12:
                continue
            share, greedy = 1.0 / here.sum(), here.copy()
            while True:  # flows below the fair share keep what they ask for; the others share what is left
                modest = greedy & (demands < share - 1e-12)
                if not modest.any():
                    break
                greedy &= ~modest
                share = (1 - demands[here & ~greedy].sum()) / greedy.sum()
            demands[greedy], limited[greedy] = share, True
        if np.allclose(demands, before, rtol=0, atol=1e-12):
            return demands


def first_fit(topology: Topology, flows: Sequence[Demand]) -> list[Path]:
    """Place flows by global first fit: each flow takes the first of its shortest paths on which every link has room for
    its demand.

    Returns a path for each flow, () for one that fits nowhere and keeps the path of its hash (section 4.3).
    """
    used: dict[tuple[str, str], float] = {}
    chosen: list[Path] = []
    for flow, demand in zip(flows, estimate_demands(flows), strict=True):
        for path in _ways(topology, *flow):
            links = list(pairwise(path))
            if all(used.get(link, 0.0) + demand <= 1 + 1e-9 for link in links):
                used |= {link: used.get(link, 0.0) + demand for link in links}
                chosen.append(path)
                break
        else:
            chosen.append(())
    return chosen


def annealing(topology: Topology, flows: Sequence[Demand], seed: int, rounds: int = 1000) -> list[Path]:
    """Choose, by simulated annealing, the core switch through which each destination host of a fat-tree is reached.

    The energy is the demand that exceeds the links (section 4.4). `rounds` and the cooling (linear, to 0) are ours.
    Returns a path for each flow. Raises NetreproError for another topology than `fat_tree` makes.
    """
    hosts = {host: place for place, host in enumerate(topology.hosts)}
    k = round((4 * len(hosts)) ** (1 / 3))
    a_pod = k * k // 4  # hosts of a pod, and core switches of all
    if k % 2 or (len(hosts), len(topology.switches)) != (k * a_pod, 5 * a_pod):
        raise NetreproError(f"annealing on {topology.name or 'a topology'}", "give a fat-tree, as fat_tree makes it")
    random = np.random.default_rng([seed, len(flows)])
    paths = [_paths_by_core(_ways(topology, *flow), topology.switches[-a_pod:], k // 2) for flow in flows]
    number: dict[tuple[str, str], int] = {}
    crosses = [  # crosses[flow][core]: the links of the flow's path by that core switch
        [[number.setdefault(link, len(number)) for link in pairwise(path)] for path in choices] for choices in paths
    ]
    demands, loads = estimate_demands(flows), np.zeros((a_pod, len(flows), len(number)))
    for flow, choices in enumerate(crosses):
        for core, links in enumerate(choices):
            loads[core, flow, links] = demands[flow]
    destinations = np.array([hosts[destination] for _, destination in flows])

    def energy(cores: np.ndarray) -> float:
        load = loads[cores[destinations], np.arange(len(flows))].sum(axis=0)
        return float(np.maximum(load - 1, 0).sum())

    cores = np.tile(np.arange(a_pod), k)
    now = energy(cores)
    best, least = cores.copy(), now
    for left in range(rounds, 0, -1):
        if least <= 1e-9:
            break
        trial = cores.copy()
        if random.random() < 0.5:  # two hosts of a pod change places, or one host takes any core switch
            pod = a_pod * random.integers(k)
            first, second = pod + random.choice(a_pod, 2, replace=False)
            trial[[first, second]] = trial[[second, first]]
        else:
            trial[random.integers(len(hosts))] = random.integers(a_pod)
        then = energy(trial)
        if then <= now or random.random() < np.exp((now - then) / (0.5 * left / rounds)):
            cores, now = trial, then
            if now < least:
                best, least = cores.copy(), now
    return [choices[best[destination]] for choices, destination in zip(paths, destinations, strict=True)]


def _paths_by_core(paths: Sequence[Path], cores: Sequence[str], of_a_switch: int) -> list[Path]:
    """Choose one of a flow's shortest paths for each core switch: the path through it where the flow leaves the pod,
    else that by the aggregation switch which has this core (of_a_switch: how many each has)."""
    by_core = {core: path for path in paths for core in cores if core in path}
    return [by_core.get(core, paths[place // of_a_switch % len(paths)]) for place, core in enumerate(cores)]
