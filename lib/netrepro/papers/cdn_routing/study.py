"""Measurements of failures of a CDN's sites, their readings, the cases and the claims.

A CDN has several sites and one AS number. A site that fails stops announcing its prefix. Routers without a valid route
drop clients' packets, or forward them in circles, until they have a route to another site. A technique says what the
other sites announce, and when. Everything runs in virtual time: BGP speakers with the usual policies on a generated
Internet. Their delays are calibrated to anycast alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from operator import sub
from typing import Any

import numpy as np
import pandas as pd

from netrepro.papers.cdn_routing import figures
from netrepro.papers.cdn_routing.failures import (
    CLASS_CASE,
    cannot,
    consecutive_s,
    exact_reconnection_s,
    failures_of_daemons,
    one_failure,
)
from netrepro.papers.cdn_routing.figures import times_of
from netrepro.papers.cdn_routing.setting import (
    ANYCAST,
    DELAY_LAWS,
    PAPER,
    PREPENDING,
    REACTIVE,
    SUPERPREFIX,
    Setting,
    small,
    techniques,
)
from netrepro.processes import in_processes
from netrepro.study import (
    BESIDE,
    SIMULATED,
    VIRTUAL,
    Check,
    Evidence,
    Knob,
    OneRun,
    Play,
    Progress,
    Reading,
    Runs,
    Scale,
    Study,
    in_parallel,
    seed_and_repetition,
    seed_of,
    swept,
)
from netrepro.study.evidence import least_first, ratio

PUBLISHED_MEDIAN_S = 10.0
WHATS = ("reconnection", "failover")
PERCENTILES = (5, 10, 50, 90)
LOSSES, COUNTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (1, 3, 5, 10)  # answers in a row; the class required ten


def calibrated_delay_s(setting: Setting, seed: int) -> float:
    """Return the mean time of an update through an AS (s) with which anycast's median reconnection is 10 s.

    It is calibrated with anycast alone, on Internets that no case uses. Times are proportional to the mean delay,
    except for the small delays of links.
    """
    if setting.mean_delay_s:
        return setting.mean_delay_s
    # Knobs ask again for settings that are the same for anycast.
    return _calibrated(replace(setting, technique=ANYCAST, prepends=0, reaction_s=0.0, worlds=1), seed)


@cache
def _calibrated(setting: Setting, seed: int) -> float:
    unit = replace(setting, link_delay_ms=1e-3, advertisement_interval_s=0.0)
    seeds = [seed_of(seed, 1_000_000 + number) for number in range(setting.calibration_worlds)]
    work = [(unit, each, site) for each in seeds for site in range(setting.sites)]
    times_s = in_processes(exact_reconnection_s, work, at_a_time=setting.sites)
    return PUBLISHED_MEDIAN_S / float(np.median(np.concatenate(times_s)))


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Let every site fail, one after the other, in the Internets of each repetition, under each technique.

    How fast clients leave a site depends on the few ASes next to it, which all targets share, so single failures differ
    widely. Targets are the stubs whose traffic anycast brings to the failing site; a technique that brings a stub to
    another site leaves it out. On the virtual kernel every AS is a BIRD daemon with a kernel's routing table.
    """
    by_internet: dict[Setting, list[OneRun]] = {}
    for run in runs:
        by_internet.setdefault(replace(run.setting, technique=ANYCAST), []).append(run)
    readings: dict[OneRun, Reading] = {}
    for setting, own in by_internet.items():
        readings |= _measure(setting, own, progress)
    return [readings[run] for run in runs]


def _measure(setting: Setting, runs: Sequence[OneRun], progress: Progress) -> dict[OneRun, Reading]:
    """Measure runs whose settings differ only in the technique."""
    names = tuple(dict.fromkeys(each.setting.technique for each in runs))
    seed, first = min(each.seed for each in runs)
    mean_delay_s = calibrated_delay_s(setting, seed)
    places = [(each, world) for each in sorted({run.seed[1] for run in runs}) for world in range(setting.worlds)]
    seeds = [seed_of(seed, repetition * setting.worlds + world) for repetition, world in places]
    if runs[0].tier == VIRTUAL:
        # Threads, because they only wait for their kernels.
        daemons = [(setting, mean_delay_s, each, names) for each in seeds]
        failures = list(chain(*in_parallel(failures_of_daemons, daemons, progress=progress)))
    else:
        work = [(setting, mean_delay_s, each, site, names) for each in seeds for site in range(setting.sites)]
        failures = in_processes(one_failure, work, progress, at_a_time=setting.sites)
    labels = [(*place, site) for place in places for site in range(setting.sites)]
    parts = [
        table.assign(repetition=repetition, world=world, site=site)
        for (table, _), (repetition, world, site) in zip(failures, labels, strict=True)
    ]
    times = pd.concat(parts, ignore_index=True)
    answers = [each for (_, each), (repetition, *_) in zip(failures, labels, strict=True) if repetition == first]
    readings = {}
    for run in runs:
        technique, repetition = run.setting.technique, run.seed[1]
        readings[run] = read(
            times.query("technique == @technique and repetition == @repetition"), mean_delay_s, setting
        )
        if repetition == first and not setting.is_small:
            if technique == ANYCAST:
                readings[run] |= Reading(checks=checks_of(times, setting))  # over all repetitions together
            if technique == CLASS_CASE:
                definition = class_definition(np.concatenate(answers), setting, seed)
                readings[run] |= Reading(tables={"definition": definition})
    return readings


