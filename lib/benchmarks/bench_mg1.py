"""M/D/1 with batch means: the compiled core against SimPy and against numpy, in jobs a second.

Each simulates the same queue from the same load; job counts are scaled so that each takes about as long.
Ratios of one run are what to read: the machine's speed cancels.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.queueing.mg1 import simulate_waits
from netrepro.queueing.service import ConstantService, PiecewiseService

LOAD = 0.8
WEB_SEARCH = PiecewiseService(load_flow_sizes("web_search").points)


def core_mean_wait(jobs: int, seed: int) -> float:
    """Ours: sampling, recursion, batch means and histogram."""
    return simulate_waits(LOAD, ConstantService(1), jobs=jobs, seed=seed, warm_up_jobs=0).mean


def core_mean_wait_web_search(jobs: int, seed: int) -> float:
    """Ours with sizes from a distribution function."""
    return simulate_waits(LOAD, WEB_SEARCH, jobs=jobs, seed=seed, warm_up_jobs=0).mean


def simpy_mean_wait(jobs: int, seed: int) -> float:
    """A source process and one process a job, as in SimPy's own bank example."""
    import simpy

    random = np.random.default_rng(seed)
    environment = simpy.Environment()
    server = simpy.Resource(environment)
    waits = []

    def job():
        arrived = environment.now
        with server.request() as turn:
            yield turn
            waits.append(environment.now - arrived)
            yield environment.timeout(1)

    def source():
        for gap in random.exponential(1 / LOAD, jobs).tolist():
            yield environment.timeout(gap)
            environment.process(job())

    environment.process(source())
    environment.run()
    return float(np.mean(waits))


def numpy_mean_wait(jobs: int, seed: int) -> float:
    """Lindley's recursion without a loop: the walk S - A above its running minimum."""
    gaps = np.random.default_rng(seed).exponential(1 / LOAD, jobs)
    walk = np.concatenate([[0.0], np.cumsum(1 - gaps[1:])])
    return float(np.mean(walk + np.maximum.accumulate(-walk)))


def _jobs_per_second(simulate: Callable[[int, int], float], seconds: float) -> float:
    """Doubles the job count until a run takes long enough, and reports the best of three runs of that
    length.
    """
    jobs = 1000
    while True:
        started = time.perf_counter()
        simulate(jobs, 1)
        if time.perf_counter() - started > seconds / 2 or jobs >= 2**31:
            break
        jobs *= 2
    best = float("inf")
    for seed in (2, 3, 4):
        started = time.perf_counter()
        simulate(jobs, seed)
        best = min(best, time.perf_counter() - started)
    return jobs / best


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """Jobs a second: benchmark, ours_per_s, peer, peer_per_s, ratio; one row a benchmark."""
    seconds = 0.3 if quick else 1.0
    ours = _jobs_per_second(core_mean_wait, seconds)
    rows = [
        ("M/D/1, constant sizes", ours, "SimPy", _jobs_per_second(simpy_mean_wait, seconds)),
        ("M/D/1, constant sizes", ours, "numpy, vectorised", _jobs_per_second(numpy_mean_wait, seconds)),
        (
            "M/G/1, web-search sizes",
            _jobs_per_second(core_mean_wait_web_search, seconds),
            "ours with constant sizes",
            ours,
        ),
    ]
    for jobs in (10**5, 10**6, 10**7, *([] if quick else [10**8])):
        timed = []
        for simulate in (core_mean_wait, numpy_mean_wait):
            if simulate is numpy_mean_wait and jobs > 10**7:
                timed.append(float("nan"))  # three arrays of 800 MB each
                continue
            started = time.perf_counter()
            simulate(jobs, 1)
            timed.append(jobs / (time.perf_counter() - started))
        rows.append((f"M/D/1, {jobs:.0e} jobs", timed[0], "numpy, vectorised", timed[1]))
    table = pd.DataFrame(rows, columns=["benchmark", "ours_per_s", "peer", "peer_per_s"])
    table = table.assign(ratio=table.ours_per_s / table.peer_per_s)
    return {"jobs a second": table.set_index("benchmark")}
