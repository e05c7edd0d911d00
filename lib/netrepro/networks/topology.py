"""Topologies: hosts h1, h2, ..., switches s1, s2, ..., and the cables between them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import networkx as nx

from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import as_tuple, described, whole_number
from netrepro.networks.html import topology_html
from netrepro.networks.links import DropTail, Link, NicPacer, SharedBuffer

# Linux's default transmit queue: what a host's own packets wait in.
HOST_QUEUE = DropTail(packets=1000)


@described
@dataclass(frozen=True)
class Cable:
    """Two nodes and the links between them: `forward` from `first` to `second`, `backward` the other way.

    Without `backward` both directions are alike. Raises NetreproError for a direction that is no Link, and for
    directions of different `mtu_bytes`.
    """

    first: str
    second: str
    forward: Link
    backward: Link | None = None

    def __post_init__(self) -> None:
        if self.backward is None:
            object.__setattr__(self, "backward", self.forward)
        links = [checked_link(link, self.first, self.second) for link in (self.forward, self.backward)]
        sizes = [link.mtu_bytes for link in links]
        if len(set(sizes)) > 1:
            raise NetreproError(
                f"the cable {self.first} to {self.second}: mtu_bytes = {sizes[0]} there and {sizes[1]} back",
                "give both directions one; larger packets than the far end's would be lost",
            )


@described
@dataclass(frozen=True)
class Topology:
    """A connected network of `cables`.

    Raises NetreproError for a node that is neither h<number> nor s<number>, two cables between the same nodes, a
    network in pieces, or fewer than two hosts.
    """

    cables: tuple[Cable, ...]
    name: str = "network"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cables", as_tuple(self.cables))
        for cable in self.cables:
            if not isinstance(cable, Cable):
                raise NetreproError(f"{self.name}: a cable {cable!r}", 'give Cable("h1", "s1", Link(100, 1))')
        ends = [(cable.first, cable.second) for cable in self.cables]
        for node in {node for pair in ends for node in pair}:
            if not re.fullmatch(r"[hs][1-9]\d*", str(node)):
                raise NetreproError(f"{self.name}: a node {node!r}", "call hosts h1, h2, ... and switches s1, s2, ...")
        seen = set()
        for first, second in ends:
            if first == second or frozenset((first, second)) in seen:
                raise NetreproError(
                    f"{self.name}: a cable too many between {first} and {second}",
                    "give one cable between two different nodes",
                )
            seen.add(frozenset((first, second)))
        pools: dict[str, set[int]] = {}
        for (node, _), link in self.ports.items():
            if node[0] == "s" and (link.offload_bytes or isinstance(link.queue, NicPacer)):
                what = "segmentation offload" if link.offload_bytes else "a NicPacer"
                raise NetreproError(f"{self.name}: {what} at switch {node}", "give it to a host's own port")
            if isinstance(link.queue, SharedBuffer):
                pools.setdefault(node, set()).add(link.queue.bytes)
        for node, sizes in pools.items():
            if len(sizes) > 1:
                both = " and ".join(map(str, sorted(sizes)))
                raise NetreproError(f"{self.name}: {node} with shared buffers of {both} bytes", "give it one")
        if len(self.hosts) < 2:
            raise NetreproError(f"{self.name}: {len(self.hosts)} hosts", "give two hosts or more")
        pieces = list(nx.connected_components(self.graph))
        if len(pieces) > 1:
            apart = min(pieces, key=len)
            raise NetreproError(
                f"{self.name}: no cable leads from {min(apart)} to {min(set(self.graph) - apart)}",
                "connect all nodes",
            )

    def _repr_html_(self) -> str:
        return topology_html(self)

    @cached_property
    def graph(self) -> nx.Graph:
        """The nodes and cables, for drawing and for NetworkX's algorithms; do not change it."""
        return nx.Graph((cable.first, cable.second, {"cable": cable}) for cable in self.cables)

    @cached_property
    def fabric(self) -> nx.Graph:
        """The switches and the cables between them, both by number; do not change it."""
        graph = nx.Graph()
        graph.add_nodes_from(self.switches)
        for node in self.switches:
            peers = (peer for peer in self.graph[node] if peer[0] == "s")
            graph.add_edges_from((node, peer) for peer in sorted(peers, key=lambda peer: int(peer[1:])))
        return graph

    @cached_property
    def found_paths(self) -> dict[tuple[str, str, int], tuple[tuple[str, ...], ...]]:
        """The cache of `routing.shortest_paths` (k = EQUAL) and `k_shortest_paths`: (from, to, k) -> paths."""
        return {}

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, by number."""
        return self._nodes("h")

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches, by number."""
        return self._nodes("s")

    def _nodes(self, letter: str) -> tuple[str, ...]:
        nodes = {node for cable in self.cables for node in (cable.first, cable.second) if node[0] == letter}
        return tuple(sorted(nodes, key=lambda node: int(node[1:])))

    @cached_property
    def ports(self) -> dict[tuple[str, str], Link]:
        """(from, to) -> the link that leaves `from` towards `to`; cables in order, forward before backward."""
        ports: dict[tuple[str, str], Link] = {}
        for cable in self.cables:
            ports[cable.first, cable.second] = cable.forward
            ports[cable.second, cable.first] = cable.backward or cable.forward
        return ports

    def link(self, source: str, destination: str) -> Link:
        """Return the link that leaves `source` towards its neighbour. Raises NetreproError when there is none."""
        if (source, destination) not in self.ports:
            raise NetreproError(
                f"{self.name}: no cable between {source} and {destination}",
                nearest(f"{source} {destination}", [" ".join(port) for port in self.ports]),
            )
        return self.ports[source, destination]

    @cached_property
    def mtu_of_hosts(self) -> dict[str, int | None]:
        """Host -> the smallest `mtu_bytes` of its own ports, None where none is given."""
        sizes: dict[str, int | None] = dict.fromkeys(self.hosts)
        for (node, _), link in self.ports.items():
            if node in sizes and link.mtu_bytes is not None:
                sizes[node] = min(link.mtu_bytes, sizes[node] or link.mtu_bytes)
        return sizes

    def check_host(self, host: str) -> None:
        """Raise NetreproError, with the nearest name, when there is no such host."""
        if host not in self.hosts:
            raise NetreproError(f"{self.name}: no host {host!r}", nearest(str(host), self.hosts))


