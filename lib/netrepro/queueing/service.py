"""Distributions of the sizes of jobs: constant, exponential or piecewise-linear, with exact moments.

Sizes are in packets and the server's capacity is one packet a time unit, so a size is also a service time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

import netrepro._core as _core
from netrepro.errors import NetreproError


class Service(Protocol):
    """A distribution of job sizes, in packets."""

    @property
    def mean(self) -> float:
        """The mean job size E[S], in packets."""

    @property
    def second_moment(self) -> float:
        """The second moment E[S²], in packets squared."""

    def residual_cdf(self, packets: np.ndarray) -> np.ndarray:
        """Compute P(rest of the job in service <= packets), as seen by an arrival that finds the server busy."""
        ...

    def sampler(self) -> _core.SizeSampler:
        """Return the compiled core's sampler of the same distribution."""
        ...


def _check_positive(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise NetreproError(f"{what} of {value}", "give a positive number of packets")


@dataclass(frozen=True)
class ConstantService:
    """Every job has the same size (the D of M/D/1). Raises NetreproError unless it is positive."""

    size_packets: float

    def __post_init__(self) -> None:
        _check_positive("a job size", self.size_packets)

    @property
    def mean(self) -> float:
        """The job size, in packets."""
        return self.size_packets

    @property
    def second_moment(self) -> float:
        """The job size squared, in packets squared."""
        return self.size_packets**2

    def residual_cdf(self, packets: np.ndarray) -> np.ndarray:
        """Compute P(rest of the job in service <= packets): a uniform distribution up to the job size."""
        return np.clip(packets / self.size_packets, 0, 1)

    def sampler(self) -> _core.SizeSampler:
        """Return the compiled core's sampler of this one size."""
        return _core.SizeSampler.constant(self.size_packets)


@dataclass(frozen=True)
class ExponentialService:
    """Exponential job sizes (the second M of M/M/1). Raises NetreproError unless the mean is positive."""

    mean_packets: float

    def __post_init__(self) -> None:
        _check_positive("a mean job size", self.mean_packets)

    @property
    def mean(self) -> float:
        """The mean job size, in packets."""
        return self.mean_packets

    @property
    def second_moment(self) -> float:
        """The second moment 2 E[S]², in packets squared."""
        return 2 * self.mean_packets**2

    def residual_cdf(self, packets: np.ndarray) -> np.ndarray:
        """Compute P(rest of the job in service <= packets): that of a whole job, as it has no memory."""
        return -np.expm1(-np.maximum(packets, 0) / self.mean_packets)

    def sampler(self) -> _core.SizeSampler:
        """Return the compiled core's sampler of the exponential distribution."""
        return _core.SizeSampler.exponential(self.mean_packets)


@dataclass(frozen=True)
class PiecewiseService:
    """Sizes from a piecewise-linear distribution function with atoms.

    `points` are ((size_packets, probability), ...), both non-decreasing from probability 0 to 1, as
    FlowSizeDistribution checks them. Raises NetreproError when the core cannot draw from them.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        try:
            self.sampler()
        except ValueError as error:
            raise NetreproError(f"job sizes: {error}", "give points of a distribution function") from error
        _check_positive("a mean job size", self.mean)

    @cached_property
    def _segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes, probabilities = np.array(self.points, dtype=float).T
        return sizes[:-1], sizes[1:], np.diff(probabilities)

    @cached_property
    def mean(self) -> float:
        """The mean job size E[S], in packets, exact."""
        low, high, mass = self._segments
        return float(np.sum(mass * (low + high) / 2))

    @cached_property
    def second_moment(self) -> float:
        """The second moment E[S²], in packets squared, exact."""
        low, high, mass = self._segments
        return float(np.sum(mass * (low**2 + low * high + high**2) / 3))

    def residual_cdf(self, packets: np.ndarray) -> np.ndarray:
        """Compute P(rest of the job in service <= packets), exact; packets : of any shape."""
        # P(residual <= x) = E[min(S, x)] / E[S], and E[min(S, x)] is a sum over segments.
        x = np.asarray(packets, dtype=float)[..., np.newaxis]
        low, high, mass = self._segments
        split = np.clip(x, low, high)
        width = np.where(high > low, high - low, 1.0)
        below = np.where(high > low, (split - low) / width, (x >= high).astype(float))
        least = below * (low + split) / 2 + (1 - below) * np.maximum(x, 0)
        return np.clip(np.sum(mass * least, axis=-1) / self.mean, 0, 1)

    def sampler(self) -> _core.SizeSampler:
        """Return the compiled core's sampler of the points."""
        sizes, probabilities = zip(*self.points, strict=True)
        return _core.SizeSampler.piecewise(sizes, probabilities)
