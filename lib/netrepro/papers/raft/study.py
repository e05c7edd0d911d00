"""Raft's elections: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014.

The leader of five servers crashes; how long until the others have heard from a new one? Figure 16 answers for eleven
ranges of randomized election timeouts. A trial here starts as the paper arranged it, at the old leader's last
heartbeats, which go to all servers at once. Logs have different lengths, so that two of the four survivors cannot win.
Timeouts are whole milliseconds and a vote is two writes, as in LogCabin, the program that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro import backends
from netrepro.applications.etcd.real_time import EtcdCluster
from netrepro.applications.etcd.run import etcd_without_leader_s
from netrepro.applications.raft.run import network
from netrepro.errors import NetreproError
from netrepro.papers.raft.processes import crash_processes
from netrepro.papers.raft.setting import Setting, distance, published, read_trials
from netrepro.protocols.raft_elections import Election, elect, split_vote_share, timeouts_of
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
    least_first,
    seed_and_repetition,
    seed_of,
    swept,
)
from netrepro.study.figures import Bars, Distribution, Mark, Panel, Picture, not_measured
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

RANDOMNESS = ("150-150", "150-151", "150-155", "150-175", "150-200", "150-300")  # Fig. 16's top panel; SCALE: bottom
SCALE = ("12-24", "25-50", "50-100", "100-200", "150-300")
LINES = tuple(dict.fromkeys(RANDOMNESS + SCALE))
CALIBRATED_ON = "25-50"
# Without the grey of published curves, and without yellow.
COLOURS = dict(zip(LINES, (*CURVES[:7], "#332288", "#117733", "#882255"), strict=True))
LOW_END_MS = 0.3  # two standard errors of a first percentile of 1,000 trials of this line
WANS = ("WAN, one failed", "WAN, two failed")
WAN_CRASHES = ("WAN, one crash", "WAN, two crashes")  # from the crash until all have heard, as real processes measure
PROCESS_LINES = ("150-155", "150-300", "12-24")
ONE_SEED = "{}, one seed"
SPLITS, BLIND = "split votes", "voters do not compare logs"
SURVIVORS = (4, 3)  # of five servers
# etcd: a tick is a heartbeat; its data are in memory, and all survivors have all entries.
ETCD_MS = {"heartbeat_ms": 15, "election_ms": 150}
ETCD = Election(0.05, 0.3, extra_write_ms=0.2, timer_late_ms=0.05, heartbeat_ms=15.0, tick_ms=15.0, keeps_leader=True)


def timeouts(line: str) -> dict[str, Any]:
    """Return the setting's changes for a range of timeouts."""
    least, greatest = timeouts_of(line)
    return {"least_timeout_ms": least, "timeout_range_ms": greatest - least}


