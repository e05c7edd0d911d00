"""Tables and pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.gmm_diagnosis.setting import MEANS, SLUG, WRONG, reported
from netrepro.papers.gmm_traffic.figures import draw_matrix
from netrepro.papers.gmm_traffic.study import LEAD
from netrepro.study import Reading, Runs
from netrepro.study.pictures import draw_sweep
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import NAMED_CLASSES, NORMALISATIONS


def variants_of(runs: Runs, *experiments: str) -> pd.DataFrame:
    """Return a row per variant and repetition, columns TABLE. Accuracies and F1 (four classes) are in 0..1; `wrong` is
    the share of wrong labels; header_bytes and first_packet are means of total_fhlen and fpl1 over WEB flows; audit is
    "passed" or the failed checks. Without names, all experiments are returned."""
    table = runs.table("variants", "variants")
    return table[table["experiment"].isin(experiments)] if experiments else table


def summary(runs: Runs, *experiments: str) -> pd.DataFrame:
    """Return means over the repetitions in %, a row for each variant; without names, for all experiments."""
    variants = variants_of(runs, *experiments).groupby(["experiment", "variant"], sort=False)
    return (100 * variants[MEANS].mean()).assign(audit=variants["audit"].first())


def audited(runs: Runs) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the variants with more than WRONG of their labels wrong, and those with fewer, as far as their join labels
    most of the flows."""
    table = variants_of(runs, "E1", "E2", "E3").query("repetition == 0")
    table = table.assign(rejected=table["audit"] != "passed")[["variant", "wrong", "flows", "audit", "rejected"]]
    enough = ~table["audit"].str.contains("matched flows")
    return table[table["wrong"] > WRONG], table[(table["wrong"] <= WRONG) & enough]


def order_of_remedies(table: pd.DataFrame, labels: str) -> list[str]:
    """Order the report's three mixtures of one repetition by accuracy, best first. Those closer than LEAD are in the
    reverse of the report's order."""
    asked = {"raw, MLE": ("raw", "mle"), "normalised, MLE": ("z", "mle"), "normalised, MAP": ("z", "map")}
    kept = table[(table["model"] == "GMM") & (table["labels"] == labels) & (table["regularisation"] == 1e-2)]
    accuracy = kept.set_index(["normalisation", "prior"])["accuracy"].fillna(0)
    order: list[str] = []
    for name, key in asked.items():  # worst first in the report
        place = next((i for i, other in enumerate(order) if accuracy[key] >= accuracy[asked[other]] + LEAD), len(order))
        order.insert(place, name)
    return order


def models_table(runs: Runs) -> pd.DataFrame:
    """Return the report's transformer, plain and balanced, and our models under the fitted noise; all in %."""
    ours = 100 * runs.tables["models"].groupby("model", sort=False).mean(numeric_only=True).drop(columns="repetition")
    rows = {}
    for words, table in (("class report", "transformer"), ("class report, balanced", "transformer balanced")):
        numbers = reported(table)
        rows[words] = {
            "accuracy": numbers.loc["all", "flow accuracy"],
            "macro-F1": numbers.loc["all", "flow macro-F1"],
        } | {f"{name} {each}": numbers.loc[name, each] for name in NAMED_CLASSES for each in ("precision", "recall")}
    return pd.concat([pd.DataFrame(rows).T, ours])[ours.columns]


def draw_idea() -> Figure:
    """Draw flows and log records on two time lines, with arrows for the right join and for the nearest record."""
    figure, axis = new_figure("Whose label is it?", "time", "")
    starts, names = np.array([0.6, 1.3, 1.5, 2.6, 3.1, 4.2]), ("WEB", "P2P", "WEB", "MAILS", "WEB", "P2P")
    records = starts + np.array([0.5, 0.7, 0.15, 0.6, 0.2, 0.3])
    for start, record, name in zip(starts, records, names, strict=True):
        axis.plot(start, 1, "s", color=scheme(name).colour, ms=10)
        axis.plot(record, 0, "o", color=scheme(name).colour, ms=10)
        axis.annotate("", (record, 0.08), (start, 0.92), arrowprops={"arrowstyle": "->", "color": "#555555"})
        near = records[np.argmin(np.abs(records - start))]
        if near != record:
            look = {"arrowstyle": "->", "color": "#D55E00", "linestyle": "--"}
            axis.annotate("", (near, 0.08), (start, 0.92), arrowprops=look)
    axis.set_yticks([0, 1], ["log of\nlabels", "flows"])
    axis.set(ylim=(-0.5, 1.7), xlim=(0.2, 5.2), xticks=[])
    axis.text(0.3, 1.3, "grey: same addresses and ports\ndashed: nearest in time, another flow's")
    for name in ("WEB", "P2P", "MAILS"):
        axis.plot([], [], "s", color=scheme(name).colour, label=name)
    axis.legend(loc="lower right", ncols=3)
    axis.grid(False)
    return figure


