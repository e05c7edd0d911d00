"""EPaxos Revisited: Tollman, Park and Ousterhout, NSDI 2021, Fig. 7.

A key-value store at five sites of a wide-area network, ordered by EPaxos or by Multi-Paxos. Which answers sooner, in
the mean and at the 99th percentile, when some keys are popular and some commands write? Protocols run message by
message in virtual time; delays, the load and a processor's cost of a message are the setting.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.zipf import gray_ranks, zeta
from netrepro.papers.epaxos_revisited import figures
from netrepro.papers.epaxos_revisited.readings import (
    MULTI,
    MULTI_FAR,
    measure_all,
    ratios,
    relative,
    settled,
    summary_of,
)
from netrepro.papers.epaxos_revisited.setting import (
    CLASS_REGIONS,
    CLOCKS_APART_MS,
    GRID,
    HOTTEST,
    IDLE,
    LEADER,
    LIGHT,
    LONGEST_ROUND_TRIP_MS,
    OTHER_LEADER,
    REGIONS,
    SKEWS_AS_RELEASED,
    SKEWS_OF_THE_CLASS,
    TOQ_CELLS,
    WRITES_AS_RELEASED,
    WRITES_OF_THE_CLASS,
    Setting,
    demand,
    deployment,
    grid,
)
from netrepro.simulation.replication import simulate_replication
from netrepro.study import SIMULATED, VIRTUAL, Evidence, Play, Progress, Runs, Scale, Study, each, seed_and_repetition
from netrepro.study.evidence import least_first
from netrepro.study.measuring import in_parallel

SLUG = "epaxos_revisited"
Cell = tuple[float, float]
# Every case's own cell is among a profile's.
QUICK = grid((0.5, 0.8, 0.9, 0.99), (0.1, 0.3, 0.5, 1.0))
BOTH = (*grid(SKEWS_AS_RELEASED, WRITES_AS_RELEASED), *grid(SKEWS_OF_THE_CLASS, WRITES_OF_THE_CLASS))
SMALL = ((0.5, 0.3), (0.9, 0.3), (0.9, 0.5), (0.9, 1.0), *TOQ_CELLS)
AT_HOTTEST = {"theta": HOTTEST[0], "writes": HOTTEST[1]}
AT_TOQ = {"theta": each(*dict(TOQ_CELLS)), "writes": lambda setting: dict(TOQ_CELLS)[setting.theta]}
APART: dict[str, Any] = {"clock_error_ms": CLOCKS_APART_MS}
MULTI_PAXOS: dict[str, Any] = {"protocol": "multi-paxos"}
IDLE_LOAD: dict[str, Any] = {
    "kind": IDLE,
    "clients_per_region": 1,
    "cap": 1,
    "arrival_ms": 50.0,
    "message_cost_us": 0.0,
    "jitter_ms": 0.0,
}
# A message of a real process costs real time.
LIGHT_LOAD: dict[str, Any] = {"kind": LIGHT, "cap": 2, "jitter_ms": 0.0}
CASES: dict[str, dict[str, Any]] = {
    GRID: {
        "theta": each(*sorted({theta for theta, _ in (*QUICK, *BOTH, *SMALL)})),
        "writes": each(*sorted({writes for _, writes in (*QUICK, *BOTH, *SMALL)})),
    },
    MULTI: MULTI_PAXOS,
    MULTI_FAR: MULTI_PAXOS | {"leader": OTHER_LEADER},
    "own keys": {"own_keys": True, "writes": 1.0},
    "own keys, no chain fix": {"own_keys": True, "writes": 1.0, "chain_fix": False},
    "no fast path": {"fast_path": False},
    "no chain fix": AT_HOTTEST | {"chain_fix": False},
    **{f"TOQ {toq}": AT_TOQ | {"toq": toq} for toq in ("quorum", "union")},
    **{f"TOQ {toq}, clocks apart": AT_TOQ | APART | {"toq": toq} for toq in ("quorum", "union")},
    **{f"{IDLE}, {name}": IDLE_LOAD | changes for name, changes in figures.SCHEMES.items()},
    **{f"{LIGHT}, {name}": LIGHT_LOAD | changes for name, changes in figures.PROCESSES.items()},
}
ONCE = {name: 1 for name in CASES if name.startswith((IDLE, LIGHT))}


def cannot(setting: Setting, tier: str) -> str:
    """Say in words what a tier cannot run of a setting; "" for nothing."""
    if tier != VIRTUAL or setting.kind != GRID:
        return ""
    return "the claims want more load than real processes bear here"


# Claims.


def hottest(values: pd.Series | float) -> float:
    """Return the value at the cell of most conflicts, or of a case that has no other."""
    return float(values.loc[HOTTEST]) if isinstance(values, pd.Series) else float(values)


def _commits(rows: pd.DataFrame) -> list[list[float]]:
    """Return the median until commit by region, at theta 0.9 with half writes."""
    if "theta" in rows:
        rows = rows[(rows.theta == 0.9) & (rows.writes == 0.5)]
    by_region = rows.set_index("region").commit_ms
    return [[place, by_region[region]] for place, region in enumerate(REGIONS, start=1)]


def _usual(rows: pd.DataFrame, base: pd.DataFrame) -> list[str]:
    lower = [MULTI, "EPaxos"]
    return lower if (relative(rows, base).p99 > 1).mean() > 0.5 else lower[::-1]


def _needs_few(rows: pd.DataFrame, base: pd.DataFrame) -> float:
    table = relative(rows, base)
    return float((table[table.conflicts >= 0.01].p99 < 1).mean())


def _mean_order(rows: pd.DataFrame, base: pd.DataFrame) -> list[str]:
    """Order the three names of the claim by relative mean latency, least first."""
    by_region = relative(rows, base).groupby("region")["mean"].mean()
    values = {"EPaxos elsewhere": by_region.drop(LEADER).max(), MULTI: 1.0, "EPaxos in CA": by_region[LEADER]}
    return sorted(values, key=lambda name: values[name])


def _toq_conflicts(held: pd.Series, plain: pd.Series) -> float:
    return float(max(held[theta] / plain[theta, writes] for theta, writes in TOQ_CELLS))


def _toq_mean(held: pd.DataFrame, plain: pd.DataFrame) -> float:
    gains = []
    for theta, writes in TOQ_CELLS:
        ours, theirs = (rows[rows.theta == theta] for rows in (held, plain))
        gains.append(ours.mean_ms.sum() / theirs[theirs.writes == writes].mean_ms.sum())
    return float(min(gains))


AGAINST, FAR, OWN = (GRID, MULTI), (GRID, MULTI_FAR), ("own keys", MULTI)
CLAIMS = {
    "median-commit": Evidence("regions", GRID, control="no fast path", how=_commits),
    "tail-four-times": Evidence(
        "regions", AGAINST, control=OWN, how=lambda rows, base: float(relative(rows, base).p99.max())
    ),
    "mean-better-but-at-the-leader": Evidence("regions", AGAINST, control=FAR, how=_mean_order),
    "tail-usually-worse": Evidence("regions", AGAINST, control=OWN, how=_usual),
    "tail-needs-few-conflicts": Evidence("regions", AGAINST, control=FAR, how=_needs_few),
    "chain-fix": Evidence(
        "p99_ms",
        (GRID, "no chain fix"),
        control=("own keys", "own keys, no chain fix"),
        how=lambda fixed, not_fixed: least_first("with the fix", "without")(hottest(fixed), hottest(not_fixed)),
    ),
    "three-round-trips": Evidence(
        "most_ms", GRID, control="no chain fix", how=lambda most_ms: hottest(most_ms) / LONGEST_ROUND_TRIP_MS
    ),
    "toq-conflicts": Evidence(
        "conflicts", ("TOQ quorum", GRID), control=("TOQ quorum, clocks apart", GRID), how=_toq_conflicts
    ),
    "toq-union-conflicts": Evidence(
        "conflicts", ("TOQ union", GRID), control=("TOQ union, clocks apart", GRID), how=_toq_conflicts
    ),
    "toq-mean": Evidence("regions", ("TOQ quorum", GRID), control=("TOQ quorum, clocks apart", GRID), how=_toq_mean),
}


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = ratios(runs)
    means = table.groupby("region")["mean"].mean()
    worst = table.loc[table.p99.idxmax()]
    return runs.beside + (
        f"Without a leader the mean is {100 * (1 - means.drop(LEADER).mean()):.0f} % lower outside the leader's region "
        f"(mean over the grid), but the 99th percentile is worse in {100 * (table.p99 > 1).mean():.0f} % of cells and "
        f"regions, up to {worst.p99:.1f} times in {worst.region} at theta {worst.theta:g} with "
        f"{100 * worst.writes:.0f} % writes."
    )


# What the class ran.


def class_cases(setting: Setting, profile: str, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Return three replicas (OR, EU, VA), a closed loop, clients of one region or of all three; and clients without a
    cap.

    Returns case, protocol, region, mean_ms, p99_ms, conflicts, per_second, busiest (share of a processor).
    """
    scale = STUDY.scale(profile)
    setting = STUDY.scaled(setting, profile)
    closed = replace(setting, cap=1, arrival_ms=1.0)
    uncapped = replace(setting, cap=10**6)
    count = setting.clients_per_region
    work: list[tuple] = []
    for protocol in ("epaxos", "multi-paxos"):
        case = AT_HOTTEST | {"protocol": protocol, "leader": "OR", "chain_fix": False}
        work += [("one region at a time", case, closed, CLASS_REGIONS, (region,) * count) for region in CLASS_REGIONS]
        work += [("all three at once", case, closed, CLASS_REGIONS, tuple(np.repeat(CLASS_REGIONS, count)))]
        work += [("five regions, no cap", {"protocol": protocol, "theta": 0.5, "writes": 0.2}, uncapped, REGIONS, None)]

    def run_one(label: str, case: dict[str, Any], load: Setting, regions: Sequence[str], clients: Any) -> pd.DataFrame:
        own = replace(load, **case)
        wanted = demand(own, own.settle_s + scale.seconds, seed, clients)
        run = simulate_replication(deployment(own, seed, regions), wanted, seed)
        found = summary_of(settled(run, own.settle_s), scale.seconds).query("region != 'all'")
        columns = ["region", "mean_ms", "p99_ms", "conflicts", "per_second"]
        return found[columns].assign(case=label, protocol=own.protocol, busiest=run.busy_share.max())

    rows = in_parallel(run_one, work, progress=progress)
    return pd.concat(rows, ignore_index=True).set_index(["case", "protocol", "region"])


