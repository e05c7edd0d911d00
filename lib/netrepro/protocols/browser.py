"""A model of a browser: which request goes over which connection, and when.

A page is a primary object and its secondaries, which are requested when the primary has arrived. Pages are loaded one
after the other. The caller decides what a connection is (of TCP, or a stream of SST), and sends the requests. A request
has a given length and begins with the length of its response; a response consists of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Event

Ask = tuple[int, int, int]  # connection, request, bytes of its response
LEAST_REQUEST_BYTES = 12
MOST_RESPONSE_BYTES = 1 << 30
SMALL_BYTES = 1000


def request(request_bytes: int, response_bytes: int) -> bytes:
    """Make a request of `request_bytes` that asks for a response of `response_bytes`."""
    return f"{response_bytes} ".encode().ljust(request_bytes, b".")


def asked_bytes(request: bytes) -> int | None:
    """Read the number of bytes that a request asks for; None for an invalid request, and for more than
    MOST_RESPONSE_BYTES: these are to be refused."""
    said = request[:LEAST_REQUEST_BYTES].split(b" ")[0]
    size = int(said) if said.isdigit() else None
    return size if size is not None and size <= MOST_RESPONSE_BYTES else None


def refusal() -> NetreproError:
    """Return the error that a client raises when its request was refused."""
    return NetreproError("the server refused a request", f"ask for {MOST_RESPONSE_BYTES} bytes at most")


@dataclass(frozen=True)
class Manner:
    """The way in which a browser uses connections.

    connections : largest number of connections at once. depth : largest number of open requests on each.
    keeps : True uses the same connections for all pages, and answers come in the order of the requests; False uses a
    new connection for each request.
    smallest_first : secondaries are asked for in the order of their size. by_bytes : a request goes to the connection
    with the fewest bytes under way, instead of the fewest requests. more_small : so many more may be open on a
    connection when the next asks for less than SMALL_BYTES. (The class's browser has all three: data/sst/SOURCES.md.)
    """

    connections: int
    depth: int = 1
    keeps: bool = False
    smallest_first: bool = False
    by_bytes: bool = False
    more_small: int = 0

    def __post_init__(self) -> None:
        least, deepest = min(self.connections, self.depth, self.more_small + 1), self.depth + self.more_small
        if least < 1 or (deepest > 1 and not self.keeps):
            raise NetreproError(f"{self}", "give 1 connection and a depth of 1 at least, and keep what is pipelined")


@dataclass(frozen=True)
class Loaded:
    """A loaded page: times of its beginning and end in seconds, and `response_s`, the mean time from the page's
    beginning to the arrival of a response."""

    page: int
    requests: int
    size_bytes: int
    began_s: float
    ended_s: float
    response_s: float


class Browser:
    """A browser that loads `pages` (bytes of each object, the primary first), each `pause_s` after the one before.

    The caller calls `begin` at `begins_s`, and `answered` for each complete response; both return the requests to send
    now. Connections are numbered from 0; a new number asks for a new connection.
    """

    def __init__(self, pages: Sequence[Sequence[int]], manner: Manner, pause_s: float, begins_s: float = 0.0):
        self.pages, self.manner, self.pause_s = pages, manner, pause_s
        self.begins_s = begins_s if pages else math.inf
        self.loaded: list[Loaded] = []
        self._told = 0
        self._began_s = self._waited_s = 0.0
        self._waiting: list[int] = []  # requests to send, the last one first
        self._under_way: dict[int, list[int]] = {}  # connection -> its open requests, in order
        self._next_connection = 0

    @property
    def is_done(self) -> bool:
        """True where all pages are loaded."""
        return len(self.loaded) == len(self.pages)

    def news(self) -> list[Event]:
        """Return the events since the last call: "loaded" (a Loaded) for each loaded page, and "done" once all are."""
        events = [Event("loaded", each) for each in self.loaded[self._told :]]
        self._told = len(self.loaded)
        return [*events, Event("done", None)] if events and self.is_done else events

    def begin(self, now_s: float) -> list[Ask]:
        """Begin the next page: return the request for its primary."""
        self._began_s, self._waited_s, self.begins_s = now_s, 0.0, math.inf
        self._waiting = [0]
        return self._ask()

    def answered(self, now_s: float, connection: int) -> list[Ask]:
        """Note that the oldest request on this connection is answered; return the requests to send now."""
        request = self._under_way[connection].pop(0)
        self._waited_s += now_s - self._began_s
        if not self._under_way[connection] and not self.manner.keeps:
            del self._under_way[connection]
        page = self.pages[len(self.loaded)]
        if request == 0:
            self._waiting = list(range(len(page) - 1, 0, -1))
            if self.manner.smallest_first:
                self._waiting.sort(key=lambda each: -page[each])
        asked = self._ask()
        if not any(self._under_way.values()):
            place, count, mean_s = len(self.loaded), len(page), self._waited_s / len(page)
            self.loaded.append(Loaded(place, count, sum(page), self._began_s, now_s, mean_s))
            self.begins_s = math.inf if self.is_done else now_s + self.pause_s
        return asked

    def _ask(self) -> list[Ask]:
        page, asked = self.pages[len(self.loaded)], []
        while self._waiting and (connection := self._free(page)) is not None:
            request = self._waiting.pop()
            self._under_way.setdefault(connection, []).append(request)
            asked.append((connection, request, page[request]))
        return asked

    def _free(self, page: Sequence[int]) -> int | None:
        """Find the connection for the next request, as the manner says; None if no connection may take one more."""
        if not self.manner.keeps:
            if len(self._under_way) >= self.manner.connections:
                return None
            self._next_connection += 1
            return self._next_connection - 1
        is_small = page[self._waiting[-1]] < SMALL_BYTES
        depth = self.manner.depth + is_small * self.manner.more_small
        under_way = [self._under_way.get(each, []) for each in range(self.manner.connections)]
        loads = [sum(page[one] for one in each) if self.manner.by_bytes else len(each) for each in under_way]
        free = [number for number, each in enumerate(under_way) if len(each) < depth]
        return min(free, key=loads.__getitem__, default=None)
