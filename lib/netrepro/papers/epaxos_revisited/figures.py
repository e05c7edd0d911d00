"""The paper's pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from netrepro.papers.epaxos_revisited.readings import MULTI, MULTI_FAR, ratios
from netrepro.papers.epaxos_revisited.setting import (
    GRID,
    HOTTEST,
    IDLE,
    LIGHT,
    OTHER_LEADER,
    REGIONS,
    TOQ_CELLS,
    round_trips,
)
from netrepro.study import SIMULATED, VIRTUAL, Reading, Runs
from netrepro.study.pictures import say_not_measured
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

SCHEMES: dict[str, dict[str, Any]] = {
    "EPaxos": {"own_keys": True},
    MULTI: {"protocol": "multi-paxos"},
    "EPaxos, TOQ union": {"own_keys": True, "toq": "union"},
    "EPaxos without fast path": {"own_keys": True, "fast_path": False},
    MULTI_FAR: {"protocol": "multi-paxos", "leader": OTHER_LEADER},
    "EPaxos, TOQ of all": {"own_keys": True, "toq": "all"},
}
PROCESSES: dict[str, dict[str, Any]] = {
    MULTI: {"protocol": "multi-paxos"},
    **{
        f"theta {theta:g}, writes {writes:g}": {"theta": theta, "writes": writes}
        for theta, writes in ((0.8, 0.5), (0.9, 0.5), HOTTEST)
    },
}
# Milliseconds by region, of the authors' plotting script; the delay matrix was reconstructed from them: no claims.
PUBLISHED_MINIMA = {
    "EPaxos": (64, 64, 59, 98, 129),
    "Multi-Paxos": (64, 128, 90, 162, 201),
    "EPaxos, TOQ union": (64, 64, 59, 122, 133),
}


LOOKS = {name: scheme(name) for name in ("EPaxos", "EPaxos, TOQ", "EPaxos, TOQ union", "Multi-Paxos")}
SHADES = ("#0072B2", "#D55E00")  # below and above Multi-Paxos


def draw_idea() -> Figure:
    """Draw one command from Japan, and who waits for whom in Multi-Paxos, in EPaxos, and in EPaxos after a conflict."""
    trips = pd.DataFrame(round_trips(), REGIONS, REGIONS)
    near = sorted(trips["JP"].drop("JP"))[1]
    steps = {
        "Multi-Paxos from CA": [("to the leader and back", trips.loc["JP", "CA"]), ("leader's majority", 64.0)],
        "EPaxos": [("nearest two", near)],
        "EPaxos, conflict": [("nearest two", near), ("second round", near)],
    }
    figure, axis = new_figure("One command from Japan", "time until it is committed (ms)", "")
    for i, parts in enumerate(steps.values()):
        begin = 0.0
        for j, (label, ms) in enumerate(parts):
            axis.barh(i, ms, left=begin, color=("#56B4E9", "#E69F00")[j], edgecolor="white")
            axis.text(begin + ms / 2, i, f"{label}\n{ms:g} ms", ha="center", va="center", fontsize=8)
            begin += ms
    axis.set_yticks(range(len(steps)), list(steps))
    axis.invert_yaxis()
    return figure


def draw_network() -> Figure:
    """Draw the round trips between the five regions (ms)."""
    trips = np.array(round_trips())
    figure, axis = new_figure("Round trips between regions (ms)", "", "")
    axis.imshow(trips, cmap="Blues", vmin=0, vmax=300)
    for i, j in np.ndindex(trips.shape):
        axis.text(j, i, f"{trips[i, j]:g}" if i != j else "", ha="center", va="center")
    axis.set_xticks(range(5), list(REGIONS))
    axis.set_yticks(range(5), list(REGIONS))
    axis.grid(False)
    return figure


def draw_minima(runs: Runs) -> Figure:
    """Draw the least latencies by region, published in grey behind ours."""
    figure, axis = new_figure("Least execution latency", "", "least latency (ms)")
    for i, (name, published) in enumerate(PUBLISHED_MINIMA.items()):
        at = np.arange(len(REGIONS)) + 0.27 * (i - 1)
        axis.bar(at, published, 0.25, color=PUBLISHED_GREY, alpha=0.5, label="published" if i == 0 else None)
        ours = runs.table("regions", f"{IDLE}, {name}", SIMULATED).set_index("region").least_ms
        axis.plot(at, ours.loc[list(REGIONS)], LOOKS[name].marker, color=LOOKS[name].colour, label=LOOKS[name].label)
    axis.set_xticks(range(len(REGIONS)), list(REGIONS))
    axis.legend(loc="upper left")
    return figure


def draw_heat_maps(runs: Runs) -> Figure:
    """Draw Fig. 7: EPaxos over Multi-Paxos by skew and share of writes, a column for each region; mean above, 99th
    below."""
    import matplotlib.pyplot as plt

    table = ratios(runs)
    figure, axes = plt.subplots(2, len(REGIONS), figsize=(12.8, 5.4), layout="constrained", sharex=True, sharey=True)
    plt.close(figure)
    norm = TwoSlopeNorm(0, -2.5, 2.5)
    image: Any = None
    for row, (column, label) in enumerate((("mean", "mean"), ("p99", "99th percentile"))):
        for axis, region in zip(axes[row], REGIONS, strict=True):
            part = table[table.region == region]
            cells = part.pivot_table(index="writes", columns="theta", values=column)
            image = axis.imshow(np.log2(cells), cmap="RdBu_r", norm=norm, origin="lower", aspect="auto")
            axis.set_xticks(range(len(cells.columns)), [f"{x:g}" for x in cells.columns], rotation=90, fontsize=8)
            axis.set_yticks(range(len(cells.index)), [f"{100 * x:g}" for x in cells.index], fontsize=8)
            axis.grid(False)
            size = 8 if cells.size <= 30 else 4.5
            for i, j in np.ndindex(cells.shape):
                strong = abs(np.log2(cells.iloc[i, j])) > 1.4
                axis.text(j, i, f"{cells.iloc[i, j]:.1f}", ha="center", va="center", fontsize=size,
                          color="white" if strong else "black")  # fmt: skip
            axis.set_title(f"{region}: {label}", fontsize=10)
            axis.set(xlabel="Zipf's theta (exponent)", ylabel="writes (%)")
            axis.xaxis.label.set_visible(row == 1)
            axis.yaxis.label.set_visible(region == REGIONS[0])
    bar = figure.colorbar(image, ax=axes, label="EPaxos / Multi-Paxos (ratio)", shrink=0.8)
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
    bar.ax.axhline(2, color=PUBLISHED_GREY, linewidth=3)  # the abstract's more than 4 times
    figure.suptitle(
        "Execution latency, EPaxos over Multi-Paxos (Fig. 7; grey on the scale: abstract, more than 4 times)"
    )
    return figure


def draw_conflicts(runs: Runs) -> Figure:
    """Draw the conflicts against the 99th percentile's ratio: every cell and region, and the 1 % of the claim in
    grey."""
    table = ratios(runs).groupby(["region", "theta", "writes"], as_index=False)[["p99", "conflicts"]].mean()
    title = "How many conflicts can the 99th percentile bear?"
    figure, axis = new_figure(
        title, "commands on the slow path (%)", "99th percentile, EPaxos / Multi-Paxos (ratio)", log_x=True, log_y=True
    )
    for region, colour in zip(REGIONS, ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000"), strict=True):
        rows = table[table.region == region]
        axis.plot(np.maximum(100 * rows.conflicts, 0.01), rows.p99, "o", color=colour, label=region, alpha=0.8)
    axis.axvline(1, color=PUBLISHED_GREY, linestyle="--", label="1 %, a reader's note")
    axis.axhline(1, color=PUBLISHED_GREY, linewidth=1)
    axis.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axis.minorticks_off()
    axis.legend(ncols=2, fontsize=9)
    return figure


def draw_tails(runs: Runs) -> Figure:
    """Draw the share of commands that take longer than a time, by region, in the authors' kind of picture. Percentiles
    are of the first repetition."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(REGIONS), figsize=(12.8, 3.6), layout="constrained", sharey=True, sharex=True)
    plt.close(figure)
    theta, writes = HOTTEST
    names = {"EPaxos": GRID, "EPaxos, TOQ": "TOQ quorum", "EPaxos, TOQ union": "TOQ union", MULTI: MULTI}
    for axis, region in zip(axes, REGIONS, strict=True):
        for name, case in names.items():
            rows = runs.table("tails", case, SIMULATED)
            rows = rows[(rows.region == region) & (rows.repetition == 0)].sort_values("percentile")
            rows = rows if case == MULTI else rows[(rows.theta == theta) & (rows.writes == writes)]
            look = LOOKS[name]
            axis.plot(
                rows.ms, 100 - rows.percentile, look.marker + "-", color=look.colour, label=look.label, markersize=3
            )
        axis.set(title=region, yscale="log", xlabel="latency (ms)", ylabel="commands that take longer (%)")
        axis.yaxis.label.set_visible(region == REGIONS[0])
    axes[0].set_xlim(left=0)
    axes[0].set_yticks([0.1, 1, 10, 50], ["0.1", "1", "10", "50"])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(f"Execution latency at theta {theta:g}, {100 * writes:g} % writes")
    return figure


