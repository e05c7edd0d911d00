"""The TCP settings of an experiment's flows on the virtual kernel: where they are made, and which may differ.

| setting of `Tcp`                                          | made at       | may differ between flows      |
|-----------------------------------------------------------|---------------|-------------------------------|
| congestion_control, segment_bytes, pacing                 | their sockets | yes                           |
| receive_window_bytes                                      | their sockets | yes, if all are below 1 MiB   |
|                                                           |               | or destinations differ        |
| counts "segments", or "acknowledgements" with Reno, CUBIC |               |                               |
| unpaced_segments 10, or 0 with Reno, CUBIC                |               |                               |
| initial_window_segments, min_rto_ms (1 or more),          | the source    | if their sources do           |
| slow_start_after_idle, tail_loss_probe,                   |               |                               |
| send_buffer_bytes, both ratios of pacing                  |               |                               |
| delayed_ack_ms (0 or 40), receive_window_grows            | the           | if their destinations do      |
|                                                           | destination   |                               |
| sack, ecn                                                 | both hosts    | if both hosts do              |
| hystart, dctcp_alpha, suss_rounds, suss_guard,            | the kernel    | no                            |
| suss_pacing, hystart_rounds_from_start,                   |               |                               |
| prague_round_trip_ms, prague_rounds                       |               |                               |

Reno and CUBIC that count acknowledgements or pace their first segments, SUSS and Prague are modules
(lib/kernel/modules). Prague is paced from its eleventh segment on, and its acknowledgements carry ECT(1) too.
Only acknowledgements of whole segments count: the kernel does not report others to its congestion controls.
The kernel wakes a program that has filled its send buffer when a third of the buffer is free. So the buffer is not
always full.
The kernel's own CUBIC begins HyStart's rounds as its release does. CUBIC of the modules, and SUSS with suss_rounds=0,
begin them as hystart_rounds_from_start says.
Other settings are refused by name: timers, receivers, recoveries and cuts of the window that this kernel does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from netrepro.emulation.source_routes import FlowConnection
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
# Settings that check_tcp refuses and this kernel takes -> values that check_tcp accepts.
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
# Settings made at hosts: at senders of payload, at receivers of payload, at both.
OF_SENDERS = (
    "initial_window_segments", "min_rto_ms", "slow_start_after_idle", "tail_loss_probe", "send_buffer_bytes",
    "pacing_slow_start_ratio", "pacing_ratio",
)  # fmt: skip
OF_RECEIVERS = ("delayed_ack_ms", "receive_window_grows")
OF_BOTH = ("sack", "ecn")
# Control -> (it counts acknowledgements, it paces from the first segment on) -> its name in the kernel.
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

OF_MODULE = {"suss", *VARIANTS["cubic"].values()} - {"cubic"}  # controls whose HyStart has its own switches


@dataclass(frozen=True)
class Speech:
    """The TCP settings of the kernel, the hosts and the flows.

    tcp : settings of the kernel and of all hosts. tcp_of_hosts : host -> settings in place of `tcp`. kinds : kinds of
    sockets. kind_of_flow : index into `kinds` for each flow. control_of_flow : the kernel's name of each flow's
    congestion control, "" for datagrams.
    """

    tcp: Tcp
    tcp_of_hosts: Mapping[str, Tcp]
    kinds: tuple[SocketKind, ...]
    kind_of_flow: tuple[int, ...]
    control_of_flow: tuple[str, ...]


def speech_of(experiment: Experiment, made: Sequence[FlowConnection]) -> Speech:
    """Return the TCP settings of the experiment's flows. made : the experiment's connections.

    Raises NetreproError for settings that this kernel does not have, or cannot have for one flow alone.
    """
    check_subflows(experiment, made)
    of_entry = [experiment.tcp_of(entry) for entry in experiment.traffic]
    spoken = [tcp for tcp, entry in zip(of_entry, experiment.traffic, strict=True) if not isinstance(entry, Datagrams)]
    ways = list(dict.fromkeys(spoken)) or [experiment.tcp]
    mtus = {mtu or ETHERNET_MTU_BYTES for mtu in experiment.topology.mtu_of_hosts.values()}
    check_ways(ways, max(*mtus, ETHERNET_MTU_BYTES) - HEADER_BYTES)  # hosts reduce segments that are too large
    of_hosts = _of_hosts(experiment, of_entry, ways)
    windows = {tcp.receive_window_bytes for tcp in ways}
    kinds: dict[SocketKind, int] = {}
    of_entries = []
    for entry, tcp in zip(experiment.traffic, of_entry, strict=True):
        if isinstance(entry, Datagrams):
            of_entries.append(0)
            continue
        kind = socket_kind_of_subflows(tcp) if has_subflows(entry) else socket_kind(tcp)
        if max(mtus) > ETHERNET_MTU_BYTES and kind.segment_bytes == 0:  # otherwise segments would fill the MTU
            if kind.multipath:
                raise NetreproError(
                    f"subflows where mtu_bytes = {max(mtus)}", f"give {ETHERNET_MTU_BYTES}, or use tier 'simulated'"
                )
            kind = kind._replace(segment_bytes=tcp.segment_bytes + TIMESTAMP_BYTES)
        # The hosts' buffers fit the largest window, so other windows need a buffer of their own.
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
    """Return the kernel's name of a flow's control, "" for "". Raises NetreproError for settings of other controls."""
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
    """Raise NetreproError for settings that this kernel does not have, and for different values of common settings."""
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
    """Map each host with flows to its TCP settings; empty where all hosts have the same.

    Raises NetreproError for flows at one host that need different settings of the host.
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
                names.add("segment_bytes")  # the buffer holds whole segments
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
