"""Dukkipati and McKeown, "Why Flow-Completion Time is the Right Metric for Congestion Control", CCR 36(1), 2006.

Flows of heavy-tailed sizes meet at one long link. If they shared the link equally from the start (processor sharing), a
flow would take little more than a round trip; TCP needs many round trips to find its rate, and so does XCP, whose
routers change windows bit by bit. RCP, whose routers tell every flow the fair rate, comes near processor sharing. TCP
also runs on the virtual kernel, on a slower link; RCP and XCP need routers that kernels do not have.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.links import DropTail, Link
from netrepro.networks.rcp import Rcp
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import PoissonFlows, Tcp, flows_per_s_at_load
from netrepro.study import (
    SIMULATED,
    Check,
    Evidence,
    Gauge,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    least_first,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.live import QUEUE, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import new_figure, scheme

PACKET_BYTES, SEGMENT_BYTES = 1000, 934  # bytes on the wire, and the data in them
PORT = ("s1", "s2")
PAIRS = 10
SMALL_PACKETS = 100  # the claims call flows up to this size small
NEAR_1000 = (500, 2000)  # packets, a factor of two either way
LEAST_FLOWS = 10  # of a size, below which its mean does not count
STARTING = 0.75  # share of a run in which flows start
SAMPLE_S = 0.05  # sampling interval for the picture of flows under way
WITHOUT_FEEDBACK = "RCP without feedback"
SLOWER = "TCP, 50 Mb/s"
SCHEMES = ("TCP", "XCP", "RCP")
LOOKS = {
    "TCP": scheme("tcp"),
    "RCP": scheme("RCP"),
    "XCP": scheme("XCP"),
    "processor sharing": scheme("processor sharing"),
    WITHOUT_FEEDBACK: scheme("control"),
}


@dataclass(frozen=True)
class Setting:
    """Link, round trip, load, sizes, packets, buffer and receive window of the authors' scripts for ns-2, with the
    defaults of ns-2.35 for the first window and the timeouts (data/flow_completion_time/SOURCES.md). The greatest size
    is our choice, because our distributions must end.

    buffer_share : of a bandwidth-delay product. access_ratio : rate of the hosts' links over the bottleneck's; in the
    scripts senders sit on the router itself. recovery : "reno" as in ns-2 (1990), or "linux", which has SACK.
    window_grows : the receive window begins with 64 KiB, as Linux's. as_scripts_end : flows start until the end of the
    run, and only finished ones count. rcp_alpha, rcp_beta, first_share : of RCP's routers. longer : factor on the
    profile's run length.
    """

    rate_mbps: float = parameter(2400.0, "of the bottleneck", "Mb/s", low=1, high=100_000)
    round_trip_ms: float = parameter(100.0, "without queues", "ms", low=0.1, high=10_000)
    load: float = parameter(0.9, "share of the bottleneck that flows offer", above=0, below=1)
    mean_packets: float = parameter(25.0, "mean flow size", "packets", low=1, high=1_000_000)
    shape: float = parameter(1.2, "of the Pareto distribution of sizes", above=1, high=10)
    longest_packets: float = parameter(1e6, "where it is cut off", "packets", low=100, high=10_000_000)
    initial_window_segments: int = parameter(2, "TCP's first window", "packets", low=1, high=1000)
    initial_rto_ms: float = parameter(3000.0, "timeout of the first SYN", "ms", low=0.1, high=60_000)
    min_rto_ms: float = parameter(200.0, "least variation in a retransmission timeout", "ms", low=0.1, high=60_000)
    buffer_share: float = parameter(1.0, "buffer", "share of a bandwidth-delay product", above=0, high=100)
    access_ratio: float = 100.0
    congestion_control: str = "reno"
    recovery: str = "reno"
    receive_window_bytes: int = 120_000 * SEGMENT_BYTES  # four bandwidth-delay products
    window_grows: bool = False
    as_scripts_end: bool = False
    rcp_alpha: float = 0.1
    rcp_beta: float = 1.0
    first_share: float = 0.05
    longer: float = 1.0

    @property
    def buffer_packets(self) -> int:
        """The buffer of the bottleneck (packets)."""
        return max(10, round(self.buffer_share * self.packets_per_s * self.round_trip_ms / 1e3))

    @property
    def packets_per_s(self) -> float:
        """The rate of the link in full packets per second."""
        return self.rate_mbps * 1e6 / 8 / PACKET_BYTES


PRINTED = Setting()


# Closed forms: sizes in packets, times in s. A flow is complete when the receiver has all of it; handshakes count.


def slow_start_s(packets: np.ndarray | float, setting: Setting = PRINTED) -> Any:
    """Compute the time that TCP needs without loss or queue, for a first window of W packets: (log2(L / W + 1) + 1/2)
    round trips and the link's own time.

    The handshake takes a round trip. Windows W, 2W, 4W, ... take a round trip each, and n of them carry W (2^n - 1)
    packets. The last one takes half a round trip to arrive. Section 2 has W = 1.
    """
    windows = np.log2(np.asarray(packets) / setting.initial_window_segments + 1)
    rounds = np.maximum(windows, 1.0) + 0.5
    return rounds * setting.round_trip_ms * 1e-3 + np.asarray(packets) / setting.packets_per_s


def processor_sharing_s(packets: np.ndarray | float, setting: Setting = PRINTED) -> Any:
    """Compute one and a half round trips for handshake and data, and the mean time in M/G/1 processor sharing, L / (C
    (1 - load)). It depends on the size distribution only through its mean. Section 2."""
    sharing = np.asarray(packets) / (setting.packets_per_s * (1 - setting.load))
    return 1.5 * setting.round_trip_ms * 1e-3 + sharing


def share_processor(starts_s: Sequence[float] | np.ndarray, work_s: Sequence[float] | np.ndarray) -> np.ndarray:
    """Compute exactly how long each of these flows stays in processor sharing (s). Shape (flows,).

    starts_s : ascending. work_s : the time that each flow would take alone. All flows present get the same service, so
    a flow leaves when the common service has grown by its work. One heap of these leaving points is enough.
    """
    stay = np.empty(len(starts_s))
    present: list[tuple[float, int]] = []
    now, share = 0.0, 0.0
    for place, start in enumerate([*starts_s, np.inf]):
        while present and now + (present[0][0] - share) * len(present) <= start:
            until, flow = heapq.heappop(present)
            now, share = now + (until - share) * (len(present) + 1), until
            stay[flow] = now - starts_s[flow]
        if present:
            share += (start - now) / len(present)
        now = start
        if place < len(work_s):
            heapq.heappush(present, (share + work_s[place], place))
    return stay


def flow_sizes(setting: Setting = PRINTED) -> FlowSizeDistribution:
    """Return the distribution of Pareto sizes (bytes) with the setting's shape and mean, cut off at the greatest
    size."""
    return _flow_sizes(setting.mean_packets, setting.shape, setting.longest_packets)


@lru_cache
def _flow_sizes(mean: float, shape: float, longest: float) -> FlowSizeDistribution:
    low, high = 1e-3, longest
    for _ in range(80):  # bisection: the mean grows with the least size
        least = np.sqrt(low * high)
        sizes = np.geomspace(least, longest, 400)
        reached = 1 - (least / sizes) ** shape
        points = tuple(zip(sizes * SEGMENT_BYTES, reached / reached[-1], strict=True))
        distribution = FlowSizeDistribution(points, "bytes", f"Pareto, shape {shape:g}", SEGMENT_BYTES)
        low, high = (least, high) if distribution.mean < mean * SEGMENT_BYTES else (low, least)
    return distribution


# Experiments.


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment that every tier runs: Poisson flows over one bottleneck, which start in the first three
    quarters of the run, or until its end as in the scripts."""
    delay_ms, seconds = setting.round_trip_ms / 2, setting.longer * seconds
    access = Link(
        setting.access_ratio * setting.rate_mbps,
        0.01 * delay_ms,
        DropTail(packets=max(100, 10 * setting.buffer_packets)),
    )
    bottleneck = Link(setting.rate_mbps, 0.98 * delay_ms, DropTail(packets=setting.buffer_packets))
    sizes = flow_sizes(setting)
    rate = flows_per_s_at_load(sizes, setting.load, setting.rate_mbps * SEGMENT_BYTES / PACKET_BYTES)
    flows = PoissonFlows(
        sizes,
        rate,
        max(1, round(rate * (1.0 if setting.as_scripts_end else STARTING) * seconds)),
        sources=tuple(f"h{i + 1}" for i in range(PAIRS)),
        destinations=tuple(f"h{PAIRS + i + 1}" for i in range(PAIRS)),
    )
    tcp = Tcp(
        setting.congestion_control,
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=SEGMENT_BYTES,
        receive_window_bytes=setting.receive_window_bytes,
        receive_window_grows=setting.window_grows,
        min_rto_ms=setting.min_rto_ms,
        initial_rto_ms=setting.initial_rto_ms,
        delayed_ack_ms=0.0,  # only with this does slow start double the window each round trip
        syn_linear_timeouts=0,
        sack=setting.recovery == "linux",
        tail_loss_probe=setting.recovery == "linux",
        recovery=setting.recovery,
    )
    return Experiment(
        dumbbell(PAIRS, access, bottleneck),
        (flows,),
        seconds,
        seed,
        measure=Measure(queues=(PORT,), queue_interval_ms=10.0),
        tcp=tcp,
        rcp=Rcp(setting.rcp_alpha, setting.rcp_beta, first_share=setting.first_share),
    )


