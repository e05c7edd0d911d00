"""The audit of labelled traffic: whether a classifier's score on a data set can be believed, and why not."""

from netrepro.traffic.auditing.against_meter import compare_with_meter
from netrepro.traffic.auditing.cicflowmeter import Fault, known_faults
from netrepro.traffic.auditing.columns import look_at_columns
from netrepro.traffic.auditing.duplicates import Duplicates, find_duplicates
from netrepro.traffic.auditing.picture import draw_audit
from netrepro.traffic.auditing.report import LIMITS, SAMPLE_ROWS, Audit, audit
from netrepro.traffic.auditing.scores import measure_scores

__all__ = [
    "LIMITS",
    "SAMPLE_ROWS",
    "Audit",
    "Duplicates",
    "Fault",
    "audit",
    "compare_with_meter",
    "draw_audit",
    "find_duplicates",
    "known_faults",
    "look_at_columns",
    "measure_scores",
]
