"""EPaxos Revisited: Tollman, Park and Ousterhout, NSDI 2021, Fig. 7.

A key-value store at five sites of a wide-area network, ordered by EPaxos or by Multi-Paxos. Which answers sooner, in
the mean and at the 99th percentile, when some keys are popular and some commands write? Protocols run message by
message in virtual time; delays, the load and a processor's cost of a message are the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from netrepro.applications.replicas.run import run_replication
from netrepro.claims import Measured
from netrepro.emulation.tiers import why_no_processes
from netrepro.errors import NetreproError
from netrepro.networks.zipf import exact_ranks, gray_ranks, zeta
from netrepro.paths import data_dir
from netrepro.protocols.linearizability import violations
from netrepro.simulation.replication import Demand, Deployment, ReplicatedRun, simulate_replication
from netrepro.study import CheckedRuns, Progress, in_parallel, of_profile, seed_of, trust_by_tier
from netrepro.study.pictures import say_not_measured
from netrepro.study.setting import check_setting, setting
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

SLUG = "epaxos_revisited"
REGIONS = ("CA", "VA", "OR", "JP", "EU")
CLASS_REGIONS = ("OR", "EU", "VA")
LEADER, OTHER_LEADER = "CA", "EU"
LONGEST_ROUND_TRIP_MS = 220.0
# Where the authors compared TOQ, and the cell of most conflicts.
TOQ_CELLS = ((0.8, 0.5), (0.99, 1.0))
HOTTEST = (0.99, 1.0)
CLOCKS_APART_MS = 100.0
SKEWS_AS_RELEASED = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
SKEWS_OF_THE_CLASS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
WRITES_AS_RELEASED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WRITES_OF_THE_CLASS = (0.0, 0.1, *WRITES_AS_RELEASED)


@dataclass(frozen=True)
class Setting:
    """The load and the network, as the released harness has them where it says so.

    arrival_ms : mean time between a client's commands (Poisson). cap : of them under way at once.
    message_cost_us : of a replica's processor a message: with it the leader of Multi-Paxos is 80 % busy.
    jitter_ms : mean of what a message takes longer between regions; our choice.
    """

    clients_per_region: int = setting(10, "at each of the five sites", low=1, high=1000)
    cap: int = setting(10, "commands that a client has under way at most", low=1, high=1_000_000)
    arrival_ms: float = setting(4.5, "mean time between a client's commands", "ms", low=0.01, high=10_000)
    keys: int = 1_000_000
    message_cost_us: float = setting(35.0, "of a replica's processor, a message", "microseconds", low=0, high=100_000)
    jitter_ms: float = setting(0.2, "mean of what a message takes longer", "ms", low=0, high=1000)

    def __post_init__(self) -> None:
        check_setting(self)
        if self.keys < 2:
            raise NetreproError(f"keys = {self.keys}", "give two at least")


PRINTED = Setting()


@dataclass(frozen=True)
class Scale:
    """Cells of the grid (theta, share of writes), seconds before measuring, seconds measured."""

    cells: tuple[tuple[float, float], ...]
    settle_s: float
    seconds: float


def grid(skews: Iterable[float], writes: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return all cells of a grid, with both axes ascending."""
    shares = tuple(writes)
    return tuple((theta, write) for theta in skews for write in shares)


def scale(profile: str) -> Scale:
    """Return how much a profile runs. Raises NetreproError for another profile than quick and paper."""
    quick = grid((0.5, 0.7, 0.8, 0.9, 0.99), (0.1, 0.3, 0.5, 1.0))
    both = {*grid(SKEWS_AS_RELEASED, WRITES_AS_RELEASED), *grid(SKEWS_OF_THE_CLASS, WRITES_OF_THE_CLASS)}
    return of_profile(profile, {"quick": Scale(quick, 1.0, 3.5), "paper": Scale(tuple(sorted(both)), 20.0, 60.0)})


def round_trips(regions: Sequence[str] = REGIONS) -> tuple[tuple[float, ...], ...]:
    """Read the round trips between regions (ms), from data/epaxos_revisited/round_trips.csv."""
    table = pd.read_csv(data_dir(SLUG) / "round_trips.csv")
    known = {(a, b): float(ms) for a, b, ms in zip(table["from"], table["to"], table["round_trip_ms"], strict=True)}
    known |= {(b, a): ms for (a, b), ms in known.items()} | {(region, region): 0.0 for region in REGIONS}
    return tuple(tuple(known[a, b] for b in regions) for a in regions)


@dataclass(frozen=True)
class Case:
    """A protocol and what clients want of it. Where `own_keys`, no two clients share a key."""

    protocol: str = "epaxos"
    theta: float = 0.9
    writes: float = 0.5
    own_keys: bool = False
    leader: str = LEADER
    toq: str = "none"
    chain_fix: bool = True
    fast_path: bool = True
    clock_error_ms: float = 0.0  # clocks are up to so far apart


def grid_case(theta: float, writes: float, **changes: Any) -> tuple[str, Case]:
    """Return the name and the EPaxos case of a cell."""
    case = replace(Case(theta=theta, writes=writes), **changes)
    extra = "".join(f", {name}={value}" for name, value in changes.items())
    return f"theta {theta:g}, writes {writes:g}{extra}", case