# The dissertation's simulated WAN, without a disk or calibration. In the authors' simulator (AvailSim) all survivors
# begin with fresh timers, a trial ends with a leader, and timeouts are any number.
WAN = timeouts("300-600") | {
    "least_delay_ms": 30.0,
    "greatest_delay_ms": 40.0,
    "least_write_ms": 0.0,
    "extra_write_ms": 0.0,
    "whole_ms": False,
    "two_writes": False,
}
AVAILSIM = {"fresh_timers": True, "until_elected": True, "trials": 10_000}
ALL_BUT_ONE, ALL_BUT_TWO = {"log_lengths": (10, 10, 10, 10)}, {"log_lengths": (10, 10, 10)}
RAFT = {line: timeouts(line) for line in LINES} | {
    WANS[0]: WAN | AVAILSIM | ALL_BUT_ONE,
    WANS[1]: WAN | AVAILSIM | ALL_BUT_TWO,
}
CONTROLS = {ONE_SEED.format(name): changes | {"one_seed": True} for name, changes in RAFT.items()}
CRASHES = {WAN_CRASHES[0]: WAN | ALL_BUT_ONE, WAN_CRASHES[1]: WAN | ALL_BUT_TWO}


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting; "" where it can."""
    if tier == VIRTUAL and setting.fresh_timers:
        return "elections of real processes begin with a crash"
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
    elections = elect(setting.line, setting.election, trials, seed_of(*run.seed))
    unsafe = int((~elections.safe).sum())
    if not setting.checks_logs:
        noticed = Check("unsafe trials that are noticed where voters do not compare logs", unsafe, at_least=1)
        return read_trials(setting, elections, [noticed])
    checks = [Check("trials with two leaders in a term, or one without a committed entry", unsafe, at_most=0)]
    if not setting.one_seed:
        checks.append(Check("trials without a leader after 1000 s", int((~elections.elected).sum()), at_most=0))
    return read_trials(setting, elections, checks)


def _read_splits(trials: int, seed: int) -> Reading:
    """Compare the share of split first elections with the closed form. Timeouts vary by 100 ms, and there is no
    disk."""
    deviations = []
    for survivors, latency_ms in product(SURVIVORS, (1, 2, 5, 10, 20, 40)):
        cluster = Election(latency_ms, latency_ms, log_lengths=(10,) * survivors)
        share = float((elect("1000-1100", cluster, trials, seed).terms > 1).mean())
        closed_form = split_vote_share(latency_ms / 100, survivors)
        deviations.append(abs(share - closed_form) / np.sqrt(closed_form * (1 - closed_form) / trials))
    return Reading(checks=[Check("split votes: standard deviations from the closed form", max(deviations), at_most=4)])


def calibrate(setting: Setting, profile: str, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Compare a grid of disks with only one line, CALIBRATED_ON. Columns: least_write_ms, extra_write_ms, distance, the
    first percentile of the times (p1_ms), and whether it fits (low_end_fits).

    Disks whose first percentile is the published one, within LOW_END_MS, come first; then the nearest. The distance
    alone hardly tells a disk's least time, on which elections without randomness depend; the line's low end does.
    """
    grid = [(least, extra) for least in np.arange(0, 3.1, 0.25) for extra in np.arange(0.25, 4.1, 0.25)]
    trials = STUDY.scaled(setting, profile).calibration_trials

    def one(least: float, extra: float) -> tuple[float, float, float, float]:
        disk = replace(setting, least_write_ms=least, extra_write_ms=extra)
        times_ms = elect(CALIBRATED_ON, disk.election, trials, seed).without_leader_ms.to_numpy()
        return least, extra, distance(times_ms, published()[CALIBRATED_ON]), float(np.percentile(times_ms, 1))

    table = pd.DataFrame(in_parallel(one, grid, progress=progress))
    table.columns = pd.Index(["least_write_ms", "extra_write_ms", "distance", "p1_ms"])
    table["low_end_fits"] = (table.p1_ms - published()[CALIBRATED_ON][1]).abs() <= LOW_END_MS
    return table.sort_values(["low_end_fits", "distance"], ascending=[False, True], ignore_index=True)


def calibrated(setting: Setting, table: pd.DataFrame) -> Setting:
    """Return the setting with the nearest disk in a table of `calibrate`."""
    best = table.iloc[0]
    return replace(setting, least_write_ms=float(best.least_write_ms), extra_write_ms=float(best.extra_write_ms))


