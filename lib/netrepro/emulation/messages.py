"""Raw rtnetlink messages for the bulk of a network: interfaces, addresses, routes, shapers.

pyroute2 needs several times as long for the same messages, mostly for its own dictionaries. So this module makes the
messages that a large network needs thousands of times. Numbers are those of linux/rtnetlink.h, if_link.h, pkt_sched.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netrepro.networks.compiled import TICK_NS

NEW_LINK, NEW_ADDRESS, NEW_ROUTE, NEW_QDISC, NEW_FILTER = 16, 20, 24, 36, 44
REQUEST, ACKNOWLEDGE, REPLACE, EXCLUSIVE, CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
INTERFACE_UP, NO_ARP = 0x1, 0x80
NO_DUPLICATE_DETECTION = 2
IPV6_PREFIX = bytes([0xFD, *bytes(11)])  # before IPv4's four bytes: private addresses, fd00::/8 (RFC 4193)
ON_LINK = 4  # the gateway is a neighbour, whatever the addresses say
BATCH_BYTES = 16_384
TICKS_PER_NS = 1 / TICK_NS
UNLIMITED = 2**31 - 1


@dataclass(frozen=True)
class NetlinkRequest:
    """One message, and its purpose in words that an error can show to a user."""

    message: bytes
    purpose: str


def attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def _number(kind: int, value: int) -> bytes:
    return struct.pack("=HHI", 8, kind, value)


def _request(kind: int, body: bytes, purpose: str) -> NetlinkRequest:
    header = struct.pack("=IHHII", 16 + len(body), kind, REQUEST | CREATE | EXCLUSIVE, 0, 0)
    return NetlinkRequest(header + body, purpose)


def replacing(request: NetlinkRequest) -> NetlinkRequest:
    """Return the same request with the flag to replace an object that exists already."""
    message = bytearray(request.message)
    struct.pack_into("=H", message, 6, REQUEST | CREATE | REPLACE)
    return NetlinkRequest(bytes(message), request.purpose)


def batches(requests: Iterable[NetlinkRequest]) -> list[tuple[bytes, int]]:
    """Pack messages into buffers, each for one send; return (buffer, number of its last message).

    Messages are numbered from 1 in order. Only the last message of a buffer asks for an acknowledgement; the kernel
    reports errors of the others by itself.
    """
    parts: list[tuple[bytes, int]] = []
    buffer = bytearray()
    last = number = 0

    def close() -> None:
        if buffer:
            buffer[last + 6] |= ACKNOWLEDGE
            parts.append((bytes(buffer), number))
            buffer.clear()

    for request in requests:
        if len(buffer) + len(request.message) > BATCH_BYTES:
            close()
        last, number = len(buffer), number + 1
        buffer += request.message
        struct.pack_into("=I", buffer, last + 8, number)
    close()
    return parts


@dataclass(frozen=True)
class Interface:
    """One end of a cable: name, index in its namespace, and the launcher's file descriptor of that namespace."""

    name: str
    index: int
    namespace_descriptor: int


def new_pair(first: Interface, second: Interface, address: bytes, mtu_bytes: int | None = None) -> NetlinkRequest:
    """Make two joined interfaces (veth) without ARP, each in its own namespace; the first is up.

    The second cannot be up yet, because its other end does not exist while it is made: see `interface_up`.

    Both ends have the same hardware address. Without ARP a sender addresses frames to itself, so the other end accepts
    them. A frame is one packet (gso_max_segs 1): otherwise TCP's large segments would be queued as one packet and cut
    only behind the queue. mtu_bytes : MTU of both ends, None for the kernel's default.
    """

    def described(end: Interface, flags: int) -> bytes:
        return struct.pack("=BxHiII", 0, 0, end.index, flags, flags) + b"".join(
            [
                attribute(3, end.name.encode() + b"\0"),
                attribute(1, address),
                _number(28, end.namespace_descriptor),
                _number(40, 1),
                *([] if mtu_bytes is None else [_number(4, mtu_bytes)]),
            ]
        )

    peer = attribute(2, attribute(1, described(second, NO_ARP)))
    kind = attribute(18, attribute(1, b"veth\0") + peer)
    return _request(
        NEW_LINK, described(first, NO_ARP | INTERFACE_UP) + kind, f"the cable {first.name} to {second.name}"
    )


def interface_up(index: int) -> NetlinkRequest:
    """Bring an interface up; the loopback interface has index 1."""
    body = struct.pack("=BxHiII", 0, 0, index, INTERFACE_UP, INTERFACE_UP)
    header = struct.pack("=IHHII", 16 + len(body), NEW_LINK, REQUEST, 0, 0)
    return NetlinkRequest(header + body, "to bring an interface up")


