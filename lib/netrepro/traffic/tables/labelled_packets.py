"""Packets of captures as rows: headers, the first bytes of payload, and the labels that pcapml puts in comments.

pcapml (Holland et al., nprint/pcapml) writes in each packet's comment the sample that it belongs to and its label:
"SAMPLE,LABEL", or since 2026 "s=SAMPLE,proc=LABEL,key=value". Options of pcapng blocks are in draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.traffic.captures import CaptureFile
from netrepro.traffic.meter import address_texts
from netrepro.traffic.packets import time_stamp_options
from netrepro.traffic.tables.labelled_table import PAYLOAD, Told

KEPT_BYTES = 160  # of each packet: link, IP and TCP headers with all options, or fewer and some payload
PAYLOAD_BYTES = 32
BATCH_PACKETS = 50_000
ETHERNET, RAW, NULL, LOOP, COOKED, COOKED_V2 = 1, 101, 0, 108, 113, 276
LINK_BYTES = {ETHERNET: 14, RAW: 0, 12: 0, 14: 0, NULL: 4, LOOP: 4, COOKED: 16, COOKED_V2: 20}
VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
Bytes = NDArray[np.uint8]


@dataclass
class _Batch:
    """Packets that are not decoded yet."""

    heads: list[bytes] = field(default_factory=list)
    rest: list[tuple[int, int, int, int]] = field(default_factory=list)  # time in ns, captured, on the wire, link type
    comments: list[str] = field(default_factory=list)


def parse_comment(comment: str) -> tuple[str | None, str | None]:
    """Return the sample and the label that pcapml wrote in a packet's comment; None for what is not there.

    >>> parse_comment("9003219589747928972,google"), parse_comment("s=0,proc=curl,dir=lan2wan,dst=example.com")
    (('9003219589747928972', 'google'), ('0', 'curl'))
    """
    keyed, placed = {}, []
    for part in comment.split(","):
        key, sign, value = part.partition("=")
        if sign:
            keyed[key.strip()] = value.strip()
        elif part.strip():
            placed.append(part.strip())
    sample = keyed.get("s") or (placed[0] if placed else None)
    label = keyed.get("proc") or keyed.get("label") or (placed[1] if len(placed) > 1 else None)
    return sample, label


def read_packets(path: str | PathLike[str], *, progress: Told = None) -> pd.DataFrame:
    """Read the TCP and UDP packets over IPv4 and IPv6 of a capture, one row each; what else there is is left out.

    Reads pcap and pcapng as `meter` does, with Ethernet (VLAN tags too), Linux cooked, raw IP and loopback. Columns:
    time_us, the ends, `ip_*`, `tcp_*`, `udp_*` header fields (NaN where a packet has none), tcp_tsval and tcp_tsecr,
    payload_bytes, payload_1 to payload_32 (NaN beyond the captured bytes), flow (both directions together), and,
    where a comment has them, sample and label. Raises NetreproError where the file is no capture or has no such packet.
    """
    source = CaptureFile(path)
    tables = []
    for chunks in source.captures():
        for batch in _batches(chunks):
            tables.append(_decode(batch))
            if progress:
                progress(source.bytes_read, source.size_bytes)
    tables = [table for table in tables if len(table)]
    if not tables:
        raise NetreproError(f"{Path(path).name} has no TCP or UDP packet over IP", "give a capture with traffic")
    whole = pd.concat(tables, ignore_index=True)
    versions = whole.pop("version").to_numpy()
    for place, end in enumerate(("source_address", "destination_address")):
        words = np.stack([whole.pop(f"{end}_{half}").to_numpy() for half in ("high", "low")], axis=1)
        whole.insert(1 + 2 * place, end, pd.Categorical(address_texts(words, versions)))
    return whole.assign(flow=_flow_numbers(whole))


def payload_roles() -> dict[str, str]:
    """Return the role of each column of `read_packets` whose name does not tell it."""
    return {f"payload_{i + 1}": PAYLOAD for i in range(PAYLOAD_BYTES)}


def _flow_numbers(packets: pd.DataFrame) -> NDArray[np.int64]:
    codes = [packets[name].astype(str) for name in ("source_address", "destination_address")]
    both, _ = pd.factorize(pd.concat(codes, ignore_index=True))
    ends = [
        both[: len(packets)].astype(np.int64) << 16 | packets["source_port"].to_numpy(np.int64),
        both[len(packets) :].astype(np.int64) << 16 | packets["destination_port"].to_numpy(np.int64),
    ]
    keys = pd.DataFrame({"low": np.minimum(*ends), "high": np.maximum(*ends), "protocol": packets["protocol"]})
    return keys.groupby(["low", "high", "protocol"], sort=False).ngroup().to_numpy(np.int64)


def _batches(chunks: Iterator[bytes]) -> Iterator[_Batch]:
    """Yield the packets of one capture, in batches."""
    stream = _Stream(chunks)
    magic = stream.take(4)
    walk = _pcapng(stream) if magic == b"\n\r\r\n" else _pcap(stream, magic)
    batch = _Batch()
    for time_ns, head, captured, wire, link, comment in walk:
        batch.heads.append(head)
        batch.rest.append((time_ns, captured, wire, link))
        batch.comments.append(comment)
        if len(batch.heads) == BATCH_PACKETS:
            yield batch
            batch = _Batch()
    if batch.heads:
        yield batch


class _Stream:
    """Bytes of a file, taken in pieces; a piece that the file no longer has is empty."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks, self._held, self._at = chunks, b"", 0

    def take(self, size: int) -> bytes:
        while len(self._held) - self._at < size:
            more = next(self._chunks, b"")
            if not more:
                self._held, self._at = b"", 0
                return b""
            self._held, self._at = self._held[self._at :] + more, 0
        piece = self._held[self._at : self._at + size]
        self._at += size
        return piece


