"""The vocabulary of sentences: readings of a trace, each a number that a sentence bounds.

All take a TcpTrace and the keywords that their YAML gives. Times are seconds from the start of the run; rounds are base
round trips. A reading that the trace does not have is NaN, which keeps no bound.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netrepro.conformance.traces import Samples, TcpTrace
from netrepro.errors import nearest

READINGS: dict[str, Reading] = {}
A_FLIGHT = 0.9  # of a round: what leaves in it was sent before the first acknowledgement could be back
IDLE_ROUNDS = 2  # a sender that is silent for so long has paused
LONGEST_PROBE_ROUNDS = 4.5  # a tail loss probe waits two round trips, of which the queue may make four base ones
DIP_SHARE = 0.6  # a window below this share of its median is a dip


@dataclass(frozen=True)
class Reading:
    """A reading by its name, with the unit of its number."""

    name: str
    unit: str
    read: Callable[..., float]

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise ValueError for a keyword that this reading does not have, and for one that is missing."""
        takes = dict(list(inspect.signature(self.read).parameters.items())[1:])
        for name in given:
            if name not in takes:
                raise ValueError(f"{self.name} takes no {name!r}: {nearest(name, takes)}")
        for name, each in takes.items():
            if each.default is inspect.Parameter.empty and name not in given:
                raise ValueError(f"{self.name} needs {name}")


