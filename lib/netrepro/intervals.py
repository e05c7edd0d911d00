"""Confidence intervals, for verdicts and for the bars of pictures alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

CONFIDENCE = 0.95
_RESAMPLES = 20_000
# Two groups: a gap so many times as wide as the wider group, and so large a share of the mean (counts that differ by
# one are none). Of five values of a normal distribution, 1 in 100 look so.
_GAP, _LEAST_SHARE, _LEAST_VALUES = 5.0, 0.2, 5


class Interval(NamedTuple):
    """A confidence interval; a point where the value is exact."""

    low: float
    high: float


def student_interval(values: Sequence[float]) -> Interval:
    """Compute the 95 % confidence interval of the mean of two or more values (Student's t)."""
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(len(values))
    return Interval(mean - half, mean + half)


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """Compute the 95 % confidence interval of the mean of two or more values by resampling; within their range.

    The percentiles are wider than 2.5 and 97.5 %, by as much as Student's interval is wider than the normal one
    (Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69, 2015, section 4.4).
    """
    count = len(values)
    student = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(count / (count - 1))
    outside = float(ndtr(-student))
    ordered = np.sort(np.asarray(values, float))  # the interval does not depend on the order of repetitions
    means = np.random.default_rng(0).choice(ordered, (_RESAMPLES, count)).mean(axis=1)
    low, high = np.quantile(means, (outside, 1 - outside)).tolist()
    return Interval(low, high)


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Split the values at their greatest gap, where it leaves two groups of several values far apart, else None."""
    ordered = sorted(values)
    if len(ordered) < _LEAST_VALUES:
        return None
    at = max(range(2, len(ordered) - 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:at], ordered[at:]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    gap, least = high[0] - low[-1], max(_GAP * widest, _LEAST_SHARE * abs(statistics.fmean(ordered)))
    return (low, high) if gap > least else None


def mean_interval(values: Sequence[float], bounds: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """Compute the 95 % confidence interval of the mean of two or more values, none beyond the bounds.

    Student's, unless that reaches beyond the bounds or the values are in two groups: then by resampling.
    """
    interval = student_interval(values)
    is_within = bounds[0] <= interval.low and interval.high <= bounds[1]
    return interval if is_within and two_groups(values) is None else bootstrap_interval(values)
