"""RepNet for asyncio: streams over two TCP connections, for applications that use asyncio's own calls.

Liu et al., "RepNet: Cutting Latency with Flow Replication in Data Center Networks" (IEEE TSC 2018), section 4. Where
paths are chosen by a hash of addresses and ports (ECMP), the connections to ports p and p + 1 are likely to take
different paths. The stream is then as fast as the faster connection:

    from netrepro.transport import repnet as asyncio_streams
    server = await asyncio_streams.start_server(serve, "10.0.0.1", 5000)
    reader, writer = await asyncio_streams.open_connection("10.0.0.1", 5000)

A server also serves plain TCP clients on either port. A client also reaches plain servers, if no other program listens
on port p + 1 there. Both connections have the same source port, which tells the server that they belong together; an
address translator between client and server must keep it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

from netrepro.errors import NetreproError
from netrepro.transport.replicated_stream import THRESHOLD_BYTES, ReplicatedStream, State
from netrepro.transport.replicated_transport import Member, ReplicatedTransport

__all__ = ["ReplicatedServer", "ReplicatedTransport", "State", "open_connection", "start_server"]

READER_LIMIT_BYTES = 2**16  # asyncio's default
WAITING_S = 0.2  # section 4.4: the network's retransmission timeout, which is at least this in Linux
FREE_PORT_ATTEMPTS = 32


async def open_connection(
    host: str,
    port: int,
    *,
    mode: str = "repflow",
    threshold_bytes: int = THRESHOLD_BYTES,
    limit: int = READER_LIMIT_BYTES,
    family: int = 0,
    proto: int = 0,
    flags: int = 0,
    local_addr: tuple[str, int] | None = None,
    ssl: Any = None,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a stream over two connections, to `port` and `port` + 1, with the interface of asyncio.open_connection.

    Returns as soon as one connection is open. mode : "repflow" sends everything on both connections until more than
    `threshold_bytes` have been written or received, and then keeps the faster one. "repsyn" keeps the connection that
    opened first. `writer.transport.state` is the State of the stream.

    Raises NetreproError for an unknown mode, a port without a successor, or TLS (its two streams would differ);
    OSError as asyncio does when neither connection can be opened.
    """
    ReplicatedStream("client", mode, threshold_bytes)  # raises now, before anything is opened
    _refuse_tls(ssl)
    _check_port(port, least=1)
    loop = asyncio.get_running_loop()
    wanted: dict[str, Any] = {"family": family, "type": socket.SOCK_STREAM, "proto": proto}
    try:  # no look-up for a numeric address: its thread would cost more time than the connection
        addresses = socket.getaddrinfo(host, port, flags=flags | socket.AI_NUMERICHOST, **wanted)
    except socket.gaierror:
        addresses = await loop.getaddrinfo(host, port, flags=flags, **wanted)
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    failure: OSError = OSError(f"no address for {host!r}")
    for place, (kind, _, protocol_number, _, address) in enumerate(addresses):
        stream = ReplicatedStream("client", mode, threshold_bytes)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = ReplicatedTransport(loop, stream, protocol)
        try:
            await transport.connect(kind, protocol_number, address, local_addr)
        except OSError as error:
            failure = error if place == 0 else failure
            continue
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
    raise failure


async def start_server(
    client_connected_cb: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
    host: str | None = None,
    port: int = 0,
    *,
    waiting_s: float = WAITING_S,
    threshold_bytes: int = THRESHOLD_BYTES,
    limit: int = READER_LIMIT_BYTES,
    family: int = socket.AF_UNSPEC,
    flags: int = socket.AI_PASSIVE,
    backlog: int = 100,
    reuse_address: bool | None = None,
    reuse_port: bool | None = None,
    start_serving: bool = True,
    ssl: Any = None,
) -> ReplicatedServer:
    """Start a server on `port` and `port` + 1, with the interface of asyncio.start_server.

    Port 0 takes two free ports that follow each other. The callback runs once for each stream, as soon as its first
    connection is accepted. The server then waits `waiting_s` for the second connection; a client without a second
    connection is a plain TCP client.

    Raises NetreproError for a port without a successor, a waiting time that is not positive, or TLS. Raises OSError
    (EADDRINUSE), and listens on neither port, when one of the ports is taken.
    """
    ReplicatedStream("server", threshold_bytes=threshold_bytes)
    _refuse_tls(ssl)
    _check_port(port, least=0)
    if not waiting_s > 0:
        raise NetreproError(f"RepNet: waiting_s = {waiting_s}", "give a time above 0 (s)")
    loop = asyncio.get_running_loop()

    def new_protocol() -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        return asyncio.StreamReaderProtocol(reader, client_connected_cb, loop=loop)

    server = ReplicatedServer(loop, new_protocol, waiting_s, threshold_bytes)
    options = {
        "family": family,
        "flags": flags,
        "backlog": backlog,
        "reuse_address": reuse_address,
        "reuse_port": reuse_port,
        "start_serving": False,
    }
    await server.listen(host, port, options)
    if start_serving:
        await server.start_serving()
    return server


