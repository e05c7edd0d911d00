"""An experiment (network, traffic, what to measure), and the measurements that every tier returns."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.files import write_atomically
from netrepro.networks import description
from netrepro.networks.checks import Check, check_table
from netrepro.networks.compiled import ETHERNET_HEADER_BYTES, header_bytes, within_mtu
from netrepro.networks.description import (
    WHOLE,
    CountFromZero,
    NotNegative,
    Positive,
    as_tuple,
    check_numbers,
    described,
)
from netrepro.networks.html import experiment_html
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.networks.qlog import qlog_files
from netrepro.networks.rcp import Rcp
from netrepro.networks.routing import LinkChange, Routing, check_path
from netrepro.networks.tables import (
    ACKNOWLEDGEMENT_COLUMNS,
    DELIVERY_COLUMNS,
    FLOW_COLUMNS,
    FLOW_TABLE_COLUMNS,
    HOST_COLUMNS,
    REQUEST_COLUMNS,
    FlowRow,
    one_table,
)
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Datagrams, Flow, PoissonFlows, Requests, Tcp, Traffic, own_tcp
from netrepro.networks.xcp import Xcp

Port = tuple[str, str]

MOST_HOST_DELAY_MS = 1e9  # as a link's delay
IPV6_DATAGRAM_HEADER_BYTES = 62  # Ethernet 14, IPv6 40, UDP 8
MOST_SAMPLES = 10_000_000  # of a queue or a window, and packets of a port


def _is_port(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(node, str) for node in given)


@described
@dataclass(frozen=True)
class Measure:
    """The records to take in addition to flows and link totals. A port is a pair of nodes, (from, to).

    `queues`: ports whose queue is sampled every `queue_interval_ms`; with 0, when a packet joins it, leaves it or is
    dropped (tier "virtual" only; these times are not evenly spaced). `windows_interval_ms`: time between samples of
    every TCP flow's window, None for no samples. `packets`: ports whose every packet is recorded as its last bit
    leaves. A queue or a window may have at most ten million samples, and a port as many packets.

    `deliveries`: numbers of TCP flows (of the flow table) for which is recorded when how many bytes have arrived (tiers
    "simulated" and "virtual"). The virtual kernel also records what the source has heard of it.

    `since_s`: what happens before does not count, so that a run can settle. It is left out of totals of links and
    utilisation, and of a flow's bytes, goodput, retransmissions and timeouts; a flow that was complete before has no
    goodput. Samples and recorded packets begin then. Completion times, deliveries and requests are not affected.
    """

    queues: tuple[Port, ...] = ()
    queue_interval_ms: NotNegative = 10.0
    windows_interval_ms: Positive | None = None
    packets: tuple[Port, ...] = ()
    deliveries: tuple[int, ...] = ()
    since_s: NotNegative = 0.0

    def __post_init__(self) -> None:
        for name in ("queues", "packets"):
            object.__setattr__(self, name, self._ports(name))
        flows = as_tuple(self.deliveries)
        if not all(isinstance(flow, WHOLE) and not isinstance(flow, bool) and flow >= 0 for flow in flows):
            raise NetreproError(f"Measure: deliveries = {self.deliveries!r}", "give numbers of flows: deliveries=[0]")
        object.__setattr__(self, "deliveries", tuple(dict.fromkeys(map(int, flows))))
        check_numbers(self)

    def _ports(self, name: str) -> tuple[Port, ...]:
        """Return the ports of a field; a single pair is a list of one."""
        given = getattr(self, name)
        if _is_port(given):
            return (tuple(given),)
        ports = as_tuple(given)
        if not all(map(_is_port, ports)):
            raise NetreproError(f"Measure: {name} = {given!r}", f'give pairs of nodes: {name}=[("s1", "s2")]')
        return tuple(tuple(port) for port in ports)

    def check_sampled(self) -> None:
        """Raise NetreproError for queues recorded at every change, which only the virtual kernel can do."""
        if self.queues and self.queue_interval_ms == 0:
            raise NetreproError(
                "every change of a queue (queue_interval_ms = 0), which only tier 'virtual' tells",
                "give queue_interval_ms, or use tier 'virtual'",
            )


def longest_host_delay_ms(topology: Topology, packets: float, packet_bytes: int = FULL_PACKET_BYTES) -> float:
    """Return the longest time that a host takes for a packet: `packets` packet times at the slowest link."""
    slowest_mbps = min(link.rate_mbps for link in topology.ports.values())
    return min(packets * packet_bytes * 8e-3 / slowest_mbps, MOST_HOST_DELAY_MS)


@described
@dataclass(frozen=True)
class Experiment:
    """An experiment: `traffic` over `topology` for `duration_s`. A single entry of traffic or `changes` needs no list.

    Experiments with equal fields are equal, have equal hashes, and give equal JSON.

    `routing` is a Routing or the name of its scheme; by default each flow takes a shortest path, chosen among equals
    by a hash (ECMP). `changes` happen to the network during the experiment. `rcp` and `xcp` say what links compute
    for flows with RCP and XCP, where there are any. Everything random comes from `seed`.

    `host_delay_packets`: a host delays each packet that it sends or forwards by a random time. This time is uniform
    from 0 to that of so many full packets (the largest of the traffic) at the network's slowest link
    (`host_delay_ms`). Packets keep their order. With 1, phase effects disappear, such as drops that always hit the same
    flow (Floyd and Jacobson 1992, "On traffic phase effects in packet-switched gateways"). The longest delay is the
    same for all hosts, so that no flow is treated differently. The virtual kernel draws delays from a bell-shaped
    distribution of the same mean and deviation. In real time hosts are real, and nothing is added. None leaves the
    choice to the caller: `simulate` and `emulate` add no delay, the studies of papers take 1 where several flows run.

    `clock_skew_ppm`: in virtual time every link's rate is off by a factor drawn evenly from 1 +- this many parts per
    million. With 0 all clocks are identical, as on no real network, and one flow may lock another out of a queue. In
    real time clocks have their own skew, and this is ignored.

    `ipv6`: all traffic goes over IPv6, whose header is 20 bytes longer: full segments of an Ethernet carry 1428 bytes.
    Datagrams keep the size that they give.

    Raises NetreproError for traffic between unknown hosts, traffic or changes that come after the end, unknown ports,
    and a path between nodes without a cable. Warns of a flow that lasts beyond the end. When it runs, it also warns of
    PoissonFlows that start after the end: `fidelity` says how many flows these are, and they have no goodput.
    """

    topology: Topology
    traffic: tuple[Traffic, ...]
    duration_s: Positive
    seed: CountFromZero = 1
    measure: Measure = field(default_factory=Measure)
    tcp: Tcp = field(default_factory=Tcp)
    routing: Routing = field(default_factory=Routing)
    changes: tuple[LinkChange, ...] = ()
    rcp: Rcp = field(default_factory=Rcp)
    host_delay_packets: NotNegative | None = None
    ipv6: bool = False
    clock_skew_ppm: NotNegative = 100.0
    xcp: Xcp = field(default_factory=Xcp)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traffic", as_tuple(self.traffic))
        check_numbers(self)
        if self.clock_skew_ppm >= 1e6:
            raise NetreproError(
                f"Experiment: clock_skew_ppm = {self.clock_skew_ppm:g}", "give parts per million, 0 to below 1,000,000"
            )
        for name, kind in (("topology", Topology), ("measure", Measure), ("tcp", Tcp), ("rcp", Rcp), ("xcp", Xcp)):
            if not isinstance(getattr(self, name), kind):
                raise NetreproError(f"Experiment: {name} = {getattr(self, name)!r}", f"give a {kind.__name__}")
        self._check_samples()
        for entry in self.traffic:
            self._check_entry(entry)
        self._warn_of_what_is_cut_off()
        self._check_what_counts()
        for port in (*self.measure.queues, *self.measure.packets):
            self.topology.link(*port)
        self._check_routing()

    def _repr_html_(self) -> str:
        return experiment_html(self)

    def _check_samples(self) -> None:
        """Raise NetreproError for samples so frequent that they fill the memory before anybody sees one."""
        look = self.measure
        intervals = {"queue_interval_ms": look.queue_interval_ms if look.queues else None}
        for name, interval_ms in (intervals | {"windows_interval_ms": look.windows_interval_ms}).items():
            if interval_ms and self.duration_s * 1e3 / interval_ms > MOST_SAMPLES:
                raise NetreproError(
                    f"Measure: {name} = {interval_ms:g} over {self.duration_s:g} s is {MOST_SAMPLES:,} samples or more",
                    f"give {self.duration_s * 1e3 / MOST_SAMPLES:g} or more",
                )

    def _check_what_counts(self) -> None:
        """Raise NetreproError for a run without any time that counts, and for deliveries of what is no TCP flow."""
        look = self.measure
        if look.since_s >= self.duration_s:
            raise NetreproError(
                f"Measure: since_s = {look.since_s:g} in an experiment of {self.duration_s:g} s",
                "let the experiment last longer",
            )
        transport = self.flow_table["transport"].tolist() if look.deliveries else []
        for flow in look.deliveries:
            if flow >= len(transport) or transport[flow] != "tcp":
                raise NetreproError(
                    f"Measure: deliveries of {flow}, which is no TCP flow of this experiment",
                    f"there are {len(transport)} flows, from 0 on",
                )

    def _check_routing(self) -> None:
        if not isinstance(self.routing, Routing):
            object.__setattr__(self, "routing", Routing(self.routing))
        if self.routing.root and self.routing.root not in self.topology.switches:
            raise NetreproError(
                f"{self.topology.name}: no switch {self.routing.root!r} to be a root",
                nearest(self.routing.root, self.topology.switches),
            )
        for at_s, ports in self.routing.over:
            for port in ports:
                self.topology.link(*port)
            if at_s >= self.duration_s:
                raise NetreproError(
                    f"other routes at {at_s:g} s in an experiment of {self.duration_s:g} s", "let it last longer"
                )
        object.__setattr__(self, "changes", as_tuple(self.changes))
        for change in self.changes:
            if not isinstance(change, LinkChange):
                raise NetreproError(f"a change {change!r}", "give LinkChange")
            self.topology.link(change.source, change.destination)
            if change.at_s >= self.duration_s:
                raise NetreproError(
                    f"a change at {change.at_s:g} s in an experiment of {self.duration_s:g} s",
                    "let it happen earlier or the experiment last longer",
                )

    def _check_entry(self, entry: Any) -> None:
        if not isinstance(entry, Traffic):
            raise NetreproError(f"traffic {entry!r}", "give Flow, Datagrams, PoissonFlows or Requests")
        match entry:
            case PoissonFlows():
                ends = (*entry.sources, *entry.destinations)
            case Requests():
                ends = (entry.client, *entry.servers)
            case _:
                ends = (entry.source, entry.destination)
        for host in ends:
            self.topology.check_host(host)
        if self.ipv6 and isinstance(entry, Datagrams) and entry.packet_bytes < IPV6_DATAGRAM_HEADER_BYTES:
            raise NetreproError(
                f"Datagrams of {entry.packet_bytes} bytes over IPv6", f"give {IPV6_DATAGRAM_HEADER_BYTES} or more"
            )
        if isinstance(entry, Flow):
            for path in (*((entry.path,) if entry.path else ()), *entry.subflow_paths):
                check_path(self.topology, path, entry.source, entry.destination)
        lone = isinstance(entry, Datagrams) or (
            isinstance(entry, (Flow, PoissonFlows)) and entry.subflows == 1 and not entry.replication
        )
        tcp = self.tcp_of(entry)
        if tcp.receiver is not None and not lone:
            raise NetreproError(f"{tcp.receiver!r} of a flow with several connections", "give it to plain flows")
        if tcp.boundary_spread_bytes and not lone:
            raise NetreproError(
                f"boundary_spread_bytes = {tcp.boundary_spread_bytes} of a flow with several connections",
                "give it to plain flows",
            )
        if entry.start_s >= self.duration_s:
            raise NetreproError(
                f"traffic that starts at {entry.start_s:g} s in an experiment of {self.duration_s:g} s",
                "start it earlier or let the experiment last longer",
            )

    def _warn_of_what_is_cut_off(self) -> None:
        """Warn once, with the first of them, of entries that last longer than the experiment."""
        ends = [
            (each, each.start_s + each.duration_s)
            for each in self.traffic
            if isinstance(each, Flow | Datagrams) and each.duration_s is not None
        ]
        cut_off = [each for each in ends if each[1] > self.duration_s * (1 + 1e-9)]  # but for rounding
        if not cut_off:
            return
        first, end_s = cut_off[0]
        more = f" (the first of {len(cut_off)} such entries)" if len(cut_off) > 1 else ""
        warnings.warn(
            f"{type(first).__name__} from {first.source} to {first.destination} lasts until "
            f"{end_s:g} s in an experiment of {self.duration_s:g} s, which cuts it off{more}: "
            f"give it duration_s={self.duration_s - first.start_s:g}, or let the experiment last longer",
            stacklevel=4,  # where the experiment is described
        )

    @cached_property
    def flow_table(self) -> pd.DataFrame:
        """Every flow, one row each: FLOW_TABLE_COLUMNS; the same in all tiers."""
        parts: list[pd.DataFrame] = []
        rows: list[FlowRow] = []  # of single flows that follow each other, for one table
        for place, entry in enumerate(self.traffic):
            if isinstance(entry, PoissonFlows):
                parts += [one_table(rows), self._rows(place, entry)]
                rows = []
            elif isinstance(entry, Requests):
                rows += [self._row(place, entry)._replace(source=server) for server in entry.servers]
            else:
                rows.append(self._row(place, entry))
        parts = [part for part in (*parts, one_table(rows)) if len(part)]
        if not parts:
            return pd.DataFrame(columns=FLOW_TABLE_COLUMNS)
        table = pd.concat(parts, ignore_index=True)
        table.insert(0, "flow", np.arange(len(table)))
        # A few flows that start after the end by chance are no mistake; with_late_flows counts them.
        late = int((table["start_s"] >= self.duration_s).sum())
        if late and any(
            isinstance(each, PoissonFlows) and each.start_s + (each.count - 1) / each.flows_per_s >= self.duration_s
            for each in self.traffic
        ):
            warnings.warn(
                f"{late} of {len(table)} flows start after the end of the experiment, at {self.duration_s:g} s: give "
                "PoissonFlows fewer or more often, or let the experiment last longer",
                stacklevel=2,
            )
        return table[FLOW_TABLE_COLUMNS]

    def with_late_flows(self, fidelity: pd.DataFrame) -> pd.DataFrame:
        """Add to a table of checks how many flows start after the end, if there are any."""
        late = float((self.flow_table["start_s"] >= self.duration_s).sum())
        told = check_table([Check("flows that start after the end", late)])
        return pd.concat([fidelity, told], ignore_index=True) if late else fidelity

    @property
    def host_delay_ms(self) -> float:
        """The longest time that a host takes for a packet; rates are those before any change."""
        if not self.host_delay_packets:
            return 0.0
        packet_bytes = max(
            (
                entry.packet_bytes if isinstance(entry, Datagrams) else self.full_packet_bytes(self.tcp_of(entry))
                for entry in self.traffic
            ),
            default=self.full_packet_bytes(self.tcp),
        )
        return longest_host_delay_ms(self.topology, self.host_delay_packets, packet_bytes)

    def full_packet_bytes(self, tcp: Tcp) -> int:
        """Count the bytes of a packet that connections with these settings fill, with Ethernet's header."""
        return within_mtu(tcp, ipv6=self.ipv6).segment_bytes + header_bytes(self.ipv6) + ETHERNET_HEADER_BYTES

    def tcp_of(self, entry: Traffic) -> Tcp:
        """Return the TCP settings of an entry's connections, without the congestion control that it may name."""
        return own_tcp(entry) or self.tcp

    def _row(self, place: int, entry: Traffic) -> FlowRow:
        if isinstance(entry, Datagrams):
            return FlowRow(
                "datagrams",
                entry.source,
                entry.destination,
                entry.start_s,
                duration_s=entry.duration_s,
                label=entry.label,
                rate_mbps=entry.rate_mbps,
                packet_bytes=entry.packet_bytes,
                spacing=entry.spacing,
                entry=place,
            )
        control = entry.congestion_control or self.tcp_of(entry).congestion_control
        if isinstance(entry, Requests):
            return FlowRow(
                "requests",
                destination=entry.client,
                start_s=entry.start_s,
                size_bytes=float(entry.count * entry.response_bytes),
                congestion_control=control,
                label=entry.label,
                entry=place,
            )
        if isinstance(entry, PoissonFlows):
            return FlowRow(
                congestion_control=control,
                label=entry.label,
                entry=place,
                replica_same_path=entry.replica_same_path,
                subflows=entry.subflows,
            )
        small = entry.size_bytes is not None and entry.size_bytes <= entry.replicate_below_bytes
        return FlowRow(
            source=entry.source,
            destination=entry.destination,
            start_s=entry.start_s,
            size_bytes=np.nan if entry.size_bytes is None else float(entry.size_bytes),
            duration_s=np.nan if entry.duration_s is None else entry.duration_s,
            congestion_control=control,
            label=entry.label,
            entry=place,
            replication=entry.replication if small else "",
            replica_same_path=entry.replica_same_path,
            subflows=entry.subflows,
            path=entry.path,
        )

    def _rows(self, place: int, entry: PoissonFlows) -> pd.DataFrame:
        row = self._row(place, entry)._asdict() | dict(path=[()] * entry.count)
        # A random stream for each purpose: a change of sizes leaves starts and pairs as they were.
        starts, sizes, pairs = (
            np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, place, purpose])))
            for purpose in range(3)
        )
        row |= dict(
            start_s=entry.start_s + np.cumsum(starts.exponential(1 / entry.flows_per_s, entry.count)),
            size_bytes=np.maximum(1, np.ceil(entry.sizes.in_bytes().sample(sizes, entry.count))),
        )
        row |= dict(replication=np.where(row["size_bytes"] <= entry.replicate_below_bytes, entry.replication, ""))
        hosts = self.topology.hosts
        # Objects, so that a million flows share the names of their hosts.
        sources, destinations = (np.array(ends or hosts, dtype=object) for ends in (entry.sources, entry.destinations))
        source, destination = _pairs(pairs, sources, destinations, entry.count)
        row |= dict(source=sources[source], destination=destinations[destination])
        return pd.DataFrame(row)

    def flow_results(self, measured: pd.DataFrame) -> pd.DataFrame:
        """Return FLOW_COLUMNS and the tier's own columns, a row for each flow, from what a tier has measured.

        measured : a row for each flow, in their order: completion_s (since the experiment's beginning, NaN if never),
            and, since `measure.since_s`, delivered_bytes, retransmitted_packets, timeouts, bytes_within_duration (of
            datagrams, those that came while they were sent), and columns of the tier's own. Also connected_s, as
            completion_s, where the tier knows it, and start_s, where flows start at other times than given.
        """
        table, columns = self.flow_table, {name: measured[name].to_numpy() for name in measured}
        start_s, duration_s = (table[name].to_numpy(dtype=float) for name in ("start_s", "duration_s"))
        start_s = columns.pop("start_s", start_s)
        completion_s, delivered = (columns[name].astype(float) for name in ("completion_s", "delivered_bytes"))
        are_datagrams = (table["transport"] == "datagrams").to_numpy()
        stop_s = np.where(are_datagrams, np.fmin(start_s + duration_s, self.duration_s), self.duration_s)
        lasted_s = np.where(np.isnan(completion_s), stop_s, completion_s) - np.maximum(start_s, self.measure.since_s)
        counted = np.where(are_datagrams, columns["bytes_within_duration"].astype(float), delivered)
        columns["completion_ms"] = (completion_s - start_s) * 1e3
        columns["connected_ms"] = (columns.pop("connected_s", np.full(len(table), np.nan)) - start_s) * 1e3
        columns["goodput_mbps"] = np.full(len(table), np.nan)
        np.divide(counted * 8 / 1e6, lasted_s, out=columns["goodput_mbps"], where=lasted_s > 0)
        inner = ("completion_s", "connected_s", "bytes_within_duration")
        own = [name for name in measured if name not in (*FLOW_COLUMNS, *inner)]
        del stop_s, lasted_s, counted, completion_s, delivered  # a million flows are 8 MB a column
        # What is known the table shares until somebody writes; what is measured is its own.
        known = {name: table[name] for name in FLOW_COLUMNS[:9]}
        told = {"start_s": start_s} | {name: columns[name] for name in (*FLOW_COLUMNS[9:], *own)}
        told = {name: np.require(column, requirements="W") for name, column in told.items()}
        return pd.DataFrame(known | told, copy=False)

    def request_results(self, measured: pd.DataFrame) -> pd.DataFrame:
        """Return REQUEST_COLUMNS. measured : flow, request, asked_s, answered_s (NaN if never), a row an answer."""
        if measured.empty:
            return pd.DataFrame(columns=REQUEST_COLUMNS)
        answers = self.flow_table[["flow", "label", "source", "destination"]]
        requests = measured.merge(answers.rename(columns={"source": "server", "destination": "client"}), on="flow")
        requests["completion_ms"] = (requests["answered_s"] - requests["asked_s"]) * 1e3
        return requests[REQUEST_COLUMNS]

    def to_json(self) -> str:
        """Return one line of JSON, which from_json reads back."""
        return description.to_json(self)

    @staticmethod
    def from_json(text: str) -> Experiment:
        """Read the experiment that to_json wrote. Raises NetreproError for anything else."""
        read = description.from_json(text)
        if not isinstance(read, Experiment):
            raise NetreproError(
                f"a description of {type(read).__name__}, not of an experiment",
                nearest("Experiment", ["Experiment"]),
            )
        return read


