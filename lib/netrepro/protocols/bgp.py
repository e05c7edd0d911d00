"""A BGP speaker (RFC 4271) with the routing policy of Gao and Rexford (ToN 2001), as a machine without sockets.

One speaker stands for a whole AS. It knows for each prefix what every neighbour announced. It prefers customers over
peers over providers, then the shortest path, then the neighbour of the lowest number. It tells its customers of every
change of a route, and other neighbours only of routes that it originates or learned from a customer. A longer prefix
is a separate prefix here; `arrivals` decides which prefix packets follow.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netrepro.errors import NetreproError
from netrepro.protocols.as_graph import Relation
from netrepro.protocols.machine import Event, Output, Send

LOCAL = 0  # the next hop of a speaker's own prefixes; no AS has this number
Changes = dict[int, list[tuple[float, str, int | None]]]  # AS -> (time in s, prefix, next hop), in order


@dataclass(frozen=True, slots=True)
class Update:
    """A prefix and its AS path, the sender's number first and the origin's last; path None withdraws the prefix."""

    prefix: str
    path: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Route:
    """The route in use: the next hop (LOCAL for the speaker's own prefix) and its path."""

    next_hop: int
    path: tuple[int, ...]


class Speaker:
    """A machine that speaks BGP for one AS.

    Parameters
    ----------
    number : the name by which neighbours know this speaker.
    neighbours : number -> the neighbour's role for this AS.
    as_number : the AS number in the paths that it announces; sites of one network share one. None: `number`.
    accepts_own : how often its own AS number may be in a path that it accepts; 0 as RFC 4271 asks.
    delay_s : function that draws, for each received update, the seconds until this AS has processed it. Updates of one
        neighbour stay in order, as over TCP. None: no delay.
    announcement_share : an announcement is delayed by this share of the drawn time, a withdrawal by all of it.
    advertisement_interval_s : function that draws the least time in seconds between two announcements of one prefix to
        one neighbour (RFC 4271, section 9.2.1.1; withdrawals do not wait, as in RFC 1771). None: no such interval.

    Events: "route" with (prefix, next hop or None) whenever the next hop of the route in use changes.
    """

    def __init__(
        self,
        number: int,
        neighbours: Mapping[int, Relation],
        *,
        as_number: int | None = None,
        accepts_own: int = 0,
        delay_s: Callable[[], float] | None = None,
        announcement_share: float = 1.0,
        advertisement_interval_s: Callable[[], float] | None = None,
    ):
        self.number, self.neighbours = number, dict(neighbours)
        self.as_number = number if as_number is None else as_number
        self.accepts_own, self.delay_s, self.announcement_share = accepts_own, delay_s, announcement_share
        self.advertisement_interval_s = advertisement_interval_s
        self.routes: dict[str, Route] = {}  # in use, by prefix
        self._heard: dict[str, dict[int, tuple[int, ...]]] = {}
        self._own: dict[str, tuple[int, ...]] = {}
        self._told: dict[str, dict[int, tuple[int, ...]]] = {}
        self._inbox: list[tuple[float, int, int, Update]] = []
        self._received = 0
        self._in_order_s: dict[int, float] = {}
        self._may_announce_s: dict[tuple[int, str], float] = {}  # by neighbour and prefix
        self._waiting: set[tuple[int, str]] = set()  # announcements that wait for the interval

    @property
    def wake_at_s(self) -> float:
        """The time at which the next update or announcement is due; math.inf for none."""
        due = self._inbox[0][0] if self._inbox else math.inf
        return min([due, *(self._may_announce_s[each] for each in self._waiting)]) if self._waiting else due

    def start(self, now_s: float) -> Iterable[Output]:
        """Send nothing: a speaker has no route before it originates a prefix or hears of one."""
        return ()

    def receive(self, now_s: float, sender: Any, message: Update) -> list[Output]:
        """Take an update, at once or after `delay_s`. Raises NetreproError for a sender that is not a neighbour."""
        if sender not in self.neighbours:
            raise NetreproError(f"AS {self.number} has an update from {sender!r}", "give it that neighbour")
        if self.delay_s is None:
            return self._take(now_s, sender, message)
        taken_s = self.delay_s() * (1.0 if message.path is None else self.announcement_share)
        due = max(now_s + taken_s, self._in_order_s.get(sender, 0.0))
        self._in_order_s[sender] = due
        self._received += 1
        heapq.heappush(self._inbox, (due, self._received, sender, message))
        return []

    def wake(self, now_s: float) -> list[Output]:
        """Process the updates that are due, then send the announcements whose interval is over."""
        outputs: list[Output] = []
        while self._inbox and self._inbox[0][0] <= now_s:
            _, _, sender, update = heapq.heappop(self._inbox)
            outputs += self._take(now_s, sender, update)
        for pair in sorted(each for each in self._waiting if self._may_announce_s[each] <= now_s):
            self._waiting.discard(pair)
            outputs += self._tell(now_s, *pair, self._path_for(*pair))
        return outputs

    def originate(self, now_s: float, prefix: str, prepends: int = 0) -> list[Output]:
        """Announce an own prefix; its path contains the AS number 1 + `prepends` times."""
        self._own[prefix] = (self.as_number,) * prepends
        return self._decide(now_s, prefix)

    def withdraw(self, now_s: float, prefix: str) -> list[Output]:
        """Stop announcing an own prefix."""
        self._own.pop(prefix, None)
        return self._decide(now_s, prefix)

    def settled(self) -> Speaker:
        """Return an independent copy with the same routes, but without delays and intervals. Raises NetreproError while
        updates or announcements wait."""
        if self._inbox or self._waiting:
            raise NetreproError(f"AS {self.number} has updates on their way", "copy it once nothing happens any more")
        twin = Speaker(self.number, self.neighbours, as_number=self.as_number, accepts_own=self.accepts_own)
        twin.routes, twin._own = dict(self.routes), dict(self._own)
        twin._heard = {prefix: dict(paths) for prefix, paths in self._heard.items()}
        twin._told = {prefix: dict(paths) for prefix, paths in self._told.items()}
        return twin

    def _take(self, now_s: float, sender: int, update: Update) -> list[Output]:
        heard = self._heard.setdefault(update.prefix, {})
        if update.path is None or update.path.count(self.as_number) > self.accepts_own:
            heard.pop(sender, None)
        else:
            heard[sender] = update.path
        return self._decide(now_s, update.prefix)

    def _decide(self, now_s: float, prefix: str) -> list[Output]:
        before, best = self.routes.get(prefix), self._best(prefix)
        if best == before:
            return []
        outputs: list[Output] = []
        if best is None:
            del self.routes[prefix]
        else:
            self.routes[prefix] = best
        if before is None or best is None or before.next_hop != best.next_hop:
            outputs.append(Event("route", (prefix, best.next_hop if best else None)))
        told = self._told.setdefault(prefix, {})
        for neighbour, path in self._paths(best):
            if told.get(neighbour) != path or (neighbour, prefix) in self._waiting:
                outputs += self._tell(now_s, neighbour, prefix, path)
        return outputs

    def _best(self, prefix: str) -> Route | None:
        if prefix in self._own:
            return Route(LOCAL, self._own[prefix])
        heard = self._heard.get(prefix)
        if not heard:
            return None
        neighbours = self.neighbours
        next_hop = min(heard, key=lambda each: (-neighbours[each], len(heard[each]), each))
        return Route(next_hop, heard[next_hop])

    def _tell(self, now_s: float, neighbour: int, prefix: str, path: tuple[int, ...] | None) -> list[Output]:
        told = self._told.setdefault(prefix, {})
        pair = (neighbour, prefix)
        if told.get(neighbour) == path:
            self._waiting.discard(pair)
            return []
        if path is not None and self.advertisement_interval_s is not None:
            if self._may_announce_s.get(pair, 0.0) > now_s:
                self._waiting.add(pair)
                return []
            self._may_announce_s[pair] = now_s + self.advertisement_interval_s()
        if path is None:
            del told[neighbour]
        else:
            told[neighbour] = path
        return [Send(neighbour, Update(prefix, path))]

    def _path_for(self, neighbour: int, prefix: str) -> tuple[int, ...] | None:
        return dict(self._paths(self.routes.get(prefix)))[neighbour]

    def _paths(self, route: Route | None) -> Iterator[tuple[int, tuple[int, ...] | None]]:
        """Yield (neighbour, path to announce); path None: announce nothing, or withdraw the prefix."""
        path = None if route is None else (self.as_number, *route.path)
        next_hop = None if route is None else route.next_hop
        goes_to_all = next_hop in (None, LOCAL) or self.neighbours[next_hop] == Relation.CUSTOMER
        for neighbour, relation in self.neighbours.items():
            goes = neighbour != next_hop and (goes_to_all or relation == Relation.CUSTOMER)
            yield neighbour, path if goes else None


def arrivals(
    changes: Changes, prefixes: Sequence[str], sources: Sequence[int], times_s: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Find the AS at which each source's packets arrive while routes change: an array (sources, times) of AS numbers, 0
    for lost packets.

    times_s : when each source sends a packet, in ascending order. prefixes : longest first. Each AS forwards along its
    next hop for the first of `prefixes` to which it has a route. Where routes are missing or form a loop, the packet is
    lost. Packets take no time on their way.
    """
    every = [(time_s, number, prefix, hop) for number, own in changes.items() for time_s, prefix, hop in own]
    moments = sorted(every, key=lambda moment: moment[0])  # a stable sort: each AS's own changes stay in order
    tables: dict[str, dict[int, int]] = {prefix: {} for prefix in prefixes}
    ends: dict[int, int] = {}

    def end_of(number: int) -> int:
        if number not in ends:
            ends[number] = 0  # until the end is known: to meet this AS again is a loop
            hop = next((table[number] for table in tables.values() if number in table), None)
            ends[number] = number if hop == LOCAL else 0 if hop is None else end_of(hop)
        return ends[number]

    reached = np.zeros((len(sources), len(times_s)), dtype=np.int64)
    done = np.searchsorted([time_s for time_s, *_ in moments], times_s, side="right")
    for column, (begin, end) in enumerate(zip([0, *done[:-1]], done, strict=True)):
        if column and begin == end:
            reached[:, column] = reached[:, column - 1]
            continue
        for _, number, prefix, hop in moments[begin:end]:
            if hop is None:
                tables[prefix].pop(number, None)
            else:
                tables[prefix][number] = hop
        ends.clear()
        reached[:, column] = [end_of(source) for source in sources]
    return reached
