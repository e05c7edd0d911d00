"""The pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.fperf_leaf_spine.setting import Size
from netrepro.papers.fperf_leaf_spine.times import fit_growth, known_times, original_times
from netrepro.study import Reading, Runs
from netrepro.study.figures import plot
from netrepro.study.pictures import INK
from netrepro.style import PUBLISHED_GREY, new_figure
from netrepro.verification.leaf_spine import host, received
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.traces import Trace

EXAMPLE = "the plainest example"
HEIGHTS = {"spine": 2.0, "leaf": 1.0, "host": 0.0}  # vertical positions in the picture
BLUE, ORANGE, PINK = "#0072B2", "#D55E00", "#CC79A7"
PREDICTION_COLOURS = {"must lose": ORANGE, "may lose": PINK, "cannot lose": BLUE}
TASKS = {"satisfy": "satisfy the query", "verify": "verify", "base example": "base example", "search": "search"}
MARKERS = dict(zip(TASKS, "oDs^", strict=True))
COLOURS = dict(zip(TASKS, (BLUE, PINK, ORANGE, "#009E73"), strict=True))


def draw_idea() -> Figure:
    """Draw strict priority with packets: two flows that always send, and what happens to the third."""
    point = scheduler_point("strict_priority", 4, 7)
    packet = [(0, 0)]
    sent = {"q0": [packet] * 5, "q1": [[], packet, packet], "q2": [packet] * 3}
    trace = point.simulate(sent)
    return trace.draw(["q0", "q1", "q2", "q3"], "The scheduler serves q0 first, then q1, q2 and q3")


def wires(trace: Trace, size: Size) -> pd.DataFrame:
    """Count the packets that each wire carried: source, target, packets."""
    spines, leaves, hosts = size
    counted = []
    for number in range(hosts):
        switch = f"leaf{number * leaves // hosts + 1}"
        counted += [(host(number), switch, "cdeq", host(number)), (switch, host(number), "cenq", received(number))]
    for leaf in range(leaves):
        for spine in range(spines):
            low, high = f"leaf{leaf + 1}", f"spine{spine + 1}"
            counted += [(a, b, "cenq", f"{a}_{b}") for a, b in ((low, high), (high, low))]
    rows = [(a, b, trace.metric(metric, queue, trace.horizon) or 0) for a, b, metric, queue in counted]
    return pd.DataFrame(rows, columns=["source", "target", "packets"])


def draw_wires(table: pd.DataFrame, horizon: int) -> Figure:
    """Draw the answer on the topology: packets carried by each wire (from `wires`). The sender is blue, the victim
    pink."""
    figure, axis = new_figure("Who shares whose wires", "", "")
    axis.axis("off")
    names = {kind: sorted({name for name in table["source"] if name.startswith(kind)}, key=len) for kind in HEIGHTS}
    hosts = len(names["host"])
    places = {
        f"{kind}{at + 1}": ((at + 0.5) * hosts / len(names[kind]), height)
        for kind, height in HEIGHTS.items()
        for at in range(len(names[kind]))
    }
    for source, target, packets in table[["source", "target", "packets"]].itertuples(index=False):
        (x0, y0), (x1, y1) = places[source], places[target]
        shift = -0.06 if y0 < y1 else 0.06
        look = {"color": ORANGE if packets else "#cccccc", "linewidth": 0.6 + 5 * packets / horizon}
        axis.plot([x0 + shift, x1 + shift], [y0, y1], alpha=0.6, zorder=1, **look)
        if packets:
            place = (x0 + 0.62 * (x1 - x0) + shift, y0 + 0.62 * (y1 - y0))
            axis.annotate(str(packets), place, fontsize=8, ha="center", zorder=3)
    for name, (x, y) in places.items():
        colour = {host(0): BLUE, host(hosts - 1): PINK}.get(name, "white")
        box = {"boxstyle": "round", "facecolor": colour, "edgecolor": INK}
        axis.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box, zorder=4)
    axis.set_ylim(-0.3, 2.3)
    return figure


def draw_counterexample(runs: Runs) -> Figure:
    """Draw the simplest answer to the report's query."""
    return draw_wires(runs.table("wires", EXAMPLE), runs.setting.horizon)


def draw_run(run: Reading, case: str) -> Figure:
    """Draw an answer, or say that there is none."""
    if "wires" in run:
        return draw_wires(run["wires"], len(run["received"]))
    figure, axis = new_figure("No input does it, or the time is over", "", "")
    axis.axis("off")
    return figure


def _draw_times(axis: Axes, runs: Runs) -> None:
    """Draw for each task a line of medians, all seeds as points, and the fit. Grey: the original program's seconds,
    recorded on another machine, where the horizon is the same."""
    times, original = runs.table("times", "times"), original_times()
    sizes = times[["size", "hosts"]].drop_duplicates().sort_values(["hosts", "size"])
    for task, rows in known_times(times).groupby("task", sort=False):
        look = {"color": COLOURS[str(task)], "ax": axis}
        sns.lineplot(rows, x="size", y="cpu_s", estimator="median", errorbar=None, label=TASKS[str(task)], **look)
        axis.plot(rows["size"], rows["cpu_s"], MARKERS[str(task)], color=COLOURS[str(task)], alpha=0.35)
    for fit in fit_growth(times).query("task == 'base example'").itertuples():
        label = f"fit: ×{fit.factor_per_host:.2f} a host ({fit.low:.2f} to {fit.high:.2f})"
        curve = fit.intercept_s * fit.factor_per_host ** sizes["hosts"].astype(float)
        axis.plot(sizes["size"], curve, color=INK, linestyle=":", label=label)
    known = original[original["size"].isin(times["size"]) & original["horizon_steps"].isin(times["horizon_steps"])]
    for task in ("satisfy", "base example"):
        rows, label = known[known["task"] == task], f"original, elsewhere: {TASKS[task]}"
        axis.plot(rows["size"], rows["cpu_s"], "--", marker=MARKERS[task], color=PUBLISHED_GREY, label=label)
    axis.set(xlabel="network size", ylabel="CPU time (s)")
    axis.tick_params(axis="x", rotation=20)


draw_times = plot("Figure 7c: time against network size", "", "", _draw_times, log="y")


def _draw_packet_networks(axis: Axes, runs: Runs) -> None:
    """Draw the packets received by each step: lines and ranges for the packet networks, circles for replays in the
    model."""
    networks = runs.table("packet_networks", "packet networks")
    steps = np.arange(1, networks["time_step"].max() + 1)
    axis.plot(steps, np.maximum(0, steps - 3), color=PUBLISHED_GREY, linewidth=7, alpha=0.4, label="line rate")
    axis.axhline(len(steps) // 2 - 1, color=INK, linestyle=":", label="query: no more than this at the end")
    for prediction, rows in networks.groupby("prediction", sort=False):
        colour, label = PREDICTION_COLOURS[str(prediction)], f"solver: {prediction} ({rows['run'].nunique()} networks)"
        look = {"color": colour, "label": label, "errorbar": ("pi", 100), "ax": axis}  # mean, least and greatest
        sns.lineplot(rows, x="time_step", y="received_packets", **look)
        axis.plot(rows["time_step"], rows["model_packets"], "o", fillstyle="none", color=colour)
    axis.plot([], [], "o", fillstyle="none", color=INK, label="model")
    axis.set(xlabel="step (count)", ylabel="packets received (count)", xticks=steps)


draw_packet_networks = plot("The synthesised input in the packet world", "", "", _draw_packet_networks)
