"""The messages of the peer wire protocol (BEP 3), and their encoding as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

PROTOCOL = b"\x13BitTorrent protocol"
HANDSHAKE_BYTES = 68
ID_BYTES = 20
KINDS = ("choke", "unchoke", "interested", "not interested", "have", "bitfield", "request", "piece", "cancel")
WITHOUT_PAYLOAD = KINDS[:4]
MOST_BYTES = 2**20  # longest message: a block is 16 KiB, and a bitfield of this length has 8 million pieces


class ProtocolError(Exception):
    """The other side broke the protocol, and the connection must be closed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    kind : one of KINDS, "keep alive" or "handshake". piece, offset, length : used by have (piece), by request and
    cancel (all three), and by piece (piece, offset). data : a piece message's block, a bitfield's bits, or a
    handshake's info hash and peer name (20 bytes each).
    """

    kind: str
    piece: int = 0
    offset: int = 0
    length: int = 0
    data: bytes = b""


def handshake(info_hash: bytes, peer_id: bytes) -> bytes:
    """Return the handshake that begins a connection; it offers no extension."""
    return PROTOCOL + bytes(8) + info_hash + peer_id


def encode(message: Message) -> bytes:
    """Encode a message (except a handshake), preceded by its length."""
    if message.kind == "keep alive":
        return bytes(4)
    if message.kind == "have":
        body = struct.pack(">I", message.piece)
    elif message.kind in ("request", "cancel"):
        body = struct.pack(">III", message.piece, message.offset, message.length)
    elif message.kind == "piece":
        body = struct.pack(">II", message.piece, message.offset) + message.data
    else:
        body = message.data if message.kind == "bitfield" else b""
    return struct.pack(">IB", 1 + len(body), KINDS.index(message.kind)) + body


def encode_bits(have: list[bool] | tuple[bool, ...]) -> bytes:
    """Encode a bitfield: the first piece is the highest bit of the first byte; unused bits are 0."""
    bits = bytearray((len(have) + 7) // 8)
    for piece, is_there in enumerate(have):
        if is_there:
            bits[piece // 8] |= 0x80 >> piece % 8
    return bytes(bits)


def decode_bits(bits: bytes, pieces: int) -> list[bool]:
    """Decode a bitfield: whether each piece is there. Raises ProtocolError for a wrong length or a set unused bit."""
    if len(bits) != (pieces + 7) // 8:
        raise ProtocolError(f"a bitfield of {len(bits)} bytes for {pieces} pieces")
    have = [bool(bits[piece // 8] & 0x80 >> piece % 8) for piece in range(8 * len(bits))]
    if any(have[pieces:]):
        raise ProtocolError("a spare bit of the bitfield is set")
    return have[:pieces]


class Decoder:
    """A decoder of one connection's bytes, which may arrive in any parts, into whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._greeted = False

    @property
    def missing_bytes(self) -> int:
        """The number of missing bytes of a begun message; 0 if none has begun or its length is not yet known."""
        if not self._greeted or len(self._buffer) < 4:
            return 0
        return 4 + int(struct.unpack_from(">I", self._buffer)[0]) - len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are now complete, except those of a kind that BEP 3 does not have.

        Raises ProtocolError for a wrong handshake or message.
        """
        self._buffer += data
        if not self._greeted:
            begin = bytes(self._buffer[: len(PROTOCOL)])
            if begin != PROTOCOL[: len(begin)]:
                raise ProtocolError("this is not BitTorrent")
            if len(self._buffer) < HANDSHAKE_BYTES:
                return
            names = bytes(self._buffer[HANDSHAKE_BYTES - 2 * ID_BYTES : HANDSHAKE_BYTES])
            del self._buffer[:HANDSHAKE_BYTES]
            self._greeted = True
            yield Message("handshake", data=names)
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">I", self._buffer)
            if size > MOST_BYTES:
                raise ProtocolError(f"a message of {size} bytes")
            if len(self._buffer) < 4 + size:
                return
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            if not size:
                yield Message("keep alive")
            elif body[0] < len(KINDS):
                yield _decode(KINDS[body[0]], body[1:])


def _decode(kind: str, body: bytes) -> Message:
    sizes = {"have": 4, "request": 12, "cancel": 12} | dict.fromkeys(WITHOUT_PAYLOAD, 0)
    if len(body) != sizes.get(kind, len(body)) or (kind == "piece" and len(body) < 8):
        raise ProtocolError(f"{kind!r} with {len(body)} bytes")
    if kind == "bitfield":
        return Message(kind, data=body)
    if kind == "piece":
        piece, offset = struct.unpack_from(">II", body)
        return Message(kind, piece, offset, data=body[8:])
    return Message(kind, *struct.unpack(f">{len(body) // 4}I", body))
