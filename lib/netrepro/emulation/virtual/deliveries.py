"""The data that a stream's receiver holds in order, and the part that its sender knows of, from packet headers.

The kernel counts only the data that its application has read. Packets show more: which data has arrived, and which has
been acknowledged. TCP has sequence numbers for this, MPTCP (RFC 8684, section 3.3) data sequence signals. Each segment,
on any subflow, says which bytes of the stream it carries; each acknowledgement says how far the stream has arrived.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from netrepro.emulation.virtual.plan import CAPTURED_BYTES
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Port
from netrepro.networks.tables import ACKNOWLEDGEMENT_COLUMNS, DELIVERY_COLUMNS

_FILE_HEADER, _RECORD = 24, struct.Struct("=4I")
_IP, _TCP, _OPTIONS = 14, 34, 54  # offsets in a frame; hosts send no IP options
_IP_PROTOCOL_TCP, _SYN, _ACK = 6, 0x02, 0x10
_END, _NO_OPERATION, _MPTCP, _SIGNAL = 0, 1, 30, 2  # kinds of TCP options; subtype of MPTCP's data sequence signal
_HAS_ACK, _LONG_ACK, _HAS_MAP, _LONG_MAP = 0x01, 0x02, 0x04, 0x08


@dataclass(frozen=True)
class Headers:
    """The headers of a capture's TCP packets, in order; arrays of one length.

    time_ns : the times at which packets left. ends : source address, destination address, source port, destination
    port, shape (packets, 4). syn : True where the packet opens a connection. payload : bytes of payload. sequence,
    acknowledged : TCP's numbers of 32 bits; acknowledged is -1 where the packet acknowledges nothing.
    data_acknowledged : MPTCP's number of 64 bits, valid where `has_data_acknowledged`; only the lower half where the
    sender writes 32 bits. data_sequence, mapped_from, mapped_bytes : valid where `has_map`: `mapped_bytes` bytes of the
    subflow from `mapped_from` on are the bytes of the stream from `data_sequence` on.
    """

    time_ns: np.ndarray
    ends: np.ndarray
    syn: np.ndarray
    payload: np.ndarray
    sequence: np.ndarray
    acknowledged: np.ndarray
    has_data_acknowledged: np.ndarray
    data_acknowledged: np.ndarray
    has_map: np.ndarray
    data_sequence: np.ndarray
    mapped_from: np.ndarray
    mapped_bytes: np.ndarray


def streams(
    experiment: Experiment, ends: Mapping[int, tuple[Port, Port]], captures: Mapping[Port, bytes], began_ns: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return DELIVERY_COLUMNS and ACKNOWLEDGEMENT_COLUMNS of the flows, until the experiment's end.

    A row is a time at which the count grows. A packet counts when the last link before its host has sent it. ends :
    flow -> its last links. captures : port -> its pcap file's bytes. began_ns : the captures' clock at time 0.
    """
    tables: tuple[list[pd.DataFrame], list[pd.DataFrame]] = ([], [])
    for flow, (towards, back) in ends.items():
        data, answers = (read_headers(captures[port]) for port in (towards, back))
        if not len(data.syn):
            continue
        for table, kept in zip(stream_of(data, answers), tables, strict=True):
            timed = table.assign(flow=flow, time_s=(table.pop("time_ns") - began_ns) / 1e9)
            kept.append(timed[timed.time_s <= experiment.duration_s])
    columns = DELIVERY_COLUMNS, ACKNOWLEDGEMENT_COLUMNS
    delivered, acknowledged = (
        pd.concat(kept, ignore_index=True)[names] if kept else pd.DataFrame(columns=names)
        for kept, names in zip(tables, columns, strict=True)
    )
    return delivered, acknowledged


def last_links(experiment: Experiment, flow: int) -> tuple[Port, Port]:
    """Return the last link to a flow's destination, and the last link to its source.

    Raises NetreproError for a replicated flow, for hosts that other flows use or that have several cables, and for last
    links with delay.
    """
    table = experiment.flow_table
    asked = table.loc[flow]
    hosts = [asked["destination"], asked["source"]]
    others = table[table["flow"] != flow]
    if asked["replication"] or others[["source", "destination"]].isin(hosts).any(axis=None):
        raise NetreproError(
            f"deliveries of flow {flow} on tier 'virtual', which is replicated or shares a host with other flows",
            "give it hosts of its own, or use tier 'simulated'",
        )
    last = []
    for host in hosts:
        ports = [port for port in experiment.topology.ports if port[1] == host]
        link = experiment.topology.link(*ports[0])
        if len(ports) != 1 or link.delay_ms or link.jitter_ms:
            raise NetreproError(
                f"{host} has {len(ports)} cables, or a last link with delay", "give it one cable, and delay before it"
            )
        last.append(ports[0])
    return last[0], last[1]


