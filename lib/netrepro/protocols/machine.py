"""What every protocol of this package is, and how several of them are driven in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from netrepro.errors import NetreproError


@dataclass(frozen=True, slots=True)
class Send:
    """A message that the machine wants to have carried to the machine called `to`."""

    to: Hashable
    message: Any


@dataclass(frozen=True, slots=True)
class Event:
    """What happened inside the machine and a user wants to know, such as an elected leader or an executed command."""

    kind: str
    value: Any = None


Output = Send | Event


class Machine(Protocol):
    """A protocol at one host. It reads no clock and opens no socket: whoever drives it passes `now_s`."""

    @property
    def wake_at_s(self) -> float:
        """When it wants `wake` to be called; math.inf for never."""

    def start(self, now_s: float) -> Iterable[Output]: ...

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]: ...

    def wake(self, now_s: float) -> Iterable[Output]: ...


Delay = Callable[[Hashable, Hashable, Any], float | None]


def drive(
    machines: Mapping[Hashable, Machine],
    delay_s: Delay,
    until_s: float,
    *,
    at: Iterable[tuple[float, Callable[[float], Iterable[tuple[Hashable, Output]]]]] = (),
    most_events: int = 10_000_000,
) -> list[tuple[float, Hashable, Event]]:
    """Run machines against each other in virtual time; returns (time_s, name, event) in the order in which they happen.

    Parameters
    ----------
    machines : name -> machine. One that is taken out of the mapping while this runs has crashed: it is not woken and
        gets nothing any more.
    delay_s : sender, receiver, message -> seconds on the way, or None for a message that is lost.
    until_s : when to stop.
    at : (time_s, function) pairs: called with the time, for what comes from outside; it returns (name, output) pairs,
        as if the machine of that name had put them out.
    most_events : refuse to go on after so many, as machines that answer each other at once never let time pass.

    Messages with the same time of arrival arrive in the order in which they were sent. Raises NetreproError for a
    message to nobody's name, for a negative delay, and for too many events.
    """
    order = count()
    queue: list[tuple[float, int, Callable[[float], Iterable[tuple[Hashable, Output]]]]] = []
    events: list[tuple[float, Hashable, Event]] = []
    wakes: dict[Hashable, float] = {}
    names = set(machines)

    def push(time_s: float, act: Callable[[float], Iterable[tuple[Hashable, Output]]]) -> None:
        heapq.heappush(queue, (time_s, next(order), act))

    def from_machine(name: Hashable, outputs: Iterable[Output]) -> Iterable[tuple[Hashable, Output]]:
        return [(name, output) for output in outputs]

    def arrival(name: Hashable, sender: Hashable, message: Any):
        return lambda now_s: (
            from_machine(name, machines[name].receive(now_s, sender, message)) if name in machines else ()
        )

    def alarm(name: Hashable):
        def act(now_s: float) -> Iterable[tuple[Hashable, Output]]:
            if wakes.get(name) != now_s or name not in machines:  # put off or crashed since
                return ()
            del wakes[name]
            return from_machine(name, machines[name].wake(now_s)) if machines[name].wake_at_s <= now_s else ()

        return act

    def carry_out(now_s: float, outputs: Iterable[tuple[Hashable, Output]]) -> None:
        for name, output in outputs:
            if isinstance(output, Event):
                events.append((now_s, name, output))
                continue
            if output.to not in names:
                raise NetreproError(f"a message from {name!r} to {output.to!r}", "there is no machine of that name")
            delay = delay_s(name, output.to, output.message)
            if delay is not None:
                if delay < 0:
                    raise NetreproError(f"a delay of {delay} s from {name!r} to {output.to!r}", "give 0 at least")
                push(now_s + delay, arrival(output.to, name, output.message))

    def set_alarms(now_s: float) -> None:
        for name, machine in machines.items():
            due = max(machine.wake_at_s, now_s)
            if due != wakes.get(name) and due <= until_s:
                wakes[name] = due
                push(due, alarm(name))

    for time_s, act in at:
        push(time_s, act)
    for name, machine in list(machines.items()):
        carry_out(0.0, from_machine(name, machine.start(0.0)))
    set_alarms(0.0)
    done = 0
    while queue and queue[0][0] <= until_s:
        now_s, _, act = heapq.heappop(queue)
        carry_out(now_s, act(now_s))
        set_alarms(now_s)
        done += 1
        if done > most_events:
            raise NetreproError(f"more than {most_events} events by {now_s:.6g} s", "do the machines let time pass?")
    return events
