"""SST's streams: bytes in order in both directions of a channel, without a handshake before the first byte.

A stream's first packets name its parent (Init) or the stream that they answer (Reply). After one of them has been
acknowledged, the stream sends Data packets. The receiver grants credit: the largest number of unacknowledged bytes. The
bytes of Init packets use the parent's credit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from netrepro.errors import NetreproError
from netrepro.protocols.sst import wire

STREAMS_AT_ONCE = 1 << 15  # the low 16 bits of a number must identify the stream
MOST_FIRST_OFFSET = 0xFFFF  # largest offset in Init or Reply
FIRST_WINDOW_BYTES = 0xFFFF  # the root's credit until the other end announces a window
PROBE_S = 1.0  # interval at which a sender without credit sends a probe


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a stream's bytes that is sent in one packet; `payer` is the stream whose credit it uses."""

    stream: Stream
    payer: Stream
    offset: int
    length: int
    closes: bool


class Owner(Protocol):
    """The end of a channel, as its streams see it."""

    def wants(self, stream: Stream) -> None:
        """Note that a stream has something to send."""

    def tell_window(self, stream: Stream) -> None:
        """Tell the other end that a stream has room again."""

    def settle(self, stream: Stream) -> None:
        """Forget a stream that has ended in both directions."""


class Stream:
    """One end of a stream. `number` is this end's number for the stream (with all its bits), `remote` the other end's.

    `parent` is None for the root. Write with `write`, read with `read`; slow reading slows the sender down.
    """

    def __init__(self, peer: Owner, number: int | None, parent: Stream | None, is_ours: bool, buffer_bytes: int):
        self._peer, self.number, self.parent, self.is_ours = peer, number, parent, is_ours
        self.remote: int | None = None
        self.buffer_bytes = buffer_bytes
        self.is_dead = False
        # Sending.
        self.credit_bytes: int = FIRST_WINDOW_BYTES if parent is None else parent.credit_bytes
        self.unacked_bytes, self.pieces_out = 0, 0
        self.is_known = parent is None  # whether an Init or a Reply was acknowledged
        self._data, self._next = bytearray(), 0
        self._ends = self._end_sent = False
        self._again: deque[tuple[int, int, bool]] = deque()
        self.probe = False
        # Receiving.
        self._expected = 0
        self._early: dict[int, bytes] = {}
        self._ready = bytearray()
        self.end: int | None = None  # the offset at which the other end's bytes end, once known
        self._told_end = False

    @property
    def received_bytes(self) -> int:
        """The number of bytes received in order, read or not."""
        return self._expected

    @property
    def is_at_end(self) -> bool:
        """True where the other end has closed and all its bytes have been read."""
        return self.end is not None and self._expected >= self.end and not self._ready

    @property
    def is_sent(self) -> bool:
        """True where this end has closed and all its bytes have been acknowledged."""
        return self._end_sent and not self._again and not self.pieces_out

    @property
    def exponent(self) -> int:
        """The exponent of the window: the largest n for which 2^n - 1 bytes fit into the buffer."""
        free = self.buffer_bytes - len(self._ready) - sum(map(len, self._early.values()))
        return max(free + 1, 1).bit_length() - 1

    def write(self, data: bytes, close: bool = False) -> None:
        """Queue bytes, which `Peer.flush` sends; `close` ends the stream after them. Raises NetreproError after the
        end."""
        if self._ends or self.is_dead:
            raise NetreproError("a write to a stream that has ended", "open another one")
        self._data += data
        self._ends = close
        self._peer.wants(self)

    def read(self, most: int | None = None) -> bytes:
        """Remove and return the bytes that have arrived in order, at most `most` of them."""
        before, content = self.exponent, bytes(self._ready[:most])
        del self._ready[: len(content)]
        if self.exponent > before and self.end is None:
            self._peer.tell_window(self)
        self._peer.settle(self)
        return content

    # The interface for the peer.

    def wants_to_send(self) -> bool:
        """Tell whether there is anything to send, regardless of credit."""
        fresh = self._next < len(self._data) or (self._ends and not self._end_sent) or self.probe
        return not self.is_dead and bool(self._again or fresh)

    def next_piece(self) -> Piece | None:
        """Return the piece for the next packet; None where credit or the largest offset of Init or Reply forbids it."""
        first = not self.is_known
        payer = self.parent if first and self.is_ours and self.parent is not None else self
        left = payer.credit_bytes - payer.unacked_bytes
        if self._again and (left >= self._again[0][1] or not payer.unacked_bytes):
            offset, length, closes = self._again.popleft()
            return self._out(Piece(self, payer, offset, length, closes))
        if self._again or (first and self._next > MOST_FIRST_OFFSET):
            return None
        wanted = min(len(self._data) - self._next, wire.MTU_BYTES)
        length = min(wanted, max(left, 0))
        if length < wanted and payer.unacked_bytes and not self.probe:
            return None  # no small packets while more credit may come
        closes = self._ends and self._next + length == len(self._data)
        if not (length or (closes and not self._end_sent) or self.probe):
            return None
        self.probe = False
        piece = Piece(self, payer, self._next, length, closes)
        self._next += length
        self._end_sent |= closes
        return self._out(piece)

    def _out(self, piece: Piece) -> Piece:
        piece.payer.unacked_bytes += piece.length
        self.pieces_out += 1
        return piece

    def segment(self, piece: Piece) -> wire.Segment:
        """Return a piece as a segment: Init, Reply or Data, by the stream's present state."""
        assert self.number is not None
        payload = bytes(self._data[piece.offset : piece.offset + piece.length])
        ends = piece.offset + piece.length == len(self._data)
        flags, number = wire.CLOSE * piece.closes | wire.PUSH * ends, self.number & 0xFFFF
        if self.is_known:
            return wire.Segment(wire.DATA, number, flags, self.exponent, 0, piece.offset & 0xFFFFFFFF, payload)
        if self.is_ours:
            assert self.parent is not None and self.parent.number is not None
            parent = self.parent.number & 0xFFFF
            return wire.Segment(wire.INIT, parent, flags, self.exponent, number, piece.offset, payload)
        assert self.remote is not None
        other = self.remote & 0xFFFF
        return wire.Segment(wire.REPLY, number, flags, self.exponent, other, piece.offset, payload)

    def back(self, piece: Piece, is_acked: bool) -> None:
        """Note that a piece was acknowledged or lost; a lost one will be sent again."""
        piece.payer.unacked_bytes -= piece.length
        self.pieces_out -= 1
        if is_acked:
            self.is_known = True
        elif piece.length or piece.closes:
            self._again.append((piece.offset, piece.length, piece.closes))

    def take(self, segment: wire.Segment) -> bool:
        """Store the bytes of a segment; return whether they fit into the buffer. Duplicate bytes always fit."""
        offset = wire.nearest(segment.offset, self._expected, 32) if segment.kind == wire.DATA else segment.offset
        end = offset + len(segment.payload)
        if (self.end is not None and end > self.end) or (segment.flags & wire.CLOSE and end < self._expected):
            return True  # beyond the end: ignored, as no correct sender does this
        fresh = segment.payload[max(self._expected - offset, 0) :]
        held = len(self._ready) + sum(map(len, self._early.values()))
        if fresh and held + len(fresh) > self.buffer_bytes:
            return False
        if segment.flags & wire.CLOSE:
            self.end = end
        if fresh:
            start = max(offset, self._expected)
            if len(fresh) > len(self._early.get(start, b"")):
                self._early[start] = fresh
        while self._early and (first := min(self._early)) <= self._expected:
            content = self._early.pop(first)[self._expected - first :]
            self._ready += content
            self._expected += len(content)
        return True

    def news(self) -> list[str]:
        """Return the names of new events: "readable" while bytes wait, and "ended" once."""
        kinds = ["readable"] if self._ready else []
        if self.end is not None and self._expected >= self.end and not self._told_end:
            self._told_end = True
            kinds.append("ended")
        return kinds