def flow_table(run: Measurements, setting: Setting) -> pd.DataFrame:
    """Return a row for each flow: start_s, packets, completion_s, finished, least_s (alone on the link) and ideal_s (in
    processor sharing with the same other flows). All times include handshake and propagation. completion_s of an
    unfinished flow is the time that it has had."""
    flows = run.flows.sort_values("start_s")
    starts_s, size_bytes = flows["start_s"].to_numpy(), flows["size_bytes"].to_numpy()
    packets, completion_s = np.ceil(size_bytes / SEGMENT_BYTES), flows["completion_ms"].to_numpy() / 1e3
    alone_s = (size_bytes + packets * (PACKET_BYTES - SEGMENT_BYTES)) * 8e-6 / setting.rate_mbps
    way_s, unfinished = 1.5e-3 * setting.round_trip_ms, np.isnan(completion_s)
    return pd.DataFrame(
        {
            "start_s": starts_s,
            "packets": packets,
            "completion_s": np.where(unfinished, run.experiment.duration_s - starts_s, completion_s),
            "finished": ~unfinished,
            "least_s": way_s + alone_s,
            "ideal_s": way_s + _shared_s(starts_s.tobytes(), alone_s.tobytes()),
        }
    )


@lru_cache(maxsize=8)
def _shared_s(starts_s: bytes, work_s: bytes) -> np.ndarray:
    """Compute `share_processor` once for flows that all cases of a repetition share."""
    return share_processor(np.frombuffer(starts_s).tolist(), np.frombuffer(work_s).tolist())


