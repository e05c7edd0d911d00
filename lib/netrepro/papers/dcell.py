"""DCell: Guo et al., "DCell: A Scalable and Fault-Tolerant Network Structure for Data Centers", SIGCOMM 2008,
section 7.3 and Figs 11 and 12.

Twenty servers in a DCell_1 of n = 4 forward for each other. One connection outlives a link and a server on its path;
380 flows between all of them end in half the time that a two-level tree takes. What the authors' machines add,
processors that forward and switches that pause, can be had and left out here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.dcell import DCell, Server, ServerPath, longest_path, two_level_tree
from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.queueing.backpressure import Drained, drain
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each, ratio, run_experiment
from netrepro.study import pictures as drawing
from netrepro.study.figures import Bars, Course, Level, Look, Panel, Picture, Sweep, beside, plot
from netrepro.study.setting import setting
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

SOURCE, DESTINATION = (0, 0), (4, 3)
FIRST_LINK, FIRST_SERVER = ((0, 3), (4, 0)), (0, 3)  # that fail
NEW_LINK = ((1, 3), (4, 1))  # on the new path
SEGMENT_BYTES = 1448
INTERVALS = 40  # of a run, in which throughput is counted
BIN_S = 0.5
PUBLISHED_S = 40.0  # 5 GB at 1 Gb/s: the unit of time of Fig. 12
POSITIVE = ("rate_mbps", "flows_mbps", "uplink_share", "flow_kb", "model_kb", "server_packets")
KINDS = ("failures", "all to all", "lossless", "lengths")


@dataclass(frozen=True)
class Setting:
    """kind : one of KINDS: the run of Fig. 11; 380 TCP flows of Fig. 12; the same 380 in the model of switches that
    pause; lengths of paths.

    timeline_s : of Fig. 11: link out, link back, server down, end. reroutes : whether routes follow failures. hello_s,
    timeout_s : the interval of link state, and the silence after which a server counts as down. hello_phase : share of
    the interval that has passed at 0 s until link state first goes out; below 0: drawn from the seed. more_failed :
    servers that go down with FIRST_SERVER. network : "dcell" or "tree". processor_share : what a server's processor
    can handle, in rates of a link; 0 for any amount. uplink_share : rate of the tree's uplinks. flow_kb, model_kb : of
    each flow, and of each in the model (1000 bytes). rate_mbps, flows_mbps : of all links in Fig. 11's and in Fig.
    12's runs. server_packets : that wait in a server for a port or its processor. looks_past_head : of switches that
    pause. n : of DCells whose paths are measured. room_packets : of a port, or of an input that pauses. window_kb :
    what a receiver lets be on its way (Windows Server 2003 without window scaling).
    """

    kind: str = "failures"
    rate_mbps: float = 100.0
    timeline_s: tuple[float, ...] = (4.0, 12.0, 20.0, 34.0)
    reroutes: bool = True
    hello_s: float = setting(1.0, "servers tell of their links so often", "s", low=0.01, high=5)
    timeout_s: float = setting(5.0, "silence after which a server counts as down", "s", low=0.01, high=60)
    hello_phase: float = -1.0
    more_failed: tuple[Server, ...] = ()
    network: str = "dcell"
    processor_share: float = 0.0
    uplink_share: float = 1.0
    flow_kb: int = 4000
    model_kb: int = 1000
    flows_mbps: float = 100.0
    server_packets: int = 1000
    looks_past_head: bool = False
    n: int = 4
    room_packets: int = setting(100, "of a switch's port, or of an input that pauses", "packets", low=2, high=100_000)
    window_kb: int = setting(64, "what a receiver lets be on its way", "KiB", low=2, high=10_000)

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.network not in ("dcell", "tree"):
            raise NetreproError(f"{self.kind!r} on {self.network!r}", f"give {', '.join(KINDS)}; on dcell or tree")
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise NetreproError(f"{name} = {getattr(self, name)}", "give more than 0")
        if self.processor_share < 0:
            raise NetreproError(f"processor_share = {self.processor_share:g}", "give 0 (no limit) or more")
        times = list(self.timeline_s)
        if times != sorted(set(times)) or len(times) != 4 or times[0] <= 1:
            raise NetreproError(
                f"a timeline {self.timeline_s}", "give four ascending times, the first beyond 1 s: out, back, down, end"
            )


NETWORK = DCell(4, 1)
FAST = DropTail(packets=10_000)


def _link(rate_mbps: float, packets: int) -> Link:
    return Link(rate_mbps, 0.005, DropTail(packets=packets))


def _inside(rate_mbps: float) -> Link:
    """Make the link from a server's applications to its network and back, which sets no limit."""
    return Link(10 * rate_mbps, 0.001, FAST)


