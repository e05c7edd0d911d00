"""TCP Outcast: Prakash, Dixit, Hu and Kompella, "The TCP Outcast Problem: Exposing Unfairness in Data Center Networks",
NSDI 2012.

Flows enter a drop-tail switch at two ports and leave by a third. The port with fewer flows loses several packets in a
row. Its flows wait for timeouts and get least, although their round trip is the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, Queue, Red, Sfq
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.topology import HOST_QUEUE, Cable, Topology, fat_tree, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import (
    GOODPUT_OF_FLOWS,
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
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first
from netrepro.study.figures import Panel, Picture, Sweep
from netrepro.study.live import WAIT
from netrepro.study.measuring import HOST_DELAY_PACKETS
from netrepro.study.setting import parameter
from netrepro.study.trust import gap_checks
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

HOPS = ("2 hops", "4 hops", "6 hops")
NEAR, MIDDLE, FAR = HOPS
COLOURS = dict(zip(HOPS, CURVES, strict=False))
RECEIVER = "h1"
PORT = ("s1", RECEIVER)
# Published values, read off figures that a student project copied (data/outcast/SOURCES.md).
FAT_TREE_MBPS = {NEAR: 12.5, MIDDLE: 37.0, FAR: 70.5}
PUBLISHED_SHARES = {"13 flows": 0.167, "red": 2.0, "sfq": 0.844, "paced": 0.468}
ROWS_MBPS = {
    1: {1: 1000, 2: 964, 3: 889, 4: 690, 5: 679, 6: 7},
    3: {3: 1000, 4: 989, 5: 978, 6: 43},
    5: {5: 997, 6: 870, 7: 732, 8: 797},
    7: {6: 978, 7: 987, 8: 938},
}
FULL_RATE_MBPS = 1000.0
HEADER_BYTES = FULL_PACKET_BYTES - Tcp().segment_bytes
ON_AND_OFF_PORT = ("s1", "s2")
ONE_PATH = Routing("ecmp", rerouting_ms=1e6)
AT_ONCE_MBPS = 1e6  # of a link on which no packet waits
LONGEST_S = 0.5  # of the times over which the figures have means: .1, .2 and .5 s, from the start
SETTLED_S = 0.05  # slow start is over
ROWS_TIMES_LONGER = 4  # than other runs: as long as ten of the longest timeouts
ON_S = 0.02  # of a port that is on and off: time from one row of drops to the next
SAME_S = 4e-7  # packets of one port are 30 times as far apart
SHOWN_S = (-0.5e-3, 3e-3)  # of arrivals, relative to the longest row of drops: covers a timeout and what follows


# Queues of the paper's simulations: 30 packets of 1040 bytes, four buckets. The rest is ns-2.35's default.
NS2_PACKET_BYTES = 1040
NS2_RED = Red(30, 5, 15, 0.1, 0.002, by_bytes=True, gentle=True, wait=True, mean_packet_bytes=500, variant="floyd1993")
NS2_QUEUES: dict[str, Queue] = {
    "drop tail": DropTail(packets=30),
    "red": NS2_RED,
    "sfq": Sfq(30, NS2_PACKET_BYTES, buckets=4),
}


@dataclass(frozen=True)
class Testbed:
    """The testbed: 1 Gb/s, 16 KB of drop tail a port, BIC, least timeout of 2 ms. Delays make the published round trips
    (.41, .57 and .75 ms over 2, 4 and 6 hops). Our choice: flows start within `start_spread_ms`, so that no SYN meets a
    full queue and every seed has its own phases.

    queue : "drop tail", "red" or "sfq". of_ns2 : the queues and packets of the paper's simulations.
    """

    rate_mbps: float = 1000.0
    buffer_bytes: int = parameter(16_384, "of every port", "bytes", low=3000, high=10_000_000)
    queue: str = "drop tail"
    congestion_control: str = "bic"
    min_rto_ms: float = parameter(2.0, "least retransmission timeout", "ms", low=1, high=1000)
    clock_skew_ppm: float = parameter(
        100.0, "how far links' rates are off at most", "parts per million", low=0, high=10_000
    )
    host_delay_packets: float = parameter(
        HOST_DELAY_PACKETS,
        "that hosts take for a packet, at most, in packets' times at the slowest link",
        low=0,
        high=1000,
    )
    host_delay_ms: float = 0.1025
    hop_delay_ms: float = 0.0425
    start_spread_ms: float = 0.5
    pacing: bool = False
    recovery: str = "linux"
    of_ns2: bool = False

    @property
    def port_queue(self) -> Queue:
        """The queue of every switch port. RED's buffer is twice its upper threshold; 16 KB would be too small."""
        if self.of_ns2:
            return NS2_QUEUES[self.queue]
        packets = max(1, self.buffer_bytes // FULL_PACKET_BYTES)
        if self.queue == "red":
            return Red(max(30, packets), 5, 15, max_probability=0.1, weight=0.002)
        return Sfq(packets) if self.queue == "sfq" else DropTail(bytes=self.buffer_bytes)

    @property
    def hop(self) -> Link:
        """The link between switches."""
        return Link(self.rate_mbps, self.hop_delay_ms, self.port_queue)

    @property
    def host_link(self) -> Link:
        """The link to a host."""
        return Link(self.rate_mbps, self.host_delay_ms, self.port_queue)


@dataclass(frozen=True)
class Setting(Testbed):
    """One near flow, and far flows from hosts of their own, meet at one port. near_moved : the near host is behind the
    far flows' port."""

    far_flows: int = 12
    near_moved: bool = False


@dataclass(frozen=True)
class Tree(Testbed):
    """A fat-tree. routes : "one core", "hashed", or "equal length" (section 5). middle : the hosts over 4 hops send,
    too. far_flows : of the twelve hosts over 6 hops. near_moved : the near host is in another pod."""

    routes: str = "one core"
    middle: bool = True
    far_flows: int = 12
    near_moved: bool = False


@dataclass(frozen=True)
class OneSwitch(Testbed):
    """A class project's network. far_flows : all of one host."""

    far_flows: int = 12


@dataclass(frozen=True)
class OnAndOff(Testbed):
    """A port behind which the link is on and off (section 4). drops_in_a_row : 0 for always on. drops_apart : the same
    number, spread over time."""

    far_flows: int = 12
    drops_in_a_row: int = 0
    drops_apart: bool = False


@dataclass(frozen=True)
class ParkingLot(Testbed):
    """A row of switches with a host each, of which the first one receives from all others (Mininet-HiFi, section 6.3).
    The nearest sender has a port of its own on the second switch, where all others come in at one. near_moved : the
    nearest sender is behind the third switch instead, where it shares that port."""

    senders: int = 6
    near_moved: bool = False


# Networks: the topology, and each sending host's number of hops.

Built = tuple[Topology, dict[str, str]]


def two_ports(setting: Setting) -> Built:
    """Build a network with the receiver and the near host on s1, and far hosts on s2, whose delay is that of 6 hops."""
    far = [f"h{i + 3}" for i in range(setting.far_flows)]
    cables = [host_cable(RECEIVER, "s1", setting.host_link)]
    cables.append(host_cable("h2", "s2" if setting.near_moved else "s1", setting.host_link))
    cables += [host_cable(host, "s2", setting.host_link) for host in far]
    cables.append(Cable("s2", "s1", replace(setting.hop, delay_ms=4 * setting.hop_delay_ms)))
    return Topology(tuple(cables), "two ports"), {"h2": NEAR} | dict.fromkeys(far, FAR)


def one_switch(setting: OneSwitch) -> Built:
    """Build a class project's network: three hosts on a switch, one of which sends all far flows."""
    cables = [host_cable(host, "s1", setting.host_link) for host in (RECEIVER, "h2", "h3")]
    return Topology(tuple(cables), "one switch"), {"h2": NEAR, "h3": FAR}


def parking_lot(setting: ParkingLot) -> Built:
    """Build the row of switches; the nearest sender counts as near, all others as far."""
    count = setting.senders + 1
    places = {f"h{host}": 3 if host == 2 and setting.near_moved else host for host in range(1, count + 1)}
    cables = [host_cable(host, f"s{place}", setting.host_link) for host, place in places.items()]
    cables += [Cable(f"s{i + 1}", f"s{i}", setting.hop) for i in range(1, count)]
    far = dict.fromkeys([f"h{host}" for host in range(3, count + 1)], FAR)
    return Topology(tuple(cables), "parking lot"), {"h2": NEAR} | far


def _hops(host: int) -> str:
    """Name the number of hops from the first host to another, in a fat-tree of k = 4."""
    return NEAR if host == 2 else MIDDLE if host <= 4 else FAR


def senders(setting: Tree) -> dict[str, str]:
    """Return the sending hosts, with their hops."""
    hosts = [2, *([3, 4] if setting.middle else []), *range(5, 5 + setting.far_flows)]
    return {f"h{host}": _hops(host) for host in hosts}


def whole_fat_tree(setting: Tree) -> Built:
    """Build a fat-tree of k = 4, in which others send to the first host (Fig. 2)."""
    tree = fat_tree(4, setting.hop, setting.host_link)
    if setting.near_moved:
        edge = next(iter(tree.graph["h16"]))
        kept = [cable for cable in tree.cables if "h2" not in (cable.first, cable.second)]
        tree = Topology((*kept, host_cable("h2", edge, setting.host_link)), tree.name)
    return tree, senders(setting)


def equal_length(setting: Tree) -> Built:
    """Build the same where all packets go up to one core switch and down again (section 5). A cable's directions are
    independent, so the way down has switches of its own: s1 is the receiver's edge, s2 its pod's, s3 the core. Then
    come each pod's switches on the way up."""
    cables = [host_cable(RECEIVER, "s1", setting.host_link)]
    cables += [Cable("s2", "s1", setting.hop), Cable("s3", "s2", setting.hop)]
    for pod in range(4):
        cables.append(Cable(f"s{4 + pod}", "s3", setting.hop))
        cables += [Cable(f"s{8 + edge}", f"s{4 + pod}", setting.hop) for edge in (2 * pod, 2 * pod + 1)]
    cables += [host_cable(f"h{i}", f"s{8 + (i - 1) // 2}", setting.host_link) for i in range(2, 17)]
    return Topology(tuple(cables), "equal-length routing"), senders(setting)


def on_and_off(setting: OnAndOff) -> Built:
    """Build a network in which far hosts share a port of s1. The link behind the port, on which nothing waits, is off
    at times (section 4)."""
    far = [f"h{i + 2}" for i in range(setting.far_flows)]
    cables = [host_cable(host, "s1", setting.host_link) for host in far]
    cables += [Cable("s1", "s2", setting.hop), Cable("s2", "s3", Link(AT_ONCE_MBPS, 0.0))]
    cables.append(host_cable(RECEIVER, "s3", replace(setting.host_link, queue=HOST_QUEUE)))
    return Topology(tuple(cables), "a port that is on and off"), dict.fromkeys(far, FAR)


def changes(setting: OnAndOff, seconds: float) -> tuple[LinkChange, ...]:
    """Make the changes that switch the link behind the port off: once every ON_S, for the time of `drops_in_a_row`
    packets at the port's rate. With `drops_apart` it is off that many times, for one packet each."""
    if not setting.drops_in_a_row:
        return ()
    times, packets = (setting.drops_in_a_row, 1) if setting.drops_apart else (1, setting.drops_in_a_row)
    off_s = packets * (FULL_PACKET_BYTES * 8e-6 / setting.rate_mbps)
    return tuple(
        LinkChange(when_s, "s2", "s3", up=up, both_directions=False)
        for at_s in np.arange(SETTLED_S, seconds - 1e-3, ON_S / times).tolist()
        for when_s, up in ((at_s, False), (at_s + off_s, True))
    )


def inputs(setting: Setting) -> dict[str, Port]:
    """Return the last switch's input port for the near and the far flows, by hops; nothing where the near flow has no
    port of its own."""
    return {} if setting.near_moved else {NEAR: ("h2", "s1"), FAR: ("s2", "s1")}


# Experiments.


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment with two ports."""
    return all_send(setting, two_ports(setting), seconds, seed, (PORT, *inputs(setting).values()))


def tree_experiment(setting: Tree, seconds: float, seed: int) -> Experiment:
    """Make the experiment in a fat-tree. By one core switch, routes depend only on the destination, as in the paper."""
    built = equal_length(setting) if setting.routes == "equal length" else whole_fat_tree(setting)
    routing = Routing("spanning_tree", root="s17") if setting.routes == "one core" else ONE_PATH
    return all_send(setting, built, seconds, seed, (PORT,), routing)


def switch_experiment(setting: OneSwitch, seconds: float, seed: int) -> Experiment:
    """Make the experiment with one switch."""
    return all_send(setting, one_switch(setting), seconds, seed, (PORT,), copies=setting.far_flows)


def lot_experiment(setting: ParkingLot, seconds: float, seed: int) -> Experiment:
    """Make the experiment in a parking lot."""
    return all_send(setting, parking_lot(setting), seconds, seed, (PORT,))


def on_and_off_experiment(setting: OnAndOff, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a port that is on and off."""
    seconds *= ROWS_TIMES_LONGER
    built, off = on_and_off(setting), changes(setting, lasting(setting, seconds))
    return all_send(setting, built, seconds, seed, (ON_AND_OFF_PORT,), off=off)


def lasting(setting: Testbed, seconds: float) -> float:
    """Return how long a run lasts: longer on slower links, so that as many packets pass as at 1 Gb/s."""
    return seconds * max(1.0, FULL_RATE_MBPS / setting.rate_mbps)


def all_send(
    setting: Testbed,
    built: Built,
    seconds: float,
    seed: int,
    ports: tuple[Port, ...],
    routing: Routing = ONE_PATH,
    *,
    copies: int = 1,
    off: tuple[LinkChange, ...] = (),
) -> Experiment:
    """Make an experiment in which all hosts send to the first one. They start within `start_spread_ms` and send to the
    end. copies : flows of each far host."""
    (topology, hops), seconds = built, lasting(setting, seconds)
    hosts = [host for host, far in hops.items() for _ in range(copies if far == FAR else 1)]
    starts_s = np.random.default_rng(seed).uniform(0, setting.start_spread_ms / 1e3, len(hosts))
    flows = [
        Flow(host, RECEIVER, duration_s=seconds - start, start_s=start, label=hops[host])
        for host, start in zip(hosts, starts_s.tolist(), strict=True)
    ]
    tcp = Tcp(
        setting.congestion_control,
        segment_bytes=NS2_PACKET_BYTES - HEADER_BYTES if setting.of_ns2 else FULL_PACKET_BYTES - HEADER_BYTES,
        min_rto_ms=setting.min_rto_ms,
        syn_linear_timeouts=0,
        tail_loss_probe=False,  # Linux got it after the paper
        pacing=setting.pacing,
        pacing_slow_start_ratio=1.0,  # the window over a round trip, as Aggarwal et al. define pacing
        pacing_ratio=1.0,
        recovery=setting.recovery,
    )
    return Experiment(
        topology,
        tuple(flows),
        seconds,
        seed,
        Measure(packets=ports),
        tcp,
        routing,
        off,
        host_delay_packets=setting.host_delay_packets,
        clock_skew_ppm=setting.clock_skew_ppm,
    )


# Readings of one run.


def arrivals(run: Measurements, ports: dict[str, Port]) -> pd.DataFrame:
    """List the packets from each input port to the receiver's port: time_s, port (its hops), flow, dropped, in order.

    A packet was let in if one of its flow began to wait at its arrival. The host may delay this, but by less than the
    time until its next packet arrives. Needs the packets of all three ports.
    """
    at, topology = run.packets_by_port, run.experiment.topology
    rate_mbps = topology.link(*PORT).rate_mbps
    left = at.get(PORT, run.packets[:0])
    entered_s = left.time_s - left.size_bytes * 8e-6 / rate_mbps - left.wait_ms / 1e3
    parts = []
    for hops, port in ports.items():
        came = at.get(port, run.packets[:0])
        came = came.assign(time_s=came.time_s + topology.link(*port).delay_ms / 1e3, port=hops)
        came = came[["time_s", "port", "flow"]]
        late_s = run.experiment.host_delay_ms / 1e3 if port[0] in topology.hosts else SAME_S
        for flow, rows in came.groupby("flow"):
            let_in = first_of_each(rows.time_s.to_numpy(), entered_s[left.flow == flow].to_numpy() - late_s)
            parts.append(rows.assign(dropped=~np.isin(np.arange(len(rows)), let_in)))
    table = pd.concat(parts).sort_values("time_s", ignore_index=True)
    return table[table.time_s <= entered_s.max()]  # packets that came later may still wait


def first_of_each(times_s: np.ndarray, since_s: np.ndarray) -> np.ndarray:
    """Find the index of the first of `times_s` since each of `since_s`, both ascending; none is found twice."""
    count = np.arange(len(since_s))
    places = np.maximum.accumulate(np.searchsorted(times_s, since_s) - count) + count
    return places[places < len(times_s)]


def rows_of_drops(dropped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the runs of True in a sequence, in order, and the indices where they begin."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], dropped.astype(int), [0]])))
    return edges[1::2] - edges[::2], edges[::2]


def longest_row(table: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """Find in `arrivals` the length of the near port's longest row of drops, and the packets at both ports around it
    (SHOWN_S): time_ms since its first drop, port, dropped."""
    near = table[table.port == NEAR]
    lengths, starts = rows_of_drops(near.dropped.to_numpy())
    longest = int(lengths.max(initial=0))
    first_s = near.time_s.iloc[starts[lengths.argmax()]] if longest else table.time_s.median()
    shown = table[(table.time_s - first_s).between(*SHOWN_S)]
    return longest, shown.assign(time_ms=(shown.time_s - first_s) * 1e3)[["time_ms", "port", "dropped"]]


def read_drops(run: Measurements, setting: Setting) -> Reading:
    """Read the shares of packets lost at the near and far port, the share of rows of drops with one packet (both
    ports), the near port's longest row after slow start, the arrivals around it, and a check. NaN where the ports
    cannot be told apart, and with SFQ, which drops packets that came earlier."""
    names = ("near_lost_share", "far_lost_share", "single_share", "longest_row")
    if not inputs(setting) or setting.queue == "sfq":
        return Reading(dict.fromkeys(names, np.nan))
    table = arrivals(run, inputs(setting))
    near, far = (table[table.port == hops].dropped.to_numpy() for hops in (NEAR, FAR))
    rows = np.concatenate([rows_of_drops(dropped)[0] for dropped in (near, far)])
    longest, timeline = longest_row(table[table.time_s >= SETTLED_S])
    counted = int(run.links_by_port.dropped_packets[PORT])
    share = (int(table.dropped.sum()) + 1) / (counted + 1)
    single_share = float((rows == 1).mean()) if len(rows) else np.nan
    numbers = dict(zip(names, (near.mean(), far.mean(), single_share, longest), strict=True))
    return Reading(numbers, {"timeline": timeline}, [Check("drops found / counted by the port", share, 0.9, 1.01)])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_flows` does, and drops."""
    return read_flows(run, setting) | read_drops(run, setting)


def read_flows(run: Measurements, setting: Testbed) -> Reading:
    """Read the mean goodput by hops (Mb/s; NaN where no flow has them), the near and middle flows' goodput over the far
    ones', and the near flow's timeouts a second. Check the gaps at the port where all flows meet."""
    flows = run.flows.assign(hops=run.flows.label)
    seconds = run.experiment.duration_s
    means = flows.groupby("hops")[["goodput_mbps", "timeouts"]].mean().reindex(HOPS)
    mbps = means.goodput_mbps
    total_mbps = float(flows.delivered_bytes.sum()) * 8e-6 / seconds
    within = Check("payload / the port's rate", total_mbps / setting.rate_mbps, at_most=1.0)
    numbers = {
        **dict(zip(("near_mbps", "middle_mbps", "far_mbps"), mbps, strict=True)),
        "near_share": mbps[NEAR] / mbps[FAR],
        "middle_share": mbps[MIDDLE] / mbps[FAR],
        "total_mbps": total_mbps,
        "near_timeouts_per_s": means.timeouts[NEAR] / seconds,
    }
    last = run.experiment.measure.packets[0]
    return Reading(numbers, {"flows": flows[["flow", "hops", "goodput_mbps"]]}, [within, *gap_checks(run, last)])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case").mean()
    tail, sentence = table.loc["13 flows"], ""
    if "red" in table.index:
        red = table.loc["red"]
        sentence = f"; with RED {red.near_mbps:.0f} and {red.far_mbps:.0f} (146 and 71)"
    return (
        f"At a drop-tail port a flow that comes in alone gets {tail.near_mbps:.0f} Mb/s, each of twelve from afar at "
        f"the other port {tail.far_mbps:.0f} (published: 13 and 78){sentence}."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw two ports whose packets arrive in step at a full queue, from which one packet leaves in each slot. The first
    to arrive after a departure gets the place."""
    figure, axis = new_figure("A full queue, and two ports in step", "departures from the queue", "")
    slots = np.arange(12)
    far = pd.DataFrame({"slot": slots + 0.2, "port": FAR, "dropped": False})
    near = pd.DataFrame({"slot": slots + 0.6, "port": NEAR, "dropped": True})
    _draw_arrivals(axis, pd.concat([far, near]), "slot")
    for slot in range(13):
        axis.axvline(slot, color=PUBLISHED_GREY, linewidth=1, zorder=0)
    axis.legend(loc="upper center", ncols=2)
    return figure


def _draw_arrivals(axis: Axes, table: pd.DataFrame, x: str) -> None:
    """Draw the packets by input port, dropped ones as crosses above those that were let in."""
    for place, (port, name) in enumerate(((FAR, "far port"), (NEAR, "near port"))):
        rows = table[table.port == port]
        for dropped, marker, fate in ((False, "|", "let in"), (True, "x", "dropped")):
            times = rows[x][rows.dropped == dropped]
            if len(times):
                heights = np.full(len(times), place + 0.25 * dropped)
                axis.plot(times, heights, marker, color=COLOURS[port], markersize=7, label=f"{name}, {fate}")
    axis.set(ylim=(-0.3, 2.0), yticks=(0, 1), yticklabels=("far", "near"))
    axis.grid(False)


def draw_network(setting: Setting) -> Figure:
    """Draw the two ports: the near host on the receiver's switch, the far ones behind another switch."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "One near flow and twelve from afar meet at one port")


def draw_fat_tree(runs: Runs) -> Figure:
    """Draw the throughput by hops (Fig. 2a), a panel for each tier."""
    figure, axes = drawing.panels("Fifteen flows to one host (Fig. 2a)", "", "throughput of a flow (Mb/s)", runs.tiers)
    for axis, tier in zip(axes, runs.tiers, strict=True):
        mbps = runs.numbers("fat-tree", tier)[["near_mbps", "middle_mbps", "far_mbps"]]
        drawing.draw_bars(axis, dict(zip(HOPS, mbps.to_numpy().T, strict=True)), FAT_TREE_MBPS, COLOURS)
    return figure


def draw_timeline(runs: Runs) -> Figure:
    """Draw the packets at the last switch around the near port's longest row of drops (Fig. 9), with drop tail and
    RED."""
    title = f"Drops at the port, by input port (Fig. 9; {runs.tier}, one run)"
    figure, axes = drawing.panels(title, "time (ms)", "", ("drop tail", "RED"))
    for axis, case in zip(axes, ("drop tail", "red"), strict=True):
        rows = runs.table("timeline", case)
        _draw_arrivals(axis, rows[rows.repetition == 0], "time_ms")
    drawing.share_legend(figure)
    return figure


# Figure -> title, and label of a row -> case, reading, published value.
OUTCAST = ("13 flows", "near_share", PUBLISHED_SHARES["13 flows"])
SHARES: dict[str, tuple[str, dict[str, tuple[str, str, float | None]]]] = {
    "near_and_far": (
        "One near flow beside several far ones",
        {
            "2 far": ("2 far", "near_share", None),
            "6 far": ("6 far", "near_share", None),
            "12 far": OUTCAST,
            "12 far, two ports": ("drop tail", "near_share", None),
        },
    ),
    "remedies": (
        "Remedies: the near flow beside twelve far ones (section 5)",
        {"drop tail": ("drop tail, ns-2", "near_share", None)}
        | {case: (case, "near_share", PUBLISHED_SHARES[case]) for case in ("red", "sfq", "paced")},
    ),
    "routes": (
        "Routes in the fat-tree",
        {
            "2 hops": ("fat-tree", "near_share", 0.178),
            "4 hops": ("fat-tree", "middle_share", 0.525),
            "2 hops, hashed routes": ("fat-tree, hashed", "near_share", None),
            "4 hops, hashed routes": ("fat-tree, hashed", "middle_share", None),
            "2 hops, 13 flows": OUTCAST,
            "2 hops, 13 flows, equal length": ("equal length", "near_share", 0.785),
            "2 hops, RED": ("fat-tree, red", "near_share", None),
            "4 hops, RED": ("fat-tree, red", "middle_share", None),
        },
    ),
    "class_report": (
        "What student projects set up",
        {
            "1 Gb/s, two ports": ("drop tail", "near_share", None),
            "100 Mb/s, BIC, 16 kB": ("class, 16 kB", "near_share", None),
            "128 kB": ("class, 128 kB", "near_share", None),
            "100 Mb/s, Reno, 200 packets": ("class, reno", "near_share", None),
            "parking lot, 3 senders": ("parking lot, 3", "near_share", None),
            "parking lot, 6 senders": ("parking lot, 6", "near_share", None),
            "the same, near one moved": ("parking lot, 6, near moved", "near_share", None),
            "6 senders, 100 Mb/s, Reno": ("parking lot, 6, reno", "near_share", None),
        },
    ),
    "control_port": (
        "Broken on purpose: the near flow's port",
        {"a port of its own": OUTCAST, "behind the far flows' port": ("13 flows, near moved", "near_share", None)},
    ),
}


def draw_shares(runs: Runs, name: str) -> Figure:
    """Draw one of SHARES: a row for each case, every seed a dot, the median a line, on all tiers that were measured."""
    title, rows = SHARES[name]
    figure, axis = new_figure(title, "share of the mean of flows from afar", "", log_x=True)
    axis.axvline(1, color="black", linewidth=0.8)
    for place, (case, reading, published) in enumerate(rows.values()):
        for shift, (tier, colour) in enumerate(zip(runs.tiers, CURVES, strict=False)):
            values = runs.numbers(case, tier)[reading].clip(lower=1e-3)
            at = -place + 0.12 * (len(runs.tiers) - 1) - 0.24 * shift
            label = "" if place else f"{tier}: every seed, and the median"
            axis.plot(values, np.full(len(values), at), "o", color=colour, alpha=0.4, markersize=5, label=label)
            axis.plot([values.median()], [at], "|", color=colour, markersize=16, markeredgewidth=2.5)
        if published:
            axis.plot([published], [-place], "D", color=PUBLISHED_GREY, markersize=7)
    axis.plot([], [], "D", color=PUBLISHED_GREY, label="published")
    axis.set(yticks=-np.arange(len(rows)), yticklabels=list(rows), ylim=(0.5 - len(rows), 0.5))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _rows(title: str, case: str) -> Panel:
    """Show the throughput of a port that drops k packets in a row (section 4)."""
    ours = Sweep("drops_in_a_row", "total_mbps", lambda runs: runs.numbers(case), "far_flows", label="flows: {}")
    x, y = "dropped in a row every 20 ms (packets)", "throughput of all flows (Mb/s)"
    return Panel(x, y, _draw_published_rows, ours, title=title, y_range=(0, 1050))


def _draw_published_rows(axis: Axes, _: Runs) -> None:
    for flows, points in ROWS_MBPS.items():
        axis.plot(
            list(points), list(points.values()), "D", color=PUBLISHED_GREY, label="published, 1, 3, 5 and 7 flows"
        )
        for place, mbps in points.items():
            axis.annotate(f"{flows}", (place, mbps), (5, 5), textcoords="offset points", fontsize=7)


def draw_timing(runs: Runs) -> Figure:
    """Draw the shares by hops in the fat-tree over the clocks' skew and the hosts' time for a packet: a dot for each
    seed, medians joined."""
    labels = {"clock_skew_ppm": "clocks' skew (ppm)", "host_delay_packets": "time of hosts (packets' times)"}
    title, share = "Timing (fat-tree, simulated)", "share of flows over 6 hops"
    figure, axes = drawing.panels(title, "", share, [""] * len(labels), log_y=True)
    for axis, (field, label) in zip(axes, labels.items(), strict=True):
        rows = runs.knobs["phases"].query("case == @field")
        places = sorted(rows[field].unique())
        for hops, column in ((NEAR, "near_share"), (MIDDLE, "middle_share")):
            at, values = rows[field].map(places.index), rows[column].clip(lower=1e-3)
            axis.plot(at, values, "o", color=COLOURS[hops], alpha=0.35, markersize=4)
            axis.plot(values.groupby(at).median(), color=COLOURS[hops], label=hops)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(range(len(places)), [f"{place:g}" for place in places])
        axis.set(xlabel=label)
    drawing.share_legend(figure)
    return figure


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run: a bar for each flow."""
    figure, axis = new_figure(f"{case}: {run.flows.goodput_mbps.sum():.0f} Mb/s in all", "flow", "throughput (Mb/s)")
    for hops, rows in run.flows.groupby("label"):
        axis.bar(rows.flow, rows.goodput_mbps, color=COLOURS[hops], label=hops)
    axis.legend()
    return figure


A_TREE = Part(setting=Tree(), experiment=tree_experiment, read=read_flows)
TREE: dict[str, Any] = {"part": A_TREE}
THIRTEEN = TREE | {"middle": False}
NS2: dict[str, Any] = {"of_ns2": True}
SWITCH = Part(setting=OneSwitch(), experiment=switch_experiment, read=read_flows)
CLASS = {"part": SWITCH, "rate_mbps": 100.0, "host_delay_ms": 1.0}
OF_RENO: dict[str, Any] = {"rate_mbps": 100.0, "host_delay_ms": 1.0, "hop_delay_ms": 0.25}
OF_RENO |= {"buffer_bytes": 200 * FULL_PACKET_BYTES, "congestion_control": "reno", "min_rto_ms": 200.0}
CLASS_RENO = OF_RENO | {"far_flows": 5}
A_LOT = Part(setting=ParkingLot(), experiment=lot_experiment, read=read_flows)
LOT: dict[str, Any] = {"part": A_LOT}
ON_AND_OFF = Part(setting=OnAndOff(), experiment=on_and_off_experiment, read=read_flows)
ROW = {"part": ON_AND_OFF, "far_flows": swept(1, 3, 5, 7), "drops_in_a_row": swept(0, 1, 2, 3, 5, 6, 8)}
OF_1990 = {"congestion_control": "reno", "recovery": "reno"}
NOT_IN_ROWS = {"drops_in_a_row": ()}  # simulated only, as in the paper
CASES: dict[str, dict[str, Any]] = {
    "drop tail": {},
    "near moved": {"near_moved": True},
    "drop tail, ns-2": NS2,
    "red": NS2 | {"queue": "red"},
    "sfq": NS2 | {"queue": "sfq"},
    "paced": NS2 | {"pacing": True},
    "13 flows": THIRTEEN,
    "13 flows, near moved": THIRTEEN | {"near_moved": True},
    "2 far": THIRTEEN | {"far_flows": 2},
    "6 far": THIRTEEN | {"far_flows": 6},
    "fat-tree": TREE,
    "fat-tree, red": TREE | {"queue": "red"},
    "fat-tree, hashed": TREE | {"routes": "hashed"},
    "equal length": THIRTEEN | {"routes": "equal length"},
    "class, 16 kB": CLASS,
    "class, 128 kB": CLASS | {"buffer_bytes": 131_072},
    "class, reno": CLASS_RENO,
    "parking lot, 3": LOT | {"senders": 3},
    "parking lot, 6": LOT,
    "parking lot, 6, near moved": LOT | {"near_moved": True},
    "parking lot, 6, reno": LOT | OF_RENO,
    "rows": ROW,
    "rows, reno": ROW | OF_1990,
    "rows, reno, 200 ms": ROW | OF_1990 | {"min_rto_ms": 200.0},
    "rows, apart": ROW | {"far_flows": 1, "drops_in_a_row": swept(6), "drops_apart": True},
}


_OF_HOPS = {"table": "flows", "column": "goodput_mbps"}
_NEAR, _FAR = _OF_HOPS | {"label": NEAR}, _OF_HOPS | {"label": FAR}
LIVE = Live(
    {
        "near_share": Gauge("near flow, of a far one", "share", _NEAR | {"over": _FAR}),
        "near_mbps": Gauge("near flow", "Mb/s", _NEAR),
        "far_mbps": Gauge("a far flow", "Mb/s", _FAR),
        "total_mbps": Gauge("goodput of all flows", "Mb/s", GOODPUT_OF_FLOWS),
    },
    WAIT,
    "wait of a packet (ms)",
    {"far_flows": (1, 2, 4, 6, 8, 10, 12), "min_rto_ms": (2.0, 20.0, 200.0)} | {"host_delay_packets": (0.0, 1.0, 4.0)},
    lambda _: PORT,
    cases=("13 flows", "fat-tree", "equal length", "red", "sfq", "paced"),
    broken={
        "13 flows": "13 flows, near moved",
        "fat-tree": "fat-tree, red",
        "equal length": "13 flows",
        **dict.fromkeys(("red", "sfq", "paced"), "drop tail, ns-2"),
    },
)


STUDY = Study(
    slug="outcast",
    setting=Setting(),
    parts=(A_TREE, SWITCH, A_LOT, ON_AND_OFF),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={
        "quick": Scale(
            LONGEST_S,
            repetitions=8,
            only={"drops_in_a_row": (0, 1, 5, 6), "far_flows": (1, 5, 7)},
            fewer={name: 3 for name in CASES if name.startswith("rows")},
        ),
        "paper": Scale(LONGEST_S),
    },
    on_virtual={
        "quick": Scale(LONGEST_S, repetitions=3, only=NOT_IN_ROWS),
        "paper": Scale(LONGEST_S, only=NOT_IN_ROWS),
    },
    repetitions=20,
    claims={
        "near-flow-outcast": Evidence("near_share", "13 flows", control="13 flows, near moved"),
        "fat-tree-2-hops": Evidence("near_share", "fat-tree", control="fat-tree, red"),
        "fat-tree-4-hops": Evidence("middle_share", "fat-tree", control="fat-tree, red"),
        "fewer-hops-less": Evidence(
            ("far_mbps", "middle_mbps", "near_mbps"),
            "fat-tree",
            control="fat-tree, red",
            how=lambda mbps: greatest_first(FAR, MIDDLE, NEAR)(*mbps),
        ),
        "red-turns-it": Evidence("near_share", "red", control="drop tail, ns-2"),
        "red-single-drops": Evidence("single_share", "red", control="drop tail, ns-2"),
        "sfq-fair": Evidence("near_share", "sfq", control="drop tail, ns-2"),
        "pacing-partial": Evidence("near_share", "paced", control="drop tail, ns-2"),
        "equal-length-routing": Evidence("near_share", "equal length", control="13 flows"),
        "one-flow-collapses": Evidence(
            "total_mbps",
            "rows",
            control=Evidence("total_mbps", ("rows, apart", "rows"), how=lambda apart, rows: apart[6] / rows[1, 0]),
            how=lambda rows: rows[1, 6] / rows[1, 0],
        ),
        "many-flows-survive": Evidence("total_mbps", "rows", how=lambda rows: rows[7, 6]),
    },
    knobs={
        "phases": Knob(
            {
                "clock_skew_ppm": TREE | {"clock_skew_ppm": swept(0.0, 10.0, 100.0, 1000.0)},
                "host_delay_packets": TREE | {"host_delay_packets": swept(0.0, 0.25, 1.0, 4.0)},
                "buffer_bytes": TREE | {"buffer_bytes": swept(8_192, 16_384, 32_768, 65_536, 131_072)},
                "min_rto_ms": TREE | {"min_rto_ms": swept(2.0, 10.0, 50.0, 200.0)},
            },
            {"quick": Scale(LONGEST_S, repetitions=3), "paper": Scale(LONGEST_S)},
            repetitions=5,
        ),
    },
    figures={
        "fig2a_fat_tree": draw_fat_tree,
        "fig9_drops": draw_timeline,
        "rows_of_drops": Picture(
            "A port that is on and off (section 4, simulated)",
            _rows("BIC with SACK, as elsewhere here", "rows"),
            _rows("Reno of 1990", "rows, reno"),
            _rows("Reno of 1990, least timeout 200 ms", "rows, reno, 200 ms"),
        ),
        **{name: partial(draw_shares, name=name) for name in SHARES},
        "knob_timing": draw_timing,
    },
    best=("fig2a_fat_tree", "near_and_far", "fig9_drops", "remedies", "control_port"),
    play=Play(
        ("drop tail", "red", "sfq", "paced", "near moved", "fat-tree", "13 flows", "equal length"),
        {
            "far_flows": (1, 20, 1),
            "host_delay_packets": (0.0, 4.0, 0.1),
            "buffer_bytes": (4_096, 131_072, 4_096),
            "min_rto_ms": (2.0, 200.0, 1.0),
        },
        draw_run,
        seconds=1.0,
        live=LIVE,
    ),
)
