"""Hedera's traffic patterns on a fat-tree: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.2, Fig. 8; Al-Fares et al., "Hedera", NSDI 2010, Fig. 9.

Sixteen hosts of a k = 4 fat-tree send one to four long flows each. Where flows are hashed to paths, or all go by one
tree, they share links that others leave empty; a scheduler that knows all flows puts them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.routing import shortest_paths, spanning_tree
from netrepro.networks.topology import Topology, fat_tree, star
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each
from netrepro.study import pictures as drawing
from netrepro.study.setting import setting
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

HOSTS = 16
CORES = ("s17", "s18", "s19", "s20")
PAYLOAD_SHARE = 1448 / FULL_PACKET_BYTES  # of a link's rate, that full packets leave to their payload
BIJECTIVE = (
    *(f"stag{i}({share},0.3)" for share in ("0.2", "0.5") for i in range(3)),
    *(f"stride{i}" for i in (1, 2, 4, 8)),
    *(f"randbij{i}" for i in range(3)),
)
RANDBIJ = BIJECTIVE[-3:]
PATTERNS = (*BIJECTIVE[:10], "rand0", "rand1", "rand2", *RANDBIJ, "randx2", "randx3", "randx4", "hotspot")
FEW = ("stride1", "stride8", "randbij0")
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
FEWEST_TO_CORRELATE = 10  # patterns; three points lie near some line whatever the routing


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.2. Delay is ours; flows start at random within `starts_within_s`.

    how : one of SCHEMES. pattern : one of PATTERNS, every flow of it `copies` times. flows_per_host : in place of a
    pattern so many flows a host, to hosts drawn at random; 0 for the pattern. counted_s : 0 for the profile's.
    """

    rate_mbps: float = setting(10.0, "of every link", "Mb/s", low=0.1, high=10_000)
    buffer_packets: int = setting(50, "buffer of every port", "packets", low=1, high=100_000)
    delay_ms: float = setting(0.05, "of every link, one way", "ms", low=0, high=1000)
    congestion_control: str = setting("cubic", "of all hosts", one_of=("reno", "cubic"))
    starts_within_s: float = 1.0
    counted_from_s: float = 10.0
    counted_s: float = 0.0
    how: str = "ECMP"
    pattern: str = "stride8"
    copies: int = 1
    flows_per_host: int = 0

    @property
    def link(self) -> Link:
        return Link(self.rate_mbps, self.delay_ms, DropTail(packets=self.buffer_packets))


@lru_cache(maxsize=1)
def patterns() -> dict[str, tuple[Demand, ...]]:
    """Return the 20 traffic patterns of Fig. 8, in its order: (source, destination) of every flow, hosts 0 to 15."""
    table = pd.read_csv(data_dir("hedera") / "patterns.csv", comment="#")
    groups = table.groupby("pattern", sort=False)
    return {str(name): tuple(zip(rows.source, rows.destination, strict=True)) for name, rows in groups}


def flows_of(setting: Setting, seed: int) -> list[Demand]:
    """Return the flows of a setting. Raises NetreproError, with the nearest name, for none of the 20 patterns."""
    if setting.flows_per_host:
        random, count = np.random.default_rng([seed, setting.flows_per_host]), setting.flows_per_host
        return [(h, int((h + 1 + random.integers(HOSTS - 1)) % HOSTS)) for h in range(HOSTS) for _ in range(count)]
    if setting.pattern not in patterns():
        raise NetreproError(f"no traffic pattern {setting.pattern!r}", nearest(setting.pattern, patterns()))
    return [flow for flow in patterns()[setting.pattern] for _ in range(setting.copies)]


@lru_cache(maxsize=1)
def hardware() -> pd.DataFrame:
    """Read what Hedera's testbed reached: pattern, and a share of the 16 links for each of COLUMNS_OF_HARDWARE."""
    table = pd.read_csv(data_dir("hedera") / "hardware.csv", comment="#").set_index("pattern")
    return pd.DataFrame({name: table[column] / 16_000 for name, column in COLUMNS_OF_HARDWARE.items()})


