"""RepNet's state machine: one byte stream over two TCP connections, without any I/O.

Liu et al., "RepNet" (IEEE TSC 2018), section 4, Tables 2 and 3, Fig. 9. The caller reports events on the connections to
the machine, which returns a list of actions; netrepro.transport.repnet carries them out on real sockets.

Both ends might give up a different connection at the same moment, and the stream would be lost. Therefore only the
client resets a connection that both ends have, and the server follows. The server keeps a copy of its written data
while the client may still choose a connection on which that data was not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from netrepro.errors import NetreproError, nearest

ROLES = ("client", "server")
MODES = ("repflow", "repsyn")
THRESHOLD_BYTES = 100_000  # section 2.2: longer flows are not replicated


class State(Enum):
    """The states of Table 2."""

    ONE_CONN = "one connection is open, the other is expected"
    DUP_CONN = "both connections are open"
    CHOSEN = "one of the two connections is in use"
    ENDED = "both connections have ended"


class _Standing(Enum):
    PENDING = "not there yet"
    ACTIVE = "sends everything that is written"
    QUIET = "open at the server, which sends nothing on it unless the client resets the other one"
    GONE = "ended, failed, given up, or no longer expected"


@dataclass(frozen=True)
class Send:
    """The action to send `data` on a connection."""

    connection: int
    data: bytes


@dataclass(frozen=True)
class SendEof:
    """The action to end what is sent on a connection; it can still receive."""

    connection: int


@dataclass(frozen=True)
class Close:
    """The action to close a connection once all its data is sent."""

    connection: int


@dataclass(frozen=True)
class Reset:
    """The action to reset a connection (an orderly end would end the stream at the peer), or to stop opening it."""

    connection: int


@dataclass(frozen=True)
class Deliver:
    """The action to deliver data to the application, in order and without duplicates."""

    data: bytes


@dataclass(frozen=True)
class DeliverEof:
    """The action to tell the application that the peer has ended its writing."""


@dataclass(frozen=True)
class Lost:
    """The action to tell the application that the stream has ended; `error` is None after an orderly end."""

    error: Exception | None


Action = Send | SendEof | Close | Reset | Deliver | DeliverEof | Lost


class ReplicatedStream:
    """One end of a replicated stream. Connections are 0 (port p) and 1 (port p + 1).

    Parameters
    ----------
    role : "client" or "server".
    mode : the client's mode: "repflow" writes on both connections, "repsyn" on the first one that is open. A server
        ignores it, and answers on all connections that the client keeps.
    threshold_bytes : once more bytes than this are written (or at the client received), one connection is chosen.

    Attributes
    ----------
    state : see State. A client begins in DUP_CONN, a server in ONE_CONN (section 4.3).
    written_bytes, delivered_bytes : bytes of the stream so far; each byte counts once.
    eof_written : True once the application has ended its writing.

    Raises NetreproError for an unknown role or mode, or a negative threshold.
    """

    def __init__(self, role: str, mode: str = "repflow", threshold_bytes: int = THRESHOLD_BYTES):
        for name, given, valid in (("role", role, ROLES), ("mode", mode, MODES)):
            if given not in valid:
                raise NetreproError(f"RepNet: {name} = {given!r}", nearest(str(given), valid))
        if threshold_bytes < 0:
            raise NetreproError(f"RepNet: threshold_bytes = {threshold_bytes}", "give 0 or more")
        self.role, self.mode, self.threshold_bytes = role, mode, threshold_bytes
        self.state = State.DUP_CONN if role == "client" else State.ONE_CONN
        self.written_bytes = self.delivered_bytes = 0
        self._standing = [_Standing.PENDING, _Standing.PENDING]
        self._received_bytes = [0, 0]
        self._opened: list[int] = []  # in the order in which they opened
        self._archive = bytearray()  # all written data, while a connection may still need it
        self._error: Exception | None = None
        self.eof_written = False
        self._eof_delivered = self._closing = False

    @property
    def active(self) -> list[int]:
        """The connections on which written data is sent."""
        return self._with(_Standing.ACTIVE)

    @property
    def is_closing(self) -> bool:
        """True where the application has closed the stream, or the stream has ended."""
        return self._closing or self.state is State.ENDED

    @property
    def expects_another(self) -> bool:
        """True while a connection may still open."""
        return _Standing.PENDING in self._standing

    def has_opened(self, connection: int) -> bool:
        """Tell whether the connection is or was open."""
        return connection in self._opened

    def will_choose(self, size_bytes: int) -> bool:
        """Tell whether a write of that size makes the client choose a connection."""
        return (
            self.role == "client"
            and self.state is State.DUP_CONN
            and self.written_bytes + size_bytes > self.threshold_bytes
        )

    # Events on the connections.

    def connected(self, connection: int) -> list[Action]:
        """Note that a connection is open; at the server, that it has been accepted and belongs to this stream.

        At the server the second connection moves the state from ONE_CONN to DUP_CONN (transition 1), and the data that
        was written before is sent on it.
        """
        if self._standing[connection] is not _Standing.PENDING:
            return [Reset(connection)]
        other_is_active = self._standing[1 - connection] is _Standing.ACTIVE
        if self.role == "client" and (self.is_closing or (self.mode == "repsyn" and other_is_active)):
            self._standing[connection] = _Standing.GONE
            return [Reset(connection)]
        self._opened.append(connection)
        if self.role == "server" and self.state is State.CHOSEN and other_is_active and not self._closing:
            self._standing[connection] = _Standing.QUIET
            return []
        self._standing[connection] = _Standing.ACTIVE
        actions: list[Action] = self._replay(connection)
        if self.role == "client":
            if self.mode == "repsyn" or self._standing[1 - connection] is _Standing.GONE:
                self.state = State.CHOSEN
            actions += self._choose_when_long()
        elif len(self._opened) == 2 and self.state is not State.ENDED:
            self.state = State.DUP_CONN if other_is_active else State.CHOSEN
        self._forget_what_nobody_needs()
        return actions

    def received(self, connection: int, data: bytes) -> list[Action]:
        """Note received data; deliver the part that the other connection has not brought before."""
        if self._standing[connection] is _Standing.GONE:
            return []
        self._received_bytes[connection] += len(data)
        new = self._received_bytes[connection] - self.delivered_bytes
        if new <= 0 or self.is_closing or self._eof_delivered:
            return []
        self.delivered_bytes += new
        return [Deliver(data[-new:]), *self._choose_when_long()]

    def received_eof(self, connection: int) -> list[Action]:
        """Note that the peer has ended its writing on a connection in order, so that all its data has arrived."""
        is_short = self._received_bytes[connection] < self.delivered_bytes  # from a peer that died
        if self.is_closing or self._eof_delivered or is_short or self._standing[connection] is _Standing.GONE:
            return []
        self._eof_delivered = True
        return [DeliverEof()]

    def lost(self, connection: int, error: Exception | None) -> list[Action]:
        """Note that a connection has failed, was reset, could not be opened, or has been closed as asked (error None).

        The stream goes on with the other connection, if it exists (transition 2).
        """
        before, other = self._standing[connection], self._standing[1 - connection]
        if before is _Standing.GONE:
            return []
        self._standing[connection] = _Standing.GONE
        if self._closing and error is None:
            return self._end(None)
        self._error = error if self._error is None or connection == 0 else self._error
        if self.state is State.ENDED:
            self._forget_what_nobody_needs()
            return []
        if before is _Standing.ACTIVE and self.mode == "repsyn" and self.role == "client":
            other_gone = self._give_up(1 - connection)
            return [*other_gone, *self._end(error)]
        actions: list[Action] = []
        if other is _Standing.GONE:
            return self._end(self._error)
        if other is _Standing.QUIET:
            actions = self._activate(1 - connection)
        if other is not _Standing.PENDING:
            self.state = State.CHOSEN
        self._forget_what_nobody_needs()
        return actions

    def waiting_over(self) -> list[Action]:
        """Note that the time on the server's waiting list is over: the client is a plain one (transition 3)."""
        if not self.expects_another:
            return []
        self._standing[self._with(_Standing.PENDING)[0]] = _Standing.GONE
        self._forget_what_nobody_needs()
        if self.state is State.ENDED:
            return []
        if not self.active:
            return self._end(self._error)
        self.state = State.CHOSEN
        return []

    # Calls of the application.

    def write(self, data: bytes, unsent_bytes: Sequence[int] = (0, 0)) -> list[Action]:
        """Send data.

        unsent_bytes : bytes that each connection still has to send; they tell which connection is faster. Beyond the
        threshold the client resets the slower connection; a server that has only one connection goes on with this one
        alone (transition 4).
        """
        if self.is_closing or self.eof_written or not data:
            return []
        self.written_bytes += len(data)
        if self._archive_is_needed():
            self._archive += data
        actions: list[Action] = [Send(connection, data) for connection in self.active]
        return actions + self._choose_when_long(unsent_bytes)

    def write_eof(self) -> list[Action]:
        """End writing on all active connections; receiving goes on."""
        if self.is_closing or self.eof_written:
            return []
        self.eof_written = True
        return [SendEof(connection) for connection in self.active]

    def close(self) -> list[Action]:
        """Close the stream once all written data is sent. A server also serves a connection that it still expects."""
        if self.is_closing:
            return []
        self._closing = True
        actions: list[Action] = [Close(connection) for connection in self.active]
        for connection in self._with(_Standing.QUIET):
            actions += self._activate(connection)
        if self.role == "client":
            for connection in self._with(_Standing.PENDING):
                actions += self._give_up(connection)
        if not self.active and not self.expects_another:
            actions += self._end(None)
        return actions

    def abort(self) -> list[Action]:
        """Reset both connections at once and end the stream."""
        return [*self._give_up(0), *self._give_up(1), *self._end(None)]

    # Private parts.

    def _with(self, standing: _Standing) -> list[int]:
        return [connection for connection in (0, 1) if self._standing[connection] is standing]

    def _archive_is_needed(self) -> bool:
        if self.role == "client" and self.mode == "repsyn":
            return not self.active  # data that was written before any connection was open
        return _Standing.PENDING in self._standing or _Standing.QUIET in self._standing

    def _forget_what_nobody_needs(self) -> None:
        if not self._archive_is_needed():
            self._archive.clear()

    def _replay(self, connection: int) -> list[Action]:
        """Send on a new connection the data that was written before it opened."""
        actions: list[Action] = [Send(connection, bytes(self._archive))] if self._archive else []
        if self._closing:
            return [*actions, Close(connection)]
        return [*actions, SendEof(connection)] if self.eof_written else actions

    def _activate(self, connection: int) -> list[Action]:
        self._standing[connection] = _Standing.ACTIVE
        actions = self._replay(connection)
        self._forget_what_nobody_needs()
        return actions

    def _choose_when_long(self, unsent_bytes: Sequence[int] = (0, 0)) -> list[Action]:
        if self.role == "server":
            if self.state is State.ONE_CONN and self.written_bytes > self.threshold_bytes:
                self.state = State.CHOSEN
            return []
        carried = max(self.written_bytes, self.delivered_bytes)
        if self.state is not State.DUP_CONN or carried <= self.threshold_bytes or not self.active:
            return []
        # The server may serve only one connection by now: keep the connection that has brought most.
        chosen = max(self.active, key=lambda c: (self._received_bytes[c], -unsent_bytes[c], -self._opened.index(c)))
        self.state = State.CHOSEN
        actions = self._give_up(1 - chosen)
        self._forget_what_nobody_needs()
        return actions

    def _give_up(self, connection: int) -> list[Action]:
        if self._standing[connection] is _Standing.GONE:
            return []
        self._standing[connection] = _Standing.GONE
        return [Reset(connection)]

    def _end(self, error: Exception | None) -> list[Action]:
        if self.state is State.ENDED:
            return []
        self.state = State.ENDED
        return [Lost(error)]
