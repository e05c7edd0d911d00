"""Raft: sentences of the paper's section 5, its safety under hostile networks, and the core's elections beside it."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_outputs import kinds

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.protocols import Event, Send, drive
from netrepro.protocols.raft import (
    LEADER,
    Appended,
    AppendEntries,
    Disk,
    Entry,
    Raft,
    RequestVote,
    Vote,
)

NAMES = ("a", "b", "c", "d", "e")


def server(name="a", names=NAMES, disk=None, timeout_s=1.0, **options) -> Raft:
    others = [each for each in names if each != name]
    made = Raft(name, others, disk or Disk(), election_timeout_s=lambda: timeout_s, heartbeat_s=0.2, **options)
    made.start(0.0)
    return made


def elected(**options) -> Raft:
    """A leader of its next term, the others being b to e."""
    leader = server(**options)
    leader.wake(1.0)
    for voter in "bc":
        leader.receive(1.0, voter, Vote(leader.term, True))
    assert leader.role == LEADER
    return leader


def log(*terms: int) -> tuple[Entry, ...]:
    return tuple(Entry(term, f"{index}") for index, term in enumerate(terms, start=1))


# Section 5.2.


def test_who_hears_nothing_over_an_election_timeout_increments_its_term_votes_for_itself_and_asks_all_others():
    candidate = server(disk=Disk(3, None, log(1, 3)))
    assert candidate.wake(0.9) == []
    assert candidate.wake(1.0) == [Send(name, RequestVote(4, 2, 3)) for name in "bcde"]
    assert (candidate.disk.term, candidate.disk.voted_for) == (4, "a")


def test_a_candidate_wins_with_votes_from_a_majority_and_then_sends_heartbeats_to_all():
    candidate = server()
    candidate.wake(1.0)
    assert candidate.receive(1.1, "b", Vote(1, True)) == []
    assert candidate.receive(1.1, "b", Vote(1, True)) == []  # the same vote twice is one vote
    won = candidate.receive(1.2, "c", Vote(1, True))
    assert won == [Event("leader", 1)] + [Send(name, AppendEntries(1, 0, 0, (), 0)) for name in "bcde"]
    assert candidate.wake_at_s == pytest.approx(1.4)


def test_a_vote_in_a_term_that_is_known_already_survives_a_crash():
    disk = Disk(1)
    assert server(disk=disk).receive(0.1, "b", RequestVote(1, 0, 0)) == [Send("b", Vote(1, True))]
    assert server(disk=disk).receive(0.2, "c", RequestVote(1, 0, 0)) == [Send("c", Vote(1, False))]
    slow = server(disk=Disk(1), write_s=lambda: 0.25)
    assert slow.receive(0.1, "b", RequestVote(1, 0, 0)) == [] and slow.disk == Disk(1)


def test_each_server_votes_for_at_most_one_candidate_in_a_term_first_come_first_served_and_keeps_to_it_after_a_crash():
    disk = Disk()
    voter = server(disk=disk)
    assert voter.receive(0.1, "b", RequestVote(1, 0, 0)) == [Send("b", Vote(1, True))]
    for one in (voter, server(disk=disk)):
        assert one.receive(0.2, "c", RequestVote(1, 0, 0)) == [Send("c", Vote(1, False))]
        assert one.receive(0.3, "b", RequestVote(1, 0, 0)) == [Send("b", Vote(1, True))]


def test_a_candidate_that_hears_from_a_leader_of_its_term_becomes_a_follower_and_of_an_older_term_does_not():
    candidate = server(disk=Disk(1))
    candidate.wake(1.0)
    assert candidate.receive(1.1, "b", AppendEntries(1, 0, 0, (), 0))[-1] == Send("b", Appended(2, False, 1))
    assert candidate.role == "candidate"
    answer = candidate.receive(1.1, "c", AppendEntries(2, 0, 0, (), 0))
    assert answer == [Event("follows", (2, "c")), Send("c", Appended(2, True, 0))]
    assert candidate.role == "follower"


def test_a_higher_term_makes_a_leader_step_down():
    leader = elected()
    leader.receive(1.5, "d", RequestVote(7, 0, 0))
    assert (leader.role, leader.term, leader.wake_at_s) == ("follower", 7, 2.5)


def test_a_server_that_granted_its_vote_waits_an_election_timeout_anew_and_one_that_refused_does_not():
    voter = server(disk=Disk(1, None, log(1)))
    voter.receive(0.5, "b", RequestVote(2, 1, 1))
    assert voter.wake_at_s == 1.5
    voter.receive(0.9, "c", RequestVote(3, 0, 0))
    assert voter.wake_at_s == 1.5


# Section 5.3.


def test_a_follower_that_lacks_the_entry_before_refuses_and_the_leader_goes_back_until_the_logs_agree():
    leader = elected(disk=Disk(5, None, log(1, 1, 4, 5)))
    follower = server("b", disk=Disk(4, None, log(1, 1, 2, 2, 2)))
    message, asked = leader._entries_for("b"), 0
    while not (answer := follower.receive(2.0, "a", message)[-1].message).success:
        message, asked = leader.receive(2.0, "b", answer)[0].message, asked + 1
    assert asked == 2
    assert follower.log == leader.log


def test_entries_that_conflict_are_deleted_and_entries_that_agree_are_not_even_by_an_old_message():
    follower = server(disk=Disk(2, None, log(1, 2, 2)))
    follower.receive(0.1, "b", AppendEntries(2, 0, 0, log(1), 0))
    assert len(follower.log) == 3
    follower.receive(0.1, "b", AppendEntries(3, 1, 1, (Entry(3, "new"),), 0))
    assert follower.log == [Entry(1, "1"), Entry(3, "new")]


def test_an_entry_is_applied_once_a_majority_has_it_and_followers_learn_that_from_the_next_message():
    leader = elected()
    sent = leader.propose(2.0, "x")
    assert {each.to for each in sent} == set("bcde")
    assert leader.receive(2.1, "b", Appended(1, True, 1)) == []
    assert leader.receive(2.1, "c", Appended(1, True, 1)) == [Event("applied", (1, "x"))]
    follower = server("b")
    follower.receive(2.1, "a", sent[0].message)
    heartbeat = next(each for each in leader.wake(2.4) if each.to == "b")
    assert Event("applied", (1, "x")) in follower.receive(2.4, "a", heartbeat.message)


def test_only_a_leader_takes_commands():
    assert server().propose(0.1, "x") == []


# Section 5.4.


@pytest.mark.parametrize(
    ("mine", "its_last", "granted"),
    [
        ((1, 1), (2, 1), True),
        ((1, 1), (1, 1), False),
        ((1, 1), (1, 2), True),
        ((1, 2), (9, 1), False),
        ((), (0, 0), True),
    ],
)
def test_a_voter_refuses_whoever_has_a_less_up_to_date_log(mine, its_last, granted):
    voter = server(disk=Disk(2, None, log(*mine)))
    assert voter.receive(0.1, "b", RequestVote(3, *its_last)) == [Send("b", Vote(3, granted))]


def test_a_leader_does_not_commit_entries_of_earlier_terms_by_counting_figure_8():
    leader = elected(disk=Disk(3, None, log(1, 2)))
    assert leader.term == 4
    for name in "bc":
        assert leader.receive(1.1, name, Appended(4, True, 2)) == []
    leader.propose(1.2, "own")
    leader.receive(1.3, "b", Appended(4, True, 3))
    applied = leader.receive(1.3, "c", Appended(4, True, 3))
    assert [event.value[0] for event in applied] == [1, 2, 3]


# Disk and PreVote.


def test_nothing_is_said_before_it_is_written_and_what_a_crash_interrupts_is_not_written():
    disk = Disk()
    voter = server(disk=disk, write_s=lambda: 0.25)
    assert voter.receive(0.1, "b", RequestVote(1, 0, 0)) == []
    assert voter.receive(0.2, "c", RequestVote(1, 0, 0)) == []  # has to wait
    assert disk == Disk()
    assert voter.wake(voter.wake_at_s) == [Send("b", Vote(1, True)), Send("c", Vote(1, False))]
    assert disk == Disk(1, "b")


def test_with_pre_vote_a_server_cut_off_leaves_its_term_alone_and_asks_no_one_away_from_a_leader():
    lonely = server(pre_vote=True)
    for time_s in (1.0, 2.0, 3.0):
        assert all(each.message == RequestVote(1, 0, 0, pre=True) for each in lonely.wake(time_s))
    assert lonely.term == 0
    content = server("b", pre_vote=True, least_timeout_s=1.0, timeout_s=5.0)
    content.receive(0.5, "c", AppendEntries(1, 0, 0, (), 0))
    assert content.receive(1.4, "a", RequestVote(2, 0, 0, pre=True)) == [Send("a", Vote(1, False, pre=True))]
    assert content.receive(1.6, "a", RequestVote(2, 0, 0, pre=True)) == [Send("a", Vote(2, True, pre=True))]
    assert (content.term, content.voted_for) == (1, None)


def test_who_heard_from_a_leader_just_now_may_disregard_requests_for_votes():
    content = server("b", keeps_leader=True, least_timeout_s=1.0, timeout_s=5.0)
    content.receive(0.5, "c", AppendEntries(1, 0, 0, (), 0))
    assert content.receive(1.4, "a", RequestVote(9, 0, 0)) == []
    assert content.term == 1
    assert content.receive(1.6, "a", RequestVote(9, 0, 0)) == [Send("a", Vote(9, True))]


def test_a_majority_of_pre_votes_starts_an_election_and_is_not_itself_a_vote():
    candidate = server(pre_vote=True)
    candidate.wake(1.0)
    candidate.receive(1.1, "b", Vote(1, True, pre=True))
    assert candidate.receive(1.1, "c", Vote(1, True, pre=True)) == [Send(name, RequestVote(1, 0, 0)) for name in "bcde"]
    assert candidate.receive(1.2, "d", Vote(1, True, pre=True)) == []
    assert candidate.role == "candidate"


def test_mistakes_are_refused():
    with pytest.raises(NetreproError, match="own peers"):
        Raft("a", ["a", "b"], Disk(), election_timeout_s=lambda: 1.0, heartbeat_s=0.1)
    with pytest.raises(NetreproError, match="heartbeat_s"):
        Raft("a", ["b"], Disk(), election_timeout_s=lambda: 1.0, heartbeat_s=0.0)
    with pytest.raises(NetreproError, match="for a Raft server"):
        server().receive(0.1, "b", dataclasses.make_dataclass("Odd", ["term"])(0))


# Figure 3's five properties, under crashes, restarts, partitions, loss, reordering and duplication.


@dataclasses.dataclass
class Hostile:
    """Servers in a network that crashes, cuts off, loses, delays and repeats, and what they must never do."""

    seed: int
    servers: int
    pre_vote: bool
    slow_disk: bool
    kind: type[Raft] = Raft
    until_s: float = 12.0
    again: list = dataclasses.field(default_factory=list)
    commands: int = 0

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.names = NAMES[: self.servers]
        self.disks = {name: Disk() for name in self.names}
        self.machines = {name: self.make(name) for name in self.names}
        self.groups = {name: 0 for name in self.names}
        self.leaders: dict[int, str] = {}
        self.leader_logs: dict[int, list[Entry]] = {}
        self.applied: dict[int, object] = {}
        self.committed: dict[int, tuple[int, Entry]] = {}
        self.broken: list[str] = []

    def make(self, name) -> Raft:
        return self.kind(
            name,
            [each for each in self.names if each != name],
            self.disks[name],
            election_timeout_s=lambda: self.random.uniform(0.15, 0.3),
            heartbeat_s=0.05,
            write_s=lambda: self.random.expovariate(200) if self.slow_disk else 0.0,
            pre_vote=self.pre_vote,
            least_timeout_s=0.15,
        )

    def delay(self, sender, to, message):
        if self.groups[sender] != self.groups[to] or self.random.random() < 0.05:
            return None
        if self.random.random() < 0.1:  # once more, later
            self.again.append((to, sender, message))
        return self.random.choice([0.001, 0.01, 0.1]) * self.random.random()

    def disturb(self, now_s):
        """One of: crash, restart, partition, healing, commands; and messages once more. Then look."""
        self.check()
        outputs = [(name, each) for name, machine in self.machines.items() for each in self.own(name, machine, now_s)]
        for to, sender, message in self.again:
            if to in self.machines:
                outputs += [(to, each) for each in self.machines[to].receive(now_s, sender, message)]
        self.again = []
        what, name = self.random.random(), self.random.choice(self.names)
        if what < 0.08:
            self.machines.pop(name, None)
        elif what < 0.2 and name not in self.machines:
            self.machines[name] = self.make(name)
            self.machines[name].start(now_s)
        elif what < 0.26:
            self.groups = {each: self.random.randrange(2) for each in self.names}
        elif what < 0.36:
            self.groups = dict.fromkeys(self.names, 0)
        return outputs

    def own(self, name, machine, now_s):
        self.commands += 1
        return machine.propose(now_s, self.commands) if self.random.random() < 0.5 else []

    def check(self):
        """Log matching, leader append-only, leader completeness."""
        logs = [machine.log for machine in self.machines.values()] + [list(disk.log) for disk in self.disks.values()]
        for left in logs:
            for right in logs:
                same = [i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x.term == y.term]
                if same and left[: same[-1] + 1] != right[: same[-1] + 1]:
                    self.broken.append("log matching")
        for machine in self.machines.values():
            if machine.role == LEADER:
                before = self.leader_logs.get(machine.term, [])
                if machine.log[: len(before)] != before:
                    self.broken.append("leader append-only")
                self.leader_logs[machine.term] = list(machine.log)
            for index, entry in enumerate(machine.log[: machine.commit_index], start=1):
                self.committed.setdefault(index, (machine.term, entry))
        for machine in self.machines.values():
            for index, (term, entry) in self.committed.items():
                if machine.role == LEADER and machine.term >= term and machine.log[index - 1 : index] != [entry]:
                    self.broken.append("leader completeness")

    def run(self) -> Hostile:
        steps = [(0.03 * i, self.disturb) for i in range(1, int(self.until_s / 0.03))]
        for _, name, event in drive(self.machines, self.delay, self.until_s, at=steps):
            if event.kind == "leader":
                if self.leaders.setdefault(event.value, name) != name:
                    self.broken.append("election safety")
            elif event.kind == "applied":
                index, command = event.value
                if self.applied.setdefault(index, command) != command:
                    self.broken.append("state machine safety")
        self.check()
        return self


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([3, 5]), st.booleans(), st.booleans())
def test_raft_is_safe_whatever_the_network_does(seed, servers, pre_vote, slow_disk):
    assert Hostile(seed, servers, pre_vote, slow_disk, until_s=5.0).run().broken == []


def test_the_hostile_network_lets_something_happen():
    runs = [Hostile(seed, 5, False, True).run() for seed in range(3)]
    assert min(len(run.leaders) for run in runs) >= 3
    assert min(len(run.applied) for run in runs) >= 20


class VotesTwice(Raft):
    def _vote(self, now_s, candidate, request):
        self.voted_for = None
        return super()._vote(now_s, candidate, request)


class VotesForAnyLog(Raft):
    def _is_up_to_date(self, request):
        return True


class IgnoresTheEntryBefore(Raft):
    def _append(self, now_s, leader, request):
        before = request.prev_log_index
        if before <= len(self.log):
            request = dataclasses.replace(request, prev_log_term=self._term_at(before))
        return super()._append(now_s, leader, request)


@pytest.mark.parametrize("kind", [VotesTwice, VotesForAnyLog, IgnoresTheEntryBefore])
def test_without_a_rule_of_the_paper_the_same_networks_break_safety(kind):
    assert any(Hostile(seed, 5, False, True, kind).run().broken for seed in range(30))


# The core's elections are this machine's.

ELECTION = {
    "servers": 5,
    "log_lengths": [10, 10, 9, 9],
    "committed": 10,
    "least_timeout": 12.0,
    "greatest_timeout": 24.0,
    "tick": 0.0,
    "step": 0.0,
    "timer_late": 0.05,
    "heartbeat": 6.0,
    "least_delay": 0.2,
    "greatest_delay": 0.6,
    "least_write": 0.5,
    "mean_extra_write": 3.5,
    "pre_vote": False,
    "keeps_leader": False,
    "one_seed": False,
    "checks_logs": True,
    "two_writes": False,
    "synchronised": True,
    "fresh_timers": False,
    "until_elected": False,
    "longest": 2000.0,
}


class Dead:
    """Nothing comes from it, and what is sent to it is lost."""

    wake_at_s = math.inf

    def start(self, now_s):
        return []


def elect(chosen: dict, seed: int, trial: int) -> tuple[float, int]:
    """One trial of the core's, with the machine of this package and the same random numbers: (time, terms)."""
    e, first = chosen, 64 * trial
    living = len(e["log_lengths"])
    chance = _core.RandomStream(seed, first + 32)
    crash = chance.uniform() * e["heartbeat"] if e["synchronised"] else e["heartbeat"]
    spread = e["greatest_delay"] - e["least_delay"]
    beats, delays, machines = {}, {}, {}
    for name in range(living):
        sent = 0.0 if e["synchronised"] else chance.uniform() * e["heartbeat"]
        chance.uniform()  # the phase of its ticks
        beats[name] = sent + (e["least_delay"] + spread * chance.uniform())
        timeouts = _core.RandomStream(seed, first + (0 if e["one_seed"] else name))
        late, writes, delays[name] = (_core.RandomStream(seed, first + kind + name) for kind in (8, 16, 24))

        def timeout(timeouts=timeouts, late=late):
            late_by = e["timer_late"] * late.exponential()
            span = e["greatest_timeout"] - e["least_timeout"]
            drawn = e["least_timeout"] + span * timeouts.uniform()
            return (math.floor(drawn / e["step"] + 0.5) * e["step"] if e["step"] else drawn) + late_by

        machines[name] = Raft(
            name,
            [other for other in range(e["servers"]) if other != name],
            Disk(1, None, (Entry(1, "x"),) * e["log_lengths"][name]),
            election_timeout_s=timeout,
            heartbeat_s=e["heartbeat"],
            write_s=lambda writes=writes: e["least_write"] + e["mean_extra_write"] * writes.exponential(),
            pre_vote=e["pre_vote"],
            keeps_leader=e["keeps_leader"],
            least_timeout_s=e["least_timeout"],
            two_writes=e["two_writes"],
        )
        machines[name]._leader_term, machines[name].leader = 1, e["servers"] - 1
    dead = {name: Dead() for name in range(living, e["servers"])}

    def delay(sender, to, message):
        if sender in dead:
            return beats[to]
        on_the_way = e["least_delay"] + spread * delays[sender].uniform()
        return on_the_way if to in machines else None

    last = e["servers"] - 1
    beat = [(last, Send(name, AppendEntries(1, 0, 0, (), 0))) for name in machines]
    until = crash + e["longest"]
    events = drive(machines | dead, delay, until, at=[(0.0, lambda now: beat)])
    heard: dict[int, set] = {}
    for time, name, event in events:
        if event.kind == "follows":
            heard.setdefault(event.value[0], set()).add(name)
            if len(heard[event.value[0]]) == living - 1:
                return time - crash, event.value[0]
    return e["longest"], 0


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"pre_vote": True},
        {"keeps_leader": True},
        {"one_seed": True},
        {"step": 1.0},
        {"two_writes": True},
        {"two_writes": True, "step": 1.0, "log_lengths": [12, 11, 10, 9], "committed": 11},
        {"synchronised": False, "log_lengths": [10, 10, 10, 9]},
        {"log_lengths": [12, 11, 10], "least_timeout": 20.0, "greatest_timeout": 40.0},
        {"least_write": 0.0, "mean_extra_write": 0.0, "log_lengths": [10] * 4},
    ],
)
def test_the_cores_elections_end_at_the_same_time_as_this_machines(change):
    chosen = ELECTION | change
    times, terms, elected_, safe = _core.RaftElection(**chosen).run(40, 5)
    assert safe.all()
    for trial in range(40):
        time, term = elect(chosen, 5, trial)
        assert times[trial] == time
        if elected_[trial]:
            assert terms[trial] >= term - 1


