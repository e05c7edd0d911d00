"""The pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.gmm_traffic.measuring import RIGHT, SHUFFLED
from netrepro.papers.gmm_traffic.own_capture import OwnCapture
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, MODELS, SLUG, VERIFIED_PACKETS
from netrepro.study import Reading, Runs
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import CLASSES, NAMED_CLASSES, NEURAL, NORMALISATIONS, class_scores

FIRST_PACKETS = "first packets of a flow (count)"
NO_HANDSHAKE = "three packets after the handshake"
# Conditions of the mixtures that stand side by side.
CONDITIONS_AT_NINE = (
    *(RIGHT, SHUFFLED, "few flows", "two flows a class", "random features", "selected for shuffled labels"),
    *("all features", "hosts apart", "days apart", NO_HANDSHAKE),
)


# Tables.


def scores_of(runs: Runs, *cases: str, unit: str = "flow") -> pd.DataFrame:
    """Return the scores of cases, in their order, in %."""
    table = pd.concat([runs.table("scores", case) for case in cases])
    table = table[table["unit"] == unit]
    return table.assign(value=100 * table["value"])


def _published(unit: str, score: str, attribute: str) -> float:
    return 100 * getattr(load_claims(SLUG).claim(f"{unit}-{score}"), attribute)


def table3(runs: Runs) -> pd.DataFrame:
    """Return Table 3 at nine packets: a row for each model, accuracy and macro-F1 (over four and five classes) in %."""
    cases = [case for case in (RIGHT, "baselines", "neural models") if runs.has(case)]
    parts = {}
    for unit in ("flow", "packet", "byte"):
        means = scores_of(runs, *cases, unit=unit).groupby(["scope", "measure", "model"])["value"].mean()
        parts[f"{unit} accuracy"] = means["all", "accuracy"]
        parts[f"{unit} F1 of four"] = means["named", "macro_f1"]
        parts[f"{unit} F1 of five"] = means["all", "macro_f1"]
    table = pd.DataFrame(parts)
    table = table.loc[[name for name in (*MODELS, *NEURAL) if name in table.index]]
    for words, attribute in (("paper's mixtures", "published"), ("class report's mixtures", "class_report")):
        for unit in ("flow", "packet", "byte"):
            table.loc[words, f"{unit} accuracy"] = _published(unit, "accuracy", attribute)
            table.loc[words, f"{unit} F1 of four"] = _published(unit, "macro-f1", attribute)
    return table.rename_axis("model")


def _all_confusions(runs: Runs) -> pd.DataFrame:
    """Add up all repetitions' flows: true classes by those that the mixtures named."""
    table = runs.table("confusions", RIGHT)
    return table.groupby(["true", "predicted"])["flows"].sum().unstack().reindex(CLASSES)[list(CLASSES)]


def by_class(runs: Runs) -> pd.DataFrame:
    """Return mixtures at nine packets: precision, recall, F1 in %, testing flows, beside the published F1."""
    scores = class_scores(_all_confusions(runs))
    table = scores.mul({"precision": 100, "recall": 100, "f1": 100, "support": 1})
    for words, attribute in (("paper's f1", "published"), ("class report's f1", "class_report")):
        named = {name: _published("flow-f1", name.lower(), attribute) for name in NAMED_CLASSES}
        table[words] = pd.Series(named)
    return table.assign(support=table["support"].astype(int))


def cases_table(runs: Runs) -> pd.DataFrame:
    """Return mixtures in every case: mean accuracy and macro-F1 (four classes) in %, and their least and largest
    accuracy."""
    table = scores_of(runs, *CONDITIONS_AT_NINE)
    accuracy = table[table["measure"] == "accuracy"].groupby("case", sort=False)["value"].agg(["mean", "min", "max"])
    named = table[(table["measure"] == "macro_f1") & (table["scope"] == "named")]
    accuracy.columns = ["accuracy", "least", "largest"]
    return accuracy.assign(**{"F1 of four": named.groupby("case", sort=False)["value"].mean()})


# Figures.


def draw_idea() -> Figure:
    """Draw the way from packets to numbers, mixtures and a class."""
    figure, axis = new_figure("A flow's first packets, some numbers, one mixture a class", "", "")
    axis.axis("off")
    sizes = [52, 52, 40, 420, 40, 1500, 1500, 40, 700]
    for i, size in enumerate(sizes):
        forward = i in (0, 2, 3, 7)
        axis.bar(
            0.25 * i, (1 if forward else -1) * (0.12 + size / 1800), 0.16, color="#0072B2" if forward else "#E69F00"
        )
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


