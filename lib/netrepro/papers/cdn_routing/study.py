"""How fast traffic leaves a CDN site that fails: Zhu et al., "The Best of Both Worlds: High Availability CDN Routing
Without Compromising Control" (IMC 2022), Fig. 2.

A CDN has several sites and one AS number. The site that fails stops to announce its prefix; routers without a valid
route drop what clients send, or send it in circles, until they have heard of another site. What the other sites
announce, and when, is the technique. Everything runs in virtual time: BGP speakers with the usual policies on a
generated Internet, whose delays are calibrated to anycast alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.papers.cdn_routing import figures
from netrepro.papers.cdn_routing.failures import not_by_daemons, one_failure
from netrepro.papers.cdn_routing.readings import (
    beacon_of,
    calibrated_delay_s,
    measure_all,
    slower_withdrawal,
    small,
    times_of,
)
from netrepro.papers.cdn_routing.setting import (
    ANYCAST,
    DELAY_LAWS,
    PAPER,
    PREPENDING,
    REACTIVE,
    SUPERPREFIX,
    Setting,
    techniques,
)
from netrepro.processes import in_processes
from netrepro.study import VIRTUAL, Evidence, Play, Progress, Runs, Scale, Study, seed_and_repetition, seed_of
from netrepro.study.evidence import least_first, ratio

QUICK_REACTIVE, QUICK_PREPENDING, LATE = (
    f"{REACTIVE}, no delays",
    f"{PREPENDING}, no delays",
    f"{REACTIVE}, a minute late",
)
NO_PREPENDS, AFTERWARDS = "no prepends", "prepending after the failure"
# One Internet of the size that daemons have.
SMALL: dict[str, Any] = {
    "top": 4,
    "transit": 16,
    "stubs": 25,
    "worlds": 1,
    "calibration_worlds": 8,
    "is_small": True,
}
LARGE: dict[str, dict[str, Any]] = {name: {"technique": name} for name in techniques(Setting())}


def cannot(setting: Setting, tier: str) -> str:
    """Say in words what a tier cannot run of a setting; "" for nothing."""
    return not_by_daemons(setting) if tier == VIRTUAL else ""


def minus(longer_s: float, shorter_s: float) -> float:
    """Subtract the second case from the first."""
    return longer_s - shorter_s


def _of(reading: str, case: str, control: str) -> Evidence:
    return Evidence(reading, case, control=control)


def _ahead(reading: str, cases: tuple[str, ...], control: tuple[str, ...] | None) -> Evidence:
    return Evidence(reading, cases, control=control, how=least_first(*cases))


CLAIMS = {
    "reactive-reconnection": _of("reconnection_p50_s", REACTIVE, QUICK_REACTIVE),
    "prepending-reconnection": _of("reconnection_p50_s", PREPENDING, QUICK_PREPENDING),
    "reactive-failover": Evidence("failover_p50_s", (REACTIVE, ANYCAST), control=(LATE, ANYCAST), how=ratio),
    "prepending-failover": Evidence(
        "failover_p50_s", (PREPENDING, REACTIVE), control=(NO_PREPENDS, REACTIVE), how=minus
    ),
    "slower-than-its-reconnection": Evidence(
        ("failover_p50_s", "reconnection_p50_s"), PREPENDING, control=QUICK_PREPENDING, how=lambda both: minus(*both)
    ),
    "longest-with-superprefix": _ahead("failover_p50_s", (ANYCAST, PREPENDING, SUPERPREFIX), None),
    "early-reconnection": _ahead("reconnection_p10_s", (PREPENDING, REACTIVE), (AFTERWARDS, REACTIVE)),
    "late-reconnection": _ahead("reconnection_p90_s", (REACTIVE, PREPENDING), (REACTIVE, NO_PREPENDS)),
    "reactive-begins": _of("reconnection_p5_s", REACTIVE, QUICK_REACTIVE),
}


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    said = [f"{name} {np.median(times_of(runs, name, 'failover_s')):.0f} s" for name in PAPER]
    reconnection_s = np.median(times_of(runs, ANYCAST, "reconnection_s"))
    return (
        f"Half of the clients are served steadily again after: {', '.join(said)}; calibrated to anycast's reconnection "
        f"alone ({reconnection_s:.0f} s)."
    )


# Knobs.


def _setting_of(runs: Runs) -> Setting:
    setting: Setting = runs.study.scaled(runs.setting, runs.profile, runs.tier)
    return replace(setting, calibration_worlds=2 * setting.knob_worlds)


def turn_prepends(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure proactive prepending with more and fewer prepends: what is lost and what is gained.

    Returns prepends, share_at_site (of all clients, if the site is to serve everybody), reconnection_s and failover_s
    (medians).
    """
    setting, seed = _setting_of(runs), runs.seed
    mean_delay_s = calibrated_delay_s(setting, seed)
    name, seeds = PREPENDING, [seed_of(seed, number) for number in range(setting.knob_worlds // 2)]
    work = [
        (replace(setting, prepends=count), mean_delay_s, each, site, (name,))
        for count in (0, 1, 2, 3, 5)
        for each in seeds
        for site in range(setting.sites)
    ]
    found = in_processes(one_failure, work, progress, at_a_time=setting.sites)
    rows = [
        times[times.technique == name].assign(prepends=changed.prepends)
        for (changed, *_), (times, _) in zip(work, found, strict=True)
    ]
    grouped = pd.concat(rows).groupby("prepends")
    medians = grouped[["reconnection_s", "failover_s"]].median()
    return medians.assign(share_at_site=grouped.share_at_site.mean()).reset_index()


OTHER_SHARES = {"as slow as withdrawals": 1.0, "4 times as fast": 1 / 4, "8 times as fast": 1 / 8}


def turn_delays(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure the techniques under other laws of delay, with announcements that are faster or slower beside
    withdrawals, and with an advertisement interval of 30 s; each calibrated anew.

    Returns delays, technique, reconnection_s, failover_s (medians), and of a beacon half_s, everywhere_s, gone_s (see
    `beacons_of`; medians over worlds and sites) and slower_withdrawal.
    """
    setting, seed = _setting_of(runs), runs.seed
    worlds = setting.knob_worlds
    laws = {law: replace(setting, delay_law=law) for law in DELAY_LAWS}
    for words, share in OTHER_SHARES.items():
        laws[f"{setting.delay_law}, announcements {words}"] = replace(setting, announcement_share=share)
    laws[f"{setting.delay_law}, 30 s between announcements"] = replace(setting, advertisement_interval_s=30.0)
    work, names, beacons = [], [], {}
    for name, changed in laws.items():
        mean_delay_s = calibrated_delay_s(changed, seed)
        beacon = beacon_of(changed, mean_delay_s, [seed_of(seed, number) for number in range(worlds)])
        beacons[name] = (*beacon, slower_withdrawal(beacon))
        for number in range(worlds):
            for site in range(setting.sites):
                work.append((changed, mean_delay_s, seed_of(seed, number), site, PAPER))
                names.append(name)
    found = in_processes(one_failure, work, progress, at_a_time=setting.sites)
    times = pd.concat([table.assign(delays=name) for name, (table, _) in zip(names, found, strict=True)])
    medians = times.groupby(["delays", "technique"], sort=False)[["reconnection_s", "failover_s"]].median()
    columns = ["half_s", "everywhere_s", "gone_s", "slower_withdrawal"]
    return medians.reset_index().join(pd.DataFrame.from_dict(beacons, "index", columns=columns), on="delays")


# The study.

ONCE = {small(name): 1 for name in PAPER}
PAPER_SIZE = {"transit": 400, "stubs": 2000, "worlds": 20}
DAEMONS = {"top": 4, "transit": 16, "stubs": 25, "worlds": 1}
MORE_DAEMONS = {"top": 5, "transit": 44, "stubs": 90, "worlds": 8}
TEST_SIZE = {"top": 3, "transit": 30, "stubs": 90, "calibration_worlds": 8, "knob_worlds": 2}
BESIDE = Scale(repetitions=1, without=tuple(LARGE))

STUDY = Study(
    slug="cdn_routing",
    setting=Setting(),
    cases=LARGE | {small(name): SMALL | {"technique": name} for name in PAPER},
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    profiles={
        "quick": Scale(changes={"knob_worlds": 2}, fewer=ONCE),
        "paper": Scale(changes=PAPER_SIZE, fewer=ONCE),
        "test": Scale(changes=TEST_SIZE, fewer=ONCE),
    },
    on_virtual={
        "quick": Scale(changes=DAEMONS, fewer=ONCE),
        "paper": Scale(changes=MORE_DAEMONS, fewer=ONCE),
    },
    also_on_virtual={"quick": BESIDE, "paper": BESIDE},
    claims=CLAIMS,
    knobs={"prepends": turn_prepends, "delays": turn_delays},
    figures={
        "fig2_reconnection_and_failover": figures.draw_times,
        "tiers_bird_and_speakers": figures.draw_tiers,
        "control": figures.draw_control,
        "knob_prepends": figures.draw_prepends,
        "knob_delays": figures.draw_delays,
        "class_definition": figures.draw_definition,
    },
    play=Play(
        PAPER,
        {"prepends": (0, 6, 1), "delay_law": list(DELAY_LAWS), "mean_delay_s": (0.5, 20.0, 0.5)},
        figures.draw_run,
    ),
)