def read_headers(content: bytes) -> Headers:
    """Read the headers of the TCP packets in a capture of emulate_virtually. content : the pcap file's bytes."""
    times, rows, sizes, at = [], [], [], _FILE_HEADER
    while at + _RECORD.size <= len(content):
        seconds, nanoseconds, kept, _ = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        times.append(seconds * 10**9 + nanoseconds)
        rows.append(at)
        sizes.append(kept)
        at += kept
    frames = np.zeros((len(rows), CAPTURED_BYTES + 64), np.uint8)  # room behind, for reads of a truncated option
    whole = np.frombuffer(content, np.uint8)
    for row, (start, kept) in enumerate(zip(rows, sizes, strict=True)):
        frames[row, :kept] = whole[start : start + kept]
    is_tcp = (frames[:, 12] == 8) & (frames[:, 13] == 0) & (frames[:, _IP + 9] == _IP_PROTOCOL_TCP)
    return _headers(np.array(times, np.int64)[is_tcp], frames[is_tcp])


def _number(frames: np.ndarray, at: np.ndarray | int, size: int) -> np.ndarray:
    """Read the big-endian number of `size` bytes at the offset `at` in every frame."""
    places = np.broadcast_to(at, len(frames))[:, None] + np.arange(size)
    taken = np.take_along_axis(frames, places, axis=1).astype(np.uint64)
    numbers = np.zeros(len(frames), np.uint64)
    for place in range(size):
        numbers = numbers << np.uint64(8) | taken[:, place]
    return numbers


def _headers(time_ns: np.ndarray, frames: np.ndarray) -> Headers:
    header_bytes = (frames[:, _TCP + 12] >> 4).astype(np.int64) * 4
    flags = frames[:, _TCP + 13]
    signal_at = _find_signal(frames, _TCP + header_bytes)
    there = signal_at >= 0
    at = np.where(there, signal_at, 0)
    says = np.where(there, np.take_along_axis(frames, (at + 3)[:, None], axis=1)[:, 0], 0)
    has_ack, has_map = (says & _HAS_ACK) > 0, (says & _HAS_MAP) > 0
    long_ack, long_map = (says & _LONG_ACK) > 0, (says & _LONG_MAP) > 0
    map_at = at + 4 + np.where(has_ack, np.where(long_ack, 8, 4), 0)
    behind = map_at + np.where(long_map, 8, 4)
    return Headers(
        time_ns=time_ns,
        ends=np.stack([_number(frames, place, size) for place, size in ((26, 4), (30, 4), (34, 2), (36, 2))], axis=1),
        syn=(flags & _SYN) > 0,
        payload=_number(frames, _IP + 2, 2).astype(np.int64) - 20 - header_bytes,
        sequence=_number(frames, _TCP + 4, 4).astype(np.int64),
        acknowledged=np.where(flags & _ACK, _number(frames, _TCP + 8, 4).astype(np.int64), -1),
        has_data_acknowledged=has_ack,
        data_acknowledged=np.where(long_ack, _number(frames, at + 4, 8), _number(frames, at + 4, 4)),
        has_map=has_map,
        data_sequence=np.where(long_map, _number(frames, map_at, 8), _number(frames, map_at, 4)),
        mapped_from=_number(frames, behind, 4).astype(np.int64),
        mapped_bytes=_number(frames, behind + 4, 2).astype(np.int64),
    )


