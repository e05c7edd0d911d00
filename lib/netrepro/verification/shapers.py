"""Modules that move several packets a step: a token bucket, a delay line, a lossy link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from netrepro.errors import NetreproError
from netrepro.verification.logic import Bit, Number
from netrepro.verification.points import QueuingModule
from netrepro.verification.queues import Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import PacketRun
from netrepro.verification.workloads import whole


class Mover(QueuingModule):
    """The base class of modules that move packets from one queue to another, up to max_dequeue a step.

    Raises NetreproError where the output's max_enqueue is below the input's max_dequeue.
    """

    always_solvable: ClassVar[bool] = True

    def __init__(self, name: str, queue: Queue, output: Queue):
        super().__init__(name, [queue], [output])
        if output.max_enqueue < queue.max_dequeue:
            raise NetreproError(
                f"module {name!r} may move {queue.max_dequeue} packets a step into {output.name!r}, "
                f"which takes {output.max_enqueue}",
                "raise max_enqueue or lower max_dequeue",
            )

    def keeps(self, step: Step, position: int) -> Bit:
        """Return the bit that is true where the packet that leaves from `position` arrives, that is, is not lost."""
        return step.logic.true

    def move(self, step: Step, count: Number) -> None:
        """Move `count` packets, less those that are lost."""
        logic, queue = step.logic, self.inputs[0]
        step.take(queue, count)
        packets = []
        for i in range(queue.max_dequeue):
            goes = logic.all_of([logic.at_least(count, i + 1), self.keeps(step, i)])
            packets.append(step.when(goes, step.packet(queue, i)))
        step.offer(self.outputs[0], packets)


class TokenBucket(Mover):
    """A token bucket: each packet that leaves uses up one token, and waits without one.

    tokens(1) = 0, then tokens(t) = min(max_tokens, tokens(t-1) - dequeued(t-1) + rate). With `every` above 1, the rate
    is added only before the steps every + 1, 2 every + 1, ...

    Parameters
    ----------
    rate : number of tokens added each time. max_tokens : capacity of the bucket, at most the input's max_dequeue.
    every : steps between two additions of tokens; `rate=1, every=3` is slower than a packet a step.
    """

    def __init__(self, name: str, queue: Queue, output: Queue, *, rate: int, max_tokens: int, every: int = 1):
        super().__init__(name, queue, output)
        rate, max_tokens, every = (whole(f"module {name!r}: the number", each) for each in (rate, max_tokens, every))
        if every < 1:
            raise NetreproError(f"module {name!r} has tokens every {every} steps", "give a whole number from 1 on")
        if rate < 1 or max_tokens < 1 or max_tokens > queue.max_dequeue:
            raise NetreproError(
                f"module {name!r} has rate {rate} and max_tokens {max_tokens}",
                f"at least 1 each, and max_tokens at most max_dequeue {queue.max_dequeue} of {queue.name!r}",
            )
        self.rate, self.max_tokens, self.every = rate, max_tokens, every

    def _coming(self, time: int) -> int:
        """Count the tokens added at the end of step `time` (from 0)."""
        return self.rate if (time + 1) % self.every == 0 else 0

    def constraints(self, step: Step) -> Iterable[Any]:
        logic = step.logic
        tokens = step.recall("tokens", logic.number(0))
        count = logic.minimum(step.length(self.inputs[0]), tokens)
        grown = logic.add(logic.minus(tokens, count), logic.number(self._coming(step.time)))
        step.remember_number("tokens", logic.minimum(grown, logic.number(self.max_tokens)))
        self.move(step, count)
        return []

    def serve(self, run: PacketRun) -> None:
        queue = self.inputs[0].name
        tokens = run.memory.get("tokens", 0)
        packets = run.take(queue, min(tokens, len(run.waiting(queue))))
        run.memory["tokens"] = min(self.max_tokens, tokens - len(packets) + self._coming(run.time))
        run.offer(self.outputs[0].name, packets)


class Lossy(Mover):
    """A link that may lose any packet."""

    def keeps(self, step: Step, position: int) -> Bit:
        """Return the bit that holds unless the packet at a position (0: the front) is lost in this step."""
        return step.logic.opposite(step.free(f"lose_{position}"))

    def constraints(self, step: Step) -> Iterable[Any]:
        queue = self.inputs[0]
        self.move(step, step.logic.minimum(step.length(queue), step.logic.number(queue.max_dequeue)))
        return []

    def serve(self, run: PacketRun) -> None:
        queue = self.inputs[0]
        packets = run.take(queue.name, min(queue.max_dequeue, len(run.waiting(queue.name))))
        kept = []
        for position in range(queue.max_dequeue):
            label = f"{self.name}.lose_{position}@{run.time}"
            known = run.choice(label)
            is_lost = bool(run.generator.random() < 0.5) if known is None else known
            run.chose(label, is_lost)
            if position < len(packets) and not is_lost:
                kept.append(packets[position])
        run.offer(self.outputs[0].name, kept)


class Relay(Mover):
    """A module that moves as many packets as it may; each (not immediate) queue on the way adds one step of delay."""

    def constraints(self, step: Step) -> Iterable[Any]:
        queue = self.inputs[0]
        self.move(step, step.logic.minimum(step.length(queue), step.logic.number(queue.max_dequeue)))
        return []

    def serve(self, run: PacketRun) -> None:
        queue = self.inputs[0]
        packets = run.take(queue.name, min(queue.max_dequeue, len(run.waiting(queue.name))))
        run.offer(self.outputs[0].name, packets)


def delay_line(name: str, queue: Queue, output: Queue, steps: int) -> list[QueuingModule]:
    """Make modules that bring every packet of `queue` to `output` after `steps` steps, with no loss on the way.

    Raises NetreproError for fewer than one step.
    """
    if steps < 1:
        raise NetreproError(f"the delay line {name!r} has {steps} steps", "give at least 1")
    most = queue.max_dequeue
    between = [Queue(f"{name}.{i + 1}", most, most, most) for i in range(steps - 1)]
    path = [queue, *between, output]
    return [Relay(f"{name}.relay{i}", path[i], path[i + 1]) for i in range(steps)]
