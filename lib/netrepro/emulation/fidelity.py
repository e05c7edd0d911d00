"""Whether an emulated link behaved like a link: the check of Mininet-HiFi (Handigol et al., CoNEXT 2012, section 3).

A busy link sends a packet of s bytes the time s/rate after the packet before. The check compares this time with the
gaps between packets while the queue was never empty. The deviation tells how far the whole run can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from netrepro.networks.checks import Check
from netrepro.networks.links import FULL_PACKET_BYTES

# Fixed before any run. The paper's own links at 100 Mb/s had 99 % of gaps within 10 %.
LEAST_SHARE_WITHIN_10_PERCENT = 0.95
LEAST_RATE_SHARE = 0.98
LEAST_BUSY_GAPS = 100
PACKETS_A_FRAME = "packets that a frame may hold"
STARVED = "share of time in which the traffic waited for a CPU"
STALLED = "share of time in which processes waited for a CPU"


@dataclass(frozen=True)
class Deviation:
    """The gaps between packets of a busy link, compared with ideal gaps.

    deviation : |gap - ideal| / ideal, shape (gaps,). gaps_s, ideal_s : sum of the gaps, and of the ideal gaps.
    largest_bytes : size of the largest packet; a link that sends frames of several packets may still keep its rate.
    """

    deviation: np.ndarray
    gaps_s: float = 0.0
    ideal_s: float = 0.0
    largest_bytes: int = 0

    @property
    def rate_share(self) -> float:
        """The share of the rate achieved; NaN without gaps."""
        return self.ideal_s / self.gaps_s if self.gaps_s else float("nan")


@dataclass(frozen=True)
class Interval:
    """A time (from_s to to_s) in which a link had this rate."""

    from_s: float
    to_s: float
    rate_mbps: float


def intervals(rate_mbps: float, changes: Iterable[Interval]) -> list[Interval]:
    """List the rates that a link of `rate_mbps` had, each with the time between two changes in which it held.

    changes : in order; from_s to to_s is the time in which the change was made, rate_mbps the rate from then on. The
    times in which changes were made belong to no interval of the result.
    """
    spans, since_s = [], -float("inf")
    for change in changes:
        spans.append(Interval(since_s, change.from_s, rate_mbps))
        since_s, rate_mbps = change.to_s, change.rate_mbps
    return [*spans, Interval(since_s, float("inf"), rate_mbps)]


def deviation_in(
    rates: Sequence[Interval],
    time_s: np.ndarray,
    size_bytes: np.ndarray,
    sample_time_s: np.ndarray,
    sample_queue_packets: np.ndarray,
) -> Deviation:
    """Compute the inter_dequeue_deviation of a link whose rate changed; each gap is compared with the rate in force.

    A change may have dropped the packets in the queue. So a sample of the queue counts only in the interval in which it
    was taken.
    """
    parts = []
    for each in rates:
        sent, sampled = ((at >= each.from_s) & (at < each.to_s) for at in (time_s, sample_time_s))
        queue_packets = sample_queue_packets[sampled]
        parts.append(
            inter_dequeue_deviation(
                time_s[sent], size_bytes[sent], each.rate_mbps, sample_time_s[sampled], queue_packets
            )
        )
    gaps_s, ideal_s = (sum(getattr(each, name) for each in parts) for name in ("gaps_s", "ideal_s"))
    deviation = np.concatenate([each.deviation for each in parts])
    return Deviation(deviation, gaps_s, ideal_s, int(size_bytes.max(initial=0)))


def inter_dequeue_deviation(
    time_s: np.ndarray,
    size_bytes: np.ndarray,
    rate_mbps: float,
    sample_time_s: np.ndarray,
    sample_queue_packets: np.ndarray,
) -> Deviation:
    """Measure the gaps between two packets that both waited in the queue, so that the link was busy throughout.

    time_s, size_bytes : departures, shape (packets,), in order. sample_time_s, sample_queue_packets : queue samples.
    A sample of n packets shows that the next n packets to leave waited in the queue. A packet that no sample had
    counted when its predecessor left may have found an empty link; its gap does not count.
    """
    if len(time_s) < 2 or len(sample_time_s) == 0:
        return Deviation(np.empty(0))
    largest_bytes = int(size_bytes.max())
    gap_s, ideal_s = np.diff(time_s), size_bytes[1:] * 8 / (rate_mbps * 1e6)
    gone = np.searchsorted(time_s, sample_time_s, side="left")
    known = np.maximum.accumulate(gone + sample_queue_packets.astype(np.int64))  # packets before this index waited
    first = np.arange(len(gap_s))  # index of a gap's first packet
    seen = np.searchsorted(gone, first, side="right")  # number of samples taken before that packet left
    busy = (seen > 0) & (first + 1 < known[np.maximum(seen - 1, 0)])
    deviation = np.abs(gap_s[busy] - ideal_s[busy]) / ideal_s[busy]
    return Deviation(deviation, float(gap_s[busy].sum()), float(ideal_s[busy].sum()), largest_bytes)


def port_checks(seen: Deviation, port: str = "") -> list[Check]:
    """Check a port's gaps.

    port : the port's name, put before each check. A port with fewer than LEAST_BUSY_GAPS busy gaps fails a check.
    """
    deviation, before = seen.deviation, f"{port}: " if port else ""
    within = {share: _share_within(deviation, share) for share in (0.01, 0.1)}
    checks = [
        Check("gaps of a busy link", float(len(deviation)), at_least=LEAST_BUSY_GAPS),
        Check("share of the rate achieved while busy", seen.rate_share, at_least=LEAST_RATE_SHARE),
        Check("share of gaps within 1 %", within[0.01]),
        Check("share of gaps within 10 %", within[0.1], at_least=LEAST_SHARE_WITHIN_10_PERCENT),
        Check("largest packet in bytes", float(seen.largest_bytes), at_most=FULL_PACKET_BYTES),
    ]
    for percent in (50, 90, 99):
        value = float(np.percentile(deviation, percent)) if len(deviation) else float("nan")
        checks.append(Check(f"deviation of gaps, p{percent}", value))
    return [replace(check, name=before + check.name) for check in checks]


def machine_checks(
    run_by: str, missed_packets: int, packets_a_frame: int, stalled_share: float, stolen_share: float
) -> list[Check]:
    """Check the machine, not a port.

    run_by : tier and kernel, in words. missed_packets : packets for which a tap or a receiving CPU had no room.
    packets_a_frame : the largest number of packets that any port may send as one frame. stalled_share : the share of
    time in which some process waited for a CPU. stolen_share : average number of CPUs that the hypervisor took.
    """
    return [
        Check(run_by, float("nan")),
        Check("packets missed", float(missed_packets), at_most=0.0),
        Check(PACKETS_A_FRAME, float(packets_a_frame), at_least=1.0, at_most=1.0),
        Check(STALLED, stalled_share),
        Check("CPUs taken by the machine underneath", stolen_share),
    ]


def lateness_checks(of: str, lateness: pd.DataFrame) -> list[Check]:
    """Show median and 99th percentile of a lateness histogram (up_to_us, packets); nothing where there is no packet."""
    if lateness.empty:
        return []
    return [Check(f"lateness of {of} in us, p{percent}", late_us(lateness, percent)) for percent in (50, 99)]


def late_us(lateness: pd.DataFrame, percent: float) -> float:
    """Return a percentile of a lateness histogram (up_to_us, packets), in microseconds."""
    reached = lateness["packets"].cumsum() / lateness["packets"].sum()
    return float(lateness["up_to_us"].iloc[int(np.searchsorted(reached, percent / 100))])


def _share_within(deviation: np.ndarray, bound: float) -> float:
    return float(np.mean(deviation <= bound)) if len(deviation) else float("nan")
