"""What is measured of all failures, and read of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np
import pandas as pd

from netrepro.papers.cdn_routing.failures import (
    CLASS_CASE,
    Beacon,
    beacons_of,
    consecutive_s,
    failures_of_daemons,
    one_failure,
)
from netrepro.papers.cdn_routing.setting import ANYCAST, PAPER, Setting
from netrepro.processes import in_processes
from netrepro.study import SIMULATED, VIRTUAL, Check, OneRun, Progress, Reading, Runs, in_parallel, seed_of

PUBLISHED_MEDIAN_S = 10.0
BEACON: Beacon = (10.0, 38.0, 120.0)  # RIS, 2 February 2011; see SOURCES.md
WHATS = ("reconnection_s", "failover_s")
PERCENTILES = (5, 10, 50, 90)
Failures = list[tuple[pd.DataFrame, np.ndarray]]


@cache  # knobs ask for the same
def calibrated_delay_s(setting: Setting, seed: int) -> float:
    """Return the mean time of an update through an AS with which anycast's median of reconnection is 10 s.

    Found on Internets of their own, from anycast alone. Times grow with the mean, but for the links' delays.
    """
    if setting.mean_delay_s:
        return setting.mean_delay_s
    unit = replace(setting, link_delay_ms=1e-3, advertisement_interval_s=0.0)
    seeds = [seed_of(seed, 1_000_000 + number) for number in range(setting.calibration_worlds)]
    work = [(unit, 1.0, each, site, (ANYCAST,)) for each in seeds for site in range(setting.sites)]
    found = pd.concat([times for times, _ in in_processes(one_failure, work, at_a_time=setting.sites)])
    return PUBLISHED_MEDIAN_S / float(found.exact_s.median())


def slower_withdrawal(beacon: Beacon) -> float:
    """Divide the time of a beacon's withdrawal by the geometric mean of the two times of its announcement."""
    half_s, everywhere_s, gone_s = beacon
    return gone_s / math.sqrt(half_s * everywhere_s)


def beacon_of(setting: Setting, mean_delay_s: float, seeds: Sequence[int]) -> Beacon:
    """Return the medians of beacons over worlds and sites."""
    found = chain(*in_processes(beacons_of, [(setting, mean_delay_s, each) for each in seeds]))
    half_s, everywhere_s, gone_s = np.median(list(found), axis=0)
    return float(half_s), float(everywhere_s), float(gone_s)


