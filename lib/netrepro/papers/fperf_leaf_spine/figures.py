"""The pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.fperf_leaf_spine.setting import Size
from netrepro.papers.fperf_leaf_spine.times import fit_growth, known_times, original_times
from netrepro.study import Reading, Runs
from netrepro.style import PUBLISHED_GREY, new_figure
from netrepro.verification.leaf_spine import host, received
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.traces import Trace

LABELS = {
    "satisfy": "satisfy the query",
    "satisfy (peer)": "satisfy the query, integers",
    "base example": "base example",
    "search": "search",
    "verify": "verify",
}
COLOURS = {
    "satisfy": "#0072B2",
    "satisfy (peer)": "#0072B2",
    "base example": "#D55E00",
    "search": "#009E73",
    "verify": "#CC79A7",
}
MARKERS = {"satisfy": "o", "satisfy (peer)": "x", "base example": "s", "search": "^", "verify": "D"}


EXAMPLE = "the plainest example"
SPREADS = ("work", "work, four steps fewer", "work, nothing to search")
ROWS = {"spine": 2.0, "leaf": 1.0, "host": 0.0}  # heights in the picture


def all_spreads(runs: Runs) -> pd.DataFrame:
    """Return the solver's work of all horizons, the longest first."""
    return pd.concat([runs.table("spread", case) for case in SPREADS])


def draw_idea() -> Figure:
    """Draw strict priority with packets: two flows that send all the time, and what becomes of the third."""
    point = scheduler_point("strict_priority", 4, 7)
    packet = [(0, 0)]
    sent = {"q0": [packet] * 5, "q1": [[], packet, packet], "q2": [packet] * 3}
    trace = point.simulate(sent)
    return trace.draw(["q0", "q1", "q2", "q3"], "The scheduler serves q0 first, then q1, q2 and q3")


def draw_times(runs: Runs) -> Figure:
    """Draw Figure 7c: CPU seconds against network size, a line for each task, all seeds, and the fit; dashed the
    integer encoding.

    In grey the original program's seconds, recorded on another machine, where the horizon is the same.
    """
    figure, axis = new_figure("Figure 7c: time against network size", "network size", "CPU time (s)", log_y=True)
    own, compared = runs.table("times", "times"), runs.table("times", "encodings")
    fits = fit_growth(own)
    sizes = own[["size", "hosts"]].drop_duplicates().sort_values(["hosts", "size"])
    names = list(sizes["size"])
    peers = known_times(compared[compared["encoding"] == "integers"])
    for task, group in pd.concat([own, peers]).groupby("task", sort=False):
        colour, marker, is_peer = COLOURS[str(task)], MARKERS[str(task)], task == "satisfy (peer)"
        label = LABELS[str(task)] + (f", {group['horizon_steps'].iloc[0]} steps" if is_peer else "")
        places = [names.index(name) for name in group["size"]]
        axis.plot(places, group["cpu_s"], linestyle="none", marker=marker, color=colour, alpha=0.35)
        middle = group.groupby("size")["cpu_s"].median()
        shown = [name for name in names if name in middle.index]
        shape: dict[str, Any] = {"linestyle": "--" if is_peer else "-", "marker": marker if is_peer else None}
        axis.plot([names.index(n) for n in shown], [middle[n] for n in shown], color=colour, label=label, **shape)
    base = fits[fits["task"] == "base example"]
    if not base.empty:
        fit = base.iloc[0]
        curve = fit["intercept_s"] * fit["factor_per_host"] ** sizes["hosts"].to_numpy(float)
        label = f"fit: ×{fit['factor_per_host']:.2f} a host ({fit['low']:.2f} to {fit['high']:.2f})"
        axis.plot(range(len(names)), curve, color="#444444", linestyle=":", label=label)
    original = original_times()
    original = original[original["size"].isin(names) & original["horizon_steps"].isin(own["horizon_steps"])]
    for task, group in original[original["task"].isin(["satisfy", "base example"])].groupby("task", sort=False):
        places = [names.index(name) for name in group["size"]]
        label = f"original, elsewhere: {LABELS[str(task)]}"
        axis.plot(places, group["cpu_s"], "--", marker=MARKERS[str(task)], color=PUBLISHED_GREY, label=label)
    axis.set_xticks(range(len(names)), names, rotation=20)
    axis.legend(fontsize=7, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.3))  # below: the originals lie high
    return figure


def wires(trace: Trace, size: Size) -> pd.DataFrame:
    """Count the packets that each wire carried: source, target, packets."""
    spines, leaves, hosts = size
    rows = []
    for h in range(hosts):
        switch = f"leaf{h * leaves // hosts + 1}"
        rows.append((host(h), switch, trace.metric("cdeq", host(h), trace.horizon) or 0))
        rows.append((switch, host(h), trace.metric("cenq", received(h), trace.horizon) or 0))
    for leaf in range(leaves):
        for spine in range(spines):
            low, high = f"leaf{leaf + 1}", f"spine{spine + 1}"
            for a, b in ((low, high), (high, low)):
                rows.append((a, b, trace.metric("cenq", f"{a}_{b}", trace.horizon) or 0))
    return pd.DataFrame(rows, columns=["source", "target", "packets"])


