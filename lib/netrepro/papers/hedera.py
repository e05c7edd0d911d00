"""Hedera's traffic patterns on a fat-tree: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.2, Fig. 8; Al-Fares et al., "Hedera", NSDI 2010, Fig. 9.

Sixteen hosts of a k = 4 fat-tree send one to four long flows each. Where flows are hashed to paths, or all go by one
tree, they share links that others leave empty; a scheduler that knows all flows puts them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import shortest_paths, spanning_tree
from netrepro.networks.topology import Topology, fat_tree, star
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers._running import run_all, run_experiment
from netrepro.papers._runs import CheckedRuns, Progress, in_parallel, of_profile, seed_of
from netrepro.paths import data_dir
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

HOSTS = 16
CORES = ("s17", "s18", "s19", "s20")
PAYLOAD_SHARE = 1448 / FULL_PACKET_BYTES  # of a link's rate, that full packets leave to their payload
BIJECTIVE = (
    *(f"stag{i}({share},0.3)" for share in ("0.2", "0.5") for i in range(3)),
    *(f"stride{i}" for i in (1, 2, 4, 8)),
    *(f"randbij{i}" for i in range(3)),
)
SCHEMES = ("non-blocking", "ECMP", "spanning tree", "first fit", "annealing")
SCHEDULED = ("first fit", "annealing")  # Hedera's own: a path for each flow
ENDS = ("non-blocking", "spanning tree")  # what the claim about strides compares
# The data do not say which of Hedera's schedulers is which; data/hedera/SOURCES.md says why we guess this.
COLUMNS_OF_HARDWARE = {
    "non-blocking": "non_blocking_mbps",
    "spanning tree": "ecmp_mbps",
    "first fit": "hedera_1_mbps",
    "annealing": "hedera_2_mbps",
}
Demand = tuple[int, int]  # source and destination host, 0 to 15


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.2. Delay is ours; flows start at random within `starts_within_s`."""

    rate_mbps: float = 10.0
    buffer_packets: int = 50
    delay_ms: float = 0.05
    congestion_control: str = "cubic"
    starts_within_s: float = 1.0
    counted_from_s: float = 10.0

    @property
    def link(self) -> Link:
        return Link(self.rate_mbps, self.delay_ms, DropTail(packets=self.buffer_packets))


PRINTED = Setting()


@dataclass(frozen=True)
class Profile:
    """How long rates are averaged, and how many repetitions there are at least and at most.

    only : patterns, () for all. counted_from_s, starts_within_s : instead of the setting's. strides : repetitions of
    what the claim about strides compares, where that is more.
    """

    counted_s: float
    repetitions: int
    most_repetitions: int | None = None
    only: tuple[str, ...] = ()
    counted_from_s: float | None = None
    starts_within_s: float | None = None
    strides: int = 0

    def applied_to(self, setting: Setting) -> Setting:
        """The setting with the times of the profile where that has its own."""
        own = {name: getattr(self, name) for name in ("counted_from_s", "starts_within_s")}
        return replace(setting, **{name: value for name, value in own.items() if value is not None})


FEW = ("stride1", "stride8", "randbij0")
# From 3 s on shares are those from 15 s on: of 90 runs they differ by -0.0004 on average, with a deviation of 0.004.
PROFILES = {"quick": Profile(5.0, 1, counted_from_s=3.0), "paper": Profile(10.0, 3)}
# A kernel works about a second for every run.
QUICK_ON_VIRTUAL = Profile(0.7, 2, 2, FEW, 1.2, 0.2, strides=3)
FEWEST_TO_CORRELATE = 10  # patterns; three points lie near some line whatever the routing
FASTER_MBPS = 100.0  # on kernels too, beside the setting's rate


def profile_named(name: str, tier: str = "simulated") -> Profile:
    """The sizes of a profile on a tier. Raises NetreproError for another name than quick and paper."""
    return QUICK_ON_VIRTUAL if tier != "simulated" and name == "quick" else of_profile(name, PROFILES)


def patterns() -> dict[str, tuple[Demand, ...]]:
    """The 20 traffic patterns of Fig. 8, in its order: (source, destination) of every flow, hosts 0 to 15."""
    table = pd.read_csv(data_dir("hedera") / "patterns.csv", comment="#")
    groups = table.groupby("pattern", sort=False)
    return {str(name): tuple(zip(rows.source, rows.destination, strict=True)) for name, rows in groups}


