"""SUSS: Arghavani et al., "SUSS: Improving TCP Performance by Speeding Up Slow-Start", SIGCOMM 2024, Figs 10 to 12.

A sender that finds its path empty doubles its window once more than slow start would, and paces what it sends beyond
the doubling. Short flows over long paths are complete sooner; how much sooner is a constant once both fill the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each, least_first
from netrepro.study import pictures as drawing
from netrepro.study.setting import setting
from netrepro.style import CURVES, new_figure, scheme

PORT = ("s1", "s2")
SEGMENT_BYTES = 1448
INITIAL_WINDOW = 10
MOST_FOURFOLD = 3  # rounds, in the authors' code
SIZES_MB = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0)
ROUND_TRIPS_MS = (25.0, 50.0, 75.0, 100.0, 150.0, 250.0)
NEAR_MS = (1.0, 5.0, 9.0)  # where SUSS switches itself off
EXAMPLE_MB = (0.2, 0.5, 1.0, 2.0, 4.0, 16.0)
LIMIT_MB, LIMIT_MS = 5.0, 50.0  # of the abstract: flows below, round trips above
FAIR = 0.95  # Jain's index
ACCESS_MBPS, ACCESS_MS = 1000.0, 0.01


@dataclass(frozen=True)
class Setting:
    """A bottleneck and who sends through it.

    buffer_bdp : the bottleneck's buffer in bandwidth-delay products, unless `buffer_packets` is given. size_mb : what
    the flow carries, unless it `lasts_s`. mended : HyStart tells rounds apart from the first on, as kernels do since
    2025. extra_ms : of one way of the path, on top of the round trip, as netem adds it. joins_s : with five flows, when
    the fifth begins. watch : record windows and packets. module_cubic : CUBIC with HyStart's fault is SUSS without a
    fourfold round, as the virtual kernel's own CUBIC was mended.
    """

    rate_mbps: float = setting(50.0, "of the bottleneck in Fig. 12 and the knobs", "Mb/s", low=1, high=1000)
    round_trip_ms: float = 100.0
    extra_ms: float = 0.0
    buffer_bdp: float = 1.0
    buffer_packets: int = 0
    jitter_ms: float = setting(0.0, "by how much its delay varies from packet to packet at most", "ms", low=0, high=100)
    size_mb: float = 2.0
    lasts_s: float = 0.0
    flows: int = 1
    joins_s: float = 0.0
    congestion_control: str = "cubic"
    hystart: bool = True
    mended: bool = False
    suss_rounds: int = MOST_FOURFOLD
    suss_guard: bool = True
    suss_pacing: bool = True
    watch: bool = False
    module_cubic: bool = False

    @property
    def path_ms(self) -> float:
        """The round trip with what is added to it."""
        return self.round_trip_ms + self.extra_ms

    @property
    def bdp_packets(self) -> float:
        """Full packets that fill the path."""
        return self.rate_mbps * 1e3 * self.path_ms / 8 / FULL_PACKET_BYTES

    @property
    def control(self) -> tuple[str, int]:
        """The congestion control, and how many rounds of SUSS may grow fourfold."""
        if self.module_cubic and self.congestion_control == "cubic" and not self.mended:
            return "suss", 0
        return self.congestion_control, self.suss_rounds

    @property
    def queue_packets(self) -> int:
        """The bottleneck's buffer."""
        return self.buffer_packets or max(1, round(self.buffer_bdp * self.bdp_packets))


SUSS: dict[str, Any] = {"congestion_control": "suss"}
NONE_FOURFOLD = SUSS | {"suss_rounds": 0}


