"""Tables and pictures."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.packet_split_leak.headers import AS_CAPTURED, DRAWN, REMOVED, WITHOUT
from netrepro.papers.packet_split_leak.measuring import BY_FLOW, BY_PACKET, END_TO_END, FROZEN, TREES
from netrepro.papers.packet_split_leak.setting import SLUG
from netrepro.study import Reading, Runs
from netrepro.study.figures import draw_groups
from netrepro.study.pictures import draw_bars, draw_sweep, panels, share_legend
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

MODELS = {END_TO_END: "trained\nend to end", FROZEN: "frozen", TREES: "forest"}
SPLITS = {BY_PACKET: CURVES[6], BY_FLOW: CURVES[0]}
FOREST_CASES, DEALT_CASE = "forest, {}", "labels dealt out anew"
SCORE = "macro-F1 of packets (0 to 1)"


def scores(runs: Runs) -> pd.DataFrame:
    """Return every score: a row for each case, repetition, model and split, with macro_f1 and accuracy (0 to 1).

    Forests have the case of the headers that they see.
    """
    table = runs.tables["scores"]
    return table.assign(case=table["case"].str.removeprefix(FOREST_CASES.format("")))


def summary(runs: Runs) -> pd.DataFrame:
    """Return the mean macro-F1 of each model and split: a row for each model and what it sees, in the order measured,
    with the lead of the split by packet."""
    means = scores(runs).groupby(["model", "case", "split"], sort=False)["macro_f1"].mean().unstack()
    return means[[BY_PACKET, BY_FLOW]].assign(lead=means[BY_PACKET] - means[BY_FLOW])


def _bars(axis: Axes, table: pd.DataFrame, y: str) -> None:
    """Draw for each model a bar by split."""
    rows = table.assign(group=table["model"].map(MODELS), bar=table["split"])
    order = [name for name in MODELS.values() if name in set(rows["group"])]
    draw_groups(axis, rows.sort_values("group", key=lambda group: group.map(order.index)), y, SPLITS)
    axis.set_ylim(0, 1)
    axis.set_xlabel("")


def draw_splits(runs: Runs) -> Figure:
    """Draw macro-F1 of each model on both splits, with identifiers as captured, removed, and drawn anew."""
    names = [AS_CAPTURED, REMOVED, DRAWN]
    figure, axes = panels("What does the split add?", "model", SCORE, names)
    figure.set_size_inches(10, 4)
    table = scores(runs)
    for axis, name in zip(axes, names, strict=True):
        _bars(axis, table[table["case"] == name], "macro_f1")
    share_legend(figure)
    return figure


def draw_dealt(runs: Runs) -> Figure:
    """Draw the accuracy on labels that say nothing, since they were dealt out anew among the flows."""
    figure, axis = new_figure("Labels that nothing can predict", "model", "accuracy of packets (0 to 1)")
    table = scores(runs)
    _bars(axis, table[table["case"] == DEALT_CASE], "accuracy")
    share_legend(figure)
    return figure


def draw_published(runs: Runs) -> Figure:
    """Draw our accuracies beside published ones, which are of other data."""
    figure, axis = new_figure("Beside published accuracies, of other data", "", "accuracy of packets (0 to 1)")
    table = scores(runs).query("case == @AS_CAPTURED")
    asked = {
        "end to end,\nsplit by packet": (END_TO_END, BY_PACKET),
        "end to end,\nsplit by flow": (END_TO_END, BY_FLOW),
        "frozen,\nsplit by packet": (FROZEN, BY_PACKET),
        "frozen,\nsplit by flow": (FROZEN, BY_FLOW),
    }
    ours = {
        words: table[(table["model"] == model) & (table["split"] == split)]["accuracy"].to_list()
        for words, (model, split) in asked.items()
    }
    first, *_, last = ours
    up_to = load_claims(SLUG).claim("accuracy-of-the-split-by-packet").expected
    draw_bars(axis, ours, {first: up_to, last: FROZEN_BELOW}, published_label="published: up to (left), below (right)")
    axis.set_ylim(0, 1)
    return figure


FROZEN_BELOW = 0.47  # arXiv:2603.10051, abstract


def draw_identifiers(runs: Runs) -> Figure:
    """Draw a forest's scores with one kind of identifier removed, with none and with all."""
    figure, axis = new_figure("Which identifier carries it?", SCORE, "identifiers")
    table = runs.knobs["identifiers"]
    names = [AS_CAPTURED, *WITHOUT, REMOVED]
    for shift, (split, colour) in zip((0.2, -0.2), SPLITS.items(), strict=True):
        means = table.groupby("headers")[f"{TREES}, {split}"].mean().reindex(names)
        axis.barh([len(names) - 1 - i + shift for i in range(len(names))], means, 0.38, color=colour, label=split)
    axis.set_yticks(range(len(names)), names[::-1])
    axis.set_xlim(0, 1)
    share_legend(figure)
    return figure


def draw_packets(runs: Runs) -> Figure:
    """Draw a forest's scores by how many packets of a flow there are: with few, little of a flow is on both sides."""
    figure, axis = new_figure("How many packets of a flow leak?", "first packets of each flow (packets)", SCORE)
    table = runs.knobs["packets"]
    for split, colour in SPLITS.items():
        draw_sweep(axis, table, "packets_per_flow", f"{TREES}, {split}", label=split, color=colour)
    axis.set_ylim(0, 1)
    share_legend(figure)
    return figure


def draw_idea() -> Figure:
    """Draw the packets of four flows, and which of them test under each split."""
    figure, axes = panels("Which packets test?", "packets of a flow", "flow", [BY_PACKET, BY_FLOW])
    figure.set_size_inches(8, 2.8)
    test_by_packet = {(0, 3), (1, 6), (2, 1), (3, 5), (0, 7), (2, 4)}
    for axis, by_flow in zip(axes, (False, True), strict=True):
        for flow in range(4):
            for place in range(8):
                tests = flow == 1 if by_flow else (flow, place) in test_by_packet
                axis.plot(place, flow, "s", ms=11, color=CURVES[6] if tests else PUBLISHED_GREY)
        axis.set_xticks([])
        axis.set_yticks(range(4), ["mail 2", "web 2", "mail 1", "web 1"])
        axis.grid(False)
        axis.plot([], [], "s", color=PUBLISHED_GREY, label="trains")
        axis.plot([], [], "s", color=CURVES[6], label="tests")
        axis.set_ylim(-0.6, 3.6)
    share_legend(figure)
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw one run's macro-F1 on both splits."""
    figure, axis = new_figure("One run", "model", SCORE)
    _bars(axis, reading["scores"], "macro_f1")
    share_legend(figure)
    return figure
