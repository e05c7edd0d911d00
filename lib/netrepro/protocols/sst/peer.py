"""One end of SST: a machine with a channel to another machine, and the channel's streams.

Both ends use the same channel number, which the asking end chooses. A stream ends with its channel: the request to
attach it to another channel (Attach) is answered with Reset.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import islice

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event, Output, Send
from netrepro.protocols.sst import wire
from netrepro.protocols.sst.channel import Channel, Manners
from netrepro.protocols.sst.streams import PROBE_S, STREAMS_AT_ONCE, Piece, Stream

HELLO_S = 0.5  # time until HELLO is first repeated; doubles each time
FRAGMENT = "a fragment"  # the word for packets of a datagram, whose fate has no effect
ROOT = 0
MOST_KEPT = 64  # fragments
BUFFER_BYTES = 0x10000  # receive buffer of a stream


class Peer:
    """One end, which talks to `other`; it `asks` for the channel or waits. `flush` sends what was written to streams.

    Events: "up"; "opened", "readable", "ended", "reset" (of a stream); "datagram" ((stream, bytes)). The stream `root`
    exists from the beginning; every other stream has a parent.
    """

    def __init__(
        self,
        other: Hashable,
        asks: bool,
        number: int = 1,
        manners: Manners | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ):
        self.other, self.asks, self.buffer_bytes = other, asks, buffer_bytes
        self.channel = Channel(number, manners)
        self.is_up, self._hello_at_s, self._hellos = False, math.inf, 0
        self.root = Stream(self, ROOT, None, True, buffer_bytes)
        self.root.remote = ROOT
        self._ours: dict[int, Stream] = {ROOT: self.root}  # streams by this end's number
        self._theirs: dict[int, Stream] = {ROOT: self.root}
        self._gone: dict[int, bool] = {}  # the other end's number of a recently ended stream -> whether it was reset
        self._last_ours = self._last_theirs = ROOT
        self._ready: deque[Stream] = deque()
        self._datagrams: deque[list[wire.Segment]] = deque()
        self._fragments: dict[int, wire.Segment] = {}
        self._say: deque[wire.Segment] = deque()  # Reset and window segments to send
        self._speaks_of = self.root  # stream of the last received packet
        self._probe_at_s = math.inf
        self._parked: set[Stream] = set()

    # The interface for users.

    def open(self, parent: Stream | None = None) -> Stream:
        """Open a new stream, by default as a child of the root. Raises NetreproError beyond 2^15 streams."""
        if self._last_ours + 1 - min((number for number in self._ours if number), default=math.inf) >= STREAMS_AT_ONCE:
            raise NetreproError(f"a stream beyond {STREAMS_AT_ONCE}", "wait until some have ended")
        stream = Stream(self, self._new_number(), parent or self.root, True, self.buffer_bytes)
        assert stream.number is not None
        self._ours[stream.number] = stream
        return stream

    def send_datagram(self, data: bytes, stream: Stream | None = None) -> None:
        """Queue a datagram that belongs to a stream (by default the root); its lost packets are not sent again.

        Raises NetreproError for more data than four packets hold.
        """
        if len(data) > wire.MOST_STATELESS_BYTES:
            raise NetreproError(
                f"a datagram of {len(data)} bytes", "open a stream for it, and reset it when it is late"
            )
        number = (stream or self.root).number
        assert number is not None
        parts = [data[at : at + wire.MTU_BYTES] for at in range(0, len(data), wire.MTU_BYTES)] or [b""]
        flags = [wire.FIRST * (at == 0) | wire.LAST * (at == len(parts) - 1) for at in range(len(parts))]
        segments = [
            wire.Segment(wire.DATAGRAM, number & 0xFFFF, flag, (stream or self.root).exponent, payload=part)
            for flag, part in zip(flags, parts, strict=True)
        ]
        self._datagrams.append(segments)

    def reset(self, stream: Stream) -> None:
        """End a stream in both directions at once; data on its way is lost."""
        if stream.remote is not None and not stream.is_ours:
            self._say.append(wire.Segment(wire.RESET, stream.remote & 0xFFFF, wire.RESET_OURS))
        elif stream.number is not None:
            self._say.append(wire.Segment(wire.RESET, stream.number & 0xFFFF))
        self._forget(stream, was_reset=True)

    def flush(self, now_s: float) -> Iterable[Output]:
        """Yield all packets that may be sent now."""
        if not self.is_up:
            return
        channel = self.channel
        while self._say:
            yield self._packet(now_s, self._say.popleft())
        while self._datagrams and (room := channel.room()):
            if room < min(len(self._datagrams[0]), int(channel.window)):
                channel.is_limited = True  # the window holds it up, so it may grow
                break
            for segment in self._datagrams.popleft():  # a datagram's packets must have consecutive numbers
                yield self._packet(now_s, segment, FRAGMENT)
        while self._ready and channel.room():
            stream = self._ready[0]
            piece = stream.next_piece() if stream.wants_to_send() else None
            self._ready.rotate(-1)  # streams take turns
            if piece is not None:
                yield self._packet(now_s, stream.segment(piece), piece)
            if piece is None or not stream.wants_to_send():
                self._ready.pop()
            if piece is None and stream.wants_to_send():
                self._parked.add(stream)  # until it has credit
        while channel.is_ack_due(now_s):
            yield self._packet(now_s, self._window_of(self._speaks_of))
        if self._parked and not channel.outstanding:
            self._probe_at_s = min(self._probe_at_s, now_s + PROBE_S)

    # The interface for streams.

    def wants(self, stream: Stream) -> None:
        """Note that a stream has something to send."""
        if stream.wants_to_send() and stream not in self._ready:
            self._ready.append(stream)

    def tell_window(self, stream: Stream) -> None:
        """Tell the other end that a stream has room again."""
        if not stream.is_dead:
            self._say.append(self._window_of(stream))

    def settle(self, stream: Stream) -> None:
        """Forget a stream that has ended in both directions."""
        if (stream.is_sent and stream.is_at_end) or stream.is_dead:
            self._forget(stream)

    # The interface for drivers.

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        return min(self._hello_at_s, self.channel.wake_at_s, self._probe_at_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Ask for the channel (HELLO), if this end asks; HELLO is repeated until the channel is up."""
        if self.asks and not self.is_up:
            self._hello_at_s = now_s + HELLO_S * 2**self._hellos
            self._hellos += 1
            yield Send(self.other, wire.negotiation(wire.HELLO, self.channel.number))

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a packet; invalid packets and packets of other channels are ignored."""
        said = wire.decode_negotiation(message)
        if said is not None:
            yield from self._negotiate(said)
        elif self.is_up and (news := self.channel.receive(now_s, message)):
            for word in news.acked:
                self._became(word, True)
            for word in news.missed:
                self._became(word, False)
            yield from self._take(now_s, news.sequence, news.body)
        yield from self.flush(now_s)

    def wake(self, now_s: float) -> Iterable[Output]:
        """Handle the timers that have run out."""
        if self._hello_at_s <= now_s:
            yield from self.start(now_s)
        for word in self.channel.wake(now_s):
            self._became(word, False)
        if self._probe_at_s <= now_s:
            self._probe_at_s = math.inf
            for stream in self._parked:
                stream.probe = True
            self._unpark()
        yield from self.flush(now_s)

    def _new_number(self) -> int:
        self._last_ours += 1
        while self._last_ours & 0xFFFF == ROOT:  # reserved for the root
            self._last_ours += 1
        return self._last_ours

    def _window_of(self, stream: Stream) -> wire.Segment:
        """Make a segment that acknowledges and announces a stream's window: an Ack, or a Reply while the other end does
        not know the stream's number."""
        assert stream.number is not None
        number = stream.number & 0xFFFF
        if stream.is_known or stream.is_ours or stream.is_dead:
            return wire.Segment(wire.ACK, number, exponent=stream.exponent)
        assert stream.remote is not None
        return wire.Segment(wire.REPLY, number, 0, stream.exponent, stream.remote & 0xFFFF)

    def _packet(self, now_s: float, segment: wire.Segment, word: Piece | str | None = None) -> Send:
        return Send(self.other, self.channel.send(now_s, segment.encode(), word))

    def _negotiate(self, said: tuple[int, int]) -> Iterable[Output]:
        kind, number = said
        if number != self.channel.number or self.asks == (kind == wire.HELLO):
            return
        if kind == wire.HELLO:
            yield Send(self.other, wire.negotiation(wire.WELCOME, number))
        if not self.is_up:
            self.is_up, self._hello_at_s = True, math.inf
            yield Event("up", self)

    def _became(self, word: Piece | str, is_acked: bool) -> None:
        if isinstance(word, Piece):
            word.stream.back(word, is_acked)
            self.wants(word.stream)
            self._unpark()
            self.settle(word.stream)

    def _unpark(self) -> None:
        for stream in sorted(self._parked, key=lambda each: each.number or 0):
            self.wants(stream)
        self._parked.clear()

    def _take(self, now_s: float, sequence: int, body: bytes) -> Iterable[Output]:
        """Handle a packet's segment; a packet whose segment cannot be read or stored is not acknowledged."""
        try:
            segment = wire.decode_segment(body) if body else None
        except wire.WireError:
            return
        wants_ack = segment is not None and segment.kind in (wire.INIT, wire.REPLY, wire.DATA, wire.DATAGRAM)
        if segment is not None and segment.kind == wire.REPLY and not (segment.payload or segment.flags):
            wants_ack = False  # this Reply only announces a window
        events: list[Event] = []
        if segment is not None and not self._segment(sequence, segment, events):
            return
        self.channel.accept(now_s, sequence, wants_ack)
        yield from events

    def _segment(self, sequence: int, segment: wire.Segment, events: list[Event]) -> bool:
        """Handle a segment and add to `events`; return whether its packet may be acknowledged."""
        if segment.kind == wire.RESET:
            known = self._ours if segment.flags & wire.RESET_OURS else self._theirs
            stream = self._find(known, segment.stream)
            if stream is not None and stream is not self.root:
                self._forget(stream, was_reset=True)
                events.append(Event("reset", stream))
            return True
        if segment.kind == wire.INIT:
            return self._init(segment, events)
        if segment.kind == wire.REPLY:
            stream = self._find(self._ours, segment.other)
            if stream is not None and stream.remote is None:
                number = wire.nearest(segment.stream, self._last_theirs, 16)
                self._meet(stream, number)
        else:
            stream = self._find(self._theirs, segment.stream)
        if stream is None:
            number = wire.nearest(segment.stream, self._last_theirs, 16)
            if self._gone.get(number, True) and segment.kind in (wire.DATA, wire.DATAGRAM, wire.ATTACH):
                self._say.append(wire.Segment(wire.RESET, segment.stream, wire.RESET_OURS))
            return True
        if segment.kind == wire.DETACH:
            return True
        if segment.kind == wire.DATAGRAM:
            self._datagram(sequence, segment, stream, events)
            return True
        return self._content(stream, segment, events)

    def _init(self, segment: wire.Segment, events: list[Event]) -> bool:
        number = wire.nearest(segment.other, self._last_theirs, 16)
        parent, stream = self._find(self._theirs, segment.stream), self._theirs.get(number)
        if self._gone.get(number) is False or segment.other == ROOT or number < 0:
            return True  # the stream has ended
        if stream is None:
            if parent is None or number in self._gone:
                self._say.append(wire.Segment(wire.RESET, segment.other, wire.RESET_OURS))
                return True
            stream = Stream(self, None, parent, False, self.buffer_bytes)
            self._meet(stream, number)
            stream.number = self._new_number()
            self._ours[stream.number] = stream
            events.append(Event("opened", stream))
        return self._content(stream, segment, events)

    def _content(self, stream: Stream, segment: wire.Segment, events: list[Event]) -> bool:
        stream.credit_bytes = (1 << segment.exponent) - 1
        self._unpark()
        self._speaks_of = stream
        if segment.kind == wire.ACK:
            return True
        if not stream.take(segment):
            return False
        events.extend(Event(kind, stream) for kind in stream.news())
        self.settle(stream)
        return True

    def _datagram(self, sequence: int, segment: wire.Segment, stream: Stream, events: list[Event]) -> None:
        self._fragments[sequence] = segment
        first = last = sequence
        while first in self._fragments and not self._fragments[first].flags & wire.FIRST:
            first -= 1
        while last in self._fragments and not self._fragments[last].flags & wire.LAST:
            last += 1
        if first in self._fragments and last in self._fragments:
            parts = [self._fragments.pop(number) for number in range(first, last + 1)]
            events.append(Event("datagram", (stream, b"".join(part.payload for part in parts))))
        for number in list(islice(self._fragments, max(len(self._fragments) - MOST_KEPT, 0))):
            del self._fragments[number]

    def _meet(self, stream: Stream, number: int) -> None:
        stream.remote = number
        self._theirs[number] = stream
        self._last_theirs = max(self._last_theirs, number)

    def _find(self, known: dict[int, Stream], low: int) -> Stream | None:
        last = self._last_ours if known is self._ours else self._last_theirs
        return self.root if low == ROOT else known.get(wire.nearest(low, last, 16))

    def _forget(self, stream: Stream, was_reset: bool = False) -> None:
        stream.is_dead = True
        if stream.number is not None:
            self._ours.pop(stream.number, None)
        if stream.remote is not None:
            self._theirs.pop(stream.remote, None)
            self._gone[stream.remote] = was_reset
            if len(self._gone) > STREAMS_AT_ONCE:
                oldest = self._last_theirs - STREAMS_AT_ONCE
                self._gone = {number: how for number, how in self._gone.items() if number > oldest}
