"""FPerf's circuit encoding against the integer encoding that follows the original program, in one run.

CPU seconds, median over seeds; both encodings answer the same questions and must agree. Ratios within the run only
are meant to be kept: seconds are this machine's. Beside them stand the original program's own CPU seconds, which were
recorded once on another machine (data/fperf_leaf_spine/SOURCES.md): an order of magnitude, no measurement of this run.
So do those that the program's authors published of its successor, which counts the packets of a buffer in place of
listing them (PUBLISHED).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from netrepro.papers.fperf_leaf_spine.cases import CASES
from netrepro.papers.fperf_leaf_spine.query import throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import Size, size_name
from netrepro.papers.fperf_leaf_spine.times import original_times
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import base_example
from netrepro.verification.leaf_spine import base_workload, leaf_spine, throughput_query
from netrepro.verification.loom import loom
from netrepro.verification.parsing import parse_workload
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.workloads import Workload

# Some proven, some refuted.
WORKLOADS = [
    "[1,{T}]: ecmp(host1,t) <= 0",
    "[1,{T}]: ecmp(host1,t) <= 0 and [1,{T}]: ecmp(host2,t) <= 0 and [1,{T}]: dst(host2,t) >= 1",
    "[1,{T}]: sum cenq({{{others}}},t) <= 0",
]
CIRCUITS = (("circuit", "z3"), ("circuit", "cadical"))
REFERENCE = ("integers", "z3")
COLUMNS = ["network", "horizon_steps", "task", "solver", "seeds", "median_cpu_s", "least_cpu_s", "most_cpu_s", "answer"]


@dataclass(frozen=True)
class Point:
    """A network and horizon, with how many seeds for the circuit and for the (slow) integer encoding."""

    size: Size
    horizon: int
    seeds: int
    reference_seeds: int = 0
    with_base_example: bool = False
    with_verify: bool = True


QUICK = (Point((2, 3, 6), 4, 2, 2, with_base_example=True),)
THOROUGH = (
    Point((2, 3, 6), 6, 5, 5, with_base_example=True),
    Point((2, 3, 6), 8, 5, 3, with_base_example=True),
    Point((2, 3, 6), 10, 5, 1, with_base_example=True),
    Point((2, 4, 8), 10, 5),
    Point((2, 5, 10), 10, 5),
    Point((4, 8, 32), 10, 1, with_verify=False),
)


def _timed(task: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    answer = task()
    return time.process_time() - start, answer


def _tasks(point: Point, encoding: str, backend: str, seed: int) -> Iterator[tuple[str, float, str]]:
    """(task, CPU seconds, answer): "satisfy" builds and loads the formula, "verify" is one workload on it.

    "satisfy, shuffled" loads the parts in another order for every seed: how far an order's luck goes.
    """
    options = {"encoding": encoding, "backend": backend, "seed": seed}
    analysis = throughput_analysis(point.size, point.horizon, **options)
    seconds, found = _timed(analysis.satisfy_query)
    yield "satisfy", seconds, found.status
    if encoding == "circuit":
        seconds, found = _timed(analysis.copy(shuffle=seed).satisfy_query)
        yield "satisfy, shuffled", seconds, found.status
    if point.with_verify:
        others = ",".join(analysis.point.inputs[1:])
        workloads = [parse_workload(text.format(T=point.horizon, others=others)) for text in WORKLOADS]
        seconds, verdicts = _timed(lambda: [analysis.verify(workload).status for workload in workloads])
        yield "verify", seconds / len(workloads), ", ".join(verdicts)
    if point.with_base_example and encoding == "circuit":
        seconds, base = _timed(lambda: base_example(analysis))
        yield "base example", seconds, f"{base.used_inputs}/{base.unsmoothness}/{base.packets}"


def measure(point: Point) -> pd.DataFrame:
    """COLUMNS, and times_faster than the integer encoding in this run. Raises AssertionError where answers differ."""
    rows = []
    for encoding, backend in (*CIRCUITS, REFERENCE):
        count = point.seeds if encoding == "circuit" else point.reference_seeds
        found = [row for seed in range(count) for row in _tasks(point, encoding, backend, seed)]
        for task in dict.fromkeys(task for task, _, _ in found):
            seconds = [cpu_s for name, cpu_s, _ in found if name == task]
            answers = {answer for name, _, answer in found if name == task}
            assert len(answers) == 1, f"{task}: {answers}"
            spread = statistics.median(seconds), min(seconds), max(seconds)
            name = size_name(point.size), point.horizon, task, f"{encoding}, {backend}", count
            rows.append((*name, *spread, *answers))
    table = pd.DataFrame(rows, columns=COLUMNS)
    assert (table.groupby("task")["answer"].nunique() == 1).all(), "the encodings disagree"
    peer = table[table["solver"] == ", ".join(REFERENCE)].set_index("task")["median_cpu_s"]
    return table.assign(times_faster=table["task"].map(peer) / table["median_cpu_s"])


def beside_original(table: pd.DataFrame) -> pd.DataFrame:
    """Adds original_cpu_s, recorded elsewhere, and median_cpu_s as a share of it; NaN where none was recorded."""
    recorded = original_times().rename(columns={"size": "network", "cpu_s": "original_cpu_s"}).drop(columns="seeds")
    joined = table.merge(recorded, on=["network", "horizon_steps", "task"], how="left")
    return joined.assign(original_to_ours=joined["original_cpu_s"] / joined["median_cpu_s"])


def measure_capacities(size: Size = (2, 3, 6), horizon: int = 10, seeds: int = 3) -> pd.DataFrame:
    """Host queues beyond what can arrive by the horizon: gates, and CPU seconds of "satisfy" as a median."""
    spines, leaves, hosts = size
    rows = []
    for capacity in (4 * horizon, 40 * horizon, 400 * horizon):
        seconds = []
        for seed in range(seeds):
            point = leaf_spine(spines, leaves, hosts // leaves, horizon, queue_capacity=capacity)
            query, base = throughput_query(point, hosts - 1), base_workload(point, hosts - 1)
            analysis = Analysis(point, query, base, backend="cadical", seed=seed)
            seconds.append(_timed(analysis.satisfy_query)[0])
        gates = analysis.encoded.circuit.gate_count  # type: ignore[union-attr]
        rows.append((capacity, gates, statistics.median(seconds)))
    table = pd.DataFrame(rows, columns=["capacity_packets", "gates", "median_cpu_s"])
    return table.assign(to_smallest=table["median_cpu_s"] / table["median_cpu_s"].iloc[0]).set_index("capacity_packets")


# Case -> packets a buffer, seconds of one check: the mean over the checks in the logs that stand in the authors'
# repository all-things-networking/count-buffy, of a loaded formula and one workload. Another machine than any run here.
PUBLISHED = {
    "round robin": (400, 0.136),  # 28 checks, data/logs/rr/win/rr.400.txt, commit 78de930
    "FQ-CoDel": (500, 3.24),  # 217 checks, data/logs/fq/fq.500.txt, commit 77ac4fd
    "strict priority": (500, 0.0025),  # 34 checks, data/logs_bak/prio/prio.500.txt, commit 78de930
    "Loom": (45, 42.2),  # 11 checks, data/logs/loom/loom.45.txt, commit 77ac4fd
    "leaf-spine": (100, 44.5),  # 49 checks, experiments/leaf_old/Ours/leaf.100.txt, commit 9d00a91
}
BURST = 40  # packets a step, of which ten steps fill a buffer of 400; 4 or 5 in all else, as with the successor


def with_buffers(case: str, packets: int, seed: int, burst: int = 4) -> tuple[Analysis, Workload]:
    """A case study with buffers of so many packets, and a workload to check; the leaf-spine's query is throughput."""
    if case == "leaf-spine":
        point = leaf_spine(2, 3, 2, 10, queue_capacity=packets, max_enqueue=5)
        query, base, workload = throughput_query(point, 5), base_workload(point, 5), WORKLOADS[1].format(T=10)
    else:
        original = CASES[case].build()
        point, query, base, workload = original.point, original.query, original.base, CASES[case].published_form
        if case == "Loom":
            point = loom(4, point.horizon, queue_capacity=packets)
        else:
            queue = {"capacity": packets, "max_enqueue": burst}
            point = scheduler_point(point.name, len(point.inputs), point.horizon, queue=queue)
    return Analysis(point, query, base, backend="cadical", seed=seed), parse_workload(workload)


