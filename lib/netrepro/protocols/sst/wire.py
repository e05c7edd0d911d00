"""SST's packets, and their encoding as bytes.

A packet is a channel header of two words (channel 8 bits, sequence number 24; reserved 4, count 4, acknowledged 24), at
most one segment of a stream, and a checksum. Sequence numbers have 64 bits, of which the low 24 are sent. The layout is
that of the paper's prototype and of the specification; the paper's figure has Init's two identifiers in the opposite
order. The packets of the negotiation are our own design.
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass
from itertools import accumulate

INIT, REPLY, DATA, DATAGRAM, ACK, RESET, ATTACH, DETACH = range(1, 9)
KINDS = range(1, 9)
PUSH, MESSAGE, CLOSE = 4, 2, 1  # flags of Init, Reply and Data
FIRST, LAST = 2, 1  # of Datagram
ATTACH_INIT, ATTACH_SLOT = 8, 1  # of Attach
RESET_OURS = 1  # flag of Reset: the stream's number is the receiver's
SUBSTREAM_WINDOW, INHERITED_WINDOW = 0x80, 0x40  # flags in the byte of the window's exponent

MTU_BYTES = 1200  # largest payload of a segment
MOST_STATELESS_BYTES = 4 * MTU_BYTES  # largest datagram
CHANNEL_HEADER_BYTES, CHECKSUM_BYTES = 8, 4
SEQUENCE_BITS = 24
MOST_COUNT = 15
MOST_EXPONENT = 31
MAGIC = 0x00535354  # first word of a negotiation: no channel has the number 0, so it differs from all packets
HELLO, WELCOME = 1, 2

_SEGMENT, _TWO, _WORD, _HEADER = (struct.Struct(format) for format in (">HBB", ">HH", ">I", ">II"))
_NEGOTIATION = struct.Struct(">IBB2x")


class WireError(Exception):
    """The error that bytes are not a valid packet, or that a value does not fit its field."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of a channel.

    sequence : the full number. acked : the highest number acknowledged. count : number of packets directly before
    `acked` that are acknowledged, too. body : a segment's bytes, or b"" for a packet that only acknowledges.
    """

    channel: int
    sequence: int
    acked: int
    count: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of a packet that concerns a stream.

    stream : the stream's number at the sender; in Init, the parent's number. other : in Init, the new stream's number;
    in Reply, the number at the receiver. offset : offset of the first byte (16 bits in Init and Reply, 32 in Data).
    exponent : n, for a window of at least 2^n - 1 unacknowledged bytes.
    """

    kind: int
    stream: int
    flags: int = 0
    exponent: int = 0
    other: int = 0
    offset: int = 0
    payload: bytes = b""
    window_flags: int = 0

    def encode(self) -> bytes:
        """Encode the bytes between channel header and checksum. Raises WireError for a value that does not fit."""
        if self.window_flags & ~(SUBSTREAM_WINDOW | INHERITED_WINDOW) or not 0 <= self.exponent <= MOST_EXPONENT:
            raise WireError(f"a window of {self.exponent} and {self.window_flags:#x}")
        if self.kind not in KINDS or not 0 <= self.flags < 16:
            raise WireError(f"kind {self.kind} with flags {self.flags}")
        try:
            head = _SEGMENT.pack(self.stream, self.kind << 4 | self.flags, self.window_flags | self.exponent)
            if self.kind in (INIT, REPLY):
                head += _TWO.pack(self.other, self.offset)
            elif self.kind == DATA:
                head += _WORD.pack(self.offset)
        except struct.error:
            raise WireError(f"{self} does not fit") from None
        return head + self.payload


