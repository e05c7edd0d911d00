"""Linearizability of registers with compare-and-set and of operations without an answer."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.protocols.linearizability import violations
from netrepro.protocols.register_histories import (
    Operation,
    TooManyOrders,
    is_explained,
    operations_of,
    smallest_violation,
)
from netrepro.protocols.registers import HISTORY_COLUMNS

NEVER = math.inf


def write(value, sent_s, answered_s=NEVER):
    return Operation(f"write {value}", "write", value, None, None, sent_s, answered_s)


def read(result, sent_s, answered_s):
    return Operation(f"read {result} at {sent_s}", "read", None, None, result, sent_s, answered_s)


def cas(expected, value, sets, sent_s, answered_s=NEVER):
    return Operation(f"cas {expected} to {value}", "cas", value, expected, sets, sent_s, answered_s)


def explained(operations, value=None) -> bool:
    """Try every order (Wing and Gong, 1993)."""
    if all(each.is_pending for each in operations):
        return True
    for one in operations:
        others = [each for each in operations if each is not one]
        if any(each.answered_s < one.sent_s for each in others):
            continue
        fits, then = one.step(value)
        if fits and explained(others, then):
            return True
    return False


@st.composite
def histories(draw, ops=("read", "write", "cas"), pending=True):
    size = draw(st.integers(1, 6))
    times = draw(st.permutations(range(2 * size)))
    values = [None, *range(size)]
    found = []
    for place in range(size):
        sent_s, answered_s = sorted(times[2 * place : 2 * place + 2])
        op = draw(st.sampled_from(ops))
        is_pending = pending and draw(st.integers(0, 2)) == 0
        result = draw({"read": st.sampled_from(values), "write": st.none(), "cas": st.booleans()}[op])
        found.append(
            Operation(
                str(place),
                op,
                None if op == "read" else place,
                draw(st.sampled_from(values)) if op == "cas" else None,
                None if is_pending else result,
                sent_s / 8,
                NEVER if is_pending else answered_s / 8,
            )
        )
    return found


@given(histories())
def test_it_finds_what_trying_every_order_finds(operations):
    assert is_explained(operations) is explained(operations)


def test_an_answer_and_a_sending_at_one_instant_are_not_ordered():
    for gap_s, fits in ((0.0, True), (0.125, False)):
        assert is_explained([write(1, 0.0, 1.0), read(None, 1.0 + gap_s, 2.0)]) is fits


@given(histories(ops=("read", "write"), pending=False))
def test_without_compare_and_set_it_agrees_with_the_test_for_reads_and_writes(operations):
    rows = [
        (number, 1, each.op == "write", -1 if each.result is None else each.result, each.sent_s, each.answered_s)
        for number, each in enumerate(operations)
    ]
    columns = ["command", "key", "is_write", "value", "sent_s", "answered_s"]
    assert is_explained(operations) is violations(pd.DataFrame(rows, columns=columns)).empty


@given(histories())
def test_what_is_left_of_a_violation_is_one_by_itself(operations):
    found = smallest_violation(operations, "x")
    assert (found is None) is explained(operations)
    if found:
        left = [each for each in operations if each.id in found.operations]
        assert not explained(left) and len(found.sentences) == len(left)
        assert found.evident_s in {each.answered_s for each in operations}


def test_an_operation_without_an_answer_may_happen_late_or_never_but_not_before_it_was_sent():
    late = [write(1, 0.0), read(None, 1.0, 2.0), read(1, 3.0, 4.0)]
    never = [write(1, 0.0), read(None, 1.0, 2.0), read(None, 3.0, 4.0)]
    early = [read(1, 0.0, 1.0), write(1, 2.0)]
    back = [write(1, 0.0), read(1, 1.0, 2.0), read(None, 3.0, 4.0)]
    assert [is_explained(each) for each in (late, never, early, back)] == [True, True, False, False]


def test_of_two_compare_and_sets_of_one_value_only_one_sets():
    first = write(1, 0.0, 1.0)
    assert is_explained([first, cas(1, 2, True, 2.0, 5.0), cas(1, 3, False, 2.0, 5.0), read(2, 6.0, 7.0)])
    both = smallest_violation([first, cas(1, 2, True, 2.0, 5.0), cas(1, 3, True, 2.0, 5.0), read(2, 6.0, 7.0)], "x")
    assert both and len(both.operations) == 3  # the read shows nothing more
    assert "sets x = 2 if it is 1: done" in "; ".join(both.sentences)


def test_a_failed_compare_and_set_may_be_a_lost_writes_only_witness():
    seen = [write(1, 0.0, 1.0), write(2, 2.0), cas(1, 3, False, 3.0, 4.0)]
    assert is_explained(seen) and not is_explained([seen[0], seen[2]])


def test_a_read_of_an_old_value_is_shown_with_few_others():
    operations = [write(value, 10 * value, 10 * value + 1) for value in range(1, 30)]
    operations += [read(value, 10 * value + 2, 10 * value + 3) for value in range(1, 30)]
    stale = read(3, 155.0, 156.0)
    found = smallest_violation([*operations, stale], "x")
    assert found and found.evident_s == 156.0 and stale.id in found.operations and len(found.operations) <= 3


def test_many_writes_without_an_answer_take_no_time_and_what_takes_too_long_is_said():
    lost = [write(100 + number, 0.0) for number in range(60)]
    reads = [read(None, 1.0 + number, 1.5 + number) for number in range(40)]
    wrong = cas(None, 1, False, 50.0, 51.0), read(None, 52.0, 53.0)
    assert is_explained([*lost, *reads]) and not is_explained([*lost, *reads, *wrong])
    with pytest.raises(TooManyOrders, match="more than 3 ways"):
        is_explained([write(number, 0.0, 100.0) for number in range(9)] + [read(99, 1.0, 2.0)], most_states=3)


def test_a_table_is_read_key_by_key_and_nothing_is_none():
    rows = [
        ("a-1", "a", "x", "write", 1, None, None, 0.0, math.nan),
        ("a-2", "a", "y", "read", None, None, None, 1.0, 2.0),
    ]
    table = pd.DataFrame(rows, columns=HISTORY_COLUMNS, dtype=object)
    by_key = operations_of(table)
    assert by_key["x"][0].is_pending and by_key["y"][0].result is None and is_explained(by_key["y"])
