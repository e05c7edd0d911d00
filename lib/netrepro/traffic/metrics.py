"""Scores of a classification of flows: by flow, by packet and by byte, over the named classes and over all classes.

Packets and bytes are counted over the whole flow, even if the classifier saw only its first packets: the flow keeps its
class to the end. The paper's macro-F1 is the mean over the four named classes, without OTHERS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netrepro.errors import NetreproError
from netrepro.traffic.unibs import CLASSES, NAMED_CLASSES

SCORE_COLUMNS = ["unit", "scope", "measure", "value"]
CLASS_MEASURES = ("precision", "recall", "f1", "support")


def flow_totals(flows: pd.DataFrame) -> pd.DataFrame:
    """Count the packets and bytes of each whole flow, both directions together: columns packet, byte."""
    return pd.DataFrame(
        {
            "packet": flows["flow_fpackets"] + flows["flow_bpackets"],
            "byte": flows["flow_fbytes"] + flows["flow_bbytes"],
        }
    )


def confusion(
    truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None, classes: Sequence[str] = CLASSES
) -> pd.DataFrame:
    """Sum the weights (None: count the flows) for each true class (rows) and predicted class (columns).

    Raises NetreproError where lengths differ, a weight is negative or a label is not one of `classes`.
    """
    place = _cells_of(truth, predicted, classes)
    weight = np.ones(len(place)) if weights is None else np.asarray(weights, float)
    if len(weight) != len(place):
        raise NetreproError(f"{len(place)} labels and {len(weight)} weights", "give as many of each")
    return pd.DataFrame(
        _sums(place, weight, len(classes)), pd.Index(classes, name="true"), pd.Index(classes, name="predicted")
    )


def _cells_of(truth: ArrayLike, predicted: ArrayLike, classes: Sequence[str]) -> NDArray[np.int64]:
    """Return the cell of each flow in a confusion matrix, as an index into its flattened rows."""
    true_labels, predicted_labels = np.asarray(truth, object), np.asarray(predicted, object)
    if len(true_labels) != len(predicted_labels):
        raise NetreproError(
            f"{len(true_labels)} true and {len(predicted_labels)} predicted labels", "give as many of each"
        )
    places = [pd.Index(classes).get_indexer(labels) for labels in (true_labels, predicted_labels)]
    for labels, place in zip((true_labels, predicted_labels), places, strict=True):
        if (place < 0).any():
            raise NetreproError(f"no class {labels[place < 0][0]!r}", f"the classes are {', '.join(classes)}")
    return places[0] * len(classes) + places[1]


def _sums(place: NDArray[np.int64], weight: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    if (weight < 0).any():
        raise NetreproError("a weight is negative", "give packets or bytes of whole flows")
    return np.asarray(np.bincount(place, weight, count**2), np.float64).reshape(count, count)


def class_scores(matrix: pd.DataFrame) -> pd.DataFrame:
    """Compute the scores of each class from a confusion matrix, one row each: precision, recall and f1 in 0..1, and
    support (the class's true weight).

    A score is missing (NaN) where its denominator is 0, such as the precision of a class that is never predicted.
    """
    table = dict(zip(CLASS_MEASURES, _class_scores(matrix.to_numpy(float)), strict=True))
    return pd.DataFrame(table, index=matrix.index.rename("class"))


def _class_scores(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute CLASS_MEASURES of each class, shape (4, classes)."""
    hits, true_sum, predicted_sum = np.diag(cells), cells.sum(axis=1), cells.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.array([hits / predicted_sum, hits / true_sum, 2 * hits / (true_sum + predicted_sum), true_sum])


def score_table(
    truth: ArrayLike,
    predicted: ArrayLike,
    totals: pd.DataFrame | None = None,
    *,
    classes: Sequence[str] = CLASSES,
    named: Sequence[str] = NAMED_CLASSES,
) -> pd.DataFrame:
    """Return one score a row, with the columns unit (flow, packet, byte), scope, measure and value.

    totals : the rows of `flow_totals` for these flows; None scores by flow only. The scope is a class (for precision,
    recall, f1, support), "named" or "all" (for macro_f1: the mean over `named` or over `classes`, without classes that
    are neither true nor predicted), or "all" (for accuracy).
    """
    place = _cells_of(truth, predicted, classes)
    weights = {"flow": np.ones(len(place))}
    if totals is not None:
        weights |= {unit: totals[unit].to_numpy(float) for unit in ("packet", "byte")}
    is_named = np.isin(list(classes), list(named))
    rows: list[tuple[str, str, str, float]] = []
    for unit, weight in weights.items():
        cells = _sums(place, weight, len(classes))
        scores = _class_scores(cells)
        f1 = scores[CLASS_MEASURES.index("f1")]
        rows.append((unit, "all", "accuracy", float(np.trace(cells) / cells.sum()) if cells.sum() else np.nan))
        rows.append((unit, "named", "macro_f1", _mean_of_present(f1[is_named])))
        rows.append((unit, "all", "macro_f1", _mean_of_present(f1)))
        rows += [
            (unit, str(name), measure, float(value))
            for name, column in zip(classes, scores.T, strict=True)
            for measure, value in zip(CLASS_MEASURES, column, strict=True)
        ]
    return pd.DataFrame(rows, columns=SCORE_COLUMNS)


def _mean_of_present(values: NDArray[np.float64]) -> float:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else np.nan
