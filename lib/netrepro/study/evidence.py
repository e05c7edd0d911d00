"""What is compared with a published claim, and how readings of one repetition become its value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.study.refusals import refuse_no_baseline


@dataclass(frozen=True)
class Evidence:
    """The evidence for a published claim: one or several readings of cases, and how they become the claim's value.

    control : the cases in which the mechanism is broken, in the same order; or an Evidence of its own.
    how : a function with one argument for each case, its reading; returns the claim's value. None: the reading itself.
    counted : readings are 0 or 1 a trial; successes and trials are summed over all repetitions.
    exact : a closed form, the same in every repetition; the first is taken.
    pooled : `how` gets the readings of all repetitions (repetition -> reading) of each case, and returns all values.
    where : function of a setting; true where the readings are evidence, as with the paper's own trace. None: always.
    checked_by : cases and names of checks; only these checks must hold for the evidence to be believed. (): all checks.
    """

    reading: str | tuple[str, ...]
    cases: str | tuple[str, ...]
    control: str | tuple[str, ...] | Evidence | None = None
    how: Callable[..., Any] | None = None
    counted: bool = False
    exact: bool = False
    pooled: bool = False
    where: Callable[[Any], bool] | None = None
    checked_by: tuple[str, ...] = ()

    @property
    def case_names(self) -> tuple[str, ...]:
        """The names of the cases, as a tuple where there is only one, too."""
        return (self.cases,) if isinstance(self.cases, str) else self.cases

    @property
    def broken(self) -> Evidence | None:
        """The control, as evidence."""
        if self.control is None or isinstance(self.control, Evidence):
            return self.control
        return replace(self, cases=self.control, control=None)


def as_it_is(value: Any) -> Any:
    """Return a number as it is; a Series or a table of two columns as a curve."""
    if isinstance(value, pd.Series):
        return [(float(x), float(y)) for x, y in value.items()]
    if isinstance(value, pd.DataFrame):
        return [tuple(map(float, row)) for row in value.itertuples(index=False)]
    return value


def ratio(ours: float, baseline: float) -> float:
    """Divide the first case by the second. Raises NetreproError where that reads 0."""
    refuse_no_baseline(baseline)
    return ours / baseline


def curve(xs: Sequence[float]) -> Callable[[pd.Series], list[tuple[float, float]]]:
    """Make a `how` that turns several readings, or those over a grid, into the curve [(x, reading), ...] at `xs`."""
    return lambda values: list(zip(map(float, xs), map(float, values), strict=True))


def least_first(*names: str) -> Callable[..., list[str]]:
    """Make a `how` that ranks the cases, under these names, by their readings.

    Equal readings are ranked in the reverse of the given order, so that a tie cannot agree with it.
    """
    return lambda *values: _ranked(names, values)


def greatest_first(*names: str) -> Callable[..., list[str]]:
    """Make a `how` that ranks like `least_first`, but with the greatest reading first."""
    return lambda *values: _ranked(names, [-value for value in values])


def least_first_by(share: float, *names: str) -> Callable[..., list[str]]:
    """Make a `how` that ranks like `least_first`, but takes a reading for less than another one only where it is less
    by more than this share of it (0.1: a tenth). With a smaller lead they are equal, which cannot agree with the order.

    Raises NetreproError for a share below 0 or from 1 on.
    """
    if not 0 <= share < 1:
        raise NetreproError(f"share = {share}", "a lead is a share of the greater reading, 0 <= share < 1")

    def ranked(*values: float) -> list[str]:
        order: list[int] = []
        for place in reversed(range(len(names))):
            before = next((at for at, other in enumerate(order) if _leads(values[place], values[other], share)), None)
            order.insert(len(order) if before is None else before, place)
        return [names[place] for place in order]

    return ranked


def _leads(value: float, other: float, share: float) -> bool:
    return value < other - share * abs(other)


def rankings(values: Mapping[str, Sequence[float] | np.ndarray]) -> list[list[str]]:
    """Rank the names in each repetition by their values, least first; equal values count against the order given."""
    return [_ranked(list(values), of_one) for of_one in zip(*values.values(), strict=True)]


def jackknife(repetitions: Collection[int], statistic: Callable[[int | None], float]) -> np.ndarray:
    """Return a value for each repetition: their mean is the statistic of all together, their spread the jackknife's.

    statistic : function of the repetition that is left out; None: computed from all repetitions.
    """
    whole = statistic(None)
    if len(repetitions) < 2:
        return np.array([whole])
    without = np.array([statistic(each) for each in repetitions])
    return whole + (len(without) - 1) * (without.mean() - without)


def _ranked(names: Sequence[str], values: Sequence[float]) -> list[str]:
    backwards = sorted(zip(values, range(len(names)), strict=True), key=lambda pair: (pair[0], -pair[1]))
    return [names[place] for _, place in backwards]


def jain(shares: Sequence[float] | np.ndarray | pd.Series) -> float:
    """Compute Jain's fairness index (1984): 1 where all get the same, 1/n where one gets all; NaN where all shares
    are 0."""
    values = np.asarray(shares, dtype=float)
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if values.any() else np.nan
