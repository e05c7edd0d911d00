"""PropShare: Levin, LaCurts, Spring and Bhattacharjee, "BitTorrent is an Auction: Analyzing and Improving BitTorrent's
Incentives", SIGCOMM 2008, Fig. 8.

Swarms in which some clients share their upload in proportion to what they received and the others run BitTorrent's
auction: who downloads faster, who gets what it gives, and what a Sybil or a free rider gets out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from netrepro.claims import Measured
from netrepro.claims.verdicts import student_interval
from netrepro.errors import NetreproError
from netrepro.papers._runs import CheckedRuns, Progress, of_profile, seed_of
from netrepro.processes import in_processes
from netrepro.protocols.bittorrent.chokers import Choker, PropShare, RoundRobin, TitForTat, choker
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer, run_swarm
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

PUBLISHED_RANGE_S = (125.0, 225.0)  # of Fig. 8's vertical axis, as a class report gives it
IDENTITIES = 4  # of the Sybil
EXAMPLE_BYTES = {"A": 9, "B": 6, "C": 4, "D": 1}  # for the picture of the idea
BETWEEN = (0.0, 1.0)  # of pure swarms


@dataclass(frozen=True)
class Setting:
    """A swarm. The paper's numbers of peers, capacities and file were not at hand: these are ours, and the file is so
    long that times lie in the range of Fig. 8.

    free_riders : their share of the leechers. stays_s : how long a leecher serves on after its download.
    """

    leechers: int = 30
    seeds: int = 3
    seed_kilobytes_per_s: float = 128.0
    slowest_kilobytes_per_s: float = 20.0
    fastest_kilobytes_per_s: float = 300.0
    pieces: int = 48
    blocks_per_piece: int = 16
    reserve: float = 0.2
    free_riders: float = 0.0
    stays_s: float = 0.0
    round_s: float = 10.0
    optimistic_s: float = 30.0

    @property
    def file_bytes(self) -> int:
        return self.pieces * self.blocks_per_piece * BLOCK_BYTES

    @property
    def median_kilobytes_per_s(self) -> float:
        """Of the leechers, whose upload rates are uniform on a logarithmic axis."""
        return float(np.sqrt(self.slowest_kilobytes_per_s * self.fastest_kilobytes_per_s))


PRINTED = Setting()
NO_CAP_KILOBYTES_PER_S = 8_000.0  # 64 Mb/s: about what the class's smallest cloud machines send
CLASS = replace(
    PRINTED,
    leechers=12,
    pieces=256,
    blocks_per_piece=1,
    seed_kilobytes_per_s=NO_CAP_KILOBYTES_PER_S,
    slowest_kilobytes_per_s=NO_CAP_KILOBYTES_PER_S,
    fastest_kilobytes_per_s=NO_CAP_KILOBYTES_PER_S,
    round_s=2.0,
    optimistic_s=5.0,
)
CLASS_CASES = {
    "class, no cap": CLASS,
    "class, with upload caps": replace(
        CLASS,
        **{
            name: getattr(PRINTED, name)
            for name in ("seed_kilobytes_per_s", "slowest_kilobytes_per_s", "fastest_kilobytes_per_s")
        },
    ),
    "ours": PRINTED,
}


@dataclass(frozen=True)
class Scale:
    """Leechers, fractions of PropShare clients, least trials of each, and trials a value of a knob."""

    leechers: int
    fractions: tuple[float, ...]
    least_trials: int
    knob_trials: int


def scale(profile: str) -> Scale:
    """How much is computed. Raises NetreproError for another profile than quick and paper."""
    scales = {
        "quick": Scale(30, (0.0, 0.25, 0.5, 0.75, 1.0), 2, 10),
        "paper": Scale(100, tuple(i / 10 for i in range(11)), 100, 50),
    }
    return of_profile(profile, scales)


# Swarms.


def capacities(setting: Setting, seed: int) -> list[float]:
    """Upload rates of the leechers (kB/s), uniform on a logarithmic axis."""
    random, low = Random(seed), setting.slowest_kilobytes_per_s
    ratio = setting.fastest_kilobytes_per_s / low
    return [low * ratio ** random.random() for _ in range(setting.leechers)]


def swarm(setting: Setting, fraction: float, seed: int, *, kind: str = "propshare", identities: int = 0) -> list[SwarmPeer]:
    """Seeds and leechers, of which the `fraction`, at random, run the choker `kind` and the others BitTorrent's.

    With `identities`, the first leecher is an attacker with twice the median rate, that comes as so many peers.
    Raises NetreproError for a fraction, or a share of free riders, that is none.
    """
    for name, value in (("fraction", fraction), ("share of free riders", setting.free_riders)):
        if not 0 <= value <= 1:
            raise NetreproError(f"a {name} of {value:g}", "give 0 to 1")
    random, rates = Random(seed_of(seed, 1)), capacities(setting, seed)
    order = random.sample(range(setting.leechers), setting.leechers)
    riders = set(order[: round(setting.free_riders * setting.leechers)])
    givers = [i for i in order if i not in riders]
    ours = set(givers[: round(fraction * len(givers))])
    peers = [SwarmPeer("seed", setting.seed_kilobytes_per_s, is_seed=True)] * setting.seeds
    for i, rate in enumerate(rates):
        own = kind if i in ours else "bittorrent"
        if identities and i == 0:
            each = 2 * setting.median_kilobytes_per_s / identities
            peers += [SwarmPeer(own, each, client="attacker", stays_s=setting.stays_s)] * identities
        elif i in riders:
            peers.append(SwarmPeer("free rider", 0.0, stays_s=setting.stays_s))
        else:
            peers.append(SwarmPeer(own, rate, stays_s=setting.stays_s))
    return peers


def make_choker(setting: Setting, kind: str, random: Random) -> Choker:
    """The choker of a kind with the setting's constants."""
    times = {"round_s": setting.round_s, "optimistic_s": setting.optimistic_s}
    if kind == "bittorrent":
        return TitForTat(random, **times)
    if kind == "seed":
        return RoundRobin(random, round_s=setting.round_s, turn_s=setting.optimistic_s)
    if kind in ("propshare", "permuted"):
        return type(choker(kind, random))(random, reserve=setting.reserve, **times)  # type: ignore[call-arg]
    return choker(kind, random)