def draw_sweep(runs: Runs) -> Figure:
    """Draw the accuracy over the number of first packets, seven models (Fig. 3), and the mixtures' macro-F1."""
    figure, axes = new_figure("More packets, better names (Fig. 3)", FIRST_PACKETS, "", columns=2)
    table = scores_of(runs, "first packets", "baselines, first packets", "baselines")
    for axis, scope, measure, label, claim in (
        (axes[0], "all", "accuracy", "flows named rightly (%)", "accuracy"),
        (axes[1], "named", "macro_f1", "macro-F1 over four classes (%)", "macro-f1"),
    ):
        kept = table[(table["scope"] == scope) & (table["measure"] == measure)]
        for name in MODELS:
            rows, look = kept[kept["model"] == name], scheme(name)
            # At nine packets all repetitions of the baselines stand in the case that does not sweep.
            rows = rows.drop_duplicates(["first_packets", "repetition"])
            mean = rows.groupby("first_packets")["value"].mean()
            width = 2.4 if name == "GMM" else 1.3
            axis.plot(mean.index, mean, color=look.colour, marker=look.marker, lw=width, label=look.label)
        axis.set_ylabel(label)
        published = _published("flow", claim, "published")
        axis.plot([BEST_PACKETS], [published], "D", color=PUBLISHED_GREY, ms=9, label="paper, UNIBS-2009")
    axes[1].legend(fontsize=8, loc="lower right")
    return figure


def draw_table3(runs: Runs) -> Figure:
    """Draw flow, packet and byte accuracy and macro-F1 at nine packets (Table 3), ours, the paper's, the class
    report's."""
    figure, axes = new_figure("At nine packets (Table 3)", "", "score (%)", columns=2)
    table = table3(runs)
    units, width = ("flow", "packet", "byte"), 0.8 / len(table)
    colours = {"paper's mixtures": PUBLISHED_GREY, "class report's mixtures": "#d0d0d0"}
    for axis, column in zip(axes, ("accuracy", "F1 of four"), strict=True):
        for place, name in enumerate(table.index):
            known = str(name) in colours
            look = {"color": colours[str(name)], "label": name} if known else {
                "color": scheme(str(name)).colour, "label": scheme(str(name)).label}  # fmt: skip
            heights = [table.loc[name, f"{unit} {column}"] for unit in units]
            axis.bar(np.arange(3) + width * (place - len(table) / 2), heights, width, **look)
        axis.set_xticks(range(3), units)
        axis.set_title({"accuracy": "accuracy", "F1 of four": "macro-F1 over four classes"}[column], fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.set_size_inches(13, 4)
    return figure


def draw_matrix(
    axis: Axes,
    table: pd.DataFrame,
    *,
    words: str = "{:.0f}",
    shade: pd.DataFrame | None = None,
    missing: str = "no fit",
) -> None:
    """Draw a table as shaded cells with their values written in, `missing` where there is none; shade in 0..1, by rows
    where None."""
    values = table.to_numpy(float)
    tone = shade.to_numpy(float) if shade is not None else values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)
    axis.imshow(tone, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = words.format(value) if np.isfinite(value) else missing
        axis.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if tone[i, j] > 0.6 else "black")
    axis.set_xticks(range(len(table.columns)), [str(name) for name in table.columns])
    axis.set_yticks(range(len(table)), [str(name) for name in table.index])
    axis.grid(False)


def draw_confusion(runs: Runs) -> Figure:
    """Draw where the mixtures put each class's flows, all repetitions together."""
    figure, axis = new_figure("Mixtures at nine packets, all repetitions", "named by the mixtures", "true class")
    draw_matrix(axis, _all_confusions(runs))
    return figure


def draw_run(found: Reading, case: str) -> Figure:
    """Draw where the mixtures of one run put each class's flows, and the features that they look at."""
    title = ", ".join(found["selections"]["feature"])
    figure, axis = new_figure(title, "named by the mixtures", "true class")
    axis.title.set_fontsize(8)
    table = found["confusions"].set_index(["true", "predicted"])["flows"].unstack()
    draw_matrix(axis, table.reindex(CLASSES)[list(CLASSES)])
    return figure


