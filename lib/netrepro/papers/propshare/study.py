"""PropShare: Levin, LaCurts, Spring and Bhattacharjee, "BitTorrent is an Auction: Analyzing and Improving BitTorrent's
Incentives", SIGCOMM 2008, Fig. 8.

Swarms in which some clients share their upload in proportion to what they received, while the others run BitTorrent's
auction. Who downloads faster, who gets what it gives, and what does a Sybil or a free rider gain?
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.intervals import student_interval
from netrepro.papers.propshare.figures import FIGURES, draw_run
from netrepro.papers.propshare.readings import (
    FIGURE_8,
    IDENTITIES,
    NO_CAP_KILOBYTES_PER_S,
    PERMUTED,
    PROCESSES,
    RIDERS,
    RIDERS_PERMUTED,
    comparison,
    measure_all,
    of_trials,
    sybil_gain,
)
from netrepro.papers.propshare.setting import BETWEEN, Setting
from netrepro.study import BESIDE, VIRTUAL, Evidence, Knob, Play, Runs, Scale, Study, seed_and_repetition, swept

SYBIL_1, SYBIL_4 = "sybil, 1", f"sybil, {IDENTITIES}"
PROCESSES_PERMUTED = "processes, permuted"
TENTHS = tuple(i / 10 for i in range(11))
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FRACTIONS = tuple(sorted({*TENTHS, *QUARTERS}))
PURE = {"fraction": swept(*BETWEEN)}
CLASS: dict[str, Any] = {"leechers": 12, "pieces": 256, "blocks_per_piece": 1, "round_s": 2.0, "optimistic_s": 5.0}
RATES = ("seed_kilobytes_per_s", "slowest_kilobytes_per_s", "fastest_kilobytes_per_s")
# 20 peers with the three seeds.
REAL: dict[str, Any] = {"leechers": 17, "pieces": 8, "paired": True, "processes": True}
CASES: dict[str, dict[str, Any]] = {
    FIGURE_8: {"fraction": swept(*FRACTIONS)},
    PERMUTED: {"fraction": swept(*FRACTIONS[1:]), "kind": "permuted"},
    "equal": {name: lambda setting: setting.median_kilobytes_per_s for name in RATES[1:]},
    RIDERS: PURE | {"free_riders": 0.2},
    RIDERS_PERMUTED: {"fraction": swept(1.0), "free_riders": 0.2, "kind": "permuted"},
    SYBIL_1: PURE | {"identities": 1},
    SYBIL_4: PURE | {"identities": IDENTITIES},
    "class, no cap": CLASS | dict.fromkeys(RATES, NO_CAP_KILOBYTES_PER_S),
    "class, with upload caps": CLASS,
    # The class had five clients where all were PropShare's, and twelve where not.
    **{
        f"class, {words} {kind}": CLASS | {"leechers": leechers, "fraction": fraction}
        for words, leechers in (("five", 5), ("twelve", 12))
        for kind, fraction in (("of PropShare's", 1.0), ("of BitTorrent's", 0.0))
    },
    PROCESSES: REAL | {"fraction": swept(0.0, 0.5, 1.0)},
    PROCESSES_PERMUTED: REAL | {"fraction": swept(0.5, 1.0), "kind": "permuted"},
}


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting; "" where it can."""
    if tier != VIRTUAL or setting.processes:
        return ""
    return "swarms of real processes are smaller; no client comes as several peers, and none gives nothing"


# Claims.


def mixed(readings: dict[int, pd.Series]) -> np.ndarray:
    """Return a reading of all mixed swarms, in the order of fractions and trials."""
    return pd.DataFrame(readings).sort_index().stack().dropna().to_numpy()


def _is_greater(ours: pd.Series, auction: pd.Series) -> bool:
    """Tell whether a number is greater where all clients are PropShare's than where all are BitTorrent's."""
    return ours[1.0] > auction[0.0]


def _of_swarms(case: str, permuted: str) -> dict[str, Evidence]:
    """Make the evidence for the claims that need mixed, pure and permuted swarms."""
    ratio = Evidence("ratio", case, control=permuted, how=mixed, pooled=True)
    return {
        "faster-than-bittorrent": replace(ratio, how=lambda readings: mixed(readings) < 1, counted=True),
        "competitive": ratio,
        "uploads-no-more": replace(ratio, reading="sent_ratio"),
        "rewards-contribution": Evidence("rank", (case, case), control=(permuted, case), how=_is_greater, counted=True),
    }