def hottest_key(theta: float, keys: int = 10**9) -> dict[str, float]:
    """Compute the share of commands (%) on the most popular key: by Zipf's law, and of the numbers that Gray's
    generator gives.

    At theta 1 the generator gives all but the two most popular commands the number `keys`, which is no key.
    """
    law = 100 / zeta(keys, theta)
    given = gray_ranks(np.random.default_rng(1).random(100_000), keys, theta)
    return {"law": law, "generator": 100 * float(np.unique(given, return_counts=True)[1].max()) / len(given)}


# Knobs.


def _of_all(runs: Runs, changes: dict[str, Any]) -> pd.Series:
    """Measure once, of all commands."""
    scale = runs.study.scale(runs.profile)
    own = replace(runs.study.scaled(runs.setting, runs.profile), **changes)
    stop_s = own.settle_s + scale.seconds
    run = simulate_replication(deployment(own, runs.seed), demand(own, stop_s, runs.seed), runs.seed)
    return summary_of(settled(run, own.settle_s), scale.seconds).set_index("region").loc["all"]


def turn_leader(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure Multi-Paxos led from each region, and EPaxos at theta 0.9 with half writes: scheme, mean_ms, p99_ms (of
    all)."""

    def run_one(leader: str) -> tuple:
        found = _of_all(runs, MULTI_PAXOS | {"leader": leader})
        return f"Multi-Paxos from {leader}", found.mean_ms, found.p99_ms

    rows = in_parallel(run_one, [(region,) for region in REGIONS], progress=progress)
    here = runs.summary(SIMULATED).loc[(GRID, 0.9, 0.5)]
    rows.append(("EPaxos", here.mean_ms, here.p99_ms))
    return pd.DataFrame(rows, columns=["scheme", "mean_ms", "p99_ms"])


def turn_clocks(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure TOQ over clocks that are up to so far apart, in the hottest cell: toq, apart_ms, conflicts, mean_ms,
    p99_ms."""

    def run_one(toq: str, apart_ms: float) -> tuple:
        found = _of_all(runs, AT_HOTTEST | {"toq": toq, "clock_error_ms": apart_ms})
        return toq, apart_ms, found.conflicts, found.mean_ms, found.p99_ms

    apart = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)
    work = [("none", 0.0), *((toq, apart_ms) for toq in ("quorum", "union") for apart_ms in apart)]
    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=["toq", "apart_ms", "conflicts", "mean_ms", "p99_ms"])