def checked_link(link: Any, first: str, second: str) -> Link:
    """Return the link of the cable between two nodes. Raises NetreproError unless it is a Link."""
    if not isinstance(link, Link):
        raise NetreproError(f"the cable {first} to {second}: link = {link!r}", "give a Link, such as Link(100, 1)")
    return link


def host_cable(host: str, switch: str, link: Link) -> Cable:
    """Make a host's cable: the switch's port has the link's queue, the host's own port Linux's queue and any offload.

    Raises NetreproError for a link that is no Link.
    """
    checked_link(link, host, switch)
    return Cable(host, switch, replace(link, queue=HOST_QUEUE), replace(link, offload_bytes=0))


def dumbbell(pairs: int, access: Link | Sequence[Link], bottleneck: Link) -> Topology:
    """Build h1..hN behind s1 and h(N+1)..h(2N) behind s2; the bottleneck joins s1 and s2, both ways alike.

    access : the link of all hosts, or a link for each pair, at both of its ends. Raises NetreproError for no pair, for
    another number of links than of pairs, and for a link that is no Link.

    >>> network = dumbbell(2, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))
    >>> network.hosts, network.switches
    (('h1', 'h2', 'h3', 'h4'), ('s1', 's2'))
    """
    pairs = whole_number(pairs, "dumbbell: pairs")
    links = list(access) if isinstance(access, Iterable) else [access] * pairs
    if len(links) != pairs:
        raise NetreproError(f"{len(links)} access links of {pairs} pairs", "give one link, or one a pair")
    left = [host_cable(f"h{i + 1}", "s1", link) for i, link in enumerate(links)]
    right = [host_cable(f"h{pairs + i + 1}", "s2", link) for i, link in enumerate(links)]
    return Topology((*left, *right, Cable("s1", "s2", bottleneck)), f"dumbbell of {pairs} pairs")


def star(hosts: int, link: Link) -> Topology:
    """Build h1..hN on one switch s1. Raises NetreproError for fewer than two hosts, and for a link that is no Link."""
    hosts = whole_number(hosts, "star: hosts", least=2)
    return Topology(tuple(host_cable(f"h{i + 1}", "s1", link) for i in range(hosts)), f"star of {hosts} hosts")


