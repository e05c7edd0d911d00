"""Jellyfish: Singla, Hong, Popa and Godfrey, "Jellyfish: Networking Data Centers Randomly", NSDI 2012.

The switches of a fat-tree, cabled at random. Three questions: how many servers the same switches carry at full rate
when routing is optimal (a linear programme), what ECMP and 8 shortest paths make of it with TCP and with multipath TCP
(packets, in the simulator; TCP on small networks also on the virtual kernel), and whether all servers get the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import combinations, cycle, islice, pairwise
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.errors import NetreproError, nearest
from netrepro.networks.concurrent_flow import can_have, greatest_share
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import Path, Routing, k_shortest_paths, shortest_paths
from netrepro.networks.topology import Topology, fat_tree, from_graph, jellyfish
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers._running import run_by_tier, run_experiment
from netrepro.papers._runs import CheckedRuns, Progress, all_checks, in_parallel, of_profile, seed_of
from netrepro.style import new_figure, scheme

LARGEST_PROGRAMME = 125  # switches: with 245 the last thousandth takes the linear programme hours
FULL = 1 - 1e-6  # the share of the rate from which on a solver's answer is the full rate
COLOURS = {
    "fat-tree": scheme("fat-tree").colour,
    "jellyfish": scheme("jellyfish").colour,
    "ring": scheme("control").colour,
}
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Setting:
    """Equipment of one fat-tree of `ports`-port switches; Table 1's Jellyfish has 780 servers on that of 686 (k = 14).

    Rate, delay, buffer and timeouts are our choice.
    """

    ports: int = 6
    server_gain: float = 780 / 686
    rate_mbps: float = 100.0
    link_delay_ms: float = 0.02
    buffer_packets: int = 50
    min_rto_ms: float = 10.0
    initial_rto_ms: float = 10.0  # a lost SYN costs no more than other losses: the paper's simulator has no SYNs

    @property
    def fat_tree_servers(self) -> int:
        """k^3/4."""
        return self.ports**3 // 4

    @property
    def switches(self) -> int:
        """5 k^2/4."""
        return 5 * self.ports**2 // 4

    @property
    def link(self) -> Link:
        return Link(self.rate_mbps, self.link_delay_ms, DropTail(packets=self.buffer_packets))


PRINTED = Setting()
# On kernels: the smallest fat-tree's equipment, at a rate of which a second costs little, and their own first timeout.
REAL: dict[str, Any] = {"ports": 4, "rate_mbps": 20.0, "link_delay_ms": 0.05, "initial_rto_ms": 1000.0}


@dataclass(frozen=True)
class Scale:
    """Ports of the switches whose equipment the linear programme gets, of those simulated, simulated seconds, and
    traffic matrices that must all fit for "full rate"; seconds of a run that kernels have too, and how many of these
    a case has at most (None: as many as repetitions).
    """

    programme_ports: tuple[int, ...]
    ports: int
    seconds: float
    matrices: int = 1
    real_seconds: float = 4.0
    most_real_repetitions: int | None = None


def scale(profile: str) -> Scale:
    """How much is computed. Raises NetreproError for another profile than quick and paper."""
    scales = {
        "quick": Scale((4, 6), 6, 1.0, most_real_repetitions=2),
        "paper": Scale((4, 6, 8, 10), 14, 1.0, 3, real_seconds=10.0),
    }
    return of_profile(profile, scales)


# Networks.


def servers_of_switches(switches: int, servers: int) -> list[int]:
    """How many servers each switch has when they are spread as evenly as can be."""
    return [(i + 1) * servers // switches - i * servers // switches for i in range(switches)]


def ring_graph(degrees: Sequence[int]) -> nx.Graph:
    """The control: the same switches, each joined to its nearest neighbours on a ring."""
    size = len(degrees)
    graph, free = nx.empty_graph(size), dict(enumerate(degrees))
    for distance in range(1, size // 2 + 1):
        for node in range(size):
            other = (node + distance) % size
            if free[node] and free[other] and not graph.has_edge(node, other):
                graph.add_edge(node, other)
                free[node], free[other] = free[node] - 1, free[other] - 1
    return graph


@lru_cache(maxsize=16)  # cases share a network, which remembers its paths
def same_equipment(kind: str, setting: Setting, servers: int, seed: int) -> Topology:
    """The switches of a fat-tree with `servers` servers: "jellyfish", or "ring" for the control; "fat-tree" itself has
    its own k^3/4 servers.

    Raises NetreproError for another kind, or more servers than leave two ports of every switch for the others.
    """
    if kind == "fat-tree":
        return fat_tree(setting.ports, setting.link)
    held = servers_of_switches(setting.switches, servers)
    degrees = [setting.ports - hosts for hosts in held]
    if min(degrees) < 2:
        raise NetreproError(
            f"{servers} servers on {setting.switches} switches of {setting.ports} ports",
            f"give at most {(setting.ports - 2) * setting.switches}",
        )
    if kind == "jellyfish":
        return jellyfish(setting.switches, setting.ports, held, setting.link, seed)
    if kind != "ring":
        raise NetreproError(f"no network {kind!r}", nearest(kind, ("fat-tree", "jellyfish", "ring")))
    return from_graph(ring_graph(degrees), setting.link, held)


def permutation(topology: Topology, seed: int) -> Pairs:
    """Random permutation traffic: every server sends to one other, and hears from one."""
    order = list(topology.hosts)
    Random(seed).shuffle(order)
    return tuple(zip(order, (*order[1:], order[0]), strict=True))


# Optimal routing.


def servers_at_full_rate(kind: str, setting: Setting, seed: int, matrices: int = 1) -> int:
    """The most servers that all send at full rate in `matrices` random permutations, routed at best; by bisection
    between a quarter and 1.6 times the servers of the fat-tree.

    Every number of servers has a network of its own, so that bisection meets a noisy edge: the answer is the number at
    which it ends. 0 where even the fewest do not fit.
    """

    def carries(servers: int) -> bool:
        topology = same_equipment(kind, setting, servers, seed)
        return all(can_have(topology, permutation(topology, seed + i), FULL) for i in range(matrices))

    low, high = setting.fat_tree_servers // 4, round(1.6 * setting.fat_tree_servers)
    if not carries(low):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if carries(middle) else (low, middle)
    return low


# Packets.


@dataclass(frozen=True)
class Case:
    """A network, how packets are routed, and what carries a server's data: so many flows, or one with subflows.

    `routing` is "ecmp", or so many shortest paths.
    """

    network: str
    routing: str | int
    transport: str


TRANSPORTS = ("1 flow", "8 flows", "MPTCP")
TABLE = {
    f"{network}, {label}, {transport}": Case(network, routing, transport)
    for network, routing, label in (
        ("fat-tree", "ecmp", "ECMP"),
        ("jellyfish", "ecmp", "ECMP"),
        ("jellyfish", 8, "8 paths"),
    )
    for transport in TRANSPORTS
}
CONTROLS = {
    "jellyfish, 1 path, MPTCP": Case("jellyfish", 1, "MPTCP"),
    "ring, 8 paths, MPTCP": Case("ring", 8, "MPTCP"),
}
CASES = TABLE | CONTROLS
# A kernel has no subflows by hash, nor on a host that both sends and receives some.
REAL_CASES = {name: case for name, case in TABLE.items() if case.transport != "MPTCP"}


def experiment(case: Case, setting: Setting, seconds: float, seed: int) -> Experiment:
    """Random permutation traffic in one case: what any tier runs.

    MPTCP's 8 subflows take one of the shortest paths each, in turn; 8 flows take theirs by hash.
    Raises NetreproError for an unknown transport.
    """
    if case.transport not in TRANSPORTS:
        raise NetreproError(f"no transport {case.transport!r}", nearest(case.transport, TRANSPORTS))
    servers = round(setting.fat_tree_servers * setting.server_gain)
    topology = same_equipment(case.network, setting, servers, seed)
    random = Random(seed)
    flows: list[Flow] = []
    for source, destination in permutation(topology, seed):
        # Servers that begin in the same instant would keep step.
        starts = [random.uniform(0, 0.02 * seconds) for _ in range(8 if case.transport == "8 flows" else 1)]
        more: dict[str, Any] = {}
        if case.transport == "MPTCP":
            more = {"subflows": 8, "congestion_control": "lia"}
            if case.routing != "ecmp":
                paths = k_shortest_paths(topology, source, destination, int(case.routing))
                more["subflow_paths"] = tuple(islice(cycle(paths), 8))
        flows += [
            Flow(source, destination, duration_s=seconds - start, start_s=start, label=source, **more)
            for start in starts
        ]
    routing = Routing() if case.routing == "ecmp" else Routing("k_shortest_paths", paths=int(case.routing))
    tcp = Tcp("reno", min_rto_ms=setting.min_rto_ms, initial_rto_ms=setting.initial_rto_ms)
    return Experiment(topology, tuple(flows), seconds, seed, tcp=tcp, routing=routing)


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions.

    capacity : ports, network, repetition, servers, gain (over the fat-tree's servers). servers : case, repetition,
    server, share (payload received over what full packets leave of the rate). optimal : network, repetition, share.
    lengths : network, repetition, cables, pairs. diversity : routing, repetition, link, paths. fidelity : case,
    repetition, check, value, bound, holds.
    """

    capacity: pd.DataFrame
    servers: pd.DataFrame
    optimal: pd.DataFrame
    lengths: pd.DataFrame
    diversity: pd.DataFrame
    fidelity: pd.DataFrame


