"""The queues in front of links, as plain descriptions; `rule` is what the compiled core needs of each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated

from netrepro.errors import NetreproError
from netrepro.networks.description import (
    Count,
    CountFromZero,
    NotNegative,
    Numbers,
    Positive,
    PositiveShare,
    Share,
    check_numbers,
    check_one_of,
    described,
    set_number,
    whole,
)
from netrepro.networks.queue_base import Rule, _Queue

# A full segment on the wire: 1448 bytes of data, TCP with timestamps 32, IPv4 20, Ethernet 14.
FULL_PACKET_BYTES = 1514
MOST_BUCKETS = 65_536  # of a fair queue
MOST_GAP_MS = 2000.0  # netem draws a gap of 31 bits of ns
LEAST_CAKE_BYTES = 8192  # room for more than one full packet, as the kernel stores it
# Variants of a queue's rule, by their author; the first is the kernel's, which tier "virtual" has.
LINUX = "linux"
RED_VARIANTS = (LINUX, "floyd1993")
CODEL_VARIANTS = (LINUX, "rfc8289", "ns2_2012", "draft01")  # after Linux's, in the core's order
PIE_VARIANTS = (LINUX, "rfc8033")
FQ_CODEL_VARIANTS = (LINUX, "rfc8290")
ADAPTED_EVERY_S = 0.5  # between corrections of an adaptive RED's probability
# CAKE's words in tc, in the kernel's order.
ISOLATIONS = (
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
)


@described
@dataclass(frozen=True)
class DropTail(_Queue):
    """First in, first out; an arrival that does not fit is dropped.

    Exactly one limit: `packets` (ACKs count as packets) or `bytes`, both without the packet that is being sent.
    Raises NetreproError for none, two, or one below a full packet.
    """

    packets: Count | None = None
    bytes: Annotated[int, whole(least=FULL_PACKET_BYTES)] | None = None

    def __post_init__(self) -> None:
        if (self.packets is None) == (self.bytes is None):
            raise NetreproError("DropTail with none or two limits", "give packets=... or bytes=...")
        check_numbers(self)

    def rule(self) -> Rule:
        return "drop_tail", (self.packets or 0, self.bytes or 0)

    @property
    def most_packets(self) -> int:
        return self.packets or (self.bytes or 0) // FULL_PACKET_BYTES


@described
@dataclass(frozen=True)
class EcnThreshold(_Queue):
    """Drop-tail of `packets` that marks an ECN-capable arrival which finds `threshold_packets` or more waiting.

    The marking of DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.1). Packets without ECN are never marked, and
    dropped only when the buffer is full. Raises NetreproError for a threshold beyond the buffer.
    """

    packets: Count
    threshold_packets: Annotated[int, whole(but="at most `packets`")]

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.threshold_packets > self.packets:
            raise NetreproError(
                f"EcnThreshold: a threshold of {self.threshold_packets} packets in a buffer of {self.packets}",
                "give a threshold within the buffer",
            )

    def rule(self) -> Rule:
        return "ecn_threshold", (self.packets, self.threshold_packets)


@described
@dataclass(frozen=True)
class Red(_Queue):
    """Random early detection (Floyd and Jacobson, ToN 1993) in a buffer of `packets`.

    `weight` averages the queue length (1: the length itself). Between the thresholds (packets) a packet is dropped, or
    marked with `ecn=True`, with a probability that rises to `max_probability`; from the upper threshold on always.
    A `max_probability` of 0 drops nothing in between. Raises NetreproError unless 0 < min < max <= packets (with
    `by_bytes` as many mean packets as that many full ones hold).

    `variant` "linux" is the kernel's rule. A packet counts as its bytes over `mean_packet_bytes` (None: a full packet),
    and the weight is the nearest power of two. One random number is drawn after each drop; the next drop comes once the
    packets since then, times the probability, reach it. So few packets are dropped while the average falls.

    "floyd1993" is the paper's rule (Fig. 2), which draws for each packet and counts packets. It alone has ns-2's
    options. `gentle`: above the upper threshold the probability rises further, to 1 at twice the threshold. `wait`:
    after a drop, 1/p packets pass before there may be another. `by_bytes`: the queue counts as its bytes over
    `mean_packet_bytes`, and a packet's probability is in proportion to its size.

    In both variants `mean_packet_bytes` sets how fast the average falls while the link is idle. With `adaptive`,
    `max_probability` is corrected every half second so that the average stays in the middle fifth between the
    thresholds (Floyd, Gummadi and Shenker 2001).
    """

    packets: Count
    min_threshold_packets: Positive
    max_threshold_packets: Annotated[float, Numbers(above=0, but="above `min_threshold_packets`, at most `packets`")]
    max_probability: Share = 0.02
    weight: PositiveShare = 0.002
    ecn: bool = False
    by_bytes: bool = False
    gentle: bool = False
    wait: bool = False
    mean_packet_bytes: Count | None = None
    adaptive: bool = False
    variant: str = LINUX

    def __post_init__(self) -> None:
        check_numbers(self)
        check_one_of(self, "variant", RED_VARIANTS)
        counted = FULL_PACKET_BYTES / (self.mean_packet_bytes or FULL_PACKET_BYTES) if self.by_bytes else 1
        set_number(self, "max_threshold_packets", above=self.min_threshold_packets, most=self.packets * counted)
        for name in ("by_bytes", "gentle", "wait") if self.variant == LINUX else ():
            if getattr(self, name):
                raise NetreproError(f"Red with {name}, which Linux's has not", "give variant='floyd1993' with it")
        if self.adaptive and self.max_probability == 0:
            raise NetreproError("Red: adaptive from max_probability = 0", "start it above 0, as at 0.1")

    @classmethod
    def self_configured(
        cls,
        rate_mbps: float,
        packets: int,
        *,
        target_delay_ms: float = 5.0,
        adaptive: bool = True,
        ecn: bool = False,
        mean_packet_bytes: int = FULL_PACKET_BYTES,
    ) -> Red:
        """Make a Red for a link of that rate, as ns-2's RED sets itself (Floyd, Gummadi and Shenker 2001, section 6).

        The weight is 1 - exp(-1/C) for C packets a second (ns-2 slows it for propagation delays above 33 ms). The
        lower threshold is half the packets of the target delay, 5 at least; the upper one is three times that.
        `gentle`, `wait` and `by_bytes` are on, and the probability begins at 0.1.

        Raises NetreproError for a buffer below the upper threshold.
        """
        packets_per_s = rate_mbps * 1e6 / 8 / mean_packet_bytes
        low = max(5.0, target_delay_ms / 1e3 * packets_per_s / 2)
        return cls(
            packets,
            low,
            3 * low,
            max_probability=0.1,
            weight=-math.expm1(-1 / packets_per_s),
            ecn=ecn,
            by_bytes=True,
            gentle=True,
            wait=True,
            mean_packet_bytes=mean_packet_bytes,
            adaptive=adaptive,
            variant="floyd1993",
        )

    def rule(self) -> Rule:
        thresholds = self.min_threshold_packets, self.max_threshold_packets
        common = (self.packets, *thresholds, self.max_probability, self.weight, self.ecn)
        if self.variant == LINUX:
            return "linux_red", (*common, self.mean_packet_bytes or 0, self.adaptive)
        options = self.by_bytes, self.gentle, self.wait, self.mean_packet_bytes or 0, self.adaptive and ADAPTED_EVERY_S
        return "red", (*common, *options)


@described
@dataclass(frozen=True)
class CoDel(_Queue):
    """Controlled delay (Nichols and Jacobson, ACM Queue 2012; RFC 8289) in a buffer of `packets`.

    Drops, or marks with `ecn=True`, at departure once packets have waited `target_ms` or more for `interval_ms`. It
    drops nothing while `least_bytes` or fewer wait: by default, one full packet. While it drops, the gaps shrink with
    the root of a count of drops.

    When it has to drop again soon after it stopped, it starts near its last rate, and `variant` says from which count:
    "rfc8289" from the drops of the last time, within 16 intervals. "linux" does the same with a root of 16 bits, which
    one step of Newton's method corrects at each drop: the second to fourth gap are .500, .563 and .488 intervals, not
    .707, .577 and .500. "ns2_2012", the authors' simulations, starts from the last count less one, within 16;
    "draft01" (draft-nichols-tsvwg-codel-01) from the last count less two, within 8. Otherwise all start from 1.
    """

    packets: Count = 1000
    target_ms: Positive = 5.0
    interval_ms: Positive = 100.0
    ecn: bool = False
    variant: str = LINUX
    least_bytes: CountFromZero = FULL_PACKET_BYTES

    def __post_init__(self) -> None:
        check_numbers(self)
        check_one_of(self, "variant", CODEL_VARIANTS)

    def rule(self) -> Rule:
        common = (self.packets, self.target_ms / 1e3, self.interval_ms / 1e3, self.ecn)
        if self.variant == LINUX:
            return "linux_codel", (*common, self.least_bytes)
        return "codel", (*common, CODEL_VARIANTS.index(self.variant) - 1, self.least_bytes)


@described
@dataclass(frozen=True)
class Pie(_Queue):
    """Proportional integral controller enhanced (RFC 8033) in a buffer of `packets`.

    Every `update_ms` the probability of a drop is corrected by how far the queue's delay is from `target_ms` and by
    how it has changed; gains, steps and the derandomisation are the RFC's. For `burst_ms` after a calm time nothing is
    dropped. With `ecn=True` an ECN-capable packet is marked instead while the probability is at most 10 %
    (section 5.1).

    `variant` "rfc8033" is the RFC's rule. "linux" is the kernel's: the delay is that of the packet sent last, not of
    the queue; the probability decays by 1/64 where two delays in a row are 0, not by 2 % where they are below half the
    target; it grows by 2 % more where the delay is above 250 ms; and the timer, which has ticks of a millisecond, takes
    one tick more than it is told.
    """

    packets: Count = 1000
    target_ms: Positive = 15.0
    update_ms: Positive = 15.0
    burst_ms: NotNegative = 150.0
    ecn: bool = False
    variant: str = LINUX

    def __post_init__(self) -> None:
        check_numbers(self)
        check_one_of(self, "variant", PIE_VARIANTS)

    def rule(self) -> Rule:
        times_s = self.target_ms / 1e3, self.update_ms / 1e3, self.burst_ms / 1e3
        return "linux_pie" if self.variant == LINUX else "pie", (self.packets, *times_s, self.ecn)


@described
@dataclass(frozen=True)
class PhantomQueue(_Queue):
    """Drop-tail of `packets`, with a counter of a virtual queue that holds no packets (HULL, NSDI 2012, section 4.1).

    The phantom queue grows by what the link sends and drains at `drain_share` of the link's rate. An ECN-capable packet
    after which it holds more than `threshold_bytes` is marked. So congestion is signalled before there is a queue.
    """

    packets: Count
    drain_share: PositiveShare = 0.95
    threshold_bytes: CountFromZero = 3000

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        return "phantom_queue", (self.packets, self.drain_share, self.threshold_bytes)


@described
@dataclass(frozen=True)
class SharedBuffer(_Queue):
    """Drop-tail in a memory of `bytes` that all ports of a switch with a SharedBuffer have in common.

    A port takes a packet that fits, as long as fewer bytes wait at the port than `alpha` times the free memory
    (dynamic thresholds; Choudhury and Hahne, ToN 1998). The packet that is being sent does not count. With
    `mark_packets` an ECN-capable arrival that finds so many packets or more waiting at its port is marked. All of a
    switch's ports give the same number of bytes; `alpha` and `mark_packets` may differ between ports.
    """

    bytes: Annotated[int, whole(least=FULL_PACKET_BYTES)]
    alpha: Positive = 1.0
    mark_packets: Count | None = None

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        return "shared_buffer", (self.bytes, self.alpha, self.mark_packets or 0)

    @property
    def most_packets(self) -> int:
        return max(self.bytes // FULL_PACKET_BYTES, 1)


@described
@dataclass(frozen=True)
class Sfq(_Queue):
    """Stochastic fair queueing (McKenney, INFOCOM 1990), as in Linux's sch_sfq, in a buffer of `packets`.

    Flows are hashed into `buckets`, which take turns of `quantum_bytes` and hold 127 packets each. When an arrival
    overfills the buffer, the longest bucket loses its last packet. Flows that share a bucket share its turns. The hash
    is not Linux's; it stays the same for the whole run, as Linux's does by default.
    """

    packets: Count = 127
    quantum_bytes: Count = FULL_PACKET_BYTES
    buckets: Annotated[int, whole(most=MOST_BUCKETS)] = 1024

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        return "sfq", (self.packets, self.quantum_bytes, self.buckets)


@described
@dataclass(frozen=True)
class FqCoDel(_Queue):
    """FQ-CoDel (RFC 8290) in a buffer of `packets`; the defaults are the RFC's (section 5.2).

    Flows are hashed into `flows` queues, each under a CoDel of its own (`target_ms`, `interval_ms`, marks with
    `ecn=True`), which take turns of `quantum_bytes`, new ones first. When an arrival overfills the buffer, the queue
    with most bytes loses half of them from its head, 64 packets at most.

    `variant` "linux" is the kernel's: it uses CoDel's variant "linux", drops nothing while all queues together hold no
    more than a packet, and counts packets that a queue loses to the limit as drops. "rfc8290" uses CoDel's "rfc8289",
    and each queue looks at itself alone.

    With `ce_threshold_ms`, which the kernel's has, an ECN-capable packet that has waited longer is marked, whatever
    CoDel says, and without `ecn` too; with `ce_threshold_ect_1` only one with ECT(1), the code point of L4S (tc's
    "ce_threshold_selector 0x1/0x3").
    """

    packets: Count = 10_240
    target_ms: Positive = 5.0
    interval_ms: Positive = 100.0
    ecn: bool = True
    quantum_bytes: Count = FULL_PACKET_BYTES
    flows: Annotated[int, whole(most=MOST_BUCKETS)] = 1024
    variant: str = LINUX
    ce_threshold_ms: Positive | None = None
    ce_threshold_ect_1: bool = False

    def __post_init__(self) -> None:
        check_numbers(self)
        check_one_of(self, "variant", FQ_CODEL_VARIANTS)
        if self.ce_threshold_ms is not None and self.variant != LINUX:
            raise NetreproError("FqCoDel: ce_threshold_ms is of Linux's alone", "give variant='linux' with it")
        if self.ce_threshold_ect_1 and self.ce_threshold_ms is None:
            raise NetreproError("FqCoDel: ce_threshold_ect_1 without a threshold", "give ce_threshold_ms with it")

    def rule(self) -> Rule:
        times_s = self.target_ms / 1e3, self.interval_ms / 1e3
        common = (self.packets, *times_s, self.ecn, self.quantum_bytes, self.flows)
        if self.variant == LINUX:
            return "linux_fq_codel", (*common, (self.ce_threshold_ms or 0) / 1e3, self.ce_threshold_ect_1)
        return "fq_codel", common


@described
@dataclass(frozen=True)
class Fq(_Queue):
    """Linux's fq (sch_fq) in a buffer of `packets`, at a port whose packets come from other hosts.

    Flows are hashed into `flows` queues of `flow_packets` at most, which take turns by credit, new ones first: a queue
    begins with `initial_quantum_bytes`, sends while it has credit, and gets `quantum_bytes` for the next turn. One that
    was empty for longer than `refill_delay_ms` begins again with a quantum at least. An ECN-capable packet that has
    waited longer than `ce_threshold_ms` is marked. With `flows=1` (tc's "orphan_mask 0") all flows share one queue.

    As in kernels from 6.7 on, up to eight packets that find no flow's queue in use pass by in one queue of their own:
    without a mark, and not counted in `packets`. Linux serves a flow's very first turn in another of its three bands;
    here there is one band. The hash is not Linux's. Nothing is paced: that is for a host's own sockets, and
    `Tcp(pacing=True)` paces there.
    """

    packets: Count = 10_000
    flow_packets: Count = 100
    quantum_bytes: Count = 2 * FULL_PACKET_BYTES
    initial_quantum_bytes: Count = 10 * FULL_PACKET_BYTES
    ce_threshold_ms: Positive | None = None
    refill_delay_ms: NotNegative = 40.0
    flows: Annotated[int, whole(most=MOST_BUCKETS)] = 1024

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        sizes = self.packets, self.flow_packets, self.quantum_bytes, self.initial_quantum_bytes
        return "linux_fq", (*sizes, (self.ce_threshold_ms or 0) / 1e3, self.refill_delay_ms / 1e3, self.flows)


@described
@dataclass(frozen=True)
class DualPi2(_Queue):
    """The dual queue of L4S: DualPI2 (RFC 9332, appendix A) as in Linux's sch_dualpi2, in a buffer of `packets`.

    Packets with ECT(1), and those that were marked before, wait in the L4S queue, others in the classic queue. Every
    `update_ms` a probability p grows by `alpha` times how far the longer delay is above `target_ms`, plus `beta` times
    its change since the last update, delays in seconds. Classic packets are dropped, or marked where they can be, with
    probability p², L4S packets marked with `coupling` times p, and all that have waited longer than `step_ms` behind
    two others or more. A `coupling` of 0 breaks the balance between both queues on purpose.

    The L4S queue goes first, but while both have packets `classic_share` of the bytes are the classic queue's. When
    `coupling` times p is above 1, L4S packets are dropped too, with probability p², and no packet is marked in place of
    a drop. While less than two full packets wait, nothing is dropped or marked but by the step.
    """

    packets: Count = 10_000
    target_ms: Positive = 15.0
    update_ms: Positive = 16.0
    alpha: NotNegative = 0.16
    beta: NotNegative = 3.2
    coupling: NotNegative = 2.0
    step_ms: Positive = 1.0
    classic_share: Share = 0.1

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        times_s = self.target_ms / 1e3, self.update_ms / 1e3, self.step_ms / 1e3
        return "dualpi2", (self.packets, *times_s, self.alpha, self.beta, self.coupling, self.classic_share)


@described
@dataclass(frozen=True)
class Cake(_Queue):
    """CAKE (Høiland-Jørgensen, Täht and Morton, LANMAN 2018): Linux's own, which only tier "virtual" has.

    Flows take turns, new ones first, each under COBALT: CoDel with a target of a twentieth of `round_trip_ms`, and BLUE
    for flows that do not answer. `isolation` says, in tc's words, between whom the rate is shared fairly:
    "triple-isolate" the hosts at both ends, and their flows; "flows"; "dual-srchost", "dual-dsthost", "hosts",
    "srchost", "dsthost", "flowblind". ECN is always on: marks come before drops.

    `memory_bytes` holds packets as the kernel stores them, 1514 bytes in 2304 or more. When an arrival overfills it,
    the longest queue loses its first packets. With `ack_filter` a waiting acknowledgement is dropped when a later one
    of its flow arrives. `shaped_mbps` is the rate of CAKE's own shaper, below the link's, from which it also computes
    turns and targets; None: the link is the bottleneck.

    All packets are best effort: no description sets a class (DSCP).
    """

    memory_bytes: Annotated[int, whole(least=LEAST_CAKE_BYTES, most=2**32 - 1)] = 4 * 2**20
    round_trip_ms: Annotated[float, Numbers(least=0.02, most=4e6)] = 100.0
    isolation: str = "triple-isolate"
    ack_filter: bool = False
    shaped_mbps: Annotated[float, Numbers(least=0.001)] | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        check_one_of(self, "isolation", ISOLATIONS)

    def rule(self) -> Rule:
        raise NetreproError("a queue of kind Cake, which only the Linux kernel has", "use tier 'virtual'")

    @property
    def most_packets(self) -> int:
        return self.memory_bytes // FULL_PACKET_BYTES

    @property
    def holds_back(self) -> bool:
        return self.shaped_mbps is not None


@described
@dataclass(frozen=True)
class NicPacer(_Queue):
    """The pacer of HULL's network interfaces (Alizadeh et al., NSDI 2012, section 4.2), for a host's own port only.

    Packets of a paced flow wait for tokens, of which a bucket holds `bucket_bytes`; other packets overtake them. The
    rate R of tokens follows the arrivals, R <- (1 - eta) R + eta M/T + beta Q every T = `update_us`. M is the bytes of
    paced flows that came in T, and Q the bytes that wait. When an acknowledgement with an ECN echo comes, its flow is
    paced with probability `association` for `associated_ms`. At most `packets` wait; senders never overflow that.

    The equation and the defaults are the paper's, as a replica of it gives them (Prasopoulos, EPFL: report and ns-2
    code). `update_us` is the replica's own.
    """

    packets: Count = 1000
    bucket_bytes: Annotated[int, whole(least=FULL_PACKET_BYTES)] = 3000
    eta: PositiveShare = 0.125
    beta: Positive = 16.0
    update_us: Annotated[float, Numbers(least=1)] = 64.0
    association: Share = 0.125
    associated_ms: Positive = 10.0

    def __post_init__(self) -> None:
        check_numbers(self)

    def rule(self) -> Rule:
        rates = self.eta, self.beta, self.update_us / 1e6
        return "nic_pacer", (self.packets, self.bucket_bytes, *rates, self.association, self.associated_ms / 1e3)

    @property
    def holds_back(self) -> bool:
        return True


@described
@dataclass(frozen=True)
class Slotted(_Queue):
    """Drop-tail of `packets` whose link sends in bursts, as WiFi and cellular links do: the `slot` of Linux's netem.

    The queue is open in slots. A packet that comes after the last slot has begun waits for the next one, which begins
    after a gap, drawn evenly from `min_gap_ms` to `max_gap_ms`. Then all packets that wait leave, one behind the other
    at the link's rate, but at most `slot_packets`, and no more once `slot_bytes` or more have left (None: no limit).
    The gap counts from when the slot's last allowed packet begins to leave; in a slot that ends sooner, for want of
    packets, it counts from when the link could send the next packet.

    So the link sends `slot_packets` packets in a gap at most, whatever its rate. A packet that finds the queue empty
    waits for a gap, too. At a host's own port in the simulator, all `packets` may be the host's; a kernel's sockets let
    few wait, which would never fill a slot, so tier "virtual" takes slots at switches' links only.

    Raises NetreproError for a `min_gap_ms` above `max_gap_ms`.
    """

    packets: Count
    min_gap_ms: Annotated[float, Numbers(least=0, most=MOST_GAP_MS, but="at most `max_gap_ms`")]
    max_gap_ms: Annotated[float, Numbers(above=0, most=MOST_GAP_MS)]
    slot_packets: Count | None = None
    slot_bytes: Annotated[int, whole(most=2**31 - 1)] | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.min_gap_ms > self.max_gap_ms:
            raise NetreproError(
                f"Slotted: min_gap_ms = {self.min_gap_ms:g}, and max_gap_ms = {self.max_gap_ms:g}", "swap them"
            )

    def rule(self) -> Rule:
        gaps_s = self.min_gap_ms / 1e3, self.max_gap_ms / 1e3
        return "slotted", (self.packets, *gaps_s, self.slot_packets or 0, self.slot_bytes or 0)

    @property
    def holds_back(self) -> bool:
        return True


@described
@dataclass(frozen=True)
class OwnQueue(_Queue):
    """A queue discipline of one's own: a module of the virtual kernel, whose C source tier "virtual" is given.

    `name` is its name in the kernel (the `id` of its Qdisc_ops) and starts with "my_". Its `init` gets `packets` as
    pfifo does: `nla_data(options)` is a struct tc_fifo_qopt, whose `limit` is `packets`.
    """

    name: str
    packets: Count = 100

    def __post_init__(self) -> None:
        if not re.fullmatch(r"my_[a-z0-9_]{1,12}", self.name):
            raise NetreproError(f"OwnQueue: name = {self.name!r}", "give my_ and up to 12 letters, digits or _")
        check_numbers(self)

    def rule(self) -> Rule:
        raise NetreproError(f"{self.name} is a module of the virtual kernel", "use tier 'virtual'")


# A new queue needs a class above, an entry here, and a C++ file (lib/core/README.md).
Queue = (
    DropTail
    | EcnThreshold
    | Red
    | CoDel
    | Pie
    | PhantomQueue
    | SharedBuffer
    | Sfq
    | FqCoDel
    | Fq
    | DualPi2
    | Cake
    | NicPacer
    | Slotted
    | OwnQueue
)
