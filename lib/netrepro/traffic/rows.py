"""Flows as rows of features, on which a model trains and is tested.

Every classifier gets the same split, and the same normalisation, fitted on the training rows, and predicts the same
testing rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netrepro.traffic.classifiers import make_normaliser
from netrepro.traffic.metrics import flow_totals, score_table
from netrepro.traffic.splits import Split, random_split


@dataclass(frozen=True)
class Rows:
    """Rows of normalised features with their labels; `split` holds the training and the testing row numbers.

    totals : packets and bytes of each whole flow, as `flow_totals` counts them.
    """

    features: pd.DataFrame
    labels: NDArray[Any]
    split: Split
    totals: pd.DataFrame

    @property
    def tested_labels(self) -> NDArray[Any]:
        """The labels of the testing rows."""
        return self.labels[self.split[1]]

    def only(self, columns: Sequence[str] | pd.Series) -> Rows:
        """Return the rows with only these features."""
        return replace(self, features=self.features[list(columns)])

    def relabelled(self, labels: NDArray[Any]) -> Rows:
        """Return the rows with other labels."""
        return replace(self, labels=labels)

    def trained_on(self, training: NDArray[np.int64]) -> Rows:
        """Return the rows with other training rows (`training`: row numbers) and the same testing rows."""
        return replace(self, split=(training, self.split[1]))

    def trained_on_few(self, most: int | None, *, seed: int) -> Rows:
        """Return the rows with at most `most` of the training rows (None: all), drawn at random; same testing rows."""
        return self.trained_on(np.random.default_rng(seed).permutation(self.split[0])[:most])

    def train(self, model: Any) -> Any:
        """Fit a model to the training rows, and return it."""
        training = self.split[0]
        return model.fit(self.features.to_numpy()[training], self.labels[training])

    def predict(self, model: Any) -> NDArray[Any]:
        """Predict the classes of the testing rows with a trained model."""
        return model.predict(self.features.to_numpy()[self.split[1]])

    def train_and_predict(self, model: Any) -> NDArray[Any]:
        """Fit a model to the training rows, and predict the classes of the testing rows."""
        return self.predict(self.train(model))

    def score(self, predicted: ArrayLike, **label: Any) -> pd.DataFrame:
        """Score the predicted classes of the testing rows by `score_table` (by flow, packet and byte); each `label`
        becomes a further column."""
        return score_table(self.tested_labels, predicted, self.totals.iloc[self.split[1]]).assign(**label)


def make_rows(
    flows: pd.DataFrame, columns: Sequence[str], split: Split, *, normalisation: str = "log", seed: int = 0
) -> Rows:
    """Make rows from a table of flows: the features `columns`, with a normalisation fitted on the training rows.

    flows : the columns of `meter`, and class. normalisation : a name of NORMALISATIONS; any other raises NetreproError.
    """
    table = flows[list(columns)].astype(float)
    normaliser = make_normaliser(normalisation, seed=seed).fit(table.to_numpy()[split[0]])
    values = np.asarray(normaliser.transform(table.to_numpy()))
    features = pd.DataFrame(values, columns=table.columns)
    return Rows(features, flows["class"].to_numpy(str), split, flow_totals(flows))


def of_large_classes(flows: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return the flows whose class has at least `least` flows, with a new index from 0."""
    counts = flows["class"].value_counts()
    return flows[flows["class"].isin(counts[counts >= least].index)].reset_index(drop=True)


def draw_flows(flows: pd.DataFrame, limit: int | None, *, seed: int, smallest_class: int) -> pd.DataFrame:
    """Draw about `limit` flows (None: all) with the classes' shares kept, at least `smallest_class` of each class."""
    if limit is None or len(flows) <= limit:
        return flows
    kept, _ = random_split(flows["class"], training_share=limit / len(flows), seed=seed, smallest_class=smallest_class)
    return flows.iloc[kept].reset_index(drop=True)
