"""Forward selection against scikit-learn's, which fits every candidate anew."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.metrics import f1_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.traffic import MixtureFeatureSelector, MixturePerClassClassifier

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
NOT_RUN = "SCIPY_ARRAY_API is not set"


class PlainMixtureClassifier(ClassifierMixin, BaseEstimator):
    """One scikit-learn mixture a class: what its SequentialFeatureSelector would be used with."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> PlainMixtureClassifier:
        self.classes_ = np.unique(y)
        parts = [X[y == label] for label in self.classes_]
        self.mixtures_ = [
            GaussianMixture(2, init_params="random_from_data", random_state=0).fit(part) for part in parts
        ]
        self.log_priors_ = np.log([len(part) / len(X) for part in parts])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        scores = np.column_stack([mixture.score_samples(X) for mixture in self.mixtures_])
        return self.classes_[(scores + self.log_priors_).argmax(axis=1)]


def problem(rows: int = 900, width: int = 12, seed: int = 0, **described: Any) -> tuple[np.ndarray, np.ndarray]:
    points, labels = make_classification(
        rows,
        width,
        n_informative=4,
        n_redundant=3,
        n_classes=3,
        weights=[0.6, 0.3, 0.1],
        random_state=seed,
        **described,
    )
    return StandardScaler().fit_transform(points), labels


