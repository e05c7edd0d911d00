"""What a Python function inside a node returns and raises is told in JSON, and arrives as it was."""

from __future__ import annotations

import datetime
import io
import ipaddress
import json
import subprocess
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from netrepro.emulation.call_guest import outcome_of
from netrepro.emulation.call_values import outcome_from
from netrepro.errors import NetreproError


def outcome(function: Callable[[], Any]) -> tuple[bool, Any]:
    return outcome_from(outcome_of(io.BytesIO(cloudpickle.dumps((function, (), {})))))


def returned(value: Any) -> Any:
    came, result = outcome(lambda: value)
    assert came
    return result


def raised(error: BaseException) -> BaseException:
    def fail() -> None:
        raise error

    came, result = outcome(fail)
    assert not came
    return result


PLAIN = some.one_of(
    some.none(), some.booleans(), some.integers(), some.floats(allow_nan=False), some.text(), some.binary(),
    some.complex_numbers(allow_nan=False), some.decimals(allow_nan=False), some.fractions(), some.dates(),
    some.datetimes(timezones=some.sampled_from([None, datetime.UTC])), some.times(), some.timedeltas(),
    some.ip_addresses(), some.just(Path("/a b/ü")), some.just(range(3, 9, 2)), some.just(bytearray(b"x")),
)  # fmt: skip
KEYS = some.one_of(some.text(), some.integers(), some.binary(), some.tuples(some.text(), some.integers()))
VALUES = some.recursive(
    PLAIN,
    lambda inner: some.one_of(
        some.lists(inner), some.tuples(inner, inner), some.dictionaries(KEYS, inner), some.sets(KEYS),
        some.frozensets(KEYS),
    ),
    max_leaves=10,
)  # fmt: skip


def same(value: Any, other: Any) -> bool:
    if type(value) is not type(other):
        return False
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(same(each, other[key]) for key, each in value.items())
    return value == other


@given(VALUES)
def test_a_value_arrives_as_it_was(value):
    assert same(returned(value), value)


def test_no_number_is_a_number_still():
    assert np.isnan(returned(float("nan"))) and returned(Decimal("nan")).is_nan()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.zeros((0, 3), np.float32), np.array(7),
        np.array(["a", "bb"]), np.array([1, "a", None, (2,)], dtype=object).reshape(2, 2),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]), np.array(["2020-01-01"], dtype="M8[ns]"),
    ],
)  # fmt: skip
def test_an_array_arrives_as_it_was(array):
    came = returned(array)
    assert (came.dtype, came.shape) == (array.dtype, array.shape) and (came == array).all()


@pytest.mark.parametrize("number", [np.float64(1.5), np.int8(-3), np.bool_(True), np.datetime64("2020-01-01", "ns")])
def test_a_number_of_an_array_arrives_as_it_was(number):
    assert same(returned(number), number)


FRAME = pd.DataFrame(
    {
        "whole": [1, 2],
        "text": ["x", None],
        "time": pd.to_datetime(["2020-01-01", "2021-01-01"]),
        "kind": pd.Categorical(["u", "v"]),
        "gaps": pd.array([1, None], dtype="Int64"),
        "mixed": [[1], {"k": (1,)}],
        3: [True, False],
    }
)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME, FRAME.set_index(["whole", "text"]), FRAME.iloc[:0], pd.DataFrame(), FRAME.T,
        pd.concat([FRAME, FRAME], axis=1), FRAME.iloc[1:].rename_axis("row"),
        FRAME.groupby("kind", observed=True)["whole"].agg(["mean", "max"]),
    ],
)  # fmt: skip
def test_a_frame_arrives_as_it_was(frame):
    pd.testing.assert_frame_equal(returned(frame), frame)


@pytest.mark.parametrize("column", FRAME.columns)
def test_a_series_arrives_as_it_was(column):
    pd.testing.assert_series_equal(returned(FRAME[column]), FRAME[column])
    pd.testing.assert_index_equal(returned(FRAME.columns), FRAME.columns)


@pytest.mark.parametrize("value", [pd.Timestamp("2020-01-01 00:00:00.123456789"), pd.Timedelta(5), pd.NaT, pd.NA])
def test_a_time_of_pandas_arrives_as_it_was(value):
    came = returned(value)
    assert came is value or came == value


class Own:
    pass


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Own(), "Own"), ([(Own(),)], "Own"), (np.array([Own()]), "Own"), (len, "builtin_function"),
        (np.ma.masked_array([1]), "MaskedArray"), (LOOP, "contains itself"),
        pytest.param(10**5000, "4300 digits", id="digits"),
        (pd.Series(pd.date_range("2020", periods=2, tz="UTC")), "UTC"), (subprocess.run(["true"]), "CompletedProcess"),
    ],
)  # fmt: skip
def test_what_cannot_travel_is_named(value, named):
    with pytest.raises(NetreproError, match=f"cannot return this: .*{named}.*\n.*return numbers"):
        returned(value)


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"), KeyError("name"), FileNotFoundError(2, "No such file", "/x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), StopIteration(3), SystemExit(4),
    ],
)  # fmt: skip
def test_a_built_in_error_arrives_as_it_was(error):
    came = raised(error)
    assert type(came) is type(error) and (came.args, str(came)) == (error.args, str(error))
    assert "in fail" in came.__notes__[0]


def test_an_error_of_ours_keeps_its_remedy():
    came = raised(NetreproError("no link", "add one"))
    assert type(came) is NetreproError and (came.problem, came.remedy) == ("no link", "add one")


class Refused(ConnectionError):
    pass


class Plain(Exception):
    pass


def test_an_error_of_another_class_arrives_as_the_nearest_that_python_has():
    for error, kind in ((Refused("by h3"), ConnectionError), (Plain("by h3"), RuntimeError)):
        came = raised(error)
        assert type(came) is kind and str(came) == f"{type(error).__name__}: by h3"
    came = raised(json.JSONDecodeError("no JSON", "x", 0))
    assert type(came) is ValueError and "no JSON" in str(came)
    assert type(raised(KeyError(Own()))) is RuntimeError


def test_addresses_and_fractions_are_no_texts():
    value = [ipaddress.ip_address("10.0.0.1"), Fraction(1, 3)]
    assert same(returned(value), value)
