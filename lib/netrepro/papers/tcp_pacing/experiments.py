"""TCP pacing's settings, its path and senders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import DropTail, Link, Queue, Red, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study.setting import parameter

HEADER_BYTES = 66  # TCP with time stamps, IPv4, Ethernet
SIDE_DELAY_MS = 5.0
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
class PacedPath:
    """The paper's path and senders; the defaults are those of its single flow. host_delay_packets : see Experiment;
    None for all papers' value, which is none for one flow, as in ns-2."""

    rate_mbps: float = parameter(5.0, "of the single flow's bottleneck", "Mb/s", low=0.1, high=1000)
    buffer_packets: int = parameter(25, "of the single flow's bottleneck", "packets", low=1, high=10_000)
    core_delay_ms: float = parameter(40.0, "of the bottleneck, one way", "ms", low=0.1, high=1000)
    packet_bytes: int = parameter(576, "on the wire", "bytes", low=100, high=9000)
    initial_window_segments: int = parameter(1, "of every flow", "segments", low=1, high=1000)
    min_rto_ms: float = parameter(200.0, "least variation in a retransmission timeout", "ms", low=1, high=10_000)
    paced: bool = False
    recovery: str = "reno"
    slow_start_ratio: float = 1.0
    delayed_ack_ms: float = 0.0
    host_delay_packets: float | None = None

    @property
    def round_trip_ms(self) -> float:
        """The round trip of an empty path (ms), which is the figures' unit of time."""
        return 2 * (self.core_delay_ms + 2 * SIDE_DELAY_MS)

    @property
    def path_packets(self) -> float:
        """The packets that the path itself holds: rate times round trip."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)

    @property
    def segment_bytes(self) -> int:
        """The payload of a packet (bytes)."""
        return self.packet_bytes - HEADER_BYTES

    @property
    def side(self) -> Link:
        """The link of a host, four times as fast as the bottleneck."""
        return Link(4 * self.rate_mbps, SIDE_DELAY_MS)

    @property
    def queue(self) -> Queue:
        """The bottleneck's queue."""
        return DropTail(packets=self.buffer_packets)

    def buffer_of(self, share: float) -> int:
        """Compute the buffer (packets) that holds a share of the path's own packets."""
        return max(1, round(share * self.path_packets))


@dataclass(frozen=True)
class Setting(PacedPath):
    """One flow. seconds : greatest length of a run."""

    seconds: float = math.inf


@dataclass(frozen=True)
class ShareOfPath(Setting):
    """One flow, and `buffer_packets` that follow from a share of the path's own packets."""

    buffer_share: float = 1.0


@dataclass(frozen=True)
class Together(PacedPath):
    """Flows that start together, or at random within `starts_within_s`. seconds, many_s : greatest length of a run, of
    a case and of a profile."""

    flows: int = 50
    starts_within_s: float = 0.0
    red: bool = False
    seconds: float = math.inf
    many_s: float = math.inf

    @property
    def queue(self) -> Queue:
        """The bottleneck's queue. RED's thresholds are the best in the paper, its variant is that of the senders:
        Linux's or ns-2's."""
        if not self.red:
            return super().queue
        variant, packets = "linux" if self.recovery == "linux" else "floyd1993", self.buffer_packets
        return Red(
            packets, 5, 0.9 * packets, max_probability=0.02, variant=variant, mean_packet_bytes=self.packet_bytes
        )


@dataclass(frozen=True)
class TwoRoundTrips(PacedPath):
    """Flows that start together, the second half of them over longer side links, for `trips_s`."""

    flows: int = 50
    far_round_trip_ms: float = 280.0
    trips_s: float = 60.0

    @property
    def round_trips_ms(self) -> list[float]:
        """Each flow's round trip over an empty path (ms)."""
        return [self.far_round_trip_ms if flow >= self.flows / 2 else self.round_trip_ms for flow in range(self.flows)]


