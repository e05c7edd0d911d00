"""RepNet's networks and their traffic: the testbed of section 5.1, the fat-tree of section 5.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from netrepro.applications.bucket_sort.run import Sort
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import FlowSizeDistribution, load_flow_sizes
from netrepro.networks.links import DropTail, Link, SharedBuffer
from netrepro.networks.routing import shortest_paths
from netrepro.networks.topology import Topology, fat_tree, leaf_spine
from netrepro.networks.workloads import Flow, PoissonFlows, Tcp, flows_per_s_at_load
from netrepro.study.setting import parameter

SCHEMES = ("tcp", "repflow", "repsyn")
REPLICATED = SCHEMES[1:]
KB = 1024  # bytes, as in the authors' programs
MOUSE_BYTES = 100 * KB  # section 2.2
ELEPHANT_BYTES = 1_000_000
SUBFLOWS = 8  # of MPTCP (Fig. 4); the paper does not give it, but CONGA, which it cites, has eight
SPINES = 3
# What a host offers at load 1, as a share of its rate: the script's gaps, mean KB x 940 / 1024 / 128 / load / 1000 s.
OFFERED_AT_LOAD_1 = 2**30 / 940e6
MIXED_NETWORKS = ("1:1", "2:1", "fat-tree")
FAT_TREE_PODS, FAT_TREE_RATE_MBPS, FAT_TREE_BUFFER_PACKETS = 6, 50.0, 100
INCAST_SENDERS = 11
DCTCP_MARKS_FROM = 20  # packets at 1 Gb/s (Alizadeh et al., SIGCOMM 2010, section 4)
SETTLING_S = 8.0  # after the last arrival: covers two lost SYNs, at 3 s each
SCALED_SETTLING_S = 4.0  # with a SYN's first timeout of 1 s
CLAIMED_LOADS = (0.2, 0.4, 0.5)  # with 1:1, for the claims that need most flows
PATHS_LOAD = 0.3  # in Figs 1 and 2
SOFTWARE_MS = 6.82  # time of a TCP flow, section 5.2.2
ELEPHANT_LOADS = (0.2, 0.5)  # Fig. 15
MICE_PER_S_PER_MBPS = 1.5  # far more than the load has, because a run had too few; they add 5 % of load


@dataclass(frozen=True)
class Size:
    """The amount of work in a profile's runs.

    amounts : by network, the number of flows of all sizes for each scheme; for incast, of bursts; for the probes of
    Fig. 3, of handshakes, and a quarter as many flows of 100 KB; for the loopback, flows a scheme; for bucket sort,
    jobs a master; for the others, seconds. fewer_flows : number with 1:1 at loads outside CLAIMED_LOADS. loads : by
    network, those that are run. virtual : the networks that a kernel in virtual time runs. alone : flows of all sizes
    where a run has one scheme; 0 for as many as elsewhere.
    """

    amounts: Mapping[str, float]
    fewer_flows: int
    loads: dict[str, tuple[float, ...]]
    virtual: tuple[str, ...] = ()
    alone: int = 0


# With five repetitions, at least five mice (or bursts) lie beyond a 99th percentile. Bucket sort: in its first jobs all
# masters begin together, so there is a second one. Of the rest medians, means and shares are read.
QUICK = Size(
    {"1:1": 250, "2:1": 200, "incast": 110, "fat-tree": 120, "probes": 300, "loopback": 80, "sort": 2}
    | {"paths": 6.0, "scaled": 5.0, "kernel sort": 5.0},
    150,
    {"1:1": (0.1, 0.2, 0.5), "2:1": (0.2, 0.5), "fat-tree": (0.1, 0.8)},
    alone=150,
)
# With five repetitions, 200,000 flows a scheme with 1:1, like the authors.
PAPER = Size(
    {"1:1": 16_000, "2:1": 9000, "incast": 20_000, "fat-tree": 1500, "probes": 2000, "loopback": 1000, "sort": 42}
    | {"paths": 200.0, "scaled": 40.0, "kernel sort": 40.0},
    2700,
    {"1:1": (0.1, 0.2, 0.3, 0.4, 0.5), "2:1": (0.1, 0.3, 0.5), "fat-tree": (0.1, 0.2, 0.4, 0.6, 0.8)},
)
# Every load of every claim, for tests.
TEST = Size(
    {"1:1": 400, "2:1": 200, "incast": 50, "fat-tree": 120, "probes": 300, "loopback": 10, "sort": 1}
    | {"paths": 6.0, "scaled": 4.0, "kernel sort": 1.0},
    400,
    {"1:1": (0.1, 0.2, 0.4, 0.5), "2:1": (0.2, 0.5), "fat-tree": (0.1, 0.4, 0.6, 0.8)},
)
# A packet costs a kernel a hundred times as much as the simulator.
VIRTUAL_QUICK = replace(
    QUICK,
    amounts={**QUICK.amounts, "probes": 400, "full-rate": 0.4},
    loads={**QUICK.loads, "full-rate": (0.5,), "full-rate-2:1": ()},
    virtual=("full-rate", "probes"),
)
VIRTUAL_PAPER = replace(
    PAPER,
    amounts={**PAPER.amounts, "incast": 1000, "sort": 4, "full-rate": 5.0, "full-rate-2:1": 1.5},
    loads={**PAPER.loads, "full-rate": ELEPHANT_LOADS},
    virtual=("full-rate", "full-rate-2:1", "probes", "incast", "sort"),
)
VIRTUAL_TEST = replace(
    TEST,
    amounts={**TEST.amounts, "incast": 4, "full-rate": 0.03, "full-rate-2:1": 0.03, "probes": 40},
    virtual=VIRTUAL_PAPER.virtual,
)
SIZES = {
    "quick": QUICK,
    "paper": PAPER,
    "paper's knob": replace(PAPER, amounts={"1:1": 5000, "incast": 3000}),
    "test": TEST,
}
SIZES |= {"virtual quick": VIRTUAL_QUICK, "virtual paper": VIRTUAL_PAPER, "virtual test": VIRTUAL_TEST}


@dataclass(frozen=True)
class Setting:
    """The testbed of section 5.1, the fat-tree of section 5.4, and what runs on which of them.

    `link_delay_ms` is chosen for a round trip of 178 us over four links. A switch port takes at most `buffer_alpha`
    times the free part of `buffer_kb` (data/repnet/SOURCES.md), or has its own `buffer_packets` where that is not 0.
    `delayed_ack_ms` is our choice: see the notebook. `repflow_extra_ms` and `repsyn_extra_ms` are the schemes' software
    time beyond TCP's, which NFCT includes (Fig. 16).

    network : "1:1", "2:1" (leaf-spine), "incast" (2:1, every mouse comes from eleven hosts at once), "fat-tree",
    "scaled" (1:1 as real kernels can run it), "full-rate" and "full-rate-2:1" (the same at the testbed's own rate, as a
    kernel in virtual time can); "probes" (Fig. 3), "paths" (Figs 1 and 2), "loopback" (Fig. 16), "sort" (Fig. 17),
    "kernel sort". scheme : of SCHEMES, or "mptcp" with `subflows` for every flow. size : a name in SIZES. same_path :
    both connections are hashed to one path. alone : in MIXED_NETWORKS, all flows of a run are the scheme's; else each
    mouse takes one of SCHEMES at random, and the scheme says whose mice are read. long_flows : number in Fig. 3, on one
    path. congestion_control : of all connections; with "dctcp" switches mark packets that find DCTCP_MARKS_FROM
    waiting. incast_senders : hosts that send at once. controller_ms : in the fat-tree, how long a controller, which
    serves one packet after the other, takes for the first packet of a connection, each way (section 5.4.3). Bucket sort
    (data/repnet/SOURCES.md): numbers : length of an array; starts_within_s : masters start in this
    time; scan_ms, range_ms : processor time of a master and of a slave; rest_ms : mean pause between a master's jobs;
    one_master : no other host begins jobs; more_jobs : factor on the number of jobs.
    """

    rate_mbps: float = 1000.0
    link_delay_ms: float = 0.0215
    buffer_kb: int = parameter(
        4000, "memory of a switch of the testbed, which its ports share", "KB", low=2, high=1_000_000
    )
    buffer_alpha: float = parameter(0.21, "a port takes this many times what is free of it", low=0.001, high=1000)
    buffer_packets: int = 0
    initial_window_segments: int = parameter(3, "of every connection", "segments", low=1, high=1000)
    min_rto_ms: float = parameter(10.0, "least retransmission timeout", "ms", low=0.1, high=60_000)
    initial_rto_ms: float = parameter(3000.0, "timeout of the first SYN; kernels have 1000", "ms", low=0.1, high=60_000)
    delayed_ack_ms: float = parameter(
        5.0,
        "how long a lone segment waits for its acknowledgement, 0 for not at all; kernels have 40",
        "ms",
        low=0,
        high=1000,
    )
    gaps: str = parameter(
        "uniform",
        "between the starts of a host's flows: .5 to 1.5 times their mean (the script), or exponential (the text)",
        one_of=("uniform", "poisson"),
    )
    repflow_extra_ms: float = parameter(
        0.49, "of a mouse's software with RepFlow, beyond TCP's", "ms", low=0, high=1000
    )
    repsyn_extra_ms: float = parameter(0.32, "the same with RepSYN", "ms", low=0, high=1000)
    network: str = "1:1"
    scheme: str = "tcp"
    load: float = 0.5
    size: str = "quick"
    same_path: bool = False
    alone: bool = False
    replicate_below_bytes: int = MOUSE_BYTES
    subflows: int = SUBFLOWS
    size_bytes: int = 1
    long_flows: int = 2
    congestion_control: str = "cubic"
    incast_senders: int = INCAST_SENDERS
    controller_ms: float = 0.0
    numbers: int = 1_000_000
    starts_within_s: float = 0.01
    scan_ms: float = 76.0
    range_ms: float = 2.0
    rest_ms: float = 50.0
    one_master: bool = False
    more_jobs: float = 1.0

    @property
    def tcp(self) -> Tcp:
        """TCP of Linux 2.6.38, the testbed's."""
        return Tcp(
            self.congestion_control,
            initial_window_segments=self.initial_window_segments,
            min_rto_ms=self.min_rto_ms,
            initial_rto_ms=self.initial_rto_ms,
            syn_linear_timeouts=0,
            delayed_ack_ms=self.delayed_ack_ms,
            tail_loss_probe=False,  # was added later
            ecn=self.congestion_control == "dctcp",
        )

    @property
    def sizes(self) -> FlowSizeDistribution:
        """The sizes of all flows, in bytes. The file has 1000 bytes a KB."""
        drawn = load_flow_sizes("web_search_authors").in_bytes()
        return replace(drawn, points=tuple((size * KB / 1e3, share) for size, share in drawn.points))

    @property
    def is_mixed(self) -> bool:
        """True where the three schemes share one network, as in the authors' exp_code/2_run_time_load.py."""
        return self.network in MIXED_NETWORKS and not self.alone

    @property
    def queue(self) -> DropTail | SharedBuffer:
        """The queue of every port of the testbed's switches."""
        if self.buffer_packets:
            return DropTail(packets=self.buffer_packets)
        marks = DCTCP_MARKS_FROM if self.congestion_control == "dctcp" else None
        return SharedBuffer(bytes=self.buffer_kb * 1000, alpha=self.buffer_alpha, mark_packets=marks)

    @property
    def extra_ms(self) -> float:
        """The time (ms) that a mouse's software takes beyond TCP's; 0 in the authors' fat-tree, which used another
        program."""
        extras = {"repflow": self.repflow_extra_ms, "repsyn": self.repsyn_extra_ms}
        return 0.0 if self.network == "fat-tree" else extras.get(self.scheme, 0.0)

    @property
    def amount(self) -> float:
        """The amount of work in a run, as `Size` defines it."""
        size = SIZES[self.size]
        if self.alone and size.alone:
            return size.alone
        fewer = self.network == "1:1" and self.load not in CLAIMED_LOADS
        return size.fewer_flows if fewer else size.amounts[self.network]

    @property
    def is_run(self) -> bool:
        """True where the setting's size runs this load."""
        return self.load in SIZES[self.size].loads.get(self.network, (self.load,))

    def leaf_spine(self, oversubscription: int = 1) -> Topology:
        """Build two racks of three hosts (1:1) or six (2:1) and three spines."""
        link = Link(self.rate_mbps, self.link_delay_ms, self.queue)
        return leaf_spine(2, SPINES, SPINES * oversubscription, link, link)

    def fat_tree(self) -> Topology:
        """Build six pods with 54 hosts, and nine paths between pods."""
        queue = DropTail(packets=FAT_TREE_BUFFER_PACKETS)
        return fat_tree(FAT_TREE_PODS, Link(FAT_TREE_RATE_MBPS, self.link_delay_ms, queue))

    @property
    def sort(self) -> Sort:
        """Bucket sort as in section 5.3."""
        seconds = (self.scan_ms / 1e3, self.range_ms / 1e3, self.rest_ms / 1e3)
        own = (self.scheme, self.numbers, self.replicate_below_bytes, self.starts_within_s, *seconds)
        return Sort(self.leaf_spine(2), self.tcp, *own, self.same_path, self.one_master)