def _tcp(setting: Setting) -> Tcp:
    return Tcp("reno", receive_window_bytes=setting.window_kb * 1024)


# Fig. 11: failures.


@dataclass(frozen=True)
class Failure:
    """The servers and cables that are down from a moment on, and the moment at which the source's routing knows."""

    at_s: float
    known_s: float
    servers: tuple[Server, ...] = ()
    cables: tuple[tuple[Server, Server], ...] = ()


def failures(setting: Setting, seed: int) -> list[Failure]:
    """List the failures: the link goes, comes back, and the server goes.

    Link state goes out every `hello_s`, from a moment that the seed draws where the setting gives none. A server that
    senses its link's state tells of it the next time; of a server that is down the others know `timeout_s` after its
    last word.
    """
    out_s, back_s, down_s, _ = setting.timeline_s
    drawn = float(np.random.default_rng([seed, 11]).random())
    phase_s = (drawn if setting.hello_phase < 0 else setting.hello_phase) * setting.hello_s

    def last_word(before_s: float) -> float:
        return phase_s + math.floor((before_s - phase_s) / setting.hello_s) * setting.hello_s

    return [
        Failure(out_s, last_word(out_s) + setting.hello_s, cables=(FIRST_LINK,)),
        Failure(back_s, last_word(back_s) + setting.hello_s),
        Failure(down_s, last_word(down_s) + setting.timeout_s, servers=(FIRST_SERVER, *setting.more_failed)),
    ]


def known_paths(setting: Setting, seed: int) -> list[tuple[float, ServerPath]]:
    """List (from when, the path that fault-tolerant routing gives). Where it gives none, the path before stays."""
    found = [(0.0, NETWORK.route(SOURCE, DESTINATION))]
    for failure in failures(setting, seed) if setting.reroutes else ():
        broken = [frozenset(cable) for cable in failure.cables]
        path = NETWORK.route_around(SOURCE, DESTINATION, failure.servers, broken, state_level=1)
        if path is not None and path != found[-1][1]:
            found.append((failure.known_s, path))
    return [(at_s, path) for at_s, path in found if at_s < setting.timeline_s[-1]]


def failure_experiment(setting: Setting, seed: int) -> Experiment:
    """Make the experiment with one connection over failures. Arrivals are recorded, and what crosses the link of the
    new path."""
    network = NETWORK.topology(_link(setting.rate_mbps, setting.room_packets), _inside(setting.rate_mbps))
    out_s, back_s, down_s, end_s = setting.timeline_s
    one, other = map(NETWORK.forwarder, FIRST_LINK)
    changes = [LinkChange(out_s, one, other, up=False), LinkChange(back_s, one, other, up=True)]
    for server in (FIRST_SERVER, *setting.more_failed):
        name = NETWORK.forwarder(server)
        changes += [LinkChange(down_s, name, peer, up=False) for peer in network.graph[name]]
    over = tuple((at_s, tuple(_both_ways(NETWORK.names(path)))) for at_s, path in known_paths(setting, seed))
    ports = _last_port(DESTINATION), (NETWORK.forwarder(NEW_LINK[0]), NETWORK.forwarder(NEW_LINK[1]))
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
    """Compute the longest time without an arrival between two moments."""
    within = times_s[(times_s >= begin_s) & (times_s <= end_s)]
    return float(np.diff(np.concatenate([[begin_s], within, [end_s]])).max())


def _read_failures(found: Measurements, setting: Setting) -> Reading:
    out_s, back_s, down_s, end_s = setting.timeline_s
    came_s = _times_s(found, *_last_port(DESTINATION))
    crossed_s = _times_s(found, *map(NETWORK.forwarder, NEW_LINK))
    edges = np.arange(0, end_s + BIN_S / 2, BIN_S)
    goodput = np.histogram(came_s, edges)[0] * SEGMENT_BYTES * 8e-6 / BIN_S

    def mean_mbps(begin_s: float, end_s: float) -> float:
        return float(((came_s >= begin_s) & (came_s < end_s)).sum()) * SEGMENT_BYTES * 8e-6 / (end_s - begin_s)

    link_s, node_s = longest_silence(came_s, out_s, back_s), longest_silence(came_s, down_s, end_s)
    afterwards = (came_s > down_s + 0.1).sum()
    before_mbps, after_mbps = mean_mbps(1.0, out_s), mean_mbps(end_s - 1.0, end_s)
    numbers = {
        "link_outage_s": link_s,
        "node_outage_s": node_s,
        "outage_ratio": node_s / link_s,
        "before_mbps": before_mbps,
        "detour_share": after_mbps / before_mbps,
        "new_path_share": min(1.0, float((crossed_s > down_s + 0.1).sum()) / afterwards) if afterwards else 0.0,
    }
    table = pd.DataFrame({"time_s": edges[:-1], "goodput_share": goodput / setting.rate_mbps})
    before = Check("goodput before the first failure (share of the rate)", before_mbps / setting.rate_mbps, 0.9)
    return Reading(numbers, {"goodput": table}, [before], found.fidelity)


