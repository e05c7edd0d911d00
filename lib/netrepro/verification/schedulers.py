"""Packet schedulers: first-come first-served, strict priority, round robin, weighted round robin, FQ-CoDel.

Each scheduler serves at most one packet a step, and is written twice, independently: as constraints and as running
code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from netrepro.errors import NetreproError, nearest
from netrepro.verification.logic import Bit
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import PacketRun
from netrepro.verification.workloads import whole


class Scheduler(QueuingModule):
    """The base class of schedulers: many input queues, one output queue."""

    always_solvable: ClassVar[bool] = True

    def __init__(self, name: str, inputs: Sequence[Queue], output: Queue):
        super().__init__(name, inputs, [output])

    def send(self, step: Step, served: Sequence[Bit]) -> None:
        """Move the first packet of the one input queue whose bit holds."""
        for queue, bit in zip(self.inputs, served, strict=True):
            step.take(queue, bit)
        heads = [(bit, step.packet(queue)) for queue, bit in zip(self.inputs, served, strict=True)]
        step.offer(self.outputs[0], [step.pick(heads)])

    def forward(self, run: PacketRun, index: int) -> None:
        """Move one real packet from input queue `index` to the output."""
        run.offer(self.outputs[0].name, run.take(self.inputs[index].name))


def serve_first(step: Step, waiting: Sequence[Bit]) -> list[Bit]:
    """Return bits of which only the first true one of `waiting` holds: bit i and none before it."""
    logic = step.logic
    return [logic.all_of([bit, *(logic.opposite(earlier) for earlier in waiting[:i])]) for i, bit in enumerate(waiting)]


class FirstInFirstOut(Scheduler):
    """A scheduler of one queue: one packet a step, in order of arrival."""

    def __init__(self, name: str, queue: Queue, output: Queue):
        super().__init__(name, [queue], output)

    def constraints(self, step: Step) -> Iterable[Any]:
        self.send(step, [step.nonempty(self.inputs[0])])
        return []

    def serve(self, run: PacketRun) -> None:
        if run.waiting(self.inputs[0].name):
            self.forward(run, 0)


class StrictPriority(Scheduler):
    """A scheduler that serves the first nonempty input queue, in the order given."""

    def constraints(self, step: Step) -> Iterable[Any]:
        self.send(step, serve_first(step, [step.nonempty(queue) for queue in self.inputs]))
        return []

    def serve(self, run: PacketRun) -> None:
        for index, queue in enumerate(self.inputs):
            if run.waiting(queue.name):
                return self.forward(run, index)
        return None


class RoundRobin(Scheduler):
    """A scheduler that serves the next nonempty input queue after the one served last, at first from queue 0 on."""

    def constraints(self, step: Step) -> Iterable[Any]:
        logic, count = step.logic, len(self.inputs)
        last = [step.recall(i, logic.true if i == count - 1 else logic.false) for i in range(count)]
        waiting = [step.nonempty(queue) for queue in self.inputs]
        served: list[list[Bit]] = [[] for _ in range(count)]
        for start in range(count):
            order = [(start + 1 + k) % count for k in range(count)]
            for i, first in zip(order, serve_first(step, [waiting[i] for i in order]), strict=True):
                served[i].append(logic.all_of([last[start], first]))
        chosen = [logic.any_of(ways) for ways in served]
        some = logic.any_of(waiting)
        for i in range(count):
            step.remember(i, logic.choose(some, chosen[i], last[i]))
        self.send(step, chosen)
        return []

    def serve(self, run: PacketRun) -> None:
        count = len(self.inputs)
        last = run.memory.setdefault("last", count - 1)
        for index in ((last + 1 + k) % count for k in range(count)):
            if run.waiting(self.inputs[index].name):
                run.memory["last"] = index
                return self.forward(run, index)
        return None


class WeightedRoundRobin(Scheduler):
    """Round robin with up to `weight` packets a visit: deficit round robin for packets of one size.

    A visit ends when its weight is used up or its queue is empty; the rest of the weight is then lost.
    """

    def __init__(self, name: str, inputs: Sequence[Queue], output: Queue, weights: Sequence[int]):
        super().__init__(name, inputs, output)
        self.weights = [whole(f"module {name!r}: the weight", weight) for weight in weights]
        if len(weights) != len(self.inputs) or min(self.weights) < 1:
            raise NetreproError(
                f"module {name!r} has weights {self.weights} for {len(self.inputs)} queues",
                "give each queue a weight of at least 1",
            )

    def constraints(self, step: Step) -> Iterable[Any]:
        # State: one bit for (queue visited last, packets of its weight already used).
        logic, count = step.logic, len(self.inputs)
        states = [(i, used) for i in range(count) for used in range(1, self.weights[i] + 1)]
        start = (count - 1, self.weights[-1])
        now = {s: step.recall(s, logic.true if s == start else logic.false) for s in states}
        waiting = [step.nonempty(queue) for queue in self.inputs]
        after: dict[tuple[int, int], list[Bit]] = {s: [] for s in states}
        served: list[list[Bit]] = [[] for _ in range(count)]
        for i, used in states:
            stays = used < self.weights[i]
            order = [(i + k) % count for k in range(0 if stays else 1, count + (0 if stays else 1))]
            for j, first in zip(order, serve_first(step, [waiting[j] for j in order]), strict=True):
                moved = logic.all_of([now[i, used], first])
                served[j].append(moved)
                after[j, used + 1 if stays and j == i else 1].append(moved)
        idle = logic.opposite(logic.any_of(waiting))
        for s in states:
            # An idle step ends the visit: the weight counts as used up.
            kept = [now[i, u] for i, u in states if i == s[0]] if s[1] == self.weights[s[0]] else []
            step.remember(s, logic.any_of([*after[s], logic.all_of([idle, logic.any_of(kept)])]))
        self.send(step, [logic.any_of(ways) for ways in served])
        return []

    def serve(self, run: PacketRun) -> None:
        count = len(self.inputs)
        current = run.memory.setdefault("current", count - 1)
        credit = run.memory.setdefault("credit", 0)
        if credit and run.waiting(self.inputs[current].name):
            run.memory["credit"] = credit - 1
            return self.forward(run, current)
        run.memory["credit"] = 0
        for index in ((current + 1 + k) % count for k in range(count)):
            if run.waiting(self.inputs[index].name):
                run.memory.update(current=index, credit=self.weights[index] - 1)
                return self.forward(run, index)
        return None


class FlowQueueScheduler(Scheduler):
    """FQ-CoDel's two lists of queues (RFC 8290, section 4.1), one packet a visit; the paper's Buggy2LRR.

    A queue that becomes active joins the end of the list of new queues. The head of the new list is served
    first; if that list is empty, the head of the old list. After its visit a queue that still holds packets in the
    next step joins the end of the old list.

    A queue may be empty after its visit. With `is_fixed`, such a queue joins the old list, too, if it was new; it
    leaves the old list only when its turn comes and it is empty, as the RFC demands. Without `is_fixed`, such a
    queue becomes inactive at once. A flow that sends again just after it ran empty is then new each time, and starves
    the others.

    Queues that become active in the same step join in the order of the inputs, or in any order with
    `any_order=True` (as in the original program).
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Queue],
        output: Queue,
        *,
        is_fixed: bool = False,
        any_order: bool = False,
    ):
        super().__init__(name, inputs, output)
        self.is_fixed, self.any_order = is_fixed, any_order

    # The lists as relations: new[q], old[q], and before[p, q] (p stands before q in the same list).
    def constraints(self, step: Step) -> Iterable[Any]:
        logic, flows = step.logic, range(len(self.inputs))
        demands: list[Bit] = []
        new = [step.recall(("new", q), logic.false) for q in flows]
        old = [step.recall(("old", q), logic.false) for q in flows]
        visited = [step.recall(("visited", q), logic.false) for q in flows]
        before = {(p, q): step.recall(("before", p, q), logic.false) for p, q in itertools.permutations(flows, 2)}
        waiting = [step.nonempty(queue) for queue in self.inputs]

        # The queue visited in the step before joins the old list now, when its arrivals are known. In the fixed form,
        # queues found empty on the old list were already removed in that step.
        for q in flows:
            joins = logic.all_of([visited[q], self._may_return(step, q, waiting[q])])
            for p in flows:
                if p != q:
                    before[p, q] = logic.choose(joins, old[p], before[p, q])
                    before[q, p] = logic.choose(joins, logic.false, before[q, p])
            old[q] = logic.any_of([old[q], joins])

        starts = [logic.all_of([waiting[q], logic.opposite(new[q]), logic.opposite(old[q])]) for q in flows]
        for p, q in itertools.combinations(flows, 2):
            together = logic.all_of([starts[p], starts[q]])
            p_first = step.free(f"{p}_before_{q}") if self.any_order else logic.true
            before[p, q] = logic.choose(
                together,
                p_first,
                logic.choose(starts[q], new[p], self._unless(step, starts[p], before[p, q])),
            )
            before[q, p] = logic.choose(
                together,
                logic.opposite(p_first),
                logic.choose(starts[p], new[q], self._unless(step, starts[q], before[q, p])),
            )
        if self.any_order:
            for p, q, r in itertools.permutations(flows, 3):
                three = logic.all_of([starts[p], starts[q], starts[r], before[p, q], before[q, r]])
                demands.append(logic.implies(three, before[p, r]))
        new = [logic.any_of([new[q], starts[q]]) for q in flows]

        no_new = logic.opposite(logic.any_of(new))
        served, was_new = [], []
        for q in flows:
            first_new = [logic.opposite(logic.all_of([new[p], before[p, q]])) for p in flows if p != q]
            # Empty queues on the old list (fixed form only) are passed over, and removed.
            first_old = [logic.opposite(logic.all_of([old[p], waiting[p], before[p, q]])) for p in flows if p != q]
            from_new = logic.all_of([new[q], *first_new])
            from_old = logic.all_of([no_new, old[q], waiting[q], *first_old])
            served.append(logic.any_of([from_new, from_old]))
            was_new.append(from_new)
        for q in flows:
            found_empty = logic.all_of(
                [
                    no_new,
                    old[q],
                    logic.opposite(waiting[q]),
                    *(logic.opposite(logic.all_of([old[p], waiting[p], before[p, q]])) for p in flows if p != q),
                ]
            )
            stays = logic.opposite(logic.any_of([served[q], found_empty]))
            step.remember(("new", q), logic.all_of([new[q], stays]))
            step.remember(("old", q), logic.all_of([old[q], stays]))
            step.remember(("visited", q), served[q])
            step.remember(("was_new", q), was_new[q])
            for p in flows:
                if p != q:
                    step.remember(("before", p, q), before[p, q])
        self.send(step, served)
        return demands

    def _may_return(self, step: Step, q: int, is_waiting: Bit) -> Bit:
        if not self.is_fixed:
            return is_waiting
        return step.logic.any_of([is_waiting, step.recall(("was_new", q), step.logic.false)])

    @staticmethod
    def _unless(step: Step, condition: Bit, bit: Bit) -> Bit:
        return step.logic.all_of([step.logic.opposite(condition), bit])

    def serve(self, run: PacketRun) -> None:
        new: list[int] = run.memory.setdefault("new", [])
        old: list[int] = run.memory.setdefault("old", [])
        last, was_new = run.memory.get("visited", (None, False))
        waiting = [bool(run.waiting(queue.name)) for queue in self.inputs]
        if last is not None and (waiting[last] or (self.is_fixed and was_new)):
            old.append(last)
        starting = [q for q, some in enumerate(waiting) if some and q not in new and q not in old]
        new += self._activation_order(run, starting)
        run.memory["visited"] = (None, False)
        if new:
            chosen = new.pop(0)
            run.memory["visited"] = (chosen, True)
        else:
            while old and not waiting[old[0]]:
                old.pop(0)
            if not old:
                return
            chosen = old.pop(0)
            run.memory["visited"] = (chosen, False)
        self.forward(run, chosen)

    def _activation_order(self, run: PacketRun, starting: list[int]) -> list[int]:
        if not self.any_order:
            return starting
        labels = {
            (p, q): f"{self.name}.{p}_before_{q}@{run.time}"
            for p, q in itertools.combinations(range(len(self.inputs)), 2)
        }
        # Only a part of the order may be known: the solver leaves out choices that its question does not depend on.
        known = {pair: run.choice(labels[pair]) for pair in itertools.combinations(starting, 2)}
        shuffled = [starting[k] for k in run.generator.permutation(len(starting))]
        order = next(
            list(order)
            for order in itertools.permutations(shuffled)
            if all(first in (None, order.index(p) < order.index(q)) for (p, q), first in known.items())
        )
        for pair, label in labels.items():
            both = pair[0] in order and pair[1] in order
            run.chose(label, both and order.index(pair[0]) < order.index(pair[1]))
        return order