PRINTED = Setting()
# For real kernels: a fiftieth of the rate, so that all takes fifty times as long, except the propagation (none) and
# kernels' fixed TCP timers. Their ports share no memory, and the library's own software runs.
SCALED: dict[str, Any] = {
    "rate_mbps": 20.0,
    "link_delay_ms": 0.0,
    "buffer_packets": 425,
    "min_rto_ms": 200.0,
    "initial_rto_ms": 1000.0,
    "delayed_ack_ms": 40.0,
    "repflow_extra_ms": 0.0,
    "repsyn_extra_ms": 0.0,
}
# Fixed in a kernel of today: the timeout of the first SYN, and the longest delay of an acknowledgement.
OF_LINUX: dict[str, Any] = {"initial_rto_ms": 1000.0, "delayed_ack_ms": 40.0}
# The testbed as a kernel in virtual time runs it. The simulator delays acknowledgements as in other networks, since a
# kernel does not delay them at the start of a connection, as the simulator would with the kernel's delay.
FULL_RATE: dict[str, Any] = {"initial_rto_ms": OF_LINUX["initial_rto_ms"]}
# Bucket sort on real kernels: a five-hundredth of the rate and a hundredth of the numbers, which two cores can sort in
# time, so that all takes five times as long.
SORTED = SCALED | {
    "rate_mbps": 2.0,
    "buffer_packets": 50,
    "numbers": 10_000,
    "replicate_below_bytes": MOUSE_BYTES // 100,
    "starts_within_s": 0.05,
    "scan_ms": 5 * PRINTED.scan_ms,
    "range_ms": 5 * PRINTED.range_ms,
    "rest_ms": 5 * PRINTED.rest_ms,
}


