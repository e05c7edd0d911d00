"""PropShare: Levin, LaCurts, Spring and Bhattacharjee, "BitTorrent is an Auction: Analyzing and Improving BitTorrent's
Incentives", SIGCOMM 2008, Fig. 8.

Swarms in which some clients share their upload in proportion to what they received and the others run BitTorrent's
auction: who downloads faster, who gets what it gives, and what a Sybil or a free rider gets out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from netrepro.applications.swarm.run import run_real_swarms
from netrepro.claims import Measured
from netrepro.claims.verdicts import student_interval
from netrepro.emulation.tiers import why_no_processes
from netrepro.errors import NetreproError, nearest
from netrepro.processes import in_processes
from netrepro.protocols.bittorrent.chokers import (
    Choker,
    PropShare,
    RoundRobin,
    TitForTat,
    choker,
)
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer, run_swarm
from netrepro.study import CheckedRuns, Progress, in_parallel, of_profile, seed_of, trust_by_tier
from netrepro.study.pictures import say_not_measured
from netrepro.study.setting import setting
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
    seeds_know_clients : seeds serve one identity of a Sybil alone. lends : what somebody cannot use of a PropShare
    client's upload goes to the others; without, it is lost.
    """

    leechers: int = 30
    seeds: int = 3
    seed_kilobytes_per_s: float = setting(128.0, "upload of each of the three seeds", "kB/s", low=1, high=100_000)
    slowest_kilobytes_per_s: float = 20.0
    fastest_kilobytes_per_s: float = setting(
        300.0, "upload of the fastest leecher; the slowest has 20", "kB/s", low=20, high=100_000
    )
    pieces: int = setting(48, "of 256 KiB each: how long the file is", low=1, high=10_000)
    blocks_per_piece: int = 16
    reserve: float = setting(0.2, "PropShare's part of the upload for newcomers", "ratio", low=0, high=1)
    free_riders: float = 0.0
    stays_s: float = 0.0
    round_s: float = 10.0
    optimistic_s: float = 30.0
    seeds_know_clients: bool = False
    lends: bool = True

    @property
    def file_bytes(self) -> int:
        return self.pieces * self.blocks_per_piece * BLOCK_BYTES

    @property
    def median_kilobytes_per_s(self) -> float:
        """The median upload rate of the leechers, whose rates are uniform on a logarithmic axis."""
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
    """Leechers, fractions of PropShare clients, least trials of each, and trials a value of a knob; trials of real
    processes beside the simulation, and where they are judged."""

    leechers: int
    fractions: tuple[float, ...]
    least_trials: int
    knob_trials: int
    process_trials: int = 2
    judged_process_trials: int = 6


def scale(profile: str) -> Scale:
    """Return how much a profile computes. Raises NetreproError for another profile than quick and paper."""
    scales = {
        "quick": Scale(30, (0.0, 0.25, 0.5, 0.75, 1.0), 2, 10),
        "paper": Scale(100, tuple(i / 10 for i in range(11)), 100, 50, 6, 30),
    }
    return of_profile(profile, scales)


# Swarms.


def capacities(setting: Setting, seed: int) -> list[float]:
    """Choose the upload rates of the leechers (kB/s) at random, uniform on a logarithmic axis."""
    random, low = Random(seed), setting.slowest_kilobytes_per_s
    ratio = setting.fastest_kilobytes_per_s / low
    return [low * ratio ** random.random() for _ in range(setting.leechers)]


def swarm(
    setting: Setting,
    fraction: float,
    seed: int,
    *,
    kind: str = "propshare",
    identities: int = 0,
    swapped: bool = False,
) -> list[SwarmPeer]:
    """Make seeds and leechers, of which the `fraction`, at random, run the choker `kind` and the others BitTorrent's.

    With `identities`, the first leecher is an attacker with twice the median rate, that comes as so many peers.
    `swapped`: at a fraction of one half, the two kinds change places.
    Raises NetreproError for a fraction, or a share of free riders, that is none.
    """
    for name, value in (("fraction", fraction), ("share of free riders", setting.free_riders)):
        if not 0 <= value <= 1:
            raise NetreproError(f"a {name} of {value:g}", "give 0 to 1")
    random, rates = Random(seed_of(seed, 1)), capacities(setting, seed)
    order = random.sample(range(setting.leechers), setting.leechers)
    riders = set(order[: round(setting.free_riders * setting.leechers)])
    givers = [i for i in order if i not in riders]
    ours = set(givers[::-1][: round(fraction * len(givers))] if swapped else givers[: round(fraction * len(givers))])
    peers = [SwarmPeer("seed", setting.seed_kilobytes_per_s, is_seed=True)] * setting.seeds
    for i, rate in enumerate(rates):
        own = kind if i in ours else "bittorrent"
        lends = setting.lends or own == "bittorrent"
        if identities and i == 0:
            each, client = 2 * setting.median_kilobytes_per_s / identities, "attacker"
            peers += [SwarmPeer(own, each, client, stays_s=setting.stays_s, lends=lends)] * identities
        elif i in riders:
            peers.append(SwarmPeer("free rider", 0.0, stays_s=setting.stays_s))
        else:
            peers.append(SwarmPeer(own, rate, stays_s=setting.stays_s, lends=lends))
    return peers


