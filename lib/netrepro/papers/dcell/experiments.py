"""DCell's settings, networks, experiments and readings: failures, all to all, lengths of paths."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from netrepro.networks.dcell import DCell, Server, ServerPath, two_level_tree
from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.workloads import Flow, Tcp
from netrepro.queueing.backpressure import drain
from netrepro.study import Check, Part, Reading, Runs
from netrepro.study.setting import parameter

SOURCE, DESTINATION = (0, 0), (4, 3)
FIRST_LINK, FIRST_SERVER = ((0, 3), (4, 0)), (0, 3)  # those that fail
NEW_LINK = ((1, 3), (4, 1))  # on the new path
SEGMENT_BYTES = 1448
INTERVALS = 40  # of a run, for counting throughput
BIN_S = 0.5
PUBLISHED_S = 40.0  # 5 GB at 1 Gb/s: the unit of time of Fig. 12
FLOWS_MBPS = 100.0  # rate of all links in Fig. 12's runs


@dataclass(frozen=True)
class Ports:
    """room_packets : of a port, or of an input that pauses. window_kb : receive window (Windows Server 2003 without
    window scaling)."""

    room_packets: int = parameter(100, "of a switch's port, or of an input that pauses", "packets", low=2, high=100_000)
    window_kb: int = parameter(64, "what a receiver lets be on its way", "KiB", low=2, high=10_000)

    @property
    def tcp(self) -> Tcp:
        """The servers' TCP."""
        return Tcp("reno", receive_window_bytes=self.window_kb * 1024)


@dataclass(frozen=True)
class Setting(Ports):
    """The run of Fig. 11.

    rate_mbps : of all links. timeline_s : link out, link back, server down, end. reroutes : routes follow failures.
    hello_s : interval between heart-beats. timeout_s : silence after which a server counts as down.
    hello_phase : time of the first heart-beat, as a share of hello_s; below 0: drawn from the seed.
    """

    rate_mbps: float = 100.0
    timeline_s: tuple[float, ...] = (4.0, 12.0, 20.0, 34.0)
    reroutes: bool = True
    hello_s: float = parameter(1.0, "servers send heart-beats so often", "s", low=0.01, high=5)
    timeout_s: float = parameter(5.0, "silence after which a server counts as down", "s", low=0.01, high=60)
    hello_phase: float = -1.0


@dataclass(frozen=True)
class Machines(Ports):
    """The machines that carry the 380 flows of Fig. 12.

    network : "dcell" or "tree". processor_share : rate of a server's processor over a link's; 0 for no limit.
    uplink_share : the same for the tree's uplinks.
    """

    network: str = "dcell"
    processor_share: float = 0.0
    uplink_share: float = 1.0


@dataclass(frozen=True)
class AllToAll(Machines):
    """The flows as TCP's. flow_kb : size of a flow (1000 bytes). server_packets : queue of a server's port or
    processor."""

    flow_kb: int = 4000
    server_packets: int = 1000


@dataclass(frozen=True)
class Lossless(Machines):
    """The flows in the model of switches that pause. model_kb : size of a flow (1000 bytes). looks_past_head : pausing
    switches may send what waits behind a blocked packet."""

    model_kb: int = 1000
    looks_past_head: bool = False


@dataclass(frozen=True)
class Lengths:
    """Paths in a DCell_2. n : servers of a mini-switch."""

    n: int = 4


NETWORK = DCell(4, 1)
LAST_PORT: Port = (NETWORK.forwarder(DESTINATION), NETWORK.host(DESTINATION))
NEW_PORT: Port = (NETWORK.forwarder(NEW_LINK[0]), NETWORK.forwarder(NEW_LINK[1]))
PAIRS = [(a, b) for a in NETWORK.servers for b in NETWORK.servers if a != b]
ONE_HOP = np.array([b == NETWORK.peer(a, 1) for a, b in PAIRS])  # pairs with a cable of their own


def _link(rate_mbps: float, packets: int) -> Link:
    return Link(rate_mbps, 0.005, DropTail(packets=packets))


def _inside(rate_mbps: float) -> Link:
    """Make the link between a server's applications and its network; it is too fast to limit anything."""
    return Link(10 * rate_mbps, 0.001, DropTail(packets=10_000))


# Fig. 11: failures.


class Failure(NamedTuple):
    """The servers and cables that are down from `at_s` on; at `known_s` the source's routing knows it."""

    at_s: float
    known_s: float
    servers: tuple[Server, ...] = ()
    cables: tuple[tuple[Server, Server], ...] = ()


