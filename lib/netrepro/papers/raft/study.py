"""Raft's elections: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014.

The leader of five servers crashes; how long until the others have heard from a new one? Figure 16 answers for eleven
ranges of randomized election timeouts. A trial here starts as the paper arranged it: at the old leader's last
heartbeats, sent to all at once, with logs of different lengths, so that two of the four survivors cannot win.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.etcd.real_time import EtcdCluster
from netrepro.applications.etcd.run import etcd_without_leader_s
from netrepro.applications.raft.run import network
from netrepro.emulation.tiers import why_no_processes
from netrepro.errors import NetreproError
from netrepro.papers.raft.processes import crash_processes
from netrepro.papers.raft.setting import Setting, distance, published, read_trials
from netrepro.protocols.raft_elections import Election, elect, split_vote_share, timeouts_of
from netrepro.study import (
    SIMULATED,
    VIRTUAL,
    Check,
    Evidence,
    OneRun,
    Play,
    Progress,
    Reading,
    Runs,
    Scale,
    Study,
    in_parallel,
    least_first,
    seed_and_repetition,
    seed_of,
)
from netrepro.study.pictures import say_not_measured
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

RANDOMNESS = ("150-150", "150-151", "150-155", "150-175", "150-200", "150-300")  # Fig. 16's top; its bottom:
SCALE = ("12-24", "25-50", "50-100", "100-200", "150-300")
LINES = tuple(dict.fromkeys(RANDOMNESS + SCALE))
CALIBRATED_ON = "25-50"
# Neither the grey of published curves nor yellow.
COLOURS = dict(zip(LINES, (*CURVES[:7], "#332288", "#117733", "#882255"), strict=True))
WANS = ("WAN, one failed", "WAN, two failed")
PROCESS_LINES = ("150-155", "150-300", "12-24")
ONE_SEED = "{}, one seed"
SPLITS, BLIND = "split votes", "voters do not compare logs"
# etcd: a tick is a heartbeat; its data lie in memory, and all survivors have all entries.
ETCD_MS = {"heartbeat_ms": 15, "election_ms": 150}
ETCD = Election(0.05, 0.3, extra_write_ms=0.2, timer_late_ms=0.05, heartbeat_ms=15.0, tick_ms=15.0, keeps_leader=True)
ELIGIBLE = {"4 of 4": (10, 10, 10, 10), "3 of 4": (10, 10, 10, 9), "2 of 4": (10, 10, 9, 9), "1 of 3": (12, 11, 10)}


def timeouts(line: str) -> dict[str, Any]:
    """Return what a range of timeouts changes in the setting."""
    least, greatest = timeouts_of(line)
    return {"least_timeout_ms": least, "timeout_range_ms": greatest - least}


# The dissertation's simulated WAN: no disk, nothing calibrated.
WAN = timeouts("300-600") | {
    "least_delay_ms": 30.0,
    "greatest_delay_ms": 40.0,
    "least_write_ms": 0.0,
    "extra_write_ms": 0.0,
}
RAFT = {line: timeouts(line) for line in LINES} | {
    WANS[0]: WAN | {"log_lengths": (10, 10, 10, 10)},
    WANS[1]: WAN | {"log_lengths": (10, 10, 10)},
}
CONTROLS = {ONE_SEED.format(name): changes | {"one_seed": True} for name, changes in RAFT.items()}


def cannot(setting: Setting, tier: str) -> str:
    """Say in words what a tier cannot run of a setting; "" for nothing."""
    if tier != VIRTUAL or (setting.checks_logs and not setting.splits and setting.line in (*PROCESS_LINES, "300-600")):
        return ""
    return f"real processes have the lines {', '.join(PROCESS_LINES)} and the WAN"


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read elections in the simulator, or of real processes."""
    if runs[0].tier == VIRTUAL:
        return crash_processes(runs, progress)
    return in_parallel(_read_elections, [(each,) for each in runs], progress=progress)


def _read_elections(run: OneRun) -> Reading:
    setting, (seed, _) = run.setting, run.seed
    if setting.splits:
        return _read_splits(setting.calibration_trials, seed)
    trials = setting.control_trials if setting.one_seed else setting.trials
    found = elect(setting.line, setting.election, trials, seed_of(*run.seed))
    unsafe = int((~found.safe).sum())
    if not setting.checks_logs:
        noticed = Check("unsafe trials that are noticed where voters do not compare logs", unsafe, at_least=1)
        return read_trials(setting, found, [noticed])
    checks = [Check("trials with two leaders in a term, or one without a committed entry", unsafe, at_most=0)]
    if not setting.one_seed:
        checks.append(Check("trials without a leader after 1000 s", int((~found.elected).sum()), at_most=0))
    return read_trials(setting, found, checks)


