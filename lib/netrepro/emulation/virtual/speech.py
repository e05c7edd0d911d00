"""How the flows of an experiment speak TCP on the virtual kernel.

| of `Tcp`                                                  | told to       | flows may differ in it        |
|-----------------------------------------------------------|---------------|-------------------------------|
| congestion_control, segment_bytes, pacing                 | their sockets | yes                           |
| receive_window_bytes                                      | their sockets | yes, if all are below 1 MiB   |
|                                                           |               | or of different destinations  |
| counts "segments", or "acknowledgements" with Reno, CUBIC |               |                               |
| unpaced_segments 10, or 0 with Reno, CUBIC                |               |                               |
| initial_window_segments, min_rto_ms (1 or more),          | the source    | if their sources do           |
| slow_start_after_idle, tail_loss_probe,                   |               |                               |
| send_buffer_bytes, both ratios of pacing                  |               |                               |
| delayed_ack_ms (0 or 40), receive_window_grows            | the           | if their destinations do      |
|                                                           | destination   |                               |
| sack, ecn                                                 | both hosts    | if both hosts do              |
| hystart, dctcp_alpha, suss_rounds, suss_guard,            | the kernel    | no                            |
| suss_pacing, hystart_rounds_from_start                    |               |                               |

Reno and CUBIC that count acknowledgements or pace their first segments, and SUSS, are modules (lib/kernel/modules).
Counted are acknowledgements of whole segments: of others the kernel tells its controls nothing.
A program that has filled its send buffer is woken when a third of that is free, so that it keeps it less than full.
CUBIC of the kernel begins rounds of HyStart as its release does; that of the modules, as which SUSS with suss_rounds=0
counts, too, begins them as one says.
The rest is refused by name: timers, receivers, recoveries and cuts of the window that this kernel has not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from netrepro.emulation.source_routes import Connection
from netrepro.emulation.tcp import (
    BUFFER_PER_WINDOW,
    DCTCP_ALPHA,
    FULL_SEGMENT_BYTES,
    LARGE_WINDOW_BYTES,
    TIMESTAMP_BYTES,
    UNPACED_SEGMENTS,
    SocketKind,
    check_tcp,
    socket_kind,
)
from netrepro.emulation.virtual.multipath import check_subflows, has_subflows, socket_kind_of_subflows
from netrepro.errors import NetreproError
from netrepro.networks.compiled import HEADER_BYTES, within_mtu
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import ETHERNET_MTU_BYTES
from netrepro.networks.workloads import Datagrams, Tcp

LEAST_RTO_MS = 1.0
# What this kernel takes beyond the others', as they take it.
_HONOURED: dict[str, Any] = {
    "hystart": True,
    "hystart_rounds_from_start": True,
    "dctcp_alpha": DCTCP_ALPHA,
    "counts": "segments",
    "unpaced_segments": UNPACED_SEGMENTS,
}
OF_SOCKETS = (
    "congestion_control", "segment_bytes", "pacing", "receive_window_bytes", "counts", "unpaced_segments"
)  # fmt: skip
# Of the hosts that send payload, that receive some, that do either.
OF_SENDERS = (
    "initial_window_segments", "min_rto_ms", "slow_start_after_idle", "tail_loss_probe", "send_buffer_bytes",
    "pacing_slow_start_ratio", "pacing_ratio",
)  # fmt: skip
OF_RECEIVERS = ("delayed_ack_ms", "receive_window_grows")
OF_BOTH = ("sack", "ecn")
# Control -> whether it counts acknowledgements, whether it paces from the first segment on -> its name in the kernel.
VARIANTS = {
    "reno": {
        (False, False): "reno",
        (True, False): "ack_counting",
        (False, True): "paced_reno",
        (True, True): "paced_counting",
    },
    "cubic": {
        (False, False): "cubic",
        (True, False): "cubic_counting",
        (False, True): "cubic_paced",
        (True, True): "cubic_both",
    },
}

OF_MODULE = {"suss", *VARIANTS["cubic"].values()} - {"cubic"}  # those whose HyStart has switches of its own


@dataclass(frozen=True)
class Speech:
    """The ways in which the hosts, the kernel and the flows speak TCP.

    tcp : what the kernel and all hosts, except tcp_of_hosts, are told. kinds : of sockets. Of each flow: which
    kind it has, and the kernel's name of its congestion control, "" for datagrams.
    """

    tcp: Tcp
    tcp_of_hosts: Mapping[str, Tcp]
    kinds: tuple[SocketKind, ...]
    kind_of_flow: tuple[int, ...]
    control_of_flow: tuple[str, ...]


def speech_of(experiment: Experiment, made: Sequence[Connection]) -> Speech:
    """Find how the experiment's flows speak TCP; `made` are its connections.

    Raises NetreproError for what this kernel does not do, or not for one flow alone.
    """
    check_subflows(experiment, made)
    of_entry = [experiment.tcp_of(entry) for entry in experiment.traffic]
    spoken = [tcp for tcp, entry in zip(of_entry, experiment.traffic, strict=True) if not isinstance(entry, Datagrams)]
    ways = list(dict.fromkeys(spoken)) or [experiment.tcp]
    mtus = {mtu or ETHERNET_MTU_BYTES for mtu in experiment.topology.mtu_of_hosts.values()}
    check_ways(ways, max(*mtus, ETHERNET_MTU_BYTES) - HEADER_BYTES)  # segments that are too large get smaller
    of_hosts = _of_hosts(experiment, of_entry, ways)
    windows = {tcp.receive_window_bytes for tcp in ways}
    kinds: dict[SocketKind, int] = {}
    of_entries = []
    for entry, tcp in zip(experiment.traffic, of_entry, strict=True):
        if isinstance(entry, Datagrams):
            of_entries.append(0)
            continue
        kind = socket_kind_of_subflows(tcp) if has_subflows(entry) else socket_kind(tcp)
        if max(mtus) > ETHERNET_MTU_BYTES and kind.segment_bytes == 0:  # or segments would be as large
            if kind.multipath:
                raise NetreproError(
                    f"subflows where mtu_bytes = {max(mtus)}", f"give {ETHERNET_MTU_BYTES}, or use tier 'simulated'"
                )
            kind = kind._replace(segment_bytes=tcp.segment_bytes + TIMESTAMP_BYTES)
        # The hosts' buffers are those of the largest.
        if len(windows) > 1 and not kind.multipath and kind.receive_window_bytes:
            kind = kind._replace(receive_buffer_bytes=BUFFER_PER_WINDOW * kind.receive_window_bytes)
        of_entries.append(kinds.setdefault(kind, len(kinds)))
    flows = experiment.flow_table
    of_flows = [of_entry[entry] for entry in flows["entry"]]
    return Speech(
        replace(ways[0], receive_window_bytes=max(windows)),
        of_hosts,
        tuple(kinds) or (socket_kind(experiment.tcp),),
        tuple(of_entries[entry] for entry in flows["entry"]),
        tuple(_kernel_control(*each) for each in zip(flows["congestion_control"], of_flows, strict=True)),
    )


def _kernel_control(control: str, tcp: Tcp) -> str:
    """Return the kernel's name of it. Raises NetreproError where another control needs what only Reno and CUBIC do."""
    counting = tcp.counts == "acknowledgements"
    paced = tcp.pacing and tcp.unpaced_segments == 0
    names = VARIANTS.get(control, {(False, False): control})
    if control and (tcp.counts == "bytes" or (counting and len(names) == 1)):
        raise NetreproError(f"Tcp: {control} with counts = {tcp.counts!r}", "give 'segments', or use tier 'simulated'")
    if control and tcp.pacing and tcp.unpaced_segments != UNPACED_SEGMENTS and not (paced and len(names) > 1):
        raise NetreproError(
            f"Tcp: {control} with unpaced_segments = {tcp.unpaced_segments}; the kernel does not pace the first "
            f"{UNPACED_SEGMENTS}",
            f"give {UNPACED_SEGMENTS}, or 0 of Reno or CUBIC, or use tier 'simulated'",
        )
    return names[counting, paced] if control else ""


