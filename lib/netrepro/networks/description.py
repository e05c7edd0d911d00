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
    except NetreproError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError, RecursionError) as error:
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


# End of a name -> the least (of what must be above 0) and the most that anything here can mean: the simulator's time is
# whole picoseconds, and no number of a description may make it overflow or stand still.
DOMAINS = {
    "_s": (1e-6, 1e6),
    "_ms": (1e-3, 1e9),
    "_us": (1.0, 1e12),
    "_mbps": (1e-6, 1e7),
    "_per_s": (1e-9, 1e12),
    "bytes": (1, 2**50),
    "packets": (1e-9, 2**31 - 1),
    "segments": (1, 2**31 - 1),
    "count": (1, 2**31 - 1),
    "seed": (0, 2**64 - 1),
}


MOST_COUNT = 2**31 - 1  # of what has no unit in its name


def domain(name: str) -> tuple[float, float]:
    """The least above 0 and the most of a field, by the unit in its name; 0 and infinity without one."""
    ends = [end for end in DOMAINS if name.endswith(end)]
    return DOMAINS[max(ends, key=len)] if ends else (0.0, math.inf)


def set_number(
    description: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
) -> None:
    """Check a number of a frozen dataclass and store it as float, so that 10 and 10.0 describe the same.

    Raises NetreproError when it is no finite number, not > above, >= least, <= most, or beyond its unit's `domain`.
    """
    value = getattr(description, name)
    smallest, largest = domain(name)
    most = min(most, largest)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        remedy = "give a finite number"
    elif above is not None and not value > above:
        remedy = f"give a number above {above:g}"
    elif above == 0 and value < smallest:
        remedy = f"give a number from {smallest:g} to {most:g}"
    elif (least is not None and value < least) or value > most:
        low = smallest if least is None else least
        remedy = f"give a number from {low:g}" + (f" to {most:g}" if most < math.inf else "")
    else:
        object.__setattr__(description, name, float(value))
        return
    raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", remedy)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def check_count(description: Any, name: str, least: int = 1, most: float = math.inf) -> None:
    """Raises NetreproError when the field is no whole number from `least` to `most`, or beyond its unit's `domain`."""
    value, unbound = getattr(description, name), most == math.inf
    most = min(most, domain(name)[1] if domain(name)[1] < math.inf else MOST_COUNT)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        is_large = isinstance(value, int) and value > most
        bounds = f"{least} or more" if unbound and not is_large else f"{least} to {most}"
        raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", f"give a whole number of {bounds}")


def check_one_of(description: Any, name: str, names: Sequence[str]) -> None:
    """Raises NetreproError, with the nearest name, when the field is none of the names."""
    value = getattr(description, name)
    if value not in names:
        raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", nearest(str(value), names))
