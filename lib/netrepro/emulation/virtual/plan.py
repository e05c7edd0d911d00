"""The plan of a network in virtual time: like the plan in real time, but each link is a "line" of the virtual kernel.

A line (lib/kernel/built_in/line.c) is a whole direction of a cable: queue, rate, delay, jitter, loss, reordering. So
every cable is one pair of interfaces with nothing between them. A line's queue is one of Linux's queues, or our own
queue "step" (lib/kernel/built_in/step.c) where Linux has none:

| queue        | in the kernel | differences from the description                                                     |
|--------------|---------------|--------------------------------------------------------------------------------------|
| DropTail     | pfifo, bfifo  |                                                                                      |
| EcnThreshold | step          |                                                                                      |
| PhantomQueue | step          |                                                                                      |
| SharedBuffer | step          |                                                                                      |
| Red          | red, pfifo    | a `max_probability` close to 0 is refused                                            |
| CoDel        | codel         | `least_bytes` is a full packet                                                       |
| FqCoDel      | fq_codel      |                                                                                      |
| Fq           | fq            | `flows` is a power of two; only in front of a switch's link                          |
| Cake         | cake          | besteffort, raw; without `shaped_mbps` it is `unlimited`: turns of 1514 bytes and a  |
|              |               | target of `round_trip_ms` / 20 at any rate of the link                               |
| Pie          | pie           | `burst_ms` is 150                                                                    |
| Sfq          | sfq           | `buckets` is a power of two                                                          |
| Slotted      | netem         | only in front of a switch's link                                                     |
| DualPi2      | a module      | Linux has it since 6.17: ours is lib/kernel/modules/sch_dualpi2.c                    |
| NicPacer     | none          | refused                                                                              |
| OwnQueue     | a module      | defined by its C code                                                                |

A link's policer is the kernel's act_police at the egress of the link's interface: before its line, which sees nothing
of what it drops.

The `variant` of Red, CoDel, FqCoDel and Pie must be "linux". A queue with ECN marks only packets whose Tcp asked for
ECN.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import hypot, log, log2, sqrt

import numpy as np

from netrepro.emulation import messages
from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.plan import Plan, Port, addresses, host_controls, tcp_by_host, tree_in_use
from netrepro.emulation.refusals import NO_SPRAYING, check_host_port
from netrepro.errors import NetreproError
from netrepro.networks.compiled import ETHERNET_HEADER_BYTES, header_bytes, policer_numbers, within_mtu
from netrepro.networks.links import Link
from netrepro.networks.queues import (
    FULL_PACKET_BYTES,
    ISOLATIONS,
    LINUX,
    Cake,
    CoDel,
    DropTail,
    DualPi2,
    EcnThreshold,
    Fq,
    FqCoDel,
    OwnQueue,
    PhantomQueue,
    Pie,
    Queue,
    Red,
    Sfq,
    SharedBuffer,
    Slotted,
)
from netrepro.networks.routing import Path, Routing, check_path
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

UP, REPORT, RECORD = 1, 2, 4  # flags of a line
_ROOT, _LINE, _QUEUE, _INNER = 0xFFFFFFFF, 0x10000, 0x20000, 0x30000
CLOCK_SKEW_PPM = 100.0  # as in the simulator
PIE_BURST_MS = 150.0  # the kernel's fixed value
SFQ_DEPTH, MOST_SFQ_FLOWS, LEAST_SFQ_QUANTUM_BYTES = 127, 65_408, 256
RED_ADAPTS, MOST_RED_BITS = 4, 31  # a flag; bits of a threshold in bytes and of the weight together
MOST_HALVINGS = 31  # of RED's average while the queue is idle
RED_STEPS = 5  # least rise of RED's probability per byte, in units of 2^-32: rounding is then a tenth at most
# Attributes of CAKE (include/uapi/linux/pkt_sched.h), and one of its classes of service.
CAKE_BYTES_PER_S, CAKE_CLASSES, CAKE_ISOLATION, CAKE_ROUND_TRIP, CAKE_TARGET = 2, 3, 5, 7, 8
CAKE_MEMORY, CAKE_RAW, CAKE_ACK_FILTER, CAKE_SPLIT_GSO, CAKE_ONE_CLASS = 10, 12, 16, 17, 3
NETEM_SLOT = 12  # an attribute of netem
DUAL_PI2 = "dualpi2"  # the module's name of the queue
MOST_BYTES = 2**32 - 1  # largest limit of a queue in bytes; never reached
LEAST_IPV6_MTU_BYTES = 1280  # RFC 8200
CAPTURED_BYTES = 128  # bytes of each packet that a capture keeps
# Settings of the whole kernel, not of a namespace: limits so high that they do not affect any run.
WHOLE = {
    "/proc/sys/net/core/fb_tunnels_only_for_init_net": "2",  # a namespace has only the interfaces that it is given
    "/proc/sys/user/max_net_namespaces": "1000000",  # the default for so little memory would be 500
    "/proc/sys/net/core/netdev_max_backlog": "1000000",
    "/proc/sys/net/core/netdev_budget": "100000",
    "/proc/sys/net/core/rmem_max": str(2**30),
    "/proc/sys/net/core/wmem_max": str(2**30),
    "/proc/sys/net/ipv4/tcp_mem": "1000000 1000000 1000000",
    "/proc/sys/net/ipv4/udp_mem": "1000000 1000000 1000000",
    "/proc/sys/net/ipv4/tcp_max_orphans": "1000000",
}
OWN = {
    "net/core/somaxconn": "65535",
    "net/ipv4/tcp_max_syn_backlog": "65535",
    "net/ipv4/tcp_max_tw_buckets": "1000000",
}


@dataclass(frozen=True)
class PortLine:
    """A port's line: the parameters of its link and of its recording.

    number : the port's number in events. rate : bits per second, including the clock's skew. events, capture : file
    descriptors of the kernel's process; -1 for none. host_delay_ms : the longest delay that the sending host adds to a
    packet. A line draws each packet's delay from one bell-shaped distribution and keeps the order. Its mean and
    standard deviation are those of the host's uniform delay plus the link's delay and jitter.
    """

    number: int
    link: Link
    rate: float
    seed: int
    events: int = -1
    capture: int = -1
    flags: int = UP
    host_delay_ms: float = 0.0

    def with_rate(self, rate_mbps: float) -> PortLine:
        """Return the same line with another rate."""
        return replace(self, rate=rate_mbps * 1e6)

    def with_flags(self, flags: int) -> PortLine:
        """Return the same line with other flags."""
        return replace(self, flags=flags)

    def options(self) -> bytes:
        """Pack the parameters as the kernel's struct line_parameters."""
        link = self.link
        return struct.pack(
            "=5Q2I2i2I",
            round(self.rate),
            round((link.delay_ms + self.host_delay_ms / 2) * 1e6),
            round(hypot(link.jitter_ms, self.host_delay_ms / sqrt(12)) * 1e6),
            round(link.reordering_ms * 1e6),
            self.seed,
            round(link.loss * (2**32 - 1)),
            round(link.reordering * (2**32 - 1)),
            self.events,
            self.capture,
            self.number,
            self.flags,
        )


