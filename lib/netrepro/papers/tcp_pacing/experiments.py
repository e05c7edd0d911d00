"""TCP pacing's setting, its path and senders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import DropTail, Link, Queue, Red, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study.setting import parameter

HEADER_BYTES = 66  # TCP with time stamps, IPv4, Ethernet
WINDOWS_MS = 10.0
SETTLED_ROUNDS = 100  # of a single flow: in the paper, paced senders are back at their sawtooth after about 90
PEAK_ROUNDS, FALL_ROUNDS = 20, 12  # rounds in which the windows' peak is sought, and then the least after it
INITIAL_ROUNDS = 40  # in which losses are at first, not later; figures have windows at every look, later every fifth
LOOKS_AHEAD = 12  # a little more than a round trip
MIXED_THINK_S = 1.0
CORE = ("s1", "s2")
PAYLOAD = "throughput (Mb/s, payload)"
LOSS_SHARES = ("first_loss_share", "later_loss_share")


@dataclass(frozen=True)
class Setting:
    """The paper's path and senders; the defaults are those of its single flow.

    paced : whether the flows labelled paced pace; `paced_share` : share of flows with this label. host_delay_packets :
    see Experiment; None for all papers' value, which is none for one flow, as in ns-2. starts_within_s : flows start at
    random in this time. size_packets : size of flows that end; every `every_s` each sender starts one, after a random
    time with a mean of a second. seconds : length of a run, 0 for the profile's. far_round_trip_ms : for the second
    half of the flows, over longer side links; 0 for the others' value. buffer_share : replaces `buffer_packets`, as a
    share of the path's own packets; 0 not to. many_s : greatest length of runs with several flows, 0 for that of runs
    with one. trips_s : length of runs with two round trips, and of their controls.
    """

    rate_mbps: float = parameter(5.0, "of the single flow's bottleneck", "Mb/s", low=0.1, high=1000)
    buffer_packets: int = parameter(25, "of the single flow's bottleneck", "packets", low=1, high=10_000)
    flows: int = 1
    paced: bool = False
    paced_share: float = 1.0
    core_delay_ms: float = parameter(40.0, "of the bottleneck, one way", "ms", low=0.1, high=1000)
    side_delay_ms: float = 5.0
    host_delay_packets: float | None = None
    far_round_trip_ms: float = 0.0
    packet_bytes: int = parameter(576, "on the wire", "bytes", low=100, high=9000)
    initial_window_segments: int = parameter(1, "of every flow", "segments", low=1, high=1000)
    min_rto_ms: float = parameter(200.0, "least variation in a retransmission timeout", "ms", low=1, high=10_000)
    delayed_ack_ms: float = 0.0
    recovery: str = "reno"
    slow_start_ratio: float = 1.0
    red: bool = False
    starts_within_s: float = 0.0
    size_packets: int = 0
    every_s: float = 15.0
    seconds: float = 0.0
    buffer_share: float = 0.0
    many_s: float = 0.0
    trips_s: float = 60.0

    @property
    def round_trip_ms(self) -> float:
        """The round trip of an empty path (ms), which is the figures' unit of time."""
        return 2 * (self.core_delay_ms + 2 * self.side_delay_ms)

    def round_trip_of(self, flow: int) -> float:
        """Return this flow's round trip over an empty path (ms). The second half of the flows are the far ones."""
        return self.far_round_trip_ms if self.far_round_trip_ms and flow >= self.flows / 2 else self.round_trip_ms

    @property
    def path_packets(self) -> float:
        """The packets that the path itself holds: rate times round trip."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)

    @property
    def queue_packets(self) -> int:
        """The bottleneck's buffer in packets, from `buffer_share` or `buffer_packets`."""
        return max(1, round(self.buffer_share * self.path_packets)) if self.buffer_share else self.buffer_packets

    @property
    def segment_bytes(self) -> int:
        """The payload of a packet (bytes)."""
        return self.packet_bytes - HEADER_BYTES


def _queue(setting: Setting) -> Queue:
    packets = setting.queue_packets
    if not setting.red:
        return DropTail(packets=packets)
    variant = "linux" if setting.recovery == "linux" else "floyd1993"  # that of the senders: Linux's or ns-2's
    return Red(packets, 5, 0.9 * packets, max_probability=0.02, variant=variant)  # the best in the paper


def _tcp(setting: Setting) -> Tcp:
    return Tcp(
        "reno",
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=10_000 * setting.segment_bytes,
        min_rto_ms=setting.min_rto_ms,
        syn_linear_timeouts=0,
        delayed_ack_ms=setting.delayed_ack_ms,
        sack=setting.recovery in ("linux", "sack"),
        tail_loss_probe=False,
        pacing=False,
        pacing_slow_start_ratio=setting.slow_start_ratio,
        pacing_ratio=1.0,
        unpaced_segments=0,
        recovery=setting.recovery,
        counts="acknowledgements",
    )


def _flows(setting: Setting, seconds: float, seed: int) -> list[Flow]:
    random = np.random.default_rng([seed, setting.flows])
    tcp, size_bytes = _tcp(setting), setting.size_packets * setting.segment_bytes
    paced = round(setting.paced_share * setting.flows)
    begins_s = np.arange(0.0, seconds - setting.every_s + 1e-9, setting.every_s) if size_bytes else [0.0]
    flows = []
    for begin_s in begins_s:
        starts_s = begin_s + random.uniform(0, setting.starts_within_s, setting.flows)
        if size_bytes:
            starts_s = begin_s + random.exponential(MIXED_THINK_S, setting.flows).clip(max=setting.every_s / 2)
        for place, start_s in enumerate(starts_s.tolist()):
            lasts: dict[str, Any] = {"size_bytes": size_bytes} if size_bytes else {"duration_s": seconds - start_s}
            ends, is_paced = (f"h{place + 1}", f"h{setting.flows + place + 1}"), place < paced
            own = replace(tcp, pacing=setting.paced and is_paced)
            flows.append(Flow(*ends, **lasts, start_s=start_s, label="paced" if is_paced else "reno", tcp=own))
    return flows


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment on the dumbbell, whose side links are four times as fast as the bottleneck. All packets have
    the paper's size.

    Raises NetreproError for far flows that are nearer than the others, and for runs that end before flows start.
    """
    if setting.many_s and setting.flows > 1:
        seconds = min(seconds, setting.many_s)
    seconds = setting.seconds or seconds
    if 0 < setting.far_round_trip_ms < setting.round_trip_ms:
        problem = f"far flows at {setting.far_round_trip_ms:g} ms"
        raise NetreproError(problem, f"give {setting.round_trip_ms:g}, the round trip of the others, or more")
    longer_ms = [(setting.round_trip_of(flow) - setting.round_trip_ms) / 4 for flow in range(setting.flows)]
    sides = [Link(4 * setting.rate_mbps, setting.side_delay_ms + more_ms) for more_ms in longer_ms]
    network = dumbbell(setting.flows, sides, Link(setting.rate_mbps, setting.core_delay_ms, _queue(setting)))
    look = Measure(windows_interval_ms=None if setting.size_packets else WINDOWS_MS)
    flows = tuple(_flows(setting, seconds, seed))
    return Experiment(network, flows, seconds, seed, look, host_delay_packets=setting.host_delay_packets)
