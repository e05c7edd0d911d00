"""Floor 1: captures to flows to features to classifiers."""

from netrepro.traffic.feature_selection import MixtureFeatureSelector
from netrepro.traffic.join import (
    JOINS,
    Check,
    Join,
    JoinAudit,
    LabelledFlows,
    audit_join,
    join_labels,
    load_labelled_flows,
    load_unibs,
)
from netrepro.traffic.likelihood_test import ErrorRates, best_threshold, error_rates, verify
from netrepro.traffic.meter import FLOW_FEATURES, MeterResult, feature_sets, meter
from netrepro.traffic.metrics import class_scores, confusion, flow_totals, score_table
from netrepro.traffic.mixtures import ComponentwiseGaussianMixture, MixturePerClassClassifier
from netrepro.traffic.splits import day_split, grouped_splits, random_split
from netrepro.traffic.unibs import (
    CLASSES,
    NAMED_CLASSES,
    GroundTruth,
    TraceFiles,
    classify_label,
    find_unibs,
    read_ground_truth,
)

__all__ = [
    "CLASSES",
    "FLOW_FEATURES",
    "JOINS",
    "NAMED_CLASSES",
    "Check",
    "ComponentwiseGaussianMixture",
    "ErrorRates",
    "GroundTruth",
    "Join",
    "JoinAudit",
    "LabelledFlows",
    "MeterResult",
    "MixtureFeatureSelector",
    "MixturePerClassClassifier",
    "TraceFiles",
    "audit_join",
    "best_threshold",
    "class_scores",
    "classify_label",
    "confusion",
    "day_split",
    "error_rates",
    "feature_sets",
    "find_unibs",
    "flow_totals",
    "grouped_splits",
    "join_labels",
    "load_labelled_flows",
    "load_unibs",
    "meter",
    "random_split",
    "read_ground_truth",
    "score_table",
    "verify",
]
