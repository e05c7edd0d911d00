"""Machines driven in virtual time."""

from __future__ import annotations

import math

import pytest

from netrepro.errors import NetreproError
from netrepro.protocols import Event, Send, drive


class Counter:
    """Sends a number to the other at once, or after a pause, until it has seen `last`."""

    def __init__(self, other: str, begins: bool, last: int, pause_s: float = 0.0):
        self.other, self.begins, self.last, self.pause_s = other, begins, last, pause_s
        self.wake_at_s, self.number = math.inf, 0

    def start(self, now_s):
        return [Send(self.other, 1)] if self.begins else []

    def receive(self, now_s, sender, message):
        self.number, self.wake_at_s = message + 1, now_s + self.pause_s
        return [Event("got", message)]

    def wake(self, now_s):
        self.wake_at_s = math.inf
        return [Send(self.other, self.number)] if self.number <= self.last else []


def two(last: int, pause_s: float = 0.0) -> dict:
    return {"a": Counter("b", True, last, pause_s), "b": Counter("a", False, last, pause_s)}


def test_messages_take_their_delay_and_machines_their_pause():
    events = drive(two(4, 0.5), lambda *_: 0.25, 10.0)
    assert [(time_s, name, event.value) for time_s, name, event in events] == [
        (0.25, "b", 1),
        (1.0, "a", 2),
        (1.75, "b", 3),
        (2.5, "a", 4),
    ]


def test_without_an_end_it_stops_when_nothing_is_to_come():
    assert len(drive(two(4, 0.5), lambda *_: 0.25, math.inf)) == 4


def test_a_lost_message_ends_the_conversation():
    events = drive(two(9), lambda sender, to, message: None if message == 3 else 0.1, 10.0)
    assert [event.value for _, _, event in events] == [1, 2]


def test_a_machine_that_is_taken_out_has_crashed():
    machines = two(100)

    def crash(now_s):
        del machines["b"]
        return []

    events = drive(machines, lambda *_: 0.1, 10.0, at=[(0.35, crash)])
    # What b had sent before still arrives; the answer to it finds nobody.
    assert [(name, event.value) for _, name, event in events] == [("b", 1), ("a", 2), ("b", 3), ("a", 4)]


def test_what_comes_from_outside_is_carried_like_the_machines_own_messages():
    machines = {"a": Counter("b", False, 1), "b": Counter("a", False, 1)}
    events = drive(machines, lambda *_: 0.2, 1.0, at=[(0.5, lambda now_s: [("a", Send("b", 7))])])
    assert events == [(0.7, "b", Event("got", 7))]


def test_machines_that_never_let_time_pass_are_stopped():
    with pytest.raises(NetreproError, match="let time pass"):
        drive(two(10**9), lambda *_: 0.0, 1.0, most_events=1000)


def test_a_message_to_nobody_and_a_negative_delay_are_refused():
    with pytest.raises(NetreproError, match="no machine"):
        drive({"a": Counter("c", True, 1)}, lambda *_: 0.1, 1.0)
    with pytest.raises(NetreproError, match="delay"):
        drive(two(3), lambda *_: -1.0, 1.0)
