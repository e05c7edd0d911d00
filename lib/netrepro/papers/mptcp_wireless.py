"""One connection over WiFi and 3G: Raiciu et al., "How Hard Can It Be? Designing and Implementing a Deployable
Multipath TCP", NSDI 2012, section 4.2 and Figs 4 and 7.

A stream is spread over a fast path and a slow one with a long queue. Data still on the slow path block the buffer that
both share. Opportunistic retransmission (M1) sends these data again on the fast path; penalisation (M2) halves the slow
path's window. An application that writes blocks sees all this as latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.mptcp.run import told_handover
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, CoDel, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.programs import why_missing
from netrepro.study import (
    SIMULATED,
    VIRTUAL,
    Check,
    Evidence,
    Gauge,
    Knob,
    Live,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first, ratio
from netrepro.study.figures import Distribution, Level, Look, Panel, Picture, Sweep, beside, plot, shown
from netrepro.study.measuring import run_experiment
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

KB = 1024
BLOCK_BYTES = 8 * KB
SWITCHES = {"wifi": "s3", "3g": "s4"}
WIRE = Link(1000, 0, DropTail(packets=10_000))
RECEIVE_BUFFERS_KB = (50, 100, 200, 400, 600, 1000)
WIFI_MBPS = (8.0, 16.0, 32.0, 64.0)  # 4, 8, 16 and 32 times the rate of 3G
CLASS_KB, LARGE_KB, PLENTY_KB, SMALL_KB = 32, 6 * 1024, 8 * 1024, 40


@dataclass(frozen=True)
class Setting:
    """Links as the class took them from the paper's other experiment. Buffers of links are in time at the link's rate.

    networks : one name for TCP, two for MPTCP with a subflow on each. receive_buffer_kb : as large as the send buffer
    unless a case says otherwise, since the paper gives only the latter. lost : start and end of WiFi's outage, as
    shares of the run's time, or (). told : the path manager learns of the outage at once. mobile_queue : "drop tail" or
    "codel". own_buffers : MPTCP's send and receive buffer are separate, as in the authors' kernel; otherwise one buffer
    of the smaller size serves as both, as with TCP. follows_blocks : False where only goodput is needed, which is
    faster.
    """

    wifi_mbps: float = 8.0
    wifi_round_trip_ms: float = 20.0
    wifi_buffer_ms: float = 80.0
    wifi_loss: float = 0.0
    mobile_mbps: float = 2.0
    mobile_round_trip_ms: float = 150.0
    mobile_buffer_ms: float = 2000.0
    mobile_jitter_ms: float = parameter(50.0, "of 3G, each way: deviation of the delay", "ms", low=0, high=1000)
    mobile_queue: str = "drop tail"
    mobile_loss: float = 0.0
    send_buffer_kb: int = parameter(200, "of the application's socket", "KB", low=2, high=100_000)
    receive_buffer_kb: int = 200
    congestion_control: str = parameter(
        "lia",
        "of the subflows (no olia, balia on the virtual kernel)",
        one_of=("lia", "olia", "balia", "reno", "cubic"),
    )
    networks: tuple[str, ...] = ("wifi", "3g")
    retransmits: bool = False
    penalises: bool = False
    lost: tuple[float, ...] = ()
    told: bool = False
    own_buffers: bool = True
    follows_blocks: bool = True

    @property
    def carried_mbps(self) -> float:
        """The payload rate (Mb/s) that both links together can carry."""
        return (self.wifi_mbps + self.mobile_mbps) * 1448 / FULL_PACKET_BYTES


def buffer_packets(mbps: float, buffer_ms: float) -> int:
    """Return a link's buffer in packets of 1500 bytes, by the class's rule: 54 for WiFi and 334 for 3G."""
    return max(1, math.ceil(bandwidth_delay_packets(mbps, buffer_ms, 1500)))


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: one endless stream from h1 to h2. s3 is WiFi, s4 is 3G; each has its rate and queue before
    it, its delay behind it.

    Raises NetreproError for buffers below a packet.
    """
    if min(setting.send_buffer_kb, setting.receive_buffer_kb) < 2:
        raise NetreproError("a buffer of less than a packet", "give 2 KB or more")
    wifi = buffer_packets(setting.wifi_mbps, setting.wifi_buffer_ms)
    mobile = buffer_packets(setting.mobile_mbps, setting.mobile_buffer_ms)
    queue = {"drop tail": DropTail, "codel": CoDel}[setting.mobile_queue](packets=mobile)
    delayed = replace(WIRE, delay_ms=setting.mobile_round_trip_ms / 2, jitter_ms=setting.mobile_jitter_ms)
    network = Topology(
        (
            Cable("h1", "s1", WIRE),
            Cable("s1", "s3", Link(setting.wifi_mbps, 0, DropTail(packets=wifi), loss=setting.wifi_loss)),
            Cable("s3", "s2", replace(WIRE, delay_ms=setting.wifi_round_trip_ms / 2)),
            Cable("s1", "s4", Link(setting.mobile_mbps, 0, queue, loss=setting.mobile_loss)),
            Cable("s4", "s2", delayed),
            Cable("s2", "h2", WIRE),
        )
    )
    paths = tuple(("h1", "s1", SWITCHES[name], "s2", "h2") for name in setting.networks)
    how: dict[str, Any] = {"path": paths[0]}
    if len(paths) > 1:
        how = {"subflows": len(paths), "subflow_paths": paths, "congestion_control": setting.congestion_control}
    # Bytes that are not acknowledged fill the send buffer, too.
    buffers: dict[str, Any] = {"receive_window_bytes": min(setting.send_buffer_kb, setting.receive_buffer_kb) * KB}
    if setting.own_buffers and len(paths) > 1:
        sizes_kb = {"receive_window_bytes": setting.receive_buffer_kb, "send_buffer_bytes": setting.send_buffer_kb}
        buffers = {name: size_kb * KB for name, size_kb in sizes_kb.items()}
    changes = zip(setting.lost, (False, True), strict=False)
    return Experiment(
        network,
        (Flow("h1", "h2", duration_s=seconds, **how),),
        seconds,
        seed,
        Measure(
            packets=tuple(port for switch in SWITCHES.values() for port in (("s2", switch), (switch, "s1"))),
            deliveries=(0,),
        ),
        Tcp(
            "cubic",
            **buffers,
            syn_linear_timeouts=0,
            opportunistic_retransmission=setting.retransmits,
            penalisation=setting.penalises,
        ),
        changes=tuple(LinkChange(share * seconds, "s1", "s3", up=up) for share, up in changes),
    )


