"""Web pages over QUIC, as machines: HTTP/3 of aioquic, whose connections read no clock and open no socket.

A request is a stream with the body of `browser.request`; its response has the requested length and consists of zeros.
Keys and identifiers are random bytes of the system and differ from run to run. Their lengths and all times do not, as
the certificate's signature has a fixed length. The server's certificate is fully verified; its private key is public.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from aioquic.buffer import Buffer
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import SMALLEST_MAX_DATAGRAM_SIZE, QuicConnection
from aioquic.quic.events import ConnectionIdIssued, ConnectionTerminated, HandshakeCompleted
from aioquic.quic.packet import QuicPacketType, pull_quic_header
from aioquic.quic.stream import QuicStream
from aioquic.tls import SessionTicket
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from netrepro.errors import NetreproError
from netrepro.protocols.browser import Browser, Loaded, Manner, asked_bytes, refusal, request
from netrepro.protocols.machine import Output, Send

SERVER_NAME = "server.example"
LATER_S = 1e-6  # woken exactly on time, aioquic's pacing holds an acknowledgement back, and the wake-ups never end
VALID = datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)  # valid at any time of the system's clock
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _by_number(stream: QuicStream) -> int:
    return stream.stream_id or 0


# aioquic keeps streams that share a packet in a set. Without this hash, their order would depend on memory addresses,
# which differ from run to run.
QuicStream.__hash__ = _by_number  # type: ignore[method-assign, assignment]


def certificate() -> x509.Certificate:
    """Make the server's self-signed certificate; its bytes are the same each time."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
    made = x509.CertificateBuilder(name, name, KEY.public_key(), 1, *VALID)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
    return made.sign(KEY, None)


class _End:
    """A QUIC connection with HTTP/3."""

    def __init__(self, quic: QuicConnection):
        self.quic, self.http = quic, H3Connection(quic)
        self.is_over = False
        self._acted_s = -math.inf

    @property
    def wake_at_s(self) -> float:
        due_s = self.quic.get_timer()
        return math.inf if due_s is None or self.is_over else max(due_s, self._acted_s) + LATER_S

    def wake(self, now_s: float) -> None:
        if self.wake_at_s <= now_s:
            self.quic.handle_timer(now_s)

    def events(self) -> Iterable[Any]:
        """Yield each event of the connection, followed by the HTTP events that it causes."""
        while (event := self.quic.next_event()) is not None:
            yield event
            yield from self.http.handle_event(event)
            self.is_over |= isinstance(event, ConnectionTerminated)

    def flush(self, now_s: float) -> Iterable[Send]:
        """Yield the datagrams that may be sent now."""
        self._acted_s = now_s
        for data, to in self.quic.datagrams_to_send(now_s):
            yield Send(to, data)

    def say(self, stream: int, headers: dict[str, str], body: bytes = b"") -> None:
        """Send headers and body, and close the stream's sending side."""
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in headers.items()])
        self.http.send_data(stream, body, end_stream=True)