def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int, host_link: Link, fabric_link: Link) -> Topology:
    """Build leaves s1..sL and spines s(L+1)..s(L+S), every leaf joined to every spine; hosts leaf by leaf.

    Raises NetreproError for a count below 1, fewer than two hosts in all, and for a link that is no Link.
    """
    leaves, spines = whole_number(leaves, "leaf_spine: leaves"), whole_number(spines, "leaf_spine: spines")
    hosts_per_leaf = whole_number(hosts_per_leaf, "leaf_spine: hosts_per_leaf")
    if leaves * hosts_per_leaf < 2:
        raise NetreproError(
            f"a leaf-spine of {leaves} leaves, {spines} spines, {hosts_per_leaf} hosts a leaf",
            "give two hosts or more",
        )
    hosts = [
        host_cable(f"h{leaf * hosts_per_leaf + i + 1}", f"s{leaf + 1}", host_link)
        for leaf in range(leaves)
        for i in range(hosts_per_leaf)
    ]
    fabric = [
        Cable(f"s{leaf + 1}", f"s{leaves + spine + 1}", fabric_link)
        for leaf in range(leaves)
        for spine in range(spines)
    ]
    return Topology((*hosts, *fabric), f"leaf-spine {leaves}x{spines}")


def fat_tree(k: int, link: Link, host_link: Link | None = None) -> Topology:
    """Build the k-ary fat-tree of Al-Fares et al. (SIGCOMM 2008): k^3/4 hosts, k pods, (k/2)^2 core switches.

    Switches are numbered edge, aggregation, core; hosts pod by pod, edge by edge. Raises NetreproError for k that
    is odd or below 2, and for a link that is no Link.
    """
    k = whole_number(k, "fat_tree: k", least=2)
    if k % 2:
        raise NetreproError(f"a fat-tree of k = {k}", "give an even k of 2 or more")
    half, host_link = k // 2, link if host_link is None else host_link
    edges, aggregations = k * half, k * half
    cables = []
    for pod in range(k):
        for edge in range(half):
            switch = pod * half + edge
            for i in range(half):
                cables.append(host_cable(f"h{switch * half + i + 1}", f"s{switch + 1}", host_link))
            for up in range(half):
                cables.append(Cable(f"s{switch + 1}", f"s{edges + pod * half + up + 1}", link))
    for pod in range(k):
        for up in range(half):
            for core in range(half):
                above = edges + aggregations + up * half + core
                cables.append(Cable(f"s{edges + pod * half + up + 1}", f"s{above + 1}", link))
    return Topology(tuple(cables), f"fat-tree k={k}")


def jellyfish(
    switches: int,
    ports: int,
    hosts_per_switch: int | Sequence[int],
    link: Link,
    seed: int,
    host_link: Link | None = None,
) -> Topology:
    """Build a random graph of switches of `ports` ports each, as Singla et al. do (NSDI 2012, section 3).

    hosts_per_switch : a number for all, or one for each switch; the other ports are joined at random.

    Switches with free ports are joined in random pairs; ports that find no partner break a random cable open. An odd
    port is left over. Raises NetreproError for a count that is no whole number, for a link that is no Link, and where
    no connected graph is possible.
    """
    switches, ports = whole_number(switches, "jellyfish: switches"), whole_number(ports, "jellyfish: ports")
    seed = whole_number(seed, "jellyfish: seed", least=0)
    hosts = _hosts_of_switches(hosts_per_switch, switches)
    what = f"a Jellyfish of {switches} switches of {ports} ports with {hosts_per_switch} hosts"
    if len(hosts) != switches:
        raise NetreproError(what, "give one number of hosts, or one for each switch")
    if min(hosts, default=0) < 0 or sum(hosts) < 2:
        raise NetreproError(what, "give two hosts or more")
    degrees = [ports - count for count in hosts]
    if min(degrees) < 1 or max(degrees) >= switches or sum(degrees) < 2 * (switches - 1):
        raise NetreproError(what, f"leave 1 to {switches - 1} ports of a switch for others, and enough to connect all")
    random = Random(seed)
    for _ in range(1000):
        graph = _join_at_random(degrees, random)
        if nx.is_connected(graph) and sum(dict(graph.degree).values()) == sum(degrees) // 2 * 2:
            graph.name = f"Jellyfish of {switches} switches"
            return from_graph(graph, link, hosts, host_link)
    raise NetreproError(what, "leave more ports between switches: a thousand random graphs were in pieces")


