"""RepNet: Liu et al., "RepNet: Cutting Latency with Flow Replication in Data Center Networks" (IEEE TSC 2018),
sections 2, 4 and 5.

RepFlow sends a short flow over two connections, RepSYN opens two and uses the one that opens first; their ports differ,
and where paths are chosen by a hash (ECMP), so may their paths. Section 3, the queueing model, is repflow_model's.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from netrepro.claims import Measured, load_claims
from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.flow_sizes import FlowSizeDistribution, load_flow_sizes
from netrepro.networks.links import DropTail, Link, SharedBuffer
from netrepro.networks.topology import Topology, fat_tree, leaf_spine
from netrepro.networks.workloads import Flow, PoissonFlows, Tcp, Traffic, flows_per_s_at_load
from netrepro.papers._repnet_library import emulate_with_library
from netrepro.papers._repnet_sorting import Sort, emulate_sort, simulate_sort
from netrepro.papers._running import run_all, run_by_tier
from netrepro.papers._runs import CheckedRuns, Progress, all_checks, in_parallel, of_profile, seed_of
from netrepro.papers._study import rankings
from netrepro.paths import data_dir
from netrepro.queueing.replication import ReplicationModel
from netrepro.simulation import simulate
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.transport import open_connection, start_server

SCHEMES = ("tcp", "repflow", "repsyn")
SUBFLOWS = 8  # of MPTCP (Fig. 4); the paper does not say how many, CONGA, which it cites, has eight
MOUSE_BYTES = 100_000  # section 2.2
ELEPHANT_BYTES = 1_000_000
SPINES = 3
FAT_TREE_PODS = 6
ELEPHANT_LOADS = (0.2, 0.5)  # Fig. 15
INCAST_SENDERS = 11
SETTLING_S = 8.0  # after the last arrival: two SYNs may be lost, at 3 s each
PERCENTILES = {"median": 0.5, "p99": 0.99, "p999": 0.999}
CLAIMED_LOADS = (0.2, 0.4, 0.5)  # with 1:1, of the claims that need most flows
ENOUGH_BEYOND = 5  # mice (bursts of incast) above a percentile of a run, for a claim to rest on it
CURVE = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
# Rounds of slow start from three segments on: 3, 9, 21, 45 and more than 45 segments of 1460 bytes.
SIZE_GROUPS_BYTES = (0, 3 * 1460, 9 * 1460, 21 * 1460, 45 * 1460, MOUSE_BYTES)
SLOW_MS = 2.24  # later than without congestion: the 9 ms of Fig. 3(c), less TCP's median of 6.76 ms
FOLD_MS = 200.0
SOFTWARE_MS = 6.82  # of a TCP flow, section 5.2.2
LARGE_MEMORY = 16  # times as much, for controls
FAT_TREE_LONGEST_MS = 400.0  # the authors' scripts drop longer samples behind Fig. 18
BENEFIT_LOADS = (0.4, 0.6, 0.8)  # of the fat-tree
PATHS_COLOURS = ("#0072B2", "#E69F00", "#009E73")


@dataclass(frozen=True)
class Setting:
    """The testbed of section 5.1, and the fat-tree of section 5.4.

    `link_delay_ms` makes up the round trip of 178 us over four links. A port of a switch takes `buffer_alpha` times
    what is free of `buffer_kb` (data/repnet/SOURCES.md), or has `buffer_packets` of its own where that is not 0.
    `delayed_ack_ms` is our choice: see the notebook. `repflow_extra_ms` and `repsyn_extra_ms` are the schemes' software
    beyond TCP's, which NFCT has (Fig. 16).
    """

    rate_mbps: float = 1000.0
    link_delay_ms: float = 0.0215
    buffer_kb: int = 4000
    buffer_alpha: float = 0.21
    buffer_packets: int = 0
    initial_window_segments: int = 3
    min_rto_ms: float = 10.0
    initial_rto_ms: float = 3000.0
    delayed_ack_ms: float = 5.0
    repflow_extra_ms: float = 0.49
    repsyn_extra_ms: float = 0.32
    workload: str = "web_search_authors"
    fat_tree_rate_mbps: float = 50.0
    fat_tree_buffer_packets: int = 100

    @property
    def tcp(self) -> Tcp:
        """Linux 2.6.38 as the testbed had it."""
        return Tcp(
            "cubic",
            initial_window_segments=self.initial_window_segments,
            min_rto_ms=self.min_rto_ms,
            initial_rto_ms=self.initial_rto_ms,
            delayed_ack_ms=self.delayed_ack_ms,
            tail_loss_probe=False,  # came later
        )

    @property
    def sizes(self) -> FlowSizeDistribution:
        """Of all flows, in bytes."""
        return load_flow_sizes(self.workload).in_bytes()

    @property
    def queue(self) -> DropTail | SharedBuffer:
        """Of every port of the testbed's switches."""
        if self.buffer_packets:
            return DropTail(packets=self.buffer_packets)
        return SharedBuffer(bytes=self.buffer_kb * 1000, alpha=self.buffer_alpha)

    def extra_ms(self, case: Case) -> float:
        """What a mouse's software takes beyond TCP's: nothing in the authors' fat-tree, which was another program."""
        extras = {"repflow": self.repflow_extra_ms, "repsyn": self.repsyn_extra_ms}
        return 0.0 if case.network == "fat-tree" else extras.get(case.scheme, 0.0)

    def leaf_spine(self, oversubscription: int = 1) -> Topology:
        """Two racks of three hosts (1:1) or six (2:1) behind three spines."""
        link = Link(self.rate_mbps, self.link_delay_ms, self.queue)
        return leaf_spine(2, SPINES, SPINES * oversubscription, link, link)

    def fat_tree(self) -> Topology:
        """Six pods, 54 hosts, nine paths between pods."""
        queue = DropTail(packets=self.fat_tree_buffer_packets)
        return fat_tree(FAT_TREE_PODS, Link(self.fat_tree_rate_mbps, self.link_delay_ms, queue))


PRINTED = Setting()
# For real kernels: a fiftieth of the rate, so that all takes fifty times as long, but the propagation (none) and what
# kernels fix, TCP's timers. Their ports share no memory, and the software is the library's own.
SCALED = replace(
    PRINTED,
    rate_mbps=20.0,
    link_delay_ms=0.0,
    buffer_packets=425,
    min_rto_ms=200.0,
    initial_rto_ms=1000.0,
    delayed_ack_ms=40.0,
    repflow_extra_ms=0.0,
    repsyn_extra_ms=0.0,
)
SCALED_LOAD = 0.5
# Bucket sort on real kernels: a five-hundredth of the rate and a hundredth of the numbers, which two cores can sort in
# time. In the simulator: as published, masters starting apart (see SOURCES.md), or close together for a control.
SORTED = replace(SCALED, rate_mbps=2.0, buffer_packets=50)
SORTED_NUMBERS, SORTED_THRESHOLD_BYTES, SORTED_STARTS_S = 10_000, MOUSE_BYTES // 100, 0.5
PUBLISHED_NUMBERS, PUBLISHED_STARTS_S, CROWDED_STARTS_S = 1_000_000, 1.0, 0.05
MOST_JOB_RATIO = 100 / 95  # of jobs that the paper calls undisturbed
SCALED_MICE_PER_S = 30.0  # many more than the load has, or a run had too few; they add 5 % of load


@dataclass(frozen=True)
class Scale:
    """How much a profile runs in a repetition.

    flows, fewer_flows : with 1:1, at CLAIMED_LOADS and at each other one. oversubscribed_flows,
    fat_tree_flows : at each load with 2:1 and in the fat-tree. incast_mice : bursts. path_s : seconds of Figs 1 and 2.
    probes : handshakes of Fig. 3; a quarter as many flows of 100 KB. loopback_flows : of Fig. 16, a scheme. scaled_s :
    seconds of the network that real kernels run too. sorting_s : of bucket sort there; sorting_rounds : jobs a master
    in the simulator, with TCP twice as many, whose tail needs them; sorting_controls : whether these are jobs enough
    for claims on tails.
    knob_flows : of a run of section 10. most_real_repetitions : on real kernels, which take real time (None: as many as
    asked for). most_fat_tree_repetitions : of the fat-tree, where its runs are only drawn (None: likewise).
    """

    flows: int
    fewer_flows: int
    oversubscribed_flows: int
    fat_tree_flows: int
    incast_mice: int
    loads: tuple[float, ...]
    oversubscribed_loads: tuple[float, ...]
    fat_tree_loads: tuple[float, ...]
    path_s: float
    probes: int
    loopback_flows: int
    scaled_s: float
    sorting_s: float
    sorting_rounds: int
    sorting_controls: bool
    knob_flows: int
    most_real_repetitions: int | None = None
    most_fat_tree_repetitions: int | None = None

    def repetitions_of(self, case: Case, repetitions: int) -> int:
        """How many of so many repetitions a case has."""
        most = self.most_fat_tree_repetitions if case.network == "fat-tree" else None
        return min(repetitions, most or repetitions)

    def flows_of(self, case: Case) -> int:
        """How many flows a run of the case has; with incast, bursts."""
        if case.network == "1:1":
            return self.flows if case.load in CLAIMED_LOADS else self.fewer_flows
        flows = {"2:1": self.oversubscribed_flows, "incast": self.incast_mice, "fat-tree": self.fat_tree_flows}
        return flows[case.network]


def scale(profile: str) -> Scale:
    """The scale of a profile. Raises NetreproError for another than quick and paper."""
    scales = {
        "quick": Scale(
            flows=1000,
            fewer_flows=1000,
            oversubscribed_flows=1000,
            fat_tree_flows=120,
            incast_mice=560,
            loads=(0.1, 0.2, 0.5),
            oversubscribed_loads=(0.2, 0.5),
            fat_tree_loads=(0.1, 0.8),
            path_s=12.0,
            probes=1000,
            loopback_flows=80,
            scaled_s=5.0,
            sorting_s=5.0,
            sorting_rounds=1,
            sorting_controls=False,
            knob_flows=1000,
            most_real_repetitions=2,
            most_fat_tree_repetitions=2,
        ),
        # With five repetitions 200,000 flows a scheme with 1:1, as the authors had.
        "paper": Scale(
            flows=16_000,
            fewer_flows=2700,
            oversubscribed_flows=9000,
            fat_tree_flows=1500,
            incast_mice=20_000,
            loads=(0.1, 0.2, 0.3, 0.4, 0.5),
            oversubscribed_loads=(0.1, 0.3, 0.5),
            fat_tree_loads=(0.1, 0.2, 0.4, 0.6, 0.8),
            path_s=200.0,
            probes=2000,
            loopback_flows=1000,
            scaled_s=40.0,
            sorting_s=40.0,
            sorting_rounds=42,
            sorting_controls=True,
            knob_flows=5000,
        ),
    }
    return of_profile(profile, scales)


