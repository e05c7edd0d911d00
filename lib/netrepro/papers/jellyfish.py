"""Jellyfish: Singla, Hong, Popa and Godfrey, "Jellyfish: Networking Data Centers Randomly", NSDI 2012.

The switches of a fat-tree, cabled at random. Three questions: How many servers can the same switches carry at full rate
with optimal routing (a linear programme)? How much of that do ECMP and 8 shortest paths reach with TCP and multipath
TCP (packets; TCP on small networks also on the virtual kernel)? Do all servers get the same?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice, pairwise
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.sparse.csgraph import shortest_path

from netrepro.errors import NetreproError, nearest
from netrepro.networks.concurrent_flow import can_have, greatest_share
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import Path, Routing, k_shortest_paths, shortest_paths, spanning_tree
from netrepro.networks.topology import Topology, fat_tree, jellyfish
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import SIMULATED, VIRTUAL, Check, Evidence, Knob, Part, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, jain, least_first, ratio
from netrepro.study.figures import Bars, Course, Distribution, Level, Look, Panel, Picture, Sweep, beside, plot
from netrepro.study.setting import parameter
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

LARGEST_PROGRAMME = 125  # switches: with 245 the linear programme takes hours for its last thousandth
FULL = 1 - 1e-6  # a solver's answer from here on counts as the full rate
NETWORKS = ("fat-tree", "jellyfish", "edge only")
CONTROL = {"label": "control", "color": scheme("control").colour}
EDGE_ONLY = CONTROL | {"label": "edge only"}
LOOKS: dict[str, Look] = {"fat-tree": "fat-tree", "jellyfish": "jellyfish", "edge only": EDGE_ONLY}
TRANSPORTS = ("1 flow", "8 flows", "MPTCP")
ROUTINGS = ("ECMP", "shortest", "in turn")
# Table 1 (percent of a server's rate) from memory: we had no source to check it.
REMEMBERED = {
    "fat-tree, ECMP": (48.0, 92.2, 93.6),
    "jellyfish, ECMP": (57.9, 73.9, 76.4),
    "jellyfish, 8 paths": (48.3, 92.3, 95.1),
}
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Equipment:
    """Equipment of one fat-tree of `ports`-port switches; Table 1's Jellyfish has 780 servers on the equipment of 686
    (k = 14).

    network : one of NETWORKS. Rate, delay and buffer are our choice. slow_motion : divides rates and multiplies delays,
    to save kernels work.
    """

    network: str = "jellyfish"
    ports: int = 6
    server_gain: float = parameter(
        1.137, "servers of Jellyfish over those of the fat-tree", "ratio", above=0, high=2
    )  # 780 / 686
    rate_mbps: float = parameter(100.0, "of every link", "Mb/s", low=1, high=10_000)
    link_delay_ms: float = parameter(0.02, "of every cable, one way", "ms", low=0, high=1000)
    buffer_packets: int = parameter(50, "at every port", "packets", low=1, high=100_000)
    slow_motion: float = 1.0

    @property
    def fat_tree_servers(self) -> int:
        """The number of servers of the fat-tree, k^3/4."""
        return self.ports**3 // 4

    @property
    def servers(self) -> int:
        """The number of Jellyfish's servers."""
        return round(self.fat_tree_servers * self.server_gain)

    @property
    def switches(self) -> int:
        """The number of switches, 5 k^2/4."""
        return 5 * self.ports**2 // 4

    @property
    def link(self) -> Link:
        """A cable between switches, or from a host, at the rate and delay of slow motion."""
        delay_ms = self.link_delay_ms * self.slow_motion
        return Link(self.rate_mbps / self.slow_motion, delay_ms, DropTail(packets=self.buffer_packets))