def new_address(index: int, address: bytes, peer: bytes | None = None) -> NetlinkRequest:
    """Give the interface an address. peer : address of the other end; the kernel then adds a route to it."""
    flags = NO_DUPLICATE_DETECTION if _family(address) == socket.AF_INET6 else 0
    body = struct.pack("=BBBBi", _family(address), 8 * len(address), flags, 0, index)
    body += attribute(2, address) + attribute(1, peer or address)
    return _request(NEW_ADDRESS, body, "an address")


def _family(address: bytes) -> int:
    return socket.AF_INET6 if len(address) == 16 else socket.AF_INET


@dataclass(frozen=True)
class NextHop:
    """A next hop of a route: interface index, and gateway (the neighbour's address; None if it is the destination)."""

    index: int
    gateway: bytes | None


def new_route(
    destination: bytes,
    hops: Sequence[NextHop],
    source: bytes | None = None,
    congestion_control: str | None = None,
    metrics: Mapping[int, int] | None = None,
    prefix: bytes = b"",
) -> NetlinkRequest:
    """Make a route to one address, or to all addresses with destination b"", over one or several equal next hops.

    source : source address of the host's own packets. congestion_control, metrics : of connections over the route;
    metrics are further attributes, number (RTAX_...) -> value. prefix : IPV6_PREFIX turns all addresses into IPv6.
    """
    if prefix:
        destination = destination and prefix + destination
        hops = [NextHop(hop.index, hop.gateway and prefix + hop.gateway) for hop in hops]
        source = source and prefix + source
    family = socket.AF_INET6 if prefix else socket.AF_INET
    length = 8 * len(destination)
    single = len(hops) == 1
    scope = 253 if single and hops[0].gateway is None else 0  # link, universe
    flags = ON_LINK if single and hops[0].gateway else 0
    parts = [struct.pack("=BBBBBBBBI", family, length, 0, 0, 254, 4, scope, 1, flags)]
    if destination:
        parts.append(attribute(1, destination))
    if single:
        parts.append(_number(4, hops[0].index))
        if hops[0].gateway:
            parts.append(attribute(5, hops[0].gateway))
    else:
        parts.append(attribute(9, b"".join(_multipath_hop(hop) for hop in hops)))
    if source:
        parts.append(attribute(7, source))
    inner = [_number(kind, value) for kind, value in (metrics or {}).items()]
    if congestion_control:
        inner.append(attribute(16, congestion_control.encode() + b"\0"))
    if inner:
        parts.append(attribute(8, b"".join(inner)))
    return _request(NEW_ROUTE, b"".join(parts), "a route")


def _multipath_hop(hop: NextHop) -> bytes:
    gateway = attribute(5, hop.gateway) if hop.gateway else b""
    return struct.pack("=HBBi", 8 + len(gateway), ON_LINK if gateway else 0, 0, hop.index) + gateway


def new_shaper(index: int, bytes_per_s: int, burst_bytes: int, limit_bytes: int) -> NetlinkRequest:
    """Make a token bucket filter with a drop-tail buffer of `limit_bytes`, handle 1:."""
    ethernet = 1  # with this value the kernel computes times itself and needs no table
    rate = struct.pack("=BBHhHI", 0, ethernet, 0, -1, 0, min(bytes_per_s, 2**32 - 1))
    buffer_ticks = int(burst_bytes / bytes_per_s * 1e9 * TICKS_PER_NS)
    parameters = rate + bytes(12) + struct.pack("=III", limit_bytes, buffer_ticks, 0)
    options = attribute(1, parameters) + attribute(4, struct.pack("=Q", bytes_per_s)) + _number(6, burst_bytes)
    return new_qdisc(index, 0x10000, 0xFFFFFFFF, "tbf", options, "a link's rate (the kernel's tbf)")


def new_packet_limit(index: int, packets: int) -> NetlinkRequest:
    """Make a drop-tail buffer of `packets` inside the token bucket filter of the interface."""
    purpose = "a buffer counted in packets (the kernel's pfifo)"
    return new_qdisc(index, 0x20000, 0x10000, "pfifo", struct.pack("=I", packets), purpose)


def closed_buffer(index: int) -> NetlinkRequest:
    """Make a buffer of no packets inside the token bucket filter: it drops all packets, waiting and arriving."""
    purpose = "a link that is down (the kernel's pfifo of no packets)"
    return new_qdisc(index, 0x30000, 0x10000, "pfifo", struct.pack("=I", 0), purpose)


