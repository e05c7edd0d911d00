"""Labels drawn anew, and a fit of their share to a published confusion table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from netrepro.papers.gmm_diagnosis.setting import Floats, reported
from netrepro.traffic import NAMED_CLASSES, Rows, confusion


def redraw(labels: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    """Replace each label, with probability `share`, by one drawn from all labels. Some stay right, so that fewer are
    wrong."""
    random = np.random.default_rng(seed)
    drawn = random.choice(labels, len(labels))
    return np.where(random.uniform(size=len(labels)) < share, drawn, labels)


def match_shares(flows: pd.DataFrame, support: pd.Series, limit: int, seed: int) -> pd.DataFrame:
    """Choose at most `limit` flows of the named classes at random, in the class shares of `support`."""
    counts = flows["class"].value_counts()
    shares = support / support.sum()
    total = min(limit, int((counts.reindex(shares.index) / shares).min()))
    random = np.random.default_rng(seed)
    rows = [
        random.choice(np.flatnonzero(flows["class"] == name), max(round(total * share), 4), replace=False)
        for name, share in shares.items()
    ]
    return flows.iloc[np.sort(np.concatenate(rows))].reset_index(drop=True)


def forest(trees: int, seed: int, *, balanced: bool = False) -> RandomForestClassifier:
    """Make the classifier of most experiments. It is fast, independent of feature scales, and robust to single wrong
    labels."""
    weight = "balanced_subsample" if balanced else None
    return RandomForestClassifier(trees, min_samples_leaf=5, class_weight=weight, random_state=seed)


def named_confusion(rows: Rows, predicted: NDArray[Any]) -> Floats:
    """Compute the confusion. Rows: labels as given, which may be wrong; columns: predictions. Rows sum to 1."""
    matrix = confusion(rows.tested_labels, predicted, classes=NAMED_CLASSES).to_numpy(float)
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)


def published_counts() -> Floats:
    """Compute the confusion of the report's transformer from its precision, recall and support.

    Shape (3, 3). Rows, labels: WEB, P2P, MAILS with SKYPE. Columns, predictions: P2P, WEB, others. The transformer
    named nothing MAILS or SKYPE, so all cells can be computed.
    """
    table = reported("transformer") / 100
    support = 100 * table["support"].drop("all")
    hits = (table["recall"].drop("all") * support).round()
    named = hits / table["precision"].drop("all").replace(0, np.nan)
    web_as_p2p, p2p_as_web = support["WEB"] - hits["WEB"], support["P2P"] - hits["P2P"]
    rest_as_p2p = round(named["P2P"] - hits["P2P"] - web_as_p2p)
    rest = support["MAILS"] + support["SKYPE"]
    return np.array(
        [[web_as_p2p, hits["WEB"], 0], [hits["P2P"], p2p_as_web, 0], [rest_as_p2p, rest - rest_as_p2p, 0]], float
    )


def collapse(confusions: Floats) -> Floats:
    """Collapse confusions (..., 4, 4) over NAMED_CLASSES, with rows that sum to 1, to the rows and columns of
    `published_counts`."""
    mails, p2p, skype, web = (
        confusions[..., NAMED_CLASSES.index(name), :] for name in ("MAILS", "P2P", "SKYPE", "WEB")
    )
    support = reported("transformer")["support"]
    rest = (support["MAILS"] * mails + support["SKYPE"] * skype) / (support["MAILS"] + support["SKYPE"])
    rows = np.stack([web, p2p, rest], axis=-2)
    named_p2p, named_web = rows[..., NAMED_CLASSES.index("P2P")], rows[..., NAMED_CLASSES.index("WEB")]
    return np.stack([named_p2p, named_web, np.maximum(1 - named_p2p - named_web, 0)], axis=-1)


@dataclass(frozen=True)
class NoiseFit:
    """The share of re-drawn labels with the greatest likelihood, given a confusion.

    share : the maximum. low, high : 95 % interval of the bootstrap (of counts and repetitions). profile : columns
    share, log_likelihood relative to the maximum (nats). fitted, published : (3, 3), rows sum to 1, see
    `published_counts`. distance : share of flows in other cells than published.
    """

    share: float
    low: float
    high: float
    profile: pd.DataFrame
    fitted: Floats
    published: Floats
    distance: float


LEAST = 1e-3  # so that no cell counts as impossible
FINE = np.linspace(0, 0.95, 191)


def fit_noise(shares: Sequence[float], curves: Floats, counts: Floats, seed: int, *, draws: int = 300) -> NoiseFit:
    """Fit the share of re-drawn labels to counts (3, 3) by maximum likelihood.

    curves : (repetitions, shares, 4, 4), the confusions measured at `shares`. Cells are interpolated between the
    shares.
    """
    by_repetition = np.apply_along_axis(lambda cell: np.interp(FINE, shares, cell), 1, collapse(curves))
    observed = counts / counts.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=1).astype(int)

    def likelihood(model: Floats, seen: Floats) -> Floats:
        floored = np.maximum(model, LEAST)
        return (seen * np.log(floored / floored.sum(axis=-1, keepdims=True))).sum(axis=(-1, -2))

    random = np.random.default_rng(seed)
    mean = by_repetition.mean(axis=0)
    profile = likelihood(mean, counts)
    best = int(profile.argmax())
    drawn = []
    for _ in range(draws):
        again = np.stack([random.multinomial(total, row) for total, row in zip(totals, observed, strict=True)])
        model = by_repetition[random.integers(0, len(by_repetition), len(by_repetition))].mean(axis=0)
        drawn.append(FINE[likelihood(model, again.astype(float)).argmax()])
    low, high = np.quantile(drawn, (0.025, 0.975))
    weights = totals / totals.sum()
    distance = float((np.abs(mean[best] - observed).sum(axis=1) / 2 * weights).sum())
    table = pd.DataFrame({"share": FINE, "log_likelihood": profile - profile.max()})
    return NoiseFit(float(FINE[best]), float(low), float(high), table, mean[best], observed, distance)
