"""The values that a parameter may have: numbers in a range, or words.

It imports nothing else of the library, so that `netrepro list` is quick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netrepro.errors import nearest

PATHS = {"a file": Path.is_file, "a folder": Path.is_dir}
EMPTY = "empty"


@dataclass(frozen=True)
class Range:
    """The allowed values of a parameter: numbers in a range, or words.

    low_itself, high_itself : whether the end itself is allowed. words : "empty", "a file" and "a folder" stand for an
    empty text and for paths; others for themselves.
    """

    low: float = -math.inf
    high: float = math.inf
    low_itself: bool = True
    high_itself: bool = True
    words: tuple[str, ...] = ()

    def holds(self, value: Any) -> bool:
        """Tell whether a value, or every item of a list, is in the range."""
        if isinstance(value, list):
            return all(self.holds(item) for item in value)
        if isinstance(value, str):
            return self._holds_word(value)
        return self.low <= value <= self.high and (
            (self.low_itself or value != self.low) and (self.high_itself or value != self.high)
        )

    def _holds_word(self, word: str) -> bool:
        if word in self.words and word not in (*PATHS, EMPTY):
            return True
        if not word:
            return EMPTY in self.words
        return self.is_path(word)

    def is_path(self, value: Any) -> bool:
        """Tell whether a value is no word of the range but names a file or folder that the range allows."""
        if not isinstance(value, str) or not value or (value in self.words and value not in PATHS):
            return False
        return any(test(Path(value).expanduser()) for name, test in PATHS.items() if name in self.words)

    def text(self, name: str) -> str:
        """Put the range of a parameter of that name into words."""
        if self.words:
            return f"one of {', '.join(self.words)}"
        has_low, has_high = self.low > -math.inf, self.high < math.inf
        if has_low and has_high and self.low_itself and self.high_itself:
            return f"{_number(self.low)} to {_number(self.high)}"
        if not has_high:
            return f"{name} {'≥' if self.low_itself else '>'} {_number(self.low)}"
        below = f"{name} {'≤' if self.high_itself else '<'} {_number(self.high)}"
        return f"{_number(self.low)} {'≤' if self.low_itself else '<'} {below}" if has_low else below

    def advice(self, value: Any) -> str:
        """Return a hint: that a path is not there, or the nearest allowed word; "" for a value that is no text."""
        if not isinstance(value, str):
            return ""
        takes_paths, is_path = any(word in PATHS for word in self.words), "/" in value or "." in value
        if takes_paths and is_path and not Path(value).expanduser().exists():
            return f"{value} is not there"
        return nearest(value, [word for word in self.words if word != EMPTY])


def _number(value: float) -> str:
    if value != int(value):
        return repr(value)
    digits = str(int(value))
    return f"1e{len(digits) - 1}" if value >= 1e6 and not digits[1:].strip("0") and digits[0] == "1" else digits