def cases(scale: Scale) -> dict[str, Case]:
    """Return all that is measured: the grid, Multi-Paxos (to which keys do not matter), TOQ, and what is broken."""
    found = dict(grid_case(*cell) for cell in sorted({*scale.cells, *TOQ_CELLS}))
    found |= {"Multi-Paxos": Case("multi-paxos"), "Multi-Paxos from EU": Case("multi-paxos", leader=OTHER_LEADER)}
    found |= {"own keys": Case(own_keys=True, writes=1.0)}
    found |= {"own keys, no chain fix": Case(own_keys=True, writes=1.0, chain_fix=False)}
    found |= dict([grid_case(0.9, 0.5), grid_case(0.9, 0.5, fast_path=False), grid_case(*HOTTEST, chain_fix=False)])
    for toq in ("quorum", "union"):
        for cell in TOQ_CELLS:
            found |= dict([grid_case(*cell, toq=toq), grid_case(*cell, toq=toq, clock_error_ms=CLOCKS_APART_MS)])
    return found


def demand(case: Case, setting: Setting, stop_s: float, seed: int, clients: Sequence[str] | None = None) -> Demand:
    """Generate the commands that clients want up to stop_s. `clients`: their regions; None: as many in each region as
    the setting says.

    Keys come from Gray's generator. Where theta is 1 or more, which Gray's cannot draw, they come from the exact law.
    """
    where = tuple(np.repeat(REGIONS, setting.clients_per_region)) if clients is None else tuple(clients)
    random = np.random.default_rng(seed)
    gap_s = setting.arrival_ms / 1e3
    each = int(stop_s / gap_s + 5 * np.sqrt(stop_s / gap_s)) + 10
    arrivals = random.exponential(gap_s, (len(where), each)).cumsum(axis=1).ravel()
    uniform = random.random(len(arrivals))
    ranks = (gray_ranks if case.theta < 1 else exact_ranks)(uniform, setting.keys, case.theta)
    owners = np.repeat(np.arange(len(where)), each)
    keys = ranks * len(where) + owners if case.own_keys else ranks
    wanted = random.random(len(arrivals)) < case.writes
    sent = arrivals < stop_s
    return Demand(arrivals[sent], owners[sent], keys[sent], wanted[sent], where, setting.cap, stop_s)


def deployment(case: Case, setting: Setting, seed: int, regions: Sequence[str] = REGIONS) -> Deployment:
    """Return the replicas of a case."""
    half = case.clock_error_ms / 2
    errors = np.random.default_rng([seed, 7]).uniform(-half, half, len(regions)) if half else ()
    return Deployment(
        tuple(regions),
        round_trips(regions),
        case.protocol,
        case.leader if case.leader in regions else regions[0],
        case.chain_fix,
        case.fast_path,
        case.toq,
        clock_errors_ms=tuple(errors),
        message_cost_us=setting.message_cost_us,
        jitter_ms=setting.jitter_ms,
    )


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions.

    latencies : case, repetition, region ("all": of all commands), mean_ms, p99_ms, most_ms (execution), commit_ms
    (median), conflicts (share of commands on the slow path), per_second. tails : case, region, percentile, ms, of the
    first repetition. processors : case, repetition, region, busy_share. minima : scheme, region, least_ms, must_ms.
    fidelity : case, repetition, check, value, bound, holds.
    """

    latencies: pd.DataFrame
    tails: pd.DataFrame
    processors: pd.DataFrame
    minima: pd.DataFrame
    fidelity: pd.DataFrame


SHOWN_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9)


def measure(
    scale: Scale, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """Measure every case, over `repetitions` streams of commands; and the least latencies, without load."""
    every = cases(scale)
    work = [(name, i) for i in range(repetitions) for name in every]

    def run_one(name: str, repetition: int) -> dict[str, pd.DataFrame]:
        found = _run(every[name], setting, scale, seed_of(seed, repetition))
        found = {table: rows.assign(case=name, repetition=repetition) for table, rows in found.items()}
        return found if repetition == 0 else {name: rows for name, rows in found.items() if name != "tails"}

    found = in_parallel(run_one, work, progress=progress)
    names = [each.name for each in fields(Runs) if each.name != "minima"]
    tables = {name: pd.concat([each[name] for each in found if name in each], ignore_index=True) for name in names}
    return Runs(minima=minima(), **tables)


def _run(case: Case, setting: Setting, scale: Scale, seed: int) -> dict[str, pd.DataFrame]:
    run = simulate_replication(
        deployment(case, setting, seed), demand(case, setting, scale.settle_s + scale.seconds, seed), seed
    )
    after = _settled(run, scale.settle_s)
    tails = after.groupby("region")["ms"].quantile(np.array(SHOWN_PERCENTILES) / 100).rename_axis(["region", "share"])
    tails = tails.reset_index().assign(percentile=lambda rows: rows.share * 100).drop(columns="share")
    busy = pd.DataFrame({"region": REGIONS, "busy_share": run.busy_share})
    return {
        "latencies": summary_of(after, scale.seconds),
        "tails": tails,
        "processors": busy,
        "fidelity": _checks(run, case, after),
    }


def _settled(run: ReplicatedRun, settle_s: float) -> pd.DataFrame:
    """Return commands sent after settling, with ms (execution) and commit_ms (at the replica that leads)."""
    rows = run.commands[run.commands.sent_s >= settle_s]
    ms, commit_ms = 1e3 * (rows.answered_s - rows.sent_s), 1e3 * (rows.committed_s - rows.sent_s)
    return rows.assign(ms=ms, commit_ms=commit_ms)


def summary_of(after: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return the latencies by region and of all: the columns of Runs.latencies but case and repetition."""
    parts = [*after.groupby("region", sort=False), ("all", after)]
    return pd.DataFrame(
        [
            {
                "region": region,
                "mean_ms": rows.ms.mean(),
                "p99_ms": rows.ms.quantile(0.99),
                "most_ms": rows.ms.max(),
                "commit_ms": rows.commit_ms.median(),
                "conflicts": 1 - rows.is_fast.mean(),
                "per_second": len(rows) / seconds,
            }
            for region, rows in parts
        ]
    )


