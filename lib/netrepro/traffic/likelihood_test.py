"""Verification by likelihood test: is this flow of the class that it claims to be?

A claim is accepted where the log density of the flow under the claimed class reaches the class's threshold.
The half total error rate is the mean of the rates of false acceptance and false rejection
(Alizadeh et al., IEEE Access 8, 2020; its minimum there is 7.65 % with six packets).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from netrepro.errors import NetreproError
from netrepro.traffic.mixtures import MixturePerClassClassifier


@dataclass(frozen=True)
class ErrorRates:
    """Error rates (shares in 0..1) at one threshold of the log density (in nats)."""

    threshold: float
    false_acceptance: float
    false_rejection: float

    @property
    def half_total_error(self) -> float:
        """The mean of the two error rates, 0 to 1."""
        return (self.false_acceptance + self.false_rejection) / 2


def _split(scores: ArrayLike, genuine: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    scores, genuine = np.asarray(scores, float), np.asarray(genuine, bool)
    if genuine.all() or not genuine.any():
        raise NetreproError(
            "a likelihood test needs genuine claims and false ones", "give flows of two classes or more"
        )
    return scores[genuine], scores[~genuine]


def error_rates(scores: ArrayLike, genuine: ArrayLike, threshold: float) -> ErrorRates:
    """Compute the error rates if claims are accepted whose score is at least `threshold`.

    scores : (n,) log densities under the claimed class, in nats. genuine : (n,) whether each claim is true.
    """
    true_scores, false_scores = _split(scores, genuine)
    accepted, rejected = (false_scores >= threshold).mean(), (true_scores < threshold).mean()
    return ErrorRates(threshold, float(accepted), float(rejected))


def best_threshold(scores: ArrayLike, genuine: ArrayLike) -> ErrorRates:
    """Find, among the scores, the threshold of the least half total error rate; of several, the lowest."""
    true_scores, false_scores = (np.sort(part) for part in _split(scores, genuine))
    candidates = np.unique(np.concatenate([true_scores, false_scores]))
    rejected = np.searchsorted(true_scores, candidates, side="left") / len(true_scores)
    accepted = 1 - np.searchsorted(false_scores, candidates, side="left") / len(false_scores)
    best = int(np.argmin(rejected + accepted))
    return ErrorRates(float(candidates[best]), float(accepted[best]), float(rejected[best]))


def verify(
    classifier: MixturePerClassClassifier,
    tuning: tuple[ArrayLike, ArrayLike],
    testing: tuple[ArrayLike, ArrayLike],
) -> pd.DataFrame:
    """Find the best thresholds on `tuning` and compute their error rates on `testing`; each is (features, labels).

    Every flow claims every class in turn. Returns one row for each class: threshold in nats, and rates of false
    acceptance, false rejection and half total error in 0..1.
    """
    (tuning_x, tuning_y), (testing_x, testing_y) = tuning, testing
    tuning_scores = classifier.class_log_likelihood(tuning_x)
    testing_scores = classifier.class_log_likelihood(testing_x)
    rows = []
    for place, label in enumerate(classifier.classes_):
        threshold = best_threshold(tuning_scores[:, place], np.asarray(tuning_y) == label).threshold
        rates = error_rates(testing_scores[:, place], np.asarray(testing_y) == label, threshold)
        rows.append((label, threshold, rates.false_acceptance, rates.false_rejection, rates.half_total_error))
    names = ["class", "threshold", "false_acceptance", "false_rejection", "half_total_error"]
    return pd.DataFrame(rows, columns=names).set_index("class")
