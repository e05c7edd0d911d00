"""Packets and captures built byte by byte, so that tests choose every field, wrong ones included."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import ip_address

FIN, SYN, RST, PSH, ACK, URG = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
CLIENT, SERVER = "10.0.0.1", "192.168.7.9"
CLIENT_PORT, SERVER_PORT = 40_000, 443
ETHERNET, RAW, LOOPBACK_NULL, LOOP, COOKED, COOKED_V2 = 1, 101, 0, 108, 113, 276


@dataclass(frozen=True)
class Packet:
    """One TCP (protocol 6) or UDP (17) packet of the connection between CLIENT and SERVER."""

    time_us: int
    backward: bool = False
    payload_bytes: int = 0
    flags: int = ACK
    ip_option_words: int = 0
    tcp_option_words: int = 0
    protocol: int = 6

    @property
    def ip_header_bytes(self) -> int:
        return 20 + 4 * self.ip_option_words

    @property
    def transport_header_bytes(self) -> int:
        return 20 + 4 * self.tcp_option_words if self.protocol == 6 else 8

    @property
    def ip_bytes(self) -> int:
        return self.ip_header_bytes + self.transport_header_bytes + self.payload_bytes

    def to_ip(self) -> bytes:
        ends = [(CLIENT, CLIENT_PORT), (SERVER, SERVER_PORT)]
        (source, source_port), (destination, destination_port) = ends[::-1] if self.backward else ends
        return ipv4(self.to_transport(source_port, destination_port), source, destination, self.protocol,
                    option_words=self.ip_option_words)  # fmt: skip

    def to_transport(self, source_port: int, destination_port: int) -> bytes:
        payload = bytes(self.payload_bytes)
        if self.protocol == 6:
            return tcp(source_port, destination_port, self.flags, payload, option_words=self.tcp_option_words)
        return struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0) + payload


def tcp(source: int, destination: int, flags: int, payload: bytes = b"", *, option_words: int = 0) -> bytes:
    offset = (5 + option_words) << 4
    header = struct.pack("!HHIIBBHHH", source, destination, 1, 1, offset, flags, 8192, 0, 0)
    return header + b"\x01" * (4 * option_words) + payload


def ipv4(
    content: bytes,
    source: str = CLIENT,
    destination: str = SERVER,
    protocol: int = 6,
    *,
    option_words: int = 0,
    total: int | None = None,
    fragment: int = 0,
    version: int = 4,
) -> bytes:
    words = 5 + option_words
    length = 4 * words + len(content) if total is None else total
    addresses = ip_address(source).packed + ip_address(destination).packed
    header = struct.pack("!BBHHHBBH", version << 4 | words, 0, length, 7, fragment, 64, protocol, 0)
    return header + addresses + b"\x01" * (4 * option_words) + content


def ipv6(content: bytes, next_header: int, source: str = "2001:db8::1", destination: str = "fe80::2") -> bytes:
    header = struct.pack("!IHBB", 6 << 28, len(content), next_header, 64)
    return header + ip_address(source).packed + ip_address(destination).packed + content


def in_link(content: bytes, link_type: int, tags: tuple[int, ...] = (), ether_type: int | None = None) -> bytes:
    """The link layer before an IP packet; `tags` are the types of VLAN tags, outermost first."""
    if ether_type is None:
        ether_type = 0x86DD if content[:1] >= b"\x60" else 0x0800
    chain = b"".join(struct.pack("!HH", tag, 5) for tag in tags) + struct.pack("!H", ether_type)
    family = 2 if ether_type == 0x0800 else 30
    headers = {
        ETHERNET: bytes(12) + chain,
        RAW: b"",
        LOOPBACK_NULL: struct.pack("<I", family),
        LOOP: struct.pack("!I", family),
        COOKED: struct.pack("!HHH8s", 0, 1, 6, bytes(8)) + chain,
        COOKED_V2: struct.pack("!HHIHBB8s", ether_type, 0, 1, 1, 0, 6, bytes(8)),
    }
    return headers[link_type] + content


Record = tuple[int, bytes] | tuple[int, bytes, int]  # time in us, captured bytes, length on the wire


def pcap(records: list[Record], *, link_type: int = ETHERNET, order: str = "<", nanoseconds: bool = False) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)]
    for time_us, captured, *wire in records:
        seconds, fraction = divmod(time_us, 1_000_000)
        fraction *= 1000 if nanoseconds else 1
        lengths = (len(captured), wire[0] if wire else len(captured))
        out += [struct.pack(order + "IIII", seconds, fraction, *lengths), captured]
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = ETHERNET, order: str = "<", *, resolution: int = 6, offset_s: int = 0) -> bytes:
    """`resolution` as if_tsresol has it: a power of ten, or of two with the top bit set."""
    options = struct.pack(order + "HHB3x", 9, 1, resolution) + struct.pack(order + "HHq", 14, 8, offset_s)
    return block(1, struct.pack(order + "HHI", link_type, 0, 0) + options + bytes(4), order)


def enhanced(ticks: int, captured: bytes, order: str = "<", *, number: int = 0) -> bytes:
    sizes = (len(captured), len(captured))
    return block(6, struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, *sizes) + captured, order)


def pcapng(records: list[Record], *, link_type: int = ETHERNET, order: str = "<") -> bytes:
    blocks = [enhanced(record[0], record[1], order) for record in records]
    return section(order) + interface(link_type, order) + b"".join(blocks)


def connection(start_us: int = 1_700_000_000_000_000) -> list[Packet]:
    """A connection that opens, asks, is answered and closes: ten packets, 20 ms apart."""
    script = [
        Packet(0, False, 0, SYN, tcp_option_words=5),
        Packet(0, True, 0, SYN | ACK, tcp_option_words=5),
        Packet(0, False, 0, ACK),
        Packet(0, False, 300, PSH | ACK),
        Packet(0, True, 1400, ACK),
        Packet(0, True, 900, PSH | ACK),
        Packet(0, False, 0, ACK),
        Packet(0, False, 0, FIN | ACK),
        Packet(0, True, 0, FIN | ACK),
        Packet(0, False, 0, ACK),
    ]
    return [
        Packet(start_us + 20_000 * i, p.backward, p.payload_bytes, p.flags, 0, p.tcp_option_words)
        for i, p in enumerate(script)
    ]


def records_of(packets: list[Packet], link_type: int = ETHERNET, tags: tuple[int, ...] = ()) -> list[Record]:
    return [(packet.time_us, in_link(packet.to_ip(), link_type, tags)) for packet in packets]