@dataclass(frozen=True)
class VirtualPlan(Plan):
    """The plan of a network in virtual time.

    events, captures : file descriptors of the kernel's process; the lines of `recorded` ports write their events to
    `events`, and copies of their packets to the port's descriptor in `captures`."""

    skew_ppm: float = CLOCK_SKEW_PPM
    events: int = -1
    recorded: frozenset[tuple[str, str]] = frozenset()
    captures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    host_delay_ms: float = 0.0  # the longest delay that a host adds to a packet
    has_seeds: bool = True  # each router's hash has a seed, from Linux 6.11 on

    @cached_property
    def lines(self) -> dict[tuple[str, str], PortLine]:
        """(from, to) -> the port's line."""
        random = np.random.default_rng([self.seed, 1])
        off = 1 + self.skew_ppm * 1e-6 * (2 * random.random(len(self.ports)) - 1)
        seeds = random.integers(1, 2**63, len(self.ports)).tolist()
        return {
            port: PortLine(
                number,
                described.link,
                described.link.rate_mbps * 1e6 * off[number],
                seeds[number],
                self.events,
                self.captures.get(port, -1),
                UP | (RECORD if port in self.recorded else 0),
                host_delay_ms=self.host_delay_ms if port[0][0] == "h" else 0.0,
            )
            for number, (port, described) in enumerate(self.ports.items())
        }

    def needs_wire(self, link: Link) -> bool:
        return False  # a line does everything

    @property
    def clock_factors(self) -> dict[tuple[str, str], float]:
        """(from, to) -> the rate of its line over the rate of its link."""
        return {port: line.rate / (line.link.rate_mbps * 1e6) for port, line in self.lines.items()}

    def shaped(self, port: Port) -> list[NetlinkRequest]:
        """Make the messages for the port's line and the queue in it."""
        ends = port.source, port.destination
        line, index = self.lines[ends], port.shaper[1]
        policer = port.link.policer
        policed = [] if policer is None else messages.new_policer(index, *policer_numbers(policer))
        return [new_line(index, line), *self._queue(port), *policed]

    @property
    def policed(self) -> dict[str, list[int]]:
        """Node -> indices of its interfaces that have a policer."""
        places: dict[str, list[int]] = {}
        for port in self.ports.values():
            if port.link.policer is not None:
                places.setdefault(port.shaper[0], []).append(port.shaper[1])
        return places

    def _queue(self, port: Port) -> list[NetlinkRequest]:
        index, queue, rate_mbps = port.shaper[1], port.link.queue, port.link.rate_mbps
        if isinstance(queue, SharedBuffer):
            owner = self._place[port.source]
            return [
                _step(
                    index, memory=owner, memory_bytes=queue.bytes, alpha=queue.alpha, threshold=queue.mark_packets or 0
                )
            ]
        return new_queue(index, queue, rate_mbps, self.packet_bytes)

    def reports(self, lines: Mapping[tuple[str, str], PortLine] | None = None) -> dict[str, list[NetlinkRequest]]:
        """Map node -> messages that make its lines write their totals and all events that they still hold.

        lines : (from, to) -> the line as it is after changes; by default as it was built.
        """
        requests: dict[str, list[NetlinkRequest]] = {}
        for ends, line in (lines or self.lines).items():
            port = self.ports[ends]
            asked = messages.replacing(new_line(port.shaper[1], replace(line, flags=line.flags | REPORT)))
            requests.setdefault(port.shaper[0], []).append(asked)
        return requests

    @property
    def packet_bytes(self) -> int:
        """The size of a full segment on the wire."""
        tcp = within_mtu(self.tcp or Tcp(), ipv6=self.ipv6)
        return tcp.segment_bytes + header_bytes(self.ipv6) + ETHERNET_HEADER_BYTES

    @property
    def seeded(self) -> bool:
        return self.has_seeds

    @cached_property
    def sysctls(self) -> dict[str, dict[str, str]]:
        of_nodes = {node: settings | OWN for node, settings in super().sysctls.items()}
        for host, control in self.congestion_control.items():
            if control:
                of_nodes[host]["net/ipv4/tcp_congestion_control"] = control
        return of_nodes

    def _own_attributes(self, host: str) -> tuple[bytes, str, dict[int, int] | None]:
        # A host's sysctl sets its congestion control: a route's would hide what programs set.
        source, _, metrics = super()._own_attributes(host)
        return source, "", metrics


