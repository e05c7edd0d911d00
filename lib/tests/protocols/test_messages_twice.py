"""Every message between replicas arrives twice, in any order: nothing is counted, committed or executed twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_outputs import kinds

from netrepro.protocols import Send, drive
from netrepro.protocols.epaxos import Accept, Accepted, Attributes, Commit, EPaxosReplica, PreAccepted
from netrepro.protocols.machine import Machine, Output
from netrepro.protocols.multi_paxos import Accepted as PaxosAccepted
from netrepro.protocols.multi_paxos import MultiPaxosReplica
from netrepro.protocols.replicated_store import Command, Request

NAMES = ("a", "b", "c", "d", "e")


class Twice:
    """A machine each of whose messages to its like is sent twice."""

    def __init__(self, machine: Machine):
        self.machine = machine

    @property
    def wake_at_s(self) -> float:
        return self.machine.wake_at_s

    def start(self, now_s: float) -> Iterable[Output]:
        return self._doubled(self.machine.start(now_s))

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        return self._doubled(self.machine.receive(now_s, sender, message))

    def wake(self, now_s: float) -> Iterable[Output]:
        return self._doubled(self.machine.wake(now_s))

    def _doubled(self, outputs: Iterable[Output]) -> list[Output]:
        return [each for output in outputs for each in [output] * (1 + self._is_between(output))]

    def _is_between(self, output: Output) -> bool:
        return isinstance(output, Send) and output.to in NAMES


def write(number: int, key: int = 1) -> Command:
    return Command("client", number, key, True)


@pytest.mark.parametrize("answer", ["PreAccepted", "Accepted"])
def test_epaxos_commits_with_two_answers_of_two_replicas_not_with_one_answer_twice(answer):
    leader = EPaxosReplica("a", NAMES, fast_path=answer == "PreAccepted")
    leader.receive(0.0, "client", Request(write(0)))
    attributes = Attributes(1, (-1,) * 5)
    if answer == "Accepted":
        for name in "bc":
            leader.receive(0.0, name, PreAccepted((0, 0), attributes))
    message = Accepted((0, 0)) if answer == "Accepted" else PreAccepted((0, 0), attributes)
    assert [kinds(leader.receive(0.0, name, message)) for name in "bb"] == [[], []]
    assert kinds(leader.receive(0.0, "c", message)) == ["committed", *["Commit"] * 4, "executed", "Reply"]
    assert kinds(leader.receive(0.0, "d", message)) == []


def test_an_accept_or_a_commit_that_comes_twice_changes_nothing():
    replica, attributes = EPaxosReplica("b", NAMES), Attributes(1, (-1,) * 5)
    for _ in range(2):
        assert kinds(replica.receive(0.0, "a", Accept((0, 0), write(0), attributes))) == ["Accepted"]
    commit = Commit((0, 0), write(0), attributes)
    assert [kinds(replica.receive(0.0, "a", commit)) for _ in range(2)] == [["executed"], []]


def test_multi_paxos_counts_each_replica_once():
    leader = MultiPaxosReplica("a", NAMES, "a")
    leader.receive(0.0, "client", Request(write(0)))
    assert [kinds(leader.receive(0.0, name, PaxosAccepted(0))) for name in "bb"] == [[], []]
    assert kinds(leader.receive(0.0, "c", PaxosAccepted(0)))[0] == "committed"
    assert [kinds(leader.receive(0.0, name, PaxosAccepted(0))) for name in "cd"] == [[], []]


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("protocol", ["epaxos", "epaxos, three", "epaxos, slow", "multi-paxos"])
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12))
def test_every_command_is_executed_once_and_writes_of_a_key_in_one_order_everywhere(protocol, loss, seed, count):
    """With losses, which neither repairs, some replicas wait for ever: each has done the first of that order."""
    random, names = Random(seed), NAMES[:3] if protocol.endswith("three") else NAMES
    machines: dict[Hashable, Any] = {
        name: Twice(
            MultiPaxosReplica(name, names, "a")
            if protocol == "multi-paxos"
            else EPaxosReplica(name, names, fast_path=protocol != "epaxos, slow")
        )
        for name in names
    }
    machines["client"] = Silent()
    asked = [(random.random() * 0.02, write(number, random.randrange(2))) for number in range(count)]

    def ask(command: Command) -> Callable[[float], list[tuple[Hashable, Output]]]:
        leader = "a" if protocol == "multi-paxos" else random.choice(names)
        return lambda now_s: [("client", Send(leader, Request(command)))]

    def delay_s(sender: Hashable, receiver: Hashable, message: Any) -> float | None:
        return None if "client" not in (sender, receiver) and random.random() < loss else random.random() * 0.01

    events = drive(machines, delay_s, 10.0, at=[(at_s, ask(each)) for at_s, each in asked])
    orders: dict[tuple[Hashable, int], list[int]] = defaultdict(list)
    for _, name, event in events:
        if event.kind == "executed":
            orders[name, event.value.key].append(event.value.number)
    committed = [event.value for _, _, event in events if event.kind == "committed"]
    assert len(committed) == len(set(map(repr, committed))) <= count
    for key in (0, 1):
        longest = max((orders[name, key] for name in names), key=len)
        assert len(longest) == len(set(longest))
        assert all(orders[name, key] == longest[: len(orders[name, key])] for name in names)
        if not loss:
            assert {len(orders[name, key]) for name in names} == {sum(each.key == key for _, each in asked)}


class Silent:
    """A client that hears its answers."""

    wake_at_s = float("inf")

    def start(self, now_s: float) -> Iterable[Output]:
        return ()

    receive = wake = lambda self, *_: ()
