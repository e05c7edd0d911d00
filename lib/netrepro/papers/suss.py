"""SUSS: Arghavani et al., "SUSS: Improving TCP Performance by Speeding Up Slow-Start", SIGCOMM 2024, Figs 10 to 12.

A sender that finds its path empty doubles its window once more than slow start would, and paces the packets beyond the
first doubling. Short flows over long paths are complete sooner; the gain is constant for flows that fill the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Evidence, Gauge, Knob, Live, Play, Reading, Runs, Scale, Study, least_first, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import ratio
from netrepro.study.figures import Course, Level, Look, Mark, Panel, Picture, Published, Sweep, plot
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

PORT = ("s1", "s2")
SEGMENT_BYTES = 1448
INITIAL_WINDOW = 10
MOST_FOURFOLD = 3  # rounds, in the authors' code
SIZES_MB = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0)
ROUND_TRIPS_MS = (25.0, 50.0, 75.0, 100.0, 150.0, 250.0)
NEAR_MS = (1.0, 5.0, 9.0)  # round trips at which SUSS switches itself off
CLASS_MS = (40.0, 540.0)  # a site some 40 ms away, and the same with 500 ms more
EXAMPLE_MB = (0.2, 0.5, 1.0, 2.0, 4.0, 16.0)
LIMIT_MB = 5.0  # from the abstract: flows below
# What Fig. 12 shows of it, by inference (data/suss/SOURCES.md): paths from Tokyo to Sweden and New Zealand, and sizes
# of more than a few flights.
JUDGED_MB, JUDGED_MS = 0.5, (100.0, 300.0)
FAIR = 0.95  # Jain's index
ACCESS_MBPS, ACCESS_MS = 1000.0, 0.01


@dataclass(frozen=True)
class Setting:
    """A bottleneck and its senders.

    buffer_bdp : the bottleneck's buffer in bandwidth-delay products, unless `buffer_packets` is given. size_mb : size
    of the flow, unless `lasts_s` gives its duration. mended : HyStart tells rounds apart from the first on, as in
    kernels since 2025. joins_s : with five flows, start of the fifth. watch : record windows and packets. module_cubic
    : CUBIC with HyStart's fault is SUSS without fourfold rounds, because the virtual kernel's own CUBIC has been
    mended.
    """

    rate_mbps: float = parameter(50.0, "of the bottleneck in Fig. 12 and the knobs", "Mb/s", low=1, high=1000)
    round_trip_ms: float = 100.0
    buffer_bdp: float = 1.0
    buffer_packets: int = 0
    jitter_ms: float = parameter(
        0.0, "by how much its delay varies from packet to packet at most", "ms", low=0, high=100
    )
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
    def bdp_packets(self) -> float:
        """The number of full packets that fill the path."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)

    @property
    def control(self) -> tuple[str, int]:
        """The congestion control, and the number of rounds in which SUSS may grow fourfold."""
        if self.module_cubic and self.congestion_control == "cubic" and not self.mended:
            return "suss", 0
        return self.congestion_control, self.suss_rounds

    @property
    def queue_packets(self) -> int:
        """The bottleneck's buffer (packets)."""
        return self.buffer_packets or max(1, round(self.buffer_bdp * self.bdp_packets))


SUSS: dict[str, Any] = {"congestion_control": "suss"}
NONE_FOURFOLD = SUSS | {"suss_rounds": 0}


