"""Tables and pictures of what the class tried and saw: right labels beside the fitted noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.gmm_diagnosis.features import BASELINES, LABELS, NOISE, REMEDIES, RIGHT_LABELS
from netrepro.papers.gmm_diagnosis.setting import reported
from netrepro.study import Runs
from netrepro.study.figures import draw_groups
from netrepro.study.pictures import draw_sweep, name_ticks, panels, share_legend
from netrepro.style import new_figure, scheme
from netrepro.traffic import NAMED_CLASSES

LOOKS = {RIGHT_LABELS: "#0072B2", NOISE: "#D55E00"}
SHOWN = 15  # features of a ranking


def columns_table(runs: Runs) -> pd.DataFrame:
    """Return the report's table in %: the paper, the report's three columns, and ours with the fitted noise and with
    right labels; nine packets there, whole flows here, as the report's features are."""
    paper = {claim.id: claim.published for claim in load_claims("gmm_traffic").claims}
    rows = {
        ("all", f"{unit} {words}"): paper.get(f"{unit}-{key}")
        for unit in ("flow", "packet", "byte")
        for words, key in (("accuracy", "accuracy"), ("macro-F1", "macro-f1"))
    } | {(name, "f1"): paper.get(f"flow-f1-{name.lower()}") for name in NAMED_CLASSES}
    columns = {("paper", ""): 100 * pd.Series(rows, dtype=float)}
    for remedy in REMEDIES:
        columns["class report", remedy] = reported(f"mixtures {remedy}").stack().dropna()
    ours = runs.table("columns", "columns")
    for labels in (NOISE, RIGHT_LABELS):
        for remedy in REMEDIES:
            own = ours[(ours["labels"] == labels) & (ours["column"] == remedy)]
            columns[f"ours, {labels}", remedy] = 100 * own.groupby(["row", "measure"])["value"].mean()
    table = pd.DataFrame(columns)
    order = [*(each for each in table.index if each[0] == "all"), *((name, "f1") for name in NAMED_CLASSES)]
    return table.loc[order]


def draw_baselines(runs: Runs) -> Figure:
    """Draw three baselines' accuracy over the number of first packets."""
    table = runs.table("packets", "packets")
    figure, axes = panels("Three baselines over 3 to 10 packets", "first packets (count)", "accuracy (0 to 1)", LABELS)
    for axis, labels in zip(axes, LABELS, strict=True):
        own = table[table["labels"] == labels]
        draw_sweep(axis, own[own["model"].isin(BASELINES)], "packets", "accuracy", by="model")
        axis.set_ylim(0, 1.02)
        name_ticks(axis, "x", sorted(own["packets"].unique()))
    share_legend(figure)
    return figure


def _ranking(runs: Runs, name: str, column: str) -> tuple[list[str], pd.DataFrame]:
    """Return the greatest features by their mean with right labels, and the table of means (feature, labels)."""
    means = runs.table(name, "features" if name == "ranks" else "gradients").groupby(["feature", "labels"])[column]
    table = means.mean().unstack()
    return list(table[RIGHT_LABELS].sort_values(ascending=False).index[:SHOWN]), table


def _draw_ranking(runs: Runs, name: str, column: str, title: str, label: str, scale: str) -> Figure:
    names, table = _ranking(runs, name, column)
    figure, axis = new_figure(title, label, "")
    figure.set_size_inches(7.2, 5.2)
    places = np.arange(len(names))[::-1]
    for shift, labels in ((0.2, RIGHT_LABELS), (-0.2, NOISE)):
        axis.barh(places + shift, table.loc[names, labels], 0.38, color=LOOKS[labels], label=labels)
    axis.set_yticks(places, names, fontsize=9)
    axis.set_xscale(scale)
    share_legend(figure)
    return figure


def draw_ranks(runs: Runs) -> Figure:
    """Draw the features with the greatest F statistic."""
    title = f"The {SHOWN} features of greatest F with right labels (of 60)"
    return _draw_ranking(runs, "ranks", "f", title, "F statistic: variance between classes / within (ratio)", "log")


def draw_gradients(runs: Runs) -> Figure:
    """Draw the features with the largest gradients of a perceptron's answer."""
    title = f"The {SHOWN} features to which a perceptron is most sensitive (of 60)"
    return _draw_ranking(
        runs, "gradients", "gradient", title, "mean |gradient| of the answer (score per standard deviation)", "linear"
    )


def draw_correlations(runs: Runs) -> Figure:
    """Draw the correlation of features with classes, of the features that correlate most with right labels."""
    means = runs.table("correlations", "features").groupby(["labels", "feature"])[list(NAMED_CLASSES)].mean()
    strongest = means.loc[RIGHT_LABELS].abs().max(axis=1).sort_values(ascending=False).index[: SHOWN + 5]
    figure, axes = panels("Correlation of features with classes (Pearson)", "class", "", LABELS)
    figure.set_size_inches(9.0, 6.0)
    for axis, labels in zip(axes, LABELS, strict=True):
        table = means.loc[labels].reindex(strongest).fillna(0)
        look = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "annot_kws": {"fontsize": 8}, "fmt": ".2f"}
        sns.heatmap(table, annot=True, ax=axis, cbar=False, yticklabels=axis is axes[0], **look)
        axis.set(ylabel="", xlabel="class")
        axis.grid(False)
    return figure


def draw_map(runs: Runs) -> Figure:
    """Draw the map of flows by t-SNE, coloured by right labels and by those of the fitted noise."""
    table, numbers = runs.table("map", "features"), runs.numbers("features").mean(numeric_only=True)
    first = table[table["repetition"] == table["repetition"].min()]
    alike = [numbers["neighbours_alike_" + labels.replace(" ", "_")] for labels in LABELS]
    names = [f"{labels}: neighbours alike {share:.0%}" for labels, share in zip(LABELS, alike, strict=True)]
    figure, axes = panels("Flows by t-SNE (whole flows, standard scores)", "", "", names)
    for axis, labels in zip(axes, LABELS, strict=True):
        for name in ("WEB", "P2P", "MAILS", "SKYPE"):
            own, look = first[first[labels] == name], scheme(name)
            axis.plot(own["x"], own["y"], look.marker, color=look.colour, label=look.label, ms=3, alpha=0.7)
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    share_legend(figure)
    return figure


def draw_sequences(runs: Runs) -> Figure:
    """Draw the accuracy of a model on sequences of packets beside models on statistics of the same packets."""
    table = runs.table("sequences", "sequences").rename(columns={"model": "group", "labels": "bar"})
    table["group"] = table["group"].str.replace(", ", ",\n")
    figure, axis = new_figure("Packets in sequence, and statistics of them (nine packets)", "", "accuracy (0 to 1)")
    figure.set_size_inches(8.4, 4.2)
    draw_groups(axis, table, "accuracy", LOOKS)
    axis.set_ylim(0, 1.02)
    share_legend(figure)
    return figure
