"""Links whose rate, delay and loss follow a trace: read from a file, or drawn from a random process; as LinkChanges.

A file is a table (CSV) or a trace of mahimahi's `mm-link` (Netravali et al., USENIX ATC 2015). The latter has a number
a line, in order: each is a time in ms at which one packet of 1500 bytes may leave. After its end, a trace is repeated.

    time_s,rate_mbps,delay_ms,loss          a row holds from its time on; without a column the link keeps its own value;
    0,12,20,0                               the last row is the end of the trace: only its time counts
    1.5,4,35,0.01
    3,12,20,0
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.queues import FULL_PACKET_BYTES
from netrepro.networks.routing import LinkChange

COLUMNS = ("time_s", "rate_mbps", "delay_ms", "loss")
MOST_CHANGES = 100_000
WINDOW_MS = 20.0
Step = tuple[float, float | None, float | None, float | None]  # COLUMNS; None: the link's own


@dataclass(frozen=True)
class LinkTrace:
    """The course of a link over time.

    steps : the time (s) from which each holds, and its rate, delay and loss (None: the link's own). period_s : the time
    after which the steps begin anew.
    """

    steps: tuple[Step, ...]
    period_s: float

    def __post_init__(self) -> None:
        times = [at_s for at_s, *_ in self.steps]
        if not times or times[0] != 0 or any(a >= b for a, b in zip(times, [*times[1:], self.period_s], strict=True)):
            raise NetreproError(f"a trace of steps at {times[:5]} s until {self.period_s:g} s", "begin at 0 and go on")
        for step in self.steps:
            _change(step[0], "s1", "s2", step, True)

    @property
    def mean_mbps(self) -> float:
        """The mean of the rate over the trace; NaN where it has none."""
        ends = [*(at_s for at_s, *_ in self.steps[1:]), self.period_s]
        sent = sum((rate or math.nan) * (end - at_s) for (at_s, rate, *_), end in zip(self.steps, ends, strict=True))
        return sent / self.period_s

    def changes(
        self, source: str, destination: str, duration_s: float, both_directions: bool = False
    ) -> tuple[LinkChange, ...]:
        """List the changes of a link, for Experiment(changes=), from 0 s to before the end.

        On kernels, a packet that starts to leave within some tens of microseconds of a change may leave as before.
        Raises NetreproError for more than a hundred thousand changes.
        """
        count = math.ceil(duration_s / self.period_s) * len(self.steps)
        if count > MOST_CHANGES:
            raise NetreproError(
                f"{count:,} changes of a link, and {MOST_CHANGES:,} are as many as there may be",
                "give a larger window_ms, or let the experiment be shorter",
            )
        steps = self._repeated(duration_s)
        return tuple(_change(at_s, source, destination, step, both_directions) for at_s, step in steps)

    def _repeated(self, duration_s: float) -> Iterator[tuple[float, Step]]:
        for turn in range(math.ceil(duration_s / self.period_s)):
            for step in self.steps:
                at_s = turn * self.period_s + step[0]
                if at_s < duration_s:
                    yield at_s, step


def _change(at_s: float, source: str, destination: str, step: Step, both_directions: bool) -> LinkChange:
    _, rate_mbps, delay_ms, loss = step
    return LinkChange(at_s, source, destination, rate_mbps, None, both_directions, delay_ms, loss)


def read_link_trace(path: str | os.PathLike[str], window_ms: float = WINDOW_MS) -> LinkTrace:
    """Read a trace from a file of either kind.

    window_ms : for traces of mahimahi, the least time over which packets are counted. The rate is the one at which so
        many packets leave in that time, with their Ethernet headers. With 0 it changes at every packet.

    Raises NetreproError, with the line, for a file that is neither.
    """
    if not isinstance(path, str | os.PathLike):
        raise NetreproError(f"a trace {path!r}", "give the path of a file")
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NetreproError(f"no trace in {file}: {error}", "give a table (CSV) or a trace of mahimahi's") from None
    try:
        if lines and lines[0].split(",")[0].strip() == COLUMNS[0]:
            return _from_table(lines)
        at_ms = [_whole(line, number) for number, line in enumerate(lines, 1) if line.strip()]
        return _from_opportunities(at_ms, window_ms)
    except NetreproError as error:
        raise NetreproError(f"{file}: {error.problem}", error.remedy) from None


def _from_table(lines: list[str]) -> LinkTrace:
    rows = list(csv.DictReader(lines, skipinitialspace=True))
    unknown = set(rows[0] if rows else ()) - set(COLUMNS)
    if unknown or len(rows) < 2:
        told = f"columns {sorted(map(str, unknown))}" if unknown else f"{len(rows)} rows"
        raise NetreproError(told, f"give {','.join(COLUMNS)} and two rows or more")
    steps = []
    for number, row in enumerate(rows, 2):
        values = [_number(row.get(name), number) for name in COLUMNS]
        if values[0] is None:
            raise NetreproError(f"line {number} without a time", "give time_s")
        steps.append((values[0], values[1], values[2], values[3]))
    return LinkTrace(tuple(steps[:-1]), steps[-1][0])


def _number(text: str | None, line: int) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise NetreproError(f"line {line}: {text!r}", "give a number") from None


def _whole(text: str, line: int) -> int:
    if not text.strip().isdecimal():
        raise NetreproError(f"line {line}: {text!r}", "give a whole number of milliseconds a line, or a table (CSV)")
    return int(text)


def _from_opportunities(at_ms: list[int], window_ms: float) -> LinkTrace:
    if not at_ms or at_ms[-1] == 0 or at_ms != sorted(at_ms):
        raise NetreproError(f"{len(at_ms)} milliseconds, not in order or none above 0", "give them in order")
    steps: list[Step] = []
    began_ms = count = 0
    moments, counts = np.unique(at_ms, return_counts=True)
    for moment, packets in zip(moments.tolist(), counts.tolist(), strict=True):
        count += packets
        if moment > began_ms and (moment - began_ms >= window_ms or moment == at_ms[-1]):
            steps.append((began_ms / 1e3, count * FULL_PACKET_BYTES * 8e-3 / (moment - began_ms), None, None))
            began_ms, count = moment, 0
    return LinkTrace(tuple(steps), at_ms[-1] / 1e3)


def cellular_trace(
    mean_mbps: float = 10.0,
    duration_s: float = 60.0,
    seed: int = 1,
    *,
    spread: float = 0.6,
    memory_s: float = 2.0,
    step_ms: float = 100.0,
    least_share: float = 0.02,
) -> LinkTrace:
    """Draw a rate such as a mobile phone's link may have; it is synthetic, not measured anywhere.

    The rate's logarithm is an Ornstein-Uhlenbeck process: each step of `step_ms` it falls towards its mean by the share
    1 - exp(-step / memory_s) and takes a normal step, so that its standard deviation is `spread` at any time. The rate
    is `mean_mbps` in expectation, and never less than `least_share` of it.
    """
    steps = max(1, round(duration_s * 1e3 / step_ms))
    kept = math.exp(-step_ms / 1e3 / memory_s)
    level, *draws = (np.random.default_rng(seed).standard_normal(steps) * spread).tolist()
    levels = list(accumulate(draws, lambda before, draw: kept * before + math.sqrt(1 - kept**2) * draw, initial=level))
    rates = [mean_mbps * max(least_share, math.exp(level - spread**2 / 2)) for level in levels]
    table = tuple((place * step_ms / 1e3, rate, None, None) for place, rate in enumerate(rates))
    return LinkTrace(table, steps * step_ms / 1e3)