def draw_variants(runs: Runs, title: str, experiments: tuple[str, ...]) -> Figure:
    """Draw the accuracy of forest and mixtures for every variant, with its wrong labels and its audit's verdict."""
    table = summary(runs, *experiments)
    figure, axis = new_figure(title, "accuracy on the labels given (%)", "")
    figure.set_size_inches(8.5, 1.6 + 0.34 * len(table))
    places = np.arange(len(table))[::-1]
    axis.barh(places + 0.2, table["forest_accuracy"], 0.38, color=scheme("RF").colour, label="random forest")
    axis.barh(places - 0.2, table["mixtures_accuracy"], 0.38, color=scheme("GMM").colour, label="Gaussian mixtures")
    axis.set_yticks(places, [f"{experiment}  {variant}" for experiment, variant in table.index])
    for place, (_, row) in zip(places, table.iterrows(), strict=True):
        words = "nothing matches; " if np.isnan(row["wrong"]) else f"{row['wrong']:.0f} % wrong; " * (row["wrong"] > 0)
        words += "audit passed" if row["audit"] == "passed" else "audit failed"
        axis.text(101, place, words, va="center", fontsize=8)
    axis.axvline(69.06, color=PUBLISHED_GREY, linestyle="--", label="class report, transformer")
    axis.set_xlim(0, 100)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def draw_noise(runs: Runs) -> Figure:
    """Draw scores over the share of re-drawn labels. Dotted: the class report's scores; shaded: the fitted share
    (E2)."""
    figure, axes = new_figure(
        "E2: labels drawn anew", "share of labels drawn anew (0 to 1)", "score (0 to 1)", columns=2
    )
    noise, fit, numbers = runs.table("noise", "noise"), runs.numbers("fit").iloc[0], reported("transformer") / 100
    levels = {"accuracy": numbers.loc["all", "flow accuracy"], "macro-F1": numbers.loc["all", "flow macro-F1"]}
    levels |= {f"{name} recall": numbers.loc[name, "recall"] for name in NAMED_CLASSES}
    panels = {"accuracy": "RF", "macro-F1": "GMM"}, {f"{name} recall": name for name in NAMED_CLASSES}
    for axis, looks in zip(axes, panels, strict=True):
        for measure, name in looks.items():
            look = {"color": scheme(name).colour, "marker": scheme(name).marker}
            draw_sweep(axis, noise[noise["measure"] == measure], "redrawn", "value", label=measure, **look)
            axis.axhline(levels[measure], color=scheme(name).colour, linestyle=":", lw=1)
        axis.axvspan(fit.low, fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="fitted share")
        axis.plot([], [], ":", color="black", label="class report")
        axis.set_ylim(-0.02, 1.02)
        axis.legend(fontsize=8)
    return figure


def draw_fit(runs: Runs) -> Figure:
    """Draw the likelihood of the published confusion over the share, and the confusions, published and fitted."""
    figure, axes = new_figure("Which share fits the report's confusion?", "", "", columns=2)
    fit, profile, cells = runs.numbers("fit").iloc[0], runs.table("likelihood", "fit"), runs.table("cells", "fit")
    axes[0].plot(100 * profile["share"], profile["log_likelihood"], color=scheme("GMM").colour)
    axes[0].axvspan(100 * fit.low, 100 * fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="95 % interval")
    axes[0].set(xlabel="share of labels drawn anew (%)", ylabel="log likelihood below the best (nats)")
    axes[0].set_yscale("symlog", linthresh=10)
    axes[0].legend(loc="upper left")
    names = [f"{label}\nas {named}" for label in ("WEB", "P2P", "others") for named in ("P2P", "WEB", "other")]
    places, ours = np.arange(9), f"fitted, {fit.fitted_share:.0%} drawn anew"
    axes[1].bar(places - 0.2, 100 * cells["published"], 0.38, color=PUBLISHED_GREY, label="class report")
    axes[1].bar(places + 0.2, 100 * cells["fitted"], 0.38, color=scheme("RF").colour, label=ours)
    axes[1].set_xticks(places, names, fontsize=8)
    axes[1].set_ylabel("share of the label's flows (%)")
    axes[1].legend()
    return figure


def draw_remedies(runs: Runs) -> Figure:
    """Draw the mixtures' accuracy by normalisation, prior and regularisation, with right labels and with the fitted
    noise (E6)."""
    remedies = runs.table("remedies", "remedies")
    repeated = remedies["repetition"].nunique()
    title = f"E6: accuracy of mixtures (%), all 59 features; mean of {repeated} repetitions"
    figure, axes = new_figure(title, "normalisation", "", columns=2)
    published = list(load_claims(SLUG).claim("order-of-remedies-under-noise").expected)
    for axis, labels in zip(axes, ("right labels", "fitted noise"), strict=True):
        kept = remedies[remedies["labels"] == labels]
        means = kept.groupby(["prior", "regularisation", "normalisation"])["accuracy"].mean().unstack()
        means = 100 * means[list(NORMALISATIONS)]
        means.index = pd.Index([f"{prior.upper()}, {value:g}" for prior, value in means.index])
        draw_matrix(axis, means, means.fillna(0) / 100)
        met = sum(order_of_remedies(rows, labels) == published for _, rows in remedies.groupby("repetition"))
        axis.set_title(f"{labels}; the report's order in {met} of {repeated}", fontsize=10)
    axes[0].set_ylabel("prior, regularisation")
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the forest's confusion with a share of labels drawn anew."""
    figure, axis = new_figure(f"Names {reading['accuracy']:.0%} as labelled", "named by the forest", "label given")
    draw_matrix(axis, reading["confusion"].set_index("label"))
    return figure