def read(rows: pd.DataFrame, mean_delay_s: float, setting: Setting) -> Reading:
    """Read the number of targets, percentiles of reconnection and failover (s), the share of all clients that reach the
    failing site before the failure, and the calibrated mean delay (s)."""
    numbers = {"targets": len(rows), "mean_delay_s": mean_delay_s, "share_at_site": rows.share_at_site.mean()}
    numbers |= {f"{what}_p{p}_s": rows[f"{what}_s"].quantile(p / 100) for what in WHATS for p in PERCENTILES}
    counted = rows.groupby(["world", "site", "reconnection_s", "failover_s"]).size().rename("clients").reset_index()
    tables = {"times": counted}
    if setting.is_small:
        tables["clients"] = rows[["site", "target", "reconnection_s", "failover_s"]]
    return Reading(numbers, tables)


def checks_of(times: pd.DataFrame, setting: Setting) -> list[Check]:
    """Check the calibration, that all clients are served again, and that there are enough clients."""
    anycast = times[times.technique == ANYCAST]
    back = (times[times.technique.isin(PAPER)].failover_s < setting.watch_s).mean()
    low, high = 0.75 * PUBLISHED_MEDIAN_S, 1.25 * PUBLISHED_MEDIAN_S
    return [
        Check("anycast's median of reconnection (s)", float(anycast.reconnection_s.median()), low, high),
        Check("share of targets that are served again in the end", float(back), at_least=0.999),
        Check("targets", float(len(anycast)), at_least=100.0),
    ]