def queues_of_modules(topology: Topology) -> set[str]:
    """Return the names of the links' queues that are modules of lib/kernel/modules."""
    return {DUAL_PI2 for link in topology.ports.values() if isinstance(link.queue, DualPi2)}


def new_line(index: int, line: PortLine) -> NetlinkRequest:
    """Make the message for a line at an interface, handle 1:."""
    options = messages.attribute(1, line.options())
    return messages.new_qdisc(index, _LINE, _ROOT, "line", options, "a link (line)")


def _new_inside(index: int, kind: str, options: bytes, handle: int = _QUEUE, parent: int = _LINE | 1) -> NetlinkRequest:
    return messages.new_qdisc(index, handle, parent, kind, options, f"a queue (the kernel's {kind})")


def _step(
    index: int,
    *,
    limit: int = 0,
    threshold: int = 0,
    phantom_rate: int = 0,
    phantom_bytes: int = 0,
    memory: int = 0,
    memory_bytes: int = 0,
    alpha: float = 0.0,
) -> NetlinkRequest:
    """Make a queue of kind "step" (lib/kernel/built_in/step.c), with struct step_parameters."""
    fixed = round(alpha * 65536)
    numbers = phantom_rate, memory_bytes, limit, threshold, phantom_bytes, memory, fixed, 0
    return _new_inside(index, "step", messages.attribute(1, struct.pack("=2Q6I", *numbers)))


