"""The study: each run's task, the claims, the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.papers.fperf_leaf_spine import figures
from netrepro.papers.fperf_leaf_spine.cases import (
    CASES,
    FREE_TO_BE_SILENT,
    HALF,
    NOTHING,
    OTHERS_SILENT,
    QUESTIONS,
    ask_with_and_without_base,
    synthesise,
)
from netrepro.papers.fperf_leaf_spine.figures import EXAMPLE, wires
from netrepro.papers.fperf_leaf_spine.packets import packet_runs, synthesised_input
from netrepro.papers.fperf_leaf_spine.query import received_packets, throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import SIZES, Setting, size_of
from netrepro.papers.fperf_leaf_spine.times import (
    NO_SEARCH,
    fit_growth,
    is_exponential,
    known_times,
    solver_work,
    timed_queues,
    timed_tasks,
)
from netrepro.processes import in_processes
from netrepro.study import Check, Evidence, OneRun, Play, Progress, Reading, Runs, Scale, Study, swept
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import base_example
from netrepro.verification.workloads import Query

SPREAD_SEEDS = 5
SPREAD, SPREAD_CONTROL = "work", "work, nothing to search"


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure every run in its own process, as many at once as there are processors, the most costly first. CPU seconds
    are counted, because other processes hardly change them."""
    return in_processes(_measure, [(run.setting, run.seed) for run in runs], progress, cost=_cost)


def _measure(setting: Setting, seed: int) -> Reading:
    return TASKS[setting.task](setting, seed)


def _cost(setting: Setting, seed: int) -> float:
    if setting.task == "case study":
        point = CASES[setting.subject].build().point
        return float(len(point.queues) * point.horizon)
    dear = {"time": 1.0, "count solver's steps": 10.0, "run packet networks": 10.0}
    return dear.get(setting.task, 0.1) * size_of(setting.size)[2] ** 2


def _find_the_plainest(setting: Setting, seed: int) -> Reading:
    """Ask the report's query; find the simplest input that answers it, if there is one."""
    size, horizon, victim = size_of(setting.size), setting.horizon, size_of(setting.size)[2] - 1
    asked = throughput_analysis(size, horizon, seed=seed, timeout_s=setting.timeout_s)
    if setting.at_most_packets is not None:
        few = Query("forall", (horizon, horizon), asked.query.queues[0], "cenq", "<=", setting.at_most_packets)
        asked = Analysis(asked.point, few, asked.base, seed=seed, timeout_s=setting.timeout_s)
    try:
        trace = base_example(asked).trace
    except NetreproError:
        return Reading({"is_found": 0.0})
    return Reading({"is_found": 1.0}, {"wires": wires(trace, size), "received": received_packets(trace, victim)})


def _ask(setting: Setting, seed: int) -> Reading:
    row = ask_with_and_without_base(setting.subject, size_of(setting.size), setting.horizon)
    with_base, without = row["with_base"], row["without_base"]
    numbers = {
        "is_possible": float(with_base == "sat"),
        "base_decides": float((with_base, without) == ("unsat", "sat")),
    }
    return Reading(numbers, {"answers": pd.DataFrame([row])})


def _synthesise(setting: Setting, seed: int) -> Reading:
    row = synthesise(setting.subject, seed)
    numbers = {
        "is_proven": float(row["status"] == "proven"),
        "control_has_example": float(row["control_status"] != "unsat"),
    }
    return Reading(numbers, {"case_studies": pd.DataFrame([row])})


def _time(setting: Setting, seed: int) -> Reading:
    size = size_of(setting.size)
    with_search = size[2] <= setting.searched_hosts
    return _timed(timed_tasks(size, setting.timed_horizon, seed, with_search=with_search, timeout_s=setting.timeout_s))


def _time_queues(setting: Setting, seed: int) -> Reading:
    return _timed(timed_queues(size_of(setting.size), setting.timed_horizon, seed, setting.queue_packets))


def _timed(times: pd.DataFrame) -> Reading:
    """Read timed tasks; those without an answer in time have no seconds."""
    known = known_times(times)
    numbers = {f"{task.replace(' ', '_')}_s": seconds for task, seconds in known[["task", "cpu_s"]].to_numpy()}
    late = Check("questions without an answer in time (count)", len(times) - len(known), at_most=0)
    return Reading(numbers, {"times": times}, [late])


def _count_steps(setting: Setting, seed: int) -> Reading:
    seeds = range(seed, seed + SPREAD_SEEDS)
    return Reading(tables={"spread": solver_work(size_of(setting.size), setting.timed_horizon, seeds)})


def _run_packet_networks(setting: Setting, seed: int) -> Reading:
    size, horizon = size_of(setting.size), setting.horizon
    _, plainest = synthesised_input(size, horizon, seed=seed)
    networks = packet_runs(plainest, size, horizon, runs=setting.packet_networks, seed=seed)
    return Reading(tables={"packet_networks": networks})


