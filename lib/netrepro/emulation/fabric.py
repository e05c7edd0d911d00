"""The fabric: all switches of a network in one process of the core, between hosts that are kernels.

What a host sends is shaped on the host, and then goes through the simulator's links and queues in virtual time, the
clock of the kernel's arrival stamps. No switch costs a namespace or a packet's way through a kernel, and every queue
rule, routing and per-hop record of the simulator is there.
"""

from __future__ import annotations

import ipaddress
import os
import pathlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity, messages
from netrepro.emulation.changes import Made
from netrepro.emulation.core_guest import LATENESS_BUCKETS, CoreGuest, lateness_table
from netrepro.emulation.guests import LauncherConnection
from netrepro.emulation.messages import Interface
from netrepro.emulation.plan import (
    FIRST_OF_HUB,
    HUB,
    MAX_RATE_MBPS,
    Cabling,
    Plan,
    Port,
    addresses,
    check_host_port,
    host_controls,
    tree_in_use,
)
from netrepro.emulation.recording import (
    Recording,
    check_captures,
    check_recorded,
    check_unwatched,
    throughput_in,
    write_capture,
)
from netrepro.emulation.tcp import check_tcp
from netrepro.emulation.traffic import FIRST_SOURCE_PORT, SOURCE_PORTS
from netrepro.errors import NetreproError
from netrepro.networks.compiled import link_calls, link_numbers, links_on, node_numbers, routing_calls
from netrepro.networks.experiment import FIDELITY_COLUMNS, LINK_COLUMNS, QUEUE_COLUMNS, Experiment
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.routing import LinkChange, Path, Routing, links_in_use
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

if TYPE_CHECKING:
    from netrepro.emulation.network import Emulation

# While packets are inside the process looks at the ring so often: a packet is handed over half of it late on average.
TICK_US = 100.0
# A host's own link costs no time here: its kernel has shaped it.
INSTANT_MBPS, ROOMY_PACKETS = 1e6, 1_000_000
# Fixed before any run: half a packet time of a 10 Mb/s link, and four.
MOST_LATE_US = {90: 1000.0, 99: 5000.0}
MOST_WAITED_US = 400.0  # of packets for their receiver's processor, on average: ten in a hundred then wait some 1000
ANSWER_PATIENCE_S = 2.0

_HEADER = (
    *("missed", "failed", "received", "delivered", "sample_every", "asked", "answered", "began_ns"),
    *("waited_ns", "waited"),
)
_SAMPLE_EVERY, _ASKED, _ANSWERED, _BEGAN = map(_HEADER.index, ("sample_every", "asked", "answered", "began_ns"))
_LINK_COUNTS = ("sent_packets", "sent_bytes", "dropped_packets", "marked_packets", "lost_packets")
_LINK = ("sampled", "recorded", "captured", *_LINK_COUNTS)
_SAMPLE = np.dtype([(name, np.int64) for name in ("time_ns", "link", "queue_packets", "queue_bytes")])
_RECORD = np.dtype([(name, np.int64) for name in ("time_ns", "link", "connection", "first", "second")])
_CAPTURED = np.dtype(
    [*((name, np.int64) for name in ("time_ns", "link", "size_bytes", "kept_bytes")), ("frame", np.uint8, 160)]
)
_NO_LINK = -1


@dataclass(frozen=True)
class GivenPath:
    """The nodes that a connection's packets take, from the host that opens it, and back in reverse."""

    source_port: int
    path: Path


@dataclass(frozen=True)
class Fabric:
    """How the switches of a fabric route packets.

    routing : as of an experiment. pairs : hosts between which k shortest paths are laid out; () for all.
    paths : of single connections. changes : of links, at times since an experiment began.
    """

    routing: Routing = field(default_factory=Routing)
    pairs: tuple[tuple[str, str], ...] = ()
    paths: tuple[GivenPath, ...] = ()
    changes: tuple[LinkChange, ...] = ()


def fabric_of(experiment: Experiment) -> Fabric:
    """The fabric that routes as the experiment says."""
    table = experiment.flow_table
    routed = table[table["path"].map(len) > 0]
    return Fabric(
        experiment.routing,
        tuple(dict.fromkeys(zip(table["source"], table["destination"], strict=True))),
        tuple(GivenPath(FIRST_SOURCE_PORT + row.flow % SOURCE_PORTS, row.path) for row in routed.itertuples()),
        experiment.changes,
    )


