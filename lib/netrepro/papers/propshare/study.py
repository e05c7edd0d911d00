"""PropShare: Levin, LaCurts, Spring and Bhattacharjee, "BitTorrent is an Auction: Analyzing and Improving BitTorrent's
Incentives", SIGCOMM 2008, Fig. 8.

Swarms in which some clients share their upload in proportion to what they received and the others run BitTorrent's
auction: who downloads faster, who gets what it gives, and what a Sybil or a free rider gets out of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.claims.verdicts import student_interval
from netrepro.papers.propshare import figures
from netrepro.papers.propshare.readings import (
    FIGURE_8,
    IDENTITIES,
    NO_CAP_KILOBYTES_PER_S,
    PERMUTED,
    PROCESSES,
    comparison,
    measure_all,
    of_trials,
    ratios,
    sybil_gain,
)
from netrepro.papers.propshare.setting import BETWEEN, Setting
from netrepro.study import VIRTUAL, Evidence, Knob, Play, Runs, Scale, Study, each, seed_and_repetition

RIDERS, RIDERS_PERMUTED, SYBIL_1, SYBIL_4 = "free riders", "free riders, permuted", "sybil, 1", f"sybil, {IDENTITIES}"
PROCESSES_PERMUTED = "processes, permuted"
TENTHS = tuple(i / 10 for i in range(11))
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FRACTIONS = tuple(sorted({*TENTHS, *QUARTERS}))
PURE = {"fraction": each(*BETWEEN)}
CLASS: dict[str, Any] = {"leechers": 12, "pieces": 256, "blocks_per_piece": 1, "round_s": 2.0, "optimistic_s": 5.0}
RATES = ("seed_kilobytes_per_s", "slowest_kilobytes_per_s", "fastest_kilobytes_per_s")
# With three seeds 20 peers.
REAL: dict[str, Any] = {"leechers": 17, "pieces": 8, "paired": True, "processes": True}
CASES: dict[str, dict[str, Any]] = {
    FIGURE_8: {"fraction": each(*FRACTIONS)},
    PERMUTED: {"fraction": each(*FRACTIONS[1:]), "kind": "permuted"},
    "equal": {name: lambda setting: setting.median_kilobytes_per_s for name in RATES[1:]},
    RIDERS: PURE | {"free_riders": 0.2},
    RIDERS_PERMUTED: {"fraction": 1.0, "free_riders": 0.2, "kind": "permuted"},
    SYBIL_1: PURE | {"identities": 1},
    SYBIL_4: PURE | {"identities": IDENTITIES},
    "class, no cap": CLASS | dict.fromkeys(RATES, NO_CAP_KILOBYTES_PER_S),
    "class, with upload caps": CLASS,
    PROCESSES: REAL | {"fraction": each(0.0, 0.5, 1.0)},
    PROCESSES_PERMUTED: REAL | {"fraction": each(0.5, 1.0), "kind": "permuted"},
}


def cannot(setting: Setting, tier: str) -> str:
    """Say in words what a tier cannot run of a setting; "" for nothing."""
    if tier != VIRTUAL or setting.processes:
        return ""
    return "swarms of real processes are smaller; no client comes as several peers, and none gives nothing"


# Claims.


def mixed(readings: dict[int, pd.Series]) -> np.ndarray:
    """Return what was read of all mixed swarms, by fraction and trial."""
    return pd.DataFrame(readings).sort_index().stack().dropna().to_numpy()


def _fewer(readings: dict[int, pd.Series]) -> np.ndarray:
    return mixed(readings) < 1


def _of_swarms(case: str, permuted: str) -> dict[str, Evidence]:
    """Return the evidence of the claims that need mixed, pure and permuted swarms."""
    return {
        "faster-than-bittorrent": Evidence("ratio", case, control=permuted, how=_fewer, counted=True, pooled=True),
        "competitive": Evidence("ratio", case, control=permuted, how=mixed, pooled=True),
        "uploads-no-more": Evidence("sent_ratio", case, control=permuted, how=mixed, pooled=True),
        "rewards-contribution": Evidence(
            "rank",
            (case, case),
            control=(permuted, case),
            how=lambda ours, auction: ours[1.0] > auction[0.0],
            counted=True,
        ),
    }


CLAIMS = _of_swarms(FIGURE_8, PERMUTED) | {
    "sybil-gains-nothing": Evidence(
        "attacker_s",
        (SYBIL_1, SYBIL_4),
        control=Evidence("attacker_s", (SYBIL_1, SYBIL_4), how=lambda alone, several: alone[0.0] / several[0.0]),
        how=lambda alone, several: alone[1.0] / several[1.0],
    ),
    "free-riders-pay": Evidence(
        "rider_cost",
        RIDERS,
        control=Evidence(
            "rider_cost", (RIDERS_PERMUTED, RIDERS), how=lambda broken, cheap: broken > cheap[0.0], counted=True
        ),
        how=lambda cost: cost[1.0] > cost[0.0],
        counted=True,
    ),
}


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table, values = comparison(runs), ratios(runs)
    low, high = student_interval(list(values))
    correlation = [of_trials(runs, "rank").loc[fraction].mean() for fraction in BETWEEN]
    gain = [sybil_gain(runs, fraction).mean() for fraction in BETWEEN]
    return runs.beside + (
        f"In {len(values)} swarms of both kinds PropShare's clients take {values.mean():.3f} times as long as "
        f"BitTorrent's ({low:.3f} to {high:.3f}; faster in {100 * (values < 1).mean():.0f} %, mean times "
        f"{table['PropShare (s)'].mean():.0f} and {table['BitTorrent (s)'].mean():.0f} s); what a client gives decides "
        f"more of what it gets (rank correlation {correlation[1]:.2f} against {correlation[0]:.2f}), and a Sybil of "
        f"{IDENTITIES} is {gain[1]:.2f} times as fast as one peer, among BitTorrent's {gain[0]:.2f} times."
    )


# The study.

KNOB_SCALES = {
    "quick": Scale(fewer=dict.fromkeys(("half and half", "bittorrent", "propshare"), 6)),
    "paper": Scale(changes={"leechers": 100}),
    "test": Scale(changes={"leechers": 10}, fewer=dict.fromkeys(("half and half", "bittorrent", "propshare"), 2)),
}
KNOB_VALUES: dict[str, tuple] = {
    "pieces": (12, 48, 192),
    "reserve": (0.05, 0.1, 0.2, 0.4),
    "free_riders": (0.0, 0.2, 0.4),
    "stays_s": (0.0, 15.0, 60.0),
}
PAIRED = {"paired": True}
OF_ONE_KIND: dict[str, dict[str, Any]] = {
    "bittorrent": PAIRED | {"fraction": 0.0},
    "propshare": PAIRED | {"fraction": 1.0},
}
SYBIL = {"pieces": each(192, 48), "seeds_know_clients": True, "identities": each(1, IDENTITIES)}


def _knob(cases: dict[str, dict[str, Any]]) -> Knob:
    return Knob(cases, KNOB_SCALES, repetitions=50)


def _half_and_half(name: str, values: tuple) -> Knob:
    """Make a knob of half of each kind; every swarm is run once more with the kinds in each other's places."""
    return _knob({"half and half": PAIRED | {name: each(*values), "swapped": each(False, True)}})


