"""Outcast's figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.outcast.experiments import (
    COLOURS,
    FAR,
    FAT_TREE_MBPS,
    HOPS,
    MIDDLE,
    NEAR,
    PUBLISHED_SHARES,
    ROWS_MBPS,
)
from netrepro.study import Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Panel, Sweep
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure


def draw_idea() -> Figure:
    """Draw two ports whose packets arrive in step at a full queue, from which one packet leaves in each slot. The first
    to arrive after a departure gets the place."""
    figure, axis = new_figure("A full queue, and two ports in step", "departures from the queue", "")
    slots = np.arange(12)
    far = pd.DataFrame({"slot": slots + 0.2, "port": FAR, "dropped": False})
    near = pd.DataFrame({"slot": slots + 0.6, "port": NEAR, "dropped": True})
    _draw_arrivals(axis, pd.concat([far, near]), "slot")
    for slot in range(13):
        axis.axvline(slot, color=PUBLISHED_GREY, linewidth=1, zorder=0)
    axis.legend(loc="upper center", ncols=2)
    return figure


def _draw_arrivals(axis: Axes, table: pd.DataFrame, x: str) -> None:
    """Draw the packets by input port, dropped ones as crosses above those that were let in."""
    for place, (port, name) in enumerate(((FAR, "far port"), (NEAR, "near port"))):
        rows = table[table.port == port]
        for dropped, marker, fate in ((False, "|", "let in"), (True, "x", "dropped")):
            times = rows[x][rows.dropped == dropped]
            if len(times):
                heights = np.full(len(times), place + 0.25 * dropped)
                axis.plot(times, heights, marker, color=COLOURS[port], markersize=7, label=f"{name}, {fate}")
    axis.set(ylim=(-0.3, 2.0), yticks=(0, 1), yticklabels=("far", "near"))
    axis.grid(False)


def draw_fat_tree(runs: Runs) -> Figure:
    """Draw the throughput by hops (Fig. 2a), a panel for each tier."""
    figure, axes = drawing.panels("Fifteen flows to one host (Fig. 2a)", "", "throughput of a flow (Mb/s)", runs.tiers)
    for axis, tier in zip(axes, runs.tiers, strict=True):
        mbps = runs.numbers("fat-tree", tier)[["near_mbps", "middle_mbps", "far_mbps"]]
        drawing.draw_bars(axis, dict(zip(HOPS, mbps.to_numpy().T, strict=True)), FAT_TREE_MBPS, COLOURS)
    return figure


def draw_timeline(runs: Runs) -> Figure:
    """Draw the packets at the last switch around the near port's longest row of drops (Fig. 9), with drop tail and
    RED."""
    title = f"Drops at the port, by input port (Fig. 9; {runs.tier}, one run)"
    figure, axes = drawing.panels(title, "time (ms)", "", ("drop tail", "RED"))
    for axis, case in zip(axes, ("drop tail", "red"), strict=True):
        rows = runs.table("timeline", case)
        _draw_arrivals(axis, rows[rows.repetition == 0], "time_ms")
    drawing.share_legend(figure)
    return figure


# Figure -> title, and label of a row -> case, reading, published value.
OUTCAST = ("13 flows", "near_share", PUBLISHED_SHARES["13 flows"])
SHARES: dict[str, tuple[str, dict[str, tuple[str, str, float | None]]]] = {
    "near_and_far": (
        "One near flow beside several far ones",
        {
            "2 far": ("2 far", "near_share", None),
            "6 far": ("6 far", "near_share", None),
            "12 far": OUTCAST,
            "12 far, two ports": ("drop tail", "near_share", None),
        },
    ),
    "remedies": (
        "Remedies: the near flow beside twelve far ones (section 5)",
        {"drop tail": ("drop tail, ns-2", "near_share", None)}
        | {case: (case, "near_share", PUBLISHED_SHARES[case]) for case in ("red", "sfq", "paced")},
    ),
    "routes": (
        "Routes in the fat-tree",
        {
            "2 hops": ("fat-tree", "near_share", 0.178),
            "4 hops": ("fat-tree", "middle_share", 0.525),
            "2 hops, hashed routes": ("fat-tree, hashed", "near_share", None),
            "4 hops, hashed routes": ("fat-tree, hashed", "middle_share", None),
            "2 hops, 13 flows": OUTCAST,
            "2 hops, 13 flows, equal length": ("equal length", "near_share", 0.785),
            "2 hops, RED": ("fat-tree, red", "near_share", None),
            "4 hops, RED": ("fat-tree, red", "middle_share", None),
        },
    ),
    "class_report": (
        "What student projects set up",
        {
            "1 Gb/s, two ports": ("drop tail", "near_share", None),
            "100 Mb/s, BIC, 16 kB": ("class, 16 kB", "near_share", None),
            "128 kB": ("class, 128 kB", "near_share", None),
            "100 Mb/s, Reno, 200 packets": ("class, reno", "near_share", None),
            "parking lot, 3 senders": ("parking lot, 3", "near_share", None),
            "parking lot, 6 senders": ("parking lot, 6", "near_share", None),
            "the same, near one moved": ("parking lot, 6, near moved", "near_share", None),
            "6 senders, 100 Mb/s, Reno": ("parking lot, 6, reno", "near_share", None),
        },
    ),
    "control_port": (
        "Broken on purpose: the near flow's port",
        {"a port of its own": OUTCAST, "behind the far flows' port": ("13 flows, near moved", "near_share", None)},
    ),
}


def draw_shares(runs: Runs, name: str) -> Figure:
    """Draw one of SHARES: a row for each case, every seed a dot, the median a line, on all tiers that were measured."""
    title, rows = SHARES[name]
    figure, axis = new_figure(title, "share of the mean of flows from afar", "", log_x=True)
    axis.axvline(1, color="black", linewidth=0.8)
    for place, (case, reading, published) in enumerate(rows.values()):
        for shift, (tier, colour) in enumerate(zip(runs.tiers, CURVES, strict=False)):
            values = runs.numbers(case, tier)[reading].clip(lower=1e-3)
            at = -place + 0.12 * (len(runs.tiers) - 1) - 0.24 * shift
            label = "" if place else f"{tier}: every seed, and the median"
            axis.plot(values, np.full(len(values), at), "o", color=colour, alpha=0.4, markersize=5, label=label)
            axis.plot([values.median()], [at], "|", color=colour, markersize=16, markeredgewidth=2.5)
        if published:
            axis.plot([published], [-place], "D", color=PUBLISHED_GREY, markersize=7)
    axis.plot([], [], "D", color=PUBLISHED_GREY, label="published")
    axis.set(yticks=-np.arange(len(rows)), yticklabels=list(rows), ylim=(0.5 - len(rows), 0.5))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _rows(title: str, case: str) -> Panel:
    """Show the throughput of a port that drops k packets in a row (section 4)."""
    ours = Sweep("drops_in_a_row", "total_mbps", lambda runs: runs.numbers(case), "far_flows", label="flows: {}")
    x, y = "dropped in a row every 20 ms (packets)", "throughput of all flows (Mb/s)"
    return Panel(x, y, _draw_published_rows, ours, title=title, y_range=(0, 1050))


def _draw_published_rows(axis: Axes, _: Runs) -> None:
    for flows, points in ROWS_MBPS.items():
        axis.plot(
            list(points), list(points.values()), "D", color=PUBLISHED_GREY, label="published, 1, 3, 5 and 7 flows"
        )
        for place, mbps in points.items():
            axis.annotate(f"{flows}", (place, mbps), (5, 5), textcoords="offset points", fontsize=7)


def draw_timing(runs: Runs) -> Figure:
    """Draw the shares by hops in the fat-tree over the clocks' skew and the hosts' time for a packet: a dot for each
    seed, medians joined."""
    labels = {"clock_skew_ppm": "clocks' skew (ppm)", "host_delay_packets": "time of hosts (packets' times)"}
    title, share = "Timing (fat-tree, simulated)", "share of flows over 6 hops"
    figure, axes = drawing.panels(title, "", share, [""] * len(labels), log_y=True)
    for axis, (field, label) in zip(axes, labels.items(), strict=True):
        rows = runs.knobs["phases"].query("case == @field")
        places = sorted(rows[field].unique())
        for hops, column in ((NEAR, "near_share"), (MIDDLE, "middle_share")):
            at, values = rows[field].map(places.index), rows[column].clip(lower=1e-3)
            axis.plot(at, values, "o", color=COLOURS[hops], alpha=0.35, markersize=4)
            axis.plot(values.groupby(at).median(), color=COLOURS[hops], label=hops)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(range(len(places)), [f"{place:g}" for place in places])
        axis.set(xlabel=label)
    drawing.share_legend(figure)
    return figure


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run: a bar for each flow."""
    figure, axis = new_figure(f"{case}: {run.flows.goodput_mbps.sum():.0f} Mb/s in all", "flow", "throughput (Mb/s)")
    for hops, rows in run.flows.groupby("label"):
        axis.bar(rows.flow, rows.goodput_mbps, color=COLOURS[hops], label=hops)
    axis.legend()
    return figure
