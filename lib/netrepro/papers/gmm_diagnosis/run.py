"""One run, and its flows and scores, as all experiments use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.papers.gmm_diagnosis.noise import NoiseFit, match_shares, redraw
from netrepro.papers.gmm_diagnosis.setting import Floats, Setting, reported, standin
from netrepro.papers.gmm_diagnosis.variants import Variant
from netrepro.traffic import NAMED_CLASSES, Rows, class_scores, confusion


@dataclass(frozen=True)
class DiagnosisRun:
    """One run: its setting and seed, and what all runs share.

    curves : the forest's confusions (repetitions, shares, 4, 4). fit : to these, or to a transformer's where the
    profile trains some. variants : by name.
    """

    setting: Setting
    seed: int
    curves: Floats
    fit: NoiseFit | None
    variants: Mapping[str, Variant]

    @property
    def fitted_share(self) -> float:
        """The fitted share of labels drawn anew."""
        assert self.fit is not None
        return self.fit.share

    def flows(self) -> pd.DataFrame:
        """Return `flows_as_reported` of this repetition."""
        return flows_as_reported(self.setting, self.seed)


def flows_as_reported(setting: Setting, seed: int, packets: int | None = None) -> pd.DataFrame:
    """Return flows of the four named classes, with the report's class shares. packets : number of first packets that
    the features come from; None for whole flows, as in the report."""
    support = reported("transformer")["support"].drop("all")
    return match_shares(standin().at(packets).flows, support, setting.noise_flows or 10**9, seed)


def rows_with_noise(flows: pd.DataFrame, share: float, setting: Setting, seed: int) -> Rows:
    """Return the rows of flows, with a share of their labels drawn anew."""
    rows = setting.method.rows(flows, seed)
    return rows.relabelled(redraw(rows.labels, share, seed))


def scores_of(rows: Rows, predicted: NDArray[Any]) -> dict[str, float]:
    """Compute accuracy, macro-F1 of the named classes, and each class's precision and recall (0 where no flow is named
    so)."""
    matrix = confusion(rows.tested_labels, predicted, classes=NAMED_CLASSES)
    table = class_scores(matrix).fillna(0)
    scores = {"accuracy": float(np.trace(matrix) / matrix.to_numpy().sum()), "macro-F1": float(table["f1"].mean())}
    for name in NAMED_CLASSES:
        scores |= {f"{name} {measure}": float(table.loc[name, measure]) for measure in ("precision", "recall")}
    return scores
