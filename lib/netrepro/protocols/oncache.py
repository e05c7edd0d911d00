"""ONCache's caches and its four programs (Lin et al., NSDI 2025) as functions over plain state: no clock, no kernel.

There are two hosts with containers. At its own host, a packet passes `egress`, on a miss the overlay (connection
tracking, filter, marks), and then `egress_init`. At the other host it passes `ingress`, on a miss the overlay, and then
`ingress_init`. The caches learn from packets with both marks: a cache missed, and the overlay considers the connection
established. `emulation/overlay/sources/oncache.bpf.c` has the same programs for a kernel; tests compare the two.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from netrepro.errors import NetreproError

EGRESS, INGRESS = 1, 2
BOTH = EGRESS | INGRESS
CACHES = ("to_host", "to_route", "containers", "filter")


@dataclass(frozen=True)
class Packet:
    """A packet from container to container. Two header bits are marks: `missed` (a cache miss) and `established`."""

    source: str
    destination: str
    source_port: int
    destination_port: int
    missed: bool = False
    established: bool = False

    @property
    def answer(self) -> Packet:
        """A packet of the same flow in the opposite direction, without marks."""
        return Packet(self.destination, self.source, self.destination_port, self.source_port)


Flow = tuple[str, str, int, int]  # local and remote container, their ports: the same in both directions


class Lru(OrderedDict):
    """A map of at most `entries` entries that evicts the least recently used one."""

    def __init__(self, entries: int):
        super().__init__()
        self.entries = entries

    def used(self, key: Hashable) -> Any:
        """Return the value and mark it as the most recently used; None where there is none."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Add or replace an entry, and evict another one if the map is then too full."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.entries:
            self.popitem(last=False)


@dataclass
class Host:
    """A host's caches and its overlay.

    host_of : container -> host, by the overlay's routes. to_host, to_route, containers, filter : the caches.
    entries : cache -> its size. containers : own container -> whether its addresses have been learned. tracked : the
    overlay's connections -> containers that have sent. reverse_check : packets also need a cached way back.
    route_check : the reverse check of arriving packets also needs the route. refuses : the overlay's filter.
    marks : whether the overlay marks established connections. paused : whether learning is paused.
    """

    name: str
    host_of: dict[str, str]
    entries: dict[str, int] = field(default_factory=dict)
    reverse_check: bool = True
    route_check: bool = False
    marks: bool = True
    refuses: Callable[[Packet], bool] = lambda packet: False
    paused: bool = False
    to_host: Lru = field(init=False)
    to_route: Lru = field(init=False)
    filter: Lru = field(init=False)
    containers: dict[str, bool] = field(init=False)
    tracked: dict[frozenset, set[str]] = field(default_factory=dict)
    counters: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name, entries in self.entries.items():
            if name not in ("to_host", "to_route", "filter") or entries < 1:
                raise NetreproError(f"entries[{name!r}] = {entries}", "give 1 or more for to_host, to_route or filter")
        self.to_host = Lru(self.entries.get("to_host", 4096))
        self.to_route = Lru(self.entries.get("to_route", 1024))
        self.filter = Lru(self.entries.get("filter", 4096))
        self.containers = {own: False for own, host in self.host_of.items() if host == self.name}


def flow_at(packet: Packet, leaving: bool) -> Flow:
    """Return a packet's flow from the view of its sender's host (`leaving`) or of its receiver's host."""
    there = (packet.source, packet.destination, packet.source_port, packet.destination_port)
    return there if leaving else (there[1], there[0], there[3], there[2])


def egress(host: Host, packet: Packet) -> tuple[bool, Packet]:
    """Return whether the packet goes directly to the network card, and the packet with its new marks."""
    far = host.to_host.used(packet.destination)
    route = far is not None and host.to_route.used(far)
    if not route or host.filter.used(flow_at(packet, True)) != BOTH:
        host.counters["egress_miss"] += 1
        return False, replace(packet, missed=True, established=False)
    if host.reverse_check and not host.containers.get(packet.source, False):
        host.counters["egress_miss"] += 1
        return False, replace(packet, missed=False, established=False)
    host.counters["egress_hit"] += 1
    return True, packet


def overlay(host: Host, packet: Packet) -> Packet | None:
    """Pass a packet through the overlay; return it, marked if it missed a cache and its connection is established.

    Returns None for a packet that the overlay's filter refuses.
    """
    connection = frozenset([(packet.source, packet.source_port), (packet.destination, packet.destination_port)])
    seen = host.tracked.get(connection, set())
    if connection in host.tracked:
        seen.add(packet.source)
    if host.refuses(packet):
        return None  # a connection whose first packet is dropped is not tracked
    host.tracked.setdefault(connection, {packet.source})
    both = len(host.tracked[connection]) == 2
    return replace(packet, established=packet.missed and both and host.marks)


