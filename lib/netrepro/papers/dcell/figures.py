"""DCell's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.dcell.experiments import (
    DESTINATION,
    FIG_12,
    FIRST_SERVER,
    INTERVALS,
    NETWORK,
    PUBLISHED_S,
    SOURCE,
    Setting,
    all_to_all,
)
from netrepro.paths import data_dir
from netrepro.study import Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Course, Level, Look, Panel
from netrepro.style import CURVES, draw_published, new_figure

TREE_LOOK, DCELL = {"label": "tree", "color": CURVES[1]}, {"label": "DCell", "color": CURVES[0]}


def _places() -> dict[Any, tuple[float, float]]:
    """Place cells around a circle, each with its servers side by side and its mini-switch beyond them."""
    places: dict[Any, tuple[float, float]] = {}
    for cell in range(5):
        turn = math.pi / 2 - 2 * math.pi * cell / 5
        x, y = 3.2 * math.cos(turn), 2.6 * math.sin(turn)
        places[f"mini {cell}"] = (x * 1.45, y * 1.4)
        for server in range(4):
            off = (server - 1.5) * 0.62
            places[cell, server] = (x + off * math.sin(turn), y - off * math.cos(turn))
    return places


def draw_idea() -> Figure:
    """Draw a DCell_1 of n = 4 with the path of Fig. 11 and the one around [0,3]."""
    figure, axis = new_figure("A DCell_1 of n = 4: servers (dots) forward", "", "")
    places, servers = _places(), NETWORK.servers
    graph = nx.Graph((one, other) for one in servers for other in (f"mini {one[0]}", NETWORK.peer(one, 1)))
    nx.draw_networkx_edges(graph, places, ax=axis, edge_color="#bbbbbb")
    first_path, around = (
        NETWORK.route_around(SOURCE, DESTINATION, down, state_level=1) for down in ((), (FIRST_SERVER,))
    )
    for path, colour, label in ((first_path, CURVES[0], "first path"), (around, CURVES[6], "around [0,3]")):
        steps = [ends for hop in pairwise(path or ()) for ends in pairwise(nx.shortest_path(graph, *hop))]
        nx.draw_networkx_edges(graph, places, steps, 2.4, colour, label=label, ax=axis)
    for nodes, shape in ((servers, "o"), ([f"mini {cell}" for cell in range(5)], "s")):
        nx.draw_networkx_nodes(graph, places, nodes, 30, drawing.INK, shape, ax=axis)
    for one, other in servers:
        axis.annotate(f"{one},{other}", places[one, other], (4, 4), textcoords="offset points", fontsize=7)
    axis.set_axis_off()
    axis.set_aspect("equal")
    axis.legend(loc="upper left", fontsize=8)
    return figure


def draw_tree(setting: Setting) -> Figure:
    """Draw the two-level tree of the comparison, with the ports that the setting gives its switches."""
    asked = all_to_all(replace(FIG_12.setting_with(setting), network="tree"), 0.0, 1)
    return drawing.draw_network(asked, "The same servers on a two-level tree")


def goodput_panel(cases: Mapping[str, Look], tiers: bool = False, title: str = "") -> Panel:
    """Show the goodput over time as a share of the link's rate, with the failures."""
    course = Course("goodput", "goodput_share", cases, step=True, tiers=tiers)
    published = Level(0.91, "published before failures: 910 of 1000 Mb/s")
    label = "goodput (share of the link's rate)"
    return Panel("time (s)", label, published, course, _mark_failures, title=title, y_range=(0, 1.2))


def _mark_failures(axis: Axes, runs: Runs) -> None:
    changes = runs.study.scale(runs.profile, runs.tier).changes
    timeline_s = changes.get("timeline_s", runs.setting.timeline_s)
    heights = {"link out": 1.03, "link back": 1.11, "server down": 1.03}
    for at_s, (said, height) in zip(timeline_s, heights.items(), strict=False):
        axis.axvline(at_s, color=drawing.INK, linestyle=":", linewidth=1)
        axis.annotate(said, (at_s, height), (2, 0), textcoords="offset points", fontsize=8)


def draw_diagonal(axis: Axes, _: Runs) -> None:
    """Draw where an outage is as long as the time-out."""
    axis.axline((1, 1), (2, 2), color=drawing.INK, linestyle=":", label="the time-out itself")


def _draw_published(axis: Axes, _: Runs) -> None:
    for _network, rows in pd.read_csv(data_dir("dcell") / "fig12.csv", comment="#").groupby("network"):
        draw_published(axis, rows.time_s / PUBLISHED_S, rows.gbps, "published")


def throughput_panel(title: str, dcell: str, tree: str) -> Panel:
    """Show the rates of a case on DCell and of one on the tree over time, beside the published ones."""
    course = Course("throughput", "rates", {dcell: DCELL, tree: TREE_LOOK}, x="time", step=True)
    label = "time (of a flow's bytes on an idle link; 40 s for 5 GB at 1 Gb/s)"
    return Panel(label, "goodput (rates of a link)", _draw_published, course, title=title)


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run: what all servers receive, over time."""
    came = run.packets[run.packets.destination.isin(run.experiment.topology.hosts)]
    ends_s = came.time_s.max()
    edges = np.linspace(0, ends_s, 4 * INTERVALS + 1)
    megabits, _ = np.histogram(came.time_s, edges, weights=came.size_bytes * 8e-6)
    figure, axis = new_figure(f"{case}: over after {ends_s:.1f} s", "time (s)", "received by all servers (Mb/s)")
    axis.step(edges[:-1], megabits / np.diff(edges), where="post")
    axis.set_ylim(bottom=0)
    return figure
