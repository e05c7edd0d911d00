"""DCell: Guo et al., "DCell: A Scalable and Fault-Tolerant Network Structure for Data Centers", SIGCOMM 2008, section 7.3
and Figs 11 and 12.

Twenty servers in a DCell_1 of n = 4 forward for each other. One connection outlives a link and a server on its path;
380 flows between all of them end in half the time that a two-level tree takes. What the authors' machines add, processors
that forward and switches that pause, are switches here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.dcell import DCell, Server, ServerPath, two_level_tree
from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers import _drawing as drawing
from netrepro.papers._running import run_experiment
from netrepro.papers._study import Evidence, Knob, Play, Runs, Scale, Study, curve, each, ratio
from netrepro.papers._trust import Check
from netrepro.queueing.backpressure import Drained, drain
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

SOURCE, DESTINATION = (0, 0), (4, 3)
FIRST_LINK, FIRST_SERVER = ((0, 3), (4, 0)), (0, 3)  # that fail
NEW_LINK = ((1, 3), (4, 1))  # on the new path
SEGMENT_BYTES = 1448
INTERVALS = 40  # of a run, in which throughput is counted
BIN_S = 0.5
PUBLISHED_S = 40.0  # 5 GB at 1 Gb/s: the unit of time of Fig. 12
KINDS = ("failures", "all to all", "lossless", "lengths")


@dataclass(frozen=True)
class Setting:
    """kind : one of KINDS: the run of Fig. 11; 380 TCP flows of Fig. 12; the same 380 in the model of switches that
    pause; lengths of paths.

    timeline_s : of Fig. 11: link out, link back, server down, end. reroutes : whether routes follow failures. hello_s,
    timeout_s : the interval of link state, and the silence after which a server counts as down. more_failed : servers
    that go down with FIRST_SERVER. network : "dcell" or "tree". processor_share : what a server's processor can handle,
    in rates of a link; 0 for any amount. uplink_share : rate of the tree's uplinks. flow_kb : of each flow (1000 bytes).
    looks_past_head : of switches that pause. n : of DCells whose paths are measured. room_packets : of a port, or of an
    input that pauses. window_kb : what a receiver lets be on its way (Windows Server 2003 without window scaling).
    """

    kind: str = "failures"
    rate_mbps: float = 100.0
    timeline_s: tuple[float, ...] = (4.0, 12.0, 20.0, 34.0)
    reroutes: bool = True
    hello_s: float = 1.0
    timeout_s: float = 5.0
    more_failed: tuple[Server, ...] = ()
    network: str = "dcell"
    processor_share: float = 0.0
    uplink_share: float = 1.0
    flow_kb: int = 1000
    looks_past_head: bool = False
    n: int = 4
    room_packets: int = 100
    window_kb: int = 64

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.network not in ("dcell", "tree"):
            raise NetreproError(f"{self.kind!r} on {self.network!r}", f"give {', '.join(KINDS)}; on dcell or tree")
        if list(self.timeline_s) != sorted(set(self.timeline_s)) or len(self.timeline_s) != 4 or self.timeline_s[0] <= 1:
            raise NetreproError(
                f"a timeline {self.timeline_s}", "give four ascending times, the first beyond 1 s: out, back, down, end"
            )


NETWORK = DCell(4, 1)
FAST = DropTail(packets=10_000)
SERVER_QUEUE = DropTail(packets=1000)  # Linux's; the authors' driver's is not known


def _link(setting: Setting) -> Link:
    return Link(setting.rate_mbps, 0.005, DropTail(packets=setting.room_packets))


def _inside(setting: Setting) -> Link:
    """From a server's applications to its network, and back: no limit."""
    return Link(10 * setting.rate_mbps, 0.001, FAST)


def _tcp(setting: Setting) -> Tcp:
    return Tcp("reno", receive_window_bytes=setting.window_kb * 1024)


# Fig. 11: failures.


@dataclass(frozen=True)
class Failure:
    """What servers and cables are down from a moment on, and when the source's routing knows."""

    at_s: float
    known_s: float
    servers: tuple[Server, ...] = ()
    cables: tuple[tuple[Server, Server], ...] = ()