@dataclass(frozen=True)
class Case:
    """One network under one load with one scheme.

    `network` is "1:1", "2:1" (leaf-spine), "incast" (2:1, every mouse comes from eleven hosts at once), "fat-tree", or
    "scaled" (1:1 as real kernels can run it, see SCALED); `scheme` one of SCHEMES, or "mptcp" for all flows over
    SUBFLOWS subflows.
    """

    network: str
    scheme: str
    load: float
    same_path: bool = False  # the control: both connections are hashed to one path; of MPTCP: one subflow
    replicate_all: bool = False  # the control of Fig. 15
    large_memory: bool = False  # the control of RepFlow's lead: LARGE_MEMORY times as much, so that little is lost


CONTROLS = ("same_path", "replicate_all", "large_memory")


def cases(scale: Scale) -> list[Case]:
    """What the figures and the controls of the claims need."""
    loads = {"1:1": scale.loads, "2:1": scale.oversubscribed_loads, "incast": (0.2,), "fat-tree": scale.fat_tree_loads}
    plain = [Case(network, name, load) for network in loads for load in loads[network] for name in SCHEMES]
    plain += [Case("2:1", "mptcp", load) for load in scale.oversubscribed_loads]
    fat_tree = [load for load in scale.fat_tree_loads if load in BENEFIT_LOADS]
    places = (("1:1", 0.5), ("incast", 0.2), *(("fat-tree", load) for load in fat_tree))
    broken = [Case(network, name, load, same_path=True) for network, load in places for name in SCHEMES[1:]]
    broken += [Case("1:1", name, 0.5, large_memory=True) for name in SCHEMES[1:]]
    broken += [Case("2:1", "mptcp", load, same_path=True) for load in scale.oversubscribed_loads]
    return [*plain, *broken, *(Case("1:1", "repflow", load, replicate_all=True) for load in (0.2, 0.5))]


