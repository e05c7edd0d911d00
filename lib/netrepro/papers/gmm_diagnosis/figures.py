"""Tables and pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.gmm_diagnosis.setting import SLUG, TABLE, WRONG, Scale, reported
from netrepro.papers.gmm_traffic.figures import draw_matrix
from netrepro.papers.gmm_traffic.setting import open_trace
from netrepro.papers.gmm_traffic.study import LEAD
from netrepro.study import Reading, Runs
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import NAMED_CLASSES, NORMALISATIONS


def scale_of(runs: Runs) -> Scale:
    """Return the amount of work of the runs' profile."""
    return runs.study.scaled(runs.setting, runs.profile).scale


def variants_of(runs: Runs, *experiments: str) -> pd.DataFrame:
    """Return a row a variant and repetition, columns TABLE; accuracies and F1 (four classes) in 0..1, `wrong` the share
    of wrong labels, header_bytes and first_packet the means of total_fhlen and fpl1 of WEB flows, audit "passed" or the
    checks that failed. All experiments where none is named."""
    table = runs.table("variants", "variants")
    return table[table["experiment"].isin(experiments)] if experiments else table


def summary(runs: Runs, *experiments: str) -> pd.DataFrame:
    """Return the means over the repetitions, in %, a row for each variant; all experiments where none is named."""
    table = variants_of(runs, *experiments)
    numbers = table.groupby(["experiment", "variant"], sort=False)[TABLE[4:9]].mean() * 100
    return numbers.assign(audit=table.groupby(["experiment", "variant"], sort=False)["audit"].first())


def audited(runs: Runs) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the variants whose labels are wrong in more than WRONG, and those joined otherwise that reach most of the
    flows."""
    table = variants_of(runs, "E1", "E2", "E3").query("repetition == 0")
    table = table.assign(rejected=table["audit"] != "passed")[["variant", "wrong", "flows", "audit", "rejected"]]
    enough = ~table["audit"].str.contains("matched flows")
    return table[table["wrong"] > WRONG], table[(table["wrong"] <= WRONG) & enough]


def order_of_remedies(table: pd.DataFrame, labels: str) -> list[str]:
    """Order the report's three mixtures of one repetition by accuracy, best first. Where a lead is less than LEAD, they
    stand in reverse of its order."""
    asked = {"raw, MLE": ("raw", "mle"), "normalised, MLE": ("z", "mle"), "normalised, MAP": ("z", "map")}
    kept = table[(table["model"] == "GMM") & (table["labels"] == labels) & (table["regularisation"] == 1e-2)]
    found = kept.set_index(["normalisation", "prior"])["accuracy"].fillna(0)
    order: list[str] = []
    for name, key in asked.items():  # worst first in the report
        place = next((i for i, other in enumerate(order) if found[key] >= found[asked[other]] + LEAD), len(order))
        order.insert(place, name)
    return order


def header_lengths(runs: Runs) -> pd.DataFrame:
    """Return the mean forward header bytes of WEB flows by packets seen, beside the most that can be and the class
    report's."""
    table = variants_of(runs, "E4").groupby("variant", sort=False)["header_bytes"].mean()
    packets = [each or np.nan for each in scale_of(runs).first_packets]
    report = reported("total_fhlen").loc["WEB", "mean"]
    return pd.DataFrame({"mean bytes": table, "at most": [120 * each for each in packets], "class report": report})


def naive_bayes_table(runs: Runs) -> pd.DataFrame:
    """Return naive Bayes at four packets: accuracy and flows named WEB or P2P, in %, and the class report's."""
    found = 100 * runs.numbers("naive bayes").mean(numeric_only=True)
    rows = {
        labels: [found[f"bayes_{what}_{labels.replace(' ', '_')}"] for what in ("accuracy", "named")]
        for labels in ("fitted noise", "right labels")
    }
    rows["class report"] = [reported("naive Bayes at four packets").loc["all", "flow accuracy"], 100]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["accuracy", "named WEB or P2P"])


