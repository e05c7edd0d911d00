"""One connection over WiFi and 3G: Raiciu et al., "How Hard Can It Be? Designing and Implementing a Deployable
Multipath TCP", NSDI 2012, section 4.2 and Figs 4 and 7.

A stream is spread over a fast path and a slow one with a long queue. What the slow one still holds blocks the buffer
that both share. Opportunistic retransmission (M1) sends it again on the fast one, penalisation (M2) halves the slow
one's window. An application that writes blocks feels it as latency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.mptcp.run import told_handover
from netrepro.emulation.virtual.deliveries import emulate_deliveries
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, CoDel, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate_deliveries
from netrepro.study import SIMULATED, VIRTUAL, Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first, ratio
from netrepro.study.figures import Course, Level, Look, Mark, Panel, Picture, Sweep, beside, plot, shown
from netrepro.study.setting import setting
from netrepro.style import CURVES, new_figure, scheme

KB = 1024
BLOCK_BYTES = 8 * KB
BIN_MS = 20.0
SWITCHES = {"wifi": "s3", "3g": "s4"}
WIRE = Link(1000, 0, DropTail(packets=10_000))
RECEIVE_BUFFERS_KB = (50, 100, 200, 400, 600, 1000)
WIFI_MBPS = (8.0, 16.0, 32.0, 64.0)  # 4, 8, 16 and 32 times the rate of 3G
CLASS_KB, LARGE_KB, PLENTY_KB, SMALL_KB = 32, 6 * 1024, 8 * 1024, 40
EVENTS_WITHOUT_BLOCKS = 32  # some milliseconds while packets flow; where they may stop every one counts


@dataclass(frozen=True)
class Setting:
    """Links as the class took them from the paper's other experiment; buffers of links in time at their rate.

    networks : one name for TCP, two for MPTCP with a subflow on each ("wifi" twice: both there). receive_buffer_kb : as
    large as the send buffer unless a case says otherwise, since the paper names only the latter. lost : shares of the
    run's time between which WiFi is down, or (). told : the path manager hears of that at once. mobile_queue : "drop
    tail" or "codel". own_buffers : the send buffer and the receive buffer are two, as in the authors' kernel; else the
    smaller one is both. follows_blocks : False where only goodput is asked for, which is faster.
    """

    wifi_mbps: float = 8.0
    wifi_round_trip_ms: float = 20.0
    wifi_buffer_ms: float = 80.0
    wifi_loss: float = 0.0
    mobile_mbps: float = 2.0
    mobile_round_trip_ms: float = 150.0
    mobile_buffer_ms: float = 2000.0
    mobile_jitter_ms: float = setting(50.0, "of 3G, each way: deviation of the delay", "ms", low=0, high=1000)
    mobile_queue: str = "drop tail"
    send_buffer_kb: int = setting(200, "of the application's socket", "KB", low=2, high=100_000)
    receive_buffer_kb: int = 200
    congestion_control: str = setting(
        "lia",
        "of the subflows (no olia, balia on the virtual kernel)",
        one_of=("lia", "olia", "balia", "reno", "cubic"),
    )
    networks: tuple[str, ...] = ("wifi", "3g")
    retransmits: bool = False
    penalises: bool = False
    lost: tuple[float, ...] = ()
    told: bool = False
    own_buffers: bool = False
    follows_blocks: bool = True

    @property
    def window_bytes(self) -> int:
        """The bytes that may be on their way. Bytes that are not acknowledged fill the send buffer, too."""
        return min(self.send_buffer_kb, self.receive_buffer_kb) * KB

    @property
    def carried_mbps(self) -> float:
        """Payload that both links can carry."""
        return (self.wifi_mbps + self.mobile_mbps) * 1448 / FULL_PACKET_BYTES


def buffer_packets(mbps: float, buffer_ms: float) -> int:
    """Return a link's buffer in packets of 1500 bytes, as the class has it: 54 for WiFi and 334 for 3G."""
    return max(1, math.ceil(bandwidth_delay_packets(mbps, buffer_ms, 1500)))


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: one endless stream from h1 to h2; s3 is WiFi, s4 is 3G: its rate and queue before it, its
    delay behind.

    Raises NetreproError for a network or queue of another name, and for buffers below a packet.
    """
    unknown = [name for name in setting.networks if name not in SWITCHES]
    if unknown or not setting.networks:
        raise NetreproError(f"networks {setting.networks!r}", f"name one or two of {', '.join(SWITCHES)}")
    if setting.mobile_queue not in ("drop tail", "codel"):
        raise NetreproError(f"a queue {setting.mobile_queue!r}", "give drop tail or codel")
    if min(setting.send_buffer_kb, setting.receive_buffer_kb) < 2:
        raise NetreproError("a buffer of less than a packet", "give 2 KB or more")
    wifi = buffer_packets(setting.wifi_mbps, setting.wifi_buffer_ms)
    mobile = buffer_packets(setting.mobile_mbps, setting.mobile_buffer_ms)
    queue = CoDel(packets=mobile) if setting.mobile_queue == "codel" else DropTail(packets=mobile)
    delayed = replace(WIRE, delay_ms=setting.mobile_round_trip_ms / 2, jitter_ms=setting.mobile_jitter_ms)
    network = Topology(
        (
            Cable("h1", "s1", WIRE),
            Cable("s1", "s3", Link(setting.wifi_mbps, 0, DropTail(packets=wifi), loss=setting.wifi_loss)),
            Cable("s3", "s2", replace(WIRE, delay_ms=setting.wifi_round_trip_ms / 2)),
            Cable("s1", "s4", Link(setting.mobile_mbps, 0, queue)),
            Cable("s4", "s2", delayed),
            Cable("s2", "h2", WIRE),
        )
    )
    paths = tuple(("h1", "s1", SWITCHES[name], "s2", "h2") for name in setting.networks)
    how: dict[str, Any] = {"path": paths[0]}
    if len(paths) > 1:
        how = {"subflows": len(paths), "subflow_paths": paths, "congestion_control": setting.congestion_control}
    buffers: dict[str, Any] = {"receive_window_bytes": setting.window_bytes}
    if setting.own_buffers:
        buffers = {
            "receive_window_bytes": setting.receive_buffer_kb * KB,
            "send_buffer_bytes": setting.send_buffer_kb * KB,
        }
    changes = zip(setting.lost, (False, True), strict=False)
    return Experiment(
        network,
        (Flow("h1", "h2", duration_s=seconds, **how),),
        seconds,
        seed,
        Measure(packets=tuple(port for switch in SWITCHES.values() for port in (("s2", switch), (switch, "s1")))),
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


def acknowledged(found: Measurements, delivered: pd.DataFrame) -> pd.DataFrame:
    """Compute when the sender learns what the receiver holds: time_s, acknowledged_bytes, a row for each
    acknowledgement.

    Each acknowledgement says what was held when it left. As networks keep the order of packets, the nth that left is
    the nth that came.
    """
    parts = []
    for switch in SWITCHES.values():
        left_s, came_s = (_times_s(found, *port) for port in (("s2", switch), (switch, "s1")))
        place = np.searchsorted(delivered.time_s, left_s[: len(came_s)], side="right")
        held = np.concatenate([[0], delivered.delivered_bytes])[place]
        parts.append(pd.DataFrame({"time_s": came_s, "acknowledged_bytes": held}))
    table = pd.concat(parts, ignore_index=True).sort_values("time_s", kind="stable", ignore_index=True)
    return table.assign(acknowledged_bytes=table.acknowledged_bytes.cummax())


def _times_s(found: Measurements, source: str, destination: str) -> np.ndarray:
    packets = found.packets
    return packets.time_s[(packets.source == source) & (packets.destination == destination)].to_numpy()


def block_latencies(delivered: pd.DataFrame, acknowledged: pd.DataFrame, send_buffer_bytes: int) -> pd.DataFrame:
    """Return a row for each block that was delivered: accepted_s, when its last byte had room in the send buffer, and
    latency_ms from then until all of it had arrived in order.

    The application writes whenever there is room, so the buffer always ends `send_buffer_bytes` beyond what is
    acknowledged. delivered : time_s, delivered_bytes. acknowledged : time_s, acknowledged_bytes. Both ascend.
    """
    total = delivered.delivered_bytes.max() if len(delivered) else 0
    ends = np.arange(BLOCK_BYTES, total + 1, BLOCK_BYTES)
    arrived_s = delivered.time_s.to_numpy()[np.searchsorted(delivered.delivered_bytes, ends)]
    known_s = np.concatenate([[0.0], acknowledged.time_s])
    known = np.concatenate([[0], acknowledged.acknowledged_bytes])
    accepted_s = known_s[np.searchsorted(known, np.maximum(0, ends - send_buffer_bytes))]
    return pd.DataFrame({"accepted_s": accepted_s, "latency_ms": (arrived_s - accepted_s) * 1e3})


def settled_s(seconds: float) -> float:
    """Return the time from which a run of `seconds` counts. By then the 3G queue of two seconds has met its first
    losses."""
    return min(10.0, seconds / 3)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure in one run what blocks waited, what was carried, and on which network.

    Raises NetreproError for tiers in real time.
    """
    # Linux's MPTCP has no send buffer that we could set.
    asked = experiment(replace(setting, own_buffers=setting.own_buffers and tier != VIRTUAL), seconds, seed)
    if tier == VIRTUAL and setting.told:
        return read_stream(told_handover(asked), setting, seconds)
    if tier == VIRTUAL:
        found, delivered, known = emulate_deliveries(asked)
        return read(found, delivered, setting, known if setting.follows_blocks else None)
    if tier != SIMULATED:
        raise NetreproError(f"block latencies on tier {tier!r}", f"take tier {SIMULATED!r} or {VIRTUAL!r}")
    events = 1 if setting.follows_blocks or setting.lost else EVENTS_WITHOUT_BLOCKS
    found, delivered = simulate_deliveries(asked, events=events)
    return read(found, delivered, setting, acknowledged(found, delivered) if setting.follows_blocks else None)