def test_the_cores_elections_notice_a_leader_that_lacks_a_committed_entry():
    *_, safe = _core.RaftElection(**ELECTION | {"checks_logs": False}).run(200, 1)
    assert not safe.all()


def test_timers_in_whole_ticks_fire_within_a_tick_before_the_even_one():
    """Ticks of the server's own: a timeout of n ticks lasts n - 1 to n of them."""
    still = {"least_timeout": 150.0, "greatest_timeout": 165.0, "tick": 15.0, "timer_late": 0.0, "heartbeat": 15.0}
    quick = {"least_write": 0.0, "mean_extra_write": 0.0, "least_delay": 0.001, "greatest_delay": 0.001}
    times, terms, *_ = _core.RaftElection(**ELECTION | still | quick | {"log_lengths": [10] * 4}).run(500, 1)
    first = times[terms == 1]
    assert first.min() >= 150 - 15 - 15 and first.max() <= 150.1


def test_a_vote_of_two_writes_sets_the_timer_between_them_and_a_refusal_writes_once():
    voter = server("b", write_s=lambda: 0.1, two_writes=True, disk=Disk(1, None, log(1)))
    alarm_s = voter.wake_at_s
    assert voter.receive(0.01, "a", RequestVote(2, 1, 1)) == []
    assert voter.wake(0.111) == [] and (voter.disk.term, voter.disk.voted_for) == (2, None)
    answered = voter.wake(0.22)
    assert [each.message for each in answered] == [Vote(2, True)] and voter.disk.voted_for == "a"
    assert voter.wake_at_s > alarm_s
    refuser = server("b", write_s=lambda: 0.1, two_writes=True, disk=Disk(1, None, log(1)))
    assert refuser.receive(0.01, "a", RequestVote(2, 0, 0)) == []
    assert [each.message for each in refuser.wake(0.111)] == [Vote(2, False)] and refuser.wake_at_s == alarm_s