def new_byte_limit(index: int, limit_bytes: int) -> NetlinkRequest:
    """Make a drop-tail buffer of bytes inside the token bucket filter of the interface."""
    purpose = "a buffer counted in bytes (the kernel's bfifo)"
    return new_qdisc(index, 0x20000, 0x10000, "bfifo", struct.pack("=I", limit_bytes), purpose)


def new_queue(index: int, handle: int, parent: int, kind: str) -> NetlinkRequest:
    """Make a queue discipline without options."""
    return new_qdisc(index, handle, parent, kind, b"", f"a queue of kind {kind}")


def new_netem(
    index: int, delay_ns: int, loss: float, spread_ns: int, places: Sequence[int], bytes_per_s: int, seed: int
) -> NetlinkRequest:
    """Make a wire (the kernel's netem), handle 1:, that delays each packet and drops the share `loss`.

    places : table of random numbers, all equally likely; a packet's delay grows by spread_ns / 8192 times one of them.
    bytes_per_s : rate at which packets leave one after the other, in their order; 0 for no rate, in any order.
    """
    ticks = min(int(delay_ns * TICKS_PER_NS), 2**32 - 1)  # read by kernels before 4.16
    options = struct.pack("=6I", ticks, UNLIMITED, round(loss * (2**32 - 1)), 0, 0, 0)
    options += attribute(10, struct.pack("=q", delay_ns)) + attribute(11, struct.pack("=q", spread_ns))
    if places:
        options += attribute(2, struct.pack(f"={len(places)}h", *places))
    if bytes_per_s:
        options += attribute(6, bytes(16)) + attribute(8, struct.pack("=Q", bytes_per_s))
    options += attribute(14, struct.pack("=Q", seed))
    return new_qdisc(index, 0x10000, 0xFFFFFFFF, "netem", options, "a link's delay (the kernel's netem)")


def new_redirection(from_index: int, to_index: int) -> NetlinkRequest:
    """Redirect every packet that arrives at an interface with a clsact to another interface (matchall, mirred)."""
    stolen, egress_redirect = 4, 1
    parameters = struct.pack("=IIiiiiI", 0, 0, stolen, 0, 0, egress_redirect, to_index)
    action = attribute(1, b"mirred\0") + attribute(2, attribute(2, parameters))
    body = struct.pack("=BxxxiIII", 0, from_index, 0, 0xFFFFFFF2, 1 << 16 | socket.htons(0x0003))
    body += attribute(1, b"matchall\0") + attribute(2, attribute(2, attribute(1, action)))
    return _request(NEW_FILTER, body, "to hand packets from one interface to another (matchall and mirred)")


def new_policer(index: int, bytes_per_s: int, burst_ns: int, most_bytes: int) -> list[NetlinkRequest]:
    """Make a policer (the kernel's act_police) for every packet that leaves an interface, before its queue.

    burst_ns : the time that the burst takes at the rate. most_bytes : of a packet that may pass, 0 for any.

    A dropped packet is "stolen": its sender is not told. A socket at the same host would else take the drop for a queue
    of its own that is full, halve its window and send the packet again at once.
    """
    clsact, egress, stolen, all_protocols = 0xFFFFFFF1, 0xFFFFFFF3, 4, socket.htons(0x0003)
    ethernet, cell_log, table_bytes = 1, 8, 1024  # the kernel wants a table of times, and does not read it
    rate = struct.pack("=BBHhHI", cell_log, ethernet, 0, -1, 0, min(bytes_per_s, 2**32 - 1))
    ticks = int(burst_ns * TICKS_PER_NS)
    parameters = struct.pack("=IiIII", 0, stolen, 0, ticks, most_bytes or 2**32 - 1) + rate + bytes(12 + 12)
    options = attribute(1, parameters) + attribute(2, bytes(table_bytes)) + attribute(8, struct.pack("=Q", bytes_per_s))
    action = attribute(1, b"police\0") + attribute(2, options)
    body = struct.pack("=BxxxiIII", 0, index, 0, egress, 1 << 16 | all_protocols)
    body += attribute(1, b"matchall\0") + attribute(2, attribute(2, attribute(1, action)))
    return [
        new_queue(index, 0xFFFF0000, clsact, "clsact"),
        _request(NEW_FILTER, body, "a policer (matchall and the kernel's act_police)"),
    ]


def new_qdisc(index: int, handle: int, parent: int, kind: str, options: bytes, purpose: str) -> NetlinkRequest:
    body = struct.pack("=BxxxiIII", 0, index, handle, parent, 0)
    return _request(NEW_QDISC, body + attribute(1, kind.encode() + b"\0") + attribute(2, options), purpose)
