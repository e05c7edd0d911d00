"""RepNet's networks and their traffic: the testbed of section 5.1, the fat-tree of section 5.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from netrepro.applications.bucket_sort.run import ReleasedSort, Sort
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import FlowSizeDistribution, load_flow_sizes
from netrepro.networks.links import DropTail, Link, SharedBuffer
from netrepro.networks.routing import shortest_paths
from netrepro.networks.topology import Topology, fat_tree, leaf_spine
from netrepro.networks.workloads import Flow, PoissonFlows, Tcp, flows_per_s_at_load
from netrepro.study import VIRTUAL
from netrepro.study.setting import parameter

SCHEMES = ("tcp", "repflow", "repsyn")
REPLICATED = SCHEMES[1:]
KB = 1024  # bytes, as in the authors' programs
MOUSE_BYTES = 100 * KB  # section 2.2
ELEPHANT_BYTES = 1_000_000
RATE_MBPS = 1000.0  # of every link of the testbed
SUBFLOWS = 8  # of MPTCP (Fig. 4); the paper does not give it, but CONGA, which it cites, has eight
SPINES = 3
# What a host offers at load 1, as a share of its rate: the script's gaps, mean KB x 940 / 1024 / 128 / load / 1000 s.
OFFERED_AT_LOAD_1 = 2**30 / 940e6
FAT_TREE_PODS, FAT_TREE_RATE_MBPS, FAT_TREE_BUFFER_PACKETS = 6, 50.0, 100
INCAST_SENDERS = 11
DCTCP_MARKS_FROM = 20  # packets at 1 Gb/s (Alizadeh et al., SIGCOMM 2010, section 4)
SETTLING_S = 8.0  # after the last arrival: covers two lost SYNs, at 3 s each
SCALED_SETTLING_S = 4.0  # with a SYN's first timeout of 1 s
CLAIMED_LOADS = (0.2, 0.4, 0.5)  # with 1:1, for the claims that need most flows
PATHS_LOAD = 0.3  # in Figs 1 and 2
SOFTWARE_MS = 6.82  # time of a TCP flow, section 5.2.2
ELEPHANT_LOADS = (0.2, 0.5)  # Fig. 15
# Of a slave's processor for a message of the authors' bucket sort. The paper does not tell it; with the second one, the
# median of a job is near the published 96 ms.
MESSAGE_MS = (0.4, 0.8)
MICE_PER_S_PER_MBPS = 1.5  # far more than the load has, because a run had too few; they add 5 % of load


# Fixed in a kernel of today: the timeout of the first SYN, and the longest delay of an acknowledgement.
OF_LINUX: dict[str, Any] = {"initial_rto_ms": 1000.0, "delayed_ack_ms": 40.0}


@dataclass(frozen=True)
class Connections:
    """TCP of Linux 2.6.38, the testbed's, and the flows' sizes.

    `link_delay_ms` is chosen for a round trip of 178 us over four links. `delayed_ack_ms` is our choice: see the
    notebook. congestion_control : of all connections; with "dctcp" switches of the testbed mark packets that find
    DCTCP_MARKS_FROM waiting.
    """

    link_delay_ms: float = 0.0215
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
    congestion_control: str = "cubic"

    @property
    def tcp(self) -> Tcp:
        """TCP of all connections."""
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

    def fat_tree(self) -> Topology:
        """Build six pods with 54 hosts, and nine paths between pods (section 5.4)."""
        queue = DropTail(packets=FAT_TREE_BUFFER_PACKETS)
        return fat_tree(FAT_TREE_PODS, Link(FAT_TREE_RATE_MBPS, self.link_delay_ms, queue))


@dataclass(frozen=True)
class Copies(Connections):
    """The choice of the connections that have a copy.

    scheme : one of SCHEMES. same_path : both connections are hashed to one path. replicate_below_bytes : of a flow,
    with bucket sort the first bytes of a stream.
    """

    scheme: str = "tcp"
    same_path: bool = False
    replicate_below_bytes: int = MOUSE_BYTES

    def copies(self, scheme: str) -> dict[str, Any]:
        """Return a scheme's own fields of Flow and PoissonFlows."""
        return {
            "replication": "" if scheme == "tcp" else scheme,
            "replicate_below_bytes": self.replicate_below_bytes,
            "replica_same_path": self.same_path,
        }