def check_is_experiment(given: Any, progress: Any = None) -> None:
    """Raise NetreproError unless `given` is an Experiment, and for a progress that cannot be called."""
    if not isinstance(given, Experiment):
        what = f"the network {given.name!r}" if isinstance(given, Topology) else f"{type(given).__name__}"
        raise NetreproError(
            f"{what} in place of an experiment", "give Experiment(network, flows, seconds): what is sent, and how long"
        )
    if progress is not None and not callable(progress):
        raise NetreproError(f"progress = {progress!r}", "give a function, which is called with the share that is done")


def _pairs(
    random: np.random.Generator, sources: np.ndarray, destinations: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw indices of `count` sources and destinations, evenly among all pairs of different hosts.

    Pairs are numbered row by row: a row for each source, which leaves out that host among the destinations.
    """
    places: dict[str, list[int]] = {}
    for place, name in enumerate(destinations.tolist()):
        places.setdefault(name, []).append(place)
    own = [places.get(name, []) for name in sources.tolist()]
    ends = np.cumsum([len(destinations) - len(each) for each in own])
    chosen = random.integers(0, ends[-1], count)
    source = np.searchsorted(ends, chosen, side="right")
    destination = chosen - np.append(0, ends)[source]
    for nth in range(max(map(len, own))):
        skipped = np.array([each[nth] if nth < len(each) else len(destinations) for each in own])
        destination += destination >= skipped[source]
    return source, destination


def own_settings(experiment: Experiment, entry: Traffic) -> list[str]:
    """Return the names of the settings in which an entry's Tcp differs from the experiment's."""
    ours, theirs = experiment.tcp, experiment.tcp_of(entry)
    if theirs is ours:
        return []
    return [each.name for each in fields(ours) if getattr(ours, each.name) != getattr(theirs, each.name)]


@dataclass(frozen=True, repr=False)
class Measurements:
    """The measurements of a tier, as tidy tables with the columns listed above.

    A row is a flow (`flows`), a sample of a port's queue (`queues`), a link (`links`), a sample of a flow's window
    (`windows`), a recorded packet (`packets`), an answer to one of Requests (`requests`), a host (`hosts`), a growth
    of what a flow's destination has (`deliveries`), or of what its source has heard of it (`acknowledgements`, on tier
    "virtual" only).

    `hosts` has rows on tier "virtual" only: what each host's kernel has counted (/proc/net/snmp and netstat) since the
    network was built until all connections were closed, such as TcpRetransSegs, TcpExtTCPTimeouts or IpExtInCEPkts.

    `tier` is virtual, privileged, rootless or simulated; `kernel` the release of the kernel, "" for the simulator.
    `fidelity` says what had to hold for the run to be believed, and whether it did (CHECK_COLUMNS).
    """

    experiment: Experiment
    tier: str
    flows: pd.DataFrame
    queues: pd.DataFrame
    links: pd.DataFrame
    windows: pd.DataFrame
    packets: pd.DataFrame
    fidelity: pd.DataFrame
    requests: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=REQUEST_COLUMNS))
    kernel: str = ""
    hosts: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=HOST_COLUMNS))
    deliveries: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=DELIVERY_COLUMNS))
    acknowledgements: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=ACKNOWLEDGEMENT_COLUMNS))

    def __post_init__(self) -> None:
        since_s = self.experiment.measure.since_s
        for name in ("queues", "windows", "packets") if since_s else ():
            table = getattr(self, name)
            object.__setattr__(self, name, table[table["time_s"] >= since_s].reset_index(drop=True))

    def __repr__(self) -> str:
        """Return the number of rows of each table, not the tables themselves."""
        tables = [each.name for each in fields(self) if isinstance(getattr(self, each.name), pd.DataFrame)]
        tables.remove("fidelity")
        rows = ", ".join(f"{name}: {len(getattr(self, name))}" for name in tables if len(getattr(self, name)))
        return f"Measurements({self.experiment.topology.name}, {self.tier}, rows of {rows}, trusted={self.trusted})"

    def write_qlog(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write a qlog file (.sqlog, version 0.3) for each flow whose window was sampled or whose packets were recorded
        as they left its source; return their paths. networks/qlog.py lists what is in them.

        Raises NetreproError where nothing was sampled or recorded, and for a folder that is not there.
        """
        into = Path(folder)
        if not into.is_dir():
            raise NetreproError(f"no folder {into} for qlog files", "make it first")
        network = self.experiment.topology.name or "network"
        tables = self.flows, self.windows, self.packets
        texts = dict(qlog_files(network, self.tier, self.experiment.duration_s, *tables))
        if not texts:
            raise NetreproError(
                "no flow was sampled", "give Measure(windows_interval_ms=10), or packets of a sender's port"
            )
        for name, text in texts.items():
            write_atomically(into / name, text)
        return [into / name for name in texts]

    @cached_property
    def links_by_port(self) -> pd.DataFrame:
        """The links with their port, (source, destination), as index."""
        return self.links.set_index(["source", "destination"])

    @cached_property
    def packets_by_port(self) -> dict[Port, pd.DataFrame]:
        """The recorded packets of each port that sent any, with their index labels of `packets`."""
        ports = self.experiment.measure.packets
        if len(ports) == 1 and len(self.packets):  # comparing the names of a million rows takes long
            return {ports[0]: self.packets}
        return dict(list(self.packets.groupby(["source", "destination"])))

    @property
    def trusted(self) -> bool:
        """True where every fidelity check holds."""
        return bool(self.fidelity["holds"].all())