def draw_cases(runs: Runs) -> Figure:
    """Draw other splits, other features, fewer flows: accuracy and macro-F1 of the mixtures."""
    figure, axis = new_figure("The same mixtures under other conditions", "score (%)", "")
    table = cases_table(runs).iloc[::-1]
    places = np.arange(len(table))
    axis.barh(places + 0.2, table["accuracy"], 0.38, color=scheme("GMM").colour, label="accuracy")
    axis.barh(places - 0.2, table["F1 of four"], 0.38, color="#56B4E9", label="macro-F1 over four classes")
    axis.set_yticks(places, [f"{name} (control)" if "shuffled" in str(name) else str(name) for name in table.index])
    axis.set_xlim(0, 100)
    axis.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2)
    return figure


def draw_verification(runs: Runs) -> Figure:
    """Draw the half total error rate of the likelihood test over first packets, by class."""
    title, axis_name = "Is this flow what it claims to be?", "half total error rate (%)"
    figure, axis = new_figure(title, FIRST_PACKETS, axis_name)
    table = runs.table("verification", "verification")
    for name in CLASSES:
        mean = 100 * table[table["class"] == name].groupby("first_packets")["half_total_error"].mean()
        axis.plot(mean.index, mean, color=scheme(name).colour, marker=scheme(name).marker, label=name, lw=1.2)
    means = 100 * runs.numbers("verification").groupby("first_packets")["half_total_error"].mean()
    axis.plot(means.index, means, color="black", lw=2.4, label="mean of the four named")
    axis.plot([VERIFIED_PACKETS], [7.65], "D", color=PUBLISHED_GREY, ms=9, label="paper, UNIBS-2009")
    broken = 100 * runs.numbers(f"verification, {SHUFFLED}")["half_total_error"].mean()
    axis.plot([VERIFIED_PACKETS], [broken], "x", color=scheme("control").colour, ms=9, label=SHUFFLED)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    return figure


def draw_normalisations(runs: Runs) -> Figure:
    """Draw macro-F1 by normalisation, for mixtures by prior and regularisation, naive Bayes and a tree."""
    table = runs.table("normalisations", "normalisations").fillna({"regularisation": 0, "prior": ""})
    means = (
        table.groupby(["model", "prior", "regularisation", "normalisation"], sort=False)["macro_f1"].mean().unstack()
    )
    means = 100 * means[list(NORMALISATIONS)]
    means.index = pd.Index(
        [
            f"{scheme(model).label}" + (f", {prior.upper()}, {value:g}" if prior else "")
            for model, prior, value in means.index
        ]
    )
    figure, axis = new_figure("Macro-F1 over four classes (%), all 59 features", "normalisation", "")
    draw_matrix(axis, means, shade=means.fillna(0) / 100)
    axis.set_ylabel("model, prior, regularisation")
    return figure