def test_timeouts_in_whole_milliseconds_are_the_nearest_ones():
    """Half of the timeouts are 150 ms. One or two servers of four that have it win; three, four or none split votes."""
    still = {
        "timer_late": 0.0,
        "least_write": 0.0,
        "mean_extra_write": 0.0,
        "least_delay": 1e-6,
        "greatest_delay": 1e-6,
    }
    ends = {"fresh_timers": True, "until_elected": True, "step": 1.0, "log_lengths": [10] * 4}
    chosen = ELECTION | still | ends | {"least_timeout": 150.0, "greatest_timeout": 151.0, "heartbeat": 75.0}
    times, terms, *_ = _core.RaftElection(**chosen).run(4000, 1)
    first = times[terms == 1]
    assert set(first.round(3)) == {150.0}
    assert len(first) / len(times) == pytest.approx((4 + 6) / 16, abs=0.03)
    even = _core.RaftElection(**chosen | {"step": 0.0}).run(4000, 1)[0]
    assert len(set(even.round(3))) > 500


def test_fresh_timers_and_an_election_that_ends_with_a_leader_need_the_first_timeout_and_two_messages():
    ends = {"fresh_timers": True, "until_elected": True, "log_lengths": [10] * 4, "timer_late": 0.0}
    quick = {"least_write": 0.0, "mean_extra_write": 0.0, "least_delay": 1.0, "greatest_delay": 1.0}
    wide = {"least_timeout": 1000.0, "greatest_timeout": 2000.0, "heartbeat": 500.0}
    times, terms, elected_, safe = _core.RaftElection(**ELECTION | ends | quick | wide).run(4000, 1)
    assert safe.all() and elected_.all()
    assert times[terms == 1].min() >= 1002
    assert times[terms == 1].mean() == pytest.approx(1000 + 1000 / 5 + 2, abs=12)  # the first of four timeouts
    heard = _core.RaftElection(**ELECTION | ends | quick | wide | {"until_elected": False}).run(4000, 1)[0]
    assert (heard - times)[terms == 1] == pytest.approx(1.0)  # one message later


