"""Plain lines of at most 80 columns, the same on a terminal, in a pipe and in a log; nothing is cut off."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

COLUMNS = 80


def folded(text: str, first: str = "", later: str | None = None) -> list[str]:
    """A text in lines of at most 80 columns after what goes before; a word that is longer is broken.

    first, later : what stands before the first line and before the others (default: the same).
    """
    later = first if later is None else later
    lines = textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=later)
    return [line.rstrip() for line in lines] or [first.rstrip()]


def columns_of(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Rows in columns as wide as their widest cell, two blanks apart; the last column folds."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines: list[str] = []
    for row in rows:
        before = indent + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines += folded(row[-1], before, " " * len(before))
    return lines


def side_by_side(items: Sequence[str]) -> list[str]:
    """As many items in a line as fit, two blanks apart."""
    lines = [""]
    for item in items:
        longer = f"{lines[-1]}  {item}" if lines[-1] else item
        lines = [*lines, item] if len(longer) > COLUMNS else [*lines[:-1], longer]
    return lines