def line_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each line, in ms: median, 90th percentile and greatest of a repetition's trials, ours and
    published; and the distance of the two distributions."""
    ours = runs.summary(SIMULATED).loc[list(LINES)]
    table = pd.DataFrame(index=pd.Index(LINES, name="timeouts_ms"))
    for name, percentile in {"median": 50, "p90": 90, "greatest": 100}.items():
        table[name] = ours[f"{name}_ms"]
        table[f"{name}_published"] = [published()[line][percentile] for line in LINES]
    return table.assign(distance=ours.distance)


def times_of(runs: Runs, case: str, tier: str = SIMULATED) -> np.ndarray:
    """Return the times without a leader (ms) in all trials of a case."""
    return runs.table("trials", case, tier)["without_leader_ms"].to_numpy()


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each line and tier: trials, median, mean and 90th percentile (ms), and the mean number of terms
    that began. For processes also: the greatest distance of their distribution from the simulated one, and the distance
    that chance alone exceeds in 1 of 20."""
    rows = []
    for line in [case for case in RAFT | CRASHES if runs.has(case, tier=VIRTUAL)]:
        ours, theirs = times_of(runs, line, VIRTUAL), times_of(runs, line)
        apart, chance = distance(ours, np.percentile(theirs, range(101))), 1.36 / np.sqrt(len(ours))
        for tier, times in ((SIMULATED, theirs), (VIRTUAL, ours)):
            terms = runs.table("trials", line, tier).terms.mean()
            numbers = (np.median(times), times.mean(), np.percentile(times, 90), terms)
            rows.append((line, tier, len(times), *numbers, *((apart, chance) if tier == VIRTUAL else (None, None))))
    names = ["line", "tier", "trials", "median_ms", "mean_ms", "p90_ms", "terms", "distance", "by_chance"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


# Parameters that the paper did not vary, the results of a class, and etcd.


def without_randomness(setting: Setting, trials: int, seed: int) -> pd.DataFrame:
    """Simulate 150-150 with other least write times (the mean write stays) and timers: least_write_ms, timer_late_ms,
    median_s without a leader, share_beyond_10_s."""
    rows = []
    mean_ms = setting.least_write_ms + setting.extra_write_ms
    for least, late in product((0.0, 0.5, 1.0), (0.02, 0.05, 0.1)):
        disk = replace(setting, least_write_ms=least, extra_write_ms=mean_ms - least, timer_late_ms=late)
        times_s = elect("150-150", disk.election, trials, seed).without_leader_ms / 1e3
        rows.append((least, late, times_s.median(), (times_s > 10).mean()))
    return pd.DataFrame(rows, columns=["least_write_ms", "timer_late_ms", "median_s", "share_beyond_10_s"])


def classes(setting: Setting, seed: int, trials: int = 20, count: int = 200) -> pd.DataFrame:
    """Simulate the reports of `count` classes with so few trials, where all survivors can win. Returns the 5th, 50th
    and 95th percentile of their medians (ms), and share_beyond_10_s of all trials, by whether heartbeats go out
    together, and by range."""
    rows = []
    for together, line in product((True, False), ("150-150", "150-175", "150-200", "150-300")):
        plain = replace(setting, synchronised=together, log_lengths=(10, 10, 10, 10))
        times_ms = elect(line, plain.election, trials * count, seed).without_leader_ms.to_numpy()
        medians = np.percentile(np.median(times_ms.reshape(count, trials), axis=1), (5, 50, 95))
        rows.append(("together" if together else "apart", line, *medians, (times_ms > 10_000).mean()))
    names = ["heartbeats", "timeouts_ms", "median_p5_ms", "median_p50_ms", "median_p95_ms", "share_beyond_10_s"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


def measure_etcd(trials: int, seed: int, progress: Progress = iter) -> tuple[np.ndarray, str]:
    """Measure real processes in real time. Returns (times without a leader in ms, ""), or (an empty array, the
    reason)."""
    stream, heartbeat_s = np.random.default_rng(seed), ETCD_MS["heartbeat_ms"] / 1e3
    try:
        with EtcdCluster(5, **ETCD_MS) as cluster:
            times_s = [cluster.time_without_leader_s(stream.uniform(0, heartbeat_s)) for _ in progress(range(trials))]
    except NetreproError as error:
        return np.array([]), f"not measured: {error}"
    return 1e3 * np.array(times_s), ""


def measure_virtual_etcd(trials: int, seed: int, progress: Progress = iter) -> tuple[np.ndarray, str]:
    """Do the work of measure_etcd with processes in virtual time, which other work on the machine does not disturb."""
    if why := backends.why_absent(VIRTUAL):
        return np.array([]), f"not measured: {why}"
    try:
        times_s = etcd_without_leader_s(network(ETCD, ETCD.servers), trials, seed, **ETCD_MS, progress=progress)
    except NetreproError as error:
        return np.array([]), f"not measured: {error.problem}"
    return 1e3 * np.array(times_s), ""


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    none, little, much = (runs.summary(SIMULATED).median_ms[line] for line in ("150-150", "150-155", "150-300"))
    return runs.beside + (
        f"Without randomness half of the elections take longer than {none / 1e3:.0f} s; 5 ms of it make that "
        f"{little:.0f} ms, 150 ms {much:.0f} ms; no trial had two leaders in a term."
    )


# Figures.

TIME, SHARE = "time without leader (ms)", "share of trials, cumulative"
TWO = ("12-24", "150-300")


def _steps(axis: Axes, times_ms: np.ndarray, **look: Any) -> None:
    axis.plot(np.sort(times_ms), np.linspace(0, 1, len(times_ms)), **look)


def _panel(*marks: Mark, **panel: Any) -> Panel:
    return Panel(TIME, SHARE, *marks, **panel)


def _publish(axis: Axes, *lines: str) -> None:
    for line in [line for line in lines if line in published()]:
        _steps(axis, published()[line], color=PUBLISHED_GREY, linestyle="--", linewidth=1.2, label="published")


def as_published(*lines: str) -> Mark:
    """Make a mark of the lines that Fig. 16 has."""
    return lambda axis, _: _publish(axis, *lines)


def simulated(*lines: str, case: str = "{}", label: str = "{} ms", style: str = "-") -> Mark:
    """Make a mark of the lines' simulated trials, of all repetitions together."""

    def draw(axis: Axes, runs: Runs) -> None:
        for line in lines:
            times_ms = times_of(runs, case.format(line))
            _steps(axis, times_ms, color=COLOURS[line], label=label.format(line), linestyle=style)

    return draw


def both_tiers(*cases: str) -> tuple[Mark, Mark]:
    """Make marks of cases on both tiers; they tell where no processes were measured."""
    trials = Distribution("trials", "without_leader_ms", {case: case for case in cases}, tiers=True)
    return trials, not_measured(VIRTUAL)


def draw_idea() -> Figure:
    """Draw the share of first elections that nobody wins over a message's latency, in closed form."""
    figure, axis = new_figure("Split votes", "message time / range of timeouts (%)", "first elections split (%)")
    for survivors in SURVIVORS:
        shares = [100 * split_vote_share(percent / 100, survivors) for percent in range(51)]
        axis.plot(range(51), shares, label=f"{survivors} survivors of five servers")
    axis.legend()
    return figure


draw_top = Picture(
    "Randomness of timeouts",
    _panel(as_published(*RANDOMNESS), simulated(*RANDOMNESS), log="x", x_range=(60, 1e6)),
)
draw_bottom = Picture("Scale of timeouts", _panel(as_published(*SCALE), simulated(*SCALE), x_range=(0, 500)))
draw_tiers = Picture(
    "Real processes in virtual time, and the simulator",
    _panel(as_published(*PROCESS_LINES), *both_tiers(*PROCESS_LINES), title="Fig. 16's cluster", log="x"),
    _panel(*both_tiers(*WAN_CRASHES), title="30 to 40 ms apart", log="x"),
)
draw_control = Picture(
    "One random seed for all servers is no randomness",
    _panel(simulated(*TWO, "150-150"), simulated(*TWO, case=ONE_SEED, label="{} ms, one seed", style=":"), log="x"),
)
draw_knobs = Picture(
    "Time without leader: PreVote, logs, and the disk",
    *(
        Panel(
            label,
            "90th percentile (ms)",
            Bars("p90_ms", knob, by="least_timeout_ms", looks={12.0: "12-24 ms", 150.0: "150-300 ms"}),
        )
        for knob, label in {"pre_vote": "PreVote", "logs": "survivors' logs", "disk": "mean write (ms)"}.items()
    ),
)


def draw_etcd(
    real: tuple[np.ndarray, str], virtual: tuple[np.ndarray, str], trials: int = 5000, seed: int = 1
) -> Figure:
    """Draw real etcd, in real and in virtual time, and our elections with its timers. Grey: Fig. 16's line of the same
    range."""
    figure, axis = new_figure("etcd with a tick of 15 ms and timeouts of 150 to 285 ms", TIME, SHARE)
    _publish(axis, "150-300")
    ours = elect("150-300", ETCD, trials, seed).without_leader_ms.to_numpy()
    _steps(axis, ours, color=scheme("simulated").colour, label="our elections, with etcd's timers")
    looks = {"virtual": (virtual, scheme("emulated").colour, "o"), "real": (real, CURVES[1], "^")}
    for name, ((times_ms, why), colour, marker) in looks.items():
        label = f"etcd in {name} time, " + (why or f"{len(times_ms)} crashes")
        _steps(axis, times_ms, color=colour, marker=marker, markersize=5, label=label)
    axis.set_xlim(0, 500)
    axis.legend(loc="lower right", fontsize="small")
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the distribution of the times without a leader in one run."""
    times = reading["trials"].without_leader_ms.to_numpy()
    figure, axis = new_figure(f"{len(times):,} crashes", TIME, SHARE, log_x=True)
    _steps(axis, times, color=CURVES[0])
    return figure


# The study.


def _of(reading: str, case: str) -> Evidence:
    return Evidence(reading, case, control=ONE_SEED.format(case))


def _share(case: str, control: str, how: Callable[[pd.Series], pd.Series]) -> Evidence:
    """Count the trials whose time without a leader (ms) satisfies `how`."""
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
    "wan-two-failed-share-below-3-s": _share(WANS[1], ONE_SEED.format(WANS[1]), lambda times_ms: times_ms < 3000),
}
# Twenty crashes suffice for medians and means; a maximum or a curve needs Fig. 16's 1,000 trials.
OF_FEW_TRIALS = ("five-ms-median", "short-timeouts-mean")
PAPER = {
    "control_trials": 1000,
    "calibration_trials": 40_000,
    "process_trials": 1000,
    "process_control_trials": 20,
}
ONCE = {SPLITS: 1, BLIND: 1}

BOTH_LINES: dict[str, Any] = {
    "least_timeout_ms": swept(12.0, 150.0),
    "timeout_range_ms": lambda setting: setting.least_timeout_ms,
}
TRIALS = {"quick": 2000, "paper": 20_000, "test": 50}
SCALES = {profile: Scale(changes={"trials": trials}) for profile, trials in TRIALS.items()}
LOGS = {
    word: BOTH_LINES | {"log_lengths": lengths}
    for word, lengths in {"two pairs": (10, 10, 9, 9), "all differ": (12, 11, 10, 9)}.items()
}
WRITES = {f"{mean:g}": {"least_write_ms": 0.0, "extra_write_ms": mean} for mean in (0.0, 1.0, 4.0, 6.0)}

STUDY = Study(
    slug="raft",
    setting=Setting(),
    cases=RAFT | CRASHES | CONTROLS | {SPLITS: {"splits": True}, BLIND: {"checks_logs": False}},
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    scales={
        "quick": Scale(fewer=ONCE),
        "paper": Scale(changes=PAPER, fewer=ONCE),
        "test": Scale(changes={"calibration_trials": 1000}, fewer=ONCE),
        ("quick", VIRTUAL): Scale(
            changes={"trials": 200},
            fewer=ONCE,
            unjudged=[claim for claim in CLAIMS if claim not in OF_FEW_TRIALS],
        ),
        ("paper", VIRTUAL): Scale(changes=PAPER, fewer=ONCE),
        ("quick", BESIDE): Scale(repetitions=1, without=tuple(CONTROLS)),
        ("paper", BESIDE): Scale(repetitions=1, changes=PAPER, without=tuple(CONTROLS)),
    },
    claims=CLAIMS,
    knobs={
        "pre_vote": Knob({"off": BOTH_LINES, "on": BOTH_LINES | {"pre_vote": True}}, SCALES),
        "logs": Knob(LOGS, SCALES),
        "disk": Knob({mean: BOTH_LINES | changes for mean, changes in WRITES.items()}, SCALES),
    },
    figures={
        "fig16_top": draw_top,
        "fig16_bottom": draw_bottom,
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
