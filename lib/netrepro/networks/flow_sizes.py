"""Flow-size distributions: published ones, a user's own, and what formulas need from them in closed form.

A distribution function that is linear between points is a mixture of uniform pieces and atoms, so every mean
below is a sum over segments of an antiderivative: no quadrature, no sampling error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np
from scipy.special import spence

from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import REAL, Positive, check_numbers, described
from netrepro.paths import data_dir

PACKET_BYTES = 1460
UNITS = ("packets", "bytes")
KNOWN_FLOW_SIZES = (
    "web_search",
    "data_mining",
    "web_search_bytes",
    "data_mining_bytes",
    "web_search_authors",
)


@described
@dataclass(frozen=True)
class FlowSizeDistribution:
    """A piecewise-linear distribution function of flow sizes, with atoms.

    Parameters
    ----------
    points : ((size, probability), ...), both non-decreasing, probability ending at 1. Two points of one size
        are an atom; a first probability above 0 is an atom at the first size.
    unit : "packets" or "bytes", of every size that goes in or comes out.
    name : for legends.
    packet_bytes : size of a packet, for conversions.

    Raises NetreproError for points that are no distribution function.
    """

    points: tuple[tuple[float, float], ...]
    unit: str = "packets"
    name: str = "flow sizes"
    packet_bytes: Positive = PACKET_BYTES

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise NetreproError(f"{self.name}: unit {self.unit!r} is not known", nearest(str(self.unit), UNITS))
        check_numbers(self)
        if not isinstance(self.points, Iterable) or not all(map(_is_pair, self.points)):
            raise NetreproError(f"{self.name}: points = {self.points!r}", "give pairs (size, probability)")
        problem = _first_problem(self.points)
        if problem:
            raise NetreproError(
                f"{self.name}: point {problem[0] + 1}: {problem[1]}", "give points of a distribution function"
            )

    # The pieces: arrays over segments, an atom being a segment without width.

    @cached_property
    def sizes(self) -> np.ndarray:
        """Sizes of the points, shape (points,); a first point with probability above 0 is an atom."""
        return np.array([size for size, _ in self._closed_points])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Probabilities of the points, shape (points,), from 0 to 1."""
        return np.array([probability for _, probability in self._closed_points])

    @property
    def _closed_points(self) -> tuple[tuple[float, float], ...]:
        first_size, first_probability = self.points[0]
        return self.points if first_probability == 0 else ((first_size, 0.0), *self.points)

    def _pieces(self, low: float | None, high: float | None) -> Iterator[tuple[float, float, float]]:
        """Yield (from, to, probability) of every piece that lies in low < size <= high; None is unbounded."""
        lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
        steps = zip(self.sizes[:-1], self.sizes[1:], np.diff(self.probabilities), strict=True)
        for start, end, mass in steps:
            if mass == 0:
                continue
            if start == end:
                if lowest < start <= highest:
                    yield start, end, mass
            elif (first := max(start, lowest)) < (last := min(end, highest)):
                yield first, last, mass * (last - first) / (end - start)

    def _partial_mean(
        self,
        function: Callable[[float], float],
        antiderivative: Callable[[float], float],
        low: float | None,
        high: float | None,
    ) -> float:
        """Compute E[function(X); low < X <= high], not divided by the probability of the range."""
        total = 0.0
        for first, last, mass in self._pieces(low, high):
            if first == last:
                total += mass * function(first)
            else:
                total += mass * (antiderivative(last) - antiderivative(first)) / (last - first)
        return total

    # Distribution and quantile.

    @property
    def smallest(self) -> float:
        """The smallest size, in `unit`."""
        return float(next(self._pieces(None, None))[0])

    @property
    def largest(self) -> float:
        """The largest size, in `unit`."""
        return float(list(self._pieces(None, None))[-1][1])

    def cdf(self, size: float | np.ndarray) -> np.ndarray:
        """Return P(X <= size); shape of `size`."""
        size = np.asarray(size, dtype=float)
        after = np.searchsorted(self.sizes, size, side="right")
        low = np.clip(after - 1, 0, len(self.sizes) - 1)
        high = np.clip(after, 0, len(self.sizes) - 1)
        width = self.sizes[high] - self.sizes[low]
        share = np.divide(size - self.sizes[low], width, out=np.zeros_like(size), where=width > 0)
        between = self.probabilities[low] + share * (self.probabilities[high] - self.probabilities[low])
        return np.where(after == 0, 0.0, np.where(after == len(self.sizes), 1.0, np.minimum(between, 1.0)))

    def quantile(self, probability: float | np.ndarray) -> np.ndarray:
        """Return the smallest size with cdf(size) >= probability; shape of `probability`.

        Raises NetreproError for a probability outside [0, 1].
        """
        probability = np.asarray(probability, dtype=float)
        if not np.all((probability >= 0) & (probability <= 1)):
            raise NetreproError(f"a quantile at {probability}", "give probabilities from 0 to 1")
        high = np.clip(np.searchsorted(self.probabilities, probability, side="left"), 1, None)
        low = high - 1
        rise = self.probabilities[high] - self.probabilities[low]
        share = np.divide(probability - self.probabilities[low], rise, out=np.zeros_like(probability), where=rise > 0)
        size = self.sizes[low] + share * (self.sizes[high] - self.sizes[low])
        # Rounding may leave cdf(size) one unit in the last place short of the probability: step up.
        for _ in range(4):
            size = np.where(
                (self.cdf(size) < probability) & (size < self.sizes[high]),
                np.minimum(np.nextafter(size, np.inf), self.sizes[high]),
                size,
            )
        return np.where(self.cdf(size) < probability, self.sizes[high], size)

    def sample(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Draw sizes by inversion, shape (count,), in `unit`."""
        return np.interp(random.random(count), self.probabilities, self.sizes)

    # Means.

    def share_of_flows_below(self, size: float) -> float:
        """Return P(X <= size)."""
        return float(self.cdf(size))

    def partial_mean(self, low: float | None = None, high: float | None = None) -> float:
        """Compute E[X; low < X <= high] in `unit`: what flows of this range add to the mean."""
        return self._partial_mean(lambda x: x, lambda x: x * x / 2, low, high)

    @cached_property
    def mean(self) -> float:
        """E[X], in `unit`."""
        return self.partial_mean()

    @cached_property
    def second_moment(self) -> float:
        """E[X^2], in `unit` squared."""
        return self._partial_mean(lambda x: x * x, lambda x: x**3 / 3, None, None)

    def share_of_bytes_below(self, size: float) -> float:
        """Compute the share of all bytes that flows of at most this size carry."""
        return self.partial_mean(None, size) / self.mean

    def _probability(self, low: float | None, high: float | None) -> float:
        mass = sum(mass for _, _, mass in self._pieces(low, high))
        if mass == 0:
            raise NetreproError(
                f"{self.name}: no flow is larger than {low} and at most {high} {self.unit}",
                f"flows have {self.smallest:g} to {self.largest:g} {self.unit}",
            )
        return mass

    def mean_inverse(self, low: float | None = None, high: float | None = None) -> float:
        """Compute E[1/X | low < X <= high], in 1/`unit`; infinite when sizes reach 0 with a density.

        Raises NetreproError when no flow lies in the range.
        """

        def inverse(x: float) -> float:
            return 1 / x if x > 0 else math.inf

        def logarithm(x: float) -> float:
            return math.log(x) if x > 0 else -math.inf

        return self._partial_mean(inverse, logarithm, low, high) / self._probability(low, high)

    def mean_rounds_per_size(self, initial_window: float, low: float | None = None, high: float | None = None) -> float:
        """Compute E[log2(X/k + 1)/X | low < X <= high], in 1/`unit`: the integral in (3) of the RepNet paper.

        `initial_window` is k in `unit`: a flow of X = k(2^n - 1) takes n rounds of slow start. The
        antiderivative is a dilogarithm, -Li2(-x/k)/ln 2. Raises NetreproError when no flow lies in the range
        or k is not positive.
        """
        if not initial_window > 0:
            raise NetreproError(f"an initial window of {initial_window} {self.unit}", "give a positive one")

        def rounds_per_size(x: float) -> float:
            limit = 1 / (initial_window * math.log(2))
            return math.log1p(x / initial_window) / math.log(2) / x if x > 0 else limit

        def antiderivative(x: float) -> float:
            return -float(spence(1 + x / initial_window)) / math.log(2)

        return self._partial_mean(rounds_per_size, antiderivative, low, high) / self._probability(low, high)

    # Other distributions made from this one.

    def conditional(self, low: float | None = None, high: float | None = None) -> FlowSizeDistribution:
        """Return the sizes of the flows with low < size <= high. Raises NetreproError when there are none."""
        total = self._probability(low, high)
        points: list[tuple[float, float]] = []
        reached = 0.0
        for first, last, mass in self._pieces(low, high):
            points.append((first, min(reached / total, 1.0)))
            reached += mass
            points.append((last, min(reached / total, 1.0)))
        points[-1] = (points[-1][0], 1.0)
        unique = tuple(dict.fromkeys(points))
        bounds = "".join([f" > {low:g}" if low is not None else "", f" <= {high:g}" if high is not None else ""])
        return replace(self, points=unique, name=self.name + bounds)

    def _scaled(self, factor: float, unit: str) -> FlowSizeDistribution:
        points = tuple((size * factor, probability) for size, probability in self.points)
        return replace(self, points=points, unit=unit)

    def in_packets(self) -> FlowSizeDistribution:
        """Return the same flows, sizes in packets (not rounded to whole ones)."""
        return self if self.unit == "packets" else self._scaled(1 / self.packet_bytes, "packets")

    def in_bytes(self) -> FlowSizeDistribution:
        """Return the same flows, sizes in bytes."""
        return self if self.unit == "bytes" else self._scaled(self.packet_bytes, "bytes")


def _is_pair(point: object) -> bool:
    return (
        isinstance(point, Sequence | np.ndarray) and len(point) == 2 and all(isinstance(value, REAL) for value in point)
    )


def _first_problem(points: Iterable[tuple[float, float]]) -> tuple[int, str] | None:
    """Return (index, reason) of the first point that spoils a distribution function, or None."""
    before: tuple[float, float] | None = None
    index = -1
    for index, (size, probability) in enumerate(points):
        if not (math.isfinite(size) and math.isfinite(probability)):
            return index, f"({size}, {probability}) is not finite"
        if size < 0:
            return index, f"size {size:g} is negative"
        if not 0 <= probability <= 1:
            return index, f"probability {probability:g} is outside 0 to 1"
        if before and size < before[0]:
            return index, f"size {size:g} is below the {before[0]:g} before it"
        if before and probability < before[1]:
            return index, f"probability {probability:g} is below the {before[1]:g} before it"
        if size == 0 and probability > 0:
            return index, f"a share {probability:g} of the flows has size 0"
        before = size, probability
    if index < 0 or before is None:
        return 0, "there are no points"
    if index == 0:
        return 0, "a distribution needs 2 points or more"
    if before[1] != 1:
        return index, f"the last probability is {before[1]!r}, not 1"
    return None


def load_flow_sizes(path_or_name: str | Path) -> FlowSizeDistribution:
    """Load a published distribution by name (KNOWN_FLOW_SIZES), or one from a CSV of points.

    The CSV has the header `size_packets,probability` or `size_bytes,probability`; `#` starts a comment.
    Raises NetreproError that names the file, the line and the reason.

    >>> round(load_flow_sizes("web_search").mean)
    1141
    """
    if not isinstance(path_or_name, str | PathLike):
        raise NetreproError(f"no flow sizes {path_or_name!r}", "give the path of a CSV file or a known name, as a str")
    if str(path_or_name) in KNOWN_FLOW_SIZES:
        path = data_dir("flow_sizes") / f"{path_or_name}.csv"
    else:
        path = Path(path_or_name)
        if not path.is_file():
            raise NetreproError(
                f"no flow sizes {str(path_or_name)!r}",
                f"give the path of a CSV file or a known name; {nearest(str(path_or_name), KNOWN_FLOW_SIZES)}",
            )
    header, rows = _rows(path)
    units = {"size_packets,probability": "packets", "size_bytes,probability": "bytes"}
    if ",".join(header) not in units:
        raise NetreproError(
            f"{path.name}: the header is {','.join(header)!r}",
            "write size_packets,probability or size_bytes,probability as the first line that is no comment",
        )
    points: list[tuple[float, float]] = []
    lines = []
    for line, row in rows:
        if len(row) != 2:
            raise NetreproError(f"{path.name}, line {line}: {len(row)} values", "write size,probability")
        points.append((_number(path, line, row[0]), _number(path, line, row[1])))
        lines.append(line)
    problem = _first_problem(points)
    if problem:
        where = f", line {lines[problem[0]]}" if lines else ""
        raise NetreproError(f"{path.name}{where}: {problem[1]}", "give points of a distribution function")
    return FlowSizeDistribution(tuple(points), units[",".join(header)], path.stem)


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Read the header and the (line number, values) of a CSV file, without comments and empty lines."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin a file with a byte-order mark
    except (OSError, UnicodeDecodeError) as error:
        raise NetreproError(f"{path.name} cannot be read: {error}", "give a CSV file of text") from error
    numbered = [(n, line.split("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    rows = [(n, [value.strip() for value in next(csv.reader([line]))]) for n, line in numbered if line]
    if not rows:
        raise NetreproError(f"{path.name} is empty", "give a header and a line for each point")
    return rows[0][1], rows[1:]


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise NetreproError(
            f"{path.name}, line {line}: {text!r} is not a number", "write plain decimal numbers"
        ) from None


def empirical_flow_sizes(
    sizes: Iterable[float], unit: str = "bytes", name: str = "own flows", packet_bytes: float = PACKET_BYTES
) -> FlowSizeDistribution:
    """Compute the empirical distribution of measured flow sizes: one atom for each distinct size.

    Raises NetreproError when there are no sizes, or one is not a positive finite number.
    """
    values = np.asarray(list(sizes), dtype=float)
    if values.size == 0:
        raise NetreproError(f"{name}: no flow sizes", "give one size or more")
    if not np.all(np.isfinite(values) & (values > 0)):
        raise NetreproError(f"{name}: a flow size is not a positive number", "drop empty flows first")
    distinct, counts = np.unique(values, return_counts=True)
    reached = np.concatenate([[0.0], np.cumsum(counts) / values.size])
    reached[-1] = 1.0
    points = []
    for size, low, high in zip(distinct, reached[:-1], reached[1:], strict=True):
        points += [(float(size), float(low)), (float(size), float(high))]
    return FlowSizeDistribution(tuple(points), unit, name, packet_bytes)