def pattern_named(name: str) -> tuple[Demand, ...]:
    """The flows of one pattern. Raises NetreproError, with the nearest name, for none of the 20."""
    known = patterns()
    if name not in known:
        raise NetreproError(f"no traffic pattern {name!r}", nearest(name, known))
    return known[name]


def hardware() -> pd.DataFrame:
    """What Hedera's testbed reached: pattern, and a share of the 16 links for each of COLUMNS_OF_HARDWARE."""
    table = pd.read_csv(data_dir("hedera") / "hardware.csv", comment="#").set_index("pattern")
    return pd.DataFrame({name: table[column] / 16_000 for name, column in COLUMNS_OF_HARDWARE.items()})


# Hedera's schedulers, from the description in its section 4.


def estimate_demands(flows: Sequence[Demand]) -> np.ndarray:
    """What each flow would get in a network without bottlenecks inside, as a share of a host's link.

    Senders share out what they have left among flows that are not limited at their receiver; receivers that are asked
    for more than a link limit the flows above the fair share; until nothing changes (Hedera, section 4.2).
    """
    sources, destinations = (np.array(ends) for ends in zip(*flows, strict=True))
    demands, limited = np.zeros(len(flows)), np.zeros(len(flows), dtype=bool)
    while True:
        before = demands.copy()
        for source in np.unique(sources):
            free = (sources == source) & ~limited
            if free.any():
                demands[free] = (1 - demands[(sources == source) & limited].sum()) / free.sum()
        for destination in np.unique(destinations):
            here = destinations == destination
            if demands[here].sum() <= 1 + 1e-12:
                continue
            share, greedy = 1.0 / here.sum(), here.copy()
            while True:  # flows below the fair share keep what they ask for; the others share what is left
                modest = greedy & (demands < share - 1e-12)
                if not modest.any():
                    break
                greedy &= ~modest
                share = (1 - demands[here & ~greedy].sum()) / greedy.sum()
            demands[greedy], limited[greedy] = share, True
        if np.allclose(demands, before, rtol=0, atol=1e-12):
            return demands


def first_fit(topology: Topology, flows: Sequence[Demand]) -> list[tuple[str, ...]]:
    """Global first fit: each flow takes the first of its paths on which every link has room for its demand.

    Returns a path a flow, () for one that fits nowhere and stays with its hash (Hedera, section 4.3).
    """
    used: dict[tuple[str, str], float] = {}
    chosen: list[tuple[str, ...]] = []
    for flow, demand in zip(flows, estimate_demands(flows), strict=True):
        for path in _ways(topology, *_names(flow)):
            links = list(pairwise(path))
            if all(used.get(link, 0.0) + demand <= 1 + 1e-9 for link in links):
                for link in links:
                    used[link] = used.get(link, 0.0) + demand
                chosen.append(path)
                break
        else:
            chosen.append(())
    return chosen