SCHEDULERS = {
    "strict_priority": StrictPriority,
    "round_robin": RoundRobin,
    "flow_queue": FlowQueueScheduler,
}


def scheduler_point(kind: str, flows: int, horizon: int, **options: Any) -> ContentionPoint:
    """Make one scheduler with input queues q0, q1, ... and the output queue "out".

    Parameters
    ----------
    kind : "fifo" (q0 only), "strict_priority", "round_robin", "weighted_round_robin" or "flow_queue".
    flows : number of input queues. horizon : number of steps.
    options : `queue` holds keyword arguments of every input `Queue`; the others go to the scheduler.

    Raises NetreproError for an unknown kind.
    """
    settings = options.pop("queue", {})
    inputs = [Queue(f"q{i}", **settings) for i in range(flows)]
    output = Queue("out", max_enqueue=1)
    if kind == "fifo":
        module: QueuingModule = FirstInFirstOut("scheduler", inputs[0], output)
    elif kind == "weighted_round_robin":
        module = WeightedRoundRobin("scheduler", inputs, output, **options)
    elif kind in SCHEDULERS:
        module = SCHEDULERS[kind]("scheduler", inputs, output, **options)
    else:
        kinds = ["fifo", "weighted_round_robin", *SCHEDULERS]
        raise NetreproError(f"no scheduler is called {kind!r}", nearest(kind, kinds))
    return ContentionPoint(kind, horizon, [module])
