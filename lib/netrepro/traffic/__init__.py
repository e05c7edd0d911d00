"""Floor 1: from captures to flows, from flows to features, and from features to classifiers."""

from netrepro.traffic.inspection import classify_inspected, inspect_capture
from netrepro.traffic.meter import FLOW_FEATURES, MeterResult, feature_sets, meter
from netrepro.traffic.metrics import class_scores, confusion, flow_totals, score_table
from netrepro.traffic.unibs import (
    CLASSES,
    NAMED_CLASSES,
    GroundTruth,
    TraceFiles,
    classify_label,
    find_unibs,
    read_ground_truth,
)

try:
    from netrepro.traffic.auditing import Audit, audit, draw_audit
    from netrepro.traffic.classifiers import (
        BASELINES,
        CLASSIFIERS,
        NEURAL,
        NORMALISATIONS,
        NeuralClassifier,
        evaluate,
        fit_predict,
        make_classifier,
        make_normaliser,
        oversample,
        signed_log,
    )
    from netrepro.traffic.feature_selection import MixtureFeatureSelector, search_features
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
    from netrepro.traffic.mixtures import ComponentwiseGaussianMixture, MixturePerClassClassifier
    from netrepro.traffic.rows import Rows, draw_flows, make_rows, of_large_classes
    from netrepro.traffic.sequences import packet_sequences, sequence_columns
    from netrepro.traffic.splits import day_split, grouped_splits, random_split
    from netrepro.traffic.standin import load_standin
    from netrepro.traffic.tables import LabelledTable, load_labelled
except ModuleNotFoundError as error:  # the base installation has no scikit-learn
    from netrepro.extras import absent

    __getattr__ = absent(error, __name__)

__all__ = [
    "BASELINES",
    "CLASSES",
    "CLASSIFIERS",
    "FLOW_FEATURES",
    "JOINS",
    "NAMED_CLASSES",
    "NEURAL",
    "NORMALISATIONS",
    "Audit",
    "Check",
    "ComponentwiseGaussianMixture",
    "ErrorRates",
    "GroundTruth",
    "Join",
    "JoinAudit",
    "LabelledFlows",
    "LabelledTable",
    "MeterResult",
    "MixtureFeatureSelector",
    "MixturePerClassClassifier",
    "NeuralClassifier",
    "Rows",
    "TraceFiles",
    "audit",
    "audit_join",
    "best_threshold",
    "class_scores",
    "classify_inspected",
    "classify_label",
    "confusion",
    "day_split",
    "draw_audit",
    "draw_flows",
    "error_rates",
    "evaluate",
    "feature_sets",
    "find_unibs",
    "fit_predict",
    "flow_totals",
    "grouped_splits",
    "inspect_capture",
    "join_labels",
    "load_labelled",
    "load_labelled_flows",
    "load_standin",
    "load_unibs",
    "make_classifier",
    "make_normaliser",
    "make_rows",
    "meter",
    "of_large_classes",
    "oversample",
    "packet_sequences",
    "random_split",
    "read_ground_truth",
    "score_table",
    "search_features",
    "sequence_columns",
    "signed_log",
    "verify",
]