def _fewer_of_processes(trials: int) -> dict[str, int]:
    return dict.fromkeys((PROCESSES, PROCESSES_PERMUTED), trials)


PAPER: dict[str, Any] = {"changes": {"leechers": 100}, "least_repetitions": 100}
QUICK_ONLY, PAPER_ONLY = {"fraction": QUARTERS}, {"fraction": TENTHS}
STUDY = Study(
    slug="propshare",
    setting=Setting(),
    cases=CASES,
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    repetitions=60,
    profiles={
        "quick": Scale(repetitions=30, only=QUICK_ONLY, fewer=_fewer_of_processes(1), without=(PROCESSES_PERMUTED,)),
        "paper": Scale(only=PAPER_ONLY, fewer=_fewer_of_processes(6), without=(PROCESSES_PERMUTED,), **PAPER),
        "test": Scale(only={"fraction": (0.0, 0.5, 1.0)}, fewer=_fewer_of_processes(1), least_repetitions=12),
    },
    on_virtual={
        "quick": Scale(only=QUICK_ONLY, fewer=_fewer_of_processes(6)),
        "paper": Scale(only=PAPER_ONLY, fewer=_fewer_of_processes(30), **PAPER),
    },
    also_on_virtual={
        "quick": Scale(repetitions=1, without=(PROCESSES_PERMUTED,)),
        "paper": Scale(repetitions=6, without=(PROCESSES_PERMUTED,)),
    },
    claims=CLAIMS,
    on_kernels=_of_swarms(PROCESSES, PROCESSES_PERMUTED),
    knobs={
        **{name: _half_and_half(name, values) for name, values in KNOB_VALUES.items()},
        "lending": _half_and_half("lends", (True, False)),
        "identities": _knob(
            {
                name: changes | {"identities": each(1, 2, 4, 8), "seeds_know_clients": each(False, True)}
                for name, changes in OF_ONE_KIND.items()
            }
        ),
        "riders": _knob(
            {
                "propshare": OF_ONE_KIND["propshare"] | {"free_riders": 0.2, "reserve": each(*KNOB_VALUES["reserve"])},
                "bittorrent": OF_ONE_KIND["bittorrent"] | {"free_riders": 0.2},
            }
        ),
        "sybil": _knob(
            {
                "propshare": OF_ONE_KIND["propshare"] | SYBIL | {"reserve": each(0.05, 0.2)},
                "bittorrent": OF_ONE_KIND["bittorrent"] | SYBIL,
            }
        ),
    },
    figures={
        "download_time_fig8": figures.draw_figure_8,
        "ratio_by_trial": figures.draw_ratio,
        "by_capacity": figures.draw_by_capacity,
        "strategies": figures.draw_strategies,
        "processes": figures.draw_tiers,
        "class": figures.draw_class,
        "control": figures.draw_control,
        "knob_file_and_reserve": partial(figures.draw_knobs, names=("pieces", "reserve")),
        "knob_riders_and_seeds": partial(figures.draw_knobs, names=("free_riders", "stays_s")),
        "knob_identities": figures.draw_identities,
        "knob_reserve": figures.draw_reserve,
    },
    best=("download_time_fig8", "by_capacity", "strategies", "control"),
    play=Play(
        (FIGURE_8, PERMUTED),
        {
            "fraction": (0.0, 1.0, 0.1),
            "fastest_kilobytes_per_s": (20.0, 1000.0, 20.0),
            "pieces": (8, 192, 8),
            "free_riders": (0.0, 0.5, 0.05),
        },
        figures.draw_run,
    ),
)
