"""Readings of a run of the store, simulated or of real processes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from netrepro.applications.replicas.run import run_replication
from netrepro.papers.epaxos_revisited.setting import GRID, IDLE, LIGHT, MULTI, REGIONS, Setting, demand, deployment
from netrepro.protocols.linearizability import violations
from netrepro.simulation.replication import Demand, Deployment, ReplicatedRun, simulate_replication
from netrepro.study import SIMULATED, VIRTUAL, Check, OneRun, Progress, Reading, Runs, in_parallel, seed_of

LIGHT_SETTLES_S = 0.5
IDLE_S = {SIMULATED: 3.0, VIRTUAL: 1.0}
ONE_KERNEL_S = 1.0  # of a light load at most
SAME_MS = 0.1


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read runs in the simulator, or of real processes. The latter share a kernel, as its start and that of ten
    programs cost as much as a light run. Where light runs are longer there are two, side by side: one runs all but the
    light runs and the first two of these, the other the remaining light ones."""
    if runs[0].tier == SIMULATED:
        return in_parallel(_simulated, [(each,) for each in runs], progress=progress)
    light = [each for each in runs if each.setting.kind == LIGHT]
    others = light[2:] if any(each.setting.light_s > ONE_KERNEL_S for each in light) else []
    halves = [[each for each in runs if each not in others], others]
    readings = in_parallel(_of_processes, [(half,) for half in halves if half], progress=progress)
    by_run = {run: reading for half in readings for run, reading in half.items()}
    return [by_run[each] for each in runs]


def _simulated(run: OneRun) -> Reading:
    own = seed_of(*run.seed) if run.setting.kind == GRID else 1
    return read(simulate_replication(*case_of(run), own), run)


def _of_processes(runs: Sequence[OneRun]) -> dict[OneRun, Reading]:
    replicated = run_replication({str(place): case_of(each) for place, each in enumerate(runs)})
    return {each: read(replicated[str(place)], each) for place, each in enumerate(runs)}


def case_of(run: OneRun) -> tuple[Deployment, Demand]:
    """Return a run's replicas and the commands that its clients want. All light runs of a seed want the same commands,
    and so do all idle runs of a tier."""
    setting, (seed, repetition) = run.setting, run.seed
    own, stop_s = {
        GRID: (seed_of(seed, repetition), setting.settle_s + run.seconds),
        LIGHT: (seed, setting.light_s),
        IDLE: (1, IDLE_S.get(run.tier, 0.0)),
    }[setting.kind]
    return deployment(setting, own), demand(setting, stop_s, own)


def read(run: ReplicatedRun, asked: OneRun) -> Reading:
    """Read the clients' latencies for all regions together: mean, 99th percentile and greatest until execution (ms),
    and median until commit (ms). Read also conflicts (share of commands on the slow path) and commands per second.

    Tables: the same for each region, with the least latency and the possible one; for a light load every command.
    """
    setting = asked.setting
    after = settled(run, {GRID: setting.settle_s, LIGHT: LIGHT_SETTLES_S, IDLE: 0.0}[setting.kind])
    summary = summary_of(after, asked.seconds)
    regions = summary.drop("all").assign(must_ms=least_ms(setting))
    tables = {"regions": regions.reset_index()}
    if setting.kind == LIGHT:
        tables["commands"] = after[["command", "region", "ms", "commit_ms", "is_fast"]]
    checked = after if asked.tier == SIMULATED else settled(run, 0.0)
    return Reading(dict(summary.loc["all"].drop("least_ms")), tables, checks_of(run, setting, checked))


def least_ms(setting: Setting) -> pd.Series:
    """Return the least possible latency (ms) by region."""
    return pd.Series(deployment(setting, 1).minimum_ms(), REGIONS)


def settled(run: ReplicatedRun, settle_s: float) -> pd.DataFrame:
    """Return commands sent from settle_s on, with ms (until execution) and commit_ms (at the replica that leads)."""
    rows = run.commands[run.commands.sent_s >= settle_s]
    ms, commit_ms = 1e3 * (rows.answered_s - rows.sent_s), 1e3 * (rows.committed_s - rows.sent_s)
    return rows.assign(ms=ms, commit_ms=commit_ms)


def summary_of(after: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return a row for each region and for all: the numbers of `read`, and the least latency (ms)."""
    parts = {**dict(list(after.groupby("region", sort=False))), "all": after}
    rows = {
        region: {
            "mean_ms": commands.ms.mean(),
            "p99_ms": commands.ms.quantile(0.99),
            "most_ms": commands.ms.max(),
            "least_ms": commands.ms.min(),
            "commit_ms": commands.commit_ms.median(),
            "conflicts": 1 - commands.is_fast.mean(),
            "per_second": len(commands) / seconds,
        }
        for region, commands in parts.items()
    }
    return pd.DataFrame.from_dict(rows, "index").rename_axis("region")


def checks_of(run: ReplicatedRun, setting: Setting, after: pd.DataFrame) -> list[Check]:
    """Check the order of writes, linearizability, the load, and that no answer came sooner than possible."""
    # Clocks that differ may let a command be processed too early, but never answered before the quorum can.
    over_least = (after.groupby("region")["ms"].min() / least_ms(setting)).min() if len(after) else 1.0
    return [
        Check("keys with another order of writes somewhere", run.unlike_keys, at_most=0),
        Check("commands not executed everywhere in the end", run.unexecuted, at_most=0),
        Check("keys that are not linearizable", len(violations(run.commands)), at_most=0),
        Check("busiest processor (share)", run.busy_share.max(), at_most=0.95),
        Check("least latency over the possible", 1.0 if setting.clock_error_ms else over_least, at_least=1 - 1e-9),
    ]


def relative(rows: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Divide the regions' mean and p99 by those of another case. Further columns: conflicts, and theta and writes where
    `rows` has them."""
    both = rows.merge(base[["region", "mean_ms", "p99_ms"]], on="region", suffixes=("", "_base"))
    columns = [name for name in ("theta", "writes", "region", "conflicts") if name in both]
    return both[columns].assign(mean=both.mean_ms / both.mean_ms_base, p99=both.p99_ms / both.p99_ms_base)


def ratios(runs: Runs, case: str = GRID, against: str = MULTI) -> pd.DataFrame:
    """Divide a case by another, by default Multi-Paxos, for each cell, repetition and region: theta, writes, mean, p99,
    and conflicts."""
    ours, theirs = (runs.reading("regions", each, SIMULATED) for each in (case, against))
    return pd.concat([relative(ours[each], theirs[each]).assign(repetition=each) for each in ours], ignore_index=True)


def process_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each light case and tier: commands, mean_ms, p99_ms, conflicts (%), and within: the share of
    commands (%) whose times on both tiers differ by less than SAME_MS. Empty without real processes."""
    rows = []
    for case in [case for case in runs.study.cases if runs.has(case, tier=VIRTUAL) and case.startswith(LIGHT)]:
        tiers = {tier: runs.table("commands", case, tier).set_index("command") for tier in (SIMULATED, VIRTUAL)}
        within = 100 * ((tiers[VIRTUAL].ms - tiers[SIMULATED].ms).abs() < SAME_MS).mean()
        for tier, commands in tiers.items():
            summary = summary_of(commands, 1.0).loc["all"]
            rows.append((case, tier, len(commands), summary.mean_ms, summary.p99_ms, 100 * summary.conflicts, within))
    names = ["case", "tier", "commands", "mean_ms", "p99_ms", "conflicts", "within"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])
