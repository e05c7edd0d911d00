"""The initial window's figures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.initial_window.clients import LEAST_GAIN_MS, NEW, OLD, published, published_buckets
from netrepro.papers.initial_window.experiments import bucket_gains, latencies, rounds
from netrepro.study import Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Bars, Level, Mark, Panel, Published, Sweep
from netrepro.style import CURVES, new_figure, scheme

WINDOW, WINDOWS_OF = "initial window (segments)", "initial_window_segments"
OF_TIMES = {
    "mean_ms": {"label": "ours", "color": CURVES[0]},
    "model_ms": {"label": "Eq. 1, nothing lost", "color": drawing.INK, "linestyle": "--", "marker": ""},
    "pipelined_ms": {"label": "idle times, nothing lost", "color": drawing.INK, "linestyle": ":", "marker": ""},
}
IDLE_TIMES = OF_TIMES["pipelined_ms"]


def draw_idea() -> Figure:
    """Draw the round trips that a response takes over its size, a curve for each initial window (Eq. 1)."""
    figure, axis = new_figure("How many round trips a response takes (Eq. 1)", "response (segments)", "count of rounds")
    segments = np.arange(1, 101)
    for colour, window in zip(CURVES, (3, 10, 42), strict=False):
        axis.step(segments, rounds(segments, window), where="mid", color=colour, label=f"initial window of {window}")
    axis.set(ylim=(0, 6.5), ylabel="round trips (count)")
    axis.legend()
    return figure


def _percentiles(
    title: str, case: str, y: str, how: Callable[[pd.Series], float], theirs: Callable[[], pd.Series], *marks: Mark
) -> Panel:
    """Show a number by percentile, ours and published. theirs : returns a Series indexed by percentile."""

    def ours(runs: Runs) -> pd.DataFrame:
        names = [f"{percentile:g}" for percentile in theirs().index]
        rows = [(name, how(each)) for name in names for each in runs.reading(f"p{name}", case).values()]
        return pd.DataFrame(rows, columns=["percentile", "value"])

    bars = Bars("value", ours, "percentile", published=lambda _: theirs().rename(lambda each: f"{each:g}"))
    x, level = "percentile of the latency (%)", Level(0, published=False)
    return Panel(x, y, bars, level, *marks, title=title, y_range=(None, None))


def _resent(centre: str) -> Panel:
    def theirs(_: Runs) -> pd.Series:
        table = published("retransmissions").set_index(["centre", "service", WINDOWS_OF]).sort_index()
        return table.percent[centre, "search"]

    def ours(runs: Runs) -> pd.DataFrame:
        rows = runs.numbers(centre)
        return rows[rows.initial_window_segments.isin((OLD, NEW))]

    bars = Bars("resent_percent", ours, "initial_window_segments", published=theirs)
    return Panel(WINDOW, "segments sent again (%)", bars, title=f"{centre} clients")


def gains_by_path(runs: Runs) -> pd.DataFrame:
    """Compute the gains by bucket, measured and of the closed forms: case (one of TIMES), panel, upper, gain_ms."""
    parts = [bucket_gains(runs.table("buckets", "average"), column).assign(case=column) for column in OF_TIMES]
    gains = pd.concat(parts).replace(np.inf, np.nan).dropna().sort_values("upper")
    return gains[gains.gain_ms > LEAST_GAIN_MS]


def _gain_by_path(panel: str, label: str) -> Panel:
    def theirs(_: Runs) -> pd.Series:
        return published_buckets("average", panel).dropna(subset="upper").set_index("upper").gain_ms

    ours = Sweep("upper", "gain_ms", gains_by_path, looks=OF_TIMES, rows=f"panel == '{panel}'")
    return Panel(f"{label}, up to", "gain (ms)", Published(theirs, joined=True), ours, log="xy")


def _on_every_tier(case: str) -> Panel:
    """Show the mean latency over the initial window, and the closed form `pipelined_ms`, without loss."""
    ours = Sweep("initial_window_segments", "mean_ms", {case: OF_TIMES["mean_ms"]}, tiers=True)
    form = Sweep("initial_window_segments", "pipelined_ms", {case: IDLE_TIMES})
    return Panel(WINDOW, "mean latency (ms)", ours, form, title=case, log="x")


def _draw_symmetric_logarithm(axis: Axes, _: Runs) -> None:
    """Make the axis logarithmic beyond ten milliseconds on either side."""
    axis.set_yscale("symlog", linthresh=10)
    axis.yaxis.set_major_formatter("{x:g}")


def by_window(runs: Runs) -> pd.DataFrame:
    """Return the knob `buffer` with a name for each curve, from its window and case."""
    rows = runs.knobs["buffer"]
    return rows.assign(curve=rows.initial_window_segments.astype(int).astype(str) + " segments, " + rows.case)


def gains_by_responses(runs: Runs) -> pd.DataFrame:
    """Compute gains of 10 over 3 segments (%) of the mean and two percentiles (column case), for the knob `reuse`."""
    columns = {"mean_ms": "mean", "p50": "median", "p95": "95th percentile"}
    times = runs.knobs["reuse"].pivot(index="responses", columns="initial_window_segments", values=list(columns))
    gains = pd.DataFrame({label: 100 * (1 - times[each][NEW] / times[each][OLD]) for each, label in columns.items()})
    return gains.melt(ignore_index=False, var_name="case", value_name="gain").reset_index()


def draw_run(measured: Measurements, case: str) -> Figure:
    """Draw one run's latencies as a distribution."""
    waits = np.sort(latencies(measured))
    figure, axis = new_figure(f"{case}: mean {waits.mean():.0f} ms", "latency (ms)", "share of responses", log_x=True)
    axis.step(waits, np.arange(1, len(waits) + 1) / len(waits), where="post", color=scheme("tcp").colour)
    axis.set_ylim(0, 1.02)
    return figure
