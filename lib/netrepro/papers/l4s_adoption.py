"""L4S beside classic senders: Sarpkaya, Fund and Panwar, "To Adopt or Not to Adopt L4S-Compatible Congestion Control?",
PAM 2025.

A flow of TCP Prague shares a link with a classic flow, in nine queues and five buffers. Prague takes a mark for a
slight hint, as the L4S queue means it; other queues mark and drop as for classic senders. So the queue decides who
harms whom.
The authors' means of ten trials of every cell are in data/l4s_adoption/pairs.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import CoDel, DropTail, DualPi2, Fq, FqCoDel, Link, Pie, Queue
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.study import BESIDE, Check, Evidence, Gauge, Knob, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.live import QUEUE, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

PORT = ("s1", "s2")
ACCESS_MBPS = 100_000.0  # FABRIC's shared ConnectX-6
WIDE = DropTail(packets=60_000)
TARGET_MS, INTERVAL_MS, STEP_MS = 5.0, 100.0, 1.0
STARTS_WITHIN_S = 1.0
NEAR_MBPS = 10.0  # a tenth of the link: the goal
DEVIATIONS = 2  # of the authors' ten trials: their spread

QUEUES = (
    "FIFO",
    "single_queue_FQ",
    "Codel",
    "Codel_drop",
    "pie_drop",
    "FQ",
    "FQ_Codel",
    "FQ_Codel_L4S",
    "DualPI2",
)
BUFFERS = (0.5, 1.0, 2.0, 4.0, 8.0)
CELLS = [(queue, buffer) for queue in QUEUES for buffer in BUFFERS]


@dataclass(frozen=True)
class Setting:
    """The authors' set-up; every value is theirs.

    queue : of the bottleneck, by the authors' name. buffer_pipes does not count for DualPI2, which holds 10,000
    packets. prague, classic : congestion controls of the two sides; `prague_flows` and `classic_flows` of each. ecn :
    the classic side asks for classic ECN. bursts : hosts send the bursts that Linux's TCP builds, whatever the
    interfaces' offloads are. bbr3_ecn_ms : up to which least round trip BBRv3 heeds marks; 0: any. heeds_marks :
    Prague does. receiver_ecn : what Prague's receivers know of ECN. coupling : DualPI2's k.
    """

    rate_mbps: float = parameter(100.0, "of the bottleneck", "Mb/s", low=5, high=1000)
    round_trip_ms: float = parameter(10.0, "without queues", "ms", low=2, high=200)
    buffer_pipes: float = 2.0
    queue: str = "FIFO"
    prague: str = "prague"
    classic: str = "cubic"
    ecn: bool = False
    prague_flows: int = 1
    classic_flows: int = 1
    bursts: bool = True
    bbr3_ecn_ms: float = 5.0
    heeds_marks: bool = True
    receiver_ecn: str = "accurate"
    coupling: float = 2.0

    @property
    def buffer_bytes(self) -> int:
        """The bottleneck's buffer, as its FIFO counts it."""
        return int(self.buffer_pipes * self.rate_mbps * self.round_trip_ms * 125)

    @property
    def payload_mbps(self) -> float:
        """The rate at which full packets carry payload over the bottleneck (Mb/s)."""
        return self.rate_mbps * 1448 / 1514


