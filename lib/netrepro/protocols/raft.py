"""Raft (Ongaro and Ousterhout, USENIX ATC 2014) as a machine: to be read beside the paper's Figure 2.

Names are the figure's: `term`, `voted_for` and `log` are persistent, `commit_index`, `next_index` and `match_index` are
not. Three things are added. First, writing to disk takes time: until a write has ended, the server does nothing else
and its messages wait; a write that a crash interrupts has no effect. The other two are options of the dissertation:
PreVote (section 9.6), and that servers which have just heard from a leader disregard requests for votes (section
4.2.3). Membership changes, snapshots and clients' sessions are left out. So are the empty entry with which a leader may
begin its term (section 8), and the rule that a leader steps down if it hears from no majority (CheckQuorum, section 6.2
of the dissertation).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event, Output, Send

Name = Hashable
FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command, and the term of the leader that received it."""

    term: int
    command: Any


@dataclass(frozen=True, slots=True)
class RequestVote:
    """A request for a vote in `term`. With `pre`, it only asks whether the vote would be given; no term changes."""

    term: int
    last_log_index: int
    last_log_term: int
    pre: bool = False


@dataclass(frozen=True, slots=True)
class Vote:
    """The answer to RequestVote. `term` is the answering server's; for a granted PreVote, the request's."""

    term: int
    granted: bool
    pre: bool = False


@dataclass(frozen=True, slots=True)
class AppendEntries:
    """The leader's entries after `prev_log_index`; a message without entries is a heartbeat."""

    term: int
    prev_log_index: int
    prev_log_term: int
    entries: tuple[Entry, ...]
    leader_commit: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to AppendEntries. `index` : how far the logs match or, without success, the index to try next."""

    term: int
    success: bool
    index: int


@dataclass(frozen=True, slots=True)
class Propose:
    """A client's command."""

    command: Any


@dataclass
class Disk:
    """The state that survives a crash: Figure 2's persistent state."""

    term: int = 0
    voted_for: Name | None = None
    log: tuple[Entry, ...] = ()


