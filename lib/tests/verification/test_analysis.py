"""Answers, refusals, time-outs, examples and search."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import z3
from small_points import POINTS

from netrepro import NetreproError
from netrepro.processes import as_they_come
from netrepro.verification.analysis import Analysis
from netrepro.verification.backends import Z3Clauses
from netrepro.verification.examples import base_example, examples
from netrepro.verification.leaf_spine import base_workload, leaf_spine, path_queues, throughput_query
from netrepro.verification.loom import TenantQueues, loom, steady_tenants, unfair_query
from netrepro.verification.parsing import parse_query, parse_workload
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import Queue
from netrepro.verification.schedulers import FirstInFirstOut, StrictPriority, WeightedRoundRobin, scheduler_point
from netrepro.verification.search import Search, SearchResult
from netrepro.verification.shapers import TokenBucket, delay_line
from netrepro.verification.workloads import Comp, Line, Metric, Query, Term, TimedSpec, Workload


def priority() -> Analysis:
    return Analysis(scheduler_point("strict_priority", 4, 7), parse_query("exists t in [1,7]: cblocked(q2,t) > 5"))


def codel(**options) -> Analysis:
    base = parse_workload(" and ".join(f"[1,14]: cenq(q{i},t) >= t" for i in range(4)))
    query = parse_query("forall t in [14,14]: cdeq(q4,t) >= 5")
    return Analysis(scheduler_point("flow_queue", 5, 14, **options), query, base)


# --- refusals ---


def test_bad_models_are_refused_by_name():
    q, out = Queue("q"), Queue("out")
    with pytest.raises(NetreproError, match="'tiny' has capacity 0"):
        Queue("tiny", capacity=0)
    with pytest.raises(NetreproError, match=r"'half': capacity 2\.5"):
        Queue("half", capacity=2.5)  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="'my queue'"):
        Queue("my queue")
    with pytest.raises(NetreproError, match=r"horizon 2\.5"):
        ContentionPoint("point", 2.5, [FirstInFirstOut("m", q, out)])  # type: ignore[arg-type]
    with pytest.raises(NetreproError, match="'point' has horizon 0"):
        ContentionPoint("point", 0, [FirstInFirstOut("m", q, out)])
    with pytest.raises(NetreproError, match=r"'q' is read by 'a' and by 'b'"):
        ContentionPoint("point", 5, [FirstInFirstOut("a", q, out), FirstInFirstOut("b", q, Queue("other"))])
    with pytest.raises(NetreproError, match="'lonely' is not connected"):
        ContentionPoint("point", 5, [StrictPriority("lonely", [], out)])
    with pytest.raises(NetreproError, match="no input queue"):
        ContentionPoint("point", 5, [FirstInFirstOut("a", q, out), FirstInFirstOut("b", out, q)])
    now, then = (Queue(name, immediate=True) for name in ("now", "then"))
    with pytest.raises(NetreproError, match="cycle through module 'a'"):
        ContentionPoint("point", 5, [StrictPriority("a", [q, then], now), FirstInFirstOut("b", now, then)])


@pytest.mark.parametrize(
    ("workload", "query", "name"),
    [
        ("[1,5]: cenq(q9,t) >= t", "exists t in [1,5]: qsize(q0,t) > 1", "q9"),
        ("[1,6]: cenq(q0,t) >= t", "exists t in [1,5]: qsize(q0,t) > 1", "horizon 5"),
        ("[1,5]: cenq(out,t) >= t", "exists t in [1,5]: qsize(q0,t) > 1", "not an input"),
        ("*", "exists t in [1,5]: qsize(outt,t) > 1", "did you mean 'out'"),
        ("*", "exists t in [1,9]: qsize(out,t) > 1", "horizon 5"),
        ("[1,5]: cenq(q0,t) >= 5t", "exists t in [1,5]: qsize(q0,t) > 1", r"q0,t\) >= 5t contradicts"),
    ],
)
def test_questions_that_do_not_fit_are_refused_by_name(workload, query, name):
    with pytest.raises(NetreproError, match=name):
        point = scheduler_point("round_robin", 2, 5)
        Analysis(point, parse_query(query), parse_workload(workload)).satisfy_query()


def test_unknown_words_are_refused():
    with pytest.raises(NetreproError, match="circuit"):
        Analysis(
            scheduler_point("fifo", 1, 3),
            parse_query("exists t in [1,3]: qsize(q0,t) > 1"),
            encoding="circut",
        )
    with pytest.raises(NetreproError, match="round_robin"):
        scheduler_point("round_robbin", 2, 3)
    with pytest.raises(NetreproError, match="generalise"):
        Search(priority(), method="generalize")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("seed", value) for value in (-1, 1.5, 2**32)),  # solvers would take 2^32 for 0
        *(("timeout_s", value) for value in (0, -1, float("nan"))),
        *(("portfolio", value) for value in (-1, 1.5)),
    ],
)
def test_options_that_mean_nothing_are_refused(option, value):
    query = parse_query("exists t in [1,3]: qsize(q0,t) > 1")
    with pytest.raises(NetreproError, match=f"{value}"):
        Analysis(scheduler_point("fifo", 1, 3), query, **{option: value})


def test_numbers_of_numpy_ask_what_the_same_numbers_of_python_do():
    def answer(number, seconds):
        flows = [Queue(f"q{i}", number(5), number(3)) for i in range(2)]
        shared, out = Queue("shared", number(5), number(1)), Queue("out")
        scheduler = WeightedRoundRobin("turns", flows, shared, [number(2), number(1)])
        bucket = TokenBucket("bucket", shared, out, rate=number(1), max_tokens=number(1), every=number(2))
        allowed = {"q0": [number(1)]}
        point = ContentionPoint("point", number(6), [scheduler, bucket], destinations=number(2), sends_to=allowed)
        base = Workload([TimedSpec(Comp(Term(Metric.CENQ, ("q0",)), ">=", Line(number(1))), number(1), number(6))])
        query = Query("exists", (number(1), number(6)), "shared", "qsize", ">", number(1))
        options = {"seed": number(3), "timeout_s": seconds(100), "portfolio": number(0), "shuffle": number(1)}
        analysis = Analysis(point, query, base, **options)
        found = Search(analysis, seed=number(2)).run()
        return str(query), str(base), str(analysis.satisfy_query().trace), str(found.workload)

    assert answer(np.int64, np.float32) == answer(int, float)


@pytest.mark.parametrize("timeout_s", [(2**32 + 1) / 1000, float("inf")])
def test_a_very_long_time_limit_is_no_short_one(timeout_s):
    """z3 takes milliseconds modulo 2^32."""
    solver = Z3Clauses()
    solver.load(pigeons(7))
    assert solver.check([], timeout_s) == "unsat"


@pytest.mark.parametrize("allowed", [[], [3]])
def test_an_input_that_may_send_to_nobody_there_is_refused(allowed):
    with pytest.raises(NetreproError, match="input 'q' sends to"):
        module = FirstInFirstOut("m", Queue("q"), Queue("out"))
        ContentionPoint("point", 5, [module], destinations=3, sends_to={"q": allowed})


# --- unknown is an answer of its own ---


def pigeons(count: int) -> list[int]:
    """One pigeon too many for its holes: unsatisfiable, and beyond any solver's patience."""
    place = lambda pigeon, hole: pigeon * count + hole + 1  # noqa: E731
    clauses = [[place(p, h) for h in range(count)] for p in range(count + 1)]
    for h in range(count):
        clauses += [[-place(a, h), -place(b, h)] for a, b in itertools.combinations(range(count + 1), 2)]
    return [n for clause in clauses for n in (*clause, 0)]