def share_of_beacons(setting: Setting, seed: int, worlds: int) -> float:
    """Return the share of a withdrawal's time that makes our announcements as fast, beside withdrawals, as BEACON's.

    An announcement's times grow with the share, a withdrawal's hardly; the mean delay is a factor of all.
    """
    seeds = [seed_of(seed, 2_000_000 + number) for number in range(worlds)]
    ours = beacon_of(replace(setting, link_delay_ms=1e-3), 1.0, seeds)
    return setting.announcement_share * slower_withdrawal(ours) / slower_withdrawal(BEACON)


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Let every site fail, one after the other, in the Internets of each repetition, under each technique.

    How fast a site is left depends on the few ASes next to it, which all targets share: single failures differ widely.
    Targets are the stubs whose traffic anycast brings to the failing site; those that a technique does not bring there
    are left out of it. On the virtual kernel every AS is a BIRD daemon with a kernel's table.
    """
    by_internet: dict[Setting, list[OneRun]] = {}
    for each in runs:
        by_internet.setdefault(replace(each.setting, technique=ANYCAST), []).append(each)
    readings: dict[OneRun, Reading] = {}
    for setting, own in by_internet.items():
        readings |= _measure(setting, own, progress)
    return [readings[each] for each in runs]


def _measure(setting: Setting, runs: Sequence[OneRun], progress: Progress) -> dict[OneRun, Reading]:
    """Measure the runs of one setting but for its technique."""
    names = tuple(dict.fromkeys(each.setting.technique for each in runs))
    repetitions = sorted({each.seed for each in runs})
    mean_delay_s = calibrated_delay_s(setting, repetitions[0][0])
    places = [(seed, world) for seed in repetitions for world in range(setting.worlds)]
    seeds = [seed_of(seed, repetition * setting.worlds + world) for (seed, repetition), world in places]
    if runs[0].tier == VIRTUAL:
        # Threads: they only wait for their kernels.
        daemons = [(setting, mean_delay_s, seed, names) for seed in seeds]
        found: Failures = list(chain(*in_parallel(failures_of_daemons, daemons, progress=progress)))
    else:
        work = [(setting, mean_delay_s, seed, site, names) for seed in seeds for site in range(setting.sites)]
        found = in_processes(one_failure, work, progress, at_a_time=setting.sites)
    labels = [(*place, site) for place in places for site in range(setting.sites)]
    times = pd.concat(
        [
            table.assign(seed=[seed] * len(table), world=world, site=site)
            for (table, _), (seed, world, site) in zip(found, labels, strict=True)
        ],
        ignore_index=True,
    )
    checks = [] if setting.is_small or ANYCAST not in names else checks_of(times, setting)
    answers = [each for (_, each), (seed, *_) in zip(found, labels, strict=True) if seed == repetitions[0]]
    readings = {}
    for run in runs:
        rows = times[(times.technique == run.setting.technique) & (times.seed == run.seed)]
        readings[run] = read(rows, mean_delay_s, setting)
        if run.seed == repetitions[0] and run.setting.technique == ANYCAST:
            readings[run] |= Reading(checks=checks)  # of all repetitions together
        if run.seed == repetitions[0] and run.setting.technique == CLASS_CASE and not setting.is_small:
            definition = class_definition(np.concatenate(answers), setting, run.seed[0])
            readings[run] |= Reading(tables={"definition": definition})
    return readings


def read(rows: pd.DataFrame, mean_delay_s: float, setting: Setting) -> Reading:
    """Read the targets, percentiles of reconnection and failover (s), and the calibrated mean delay (s)."""
    shares = rows.groupby("technique")[list(WHATS)].quantile([percent / 100 for percent in PERCENTILES])
    numbers = {"targets": len(rows), "mean_delay_s": mean_delay_s}
    for what in WHATS:
        for percent, value in zip(PERCENTILES, shares[what], strict=False):
            numbers[f"{what.removesuffix('_s')}_p{percent}_s"] = float(value)
    counted = rows.groupby(["world", "site", *WHATS]).size().rename("clients").reset_index()
    tables = {"times": counted}
    if setting.is_small:
        tables["clients"] = rows[["site", "target", *WHATS]]
    return Reading(numbers, tables)


def checks_of(times: pd.DataFrame, setting: Setting) -> list[Check]:
    """Check the calibration, that all are served again, and that there are enough clients."""
    anycast = times[times.technique == ANYCAST]
    paper = times[times.technique.isin(PAPER)]
    low, high = 0.75 * PUBLISHED_MEDIAN_S, 1.25 * PUBLISHED_MEDIAN_S
    back = float((paper.failover_s < setting.watch_s).mean())
    return [
        Check("anycast's median of reconnection (s)", float(anycast.reconnection_s.median()), low, high),
        Check("share of targets that are served again in the end", back, at_least=0.999),
        Check("targets", float(len(anycast)), at_least=100.0),
    ]


def class_definition(
    answers: np.ndarray,
    setting: Setting,
    seed: int,
    losses: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    counts: Sequence[int] = (1, 3, 5, 10),
) -> pd.DataFrame:
    """Compute the median failover when it begins with so many answers in a row and some answers get lost.

    Returns loss (share of answers), count, failover_s. The class took ten in a row.
    """
    pings = np.arange(answers.shape[1]) * setting.ping_interval_s
    stream = np.random.default_rng(seed)
    rows = []
    for loss in losses:
        heard = answers & (stream.random(answers.shape) >= loss)
        for count in counts:
            rows.append((loss, count, float(np.median(consecutive_s(heard, pings, count, setting.watch_s)))))
    return pd.DataFrame(rows, columns=["loss", "count", "failover_s"])


def times_of(runs: Runs, case: str, what: str, tier: str = "") -> np.ndarray:
    """Return the times of all clients of a case, sorted."""
    rows = runs.table("times", case, tier)
    return np.sort(np.repeat(rows[what].to_numpy(), rows["clients"].to_numpy()))


def small(technique: str) -> str:
    """Name the case of one small Internet."""
    return f"small, {technique}"


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each technique: the medians of both tiers in the small Internet, and the share of clients whose
    times differ by a ping at most; NaN without daemons."""
    rows = {}
    for name in PAPER:
        tiers = {tier: runs.table("clients", small(name), tier) for tier in (SIMULATED, VIRTUAL)}
        both = tiers[SIMULATED].merge(tiers[VIRTUAL], on=["site", "target"], suffixes=("_simulated", "_virtual"))
        row = {"clients": len(tiers[SIMULATED])}
        for what in WHATS:
            row |= {f"{what} {tier}": table[what].median() for tier, table in tiers.items()}
            apart = (both[f"{what}_simulated"] - both[f"{what}_virtual"]).abs()
            row[f"{what} same"] = (apart <= 1.01 * runs.setting.ping_interval_s).mean()
        rows[name] = row
    return pd.DataFrame(rows).T
