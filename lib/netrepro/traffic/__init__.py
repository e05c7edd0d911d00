"""Floor 1: captures to flows to features to classifiers."""

from netrepro.traffic.feature_selection import MixtureFeatureSelector
from netrepro.traffic.likelihood_test import ErrorRates, best_threshold, error_rates, verify
from netrepro.traffic.meter import FLOW_FEATURES, MeterResult, feature_sets, meter
from netrepro.traffic.mixtures import ComponentwiseGaussianMixture, MixturePerClassClassifier

__all__ = [
    "FLOW_FEATURES",
    "ComponentwiseGaussianMixture",
    "ErrorRates",
    "MeterResult",
    "MixtureFeatureSelector",
    "MixturePerClassClassifier",
    "best_threshold",
    "error_rates",
    "feature_sets",
    "meter",
    "verify",
]
