"""Links and the queues in front of them, as plain descriptions that every tier understands."""

from __future__ import annotations

from dataclasses import dataclass, field

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


Queue = DropTail | EcnThreshold | Red | CoDel


@described
@dataclass(frozen=True)
class Link:
    """One direction of a cable: the port's queue, its rate, then a delay that does not depend on the load.

    `loss` is the probability that a packet is lost on the wire, independently of all others. Raises NetreproError
    for a rate that is not positive, a negative delay, a loss outside [0, 1).
    """

    rate_mbps: float
    delay_ms: float
    queue: Queue = field(default_factory=lambda: DropTail(packets=100))
    loss: float = 0.0

    def __post_init__(self) -> None:
        set_number(self, "rate_mbps", above=0)
        set_number(self, "delay_ms", least=0)
        set_number(self, "loss", least=0)
        if self.loss >= 1:
            raise NetreproError(f"Link: loss = {self.loss}", "give a probability below 1")
        if not isinstance(self.queue, Queue):
            raise NetreproError(f"Link: queue = {self.queue!r}", "give DropTail, EcnThreshold, Red or CoDel")
