"""The encodings against running code, and against each other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_points import POINTS, random_query, random_workload

from netrepro.verification.analysis import Analysis
from netrepro.verification.circuit_encoding import CircuitEncoding
from netrepro.verification.leaf_spine import leaf_spine
from netrepro.verification.parsing import parse_workload
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.workloads import Metric, Query, Workload

CIRCUITS = {name: CircuitEncoding(point) for name, point in POINTS.items()}
SEEDS = st.integers(0, 2**32 - 1)


def demands(encoding: CircuitEncoding) -> list[int]:
    return [*encoding.always, *(bit for group in encoding._demands.values() for bit in group)]


@pytest.mark.parametrize("name", POINTS)
@given(seed=SEEDS, load=st.sampled_from([0.2, 0.5, 0.9]))
def test_what_real_packets_do_satisfies_every_constraint(name, seed, load):
    point, encoding = POINTS[name], CIRCUITS[name]
    trace = point.simulate(point.random_arrivals(seed, load), seed=seed)
    true = encoding.assignment(trace)
    assert all(encoding.circuit.evaluate(true, demands(encoding)))
    offered, taken, length = encoding.tables(true)
    for queue in point.queues:
        assert offered[queue] == [len(packets) for packets in trace.arrived[queue]]
        assert taken[queue] == list(trace.taken[queue])
        assert length[queue] == list(trace.length[queue])


@pytest.mark.parametrize("name", POINTS)
@settings(max_examples=60)
@given(seed=SEEDS)
def test_metrics_workloads_and_queries_mean_the_same_on_gates_and_on_packets(name, seed):
    point, encoding, dice = POINTS[name], CIRCUITS[name], random.Random(seed)
    trace = point.simulate(point.random_arrivals(seed), seed=seed)
    true = encoding.assignment(trace)
    queue, metric = dice.choice(list(point.queues)), dice.choice(list(Metric))
    for time in range(point.horizon):
        value, valid = encoding.metric(metric, queue, time)
        expected = trace.metric(metric, queue, time + 1)
        is_valid, *bits = encoding.circuit.evaluate(true, [valid, *encoding.logic.unary(value)])
        assert is_valid == (expected is not None)
        if is_valid:
            assert bits == sorted(bits, reverse=True)
            assert sum(bits) == expected
    for _ in range(4):
        workload, query = random_workload(dice, point, 1), random_query(dice, point)
        bits = encoding.circuit.evaluate(true, [encoding.workload_bit(workload), encoding.query_bit(query)])
        assert bits == [workload.holds(trace), query.holds(trace)], (str(workload), str(query))


@pytest.mark.parametrize("name", POINTS)
def test_the_solvers_models_replay_to_the_same_queues(name):
    point, found = POINTS[name], 0
    for seed in range(25):
        dice = random.Random(seed)
        analysis = Analysis(point, random_query(dice, point), random_workload(dice, point, 1), seed=seed)
        answer = analysis.ask(query=True)  # replays the packets and judges base and query on them
        if answer.status == "sat":
            found += 1
            encoding = analysis.encoded
            _, taken, length = encoding.tables(encoding.assignment(answer.trace))
            assert length == {queue: list(row) for queue, row in answer.trace.length.items()}
            assert taken == {queue: list(row) for queue, row in answer.trace.taken.items()}
    assert found >= 5


@pytest.mark.parametrize("name", [name for name in POINTS if name != "leaf-spine"])
def test_the_two_encodings_agree_on_random_questions(name):
    point, seen = POINTS[name], set()
    for seed in range(8):
        dice = random.Random(1000 + seed)
        query, base = random_query(dice, point), random_workload(dice, point, dice.randint(0, 2))
        answers = [
            Analysis(point, query, base, encoding=encoding).ask(query=wanted).status
            for encoding in ("circuit", "integers")
            for wanted in (True, False)
        ]
        assert answers[:2] == answers[2:], (str(query), str(base))
        seen.update(answers)
    assert seen == {"sat", "unsat"}


def test_the_two_encodings_agree_on_a_leaf_spine():
    point, seen = leaf_spine(1, 2, 2, 5, max_enqueue=2), set()
    for seed in range(5):
        dice = random.Random(seed)
        query, base = random_query(dice, point), random_workload(dice, point, 2)
        answers = [
            Analysis(point, query, base, encoding=encoding).ask(query=True).status
            for encoding in ("circuit", "integers")
        ]
        assert answers[0] == answers[1], (str(query), str(base))
        seen.update(answers)
    assert seen == {"sat", "unsat"}


def test_integer_models_replay_to_the_same_queues():
    for name, point in POINTS.items():
        dice = random.Random(7)
        analysis = Analysis(point, random_query(dice, point), encoding="integers")
        for wanted in (True, False):
            answer = analysis.ask(query=wanted)
            if answer.trace is None:
                continue
            _, taken, length = analysis.encoded.tables(analysis._asker._model)
            assert length == {q: list(row) for q, row in answer.trace.length.items()}, name
            assert taken == {q: list(row) for q, row in answer.trace.taken.items()}, name


def test_a_capacity_beyond_the_horizon_costs_nothing():
    sizes = {
        CircuitEncoding(
            scheduler_point("round_robin", 3, 5, queue={"capacity": c, "max_enqueue": 2})
        ).circuit.gate_count
        for c in (10, 100, 10_000)
    }
    assert len(sizes) == 1


def test_tail_drop_loses_what_does_not_fit():
    point = scheduler_point("fifo", 1, 4, queue={"capacity": 2, "max_enqueue": 4})
    all_four = parse_workload("[1,4]: cenq(q0,t) = 4t")
    query = Query("exists", (1, 4), "q0", "qsize", ">", 2)
    assert Analysis(point, query, all_four).satisfy_query().status == "unsat"
    query = Query("forall", (2, 4), "q0", "qsize", "=", 2)
    assert Analysis(point, query, all_four).verify(Workload()).status == "proven"