# Blocks.


def acknowledged(measured: Measurements) -> pd.DataFrame:
    """Return when the sender learns how much the receiver has: time_s, acknowledged_bytes, a row for each
    acknowledgement.

    Of a simulation it is computed: each acknowledgement reports the bytes held when it left. As networks keep the order
    of packets, the nth to leave is the nth to arrive.
    """
    if measured.tier != SIMULATED:
        return measured.acknowledgements
    parts, delivered = [], measured.deliveries
    for switch in SWITCHES.values():
        left_s, came_s = (_times_s(measured, *port) for port in (("s2", switch), (switch, "s1")))
        held = held_at(delivered, left_s[: len(came_s)])
        parts.append(pd.DataFrame({"time_s": came_s, "acknowledged_bytes": held}))
    table = pd.concat(parts, ignore_index=True).sort_values("time_s", kind="stable", ignore_index=True)
    return table.assign(acknowledged_bytes=table.acknowledged_bytes.cummax())


def _times_s(measured: Measurements, source: str, destination: str) -> np.ndarray:
    packets = measured.packets
    return packets.time_s[(packets.source == source) & (packets.destination == destination)].to_numpy()


def block_latencies(delivered: pd.DataFrame, acknowledged: pd.DataFrame, send_buffer_bytes: int) -> pd.DataFrame:
    """Return a row for each delivered block: accepted_s, when its last byte fitted in the send buffer, and latency_ms
    from then until the whole block had arrived in order.

    The application writes until the buffer ends `send_buffer_bytes` beyond the acknowledged bytes. It then sleeps until
    a third is free, as Linux wakes a writer. delivered : time_s, delivered_bytes. acknowledged : time_s,
    acknowledged_bytes. Both ascend.
    """
    total = delivered.delivered_bytes.max() if len(delivered) else 0
    ends = np.arange(BLOCK_BYTES, total + 1, BLOCK_BYTES)
    arrived_s = delivered.time_s.to_numpy()[np.searchsorted(delivered.delivered_bytes, ends)]
    known, written, woken_s = acknowledged.acknowledged_bytes.to_numpy(), [send_buffer_bytes], [0.0]
    while (place := int(np.searchsorted(known, written[-1] - 2 * send_buffer_bytes / 3))) < len(known):
        written.append(int(known[place]) + send_buffer_bytes)
        woken_s.append(float(acknowledged.time_s.iloc[place]))
    accepted_s = np.array(woken_s)[np.minimum(np.searchsorted(written, ends), len(written) - 1)]
    return pd.DataFrame({"accepted_s": accepted_s, "latency_ms": (arrived_s - accepted_s) * 1e3})