def run_one(setting: Setting, fraction: float, seed: int, **more: Any) -> tuple[pd.DataFrame, dict[str, float]]:
    """One swarm: its leechers, one row a client (kind, upload_kilobytes_per_s, complete_s, sent_bytes), and what its
    checks found."""
    peers = swarm(setting, fraction, seed, **more)
    found = run_swarm(
        peers,
        seed,
        pieces=setting.pieces,
        blocks_per_piece=setting.blocks_per_piece,
        make_choker=partial(make_choker, setting),
    )
    leechers = found[~found.is_seed]
    able = 1e3 * found["upload_kilobytes_per_s"] * found["present_s"]
    checks = {
        "clients that did not complete": float(leechers["complete_s"].isna().sum()),
        "bytes received less bytes sent": float(found["received_bytes"].sum() - found["sent_bytes"].sum()),
        "bytes beyond a peer's rate, in blocks": float(((found["sent_bytes"] - able) / BLOCK_BYTES).max()),
        "share of the upload that is used": float(found["sent_bytes"].sum() / able.sum()),
    }
    clients = leechers.groupby("client", sort=False).agg(
        kind=("kind", "first"),
        upload_kilobytes_per_s=("upload_kilobytes_per_s", "sum"),
        complete_s=("complete_s", "first"),
        sent_bytes=("sent_bytes", "sum"),
    )
    return clients.reset_index(), checks


