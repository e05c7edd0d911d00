"""How packets find their way: the rule of an experiment, explicit paths, and changes while it runs.

A path is the tuple of the names of its nodes, from a host to a host; no other host lies on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Annotated

import networkx as nx

from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import Count, NotNegative, Numbers, Positive, check_numbers, described, whole_number
from netrepro.networks.links import Link
from netrepro.networks.topology import Topology

Path = tuple[str, ...]

EQUAL = 0  # in place of a number of paths: all shortest ones
ROUTINGS = ("ecmp", "packet_spraying", "spanning_tree", "k_shortest_paths")


@described
@dataclass(frozen=True)
class Routing:
    """The choice of the path that a packet takes.

    scheme : "ecmp", a shortest path for each flow, chosen by a hash at every node; "packet_spraying", the same anew for
        each packet (Dixit et al., INFOCOM 2013); "spanning_tree", the only path in one tree (IEEE 802.1D);
        "k_shortest_paths", for each flow one of the `paths` shortest ones without loops, chosen by a hash (Jellyfish,
        NSDI 2012, section 5).
    paths : k of "k_shortest_paths"; the other schemes ignore it.
    root : the switch at the tree's root; "" is the first one, as the lowest bridge identifier would be.
    rerouting_ms : time from the moment when a link goes down or comes up until the routes take account of it.
    over : in place of `rerouting_ms`, (time in s, the links (from, to) that routes may use from then on) as a protocol
        of its own decides; where they lead nowhere, routes stay. For "ecmp" alone. (): all links that are up.

    Paths are counted in cables. Acknowledgements are routed like any packet, by a hash of their own. Raises
    NetreproError for an unknown scheme, fewer than one path, a negative time, `over` out of order.
    """

    scheme: str = "ecmp"
    paths: Count = 8
    root: str = ""
    rerouting_ms: NotNegative = 100.0
    over: tuple[tuple[float, tuple[tuple[str, str], ...]], ...] = ()

    def __post_init__(self) -> None:
        over = tuple((float(at_s), tuple(sorted(tuple(port) for port in ports))) for at_s, ports in self.over)
        object.__setattr__(self, "over", over)
        moments = [at_s for at_s, _ in over]
        if over and (min(moments) < 0 or moments != sorted(set(moments)) or self.scheme != "ecmp"):
            raise NetreproError(
                f"routing {self.scheme!r} over other links at {moments} s", "use ecmp, and moments from 0 on"
            )
        if self.scheme not in ROUTINGS:
            raise NetreproError(f"no routing {self.scheme!r}", nearest(str(self.scheme), ROUTINGS, with_all=True))
        check_numbers(self)


@described
@dataclass(frozen=True)
class LinkChange:
    """A change of a cable at `at_s`: another rate, delay or loss, `up=False` (it breaks) or `up=True` (it is mended).

    It happens to both directions, unless `both_directions=False`: then only to the link that leaves `source`.
    A link with a new rate finishes the packet being sent at the old one. A new delay holds for packets that leave
    later, which overtake nobody. So does a new loss, but in the simulator for packets that arrive later. In real time
    only a cable that was built with a delay or a loss can get another. A link that goes down drops the packets that
    wait for it and those that come until it is up again, and loses those on its wire. Routes follow after
    `Routing.rerouting_ms`; where no path is left, packets go on to where the path was and are dropped there.

    Raises NetreproError when nothing changes.
    """

    at_s: NotNegative
    source: str
    destination: str
    rate_mbps: Positive | None = None
    up: bool | None = None
    both_directions: bool = True
    delay_ms: NotNegative | None = None
    loss: Annotated[float, Numbers(least=0, below=1)] | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        if all(each is None for each in (self.rate_mbps, self.up, self.delay_ms, self.loss)):
            raise NetreproError(
                f"a change of {self.source} {self.destination} that changes nothing",
                "give rate_mbps=..., delay_ms=..., loss=... or up=...",
            )

    def on_wire(self, link: Link) -> Link:
        """Return the link with the delay and loss that it has from then on."""
        delay_ms = link.delay_ms if self.delay_ms is None else self.delay_ms
        return replace(link, delay_ms=delay_ms, loss=link.loss if self.loss is None else self.loss)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The (from, to) of the directions that change."""
        forward, backward = (self.source, self.destination), (self.destination, self.source)
        return (forward, backward) if self.both_directions else (forward,)


def check_path(topology: Topology, path: Path, source: str, destination: str) -> None:
    """Raise NetreproError unless `path` leads from `source` to `destination` by cables, through no node twice."""
    what = f"the path {' '.join(map(str, path))} of a flow from {source} to {destination}"
    if len(path) < 2 or path[0] != source or path[-1] != destination:
        raise NetreproError(what, f"begin it with {source} and end it with {destination}")
    if len(set(path)) < len(path):
        raise NetreproError(f"{what} visits a node twice", "name each node once")
    for first, second in pairwise(path):
        topology.link(first, second)


