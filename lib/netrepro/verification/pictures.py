"""Pictures of traces."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.style import new_figure
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import refuse_unknown


def draw_queues(trace: Trace, queues: Sequence[str], title: str) -> Figure:
    """Time against queue: a bar for each packet waiting (green: it leaves now); arrivals as +n above.

    Raises NetreproError for a queue that the trace does not have.
    """
    refuse_unknown("the picture", queues, trace.arrived)
    figure, axis = new_figure(title, "step", "queue")
    axis.grid(False)
    for row, queue in enumerate(queues):
        _draw_queue(axis, trace, queue, len(queues) - 1 - row)
    axis.set_yticks(range(len(queues)), list(reversed(queues)))
    axis.set_xticks(range(1, trace.horizon + 1))
    axis.set(ylim=(-0.5, len(queues)), xlim=(0.5, trace.horizon + 0.5))
    return figure


def _draw_queue(axis: Axes, trace: Trace, queue: str, row: int) -> None:
    axis.axhline(row - 0.3, color="#888888", linewidth=0.6)
    for t in range(trace.horizon):
        waiting, taken = trace.length[queue][t], trace.taken[queue][t]
        for packet in range(waiting):
            colour = "#009E73" if packet < taken else "#56B4E9"
            left = t + 0.62 + 0.8 * packet / max(waiting, 5)
            axis.bar(left, 0.5, width=0.7 / max(waiting, 5), bottom=row - 0.25, color=colour, align="edge")
        if trace.arrived[queue][t]:
            axis.annotate(f"+{len(trace.arrived[queue][t])}", (t + 1, row + 0.3), fontsize=7, ha="center")
