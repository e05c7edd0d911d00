"""A network as the compiled core takes it: methods of `_core.Simulator` and their arguments.

They are plain data, so that code without a simulator can pass them to one. Links are numbered as `Topology.ports` lists
them, nodes as `node_numbers` does. Times are seconds, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from netrepro.networks.links import ETHERNET_MTU_BYTES, Link, Policer
from netrepro.networks.queues import FULL_PACKET_BYTES
from netrepro.networks.receivers import AckDivision, DuplicateSpoofing, OptimisticAck
from netrepro.networks.routing import LinkChange, Path, Routing, k_shortest_paths, links_in_use
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import RECOVERIES_WITH_SACK, Tcp

# Packets of its own that a host lets wait at its port, as TCP small queues do; more wait in the sockets.
OWN_PACKETS_AT_PORT = 4
TICK_NS = 64  # of Linux's packet scheduler

Port = tuple[str, str]
LinkCall = tuple[dict[str, Any], str, tuple]  # LinkSettings by name, the queue's rule and its numbers
Call = tuple[str, tuple]


def node_numbers(topology: Topology) -> dict[str, int]:
    """Number the nodes: hosts first, then switches."""
    return {name: number for number, name in enumerate((*topology.hosts, *topology.switches))}


def link_numbers(topology: Topology) -> dict[Port, int]:
    """Map (from, to) -> number, in the order of the topology's ports."""
    return {port: number for number, port in enumerate(topology.ports)}


def links_on(path: Path, numbers: Mapping[Port, int]) -> list[int]:
    """Return the links of a path, by the numbers of link_numbers."""
    return [numbers[port] for port in pairwise(path)]


def link_calls(topology: Topology, host_delay_ms: float) -> list[LinkCall]:
    """List the arguments of `add_link`, in the order of the topology's ports.

    host_delay_ms : the longest time that a host takes for a packet.
    """
    number = node_numbers(topology)
    return [
        _link_call(number[a], number[b], link, host_delay_ms if a[0] == "h" else 0.0)
        for (a, b), link in topology.ports.items()
    ]


def _link_call(source: int, destination: int, link: Link, host_delay_ms: float) -> LinkCall:
    rule, numbers = link.queue.rule()
    settings = dict(
        source=source,
        destination=destination,
        rate=link.rate_mbps * 1e6,
        delay_s=link.delay_ms / 1e3,
        jitter_s=link.jitter_ms / 1e3,
        loss=link.loss,
        room=_room(link),
        reordering=link.reordering,
        held_back_s=link.reordering_ms / 1e3,
        burst_bytes=link.offload_bytes,
        host_delay_s=host_delay_ms / 1e3,
        policer=link.policer and policer_numbers(link.policer),
    )
    return settings, rule, numbers


