"""One simulation on several cores against the same on one: times by the clock on the wall, so let nothing else run."""

from __future__ import annotations

import os
import time

import pandas as pd

from benchmarks.bench_simulation import fat_tree_experiment
from netrepro.networks import Experiment
from netrepro.simulation.simulate import EVENTS_AT_A_TIME, build, build_parallel

TIMES = 5


def seconds(experiment: Experiment, cores: int | None) -> float:
    """What a run takes, without building its simulator."""
    simulator = build(experiment) if cores is None else build_parallel(experiment, cores)
    started = time.perf_counter()
    while not simulator.run(EVENTS_AT_A_TIME):
        pass
    return time.perf_counter() - started


def run(quick: bool = True) -> pd.DataFrame:
    """Tabulate the best of TIMES runs, in turn: cores (None: as ever), seconds and the ratio to cores = 1."""
    experiment = fat_tree_experiment(8, 0.05 if quick else 0.2)
    kinds = [None, *(cores for cores in (1, 2, 4) if cores <= (os.cpu_count() or 1))]
    times = pd.DataFrame([[seconds(experiment, cores) for cores in kinds] for _ in range(TIMES)], columns=kinds).min()
    return pd.DataFrame(
        {"benchmark": "fat-tree k = 8", "cores": map(str, kinds), "seconds": times, "ratio": times[1] / times}
    ).reset_index(drop=True)
