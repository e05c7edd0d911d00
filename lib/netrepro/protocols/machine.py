"""The interface of every protocol in this package, and a driver that runs several machines in virtual time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar

from netrepro.errors import NetreproError


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the machine called `to`."""

    to: Hashable
    message: Any


@dataclass(frozen=True, slots=True)
class Event:
    """An event inside the machine that a user wants to know of, such as the election of a leader."""

    kind: str
    value: Any = None


Output = Send | Event


class Machine(Protocol):
    """A protocol at one host. It reads no clock and opens no socket: its driver passes the time, `now_s`."""

    @property
    def wake_at_s(self) -> float:
        """The time at which the machine wants `wake` to be called; math.inf for never."""

    def start(self, now_s: float) -> Iterable[Output]:
        """Begin, at the start of the run or after a restart; return the machine's outputs."""

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Take a message from the machine called `sender`; return the machine's outputs."""

    def wake(self, now_s: float) -> Iterable[Output]:
        """Do all that is due by `now_s`; return the machine's outputs. Called at `wake_at_s`."""


Delay = Callable[[Hashable, Hashable, Any], float | None]
Name = TypeVar("Name", bound=Hashable)
Outputs = Iterable[tuple[Any, Output]]


def drive(
    machines: Mapping[Name, Machine],
    delay_s: Delay,
    until_s: float,
    *,
    at: Iterable[tuple[float, Callable[[float], Outputs]]] = (),
    most_events: int = 10_000_000,
) -> list[tuple[float, Name, Event]]:
    """Run machines that exchange messages in virtual time; returns (time_s, name, event) in the order of time.

    Parameters
    ----------
    machines : name -> machine. To crash a machine, remove it from the mapping during the run: it is no longer woken and
        gets no messages. To restart it, put a machine back under its name.
    delay_s : function of (sender, receiver, message) that returns the delay in seconds, or None for a lost message.
    until_s : virtual time at which the run ends.
    at : (time_s, function) pairs for events from outside. Each function is called with the time and returns (name,
        output) pairs, which are treated as outputs of the machine of that name.
    most_events : largest number of steps; machines that answer each other without delay would never let time pass.

    Messages with the same time of arrival arrive in the order in which they were sent. Raises NetreproError for a
    message to an unknown name, for a negative delay, and for more than `most_events` steps.
    """
    order = count()
    queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
    events: list[tuple[float, Name, Event]] = []
    wakes: dict[Name, float] = {}
    names = set(machines)

    def push(time_s: float, act: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(queue, (time_s, next(order), act, arguments))

    def arrive(now_s: float, name: Name, sender: Hashable, message: Any) -> None:
        machine = machines.get(name)
        if machine is not None:
            carry_out(now_s, name, machine.receive(now_s, sender, message))

    def wake(now_s: float, name: Name) -> None:
        machine = machines.get(name)
        if wakes.get(name) != now_s or machine is None:  # put off or crashed since
            return
        del wakes[name]
        carry_out(now_s, name, machine.wake(now_s) if machine.wake_at_s <= now_s else ())

    def act_from_outside(now_s: float, act: Callable[[float], Outputs]) -> None:
        for name, output in list(act(now_s)):
            put_out(now_s, name, output)
        for name in machines:  # the function from outside may have called any machine
            set_alarm(now_s, name)

    def carry_out(now_s: float, name: Name, outputs: Iterable[Output]) -> None:
        for output in outputs:
            put_out(now_s, name, output)
        set_alarm(now_s, name)

    def put_out(now_s: float, name: Name, output: Output) -> None:
        if isinstance(output, Event):
            events.append((now_s, name, output))
            return
        if output.to not in names:
            raise NetreproError(f"a message from {name!r} to {output.to!r}", "there is no machine of that name")
        delay = delay_s(name, output.to, output.message)
        if delay is None:
            return
        if delay < 0:
            raise NetreproError(f"a delay of {delay} s from {name!r} to {output.to!r}", "give 0 at least")
        push(now_s + delay, arrive, output.to, name, output.message)

    def set_alarm(now_s: float, name: Name) -> None:
        due = max(machines[name].wake_at_s, now_s) if name in machines else math.inf
        if due != wakes.get(name):
            wakes[name] = due
            if due <= until_s and due < math.inf:
                push(due, wake, name)

    for time_s, act in at:
        push(time_s, act_from_outside, act)
    for name, machine in list(machines.items()):
        carry_out(0.0, name, machine.start(0.0))
    done = 0
    while queue and queue[0][0] <= until_s:
        now_s, _, do, arguments = heapq.heappop(queue)
        do(now_s, *arguments)
        done += 1
        if done > most_events:
            raise NetreproError(f"more than {most_events} events by {now_s:.6g} s", "do the machines let time pass?")
    return events