# What must hold in every trial: (at most, at least). A cap binds when most of what could be sent is sent.
BOUNDS = {
    "clients that did not complete": (0.0, None),
    "bytes received less bytes sent": (0.0, None),
    "bytes beyond a peer's rate, in blocks": (1.0, None),
    "share of the upload that is used": (None, 0.5),
}


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All trials. clients : case, fraction, trial, client, kind, upload_kilobytes_per_s, complete_s, sent_bytes.
    fidelity : case, check, value (the worst of all trials), bound, holds.

    Cases: "figure 8" and "permuted" (its control) over the fractions; "equal", with equal capacities; "free riders" and
    "free riders, permuted"; "sybil, 1" and "sybil, 4" by the attacker's identities; those of CLASS_CASES but ours.
    """

    clients: pd.DataFrame
    fidelity: pd.DataFrame


def measure(
    scale: Scale, trials: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """Every case, with `trials` swarms, or the scale's least, of each. Pure swarms of the same trial are of the same
    capacities, whatever clients run there."""
    setting = replace(setting, leechers=scale.leechers)
    trials = max(trials, scale.least_trials)
    equal = replace(
        setting,
        slowest_kilobytes_per_s=setting.median_kilobytes_per_s,
        fastest_kilobytes_per_s=setting.median_kilobytes_per_s,
    )
    riders = replace(setting, free_riders=0.2)
    work: list[tuple[str, Setting, float, dict]] = []
    work += [("figure 8", setting, fraction, {}) for fraction in scale.fractions]
    work += [("permuted", setting, fraction, {"kind": "permuted"}) for fraction in scale.fractions if fraction]
    work += [("equal", equal, 0.5, {})]
    work += [("free riders", riders, fraction, {}) for fraction in BETWEEN]
    work += [("free riders, permuted", riders, 1.0, {"kind": "permuted"})]
    work += [
        (f"sybil, {count}", setting, fraction, {"identities": count}) for count in (1, IDENTITIES) for fraction in BETWEEN
    ]
    work += [(name, case, 0.5, {}) for name, case in CLASS_CASES.items() if name != "ours"]
    return _all(work, trials, seed, progress)


def _all(work: Sequence[tuple[str, Setting, float, dict]], trials: int, seed: int, progress: Progress) -> Runs:
    def one(place: int, trial: int) -> tuple[pd.DataFrame, dict[str, float]]:
        name, setting, fraction, more = work[place]
        # Mixed swarms have capacities of their own at every fraction, so that trials are independent.
        own = seed_of(seed, trial if fraction in BETWEEN else trial + 100_000 * round(100 * fraction))
        clients, checks = run_one(setting, fraction, own, **more)
        return clients.assign(case=name, fraction=fraction, trial=trial), {"case": name} | checks

    jobs = [(place, trial) for place in range(len(work)) for trial in range(trials)]
    found = in_processes(one, jobs, progress, at_a_time=max(1, min(20, len(jobs) // 8)))
    checks = pd.DataFrame([each for _, each in found]).groupby("case", sort=False)
    rows = []
    for check, (most, least) in BOUNDS.items():
        for case, values in checks[check]:
            if least is not None and case == "class, no cap":
                continue  # nothing binds there: that is what it shows
            value = values.max() if least is None else values.min()
            bound = most if least is None else least
            rows.append((case, check, value, bound, value <= bound if least is None else value >= bound))
    return Runs(
        pd.concat([clients for clients, _ in found], ignore_index=True),
        pd.DataFrame(rows, columns=["case", "check", "value", "bound", "holds"]),
    )


# Readings.


def _means(runs: Runs, case: str, column: str = "complete_s") -> pd.DataFrame:
    """Mean of a column by fraction and trial (rows) and kind (columns)."""
    rows = runs.clients[runs.clients.case == case]
    return rows.pivot_table(index=["fraction", "trial"], columns="kind", values=column)


def ratios(runs: Runs, case: str = "figure 8", column: str = "complete_s") -> pd.Series:
    """PropShare's mean over BitTorrent's of the same swarm, by fraction and trial of mixed swarms."""
    means = _means(runs, case, column).dropna(subset=["bittorrent"])
    kind = "permuted" if case == "permuted" else "propshare"
    return (means[kind] / means["bittorrent"]).dropna()


def comparison(runs: Runs, case: str = "figure 8") -> pd.DataFrame:
    """Every mixed fraction: trials, mean times (s), their ratio with its 95 % interval, the share of trials in which
    PropShare's are faster, and the probability of as clear a difference by chance (Wilcoxon's signed ranks)."""
    kind = "permuted" if case == "permuted" else "propshare"
    means, rows = _means(runs, case), []
    for fraction, values in ratios(runs, case).groupby("fraction"):
        low, high = student_interval(list(values))
        here = means.loc[fraction]
        rows.append(
            {
                "fraction": fraction,
                "trials": len(values),
                "PropShare (s)": here[kind].mean(),
                "BitTorrent (s)": here["bittorrent"].mean(),
                "ratio": values.mean(),
                "low": low,
                "high": high,
                "faster": (values < 1).mean(),
                "p": stats.wilcoxon(np.log(values)).pvalue,
            }
        )
    return pd.DataFrame(rows).set_index("fraction")


def rank_correlation(runs: Runs, case: str, fraction: float) -> pd.Series:
    """Spearman's correlation of upload capacity and download rate over the clients of a swarm, by trial."""
    rows = runs.clients[(runs.clients.case == case) & (runs.clients.fraction == fraction)]
    return pd.Series(
        {
            trial: stats.spearmanr(each["upload_kilobytes_per_s"], 1 / each["complete_s"]).statistic
            for trial, each in rows.groupby("trial")
        }
    )


