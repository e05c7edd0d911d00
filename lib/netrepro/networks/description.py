"""Descriptions: frozen dataclasses, their checks, and their JSON, for manifests and for other processes."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

import numpy as np

from netrepro.errors import NetreproError, nearest


@dataclasses.dataclass(frozen=True, repr=False)
class Numbers:
    """The numbers that a field may have, within the `domain` of the unit in its name.

    least, most : allowed ends. above, below : ends that are not allowed themselves. whole : True for whole numbers
    only. but : in words, a condition that depends on another field, which the class checks itself.
    """

    least: float | None = None
    above: float | None = None
    most: float = math.inf
    below: float = math.inf
    whole: bool = False
    but: str = ""

    def __repr__(self) -> str:
        """Return the text for signatures, without fields at their defaults."""
        given = (field.name for field in dataclasses.fields(self) if getattr(self, field.name) != field.default)
        return f"Numbers({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"


def whole(least: int = 1, most: float = math.inf, but: str = "") -> Numbers:
    """Allow whole numbers from `least` to `most`."""
    return Numbers(least=least, most=most, whole=True, but=but)


# Types of a description's fields; others are Annotated where they are used.
Positive = Annotated[float, Numbers(above=0)]
NotNegative = Annotated[float, Numbers(least=0)]
Share = Annotated[float, Numbers(least=0, most=1)]
PositiveShare = Annotated[float, Numbers(above=0, most=1)]
Count = Annotated[int, whole()]
CountFromZero = Annotated[int, whole(least=0)]

WHOLE, REAL = (int, np.integer), (int, float, np.integer, np.floating)  # types of numbers, but for bool

_KINDS: dict[str, type] = {}
_NUMBERS: dict[type, dict[str, Numbers]] = {}
_USUAL: dict[type, list[tuple[str, Numbers, type[Any], float, float]]] = {}  # see _usual
_FLAGS: dict[type, list[str]] = {}  # the fields that are true or false
Kind = TypeVar("Kind", bound=type)


def described(kind: Kind) -> Kind:
    """Register a frozen dataclass, so that to_json and from_json know it by its name (a class decorator).

    Its docstring gets a line for every field that is a number: the allowed values and their unit.
    """
    _KINDS[kind.__name__] = kind
    _NUMBERS[kind] = _numbers_of(kind)
    _USUAL[kind] = _usual(_NUMBERS[kind])
    _FLAGS[kind] = [field.name for field in dataclasses.fields(kind) if field.type in ("bool", "bool | None")]
    if kind.__doc__ and _NUMBERS[kind]:
        lines = [f"- `{name}`: {_said(name, numbers)}" for name, numbers in _NUMBERS[kind].items()]
        kind.__doc__ = "\n".join([inspect.cleandoc(kind.__doc__), "", "Numbers:", "", *lines, ""])
    return kind


def to_json(description: Any) -> str:
    """Write one line of JSON, the same for equal descriptions. Raises TypeError for anything else."""
    return json.dumps(_plain(description), allow_nan=False)


def from_json(text: str) -> Any:
    """Read the description that to_json wrote. Raises NetreproError for any other text."""
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


# End of a field's name -> its smallest value above 0 and its largest. The simulator counts whole picoseconds, and no
# number of a description may make its time overflow or stand still.
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


UNITS = {"_s": "s", "_ms": "ms", "_us": "us", "_mbps": "Mb/s", "_per_s": "a second"}
UNITS |= {name: name for name in ("bytes", "packets", "segments")}
MOST_COUNT = 2**31 - 1  # of a whole number without a unit in its name


def domain(name: str) -> tuple[float, float]:
    """Return a field's smallest value above 0 and its largest, by the unit in its name; 0 and infinity without one."""
    return DOMAINS.get(_end(name), (0.0, math.inf))


def _most_counted(name: str) -> float:
    """Return the largest whole number that a field of this name may have."""
    largest = domain(name)[1]
    return largest if largest < math.inf else MOST_COUNT


@cache
def _end(name: str) -> str:
    """Find the part of a field's name that tells the unit; "" where there is none."""
    return max((end for end in DOMAINS if name.endswith(end)), key=len, default="")


def _numbers_of(kind: type) -> dict[str, Numbers]:
    """Map field -> the numbers that its annotation names, an optional field's too."""
    known = dict(vars(sys.modules[kind.__module__]))
    numbers: dict[str, Numbers] = {}
    for field in dataclasses.fields(kind):
        try:
            hint = eval(field.type, known) if isinstance(field.type, str) else field.type
        except NameError:  # a class that is defined later: no number
            continue
        for part in (hint, *get_args(hint)):
            for each in getattr(part, "__metadata__", ()):
                if isinstance(each, Numbers):
                    numbers[field.name] = each
    return numbers


def _ends(name: str, numbers: Numbers) -> tuple[float, float]:
    """Return the least and the most that a field may have; without a unit, a least of 0 may mean all above 0."""
    smallest, largest = domain(name)
    largest = _most_counted(name) if numbers.whole else largest
    return smallest if numbers.least is None else numbers.least, min(largest, numbers.most)


def _said(name: str, numbers: Numbers) -> str:
    least, most = _ends(name, numbers)
    is_open = numbers.least is None and least == 0
    words = [f"above {_digits(least)}" if is_open else _digits(least)]
    if numbers.below < math.inf:
        words += ["to below", _digits(numbers.below)]
    elif most < math.inf:
        words += ["to", _digits(most)]
    elif not is_open:
        words += ["or more"]
    words += [UNITS[_end(name)]] if _end(name) in UNITS else []
    return " ".join(words) + (f"; {numbers.but}" if numbers.but else "")