def _refuse_tls(ssl: Any) -> None:
    if ssl:
        raise NetreproError("RepNet: ssl", "use asyncio's own streams: two TLS sessions never carry the same bytes")


def _check_port(port: int, least: int) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not least <= port <= 65534:
        raise NetreproError(f"RepNet: port = {port!r}", f"give a port from {least} to 65534; the next one is used too")


class ReplicatedServer:
    """A server on two ports; made by start_server, used like asyncio.Server.

    waiting : number of streams on the waiting list (section 4.4), whose second connection may still come.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        new_protocol: Callable[[], asyncio.Protocol],
        waiting_s: float,
        threshold_bytes: int,
    ):
        self._loop, self._new_protocol = loop, new_protocol
        self._waiting_s, self._threshold_bytes = waiting_s, threshold_bytes
        self._listeners: list[asyncio.Server] = []
        self._streams: dict[tuple, ReplicatedTransport] = {}
        self._timers: dict[tuple, asyncio.TimerHandle] = {}

    @property
    def port(self) -> int:
        """The first of the two ports."""
        return self.sockets[0].getsockname()[1]

    @property
    def sockets(self) -> tuple:
        """The sockets of both ports."""
        return tuple(each for listener in self._listeners for each in listener.sockets)

    @property
    def waiting(self) -> int:
        """The number of streams whose second connection may still come."""
        return len(self._timers)

    async def listen(self, host: str | None, port: int, options: dict[str, Any]) -> None:
        """Listen on both ports. Raises OSError, and listens on neither, where one is taken."""
        for attempt in range(FREE_PORT_ATTEMPTS):
            first = port or _free_port(host)
            try:
                await self._listen_on(host, first, options)
                return
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE or attempt == FREE_PORT_ATTEMPTS - 1:
                    raise

    async def _listen_on(self, host: str | None, port: int, options: dict[str, Any]) -> None:
        for number in (0, 1):
            try:
                listener = await self._loop.create_server(
                    lambda number=number: Member(number, self._accepted), host, port + number, **options
                )
            except OSError as error:
                self.close()
                self._listeners.clear()
                which = "" if number == 0 else f", the second of {port} and {port + 1},"
                raise OSError(error.errno, f"RepNet: port {port + number}{which}: {error.strerror}") from error
            self._listeners.append(listener)

    def _accepted(self, member: Member) -> None:
        address = member.transport.get_extra_info("peername")
        if address is None:  # the client has disconnected already
            member.transport.abort()
            return
        client = address[:2]
        transport = self._streams.get(client)
        if transport is None or transport.stream.has_opened(member.number):
            self._forget(client)
            transport = self._streams[client] = ReplicatedTransport(
                self._loop, ReplicatedStream("server", threshold_bytes=self._threshold_bytes), self._new_protocol()
            )
            self._timers[client] = self._loop.call_later(self._waiting_s, self._waiting_over, client)
            transport.on_change = lambda: self._changed(client, transport)
        transport.member_open(member)

    def _waiting_over(self, client: tuple) -> None:
        self._stop_timer(client)
        self._streams[client].waiting_over()

    def _changed(self, client: tuple, transport: ReplicatedTransport) -> None:
        if self._streams.get(client) is not transport or transport.stream.expects_another:
            return
        self._stop_timer(client)
        if transport.state is State.ENDED:
            del self._streams[client]

    def _forget(self, client: tuple) -> None:
        """Forget the old stream of a client that opens a new stream from the same port.

        The old stream cannot get a second connection any more.
        """
        if client in self._timers:
            self._waiting_over(client)
        self._streams.pop(client, None)

    def _stop_timer(self, client: tuple) -> None:
        if client in self._timers:
            self._timers.pop(client).cancel()

    async def start_serving(self) -> None:
        """Begin to accept connections on both ports."""
        for listener in self._listeners:
            await listener.start_serving()

    async def serve_forever(self) -> None:
        """Accept connections until cancelled, then close the server."""
        await self.start_serving()
        try:
            await self._loop.create_future()
        finally:
            self.close()
            await self.wait_closed()

    def is_serving(self) -> bool:
        """Tell whether the server accepts connections."""
        return bool(self._listeners) and all(listener.is_serving() for listener in self._listeners)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop."""
        return self._loop

    def close(self) -> None:
        """Stop listening; open streams go on with their present connections."""
        for listener in self._listeners:
            listener.close()
        for client in list(self._timers):
            self._waiting_over(client)

    async def wait_closed(self) -> None:
        """Wait until both ports are free."""
        for listener in self._listeners:
            await listener.wait_closed()

    async def __aenter__(self) -> ReplicatedServer:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()
        await self.wait_closed()


def _free_port(host: str | None) -> int:
    """Return a free port below 65535; another program may still take it at any time."""
    while True:
        for info in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            with socket.socket(info[0], socket.SOCK_STREAM) as probe:
                probe.bind(info[4])
                port = probe.getsockname()[1]
            if port < 65535:
                return port