def cannot(setting: Setting, tier: str) -> str:
    """Say why the tier cannot run it beyond what the kernel refuses, or ""."""
    return "the simulator has no path manager that could be told" if setting.told and tier == SIMULATED else ""


def read_stream(delivered: pd.DataFrame, setting: Setting, seconds: float) -> Reading:
    """Read goodput_mbps once settled, carried_share (of what both links can), progress_share (of whole seconds without
    WiFi in which bytes arrived), without_wifi_mbps (in these seconds), longest_stall_s (without any byte, from the loss
    of WiFi on), all three NaN where it stays up, and a table seconds of the goodput over time."""
    begin_s, in_all = settled_s(seconds), _held(delivered, seconds)
    each_second = bytes_by_second(delivered, seconds)
    goodput_mbps = (in_all - _held(delivered, begin_s)) * 8e-6 / (seconds - begin_s)
    carried = in_all * 8e-6 / seconds / setting.carried_mbps
    numbers = {
        "goodput_mbps": goodput_mbps,
        "carried_share": goodput_mbps / setting.carried_mbps,
        "progress_share": progress_share(each_second, setting, seconds),
        "without_wifi_mbps": float(without_wifi(each_second, setting, seconds).goodput_mbps.mean()),
        "longest_stall_s": longest_stall_s(delivered, setting, seconds),
    }
    within = Check("delivered of what both links carry (share)", carried, at_most=1.001)
    return Reading(numbers, {"seconds": each_second}, [within])


