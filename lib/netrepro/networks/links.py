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
    "Queue",
    "Red",
    "Sfq",
    "SharedBuffer",
    "bandwidth_delay_packets",
]


MOST_OFFLOAD_BYTES = 65_536
LEAST_MTU_BYTES, MOST_MTU_BYTES = 128, 65_535
ETHERNET_MTU_BYTES = 1500


def bandwidth_delay_packets(rate_mbps: float, round_trip_ms: float, packet_bytes: float = FULL_PACKET_BYTES) -> float:
    """Return the packets that a path of this rate (Mb/s) and round trip (ms) holds while none of them waits.

    Raises NetreproError for a value that is not a positive number.
    """
    for name, value in {"rate_mbps": rate_mbps, "round_trip_ms": round_trip_ms, "packet_bytes": packet_bytes}.items():
        check_positive(value, f"bandwidth_delay_packets: {name}")
    return rate_mbps * 1e3 * round_trip_ms / 8 / packet_bytes


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

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.reordering > 0 and self.reordering_ms == 0:
            raise NetreproError(f"Link: reordering = {self.reordering}, and no time", "give reordering_ms=...")
        if not isinstance(self.queue, Queue):
            kinds = ", ".join(kind.__name__ for kind in get_args(Queue))
            raise NetreproError(f"Link: queue = {self.queue!r}", f"give one of {kinds}")
