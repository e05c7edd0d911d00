"""What is read of a run of the store, simulated or of real processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from netrepro.applications.replicas.run import run_replication
from netrepro.papers.epaxos_revisited.setting import GRID, IDLE, LIGHT, REGIONS, Setting, demand, deployment
from netrepro.protocols.linearizability import violations
from netrepro.simulation.replication import Demand, Deployment, ReplicatedRun, simulate_replication
from netrepro.study import SIMULATED, VIRTUAL, Check, OneRun, Progress, Reading, Runs, in_parallel, seed_of

MULTI, MULTI_FAR = "Multi-Paxos", "Multi-Paxos from EU"
SHOWN_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9)
LIGHT_SETTLES_S = 0.5
IDLE_S = {SIMULATED: 3.0, VIRTUAL: 1.0}
SAME_MS = 0.1


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read runs in the simulator, or of real processes, which two kernels share: those without load and the first
    loaded ones, and the others."""
    if runs[0].tier == SIMULATED:
        return in_parallel(_simulated, [(each,) for each in runs], progress=progress)
    light = [each for each in runs if each.setting.kind == LIGHT]
    halves = [[each for each in runs if each not in light[2:]], light[2:]]
    found = in_parallel(_of_processes, [(half,) for half in halves if half], progress=progress)
    readings = {run: reading for half in found for run, reading in half.items()}
    return [readings[each] for each in runs]


def _simulated(run: OneRun) -> Reading:
    (where, wanted), (seed, repetition) = case_of(run), run.seed
    own = seed_of(seed, repetition) if run.setting.kind == GRID else 1
    return read(simulate_replication(where, wanted, own), run)


def _of_processes(runs: Sequence[OneRun]) -> dict[OneRun, Reading]:
    found = run_replication({str(place): case_of(each) for place, each in enumerate(runs)})
    return {each: read(found[str(place)], each) for place, each in enumerate(runs)}


def case_of(run: OneRun) -> tuple[Deployment, Demand]:
    """Return the replicas of a run, and what is wanted of them. All light runs of a seed want the same, idle ones
    always."""
    setting, (seed, repetition) = run.setting, run.seed
    own = {GRID: seed_of(seed, repetition), LIGHT: seed, IDLE: 1}[setting.kind]
    stop_s = {GRID: setting.settle_s + run.seconds, LIGHT: setting.light_s, IDLE: IDLE_S.get(run.tier, 0.0)}
    return deployment(setting, own), demand(setting, stop_s[setting.kind], own)


def read(found: ReplicatedRun, run: OneRun) -> Reading:
    """Read what clients waited for, by region and of all: mean, 99th percentile and greatest (ms, execution), the
    median until commit, conflicts (share of commands on the slow path), commands per second.

    Tables: the same by region, with the least latency and the possible one; percentiles by region; how busy processors
    were; and of a light load every command.
    """
    setting = run.setting
    settle_s = {GRID: setting.settle_s, LIGHT: LIGHT_SETTLES_S, IDLE: 0.0}[setting.kind]
    after = settled(found, settle_s)
    regions = summary_of(after, run.seconds).set_index("region")
    least_ms = pd.Series(deployment(setting, 1).minimum_ms(), REGIONS)
    of_all, regions = regions.loc["all"], regions.drop("all").assign(must_ms=least_ms)
    tails = after.groupby("region")["ms"].quantile(np.array(SHOWN_PERCENTILES) / 100).rename_axis(["region", "share"])
    tails = tails.reset_index().assign(percentile=lambda rows: rows.share * 100).drop(columns="share")
    tables = {
        "regions": regions.rename_axis("region").reset_index(),
        "tails": tails,
        "processors": pd.DataFrame({"region": REGIONS, "busy_share": found.busy_share}),
    }
    if setting.kind == LIGHT:
        tables["commands"] = after[["command", "region", "ms", "commit_ms", "is_fast"]]
    checked = after if run.tier == SIMULATED else settled(found, 0.0)
    return Reading(dict(of_all.drop("least_ms")), tables, checks_of(found, setting, checked))