def experiment(setting: Setting, seed: int, flows: int | None = None) -> Experiment:
    """Make the experiment that every tier runs in a network of flows. Where the schemes are mixed it is the same for
    all of them; elsewhere experiments that differ only in the scheme are equal but for the scheme's own connections.

    flows : number of all flows for each scheme, with "incast" of bursts; None for the number of the setting's size.
    """
    if setting.network in ("scaled", "full-rate", "full-rate-2:1"):
        return _with_more_mice(setting, seed)
    flows = int(setting.amount) if flows is None else flows
    if setting.network == "incast":
        return _incast(setting, flows, seed)
    if setting.network == "fat-tree":
        topology, per_s = setting.fat_tree(), _flows_of_fat_tree_per_s(setting, setting.load)
        others = {host: tuple(each for each in topology.hosts if each != host) for host in topology.hosts}
    else:
        topology = setting.leaf_spine(int(setting.network[0]))
        offered_mbps = 2 * SPINES * setting.rate_mbps * OFFERED_AT_LOAD_1
        per_s = flows_per_s_at_load(setting.sizes, setting.load, offered_mbps)
        others = {host: far for near, far in _directions(topology) for host in near}
    gap_s, schemes = len(others) / per_s, len(SCHEMES) if setting.is_mixed else 1
    of_a_host = max(1, round(flows * schemes / len(others)))
    traffic = _flows(setting, others, gap_s, of_a_host, seed)
    if setting.controller_ms:
        starts_s = np.array([flow.start_s for flow in traffic]) + controller_s(traffic, setting)
        traffic = tuple(replace(flow, start_s=float(at_s)) for flow, at_s in zip(traffic, starts_s, strict=True))
    # Gaps are random: the last flow may come a little later than on average.
    latest_s = max(of_a_host * gap_s * 1.2, max(flow.start_s for flow in traffic))
    return Experiment(topology, traffic, latest_s + SETTLING_S, seed, tcp=setting.tcp)


