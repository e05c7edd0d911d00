"""Floor 1: captures to flows to features to classifiers."""

from netrepro.traffic.meter import FLOW_FEATURES, MeterResult, feature_sets, meter

__all__ = ["FLOW_FEATURES", "MeterResult", "feature_sets", "meter"]
