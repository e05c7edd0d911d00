"""Links, as plain descriptions that every tier understands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, get_args

from netrepro.errors import NetreproError
from netrepro.networks.description import (
    NotNegative,
    Numbers,
    Positive,
    Share,
    check_numbers,
    check_positive,
    described,
    whole,
)
from netrepro.networks.queues import (
    FULL_PACKET_BYTES,
    Cake,
    CoDel,
    DropTail,
    DualPi2,
    EcnThreshold,
    Fq,
    FqCoDel,
    NicPacer,
    OwnQueue,
    PhantomQueue,
    Pie,
    Queue,
    Red,
    Sfq,
    SharedBuffer,
    Slotted,
)

__all__ = [
    "FULL_PACKET_BYTES",
    "Cake",
    "CoDel",
    "DropTail",
    "DualPi2",
    "EcnThreshold",
    "Fq",
    "FqCoDel",
    "Link",
    "NicPacer",
    "OwnQueue",
    "PhantomQueue",
    "Pie",
    "Policer",
    "Queue",
    "Red",
    "Sfq",
    "SharedBuffer",
    "Slotted",
    "bandwidth_delay_packets",
]


MOST_OFFLOAD_BYTES = 65_536
LEAST_MTU_BYTES, MOST_MTU_BYTES = 128, 65_535
ETHERNET_MTU_BYTES = 1500
LONGEST_BURST_S = 270.0  # Linux counts a policer's burst in 32 bits of 64 ns: 274.9 s


def bandwidth_delay_packets(rate_mbps: float, round_trip_ms: float, packet_bytes: float = FULL_PACKET_BYTES) -> float:
    """Return the packets that a path of this rate (Mb/s) and round trip (ms) holds while none of them waits.

    Raises NetreproError for a value that is not a positive number.
    """
    for name, value in {"rate_mbps": rate_mbps, "round_trip_ms": round_trip_ms, "packet_bytes": packet_bytes}.items():
        check_positive(value, f"bandwidth_delay_packets: {name}")
    return rate_mbps * 1e3 * round_trip_ms / 8 / packet_bytes


@described
@dataclass(frozen=True)
class Policer:
    """A token bucket that drops, at once, what comes beyond its rate and burst: Linux's act_police (`tc ... police`).

    It has no queue. Its bucket holds `burst_bytes` at most, is full at first, and fills at `rate_mbps`. A packet for
    which there are tokens takes as many as it has bytes, with its Ethernet header, and passes; any other packet takes
    none, and is dropped. A packet larger than `mtu_bytes` is always dropped; None: none is too large. It is the single
    rate, single bucket case of RFC 2697 (an excess burst of 0), with yellow and red dropped.

    Raises NetreproError for a burst that takes longer than 270 s at the rate, which is beyond Linux's counter.
    """

    rate_mbps: Annotated[float, Numbers(least=0.001)]
    burst_bytes: Annotated[int, whole(least=FULL_PACKET_BYTES)]
    mtu_bytes: Annotated[int, whole(most=MOST_MTU_BYTES + 14)] | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        burst_s = self.burst_bytes * 8 / (self.rate_mbps * 1e6)
        if burst_s > LONGEST_BURST_S:
            raise NetreproError(
                f"Policer: burst_bytes = {self.burst_bytes} at {self.rate_mbps:g} Mb/s, which is {burst_s:.0f} s",
                f"give a burst of {LONGEST_BURST_S:g} s at most",
            )


@described
@dataclass(frozen=True)
class Link:
    """One direction of a cable: the port's queue, its rate, then a delay that does not depend on the load.

    `loss` is the probability that a packet is lost on the wire, independently of all others. `jitter_ms` is the
    standard deviation of the delay, which is bell-shaped and never below 0. Packets keep their order, but for the share
    `reordering`: each of these, independently of all others, is held back `reordering_ms` longer, and packets behind
    it may overtake it.

    `offload_bytes`, of a host's own port: senders hand over bursts of so many bytes (segmentation offload), of a third
    of their window where that is less, or of the rest of their data. With 0 each segment leaves when it may.

    `mtu_bytes`, 128 to 65535, equal in both directions of a cable: the largest IP packet that is sent. TCP's segments
    are as large as Tcp says or, where that is less, as the smaller `mtu_bytes` of both hosts' own ports less 52 bytes
    (headers of IPv4 and TCP with time stamps). None sets no limit in the simulator, and is Ethernet's 1500 bytes on
    kernels.

    `policer` stands before the queue: a packet that it drops never joins the queue, and counts among the link's dropped
    packets. A host is not told that its own port's policer has dropped a packet, as if it stood at the cable's other
    end.

    Raises NetreproError for a rate that is not positive, a negative delay or jitter, a loss outside [0, 1), a
    reordering outside [0, 1] or with no time to hold packets back.
    """

    rate_mbps: Positive
    delay_ms: NotNegative
    queue: Queue = field(default_factory=lambda: DropTail(packets=100))
    loss: Annotated[float, Numbers(least=0, below=1)] = 0.0
    jitter_ms: NotNegative = 0.0
    reordering: Share = 0.0
    reordering_ms: NotNegative = 0.0
    offload_bytes: Annotated[int, whole(least=0, most=MOST_OFFLOAD_BYTES)] = 0
    mtu_bytes: Annotated[int, whole(least=LEAST_MTU_BYTES, most=MOST_MTU_BYTES)] | None = None
    policer: Policer | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.reordering > 0 and self.reordering_ms == 0:
            raise NetreproError(f"Link: reordering = {self.reordering}, and no time", "give reordering_ms=...")
        if not isinstance(self.queue, Queue):
            kinds = ", ".join(kind.__name__ for kind in get_args(Queue))
            raise NetreproError(f"Link: queue = {self.queue!r}", f"give one of {kinds}")
        if self.policer is not None and not isinstance(self.policer, Policer):
            raise NetreproError(f"Link: policer = {self.policer!r}", "give Policer(rate_mbps, burst_bytes), or None")
