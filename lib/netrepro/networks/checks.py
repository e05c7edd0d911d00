"""Checks of a run: what must hold for its numbers to be believed, with the side on which each bound lies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

CHECK_COLUMNS = ["check", "value", "at_least", "at_most", "holds"]


@dataclass(frozen=True)
class Check:
    """Something that must hold of a run for its numbers to be believed; without a bound it is only shown."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def holds(self) -> bool:
        """True where the value is within the bounds. NaN is within none; without any bound it is True."""
        low = self.at_least is None or self.value >= self.at_least
        return bool(low and (self.at_most is None or self.value <= self.at_most))

    def row(self) -> tuple[Any, ...]:
        """Return the check as a row of CHECK_COLUMNS."""
        return self.name, self.value, self.at_least, self.at_most, self.holds


def check_table(checks: Iterable[Check]) -> pd.DataFrame:
    """Return a row for each check: check, value, at_least and at_most (NaN: no such bound), holds."""
    numbers = dict.fromkeys(("value", "at_least", "at_most"), float)
    return pd.DataFrame([each.row() for each in checks], columns=CHECK_COLUMNS).astype(numbers | {"holds": bool})
