"""Queues: where packets wait between queuing modules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netrepro.errors import NetreproError
from netrepro.verification.parsing import NAME
from netrepro.verification.workloads import whole


@dataclass(frozen=True)
class Queue:
    """A first-in first-out queue with tail drop.

    Parameters
    ----------
    name : name of the queue in workloads, queries and answers.
    capacity : largest number of packets in the queue.
    max_enqueue, max_dequeue : largest numbers of packets offered to and taken from the queue in one step.
    immediate : True where packets offered at t may be taken at t already (otherwise from t + 1 on).

    Raises NetreproError for a name that no workload could write, and for a limit below 1.
    """

    name: str
    capacity: int = 10
    max_enqueue: int = 4
    max_dequeue: int = 1
    immediate: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, str(self.name)):
            raise NetreproError(
                f"no workload could name a queue {self.name!r}",
                "begin with a letter or _, go on with letters, digits and _ . - >",
            )
        for limit in ("capacity", "max_enqueue", "max_dequeue"):
            packets = whole(f"queue {self.name!r}: {limit}", getattr(self, limit))
            if packets < 1:
                raise NetreproError(f"queue {self.name!r} has {limit} {packets}", "give at least 1 packet")
            object.__setattr__(self, limit, packets)


def ImmediateQueue(name: str, capacity: int = 10, max_enqueue: int = 1, max_dequeue: int = 1) -> Queue:
    """Make a queue whose packets may leave in the step of their arrival (the published ImmQueue)."""
    return Queue(name, capacity, max_enqueue, max_dequeue, immediate=True)


def Link(name: str) -> Queue:
    """Make a wire: it carries one packet a step, which reaches the other end one step later."""
    return Queue(name, capacity=1, max_enqueue=1, max_dequeue=1)