def _flows(
    setting: Setting, others: Mapping[str, Sequence[str]], gap_s: float, count: int, seed: int
) -> tuple[Flow, ...]:
    """Draw the flows of all hosts as the authors' exp_code/2_run_time_load.py does: `count` of each host, to its
    `others`, `gap_s` apart on average. Where schemes are mixed, each mouse takes one at random and other flows are
    TCP's. The label is the scheme of a mouse."""
    kinds, copies = setting.sizes, {name: _copies(replace(setting, scheme=name)) for name in {*SCHEMES, setting.scheme}}
    traffic = []
    for place, (source, ends) in enumerate(others.items()):
        # A random stream for each purpose: other gaps leave sizes, destinations and schemes as they were.
        gaps, sizes, choices, draws = (np.random.default_rng([seed, place, purpose]) for purpose in range(4))
        drawn = gaps.uniform(0.5, 1.5, count) if setting.gaps == "uniform" else gaps.exponential(size=count)
        size_bytes = np.maximum(1, np.ceil(kinds.sample(sizes, count)))
        destination, scheme = choices.integers(len(ends), size=count), draws.integers(len(SCHEMES), size=count)
        rows = zip(np.cumsum(drawn) * gap_s, size_bytes, destination, scheme, strict=True)
        for start_s, size, end, draw in rows:
            is_mouse = size <= MOUSE_BYTES
            name = setting.scheme if not setting.is_mixed else SCHEMES[draw] if is_mouse else "tcp"
            own: dict[str, Any] = {"label": name if is_mouse else "", **copies[name]}
            traffic.append(Flow(source, ends[end], size_bytes=int(size), start_s=float(start_s), **own))
    return tuple(traffic)


