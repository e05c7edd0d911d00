"""Links and the queues in front of them, as plain descriptions that every tier understands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from netrepro.errors import NetreproError
from netrepro.networks.description import check_count, described, set_number

# A full segment on the wire: 1448 bytes of data, TCP with timestamps 32, IPv4 20, Ethernet 14.
FULL_PACKET_BYTES = 1514


@described
@dataclass(frozen=True)
class DropTail:
    """First in, first out; an arrival that does not fit is dropped.

    Exactly one limit: `packets` (ACKs count as packets) or `bytes`, both without the packet that is being sent.
    Raises NetreproError for none, two, or one below a full packet.
    """

    packets: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.packets is None) == (self.bytes is None):
            raise NetreproError("DropTail with none or two limits", "give packets=... or bytes=...")
        if self.packets is not None:
            check_count(self, "packets")
        if self.bytes is not None:
            check_count(self, "bytes", least=FULL_PACKET_BYTES)


@described
@dataclass(frozen=True)
class EcnThreshold:
    """Drop-tail of `packets` that marks an ECN-capable arrival which finds `threshold_packets` or more waiting.

    The marking of DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.1). Packets without ECN are never marked, and
    dropped only when the buffer is full. Raises NetreproError for a threshold beyond the buffer.
    """

    packets: int
    threshold_packets: int

    def __post_init__(self) -> None:
        check_count(self, "packets")
        check_count(self, "threshold_packets")
        if self.threshold_packets > self.packets:
            raise NetreproError(
                f"EcnThreshold: a threshold of {self.threshold_packets} packets in a buffer of {self.packets}",
                "give a threshold within the buffer",
            )


@described
@dataclass(frozen=True)
class Red:
    """Random early detection (Floyd and Jacobson, ToN 1993) in a buffer of `packets`.

    `weight` averages the queue length; between the thresholds (packets) a packet is dropped, or marked with
    `ecn=True`, with a probability that rises to `max_probability`; from the upper threshold on always. Raises
    NetreproError unless 0 < min < max <= packets.
    """

    packets: int
    min_threshold_packets: float
    max_threshold_packets: float
    max_probability: float = 0.02
    weight: float = 0.002
    ecn: bool = False

    def __post_init__(self) -> None:
        check_count(self, "packets")
        set_number(self, "min_threshold_packets", above=0)
        set_number(self, "max_threshold_packets", above=self.min_threshold_packets, most=self.packets)
        set_number(self, "max_probability", above=0, most=1)
        set_number(self, "weight", above=0, most=1)


@described
@dataclass(frozen=True)
class CoDel:
    """Controlled delay (Nichols and Jacobson, ACM Queue 2012; RFC 8289) in a buffer of `packets`.

    Drops, or marks with `ecn=True`, at departure once packets have waited `target_ms` or more for `interval_ms`.
    """

    packets: int = 1000
    target_ms: float = 5.0
    interval_ms: float = 100.0
    ecn: bool = False

    def __post_init__(self) -> None:
        check_count(self, "packets")
        set_number(self, "target_ms", above=0)
        set_number(self, "interval_ms", above=0)


@described
@dataclass(frozen=True)
class Pie:
    """Proportional integral controller enhanced (RFC 8033) in a buffer of `packets`.

    Every `update_ms` the probability of a drop is corrected by how far the queue's delay is from `target_ms` and by
    how it has changed; gains, steps and the derandomisation are the RFC's. For `burst_ms` after a calm nothing is
    dropped. With `ecn=True` a packet that can bear it is marked instead while the probability is at most 10 %
    (section 5.1).
    """

    packets: int = 1000
    target_ms: float = 15.0
    update_ms: float = 15.0
    burst_ms: float = 150.0
    ecn: bool = False

    def __post_init__(self) -> None:
        check_count(self, "packets")
        set_number(self, "target_ms", above=0)
        set_number(self, "update_ms", above=0)
        set_number(self, "burst_ms", least=0)


@described
@dataclass(frozen=True)
class PhantomQueue:
    """Drop-tail of `packets` beside which a queue is counted that nobody waits in (HULL, NSDI 2012, section 4.1).

    The phantom takes in what the link sends and drains at `drain_share` of the link's rate; an ECN-capable packet
    that leaves it with more than `threshold_bytes` is marked. So congestion is told before there is a queue.
    """

    packets: int
    drain_share: float = 0.95
    threshold_bytes: int = 3000

    def __post_init__(self) -> None:
        check_count(self, "packets")
        check_count(self, "threshold_bytes", least=0)
        set_number(self, "drain_share", above=0, most=1)


@described
@dataclass(frozen=True)
class SharedBuffer:
    """Drop-tail in a memory of `bytes` that all ports of a switch with such a queue have in common.

    A port takes a packet that fits, as long as no more waits at the port than `alpha` times what is free (dynamic
    thresholds; Choudhury and Hahne, ToN 1998). What is being sent does not count. With `mark_packets` an ECN-capable
    arrival that finds so many packets or more waiting at its port is marked. All of a switch's ports name the same
    number of bytes; `alpha` and `mark_packets` are each port's own.
    """

    bytes: int
    alpha: float = 1.0
    mark_packets: int | None = None

    def __post_init__(self) -> None:
        check_count(self, "bytes", least=FULL_PACKET_BYTES)
        set_number(self, "alpha", above=0)
        if self.mark_packets is not None:
            check_count(self, "mark_packets")


Queue = DropTail | EcnThreshold | Red | CoDel | Pie | PhantomQueue | SharedBuffer


@described
@dataclass(frozen=True)
class Link:
    """One direction of a cable: the port's queue, its rate, then a delay that does not depend on the load.

    `loss` is the probability that a packet is lost on the wire, independently of all others. `jitter_ms` is the
    standard deviation of the delay, bell-shaped and cut off at no delay; packets keep their order, but for the share
    `reordering`, each of which is held back `reordering_ms` longer, independently of all others, while those behind it
    may overtake. Raises NetreproError for a rate that is not positive, a negative delay or jitter, a loss outside
    [0, 1), a reordering outside [0, 1] or with no time to hold packets back.
    """

    rate_mbps: float
    delay_ms: float
    queue: Queue = field(default_factory=lambda: DropTail(packets=100))
    loss: float = 0.0
    jitter_ms: float = 0.0
    reordering: float = 0.0
    reordering_ms: float = 0.0

    def __post_init__(self) -> None:
        set_number(self, "rate_mbps", above=0)
        set_number(self, "delay_ms", least=0)
        set_number(self, "loss", least=0)
        set_number(self, "jitter_ms", least=0)
        set_number(self, "reordering", least=0, most=1)
        set_number(self, "reordering_ms", least=0)
        if self.reordering > 0 and self.reordering_ms == 0:
            raise NetreproError(f"Link: reordering = {self.reordering}, and no time", "give reordering_ms=...")
        if self.loss >= 1:
            raise NetreproError(f"Link: loss = {self.loss}", "give a probability below 1")
        if not isinstance(self.queue, Queue):
            kinds = ", ".join(kind.__name__ for kind in get_args(Queue))
            raise NetreproError(f"Link: queue = {self.queue!r}", f"give one of {kinds}")
