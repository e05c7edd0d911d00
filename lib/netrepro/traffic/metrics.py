"""How right a classification of flows is: by flow, by packet and by byte, over the named classes and over all.

Packets and bytes are those of the whole flow, also where the classifier saw its first packets only: a flow that is
wrong is wrong to its end. The paper's macro-F1 is the mean over the four named classes, without OTHERS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from netrepro.errors import NetreproError
from netrepro.traffic.unibs import CLASSES, NAMED_CLASSES

SCORE_COLUMNS = ["unit", "scope", "measure", "value"]


def flow_totals(flows: pd.DataFrame) -> pd.DataFrame:
    """Packets and bytes of each whole flow, both directions together: columns packet, byte."""
    return pd.DataFrame(
        {
            "packet": flows["flow_fpackets"] + flows["flow_bpackets"],
            "byte": flows["flow_fbytes"] + flows["flow_bbytes"],
        }
    )


def confusion(
    truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None, classes: Sequence[str] = CLASSES
) -> pd.DataFrame:
    """Sum of the weights (None: the count) of each true class (rows) and predicted class (columns).

    Raises NetreproError where lengths differ, a weight is negative or a label is none of `classes`.
    """
    true_labels, predicted_labels = np.asarray(truth, object), np.asarray(predicted, object)
    weight = np.ones(len(true_labels)) if weights is None else np.asarray(weights, float)
    if not len(true_labels) == len(predicted_labels) == len(weight):
        lengths = f"{len(true_labels)} true, {len(predicted_labels)} predicted labels, {len(weight)} weights"
        raise NetreproError(lengths, "give as many of each")
    if (weight < 0).any():
        raise NetreproError("a weight is negative", "give packets or bytes of whole flows")
    places = [pd.Index(classes).get_indexer(labels) for labels in (true_labels, predicted_labels)]
    for labels, place in zip((true_labels, predicted_labels), places, strict=True):
        if (place < 0).any():
            raise NetreproError(f"no class {labels[place < 0][0]!r}", f"the classes are {', '.join(classes)}")
    cells = np.bincount(places[0] * len(classes) + places[1], weight, len(classes) ** 2)
    return pd.DataFrame(
        cells.reshape(len(classes), -1), pd.Index(classes, name="true"), pd.Index(classes, name="predicted")
    )


def class_scores(matrix: pd.DataFrame) -> pd.DataFrame:
    """From a confusion matrix, one row a class: precision, recall, f1 in 0..1 and support (weight of the true ones).

    A share of nothing is missing: precision of a class never predicted, F1 of one that neither is nor is predicted.
    """
    cells = matrix.to_numpy(float)
    hits, true_sum, predicted_sum = np.diag(cells), cells.sum(axis=1), cells.sum(axis=0)
    with np.errstate(invalid="ignore"):
        table = {
            "precision": hits / predicted_sum,
            "recall": hits / true_sum,
            "f1": 2 * hits / (true_sum + predicted_sum),
            "support": true_sum,
        }
    return pd.DataFrame(table, index=matrix.index.rename("class"))


def score_table(
    truth: ArrayLike,
    predicted: ArrayLike,
    totals: pd.DataFrame | None = None,
    *,
    classes: Sequence[str] = CLASSES,
    named: Sequence[str] = NAMED_CLASSES,
) -> pd.DataFrame:
    """Every score, one a row: unit (flow, packet, byte), scope, measure, value.

    totals : as `flow_totals`, row for row; None scores flows only. The scope is a class (precision, recall, f1,
    support), "named" or "all" (macro_f1: the mean over `named` or over `classes`, without those that neither are nor
    are predicted), or "all" (accuracy).
    """
    weights: Mapping[str, ArrayLike | None] = {"flow": None}
    if totals is not None:
        weights = {**weights, **{unit: totals[unit].to_numpy() for unit in ("packet", "byte")}}
    rows: list[tuple[str, str, str, float]] = []
    for unit, weight in weights.items():
        matrix = confusion(truth, predicted, weight, classes)
        scores = class_scores(matrix)
        cells = matrix.to_numpy()
        accuracy = float(np.trace(cells) / cells.sum()) if cells.sum() else np.nan
        rows.append((unit, "all", "accuracy", accuracy))
        rows.append((unit, "named", "macro_f1", float(scores.loc[list(named), "f1"].mean())))
        rows.append((unit, "all", "macro_f1", float(scores["f1"].mean())))
        rows += [
            (unit, str(name), measure, float(scores.loc[name, measure]))
            for name in classes
            for measure in scores.columns
        ]
    return pd.DataFrame(rows, columns=SCORE_COLUMNS)