def failures(setting: Setting, seed: int) -> list[Failure]:
    """List the failures: the link fails, the link returns, the server fails.

    A link's ends notice that it is out or back, and tell the others, at once. Servers send heart-beats every `hello_s`;
    the seed draws the first moment unless the setting gives it. The others know that a server is down `timeout_s` after
    its last one.
    """
    out_s, back_s, down_s, _ = setting.timeline_s
    drawn = float(np.random.default_rng([seed, 11]).random())
    phase_s = (drawn if setting.hello_phase < 0 else setting.hello_phase) * setting.hello_s

    def last_word(before_s: float) -> float:
        return phase_s + math.floor((before_s - phase_s) / setting.hello_s) * setting.hello_s

    return [
        Failure(out_s, out_s, cables=(FIRST_LINK,)),
        Failure(back_s, back_s),
        Failure(down_s, last_word(down_s) + setting.timeout_s, servers=(FIRST_SERVER,)),
    ]


def known_paths(setting: Setting, seed: int) -> list[tuple[float, ServerPath]]:
    """List (start in s, path by fault-tolerant routing). Where it finds no path, the one before stays."""
    paths = [(0.0, NETWORK.route(SOURCE, DESTINATION))]
    for failure in failures(setting, seed) if setting.reroutes else ():
        broken = [frozenset(cable) for cable in failure.cables]
        path = NETWORK.route_around(SOURCE, DESTINATION, failure.servers, broken, state_level=1)
        if path is not None and path != paths[-1][1]:
            paths.append((failure.known_s, path))
    return [(at_s, path) for at_s, path in paths if at_s < setting.timeline_s[-1]]


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: one connection during the failures. It records arrivals, and packets on the new path's
    link."""
    network = NETWORK.topology(_link(setting.rate_mbps, setting.room_packets), _inside(setting.rate_mbps))
    out_s, back_s, down_s, end_s = setting.timeline_s
    one, other = map(NETWORK.forwarder, FIRST_LINK)
    changes = [LinkChange(out_s, one, other, up=False), LinkChange(back_s, one, other, up=True)]
    name = NETWORK.forwarder(FIRST_SERVER)
    changes += [LinkChange(down_s, name, peer, up=False) for peer in network.graph[name]]
    over = [
        (at_s, tuple(port for hop in pairwise(NETWORK.names(path)) for port in (hop, hop[::-1])))
        for at_s, path in known_paths(setting, seed)
    ]
    return Experiment(
        network,
        (Flow(NETWORK.host(SOURCE), NETWORK.host(DESTINATION), duration_s=end_s),),
        end_s,
        seed,
        Measure(packets=(LAST_PORT, NEW_PORT)),
        setting.tcp,
        Routing(over=tuple(over)),
        tuple(changes),
    )


def _times_s(run: Measurements, port: Port) -> np.ndarray:
    packets = run.packets
    return packets.time_s[(packets.source == port[0]) & (packets.destination == port[1])].to_numpy()


def longest_silence(times_s: np.ndarray, begin_s: float, end_s: float) -> float:
    """Compute the longest time (s) without an arrival between two moments."""
    within = times_s[(times_s >= begin_s) & (times_s <= end_s)]
    return float(np.diff(np.concatenate([[begin_s], within, [end_s]])).max())


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the longest silences after the failures, and goodput before and after."""
    out_s, back_s, down_s, end_s = setting.timeline_s
    came_s, crossed_s = _times_s(run, LAST_PORT), _times_s(run, NEW_PORT)
    edges = np.arange(0, end_s + BIN_S / 2, BIN_S)
    goodput = np.histogram(came_s, edges)[0] * SEGMENT_BYTES * 8e-6 / BIN_S

    def mean_mbps(begin_s: float, end_s: float) -> float:
        return float(((came_s >= begin_s) & (came_s < end_s)).sum()) * SEGMENT_BYTES * 8e-6 / (end_s - begin_s)

    afterwards = (came_s > down_s + 0.1).sum()
    before_mbps, after_mbps = mean_mbps(1.0, out_s), mean_mbps(end_s - 1.0, end_s)
    numbers = {
        "link_outage_s": longest_silence(came_s, out_s, back_s),
        "node_outage_s": longest_silence(came_s, down_s, end_s),
        "before_mbps": before_mbps,
        "detour_share": after_mbps / before_mbps,
        "new_path_share": min(1.0, float((crossed_s > down_s + 0.1).sum()) / afterwards) if afterwards else 0.0,
    }
    table = pd.DataFrame({"time_s": edges[:-1], "goodput_share": goodput / setting.rate_mbps})
    before = Check("goodput before the first failure (share of the rate)", before_mbps / setting.rate_mbps, 0.9)
    return Reading(numbers, {"goodput": table}, [before])