def draw_processes(runs: Runs) -> Figure:
    """Draw the share of commands that take longer than a time: real processes (solid) and the simulator (dashed), in a
    panel for each case."""
    names = list(PROCESSES)
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=len(names), log_y=True)
    figure.set_size_inches(12.8, 3.6)
    for axis, name in zip(axes, names, strict=True):
        looks = {VIRTUAL: ("-", 5.0, scheme("emulated").colour, 0.5), SIMULATED: ("--", 1.3, "black", 1.0)}
        for tier, (style, width, colour, alpha) in looks.items():
            ms = np.sort(runs.table("commands", f"{LIGHT}, {name}", tier).ms)
            longer = 100 * (1 - np.arange(len(ms)) / max(len(ms), 1))
            axis.plot(ms, longer, style, color=colour, linewidth=width, alpha=alpha, label=tier)
        if VIRTUAL not in runs.tiers:
            say_not_measured(axis, VIRTUAL)
        axis.set(title=name, xlabel="execution latency (ms)", ylabel="commands that take longer (%)")
        axis.set(ylim=(0.1, 110), xlim=(0, 450))
        axis.yaxis.label.set_visible(name == names[0])
        axis.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes[-1].legend(loc="upper right")
    return figure


def draw_toq(runs: Runs) -> Figure:
    """Draw the conflicts and mean latency with TOQ, relative to EPaxos without; what is published in grey."""
    figure, axes = new_figure("Timestamp-ordered queueing", "", "", columns=2)
    means = runs.summary(SIMULATED)
    shown = ["TOQ quorum", "TOQ union", "TOQ quorum, clocks apart"]
    labels = ["quorum", "quorum union", "quorum, clocks\nup to 100 ms apart"]
    for axis, column, label, bounds in (
        (axes[0], "conflicts", "conflicts, over those without TOQ (ratio)", (0.5, 0.15)),
        (axes[1], "mean_ms", "mean latency, over that without TOQ (ratio)", (0.925,)),
    ):
        for k, cell in enumerate(TOQ_CELLS):
            values = [means.loc[(case, *cell), column] / means.loc[(GRID, *cell), column] for case in shown]
            at = np.arange(len(shown)) + 0.4 * k - 0.2
            bars = axis.bar(at, values, 0.38, color=SHADES[k], label=f"theta {cell[0]:g}, {100 * cell[1]:g} % writes")
            high = [f"{value:.2f}" if value > 0.1 else "" for value in values]
            axis.bar_label(bars, high, fontsize=8, label_type="center", color="white")
            axis.bar_label(bars, [f"{value:.2f}" if value <= 0.1 else "" for value in values], fontsize=8)
        for i, bound in enumerate(bounds):
            axis.hlines(bound, i - 0.45, i + 0.45, color=PUBLISHED_GREY, linewidth=3, zorder=3,
                        label="published" if i == 0 else None)  # fmt: skip
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(range(len(shown)), labels)
        axis.set_ylabel(label)
    axes[0].legend(fontsize=8, loc="upper left")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the 99th percentile over Multi-Paxos's, by region: hottest cell, own keys, no chain fix, leader
    elsewhere."""
    table = runs.tables["regions"]
    is_shown = (table.case != GRID) | ((table.theta == HOTTEST[0]) & (table.writes == HOTTEST[1]))
    mean = table[is_shown & (table.tier == SIMULATED)].groupby(["case", "region"]).p99_ms.mean()
    lines = {
        "theta 0.99, only writes": (GRID, MULTI),
        "the same without the chain fix": ("no chain fix", MULTI),
        "every client has its own keys": ("own keys", MULTI),
        "theta 0.99 against a leader in EU": (GRID, MULTI_FAR),
    }
    figure, axis = new_figure("Broken on purpose", "", "99th percentile, EPaxos / Multi-Paxos (ratio)", log_y=True)
    for k, (label, (case, against)) in enumerate(lines.items()):
        values = [mean[case, region] / mean[against, region] for region in REGIONS]
        colour = ("#D55E00", "#E69F00", "#7f3c8d", "#0072B2")[k]
        axis.bar(np.arange(5) + 0.2 * (k - 1.5), np.array(values) - 0.1, 0.19, bottom=0.1, color=colour, label=label)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.axhline(4, color=PUBLISHED_GREY, linestyle="--", label="abstract: more than 4")
    axis.set_yticks([0.25, 0.5, 1, 2, 4, 8, 16], ["1/4", "1/2", "1", "2", "4", "8", "16"])
    axis.minorticks_off()
    axis.set_ylim(0.2, 40)
    axis.set_xticks(range(5), list(REGIONS))
    axis.legend(fontsize=8, ncols=2, loc="upper right")
    return figure


def draw_leader(runs: Runs) -> Figure:
    """Draw the mean and 99th percentile of all commands by where Multi-Paxos is led from, and EPaxos."""
    table = runs.knobs["leader"]
    figure, axis = new_figure("Where to put the leader", "", "execution latency of all regions' commands (ms)")
    for k, (column, label) in enumerate((("mean_ms", "mean"), ("p99_ms", "99th percentile"))):
        bars = axis.bar(np.arange(len(table)) + 0.4 * k - 0.2, table[column], 0.38, color=SHADES[k], label=label)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set_xticks(range(len(table)), [name.replace(" from ", "\nfrom ") for name in table.scheme], fontsize=9)
    axis.legend()
    return figure


def draw_clocks(runs: Runs) -> Figure:
    """Draw the conflicts and mean latency over how far clocks are apart."""
    table = runs.knobs["clocks"]
    figure, axes = new_figure("How good must clocks be?", "clocks up to so far apart (ms)", "", columns=2)
    plain = table[table.toq == "none"].iloc[0]
    for axis, column, label, factor in (
        (axes[0], "conflicts", "commands on the slow path (%)", 100),
        (axes[1], "mean_ms", "mean execution latency (ms)", 1),
    ):
        for toq, name in (("quorum", "EPaxos, TOQ"), ("union", "EPaxos, TOQ union")):
            rows, look = table[table.toq == toq], LOOKS[name]
            axis.plot(rows.apart_ms, factor * rows[column], look.marker + "-", color=look.colour, label=look.label)
        axis.axhline(factor * plain[column], color=LOOKS["EPaxos"].colour, linestyle="--", label="EPaxos without TOQ")
        axis.set_xscale("symlog", linthresh=1, linscale=0.4)
        axis.set_xlim(left=-0.2)
        ticks = sorted(set(table.apart_ms))
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=9)
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the mean (bar) and 99th percentile (mark) by region in one run."""
    figure, axis = new_figure("Mean (bar) and 99th percentile (mark)", "", "execution latency (ms)")
    rows, look = reading["regions"].set_index("region").loc[list(REGIONS)], LOOKS[MULTI if case == MULTI else "EPaxos"]
    axis.bar(range(len(REGIONS)), rows.mean_ms, 0.6, color=look.colour, alpha=0.6, label=look.label)
    axis.plot(range(len(REGIONS)), rows.p99_ms, look.marker, color=look.colour)
    axis.set_xticks(range(len(REGIONS)), list(REGIONS))
    axis.set_ylim(0, 600)
    axis.legend()
    return figure