def _find_signal(frames: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the offset of each frame's data sequence signal, -1 for none. ends : offsets behind the TCP headers."""
    places, at = np.full(len(frames), -1), np.full(len(frames), _OPTIONS)
    while (going := at < ends).any():
        kind, size, subtype = (np.take_along_axis(frames, (at + k)[:, None], axis=1)[:, 0] for k in range(3))
        places = np.where(going & (kind == _MPTCP) & (subtype >> 4 == _SIGNAL), at, places)
        step = np.where(kind == _NO_OPERATION, 1, np.maximum(size.astype(np.int64), 2))
        at = np.where(going, np.where(kind == _END, ends, at + step), at)
    return places


def stream_of(data: Headers, answers: Headers) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return deliveries in order (time_ns, delivered_bytes) and acknowledgements (time_ns, acknowledged_bytes).

    data : headers of the packets that reached the receiver, from the first packet on. answers : headers of the packets
    that reached the sender. Where no segment has a data sequence signal with a map, the stream is a TCP connection.
    """
    opening = zip(data.ends[data.syn].tolist(), data.sequence[data.syn].tolist(), strict=True)
    opened = {tuple(ends): int(number) for ends, number in opening}
    if not data.has_map.any():
        return _stream_of_tcp(data, answers, opened)
    has_bytes = (data.payload > 0) & ~data.syn
    first = data.data_sequence[data.has_map & has_bytes]
    base = int(first[0])
    pieces = []
    maps: dict[tuple, tuple[int, int, int]] = {}
    for row in np.flatnonzero(has_bytes):
        ends = tuple(data.ends[row].tolist())
        if data.has_map[row]:
            ahead = _ahead(int(data.data_sequence[row]), base)
            maps[ends] = ahead, int(data.mapped_from[row]), int(data.mapped_bytes[row])
        if ends not in maps or ends not in opened:
            continue
        ahead, mapped_from, mapped_bytes = maps[ends]
        within = (int(data.sequence[row]) - opened[ends] - mapped_from) % 2**32
        if within < mapped_bytes:
            pieces.append((int(data.time_ns[row]), ahead + within, int(data.payload[row])))
    origin = min(start for _, start, _ in pieces)
    told = answers.has_data_acknowledged
    heard = zip(answers.time_ns[told].tolist(), answers.data_acknowledged[told].tolist(), strict=True)
    return _in_order(pieces, origin), _growing([(time_ns, _ahead(each, base) - origin) for time_ns, each in heard])


def _stream_of_tcp(data: Headers, answers: Headers, opened: dict) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the result of stream_of for one TCP connection, by TCP's own sequence numbers."""
    if len(opened) != 1:
        raise NetreproError(f"{len(opened)} connections of TCP that carry one stream", "give the flow one path")
    (first,) = opened.values()
    has_bytes = (data.payload > 0) & ~data.syn
    numbers = _unwrapped(data.sequence[has_bytes], first + 1)
    pieces = list(zip(data.time_ns[has_bytes].tolist(), numbers, data.payload[has_bytes].tolist(), strict=True))
    told = answers.acknowledged >= 0
    heard = zip(answers.time_ns[told].tolist(), _unwrapped(answers.acknowledged[told], first + 1), strict=True)
    return _in_order(pieces, 0), _growing(list(heard))


def _ahead(number: int, base: int) -> int:
    """Return the distance of a number of 64 bits, or of its lower 32 bits, from the base; may be negative."""
    whole = 2**64 if number >= 2**32 else 2**32
    return (number - base + whole // 2) % whole - whole // 2


def _unwrapped(numbers: np.ndarray, first: int) -> list[int]:
    """Turn TCP's 32-bit numbers into distances from `first`; successive numbers differ by less than 2^31."""
    steps = np.diff(np.concatenate([[first], numbers]))
    steps = (steps + 2**31) % 2**32 - 2**31
    return np.cumsum(steps).tolist()


def _in_order(pieces: list[tuple[int, int, int]], origin: int) -> pd.DataFrame:
    """List time_ns and delivered_bytes, a row for each growth. pieces : (time_ns, first byte, number of bytes)."""
    held, early, rows = origin, [], []  # type: ignore[var-annotated]
    for time_ns, start, size in pieces:
        heapq.heappush(early, (start, size))
        before = held
        while early and early[0][0] <= held:
            begins, length = heapq.heappop(early)
            held = max(held, begins + length)
        if held > before:
            rows.append((time_ns, held - origin))
    return pd.DataFrame(rows, columns=["time_ns", "delivered_bytes"], dtype=np.int64)


def _growing(heard: list[tuple[int, int]]) -> pd.DataFrame:
    """List time_ns and acknowledged_bytes, a row for each growth."""
    table = pd.DataFrame(heard, columns=["time_ns", "acknowledged_bytes"], dtype=np.int64)
    known = table.acknowledged_bytes.cummax()
    return table[known > known.shift(fill_value=0)].reset_index(drop=True)
