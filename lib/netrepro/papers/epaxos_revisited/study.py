"""EPaxos Revisited: Tollman, Park and Ousterhout, NSDI 2021, Fig. 7.

EPaxos or Multi-Paxos orders the commands of a key-value store at five sites of a wide-area network. Which answers
sooner, in the mean and at the 99th percentile, when some keys are popular and some commands write? Protocols run
message by message in virtual time. The setting gives delays, the load and a message's processor time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any

import pandas as pd

from netrepro.papers.epaxos_revisited import figures
from netrepro.papers.epaxos_revisited.readings import measure_all, ratios, relative, settled, summary_of
from netrepro.papers.epaxos_revisited.setting import (
    CLASS_REGIONS,
    CLOCKS_APART_MS,
    GRID,
    HOTTEST,
    IDLE,
    LEADER,
    LIGHT,
    LONGEST_ROUND_TRIP_MS,
    MULTI,
    MULTI_FAR,
    MULTI_PAXOS,
    PROCESSES,
    REGIONS,
    SCHEMES,
    SKEWS_AS_RELEASED,
    SKEWS_OF_THE_CLASS,
    TOQ_CELLS,
    WRITES_AS_RELEASED,
    WRITES_OF_THE_CLASS,
    Setting,
    demand,
    deployment,
)
from netrepro.simulation.replication import simulate_replication
from netrepro.study import (
    BESIDE,
    VIRTUAL,
    Evidence,
    Knob,
    Play,
    Progress,
    Runs,
    Scale,
    Study,
    seed_and_repetition,
    swept,
)
from netrepro.study.evidence import least_first
from netrepro.study.measuring import in_parallel

Cell = tuple[float, float]
# The cells of each profile include the cell of every case.
QUICK = tuple(product((0.5, 0.8, 0.9, 0.99), (0.1, 0.3, 0.5, 1.0)))
BOTH = (*product(SKEWS_AS_RELEASED, WRITES_AS_RELEASED), *product(SKEWS_OF_THE_CLASS, WRITES_OF_THE_CLASS))
SMALL = ((0.5, 0.3), (0.9, 0.3), (0.9, 0.5), (0.9, 1.0), *TOQ_CELLS)
AT_HOTTEST: dict[str, Any] = {"theta": HOTTEST[0], "writes": HOTTEST[1]}
AT_TOQ = {"theta": swept(*dict(TOQ_CELLS)), "writes": lambda setting: dict(TOQ_CELLS)[setting.theta]}
APART: dict[str, Any] = {"clock_error_ms": CLOCKS_APART_MS}
# Not as the released programs: clients notice answers, and replicas commands that can be executed, at once.
AT_ONCE: dict[str, Any] = {"looks_at_arrivals": False, "execution_interval_ms": 0.0}
IDLE_LOAD: dict[str, Any] = AT_ONCE | {
    "kind": IDLE,
    "clients_per_region": 1,
    "cap": 1,
    "arrival_ms": 50.0,
    "message_cost_us": 0.0,
    "jitter_ms": 0.0,
}
# Each message of a real process costs real time.
LIGHT_LOAD: dict[str, Any] = AT_ONCE | {"kind": LIGHT, "cap": 2, "jitter_ms": 0.0}
CASES: dict[str, dict[str, Any]] = {
    GRID: {
        "theta": swept(*sorted({theta for theta, _ in (*QUICK, *BOTH, *SMALL)})),
        "writes": swept(*sorted({writes for _, writes in (*QUICK, *BOTH, *SMALL)})),
    },
    MULTI: MULTI_PAXOS,
    MULTI_FAR: SCHEMES[MULTI_FAR],
    "own keys": {"own_keys": True, "writes": 1.0},
    "own keys, no chain fix": {"own_keys": True, "writes": 1.0, "chain_fix": False},
    "no fast path": {"fast_path": False},
    "no chain fix": AT_HOTTEST | {"chain_fix": False},
    **{f"TOQ {toq}": AT_TOQ | {"toq": toq} for toq in ("quorum", "union")},
    **{f"TOQ {toq}, clocks apart": AT_TOQ | APART | {"toq": toq} for toq in ("quorum", "union")},
    **{f"{IDLE}, {name}": IDLE_LOAD | changes for name, changes in SCHEMES.items()},
    **{f"{LIGHT}, {name}": LIGHT_LOAD | changes for name, changes in PROCESSES.items()},
}
ONCE = {name: 1 for name in CASES if name.startswith((IDLE, LIGHT))}


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting; "" where it can."""
    if tier != VIRTUAL or setting.kind != GRID:
        return ""
    return "the claims want more load than real processes bear here"


# Claims.


def hottest(values: pd.Series | float) -> float:
    """Return the value at the cell of most conflicts; a single number is returned as it is."""
    return float(values.loc[HOTTEST]) if isinstance(values, pd.Series) else float(values)


