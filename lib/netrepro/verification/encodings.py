"""Contention points, workloads and queries as formulas, in two independent encodings.

`CircuitEncoding` computes each step from the one before. Only arrivals and free choices are variables; everything
else is a gate of one Boolean circuit. A packet is a set of bits, one for each (dst, ecmp) that it may have. Numbers are
unary. Queue positions that no packet can have reached are left out, so unused capacity costs nothing.

`IntegerEncoding` follows the original program. Each queue, step and position has a packet variable (a data type of one
Boolean and two unbounded integers). Counters are integers, and constraints tie all of these together.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import z3

from netrepro.verification.logic import Binary, Bit, CircuitLogic, IntegerLogic, Logic, Number
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import Packet, Trace
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
    def free_choice(self, module: QueuingModule, time: int, label: str) -> Bit: ...

    @abstractmethod
    def length(self, name: str, time: int) -> Number: ...

    def nonempty(self, name: str, time: int) -> Bit:
        return self.logic.at_least(self.length(name, time), 1)

    @abstractmethod
    def packet(self, name: str, time: int, position: int) -> Any: ...

    @abstractmethod
    def present(self, packet: Any) -> Bit: ...

    @abstractmethod
    def only(self, packet: Any, destinations: Container[int] | None, path: int | None) -> Any: ...

    @abstractmethod
    def pick(self, choices: Sequence[tuple[Bit, Any]]) -> Any: ...

    @abstractmethod
    def take(self, name: str, time: int, count: Bit | Number) -> None: ...

    @abstractmethod
    def taken(self, name: str, time: int) -> Number: ...

    @abstractmethod
    def offer(self, name: str, time: int, packets: Sequence[Any]) -> None: ...

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


# --- gates ---


class _Contents:
    """The packets in a queue: a unary length, and for each bit of a packet a row with its value at every position."""

    __slots__ = ("length", "rows")

    def __init__(self, length: Sequence[int] = (), rows: Mapping[Any, Sequence[int]] | None = None):
        self.length, self.rows = tuple(length), dict(rows or {})

    def element(self, position: int) -> dict[Any, int]:
        """Return the bits of the packet at a position (0: the front)."""
        return {label: row[position] for label, row in self.rows.items() if position < len(row)}


def _is_binary(packet: Iterable[Any]) -> bool:
    """Tell whether a packet's keys are bits of its binary fields; otherwise there is one key for each (dst, ecmp)."""
    return any(isinstance(key[0], Metric) for key in itertools.islice(packet, 1))  # all keys are of one kind