def by_size(flows: pd.DataFrame, per_decade: int = 4) -> pd.DataFrame:
    """Return mean completions by flow size, a row for each bin of sizes (equal ratios): packets (geometric mean),
    flows, completion_s, ideal_s, slowdown (their ratio)."""
    # Edges lie between whole numbers of packets.
    place = np.floor(np.log10(flows["packets"] - 0.5) * per_decade).rename("bin")
    grouped = flows.assign(log=np.log(flows["packets"])).groupby(place)
    table = grouped[["log", "completion_s", "ideal_s"]].mean().assign(flows=grouped.size())
    table = table.assign(packets=np.exp(table["log"]), slowdown=table["completion_s"] / table["ideal_s"])
    return table[["packets", "flows", "completion_s", "ideal_s", "slowdown"]].reset_index(drop=True)


def active_flows(flows: pd.DataFrame, times_s: np.ndarray, column: str = "completion_s") -> np.ndarray:
    """Count the flows under way at each time. column : holds each flow's duration (s)."""
    starts, ends = np.sort(flows["start_s"]), np.sort(flows["start_s"] + flows[column])
    return np.searchsorted(starts, times_s, "right") - np.searchsorted(ends, times_s, "right")


def read(run: Measurements, setting: Setting) -> Reading:
    """Read mean completions of small, large and all flows, and in processor sharing (ms). Read also the flows' mean
    slowdown against it, the share that take ten times as long, the slowdown of the worst size and of some 1000 packets
    (mean completion over mean of processor sharing), drops and the mean queue.
    Tables: sizes (as by_size), and active (time_s, flows under way, ideal_flows in processor sharing,
    queue_packets)."""
    flows = flow_table(run, setting)
    unfinished = float(1 - flows["finished"].mean())
    if setting.as_scripts_end:
        flows = flows[flows["finished"]]
    small, sizes = flows["packets"] <= SMALL_PACKETS, by_size(flows)
    middle = flows[flows["packets"].between(*NEAR_1000)]
    queue, ratio = run.queues, flows["completion_s"] / flows["ideal_s"]
    times_s = np.arange(0, flows["start_s"].max(), SAMPLE_S)
    active = pd.DataFrame(
        {
            "time_s": times_s,
            "flows": active_flows(flows, times_s),
            "ideal_flows": active_flows(flows, times_s, "ideal_s"),
            "queue_packets": np.interp(times_s, queue["time_s"], queue["queue_packets"]),
        }
    )
    exact = 0.999 if run.tier == SIMULATED else 0.99  # kernels' clocks are coarser
    # An unfinished flow has had less time than it needs.
    early = float((flows["finished"] & (flows["completion_s"] < flows["least_s"] * exact)).mean())
    checks = [Check("flows faster than light and link", early, at_most=0.0)]
    is_broken = setting.congestion_control == "rcp" and setting.rcp_alpha == 0  # the control, on purpose
    if not (is_broken or setting.as_scripts_end):
        checks.append(Check("flows that did not finish", unfinished, at_most=0.01))
    numbers = {
        "small_ms": 1e3 * flows["completion_s"][small].mean(),
        "large_ms": 1e3 * flows["completion_s"][~small].mean(),
        "all_ms": 1e3 * flows["completion_s"].mean(),
        "processor_sharing_ms": 1e3 * flows["ideal_s"].mean(),
        "slowdown": ratio.mean(),
        "tenfold_share": (ratio >= 10).mean(),
        "slowdown_at_1000": middle["completion_s"].mean() / middle["ideal_s"].mean(),
        "worst_slowdown": sizes["slowdown"][sizes["flows"] >= LEAST_FLOWS].max(),
        "dropped_share": run.links["dropped_packets"].sum() / flows["packets"].sum(),
        "queue_packets": queue["queue_packets"].mean(),
    }
    return Reading(numbers, {"sizes": sizes, "active": active}, checks)


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary(SIMULATED)
    tcp, xcp, rcp = (table.loc[case] for case in SCHEMES)
    return (
        f"Because users wait for it, and throughput hides it: on a link that is {runs.setting.load:.0%} full, flows "
        f"take {tcp.all_ms:.0f} ms with TCP, {xcp.all_ms:.0f} with XCP and {rcp.all_ms:.0f} with RCP, where processor "
        f"sharing takes {tcp.processor_sharing_ms:.0f}; at the worst size TCP takes {tcp.worst_slowdown:.1f} times as "
        f"long, XCP {xcp.worst_slowdown:.1f}."
    )