@dataclass(frozen=True)
class Mix(PacedPath):
    """Senders that each start a transfer every `every_s`, after a random pause with a mean of a second. paced_share :
    of senders that are called paced, and pace if `paced`."""

    flows: int = 20
    paced_share: float = 0.1
    size_packets: int = 5000
    transfers: int = 1
    every_s: float = 120.0


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment with one flow."""
    return _to_the_end(setting, [0.0], min(seconds, setting.seconds), seed)


def together_experiment(setting: Together, seconds: float, seed: int) -> Experiment:
    """Make the experiment with flows that start together."""
    starts_s = np.random.default_rng([seed, setting.flows]).uniform(0, setting.starts_within_s, setting.flows)
    return _to_the_end(setting, starts_s.tolist(), min(seconds, setting.seconds, setting.many_s), seed)


def trips_experiment(setting: TwoRoundTrips, _: float, seed: int) -> Experiment:
    """Make the experiment with two round trips. Raises NetreproError for far flows that are nearer than the others."""
    if setting.far_round_trip_ms < setting.round_trip_ms:
        problem = f"far flows at {setting.far_round_trip_ms:g} ms"
        raise NetreproError(problem, f"give {setting.round_trip_ms:g}, the round trip of the others, or more")
    delays_ms = [(round_trip_ms / 2 - setting.core_delay_ms) / 2 for round_trip_ms in setting.round_trips_ms]
    sides = [replace(setting.side, delay_ms=delay_ms) for delay_ms in delays_ms]
    return _to_the_end(setting, [0.0] * setting.flows, setting.trips_s, seed, sides)


def mix_experiment(setting: Mix, _: float, seed: int) -> Experiment:
    """Make the experiment with flows that end."""
    random, paced = np.random.default_rng([seed, setting.flows]), round(setting.paced_share * setting.flows)
    flows = []
    for begin_s in (np.arange(setting.transfers) * setting.every_s).tolist():
        pauses_s = random.exponential(MIXED_THINK_S, setting.flows).clip(max=setting.every_s / 2)
        for place, pause_s in enumerate(pauses_s.tolist()):
            how = {"size_bytes": setting.size_packets * setting.segment_bytes, "start_s": begin_s + pause_s}
            tcp = replace(_tcp(setting), pacing=setting.paced and place < paced)
            flows.append(Flow(*_ends(place, setting.flows), **how, label="paced" if place < paced else "reno", tcp=tcp))
    return _on_dumbbell(setting, setting.flows, flows, setting.transfers * setting.every_s, seed)


def _tcp(setting: PacedPath) -> Tcp:
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
        pacing=setting.paced,
        pacing_slow_start_ratio=setting.slow_start_ratio,
        pacing_ratio=1.0,
        unpaced_segments=0,
        recovery=setting.recovery,
        counts="acknowledgements",
    )


def _ends(place: int, pairs: int) -> tuple[str, str]:
    return f"h{place + 1}", f"h{pairs + place + 1}"


def _to_the_end(
    setting: PacedPath, starts_s: Sequence[float], seconds: float, seed: int, sides: Sequence[Link] = ()
) -> Experiment:
    """Make an experiment with a flow for each start, which sends to the end. sides : as below."""
    tcp, flows = _tcp(setting), []
    for place, start_s in enumerate(starts_s):
        ends = _ends(place, len(starts_s))
        flows.append(Flow(*ends, duration_s=seconds - start_s, start_s=start_s, tcp=tcp))
    look = Measure(windows_interval_ms=WINDOWS_MS)
    return replace(_on_dumbbell(setting, len(flows), flows, seconds, seed, sides), measure=look)


def _on_dumbbell(
    setting: PacedPath, pairs: int, flows: Sequence[Flow], seconds: float, seed: int, sides: Sequence[Link] = ()
) -> Experiment:
    """Make an experiment on the dumbbell. All packets have the paper's size. sides : a pair's link; () for `side`."""
    network = dumbbell(pairs, sides or setting.side, Link(setting.rate_mbps, setting.core_delay_ms, setting.queue))
    return Experiment(network, tuple(flows), seconds, seed, host_delay_packets=setting.host_delay_packets)