def annealing(topology: Topology, flows: Sequence[Demand], seed: int, rounds: int = 1000) -> list[tuple[str, ...]]:
    """Simulated annealing over the core switch that each destination host is reached by; energy is the demand that
    exceeds the links (Hedera, section 4.4). `rounds` and the cooling (linear, to nothing) are ours.

    Returns a path a flow.
    """
    random = np.random.default_rng([seed, len(flows)])
    demands = estimate_demands(flows)
    number: dict[tuple[str, str], int] = {}
    # crosses[flow][core]: the links of the flow's path by that core switch.
    paths = [_paths_by_core(_ways(topology, *_names(flow))) for flow in flows]
    crosses = [
        [[number.setdefault(link, len(number)) for link in pairwise(path)] for path in choices] for choices in paths
    ]
    loads = np.zeros((len(CORES), len(flows), len(number)))
    for flow, choices in enumerate(crosses):
        for core, links in enumerate(choices):
            loads[core, flow, links] = demands[flow]
    destinations = np.array([destination for _, destination in flows])

    def load_of(cores: np.ndarray) -> np.ndarray:
        return loads[cores[destinations], np.arange(len(flows))].sum(axis=0)

    def energy(cores: np.ndarray) -> float:
        return float(np.maximum(load_of(cores) - 1, 0).sum())

    cores = np.tile(np.arange(len(CORES)), HOSTS // len(CORES))
    now = energy(cores)
    best, least = cores.copy(), now
    for left in range(rounds, 0, -1):
        if least <= 1e-9:
            break
        trial = cores.copy()
        if random.random() < 0.5:  # two hosts of a pod change places, or one host takes any core switch
            pod = 4 * random.integers(HOSTS // 4)
            first, second = pod + random.choice(4, 2, replace=False)
            trial[[first, second]] = trial[[second, first]]
        else:
            trial[random.integers(HOSTS)] = random.integers(len(CORES))
        then = energy(trial)
        if then <= now or random.random() < np.exp((now - then) / (0.5 * left / rounds)):
            cores, now = trial, then
            if now < least:
                best, least = cores.copy(), now
    return [choices[best[destination]] for choices, (_, destination) in zip(paths, flows, strict=True)]


_ways = lru_cache(maxsize=1024)(shortest_paths)  # every repetition asks for the same


def _paths_by_core(paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Of a flow's shortest paths the one by each core switch where it leaves the pod, by its neighbour where not."""
    by_core = {core: path for path in paths for core in CORES if core in path}
    return [by_core.get(core, paths[place // 2 % len(paths)]) for place, core in enumerate(CORES)]


def _names(flow: Demand) -> tuple[str, str]:
    return f"h{flow[0] + 1}", f"h{flow[1] + 1}"


# Measuring.


def experiment(flows: Sequence[Demand], how: str, setting: Setting, counted_s: float, seed: int) -> Experiment:
    """One pattern under one scheme: what any tier runs. Raises NetreproError for another scheme than SCHEMES."""
    if how not in SCHEMES:
        raise NetreproError(f"no scheme {how!r}", nearest(how, SCHEMES))
    topology = star(HOSTS, setting.link) if how == "non-blocking" else fat_tree(4, setting.link)
    if how == "spanning tree":
        topology = only_tree(topology)
    paths: list[tuple[str, ...]] = [()] * len(flows)
    if how == "first fit":
        paths = first_fit(topology, flows)
    elif how == "annealing":
        paths = annealing(topology, flows, seed)
    end_s = setting.counted_from_s + counted_s
    starts = np.random.default_rng([seed, 1]).uniform(0, setting.starts_within_s, len(flows))
    return Experiment(
        topology,
        tuple(
            Flow(*_names(flow), duration_s=end_s - start, start_s=float(start), path=path)
            for flow, start, path in zip(flows, starts, paths, strict=True)
        ),
        end_s,
        seed,
        Measure(packets=tuple(ports_to_hosts(topology))),
        Tcp(setting.congestion_control),
    )


def only_tree(topology: Topology) -> Topology:
    """The fat-tree without the cables that a spanning tree rooted at its first core switch blocks."""
    tree = spanning_tree(topology, CORES[0])
    kept = tuple(cable for cable in topology.cables if tree.has_edge(cable.first, cable.second))
    return Topology(kept, f"spanning tree of {topology.name}")


def ports_to_hosts(topology: Topology) -> list[tuple[str, str]]:
    """(switch, host) of every host."""
    return [(next(iter(topology.graph[host])), host) for host in topology.hosts]


def goodput_shares(found: Measurements, setting: Setting) -> np.ndarray:
    """Payload that reached each host while it was counted, as a share of its link's rate; 16 values.

    Full packets carry 1448 bytes; acknowledgements, which leave by the same ports, carry none.
    """
    packets = found.packets
    counted = packets[(packets.time_s >= setting.counted_from_s) & (packets.size_bytes == FULL_PACKET_BYTES)]
    seconds = found.experiment.duration_s - setting.counted_from_s
    counts = counted.groupby("destination").size().reindex(found.experiment.topology.hosts, fill_value=0)
    return counts.to_numpy() * 1448 * 8e-6 / seconds / setting.rate_mbps


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions of all patterns under all schemes.

    shares : pattern, scheme, repetition, share (of all 16 links, payload), least_host, most_host (of one link).
    fidelity : pattern, scheme, repetition, check, value, bound, holds. tier : where they ran. rate_mbps : of the links.
    """

    shares: pd.DataFrame
    fidelity: pd.DataFrame
    tier: str
    rate_mbps: float = 10.0

    def by_pattern(self) -> pd.DataFrame:
        """Mean share over repetitions: a row a pattern, a column a scheme."""
        table = self.shares.pivot_table(index="pattern", columns="scheme", values="share", sort=False)
        return table[[name for name in SCHEMES if name in table]]


def measure(
    profile: Profile,
    repetitions: int,
    seed: int,
    *,
    tier: str = "simulated",
    schemes: Sequence[str] = SCHEMES,
    only: Sequence[str] = (),
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> Runs:
    """Run every pattern (or those of `only`, or of the profile) under every scheme, on all cores.

    `progress` wraps the list of runs. Raises NetreproError for an unknown pattern or scheme.
    """
    chosen = {name: pattern_named(name) for name in (only or profile.only or patterns())}
    setting = profile.applied_to(setting)
    repetitions = min(max(repetitions, profile.repetitions), profile.most_repetitions or repetitions)

    def times(name: str, how: str) -> int:
        return max(repetitions, profile.strides) if name in ("stride1", "stride8") and how in ENDS else repetitions

    work = [(name, how, each) for name in chosen for how in schemes for each in range(times(name, how))]

    def run_one(name: str, how: str, each: int) -> tuple[dict[str, float], pd.DataFrame]:
        asked = experiment(chosen[name], how, setting, profile.counted_s, seed_of(seed, each))
        found = run_experiment(asked, tier)
        of_hosts = goodput_shares(found, setting)
        shares = {"share": of_hosts.mean(), "least_host": of_hosts.min(), "most_host": of_hosts.max()}
        return shares, check_fidelity(found, of_hosts)

    runs, fidelity = run_all(run_one, work, tier, progress, pattern="", scheme="", repetition=0)
    shares = []
    for (name, how, each), (found, checks) in zip(work, runs, strict=True):
        label = {"pattern": name, "scheme": how, "repetition": each}
        shares.append(label | found)
        fidelity.append(checks.assign(**label))
    return Runs(pd.DataFrame(shares), pd.concat(fidelity, ignore_index=True), tier, setting.rate_mbps)


def check_fidelity(found: Measurements, shares: np.ndarray) -> pd.DataFrame:
    """The tier's own checks, and that no host got more than its link carries; shares : as of goodput_shares."""
    most = float(shares.max())
    ours = pd.DataFrame(
        [("most that a host got, of its link", most, PAYLOAD_SHARE * 1.002, most <= PAYLOAD_SHARE * 1.002)],
        columns=["check", "value", "bound", "holds"],
    )
    return pd.concat([found.fidelity, ours], ignore_index=True)


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """One measurement a claim of data/hedera/claims.yaml whose patterns were run; values are repetitions."""
    tables = [
        rows.pivot(index="pattern", columns="scheme", values="share") for _, rows in runs.shares.groupby("repetition")
    ]
    names = list(patterns())

    def curve(how: str) -> list[list[tuple[float, float]]]:
        kept = [table[how] / table["non-blocking"] for table in tables]
        return [[(i + 1.0, float(shares[name])) for i, name in enumerate(names)] for shares in kept]

    def ratio(above: str, below: str) -> list[float]:
        return [float((table[above] / table[below]).mean()) for table in tables]

    def lone(how: str) -> list[float]:
        return [float(table[how][list(BIJECTIVE)].mean() / PAYLOAD_SHARE) for table in tables]

    def strides(how: str) -> list[float]:
        return [float(table[how]["stride8"] / table[how]["stride1"]) for table in tables]

    def fading(how: str) -> list[float]:
        gains = [table[how] / table["spanning tree"] for table in tables]
        return [float(gain["randx4"] / gain[["randbij0", "randbij1", "randbij2"]].mean()) for gain in gains]

    if set(names) - set(tables[0].index):
        return [
            Measured(
                claim="longer-strides-lose",
                values=strides("spanning tree"),
                control=strides("non-blocking"),
                **runs.trust,
            )
        ]
    hashed = curve("ECMP")
    values: dict[str, tuple[list, list]] = {
        "tree-like-hardware-ecmp": (curve("spanning tree"), curve("non-blocking")),
        "hash-like-hardware-ecmp": (hashed, [_backwards(each) for each in hashed]),
        "non-blocking-is-full": (lone("non-blocking"), lone("spanning tree")),
        "longer-strides-lose": (strides("spanning tree"), strides("non-blocking")),
        "ecmp-loss": (ratio("spanning tree", "non-blocking"), ratio("ECMP", "non-blocking")),
    }
    if set(SCHEDULED) <= set(tables[0]):
        tree = ratio("spanning tree", "non-blocking")
        values |= {
            "hedera-1": (ratio("first fit", "non-blocking"), tree),
            "hedera-2": (ratio("annealing", "non-blocking"), tree),
            "gain-falls-with-flows": (fading("annealing"), fading("spanning tree")),
        }
    return [
        Measured(claim=claim, values=ours, control=broken, **runs.trust) for claim, (ours, broken) in values.items()
    ]


def _backwards(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The curve with every pattern's value at the place of its mirror image in the figure."""
    return [(x, y) for (x, _), (_, y) in zip(curve, reversed(curve), strict=True)]


def _follows(shares: pd.Series) -> float:
    """Correlation with the testbed's "ECMP" of shares by pattern; NaN for less than FEWEST_TO_CORRELATE patterns."""
    published = hardware()["spanning tree"].reindex(shares.index)
    return float(shares.corr(published)) if shares.count() >= FEWEST_TO_CORRELATE else float("nan")


def tier_table(all_runs: Sequence[Runs]) -> pd.DataFrame:
    """A row for every tier and rate that ran: how its spanning tree and its hash agree with the testbed's "ECMP".

    Correlations are of shares of the 16 links over the patterns of the row, NaN for too few; the other columns are
    means over them, NaN for a scheme that did not run.
    """
    rows = []
    for runs in all_runs:
        table = runs.by_pattern().reindex(columns=list(SCHEMES))
        kept = {f"{how}: correlation": _follows(table[how]) for how in ("spanning tree", "ECMP")}
        kept |= {f"{how}: share": table[how].mean() for how in ("non-blocking", "ECMP", "spanning tree")}
        rows.append(
            {"tier": runs.tier, "rate_mbps": runs.rate_mbps, "patterns": len(table), **kept, "trusted": runs.trusted}
        )
    return pd.DataFrame(rows).set_index("tier")


def other_tiers(
    runs: Runs, profile: str, seed: int, setting: Setting = PRINTED, progress: Progress = iter
) -> list[Runs]:
    """What `runs` on kernels is compared with: the same patterns in the simulator. Then stride 8 at FASTER_MBPS, unless
    all ran at that: on the same tier, and in the simulator."""
    if runs.tier == "simulated":
        return []
    size = replace(profile_named(profile, runs.tier), repetitions=1, most_repetitions=1, strides=0)
    patterns_of, faster = tuple(runs.by_pattern().index), replace(setting, rate_mbps=FASTER_MBPS)
    asked: list[tuple[str, Sequence[str], tuple[str, ...], Setting]]
    asked = [("simulated", ("non-blocking", "ECMP", "spanning tree"), patterns_of, setting)]
    if setting.rate_mbps != FASTER_MBPS:
        asked += [(tier, ENDS, ("stride8",), faster) for tier in (runs.tier, "simulated")]
    return [
        measure(size, 1, seed, tier=tier, schemes=schemes, only=only, setting=used, progress=progress)
        for tier, schemes, only, used in asked
    ]


def answer(runs: Runs, others: Sequence[Runs] = ()) -> str:
    """The question answered in short, with this run's numbers; others : as of other_tiers."""
    table = runs.by_pattern()
    relative = table.div(table["non-blocking"], axis=0).mean()
    names = {"spanning tree": "one tree", "ECMP": "hashing", "first fit": "first fit", "annealing": "annealing"}
    kept = ", ".join(f"{name} {relative[how]:.0%}" for how, name in names.items() if how in relative)
    said = [f"Of what a non-blocking switch carries the fat-tree keeps, over {len(table)} patterns: {kept}."]
    if len(table) >= FEWEST_TO_CORRELATE:
        tree, hashed = (_follows(table[how]) for how in ("spanning tree", "ECMP"))
        said.append(
            f'The testbed\'s "ECMP" follows one tree (correlation {tree:.3f}) rather than hashing ({hashed:.3f}).'
        )
    faster = [
        f"{how} {share:.1%} of the links ({'trusted' if each.trusted else 'untrusted'})"
        for each in others
        if each.tier != "simulated" and each.rate_mbps != runs.rate_mbps
        for how, share in each.by_pattern().mean().items()
    ]
    if faster:
        said.append(f"On kernels at {FASTER_MBPS:g} Mb/s stride 8 fills: {', '.join(faster)}.")
    return " ".join(said)


# Figures.


def draw_network() -> Figure:
    """The fat-tree of k = 4, and the tree that is left of it when only one path is used."""
    topology = fat_tree(4, PRINTED.link)
    figure, axis = new_figure("A fat-tree of k = 4, and the tree in it that one path a pair leaves", "", "")
    axis.axis("off")
    place = {f"h{i + 1}": (i + 0.0, 0.0) for i in range(16)}
    place |= {f"s{i + 1}": (2 * i + 0.5, 1.0) for i in range(8)}
    place |= {f"s{i + 9}": (2 * i + 0.5, 2.0) for i in range(8)}
    place |= {core: (4.0 * i + 1.5, 3.2) for i, core in enumerate(CORES)}
    tree = only_tree(topology).graph
    nx.draw_networkx_edges(topology.graph, place, ax=axis, edge_color="#cccccc")
    colour = scheme("spanning tree").colour
    nx.draw_networkx_edges(topology.graph, place, edgelist=list(tree.edges), ax=axis, edge_color=colour, width=1.8)
    nodes = {"node_size": 160, "ax": axis, "edgecolors": "black", "node_color": "white"}
    nx.draw_networkx_nodes(topology.graph, place, nodelist=topology.switches, node_shape="s", **nodes)
    nx.draw_networkx_nodes(topology.graph, place, nodelist=topology.hosts, node_shape="o", **nodes)
    for height, name in ((0, "hosts"), (1, "edge"), (2, "aggregation"), (3.2, "core")):
        axis.text(-0.8, height, name, ha="right", va="center")
    axis.set_xlim(-3.2, 15.8)
    return figure


def draw_throughput(runs: Runs) -> Figure:
    """Fig. 8: throughput by pattern, the testbed in grey behind ours."""
    return _draw_bars(runs, ("non-blocking", "spanning tree"), "Throughput by pattern, as in Fig. 8")


def draw_schedulers(runs: Runs) -> Figure:
    """The same for hashing and for Hedera's two schedulers."""
    schemes = [how for how in ("ECMP", *SCHEDULED) if how in runs.by_pattern()]
    whose = "testbed; which scheduler is which is our guess"
    return _draw_bars(runs, schemes, "Hashing, and Hedera's schedulers", whose)


def _draw_bars(runs: Runs, schemes: Sequence[str], title: str, whose: str = "testbed") -> Figure:
    table, published = runs.by_pattern(), hardware()
    spread = runs.shares.groupby(["pattern", "scheme"])["share"].agg(["min", "max"])
    figure, axis = new_figure(title, "", "payload received (share of all 16 links)")
    figure.set_size_inches(10.5, 4.4)
    width = 0.8 / len(schemes)
    for i, how in enumerate(schemes):
        x = np.arange(len(table)) + (i - (len(schemes) - 1) / 2) * width
        low, high = (spread.xs(how, level="scheme")[end].reindex(table.index) for end in ("min", "max"))
        error = np.array([table[how] - low, high - table[how]]).clip(min=0)
        axis.bar(x, table[how], width * 0.9, yerr=error, color=scheme(how).colour, label=how, error_kw={"lw": 1})
        if how in published:
            label = whose if i == len(schemes) - 1 else None
            axis.plot(x, published[how].reindex(table.index), "D", color=PUBLISHED_GREY, ms=5, mec="white", label=label)
    axis.set_xticks(range(len(table)), table.index, rotation=60, ha="right", fontsize=8)
    axis.set_ylim(0, 1.12)
    axis.legend(ncols=len(schemes) + 1, loc="upper left", fontsize=9)
    return figure


def draw_which_routing(runs: Runs) -> Figure:
    """The testbed's "ECMP" against our hash and against one tree, a point a pattern."""
    table, published = runs.by_pattern(), hardware()["spanning tree"]
    few = len(table) < FEWEST_TO_CORRELATE
    figure, axis = new_figure('What was the testbed\'s "ECMP"?', 'testbed, "ECMP" (share of 16 links)', "ours (share)")
    for how in ("ECMP", "spanning tree"):
        x = published.reindex(table.index)
        label = how if few else f"{how}: correlation {_follows(table[how]):.3f}"
        axis.plot(x, table[how], scheme(how).marker, color=scheme(how).colour, label=label)
    axis.plot([0, 1], [0, 1], ":", color=PUBLISHED_GREY, label="equal")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    axis.legend(loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Neighbours only: where no flow has a choice of paths, no scheme can be better than another."""
    table = runs.by_pattern()
    figure, axis = new_figure("Stride 1 and stride 8 under every scheme", "", "payload received (share of 16 links)")
    for i, how in enumerate(table):
        for offset, name, alpha in ((-0.2, "stride1", 0.45), (0.2, "stride8", 1.0)):
            axis.bar(i + offset, table[how][name], 0.36, color=scheme(how).colour, alpha=alpha)
            axis.text(i + offset, table[how][name] + 0.01, name.removeprefix("stride"), ha="center", fontsize=8)
    axis.set_xticks(range(table.shape[1]), list(table))
    return figure


# Knob: flows a host.


def vary_flows(
    seed: int,
    *,
    flows: Sequence[int] = (1, 2, 4, 8),
    draws: int = 3,
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Throughput over the number of flows that each host sends to hosts drawn at random, simulated.

    Returns flows_per_host, draw, scheme, share. Every scheme sees the same flows. Rates count for 4 s from 4 s on, and
    on faster links than 10 Mb/s for as many packets.
    """
    pace = min(1.0, PRINTED.rate_mbps / setting.rate_mbps)
    starts_within_s = setting.starts_within_s * pace
    setting = replace(setting, counted_from_s=4.0 * pace, starts_within_s=starts_within_s)
    work = [(count, draw, how) for count in flows for draw in range(draws) for how in SCHEMES]

    def run_one(count: int, draw: int, how: str) -> tuple[int, int, str, float]:
        drawn = _drawn_flows(count, seed, draw)
        shares = goodput_shares(
            run_experiment(experiment(drawn, how, setting, 4.0 * pace, seed_of(seed, draw))), setting
        )
        return count, draw, how, float(shares.mean())

    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=["flows_per_host", "draw", "scheme", "share"])


def _drawn_flows(count: int, seed: int, draw: int) -> list[Demand]:
    random = np.random.default_rng([seed, draw, count])
    return [(host, int((host + 1 + random.integers(HOSTS - 1)) % HOSTS)) for host in range(HOSTS) for _ in range(count)]


def draw_flows(table: pd.DataFrame) -> Figure:
    """Throughput over flows a host, and the schedulers' gain over hashing."""
    figure, _ = new_figure("The more flows, the less a scheduler gains", "flows a host", "", columns=2, log_x=True)
    wide = table.pivot_table(index="flows_per_host", columns="scheme", values="share")[list(SCHEMES)]
    for how in wide:
        look = {"color": scheme(str(how)).colour, "marker": scheme(str(how)).marker, "label": how}
        figure.axes[0].plot(wide.index, wide[how], **look)
        if how in SCHEDULED:
            figure.axes[1].plot(wide.index, wide[how] / wide["ECMP"], **look)
    figure.axes[0].set_ylabel("payload received (share of 16 links)")
    figure.axes[0].set_ylim(0, 1)
    figure.axes[1].set_ylabel("throughput / that of ECMP")
    for axis in figure.axes:
        axis.set_xticks(list(wide.index), [str(each) for each in wide.index])
        axis.minorticks_off()
    figure.axes[1].axhline(1, color=PUBLISHED_GREY, lw=1)
    figure.axes[0].legend(fontsize=8)
    return figure


def explore() -> object:
    """Menus for pattern and scheme; the simulator redraws what each host receives."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "pattern": widgets.Dropdown(options=list(patterns()), value="stride8", description="pattern"),
        "how": widgets.Dropdown(options=SCHEMES, value="ECMP", description="scheme"),
        "seed": widgets.IntSlider(1, min=1, max=20, description="seed"),
    }

    def redraw(pattern: str, how: str, seed: int) -> None:
        found = run_experiment(experiment(pattern_named(pattern), how, PRINTED, 2.0, seed), "simulated")
        shares = goodput_shares(found, PRINTED)
        title = f"{pattern}, {how}: {shares.mean():.0%} of all links"
        figure, axis = new_figure(title, "host", "payload received (share of its link)")
        axis.bar(range(HOSTS), shares, color=scheme(how).colour)
        axis.set_ylim(0, 1)
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