def _of_sybil(fraction: float) -> Evidence:
    return Evidence("attacker_s", (SYBIL_1, SYBIL_4), how=lambda alone, several: alone[fraction] / several[fraction])


CLAIMS = _of_swarms(FIGURE_8, PERMUTED) | {
    "sybil-gains-nothing": replace(_of_sybil(1.0), control=_of_sybil(0.0)),
    "free-riders-pay": Evidence(
        "rider_cost", (RIDERS, RIDERS), control=(RIDERS_PERMUTED, RIDERS), how=_is_greater, counted=True
    ),
}


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table, values = comparison(runs), of_trials(runs, "ratio")
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
    "quick": Scale(repetitions=6),
    "paper": Scale(changes={"leechers": 100}),
    "test": Scale(repetitions=2, changes={"leechers": 10}),
}
BASELINES = (0.0, 0.2, 0.4, 0.8)
RESERVES = (0.05, 0.1, 0.2, 0.4)
PAIRED = {"paired": True}
SYBIL = PAIRED | {"identities": swept(1, 2, 4, 8), "seeds_know_clients": swept(False, True)}
AMONG_RIDERS = PAIRED | {"free_riders": 0.2}


def _knob(cases: dict[str, dict[str, Any]]) -> Knob:
    return Knob(cases, KNOB_SCALES, repetitions=50)


def _half_and_half(name: str, *values: Any) -> Knob:
    """Make a knob with half of each kind; every swarm runs once more with the kinds exchanged."""
    return _knob({"half and half": PAIRED | {name: swept(*values), "swapped": swept(False, True)}})


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
    scales={
        "quick": Scale(repetitions=30, only=QUICK_ONLY, fewer=_fewer_of_processes(1), without=(PROCESSES_PERMUTED,)),
        "paper": Scale(only=PAPER_ONLY, fewer=_fewer_of_processes(6), without=(PROCESSES_PERMUTED,), **PAPER),
        "test": Scale(only={"fraction": (0.0, 0.5, 1.0)}, fewer=_fewer_of_processes(1), least_repetitions=12),
        ("quick", VIRTUAL): Scale(only=QUICK_ONLY, fewer=_fewer_of_processes(6)),
        ("paper", VIRTUAL): Scale(only=PAPER_ONLY, fewer=_fewer_of_processes(30), **PAPER),
        ("quick", BESIDE): Scale(repetitions=1, without=(PROCESSES_PERMUTED,)),
        ("paper", BESIDE): Scale(repetitions=6, without=(PROCESSES_PERMUTED,)),
    },
    claims=CLAIMS,
    on_kernels=_of_swarms(PROCESSES, PROCESSES_PERMUTED),
    knobs={
        "reserve": _half_and_half("reserve", *RESERVES),
        "lending": _half_and_half("lends", True, False),
        "serving": _half_and_half("kind", "propshare", "by chance"),
        "baseline": _half_and_half("baseline", *BASELINES),
        "baseline and Sybil": _knob(
            {"propshare": PAIRED | {"fraction": 1.0, "identities": swept(1, IDENTITIES), "baseline": swept(*BASELINES)}}
        ),
        "identities": _knob({"bittorrent": SYBIL | {"fraction": 0.0}, "propshare": SYBIL | {"fraction": 1.0}}),
        "riders": _knob(
            {
                "propshare": AMONG_RIDERS | {"fraction": 1.0, "reserve": swept(*RESERVES)},
                "bittorrent": AMONG_RIDERS | {"fraction": 0.0},
            }
        ),
    },
    figures=FIGURES,
    best=("download_time_fig8", "by_capacity", "strategies", "control"),
    play=Play(
        (FIGURE_8, PERMUTED),
        {
            "fraction": (0.0, 1.0, 0.1),
            "fastest_kilobytes_per_s": (20.0, 1000.0, 20.0),
            "pieces": (8, 192, 8),
            "free_riders": (0.0, 0.5, 0.05),
        },
        draw_run,
    ),
)
