"""A client of registers: one operation at a time, refusals, silence, late answers; and one copy of the registers."""

import math

import pytest

from netrepro.errors import NetreproError
from netrepro.protocols import Send
from netrepro.protocols.registers import (
    HISTORY_COLUMNS,
    Refusal,
    RegisterClient,
    Registers,
    Reply,
    Request,
    history_of,
)


def client(**more) -> RegisterClient:
    made = RegisterClient("client1", 1, ["n1", "n2", "n3"], ["x"], 1, interval_s=0.1, timeout_s=0.5, **more)
    made.start(0.0)
    return made


def begin(one: RegisterClient) -> tuple[float, Send]:
    now_s = one.wake_at_s
    (sent,) = one.wake(now_s)
    return now_s, sent


def test_registers_read_what_was_written_and_set_only_what_is_expected():
    copy = Registers()
    asked = [
        Request("1", "read", "x"),
        Request("2", "cas", "x", 5, None),
        Request("3", "cas", "x", 6, 4),
        Request("4", "read", "x"),
        Request("5", "write", "x", 7),
        Request("6", "read", "x"),
        Request("7", "read", "y"),
    ]
    assert [copy.execute(each).result for each in asked] == [None, True, False, 5, None, 7, None]


def test_it_has_one_operation_under_way_and_pauses_after_the_answer():
    one = client()
    now_s, sent = begin(one)
    assert 0.05 <= now_s <= 0.15 and sent.to == "n1" and one.wake_at_s == now_s + 0.5
    one.receive(now_s + 0.01, "n1", Reply(sent.message.id, 3))
    assert now_s + 0.06 <= one.wake_at_s <= now_s + 0.16
    (row,) = one.rows()
    assert (row[-2], row[-1]) == (now_s, now_s + 0.01)


def test_a_refusal_sends_it_with_the_same_operation_to_the_leader_or_to_the_next():
    one = client()
    now_s, first = begin(one)
    for sender, leader, to in (("n1", "n3", "n3"), ("n3", None, "n1"), ("n1", "n1", "n2")):
        assert not one.receive(now_s, sender, Refusal(first.message.id, leader))
        now_s = one.wake_at_s
        assert list(one.wake(now_s)) == [Send(to, first.message)]
    assert len(one.rows()) == 1


def test_silence_sends_it_to_the_next_with_another_operation_and_a_late_answer_counts():
    one = client()
    now_s, first = begin(one)
    assert list(one.wake(now_s + 0.5)) == []
    _, second = begin(one)
    assert second.to == "n2" and second.message.id != first.message.id
    one.receive(2.0, "n1", Reply(first.message.id, None))
    one.receive(3.0, "n1", Reply(first.message.id, None))
    table = history_of([one])
    assert table.answered_s.tolist()[0] == 2.0 and math.isnan(table.answered_s[1])
    assert one.wake_at_s < math.inf  # the second is still under way


def test_what_it_writes_is_written_by_nobody_else_and_what_it_expects_is_what_it_saw():
    clients = [
        RegisterClient(f"client{number}", number, ["n"], ["x"], 1, interval_s=0.1, timeout_s=0.5) for number in (1, 2)
    ]
    copy = Registers()
    for one in clients:
        one.start(0.0)
        for _ in range(50):
            now_s, sent = begin(one)
            one.receive(now_s, "n", copy.execute(sent.message))
    table = history_of(clients)
    written = table[table.op != "read"].value
    assert written.is_unique and list(table.columns) == HISTORY_COLUMNS and len(table) == 100
    # Alone with the register a client always finds what it has seen last.
    alone = table[(table.client == "client1") & (table.op == "cas")]
    assert len(alone) > 5 and alone.result.all()
    assert {None} == set(table.value[table.op == "read"])


def test_a_compare_and_set_that_has_not_set_teaches_it_nothing():
    one, expected = client(shares={"cas": 1.0}), []
    for result in (False, True, False, False):
        now_s, sent = begin(one)
        expected.append(sent.message.expected)
        one.receive(now_s, "n1", Reply(sent.message.id, result))
    second = one.rows()[1][4]
    assert expected == [None, None, second, second]


def test_it_begins_nothing_after_its_end_and_does_only_what_it_may():
    one = client(stop_s=0.2, shares={"read": 1.0})
    while one.wake_at_s < math.inf:
        now_s, sent = begin(one)
        one.receive(now_s, "n1", Reply(sent.message.id, None))
    assert one.rows() and all(row[3] == "read" and row[-2] < 0.2 for row in one.rows())


def test_mistakes_are_refused():
    with pytest.raises(NetreproError, match="0 nodes"):
        RegisterClient("c", 1, [], ["x"], 1)
    with pytest.raises(NetreproError, match="more than 0 seconds"):
        RegisterClient("c", 1, ["n"], ["x"], 1, timeout_s=0.0)