@dataclass(frozen=True)
class FabricPlan(Plan):
    """What is built for hosts around a fabric: a namespace for each host, with its cables to the hub, and no
    switches."""

    fabric: Fabric = field(default_factory=Fabric)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The namespaces in the launcher's order: the hub, hosts."""
        return (HUB, *self.topology.hosts)

    @cached_property
    def _cabling(self) -> Cabling:
        made = Cabling()
        same_address = b"\x02" + bytes(5)  # of all hosts: a frame fits whichever host it is handed to
        for host, peer in self.topology.ports:
            if host[0] != "h":
                continue
            link, interfaces = self.topology.link(host, peer), made.relayed_interfaces.setdefault(host, [])
            near = Interface(f"{host}-eth{len(interfaces)}", 2 + len(interfaces), self.descriptor(host))
            far = Interface(f"{host}.{peer}", FIRST_OF_HUB + len(made.ports), self.descriptor(HUB))
            made.index_towards[host, peer] = near.index
            made.requests.append(messages.new_pair(near, far, same_address))
            made.still_down.append((HUB, far.index))
            interfaces.append(near.name)
            # Whatever its rule: TCP feels the queue of its own host fill and sends no more, so that few packets wait.
            own = replace(link, queue=link.queue if isinstance(link.queue, DropTail) else _drop_tail_of(link))
            made.ports[host, peer] = Port(host, peer, own, (host, near.index), far.name, (HUB, far.name))
        return made

    def address_over(self, path: Path, host: str) -> ipaddress.IPv4Address:
        """The host's own, for the fabric knows paths by ports; but for those whose first host has to choose a cable."""
        return self.path_addresses.get(path, self.addresses[host])

    @property
    def _has_equal_paths(self) -> bool:
        return any(map(self.has_several_cables, self.topology.hosts))  # for the hosts' kernels

    def has_several_cables(self, host: str) -> bool:
        return len(self.topology.graph[host]) > 1

    def arguments(self) -> dict:
        """What `_core.run_switch_fabric` is told: the simulator's links and routes, and where hosts are."""
        topology = self.topology
        number, links = node_numbers(topology), link_numbers(topology)
        instant = {
            port: replace(topology.link(*port), rate_mbps=INSTANT_MBPS, queue=DropTail(packets=ROOMY_PACKETS))
            for port in self.ports
        }
        pairs = self.fabric.pairs or tuple(permutations(topology.hosts, 2))
        hosts = [(number[host], int(self.addresses[host])) for host in topology.hosts]
        hosts += [(number[path[-1]], int(address)) for path, address in self.path_addresses.items()]
        cables = [
            (FIRST_OF_HUB + place, links[host, peer], links[peer, host], self.has_several_cables(host))
            for place, (host, peer) in enumerate(self.ports)
        ]
        paths = [
            (
                int(self.address_over(given.path[::-1], given.path[0])),
                given.source_port,
                int(self.address_over(given.path, given.path[-1])),
                links_on(given.path, links),
                links_on(given.path[::-1], links),
            )
            for given in self.fabric.paths
        ]
        changes = [
            # A host's own rate is its kernel's to change.
            (change.at_s, links[port], 0.0 if port in self.ports else (change.rate_mbps or 0.0) * 1e6, change.up)
            for change in self.fabric.changes
            for port in change.links
        ]
        uses = links_in_use(topology, self.fabric.routing, self.fabric.changes)[1:]
        no_transit = ("forward_only_from", (len(topology.hosts),))
        return dict(
            nodes=len(number),
            links=link_calls(topology, instant),
            routing=[no_transit, *routing_calls(topology, replace(self.fabric.routing, over=()), pairs)],
            changes=changes,
            uses=[(from_s, [port in in_use for port in links]) for from_s, in_use in uses],
            hosts=hosts,
            cables=cables,
            paths=paths,
            seed=self.seed,
            tick_ns=round(TICK_US * 1e3),
        )


def _drop_tail_of(link: Link) -> DropTail:
    return DropTail(packets=link.queue.most_packets)


