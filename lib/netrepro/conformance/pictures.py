"""A picture of a scenario: rate, window and queue over time, beside the reference's."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from netrepro.conformance.run import ConformanceReport
from netrepro.conformance.traces import TcpTrace
from netrepro.errors import NetreproError, nearest
from netrepro.style import CURVES, PUBLISHED_GREY, use_style

BINS = 150  # of the rate over a run, at most


def draw_scenario(report: ConformanceReport, name: str) -> Figure:
    """Draw rate (Mb/s), window (segments) and queue (packets) of a scenario over time, for each flow of the subject's
    run; in grey, the first flow and the queue of the reference's run, where `conform` was asked for references.

    Raises NetreproError for a scenario that has not run.
    """
    if name not in report.traces:
        raise NetreproError(f"{name} has not run", nearest(name, report.traces))
    use_style()
    trace, reference = report.traces[name], report.references.get(name)
    figure, (rate, window, queue) = plt.subplots(3, 1, figsize=(6.4, 5.0), layout="constrained", sharex=True)
    plt.close(figure)  # a notebook shows what is returned, and nothing twice
    if reference is not None:
        look = {"color": PUBLISHED_GREY, "linewidth": 1.2}
        rate.plot(*_rate(reference, 0), label=f"reference: {reference.controls[0]}", **look)
        window.plot(*_window(reference, 0), **look)
        queue.plot(*_queue(reference), **look)
    for flow, control in enumerate(trace.controls):
        label = control if len(trace.controls) == 1 else f"{control}, flow {flow + 1}"
        colour = CURVES[flow % len(CURVES)]
        rate.plot(*_rate(trace, flow), color=colour, linewidth=1.2, label=label)
        window.plot(*_window(trace, flow), color=colour, linewidth=1.0)
    queue.plot(*_queue(trace), color=CURVES[0], linewidth=1.0)
    rate.set(title=f"{name}: {report.subject.name}", ylabel="rate (Mb/s)")
    window.set_ylabel("window (segments)")
    queue.set(xlabel="time (s)", ylabel="queue (packets)", xlim=(0, trace.seconds))
    for axis in (rate, window, queue):
        axis.set_ylim(0, None)
    rate.legend(fontsize=8)
    figure.align_ylabels()
    return figure


def _rate(trace: TcpTrace, flow: int) -> tuple[np.ndarray, np.ndarray]:
    # A window leaves in bursts, once a round trip: what is shorter shows a beat of bins and bursts.
    bins = max(min(BINS, int(trace.seconds / trace.round_trip_s(flow))), 1)
    edges = np.linspace(0, trace.seconds, bins + 1)
    return (edges[:-1] + edges[1:]) / 2, trace.rates_mbps(edges, flow)


def _window(trace: TcpTrace, flow: int) -> tuple[np.ndarray, np.ndarray]:
    samples = trace.samples(flow)
    return samples.time_s, samples.window


def _queue(trace: TcpTrace) -> tuple[np.ndarray, np.ndarray]:
    table = trace.measured.queues
    return table["time_s"].to_numpy(), table["queue_packets"].to_numpy()