# Figures. All but the comparison of tiers show the simulator, which alone has RCP.


def draw_idea() -> Figure:
    """Draw the least number of round trips of a flow, on a link so fast that sending costs no time."""
    figure, axis = new_figure("Round trips, on a link of any rate", "flow (packets)", "round trips (count)", log_x=True)
    packets = np.geomspace(1, 1e4, 200)
    slow_start = np.log2(packets + 1) + 0.5
    axis.plot(packets, slow_start, color=LOOKS["TCP"].colour, label="TCP: slow start from one packet")
    axis.plot(packets, np.full_like(packets, 1.5), color=LOOKS["RCP"].colour, label="RCP: the fair rate at once")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw many flows over one long link."""
    return drawing.draw_network(experiment(setting, 0.01, 1), "Flows come and go; one long link carries them all")


def draw_completion(runs: Runs) -> Figure:
    """Draw the mean completion time over flow size, and the two closed forms (Fig. 1), slow start's for a first window
    of one packet, as in the report."""
    figure = _over_size("Completion time by flow size", runs, SCHEMES, "completion_s", "mean completion (s)")
    sizes = runs.table("sizes", "TCP", SIMULATED)["packets"]
    x, axis = np.geomspace(sizes.min(), sizes.max(), 200), figure.axes[0]
    slow = slow_start_s(x, replace(runs.setting, initial_window_segments=1))
    axis.plot(x, slow, "--", color=LOOKS["TCP"].colour, label="slow start from one packet, nothing lost")
    sharing = LOOKS["processor sharing"]
    axis.plot(x, processor_sharing_s(x, runs.setting), "-", color=sharing.colour, label=sharing.label)
    drawing.share_legend(figure)
    return figure


def draw_slowdown(runs: Runs) -> Figure:
    """Draw completion times over those of the same flows in processor sharing. Dashed: one order of magnitude."""
    figure = _over_size("Longer than necessary", runs, SCHEMES, "slowdown", "completion / processor sharing")
    drawing.draw_published_level(figure.axes[0], 10, "one order of magnitude")
    figure.axes[0].axhline(1, color=LOOKS["processor sharing"].colour)
    drawing.share_legend(figure)
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw RCP whose routers keep their first, low rate."""
    title = "Broken on purpose: routers that never correct their rate"
    return _over_size(title, runs, ("TCP", "RCP", WITHOUT_FEEDBACK), "completion_s", "mean completion (s)")