class OneIdentity(RoundRobin):
    """A seed that knows which peers are one client's, and serves only the first of them."""

    def __init__(self, random: Random, others: frozenset[int], *, round_s: float, turn_s: float):
        super().__init__(random, round_s=round_s, turn_s=turn_s)
        self.others = others

    def decide(self, now_s: float, interested: Sequence, received_bytes: Mapping) -> dict:
        """See Choker."""
        return super().decide(now_s, [peer for peer in interested if peer not in self.others], received_bytes)


def make_choker(setting: Setting, identities: int, kind: str, random: Random) -> Choker:
    """Make the choker of a kind with the setting's constants; `identities` of the attacker, see `swarm`."""
    own = constants(setting).get(kind, {})
    if kind == "seed":
        others = range(setting.seeds + 1, setting.seeds + identities) if setting.seeds_know_clients else ()
        return OneIdentity(random, frozenset(others), **own)
    return choker(kind, random, **own)


def constants(setting: Setting) -> dict[str, dict[str, float]]:
    """Return the constants that each kind of choker gets."""
    rounds = {"round_s": setting.round_s, "optimistic_s": setting.optimistic_s}
    return {
        "bittorrent": rounds,
        "seed": {"round_s": setting.round_s, "turn_s": setting.optimistic_s},
    } | dict.fromkeys(("propshare", "permuted"), rounds | {"reserve": setting.reserve})


def run_one(setting: Setting, fraction: float, seed: int, **more: Any) -> tuple[pd.DataFrame, dict[str, float]]:
    """Run one swarm. Returns its leechers, one row for each client (kind, upload_kilobytes_per_s, complete_s,
    sent_bytes), and what its checks found."""
    peers = swarm(setting, fraction, seed, **more)
    found = run_swarm(
        peers,
        seed,
        pieces=setting.pieces,
        blocks_per_piece=setting.blocks_per_piece,
        make_choker=partial(make_choker, setting, more.get("identities", 0)),
    )
    return clients_of(found), checks_of(found)


def checks_of(found: pd.DataFrame) -> dict[str, float]:
    """Compute what is checked in every swarm, see BOUNDS."""
    able = 1e3 * found["upload_kilobytes_per_s"] * found["present_s"]
    return {
        "clients that did not complete": float(found["complete_s"][~found.is_seed].isna().sum()),
        "bytes received less bytes sent": float(found["received_bytes"].sum() - found["sent_bytes"].sum()),
        "bytes beyond a peer's rate, in blocks": float(((found["sent_bytes"] - able) / BLOCK_BYTES).max()),
        "share of the upload that is used": float(found["sent_bytes"].sum() / able.sum()),
    }


def clients_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return the leechers of a swarm, a row for each client."""
    clients = (
        found[~found.is_seed]
        .groupby("client", sort=False)
        .agg(
            kind=("kind", "first"),
            upload_kilobytes_per_s=("upload_kilobytes_per_s", "sum"),
            complete_s=("complete_s", "first"),
            sent_bytes=("sent_bytes", "sum"),
        )
    )
    return clients.reset_index()


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


def measure(scale: Scale, trials: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> Runs:
    """Measure every case, with `trials` swarms, or the scale's least, of each. Pure swarms of the same trial are of the
    same capacities, whatever clients run there."""
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
        (f"sybil, {count}", setting, fraction, {"identities": count})
        for count in (1, IDENTITIES)
        for fraction in BETWEEN
    ]
    work += [(name, case, 0.5, {}) for name, case in CLASS_CASES.items() if name != "ours"]
    return _all(work, trials, seed, progress)


def _all(work: Sequence[tuple[str, Setting, float, dict]], trials: int, seed: int, progress: Progress) -> Runs:
    def one(place: int, trial: int) -> tuple[pd.DataFrame, dict[str, Any]]:
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
    """Compute the mean of a column by fraction and trial (rows) and kind (columns)."""
    rows = runs.clients[runs.clients.case == case]
    return rows.pivot_table(index=["fraction", "trial"], columns="kind", values=column)


def ratios(runs: Runs, case: str = "figure 8", column: str = "complete_s") -> pd.Series:
    """Divide PropShare's mean by BitTorrent's of the same swarm, by fraction and trial of mixed swarms."""
    means = _means(runs, case, column).dropna(subset=["bittorrent"])
    kind = "permuted" if case == "permuted" else "propshare"
    return (means[kind] / means["bittorrent"]).dropna()


def comparison(runs: Runs, case: str = "figure 8") -> pd.DataFrame:
    """Compare every mixed fraction: trials, mean times (s), their ratio with its 95 % interval, the share of trials in
    which PropShare's are faster, and the probability of as clear a difference by chance (Wilcoxon's signed ranks)."""
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
    """Compute Spearman's correlation of upload capacity and download rate over the clients of a swarm, by trial."""
    rows = runs.clients[(runs.clients.case == case) & (runs.clients.fraction == fraction)]
    return pd.Series(
        {
            trial: stats.spearmanr(each["upload_kilobytes_per_s"], 1 / each["complete_s"]).statistic
            for trial, each in rows.groupby("trial")
        }
    )


def sybil_gain(runs: Runs, fraction: float) -> pd.Series:
    """Divide the attacker's time as one peer by that as IDENTITIES peers, by trial; all others run one choker."""
    rows = runs.clients[(runs.clients.client == "attacker") & (runs.clients.fraction == fraction)]
    times = rows.pivot_table(index="trial", columns="case", values="complete_s")
    return times["sybil, 1"] / times[f"sybil, {IDENTITIES}"]


