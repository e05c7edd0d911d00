"""A second meter for the packets of one connection, in plain Python: from lists, not by running sums.

Written from netmate-flowcalc's netai_flowstats.c (1.0DArev2) as the oracle of the compiled meter.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt, sqrt

from packet_builder import ACK, FIN, PSH, RST, SYN, URG, Packet


def minimum(values: list[int], quirks: bool) -> int:
    if not quirks:
        return min(values)
    least = 0
    for value in values:
        if value < least or least == 0:
            least = value
    return least


def mean(values: list[int], quirks: bool) -> float:
    return sum(values) // len(values) if quirks else sum(values) / len(values)


def deviation(values: list[int], quirks: bool) -> float:
    if len(values) < 2:
        return 0
    centre = Fraction(sum(values), len(values))
    variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return isqrt(int(variance)) if quirks else sqrt(variance)


def four(values: list[int], none: int, quirks: bool) -> list[float]:
    if not values:
        return [none, none, none, 0]
    return [minimum(values, quirks), mean(values, quirks), max(values), deviation(values, quirks)]


def side_state(state: str, flags: int, own: bool) -> str:
    if flags & RST:
        return "closed"
    if flags & FIN and own:
        return "fin"
    steps = {
        ("fin", False): ("closed", ACK),
        ("initial", True): ("syn", SYN),
        ("syn", False): ("synack", SYN | ACK),
        ("synack", True): ("established", ACK),
    }
    to, needed = steps.get((state, own), (state, 0))
    return to if flags & needed == needed else state


class TwinFlow:
    def __init__(self, first: Packet):
        self.forward_is_backward = first.backward
        self.whole: list[Packet] = []
        self.accounted: list[tuple[int, Packet, bool]] = []  # time, packet, whether its UDP header counts
        self.states = ["initial", "initial"]
        self.valid = self.has_data = self.is_closed = False
        self.last_us = first.time_us

    def is_backward(self, packet: Packet) -> bool:
        return packet.backward != self.forward_is_backward

    def add(self, packet: Packet, first_packets: int | None, handshake: bool, quirks: bool) -> None:
        both = len({self.is_backward(p) for p in self.whole}) == 2
        self.whole.append(packet)
        if packet.time_us < self.last_us and quirks:
            return
        self.last_us = max(self.last_us, packet.time_us)
        if self.is_closed:
            return
        was_valid, was_established = self.valid, "established" in self.states
        opening = False
        if packet.protocol == 6:
            for side in (0, 1):
                own = self.is_backward(packet) == bool(side)
                self.states[side] = side_state(self.states[side], packet.flags, own)
            established = "established" in self.states
            completes = established and not was_established and packet.payload_bytes == 0
            opening = bool(packet.flags & SYN) or completes
            self.has_data |= established and packet.payload_bytes > 0
            self.valid |= self.has_data and both
        else:
            self.valid |= packet.payload_bytes > 0
        full = first_packets is not None and len(self.accounted) >= first_packets
        if not (full or (opening and not handshake)):
            self.accounted.append((self.last_us, packet, not (quirks and was_valid)))
        self.is_closed = self.states == ["closed", "closed"]

    def features(self, idle_threshold_us: int, quirks: bool) -> list[float]:
        periods: list[list[int]] = []
        gaps: list[list[int]] = [[], []]
        idle: list[int] = []
        last_of: dict[bool, int] = {}
        for time_us, packet, _ in self.accounted:
            if not periods or time_us - periods[-1][-1] > idle_threshold_us:
                if periods:
                    idle.append(time_us - periods[-1][-1])
                periods.append([])
                last_of.clear()
            periods[-1].append(time_us)
            side = self.is_backward(packet)
            if side in last_of:
                gaps[side].append(time_us - last_of[side])
            last_of[side] = time_us
        active = [period[-1] - period[0] for period in periods]
        lengths: list[list[int]] = [[], []]
        push, urgent, headers = [0, 0], [0, 0], [0, 0]
        for _, packet, udp_header in self.accounted:
            side = self.is_backward(packet)
            lengths[side].append(packet.ip_bytes)
            push[side] += packet.protocol == 6 and bool(packet.flags & PSH)
            urgent[side] += packet.protocol == 6 and bool(packet.flags & URG)
            counted = packet.protocol == 6 or udp_header
            headers[side] += packet.ip_header_bytes + (packet.transport_header_bytes if counted else 0)
        totals = [value for side in lengths for value in (len(side), sum(side))]
        shares: list[float] = [
            (total // len(active) if quirks else total / len(active)) if active else 0 for total in totals
        ]
        duration = self.accounted[-1][0] - self.accounted[0][0] if self.accounted else 0
        return [
            *totals,
            *four(lengths[0], -1, quirks),
            *four(lengths[1], -1, quirks),
            *four(gaps[0], 0, quirks),
            *four(gaps[1], 0, quirks),
            duration,
            *four(active, 0, quirks),
            *four(idle, 0, quirks),
            *shares,
            *push,
            *urgent,
            *headers,
        ]

    def first_lengths(self, count: int) -> list[int]:
        sides = [
            [packet.ip_bytes for _, packet, _ in self.accounted if self.is_backward(packet) == side]
            for side in (False, True)
        ]
        return [value for side in sides for value in (side + [0] * count)[:count]]


def twin_meter(
    packets: list[Packet], *, first_packets: int | None, handshake: bool, quirks: bool, timeout_us: int
) -> list[TwinFlow]:
    """The flows of one 5-tuple, in order."""
    flows: list[TwinFlow] = []
    current: TwinFlow | None = None
    for packet in packets:
        if current is not None:
            silent_us = packet.time_us - current.last_us
            opens = packet.protocol == 6 and packet.flags & (SYN | ACK | RST) == SYN
            over = current.is_closed and (opens or silent_us > 240_000_000)
            if over or silent_us > timeout_us:
                current = None
        if current is None:
            current = TwinFlow(packet)
            flows.append(current)
        current.add(packet, first_packets, handshake, quirks)
    return flows
