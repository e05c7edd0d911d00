"""The core's circuit against truth tables."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netrepro._core import BooleanCircuit

from netrepro.verification.backends import Z3Clauses
from netrepro.verification.logic import CircuitLogic, Logic

INPUTS = 4
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["both", "either", "differ", "choose"]), *[st.integers(0, 10**6)] * 3),
    min_size=1,
    max_size=25,
)


def build(operations) -> tuple[BooleanCircuit, list[int], list]:
    """Random gates, and the same as Python functions of the inputs."""
    circuit = BooleanCircuit()
    inputs = [circuit.input() for _ in range(INPUTS)]
    gates = [0, 1, *inputs]
    functions = [lambda v: False, lambda v: True, *(lambda v, i=i: v[i] for i in range(INPUTS))]
    python = {
        "both": lambda x, y, z: x and y,
        "either": lambda x, y, z: x or y,
        "differ": lambda x, y, z: x != y,
        "choose": lambda x, y, z: y if x else z,
    }
    for name, *picks in operations:
        chosen = [pick % (2 * len(gates)) for pick in picks]
        literals = [gates[c // 2] ^ (c & 1) for c in chosen]
        below = [(functions[c // 2], c & 1) for c in chosen]
        gates.append(getattr(circuit, name)(*(literals if name == "choose" else literals[:2])))
        functions.append(lambda v, below=below, name=name: python[name](*(f(v) != bool(sign) for f, sign in below)))
    return circuit, inputs, list(zip(gates, functions, strict=True))


@given(OPERATIONS)
def test_gates_compute_what_they_say(operations):
    circuit, inputs, gates = build(operations)
    for values in itertools.product([False, True], repeat=INPUTS):
        true = [literal for literal, value in zip(inputs, values, strict=True) if value]
        assert circuit.evaluate(true, [gate for gate, _ in gates]) == [f(values) for _, f in gates]


@settings(max_examples=40)
@given(OPERATIONS)
def test_the_clauses_have_exactly_the_models_of_the_gates(operations):
    circuit, inputs, gates = build(operations)
    root, function = gates[-1]
    solver = Z3Clauses()
    for roots in ([root, *inputs], [root ^ 1]):  # one half of each gate's clauses, then what is missing
        solver.load(circuit.new_clauses(roots))
    for values in itertools.product([False, True], repeat=INPUTS):
        held = [
            circuit.dimacs_variable(literal) * (1 if value else -1)
            for literal, value in zip(inputs, values, strict=True)
        ]
        for expected in (True, False):
            wanted = circuit.dimacs_variable(root) * (1 if expected else -1)
            answer = solver.check([*held, wanted], None)
            assert answer == ("sat" if function(values) == expected else "unsat")


@settings(max_examples=60)
@given(operations=OPERATIONS)
def test_half_of_the_clauses_is_enough_for_a_root_that_is_only_asserted(operations):
    circuit, inputs, gates = build(operations)
    root, function = gates[-1]
    solver = Z3Clauses()
    solver.load(circuit.new_clauses([root, *inputs]))
    for values in itertools.product([False, True], repeat=INPUTS):
        pairs = zip(inputs, values, strict=True)
        held = [circuit.dimacs_variable(literal) * (1 if value else -1) for literal, value in pairs]
        answer = solver.check([*held, circuit.dimacs_variable(root)], None)
        assert answer == ("sat" if function(values) else "unsat")


@settings(max_examples=60)
@given(operations=OPERATIONS, picks=st.lists(st.integers(0, 10**6), min_size=2, max_size=6))
def test_a_root_that_is_asked_later_means_what_it_would_have_meant_at_once(operations, picks):
    """Below what was given out already nothing is looked at again."""
    circuit, inputs, gates = build(operations)
    solver = Z3Clauses()
    solver.load(circuit.new_clauses(inputs))
    for pick in picks:
        (gate, function), sign = gates[pick // 2 % len(gates)], pick & 1
        solver.load(circuit.new_clauses([gate ^ sign]))
        for values in itertools.product([False, True], repeat=INPUTS):
            pairs = zip(inputs, values, strict=True)
            held = [circuit.dimacs_variable(literal) * (1 if value else -1) for literal, value in pairs]
            answer = solver.check([*held, circuit.dimacs_variable(gate ^ sign)], None)
            assert answer == ("sat" if function(values) != bool(sign) else "unsat")


def as_lists(clauses: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    BooleanCircuit.for_each_clause(clauses, found.append)
    return found


def test_clauses_are_written_as_dimacs():
    assert BooleanCircuit.dimacs_text([1, -3, 0, 2, 0]) == "p cnf 3 2\n1 -3 0\n2 0\n"


@given(clauses=st.lists(st.lists(st.integers(1, 9), max_size=4), max_size=8), seed=st.integers(0, 2**64 - 1))
def test_a_shuffle_keeps_every_clause_whole(clauses, seed):
    flat = [number for clause in clauses for number in (*clause, 0)]
    shuffled = as_lists(BooleanCircuit.shuffled(flat, seed))
    assert sorted(shuffled) == sorted(clauses)
    assert shuffled == as_lists(BooleanCircuit.shuffled(flat, seed))


def test_all_orders_of_clauses_are_as_likely():
    seen = Counter(tuple(BooleanCircuit.shuffled([1, 0, 2, 0, 3, 0, 4, 0], seed)) for seed in range(4800))
    assert len(seen) == 24
    # Chi squared with 23 degrees of freedom is above 49.7 once in a thousand.
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 49.7


def test_equal_gates_are_one_gate():
    circuit = BooleanCircuit()
    a, b, c = (circuit.input() for _ in range(3))
    assert circuit.both(a, b) == circuit.both(b, a)
    assert circuit.choose(a, b, c) == circuit.choose(a ^ 1, c, b)
    assert circuit.differ(a ^ 1, b) == circuit.differ(a, b) ^ 1
    assert circuit.both(a, circuit.both(a, b)) == circuit.both(a, b)
    assert circuit.both(a, circuit.both(a, b) ^ 1) == circuit.both(a, b ^ 1)


@given(st.lists(st.booleans(), max_size=9), st.lists(st.booleans(), max_size=9), st.integers(1, 20))
def test_unary_numbers_count_and_add(first, second, limit):
    circuit = BooleanCircuit()
    bits = [circuit.input() for _ in first + second]
    true = [bit for bit, value in zip(bits, first + second, strict=True) if value]
    a = circuit.count(bits[: len(first)], len(first))
    b = circuit.count(bits[len(first) :], len(second))
    total = circuit.evaluate(true, circuit.add(a, b, limit))
    assert sum(total) == min(limit, sum(first) + sum(second))
    assert total == sorted(total, reverse=True)


@given(
    queue=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=5),
    offered=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=3),
    leave=st.integers(0, 3),
    capacity=st.integers(5, 7),
)
def test_queues_of_gates_are_lists_of_packets(queue, offered, leave, capacity):
    circuit, true = BooleanCircuit(), []

    def known(value: bool) -> int:
        literal = circuit.input()
        true.extend([literal] if value else [])
        return literal

    def rows(packets, places: int) -> list[list[int]]:
        """Per field, and first of all for being there: a bit of each place."""
        padded = [(True, *p) for p in packets] + [(False, False, False)] * (places - len(packets))
        return [[known(packet[k]) for packet in padded] for k in range(3)]

    def read(made) -> list[tuple[bool, bool]]:
        values = [circuit.evaluate(true, row) for row in made]
        return [tuple(row[p] if p < len(row) else False for row in values[1:]) for p in range(sum(values[0]))]

    held, coming = rows(queue, 5), rows(offered, 3)
    taken = [known(k < leave) for k in range(3)]
    assert read(circuit.take_from(held, taken)) == queue[leave:]
    one = [taken[0]]
    assert read(circuit.take_from(held, one)) == queue[min(leave, 1) :]
    assert read(circuit.put_behind(held, held[0], coming, capacity)) == (queue + offered)[:capacity]


@pytest.mark.parametrize("pairs", [[(0, 1), (1, 0), (2, 1), (1, 2)], [(0, 0), (0, 1), (1, 1), (2, 0), (2, 2)]])
def test_a_crossbar_of_gates_is_the_one_that_is_written_down_for_all_encodings(pairs):
    """Equal gates are one gate, so that both ways must end in the same literals."""
    logic = CircuitLogic()
    wanted, matched = ([logic.free(f"{kind}{pair}") for pair in pairs] for kind in ("wanted", "matched"))
    last = [[logic.free(f"last{row}.{k}") for k in range(3)] for row in range(6)]
    written_down = Logic.match_ports(logic, pairs, wanted, matched, last)
    gates = logic.circuit.gate_count
    assert logic.match_ports(pairs, wanted, matched, last) == written_down
    assert logic.circuit.gate_count == gates


def test_clauses_are_handed_over_one_by_one():
    handed = []
    BooleanCircuit.for_each_clause([1, -3, 0, 2, 0, 0, 3], handed.append)
    assert handed == [[1, -3], [2], [], [3]]
    with pytest.raises(ZeroDivisionError):
        BooleanCircuit.for_each_clause([1, 0], lambda clause: 1 / 0)


def test_what_is_demanded_holds_without_being_asked():
    circuit = BooleanCircuit()
    a, b = circuit.input(), circuit.input()
    solver = Z3Clauses()
    solver.load(circuit.new_clauses([a], [circuit.both(a, b) ^ 1, b]))
    assert solver.check([circuit.dimacs_variable(a)], None) == "unsat"
    assert solver.check([], None) == "sat"


@settings(max_examples=60)
@given(operations=OPERATIONS, picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_demands_hold_and_change_nothing_else(operations, picks):
    """Gates that are only demanded get no variable; asked for later, they mean what they did."""
    circuit, inputs, gates = build(operations)
    chosen = [(gates[pick // 2 % len(gates)], pick & 1) for pick in picks]
    (asked, function), demanded = gates[-1], {gate ^ sign: (f, sign) for (gate, f), sign in chosen}
    solver = Z3Clauses()
    solver.load(circuit.new_clauses(inputs, list(demanded)))
    for roots in ([], [asked, asked ^ 1]):
        solver.load(circuit.new_clauses(roots))
        for values in itertools.product([False, True], repeat=INPUTS):
            pairs = zip(inputs, values, strict=True)
            held = [circuit.dimacs_variable(literal) * (1 if value else -1) for literal, value in pairs]
            held += [circuit.dimacs_variable(root) for root in roots[:1]]
            is_so = all(f(values) != bool(sign) for f, sign in demanded.values())
            expected = is_so and (not roots or function(values))
            assert solver.check(held, None) == ("sat" if expected else "unsat")


def test_a_demand_takes_no_variable_and_no_more_clauses_than_it_needs():
    def clauses(make) -> list[list[int]]:
        circuit = BooleanCircuit()
        a, b, c = (circuit.input() for _ in range(3))  # variables 1, 2, 3 where all are used
        return sorted(sorted(clause) for clause in as_lists(circuit.new_clauses([], [make(circuit, a, b, c)])))

    assert clauses(lambda x, a, b, c: x.any_of([a, b, c])) == [[1, 2, 3]]
    assert clauses(lambda x, a, b, c: x.all_of([a, b ^ 1, c])) == [[-2], [1], [3]]
    assert clauses(lambda x, a, b, c: x.differ(a, b)) == [[-2, -1], [1, 2]]
    assert clauses(lambda x, a, b, c: x.differ(a, x.both(b, c)) ^ 1) == [[-3, -2, 1], [-1, 2], [-1, 3]]


def test_a_choice_that_excludes_its_condition_is_an_or():
    circuit = BooleanCircuit()
    a, b, c = (circuit.input() for _ in range(3))
    assert circuit.choose(circuit.any_of([a, b]), a, c) == circuit.any_of([a, circuit.all_of([a ^ 1, b ^ 1, c])])


def test_only_the_cone_of_what_is_asked_becomes_clauses_and_only_once():
    circuit = BooleanCircuit()
    a, b, c, d = (circuit.input() for _ in range(4))
    asked, other = circuit.both(a, b), circuit.both(c, d)
    assert circuit.new_clauses([asked])
    assert circuit.dimacs_variables([asked, asked ^ 1, other]) == [
        circuit.dimacs_variable(asked),
        -circuit.dimacs_variable(asked),
        0,
    ]
    assert circuit.new_clauses([asked]) == []


def test_each_input_that_is_depended_on_is_named_once():
    circuit = BooleanCircuit()
    a, b, c, d = (circuit.input() for _ in range(4))
    first, second = circuit.both(a, b), circuit.choose(circuit.both(a, b), c, d)
    assert circuit.new_support([first]) == [a, b]
    assert circuit.new_support([first ^ 1]) == []
    assert circuit.new_support([second]) == [c, d]


def test_z3_ties_the_variables_of_a_dimacs_text_to_ours():
    solver = Z3Clauses()
    solver.FEW_LITERALS = 0  # by text, even these few
    solver.load([1, 0, -1, 2, 0])
    assert solver.check([-2], None) == "unsat"  # "sat" if our variable 2 were another constant
    assert solver.check([2], None) == "sat"
    assert solver.values([1, 2]) == [True, True]
    solver.load([-2, 3, 0])  # a later text speaks of the same variables
    assert solver.check([-3], None) == "unsat"
