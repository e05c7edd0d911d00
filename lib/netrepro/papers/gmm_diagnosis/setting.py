"""The sizes of each profile's experiments, and the numbers that the class reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.papers import gmm_traffic
from netrepro.papers.gmm_traffic.setting import LARGE_NETWORKS, LabelledTrace
from netrepro.paths import data_dir
from netrepro.study.setting import parameter
from netrepro.traffic import NORMALISATIONS

SLUG = "gmm_diagnosis"
Floats = NDArray[np.float64]
INJECTED = (0.3, 0.5, 0.65)
TRANSFORMER, BALANCED, RIGHT = "FT-Transformer", ", balanced", ", right labels"
SMALL_NETWORKS: dict[str, Any] = {"neural_rows": 500, "epochs": (30, 5)}  # of the quick profile
WRONG = 0.1  # share of wrong labels above which a join must be rejected
MEANS = ["wrong", "forest_accuracy", "forest_f1", "mixtures_accuracy", "mixtures_f1"]
TABLE = ["experiment", "variant", "fault", "flows", *MEANS, "header_bytes", "first_packet", "audit"]


@dataclass(frozen=True)
class Setting:
    """The method's choices, and the sizes that a profile sets.

    experiment : what a run measures: a key of `measuring.EXPERIMENTS`, or "noise", "fit", "variants". share : of labels
    drawn anew, for the experiment of that name.

    flows : greatest number; noise_flows : the same for the noise, whose fit must be precise. trees : in a forest. noise
    : shares of re-drawn labels. others_once : measure what no claim needs only in the first repetition. search_rows :
    rows on which naive Bayes searches its features. network_noise : shares for which transformers are trained, to fit
    the share with the report's kind of model; if empty, the forest's curves are used. large_networks : use the larger
    transformers. batch_rows : rows in one training step of a transformer. baseline_packets : numbers of first packets
    for three baselines; other_search_rows : rows on which those other than naive Bayes search their features, 0 for all
    features. map_flows, map_rounds : flows on the map of t-SNE and its iterations.
    """

    normalisation: str = parameter("log", "of features", one_of=tuple(NORMALISATIONS))
    regularisation: float = parameter(1e-2, "added to every variance of normalised features", above=0, high=1)
    pcaps: str = parameter(
        "", "folder of captures of your own for E13; empty to leave it out", one_of=("empty", "a folder")
    )
    selected_features: int = 10
    experiment: str = "noise"
    share: float = 0.65
    flows: int | None = 1500
    noise_flows: int | None = 3000
    trees: int = 20
    noise: tuple[float, ...] = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95)
    first_packets: tuple[int | None, ...] = (3, 6, 9, None)
    others_once: bool = True
    search_rows: int = 400
    network_noise: tuple[float, ...] = ()
    large_networks: bool = False
    batch_rows: int = 64
    baseline_packets: tuple[int, ...] = (3, 4, 6, 10)
    other_search_rows: int = 0
    map_flows: int = 600
    map_rounds: int = 400

    @property
    def method(self) -> gmm_traffic.Setting:
        """The setting of the mixtures and the other models."""
        return gmm_traffic.Setting(
            normalisation=self.normalisation,
            regularisation=self.regularisation,
            selected_features=self.selected_features,
            **(LARGE_NETWORKS if self.large_networks else SMALL_NETWORKS),
        )


def standin() -> LabelledTrace:
    """Return the trace of all experiments."""
    return gmm_traffic.open_trace("standin")


def class_report() -> pd.DataFrame:
    """Return every number of the class report: table, row, measure, value."""
    return pd.read_csv(data_dir(SLUG) / "class_report.csv", comment="#")


def reported(table: str) -> pd.DataFrame:
    """Return one table of the class report: a row for each class or "all", a column for each measure."""
    numbers = class_report()
    return numbers[numbers["table"] == table].pivot(index="row", columns="measure", values="value")