def class_definition(answers: np.ndarray, setting: Setting, seed: int) -> pd.DataFrame:
    """Compute the median failover by the class's definition, `count` answers in a row, when some answers are lost.
    Columns: loss (share of answers), count, failover_s."""
    pings = np.arange(answers.shape[1]) * setting.ping_interval_s
    stream, rows = np.random.default_rng(seed), []
    for loss in LOSSES:
        heard = answers & (stream.random(answers.shape) >= loss)
        medians = [float(np.median(consecutive_s(heard, pings, count, setting.watch_s))) for count in COUNTS]
        rows += [(loss, count, median) for count, median in zip(COUNTS, medians, strict=True)]
    return pd.DataFrame(rows, columns=["loss", "count", "failover_s"])


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each technique: the medians of both tiers in the small Internet, and the share of clients whose
    times differ by at most one ping between the tiers. NaN without daemons."""
    rows = {}
    for name in PAPER:
        tiers = {tier: runs.table("clients", small(name), tier) for tier in (SIMULATED, VIRTUAL)}
        both = tiers[SIMULATED].merge(tiers[VIRTUAL], on=["site", "target"], suffixes=("_simulated", "_virtual"))
        rows[name] = {"clients": len(tiers[SIMULATED])}
        for what in ("reconnection_s", "failover_s"):
            rows[name] |= {f"{what} {tier}": table[what].median() for tier, table in tiers.items()}
            apart = (both[f"{what}_simulated"] - both[f"{what}_virtual"]).abs()
            rows[name][f"{what} same"] = (apart <= 1.01 * runs.setting.ping_interval_s).mean()
    return pd.DataFrame(rows).T


# The study.

LARGE: dict[str, dict[str, Any]] = {name: {"technique": name} for name in techniques(Setting())}
# One Internet of a size that daemons can run.
DAEMONS = {"top": 4, "transit": 16, "stubs": 25, "worlds": 1}
SMALL: dict[str, Any] = DAEMONS | {"calibration_worlds": 8, "is_small": True}
MORE_DAEMONS = {"top": 5, "transit": 44, "stubs": 90, "worlds": 8}
PAPER_SIZE = {"transit": 400, "stubs": 2000, "worlds": 20}
TEST_SIZE = {"top": 3, "transit": 30, "stubs": 90, "calibration_worlds": 8}
ONCE = {small(name): 1 for name in PAPER}
WITHOUT_LARGE = Scale(repetitions=1, without=tuple(LARGE))
QUICK_REACTIVE, QUICK_PREPENDING = f"{REACTIVE}, no delays", f"{PREPENDING}, no delays"
REACTIONS_S = (-60.0, -10.0, 0.0, 5.0, 10.0, 30.0, 60.0)  # "immediately" is one of them
LATE, NO_PREPENDS, AFTERWARDS = f"{REACTIVE}, a minute late", "no prepends", "prepending after the failure"


def _order(reading: str, *cases: str, control: tuple[str, ...] | None = None) -> Evidence:
    return Evidence(reading, cases, control=control, how=least_first(*cases))


CLAIMS = {
    "reactive-reconnection": Evidence("reconnection_p50_s", REACTIVE, control=QUICK_REACTIVE),
    "prepending-reconnection": Evidence("reconnection_p50_s", PREPENDING, control=QUICK_PREPENDING),
    "reactive-failover": Evidence("failover_p50_s", (REACTIVE, ANYCAST), control=(LATE, ANYCAST), how=ratio),
    "prepending-failover": Evidence("failover_p50_s", (PREPENDING, REACTIVE), control=(NO_PREPENDS, REACTIVE), how=sub),
    "slower-than-its-reconnection": Evidence(
        ("failover_p50_s", "reconnection_p50_s"), PREPENDING, control=QUICK_PREPENDING, how=lambda both: sub(*both)
    ),
    "longest-with-superprefix": _order("failover_p50_s", ANYCAST, PREPENDING, SUPERPREFIX),
    "early-reconnection": _order("reconnection_p10_s", PREPENDING, REACTIVE, control=(AFTERWARDS, REACTIVE)),
    "late-reconnection": _order("reconnection_p90_s", REACTIVE, PREPENDING, control=(REACTIVE, NO_PREPENDS)),
    "reactive-begins": Evidence("reconnection_p5_s", REACTIVE, control=QUICK_REACTIVE),
}


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    medians = [f"{name} {np.median(times_of(runs, name, 'failover')):.0f} s" for name in PAPER]
    reconnection_s = np.median(times_of(runs, ANYCAST, "reconnection"))
    return (
        f"Half of the clients are served steadily again after: {', '.join(medians)}; calibrated to anycast's "
        f"reconnection alone ({reconnection_s:.0f} s)."
    )


def _scales(worlds: int) -> dict[str, Scale]:
    few, more = ({"worlds": times * worlds, "calibration_worlds": 4 * times} for times in (1, 2))
    quick = {"worlds": 1, "calibration_worlds": 4}
    changes = {"quick": quick, "paper": PAPER_SIZE | more, "test": TEST_SIZE | few}
    return {profile: Scale(changes=own) for profile, own in changes.items()}


LAWS: dict[str, dict[str, Any]] = {law: {"delay_law": law} for law in DELAY_LAWS} | {
    "share 1": {"announcement_share": 1.0},
    "share 1/4": {"announcement_share": 1 / 4},
    "share 1/8": {"announcement_share": 1 / 8},
    "30 s apart": {"advertisement_interval_s": 30.0},
}
# As PEERING's sites were: most with one provider, one with peers at an exchange. A quarter of the transit ASes is ours.
AS_PEERING: dict[str, dict[str, Any]] = {
    "sites as above": {},
    "8 sites, one provider each": {"sites": 8, "site_providers": 1},
    "8 sites, and one has peers": {"sites": 8, "site_providers": 1, "peers_of_one_site": 0.25},
}

STUDY = Study(
    slug="cdn_routing",
    setting=Setting(),
    cases=LARGE | {small(name): SMALL | {"technique": name} for name in PAPER},
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    scales={
        "quick": Scale(changes={"worlds": 2, "calibration_worlds": 20}, fewer=ONCE),
        "paper": Scale(changes=PAPER_SIZE, fewer=ONCE),
        "test": Scale(changes=TEST_SIZE, fewer=ONCE),
        ("quick", VIRTUAL): Scale(changes=DAEMONS, fewer=ONCE),
        ("paper", VIRTUAL): Scale(changes=MORE_DAEMONS, fewer=ONCE),
        ("quick", BESIDE): WITHOUT_LARGE,
        ("paper", BESIDE): WITHOUT_LARGE,
    },
    claims=CLAIMS,
    knobs={
        "prepends": Knob({PREPENDING: {"technique": PREPENDING, "prepends": swept(0, 1, 2, 3, 5)}}, _scales(1)),
        "reaction": Knob({REACTIVE: {"technique": REACTIVE, "reaction_s": swept(*REACTIONS_S)}}, _scales(1)),
        "sites": Knob(
            {name: own | {"technique": swept(REACTIVE, PREPENDING)} for name, own in AS_PEERING.items()}, _scales(1)
        ),
        "delays": Knob({name: law | {"technique": swept(*PAPER)} for name, law in LAWS.items()}, _scales(2)),
    },
    figures={
        "fig2_reconnection_and_failover": figures.draw_times,
        "tiers_bird_and_speakers": figures.draw_tiers,
        "control": figures.draw_control,
        "knob_prepends": figures.draw_prepends,
        "knob_reaction": figures.draw_reactions,
        "knob_delays": figures.draw_delays,
    },
    play=Play(
        PAPER,
        {"prepends": (0, 6, 1), "delay_law": list(DELAY_LAWS), "mean_delay_s": (0.5, 20.0, 0.5)},
        figures.draw_run,
    ),
)