def _commits(rows: pd.DataFrame) -> list[list[float]]:
    """Return the median time until commit (ms) by region, at theta 0.9 with half writes."""
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
    """Simulate what the class ran: three replicas (OR, EU, VA), a closed loop, clients of one region or of all three;
    and five regions whose clients have no cap.

    Returns case, protocol, region, mean_ms, p99_ms, conflicts, per_second, busiest (share of a processor).
    """
    seconds, setting = STUDY.scale(profile).seconds, STUDY.scaled(setting, profile)
    closed = replace(
        setting, cap=1, arrival_ms=1.0, looks_at_arrivals=False, leader="OR", chain_fix=False, **AT_HOTTEST
    )
    uncapped = replace(setting, cap=10**6, theta=0.5, writes=0.2)
    clients = {region: (region,) * setting.clients_per_region for region in CLASS_REGIONS}
    loads: list[tuple[str, Setting, Sequence[str], Sequence[str] | None]] = [
        *(("one region at a time", closed, CLASS_REGIONS, own) for own in clients.values()),
        ("all three at once", closed, CLASS_REGIONS, tuple(chain(*clients.values()))),
        ("five regions, no cap", uncapped, REGIONS, None),
    ]

    def run_one(protocol: str, case: str, load: Setting, regions: Sequence[str], who: Sequence[str] | None) -> Any:
        own = replace(load, protocol=protocol)
        wanted = demand(own, own.settle_s + seconds, seed, who)
        run = simulate_replication(deployment(own, seed, regions), wanted, seed)
        rows = summary_of(settled(run, own.settle_s), seconds).drop("all").reset_index()
        return rows.assign(case=case, protocol=protocol, busiest=run.busy_share.max())

    work = [(protocol, *load) for protocol in ("epaxos", "multi-paxos") for load in loads]
    table = pd.concat(in_parallel(run_one, work, progress=progress)).set_index(["case", "protocol", "region"])
    return table[["mean_ms", "p99_ms", "conflicts", "per_second", "busiest"]]


# The study.


def _is_in(cells: Collection[Cell], setting: Setting) -> bool:
    return (setting.theta, setting.writes) in cells


def _scale(seconds: float, settle_s: float, cells: Sequence[Cell], **changes: float) -> Scale:
    return Scale(seconds, changes={"settle_s": settle_s} | changes, where=partial(_is_in, frozenset(cells)), fewer=ONCE)


SCALES_OF_KNOBS = {
    "quick": Scale(1.4, changes={"settle_s": 0.8}),
    "paper": Scale(60.0, changes={"settle_s": 20.0}),
    "test": Scale(1.4),
}
APART_MS = swept(0.0, 3.0, 10.0, 30.0, 100.0)

STUDY = Study(
    slug="epaxos_revisited",
    setting=Setting(),
    cases=CASES,
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales={
        # A quarter of a second of the light load: a process's message costs real time, and the longest round trip is
        # 220 ms.
        "quick": _scale(2.0, 1.0, QUICK, light_s=0.75),
        "paper": _scale(60.0, 20.0, BOTH),
        "test": _scale(1.4, 0.8, SMALL),
        ("quick", VIRTUAL): _scale(2.0, 1.0, SMALL, light_s=2.5),
        ("paper", VIRTUAL): _scale(60.0, 20.0, BOTH, light_s=2.5),
        ("quick", BESIDE): _scale(2.0, 1.0, QUICK, light_s=0.75),
        ("paper", BESIDE): _scale(60.0, 20.0, BOTH),
    },
    claims=CLAIMS,
    knobs={
        "leader": Knob(
            {MULTI: MULTI_PAXOS | {"leader": swept(*REGIONS)}, GRID: {"theta": 0.9, "writes": 0.5}}, SCALES_OF_KNOBS
        ),
        "clocks": Knob(
            {f"TOQ {toq}": AT_HOTTEST | {"toq": toq, "clock_error_ms": APART_MS} for toq in ("quorum", "union")}
            | {GRID: AT_HOTTEST},
            SCALES_OF_KNOBS,
        ),
        "programs": Knob(
            {
                name: AT_HOTTEST | changes | {"toq": swept("none", "quorum")}
                for name, changes in {"as released": {}, "at once": AT_ONCE}.items()
            },
            SCALES_OF_KNOBS,
        ),
    },
    figures={
        "least_latency": figures.draw_minima,
        "heat_maps_fig7": figures.draw_heat_maps,
        "toq": figures.draw_toq,
        "processes": figures.draw_processes,
        "control": figures.draw_control,
        "knob_leader": figures.draw_leader,
        "knob_clocks": figures.draw_clocks,
    },
    best=("least_latency", "heat_maps_fig7", "toq"),
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
