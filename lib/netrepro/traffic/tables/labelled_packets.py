"""Packets of captures as rows: headers, the first bytes of payload, and the labels that pcapml puts in comments.

pcapml (Holland et al., nprint/pcapml) writes in each packet's comment the sample that it belongs to and its label:
"SAMPLE,LABEL", or since 2026 "s=SAMPLE,proc=LABEL,key=value". Options of pcapng blocks are in draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import netrepro._core as _core
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
Bytes = NDArray[np.uint8]


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


def _batches(chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the packets of one capture as columns, in batches that are not decoded yet."""
    reader = _core.PacketReader(KEPT_BYTES)
    for chunk in chunks:
        reader.feed(chunk)
        if reader.packets() >= BATCH_PACKETS:
            yield reader.take()
    reader.finish()
    if reader.packets():
        yield reader.take()


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


def _decode(batch: dict[str, Any]) -> pd.DataFrame:
    """Decode the headers of a batch, all packets at once."""
    link = batch["link_type"]
    kept = np.minimum(batch["captured_bytes"], KEPT_BYTES)
    fields = _Fields(batch["heads"], kept)
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
    table.insert(0, "time_us", batch["time_us"][good].astype(float))
    table["wire_bytes"] = batch["wire_bytes"][good].astype(np.float32)
    comments = [comment.decode("utf-8", "replace").rstrip("\0") for comment in batch["comments"]]
    told = [parse_comment(comment) if comment else (None, None) for comment in comments]
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