def experiment(case: Case, setting: Setting, flows: int, seed: int) -> Experiment:
    """What any tier runs for a case; equal but for the scheme's own connections where cases differ in scheme only.

    `flows` counts all flows; with "incast" the bursts of mice. Raises NetreproError for an unknown network or scheme.
    """
    if case.scheme not in (*SCHEMES, "mptcp"):
        raise NetreproError(f"no scheme {case.scheme!r}", nearest(case.scheme, (*SCHEMES, "mptcp")))
    networks = ("1:1", "2:1", "incast", "fat-tree")
    if case.network not in networks:
        raise NetreproError(f"no network {case.network!r}", nearest(case.network, networks))
    if case.large_memory:
        setting = replace(setting, buffer_kb=LARGE_MEMORY * setting.buffer_kb)
    sizes = setting.sizes
    how = _how(case)
    if case.network == "incast":
        return _incast(case, setting, flows, seed, how)
    traffic: tuple[Traffic, ...]
    if case.network == "fat-tree":
        topology = setting.fat_tree()
        capacity_mbps = len(topology.hosts) * setting.fat_tree_rate_mbps
        per_s = flows_per_s_at_load(sizes, case.load, capacity_mbps)
        traffic = (PoissonFlows(sizes, per_s, flows, **how),)
        lasts_s = flows / per_s
    else:
        topology = setting.leaf_spine(int(case.network[0]))
        per_s = flows_per_s_at_load(sizes, case.load, SPINES * setting.rate_mbps)
        traffic = tuple(
            PoissonFlows(sizes, per_s, flows // 2, sources, destinations, **how)
            for sources, destinations in _directions(topology)
        )
        lasts_s = flows / 2 / per_s
    # Arrivals are random: the last may come a little later than on average.
    return Experiment(topology, traffic, lasts_s * 1.2 + SETTLING_S, seed, tcp=setting.tcp)


def _how(case: Case) -> dict[str, Any]:
    """The case's own fields of Flow and PoissonFlows."""
    if case.scheme == "mptcp":
        return {"subflows": 1 if case.same_path else SUBFLOWS, "congestion_control": "lia"}
    return {
        "replication": "" if case.scheme == "tcp" else case.scheme,
        "replicate_below_bytes": 10**9 if case.replicate_all else MOUSE_BYTES,
        "replica_same_path": case.same_path,
    }


def _directions(topology: Topology) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    half = len(topology.hosts) // 2
    left, right = topology.hosts[:half], topology.hosts[half:]
    return (left, right), (right, left)


def _incast(case: Case, setting: Setting, mice: int, seed: int, how: dict[str, Any]) -> Experiment:
    """Section 5.2.4: with every mouse, ten more of the same size go to the same host, from the other hosts."""
    plain = replace(case, network="2:1", scheme="tcp", same_path=False)
    base = experiment(plain, setting, max(2, round(mice / setting.sizes.share_of_flows_below(MOUSE_BYTES))), seed)
    topology, traffic = base.topology, []
    for row in base.flow_table.itertuples():
        size_bytes, start_s = int(row.size_bytes), float(row.start_s)
        together = [row.source]
        if size_bytes <= MOUSE_BYTES:
            together = [host for host in topology.hosts if host != row.destination][:INCAST_SENDERS]
        traffic += [Flow(host, row.destination, size_bytes=size_bytes, start_s=start_s, **how) for host in together]
    return replace(base, traffic=tuple(traffic))


def scaled_experiment(case: Case, seconds: float, seed: int, setting: Setting = SCALED) -> Experiment:
    """The leaf-spine (1:1) with elephants at the case's load, mice beside them, for as long as `seconds`."""
    topology, sizes = setting.leaf_spine(), setting.sizes
    per_s = flows_per_s_at_load(sizes, case.load, SPINES * setting.rate_mbps)
    elephants, mice = sizes.conditional(low=MOUSE_BYTES), sizes.conditional(high=MOUSE_BYTES)
    elephants_per_s = per_s * (1 - sizes.share_of_flows_below(MOUSE_BYTES))
    traffic = []
    for ends in _directions(topology):
        traffic.append(PoissonFlows(elephants, elephants_per_s, max(1, round(elephants_per_s * seconds)), *ends))
        count = max(1, round(SCALED_MICE_PER_S / 2 * seconds))
        traffic.append(PoissonFlows(mice, SCALED_MICE_PER_S / 2, count, *ends, **_how(case)))
    uplinks = tuple(port for port in topology.ports if port[0] == "s1" and port[1][0] == "s")
    measure = Measure(queues=uplinks)
    return Experiment(topology, tuple(traffic), seconds * 1.2 + 4, seed, measure, setting.tcp)


# Measuring.


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions of all cases.

    totals : the fields of Case, repetition, flows, mice, elephants, smallest_group (mice of the rarest size group),
    unfinished; of mice, with what their software takes beyond TCP's (extra_ms), mean_ms, median_ms, p99_ms, p999_ms;
    normalised_mean (FCT over that of an idle network, of flows whose SYN was not lost), p99 by size group
    (p99_group0_ms, ...); elephant_mbps (median), timeouts, dropped_packets. curves : of elephants; the fields of Case,
    repetition, probability, value (Mb/s). mice : of a case, a repetition after the other, completion times (ms); in the
    fat-tree, here and in totals, those below FAT_TREE_LONGEST_MS. fidelity : the fields of Case, repetition, check,
    value, bound, holds.
    """

    totals: pd.DataFrame
    curves: pd.DataFrame
    fidelity: pd.DataFrame
    mice: Mapping[Case, Sequence[np.ndarray]]


def measure(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    only: Sequence[Case] | None = None,
    n_jobs: int = 2,
    progress: Progress = iter,
) -> Runs:
    """Run every case of `cases` (or `only`), on `n_jobs` threads; the result does not depend on how many.

    All schemes of a repetition get the same flows. `progress` wraps the list of (case, repetition).
    """
    work = [
        (case, repetition)
        for repetition in range(repetitions)
        for case in only or cases(scale)
        if repetition < scale.repetitions_of(case, repetitions)
    ]
    ideal = {kind: _ideal_ms(setting, kind) for kind in {_kind(case) for case, _ in work}}

    def run_one(case: Case, repetition: int) -> _OneRun:
        found = simulate(experiment(case, setting, scale.flows_of(case), seed_of(seed, repetition)))
        return _labelled(found, case, repetition, ideal[_kind(case)], setting)

    rows = in_parallel(run_one, work, n_jobs, progress, lambda case, _: scale.flows_of(case))
    return _gathered(rows)


_OneRun = tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, tuple[Case, np.ndarray]]


def _labelled(
    found: Measurements, case: Case, repetition: int, ideal_ms: tuple[np.ndarray, np.ndarray], setting: Setting
) -> _OneRun:
    label = asdict(case) | {"repetition": repetition}
    longest_ms = FAT_TREE_LONGEST_MS if case.network == "fat-tree" else math.inf
    row, curve, took_ms = _summary(found, ideal_ms, setting.extra_ms(case), longest_ms)
    return label | row, curve.assign(**label), check_fidelity(found).assign(**label), (case, took_ms)


SCALED_CASES = (
    *(Case("scaled", name, SCALED_LOAD) for name in SCHEMES),
    # On real kernels the control is another way to hash, which TCP has to be compared under as well.
    *(Case("scaled", name, SCALED_LOAD, same_path=True) for name in SCHEMES),
)


def measure_scaled(
    scale: Scale, repetitions: int, seed: int, *, tier: str = "simulated", n_jobs: int = 2, progress: Progress = iter
) -> dict[str, Runs]:
    """The same flows over the scaled testbed, by tier: in the simulator and, where `tier` is real kernels, there.

    On real kernels RepNet's asyncio library sends the mice, from a program in every host; the control is then routers
    that choose paths by addresses alone. `progress` wraps the list of (tier, case, repetition). Raises NetreproError
    for a tier that cannot be had.
    """
    ideal_ms = _ideal_ms(SCALED, "leaf-spine")

    def work(where: str) -> list[tuple[Case, int]]:
        return [(case, i) for i in range(_most(scale, repetitions, where)) for case in SCALED_CASES]

    def run_one(where: str, case: Case, repetition: int) -> _OneRun:
        planned = scaled_experiment(case, scale.scaled_s, seed_of(seed, repetition))
        if where == "simulated":
            found = simulate(planned)
        else:
            found = emulate_with_library(planned, MOUSE_BYTES, where, hash_ports=not case.same_path)
        return _labelled(found, case, repetition, ideal_ms, SCALED)

    by_tier = run_by_tier(run_one, work, tier, progress, n_jobs=n_jobs)
    return {where: _gathered(rows) for where, rows in by_tier.items()}


def _most(scale: Scale, repetitions: int, tier: str) -> int:
    """How many repetitions there are on a tier."""
    return repetitions if tier == "simulated" else min(repetitions, scale.most_real_repetitions or repetitions)


def _gathered(rows: Sequence[_OneRun]) -> Runs:
    totals, curves, checks, samples = zip(*rows, strict=True)
    mice: dict[Case, list[np.ndarray]] = {}
    for case, took_ms in samples:  # repetitions of a case come in their order
        mice.setdefault(case, []).append(took_ms)
    curve, fidelity = (pd.concat(parts, ignore_index=True) for parts in (curves, checks))
    return Runs(pd.DataFrame(totals), curve, fidelity, mice)


def fidelity(runs: Runs, scaled: dict[str, Runs], sorting: SortRuns) -> pd.DataFrame:
    """All checks: check, value, bound, holds, and whose."""
    return all_checks(runs, *scaled.values(), sorting)


def tier_table(scaled: dict[str, Runs]) -> pd.DataFrame:
    """The tiers side by side: a row a scheme and control; mice's median and 99th percentile (ms), means of the runs."""
    columns = {"median_ms": "median (ms)", "p99_ms": "p99 (ms)", "normalised_mean": "mean / idle"}
    parts = []
    for tier, runs in scaled.items():
        means = runs.totals.groupby(["scheme", "same_path"], sort=False)[list(columns)].mean().rename(columns=columns)
        parts.append(means.assign(trusted=runs.trusted).add_suffix(f", {tier}"))
    return pd.concat(parts, axis=1).reset_index()


def _kind(case: Case) -> str:
    return "fat-tree" if case.network == "fat-tree" else "leaf-spine"


def check_fidelity(found: Measurements) -> pd.DataFrame:
    """The tier's own checks, and: nearly all mice are complete at the end, so that percentiles are whole."""
    mice = _mice(found)
    share = float(mice["completion_ms"].notna().mean())
    rows = [("mice that are complete", share, 0.9995, share >= 0.9995)]
    return pd.concat([found.fidelity, pd.DataFrame(rows, columns=list(found.fidelity))], ignore_index=True)


def _mice(found: Measurements) -> pd.DataFrame:
    return found.flows[found.flows["size_bytes"] <= MOUSE_BYTES]


def _summary(
    found: Measurements,
    ideal_ms: tuple[np.ndarray, np.ndarray],
    extra_ms: float = 0.0,
    longest_ms: float = math.inf,
) -> tuple[dict[str, Any], pd.DataFrame, np.ndarray]:
    mice, elephants = _mice(found), found.flows[found.flows["size_bytes"] > ELEPHANT_BYTES]
    # A flow that never ends took at least until the end.
    alone_ms = mice["completion_ms"].fillna((found.experiment.duration_s - mice["start_s"]) * 1e3).to_numpy()
    kept = alone_ms + extra_ms < longest_ms
    took_ms = (alone_ms + extra_ms)[kept]
    syn_ms = found.experiment.tcp.initial_rto_ms
    group = np.searchsorted(SIZE_GROUPS_BYTES, mice["size_bytes"][kept], side="left") - 1
    row = {
        "flows": len(found.flows),
        "mice": len(mice),
        "elephants": len(elephants),
        "smallest_group": int(np.bincount(group, minlength=len(SIZE_GROUPS_BYTES) - 1).min()),
        "unfinished": int(mice["completion_ms"].isna().sum()),
        "mean_ms": float(took_ms.mean()),
        **{f"{name}_ms": float(np.quantile(took_ms, share)) for name, share in PERCENTILES.items()},
        "normalised_mean": float(np.mean((alone_ms / np.interp(mice["size_bytes"], *ideal_ms))[alone_ms < syn_ms])),
        "extra_ms": extra_ms,
        **{
            f"p99_group{i}_ms": float(np.quantile(took_ms[group == i], 0.99)) if (group == i).any() else math.nan
            for i in range(len(SIZE_GROUPS_BYTES) - 1)
        },
        "elephant_mbps": float(elephants["goodput_mbps"].median()),
        "timeouts": int(mice["timeouts"].sum()),
        "dropped_packets": int(found.links["dropped_packets"].sum()),
    }
    speeds = elephants["goodput_mbps"].to_numpy()
    levels = np.quantile(speeds, CURVE) if len(speeds) else np.full(len(CURVE), math.nan)
    return row, pd.DataFrame({"probability": CURVE, "value": levels}), took_ms


@lru_cache
def _ideal_ms(setting: Setting, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(sizes in bytes, FCT in ms) of single flows between the farthest hosts of an idle network."""
    topology = setting.fat_tree() if kind == "fat-tree" else setting.leaf_spine()
    sizes = np.unique(np.geomspace(1, MOUSE_BYTES, 60).astype(int))
    alone = tuple(
        Flow(topology.hosts[0], topology.hosts[-1], size_bytes=int(size), start_s=i * 0.5)
        for i, size in enumerate(sizes)
    )
    found = simulate(Experiment(topology, alone, len(sizes) * 0.5 + 1, tcp=setting.tcp))
    return sizes.astype(float), found.flows["completion_ms"].to_numpy()


# Path diversity (Figs 1 to 3).


def probe_congestion(
    probes: int,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    n_jobs: int = 2,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Fig. 3: two long flows on one of three paths, small probes and flows of 100 KB between two other hosts.

    Returns a row a probe: case ("congested", "idle", "same path"), scheme, size_bytes (1 for the handshake),
    repetition, completion_ms, is_slow (SLOW_MS later than in an idle network).
    """
    work = [
        (case, name, size_bytes, repetition)
        for repetition in range(repetitions)
        for case, names in (("congested", SCHEMES), ("idle", ("tcp",)), ("same path", SCHEMES[1:]))
        for name in names
        for size_bytes in (1, MOUSE_BYTES)
    ]
    seeds = {repetition: _seed_of_collision(setting, seed_of(seed, repetition)) for repetition in range(repetitions)}

    def run_one(case: str, name: str, size_bytes: int, repetition: int) -> pd.DataFrame:
        found = simulate(
            _probing(setting, case, name, size_bytes, probes // (1 if size_bytes == 1 else 4), seeds[repetition])
        )
        probe = found.flows[found.flows["label"] == "probe"]
        slow = probe["completion_ms"] > SLOW_MS + np.interp(size_bytes, *_ideal_ms(setting, "leaf-spine"))
        label = {"case": case, "scheme": name, "size_bytes": size_bytes, "repetition": repetition}
        return pd.DataFrame({"completion_ms": probe["completion_ms"], "is_slow": slow}).assign(**label)

    return pd.concat(in_parallel(run_one, work, n_jobs, progress), ignore_index=True)


def _probing(setting: Setting, case: str, name: str, size_bytes: int, probes: int, seed: int) -> Experiment:
    """h1 and h2 congest a path to h7 and h8 (of the six and six hosts), h3 probes h9."""
    spacing_s = 0.5e-3 if size_bytes < 1000 else 10e-3  # one after the other, as the authors'
    how: dict[str, Any] = {"replication": "" if name == "tcp" else name, "replica_same_path": case == "same path"}
    probe = [
        Flow("h3", "h9", size_bytes=size_bytes, start_s=0.3 + i * spacing_s, label="probe", **how)
        for i in range(probes)
    ]
    lasts_s = 0.3 + probes * spacing_s + 0.1
    long = [Flow(f"h{i + 1}", f"h{i + 7}", duration_s=lasts_s, label="long") for i in (0, 1) if case != "idle"]
    return Experiment(setting.leaf_spine(2), (*long, *probe), lasts_s + SETTLING_S, seed, tcp=setting.tcp)


def _seed_of_collision(setting: Setting, seed: int) -> int:
    """A seed with which both long flows take one spine, as the authors made sure."""
    for candidate in range(seed, seed + 100):
        long = [Flow(f"h{i + 1}", f"h{i + 7}", duration_s=0.02) for i in (0, 1)]
        found = simulate(Experiment(setting.leaf_spine(2), tuple(long), 0.02, candidate, tcp=setting.tcp))
        up = found.links[(found.links["source"] == "s1") & found.links["destination"].str.startswith("s")]
        if (up["sent_packets"] > 0).sum() == 1:
            return candidate
    raise NetreproError("no seed among 100 puts two flows on one of three paths", "take another seed")


def slow_shares(probed: pd.DataFrame) -> pd.DataFrame:
    """Share of slow probes: a row a case, scheme and size, a column a repetition."""
    return probed.pivot_table(index=["case", "scheme", "size_bytes"], columns="repetition", values="is_slow")


def path_round_trips(
    seconds: float, seed: int, *, setting: Setting = PRINTED, load: float = 0.3, interval_ms: float = 100.0
) -> pd.DataFrame:
    """Figs 1 and 2: round-trip times of three paths between two racks of the fat-tree at load .3.

    Instead of sending pings, adds up at an instant what waits at the ports there and back. Returns a row a sample:
    path ("1", "2", "3" without a common link; "1 again", "1 once more", other hosts over the switches of path 1),
    time_s, round_trip_ms.
    """
    sizes = setting.sizes
    per_s = flows_per_s_at_load(sizes, load, len(setting.fat_tree().hosts) * setting.fat_tree_rate_mbps)
    paths = {str(i + 1): _ports_of_path(i, i) for i in range(3)}
    paths |= {"1 again": _ports_of_path(0, 1), "1 once more": _ports_of_path(0, 2)}
    ports = tuple(sorted({port for path in paths.values() for port in path}))
    found = simulate(
        Experiment(
            setting.fat_tree(),
            (PoissonFlows(sizes, per_s, max(1, round(per_s * seconds))),),
            seconds * 1.2,
            seed,
            Measure(queues=ports, queue_interval_ms=interval_ms),
            setting.tcp,
        )
    )
    table = found.queues[(found.queues["time_s"] > 0.1 * seconds) & (found.queues["time_s"] < seconds)]
    waits_ms = table.pivot_table(index="time_s", columns=["source", "destination"], values="queue_bytes")
    waits_ms *= 8e-3 / setting.fat_tree_rate_mbps
    base_ms = 12 * setting.link_delay_ms
    parts = [
        pd.DataFrame({"path": name, "time_s": waits_ms.index, "round_trip_ms": base_ms + waits_ms[path].sum(axis=1)})
        for name, path in paths.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _ports_of_path(path: int, host: int) -> list[tuple[str, str]]:
    """Ports of switches from host h1.. in pod 1 over one of three disjoint paths to h10.. in pod 2, and back."""
    half = FAT_TREE_PODS // 2
    edges = aggregations = FAT_TREE_PODS * half
    first, last = f"h{host + 1}", f"h{half * half + host + 1}"
    near, far = f"s{edges + path + 1}", f"s{edges + half + path + 1}"
    core = f"s{edges + aggregations + path * half + 1}"
    nodes = [first, "s1", near, core, far, f"s{half + 1}", last]
    there = [(nodes[i], nodes[i + 1]) for i in range(1, 6)]
    back = [(nodes[i], nodes[i - 1]) for i in range(5, 0, -1)]
    return there + back


def measure_paths(
    seconds: float,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    n_jobs: int = 2,
    progress: Progress = iter,
) -> pd.DataFrame:
    """`path_round_trips` of several runs, with a column repetition."""

    def run_one(repetition: int) -> pd.DataFrame:
        trips = path_round_trips(seconds, seed_of(seed, repetition), setting=setting)
        return trips.assign(repetition=repetition)

    work = [(repetition,) for repetition in range(repetitions)]
    return pd.concat(in_parallel(run_one, work, n_jobs, progress), ignore_index=True)


def correlations(round_trips: pd.DataFrame) -> pd.DataFrame:
    """Correlation of the round-trip times of pairs of paths: repetition, pair, shares_links, correlation."""
    groups = {False: ("1", "2", "3"), True: ("1", "1 again", "1 once more")}
    rows = []
    for repetition, trips in round_trips.groupby("repetition"):
        series = trips.pivot(index="time_s", columns="path", values="round_trip_ms")
        rows += [
            (repetition, f"{a} and {b}", shared, float(series[a].corr(series[b])))
            for shared, names in groups.items()
            for a, b in combinations(names, 2)
        ]
    return pd.DataFrame(rows, columns=["repetition", "pair", "shares_links", "correlation"])


# Software (Fig. 16).


def measure_overhead(
    flows: int, repetitions: int, *, size_bytes: int = 1000, progress: Progress = iter
) -> pd.DataFrame:
    """Fig. 16: real flows of 1 KB over the loopback, one after the other, with plain asyncio and with our RepNet.

    From opening until the server holds the last byte; client and server share one process and one event loop, in a
    thread of its own. Returns repetition, scheme ("tcp", "repflow", "repsyn", and "tcp again" for the control),
    mean_ms, deviation_ms (of single flows).
    """
    names = (*SCHEMES, "tcp again")
    rows = []
    for repetition in progress(range(repetitions)):
        for name in names[repetition % len(names) :] + names[: repetition % len(names)]:
            with ThreadPoolExecutor(1) as thread:
                took_ms = thread.submit(asyncio.run, _loopback(name.split()[0], flows, size_bytes)).result()
            rows.append((repetition, name, float(np.mean(took_ms)), float(np.std(took_ms))))
    return pd.DataFrame(rows, columns=["repetition", "scheme", "mean_ms", "deviation_ms"])


async def _loopback(name: str, flows: int, size_bytes: int) -> list[float]:
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(size_bytes)
        arrived.put_nowait(time.perf_counter())
        await reader.read()
        writer.close()

    host, took_ms = "127.0.0.1", []
    server: Any = await (asyncio.start_server if name == "tcp" else start_server)(serve, host, 0)
    port = server.sockets[0].getsockname()[1]
    for _ in range(flows):
        began = time.perf_counter()
        if name == "tcp":
            reader, writer = await asyncio.open_connection(host, port)
        else:
            reader, writer = await open_connection(host, port, mode=name)
        writer.write(bytes(size_bytes))
        took_ms.append((await arrived.get() - began) * 1e3)
        writer.close()
        await reader.read()
    server.close()
    return took_ms


# Bucket sort (Fig. 17).


@dataclass(frozen=True)
class SortRuns(CheckedRuns):
    """Jobs of bucket sort.

    jobs : tier, scheme, control ("", or what is broken), repetition, start_s, took_ms. fidelity : tier, scheme,
    control, repetition, check, value, bound, holds.
    """

    jobs: pd.DataFrame
    fidelity: pd.DataFrame

    def on(self, tier: str) -> SortRuns:
        """Those of one tier."""
        return SortRuns(self.jobs[self.jobs["tier"] == tier], self.fidelity[self.fidelity["tier"] == tier])


SAME_PATH, CROWDED, LARGE = "same path", "all at once", "large memory"
# The simulator replicates a flow whole or not at all, RepNet's library a stream's first bytes: no RepFlow here.
SIMULATED_SORTS = (
    ("simulated", "tcp", ""),
    ("simulated", "repsyn", ""),
    ("simulated", "tcp", CROWDED),
    ("simulated", "repsyn", CROWDED),
    ("simulated", "repsyn", SAME_PATH),
    ("simulated", "tcp", LARGE),
)
REAL_SORTS = tuple((name, control) for control in ("", SAME_PATH) for name in SCHEMES)


def measure_sorting(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    tier: str = "simulated",
    n_jobs: int = 2,
    progress: Progress = iter,
) -> SortRuns:
    """Bucket sort by all twelve hosts: its traffic in the simulator, over `setting`, and, where `tier` is real kernels,
    the application itself on the scaled testbed.

    `progress` wraps the list of (tier, scheme, control, repetition). Raises NetreproError for a tier that cannot be
    had.
    """
    kernels = [(tier, *case) for case in REAL_SORTS if tier != "simulated"]
    sorts = [case for case in (*SIMULATED_SORTS, *kernels) if scale.sorting_controls or case[2] in ("", CROWDED)]
    work = [(*case, r) for case in sorts for r in range(_most(scale, repetitions, case[0]))]

    def run_one(where: str, name: str, control: str, repetition: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        place = seed_of(seed, repetition)
        if where == "simulated":
            rounds = max(1, scale.sorting_rounds // 4) if control == CROWDED else scale.sorting_rounds
            rounds *= 2 if name == "tcp" and control != CROWDED else 1
            found = simulate_sort(published_sort(name, control, setting), rounds, place)
        else:
            found = emulate_sort(scaled_sort(name, control), scale.sorting_s, place, where)
        label = {"tier": where, "scheme": name, "control": control, "repetition": repetition}
        return found[0].assign(**label), found[1].assign(**label)

    jobs, checks = zip(*run_all(run_one, work, tier, progress, n_jobs=n_jobs), strict=True)
    return SortRuns(pd.concat(jobs, ignore_index=True), pd.concat(checks, ignore_index=True))


def published_sort(name: str, control: str = "", setting: Setting = PRINTED) -> Sort:
    """As section 5.3 has it, for the simulator."""
    if control == LARGE:
        setting = replace(setting, buffer_kb=LARGE_MEMORY * setting.buffer_kb)
    starts_s = CROWDED_STARTS_S if control == CROWDED else PUBLISHED_STARTS_S
    network = setting.leaf_spine(2)
    return Sort(network, setting.tcp, name, PUBLISHED_NUMBERS, MOUSE_BYTES, starts_s, control == SAME_PATH)


def scaled_sort(name: str, control: str = "") -> Sort:
    """For real kernels."""
    network = SORTED.leaf_spine(2)
    starts_s, same_path = SORTED_STARTS_S, control == SAME_PATH
    return Sort(network, SORTED.tcp, name, SORTED_NUMBERS, SORTED_THRESHOLD_BYTES, starts_s, same_path)


def sorting_table(sorting: SortRuns) -> pd.DataFrame:
    """Fig. 17: a row a tier, scheme and control: jobs, and percentiles of a job's time (ms), of all runs together."""
    took = sorting.jobs.groupby(["tier", "scheme", "control"], sort=False)["took_ms"]
    names = {"p50 (ms)": 0.5, "p90 (ms)": 0.9, "p99 (ms)": 0.99, "p99.9 (ms)": 0.999}
    return pd.DataFrame({"jobs": took.size()} | {name: took.quantile(q) for name, q in names.items()}).reset_index()


def sorting_samples() -> pd.DataFrame:
    """Fig. 17 as the authors' samples have it: scheme, jobs, p50_ms, p90_ms, p99_ms, p99.7_ms, p99.9_ms."""
    return pd.read_csv(data_dir("repnet") / "bucket_sort_samples.csv", comment="#")


def _sorting_claims(sorting: SortRuns) -> Iterator[Measured]:
    """Of one tier."""
    runs = sorting.jobs.groupby(["scheme", "control", "repetition"])["took_ms"]
    if (sorting.jobs["tier"] == "simulated").all():
        yield from _published_sorting_claims(sorting)
    for name in SCHEMES[1:]:
        if (name, "") not in runs.size():
            continue
        median = {each: runs.median()[each, ""] for each in ("tcp", name)}
        yield Measured(claim=f"sort-{name}-median", values=median[name] / median["tcp"], **sorting.trust)
        for which in ("p99", "p999"):
            least = runs.size()[runs.size().index.get_level_values("control").isin(["", SAME_PATH])].min()
            if (name, SAME_PATH) not in runs.size() or least * (1 - PERCENTILES[which]) < ENOUGH_BEYOND:
                continue
            at = runs.quantile(PERCENTILES[which])
            plain = at["tcp"].unstack("control")
            ours, broken = (
                (1 - at[name, control] / plain.get(control, plain[""])) * 100 for control in ("", SAME_PATH)
            )
            yield Measured(claim=f"sort-{name}-{which}", values=ours, control=broken, **sorting.trust)


def _published_sorting_claims(sorting: SortRuns) -> Iterator[Measured]:
    """What the paper says of single jobs, at its rate: of the jobs of all repetitions together."""
    took_ms = {control: rows["took_ms"] for control, rows in sorting.jobs.groupby("control")}
    near = {control: took_ms[control] <= MOST_JOB_RATIO * took_ms[""].quantile(0.05) for control in ("", CROWDED)}
    yield Measured(
        claim="sort-most-in-5-ms",
        successes=int(near[""].sum()),
        trials=len(near[""]),
        control_successes=int(near[CROWDED].sum()),
        control_trials=len(near[CROWDED]),
        **sorting.trust,
    )
    tcp = sorting.jobs[sorting.jobs["scheme"] == "tcp"]
    enough = (tcp["control"] == "").sum() * (1 - PERCENTILES["p999"]) >= ENOUGH_BEYOND
    if enough and (tcp["control"] == LARGE).any():
        ours, broken = (_tail_over_median(tcp[tcp["control"] == control]) for control in ("", LARGE))
        yield Measured(claim="sort-tcp-tail", values=ours, control=broken, **sorting.trust)


def _tail_over_median(jobs: pd.DataFrame) -> np.ndarray:
    def at(left_out: int | None) -> float:
        took_ms = jobs[jobs["repetition"] != left_out]["took_ms"]
        return float(took_ms.quantile(PERCENTILES["p999"]) / took_ms.median())

    return _jackknife(sorted(set(jobs["repetition"])), at)


# Claims.


def reductions(runs: Runs, column: str, network: str, load: float, name: str, same_path: bool = False) -> np.ndarray:
    """By how much less a scheme has than TCP with the same flows (%), a value a repetition."""
    ours = _column(runs, column, network, load, name, same_path)
    plain = _column(runs, column, network, load, "tcp", same_path and network == "scaled")
    return (1 - ours / plain) * 100


def pooled(runs: Runs, which: str, case: Case, left_out: int | None = None) -> float:
    """A statistic ("mean", or of PERCENTILES) of the mice of all repetitions together, in ms; or of all but one."""
    if case not in runs.mice:
        raise NetreproError(f"no runs of {case.scheme} in {case.network} at load {case.load:g}", "measure them first")
    took_ms = np.concatenate([each for i, each in enumerate(runs.mice[case]) if i != left_out])
    return float(took_ms.mean() if which == "mean" else np.quantile(took_ms, PERCENTILES[which]))


def _jackknife(repetitions: Sequence[int], statistic: Callable[[int | None], float]) -> np.ndarray:
    """A value a repetition: their mean is the statistic of all together, their spread the jackknife's.

    statistic : of all repetitions but the one that is left out, or of all (None).
    """
    whole = statistic(None)
    if len(repetitions) < 2:
        return np.array([whole])
    without = np.array([statistic(each) for each in repetitions])
    return whole + (len(repetitions) - 1) * (without.mean() - without)


def pooled_reductions(
    runs: Runs,
    which: str,
    network: str,
    loads: Sequence[float],
    name: str,
    same_path: bool = False,
    idle_ms: float = 0.0,
) -> np.ndarray:
    """By how much less a scheme has than TCP (%), of the mice of all repetitions together, mean of `loads`; a value a
    repetition, as `_jackknife` has them.

    idle_ms : what any scheme takes besides, such as software.
    """

    def at(load: float, left_out: int | None) -> float:
        ours = pooled(runs, which, Case(network, name, load, same_path), left_out)
        plain = pooled(runs, which, Case(network, "tcp", load, same_path and network == "scaled"), left_out)
        return (1 - (ours + idle_ms) / (plain + idle_ms)) * 100

    repetitions = range(len(runs.mice[Case(network, "tcp", loads[0])]))
    return _jackknife(repetitions, lambda left_out: float(np.mean([at(load, left_out) for load in loads])))


def _column(
    runs: Runs, column: str, network: str, load: float, name: str, same_path: bool = False, **broken: bool
) -> np.ndarray:
    chosen = _of_case(runs.totals, Case(network, name, load, same_path, **broken)).sort_values("repetition")
    if chosen.empty:
        raise NetreproError(f"no runs of {name} in {network} at load {load:g}", "measure them with repnet.measure")
    return chosen[column].to_numpy(dtype=float)


def _of_case(table: pd.DataFrame, case: Case) -> pd.DataFrame:
    same = np.isclose(table["load"], case.load)
    for field in ("network", "scheme", *CONTROLS):
        same &= table[field] == getattr(case, field)
    return table[same]


# Claim: statistic of mice, network, loads, scheme. Reductions against TCP; the control: both connections on one path.
REDUCTIONS = {
    **{f"{name}-{which}": (which, "1:1", (0.5,), name) for name in SCHEMES[1:] for which in PERCENTILES},
    "incast-repflow-p999": ("p999", "incast", (0.2,), "repflow"),
    "incast-repsyn-p99": ("p99", "incast", (0.2,), "repsyn"),
    "incast-repsyn-p999": ("p999", "incast", (0.2,), "repsyn"),
    "fat-tree-mean-at-0.8": ("mean", "fat-tree", (0.8,), "repflow"),
    "fat-tree-p99-at-0.8": ("p99", "fat-tree", (0.8,), "repflow"),
    **{f"fat-tree-from-0.4-{name}": ("p99", "fat-tree", BENEFIT_LOADS, name) for name in SCHEMES[1:]},
}


SCALED_REDUCTIONS = {
    f"{name}-{which}": (which, "scaled", (SCALED_LOAD,), name) for name in SCHEMES[1:] for which in PERCENTILES
}


def measured_claims(
    tier: str,
    runs: Runs,
    probed: pd.DataFrame,
    round_trips: pd.DataFrame,
    overhead: pd.DataFrame,
    scaled: dict[str, Runs],
    sorting: SortRuns,
) -> list[Measured]:
    """One measurement a claim of data/repnet/claims.yaml, of those for whose percentiles the runs are long enough.

    On real kernels: the reductions of Fig. 11 on the scaled testbed, the software, and bucket sort.
    """
    if tier != "simulated":
        kernels = scaled[tier]
        return [
            *_reduction_claims(kernels, SCALED_REDUCTIONS),
            *_software_claims(overhead, kernels.trust),
            *_sorting_claims(sorting.on(tier)),
        ]
    return [
        *_path_claims(probed, round_trips, runs.trust),
        *_reduction_claims(runs, REDUCTIONS),
        *_other_claims(runs),
        *_software_claims(overhead, runs.trust),
        *_sorting_claims(sorting.on(tier)),
    ]


def _path_claims(probed: pd.DataFrame, round_trips: pd.DataFrame, trust: dict[str, Any]) -> Iterator[Measured]:
    pairs = {
        "congested-one-path": (("congested", "tcp", 1), ("idle", "tcp", 1)),
        "congested-both-paths": (("congested", "repflow", 1), ("same path", "repflow", 1)),
        "slow-flows-tcp": (("congested", "tcp", MOUSE_BYTES), ("idle", "tcp", MOUSE_BYTES)),
        "slow-flows-repflow": (("congested", "repflow", MOUSE_BYTES), ("same path", "repflow", MOUSE_BYTES)),
        "slow-flows-repsyn": (("congested", "repsyn", MOUSE_BYTES), ("same path", "repsyn", MOUSE_BYTES)),
    }
    for claim, places in pairs.items():
        yield _counted(probed, claim, *places, **trust)
    paths = correlations(round_trips)
    apart, together = (
        paths[paths["shares_links"] == shared].groupby("repetition")["correlation"].mean() for shared in (False, True)
    )
    yield Measured(claim="paths-uncorrelated", values=apart, control=together, **trust)


def _reduction_claims(runs: Runs, places: Mapping[str, tuple[str, str, tuple[float, ...], str]]) -> Iterator[Measured]:
    for claim, (which, network, loads, name) in places.items():
        if _suffices(runs, which, network, *loads):
            ours, broken = (pooled_reductions(runs, which, network, loads, name, same) for same in (False, True))
            yield Measured(claim=claim, values=ours, control=broken, **runs.trust)


def _suffices(runs: Runs, which: str, network: str, *loads: float) -> bool:
    """Whether enough mice of every run lie beyond a percentile.

    A median takes as many as a 99th: mice that meet the same elephants fare alike. So does a mean, which depends on the
    slowest.
    """
    rows = runs.totals[(runs.totals["network"] == network) & runs.totals["load"].isin(loads)]
    independent = rows["mice"] / (INCAST_SENDERS if network == "incast" else 1)  # those of a burst fare alike
    beyond = 1 - max(PERCENTILES.get(which, 0.0), PERCENTILES["p99"])
    return set(loads) <= set(rows["load"]) and bool(independent.min() * beyond >= ENOUGH_BEYOND)


def _other_claims(runs: Runs) -> Iterator[Measured]:
    yield from _low_load_claims(runs)
    for which in ("p99", "p999"):
        if _suffices(runs, which, "1:1", 0.5):
            order, broken_order = (_lead(runs, which, large_memory) for large_memory in (False, True))
            yield Measured(claim=f"repflow-ahead-{which}", values=order, control=broken_order, **runs.trust)
    if _suffices(runs, "p99", "1:1", 0.5) and _suffices(runs, "p99", "2:1", 0.5):
        yield Measured(claim="more-when-oversubscribed", values=_order_of_oversubscription(runs), **runs.trust)
    if _groups_suffice(runs, 0.4):
        yield Measured(claim="equal-by-size", values=_spread_by_size(runs), **runs.trust)
    if _suffices(runs, "p99", "incast", 0.2):
        incast = {name: Case("incast", name, 0.2) for name in SCHEMES}
        longer = _jackknife(
            range(len(runs.mice[incast["tcp"]])),
            lambda out: pooled(runs, "p99", incast["repflow"], out) - pooled(runs, "p99", incast["tcp"], out),
        )
        yield Measured(claim="incast-repflow-p99", values=longer, **runs.trust)
    if _elephants_suffice(runs):
        ours, broken = (_elephants(runs, replicate_all) for replicate_all in (False, True))
        yield Measured(claim="elephants-unaffected", values=ours, control=broken, **runs.trust)
    if _suffices(runs, "mean", "fat-tree", 0.1):
        worse = pooled_reductions(runs, "mean", "fat-tree", (0.1,), "repflow")
        yield Measured(claim="fat-tree-worse-at-0.1", values=worse, **runs.trust)
    if _suffices(runs, "mean", "fat-tree", 0.8):
        ours, broken = (
            _column(runs, "mean_ms", "fat-tree", 0.8, "repsyn", same_path)
            / _column(runs, "mean_ms", "fat-tree", 0.8, "repflow")
            for same_path in (False, True)
        )
        yield Measured(claim="fat-tree-repsyn-at-least-equal", values=ours, control=broken, **runs.trust)
    loads = sorted(set(runs.totals[runs.totals["scheme"] == "mptcp"]["load"]))
    if _suffices(runs, "p999", "2:1", *loads):
        ours, broken = (_least_increase(runs, loads, one_subflow) for one_subflow in (False, True))
        yield Measured(claim="mptcp-p999", values=ours, control=broken, **runs.trust)


def _groups_suffice(runs: Runs, load: float) -> bool:
    rows = runs.totals[(runs.totals["network"] == "1:1") & (runs.totals["load"] == load)]
    return bool(len(rows)) and bool(rows["smallest_group"].min() * (1 - PERCENTILES["p99"]) >= ENOUGH_BEYOND)


def _elephants_suffice(runs: Runs) -> bool:
    """Whether enough of them lie on either side of the median of every run."""
    rows = runs.totals[(runs.totals["network"] == "1:1") & runs.totals["load"].isin(ELEPHANT_LOADS)]
    return bool(rows["elephants"].min() * 0.5 >= ENOUGH_BEYOND)


def _least_increase(runs: Runs, loads: Sequence[float], one_subflow: bool) -> np.ndarray:
    """By how much longer MPTCP's 99.9th percentile is than TCP's (%), at the load where that is least."""
    increases = [-pooled_reductions(runs, "p999", "2:1", (load,), "mptcp", one_subflow) for load in loads]
    return min(increases, key=lambda values: float(values.mean()))


def _low_load_claims(runs: Runs) -> Iterator[Measured]:
    """Each statistic at load .2, with the software's time; and medians at load .1, with its extra time and without."""
    if _suffices(runs, "p99", "1:1", 0.2, 0.5):
        for name in SCHEMES[1:]:
            for which in ("median", "p99"):
                low, high = (
                    pooled_reductions(runs, which, "1:1", (load,), name, idle_ms=SOFTWARE_MS) for load in (0.2, 0.5)
                )
                alone = "" if (name, which) == ("repflow", "p99") else f"-{name}-{which}"  # it has the first claim's id
                yield Measured(claim=f"little-at-low-load{alone}", values=low, control=high, **runs.trust)
    if _suffices(runs, "median", "1:1", 0.1):
        plain = _column(runs, "median_ms", "1:1", 0.1, "tcp")
        for name in SCHEMES[1:]:
            longer = _column(runs, "median_ms", "1:1", 0.1, name)
            bare = longer - _column(runs, "extra_ms", "1:1", 0.1, name)
            ours, broken = (rankings({"tcp": plain, name: values}) for values in (longer, bare))
            yield Measured(claim=f"longer-median-at-0.1-{name}", values=ours, control=broken, **runs.trust)


def _lead(runs: Runs, which: str, large_memory: bool) -> list[list[str]]:
    return rankings(
        {name: _column(runs, f"{which}_ms", "1:1", 0.5, name, large_memory=large_memory) for name in SCHEMES[1:]}
    )


def _software_claims(overhead: pd.DataFrame, trust: dict[str, Any]) -> Iterator[Measured]:
    control = _times_slower(overhead, "tcp again")
    for name in SCHEMES[1:]:
        yield Measured(claim=f"overhead-{name}", values=_times_slower(overhead, name), control=control, **trust)


def _counted(probed: pd.DataFrame, claim: str, ours: tuple, broken: tuple, **trust: Any) -> Measured:
    """A share of slow probes, over all repetitions."""
    slow = probed.groupby(["case", "scheme", "size_bytes"])["is_slow"]
    successes, trials = slow.sum(), slow.size()
    return Measured(
        claim=claim,
        successes=int(successes[ours]),
        trials=int(trials[ours]),
        control_successes=int(successes[broken]),
        control_trials=int(trials[broken]),
        **trust,
    )


def _order_of_oversubscription(runs: Runs) -> list[list[str]]:
    gains = {
        network: np.mean([reductions(runs, "p99_ms", network, 0.5, name) for name in SCHEMES[1:]], axis=0)
        for network in ("1:1", "2:1")
    }
    return [["2:1", "1:1"] if more else ["1:1", "2:1"] for more in gains["2:1"] > gains["1:1"]]


def _spread_by_size(runs: Runs) -> np.ndarray:
    groups = [reductions(runs, f"p99_group{i}_ms", "1:1", 0.4, "repflow") for i in range(len(SIZE_GROUPS_BYTES) - 1)]
    return np.nanmax(groups, axis=0) - np.nanmin(groups, axis=0)


def _elephants(runs: Runs, replicate_all: bool) -> np.ndarray:
    ratios = [
        _column(runs, "elephant_mbps", "1:1", load, "repflow", replicate_all=replicate_all)
        / _column(runs, "elephant_mbps", "1:1", load, "tcp")
        for load in ELEPHANT_LOADS
    ]
    return np.min(ratios, axis=0)


def _times_slower(overhead: pd.DataFrame, name: str) -> np.ndarray:
    means = overhead.pivot(index="repetition", columns="scheme", values="mean_ms")
    return (means[name] / means["tcp"]).to_numpy()


def summary(runs: Runs, network: str = "1:1") -> pd.DataFrame:
    """A row a load, scheme and control: mean, median, p99 and p99.9 of the mice of all repetitions together (ms), and
    means over repetitions."""
    rows = runs.totals[runs.totals["network"] == network]
    keys = ["load", "scheme", *CONTROLS]
    columns = ["elephant_mbps", "timeouts", "dropped_packets", "mice"]
    table = rows.groupby(keys, sort=False)[columns].mean().reset_index()
    found = [Case(network, **row) for row in table[keys].to_dict("records")]
    for place, which in enumerate(("mean", *PERCENTILES)):
        table.insert(len(keys) + place, f"{which}_ms", [pooled(runs, which, case) for case in found])
    return table


def folded(runs: Runs, load: float = 0.5) -> pd.DataFrame:
    """99.9th percentiles (1:1) as they are, and as the authors' script folds times (SOURCES.md, 6): a row a scheme; of
    the mice of all repetitions together (ms), and reductions against TCP (%)."""
    rows = {}
    for name in SCHEMES:
        took_ms = np.concatenate(runs.mice[Case("1:1", name, load)])
        fold_ms = np.where(took_ms > FOLD_MS, took_ms % FOLD_MS + 10 * (took_ms // FOLD_MS), took_ms)
        share = float(np.mean(took_ms >= PRINTED.initial_rto_ms)) * 100
        rows[name] = {"3 s or more (%)": share} | {
            f"p99.9{label} (ms)": float(np.quantile(values, PERCENTILES["p999"]))
            for label, values in (("", took_ms), (", folded", fold_ms))
        }
    table = pd.DataFrame(rows).T
    for label in ("p99.9", "p99.9, folded"):
        table[f"{label}: less than TCP (%)"] = (1 - table[f"{label} (ms)"] / table.loc["tcp", f"{label} (ms)"]) * 100
    return table


def overhead_table(overhead: pd.DataFrame) -> pd.DataFrame:
    """Fig. 16: a row a scheme: mean and deviation (ms), and what it takes more than plain streams (ms)."""
    table = overhead.groupby("scheme", sort=False)[["mean_ms", "deviation_ms"]].mean().loc[[*SCHEMES, "tcp again"]]
    return table.assign(extra_ms=table["mean_ms"] - table.loc["tcp", "mean_ms"])


def answer(runs: Runs, probed: pd.DataFrame) -> str:
    """The paper's question answered in one sentence, by the highest percentile that this run's flows can tell."""
    shares = slow_shares(probed).mean(axis=1)
    names = {"p999": "99.9th percentile", "p99": "99th percentile"}
    said = (
        f"Where one of three paths is congested, {shares['congested', 'tcp', 1]:.0%} of single connections meet it, "
        f"and {shares['congested', 'repflow', 1]:.0%} of pairs"
    )
    which = next((each for each in names if _suffices(runs, each, "1:1", 0.5)), None)
    if which is None:
        return f"{said}; what that takes off completion times needs more flows than this run has."
    gain = {name: float(np.mean(pooled_reductions(runs, which, "1:1", (0.5,), name))) for name in SCHEMES[1:]}
    said += (
        f"; at load .5 RepFlow takes {gain['repflow']:.0f} % and RepSYN {gain['repsyn']:.0f} % off the {names[which]} "
        "of short flows"
    )
    if not _suffices(runs, "p99", "incast", 0.2):
        return f"{said}."
    incast = float(np.mean(pooled_reductions(runs, "p99", "incast", (0.2,), "repflow")))
    return f"{said}; under incast RepFlow changes the 99th by {-incast:+.0f} %."


def fat_tree_samples() -> pd.DataFrame:
    """Fig. 18 as the authors' samples have it: load, scheme, flows, mean_ms, median_ms, p99_ms, p999_ms."""
    return pd.read_csv(data_dir("repnet") / "fat_tree_samples.csv", comment="#")


def _unbroken(runs: Runs, network: str) -> pd.DataFrame:
    rows = runs.totals[runs.totals["network"] == network]
    return rows[~rows[list(CONTROLS)].any(axis=1)]


def predicted(runs: Runs, setting: Setting = PRINTED) -> pd.DataFrame:
    """Mean FCT of mice over that of an idle network (1:1), ours and by (3) and (4) of the queueing model.

    The model knows no losses; ours are those of flows whose SYN was not lost.
    Returns load, scheme, measured, formula.
    """
    model = ReplicationModel(setting.sizes.in_packets(), None, setting.initial_window_segments)
    rows = _unbroken(runs, "1:1")
    table = rows.groupby(["load", "scheme"], sort=False)["normalised_mean"].mean().rename("measured").reset_index()
    copies = {"tcp": 1, "repflow": 2}
    table["formula"] = [
        float(model.short_mean(load, copies[name])) if name in copies else math.nan
        for load, name in zip(table["load"], table["scheme"], strict=True)
    ]
    return table


# Knobs.


# Memory (kB) and alpha; the most that one port may hold is alpha / (1 + alpha) of the memory.
MEMORIES = ((1000, 0.21), (2000, 0.21), (4000, 0.21), (4000, 0.5), (4000, 1.0), (4000, 8.0))


def vary(
    scale: Scale,
    seed: int,
    *,
    memories: Sequence[tuple[int, float]] = MEMORIES,
    initial_rtos_ms: Sequence[float] = (200.0, 3000.0),
    setting: Setting = PRINTED,
    n_jobs: int = 2,
    progress: Progress = iter,
) -> pd.DataFrame:
    """All schemes at load .5 (1:1) over the memory of a switch and a port's share of it, for two timeouts of the first
    SYN.

    Returns buffer_kb, buffer_alpha, port_kb (the most that one may hold), initial_rto_ms, scheme, p99_ms, p999_ms of
    mice.
    """
    work = [(*memory, rto, name) for memory in memories for rto in initial_rtos_ms for name in SCHEMES]

    def run_one(memory_kb: int, alpha: float, rto: float, name: str) -> tuple:
        changed = replace(setting, buffer_kb=memory_kb, buffer_alpha=alpha, initial_rto_ms=rto)
        case = Case("1:1", name, 0.5)
        found = simulate(experiment(case, changed, scale.knob_flows, seed))
        row, _, _ = _summary(found, _ideal_ms(setting, "leaf-spine"), setting.extra_ms(case))
        return memory_kb, alpha, memory_kb * alpha / (1 + alpha), rto, name, row["p99_ms"], row["p999_ms"]

    rows = in_parallel(run_one, work, n_jobs, progress)
    columns = ["buffer_kb", "buffer_alpha", "port_kb", "initial_rto_ms", "scheme", "p99_ms", "p999_ms"]
    return pd.DataFrame(rows, columns=columns)


# Figures.


def draw_network(setting: Setting = PRINTED) -> Figure:
    """The testbed (Fig. 10) and the two connections of one flow."""
    figure, axis = new_figure("One flow, two connections, three paths (Fig. 10)", "", "")
    axis.axis("off")
    nodes = {"sender": (0.0, 0.0), "leaf 1": (1.2, 0.0), "leaf 2": (3.8, 0.0), "receiver": (5.0, 0.0)}
    nodes |= {f"spine {i + 1}": (2.5, 1.2 - 1.2 * i) for i in range(SPINES)}
    cables = [("sender", "leaf 1"), ("leaf 2", "receiver")]
    cables += [(leaf, f"spine {i + 1}") for leaf in ("leaf 1", "leaf 2") for i in range(SPINES)]
    for first, second in cables:
        axis.plot(*zip(nodes[first], nodes[second], strict=True), color="#bbbbbb", linewidth=1, zorder=1)
    routes = (("tcp", "port p", "spine 1", 0.05), ("repflow", "port p + 1", "spine 3", -0.05))
    for name, label, spine, shift in routes:
        points = [nodes[node] for node in ("sender", "leaf 1", spine, "leaf 2", "receiver")]
        along = np.array(points)
        axis.plot(along[:, 0], along[:, 1] + shift, color=scheme(name).colour, linewidth=2.5, label=label, zorder=2)
    for name, (x, y) in nodes.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "#444444"}
        axis.text(x, y, name, ha="center", va="center", bbox=box, zorder=3)
    axis.text(0.6, 1.3, f"every link {setting.rate_mbps:g} Mb/s", ha="center")
    axis.set(xlim=(-0.6, 5.6), ylim=(-1.6, 1.6))
    axis.legend(loc="lower right")
    return figure


def draw_round_trips(round_trips: pd.DataFrame) -> Figure:
    """Round-trip times of three paths in the first repetition (Fig. 1)."""
    round_trips = round_trips[round_trips["repetition"] == round_trips["repetition"].min()]
    figure, axes = new_figure("Round trips on three disjoint paths (Fig. 1)", "time (s)", "round trip (ms)", columns=3)
    limit = round_trips[round_trips["path"].isin(["1", "2", "3"])]["round_trip_ms"].max() * 1.05
    for axis, name, colour in zip(axes, ("1", "2", "3"), PATHS_COLOURS, strict=True):
        rows = round_trips[round_trips["path"] == name]
        axis.plot(rows["time_s"], rows["round_trip_ms"], color=colour, linewidth=0.8)
        axis.set_ylim(0, limit)
        axis.set_title(f"path {name}", fontsize=10)
    return figure


def draw_correlations(round_trips: pd.DataFrame) -> Figure:
    """Correlation of pairs of paths, every repetition a point (Fig. 2, as coefficients)."""
    paths = correlations(round_trips)
    figure, axis = new_figure("Correlation of round-trip times (Fig. 2)", "", "correlation coefficient")
    for shared, name in ((False, "tcp"), (True, "control")):
        rows = paths[paths["shares_links"] == shared]
        label = "control: the same switches" if shared else "no common link"
        axis.plot(rows["pair"], rows["correlation"], scheme(name).marker, color=scheme(name).colour, label=label)
    axis.axhline(0, color="#444444", linewidth=1)
    axis.tick_params(axis="x", labelrotation=20)
    axis.set_ylim(-0.5, 1)
    axis.legend(loc="upper left")
    return figure


def draw_probes(probed: pd.DataFrame) -> Figure:
    """Distributions of the probes' completion times, one of three paths congested (Fig. 3 b and c)."""
    figure, axes = new_figure("One of three paths is congested (Fig. 3)", "", "share of probes", columns=2)
    titles = {1: "one byte (mostly the handshake, Fig. 3 b)", MOUSE_BYTES: "100 KB (Fig. 3 c)"}
    levels = {1: (0.326, 0.122), MOUSE_BYTES: (0.319, 0.126, 0.115)}
    for axis, (size_bytes, title) in zip(axes, titles.items(), strict=True):
        for name in SCHEMES:
            rows = probed[(probed["case"] == "congested") & (probed["scheme"] == name)]
            took_ms = np.sort(rows[rows["size_bytes"] == size_bytes]["completion_ms"].dropna())
            share = np.arange(1, len(took_ms) + 1) / len(took_ms)
            axis.step(took_ms, share, where="post", color=scheme(name).colour, label=scheme(name).label)
        for i, level in enumerate(levels[size_bytes]):
            label = "1 - slow share in the authors' samples" if i == 0 else None
            axis.axhline(1 - level, color=PUBLISHED_GREY, linestyle=":", linewidth=1.2, label=label)
        axis.set(xscale="log", xlabel="completion time (ms)", title=title, ylim=(0, 1.02))
        axis.legend(loc="lower right", fontsize=8)
    return figure


PUBLISHED_LOOK: dict[str, Any] = {"color": PUBLISHED_GREY, "markersize": 11, "linestyle": "none", "fillstyle": "none"}


def draw_loads(runs: Runs, network: str, title: str, columns: Sequence[str] = ("median", "p99", "p999")) -> Figure:
    """Completion times of mice over load, a panel a statistic, a line a scheme (Figs 11, 12 and 18).

    Lines: the mice of all repetitions together; points: single repetitions; grey, with 1:1: what TCP has here, less
    the published reduction.
    """
    names = {"mean": "mean", "median": "median", "p99": "99th percentile", "p999": "99.9th percentile"}
    figure, axes = new_figure(title, "load", "", columns=len(columns), log_y=True)
    rows = _unbroken(runs, network)
    rows, claims = rows[rows["scheme"].isin(SCHEMES)], load_claims("repnet")
    for axis, column in zip(axes, columns, strict=True):
        for name in SCHEMES:
            mine, look = rows[rows["scheme"] == name], scheme(name)
            axis.plot(mine["load"], mine[f"{column}_ms"], look.marker, color=look.colour, alpha=0.3, markersize=5)
            loads = sorted(set(mine["load"]))
            levels = [pooled(runs, column, Case(network, name, load)) for load in loads]
            axis.plot(
                loads, levels, look.marker + "-", color=look.colour, linewidth=2.5, markersize=8, label=look.label
            )
            if network == "1:1" and name != "tcp" and 0.5 in loads:
                left = 1 - claims.claim(f"{name}-{column}").published / 100
                level = left * pooled(runs, column, Case(network, "tcp", 0.5))
                axis.plot(0.5, level, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)
        axis.set_title(names[column], fontsize=14)
        axis.set_xlabel("load", fontsize=14)
        axis.tick_params(which="both", labelsize=13)
        axis.set_xticks(sorted(set(rows["load"])))
    figure.suptitle(title, fontsize=16)
    axes[0].set_ylabel("completion time (ms)", fontsize=14)
    axes[0].legend(fontsize=12)
    return figure


def draw_multipath(runs: Runs) -> Figure:
    """By how much longer mice take with MPTCP than with TCP, over load (Fig. 4)."""
    figure, axes = new_figure("Mice with MPTCP, 2:1 (Fig. 4)", "load", "longer than with TCP (%)", columns=2)
    loads = sorted(set(runs.totals[runs.totals["scheme"] == "mptcp"]["load"]))
    for axis, column, title in zip(axes, ("mean_ms", "p999_ms"), ("mean", "99.9th percentile"), strict=True):
        for name, one_subflow, label in (
            ("mptcp", False, f"{SUBFLOWS} subflows"),
            ("control", True, "control: one subflow"),
        ):
            which = column.removesuffix("_ms")
            found = [-reductions(runs, column, "2:1", load, "mptcp", one_subflow) for load in loads]
            whole = [-pooled_reductions(runs, which, "2:1", (load,), "mptcp", one_subflow).mean() for load in loads]
            look = scheme(name)
            for load, values in zip(loads, found, strict=True):
                axis.plot([load] * len(values), values, look.marker, color=look.colour, alpha=0.25, markersize=4)
            axis.plot(loads, whole, look.marker + "-", color=look.colour, label=label)
        axis.axhline(0, color="#444444", linewidth=1)
        axis.set_yscale("symlog", linthresh=100)
        axis.set_xticks(loads)
        axis.set_title(title, fontsize=10)
    published = load_claims("repnet").claim("mptcp-p999").published
    axes[1].axhline(published, color=PUBLISHED_GREY, linestyle=":", label="the paper: more than this")
    axes[1].legend(fontsize=8)
    return figure


def draw_prediction(table: pd.DataFrame) -> Figure:
    """Mean completion time over that of an idle network: measured, and by the M/G/1 model."""
    figure, axis = new_figure(
        "The queueing model beside the packets (1:1)", "load", "mean FCT of mice / idle network", log_y=True
    )
    for name, rows in table.groupby("scheme", sort=False):
        look = scheme(str(name))
        axis.plot(rows["load"], rows["measured"], look.marker + "-", color=look.colour, label=look.label)
        if rows["formula"].notna().any():
            label = f"{look.label}, M/G/1"
            axis.plot(rows["load"], rows["formula"], "--", color=look.colour, linewidth=1.2, label=label)
    axis.set_xticks(sorted(set(table["load"])))
    axis.legend()
    return figure


def draw_by_size(runs: Runs, load: float = 0.4) -> Figure:
    """99th percentile by size at the load that was run nearest to `load` (Fig. 13): medians of the repetitions."""
    loads = runs.totals[runs.totals["network"] == "1:1"]["load"]
    load = float(loads.iloc[(loads - load).abs().argmin()])
    figure, axis = new_figure(f"By size, load {load:g} (Fig. 13)", "size of the flow (KB)", "99th percentile (ms)")
    rows = _unbroken(runs, "1:1")
    rows = rows[np.isclose(rows["load"], load)]
    edges = [f"{low / 1e3:.0f} to {high / 1e3:.0f}" for low, high in pairwise(SIZE_GROUPS_BYTES)]
    columns = [f"p99_group{i}_ms" for i in range(len(edges))]
    for i, name in enumerate(SCHEMES):
        middles = rows[rows["scheme"] == name][columns].median()
        place = np.arange(len(edges)) + (i - 1) * 0.27
        axis.bar(place, middles, 0.25, color=scheme(name).colour, label=scheme(name).label)
    axis.set_xticks(range(len(edges)), edges)
    axis.legend()
    return figure


def draw_incast(runs: Runs) -> Figure:
    """Distribution of mice under incast, and its tail (Fig. 14); grey: what TCP has here, changed as published."""
    figure, axis = new_figure(
        "Eleven hosts answer at once, load .2 (Fig. 14)",
        "completion time (ms)",
        "share of slower flows",
        log_x=True,
        log_y=True,
    )
    claims = load_claims("repnet")
    plain = {which: pooled(runs, which, Case("incast", "tcp", 0.2)) for which in ("p99", "p999")}
    for name in SCHEMES:
        look = scheme(name)
        levels = _levels(runs, Case("incast", name, 0.2))
        axis.plot(levels, 1 - np.array(CURVE), look.marker + "-", color=look.colour, label=look.label)
        if name == "tcp":
            continue
        published = {
            which: plain[which] + claims.claim("incast-repflow-p99").published
            if (name, which) == ("repflow", "p99")
            else plain[which] * (1 - claims.claim(f"incast-{name}-{which}").published / 100)
            for which in plain
        }
        slower = [1 - PERCENTILES[which] for which in published]
        axis.plot(list(published.values()), slower, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)
    axis.legend()
    return figure


def _levels(runs: Runs, case: Case) -> np.ndarray:
    """Completion times (ms) at the probabilities of CURVE, of the mice of all repetitions together."""
    return np.quantile(np.concatenate(runs.mice[case]), CURVE)


def draw_elephants(runs: Runs) -> Figure:
    """Throughput of flows above 1 MB at low and high load (Fig. 15)."""
    figure, axes = new_figure(
        "Elephants hardly notice (Fig. 15)", "throughput of flows above 1 MB (Mb/s)", "share of flows", columns=2
    )
    for axis, load in zip(axes, (0.2, 0.5), strict=True):
        for name in SCHEMES:
            rows = _curve(runs, Case("1:1", name, load))
            axis.plot(rows, rows.index, color=scheme(name).colour, label=scheme(name).label)
        rows = _curve(runs, Case("1:1", "repflow", load, replicate_all=True))
        axis.plot(rows, rows.index, "--", color=scheme("control").colour, label="control: elephants sent twice too")
        axis.set_title(f"load {load:g}", fontsize=10)
    axes[0].legend(fontsize=8)
    return figure


def _curve(runs: Runs, case: Case) -> pd.Series:
    chosen = _of_case(runs.curves, case)
    return chosen.groupby("probability")["value"].mean()


def draw_overhead(overhead: pd.DataFrame) -> Figure:
    """What a second connection costs in software, with asyncio and RepNet's streams, beside the published (Fig. 16)."""
    table = overhead_table(overhead)
    figure, axis = new_figure("1-KB flows over the loopback (Fig. 16)", "", "more than a plain flow takes (ms)")
    places = np.arange(len(SCHEMES) - 1)
    ours = [table.loc[name, "extra_ms"] for name in SCHEMES[1:]]
    bars = axis.bar(places - 0.2, ours, 0.38, color=[scheme(name).colour for name in SCHEMES[1:]])
    label = f"published, beside {SOFTWARE_MS:g} ms of a plain flow (ours: {table.loc['tcp', 'mean_ms']:.2f} ms)"
    theirs = axis.bar(places + 0.2, [PRINTED.repflow_extra_ms, PRINTED.repsyn_extra_ms], 0.38, color=PUBLISHED_GREY)
    theirs.set_label(label)
    for each in (bars, theirs):
        axis.bar_label(each, fmt="%.2f", padding=3)
    axis.set_xticks(places, [scheme(name).label for name in SCHEMES[1:]])
    axis.set_ylim(0, 1.35 * max(*ours, PRINTED.repflow_extra_ms))
    axis.legend(loc="upper right")
    return figure


def draw_fat_tree(runs: Runs) -> Figure:
    """Reductions against TCP over load in the fat-tree, beside the authors' samples (Fig. 18)."""
    figure, axes = new_figure("Fat-tree of 54 hosts (Fig. 18)", "load", "reduction against TCP (%)", columns=2)
    published = fat_tree_samples().set_index(["load", "scheme"])
    for axis, column, title in zip(axes, ("mean_ms", "p99_ms"), ("mean", "99th percentile"), strict=True):
        for name in SCHEMES[1:]:
            look = scheme(name)
            theirs = published[column].unstack()
            gain = (1 - theirs[name] / theirs["tcp"]) * 100
            label = f"{look.label}, the authors' samples"
            axis.plot(gain.index, gain, look.marker + ":", color=PUBLISHED_GREY, markersize=4, label=label)
            loads = sorted(set(runs.totals[runs.totals["network"] == "fat-tree"]["load"]))
            which = column.removesuffix("_ms")
            ours = [pooled_reductions(runs, which, "fat-tree", (load,), name).mean() for load in loads]
            axis.plot(loads, ours, look.marker + "-", color=look.colour, label=look.label)
        axis.axhline(0, color="#444444", linewidth=1)
        axis.set_title(title, fontsize=10)
    axes[0].legend(fontsize=8, loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """What is gained when both connections are hashed to one path."""
    figure, axes = new_figure("Broken on purpose: both on one path", "", "reduction against TCP (%)", columns=2)
    places = (("1:1", 0.5, "leaf-spine 1:1, load .5"), ("fat-tree", 0.8, "fat-tree, load .8"))
    for axis, (network, load, title) in zip(axes, places, strict=True):
        for i, (same_path, label) in enumerate(((False, "paths by hash"), (True, "the same path"))):
            heights = [
                pooled_reductions(runs, which, network, (load,), name, same_path).mean()
                for name in SCHEMES[1:]
                for which in ("median", "p99")
            ]
            colour = scheme("control").colour if same_path else scheme("repflow").colour
            axis.bar(np.arange(4) + (i - 0.5) * 0.38, heights, 0.36, color=colour, label=label)
        ticks = [f"{scheme(name).label}\n{which}" for name in SCHEMES[1:] for which in ("median", "p99")]
        axis.set_xticks(range(4), ticks)
        axis.axhline(0, color="#444444", linewidth=1)
        axis.set_title(title, fontsize=10)
    axes[0].legend()
    return figure


def draw_tiers(scaled: dict[str, Runs]) -> Figure:
    """Distribution of mice over the scaled testbed, a panel a tier."""
    figure, axes = new_figure("Mice on the testbed at a fiftieth of its rate, load .5", "", "", columns=2)
    for axis, (tier, runs) in zip(axes, scaled.items(), strict=False):
        for name in SCHEMES:
            levels = _levels(runs, Case("scaled", name, SCALED_LOAD))
            axis.plot(levels, CURVE, color=scheme(name).colour, label=scheme(name).label)
        axis.set(xscale="log", xlabel="completion time (ms)", ylabel="share of mice")
        axis.set_title(tier if tier == "simulated" else f"{tier}: real kernels, the asyncio library", fontsize=10)
    for axis in axes[len(scaled) :]:
        axis.axis("off")
        axis.text(0.5, 0.5, "real kernels: choose tier rootless or privileged", ha="center", transform=axis.transAxes)
    axes[0].legend(loc="lower right", fontsize=8)
    return figure


def draw_sorting(sorting: SortRuns) -> Figure:
    """Times of bucket-sort jobs over TCP's median, a panel a tier, beside the authors' percentiles (Fig. 17)."""
    tiers = list(dict.fromkeys(sorting.jobs["tier"]))
    figure, axes = new_figure(
        "Bucket sort (Fig. 17)",
        "time of a job / TCP's median",
        "share of slower jobs",
        columns=len(tiers),
        log_x=True,
        log_y=True,
    )
    published = sorting_samples().set_index("scheme")
    shares = {"p50_ms": 0.5, "p90_ms": 0.1, "p99_ms": 0.01, "p99.7_ms": 0.003, "p99.9_ms": 0.001}
    for axis, tier in zip(np.atleast_1d(axes), tiers, strict=True):
        jobs = sorting.jobs[(sorting.jobs["tier"] == tier) & (sorting.jobs["control"] == "")]
        median = jobs[jobs["scheme"] == "tcp"]["took_ms"].median()
        for name in dict.fromkeys(jobs["scheme"]):
            look, took = scheme(name), np.sort(jobs[jobs["scheme"] == name]["took_ms"]) / median
            axis.step(took, 1 - np.arange(len(took)) / len(took), color=look.colour, label=look.label, where="pre")
            theirs = published.loc[name, list(shares)] / published.loc["tcp", "p50_ms"]
            label = "the authors' samples" if name == "tcp" else None
            axis.plot(theirs, list(shares.values()), look.marker + ":", color=PUBLISHED_GREY, label=label)
        axis.set_title(tier if tier == "simulated" else f"{tier}: the application on real kernels", fontsize=10)
        axis.legend(fontsize=8)
    return figure


def draw_knobs(table: pd.DataFrame) -> Figure:
    """99th and 99.9th percentile over what a port may hold; dashed: a short timeout of the first SYN."""
    figure, axes = new_figure(
        "Memory and the first timeout (1:1, load .5)", "most that a port may hold (KB)", "", columns=2, log_y=True
    )
    panels = ("p99_ms", "99th percentile (ms)"), ("p999_ms", "99.9th percentile (ms)")
    for axis, (column, label) in zip(axes, panels, strict=True):
        for (name, rto), rows in table.groupby(["scheme", "initial_rto_ms"], sort=False):
            look, line = scheme(str(name)), "-" if rto == table["initial_rto_ms"].max() else "--"
            text = f"{look.label}, first SYN waits {rto:g} ms"
            axis.plot(rows["port_kb"], rows[column], look.marker + line, color=look.colour, label=text)
        axis.set(ylabel=label, xscale="log")
        ticks = sorted(set(table["port_kb"]))
        axis.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks], rotation=30)
        axis.xaxis.set_minor_locator(NullLocator())
    axes[0].legend(fontsize=8, loc="lower right")
    return figure
