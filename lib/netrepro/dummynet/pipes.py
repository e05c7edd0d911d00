"""Pipes: a router's queue and the line behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.description import check_count, set_number
from netrepro.networks.queues import CoDel, DropTail, EcnThreshold, Pie, Red

LAST_PIPE = 65_535
PipeQueue = DropTail | EcnThreshold | Red | CoDel | Pie
DEFAULT_QUEUE = DropTail(packets=50)  # ipfw's


@dataclass(frozen=True)
class Pipe:
    """A router queue served at `rate_mbps` (None: at once), then a line of `delay_ms`.

    `loss` and `reorder` are a packet's probabilities: of being lost at the end of the line, and of entering the queue
    ahead of the last packet that waits there (Rizzo, "Dummynet: a simple approach to the evaluation of network
    protocols", CCR 27(1), 1997).

    Raises NetreproError for what is no number, probabilities outside 0 to 1, and a rate or delay beyond what the
    virtual clock can count: 1 bit/s to 10 Tbit/s, 1 us to 1e6 s.
    """

    number: int
    rate_mbps: float | None = None
    delay_ms: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    queue: PipeQueue = DEFAULT_QUEUE

    def __post_init__(self) -> None:
        if not isinstance(self.queue, PipeQueue):
            raise NetreproError(f"a pipe with {self.queue!r}", "give DropTail, EcnThreshold, Red, CoDel or Pie")
        check_count(self, "number", most=LAST_PIPE)
        if self.rate_mbps is not None:
            set_number(self, "rate_mbps", above=0)
        set_number(self, "delay_ms", least=0)
        if self.delay_ms:
            set_number(self, "delay_ms", above=0)
        for name in ("loss", "reorder"):
            set_number(self, name, least=0, most=1)

    def ends_s(self, last_s: float, sizes_bytes: np.ndarray) -> float:
        """Return a bound on the last departure (s), for a last arrival at `last_s`: all that waits is sent."""
        if not len(sizes_bytes) or self.rate_mbps is None:
            return last_s + self.delay_ms / 1e3
        largest = int(sizes_bytes.max())
        room_bytes = self.queue.bytes if isinstance(self.queue, DropTail) and self.queue.bytes else None
        waiting = room_bytes if room_bytes is not None else (self.queue.packets or 0) * largest
        return (
            last_s + min(waiting + largest, int(sizes_bytes.sum())) * 8 / (self.rate_mbps * 1e6) + self.delay_ms / 1e3
        )
