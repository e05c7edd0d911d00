"""Contention points, workloads and queries as gates of a circuit.

Each step is computed from the one before. Only arrivals and free choices are variables; everything else is a gate of
one Boolean circuit. A packet is a set of bits, one for each (dst, ecmp) that it may have. Numbers are unary. Queue
positions that no packet can have reached are left out, so unused capacity costs nothing.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from netrepro.verification.encodings import Encoding, choice_label
from netrepro.verification.logic import Binary, CircuitLogic, Number
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.traces import Packet, Trace
from netrepro.verification.workloads import FIELDS, Metric


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
