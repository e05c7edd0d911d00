"""The paper's pictures."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.epaxos_revisited.readings import ratios
from netrepro.papers.epaxos_revisited.setting import (
    GRID,
    HOTTEST,
    IDLE,
    LIGHT,
    MULTI,
    MULTI_FAR,
    PROCESSES,
    REGIONS,
    round_trips,
)
from netrepro.study import SIMULATED, VIRTUAL, Reading, Runs
from netrepro.study.figures import Bars, Level, Mark, Panel, Picture, Sweep, beside, not_measured, plot
from netrepro.study.pictures import draw_distribution
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

# Milliseconds by region, from the authors' plotting script. The delay matrix is derived from them: no claim uses them.
PUBLISHED_MINIMA = {
    "EPaxos": (64, 64, 59, 98, 129),
    "Multi-Paxos": (64, 128, 90, 162, 201),
    "EPaxos, TOQ union": (64, 64, 59, 122, 133),
}
RATIO = "99th percentile, EPaxos / Multi-Paxos (ratio)"


def draw_idea() -> Figure:
    """Draw one command from Japan: which site waits for which in Multi-Paxos, in EPaxos, and in EPaxos after a
    conflict."""
    trips = pd.DataFrame(round_trips(), REGIONS, REGIONS)
    nearest_two = ("nearest two", sorted(trips["JP"].drop("JP"))[1])
    steps = {
        "Multi-Paxos from CA": [("to the leader and back", trips.loc["JP", "CA"]), ("leader's majority", 64.0)],
        "EPaxos": [nearest_two],
        "EPaxos, conflict": [nearest_two, ("second round", nearest_two[1])],
    }
    figure, axis = new_figure("One command from Japan", "time until it is committed (ms)", "")
    for name, parts in reversed(steps.items()):
        begin_ms = 0.0
        for colour, (label, ms) in zip(("#56B4E9", "#E69F00"), parts, strict=False):
            bar = axis.barh(name, ms, left=begin_ms, color=colour, edgecolor="white")
            axis.bar_label(bar, [f"{label}\n{ms:g} ms"], label_type="center", fontsize=8)
            begin_ms += ms
    return figure


def draw_network() -> Figure:
    """Draw the round trips between the five regions (ms)."""
    figure, axis = new_figure("Round trips between regions (ms)", "", "")
    trips = pd.DataFrame(round_trips(), REGIONS, REGIONS)
    sns.heatmap(trips, annot=True, fmt="g", cmap="Blues", vmax=300, cbar=False, square=True, ax=axis)
    axis.grid(False)
    return figure


def draw_minima(runs: Runs) -> Figure:
    """Draw the least latency of each region; the published ones are the grey bars."""
    figure, axis = new_figure("Least execution latency", "", "least latency (ms)")
    for place, (name, published) in enumerate(PUBLISHED_MINIMA.items()):
        at, look = np.arange(len(REGIONS)) + 0.27 * (place - 1), scheme(name)
        axis.bar(at, published, 0.25, color=PUBLISHED_GREY, alpha=0.5, label="" if place else "published")
        ours = runs.table("regions", f"{IDLE}, {name}", SIMULATED).set_index("region").least_ms
        axis.plot(at, ours.loc[list(REGIONS)], look.marker, color=look.colour, label=look.label)
    axis.set_xticks(range(len(REGIONS)), REGIONS)
    axis.legend(loc="upper left")
    return figure


def draw_heat_maps(runs: Runs) -> Figure:
    """Draw Fig. 7: EPaxos over Multi-Paxos by skew and share of writes, a column for each region; means in the upper
    row, 99th percentiles in the lower."""
    table = ratios(runs).assign(writes=lambda rows: (100 * rows.writes).round().astype(int))
    figure, axes = plt.subplots(2, len(REGIONS), figsize=(12.8, 5.4), layout="constrained", sharex=True, sharey=True)
    plt.close(figure)
    for row, (column, label) in zip(axes, {"mean": "mean", "p99": "99th percentile"}.items(), strict=True):
        for axis, region in zip(row, REGIONS, strict=True):
            cells = table[table.region == region].pivot_table(index="writes", columns="theta", values=column)
            look = {"cmap": "RdBu_r", "vmin": -2.5, "vmax": 2.5, "cbar": False, "fmt": ".1f"}
            sizes = {"fontsize": 8 if cells.size <= 30 else 4.5}
            sns.heatmap(np.log2(cells), annot=cells, annot_kws=sizes, ax=axis, **look)
            axis.set_title(f"{region}: {label}", fontsize=10)
            axis.set(xlabel="Zipf's theta (exponent)", ylabel="writes (%)")
            axis.label_outer()
    axes[0, 0].invert_yaxis()  # inverts all axes, which share it
    bar = figure.colorbar(axes[0, 0].collections[0], ax=axes, label="EPaxos / Multi-Paxos (ratio)", shrink=0.8)
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
    bar.ax.axhline(2, color=PUBLISHED_GREY, linewidth=3)  # the abstract's more than 4 times
    figure.suptitle(
        "Execution latency, EPaxos over Multi-Paxos (Fig. 7; grey on the scale: abstract, more than 4 times)"
    )
    return figure


TOQ = {"TOQ quorum": "quorum", "TOQ union": "quorum union", "TOQ quorum, clocks apart": "quorum, clocks\n100 ms apart"}


def _over_plain(runs: Runs) -> pd.DataFrame:
    """Divide conflicts and mean latency of EPaxos with TOQ by those without."""
    cells = ["theta", "writes", "repetition"]
    plain = runs.numbers(GRID, SIMULATED).set_index(cells)
    held = pd.concat([runs.numbers(case, SIMULATED) for case in TOQ]).set_index(cells)
    over = held[["conflicts", "mean_ms"]] / plain.loc[held.index, ["conflicts", "mean_ms"]]
    return over.assign(case=held.case.map(TOQ)).reset_index()


PUBLISHED_TOQ = {"conflicts": {"quorum": 0.5, "quorum union": 0.15}, "mean_ms": {"quorum": 0.925}}
TOQ_LOOKS = {0.8: "theta 0.8, 50 % writes", 0.99: "theta 0.99, 100 % writes"}
draw_toq = beside(
    "Timestamp-ordered queueing",
    "",
    {
        "conflicts": "conflicts, over those without TOQ (ratio)",
        "mean_ms": "mean latency, over that without TOQ (ratio)",
    },
    lambda reading: Bars(reading, _over_plain, by="theta", looks=TOQ_LOOKS, published=PUBLISHED_TOQ[reading]),
)


def both_tiers(case: str) -> Mark:
    """Make a mark: the distribution of a case's commands by real processes (broad line) and in the simulator."""

    def draw(axis: Axes, runs: Runs) -> None:
        broad: dict[str, Any] = {"color": scheme("emulated").colour, "linewidth": 4, "alpha": 0.4}
        for tier, look in {VIRTUAL: broad, SIMULATED: {"color": "black"}}.items():
            draw_distribution(axis, runs.table("commands", case, tier), "ms", tier, **look)

    return draw


