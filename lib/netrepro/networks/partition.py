"""Divides a topology into parts of about equal weight with few cables between them, to be simulated side by side.

An event in one part reaches another part a cable's delay later. So the longer the least delay of the cut cables, the
less often the parts wait for each other. `partition` therefore cuts the cables of the longest delay that leave parts of
about equal weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Topology

# A part may be heavier than its share by this factor.
MOST_OF_SHARE = 1.2
# Weight of a host's work beside forwarding, in ports.
HOST_WEIGHT = 2
PASSES = 8  # at most, to improve a division


def partition(topology: Topology, parts: int, changes: Sequence[LinkChange] = ()) -> dict[str, int] | None:
    """Map each node to its part, 0 to parts - 1; None where there is no division into parts of about equal weight.

    Nodes with a single cable stay with their neighbour, and cables without delay or with jitter are not cut.

    >>> from netrepro.networks import Link, dumbbell
    >>> partition(dumbbell(1, Link(100, 0.1), Link(10, 10)), 2)
    {'h1': 0, 'h2': 1, 's1': 0, 's2': 1}
    """
    delays = _delays_ms(topology, changes)
    hosts = set(topology.hosts)
    weights = {node: len(topology.graph[node]) + HOST_WEIGHT * (node in hosts) for node in topology.graph}
    nodes = (*topology.hosts, *topology.switches)
    for least_ms in sorted(set(delays.values()) - {0.0}, reverse=True):
        together = nx.Graph()
        together.add_nodes_from(nodes)
        together.add_edges_from(cable for cable, delay_ms in delays.items() if delay_ms < least_ms)
        blocks = [sorted(block) for block in nx.connected_components(together)]
        block_of = {node: number for number, block in enumerate(blocks) for node in block}
        graph = nx.Graph()
        for number, block in enumerate(blocks):
            graph.add_node(number, weight=sum(weights[node] for node in block))
        for first, second in delays:
            ends = block_of[first], block_of[second]
            if ends[0] != ends[1]:
                graph.add_edge(*ends, cables=graph.get_edge_data(*ends, {"cables": 0})["cables"] + 1)
        part_of = _divide(graph, parts)
        if part_of is not None:
            return {node: part_of[block_of[node]] for node in nodes}
    return None


def _delays_ms(topology: Topology, changes: Sequence[LinkChange]) -> dict[tuple[str, str], float]:
    """Find the least delay that each cable ever has in either direction (ms); 0 where it must not be cut."""
    least = {port: 0.0 if link.jitter_ms else link.delay_ms for port, link in topology.ports.items()}
    for change in changes:
        for port in change.links:
            if change.delay_ms is not None:
                least[port] = min(least[port], change.delay_ms)
    alone = {node for node in topology.graph if len(topology.graph[node]) == 1}
    return {
        (cable.first, cable.second): 0.0
        if alone & {cable.first, cable.second}
        else min(least[cable.first, cable.second], least[cable.second, cable.first])
        for cable in topology.cables
    }


def _divide(graph: nx.Graph, parts: int) -> dict[int, int] | None:
    """Divide in two until there are so many parts; None where a part would be too heavy or empty."""
    weights = dict(graph.nodes(data="weight"))
    most = MOST_OF_SHARE * sum(weights.values()) / parts
    if len(weights) < parts or max(weights.values()) > most:
        return None
    groups = _bisect(graph, sorted(graph), parts)
    heaviest = max(sum(weights[node] for node in group) for group in groups)
    if heaviest > most or not all(groups):
        return None
    return {node: part for part, group in enumerate(groups) for node in group}


def _bisect(graph: nx.Graph, nodes: list[int], parts: int) -> list[list[int]]:
    if parts == 1:
        return [nodes]
    first_parts = parts // 2
    inside = graph.subgraph(nodes)
    side = _improved(inside, _grown(inside, first_parts / parts), first_parts / parts)
    first, second = ([node for node in nodes if (node in side) == is_in] for is_in in (True, False))
    return [*_bisect(graph, first, first_parts), *_bisect(graph, second, parts - first_parts)]


def _grown(graph: nx.Graph, share: float) -> set[int]:
    """Grow a share of the weight from the first node, each time by the node that has the most cables into it."""
    weights = dict(graph.nodes(data="weight"))
    wanted = share * sum(weights.values())
    side: set[int] = set()
    pull = dict.fromkeys(sorted(graph), 0)
    weight = 0
    while pull and weight < wanted:
        node = max(pull, key=lambda each: pull[each])
        if side and weight + weights[node] / 2 > wanted:
            break
        side.add(node)
        weight += weights[node]
        del pull[node]
        for peer, cable in graph[node].items():
            if peer in pull:
                pull[peer] += cable["cables"]
    return side


def _improved(graph: nx.Graph, side: set[int], share: float) -> set[int]:
    """Move nodes across while fewer cables are cut or the weights are more even (Fiduccia and Mattheyses 1982)."""
    weights: Mapping[int, int] = dict(graph.nodes(data="weight"))
    total = sum(weights.values())
    slack = max(max(weights.values(), default=0) / 2, (MOST_OF_SHARE - 1) / 4 * total * share)
    for _ in range(PASSES):
        trial, free, cut, least = set(side), set(graph), 0, (0, 0)
        weight = sum(weights[node] for node in trial)
        best = trial.copy()
        gain = {node: _gain(graph, trial, node) for node in graph}
        while free:
            movable = [
                node
                for node in free
                if abs(weight + (-weights[node] if node in trial else weights[node]) - share * total) <= slack
                or (node in trial) == (weight > share * total)
            ]
            if not movable:
                break
            node = max(movable, key=lambda each: (gain[each], -each))
            cut -= gain[node]
            weight += -weights[node] if node in trial else weights[node]
            trial ^= {node}
            free.remove(node)
            gain[node] = -gain[node]
            for peer, cable in graph[node].items():
                gain[peer] += 2 * cable["cables"] * (1 if (peer in trial) != (node in trial) else -1)
            if abs(weight - share * total) <= slack and (cut, 0) < least:
                best, least = trial.copy(), (cut, 0)
        if best == side:
            return side
        side = best
    return side


def _gain(graph: nx.Graph, side: set[int], node: int) -> int:
    """Count the cables that a move of this node takes out of the cut, less those that it adds."""
    return sum(
        cable["cables"] if (peer in side) != (node in side) else -cable["cables"] for peer, cable in graph[node].items()
    )
