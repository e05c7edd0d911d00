"""The language: text to objects and back, and what it refuses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_points import POINTS, random_query, random_workload

from netrepro import NetreproError
from netrepro.verification.parsing import NAME, parse_query, parse_workload
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import (
    Comp,
    Difference,
    Line,
    Metric,
    Query,
    Same,
    Steps,
    Term,
    TimedSpec,
    Uniq,
    Workload,
)


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(POINTS)))
def test_what_is_printed_parses_to_the_same(seed, name):
    dice, point = random.Random(seed), POINTS[name]
    workload, query = random_workload(dice, point, dice.randint(0, 4)), random_query(dice, point)
    assert parse_workload(str(workload)) == workload
    assert parse_query(str(query)) == query


NAMES = st.from_regex(NAME, fullmatch=True)
METRICS, SIGNS, WHOLE = st.sampled_from(list(Metric)), st.sampled_from([">", ">=", "<", "<=", "="]), st.integers(-9, 99)
SETS = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)
TERMS, LINES = st.builds(Term, METRICS, SETS), st.builds(Line, WHOLE, WHOLE)
SPECS = st.one_of(
    st.builds(Comp, TERMS, SIGNS, st.one_of(TERMS, LINES)),
    st.builds(Same, METRICS, NAMES, st.booleans()),
    st.builds(Steps, METRICS, NAMES, st.booleans()),
    st.builds(Uniq, METRICS, SETS),
)
RANGES = st.tuples(st.integers(1, 20), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair)))
TIMED = st.builds(lambda spec, steps: TimedSpec(spec, *steps), SPECS, RANGES)


@given(specs=st.lists(TIMED, max_size=3), names=st.tuples(NAMES, NAMES), steps=RANGES, metric=METRICS, least=WHOLE)
def test_all_that_can_be_said_of_any_queue_can_be_written_and_read(specs, names, steps, metric, least):
    assert parse_workload(str(Workload(tuple(specs)))) == Workload(tuple(specs))
    left = Term(metric, names[:1]) if names[0] == names[1] else Difference(metric, *names)
    for quantifier in ("exists", "forall"):
        query = Query(quantifier, steps, left, metric, ">=", least)
        assert parse_query(str(query)) == query


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[²,4]: cenq(q0,t) >= 1", "whole number"),
        ("[1,4]: cenq(q0,t) >= 2 *", "'t'"),
        ("[1,4]: sum cenq({q0,q1,q0},t) >= 2", "twice"),
        ("[1,4]: cenk(q0,t) >= t", "cenq"),
        ("[1,4] cenq(q0,t) >= t", "':'"),
        ("[1,4]: cenq(q0,t) ~ 3", "'~'"),
        ("[1,4]: cenq(q0,t) >=", "the end"),
        ("[4,1]: cenq(q0,t) >= 1", "[4,1]"),
        ("[0,4]: cenq(q0,t) >= 1", "[0,4]"),
        ("[1,4]: cenq(q0,t) >= 1 or [1,2]: cenq(q0,t) >= 1", "'or'"),
        ("[1,4]: same(dst({q0,q1},t))", "2 queues"),
    ],
)
def test_a_wrong_word_is_named(text, word):
    with pytest.raises(NetreproError, match=r".*" + word.replace("[", r"\[").replace("]", r"\]")):
        parse_workload(text)


def test_an_ill_typed_query_is_refused():
    with pytest.raises(NetreproError, match="exist"):
        Query("some", (1, 2), "q0", "cenq", ">", 1)
    with pytest.raises(NetreproError, match="whole number"):
        Query("exists", (1, 2), "q0", "cenq", ">", 1.5)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="left side"):
        Query("exists", (1, 2), [], "cenq", ">", 1)
    with pytest.raises(NetreproError, match=r"\[3,2\]"):
        Query("exists", (3, 2), "q0", "cenq", ">", 1)
    with pytest.raises(NetreproError, match="one metric"):
        Query("exists", (1, 2), Term(Metric.CENQ, ("q0",)), "qsize", ">", 1)
    with pytest.raises(NetreproError, match="not a pair"):
        Query("exists", (1, 2, 3), "q0", "qsize", ">", 1)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="whole number"):
        Query("exists", (1.5, 2), "q0", "qsize", ">", 1)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="names 1 as a queue"):
        Query("exists", (1, 2), [1], "qsize", ">", 1)  # type: ignore[list-item]
    for word in ("quantifier", "metric"):
        with pytest.raises(NetreproError, match=f"no {word} is called 3"):
            Query(*(3 if word == "quantifier" else "exists", (1, 2), "q0", 3, ">", 1))  # type: ignore[arg-type]


def test_a_difference_knows_its_metric_by_its_name():
    two = Trace(1, {"a": [[(0, 0)] * 3], "b": [[]]}, {"a": [0], "b": [0]}, {"a": [0], "b": [0]})
    assert Difference("cenq", "a", "b") == Difference(Metric.CENQ, "a", "b")  # type: ignore[arg-type]
    assert Difference("cenq", "a", "b").value(two, 1) == 3  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="cenk"):
        Difference("cenk", "a", "b")  # type: ignore[arg-type]


def test_a_comparison_of_other_things_is_refused():
    with pytest.raises(NetreproError, match="Constant"):
        Comp(Term(Metric.CENQ, ("q",)), ">=", 3)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="whole number"):
        Line(0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="whole number"):
        TimedSpec(Same(Metric.DST, "q"), 1, 2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("time", [0, 3, -1])
def test_a_step_that_a_trace_does_not_have_is_refused(time):
    for ask in (lambda: trace([], []).metric("cenq", "q", time), lambda: trace([], []).offered("q", time)):
        with pytest.raises(NetreproError, match=f"no step {time}"):
            ask()


def trace(*arrivals: list[tuple[int, int]]) -> Trace:
    count = len(arrivals)
    return Trace(count, {"q": list(arrivals)}, {"q": [0] * count}, {"q": [0] * count})


def test_the_gap_between_packets_is_measured_as_published():
    gaps = trace([], [(0, 0)], [], [], [(0, 0)], [(0, 0), (0, 0)], [])
    assert [gaps.metric("aipg", "q", t) for t in range(1, 8)] == [0, 3, 3, 3, 3, 0, 0]
    assert [trace([], [(0, 0)], []).metric("aipg", "q", t) for t in (1, 2, 3)] == [0, 3, 3]


def test_a_field_is_valid_only_if_all_packets_of_the_step_agree():
    mixed = trace([], [(1, 0), (1, 1)], [(2, 0)])
    assert [mixed.metric("dst", "q", t) for t in (1, 2, 3)] == [None, 1, 2]
    assert [mixed.metric("ecmp", "q", t) for t in (1, 2, 3)] == [None, None, 0]


def test_same_forbids_the_mixed_first_step_that_the_original_lets_through():
    mixed_then_silent = trace([(1, 0), (2, 0)], [], [])
    corrected = Workload((TimedSpec(Same("dst", "q"), 1, 3),))
    assert not corrected.holds(mixed_then_silent)
    assert corrected.as_original().holds(mixed_then_silent)
    assert corrected.holds(trace([], [], [])) and corrected.as_original().holds(trace([], [], []))


def test_the_originals_form_drops_what_a_silent_queue_contradicts_and_nothing_else():
    kept = "[1,5]: cenq(q0,t) >= t and [1,3]: sum cenq({q1,q2},t) <= 0 and [5,5]: cenq(q1,t) >= 2"
    contradicted = "[2,5]: cenq(q1,t) >= 1 and [1,3]: sum cenq({q1,q2},t) > 0"
    dropped = parse_workload(f"{kept} and {contradicted}").as_original()
    assert dropped == parse_workload(kept)
    beside = parse_workload("[1,5]: cenq(q1,t) <= 0 and [1,5]: sum cenq({q0,q1},t) >= t")
    assert beside.as_original() == beside  # q0 may send


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(POINTS)))
def test_the_originals_form_allows_all_that_the_corrected_one_allows(seed, name):
    dice, point = random.Random(seed), POINTS[name]
    workload = random_workload(dice, point, dice.randint(1, 2))
    sent = point.simulate(point.random_arrivals(seed), seed=seed)
    assert workload.as_original().holds(sent) or not workload.holds(sent)
