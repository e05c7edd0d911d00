"""Egalitarian Paxos (Moraru, Andersen and Kaminsky, SOSP 2013) as EPaxos Revisited (NSDI 2021) ran it, without crashes.

Every replica leads the commands of its clients. A command is ordered by its dependencies (the last interfering write
of each replica) and by a sequence number. If the first replies of the other replicas (two, of five replicas) agree with
the leader in both, the command is committed after one round trip, else after a second. A command is executed after all
its dependencies; commands in a dependency cycle are executed in the order of sequence numbers. Two commands interfere
if they have the same key and at least one writes. As in the released code, a read depends on writes, and no command
depends on a read; only the read's leader answers it.

Options: the chain fix (a dependency that also depends on this command and has the higher sequence number runs later
anyway, so it is not waited for), and TOQ (the replicas hold a command back until the same time on their clocks before
they look for interfering commands).

A dependency names only the last interfering write of a replica, but stands for all earlier ones on the same key. The
chain fix must look at each of these writes: the last one may run later although an earlier one must run first. The fix
is applied to every edge of the graph, not only to edges from the command to execute. So the order depends only on the
committed attributes, and is the same at every replica. Recovery from crashes is left out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event, Output, Send
from netrepro.protocols.replicated_store import Command, HoldBack, Reply, Request, Store

Place = tuple[int, int]  # a command's identifier: the number of its leader, and its number among the leader's commands
Dependencies = tuple[int, ...]  # for each replica, the number of its last interfering write; -1 for none


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes that order a command."""

    sequence: int
    dependencies: Dependencies

    def merged(self, other: Attributes) -> Attributes:
        """Merge both: take the greater of each number."""
        pairs = zip(self.dependencies, other.dependencies, strict=True)
        return Attributes(max(self.sequence, other.sequence), tuple(max(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class PreAccept:
    """The first round's message. `look_at_s`, with TOQ: clock time at which to look for interfering commands."""

    place: Place
    command: Command
    attributes: Attributes
    look_at_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class PreAccepted:
    """The answer to PreAccept: the attributes, merged with the interfering commands that the sender knows."""

    place: Place
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Accept:
    """The second round's message: the union of all attributes of the first round."""

    place: Place
    command: Command
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to Accept: the sender has accepted the command."""

    place: Place


@dataclass(frozen=True, slots=True)
class Commit:
    """The message that a command is committed: its attributes are final."""

    place: Place
    command: Command
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Committed:
    """The value of the event "committed"."""

    command: Command
    is_fast: bool


@dataclass(slots=True)
class _Led:
    """A command that this replica leads."""

    command: Command
    attributes: Attributes
    replies: dict[Hashable, Attributes]  # by replica, so that a duplicate message counts once
    has_looked: bool = False  # whether the leader has looked for interfering commands; not while held back
    accepted: set[Hashable] = field(default_factory=set)
    state: str = "first round"


@dataclass(slots=True)
class _Committed:
    command: Command
    attributes: Attributes
    is_executed: bool = False


class EPaxosReplica:
    """One of three or five replicas.

    hold_back_s : leader -> seconds for which its commands are held back after their requests, with TOQ; None without.
    clock_error_s : this replica's clock minus the true time, in seconds.
    fast_path : False sends every command through the second round.

    Events: "committed" (Committed, at the leader), "executed" (Command, at every replica).
    Raises NetreproError for another number of replicas, because the fast quorum is a different one for more than five.
    """

    def __init__(
        self,
        name: Hashable,
        replicas: Sequence[Hashable],
        *,
        chain_fix: bool = True,
        fast_path: bool = True,
        hold_back_s: Mapping[Hashable, float] | None = None,
        clock_error_s: float = 0.0,
    ):
        if len(replicas) not in (3, 5) or name not in replicas:
            raise NetreproError(f"{name!r} among {len(replicas)} replicas", "give 3 or 5, itself among them")
        self.name, self.replicas, self.number = name, list(replicas), list(replicas).index(name)
        self.chain_fix, self.fast_path, self.clock_error_s = chain_fix, fast_path, clock_error_s
        self.hold_back_s = None if hold_back_s is None else hold_back_s[name]
        self.others = [each for each in replicas if each != name]
        self.needed = len(replicas) // 2  # replies of others, in both rounds: F + floor((F + 1) / 2) - 1
        self.store = Store()
        self._never = (-1,) * len(replicas)
        self._led: list[_Led] = []
        self._own_writes: dict[int, int] = {}
        self._last_writes: dict[int, list[int]] = {}
        self._highest: dict[int, int] = {}
        self._committed: dict[Place, _Committed] = {}
        self._waiting: dict[Place, list[Place]] = {}  # uncommitted command -> commands that wait for it
        self._held = HoldBack()

    @property
    def wake_at_s(self) -> float:
        """The true time at which the next held-back command is due."""
        return self._held.next_s

    def start(self, now_s: float) -> Iterable[Output]:
        """Do nothing: nothing happens before the first request."""
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        """Look for interfering commands for the held-back commands that are due."""
        return [output for message in self._held.due(now_s) for output in self._look(message)]

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Handle a message: lead a client's request, or take part in a round."""
        if isinstance(message, Request):
            return self._lead(now_s, message.command)
        if isinstance(message, PreAccept):
            due_s = message.look_at_s - self.clock_error_s
            if due_s <= now_s:
                return self._look(message)
            self._held.put(due_s, message)
            return ()
        if isinstance(message, PreAccepted):
            return self._first_reply(sender, message)
        if isinstance(message, Accept):
            self._know(message.place, message.command, message.attributes.sequence)
            return [Send(sender, Accepted(message.place))]
        if isinstance(message, Accepted):
            return self._second_reply(sender, message)
        assert isinstance(message, Commit)
        return self._commit(message)

    # Rounds.

    def _lead(self, now_s: float, command: Command) -> list[Output]:
        place = (self.number, len(self._led))
        dependencies = [-1] * len(self.replicas)
        dependencies[self.number] = self._own_writes.get(command.key, -1)
        if command.is_write:
            self._own_writes[command.key] = place[1]
        message = PreAccept(place, command, Attributes(1, tuple(dependencies)))
        self._led.append(_Led(command, message.attributes, {}))
        if self.hold_back_s is None:
            message = replace(message, attributes=self._look_myself(message))
        else:
            message = replace(message, look_at_s=now_s + self.clock_error_s + self.hold_back_s)
            self._held.put(now_s + self.hold_back_s, message)
        return [Send(other, message) for other in self.others]

    def _look(self, message: PreAccept) -> list[Output]:
        if message.place[0] != self.number:
            return [Send(self.replicas[message.place[0]], PreAccepted(message.place, self._interfering(message)))]
        self._look_myself(message)
        return []

    def _look_myself(self, message: PreAccept) -> Attributes:
        led = self._led[message.place[1]]
        if not led.has_looked:
            led.attributes, led.has_looked = self._interfering(message), True
        return led.attributes

    def _interfering(self, message: PreAccept) -> Attributes:
        """Merge the interfering commands that the sender and this replica know; then note the new command, too."""
        leader = message.place[0]
        sent, key = message.attributes, message.command.key
        # For the leader's own writes, its message decides: an Accept may already have named later ones here.
        last = list(self._last_writes.get(key, self._never))
        last[leader] = sent.dependencies[leader]
        attributes = sent.merged(Attributes(self._highest.get(key, 0) + 1, tuple(last)))
        self._know(message.place, message.command, attributes.sequence)
        return attributes

    def _know(self, place: Place, command: Command, sequence: int) -> None:
        if command.is_write:
            last = self._last_writes.setdefault(command.key, list(self._never))
            last[place[0]] = max(last[place[0]], place[1])
            self._highest[command.key] = max(self._highest.get(command.key, 0), sequence)

    def _first_reply(self, sender: Hashable, message: PreAccepted) -> list[Output]:
        led = self._led[message.place[1]]
        if led.state != "first round":
            return []
        # If clocks differ, a reply may come before the leader itself has looked.
        union = self._look_myself(PreAccept(message.place, led.command, led.attributes))
        led.replies.setdefault(sender, message.attributes)
        if len(led.replies) < self.needed:
            return []
        for reply in led.replies.values():
            union = union.merged(reply)
        led.attributes = union
        if self.fast_path and all(reply == union for reply in led.replies.values()):
            return self._decide(message.place, led, True)
        led.state = "second round"
        self._know(message.place, led.command, union.sequence)
        return [Send(other, Accept(message.place, led.command, union)) for other in self.others]

    def _second_reply(self, sender: Hashable, message: Accepted) -> list[Output]:
        led = self._led[message.place[1]]
        if led.state != "second round":
            return []
        led.accepted.add(sender)
        return self._decide(message.place, led, False) if len(led.accepted) == self.needed else []

    def _decide(self, place: Place, led: _Led, is_fast: bool) -> list[Output]:
        led.state = "committed"
        message = Commit(place, led.command, led.attributes)
        told = [Send(other, message) for other in self.others]
        return [Event("committed", Committed(led.command, is_fast)), *told, *self._commit(message)]

    # Execution.

    def _commit(self, message: Commit) -> list[Output]:
        if message.place in self._committed:
            return []
        self._know(message.place, message.command, message.attributes.sequence)
        self._committed[message.place] = _Committed(message.command, message.attributes)
        outputs = self._try(message.place)
        for waiting in self._waiting.pop(message.place, []):
            outputs += self._try(waiting)
        return outputs

    def _edges(self, place: Place) -> Iterator[Place]:
        """Yield the commands to execute before this one; for each leader, an uncommitted command is the last one."""
        attributes = self._committed[place].attributes
        for leader, number in enumerate(attributes.dependencies):
            while number >= 0:
                other = (leader, number)
                known = self._committed.get(other)
                if known is None:
                    yield other
                    break
                if known.is_executed:
                    break
                if not (self.chain_fix and self._runs_later(place, other)):
                    yield other  # this command depends on the earlier ones
                    break
                number = known.attributes.dependencies[leader]

    def _runs_later(self, place: Place, other: Place) -> bool:
        mine, its = self._committed[place].attributes, self._committed[other].attributes
        return (its.sequence, *other) > (mine.sequence, *place) and its.dependencies[place[0]] >= place[1]

    def _try(self, root: Place) -> list[Output]:
        """Execute a command and its dependencies, by Tarjan's strongly connected components (SIAM J. Comput. 1, 1972);
        if a dependency is not committed, wait for it.
        """
        if self._committed[root].is_executed:
            return []
        order: dict[Place, int] = {root: 0}
        lowest = {root: 0}
        stack, on_stack, outputs = [root], {root}, []
        path = [(root, self._edges(root))]
        while path:
            place, edges = path[-1]
            following = next(edges, None)
            if following is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[place])
                if lowest[place] == order[place]:
                    begin = stack.index(place)
                    component, stack = stack[begin:], stack[:begin]
                    on_stack.difference_update(component)
                    outputs += self._execute(component)
            elif following not in self._committed:
                self._waiting.setdefault(following, []).append(root)
                return outputs
            elif following not in order:
                order[following] = lowest[following] = len(order)
                stack.append(following)
                on_stack.add(following)
                path.append((following, self._edges(following)))
            elif following in on_stack:
                lowest[place] = min(lowest[place], order[following])
        return outputs

    def _execute(self, component: list[Place]) -> list[Output]:
        outputs: list[Output] = []
        for place in sorted(component, key=lambda each: (self._committed[each].attributes.sequence, *each)):
            entry = self._committed[place]
            entry.is_executed = True
            value = self.store.execute(entry.command)
            outputs.append(Event("executed", entry.command))
            if place[0] == self.number:
                outputs.append(Send(entry.command.client, Reply(entry.command, value)))
        return outputs