def free_rider_cost(runs: Runs, case: str, fraction: float) -> pd.Series:
    """Divide free riders' mean time by the contributors', by trial."""
    means = _means(runs, case).loc[fraction].dropna(axis=1)
    return means["free rider"] / means.drop(columns="free rider").mean(axis=1)


def class_table(runs: Runs, trials: int = 3) -> pd.DataFrame:
    """Summarise experiments of so many trials at a fraction of one half: mean times, the ratio and its interval over
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
    """Return one measurement for each claim of data/propshare/claims.yaml."""
    cheap = free_rider_cost(runs, "free riders", 0.0)
    values = _of_figure_8(runs) | {
        "sybil-gains-nothing": {"values": list(sybil_gain(runs, 1.0)), "control": list(sybil_gain(runs, 0.0))},
        "free-riders-pay": _count(
            free_rider_cost(runs, "free riders", 1.0) > cheap,
            free_rider_cost(runs, "free riders, permuted", 1.0) > cheap,
        ),
    }
    return [Measured(claim=claim, **found, **runs.trust) for claim, found in values.items()]


def claims_on(tier: str, runs: Runs, real: RealRuns) -> list[Measured]:
    """Return the claims that the tier measured. Among real processes no client comes as several peers and none gives
    nothing, so that they measure fewer than simulated swarms."""
    if tier == "simulated":
        return measured_claims(runs)
    return [Measured(claim=claim, **found, **real.trust) for claim, found in _of_figure_8(real).items()]


def _count(holds: pd.Series, broken: pd.Series) -> dict[str, Any]:
    return {
        "successes": int(holds.sum()),
        "trials": len(holds),
        "control_successes": int(broken.sum()),
        "control_trials": len(broken),
    }


def _of_figure_8(runs: Runs) -> dict[str, dict[str, Any]]:
    """Return the measured values of the claims that need mixed, pure and permuted swarms."""
    auction = rank_correlation(runs, "figure 8", 0.0)
    return {
        "faster-than-bittorrent": _count(ratios(runs) < 1, ratios(runs, "permuted") < 1),
        "competitive": {"values": list(ratios(runs)), "control": list(ratios(runs, "permuted"))},
        "uploads-no-more": {
            "values": list(ratios(runs, column="sent_bytes")),
            "control": list(ratios(runs, "permuted", "sent_bytes")),
        },
        "rewards-contribution": _count(
            rank_correlation(runs, "figure 8", 1.0) > auction, rank_correlation(runs, "permuted", 1.0) > auction
        ),
    }


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table, values = comparison(runs), ratios(runs)
    low, high = student_interval(list(values))
    correlation = [rank_correlation(runs, "figure 8", fraction).mean() for fraction in BETWEEN]
    gain = [sybil_gain(runs, fraction).mean() for fraction in BETWEEN]
    return (
        f"In {len(values)} swarms of both kinds PropShare's clients take {values.mean():.3f} times as long as "
        f"BitTorrent's ({low:.3f} to {high:.3f}; faster in {100 * (values < 1).mean():.0f} %, mean times "
        f"{table['PropShare (s)'].mean():.0f} and {table['BitTorrent (s)'].mean():.0f} s); what a client gives decides "
        f"more of what it gets (rank correlation {correlation[1]:.2f} against {correlation[0]:.2f}), and a Sybil of "
        f"{IDENTITIES} is {gain[1]:.2f} times as fast as one peer, among BitTorrent's {gain[0]:.2f} times."
    )


# Real processes.

PROCESSES: dict[str, Any] = {"leechers": 17, "pieces": 8}  # with three seeds 20 peers
SIMULATED_DRAWS = 10  # of each swarm of processes
# At most, in every swarm of processes: two blocks that count as sent may still wait in a peer's sockets.
REAL_BOUNDS = {
    "clients that did not complete": 0.0,
    "files that are not right": 0.0,
    "bytes beyond a peer's rate, in blocks": 2.0,
}


@dataclass(frozen=True)
class RealRuns(Runs):
    """Swarms of real processes, and `simulated`: SIMULATED_DRAWS of each, with the same peers (`draw`, and the columns
    of clients). `why` says why there are none."""

    simulated: pd.DataFrame
    why: str = ""


def measure_processes(
    scale: Scale, seed: int, *, setting: Setting = PRINTED, tier: str = "simulated", progress: Progress = iter
) -> RealRuns:
    """Measure swarms of processes on the virtual kernel, of PROCESSES' size: all BitTorrent's, half of each, all
    PropShare's, and the same permuted where they are judged. Those of a trial have the same capacities.

    Nothing, with the reason, where there is no such kernel.
    """
    setting, names = replace(setting, **PROCESSES), ("case", "check", "value", "bound", "holds")
    if why := why_no_processes():
        none = pd.DataFrame(columns=["case", "fraction", "trial", "kind", "upload_kilobytes_per_s", "complete_s"])
        return RealRuns(none, pd.DataFrame(columns=names), none.assign(draw=[]), why)
    is_judged = tier == "virtual"
    kinds = [("figure 8", "propshare", fraction) for fraction in (0.0, 0.5, 1.0)]
    kinds += [("permuted", "permuted", fraction) for fraction in (0.5, 1.0)] if is_judged else []

    def one(trial: int) -> tuple[pd.DataFrame, pd.DataFrame, list[tuple]]:
        own, lengths = seed_of(seed, trial), {"pieces": setting.pieces, "blocks_per_piece": setting.blocks_per_piece}
        swarms = [swarm(setting, fraction, own, kind=kind) for _, kind, fraction in kinds]
        tables, simulated, checks = [], [], []
        real = run_real_swarms(swarms, constants(setting), own, **lengths)
        for (case, _, fraction), peers, found in zip(kinds, swarms, real, strict=True):
            label = {"case": case, "fraction": fraction, "trial": trial}
            tables.append(clients_of(found).assign(**label))
            for draw in range(SIMULATED_DRAWS):
                drawn = run_swarm(peers, seed_of(own, draw), **lengths, make_choker=partial(make_choker, setting, 0))
                simulated.append(clients_of(drawn).assign(draw=draw, **label))
            seen = checks_of(found) | {"files that are not right": float((~found["is_right"]).sum())}
            for check, most in REAL_BOUNDS.items():
                checks.append((case, f"processes: {check}", seen[check], most, seen[check] <= most))
        return pd.concat(tables), pd.concat(simulated), checks

    work = [(trial,) for trial in range(scale.judged_process_trials if is_judged else scale.process_trials)]
    tables, simulated, checks = zip(*in_parallel(one, work, progress=progress), strict=True)
    return RealRuns(
        pd.concat(tables, ignore_index=True),
        pd.DataFrame([check for each in checks for check in each], columns=names),
        pd.concat(simulated, ignore_index=True),
    )


def checks(runs: Runs, real: RealRuns) -> pd.DataFrame:
    """Return the trust table of the simulated swarms and, where there are any, of the processes."""
    return trust_by_tier({"simulated": runs, "virtual": real})


def tier_table(real: RealRuns) -> pd.DataFrame:
    """Return a row for each fraction and kind: mean times (s) of the processes and of the simulated swarms with the
    same peers, their ratio; and the standard deviation of that ratio over draws of the simulation alone (one draw over
    their mean)."""
    rows, drawn = [], real.simulated[real.simulated.case == "figure 8"]
    for (fraction, kind), found in real.clients[real.clients.case == "figure 8"].groupby(["fraction", "kind"]):
        theirs = drawn[(drawn.fraction == fraction) & (drawn.kind == kind)]
        ours_s, theirs_s = found["complete_s"].mean(), theirs["complete_s"].mean()
        spread = (theirs.groupby("draw")["complete_s"].mean() / theirs_s).std()
        rows.append((fraction, kind, found["trial"].nunique(), ours_s, theirs_s, ours_s / theirs_s, spread))
    names = ["fraction", "kind", "swarms", "virtual_s", "simulated_s", "ratio", "by chance"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


# Knobs.

KNOBS: dict[str, tuple[str, tuple[float, ...]]] = {
    "pieces": ("pieces of the file", (12, 48, 192)),
    "reserve": ("PropShare's reserve for newcomers", (0.05, 0.1, 0.2, 0.4)),
    "free_riders": ("share of free riders", (0.0, 0.2, 0.4)),
    "stays_s": ("time as a seed after the download (s)", (0.0, 15.0, 60.0)),
}


def vary(name: str, scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> pd.DataFrame:
    """Measure PropShare's mean time over BitTorrent's, half of each, as one number of the setting goes over KNOBS.

    Every trial is a swarm and the same with the kinds in each other's places, whose ratios are averaged: which of them
    had the faster peers by chance does not matter. Returns value, trial, ratio. Raises NetreproError for another name.
    """
    if name not in KNOBS:
        raise NetreproError(f"no knob {name!r}", nearest(name, KNOBS))
    values = KNOBS[name][1]

    def one(value: float, trial: int) -> tuple[float, int, float]:
        own = replace(setting, leechers=scale.leechers, **{name: type(getattr(setting, name))(value)})
        logs = []
        for swapped in (False, True):
            clients, _ = run_one(own, 0.5, seed_of(seed, trial), swapped=swapped)
            means = clients.groupby("kind")["complete_s"].mean()
            logs.append(np.log(means["propshare"] / means["bittorrent"]))
        return value, trial, float(np.exp(np.mean(logs)))

    work = [(value, trial) for value in values for trial in range(scale.knob_trials)]
    rows = in_processes(one, work, progress, at_a_time=10)
    return pd.DataFrame(rows, columns=["value", "trial", "ratio"])


def vary_lending(scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> pd.DataFrame:
    """Measure PropShare beside BitTorrent, half of each, where an unused share goes to others and where it is lost.

    Every trial is two swarms as in `vary`. A row a value of lends: time and sent, PropShare's means over BitTorrent's
    of the same swarm, each with the ends of its 95 % interval; used, the share of all upload rates.
    """

    def one(lends: bool, trial: int) -> tuple[bool, float, float, float]:
        own, found = replace(setting, leechers=scale.leechers, lends=lends), []
        for swapped in (False, True):
            clients, checks = run_one(own, 0.5, seed_of(seed, trial), swapped=swapped)
            means = clients.groupby("kind")[["complete_s", "sent_bytes"]].mean()
            used = checks["share of the upload that is used"]
            found.append((*np.log(means.loc["propshare"] / means.loc["bittorrent"]), used))
        time, sent, used = np.mean(found, axis=0)
        return lends, float(np.exp(time)), float(np.exp(sent)), float(used)

    work = [(lends, trial) for lends in (True, False) for trial in range(scale.knob_trials)]
    table = pd.DataFrame(in_processes(one, work, progress, at_a_time=10), columns=["lends", "time", "sent", "used"])
    rows = {}
    for lends, own in table.groupby("lends", sort=False):
        rows[lends] = {"used": own["used"].mean()}
        for what in ("time", "sent"):
            low, high = student_interval(list(own[what]))
            rows[lends] |= {what: own[what].mean(), f"{what}_low": low, f"{what}_high": high}
    return pd.DataFrame(rows).T.rename_axis("lends")


def vary_identities(scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> pd.DataFrame:
    """Measure the attacker's time as one peer over that as several, where all others are of one kind, and seeds serve
    every identity or one of a client alone. Returns others, seeds_know_clients, identities, trial, gain."""
    counts = (1, 2, 4, 8)

    def one(fraction: float, known: bool, trial: int) -> list[tuple]:
        own = replace(setting, leechers=scale.leechers, seeds_know_clients=known)
        times = []
        for count in counts:
            clients, _ = run_one(own, fraction, seed_of(seed, trial), identities=count)
            times.append(float(clients.set_index("client").loc["attacker", "complete_s"]))
        others = "propshare" if fraction else "bittorrent"
        return [(others, known, count, trial, times[0] / time) for count, time in zip(counts, times, strict=True)]

    work = [
        (fraction, known, trial)
        for fraction in BETWEEN
        for known in (False, True)
        for trial in range(scale.knob_trials)
    ]
    rows = [row for rows in in_processes(one, work, progress, at_a_time=10) for row in rows]
    return pd.DataFrame(rows, columns=["others", "seeds_know_clients", "identities", "trial", "gain"])


def vary_reserve(scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> pd.DataFrame:
    """Measure what free riders pay over PropShare's reserve; a reserve of NaN is BitTorrent.

    Returns reserve, trial, cost (their time over the contributors').
    """

    def one(reserve: float, trial: int) -> tuple[float, int, float]:
        own = replace(setting, leechers=scale.leechers, free_riders=0.2, reserve=reserve)
        fraction = 1.0
        if np.isnan(reserve):
            own, fraction = replace(own, reserve=setting.reserve), 0.0
        clients, _ = run_one(own, fraction, seed_of(seed, trial))
        is_rider = clients["kind"] == "free rider"
        cost = clients["complete_s"][is_rider].mean() / clients["complete_s"][~is_rider].mean()
        return reserve, trial, float(cost)

    values = (*KNOBS["reserve"][1], float("nan"))
    work = [(reserve, trial) for reserve in values for trial in range(scale.knob_trials)]
    rows = in_processes(one, work, progress, at_a_time=10)
    return pd.DataFrame(rows, columns=["reserve", "trial", "cost"])


def vary_sybil(
    scale: Scale,
    seed: int,
    *,
    pieces: Sequence[int] = (48, 192),
    reserves: Sequence[float] = (0.05, 0.2),
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Measure what a Sybil gains where seeds serve each client once, over the file's length and PropShare's reserve
    (NaN: BitTorrent).

    Returns pieces, reserve, trial, gain (time as one peer over that as IDENTITIES).
    """

    def one(count: int, reserve: float, trial: int) -> tuple[int, float, int, float]:
        own = replace(setting, leechers=scale.leechers, pieces=count, seeds_know_clients=True, reserve=reserve)
        fraction = 1.0
        if np.isnan(reserve):
            own, fraction = replace(own, reserve=setting.reserve), 0.0
        times = []
        for identities in (1, IDENTITIES):
            clients, _ = run_one(own, fraction, seed_of(seed, trial), identities=identities)
            times.append(float(clients.set_index("client").loc["attacker", "complete_s"]))
        return count, reserve, trial, times[0] / times[1]

    work = [
        (count, reserve, trial)
        for count in sorted(pieces, reverse=True)
        for reserve in (*reserves, float("nan"))
        for trial in range(scale.knob_trials)
    ]
    rows = in_processes(one, work, progress, at_a_time=5)
    return pd.DataFrame(rows, columns=["pieces", "reserve", "trial", "gain"])


# Figures.


def _bars(axis: Any, x: Sequence[float] | np.ndarray, values: Sequence[pd.Series], look: str, **more: Any) -> None:
    """Draw means with their 95 % intervals, joined by a line."""
    means = np.array([each.mean() for each in values])
    ends = np.array([student_interval(list(each)) for each in values]).T
    own = scheme(look)
    axis.errorbar(
        x, means, abs(ends - means), color=own.colour, marker=own.marker, capsize=3, **({"label": own.label} | more)
    )


def draw_idea() -> Figure:
    """Draw what four peers sent, and what they get back: by the auction, and in proportion."""
    names = list(EXAMPLE_BYTES)
    received = {name: float(value) for name, value in EXAMPLE_BYTES.items()}
    others = [*names, "E", "F"]
    shares = {
        "bittorrent": TitForTat(Random(3)).decide(0, others, received),
        "propshare": PropShare(Random(2)).decide(0, others, received),
    }
    figure, axis = new_figure("Six peers want something", "who sent how much", "share of the upload (%)")
    for i, (kind, each) in enumerate(shares.items()):
        own = scheme(kind)
        place = np.arange(len(others)) + 0.4 * i - 0.2
        bars = axis.bar(place, [100 * each.get(n, 0) for n in others], 0.38, color=own.colour, label=own.label)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set_xticks(range(len(others)), [f"{name}: {EXAMPLE_BYTES.get(name, 0)}" for name in others])
    axis.legend()
    return figure


def draw_swarm(setting: Setting = PRINTED, seed: int = 1) -> Figure:
    """Draw upload rates of the peers of a mixed swarm, sorted."""
    peers = sorted(swarm(setting, 0.5, seed_of(seed, 0)), key=lambda peer: peer.upload_kilobytes_per_s)
    title = f"{setting.leechers} leechers and {setting.seeds} seeds, {setting.file_bytes / 1e6:.1f} MB"
    figure, axis = new_figure(title, "peers, sorted", "upload rate (kB/s)")
    colours = {"seed": "#999999"} | {kind: scheme(kind).colour for kind in ("bittorrent", "propshare", "free rider")}
    for kind in dict.fromkeys(peer.kind for peer in peers):
        places = [i for i, peer in enumerate(peers) if peer.kind == kind]
        label = "seed" if kind == "seed" else scheme(kind).label
        axis.bar(places, [peers[i].upload_kilobytes_per_s for i in places], color=colours[kind], label=label)
    axis.legend()
    return figure


def draw_figure_8(runs: Runs) -> Figure:
    """Draw Fig. 8: mean download time of both kinds of clients over the fraction of PropShare's, 95 % intervals."""
    figure, axis = new_figure(
        "Download time in mixed swarms (Fig. 8)", "fraction of PropShare clients", "mean download time (s)"
    )
    axis.axhspan(*PUBLISHED_RANGE_S, color=PUBLISHED_GREY, alpha=0.15, linewidth=0, label="range of the published axis")
    means = _means(runs, "figure 8")
    for kind, shift in (("bittorrent", -0.004), ("propshare", 0.004)):
        found = means[kind].dropna().groupby("fraction")
        _bars(axis, [fraction + shift for fraction, _ in found], [values for _, values in found], kind)
    axis.set_ylim(0, 1.1 * PUBLISHED_RANGE_S[1])
    axis.legend(loc="lower center", ncols=3, fontsize=9)
    return figure


def draw_ratio(runs: Runs) -> Figure:
    """Draw PropShare's time over BitTorrent's at every mixed fraction: every trial a point, mean with its interval, and
    the mean of three trials, as the paper took them."""
    figure, axis = new_figure(
        "The same swarms, trial by trial", "fraction of PropShare clients", "PropShare's time / BitTorrent's"
    )
    found = list(ratios(runs).groupby("fraction"))
    width = min(0.1, 0.4 * float(np.min(np.diff([f for f, _ in found])))) if len(found) > 1 else 0.1
    for i, (fraction, values) in enumerate(found):
        places = fraction + np.linspace(-width, width, len(values))
        axis.plot(places, values, ".", color="#bbbbbb", zorder=1, label=None if i else "a swarm")
        threes = [values.iloc[j : j + 3].mean() for j in range(0, len(values) - 2, 3)]
        places = fraction + np.linspace(-width, width, len(threes))
        axis.plot(places, threes, "x", color="#444444", zorder=2, label=None if i else "mean of three")
    _bars(axis, [f for f, _ in found], [v for _, v in found], "propshare", label="mean of all, 95 %", linestyle="none")
    axis.axhline(1, color=scheme("bittorrent").colour)
    axis.set_ylim(top=axis.get_ylim()[1] + 0.05)
    axis.legend(ncols=3, fontsize=9, loc="upper center")
    return figure


def draw_by_capacity(runs: Runs, groups: int = 6) -> Figure:
    """Draw the mean time over upload capacity in pure swarms (left), and of either kind in mixed ones (right)."""
    figure, axes = new_figure("Who gets what it gives?", "upload capacity (kB/s)", "", columns=2, log_x=True)
    rows = runs.clients[(runs.clients.case == "figure 8")]
    pure, mixed = rows[rows.fraction.isin(BETWEEN)], rows[~rows.fraction.isin(BETWEEN)]
    edges = np.quantile(rows["upload_kilobytes_per_s"], np.linspace(0, 1, groups + 1))
    edges[0] = 0
    for axis, some, title in ((axes[0], pure, "all of one kind"), (axes[1], mixed, "in the same swarms")):
        for kind in ("bittorrent", "propshare"):
            own = some[some.kind == kind]
            found = own.groupby(pd.cut(own["upload_kilobytes_per_s"], edges), observed=True)
            centres = found["upload_kilobytes_per_s"].mean()
            # Clients of one swarm are not independent: an interval is over the trials' means.
            trials = [each.groupby(["fraction", "trial"])["complete_s"].mean() for _, each in found]
            _bars(axis, list(centres), trials, kind)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("mean download time (s)")
    axes[0].legend()
    return figure


def draw_strategies(runs: Runs) -> Figure:
    """Draw free riders' time over the contributors', and the Sybil's gain: every trial a point, means with
    intervals."""
    figure, axes = new_figure("Who does not play fair", "", "", columns=2)
    looks = ("bittorrent", "propshare", "control")
    cost = [
        free_rider_cost(runs, "free riders", 0.0),
        free_rider_cost(runs, "free riders", 1.0),
        free_rider_cost(runs, "free riders, permuted", 1.0),
    ]
    gain = [sybil_gain(runs, fraction) for fraction in BETWEEN]
    for axis, values, label in (
        (axes[0], cost, "free riders' time / contributors'"),
        (axes[1], gain, f"time as one peer / as {IDENTITIES}"),
    ):
        for i, (each, look) in enumerate(zip(values, looks, strict=False)):
            places = i + np.linspace(-0.15, 0.15, len(each))
            axis.plot(places, each, ".", color="#bbbbbb", zorder=1)
            _bars(axis, [i], [each], look)
        names = ["all others\nBitTorrent", "all others\nPropShare", "PropShare,\npermuted"][: len(values)]
        axis.set_xticks(range(len(values)), names)
        axis.set_xlim(-0.5, len(values) - 0.5)
        axis.axhline(1, color="black", linewidth=1)
        axis.set_ylabel(label)
    return figure


def draw_class(runs: Runs) -> Figure:
    """Draw the ratio that each experiment of three trials at a fraction of one half would print, by case."""
    figure, axis = new_figure("What three trials say", "PropShare's time / BitTorrent's, mean of three trials", "")
    for i, name in enumerate(CLASS_CASES):
        values = ratios(runs, "figure 8" if name == "ours" else name).loc[0.5]
        threes = [values.iloc[j : j + 3].mean() for j in range(0, len(values) - 2, 3)]
        axis.plot(threes, i + np.linspace(-0.2, 0.2, len(threes)), "x", color="#444444")
        low, high = student_interval(list(values))
        axis.errorbar(values.mean(), i, xerr=[[values.mean() - low], [high - values.mean()]], **_ALL)
    axis.plot([], [], "x", color="#444444", label="an experiment of three")
    axis.errorbar([], [], **_ALL, label="all trials, 95 %")
    axis.set_yticks(range(len(CLASS_CASES)), CLASS_CASES)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_ylim(-0.5, len(CLASS_CASES) + 0.1)
    axis.legend(ncols=2, loc="upper center")
    return figure


_ALL: dict[str, Any] = {"color": scheme("propshare").colour, "marker": "s", "capsize": 4}


def draw_control(runs: Runs) -> Figure:
    """Draw the ratio with the mechanism broken, and where there is nothing to share unequally; rank correlations."""
    figure, axes = new_figure("Broken on purpose", "", "", columns=2)
    found = {
        "as it is": (ratios(runs), "propshare"),
        "permuted": (ratios(runs, "permuted"), "control"),
        "equal\ncapacities": (ratios(runs, "equal"), "propshare"),
    }
    for i, (values, look) in enumerate(found.values()):
        _bars(axes[0], [i], [values], look)
    axes[0].set_xticks(range(len(found)), list(found))
    axes[0].axhline(1, color=scheme("bittorrent").colour)
    axes[0].set_ylabel("PropShare's time / BitTorrent's")
    rewards = {
        "BitTorrent": (rank_correlation(runs, "figure 8", 0.0), "bittorrent"),
        "PropShare": (rank_correlation(runs, "figure 8", 1.0), "propshare"),
        "permuted": (rank_correlation(runs, "permuted", 1.0), "control"),
    }
    for i, (values, look) in enumerate(rewards.values()):
        _bars(axes[1], [i], [values], look)
    axes[1].set_xticks(range(len(rewards)), list(rewards))
    axes[1].axhline(0, color="black", linewidth=1)
    axes[1].set_ylabel("rank correlation, capacity and download rate")
    for axis in axes:
        axis.set_xlim(-0.5, 2.5)
    return figure


def draw_tiers(real: RealRuns) -> Figure:
    """Draw swarms of processes and of the simulation with the same peers: mean times by fraction, and all clients'
    times."""
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=2)
    figure8, drawn = (each[each.case == "figure 8"] for each in (real.clients, real.simulated))
    for kind, shift in (("bittorrent", -0.02), ("propshare", 0.02)):
        own, ours, theirs = scheme(kind), figure8[figure8.kind == kind], drawn[drawn.kind == kind]
        for found, keys, dot, line in (
            (theirs, ["fraction", "trial", "draw"], {"marker": "_", "alpha": 0.5, "markersize": 12}, _DRAWN),
            (
                ours,
                ["fraction", "trial"],
                {"marker": own.marker, "markeredgecolor": "black", "label": own.label},
                _REAL,
            ),
        ):
            means = found.groupby(keys)["complete_s"].mean().reset_index()
            axes[0].plot(means["fraction"] + shift, means["complete_s"], linestyle="none", color=own.colour, **dot)
            axes[1].plot(np.sort(found["complete_s"]), np.linspace(0, 100, len(found)), color=own.colour, **line)
    axes[0].plot([], [], "_", color="black", markersize=12, label="simulated")
    axes[0].set(xlabel="fraction of PropShare clients", ylabel="mean download time of a swarm (s)", ylim=(0, None))
    axes[0].legend(loc="lower center", ncols=3, fontsize=9)
    axes[1].set(xlabel="download time (s)", ylabel="share of all clients (%)", xlim=(0, None))
    for label, line in (("simulated", _DRAWN), ("processes", _REAL)):
        axes[1].plot([], [], color="black", label=label, **line)
    axes[1].legend(loc="upper left", fontsize=9)
    for axis in axes if real.why else ():
        say_not_measured(axis, "virtual")
    return figure