def controller_s(traffic: Sequence[Flow], setting: Setting) -> np.ndarray:
    """Compute how long the authors' controller holds up each flow (s): it takes `controller_ms` for the SYN of each
    connection, and as long for its answer, in the order of their arrival (section 5.4.3). A flow goes on with its first
    connection; the SYN of its second follows at once. Between SYN and answer lie the six links of an idle network."""
    packets = [(flow.start_s, 2 * place + copy, False) for place, flow in enumerate(traffic) for copy in (0, 1)]
    packets = [each for each in packets if each[1] % 2 == 0 or _is_replicated(traffic[each[1] // 2])]
    heapify(packets)
    free_s, answered_s = 0.0, np.zeros(len(traffic))
    there_s, serves_s = 6 * setting.link_delay_ms / 1e3, setting.controller_ms / 1e3
    while packets:
        at_s, connection, is_answer = heappop(packets)
        free_s = max(free_s, at_s) + serves_s
        if not is_answer:
            heappush(packets, (free_s + there_s, connection, True))
        elif connection % 2 == 0:
            answered_s[connection // 2] = free_s
    return answered_s - there_s - np.array([flow.start_s for flow in traffic])


def _is_replicated(flow: Flow) -> bool:
    return bool(flow.replication) and (flow.size_bytes or 0) <= flow.replicate_below_bytes


def _flows_of_fat_tree_per_s(setting: Setting, load: float) -> float:
    return flows_per_s_at_load(setting.sizes, load, FAT_TREE_PODS**3 // 4 * FAT_TREE_RATE_MBPS)


def _copies(setting: Setting) -> dict[str, Any]:
    """Return the scheme's own fields of Flow and PoissonFlows."""
    if setting.scheme == "mptcp":
        return {"subflows": setting.subflows, "congestion_control": "lia"}
    return {
        "replication": "" if setting.scheme == "tcp" else setting.scheme,
        "replicate_below_bytes": setting.replicate_below_bytes,
        "replica_same_path": setting.same_path,
    }


def _directions(topology: Topology) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    half = len(topology.hosts) // 2
    left, right = topology.hosts[:half], topology.hosts[half:]
    return (left, right), (right, left)


def _incast(setting: Setting, bursts: int, seed: int) -> Experiment:
    """Make the experiment of section 5.2.4: with every mouse, more of the same size go to the same host, from other
    hosts, `incast_senders` in all."""
    plain = replace(setting, network="2:1", scheme="tcp", alone=True)
    share, copies = setting.sizes.share_of_flows_below(MOUSE_BYTES), _copies(setting)
    base = experiment(plain, seed, max(2, round(bursts / share)))
    traffic: list[Flow] = []
    for row in base.flow_table.itertuples():
        size_bytes, start_s = int(row.size_bytes), float(row.start_s)
        senders = [row.source]
        if size_bytes <= MOUSE_BYTES:
            senders = [host for host in base.topology.hosts if host != row.destination][: setting.incast_senders]
        traffic += [Flow(host, row.destination, size_bytes=size_bytes, start_s=start_s, **copies) for host in senders]
    return replace(base, traffic=tuple(traffic))


def _with_more_mice(setting: Setting, seed: int) -> Experiment:
    """Make the experiment on the leaf-spine with elephants at the setting's load and additional mice. It lasts as long
    as the setting's size says."""
    topology = setting.leaf_spine(2 if setting.network.endswith("2:1") else 1)
    sizes, seconds, copies = setting.sizes, setting.amount, _copies(setting)
    per_s = flows_per_s_at_load(sizes, setting.load, SPINES * setting.rate_mbps)
    elephants_per_s = per_s * (1 - sizes.share_of_flows_below(MOUSE_BYTES))
    mice_per_s = MICE_PER_S_PER_MBPS * setting.rate_mbps / 2
    parts = (
        (
            sizes.conditional(low=MOUSE_BYTES),
            elephants_per_s,
            copies if setting.replicate_below_bytes > MOUSE_BYTES else {},
        ),
        (sizes.conditional(high=MOUSE_BYTES), mice_per_s, copies),
    )
    traffic = tuple(
        PoissonFlows(drawn, each_s, max(1, round(each_s * seconds)), *ends, **own)
        for ends in _directions(topology)
        for drawn, each_s, own in parts
    )
    uplinks = tuple(port for port in topology.ports if port[0] == "s1" and port[1][0] == "s")
    measure = Measure(queues=uplinks)
    return Experiment(topology, traffic, seconds * 1.2 + SCALED_SETTLING_S, seed, measure, setting.tcp)


def probing(setting: Setting, seed: int, together: bool = False) -> Experiment:
    """Make the experiment of Fig. 3: two long flows on one of three paths, from h1 and h2 to h7 and h8 (in racks of six
    hosts). h3 probes h9 with one byte (the handshake) or with flows of 100 KB. All schemes meet the same long flows of
    a seed.

    together : route the long flows over one spine, whatever their hashes.
    """
    is_small = setting.size_bytes < 1000
    probes = int(setting.amount) // (1 if is_small else 4)
    spacing_s = 0.5e-3 if is_small else 10e-3  # one after the other, like the authors'
    lasts_s = 0.3 + probes * spacing_s + 0.1
    topology, flows = setting.leaf_spine(2), []
    for pair in [(f"h{i + 1}", f"h{i + 7}") for i in range(setting.long_flows)]:
        path = shortest_paths(topology, *pair)[0] if together else ()
        flows.append(Flow(*pair, duration_s=lasts_s, path=path))
    probe = partial(Flow, "h3", "h9", size_bytes=setting.size_bytes, label="probe", **_copies(setting))
    flows += [probe(start_s=0.3 + i * spacing_s) for i in range(probes)]
    return Experiment(topology, tuple(flows), lasts_s + SETTLING_S, seed, tcp=setting.tcp)


def paths_of_fat_tree() -> dict[str, list[tuple[str, str]]]:
    """Return the switch ports on paths from pod 1 to pod 2 and back: "1", "2", "3" have no common link; "1b", "1c" are
    paths of other hosts over the switches of path 1."""
    half, edges, paths = FAT_TREE_PODS // 2, FAT_TREE_PODS * FAT_TREE_PODS // 2, {}
    for name, path, host in (("1", 0, 0), ("2", 1, 1), ("3", 2, 2), ("1b", 0, 1), ("1c", 0, 2)):
        near, core, far = edges + path + 1, 2 * edges + path * half + 1, edges + half + path + 1
        nodes = [f"h{host + 1}", "s1", f"s{near}", f"s{core}", f"s{far}", f"s{half + 1}", f"h{half * half + host + 1}"]
        paths[name] = [*pairwise(nodes)][1:] + [*pairwise(nodes[::-1])][1:]
    return paths


def watching(setting: Setting, seed: int) -> Experiment:
    """Make the experiment of Figs 1 and 2: the fat-tree at load .3. The queues at the ports of `paths_of_fat_tree` are
    sampled ten times a second."""
    seconds, per_s = setting.amount, _flows_of_fat_tree_per_s(setting, PATHS_LOAD)
    ports = tuple(sorted({port for path in paths_of_fat_tree().values() for port in path}))
    traffic = (PoissonFlows(setting.sizes, per_s, max(1, round(per_s * seconds))),)
    measure = Measure(queues=ports, queue_interval_ms=100.0)
    return Experiment(setting.fat_tree(), traffic, seconds * 1.2, seed, measure, setting.tcp)