def _reading(unit: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    def keep(read: Callable[..., float]) -> Callable[..., float]:
        READINGS[read.__name__] = Reading(read.__name__, unit, read)
        return read

    return keep


# The window -----------------------------------------------------------------------------------------


@_reading("segments")
def first_flight(trace: TcpTrace, flow: int = 0) -> float:
    """Count the segments that leave before the first acknowledgement can be back."""
    sent = trace.sent(flow)
    return float((sent < sent[0] + A_FLIGHT * trace.round_trip_s(flow)).sum()) if len(sent) else math.nan


@_reading("times a round")
def window_growth(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the largest ratio of the window to the window a round earlier."""
    windows = trace.samples(flow)
    later = _a_round_later(trace, windows, from_s, to_s, flow)
    return float(np.max(later[1] / later[0])) if len(later[0]) else math.nan


@_reading("segments a round")
def window_slope(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the mean growth of the window, in segments a (smoothed) round trip."""
    part = trace.samples(flow).between(from_s, to_s)
    if len(part.time_s) < 2:
        return math.nan
    rounds = np.sum(np.diff(part.time_s) / part.round_trip_s[1:])
    return float((part.window[-1] - part.window[0]) / rounds)


@_reading("of what was in flight")
def kept_after_congestion(
    trace: TcpTrace, at_s: float, of: str = "in_flight", flow: int = 0, within_s: float = 5.0
) -> float:
    """Return the slow-start threshold that the first reduction after `at_s` sets, as a share of the window, or of the
    segments in flight, just before."""
    windows = trace.samples(flow)
    cuts = windows.reductions(at_s, at_s + within_s)
    if not cuts:
        return math.nan
    before = (windows.window if of == "window" else windows.in_flight)[cuts[0] - 1]
    return float(windows.threshold[cuts[0]] / before)


@_reading("of the window")
def median_kept(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the median share of the window that reductions keep."""
    windows = trace.samples(flow)
    cuts = windows.reductions(from_s, to_s)
    return float(np.median(windows.threshold[cuts] / windows.window[np.array(cuts) - 1])) if cuts else math.nan


@_reading("reductions")
def reductions(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Count how often the slow-start threshold is set anew."""
    return float(len(trace.samples(flow).reductions(from_s, to_s)))


@_reading("rounds")
def least_time_between_reductions(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the shortest time between two reductions, in smoothed round trips; infinite for fewer than two."""
    windows = trace.samples(flow)
    places = windows.reductions(from_s, to_s)
    gaps = (
        np.diff(windows.time_s[places]) / windows.round_trip_s[places][1:] if len(places) > 1 else np.array([math.inf])
    )
    return float(gaps.min())


@_reading("segments")
def window_beyond_threshold(trace: TcpTrace, at_s: float, rounds: float, flow: int = 0) -> float:
    """Return by how much the window is above the threshold that the first reduction after `at_s` has set, some rounds
    after it."""
    windows = trace.samples(flow)
    cuts = windows.reductions(at_s)
    if not cuts:
        return math.nan
    then = windows.at(windows.time_s[cuts[0]] + rounds * trace.round_trip_s(flow))
    return float(windows.window[then] - windows.threshold[cuts[0]])


@_reading("segments")
def least_window(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the smallest window."""
    part = trace.samples(flow).between(from_s, to_s)
    return float(part.window.min()) if len(part.window) else math.nan


@_reading("times what is in flight")
def unused_window(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the largest ratio of the window to the most that was in flight."""
    part = trace.samples(flow).between(from_s, to_s)
    return float(part.window.max() / part.in_flight.max()) if len(part.window) else math.nan


@_reading("of the window before")
def window_on_the_cubic(trace: TcpTrace, at_s: float, share_of_k: float = 1.0, beta: float = 0.7, scale: float = 0.4,
                        flow: int = 0) -> float:  # fmt: skip
    """Return the window `share_of_k` of K after the first reduction, over W_max; K is that of RFC 9438, equation 2, and
    W_max the threshold over beta, because a window that doubles grows much between two samples."""
    windows = trace.samples(flow)
    cuts = windows.reductions(at_s)
    if not cuts:
        return math.nan
    top = windows.threshold[cuts[0]] / beta
    k_s = (top * (1 - beta) / scale) ** (1 / 3)
    # The cubic begins with the first acknowledgement after recovery, a round later.
    when = windows.time_s[cuts[0]] + trace.round_trip_s(flow) + share_of_k * k_s
    return float(windows.window[windows.at(when)] / top) if when <= windows.time_s[-1] else math.nan


@_reading("dips")
def dips(trace: TcpTrace, from_s: float, to_s: float, share: float = DIP_SHARE, flow: int = 0) -> float:
    """Count how often the window falls below a share of its median."""
    return float(len(_dips(trace, from_s, to_s, share, flow)))


@_reading("s")
def time_between_dips(trace: TcpTrace, from_s: float, to_s: float, share: float = DIP_SHARE, flow: int = 0) -> float:
    """Return the mean time between the beginnings of two dips of the window."""
    begins = [begin for begin, _ in _dips(trace, from_s, to_s, share, flow)]
    return float(np.diff(begins).mean()) if len(begins) > 1 else math.nan


@_reading("s")
def length_of_dips(trace: TcpTrace, from_s: float, to_s: float, share: float = DIP_SHARE, flow: int = 0) -> float:
    """Return the mean duration of a dip of the window."""
    spells = _dips(trace, from_s, to_s, share, flow)
    return float(np.mean([end - begin for begin, end in spells])) if spells else math.nan


# What is in flight, in the queue and on the link ------------------------------------------------------


@_reading("bandwidth-delay products")
def in_flight(trace: TcpTrace, from_s: float, to_s: float, quantile: float = 1.0, flow: int = 0) -> float:
    """Return a quantile of what is in flight."""
    return segments_in_flight(trace, from_s, to_s, quantile, flow) / trace.pipe(flow)


@_reading("segments")
def segments_in_flight(trace: TcpTrace, from_s: float, to_s: float, quantile: float = 1.0, flow: int = 0) -> float:
    """Return a quantile of what is in flight, in segments."""
    part = trace.samples(flow).between(from_s, to_s)
    return float(np.quantile(part.in_flight, quantile)) if len(part.window) else math.nan


@_reading("ms")
def queueing_delay(
    trace: TcpTrace, from_s: float, to_s: float, quantile: float = 0.5, flow: int | None = None
) -> float:
    """Return a quantile of the time that packets (of a flow) have waited at the bottleneck."""
    waits = trace.waits_ms(from_s, to_s, flow)
    return float(np.quantile(waits, quantile)) if len(waits) else math.nan


@_reading("of the rate")
def delivered(
    trace: TcpTrace, from_s: float, to_s: float, rate_mbps: float | None = None, flow: int | None = None
) -> float:
    """Return the share of the bottleneck's rate (or of another) that left it, of all flows or of one."""
    return trace.delivered_mbps(from_s, to_s, flow) / (rate_mbps or trace.rate_mbps)


@_reading("of what was sent")
def lost(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the share of a sender's packets that the bottleneck's queue or policer dropped."""
    sent = len(trace.sent(flow, from_s, to_s))
    return max(0.0, 1 - trace.passed(from_s, to_s, flow) / sent) if sent else math.nan


@_reading("retransmissions")
def retransmissions(trace: TcpTrace, flow: int = 0) -> float:
    """Count the retransmitted segments of the whole run."""
    return float(trace.measured.flows["retransmitted_packets"][flow])


@_reading("retransmissions")
def needless_retransmissions(trace: TcpTrace) -> float:
    """Count retransmissions beyond the packets that were dropped or lost on the bottleneck's link."""
    link = trace.measured.links_by_port.loc[("s1", "s2")]
    gone = link["dropped_packets"] + link["lost_packets"]
    return float(max(trace.measured.flows["retransmitted_packets"].sum() - gone, 0))


@_reading("timeouts")
def timeouts(trace: TcpTrace, flow: int = 0) -> float:
    """Count the expirations of the retransmission timer."""
    return float(trace.measured.flows["timeouts"][flow])


# Times of sending -----------------------------------------------------------------------------------


@_reading("ms")
def connected_after(trace: TcpTrace, flow: int = 0) -> float:
    """Return the time until the connection is open."""
    return float(trace.measured.flows["connected_ms"][flow])


@_reading("ms")
def completed_after(trace: TcpTrace, flow: int = 0) -> float:
    """Return the time until the receiver holds everything."""
    return float(trace.measured.flows["completion_ms"][flow])


@_reading("times the gap before")
def backoff(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the least growth from one gap between retransmissions by timeout to the next."""
    gaps = _timer_gaps(trace, from_s, to_s, flow)
    return float(np.min(gaps[1:] / gaps[:-1])) if len(gaps) > 1 else math.nan


@_reading("ms")
def first_timeout(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return how long the retransmission timer ran at first: from the last packet, data or a tail loss probe, to the
    first retransmission by timeout."""
    gaps = _timer_gaps(trace, from_s, to_s, flow)
    return float(gaps[0] * 1e3) if len(gaps) else math.nan


@_reading("packets")
def packets_a_timeout(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the most packets that leave together, within a quarter of a round, while nothing is acknowledged."""
    sent = trace.sent(flow, from_s, to_s)
    return float(_most_within(sent, trace.round_trip_s(flow) / 4)) if len(sent) else math.nan


@_reading("segments")
def restart_flight(trace: TcpTrace, flow: int = 0) -> float:
    """Count the segments that leave in the first round after the longest pause."""
    begin = _after_pause(trace.sent(flow), trace.round_trip_s(flow))
    if begin is None:
        return math.nan
    return float(len(trace.sent(flow, begin, begin + A_FLIGHT * trace.round_trip_s(flow))))


@_reading("of the rate")
def restart_rate(trace: TcpTrace, flow: int = 0) -> float:
    """Return the rate at which segments leave in the first round after the longest pause, as share of the link's."""
    megabits = restart_flight(trace, flow) * trace.packet_bytes * 8e-6
    return megabits / (A_FLIGHT * trace.round_trip_s(flow)) / trace.rate_mbps


@_reading("segments")
def largest_burst(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the most segments that leave back to back: a gap of two packet times of the sender's link ends a burst."""
    sent = trace.sent(flow, from_s, to_s)
    if not len(sent):
        return math.nan
    ends = np.flatnonzero(np.diff(sent) > 2 * trace.packet_bytes * 8e-6 / trace.access_mbps)
    return float(np.diff(np.concatenate(([-1], ends, [len(sent) - 1]))).max())


# Several flows --------------------------------------------------------------------------------------


@_reading("times the other's goodput")
def goodput_ratio(trace: TcpTrace, from_s: float, to_s: float, over: int = 0, under: int = 1) -> float:
    """Return the rate of flow `over` as a multiple of that of flow `under`."""
    below = trace.delivered_mbps(from_s, to_s, under)
    return trace.delivered_mbps(from_s, to_s, over) / below if below > 0 else math.inf


@_reading("largest over smallest")
def spread(trace: TcpTrace, from_s: float, to_s: float) -> float:
    """Return the largest rate of a flow over the smallest."""
    rates = trace.goodputs_mbps(from_s, to_s)
    return max(rates) / min(rates) if min(rates) > 0 else math.inf


@_reading("of the fair share")
def share(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return a flow's rate over its fair share of what all flows got."""
    rates = trace.goodputs_mbps(from_s, to_s)
    return rates[flow] * len(rates) / sum(rates) if sum(rates) else math.nan


@_reading("times the equation's rate")
def over_the_equation(trace: TcpTrace, from_s: float, to_s: float, loss: float, flow: int = 0) -> float:
    """Return the rate over that of TCP's throughput equation (RFC 5348, section 3.1; b = 1), or over the link's."""
    round_trip_s = trace.round_trip_s(flow)
    waits_s = 3 * math.sqrt(3 * loss / 8) * loss * (1 + 32 * loss**2) * 4 * round_trip_s
    segments = 1 / (round_trip_s * math.sqrt(2 * loss / 3) + waits_s)
    limit = min(segments * trace.packet_bytes * 8e-6, trace.rate_mbps)
    return trace.delivered_mbps(from_s, to_s, flow) / limit


@_reading("packets a second")
def packets_a_second(trace: TcpTrace, from_s: float, to_s: float, flow: int = 0) -> float:
    """Return the rate at which a sender's packets leave it."""
    return len(trace.sent(flow, from_s, to_s)) / (to_s - from_s)


# Helpers --------------------------------------------------------------------------------------------


def _a_round_later(
    trace: TcpTrace, windows: Samples, from_s: float, to_s: float, flow: int
) -> tuple[np.ndarray, np.ndarray]:
    steps = max(round(trace.round_trip_s(flow) / trace.sample_s), 1)
    now, later = windows.window[:-steps], windows.window[steps:]
    inside = (windows.time_s[:-steps] >= from_s) & (windows.time_s[steps:] <= to_s)
    return now[inside], later[inside]


def _dips(trace: TcpTrace, from_s: float, to_s: float, share: float, flow: int) -> list[tuple[float, float]]:
    part = trace.samples(flow).between(from_s, to_s)
    if not len(part.window):
        return []
    low = np.concatenate(([False], part.window < share * np.median(part.window), [False]))
    edges = np.flatnonzero(np.diff(low.astype(int)))
    return [(part.time_s[begin], part.time_s[end - 1]) for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def _timer_gaps(trace: TcpTrace, from_s: float, to_s: float, flow: int) -> np.ndarray:
    """Return the gaps between packets that are longer than a tail loss probe waits."""
    gaps = np.diff(trace.sent(flow, from_s, to_s))
    return gaps[gaps > LONGEST_PROBE_ROUNDS * trace.round_trip_s(flow)]


def _most_within(times: np.ndarray, seconds: float) -> int:
    return int(max(np.searchsorted(times, times + seconds, side="right") - np.arange(len(times))))


def _after_pause(sent: np.ndarray, round_trip_s: float) -> float | None:
    gaps = np.diff(sent)
    if not len(gaps) or gaps.max() < IDLE_ROUNDS * round_trip_s:
        return None
    return float(sent[np.argmax(gaps) + 1])