# Hedera's schedulers, from the description in its section 4.


def estimate_demands(flows: Sequence[Demand]) -> np.ndarray:
    """Estimate what each flow would get in a network without bottlenecks inside, as a share of a host's link.

    Senders share out what they have left among flows that are not limited at their receiver. Receivers that are asked
    for more than a link limit the flows above the fair share. Both repeat until nothing changes (Hedera, section 4.2).
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
    """Place flows by global first fit: each flow takes the first of its paths on which every link has room for its
    demand.

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
    """Anneal the core switch by which each destination host is reached. The energy is the demand that exceeds the links
    (Hedera, section 4.4). `rounds` and the cooling (linear, to nothing) are ours.

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
    """Choose one of a flow's shortest paths for each core switch: the path through it where the flow leaves the pod,
    else the path by the core's neighbour."""
    by_core = {core: path for path in paths for core in CORES if core in path}
    return [by_core.get(core, paths[place // 2 % len(paths)]) for place, core in enumerate(CORES)]


def _names(flow: Demand) -> tuple[str, str]:
    return f"h{flow[0] + 1}", f"h{flow[1] + 1}"


# Measuring.


def experiment(setting: Setting, counted_s: float, seed: int) -> Experiment:
    """Make the experiment with one pattern under one scheme, counted for so long where the setting does not say.

    Raises NetreproError for another scheme than SCHEMES.
    """
    if setting.how not in SCHEMES:
        raise NetreproError(f"no scheme {setting.how!r}", nearest(setting.how, SCHEMES))
    flows = flows_of(setting, seed)
    topology = star(HOSTS, setting.link) if setting.how == "non-blocking" else fat_tree(4, setting.link)
    if setting.how == "spanning tree":
        topology = only_tree(topology)
    paths: list[tuple[str, ...]] = [()] * len(flows)
    if setting.how == "first fit":
        paths = first_fit(topology, flows)
    elif setting.how == "annealing":
        paths = annealing(topology, flows, seed)
    end_s = setting.counted_from_s + (setting.counted_s or counted_s)
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
        Tcp(setting.congestion_control, syn_linear_timeouts=0),
    )


def only_tree(topology: Topology) -> Topology:
    """Return the fat-tree without the cables that a spanning tree rooted at its first core switch blocks."""
    tree = spanning_tree(topology, CORES[0])
    kept = tuple(cable for cable in topology.cables if tree.has_edge(cable.first, cable.second))
    return Topology(kept, f"spanning tree of {topology.name}")


def ports_to_hosts(topology: Topology) -> list[tuple[str, str]]:
    """Return (switch, host) of every host."""
    return [(next(iter(topology.graph[host])), host) for host in topology.hosts]


def goodput_shares(found: Measurements, setting: Setting) -> np.ndarray:
    """Return the payload that reached each host while it was counted, as a share of its link's rate; 16 values.

    Full packets carry 1448 bytes; acknowledgements, which leave by the same ports, carry none.
    """
    packets = found.packets
    counted = packets[(packets.time_s >= setting.counted_from_s) & (packets.size_bytes == FULL_PACKET_BYTES)]
    seconds = found.experiment.duration_s - setting.counted_from_s
    counts = counted.groupby("destination").size().reindex(found.experiment.topology.hosts, fill_value=0)
    return counts.to_numpy() * 1448 * 8e-6 / seconds / setting.rate_mbps


def read(found: Measurements, setting: Setting) -> Reading:
    """Read the payload as a share of all 16 links, and of one link the least and the most that a host got."""
    of_hosts = goodput_shares(found, setting)
    most = float(of_hosts.max())
    within = Check("most that a host got, of its link", most, at_most=PAYLOAD_SHARE * 1.002)
    return Reading({"share": of_hosts.mean(), "least_host": of_hosts.min(), "most_host": most}, checks=[within])


def by_pattern(runs: Runs, tier: str = "") -> pd.DataFrame:
    """Return the mean share over repetitions: a row for each pattern, in the figure's order, a column for each
    scheme."""
    rows = runs.values[(runs.values.tier == (tier or runs.tier)) & runs.values.case.isin(ALL)]
    table = rows.pivot_table(index="pattern", columns="how", values="share")
    return table.reindex([name for name in PATTERNS if name in table.index])[list(SCHEMES)]


def _follows(shares: pd.Series) -> float:
    """Return the correlation with the testbed's "ECMP" of shares by pattern; NaN for less than FEWEST_TO_CORRELATE
    patterns."""
    published = hardware()["spanning tree"].reindex(shares.index)
    return float(shares.corr(published)) if shares.count() >= FEWEST_TO_CORRELATE else float("nan")


def answer(runs: Runs) -> str:
    """Answer the question in short, with this run's numbers."""
    table = by_pattern(runs)
    relative = table.div(table["non-blocking"], axis=0).mean()
    names = {"spanning tree": "one tree", "ECMP": "hashing", "first fit": "first fit", "annealing": "annealing"}
    kept = ", ".join(f"{name} {relative[how]:.0%}" for how, name in names.items())
    said = [f"Of what a non-blocking switch carries the fat-tree keeps, over {len(table)} patterns: {kept}."]
    if len(table) >= FEWEST_TO_CORRELATE:
        tree, hashed = (_follows(table[how]) for how in ("spanning tree", "ECMP"))
        said.append(
            f'The testbed\'s "ECMP" follows one tree (correlation {tree:.3f}) rather than hashing ({hashed:.3f}).'
        )
    if runs.has(FASTER):
        means = runs.numbers(FASTER).groupby("how").share.mean()
        faster = ", ".join(f"{how} {means[how]:.1%} of the links" for how in ENDS)
        said.append(f"At 100 Mb/s stride 8 fills: {faster}.")
    if runs.has(GIGABIT):
        said.append(at_testbeds_rate(runs))
    return " ".join(said)


def at_testbeds_rate(runs: Runs) -> str:
    """Say in words what one tree keeps of stride 8 at 1 Gb/s, beside the testbed."""
    shares = runs.numbers(GIGABIT).groupby(["how", "pattern"]).share.mean()
    ours, testbed = (of_switch("stride8", each) for each in (shares, hardware().unstack()))
    return f"At 1 Gb/s one tree keeps {ours:.1%} of stride 8, on the testbed {testbed:.1%}."


# Claims. Tables have a row for each pattern and a column for each scheme, of one repetition.


def share_of_switch(how: str, table: pd.DataFrame) -> list[tuple[float, float]]:
    """Compute the share of the non-blocking switch over the pattern's place in the figure."""
    shares = table[how] / table["non-blocking"]
    return [(i + 1.0, float(shares[name])) for i, name in enumerate(PATTERNS)]


def as_on_hardware(how: str, table: pd.DataFrame) -> float:
    """Return the share of the patterns within a tenth of the testbed, each beside its own non-blocking switch."""
    testbed = hardware()
    published = testbed["spanning tree"] / testbed["non-blocking"]
    return float(((table[how] / table["non-blocking"] / published[table.index] - 1).abs() <= 0.1).mean())


def kept(how: str, table: pd.DataFrame) -> float:
    """Compute the share of the non-blocking switch's throughput that is kept, as the mean over all patterns."""
    return float((table[how] / table["non-blocking"]).mean())


def filled(how: str, table: pd.DataFrame) -> float:
    """Compute the share that is filled of what full packets leave of the links, as the mean over the bijective
    patterns."""
    return float(table[how][list(BIJECTIVE)].mean() / PAYLOAD_SHARE)


def stride_8_over_1(how: str, shares: pd.Series) -> float:
    """Divide the longest stride's share by the shortest's. shares : by scheme and pattern."""
    return float(shares[how]["stride8"] / shares[how]["stride1"])


def of_switch(pattern: str, shares: pd.Series) -> float:
    """Divide one tree's share by the switch's. shares : by scheme and pattern."""
    return float(shares["spanning tree"][pattern] / shares["non-blocking"][pattern])


def mean_gain(names: Sequence[str], table: pd.DataFrame) -> float:
    """Compute annealing's throughput over one tree's, as the mean ratio in these patterns."""
    return float((table["annealing"] / table["spanning tree"])[list(names)].mean())


def fading(table: pd.DataFrame) -> float:
    """Divide the gain with four flows from each host by that with one."""
    return mean_gain(("randx4",), table) / mean_gain(RANDBIJ, table)


def fading_to_one_host(few: pd.Series, others: pd.Series, fourfold: pd.Series) -> float:
    """Compute the same where the four flows all go to one host. shares : by scheme and pattern."""
    single = mean_gain(RANDBIJ, pd.concat([few, others]).unstack("how"))
    return mean_gain(RANDBIJ, fourfold.unstack("how")) / single


def _over_all(ours: Callable[[pd.DataFrame], Any], control: Callable[[pd.DataFrame], Any] | None = None) -> Evidence:
    """Return evidence out of all patterns and schemes."""

    def how(few: pd.Series, others: pd.Series) -> Any:
        return ours(pd.concat([few, others]).unstack("how"))

    return Evidence("share", ALL, how=how, control=None if control is None else _over_all(control))


# Figures.


def draw_idea() -> Figure:
    """Draw the fat-tree of k = 4, and the tree that is left of it when only one path is used."""
    topology = fat_tree(4, Link(1.0, 0.0))  # what its links carry is not drawn
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


def draw_network(setting: Setting) -> Figure:
    """Draw the network as the experiment has it, with its links' rate, delay and buffer."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Sixteen hosts on a fat-tree of k = 4")


def draw_throughput(runs: Runs) -> Figure:
    """Draw Fig. 8: throughput by pattern, the testbed in grey behind ours."""
    return _draw_bars(runs, ("non-blocking", "spanning tree"), "Throughput by pattern, as in Fig. 8")


def draw_schedulers(runs: Runs) -> Figure:
    """Draw the same for hashing and for Hedera's two schedulers."""
    whose = "testbed; which scheduler is which is our guess"
    return _draw_bars(runs, ("ECMP", *SCHEDULED), "Hashing, and Hedera's schedulers", whose)


def _draw_bars(runs: Runs, schemes: Sequence[str], title: str, whose: str = "testbed") -> Figure:
    names, published = list(by_pattern(runs).index), hardware()
    figure, axis = new_figure(title, "", "payload received (share of all 16 links)")
    figure.set_size_inches(10.5, 4.4)
    width = 0.8 / len(schemes)
    for i, how in enumerate(schemes):
        x = np.arange(len(names)) + (i - (len(schemes) - 1) / 2) * width
        for at, name in zip(x, names, strict=True):
            _draw_bar(axis, runs, how, name, at, width * 0.9, label=how if name == names[0] else None)
        if how in published:
            label = whose if i == len(schemes) - 1 else None
            axis.plot(x, published[how].reindex(names), "D", color=PUBLISHED_GREY, ms=5, mec="white", label=label)
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    axis.set_ylim(0, 1.12)
    axis.legend(ncols=len(schemes) + 1, loc="upper left", fontsize=9)
    return figure


def _draw_bar(axis: Axes, runs: Runs, how: str, pattern: str, at: float, width: float, **look: Any) -> None:
    rows = runs.values[(runs.values.tier == runs.tier) & runs.values.case.isin(ALL)]
    shares = rows[(rows.how == how) & (rows.pattern == pattern)].share
    drawing.draw_bar(axis, at, shares, width, color=scheme(how).colour, **look)


def draw_which_routing(runs: Runs) -> Figure:
    """Draw the testbed's "ECMP" against our hash and against one tree, a point for each pattern."""
    table, published = by_pattern(runs), hardware()["spanning tree"]
    few = len(table) < FEWEST_TO_CORRELATE
    figure, axis = new_figure('What was the testbed\'s "ECMP"?', 'testbed, "ECMP" (share of 16 links)', "ours (share)")
    for how in ("ECMP", "spanning tree"):
        label = how if few else f"{how}: correlation {_follows(table[how]):.3f}"
        look = {"color": scheme(how).colour, "label": label}
        axis.plot(published.reindex(table.index), table[how], scheme(how).marker, **look)
    axis.plot([0, 1], [0, 1], ":", color=PUBLISHED_GREY, label="equal")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    axis.legend(loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw two controls. Left: where no flow has a choice of paths, no scheme can be better than another. Right: what
    annealing gains over one tree, with one flow from each host, with four to one other, and with four to several."""
    names = ("Stride 1 and stride 8 under every scheme", "One flow a host, and four")
    figure, (left, right) = drawing.panels("Broken on purpose", "", "", names)
    for i, how in enumerate(SCHEMES):
        for shift, name, alpha in ((-0.2, "stride1", 0.45), (0.2, "stride8", 1.0)):
            _draw_bar(left, runs, how, name, i + shift, 0.36, alpha=alpha)
            left.text(i + shift, 0.02, name.removeprefix("stride"), ha="center", color="white", fontweight="bold")
    left.set_xticks(range(len(SCHEMES)), list(SCHEMES))
    left.set_ylabel("payload received (share of 16 links)")
    right.set_ylabel("annealing over one tree (ratio)")
    if not runs.has(*ALL, TO_ONE):
        drawing.say_not_measured(right, runs.tier)
        return figure
    single, several = (_over_all(partial(mean_gain, patterns)) for patterns in (RANDBIJ, ("randx4",)))
    to_one = Evidence("share", TO_ONE, how=lambda shares: mean_gain(RANDBIJ, shares.unstack("how")))
    bars = {"one (randbij)": single, "four, to one host": to_one, "four (randx4)": several}
    ours = {name: runs.values_of(evidence) for name, evidence in bars.items()}
    published = {"one (randbij)": mean_gain(RANDBIJ, hardware()), "four (randx4)": mean_gain(("randx4",), hardware())}
    colours = {"four, to one host": scheme("control").colour}
    drawing.draw_bars(right, ours, published, dict.fromkeys(ours, scheme("annealing").colour) | colours, "testbed")
    return figure


def draw_flows(runs: Runs) -> Figure:
    """Draw the throughput over the number of flows from each host, and what a scheduler gains over hashing with the
    same flows."""
    table = runs.knobs["flows"]
    hashed = table[table.how == "ECMP"].set_index(["flows_per_host", "repetition"])["share"]
    places = pd.MultiIndex.from_frame(table[["flows_per_host", "repetition"]])
    table = table.assign(gain=table.share.to_numpy() / hashed.reindex(places).to_numpy())
    title, x = "The more flows, the less a scheduler gains", "flows a host"
    figure, (left, right) = drawing.panels(title, x, "", ["", ""], log_x=True)
    drawing.draw_sweep(left, table, "flows_per_host", "share", by="how")
    drawing.draw_sweep(right, table[table.how.isin(SCHEDULED)], "flows_per_host", "gain", by="how")
    left.set(ylabel="payload received (share of 16 links)", ylim=(0, 1))
    right.set(ylabel="throughput (times that of ECMP)")
    right.axhline(1, color=PUBLISHED_GREY, lw=1)
    for axis in (left, right):
        drawing.name_ticks(axis, "x", table.flows_per_host)
    drawing.share_legend(figure)
    return figure


def draw_run(found: Measurements, case: str) -> Figure:
    """Draw one run: what each host received."""
    rate_mbps = found.experiment.topology.link(*ports_to_hosts(found.experiment.topology)[0]).rate_mbps
    shares = goodput_shares(found, Setting(rate_mbps=rate_mbps))
    title = f"{shares.mean():.0%} of all links"
    figure, axis = new_figure(title, "host (number)", "payload received (share of its link)")
    axis.bar(range(1, HOSTS + 1), shares)
    axis.set_ylim(0, 1)
    return figure


FASTER, GIGABIT, TO_ONE = "at 100 Mb/s", "at 1 Gb/s", "four to one host"
ALL = ("three patterns", "the others")
OF_KNOB = Scale(4.0, changes={"counted_from_s": 4.0})
STUDY = Study(
    slug="hedera",
    setting=Setting(),
    cases={
        ALL[0]: {"how": each(*SCHEMES), "pattern": each(*FEW)},
        ALL[1]: {"how": each(*SCHEMES), "pattern": each(*(name for name in PATTERNS if name not in FEW))},
        TO_ONE: {"how": each("spanning tree", "annealing"), "pattern": each(*RANDBIJ), "copies": 4},
        FASTER: {"how": each(*ENDS), "rate_mbps": 100.0},
        GIGABIT: {
            "how": each(*ENDS),
            "pattern": each("stride1", "stride8"),
            "rate_mbps": 1000.0,
            "counted_from_s": 0.2,
            "counted_s": 0.2,
            "starts_within_s": 0.05,
        },
    },
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=3,
    profiles={
        # From 3 s on shares are those from 15 s on: of 90 runs they differ by -0.0004 on average, deviation 0.004.
        "test": Scale(2.0, changes={"counted_from_s": 4.0}, without=(FASTER, GIGABIT)),
        "quick": Scale(5.0, changes={"counted_from_s": 3.0}, without=(FASTER, GIGABIT)),
        "paper": Scale(10.0, without=(FASTER, GIGABIT)),
    },
    on_virtual={
        "quick": Scale(
            0.7,
            changes={"counted_from_s": 1.2, "starts_within_s": 0.2},
            without=(ALL[1], TO_ONE, GIGABIT),
            fewer={FASTER: 1},
        ),
        "paper": Scale(10.0, without=(FASTER,)),
    },
    claims={
        "tree-like-hardware-ecmp": _over_all(
            partial(share_of_switch, "spanning tree"), partial(share_of_switch, "ECMP")
        ),
        "sixteen-patterns-like-hardware": _over_all(
            partial(as_on_hardware, "spanning tree"), partial(as_on_hardware, "ECMP")
        ),
        "hash-like-hardware-ecmp": _over_all(partial(share_of_switch, "ECMP")),
        "non-blocking-is-full": _over_all(partial(filled, "non-blocking"), partial(filled, "spanning tree")),
        "longer-strides-lose": Evidence(
            "share",
            ALL[0],
            how=partial(stride_8_over_1, "spanning tree"),
            control=Evidence("share", ALL[0], how=partial(stride_8_over_1, "non-blocking")),
        ),
        "ecmp-loss": _over_all(partial(kept, "spanning tree"), partial(kept, "ECMP")),
        "hedera-1": _over_all(partial(kept, "first fit"), partial(kept, "spanning tree")),
        "hedera-2": _over_all(partial(kept, "annealing"), partial(kept, "spanning tree")),
        "gain-falls-with-flows": replace(
            _over_all(fading), control=Evidence("share", (*ALL, TO_ONE), how=fading_to_one_host)
        ),
    },
    on_kernels={
        "stride-8-at-1-gbps": Evidence(
            "share",
            GIGABIT,
            how=partial(of_switch, "stride8"),
        ),
    },
    knobs={
        "flows": Knob(
            {"flows a host": {"how": each(*SCHEMES), "flows_per_host": each(1, 2, 4, 8)}},
            OF_KNOB,
            repetitions=3,
            quick=replace(OF_KNOB, repetitions=1),
        )
    },
    figures={
        "fig8_throughput": draw_throughput,
        "fig8_hash_and_schedulers": draw_schedulers,
        "remark_which_routing": draw_which_routing,
        "control_strides": draw_control,
        "knob_flows_a_host": draw_flows,
    },
    play=Play((ALL[0],), {"pattern": list(PATTERNS), "how": list(SCHEMES)}, draw_run, seconds=2.0),
)