def settled_s(seconds: float) -> float:
    """Return the time (s) from which a run of `seconds` counts. By then 3G's queue of two seconds has had its first
    losses."""
    return min(10.0, seconds / 3)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure in one run the blocks' latency, the goodput, and the share of each network.

    Raises NetreproError for tiers in real time.
    """
    asked = experiment(setting, seconds, seed)
    if tier == VIRTUAL and setting.told:
        return read_stream(told_handover(asked), setting, seconds)
    return read(run_experiment(asked, tier), setting)


def cannot(setting: Setting, tier: str) -> str:
    """Return why the tier cannot run a setting, apart from what the kernel refuses; "" where it can."""
    if setting.told and tier == VIRTUAL:
        return why_missing("ip")
    return "the simulator has no path manager that could be told" if setting.told and tier == SIMULATED else ""


def read_stream(delivered: pd.DataFrame, setting: Setting, seconds: float) -> Reading:
    """Read goodput_mbps after `settled_s`, carried_share (of what both links can carry), progress_share (of whole
    seconds without WiFi in which bytes arrived), without_wifi_mbps (in these seconds), and longest_stall_s. The last
    three are NaN where WiFi stays up. The table seconds has the goodput over time."""
    begin_s, in_all = settled_s(seconds), held_at(delivered, seconds)
    each_second = bytes_by_second(delivered, seconds)
    without_wifi_mbps = without_wifi(each_second, setting, seconds).goodput_mbps
    goodput_mbps = (in_all - held_at(delivered, begin_s)) * 8e-6 / (seconds - begin_s)
    carried = in_all * 8e-6 / seconds / setting.carried_mbps
    numbers = {
        "goodput_mbps": goodput_mbps,
        "carried_share": goodput_mbps / setting.carried_mbps,
        "progress_share": float((without_wifi_mbps > 0).mean()),
        "without_wifi_mbps": float(without_wifi_mbps.mean()),
        "longest_stall_s": longest_stall_s(delivered, setting, seconds),
    }
    within = Check("delivered of what both links carry (share)", carried, at_most=1.001)
    return Reading(numbers, {"seconds": each_second}, [within])


def read(measured: Measurements, setting: Setting) -> Reading:
    """Read what `read_stream` reads, mobile_share (of packets sent on 3G) and repeated_share (of packets sent again).
    Where blocks are followed, read also what `read_blocks` reads."""
    delivered = measured.deliveries
    stream = read_stream(delivered, setting, measured.experiment.duration_s)
    sent = measured.links_by_port.sent_packets
    wifi, mobile = (sent["s1", switch] for switch in SWITCHES.values())
    counted = max(1, int(measured.flows.delivered_bytes.sum()))
    blocks = read_blocks(measured, setting) if setting.follows_blocks else Reading()
    held = Check("delivered / counted by the receiver", delivered.delivered_bytes.max() / counted, 0.99, 1.01)
    numbers = {
        "mobile_share": float(mobile / max(1, wifi + mobile)),
        "repeated_share": float(measured.flows.retransmitted_packets.sum() / max(1, wifi + mobile)),
    }
    return replace(stream | Reading(numbers, checks=[held]) | blocks, fidelity=measured.fidelity)


def read_blocks(measured: Measurements, setting: Setting) -> Reading:
    """Read the latencies of blocks accepted after `settled_s`: mean_ms, median_ms, spread_ms (10th to 90th percentile),
    late_share (beyond twice the median), and their table."""
    delivered, known = measured.deliveries, acknowledged(measured)
    segment_bytes = measured.experiment.tcp.segment_bytes
    every = block_latencies(delivered, known, setting.send_buffer_kb * KB // segment_bytes * segment_bytes)
    blocks = every[every.accepted_s >= settled_s(measured.experiment.duration_s)].reset_index(drop=True)
    latency = blocks.latency_ms.to_numpy() if len(blocks) else np.array([np.nan])
    low, median, high = np.percentile(latency, (10, 50, 90))
    ports = measured.links_by_port
    backward = [ports.loc[port] for port in measured.experiment.measure.packets]
    numbers = {
        "mean_ms": float(latency.mean()),
        "median_ms": float(median),
        "spread_ms": float(high - low),
        "late_share": float((latency > 2 * median).mean()),
    }
    beyond = known.acknowledged_bytes.to_numpy() - held_at(delivered, known.time_s)
    checks = [
        Check("acknowledgements lost", float(sum(p.dropped_packets + p.lost_packets for p in backward)), at_most=0),
        Check("acknowledged beyond delivered (bytes)", float(np.max(beyond, initial=0)), at_most=0.0),
        Check("blocks that arrived before they were accepted", float((every.latency_ms < 0).sum()), at_most=0.0),
    ]
    return Reading(numbers, {"blocks": blocks}, checks)


def held_at(delivered: pd.DataFrame, time_s: Any) -> Any:
    """Return the bytes that the receiver has at a time, or at each of several (s)."""
    return np.concatenate([[0], delivered.delivered_bytes])[np.searchsorted(delivered.time_s, time_s, side="right")]


def bytes_by_second(delivered: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Compute the goodput in every whole second: second, goodput_mbps."""
    ends = np.arange(math.floor(seconds) + 1, dtype=float)
    return pd.DataFrame({"second": ends[:-1], "goodput_mbps": np.diff(held_at(delivered, ends)) * 8e-6})