def _cases(name: str, common: dict[str, Any], **schemes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{name}, {scheme.replace('_', ' ')}": common | changes for scheme, changes in schemes.items()}


_three = partial(_cases, cubic={}, suss=SUSS, none_fourfold=NONE_FOURFOLD)
GRID = {
    "size_mb": each(*SIZES_MB),
    "round_trip_ms": each(*ROUND_TRIPS_MS),
    "buffer_bdp": each(0.5, 1.0, 2.0),
}
LATER_PATH = {"rate_mbps": 50.0, "round_trip_ms": 100.0}
TWO_SECONDS = {"rate_mbps": 100.0, "round_trip_ms": 270.0, "lasts_s": 2.0, "watch": True}
EXAMPLE: dict[str, Any] = {
    "rate_mbps": 48.0,
    "round_trip_ms": 49.5,
    "buffer_packets": 1000,
    "size_mb": each(*EXAMPLE_MB),
    "watch": True,
}
LATER = LATER_PATH | {"buffer_packets": 413, "size_mb": each(5.0, 20.0), "mended": True, "watch": True}
CLASS = {"rate_mbps": 50.0, "round_trip_ms": 40.0, "extra_ms": each(0.0, 500.0), "size_mb": 12.0, "watch": True}
FIFTH = LATER_PATH | {"flows": 5, "joins_s": 90.0, "lasts_s": 150.0, "watch": True}
CASES: dict[str, dict[str, Any]] = {
    **_cases("fig12", GRID, cubic={}, suss=SUSS),
    "fig12, none fourfold": GRID | NONE_FOURFOLD | {"round_trip_ms": each(75.0, 100.0, 250.0), "buffer_bdp": each(1.0)},
    **_three("fig10", TWO_SECONDS),
    **_three("example", EXAMPLE),
    "example, mended": EXAMPLE | SUSS | {"mended": True},
    **_cases("later", LATER, none={"hystart": False}, hystart={}, suss=SUSS, none_fourfold=NONE_FOURFOLD),
    "later, not mended": LATER | SUSS | {"mended": False},
    **_cases("class", CLASS, cubic={}, suss=SUSS),
    **_three("fifth", FIFTH),
    **_cases("near", {"round_trip_ms": each(*NEAR_MS), "size_mb": each(0.5, 2.0)}, cubic={}, suss=SUSS),
}


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment: one flow over the bottleneck; or several long ones, which begin within a second but for the
    last.

    Raises NetreproError for a flow of no size that has no end, and a round trip that the hosts' own links exceed.
    """
    if not (setting.size_mb > 0 or setting.lasts_s > 0):
        raise NetreproError(f"SUSS: a flow of {setting.size_mb} MB", "give size_mb above 0, or lasts_s")
    one_way_ms = setting.path_ms / 2 - 2 * ACCESS_MS
    if one_way_ms <= 0:
        raise NetreproError(f"SUSS: a round trip of {setting.path_ms} ms", f"give more than {4 * ACCESS_MS} ms")
    bottleneck = Link(setting.rate_mbps, one_way_ms, DropTail(setting.queue_packets), jitter_ms=setting.jitter_ms)
    net = dumbbell(setting.flows, Link(ACCESS_MBPS, ACCESS_MS, DropTail(packets=100_000)), bottleneck)
    lasts_s, flows = _flows(setting, seed)
    congestion_control, suss_rounds = setting.control
    tcp = Tcp(
        congestion_control,
        receive_window_bytes=64 * 2**20,
        receive_window_grows=False,  # SUSS's window outgrows it, of which its authors had it take no notice
        hystart=setting.hystart,
        hystart_rounds_from_start=setting.mended,
        suss_rounds=suss_rounds,
        suss_guard=setting.suss_guard,
        suss_pacing=setting.suss_pacing,
    )
    watch = Measure(packets=(PORT,), windows_interval_ms=5.0 if setting.flows == 1 else None)
    return Experiment(net, flows, lasts_s, seed, watch if setting.watch else Measure(), tcp)


def _flows(setting: Setting, seed: int) -> tuple[float, tuple[Flow, ...]]:
    """Return the length of the experiment in seconds, and its traffic."""
    last = f"h{2 * setting.flows}"
    if setting.flows > 1:
        starts_s = [*np.random.default_rng(seed).uniform(0, 1, setting.flows - 1), setting.joins_s]
        pairs = [(f"h{i + 1}", f"h{i + 1 + setting.flows}", float(start)) for i, start in enumerate(starts_s)]
        long = (Flow(here, there, None, setting.lasts_s - start, start) for here, there, start in pairs)
        return setting.lasts_s, tuple(long)
    if setting.lasts_s:
        # As a sender's log counts: from the first data sent to their acknowledgement. The receiver has them half a
        # round trip earlier, and the connection was opened a round trip before.
        lasts_s = setting.lasts_s + setting.path_ms / 2e3
        return lasts_s, (Flow("h1", last, None, lasts_s),)
    lasts_s = 10.0 + 40 * setting.path_ms / 1e3 + 3 * setting.size_mb * 8 / setting.rate_mbps
    return lasts_s, (Flow("h1", last, round(setting.size_mb * 1e6)),)


def read(found: Measurements, setting: Setting) -> Reading:
    """Read one run. For one flow: completion_ms (from the connect call), completion_s (from when the first data arrive,
    as logs count), delivered_mb, dropped_packets. For a run that is watched: exit_segments (where slow start ended;
    NaN: never) and the tables `windows` and `carried`. For five flows: seconds until they are fair, and the table
    `fairness`."""
    flow = found.flows.iloc[0]
    bottleneck = found.links.set_index(["source", "destination"]).loc[PORT]
    numbers: dict[str, float] = {
        "completion_ms": float(flow.completion_ms),
        "completion_s": float(flow.completion_ms - 1.5 * setting.path_ms) / 1e3,
        "delivered_mb": float(found.flows.delivered_bytes.sum()) / 1e6,
        "dropped_packets": int(bottleneck.dropped_packets),
        "exit_segments": np.nan,
        "fair_after_s": np.nan,
    }
    tables: dict[str, pd.DataFrame] = {}
    checks = [Check("packets at the bottleneck's rate (utilisation)", float(bottleneck.utilisation), at_most=1.001)]
    if setting.flows == 1 and not setting.lasts_s:
        least_ms = 1.5 * setting.path_ms + flow.size_bytes * 8e-3 / setting.rate_mbps
        checks.append(Check("bytes delivered / sent", flow.delivered_bytes / flow.size_bytes, 1.0, 1.0))
        checks.append(Check("completion / least possible", flow.completion_ms / least_ms, at_least=1.0))
    if setting.flows > 1:
        fairness = jain_by_second(found.packets, setting.flows)
        numbers["fair_after_s"], tables["fairness"] = fair_after_s(fairness, setting), fairness
        before = fairness[fairness.time_s.between(setting.joins_s - 10, setting.joins_s - 1)]
        numbers["four_fair"] = float(before.jain.mean() * setting.flows / (setting.flows - 1))
    elif setting.watch:
        numbers["exit_segments"], tables = _course(found, setting)
    return Reading(numbers, tables, checks)


def _course(found: Measurements, setting: Setting) -> tuple[float, dict[str, pd.DataFrame]]:
    """Compute how a flow's window grew, since the first acknowledgement of data, and what was acknowledged, since the
    first data were sent. What leaves the bottleneck is acknowledged a round trip later, and data wait one for the
    connection."""
    windows = found.windows.assign(time_s=found.windows.time_s - 2 * setting.path_ms / 1e3)
    left = windows.slow_start_threshold_bytes[np.isfinite(windows.slow_start_threshold_bytes)]
    data = found.packets[found.packets.size_bytes > FULL_PACKET_BYTES / 2]
    carried = pd.DataFrame({"time_s": data.time_s.to_numpy()})
    carried["carried_mb"] = np.arange(1, len(data) + 1) * SEGMENT_BYTES / 1e6
    window = pd.DataFrame({"time_s": windows.time_s, "window_segments": windows.window_bytes / SEGMENT_BYTES})
    exit_segments = float(left.iloc[0] / SEGMENT_BYTES) if len(left) else np.nan
    return exit_segments, {"windows": window[window.time_s.between(0.0, 2.0)], "carried": carried.iloc[::10]}


def jain_by_second(packets: pd.DataFrame, flows: int) -> pd.DataFrame:
    """Compute Jain's index of `flows` over the bytes that each sent through the port in each second: time_s, jain."""
    second = np.floor(packets.time_s).astype(int).rename("time_s")
    shares = packets.size_bytes.groupby([second, packets.flow]).sum().unstack(fill_value=0)
    index = shares.sum(axis=1) ** 2 / (flows * (shares**2).sum(axis=1))
    return index.rename("jain").reset_index()


def fair_after_s(fairness: pd.DataFrame, setting: Setting) -> float:
    """Compute the whole seconds after the fifth flow's start until the index is FAIR; all that are left if it never
    is."""
    after = fairness[fairness.time_s >= setting.joins_s]
    fair = after.time_s[after.jain >= FAIR]
    return float((fair.iloc[0] if len(fair) else setting.lasts_s) - setting.joins_s)


# The closed form: what SUSS saves once both fill the path.


def rounds_that_grow_fourfold(bdp_packets: float, most: int = MOST_FOURFOLD) -> int:
    """Count how often the window grows fourfold on an empty path of `bdp_packets`.

    The first condition of the paper, for acknowledgements that come at the bottleneck's rate: the train of the window
    four times as large must fit into the round trip, so that window must not exceed the path. A sender sees the train
    somewhat too short, from its first to its last acknowledgement, so a path a little shorter may do.
    """
    return next((n for n in range(most) if INITIAL_WINDOW * 4 ** (n + 1) > bdp_packets), most)


def round_windows(bdp_packets: float, fourfold: int) -> list[int]:
    """Compute the windows (segments), round after round, until one fills the path; that one is not among them."""
    windows, window = [], INITIAL_WINDOW
    while window < bdp_packets:
        windows.append(window)
        window *= 4 if len(windows) <= fourfold else 2
    return windows


def idle_round_trips(bdp_packets: float, fourfold: int) -> float:
    """Compute the round trips that the path has idle until it is full: a round of window W leaves 1 - W / BDP of
    one."""
    return sum(1 - window / bdp_packets for window in round_windows(bdp_packets, fourfold))


def saved_round_trips(bdp_packets: float, most: int = MOST_FOURFOLD) -> float:
    """Compute the round trips that SUSS saves once both fill the path: nothing differs from then on, so the saving is
    the difference of what both leave idle. It depends on the path alone, not on the size of the flow."""
    fourfold = rounds_that_grow_fourfold(bdp_packets, most)
    return idle_round_trips(bdp_packets, 0) - idle_round_trips(bdp_packets, fourfold)


def completion_at_full_path_ms(setting: Setting, fourfold: int) -> float:
    """Compute the completion (from the connect call) of a flow that is large enough to fill the path, without losses:
    one and a half round trips until the first data arrive, the rounds that leave it idle, and the bytes at its rate."""
    waiting_ms = (1.5 + idle_round_trips(setting.bdp_packets, fourfold)) * setting.path_ms
    return waiting_ms + setting.size_mb * 8e3 / setting.rate_mbps * FULL_PACKET_BYTES / SEGMENT_BYTES


def flights(segments: int, fourfold: int) -> int:
    """Count the round trips in which `segments` leave a sender that nothing holds up."""
    window, sent, count = INITIAL_WINDOW, 0, 0
    while sent < segments:
        sent, count = sent + window, count + 1
        window *= 4 if count <= fourfold else 2
    return count


# How claims read completion times, a Series over the grid.


def improvement(suss: Any, cubic: Any) -> Any:
    """Compute the share of the completion time that is saved."""
    return 1 - suss / cubic


def least_improvement(suss: pd.Series, cubic: pd.Series) -> float:
    """Compute the least improvement over all flows and paths that the abstract speaks of."""
    share = improvement(suss, cubic)
    places = share.index.to_frame()
    return float(share[(places.size_mb < LIMIT_MB) & (places.round_trip_ms > LIMIT_MS)].min())


def _saved_at_line_rate_ms(suss: pd.Series, cubic: pd.Series) -> float:
    return float((cubic - suss)[cubic.index >= 0.5].mean())


def _of_size(size_mb: float) -> Any:
    return lambda values: float(values[size_mb])


def improvements(runs: Runs, name: str = "fig12", column: str = "completion_ms") -> pd.DataFrame:
    """Return a row for each size, path and repetition: saved_ms, improvement (share)."""
    keys = [*runs.swept, "repetition"]
    cubic, suss = (
        runs.numbers(f"{name}, {scheme}").set_index(keys)[column].rename(scheme) for scheme in ("cubic", "suss")
    )
    both = pd.concat([cubic, suss], axis=1).reset_index()
    both["saved_ms"] = both.cubic - both.suss
    both["improvement"] = improvement(both.suss, both.cubic)
    return both


def above_a_fifth(runs: Runs) -> pd.DataFrame:
    """Compute the share of flows and paths, among those that the abstract speaks of, whose improvement is above 20 %,
    by size and round trip, over buffers and repetitions."""
    table = improvements(runs).query("size_mb < @LIMIT_MB and round_trip_ms > @LIMIT_MS")
    return (table.assign(above=table.improvement > 0.2)).pivot_table("above", "round_trip_ms", "size_mb")


def later_table(runs: Runs) -> pd.DataFrame:
    """Return the authors' table of 2025 and ours beside it: a row for each scheme."""
    rows = {}
    for case, published in LATER_PUBLISHED.items():
        mean = runs.numbers(f"later, {case}").groupby("size_mb")[["completion_s", "dropped_packets", "exit_segments"]]
        ours = mean.mean()
        measured = (ours.completion_s[5.0], ours.dropped_packets[20.0], ours.exit_segments[20.0])
        rows[case] = [value for pair in zip(published, measured, strict=True) for value in pair]
    what = ("5 MB (s)", "losses of 20 MB", "exit (segments)")
    columns = pd.MultiIndex.from_product([what, ("published", "ours")])
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def round_log(runs: Runs) -> pd.DataFrame:
    """Compare SUSS in the authors' example, on every tier: the window (segments) as rounds 2, 3 and 4 end, and slow
    start's."""
    rows = {"the authors' log": EXAMPLE_LOG}
    for tier in runs.tiers:
        numbers = runs.numbers("example, suss", tier).query("size_mb == 16")
        table = runs.table("windows", "example, suss", tier).query("size_mb == 16 and repetition == 0")
        ends_s = [place * EXAMPLE["round_trip_ms"] / 1e3 for place in (1, 2, 3)]
        windows = [table.window_segments[table.time_s <= end].iloc[-1] for end in ends_s]
        rows[tier] = (*windows, numbers.exit_segments.mean())
    return pd.DataFrame(rows, index=["round 2", "round 3", "round 4", "exit"]).T


def between_tiers(runs: Runs) -> pd.DataFrame:
    """Compare the tier asked for with the simulator: a row for each case, with the largest difference of completion
    times (ms, and as a share) and of where slow start ended (segments) over its grid and repetitions."""
    keys = ["case", *runs.swept, "repetition"]
    ours, simulated = (runs.values[runs.values.tier == tier].set_index(keys) for tier in (runs.tier, "simulated"))
    apart_ms = (ours.completion_ms - simulated.completion_ms).abs()
    table = pd.DataFrame({"completion (ms)": apart_ms, "completion (share)": apart_ms / simulated.completion_ms})
    table["exit (segments)"] = (ours.exit_segments - simulated.exit_segments).abs()
    return table.groupby("case", sort=False).max().dropna(how="all")


EXAMPLE_LOG = (40, 160, 320, 608)
LATER_PUBLISHED = {"none": (1.5, 1105, np.nan), "hystart": (1.29, 40, 530), "suss": (1.11, 35, 540)}


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = improvements(runs).query("round_trip_ms == 100 and buffer_bdp == 1")
    share = table.groupby("size_mb").improvement.mean()
    example = improvements(runs, "example").query("size_mb >= 0.5")
    near = improvements(runs, "near").saved_ms.abs().max()
    return (
        f"On {runs.setting.rate_mbps:g} Mb/s and 100 ms SUSS saves {share[1.0]:.0%} of the completion time at 1 MB, "
        f"{share[4.0]:.0%} at 4 MB "
        f"and {share[0.1]:.0%} at 0.1 MB; in the authors' example it saves {example.saved_ms.mean():.0f} ms at every "
        f"size from 0.5 MB on (theirs: 76 ms), and below 10 ms of round trip {near:.0f}."
    )


# Figures.


LABELS = {"cubic": "CUBIC", "suss": "CUBIC with SUSS", "none fourfold": "SUSS, no fourfold round"}
COLOURS = {"cubic": CURVES[0], "suss": CURVES[6], "none fourfold": scheme("control").colour}


def draw_idea() -> Figure:
    """Draw the windows round after round on a path of 826 packets, and where each fills it."""
    bdp = Setting(rate_mbps=100.0).bdp_packets
    figure, axis = new_figure("A path is filled in fewer rounds", "rounds (round trips)", "window (segments)")
    for name, fourfold in (("cubic", 0), ("suss", rounds_that_grow_fourfold(bdp))):
        windows = np.array([*round_windows(bdp, fourfold), bdp])
        places = np.arange(len(windows) + 1)
        axis.step(places, [*windows, bdp], where="post", color=COLOURS[name], linewidth=2, label=LABELS[name])
    axis.axhline(bdp, color="#444444", linestyle=":", label="the path is full (100 Mb/s, 100 ms)")
    axis.set_ylim(0, 1.35 * bdp)
    axis.legend(loc="upper left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw one pair behind the bottleneck."""
    return drawing.draw_network(experiment(setting, 0.0, 1), "One flow over a long path")


def _draw_carried(axis: Any, runs: Runs, case: str, until_s: float, **look: Any) -> None:
    rows = runs.table("carried", case).query("repetition == 0 and time_s <= @until_s")
    axis.plot([*rows.time_s, until_s], [*rows.carried_mb, rows.carried_mb.max()], **look)


def draw_two_seconds(runs: Runs) -> Figure:
    """Draw data carried over time (Fig. 10), on a path that fits its 2 MB of CUBIC."""
    figure, axis = new_figure("Data carried over time (Fig. 10)", "time since the first data (s)", "acknowledged (MB)")
    for name in ("cubic", "suss"):
        look = {"color": COLOURS[name], "linewidth": 2, "label": LABELS[name]}
        _draw_carried(axis, runs, f"fig10, {name}", 2.0, **look)
    axis.plot([2, 2], [2, 7], "D", color=drawing.PUBLISHED_GREY, markersize=8, label="published, at 2 s", clip_on=False)
    axis.set(xlim=(0, 2.03), ylim=(0, None))
    axis.legend(loc="upper left")
    return figure


def draw_improvement(runs: Runs) -> Figure:
    """Draw the improvement over size, a curve for each round trip; the smallest and the largest buffer (Fig. 12)."""
    table = improvements(runs)
    buffers = sorted({table.buffer_bdp.min(), table.buffer_bdp.max()})
    figure, axes = drawing.panels(
        "Completion time saved (Fig. 12)",
        "flow size (MB)",
        "saved (% of CUBIC's)",
        [f"buffer of {value:g} BDP" for value in buffers],
        log_x=True,
    )
    table["percent"] = 100 * table.improvement
    for axis, buffer in zip(axes, buffers, strict=True):
        rows = table[table.buffer_bdp == buffer]
        drawing.draw_sweep(axis, rows, "size_mb", "percent", by="round_trip_ms", label="{} ms")
        drawing.draw_published_level(axis, 20, "20 % (abstract, below 5 MB)")
        axis.axvline(LIMIT_MB, color=drawing.PUBLISHED_GREY, linestyle=":", linewidth=1)
        axis.set_ylim(-2, 45)
        drawing.name_ticks(axis, "x", table.size_mb)
    drawing.share_legend(figure)
    return figure


def draw_example(runs: Runs) -> Figure:
    """Draw the authors' example run: what is saved, as a time and as a share."""
    table = improvements(runs, "example", "completion_s").assign(saved_ms=lambda rows: 1e3 * rows.saved_ms)
    table["percent"] = 100 * table.improvement
    figure, axes = drawing.panels(
        "A constant saving, divided by a completion time that grows", "flow size (MB)", "", ["", ""], log_x=True
    )
    published = pd.DataFrame(EXAMPLE_PUBLISHED_MS, index=["cubic", "suss"]).T
    saved = published.cubic - published.suss
    for axis, column, theirs in zip(axes, ("saved_ms", "percent"), (saved, 100 * saved / published.cubic), strict=True):
        axis.plot(theirs.index, theirs, "D", color=drawing.PUBLISHED_GREY, markersize=9, label="the authors' logs")
        drawing.draw_sweep(axis, table, "size_mb", column, label="ours", color=COLOURS["suss"])
        drawing.name_ticks(axis, "x", EXAMPLE_MB)
        axis.set_ylim(bottom=0)
    setting = STUDY.case("example, suss")
    closed_ms = saved_round_trips(setting.bdp_packets) * setting.path_ms
    axes[0].axhline(closed_ms, color="#444444", linestyle=":", label=f"closed form, {closed_ms:.0f} ms")
    axes[0].set(ylabel="saved (ms)", ylim=(0, 95))
    axes[1].set_ylabel("saved (% of CUBIC's)")
    drawing.share_legend(figure)
    return figure


EXAMPLE_PUBLISHED_MS = {
    0.2: (166, 123),
    0.5: (259, 183),
    1.0: (342, 266),
    2.0: (510, 434),
    4.0: (844, 768),
    16.0: (2852, 2776),
}


def draw_later(runs: Runs) -> Figure:
    """Draw the windows of 20 MB in the authors' test of 2025, and what becomes of SUSS there without the mended
    HyStart."""
    figure, axis = new_figure(
        "The authors' test of 2025: 50 Mb/s, 100 ms", "time since the first acknowledgement (s)", "window (segments)"
    )
    looks = {
        "none": ("no HyStart", "#444444"),
        "hystart": ("HyStart, mended", COLOURS["cubic"]),
        "suss": ("SUSS, mended", COLOURS["suss"]),
        "not mended": ("SUSS, not mended", scheme("control").colour),
    }
    for case, (label, colour) in looks.items():
        rows = runs.table("windows", f"later, {case}").query("repetition == 0 and size_mb == 20 and time_s <= 2")
        style = "--" if case == "not mended" else "-"
        axis.plot(rows.time_s, rows.window_segments, style, color=colour, linewidth=1.6, label=label)
    axis.plot([0.55, 0.35], [530, 540], "D", color=drawing.PUBLISHED_GREY, markersize=8, label="published exits")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw the windows on every tier, where HyStart has its fault (16 MB of the example) and where not (20 MB of
    2025)."""
    figure, axes = drawing.panels(
        "Windows, tier by tier",
        "time since the first acknowledgement (s)",
        "window (segments)",
        ["the authors' example: HyStart with its fault", "the authors' test of 2025: mended"],
    )
    names = {"example, cubic": "cubic", "example, suss": "suss", "later, hystart": "cubic", "later, suss": "suss"}
    for place, (case, name) in enumerate(names.items()):
        for tier, style in zip(runs.tiers, ("-", ":"), strict=False):
            rows = runs.table("windows", case, tier).query("repetition == 0 and size_mb >= 16 and time_s <= 0.8")
            label = f"{LABELS[name]}, {tier}"
            axes[place // 2].plot(rows.time_s, rows.window_segments, style, color=COLOURS[name], label=label)
    for axis in axes:
        axis.set_ylim(bottom=0)
    drawing.share_legend(figure)
    return figure


def draw_class(runs: Runs) -> Figure:
    """Draw the class project's two pictures: 12 MB without and with 500 ms more."""
    extras = sorted(runs.numbers("class, suss").extra_ms.unique())
    figure, axes = drawing.panels(
        "What the class project saw: 12 MB",
        "time since the first data (s)",
        "acknowledged (MB)",
        [f"round trip {CLASS['round_trip_ms'] + extra:g} ms" for extra in extras],
    )
    for axis, extra in zip(axes, extras, strict=True):
        for name in ("cubic", "suss"):
            rows = runs.table("carried", f"class, {name}").query("repetition == 0")
            rows = rows[rows.extra_ms == extra]
            style = "--" if name == "suss" else "-"
            axis.plot(rows.time_s, rows.carried_mb, style, color=COLOURS[name], linewidth=2, label=LABELS[name])
        axis.set(xlim=(0, None), ylim=(0, 12.2))
        axis.legend(loc="lower right")
    return figure


def draw_fifth(runs: Runs) -> Figure:
    """Draw Jain's index of five flows around the start of the fifth, every repetition and their mean."""
    figure, axes = drawing.panels(
        "A fifth flow joins", "time since it began (s)", "Jain's index (1)", [LABELS["cubic"], LABELS["suss"]]
    )
    for axis, name in zip(axes, ("cubic", "suss"), strict=True):
        if not runs.has(f"fifth, {name}"):
            drawing.say_not_measured(axis, runs.tier, "in this profile ")
            continue
        table = runs.table("fairness", f"fifth, {name}").assign(since_s=lambda rows: rows.time_s - FIFTH["joins_s"])
        table = table[table.since_s >= -20]
        for _, rows in table.groupby("repetition"):
            axis.plot(rows.since_s, rows.jain, color=COLOURS[name], linewidth=0.8, alpha=0.35)
        axis.plot(table.groupby("since_s").jain.mean(), color=COLOURS[name], linewidth=2, label="mean")
        axis.axhline(FAIR, color="#444444", linestyle=":", label=f"{FAIR:g}: fair")
        axis.set_ylim(0.5, 1.01)
        axis.legend(loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw what is saved where no round may grow fourfold, and where SUSS switches itself off."""
    whole = runs.numbers("fig12, cubic").query("round_trip_ms == 100 and buffer_bdp == 1").set_index("size_mb")
    figure, axis = new_figure("Broken on purpose", "flow size (MB)", "saved (ms)", log_x=True)
    for name in ("suss", "none fourfold"):
        other = runs.numbers(f"fig12, {name}").query("round_trip_ms == 100 and buffer_bdp == 1").set_index("size_mb")
        means = (whole.completion_ms - other.completion_ms).groupby("size_mb").mean()
        axis.plot(means, "o-", color=COLOURS[name], label=f"{LABELS[name]}, 100 ms")
    near = improvements(runs, "near").groupby("size_mb").saved_ms.mean()
    axis.plot(near, "s", color=CURVES[2], markersize=8, fillstyle="none", label="SUSS, round trips up to 9 ms")
    drawing.name_ticks(axis, "x", SIZES_MB)
    axis.legend()
    return figure


def draw_mended(runs: Runs) -> Figure:
    """Draw what is saved against CUBIC whose HyStart has or has not the fault, over size. Dotted: the closed form."""
    table = runs.knobs["mended"].copy()
    figure, axes = drawing.panels(
        "Both with the fault of HyStart, and both without",
        "flow size (MB)",
        "saved (round trips)",
        [f"round trip {value:g} ms" for value in sorted(table.round_trip_ms.unique())],
        log_x=True,
    )
    for axis, (round_trip_ms, rows) in zip(axes, table.groupby("round_trip_ms"), strict=True):
        for colour, mended in ((COLOURS["cubic"], False), (COLOURS["suss"], True)):
            times = rows[rows.mended == mended].pivot_table("completion_ms", "size_mb", "case")
            label = "mended" if mended else "as in the paper's kernels"
            axis.plot((times.cubic - times.suss) / round_trip_ms, "o-", color=colour, label=label)
        closed = saved_round_trips(Setting(runs.setting.rate_mbps, round_trip_ms).bdp_packets)
        axis.axhline(closed, color="#444444", linestyle=":", label="closed form")
        drawing.name_ticks(axis, "x", table.size_mb)
        axis.set_ylim(bottom=0)
    drawing.share_legend(figure)
    return figure


def draw_jumps(runs: Runs) -> Figure:
    """Draw the improvement over size in small steps: a jump where CUBIC needs one more flight than SUSS, then a slope
    down."""
    table = runs.knobs["sizes"]
    times = table.pivot_table("completion_ms", "size_mb", "case")
    figure, axis = new_figure("Why the curve slopes down after each jump", "flow size (MB)", "saved (% of CUBIC's)")
    axis.plot(100 * improvement(times.suss, times.cubic), color=COLOURS["suss"], linewidth=1.5, label="simulated")
    setting = runs.setting
    ends = np.cumsum(round_windows(setting.bdp_packets, 0)) * SEGMENT_BYTES / 1e6
    for place, end in enumerate(ends):
        axis.axvline(end, color=COLOURS["cubic"], linestyle=":", linewidth=1, label="" if place else "CUBIC's flights")
    closed_ms = saved_round_trips(setting.bdp_packets) * setting.path_ms
    full = times.index[times.index > sum(ends[-1:]) + 0.3]  # both fill the path
    axis.plot(full, 100 * closed_ms / times.cubic[full], "--", color="#444444", label="constant saving / completion")
    axis.set_ylim(bottom=0)
    axis.legend(loc="lower right")
    return figure


def draw_run(found: Measurements, case: str) -> Figure:
    """Draw the window of one run."""
    completion_ms = found.flows.completion_ms[0]
    figure, axis = new_figure(f"{case}: complete after {completion_ms:.0f} ms", "time (s)", "window (segments)")
    rows = found.windows[found.windows.time_s <= max(0.1, completion_ms / 1e3)]
    axis.plot(rows.time_s, rows.window_bytes / SEGMENT_BYTES, linewidth=1.5)
    return figure


_FINE_MB = tuple(float(size) for size in np.round(np.arange(0.02, 2.0, 0.02), 3))
_KNOB_SIZES = {"size_mb": each(*SIZES_MB), "round_trip_ms": each(75.0, 250.0), "mended": each(False, True)}
STUDY = Study(
    slug="suss",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={
        "quick": Scale(repetitions=3, only={"round_trip_ms": (*NEAR_MS, 25.0, 75.0, 100.0, 250.0)}),
        "paper": Scale(),
        "test": Scale(repetitions=2, only={"round_trip_ms": (1.0, 75.0, 100.0), "buffer_bdp": (1.0,)}),
    },
    on_virtual={
        "quick": Scale(
            repetitions=2,
            changes={"module_cubic": True},
            only={
                "size_mb": (0.1, 0.5, 1.0, 2.0, 4.0, *EXAMPLE_MB, 5.0, 20.0),
                "round_trip_ms": (9.0, 100.0, 250.0),
                "buffer_bdp": (1.0,),
            },
            without=[f"fifth, {scheme}" for scheme in ("cubic", "suss", "none fourfold")],
        ),
        "paper": Scale(changes={"module_cubic": True}),
    },
    claims={
        "a-fifth-below-5-mb": Evidence(
            "completion_ms",
            ("fig12, suss", "fig12, cubic"),
            ("fig12, none fourfold", "fig12, cubic"),
            least_improvement,
        ),
        "fig10-two-seconds": Evidence(
            "delivered_mb",
            ("fig10, suss", "fig10, cubic"),
            ("fig10, none fourfold", "fig10, cubic"),
            lambda suss, cubic: suss / cubic,
        ),
        "example-saving": Evidence(
            "completion_ms",
            ("example, suss", "example, cubic"),
            ("example, none fourfold", "example, cubic"),
            _saved_at_line_rate_ms,
        ),
        "example-improvement": Evidence(
            "completion_s",
            ("example, suss", "example, cubic"),
            ("example, none fourfold", "example, cubic"),
            lambda suss, cubic: [(float(x), float(y)) for x, y in improvement(suss, cubic).items()],
        ),
        "example-exit": Evidence("exit_segments", "example, suss", "example, mended", _of_size(16.0)),
        "later-test-suss-time": Evidence("completion_s", "later, suss", "later, none fourfold", _of_size(5.0)),
        "later-test-hystart-time": Evidence("completion_s", "later, hystart", "later, none", _of_size(5.0)),
        "later-test-suss-losses": Evidence("dropped_packets", "later, suss", "later, not mended", _of_size(20.0)),
        "later-test-none-losses": Evidence("dropped_packets", "later, none", "later, hystart", _of_size(20.0)),
        "fifth-flow-joins-sooner": Evidence(
            "fair_after_s",
            ("fifth, suss", "fifth, cubic"),
            ("fifth, none fourfold", "fifth, cubic"),
            least_first("suss", "cubic"),
        ),
    },
    knobs={
        "mended": Knob({"cubic": _KNOB_SIZES, "suss": _KNOB_SIZES | SUSS}, Scale()),
        "sizes": Knob({"cubic": {"size_mb": each(*_FINE_MB)}, "suss": {"size_mb": each(*_FINE_MB)} | SUSS}, Scale()),
    },
    figures={
        "fig10_two_seconds": draw_two_seconds,
        "fig12_improvement": draw_improvement,
        "example_constant_saving": draw_example,
        "later_test_windows": draw_later,
        "class_two_pictures": draw_class,
        "tiers_windows": draw_tiers,
        "fairness_fifth_flow": draw_fifth,
        "control_no_fourfold_round": draw_control,
        "knob_mended_hystart": draw_mended,
        "jumps_and_slopes": draw_jumps,
    },
    best=(
        "fig10_two_seconds",
        "fig12_improvement",
        "fairness_fifth_flow",
        "tiers_windows",
        "control_no_fourfold_round",
    ),
    play=Play(
        ("example, suss", "example, cubic", "later, suss", "later, not mended"),
        {
            "round_trip_ms": (10.0, 300.0, 5.0),
            "rate_mbps": (5.0, 200.0, 5.0),
            "size_mb": (0.1, 20.0, 0.1),
            "suss_rounds": (0, 3, 1),
        },
        draw_run,
    ),
)