def measure_buffers(seeds: int = 3) -> pd.DataFrame:
    """Case studies with buffers of 10 packets, of the size that the successor's authors show, and of ten times that.

    satisfy_cpu_s builds the formula and finds an example; check_cpu_s asks the loaded formula whether an input of one
    workload misses the query. Medians over seeds. Large buffers cost nothing as they never fill: a step brings 4
    packets. The last row is of buffers that do.
    """
    rows = []
    sizes = [(case, size, 4) for case, (size, _) in PUBLISHED.items() for size in (10, size, 10 * size)]
    for case, size, burst in [*sizes, ("round robin", 10 * BURST, BURST)]:
        satisfied, checked = [], []
        for seed in range(seeds):
            analysis, workload = with_buffers(case, size, seed, burst)
            seconds, answer = _timed(analysis.satisfy_query)
            assert answer.status == "sat", f"{case}, {size}: {answer.status}"
            satisfied.append(seconds)
            checked.append(_timed(lambda of=analysis, one=workload: of.ask(one, query=False, with_trace=False))[0])
        shown, published_s = PUBLISHED[case]
        name = f"{case}, {burst} packets a step" if burst == BURST else case
        elsewhere_s = published_s if size == shown and burst != BURST else None
        rows.append((name, size, statistics.median(satisfied), statistics.median(checked), elsewhere_s))
    columns = ["case", "buffer_packets", "satisfy_cpu_s", "check_cpu_s", "check_s (published, another machine)"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(3, "to_smallest", table["satisfy_cpu_s"] / table.groupby("case")["satisfy_cpu_s"].transform("first"))
    return table.set_index(["case", "buffer_packets"])


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """Sizes x encodings x tasks, and the price of capacity and of buffers. Ctrl-C keeps the networks that are finished.

    Quick: 4 steps, two seeds, seconds. Otherwise up to 10 steps, five seeds and S4-L8-H32: about four minutes, more
    than half of them the integer encoding's.
    """
    finished, tables = [], {}
    try:
        for point in QUICK if quick else THOROUGH:
            finished.append(measure(point))
        tables["capacity"] = measure_capacities(horizon=4 if quick else 10)
        tables["buffers"] = measure_buffers()
    except KeyboardInterrupt:
        if not finished:
            raise
    table = pd.concat(finished, ignore_index=True)
    return {"encodings": beside_original(table).set_index(["network", "horizon_steps", "task"]), **tables}
