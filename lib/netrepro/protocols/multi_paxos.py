"""Multi-Paxos with a stable leader (Lamport, "Paxos Made Simple", 2001, section 3), without crashes.

The leader puts every command at the next place of one log. It executes and answers a command when a majority has
accepted it and all commands at earlier places. Elections are left out: this is the protocol while no replica fails.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event, Output, Send
from netrepro.protocols.replicated_store import Command, Reply, Request, Store


@dataclass(frozen=True, slots=True)
class Accept:
    """The leader's request to accept a command at a place of the log."""

    place: int
    command: Command


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to Accept: the sender has accepted the command."""

    place: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The leader's message that a majority has accepted: the place is decided."""

    place: int
    command: Command


class MultiPaxosReplica:
    """One replica. Events: "committed" (Command, at the leader) and "executed" (Command, at every replica).

    Raises NetreproError for a leader that is not a replica, and for a request to another replica than the leader.
    """

    wake_at_s = math.inf

    def __init__(self, name: Hashable, replicas: Sequence[Hashable], leader: Hashable):
        if leader not in replicas or name not in replicas:
            raise NetreproError(f"{name!r} led by {leader!r}", f"the replicas are {', '.join(map(str, replicas))}")
        self.name, self.leader = name, leader
        self.others = [each for each in replicas if each != name]
        self.needed = len(replicas) // 2  # acceptances of other replicas for a majority
        self.store = Store()
        self._places = 0
        self._accepted: dict[int, set[Hashable]] = {}  # place -> replicas, so that a duplicate message counts once
        self._commands: dict[int, Command] = {}
        self._chosen: dict[int, Command] = {}
        self._executed = 0

    def start(self, now_s: float) -> Iterable[Output]:
        """Do nothing: nothing happens before the first request."""
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        """Do nothing: this machine has no timers."""
        return ()

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Handle a message: order a request, accept a command, count an answer, or execute a chosen command."""
        if isinstance(message, Accept):
            return [Send(sender, Accepted(message.place))]
        if isinstance(message, Chosen):
            if message.place >= self._executed:
                self._chosen[message.place] = message.command
            return self._execute()
        if isinstance(message, Accepted):
            return self._count(sender, message.place)
        if not isinstance(message, Request) or self.name != self.leader:
            raise NetreproError(f"{self.name!r} got {message!r}", f"requests go to the leader, {self.leader!r}")
        place, self._places = self._places, self._places + 1
        self._commands[place], self._accepted[place] = message.command, set()
        return [Send(other, Accept(place, message.command)) for other in self.others]

    def _count(self, sender: Hashable, place: int) -> list[Output]:
        accepted = self._accepted[place]
        if sender in accepted or len(accepted) == self.needed:
            return []
        accepted.add(sender)
        if len(accepted) < self.needed:
            return []
        command = self._chosen[place] = self._commands[place]
        chosen = Chosen(place, command)
        return [Event("committed", command), *(Send(other, chosen) for other in self.others), *self._execute()]

    def _execute(self) -> list[Output]:
        outputs: list[Output] = []
        while self._executed in self._chosen:
            command = self._chosen.pop(self._executed)
            self._executed += 1
            value = self.store.execute(command)
            outputs.append(Event("executed", command))
            if self.name == self.leader:
                outputs.append(Send(command.client, Reply(command, value)))
        return outputs