def make_fabric_plan(
    topology: Topology,
    congestion_control: str | Mapping[str, str],
    seed: int,
    address_pool: str,
    tcp: Tcp | None,
    fabric: Fabric,
) -> FabricPlan:
    """The plan of hosts around a fabric; arguments as of make_plan.

    Of several cables a host's kernel chooses for each flow, as it does among switches that are kernels. Raises
    NetreproError for routing in which that is not its choice, and for what make_plan refuses of hosts.
    """
    several = [host for host in topology.hosts if len(topology.graph[host]) > 1]
    if several and fabric.routing.scheme not in ("ecmp", "spanning_tree"):
        raise NetreproError(
            f"{topology.name}: {several[0]} has several cables, among which its kernel chooses, not "
            f"{fabric.routing.scheme}",
            "give flows paths of their own, or use tier 'simulated'",
        )
    for source, destination in topology.ports:
        link = topology.link(source, destination)
        check_host_port(f"the link from {source} to {destination}", link)
        rate_mbps = link.rate_mbps
        if source[0] == "h" and rate_mbps > MAX_RATE_MBPS:
            raise NetreproError(
                f"the link from {source}: {rate_mbps:g} Mb/s; a kernel shapes {MAX_RATE_MBPS:g} Mb/s at most",
                "scale rates down together, or use tier 'simulated'",
            )
    if tcp:
        check_tcp(tcp)
    both_ways = [path for given in fabric.paths for path in (given.path, given.path[::-1])]
    paths = tuple(dict.fromkeys(path for path in both_ways if path[0] in several))
    controls, places = host_controls(topology, congestion_control), addresses(topology, address_pool, len(paths))
    in_use = tree_in_use(topology, fabric.routing)
    plan = FabricPlan(topology, controls, places, seed, tcp, in_use, paths, fabric=fabric)
    _ = plan.requests  # finds hosts that no route can reach
    return plan