def _over_size(title: str, runs: Runs, cases: Sequence[str], column: str, label: str) -> Figure:
    """Draw the points of every repetition; sizes with few flows are faint."""
    figure, axis = new_figure(title, "flow size (packets)", label, log_x=True, log_y=True)
    for case in cases:
        rows, look = runs.table("sizes", case, SIMULATED), LOOKS[case]
        many = rows["flows"] >= LEAST_FLOWS
        axis.plot(rows.packets[many], rows[column][many], look.marker, color=look.colour, alpha=0.6, label=case)
        axis.plot(rows.packets[~many], rows[column][~many], look.marker, color=look.colour, alpha=0.15)
    axis.legend()
    return figure


def draw_active(runs: Runs) -> Figure:
    """Draw flows under way over time, and the queue, for one repetition."""
    figure, axes = drawing.panels("Flows under way, and what waits", "time (s)", "", ["", ""])
    for case in SCHEMES:
        rows, look = runs.table("active", case, SIMULATED).query("repetition == 0"), LOOKS[case]
        axes[0].plot(rows.time_s, rows["flows"], color=look.colour, label=case, linewidth=1.2)
        axes[1].plot(rows.time_s, rows.queue_packets, color=look.colour, label=case, linewidth=0.8)
    look = LOOKS["processor sharing"]
    axes[0].plot(rows.time_s, rows.ideal_flows, color=look.colour, label=look.label, linewidth=1.2)
    axes[0].set_ylabel("flows under way")
    axes[1].set_ylabel("queue (packets)")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.legend()
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw TCP's slowdown by size on the slower link, with one colour for each tier."""
    figure, axis = new_figure(SLOWER + ", by tier", "flow size (packets)", "completion / processor sharing",
                              log_x=True, log_y=True)  # fmt: skip
    for tier in runs.tiers:
        look = scheme("simulated" if tier == SIMULATED else "emulated")
        rows = runs.table("sizes", SLOWER, tier).query("flows >= @LEAST_FLOWS")
        axis.plot(rows.packets, rows.slowdown, look.marker, color=look.colour, alpha=0.6, label=tier)
    axis.axhline(1, color=LOOKS["processor sharing"].colour)
    axis.legend()
    return figure