class QuicClient:
    """A client that loads pages from `server`.

    With `fresh`, every page has a connection of its own. If `early` is set, too, its request leaves in the first packet
    (0-RTT) once an earlier connection has left a ticket; the server accepts a ticket any number of times. With
    `in_order`, a response counts only when all earlier requests are answered, as on one stream.
    Pages begin once the first connection is up (with `fresh`, at once). Events: "loaded" (a Loaded), "done".
    `resumed` counts connections in which the server accepted early data. Raises NetreproError where a connection
    breaks, and where the server refuses a request.
    """

    def __init__(
        self,
        server: Hashable,
        pages: Sequence[Sequence[int]],
        manner: Manner,
        request_bytes: int = 300,
        pause_s: float = 0.1,
        fresh: bool = False,
        early: bool = False,
        in_order: bool = False,
    ):
        self.server, self.fresh, self.early, self.request_bytes = server, fresh, early, request_bytes
        self.in_order = in_order
        self.browser = Browser(pages, manner, pause_s, math.inf)
        self.resumed = 0
        self._trusted = certificate().public_bytes(Encoding.PEM)
        self._ticket: SessionTicket | None = None
        self._end: _End | None = None
        self._streams: dict[int, int] = {}  # stream -> connection number of `browser`, in the order of requests
        self._ended: set[int] = set()

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        return min(self._end.wake_at_s if self._end else math.inf, self.browser.begins_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Open the connection; with `fresh`, also begin the first page."""
        if self.fresh:
            self.browser.begins_s = now_s
            return self._begin(now_s)
        return self._act(now_s, self._open(now_s))

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a datagram."""
        if self._end is None:
            return ()
        self._end.quic.receive_datagram(message, sender, now_s)
        return self._act(now_s, self._end)

    def wake(self, now_s: float) -> Iterable[Output]:
        """Handle timers that have run out, and begin a page that is due."""
        if self._end:
            self._end.wake(now_s)
            yield from self._act(now_s, self._end)
        if self.browser.begins_s <= now_s:
            yield from self._begin(now_s)

    def _open(self, now_s: float) -> _End:
        asked = QuicConfiguration(alpn_protocols=H3_ALPN, server_name=SERVER_NAME, cadata=self._trusted)
        asked.session_ticket = self._ticket if self.early else None
        end = self._end = _End(QuicConnection(configuration=asked, session_ticket_handler=self._keep))
        end.quic.connect(self.server, now_s)
        self._streams, self._ended = {}, set()
        return end

    def _keep(self, ticket: SessionTicket) -> None:
        self._ticket = ticket

    def _begin(self, now_s: float) -> Iterable[Output]:
        end = self._open(now_s) if self.fresh or self._end is None else self._end
        self._ask(end, self.browser.begin(now_s))
        return self._act(now_s, end)

    def _ask(self, end: _End, asked: Iterable[tuple[int, int, int]]) -> None:
        for place, _, size in asked:
            stream = end.quic.get_next_available_stream_id()
            self._streams[stream] = place
            headers = {":method": "POST", ":scheme": "https", ":authority": SERVER_NAME, ":path": "/"}
            end.say(stream, headers, request(self.request_bytes, size))

    def _next_ended(self) -> int | None:
        within = islice(self._streams, 1) if self.in_order else self._streams
        return next((stream for stream in within if stream in self._ended), None)

    def _act(self, now_s: float, end: _End) -> Iterable[Output]:
        for event in list(end.events()):
            if isinstance(event, HandshakeCompleted):
                self.resumed += event.early_data_accepted
                if not self.fresh:
                    self.browser.begins_s = now_s
            elif isinstance(event, ConnectionTerminated) and not self.browser.is_done:
                raise NetreproError(f"a connection of QUIC ended by itself: {event.reason_phrase}", "is it reachable?")
            elif isinstance(event, HeadersReceived) and dict(event.headers)[b":status"] != b"200":
                raise refusal()
            elif is_last(event):
                self._ended.add(event.stream_id)
                while (stream := self._next_ended()) is not None:
                    self._ended.remove(stream)
                    self._ask(end, self.browser.answered(now_s, self._streams.pop(stream)))
        news = self.browser.news()
        if news and (self.fresh or self.browser.is_done):
            end.quic.close()
            self._end = None
        yield from end.flush(now_s)
        yield from news


class QuicServer:
    """A server that answers on each connection until it is closed or has been silent for a minute.

    A request that cannot be read gets the status 400.
    """

    def __init__(self) -> None:
        self._asked = QuicConfiguration(
            is_client=False, alpn_protocols=H3_ALPN, certificate=certificate(), private_key=KEY
        )
        self._ends: list[_End] = []
        self._named: dict[bytes, _End] = {}  # by connection ID; a connection has several
        self._tickets: dict[bytes, SessionTicket] = {}
        self._requests: dict[tuple[_End, int], bytes] = {}

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        return min((end.wake_at_s for end in self._ends), default=math.inf)

    def start(self, now_s: float) -> Iterable[Output]:
        """Do nothing: the server waits for requests."""
        return ()

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a datagram; it is dropped if it neither belongs to a connection nor can open one."""
        try:
            header = pull_quic_header(Buffer(data=message), self._asked.connection_id_length)
        except ValueError:
            return ()
        end = self._named.get(header.destination_cid)
        if end is None:
            opens = header.packet_type == QuicPacketType.INITIAL and len(message) >= SMALLEST_MAX_DATAGRAM_SIZE
            if not opens or header.version not in self._asked.supported_versions:
                return ()
            end = self._accept(header.destination_cid)
        end.quic.receive_datagram(message, sender, now_s)
        return self._act(now_s, end)

    def wake(self, now_s: float) -> Iterable[Output]:
        """Handle the connections' timers that have run out."""
        for end in [end for end in self._ends if end.wake_at_s <= now_s]:
            end.wake(now_s)
            yield from self._act(now_s, end)

    def _accept(self, name: bytes) -> _End:
        quic = QuicConnection(
            configuration=self._asked,
            original_destination_connection_id=name,
            session_ticket_fetcher=self._tickets.get,
            session_ticket_handler=lambda ticket: self._tickets.update({ticket.ticket: ticket}),
        )
        end = _End(quic)
        self._ends.append(end)
        self._named |= {name: end, quic.host_cid: end}
        return end

    def _act(self, now_s: float, end: _End) -> Iterable[Output]:
        for event in list(end.events()):
            if isinstance(event, ConnectionIdIssued):
                self._named[event.connection_id] = end
            elif isinstance(event, ConnectionTerminated):
                self._forget(end)
            elif isinstance(event, DataReceived):
                said = self._requests.pop((end, event.stream_id), b"") + event.data
                if event.stream_ended:
                    self._answer(end, event.stream_id, said)
                else:
                    self._requests[end, event.stream_id] = said
        return list(end.flush(now_s))

    def _answer(self, end: _End, stream: int, said: bytes) -> None:
        size = asked_bytes(said)
        if size is None:
            end.say(stream, {":status": "400"})
        else:
            end.say(stream, {":status": "200"}, bytes(size))

    def _forget(self, end: _End) -> None:
        self._ends.remove(end)
        self._named = {name: other for name, other in self._named.items() if other is not end}
        self._requests = {asked: said for asked, said in self._requests.items() if asked[0] is not end}


def is_last(event: H3Event) -> bool:
    """Tell whether a message ends with this event."""
    return isinstance(event, DataReceived | HeadersReceived) and event.stream_ended


__all__ = ["Loaded", "Manner", "QuicClient", "QuicServer", "certificate"]
