"""The classifiers of the comparison, all trained and scored in the same way.

They are the paper's mixtures, its six baselines from scikit-learn (naive Bayes, decision tree, k nearest neighbours,
support vector machine, random forest, gradient boosting), and two neural networks where PyTorch is installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from netrepro.errors import NetreproError, nearest
from netrepro.traffic.metrics import score_table
from netrepro.traffic.mixtures import MixturePerClassClassifier
from netrepro.traffic.splits import Split
from netrepro.traffic.unibs import CLASSES, NAMED_CLASSES


class NeuralClassifier(ClassifierMixin, BaseEstimator):
    """A neural classifier whose training stops when its loss on validation rows no longer falls.

    Features should be standardised.

    Parameters
    ----------
    architecture : "mlp" (layers of `width` with ReLU and dropout) or "ft-transformer" (Gorishniy et al., "Revisiting
        Deep Learning Models for Tabular Data", NeurIPS 2021: one token for each feature, attention between tokens), or
        "gru" (a recurrent network over packets, whose features are those of `packet_sequences`).
    width : size of a hidden layer or a token. depth : number of hidden layers or blocks.
    n_heads : number of attention heads; must divide the width. dropout : dropout probability.
    learning_rate, weight_decay : settings of AdamW. batch_rows : rows in one training step.
    max_epochs : largest number of epochs. patience : stop after this many epochs without a smaller validation loss.
    validation_share : share of the rows for validation; set apart before oversampling, stratified if each class has 2.
    oversampling : in each epoch, rows of smaller classes are repeated until all classes are equally large.
    random_state : seed of all random draws.

    Attributes
    ----------
    classes_ (c,) : the classes. losses_ : one row for each epoch: training and validation loss in nats per row.
    n_iter_ : number of epochs. best_epoch_ : the epoch (from 1) whose weights were kept.
    """

    def __init__(
        self,
        architecture: str = "mlp",
        *,
        width: int = 64,
        depth: int = 2,
        n_heads: int = 4,
        dropout: float = 0.1,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-5,
        batch_rows: int = 256,
        max_epochs: int = 100,
        patience: int = 8,
        validation_share: float = 0.15,
        oversampling: bool = True,
        random_state: int = 0,
    ):
        self.architecture = architecture
        self.width = width
        self.depth = depth
        self.n_heads = n_heads
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_rows = batch_rows
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.oversampling = oversampling
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, progress: Callable[[int, int], None] | None = None
    ) -> NeuralClassifier:
        """Train on rows X (n, d) with classes y (n,); `progress` is called with (epochs done, max_epochs).

        Raises NetreproError where PyTorch is not installed or a setting is out of range.
        """
        neural = _neural()
        rows, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=4)
        check_classification_targets(y)
        self.classes_, place = np.unique(y, return_inverse=True)
        for name in ("width", "depth", "n_heads", "batch_rows", "max_epochs", "patience"):
            if getattr(self, name) < 1:
                raise NetreproError(f"{name} is {getattr(self, name)}", "it must be 1 or more")
        if self.architecture not in neural.NETWORKS:
            raise NetreproError(f"no network {self.architecture!r}", nearest(self.architecture, neural.NETWORKS))
        if self.architecture == "ft-transformer" and self.width % self.n_heads:
            raise NetreproError(f"a width of {self.width} cannot be divided among {self.n_heads} heads", "change one")
        if self.architecture == "gru" and rows.shape[1] % neural.PACKET_NUMBERS:
            raise NetreproError(
                f"{rows.shape[1]} features are no whole packets", f"give {neural.PACKET_NUMBERS} features a packet"
            )
        if not 0 < self.validation_share < 1:
            raise NetreproError(f"validation_share is {self.validation_share}", "it must be between 0 and 1")
        count = max(round(self.validation_share * len(rows)), len(self.classes_))
        can_stratify = np.bincount(place).min() >= 2 and len(rows) - count >= len(self.classes_)
        training, validation = train_test_split(
            np.arange(len(rows)),
            test_size=min(count, len(rows) // 2),
            random_state=self.random_state,
            stratify=place if can_stratify and count <= len(rows) // 2 else None,
        )
        parts = [(rows[part], place[part]) for part in (training, validation)]
        self.network_, losses, self.best_epoch_ = neural.train(self, *parts, len(self.classes_), progress)
        self.losses_ = pd.DataFrame(losses, columns=["training", "validation"]).rename_axis("epoch")
        self.n_iter_ = len(self.losses_)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for each row, shape (n, c)."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return _neural().probabilities(self.network_, rows)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row."""
        place = self.predict_proba(X).argmax(axis=1)
        return self.classes_[place]

    def input_gradients(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the mean absolute gradient of the predicted class's score with respect to each feature, shape
        (d,)."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return _neural().mean_input_gradients(self.network_, rows)


def _neural() -> Any:
    """Import the module that needs PyTorch."""
    try:
        return importlib.import_module("netrepro.traffic.neural")
    except ImportError as error:
        raise NetreproError(
            f"PyTorch is not installed, the neural models need it ({error})", "`make run NEURAL=1` installs it"
        ) from None


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "GMM": lambda seed: MixturePerClassClassifier(random_state=seed),
    "NB": lambda seed: GaussianNB(),
    "DT": lambda seed: DecisionTreeClassifier(random_state=seed),
    "KNN": lambda seed: KNeighborsClassifier(),
    "SVM": lambda seed: SVC(C=10.0, random_state=seed),
    "RF": lambda seed: RandomForestClassifier(random_state=seed),
    "GBT": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "MLP": lambda seed: NeuralClassifier("mlp", width=256, random_state=seed),
    "FT-Transformer": lambda seed: NeuralClassifier("ft-transformer", random_state=seed),
}
BASELINES = ("NB", "DT", "KNN", "SVM", "RF", "GBT")
NEURAL = ("MLP", "FT-Transformer")

NORMALISATIONS: dict[str, str] = {
    "raw": "as metered",
    "z": "mean 0, deviation 1",
    "log": "sign(x) ln(1 + |x|), then mean 0, deviation 1",
    "quantile": "ranks, as a normal distribution",
}


def signed_log(values: ArrayLike) -> NDArray[np.float64]:
    """Compute sign(x) ln(1 + |x|): features span orders of magnitude, and are -1 where a direction has no packets."""
    numbers = np.asarray(values, float)
    return np.sign(numbers) * np.log1p(np.abs(numbers))


def make_normaliser(name: str, *, seed: int = 0) -> Any:
    """Make the transformer called `name` in NORMALISATIONS. Raises NetreproError for an unknown name."""
    if name not in NORMALISATIONS:
        raise NetreproError(f"no normalisation {name!r}", nearest(name, NORMALISATIONS))
    if name == "raw":
        return FunctionTransformer()
    if name == "z":
        return StandardScaler()
    if name == "log":
        return make_pipeline(FunctionTransformer(signed_log), StandardScaler())
    return QuantileTransformer(n_quantiles=100, output_distribution="normal", random_state=seed)


def make_classifier(name: str, *, seed: int, normalisation: str = "z") -> Pipeline:
    """Make a pipeline of a normalisation, fitted on the training rows, and the classifier called `name` in CLASSIFIERS.

    Raises NetreproError for an unknown name.
    """
    if name not in CLASSIFIERS:
        raise NetreproError(f"no classifier {name!r}", nearest(name, CLASSIFIERS))
    return Pipeline([("normalise", make_normaliser(normalisation, seed=seed)), ("classify", CLASSIFIERS[name](seed))])


def oversample(labels: ArrayLike, *, seed: int) -> NDArray[np.int64]:
    """Return row numbers: every row once, then random repeats until all classes are as frequent as the largest."""
    names, place = np.unique(np.asarray(labels), return_inverse=True)
    random = np.random.default_rng(seed)
    counts = np.bincount(place)
    extra = [random.choice(np.flatnonzero(place == i), counts.max() - counts[i]) for i in range(len(names))]
    return np.concatenate([np.arange(len(place)), *extra])


def fit_predict(
    model: str | BaseEstimator,
    features: pd.DataFrame | NDArray[np.float64],
    labels: ArrayLike,
    split: Split,
    *,
    seed: int = 0,
    normalisation: str = "z",
    oversampling: bool = False,
) -> NDArray[Any]:
    """Train on the split's training rows and predict the classes of its testing rows.

    model : a name of CLASSIFIERS, combined with `normalisation`, or an estimator, of which a copy is fitted without it.
    oversampling : True balances the training rows first; leave it False for NeuralClassifier, which balances its rows
    itself, after it has set validation rows apart. Raises NetreproError where a feature is missing or infinite, a part
    of the split is empty, or the training rows have only one class.
    """
    table, truth = np.asarray(features, float), np.asarray(labels, object)
    training, testing = split
    if not len(training) or not len(testing):
        raise NetreproError(f"{len(training)} training and {len(testing)} testing rows", "give some of both")
    if not np.isfinite(table).all():
        raise NetreproError("a feature is missing or infinite", "leave such rows out")
    truth = truth.astype(str)
    if len(names := np.unique(truth[training])) < 2:
        raise NetreproError(f"all training rows are {names[0]}", "a classifier needs rows of two classes")
    estimator = (
        make_classifier(model, seed=seed, normalisation=normalisation) if isinstance(model, str) else clone(model)
    )
    if oversampling:
        training = np.asarray(training)[oversample(truth[training], seed=seed)]
    return estimator.fit(table[training], truth[training]).predict(table[testing])


def evaluate(
    model: str | BaseEstimator,
    features: pd.DataFrame | NDArray[np.float64],
    labels: ArrayLike,
    split: Split,
    *,
    totals: pd.DataFrame | None = None,
    seed: int = 0,
    normalisation: str = "z",
    oversampling: bool = False,
    classes: Sequence[str] = CLASSES,
    named: Sequence[str] = NAMED_CLASSES,
) -> pd.DataFrame:
    """Run `fit_predict` and score it: return `score_table` with the columns model, training_rows and testing_rows in
    front.

    totals : `flow_totals` of all rows, for the scores by packet and byte; None scores flows only.
    """
    predicted = fit_predict(
        model, features, labels, split, seed=seed, normalisation=normalisation, oversampling=oversampling
    )
    training, testing = split
    tested = None if totals is None else totals.iloc[testing]
    table = score_table(np.asarray(labels, object)[testing], predicted, tested, classes=classes, named=named)
    name = model if isinstance(model, str) else type(model).__name__
    return pd.DataFrame(
        {"model": name, "training_rows": len(training), "testing_rows": len(testing)}, index=table.index
    ).join(table)
