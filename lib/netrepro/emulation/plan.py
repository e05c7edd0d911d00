"""From a topology to messages for the kernel: interfaces, addresses, routes, shapers. Nothing is built here."""

from __future__ import annotations

import ipaddress
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import networkx as nx
import numpy as np

from netrepro.emulation import messages
from netrepro.emulation.messages import IPV6_PREFIX, Interface, NetlinkRequest, NextHop
from netrepro.emulation.netem import redirection, wire
from netrepro.emulation.refusals import NO_SPRAYING, check_link, is_wire
from netrepro.emulation.tcp import check_tcp, host_sysctls, route_metrics
from netrepro.errors import NetreproError, nearest
from netrepro.networks.links import Link
from netrepro.networks.queues import FULL_PACKET_BYTES, DropTail
from netrepro.networks.routing import Path, Routing, check_path, links_in_use
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

# Timers fire late by tens of us, and a bucket of one packet cannot catch up after that: on a busy machine 100 Mb/s
# came out as 86 to 93. With 128 us more than a packet the rate holds, and bursts stay as short.
PACKET_BURST_BYTES, BURST_S = 1600, 128e-6
NO_HOSTS_ADDRESSES = ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")  # "this host", loopback, multicast and above
HUB = "hub"  # the namespace of the launcher itself, where netem's wires are
# First interface index in the hub. The hub also makes the interfaces of all nodes, and kernels before 6.15 refuse an
# index for another namespace that an interface of the hub itself has.
FIRST_OF_HUB = 1 << 20
FIRST_DESCRIPTOR = 100  # first file descriptor of a namespace in the launcher; the others follow without gaps

# Policy 1 would hash forwarded TCP with the sender's own hash. All routers would share this hash, and flows would use
# only some of the paths. Policy 3 hashes addresses, protocol and ports (0x37) in each router with the router's seed.
# Before Linux 6.11 all routers have one seed: there each router hashes the ports with a different set of other fields.
HASH_POLICY, HASH_FIELDS, HASH_SEED = (f"net/ipv4/fib_multipath_hash_{name}" for name in ("policy", "fields", "seed"))
ALL_FIELDS, PORT_FIELDS = 0x37, 0x30
COMMON_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
}


# For networks with IPv6: a host has only the addresses that it is given, and can use them at once.
IPV6_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/default/disable_ipv6": "0",
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/accept_ra": "0",
    "net/ipv6/conf/default/addr_gen_mode": "1",  # none
    "net/ipv6/conf/default/router_solicitations": "0",
}


@dataclass(frozen=True)
class Port:
    """One direction of a cable, from the interface that shapes it to the interface at which packets arrive.

    shaper : (namespace, interface index). arrival_interface : name. tap : (namespace, interface name) where packets can
    first be observed after the shaper.
    """

    source: str
    destination: str
    link: Link
    shaper: tuple[str, int]
    arrival_interface: str
    tap: tuple[str, str]

    def shaped(self, link: Link) -> list[NetlinkRequest]:
        """Make the messages that set rate and drop-tail buffer of `link` at the sending interface."""
        bytes_per_s = round(link.rate_mbps * 1e6 / 8)
        burst_bytes = PACKET_BURST_BYTES + round(bytes_per_s * BURST_S)
        buffer = _drop_tail(link)
        room_bytes = buffer.bytes or FULL_PACKET_BYTES
        shaper = messages.new_shaper(self.shaper[1], bytes_per_s, burst_bytes, room_bytes)
        return [shaper] if buffer.packets is None else [shaper, self.buffer(link)]

    def buffer(self, link: Link) -> NetlinkRequest:
        """Make the message that sets only the buffer inside the shaper."""
        buffer = _drop_tail(link)
        if buffer.packets is not None:
            return messages.new_packet_limit(self.shaper[1], buffer.packets)
        return messages.new_byte_limit(self.shaper[1], buffer.bytes or FULL_PACKET_BYTES)


@dataclass(frozen=True)
class Wire:
    """One direction (from, to) of a cable that netem delays, between two interfaces of the hub (indices)."""

    direction: tuple[str, str]
    from_index: int
    to_index: int
    link: Link


