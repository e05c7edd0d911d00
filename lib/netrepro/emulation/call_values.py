"""Reads what call_guest.py tells about a function's outcome, without trust: a program beside it may have written it.

Reading calls only the constructors below, with values of known types. So it runs no code, opens no file and imports
nothing, whatever is written. No pickle is as safe, even one of a few known classes: NumPy's own reconstruction of an
array takes bytes for pointers where its type has wrong flags.
"""

from __future__ import annotations

import base64
import builtins
import datetime
import io
import ipaddress
import json
import pathlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from netrepro.emulation.call_guest import TYPES_OF_PANDAS
from netrepro.errors import NetreproError


def outcome_from(written: bytes) -> tuple[bool, Any]:
    """Return (True, the function's value) or (False, the error that it raised, with its traceback as a note).

    Raises NetreproError for a value that call_guest.py could not tell, and where anything else is written.
    """
    try:
        outcome = json.loads(written)
        if set(outcome) == {"returned"}:
            return True, value_from(outcome["returned"])
        if set(outcome) == {"untold"}:
            untold = _text(outcome["untold"])
        else:
            name, arguments = outcome["raised"]
            error = _error(name, arguments, _text(outcome["said"]))
            BaseException.add_note(error, _text(outcome["traceback"]))
            return False, error
    except Exception as error:
        raise NetreproError(
            f"what is written as a function's result is none ({type(error).__name__})",
            "see what else runs inside the network: a program there can write over it",
        ) from None
    raise NetreproError(
        f"a function inside a node cannot return this: {untold}",
        "return numbers, texts, bytes, None, dates, paths, addresses, arrays of NumPy, frames, series and indices of "
        "pandas; and lists, tuples, sets and dicts of these",
    )


def value_from(content: Any) -> Any:
    """Return the value that `call_guest.told` has told. Raises an Exception of any kind where it has not."""
    if isinstance(content, list):
        return [value_from(each) for each in content]
    if not isinstance(content, dict):
        return content
    ((kind, inner),) = content.items()
    return _READERS[kind](inner)


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise TypeError
    return content


def _numbers(content: Any) -> list[int]:
    if not all(type(each) is int for each in content):
        raise TypeError
    return content


def _error(name: str, arguments: list[Any], said: str) -> BaseException:
    """Return an error of a built-in class, or NetreproError; RuntimeError where its class does not take these."""
    if name == "NetreproError":
        return NetreproError(*map(_text, arguments))
    kind = getattr(builtins, _text(name))
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise TypeError
    values = value_from(arguments)
    try:
        return kind(*values)
    except Exception:
        return RuntimeError(f"{name}: {said}")


def _array(content: str) -> np.ndarray:
    """Read an array in NumPy's file format, which is safe to read without pickles (NEP 1)."""
    return np.lib.format.read_array(io.BytesIO(base64.b64decode(_text(content))), allow_pickle=False)


def _objects(content: list[Any]) -> np.ndarray:
    shape, values = content
    array = np.empty(len(values), dtype=object)
    for place, each in enumerate(values):
        array[place] = value_from(each)
    return array.reshape(_numbers(shape))


def _column(content: list[Any]) -> Any:
    kind, *inner = content
    if kind == "category":
        codes, categories, ordered = inner
        return pd.Categorical.from_codes(value_from(codes), _column(categories), ordered=ordered is True)
    values = value_from(inner[0])
    if kind == "":
        return values
    if kind == "object":
        return _objects([[len(values)], inner[0]])
    return pd.array(values, dtype=TYPES_OF_PANDAS[TYPES_OF_PANDAS.index(kind)])


def _index(content: list[Any]) -> pd.Index:
    kind, *inner = content
    if kind == "levels":
        levels = [_index(each) for each in inner[0]]
        return pd.MultiIndex.from_arrays(levels, names=[each.name for each in levels])
    name = value_from(inner[0])
    if kind == "range":
        return pd.RangeIndex(*_numbers(inner[1]), name=name)
    values = _column(inner[1])
    return pd.Index(values, dtype=values.dtype, name=name)


def _frame(content: list[Any]) -> pd.DataFrame:
    columns, values, index = content
    frame = pd.DataFrame({place: _column(each) for place, each in enumerate(values)}, index=_index(index))
    frame.columns = _index(columns)
    return frame


def _series(content: list[Any]) -> pd.Series:
    name, values, index = content
    return pd.Series(_column(values), index=_index(index), name=value_from(name))


_READERS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda content: {key: value_from(each) for key, each in content.items()},
    "pairs": lambda content: {value_from(key): value_from(each) for key, each in content},
    "tuple": lambda content: tuple(value_from(list(content))),
    "set": lambda content: set(value_from(list(content))),
    "frozenset": lambda content: frozenset(value_from(list(content))),
    "bytes": lambda content: base64.b64decode(_text(content)),
    "bytearray": lambda content: bytearray(base64.b64decode(_text(content))),
    "complex": lambda content: complex(*content),
    "range": lambda content: range(*_numbers(content)),
    "Fraction": lambda content: Fraction(*_numbers(content)),
    "timedelta": lambda content: datetime.timedelta(*_numbers(content)),
    "date": lambda content: datetime.date.fromisoformat(_text(content)),
    "datetime": lambda content: datetime.datetime.fromisoformat(_text(content)),
    "time": lambda content: datetime.time.fromisoformat(_text(content)),
    "Decimal": lambda content: Decimal(_text(content)),
    "IPv4Address": lambda content: ipaddress.IPv4Address(_text(content)),
    "IPv6Address": lambda content: ipaddress.IPv6Address(_text(content)),
    "PosixPath": lambda content: pathlib.PosixPath(_text(content)),
    "scalar": lambda content: _array(content)[()],
    "array": _array,
    "objects": _objects,
    "missing": lambda content: {"NaT": pd.NaT, "<NA>": pd.NA}[content],
    "Timestamp": lambda content: pd.Timestamp(value_from(content)),
    "Timedelta": lambda content: pd.Timedelta(value_from(content)),
    "DataFrame": _frame,
    "Series": _series,
    "Index": _index,
}