def egress_init(host: Host, packet: Packet) -> Packet:
    """Learn from a packet that leaves with both marks, and clear them."""
    if packet.missed and packet.established:
        packet = replace(packet, missed=False, established=False)
        if not host.paused:
            far = host.host_of[packet.destination]
            host.to_route.put(far, True)
            host.to_host.put(packet.destination, far)
            _allow(host, flow_at(packet, True), EGRESS)
            host.counters["egress_learned"] += 1
    return packet


def ingress(host: Host, packet: Packet) -> tuple[bool, Packet]:
    """Return whether the packet goes directly to its container, and the packet with its new marks."""
    known = host.containers.get(packet.destination, False)
    if not known or host.filter.used(flow_at(packet, False)) != BOTH:
        host.counters["ingress_miss"] += 1
        return False, replace(packet, missed=True, established=False)
    far = host.to_host.used(packet.source)
    if host.reverse_check and (far is None or (host.route_check and not host.to_route.used(far))):
        host.counters["ingress_miss"] += 1
        return False, replace(packet, missed=False, established=False)
    host.counters["ingress_hit"] += 1
    return True, packet


def ingress_init(host: Host, packet: Packet) -> Packet:
    """Learn from a packet that reaches its container with both marks, and clear all marks."""
    if packet.missed and packet.established and not host.paused and packet.destination in host.containers:
        host.containers[packet.destination] = True
        _allow(host, flow_at(packet, False), INGRESS)
        host.counters["ingress_learned"] += 1
    return replace(packet, missed=False, established=False)


def _allow(host: Host, flow: Flow, bit: int) -> None:
    host.filter.put(flow, (host.filter.get(flow) or 0) | bit)


@dataclass(frozen=True)
class Passed:
    """The fate of a packet: whether it arrived, and whether it took the fast path at the sending and receiving host."""

    arrived: bool
    fast_out: bool = False
    fast_in: bool = False


def send(hosts: dict[str, Host], packet: Packet) -> Passed:
    """Send a packet from its source's host to its destination's host."""
    own, far = (hosts[host_with(hosts, container)] for container in (packet.source, packet.destination))
    fast_out, packet = egress(own, packet)
    if not fast_out:
        passed = overlay(own, packet)
        if passed is None:
            return Passed(False)
        packet = passed
    packet = egress_init(own, packet)
    fast_in, packet = ingress(far, packet)
    if not fast_in:
        passed = overlay(far, packet)
        if passed is None:
            return Passed(False, fast_out)
        packet = passed
    ingress_init(far, packet)
    return Passed(True, fast_out, fast_in)


def host_with(hosts: dict[str, Host], container: str) -> str:
    """Return the host of a container, by the overlay's routes."""
    return next(iter(hosts.values())).host_of[container]


def exchange(hosts: dict[str, Host], request: Packet, times: int = 1) -> list[Passed]:
    """Send a request and, if it arrives, its answer; repeat this `times` times."""
    passed = []
    for _ in range(times):
        passed.append(send(hosts, request))
        if passed[-1].arrived:
            passed.append(send(hosts, request.answer))
    return passed


def evict(host: Host, cache: str) -> None:
    """Empty one of a host's caches; for `containers`, the entries stay but count as not yet learned."""
    if cache not in CACHES:
        raise NetreproError(f"there is no cache {cache!r}", f"give one of {', '.join(CACHES)}")
    if cache == "containers":
        host.containers = dict.fromkeys(host.containers, False)
    else:
        getattr(host, cache).clear()


def refuse(hosts: dict[str, Host], at: str, what: Callable[[Packet], bool], delete: bool = True) -> None:
    """Let one host's filter refuse more packets, by delete-and-reinitialise (`delete` False leaves out the deletion).

    Learning is paused and entries of flows that may be refused are deleted on all hosts; then the filter changes, and
    learning continues.
    """
    for host in hosts.values():
        host.paused = True
        for flow in list(host.filter) if delete else []:
            packet = Packet(*flow)
            if what(packet) or what(packet.answer):
                del host.filter[flow]
    before = hosts[at].refuses
    hosts[at].refuses = lambda packet: before(packet) or what(packet)
    for host in hosts.values():
        host.paused = False


def two_hosts(**settings: Any) -> dict[str, Host]:
    """Make hosts "1" and "2" with containers "a" and "b"; both get the same `settings`, which are those of Host."""
    host_of = {"a": "1", "b": "2"}
    return {name: Host(name, host_of, **settings) for name in ("1", "2")}
