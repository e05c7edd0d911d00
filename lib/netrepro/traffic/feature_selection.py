"""Sequential forward selection: for a classifier with one Gaussian mixture for each class, and for other classifiers.

Alizadeh et al. (IEEE Access 8, 2020) select the features of their mixtures in this way: the feature that raises the
macro-F1 most is added, again and again. scikit-learn's SequentialFeatureSelector fits every candidate in every fold
from the start. Here all candidates share the fit of the features chosen so far, and only a few are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin, SequentialFeatureSelector
from sklearn.model_selection import check_cv
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import netrepro._core as _core
from netrepro.errors import NetreproError, nearest
from netrepro.traffic.classifiers import CLASSIFIERS
from netrepro.traffic.rows import Rows

# A search needs thousands of fits; these settings make smaller models that stand in for the full ones.
CHEAPER: dict[str, dict[str, Any]] = {
    "RF": {"n_estimators": 5},
    "GBT": {"max_iter": 5, "learning_rate": 0.4, "max_leaf_nodes": 8},
}


class MixtureFeatureSelector(SelectorMixin, BaseEstimator):
    """A selector that chooses features one by one, by cross-validated macro-F1.

    Features of very different scale should be standardised.

    Parameters
    ----------
    n_features_to_select : number of features to choose; all, if there are fewer.
    n_components : number of components of each class's mixture; their covariances are full.
    prior : "map" weighs each class by its share of the training rows, "mle" weighs all classes equally.
    cv : folds, as scikit-learn takes them: a number, a splitter, or pairs of indices.
    scored_classes : the classes whose F1 is averaged (None: all).
    n_refined : number of best-ranked candidates that are fitted before one is chosen.
    refining_iter, final_iter : iterations of EM for a candidate and for the chosen feature.
    reg_covar : added to every variance.
    n_jobs : number of threads, among which the folds are divided.

    Attributes
    ----------
    selected_ : column indices of the chosen features, in order of choice. scores_ : mean macro-F1 of the folds (0..1)
    after each choice. support_ (d,) : mask of the chosen features.
    """

    def __init__(
        self,
        n_features_to_select: int = 10,
        *,
        n_components: int = 5,
        prior: str = "map",
        cv: Any = 5,
        scored_classes: Sequence[Any] | None = None,
        n_refined: int = 4,
        refining_iter: int = 8,
        final_iter: int = 25,
        reg_covar: float = 1e-6,
        n_jobs: int = 1,
    ):
        self.n_features_to_select = n_features_to_select
        self.n_components = n_components
        self.prior = prior
        self.cv = cv
        self.scored_classes = scored_classes
        self.n_refined = n_refined
        self.refining_iter = refining_iter
        self.final_iter = final_iter
        self.reg_covar = reg_covar
        self.n_jobs = n_jobs

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, progress: Callable[[int, int], None] | None = None
    ) -> MixtureFeatureSelector:
        """Select by rows X (n, d) with classes y (n,); `progress` is called with (features chosen, features to choose).

        Raises NetreproError for a singular covariance, for a setting out of range, and for too many folds for the rows
        or for a class.
        """
        rows, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        for name in ("n_features_to_select", "n_components", "n_refined", "final_iter", "n_jobs"):
            if getattr(self, name) < 1:
                raise NetreproError(f"{name} is {getattr(self, name)}", "it must be 1 or more")
        if self.prior not in ("map", "mle"):
            raise NetreproError(f"no prior {self.prior!r}", nearest(str(self.prior), ["map", "mle"]))
        classes, labels = np.unique(y, return_inverse=True)
        scored = np.isin(classes, classes if self.scored_classes is None else self.scored_classes)
        if not scored.any():
            raise NetreproError(f"no row has a class of {self.scored_classes}", f"the classes are {classes}")
        features = np.ascontiguousarray(rows.T)
        searches = []
        try:
            folds = list(check_cv(self.cv, y, classifier=True).split(rows, y))
        except ValueError as error:
            raise NetreproError(f"{len(rows)} rows cannot be split: {error}", "use fewer folds or more rows") from None
        for training, testing in folds:
            if len(np.unique(labels[training])) < len(classes):
                raise NetreproError("a fold has no training row of some class", "use fewer folds or more rows")
            searches.append(
                _core.MixtureFeatureSearch(
                    features,
                    labels,
                    training,
                    testing,
                    components=self.n_components,
                    regularisation=self.reg_covar,
                    weigh_by_prior=self.prior == "map",
                    scored=scored,
                )
            )
        try:
            self._select(searches, rows.shape[1], progress)
        except ValueError as error:
            raise NetreproError(
                f"a mixture cannot be fitted: {error}",
                "standardise the features, drop those that are constant or copies, or raise reg_covar",
            ) from None
        return self

    def _select(self, searches: list[Any], width: int, progress: Callable[[int, int], None] | None) -> None:
        wanted = min(self.n_features_to_select, width)
        chosen: list[int] = []
        scores: list[float] = []
        with ThreadPoolExecutor(self.n_jobs) as threads:

            def mean(question: str, *about: Any) -> NDArray[np.float64]:
                return np.mean(list(threads.map(methodcaller(question, *about), searches)), axis=0)

            while len(chosen) < wanted:
                candidates = [feature for feature in range(width) if feature not in chosen]
                ranked = mean("rank", candidates)
                best = [candidates[i] for i in np.argsort(-ranked, kind="stable")[: self.n_refined]]
                tried = [mean("try_out", feature, self.refining_iter) for feature in best]
                winner = best[int(np.argmax(tried))]
                scores.append(float(mean("choose", winner, self.final_iter)))
                chosen.append(winner)
                if progress:
                    progress(len(chosen), wanted)
        self.selected_ = np.array(chosen)
        self.scores_ = np.array(scores)
        self.support_ = np.isin(np.arange(width), chosen)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def search_features(model: str, rows: Rows, count: int, *, folds: int, limit: int, seed: int) -> list[str]:
    """Run scikit-learn's forward search for at most `count` features by macro-F1, with CHEAPER fits.

    model : a name of CLASSIFIERS. limit : number of training rows, drawn at random. folds : number of folds of these.
    Naive Bayes is fitted once for all features, which are independent in it: the same search in a fiftieth of the time.
    """
    training = rows.trained_on_few(limit, seed=seed).split[0]
    table = rows.features.iloc[training]
    table = table.loc[:, table.std() > 0]  # naive Bayes divides by the variance
    labels, wanted = np.unique(rows.labels[training], return_inverse=True)[1], min(count, table.shape[1] - 1)
    if model == "NB":
        return list(table.columns[_search_naive_bayes(table.to_numpy(), labels, wanted, folds)])
    selector = SequentialFeatureSelector(
        CLASSIFIERS[model](seed).set_params(**CHEAPER.get(model, {})),
        n_features_to_select=wanted,
        scoring=_macro_f1,
        cv=folds,
    ).fit(table.to_numpy(), labels)
    return list(table.columns[selector.get_support()])


class _NaiveBayesFold:
    """scikit-learn's GaussianNB in one fold, for any set of features."""

    def __init__(
        self, table: NDArray[np.float64], labels: NDArray[np.int64], training: NDArray[Any], testing: NDArray[Any]
    ):
        self.classes, counts = np.unique(labels[training], return_counts=True)
        groups = [table[training][labels[training] == each] for each in self.classes]
        self.log_priors = np.log(counts / counts.sum())
        self.smoothing = GaussianNB().var_smoothing * table[training].var(axis=0)
        self.variances = np.stack([group.var(axis=0) for group in groups])
        self.squares = np.stack([(table[testing] - group.mean(axis=0)) ** 2 for group in groups])
        self.labels = labels[testing]

    def score(self, features: list[int]) -> float:
        """Compute the macro-F1 of these features."""
        variances = self.variances[:, features] + self.smoothing[features].max()
        likelihoods = self.log_priors - 0.5 * np.log(2 * np.pi * variances).sum(axis=1)
        distances = (self.squares[:, :, features] / variances[:, None]).sum(axis=2)
        return _f1_of(self.classes[(likelihoods[:, None] - 0.5 * distances).argmax(axis=0)], self.labels)


def _search_naive_bayes(
    table: NDArray[np.float64], labels: NDArray[np.int64], count: int, folds: int
) -> NDArray[np.int64]:
    """Choose `count` columns as scikit-learn's SequentialFeatureSelector does with GaussianNB, in the table's order."""
    splits = check_cv(folds, labels, classifier=True).split(table, labels)
    parts = [_NaiveBayesFold(table, labels, *split) for split in splits]
    chosen: list[int] = []
    while len(chosen) < count:
        left = [feature for feature in range(table.shape[1]) if feature not in chosen]
        scores = [np.mean([part.score(sorted([*chosen, feature])) for part in parts]) for feature in left]
        chosen.append(left[int(np.argmax(scores))])
    return np.sort(np.array(chosen))


def _macro_f1(model: Any, table: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Compute scikit-learn's "f1_macro" of labels 0, 1, ..., without its checks: a search calls this some thousand
    times."""
    return _f1_of(model.predict(table), labels)


def _f1_of(predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    count = int(max(labels.max(), predicted.max())) + 1
    hits, true, named = (
        np.bincount(part, minlength=count) for part in (labels[labels == predicted], labels, predicted)
    )
    present = true + named > 0
    return float((2 * hits[present] / (true + named)[present]).mean())