def longest_stall_s(delivered: pd.DataFrame, setting: Setting, seconds: float) -> float:
    """Compute the longest time (s) without any byte after the loss of WiFi; NaN where WiFi is never lost."""
    if not setting.lost:
        return math.nan
    down_s = setting.lost[0] * seconds
    times_s = delivered.time_s.to_numpy()
    return float(np.diff(np.concatenate([[down_s], times_s[times_s > down_s], [seconds]])).max())


def without_wifi(each_second: pd.DataFrame, setting: Setting, seconds: float) -> pd.DataFrame:
    """Return the rows of whole seconds without WiFi; none where WiFi is never lost."""
    down_s, up_s = (share * seconds for share in setting.lost or (1.0, 1.0))
    return each_second[(each_second.second >= down_s) & (each_second.second + 1 <= up_s)]


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    tiers = {case: next(tier for tier in runs.tiers if runs.has(case, tier=tier)) for case in FIG7}
    plain, both, wifi, mobile = (runs.numbers(case, tier).mean_ms.mean() for case, tier in tiers.items())
    of_class = runs.numbers("class: mptcp")
    whose = "plain MPTCP" if runs.tier == SIMULATED else "Linux's MPTCP"
    how = "with M1 and M2" if runs.has(BOTH) else "with M1 and M2 in the simulator"
    return (
        f"A block takes {plain:.0f} ms in the mean with {whose} and {both:.0f} ms {how} "
        f"(TCP over WiFi {wifi:.0f}, over 3G {mobile:.0f}); with the class's receive buffer of {CLASS_KB} KB it takes "
        f"{of_class.mean_ms.mean():.0f} ms, and 3G carries {100 * of_class.mobile_share.mean():.1f} % of the packets."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw one missing segment on 3G, and how it blocks the shared buffer; not to scale."""
    figure, axis = new_figure("What 3G still holds blocks WiFi (not to scale)", "time (arbitrary)", "")
    rows = {
        "with M1: WiFi": [(0, 2), (2.3, 7.5)],
        "plain: WiFi": [(0, 2), (7.6, 2.2)],
        "plain: 3G": [(0, 7.5)],
    }
    looks = {"with M1: WiFi": scheme("mptcp").colour, "plain: WiFi": CURVES[0], "plain: 3G": "#444444"}
    for place, (name, spans) in enumerate(rows.items()):
        axis.broken_barh(spans, (place - 0.3, 0.6), color=looks[name])
    axis.text(4.8, 1, "receive buffer full: idle", ha="center", va="center")
    axis.text(3.7, 2, "the oldest segment is on its way", ha="center", va="center", color="white")
    axis.text(2.4, 0, " M1 sends it again here", va="center")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_xticks([])
    axis.grid(False)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network from h1 to h2 by WiFi (s3) and by 3G (s4)."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "One stream over WiFi (s3) and 3G (s4)")


def draw_masses(axis: Axes, blocks: pd.DataFrame, **look: Any) -> None:
    """Draw the share of blocks in each 20 ms of latency, all repetitions together."""
    bins: dict[str, Any] = {"binwidth": 20.0, "stat": "probability", "element": "step", "fill": False}
    sns.histplot(x=blocks.latency_ms.to_numpy(), ax=axis, **bins, **{"linewidth": 1.4} | look)


def _draw_fig_7(axis: Axes, runs: Runs) -> None:
    for case, tier, look in shown(axis, runs, ways(), tiers=True):
        draw_masses(axis, runs.table("blocks", case, tier), **look)


def ways(start: str = "", names: Sequence[str] = ()) -> dict[str, Look]:
    """Return the cases for the ways of sending, with their looks."""
    return {start + name: {"label": name, "color": LOOKS[name]} for name in names or FIG7}


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the latencies of one run's blocks."""
    title = f"{case}: {reading['mean_ms']:.0f} ms in the mean, {reading['goodput_mbps']:.1f} Mb/s"
    figure, axis = new_figure(title, "latency of a block (ms)", "blocks (share of all, in each 20 ms)")
    draw_masses(axis, reading["blocks"])
    return figure


BOTH = "mptcp with M1 and M2"
FIG7 = ("mptcp", BOTH, "tcp over wifi", "tcp over 3g")
TOLD = "lost: mptcp that is told"
LOOKS = {
    "mptcp": scheme("mptcp").colour,
    BOTH: CURVES[6],
    "tcp over wifi": scheme("tcp").colour,
    "tcp over 3g": "#444444",
}
BLOCK, BLOCKS = "latency of a block (ms)", "blocks (share of all, in each 20 ms)"
MEAN = "mean latency of a block (ms)"
LOST = (1 / 3, 2 / 3)
M: dict[str, Any] = {"retransmits": True, "penalises": True}
HOW: dict[str, dict[str, Any]] = {
    "mptcp": {},
    BOTH: M,
    "tcp over wifi": {"networks": ("wifi",)},
    "tcp over 3g": {"networks": ("3g",)},
}


def _all(start: str, changes: dict[str, Any], *names: str) -> dict[str, dict[str, Any]]:
    return {f"{start}: {name}": HOW[name] | changes for name in names}


CLASS = {"receive_buffer_kb": CLASS_KB}
SWEEP = {
    "receive_buffer_kb": swept(*RECEIVE_BUFFERS_KB),
    "send_buffer_kb": LARGE_KB,
    "mobile_jitter_ms": 0.0,
    "follows_blocks": False,
}
EQUAL = {
    "mobile_mbps": lambda setting: setting.wifi_mbps,
    "mobile_round_trip_ms": lambda setting: setting.wifi_round_trip_ms,
    "mobile_buffer_ms": lambda setting: setting.wifi_buffer_ms,
    "mobile_jitter_ms": 0.0,
}
CASES: dict[str, dict[str, Any]] = {
    **HOW,
    **_all("class", CLASS, *FIG7),
    **_all("plenty", {"send_buffer_kb": PLENTY_KB, "receive_buffer_kb": PLENTY_KB}, "mptcp", BOTH),
    **_all("small send buffer", {"send_buffer_kb": SMALL_KB}, BOTH, "tcp over wifi"),
    **_all("large receive buffer", {"receive_buffer_kb": LARGE_KB}, "mptcp", BOTH),
    **_all("lost", {"lost": LOST, "follows_blocks": False}, "mptcp", BOTH, "tcp over wifi"),
    TOLD: {"lost": LOST, "told": True, "follows_blocks": False},
    **_all("fig 4", SWEEP, *FIG7),
    **_all("ratio", CLASS | {"wifi_mbps": swept(*WIFI_MBPS)}, *FIG7[:3]),
    **_all("equal paths", CLASS | {"wifi_mbps": swept(*WIFI_MBPS)} | EQUAL, BOTH),
}


def latest_first(share: pd.Series) -> list[str]:
    """Order the ratios of the rates by the share of late blocks, greatest first. Equal ones are in the reverse of the
    claim's order."""
    names = ("32", "16", "8", "4")
    return least_first(*names)(*(-late for late in share.iloc[::-1]))


ONE_BUFFER = {"own_buffers": False}  # Linux's MPTCP has no send buffer that we could set
KNOB = {"quick": Scale(10.0), "paper": Scale(100.0), "test": Scale(6.0)}
PROJECT_LOSS = 0.0075  # of WiFi in another class's project (2014)
ON_3G = ("mptcp", BOTH, "tcp over 3g")
HOLDS = {"send_buffer_kb": swept(100, 125, 160, 200), "receive_buffer_kb": lambda setting: setting.send_buffer_kb}
LOSSES = (0.0, 0.0025, 0.005, PROJECT_LOSS, 0.01)
ORDER = (BOTH, "tcp over wifi", "mptcp", "tcp over 3g")
_DELIVERED = {"table": "deliveries", "column": "delivered_bytes", "reduce": "most"}
PLAYED_S = 10.0
_SETTLED_S = settled_s(PLAYED_S)
_SENT = {"table": "links", "column": "sent_packets", "reduce": "sum"}
_PORTS = [["s1", switch] for switch in SWITCHES.values()]
LIVE = Live(
    {
        "goodput_mbps": Gauge(
            "goodput",
            "Mb/s",
            _DELIVERED | {"less": _DELIVERED | {"until_s": _SETTLED_S}, "times": 8e-6 / (PLAYED_S - _SETTLED_S)},
        ),
        "mobile_share": Gauge(
            "packets sent on 3G", "share", _SENT | {"port": _PORTS[1], "over": _SENT | {"port": _PORTS}}
        ),
        "repeated_share": Gauge(
            "packets sent again",
            "share",
            {"table": "flows", "column": "retransmitted_packets", "reduce": "sum", "over": _SENT | {"port": _PORTS}},
        ),
    },
    {"table": "deliveries", "column": "delivered_bytes", "times": 1e-6},
    "delivered in order (MB)",
    {"receive_buffer_kb": (16, 40, 100, 200, 400), "send_buffer_kb": (16, 40, 100, 200, 400)}
    | {"wifi_mbps": WIFI_MBPS, "wifi_loss": (0.0, 0.005, 0.02)},
    lambda _: ("s1", "s3"),
    broken={BOTH: "mptcp"},
)
STUDY = Study(
    slug="mptcp_wireless",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    profiles={
        "quick": Scale(15.0),
        "paper": Scale(100.0),
        "test": Scale(16.0, repetitions=2, only={"receive_buffer_kb": (50, 600), "wifi_mbps": WIFI_MBPS}),
    },
    on_virtual={
        "quick": Scale(20.0, repetitions=2, changes=ONE_BUFFER),
        "paper": Scale(100.0, changes=ONE_BUFFER),
        "test": Scale(16.0, repetitions=2, changes=ONE_BUFFER),
    },
    claims={
        "latency-order": Evidence(
            "mean_ms", ORDER, control=("mptcp", "tcp over wifi", "mptcp", "tcp over 3g"), how=least_first(*ORDER)
        ),
        "narrower-with-mechanisms": Evidence(
            "spread_ms",
            (BOTH, "mptcp"),
            control=(f"plenty: {BOTH}", "plenty: mptcp"),
            how=least_first(BOTH, "mptcp"),
        ),
        "send-buffer-slows-wifi": Evidence(
            "mean_ms",
            (BOTH, "tcp over wifi"),
            control=(f"small send buffer: {BOTH}", "small send buffer: tcp over wifi"),
            how=least_first(BOTH, "tcp over wifi"),
        ),
        "both-links-full": Evidence(
            "carried_share",
            f"fig 4: {BOTH}",
            control=Evidence("carried_share", f"fig 4: {BOTH}", how=itemgetter(50)),
            how=itemgetter(600),
        ),
        "never-below-wifi": Evidence(
            "goodput_mbps",
            (f"fig 4: {BOTH}", "fig 4: tcp over wifi"),
            control=("fig 4: mptcp", "fig 4: tcp over wifi"),
            how=lambda ours, wifi: (ours / wifi).min(),
        ),
        "ratio-32-as-wifi": Evidence(
            "mean_ms",
            (f"ratio: {BOTH}", "ratio: tcp over wifi"),
            control=("ratio: mptcp", "ratio: tcp over wifi"),
            how=lambda ours, wifi: ours.iloc[-1] / wifi.iloc[-1],
        ),
        "less-effective-with-ratio": Evidence(
            "late_share", f"ratio: {BOTH}", control=f"equal paths: {BOTH}", how=latest_first
        ),
        "trap-large-receive-buffer": Evidence(
            "mean_ms", (f"large receive buffer: {BOTH}", "large receive buffer: mptcp"), how=ratio
        ),
        "survives-loss-of-wifi": Evidence("progress_share", "lost: mptcp", control="lost: tcp over wifi"),
    },
    knobs={
        "changes": Knob(
            {
                "mptcp": {},
                "M1 alone": {"retransmits": True},
                "M2 alone": {"penalises": True},
                "M1 and M2": M,
                "M1 and M2, one buffer": M | ONE_BUFFER,
                "M1 and M2, 125 KB": M | {"send_buffer_kb": 125, "receive_buffer_kb": 125},
                "plain, CoDel on 3G": {"mobile_queue": "codel"},
                "M1 and M2, CoDel on 3G": M | {"mobile_queue": "codel"},
            },
            KNOB,
        ),
        # The class put its other shape of TCP over 3G down to jitter and loss, which the paper does not give.
        "jitter": Knob({name: HOW[name] | {"mobile_jitter_ms": swept(0.0, 25.0, 50.0, 100.0)} for name in ON_3G}, KNOB),
        "mobile_loss": Knob({name: HOW[name] | {"mobile_loss": swept(0.0, 0.005, 0.01, 0.02)} for name in ON_3G}, KNOB),
        # Kernel memory of 200 KB holds fewer data: 125 KB by one reading (data/mptcp_wireless/SOURCES.md).
        "memory": Knob({name: HOW[name] | HOLDS for name in FIG7}, KNOB),
        "wifi_loss": Knob({name: HOW[name] | CLASS | {"wifi_loss": swept(*LOSSES)} for name in FIG7[:3]}, KNOB),
    },
    figures={
        "fig7_latency": Picture(
            "Latency of 8 KB blocks (Fig. 7)",
            Panel(BLOCK, BLOCKS, _draw_fig_7, title="cut at 0.2 (TCP over WiFi goes on)", y_range=(0, 0.2)),
            Panel(BLOCK, BLOCKS, _draw_fig_7, title="the whole, logarithmic", log="y"),
        ),
        "fig4_goodput": plot(
            "Goodput over the receive buffer (Fig. 4)",
            "receive buffer (KB)",
            "goodput (Mb/s)",
            Sweep("receive_buffer_kb", "goodput_mbps", ways("fig 4: "), tiers=True),
            Level(lambda runs: runs.setting.carried_mbps, "both links full"),
            log="x",
        ),
        "control_plenty": Picture(
            "Broken on purpose: hardly anything is blocked",
            *(
                Panel(BLOCK, "share of blocks up to it", Distribution("blocks", "latency_ms", cases), title=title)
                for cases, title in (
                    (ways("", FIG7[:2]), "buffers of 200 KB"),
                    (ways("plenty: ", FIG7[:2]), f"buffers of {PLENTY_KB // KB} MB"),
                )
            ),
        ),
        "knob_changes": lambda runs: drawing.changes_figure(
            "One change at a time (buffers of 200 KB)",
            runs.knobs["changes"].assign(mean_s=lambda table: table.mean_ms / 1e3),
            "mean_s",
            "mean latency of a block (s)",
        ),
        "knob_mobile": Picture(
            "What the paper does not say: 3G's jitter and loss, and how many data the buffers hold",
            *(
                Panel(label, MEAN, Sweep(field, "mean_ms", knob, looks=ways(names=names)), log="y")
                for field, knob, names, label in (
                    ("mobile_jitter_ms", "jitter", ON_3G, "deviation of 3G's delay (ms)"),
                    ("mobile_loss", "mobile_loss", ON_3G, "loss on 3G (share)"),
                    ("send_buffer_kb", "memory", FIG7, "data in either buffer (KB)"),
                )
            ),
        ),
        "knob_wifi_loss": beside(
            f"A WiFi that loses packets (receive buffer of {CLASS_KB} KB)",
            "loss on WiFi (share)",
            {"mean_ms": MEAN, "mobile_share": "packets sent over 3G (share of all)"},
            lambda reading: Sweep("wifi_loss", reading, "wifi_loss", looks=ways(names=FIG7[:3])),
        ),
    },
    play=Play(
        FIG7,
        {
            "receive_buffer_kb": (16, 400, 8),
            "send_buffer_kb": (16, 400, 8),
            "wifi_mbps": [*WIFI_MBPS],
            "wifi_loss": (0.0, 0.02, 0.0025),
            "mobile_queue": ["drop tail", "codel"],
        },
        draw_run,
        PLAYED_S,
        LIVE,
    ),
)