def _checks(run: ReplicatedRun, case: Case, after: pd.DataFrame, setting: Setting = PRINTED) -> pd.DataFrame:
    least = pd.Series(deployment(case, setting, 1).minimum_ms(), REGIONS)
    # Clocks that are apart may let a command be looked at too early, but never answer before the quorum can.
    short = (after.groupby("region")["ms"].min() / least.reindex(after.region.unique())).min() if len(after) else 1.0
    if case.clock_error_ms:
        short = 1.0
    rows = [
        ("keys with another order of writes somewhere", run.unlike_keys, 0, run.unlike_keys == 0),
        ("commands not executed everywhere in the end", run.unexecuted, 0, run.unexecuted == 0),
        ("keys that are not linearizable", (bad := len(violations(run.commands))), 0, bad == 0),
        ("busiest processor (share)", run.busy_share.max(), 0.95, run.busy_share.max() <= 0.95),
        ("least latency over the possible", short, 1.0, short >= 1 - 1e-9),
    ]
    return pd.DataFrame(rows, columns=["check", "value", "bound", "holds"])


SCHEMES = {
    "EPaxos": Case(own_keys=True),
    "Multi-Paxos": Case("multi-paxos"),
    "EPaxos, TOQ union": Case(own_keys=True, toq="union"),
    "EPaxos without fast path": Case(own_keys=True, fast_path=False),
    "Multi-Paxos from EU": Case("multi-paxos", leader=OTHER_LEADER),
    "EPaxos, TOQ of all": Case(own_keys=True, toq="all"),
}
# Milliseconds by region, of the authors' plotting script; the delay matrix was reconstructed from them: no claims.
PUBLISHED_MINIMA = {
    "EPaxos": (64, 64, 59, 98, 129),
    "Multi-Paxos": (64, 128, 90, 162, 201),
    "EPaxos, TOQ union": (64, 64, 59, 122, 133),
}


def _without_load(stop_s: float) -> dict[str, tuple[Deployment, Demand]]:
    """Return the schemes with demands so small that no two clients share a key and messages cost nothing."""
    idle = replace(PRINTED, clients_per_region=1, cap=1, arrival_ms=50, message_cost_us=0, jitter_ms=0)
    return {name: (deployment(case, idle, 1), demand(case, idle, stop_s, 1)) for name, case in SCHEMES.items()}


def minima(found: Mapping[str, ReplicatedRun] | None = None) -> pd.DataFrame:
    """Return the least latencies of the schemes without load, as found (default: simulated) and by arithmetic."""
    cases = _without_load(3.0)
    found = found or {name: simulate_replication(*case) for name, case in cases.items()}
    rows = []
    for name, (where, _) in cases.items():
        least, must = _settled(found[name], 0).groupby("region")["ms"].min(), where.minimum_ms()
        rows += [(name, region, least[region], must[i]) for i, region in enumerate(REGIONS)]
    return pd.DataFrame(rows, columns=["scheme", "region", "least_ms", "must_ms"])


def ratios(runs: Runs, against: str = "Multi-Paxos") -> pd.DataFrame:
    """Divide EPaxos by Multi-Paxos for each cell, repetition and region: theta, writes, mean, p99, and conflicts."""
    base = runs.latencies[runs.latencies.case == against].set_index(["repetition", "region"])
    found = []
    for name, case in _grid_of(runs).items():
        rows = runs.latencies[(runs.latencies.case == name)].set_index(["repetition", "region"])
        both = rows[["mean_ms", "p99_ms"]] / base.loc[rows.index, ["mean_ms", "p99_ms"]]
        both = both.rename(columns={"mean_ms": "mean", "p99_ms": "p99"})
        found.append(both.assign(conflicts=rows.conflicts, theta=case.theta, writes=case.writes).reset_index())
    table = pd.concat(found, ignore_index=True)
    return table[table.region != "all"]