@dataclass
class Cabling:
    """Messages that make all interfaces, and the places of ports, wires and cable ends."""

    requests: list[NetlinkRequest] = field(default_factory=list)
    ports: dict[tuple[str, str], Port] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    index_towards: dict[tuple[str, str], int] = field(default_factory=dict)  # (node, neighbour) -> interface
    still_down: list[tuple[str, int]] = field(default_factory=list)  # (namespace, interface)


@dataclass(frozen=True)
class Plan:
    """The plan of everything that is built for `topology`.

    congestion_control : host -> name, "" where sockets choose. addresses : node -> IPv4 address.
    """

    topology: Topology
    congestion_control: Mapping[str, str]
    addresses: Mapping[str, ipaddress.IPv4Address]
    seed: int
    tcp: Tcp | None = None  # None: the kernel's own settings
    tcp_of_hosts: Mapping[str, Tcp] = field(default_factory=dict)  # hosts with other settings than `tcp`
    in_use: frozenset[tuple[str, str]] | None = None  # links (from, to) that routes may use; None: all
    paths: tuple[Path, ...] = ()  # each has an address of its own at its last node
    ipv6: bool = False  # beside IPv4

    @cached_property
    def ipv6_addresses(self) -> dict[str, ipaddress.IPv6Address]:
        """node -> IPv6 address: IPV6_PREFIX, then the IPv4 address; empty in a network without IPv6."""
        if not self.ipv6:
            return {}
        return {node: ipaddress.IPv6Address(IPV6_PREFIX + each.packed) for node, each in self.addresses.items()}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The namespaces in the launcher's order: the hub, hosts, switches."""
        return (HUB, *self.topology.hosts, *self.topology.switches)

    def descriptor(self, node: str) -> int:
        """Return the launcher's file descriptor of the node's namespace."""
        return FIRST_DESCRIPTOR + self._place[node]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {node: place for place, node in enumerate(self.nodes)}

    @cached_property
    def _cabling(self) -> Cabling:
        made = Cabling()
        used = dict.fromkeys(self.nodes, 0)
        used[HUB] = FIRST_OF_HUB - 2

        def interface(node: str, name: str) -> Interface:
            used[node] += 1
            return Interface(name, 1 + used[node], self.descriptor(node))

        def end(node: str, neighbour: str) -> Interface:
            new = interface(node, f"{node}-eth{used[node] + (node[0] == 's')}")
            made.index_towards[node, neighbour] = new.index
            return new

        for number, cable in enumerate(self.topology.cables):
            a, b = cable.first, cable.second
            address = b"\x02\x00" + number.to_bytes(4, "big")
            first, second = end(a, b), end(b, a)
            directions = {(a, b): cable.forward, (b, a): cable.backward or cable.forward}
            taps = {(a, b): (b, second.name), (b, a): (a, first.name)}
            if not any(self.needs_wire(link) for link in directions.values()):
                made.requests.append(messages.new_pair(first, second, address, cable.forward.mtu_bytes))
                made.still_down.append((b, second.index))
            else:
                near, far = interface(HUB, f"{a}.{b}"), interface(HUB, f"{b}.{a}")
                made.requests.append(messages.new_pair(first, near, address))
                made.requests.append(messages.new_pair(second, far, address))
                made.still_down += [(HUB, near.index), (HUB, far.index)]
                # The wire is behind the shaper; packets are observed between the two.
                made.wires.append(Wire((a, b), near.index, far.index, directions[a, b]))
                made.wires.append(Wire((b, a), far.index, near.index, directions[b, a]))
                taps = {(a, b): (HUB, near.name), (b, a): (HUB, far.name)}
            for ends, leaves, arrives in (((a, b), first, second), ((b, a), second, first)):
                shaper = ends[0], leaves.index
                made.ports[ends] = Port(*ends, directions[ends], shaper, arrives.name, taps[ends])
        return made

    def needs_wire(self, link: Link) -> bool:
        """Tell whether the link needs netem, because it does more than the kernel's shaper."""
        return is_wire(link)

    @property
    def cables(self) -> list[NetlinkRequest]:
        """Messages for the launcher's own namespace; they make all interfaces directly in the nodes' namespaces."""
        return self._cabling.requests

    @property
    def ports(self) -> dict[tuple[str, str], Port]:
        """(from, to) -> the Port of that direction."""
        return self._cabling.ports

    @property
    def wires(self) -> list[Wire]:
        """netem's wires, in the order of the cables: both directions of a cable where at least one needs netem."""
        return self._cabling.wires

    @cached_property
    def requests(self) -> dict[str, list[NetlinkRequest]]:
        """node -> messages to send inside its namespace, after those of `cables`."""
        of_nodes = {node: [messages.interface_up(1)] for node in self.nodes if node != HUB}
        for node, index in self._cabling.still_down:
            of_nodes.setdefault(node, []).append(messages.interface_up(index))
        for node, requests in of_nodes.items():
            if node == HUB:
                continue
            home = 1 if node[0] == "s" else 2  # a switch's address is for its ICMP only
            requests += self._new_addresses(home, self.addresses[node])
        for port in self.ports.values():
            of_nodes.setdefault(port.shaper[0], []).extend(self.shaped(port))
        for each in self.wires:
            of_nodes[HUB] += redirection(each.from_index, each.to_index)
            of_nodes[HUB].append(self.wire(each.direction, each.link))
        for node, routes in self.routes_over(self.in_use).items():
            of_nodes[node] += routes.values()
        for node, more in self._routes_of_paths().items():
            of_nodes[node] += more
        return of_nodes

    def _new_addresses(self, index: int, address: ipaddress.IPv4Address) -> list[NetlinkRequest]:
        """Give the interface an IPv4 address, and the IPv6 address in a network with IPv6."""
        wanted = [address.packed, *([IPV6_PREFIX + address.packed] if self.ipv6 else [])]
        return [messages.new_address(index, each) for each in wanted]

    def _new_routes(
        self, destination: bytes, hops: list[NextHop], own: tuple[bytes, str, dict[int, int] | None] | tuple[()]
    ) -> dict[bytes, NetlinkRequest]:
        """Make the IPv4 route, and the IPv6 route in a network with IPv6: destination -> message.

        own : (source address, congestion control, metrics) of a host's routes, else ().
        """
        source, control, metrics = own or (None, None, None)
        return {
            prefix + destination: messages.new_route(destination, hops, source, control, metrics, prefix)
            for prefix in (b"", *([IPV6_PREFIX] if self.ipv6 else []))
        }

    def shaped(self, port: Port) -> list[NetlinkRequest]:
        """Make the messages that turn the port into a link: its rate and its buffer."""
        return port.shaped(port.link)

    @property
    def seeded(self) -> bool:
        """True where each router can have its own hash for the choice among equal paths."""
        return has_hash_seeds()

    def wire(self, direction: tuple[str, str], link: Link) -> NetlinkRequest:
        """Make the message that configures netem on the wire of this direction for `link`."""
        each, seed = self._wires[direction]
        return wire(each.to_index, link, seed)

    @cached_property
    def _wires(self) -> dict[tuple[str, str], tuple[Wire, int]]:
        """(from, to) -> the wire and the seed of its random numbers."""
        seeds = np.random.default_rng(self.seed).integers(2**63, size=len(self.wires)).tolist()
        return {each.direction: (each, seed) for each, seed in zip(self.wires, seeds, strict=True)}

    @cached_property
    def path_addresses(self) -> dict[Path, ipaddress.IPv4Address]:
        """path -> the address that leads over it; these addresses follow those of the hosts."""
        last = max(self.addresses[host] for host in self.topology.hosts)
        return {path: last + 1 + place for place, path in enumerate(self.paths)}

    def address_over(self, path: Path, host: str) -> ipaddress.IPv4Address:
        """Return the host's address that leads over the path; the host's own address for the path ()."""
        return self.path_addresses[path] if path else self.addresses[host]

    def _routes_of_paths(self) -> dict[str, list[NetlinkRequest]]:
        """Map node -> messages that route each path's address over the path and give it to the path's last node."""
        of_nodes: dict[str, list[NetlinkRequest]] = {}
        towards = self._cabling.index_towards
        for path, address in self.path_addresses.items():
            of_nodes.setdefault(path[-1], []).extend(self._new_addresses(2, address))
        for path, address in self.path_addresses.items():
            back = self.path_addresses.get(path[::-1])
            for node, peer in pairwise(path):
                gateway = None if peer == path[-1] else self.addresses[peer].packed
                own = self._own_attributes(node) if node[0] == "h" else ()
                if own and back:  # answers to this source address take the reverse path
                    own = back.packed, *own[1:]
                routes = self._new_routes(address.packed, [NextHop(towards[node, peer], gateway)], own)
                of_nodes.setdefault(node, []).extend(routes.values())
        return of_nodes

    def _own_attributes(self, host: str) -> tuple[bytes, str, dict[int, int] | None]:
        """Return the attributes of a host's routes: its address, congestion control and metrics (TCP settings)."""
        tcp = self._tcp_of(host)
        metrics = route_metrics(tcp) if tcp else None
        return self.addresses[host].packed, self.congestion_control[host], metrics

    def _tcp_of(self, host: str) -> Tcp | None:
        return self.tcp_of_hosts.get(host, self.tcp)

    @property
    def sysctls(self) -> dict[str, dict[str, str]]:
        """node -> kernel settings (sysctls) of its namespace, which are set before it has interfaces."""
        seeds = np.random.default_rng(self.seed).integers(1, 2**31, len(self.nodes))
        seeded = self.seeded
        fields = {} if seeded else hashed_fields(self.topology, self.seed)
        of_nodes = {node: COMMON_SYSCTLS | (IPV6_SYSCTLS if self.ipv6 and node != HUB else {}) for node in self.nodes}
        for node, seed in zip(self.nodes[1:], seeds[1:], strict=True):
            if node[0] == "s":
                of_nodes[node]["net/ipv4/ip_forward"] = "1"
                if self.ipv6:
                    of_nodes[node]["net/ipv6/conf/all/forwarding"] = "1"
            elif tcp := self._tcp_of(node):
                of_nodes[node] |= host_sysctls(tcp)
            if self._has_equal_paths:
                own = (
                    {HASH_FIELDS: ALL_FIELDS, HASH_SEED: seed}
                    if seeded
                    else {HASH_FIELDS: fields.get(node, ALL_FIELDS)}
                )
                chosen = {HASH_POLICY: "3"} | {name: str(value) for name, value in own.items()}
                of_nodes[node] |= chosen
                if self.ipv6:  # the seed is common to IPv4 and IPv6
                    of_nodes[node] |= {
                        name.replace("ipv4", "ipv6"): chosen[name] for name in (HASH_POLICY, HASH_FIELDS)
                    }
        return of_nodes

    @property
    def _has_equal_paths(self) -> bool:
        """True where two nodes may have several shortest paths, as in any graph that is not a tree."""
        return self.topology.graph.number_of_edges() >= self.topology.graph.number_of_nodes()

    def routes_over(self, in_use: frozenset[tuple[str, str]] | None) -> dict[str, dict[bytes, NetlinkRequest]]:
        """Map node -> destination address -> route over all shortest paths of the links in use.

        in_use : links (from, to), None for all. A host with one cable has one route over this cable, in use or not.
        Raises NetreproError for hosts that only other hosts join, when `in_use` is the plan's own.
        """
        used = self.topology.ports.keys() if in_use is None else in_use
        graph = self.topology.graph
        onward = {node: tuple(peer for peer in peers if (node, peer) in used) for node, peers in graph.adjacency()}
        inward = {node: tuple(peer for peer in peers if (peer, node) in used) for node, peers in graph.adjacency()}
        packed = {node: address.packed for node, address in self.addresses.items()}
        routes: dict[str, dict[bytes, NetlinkRequest]] = {node: {} for node in self.nodes if node != HUB}
        hop = self._hop
        only = {host for host in self.topology.hosts if len(graph[host]) == 1}
        for host in only:
            routes[host] |= self._only_route(host)
        for neighbours, hosts in self._hosts_by_neighbours(inward).items():
            distance = _distances(inward, neighbours)
            if in_use is self.in_use:
                _check_reachable(self.topology, hosts[0], distance)
            for node, far in distance.items():
                if node in only:
                    continue
                nearer = [peer for peer in onward[node] if distance.get(peer) == far - 1 and peer[0] == "s"]
                hops = [hop(node, peer, "") for peer in nearer]
                for host in hosts:
                    if host == node:
                        continue
                    direct = [hop(node, host, host)] if node in neighbours else hops
                    own = self._own_attributes(node) if node[0] == "h" else ()
                    routes[node] |= self._new_routes(packed[host], direct, own)
        return routes

    def _hop(self, node: str, neighbour: str, destination: str) -> NextHop:
        gateway = None if neighbour == destination else self.addresses[neighbour].packed
        return NextHop(self._cabling.index_towards[node, neighbour], gateway)

    def _only_route(self, host: str) -> dict[bytes, NetlinkRequest]:
        """Route everything over the host's one cable."""
        (neighbour,) = self.topology.graph[host]
        return self._new_routes(b"", [self._hop(host, neighbour, "")], self._own_attributes(host))

    def _hosts_by_neighbours(self, inward: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
        """Group hosts with the same neighbours: routes to them are alike, so one search serves the group."""
        hosts: dict[tuple[str, ...], list[str]] = {}
        for host in self.topology.hosts:
            if inward[host]:
                hosts.setdefault(inward[host], []).append(host)
        return hosts


def _distances(inward: Mapping[str, tuple[str, ...]], neighbours: Iterable[str]) -> dict[str, int]:
    """Count the cables from each node to a host with these neighbours; no path leads through another host.

    inward : node -> the nodes that can send to it.
    """
    distance = dict.fromkeys(neighbours, 1)
    frontier = list(distance)
    while frontier:
        reached = []
        for node in frontier:
            if node[0] == "h":
                continue
            for peer in inward[node]:
                if peer not in distance:
                    distance[peer] = distance[node] + 1
                    reached.append(peer)
        frontier = reached
    return distance


def _check_reachable(topology: Topology, host: str, distance: Mapping[str, int]) -> None:
    for other in topology.hosts:
        if other != host and other not in distance:
            raise NetreproError(
                f"{topology.name}: {other} could reach {host} only through another host, and hosts do not forward",
                "join them by a switch",
            )


def has_hash_seeds() -> bool:
    """Tell whether each router can have its own hash for the choice among equal paths."""
    return pathlib.Path("/proc/sys", HASH_SEED).exists()


def hashed_fields(topology: Topology, seed: int) -> dict[str, int]:
    """Map nodes with several cables to fib_multipath_hash_fields: bits of the ports and of other fields.

    The fields replace a seed for each router; nodes near each other get different ones where possible.
    """
    choices = np.random.default_rng(seed).permutation([PORT_FIELDS | others for others in range(8)]).tolist()
    fields_of: dict[str, int] = {}
    for node in (node for node, cables in topology.graph.degree if cables > 1):
        near = nx.single_source_shortest_path_length(topology.graph, node, cutoff=3)
        taken = Counter(fields_of[other] for other in near if other in fields_of)
        fields_of[node] = min(choices, key=lambda fields: taken[fields])
    return fields_of


def _drop_tail(link: Link) -> DropTail:
    assert isinstance(link.queue, DropTail)  # check_link has made sure
    return link.queue


def make_plan(
    topology: Topology,
    congestion_control: str | Mapping[str, str] = "cubic",
    seed: int = 1,
    address_pool: str = "10.0.0.0/8",
    tcp: Tcp | Mapping[str, Tcp] | None = None,
    routing: Routing | str = "ecmp",
    paths: Iterable[Path] = (),
    *,
    ipv6: bool = False,
) -> Plan:
    """Make the plan of a network of kernels in real time.

    address_pool : hosts get its first addresses (h1 10.0.0.1), switches its last, counted downwards.
    congestion_control : a name for all hosts, or host -> name; hosts not named have cubic.
    seed : seed of the routers' hashes, which choose among equal paths.
    tcp : TCP settings of all hosts, except the congestion control, or host -> Tcp (others: the kernel's own).
    routing : routes to the hosts' own addresses: "ecmp", also for "k_shortest_paths", or "spanning_tree".
    paths : each from host to host; each gets its own address (Plan.path_addresses).
    ipv6 : True for IPv6 beside IPv4, with the same routes (Plan.ipv6_addresses).

    Raises NetreproError for what kernels cannot do: a rate above MAX_RATE_MBPS, a queue that is not drop-tail, a
    policer, packet spraying, too few addresses, hosts joined only through other hosts, a congestion control for an
    unknown host, and what check_tcp and check_netem refuse.
    """
    for (source, destination), link in topology.ports.items():
        check_link(f"the link from {source} to {destination}", link)
    common, of_hosts = tcp_by_host(topology, tcp)
    for each in filter(None, (common, *of_hosts.values())):
        check_tcp(each)
        if each.send_buffer_bytes is not None:
            raise NetreproError("a send_buffer_bytes in real time", "use tier 'virtual' or 'simulated'")
    routing = routing if isinstance(routing, Routing) else Routing(routing)
    if routing.scheme == "packet_spraying":
        raise NetreproError(NO_SPRAYING, "use tier 'simulated'")
    in_use = tree_in_use(topology, routing)
    chosen = tuple(dict.fromkeys(map(tuple, paths)))
    for path in chosen:
        check_path(topology, path, path[0], path[-1])
    controls, places = host_controls(topology, congestion_control), addresses(topology, address_pool, len(chosen))
    plan = Plan(topology, controls, places, seed, common, of_hosts, in_use, chosen, ipv6)
    _ = plan.requests  # finds hosts that no route can reach
    return plan


def tree_in_use(topology: Topology, routing: Routing) -> frozenset[tuple[str, str]] | None:
    """Return the links (from, to) of the spanning tree with routing "spanning_tree", else None for all links."""
    return links_in_use(topology, routing, ())[0][1] if routing.scheme == "spanning_tree" else None


def host_controls(topology: Topology, congestion_control: str | Mapping[str, str]) -> dict[str, str]:
    """Map host -> congestion control, from one name for all or names of some hosts; others have cubic.

    Raises NetreproError for an unknown host, and for a name that is not a string.
    """
    named = congestion_control.values() if isinstance(congestion_control, Mapping) else [congestion_control]
    for name in named:
        if not isinstance(name, str):
            raise NetreproError(f"congestion_control = {congestion_control!r}", "give a name, or a dict: host -> name")
    controls = dict.fromkeys(topology.hosts, "cubic")
    if isinstance(congestion_control, str):
        controls = dict.fromkeys(topology.hosts, congestion_control)
    else:
        for host, name in congestion_control.items():
            topology.check_host(host)
            controls[host] = name
    return controls


def tcp_by_host(topology: Topology, tcp: Tcp | Mapping[str, Tcp] | None) -> tuple[Tcp | None, dict[str, Tcp]]:
    """Return (TCP settings of all hosts or None, host -> own settings). Raises NetreproError for an unknown host."""
    if tcp is None or isinstance(tcp, Tcp):
        return tcp, {}
    ways = tcp.values() if isinstance(tcp, Mapping) else [tcp]
    if not all(isinstance(each, Tcp) for each in ways):
        raise NetreproError(f"tcp = {tcp!r}", "give a Tcp, or a dict: host -> Tcp")
    for host in tcp:
        topology.check_host(host)
    return None, dict(tcp)


def addresses(topology: Topology, pool: str, paths: int = 0) -> dict[str, ipaddress.IPv4Address]:
    """Map hosts to the first addresses of the pool and switches to the last; `paths` addresses between stay free.

    Raises NetreproError for a pool that is too small or holds addresses of NO_HOSTS_ADDRESSES.
    """
    try:
        network = ipaddress.IPv4Network(pool)
    except ValueError as error:
        raise NetreproError(f"address pool {pool!r}: {error}", "give a network such as 10.0.0.0/8") from None
    taken = next((each for each in NO_HOSTS_ADDRESSES if network.overlaps(ipaddress.IPv4Network(each))), None)
    if taken:
        raise NetreproError(
            f"address pool {pool!r}: no packet to an address of {taken} leaves its host as to others",
            "give a network such as 10.0.0.0/8",
        )
    first, last = int(network.network_address) + 1, int(network.broadcast_address) - 1
    nodes = len(topology.hosts) + len(topology.switches)
    if nodes + paths > last - first + 1:
        more = f" and {paths} paths" if paths else ""
        raise NetreproError(
            f"{topology.name}: {nodes} hosts and switches{more}, but {max(0, last - first + 1)} addresses in {pool}",
            "give a larger address pool, such as 10.0.0.0/8",
        )
    of_nodes = {host: ipaddress.IPv4Address(first + place) for place, host in enumerate(topology.hosts)}
    of_nodes |= {switch: ipaddress.IPv4Address(last - place) for place, switch in enumerate(topology.switches)}
    return of_nodes


def check_name(name: str, names: Iterable[str], what: str) -> None:
    """Raise NetreproError, with the nearest name, when `name` is not among `names`."""
    if name not in names:
        raise NetreproError(f"no {what} {name!r}", nearest(str(name), names))