def check_ways(ways: Sequence[Tcp], most_segment_bytes: int = FULL_SEGMENT_BYTES) -> None:
    """Raise NetreproError for what this kernel does not do, and for what it has one of, which they have not."""
    for tcp in ways:
        check_tcp(replace(tcp, **_HONOURED), LEAST_RTO_MS, most_segment_bytes)
        for name in (each.name for each in fields(Tcp)):
            values = getattr(ways[0], name), getattr(tcp, name)
            if name not in (*OF_SOCKETS, *OF_SENDERS, *OF_RECEIVERS, *OF_BOTH) and values[0] != values[1]:
                raise NetreproError(
                    f"Tcp: flows with {name} = {values[0]!r} and {values[1]!r}; the virtual kernel has one for all",
                    "give all flows the same, or use tier 'simulated'",
                )


def _of_hosts(experiment: Experiment, of_entry: Sequence[Tcp], ways: Sequence[Tcp]) -> dict[str, Tcp]:
    """Find what each host that has flows is told of TCP, where not all hosts are told the same.

    Raises NetreproError for flows at one host that want different things of it.
    """
    if len(ways) == 1 and ways[0].send_buffer_bytes is None:
        return {}
    told: dict[str, dict[str, Any]] = {}
    windows: dict[str, set[int]] = {}
    segments: dict[str, set[int]] = {}
    received: dict[str, set[int]] = {}
    mtus, flows = experiment.topology.mtu_of_hosts, experiment.flow_table
    rows = flows.loc[flows["transport"] != "datagrams", ["entry", "transport", "source", "destination"]]
    for entry, transport, *ends in rows.drop_duplicates().itertuples(index=False):
        tcp = within_mtu(of_entry[entry], *(mtus[host] for host in ends), ipv6=experiment.ipv6)
        received.setdefault(ends[1], set()).add(tcp.receive_window_bytes)
        for host, others in zip(ends, (OF_SENDERS, OF_RECEIVERS), strict=True):
            windows.setdefault(host, set()).add(tcp.receive_window_bytes)
            segments.setdefault(host, set()).add(tcp.segment_bytes)
            names = {*OF_BOTH, *others, *((*OF_SENDERS, *OF_RECEIVERS) if transport == "requests" else ())}
            if "send_buffer_bytes" in names and tcp.send_buffer_bytes is not None:
                names.add("segment_bytes")  # of which it holds whole ones
            for name in sorted(names):
                value = getattr(tcp, name)
                if told.setdefault(host, {}).setdefault(name, value) != value:
                    raise NetreproError(
                        f"Tcp: flows of {host} with {name} = {told[host][name]!r} and {value!r}; a host of the virtual "
                        "kernel's has one for all of them",
                        "give them the same, or use tier 'simulated'",
                    )
    for host, offered in received.items():
        if len(offered) > 1 and max(offered) >= LARGE_WINDOW_BYTES:
            raise NetreproError(
                f"Tcp: flows to {host} with receive_window_bytes = {' and '.join(map(str, sorted(offered)))}; windows "
                "of 1 MiB or more grow, as their host lets all of them",
                "give these flows the same, or smaller ones, or use tier 'simulated'",
            )
    return {
        host: replace(
            ways[0], **{"segment_bytes": min(segments[host]), **wanted}, receive_window_bytes=max(windows[host])
        )
        for host, wanted in told.items()
    }
