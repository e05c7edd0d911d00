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
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from netrepro.errors import NetreproError
from netrepro.transport.replicated_stream import (
    THRESHOLD_BYTES,
    Action,
    Close,
    Deliver,
    DeliverEof,
    Lost,
    ReplicatedStream,
    Reset,
    Send,
    SendEof,
    State,
)

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


class _Member(asyncio.Protocol):
    """One of the two TCP connections of a stream."""

    def __init__(self, number: int, on_open: Callable[[_Member], None]):
        self.number, self._on_open = number, on_open
        self.owner: ReplicatedTransport | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        if self.owner is not None:
            self.owner.perform(self.owner.stream.received(self.number, data))

    def eof_received(self) -> bool:
        if self.owner is not None:
            self.owner.perform(self.owner.stream.received_eof(self.number))
        return True  # the stream may go on in the other direction

    def connection_lost(self, error: Exception | None) -> None:
        if self.owner is not None:
            self.owner.member_lost(self.number, error)

    def pause_writing(self) -> None:
        if self.owner is not None:
            self.owner.member_paused(self.number, True)

    def resume_writing(self) -> None:
        if self.owner is not None:
            self.owner.member_paused(self.number, False)

    def reset(self) -> None:
        """Reset the connection; the stream goes on."""
        _will_reset(self.transport.get_extra_info("socket"))
        self.transport.abort()

    def unsent_bytes(self) -> int:
        """Count the bytes that this end has written and the other end has not acknowledged."""
        in_kernel = bytearray(4)
        try:
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, in_kernel)
        except OSError:
            pass  # already closed
        return self.transport.get_write_buffer_size() + int.from_bytes(in_kernel, "little")


