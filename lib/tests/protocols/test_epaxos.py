"""EPaxos, Multi-Paxos, their clients and the test for linearizability."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import permutations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols import Event, Send
from netrepro.protocols.epaxos import Accept, Attributes, Commit, EPaxosReplica, PreAccept, PreAccepted
from netrepro.protocols.linearizability import violations
from netrepro.protocols.multi_paxos import MultiPaxosReplica
from netrepro.protocols.replicated_store import Command, HoldBack, Processor, Reply, Request, StoreClient

FIVE = ("a", "b", "c", "d", "e")


def write(number: int, key: int = 1) -> Command:
    return Command("client", number, key, True)


def executed(replica: EPaxosReplica, commits: list[Commit]) -> list[Command]:
    """In which order a replica executes what it is told in this order."""
    outputs = [output for commit in commits for output in replica.receive(0.0, "a", commit)]
    return [each.value for each in outputs if isinstance(each, Event) and each.kind == "executed"]


def commit(leader: int, number: int, command: int, sequence: int, **dependencies: int) -> Commit:
    named = tuple(dependencies.get(name, -1) for name in FIVE)
    return Commit((leader, number), write(command), Attributes(sequence, named))


def test_two_equal_answers_commit_at_once_and_two_others_need_a_second_round():
    for answers, is_fast in (((3, 3), True), ((3, 4), False)):
        leader = EPaxosReplica("a", FIVE)
        sent = leader.receive(0.0, "client", Request(write(0)))
        assert [each.to for each in sent] == ["b", "c", "d", "e"]
        for name, sequence in zip("bc", answers, strict=True):
            told = PreAccepted((0, 0), Attributes(sequence, (-1, 7, -1, -1, -1)))
            outputs = list(leader.receive(0.0, name, told))
        committed = [each for each in outputs if isinstance(each, Event) and each.kind == "committed"]
        assert bool(committed) is is_fast
        assert all(type(each.message).__name__ == ("Commit" if is_fast else "Accept")
                   for each in outputs if isinstance(each, Send))  # fmt: skip


def test_a_replica_answers_with_the_last_write_of_each_replica_and_reads_leave_no_trace():
    replica = EPaxosReplica("e", FIVE)
    nothing = Attributes(1, (-1,) * 5)
    looks = [((0, 4), write(0)), ((1, 2), Command("client", 1, 1, False)), ((1, 3), write(2)), ((2, 0), write(3, 9))]
    answers = [
        replica.receive(0.0, "x", PreAccept(place, what, nothing))[0].message.attributes for place, what in looks
    ]
    assert answers == [
        Attributes(1, (-1, -1, -1, -1, -1)),
        Attributes(2, (4, -1, -1, -1, -1)),
        Attributes(2, (4, -1, -1, -1, -1)),  # not after the read
        Attributes(1, (-1, -1, -1, -1, -1)),  # another key
    ]


def test_an_accept_that_overtakes_an_earlier_pre_accept_makes_no_later_write_of_its_leader_a_dependency():
    replica, nothing = EPaxosReplica("e", FIVE), Attributes(1, (-1,) * 5)
    replica.receive(0.0, "a", Accept((0, 1), write(1), Attributes(2, (0, -1, -1, -1, -1))))
    (answer,) = replica.receive(0.0, "a", PreAccept((0, 0), write(0), nothing))
    assert answer.message.attributes.dependencies == nothing.dependencies


def test_a_circle_is_executed_by_sequence_numbers_once_all_of_it_is_committed():
    circle = [commit(0, 0, 0, 5, b=0), commit(1, 0, 1, 3, c=0), commit(2, 0, 2, 4, a=0)]
    for order in permutations(circle):
        replica = EPaxosReplica("e", FIVE, chain_fix=False)
        assert executed(replica, list(order[:2])) == []
        assert [each.number for each in executed(replica, [order[2]])] == [1, 2, 0]


def test_the_chain_fix_does_not_wait_for_what_runs_later_anyway():
    later = commit(1, 0, 1, 9, a=0, c=0)  # which itself waits for what is not committed
    earlier = commit(0, 0, 0, 3, b=0)
    for chain_fix, order in ((True, [0]), (False, [])):
        replica = EPaxosReplica("e", FIVE, chain_fix=chain_fix)
        assert [each.number for each in executed(replica, [later, earlier])] == order


def test_a_dependency_stands_for_all_writes_before_it_where_the_last_one_runs_later():
    """w depends on v' (and through it on v), v' runs later by the fix; v must run before w everywhere."""
    v, v_later = commit(0, 0, 0, 1, b=0), commit(0, 1, 2, 9, a=0, b=0)
    w = commit(1, 0, 1, 5, a=1)
    for order in permutations([v, v_later, w]):
        replica = EPaxosReplica("e", FIVE)
        assert [each.number for each in executed(replica, list(order))] == [0, 1, 2]


def tournament(draw) -> list[Commit]:
    """Writes of one key by five leaders, one each; of two at least one depends on the other."""
    size = draw(st.integers(2, 5))
    known: dict[int, dict[str, int]] = defaultdict(dict)
    for i in range(size):
        for j in range(i):
            which = draw(st.sampled_from(["first", "second", "both"]))
            if which != "second":
                known[i][FIVE[j]] = 0
            if which != "first":
                known[j][FIVE[i]] = 0
    return [commit(i, 0, i, draw(st.integers(1, 4)), **known[i]) for i in range(size)]


@given(st.data())
def test_the_order_of_writes_is_a_function_of_what_is_committed(data):
    commits = tournament(data.draw)
    for chain_fix in (True, False):
        orders = set()
        for order in list(permutations(commits))[:24]:
            replica = EPaxosReplica("e", FIVE, chain_fix=chain_fix)
            orders.add(tuple(each.number for each in executed(replica, list(order))))
        assert len(orders) == 1 and len(next(iter(orders))) == len(commits)


class OnlyFromTheRoot(EPaxosReplica):
    """The narrower rule: only the command that asks may leave out what runs later, and only direct dependencies."""

    def _try(self, root):
        self.root = root
        return super()._try(root)

    def _runs_later(self, place, other):
        return super()._runs_later(self.root, other)


def test_the_fix_from_the_asking_command_alone_may_order_two_writes_differently():
    """The reason for the deviation: v and w depend on each other, w on x, x on v; sequence v < w < x."""
    v, w, x = commit(0, 0, 0, 1, b=0), commit(1, 0, 1, 2, a=0, c=0), commit(2, 0, 2, 3, a=0)
    for rule, count in ((OnlyFromTheRoot, 2), (EPaxosReplica, 1)):
        orders = {tuple(each.number for each in executed(rule("e", FIVE), list(o))) for o in permutations([v, w, x])}
        assert len(orders) == count


def test_toq_holds_back_until_the_time_on_the_clock():
    replica = EPaxosReplica("e", FIVE, hold_back_s=dict.fromkeys(FIVE, 0.5), clock_error_s=0.125)
    message = PreAccept((0, 0), write(0), Attributes(1, (-1,) * 5), look_at_s=1.0)
    assert list(replica.receive(0.25, "a", message)) == [] and replica.wake_at_s == 0.875
    assert [each.to for each in replica.wake(0.875)] == ["a"] and replica.wake_at_s == math.inf
    assert len(list(replica.receive(2.0, "a", PreAccept((0, 1), write(1), message.attributes, 1.0)))) == 1


def test_replicas_refuse_what_they_are_not_made_for():
    for wrong in (lambda: EPaxosReplica("a", FIVE[:4]), lambda: EPaxosReplica("z", FIVE), lambda: Processor(None, -1),
                  lambda: MultiPaxosReplica("a", FIVE, "z"), lambda: StoreClient("a", [], [], 0, 1.0)):  # fmt: skip
        with pytest.raises(NetreproError):
            wrong()
    with pytest.raises(NetreproError, match="leader"):
        MultiPaxosReplica("b", FIVE, "a").receive(0.0, "client", Request(write(0)))


def test_a_client_keeps_to_its_cap_and_its_end():
    commands = [write(i) for i in range(5)]
    client = StoreClient("a", [0.1, 0.2, 0.3, 0.4, 3.0], commands, 2, 2.0)
    assert client.wake_at_s == 0.1 and len(list(client.wake(0.35))) == 4
    assert client.wake_at_s == math.inf  # two are under way
    answered = list(client.receive(0.38, "a", Reply(commands[0], commands[0])))
    assert [type(each) for each in answered] == [Event, Event, Send] and client.wake_at_s == math.inf
    client.receive(0.39, "a", Reply(commands[1], commands[1]))
    assert client.wake_at_s == 0.4 and len(list(client.wake(0.4))) == 2
    client.receive(2.5, "a", Reply(commands[2], commands[2]))
    assert client.wake_at_s == math.inf  # the end


def test_what_is_held_back_comes_out_in_order_of_its_time():
    held = HoldBack()
    for due_s, item in ((2.0, "b"), (1.0, "a"), (2.0, "c"), (9.0, "d")):
        held.put(due_s, item)
    assert list(held.due(2.0)) == ["a", "b", "c"] and held.next_s == 9.0


# Linearizability.


def explained(operations: list[dict], value: int = -1) -> bool:
    """By trying every order (Wing and Gong, 1993)."""
    if not operations:
        return True
    for one in operations:
        others = [each for each in operations if each is not one]
        if any(each["answered_s"] < one["sent_s"] for each in others):
            continue
        if (one["is_write"] and explained(others, one["command"])) or (
            not one["is_write"] and one["value"] == value and explained(others, value)
        ):
            return True
    return False


@given(st.data())
def test_the_test_for_linearizability_finds_what_trying_every_order_finds(data):
    size = data.draw(st.integers(1, 6))
    times = data.draw(st.permutations(range(2 * size)))
    is_write = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    sources = [i for i in range(size) if is_write[i]] + [-1]
    operations = [
        {
            "command": i,
            "key": 1,
            "is_write": is_write[i],
            "value": data.draw(st.sampled_from(sources)),
            "sent_s": float(min(times[2 * i : 2 * i + 2])),
            "answered_s": float(max(times[2 * i : 2 * i + 2])),
        }
        for i in range(size)
    ]
    assert (len(violations(pd.DataFrame(operations))) == 0) is explained(operations)


def test_a_read_of_nobody_or_of_another_key_is_a_violation():
    columns = ["command", "key", "is_write", "value", "sent_s", "answered_s"]
    for value in (5, 0):
        rows = [(0, 1, True, -1, 0.0, 1.0), (1, 2, False, value, 2.0, 3.0)]
        assert list(violations(pd.DataFrame(rows, columns=columns)).key) == [2]
