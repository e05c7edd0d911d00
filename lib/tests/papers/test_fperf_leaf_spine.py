"""FPerf: the report's query, case studies, controls. Deviation: no seconds of Figure 7c are compared."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro import NetreproError
from netrepro.claims import judge, load_claims
from netrepro.papers import fperf_leaf_spine as paper
from netrepro.papers.fperf_leaf_spine.cases import CASES, synthesise
from netrepro.papers.fperf_leaf_spine.claims import _measured_spread, exponential_shares
from netrepro.papers.fperf_leaf_spine.packets import RUN_COLUMNS, Burst, bursts, run_in_packets, share_that_lost
from netrepro.papers.fperf_leaf_spine.query import is_tautology
from netrepro.papers.fperf_leaf_spine.setting import Scale
from netrepro.papers.fperf_leaf_spine.times import TIME_COLUMNS


def ticks() -> Callable[[], float]:
    """A clock that advances by one at every look, so that no test depends on the machine."""
    return itertools.count(1.0).__next__


TINY = Scale(
    sizes=((1, 2, 4), (2, 2, 4), (1, 3, 6)),
    horizon=6,
    most_seeds=2,
    reference_seeds={(1, 2, 4): 1},
    reference_horizon=5,
    search_sizes=((2, 2, 4),),
)


def test_section_8_a_host_can_receive_less_than_half_although_its_sender_is_steady():
    analysis = paper.throughput_analysis()
    trace = analysis.satisfy_query().trace
    rows = paper.received_packets(trace, 5).set_index("time_step")
    assert rows.loc[10, "received_packets"] <= 4 < rows.loc[10, "line_rate_packets"]
    assert (rows["received_packets"] <= rows["line_rate_packets"]).all()
    assert analysis.base.holds(trace)


def test_the_base_workload_changes_the_verdict():
    answers = paper.without_base_workload((2, 2, 4), 8).set_index("question")
    assert list(answers.loc["nothing at all is received"]) == ["unsat", "sat"]
    assert list(answers.loc["fewer than half is received though the other hosts are silent"]) == [
        "unsat",
        "sat",
    ]


def test_the_least_that_the_victim_can_receive_is_found_from_below():
    least = paper.slowest_possible((2, 3, 6), 8)
    assert list(least["status"])[:-1] == ["unsat"] * (len(least) - 1)
    assert list(least["status"])[-1] == "sat"


def test_the_reports_formula_says_nothing_and_the_corrected_one_asks():
    rows = paper.examine_report_formula((2, 2, 4), 8).set_index("reading")
    assert rows.loc["as written", "says_nothing"]
    assert not rows.loc["ranges as guards, still an implication", "sender_is_steady"]
    assert rows.loc["corrected", "sender_is_steady"]
    assert not rows.loc["corrected", "says_nothing"]
    assert rows.loc["corrected", "received_packets"] <= 3
    assert is_tautology("(declare-const x Int) (assert (> x 0))") is False


@pytest.mark.parametrize("name", [name for name in CASES if name != "FQ-CoDel"])
def test_case_studies_have_a_workload_and_their_controls_none(name):
    row = synthesise(name)
    published = "proven" if CASES[name].published_form else ""
    assert (row["status"], row["published_form_status"], row["control_status"]) == ("proven", published, "unsat")
    assert row["size_nodes"] <= 25


def test_every_kind_of_trouble_has_a_case():
    assert {case.kind for case in CASES.values()} >= {"starvation", "unfairness", "latency"}


def test_the_original_programs_workload_for_fq_codel_is_proven_and_the_fixed_scheduler_has_none():
    case = CASES["FQ-CoDel"]
    assert case.build().verify(paper.parse_workload(case.published_form)).status == "proven"
    assert case.build_control().satisfy_query().status == "unsat"


def test_every_size_seed_and_task_is_timed_once():
    times = paper.measure_times(TINY, [1, 2], ticks())
    assert times.attrs["is_complete"]
    counts = times.groupby("task")["seed"].count()
    assert dict(counts) == {"base example": 6, "satisfy": 6, "satisfy (peer)": 2, "search": 2, "verify": 6}
    assert set(times["status"]) <= {
        "sat",
        "unsat",
        "optimal",
        "proven",
        "refuted",
        "infeasible",
        "nothing found",
    }
    assert set(paper.encoding_ratios(times)["size"]) == {"S1-L2-H4"}
    figure = paper.draw_times(times, paper.fit_growth(times))
    assert "Figure 7c" in figure.get_suptitle()


def test_an_interrupted_measurement_keeps_what_it_has():
    def stop_at_third(rows):
        for place, row in enumerate(rows):
            if place == 3:
                raise KeyboardInterrupt
            yield row

    times = paper.measure_times(TINY, [1], ticks(), progress=stop_at_third)
    assert len(times) == 3
    assert not times.attrs["is_complete"]


def test_ctrl_c_in_the_middle_of_a_solvers_work_keeps_the_finished_rows_and_ends_soon():
    """The integer encoding of the larger network takes minutes; the smaller one is finished by then."""
    scale = replace(TINY, sizes=((1, 2, 4),), horizon=10, search_sizes=(), reference_seeds={(2, 3, 6): 1})
    scale, pressed_s = replace(scale, reference_horizon=10), []

    def press_when_the_rest_is_done(rows):
        for count, row in enumerate(rows, 1):
            yield row
            if count == 4:  # satisfy, verify, base example, and the circuit's part of the comparison
                pressed_s.append(time.monotonic() + 2)
                threading.Timer(2, os.kill, [os.getpid(), signal.SIGINT]).start()

    times = paper.measure_times(scale, [1], time.process_time, progress=press_when_the_rest_is_done)
    assert time.monotonic() - pressed_s[0] < 5  # a second is meant; a busy machine gets more
    assert not times.attrs["is_complete"]
    assert list(times["task"]) == ["satisfy", "verify", "base example", "satisfy (peer)"]
    assert set(times["encoding"]) == {"circuit"}


def test_a_time_limit_keeps_what_was_finished_and_is_no_answer():
    times = paper.measure_times(TINY, [1], ticks(), timeout_s=1e-4)
    assert len(times) and "unknown" in set(times["status"])
    assert paper.fit_growth(times[times["status"] == "unknown"]).empty
    assert paper.encoding_ratios(times[times["status"] == "unknown"]).empty


def made_up_times(seconds: Callable[[float], float]) -> pd.DataFrame:
    noise = np.random.default_rng(3)
    return pd.DataFrame(
        [
            (
                f"H{hosts}",
                hosts,
                10,
                "circuit",
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


def test_an_exponential_is_told_from_a_line_and_from_no_growth():
    exponential = made_up_times(lambda hosts: 0.1 * 1.5**hosts)
    fit = paper.fit_growth(exponential).iloc[0]
    assert fit["low"] < 1.5 < fit["high"] and fit["is_exponential"]
    assert exponential_shares(exponential) == [1.0] * 5
    power = paper.fit_growth(made_up_times(lambda hosts: 0.01 * hosts**2.5)).iloc[0]
    assert power["power"] == pytest.approx(2.5, abs=0.1) and power["r_squared_power"] > power["r_squared"]
    assert fit["r_squared"] > fit["r_squared_power"]
    line = made_up_times(lambda hosts: 1.0 * hosts)
    assert not paper.fit_growth(line).iloc[0]["is_exponential"]
    assert sum(exponential_shares(line)) == 0
    assert sum(exponential_shares(made_up_times(lambda hosts: 1.0))) == 0


def test_harmless_changes_of_the_formula_change_the_solvers_work_and_not_its_answer():
    spread = paper.measure_spread((2, 2, 4), [5, 6], range(3))
    assert spread["status"].nunique() == 1 and len(spread) == 2 * (2 + 2 * 3)
    work = spread.groupby(["horizon_steps", "mutation"])["solver_steps"].nunique()
    assert list(work.xs("none", level="mutation")) == [1, 1]  # to the last step
    assert (work.drop("none", level="mutation") > 1).all()
    assert len(paper.draw_spread(spread).axes[0].get_legend().get_texts()) == 1 + 2


def made_up_spread(differ: float, nothing_to_search: float = 0.01) -> pd.DataFrame:
    rows = [(10, "none", run, 1000, "sat") for run in range(2)]
    for seed in range(5):
        for mutation in ("reseeded", "shuffled"):
            rows += [(10, mutation, seed, 1000 * (1 + differ * (seed - 2)), "sat")]
            rows += [(paper.NO_SEARCH, mutation, seed, 100 * (1 + nothing_to_search * (seed - 2)), "unsat")]
        rows += [(6, "reseeded", seed, 1 + seed, "sat")]  # another horizon's formula is not judged
    return pd.DataFrame(rows, columns=["horizon_steps", "mutation", "seed", "solver_steps", "status"])


@pytest.mark.parametrize(("differ", "verdict"), [(0.3, "agrees"), (0.05, "agrees in direction"), (0.0, "disagrees")])
def test_the_seeds_are_judged_by_how_far_single_runs_lie_from_their_median(differ, verdict):
    measured = _measured_spread(made_up_spread(differ))
    claim = load_claims("fperf_leaf_spine").claim(measured.claim)
    assert judge(claim, measured, "simulated").verdict == verdict


def test_seeds_explain_nothing_where_a_formula_without_search_differs_as_much():
    claim = load_claims("fperf_leaf_spine").claim("seeds-explain-15-percent")
    spread = made_up_spread(0.3)
    assert judge(claim, _measured_spread(spread), "simulated").counts
    assert not judge(claim, _measured_spread(made_up_spread(0.3, 0.3)), "simulated").counts
    without = spread[spread["horizon_steps"] > paper.NO_SEARCH]
    assert "the control was not run" in judge(claim, _measured_spread(without), "simulated").reason


def test_averages_of_many_runs_differ_less_than_single_runs_do():
    runs = pd.DataFrame(
        {"horizon_steps": 10, "mutation": "shuffled", "solver_steps": np.random.default_rng(2).normal(1000, 100, 400)}
    )
    one, five, twenty = (paper.spread_summary(runs, count)["averages_differ"].iloc[0] for count in (1, 5, 20))
    # Normal, a spread of 10 %: two averages of n differ by 0.1 * sqrt(2 / n), and by 1.96 times that in 19 of 20 cases.
    for count, found in ((1, one), (5, five), (20, twenty)):
        assert found == pytest.approx(1.96 * 0.1 * (2 / count) ** 0.5, rel=0.15)
    assert paper.spread_summary(runs)["typical_difference"].iloc[0] == pytest.approx(0.0674, rel=0.15)


def test_the_pictures_show_every_switch_and_queue():
    trace = paper.throughput_analysis((2, 2, 4), 8).satisfy_query().trace
    texts = {text.get_text() for text in paper.draw_counterexample(trace, (2, 2, 4)).axes[0].texts}
    assert {"spine1", "spine2", "leaf1", "leaf2", "host1", "host4"} <= texts
    labels = [t.get_text() for t in trace.draw(["host1", "to_host4"]).axes[0].get_yticklabels()]
    assert labels == ["to_host4", "host1"]


def test_unknown_words_are_refused():
    with pytest.raises(NetreproError, match="quick"):
        paper.scale("quik")
    with pytest.raises(NetreproError, match="FQ-CoDel"):
        synthesise("FQ-Codel")
    with pytest.raises(NetreproError, match="same number of hosts"):
        paper.throughput_analysis((2, 3, 7))


# --- packet by packet ---


def made_up_runs() -> pd.DataFrame:
    rows = [(0, "", "must lose", 10, 3, 4), (1, "", "must lose", 10, 3, 5), (2, "", "cannot lose", 10, 7, 7)]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def test_the_share_that_lost_is_counted_at_the_horizon():
    runs = made_up_runs()
    assert share_that_lost(runs, "must lose") == 0.5
    assert share_that_lost(runs, "cannot lose") == 0.0
    with pytest.raises(NetreproError, match="may lose"):
        share_that_lost(runs, "may lose")


def test_arrivals_become_few_bursts_and_come_back():
    trace = paper.throughput_analysis((2, 2, 4), 6).satisfy_query().trace
    made = {
        "host1": [[(3, 1)], [(3, 1)], [], [(3, 1)] * 2, [(3, 0)] * 2, []],
        "host2": [[], [], [], [], [], [(2, 0)]],
    }
    trace = replace(trace, arrived={**trace.arrived, **made})
    found = bursts(trace, ["host1", "host2"])
    assert [(b.count, b.first, b.last) for b in found] == [(1, 1, 2), (2, 4, 4), (2, 5, 5), (1, 6, 6)]
    rebuilt = {name: [[] for _ in range(6)] for name in made}
    for b in found:
        for step in range(b.first, b.last + 1):
            rebuilt[b.source][step - 1] = [b.packet] * b.count
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
    workload, trace = paper.synthesised_input((2, 2, 4), 8)
    assert workload.holds(trace)
    runs = paper.packet_runs(trace, (2, 2, 4), 8, runs=12)
    assert {"must lose", "cannot lose"} == set(runs["prediction"])
    assert share_that_lost(runs, "must lose") == 1.0
    assert share_that_lost(runs, "cannot lose") == 0.0
    assert (runs["received_packets"] - runs["model_packets"]).abs().max() <= 1
    assert len(paper.packet_summary(runs)) == 2
    labels = [t.get_text() for t in paper.draw_packet_runs(runs).axes[0].get_legend().get_texts()]
    assert any("must lose" in label for label in labels)


def test_every_claim_is_measured_and_a_control_flips():
    ids = {claim.id for claim in load_claims("fperf_leaf_spine").claims}
    times = made_up_times(lambda hosts: 0.1 * 1.5**hosts)
    cases = pd.DataFrame(
        {"case": list(CASES), "status": "proven", "control_status": "unsat"},
        index=range(len(CASES)),
    )
    measured = paper.measured_claims(
        times,
        paper.fit_growth(times),
        cases,
        paper.measure_spread((2, 2, 4), [6], range(2)),
        paper.without_base_workload((2, 2, 4), 8),
        made_up_times(lambda hosts: 1.0),
    )
    assert {entry.claim for entry in measured} == ids