def policer_numbers(policer: Policer) -> tuple[int, int, int]:
    """Return a policer's numbers as Linux counts them: bytes a second, burst in ns, largest packet in bytes (0: any).

    The burst is the time that its bytes take, in whole ticks of the packet scheduler, rounded up: a packet as large as
    the burst passes.
    """
    bytes_per_s = round(policer.rate_mbps * 1e6 / 8)
    ticks = -(-policer.burst_bytes * 10**9 // (bytes_per_s * TICK_NS))
    return bytes_per_s, ticks * TICK_NS, policer.mtu_bytes or 0


def _room(link: Link) -> int:
    """Count a host's own packets that may wait here: two bursts (4 packets at least), or all that it may hold back."""
    bursts = 2 * -(-link.offload_bytes // FULL_PACKET_BYTES)
    wanted = link.queue.most_packets if link.queue.holds_back else max(OWN_PACKETS_AT_PORT, bursts)
    return min(wanted, link.queue.most_packets)


def tcp_settings(tcp: Tcp) -> dict[str, Any]:
    """Collect the fields of the core's TcpSettings, except the congestion control."""
    return dict(
        segment_bytes=tcp.segment_bytes,
        initial_window_segments=float(tcp.initial_window_segments),
        receive_window_bytes=tcp.receive_window_bytes,
        **({} if tcp.send_buffer_bytes is None else {"send_buffer_bytes": tcp.send_buffer_bytes}),
        offers_all=not tcp.receive_window_grows,
        minimum_timeout_s=tcp.min_rto_ms / 1e3,
        maximum_timeout_s=tcp.max_rto_ms / 1e3,
        initial_timeout_s=tcp.initial_rto_ms / 1e3,
        syn_linear_timeouts=tcp.syn_linear_timeouts,
        acknowledgement_delay_s=tcp.delayed_ack_ms / 1e3,
        selective=tcp.sack and tcp.recovery in RECOVERIES_WITH_SACK,
        tail_loss_probe=tcp.tail_loss_probe and tcp.recovery == "linux",
        ecn=tcp.ecn,
        accurate_ecn=tcp.accurate_ecn,
        ect_1=tcp.ect_1,
        receiver_ecn=tcp.receiver_ecn,
        dctcp_first_alpha=tcp.dctcp_alpha,
        slow_start_exit_share=tcp.slow_start_exit_share,
        slow_start_after_idle=tcp.slow_start_after_idle,
        hystart=tcp.hystart,
        hystart_rounds_from_start=tcp.hystart_rounds_from_start,
        recovery=tcp.recovery,
        counts=tcp.counts,
        **_receiver(tcp),
        cumulative_nonce=tcp.cumulative_nonce,
        boundary_spread_bytes=tcp.boundary_spread_bytes,
        prague_round_trip_s=tcp.prague_round_trip_ms / 1e3,
        prague_rounds=tcp.prague_rounds,
        prague_heeds_marks=tcp.prague_heeds_marks,
        bbr3_ecn_round_trip_s=tcp.bbr3_ecn_round_trip_ms / 1e3,
        bursts=tcp.bursts,
        suss_rounds=tcp.suss_rounds,
        suss_guard=tcp.suss_guard,
        suss_pacing=tcp.suss_pacing,
        opportunistic_retransmission=tcp.opportunistic_retransmission,
        penalisation=tcp.penalisation,
        scheduler=tcp.scheduler,
        pacing=tcp.pacing,
        pacing_slow_start_ratio=tcp.pacing_slow_start_ratio,
        pacing_ratio=tcp.pacing_ratio,
        unpaced_segments=tcp.unpaced_segments,
    )


HEADER_BYTES = 52  # of a segment: IPv4, TCP, time stamps
IPV6_MORE_BYTES = 20  # by which IPv6's header is longer
ETHERNET_HEADER_BYTES = 14


def header_bytes(ipv6: bool) -> int:
    """Count the bytes of a segment's headers, but for Ethernet's."""
    return HEADER_BYTES + (IPV6_MORE_BYTES if ipv6 else 0)


def within_mtu(tcp: Tcp, *mtus: int | None, ipv6: bool = False) -> Tcp:
    """Return the settings with segments that fit into IP packets of at most these sizes (bytes); None: of any size.

    Over IPv6, packets without a given size are no larger than Ethernet's or, if larger, than they would be over IPv4.
    """
    sizes = [mtu for mtu in mtus if mtu is not None]
    if ipv6 and (not mtus or None in mtus):
        sizes.append(max(ETHERNET_MTU_BYTES, tcp.segment_bytes + HEADER_BYTES))
    room = min((size - header_bytes(ipv6) for size in sizes), default=tcp.segment_bytes)
    return tcp if room >= tcp.segment_bytes else replace(tcp, segment_bytes=room)


def _receiver(tcp: Tcp) -> dict[str, Any]:
    policy, count, interval_s = "honest", 0, 0.0
    match tcp.receiver:
        case AckDivision():
            policy, count = "ack_division", tcp.receiver.pieces
        case DuplicateSpoofing():
            policy = "first_duplicate_spoofing" if tcp.receiver.first_only else "duplicate_spoofing"
            count = tcp.receiver.copies
        case OptimisticAck():
            policy, interval_s = "optimistic", tcp.segment_bytes * 8 / (tcp.receiver.rate_mbps * 1e6)
    return dict(receiver=policy, receiver_count=count, receiver_interval_s=interval_s)


def routing_calls(
    topology: Topology, routing: Routing, pairs: Iterable[tuple[str, str]], changes: Sequence[LinkChange] = ()
) -> list[Call]:
    """List the calls that route packets between the pairs of hosts, both ways, except over paths of single flows."""
    number, links = node_numbers(topology), link_numbers(topology)
    calls: list[Call] = []
    if routing.scheme == "packet_spraying":
        calls.append(("spray", ()))
    if routing.scheme == "k_shortest_paths":
        for ends in dict.fromkeys(pairs):
            for source, destination in (ends, ends[::-1]):
                paths = k_shortest_paths(topology, source, destination, routing.paths)
                chosen = [links_on(path, links) for path in paths]
                calls.append(("set_paths", (number[source], number[destination], chosen)))
    for from_s, in_use in links_in_use(topology, routing, changes):
        if from_s > 0 or len(in_use) < len(links):
            calls.append(("use_links", (from_s, [port in in_use for port in links])))
    return calls