@dataclass(frozen=True)
class Setting(Equipment):
    """The transport of the servers' data.

    routing : "ECMP"; "shortest", over `paths` shortest paths; or "in turn", in which MPTCP's subflows take the paths of
    ECMP in turn. transport : one or more flows, or one with subflows. Timeouts are our choice.
    """

    routing: str = "shortest"
    paths: int = 8
    transport: str = "MPTCP"
    min_rto_ms: float = 10.0
    initial_rto_ms: float = 10.0  # a lost SYN costs no more than other losses: the paper's simulator has no SYNs


@dataclass(frozen=True)
class FullRate(Equipment):
    """The number of servers with their full rate, by optimal routing. matrices : permutations that must all fit."""

    matrices: int = 1


@dataclass(frozen=True)
class Lengths(Equipment):
    """The lengths of shortest paths, and the share that optimal routing gives."""


@dataclass(frozen=True)
class Tree(Equipment):
    """The lengths of paths over one spanning tree."""


@dataclass(frozen=True)
class Optimum(Equipment):
    """The share that optimal routing gives."""


@dataclass(frozen=True)
class Links(Equipment):
    """The number of paths over a link. Fields as of Setting."""

    routing: str = "shortest"
    paths: int = 8


# Networks.


def servers_of_switches(switches: int, servers: int) -> list[int]:
    """Compute the number of servers at each switch when they are spread as evenly as possible."""
    return [(i + 1) * servers // switches - i * servers // switches for i in range(switches)]


@lru_cache(maxsize=16)  # cases share a network, which caches its paths
def same_equipment(kind: str, ports: int, servers: int, link: Link, seed: int) -> Topology:
    """Return a network of a fat-tree's switches: "fat-tree", with its own k^3/4 servers; "jellyfish", cabled at random,
    with servers on all switches; or "edge only", the control, cabled at random, with servers only on edge switches.

    Raises NetreproError for another kind, and for so many servers that no ports are left for switches.
    """
    if kind not in NETWORKS:
        raise NetreproError(f"no network {kind!r}", nearest(kind, NETWORKS))
    if kind == "fat-tree":
        return fat_tree(ports, link)
    switches = 5 * ports**2 // 4
    used = switches if kind == "jellyfish" else ports**2 // 2
    held = servers_of_switches(used, servers) + [0] * (switches - used)
    return jellyfish(switches, ports, held, link, seed)


def network_of(setting: Equipment, seed: int) -> Topology:
    """Return the network of a setting."""
    return same_equipment(setting.network, setting.ports, setting.servers, setting.link, seed)


def _pairs(topology: Topology, cables: nx.Graph | None = None) -> np.ndarray:
    """Count the pairs of servers at each distance (cables, with the servers' own), over all cables of the switches or
    only `cables`."""
    graph = nx.to_scipy_sparse_array(cables or topology.fabric, topology.switches, weight=None)
    hops = shortest_path(graph, unweighted=True).astype(int)
    held = [sum(node[0] == "h" for node in topology.graph[switch]) for switch in topology.switches]
    pairs = np.outer(held, held) - np.diag(held)
    return np.bincount(hops.ravel() + 2, pairs.ravel()) / 2


def _mean(pairs: np.ndarray) -> float:
    return float(pairs @ np.arange(len(pairs)) / pairs.sum())


def permutation(topology: Topology, seed: int) -> Pairs:
    """Choose random permutation traffic: every server sends to one server at another switch, and receives from one.

    Servers choose in turn among those that nobody has chosen, and all choose anew where none is left for one of them,
    as in the authors' topobench (`Graph.RandomPermutationPairs`). Raises NetreproError where no such permutation
    exists: one switch has more than half of the servers.
    """
    hosts, random = list(topology.hosts), Random(seed)
    switch_of = {host: next(iter(topology.graph[host])) for host in hosts}
    switch, most = Counter(switch_of.values()).most_common(1)[0]
    if 2 * most > len(hosts):
        raise NetreproError(f"{most} of {len(hosts)} servers at switch {switch}", "spread servers over more switches")
    while True:
        free, pairs = hosts.copy(), []
        for source in hosts:
            elsewhere = [host for host in free if switch_of[host] != switch_of[source]]
            if not elsewhere:
                break
            pairs.append((source, random.choice(elsewhere)))
            free.remove(pairs[-1][1])
        else:
            return tuple(pairs)


# What is measured.


def measure_full_rate(setting: FullRate, seed: int) -> Reading:
    """Find the greatest number of servers that all send at full rate in `matrices` random permutations, with optimal
    routing. It bisects between a quarter and 1.6 times the servers of the fat-tree, or as many as the ports allow.

    Every number of servers has its own network, so the limit is noisy; the answer is where the bisection ends. It is 0
    if even the fewest servers do not fit.
    """

    def carries(servers: int) -> bool:
        topology = same_equipment(setting.network, setting.ports, servers, setting.link, seed)
        return all(can_have(topology, permutation(topology, seed + i), FULL) for i in range(setting.matrices))

    room = (setting.ports - 1) * (setting.switches if setting.network == "jellyfish" else setting.ports**2 // 2)
    low, high = setting.fat_tree_servers // 4, min(round(1.6 * setting.fat_tree_servers), room)
    low, high = (low, high) if carries(low) else (0, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if carries(middle) else (low, middle)
    return Reading({"servers_at_full_rate": low, "gain": low / setting.fat_tree_servers})


def measure_lengths(setting: Equipment, seed: int) -> Reading:
    """Compute the shares of server pairs within each distance (cables), and the common share of `measure_optimum`."""
    pairs = _pairs(network_of(setting, seed))
    lengths = pd.DataFrame({"cables": np.arange(len(pairs)), "share_within": pairs.cumsum() / pairs.sum()})
    return Reading({"cables": _mean(pairs)}, {"lengths": lengths}) | measure_optimum(setting, seed)


def measure_optimum(setting: Equipment, seed: int) -> Reading:
    """Compute the share of its rate that optimal routing gives to every server; nothing where the network is too
    large."""
    if setting.switches > LARGEST_PROGRAMME:
        return Reading()
    topology = network_of(setting, seed)
    return Reading({"optimal": greatest_share(topology, permutation(topology, seed), 1.0)})


def measure_tree(setting: Equipment, seed: int) -> Reading:
    """Compute the mean distance of servers (cables) when all packets use one spanning tree."""
    topology = network_of(setting, seed)
    return Reading({"cables": _mean(_pairs(topology, nx.Graph(spanning_tree(topology))))})


def measure_links(setting: Links | Setting, seed: int) -> Reading:
    """Count for each link between switches, in each direction, the distinct paths of a random permutation that use it.
    ECMP has at most 8 paths a pair."""
    topology = network_of(setting, seed)
    pairs = permutation(topology, seed)
    used = {path[1:-1] for pair in pairs for path in _paths(topology, *pair, setting)}  # pairs share paths
    counts = Counter(link for path in used for link in pairwise(path))
    over = np.sort([counts[a, b] for a, b in topology.ports if "h" not in a + b])
    table = pd.DataFrame({"rank_share": np.arange(1, len(over) + 1) / len(over), "paths_over_it": over})
    return Reading({"paths_over_a_link": over.mean()}, {"links": table})


def _paths(topology: Topology, source: str, destination: str, setting: Links | Setting) -> Sequence[Path]:
    if setting.routing == "shortest":
        return k_shortest_paths(topology, source, destination, setting.paths)
    return shortest_paths(topology, source, destination)[:8]


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment that every tier runs: random permutation traffic in one case.

    MPTCP's 8 subflows take the shortest paths in turn. With ECMP, and with 8 flows, a hash chooses the paths. Raises
    NetreproError for an unknown routing or transport.
    """
    for name, known in (("routing", ROUTINGS), ("transport", TRANSPORTS)):
        if getattr(setting, name) not in known:
            given = getattr(setting, name)
            raise NetreproError(f"no {name} {given!r}", nearest(given, known))
    topology = network_of(setting, seed)
    random = Random(seed)
    flows: list[Flow] = []
    for source, destination in permutation(topology, seed):
        # Servers that begin at the same instant would synchronise.
        starts = [random.uniform(0, 0.02 * seconds) for _ in range(8 if setting.transport == "8 flows" else 1)]
        more: dict[str, Any] = {}
        if setting.transport == "MPTCP":
            more = {"subflows": 8, "congestion_control": "lia"}
            if setting.routing != "ECMP":
                more["subflow_paths"] = tuple(islice(cycle(_paths(topology, source, destination, setting)), 8))
        flows += [
            Flow(source, destination, duration_s=seconds - start, start_s=start, label=source, **more)
            for start in starts
        ]
    routing = Routing("k_shortest_paths", paths=setting.paths) if setting.routing == "shortest" else Routing()
    tcp = Tcp("reno", min_rto_ms=setting.min_rto_ms, initial_rto_ms=setting.initial_rto_ms, syn_linear_timeouts=0)
    return Experiment(topology, tuple(flows), seconds, seed, tcp=tcp, routing=routing)


def shares_of(run: Measurements) -> pd.DataFrame:
    """Compute each server's received payload, as a share of its link's payload rate: server, share."""
    delivered = run.flows.groupby("label", sort=False)["delivered_bytes"].sum()
    rate_mbps = next(iter(run.experiment.topology.ports.values())).rate_mbps
    full = rate_mbps * 1e6 / 8 * run.experiment.duration_s * 1448 / FULL_PACKET_BYTES
    return pd.DataFrame({"server": delivered.index, "share": delivered.to_numpy() / full})


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the servers' mean share, and Jain's index of the shares."""
    shares = shares_of(run)
    numbers = {"share": shares["share"].mean(), "jain": jain(shares["share"])}
    within = Check("greatest share of a server", shares["share"].max(), at_most=1.001)
    return Reading(numbers, {"servers": shares}, [within])


def _computed(setting: Equipment, measured: Callable[[Any, int], Reading]) -> Part:
    """Make a part that is computed, the same on every tier."""
    return Part(setting=setting, measure_one=lambda setting, seconds, seed, tier: measured(setting, seed))


def cannot(setting: Equipment, tier: str) -> str:
    """Return why a tier has nothing to run, or ""."""
    is_computed = not isinstance(setting, Setting)
    return "computed without packets: beside it" if tier != SIMULATED and is_computed else ""


def table1(runs: Runs) -> pd.DataFrame:
    """Make Table 1: the mean share of the rate (%) by network and routing, and by transport. Column optimal is the
    share with optimal routing, NaN where the network is too large for the linear programme.

    Cases that the tier asked for does not have are taken from the simulator.
    """
    table = pd.DataFrame(index=list(REMEMBERED), columns=[*TRANSPORTS, "optimal"], dtype=float)
    for row in REMEMBERED:
        for transport in TRANSPORTS:
            case = f"{row}, {transport}"
            shares = runs.numbers(case, runs.tier if runs.has(case) else SIMULATED).share
            table.loc[row, transport] = 100 * shares.mean()
        table.loc[row, "optimal"] = 100 * _optimum(runs, row.split(",")[0])
    return table


def _optimum(runs: Runs, network: str) -> float:
    lengths = runs.numbers(f"lengths, {network}", SIMULATED)
    return float(lengths["optimal"].mean()) if "optimal" in lengths else np.nan


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    full_rate = runs.numbers("full rate, jellyfish", SIMULATED)
    gain, table = _largest(full_rate.set_index("ports")["gain"]), table1(runs)["MPTCP"]
    more = 100 * (runs.setting.server_gain - 1)
    return (
        f"With optimal routing, {full_rate.ports.max()}-port switches cabled at random carry {gain:.2f} times the "
        f"servers of their fat-tree at full rate; with {more:.0f} % more servers and MPTCP, each gets "
        f"{table['jellyfish, 8 paths']:.0f} % of its rate over 8 shortest paths, "
        f"{table['jellyfish, ECMP']:.0f} % by ECMP, and in the fat-tree {table['fat-tree, ECMP']:.0f} %."
    )


def _largest(gain: pd.Series) -> float:
    """Return the mean gain on switches with the most ports."""
    return float(gain[gain.index == gain.index.max()].mean())


# Figures.


def draw_idea() -> Figure:
    """Draw twenty switches of four ports and the sixteen servers of a fat-tree, cabled by plan and at random."""
    return draw_networks(Setting(ports=4, server_gain=1.0), 1, NETWORKS[:2])


def draw_networks(setting: Setting, seed: int, kinds: Sequence[str] = NETWORKS) -> Figure:
    """Draw a fat-tree, a Jellyfish and the control with the same switches. Colours show the distance from the first
    switch."""
    figure, axes = drawing.panels("The same switches, cabled by plan and at random", "", "", kinds)
    figure.set_size_inches(14, 4.4)
    for axis, kind in zip(axes, kinds, strict=True):
        topology = network_of(replace(setting, network=kind), seed)
        graph, switches, row = topology.fabric, list(topology.switches), setting.ports**2 // 2
        layers = {0: switches[:row], 1: switches[row : 2 * row], 2: switches[2 * row :]}  # of a fat-tree
        by_plan = nx.multipartite_layout(graph, layers, align="horizontal")
        place = by_plan if kind == "fat-tree" else nx.circular_layout(switches)
        distance = nx.single_source_shortest_path_length(graph, switches[0])
        nx.draw_networkx_edges(graph, place, ax=axis, alpha=0.25, width=0.8)
        look = {"node_size": 45, "node_color": [distance[node] for node in graph], "cmap": "viridis"}
        dots = nx.draw_networkx_nodes(graph, place, ax=axis, vmin=0, vmax=5, **look)
        cables = _mean(_pairs(topology))
        axis.set_title(f"{kind}: {len(topology.hosts)} servers, {cables:.2f} cables apart", fontsize=10)
        axis.axis("off")
    figure.colorbar(dots, ax=axes, label="from the first switch (cables)", ticks=range(6), shrink=0.8)
    return figure


def _draw_remembered(axis: Axes, runs: Runs) -> None:
    """Draw Table 1 as remembered; dashes mark the share with optimal routing, where it is known."""
    for place, (row, published) in enumerate(REMEMBERED.items()):
        axis.plot(place + np.array([-0.27, 0, 0.27]), np.array(published) / 100, "D", color=PUBLISHED_GREY, mec="black")
        axis.hlines(_optimum(runs, row.split(",")[0]), place - 0.42, place + 0.42, color="black", linestyle="--")
    axis.plot([], [], "D", color=PUBLISHED_GREY, mec="black", label="paper, 14 ports, from memory, not checked")
    axis.plot([], [], "--", color="black", label="optimal, all alike")


def _control(label: str, reading: str, ours: Mapping[str, str], broken: Mapping[str, str]) -> Panel:
    """Show a reading of cases, and of their controls (name of a bar -> case)."""
    bars: dict[str, dict[str, Look]] = {name: {case: "as it is"} for name, case in ours.items()}
    bars |= {name: {case: CONTROL} for name, case in broken.items()}
    return Panel("", label, Bars(reading, bars, tiers=True))


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw every server's share in one run, sorted."""
    shares = np.sort(shares_of(run)["share"])
    title = f"mean {shares.mean():.2f}, Jain's index {jain(shares):.3f}"
    figure, axis = new_figure(title, "servers, sorted", "share of its rate")
    axis.step(np.arange(1, len(shares) + 1), shares, label=case)
    axis.set_ylim(0, 1.05)
    return figure


FULL_RATE = _computed(FullRate(), measure_full_rate)
DISTANCES = _computed(Lengths(), measure_lengths)
ONE_TREE = _computed(Tree(), measure_tree)
OPTIMAL = _computed(Optimum(), measure_optimum)
OVER_LINKS = _computed(Links(), measure_links)
OPTIMUM: dict[str, Any] = {"part": OPTIMAL}
LINKS_OF: dict[str, Any] = {"part": OVER_LINKS}
ECMP, EDGE = {"routing": "ECMP"}, {"network": "edge only"}
LENGTHS = {f"lengths, {network}": look for network, look in LOOKS.items()}
LINKS = {f"links, {paths}": paths for paths in ("8 paths", "ECMP", "1 path")}
OURS, BASELINE, BY_ECMP = "jellyfish, 8 paths, MPTCP", "fat-tree, ECMP, MPTCP", "jellyfish, ECMP, MPTCP"
CASES: dict[str, dict[str, Any]] = {
    **{  # the longest first
        f"full rate, {network}": {"part": FULL_RATE, "network": network, "ports": swept(10, 8, 6, 4)}
        for network in NETWORKS[1:]
    },
    **{f"lengths, {network}": {"part": DISTANCES, "network": network} for network in NETWORKS},
    **{f"tree, {network}": {"part": ONE_TREE, "network": network} for network in NETWORKS[:2]},
    "links, 8 paths": LINKS_OF,
    "links, ECMP": LINKS_OF | ECMP,
    "links, 1 path": LINKS_OF | {"paths": 1},
    **{
        f"fat-tree, ECMP, {transport}": {"network": "fat-tree", "transport": transport, **ECMP}
        for transport in TRANSPORTS
    },
    **{f"jellyfish, ECMP, {transport}": {"transport": transport, **ECMP} for transport in TRANSPORTS},
    **{f"jellyfish, 8 paths, {transport}": {"transport": transport} for transport in TRANSPORTS},
    "jellyfish, ECMP in turn, MPTCP": {"routing": "in turn"},
    "edge only, 8 paths, MPTCP": EDGE,
}
# The smallest fat-tree's equipment, a rate at which a second costs little, and kernels' own first timeout.
SMALL = {"ports": 4, "slow_motion": 5.0, "initial_rto_ms": 1000.0}
STUDY = Study(
    slug="jellyfish",
    setting=Setting(),
    parts=(FULL_RATE, DISTANCES, ONE_TREE, OPTIMAL, OVER_LINKS),
    cases=CASES,
    experiment=experiment,
    read=read,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales={
        "test": Scale(0.3, changes={"ports": 4}, only={"ports": (4,)}),
        "quick": Scale(1.0, only={"ports": (6, 4)}),
        "paper": Scale(1.0, changes={"ports": 14, "matrices": 3}),
        ("quick", VIRTUAL): Scale(4.0, repetitions=2, changes=SMALL, only={"ports": (6, 4)}),
        ("paper", VIRTUAL): Scale(10.0, changes=SMALL, only={"ports": (8, 6, 4)}),
    },
    claims={
        "more-servers": Evidence("gain", "full rate, jellyfish", control="full rate, edge only", how=_largest),
        "shorter-paths": Evidence(
            "cables",
            ("lengths, jellyfish", "lengths, fat-tree"),
            control=("tree, jellyfish", "tree, fat-tree"),
            how=least_first("jellyfish", "fat-tree"),
        ),
        "similar-or-superior-throughput": Evidence(
            "share", (OURS, BASELINE), control=("edge only, 8 paths, MPTCP", BASELINE), how=ratio
        ),
        "ecmp-is-not-enough": Evidence(
            "share",
            (OURS, BY_ECMP),
            control=("jellyfish, ECMP in turn, MPTCP", BY_ECMP),
            how=greatest_first("8 paths", "ECMP"),
        ),
        "fairness": Evidence("jain", (OURS, BASELINE), control=("jellyfish, 8 paths, 1 flow", BASELINE), how=ratio),
    },
    knobs={
        "paths": Knob(
            {transport: {"transport": transport, "paths": swept(1, 2, 4, 8, 16)} for transport in TRANSPORTS},
            {"test": Scale(0.3, changes={"ports": 4}), "quick": Scale(1.0), "paper": Scale(1.0, changes={"ports": 14})},
        ),
        "servers": Knob(
            {
                "jellyfish": OPTIMUM | {"server_gain": swept(0.5, 0.75, 1.0, 1.25, 1.5, 2.0)},
                "edge only": OPTIMUM | EDGE | {"server_gain": swept(0.5, 0.75, 1.0, 1.25, 1.5)},
            },
            {"test": Scale(changes={"ports": 4}), "quick": Scale(), "paper": Scale(changes={"ports": 10})},
            repetitions=3,
        ),
    },
    figures={
        "servers_at_full_rate": plot(
            "Servers at full rate, optimal routing",
            "a switch's size (ports)",
            "servers / those of the fat-tree",
            Level(1.25, "abstract: 25 % more, thousands of nodes"),
            Level(1, "fat-tree", published=False),
            Sweep("ports", "gain", {f"full rate, {name}": LOOKS[name] for name in NETWORKS[1:]}, tiers=True),
        ),
        "path_lengths": plot(
            "Path lengths between servers",
            "distance (cables)",
            "share of pairs at most so far apart",
            Course("lengths", "share_within", LENGTHS, "cables", step=True, tiers=True),
        ),
        "throughput_table1": plot(
            "Random permutation traffic (Table 1)",
            "",
            "share of its rate, mean of servers",
            Bars("share", {row: {f"{row}, {name}": name for name in TRANSPORTS} for row in REMEMBERED}, tiers=True),
            _draw_remembered,
            y_range=(0, 1.05),
        ),
        "paths_per_link_fig9": plot(
            "Paths over each link of Jellyfish (Fig. 9)",
            "rank of the link (share)",
            "distinct paths over it (count)",
            Course("links", "paths_over_it", LINKS, "rank_share", step=True, tiers=True),
        ),
        "fairness": plot(
            "What each server gets with MPTCP (Fig. 13)",
            "share of its rate",
            "share of servers that get no more",
            Distribution("servers", "share", {BASELINE: "fat-tree", OURS: "jellyfish"}, tiers=True),
        ),
        "control": Picture(
            "Broken on purpose",
            _control(
                "distance of servers (cables)",
                "cables",
                {"fat-tree": "lengths, fat-tree", "Jellyfish": "lengths, jellyfish"},
                {
                    "fat-tree,\none tree": "tree, fat-tree",
                    "Jellyfish,\none tree": "tree, jellyfish",
                    "edge\nonly": "lengths, edge only",
                },
            ),
            _control(
                "share of a server's rate (MPTCP)",
                "share",
                {"fat-tree": BASELINE, "8 paths": OURS, "ECMP": BY_ECMP},
                {"ECMP's,\nin turn": "jellyfish, ECMP in turn, MPTCP", "edge\nonly": "edge only, 8 paths, MPTCP"},
            ),
            _control(
                "Jain's index (1: all alike)",
                "jain",
                {"fat-tree": BASELINE, "8 paths": OURS},
                {"1 flow,\n8 paths": "jellyfish, 8 paths, 1 flow"},
            ),
        ),
        "knob_paths": beside(
            "How many paths are enough?",
            "shortest paths (count)",
            {"share": "share of a server's rate, mean", "jain": "Jain's index (1: all alike)"},
            lambda reading: Sweep("paths", reading, "paths"),
            log="x",
            y_range=(0, 1.05),
        ),
        "knob_servers": plot(
            "More servers on the same switches",
            "servers / those of the fat-tree",
            "share of its rate for everyone",
            Sweep("server_gain", "optimal", "servers", looks={name: LOOKS[name] for name in NETWORKS[1:]}),
            Level(1, "all that a fat-tree has room for", published=False, upright=True),
            y_range=(0, 1.05),
        ),
    },
    best=("servers_at_full_rate", "path_lengths", "throughput_table1", "control"),
    play=Play(
        (OURS,),
        {
            "network": list(NETWORKS),
            "transport": list(TRANSPORTS),
            "paths": (1, 16, 1),
            "server_gain": (0.9, 2.0, 0.02),
        },
        draw_run,
        seconds=0.3,
    ),
)
