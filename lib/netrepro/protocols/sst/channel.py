"""SST's channel: numbered packets that are never sent again, acknowledgements, and congestion control in packets.

A packet is acknowledged or missed, and the channel tells its user which; the streams decide what to send again.
The window is TCP's (RFC 2581), counted as in the paper's prototype.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from netrepro.protocols.sst import wire

LEAST_WINDOW = 2  # packets
NO_THRESHOLD = 1 << 20
REPLAY_MASK = 32
ACK_EVERY = 2  # packets whose segments want an acknowledgement
ACK_EVERY_ANY = 4
MOST_RTO_S = 60.0


@dataclass(frozen=True)
class Manners:
    """The settings of a channel's sender: the initial window in packets, the least timeout, the longest delay of an
    acknowledgement, and whether a congestion window limits the channel. `first_rtt_s` is the round-trip time assumed
    before the first measurement. A packet counts as missed if it is `missed_behind` behind the highest acknowledged
    one: 3 in the prototype of 2008, and 1 (every hole is a loss) before."""

    initial_window: int = LEAST_WINDOW
    min_rto_s: float = 0.2
    ack_delay_s: float = 0.01
    controlled: bool = True
    first_rtt_s: float = 0.5
    missed_behind: int = 3


@dataclass(slots=True)
class News:
    """The content of a received packet: its number, its segment, and the own packets that it shows to be acknowledged
    or lost, each as the `word` with which it was sent."""

    sequence: int
    body: bytes
    acked: list[Any]
    missed: list[Any]


class Channel:
    """One end of a channel. `number` identifies the channel in packets. A `word` is any value but None."""

    def __init__(self, number: int, manners: Manners | None = None, key: int = 0):
        self.number, self.manners, self.key = number, manners or Manners(), key
        self.next = 1
        self.acked = 0  # highest acknowledged packet
        self.outstanding: dict[int, Any] = {}  # packets with segments that are neither acknowledged nor missed
        self.window, self.threshold = float(self.manners.initial_window), NO_THRESHOLD
        self.is_limited, self.recovers_at = True, 0
        self.rtt_s, self.deviation_s, self.mark = self.manners.first_rtt_s, 0.0, (0, 0.0)
        self.timeout_at_s, self.timeouts = math.inf, 0
        self.received, self.mask = 0, 1  # highest received number, and a bit for each number from it downwards
        self.run_end, self.run, self.unacked = 0, 0, 0  # content of the next acknowledgement
        self.ack_at_s = math.inf
        self.urgent: deque[tuple[int, int]] = deque()  # acknowledgements that need a packet each

    @property
    def wake_at_s(self) -> float:
        """The time at which `wake` is due."""
        return min(self.timeout_at_s, -math.inf if self.urgent else self.ack_at_s)

    def room(self) -> int:
        """Return how many packets with segments may be sent now."""
        if not self.manners.controlled:
            return NO_THRESHOLD
        left = int(self.window) - len(self.outstanding)
        self.is_limited |= left <= 0
        return max(left, 0)

    def send(self, now_s: float, body: bytes, word: Any = None) -> bytes:
        """Make a packet. With a `word`, it counts in the window, and its fate will be reported under that word."""
        run_end, run = self.urgent.popleft() if self.urgent else (self.run_end, self.run)
        if not self.urgent and run_end == self.run_end:
            self.unacked, self.ack_at_s = 0, math.inf
        sequence, self.next = self.next, self.next + 1
        if word is not None:
            self.outstanding[sequence] = word
            if self.mark[0] <= self.acked:
                self.mark = sequence, now_s
            if self.timeout_at_s == math.inf:
                self._set_timer(now_s)
        return wire.encode(wire.Packet(self.number, sequence, run_end, min(run, wire.MOST_COUNT), body), self.key)

    def receive(self, now_s: float, data: bytes) -> News | None:
        """Read a packet; None for an invalid or duplicate packet, and for one that acknowledges an unsent number.

        The packet is acknowledged only after `accept`.
        """
        try:
            packet = wire.decode(data, self.received, self.acked, self.key)
        except wire.WireError:
            return None
        ahead = packet.sequence - self.received
        if packet.channel != self.number or packet.acked >= self.next or packet.count > packet.acked:
            return None
        if ahead <= -REPLAY_MASK or (ahead <= 0 and self.mask >> -ahead & 1):
            return None
        if ahead > 0:
            self.received, self.mask = packet.sequence, (self.mask << min(ahead, REPLAY_MASK) | 1) & 0xFFFFFFFF
        else:
            self.mask |= 1 << -ahead
        acked, missed = self._acknowledged(now_s, packet.acked, packet.count)
        return News(packet.sequence, packet.body, acked, missed)

    def accept(self, now_s: float, sequence: int, wants_ack: bool) -> None:
        """Note that a packet was accepted and may be acknowledged; with `wants_ack`, it will be soon."""
        ahead = sequence - self.run_end
        if ahead == 1:
            self.run_end, self.run, self.unacked = sequence, self.run + 1, self.unacked + 1
            if (wants_ack and self.unacked >= ACK_EVERY) or self.unacked >= ACK_EVERY_ANY:
                self.ack_at_s = -math.inf
            elif wants_ack:
                self.ack_at_s = min(self.ack_at_s, now_s + self.manners.ack_delay_s)
            return
        if self.unacked:
            self.urgent.append((self.run_end, self.run))
        if ahead > 1:
            self.run_end, self.run, self.unacked = sequence, 0, 1
        if wants_ack:
            self.urgent.append((sequence, 0))

    def is_ack_due(self, now_s: float) -> bool:
        """Tell whether an acknowledgement must be sent now, alone if necessary."""
        return bool(self.urgent) or self.ack_at_s <= now_s

    def wake(self, now_s: float) -> list[Any]:
        """Return the words of the packets that a timeout declares lost; empty before the timeout."""
        if self.timeout_at_s > now_s:
            return []
        self.timeouts += 1
        self.threshold = max(len(self.outstanding) // 2, LEAST_WINDOW)
        self.window, self.recovers_at = LEAST_WINDOW, self.next - 1
        missed, self.outstanding = list(self.outstanding.values()), {}
        self.mark = (0, 0.0)  # a timeout invalidates the round-trip measurement
        self.timeout_at_s = math.inf
        return missed

    def _acknowledged(self, now_s: float, acked: int, count: int) -> tuple[list[Any], list[Any]]:
        numbers = [number for number in range(acked - count, acked + 1) if number in self.outstanding]
        words = [self.outstanding.pop(number) for number in numbers]
        if acked > self.acked:
            self.acked = acked
        lost = [number for number in self.outstanding if number <= self.acked - self.manners.missed_behind]
        missed = [self.outstanding.pop(number) for number in lost]
        if lost and lost[-1] > self.recovers_at:  # reduce at most once per window
            self.threshold = max(int(self.window) // 2, LEAST_WINDOW)
            self.window, self.recovers_at = self.threshold, self.next - 1
        if words and self.is_limited and self.window < self.threshold:
            self.window = min(self.window + len(words), self.threshold)
        if 0 < self.mark[0] <= self.acked:
            self._round_ends(now_s)
        if words or missed:
            self.timeouts = 0 if words else self.timeouts
            self.timeout_at_s = math.inf
            if self.outstanding:
                self._set_timer(now_s)
        return words, missed

    def _round_ends(self, now_s: float) -> None:
        sample = now_s - self.mark[1]
        self.deviation_s += (abs(sample - self.rtt_s) - self.deviation_s) / 8
        self.rtt_s += (sample - self.rtt_s) / 8
        self.mark = (0, 0.0)
        self.window += self.is_limited
        self.is_limited = False

    def _set_timer(self, now_s: float) -> None:
        patience = max(self.rtt_s + 4 * self.deviation_s, self.manners.min_rto_s)
        self.timeout_at_s = now_s + min(patience * 2**self.timeouts, MOST_RTO_S)
