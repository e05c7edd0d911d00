"""One step of one queuing module: the interface for authors of modules, the same in every encoding."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

from netrepro.errors import NetreproError
from netrepro.verification.logic import Bit, Logic, Number
from netrepro.verification.queues import Queue


class Module(Protocol):
    """The part of a module that a step needs: its name."""

    name: str


class Unrolled(Protocol):
    """The part of an encoding that a step needs; queues are given by name, times count from 0."""

    @property
    def logic(self) -> Logic:
        """The operations that combine bits and numbers."""

    @property
    def memory(self) -> Mapping[tuple[str, int], dict[Any, Any]]:
        """(module, time) -> the values that the module stored in that step; empty if none."""

    @property
    def readers(self) -> Mapping[str, Module]:
        """Queue -> the module that takes from it."""

    @property
    def writers(self) -> Mapping[str, Module]:
        """Queue -> the module that offers to it."""

    def free_choice(self, module: Any, time: int, label: str) -> Bit: ...

    def length(self, name: str, time: int) -> Number: ...

    def nonempty(self, name: str, time: int) -> Bit: ...

    def packet(self, name: str, time: int, position: int) -> Any: ...

    def present(self, packet: Any) -> Bit: ...

    def only(self, packet: Any, destinations: Container[int] | None, path: int | None) -> Any: ...

    def pick(self, choices: Sequence[tuple[Bit, Any]]) -> Any: ...

    def take(self, name: str, time: int, count: Bit | Number) -> None: ...

    def taken(self, name: str, time: int) -> Number: ...

    def offer(self, name: str, time: int, packets: Sequence[Any]) -> None: ...


class Step:
    """One step of one module, as `QueuingModule.constraints` sees it.

    Attributes
    ----------
    logic : operations that combine bits and numbers.
    time : the step, from 0; workloads, queries and traces count from 1 (t = time + 1).
    """

    def __init__(self, encoding: Unrolled, module: Module, time: int):
        self._encoding, self._module, self.time = encoding, module, time
        self.logic: Logic = encoding.logic
        self._done: set[tuple[str, str]] = set()
        self._before, self._after = encoding.memory[module.name, time - 1], encoding.memory[module.name, time]

    def free(self, label: str) -> Bit:
        """Return a bit that the solver may choose, called "module.label@step" in traces."""
        return self._encoding.free_choice(self._module, self.time, label)

    def length(self, queue: Queue) -> Number:
        """Count the packets that may be taken now."""
        return self._encoding.length(queue.name, self.time)

    def nonempty(self, queue: Queue) -> Bit:
        """Return the bit that holds where a packet may be taken now."""
        return self._encoding.nonempty(queue.name, self.time)

    def packet(self, queue: Queue, position: int = 0) -> Any:
        """Return the packet at a position (0: the front); an absent packet where the queue is shorter."""
        return self._encoding.packet(queue.name, self.time, position)

    def present(self, packet: Any) -> Bit:
        """Return the bit that holds unless the packet is an absent one."""
        return self._encoding.present(packet)

    def only(self, packet: Any, *, destinations: Container[int] | None = None, path: int | None = None) -> Any:
        """Return the packet if its dst is in `destinations` and its ecmp is `path` (None: any); else an absent one."""
        return self._encoding.only(packet, destinations, path)

    def when(self, condition: Bit, packet: Any) -> Any:
        """Return the packet where the condition holds; an absent packet otherwise."""
        return self.pick([(condition, packet)])

    def pick(self, choices: Sequence[tuple[Bit, Any]]) -> Any:
        """Return the packet whose condition holds, of (condition, packet) pairs; at most one condition may hold."""
        return self._encoding.pick(choices)

    def take(self, queue: Queue, count: Bit | Number) -> None:
        """Dequeue `count` packets (a number, or a bit for one packet); at least so many must be waiting."""
        self._once("takes from", queue, self._encoding.readers)
        self._encoding.take(queue.name, self.time, count)

    def taken(self, queue: Queue) -> Number:
        """Return the number of packets dequeued in this step; the solver chooses it unless `take` was called."""
        return self._encoding.taken(queue.name, self.time)

    def offer(self, queue: Queue, packets: Sequence[Any]) -> None:
        """Offer packets to an output queue, in this order; absent ones are left out."""
        self._once("offers to", queue, self._encoding.writers)
        self._encoding.offer(queue.name, self.time, packets)

    def _once(self, what: str, queue: Queue, owner: Mapping[str, Module]) -> None:
        if owner.get(queue.name) is not self._module or (what, queue.name) in self._done:
            raise NetreproError(
                f"module {self._module.name!r} {what} {queue.name!r} twice in a step, or it is not its queue",
                "take from each input and offer to each output once a step",
            )
        self._done.add((what, queue.name))

    def recall(self, key: Any, default: Any) -> Any:
        """Return the value that `remember` stored in the previous step, or `default`, made of constants of `logic`."""
        return self._before.get(key, default)

    def remember(self, key: Any, bit: Bit) -> None:
        """Store a bit for the next step."""
        self._after[key] = self.logic.named(self._label(key), bit) if self.logic.keeps_names else bit

    def remember_number(self, key: Any, number: Number) -> None:
        """Store a number for the next step."""
        self._after[key] = self.logic.named_number(self._label(key), number) if self.logic.keeps_names else number

    def _label(self, key: Any) -> str:
        return f"{self._module.name}.{key}@{self.time}"
