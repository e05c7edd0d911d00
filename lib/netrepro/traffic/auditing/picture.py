"""The audit in one picture: what of the score survives, how large the classes are, how many rows are there twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netrepro.traffic.auditing.report import Audit, forest_words
from netrepro.traffic.auditing.scores import ALONE, CHANCE, SHUFFLED, SPLIT, WITHOUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CLASSES = 20
_COLOURS = {SPLIT: "#0072B2", WITHOUT: "#009E73", ALONE: "#D55E00", SHUFFLED: "#CC79A7", CHANCE: "#999999"}
_WORDS = {
    SPLIT: "split another way",
    WITHOUT: "something taken out",
    ALONE: "nothing but identifiers",
    SHUFFLED: "identifiers of others",
    CHANCE: "labels at random",
}


def draw_audit(audit: Audit) -> Figure:
    """Draw the scores (lines: the range of three splits), the rows of each class, and the shares of duplicates."""
    import matplotlib.pyplot as plt

    from netrepro.style import new_figure, use_logarithm

    scores = audit.scores[np.isfinite(audit.scores["macro_f1"])]
    figure, axes = new_figure(f"{audit.name}: {audit.rows:,} {audit.unit}s", "", "", columns=3)
    height = max(3.6, 1.4 + 0.27 * max(len(scores), min(len(audit.classes), MOST_CLASSES)))
    figure.set_size_inches(14, height)
    left, middle, right = axes
    places = np.arange(len(scores))[::-1]
    left.set(xlabel=f"macro-F1 of {forest_words(audit.unit, audit.sample)}", xlim=(-0.02, 1.02))
    if len(scores):
        left.axvline(scores["macro_f1"].iloc[0], color="#0072B2", linestyle=":", lw=1)
    for kind, colour in _COLOURS.items():
        chosen = (scores["kind"] == kind).to_numpy()
        if not chosen.any():
            continue
        rows = scores[chosen]
        spread = np.abs(rows[["low", "high"]].to_numpy().T - rows["macro_f1"].to_numpy())
        left.errorbar(rows["macro_f1"], places[chosen], xerr=spread, fmt="o", color=colour, label=_WORDS[kind])
    left.set_yticks(places, scores["what"])
    left.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    largest = audit.classes.head(MOST_CLASSES)
    more = len(audit.classes) - len(largest)
    middle.barh(np.arange(len(largest))[::-1], largest.to_numpy(), color="#56B4E9")
    middle.set_yticks(np.arange(len(largest))[::-1], [str(name) for name in largest.index])
    middle.set(xlabel=f"{audit.unit}s of a class" + (f" ({more} smaller classes left out)" if more else ""))
    use_logarithm(middle, "x")
    for place, (kind, each) in enumerate(audit.duplicates.items()):
        shares = [100 * each.seen, 100 * each.seen_otherwise]
        right.bar(np.arange(2) + 0.4 * place - 0.2, shares, 0.38, label=kind, color=("#0072B2", "#E69F00")[place])
    right.set_xticks([0, 1], ["a duplicate\nin training", "one of\nanother class"])
    right.set(ylabel=f"test {audit.unit}s of a random split (%)", ylim=(0, 100))
    if audit.duplicates:
        right.legend(fontsize=8)
    plt.close(figure)
    return figure