def new_queue(index: int, queue: object, rate_mbps: float, packet_bytes: int) -> list[NetlinkRequest]:
    """Make the messages for the queue in an interface's line. packet_bytes : full packet for queues counting bytes."""
    match queue:
        case DropTail(packets=int(packets)):
            return [_new_inside(index, "pfifo", struct.pack("=I", packets))]
        case DropTail(bytes=int(size)):
            return [_new_inside(index, "bfifo", struct.pack("=I", min(size, MOST_BYTES)))]
        case EcnThreshold():
            return [_step(index, limit=queue.packets, threshold=queue.threshold_packets)]
        case PhantomQueue():
            rate = round(rate_mbps * 1e6 / 8 * queue.drain_share)
            return [_step(index, limit=queue.packets, phantom_rate=rate, phantom_bytes=queue.threshold_bytes)]
        case OwnQueue():
            return [_new_inside(index, queue.name, struct.pack("=I", queue.packets))]
        case Red():
            return _red(index, queue, rate_mbps, packet_bytes)
        case CoDel():
            words = {1: queue.target_ms * 1e3, 2: queue.packets, 3: queue.interval_ms * 1e3, 4: int(queue.ecn)}
            return [_new_inside(index, "codel", _numbers(words))]
        case FqCoDel():
            words = {1: queue.target_ms * 1e3, 2: queue.packets, 3: queue.interval_ms * 1e3, 4: int(queue.ecn)}
            words |= {5: queue.flows, 6: queue.quantum_bytes, 9: 2**31}  # 9: memory limit, too high to have an effect
            options = b""
            if queue.ce_threshold_ms is not None:
                words |= {7: queue.ce_threshold_ms * 1e3}
            if queue.ce_threshold_ect_1:  # selector and mask of the two bits
                options = messages.attribute(10, b"\x01") + messages.attribute(11, b"\x03")
            return [_new_inside(index, "fq_codel", _numbers(words) + options)]
        case Fq():
            words = {1: queue.packets, 2: queue.flow_packets, 3: queue.quantum_bytes, 4: queue.initial_quantum_bytes}
            words |= {9: queue.refill_delay_ms * 1e3, 10: queue.flows - 1}
            if queue.ce_threshold_ms is not None:
                words |= {12: queue.ce_threshold_ms * 1e3}
            return [_new_inside(index, "fq", _numbers(words))]
        case Cake():
            return [_new_inside(index, "cake", _cake(queue))]
        case Sfq():
            return [
                _new_inside(
                    index,
                    "sfq",
                    struct.pack("=IiIII", queue.quantum_bytes, 0, queue.packets, queue.buckets, _sfq_flows(queue)),
                )
            ]
        case Pie():
            words = {1: queue.target_ms * 1e3, 2: queue.packets, 3: queue.update_ms * 1e3, 6: int(queue.ecn)}
            return [_new_inside(index, "pie", _numbers(words))]
        case Slotted():
            return [_new_inside(index, "netem", _slots(queue))]
        case DualPi2():
            return [_new_inside(index, DUAL_PI2, messages.attribute(1, _dual_pi2(queue)))]
    raise NetreproError(f"a queue {queue!r} in virtual time", "use one of netrepro.networks.links")


