"""Machines over real sockets: what is sent arrives as it was, timers are exact, the driver does what `drive` does."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.applications.datagrams import Post, drive_over_sockets
from netrepro.protocols import Event, Send
from netrepro.protocols.epaxos import Attributes, Commit, PreAccept
from netrepro.protocols.raft import AppendEntries, Entry
from netrepro.protocols.replicated_store import Command, Reply

KINDS = (AppendEntries, Entry, PreAccept, Commit, Attributes, Command, Reply)
numbers = st.integers(-(2**53), 2**53)
commands = st.builds(Command, st.one_of(numbers, st.text()), numbers, numbers, st.booleans())
attributes = st.builds(Attributes, numbers, st.tuples(numbers, numbers, numbers))
entries = st.lists(st.builds(Entry, numbers, st.text()), max_size=3).map(tuple)
messages = st.one_of(
    st.builds(AppendEntries, numbers, numbers, numbers, entries, numbers),
    st.builds(PreAccept, st.tuples(numbers, numbers), commands, attributes, st.floats(allow_nan=False)),
    st.builds(Reply, commands, st.one_of(st.none(), commands)),
)


def post(**more) -> Post:
    return Post({}, ("127.0.0.1", 0), KINDS, **more)


@given(st.text(), messages)
def test_a_message_arrives_as_it_was_sent(name, message):
    there = post()
    with there.socket:
        assert there.decode(there.encode([name, 7, message])) == (name, 7, message)


def test_a_kind_that_the_far_end_does_not_know_is_an_error():
    with (here := post()).socket:
        here.understand([Entry])
        with pytest.raises(KeyError, match="Command"):
            here.decode(here.encode([Command(1, 2, 3, True)]))


@dataclass(frozen=True, slots=True)
class Ball:
    bounces: int


class Player:
    """Returns a ball, and serves one when its alarm goes off."""

    def __init__(self, other: str, serves_after_s: float = math.inf):
        self.other, self.after_s, self.wake_at_s = other, serves_after_s, math.inf

    def start(self, now_s):
        self.wake_at_s = now_s + self.after_s
        return []

    def wake(self, now_s):
        late_s, self.wake_at_s = now_s - self.wake_at_s, math.inf
        return [Event("served", late_s), Send(self.other, Ball(0))]

    def receive(self, now_s, sender, message):
        answer = [Send(sender, Ball(message.bounces + 1))] if message.bounces < 10 else []
        return [Event("got", message.bounces), *answer]


def test_two_processes_play_over_sockets_and_no_alarm_is_early():
    posts = {name: Post({}, ("127.0.0.1", 0), [Ball]) for name in "ab"}
    addresses = {name: each.socket.getsockname() for name, each in posts.items()}
    seen: list[tuple[str, str, float]] = []
    players = {"a": Player("b", 0.02), "b": Player("a")}

    def play(name):
        posts[name].addresses = addresses
        end_s = time.monotonic() + 0.6
        drive_over_sockets(
            {name: players[name]}, posts[name], lambda _, who, e: seen.append((who, e.kind, e.value)), end_s
        )

    threads = [threading.Thread(target=play, args=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in posts.values():
        each.socket.close()
    assert [(who, value) for who, kind, value in seen if kind == "got"] == [("ba"[i % 2], i) for i in range(11)]
    assert [value >= 0 for _, kind, value in seen if kind == "served"] == [True]


def test_a_wait_counts_microseconds():
    with (here := post()).socket:
        begun = time.monotonic()
        assert all(here.wait(0.0002) is None for _ in range(10))
        assert time.monotonic() - begun >= 0.002


def test_programs_start_without_what_takes_long_to_import():
    code = "import sys, netrepro.applications.datagrams, netrepro.protocols.epaxos; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "asyncio"} & set(loaded)