def models_table(runs: Runs) -> pd.DataFrame:
    """Return the report's transformer, plain and balanced, beside models under the fitted noise; all in %."""
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
    """Draw flows and log records on two lines of time; arrows of the right join and of the nearest record."""
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


def draw_scan(runs: Runs) -> Figure:
    """Draw the share of flows that find a record by their endpoints, over the clock offset tried (E1)."""
    figure, axis = new_figure("E1: is the log's clock right?", "clock offset tried (minutes)", "flows matched (%)")
    join = open_trace("standin").at().join
    scan = join.scan
    axis.plot(scan["offset_s"] / 60, 100 * scan["matched"], color=scheme("GMM").colour)
    axis.axvline(join.clock_offset_s / 60, color=PUBLISHED_GREY, linestyle="--", label="used")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_variants(runs: Runs, title: str, experiments: tuple[str, ...]) -> Figure:
    """Draw the accuracy of forest and mixtures for every variant; for joins, wrong labels and the audit's verdict stand
    beside."""
    table = summary(runs, *experiments)
    figure, axis = new_figure(title, "accuracy on the labels given (%)", "")
    figure.set_size_inches(8.5, 1.6 + 0.34 * len(table))
    places = np.arange(len(table))[::-1]
    axis.barh(places + 0.2, table["forest_accuracy"], 0.38, color=scheme("RF").colour, label="random forest")
    axis.barh(places - 0.2, table["mixtures_accuracy"], 0.38, color=scheme("GMM").colour, label="Gaussian mixtures")
    names = [f"{experiment}  {variant}" for experiment, variant in table.index]
    axis.set_yticks(places, names)
    for place, (_, row) in zip(places, table.iterrows(), strict=True):
        words = "nothing matches" if np.isnan(row["wrong"]) else f"{row['wrong']:.0f} % wrong" if row["wrong"] else ""
        words += ("; " if words else "") + ("audit passed" if row["audit"] == "passed" else "audit failed")
        axis.text(101, place, words, va="center", fontsize=8)
    axis.axvline(69.06, color=PUBLISHED_GREY, linestyle="--", label="class report, transformer")
    axis.set_xlim(0, 100)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def draw_noise(runs: Runs) -> Figure:
    """Draw scores over the share of re-drawn labels, the class report's as dotted lines; shaded: the fitted share
    (E2)."""
    figure, axes = new_figure("E2: labels drawn anew", "share of labels drawn anew (%)", "score (%)", columns=2)
    means = 100 * runs.table("noise", "noise").groupby(["measure", "redrawn"])["value"].mean().unstack(0)
    fit = runs.numbers("fit").iloc[0]
    numbers = reported("transformer")
    looks = {"accuracy": (scheme("RF"), numbers.loc["all", "flow accuracy"]),
             "macro-F1": (scheme("GMM"), numbers.loc["all", "flow macro-F1"])}  # fmt: skip
    for name, (look, level) in looks.items():
        axes[0].plot(100 * means.index, means[name], color=look.colour, marker=look.marker, label=name)
        axes[0].axhline(level, color=look.colour, linestyle=":", lw=1)
    for name in NAMED_CLASSES:
        look = scheme(name)
        axes[1].plot(100 * means.index, means[f"{name} recall"], color=look.colour, marker=look.marker, label=name)
        axes[1].axhline(numbers.loc[name, "recall"], color=look.colour, linestyle=":", lw=1)
    for axis, title in zip(axes, ("all flows", "recall by class"), strict=True):
        axis.axvspan(100 * fit.low, 100 * fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="fitted share")
        axis.plot([], [], ":", color="black", label="class report")
        axis.set_title(title, fontsize=10)
        axis.set_ylim(-2, 102)
        axis.legend(fontsize=8)
    return figure