def queue_of(setting: Setting) -> Queue:
    """Make the bottleneck's queue, with the authors' numbers: packets are buffer_bytes / 1500 + 1."""
    packets, codel = setting.buffer_bytes // 1500 + 1, (TARGET_MS, INTERVAL_MS)
    match setting.queue:
        case "single_queue_FQ":
            return Fq(packets, packets, ce_threshold_ms=TARGET_MS, flows=1)
        case "FQ":
            return Fq(packets, packets, ce_threshold_ms=TARGET_MS)
        case "Codel" | "Codel_drop":
            return CoDel(packets, *codel, ecn=setting.queue == "Codel")
        case "pie_drop":
            return Pie(packets, TARGET_MS)
        case "FQ_Codel":
            return FqCoDel(packets, *codel)
        case "FQ_Codel_L4S":
            return FqCoDel(packets, *codel, ce_threshold_ms=STEP_MS, ce_threshold_ect_1=True)
        case "DualPI2":
            return DualPi2(target_ms=TARGET_MS, step_ms=STEP_MS, coupling=setting.coupling)
        case _:
            return DropTail(bytes=setting.buffer_bytes)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: each flow runs for `seconds` between two hosts of its own, and begins within a second."""
    count = setting.prague_flows + setting.classic_flows
    bottleneck = Link(setting.rate_mbps, setting.round_trip_ms / 2, queue_of(setting))
    network = dumbbell(count, access=Link(ACCESS_MBPS, 0.0, WIDE), bottleneck=bottleneck)
    starts = np.random.default_rng(seed).uniform(0, STARTS_WITHIN_S, count)
    # What only one congestion control heeds is the same on both sides, as a kernel has one value for all.
    common = Tcp(
        bursts=setting.bursts,
        prague_heeds_marks=setting.heeds_marks,
        bbr3_ecn_round_trip_ms=setting.bbr3_ecn_ms,
    )
    prague = replace(common, congestion_control=setting.prague, receiver_ecn=setting.receiver_ecn)
    classic = replace(common, congestion_control=setting.classic, ecn=setting.ecn)
    sides = [("prague", prague)] * setting.prague_flows + [("classic", classic)] * setting.classic_flows
    flows = [
        Flow(f"h{i + 1}", f"h{count + i + 1}", duration_s=seconds, start_s=float(starts[i]), tcp=tcp, label=side)
        for i, (side, tcp) in enumerate(sides)
    ]
    measure = Measure(windows_interval_ms=1000.0)  # as iperf3 reads the smoothed round trip
    return Experiment(network, tuple(flows), seconds + STARTS_WITHIN_S, seed, measure)


def read(run: Measurements, setting: Setting) -> Reading:
    """Read a side's mean goodput of a flow (Mb/s) and mean smoothed round trip (ms), and what the queue dropped and
    marked (packets)."""
    seconds = run.experiment.duration_s - STARTS_WITHIN_S
    flows = run.flows.assign(mbps=run.flows["delivered_bytes"] * 8e-6 / seconds)
    windows = run.windows.join(flows[["label", "start_s"]], on="flow")
    windows = windows[windows.time_s.between(windows.start_s + 1, windows.start_s + seconds)]
    goodputs = flows.groupby("label")["mbps"].mean()
    round_trips = windows.groupby("label")["round_trip_ms"].mean()
    link = run.links_by_port.loc[PORT]
    numbers = {f"{side}_mbps": float(goodputs.get(side, np.nan)) for side in ("prague", "classic")}
    numbers |= {f"{side}_round_trip_ms": float(round_trips.get(side, np.nan)) for side in ("prague", "classic")}
    numbers |= {name: float(link[name]) for name in ("dropped_packets", "marked_packets")}
    carried_mbps = float(flows["delivered_bytes"].sum()) * 8e-6 / run.experiment.duration_s
    check = Check("payload of the link at most", carried_mbps / setting.payload_mbps, at_most=1.0)
    return Reading(numbers, checks=[check])


# Cells.

# Our names of the pairs, their names in the authors' files, and the classic side.
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "CUBIC": ("cubic_noecn", {"classic": "cubic"}),
    "CUBIC, ECN": ("cubic_ecn", {"classic": "cubic", "ecn": True}),
    "BBRv1": ("bbrv1_noecn", {"classic": "bbr"}),
    "BBRv3": ("bbrv3_noecn", {"classic": "bbr3"}),
    "BBRv3, ECN": ("bbrv3_ecn", {"classic": "bbr3", "ecn": True}),
}


# Cases that the virtual kernel runs too, with our modules of Prague and DualPI2 -> the pair.
OF_KERNELS = {f"{pair}, single segments": pair for pair in ("CUBIC", "CUBIC, ECN", "BBRv1")}


@cache
def published() -> pd.DataFrame:
    """Return the authors' cells: means and deviations of goodput (Mb/s) and round trip (ms) by case, queue and
    buffer_pipes."""
    table = pd.read_csv(data_dir("l4s_adoption") / "pairs.csv", comment="#")
    names = {theirs: ours for ours, (theirs, _) in PAIRS.items()}
    return table.assign(case=table["pair"].map(names)).set_index(["case", "queue", "buffer_pipes"])


def cells(runs: Runs) -> pd.DataFrame:
    """Return the cells that were measured, by case, queue and buffer_pipes.

    Columns: for both sides our mean goodput, `<side>_published` and `<side>_off` (Mb/s); within_10 and within_spread:
    whether both sides are within 10 Mb/s, and within two deviations, of the authors' means.
    """
    keys = ["case", "queue", "buffer_pipes"]
    ours = pd.concat([runs.numbers(pair) for pair in PAIRS if runs.has(pair)])
    table = ours.groupby(keys)[["prague_mbps", "classic_mbps"]].mean()
    theirs = published().reindex(table.index)
    within = {name: pd.Series(True, table.index) for name in ("within_10", "within_spread")}
    for side in ("prague", "classic"):
        table[f"{side}_published"] = theirs[f"{side}_mbps"]
        table[f"{side}_off"] = off = table[f"{side}_mbps"] - theirs[f"{side}_mbps"]
        within["within_10"] &= off.abs() <= NEAR_MBPS
        within["within_spread"] &= off.abs() <= DEVIATIONS * theirs[f"{side}_mbps_sd"]
    return table.assign(**within)


def shares(runs: Runs) -> pd.DataFrame:
    """Count the cells of each pair, and of all, and the share of them that is within 10 Mb/s and within the authors'
    spread."""
    table = cells(runs)
    groups = {pair: rows for pair, rows in table.groupby("case", sort=False)} | {"all": table}
    return pd.DataFrame(
        {
            pair: {"cells": len(rows), "within_10": rows.within_10.mean(), "within_spread": rows.within_spread.mean()}
            for pair, rows in groups.items()
        }
    ).T


def beside_kernels(runs: Runs) -> pd.DataFrame:
    """Put the cells that the virtual kernel runs too beside the authors': by case and queue, each side's goodput (Mb/s)
    by the authors and on each tier; NaN where not measured. The authors' hosts send bursts, these single segments."""
    rows = runs.values[runs.values["case"].isin(OF_KERNELS)]
    ours = rows.groupby(["case", "queue", "tier"])[["prague_mbps", "classic_mbps"]].mean().unstack("tier")
    columns: dict[tuple[str, str], Any] = {}
    for side in ("prague_mbps", "classic_mbps"):
        columns[side, "authors"] = [published().loc[(OF_KERNELS[case], queue, 2.0), side] for case, queue in ours.index]
        columns |= {(side, tier): ours[side][tier] for tier in ours[side]}
    order = [(case, queue) for case in OF_KERNELS for queue in QUEUES if (case, queue) in ours.index]
    return pd.DataFrame(columns, index=ours.index).loc[order]


