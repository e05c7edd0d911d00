"""Example inputs: the plainest one that satisfies the query, and variations that satisfy it or not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netrepro._core import BooleanCircuit
from netrepro.errors import NetreproError
from netrepro.verification.analysis import Analysis
from netrepro.verification.circuit_encoding import CircuitEncoding
from netrepro.verification.traces import Trace


@dataclass(frozen=True)
class BaseExample:
    """The plainest input that satisfies the base workload and the query: these three counts are minimal, in this order.

    Attributes
    ----------
    trace : the example.
    used_inputs : number of inputs that get packets.
    unsmoothness : 2 for each silent step of an input, and 1 for each step whose first packet has other labels than the
        first packet of the last step with packets.
    packets : number of packets.
    is_optimal : False if a time-out ended the search early.
    """

    trace: Trace
    used_inputs: int
    unsmoothness: int
    packets: int
    is_optimal: bool


def _circuit(analysis: Analysis) -> CircuitEncoding:
    encoding = analysis.encoded
    if not isinstance(encoding, CircuitEncoding):
        raise NetreproError("examples and search need the circuit encoding", "encoding='circuit'")
    return encoding


def base_example(analysis: Analysis, *, steady_labels: bool = False, on_copy: bool = True) -> BaseExample:
    """Find the plainest example, by minimising the counts of `BaseExample` one after the other.

    Parameters
    ----------
    steady_labels : all packets of an input have one dst and one ecmp. (A workload can express this; it cannot express
        that packets of one step differ.)
    on_copy : work on a copy of the analysis, so that the count formulas do not slow its later questions. False reuses
        what the analysis has already loaded and learned.

    Raises NetreproError if no input satisfies the query, or if none was found in time.
    """
    original, analysis = analysis, analysis.copy() if on_copy else analysis
    encoding = _circuit(analysis)
    circuit, point = encoding.circuit, analysis.point
    steady = [bit for q in point.inputs for bit in _steady(encoding, q)] if steady_labels else []
    trace = _any_example(analysis, steady)
    steps = range(point.horizon)
    offered = {(q, t): encoding.offered_bits(q, t) for q in point.inputs for t in steps}
    used = [circuit.any_of([offered[q, t][0] for t in steps]) for q in point.inputs]
    silent = [offered[q, t][0] ^ 1 for q in point.inputs for t in steps]
    changes = [bit for q in point.inputs for bit in _label_changes(encoding, q)]
    packets = [bit for bits in offered.values() for bit in bits]

    def unsmoothness(limit: int) -> list[int]:
        twice = [bit for bit in circuit.count(silent, limit // 2 + 1) for _ in range(2)]
        return circuit.add(twice, circuit.count(changes, limit), limit)

    levels: list[tuple[list[int], Callable[[int], list[int]]]] = [
        (used, lambda limit: circuit.count(used, limit)),
        ([*silent, *silent, *changes], unsmoothness),
        (packets, lambda limit: _sum(circuit, list(offered.values()), limit)),
    ]
    conditions = list(steady)
    values, is_optimal = [], True
    for bits, count in levels:
        trace, value, no_more, is_least = analysis.minimise(bits, count, conditions, trace)
        conditions.append(no_more)
        values.append(value)
        is_optimal = is_optimal and is_least
    if on_copy:
        original.questions += analysis.questions
        original.remember(trace)
    return BaseExample(trace, values[0], values[1], values[2], is_optimal)


def _any_example(analysis: Analysis, steady: list[int]) -> Trace:
    answer = analysis.ask(query=True, conditions=steady) if steady else analysis.satisfy_query()
    if answer.trace is None:
        raise NetreproError(
            f"no example: the query {analysis.query} is {answer.status} on {analysis.point.name!r}",
            answer.reason or "loosen the base workload or the query",
        )
    return answer.trace


def _sum(circuit: BooleanCircuit, numbers: list[list[int]], limit: int) -> list[int]:
    """Return the sum of unary numbers, counted up to `limit`."""
    if len(numbers) == 1:
        return numbers[0][:limit]
    middle = len(numbers) // 2
    return circuit.add(_sum(circuit, numbers[:middle], limit), _sum(circuit, numbers[middle:], limit), limit)


def _label_changes(encoding: CircuitEncoding, queue: str) -> list[int]:
    """Return one bit a step: the first packet's labels differ from the first packet's in the last step with packets."""
    circuit = encoding.circuit
    has_sent, changes = 0, []
    labels: dict[Any, int] = {}
    for time in range(encoding.point.horizon):
        is_there, payload = encoding.offers(queue, time)[0]
        if len(payload) < 2 and not labels:  # only one label is possible
            continue
        differs = circuit.any_of([circuit.differ(bit, labels.get(key, 0)) for key, bit in payload.items()])
        changes.append(circuit.all_of([is_there, has_sent, differs]))
        labels = {key: circuit.choose(is_there, bit, labels.get(key, 0)) for key, bit in payload.items()}
        has_sent = circuit.either(has_sent, is_there)
    return changes


def _steady(encoding: CircuitEncoding, queue: str) -> list[int]:
    """Return bits that hold where all packets of an input have the labels of its first packet."""
    circuit, agree = encoding.circuit, []
    if not encoding.point.has_labels(queue):
        return []
    for time in range(encoding.point.horizon):
        (_, first), *others = encoding.offers(queue, time)
        for is_there, payload in others:
            agree += [circuit.either(is_there ^ 1, circuit.differ(bit, first[key]) ^ 1) for key, bit in payload.items()]
    return [*agree, *(bit ^ 1 for bit in _label_changes(encoding, queue))]


def examples(analysis: Analysis, base: Trace, count: int, *, is_good: bool, seed: int, tries: int = 4) -> list[Trace]:
    """Find up to `count` inputs near `base` that satisfy the query (`is_good`) or violate it.

    Each try leaves a random share of the steps of the inputs free (10 % to 80 %), one of which must differ from `base`;
    all other steps equal `base`. Inputs silent in `base` stay silent. At most count * tries questions are asked.
    """
    encoding, dice = _circuit(analysis), random.Random(seed)
    point, circuit = analysis.point, encoding.circuit
    cells = [(queue, time) for queue in point.inputs if any(base.arrived[queue]) for time in range(point.horizon)]
    silent = [
        encoding.offered_bits(queue, time)[0] ^ 1
        for queue in point.inputs
        if not any(base.arrived[queue])
        for time in range(point.horizon)
    ]
    equal = {cell: _equals(encoding, cell, base) for cell in cells}
    traces: list[Trace] = []
    for _ in range(count * tries):
        if len(traces) == count or not cells:
            break
        free = max(1, round(len(cells) * dice.choice([0.1, 0.2, 0.4, 0.8])))
        loose = set(dice.sample(cells, min(free, len(cells))))
        held = [equal[cell] for cell in cells if cell not in loose]
        changed = circuit.any_of([equal[cell] ^ 1 for cell in dice.sample(sorted(loose), 1)])
        answer = analysis.ask(query=is_good, conditions=[*silent, *held, changed])
        if answer.trace is not None:
            traces.append(answer.trace)
    return traces


def _equals(encoding: CircuitEncoding, cell: tuple[str, int], trace: Trace) -> int:
    """Return a bit: the input is offered the same packets in this step as in the trace."""
    queue, time = cell
    true = set(encoding.arrival_literals(queue, time, trace))
    bits = encoding.arrival_inputs(queue, time)
    return encoding.circuit.all_of([bit if bit in true else bit ^ 1 for bit in bits])