def test_a_time_out_is_unknown():
    solver = Z3Clauses()
    solver.load(pigeons(12))
    assert solver.check([], 0.2) == "unknown"
    assert solver.reason == "timeout"


def test_a_cancelled_check_is_unknown():
    solver = Z3Clauses()
    solver.load(pigeons(12))
    alarm = threading.Timer(0.3, solver.cancel)
    alarm.start()
    assert solver.check([], 60) == "unknown"
    alarm.cancel()


def test_ctrl_c_during_a_check_is_ctrl_c():
    solver = Z3Clauses()
    solver.load(pigeons(12))
    alarm = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        solver.check([], 60)
    alarm.cancel()


def test_an_analysis_that_runs_out_of_time_claims_nothing():
    point = leaf_spine(3, 3, 3, 14)
    analysis = Analysis(point, throughput_query(point, 8), base_workload(point, 8), timeout_s=0.001)
    answer = analysis.satisfy_query()
    assert answer.status == "unknown" and answer.trace is None and not answer.is_known
    assert analysis.verify(Workload()).status == "unknown"
    with pytest.raises(NetreproError, match="unknown"):
        answer.grid()


def test_a_question_whose_loading_was_interrupted_is_loaded_again(monkeypatch):
    """The circuit gives out each clause once: without it the solver would say "sat" to what cannot be."""
    point = scheduler_point("round_robin", 2, 5)
    impossible = parse_query("exists t in [1,5]: cdeq(q0,t) >= 3")
    analysis = Analysis(point, impossible, parse_workload("[1,5]: cenq(q1,t) >= t"))
    with monkeypatch.context() as patched:
        patched.setattr(Z3Clauses, "load", lambda solver, clauses: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            analysis.ask(query=True)
    assert analysis.ask(query=True).status == "unsat"


@pytest.mark.parametrize("before", ["true", "false"])
def test_reading_a_model_leaves_the_process_its_setting_of_z3(before, monkeypatch):
    """z3 compacts models, at ten times their price, unless the whole process says otherwise."""
    while_reading, read = [], z3.Solver.model

    def model(solver):
        while_reading.append(z3.get_param("model.compact"))
        return read(solver)

    monkeypatch.setattr(z3.Solver, "model", model)
    usual = z3.get_param("model.compact")
    z3.set_param("model.compact", before)
    try:
        assert priority().satisfy_query().status == "sat"
        assert (while_reading, z3.get_param("model.compact")) == (["false"], before)
    finally:
        z3.set_param("model.compact", usual)


def test_a_verification_asks_no_more_than_it_must():
    """A counterexample shows that its workload is feasible, and so does any input that is known to have it."""
    analysis = priority()
    starving, harmless = parse_workload("[1,7]: cenq(q0,t) >= t and [1,1]: cenq(q2,t) >= 1"), Workload()
    for workload, status, questions in [
        (harmless, "refuted", 1),
        (harmless, "refuted", 0),  # the counterexample is known by now
        (starving, "proven", 2),
        (starving, "proven", 1),
        (starving.add(*parse_workload("[1,7]: cenq(q0,t) <= 0").specs), "infeasible", 3),  # and is the base feasible?
    ]:
        before = analysis.questions
        assert (analysis.verify(workload).status, analysis.questions - before) == (status, questions)
    base_example(fresh := priority())
    before = fresh.questions
    assert fresh.verify(parse_workload("[1,7]: sum cenq({q0,q1},t) >= t and [1,1]: cenq(q2,t) >= 1")).status == "proven"
    assert fresh.questions == before + 1


def test_only_inputs_of_the_base_workload_are_remembered():
    point, query = scheduler_point("fifo", 1, 3), parse_query("exists t in [1,3]: qsize(q0,t) > 1")
    analysis = Analysis(point, query, parse_workload("[1,1]: cenq(q0,t) >= 1"))
    with pytest.raises(NetreproError, match="breaks the base workload"):
        analysis.remember(point.simulate({}))
    assert analysis.verify(parse_workload("[1,1]: cenq(q0,t) <= 0")).status == "infeasible"


def test_the_plainest_example_is_the_same_on_the_solver_that_was_asked_before():
    analysis = codel()
    analysis.satisfy_query()
    fresh, burdened = base_example(analysis), base_example(analysis, on_copy=False)
    assert (fresh.used_inputs, fresh.unsmoothness, fresh.packets) == (
        burdened.used_inputs,
        burdened.unsmoothness,
        burdened.packets,
    )


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
def test_z3_counts_the_same_steps_for_the_same_question_and_more_for_two(encoding):
    def steps(questions: int) -> int:
        analysis = Analysis(priority().point, priority().query, encoding=encoding)
        for _ in range(questions):
            analysis.ask(query=True, with_trace=False)
        return analysis.solver_steps

    assert steps(1) == steps(1) < steps(2)


def test_other_solvers_count_no_steps():
    with pytest.raises(NetreproError, match="only z3"):
        _ = priority().copy(backend="cadical").solver_steps


# --- the published cases ---


def test_starvation_under_strict_priority_has_the_expected_workload():
    verdict = priority().verify(parse_workload("[1,7]: sum cenq({q0,q1},t) >= t and [1,7]: cenq(q2,t) > t"))
    assert verdict.status == "proven"
    refuted = priority().verify(parse_workload("[1,7]: sum cenq({q0,q1},t) >= t"))
    assert refuted.status == "refuted"
    assert not priority().query.holds(refuted.counterexample)


def test_flow_queueing_starves_by_a_thin_flow_and_its_fix_does_not():
    assert codel().satisfy_query().status == "sat"
    assert codel(any_order=True).satisfy_query().status == "sat"
    assert codel(is_fixed=True).satisfy_query().status == "unsat"


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_keeps_the_part_of_an_order_that_is_known(seed):
    point = scheduler_point("flow_queue", 4, 8, any_order=True)
    together = {queue: [[(0, 0)]] for queue in point.inputs}
    known = {"scheduler.0_before_3@1": False, "scheduler.1_before_2@1": False, "scheduler.0_before_2@1": True}
    trace = point.simulate(together, choices=known, seed=seed)
    served = [next(t for t in range(1, 9) if trace.metric("deq", queue, t)) for queue in point.inputs]
    assert served[3] < served[0] < served[2] < served[1]


def test_the_plainest_example_with_steady_labels_sends_to_one_place_only():
    point = leaf_spine(2, 3, 2, 8, max_enqueue=3)
    waiting = Query("forall", (8, 8), path_queues(point, 0, (5, 0), hosts_per_leaf=2), "qsize", ">=", 6)
    analysis = Analysis(point, waiting, parse_workload("[1,8]: cenq(host1,t) <= t"), backend="cadical")
    free, steady = base_example(analysis), base_example(analysis, steady_labels=True)
    assert analysis.query.holds(steady.trace) and steady.is_optimal
    for queue in point.inputs:
        assert len({packet for step in steady.trace.arrived[queue] for packet in step}) <= 1
    order = [(b.used_inputs, b.unsmoothness, b.packets) for b in (free, steady)]
    assert order[0] <= order[1]


def test_a_path_inside_a_leaf_has_no_spine_and_is_refused():
    with pytest.raises(NetreproError, match="host1 and host2 are on one leaf"):
        path_queues(leaf_spine(2, 3, 2, 8), 0, (1, 0), hosts_per_leaf=2)


def test_the_reports_query_has_a_counterexample_and_needs_its_base_workload():
    point = leaf_spine(2, 3, 2, 10)
    query = throughput_query(point, 5)
    answer = Analysis(point, query, base_workload(point, 5)).satisfy_query()
    assert answer.trace.metric("cenq", "to_host6", 10) <= 4
    half = parse_query("forall t in [10,10]: cenq(to_host6,t) >= 5")
    assert Analysis(point, half, base_workload(point, 5)).satisfy_query().status == "sat"
    # Alone on the network, host 1 is not slowed: what it sends in step s arrives in step s + 3.
    alone = parse_workload("[1,10]: sum cenq({host2,host3,host4,host5,host6},t) <= 0")
    assert Analysis(point, query, base_workload(point, 5)).ask(alone, query=True).status == "unsat"
    # Without the base workload nobody need send at all.
    nothing = parse_query("forall t in [10,10]: cenq(to_host6,t) = 0")
    assert Analysis(point, nothing).satisfy_query().status == "sat"
    assert Analysis(point, nothing, base_workload(point, 5)).satisfy_query().status == "unsat"


def test_the_first_packet_is_received_in_step_four():
    point = leaf_spine(2, 2, 1, 6)
    early = parse_query("forall t in [3,3]: cenq(to_host2,t) >= 1")
    in_time = parse_query("forall t in [4,4]: cenq(to_host2,t) >= 1")
    assert Analysis(point, early).satisfy_query().status == "unsat"
    assert Analysis(point, in_time).satisfy_query().status == "sat"


def test_the_base_example_is_the_plainest():
    point = leaf_spine(2, 3, 2, 6)
    base = base_example(Analysis(point, throughput_query(point, 5), base_workload(point, 5)))
    # The optimum that the original program finds for this network and horizon.
    assert (base.used_inputs, base.unsmoothness, base.packets, base.is_optimal) == (2, 48, 12, True)


def test_the_optimum_is_the_least_by_exhaustion():
    point = scheduler_point("strict_priority", 2, 3, queue={"max_enqueue": 1, "capacity": 2})
    query = parse_query("exists t in [1,3]: cblocked(q1,t) >= 1")
    base = base_example(Analysis(point, query))
    best = []
    for bits in itertools.product([0, 1], repeat=6):
        arrivals = {"q0": [[(0, 0)] * n for n in bits[:3]], "q1": [[(0, 0)] * n for n in bits[3:]]}
        if query.holds(point.simulate(arrivals)):
            best.append((any(bits[:3]) + any(bits[3:]), 2 * bits.count(0), sum(bits)))
    assert (base.used_inputs, base.unsmoothness, base.packets) == min(best)


def test_examples_are_what_they_are_called_and_differ_from_the_base():
    analysis = priority()
    base = base_example(analysis).trace
    for is_good in (True, False):
        found = examples(analysis, base, 10, is_good=is_good, seed=3)
        assert len(found) == 10
        assert all(analysis.query.holds(trace) == is_good for trace in found)
        assert all(trace.arrived != base.arrived for trace in found)


@pytest.mark.parametrize("method", ["generalise", "stochastic"])
def test_a_synthesised_workload_is_proven_concise_and_repeatable(method):
    def starved() -> Analysis:
        query = parse_query("exists t in [1,5]: cblocked(q1,t) >= 3")
        return Analysis(scheduler_point("strict_priority", 2, 5), query)

    result, again = (Search(starved(), method=method, seed=1, rounds=1500).run() for _ in range(2))
    assert result.status == "proven"
    assert str(again.workload) == str(result.workload)
    assert starved().verify(result.workload).status == "proven"
    assert result.workload.size <= 20
    # Every specification is needed: without it the workload no longer forces the query.
    for place in range(len(result.workload.specs)):
        assert starved().verify(result.workload.without(place)).status == "refuted"


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_a_token_bucket_may_be_slower_than_a_packet_a_step(every):
    bucket = TokenBucket("bucket", Queue("q0", 20, 3, 1), Queue("out"), rate=1, max_tokens=1, every=every)
    point = ContentionPoint("slow", 9, [bucket])
    busy = parse_workload("[1,9]: cenq(q0,t) >= t")
    most = 8 // every  # the first token comes before step every + 1
    answers = [
        Analysis(point, parse_query(f"exists t in [1,9]: cdeq(q0,t) >= {n}"), busy).satisfy_query().status
        for n in (most, most + 1)
    ]
    assert answers == ["sat", "unsat"]
    with pytest.raises(NetreproError, match="every 0 steps"):
        TokenBucket("bucket", Queue("q0"), Queue("out"), rate=1, max_tokens=1, every=0)


def burst() -> Analysis:
    bucket = TokenBucket("bucket", Queue("q0", 10, 10, 6), Queue("out", 10, 6, 6), rate=3, max_tokens=6)
    base = parse_workload("[3,3]: cenq(q0,t) >= 3 and [4,4]: cenq(q0,t) >= 6")
    query = parse_query("exists t in [1,6]: deq(q0,t) > 3")
    return Analysis(ContentionPoint("token bucket", 6, [bucket]), query, base, backend="cadical")


def test_the_published_search_finds_what_a_burst_needs():
    result = Search(burst(), method="stochastic", seed=0, rounds=200, good_examples=10, bad_examples=10).run()
    assert result.status == "proven"
    assert burst().copy(backend="z3").verify(result.workload).status == "proven"


def test_the_published_search_finds_what_makes_a_path_wait():
    point = leaf_spine(2, 2, 2, 8, max_enqueue=3)
    waiting = Query("forall", (8, 8), path_queues(point, 0, (3, 0), hosts_per_leaf=2), "qsize", ">=", 5)
    steady = parse_workload("[1,8]: cenq(host1,t) <= t and [1,8]: dst(host1,t) = 3 and [1,8]: ecmp(host1,t) = 0")
    analysis = Analysis(point, waiting, steady, backend="cadical")

    def search(seed: int) -> Iterator[SearchResult]:
        options = {"rounds": 1500, "good_examples": 10, "bad_examples": 10}
        yield Search(analysis.copy(), method="stochastic", seed=seed, **options).run()

    # A random search: which seeds find something changes with the solver's models.
    results = as_they_come([partial(search, seed) for seed in range(1, 7)])
    found = next(result for _, result in results if result.status == "proven")
    assert analysis.copy(backend="z3").verify(found.workload).status == "proven"


def test_the_published_search_claims_of_loom_only_what_another_solver_confirms():
    """With Loom's twelve flows it finds nothing in a test's time: then it must say so, and have refused rightly."""
    point = loom(4)
    analysis = Analysis(point, unfair_query(point), steady_tenants(point), backend="cadical")
    result = Search(analysis, method="stochastic", seed=1, rounds=60, good_examples=5, bad_examples=5).run()
    assert result.status == ("nothing found" if result.workload is None else "proven")
    other = analysis.copy(backend="z3")
    meaning = {"new counterexample": "refuted", "known counterexample": "refuted", "infeasible": "infeasible"}
    for verdict, rows in result.history.groupby("verdict"):
        for workload in rows["workload"].tail(3):
            assert other.verify(parse_workload(workload)).status == meaning.get(verdict, "proven"), workload


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
def test_the_originals_same_lets_a_silent_host_reach_two_hosts_in_the_first_step(encoding):
    sent = parse_workload("[1,5]: same(dst(in,t)) and [1,5]: cenq(in,t) = 2")
    one_each = parse_query("forall t in [5,5]: cenq(left,t) = 1")
    analysis = Analysis(POINTS["two destinations, one path"], one_each, encoding=encoding)
    assert analysis.ask(sent, query=True).status == "unsat"
    assert analysis.ask(sent.as_original(), query=True).status == "sat"


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
def test_a_contradiction_is_reported_where_the_original_answers_for_the_rest(encoding):
    contradictory = parse_workload("[1,5]: cenq(q1,t) >= 2 and [1,5]: cenq(q1,t) <= 0")
    nothing = parse_query("forall t in [5,5]: cdeq(q1,t) = 0")
    analysis = Analysis(scheduler_point("round_robin", 2, 5), nothing, encoding=encoding)
    assert analysis.verify(contradictory).status == "infeasible"
    assert analysis.check_workload_with_query(contradictory).status == "unsat"
    assert analysis.verify(contradictory.as_original()).status == "proven"


IMPOSSIBLE = "[1,5]: cenq(q1,t) >= t and [5,5]: cenq(q0,t) <= 1 and [3,3]: sum cenq({q0,q1},t) <= 2"


@pytest.mark.parametrize("options", [{}, {"backend": "cadical"}, {"portfolio": 2}, {"encoding": "integers"}])
def test_a_base_workload_that_no_input_has_is_refused_by_the_specification_to_blame(options):
    query = parse_query("exists t in [1,5]: qsize(q0,t) > 1")
    analysis = Analysis(scheduler_point("round_robin", 2, 5), query, parse_workload(IMPOSSIBLE), **options)
    blamed = r"'round_robin'.*\[3,3\]: sum cenq\(\{q0,q1\},t\) <= 2 contradicts what is before it"
    with pytest.raises(NetreproError, match=blamed):
        analysis.satisfy_query()
    with pytest.raises(NetreproError, match=blamed):
        analysis.verify(parse_workload("[1,5]: cenq(q0,t) <= 0"))
    if "encoding" not in options:
        for start in (lambda: base_example(analysis), lambda: Search(analysis).run()):
            with pytest.raises(NetreproError, match=blamed):
                start()


def test_a_search_finds_the_thin_flow():
    result = Search(codel(), seed=0, starts=0).run()
    assert result.status == "proven"
    assert result.workload.queues == {"q4"}


def test_a_search_without_any_example_says_so():
    with pytest.raises(NetreproError, match="unsat"):
        Search(codel(is_fixed=True)).run()


def test_a_token_bucket_lets_a_burst_through_only_after_a_pause():
    tbf = TokenBucket("tbf", Queue("q", 10, 10, 6), Queue("out", 10, 6, 6), rate=3, max_tokens=6)
    point = ContentionPoint("token bucket", 6, [tbf])
    base = parse_workload("[3,3]: cenq(q,t) >= 3 and [4,4]: cenq(q,t) >= 6")
    burst = Query("exists", (1, 6), "q", "deq", ">", 3)
    assert Analysis(point, burst, base).satisfy_query().status == "sat"
    # The original program's workload for this case.
    known = parse_workload("[1,2]: cenq(q,t) <= 2 and [4,6]: aipg(q,t) >= 1 and [6,6]: cenq(q,t) >= 9")
    assert Analysis(point, burst, base).verify(known).status == "proven"
    # Always busy, the bucket never holds more than one step's tokens.
    busy = parse_workload("[1,6]: cenq(q,t) >= 3t")
    assert Analysis(point, burst).ask(busy, query=True).status == "unsat"
    beyond = Query("exists", (1, 6), "q", "deq", ">", 6)
    assert Analysis(point, beyond, base).satisfy_query().status == "unsat"


def test_a_delay_line_delays_by_its_steps():
    entry, out = Queue("q", 10, 1, 1), Queue("out", 10, 1, 1)
    point = ContentionPoint("delay", 6, delay_line("wire", entry, out, 3))
    first = parse_workload("[1,1]: cenq(q,t) = 1")
    for time, status in ((3, "refuted"), (4, "proven")):
        arrived = Query("forall", (time, time), "out", "cenq", ">=", 1)
        assert Analysis(point, arrived, first).verify(Workload()).status == status


# --- a module of one's own ---


class LongestQueueFirst(QueuingModule):
    """Serves a longest queue; which of several is left open."""

    def constraints(self, step):
        logic = step.logic
        served = [logic.at_least(step.taken(queue), 1) for queue in self.inputs]
        heads = [(bit, step.packet(queue)) for bit, queue in zip(served, self.inputs, strict=True)]
        step.offer(self.outputs[0], [step.pick(heads)])
        for bit, queue in zip(served, self.inputs, strict=True):
            for other_bit, other in zip(served, self.inputs, strict=True):
                if other is not queue:
                    yield logic.opposite(logic.all_of([bit, other_bit]))
                    yield logic.implies(bit, logic.compare(step.length(queue), ">=", step.length(other)))
            yield logic.implies(step.nonempty(queue), logic.any_of(served))


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
def test_a_module_of_one_method_can_be_analysed(encoding):
    queues = [Queue("a", max_enqueue=2), Queue("b", max_enqueue=2)]
    point = ContentionPoint("longest first", 5, [LongestQueueFirst("m", queues, [Queue("out", max_enqueue=1)])])
    both = parse_workload(
        "[1,1]: cenq(a,t) = 2 and [1,1]: cenq(b,t) = 1 and [5,5]: cenq(a,t) = 2 and [5,5]: cenq(b,t) = 1"
    )
    first = Query("forall", (2, 2), "a", "deq", "=", 1)
    assert Analysis(point, first, both, encoding=encoding).verify(Workload()).status == "proven"
    tie = Query("forall", (3, 3), "a", "deq", "=", 1)
    analysis = Analysis(point, tie, both, encoding=encoding)
    assert analysis.verify(Workload()).status == "refuted"
    assert analysis.satisfy_query().grid("cdeq")["out"].iloc[-1] == 3


class Careless(QueuingModule):
    """Takes a packet in every step, whether there is one or not."""

    def constraints(self, step):
        step.take(self.inputs[0], step.logic.true)
        step.offer(self.outputs[0], [step.packet(self.inputs[0])])
        return []


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
def test_no_module_takes_packets_that_are_not_there(encoding):
    point = ContentionPoint("careless", 3, [Careless("m", [Queue("in")], [Queue("out")])])
    query = parse_query("forall t in [3,3]: cdeq(in,t) >= 3")  # the queue is empty in the first step
    assert Analysis(point, query, encoding=encoding).ask(query=True).status == "unsat"


class Grabbing(QueuingModule):
    """Does to some queue what it may not."""

    def __init__(self, what, *queues):
        super().__init__("grabbing", *([queue] for queue in queues))
        self.what = what

    def constraints(self, step):
        self.what(step, self.inputs[0], self.outputs[0])
        return []


@pytest.mark.parametrize("encoding", ["circuit", "integers"])
@pytest.mark.parametrize(
    "what",
    [
        lambda step, queue, output: [step.take(queue, step.logic.false) for _ in range(2)],
        lambda step, queue, output: [step.offer(output, []) for _ in range(2)],
        lambda step, queue, output: step.take(output, step.logic.false),
        lambda step, queue, output: step.offer(queue, []),
    ],
)
def test_a_module_that_does_not_keep_to_its_queues_is_refused(what, encoding):
    point = ContentionPoint("grabbing", 2, [Grabbing(what, Queue("in"), Queue("out"))])
    with pytest.raises(NetreproError, match=r"'grabbing' (takes from|offers to) '(in|out)'"):
        Analysis(point, parse_query("exists t in [1,2]: qsize(out,t) > 1"), encoding=encoding).satisfy_query()


def test_a_bit_of_ones_own_may_be_a_condition():
    analysis = Analysis(scheduler_point("fifo", 1, 3), parse_query("exists t in [1,3]: qsize(q0,t) > 1"))
    mine = analysis.encoded.logic.free("mine")
    assert analysis.ask(conditions=[mine], query=True).status == "sat"


@pytest.mark.parametrize("backend", ["cadical", "glucose"])
def test_other_solvers_give_the_same_answers(backend):
    point = leaf_spine(2, 3, 2, 6)
    analyses = [
        Analysis(point, throughput_query(point, 5), base_workload(point, 5), backend=name) for name in ("z3", backend)
    ]
    for text in ("*", "[1,6]: ecmp(host1,t) <= 0", "[1,6]: sum cenq({host2,host3,host4},t) <= 0"):
        workload = parse_workload(text)
        assert analyses[0].verify(workload).status == analyses[1].verify(workload).status


# --- Loom's network card ---


def send(packets: int, steps: int, destination: int) -> list[list[tuple[int, int]]]:
    return [[(destination, 0)] * packets] * steps


def test_one_core_serves_its_tenants_in_turn_and_memcached_leaves_first():
    point = loom(1, 8)
    spark1, spark2, _ = point.inputs
    together = point.simulate({spark1: send(1, 8, 0), spark2: send(1, 8, 1)})
    assert (together.metric("cenq", "to_tenant1", 8), together.metric("cenq", "to_tenant2", 8)) == (4, 4)
    # Two cores send one packet each a step and the wire takes one: what is urgent goes first.
    point = loom(2, 8)
    mixed = point.simulate({point.inputs[1]: send(1, 8, 1), point.inputs[5]: send(1, 8, 2)})
    assert mixed.metric("qsize", "memcached", 8) == 1
    assert mixed.metric("cenq", "wire", 8) == 8 and mixed.metric("qsize", "spark", 8) == 8


def test_a_tenants_two_flows_share_its_queue_and_leave_no_place_empty():
    a, b, both = Queue("a", 9, 9, 4), Queue("b", 9, 9, 4), Queue("both", 9, 4, 4)
    point = ContentionPoint("tenant", 3, [TenantQueues("m", [a, b], [both], [(0, 1)])], destinations=2)
    for of_a, of_b, expected in [(9, 9, [0, 1, 0, 1]), (9, 1, [0, 1, 0, 0]), (0, 3, [1, 1, 1]), (1, 9, [0, 1, 1, 1])]:
        trace = point.simulate({"a": [[(0, 0)] * of_a], "b": [[(1, 0)] * of_b]})
        assert [destination for destination, _ in trace.arrived["both"][1]] == expected


def test_cores_that_are_fair_each_are_unfair_together():
    four, one = loom(4), loom(1)
    assert Analysis(four, unfair_query(four), steady_tenants(four), backend="cadical").satisfy_query().status == "sat"
    assert Analysis(one, unfair_query(one), steady_tenants(one), backend="cadical").satisfy_query().status == "unsat"
