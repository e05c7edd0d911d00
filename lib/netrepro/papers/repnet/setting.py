"""RepNet's networks, and what is sent over them: the testbed of section 5.1, the fat-tree of section 5.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from netrepro.applications.bucket_sort.run import Sort
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import FlowSizeDistribution, load_flow_sizes
from netrepro.networks.links import DropTail, Link, SharedBuffer
from netrepro.networks.routing import shortest_paths
from netrepro.networks.topology import Topology, fat_tree, leaf_spine
from netrepro.networks.workloads import Flow, PoissonFlows, Tcp, flows_per_s_at_load
from netrepro.study.setting import setting

SCHEMES = ("tcp", "repflow", "repsyn")
REPLICATED = SCHEMES[1:]
MOUSE_BYTES = 100_000  # section 2.2
ELEPHANT_BYTES = 1_000_000
SUBFLOWS = 8  # of MPTCP (Fig. 4); the paper does not say how many, CONGA, which it cites, has eight
SPINES = 3
FAT_TREE_PODS, FAT_TREE_RATE_MBPS, FAT_TREE_BUFFER_PACKETS = 6, 50.0, 100
INCAST_SENDERS = 11
SETTLING_S = 8.0  # after the last arrival: two SYNs may be lost, at 3 s each
SCALED_SETTLING_S = 4.0  # there a SYN's first timeout is 1 s
CLAIMED_LOADS = (0.2, 0.4, 0.5)  # with 1:1, of the claims that need most flows
PATHS_LOAD = 0.3  # of Figs 1 and 2
SOFTWARE_MS = 6.82  # of a TCP flow, section 5.2.2
ELEPHANT_LOADS = (0.2, 0.5)  # Fig. 15
MICE_PER_S_PER_MBPS = 1.5  # many more than the load has, or a run had too few; they add 5 % of load


@dataclass(frozen=True)
class Size:
    """The amount of work in runs of a profile.

    amounts : by network, flows of all sizes; of incast, bursts; of the probes of Fig. 3 handshakes, and a quarter as
    many flows of 100 KB; of the loopback, flows a scheme; of bucket sort, jobs a master; of the others, seconds.
    fewer_flows : with 1:1 at other loads than CLAIMED_LOADS. loads : by network, those that are run. virtual : the
    networks that a kernel in virtual time runs.
    """

    amounts: Mapping[str, float]
    fewer_flows: int
    loads: dict[str, tuple[float, ...]]
    virtual: tuple[str, ...] = ()


QUICK = Size(
    {"1:1": 1000, "2:1": 1000, "incast": 560, "fat-tree": 120, "probes": 1000, "loopback": 80, "sort": 3}
    | {"paths": 12.0, "scaled": 5.0, "kernel sort": 5.0},
    1000,
    {"1:1": (0.1, 0.2, 0.5), "2:1": (0.2, 0.5), "fat-tree": (0.1, 0.8)},
)
# With five repetitions 200,000 flows a scheme with 1:1, as the authors had.
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
# A kernel's packets cost a hundred times what the simulator's do.
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
SIZES = {"quick": QUICK, "paper": PAPER, "paper's knob": replace(PAPER, amounts={"1:1": 5000}), "test": TEST}
SIZES |= {"virtual quick": VIRTUAL_QUICK, "virtual paper": VIRTUAL_PAPER, "virtual test": VIRTUAL_TEST}


@dataclass(frozen=True)
class Setting:
    """The testbed of section 5.1, the fat-tree of section 5.4, and which of them is run with what.

    `link_delay_ms` makes up the round trip of 178 us over four links. A port of a switch takes `buffer_alpha` times
    what is free of `buffer_kb` (data/repnet/SOURCES.md), or has `buffer_packets` of its own where that is not 0.
    `delayed_ack_ms` is our choice: see the notebook. `repflow_extra_ms` and `repsyn_extra_ms` are the schemes' software
    beyond TCP's, which NFCT has (Fig. 16).

    network : "1:1", "2:1" (leaf-spine), "incast" (2:1, every mouse comes from eleven hosts at once), "fat-tree",
    "scaled" (1:1 as real kernels can run it), "full-rate" and "full-rate-2:1" (the same at the testbed's own rate, as a
    kernel in virtual time can); "probes" (Fig. 3), "paths" (Figs 1 and 2), "loopback" (Fig. 16), "sort"
    (Fig. 17), "kernel sort". scheme : of SCHEMES, or "mptcp" for all flows over so many subflows. size : in SIZES.
    same_path : both connections are hashed to one path. long_flows : of Fig. 3, on one path. Of bucket sort
    (data/repnet/SOURCES.md): numbers of an array; starts_within_s, in which masters start; scan_ms and range_ms of
    processor time, of a master and a slave; rest_ms between a master's jobs, on the mean; one_master, no other
    host begins jobs; more_jobs, so many times as many.
    """

    rate_mbps: float = 1000.0
    link_delay_ms: float = 0.0215
    buffer_kb: int = setting(
        4000, "memory of a switch of the testbed, which its ports share", "KB", low=2, high=1_000_000
    )
    buffer_alpha: float = setting(0.21, "a port takes this many times what is free of it", low=0.001, high=1000)
    buffer_packets: int = 0
    initial_window_segments: int = setting(3, "of every connection", "segments", low=1, high=1000)
    min_rto_ms: float = setting(10.0, "least retransmission timeout", "ms", low=0.1, high=60_000)
    initial_rto_ms: float = setting(3000.0, "timeout of the first SYN; kernels have 1000", "ms", low=0.1, high=60_000)
    delayed_ack_ms: float = setting(
        5.0,
        "how long a lone segment waits for its acknowledgement, 0 for not at all; kernels have 40",
        "ms",
        low=0,
        high=1000,
    )
    repflow_extra_ms: float = setting(0.49, "of a mouse's software with RepFlow, beyond TCP's", "ms", low=0, high=1000)
    repsyn_extra_ms: float = setting(0.32, "the same with RepSYN", "ms", low=0, high=1000)
    network: str = "1:1"
    scheme: str = "tcp"
    load: float = 0.5
    size: str = "quick"
    same_path: bool = False
    replicate_below_bytes: int = MOUSE_BYTES
    subflows: int = SUBFLOWS
    size_bytes: int = 1
    long_flows: int = 2
    numbers: int = 1_000_000
    starts_within_s: float = 0.01
    scan_ms: float = 76.0
    range_ms: float = 2.0
    rest_ms: float = 50.0
    one_master: bool = False
    more_jobs: float = 1.0

    @property
    def tcp(self) -> Tcp:
        """Linux 2.6.38 as the testbed had it."""
        return Tcp(
            "cubic",
            initial_window_segments=self.initial_window_segments,
            min_rto_ms=self.min_rto_ms,
            initial_rto_ms=self.initial_rto_ms,
            syn_linear_timeouts=0,
            delayed_ack_ms=self.delayed_ack_ms,
            tail_loss_probe=False,  # came later
        )

    @property
    def sizes(self) -> FlowSizeDistribution:
        """The sizes of all flows, in bytes."""
        return load_flow_sizes("web_search_authors").in_bytes()

    @property
    def queue(self) -> DropTail | SharedBuffer:
        """The queue of every port of the testbed's switches."""
        if self.buffer_packets:
            return DropTail(packets=self.buffer_packets)
        return SharedBuffer(bytes=self.buffer_kb * 1000, alpha=self.buffer_alpha)

    @property
    def extra_ms(self) -> float:
        """The time that a mouse's software takes beyond TCP's; none in the authors' fat-tree, which was another
        program."""
        extras = {"repflow": self.repflow_extra_ms, "repsyn": self.repsyn_extra_ms}
        return 0.0 if self.network == "fat-tree" else extras.get(self.scheme, 0.0)

    @property
    def amount(self) -> float:
        """The amount of work in a run, as `Size` defines it."""
        fewer = self.network == "1:1" and self.load not in CLAIMED_LOADS
        return SIZES[self.size].fewer_flows if fewer else SIZES[self.size].amounts[self.network]

    @property
    def is_run(self) -> bool:
        """True where its size has this load."""
        return self.load in SIZES[self.size].loads.get(self.network, (self.load,))

    def leaf_spine(self, oversubscription: int = 1) -> Topology:
        """Build two racks of three hosts (1:1) or six (2:1) behind three spines."""
        link = Link(self.rate_mbps, self.link_delay_ms, self.queue)
        return leaf_spine(2, SPINES, SPINES * oversubscription, link, link)

    def fat_tree(self) -> Topology:
        """Build six pods with 54 hosts, and nine paths between pods."""
        queue = DropTail(packets=FAT_TREE_BUFFER_PACKETS)
        return fat_tree(FAT_TREE_PODS, Link(FAT_TREE_RATE_MBPS, self.link_delay_ms, queue))

    @property
    def sort(self) -> Sort:
        """Bucket sort as section 5.3 has it."""
        seconds = (self.scan_ms / 1e3, self.range_ms / 1e3, self.rest_ms / 1e3)
        own = (self.scheme, self.numbers, self.replicate_below_bytes, self.starts_within_s, *seconds)
        return Sort(self.leaf_spine(2), self.tcp, *own, self.same_path, self.one_master)


