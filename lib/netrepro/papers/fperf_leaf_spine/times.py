"""How long the solver takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit  # scipy.stats costs two seconds to import

from netrepro.errors import NetreproError
from netrepro.papers.fperf_leaf_spine.query import throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import Size, size_name
from netrepro.paths import data_dir
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import base_example
from netrepro.verification.leaf_spine import base_workload, leaf_spine, throughput_query
from netrepro.verification.parsing import parse_workload
from netrepro.verification.search import Search

Clock = Callable[[], float]

TIME_COLUMNS = ["size", "hosts", "horizon_steps", "seed", "task", "cpu_s", "status"]
NO_SEARCH = 2  # time steps in which no packet can have arrived, since a packet takes three


def timed_tasks(
    size: Size,
    horizon: int,
    seed: int,
    *,
    with_search: bool,
    timeout_s: float | None = None,
    clock: Clock = process_time,
) -> pd.DataFrame:
    """Time each task on one network, a row each (see `TIME_COLUMNS`). clock : returns CPU seconds.

    "satisfy" includes building and loading the formula. "base example" includes "satisfy", which it continues, and
    "search" includes building the formula again. "verify" is a whole `Analysis.verify` on a loaded formula. A question
    that takes longer than `timeout_s` ends with status "unknown"; after "satisfy" or "base example" no further task is
    timed.
    """
    rows: list[tuple[Any, ...]] = []

    def note(task: str, seconds: float, status: str) -> None:
        rows.append((size_name(size), size[2], horizon, seed, task, seconds, status))

    start = clock()
    analysis = throughput_analysis(size, horizon, seed=seed, shuffle=seed, backend="z3", timeout_s=timeout_s)
    status = analysis.satisfy_query().status
    satisfied_s = clock() - start
    note("satisfy", satisfied_s, status)
    if status != "unknown":
        start = clock()
        status = analysis.verify(parse_workload(f"[1,{horizon}]: ecmp(host1,t) <= 0")).status
        note("verify", clock() - start, status)
        start = clock()
        try:
            base = base_example(analysis, on_copy=False)
        except NetreproError:  # no example in time: `satisfy` has shown that there is one
            note("base example", satisfied_s + clock() - start, "unknown")
            return pd.DataFrame(rows, columns=TIME_COLUMNS)
        note("base example", satisfied_s + clock() - start, "optimal" if base.is_optimal else "unknown")
        if with_search:
            start = clock()
            result = Search(analysis.copy(), seed=seed, starts=0, base=base).run()
            note("search", clock() - start, result.status)
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


def timed_queues(size: Size, horizon: int, seed: int, capacity: int) -> pd.DataFrame:
    """Time the negative control of growth: the same network with a host queue longer than the horizon needs.

    The question does not grow, so the time must not either. Columns are TIME_COLUMNS; `hosts` stays the same.
    """
    spines, leaves, hosts = size
    start = process_time()
    point = leaf_spine(spines, leaves, hosts // leaves, horizon, queue_capacity=capacity)
    query, base = throughput_query(point, hosts - 1), base_workload(point, hosts - 1)
    example = base_example(Analysis(point, query, base, seed=seed, shuffle=seed))
    status = "optimal" if example.is_optimal else "unknown"
    row = (size_name(size), hosts, horizon, seed, "base example", process_time() - start, status)
    return pd.DataFrame([row], columns=TIME_COLUMNS)


def known_times(times: pd.DataFrame) -> pd.DataFrame:
    """Leave out the rows that a time limit ended."""
    return times[times["status"] != "unknown"]


def fit_growth(times: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Fit CPU seconds over hosts by an exponential for each task, and by a power for comparison.

    Columns: task, factor_per_host with its interval (low, high; t distribution on log seconds), intercept_s, r_squared
    of the exponential, r_squared_power and power of hosts ** power. Both are judged on seconds: few sizes do not tell
    them apart. Time-outs and tasks with fewer than three sizes are left out.
    """
    rows = []
    for task, group in known_times(times).groupby("task"):
        if group["hosts"].nunique() < 3:
            continue
        hosts, seconds = group["hosts"].to_numpy(float), group["cpu_s"].to_numpy(float)
        (slope, intercept), covariance = np.polyfit(hosts, np.log(seconds), 1, cov=True)
        reach = stdtrit(len(hosts) - 2, (1 + confidence) / 2) * np.sqrt(covariance[0, 0])
        power = np.polyfit(np.log(hosts), np.log(seconds), 1)
        curves = np.exp([intercept + slope * hosts, np.polyval(power, np.log(hosts))])
        explained = 1 - ((seconds - curves) ** 2).sum(axis=1) / ((seconds - seconds.mean()) ** 2).sum()
        factors = np.exp([slope, slope - reach, slope + reach, intercept])
        rows.append((task, *factors, *explained, power[0]))
    columns = ["task", "factor_per_host", "low", "high", "intercept_s", "r_squared", "r_squared_power", "power"]
    return pd.DataFrame(rows, columns=columns)