def _grid_of(runs: Runs) -> dict[str, Case]:
    names = runs.latencies.case.unique()
    parts = {name: name.removeprefix("theta ").split(", writes ") for name in names if name.startswith("theta ")}
    return {name: Case(theta=float(a), writes=float(b)) for name, (a, b) in parts.items() if "," not in b}


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim of data/epaxos_revisited/claims.yaml."""
    table, far = ratios(runs), ratios(runs, "Multi-Paxos from EU")
    each = runs.latencies.set_index(["case", "region", "repetition"]).sort_index()
    repetitions = sorted(runs.latencies.repetition.unique())
    multi = each.loc["Multi-Paxos"].p99_ms.drop("all")
    own = (each.loc["own keys"].p99_ms.drop("all") / multi).groupby("repetition")
    hot, unfixed = grid_case(*HOTTEST)[0], grid_case(*HOTTEST, chain_fix=False)[0]

    def whole(case: str, column: str) -> list[float]:
        return list(each.loc[case].loc["all", column])

    def usual(worse: pd.Series) -> list[list[str]]:
        lower = ["Multi-Paxos", "EPaxos"]
        return [lower if share > 0.5 else lower[::-1] for share in worse]

    def needs_few(against: pd.DataFrame) -> list[float]:
        met = against[against.conflicts >= 0.01]
        return [float(rows.mean()) for _, rows in (met.p99 < 1).groupby(met.repetition)]

    def order(first: Sequence[float], second: Sequence[float]) -> list[list[str]]:
        names = ["with the fix", "without"]
        return [names if a < b else names[::-1] for a, b in zip(first, second, strict=True)]

    def commit(case: str) -> list[list[list[float]]]:
        rows = each.loc[case].commit_ms
        return [[[i + 1, rows[region, r]] for i, region in enumerate(REGIONS)] for r in repetitions]

    def toq(which: str, **apart: float) -> list[list[float]]:
        """Compute the conflicts over those without TOQ for each cell, with an entry for each repetition."""
        names = [(grid_case(*cell, toq=which, **apart)[0], grid_case(*cell)[0]) for cell in TOQ_CELLS]
        return [list(np.divide(whole(a, "conflicts"), whole(b, "conflicts"))) for a, b in names]

    def toq_mean(**apart: float) -> list[float]:
        gains = []
        for cell in TOQ_CELLS:
            held, plain = (
                each.loc[name].mean_ms.drop("all").groupby("repetition").sum()
                for name in (grid_case(*cell, toq="quorum", **apart)[0], grid_case(*cell)[0])
            )
            gains.append(held / plain)
        return list(np.min(gains, axis=0))

    apart = {"clock_error_ms": CLOCKS_APART_MS}
    longest = [[ms / LONGEST_ROUND_TRIP_MS for ms in whole(case, "most_ms")] for case in (hot, unfixed)]
    values: dict[str, tuple[Any, Any]] = {
        "median-commit": (commit(grid_case(0.9, 0.5)[0]), commit(grid_case(0.9, 0.5, fast_path=False)[0])),
        "tail-four-times": (list(table.groupby("repetition").p99.max()), list(own.max())),
        "mean-better-but-at-the-leader": (_mean_order(table), _mean_order(far)),
        "tail-usually-worse": (
            usual((table.p99 > 1).groupby(table.repetition).mean()),
            usual(own.agg(lambda ratio: (ratio > 1).mean())),
        ),
        "tail-needs-few-conflicts": (needs_few(table), needs_few(far)),
        "chain-fix": (
            order(whole(hot, "p99_ms"), whole(unfixed, "p99_ms")),
            order(whole("own keys", "p99_ms"), whole("own keys, no chain fix", "p99_ms")),
        ),
        "three-round-trips": (longest[0], longest[1]),
        "toq-conflicts": (np.max(toq("quorum"), axis=0), np.max(toq("quorum", **apart), axis=0)),
        "toq-union-conflicts": (np.max(toq("union"), axis=0), np.max(toq("union", **apart), axis=0)),
        "toq-mean": (toq_mean(), toq_mean(**apart)),
    }
    return [
        Measured(claim=claim, values=ours, control=control, **runs.trust) for claim, (ours, control) in values.items()
    ]


def claims_on(tier: str, runs: Runs, processes: Processes) -> list[Measured]:
    """Return the claims that the tier measured. Real processes measure none, as the claims want more load than they
    bear."""
    return measured_claims(runs) if tier == "simulated" else []


def _mean_order(table: pd.DataFrame) -> list[list[str]]:
    """Order the three names of the claim by relative mean latency, least first, for each repetition."""
    means = table.groupby(["repetition", "region"])["mean"].mean()
    found = []
    for _, row in means.groupby("repetition"):
        by_region = row.droplevel("repetition")
        values = {
            "EPaxos elsewhere": by_region.drop(LEADER).max(),
            "Multi-Paxos": 1.0,
            "EPaxos in CA": by_region[LEADER],
        }
        found.append(sorted(values, key=lambda name: values[name]))
    return found


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = ratios(runs)
    means = table.groupby("region")["mean"].mean()
    worst = table.loc[table.p99.idxmax()]
    return (
        f"Without a leader the mean is {100 * (1 - means.drop(LEADER).mean()):.0f} % lower outside the leader's region "
        f"(mean over the grid), but the 99th percentile is worse in {100 * (table.p99 > 1).mean():.0f} % of cells and "
        f"regions, up to {worst.p99:.1f} times in {worst.region} at theta {worst.theta:g} with "
        f"{100 * worst.writes:.0f} % writes."
    )


# Real processes.

LIGHTER = replace(PRINTED, cap=2, jitter_ms=0.0)  # a message of a real process costs real time
PROCESS_CELLS = ((0.8, 0.5), (0.9, 0.5), HOTTEST)
SAME_MS = 0.1


@dataclass(frozen=True)
class Processes(CheckedRuns):
    """Five replicas and their clients as real processes in virtual time, beside the simulator with the same commands.

    commands : case, tier, command, region, ms, commit_ms, is_fast, of those sent after settling. minima, fidelity : the
    same tables as in Runs, of the processes. why : the reason where there are none.
    """

    commands: pd.DataFrame
    minima: pd.DataFrame
    fidelity: pd.DataFrame
    why: str = ""

    @property
    def summary(self) -> pd.DataFrame:
        """A row for each case and tier: commands, mean_ms, p99_ms, conflicts (%); within: share of commands (%) that
        take as long on both tiers, to SAME_MS."""
        rows = []
        for name, of_case in self.commands.groupby("case", sort=False):
            both = of_case.pivot(index="command", columns="tier", values="ms")
            within = 100 * ((both["virtual"] - both["simulated"]).abs() < SAME_MS).mean()
            for tier, found in of_case.groupby("tier", sort=False):
                numbers = (len(found), found.ms.mean(), found.ms.quantile(0.99), 100 * (1 - found.is_fast.mean()))
                rows.append((name, tier, *numbers, within))
        names = ["case", "tier", "commands", "mean_ms", "p99_ms", "conflicts", "within"]
        return pd.DataFrame(rows, columns=names).set_index(names[:2])


def checks(runs: Runs, processes: Processes) -> pd.DataFrame:
    """Return the trust table of the simulated runs and, where there are any, of the processes."""
    return trust_by_tier({"simulated": runs, "virtual": processes})


def measure_processes(seed: int, tier: str, progress: Progress = iter) -> Processes:
    """Measure every scheme without load, and Multi-Paxos and some cells at a light one, over real sockets; a shorter
    stream of commands where another tier is the notebook's, and nothing, with the reason, where there is no such
    kernel."""
    settle_s, stop_s = 0.5, 2.5 if tier == "virtual" else 1.0
    cells = {"Multi-Paxos": Case("multi-paxos")} | dict(grid_case(*cell) for cell in PROCESS_CELLS)
    idle = _without_load(1.0)
    loaded = {
        name: (deployment(case, LIGHTER, seed), demand(case, LIGHTER, stop_s, seed)) for name, case in cells.items()
    }
    if why := why_no_processes():
        nothing = pd.DataFrame(columns=["case", "tier", "command", "region", "ms", "commit_ms", "is_fast"])
        return Processes(nothing, minima().iloc[:0], pd.DataFrame(columns=["check", "value", "bound", "holds"]), why)
    *first, hot = loaded.items()
    halves = [(dict([*idle.items(), *first[:2]]),), (dict([*first[2:], hot]),)]
    runs = {name: run for half in in_parallel(run_replication, halves, progress=progress) for name, run in half.items()}
    columns = ["command", "region", "ms", "commit_ms", "is_fast"]
    parts = []
    for name, asked in loaded.items():
        for where, run in (("simulated", simulate_replication(*asked)), ("virtual", runs[name])):
            parts.append(_settled(run, settle_s)[columns].assign(case=name, tier=where))
    found = [
        _checks(runs[name], case, _settled(runs[name], 0.0), LIGHTER).assign(case=name)
        for name, case in (SCHEMES | cells).items()
    ]
    fidelity = pd.concat(found, ignore_index=True)
    fidelity["check"] = "processes: " + fidelity["check"]
    return Processes(pd.concat(parts, ignore_index=True), minima(runs), fidelity)


# What the class ran.


def class_cases(scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter) -> pd.DataFrame:
    """Return three replicas (OR, EU, VA), a closed loop, clients of one region or of all three; and clients without a
    cap.

    Returns case, protocol, region, mean_ms, p99_ms, conflicts, per_second, busiest (share of a processor).
    """
    closed = replace(setting, cap=1, arrival_ms=1.0)
    uncapped = replace(setting, cap=10**6)
    each = setting.clients_per_region
    work: list[tuple] = []
    for protocol in ("epaxos", "multi-paxos"):
        case = Case(protocol, *HOTTEST, leader="OR", chain_fix=False)
        work += [("one region at a time", case, closed, CLASS_REGIONS, (region,) * each) for region in CLASS_REGIONS]
        work += [("all three at once", case, closed, CLASS_REGIONS, tuple(np.repeat(CLASS_REGIONS, each)))]
        work += [("five regions, no cap", Case(protocol, 0.5, 0.2), uncapped, REGIONS, None)]

    def run_one(label: str, case: Case, load: Setting, regions: Sequence[str], clients: Any) -> pd.DataFrame:
        stop_s = scale.settle_s + scale.seconds
        wanted = demand(case, load, stop_s, seed, clients)
        run = simulate_replication(deployment(case, load, seed, regions), wanted, seed)
        found = summary_of(_settled(run, scale.settle_s), scale.seconds).query("region != 'all'")
        columns = ["region", "mean_ms", "p99_ms", "conflicts", "per_second"]
        return found[columns].assign(case=label, protocol=case.protocol, busiest=run.busy_share.max())

    rows = in_parallel(run_one, work, progress=progress)
    return pd.concat(rows, ignore_index=True).set_index(["case", "protocol", "region"])


def hottest_key(theta: float, keys: int = 10**9) -> dict[str, float]:
    """Compute the share of commands (%) on the most popular key: by Zipf's law, and of the numbers that Gray's
    generator gives.

    At theta 1 the generator gives all but the two most popular commands the number `keys`, which is no key.
    """
    law = 100 / zeta(keys, theta)
    given = gray_ranks(np.random.default_rng(1).random(100_000), keys, theta)
    return {"law": law, "generator": 100 * float(np.unique(given, return_counts=True)[1].max()) / len(given)}


# Knobs.


def vary_leader(
    runs: Runs, scale: Scale, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> pd.DataFrame:
    """Measure Multi-Paxos led from each region, and EPaxos at theta 0.9 with half writes: scheme, mean_ms, p99_ms (of
    all)."""

    def run_one(leader: str) -> tuple:
        rows = _run(Case("multi-paxos", leader=leader), setting, scale, seed)["latencies"].set_index("region")
        return f"Multi-Paxos from {leader}", *rows.loc["all", ["mean_ms", "p99_ms"]]

    rows = in_parallel(run_one, [(region,) for region in REGIONS], progress=progress)
    here = runs.latencies[(runs.latencies.region == "all") & (runs.latencies.case == grid_case(0.9, 0.5)[0])]
    rows.append(("EPaxos", here.mean_ms.mean(), here.p99_ms.mean()))
    return pd.DataFrame(rows, columns=["scheme", "mean_ms", "p99_ms"])


def vary_clocks(
    scale: Scale,
    seed: int,
    *,
    apart_ms: Sequence[float] = (0, 1, 3, 10, 30, 100),
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Measure TOQ over clocks that are up to so far apart, in the hottest cell: toq, apart_ms, conflicts, mean_ms,
    p99_ms."""

    def run_one(toq: str, apart: float) -> tuple:
        case = Case("epaxos", *HOTTEST, toq=toq, clock_error_ms=apart)
        rows = _run(case, setting, scale, seed)["latencies"].set_index("region")
        return toq, apart, *rows.loc["all", ["conflicts", "mean_ms", "p99_ms"]]

    work = [("none", 0.0), *((toq, apart) for toq in ("quorum", "union") for apart in apart_ms)]
    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=["toq", "apart_ms", "conflicts", "mean_ms", "p99_ms"])