@pytest.mark.parametrize("prior", ["map", "mle"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_one_component_it_chooses_exactly_what_scikit_learn_chooses(seed: int, prior: str) -> None:
    """One component needs no EM, so that nothing is approximated and nothing depends on a start."""
    points, labels = problem(seed=seed, width=9)
    ours = MixtureFeatureSelector(4, n_components=1, prior=prior, cv=FOLDS, n_refined=9).fit(points, labels)
    classifier = MixturePerClassClassifier(max_components=1, n_init=1, prior=prior, random_state=0)
    theirs = SequentialFeatureSelector(classifier, n_features_to_select=4, scoring="f1_macro", cv=FOLDS)
    assert theirs.fit(points, labels).get_support().tolist() == ours.get_support().tolist()
    for count in (1, 2, 4):
        columns = points[:, ours.selected_[:count]]
        score = cross_val_score(classifier, columns, labels, scoring="f1_macro", cv=FOLDS).mean()
        assert ours.scores_[count - 1] == pytest.approx(score, abs=1e-9)


@threadpool_limits.wrap(limits=1)  # scikit-learn's mixtures of this size are slower with threads than without
def test_with_two_components_its_features_are_no_worse_than_those_of_scikit_learn() -> None:
    points, labels = problem(rows=600, width=8, n_clusters_per_class=2)
    ours = MixtureFeatureSelector(3, n_components=2, cv=FOLDS).fit(points, labels)
    theirs = SequentialFeatureSelector(
        PlainMixtureClassifier(), n_features_to_select=3, scoring="f1_macro", cv=FOLDS
    ).fit(points, labels)
    scores = [
        cross_val_score(PlainMixtureClassifier(), part, labels, scoring="f1_macro", cv=FOLDS)
        for part in (ours.transform(points), theirs.transform(points))
    ]
    noise = np.std(scores[0] - scores[1], ddof=1) / np.sqrt(3)
    assert scores[0].mean() > scores[1].mean() - max(2 * noise, 0.01)


@pytest.mark.parametrize("components", [1, 3])
def test_the_shared_pass_scores_each_candidate_as_a_maximisation_of_its_own(components: int) -> None:
    points, labels = problem()
    (training, testing), *_ = FOLDS.split(points, labels)
    search = new_search(points, labels, training, testing, components=components)
    for chosen in (2, 7, 5):
        search.choose(chosen, 10)
        others = [feature for feature in range(12) if feature != chosen]
        shared = search.rank(others[:6])
        assert shared == pytest.approx([search.try_out(feature, 0) for feature in others[:6]], abs=1e-12)
        assert len(set(shared)) > 1


def em_twin(values: np.ndarray, components: int, iterations: int) -> list[tuple[float, float, float]]:
    """(weight, mean, variance) of a mixture in one dimension that begins with equal shares of the sorted values."""
    shares = np.eye(components)[np.argsort(np.argsort(values, kind="stable")) * components // len(values)]
    for i in range(iterations + 1):
        support = shares.sum(axis=0)
        means = values @ shares / support
        variances = (shares * (values[:, None] - means) ** 2).sum(axis=0) / support + 1e-6
        if i < iterations:
            joint = norm.logpdf(values[:, None], means, np.sqrt(variances)) + np.log(support / len(values))
            shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    return list(zip(support / len(values), means, variances, strict=True))


@pytest.mark.parametrize("feature", range(4))
@pytest.mark.parametrize("prior", [True, False])
def test_trying_out_a_feature_names_every_row_as_a_mixture_in_numpy_does(feature: int, prior: bool) -> None:
    points, labels = problem(class_sep=0.5)
    (training, testing), *_ = FOLDS.split(points, labels)
    search = new_search(points, labels, training, testing, components=3, weigh_by_prior=prior)
    scores = np.empty((len(testing), 3))
    for label in range(3):
        values = points[training[labels[training] == label], feature]
        parts = em_twin(values, 3, 6)
        terms = [np.log(w) + norm.logpdf(points[testing, feature], m, np.sqrt(v)) for w, m, v in parts]
        scores[:, label] = logsumexp(terms, axis=0) + prior * np.log(len(values))
    expected = f1_score(labels[testing], scores.argmax(axis=1), average="macro")
    assert search.try_out(feature, 6) == pytest.approx(expected, abs=1e-12)


def test_trying_out_goes_on_where_it_stopped_and_changes_no_choice() -> None:
    points, labels = problem()
    (training, testing), *_ = FOLDS.split(points, labels)
    tried, straight = (new_search(points, labels, training, testing, components=3) for _ in range(2))
    for chosen in (2, 7, 5):
        for feature, iterations in ((chosen, 8), (9, 3), (chosen, 2), (chosen, 5)):
            tried.try_out(feature, iterations)
        assert tried.choose(chosen, 12) == straight.choose(chosen, 12)
        assert tried.rank([0, 1, 3]) == straight.rank([0, 1, 3])


def new_search(points: np.ndarray, labels: np.ndarray, training: np.ndarray, testing: np.ndarray, **given: Any) -> Any:
    settings = {"regularisation": 1e-6, "weigh_by_prior": True, "scored": [True] * 3}
    return _core.MixtureFeatureSearch(np.ascontiguousarray(points.T), labels, training, testing, **(settings | given))


def test_noise_is_left_out_while_there_are_features_that_tell() -> None:
    random = np.random.default_rng(4)
    labels = random.integers(3, size=1500)
    telling = np.column_stack([labels == 0, labels == 1, labels == 2]) * 2.0 + random.normal(size=(1500, 3))
    points = np.column_stack([random.normal(size=(1500, 8)), telling])
    selector = MixtureFeatureSelector(3, n_components=2, cv=FOLDS).fit(points, labels)
    assert sorted(selector.selected_) == [8, 9, 10]
    shuffled = MixtureFeatureSelector(3, n_components=2, cv=FOLDS).fit(points, random.permutation(labels))
    assert shuffled.scores_[-1] < 0.4 < 0.7 < selector.scores_[-1]


def test_the_score_may_leave_classes_out() -> None:
    points, labels = problem()
    classifier = MixturePerClassClassifier(max_components=1, n_init=1, random_state=0)
    selector = MixtureFeatureSelector(3, n_components=1, cv=FOLDS, scored_classes=[1, 2]).fit(points, labels)
    predicted = cross_val_predict(classifier, selector.transform(points)[:, :], labels, cv=FOLDS)
    by_fold = [
        f1_score(labels[testing], predicted[testing], labels=[1, 2], average="macro")
        for _, testing in FOLDS.split(points, labels)
    ]
    assert selector.scores_[-1] == pytest.approx(np.mean(by_fold), abs=1e-9)


def test_the_number_of_threads_changes_nothing_and_progress_is_told() -> None:
    points, labels = problem()
    told: list[tuple[int, int]] = []
    one = MixtureFeatureSelector(3, cv=FOLDS).fit(points, labels, progress=lambda *step: told.append(step))
    two = MixtureFeatureSelector(3, cv=FOLDS, n_jobs=2).fit(points, labels)
    assert one.selected_.tolist() == two.selected_.tolist() and one.scores_.tolist() == two.scores_.tolist()
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_scikit_learn_accepts_the_selector() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of classes smaller than a fold in its own tiny problems
        results = check_estimator(MixtureFeatureSelector(n_components=2), on_fail=None)
    not_passed = [result for result in results if result["status"] != "passed"]
    assert len(results) > 30
    assert all(NOT_RUN in str(result["exception"]) for result in not_passed), not_passed


def test_a_class_that_no_row_has_and_a_class_too_rare_for_the_folds_are_errors() -> None:
    points, labels = problem()
    with pytest.raises(NetreproError, match="no row has a class"):
        MixtureFeatureSelector(scored_classes=["WEB"]).fit(points, labels)
    labels = np.where(np.arange(900) == 7, 9, labels)
    with (
        pytest.warns(UserWarning, match="least populated"),
        pytest.raises(NetreproError, match="fewer folds"),
    ):
        MixtureFeatureSelector(cv=3).fit(points, labels)
    with pytest.raises(NetreproError, match="use fewer folds or more rows"):
        MixtureFeatureSelector(cv=5).fit(points[:4], [0, 1, 0, 1])