TASKS: dict[str, Callable[[Setting, int], Reading]] = {
    "find the plainest example": _find_the_plainest,
    "ask": _ask,
    "case study": _synthesise,
    "time": _time,
    "time larger queues": _time_queues,
    "count solver's steps": _count_steps,
    "run packet networks": _run_packet_networks,
}
_STEPS = {"task": "count solver's steps"}
STUDY_CASES: dict[str, dict[str, Any]] = {
    EXAMPLE: {},
    **{question: {"task": "ask", "subject": question} for question in QUESTIONS},
    **{name: {"task": "case study", "subject": name} for name in CASES},
    "times": {"task": "time", "size": swept(*SIZES)},
    "larger queues": {"task": "time larger queues", "size": SIZES[0], "queue_packets": swept(40, 400, 4000)},
    SPREAD: _STEPS | {"timed_horizon": lambda setting: setting.horizon},
    SPREAD_CONTROL: _STEPS | {"timed_horizon": NO_SEARCH},
    "packet networks": {"task": "run packet networks"},
}
_ONCE = dict.fromkeys([name for name in STUDY_CASES if name not in ("times", "larger queues")], 1)


def _growth(seconds: Mapping[int, pd.Series]) -> list[float]:
    """Tell for each repetition whether seconds grow exponentially, over hosts or over the sizes of a queue. Repetitions
    with fewer than three sizes are left out."""
    judged = []
    for one in (one.dropna() for one in seconds.values()):
        places = [size_of(name)[2] for name in one.index] if one.index.name == "size" else range(len(one))
        if len(set(places)) >= 3:
            judged.append(is_exponential(places, one))
    return judged


def _differences(spread: Mapping[int, pd.DataFrame]) -> list[float]:
    """Compute the factor by which each changed run's solver work differs from the median.

    Seeds and orders share one median, because asking the same elsewhere changes both.
    """
    (table,) = spread.values()
    steps = table[table["mutation"] != "none"]["solver_steps"]
    return list(1 + (steps / steps.median() - 1).abs())


def _proven(case: str) -> Evidence:
    return Evidence("is_proven", case, control=Evidence("control_has_example", case, exact=True), exact=True)


def answers(runs: Runs) -> pd.DataFrame:
    """Return the answers to QUESTIONS, with and without the base workload."""
    return runs.tables["answers"][["question", "with_base", "without_base"]]


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence."""
    status = answers(runs).set_index("question")["with_base"][HALF]
    words = {"sat": "can receive", "unsat": "cannot receive"}.get(status, "could not be shown to receive")
    proven = int(np.nansum([runs.numbers(case)["is_proven"].sum() for case in CASES]))
    growth = fit_growth(runs.table("times", "times")).set_index("task").loc["base example", "factor_per_host"]
    return (
        f"Host 6 {words} less than half of its line although no two hosts share a destination; "
        f"{proven} of {len(CASES)} case studies have a proven workload; time grows {growth:.2f} times a host."
    )


STUDY = Study(
    slug="fperf_leaf_spine",
    setting=Setting(),
    cases=STUDY_CASES,
    measure_all=measure_all,
    seeds=lambda seed, repetition: seed + repetition,  # a solver's seeds
    answer=answer,
    repetitions=5,
    scales={
        "quick": Scale(repetitions=2, only={"size": SIZES[:4]}, fewer=_ONCE),
        "paper": Scale(changes={"timed_horizon": 10, "searched_hosts": 10}, fewer=_ONCE),
        "test": Scale(
            repetitions=2, changes={"size": SIZES[0], "timed_horizon": 6}, only={"size": SIZES[:3]}, fewer=_ONCE
        ),
    },
    claims={
        "half-line-rate": Evidence("is_possible", HALF, control=OTHERS_SILENT, exact=True),
        "base-workload-matters": Evidence("base_decides", NOTHING, control=FREE_TO_BE_SILENT, exact=True),
        "starvation-strict-priority": _proven("strict priority"),
        "unfair-round-robin": _proven("round robin"),
        "thin-flow-fq-codel": _proven("FQ-CoDel"),
        "unfair-loom": _proven("Loom"),
        "latency-leaf-spine": _proven("leaf-spine"),
        "exponential-growth": Evidence(
            "base_example_s",
            "times",
            control=Evidence("base_example_s", "larger queues", how=_growth, pooled=True),
            how=_growth,
            pooled=True,
        ),
        "seeds-explain-15-percent": Evidence("spread", SPREAD, control=SPREAD_CONTROL, how=_differences, pooled=True),
    },
    figures={
        "counterexample": figures.draw_counterexample,
        "fig7c_times": figures.draw_times,
        "packet_world": figures.draw_packet_networks,
    },
    play=Play(
        (EXAMPLE,),
        {"size": list(SIZES[:4]), "horizon": (4, 12, 1), "at_most_packets": [None, *range(9)]},
        figures.draw_run,
    ),
)