@dataclass(frozen=True)
class Racks(Copies):
    """The testbed of section 5.1. A switch port takes at most `buffer_alpha` times the free part of `buffer_kb`
    (data/repnet/SOURCES.md), or has its own `buffer_packets` where that is not 0."""

    rate_mbps: float = RATE_MBPS
    buffer_kb: int = parameter(
        4000, "memory of a switch of the testbed, which its ports share", "KB", low=2, high=1_000_000
    )
    buffer_alpha: float = parameter(0.21, "a port takes this many times what is free of it", low=0.001, high=1000)
    buffer_packets: int = 0

    @property
    def is_scaled(self) -> bool:
        """True where rates are what real kernels can carry in real time."""
        return self.rate_mbps < RATE_MBPS

    @property
    def queue(self) -> DropTail | SharedBuffer:
        """The queue of every port."""
        if self.buffer_packets:
            return DropTail(packets=self.buffer_packets)
        marks = DCTCP_MARKS_FROM if self.congestion_control == "dctcp" else None
        return SharedBuffer(bytes=self.buffer_kb * 1000, alpha=self.buffer_alpha, mark_packets=marks)

    def leaf_spine(self, oversubscription: int = 1) -> Topology:
        """Build two racks of three hosts (1:1) or six (2:1) and three spines."""
        link = Link(self.rate_mbps, self.link_delay_ms, self.queue)
        return leaf_spine(2, SPINES, SPINES * oversubscription, link, link)

    def on(self, tier: str) -> Self:
        """Return the setting with the timers of a tier: a kernel in virtual time has its own."""
        return replace(self, **OF_LINUX) if tier == VIRTUAL else self


@dataclass(frozen=True)
class Timed(Racks):
    """The testbed with mice whose times are read. `repflow_extra_ms` and `repsyn_extra_ms` are the schemes' software
    time beyond TCP's, which NFCT includes (Fig. 16)."""

    load: float = 0.5
    repflow_extra_ms: float = parameter(
        0.49, "of a mouse's software with RepFlow, beyond TCP's", "ms", low=0, high=1000
    )
    repsyn_extra_ms: float = parameter(0.32, "the same with RepSYN", "ms", low=0, high=1000)

    @property
    def extra_ms(self) -> float:
        """The time (ms) that a mouse's software takes beyond TCP's."""
        return {"repflow": self.repflow_extra_ms, "repsyn": self.repsyn_extra_ms}.get(self.scheme, 0.0)


# Figs 4, 11 to 13 and 15: all flows of the racks.


@dataclass(frozen=True)
class Setting(Timed):
    """The paper's mix of flows between two racks, without oversubscription (1:1) or with two (2:1).

    alone : all flows of a run are the scheme's, which may be "mptcp" with `subflows`; else schemes are mixed. flows,
    fewer_flows, oversubscribed_flows : of all sizes for each scheme, with 1:1 at CLAIMED_LOADS, at other loads, and
    with 2:1; flows_alone : where a run has one scheme, 0 for as many as elsewhere.
    """

    gaps: str = parameter(
        "uniform",
        "between the starts of a host's flows: .5 to 1.5 times their mean (the script), or exponential (the text)",
        one_of=("uniform", "poisson"),
    )
    oversubscription: int = 1
    alone: bool = False
    subflows: int = SUBFLOWS
    flows: int = 250
    fewer_flows: int = 150
    oversubscribed_flows: int = 200
    flows_alone: int = 0

    @property
    def count(self) -> int:
        """The number of flows of all sizes for each scheme."""
        if self.alone and self.flows_alone:
            return self.flows_alone
        if self.oversubscription > 1:
            return self.oversubscribed_flows
        return self.flows if self.load in CLAIMED_LOADS else self.fewer_flows

    def copies(self, scheme: str) -> dict[str, Any]:
        """Return a scheme's own fields of Flow."""
        if scheme == "mptcp":
            return {"subflows": self.subflows, "congestion_control": "lia"}
        return super().copies(scheme)


def is_mixed(setting: Any) -> bool:
    """Return True where the three schemes share one network, as in the authors' exp_code/2_run_time_load.py: each mouse
    takes one at random, other flows are TCP's, and the setting's scheme says whose mice are read."""
    return isinstance(setting, FatTree) or (isinstance(setting, Setting) and not setting.alone)


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment. Where the schemes are mixed it is the same for all of them; elsewhere experiments that
    differ only in the scheme are equal but for the scheme's own connections."""
    return _between_racks(setting, setting.oversubscription, setting.count, seed)


