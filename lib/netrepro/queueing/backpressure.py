"""Lossless networks: a switch pauses those who send to it when an input is full (Ethernet's PAUSE, IEEE 802.3x).

It is a model of packets of one size, without TCP. Every link ends in an input of its far node, with room for so many
packets; nobody sends into a full input. An input is one FIFO: a packet whose way is blocked holds up all behind it
(head-of-line blocking), unless its node looks past the head. A source is also a FIFO, which all its flows share. Each
flow has a window of packets in the network or waiting at its source; when one arrives, the next joins the end of the
source's queue at once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from netrepro.errors import NetreproError

Node = Hashable
Way = tuple[Node, ...]


@dataclass(frozen=True)
class Drained:
    """The arrivals of a run. The unit of time is the time of a packet at rate 1.

    delivered_at : the time at which each packet arrived, ascending. of_flow : the flow of each packet.
    """

    delivered_at: np.ndarray
    of_flow: np.ndarray

    def ends(self, flows: int) -> np.ndarray:
        """Return the time at which each flow's last packet arrived; 0 where none did."""
        ends_at = np.zeros(flows)
        np.maximum.at(ends_at, self.of_flow, self.delivered_at)
        return ends_at


def drain(
    ways: Sequence[Way],
    packets: int,
    *,
    rates: Mapping[tuple[Node, Node], float] | None = None,
    rooms: Mapping[Node, int] | None = None,
    room: int = 16,
    window: int = 16,
    past_head: Collection[Node] = (),
    seed: int = 1,
    until: float = float("inf"),
) -> Drained:
    """Send so many packets of every flow over its way (nodes from its source on) until all have arrived, or `until`.

    rates : link -> its rate in packets per unit of time; 1 for others. rooms : node -> room of each input in packets;
    `room` for others. window : packets of a flow. past_head : nodes whose inputs, and sources, have a queue for
    every outgoing link, in the same room. seed : seed of the order in which the first windows wait.

    A link serves inputs in the order in which they began to wait for it.

    Raises NetreproError for sizes below 1, ways of one node, and packets that block each other for good.
    """
    if min(packets, room, window, *(rooms or {}).values()) < 1 or any(len(way) < 2 for way in ways):
        raise NetreproError("a network without room, packets or ways", "give 1 or more of each, and ways of two nodes")
    network = _Network(ways, rates or {}, rooms or {}, room, past_head)
    first = [flow for flow in range(len(ways)) for _ in range(min(window, packets))]
    Random(seed).shuffle(first)
    for flow in first:
        network.join(flow)
    left = [packets - min(window, packets)] * len(ways)
    times, whose = [], []
    while network.events and network.events[0][0] <= until:
        flow = network.step()
        if flow >= 0:
            times.append(network.now)
            whose.append(flow)
            if left[flow]:
                left[flow] -= 1
                network.join(flow)
    if len(times) < packets * len(ways) and not network.events:
        raise NetreproError("packets block each other for good", "give the nodes that form a circle more room")
    return Drained(np.array(times), np.array(whose, dtype=int))


class _Network:
    def __init__(
        self,
        ways: Sequence[Way],
        rates: Mapping[tuple[Node, Node], float],
        rooms: Mapping[Node, int],
        room: int,
        past_head: Collection[Node],
    ):
        number: dict[tuple[Node, Node], int] = {}
        self._ways = []  # of flows: the links, and at the end -1
        for way in ways:
            links = [number.setdefault(link, len(number)) for link in pairwise(way)]
            self._ways.append((*links, -1))
        sources = {node: len(number) + place for place, node in enumerate(dict.fromkeys(way[0] for way in ways))}
        self._source = [sources[way[0]] for way in ways]
        self._times = [1 / rates.get(link, 1.0) for link in number]
        self._room = [rooms.get(link[1], room) for link in number]  # left in the input that a link ends in
        self._busy = [False] * len(number)
        self._wanted: list[deque[tuple[int, int]]] = [
            deque() for _ in number
        ]  # queues that wait for a link, in their order
        self._past = [link[1] in past_head for link in number] + [source in past_head for source in sources]
        self._queues: dict[tuple[int, int], deque[tuple[int, int]]] = {}  # (input, link onwards or -1) -> flow, place
        self.events: list[tuple[float, int, int, int, int, tuple[int, int]]] = []
        self.now, self._count = 0.0, 0

    def join(self, flow: int) -> None:
        """Add a packet to its source's queue."""
        self._arrive(self._source[flow], flow, 0)

    def _arrive(self, where: int, flow: int, place: int) -> None:
        onward = self._ways[flow][place]
        key = (where, onward if self._past[where] else -1)
        queue = self._queues.setdefault(key, deque())
        queue.append((flow, place))
        if len(queue) == 1:
            self._want(key)

    def _want(self, key: tuple[int, int]) -> None:
        flow, place = self._queues[key][0]
        link = self._ways[flow][place]
        self._wanted[link].append(key)
        self._try(link)

    def _try(self, link: int) -> None:
        """Send the next packet over a link, if it is idle, a queue waits for it, and its input has room."""
        if self._busy[link] or not self._wanted[link]:
            return
        key = self._wanted[link][0]
        flow, place = self._queues[key][0]
        is_last = self._ways[flow][place + 1] < 0
        if not is_last:
            if self._room[link] == 0:
                return  # tried again when the input lets a packet go
            self._room[link] -= 1
        self._wanted[link].popleft()
        self._busy[link] = True
        self._count += 1
        heapq.heappush(self.events, (self.now + self._times[link], self._count, link, flow, place, key))

    def step(self) -> int:
        """Move a packet over a link; return its flow where it has arrived, else -1."""
        self.now, _, link, flow, place, key = heapq.heappop(self.events)
        self._busy[link] = False
        queue = self._queues[key]
        queue.popleft()
        if queue:
            self._want(key)
        if key[0] < len(self._busy):  # room in an input of a switch, for the link that ends in it
            self._room[key[0]] += 1
            self._try(key[0])
        self._try(link)
        if self._ways[flow][place + 1] < 0:
            return flow
        self._arrive(link, flow, place + 1)
        return -1
