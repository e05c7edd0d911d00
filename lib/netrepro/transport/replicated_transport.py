"""The transport of one replicated stream over asyncio: two connections that look like one."""

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

from netrepro.transport.replicated_stream import (
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


class Member(asyncio.Protocol):
    """One of the two TCP connections of a stream."""

    def __init__(self, number: int, on_open: Callable[[Member], None]):
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
        self._members: dict[int, Member] = {}
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
            await self._loop.create_connection(lambda: Member(number, self.member_open), sock=plain)
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

    def member_open(self, member: Member) -> None:
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
