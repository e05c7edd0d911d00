"""The messages between replicas of a key-value store and their clients, for any protocol that orders the commands."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event, Machine, Output, Send


@dataclass(frozen=True, slots=True)
class Command:
    """The `number`-th command of a client: it reads or writes `key`; the written value is the command itself."""

    client: Hashable
    number: int
    key: int
    is_write: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request to order, execute and answer a command."""

    command: Command


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer that a command was executed. `value` : the write that a read saw, or None; for a write, itself."""

    command: Command
    value: Command | None


@dataclass(slots=True)
class Store:
    """Values by key, and the order in which each key was written."""

    values: dict[int, Command] = field(default_factory=dict)
    writes: dict[int, list[Command]] = field(default_factory=dict)

    def execute(self, command: Command) -> Command | None:
        """Carry out a command; returns the write that a read sees (or None), and for a write the command itself."""
        if command.is_write:
            self.values[command.key] = command
            self.writes.setdefault(command.key, []).append(command)
        return self.values.get(command.key)


class StoreClient:
    """A client that sends a command at each of `arrivals_s`, with at most `cap` unanswered; further ones wait in order.

    After `stop_s` it sends no more commands. looks_at_arrivals : it notices an answer only at its next arrival, and
    sends then all that it may, as the released client of EPaxos Revisited does. Events: "sent" (a Command) and
    "answered" (a Reply).
    Raises NetreproError for a cap below 1.
    """

    def __init__(
        self,
        replica: Hashable,
        arrivals_s: Sequence[float],
        commands: Sequence[Command],
        cap: int,
        stop_s: float,
        looks_at_arrivals: bool = False,
    ):
        if cap < 1:
            raise NetreproError(f"a client with at most {cap} commands under way", "give 1 at least")
        self.replica, self.arrivals_s, self.commands, self.cap, self.stop_s = replica, arrivals_s, commands, cap, stop_s
        self.looks_at_arrivals = looks_at_arrivals
        self.sent = self.answered = self.arrived = 0
        self.has_stopped = False

    @property
    def wake_at_s(self) -> float:
        """The time of the next arrival; math.inf once the end, or while only an answer, allows sending."""
        if self.looks_at_arrivals:
            return math.inf if self.arrived == len(self.commands) else float(self.arrivals_s[self.arrived])
        return self._next_s

    @property
    def _next_s(self) -> float:
        """The time at which the next command arrives or has; math.inf while the cap or the end forbids sending."""
        if self.has_stopped or self.sent == len(self.commands) or self.sent - self.answered == self.cap:
            return math.inf
        return float(self.arrivals_s[self.sent])

    def start(self, now_s: float) -> Iterable[Output]:
        """Do nothing: nothing happens before the first arrival."""
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        """Send the commands whose arrival times have come."""
        outputs: list[Output] = []
        self.has_stopped = now_s >= self.stop_s
        while self.arrived < len(self.commands) and self.arrivals_s[self.arrived] <= now_s:
            self.arrived += 1
        while self._next_s <= now_s:
            command = self.commands[self.sent]
            self.sent += 1
            outputs += [Event("sent", command), Send(self.replica, Request(command))]
        return outputs

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Handle an answer, which makes room for the next command."""
        self.answered += 1
        return [Event("answered", message), *(() if self.looks_at_arrivals else self.wake(now_s))]


class Processor:
    """A machine whose host handles one message at a time, in `cost_s` seconds each; outputs leave at the end of it."""

    def __init__(self, machine: Machine, cost_s: float):
        if cost_s < 0:
            raise NetreproError(f"a message costs {cost_s} s", "give 0 at least")
        self.machine, self.cost_s = machine, cost_s
        self.free_s = self.busy_s = 0.0
        self._waiting: deque[tuple[float, Hashable, Any]] = deque()

    @property
    def wake_at_s(self) -> float:
        """The time at which the current message is done, or the machine wants to be woken."""
        return min(self._waiting[0][0] if self._waiting else math.inf, self.machine.wake_at_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Start the machine."""
        return self.machine.start(now_s)

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Put the message at the end of the queue."""
        self.free_s = max(now_s, self.free_s) + self.cost_s
        self.busy_s += self.cost_s
        self._waiting.append((self.free_s, sender, message))
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        """Pass the messages that are done to the machine, and wake it if it is due."""
        outputs: list[Output] = []
        while self._waiting and self._waiting[0][0] <= now_s:
            _, sender, message = self._waiting.popleft()
            outputs += self.machine.receive(now_s, sender, message)
        if self.machine.wake_at_s <= now_s:
            outputs += self.machine.wake(now_s)
        return outputs


class LateAnswers:
    """A replica whose answers leave at the next multiple of `interval_s`, when a thread looks for what it can execute.

    The order of execution is that of the machine, as it does not depend on when commands are executed.
    """

    def __init__(self, machine: Machine, interval_s: float):
        self.machine, self.interval_s = machine, interval_s
        self._late = HoldBack()

    @property
    def wake_at_s(self) -> float:
        """The time at which answers leave, or the machine wants to be woken."""
        return min(self._late.next_s, self.machine.wake_at_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Start the machine."""
        return self._hold(now_s, self.machine.start(now_s))

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Pass a message to the machine."""
        return self._hold(now_s, self.machine.receive(now_s, sender, message))

    def wake(self, now_s: float) -> Iterable[Output]:
        """Let the answers go that are due, and wake the machine if it is due."""
        due = list(self._late.due(now_s))
        return due + (self._hold(now_s, self.machine.wake(now_s)) if self.machine.wake_at_s <= now_s else [])

    def _hold(self, now_s: float, outputs: Iterable[Output]) -> list[Output]:
        at_once = []
        for output in outputs:
            if isinstance(output, Send) and isinstance(output.message, Reply):
                self._late.put(max(now_s, math.ceil(now_s / self.interval_s) * self.interval_s), output)
            else:
                at_once.append(output)
        return at_once


class HoldBack:
    """A queue of items that each wait until a time, and leave in the order of these times."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any]] = []
        self._count = 0

    @property
    def next_s(self) -> float:
        """The time at which the next item is due; math.inf for none."""
        return self._heap[0][0] if self._heap else math.inf

    def put(self, due_s: float, item: Any) -> None:
        """Hold `item` back until `due_s`."""
        heapq.heappush(self._heap, (due_s, self._count, item))
        self._count += 1

    def due(self, now_s: float) -> Iterable[Any]:
        """Remove and yield the items that are due."""
        while self.next_s <= now_s:
            yield heapq.heappop(self._heap)[2]
