"""Verification: the half total error rate of normal scores is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from netrepro.errors import NetreproError
from netrepro.traffic import MixturePerClassClassifier, best_threshold, error_rates, verify


@pytest.mark.parametrize("distance", [1.0, 3.0, 5.0])
def test_two_normal_classes_are_verified_at_the_error_rate_of_the_closed_form(distance: float) -> None:
    # One class is N(0, 1); its density accepts |x| < t. The other is N(distance, 1).
    def half_total_error(t: float) -> float:
        accepted = norm.cdf(t - distance) - norm.cdf(-t - distance)
        return (accepted + 2 * norm.sf(t)) / 2

    expected = minimize_scalar(half_total_error, bounds=(0, distance + 4), method="bounded").fun
    random = np.random.default_rng(2)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat([0, 1], 20_000)
        return (random.normal(size=40_000) + distance * labels)[:, None], labels

    classifier = MixturePerClassClassifier(max_components=1, random_state=0).fit(*draw())
    table = verify(classifier, draw(), draw())
    np.testing.assert_allclose(table["half_total_error"], expected, atol=0.01)


@given(scores=st.lists(st.integers(-5, 5), min_size=2, max_size=30), data=st.data())
def test_no_threshold_beats_the_best_one(scores: list[int], data: st.DataObject) -> None:
    genuine = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    if len(set(genuine)) < 2:
        with pytest.raises(NetreproError, match="genuine"):
            best_threshold(scores, genuine)
        return
    best = best_threshold(scores, genuine)
    again = error_rates(scores, genuine, best.threshold)
    assert np.isclose(best.half_total_error, again.half_total_error)
    for threshold in np.arange(-6, 7):
        assert best.half_total_error <= error_rates(scores, genuine, threshold).half_total_error + 1e-12


def test_scores_that_tell_nothing_give_half_errors() -> None:
    rates = best_threshold([1.0] * 10, [True] * 5 + [False] * 5)
    assert rates.half_total_error == 0.5


def test_shuffled_labels_make_verification_guess() -> None:
    random = np.random.default_rng(3)
    points = np.concatenate([random.normal(0, 1, (2000, 2)), random.normal(8, 1, (2000, 2))])
    labels = np.repeat(["a", "b"], 2000)
    shuffled = random.permutation(labels)
    true, broken = (
        verify(MixturePerClassClassifier(random_state=0).fit(points, y), (points, y), (points, y))
        for y in (labels, shuffled)
    )
    assert true["half_total_error"].max() < 0.01 < 0.4 < broken["half_total_error"].min()