class ReplicatedTransport(asyncio.Transport):
    """An asyncio transport for a replicated stream; its members are TCP connections.

    stream : the state machine. state : the state of Table 2.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: ReplicatedStream, protocol: asyncio.BaseProtocol):
        super().__init__()
        self.stream = stream
        self._loop, self._protocol = loop, protocol
        self._members: dict[int, _Member] = {}
        self._opening: dict[int, asyncio.Task] = {}
        self._established: asyncio.Future[None] = loop.create_future()
        self._failures: dict[int, Exception] = {}
        self._to_do: deque[Action] = deque()
        self._is_performing = False
        self._paused: set[int] = set()
        self._protocol_is_paused = False
        self._reads = True
        self._limits: tuple[int | None, int | None] | None = None
        self.on_change: Callable[[], None] = lambda: None

    @property
    def state(self) -> State:
        """The state of the stream (Table 2)."""
        return self.stream.state

    # Opening.

    async def connect(self, family: int, proto: int, address: tuple, local_addr: tuple[str, int] | None) -> None:
        """Open both connections of a client; return when one is open. Raises OSError where neither opens."""
        plain = _sockets_with_one_port(family, proto, local_addr)
        for number, one in enumerate(plain):
            target = (address[0], address[1] + number, *address[2:])
            self._opening[number] = self._loop.create_task(self._open(number, one, target))
        try:
            await self._established
        except asyncio.CancelledError:
            self.abort()
            raise

    async def _open(self, number: int, plain: socket.socket, address: tuple) -> None:
        try:
            await self._loop.sock_connect(plain, address)
            await self._loop.create_connection(lambda: _Member(number, self.member_open), sock=plain)
        except OSError as error:
            plain.close()
            self._opening.pop(number, None)
            self.member_lost(number, error)
        except asyncio.CancelledError:
            _will_reset(plain)
            plain.close()
            raise
        else:
            self._opening.pop(number, None)

    def member_open(self, member: _Member) -> None:
        """Note that one of the connections is open."""
        member.owner = self
        self._members[member.number] = member
        if self._limits is not None:
            member.transport.set_write_buffer_limits(*self._limits)
        if not self._reads:
            member.transport.pause_reading()
        actions = self.stream.connected(member.number)
        if self.stream.active and not self._established.done():
            self._established.set_result(None)
            self._protocol.connection_made(self)
        self.perform(actions)
        self._settle()

    def member_lost(self, number: int, error: Exception | None) -> None:
        """Note that one of the connections has ended, or could not be opened."""
        self._members.pop(number, None)
        self._paused.discard(number)
        if error is not None:
            self._failures[number] = error
        self.perform(self.stream.lost(number, error))
        self._settle()

    def waiting_over(self) -> None:
        """Note that the server has waited long enough for the second connection."""
        self.perform(self.stream.waiting_over())
        self._settle()

    # Carrying out the state machine's actions.

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out actions in order, also where a callback of the application adds further actions."""
        self._to_do.extend(actions)
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._to_do:
                self._perform_one(self._to_do.popleft())
        finally:
            self._is_performing = False

    def _perform_one(self, action: Action) -> None:
        if isinstance(action, Deliver):
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(action.data)
        elif isinstance(action, DeliverEof):
            assert isinstance(self._protocol, asyncio.Protocol)
            if not self._protocol.eof_received():
                self.close()
        elif isinstance(action, Lost):
            self._lost(action.error)
        elif isinstance(action, Reset) and action.connection in self._opening:
            self._opening.pop(action.connection).cancel()
        elif action.connection in self._members:
            member = self._members[action.connection]
            if isinstance(action, Send):
                member.transport.write(action.data)
            elif isinstance(action, SendEof):
                member.transport.write_eof()
            elif isinstance(action, Close):
                member.transport.close()
            else:
                self._members.pop(action.connection)
                self._paused.discard(action.connection)
                member.reset()

    def _lost(self, error: Exception | None) -> None:
        # The stream has ended on the other connection, so a connection that still has data to send would only linger.
        for member in list(self._members.values()):
            if member.transport.get_write_buffer_size():
                self._members.pop(member.number)
                member.reset()
        if self._established.done():
            self._loop.call_soon(self._protocol.connection_lost, error)
        else:
            self._established.set_exception(self._failures.get(0) or error or ConnectionAbortedError())

    def _settle(self) -> None:
        """Pause or resume the application's writing after a change in the members."""
        should_pause = self._paused.issuperset(self.stream.active) and not self.stream.is_closing
        if should_pause != self._protocol_is_paused and self._established.done():
            self._protocol_is_paused = should_pause
            (self._protocol.pause_writing if should_pause else self._protocol.resume_writing)()
        self.on_change()

    def member_paused(self, number: int, paused: bool) -> None:
        """Note that a member's buffer is too full, or has room again; the faster member sets the pace."""
        (self._paused.add if paused else self._paused.discard)(number)
        self._settle()

    # The interface of asyncio.Transport, for applications.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data on the connections in use."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data: expecting a bytes-like instance, got {type(data).__name__}")
        if self.stream.eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        unsent = [0, 0]
        if self.stream.will_choose(len(data)):
            unsent = [self._members[i].unsent_bytes() if i in self._members else 0 for i in (0, 1)]
        self.perform(self.stream.write(bytes(data), unsent))

    def write_eof(self) -> None:
        """End writing; the peer reads the remaining data and may still answer."""
        self.perform(self.stream.write_eof())

    def can_write_eof(self) -> bool:
        """Return True, as with TCP."""
        return True

    def close(self) -> None:
        """Close the stream once all written data is sent."""
        self.perform(self.stream.close())
        self._settle()

    def abort(self) -> None:
        """Reset all connections at once."""
        self.perform(self.stream.abort())
        self._settle()

    def is_closing(self) -> bool:
        """Tell whether the transport is closing or closed."""
        return self.stream.is_closing

    def pause_reading(self) -> None:
        """Stop receiving on all connections, until resume_reading."""
        self._reads = False
        for member in self._members.values():
            member.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume receiving on all connections."""
        self._reads = True
        for member in self._members.values():
            member.transport.resume_reading()

    def is_reading(self) -> bool:
        """Tell whether the transport receives data: it is neither paused nor closing."""
        return self._reads and not self.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the faster connection has not yet passed to the kernel."""
        return min((self._members[i].transport.get_write_buffer_size() for i in self._in_use()), default=0)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits (low, high) of each connection's write buffer, in bytes."""
        return next((member.transport.get_write_buffer_limits() for member in self._members.values()), (0, 0))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many bytes may wait in each connection before the application is told to pause."""
        self._limits = high, low
        for member in self._members.values():
            member.transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the first connection in use, such as peername, sockname or socket."""
        members = [self._members[i] for i in self._in_use()] or list(self._members.values())
        return members[0].transport.get_extra_info(name, default) if members else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol whose methods are called for data and events from now on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol whose methods are called for data and events."""
        return self._protocol

    def _in_use(self) -> list[int]:
        return [number for number in self.stream.active if number in self._members]


def _will_reset(plain: Any) -> None:
    """Make the socket send RST when closed; the peer would take a FIN for the end of the stream."""
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass  # already closed


def _sockets_with_one_port(family: int, proto: int, local_addr: tuple[str, int] | None) -> list[socket.socket]:
    """Make two sockets that are bound to the same port, to connect to two different ports."""
    address = local_addr or (("::", 0) if family == socket.AF_INET6 else ("0.0.0.0", 0))
    plain = [socket.socket(family, socket.SOCK_STREAM, proto) for _ in range(2)]
    try:
        try:
            plain[0].bind(address)  # without SO_REUSEADDR, to get a port that is not in use
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            plain[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            plain[0].bind(address)
        for one in plain:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setblocking(False)
        plain[1].bind(plain[0].getsockname())
    except OSError:
        for one in plain:
            one.close()
        raise
    return plain


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
                    lambda number=number: _Member(number, self._accepted), host, port + number, **options
                )
            except OSError as error:
                self.close()
                self._listeners.clear()
                which = "" if number == 0 else f", the second of {port} and {port + 1},"
                raise OSError(error.errno, f"RepNet: port {port + number}{which}: {error.strerror}") from error
            self._listeners.append(listener)

    def _accepted(self, member: _Member) -> None:
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
