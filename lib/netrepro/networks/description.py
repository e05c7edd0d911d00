"""Descriptions as JSON: frozen dataclasses in, equal ones out, for manifests and for other processes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from netrepro.errors import NetreproError, nearest

_KINDS: dict[str, type] = {}
Kind = TypeVar("Kind", bound=type)


def described(kind: Kind) -> Kind:
    """Class decorator: a frozen dataclass that to_json and from_json know by its name."""
    _KINDS[kind.__name__] = kind
    return kind


def to_json(description: Any) -> str:
    """One line of JSON, the same for equal descriptions. Raises TypeError for what is no description."""
    return json.dumps(_plain(description), allow_nan=False)


def from_json(text: str) -> Any:
    """The description that to_json wrote. Raises NetreproError for text that is none."""
    try:
        return _description(json.loads(text))
    except (json.JSONDecodeError, TypeError) as error:
        raise NetreproError(f"no description of an experiment: {error}", "give what to_json returned") from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if _KINDS.get(type(value).__name__) is not type(value):
            raise TypeError(f"{type(value).__name__} is no description")
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is no description")


def _description(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_description(item) for item in value)
    if isinstance(value, dict):
        kind = value.get("kind")
        if kind not in _KINDS:
            raise NetreproError(f"a description of kind {kind!r}", nearest(str(kind), _KINDS))
        return _KINDS[kind](**{name: _description(item) for name, item in value.items() if name != "kind"})
    return value


def set_number(
    description: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
) -> None:
    """Check a number of a frozen dataclass and store it as float, so that 10 and 10.0 describe the same.

    Raises NetreproError when it is no finite number, or not > above, >= least, <= most.
    """
    value = getattr(description, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        remedy = "give a finite number"
    elif above is not None and not value > above:
        remedy = f"give a number above {above:g}"
    elif (least is not None and value < least) or value > most:
        bounds = f"from {least:g}" if least is not None else ""
        remedy = f"give a number {bounds}" + (f" to {most:g}" if most < math.inf else "")
    else:
        object.__setattr__(description, name, float(value))
        return
    raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", remedy)


def check_count(description: Any, name: str, least: int = 1, most: float = math.inf) -> None:
    """Raises NetreproError when the field is no whole number from `least` to `most`."""
    value = getattr(description, name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", f"give a whole number of {bounds}")


def check_one_of(description: Any, name: str, names: Sequence[str]) -> None:
    """Raises NetreproError, with the nearest name, when the field is none of the names."""
    value = getattr(description, name)
    if value not in names:
        raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", nearest(str(value), names))