class FabricProcess:
    """The process in the hub that switches; started before the hosts have interfaces."""

    def __init__(self, launcher: LauncherConnection, place: int, plan: FabricPlan, processor: int | None = None):
        from netrepro import _core

        self.plan = plan
        self._numbers_of = link_numbers(plan.topology)
        self._files = {name: tempfile.TemporaryFile() for name in ("samples", "records", "captured")}  # noqa: SIM115
        self._process = CoreGuest(
            launcher,
            place,
            "run_switch_fabric",
            plan.arguments() | {"sample_descriptor": 4, "packet_descriptor": 5, "capture_descriptor": 6},
            shared_bytes=_core.switch_fabric_bytes(len(self._numbers_of)),
            what="a fabric cannot be emulated here",
            remedy="use backend 'kernel', or tier 'simulated'",
            real_time=True,
            processor=processor,
            descriptors=[file.fileno() for file in self._files.values()],
        )
        self.real_time = self._process.real_time

    @property
    def process(self) -> int:
        """Its process id, as programs inside the network see it."""
        return self._process.guest.pid

    def begin(self, at_ns: int) -> None:
        """Count the times of changes from this instant (CLOCK_REALTIME) on."""
        self._process.write(_BEGAN, at_ns)

    def watch(
        self,
        queues: Iterable[tuple[str, str]],
        packets: Iterable[tuple[str, str]],
        interval_s: float,
        captures: bool = False,
    ) -> None:
        """From now on sample these ports' queues so often, 0 for no more, and record, or capture, packets of ports."""
        recorded = set(packets)
        asked = {"sampled": set(queues), "recorded": recorded, "captured": recorded if captures else set()}
        for column, ports in asked.items():
            for port, number in self._numbers_of.items():
                self._process.write(self._place(number, column), int(port in ports))
        self._process.write(_SAMPLE_EVERY, round(interval_s * 1e9))

    @property
    def is_sampling(self) -> bool:
        """Whether it samples its queues for somebody."""
        return bool(self._process.numbers[_SAMPLE_EVERY])

    def _place(self, link: int, column: str) -> int:
        return len(_HEADER) + LATENESS_BUCKETS + link * len(_LINK) + _LINK.index(column)

    def state(self) -> tuple[pd.Series, pd.DataFrame, dict[str, int]]:
        """Counters of the process, of the links (a row a port), and the bytes of samples and records, all now.

        Raises NetreproError when the process has ended.
        """
        asked = int(self._process.numbers[_ASKED]) + 1
        self._process.write(_ASKED, asked)
        deadline = time.monotonic() + ANSWER_PATIENCE_S
        while self._process.numbers[_ANSWERED] != asked:
            if self._process.guest.poll() is not None or time.monotonic() > deadline:
                raise self._process.failure()
            time.sleep(0.0005)
        numbers = self._process.numbers
        links = numbers[len(_HEADER) + LATENESS_BUCKETS :].reshape(-1, len(_LINK))
        index = pd.MultiIndex.from_tuples(self._numbers_of, names=["source", "destination"])
        sizes = {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}
        return pd.Series(numbers[: len(_HEADER)], _HEADER), pd.DataFrame(links, index, list(_LINK)), sizes

    def lateness(self) -> pd.DataFrame:
        """Histogram of how late packets were handed over: up_to_us (upper edge), packets."""
        return lateness_table(self._process.numbers[len(_HEADER) : len(_HEADER) + LATENESS_BUCKETS])

    def read(self, name: str, kind: np.dtype, start: int, end: int) -> pd.DataFrame:
        """What was appended to a file between two sizes, with the port's ends where it has a link."""
        rows = self._rows(name, kind, start, end)
        table = pd.DataFrame({column: rows[column] for column in kind.names or ()})
        sources, destinations = (np.array(ends) for ends in zip(*self._numbers_of, strict=True))
        link = table.pop("link").to_numpy()
        return table.assign(link=link, source=sources[link], destination=destinations[link])

    def captured(self, port: tuple[str, str], start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """A port's packets as write_capture takes them, of what was captured between two sizes of the file."""
        rows = self._rows("captured", _CAPTURED, start, end)
        for row in rows[rows["link"] == self._numbers_of[port]]:
            yield int(row["time_ns"]), int(row["size_bytes"]), row["frame"][: row["kept_bytes"]].tobytes()

    def _rows(self, name: str, kind: np.dtype, start: int, end: int) -> np.ndarray:
        return np.frombuffer(os.pread(self._files[name].fileno(), end - start, start), kind)


class FabricRecording:
    """As Recording, of a network whose switches are a fabric; hosts' own queues are the kernel's."""

    def __init__(
        self,
        net: Emulation,
        fabric: FabricProcess,
        queues: Sequence[tuple[str, str]],
        packets: Sequence[tuple[str, str]],
        interval_ms: float,
        most_packets: int,
        captures: pathlib.Path | None = None,
    ):
        for port in (*queues, *packets):
            net.topology.link(*port)
        check_captures(captures)
        own = net.plan.ports  # of the hosts
        sampled = tuple(dict.fromkeys((*queues, *packets)))
        self._hosts = Recording(net, [port for port in sampled if port in own], (), interval_ms, most_packets)
        self._queues, self._packets = [port for port in sampled if port not in own], tuple(dict.fromkeys(packets))
        self._net, self._fabric, self._interval_s = net, fabric, interval_ms / 1000
        self._captures = captures

    def __enter__(self) -> FabricRecording:
        check_unwatched(self._fabric.is_sampling)
        with ExitStack() as undone:
            undone.callback(self._fabric.watch, (), (), 0.0)
            self._fabric.watch(self._queues, self._packets, self._interval_s, self._captures is not None)
            self._before, self._lateness = self._fabric.state(), self._fabric.lateness()
            self._began_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            self._hosts.__enter__()
            undone.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            with ExitStack() as ended:
                ended.push(self._hosts)  # whatever the fabric says
                ended.callback(self._fabric.watch, (), (), 0.0)
                self._after = self._fabric.state()
                self._lateness = fidelity.lateness_since(self._lateness, self._fabric.lateness())
                self._ended_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            self._collect()
        except NetreproError:  # as of a network that has ended: the block's own error says more
            if not any(exception):
                raise

    def _collect(self) -> None:
        _, _, start = self._before
        _, _, end = self._after
        self._samples = self._fabric.read("samples", _SAMPLE, start["samples"], end["samples"])
        self._records = self._fabric.read("records", _RECORD, 0, end["records"])
        if self._captures is not None:
            for port in self._packets:
                packets = self._fabric.captured(port, start["captured"], end["captured"])
                write_capture(self._captures / f"{port[0]}-{port[1]}.pcap", packets)
        self._seen_from_ns = self._began_ns

    def begin_at(self, time_ns: int) -> None:
        """Count times from this instant (CLOCK_REALTIME) instead of the block's beginning."""
        self._began_ns = time_ns
        self._hosts.begin_at(time_ns)

    def changed(self, made: Mapping[tuple[str, str], Sequence[Made]]) -> None:
        """Judge hosts' ports by the rates that these changes gave them."""
        self._hosts.changed(made)

    def queues(self) -> pd.DataFrame:
        """Samples of the queues: source, destination, time_s, queue_packets, queue_bytes."""
        inside = self._samples.assign(time_s=(self._samples["time_ns"] - self._began_ns) / 1e9)
        return pd.concat([self._hosts.queues(), inside[QUEUE_COLUMNS]], ignore_index=True)

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        """As Recording.throughput, of hosts' ports that were sampled, and of switches' whose packets were recorded."""
        packets = self.packets()
        inside = packets[~packets["source"].str.startswith("h").astype(bool)]
        sent_bytes = inside.groupby(["source", "destination"])["size_bytes"].cumsum()
        parts = [self._hosts.throughput(window_ms), throughput_in(inside.assign(sent_bytes=sent_bytes), window_ms)]
        return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)

    def links(self) -> pd.DataFrame:
        """Totals from beginning to end, one row a port of the network, columns as of Measurements.links."""
        (_, before, _), (_, after, _) = self._before, self._after
        rates_mbps = pd.Series({port: link.rate_mbps for port, link in self._net.topology.ports.items()})
        totals = after - before
        own = self._hosts.links().set_index(["source", "destination"])
        totals.loc[own.index, ["sent_packets", "sent_bytes"]] = own[["sent_packets", "sent_bytes"]]
        totals.loc[own.index, "dropped_packets"] += own["dropped_packets"]
        seconds = (self._ended_ns - self._began_ns) / 1e9
        totals["utilisation"] = totals["sent_bytes"] * 8e-6 / rates_mbps.to_numpy() / seconds
        return totals.reset_index()[LINK_COLUMNS]

    def packets(self, flows: Mapping[int, int] | None = None) -> pd.DataFrame:
        """Packets as their last bit leaves: source, destination, time_s, size_bytes, wait_ms (NaN at hosts' ports).

        flows : end_key of a sender -> flow; adds the column `flow`, which a packet has whichever way it goes, or -1.
        """
        records = self._records
        table = records[(records["link"] != _NO_LINK) & (records["time_ns"] >= self._seen_from_ns)]
        at_host = table["source"].str.startswith("h").to_numpy(bool)
        found = pd.DataFrame(
            {
                "source": table["source"],
                "destination": table["destination"],
                "time_s": (table["time_ns"] - self._began_ns) / 1e9,
                "size_bytes": table["first"],
                "wait_ms": np.where(at_host, np.nan, table["second"] / 1e6),
            }
        )
        if flows is not None:
            connections = records[records["link"] == _NO_LINK].set_index("connection")
            towards, back = (connections[end].map(flows) for end in ("first", "second"))
            found["flow"] = table["connection"].map(towards.fillna(back).fillna(-1).astype(int)).astype(int)
        return found.reset_index(drop=True)

    def certificate(self, source: str, destination: str) -> pd.DataFrame:
        """As Recording.certificate; the fabric's own ports keep their rates by construction: what can be off there is
        lateness."""
        check_recorded((source, destination), self._packets)
        found = self._deviation(source, destination)
        checks = [] if found is None else [fidelity.port_checks(found)]
        return pd.concat([*checks, self.machine_checks()], ignore_index=True)

    def _deviation(self, source: str, destination: str) -> fidelity.Deviation | None:
        """How even the gaps of a host's own port were; None of the fabric's own ports."""
        if (source, destination) not in self._net.plan.ports:
            return None
        packets = self.packets().query("source == @source and destination == @destination")
        samples = self.queues().query("source == @source and destination == @destination")
        return fidelity.deviation_in(
            self._hosts.rates(source, destination),
            packets["time_s"].to_numpy(),
            packets["size_bytes"].to_numpy(),
            samples["time_s"].to_numpy(),
            samples["queue_packets"].to_numpy(),
        )

    def port_checks(self, source: str, destination: str) -> pd.DataFrame | None:
        """The checks of a host's own port, as of Recording.port_checks; None for the fabric's own ports."""
        found = self._deviation(source, destination)
        if found is None or len(found.deviation) < fidelity.LEAST_BUSY_GAPS:
            return None
        return fidelity.port_checks(found, f"{source} to {destination}")

    def interruptions(self) -> None:
        """None: a fabric sleeps, and does not see what interrupts it."""

    def machine_checks(self) -> pd.DataFrame:
        """Whether every packet went through, how late packets were handed to hosts, and what the machine did."""
        grown = self._after[0] - self._before[0]
        rows = [
            ("packets without a way", float(grown["failed"]), 0.0, bool(grown["failed"] == 0)),
            ("packets through the fabric", float(grown["delivered"]), float("nan"), True),
        ]
        rows += fidelity.bounded_lateness_rows("packets handed over", self._lateness, MOST_LATE_US)
        # By Little's law: what waited, summed over time, and how many came through.
        waited_us = grown["waited_ns"] / 1e3 / max(grown["waited"], 1)
        rows.append(("mean time in us that packets waited for a CPU to receive them", waited_us, MOST_WAITED_US,
                     not waited_us > MOST_WAITED_US))  # fmt: skip
        ours = pd.DataFrame(rows, columns=FIDELITY_COLUMNS)
        theirs = self._hosts.machine_checks(int(grown["missed"]))
        return pd.concat([ours, theirs], ignore_index=True)