def _numbers(words: Mapping[int, float]) -> bytes:
    return b"".join(messages.attribute(kind, struct.pack("=I", round(value))) for kind, value in words.items())


def _slots(queue: Slotted) -> bytes:
    """Pack netem's options: no delay, a limit, and the slots (struct tc_netem_slot)."""
    gaps_ns = (round(gap_ms * 1e6) for gap_ms in (queue.min_gap_ms, queue.max_gap_ms))
    slots = struct.pack("=2q2i2q", *gaps_ns, queue.slot_packets or 0, queue.slot_bytes or 0, 0, 0)
    return struct.pack("=6I", 0, queue.packets, 0, 0, 0, 0) + messages.attribute(NETEM_SLOT, slots)


def _dual_pi2(queue: DualPi2) -> bytes:
    """Pack struct dualpi2_parameters (lib/kernel/modules/sch_dualpi2.c)."""
    times_ns = (round(ms * 1e6) for ms in (queue.target_ms, queue.update_ms, queue.step_ms))
    factors = (round(factor / 1e9 * 2**48) for factor in (queue.alpha, queue.beta))
    coupling, share = round(queue.coupling * 2**16), round(queue.classic_share * 1e6)
    return struct.pack("=5Q4I", *times_ns, *factors, queue.packets, coupling, share, 0)


def _cake(queue: Cake) -> bytes:
    """Pack CAKE's attributes: besteffort, raw (sizes as on the line), without splitting of segments."""
    round_trip_us = queue.round_trip_ms * 1e3
    words = {
        CAKE_CLASSES: CAKE_ONE_CLASS,
        CAKE_ISOLATION: ISOLATIONS.index(queue.isolation),
        CAKE_ROUND_TRIP: round_trip_us,
        CAKE_TARGET: max(round_trip_us / 20, 1),
        CAKE_MEMORY: queue.memory_bytes,
        CAKE_RAW: 0,
        CAKE_ACK_FILTER: int(queue.ack_filter),
        CAKE_SPLIT_GSO: 0,
    }
    bytes_per_s = round((queue.shaped_mbps or 0) * 1e6 / 8)
    return messages.attribute(CAKE_BYTES_PER_S, struct.pack("=Q", bytes_per_s)) + _numbers(words)


def _red(index: int, queue: Red, rate_mbps: float, packet_bytes: int) -> list[NetlinkRequest]:
    """Make RED, which counts bytes: thresholds are converted from full packets. Its weight is a power of two."""
    packet_bytes = queue.mean_packet_bytes or packet_bytes
    low, high, weight_log = _red_thresholds(queue, packet_bytes)
    scale, table = _red_idle_table(weight_log, packet_bytes * 8 / rate_mbps)
    limit_bytes = min(queue.packets * max(packet_bytes, FULL_PACKET_BYTES), MOST_BYTES)  # the pfifo limits packets
    flags = int(queue.ecn) | (RED_ADAPTS if queue.adaptive else 0)
    parameters = struct.pack("=3I4B", limit_bytes, low, high, weight_log, 0, scale, flags)
    probability = struct.pack("=I", _red_probability(queue))
    options = messages.attribute(1, parameters) + messages.attribute(2, table) + messages.attribute(3, probability)
    inner = _new_inside(index, "pfifo", struct.pack("=I", queue.packets), _INNER, _QUEUE | 1)
    return [_new_inside(index, "red", options), inner]


