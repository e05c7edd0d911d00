"""Training and testing a model on rows of features."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_selection import SequentialFeatureSelector
from threadpoolctl import threadpool_limits

from netrepro.papers.gmm_traffic.setting import Setting, neural_models
from netrepro.study import Progress, in_parallel
from netrepro.traffic import (
    CLASSIFIERS,
    NAMED_CLASSES,
    NEURAL,
    LabelledFlows,
    MixtureFeatureSelector,
    NeuralClassifier,
    feature_sets,
    flow_totals,
    make_normaliser,
    random_split,
    score_table,
)
from netrepro.traffic.splits import Split

Value = TypeVar("Value")
# A search asks thousands of fits; these stand for the whole model in it.
CHEAPER: dict[str, dict[str, Any]] = {
    "RF": {"n_estimators": 5},
    "GBT": {"max_iter": 5, "learning_rate": 0.4, "max_leaf_nodes": 8},
}


def of_large_classes(flows: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return the flows whose class has so many, numbered anew."""
    counts = flows["class"].value_counts()
    return flows[flows["class"].isin(counts[counts >= least].index)].reset_index(drop=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit libraries to one thread. On small problems threads that wait for each other cost more than they bring, on a
    busy machine a hundredfold."""
    torch = importlib.import_module("torch") if neural_models() else None
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def one_thread_each(
    step: Callable[..., Value],
    work: Sequence[tuple],
    progress: Progress = iter,
    cost: Callable[..., float] | None = None,
) -> list[Value]:
    """Run `in_parallel` within `one_thread`, which of OpenMP's threads knows only those of the thread that calls it."""

    def alone(*each: Any) -> Value:
        with threadpool_limits(1, user_api="openmp"):
            return step(*each)

    return in_parallel(alone, work, progress=progress, cost=cost)


@dataclass(frozen=True)
class Rows:
    """Flows to train and to test on: features (normalised as the training rows teach), labels, whole-flow totals."""

    features: pd.DataFrame
    labels: NDArray[Any]
    split: Split
    totals: pd.DataFrame

    def only(self, columns: Sequence[str]) -> Rows:
        return replace(self, features=self.features[list(columns)])

    def relabelled(self, labels: NDArray[Any]) -> Rows:
        return replace(self, labels=labels)

    def trained_on(self, training: NDArray[np.int64]) -> Rows:
        return replace(self, split=(training, self.split[1]))


def take(found: LabelledFlows, limit: int | None, seed: int) -> pd.DataFrame:
    """Take at most so many flows, drawn with the classes' shares kept."""
    flows = found.flows
    if limit is None or len(flows) <= limit:
        return flows
    kept, _ = random_split(flows["class"], training_share=limit / len(flows), seed=seed, smallest_class=12)
    return flows.iloc[kept].reset_index(drop=True)


def make_rows(
    flows: pd.DataFrame,
    setting: Setting,
    seed: int,
    *,
    split: Split | None = None,
    normalisation: str | None = None,
    columns: Sequence[str] | None = None,
) -> Rows:
    """Split at random (or as given) and normalise. columns : other features than the setting's."""
    labels = flows["class"].to_numpy(str)
    parts = split or random_split(labels, training_share=setting.training_share, seed=seed)
    table = flows[list(columns or feature_sets()[setting.feature_set])].astype(float)
    normaliser = make_normaliser(normalisation or setting.normalisation, seed=seed).fit(table.to_numpy()[parts[0]])
    values = np.asarray(normaliser.transform(table.to_numpy()))
    return Rows(pd.DataFrame(values, columns=table.columns), labels, parts, flow_totals(flows))


def select_features(rows: Rows, setting: Setting) -> pd.DataFrame:
    """Run the forward search for mixtures on the training rows: place (from 1), feature, score (macro-F1 in 0..1)."""
    training = rows.split[0]
    selector = MixtureFeatureSelector(
        setting.selected_features,
        n_components=3,
        prior=setting.prior,
        cv=setting.folds,
        scored_classes=NAMED_CLASSES,
        reg_covar=setting.regularisation,
        n_jobs=2,
    ).fit(rows.features.to_numpy()[training], rows.labels[training])
    names = rows.features.columns[selector.selected_]
    return pd.DataFrame({"place": range(1, len(names) + 1), "feature": names, "score": selector.scores_})


def own_features(model: str, rows: Rows, setting: Setting, seed: int, *, limit: int) -> list[str]:
    """Run scikit-learn's forward search for a baseline, on at most `limit` training rows, with CHEAPER fits."""
    training = np.random.default_rng(seed).permutation(rows.split[0])[:limit]
    table = rows.features.iloc[training]
    table = table.loc[:, table.std() > 0]  # naive Bayes divides by the variance
    searcher = CLASSIFIERS[model](seed).set_params(**CHEAPER.get(model, {}))
    wanted = min(setting.selected_features, table.shape[1] - 1)
    selector = SequentialFeatureSelector(
        searcher, n_features_to_select=wanted, scoring=_macro_f1, cv=setting.folds
    ).fit(table.to_numpy(), np.unique(rows.labels[training], return_inverse=True)[1])
    return list(table.columns[selector.get_support()])


def _macro_f1(model: Any, table: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Compute scikit-learn's "f1_macro" of labels 0, 1, ..., without its checks, as a search asks some thousand
    times."""
    predicted = model.predict(table)
    count = int(max(labels.max(), predicted.max())) + 1
    hits, given, named = (
        np.bincount(each, minlength=count) for each in (labels[labels == predicted], labels, predicted)
    )
    known = given + named > 0
    return float((2 * hits[known] / (given + named)[known]).mean())


def make_model(name: str, setting: Setting, seed: int) -> Any:
    """Make the classifier of a name, for rows that are normalised already."""
    if name == "GMM":
        return setting.mixtures(seed)
    if name in NEURAL:
        transformer = name != "MLP"
        return NeuralClassifier(
            "ft-transformer" if transformer else "mlp",
            width=setting.widths[transformer],
            max_epochs=setting.epochs[transformer],
            random_state=seed,
        )
    model = CLASSIFIERS[name](seed)
    # Half of scikit-learn's rounds: all 100 cost twice the time and name no more flows rightly.
    return model.set_params(max_iter=50) if name == "GBT" else model


def train(model: Any, rows: Rows) -> Any:
    """Fit the model to the training rows."""
    training = rows.split[0]
    return model.fit(rows.features.to_numpy()[training], rows.labels[training])


def predict(model: Any, rows: Rows) -> NDArray[Any]:
    """Predict the classes of the testing rows with a trained model."""
    return model.predict(rows.features.to_numpy()[rows.split[1]])


def score(rows: Rows, predicted: NDArray[Any], **label: Any) -> pd.DataFrame:
    """Return `score_table` of the testing rows, with the label's columns."""
    testing = rows.split[1]
    return score_table(rows.labels[testing], predicted, rows.totals.iloc[testing]).assign(**label)