def spanning_tree(topology: Topology, root: str = "", without: frozenset[frozenset[str]] = frozenset()) -> nx.Graph:
    """Compute the tree that IEEE 802.1D agrees on when all cables cost the same.

    root : the switch at its root, "" for the first one. without : cables (pairs of nodes) that are down.

    Every node keeps the cable to its neighbour nearest to the root; among equals, to the one of lowest number, switches
    before hosts. Where cables are down, parts that the root does not reach have trees of their own. Raises
    NetreproError for an unknown root.
    """
    if root and root not in topology.switches:
        raise NetreproError(f"{topology.name}: no switch {root!r}", nearest(root, topology.switches))
    graph = _without(topology, without)
    tree = nx.Graph()
    tree.add_nodes_from(graph)
    order = [*([root] if root else []), *topology.switches, *topology.hosts]
    for start in order:
        if tree.degree(start) == 0:
            tree.add_edges_from(nx.bfs_edges(graph, start, sort_neighbors=_in_order))
    return tree


def links_in_use(
    topology: Topology, routing: Routing, changes: Sequence[LinkChange]
) -> tuple[tuple[float, frozenset[tuple[str, str]]], ...]:
    """List (time in s, links that routes use from then on), at 0 s and after each change that the routing answers.

    A spanning tree uses the cables of the tree, the other schemes all links that are up. With `Routing.over`, routes
    use the links that it names, whatever happens to links. Raises NetreproError unless `routing` is a Routing.
    """
    if not isinstance(routing, Routing):
        raise NetreproError(f"links_in_use: {routing!r} is no Routing", 'give one, such as Routing("ecmp")')
    if routing.over:
        return ((0.0, frozenset(topology.ports)), *((at_s, frozenset(ports)) for at_s, ports in routing.over))
    switched = sorted((change for change in changes if change.up is not None), key=lambda change: change.at_s)
    moments = sorted({change.at_s + routing.rerouting_ms / 1e3 for change in switched})
    moments_and_links = []
    for moment in (0.0, *moments):
        down: set[tuple[str, str]] = set()
        for change in switched:
            if change.at_s <= moment and moment > 0:
                down = down - set(change.links) if change.up else down | set(change.links)
        used = topology.ports.keys() - down
        if routing.scheme == "spanning_tree":
            tree = spanning_tree(topology, routing.root, frozenset(map(frozenset, down)))
            used = {port for port in used if tree.has_edge(*port)}
        moments_and_links.append((moment, frozenset(used)))
    return tuple(moments_and_links)


def shortest_paths(topology: Topology, source: str, destination: str) -> tuple[Path, ...]:
    """Find all shortest paths from host to host, among which ECMP chooses; the topology caches them.

    Raises NetreproError for unknown hosts and for hosts that no switch joins.
    """
    known = topology.found_paths
    if (source, destination, EQUAL) not in known:
        graph = _between(topology, source, destination)
        try:
            paths = sorted(map(tuple, nx.all_shortest_paths(graph, source, destination)), key=_rank)
        except nx.NetworkXNoPath:
            raise _no_way(topology, source, destination) from None
        known[source, destination, EQUAL] = tuple(paths)
    return known[source, destination, EQUAL]


def k_shortest_paths(topology: Topology, source: str, destination: str, k: int) -> tuple[Path, ...]:
    """Find the k shortest paths without loops (Yen 1971) from host to host, shortest first; fewer if there are fewer.

    The order of the switches' numbers decides which of equally long paths come first, or are left out. The topology
    caches the paths. Raises NetreproError for unknown hosts or hosts that no switch joins, and for a k that
    is no whole number of 1 or more.
    """
    k = whole_number(k, "k_shortest_paths: k")
    topology.check_host(source)
    topology.check_host(destination)
    ends = [tuple(topology.graph[host]) for host in (source, destination)]
    if all(len(neighbours) == 1 and neighbours[0][0] == "s" for neighbours in ends):
        # Hosts of the same two switches have the same paths between them: one search serves them all.
        (first,), (last,) = ends
        return tuple((source, *path, destination) for path in _yen(topology, first, last, k))
    return _yen(topology, source, destination, k)


def _yen(topology: Topology, source: str, destination: str, k: int) -> tuple[Path, ...]:
    if source == destination:
        return ((source,),)
    known = topology.found_paths
    if (source, destination, k) not in known:
        graph = topology.fabric if source[0] == "s" else _between(topology, source, destination)
        try:
            paths = islice(nx.shortest_simple_paths(graph, source, destination), k)
            known[source, destination, k] = tuple(map(tuple, paths))
        except nx.NetworkXNoPath:
            raise _no_way(topology, source, destination) from None
    return known[source, destination, k]


def _between(topology: Topology, source: str, destination: str) -> nx.Graph:
    """Make the graph of all switches and two hosts, without other hosts as a way through."""
    topology.check_host(source)
    topology.check_host(destination)
    graph = topology.fabric.copy()
    graph.add_nodes_from((source, destination))
    for host in (source, destination):
        others = _in_order(topology.graph[host])
        graph.add_edges_from((host, peer) for peer in others if peer[0] == "s" or peer in (source, destination))
    return graph


def _without(topology: Topology, cables: frozenset[frozenset[str]]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((*topology.switches, *topology.hosts))
    graph.add_edges_from(edge for edge in topology.graph.edges if frozenset(edge) not in cables)
    return graph


def _in_order(nodes: Iterable[str]) -> list[str]:
    return sorted(nodes, key=_number)


def _number(node: str) -> tuple[bool, int]:
    return node[0] == "h", int(node[1:])


def _rank(path: Path) -> list[tuple[bool, int]]:
    return [_number(node) for node in path]


def _no_way(topology: Topology, source: str, destination: str) -> NetreproError:
    return NetreproError(
        f"{topology.name}: {destination} can be reached from {source} only through another host, and hosts do not "
        "forward",
        "join them by a switch",
    )
