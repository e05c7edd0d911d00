"""Replay of recorded arrivals through one queue alone: what happens to each packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks.queues import NicPacer, Queue, SharedBuffer

ARRIVAL_COLUMNS = ["time_s", "size_bytes", "flow", "ecn"]
_PS_PER_S = 1e12
_BUSY = 2**63 - 1  # as the time since which a link is idle: it is busy


def replay(
    queue: Queue,
    arrivals: pd.DataFrame,
    rate_mbps: float,
    *,
    asked_s: Sequence[float] | None = None,
    draws: Sequence[int] | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Feed the arrivals to the queue; return a row for each packet: `decision`, `marked`, `decided_s`.

    arrivals : ARRIVAL_COLUMNS in the order of time. Packets of one flow have one number; `ecn` says which can be
    marked, and `ect_1`, if there is that column, which of them have ECT(1), the code point of L4S.
    rate_mbps : rate of the link, which asks for a packet whenever it has sent one.
    asked_s : the times at which the link asked for a packet, also in vain, if they are known; a packet that arrives at
    such a time counts as earlier.
    draws : the random numbers by which a queue of variant "linux" decides, one after the other, if they are known.
    seed : seed of all other random numbers.

    A decision is "sent", "dropped", or "waits" where neither has happened by the end; `decided_s` is its time, NaN for
    "waits". Raises NetreproError for missing columns, for times out of order, for too few draws, and for a queue that
    needs more than a link (SharedBuffer, NicPacer).
    """
    if isinstance(queue, SharedBuffer | NicPacer):
        raise NetreproError(f"replay of {queue!r}", "simulate a network with it; it is not by itself alone")
    missing = [name for name in ARRIVAL_COLUMNS if name not in arrivals]
    if missing:
        raise NetreproError(f"arrivals without {', '.join(missing)}", f"give columns {', '.join(ARRIVAL_COLUMNS)}")
    times = _picoseconds(arrivals["time_s"])
    asked = None if asked_s is None else _picoseconds(asked_s)
    for of_whom, each in (("arrivals", times), ("asked_s", asked)):
        if each is not None and (np.diff(each) < 0).any():
            raise NetreproError(f"{of_whom} that go back in time", "sort them by time")
    rule, numbers = queue.rule()
    stand = _Stand(_core.NamedQueue(rule, numbers, rate=rate_mbps * 1e6, seed=seed, draws=draws), len(times))
    flags = arrivals.get("ect_1", pd.Series(False, arrivals.index))
    columns = (*(arrivals[name] for name in ARRIVAL_COLUMNS[1:]), flags)
    packets = zip(times.tolist(), *(column.tolist() for column in columns), strict=True)
    try:
        if asked is None:
            _by_rate(stand, packets, 8e6 / rate_mbps)
        else:
            _by_times(stand, packets, asked.tolist())
    except IndexError as error:  # std::out_of_range
        raise NetreproError(f"replay of {queue!r}: {error}", "give all draws, or none") from error
    return stand.decisions()


def _picoseconds(times_s: Sequence[float] | pd.Series) -> np.ndarray:
    return np.rint(np.asarray(times_s, dtype=float) * _PS_PER_S).astype(np.int64)


class _Stand:
    """The queue on its own, and the decisions on packets so far."""

    def __init__(self, queue: _core.NamedQueue, packets: int):
        self.queue = queue
        self._decision = np.full(packets, "waits", dtype=object)
        self._marked = np.zeros(packets, dtype=bool)
        self._decided_ps = np.full(packets, np.nan)

    def join(
        self, packet: int, size: int, flow: int, ecn: bool, ect_1: bool, now: int, idle_since: int | None = None
    ) -> None:
        """Let a packet join the queue at the time `now` (ps)."""
        self._note(self.queue.join(packet, size, flow, ecn, now, idle_since, ect_1), now)

    def ask(self, now: int) -> int | None:
        """Take the packet that is sent now, if there is one."""
        sent, dropped = self.queue.next(now)
        self._note(dropped, now)
        if sent is None:
            return None
        packet, self._marked[sent[0]] = sent
        self._decision[packet], self._decided_ps[packet] = "sent", now
        return int(packet)

    def _note(self, dropped: Sequence[int], now: int) -> None:
        for packet in dropped:
            self._decision[packet], self._decided_ps[packet] = "dropped", now

    def decisions(self) -> pd.DataFrame:
        """Return the table of `replay`."""
        return pd.DataFrame(
            {"decision": self._decision, "marked": self._marked, "decided_s": self._decided_ps / _PS_PER_S}
        )


_Packets = Iterable[tuple[int, int, int, bool, bool]]  # arrival, bytes, flow, whether it can be marked, has ECT(1)


def _by_times(stand: _Stand, packets: _Packets, asked: Sequence[int]) -> None:
    """Let the link ask at these times. It is idle from a time at which it asked in vain until it sends a packet."""
    idle_since, place = 0, 0
    for packet, (now, size, flow, ecn, ect_1) in enumerate(packets):
        while place < len(asked) and asked[place] < now:
            if stand.ask(asked[place]) is not None:
                idle_since = _BUSY
            elif idle_since == _BUSY:
                idle_since = asked[place]
            place += 1
        stand.join(packet, size, flow, ecn, ect_1, now, idle_since)
    for at in asked[place:]:
        stand.ask(at)


def _by_rate(stand: _Stand, packets: _Packets, ps_per_byte: float) -> None:
    """Let the link ask whenever it has sent a packet, and at an arrival while it is idle."""
    sizes: list[int] = []
    free_at: int | None = 0  # when the link will have sent its packet; None while it is idle

    def send(begin: int) -> int | None:
        sent = stand.ask(begin)
        return None if sent is None else begin + round(sizes[sent] * ps_per_byte)

    for packet, (now, size, flow, ecn, ect_1) in enumerate(packets):
        sizes.append(size)
        while free_at is not None and free_at < now:
            free_at = send(free_at)
        stand.join(packet, size, flow, ecn, ect_1, now)
        if free_at is None:
            free_at = send(now)
    while free_at is not None:
        free_at = send(free_at)
