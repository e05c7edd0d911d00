"""A paper's setting: each field declares a notebook's parameter once, with its default, help, unit and range.

    @dataclass(frozen=True)
    class Setting:
        rate_mbps: float = parameter(100.0, "of every link", "Mb/s", low=1, high=10_000)
        load: float = parameter(0.5, "of the bottleneck", "share", above=0, below=1)
        queue: str = "drop tail"  # changed by cases, not by a notebook

The notebook's line is `parameter_line` of the field; `make strip` writes it, and a test checks that they are equal.
A range limits what a person sets: `measure` and `run_once` check it. A study's cases may go beyond.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError, nearest

PATHS = {"a file": Path.is_file, "a folder": Path.is_dir}
EMPTY = "empty"
NAME = re.compile(r"(\w+)\s*:")  # with which the line of a parameter begins


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


def parameter(
    default: Any,
    help: str,
    unit: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    one_of: Sequence[str] = (),
) -> Any:
    """Declare a field that the notebook offers as a parameter.

    low, high : the least and the greatest value. above, below : bounds that are not allowed themselves. one_of : the
    allowed words.
    """
    limits = Range(
        low=next((bound for bound in (low, above) if bound is not None), -math.inf),
        high=next((bound for bound in (high, below) if bound is not None), math.inf),
        low_itself=above is None,
        high_itself=below is None,
        words=tuple(one_of),
    )
    return field(
        default=default, metadata={"help": help, "unit": unit, "limits": limits if limits != Range() else None}
    )


def parameter_fields(setting: Any) -> list[Field[Any]]:
    """List the fields of a setting (or of its class) that the notebook offers, in order."""
    return [each for each in fields(setting) if "help" in each.metadata]


def check_setting(setting: Any) -> None:
    """Raise NetreproError, with name, value and range, for a field beyond the range that it declares."""
    for each in parameter_fields(setting):
        limits, value = each.metadata["limits"], getattr(setting, each.name)
        if limits is not None and not limits.holds(value):
            unit = f" ({each.metadata['unit']})" if each.metadata["unit"] else ""
            raise NetreproError(f"{each.name} = {value!r} must be {limits.text(each.name)}{unit}", limits.advice(value))


def parameter_line(of: Field[Any]) -> str:
    """Write the line of a notebook's parameters cell: `name: type = default  # help (unit) [range]`."""
    help, unit, limits = (of.metadata[key] for key in ("help", "unit", "limits"))
    words = [help, f"({unit})" if unit else "", f"[{limits.text(of.name)}]" if limits is not None else ""]
    return f"{of.name}: {type(of.default).__name__} = {_literal(of.default)}  # {' '.join(filter(None, words))}"


def with_parameter_lines(source: str, parameters: Sequence[Field[Any]], others: Collection[str] = ()) -> str:
    """Return a parameters cell in which these fields' lines are as declared. Lines of `others` stay as they are; those
    of any other name go, as what they set is read by nothing. Without fields, the cell stays as it is."""
    if not parameters:
        return source
    declared = {each.name: parameter_line(each) for each in parameters}
    kept = []
    for line in source.splitlines():
        name = NAME.match(line)
        if name is None or name[1] in others:
            kept.append(line)
        elif name[1] in declared:
            kept.append(declared.pop(name[1]))
    return "\n".join([*kept, *declared.values()])


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:_}" if isinstance(value, int) and value >= 10_000 else repr(value)


def _number(value: float) -> str:
    if value != int(value):
        return repr(value)
    digits = str(int(value))
    return f"1e{len(digits) - 1}" if value >= 1e6 and not digits[1:].strip("0") and digits[0] == "1" else digits
