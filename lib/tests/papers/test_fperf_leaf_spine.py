"""FPerf: the report's query, case studies, controls. Deviation: no seconds of Figure 7c are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro import NetreproError
from netrepro.claims import Measured, judge, load_claims
from netrepro.papers import fperf_leaf_spine as paper
from netrepro.papers.fperf_leaf_spine import figures, study
from netrepro.papers.fperf_leaf_spine.cases import CASES, HALF, NOTHING, OTHERS_SILENT, synthesise
from netrepro.papers.fperf_leaf_spine.cases import ask_with_and_without_base as ask
from netrepro.papers.fperf_leaf_spine.packets import Burst, bursts, packet_runs, run_in_packets, synthesised_input
from netrepro.papers.fperf_leaf_spine.query import received_packets
from netrepro.papers.fperf_leaf_spine.setting import size_name, size_of
from netrepro.papers.fperf_leaf_spine.times import TIME_COLUMNS, solver_work, timed_tasks
from netrepro.study import read_once


def ticks() -> Callable[[], float]:
    """A clock that advances by one at every look, so that no test depends on the machine."""
    return itertools.count(1.0).__next__


def test_section_8_a_host_can_receive_less_than_half_although_its_sender_is_steady():
    analysis = paper.throughput_analysis()
    trace = analysis.satisfy_query().trace
    rows = received_packets(trace, 5).set_index("time_step")
    assert rows.loc[10, "received_packets"] <= 4 < rows.loc[10, "line_rate_packets"]
    assert (rows["received_packets"] <= rows["line_rate_packets"]).all()
    assert analysis.base.holds(trace)


def test_the_base_workload_changes_the_verdict():
    for question in (NOTHING, OTHERS_SILENT):
        row = ask(question, (2, 2, 4), 8)
        assert (row["with_base"], row["without_base"]) == ("unsat", "sat"), question
    assert ask(HALF, (2, 2, 4), 8)["with_base"] == "sat"


def test_the_reports_formula_says_nothing_and_the_corrected_one_asks():
    assert paper.is_tautology(paper.REPORT_FORMULA)
    assert paper.is_tautology(paper.CORRECTED_FORMULA) is False
    assert paper.is_tautology("(declare-const x Int) (assert (> x 0))") is False


@pytest.mark.parametrize("name", [name for name in CASES if name != "FQ-CoDel"])
def test_case_studies_have_a_workload_and_their_controls_none(name):
    row = synthesise(name)
    published = "proven" if CASES[name].published_form else ""
    assert (row["status"], row["published_form_status"], row["control_status"]) == ("proven", published, "unsat")
    assert row["size_nodes"] <= 25


def test_the_original_programs_workload_for_fq_codel_is_proven_and_the_fixed_scheduler_has_none():
    case = CASES["FQ-CoDel"]
    assert case.build().verify(paper.parse_workload(case.published_form)).status == "proven"
    assert case.build_control().satisfy_query().status == "unsat"


def test_every_task_of_a_network_is_timed_once():
    times = timed_tasks((1, 2, 4), 6, 1, with_search=True, clock=ticks())
    assert list(times["task"]) == ["satisfy", "verify", "base example", "search"]
    assert set(times["status"]) <= {"sat", "unsat", "optimal", "proven", "refuted", "infeasible", "nothing found"}


def test_a_time_limit_keeps_what_was_finished_is_no_answer_and_is_not_trusted():
    times = timed_tasks((2, 2, 4), 6, 1, with_search=True, timeout_s=1e-4, clock=ticks())
    assert len(times) and "unknown" in set(times["status"])
    unknown = times[times["status"] == "unknown"]
    assert paper.fit_growth(unknown).empty
    assert not any(check.holds for check in study._timed(times).checks)


def test_a_size_is_read_from_its_name():
    assert size_of(size_name((2, 5, 10))) == (2, 5, 10)


def made_up_times(seconds: Callable[[float], float]) -> pd.DataFrame:
    noise = np.random.default_rng(3)
    return pd.DataFrame(
        [
            (
                f"H{hosts}",
                hosts,
                10,
                seed,
                "base example",
                seconds(hosts) * noise.uniform(0.95, 1.05),
                "",
            )
            for seed in range(5)
            for hosts in (4, 6, 8, 10)
        ],
        columns=TIME_COLUMNS,
    )


def growth(times: pd.DataFrame) -> list[float]:
    """Judge made-up times as the claim does."""
    sizes = "S1-L1-" + times["size"]
    seeds = times.assign(size=sizes).groupby("seed")
    return study._growth({seed: rows.set_index("size")["cpu_s"] for seed, rows in seeds})


def test_queues_that_grow_are_judged_by_their_order():
    queues = pd.Index([40, 400, 4000], name="queue_packets")
    measured = {0: pd.Series([1.0, 1.5, 2.6], queues), 1: pd.Series([1.0, 1.0, 1.1], queues)}
    assert study._growth(measured) == [1.0, 0.0]


def test_an_exponential_is_told_from_a_line_and_from_no_growth():
    exponential = made_up_times(lambda hosts: 0.1 * 1.5**hosts)
    fit = paper.fit_growth(exponential).iloc[0]
    assert 1 < fit["low"] < 1.5 < fit["high"]
    assert growth(exponential) == [1.0] * 5
    power = paper.fit_growth(made_up_times(lambda hosts: 0.01 * hosts**2.5)).iloc[0]
    assert power["power"] == pytest.approx(2.5, abs=0.1) and power["r_squared_power"] > power["r_squared"]
    assert fit["r_squared"] > fit["r_squared_power"]
    line = made_up_times(lambda hosts: 1.0 * hosts)
    assert sum(growth(line)) == 0
    assert sum(growth(made_up_times(lambda hosts: 1.0))) == 0


def test_harmless_changes_of_the_formula_change_the_solvers_work_and_not_its_answer():
    spread = pd.concat([solver_work((2, 2, 4), horizon, range(3)) for horizon in (5, 6)])
    assert spread["status"].nunique() == 1 and len(spread) == 2 * (2 + 2 * 3)
    work = spread.groupby(["horizon_steps", "mutation"])["solver_steps"].nunique()
    assert list(work.xs("none", level="mutation")) == [1, 1]  # to the last step
    assert (work.drop("none", level="mutation") > 1).all()


def made_up_spread(differ: float, steps: int = 1000) -> pd.DataFrame:
    rows = [(10, "none", run, steps, "sat") for run in range(2)]
    for seed in range(5):
        rows += [
            (10, mutation, seed, steps * (1 + differ * (seed - 2)), "sat") for mutation in ("reseeded", "shuffled")
        ]
    return pd.DataFrame(rows, columns=["horizon_steps", "mutation", "seed", "solver_steps", "status"])


def measured_spread(differ: float, nothing_to_search: float = 0.01) -> Measured:
    values, control = (
        study._differences({0: made_up_spread(each, steps)})
        for each, steps in ((differ, 1000), (nothing_to_search, 100))
    )
    return Measured(claim="seeds-explain-15-percent", values=values, control=control)


@pytest.mark.parametrize(("differ", "verdict"), [(0.3, "agrees"), (0.05, "agrees in direction"), (0.0, "disagrees")])
def test_the_seeds_are_judged_by_how_far_single_runs_lie_from_their_median(differ, verdict):
    measured = measured_spread(differ)
    claim = load_claims("fperf_leaf_spine").claim(measured.claim)
    assert judge(claim, measured, "simulated").verdict == verdict


def test_seeds_explain_nothing_where_a_formula_without_search_differs_as_much():
    claim = load_claims("fperf_leaf_spine").claim("seeds-explain-15-percent")
    assert judge(claim, measured_spread(0.3), "simulated").counts
    assert not judge(claim, measured_spread(0.3, 0.3), "simulated").counts


def test_averages_of_many_runs_differ_less_than_single_runs_do():
    runs = pd.DataFrame(
        {"horizon_steps": 10, "mutation": "shuffled", "solver_steps": np.random.default_rng(2).normal(1000, 100, 400)}
    )
    one, five, twenty = (paper.spread_summary(runs, count)["averages_differ"].iloc[0] for count in (1, 5, 20))
    # Normal, a spread of 10 %: two averages of n differ by 0.1 * sqrt(2 / n), and by 1.96 times that in 19 of 20 cases.
    for count, differ in ((1, one), (5, five), (20, twenty)):
        assert differ == pytest.approx(1.96 * 0.1 * (2 / count) ** 0.5, rel=0.15)
    assert paper.spread_summary(runs)["typical_difference"].iloc[0] == pytest.approx(0.0674, rel=0.15)


def test_the_pictures_show_every_switch_and_queue():
    trace = paper.throughput_analysis((2, 2, 4), 8).satisfy_query().trace
    table = figures.wires(trace, (2, 2, 4))
    texts = {text.get_text() for text in figures.draw_wires(table, 8).axes[0].texts}
    assert {"spine1", "spine2", "leaf1", "leaf2", "host1", "host4"} <= texts
    labels = [t.get_text() for t in trace.draw(["host1", "to_host4"]).axes[0].get_yticklabels()]
    assert labels == ["to_host4", "host1"]


def test_who_plays_is_told_where_there_is_no_such_input():
    run = read_once(paper.STUDY, replace(paper.Setting(), size="S2-L2-H4", horizon=6, at_most_packets=0))
    assert run["is_found"] == 0 and "No input" in figures.draw_run(run, "").get_suptitle()


def test_unknown_words_are_refused():
    with pytest.raises(NetreproError, match="FQ-CoDel"):
        synthesise("FQ-Codel")
    with pytest.raises(NetreproError, match="same number of hosts"):
        paper.throughput_analysis((2, 3, 7))


# --- packet by packet ---


def test_arrivals_become_few_bursts_and_come_back():
    trace = paper.throughput_analysis((2, 2, 4), 6).satisfy_query().trace
    made = {
        "host1": [[(3, 1)], [(3, 1)], [], [(3, 1)] * 2, [(3, 0)] * 2, []],
        "host2": [[], [], [], [], [], [(2, 0)]],
    }
    trace = replace(trace, arrived={**trace.arrived, **made})
    sent = bursts(trace, ["host1", "host2"])
    assert [(b.packets, b.first, b.last) for b in sent] == [(1, 1, 2), (2, 4, 4), (2, 5, 5), (1, 6, 6)]
    rebuilt = {name: [[] for _ in range(6)] for name in made}
    for b in sent:
        for step in range(b.first, b.last + 1):
            rebuilt[b.source][step - 1] = [b.packet] * b.packets
    assert rebuilt == made
    with pytest.raises(NetreproError, match="host1 sends packets of several labels in step 1"):
        bursts(replace(trace, arrived={"host1": [[(3, 0), (3, 1)]]}), ["host1"])


def test_a_lone_sender_is_received_step_for_step_as_in_the_model():
    """Every wire takes one step in both worlds: what is sent in step s is received in step s + 3."""
    alone = [Burst("host1", (3, 0), 1, 1, 8)]
    received, spines = run_in_packets((2, 2, 4), 8, alone, 3, seed=1)
    assert list(received) == [0, 0, 0, 1, 2, 3, 4, 5]
    assert spines in ([0], [1])
    inside = [Burst("host3", (3, 0), 2, 1, 2)]
    received, spines = run_in_packets((2, 2, 4), 8, inside, 3, seed=1)
    assert spines == [-1] and list(received) == [0, 1, 2, 3, 4, 4, 4, 4]


def test_the_packet_world_loses_where_the_solver_says_so_and_nowhere_else():
    workload, trace = synthesised_input((2, 2, 4), 8)
    assert workload.holds(trace)
    runs = packet_runs(trace, (2, 2, 4), 8, runs=12)
    assert {"must lose", "cannot lose"} == set(runs["prediction"])
    received = runs[runs["time_step"] == 8].groupby("prediction")["received_packets"]
    assert received.max()["must lose"] <= 3 < received.min()["cannot lose"]
    assert (runs["received_packets"] - runs["model_packets"]).abs().max() <= 1
    assert paper.packet_summary(runs)["networks"].sum() == 12
