"""Component-wise EM (Figueiredo and Jain 2002) step by step in NumPy: the oracle of the compiled one."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def twin_componentwise(
    points: np.ndarray,
    means: np.ndarray,
    variance: float,
    *,
    regularisation: float,
    tolerance: float,
    longest: int,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Message length, weights, means and covariances of the shortest message."""
    rows, dimensions = points.shape
    parameters = dimensions + dimensions * (dimensions + 1) / 2
    weights = np.full(len(means), 1 / len(means))

    def part_of(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return mean, covariance, multivariate_normal(mean, covariance).logpdf(points)

    parts = [part_of(mean, variance * np.eye(dimensions)) for mean in means]
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None

    def log_joint() -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.array([density for *_, density in parts]) + np.log(weights)[:, None]

    while True:
        before = np.inf
        for _ in range(longest):
            m = 0
            while m < len(parts):
                joint = log_joint()
                share = np.exp(joint[m] - logsumexp(joint, axis=0))
                weights[m] = max(0, share.sum() - parameters / 2) / rows if len(parts) > 1 else 1
                if weights[m] == 0:
                    weights = np.delete(weights, m)
                    del parts[m]
                    weights /= weights.sum()
                    continue
                weights /= weights.sum()
                mean = share @ points / share.sum()
                deviations = points - mean
                covariance = (share[:, None] * deviations).T @ deviations / share.sum()
                parts[m] = part_of(mean, covariance + regularisation * np.eye(dimensions))
                m += 1
            length = (
                -logsumexp(log_joint(), axis=0).sum()
                + parameters / 2 * np.log(weights).sum()
                + (parameters + 1) / 2 * len(parts) * np.log(rows)
            )
            settled = abs(length - before) < tolerance * abs(length)
            before = length
            if settled:
                break
        if best is None or length < best[0]:
            twin_means, covariances = (np.array([part[i] for part in parts]) for i in (0, 1))
            best = (length, weights.copy(), twin_means, covariances)
        if len(parts) == 1:
            return best
        weakest = int(np.argmin(weights))
        weights = np.delete(weights, weakest)
        del parts[weakest]
        weights /= weights.sum()