def read(found: Measurements, delivered: pd.DataFrame, setting: Setting, known: pd.DataFrame | None = None) -> Reading:
    """Read what `read_stream` reads, mobile_share (of packets sent on 3G) and repeated_share (of packets sent again);
    where blocks are followed, also what `read_blocks` reads.

    known : what the sender learned and when, where blocks are followed.
    """
    stream = read_stream(delivered, setting, found.experiment.duration_s)
    sent = found.links.set_index(["source", "destination"]).sent_packets
    wifi, mobile = (sent["s1", switch] for switch in SWITCHES.values())
    counted = max(1, int(found.flows.delivered_bytes.sum()))
    blocks = Reading() if known is None else read_blocks(found, delivered, setting, known)
    held = Check("delivered / counted by the receiver", delivered.delivered_bytes.max() / counted, 0.99, 1.01)
    numbers = {
        "mobile_share": float(mobile / max(1, wifi + mobile)),
        "repeated_share": float(found.flows.retransmitted_packets.sum() / max(1, wifi + mobile)),
    }
    return replace(stream | Reading(numbers, checks=[held]) | blocks, fidelity=found.fidelity)


def read_blocks(found: Measurements, delivered: pd.DataFrame, setting: Setting, known: pd.DataFrame) -> Reading:
    """Read the latencies of blocks accepted once settled: mean_ms, percentiles, spread_ms (10th to 90th), late_share
    (beyond twice the median), and their table."""
    every = block_latencies(delivered, known, setting.send_buffer_kb * KB)
    blocks = every[every.accepted_s >= settled_s(found.experiment.duration_s)].reset_index(drop=True)
    latency = blocks.latency_ms.to_numpy() if len(blocks) else np.array([np.nan])
    low, median, high, last = np.percentile(latency, (10, 50, 90, 99))
    ports = found.links.set_index(["source", "destination"])
    backward = [ports.loc[port] for port in found.experiment.measure.packets]
    numbers = {
        "mean_ms": float(latency.mean()),
        "p10_ms": float(low),
        "median_ms": float(median),
        "p90_ms": float(high),
        "p99_ms": float(last),
        "spread_ms": float(high - low),
        "late_share": float((latency > 2 * median).mean()),
    }
    checks = [
        Check("acknowledgements lost", float(sum(p.dropped_packets + p.lost_packets for p in backward)), at_most=0),
        Check("acknowledged beyond delivered (bytes)", _beyond(known, delivered), at_most=0.0),
        Check("blocks that arrived before they were accepted", float((every.latency_ms < 0).sum()), at_most=0.0),
    ]
    return Reading(numbers, {"blocks": blocks}, checks)