def failures(setting: Setting, seed: int) -> list[Failure]:
    """The link goes, comes back, and the server goes.

    Link state goes out every `hello_s`, from a moment that the seed draws. A server that senses its link's state tells
    of it the next time; of a server that is down the others know `timeout_s` after its last word.
    """
    out_s, back_s, down_s, _ = setting.timeline_s
    phase_s = float(np.random.default_rng([seed, 11]).random()) * setting.hello_s

    def last_word(before_s: float) -> float:
        return phase_s + math.floor((before_s - phase_s) / setting.hello_s) * setting.hello_s

    return [
        Failure(out_s, last_word(out_s) + setting.hello_s, cables=(FIRST_LINK,)),
        Failure(back_s, last_word(back_s) + setting.hello_s),
        Failure(down_s, last_word(down_s) + setting.timeout_s, servers=(FIRST_SERVER, *setting.more_failed)),
    ]


def known_paths(setting: Setting, seed: int) -> list[tuple[float, ServerPath]]:
    """(from when, the path that fault-tolerant routing gives); where it gives none the one before stays."""
    found = [(0.0, NETWORK.route(SOURCE, DESTINATION))]
    for failure in failures(setting, seed) if setting.reroutes else ():
        broken = [frozenset(cable) for cable in failure.cables]
        path = NETWORK.route_around(SOURCE, DESTINATION, failure.servers, broken, state_level=1)
        if path is not None and path != found[-1][1]:
            found.append((failure.known_s, path))
    return [(at_s, path) for at_s, path in found if at_s < setting.timeline_s[-1]]


def _failure_experiment(setting: Setting, seed: int) -> Experiment:
    network = NETWORK.topology(_link(setting), _inside(setting))
    out_s, back_s, down_s, end_s = setting.timeline_s
    one, other = map(NETWORK.forwarder, FIRST_LINK)
    changes = [LinkChange(out_s, one, other, up=False), LinkChange(back_s, one, other, up=True)]
    for server in (FIRST_SERVER, *setting.more_failed):
        name = NETWORK.forwarder(server)
        changes += [LinkChange(down_s, name, peer, up=False) for peer in network.graph[name]]
    over = tuple((at_s, tuple(_both_ways(NETWORK.names(path)))) for at_s, path in known_paths(setting, seed))
    ports = _last_port(DESTINATION), tuple(map(NETWORK.forwarder, NEW_LINK))
    return Experiment(
        network,
        (Flow(NETWORK.host(SOURCE), NETWORK.host(DESTINATION), duration_s=end_s),),
        end_s,
        seed,
        Measure(packets=ports),
        _tcp(setting),
        Routing(over=over),
        tuple(changes),
    )


def _both_ways(names: Iterable[str]) -> Iterator[Port]:
    for one, other in pairwise(names):
        yield from ((one, other), (other, one))


def _last_port(server: Server) -> Port:
    return NETWORK.forwarder(server), NETWORK.host(server)


def _times_s(found: Measurements, source: str, destination: str) -> np.ndarray:
    packets = found.packets
    return packets.time_s[(packets.source == source) & (packets.destination == destination)].to_numpy()


def longest_silence(times_s: np.ndarray, begin_s: float, end_s: float) -> float:
    """The longest time without an arrival between two moments."""
    within = times_s[(times_s >= begin_s) & (times_s <= end_s)]
    return float(np.diff(np.concatenate([[begin_s], within, [end_s]])).max())


def _read_failures(found: Measurements, setting: Setting) -> dict[str, Any]:
    out_s, back_s, down_s, end_s = setting.timeline_s
    came_s = _times_s(found, *_last_port(DESTINATION))
    crossed_s = _times_s(found, *map(NETWORK.forwarder, NEW_LINK))
    edges = np.arange(0, end_s + BIN_S / 2, BIN_S)
    goodput = np.histogram(came_s, edges)[0] * SEGMENT_BYTES * 8e-6 / BIN_S

    def mean_mbps(begin_s: float, end_s: float) -> float:
        return float(((came_s >= begin_s) & (came_s < end_s)).sum()) * SEGMENT_BYTES * 8e-6 / (end_s - begin_s)

    link_s, node_s = longest_silence(came_s, out_s, back_s), longest_silence(came_s, down_s, end_s)
    afterwards = (came_s > down_s + 0.1).sum()
    before_mbps, after_mbps = mean_mbps(1.0, out_s), mean_mbps(end_s - 4.0, end_s)
    return {
        "link_outage_s": link_s,
        "node_outage_s": node_s,
        "outage_ratio": node_s / link_s,
        "before_mbps": before_mbps,
        "detour_share": after_mbps / before_mbps,
        "new_path_share": min(1.0, float((crossed_s > down_s + 0.1).sum()) / afterwards) if afterwards else 0.0,
        "goodput": pd.DataFrame({"time_s": edges[:-1], "goodput_share": goodput / setting.rate_mbps}),
        "checks": [Check("goodput before the first failure (share of the rate)", before_mbps / setting.rate_mbps, 0.9)],
        "_fidelity": found.fidelity,
    }