def decode_segment(body: bytes) -> Segment:
    """Decode a segment encoded by `Segment.encode`. Raises WireError for anything else."""
    if len(body) < _SEGMENT.size:
        raise WireError(f"a segment of {len(body)} bytes")
    stream, kind, window = _SEGMENT.unpack_from(body)
    flags, kind, place, other, offset = kind & 15, kind >> 4, _SEGMENT.size, 0, 0
    if kind not in KINDS or window & 0x20:
        raise WireError(f"kind {kind}, window {window:#x}")
    try:
        if kind in (INIT, REPLY):
            other, offset = _TWO.unpack_from(body, place)
            place += _TWO.size
        elif kind == DATA:
            (offset,) = _WORD.unpack_from(body, place)
            place += _WORD.size
    except struct.error:
        raise WireError(f"kind {kind} in {len(body)} bytes") from None
    return Segment(kind, stream, flags, window & 0x1F, other, offset, body[place:], window & 0xC0)


def checksum(data: bytes) -> int:
    """Compute the low halves of two running sums of 16-bit words modulo 65537; the padding begins with a byte 0x80."""
    whole = len(data) & ~1
    # Zeros at the end (responses consist of zeros) do not change the first sum, so they need no loop.
    busy = len(data[:whole].rstrip(b"\0")) + 1 & ~1
    words = array("H", data[:busy])
    if sys.byteorder == "little":
        words.byteswap()
    sums = list(accumulate(words, initial=0))
    last = sums[-1] + (data[-1] << 8 | 0x80 if len(data) % 2 else 0x8000)
    both = sum(sums) + sums[-1] * (whole - busy >> 1) + last
    return (last % 65537 & 0xFFFF) | (both % 65537 & 0xFFFF) << 16


def encode(packet: Packet, key: int = 0) -> bytes:
    """Encode a packet. Its checksum covers the full sequence number and the bytes; `key` is added to the checksum."""
    mask = (1 << SEQUENCE_BITS) - 1
    if not 0 < packet.channel < 256 or not 0 <= packet.count <= MOST_COUNT or packet.sequence < 0:
        raise WireError(f"{packet} does not fit")
    first = packet.channel << SEQUENCE_BITS | packet.sequence & mask
    data = _HEADER.pack(first, packet.count << SEQUENCE_BITS | packet.acked & mask) + packet.body
    return data + _WORD.pack(checksum(packet.sequence.to_bytes(8, "big") + data) + key & 0xFFFFFFFF)


def decode(data: bytes, highest: int, acked: int, key: int = 0) -> Packet:
    """Decode a packet. Its full numbers are those nearest to the highest one received (`highest`) and acknowledged.

    Raises WireError for a packet that is too short, has a wrong checksum, or would have a number below 0.
    """
    if len(data) < CHANNEL_HEADER_BYTES + CHECKSUM_BYTES:
        raise WireError(f"a packet of {len(data)} bytes")
    first, second = _HEADER.unpack_from(data)
    sequence, of = nearest(first, highest, SEQUENCE_BITS), nearest(second, acked, SEQUENCE_BITS)
    if sequence < 0 or of < 0 or first >> SEQUENCE_BITS == 0 or second >> 28:
        raise WireError("a header that cannot be")
    content = data[:-CHECKSUM_BYTES]
    if checksum(sequence.to_bytes(8, "big") + content) + key & 0xFFFFFFFF != _WORD.unpack(data[-CHECKSUM_BYTES:])[0]:
        raise WireError("another checksum")
    return Packet(first >> SEQUENCE_BITS, sequence, of, second >> SEQUENCE_BITS & 15, content[CHANNEL_HEADER_BYTES:])


def nearest(low: int, to: int, bits: int) -> int:
    """Return the number nearest to `to` whose low `bits` bits are those of `low`."""
    difference = (low - to) & (1 << bits) - 1
    return to + difference - (1 << bits if difference >= 1 << bits - 1 else 0)


def negotiation(kind: int, channel: int) -> bytes:
    """Encode a negotiation: HELLO asks for a channel of this number, WELCOME confirms it."""
    return _NEGOTIATION.pack(MAGIC, kind, channel)


def decode_negotiation(data: bytes) -> tuple[int, int] | None:
    """Decode the kind and channel of a negotiation; None for anything else."""
    if len(data) != _NEGOTIATION.size:
        return None
    magic, kind, channel = _NEGOTIATION.unpack(data)
    return (kind, channel) if magic == MAGIC and kind in (HELLO, WELCOME) and channel else None