def _red_thresholds(queue: Red, packet_bytes: int) -> tuple[int, int, int]:
    """Return both thresholds in bytes, and -log2 of the weight, rounded."""
    low, high = queue.min_threshold_packets, queue.max_threshold_packets
    return round(low * packet_bytes), round(high * packet_bytes), max(round(-log2(queue.weight)), 0)


def _red_probability(queue: Red) -> int:
    return min(round(queue.max_probability * 2**32), 2**32 - 1)


def _sfq_flows(queue: Sfq) -> int:
    return min(queue.buckets, MOST_SFQ_FLOWS)


def _red_idle_table(weight_log: int, packet_us: float) -> tuple[int, bytes]:
    """Compute RED's table for idle times; return (scale, table).

    Entry n, one byte, is the number of halvings of the average after n * 2^scale us without packets. Within the first
    2^scale us the kernel reduces the average linearly, by idle time / 2^scale, and by a half at most. This matches
    (1 - weight)^packets if 2^scale is the time in which the average falls to 1/e. With the finer table of `tc` the
    average would be halved after a twentieth of that time.
    """
    if weight_log == 0:
        return _whole_scale(packet_us), bytes([0] + 255 * [MOST_HALVINGS])
    falls_us = -packet_us / log(1 - 2**-weight_log)
    scale = _whole_scale(falls_us)
    steps = (2**scale * (place + 0.5) / falls_us / log(2) for place in range(1, 256))
    return scale, bytes([0, *(min(round(halvings), MOST_HALVINGS) for halvings in steps)])


def _whole_scale(us: float) -> int:
    return min(max(round(log2(us)), 0), MOST_HALVINGS)


def make_virtual_plan(
    topology: Topology,
    seed: int,
    tcp: Tcp | Mapping[str, Tcp] | None,
    routing: Routing | str = "ecmp",
    paths: Iterable[Path] = (),
    *,
    congestion_control: str | Mapping[str, str] = "",
    address_pool: str = "10.0.0.0/8",
    tcp_of_hosts: Mapping[str, Tcp] | None = None,
    ipv6: bool = False,
    **more: object,
) -> VirtualPlan:
    """Make the plan of a network in virtual time, like netrepro.emulation.plan.make_plan; any rate and delay is valid.

    tcp_of_hosts : host -> TCP settings that differ from `tcp`. more : further fields of VirtualPlan.

    Raises NetreproError for packet spraying, segmentation offload, a NicPacer, an MTU that is too small for IPv6, and
    settings that the kernel's queues do not have.
    """
    routing = routing if isinstance(routing, Routing) else Routing(routing)
    if routing.scheme == "packet_spraying":
        raise NetreproError(NO_SPRAYING, "use tier 'simulated'")
    for (source, destination), link in topology.ports.items():
        check_host_port(f"{source} to {destination}", link)
        _check_queue(f"{source} to {destination}", link.queue)
        if ipv6 and (link.mtu_bytes or LEAST_IPV6_MTU_BYTES) < LEAST_IPV6_MTU_BYTES:
            raise NetreproError(
                f"{source} to {destination}: mtu_bytes = {link.mtu_bytes}, and IPv6 takes no less than "
                f"{LEAST_IPV6_MTU_BYTES}",
                "give more, or leave ipv6 away",
            )
    chosen = tuple(dict.fromkeys(map(tuple, paths)))
    for path in chosen:
        check_path(topology, path, path[0], path[-1])
    common, of_hosts = tcp_by_host(topology, tcp)
    plan = VirtualPlan(
        topology,
        host_controls(topology, congestion_control),
        addresses(topology, address_pool, len(chosen)),
        seed,
        common,
        {**of_hosts, **(tcp_of_hosts or {})},
        tree_in_use(topology, routing),
        chosen,
        ipv6,
        **more,  # type: ignore[arg-type]
    )
    _ = plan.requests  # finds hosts that no route can reach
    return plan