def _read_splits(trials: int, seed: int) -> Reading:
    splits = split_votes(trials, seed)
    spread = np.sqrt(splits.closed_form * (1 - splits.closed_form) / trials)
    off = float(((splits.share - splits.closed_form).abs() / spread).max())
    checks = [Check("split votes: standard deviations from the closed form", off, at_most=4)]
    return Reading({}, {"splits": splits}, checks)


def calibrate(setting: Setting, profile: str, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Compare a grid of disks, nearest first: least_write_ms, extra_write_ms, distance to the line CALIBRATED_ON, no
    other."""
    grid = [(least, extra) for least in np.arange(0, 4.1, 0.5) for extra in np.arange(0.5, 6.1, 0.5)]
    trials = STUDY.scaled(setting, profile).calibration_trials

    def one(least: float, extra: float) -> tuple[float, float, float]:
        disk = replace(setting, least_write_ms=least, extra_write_ms=extra)
        found = elect(CALIBRATED_ON, disk.election, trials, seed).without_leader_ms.to_numpy()
        return least, extra, distance(found, published()[CALIBRATED_ON])

    table = pd.DataFrame(in_parallel(one, grid, progress=progress))
    table.columns = pd.Index(["least_write_ms", "extra_write_ms", "distance"])
    return table.sort_values("distance", ignore_index=True)


def calibrated(setting: Setting, table: pd.DataFrame) -> Setting:
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


def line_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each line, in ms: median, 90th percentile and greatest of a repetition's trials, ours and
    published; and the distance of the two distributions."""
    ours = runs.summary(SIMULATED)
    rows: dict[str, dict[str, float]] = {}
    for line in LINES:
        rows[line] = {}
        for name, percentile in (("median", 50), ("p90", 90), ("greatest", 100)):
            rows[line] |= {name: ours[f"{name}_ms"][line], f"{name}_published": published()[line][percentile]}
        rows[line]["distance"] = ours.distance[line]
    return pd.DataFrame(rows).T.rename_axis("timeouts_ms")


def times_of(runs: Runs, case: str, tier: str = SIMULATED) -> np.ndarray:
    """Return the ms without a leader in all trials of a case."""
    return runs.table("trials", case, tier)["without_leader_ms"].to_numpy()


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each line and tier: trials, median, mean and 90th percentile (ms), mean terms that began; and
    the greatest distance of the processes' distribution from the simulated one, beside what chance alone exceeds in 1
    of 20."""
    rows = []
    for line in [case for case in RAFT if runs.has(case, tier=VIRTUAL)]:
        ours, theirs = times_of(runs, line, VIRTUAL), times_of(runs, line)
        apart, chance = distance(ours, np.percentile(theirs, range(101))), 1.36 / np.sqrt(len(ours))
        for tier, times in ((SIMULATED, theirs), (VIRTUAL, ours)):
            terms = runs.table("trials", line, tier).terms.mean()
            numbers = (np.median(times), times.mean(), np.percentile(times, 90), terms)
            rows.append((line, tier, len(times), *numbers, *((apart, chance) if tier == VIRTUAL else (None, None))))
    names = ["line", "tier", "trials", "median_ms", "mean_ms", "p90_ms", "terms", "distance", "by_chance"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


# What the paper did not turn, what a class sees, and etcd.


def turn_knobs(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Turn PreVote, who can win, the disk: a row for each knob, value and line: p50_ms, p90_ms and mean_ms without a
    leader, mean_terms."""
    setting = runs.study.scaled(runs.setting, runs.profile)
    knobs: dict[str, dict[str, dict[str, Any]]] = {
        "PreVote": {"off": {}, "on": {"pre_vote": True}},
        "servers that can win": {name: {"log_lengths": logs} for name, logs in ELIGIBLE.items()},
        "mean write (ms)": {
            f"{mean:g}": {"least_write_ms": 0.0, "extra_write_ms": mean} for mean in (0.0, 1.0, 4.0, 10.0)
        },
    }

    def one(knob: str, value: str, line: str) -> tuple:
        own = replace(setting, **knobs[knob][value]).election
        found = elect(line, own, setting.knob_trials, runs.seed)
        p50, p90 = found.without_leader_ms.quantile([0.5, 0.9])
        return knob, value, line, p50, p90, found.without_leader_ms.mean(), found.terms.mean()

    work = [(knob, value, line) for knob, values in knobs.items() for value in values for line in ("12-24", "150-300")]
    rows = in_parallel(one, work, progress=progress)
    return pd.DataFrame(rows, columns=["knob", "value", "line", "p50_ms", "p90_ms", "mean_ms", "mean_terms"])


def without_randomness(setting: Setting, trials: int, seed: int) -> pd.DataFrame:
    """Simulate 150-150 with other fastest writes (their mean stays) and timers: least_write_ms, timer_late_ms, median_s
    without a leader, share_beyond_10_s."""
    rows = []
    mean_ms = setting.least_write_ms + setting.extra_write_ms
    for least in (0.0, 0.5, 1.0):
        for late in (0.02, 0.05, 0.1):
            disk = replace(setting, least_write_ms=least, extra_write_ms=mean_ms - least, timer_late_ms=late)
            times_s = elect("150-150", disk.election, trials, seed).without_leader_ms / 1e3
            rows.append((least, late, times_s.median(), (times_s > 10).mean()))
    return pd.DataFrame(rows, columns=["least_write_ms", "timer_late_ms", "median_s", "share_beyond_10_s"])


def classes(setting: Setting, seed: int, trials: int = 20, count: int = 200) -> pd.DataFrame:
    """Simulate what `count` classes of so few trials would each report, where all survivors can win: 5th, 50th and 95th
    percentile of their medians (ms), by whether heartbeats go out together, and by range."""
    rows = []
    for together in (True, False):
        plain = replace(setting, synchronised=together, log_lengths=(10, 10, 10, 10))
        for line in ("150-150", "150-175", "150-200", "150-300"):
            times = elect(line, plain.election, trials * count, seed).without_leader_ms.to_numpy()
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
    none, little, much = (runs.summary(SIMULATED).median_ms[line] for line in ("150-150", "150-155", "150-300"))
    return runs.beside + (
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
        _steps(axis, times_of(runs, line), color=COLOURS[line], label=f"{line} ms")
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


def draw_splits(runs: Runs) -> Figure:
    """Draw the same curves, and as points the elections that were measured."""
    figure = draw_idea()
    axis = figure.axes[0]
    for colour, survivors in zip(CURVES, SURVIVORS, strict=False):
        splits = runs.table("splits", SPLITS, SIMULATED)
        rows = splits[splits.survivors == survivors]
        axis.plot(rows.latency_ms, 100 * rows.share, "o", color=colour, label="measured")
    axis.legend()
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the same range of timeouts with seeds of the servers' own and with one seed for all."""
    title = "One random seed for all servers is no randomness"
    figure, axis = new_figure(title, "time without leader (ms)", "cumulative share of trials (%)", log_x=True)
    for line in ("12-24", "150-300"):
        for case, style, seeds in ((line, "-", "seeds of their own"), (ONE_SEED.format(line), ":", "one seed")):
            label = f"{line} ms, {seeds}"
            _steps(axis, times_of(runs, case), color=COLOURS[line], linestyle=style, label=label)
    _steps(axis, times_of(runs, "150-150"), color=scheme("control").colour, label="150-150 ms, no range")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw real processes (solid) beside simulated elections (dashed), and what Fig. 16 has of these lines in grey."""
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=2, log_x=True)
    figure.set_size_inches(11, 4)
    groups = (PROCESS_LINES, WANS)
    for axis, lines, title in zip(axes, groups, ("Fig. 16's cluster", "30 to 40 ms apart"), strict=True):
        for line, colour in zip(lines, CURVES, strict=False):
            if line in published():
                axis.plot(published()[line], range(101), color=PUBLISHED_GREY, linewidth=3, alpha=0.6)
            _steps(axis, times_of(runs, line), color=colour, linestyle="--")
            if runs.has(line, tier=VIRTUAL):
                times = times_of(runs, line, VIRTUAL)
                _steps(axis, times, color=colour, label=f"{line}{' ms' * (line in published())}, {len(times)} crashes")
        axis.plot([], [], "--", color="black", label="simulated")
        if VIRTUAL not in runs.tiers:
            say_not_measured(axis, VIRTUAL)
        axis.set(xlabel="time without leader (ms)", ylabel="cumulative share of trials (%)", title=title)
    axes[0].plot([], [], color=PUBLISHED_GREY, linewidth=3, label="published")
    axes[0].set(xlim=(10, 3000))
    axes[1].set(xlim=(200, 6000))
    for axis in axes:
        axis.legend(loc="lower right", fontsize="small")
    return figure


def draw_knobs(runs: Runs) -> Figure:
    """Draw the median (dot) to the 90th percentile (end of the bar), with a column for each knob."""
    table = runs.knobs["knobs"]
    names = list(dict.fromkeys(table.knob))
    figure, axes = new_figure("Median to 90th percentile", "", "", columns=len(names), log_x=True)
    figure.set_size_inches(12, 3.2)
    for axis, name in zip(axes, names, strict=True):
        for shift, (line, rows) in zip((-0.1, 0.1), table[table.knob == name].groupby("line"), strict=False):
            y = np.arange(len(rows)) + shift
            axis.hlines(y, rows.p50_ms, rows.p90_ms, color=COLOURS[str(line)], linewidth=4)
            axis.plot(rows.p50_ms, y, "o", color=COLOURS[str(line)], markersize=8, label=f"timeouts of {line} ms")
            axis.set_yticks(range(len(rows)), rows.value)
        axis.set(xlabel="time without leader (ms)", ylabel=name, xlim=(8, 500), ylim=(-0.5, len(rows) - 0.5))
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


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the distribution of the times without a leader in one run."""
    times = reading["trials"].without_leader_ms.to_numpy()
    figure, axis = new_figure(f"{len(times):,} crashes", "time without leader (ms)", "cumulative share (%)", log_x=True)
    _steps(axis, times, color=CURVES[0])
    return figure


# The study.


def _of(reading: str, case: str) -> Evidence:
    return Evidence(reading, case, control=ONE_SEED.format(case))


def _share(case: str, control: str, how: Callable[[pd.Series], pd.Series]) -> Evidence:
    """Count the trials of which `how` is true of their time without a leader (ms)."""
    return Evidence("trials", case, control=control, how=lambda table: how(table.without_leader_ms), counted=True)


CLAIMS = {
    "no-randomness-beyond-10-s": _share("150-150", "150-155", lambda times_ms: times_ms > 10_000),
    "five-ms-median": _of("median_ms", "150-155"),
    "fifty-ms-worst": _of("greatest_ms", "150-200"),
    "short-timeouts-mean": _of("mean_ms", "12-24"),
    "short-timeouts-worst": _of("greatest_ms", "12-24"),
    "order-of-medians": Evidence(
        "median_ms",
        RANDOMNESS,
        control=tuple(ONE_SEED.format(line) for line in RANDOMNESS),
        how=least_first(*RANDOMNESS),
    ),
    **{f"curve-{line}": _of("distance", line) for line in LINES if line not in ("150-150", CALIBRATED_ON)},
    "wan-mean": _of("mean_ms", WANS[0]),
    "wan-share-below-1500-ms": _share(WANS[0], ONE_SEED.format(WANS[0]), lambda times_ms: times_ms < 1500),
    "wan-two-failed-mean": _of("mean_ms", WANS[1]),
}
# Twenty crashes give medians and means; a greatest or a curve wants Fig. 16's 1,000 trials.
OF_FEW_TRIALS = ("five-ms-median", "short-timeouts-mean", "wan-mean", "wan-two-failed-mean")
PAPER = {
    "control_trials": 1000,
    "calibration_trials": 40_000,
    "knob_trials": 20_000,
    "process_trials": 1000,
    "process_control_trials": 20,
}
ONCE = {SPLITS: 1, BLIND: 1}

STUDY = Study(
    slug="raft",
    setting=Setting(),
    cases=RAFT | CONTROLS | {SPLITS: {"splits": True}, BLIND: {"checks_logs": False}},
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    profiles={
        "quick": Scale(fewer=ONCE),
        "paper": Scale(changes=PAPER, fewer=ONCE),
        "test": Scale(changes={"calibration_trials": 1000, "knob_trials": 50}, fewer=ONCE),
    },
    on_virtual={
        "quick": Scale(
            changes={"trials": 200},
            fewer=ONCE,
            unjudged=[claim for claim in CLAIMS if claim not in OF_FEW_TRIALS],
        ),
        "paper": Scale(changes=PAPER, fewer=ONCE, unjudged=["wan-share-below-1500-ms"]),
    },
    also_on_virtual={
        "quick": Scale(repetitions=1, without=tuple(CONTROLS)),
        "paper": Scale(repetitions=1, changes=PAPER, without=tuple(CONTROLS)),
    },
    claims=CLAIMS,
    knobs={"knobs": turn_knobs},
    figures={
        "splits": draw_splits,
        "fig16_top": partial(draw_lines, lines=RANDOMNESS, title="Randomness of timeouts", logarithmic=True),
        "fig16_bottom": partial(draw_lines, lines=SCALE, title="Scale of timeouts"),
        "processes": draw_tiers,
        "control": draw_control,
        "knobs": draw_knobs,
    },
    play=Play(
        ("150-300", ONE_SEED.format("150-300")),
        {
            "least_timeout_ms": (5.0, 300.0, 5.0),
            "timeout_range_ms": (0.0, 300.0, 1.0),
            "extra_write_ms": (0.0, 20.0, 0.5),
            "pre_vote": [False, True],
        },
        draw_run,
    ),
)