def _cases(name: str, common: dict[str, Any], **schemes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{name}, {label.replace('_', ' ')}": common | changes for label, changes in schemes.items()}


_three = partial(_cases, cubic={}, suss=SUSS, none_fourfold=NONE_FOURFOLD)
GRID = {"size_mb": swept(*SIZES_MB), "round_trip_ms": swept(*ROUND_TRIPS_MS), "buffer_bdp": swept(0.5, 1.0, 2.0)}
LATER_PATH = {"rate_mbps": 50.0, "round_trip_ms": 100.0}
TWO_SECONDS = {"rate_mbps": 100.0, "round_trip_ms": 270.0, "lasts_s": 2.0, "watch": True}
EXAMPLE = {
    "rate_mbps": 48.0,
    "round_trip_ms": 49.5,
    "buffer_packets": 1000,
    "size_mb": swept(*EXAMPLE_MB),
    "watch": True,
}
LATER = LATER_PATH | {"buffer_packets": 413, "size_mb": swept(5.0, 20.0), "mended": True, "watch": True}
CLASS = {"rate_mbps": 50.0, "round_trip_ms": swept(*CLASS_MS), "size_mb": 12.0, "watch": True}
FIFTH = LATER_PATH | {"flows": 5, "joins_s": 90.0, "lasts_s": 150.0, "watch": True}
CASES: dict[str, dict[str, Any]] = {
    **_cases("fig12", GRID, cubic={}, suss=SUSS),
    "fig12, none fourfold": GRID
    | NONE_FOURFOLD
    | {"round_trip_ms": swept(75.0, 100.0, 250.0), "buffer_bdp": swept(1.0)},
    **_three("fig10", TWO_SECONDS),
    **_three("example", EXAMPLE),
    "example, mended": EXAMPLE | SUSS | {"mended": True},
    **_cases("later", LATER, none={"hystart": False}, hystart={}, suss=SUSS, none_fourfold=NONE_FOURFOLD),
    "later, not mended": LATER | SUSS | {"mended": False},
    **_cases("class", CLASS, cubic={}, suss=SUSS, bbr={"congestion_control": "bbr"}),
    **_three("fifth", FIFTH),
    **_cases("near", {"round_trip_ms": swept(*NEAR_MS), "size_mb": swept(0.5, 2.0)}, cubic={}, suss=SUSS),
}


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment: one flow over the bottleneck, or several long ones. These begin within a second, except the
    last."""
    one_way_ms = setting.round_trip_ms / 2 - 2 * ACCESS_MS
    bottleneck = Link(setting.rate_mbps, one_way_ms, DropTail(setting.queue_packets), jitter_ms=setting.jitter_ms)
    net = dumbbell(setting.flows, Link(ACCESS_MBPS, ACCESS_MS, DropTail(packets=100_000)), bottleneck)
    lasts_s, flows = _flows(setting, seed)
    congestion_control, suss_rounds = setting.control
    tcp = Tcp(
        congestion_control,
        receive_window_bytes=64 * 2**20,
        receive_window_grows=False,  # SUSS's window outgrows a growing one, so its authors had SUSS ignore that
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
        # As in a sender's log: from the first data sent to their acknowledgement. The receiver has them half a round
        # trip earlier, and the connection was opened a round trip before.
        lasts_s = setting.lasts_s + setting.round_trip_ms / 2e3
        return lasts_s, (Flow("h1", last, None, lasts_s),)
    lasts_s = 10.0 + 40 * setting.round_trip_ms / 1e3 + 3 * setting.size_mb * 8 / setting.rate_mbps
    return lasts_s, (Flow("h1", last, round(setting.size_mb * 1e6)),)


def read(run: Measurements, setting: Setting) -> Reading:
    """Read one run. For one flow: completion_ms (from the connect call), completion_s (from the first data's arrival,
    as in logs), delivered_mb, dropped_packets. For a watched run: exit_segments (where slow start ended; NaN: never)
    and the tables `windows` and `carried`. For five flows: seconds until they are fair, the first four's index before
    the fifth, and the table `fairness`."""
    flow = run.flows.iloc[0]
    bottleneck = run.links_by_port.loc[PORT]
    numbers: dict[str, float] = {
        "completion_ms": float(flow.completion_ms),
        "completion_s": float(flow.completion_ms - 1.5 * setting.round_trip_ms) / 1e3,
        "delivered_mb": float(run.flows.delivered_bytes.sum()) / 1e6,
        "dropped_packets": int(bottleneck.dropped_packets),
        "exit_segments": np.nan,
        "fair_after_s": np.nan,
    }
    tables: dict[str, pd.DataFrame] = {}
    checks = [Check("packets at the bottleneck's rate (utilisation)", float(bottleneck.utilisation), at_most=1.001)]
    if setting.flows == 1 and not setting.lasts_s:
        least_ms = 1.5 * setting.round_trip_ms + flow.size_bytes * 8e-3 / setting.rate_mbps
        checks.append(Check("bytes delivered / sent", flow.delivered_bytes / flow.size_bytes, 1.0, 1.0))
        checks.append(Check("completion / least possible", flow.completion_ms / least_ms, at_least=1.0))
    if setting.flows > 1:
        fairness = jain_by_second(run.packets, setting.flows)
        numbers["fair_after_s"], tables["fairness"] = fair_after_s(fairness, setting), fairness
        before = fairness[fairness.time_s.between(setting.joins_s - 10, setting.joins_s - 1)]
        numbers["four_fair"] = float(before.jain.mean() * setting.flows / (setting.flows - 1))
    elif setting.watch:
        numbers["exit_segments"], tables = _course(run, setting)
    return Reading(numbers, tables, checks)


def _course(run: Measurements, setting: Setting) -> tuple[float, dict[str, pd.DataFrame]]:
    """Compute how a flow's window grew since the first acknowledgement of data, and what was acknowledged since the
    first data. Packets that leave the bottleneck are acknowledged a round trip later; data wait one for the
    connection."""
    windows = run.windows.assign(time_s=run.windows.time_s - 2 * setting.round_trip_ms / 1e3)
    left = windows.slow_start_threshold_bytes[np.isfinite(windows.slow_start_threshold_bytes)]
    data = run.packets[run.packets.size_bytes > FULL_PACKET_BYTES / 2]
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
    """Compute the whole seconds from the fifth flow's start until the index is FAIR, or until the end if it never
    is."""
    after = fairness[fairness.time_s >= setting.joins_s]
    fair = after.time_s[after.jain >= FAIR]
    return float((fair.iloc[0] if len(fair) else setting.lasts_s) - setting.joins_s)


# The closed form: SUSS's saving for flows that fill the path.


def rounds_that_grow_fourfold(bdp_packets: float, most: int = MOST_FOURFOLD) -> int:
    """Count how often the window grows fourfold on an empty path of `bdp_packets`.

    The paper's first condition, for acknowledgements that come at the bottleneck's rate: the packet train of the
    fourfold window must fit into the round trip, so that window must not exceed the path. A sender measures the train
    from its first to its last acknowledgement, which is a little too short. So a slightly shorter path may suffice.
    """
    return next((n for n in range(most) if INITIAL_WINDOW * 4 ** (n + 1) > bdp_packets), most)


def round_windows(bdp_packets: float, fourfold: int) -> list[int]:
    """Compute the windows (segments) of successive rounds, up to and without the first that fills the path."""
    windows, window = [], INITIAL_WINDOW
    while window < bdp_packets:
        windows.append(window)
        window *= 4 if len(windows) <= fourfold else 2
    return windows


def idle_round_trips(bdp_packets: float, fourfold: int) -> float:
    """Compute the round trips for which the path is idle until it is full. A round with window W leaves it idle for 1 -
    W / BDP of a round trip."""
    return sum(1 - window / bdp_packets for window in round_windows(bdp_packets, fourfold))


def saved_round_trips(bdp_packets: float, most: int = MOST_FOURFOLD) -> float:
    """Compute the round trips that SUSS saves once both schemes fill the path. Nothing differs from then on, so the
    saving is the difference of their idle times. It depends only on the path, not on the size of the flow."""
    fourfold = rounds_that_grow_fourfold(bdp_packets, most)
    return idle_round_trips(bdp_packets, 0) - idle_round_trips(bdp_packets, fourfold)


def completion_at_full_path_ms(setting: Setting, fourfold: int) -> float:
    """Compute the completion (from the connect call) of a flow large enough to fill the path, without losses. It is one
    and a half round trips until the first data arrive, the idle time until the path is full, and the bytes at its
    rate."""
    waiting_ms = (1.5 + idle_round_trips(setting.bdp_packets, fourfold)) * setting.round_trip_ms
    return waiting_ms + setting.size_mb * 8e3 / setting.rate_mbps * FULL_PACKET_BYTES / SEGMENT_BYTES


# Functions that claims apply to completion times, Series indexed by the grid.


def improvement(suss: Any, cubic: Any) -> Any:
    """Compute the share of the completion time that is saved."""
    return 1 - suss / cubic


def least_improvement(suss: pd.Series, cubic: pd.Series) -> float:
    """Compute the least improvement over all flows and paths of Fig. 12."""
    share = improvement(suss, cubic)
    places = share.index.to_frame()
    sizes = places.size_mb.between(JUDGED_MB, LIMIT_MB, inclusive="left")
    return float(share[sizes & places.round_trip_ms.between(*JUDGED_MS)].min())


def _saved_at_line_rate_ms(suss: pd.Series, cubic: pd.Series) -> float:
    return float((cubic - suss)[cubic.index >= 0.5].mean())


def _of_size(size_mb: float) -> Any:
    return lambda values: float(values[size_mb])


def improvements(
    runs: Runs, name: str = "fig12", column: str = "completion_ms", case: str = "suss", ms: float = 1.0
) -> pd.DataFrame:
    """Return a row for each size, path and repetition: case, both times, saved_ms, improvement (share), percent.

    ms : factor from the column's unit to milliseconds.
    """
    keys = [*runs.swept, "repetition"]
    cubic, other = (runs.numbers(f"{name}, {each}").set_index(keys)[column] for each in ("cubic", case))
    share = improvement(other, cubic)
    numbers = {"cubic": cubic, case: other, "saved_ms": ms * (cubic - other), "improvement": share}
    return pd.DataFrame(numbers).assign(percent=100 * share, case=case).dropna().reset_index()


def at_the_same_time(runs: Runs) -> pd.DataFrame:
    """Compute Fig. 12's other reading, which the authors' plot of their example has: when SUSS has delivered a size,
    the share of it that CUBIC has not. Returns a row for each size, path and repetition: both readings in percent, with
    the clock of the server's log, from the first data.

    What CUBIC has delivered between the sizes of the grid is interpolated, so the share is a little too small.
    """
    rows = improvements(runs, column="completion_s")
    parts = []
    for _, path in rows.groupby(["round_trip_ms", "buffer_bdp", "repetition"]):
        path = path.sort_values("size_mb")
        ends_s, sizes = np.array([0, *path.cubic]), np.array([0, *path.size_mb])
        behind = 1 - np.interp(path.suss, ends_s, sizes) / path.size_mb
        parts.append(path.assign(time_saved_percent=path.percent, data_ahead_percent=100 * behind))
    return pd.concat(parts, ignore_index=True)


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


CUBIC, WITH_SUSS = {"label": "CUBIC", "color": CURVES[0]}, {"label": "CUBIC with SUSS", "color": CURVES[6]}
WITH_BBR = {"label": scheme("bbr").label, "color": scheme("bbr").colour, "linestyle": "-."}
BROKEN = {"label": "SUSS, no fourfold round", "color": scheme("control").colour}
SIZE, SINCE_ACK, WINDOW = "flow size (MB)", "time since the first acknowledgement (s)", "window (segments)"
SINCE_DATA, CARRIED, SAVED = "time since the first data (s)", "acknowledged (MB)", "saved (% of CUBIC's)"
EXAMPLE_PUBLISHED_MS = {  # with CUBIC and with SUSS
    0.2: (166, 123),
    0.5: (259, 183),
    1.0: (342, 266),
    2.0: (510, 434),
    4.0: (844, 768),
    16.0: (2852, 2776),
}
PUBLISHED_SAVING_MS = {size: cubic - suss for size, (cubic, suss) in EXAMPLE_PUBLISHED_MS.items()}
PUBLISHED_PERCENT = {size: 100 * improvement(suss, cubic) for size, (cubic, suss) in EXAMPLE_PUBLISHED_MS.items()}


def draw_idea() -> Figure:
    """Draw the windows of successive rounds on a path of 826 packets, and where each scheme fills it."""
    bdp = Setting(rate_mbps=100.0).bdp_packets
    figure, axis = new_figure("A path is filled in fewer rounds", "rounds (round trips)", "window (segments)")
    for look, fourfold in ((CUBIC, 0), (WITH_SUSS, rounds_that_grow_fourfold(bdp))):
        windows = np.array([*round_windows(bdp, fourfold), bdp])
        places = np.arange(len(windows) + 1)
        axis.step(places, [*windows, bdp], where="post", linewidth=2, **look)
    axis.axhline(bdp, color="#444444", linestyle=":", label="the path is full (100 Mb/s, 100 ms)")
    axis.set_ylim(0, 1.35 * bdp)
    axis.legend(loc="upper left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw one pair behind the bottleneck."""
    return drawing.draw_network(experiment(setting, 0.0, 1), "One flow over a long path")


def _both(name: str) -> dict[str, Look]:
    return {f"{name}, cubic": CUBIC, f"{name}, suss": WITH_SUSS}


def _saving(buffer: str) -> Panel:
    """Show the improvement over size, a curve for each round trip."""
    rows = f"buffer_bdp == buffer_bdp.{buffer}()"
    return Panel(
        SIZE,
        SAVED,
        Sweep("size_mb", "percent", improvements, by="round_trip_ms", label="{} ms", rows=rows),
        Level(20, "20 % (abstract, below 5 MB)"),
        Level(LIMIT_MB, upright=True),
        title="the smallest buffer (0.5 BDP)" if buffer == "min" else "the largest buffer (2 BDP)",
        log="x",
        y_range=(-2, 45),
    )


def _example(label: str, reading: str, published: Mapping[float, float], *marks: Mark) -> Panel:
    table = partial(improvements, name="example", column="completion_s", ms=1e3)
    ours = Sweep("size_mb", reading, table, looks={"suss": WITH_SUSS | {"label": "ours"}})
    return Panel(SIZE, label, Published(published, "the authors' logs"), ours, *marks, log="x")


def _closed_ms(setting: Setting) -> float:
    return saved_round_trips(setting.bdp_packets) * setting.round_trip_ms


def mended_saving(runs: Runs) -> pd.DataFrame:
    """Compute the round trips that SUSS saves against CUBIC, with and without HyStart's fault: mended, round_trip_ms,
    size_mb, saved."""
    times = runs.knobs["mended"].pivot_table("completion_ms", ["mended", "round_trip_ms", "size_mb"], "case")
    return (times.cubic - times.suss).rename("saved").reset_index().assign(saved=lambda t: t.saved / t.round_trip_ms)


def _mended(round_trip_ms: float) -> Panel:
    looks = {False: CUBIC | {"label": "as in the paper's kernels"}, True: WITH_SUSS | {"label": "mended"}}
    return Panel(
        SIZE,
        "saved (round trips)",
        Sweep("size_mb", "saved", mended_saving, "mended", looks, rows=f"round_trip_ms == {round_trip_ms}"),
        Level(
            lambda runs: saved_round_trips(Setting(runs.setting.rate_mbps, round_trip_ms).bdp_packets),
            "closed form",
            published=False,
        ),
        title=f"round trip {round_trip_ms:g} ms",
        log="x",
    )


def _draw_jumps(axis: Axes, runs: Runs) -> None:
    """Draw the improvement over size in small steps. It jumps where CUBIC needs one more flight than SUSS, and falls
    between."""
    times = runs.knobs["sizes"].pivot_table("completion_ms", "size_mb", "case")
    axis.plot(100 * improvement(times.suss, times.cubic), color=WITH_SUSS["color"], linewidth=1.5, label="simulated")
    ends = np.cumsum(round_windows(runs.setting.bdp_packets, 0)) * SEGMENT_BYTES / 1e6
    for end in ends:
        axis.axvline(end, color=CUBIC["color"], linestyle=":", linewidth=1, label="CUBIC's flights")
    full = times.cubic[times.index > ends[-1] + 0.3]  # both fill the path
    axis.plot(100 * _closed_ms(runs.setting) / full, "--", color="#444444", label="constant saving / completion")


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw the window of one run."""
    completion_ms = run.flows.completion_ms[0]
    figure, axis = new_figure(f"{case}: complete after {completion_ms:.0f} ms", "time (s)", "window (segments)")
    rows = run.windows[run.windows.time_s <= max(0.1, completion_ms / 1e3)]
    axis.plot(rows.time_s, rows.window_bytes / SEGMENT_BYTES, linewidth=1.5)
    return figure


def _against_cubic(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the cases that show SUSS's saving, and those of the control, which must show none."""
    return (f"{name}, suss", f"{name}, cubic"), (f"{name}, none fourfold", f"{name}, cubic")


OF_LATER = {
    "later, none": {"label": "no HyStart", "color": "#444444"},
    "later, hystart": CUBIC | {"label": "HyStart, mended"},
    "later, suss": WITH_SUSS | {"label": "SUSS, mended"},
    "later, not mended": {"label": "SUSS, not mended", "color": BROKEN["color"], "linestyle": "--"},
}
LARGE = "size_mb >= 16 and time_s <= 0.8"
NONE_SAVED = partial(improvements, case="none fourfold")
OF_100_MS = "round_trip_ms == 100 and buffer_bdp == 1"
_FINE_MB = tuple(float(size) for size in np.round(np.arange(0.02, 2.0, 0.02), 3))
_KNOB_SIZES = {"size_mb": swept(*SIZES_MB), "round_trip_ms": swept(75.0, 250.0), "mended": swept(False, True)}
LIVE = Live(
    {
        "completion_ms": Gauge("completion", "ms", {"table": "flows", "column": "completion_ms"}),
        "dropped_packets": Gauge(
            "packets dropped", "packets", {"table": "links", "column": "dropped_packets", "reduce": "sum"}
        ),
    },
    {"table": "windows", "column": "window_segments"},
    "window (segments)",
    {"round_trip_ms": (10.0, 25.0, 50.0, 100.0, 200.0, 300.0), "rate_mbps": (5.0, 20.0, 50.0, 100.0)}
    | {"size_mb": (0.5, 1.0, 2.0, 5.0), "suss_rounds": (0, 1, 2, 3)},
    lambda _: PORT,
    cases=("example, suss", "example, cubic"),
    broken={"example, suss": "example, none fourfold"},
)
STUDY = Study(
    slug="suss",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={
        "quick": Scale(repetitions=3, only={"round_trip_ms": (*NEAR_MS, 25.0, 75.0, 100.0, 250.0, *CLASS_MS)}),
        "paper": Scale(),
        "test": Scale(repetitions=2, only={"round_trip_ms": (1.0, 75.0, 100.0, *CLASS_MS), "buffer_bdp": (1.0,)}),
    },
    on_virtual={
        "quick": Scale(
            repetitions=2,
            changes={"module_cubic": True},
            only={
                "size_mb": (0.1, 0.5, 1.0, 2.0, 4.0, *EXAMPLE_MB, 5.0, 20.0),
                "round_trip_ms": (9.0, 100.0, 250.0, *CLASS_MS),
                "buffer_bdp": (1.0,),
            },
            without=[f"fifth, {name}" for name in ("cubic", "suss", "none fourfold")],
        ),
        "paper": Scale(changes={"module_cubic": True}),
    },
    claims={
        "a-fifth-below-5-mb": Evidence("completion_s", *_against_cubic("fig12"), least_improvement),
        "fig10-two-seconds": Evidence("delivered_mb", *_against_cubic("fig10"), ratio),
        "example-saving": Evidence("completion_ms", *_against_cubic("example"), _saved_at_line_rate_ms),
        "example-improvement": Evidence("completion_s", *_against_cubic("example"), improvement),
        "example-exit": Evidence("exit_segments", "example, suss", "example, mended", _of_size(16.0)),
        "later-test-suss-time": Evidence("completion_s", "later, suss", "later, none fourfold", _of_size(5.0)),
        "later-test-hystart-time": Evidence("completion_s", "later, hystart", "later, none", _of_size(5.0)),
        "later-test-suss-losses": Evidence("dropped_packets", "later, suss", "later, not mended", _of_size(20.0)),
        "later-test-none-losses": Evidence("dropped_packets", "later, none", "later, hystart", _of_size(20.0)),
        "fifth-flow-joins-sooner": Evidence("fair_after_s", *_against_cubic("fifth"), least_first("suss", "cubic")),
    },
    knobs={
        "mended": Knob({"cubic": _KNOB_SIZES, "suss": _KNOB_SIZES | SUSS}, Scale()),
        "sizes": Knob({"cubic": {"size_mb": swept(*_FINE_MB)}, "suss": {"size_mb": swept(*_FINE_MB)} | SUSS}, Scale()),
    },
    figures={
        "fig10_two_seconds": plot(
            "Data carried over time (Fig. 10)",
            SINCE_DATA,
            CARRIED,
            Course("carried", "carried_mb", _both("fig10"), rows="time_s <= 2"),
            Published({2: 2}, "published, at 2 s"),
            Published({2: 7}, "published, at 2 s"),
        ),
        "fig12_improvement": Picture("Completion time saved (Fig. 12)", *map(_saving, ("min", "max"))),
        "example_constant_saving": Picture(
            "A constant saving, divided by a completion time that grows",
            _example(
                "saved (ms)",
                "saved_ms",
                PUBLISHED_SAVING_MS,
                Level(lambda runs: _closed_ms(runs.study.case("example, suss")), "closed form, {} ms", published=False),
            ),
            _example(SAVED, "percent", PUBLISHED_PERCENT),
        ),
        "later_test_windows": plot(
            "The authors' test of 2025: 50 Mb/s, 100 ms",
            SINCE_ACK,
            WINDOW,
            Course("windows", "window_segments", OF_LATER, rows="size_mb == 20 and time_s <= 2"),
            Published({0.55: 530, 0.35: 540}, "published exits"),
        ),
        "class_two_pictures": Picture(
            "What the class project saw: 12 MB",
            *(
                Panel(
                    SINCE_DATA,
                    CARRIED,
                    Course("carried", "carried_mb", _both("class"), rows=f"round_trip_ms == {round_trip_ms}"),
                    title=f"round trip {round_trip_ms:g} ms",
                )
                for round_trip_ms in CLASS_MS
            ),
        ),
        "class_completion": Picture(
            "The class's Figure 11: completion over size, from the same downloads",
            *(
                Panel(
                    SIZE,
                    "completion since the first data (s)",
                    Course(
                        "carried",
                        "time_s",
                        _both("class") | {"class, bbr": WITH_BBR},
                        "carried_mb",
                        f"round_trip_ms == {round_trip_ms}",
                    ),
                    title=f"round trip {round_trip_ms:g} ms",
                    y_range=(0, None),
                )
                for round_trip_ms in CLASS_MS
            ),
        ),
        "tiers_windows": Picture(
            "Windows, tier by tier",
            *(
                Panel(
                    SINCE_ACK, WINDOW, Course("windows", "window_segments", looks, rows=LARGE, tiers=True), title=title
                )
                for title, looks in (
                    ("the authors' example: HyStart with its fault", _both("example")),
                    ("the authors' test of 2025: mended", {"later, hystart": CUBIC, "later, suss": WITH_SUSS}),
                )
            ),
        ),
        "fairness_fifth_flow": Picture(
            "A fifth flow joins",
            *(
                Panel(
                    "time (s)",
                    "Jain's index",
                    Course("fairness", "jain", {case: look}, rows="time_s >= 70", every=True),
                    Level(FAIR, "{}: fair", published=False),
                    Level(FIFTH["joins_s"], "the fifth begins", published=False, upright=True),
                    y_range=(0.5, 1.01),
                )
                for case, look in _both("fifth").items()
            ),
        ),
        "control_no_fourfold_round": plot(
            "Broken on purpose (round trip of 100 ms)",
            SIZE,
            "saved (ms)",
            Sweep("size_mb", "saved_ms", improvements, looks={"suss": WITH_SUSS}, rows=OF_100_MS),
            Sweep("size_mb", "saved_ms", NONE_SAVED, looks={"none fourfold": BROKEN}, rows=OF_100_MS),
            Sweep("size_mb", "saved_ms", partial(improvements, name="near"), label="SUSS, round trips up to 9 ms"),
            log="x",
            y_range=(None, None),
        ),
        "knob_mended_hystart": Picture(
            "Both with the fault of HyStart, and both without", *map(_mended, _KNOB_SIZES["round_trip_ms"].values)
        ),
        "jumps_and_slopes": plot("Why the curve slopes down after each jump", SIZE, SAVED, _draw_jumps),
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
        live=LIVE,
    ),
)
