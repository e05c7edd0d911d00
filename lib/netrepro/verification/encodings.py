"""Contention points, workloads and queries as formulas, in two independent encodings. The other one is in
`circuit_encoding`.

`IntegerEncoding` follows the original program. Each queue, step and position has a packet variable (a data type of one
Boolean and two unbounded integers). Counters are integers, and constraints tie all of these together.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any

import z3

from netrepro.verification.logic import Bit, IntegerLogic, Logic, Number
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import Packet
from netrepro.verification.workloads import (
    FIELDS,
    Comp,
    Difference,
    Line,
    Metric,
    Query,
    Same,
    Steps,
    Term,
    TimedSpec,
    Uniq,
    Workload,
)


class Encoding(ABC):
    """The base class of both encodings: the order of events in a step, metrics, workloads and queries."""

    logic: Logic

    def __init__(self, point: ContentionPoint):
        self.point = point
        self.memory: dict[tuple[str, int], dict[Any, Any]] = defaultdict(dict)
        self._metrics: dict[tuple[Metric, str, int], tuple[Number, Bit]] = {}
        self._bits: dict[Any, Bit] = {}

    @property
    def readers(self) -> Mapping[str, QueuingModule]:
        """Queue -> the module that takes from it."""
        return self.point.reader

    @property
    def writers(self) -> Mapping[str, QueuingModule]:
        """Queue -> the module that offers to it."""
        return self.point.writer

    def _unroll(self) -> None:
        for time in range(self.point.horizon):
            for name in self.point.inputs:
                self._arrive(name, time)
            for module in self.point.order:
                constraints = list(module.constraints(Step(self, module, time)))
                for queue in module.inputs:
                    self.taken(queue.name, time)
                for queue in module.outputs:
                    if not self._is_offered(queue.name, time):
                        self.offer(queue.name, time, [])
                self._require(module, time, constraints)
            for name in self.point.outputs:
                self._drain(name, time)
            for name in self.point.queues:
                self._advance(name, time)

    # --- what an encoding provides ---

    @abstractmethod
    def _arrive(self, name: str, time: int) -> None:
        """Let the outside world offer packets to an input queue."""

    @abstractmethod
    def _require(self, module: QueuingModule, time: int, constraints: list[Bit]) -> None: ...

    @abstractmethod
    def _drain(self, name: str, time: int) -> None:
        """Dequeue as many packets from an output queue as one step allows."""

    @abstractmethod
    def _advance(self, name: str, time: int) -> None:
        """Make the queue's contents at the next step."""

    @abstractmethod
    def _is_offered(self, name: str, time: int) -> bool: ...

    @abstractmethod
    def free_choice(self, module: QueuingModule, time: int, label: str) -> Bit:
        """Return a bit that the solver may choose, called "module.label@step" in traces."""

    @abstractmethod
    def length(self, name: str, time: int) -> Number:
        """Count the packets of the queue that may be taken at `time`."""

    def nonempty(self, name: str, time: int) -> Bit:
        """Return the bit that holds where a packet of the queue may be taken at `time`."""
        return self.logic.at_least(self.length(name, time), 1)

    @abstractmethod
    def packet(self, name: str, time: int, position: int) -> Any:
        """Return the packet at a position (0: the front); an absent packet where the queue is shorter."""

    @abstractmethod
    def present(self, packet: Any) -> Bit:
        """Return the bit that holds unless the packet is an absent one."""

    @abstractmethod
    def only(self, packet: Any, destinations: Container[int] | None, path: int | None) -> Any:
        """Return the packet if its dst is in `destinations` and its ecmp is `path` (None: any); else an absent one."""

    @abstractmethod
    def pick(self, choices: Sequence[tuple[Bit, Any]]) -> Any:
        """Return the packet whose condition holds, of (condition, packet) pairs; at most one condition may hold."""

    @abstractmethod
    def take(self, name: str, time: int, count: Bit | Number) -> None:
        """Dequeue `count` packets at `time` (a number, or a bit for one packet); so many must be waiting."""

    @abstractmethod
    def taken(self, name: str, time: int) -> Number:
        """Return the number of packets dequeued at `time`; the solver chooses it unless `take` was called."""

    @abstractmethod
    def offer(self, name: str, time: int, packets: Sequence[Any]) -> None:
        """Offer packets to the queue at `time`, in this order; absent ones are left out."""

    @abstractmethod
    def offered_bits(self, name: str, time: int) -> Sequence[Bit]:
        """Return bits: bit i is true where more than i packets are offered."""

    @abstractmethod
    def _field(self, metric: Metric, name: str, time: int) -> tuple[Number, Bit]: ...

    # --- metrics (time from 0 here) ---

    def metric(self, metric: Metric, name: str, time: int) -> tuple[Number, Bit]:
        """Return the metric's value and the bit that is true where it is valid."""
        key = metric, name, time
        if key not in self._metrics:
            value, valid = self._make_metric(*key)
            if metric not in FIELDS:
                value = self.logic.named_number(f"{metric}({name})@{time}", value)
            self._metrics[key] = value, valid
        return self._metrics[key]

    def _make_metric(self, metric: Metric, name: str, time: int) -> tuple[Number, Bit]:
        logic = self.logic
        earlier = self.metric(metric, name, time - 1)[0] if time and metric not in FIELDS else logic.number(0)
        if metric is Metric.CENQ:
            return logic.add(earlier, self._offered_count(name, time)), logic.true
        if metric is Metric.CDEQ:
            return logic.add(earlier, self.taken(name, time)), logic.true
        if metric is Metric.DEQ:
            return self.taken(name, time), logic.true
        if metric is Metric.QSIZE:
            return self.length(name, time), logic.true
        if metric is Metric.CBLOCKED:
            is_blocked = logic.all_of(
                [
                    self.nonempty(name, time),
                    logic.opposite(logic.at_least(self.taken(name, time), 1)),
                ]
            )
            longer = logic.add(logic.number(1), earlier)
            return logic.choose_number(is_blocked, longer, logic.number(0)), logic.true
        if metric is Metric.AIPG:
            return self._gap(name, time, earlier), logic.true
        return self._field(metric, name, time)

    def _offered_count(self, name: str, time: int) -> Number:
        return self.logic.count(self.offered_bits(name, time))

    def _gap(self, name: str, time: int, earlier: Number) -> Number:
        logic = self.logic
        if time == 0:
            return logic.number(0)

        def some(step: int) -> Bit:
            bits = self.offered_bits(name, step)
            return bits[0] if bits else logic.false

        # The distance to the last arrival before; without one, to the first arrival after; without any, the horizon.
        gap = logic.number(self.point.horizon)
        for step in range(self.point.horizon - 1, time, -1):
            gap = logic.choose_number(some(step), logic.number(step - time), gap)
        for step in range(time):
            gap = logic.choose_number(some(step), logic.number(time - step), gap)
        bits = self.offered_bits(name, time)
        several = bits[1] if len(bits) > 1 else logic.false
        return logic.choose_number(some(time), logic.choose_number(several, logic.number(0), gap), earlier)

    # --- workloads and queries ---

    def _side(self, side: Term, time: int, limit: int | None = None) -> tuple[Number, Bit]:
        """Return a comparison side's value and whether it is valid; a value above `limit` may be cut to `limit`."""
        parts = [self.metric(side.metric, queue, time) for queue in side.queues]
        total = parts[0][0]
        for value, _ in parts[1:]:
            total = self.logic.add(total, value, limit)
        return total, self.logic.all_of(valid for _, valid in parts)

    def _compare(self, left: Number, sign: str, right: int) -> Bit:
        logic = self.logic
        above, beyond = logic.at_least(left, right), logic.at_least(left, right + 1)
        if sign in (">=", "<"):
            return above if sign == ">=" else logic.opposite(above)
        if sign in (">", "<="):
            return beyond if sign == ">" else logic.opposite(beyond)
        return logic.all_of([above, logic.opposite(beyond)])

    def spec_bit(self, timed: TimedSpec) -> Bit:
        """Return the bit that is true where a timed specification holds."""
        if timed not in self._bits:
            self._bits[timed] = self._make_spec(timed)
        return self._bits[timed]

    def _make_spec(self, timed: TimedSpec) -> Bit:
        logic, spec = self.logic, timed.spec
        steps = range(timed.first - 1, timed.last)
        if isinstance(spec, Comp):
            held = []
            for time in steps:
                if isinstance(spec.right, Line):
                    threshold = spec.right.value(None, time + 1)
                    left, valid = self._side(spec.left, time, threshold + 1)
                    held += [valid, self._compare(left, spec.sign, threshold)]
                else:
                    left, valid = self._side(spec.left, time)
                    held.append(valid)
                    right, right_valid = self._side(spec.right, time)
                    held += [right_valid, logic.compare(left, spec.sign, right)]
            return logic.all_of(held)
        if isinstance(spec, Uniq):
            return logic.all_of(self._all_differ(spec, time) for time in steps)
        values = [self.metric(spec.metric, spec.queue, time) for time in steps]
        pairs = list(itertools.pairwise(values))
        if isinstance(spec, Steps):
            return logic.all_of(
                bit
                for (a, a_valid), (b, b_valid) in pairs
                for bit in (
                    a_valid,
                    b_valid,
                    logic.compare(b, ">", a) if spec.rising else logic.compare(b, "<", a),
                )
            )
        assert isinstance(spec, Same)
        steady = logic.all_of([*(valid for _, valid in values), *(logic.equal(a, b) for (a, _), (b, _) in pairs)])
        if spec.metric not in FIELDS:
            return steady
        silent_steps = steps[1:] if spec.original else steps
        silent = logic.all_of(
            logic.opposite(bits[0]) for time in silent_steps if (bits := self.offered_bits(spec.queue, time))
        )
        return logic.any_of([steady, silent])

    def _all_differ(self, spec: Uniq, time: int) -> Bit:
        logic = self.logic
        values = [self.metric(spec.metric, queue, time) for queue in spec.queues]
        return logic.all_of(
            logic.opposite(logic.all_of([a_valid, b_valid, logic.equal(a, b)]))
            for i, (a, a_valid) in enumerate(values)
            for b, b_valid in values[:i]
        )

    def workload_bit(self, workload: Workload) -> Bit:
        """Return the bit that is true where a workload holds."""
        return self.logic.all_of(self.spec_bit(timed) for timed in workload.specs)

    def query_bit(self, query: Query) -> Bit:
        """Return the bit that is true where a query holds."""
        answers = []
        for time in range(query.time_range[0] - 1, query.time_range[1]):
            measure = query.measure
            if isinstance(measure, Difference):
                (a, a_valid), (b, b_valid) = (self.metric(measure.metric, queue, time) for queue in measure.queues)
                shift = self.logic.number(abs(query.threshold))
                if query.threshold >= 0:
                    b = self.logic.add(shift, b)
                else:
                    a = self.logic.add(shift, a)
                answers.append(self.logic.all_of([a_valid, b_valid, self.logic.compare(a, query.op, b)]))
            else:
                value, valid = self._side(measure, time, query.threshold + 1)
                answers.append(self.logic.all_of([valid, self._compare(value, query.op, query.threshold)]))
        return self.logic.all_of(answers) if query.quantifier == "forall" else self.logic.any_of(answers)