# Fig. 12: all to all.


def pairs() -> list[tuple[Server, Server]]:
    """Every two servers, both ways: 380."""
    return [(a, b) for a in NETWORK.servers for b in NETWORK.servers if a != b]


def one_hop_pairs() -> np.ndarray:
    """Which of `pairs` have a cable between their cells of their own: 20."""
    return np.array([b == NETWORK.peer(a, 1) for a, b in pairs()])


def all_to_all(setting: Setting, seed: int) -> Experiment:
    """380 flows that start within a hundredth of a flow's time, on DCell over the paths of DCellRouting or on the tree."""
    size_bytes, link = setting.flow_kb * 1000, _link(setting)
    flow_s = size_bytes * 8e-6 / setting.rate_mbps
    starts = np.random.default_rng([seed, 12]).random(len(pairs())) * flow_s / 100
    if setting.network == "tree":
        network = two_level_tree(5, 4, link, replace(link, rate_mbps=setting.uplink_share * setting.rate_mbps))
        paths: list[tuple[str, ...]] = [()] * len(pairs())
        ports = tuple((f"s{place // 4 + 1}", f"h{place + 1}") for place in range(20))
    else:
        share = setting.processor_share
        queued = replace(link, queue=SERVER_QUEUE)
        processor = replace(queued, rate_mbps=share * setting.rate_mbps, delay_ms=0.001) if share else _inside(setting)
        network = NETWORK.split_topology(queued, _inside(setting), processor)
        network = _with_switch_ports(network, link)
        paths = [NETWORK.split_names(NETWORK.route(a, b)) for a, b in pairs()]
        ports = tuple((NETWORK.sender(each), NETWORK.host(each)) for each in NETWORK.servers)
    flows = [
        Flow(NETWORK.host(a), NETWORK.host(b), size_bytes=size_bytes, start_s=float(start), path=path)
        for (a, b), start, path in zip(pairs(), starts, paths, strict=True)
    ]
    return Experiment(network, tuple(flows), 400 * flow_s, seed, Measure(packets=ports), _tcp(setting))


def _with_switch_ports(network: Any, link: Link) -> Any:
    """Mini-switches have short queues, servers long ones."""
    minis = {NETWORK.mini_switch(each, 2) for each in NETWORK.servers}
    cables = [replace(each, forward=link) if each.first in minis else each for each in network.cables]
    return replace(network, cables=tuple(cables))


def lossless_ways(setting: Setting) -> tuple[list[tuple[Any, ...]], dict[tuple[Any, Any], float], dict[Any, int]]:
    """(ways of the flows, rates of links that differ, rooms of inputs that differ) of the model of switches that pause.

    Servers that forward have memory for all that comes; so only switches pause.
    """
    ways: list[tuple[Any, ...]] = []
    rates: dict[tuple[Any, Any], float] = {}
    rooms: dict[Any, int] = {}
    for a, b in pairs():
        if setting.network == "tree":
            up = [] if a[0] == b[0] else ["root"]
            ways.append((a, f"mini {a[0]}", *up, *([f"mini {b[0]}"] if up else []), b))
            continue
        names = NETWORK.split_names(NETWORK.route(a, b))
        ways.append(names)
        for one, other in pairwise(names):
            if {one[0], other[0]} & {"h"}:
                rates[one, other] = 1000.0
    if setting.network == "tree":
        for cell in range(5):
            rates |= {(f"mini {cell}", "root"): setting.uplink_share, ("root", f"mini {cell}"): setting.uplink_share}
    else:
        for each in NETWORK.servers:
            rates[NETWORK.forwarder(each), NETWORK.sender(each)] = setting.processor_share or 1000.0
            rooms |= {NETWORK.forwarder(each): 10**9, NETWORK.sender(each): 10**9}
    return ways, rates, rooms