class CircuitEncoding(Encoding):
    """The fast encoding; see the module's docstring."""

    logic: CircuitLogic

    def __init__(self, point: ContentionPoint):
        super().__init__(point)
        self.logic = CircuitLogic()
        self.circuit = self.logic.circuit
        self._contents = {name: _Contents() for name in point.queues}
        self._merged: dict[str, int] = {}
        self._lengths: dict[str, list[tuple[int, ...]]] = {name: [] for name in point.queues}
        self._taken: dict[tuple[str, int], tuple[int, ...]] = {}
        self._offers: dict[tuple[str, int], list[tuple[int, dict[Any, int]]]] = {}
        self._heads: dict[tuple[str, int, int], dict[Any, int]] = {}
        self._group: tuple[Any, ...] = ()
        self._group_of: dict[int, tuple[Any, ...]] = {}  # free literal -> (module or input queue that made it, time)
        self._demands: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        self.always: list[int] = []  # constraints that every question needs
        self._has_named_always = False
        self._reached: set[tuple[Any, ...]] = set()  # groups whose demands an earlier call has returned
        sizes = (point.destinations, point.paths)
        self._binary_fields = [(field, (size - 1).bit_length()) for field, size in zip(FIELDS, sizes, strict=True)]
        self._unroll()

    def _free(self, label: str, group: tuple[Any, ...]) -> int:
        literal = self.logic.free(label)
        self._group_of[literal] = group
        return literal

    def free_choice(self, module: QueuingModule, time: int, label: str) -> int:
        return self._free(choice_label(module, time, label), (module.name, time))

    def _require(self, module: QueuingModule, time: int, constraints: list[int]) -> None:
        if module.always_solvable and self.point.can_run:
            self._demands[module.name, time] += constraints
        else:
            self.always += constraints

    def new_constraints_below(self, roots: Iterable[int]) -> list[int]:
        """Return the constraints on the free literals that `roots` depend on, directly or through other constraints.

        Constraints that an earlier call has returned are left out.
        """
        fresh = [*roots]
        constraints: list[int] = []
        if not self._has_named_always:
            self._has_named_always = True
            constraints += self.always
            fresh += self.always
        while fresh:
            support = self.circuit.new_support(fresh)
            # Free bits that a caller made for its own conditions are in no group.
            reached = {self._group_of[bit] for bit in support if bit in self._group_of} - self._reached
            self._reached |= reached
            fresh = [bit for group in sorted(reached) for bit in self._demands[group]]
            constraints += fresh
        return constraints

    # --- queues ---

    def _arrive(self, name: str, time: int) -> None:
        queue, circuit = self.point.queues[name], self.circuit
        group = (name, time)
        offers: list[tuple[int, dict[Any, int]]] = []
        before = 1
        for index in range(queue.max_enqueue):
            is_there = self._free(f"{name}[{index}]@{time}", group)
            self._demands[group].append(circuit.either(before, is_there ^ 1))
            before = is_there
            if not self.point.has_labels(name):
                offers.append((is_there, {(self.point.sends_to[name][0], 0): is_there}))
                continue
            payload = {}
            for field, width in self._binary_fields:
                for place in range(width):
                    bit = self._free(f"{name}[{index}].{field}{place}@{time}", group)
                    payload[field, place] = bit
                    self._demands[group].append(circuit.either(is_there, bit ^ 1))
            self._demands[group] += self._allowed(name, is_there, payload)
            offers.append((is_there, payload))
        self._offers[name, time] = offers

    def _allowed(self, name: str, is_there: int, payload: Mapping[Any, int]) -> list[int]:
        wanted = []
        sizes = (self.point.destinations, self.point.paths)
        for (field, width), size in zip(self._binary_fields, sizes, strict=True):
            bits = tuple(payload[field, place] for place in range(width))
            if size < 1 << width:
                wanted.append(self.logic._binary_at_least(bits, size) ^ 1)
            allowed = self.point.sends_to[name] if field is Metric.DST else range(size)
            for other in {*range(size)} - {*allowed}:
                is_other = self.circuit.all_of([bit ^ 1 ^ (other >> p & 1) for p, bit in enumerate(bits)])
                wanted.append(self.circuit.both(is_there, is_other) ^ 1)
        return wanted

    def _now(self, name: str, time: int) -> _Contents:
        if self.point.queues[name].immediate and self._merged.get(name, -1) < time:
            self._merged[name] = time
            self._contents[name] = self._append(name, time)
        return self._contents[name]

    def length(self, name: str, time: int) -> tuple[int, ...]:
        past = self._lengths[name]
        return past[time] if time < len(past) else self._now(name, time).length

    def nonempty(self, name: str, time: int) -> int:
        length = self.length(name, time)
        return length[0] if length else 0

    def packet(self, name: str, time: int, position: int) -> dict[Any, int]:
        now = self._now(name, time)
        if position >= len(now.length):
            return {}
        if not _is_binary(now.rows):
            return {label: bit for label, bit in now.element(position).items() if bit != 0}
        key = (name, time, position)
        if key not in self._heads:
            self._heads[key] = self._decode(name, now.element(position), now.length[position])
        return self._heads[key]

    def _decode(self, name: str, element: Mapping[Any, int], is_there: int) -> dict[Any, int]:
        one_hot: list[list[int]] = []
        for (field, width), size in zip(self._binary_fields, (self.point.destinations, self.point.paths), strict=True):
            bits = [element.get((field, place), 0) for place in range(width)]
            one_hot.append(
                [self.circuit.all_of([b ^ 1 ^ (v >> p & 1) for p, b in enumerate(bits)]) for v in range(size)]
            )
        return {
            (dst, path): self.circuit.all_of([is_there, is_dst, is_path])
            for dst, is_dst in enumerate(one_hot[0])
            if dst in self.point.sends_to[name]
            for path, is_path in enumerate(one_hot[1])
        }

    def present(self, packet: Mapping[Any, int]) -> int:
        return self.circuit.any_of(list(packet.values()))

    def only(self, packet: Mapping[Any, int], destinations: Container[int] | None, path: int | None) -> dict[Any, int]:
        return {
            label: bit
            for label, bit in packet.items()
            if (destinations is None or label[0] in destinations) and (path is None or label[1] == path)
        }

    def pick(self, choices: Sequence[tuple[int, Mapping[Any, int]]]) -> dict[Any, int]:
        bits: dict[Any, list[int]] = defaultdict(list)
        for condition, packet in choices:
            for label, bit in packet.items():
                bits[label].append(self.circuit.both(condition, bit))
        merged = {label: self.circuit.any_of(holding) for label, holding in bits.items()}
        return {label: bit for label, bit in merged.items() if bit != 0}

    def take(self, name: str, time: int, count: int | tuple[int, ...]) -> None:
        bits = self._taken[name, time] = tuple(count) if isinstance(count, tuple | list) else (count,)
        if name in self.point.reader and not self.point.reader[name].always_solvable:
            there = self._now(name, time).length[: self.point.queues[name].max_dequeue]
            demands = [self.circuit.either(b ^ 1, there[k] if k < len(there) else 0) for k, b in enumerate(bits)]
            self.always += [bit for bit in demands if bit != 1]

    def taken(self, name: str, time: int) -> tuple[int, ...]:
        if (name, time) not in self._taken:
            module = self.point.reader[name]
            length = self._now(name, time).length[: self.point.queues[name].max_dequeue]
            bits = tuple(self.free_choice(module, time, f"{name}.take{k}") for k in range(len(length)))
            self.always += [
                self.circuit.either(bit ^ 1, self.circuit.both(length[k], bits[k - 1] if k else 1))
                for k, bit in enumerate(bits)
            ]
            self._taken[name, time] = bits
        return self._taken[name, time]

    def _is_offered(self, name: str, time: int) -> bool:
        return (name, time) in self._offers

    def offer(self, name: str, time: int, packets: Sequence[Mapping[Any, int]]) -> None:
        offers = [(self.present(packet), dict(packet)) for packet in packets if packet]
        offers = [(bit, packet) for bit, packet in offers if bit != 0]
        if len(offers) > 1:
            offers = self._close_gaps(offers, self.point.queues[name].max_enqueue)
        self._offers[name, time] = offers

    def _close_gaps(self, offers: list[tuple[int, dict[Any, int]]], most: int) -> list[tuple[int, dict[Any, int]]]:
        placed: list[list[tuple[int, dict[Any, int]]]] = [[] for _ in offers]
        before: tuple[int, ...] = ()
        for bit, packet in offers:
            for place in range(len(before) + 1):
                here = self.circuit.both(
                    before[place - 1] if place else 1, before[place] ^ 1 if place < len(before) else 1
                )
                if here != 0:
                    placed[place].append((here, packet))
            before = self.logic.add(before, (bit,), most)
        return [(before[place], self.pick(choices)) for place, choices in enumerate(placed) if place < len(before)]

    def offered_bits(self, name: str, time: int) -> list[int]:
        return [bit for bit, _ in self._offers[name, time]]

    def _drain(self, name: str, time: int) -> None:
        self.take(name, time, self._now(name, time).length[: self.point.queues[name].max_dequeue])

    def _advance(self, name: str, time: int) -> None:
        now = self._now(name, time)
        self._lengths[name].append(now.length)
        self._contents[name] = self._drop(now, self._taken[name, time])
        if not self.point.queues[name].immediate:
            self._contents[name] = self._append(name, time)

    def _drop(self, now: _Contents, taken: tuple[int, ...]) -> _Contents:
        most = len(taken)
        if taken == now.length[:most]:  # every packet that may leave leaves
            return _Contents(now.length[most:], {label: row[most:] for label, row in now.rows.items()})
        if self._is_plain(now.rows):
            (length,) = self.circuit.take_from([now.length], taken)
            return _Contents(length, dict.fromkeys(now.rows, length))
        length, *rows = self.circuit.take_from([now.length, *now.rows.values()], taken)
        return _Contents(length, dict(zip(now.rows, rows, strict=True)))

    def _append(self, name: str, time: int) -> _Contents:
        old, offers = self._contents[name], self._offers[name, time]
        if not offers:
            return old
        capacity = self.point.queues[name].capacity
        if len(offers) == 1 and not old.length:  # one packet into an empty queue: no gates needed
            ((bit, packet),) = offers
            return _Contents((bit,), {label: (here,) for label, here in packet.items() if here != 0})
        length = self.circuit.add(old.length, [bit for bit, _ in offers], capacity)
        labels = sorted({label for packet in (old.rows, *(p for _, p in offers)) for label in packet})
        if self._is_plain(labels):
            return _Contents(length, dict.fromkeys(labels, length))
        before = [old.rows.get(label, ()) for label in labels]
        coming = [[packet.get(label, 0) for _, packet in offers] for label in labels]
        rows = self.circuit.put_behind(before, old.length, coming, capacity)
        return _Contents(length, dict(zip(labels, rows, strict=True)))

    @staticmethod
    def _is_plain(labels: Collection[Any]) -> bool:
        """Tell whether only one (dst, ecmp) is possible here. A packet's bit then says only that the packet exists."""
        return len(labels) == 1 and not _is_binary(labels)

    def _field(self, metric: Metric, name: str, time: int) -> tuple[Number, int]:
        offers = self._offers[name, time]
        if not offers:
            return (), 0
        size = (self.point.destinations, self.point.paths)[FIELDS.index(metric)]
        if size == 1:
            return (), offers[0][0]
        values = [self._field_bits(packet, metric, size) for _, packet in offers]
        agree = [
            self.circuit.either(bit ^ 1, self.logic.iff(x, y))
            for (bit, _), value in zip(offers[1:], values[1:], strict=True)
            for x, y in zip(value, values[0], strict=True)
        ]
        valid = self.circuit.all_of([offers[0][0], *agree])
        if _is_binary(offers[0][1]):
            return Binary(values[0], size - 1), valid
        return values[0], valid

    def _field_bits(self, packet: Mapping[Any, int], metric: Metric, size: int) -> tuple[int, ...]:
        width = (size - 1).bit_length()
        if _is_binary(packet):
            return tuple(packet[metric, place] for place in range(width))
        place = FIELDS.index(metric)
        return tuple(
            self.circuit.any_of([bit for label, bit in packet.items() if label[place] >= value])
            for value in range(1, size)
        )

    # --- back to packets ---

    def read_arrivals(self, true_literals: Container[int]) -> dict[str, list[list[Packet]]]:
        """Read the packets offered to each input in each step, from the free literals that are true."""
        arrivals: dict[str, list[list[Packet]]] = {}
        for name in self.point.inputs:
            arrivals[name] = []
            for time in range(self.point.horizon):
                packets: list[Packet] = []
                for bit, payload in self._offers[name, time]:
                    if bit in true_literals and not _is_binary(payload):
                        packets += payload
                    elif bit in true_literals:
                        values = [
                            sum(1 << p for p in range(width) if payload.get((field, p), 0) in true_literals)
                            for field, width in self._binary_fields
                        ]
                        packets.append((values[0], values[1]))
                arrivals[name].append(packets)
        return arrivals

    def offers(self, name: str, time: int) -> Sequence[tuple[int, Mapping[Any, int]]]:
        """Return, for each packet that may be offered, the bit that it is offered and the bits of its labels."""
        return self._offers[name, time]

    def arrival_inputs(self, name: str, time: int) -> list[int]:
        """List the free literals that describe the packets offered to an input in a step."""
        inputs = []
        for bit, payload in self._offers[name, time]:
            inputs += [bit, *(payload.values() if _is_binary(payload) else ())]
        return inputs

    def arrival_literals(self, name: str, time: int, trace: Trace) -> list[int]:
        """List the literals of `arrival_inputs` that hold in a trace."""
        true = []
        for (bit, payload), packet in zip(self._offers[name, time], trace.arrived[name][time], strict=False):
            true.append(bit)
            for (field, place), literal in payload.items() if _is_binary(payload) else ():
                if packet[FIELDS.index(field)] >> place & 1:
                    true.append(literal)
        return true

    def assignment(self, trace: Trace) -> list[int]:
        """List the free literals that hold in a trace: the inverse of `read_arrivals`."""
        true = [
            literal
            for name in self.point.inputs
            for time in range(self.point.horizon)
            for literal in self.arrival_literals(name, time, trace)
        ]
        return true + [literal for literal, label in self.logic.labels.items() if trace.choices.get(label)]

    def tables(self, true_literals: Sequence[int]) -> tuple[dict[str, list[int]], ...]:
        """Return (offered, taken, length) of each queue and step under an assignment of the free literals."""
        numbers = []
        for name in self.point.queues:
            for time in range(self.point.horizon):
                numbers += [self.offered_bits(name, time), self._taken[name, time], self._lengths[name][time]]
        values = iter(self.circuit.evaluate(list(true_literals), [bit for number in numbers for bit in number]))
        counts = iter([sum(next(values) for _ in number) for number in numbers])
        result: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        for name in self.point.queues:
            rows = [[next(counts) for _ in range(3)] for _ in range(self.point.horizon)]
            for table, column in zip(result, zip(*rows, strict=True), strict=True):
                table[name] = list(column)
        return result


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
