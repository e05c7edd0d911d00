"""Tables and pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.gmm_traffic.measuring import RIGHT, SHUFFLED
from netrepro.papers.gmm_traffic.own_capture import OwnCapture
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, MODELS, SLUG, VERIFIED_PACKETS
from netrepro.study import Reading, Runs
from netrepro.study.figures import Bars, Panel, Picture, Published, Sweep, plot
from netrepro.study.pictures import changes_figure
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import CLASSES, NAMED_CLASSES, NEURAL, NORMALISATIONS

FIRST_PACKETS = "first packets of a flow (count)"
NO_HANDSHAKE = "three packets after the handshake"
# Conditions of the mixtures that are drawn side by side.
CONDITIONS_AT_NINE = (
    *(RIGHT, SHUFFLED, "few flows", "two flows a class", "random features", "selected for shuffled labels"),
    *("all features", "hosts apart", NO_HANDSHAKE),
)
UNITS = ("flow", "packet", "byte")
SCORES = {("all", "accuracy"): "accuracy", ("named", "macro_f1"): "F1 of four"}
OF_FOUR = "macro-F1 over four classes (%)"
# Labels and colours of the mixtures that others measured, and their names in the claims.
OTHERS = {
    "paper's mixtures": ("published", PUBLISHED_GREY),
    "class report's mixtures": ("class_report", "#d0d0d0"),
}


# Tables.


def scores_of(runs: Runs, *cases: str) -> pd.DataFrame:
    """Return the SCORES of cases, in their order: score, value in %."""
    table = pd.concat([runs.table("scores", case) for case in cases])
    table["score"] = [SCORES.get(pair, "") for pair in zip(table["scope"], table["measure"], strict=True)]
    return table[table["score"] != ""].assign(value=100 * table["value"])


def _published(claim: str, attribute: str = "published") -> float:
    return 100 * getattr(load_claims(SLUG).claim(claim), attribute)


def _at_nine(runs: Runs) -> pd.DataFrame:
    """Return the scores of all models at nine packets, including those that others measured."""
    ours = scores_of(runs, *(case for case in (RIGHT, "baselines", "neural models") if runs.has(case)))
    theirs = [
        (model, unit, score, _published(f"{unit}-{claim}", attribute))
        for model, (attribute, _) in OTHERS.items()
        for unit in UNITS
        for score, claim in (("accuracy", "accuracy"), ("F1 of four", "macro-f1"))
    ]
    return pd.concat([ours, pd.DataFrame(theirs, columns=["model", "unit", "score", "value"])])


def table3(runs: Runs) -> pd.DataFrame:
    """Return Table 3 at nine packets: a row for each model, accuracy and macro-F1 (over four classes) in %."""
    means = _at_nine(runs).groupby(["model", "unit", "score"])["value"].mean().unstack(["unit", "score"])
    means = means[[(unit, score) for unit in UNITS for score in SCORES.values()]]
    means.columns = pd.Index([f"{unit} {score}" for unit, score in means])
    return means.loc[[name for name in (*MODELS, *NEURAL, *OTHERS) if name in means.index]]


def by_class(runs: Runs) -> pd.DataFrame:
    """Return precision, recall and F1 in % and testing flows of the mixtures at nine packets, and the published F1."""
    scores = runs.table("scores", RIGHT).query("unit == 'flow' and scope in @CLASSES")
    table = scores.groupby(["scope", "measure"])["value"].mean().unstack().loc[list(CLASSES)]
    table = table[["precision", "recall", "f1", "support"]].mul([100, 100, 100, 1])
    for words, attribute in (("paper's f1", "published"), ("class report's f1", "class_report")):
        table[words] = pd.Series({name: _published(f"flow-f1-{name.lower()}", attribute) for name in NAMED_CLASSES})
    return table.rename_axis("class")


def own_tables(own: OwnCapture) -> pd.DataFrame:
    """Return the applications that nDPI finds, and the classes that the mixtures give to their flows."""
    if not own.path:
        return pd.DataFrame(columns=list(CLASSES))
    counted = pd.crosstab(own.flows["application"].fillna("not known to nDPI"), own.flows["predicted"])
    return counted.reindex(columns=list(CLASSES), fill_value=0)


# Figures.


def draw_idea() -> Figure:
    """Draw the steps from packets to numbers, mixtures and a class."""
    figure, axis = new_figure("A flow's first packets, some numbers, one mixture a class", "", "")
    axis.axis("off")
    sizes = np.array([52, 52, 40, 420, 40, 1500, 1500, 40, 700])
    sides = np.array([1, -1, 1, 1, -1, -1, -1, 1, -1])
    axis.bar(0.25 * np.arange(9), sides * (0.12 + sizes / 1800), 0.16, color=np.where(sides > 0, "#0072B2", "#E69F00"))
    axis.axhline(0, xmax=0.36, color="black", linewidth=0.8)
    axis.text(1.0, 1.25, "first nine packets", ha="center")
    axis.text(1.0, -1.35, "up: from the opener\ndown: from the other end", ha="center", fontsize=8)
    axis.annotate("", (3.0, 0), (2.35, 0), arrowprops={"arrowstyle": "->"})
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "#0072B2"}
    words = "59 numbers:\nlengths, gaps,\ncounts, flags\n\na search keeps\nthe best 10"
    axis.text(3.6, 0, words, ha="center", va="center", bbox=box, fontsize=9)
    axis.annotate("", (4.9, 0), (4.3, 0), arrowprops={"arrowstyle": "->"})
    x = np.linspace(5.0, 7.2, 200)
    for place, name in enumerate(NAMED_CLASSES):
        centre = 5.4 + 0.45 * place
        y = np.exp(-(((x - centre) / 0.18) ** 2)) + 0.5 * np.exp(-(((x - centre - 0.3) / 0.1) ** 2))
        axis.plot(x, y - 0.5, color=scheme(name).colour, label=name)
    axis.text(6.1, 1.0, "the likeliest mixture wins", ha="center")
    axis.legend(loc="lower right", ncols=2, fontsize=8)
    axis.set(xlim=(-0.3, 7.4), ylim=(-1.7, 1.5))
    return figure


def _first_packets_panel(score: str, claim: str, label: str) -> Panel:
    def rows(runs: Runs) -> pd.DataFrame:
        # At nine packets only the case that does not sweep has all repetitions of the baselines.
        table = scores_of(runs, "first packets", "baselines, first packets", "baselines")
        table = table[(table["unit"] == "flow") & (table["score"] == score)]
        return table.drop_duplicates(["model", "first_packets", "repetition"])

    return Panel(
        FIRST_PACKETS,
        label,
        Sweep("first_packets", "value", rows, by="model", looks={name: name for name in MODELS}),
        Published(lambda runs: pd.Series({BEST_PACKETS: _published(claim)}), "paper, UNIBS-2009"),
        y_range=(None, 101),
    )


draw_first_packets = Picture(
    "More packets, better names (Fig. 3)",
    _first_packets_panel("accuracy", "flow-accuracy", "flows named rightly (%)"),
    _first_packets_panel("F1 of four", "flow-macro-f1", OF_FOUR),
)


def _table3_panel(score: str, label: str) -> Panel:
    looks = {name: name for name in (*MODELS, *NEURAL)} | {
        name: {"label": name, "color": colour} for name, (_, colour) in OTHERS.items()
    }

    def rows(runs: Runs) -> pd.DataFrame:
        table = _at_nine(runs)
        return table[table["score"] == score]

    return Panel("", label, Bars("value", rows, "unit", "model", looks))


draw_table3 = Picture(
    "At nine packets (Table 3)", _table3_panel("accuracy", "accuracy (%)"), _table3_panel("F1 of four", OF_FOUR)
)


def draw_matrix(axis: Axes, table: pd.DataFrame, shade: pd.DataFrame | None = None) -> None:
    """Draw a table as shaded cells with their values, "no fit" where there is none. shade : values in 0..1; None shades
    each row by its own values."""
    labels = axis.get_xlabel(), axis.get_ylabel()
    tone = table.div(table.sum(axis=1).clip(lower=1e-12), axis=0) if shade is None else shade
    words = table.map(lambda value: f"{value:.0f}" if np.isfinite(value) else "no fit")
    look = {"cmap": "Blues", "vmin": 0, "vmax": 1, "cbar": False, "annot_kws": {"fontsize": 8}}
    sns.heatmap(tone, annot=words, fmt="", ax=axis, **look)
    axis.set(xlabel=labels[0], ylabel=labels[1])
    axis.tick_params(axis="y", rotation=0)
    axis.grid(False)


def draw_confusion(runs: Runs) -> Figure:
    """Draw the classes that the mixtures give to each class's flows, all repetitions together."""
    return _confusion_figure("Mixtures at nine packets, all repetitions", runs.table("confusions", RIGHT))


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the classes that one run's mixtures give to each class's flows, and the features that they use."""
    figure = _confusion_figure(", ".join(reading["selections"]["feature"]), reading["confusions"])
    figure.suptitle(figure.get_suptitle(), fontsize=8)
    return figure


def _confusion_figure(title: str, confusions: pd.DataFrame) -> Figure:
    figure, axis = new_figure(title, "named by the mixtures", "true class")
    table = confusions.groupby(["true", "predicted"])["flows"].sum().unstack()
    draw_matrix(axis, table.loc[list(CLASSES), list(CLASSES)])
    return figure


draw_verification = plot(
    "Is this flow what it claims to be?",
    FIRST_PACKETS,
    "half total error rate (0 to 1)",
    Sweep(
        "first_packets",
        "half_total_error",
        lambda runs: runs.table("verification", "verification"),
        by="class",
        looks={name: name for name in CLASSES},
    ),
    Sweep(
        "first_packets",
        "half_total_error",
        {
            "verification": {"label": "mean of the four named", "color": "black", "linewidth": 2.4},
            f"verification, {SHUFFLED}": {"label": SHUFFLED, "color": scheme("control").colour, "marker": "x"},
        },
    ),
    Published({VERIFIED_PACKETS: 0.0765}, "paper, UNIBS-2009"),
)


def draw_cases(runs: Runs) -> Figure:
    """Draw the mixtures' accuracy with other labels, features or splits, and with fewer flows."""
    table = pd.concat([runs.numbers(case) for case in CONDITIONS_AT_NINE])
    title = "The same mixtures under other conditions"
    return changes_figure(title, table, "flow_accuracy", "flows named rightly (0 to 1)", 1)