def _between_racks(setting: Setting | Incast, oversubscription: int, count: int, seed: int) -> Experiment:
    topology = setting.leaf_spine(oversubscription)
    offered_mbps = 2 * SPINES * setting.rate_mbps * OFFERED_AT_LOAD_1
    per_s = flows_per_s_at_load(setting.sizes, setting.load, offered_mbps)
    others = {host: far for near, far in _directions(topology) for host in near}
    return _of_hosts(setting, topology, others, per_s, count, seed)


def _of_hosts(
    setting: Setting | Incast | FatTree,
    topology: Topology,
    others: Mapping[str, Sequence[str]],
    per_s: float,
    count: int,
    seed: int,
) -> Experiment:
    """Make the experiment in which hosts send to their `others` as in the authors' exp_code/2_run_time_load.py: `per_s`
    flows, `count` for each scheme. The label is the scheme of a mouse."""
    mixed, gap_s, kinds = is_mixed(setting), len(others) / per_s, setting.sizes
    of_a_host = max(1, round(count * (len(SCHEMES) if mixed else 1) / len(others)))
    copies, traffic = {name: setting.copies(name) for name in {*SCHEMES, setting.scheme}}, []
    for place, (source, ends) in enumerate(others.items()):
        # A random stream for each purpose: other gaps leave sizes, destinations and schemes as they were.
        gaps, sizes, choices, draws = (np.random.default_rng([seed, place, purpose]) for purpose in range(4))
        drawn = gaps.uniform(0.5, 1.5, of_a_host) if setting.gaps == "uniform" else gaps.exponential(size=of_a_host)
        size_bytes = np.maximum(1, np.ceil(kinds.sample(sizes, of_a_host)))
        destination, scheme = choices.integers(len(ends), size=of_a_host), draws.integers(len(SCHEMES), size=of_a_host)
        for start_s, size, end, draw in zip(np.cumsum(drawn) * gap_s, size_bytes, destination, scheme, strict=True):
            is_mouse = size <= MOUSE_BYTES
            name = setting.scheme if not mixed else SCHEMES[draw] if is_mouse else "tcp"
            own: dict[str, Any] = {"label": name if is_mouse else "", **copies[name]}
            traffic.append(Flow(source, ends[end], size_bytes=int(size), start_s=float(start_s), **own))
    # Gaps are random: the last flow may come a little later than on average.
    latest_s = max(of_a_host * gap_s * 1.2, max(flow.start_s for flow in traffic))
    return Experiment(topology, tuple(traffic), latest_s + SETTLING_S, seed, tcp=setting.tcp)


def _directions(topology: Topology) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    half = len(topology.hosts) // 2
    left, right = topology.hosts[:half], topology.hosts[half:]
    return (left, right), (right, left)


# Fig. 18.


@dataclass(frozen=True)
class FatTree(Copies):
    """The emulated fat-tree of section 5.4; schemes are mixed.

    controller_ms : how long a controller, which serves one packet after the other, takes for the first packet of a
    connection, each way (section 5.4.3). fat_tree_flows : of all sizes for each scheme.
    """

    extra_ms: ClassVar[float] = 0.0  # the authors used another program there
    load: float = 0.5
    gaps: str = "uniform"
    controller_ms: float = 0.0
    fat_tree_flows: int = 120


def fat_tree_experiment(setting: FatTree, _: float, seed: int) -> Experiment:
    """Make the experiment, which is the same for all schemes."""
    topology = setting.fat_tree()
    others = {host: tuple(each for each in topology.hosts if each != host) for host in topology.hosts}
    per_s = _flows_of_fat_tree_per_s(setting, setting.load)
    plain = _of_hosts(setting, topology, others, per_s, setting.fat_tree_flows, seed)
    if not setting.controller_ms:
        return plain
    flows = [flow for flow in plain.traffic if isinstance(flow, Flow)]
    starts_s = np.array([flow.start_s for flow in flows]) + controller_s(flows, setting)
    traffic = tuple(replace(flow, start_s=float(at_s)) for flow, at_s in zip(flows, starts_s, strict=True))
    return replace(plain, traffic=traffic, duration_s=max(plain.duration_s, float(starts_s.max()) + SETTLING_S))