PRINTED = Setting()
# For real kernels: a fiftieth of the rate, so that all takes fifty times as long, but the propagation (none) and what
# kernels fix, TCP's timers. Their ports share no memory, and the software is the library's own.
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
# What a kernel of today fixes: the timeout of the first SYN, and how long it may hold an acknowledgement back.
OF_LINUX: dict[str, Any] = {"initial_rto_ms": 1000.0, "delayed_ack_ms": 40.0}
# The testbed as a kernel in virtual time runs it. In the simulator acknowledgements wait as elsewhere: the kernel's do
# not at the start of a connection, which the simulator's would.
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
    """Make the experiment that every tier runs in a network of flows. Where only the scheme differs, it is equal but
    for the scheme's own connections.

    flows : all of them, with "incast" bursts; by default as many as the setting's size has.
    """
    if setting.network in ("scaled", "full-rate", "full-rate-2:1"):
        return _with_more_mice(setting, seed)
    flows = int(setting.amount) if flows is None else flows
    if setting.network == "incast":
        return _incast(setting, flows, seed)
    sizes, copies = setting.sizes, _copies(setting)
    if setting.network == "fat-tree":
        topology, per_s = setting.fat_tree(), _flows_of_fat_tree_per_s(setting, setting.load)
        traffic = [PoissonFlows(sizes, per_s, flows, **copies)]
        lasts_s = flows / per_s
    else:
        topology = setting.leaf_spine(int(setting.network[0]))
        per_s = flows_per_s_at_load(sizes, setting.load, SPINES * setting.rate_mbps)
        traffic = [PoissonFlows(sizes, per_s, flows // 2, *ends, **copies) for ends in _directions(topology)]
        lasts_s = flows / 2 / per_s
    # Arrivals are random: the last may come a little later than on average.
    return Experiment(topology, tuple(traffic), lasts_s * 1.2 + SETTLING_S, seed, tcp=setting.tcp)


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
    """Make the experiment of section 5.2.4: with every mouse, ten more of the same size go to the same host, from the
    other hosts."""
    plain, share = replace(setting, network="2:1", scheme="tcp"), setting.sizes.share_of_flows_below(MOUSE_BYTES)
    base, copies = experiment(plain, seed, max(2, round(bursts / share))), _copies(setting)
    traffic = []
    for row in base.flow_table.itertuples():
        size_bytes, start_s = int(row.size_bytes), float(row.start_s)
        senders = [row.source]
        if size_bytes <= MOUSE_BYTES:
            senders = [host for host in base.topology.hosts if host != row.destination][:INCAST_SENDERS]
        traffic += [Flow(host, row.destination, size_bytes=size_bytes, start_s=start_s, **copies) for host in senders]
    return replace(base, traffic=tuple(traffic))


def _with_more_mice(setting: Setting, seed: int) -> Experiment:
    """Make the experiment on the leaf-spine with elephants at the setting's load, and more mice beside them, for as
    long as its size says."""
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
    """Make the experiment of Fig. 3: two long flows on one of three paths, from h1 and h2 to h7 and h8 (of the six and
    six hosts); h3 probes h9 by one byte (the handshake) or by flows of 100 KB. All schemes of a seed meet the same long
    flows.

    together : the long flows are led over one spine, whatever the hashes say.
    """
    is_small = setting.size_bytes < 1000
    probes = int(setting.amount) // (1 if is_small else 4)
    spacing_s = 0.5e-3 if is_small else 10e-3  # one after the other, as the authors'
    lasts_s = 0.3 + probes * spacing_s + 0.1
    topology, flows = setting.leaf_spine(2), []
    for pair in [(f"h{i + 1}", f"h{i + 7}") for i in range(setting.long_flows)]:
        path = shortest_paths(topology, *pair)[0] if together else ()
        flows.append(Flow(*pair, duration_s=lasts_s, path=path))
    probe = partial(Flow, "h3", "h9", size_bytes=setting.size_bytes, label="probe", **_copies(setting))
    flows += [probe(start_s=0.3 + i * spacing_s) for i in range(probes)]
    return Experiment(topology, tuple(flows), lasts_s + SETTLING_S, seed, tcp=setting.tcp)


def paths_of_fat_tree() -> dict[str, list[tuple[str, str]]]:
    """Return ports of switches on paths from pod 1 to pod 2 and back: "1", "2", "3" without a common link; "1b", "1c",
    of other hosts over the switches of path 1."""
    half, edges, paths = FAT_TREE_PODS // 2, FAT_TREE_PODS * FAT_TREE_PODS // 2, {}
    for name, path, host in (("1", 0, 0), ("2", 1, 1), ("3", 2, 2), ("1b", 0, 1), ("1c", 0, 2)):
        near, core, far = edges + path + 1, 2 * edges + path * half + 1, edges + half + path + 1
        nodes = [f"h{host + 1}", "s1", f"s{near}", f"s{core}", f"s{far}", f"s{half + 1}", f"h{half * half + host + 1}"]
        paths[name] = [*pairwise(nodes)][1:] + [*pairwise(nodes[::-1])][1:]
    return paths


def watching(setting: Setting, seed: int) -> Experiment:
    """Make the experiment of Figs 1 and 2: the fat-tree at load .3, and ten times a second what waits at the ports of
    `paths_of_fat_tree`."""
    seconds, per_s = setting.amount, _flows_of_fat_tree_per_s(setting, PATHS_LOAD)
    ports = tuple(sorted({port for path in paths_of_fat_tree().values() for port in path}))
    traffic = (PoissonFlows(setting.sizes, per_s, max(1, round(per_s * seconds))),)
    measure = Measure(queues=ports, queue_interval_ms=100.0)
    return Experiment(setting.fat_tree(), traffic, seconds * 1.2, seed, measure, setting.tcp)
