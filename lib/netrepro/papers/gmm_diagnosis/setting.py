"""What a profile affords, and what the class reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError, nearest
from netrepro.paths import data_dir
from netrepro.study import of_profile

SLUG = "gmm_diagnosis"
Floats = NDArray[np.float64]
INJECTED = (0.3, 0.5, 0.65)
TRANSFORMER, BALANCED, RIGHT = "FT-Transformer", ", balanced", ", right labels"
WRONG = 0.1  # share of wrong labels above which a join must be rejected
TABLE = ["experiment", "variant", "fault", "flows", "wrong", "forest_accuracy", "forest_f1", "mixtures_accuracy",
         "mixtures_f1", "header_bytes", "first_packet", "audit"]  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """The amount of work in a profile: flows (more for the noise, whose fit must be sharp), trees of a forest, shares
    of re-drawn labels, first packets, training shares. others_once : measure what no claim needs in the first
    repetition only. most_variants : the most repetitions of the variants, the method and verification.
    most_transformers : the most of transformer and naive Bayes (None: as many as of all else). search_rows : the rows
    on which naive Bayes searches its features."""

    flows: int | None
    noise_flows: int | None
    trees: int
    noise: tuple[float, ...]
    first_packets: tuple[int | None, ...]
    training_shares: tuple[float, ...]
    others_once: bool = False
    most_variants: int | None = None
    most_transformers: int | None = None
    search_rows: int = 1000


SCALES = {
    "quick": Scale(
        2000, 5000, 30, (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95), (3, 6, 9, None), (0.005, 0.02, 0.1, 0.7), True,
        most_variants=3, most_transformers=5, search_rows=400,
    ),
    "paper": Scale(
        None, None, 60, (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95),
        (3, 4, 5, 6, 7, 8, 9, 10, 12, None), (0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.7),
    ),
}  # fmt: skip


def diagnosis_scale(profile: str) -> Scale:
    """Return the scale of a profile. Raises NetreproError for another profile than quick and paper."""
    return of_profile(profile, SCALES)


def class_report() -> pd.DataFrame:
    """Return every number of the class report: table, row, measure, value."""
    return pd.read_csv(data_dir(SLUG) / "class_report.csv", comment="#")


def reported(table: str) -> pd.DataFrame:
    """Return one table of the class report: a row for each class or "all", a column for each measure."""
    found = class_report()
    known = list(dict.fromkeys(found["table"]))
    if table not in known:
        raise NetreproError(f"the class report has no table {table!r}", nearest(table, known))
    return found[found["table"] == table].pivot(index="row", columns="measure", values="value")