# Fig. 12: all to all.


def all_to_all(setting: AllToAll, seconds: float, seed: int) -> Experiment:
    """Make 380 flows that start within a hundredth of a flow's time, on DCell (paths of DCellRouting) or on the
    tree."""
    size_bytes, rate_mbps = setting.flow_kb * 1000, FLOWS_MBPS
    link, inside = _link(rate_mbps, setting.room_packets), _inside(rate_mbps)
    flow_s = size_bytes * 8e-6 / rate_mbps
    starts = np.random.default_rng([seed, 12]).random(len(PAIRS)) * flow_s / 100
    if setting.network == "tree":
        network = two_level_tree(5, 4, link, replace(link, rate_mbps=setting.uplink_share * rate_mbps))
        paths: list[tuple[str, ...]] = [()] * len(PAIRS)
        ports = tuple((f"s{place // 4 + 1}", f"h{place + 1}") for place in range(20))
    else:
        share, queued = setting.processor_share, _link(rate_mbps, setting.server_packets)
        processor = replace(queued, rate_mbps=share * rate_mbps, delay_ms=0.001) if share else inside
        network = NETWORK.split_topology(queued, inside, processor)
        minis = {NETWORK.mini_switch(each, 2) for each in NETWORK.servers}  # their queues are short, servers' are long
        cables = [replace(each, forward=link) if each.first in minis else each for each in network.cables]
        network = replace(network, cables=tuple(cables))
        paths = [NETWORK.split_names(NETWORK.route(a, b)) for a, b in PAIRS]
        ports = tuple((NETWORK.sender(each), NETWORK.host(each)) for each in NETWORK.servers)
    flows = [
        Flow(NETWORK.host(a), NETWORK.host(b), size_bytes=size_bytes, start_s=float(start), path=path)
        for (a, b), start, path in zip(PAIRS, starts, paths, strict=True)
    ]
    most_s = 400 * flow_s + 60.0  # covers a timer that has doubled eight times
    return Experiment(network, tuple(flows), most_s, seed, Measure(packets=ports), setting.tcp)


def lossless_way(setting: Machines, source: Server, destination: Server) -> tuple[Any, ...]:
    """Return the nodes on a flow's path in the model of switches that pause. A server with a processor's limit is two
    nodes: its input and its output."""
    if setting.network == "tree":
        beyond = () if source[0] == destination[0] else ("root", f"mini {destination[0]}")
        return source, f"mini {source[0]}", *beyond, destination
    path = NETWORK.route(source, destination)
    way: list[Any] = []
    for place, server in enumerate(path):
        if place and NETWORK.level(path[place - 1], server) == 0:
            way.append(f"mini {server[0]}")
        way += [("in", server), ("out", server)] if setting.processor_share else [("out", server)]
    return tuple(way)


def _rates(setting: Machines) -> dict[tuple[Any, Any], float]:
    """Return the rates of the model's links that differ from 1: uplinks, and processors with a limit."""
    if setting.network == "tree":
        uplinks = [ends for cell in range(5) for ends in ((f"mini {cell}", "root"), ("root", f"mini {cell}"))]
        return dict.fromkeys(uplinks, setting.uplink_share)
    share = setting.processor_share
    return {(("in", server), ("out", server)): share for server in NETWORK.servers} if share else {}


def measure_lossless(setting: Lossless, seconds: float, seed: int, tier: str) -> Reading:
    """Measure in the model of switches that pause, which is the same on every tier."""
    return _read_lossless(setting, seed)