# Fig. 12: all to all.


def pairs() -> list[tuple[Server, Server]]:
    """Return all ordered pairs of two servers: 380."""
    return [(a, b) for a in NETWORK.servers for b in NETWORK.servers if a != b]


def one_hop_pairs() -> np.ndarray:
    """Mark the 20 of `pairs` that have a cable of their own between their cells."""
    return np.array([b == NETWORK.peer(a, 1) for a, b in pairs()])


def all_to_all(setting: Setting, seed: int) -> Experiment:
    """Make 380 flows that start within a hundredth of a flow's time, on DCell (paths of DCellRouting) or on the
    tree."""
    size_bytes, rate_mbps = setting.flow_kb * 1000, setting.flows_mbps
    link, inside = _link(rate_mbps, setting.room_packets), _inside(rate_mbps)
    flow_s = size_bytes * 8e-6 / rate_mbps
    starts = np.random.default_rng([seed, 12]).random(len(pairs())) * flow_s / 100
    if setting.network == "tree":
        network = two_level_tree(5, 4, link, replace(link, rate_mbps=setting.uplink_share * rate_mbps))
        paths: list[tuple[str, ...]] = [()] * len(pairs())
        ports = tuple((f"s{place // 4 + 1}", f"h{place + 1}") for place in range(20))
    else:
        share, queued = setting.processor_share, _link(rate_mbps, setting.server_packets)
        processor = replace(queued, rate_mbps=share * rate_mbps, delay_ms=0.001) if share else inside
        network = _with_switch_ports(NETWORK.split_topology(queued, inside, processor), link)
        paths = [NETWORK.split_names(NETWORK.route(a, b)) for a, b in pairs()]
        ports = tuple((NETWORK.sender(each), NETWORK.host(each)) for each in NETWORK.servers)
    flows = [
        Flow(NETWORK.host(a), NETWORK.host(b), size_bytes=size_bytes, start_s=float(start), path=path)
        for (a, b), start, path in zip(pairs(), starts, paths, strict=True)
    ]
    most_s = 400 * flow_s + 60.0  # a timer that has doubled eight times
    return Experiment(network, tuple(flows), most_s, seed, Measure(packets=ports), _tcp(setting))


def _with_switch_ports(network: Any, link: Link) -> Any:
    """Give mini-switches short queues, while servers keep long ones."""
    minis = {NETWORK.mini_switch(each, 2) for each in NETWORK.servers}
    cables = [replace(each, forward=link) if each.first in minis else each for each in network.cables]
    return replace(network, cables=tuple(cables))


def lossless_way(setting: Setting, source: Server, destination: Server) -> tuple[Any, ...]:
    """Return the nodes that a flow's packets pass in the model of switches that pause. Servers with a processor's limit
    are two nodes, what comes in and what goes out."""
    if setting.network == "tree":
        beyond = () if source[0] == destination[0] else ("root", f"mini {destination[0]}")
        return source, f"mini {source[0]}", *beyond, destination
    path = NETWORK.route(source, destination)
    found: list[Any] = []
    for place, server in enumerate(path):
        if place and NETWORK.level(path[place - 1], server) == 0:
            found.append(f"mini {server[0]}")
        found += [("in", server), ("out", server)] if setting.processor_share else [("out", server)]
    return tuple(found)


