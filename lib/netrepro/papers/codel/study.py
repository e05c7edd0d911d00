"""CoDel: Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 10(5) and CACM 55(7), 2012.

CoDel tells a standing queue from a passing burst by the least wait of recent packets. Long CUBIC flows and web traffic
cross one link with CoDel, RED or drop tail: at a fixed rate from 128 kb/s to 100 Mb/s (Figs 5, 6, 8 and 9), or at one
that changes by two orders of magnitude (Fig. 7). The consumer edge is in `edge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import (
    FULL_PACKET_BYTES,
    CoDel,
    DropTail,
    FqCoDel,
    Link,
    Queue,
    Red,
    bandwidth_delay_packets,
)
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.networks.workloads import Datagrams, Flow, Tcp, Traffic
from netrepro.papers.codel import edge
from netrepro.papers.codel.edge import EDGE_CODEL, EDGE_TAIL
from netrepro.papers.codel.packmime import responses
from netrepro.study import (
    DROPPED_PACKETS,
    Check,
    Evidence,
    Gauge,
    Knob,
    Live,
    Part,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    gap_checks,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, least_first, ratio
from netrepro.study.figures import Course, Level, Look, Mark, Panel, Picture, Sweep
from netrepro.study.live import WAIT
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure

PORT, BACK = ("s1", "s2"), ("s2", "s1")
FTPS = 4
PAIRS = [(f"h{i}", f"h{i + FTPS}") for i in range(1, FTPS + 1)]
WIDE = DropTail(packets=10_000)
SENDERS = tuple(f"h{i}" for i in range(1, FTPS + 1))
ACCESS = tuple((host, PORT[0]) for host in SENDERS)
ACCESS_BACK = tuple((f"h{i + FTPS}", BACK[0]) for i in range(1, FTPS + 1))
HEADERS_BYTES = FULL_PACKET_BYTES - 1448
SCHEDULE_MBPS = (100.0, 10.0, 1.0, 50.0, 1.0, 100.0)  # each for a sixth of the run
FALLS = (1, 2, 4)  # indices in the schedule where the rate falls
NS2_MEAN_PACKET_BYTES = 500  # ns-2.35's default for RED, which neither article nor script changes
BIN_S = 0.1  # bins of the delay over time


@dataclass(frozen=True)
class Line:
    """The shared link. Delays and windows are those of the authors' script (codel.tcl).

    queue : "codel", "fq_codel", "red" or "drop tail". reentry : CoDel's variant, see networks.queues.CoDel; the default
    is that of the authors' simulations. buffer_packets : 0 for eight times the product of rate and round trip, at least
    50. packet_bytes : on the wire. red : "ns2", or "linux", which has neither gentle nor wait. least_bytes : CoDel
    drops nothing while at most this much waits; 0 for one packet. Linux uses its device's largest packet.
    """

    rate_mbps: float = 10.0
    round_trip_ms: float = 100.0
    queue: str = "codel"
    target_ms: float = parameter(5.0, "a wait that may stand", "ms", low=0.1, high=10_000)
    interval_ms: float = parameter(100.0, "for how long it may be exceeded", "ms", low=1, high=10_000)
    reentry: str = "ns2_2012"
    buffer_packets: int = 0
    packet_bytes: int = FULL_PACKET_BYTES
    web_per_s: float = 0.0
    red: str = "ns2"
    least_bytes: int = 0

    @property
    def path_packets(self) -> int:
        """The product of rate and round trip in packets, at least one."""
        return max(1, round(bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)))

    @property
    def buffer(self) -> int:
        """The packets that fit in the buffer."""
        return self.buffer_packets or max(50, 8 * self.path_packets)


@dataclass(frozen=True)
class Setting(Line):
    """Section "Simulation experiments": a link of fixed rate, for `static_s`.

    udp_share : in place of long flows, datagrams at this multiple of the rate. count_drops : record arrivals at the
    link too, which show whose packets it drops.
    """

    udp_share: float = 0.0
    static_s: float = 10.0
    count_drops: bool = False


@dataclass(frozen=True)
class Dynamic(Line):
    """Section "Performance on dynamic links": the rate follows SCHEDULE_MBPS. The rest as in Setting."""

    rate_mbps: float = SCHEDULE_MBPS[0]
    buffer_packets: int = 830
    web_per_s: float = 5.0
    udp_share: float = 0.0
    count_drops: bool = False


@dataclass(frozen=True)
class Edge(Line):
    """A consumer edge of `edge_mbps`, with its own traffic and the queue in both directions; it runs for `edge_s`."""

    buffer_packets: int = 13  # 100 ms at the link's rate
    web_per_s: float = 2.0
    edge_mbps: float = edge.RATES[0]
    edge_s: float = 300.0


QUEUES = ("codel", "fq_codel", "red", "drop tail")


def queue_of(setting: Line) -> Queue:
    """Make the queue before the link. Raises NetreproError, with the nearest name, for an unknown queue."""
    if setting.queue not in QUEUES:
        raise NetreproError(f"queue = {setting.queue!r}", nearest(setting.queue, QUEUES))
    times = (setting.target_ms, setting.interval_ms)
    if setting.queue == "codel":
        least_bytes = setting.least_bytes or setting.packet_bytes
        return CoDel(setting.buffer, *times, variant=setting.reentry, least_bytes=least_bytes)
    if setting.queue == "fq_codel":
        variant = "linux" if setting.reentry == "linux" else "rfc8290"
        return FqCoDel(setting.buffer, *times, ecn=False, quantum_bytes=setting.packet_bytes, variant=variant)
    if setting.queue == "red":
        # A kernel's average of so many small packets would overflow its 32 bits; it counts packets of the link's size.
        is_linux = setting.red == "linux"
        unit = setting.packet_bytes if is_linux else NS2_MEAN_PACKET_BYTES
        ours = Red.self_configured(setting.rate_mbps, setting.buffer, adaptive=False, mean_packet_bytes=unit)
        return replace(ours, by_bytes=False, gentle=False, wait=False, variant="linux") if is_linux else ours
    return DropTail(packets=setting.buffer)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a link of fixed rate."""
    watched = Measure(packets=(PORT, *ACCESS) if setting.count_drops else (PORT,))
    traffic = long_flows(setting, setting.static_s, setting.udp_share)
    return Experiment(network(setting), traffic, setting.static_s, seed, watched, tcp_of(setting))


