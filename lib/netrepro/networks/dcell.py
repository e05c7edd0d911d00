"""DCell (Guo et al., SIGCOMM 2008): a network that servers forward in, defined by recursion; its routing, its
broadcast, its way around failures, and its topology for experiments.

A DCell_0 is n servers on a mini-switch. A DCell_l joins all its DCell_(l-1)s with each other, every two by one cable
between two servers. A server's address [a_k, ..., a_0] says in which of them it is at every level; a path is the tuple
of the addresses of its servers, a hop leads from a server to the next one (over a mini-switch or a cable).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import shortest_path

from netrepro.errors import NetreproError
from netrepro.networks.description import check_count, whole_number
from netrepro.networks.links import Link
from netrepro.networks.topology import Cable, Topology

Server = tuple[int, ...]
Hop = frozenset[Server]
ServerPath = tuple[Server, ...]
MOST_SERVERS = 5_000_000


def servers_in(n: int, level: int) -> int:
    """Compute t_l, the servers of a DCell_l of n-port switches (section 3.1): t_0 = n, t_l = (t_(l-1) + 1) t_(l-1)."""
    servers = n
    for _ in range(level):
        servers *= servers + 1
    return servers


def longest_path(k: int) -> int:
    """Return the bound on hops of DCellRouting in a DCell_k (section 4.1, theorem 3): 2^(k+1) - 1."""
    return 2 ** (k + 1) - 1


@dataclass(frozen=True)
class DCell:
    """A DCell_k of mini-switches with n ports. Raises NetreproError for fewer than two ports, a negative k, or more
    than MOST_SERVERS servers."""

    n: int
    k: int

    def __post_init__(self) -> None:
        check_count(self, "n", least=2)
        check_count(self, "k", least=0, most=5)
        if servers_in(self.n, self.k) > MOST_SERVERS:
            raise NetreproError(f"a DCell_{self.k} of n = {self.n}: {servers_in(self.n, self.k)} servers", "take fewer")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """t_0 to t_k."""
        return tuple(servers_in(self.n, level) for level in range(self.k + 1))

    def address(self, number: int) -> Server:
        """Return the server with this number, 0 to t_k - 1."""
        digits = []
        for size in self.sizes[-2::-1]:
            digit, number = divmod(number, size)
            digits.append(digit)
        return (*digits, number)

    def number(self, server: Server) -> int:
        """Return a server's number, the inverse of `address`; of its last l + 1 digits, that within their DCell_l."""
        return server[-1] + sum(digit * self.sizes[level] for level, digit in enumerate(reversed(server[:-1])))

    @cached_property
    def servers(self) -> tuple[Server, ...]:
        """All addresses, by number."""
        return tuple(map(self.address, range(self.sizes[-1])))

    def check_server(self, server: Server) -> None:
        """Raise NetreproError for an address that no server has."""
        most = (*(self.sizes[level - 1] for level in range(self.k, 0, -1)), self.n - 1)
        if len(server) != self.k + 1 or not all(0 <= digit <= top for digit, top in zip(server, most, strict=True)):
            raise NetreproError(
                f"no server {list(server)} in a DCell_{self.k} of n = {self.n}",
                f"give {self.k + 1} digits, up to {most}",
            )

    def peer(self, server: Server, level: int) -> Server:
        """Find the server at the other end of the cable of this level, 1 to k.

        Section 3.1: of the DCell_(level-1)s i < j, server j - 1 of the one is joined to server i of the other.
        """
        place = self.k - level
        own, within = server[place], self.number(server[place + 1 :])
        other, number = (within + 1, own) if within >= own else (within, own - 1)
        return (*server[:place], other, *self._within(number, level - 1))

    def _within(self, number: int, level: int) -> Server:
        return self.address(number)[self.k - level :]

    def neighbours(self, server: Server) -> Iterator[Server]:
        """Yield the peers of levels 1 to k, then those on the same mini-switch."""
        yield from (self.peer(server, level) for level in range(1, self.k + 1))
        yield from ((*server[:-1], digit) for digit in range(self.n) if digit != server[-1])

    def level(self, one: Server, other: Server) -> int:
        """Return the smallest l for which both servers are in the same DCell_l."""
        return self.k - next(
            (place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), self.k
        )

    @cached_property
    def graph(self) -> nx.Graph:
        """Servers and hops; do not change it."""
        graph = nx.Graph()
        graph.add_nodes_from(self.servers)
        graph.add_edges_from((server, other) for server in self.servers for other in self.neighbours(server))
        return graph

    def joining(self, one: Server, other: Server) -> tuple[Server, Server]:
        """Return the ends of the cable between the DCell_(l-1)s that hold the two; one's end first.

        Here l is the level of both.
        """
        level = self.level(one, other)
        place = self.k - level
        low, high = sorted((one[place], other[place]))
        ends = {
            low: (*one[:place], low, *self._within(high - 1, level - 1)),
            high: (*one[:place], high, *self._within(low, level - 1)),
        }
        return ends[one[place]], ends[other[place]]

    def route(self, source: Server, destination: Server) -> ServerPath:
        """Route by DCellRouting (section 4.1): over the cable that joins the two parts of the smallest common DCell.

        The ways to this cable and from it follow the same rule. Raises NetreproError for unknown servers.
        """
        self.check_server(source)
        self.check_server(destination)
        return self._route(source, destination)

    def _route(self, source: Server, destination: Server) -> ServerPath:
        if source == destination:
            return (source,)
        if self.level(source, destination) == 0:
            return source, destination
        near, far = self.joining(source, destination)
        return self._route(source, near) + self._route(far, destination)

    def route_lengths(self) -> np.ndarray:
        """Count hops of DCellRouting from every server (row, by number) to every other one."""
        lengths = 1 - np.eye(self.n, dtype=np.int16)
        for size in self.sizes[:-1]:
            parts = size + 1
            whole = np.kron(np.eye(parts, dtype=np.int16), lengths)
            for low in range(parts):
                for high in range(low + 1, parts):
                    over = lengths[:, [high - 1]] + 1 + lengths[[low], :]
                    rows, columns = slice(low * size, (low + 1) * size), slice(high * size, (high + 1) * size)
                    whole[rows, columns], whole[columns, rows] = over, over.T
            lengths = whole
        return lengths

    def shortest_lengths(self) -> np.ndarray:
        """Count hops of shortest paths, as `route_lengths`."""
        matrix = nx.to_scipy_sparse_array(self.graph, nodelist=self.servers, format="csr")
        return shortest_path(matrix, unweighted=True).astype(np.int16)

    def broadcast(self, source: Server, failed: Collection[Server] = ()) -> tuple[dict[Server, int], int]:
        """Broadcast by DCellBroadcast (section 4.2): at its first copy, a server sends it on to all neighbours.

        failed : servers that are down. Returns (server -> hops from the source, for all that are reached; the number of
        messages sent). Raises NetreproError for an unknown source.
        """
        self.check_server(source)
        hops, waiting, messages = {source: 0}, deque([source]), 0
        while waiting:
            server = waiting.popleft()
            for other in self.neighbours(server):
                messages += 1
                if other not in hops and other not in failed:
                    hops[other] = hops[server] + 1
                    waiting.append(other)
        return hops, messages

    def route_around(
        self,
        source: Server,
        destination: Server,
        failed: Collection[Server] = (),
        broken: Collection[Hop] = (),
        *,
        state_level: int = 0,
        retries: int = 5,
    ) -> ServerPath | None:
        """Follow fault-tolerant routing (DFR, section 4.3) of a packet, hop by hop; None where it is dropped.

        failed : servers that are down. broken : cables (sets of two servers) that are down. state_level : level of the
        DCells in which servers know each other's links and take shortest paths, b in the paper. To leave such a DCell,
        a packet takes the cable that DCellRouting says. Where that cable is down, the packet goes by a proxy: the far
        end of a cable to a third part of the same DCell (local reroute), the nearest first, and where that fails as
        well, of the DCell above (jump up). retries : the most proxies. Raises NetreproError for unknown servers.
        """
        self.check_server(source)
        self.check_server(destination)
        down, cut = frozenset(failed), frozenset(broken)
        if {source, destination} & down:
            return None
        here, proxy, path, level = source, None, [source], 0
        while here != destination:
            proxy = None if here == proxy else proxy
            goal = proxy or destination
            leaving = next((hop for hop in pairwise(self._route(here, goal)) if self.level(*hop) > state_level), None)
            onward = self._onward(here, leaving, goal, down, cut, state_level)
            if onward is None:
                if retries == 0 or (leaving is None and goal == destination):
                    return None
                level = min(max(self.level(*leaving) if leaving else 1, level), self.k)
                proxy = self._proxy(here, goal, level, down, cut, state_level)
                retries, level = retries - 1, level + 1
                if proxy is None and level > self.k:
                    return None
                continue
            here = onward
            path.append(here)
        return tuple(path)

    def _onward(
        self,
        here: Server,
        leaving: tuple[Server, Server] | None,
        goal: Server,
        down: frozenset[Server],
        cut: frozenset[Hop],
        state_level: int,
    ) -> Server | None:
        """Find the next server towards the goal, by what `here` knows of its own DCell_b; None without a way."""
        if leaving and here == leaving[0]:
            is_up = leaving[1] not in down and frozenset(leaving) not in cut
            return leaving[1] if is_up else None
        before = self._reached(here, down, cut, state_level)
        target = leaving[0] if leaving else goal
        if target not in before:
            return None
        while before[target] != here:
            target = before[target]
        return target

    def _reached(
        self, here: Server, down: frozenset[Server], cut: frozenset[Hop], state_level: int
    ) -> dict[Server, Server]:
        """Map reachable servers of the same DCell_b, nearest first, to the one before on a shortest path."""
        before, waiting = {here: here}, deque([here])
        while waiting:
            server = waiting.popleft()
            for other in self.neighbours(server):
                is_up = other not in down and frozenset((server, other)) not in cut
                if other not in before and is_up and self.level(here, other) <= state_level:
                    before[other] = server
                    waiting.append(other)
        return before

    def _proxy(
        self,
        here: Server,
        goal: Server,
        level: int,
        down: frozenset[Server],
        cut: frozenset[Hop],
        state_level: int,
    ) -> Server | None:
        """Find the far end of the nearest cable of this level that leads to a third part."""
        place = self.k - level
        for near in self._reached(here, down, cut, state_level):
            far = self.peer(near, level)
            is_third = far[: place + 1] != goal[: place + 1]
            if is_third and far not in down and frozenset((near, far)) not in cut:
                return far
        return None

    # For experiments.

    def host(self, server: Server) -> str:
        """Name a server as a host: [0,...,0] is h1."""
        return f"h{self.number(server) + 1}"

    def forwarder(self, server: Server) -> str:
        """Name the part of a server that forwards (in `split_topology`: that takes packets in)."""
        return f"s{self.number(server) + 1}"

    def sender(self, server: Server) -> str:
        """Name the part of a server that puts packets out, in `split_topology`."""
        return f"s{self.sizes[-1] + self.number(server) + 1}"

    def mini_switch(self, server: Server, parts: int = 1) -> str:
        """Name the mini-switch of a server's DCell_0. parts : number of switches that make up a server's forwarder."""
        return f"s{parts * self.sizes[-1] + self.number(server) // self.n + 1}"

    @property
    def name(self) -> str:
        """The network in words: "DCell_1 of n = 4"."""
        return f"DCell_{self.k} of n = {self.n}"

    def topology(self, link: Link, inside: Link) -> Topology:
        """Build a topology: each server is a host on a switch of its own, which forwards. inside : the link of both.

        Switches are the servers' by number, then the mini-switches.
        """
        cables = [Cable(self.host(each), self.forwarder(each), inside) for each in self.servers]
        cables += [Cable(self.forwarder(each), self.mini_switch(each), link) for each in self.servers]
        cables += [Cable(self.forwarder(a), self.forwarder(b), link) for a, b in self._cables()]
        return Topology(tuple(cables), self.name)

    def names(self, path: ServerPath) -> tuple[str, ...]:
        """Name a path by the nodes of `topology`, from host to host."""
        nodes = [self.host(path[0]), self.forwarder(path[0])]
        for one, other in pairwise(path):
            nodes += [self.mini_switch(one)] if self.level(one, other) == 0 else []
            nodes.append(self.forwarder(other))
        return (*nodes, self.host(path[-1]))

    def split_topology(self, link: Link, inside: Link, processor: Link) -> Topology:
        """Build `topology` with two switches a server: packets that enter pass the link `processor` before they leave.

        Packets that a server sends, receives or forwards pass `processor` once each, on paths of `split_names`. Packets
        that go back over a path (acknowledgements) pass links of their own: as fast as `link` between servers, and as
        fast as `inside` within a server.
        """
        cables = []
        for each in self.servers:
            host, into, out, mini = self.host(each), self.forwarder(each), self.sender(each), self.mini_switch(each, 2)
            cables += [Cable(host, into, inside), Cable(into, out, processor, inside), Cable(out, host, inside)]
            cables += [Cable(out, mini, link), Cable(mini, into, link)]
        for one, other in self._cables():
            cables += [Cable(self.sender(a), self.forwarder(b), link) for a, b in ((one, other), (other, one))]
        return Topology(tuple(cables), self.name)

    def split_names(self, path: ServerPath) -> tuple[str, ...]:
        """Name a path by the nodes of `split_topology`, from host to host."""
        nodes = [self.host(path[0]), self.forwarder(path[0]), self.sender(path[0])]
        for one, other in pairwise(path):
            nodes += [self.mini_switch(one, 2)] if self.level(one, other) == 0 else []
            nodes += [self.forwarder(other), self.sender(other)]
        return (*nodes, self.host(path[-1]))

    def _cables(self) -> Iterator[tuple[Server, Server]]:
        """List the cables of levels 1 to k, each once."""
        for level in range(1, self.k + 1):
            for server in self.servers:
                other = self.peer(server, level)
                if server < other:
                    yield server, other


def two_level_tree(racks: int, servers_per_rack: int, link: Link, uplink: Link | None = None) -> Topology:
    """Build racks of servers on mini-switches s1, s2, ..., joined by one more switch; Fig. 12 compares with it.

    uplink : the link from each mini-switch to that one; None: `link`. Raises NetreproError for fewer than two racks,
    racks without servers, and a link that is no Link.
    """
    racks = whole_number(racks, "two_level_tree: racks", least=2)
    servers_per_rack = whole_number(servers_per_rack, "two_level_tree: servers_per_rack")
    uplink, root = link if uplink is None else uplink, f"s{racks + 1}"
    cables = [Cable(f"h{i + 1}", f"s{i // servers_per_rack + 1}", link) for i in range(racks * servers_per_rack)]
    cables += [Cable(f"s{rack + 1}", root, uplink) for rack in range(racks)]
    return Topology(tuple(cables), f"two-level tree of {racks * servers_per_rack} servers")