def draw_normalisations(runs: Runs) -> Figure:
    """Draw macro-F1 by normalisation, for mixtures by prior and regularisation, naive Bayes and a tree."""
    table = runs.table("normalisations", "normalisations").fillna({"regularisation": 0, "prior": ""})
    rows = ["model", "prior", "regularisation", "normalisation"]
    means = 100 * table.groupby(rows, sort=False)["macro_f1"].mean().unstack()[list(NORMALISATIONS)]
    means.index = pd.Index(
        [
            scheme(model).label + (f", {prior.upper()}, {regularisation:g}" if prior else "")
            for model, prior, regularisation in means.index
        ]
    )
    title = "Macro-F1 over four classes (%), all 59 features"
    figure, axis = new_figure(title, "normalisation", "model, prior, regularisation")
    draw_matrix(axis, means, means.fillna(0) / 100)
    return figure


draw_forward_search = plot(
    "The forward search",
    "features chosen (count)",
    "macro-F1 over four classes (0 to 1)",
    Sweep(
        "place",
        "score",
        lambda runs: runs.table("selections", "first packets"),
        by="first_packets",
        label="{} packets",
    ),
    y_range=(None, None),
)


def draw_own(own: OwnCapture) -> dict[str, Figure]:
    """Draw the confusion of inspection and mixtures on the reader's own capture; return nothing where none was
    given."""
    if not own.path:
        return {}
    figure, axis = new_figure("Your capture", "named by the mixtures", "by inspection (nDPI)")
    draw_matrix(axis, own.confusion)
    return {"own_capture": figure}