# What is no sentence of the paper's.


def test_a_server_alone_elects_itself_and_commits_what_it_has_written():
    alone = server(names=("a",), write_s=lambda: 0.1)
    assert alone.wake(1.0) == [] and alone.disk.term == 0  # being written
    assert alone.wake(1.1) == [Event("leader", 1)] and alone.disk.term == 1
    assert alone.propose(1.15, "x") == []
    assert alone.wake(1.25) == [Event("applied", (1, "x"))] and alone.disk.log == (Entry(1, "x"),)


def test_a_server_says_nothing_of_its_own_before_it_is_on_disk():
    follower = server("b", write_s=lambda: 0.1)
    assert kinds(follower.receive(0.2, "a", AppendEntries(1, 0, 0, log(1), 1))) == ["follows"]  # only whom it heard
    assert kinds(follower.wake(0.31)) == ["applied", "Appended"]


def test_a_follower_that_lacks_thousands_of_entries_gets_them_in_one_message():
    leader, follower = elected(disk=Disk(1, None, log(*[1] * 3000))), server("b")
    message, carried = leader._entries_for("b"), []
    while not (answer := follower.receive(2.0, "a", message)[-1].message).success:
        message = leader.receive(2.0, "b", answer)[0].message
        carried.append(len(message.entries))
    assert carried == [3000] and follower.log == leader.log


def test_a_peer_is_named_once():
    with pytest.raises(NetreproError, match="name each once"):
        server("a", ("a", "b", "b"))