# Settings that are fixed in the kernel's queues: type -> name of the setting -> its value.
_FIXED: Mapping[type, Mapping[str, object]] = {
    Pie: {"variant": LINUX, "burst_ms": PIE_BURST_MS},
    CoDel: {"variant": LINUX, "least_bytes": FULL_PACKET_BYTES},
    FqCoDel: {"variant": LINUX},
    Red: {"variant": LINUX},
}


def _check_queue(port: str, queue: Queue) -> None:
    for name, value in _FIXED.get(type(queue), {}).items():
        if getattr(queue, name) != value:
            raise NetreproError(
                f"{port}: {type(queue).__name__} with {name} = {getattr(queue, name)!r}, and the kernel's is fixed",
                f"give {value!r}, or use tier 'simulated'",
            )
    if isinstance(queue, Red):
        low, high, weight_log = _red_thresholds(queue, queue.mean_packet_bytes or FULL_PACKET_BYTES)
        if high.bit_length() + weight_log > MOST_RED_BITS:
            raise NetreproError(
                f"{port}: Red with max_threshold_packets = {queue.max_threshold_packets:g} and weight = "
                f"{queue.weight:g}, and the kernel averages in 32 bits",
                "give a lower threshold or a larger weight",
            )
        if _red_probability(queue) < RED_STEPS * (high - low):
            raise NetreproError(
                f"{port}: Red with max_probability = {queue.max_probability:g}, and the kernel's rises by whole "
                "2^-32 a byte between the thresholds",
                f"give {RED_STEPS * (high - low) / 2**32:.2g} or more",
            )
    if isinstance(queue, Fq):
        _check_fq(port, queue)
    if isinstance(queue, Slotted) and port.startswith("h"):
        raise NetreproError(
            f"{port}: slots at a host's own port, where sockets let too few packets wait to fill them",
            "give them to a switch's link, or use tier 'simulated'",
        )
    if isinstance(queue, Sfq):
        _check_sfq(port, queue)


def _check_fq(port: str, queue: Fq) -> None:
    if port.startswith("h"):
        raise NetreproError(
            f"{port}: Fq at a host's own port, where the kernel's knows its sockets and paces them",
            "give it to a switch's link, or use tier 'simulated'",
        )
    if queue.flows & (queue.flows - 1):
        raise NetreproError(f"{port}: Fq with flows = {queue.flows}", "the kernel's takes a power of two")
    most = {"quantum_bytes": 2**20, "ce_threshold_ms": (2**32 - 1) / 1e3, "refill_delay_ms": (2**32 - 1) / 1e3}
    for name, highest in most.items():
        if (getattr(queue, name) or 0) > highest:
            raise NetreproError(
                f"{port}: Fq with {name} = {getattr(queue, name):g}", f"the kernel's takes {highest:g} at most"
            )


def _check_sfq(port: str, queue: Sfq) -> None:
    least = {"packets": 2, "quantum_bytes": LEAST_SFQ_QUANTUM_BYTES, "buckets": 1}
    most = {"packets": SFQ_DEPTH * _sfq_flows(queue), "quantum_bytes": 2**20, "buckets": 2**16}
    for name, lowest in least.items():
        if not lowest <= getattr(queue, name) <= most[name]:
            raise NetreproError(
                f"{port}: Sfq with {name} = {getattr(queue, name)}", f"the kernel's takes {lowest} to {most[name]}"
            )
    if queue.buckets & (queue.buckets - 1):
        raise NetreproError(f"{port}: Sfq with buckets = {queue.buckets}", "the kernel's takes a power of two")