Walk = Iterator[tuple[int, bytes, int, int, int, str]]


def _pcap(stream: _Stream, magic: bytes) -> Walk:
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    head = stream.take(20)
    if not head:
        return
    link = struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF
    record = struct.Struct(order + "IIII")
    while block := stream.take(16):
        seconds, fraction, captured, wire = record.unpack(block)
        packet = stream.take(captured)
        if len(packet) < captured:
            return
        yield seconds * 1_000_000_000 + fraction * unit, packet[:KEPT_BYTES], captured, wire, link, ""


def _pcapng(stream: _Stream) -> Walk:
    order, kind = "<", SECTION
    interfaces: list[tuple[int, int, int]] = []
    while True:
        if kind == SECTION:
            sizes = stream.take(8)
            if not sizes:
                return
            order = "<" if sizes[4:] == b"\x4d\x3c\x2b\x1a" else ">"
            (length,) = struct.unpack_from(order + "I", sizes)
            stream.take(length - 12)
            interfaces = []
        else:
            size = stream.take(4)
            if not size:
                return
            (length,) = struct.unpack(order + "I", size)
            body = stream.take(length - 8)[:-4] if length >= 12 else b""
            if not body and length != 12:
                return
            if kind == INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind == ENHANCED and len(body) >= 20:
                number, high, low, captured, wire = struct.unpack_from(order + "5I", body)
                if number < len(interfaces):
                    link, per_second, offset_s = interfaces[number]
                    ticks = high << 32 | low
                    time_ns = ticks * 1_000_000_000 // per_second + offset_s * 1_000_000_000
                    after = 20 + captured + -captured % 4
                    comment = _option(body, after, order, 1).decode("utf-8", "replace").rstrip("\0")
                    yield time_ns, body[20 : 20 + min(captured, KEPT_BYTES)], captured, wire, link, comment
            elif kind == SIMPLE and interfaces and len(body) >= 4:
                (wire,) = struct.unpack_from(order + "I", body)
                captured = min(wire, len(body) - 4)
                yield 0, body[4 : 4 + min(captured, KEPT_BYTES)], captured, wire, interfaces[0][0], ""
        word = stream.take(4)
        if not word:
            return
        kind = SECTION if word == b"\n\r\r\n" else struct.unpack(order + "I", word)[0]


def _interface(body: bytes, order: str) -> tuple[int, int, int]:
    """Return link type, ticks a second and offset in seconds of an interface."""
    (link,) = struct.unpack_from(order + "H", body)
    resolution = _option(body, 8, order, 9) or b"\x06"
    offset = _option(body, 8, order, 14)
    exponent = resolution[0] & 0x7F
    per_second = 2**exponent if resolution[0] & 0x80 else 10**exponent
    return link, per_second, struct.unpack(order + "q", offset)[0] if len(offset) == 8 else 0


def _option(body: bytes, place: int, order: str, wanted: int) -> bytes:
    """Return the value of the first option with a code, or b"" where there is none."""
    while place + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, place)
        if code == 0:
            return b""
        if code == wanted:
            return body[place + 4 : place + 4 + length]
        place += 4 + length + -length % 4
    return b""