def _held(delivered: pd.DataFrame, time_s: float) -> int:
    place = int(np.searchsorted(delivered.time_s, time_s, side="right"))
    return int(delivered.delivered_bytes.iloc[place - 1]) if place else 0


def _beyond(known: pd.DataFrame, delivered: pd.DataFrame) -> float:
    """Compute by how much the sender thinks more arrived than did, at most (bytes)."""
    place = np.searchsorted(delivered.time_s, known.time_s, side="right")
    held = np.concatenate([[0], delivered.delivered_bytes])[place]
    return float(np.max(known.acknowledged_bytes.to_numpy() - held, initial=0))


def bytes_by_second(delivered: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Compute what arrived in every whole second: second, goodput_mbps."""
    ends = np.arange(math.floor(seconds) + 1, dtype=float)
    held = np.array([_held(delivered, end) for end in ends])
    return pd.DataFrame({"second": ends[:-1], "goodput_mbps": np.diff(held) * 8e-6})


def longest_stall_s(delivered: pd.DataFrame, setting: Setting, seconds: float) -> float:
    """Compute the longest time without any byte, from the loss of WiFi on (s); NaN where WiFi is never lost."""
    if not setting.lost:
        return math.nan
    down_s = setting.lost[0] * seconds
    times_s = delivered.time_s.to_numpy()
    return float(np.diff(np.concatenate([[down_s], times_s[times_s > down_s], [seconds]])).max())


def without_wifi(each_second: pd.DataFrame, setting: Setting, seconds: float) -> pd.DataFrame:
    """Return the rows of whole seconds without WiFi; none where it is never lost."""
    down_s, up_s = (share * seconds for share in setting.lost or (1.0, 1.0))
    return each_second[(each_second.second >= down_s) & (each_second.second + 1 <= up_s)]


def progress_share(each_second: pd.DataFrame, setting: Setting, seconds: float) -> float:
    """Compute the share of the whole seconds without WiFi in which bytes arrived; NaN where WiFi is never lost."""
    if not setting.lost:
        return math.nan
    return float((without_wifi(each_second, setting, seconds).goodput_mbps > 0).mean())


def masses(latency_ms: pd.Series, bin_ms: float = BIN_MS) -> tuple[np.ndarray, np.ndarray]:
    """Return (edges, share of the blocks in each bin); shares add up to 1, or are one 0 where there is no block."""
    edges = np.arange(0, (latency_ms.max() if len(latency_ms) else 0.0) + 2 * bin_ms, bin_ms)
    counts, _ = np.histogram(latency_ms, edges)
    return edges, counts / max(1, counts.sum())


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    tables = {tier: runs.summary(tier).groupby("case", sort=False).first() for tier in runs.tiers}
    found = {name: tables[tier].loc[name] for name, tier in _where(runs, FIG7).items()}
    plain, both, wifi, mobile = (found[name] for name in FIG7)
    of_class = tables[runs.tier].loc["class: mptcp"]
    whose = "plain MPTCP" if runs.tier == SIMULATED else "Linux's MPTCP"
    how = "with M1 and M2" if runs.has(BOTH) else "with M1 and M2 in the simulator"
    return (
        f"A block takes {plain.mean_ms:.0f} ms in the mean with {whose} and {both.mean_ms:.0f} ms {how} "
        f"(TCP over WiFi {wifi.mean_ms:.0f}, over 3G {mobile.mean_ms:.0f}); with the class's receive buffer of "
        f"{CLASS_KB} KB it takes {of_class.mean_ms:.0f} ms, and 3G carries {100 * of_class.mobile_share:.1f} % of the "
        "packets."
    )


def _where(runs: Runs, cases: Iterable[str]) -> dict[str, str]:
    """Choose the tier that shows each case: the one asked for, else the simulator. Cases that none has run are left
    out."""
    tiers = {case: next((tier for tier in runs.tiers if runs.has(case, tier=tier)), "") for case in cases}
    return {case: tier for case, tier in tiers.items() if tier}


# Figures.


def draw_idea() -> Figure:
    """Draw one missing segment on 3G, and what the shared buffer does meanwhile; not to scale."""
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


def draw_masses(axis: Axes, table: pd.DataFrame, bin_ms: float = BIN_MS, **look: Any) -> None:
    """Draw the share of blocks in each bin, all repetitions together."""
    edges, shares = masses(table.latency_ms, bin_ms)
    axis.stairs(shares, edges, **{"linewidth": 1.4} | look)


def _masses(start: str, names: Sequence[str], bin_ms: float = BIN_MS) -> Mark:
    def draw(axis: Axes, runs: Runs) -> None:
        for case, tier, look in shown(axis, runs, ways(start, names), tiers=True):
            draw_masses(axis, runs.table("blocks", case, tier), bin_ms, **look)

    return draw


def ways(start: str = "", names: Sequence[str] = ()) -> dict[str, Look]:
    """Return the cases of the ways to send, with their looks."""
    return {start + name: {"label": name, "color": LOOKS[name]} for name in names or FIG7}


def _over_loss(reading: str) -> Sweep:
    return Sweep("loss_percent", reading, _by_loss_percent, looks=ways(names=FIG7[:3]))


def _by_loss_percent(runs: Runs) -> pd.DataFrame:
    return runs.knobs["wifi_loss"].assign(loss_percent=lambda table: 100 * table.wifi_loss)


def _draw_outage(axis: Axes, runs: Runs) -> None:
    down_s, up_s = (share * runs.seconds for share in LOST)
    axis.axvspan(down_s, up_s, color="#eeeeee", label="WiFi is down")


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw how long the blocks of one run took."""
    title = f"{case}: {reading['mean_ms']:.0f} ms in the mean, {reading['goodput_mbps']:.1f} Mb/s"
    figure, axis = new_figure(title, "latency of a block (ms)", "blocks (share of all, in each 20 ms)")
    draw_masses(axis, reading["blocks"])
    return figure


MEAN, ON_3G = "mean latency of a block (ms)", "packets sent over 3G (share of all)"
BOTH = "mptcp with M1 and M2"
FIG7 = ("mptcp", BOTH, "tcp over wifi", "tcp over 3g")
TOLD = "lost: mptcp that is told"
LOOKS = {
    "mptcp": scheme("mptcp").colour,
    BOTH: CURVES[6],
    "tcp over wifi": scheme("tcp").colour,
    "tcp over 3g": "#444444",
    TOLD.removeprefix("lost: "): CURVES[3],
}
AT_HANDOVER = (*FIG7[:3], TOLD.removeprefix("lost: "))
BLOCK, BLOCKS = "latency of a block (ms)", "blocks (share of all, in each 20 ms)"
RATE = "rate of WiFi (Mb/s; 2 for 3G)"
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


def _equal_buffers(setting: Setting) -> int:
    return setting.receive_buffer_kb


CLASS = {"receive_buffer_kb": CLASS_KB}
SWEEP = {
    "receive_buffer_kb": each(*RECEIVE_BUFFERS_KB),
    "send_buffer_kb": _equal_buffers,
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
    **_all("all on wifi", {"receive_buffer_kb": LARGE_KB, "networks": ("wifi", "wifi")}, "mptcp", BOTH),
    **_all("large receive buffer", {"receive_buffer_kb": LARGE_KB, "own_buffers": True}, "mptcp", BOTH),
    **_all("lost", {"lost": LOST, "follows_blocks": False}, "mptcp", BOTH, "tcp over wifi"),
    TOLD: {"lost": LOST, "told": True, "follows_blocks": False},
    **_all("fig 4", SWEEP, *FIG7),
    **_all("ratio", CLASS | {"wifi_mbps": each(*WIFI_MBPS)}, *FIG7[:3]),
    **_all("equal paths", CLASS | {"wifi_mbps": each(*WIFI_MBPS)} | EQUAL, BOTH),
}


def at_600(share: pd.Series) -> float:
    return float(share[600])


def at_50(share: pd.Series) -> float:
    return float(share[50])


def least_ratio(ours: pd.Series, wifi: pd.Series) -> float:
    return float((ours / wifi).min())


def at_ratio_32(ours: pd.Series, wifi: pd.Series) -> float:
    return float(ours.iloc[-1] / wifi.iloc[-1])


def latest_first(share: pd.Series) -> list[str]:
    """Order the ratios of the rates by how many blocks are late. What is equal stands in the reverse of the claim's
    order."""
    names = ("32", "16", "8", "4")
    return least_first(*names)(*(-late for late in share.iloc[::-1]))


KNOB = {"quick": Scale(10.0), "paper": Scale(100.0), "test": Scale(6.0)}
PROJECT_LOSS = 0.0075  # of WiFi in another class's project (2014)
LOSSES = (0.0, 0.0025, 0.005, PROJECT_LOSS, 0.01)
ORDER = (BOTH, "tcp over wifi", "mptcp", "tcp over 3g")
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
    on_virtual={"quick": Scale(20.0, repetitions=2)},
    claims={
        "latency-order": Evidence(
            "mean_ms",
            ORDER,
            control=("mptcp", "tcp over wifi", "mptcp", "tcp over 3g"),
            how=least_first(*ORDER),
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
            control=Evidence("carried_share", f"fig 4: {BOTH}", how=at_50),
            how=at_600,
        ),
        "never-below-wifi": Evidence(
            "goodput_mbps",
            (f"fig 4: {BOTH}", "fig 4: tcp over wifi"),
            control=("fig 4: mptcp", "fig 4: tcp over wifi"),
            how=least_ratio,
        ),
        "ratio-32-as-wifi": Evidence(
            "mean_ms",
            (f"ratio: {BOTH}", "ratio: tcp over wifi"),
            control=("ratio: mptcp", "ratio: tcp over wifi"),
            how=at_ratio_32,
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
                "plain, CoDel on 3G": {"mobile_queue": "codel"},
                "M1 and M2, CoDel on 3G": M | {"mobile_queue": "codel"},
                "plain, OLIA": {"congestion_control": "olia"},
                "M1 and M2, OLIA": M | {"congestion_control": "olia"},
                "plain, BALIA": {"congestion_control": "balia"},
                "M1 and M2, BALIA": M | {"congestion_control": "balia"},
            },
            KNOB,
        ),
        "wifi_loss": Knob({name: HOW[name] | CLASS | {"wifi_loss": each(*LOSSES)} for name in FIG7[:3]}, KNOB),
        "ratio": Knob(
            {name: HOW[name] | CLASS | {"wifi_loss": PROJECT_LOSS, "wifi_mbps": each(*WIFI_MBPS)} for name in FIG7[:3]},
            KNOB,
        ),
    },
    figures={
        "fig7_latency": Picture(
            "Latency of 8 KB blocks (Fig. 7)",
            Panel(BLOCK, BLOCKS, _masses("", FIG7), title="cut at 0.2 (TCP over WiFi goes on)", y_range=(0, 0.2)),
            Panel(BLOCK, BLOCKS, _masses("", FIG7), title="the whole, logarithmic", log="y"),
        ),
        "fig4_goodput": plot(
            "Goodput over the buffers (Fig. 4)",
            "receive buffer (KB)",
            "goodput (Mb/s)",
            Sweep("receive_buffer_kb", "goodput_mbps", ways("fig 4: "), tiers=True),
            Level(lambda runs: runs.setting.carried_mbps, "both links full"),
            log="x",
        ),
        "handover": plot(
            "WiFi is lost and comes back",
            "time (s)",
            "goodput (Mb/s)",
            _draw_outage,
            Course("seconds", "goodput_mbps", ways("lost: ", AT_HANDOVER), x="second", step=True, tiers=True),
        ),
        "control_plenty": Picture(
            "Broken on purpose: hardly anything is blocked",
            Panel(BLOCK, BLOCKS, _masses("", FIG7[:2]), title="buffers of 200 KB"),
            Panel(
                BLOCK,
                "blocks (share of all, in each 200 ms)",
                _masses("plenty: ", FIG7[:2], 10 * BIN_MS),
                title=f"buffers of {PLENTY_KB // 1024} MB",
            ),
        ),
        "knob_changes": lambda runs: drawing.changes_figure(
            "One change at a time (buffers of 200 KB)",
            runs.knobs["changes"].assign(mean_s=lambda table: table.mean_ms / 1e3),
            "mean_s",
            "mean latency of a block (s)",
        ),
        "knob_wifi_loss": beside(
            f"A WiFi that loses packets (receive buffer of {CLASS_KB} KB)",
            "loss on WiFi (%)",
            {"mean_ms": MEAN, "mobile_share": ON_3G},
            _over_loss,
        ),
        "class_ratios": Picture(
            f"The class's ratios ({CLASS_KB} KB)",
            Panel(
                RATE,
                MEAN,
                Sweep("wifi_mbps", "mean_ms", ways("ratio: ", FIG7[:3]), tiers=True),
                title="no loss: curves of one tier are one",
                log="x",
            ),
            Panel(
                RATE,
                MEAN,
                Sweep("wifi_mbps", "mean_ms", "ratio", looks=ways(names=FIG7[:3])),
                title=f"WiFi loses {100 * PROJECT_LOSS:g} % (simulated)",
                log="x",
            ),
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
    ),
)
