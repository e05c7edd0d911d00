"""Figures of MPTCP over WiFi and 3G."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.mptcp_wireless.experiments import BOTH, FIG7, Setting, experiment
from netrepro.study import Reading, Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Look, shown
from netrepro.style import CURVES, new_figure, scheme


def draw_idea() -> Figure:
    """Draw one missing segment on 3G, and how it blocks the shared buffer; not to scale."""
    figure, axis = new_figure("What 3G still holds blocks WiFi (not to scale)", "time (arbitrary)", "")
    rows = {
        "with M1: WiFi": [(0, 2), (2.3, 7.5)],
        "plain: WiFi": [(0, 2), (7.6, 2.2)],
        "plain: 3G": [(0, 7.5)],
    }
    looks = {"with M1: WiFi": scheme("mptcp").colour, "plain: WiFi": CURVES[0], "plain: 3G": "#444444"}
    for place, (name, spans) in enumerate(rows.items()):
        axis.broken_barh(spans, (place - 0.3, 0.6), color=looks[name])
    axis.text(4.8, 1, "receive buffer full: idle", ha="center", va="center")
    axis.text(3.7, 2, "the oldest segment is on its way", ha="center", va="center", color="white")
    axis.text(2.4, 0, " M1 sends it again here", va="center")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_xticks([])
    axis.grid(False)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network from h1 to h2 by WiFi (s3) and by 3G (s4)."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "One stream over WiFi (s3) and 3G (s4)")


def draw_masses(axis: Axes, blocks: pd.DataFrame, **look: Any) -> None:
    """Draw the share of blocks in each 20 ms of latency, all repetitions together."""
    bins: dict[str, Any] = {"binwidth": 20.0, "stat": "probability", "element": "step", "fill": False}
    sns.histplot(x=blocks.latency_ms.to_numpy(), ax=axis, **bins, **{"linewidth": 1.4} | look)


def draw_fig_7(axis: Axes, runs: Runs) -> None:
    """Draw how the delays of blocks are distributed, in each way and on each tier."""
    for case, tier, look in shown(axis, runs, ways(), tiers=True):
        draw_masses(axis, runs.table("blocks", case, tier), **look)


def ways(start: str = "", names: Sequence[str] = ()) -> dict[str, Look]:
    """Return the cases for the ways of sending, with their looks."""
    return {start + name: {"label": name, "color": LOOKS[name]} for name in names or FIG7}


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the latencies of one run's blocks."""
    title = f"{case}: {reading['mean_ms']:.0f} ms in the mean, {reading['goodput_mbps']:.1f} Mb/s"
    figure, axis = new_figure(title, "latency of a block (ms)", "blocks (share of all, in each 20 ms)")
    draw_masses(axis, reading["blocks"])
    return figure


LOOKS = {
    "mptcp": scheme("mptcp").colour,
    BOTH: CURVES[6],
    "tcp over wifi": scheme("tcp").colour,
    "tcp over 3g": "#444444",
}
