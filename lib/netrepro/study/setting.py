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
from dataclasses import Field, field, fields
from typing import Any

from netrepro.allowed_values import Range
from netrepro.errors import NetreproError

NAME = re.compile(r"(\w+)\s*:")  # with which the line of a parameter begins


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