def choice_label(module: QueuingModule, time: int, label: str) -> str:
    """Name a module's free choice as `Trace.choices` does."""
    return f"{module.name}.{label}@{time}"


# --- integers ---


class IntegerEncoding(Encoding):
    """The reference encoding, close to the original program's; see the module's docstring."""

    logic: IntegerLogic

    def __init__(self, point: ContentionPoint):
        super().__init__(point)
        self.logic = IntegerLogic()
        self.context = self.logic.context
        kind = z3.Datatype("Packet", self.context)
        integer = z3.IntSort(self.context)
        kind.declare("packet", ("val", z3.BoolSort(self.context)), ("dst", integer), ("ecmp", integer))
        self._kind = kind.create()
        zero = self.logic.number(0)
        self._null = self._kind.packet(self.logic.false, zero, zero)
        self.demands: list[Any] = []
        self._elements: dict[tuple[str, int], list[Any]] = {}
        self._taken: dict[tuple[str, int], Any] = {}
        self._kept: dict[tuple[str, int], list[Any]] = {}
        self._enqueued: dict[tuple[str, int], list[Any]] = {}
        self._offered: set[tuple[str, int]] = set()
        for name, queue in point.queues.items():
            for time in range(point.horizon):
                self._declare(name, queue, time)
        self._unroll()

    @property
    def constraints(self) -> list[Any]:
        """All constraints of the model, with the definitions of named values."""
        return self.demands + self.logic.definitions

    def _valid(self, packet: Any) -> Any:
        return self._kind.val(packet)

    def _declare(self, name: str, queue: Queue, time: int) -> None:
        """Declare the variables of a queue in a step, and tie them to each other and to the step before."""
        logic, demand = self.logic, self.demands.append

        def packets(kind: str, count: int) -> list[Any]:
            return [z3.Const(f"{name}.{kind}[{i}]@{time}", self._kind) for i in range(count)]

        elements, enqueued = packets("elem", queue.capacity), packets("enq", queue.max_enqueue)
        self._elements[name, time], self._enqueued[name, time] = elements, enqueued
        for i, packet in enumerate(enqueued):
            demand(z3.Implies(z3.Not(self._valid(packet)), packet == self._null))
            if i:
                demand(z3.Implies(self._valid(packet), self._valid(enqueued[i - 1])))
        taken = z3.Int(f"{name}.deq_cnt@{time}", self.context)
        self._taken[name, time] = taken
        demand(z3.And(taken >= 0, taken <= queue.max_dequeue))
        for i in range(queue.max_dequeue):
            enough = self._valid(elements[i]) if i < queue.capacity else logic.false
            demand(z3.Implies(taken > i, enough))
        kept = [z3.Bool(f"{name}.tmp_val[{p}]@{time}", self.context) for p in range(queue.capacity)]
        self._kept[name, time] = kept
        for position, bit in enumerate(kept):
            demand(
                bit
                == logic.any_of(
                    z3.And(taken == d, self._valid(elements[position + d]))
                    for d in range(queue.max_dequeue + 1)
                    if position + d < queue.capacity
                )
            )
        arrived_at = time if queue.immediate else time - 1
        if time == 0 and not queue.immediate:
            for packet in elements:
                demand(packet == self._null)
            return
        if time == 0:
            for position, packet in enumerate(elements):
                demand(packet == (enqueued[position] if position < queue.max_enqueue else self._null))
            return
        self._follow(name, queue, time, self._enqueued[name, arrived_at])

    def _follow(self, name: str, queue: Queue, time: int, arrived: list[Any]) -> None:
        before, kept = self._elements[name, time - 1], self._kept[name, time - 1]
        taken = self._taken[name, time - 1]
        for position, packet in enumerate(self._elements[name, time]):
            for d in range(queue.max_dequeue + 1):
                if position + d < queue.capacity:
                    self.demands.append(z3.Implies(z3.And(kept[position], taken == d), packet == before[position + d]))
            for held in range(position + 1):  # the first free place is `held`
                first_free = z3.And(z3.Not(kept[held]), kept[held - 1] if held else self.logic.true)
                source = arrived[position - held] if position - held < len(arrived) else self._null
                self.demands.append(z3.Implies(first_free, packet == source))

    def _arrive(self, name: str, time: int) -> None:
        for packet in self._enqueued[name, time]:
            dst, path = self._kind.dst(packet), self._kind.ecmp(packet)
            inside = z3.And(dst >= 0, dst < self.point.destinations, path >= 0, path < self.point.paths)
            self.demands.append(z3.Implies(self._valid(packet), inside))
            for other in {*range(self.point.destinations)} - {*self.point.sends_to[name]}:
                self.demands.append(z3.Implies(self._valid(packet), dst != other))

    def _require(self, module: QueuingModule, time: int, constraints: list[Any]) -> None:
        self.demands += constraints

    def _drain(self, name: str, time: int) -> None:
        """Take all packets of a queue, but at most max_dequeue."""
        elements = self._elements[name, time][: self.point.queues[name].max_dequeue]
        self.take(name, time, self.logic.count([self._valid(packet) for packet in elements]))

    def _advance(self, name: str, time: int) -> None:
        """Do nothing: `_declare` already ties the steps together."""

    def _is_offered(self, name: str, time: int) -> bool:
        return (name, time) in self._offered

    def free_choice(self, module: QueuingModule, time: int, label: str) -> Any:
        return self.logic.free(choice_label(module, time, label))

    def length(self, name: str, time: int) -> Any:
        return self.logic.count([self._valid(packet) for packet in self._elements[name, time]])

    def nonempty(self, name: str, time: int) -> Any:
        return self._valid(self._elements[name, time][0])

    def packet(self, name: str, time: int, position: int) -> Any:
        elements = self._elements[name, time]
        return elements[position] if position < len(elements) else self._null

    def present(self, packet: Any) -> Any:
        return self._valid(packet)

    def only(self, packet: Any, destinations: Container[int] | None, path: int | None) -> Any:
        wanted = [self._valid(packet)]
        if destinations is not None:
            values = [d for d in range(self.point.destinations) if d in destinations]
            wanted.append(self.logic.any_of(self._kind.dst(packet) == value for value in values))
        if path is not None:
            wanted.append(self._kind.ecmp(packet) == path)
        return z3.If(z3.And(*wanted), packet, self._null)

    def pick(self, choices: Sequence[tuple[Any, Any]]) -> Any:
        packet = self._null
        for condition, choice in reversed(choices):
            packet = z3.If(z3.And(condition, self._valid(choice)), choice, packet)
        return packet

    def take(self, name: str, time: int, count: Any) -> None:
        number = z3.If(count, self.logic.number(1), self.logic.number(0)) if z3.is_bool(count) else count
        self.demands.append(self._taken[name, time] == number)

    def taken(self, name: str, time: int) -> Any:
        return self._taken[name, time]

    def offer(self, name: str, time: int, packets: Sequence[Any]) -> None:
        self._offered.add((name, time))
        before = self.logic.number(0)
        places: list[list[tuple[Any, Any]]] = [[] for _ in self._enqueued[name, time]]
        for index, packet in enumerate(packets):
            for place in range(min(index + 1, len(places))):
                places[place].append((before == place if index else self.logic.true, packet))
            before = before + z3.If(self._valid(packet), self.logic.number(1), self.logic.number(0))
        for ways, variable in zip(places, self._enqueued[name, time], strict=True):
            self.demands.append(variable == self.pick(ways))

    def offered_bits(self, name: str, time: int) -> list[Any]:
        return [self._valid(packet) for packet in self._enqueued[name, time]]

    def _field(self, metric: Metric, name: str, time: int) -> tuple[Any, Any]:
        first, *others = self._enqueued[name, time]
        field = self._kind.dst if metric is Metric.DST else self._kind.ecmp
        agree = [z3.Implies(self._valid(packet), field(packet) == field(first)) for packet in others]
        return field(first), self.logic.all_of([self._valid(first), *agree])

    def read_arrivals(self, model: z3.ModelRef) -> dict[str, list[list[Packet]]]:
        """Read the packets that a model offers to the inputs."""

        def value(term: Any) -> Any:
            return model.eval(term, model_completion=True)

        return {
            name: [
                [
                    (value(self._kind.dst(p)).as_long(), value(self._kind.ecmp(p)).as_long())
                    for p in self._enqueued[name, time]
                    if z3.is_true(value(self._valid(p)))
                ]
                for time in range(self.point.horizon)
            ]
            for name in self.point.inputs
        }

    def tables(self, model: z3.ModelRef) -> tuple[dict[str, list[int]], ...]:
        """Return (offered, taken, length) of each queue and step in a model."""
        result: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for name in self.point.queues:
            for time in range(self.point.horizon):
                numbers = (
                    self._offered_count(name, time),
                    self._taken[name, time],
                    self.length(name, time),
                )
                for table, number in zip(result, numbers, strict=True):
                    value = model.eval(number, model_completion=True).as_long()
                    table.setdefault(name, []).append(value)
        return result
