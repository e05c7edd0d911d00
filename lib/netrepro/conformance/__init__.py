"""Floor 2: conformance tests of a congestion control: scenarios and sentences as data, judged by traces.

scenarios : suites, read from data/conformance. readings : the vocabulary of sentences. traces : a run as a trace.
subjects : whatever may be tested. run : `conform` and its report. pictures : a picture of a scenario.
"""

from netrepro.conformance.run import (
    DEPARTS,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    ConformanceReport,
    GoldenDifference,
    Judged,
    conform,
    golden_hashes,
    write_golden_hashes,
)
from netrepro.conformance.scenarios import SUITES, ConformanceScenario, Sentence, Suite, load_controls, load_suite
from netrepro.conformance.subjects import CLAIMS, Subject, subject_of
from netrepro.conformance.traces import TcpTrace

__all__ = [
    "CLAIMS",
    "DEPARTS",
    "FAIL",
    "NOT_APPLICABLE",
    "PASS",
    "SUITES",
    "ConformanceReport",
    "ConformanceScenario",
    "GoldenDifference",
    "Judged",
    "Sentence",
    "Subject",
    "Suite",
    "TcpTrace",
    "conform",
    "golden_hashes",
    "load_controls",
    "load_suite",
    "subject_of",
    "write_golden_hashes",
]