# Figures.


LOOKS = {name: scheme(name) for name in ("EPaxos", "EPaxos, TOQ", "EPaxos, TOQ union", "Multi-Paxos")}
SHADES = ("#0072B2", "#D55E00")  # below and above Multi-Paxos


def draw_idea() -> Figure:
    """Draw one command from Japan, and who waits for whom in Multi-Paxos, in EPaxos, and in EPaxos after a conflict."""
    trips = pd.DataFrame(round_trips(), REGIONS, REGIONS)
    near = sorted(trips["JP"].drop("JP"))[1]
    steps = {
        "Multi-Paxos from CA": [("to the leader and back", trips.loc["JP", "CA"]), ("leader's majority", 64.0)],
        "EPaxos": [("nearest two", near)],
        "EPaxos, conflict": [("nearest two", near), ("second round", near)],
    }
    figure, axis = new_figure("One command from Japan", "time until it is committed (ms)", "")
    for i, parts in enumerate(steps.values()):
        begin = 0.0
        for j, (label, ms) in enumerate(parts):
            axis.barh(i, ms, left=begin, color=("#56B4E9", "#E69F00")[j], edgecolor="white")
            axis.text(begin + ms / 2, i, f"{label}\n{ms:g} ms", ha="center", va="center", fontsize=8)
            begin += ms
    axis.set_yticks(range(len(steps)), list(steps))
    axis.invert_yaxis()
    return figure