def misses(runs: Runs) -> pd.DataFrame:
    """Return the cells that are not within 10 Mb/s of the authors', those farthest off first."""
    table = cells(runs)
    return table[~table.within_10].sort_values("prague_off", key=abs, ascending=False)


def as_map(goodputs: pd.Series) -> list[tuple[float, float]]:
    """Return Prague's goodputs as a curve over the cells, in the order of CELLS."""
    return [(float(place), float(goodputs[cell])) for place, cell in enumerate(CELLS, 1)]


def without_queues(goodputs: pd.Series) -> list[tuple[float, float]]:
    """Return the curve that it would be if every queue were the FIFO of the same buffer."""
    return [(float(place), float(goodputs[("FIFO", buffer)])) for place, (_, buffer) in enumerate(CELLS, 1)]


def at(queue: str, buffer_pipes: float = 2.0) -> Any:
    """Make a `how` that takes the reading of one cell."""
    return lambda readings: float(readings[(queue, buffer_pipes)])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table, share = cells(runs), shares(runs).loc["all"]
    harmed, harming = (table.loc[(pair, "single_queue_FQ", 2.0)] for pair in ("CUBIC", "CUBIC, ECN"))
    fair = table.loc[("CUBIC", "DualPI2", 2.0)]
    return (
        f"It depends on the queue: in one queue that marks, Prague gets {harmed.prague_mbps:.1f} Mb/s beside CUBIC "
        f"without ECN and {harming.prague_mbps:.0f} beside CUBIC with it, in DualPI2 {fair.prague_mbps:.0f}; of "
        f"{share.cells:.0f} cells, {share.within_10:.0%} are within 10 Mb/s of the authors' and "
        f"{share.within_spread:.0%} within their spread."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw what senders keep of their window after a round trip in which a share of packets was marked."""
    figure, axis = new_figure(
        "The same mark, other answers", "packets marked in a round trip (share)", "window kept (share)"
    )
    marked = np.linspace(0, 1, 200)
    axis.plot(marked, 1 - marked / 2, color=CURVES[0], label="Prague, once the share has lasted")
    axis.plot(marked, np.where(marked > 0, 0.7, 1), color=scheme("cubic").colour, label="CUBIC with ECN")
    axis.plot(marked, np.ones_like(marked), color=CURVES[2], label="without ECN; BBRv3 above 5 ms")
    axis.set_ylim(0, 1.05)
    axis.legend(loc="lower left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network: a Prague flow and a classic one share a link."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Prague and a classic flow share a link")


def draw_map(runs: Runs, pair: str) -> Figure:
    """Draw Prague's goodput beside one classic sender by queue and buffer: the authors', ours and the difference. A
    dot marks a difference beyond the authors' spread, on either side of the pair."""
    names = ["the authors' mean of ten trials", "ours", "ours less theirs"]
    figure, axes = drawing.panels(
        f"Prague's goodput (Mb/s) beside {pair}", "buffer (bandwidth-delay products)", "", names
    )
    table = cells(runs).loc[pair]

    def wide(column: pd.Series) -> pd.DataFrame:
        return column.unstack("buffer_pipes").reindex(index=list(QUEUES), columns=list(BUFFERS))

    theirs, ours = wide(published().loc[pair]["prague_mbps"]), wide(table["prague_mbps"])
    off, outside = wide(table["prague_off"]), wide(~table["within_spread"]).fillna(False).astype(bool)
    words = off.map(lambda value: f"{value:+.0f}" if np.isfinite(value) else "")
    words = words + outside.map(lambda is_outside: " •" if is_outside else "")
    for axis, values, look in (
        (axes[0], theirs, {"annot": theirs.round(0), "cmap": "viridis", "vmin": 0, "vmax": 95}),
        (axes[1], ours, {"annot": ours.round(0), "cmap": "viridis", "vmin": 0, "vmax": 95}),
        (axes[2], off, {"annot": words, "cmap": "RdBu_r", "vmin": -30, "vmax": 30}),
    ):
        style: dict[str, Any] = {
            "fmt": "" if axis is axes[2] else ".0f",
            "annot_kws": {"fontsize": 8},
            "linewidths": 0.5,
        }
        sns.heatmap(values, ax=axis, cbar=False, yticklabels=axis is axes[0], **style | look)
        axis.set(xlabel="buffer (bandwidth-delay products)", ylabel="")
        axis.set_facecolor("#dddddd")  # not measured
        axis.grid(visible=False)
    return figure


def draw_agreement(runs: Runs) -> Figure:
    """Draw Prague's goodput in every cell over the authors', with the band of 10 Mb/s."""
    figure, axis = new_figure(
        "Every cell beside the authors'", "Prague, the authors' mean (Mb/s)", "Prague, ours (Mb/s)"
    )
    _draw_band(axis)
    table = cells(runs)
    for colour, pair in zip(CURVES, PAIRS, strict=False):
        rows = table.loc[[pair]]
        spread = DEVIATIONS * published().reindex(rows.index)["prague_mbps_sd"]
        look: dict[str, Any] = {"fmt": "o", "markersize": 4, "alpha": 0.8, "elinewidth": 0.8}
        axis.errorbar(rows.prague_published, rows.prague_mbps, xerr=spread, color=colour, label=pair, **look)
    axis.legend(fontsize=8)
    return figure


def _draw_band(axis: Any) -> None:
    ends = np.array([0.0, 96.0])
    axis.fill_between(ends, ends - NEAR_MBPS, ends + NEAR_MBPS, color=PUBLISHED_GREY, alpha=0.25, label="± 10 Mb/s")
    axis.set(xlim=(-1, 97), ylim=(-1, 97))


def draw_control(runs: Runs) -> Figure:
    """Draw each claim's goodput or round trip beside its control's, as Prague's and the classic flow's goodput."""
    pairs: Mapping[str, tuple[Any, str]] = {
        "one queue,\nCUBIC, ECN": (("CUBIC, ECN", "single_queue_FQ"), HALVES),
        "one queue,\nCUBIC": (("CUBIC", "single_queue_FQ"), DEAF),
        "DualPI2,\nBBRv3, ECN": (("BBRv3, ECN", "DualPI2"), HEEDS),
        "DualPI2,\nCUBIC": (("CUBIC", "DualPI2"), UNCOUPLED),
        "the same,\nPrague deaf": (("CUBIC", "DualPI2"), DEAF_L4S),
    }
    figure, axis = new_figure("Broken on purpose", "", "goodput of Prague (Mb/s)")
    for place, (case, broken) in enumerate(pairs.values()):
        rows = runs.numbers(case[0]).query("queue == @case[1] and buffer_pipes == 2.0")
        drawing.draw_bar(axis, place - 0.2, rows["prague_mbps"].tolist(), 0.36, color=CURVES[0])
        drawing.draw_bar(
            axis, place + 0.2, runs.numbers(broken)["prague_mbps"].tolist(), 0.36, color=scheme("control").colour
        )
    axis.bar([0], [0], color=CURVES[0], label="as it is")
    axis.bar([0], [0], color=scheme("control").colour, label="broken")
    axis.set_xticks(range(len(pairs)), list(pairs), fontsize=8)
    axis.set_ylim(0, 100)
    axis.legend(loc="upper center")
    return figure


def draw_bursts(runs: Runs) -> Figure:
    """Draw Prague's goodput over the authors' where hosts send bursts as Linux's TCP does, and single segments."""
    names = {True: "bursts, as Linux's TCP builds them", False: "single segments"}
    figure, axes = drawing.panels(
        "What bursts of the hosts change",
        "Prague, the authors' mean (Mb/s)",
        "Prague, ours (Mb/s)",
        list(names.values()),
    )
    rows = runs.knobs["bursts"].groupby(["bursts", "case", "queue", "buffer_pipes"])["prague_mbps"].mean()
    for axis, bursts in zip(axes, names, strict=True):
        _draw_band(axis)
        for colour, pair in zip(CURVES, PAIRS, strict=False):
            ours = rows[bursts][pair]
            axis.plot(published().loc[pair].reindex(ours.index)["prague_mbps"], ours, "o", color=colour, label=pair)
    drawing.share_legend(figure)
    return figure


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's windows over time."""
    figure, axis = new_figure(case, "time (s)", "congestion window (kB)")
    for flow, rows in run.windows.groupby("flow"):
        side = run.flows["label"][flow]
        axis.plot(rows.time_s, rows.window_bytes / 1e3, color=CURVES[0 if side == "prague" else 1], label=side)
    axis.set_ylim(0)
    axis.legend()
    return figure


HALVES, DEAF, DEAF_L4S = "Prague halves", "Prague is deaf", "Prague is deaf, DualPI2"
HEEDS, UNCOUPLED = "BBRv3 heeds marks", "DualPI2 without coupling"

GRID = {"queue": swept(*QUEUES), "buffer_pipes": swept(*BUFFERS)}
MAPS = {f"heatmap-{theirs.replace('_', '-')}": pair for pair, (theirs, _) in PAIRS.items()}
QUICKLY = {"buffer_pipes": (2.0,)}
QUICK_QUEUES = ("FIFO", "single_queue_FQ", "DualPI2")  # of what kernels run too
PLAYED_S = 10.0


def _of_side(side: str) -> dict[str, Gauge]:
    goodput = {"table": "flows", "column": "delivered_bytes", "label": side, "times": 8e-6 / PLAYED_S}
    round_trip = {"table": "windows", "column": "round_trip_ms", "label": side, "since_start": [1, PLAYED_S]}
    name = side.capitalize()
    return {
        f"{side}_mbps": Gauge(f"{name} flow", "Mb/s", goodput),
        f"{side}_round_trip_ms": Gauge(f"{name} flow's round trip", "ms", round_trip),
    }


_AT_PORT = {"table": "links", "reduce": "sum"}
LIVE = LiveRun(
    {
        **_of_side("prague"),
        **_of_side("classic"),
        "dropped_packets": Gauge("dropped", "packets", _AT_PORT | {"column": "dropped_packets"}),
        "marked_packets": Gauge("marked", "packets", _AT_PORT | {"column": "marked_packets"}),
    },
    QUEUE,
    "queue (packets)",
    {"queue": tuple(QUEUES), "buffer_pipes": BUFFERS},
    lambda _: PORT,
    watched={"queues": (PORT,), "queue_interval_ms": 10.0},
)
STUDY = Study(
    slug="l4s_adoption",
    setting=Setting(),
    cases={
        **{pair: {**side, **GRID} for pair, (_, side) in PAIRS.items()},
        HALVES: {"classic": "cubic", "ecn": True, "queue": "single_queue_FQ", "receiver_ecn": "classic"},
        DEAF: {"classic": "cubic", "queue": "single_queue_FQ", "heeds_marks": False},
        DEAF_L4S: {"classic": "cubic", "queue": "DualPI2", "heeds_marks": False},
        HEEDS: {"classic": "bbr3", "ecn": True, "queue": "DualPI2", "bbr3_ecn_ms": 0.0},
        UNCOUPLED: {"classic": "cubic", "queue": "DualPI2", "coupling": 0.0},
        # Kernels of this library hand single segments down, and have no BBRv3.
        **{name: {**PAIRS[pair][1], "bursts": False, "queue": swept(*QUEUES)} for name, pair in OF_KERNELS.items()},
    },
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(
            20.0,
            repetitions=2,
            only=QUICKLY,
            where=lambda setting: setting.bursts or setting.queue in QUICK_QUEUES,
            unjudged=tuple(MAPS),
        ),
        "paper": Scale(60.0),
        ("quick", BESIDE): Scale(
            6.0, repetitions=1, only={"queue": ("DualPI2",)}, where=lambda setting: not setting.bursts
        ),
        ("paper", BESIDE): Scale(60.0, where=lambda setting: not setting.bursts),
    },
    claims={
        "prague-harms": Evidence("classic_mbps", "CUBIC, ECN", Evidence("classic_mbps", HALVES), at("single_queue_FQ")),
        "prague-is-harmed": Evidence("prague_mbps", "CUBIC", Evidence("prague_mbps", DEAF), at("single_queue_FQ")),
        "bbr3-does-not-solve": Evidence(
            "prague_mbps", "BBRv3, ECN", Evidence("prague_mbps", "BBRv3", how=at("DualPI2")), at("DualPI2")
        ),
        "l4s-queue-is-low-delay": Evidence(
            "prague_round_trip_ms", "CUBIC", Evidence("prague_round_trip_ms", DEAF_L4S), at("DualPI2")
        ),
        "dualpi2-shares": Evidence("prague_mbps", "CUBIC", Evidence("prague_mbps", UNCOUPLED), at("DualPI2")),
        **{
            claim: Evidence("prague_mbps", pair, Evidence("prague_mbps", pair, how=without_queues), as_map)
            for claim, pair in MAPS.items()
        },
    },
    knobs={
        "bursts": Knob(
            {
                pair: {**side, "queue": swept(*QUEUES), "buffer_pipes": swept(2.0), "bursts": swept(True, False)}
                for pair, (_, side) in PAIRS.items()
            },
            {
                "quick": Scale(15.0, only={"queue": ("FIFO", "Codel", "DualPI2")}),
                "paper": Scale(60.0),
            },
        ),
    },
    figures={
        **{f"map_{theirs}": partial(draw_map, pair=pair) for pair, (theirs, _) in PAIRS.items()},
        "agreement": draw_agreement,
        "control": draw_control,
        "knob_bursts": draw_bursts,
    },
    best=("map_cubic_noecn", "map_cubic_ecn", "map_bbrv1_noecn", "agreement", "control"),
    play=Play(tuple(PAIRS), {"queue": list(QUEUES), "buffer_pipes": (0.5, 8.0, 0.5)}, draw_run, PLAYED_S, LIVE),
)