@lru_cache(maxsize=64)
def _read_lossless(setting: Lossless, seed: int) -> Reading:
    """Read the model of switches that pause. Servers have unlimited memory, and a queue for each of their ports, so
    that only switches pause."""
    packets = max(1, round(setting.model_kb * 1000 / SEGMENT_BYTES))
    ways = [lossless_way(setting, *pair) for pair in PAIRS]
    servers = {node for way in ways for node in way if not isinstance(node, str)}
    run = drain(
        ways,
        packets,
        rates=_rates(setting),
        rooms=dict.fromkeys(servers, 10**9),
        room=setting.room_packets,
        window=max(1, setting.window_kb * 1024 // SEGMENT_BYTES),
        past_head={*servers, *(node for way in ways for node in way if setting.looks_past_head)},
        seed=seed,
    )
    unit = packets * SEGMENT_BYTES / FULL_PACKET_BYTES  # payload time of a flow on an idle link, in packet times
    reading = _finish(run.ends(len(PAIRS)) / unit, run.delivered_at / unit, packets)
    arrived = Check("packets that arrived (share)", len(run.of_flow) / packets / 380, at_least=1)
    return reading | Reading(checks=[arrived])


def read_all_to_all(run: Measurements, setting: AllToAll) -> Reading:
    """Read the ends of the flows and the arrivals of their packets."""
    unit_s = setting.flow_kb * 8e-3 / FLOWS_MBPS
    ends = (run.flows.start_s + run.flows.completion_ms / 1e3).to_numpy() / unit_s
    full = run.packets[run.packets.size_bytes >= FULL_PACKET_BYTES - SEGMENT_BYTES + 1]
    payload = (full.size_bytes - (FULL_PACKET_BYTES - SEGMENT_BYTES)).sum() / (setting.flow_kb * 1000)
    arrived = np.sort(full.time_s.to_numpy()) / unit_s
    ended = Check("flows that ended", float(np.isfinite(ends).sum()), at_least=380)
    reading = _finish(ends, arrived, len(arrived) / payload if payload else 1.0)
    return reading | Reading(checks=[ended])


def _finish(ends: np.ndarray, arrivals: np.ndarray, packets: float) -> Reading:
    """Read the ends of flows and the arrivals of packets. Both are in units of a flow's time on an idle link. packets :
    number of packets in a flow."""
    finish = float(np.max(ends))
    edges = np.linspace(0, finish, INTERVALS + 1)
    rate = np.histogram(arrivals, edges)[0] / packets / np.diff(edges)
    numbers = {
        "finish": finish,
        "peak_rates": float(rate.max()),
        "one_hop_share": float(ends[ONE_HOP].max() / finish),
    }
    return Reading(numbers, {"throughput": pd.DataFrame({"time": edges[:-1], "rates": rate})})


def flows_on_links(setting: Machines) -> dict[tuple[Any, Any], int]:
    """Count how many of the 380 flows cross each link of the model. Processors count as links. These counts give a
    lower bound on the finish."""
    return Counter(link for pair in PAIRS for link in pairwise(lossless_way(setting, *pair)))


def busiest_links() -> pd.DataFrame:
    """Compute the least finish of 380 flows by counting alone: network, flows (on the busiest link), least_finish (in
    units of a flow's payload time on an idle link, headers included)."""
    rows = []
    for network, changes in (
        ("DCell", {}),
        ("DCell, processor's limit", PROCESSOR),
        ("tree", TREE),
        ("tree, 4 x uplinks", TREE | {"uplink_share": 4.0}),
    ):
        setting = replace(Machines(), **changes)
        flows, rates = flows_on_links(setting), _rates(setting)
        busy = {link: count / rates.get(link, 1.0) for link, count in flows.items()}
        busiest = max(busy, key=lambda link: (busy[link], str(link)))
        rows.append((network, flows[busiest], busy[busiest] * FULL_PACKET_BYTES / SEGMENT_BYTES))
    return pd.DataFrame(rows, columns=["network", "flows", "least_finish"])


FIG_12 = Part(setting=AllToAll(), experiment=all_to_all, read=read_all_to_all, until_complete=True)


# Lengths of paths.


def measure_lengths(setting: Lengths, seconds: float, seed: int, tier: str) -> Reading:
    """Measure the paths of DCellRouting, and the shortest ones; the same on every tier."""
    network = DCell(setting.n, 2)
    routed, shortest = network.route_lengths(), network.shortest_lengths()
    numbers = {
        "routed_hops": float(routed[routed > 0].mean()),
        "shortest_hops": float(shortest[shortest > 0].mean()),
    }
    return Reading(numbers, checks=[Check("longest path (hops)", float(routed.max()), at_most=7)])


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case", sort=False).mean()
    failed, ideal, limited = table.loc["phases"], table.loc["dcell"], table.loc[LIMITED]
    tree, paused = table.loc["tree"], table.loc["tree, pause"]
    return (
        f"A link costs the connection {failed.link_outage_s:.1f} s and a server {failed.node_outage_s:.1f} s; the tree "
        f"takes {tree.finish / ideal.finish:.2f} times as long as DCell on machines that cost nothing, and "
        f"{paused.finish / limited.finish:.2f} times with the authors' pause and processors (published: 1.96)."
    )


TREE: dict[str, Any] = {"network": "tree"}
PROCESSOR: dict[str, Any] = {"processor_share": 1.07}  # 910 Mb/s: 40 to 45 % of two cores; one core runs the driver
LIMITED = "dcell, pause, processor"