def draw_fit(runs: Runs) -> Figure:
    """Draw the likelihood of the published confusion over the share, and the published and fitted confusion."""
    figure, axes = new_figure("Which share fits the report's confusion?", "", "", columns=2)
    fit, profile, cells = runs.numbers("fit").iloc[0], runs.table("likelihood", "fit"), runs.table("cells", "fit")
    axes[0].plot(100 * profile["share"], profile["log_likelihood"], color=scheme("GMM").colour)
    axes[0].axvspan(100 * fit.low, 100 * fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="95 % interval")
    axes[0].set(xlabel="share of labels drawn anew (%)", ylabel="log likelihood below the best (nats)")
    axes[0].set_yscale("symlog", linthresh=10)
    axes[0].legend(loc="upper left")
    names = [f"{label}\nas {named}" for label in ("WEB", "P2P", "others") for named in ("P2P", "WEB", "other")]
    places = np.arange(9)
    axes[1].bar(places - 0.2, 100 * cells["published"], 0.38, color=PUBLISHED_GREY, label="class report")
    axes[1].bar(places + 0.2, 100 * cells["fitted"], 0.38, color=scheme("RF").colour,
                label=f"forest, {fit.fitted_share:.0%} drawn anew")  # fmt: skip
    axes[1].set_xticks(places, names, fontsize=8)
    axes[1].set_ylabel("share of the label's flows (%)")
    axes[1].legend()
    return figure


def draw_remedies(runs: Runs) -> Figure:
    """Draw the accuracy of the mixtures by normalisation, prior and regularisation, right labels and fitted noise
    (E6)."""
    found, most = runs.table("remedies", "remedies"), scale_of(runs).noise_flows
    flows = f"{most:,} flows at most" if most else "all flows"
    repeated = found["repetition"].nunique()
    title = f"E6: accuracy of mixtures (%), all 59 features; {flows}, mean of {repeated} repetitions"
    figure, axes = new_figure(title, "normalisation", "", columns=2)
    published = load_claims(SLUG).claim("order-of-remedies-under-noise").expected
    table = found[found["model"] == "GMM"]
    for axis, labels in zip(axes, ("right labels", "fitted noise"), strict=True):
        kept = table[table["labels"] == labels]
        means = 100 * kept.groupby(["prior", "regularisation", "normalisation"])["accuracy"].mean().unstack()
        means = means[list(NORMALISATIONS)]
        means.index = pd.Index([f"{prior.upper()}, {value:g}" for prior, value in means.index])
        draw_matrix(axis, means, means.fillna(0) / 100)
        orders = [order_of_remedies(rows, labels) for _, rows in found.groupby("repetition")]
        met = sum(order == list(published) for order in orders)
        axis.set_title(f"{labels}; the report's order in {met} of {repeated}", fontsize=10)
    axes[0].set_ylabel("prior, regularisation")
    return figure


def draw_real(table: pd.DataFrame) -> dict[str, Figure]:
    """Draw the results of E13, where captures were given."""
    if table.empty:
        return {}
    figure, axis = new_figure("E13: your captures, labelled by inspection", "", "accuracy (%)")
    places = np.arange(len(table))
    for shift, name, model in ((-0.2, "forest", "RF"), (0.2, "mixtures", "GMM")):
        look = scheme(model)
        axis.bar(places + shift, 100 * table[f"{name}_accuracy"], 0.38, color=look.colour, label=look.label)
    axis.set_xticks(places, table["split"])
    axis.legend()
    return {"e13_real_captures": figure}


def real_text(table: pd.DataFrame) -> str:
    """Say in words what E13 found, or that it was left out."""
    if table.empty:
        return (
            "E13 was left out: no folder of captures was given (netrepro run gmm_diagnosis -p pcaps=/path/to/folder)."
        )
    rows = table.set_index("split")
    return (
        f"E13: {rows['flows'].iloc[0]} flows of {rows['classes'].iloc[0]} classes; the forest names "
        f"{rows.loc['at random', 'forest_accuracy']:.0%} rightly with flows of one file on both sides, "
        f"{rows.loc['by file', 'forest_accuracy']:.0%} with files apart."
    )


def draw_run(found: Reading, case: str) -> Figure:
    """Draw the forest's confusion under a share of labels drawn anew."""
    figure, axis = new_figure(f"Names {found['accuracy']:.0%} as labelled", "named by the forest", "label given")
    draw_matrix(axis, found["confusion"].set_index("label"))
    return figure