def controller_s(traffic: Sequence[Flow], setting: FatTree) -> np.ndarray:
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


def _flows_of_fat_tree_per_s(setting: Connections, load: float) -> float:
    return flows_per_s_at_load(setting.sizes, load, FAT_TREE_PODS**3 // 4 * FAT_TREE_RATE_MBPS)


# Fig. 14.


@dataclass(frozen=True)
class Incast(Timed):
    """Incast with 2:1: with every mouse, more of the same size go to the same host, from other hosts.

    incast_senders : hosts that send at once. bursts : of mice. left_to_simulator : where a kernel takes too long.
    """

    gaps: str = "uniform"
    incast_senders: int = INCAST_SENDERS
    bursts: int = 110
    left_to_simulator: bool = False


def incast_experiment(setting: Incast, seed: int) -> Experiment:
    """Make the experiment of section 5.2.4."""
    share = setting.sizes.share_of_flows_below(MOUSE_BYTES)
    base = _between_racks(setting, 2, max(2, round(setting.bursts / share)), seed)
    copies, traffic = setting.copies(setting.scheme), []
    for row in base.flow_table.itertuples():
        size_bytes, start_s = int(row.size_bytes), float(row.start_s)
        senders = [row.source]
        if size_bytes <= MOUSE_BYTES:
            senders = [host for host in base.topology.hosts if host != row.destination][: setting.incast_senders]
        traffic += [Flow(host, row.destination, size_bytes=size_bytes, start_s=start_s, **copies) for host in senders]
    return replace(base, traffic=tuple(traffic))


# Figs 11, 12 and 15 as kernels run them.


@dataclass(frozen=True)
class MoreMice(Timed):
    """The racks with elephants at the setting's load and additional mice, for `lasts_s`."""

    oversubscription: int = 1
    lasts_s: float = 5.0


# For real kernels: a fiftieth of the rate, so that all takes fifty times as long, except the propagation (none) and
# kernels' fixed TCP timers. Their ports share no memory, and the library's own software runs.
SCALED: dict[str, Any] = {
    "rate_mbps": 20.0,
    "link_delay_ms": 0.0,
    "buffer_packets": 425,
    "min_rto_ms": 200.0,
    **OF_LINUX,
}


def with_more_mice(setting: MoreMice, seed: int) -> Experiment:
    """Make the experiment, which lasts as long as the setting says, and until the last flow can end."""
    topology = setting.leaf_spine(setting.oversubscription)
    sizes, seconds, copies = setting.sizes, setting.lasts_s, setting.copies(setting.scheme)
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


# Fig. 3.


@dataclass(frozen=True)
class Probes(Racks):
    """Two long flows on one of three paths, which probes meet or not.

    size_bytes : of a probe. long_flows : their number. probes : handshakes, and four times as many as flows of 100 KB.
    """

    size_bytes: int = 1
    long_flows: int = 2
    probes: int = 300


def probing(setting: Probes, seed: int, together: bool = False) -> Experiment:
    """Make the experiment of Fig. 3: two long flows on one of three paths, from h1 and h2 to h7 and h8 (in racks of six
    hosts). h3 probes h9 with one byte (the handshake) or with flows of 100 KB. All schemes meet the same long flows of
    a seed.

    together : route the long flows over one spine, whatever their hashes.
    """
    is_small = setting.size_bytes < 1000
    probes = setting.probes // (1 if is_small else 4)
    spacing_s = 0.5e-3 if is_small else 10e-3  # one after the other, like the authors'
    lasts_s = 0.3 + probes * spacing_s + 0.1
    topology, flows = setting.leaf_spine(2), []
    for pair in [(f"h{i + 1}", f"h{i + 7}") for i in range(setting.long_flows)]:
        path = shortest_paths(topology, *pair)[0] if together else ()
        flows.append(Flow(*pair, duration_s=lasts_s, path=path))
    probe = partial(Flow, "h3", "h9", size_bytes=setting.size_bytes, label="probe", **setting.copies(setting.scheme))
    flows += [probe(start_s=0.3 + i * spacing_s) for i in range(probes)]
    return Experiment(topology, tuple(flows), lasts_s + SETTLING_S, seed, tcp=setting.tcp)


# Figs 1 and 2.


@dataclass(frozen=True)
class Paths(Connections):
    """The fat-tree at load .3, all flows TCP, watched for `watched_s`."""

    watched_s: float = 6.0


def paths_of_fat_tree() -> dict[str, list[tuple[str, str]]]:
    """Return the switch ports on paths from pod 1 to pod 2 and back: "1", "2", "3" have no common link; "1b", "1c" are
    paths of other hosts over the switches of path 1."""
    half, edges, paths = FAT_TREE_PODS // 2, FAT_TREE_PODS * FAT_TREE_PODS // 2, {}
    for name, path, host in (("1", 0, 0), ("2", 1, 1), ("3", 2, 2), ("1b", 0, 1), ("1c", 0, 2)):
        near, core, far = edges + path + 1, 2 * edges + path * half + 1, edges + half + path + 1
        nodes = [f"h{host + 1}", "s1", f"s{near}", f"s{core}", f"s{far}", f"s{half + 1}", f"h{half * half + host + 1}"]
        paths[name] = [*pairwise(nodes)][1:] + [*pairwise(nodes[::-1])][1:]
    return paths


def watching(setting: Paths, _: float, seed: int) -> Experiment:
    """Make the experiment of Figs 1 and 2: the fat-tree at load .3. The queues at the ports of `paths_of_fat_tree` are
    sampled ten times a second."""
    seconds, per_s = setting.watched_s, _flows_of_fat_tree_per_s(setting, PATHS_LOAD)
    ports = tuple(sorted({port for path in paths_of_fat_tree().values() for port in path}))
    traffic = (PoissonFlows(setting.sizes, per_s, max(1, round(per_s * seconds))),)
    measure = Measure(queues=ports, queue_interval_ms=100.0)
    return Experiment(setting.fat_tree(), traffic, seconds * 1.2, seed, measure, setting.tcp)


# Fig. 16.


@dataclass(frozen=True)
class Loopback:
    """Real flows over the loopback. loopback_flows : of each scheme."""

    loopback_flows: int = 80


# Fig. 17.


@dataclass(frozen=True)
class Sorting(Racks):
    """Bucket sort as in section 5.3 (data/repnet/SOURCES.md).

    numbers : length of an array. starts_within_s : masters start in this time. scan_ms, range_ms : processor time of a
    master and of a slave. rest_ms : mean pause between a master's jobs. one_master : no other host begins jobs. jobs :
    of a master, times `more_jobs`; on real kernels as many as begin in `sort_s`. left_to_simulator : where a kernel
    takes too long.
    """

    numbers: int = 1_000_000
    starts_within_s: float = 0.01
    scan_ms: float = 76.0
    range_ms: float = 2.0
    rest_ms: float = 50.0
    one_master: bool = False
    jobs: int = 2
    more_jobs: int = 1
    sort_s: float = 5.0
    left_to_simulator: bool = False

    @property
    def sort(self) -> Sort:
        """The application and its network."""
        seconds = (self.scan_ms / 1e3, self.range_ms / 1e3, self.rest_ms / 1e3)
        own = (self.scheme, self.numbers, self.replicate_below_bytes, self.starts_within_s, *seconds)
        return Sort(self.leaf_spine(2), self.tcp, *own, self.same_path, self.one_master)


@dataclass(frozen=True)
class ReleasedSorting(Racks):
    """Bucket sort as the authors' program sends it: a connection for each message, some 85 for each of six slaves
    (data/repnet/SOURCES.md, Artefacts).

    message_ms : a slave's processor time for a message, of which its second connection takes none. released_jobs : of a
    master.
    """

    message_ms: float = 0.8
    released_jobs: int = 1

    @property
    def sort(self) -> ReleasedSort:
        """The program and its network."""
        return ReleasedSort(self.leaf_spine(2), self.tcp, self.scheme, self.message_ms / 1e3)


# On real kernels: a five-hundredth of the rate and a hundredth of the numbers, which two cores can sort in time, so
# that all takes five times as long.
SORTED = SCALED | {
    "rate_mbps": 2.0,
    "buffer_packets": 50,
    "numbers": 10_000,
    "replicate_below_bytes": MOUSE_BYTES // 100,
    "starts_within_s": 0.05,
    **{name: 5 * getattr(Sorting, name) for name in ("scan_ms", "range_ms", "rest_ms")},
}