def draw_network() -> Figure:
    """Draw the round trips between the five regions (ms)."""
    trips = np.array(round_trips())
    figure, axis = new_figure("Round trips between regions (ms)", "", "")
    axis.imshow(trips, cmap="Blues", vmin=0, vmax=300)
    for i, j in np.ndindex(trips.shape):
        axis.text(j, i, f"{trips[i, j]:g}" if i != j else "", ha="center", va="center")
    axis.set_xticks(range(5), list(REGIONS))
    axis.set_yticks(range(5), list(REGIONS))
    axis.grid(False)
    return figure


def draw_minima(runs: Runs) -> Figure:
    """Draw the least latencies by region, published in grey behind ours."""
    figure, axis = new_figure("Least execution latency", "", "ms")
    for i, (name, published) in enumerate(PUBLISHED_MINIMA.items()):
        at = np.arange(len(REGIONS)) + 0.27 * (i - 1)
        axis.bar(at, published, 0.25, color=PUBLISHED_GREY, alpha=0.5, label="published" if i == 0 else None)
        ours = runs.minima[runs.minima.scheme == name].least_ms
        axis.plot(at, ours, LOOKS[name].marker, color=LOOKS[name].colour, label=LOOKS[name].label)
    axis.set_xticks(range(len(REGIONS)), list(REGIONS))
    axis.legend(loc="upper left")
    return figure


def draw_heat_maps(runs: Runs) -> Figure:
    """Draw Fig. 7: EPaxos over Multi-Paxos by skew and share of writes, a column for each region; mean above, 99th
    below."""
    import matplotlib.pyplot as plt

    table = ratios(runs)
    figure, axes = plt.subplots(2, len(REGIONS), figsize=(12.8, 5.4), layout="constrained", sharex=True, sharey=True)
    plt.close(figure)
    norm = TwoSlopeNorm(0, -2.5, 2.5)
    image: Any = None
    for row, (column, label) in enumerate((("mean", "mean"), ("p99", "99th percentile"))):
        for axis, region in zip(axes[row], REGIONS, strict=True):
            part = table[table.region == region]
            cells = part.pivot_table(index="writes", columns="theta", values=column)
            image = axis.imshow(np.log2(cells), cmap="RdBu_r", norm=norm, origin="lower", aspect="auto")
            axis.set_xticks(range(len(cells.columns)), [f"{x:g}" for x in cells.columns], rotation=90, fontsize=8)
            axis.set_yticks(range(len(cells.index)), [f"{100 * x:g}" for x in cells.index], fontsize=8)
            axis.grid(False)
            size = 8 if cells.size <= 30 else 4.5
            for i, j in np.ndindex(cells.shape):
                strong = abs(np.log2(cells.iloc[i, j])) > 1.4
                axis.text(j, i, f"{cells.iloc[i, j]:.1f}", ha="center", va="center", fontsize=size,
                          color="white" if strong else "black")  # fmt: skip
            axis.set_title(f"{region}: {label}", fontsize=10)
        axes[row][0].set_ylabel("writes (%)")
    figure.supxlabel("Zipf's theta", fontsize=10)
    bar = figure.colorbar(image, ax=axes, label="EPaxos / Multi-Paxos", shrink=0.8)
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
    bar.ax.axhline(2, color=PUBLISHED_GREY, linewidth=3)  # the abstract's more than 4 times
    figure.suptitle(
        "Execution latency, EPaxos over Multi-Paxos (Fig. 7; grey on the scale: abstract, more than 4 times)"
    )
    return figure