def _digits(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def check_numbers(description: Any) -> None:
    """Check all flags, and all fields whose annotation names numbers; store those that need not be whole as float.

    Raises NetreproError as set_number and check_count, and for a flag that is neither True nor False; None passes where
    it is the field's default.
    """
    for name in _FLAGS[type(description)]:
        value = getattr(description, name)
        if value is True or value is False or (value is None and getattr(type(description), name) is None):
            continue
        if not isinstance(value, np.bool_):
            raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", "give True or False")
        object.__setattr__(description, name, bool(value))
    for name, numbers, stored, low, high in _USUAL[type(description)]:
        number: Any = getattr(description, name)
        # Large networks have a hundred thousand numbers, nearly all of which need no change.
        if type(number) is stored and low <= number <= high:
            continue
        if number is None and getattr(type(description), name, 0) is None:
            continue
        if numbers.whole:
            check_count(description, name, int(numbers.least or 0), numbers.most)
        else:
            limits = {"above": numbers.above, "least": numbers.least}
            set_number(description, name, **limits, most=numbers.most, below=numbers.below)


def _usual(numbers_of: dict[str, Numbers]) -> list[tuple[str, Numbers, type[Any], float, float]]:
    """List each number's name, its condition, the type that it is stored in, and the ends of its usual range."""
    rows: list[tuple[str, Numbers, type[Any], float, float]] = []
    for name, numbers in numbers_of.items():
        low, high = _ends(name, numbers)
        if numbers.above is not None:
            low = max(low, math.nextafter(numbers.above, math.inf))
        high = min(high, math.nextafter(numbers.below, 0.0))
        rows.append((name, numbers, int if numbers.whole else float, low, high))
    return rows


def set_number(
    description: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
    below: float = math.inf,
) -> None:
    """Check a number of a frozen dataclass and store it as float, so that 10 and 10.0 describe the same.

    Raises NetreproError when it is not finite, not > above, >= least, <= most, < below, or beyond its unit's
    `domain`.
    """
    value = getattr(description, name)
    smallest, largest = domain(name)
    most = min(most, largest)
    if isinstance(value, bool) or not isinstance(value, REAL) or not _is_finite(value):
        remedy = "give a finite number"
    elif above is not None and not value > above:
        remedy = f"give a number above {above:g}"
    elif above == 0 and value < smallest:
        remedy = f"give a number from {smallest:g} to {most:g}"
    elif value >= below:
        remedy = f"give a number below {below:g}"
    elif (least is not None and value < least) or value > most:
        low = smallest if least is None else least
        remedy = f"give a number from {low:g}" + (f" to {most:g}" if most < math.inf else "")
    else:
        object.__setattr__(description, name, float(value))
        return
    raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", remedy)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def check_count(description: Any, name: str, least: int = 1, most: float = math.inf) -> None:
    """Check a whole number of a frozen dataclass and store it as int.

    Raises NetreproError when it is not one from `least` to `most`, or beyond its unit's `domain`.
    """
    value = whole_number(getattr(description, name), f"{type(description).__name__}: {name}", least, most)
    object.__setattr__(description, name, value)


def whole_number(value: Any, what: str, least: int = 1, most: float = math.inf) -> int:
    """Return a whole number as int; NumPy's integers are allowed, 3.0 and True are not.

    what : its name in the error, with its unit at the end.

    Raises NetreproError when it is not one from `least` to `most`, or beyond its unit's `domain`.
    """
    top = min(most, _most_counted(what))
    if isinstance(value, bool) or not isinstance(value, WHOLE) or not least <= value <= top:
        is_large = isinstance(value, WHOLE) and value > top
        bounds = f"{least} or more" if most == math.inf and not is_large else f"{least} to {top}"
        raise NetreproError(f"{what} = {value!r}", f"give a whole number of {bounds}")
    return int(value)


def check_not_negative(value: Any, what: str) -> None:
    """Raise NetreproError unless a value is a finite number of 0 or more. what : its name in the error."""
    if isinstance(value, bool) or not isinstance(value, REAL) or not 0 <= value < math.inf:
        raise NetreproError(f"{what} = {value!r}", "give a number of 0 or more")


def check_positive(value: Any, what: str) -> None:
    """Raise NetreproError unless a value is a finite number above 0. what : its name in the error."""
    if isinstance(value, bool) or not isinstance(value, REAL) or not 0 < value < math.inf:
        raise NetreproError(f"{what} = {value!r}", "give a number above 0")


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return the entries of an iterable as a tuple; a single object, a string or a dict becomes a tuple of one."""
    is_several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    return tuple(given) if is_several else (given,)


def check_mapping(what: str, given: Any, example: str) -> None:
    """Raise NetreproError, with an example, unless a value is a dict."""
    if not isinstance(given, Mapping):
        raise NetreproError(f"{what} = {given!r}", f"give a dict: {what}={example}")


def check_one_of(description: Any, name: str, names: Sequence[str]) -> None:
    """Raise NetreproError, with the nearest name, when the field is none of the names."""
    value = getattr(description, name)
    if value not in names:
        raise NetreproError(f"{type(description).__name__}: {name} = {value!r}", nearest(str(value), names))