_DRAWN: dict[str, Any] = {"linewidth": 5, "alpha": 0.35}
_REAL: dict[str, Any] = {"linewidth": 1.4}


def draw_knobs(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the ratio over each knob, side by side: name of KNOBS -> table of `vary`."""
    figure, _ = new_figure("Half PropShare, half BitTorrent", "", "", columns=len(tables))
    for axis, (name, table) in zip(figure.axes, tables.items(), strict=True):
        found = list(table.groupby("value")["ratio"])
        _bars(axis, [float(value) for value, _ in found], [values for _, values in found], "propshare")
        axis.axhline(1, color=scheme("bittorrent").colour)
        axis.set_xlabel(KNOBS[name][0])
        if name == "pieces":
            axis.set_xscale("log")
            axis.set_xticks([value for value, _ in found], [f"{value:g}" for value, _ in found])
            axis.minorticks_off()
    figure.axes[0].set_ylabel("PropShare's time / BitTorrent's")
    return figure


def draw_identities(table: pd.DataFrame) -> Figure:
    """Draw the Sybil's gain over its identities, with seeds that serve all of them and with seeds that know better."""
    figure, axis = new_figure("What a Sybil gains, and from whom", "identities", "time as one peer / as several")
    for (others, known), rows in table.groupby(["others", "seeds_know_clients"]):
        found = list(rows.groupby("identities")["gain"])
        x, values = [count for count, _ in found], [each for _, each in found]
        label = f"others {scheme(others).label}, seeds serve {'one' if known else 'all'}"
        aside = 0.06 if others == "propshare" else -0.06  # so that intervals do not hide each other
        _bars(axis, np.array(x[1:]) + aside, values[1:], others, linestyle="--" if known else "-", label=label)
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xticks(sorted(set(table["identities"]))[1:])
    axis.set_ylim(top=axis.get_ylim()[1] + 0.3)
    axis.legend(fontsize=9, handlelength=4, loc="upper left")
    return figure


def draw_reserve(riders: pd.DataFrame, sybil: pd.DataFrame) -> Figure:
    """Draw free riders' cost over the reserve (the band is BitTorrent's, 95 %), and the Sybil's gain over the file."""
    figure, axes = new_figure("Who lives on the reserve?", "", "", columns=2)
    found = list(riders.groupby("reserve")["cost"])
    _bars(axes[0], [float(value) for value, _ in found], [values for _, values in found], "propshare")
    auction = scheme("bittorrent")
    low, high = student_interval(list(riders["cost"][riders["reserve"].isna()]))
    axes[0].axhspan(low, high, color=auction.colour, alpha=0.2, linewidth=0, label=auction.label)
    axes[0].set_xlabel(KNOBS["reserve"][0])
    axes[0].set_ylabel("free riders' time / contributors'")
    for i, (reserve, rows) in enumerate(sybil.groupby("reserve", dropna=False)):
        found = list(rows.groupby("pieces")["gain"])
        look = "bittorrent" if np.isnan(reserve) else "propshare"
        label = auction.label if np.isnan(reserve) else f"PropShare, reserve {reserve:g}"
        line = "--" if i == 0 else "-"
        x = np.array([count for count, _ in found]) + 2.0 * (i - 1)  # aside, as above
        _bars(axes[1], x, [each for _, each in found], look, label=label, linestyle=line)
    axes[1].set_xlabel("pieces of the file")
    axes[1].set_xticks(sorted(set(sybil["pieces"])))
    axes[1].set_ylabel(f"time as one peer / as {IDENTITIES}, seeds serve one")
    for axis in axes:
        axis.axhline(1, color="black", linewidth=1)
        axis.legend(handlelength=4)
    return figure


def explore() -> object:
    """Show sliders for a swarm. Every client's time over its capacity is redrawn at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "fraction": widgets.FloatSlider(0.5, min=0, max=1, step=0.1, description="PropShare"),
        "fastest": widgets.FloatSlider(300, min=20, max=1000, step=20, description="fastest kB/s"),
        "pieces": widgets.IntSlider(48, min=8, max=192, step=8, description="pieces"),
        "free_riders": widgets.FloatSlider(0, min=0, max=0.5, step=0.05, description="free riders"),
        "seed": widgets.IntSlider(1, min=1, max=20, description="seed"),
    }

    def redraw(fraction: float, fastest: float, pieces: int, free_riders: float, seed: int) -> None:
        setting = replace(PRINTED, fastest_kilobytes_per_s=fastest, pieces=pieces, free_riders=free_riders)
        clients, _ = run_one(setting, fraction, seed)
        figure, axis = new_figure("One swarm", "upload capacity (kB/s)", "download time (s)")
        for kind, rows in clients.groupby("kind"):
            own = scheme(str(kind))
            label = f"{own.label}: mean {rows['complete_s'].mean():.0f} s"
            axis.plot(rows["upload_kilobytes_per_s"], rows["complete_s"], own.marker, color=own.colour, label=label)
        axis.set_ylim(bottom=0)
        axis.legend()
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