def _hosts_of_switches(hosts_per_switch: int | Sequence[int], switches: int) -> list[int]:
    if isinstance(hosts_per_switch, Mapping):
        raise NetreproError(
            f"hosts_per_switch = {dict(hosts_per_switch)!r}",
            "give one number, or a list in the order of the switches: [hosts[node] for node in graph]",
        )
    if isinstance(hosts_per_switch, Iterable):
        return [whole_number(count, "hosts of a switch", least=0) for count in hosts_per_switch]
    return [whole_number(hosts_per_switch, "hosts_per_switch", least=0)] * switches


def _join_at_random(degrees: Sequence[int], random: Random) -> nx.Graph:
    graph = nx.empty_graph(len(degrees))
    free = [node for node, degree in enumerate(degrees) for _ in range(degree)]  # a node for each free port
    random.shuffle(free)
    failures = 0
    while len(free) > 1 and failures < 100:
        (i, j) = random.sample(range(len(free)), 2)
        first, second = free[i], free[j]
        if first != second and not graph.has_edge(first, second):
            graph.add_edge(first, second)
        elif failures < 50 or not _break_open(graph, first, second, random):
            failures += 1
            continue
        failures = 0
        for place in sorted((i, j), reverse=True):
            free[place] = free[-1]
            free.pop()
    ordered = nx.empty_graph(len(degrees))
    ordered.add_edges_from(sorted(tuple(sorted(edge)) for edge in graph.edges))
    return ordered


def _break_open(graph: nx.Graph, first: int, second: int, random: Random) -> bool:
    """Remove a cable between two others, and join its ends to the first and the second."""
    edges = [edge if random.random() < 0.5 else edge[::-1] for edge in graph.edges]
    near_first, near_second = {first, *graph[first]}, {second, *graph[second]}
    possible = [edge for edge in edges if edge[0] not in near_first and edge[1] not in near_second]
    if not possible:
        return False
    one, other = random.choice(possible)
    graph.remove_edge(one, other)
    graph.add_edges_from([(first, one), (second, other)])
    return True


def from_graph(
    graph: nx.Graph, link: Link, hosts_per_switch: int | Sequence[int] = 1, host_link: Link | None = None
) -> Topology:
    """Build a topology whose switches are the nodes of a NetworkX graph, in the graph's order, each with its hosts.

    `hosts_per_switch` is a number for all or one for each. An edge with an attribute `link` has that link, the others
    have `link`. `names_of_switches` tells which switch a node has become. Raises NetreproError unless the graph is an
    undirected simple graph in one piece, for too few or too many numbers of hosts, and for a link that is no Link.
    """
    if not isinstance(graph, nx.Graph):
        raise NetreproError(
            f"a topology from {type(graph).__name__} in place of a graph",
            "give a graph of NetworkX; nx.Graph(...) makes one of a list of pairs, or of a dict of neighbours",
        )
    if graph.is_directed() or graph.is_multigraph():
        raise NetreproError("a topology from a directed graph or multigraph", "give a plain undirected graph")
    switch = names_of_switches(graph)
    counts = _hosts_of_switches(hosts_per_switch, len(switch))
    if len(counts) != len(switch):
        raise NetreproError(f"hosts for {len(counts)} of {len(switch)} switches", "give one number, or one for each")
    homes = [name for name, count in zip(switch.values(), counts, strict=True) for _ in range(count)]
    host_link = link if host_link is None else host_link
    hosts = [host_cable(f"h{i + 1}", name, host_link) for i, name in enumerate(homes)]
    fabric = [Cable(switch[a], switch[b], held.get("link", link)) for a, b, held in graph.edges(data=True)]
    return Topology((*hosts, *fabric), graph.name or "network")


def names_of_switches(graph: nx.Graph) -> dict[Hashable, str]:
    """Map each node to the name of the switch that from_graph makes of it.

    >>> names_of_switches(nx.Graph([("Seattle", "Denver"), ("Denver", "Chicago")]))
    {'Seattle': 's1', 'Denver': 's2', 'Chicago': 's3'}
    """
    return {node: f"s{i + 1}" for i, node in enumerate(graph)}
