"""Outcast's settings, networks and experiments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from netrepro.networks.experiment import Experiment, Measure, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, Queue, Red, Sfq
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.topology import HOST_QUEUE, Cable, Topology, fat_tree, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study.measuring import HOST_DELAY_PACKETS
from netrepro.study.setting import parameter
from netrepro.style import CURVES

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