def _is_in(cells: Collection[Cell], setting: Setting) -> bool:
    return (setting.theta, setting.writes) in cells


def _scale(seconds: float, settle_s: float, cells: Sequence[Cell], **changes: float) -> Scale:
    return Scale(seconds, changes={"settle_s": settle_s} | changes, where=partial(_is_in, frozenset(cells)), fewer=ONCE)


STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases=CASES,
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    profiles={
        "quick": _scale(3.5, 1.0, QUICK),
        "paper": _scale(60.0, 20.0, BOTH),
        "test": _scale(1.4, 0.8, SMALL),
    },
    on_virtual={
        "quick": _scale(3.5, 1.0, SMALL, light_s=2.5),
        "paper": _scale(60.0, 20.0, BOTH, light_s=2.5),
    },
    also_on_virtual={"quick": _scale(3.5, 1.0, QUICK), "paper": _scale(60.0, 20.0, BOTH)},
    claims=CLAIMS,
    knobs={"leader": turn_leader, "clocks": turn_clocks},
    figures={
        "least_latency": figures.draw_minima,
        "heat_maps_fig7": figures.draw_heat_maps,
        "conflicts": figures.draw_conflicts,
        "tails": figures.draw_tails,
        "toq": figures.draw_toq,
        "processes": figures.draw_processes,
        "control": figures.draw_control,
        "knob_leader": figures.draw_leader,
        "knob_clocks": figures.draw_clocks,
    },
    best=("least_latency", "heat_maps_fig7", "conflicts", "control"),
    play=Play(
        (GRID, MULTI),
        {
            "theta": (0.5, 0.99, 0.01),
            "writes": (0.0, 1.0, 0.05),
            "toq": ["none", "quorum", "union", "all"],
            "leader": list(REGIONS),
        },
        figures.draw_run,
        2.0,
    ),
)