def draw_trips(runs: Runs) -> Figure:
    """Draw the mean slowdown over the round trip."""
    return _draw_knob(runs.knobs["trips"], "round_trip_ms", "round trip (ms)")


def draw_windows(runs: Runs) -> Figure:
    """Draw the mean slowdown over TCP's first window."""
    return _draw_knob(runs.knobs["windows"], "initial_window_segments", "TCP's first window (packets)")


def _draw_knob(table: pd.DataFrame, name: str, label: str) -> Figure:
    figure, axis = new_figure("Slowdown", label, "mean of completion / processor sharing", log_x=True)
    for case, rows in table.groupby("case", sort=False):
        look = LOOKS[str(case)]
        axis.plot(rows[name], rows.slowdown, look.marker + "-", color=look.colour, label=case)
    drawing.name_ticks(axis, "x", table[name])
    axis.axhline(1, color=LOOKS["processor sharing"].colour, linewidth=1)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_causes(runs: Runs) -> Figure:
    """Draw why the worst size waits: TCP with one change at a time."""
    title, label = "What makes the worst size wait?", "completion / processor sharing at the worst size"
    return drawing.changes_figure(title, runs.knobs["causes"], "worst_slowdown", label)


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's completion times by size, for `explore`."""
    figure, axis = new_figure(case, "flow size (packets)", "mean completion (s)", log_x=True, log_y=True)
    mbps = run.experiment.topology.link(*PORT).rate_mbps
    rows = by_size(flow_table(run, replace(PRINTED, rate_mbps=mbps)))
    axis.plot(rows.packets, rows.completion_s, LOOKS[case].marker, color=LOOKS[case].colour, label=case)
    axis.plot(rows.packets, rows.ideal_s, color=LOOKS["processor sharing"].colour, label="processor sharing")
    axis.legend()
    return figure


# What is measured.

RCP = {"congestion_control": "rcp", "recovery": "linux"}
XCP = {"congestion_control": "xcp"}  # the authors' sender repairs losses as Reno does
SACK = {"recovery": "linux"}
OF_LINUX = {"initial_rto_ms": 1000.0, "receive_window_bytes": 6 * 2**20, "window_grows": True}
KNOB_SCALE = {"quick": Scale(2.0), "paper": Scale(40.0), "test": Scale(2.0)}


def _both(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"TCP": changes, "RCP": RCP | changes}