def _read_lossless(setting: Setting, seed: int) -> dict[str, Any]:
    packets = max(1, round(setting.flow_kb * 1000 / SEGMENT_BYTES))
    ways, rates, rooms = lossless_ways(setting)
    window = max(1, setting.window_kb * 1024 // SEGMENT_BYTES)
    found = drain(
        ways,
        packets,
        rates=rates,
        rooms=rooms,
        room=setting.room_packets,
        window=window,
        looks_past_head=setting.looks_past_head,
        seed=seed,
    )
    unit = packets * SEGMENT_BYTES / FULL_PACKET_BYTES  # a flow's payload on an idle link, in packets' times
    readings = _finish(found.ends(len(ways)) / unit, found.delivered_at / unit, packets)
    return readings | {"checks": [Check("flows that ended", float(len(ways)), at_least=380)]}


def _read_packets(found: Measurements, setting: Setting) -> dict[str, Any]:
    unit_s = setting.flow_kb * 8e-3 / setting.rate_mbps
    ends = (found.flows.start_s + found.flows.completion_ms / 1e3).to_numpy() / unit_s
    full = found.packets[found.packets.size_bytes >= FULL_PACKET_BYTES - SEGMENT_BYTES + 1]
    payload = (full.size_bytes - (FULL_PACKET_BYTES - SEGMENT_BYTES)).sum() / (setting.flow_kb * 1000)
    arrived = np.sort(full.time_s.to_numpy()) / unit_s
    readings = _finish(ends, arrived, len(arrived) / payload if payload else 1.0)
    readings["repeated_share"] = float(found.flows.retransmitted_packets.sum() / max(1, len(arrived)))
    readings["timeouts"] = float(found.flows.timeouts.sum())
    checks = [Check("flows that ended", float(np.isfinite(ends).sum()), at_least=380)]
    return readings | {"checks": checks, "_fidelity": found.fidelity}


def _finish(ends: np.ndarray, arrivals: np.ndarray, packets: float) -> dict[str, Any]:
    """ends : of flows; arrivals : of packets; both in times that a flow takes on an idle link. packets : of a flow."""
    finish = float(np.max(ends))
    edges = np.linspace(0, finish, INTERVALS + 1)
    rate = np.histogram(arrivals, edges)[0] / packets / np.diff(edges)
    return {
        "finish": finish,
        "peak_rates": float(rate.max()),
        "mean_rates": len(ends) / finish,
        "one_hop_share": float(ends[one_hop_pairs()].max() / finish),
        "throughput": pd.DataFrame({"time": edges[:-1], "rates": rate}),
    }


def flows_on_links(setting: Setting) -> dict[tuple[Any, Any], int]:
    """How many of the 380 flows cross each link of the model, processors among them: what bounds the finish below."""
    found: dict[tuple[Any, Any], int] = {}
    for way in lossless_ways(setting)[0]:
        for link in pairwise(way):
            found[link] = found.get(link, 0) + 1
    return found


# All kinds.


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> dict[str, Any]:
    """What is read of one run: see `Setting.kind`. The model and the lengths are computed, whatever the tier."""
    if setting.kind == "failures":
        return _read_failures(run_experiment(_failure_experiment(setting, seed), tier), setting)
    if setting.kind == "all to all":
        return _read_packets(run_experiment(all_to_all(setting, seed), tier, until_complete=True), setting)
    if setting.kind == "lossless":
        return _read_lossless(setting, seed)
    network = DCell(setting.n, 2)
    routed, shortest = network.route_lengths(), network.shortest_lengths()
    return {
        "routed_hops": float(routed[routed > 0].mean()),
        "shortest_hops": float(shortest[shortest > 0].mean()),
        "checks": [Check("longest path (hops)", float(routed.max()), at_most=7)],
    }


def answer(runs: Runs) -> str:
    """The question answered in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case", sort=False).first()
    failed, ideal, limited = table.loc["fig 11"], table.loc["dcell"], table.loc["dcell, processor"]
    tree, paused = table.loc["tree"], table.loc["tree, pause"]
    return (
        f"A link costs the connection {failed.link_outage_s:.1f} s and a server {failed.node_outage_s:.1f} s; the tree "
        f"takes {tree.finish / ideal.finish:.2f} times as long as DCell on machines that cost nothing, and "
        f"{paused.finish / limited.finish:.2f} times with the authors' pause and processors (published: 1.96)."
    )
