"""Confidence intervals, for verdicts and for the bars of pictures alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy.special import stdtrit

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A confidence interval; a point where the value is exact."""

    low: float
    high: float


def student_interval(values: Sequence[float]) -> Interval:
    """Compute the 95 % confidence interval of the mean of two or more values (Student's t)."""
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(len(values))
    return Interval(mean - half, mean + half)