def is_exponential(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return 1.0 if the time grows by at least half and an exponential fits better than a line, else 0.0.

    Both are least-squares fits with two parameters, the exponential's on log seconds; the better is judged on seconds.
    """
    at, ours = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    line = np.polyval(np.polyfit(at, ours, 1), at)
    curve = np.exp(np.polyval(np.polyfit(at, np.log(ours), 1), at))
    return float(((ours - curve) ** 2).sum() < ((ours - line) ** 2).sum() and ours[-1] >= 1.5 * ours[0])


def original_times() -> pd.DataFrame:
    """Read the original program's CPU seconds, recorded once on another machine (see SOURCES.md). They give an order of
    magnitude.

    Columns size, horizon_steps, task, cpu_s, seeds.
    """
    return pd.read_csv(data_dir("fperf_leaf_spine") / "original_times.csv")


def solver_work(size: Size, horizon: int, seeds: Sequence[int]) -> pd.DataFrame:
    """Count z3's steps on "satisfy" of one formula under harmless changes, as Mariposa makes them (FMCAD 2023).

    Columns: horizon_steps, mutation ("none", twice; "reseeded"; "shuffled": parts in another order, variables renamed),
    seed, solver_steps (`Analysis.solver_steps`), status. Unlike seconds, steps repeat exactly, so that differences come
    from the change and not from a busy machine.
    """
    changes: list[tuple[str, int, dict[str, int]]] = [("none", run, {}) for run in range(2)]
    for seed in seeds:
        changes += [("reseeded", seed, {"seed": seed}), ("shuffled", seed, {"shuffle": seed})]
    rows = []
    for mutation, seed, options in changes:
        analysis = throughput_analysis(size, horizon, backend="z3", **options)
        status = analysis.ask(query=True, with_trace=False).status
        rows.append((horizon, mutation, seed, analysis.solver_steps, status))
    return pd.DataFrame(rows, columns=["horizon_steps", "mutation", "seed", "solver_steps", "status"])


def spread_summary(spread: pd.DataFrame, averaged: int = 5, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Summarise each horizon and mutation: median_steps, most_to_least, typical_difference (the median of |steps /
    median - 1|), averages_differ (the greatest difference between two averages of `averaged` runs in 19 of 20 draws
    from these runs).

    seed : for the draws.
    """
    dice, rows = np.random.default_rng(seed), []
    for (horizon, mutation), group in spread.groupby(["horizon_steps", "mutation"], sort=False):
        steps = group["solver_steps"].to_numpy(float)
        typical = float(np.median(np.abs(steps / np.median(steps) - 1)))
        ours, theirs = dice.choice(steps, (2, draws, averaged)).mean(axis=2)
        differ = float(np.quantile(np.abs(ours / theirs - 1), 0.95))
        rows.append((horizon, mutation, np.median(steps), steps.max() / steps.min(), typical, differ))
    columns = ["horizon_steps", "mutation", "median_steps", "most_to_least", "typical_difference", "averages_differ"]
    return pd.DataFrame(rows, columns=columns)