class _Fields:
    """Numbers in the packets of a batch, each at a place of its own."""

    def __init__(self, content: Bytes, captured: NDArray[np.int64]):
        self.content, self.captured = content, captured
        self.rows = np.arange(len(content))

    def number(self, place: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Read a whole number of `size` bytes at `place`; 0 beyond the bytes that are kept."""
        value = np.zeros(len(self.rows), np.int64)
        for i in range(size):
            at = np.clip(place + i, 0, self.content.shape[1] - 1)
            value = value << 8 | self.content[self.rows, at]
        return value

    def only(self, chosen: NDArray[np.bool_]) -> _Fields:
        return _Fields(self.content[chosen], self.captured[chosen])


def _decode(batch: _Batch) -> pd.DataFrame:
    """Decode the headers of a batch, all packets at once."""
    content = np.zeros((len(batch.heads), KEPT_BYTES), np.uint8)
    for row, head in enumerate(batch.heads):
        content[row, : len(head)] = np.frombuffer(head, np.uint8)
    numbers = np.array(batch.rest, np.int64)
    link = numbers[:, 3]
    kept = np.minimum(numbers[:, 1], KEPT_BYTES)
    fields = _Fields(content, kept)
    ip = np.full(len(link), -1, np.int64)
    for kind, size in LINK_BYTES.items():
        ip[link == kind] = size
    for _ in range(2):  # tags of VLANs, one or two
        tagged = (link == ETHERNET) & np.isin(fields.number(ip - 2, 2), VLAN_TYPES)
        ip[tagged] += 4
    version = fields.number(ip, 1) >> 4
    header = np.where(version == 4, (fields.number(ip, 1) & 15) * 4, 40)
    protocol = np.where(version == 4, fields.number(ip + 9, 1), fields.number(ip + 6, 1))
    first = (version == 6) | ((fields.number(ip + 6, 2) & 0x1FFF) == 0)  # later fragments have no ports
    good = (ip >= 0) & np.isin(version, (4, 6)) & (header >= 20) & np.isin(protocol, (6, 17)) & first
    good &= ip + header + np.where(protocol == 6, 20, 8) <= kept
    table = _columns(fields.only(good), ip[good], header[good], version[good], protocol[good])
    table.insert(0, "time_us", numbers[good, 0] / 1000)
    table["wire_bytes"] = numbers[good, 2].astype(np.float32)
    told = [parse_comment(each) if each else (None, None) for each in batch.comments]
    if any(label is not None for _, label in told):
        chosen = [told[row] for row in np.flatnonzero(good)]
        table = table.assign(sample=[sample for sample, _ in chosen], label=[label for _, label in chosen])
    return table


def _columns(
    fields: _Fields,
    ip: NDArray[np.int64],
    header: NDArray[np.int64],
    version: NDArray[np.int64],
    protocol: NDArray[np.int64],
) -> pd.DataFrame:
    is_4, is_tcp, after = version == 4, protocol == 6, ip + header

    def only(where: NDArray[np.bool_], values: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.where(where, values, np.nan).astype(np.float32)

    data_offset = (fields.number(after + 12, 1) >> 4) * 4
    transport = np.where(is_tcp, np.maximum(data_offset, 20), 8)
    length = np.where(is_4, fields.number(ip + 2, 2), fields.number(ip + 4, 2) + 40)
    stamps = _time_stamps(fields, after, np.where(is_tcp, data_offset, 0))
    columns: dict[str, Any] = {
        "source_port": fields.number(after, 2).astype(np.float32),
        "destination_port": fields.number(after + 2, 2).astype(np.float32),
        "protocol": protocol.astype(np.float32),
        "ip_length": length.astype(np.float32),
        "ip_ttl": np.where(is_4, fields.number(ip + 8, 1), fields.number(ip + 7, 1)).astype(np.float32),
        "ip_dscp": only(is_4, fields.number(ip + 1, 1)),
        "ip_flags": only(is_4, fields.number(ip + 6, 1) >> 5),
        "ip_id": only(is_4, fields.number(ip + 4, 2)),
        "ip_checksum": only(is_4, fields.number(ip + 10, 2)),
        "tcp_seq": only(is_tcp, fields.number(after + 4, 4)),
        "tcp_ack": only(is_tcp, fields.number(after + 8, 4)),
        "tcp_header_bytes": only(is_tcp, data_offset),
        "tcp_flags": only(is_tcp, fields.number(after + 13, 1)),
        "tcp_window": only(is_tcp, fields.number(after + 14, 2)),
        "tcp_checksum": only(is_tcp, fields.number(after + 16, 2)),
        "tcp_tsval": only(stamps[0] >= 0, stamps[0]),
        "tcp_tsecr": only(stamps[0] >= 0, stamps[1]),
        "udp_checksum": only(~is_tcp, fields.number(after + 6, 2)),
        "payload_bytes": np.maximum(length - header - transport, 0).astype(np.float32),
    }
    payload = after + transport
    there = np.minimum(fields.captured, payload + columns["payload_bytes"].astype(np.int64))
    for i in range(PAYLOAD_BYTES):
        columns[f"payload_{i + 1}"] = only(payload + i < there, fields.number(payload + i, 1))
    for end, at_4, at_6 in (("source_address", 12, 8), ("destination_address", 16, 24)):
        columns[f"{end}_high"] = np.where(is_4, 0, fields.number(ip + at_6, 8)).astype(np.uint64)
        low = np.where(is_4, fields.number(ip + at_4, 4), fields.number(ip + at_6 + 8, 8))
        columns[f"{end}_low"] = low.astype(np.uint64)
    columns["version"] = version
    return pd.DataFrame(columns)


def _time_stamps(
    fields: _Fields, tcp: NDArray[np.int64], header: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return TCP's time stamp and its echo, or -1."""
    value, echo = np.full(len(tcp), -1, np.int64), np.full(len(tcp), -1, np.int64)
    for there, place in time_stamp_options(lambda at: fields.number(at, 1), tcp + 20, tcp + header):
        first = there & (value < 0)
        value = np.where(first, fields.number(place + 2, 4), value)
        echo = np.where(first, fields.number(place + 6, 4), echo)
    return value, echo
