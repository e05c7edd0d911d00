"""Messages as a table: what arrives, what is lost, what is under way, and a network that is parted."""

import math

import pandas as pd
import pytest

from netrepro.protocols import Event, Send, drive
from netrepro.protocols.message_log import ARRIVED, LOST, UNDER_WAY, Letter, MessageLog, kind_of


class Beacon:
    """Sends its count to another each second, and tells what it hears."""

    def __init__(self, to):
        self.to, self.count, self.wake_at_s = to, 0, 1.0

    def start(self, now_s):
        return ()

    def wake(self, now_s):
        self.count, self.wake_at_s = self.count + 1, now_s + 1.0
        return [Send(self.to, {"kind": "even" if self.count % 2 == 0 else "odd", "count": self.count})]

    def receive(self, now_s, sender, message):
        return [Event("heard", (sender, message["count"]))]


def run(log: MessageLog, delay_s, until_s=6.5, at=()):
    machines = {"a": log.recorded("a", Beacon("b")), "b": log.recorded("b", Beacon("a"))}
    return drive(machines, delay_s, until_s, at=at), log.table(until_s)


def test_every_message_is_a_row_and_the_machines_do_what_they_did():
    events, table = run(MessageLog(), lambda *_: 0.25)
    plain = drive({"a": Beacon("b"), "b": Beacon("a")}, lambda *_: 0.25, 6.5)
    assert events == plain and len(table) == 12 and set(table.fate) == {ARRIVED}
    assert (table.received_s - table.sent_s).unique() == pytest.approx(0.25)
    assert set(table.kind[table.sent_s == 2.0]) == {"even"} and list(table.columns[:2]) == ["sender", "receiver"]


def test_a_lost_message_never_came_and_one_sent_just_before_the_end_is_under_way():
    def delay_s(sender, to, letter: Letter):
        return None if letter.message["count"] == 2 and sender == "a" else 0.75

    _, table = run(MessageLog(), delay_s)
    fates = table.groupby("fate").sent_s.unique()
    assert list(fates[LOST]) == [2.0] and list(fates[UNDER_WAY]) == [6.0]
    assert table.received_s.isna().sum() == 3


def test_nothing_passes_between_a_group_that_is_cut_off_and_others():
    log = MessageLog()
    cut = [(1.5, lambda _: log.cut_off(["a"]) or []), (4.5, lambda _: log.heal(["a"]) or [])]
    events, table = run(log, lambda *_: 0.75, at=cut)
    # Sent at 1 s they are on their way when the network is parted.
    assert set(table.sent_s[table.fate == LOST]) == {1.0, 2.0, 3.0, 4.0} and len(events) == 2
    assert not log.is_cut("a", "b")
    log.cut_off(["a", "b"])
    assert log.is_cut("a", "c") and not log.is_cut("a", "b")


def test_kinds_are_the_messages_own_or_their_classes():
    assert [kind_of(each) for each in ({"kind": "vote"}, {}, Letter(1, 2))] == ["vote", "message", "Letter"]


def test_nothing_sent_is_an_empty_table():
    table = MessageLog().table(math.inf)
    assert table.empty and isinstance(table, pd.DataFrame) and "fate" in table