def draw_distributions(runs: Runs) -> Figure:
    """Draw the six features of the largest F, by class, raw and normalised."""
    table, setting = runs.table("distributions", "features"), runs.setting
    features = list(dict.fromkeys(table["feature"]))
    figure, _ = new_figure("The six features that separate the classes most", "", "", columns=2)
    figure.set_size_inches(13, 4.6)
    for axis, name in zip(figure.axes, ("raw", setting.normalisation), strict=True):
        kept = table[table["normalisation"] == name]
        for place, label in enumerate(CLASSES):
            values = [kept[(kept["feature"] == f) & (kept["class"] == label)]["value"].to_numpy() for f in features]
            axis.boxplot(
                values,
                positions=np.arange(len(features)) + 0.15 * (place - 2),
                widths=0.12,
                patch_artist=True,
                flierprops={"marker": ".", "markersize": 1, "markeredgecolor": scheme(label).colour},
                medianprops={"color": "white"},
                boxprops={"facecolor": scheme(label).colour, "edgecolor": scheme(label).colour},
                whiskerprops={"color": scheme(label).colour},
                capprops={"color": scheme(label).colour},
                label=label,
            )
        axis.set_xticks(range(len(features)), features, rotation=15)
        axis.set_title(f"{name}: {NORMALISATIONS[name]}", fontsize=10)
    if setting.normalisation != "raw":
        figure.axes[0].set_yscale("symlog")
        figure.axes[0].set_ylim(bottom=-1.5)
    figure.axes[0].set_ylabel("value (bytes, packets or µs)")
    figure.axes[1].set_ylabel("value (standard deviations)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def draw_anova(runs: Runs) -> Figure:
    """Draw ANOVA's F of the twenty best features, raw and normalised, and the correlation of each with each class."""
    figure, axes = new_figure("Which feature knows something of the class?", "", "", columns=2)
    figure.set_size_inches(13, 6)
    setting = runs.setting
    wide = runs.table("anova", "features").pivot(index="feature", columns="normalisation", values="f")
    best = wide.nlargest(20, setting.normalisation).iloc[::-1]
    places = np.arange(len(best))
    axes[0].barh(places + 0.2, best[setting.normalisation], 0.38, color="#0072B2", label=setting.normalisation)
    axes[0].barh(places - 0.2, best["raw"], 0.38, color="#E69F00", label="raw")
    axes[0].set_yticks(places, best.index, fontsize=8)
    axes[0].set_xlabel("F (variance between classes over variance within)")
    axes[0].set_xscale("symlog")
    axes[0].legend(loc="lower right")
    kept = runs.table("correlation", "features").set_index("feature").loc[best.index[::-1], list(CLASSES)]
    axes[1].imshow(kept, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes[1].set_title("correlation with belonging to the class: red 1, white 0, blue -1", fontsize=10)
    axes[1].set_xticks(range(len(kept.columns)), kept.columns)
    axes[1].set_yticks(range(len(kept)), kept.index, fontsize=8)
    axes[1].grid(False)
    return figure


def draw_maps(runs: Runs) -> Figure:
    """Draw t-SNE and PCA of the normalised features."""
    figure, axes = new_figure("Flows on a map, normalised features", "", "", columns=2)
    found = runs.table("maps", "features")
    for axis, name in zip(axes, ("t-SNE", "PCA"), strict=True):
        kept = found[found["map"] == name]
        for label in CLASSES:
            points = kept[kept["class"] == label]
            axis.scatter(points["x"], points["y"], s=8, color=scheme(label).colour, label=label, alpha=0.7, lw=0)
        axis.set(title=name, xticks=[], yticks=[])
    axes[1].legend(markerscale=2, fontsize=8)
    axes[0].set(xlabel="first axis (distances between clusters mean nothing)", ylabel="second axis (no unit)")
    axes[1].set(xlabel="first principal component (no unit)", ylabel="second (no unit)")
    return figure


def draw_importance(runs: Runs) -> Figure:
    """Draw gradients beside permutation, for the selected features."""
    found = runs.tables["importance"]
    wide = found.assign(key=found["model"] + ", " + found["how"]).pivot(index="feature", columns="key", values="value")
    wide = wide.loc[wide.mean(axis=1).sort_values(ascending=False).index]
    figure, axis = new_figure("What the models look at (share of each one's largest)", "", "")
    figure.set_size_inches(8.5, 4.6)
    # A model may have searched features of its own.
    draw_matrix(axis, wide, words="{:.2f}", shade=wide.fillna(0).clip(0, 1), missing="")
    axis.set_xticks(range(len(wide.columns)), [name.replace(", ", "\n") for name in wide.columns], fontsize=8)
    return figure


def draw_selection(runs: Runs) -> Figure:
    """Draw cross-validated macro-F1 as features are added, by first packets."""
    figure, axis = new_figure("The forward search", "features chosen (count)", "macro-F1 over four classes (%)")
    colours = ("#D55E00", "#E69F00", "#009E73", "#56B4E9", "#0072B2", "#CC79A7", "#7f3c8d", "#000000")
    for colour, (packets, rows) in zip(
        colours, runs.table("selections", "first packets").groupby("first_packets"), strict=False
    ):
        mean = 100 * rows.groupby("place")["score"].mean()
        axis.plot(mean.index, mean, "o-", color=colour, label=f"{packets} packets")
    axis.legend(fontsize=8, ncols=2)
    return figure


def draw_own(own: OwnCapture) -> dict[str, Figure]:
    """Draw the confusion of inspection and mixtures on a capture of one's own; nothing where none was given."""
    if not own.path:
        return {}
    figure, axis = new_figure("Your capture", "named by the mixtures", "by inspection (nDPI)")
    draw_matrix(axis, own.confusion)
    return {"own_capture": figure}


def own_tables(own: OwnCapture) -> pd.DataFrame:
    """Return applications as nDPI names them, and what the mixtures call their flows."""
    if not own.path:
        return pd.DataFrame(columns=list(CLASSES))
    counted = pd.crosstab(own.flows["application"].fillna("not known to nDPI"), own.flows["predicted"])
    return counted.reindex(columns=list(CLASSES), fill_value=0)