def draw_conflicts(runs: Runs) -> Figure:
    """Draw the conflicts against the 99th percentile's ratio: every cell and region, and the 1 % of the claim in
    grey."""
    table = ratios(runs).groupby(["region", "theta", "writes"], as_index=False)[["p99", "conflicts"]].mean()
    title = "How many conflicts can the 99th percentile bear?"
    figure, axis = new_figure(
        title, "commands on the slow path (%)", "99th percentile, EPaxos / Multi-Paxos", log_x=True, log_y=True
    )
    for region, colour in zip(REGIONS, ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000"), strict=True):
        rows = table[table.region == region]
        axis.plot(np.maximum(100 * rows.conflicts, 0.01), rows.p99, "o", color=colour, label=region, alpha=0.8)
    axis.axvline(1, color=PUBLISHED_GREY, linestyle="--", label="1 %, a reader's note")
    axis.axhline(1, color=PUBLISHED_GREY, linewidth=1)
    axis.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axis.minorticks_off()
    axis.legend(ncols=2, fontsize=9)
    return figure


def draw_tails(runs: Runs, theta: float = 0.99, writes: float = 1.0) -> Figure:
    """Draw the share of commands that take longer than a time, by region, in the authors' kind of picture. Percentiles
    are of the first repetition."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(REGIONS), figsize=(12.8, 3.6), layout="constrained", sharey=True, sharex=True)
    plt.close(figure)
    names = {"EPaxos": grid_case(theta, writes)[0], "EPaxos, TOQ": grid_case(theta, writes, toq="quorum")[0],
             "EPaxos, TOQ union": grid_case(theta, writes, toq="union")[0], "Multi-Paxos": "Multi-Paxos"}  # fmt: skip
    for axis, region in zip(axes, REGIONS, strict=True):
        for name, case in names.items():
            rows = runs.tails[(runs.tails.case == case) & (runs.tails.region == region)].sort_values("percentile")
            look = LOOKS[name]
            axis.plot(
                rows.ms, 100 - rows.percentile, look.marker + "-", color=look.colour, label=look.label, markersize=3
            )
        axis.set(title=region, yscale="log", xlabel="ms")
    axes[0].set_xlim(left=0)
    axes[0].set_ylabel("commands that take longer (%)")
    axes[0].set_yticks([0.1, 1, 10, 50], ["0.1", "1", "10", "50"])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(f"Execution latency at theta {theta:g}, {100 * writes:g} % writes")
    return figure


def draw_processes(processes: Processes) -> Figure:
    """Draw the share of commands that take longer than a time: real processes (solid) and the simulator (dashed), in a
    panel for each case."""
    names = ["Multi-Paxos", *(grid_case(*cell)[0] for cell in PROCESS_CELLS)]
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=len(names), log_y=True)
    figure.set_size_inches(12.8, 3.6)
    for axis, name in zip(axes, names, strict=True):
        looks = {"virtual": ("-", 5.0, scheme("emulated").colour, 0.5), "simulated": ("--", 1.3, "black", 1.0)}
        for tier, (style, width, colour, alpha) in looks.items():
            ms = np.sort(processes.commands.query("case == @name and tier == @tier").ms)
            longer = 100 * (1 - np.arange(len(ms)) / max(len(ms), 1))
            axis.plot(ms, longer, style, color=colour, linewidth=width, alpha=alpha, label=tier)
        if processes.why:
            say_not_measured(axis, "virtual")
        axis.set(title=name, xlabel="execution latency (ms)", ylim=(0.1, 110), xlim=(0, 450))
        axis.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes[0].set_ylabel("commands that take longer (%)")
    axes[-1].legend(loc="upper right")
    return figure


def draw_toq(runs: Runs) -> Figure:
    """Draw the conflicts and mean latency with TOQ, relative to EPaxos without; what is published in grey."""
    figure, axes = new_figure("Timestamp-ordered queueing", "", "", columns=2)
    each = runs.latencies[runs.latencies.region == "all"].groupby("case")[["conflicts", "mean_ms"]].mean()
    shown = [("quorum", {}), ("union", {}), ("quorum", {"clock_error_ms": CLOCKS_APART_MS})]
    labels = ["quorum", "quorum union", "quorum, clocks\nup to 100 ms apart"]
    for axis, column, label, bounds in (
        (axes[0], "conflicts", "conflicts, over those without TOQ", (0.5, 0.15)),
        (axes[1], "mean_ms", "mean latency, over that without TOQ", (0.925,)),
    ):
        for k, cell in enumerate(TOQ_CELLS):
            plain = each.loc[grid_case(*cell)[0], column]
            values = [each.loc[grid_case(*cell, toq=toq, **more)[0], column] / plain for toq, more in shown]
            at = np.arange(len(shown)) + 0.4 * k - 0.2
            bars = axis.bar(at, values, 0.38, color=SHADES[k], label=f"theta {cell[0]:g}, {100 * cell[1]:g} % writes")
            high = [f"{value:.2f}" if value > 0.1 else "" for value in values]
            axis.bar_label(bars, high, fontsize=8, label_type="center", color="white")
            axis.bar_label(bars, [f"{value:.2f}" if value <= 0.1 else "" for value in values], fontsize=8)
        for i, bound in enumerate(bounds):
            axis.hlines(bound, i - 0.45, i + 0.45, color=PUBLISHED_GREY, linewidth=3, zorder=3,
                        label="published" if i == 0 else None)  # fmt: skip
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(range(len(shown)), labels)
        axis.set_ylabel(label)
    axes[0].legend(fontsize=8, loc="upper left")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the 99th percentile over Multi-Paxos's, by region: hottest cell, own keys, no chain fix, leader
    elsewhere."""
    mean = runs.latencies.groupby(["case", "region"]).p99_ms.mean()
    lines = {
        "theta 0.99, only writes": (grid_case(*HOTTEST)[0], "Multi-Paxos"),
        "the same without the chain fix": (grid_case(*HOTTEST, chain_fix=False)[0], "Multi-Paxos"),
        "every client has its own keys": ("own keys", "Multi-Paxos"),
        "theta 0.99 against a leader in EU": (grid_case(*HOTTEST)[0], "Multi-Paxos from EU"),
    }
    figure, axis = new_figure("Broken on purpose", "", "99th percentile, EPaxos / Multi-Paxos", log_y=True)
    for k, (label, (case, against)) in enumerate(lines.items()):
        values = [mean[case, region] / mean[against, region] for region in REGIONS]
        colour = ("#D55E00", "#E69F00", "#7f3c8d", "#0072B2")[k]
        axis.bar(np.arange(5) + 0.2 * (k - 1.5), np.array(values) - 0.1, 0.19, bottom=0.1, color=colour, label=label)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.axhline(4, color=PUBLISHED_GREY, linestyle="--", label="abstract: more than 4")
    axis.set_yticks([0.25, 0.5, 1, 2, 4, 8, 16], ["1/4", "1/2", "1", "2", "4", "8", "16"])
    axis.minorticks_off()
    axis.set_ylim(0.2, 40)
    axis.set_xticks(range(5), list(REGIONS))
    axis.legend(fontsize=8, ncols=2, loc="upper right")
    return figure


def draw_leader(table: pd.DataFrame) -> Figure:
    """Draw the mean and 99th percentile of all commands by where Multi-Paxos is led from, and EPaxos."""
    figure, axis = new_figure("Where to put the leader", "", "execution latency of all regions' commands (ms)")
    for k, (column, label) in enumerate((("mean_ms", "mean"), ("p99_ms", "99th percentile"))):
        bars = axis.bar(np.arange(len(table)) + 0.4 * k - 0.2, table[column], 0.38, color=SHADES[k], label=label)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set_xticks(range(len(table)), [name.replace(" from ", "\nfrom ") for name in table.scheme], fontsize=9)
    axis.legend()
    return figure


def draw_clocks(table: pd.DataFrame) -> Figure:
    """Draw the conflicts and mean latency over how far clocks are apart."""
    figure, axes = new_figure("How good must clocks be?", "clocks up to so far apart (ms)", "", columns=2)
    plain = table[table.toq == "none"].iloc[0]
    for axis, column, label, factor in (
        (axes[0], "conflicts", "commands on the slow path (%)", 100),
        (axes[1], "mean_ms", "mean execution latency (ms)", 1),
    ):
        for toq, name in (("quorum", "EPaxos, TOQ"), ("union", "EPaxos, TOQ union")):
            rows, look = table[table.toq == toq], LOOKS[name]
            axis.plot(rows.apart_ms, factor * rows[column], look.marker + "-", color=look.colour, label=look.label)
        axis.axhline(factor * plain[column], color=LOOKS["EPaxos"].colour, linestyle="--", label="EPaxos without TOQ")
        axis.set_xscale("symlog", linthresh=1, linscale=0.4)
        axis.set_xlim(left=-0.2)
        ticks = sorted(set(table.apart_ms))
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=9)
    return figure


