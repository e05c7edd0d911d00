"""A sweep: the same notebook over values of one parameter, one tidy table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.workbench.parameters import Parameter
from netrepro.workbench.sweeping import parse_range, sweep

LOAD = Parameter("load", "float", 0.5, "")
COUNT = Parameter("count", "int", 4, "")


def test_a_range_is_evenly_spaced_with_both_ends():
    assert parse_range("0.1..0.9", LOAD, 5) == [0.1, 0.3, 0.5, 0.7, 0.9]


@given(low=st.integers(-50, 50), span=st.integers(1, 100), points=st.integers(2, 20))
def test_a_range_of_whole_numbers_has_each_once_and_both_ends(low, span, points):
    values = parse_range(f"{low}..{low + span}", COUNT, points)
    assert values == sorted(set(values)) and all(type(value) is int for value in values)
    assert (values[0], values[-1]) == (low, low + span) and len(values) == min(points, span + 1)


def test_a_list_keeps_its_order_and_each_value_once():
    assert parse_range("3,1,3", COUNT, 9) == [3, 1]


@pytest.mark.parametrize("text", ["a..b", "0.1..", "1,x"])
def test_a_malformed_range_is_refused(text):
    with pytest.raises(NetreproError):
        parse_range(text, LOAD, 5)


def test_a_sweep_judges_every_value_and_leaves_a_table_and_a_figure(echo_paper, workbench):
    done = sweep("echo", "load=0.5,0.7", jobs=2)
    assert list(done.table["load"]) == [0.5, 0.7]
    assert list(done.table["value"]) == [0.5, 0.7]
    assert list(done.table["verdict"]) == ["agrees", "disagrees"]
    assert {path.name for path in done.folder.glob("sweep.*")} == {"sweep.csv", "sweep.png", "sweep.svg"}
    assert not list((workbench / "figures").iterdir())


@pytest.mark.parametrize(
    ("vary", "words"),
    [("laod=0..1", "did you mean 'load'"), ("load", "name=a..b"), ("profile=a..b", "list its values")],
)
def test_a_mistyped_sweep_is_refused_at_once(echo_paper, vary, words):
    with pytest.raises(NetreproError, match=words):
        sweep("echo", vary)
