"""Raft's elections: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014.

The leader of five servers crashes; how long until the others have heard from a new one? Figure 16 answers for eleven
ranges of randomized election timeouts. A trial here starts as the paper arranged it: at the old leader's last
heartbeats, sent to all at once, with logs of different lengths, so that two of the four survivors cannot win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.etcd.real_time import EtcdCluster
from netrepro.applications.etcd.run import etcd_without_leader_s
from netrepro.claims import Measured
from netrepro.emulation.tiers import why_no_processes
from netrepro.errors import NetreproError
from netrepro.papers.raft.processes import Case, Crashes, Trials, crash_processes, network
from netrepro.paths import data_dir
from netrepro.protocols.raft_elections import Election, elect, split_vote_share
from netrepro.study import Progress, in_parallel, of_profile, seed_of, trust_by_tier
from netrepro.study.pictures import say_not_measured
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

RANDOMNESS = ("150-150", "150-151", "150-155", "150-175", "150-200", "150-300")  # Fig. 16's top; its bottom:
SCALE = ("12-24", "25-50", "50-100", "100-200", "150-300")
LINES = tuple(dict.fromkeys(RANDOMNESS + SCALE))
CALIBRATED_ON = "25-50"
# Neither the grey of published curves nor yellow.
COLOURS = dict(zip(LINES, (*CURVES[:7], "#332288", "#117733", "#882255"), strict=True))
# Linux' timer slack; the disk is calibrated.
SETTING = Election(timer_late_ms=0.05, log_lengths=(10, 10, 9, 9))
# The dissertation's simulated WAN: no disk, nothing calibrated.
WAN_TIMEOUTS, WAN = "300-600", Election(least_delay_ms=30.0, greatest_delay_ms=40.0, timer_late_ms=0.05)
WANS = {"WAN, one failed": WAN, "WAN, two failed": replace(WAN, log_lengths=(10, 10, 10))}
# etcd: a tick is a heartbeat; its data lie in memory, and all survivors have all entries.
ETCD_MS = {"heartbeat_ms": 15, "election_ms": 150}
ETCD = Election(0.05, 0.3, extra_write_ms=0.2, timer_late_ms=0.05, heartbeat_ms=15.0, tick_ms=15.0, keeps_leader=True)
ELIGIBLE = {"4 of 4": (10, 10, 10, 10), "3 of 4": (10, 10, 10, 9), "2 of 4": (10, 10, 9, 9), "1 of 3": (12, 11, 10)}


@dataclass(frozen=True)
class Scale:
    """Trials: a line and repetition (Fig. 16's 1,000), with one seed, of calibration and split votes, of section 10."""

    trials: int
    control_trials: int
    calibration_trials: int
    knob_trials: int
    process_trials: int  # of real processes, a line and repetition
    process_control_trials: int


def setting(**changes: float) -> Election:
    """Make the paper's cluster, with other values of `Election`'s fields. Its disk is for `calibrate` to find."""
    return replace(SETTING, **changes)  # type: ignore[arg-type]


def scale(profile: str) -> Scale:
    """Return how much a profile tries. Raises NetreproError for another profile than quick and paper."""
    return of_profile(
        profile, {"quick": Scale(1000, 50, 4000, 2000, 20, 1), "paper": Scale(1000, 1000, 40_000, 20_000, 1000, 20)}
    )


@cache
def published() -> Mapping[str, np.ndarray]:
    """Read Fig. 16's lines: percentiles 0, 1, ..., 100 of the time without a leader (ms)."""
    table = pd.read_csv(data_dir("raft") / "election_cdf.csv").groupby("election_timeout_ms")["time_without_leader_ms"]
    return {str(line): rows.to_numpy()[:101] for line, rows in table}  # 150-300 is in both panels


def distance(times_ms: np.ndarray, percentiles_ms: np.ndarray) -> float:
    """Compute the greatest distance between the distribution of our times and that of published percentiles 0, 1, ...,
    100."""
    ours, shares = np.sort(times_ms), np.linspace(0, 1, len(percentiles_ms))
    theirs = np.interp(ours, percentiles_ms, shares, left=0.0, right=1.0)
    steps = np.arange(len(ours) + 1) / len(ours)
    return float(max(np.abs(steps[1:] - theirs).max(), np.abs(steps[:-1] - theirs).max()))


def distance_to(line: str) -> Callable[[np.ndarray], float]:
    """Make the function that computes `distance` to a published line."""
    return lambda times_ms: distance(times_ms, published()[line])


def calibrate(setting: Election, trials: int, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Compare a grid of disks, nearest first: least_write_ms, extra_write_ms, distance to the line CALIBRATED_ON, no
    other."""
    grid = [(least, extra) for least in np.arange(0, 4.1, 0.5) for extra in np.arange(0.5, 6.1, 0.5)]

    def one(least: float, extra: float) -> tuple[float, float, float]:
        disk = replace(setting, least_write_ms=least, extra_write_ms=extra)
        found = elect(CALIBRATED_ON, disk, trials, seed).without_leader_ms.to_numpy()
        return least, extra, distance(found, published()[CALIBRATED_ON])

    table = pd.DataFrame(in_parallel(one, grid, progress=progress))
    table.columns = pd.Index(["least_write_ms", "extra_write_ms", "distance"])
    return table.sort_values("distance", ignore_index=True)


def calibrated(setting: Election, table: pd.DataFrame) -> Election:
    """Return the setting with the nearest of `calibrate`'s disks."""
    best = table.iloc[0]
    return replace(setting, least_write_ms=float(best.least_write_ms), extra_write_ms=float(best.extra_write_ms))


SURVIVORS = (4, 3)  # of five servers


def split_votes(trials: int, seed: int, latencies_ms: Sequence[float] = (1, 2, 5, 10, 20, 40)) -> pd.DataFrame:
    """Simulate split votes: latency (ms), survivors, share of split first elections, closed_form. Timeouts are within
    100 ms, and there is no disk."""
    rows = []
    for survivors in SURVIVORS:
        for latency in latencies_ms:
            found = elect("1000-1100", Election(latency, latency, log_lengths=(10,) * survivors), trials, seed)
            closed = split_vote_share(latency / 100, survivors)
            rows.append((latency, survivors, float((found.terms > 1).mean()), closed))
    return pd.DataFrame(rows, columns=["latency_ms", "survivors", "share", "closed_form"])


@dataclass(frozen=True)
class Runs(Trials):
    """All trials (columns of `elect`; case: Raft or one seed; line; repetition), split votes, and the checks."""

    splits: pd.DataFrame
    fidelity: pd.DataFrame

    @property
    def summary(self) -> pd.DataFrame:
        """A row for each line, in ms: median, 90th percentile and greatest of a repetition's trials, ours and
        published; and the `distance` of the two distributions."""
        rows = []
        for line in LINES:
            row: dict[str, Any] = {"timeouts_ms": line}
            for name, percentile in (("median", 50), ("p90", 90), ("greatest", 100)):
                ours = [np.percentile(times, percentile) for times in self.times("Raft", line)]
                row |= {name: np.mean(ours), f"{name}_published": published()[line][percentile]}
            rows.append(row | {"distance": np.mean(self.each(distance_to(line), line))})
        return pd.DataFrame(rows).set_index("timeouts_ms")


def measure(scale: Scale, repetitions: int, seed: int, setting: Election, progress: Progress = iter) -> Runs:
    """Measure every line and the WAN, with seeds of the servers' own and with one for all; `progress` wraps the
    list."""
    cases = {line: (line, setting) for line in LINES} | {name: (WAN_TIMEOUTS, wan) for name, wan in WANS.items()}
    work = [(name, case, i) for name in cases for case in ("Raft", "one seed") for i in range(repetitions)]

    def one(name: str, case: str, repetition: int) -> pd.DataFrame:
        (timeouts, chosen), is_control = cases[name], case == "one seed"
        trials = scale.control_trials if is_control else scale.trials
        found = elect(timeouts, replace(chosen, one_seed=is_control), trials, seed_of(seed, repetition))
        return found.assign(case=case, line=name, repetition=repetition)

    trials = pd.concat(in_parallel(one, work, progress=progress), ignore_index=True)
    splits = split_votes(scale.calibration_trials, seed)
    spread = np.sqrt(splits.closed_form * (1 - splits.closed_form) / scale.calibration_trials)
    off = float(((splits.share - splits.closed_form).abs() / spread).max())
    blind = int((~elect("150-300", replace(setting, checks_logs=False), 1000, seed).safe).sum())
    unsafe, unended = int((~trials.safe).sum()), int((~trials.elected[trials.case == "Raft"]).sum())
    rows = [
        ("trials with two leaders in a term, or one without a committed entry", unsafe, 0, unsafe == 0),
        ("trials without a leader after 1000 s", unended, 0, unended == 0),
        ("split votes: standard deviations from the closed form", off, 4, off <= 4),
        ("unsafe trials that are noticed where voters do not compare logs", blind, 1, blind >= 1),
    ]
    return Runs(trials, splits, pd.DataFrame(rows, columns=["check", "value", "bound", "holds"]))


STATISTICS: dict[str, tuple[Callable, str]] = {
    "five-ms-median": (np.median, "150-155"),
    "fifty-ms-worst": (np.max, "150-200"),
    "short-timeouts-mean": (np.mean, "12-24"),
    "short-timeouts-worst": (np.max, "12-24"),
    "wan-mean": (np.mean, "WAN, one failed"),
    "wan-two-failed-mean": (np.mean, "WAN, two failed"),
}
STATISTICS |= {f"curve-{line}": (distance_to(line), line) for line in LINES if line not in ("150-150", CALIBRATED_ON)}
OF_FEW_TRIALS = ("five-ms-median", "short-timeouts-mean", "wan-mean", "wan-two-failed-mean")


def _of_statistics(runs: Trials, names: Iterable[str]) -> list[Measured]:
    """Measure statistics with a value for each repetition, and with all servers on one seed as the control."""
    values = {name: [runs.each(*STATISTICS[name], case) for case in ("Raft", "one seed")] for name in names}
    return [
        Measured(claim=name, values=ours, control=control, **runs.trust) for name, (ours, control) in values.items()
    ]


def claims_on(tier: str, runs: Runs, crashes: Crashes) -> list[Measured]:
    """Return the claims that the tier measured: simulated elections, or real processes in virtual time.

    Real processes give no more than medians and means where they have fewer than Fig. 16's 1,000 trials in a
    repetition. The greatest of a few trials, and the distance of their distribution, would not compare with the
    published numbers.
    """
    if tier == "simulated":
        return measured_claims(runs)
    is_whole = all(len(times) >= 1000 for line in crashes.lines for times in crashes.times("Raft", line))
    names = STATISTICS if is_whole else OF_FEW_TRIALS
    return _of_statistics(crashes, [name for name in names if STATISTICS[name][1] in crashes.lines])


def measured_claims(runs: Runs) -> list[Measured]:
    """Return the measured claims of section 9.3 and the dissertation, with a value for each repetition."""
    found = _of_statistics(runs, STATISTICS)
    ranked, broken = (order_of_medians(runs, case) for case in ("Raft", "one seed"))
    found.append(Measured(claim="order-of-medians", values=ranked, control=broken, **runs.trust))
    shares = {
        "no-randomness-beyond-10-s": [np.concatenate(runs.times("Raft", line)) > 10_000 for line in RANDOMNESS[:3:2]],
        "wan-share-below-1500-ms": [
            np.concatenate(runs.times(case, "WAN, one failed")) < 1500 for case in ("Raft", "one seed")
        ],
    }
    for name, (ours, control) in shares.items():
        counts = {"successes": int(ours.sum()), "trials": len(ours)}
        counts |= {"control_successes": int(control.sum()), "control_trials": len(control)}
        found.append(Measured(claim=name, **counts, **runs.trust))
    return found


def order_of_medians(runs: Runs, case: str) -> list[list[str]]:
    """Order Fig. 16's upper lines by median, least first, with a ranking for each repetition."""
    medians = pd.DataFrame({line: runs.each(np.median, line, case) for line in RANDOMNESS})
    return [list(row.sort_values().index) for _, row in medians.iterrows()]


# What the paper did not turn, what a class sees, and etcd.


def knobs(setting: Election) -> dict[str, dict[str, Election]]:
    """Return the settings that section 10 varies, by name and by value: PreVote, who can win, the disk."""
    means_ms = (0.0, 1.0, 4.0, 10.0)
    return {
        "PreVote": {"off": setting, "on": replace(setting, pre_vote=True)},
        "servers that can win": {name: replace(setting, log_lengths=logs) for name, logs in ELIGIBLE.items()},
        "mean write (ms)": {
            f"{mean:g}": replace(setting, least_write_ms=0.0, extra_write_ms=mean) for mean in means_ms
        },
    }


def vary(
    knobs: Mapping[str, Mapping[str, Election]], trials: int, seed: int, lines: Iterable[str] = ("12-24", "150-300")
) -> pd.DataFrame:
    """Vary the knobs: a row for each knob, value and line: p50_ms, p90_ms and mean_ms without a leader, mean_terms."""
    rows = []
    for knob, values in knobs.items():
        for value, setting in values.items():
            for line in lines:
                found = elect(line, setting, trials, seed)
                p50, p90 = found.without_leader_ms.quantile([0.5, 0.9])
                rows.append((knob, value, line, p50, p90, found.without_leader_ms.mean(), found.terms.mean()))
    return pd.DataFrame(rows, columns=["knob", "value", "line", "p50_ms", "p90_ms", "mean_ms", "mean_terms"])


def without_randomness(setting: Election, trials: int, seed: int) -> pd.DataFrame:
    """Simulate 150-150 with other fastest writes (their mean stays) and timers: least_write_ms, timer_late_ms, median_s
    without a leader, share_beyond_10_s."""
    rows = []
    mean_ms = setting.least_write_ms + setting.extra_write_ms
    for least in (0.0, 0.5, 1.0):
        for late in (0.02, 0.05, 0.1):
            disk = replace(setting, least_write_ms=least, extra_write_ms=mean_ms - least, timer_late_ms=late)
            times_s = elect("150-150", disk, trials, seed).without_leader_ms / 1e3
            rows.append((least, late, times_s.median(), (times_s > 10).mean()))
    return pd.DataFrame(rows, columns=["least_write_ms", "timer_late_ms", "median_s", "share_beyond_10_s"])


def classes(setting: Election, seed: int, trials: int = 20, count: int = 200) -> pd.DataFrame:
    """Simulate what `count` classes of so few trials would each report, where all survivors can win: 5th, 50th and 95th
    percentile of their medians (ms), by whether heartbeats go out together, and by range."""
    rows = []
    for together in (True, False):
        plain = replace(setting, synchronised=together, log_lengths=(10, 10, 10, 10))
        for line in ("150-150", "150-175", "150-200", "150-300"):
            times = elect(line, plain, trials * count, seed).without_leader_ms.to_numpy()
            medians = np.percentile(np.median(times.reshape(count, trials), axis=1), (5, 50, 95))
            rows.append(("together" if together else "apart", line, *medians, (times > 10_000).mean()))
    names = ["heartbeats", "timeouts_ms", "median_p5_ms", "median_p50_ms", "median_p95_ms", "share_beyond_10_s"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


def measure_etcd(trials: int, seed: int, progress: Progress = iter) -> tuple[np.ndarray, str]:
    """Measure real processes in real time. Returns (times without a leader in ms, "") or (nothing, why it was not
    measured)."""
    random = np.random.default_rng(seed)
    try:
        with EtcdCluster(5, **ETCD_MS) as cluster:
            heartbeat_s = ETCD_MS["heartbeat_ms"] / 1e3
            times = [cluster.time_without_leader_s(random.uniform(0, heartbeat_s)) for _ in progress(range(trials))]
    except NetreproError as error:
        return np.array([]), f"not measured: {error}"
    return 1e3 * np.array(times), ""


# Real processes.

PROCESS_LINES = ("150-155", "150-300", "12-24")


def measure_processes(
    scale: Scale, repetitions: int, seed: int, setting: Election, tier: str, progress: Progress = iter
) -> Crashes:
    """Measure five real processes whose leaders are killed in virtual time; one repetition where another tier is the
    notebook's, and nothing, with the reason, where there is no such kernel."""
    cases = [Case(line, line, setting) for line in PROCESS_LINES]
    cases += [Case(name, WAN_TIMEOUTS, replace(wan, timer_late_ms=setting.timer_late_ms)) for name, wan in WANS.items()]
    cases += [replace(each, case="one seed") for each in cases] if tier == "virtual" else []
    trials = {"Raft": scale.process_trials, "one seed": scale.process_control_trials}
    return crash_processes(cases, trials, repetitions if tier == "virtual" else 1, seed, progress)


def checks(runs: Runs, crashes: Crashes) -> pd.DataFrame:
    """Return the trust table of the elections and, where there are any, of the processes."""
    return trust_by_tier({"simulated": runs, "virtual": crashes})


def tier_table(runs: Runs, crashes: Crashes) -> pd.DataFrame:
    """Return a row for each line and tier: trials, median, mean and 90th percentile (ms), mean terms that began; and
    the greatest distance of the processes' distribution from the simulated one, beside what chance alone exceeds in 1
    of 20."""
    rows = []
    for line in crashes.lines:
        ours, theirs = (np.concatenate(each.times("Raft", line)) for each in (crashes, runs))
        apart, chance = distance(ours, np.percentile(theirs, range(101))), 1.36 / np.sqrt(len(ours))
        for tier, found, times in (("simulated", runs, theirs), ("virtual", crashes, ours)):
            terms = found.trials[(found.trials.case == "Raft") & (found.trials.line == line)].terms.mean()
            numbers = (np.median(times), times.mean(), np.percentile(times, 90), terms)
            rows.append((line, tier, len(times), *numbers, *((apart, chance) if tier == "virtual" else (None, None))))
    names = ["line", "tier", "trials", "median_ms", "mean_ms", "p90_ms", "terms", "distance", "by_chance"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


def measure_virtual_etcd(trials: int, seed: int, progress: Progress = iter) -> tuple[np.ndarray, str]:
    """Do the work of measure_etcd with processes in virtual time, where other work on the machine does not matter."""
    try:
        if why := why_no_processes():
            raise NetreproError(why)
        times_s = etcd_without_leader_s(network(ETCD, ETCD.servers), trials, seed, **ETCD_MS, progress=progress)
    except NetreproError as error:
        return np.array([]), f"not measured: {error.problem}"
    return 1e3 * np.array(times_s), ""


def answer(runs: Runs) -> str:
    """The notebook's one sentence."""
    none, little, much = (np.mean(runs.each(np.median, line)) for line in ("150-150", "150-155", "150-300"))
    return (
        f"Without randomness half of the elections take longer than {none / 1e3:.0f} s; 5 ms of it make that "
        f"{little:.0f} ms, 150 ms {much:.0f} ms; no trial had two leaders in a term."
    )


# Figures.


def _steps(axis: Any, times_ms: np.ndarray, **look: Any) -> None:
    axis.plot(np.sort(times_ms), np.linspace(0, 100, len(times_ms)), **look)


def draw_lines(runs: Runs, lines: Sequence[str], title: str, logarithmic: bool = False) -> Figure:
    """Draw a panel of Fig. 16: cumulative share of trials, ours coloured, published grey and dashed."""
    figure, axis = new_figure(title, "time without leader (ms)", "cumulative share of trials (%)", log_x=logarithmic)
    for line in lines:
        axis.plot(published()[line], range(101), "--", color=PUBLISHED_GREY, linewidth=1.2)
        _steps(axis, np.concatenate(runs.times("Raft", line)), color=COLOURS[line], label=f"{line} ms")
    axis.plot([], [], "--", color=PUBLISHED_GREY, label="published")
    axis.set_xlim(*((60, 1e6) if logarithmic else (0, 500)))
    axis.legend(loc="lower right")
    return figure


def draw_idea() -> Figure:
    """Draw the share of first elections that nobody wins against what a message takes, in closed form."""
    figure, axis = new_figure("Split votes", "message time / range of timeouts (%)", "first elections split (%)")
    x = np.linspace(0, 50, 101)
    for colour, survivors in zip(CURVES, SURVIVORS, strict=False):
        share = [100 * split_vote_share(each / 100, survivors) for each in x]
        axis.plot(x, share, color=colour, label=f"{survivors} survivors of five servers")
    axis.legend()
    return figure


def draw_splits(splits: pd.DataFrame) -> Figure:
    """Draw the same curves, and as points the elections that were measured."""
    figure = draw_idea()
    axis = figure.axes[0]
    for colour, survivors in zip(CURVES, SURVIVORS, strict=False):
        rows = splits[splits.survivors == survivors]
        axis.plot(rows.latency_ms, 100 * rows.share, "o", color=colour, label="measured")
    axis.legend()
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the same range of timeouts with seeds of the servers' own and with one seed for all."""
    title = "One random seed for all servers is no randomness"
    figure, axis = new_figure(title, "time without leader (ms)", "cumulative share of trials (%)", log_x=True)
    for line in ("12-24", "150-300"):
        for case, style in (("Raft", "-"), ("one seed", ":")):
            label = f"{line} ms, " + ("seeds of their own" if case == "Raft" else case)
            _steps(axis, np.concatenate(runs.times(case, line)), color=COLOURS[line], linestyle=style, label=label)
    plain = np.concatenate(runs.times("Raft", "150-150"))
    _steps(axis, plain, color=scheme("control").colour, label="150-150 ms, no range")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def draw_tiers(runs: Runs, crashes: Crashes) -> Figure:
    """Draw real processes (solid) beside simulated elections (dashed), and what Fig. 16 has of these lines in grey."""
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=2, log_x=True)
    figure.set_size_inches(11, 4)
    groups = (PROCESS_LINES, tuple(WANS))
    for axis, lines, title in zip(axes, groups, ("Fig. 16's cluster", "30 to 40 ms apart"), strict=True):
        for line, colour in zip(lines, CURVES, strict=False):
            if line in published():
                axis.plot(published()[line], range(101), color=PUBLISHED_GREY, linewidth=3, alpha=0.6)
            _steps(axis, np.concatenate(runs.times("Raft", line)), color=colour, linestyle="--")
            if line in crashes.lines:
                times = np.concatenate(crashes.times("Raft", line))
                _steps(axis, times, color=colour, label=f"{line}{' ms' * (line in published())}, {len(times)} crashes")
        axis.plot([], [], "--", color="black", label="simulated")
        if crashes.why:
            say_not_measured(axis, "virtual")
        axis.set(xlabel="time without leader (ms)", title=title)
    axes[0].plot([], [], color=PUBLISHED_GREY, linewidth=3, label="published")
    axes[0].set(ylabel="cumulative share of trials (%)", xlim=(10, 3000))
    axes[1].set(xlim=(200, 6000))
    for axis in axes:
        axis.legend(loc="lower right", fontsize="small")
    return figure


def draw_knobs(table: pd.DataFrame) -> Figure:
    """Draw the median (dot) to the 90th percentile (end of the bar), with a column for each knob."""
    names = list(dict.fromkeys(table.knob))
    figure, axes = new_figure("Median to 90th percentile", "", "", columns=len(names), log_x=True)
    figure.set_size_inches(12, 3.2)
    for axis, name in zip(axes, names, strict=True):
        for shift, (line, rows) in zip((-0.1, 0.1), table[table.knob == name].groupby("line"), strict=False):
            y = np.arange(len(rows)) + shift
            axis.hlines(y, rows.p50_ms, rows.p90_ms, color=COLOURS[str(line)], linewidth=4)
            axis.plot(rows.p50_ms, y, "o", color=COLOURS[str(line)], markersize=8, label=f"timeouts of {line} ms")
            axis.set_yticks(range(len(rows)), rows.value)
        axis.set(xlabel="time without leader (ms)", title=name, xlim=(8, 500), ylim=(-0.5, len(rows) - 0.5))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def draw_etcd(
    real: tuple[np.ndarray, str], virtual: tuple[np.ndarray, str], trials: int = 5000, seed: int = 1
) -> Figure:
    """Draw real etcd, in real and in virtual time, beside our elections with its timers, and Fig. 16's line of the same
    range in grey."""
    title = "etcd with a tick of 15 ms and timeouts of 150 to 285 ms"
    figure, axis = new_figure(title, "time without leader (ms)", "cumulative share of trials (%)")
    axis.plot(published()["150-300"], range(101), "--", color=PUBLISHED_GREY, label="published: LogCabin, 150-300 ms")
    ours = elect("150-300", ETCD, trials, seed).without_leader_ms.to_numpy()
    _steps(axis, ours, color=scheme("simulated").colour, label="our elections, with etcd's timers")
    for (times_ms, why), name, colour, marker in (
        (virtual, "virtual", scheme("emulated").colour, "o"),
        (real, "real", CURVES[1], "^"),
    ):
        label = f"etcd in {name} time, " + (why or f"{len(times_ms)} crashes")
        _steps(axis, times_ms, color=colour, marker=marker, markersize=5, label=label)
    axis.set_xlim(0, 500)
    axis.legend(loc="lower right", fontsize="small")
    return figure


def explore(setting: Election = SETTING) -> object:
    """Show sliders for the timeouts and the disk. The distribution is redrawn at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "least": widgets.IntSlider(150, min=5, max=300, description="least (ms)"),
        "spread": widgets.IntSlider(50, min=1, max=300, description="range (ms)"),
        "write": widgets.FloatSlider(4.0, min=0, max=20, description="write (ms)"),
        "pre_vote": widgets.Checkbox(False, description="PreVote"),
    }

    def redraw(least: int, spread: int, write: float, pre_vote: bool) -> None:
        chosen = replace(setting, least_write_ms=0.0, extra_write_ms=write, pre_vote=pre_vote)
        times = elect(f"{least}-{least + spread}", chosen, 1000, 1).without_leader_ms.to_numpy()
        figure, axis = new_figure("1,000 crashes", "time without leader (ms)", "cumulative share (%)", log_x=True)
        _steps(axis, times, color=CURVES[0])
        display(figure)

    return widgets.VBox([*controls.values(), widgets.interactive_output(redraw, controls)])
