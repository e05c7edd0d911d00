"""The look of tables of claims in notebooks: numbers, intervals, a coloured edge for the verdict, wide columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from netrepro.workbench.notebook.looks import VERDICT_LOOKS


def number_text(value: Any) -> str:
    """Return a number with four significant digits; a text unchanged; "" for a missing value."""
    if isinstance(value, str):
        return value
    return "" if value is None or pd.isna(value) else f"{value:.4g}"


def interval_text(interval: tuple[float, float] | None, repetitions: int) -> str:
    """Return an interval as `low to high`; `exact` for a single exact value, `no spread` where all repetitions gave the
    same value, "" without an interval."""
    if interval is None or pd.isna(interval[0]):
        return ""
    low, high = interval
    if low == high:
        return "exact" if repetitions <= 1 else "no spread"
    return f"{low:.4g} to {high:.4g}"


def verdict_text(verdict: str, counts: bool) -> str:
    """Return a verdict, with "(does not count)" behind it where the claim does not count."""
    return verdict if counts else f"{verdict} (does not count)"


def dress(table: pd.DataFrame, *, wide: Sequence[str] = ()) -> Styler:
    """Style a table for reading: left-aligned, `wide` columns with room for a sentence, verdicts with their colour."""
    styles = [{"selector": "th, td", "props": "text-align: left; vertical-align: top; padding: 3px 6px"}]
    styled = table.style.set_table_styles(styles).format(precision=4, na_rep="").hide(axis="index")
    styled = styled.set_properties(subset=[name for name in wide if name in table], **{"min-width": "10em"})
    return styled.map(_edge, subset=["verdict"]) if "verdict" in table else styled


def _edge(text: str) -> str:
    colour, _ = VERDICT_LOOKS.get(text.split(" (")[0], ("#dddddd", ""))
    return f"border-left: 6px solid {colour}"
