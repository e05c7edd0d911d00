"""Component-wise EM against scikit-learn's EM, the formula of its criterion, and known mixtures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from componentwise_twin import twin_componentwise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.traffic import ComponentwiseGaussianMixture, MixturePerClassClassifier

REFUSED_BY_SCIKIT_LEARN = "SCIPY_ARRAY_API is not set"


@pytest.mark.parametrize("estimator", [ComponentwiseGaussianMixture(), MixturePerClassClassifier()])
def test_scikit_learn_accepts_the_estimator(estimator: object) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*" + REFUSED_BY_SCIKIT_LEARN)
        results = check_estimator(estimator, on_fail=None)
    not_passed = [result for result in results if result["status"] != "passed"]
    assert len(results) > 40
    assert all(REFUSED_BY_SCIKIT_LEARN in str(result["exception"]) for result in not_passed), not_passed


@pytest.mark.parametrize(("components", "dimensions", "rows"), [(2, 1, 800), (3, 2, 900), (4, 5, 3000), (5, 10, 5000)])
def test_the_shortest_message_has_the_true_number_of_blobs_and_the_likelihood_of_plain_em(
    components: int, dimensions: int, rows: int
) -> None:
    points, _ = make_blobs(rows, dimensions, centers=components, center_box=(-30, 30), random_state=3)
    ours = ComponentwiseGaussianMixture(random_state=0).fit(points)
    plain = GaussianMixture(components, n_init=3, random_state=0).fit(points)
    assert ours.n_components_ == components
    # The criterion takes half a component's parameters from its support, so its weights are not quite EM's.
    assert plain.score(points) - 0.002 < ours.score(points) < plain.score(points) + 1e-4


def test_overlapping_components_are_told_apart_as_in_the_paper() -> None:
    """Section 6.1, figure 3: 900 points, means (0, -2), (0, 0), (0, 2), equal covariances diag(2, 0.2)."""
    found = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        centres = np.repeat([[0, -2], [0, 0], [0, 2]], 300, axis=0)
        points = centres + random.normal(size=(900, 2)) * np.sqrt([2, 0.2])
        found.append(ComponentwiseGaussianMixture(max_components=20, n_init=1, random_state=seed).fit(points))
    counts = [mixture.n_components_ for mixture in found]
    assert counts.count(3) >= 8, counts
    centre_heights = np.sort(next(m for m in found if m.n_components_ == 3).means_[:, 1])
    np.testing.assert_allclose(centre_heights, [-2, 0, 2], atol=0.2)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), dimensions=st.integers(1, 6), components=st.integers(1, 5))
def test_the_attributes_describe_one_mixture(seed: int, dimensions: int, components: int) -> None:
    random = np.random.default_rng(seed)
    centres = random.normal(scale=4, size=(components, dimensions))
    points = centres[random.integers(components, size=400)] + random.normal(size=(400, dimensions))
    mixture = ComponentwiseGaussianMixture(n_init=1, random_state=seed).fit(points)

    parts = zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)
    joint = np.array([weight * multivariate_normal(mean, cov).pdf(points) for weight, mean, cov in parts])
    log_density = np.log(joint.sum(axis=0))
    np.testing.assert_allclose(mixture.score_samples(points), log_density, rtol=1e-8)
    np.testing.assert_allclose(mixture.predict_proba(points), (joint / joint.sum(axis=0)).T, atol=1e-9)
    np.testing.assert_allclose(mixture.weights_.sum(), 1)

    parameters = dimensions + dimensions * (dimensions + 1) / 2
    length = (
        -log_density.sum()
        + parameters / 2 * np.log(mixture.weights_).sum()
        + (parameters + 1) / 2 * mixture.n_components_ * np.log(400)
    )
    np.testing.assert_allclose(mixture.message_length_, length, rtol=1e-9)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), dimensions=st.integers(1, 4), count=st.integers(1, 7))
def test_the_compiled_search_walks_the_same_path_as_its_twin(seed: int, dimensions: int, count: int) -> None:
    random = np.random.default_rng(seed)
    centres = random.normal(scale=5, size=(3, dimensions))
    points = centres[random.integers(3, size=100)] + random.normal(size=(100, dimensions))
    means = points[random.choice(100, count, replace=False)]
    ours = _core.fit_componentwise(
        np.ascontiguousarray(points.T), means,
        variance=1.5, smallest_count=1, regularisation=1e-6, tolerance=1e-5, longest_fit=40,
    )  # fmt: skip
    length, weights, twin_means, covariances = twin_componentwise(
        points, means, 1.5, regularisation=1e-6, tolerance=1e-5, longest=40
    )
    np.testing.assert_allclose(ours["message_length"], length, rtol=1e-9)
    np.testing.assert_allclose(ours["weights"], weights, rtol=1e-6)
    np.testing.assert_allclose(ours["means"], twin_means, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours["covariances"], covariances, rtol=1e-5, atol=1e-6)


def test_more_starts_never_lengthen_the_message() -> None:
    points, _ = make_blobs(600, 3, centers=6, random_state=5)
    lengths = [
        ComponentwiseGaussianMixture(n_init=starts, random_state=1).fit(points).message_length_
        for starts in (1, 2, 4, 8)
    ]
    assert lengths == sorted(lengths, reverse=True)


def test_points_far_from_every_component_have_finite_log_densities() -> None:
    points, _ = make_blobs(500, 40, centers=2, random_state=1)
    mixture = ComponentwiseGaussianMixture(random_state=0).fit(points)
    far = mixture.score_samples(points[:5] + 1e6)
    assert np.isfinite(far).all() and (far < -1e6).all()
    assert np.isfinite(mixture.predict_proba(points + 1e4)).all()


def test_a_singular_covariance_is_an_error_with_a_remedy() -> None:
    copies = np.column_stack([np.arange(50.0)] * 3)
    with pytest.raises(NetreproError, match="standardise"):
        ComponentwiseGaussianMixture(reg_covar=0.0, random_state=0).fit(copies)
    with pytest.raises(NetreproError, match="n_init"):
        ComponentwiseGaussianMixture(n_init=0).fit(copies)


def test_the_prior_decides_where_the_likelihoods_are_equal() -> None:
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(4000, 2)), np.repeat(["many", "few"], [3600, 400])
    mle, weighted = (
        MixturePerClassClassifier(prior=prior, max_components=1, random_state=0).fit(points, labels)
        for prior in ("mle", "map")
    )
    assert 0.2 < (mle.predict(points) == "few").mean() < 0.8
    assert (weighted.predict(points) == "few").mean() == 0
    difference = weighted.predict_log_proba(points) - mle.predict_log_proba(points)
    np.testing.assert_allclose(difference[:, 1] - difference[:, 0], np.log(9), rtol=1e-9)  # few, many


def test_the_posteriors_of_two_normal_classes_are_the_logistic_function() -> None:
    random = np.random.default_rng(1)
    points = np.concatenate([random.normal(-1, 1, 50_000), random.normal(1, 1, 50_000)])[:, None]
    labels = np.repeat([0, 1], 50_000)
    classifier = MixturePerClassClassifier(max_components=1, random_state=0).fit(points, labels)
    at = np.linspace(-2, 2, 9)[:, None]
    np.testing.assert_allclose(classifier.predict_proba(at)[:, 1], 1 / (1 + np.exp(-2 * at[:, 0])), atol=0.01)


def test_each_class_may_be_a_mixture_of_its_own() -> None:
    points, blob = make_blobs(3000, 2, centers=[(0, 0), (24, 0), (12, 0), (36, 0)], random_state=2)
    labels = np.isin(blob, (0, 1))
    scaled = StandardScaler().fit_transform(points)
    one, many = (
        MixturePerClassClassifier(max_components=count, random_state=0).fit(scaled, labels) for count in (1, 8)
    )
    assert one.score(scaled, labels) < 0.7 < 0.99 < many.score(scaled, labels)
    assert [mixture.n_components_ for mixture in many.mixtures_] == [2, 2]


def test_a_class_of_one_row_and_an_unknown_prior_are_errors() -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(NetreproError, match="class 'P2P' has one row"):
        MixturePerClassClassifier().fit(points, ["WEB"] * 19 + ["P2P"])
    with pytest.raises(NetreproError, match="map"):
        MixturePerClassClassifier(prior="mapp").fit(points, [1, 2] * 10)


def test_another_prior_on_fitted_mixtures_is_what_a_fit_with_that_prior_gives() -> None:
    points, labels = make_blobs([300, 60, 20], 3, cluster_std=6, random_state=2)
    by_size = MixturePerClassClassifier(random_state=4).fit(points, labels)
    alike = by_size.with_prior("mle")
    expected = MixturePerClassClassifier(prior="mle", random_state=4).fit(points, labels)
    np.testing.assert_array_equal(alike.predict_log_proba(points), expected.predict_log_proba(points))
    assert (alike.predict(points) != by_size.predict(points)).any() and by_size.prior == "map"
    with pytest.raises(NetreproError, match="no prior"):
        by_size.with_prior("maple")