@lru_cache(maxsize=64)
def _drained(setting: Setting, seed: int) -> Drained:
    """Simulate the model of switches that pause. Servers have memory for all that comes, and a queue for each of their
    ports, so that only switches pause."""
    ways = [lossless_way(setting, *pair) for pair in pairs()]
    servers = {node for way in ways for node in way if not isinstance(node, str)}
    rates: dict[tuple[Any, Any], float] = {}
    if setting.network == "tree":
        for cell in range(5):
            rates |= dict.fromkeys(((f"mini {cell}", "root"), ("root", f"mini {cell}")), setting.uplink_share)
    elif setting.processor_share:
        rates |= {(("in", server), ("out", server)): setting.processor_share for server in NETWORK.servers}
    return drain(
        ways,
        _model_packets(setting),
        rates=rates,
        rooms=dict.fromkeys(servers, 10**9),
        room=setting.room_packets,
        window=max(1, setting.window_kb * 1024 // SEGMENT_BYTES),
        past_head={*servers, *(node for way in ways for node in way if setting.looks_past_head)},
        seed=seed,
    )


def _model_packets(setting: Setting) -> int:
    return max(1, round(setting.model_kb * 1000 / SEGMENT_BYTES))


def _read_lossless(setting: Setting, seed: int) -> Reading:
    packets, found = _model_packets(setting), _drained(setting, seed)
    unit = packets * SEGMENT_BYTES / FULL_PACKET_BYTES  # a flow's payload on an idle link, in packets' times
    reading = _finish(found.ends(len(pairs())) / unit, found.delivered_at / unit, packets)
    arrived = Check("packets that arrived (share)", len(found.of_flow) / packets / 380, at_least=1)
    return reading | Reading(checks=[arrived])


def _read_packets(found: Measurements, setting: Setting) -> Reading:
    unit_s = setting.flow_kb * 8e-3 / setting.flows_mbps
    ends = (found.flows.start_s + found.flows.completion_ms / 1e3).to_numpy() / unit_s
    full = found.packets[found.packets.size_bytes >= FULL_PACKET_BYTES - SEGMENT_BYTES + 1]
    payload = (full.size_bytes - (FULL_PACKET_BYTES - SEGMENT_BYTES)).sum() / (setting.flow_kb * 1000)
    arrived = np.sort(full.time_s.to_numpy()) / unit_s
    numbers = {
        "repeated_share": float(found.flows.retransmitted_packets.sum() / max(1, len(arrived))),
        "timeouts": float(found.flows.timeouts.sum()),
    }
    ended = Check("flows that ended", float(np.isfinite(ends).sum()), at_least=380)
    reading = _finish(ends, arrived, len(arrived) / payload if payload else 1.0)
    return reading | Reading(numbers, checks=[ended], fidelity=found.fidelity)


def _finish(ends: np.ndarray, arrivals: np.ndarray, packets: float) -> Reading:
    """Read the ends of flows and the arrivals of packets, both in times that a flow takes on an idle link. packets : of
    a flow."""
    finish = float(np.max(ends))
    edges = np.linspace(0, finish, INTERVALS + 1)
    rate = np.histogram(arrivals, edges)[0] / packets / np.diff(edges)
    numbers = {
        "finish": finish,
        "peak_rates": float(rate.max()),
        "mean_rates": len(ends) / finish,
        "one_hop_share": float(ends[one_hop_pairs()].max() / finish),
    }
    return Reading(numbers, {"throughput": pd.DataFrame({"time": edges[:-1], "rates": rate})})


def flows_on_links(setting: Setting) -> dict[tuple[Any, Any], int]:
    """Count the flows, of all 380, that cross each link of the model. Processors count as links. These counts bound the
    finish from below."""
    return Counter(link for pair in pairs() for link in pairwise(lossless_way(setting, *pair)))


def busiest_links() -> pd.DataFrame:
    """Compute the least finish of 380 flows by counting alone: network, busiest, flows (that cross it), least_finish
    (times of a flow's bytes on an idle link, headers included)."""
    rows = []
    for network, changes in (
        ("DCell", {}),
        ("DCell, processor's limit", PROCESSOR),
        ("tree", TREE),
        ("tree, 4 x uplinks", TREE | {"uplink_share": 4.0}),
    ):
        setting = replace(Setting(), **changes)
        rated = {link: flows / _rate_share(setting, link) for link, flows in flows_on_links(setting).items()}
        busiest = max(rated, key=lambda link: (rated[link], str(link)))
        kind = _kind_of_link(busiest)
        least = rated[busiest] * FULL_PACKET_BYTES / SEGMENT_BYTES
        rows.append((network, kind, flows_on_links(setting)[busiest], least))
    return pd.DataFrame(rows, columns=["network", "busiest", "flows", "least_finish"])


def _rate_share(setting: Setting, link: tuple[Any, Any]) -> float:
    kind = _kind_of_link(link)
    return {"processor": setting.processor_share, "uplink": setting.uplink_share}.get(kind, 1.0)


def _kind_of_link(link: tuple[Any, Any]) -> str:
    one, other = link
    if "root" in link:
        return "uplink"
    if isinstance(one, str) or isinstance(other, str):
        return "server to mini-switch"
    return "processor" if one[0] == "in" and other[0] == "out" else "cable between cells"


# All kinds.


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Read one run, as `Setting.kind` says. The model and the lengths are computed, whatever the tier."""
    if setting.kind == "failures":
        return _read_failures(run_experiment(failure_experiment(setting, seed), tier), setting)
    if setting.kind == "all to all":
        return _read_packets(run_experiment(all_to_all(setting, seed), tier, until_complete=True), setting)
    if setting.kind == "lossless":
        return _read_lossless(setting, seed)
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
    failed, ideal, limited = table.loc["phases"], table.loc["dcell"], table.loc["dcell, processor"]
    tree, paused = table.loc["tree"], table.loc["tree, pause"]
    return (
        f"A link costs the connection {failed.link_outage_s:.1f} s and a server {failed.node_outage_s:.1f} s; the tree "
        f"takes {tree.finish / ideal.finish:.2f} times as long as DCell on machines that cost nothing, and "
        f"{paused.finish / limited.finish:.2f} times with the authors' pause and processors (published: 1.96)."
    )


def lost_pairs(
    shares: Iterable[float] = (0.02, 0.05, 0.1, 0.15, 0.2), n: int = 4, k: int = 2, seed: int = 1
) -> pd.DataFrame:
    """Compute the shares of 300 random pairs of live servers that fault-tolerant routing loses, and that no path joins,
    with random servers down: failed_share, routing ("no path at all": pairs without any path), lost_share."""
    network, random, rows = DCell(n, k), np.random.default_rng(seed), []
    for share in shares:
        order = [network.servers[place] for place in random.permutation(len(network.servers))]
        failed, alive = frozenset(order[: round(share * len(order))]), order[round(share * len(order)) :]
        wanted = [tuple(alive[place] for place in random.choice(len(alive), 2, replace=False)) for _ in range(300)]
        for state_level in (0, 1):
            paths = [network.route_around(a, b, failed, state_level=state_level) for a, b in wanted]
            rows.append((share, f"DFR, b = {state_level}", float(np.mean([path is None for path in paths]))))
        live = network.graph.subgraph(alive)
        part = {server: place for place, servers in enumerate(nx.connected_components(live)) for server in servers}
        rows.append((share, "no path at all", float(np.mean([part[a] != part[b] for a, b in wanted]))))
    return pd.DataFrame(rows, columns=["failed_share", "routing", "lost_share"])


BROADCASTS = ((4, 1), (4, 2), (2, 3))  # n, k


def broadcast_table(
    networks: Iterable[tuple[int, int]] = BROADCASTS,
    shares: Iterable[float] = (0.0, 0.05, 0.1),
    draws: int = 10,
    seed: int = 1,
) -> pd.DataFrame:
    """Measure DCellBroadcast from a random live server, with so many servers down at random, as means of the draws.

    networks : n and k of each. The columns: network, servers, failed_share; reached_share, of live servers, and
    tree_share, what a tree of shortest paths that was laid before the failures would reach; messages, a live server;
    longest_hops, the longest way of any draw, and most_hops, which no way is longer than while nothing is down.
    """
    rows, random = [], np.random.default_rng(seed)
    for network, share in product([DCell(*size) for size in networks], shares):
        found = []
        for _ in range(draws if share else 1):
            order = [network.servers[place] for place in random.permutation(len(network.servers))]
            down = round(share * len(order))
            failed, alive = frozenset(order[:down]), order[down:]
            hops, messages = network.broadcast(alive[0], failed)
            tree = nx.bfs_tree(network.graph, alive[0]).subgraph(alive)
            by_tree = 1 + len(nx.descendants(tree, alive[0]))
            found.append([*(np.array([len(hops), by_tree, messages]) / len(alive)), max(hops.values())])
        means, longest = np.mean(found, axis=0), int(np.max(found, axis=0)[3])
        rows.append((network.name, len(network.servers), share, *means[:3], longest, longest_path(network.k)))
    columns = ["network", "servers", "failed_share", "reached_share", "tree_share", "messages", "longest_hops"]
    return pd.DataFrame(rows, columns=[*columns, "most_hops"])


# Figures.

TREE_LOOK, DCELL = {"label": "tree", "color": CURVES[1]}, {"label": "DCell", "color": CURVES[0]}


def _places() -> dict[Any, tuple[float, float]]:
    """Place cells around a circle, each with its mini-switch in the middle and its servers beside each other."""
    places: dict[Any, tuple[float, float]] = {}
    for cell in range(5):
        turn = math.pi / 2 - 2 * math.pi * cell / 5
        x, y = 3.2 * math.cos(turn), 2.6 * math.sin(turn)
        places[f"mini {cell}"] = (x * 1.45, y * 1.4)
        for server in range(4):
            off = (server - 1.5) * 0.62
            places[cell, server] = (x + off * math.sin(turn), y - off * math.cos(turn))
    return places


def draw_idea() -> Figure:
    """Draw a DCell_1 of n = 4 with the path of Fig. 11 and the one around [0,3]."""
    figure, axis = new_figure("A DCell_1 of n = 4: servers (dots) forward", "", "")
    places, servers = _places(), NETWORK.servers
    cables = [(server, other) for server in servers for other in (f"mini {server[0]}", NETWORK.peer(server, 1))]
    around = NETWORK.route_around(SOURCE, DESTINATION, {FIRST_SERVER}, state_level=1) or ()
    first_path, around_it = (
        [ends for one, other in pairwise(path) for ends in pairwise((one, *_mini_between(one, other), other))]
        for path in (NETWORK.route(SOURCE, DESTINATION), around)
    )
    looks = (
        (cables, "#bbbbbb", 1, ""),
        (first_path, CURVES[0], 2.4, "first path"),
        (around_it, CURVES[6], 2.4, "around [0,3]"),
    )
    for edges, colour, width, label in looks:
        lines = [[places[one], places[other]] for one, other in edges]
        axis.add_collection(LineCollection(lines, colors=colour, linewidths=width, label=label))
    for node, (x, y) in places.items():
        axis.plot(x, y, "s" if isinstance(node, str) else "o", color="#444444")
    for one, other in servers:
        axis.annotate(f"{one},{other}", places[one, other], (4, 4), textcoords="offset points", fontsize=7)
    axis.set_axis_off()
    axis.set_aspect("equal")
    axis.legend(loc="upper left", fontsize=8)
    return figure


def _mini_between(one: Server, other: Server) -> list[str]:
    return [f"mini {one[0]}"] if NETWORK.level(one, other) == 0 else []


def draw_tree(setting: Setting) -> Figure:
    """Draw the two-level tree of the comparison, with the ports that the setting gives its switches."""
    asked = all_to_all(replace(setting, network="tree"), 1)
    return drawing.draw_network(asked, "The same servers on a two-level tree")


def _goodput(cases: Mapping[str, Look], tiers: bool = False, title: str = "") -> Panel:
    """Show the goodput over time in shares of the link's rate, with the failures."""
    course = Course("goodput", "goodput_share", cases, step=True, tiers=tiers)
    published = Level(0.91, "published before failures: 910 of 1000 Mb/s")
    label = "goodput (share of the link's rate)"
    return Panel("time (s)", label, published, course, _mark_failures, title=title, y_range=(0, 1.12))


def _mark_failures(axis: Axes, runs: Runs) -> None:
    changes = runs.study.scale(runs.profile, runs.tier).changes
    timeline_s = changes.get("timeline_s", runs.setting.timeline_s)
    for at_s, said in zip(timeline_s[:3], ("link out", "link back", "server down"), strict=True):
        axis.axvline(at_s, color="#444444", linestyle=":", linewidth=1)
        side = {"xytext": (-2, 0), "ha": "right"} if said == "link back" else {"xytext": (2, 0)}
        axis.annotate(said, (at_s, 1.03), textcoords="offset points", fontsize=8, **side)


def published_levels() -> pd.DataFrame:
    """Read the published levels of Fig. 12: network, from_s, to_s, gbps, end_s."""
    return pd.read_csv(data_dir("dcell") / "fig12.csv", comment="#")


def _draw_diagonal(axis: Axes, _: Runs) -> None:
    axis.axline((1, 1), (2, 2), color="#444444", linestyle=":", label="the time-out itself")


def _draw_published_levels(axis: Axes, runs: Runs) -> None:
    levels = published_levels()
    begins, ends = levels.from_s / PUBLISHED_S, levels.to_s / PUBLISHED_S
    axis.hlines(levels.gbps, begins, ends, color=PUBLISHED_GREY, linewidth=4, label="published: first level, end")
    axis.plot(levels.end_s / PUBLISHED_S, [0.3] * len(levels), "v", color=PUBLISHED_GREY, clip_on=False)


def _throughput(title: str, dcell: str, tree: str) -> Panel:
    course = Course("throughput", "rates", {dcell: DCELL, tree: TREE_LOOK}, x="time", step=True)
    label = "time (of a flow's bytes on an idle link; 40 s for 5 GB at 1 Gb/s)"
    return Panel(label, "goodput (rates of a link)", _draw_published_levels, course, title=title)


def _causes(name: str, look: Mapping[str, Any], published: float, flows: int, cases: Mapping[str, str]) -> Panel:
    """Show the end of the last flow with each limit by itself and with all together."""
    least = flows * FULL_PACKET_BYTES / SEGMENT_BYTES
    return Panel(
        "",
        "last flow ends (times of a flow's bytes)",
        Bars("finish", {limit: {case: look} for limit, case in cases.items()}),
        Level(published, "published: {}"),
        Level(least, f"least possible: {{}}, of {flows} flows on a link", published=False),
        title=name,
    )


def draw_run(found: Reading, case: str) -> Figure:
    """Draw one run: goodput over time."""
    if "goodput" in found.tables:
        title, x_label = f"{case}: nothing arrives for {found['node_outage_s']:.1f} s", "time (s)"
        table, x, y = "goodput", "time_s", "goodput_share"
    else:
        title, x_label = f"{case}: over at {found['finish']:.1f}", "time (of a flow's bytes)"
        table, x, y = "throughput", "time", "rates"
    figure, axis = new_figure(title, x_label, "goodput (rates of a link)")
    axis.step(found[table][x], found[table][y], where="post")
    axis.set_ylim(bottom=0)
    return figure


def _ratio_of_means(outages: Any) -> float:
    return float(np.mean(outages["node_outage_s"]) / np.mean(outages["link_outage_s"]))


FLOWS, MODEL, TREE = {"kind": "all to all"}, {"kind": "lossless"}, {"network": "tree"}
PROCESSOR = {"processor_share": 1.07}  # 910 Mb/s take 40 to 45 % of two cores; one core is the driver's
# The published rate; flows a quarter as large, so that a kernel tells of its progress before it counts as stuck.
FASTER = {"flows_mbps": 1000.0, "flow_kb": lambda setting: setting.flow_kb // 4}
AT_LENGTH = ("dcell, 1 Gb/s", "tree, 1 Gb/s")  # of the paper profile alone
AT_ROOMS = MODEL | TREE | {"room_packets": each(2, 8, 32, 128)}
SHORT = {"timeline_s": (2.0, 4.0, 6.0, 26.0)}
EARLY = {"timeline_s": (2.0, 5.0, 6.0, 14.0), "rate_mbps": 50.0}  # outages do not depend on the rate
PHASES = (0.1, 0.3, 0.5, 0.7, 0.9)
CASES: dict[str, dict[str, Any]] = {
    "fig 11": {},
    "fig 11, 1 Gb/s": {"rate_mbps": 1000.0, "timeline_s": (1.1, 2.7, 2.8, 10.6)},
    "phases": EARLY | {"hello_phase": each(*PHASES)},
    "rerouting off": {"reroutes": False},
    "time-out = hello": EARLY | {"timeout_s": lambda setting: setting.hello_s},
    "dcell": FLOWS,
    "dcell, processor": FLOWS | PROCESSOR,
    "tree": FLOWS | TREE,
    "tree, 4 x uplinks": FLOWS | TREE | {"uplink_share": 4.0},
    "dcell, 1 Gb/s": FLOWS | FASTER,
    "tree, 1 Gb/s": FLOWS | TREE | FASTER,
    "dcell, pause": MODEL,
    "dcell, pause, processor": MODEL | PROCESSOR,
    "tree, pause": MODEL | TREE,
    "tree, pause, past the head": MODEL | TREE | {"looks_past_head": True},
    "lengths": {"kind": "lengths", "n": each(4, 5, 6)},
}
# Fig. 11's, but for its last 42 s, in which nothing changes: of a port ten million packets are recorded at most.
PUBLISHED_TIMELINE = {"timeline_s": (34.0, 42.0, 104.0, 118.0)}

STUDY = Study(
    slug="dcell",
    setting=Setting(),
    cases=CASES,
    measure_one=measure_one,
    answer=answer,
    repetitions=3,
    profiles={
        "quick": Scale(changes={"model_kb": 250}, without=AT_LENGTH),
        "paper": Scale(changes=PUBLISHED_TIMELINE | {"rate_mbps": 1000.0, "flow_kb": 20_000, "model_kb": 4000}),
    },
    on_virtual={
        "quick": Scale(
            repetitions=2,
            changes={"timeline_s": (2.0, 10.0, 11.0, 19.5), "flow_kb": 120, "model_kb": 200},
            only={"hello_phase": PHASES[::2]},
            without=AT_LENGTH,
        ),
        "paper": Scale(
            repetitions=2, changes=PUBLISHED_TIMELINE | {"rate_mbps": 1000.0, "flow_kb": 4000, "model_kb": 4000}
        ),
    },
    claims={
        "link-outage": Evidence(
            "link_outage_s", "phases", control="rerouting off", how=lambda outages: float(np.mean(outages))
        ),
        "node-outage": Evidence("node_outage_s", "fig 11", control="rerouting off"),
        "node-against-link": Evidence(
            ("node_outage_s", "link_outage_s"), "phases", control="time-out = hello", how=_ratio_of_means
        ),
        "new-path": Evidence("new_path_share", "fig 11", control="rerouting off"),
        "finish-ratio": Evidence("finish", ("tree", "dcell"), control=("tree, 4 x uplinks", "dcell"), how=ratio),
        "finish-ratio-limited": Evidence(
            "finish",
            ("tree, pause", "dcell, processor"),
            control=("tree, pause, past the head", "dcell, processor"),
            how=ratio,
        ),
        "tree-finish": Evidence("finish", "tree, pause", control="tree, pause, past the head"),
        "dcell-peak": Evidence("peak_rates", "dcell, processor", control="dcell"),
        "tree-peak": Evidence("peak_rates", "tree, pause", control="tree, pause, past the head"),
        "one-hop-flows": Evidence("one_hop_share", "dcell, processor", control="tree"),
        "routing-path-length": Evidence(
            "routed_hops", "lengths", control=Evidence("shortest_hops", "lengths", exact=True), exact=True
        ),
        "shortest-path-length": Evidence(
            "shortest_hops", "lengths", control=Evidence("routed_hops", "lengths", exact=True), exact=True
        ),
    },
    knobs={
        "timeout": Knob(
            {"fig 11": SHORT | {"timeout_s": each(1.0, 2.0, 3.0, 5.0, 8.0, 12.0)}},
            Scale(),
            repetitions=3,
            quick=Scale(repetitions=1),
        ),
        "failures": Knob(
            {
                "[0,3]": SHORT,
                "and [1,0]": SHORT | {"more_failed": ((1, 0),)},
                "and [1,0], [0,1]": SHORT | {"more_failed": ((1, 0), (0, 1))},
                "and [1,0], [0,1], [0,2]": SHORT | {"more_failed": ((1, 0), (0, 1), (0, 2))},
            },
            Scale(),
        ),
        "room": Knob(
            {
                "one FIFO an input": AT_ROOMS,
                "a queue for each way out": AT_ROOMS | {"looks_past_head": True},
            },
            Scale(changes={"model_kb": 250}),
            quick=Scale(changes={"model_kb": 125}),
        ),
        "server queue": Knob(
            {"dcell, processor": FLOWS | PROCESSOR | {"server_packets": each(10, 30, 100, 1000)}},
            Scale(changes={"flow_kb": 2000}),
            quick=Scale(changes={"flow_kb": 1000}),
        ),
    },
    figures={
        "fig11_failures": Picture("A link and a server fail (Fig. 11)", _goodput({"fig 11": "tcp"}, tiers=True)),
        "fig12_throughput": Picture(
            "380 flows together (Fig. 12)",
            _throughput("machines that cost nothing", "dcell", "tree"),
            _throughput("processors of 1.07 links, switches that pause", "dcell, processor", "tree, pause"),
        ),
        "causes": Picture(
            "What holds each network back",
            _causes(
                "DCell",
                DCELL,
                56.75,
                27,
                {
                    "TCP,\nswitches drop": "dcell",
                    "pause\n(model)": "dcell, pause",
                    "TCP,\nprocessor": "dcell, processor",
                    "pause,\nprocessor": "dcell, pause, processor",
                },
            ),
            _causes(
                "tree",
                TREE_LOOK,
                111.5,
                64,
                {
                    "TCP,\nswitches drop": "tree",
                    "pause,\npast the head": "tree, pause, past the head",
                    "pause\n(model)": "tree, pause",
                },
            ),
        ),
        "control": Picture(
            "Broken on purpose",
            _goodput(
                {
                    "rerouting off": {"label": "rerouting off", "color": scheme("control").colour},
                    "fig 11": {"label": "as published", "color": scheme("tcp").colour, "linewidth": 0.8},
                },
                title="no rerouting",
            ),
            Panel(
                "",
                "last flow ends (times of a flow's bytes)",
                Bars("finish", {case: case for case in ("tree, 4 x uplinks", "tree", "dcell")}),
                title="uplinks of four links' rate",
            ),
        ),
        "knob_timeout": plot(
            "How soon may silence count as death?",
            "time-out of link state (s)",
            "nothing arrives (s)",
            Sweep("timeout_s", "node_outage_s", "timeout", label="Fig. 11"),
            _draw_diagonal,
        ),
        "knob_server_queue": beside(
            "How long must the queue in front of a processor be? (published: 9.6, 0.154 and 56.75)",
            "queue in a server (packets)",
            {
                "peak_rates": "greatest goodput (rates of a link)",
                "one_hop_share": "one-hop flows end (share of the finish)",
                "finish": "last flow ends (times of a flow's bytes)",
            },
            lambda reading: Sweep("server_packets", reading, "server queue"),
            log="x",
        ),
    },
    play=Play(
        ("fig 11", "rerouting off", "dcell", "dcell, processor", "tree"),
        {
            "timeout_s": (0.5, 12.0, 0.5),
            "hello_s": (0.1, 3.0, 0.1),
            "uplink_share": (0.5, 8.0, 0.5),
            "flow_kb": (100, 4000, 100),
        },
        draw_run,
    ),
)
