"""Runs one pickled function inside a node: call_guest.py [OUTCOME]; it reads the call from standard input.

The outcome goes to the file OUTCOME, or without that argument to file descriptor 3. It is JSON, {"returned": value} or
{"raised": [class, arguments], "said": text, "traceback": text}, and no pickle: whatever runs beside the function may
have written it. `told` writes a value, and call_values.py reads it.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import io
import ipaddress
import json
import os
import pathlib
import pickle
import sys
import traceback
from typing import Any

AS_THEY_ARE = (type(None), bool, int, float, str)
INTEGERS = (f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64))
TYPES_OF_PANDAS = ("str", "string", "boolean", "Float32", "Float64", *INTEGERS)
BY_TEXT = {
    kind: kind.__name__
    for kind in (
        datetime.date,
        datetime.datetime,
        datetime.time,
        decimal.Decimal,
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
        pathlib.PosixPath,
    )
}


def told(value: Any) -> Any:
    """Return a value as JSON has it: a plain value or list as it is, anything else as {kind: content}.

    Raises TypeError, naming the type, for what cannot be told, and RecursionError for what contains itself.
    """
    kind = type(value)
    if kind in AS_THEY_ARE:
        return value
    if kind is list:
        return [told(each) for each in value]
    if kind is dict and all(type(key) is str for key in value):
        return {"dict": {key: told(each) for key, each in value.items()}}
    if kind is dict:
        return {"pairs": [[told(key), told(each)] for key, each in value.items()]}
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [told(each) for each in value]}
    if kind in (bytes, bytearray):
        return {kind.__name__: base64.b64encode(value).decode()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if kind is fractions.Fraction:
        return {"Fraction": [value.numerator, value.denominator]}
    if kind is datetime.timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if kind in BY_TEXT and type(getattr(value, "tzinfo", None)) in (type(None), datetime.timezone):
        return {BY_TEXT[kind]: str(value) if not hasattr(value, "isoformat") else value.isoformat()}
    # A function that returns one of these has imported the package.
    for package, tells in (("numpy", _told_of_numpy), ("pandas", _told_of_pandas)):
        if package in sys.modules and (content := tells(sys.modules[package], value)) is not None:
            return content
    raise _not_told(value)


def _not_told(value: Any, which: str = "") -> TypeError:
    return TypeError(f"a value of the type {type(value).__module__}.{type(value).__qualname__}{which}")


def _told_of_numpy(np: Any, value: Any) -> dict[str, Any] | None:
    if isinstance(value, np.generic):
        return {"scalar": _npy(np, np.asarray(value))}
    if type(value) is not np.ndarray:
        return None
    if value.dtype == object:
        return {"objects": [list(value.shape), [told(each) for each in value.ravel()]]}
    return {"array": _npy(np, value)}


def _npy(np: Any, array: Any) -> str:
    """Return an array in NumPy's file format (numpy.lib.format, NEP 1), in base64."""
    file = io.BytesIO()
    try:
        np.lib.format.write_array(file, array, allow_pickle=False)
    except ValueError:
        raise _not_told(array, f" of {array.dtype}") from None
    return base64.b64encode(file.getvalue()).decode()


def _told_of_pandas(pd: Any, value: Any) -> dict[str, Any] | None:
    if value is pd.NaT or value is pd.NA:
        return {"missing": str(value)}
    if type(value) is pd.Timestamp and value.tzinfo is None:
        return {"Timestamp": told(value.to_datetime64())}
    if type(value) is pd.Timedelta:
        return {"Timedelta": told(value.to_timedelta64())}
    if type(value) is pd.DataFrame:
        columns = [_column(pd, value.iloc[:, place]) for place in range(value.shape[1])]
        return {"DataFrame": [_index(pd, value.columns), columns, _index(pd, value.index)]}
    if type(value) is pd.Series:
        return {"Series": [told(value.name), _column(pd, value), _index(pd, value.index)]}
    return {"Index": _index(pd, value)} if isinstance(value, pd.Index) else None


def _column(pd: Any, values: Any) -> list[Any]:
    """Return the values of a Series or an Index, with the type where it is none of NumPy's."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        given = getattr(values, "cat", values)
        return ["category", told(given.codes), _column(pd, given.categories), bool(given.ordered)]
    if values.dtype == object:
        return ["object", [told(each) for each in values]]
    if isinstance(values.dtype, sys.modules["numpy"].dtype):
        return ["", told(values.to_numpy())]
    if str(values.dtype) not in TYPES_OF_PANDAS:
        raise _not_told(values, f" of {values.dtype}")
    return [str(values.dtype), [None if pd.isna(each) else told(each) for each in values]]


def _index(pd: Any, index: Any) -> list[Any]:
    if type(index) is pd.MultiIndex:
        levels = [_index(pd, index.get_level_values(place)) for place in range(index.nlevels)]
        return ["levels", levels]
    if type(index) is pd.RangeIndex:
        return ["range", told(index.name), [index.start, index.stop, index.step]]
    return ["values", told(index.name), _column(pd, index)]


def told_error(error: BaseException, trace: str) -> dict[str, Any]:
    """Return an error as JSON has it. One of a class that only the function knows becomes its nearest built-in class,
    RuntimeError for Exception itself, with the class's name in its text."""
    kind = next(each for each in type(error).__mro__ if each.__module__ in ("builtins", "netrepro.errors"))
    said = str(error) if kind is type(error) else f"{type(error).__name__}: {error}"
    arguments: Any = [said]
    if kind.__module__ == "netrepro.errors":
        arguments = [error.problem, error.remedy]  # type: ignore[attr-defined]
    elif kind is type(error):
        try:
            arguments = [told(each) for each in error.__reduce__()[1]]
        except (TypeError, RecursionError):
            said, kind = f"{type(error).__name__}: {error}", RuntimeError
            arguments = [said]
    elif kind in (Exception, BaseException):
        kind = RuntimeError
    return {"raised": [kind.__name__, arguments], "said": said, "traceback": trace}


def outcome_of(call: Any) -> bytes:
    """Read a call (pickled by call.py) from a file, carry it out, and return its outcome."""
    try:
        function, arguments, keywords = pickle.load(call)
        value = function(*arguments, **keywords)
    except BaseException as error:
        return json.dumps(told_error(error, traceback.format_exc())).encode()
    try:
        return json.dumps({"returned": told(value)}).encode()
    except (TypeError, ValueError, RecursionError) as error:  # ValueError: an integer of thousands of digits
        why = "it contains itself, or is too deep" if isinstance(error, RecursionError) else str(error)
        return json.dumps({"untold": why}).encode()


def main(outcome_to: str | int = 3) -> None:
    with os.fdopen(0, "rb") as call:
        sys.path[:] = pickle.load(call)
        outcome = outcome_of(call)
    sys.stdout.flush()
    with open(outcome_to, "wb") as output:  # noqa: PTH123  a name or a descriptor
        output.write(outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
