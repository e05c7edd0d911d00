"""Gaussian mixtures that find their own number of components, and a classifier with one mixture for each class.

Component-wise EM with the minimum message length criterion: M. A. T. Figueiredo and A. K. Jain, "Unsupervised
Learning of Finite Mixture Models", IEEE TPAMI 24(3), 2002. One mixture per class: H. Alizadeh et al., "Timely
Classification and Verification of Network Traffic Using Gaussian Mixture Models", IEEE Access 8, 2020.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import netrepro._core as _core
from netrepro.errors import NetreproError, nearest

Floats = NDArray[np.float64]


def _check_settings(estimator: ComponentwiseGaussianMixture | MixturePerClassClassifier) -> None:
    for name in ("max_components", "min_components", "n_init", "max_iter"):
        if getattr(estimator, name) < 1:
            raise NetreproError(f"{name} is {getattr(estimator, name)}", "it must be 1 or more")
    for name in ("tol", "reg_covar"):
        if getattr(estimator, name) < 0:
            raise NetreproError(f"{name} is {getattr(estimator, name)}", "it cannot be negative")


def _check_prior(prior: str) -> None:
    if prior not in ("map", "mle"):
        raise NetreproError(f"no prior {prior!r}", nearest(str(prior), ["map", "mle"]))


class ComponentwiseGaussianMixture(DensityMixin, BaseEstimator):
    """A mixture of full-covariance normal distributions, whose number is chosen by minimum message length.

    Parameters
    ----------
    max_components, min_components : the fit begins with the first number of components and goes down to the
        second; a component vanishes on the way if its points are too few to justify its parameters.
    n_init : number of starts from different random points; the mixture of the shortest message is kept.
    tol : relative change of the message length below which a fit counts as converged.
    max_iter : largest number of sweeps over the components in a fit.
    reg_covar : added to every variance. Features of very different scale should be standardised instead.
    random_state : seed or RandomState of the starting points.

    Attributes
    ----------
    n_components_, weights_ (k,), means_ (k, d), covariances_ (k, d, d) : the mixture.
    message_length_ : in nats, without constants. converged_ : whether the kept fit converged.
    n_iter_ : number of sweeps of all starts together.
    """

    def __init__(
        self,
        *,
        max_components: int = 15,
        min_components: int = 1,
        n_init: int = 3,
        tol: float = 1e-5,
        max_iter: int = 100,
        reg_covar: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.max_components = max_components
        self.min_components = min_components
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> ComponentwiseGaussianMixture:
        """Fit the mixture to the rows of X, shape (n, d). Raises NetreproError where a covariance is singular."""
        rows: Floats = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        _check_settings(self)
        random = check_random_state(self.random_state)
        features = np.ascontiguousarray(rows.T)
        # Starting variance in every direction, as in section 6 of the paper: a tenth of the largest variance.
        variance = max(float(np.var(features, axis=1).max()) / 10, self.reg_covar)
        count = min(self.max_components, len(rows))
        best: dict[str, Any] | None = None
        sweeps = 0
        for _ in range(self.n_init):
            means = rows[random.choice(len(rows), count, replace=False)]
            try:
                fitted = _core.fit_componentwise(
                    features,
                    means,
                    variance=variance,
                    smallest_count=min(self.min_components, count),
                    regularisation=self.reg_covar,
                    tolerance=self.tol,
                    longest_fit=self.max_iter,
                )
            except ValueError as error:
                raise NetreproError(
                    f"a mixture cannot be fitted: {error}",
                    "standardise the features, drop those that are constant or copies, or raise reg_covar",
                ) from None
            sweeps += fitted["sweeps"]
            if best is None or fitted["message_length"] < best["message_length"]:
                best = fitted
        assert best is not None
        self.weights_, self.means_, self.covariances_ = best["weights"], best["means"], best["covariances"]
        self.n_components_ = len(self.weights_)
        self.message_length_ = best["message_length"]
        self.converged_ = best["settled"]
        self.n_iter_ = sweeps
        return self

    def _joint_log_likelihood(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        features = np.ascontiguousarray(rows.T)
        densities = _core.gaussian_log_densities(features, self.means_, self.covariances_)
        return densities.T + np.log(self.weights_)

    def score_samples(self, X: ArrayLike) -> Floats:
        """Compute the log density of each row, in nats."""
        return logsumexp(self._joint_log_likelihood(X), axis=1)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Compute the mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Compute the probability of each component for each row, shape (n, k)."""
        joint = self._joint_log_likelihood(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the most probable component of each row."""
        return self._joint_log_likelihood(X).argmax(axis=1)

    def fit_predict(self, X: ArrayLike, y: object = None) -> NDArray[np.int64]:
        """Fit the mixture and return the most probable component of each row."""
        return self.fit(X).predict(X)


class MixturePerClassClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with one mixture for each class; it assigns a row to the class of the highest posterior.

    Parameters
    ----------
    prior : "map" weighs each class by its share of the training rows, "mle" weighs all classes equally.
    Others : as in ComponentwiseGaussianMixture.

    Attributes
    ----------
    classes_, class_count_, class_log_prior_ (c,) : names, training rows and log prior of the classes.
    mixtures_ : one ComponentwiseGaussianMixture for each class. n_iter_ : the largest of their numbers of sweeps.
    """

    def __init__(
        self,
        *,
        prior: str = "map",
        max_components: int = 15,
        min_components: int = 1,
        n_init: int = 3,
        tol: float = 1e-5,
        max_iter: int = 100,
        reg_covar: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.prior = prior
        self.max_components = max_components
        self.min_components = min_components
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> MixturePerClassClassifier:
        """Fit one mixture to the rows of each class. Raises NetreproError where a class has only one row."""
        rows, y = validate_data(self, X, y, dtype=np.float64)
        _check_settings(self)
        _check_prior(self.prior)
        check_classification_targets(y)
        self.classes_, place = np.unique(y, return_inverse=True)
        counts = np.bincount(place)
        if len(rows) > 1 and counts.min() < 2:
            lonely = self.classes_[counts.argmin()]
            raise NetreproError(f"class {str(lonely)!r} has one row", "a mixture needs two; leave the class out")
        settings = {name: value for name, value in self.get_params().items() if name != "prior"}
        settings["random_state"] = check_random_state(self.random_state)
        self.mixtures_ = [
            ComponentwiseGaussianMixture(**settings).fit(rows[place == label]) for label in range(len(counts))
        ]
        self.n_iter_ = max(mixture.n_iter_ for mixture in self.mixtures_)
        self.class_count_ = counts
        self.class_log_prior_ = self._log_prior()
        return self

    def _log_prior(self) -> Floats:
        counts = self.class_count_
        return np.log(counts / counts.sum() if self.prior == "map" else np.full(len(counts), 1 / len(counts)))

    def with_prior(self, prior: str) -> MixturePerClassClassifier:
        """Return a classifier with the same fitted mixtures and another prior."""
        check_is_fitted(self)
        _check_prior(prior)
        other = copy.copy(self)
        other.prior = prior
        other.class_log_prior_ = other._log_prior()
        return other

    def class_log_likelihood(self, X: ArrayLike) -> Floats:
        """Compute the log density of each row under each class, shape (n, c), without the prior."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.column_stack([mixture.score_samples(rows) for mixture in self.mixtures_])

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Compute the log posterior of each class, shape (n, c)."""
        joint = self.class_log_likelihood(X) + self.class_log_prior_
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Compute the posterior of each class, shape (n, c)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row."""
        place = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[place]