def explore(seconds: float = 2.0) -> object:
    """Show sliders for skew and writes, menus for TOQ and the leader; mean and 99th percentile by region."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "theta": widgets.FloatSlider(0.9, min=0.5, max=0.99, step=0.01, description="theta"),
        "writes": widgets.FloatSlider(0.5, min=0, max=1, step=0.05, description="writes"),
        "toq": widgets.Dropdown(options=["none", "quorum", "union", "all"], description="TOQ"),
        "leader": widgets.Dropdown(options=REGIONS, description="leader"),
    }

    def redraw(theta: float, writes: float, toq: str, leader: str) -> None:
        small = Scale((), 1.0, seconds)
        both = {"EPaxos": Case(theta=theta, writes=writes, toq=toq), "Multi-Paxos": Case("multi-paxos", leader=leader)}
        figure, axis = new_figure("Mean (bar) and 99th percentile (mark)", "", "execution latency (ms)")
        for k, (name, case) in enumerate(both.items()):
            rows = _run(case, PRINTED, small, 1)["latencies"].set_index("region").loc[list(REGIONS)]
            at = np.arange(5) + 0.4 * k - 0.2
            axis.bar(at, rows.mean_ms, 0.38, color=LOOKS[name].colour, alpha=0.6, label=name)
            axis.plot(at, rows.p99_ms, LOOKS[name].marker, color=LOOKS[name].colour)
        axis.set_xticks(range(5), list(REGIONS))
        axis.legend()
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
