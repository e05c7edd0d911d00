"""FPerf's circuit encoding against the integer encoding that follows the original program, in one run.

CPU seconds, median over seeds; both encodings answer the same questions and must agree. Ratios only are
meant to be kept: seconds are this machine's.
"""

from __future__ import annotations

import statistics
import time

import pandas as pd

from netrepro.papers.fperf_leaf_spine import Size, size_name, throughput_analysis
from netrepro.verification.examples import base_example
from netrepro.verification.workloads import parse_workload

# Queries on S2-L3-H6: some proven, some refuted.
WORKLOADS = [
    "[1,{T}]: ecmp(host1,t) <= 0",
    "[1,{T}]: ecmp(host1,t) <= 0 and [1,{T}]: ecmp(host2,t) <= 0 and [1,{T}]: dst(host2,t) >= 1",
    "[1,{T}]: sum cenq({{host2,host3,host4,host5,host6}},t) <= 0",
]


def measure(size: Size, horizon: int, seeds: range) -> pd.DataFrame:
    """Columns: task, solver, median CPU seconds, answers (to see that they agree)."""
    rows = []
    solvers = [("circuit", "z3"), ("circuit", "cadical"), ("integers", "z3")]
    for encoding, backend in solvers:
        seconds: dict[str, list[float]] = {}
        answers: dict[str, str] = {}
        for seed in seeds:
            start = time.process_time()
            options = {"encoding": encoding, "backend": backend, "seed": seed, "shuffle": seed}
            analysis = throughput_analysis(size, horizon, **options)
            answers["satisfy"] = analysis.satisfy_query().status
            seconds.setdefault("satisfy", []).append(time.process_time() - start)
            if encoding == "circuit":
                start = time.process_time()
                base = base_example(analysis)
                seconds.setdefault("base example", []).append(time.process_time() - start)
                answers["base example"] = f"{base.used_inputs}/{base.unsmoothness}/{base.packets}"
            start = time.process_time()
            found = [analysis.verify(parse_workload(text.format(T=horizon))).status for text in WORKLOADS]
            seconds.setdefault("verify", []).append((time.process_time() - start) / len(WORKLOADS))
            answers["verify"] = ", ".join(found)
        for task, values in seconds.items():
            rows.append((task, f"{encoding}, {backend}", statistics.median(values), answers[task]))
    return pd.DataFrame(rows, columns=["task", "solver", "median_cpu_s", "answer"])


def with_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Adds times_faster than the integer encoding, where that was asked."""
    peer = table[table["solver"] == "integers, z3"].set_index("task")["median_cpu_s"]
    return table.assign(times_faster=table["task"].map(peer) / table["median_cpu_s"])


def measure_large(size: Size = (4, 8, 32), horizon: int = 10) -> pd.DataFrame:
    """One question on a network that the integer encoding does not come to an end on; columns as `measure`."""
    rows = []
    for backend in ("z3", "cadical"):
        start = time.process_time()
        answer = throughput_analysis(size, horizon, backend=backend).satisfy_query().status
        rows.append(("satisfy", f"circuit, {backend}", time.process_time() - start, answer))
    return pd.DataFrame(rows, columns=["task", "solver", "median_cpu_s", "answer"]).assign(network=size_name(size))


def run(quick: bool = True) -> pd.DataFrame:
    """CPU seconds of each question by solver, and how many times faster than the integer encoding.

    Quick: 4 steps, two seeds, seconds. Otherwise the paper's 10 steps and five seeds, and a large network too: some
    minutes, nearly all of them the integer encoding's.
    """
    size: Size = (2, 3, 6)  # the workloads name its hosts
    table = with_ratios(measure(size, 4 if quick else 10, range(2 if quick else 5))).assign(network=size_name(size))
    parts = [table] if quick else [table, measure_large()]
    return pd.concat(parts, ignore_index=True).set_index("task")