def measure(
    scale: Scale, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """Optimal routing, paths and packets, each over `repetitions` networks and permutations of their own."""
    work: list[tuple[str, Any, int]] = [
        *(("capacity", (ports, kind), i) for ports in sorted(scale.programme_ports, reverse=True)  # the longest first
          for kind in ("jellyfish", "ring") for i in range(repetitions)),
        *(("paths", None, i) for i in range(repetitions)),
        *(("packets", name, i) for name in CASES for i in range(repetitions)),
    ]  # fmt: skip

    def run_one(what: str, item: Any, repetition: int) -> dict[str, pd.DataFrame]:
        place, label = seed_of(seed, repetition), {"repetition": repetition}
        if what == "capacity":
            ports, kind = item
            equipment = Setting(ports=ports)
            found = servers_at_full_rate(kind, equipment, place, scale.matrices)
            gain = found / equipment.fat_tree_servers
            return {
                "capacity": pd.DataFrame([{"ports": ports, "network": kind} | label | {"servers": found, "gain": gain}])
            }
        if what == "paths":
            optimal = pd.DataFrame(_optimal(setting, place, repetition), columns=["network", "repetition", "share"])
            lengths, diversity = _lengths(setting, place), link_paths(setting, place)
            return {"optimal": optimal, "lengths": lengths.assign(**label), "diversity": diversity.assign(**label)}
        shares, checks = _run(CASES[item], setting, scale.seconds, place)
        return {"servers": shares.assign(case=item, **label), "fidelity": checks.assign(case=item, **label)}

    found = in_parallel(run_one, work, progress=progress)
    names = [each.name for each in fields(Runs)]
    tables = {name: pd.concat([each[name] for each in found if name in each], ignore_index=True) for name in names}
    return Runs(**tables)


@dataclass(frozen=True)
class TierRuns(CheckedRuns):
    """Runs of REAL_CASES on one tier: servers (case, repetition, server, share) and fidelity, as of Runs."""

    servers: pd.DataFrame
    fidelity: pd.DataFrame


def measure_by_tier(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    tier: str = "simulated",
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> dict[str, TierRuns]:
    """REAL_CASES at the size of REAL, by tier: in the simulator and, where `tier` is another, there too.

    `progress` wraps the list of (tier, case, repetition). Raises NetreproError for a tier that cannot be had.
    """
    small, most = replace(setting, **REAL), min(repetitions, scale.most_real_repetitions or repetitions)
    work = [(name, i) for name in REAL_CASES for i in range(most)]

    def run_one(where: str, name: str, repetition: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        shares, checks = _run(REAL_CASES[name], small, scale.real_seconds, seed_of(seed, repetition), where)
        label = {"case": name, "repetition": repetition}
        return shares.assign(**label), checks.assign(**label)

    by_tier, found = run_by_tier(run_one, lambda _: work, tier, progress, case="", repetition=0), {}
    for where, (rows, idle) in by_tier.items():
        servers, checks = zip(*rows, strict=True)
        tables = (pd.concat(parts, ignore_index=True) for parts in (servers, [*checks, *idle]))
        found[where] = TierRuns(*tables)
    return found


def fidelity(runs: Runs, by_tier: Mapping[str, TierRuns]) -> pd.DataFrame:
    """All checks: check, value, bound, holds, and whose."""
    return all_checks(runs, *by_tier.values())


def tier_table(by_tier: Mapping[str, TierRuns]) -> pd.DataFrame:
    """The tiers side by side: a row a case, for each tier the mean share of the rate (%), Jain's index, and whether its
    runs are to be believed."""
    columns = {}
    for tier, runs in by_tier.items():
        shares = runs.servers.groupby(["case", "repetition"], sort=False)["share"]
        columns[f"share (%), {tier}"] = 100 * shares.mean().groupby("case", sort=False).mean()
        columns[f"Jain, {tier}"] = shares.agg(jain).groupby("case", sort=False).mean()
        columns[f"trusted, {tier}"] = pd.Series(runs.trusted, index=list(REAL_CASES))
    return pd.DataFrame(columns)


def _networks(setting: Setting, seed: int) -> dict[str, Topology]:
    servers = round(setting.fat_tree_servers * setting.server_gain)
    return {kind: same_equipment(kind, setting, servers, seed) for kind in ("fat-tree", "jellyfish", "ring")}


def _optimal(setting: Setting, seed: int, repetition: int) -> list[tuple[str, int, float]]:
    if setting.switches > LARGEST_PROGRAMME:
        return []
    networks = {kind: net for kind, net in _networks(setting, seed).items() if kind != "ring"}
    return [(kind, repetition, greatest_share(net, permutation(net, seed), 1.0)) for kind, net in networks.items()]


def _lengths(setting: Setting, seed: int) -> pd.DataFrame:
    rows = []
    for kind, topology in _networks(setting, seed).items():
        hops = dict(nx.all_pairs_shortest_path_length(topology.graph))
        counts = Counter(hops[a][b] for a, b in combinations(topology.hosts, 2))
        rows += [(kind, cables, pairs) for cables, pairs in sorted(counts.items())]
    return pd.DataFrame(rows, columns=["network", "cables", "pairs"])


def link_paths(setting: Setting, seed: int) -> pd.DataFrame:
    """On how many distinct paths of a random permutation each link between switches lies, one direction at a time.

    Returns routing ("ECMP", at most 8 shortest ones; "8 paths"; "1 path"), link, paths.
    """
    topology = same_equipment("jellyfish", setting, round(setting.fat_tree_servers * setting.server_gain), seed)
    pairs = permutation(topology, seed)
    rules: dict[str, Callable[[str, str], Sequence[Path]]] = {
        "8 paths": lambda a, b: k_shortest_paths(topology, a, b, 8),
        "ECMP": lambda a, b: shortest_paths(topology, a, b)[:8],
        "1 path": lambda a, b: k_shortest_paths(topology, a, b, 1),
    }
    fabric = [port for port in topology.ports if "h" not in port[0] + port[1]]
    rows = []
    for name, rule in rules.items():
        used = {path[1:-1] for a, b in pairs for path in rule(a, b)}  # servers of two switches share their paths
        counts = Counter(link for path in used for link in pairwise(path))
        rows += [(name, f"{a} {b}", counts[a, b]) for a, b in fabric]
    return pd.DataFrame(rows, columns=["routing", "link", "paths"])


def _run(
    case: Case, setting: Setting, seconds: float, seed: int, tier: str = "simulated"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    found = run_experiment(experiment(case, setting, seconds, seed), tier)
    delivered = found.flows.groupby("label", sort=False)["delivered_bytes"].sum()
    full = setting.rate_mbps * 1e6 / 8 * seconds * 1448 / FULL_PACKET_BYTES
    shares = pd.DataFrame({"server": delivered.index, "share": delivered.to_numpy() / full})
    checks = pd.DataFrame(
        [("greatest share of a server", shares["share"].max(), 1.001, shares["share"].max() <= 1.001)],
        columns=["check", "value", "bound", "holds"],
    )
    return shares, pd.concat([found.fidelity, checks], ignore_index=True)


def jain(shares: Sequence[float] | np.ndarray) -> float:
    """Jain's fairness index (1984): 1 where all get the same, 1/n where one gets all."""
    values = np.asarray(shares, dtype=float)
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def summary(runs: Runs) -> pd.DataFrame:
    """Table 1: mean share of the rate (%) by network and routing, and by transport.

    `optimal` is what the linear programme gives to all alike, NaN where the network is too large for it.
    """
    table = runs.servers[runs.servers.case.isin(TABLE)].groupby("case")["share"].mean() * 100
    table.index = pd.MultiIndex.from_tuples([tuple(name.rsplit(", ", 1)) for name in table.index])
    shown = table.unstack()[list(TRANSPORTS)]
    best = runs.optimal.groupby("network")["share"].mean() * 100
    return shown.assign(optimal=[best.get(str(name).split(",")[0], np.nan) for name in shown.index])


def fairness(runs: Runs) -> pd.Series:
    """Jain's index by case, mean over repetitions."""
    return _each(runs, jain).groupby("case", sort=False).mean()


def _each(runs: Runs, function: Callable) -> pd.Series:
    """A value a case and repetition, over the shares of its servers."""
    return runs.servers.groupby(["case", "repetition"], sort=False)["share"].agg(lambda column: function(column))


# Claims.


def measured_claims(runs: Runs, tier: str = "simulated") -> list[Measured]:
    """One measurement a claim of data/jellyfish/claims.yaml; none on kernels, whose networks are too small."""
    if tier != "simulated":
        return []
    largest = runs.capacity[runs.capacity.ports == runs.capacity.ports.max()]
    gain = {kind: list(rows["gain"]) for kind, rows in largest.groupby("network")}
    mean, index = _each(runs, np.mean), _each(runs, jain)
    baseline = "fat-tree, ECMP, MPTCP"
    ours, narrow, ring = "jellyfish, 8 paths, MPTCP", "jellyfish, 1 path, MPTCP", "ring, 8 paths, MPTCP"
    lengths = runs.lengths.assign(total=runs.lengths.cables * runs.lengths.pairs)
    sums = lengths.groupby(["network", "repetition"])[["total", "pairs"]].sum()
    length = sums["total"] / sums["pairs"]
    diversity = runs.diversity.groupby(["routing", "repetition"])["paths"].mean()
    values: dict[str, tuple[Any, Any]] = {
        "more-servers": (gain["jellyfish"], gain["ring"]),
        "shorter-paths": (
            _order(-length["jellyfish"], -length["fat-tree"], "jellyfish", "fat-tree"),
            _order(-length["ring"], -length["fat-tree"], "jellyfish", "fat-tree"),
        ),
        "similar-or-superior-throughput": (mean[ours] / mean[baseline], mean[ring] / mean[baseline]),
        "ecmp-is-not-enough": (
            _order(mean[ours], mean["jellyfish, ECMP, MPTCP"], "8 paths", "ECMP"),
            _order(mean[narrow], mean["jellyfish, ECMP, MPTCP"], "8 paths", "ECMP"),
        ),
        "path-diversity": (
            _order(diversity["8 paths"], diversity["ECMP"], "8 paths", "ECMP"),
            _order(diversity["1 path"], diversity["ECMP"], "8 paths", "ECMP"),
        ),
        "fairness": (index[ours] / index[baseline], index[ring] / index[baseline]),
    }
    return [
        Measured(claim=claim, values=ours, control=broken, **runs.trust) for claim, (ours, broken) in values.items()
    ]


def _order(first: pd.Series, second: pd.Series, *names: str) -> list[list[str]]:
    """The two names, the greater first; equal values count against the first."""
    return [list(names) if a > b else list(names[::-1]) for a, b in zip(first, second, strict=True)]


def answer(runs: Runs) -> str:
    """The question answered in one sentence, with this run's numbers."""
    largest = runs.capacity[runs.capacity.ports == runs.capacity.ports.max()]
    gain = largest[largest.network == "jellyfish"]["gain"].mean()
    table = summary(runs)["MPTCP"]
    return (
        f"With optimal routing, {largest.ports.iloc[0]}-port switches cabled at random carry {gain:.2f} times the "
        f"servers of their fat-tree at full rate; with 14 % more servers and MPTCP, each gets "
        f"{table['jellyfish, 8 paths']:.0f} % of its rate over 8 shortest paths, "
        f"{table['jellyfish, ECMP']:.0f} % by ECMP, and in the fat-tree {table['fat-tree, ECMP']:.0f} %."
    )


# Knobs.


def vary_paths(
    seconds: float,
    seed: int,
    *,
    paths: Sequence[int] = (1, 2, 4, 8, 16),
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Mean share and Jain's index on Jellyfish over the number of shortest paths: transport, paths, share, jain."""

    def run_one(transport: str, count: int) -> tuple:
        shares = _run(Case("jellyfish", count, transport), setting, seconds, seed)[0]["share"]
        return transport, count, shares.mean(), jain(shares)

    work = [(transport, count) for transport in TRANSPORTS for count in paths]
    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=["transport", "paths", "share", "jain"])


def vary_servers(
    scale: Scale,
    seed: int,
    *,
    steps: int = 5,
    networks: Sequence[str] = ("jellyfish", "ring"),
    progress: Progress = iter,
) -> pd.DataFrame:
    """What optimal routing leaves every server of, over the number of servers: network, servers, share, and
    fat_tree_servers; on the largest equipment that the scale gives to the linear programme.
    """
    setting = Setting(ports=max(scale.programme_ports))
    base = setting.fat_tree_servers
    counts = np.unique(np.linspace(base // 2, min(2 * base, (setting.ports - 2) * setting.switches), steps).astype(int))

    def run_one(kind: str, servers: int) -> tuple:
        topology = same_equipment(kind, setting, servers, seed)
        return kind, servers, greatest_share(topology, permutation(topology, seed), 1.0), base

    work = [(kind, int(servers)) for kind in networks for servers in counts]
    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=["network", "servers", "share", "fat_tree_servers"])


# Figures.


def draw_networks(setting: Setting = PRINTED, seed: int = 1) -> Figure:
    """A fat-tree and a Jellyfish of the same switches, coloured by how far they are from one server's switch."""
    figure, axes = new_figure("The same switches, cabled by plan and at random", "", "", columns=2)
    for axis, (kind, topology) in zip(axes, list(_networks(setting, seed).items())[:2], strict=True):
        graph = topology.fabric  # whose order is its own; that of a subgraph is a set's
        if kind == "fat-tree":
            half, tiers = setting.ports // 2, setting.ports**2 // 2
            place = {}
            for i, switch in enumerate(topology.switches):
                level, at = min(i // tiers, 2), i % tiers if i < 2 * tiers else (i - 2 * tiers) * tiers / half**2
                place[switch] = (at, level)
        else:
            place = nx.circular_layout(graph)
        distance = nx.single_source_shortest_path_length(graph, topology.switches[0])
        nx.draw_networkx_edges(graph, place, ax=axis, alpha=0.25, width=0.8)
        dots = nx.draw_networkx_nodes(
            graph, place, ax=axis, node_size=45, node_color=[distance[n] for n in graph], cmap="viridis", vmin=0, vmax=4
        )
        axis.set_title(f"{kind}: {len(topology.hosts)} servers, {len(graph)} switches", fontsize=10)
        axis.axis("off")
    figure.colorbar(dots, ax=axes, label="cables from the first switch", ticks=range(5), shrink=0.8)
    return figure


def draw_capacity(runs: Runs) -> Figure:
    """Servers at full rate over those of the fat-tree, by equipment; each repetition a point."""
    title = "Servers at full rate, optimal routing"
    figure, axis = new_figure(title, "ports of a switch", "servers over the fat-tree's")
    for kind, rows in runs.capacity.groupby("network"):
        axis.plot(rows.ports, rows.gain, "o", color=COLOURS[str(kind)], alpha=0.5)
        means = rows.groupby("ports")["gain"].mean()
        axis.plot(means.index, means, "-", color=COLOURS[str(kind)], label=kind)
    axis.axhline(1, color=COLOURS["fat-tree"], label="fat-tree")
    axis.axhline(1.25, color="#8c8c8c", linestyle="--", label="abstract: 25 % more, thousands of nodes")
    axis.set_xticks(sorted(set(runs.capacity.ports)))
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_lengths(runs: Runs) -> Figure:
    """Share of server pairs within so many cables of each other."""
    figure, axis = new_figure("Path lengths between servers", "cables", "share of pairs at most so far apart")
    for kind, rows in runs.lengths.groupby("network", sort=False):
        counts = rows.groupby("cables")["pairs"].sum()
        look = "--" if kind == "ring" else "-"
        axis.step(
            counts.index, counts.cumsum() / counts.sum(), look, where="post", color=COLOURS[str(kind)], label=kind
        )
    axis.set_ylim(0, 1.03)
    axis.legend()
    return figure


def draw_throughput(runs: Runs) -> Figure:
    """Table 1 as bars; dashes, where it is known: what optimal routing would give to all alike."""
    table = summary(runs)
    figure, axis = new_figure("Random permutation traffic", "", "mean share of a server's rate (%)")
    looks = (("#0072B2", -0.27), ("#56B4E9", 0.0), ("#D55E00", 0.27))
    for transport, (colour, shift) in zip(TRANSPORTS, looks, strict=True):
        bars = axis.bar(np.arange(len(table)) + shift, table[transport], 0.25, color=colour, label=transport)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    known = np.flatnonzero(table["optimal"].notna())
    if len(known):
        best = table["optimal"].iloc[known]
        axis.hlines(best, known - 0.42, known + 0.42, color="black", linestyle="--", label="optimal, all alike")
    axis.set_xticks(range(len(table)), table.index)
    axis.set_ylim(0, 125)
    axis.legend(ncols=4, loc="upper center", fontsize=8)
    return figure


def draw_diversity(runs: Runs) -> Figure:
    """Fig. 9: links by the number of distinct paths that they are on."""
    figure, axis = new_figure(
        "Paths over each link of Jellyfish (Fig. 9)", "rank of the link", "distinct paths over it"
    )
    looks = {
        "8 paths": (COLOURS["jellyfish"], "-"),
        "ECMP": (scheme("ECMP").colour, "-"),
        "1 path": (COLOURS["ring"], "--"),
    }
    for name, (colour, line) in looks.items():
        rows = runs.diversity[(runs.diversity.routing == name) & (runs.diversity.repetition == 0)]
        axis.step(np.arange(1, len(rows) + 1), np.sort(rows.paths), line, color=colour, label=name)
    axis.legend()
    return figure


def draw_fairness(runs: Runs) -> Figure:
    """Every server's share, sorted: MPTCP in both networks, and one flow beside it."""
    figure, _ = new_figure("What each server gets", "servers, sorted (share)", "", columns=2)
    figure.axes[0].set_ylabel("share of its rate")
    for axis, transport in zip(figure.axes, ("MPTCP", "1 flow"), strict=True):
        for kind, label in (("fat-tree", "ECMP"), ("jellyfish", "8 paths")):
            case = f"{kind}, {label}, {transport}"
            shares = np.sort(runs.servers[runs.servers.case == case]["share"])
            index = fairness(runs)[case]
            rank = np.arange(1, len(shares) + 1) / len(shares)
            axis.step(rank, shares, color=COLOURS[kind], label=f"{kind}, {label}: Jain {index:.3f}")
        axis.set_title(transport, fontsize=10)
        axis.set_ylim(0, 1.05)
        axis.legend(loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """MPTCP on Jellyfish beside the same with one path, and with a ring in place of the random graph."""
    figure, axis = new_figure("Broken on purpose (MPTCP)", "mean share of a server's rate (%)", "")
    names = ["jellyfish, 8 paths, MPTCP", *CONTROLS]
    means = 100 * runs.servers.groupby("case")["share"].mean()[names]
    bars = axis.barh(names, means, color=[COLOURS["jellyfish"], COLOURS["ring"], COLOURS["ring"]])
    axis.bar_label(bars, fmt="%.0f", padding=3)
    axis.invert_yaxis()
    axis.set_xlim(0, 105)
    return figure


def draw_paths(table: pd.DataFrame) -> Figure:
    """Mean share and fairness over the number of paths, a curve a transport."""
    figure, _ = new_figure("How many paths are enough?", "shortest paths", "", columns=2, log_x=True)
    for axis, (column, label) in zip(
        figure.axes, (("share", "mean share of a server's rate"), ("jain", "Jain's index")), strict=True
    ):
        for colour, (name, rows) in zip(("#0072B2", "#56B4E9", "#D55E00"), table.groupby("transport"), strict=True):
            axis.plot(rows.paths, rows[column], "o-", color=colour, label=name)
        axis.set_ylabel(label)
        axis.set_ylim(0, 1.05)
        axis.set_xticks(sorted(set(table.paths)), [str(count) for count in sorted(set(table.paths))])
        axis.minorticks_off()
    figure.axes[0].legend()
    return figure


def draw_servers(table: pd.DataFrame) -> Figure:
    """Optimal share over servers."""
    figure, axis = new_figure("More servers on the same switches", "servers", "share of its rate for everyone")
    for kind, rows in table.groupby("network"):
        axis.plot(rows.servers, rows.share, "o-", color=COLOURS[str(kind)], label=kind)
    base = table["fat_tree_servers"].iloc[0]
    axis.axvline(base, color=COLOURS["fat-tree"], linestyle="--", label="servers of the fat-tree")
    axis.set_ylim(0, 1.05)
    axis.legend()
    return figure


def explore(seconds: float = 0.3) -> object:
    """Menus for network and transport, sliders for paths and servers; every server's share redrawn at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "network": widgets.Dropdown(options=["jellyfish", "ring", "fat-tree"], description="network"),
        "transport": widgets.Dropdown(options=TRANSPORTS, value="MPTCP", description="transport"),
        "paths": widgets.IntSlider(8, min=1, max=16, description="paths"),
        "gain": widgets.FloatSlider(1.14, min=0.9, max=2.0, step=0.02, description="servers"),
    }

    def redraw(network: str, transport: str, paths: int, gain: float) -> None:
        case = Case(network, "ecmp" if network == "fat-tree" else paths, transport)
        shares = np.sort(_run(case, Setting(server_gain=gain), seconds, 1)[0]["share"])
        title = f"mean {shares.mean():.2f}, Jain's index {jain(shares):.3f}"
        figure, axis = new_figure(title, "servers, sorted", "share of its rate")
        axis.step(np.arange(1, len(shares) + 1), shares, color=COLOURS[network])
        axis.set_ylim(0, 1.05)
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
