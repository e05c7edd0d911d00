"""Web pages over SST: a client whose requests are streams of one channel, and the server that answers them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from netrepro.protocols.browser import Browser, Loaded, Manner, asked_bytes, refusal, request
from netrepro.protocols.machine import Event, Output
from netrepro.protocols.sst import wire
from netrepro.protocols.sst.channel import Manners
from netrepro.protocols.sst.peer import Peer
from netrepro.protocols.sst.streams import Stream

NUMBERS = 255  # channel numbers are 1..255


class SstClient:
    """A client that loads pages from `server`; with `fresh`, each page asks for its own channel when it begins.

    Pages begin once the first channel is up (with `fresh`, at once). Events: "loaded" (a Loaded), "done". Raises
    NetreproError where the server refuses a request.
    """

    def __init__(
        self,
        server: Hashable,
        pages: Sequence[Sequence[int]],
        manner: Manner,
        request_bytes: int = 300,
        pause_s: float = 0.1,
        fresh: bool = False,
        manners: Manners | None = None,
    ):
        self.server, self.fresh, self.request_bytes, self.manners = server, fresh, request_bytes, manners
        self.browser = Browser(pages, manner, pause_s, math.inf)
        self._number, self._connections = 0, {0: 0}
        self.peer = self._new_peer()
        self._streams: dict[Stream, int] = {}

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        return min(self.peer.wake_at_s, self.browser.begins_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Ask for the channel; with `fresh`, begin the first page."""
        if self.fresh:
            self.browser.begins_s = now_s
            return self._begin(now_s)
        return self._act(now_s, self.peer.start(now_s))

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a packet."""
        return self._act(now_s, self.peer.receive(now_s, sender, message))

    def wake(self, now_s: float) -> Iterable[Output]:
        """Handle timers that have run out, and begin a page that is due."""
        yield from self._act(now_s, self.peer.wake(now_s))
        if self.browser.begins_s <= now_s:
            yield from self._begin(now_s)

    @property
    def arriving_bytes(self) -> int:
        """The number of bytes received so far of unfinished responses."""
        return sum(stream.received_bytes for stream in self._streams)

    def _new_peer(self) -> Peer:
        self._number = self._number % NUMBERS + 1
        return Peer(self.server, True, self._number, self.manners)

    def _begin(self, now_s: float) -> Iterable[Output]:
        if self.fresh:
            self.peer = self._new_peer()
        self._ask(self.browser.begin(now_s))
        yield from self._act(now_s, self.peer.start(now_s) if self.fresh else ())

    def _ask(self, asked: Iterable[tuple[int, int, int]]) -> None:
        for connection, _, size in asked:
            stream = self.peer.open()
            stream.write(request(self.request_bytes, size), close=True)
            self._streams[stream] = connection

    def _act(self, now_s: float, outputs: Iterable[Output]) -> Iterable[Output]:
        for output in list(outputs):
            if not isinstance(output, Event):
                yield output
            elif output.kind == "up":
                if not self.fresh:
                    self.browser.begins_s = now_s
            elif output.kind == "readable":
                output.value.read()
            elif output.kind == "ended":
                self._ask(self.browser.answered(now_s, self._streams.pop(output.value)))
            elif output.kind == "reset" and output.value in self._streams:
                raise refusal()
        yield from self.peer.flush(now_s)
        yield from self.browser.news()


class SstServer:
    """A server that answers on the newest channel that a client asked for; a new channel replaces the old one.

    A stream without a valid request is reset.
    """

    def __init__(self, manners: Manners | None = None):
        self.manners = manners
        self.peer: Peer | None = None
        self._requests: dict[Stream, bytes] = {}

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        return self.peer.wake_at_s if self.peer else math.inf

    def start(self, now_s: float) -> Iterable[Output]:
        """Do nothing: the server waits for a client."""
        return ()

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a packet; a HELLO with a new number replaces the channel."""
        said = wire.decode_negotiation(message)
        known = (self.peer.other, self.peer.channel.number) if self.peer else None
        if said and said[0] == wire.HELLO and known != (sender, said[1]):
            self.peer, self._requests = Peer(sender, False, said[1], self.manners), {}
        if self.peer is None or self.peer.other != sender:
            return ()
        return self._act(now_s, self.peer.receive(now_s, sender, message))

    def wake(self, now_s: float) -> Iterable[Output]:
        """Handle the channel's timers that have run out."""
        return self._act(now_s, self.peer.wake(now_s)) if self.peer else ()

    def _act(self, now_s: float, outputs: Iterable[Output]) -> Iterable[Output]:
        assert self.peer is not None
        for output in list(outputs):
            if not isinstance(output, Event):
                yield output
            elif output.kind == "readable":
                self._requests[output.value] = self._requests.get(output.value, b"") + output.value.read()
            elif output.kind == "ended":
                size = asked_bytes(self._requests.pop(output.value, b""))
                if size is None:
                    self.peer.reset(output.value)
                else:
                    output.value.write(bytes(size), close=True)
        yield from self.peer.flush(now_s)


__all__ = ["Loaded", "Manner", "Manners", "SstClient", "SstServer"]