class Raft:
    """One server. Its events are "leader" (its term), "follows" (term and name of a leader, at its first message), and
    "applied" (index and command of a log entry that is committed).

    peers : the other servers' names. disk : the state that the server starts from and writes to; to restart a server,
    make a new Raft with its old disk. election_timeout_s : function that draws the next election timeout (section 5.2).
    heartbeat_s : a leader's interval between heartbeats. write_s : function that draws the duration of a write.
    least_timeout_s : a server that has heard from a leader within this time does not help to replace it: it grants no
    PreVote and, with `keeps_leader`, disregards requests for votes. two_writes : the term of a request for a vote is
    written before the vote is thought about, and the vote is a second write, as in LogCabin. All times are in seconds.

    Raises NetreproError for a server that is its own peer, for a peer that is named twice, and for a heartbeat interval
    that is not above 0.
    """

    def __init__(
        self,
        name: Name,
        peers: Iterable[Name],
        disk: Disk,
        *,
        election_timeout_s: Callable[[], float],
        heartbeat_s: float,
        write_s: Callable[[], float] = lambda: 0.0,
        pre_vote: bool = False,
        keeps_leader: bool = False,
        least_timeout_s: float = 0.0,
        two_writes: bool = False,
    ):
        self.name, self.peers, self.disk = name, tuple(peers), disk
        if name in self.peers:
            raise NetreproError(f"server {name!r} among its own peers", "name the others only")
        if len(set(self.peers)) < len(self.peers):
            raise NetreproError(f"peers {self.peers!r} of {name!r}", "name each once")
        if not heartbeat_s > 0:
            raise NetreproError(f"heartbeat_s {heartbeat_s}", "give more than 0")
        self.election_timeout_s, self.heartbeat_s, self.write_s = election_timeout_s, heartbeat_s, write_s
        self.pre_vote, self.keeps_leader, self.least_timeout_s = pre_vote, keeps_leader, least_timeout_s
        self.two_writes = two_writes
        self.term, self.voted_for, self.log = disk.term, disk.voted_for, list(disk.log)
        self.role = FOLLOWER
        self.leader: Name | None = None
        self._leader_term = 0
        self.commit_index = 0
        self.next_index: dict[Name, int] = {}
        self.match_index: dict[Name, int] = {}
        self._votes: set[Name] = set()
        self._asks_before = False  # whether the counted votes are PreVotes
        self._leader_heard_s = -math.inf
        self._alarm_s = math.inf
        self._waiting: deque[tuple[Name, Any]] = deque()
        self._must_write = False
        self._written_at_s: float | None = None
        self._unsent: list[Output] = []

    # The interface of a Machine: `start`, `receive` and `wake`.

    @property
    def wake_at_s(self) -> float:
        """The time at which the write under way ends, or else that of the timer; math.inf for never."""
        return self._alarm_s if self._written_at_s is None else self._written_at_s

    def start(self, now_s: float) -> list[Output]:
        """Set the election timer; a server begins as a follower (paper, section 5.2) and sends nothing."""
        self._set_election_timer(now_s)
        return []

    def receive(self, now_s: float, sender: Name, message: Any) -> list[Output]:
        """Take a message from `sender`; it waits while a write to the disk is under way."""
        self._waiting.append((sender, message))
        return self.wake(now_s)

    def wake(self, now_s: float) -> list[Output]:
        """Do all that is possible now: end a write, then handle waiting messages, then a timer that has run out."""
        outputs: list[Output] = []
        while True:
            if self._written_at_s is not None:
                if now_s < self._written_at_s:
                    return outputs
                outputs += self._end_write()
            if self._waiting:
                done = self._handle(now_s, *self._waiting.popleft())
            elif now_s >= self._alarm_s:
                done = self._time_out(now_s)
            else:
                return outputs
            if self._must_write:
                # Figure 2: persistent state is updated on stable storage before responding to RPCs. "leader" and
                # "applied" depend on this state, too, and wait; "follows" does not.
                self._must_write, self._written_at_s = False, now_s + self.write_s()
                heard: list[Output] = [each for each in done if isinstance(each, Event) and each.kind == "follows"]
                self._unsent, done = [each for each in done if each not in heard], heard
            outputs += done

    def propose(self, now_s: float, command: Any) -> list[Output]:
        """Handle a client's command; a server that is not the leader ignores it."""
        return self.receive(now_s, None, Propose(command))

    def _end_write(self) -> list[Output]:
        self.disk.term, self.disk.voted_for, self.disk.log = self.term, self.voted_for, tuple(self.log)
        self._written_at_s = None
        unsent, self._unsent = self._unsent, []
        return unsent

    # Rules for servers.

    def _handle(self, now_s: float, sender: Name, message: Any) -> list[Output]:
        if isinstance(message, Propose):
            return self._append_command(message.command)
        is_request = isinstance(message, RequestVote)
        if self.keeps_leader and is_request and not message.pre and self._has_leader(now_s):
            return []
        ahead = message.term > self.term
        hypothetical = getattr(message, "pre", False) and (is_request or message.granted)
        if ahead and not hypothetical:
            self._step_down(now_s, message.term)
            if self.two_writes and is_request:
                self._waiting.appendleft((sender, message))
                return []
        match message:
            case RequestVote(pre=True):
                return self._answer_pre_vote(now_s, sender, message)
            case RequestVote():
                return self._vote(now_s, sender, message)
            case Vote():
                return self._count_vote(now_s, sender, message)
            case AppendEntries():
                return self._append(now_s, sender, message)
            case Appended():
                return self._count_match(sender, message)
        raise NetreproError(f"{message!r} for a Raft server", "send what this module defines")

    def _step_down(self, now_s: float, term: int) -> None:
        """Become a follower in a higher term, without a vote in it (a rule for all servers).

        Only a leader has to start its election timer; the others' timers are running.
        """
        if self.role == LEADER:
            self._set_election_timer(now_s)
        self.term, self.voted_for, self.role, self._votes = term, None, FOLLOWER, set()
        self._must_write = True

    def _time_out(self, now_s: float) -> list[Output]:
        if self.role == LEADER:
            return self._send_heartbeats(now_s)
        self._set_election_timer(now_s)
        self._votes = {self.name}
        self._asks_before = self.pre_vote
        if self.pre_vote:
            self.role = FOLLOWER
            return self._ask(RequestVote(self.term + 1, *self._last(), pre=True)) + self._win_if_majority(now_s)
        return self._stand(now_s)

    def _stand(self, now_s: float) -> list[Output]:
        """Become a candidate (section 5.2): begin a new term, vote for itself, and ask all others."""
        self.term, self.voted_for, self.role = self.term + 1, self.name, CANDIDATE
        self._votes, self._asks_before, self._must_write = {self.name}, False, True
        return self._ask(RequestVote(self.term, *self._last())) + self._win_if_majority(now_s)

    def _ask(self, request: RequestVote) -> list[Output]:
        return [Send(peer, request) for peer in self.peers]

    def _win_if_majority(self, now_s: float) -> list[Output]:
        if 2 * len(self._votes) <= len(self.peers) + 1:
            return []
        if self._asks_before:
            self._set_election_timer(now_s)
            return self._stand(now_s)
        self.role, self.leader, self._votes = LEADER, self.name, set()
        self.next_index = dict.fromkeys(self.peers, len(self.log) + 1)
        self.match_index = dict.fromkeys(self.peers, 0)
        return [Event("leader", self.term), *self._send_heartbeats(now_s)]

    def _set_election_timer(self, now_s: float) -> None:
        self._alarm_s = now_s + self.election_timeout_s()

    def _last(self) -> tuple[int, int]:
        """Return the index and term of the last entry."""
        return len(self.log), self._term_at(len(self.log))

    def _term_at(self, index: int) -> int:
        return self.log[index - 1].term if index else 0

    # RequestVote, sections 5.2 and 5.4.

    def _is_up_to_date(self, request: RequestVote) -> bool:
        """Compare logs by section 5.4.1: the later last term wins, then the longer log."""
        index, term = self._last()
        return (request.last_log_term, request.last_log_index) >= (term, index)

    def _vote(self, now_s: float, candidate: Name, request: RequestVote) -> list[Output]:
        grants = request.term == self.term and self.voted_for in (None, candidate) and self._is_up_to_date(request)
        if grants and self.voted_for is None:
            self.voted_for, self._must_write = candidate, True
        if grants:
            self._set_election_timer(now_s)
        return [Send(candidate, Vote(self.term, grants))]

    def _has_leader(self, now_s: float) -> bool:
        return self.role == LEADER or now_s < self._leader_heard_s + self.least_timeout_s

    def _answer_pre_vote(self, now_s: float, candidate: Name, request: RequestVote) -> list[Output]:
        grants = request.term > self.term and not self._has_leader(now_s) and self._is_up_to_date(request)
        return [Send(candidate, Vote(request.term if grants else self.term, grants, pre=True))]

    def _count_vote(self, now_s: float, voter: Name, vote: Vote) -> list[Output]:
        asked_for = self.term + 1 if vote.pre else self.term
        if not self._votes or vote.pre != self._asks_before or vote.term != asked_for or not vote.granted:
            return []
        self._votes.add(voter)
        return self._win_if_majority(now_s)

    # AppendEntries, sections 5.3 and 5.4.2.

    def _append(self, now_s: float, leader: Name, request: AppendEntries) -> list[Output]:
        if request.term < self.term:
            return [Send(leader, Appended(self.term, False, len(self.log) + 1))]
        news: list[Output] = []
        if self.leader != leader or self._leader_term != request.term:
            news = [Event("follows", (request.term, leader))]
        self.role, self.leader, self._leader_term, self._votes = FOLLOWER, leader, request.term, set()
        self._leader_heard_s = now_s
        self._set_election_timer(now_s)
        before = request.prev_log_index
        if before > len(self.log) or self._term_at(before) != request.prev_log_term:
            # Section 5.3, last paragraphs: a server with a short log returns its end, so the leader skips many tries.
            return [*news, Send(leader, Appended(self.term, False, min(before, len(self.log) + 1)))]
        for index, entry in enumerate(request.entries, start=before + 1):
            if index > len(self.log) or self._term_at(index) != entry.term:
                self.log[index - 1 :] = request.entries[index - before - 1 :]
                self._must_write = True
                break
        known = before + len(request.entries)
        return [*news, *self._commit(min(request.leader_commit, known)), Send(leader, Appended(self.term, True, known))]

    def _append_command(self, command: Any) -> list[Output]:
        if self.role != LEADER:
            return []
        self.log.append(Entry(self.term, command))
        self._must_write = True
        return [Send(peer, self._entries_for(peer)) for peer in self.peers] + self._commit_by_majority()

    def _send_heartbeats(self, now_s: float) -> list[Output]:
        """Send heartbeats with the entries that each follower lacks, to make up for lost messages."""
        self._alarm_s = now_s + self.heartbeat_s
        return [Send(peer, self._entries_for(peer)) for peer in self.peers]

    def _entries_for(self, peer: Name) -> AppendEntries:
        before = self.next_index[peer] - 1
        return AppendEntries(self.term, before, self._term_at(before), tuple(self.log[before:]), self.commit_index)

    def _count_match(self, follower: Name, answer: Appended) -> list[Output]:
        if self.role != LEADER or answer.term != self.term:
            return []
        if not answer.success:
            # A late or duplicate answer must not move next_index below the entries that are known to match.
            self.next_index[follower] = max(
                self.match_index[follower] + 1, min(self.next_index[follower], answer.index)
            )
            return [Send(follower, self._entries_for(follower))]
        self.match_index[follower] = max(self.match_index[follower], answer.index)
        self.next_index[follower] = max(self.next_index[follower], self.match_index[follower] + 1)
        return self._commit_by_majority()

    def _commit_by_majority(self) -> list[Output]:
        held = sorted([*self.match_index.values(), len(self.log)], reverse=True)
        majority = held[len(held) // 2]
        # Section 5.4.2: a leader commits only entries of its own term by counting.
        return self._commit(majority) if self._term_at(majority) == self.term else []

    def _commit(self, index: int) -> list[Output]:
        fresh = range(self.commit_index + 1, index + 1)
        self.commit_index = max(self.commit_index, index)
        return [Event("applied", (each, self.log[each - 1].command)) for each in fresh]