def draw_wires(table: pd.DataFrame, horizon: int) -> Figure:
    """Draw the answer on the topology: packets carried by each wire (from `wires`); the sender blue, the victim
    pink."""
    names = {kind: sorted({name for name in table["source"] if name.startswith(kind)}, key=len) for kind in ROWS}
    hosts = len(names["host"])
    figure, axis = new_figure("Who shares whose wires", "", "")
    axis.axis("off")
    places: dict[str, tuple[float, float]] = {}
    for kind, height in ROWS.items():
        count = len(names[kind])
        places |= {f"{kind}{at + 1}": ((at + 0.5) * hosts / count, height) for at in range(count)}
    for a, b, packets in table[["source", "target", "packets"]].itertuples(index=False):
        (x0, y0), (x1, y1) = places[a], places[b]
        shift = -0.06 if y0 < y1 else 0.06
        width = 0.6 + 5 * packets / horizon
        colour = "#D55E00" if packets else "#cccccc"
        axis.plot([x0 + shift, x1 + shift], [y0, y1], color=colour, linewidth=width, alpha=0.6, zorder=1)
        if packets:
            place = (x0 + 0.62 * (x1 - x0) + shift, y0 + 0.62 * (y1 - y0))
            axis.annotate(str(packets), place, fontsize=8, ha="center", zorder=3)
    for name, (x, y) in places.items():
        colour = {host(0): "#0072B2", host(hosts - 1): "#CC79A7"}.get(name, "white")
        box = {"boxstyle": "round", "facecolor": colour, "edgecolor": "#444444"}
        axis.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box, zorder=4)
    axis.set_ylim(-0.3, 2.3)
    return figure


def draw_counterexample(runs: Runs) -> Figure:
    """Draw the plainest answer to the report's query."""
    return draw_wires(runs.table("wires", EXAMPLE), runs.setting.horizon)


def draw_run(found: Reading, case: str) -> Figure:
    """Draw an answer, or say that there is none."""
    if "wires" in found:
        return draw_wires(found["wires"], len(found["received"]))
    figure, axis = new_figure("No input does it, or the time is over", "", "")
    axis.axis("off")
    return figure


PREDICTION_COLOURS = {"must lose": "#D55E00", "may lose": "#CC79A7", "cannot lose": "#0072B2"}


def draw_packet_networks(runs: Runs) -> Figure:
    """Draw the synthesised input, packet by packet."""
    return draw_packet_runs(runs.table("packet_networks", "packet networks"))


def draw_packet_runs(runs: pd.DataFrame) -> Figure:
    """Draw the packets received step by step: the packet world's networks as lines, the model's replays as circles."""
    figure, axis = new_figure("The synthesised input in the packet world", "step (count)", "packets received (count)")
    steps = np.arange(1, runs["time_step"].max() + 1)
    axis.plot(steps, np.maximum(0, steps - 3), color=PUBLISHED_GREY, linewidth=7, alpha=0.4, label="line rate")
    axis.axhline(len(steps) // 2 - 1, color="#444444", linestyle=":", label="query: no more than this at the end")
    for prediction, group in runs.groupby("prediction", sort=False):
        colour = PREDICTION_COLOURS[str(prediction)]
        by_step = group.groupby("time_step")[["received_packets", "model_packets"]]
        least, most = by_step.min(), by_step.max()
        label = f"solver: {prediction} ({group['run'].nunique()} networks)"
        axis.fill_between(steps, least["received_packets"], most["received_packets"], color=colour, alpha=0.25)
        axis.plot(steps, by_step.mean()["received_packets"], color=colour, label=label)
        for side in (least, most):
            axis.plot(steps, side["model_packets"], linestyle="none", marker="o", fillstyle="none", color=colour)
    axis.plot([], [], linestyle="none", marker="o", fillstyle="none", color="#444444", label="model, least and most")
    axis.set_xticks(steps)
    axis.legend(fontsize=8, loc="upper left")
    return figure


def draw_spread(runs: Runs) -> Figure:
    """Draw each run's work over the median of its horizon's changed runs; the class report's difference as a band."""
    spread = all_spreads(runs)
    reported = load_claims("fperf_leaf_spine").claim("seeds-explain-15-percent").class_report - 1
    figure, axis = new_figure(
        "The same question, asked differently", "what was changed", "work (solver's steps / median)"
    )
    label = f"class report: {100 * reported:.0f} %"
    axis.axhspan(1 - reported, 1 + reported, color=PUBLISHED_GREY, alpha=0.25, label=label)
    names, horizons = list(spread["mutation"].unique()), list(spread["horizon_steps"].unique())
    for row, horizon in enumerate(horizons):
        own = spread[spread["horizon_steps"] == horizon]
        ratio = own["solver_steps"] / own.loc[own["mutation"] != "none", "solver_steps"].median()
        place = own["mutation"].map(names.index) + 0.2 * (row - (len(horizons) - 1) / 2)
        axis.plot(place, ratio, linestyle="none", marker="os^Dv"[row % 5], alpha=0.6, label=f"{horizon} steps")
    axis.set_xticks(range(len(names)), names)
    axis.legend()
    return figure