def sybil_gain(runs: Runs, fraction: float) -> pd.Series:
    """The attacker's time as one peer over that as IDENTITIES peers, by trial; all others run one choker."""
    rows = runs.clients[(runs.clients.client == "attacker") & (runs.clients.fraction == fraction)]
    times = rows.pivot_table(index="trial", columns="case", values="complete_s")
    return times["sybil, 1"] / times[f"sybil, {IDENTITIES}"]


def free_rider_cost(runs: Runs, case: str, fraction: float) -> pd.Series:
    """Free riders' mean time over the contributors', by trial."""
    means = _means(runs, case).loc[fraction].dropna(axis=1)
    return means["free rider"] / means.drop(columns="free rider").mean(axis=1)


def class_table(runs: Runs, trials: int = 3) -> pd.DataFrame:
    """What an experiment of so many trials at a fraction of one half says: mean times, the ratio and its interval over
    all trials, and the share of such experiments in which Welch's test of all clients' times finds a difference (5 %).
    """
    rows = []
    for name in CLASS_CASES:
        case = "figure 8" if name == "ours" else name
        times = runs.clients[(runs.clients.case == case) & (runs.clients.fraction == 0.5)]
        values = ratios(runs, case).loc[0.5]
        found = []
        for first in range(0, times["trial"].max() + 2 - trials, trials):
            some = times[times["trial"].between(first, first + trials - 1)]
            by_kind = {kind: each["complete_s"] for kind, each in some.groupby("kind")}
            found.append(stats.ttest_ind(by_kind["propshare"], by_kind["bittorrent"], equal_var=False).pvalue < 0.05)
        low, high = student_interval(list(values))
        means = times.groupby("kind")["complete_s"].mean()
        rows.append(
            (name, means["propshare"], means["bittorrent"], values.mean(), low, high, len(found), np.mean(found))
        )
    columns = ["case", "PropShare (s)", "BitTorrent (s)", "ratio", "low", "high", "experiments", "find a difference"]
    return pd.DataFrame(rows, columns=columns).set_index("case")


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """One measurement a claim of data/propshare/claims.yaml."""

    def count(holds: pd.Series, broken: pd.Series) -> dict[str, Any]:
        return {
            "successes": int(holds.sum()),
            "trials": len(holds),
            "control_successes": int(broken.sum()),
            "control_trials": len(broken),
        }

    auction = rank_correlation(runs, "figure 8", 0.0)
    cheap = free_rider_cost(runs, "free riders", 0.0)
    values: dict[str, dict[str, Any]] = {
        "faster-than-bittorrent": count(ratios(runs) < 1, ratios(runs, "permuted") < 1),
        "competitive": {"values": list(ratios(runs)), "control": list(ratios(runs, "permuted"))},
        "uploads-no-more": {
            "values": list(ratios(runs, column="sent_bytes")),
            "control": list(ratios(runs, "permuted", "sent_bytes")),
        },
        "rewards-contribution": count(
            rank_correlation(runs, "figure 8", 1.0) > auction, rank_correlation(runs, "permuted", 1.0) > auction
        ),
        "sybil-gains-nothing": {"values": list(sybil_gain(runs, 1.0)), "control": list(sybil_gain(runs, 0.0))},
        "free-riders-pay": count(
            free_rider_cost(runs, "free riders", 1.0) > cheap, free_rider_cost(runs, "free riders, permuted", 1.0) > cheap
        ),
    }
    return [Measured(claim=claim, **found, **runs.trust) for claim, found in values.items()]