draw_processes = Picture(
    "Real processes in virtual time, and the simulator",
    *(
        Panel(
            "execution latency (ms)",
            "share of commands",
            both_tiers(f"{LIGHT}, {name}"),
            not_measured(VIRTUAL),
            title=name,
        )
        for name in PROCESSES
    ),
)
BROKEN = {
    "theta 0.99, only writes": (GRID, MULTI),
    "the same without the chain fix": ("no chain fix", MULTI),
    "every client has its own keys": ("own keys", MULTI),
    "theta 0.99 against a leader in EU": (GRID, MULTI_FAR),
}


def _broken(runs: Runs) -> pd.DataFrame:
    """Divide by Multi-Paxos: the cell of most conflicts, and cases with a single cell."""
    table = pd.concat([ratios(runs, *cases).assign(case=label) for label, cases in BROKEN.items()])
    table = table[table.theta.isna() | ((table.theta == HOTTEST[0]) & (table.writes == HOTTEST[1]))]
    return table.sort_values("region", key=lambda regions: regions.map(REGIONS.index))


draw_control = plot(
    "Broken on purpose",
    "",
    RATIO,
    Bars("p99", _broken, group="region", looks={label: label for label in BROKEN}),
    Level(1.0, published=False),
    Level(4.0, "abstract: more than 4"),
    log="y",
)


def _by_leader(runs: Runs) -> pd.DataFrame:
    table = runs.knobs["leader"]
    return table.assign(leader=table.leader.where(table.case == MULTI, "EPaxos"))


draw_leader = beside(
    "Where to put the leader",
    "region of Multi-Paxos's leader; and EPaxos",
    {"mean_ms": "mean latency of all commands (ms)", "p99_ms": "99th percentile (ms)"},
    lambda reading: Bars(reading, _by_leader, group="leader"),
)
CLOCKS = {"TOQ quorum": "EPaxos, TOQ", "TOQ union": "EPaxos, TOQ union", GRID: "EPaxos"}
draw_clocks = beside(
    "How good must clocks be?",
    "clocks up to so far apart (ms)",
    {"conflicts": "share of commands on the slow path", "mean_ms": "mean execution latency (ms)"},
    lambda reading: Sweep("clock_error_ms", reading, "clocks", looks=CLOCKS),
)


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw each region's mean (bar) and 99th percentile (mark) in one run."""
    figure, axis = new_figure("Mean (bar) and 99th percentile (mark)", "", "execution latency (ms)")
    rows, look = reading["regions"].set_index("region").loc[list(REGIONS)], scheme(MULTI if case == MULTI else "EPaxos")
    axis.bar(REGIONS, rows.mean_ms, 0.6, color=look.colour, alpha=0.6, label=look.label)
    axis.plot(REGIONS, rows.p99_ms, look.marker, color=look.colour)
    axis.set_ylim(0, 600)
    axis.legend()
    return figure