_TOOK = {"table": "flows", "column": "lasted_ms"}
_SMALL_BYTES = SMALL_PACKETS * SEGMENT_BYTES
LIVE = LiveRun(
    {
        "small_ms": Gauge(
            "flows of 100 packets or less", "ms", _TOOK | {"where": {"column": "size_bytes", "most": _SMALL_BYTES}}
        ),
        "large_ms": Gauge("larger flows", "ms", _TOOK | {"where": {"column": "size_bytes", "least": _SMALL_BYTES + 1}}),
        "all_ms": Gauge("all flows", "ms", _TOOK),
        "queue_packets": Gauge("mean queue", "packets", QUEUE),
    },
    _TOOK | {"distribution": True},
    "completion of a flow (ms)",
    {"load": (0.2, 0.5, 0.7, 0.9), "initial_window_segments": (1, 2, 4, 10, 30), "round_trip_ms": (10.0, 100.0)},
    lambda _: PORT,
    broken={"RCP": WITHOUT_FEEDBACK},
    changes={"rate_mbps": 10.0},  # at 2400 Mb/s there are tens of thousands of flows
)
STUDY = Study(
    slug="flow_completion_time",
    setting=PRINTED,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=3,
    cases={
        "TCP": {},
        "RCP": RCP,
        "XCP": XCP,
        WITHOUT_FEEDBACK: RCP | {"rcp_alpha": 0.0, "rcp_beta": 0.0, "first_share": 1e-4},
        # A rate at which a second costs a kernel little, a window that it allows, and its own recovery.
        SLOWER: SACK | OF_LINUX | {"rate_mbps": 50.0, "access_ratio": 10.0, "longer": 2.5},
    },
    scales={"quick": Scale(5.0), "paper": Scale(120.0), "test": Scale(12.0, 2)},
    claims={
        "longer-than-necessary": Evidence("worst_slowdown", "TCP", "RCP"),
        "longer-than-necessary-xcp": Evidence("worst_slowdown", "XCP", "RCP"),
        "tenfold-at-1000-packets": Evidence("slowdown_at_1000", "TCP", "RCP"),
        "rcp-near-the-minimum": Evidence("slowdown", "RCP", WITHOUT_FEEDBACK),
        "small-flows": Evidence("small_ms", ("RCP", "TCP"), (WITHOUT_FEEDBACK, "TCP"), how=least_first("RCP", "TCP")),
        "all-flows": Evidence("all_ms", ("RCP", "TCP"), (WITHOUT_FEEDBACK, "TCP"), how=least_first("RCP", "TCP")),
        "xcp-longer-than-tcp": Evidence(
            "slowdown_at_1000", ("TCP", "XCP"), ("TCP", "RCP"), how=least_first("TCP", "XCP")
        ),
        "xcp-slower-than-rcp": Evidence(
            "all_ms", ("RCP", "XCP"), (WITHOUT_FEEDBACK, "XCP"), how=least_first("RCP", "XCP")
        ),
    },
    knobs={
        "causes": Knob(
            {
                "as published": {},
                "SACK and Linux's recovery": SACK,
                "no flow above 20,000 packets": {"longest_packets": 20_000.0},
                "both": SACK | {"longest_packets": 20_000.0},
                "a tenth of the buffer": {"buffer_share": 0.1},
                "hosts no faster than the link": {"access_ratio": 1.0},
                "timeouts of ns-2 of 2003": {"initial_rto_ms": 6000.0, "min_rto_ms": 1000.0},
                "ends as the scripts do": {"as_scripts_end": True},
                "no flow above 1000 packets": {"longest_packets": 1000.0},
            },
            {"quick": Scale(3.0), "paper": Scale(40.0), "test": Scale(2.0)},
        ),
        "trips": Knob(_both(round_trip_ms=swept(1.0, 10.0, 100.0)), KNOB_SCALE),
        "windows": Knob(_both(initial_window_segments=swept(1, 2, 10, 30)), KNOB_SCALE),
    },
    figures={
        "completion_by_size": draw_completion,
        "slowdown_by_size": draw_slowdown,
        "active_flows": draw_active,
        "tiers_tcp": draw_tiers,
        "control": draw_control,
        "knob_causes": draw_causes,
        "knob_round_trip": draw_trips,
        "knob_first_window": draw_windows,
    },
    play=Play(
        SCHEMES,
        {"rate_mbps": [2400.0, 100.0, 500.0], "load": (0.1, 0.95, 0.05), "initial_window_segments": (1, 50, 1)},
        draw_run,
        seconds=4.0,
        live=LIVE,
    ),
)
