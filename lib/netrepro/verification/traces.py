"""Runs with concrete packets: the state of a run, and the trace that records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.verification.queues import Queue
from netrepro.verification.workloads import FIELDS, Metric, as_metric, refuse_unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Packet = tuple[int, int]  # (dst, ecmp)


@dataclass(frozen=True)
class Trace:
    """The events of each step at each queue: one answer of the solver, or one run.

    Attributes
    ----------
    horizon : number of steps.
    arrived : queue -> for each step, the packets (dst, ecmp) offered, including dropped ones.
    taken : queue -> for each step, the number of packets dequeued.
    length : queue -> for each step, the number of packets waiting before the dequeue.
    choices : label -> the value of a module's free choice.
    """

    horizon: int
    arrived: Mapping[str, Sequence[Sequence[Packet]]]
    taken: Mapping[str, Sequence[int]]
    length: Mapping[str, Sequence[int]]
    choices: Mapping[str, bool] = field(default_factory=dict)
    _known: dict[tuple[str, str], list[int | None]] = field(default_factory=dict, compare=False, repr=False)

    def offered(self, queue: str, time: int) -> int:
        """Count the packets offered to `queue` at `time` (1..horizon)."""
        self._refuse_other_times(time)
        return len(self.arrived[queue][time - 1])

    def metric(self, metric: Metric | str, queue: str, time: int) -> int | None:
        """Return the metric of `queue` at `time` (1..horizon); None where it is not valid.

        Raises NetreproError for a queue or time that the trace does not have.
        """
        self._refuse_other_times(time)
        key = (metric, queue)
        if key not in self._known:
            if queue not in self.arrived:
                raise NetreproError(f"no queue is called {queue!r}", nearest(queue, self.arrived))
            self._known[key] = [self._measure(as_metric(metric), queue, t) for t in range(self.horizon)]
        return self._known[key][time - 1]

    def _refuse_other_times(self, time: int) -> None:
        if not 1 <= time <= self.horizon:  # time 0 would be index -1, the last step
            raise NetreproError(f"the trace has no step {time}", f"its steps are 1..{self.horizon}")

    def _measure(self, metric: Metric, queue: str, t: int) -> int | None:
        offered = [len(packets) for packets in self.arrived[queue]]
        if metric is Metric.CENQ:
            return sum(offered[: t + 1])
        if metric is Metric.CDEQ:
            return sum(self.taken[queue][: t + 1])
        if metric is Metric.DEQ:
            return self.taken[queue][t]
        if metric is Metric.QSIZE:
            return self.length[queue][t]
        if metric is Metric.CBLOCKED:
            blocked = 0
            while blocked <= t and self.length[queue][t - blocked] and not self.taken[queue][t - blocked]:
                blocked += 1
            return blocked
        if metric is Metric.AIPG:
            return self._gap(offered, t)
        values = {packet[FIELDS.index(metric)] for packet in self.arrived[queue][t]}
        return values.pop() if len(values) == 1 else None

    def _gap(self, offered: list[int], t: int) -> int:
        while t > 0 and offered[t] == 0:
            t -= 1
        if t == 0 or offered[t] > 1:
            return 0
        before = [t - s for s in range(t) if offered[s]]
        after = [s - t for s in range(t + 1, self.horizon) if offered[s]]
        return min(before, default=min(after, default=self.horizon))

    def table(self) -> pd.DataFrame:
        """Return a row per step and queue: time_step, queue, offered_packets, dequeued_packets, waiting_packets."""
        rows = [
            (t + 1, queue, len(self.arrived[queue][t]), self.taken[queue][t], self.length[queue][t])
            for queue in self.arrived
            for t in range(self.horizon)
        ]
        return pd.DataFrame(
            rows, columns=["time_step", "queue", "offered_packets", "dequeued_packets", "waiting_packets"]
        )

    def grid(self, metric: Metric | str = Metric.QSIZE) -> pd.DataFrame:
        """Return a metric: one row per step 1..horizon, one column per queue; missing where it is not valid."""
        columns = {queue: [self.metric(metric, queue, t) for t in range(1, self.horizon + 1)] for queue in self.arrived}
        return pd.DataFrame(columns, index=pd.RangeIndex(1, self.horizon + 1, name="time_step"))

    def draw(self, queues: Sequence[str] | None = None, title: str = "Packets waiting, step by step") -> Figure:
        """Draw queues over time: a bar for each waiting packet (green: it leaves in this step), arrivals as +n above.

        queues : names from top to bottom; None for all. Raises NetreproError for an unknown queue.
        """
        from netrepro.style import new_figure  # solving needs no matplotlib

        shown = list(self.arrived if queues is None else queues)
        refuse_unknown("the picture", shown, self.arrived)
        figure, axis = new_figure(title, "step", "queue")
        axis.grid(False)
        for row, queue in enumerate(reversed(shown)):
            self._draw_queue(axis, queue, row)
        axis.set_yticks(range(len(shown)), shown[::-1])
        axis.set_xticks(range(1, self.horizon + 1))
        axis.set(ylim=(-0.5, len(shown)), xlim=(0.5, self.horizon + 0.5))
        return figure

    def _draw_queue(self, axis: Axes, queue: str, row: int) -> None:
        axis.axhline(row - 0.3, color="#888888", linewidth=0.6)
        for t in range(self.horizon):
            waiting, taken = self.length[queue][t], self.taken[queue][t]
            for packet in range(waiting):
                colour = "#009E73" if packet < taken else "#56B4E9"
                left = t + 0.62 + 0.8 * packet / max(waiting, 5)
                axis.bar(left, 0.5, width=0.7 / max(waiting, 5), bottom=row - 0.25, color=colour, align="edge")
            if self.arrived[queue][t]:
                axis.annotate(f"+{len(self.arrived[queue][t])}", (t + 1, row + 0.3), fontsize=7, ha="center")


class PacketRun:
    """The state of a run, with real packets in its queues; a module's `serve` works on this object.

    `time` is the step, from 0 as in Step; workloads, queries and traces count from 1.
    """

    def __init__(
        self,
        queues: Mapping[str, Queue],
        horizon: int,
        choices: Mapping[str, bool],
        generator: np.random.Generator,
    ):
        self.queues, self.horizon, self.time, self.module = queues, horizon, 0, ""
        self.generator = generator
        self._known = choices
        self._choices: dict[str, bool] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, list[Packet]] = {name: [] for name in queues}
        self._offers: dict[str, list[Packet]] = {name: [] for name in queues}
        self._merged: set[str] = set()
        self._arrived: dict[str, list[list[Packet]]] = {name: [] for name in queues}
        self._taken: dict[str, list[int]] = {name: [] for name in queues}
        self._length: dict[str, list[int]] = {name: [] for name in queues}

    @property
    def memory(self) -> dict[str, Any]:
        """The values that the module being served remembers between steps."""
        return self._memory.setdefault(self.module, {})

    def begin(self, time: int) -> None:
        """Begin a step: nothing is offered or taken yet."""
        self.time = time
        self._merged = set()
        for name in self.queues:
            self._offers[name] = []
            self._taken[name].append(0)

    def offer(self, name: str, packets: list[Packet]) -> None:
        """Offer packets to a queue; those that do not fit are dropped when the queue admits the offer."""
        assert name not in self._merged and len(self._offers[name]) + len(packets) <= self.queues[name].max_enqueue
        self._offers[name] += packets

    def waiting(self, name: str) -> list[Packet]:
        """Return the packets that may be taken from queue `name` now, front first."""
        queue = self.queues[name]
        if queue.immediate and name not in self._merged:
            self._merged.add(name)
            self._admit(name)
        return self._waiting[name]

    def _admit(self, name: str) -> None:
        room = self.queues[name].capacity - len(self._waiting[name])
        self._waiting[name] += self._offers[name][:room]

    def take(self, name: str, count: int = 1) -> list[Packet]:
        """Dequeue `count` packets and return them, front first."""
        waiting = self.waiting(name)
        assert count <= min(len(waiting), self.queues[name].max_dequeue), f"{name}: {count} of {len(waiting)}"
        self._taken[name][self.time] += count
        taken, waiting[:count] = waiting[:count], []
        return taken

    def choice(self, label: str) -> bool | None:
        """Return the known value of the free choice `label`; None where it is not known."""
        return self._known.get(label)

    def chose(self, label: str, value: bool) -> None:
        """Record the value of a free choice, so that the run can be repeated."""
        self._choices[label] = bool(value)

    def end(self) -> None:
        """End a step: record lengths and arrivals, and admit what was offered."""
        for name, queue in self.queues.items():
            self.waiting(name)
            self._length[name].append(len(self._waiting[name]) + self._taken[name][self.time])
            self._arrived[name].append(list(self._offers[name]))
            if not queue.immediate:
                self._admit(name)

    def trace(self) -> Trace:
        """Return what was recorded so far."""
        return Trace(self.horizon, self._arrived, self._taken, self._length, self._choices)