def dynamic_experiment(setting: Dynamic, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a link whose rate changes."""
    watched = Measure((PORT,), packets=(PORT, *ACCESS)) if setting.count_drops else Measure(packets=(PORT,))
    dwell_s = seconds / len(SCHEDULE_MBPS)
    changes = tuple(LinkChange(dwell_s * at, *PORT, rate_mbps=rate) for at, rate in enumerate(SCHEDULE_MBPS) if at > 0)
    traffic = long_flows(setting, seconds, setting.udp_share)
    return Experiment(network(setting), traffic, seconds, seed, watched, tcp_of(setting), changes=changes)


def edge_experiment(setting: Edge, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a consumer edge, where acknowledgements use much of the link."""
    watched = Measure(packets=(PORT, BACK, *ACCESS, *ACCESS_BACK))
    traffic = tuple(edge.traffic(PAIRS, setting.web_per_s, setting.edge_s))
    at_both = network(setting, queue_of(setting))
    tcp = replace(tcp_of(setting), slow_start_after_idle=False)  # TCP/Linux of ns-2 sends its old window after a pause
    return Experiment(at_both, traffic, setting.edge_s, seed, watched, tcp)


def network(setting: Line, back: Queue = WIDE) -> Topology:
    """Build four pairs over one link. One way, each access link takes a fifth of the round trip and the shared link a
    tenth; the pairs' access delays differ by a millisecond. back : the shared link's queue on the way back."""
    access_ms, delay_ms = setting.round_trip_ms / 5, setting.round_trip_ms / 10
    cables = [
        host_cable(f"h{i + far}", f"s{2 if far else 1}", Link(10 * setting.rate_mbps, access_ms + (0 if far else i)))
        for far in (0, FTPS)
        for i in range(1, FTPS + 1)
    ]
    ways = (Link(setting.rate_mbps, delay_ms, queue) for queue in (queue_of(setting), back))
    return Topology((*cables, Cable(*PORT, *ways)), "dumbbell of 4 pairs")


def tcp_of(setting: Line) -> Tcp:
    """Return the hosts' TCP, which acknowledges every packet, as in the authors' script."""
    return Tcp(
        initial_window_segments=4,
        segment_bytes=setting.packet_bytes - HEADERS_BYTES,
        receive_window_bytes=max(2**16, 16 * setting.path_packets * setting.packet_bytes),
        delayed_ack_ms=0.0,
        hystart=False,  # newer than the simulator's TCP
        syn_linear_timeouts=0,
    )


def long_flows(setting: Line, seconds: float, udp_share: float) -> tuple[Traffic, ...]:
    """Make a long flow of each pair, or datagrams at a multiple of the rate, and web traffic."""
    traffic: list[Traffic] = [Flow(*pair, duration_s=seconds, label="long") for pair in PAIRS]
    if udp_share:
        rate = udp_share * setting.rate_mbps
        traffic = [Datagrams(*PAIRS[0], rate, seconds, packet_bytes=setting.packet_bytes, label="unresponsive")]
    if setting.web_per_s:
        sources, destinations = zip(*PAIRS, strict=True)
        traffic.append(responses(setting.web_per_s, seconds, sources, destinations))
    return tuple(traffic)


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_line` reads from a quarter of the run on, after slow start. With count_drops, also read the
    number of drops and their fairness by source (Fig. 9)."""
    since_s = run.experiment.duration_s / 4
    of_line, _ = read_line(run, setting, setting.rate_mbps, since_s)
    numbers = {}
    if setting.count_drops:
        drops = edge.drops_by_source(run, PORT, setting.rate_mbps, since_s)
        numbers = {"drop_fairness": edge.fairness(drops), "dropped": int(drops.dropped.sum())}
    return of_line | Reading(numbers, checks=gap_checks(run, PORT))


def read_dynamic(run: Measurements, setting: Dynamic) -> Reading:
    """Read what `read_line` reads, the first drop after a fall of the rate (ms) and, for each tenth of a second, delay
    and megabytes so far."""
    of_line, course = read_line(run, setting, float(np.mean(SCHEDULE_MBPS)))
    first_drop_ms = max(first_drops_ms(run)) if setting.count_drops else np.nan
    return of_line | Reading({"first_drop_ms": first_drop_ms}, {"course": course})


def read_edge(run: Measurements, setting: Edge) -> Reading:
    """Read what `read_line` reads, and the table `edge`."""
    of_line, _ = read_line(run, setting, setting.rate_mbps)
    ports = dict(zip(edge.DIRECTIONS, (PORT, BACK), strict=True))
    return of_line | Reading({}, {"edge": edge.read(run, ports, setting.edge_mbps)})


def read_line(run: Measurements, setting: Line, mean_mbps: float, since_s: float = 0.0) -> tuple[Reading, pd.DataFrame]:
    """Read the wait of packets that left the port (median, upper quartile, ms; greatest, s), 95th percentile of the
    delay over time (ms), utilisation, megabytes sent, share dropped. Return the table `over_time`, too."""
    seconds = run.experiment.duration_s
    packets = run.packets[(run.packets.time_s >= since_s) & (run.packets.source == PORT[0])]
    link = run.links_by_port.loc[PORT]
    capacity_mb = mean_mbps * (seconds - since_s) / 8
    sent_mb = packets.size_bytes.sum() / 1e6
    course = over_time(packets, since_s, seconds)
    numbers: dict[str, float] = {
        "median_ms": float(packets.wait_ms.median()),
        "upper_quartile_ms": float(packets.wait_ms.quantile(0.75)),
        "p95_time_ms": float(course.mean_ms.quantile(0.95)),
        "greatest_s": float(packets.wait_ms.max()) / 1e3,
        "utilisation": sent_mb / capacity_mb,
        "sent_mb": float(sent_mb),
        "drop_share": float(link.dropped_packets / (link.dropped_packets + link.sent_packets)),
    }
    # Without the first packet, which began earlier. A link's clock may be 100 parts in a million fast.
    share = (sent_mb - setting.packet_bytes / 1e6) / capacity_mb
    within = Check("bytes sent over what the link could", share, at_most=1.001)
    return Reading(numbers, checks=[within]), course


def over_time(packets: pd.DataFrame, since_s: float, until_s: float) -> pd.DataFrame:
    """Return a row for each tenth of a second (BIN_S): time_s at its beginning, mean and greatest wait (ms; 0 where no
    packet left), and sent_mb, the megabytes sent so far."""
    count = max(1, round((until_s - since_s) / BIN_S))
    place = np.minimum(((packets.time_s - since_s) / BIN_S).astype(int), count - 1)
    rows = packets.groupby(place).agg(
        mean_ms=("wait_ms", "mean"), greatest_ms=("wait_ms", "max"), mb=("size_bytes", "sum")
    )
    rows = rows.reindex(range(count), fill_value=0)
    return pd.DataFrame(
        {
            "time_s": since_s + BIN_S * np.arange(count),
            "mean_ms": rows.mean_ms.to_numpy(),
            "greatest_ms": rows.greatest_ms.to_numpy(),
            "sent_mb": rows.mb.cumsum().to_numpy() / 1e6,
        }
    )


def drops_over_time(run: Measurements) -> pd.DataFrame:
    """Count the packets dropped by the port up to each sample of its queue: all arrivals, less those that began to
    leave and those that wait. Columns time_s, drops. Needs a dynamic link, whose access ports are recorded."""
    packets, queue = run.packets, run.queues
    came = packets[packets.destination == PORT[0]]
    delay_ms = came.source.map({host: run.experiment.topology.link(host, PORT[0]).delay_ms for host in SENDERS})
    came_s = np.sort((came.time_s + delay_ms / 1e3).to_numpy())
    left = packets[packets.source == PORT[0]]
    dwell_s = run.experiment.duration_s / len(SCHEDULE_MBPS)
    place = np.minimum((left.time_s / dwell_s).astype(int), len(SCHEDULE_MBPS) - 1)
    began_s = np.sort((left.time_s - left.size_bytes * 8e-6 / np.array(SCHEDULE_MBPS)[place]).to_numpy())
    at = queue.time_s.to_numpy()
    gone = np.searchsorted(came_s, at, "right") - np.searchsorted(began_s, at, "right")
    drops = gone - queue.queue_packets.to_numpy()
    return pd.DataFrame({"time_s": at, "drops": np.minimum.accumulate(drops[::-1])[::-1]})  # a count never falls


def first_drops_ms(run: Measurements) -> list[float]:
    """Measure the time from each fall of the rate to the port's first drop (ms), to the precision of the queue's
    samples (10 ms). Without a drop, it is the time to the next change."""
    dwell_s, drops = run.experiment.duration_s / len(SCHEDULE_MBPS), drops_over_time(run)
    first = []
    for fall in FALLS:
        rows = drops[(drops.time_s >= fall * dwell_s) & (drops.time_s < (fall + 1) * dwell_s)]
        later = rows.time_s[rows.drops > rows.drops.iloc[0]]
        first.append(float(later.min() - fall * dwell_s if len(later) else dwell_s) * 1e3)
    return first


# Functions that claims apply to readings, Series indexed by rate, round trip or packet size.


def utilisation_below_500_ms(utilisation: pd.Series) -> float:
    return float(utilisation[utilisation.index.get_level_values("round_trip_ms") < 500].mean())


def of_utilisations(ours: pd.Series, baseline: pd.Series) -> float:
    return utilisation_below_500_ms(ours) / utilisation_below_500_ms(baseline)


def by_fast_utilisation(*names: str) -> Callable[..., list[str]]:
    order = greatest_first(*names)
    return lambda *series: order(*(each[each.index.get_level_values("rate_mbps") >= 10].mean() for each in series))


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case").mean()
    ours, tail, short = (table.loc[name] for name in (DYNAMIC_CODEL, DYNAMIC_TAIL, TEN_PACKETS))
    return (
        f"Where the rate changes between 1 and 100 Mb/s, half of the packets wait for less than {ours.median_ms:.1f} "
        f"ms with CoDel and for {tail.median_ms:.0f} ms or more with drop tail (at worst {tail.greatest_s:.0f} s); "
        f"CoDel carries {ours.sent_mb / tail.sent_mb:.0%} of drop tail's bytes, a buffer of 10 packets "
        f"{short.sent_mb / tail.sent_mb:.0%}."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw two queues that are both never empty for long: one that drains within a round trip, one that stays."""
    names = ["good: a burst, gone within a round trip", "bad: a standing queue"]
    figure, axes = drawing.panels("Which queue should go? (not to scale)", "time (round trips)", "wait (ms)", names)
    time = np.linspace(0, 6, 1201)
    waits = [np.clip(24 - 30 * (time % 1), 0, None), np.clip(24 - 30 * time, 14 + 1.5 * np.sin(12 * time), None)]
    for axis, wait in zip(axes, waits, strict=True):
        least = [wait[(time > now - 1) & (time <= now)].min() for now in time]
        axis.plot(time, wait, color=CURVES[0], label="wait of each packet")
        axis.plot(time, least, color=CURVES[1], label="least wait of the last interval")
        axis.axhline(5, color="#444444", linestyle=":", label="target (5 ms)")
        axis.set_ylim(0, 30)
    axes[1].legend(loc="upper right")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw four pairs over the dynamic link at its first rate."""
    dynamic = dynamic_experiment(STUDY.case(DYNAMIC_CODEL, setting), 60.0, 1)
    return drawing.draw_network(dynamic, "Four pairs share one link")


def _delay_and_utilisation(title: str, label: str, sweep: Callable[[str], Mark], *marks: Mark) -> Picture:
    """Show the median delay, with the target, and the utilisation."""
    target = Level(5.0, "target: 5 ms")
    return Picture(
        title,
        Panel(label, "median delay (ms)", sweep("median_ms"), target, *marks, log="xy"),
        Panel(label, "utilisation (share)", sweep("utilisation"), log="x", y_range=(0, 1.05)),
    )


def _static(title: str, over: str, label: str) -> Picture:
    """Show the static links, as means over the other dimension of their grid."""
    return _delay_and_utilisation(
        title, label, lambda reading: Sweep(over, reading, STATIC_NAMES, averaged=True, tiers=True)
    )


def low_rates(runs: Runs) -> pd.DataFrame:
    """Return the readings at low rates, with the packet size in the case's name. On kernels RED is Linux's own."""
    red = {LOW_RED: "RED"} if runs.has(LOW_RED) else {LOW_LINUX_RED: "Linux's RED"}
    rows = pd.concat(runs.numbers(case).assign(case=name) for case, name in {LOW_CODEL: "CoDel", **red}.items())
    rows["case"] = rows["case"] + rows.packet_bytes.map(lambda size: f", {500 if size == 500 else 1500} bytes")
    return rows.sort_values(["case", "rate_mbps"])


def _draw_published_red(axis: Axes, _: Runs) -> None:
    axis.axhspan(100, 200, color="#bbbbbb", alpha=0.5, zorder=0, label="RED, published")


def _fairness(over: str, label: str) -> Panel:
    """Show Jain's index of drops by source, for links with enough drops."""
    enough = f"dropped >= {edge.LEAST_DROPS}"
    sweep = Sweep(over, "drop_fairness", FAIRNESS_NAMES, rows=enough, averaged=True, tiers=True)
    return Panel(label, "share of the fairest (Jain)", sweep, log="x", y_range=(0, 1.05))


def _over_time(cases: Mapping[str, Look], column: str, *marks: Mark) -> Panel:
    """Show a reading of the dynamic link over time. Dotted lines mark changes of the rate."""
    how: dict[str, Any] = {"log": "y", "y_range": (0.1, 20_000)} if column.endswith("ms") else {}
    return Panel("time (s)", OVER_TIME[column], Course("course", column, cases), _mark_changes, *marks, **how)


def _mark_changes(axis: Axes, runs: Runs) -> None:
    for place in range(1, len(SCHEDULE_MBPS)):
        axis.axvline(runs.seconds / len(SCHEDULE_MBPS) * place, color="#888888", linestyle=":", linewidth=0.8)


def _over_buffer(column: str) -> Panel:
    """Show the edge over the buffer's length, a curve for each link: CoDel dashed, drop tail solid, drop tail's
    published level dotted."""
    tail = Sweep("buffer_packets", column, "edge_buffer_edge", by="link", rows="case == 'drop tail'")
    dashed = {edge.named(*link): {"linestyle": "--", "linewidth": 0.8, "marker": ""} for link in edge.LINKS}
    ours = Sweep("buffer_packets", column, "edge_buffer_edge", by="link", looks=dashed, rows="case == 'codel'")

    def draw_published(axis: Axes, _: Runs) -> None:
        for colour, link in zip(CURVES, edge.LINKS, strict=False):
            axis.axhline(edge.published().loc[("drop tail", *link), column], color=colour, linestyle=":")

    return Panel("buffer (packets)", edge.COLUMNS[column], tail, ours, draw_published, log="x")


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw the delay of one run over time."""
    course = over_time(run.packets[run.packets.source == PORT[0]], 0.0, run.experiment.duration_s)
    figure, axis = new_figure(f"{case}: {course.sent_mb.iloc[-1]:.0f} MB", "time (s)", "greatest delay (ms)")
    axis.plot(course.time_s, course.greatest_ms, linewidth=1)
    axis.set_ylim(bottom=0)
    return figure


RATES, ROUND_TRIPS = (3.0, 10.0, 45.0, 100.0), (10.0, 30.0, 100.0, 200.0, 500.0)
LOW_RATES, PACKETS = (0.128, 0.256, 0.512, 1.5), (500, FULL_PACKET_BYTES)
INTERVALS = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
OVER_TIME = {"greatest_ms": "greatest delay (ms)", "mean_ms": "mean delay (ms)", "sent_mb": "sent (MB)"}
TAIL, RED_QUEUE = {"queue": "drop tail"}, {"queue": "red"}
COUNTED = {"count_drops": True}
NEVER_DROPS = {"target_ms": 10_000.0, "interval_ms": 10_000.0}
STATIC = {"rate_mbps": swept(*RATES), "round_trip_ms": swept(*ROUND_TRIPS)}
LOW = {"rate_mbps": swept(*LOW_RATES), "packet_bytes": swept(*PACKETS), "round_trip_ms": swept(30.0, 100.0)}
DYNAMIC_LINK = Part(setting=Dynamic(), experiment=dynamic_experiment, read=read_dynamic)
CONSUMER_EDGE = Part(setting=Edge(), experiment=edge_experiment, read=read_edge)
DYNAMIC = {"part": DYNAMIC_LINK}
STATIC_NAMES = {"codel": "CoDel", "red": "RED", "drop tail": "drop tail"}
LOW_CODEL, LOW_RED, LOW_LINUX_RED = "codel, low rates", "red, low rates", "linux red, low rates"
DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL = "codel, dynamic", "red, dynamic", "drop tail, dynamic"
NEVER, UNRESPONSIVE = "codel of 10 s, dynamic", "unresponsive, dynamic"
TEN_PACKETS, TEN_CODEL = "drop tail of 10, dynamic", "codel of 10 packets, dynamic"
RFC, NS2 = "codel rfc8289, dynamic", "codel ns2_2012, dynamic"
FAIR = "fq_codel, dynamic"
EDGE_NEVER, EDGE_HASTY = "codel of 10 s, edge", "codel of 1 ms, edge"
FAIRNESS_NAMES = {"codel": "CoDel", "red": "RED", "codel of 10 packets": "CoDel in a buffer of 10 packets"}
DYNAMIC_NAMES = {DYNAMIC_CODEL: "CoDel", DYNAMIC_RED: "RED", DYNAMIC_TAIL: "drop tail"}
TEN_NAMES = {TEN_PACKETS: "drop tail, 10 packets", TEN_CODEL: "CoDel, 10 packets", DYNAMIC_CODEL: "CoDel, 830 packets"}
CONTROL_NAMES: dict[str, Look] = {
    DYNAMIC_CODEL: "CoDel",
    NEVER: {"label": "target = interval = 10 s", "linewidth": 5, "alpha": 0.35},
    UNRESPONSIVE: "unresponsive UDP, 120 Mb/s",
    DYNAMIC_TAIL: "drop tail",
}
ROUND_TRIP = "round trip (ms)"
EDGE: dict[str, Any] = {
    "part": CONSUMER_EDGE,
    "edge_mbps": swept(*edge.RATES),
    "rate_mbps": lambda setting: setting.edge_mbps,
    "packet_bytes": lambda setting: 500 if setting.edge_mbps < 1 else FULL_PACKET_BYTES,
}
EDGE_BUFFERS = {"buffer_packets": swept(6, 13, 20, 26, 52, 104)}
CASES: dict[str, dict[str, Any]] = {
    "codel": STATIC | COUNTED,
    "red": STATIC | RED_QUEUE | COUNTED,
    "drop tail": STATIC | TAIL,
    "codel of 10 packets": STATIC | {"buffer_packets": 10} | COUNTED,
    "unresponsive": STATIC | {"udp_share": 1.2},
    LOW_CODEL: LOW,
    LOW_RED: LOW | RED_QUEUE | {"red": "ns2"},
    LOW_LINUX_RED: LOW | RED_QUEUE | {"red": "linux"},
    DYNAMIC_CODEL: DYNAMIC | COUNTED,
    DYNAMIC_RED: DYNAMIC | RED_QUEUE,
    DYNAMIC_TAIL: DYNAMIC | TAIL,
    NEVER: DYNAMIC | NEVER_DROPS | COUNTED,
    UNRESPONSIVE: DYNAMIC | {"udp_share": 1.2},
    TEN_PACKETS: DYNAMIC | TAIL | {"buffer_packets": 10},
    TEN_CODEL: DYNAMIC | {"buffer_packets": 10},
    RFC: DYNAMIC | {"reentry": "rfc8289"},
    NS2: DYNAMIC | {"reentry": "ns2_2012"},
    FAIR: DYNAMIC | {"queue": "fq_codel"},
    EDGE_CODEL: EDGE,
    EDGE_TAIL: EDGE | TAIL,
    EDGE_NEVER: EDGE | NEVER_DROPS,
    EDGE_HASTY: EDGE | {"interval_ms": 1.0},
}
# Linux has one re-entry rule, its own RED, and a CoDel that knows its device's packet size.
LINUX = {"reentry": "linux", "red": "linux", "least_bytes": FULL_PACKET_BYTES}
# Claims about the whole 300 s, with 50 s at each rate; all concern the dynamic link.
OF_LONG_STAYS = (
    *("drop-tail-peak", "dynamic-median", "dynamic-upper-quartile", "dynamic-95th"),
    *("new-control-point", "dynamic-order", "dynamic-bytes", "small-buffer"),
)
OF_NS2_RED = ("fairer-drops",)
# A quick run on a kernel has only two or three uploads.
OF_UPLOADS = (
    *("edge-drops-no-more", "edge-drops-upload-512", "edge-drops-upload-1500"),
    *("edge-delay-upload-512", "edge-bytes"),
)
ONLY_DRAWN = ("unresponsive", LOW_LINUX_RED, UNRESPONSIVE, RFC, NS2, FAIR)
SMALL_CODEL = ("codel of 10 packets", "drop tail")


def _at_edge(column: str, control: str, pick: Callable[[pd.Series], float]) -> Evidence:
    """Make the evidence on CoDel over drop tail at the consumer edge."""
    return Evidence("edge", (EDGE_CODEL, EDGE_TAIL), control=(control, EDGE_TAIL), how=edge.ratio(column, pick))


def _on_link(column: str, control: str, rate_mbps: float, direction: str) -> Evidence:
    return _at_edge(column, control, lambda ratios: ratios[rate_mbps, direction])


_LATER = {"table": "packets", "from_s": Setting.static_s / 4}
LIVE = Live(
    {
        "median_ms": Gauge("median wait", "ms", _LATER | {"column": "wait_ms", "reduce": "p50"}),
        "upper_quartile_ms": Gauge("upper quartile of waits", "ms", _LATER | {"column": "wait_ms", "reduce": "p75"}),
        "sent_mb": Gauge(
            "sent in these 7.5 s", "MB", _LATER | {"column": "size_bytes", "reduce": "sum", "times": 1e-6}
        ),
        "drop_share": DROPPED_PACKETS,
    },
    WAIT,
    "wait of a packet (ms)",
    {"target_ms": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0), "interval_ms": (10.0, 30.0, 100.0, 300.0, 1000.0)}
    | {"round_trip_ms": (20.0, 100.0, 500.0), "rate_mbps": (1.0, 3.0, 10.0, 45.0)},
    lambda _: PORT,
    cases=("codel", "red", "drop tail"),
    broken={"codel": "drop tail"},
)
STUDY = Study(
    slug="codel",
    setting=Setting(),
    parts=(DYNAMIC_LINK, CONSUMER_EDGE),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=5,
    profiles={
        "quick": Scale(
            300.0, repetitions=3, only={"round_trip_ms": (10.0, 30.0, 100.0)}, fewer=dict.fromkeys(ONLY_DRAWN, 1)
        ),
        "paper": Scale(300.0, changes={"static_s": 300.0}),
        "test": Scale(300.0, 2, {"static_s": 5.0, "edge_s": 60.0}, {"round_trip_ms": (30.0, 100.0)}),
    },
    on_virtual={
        "quick": Scale(
            60.0,
            repetitions=2,
            changes=LINUX | {"static_s": 8.0, "edge_s": 60.0},
            only={"rate_mbps": (LOW_RATES[0], LOW_RATES[2], 3.0, 10.0, 45.0), "round_trip_ms": (100.0,)},
            # The kernel's CoDel is Linux's, not an RFC's; TEN_CODEL shows no more than TEN_PACKETS.
            without=(RFC, UNRESPONSIVE, TEN_CODEL),
            fewer={name: 1 for name, changes in CASES.items() if changes.get("part") is DYNAMIC_LINK},
            unjudged=OF_LONG_STAYS + OF_NS2_RED + OF_UPLOADS,
        ),
        "paper": Scale(300.0, repetitions=3, changes=LINUX | {"static_s": 20.0}, without=(RFC,), unjudged=OF_NS2_RED),
    },
    claims={
        "static-median-delay": Evidence("median_ms", "codel", control="drop tail", how=pd.Series.median),
        "static-utilisation": Evidence("utilisation", ("codel", "drop tail"), control=SMALL_CODEL, how=of_utilisations),
        "red-overcontrols": Evidence(
            "utilisation",
            ("codel", "red"),
            control=("codel of 10 packets", "red"),
            how=by_fast_utilisation("codel", "red"),
        ),
        "red-at-low-rates": Evidence("median_ms", LOW_RED, control=LOW_CODEL, how=pd.Series.median),
        "drop-tail-peak": Evidence("greatest_s", DYNAMIC_TAIL, control=DYNAMIC_CODEL),
        "dynamic-median": Evidence("median_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-upper-quartile": Evidence("upper_quartile_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-95th": Evidence("p95_time_ms", DYNAMIC_CODEL, control=NEVER),
        "new-control-point": Evidence("first_drop_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-order": Evidence(
            "p95_time_ms",
            (DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL),
            control=(NEVER, DYNAMIC_RED, DYNAMIC_TAIL),
            how=least_first("codel", "red", "drop tail"),
        ),
        "dynamic-bytes": Evidence(
            "sent_mb", (DYNAMIC_CODEL, DYNAMIC_TAIL), control=(TEN_CODEL, DYNAMIC_TAIL), how=ratio
        ),
        "small-buffer": Evidence("sent_mb", (TEN_PACKETS, DYNAMIC_TAIL), how=ratio),
        "fairer-drops": Evidence(
            ("drop_fairness", "dropped"),
            ("codel", "red"),
            control=("codel of 10 packets", "red"),
            how=edge.fairer("codel", "red"),
        ),
        "edge-drops-no-more": _at_edge("dropped_percent", EDGE_HASTY, pd.Series.max),
        "edge-drops-upload-512": _on_link("dropped_percent", EDGE_HASTY, 0.512, "upload"),
        "edge-drops-download-1500": _on_link("dropped_percent", EDGE_HASTY, 1.5, "download"),
        "edge-drops-upload-1500": _on_link("dropped_percent", EDGE_HASTY, 1.5, "upload"),
        "edge-delay-download-512": _on_link("median_ms", EDGE_NEVER, 0.512, "download"),
        "edge-delay-upload-512": _on_link("median_ms", EDGE_NEVER, 0.512, "upload"),
        "edge-delay-download-1500": _on_link("median_ms", EDGE_NEVER, 1.5, "download"),
        "edge-bytes": _at_edge("sent_mb", EDGE_HASTY, pd.Series.mean),
    },
    knobs={
        "interval": Knob(
            {"codel": {"interval_ms": swept(*INTERVALS), "round_trip_ms": swept(10.0, 30.0, 100.0, 500.0)}},
            Scale(changes={"static_s": 15.0}),
        ),
        "edge_buffer": Knob(
            {"codel": EDGE | EDGE_BUFFERS, "drop tail": EDGE | EDGE_BUFFERS | TAIL},
            Scale(300.0),
            tables=("edge",),
            quick=Scale(changes={"edge_s": 120.0}),
        ),
    },
    figures={
        "fig5_static": _static("Links of fixed rate, means over round trips (Fig. 5)", "rate_mbps", "rate (Mb/s)"),
        "fig6_low_rates": _delay_and_utilisation(
            "Slow links (Fig. 6)",
            "rate (Mb/s)",
            lambda reading: Sweep("rate_mbps", reading, low_rates, averaged=True),
            _draw_published_red,
        ),
        "fig7_dynamic": Picture(
            "100, 10, 1, 50, 1 and 100 Mb/s (Fig. 7)",
            _over_time(DYNAMIC_NAMES, "greatest_ms", Level(10_000, "drop tail, published: up to 10 s")),
            _over_time(DYNAMIC_NAMES, "sent_mb"),
        ),
        "fig7_ten_packets": Picture(
            "Buffers of 10 packets (Fig. 7)", *(_over_time(TEN_NAMES, column) for column in ("greatest_ms", "sent_mb"))
        ),
        "fig8_round_trips": _static("Over the round trip, means over rates (Fig. 8)", "round_trip_ms", ROUND_TRIP),
        "fig9_fairness": Picture(
            f"How fairly drops fall on the sources: links with {edge.LEAST_DROPS} drops or more (Fig. 9)",
            _fairness("round_trip_ms", ROUND_TRIP),
            _fairness("rate_mbps", "rate (Mb/s)"),
        ),
        "control": Picture("Broken on purpose", _over_time(CONTROL_NAMES, "mean_ms")),
        "knob_interval": _delay_and_utilisation(
            "How long may the interval be? (10 Mb/s)",
            "interval (ms)",
            lambda reading: Sweep("interval_ms", reading, "interval", by="round_trip_ms", label="round trip {} ms"),
        ),
        "knob_edge_buffer": Picture("How long was the buffer?", *map(_over_buffer, ("median_ms", "dropped_percent"))),
    },
    best=("fig5_static", "fig7_dynamic", "fig8_round_trips", "fig9_fairness", "control"),
    play=Play(
        ("codel", "red", "drop tail", DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL, FAIR),
        {"target_ms": (1.0, 50.0, 1.0), "interval_ms": (10.0, 1000.0, 10.0), "round_trip_ms": (10.0, 500.0, 10.0)},
        draw_run,
        60.0,
        live=LIVE,
    ),
)