def settled(run: ReplicatedRun, settle_s: float) -> pd.DataFrame:
    """Return commands sent after settling, with ms (execution) and commit_ms (at the replica that leads)."""
    rows = run.commands[run.commands.sent_s >= settle_s]
    ms, commit_ms = 1e3 * (rows.answered_s - rows.sent_s), 1e3 * (rows.committed_s - rows.sent_s)
    return rows.assign(ms=ms, commit_ms=commit_ms)


def summary_of(after: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return the latencies by region and of all: what `read` says, and the least (ms)."""
    parts = [*after.groupby("region", sort=False), ("all", after)]
    return pd.DataFrame(
        [
            {
                "region": region,
                "mean_ms": rows.ms.mean(),
                "p99_ms": rows.ms.quantile(0.99),
                "most_ms": rows.ms.max(),
                "least_ms": rows.ms.min(),
                "commit_ms": rows.commit_ms.median(),
                "conflicts": 1 - rows.is_fast.mean(),
                "per_second": len(rows) / seconds,
            }
            for region, rows in parts
        ]
    )


def checks_of(run: ReplicatedRun, setting: Setting, after: pd.DataFrame) -> list[Check]:
    """Check the order of writes, what clients saw, the load, and that nobody was answered sooner than can be."""
    least = pd.Series(deployment(setting, 1).minimum_ms(), REGIONS)
    # Clocks that are apart may let a command be looked at too early, but never answer before the quorum can.
    short = (after.groupby("region")["ms"].min() / least.reindex(after.region.unique())).min() if len(after) else 1.0
    return [
        Check("keys with another order of writes somewhere", run.unlike_keys, at_most=0),
        Check("commands not executed everywhere in the end", run.unexecuted, at_most=0),
        Check("keys that are not linearizable", len(violations(run.commands)), at_most=0),
        Check("busiest processor (share)", run.busy_share.max(), at_most=0.95),
        Check("least latency over the possible", 1.0 if setting.clock_error_ms else short, at_least=1 - 1e-9),
    ]


def relative(rows: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Divide regions' mean and p99 by those of another case, with the conflicts, and theta and writes where they
    are."""
    found = rows.merge(base[["region", "mean_ms", "p99_ms"]], on="region", suffixes=("", "_base"))
    ratios = {"mean": found.mean_ms / found.mean_ms_base, "p99": found.p99_ms / found.p99_ms_base}
    columns = [name for name in ("theta", "writes", "region", "conflicts") if name in found]
    return found[columns].assign(**ratios)


def ratios(runs: Runs, against: str = MULTI) -> pd.DataFrame:
    """Divide EPaxos by Multi-Paxos for each cell, repetition and region: theta, writes, mean, p99, and conflicts."""
    ours, theirs = (runs.reading("regions", case, SIMULATED) for case in (GRID, against))
    return pd.concat([relative(ours[each], theirs[each]).assign(repetition=each) for each in ours], ignore_index=True)


def process_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each light case and tier: commands, mean_ms, p99_ms, conflicts (%); within: share of commands
    (%) that take as long on both tiers, to SAME_MS. Empty without real processes."""
    rows = []
    for name in [case for case in runs.study.cases if runs.has(case, tier=VIRTUAL) and case.startswith(LIGHT)]:
        tiers = {tier: runs.table("commands", name, tier).set_index("command") for tier in (SIMULATED, VIRTUAL)}
        apart = (tiers[VIRTUAL].ms - tiers[SIMULATED].ms).abs()
        within = 100 * (apart < SAME_MS).mean()
        for tier, found in tiers.items():
            numbers = (len(found), found.ms.mean(), found.ms.quantile(0.99), 100 * (1 - found.is_fast.mean()))
            rows.append((name, tier, *numbers, within))
    names = ["case", "tier", "commands", "mean_ms", "p99_ms", "conflicts", "within"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])
