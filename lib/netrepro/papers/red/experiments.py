"""RED's settings and cases, its networks, and what is read of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link, Queue, Red
from netrepro.networks.topology import Topology, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Part, Reading, swept
from netrepro.study.setting import parameter

HEADER_BYTES = 66  # TCP with time stamps, IPv4, Ethernet
NS2_HEADER_BYTES = 40  # of a packet in ns-2: the scripts of Fig. 5 count what is left of it
FAR_ABOVE = 1.4  # a burst: a queue of this many times the average
BAND = (0.74, 0.77)  # shares of the link at which RED's and drop tail's queues are compared
BUFFERS = (15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 140)
THRESHOLDS = (3, 5, 7, 9, 11, 13, 15, 20, 25, 30, 40, 50)
FLAT_FROM = 5  # packets: RED's throughput is flat from this minimum threshold on
REFERENCE_PACKETS = 15.0  # the paper's maximum threshold
FIG3_S, BURSTY_S = 1.0, 10.0  # lengths of the other networks' runs
NEAR_MS = 2.0  # delay of their bottlenecks
OVERHEAD_MS = 0.05  # deviation of the scripts' random delay of senders, uniform in 0 to .17 ms


SENDERS: dict[str, dict[str, Any]] = {
    "tahoe": {"congestion_control": "reno", "recovery": "tahoe", "sack": False},
    "reno": {"congestion_control": "reno", "recovery": "reno", "sack": False},
    "sack": {"congestion_control": "reno", "recovery": "sack"},
    "linux": {"congestion_control": "reno"},
    "cubic": {"congestion_control": "cubic"},
    "bic": {"congestion_control": "bic"},
}
FLOYD = "floyd1993"
OF_1993 = ("tahoe", "reno", "sack", "linux")  # they count acknowledgements, and start with one packet


@dataclass(frozen=True)
class Gateway:
    """The gateway, and the TCP of all senders to it.

    queue : "drop tail" or "red". sender : one of SENDERS. threshold_ratio : maximum over minimum threshold.
    unit_bytes : size of a packet in buffer and thresholds, 0 for the packet's own. variant : of RED, see
    networks.queues.Red; no kernel has the paper's. of_2009 : RED as ns-2 sets it where a script does not. It is gentle,
    waits and counts bytes, and its mean packet has 500. first_window : of the senders of 1993 (segments).
    """

    queue: str = "drop tail"
    sender: str = "tahoe"
    rate_mbps: float = parameter(45.0, "of the bottleneck", "Mb/s", low=1, high=10_000)
    buffer_packets: int = 140
    min_threshold_packets: float = 5.0
    threshold_ratio: float = 3.0
    max_probability: float = parameter(
        0.02, "RED's probability of a drop at its maximum threshold", "share", above=0, high=1
    )
    weight: float = parameter(0.002, "of a new queue in RED's average", "share", above=0, high=1)
    gentle: bool = False
    variant: str = FLOYD
    packet_bytes: int = 1000
    unit_bytes: int = 0
    of_2009: bool = False
    first_window: int = 1

    @property
    def limits_packets(self) -> tuple[int, float, float]:
        """Buffer, minimum and maximum threshold in the senders' packets; the maximum is at most the buffer."""
        unit = self.unit_bytes / self.packet_bytes if self.unit_bytes else 1.0
        buffer, low = int(unit * self.buffer_packets), unit * self.min_threshold_packets
        return buffer, low, min(low * self.threshold_ratio, float(buffer))

    @property
    def segment_bytes(self) -> int:
        """The payload of a packet (bytes)."""
        return self.packet_bytes - HEADER_BYTES

    @property
    def packet_ms(self) -> float:
        """The time (ms) in which the bottleneck sends a packet."""
        return self.packet_bytes * 8 / (self.rate_mbps * 1e3)


@dataclass(frozen=True)
class Setting(Gateway):
    """Fig. 5's equal flows, which start within 10 ms. bottleneck_delay_ms : one way."""

    flows: int = 2
    bottleneck_delay_ms: float = 20.0


@dataclass(frozen=True)
class FourFlows(Gateway):
    """Fig. 3's four flows, which start one after the other."""


@dataclass(frozen=True)
class BurstyNode(Gateway):
    """Figs 11 to 14: four near nodes, and one far away whose small window comes in bursts."""


class Sender(NamedTuple):
    """A host with one flow: its link's delay (ms), its greatest window (packets), when it starts (s) and its link's
    rate (Mb/s)."""

    delay_ms: float
    window: int
    start_s: float
    rate_mbps: float = 100.0


def _queue(setting: Gateway) -> Queue:
    if setting.queue == "drop tail":
        return DropTail(packets=setting.limits_packets[0])
    if setting.of_2009:
        return replace(
            Red.self_configured(setting.rate_mbps, LIMIT_2009, adaptive=False, mean_packet_bytes=MEAN_2009_BYTES),
            packets=LIMIT_2009 * MEAN_2009_BYTES // setting.packet_bytes,
            min_threshold_packets=setting.min_threshold_packets,
            max_threshold_packets=setting.min_threshold_packets * setting.threshold_ratio,
            max_probability=setting.max_probability,
        )
    return Red(
        *setting.limits_packets,
        max_probability=setting.max_probability,
        weight=setting.weight,
        gentle=setting.gentle,
        mean_packet_bytes=setting.packet_bytes,
        variant=FLOYD if setting.gentle else setting.variant,
    )


def _tcp(setting: Gateway, window: int) -> Tcp:
    old = setting.sender in OF_1993
    return Tcp(
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=window * setting.segment_bytes,
        initial_window_segments=setting.first_window if old else 10,
        syn_linear_timeouts=0,
        delayed_ack_ms=0.0 if old else 40.0,
        counts="acknowledgements" if old else "segments",
        tail_loss_probe=not old,
        **SENDERS[setting.sender],
    )


def port_of(setting: Setting) -> tuple[str, str]:
    """Return the gateway's port to the bottleneck, with Fig. 5's flows."""
    return _port(setting.flows)


def _port(senders: int) -> tuple[str, str]:
    return "s1", f"h{senders + 1}"


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make Fig. 5's experiment: equal flows. Of two, packets are recorded, and of ten or more, windows."""
    senders = [Sender(1, 240, start_s) for start_s in _starts_s(setting.flows, 0.01, seed)]
    made = _at_gateway(setting, senders, setting.bottleneck_delay_ms, seconds, seed, "fig5")
    look = replace(made.measure, windows_interval_ms=5.0 if setting.flows >= 10 else None)
    return replace(made, measure=_with_packets(look) if setting.flows == 2 else look)


def four_experiment(setting: FourFlows, _: float, seed: int) -> Experiment:
    """Make Fig. 3's experiment, which always takes FIG3_S."""
    senders = [Sender(1, 33, 0.0), Sender(4, 67, 0.2), Sender(8, 112, 0.4), Sender(5, 78, 0.6)]
    made = _at_gateway(setting, senders, NEAR_MS, FIG3_S, seed, "fig3")
    return replace(made, measure=_with_packets(made.measure))


def bursty_experiment(setting: BurstyNode, _: float, seed: int) -> Experiment:
    """Make the experiment of Figs 11 to 14, which always takes BURSTY_S; the bursty node is the last."""
    *near, far = _starts_s(5, 0.1, seed)
    senders = [*(Sender(1, 12, start_s) for start_s in near), Sender(16, 8, far, rate_mbps=45)]
    return _at_gateway(setting, senders, NEAR_MS, BURSTY_S, seed, "bursty")


def _starts_s(senders: int, within_s: float, seed: int) -> list[float]:
    """Draw when senders start (s): the first at once, the others at random."""
    return [0.0, *np.random.default_rng([seed, senders]).uniform(0, within_s, senders - 1).tolist()]


def _with_packets(look: Measure) -> Measure:
    return replace(look, packets=look.queues)


def _at_gateway(
    setting: Gateway, senders: Sequence[Sender], bottleneck_delay_ms: float, seconds: float, seed: int, name: str
) -> Experiment:
    """Make an experiment with all senders at one gateway; the bottleneck leads from it to the receiving host."""
    port = _port(len(senders))
    cables = [host_cable(port[1], "s1", Link(setting.rate_mbps, bottleneck_delay_ms, _queue(setting)))]
    flows = []
    for place, (delay_ms, window, start_s, rate_mbps) in enumerate(senders):
        host = f"h{place + 1}"
        cables.append(host_cable(host, "s1", Link(rate_mbps, delay_ms, jitter_ms=OVERHEAD_MS)))
        flows.append(Flow(host, port[1], duration_s=seconds - start_s, start_s=start_s, tcp=_tcp(setting, window)))
    look = Measure(queues=(port,), queue_interval_ms=5.0)
    # The paper's random overhead replaces the hosts' delay.
    return Experiment(Topology(tuple(cables), name), tuple(flows), seconds, seed, look, host_delay_packets=0)


def averages(run: Measurements, setting: Gateway) -> pd.DataFrame:
    """Compute RED's average again from the packets that the gateway let in: time_s of each arrival, the queue (packets)
    before it and the average after it. As in the paper's Fig. 2, while the link is idle the average falls as if packets
    of the mean size found no queue. Dropped arrivals are not recorded, so they are left out."""
    packets = run.packets
    leaves_s, wait_s = packets.time_s.to_numpy(), packets.wait_ms.to_numpy() * 1e-3
    begins_s = leaves_s - packets.size_bytes.to_numpy() * 8e-6 / setting.rate_mbps
    comes_s = begins_s - wait_s
    queue = np.maximum(np.arange(len(packets)) - np.searchsorted(begins_s, comes_s, side="right"), 0)
    idle_s = np.maximum(comes_s - np.concatenate(([np.inf], leaves_s[:-1])), 0.0)
    average, values = 0.0, np.empty(len(packets))
    for place, (waiting, idle) in enumerate(zip(queue, idle_s, strict=True)):
        if idle > 0:
            average *= (1 - setting.weight) ** int(idle * 1e3 / setting.packet_ms)
        else:
            average += setting.weight * (waiting - average)
        values[place] = average
    return pd.DataFrame({"time_s": comes_s, "queue_packets": queue, "average_packets": values})


def losing_share(run: Measurements, round_trip_s: float) -> float:
    """Compute the mean share of flows that lose in a round trip in which any loses; NaN where none does.

    A flow loses when its slow-start threshold is cut. A round trip begins with the first flow that loses; the next
    begins with the first loss after its end.
    """
    windows = run.windows.sort_values(["flow", "time_s"])
    limit, flow = windows.slow_start_threshold_bytes.to_numpy(), windows.flow.to_numpy()
    cut = np.concatenate(([False], (limit[1:] < limit[:-1]) & (flow[1:] == flow[:-1])))
    losses = windows[cut].sort_values("time_s")
    times, flows, shares = losses.time_s.to_numpy(), losses.flow.to_numpy(), []
    place = 0
    while place < len(times):
        end = int(np.searchsorted(times, times[place] + round_trip_s))
        shares.append(len(set(flows[place:end])) / len(run.flows))
        place = end
    return float(np.mean(shares)) if shares else float("nan")


def read_gateway(run: Measurements, setting: Gateway) -> Reading:
    """Read the bottleneck's utilisation, throughput_mbps and dropped_share, and mean_queue_packets in front of it.
    carried_share and delay_ms are as the scripts of Fig. 5 count: new data without headers (share of the link), and the
    packets' mean wait in the queue, a mean of flows. Where no packets were recorded the latter follows from
    mean_queue_packets."""
    (port,) = run.experiment.measure.queues
    links = run.links_by_port
    busy, queue = float(links.utilisation[port]), float(run.queues.queue_packets.mean())
    dropped = int(links.dropped_packets[port])
    segments = run.flows.delivered_bytes.sum() / setting.segment_bytes
    carried_bits = segments * (setting.packet_bytes - NS2_HEADER_BYTES) * 8
    data = run.packets[run.packets.size_bytes > setting.packet_bytes / 2]
    waits_ms = data.groupby("flow").wait_ms.mean()
    numbers: dict[str, float] = {
        "utilisation": busy,
        "throughput_mbps": busy * setting.rate_mbps,
        "mean_queue_packets": queue,
        "carried_share": float(carried_bits / (setting.rate_mbps * 1e6 * run.experiment.duration_s)),
        "delay_ms": float(waits_ms.mean()) if len(waits_ms) else queue * setting.packet_ms,
        "dropped_share": dropped / (dropped + int(links.sent_packets[port])),
    }
    return Reading(numbers, {}, [Check("utilisation of the bottleneck", busy, at_least=0.0, at_most=1.0)])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_gateway` does, and for ten flows or more losing_share."""
    reading = read_gateway(run, setting)
    if len(run.windows):
        round_trip_s = 2e-3 * (run.experiment.topology.link("h1", "s1").delay_ms + setting.bottleneck_delay_ms)
        return reading | Reading({"losing_share": losing_share(run, round_trip_s)})
    return reading


def read_average(run: Measurements, setting: FourFlows) -> Reading:
    """Read what `read_gateway` does, share_within (share of the time after .2 s with an average below the reference),
    greatest_queue, greatest_average and FAR_ABOVE times that (packets), and the table `average`."""
    table = averages(run, setting)
    later = table[table.time_s >= 0.2]
    lasts = np.diff(later.time_s, append=later.time_s.iloc[-1])  # later arrivals had not left at the end
    greatest = float(table.average_packets.max())
    numbers = {
        "share_within": float(lasts[later.average_packets < REFERENCE_PACKETS].sum() / lasts.sum()),
        "greatest_queue": float(table.queue_packets.max()),
        "greatest_average": greatest,
        "far_above_average": FAR_ABOVE * greatest,
    }
    return read_gateway(run, setting) | Reading(numbers, {"average": table.iloc[::4]})


def read_bursty(run: Measurements, setting: BurstyNode) -> Reading:
    """Read what `read_gateway` does, and burst_share, the bursty node's share of all throughput."""
    delivered = run.flows.delivered_bytes
    return read_gateway(run, setting) | Reading({"burst_share": float(delivered.iloc[-1] / delivered.sum())})


# Cases.

RED, TEN = {"queue": "red"}, {"flows": 10}
MEAN_2009_BYTES, LIMIT_2009 = 500, 140  # ns-2's mean packet; the limit of the scripts, in such packets
FIG5 = {"packet_bytes": 1040, "first_window": 2}  # ns-2's
FOUR = Part(setting=FourFlows(), experiment=four_experiment, read=read_average)
A_BURSTY_NODE = Part(setting=BurstyNode(), experiment=bursty_experiment, read=read_bursty)
FIG3: dict[str, Any] = RED | {"part": FOUR}
BURSTY: dict[str, Any] = {"part": A_BURSTY_NODE}
AT_BUFFERS = FIG5 | {"buffer_packets": swept(*BUFFERS)}
AT_THRESHOLDS = FIG5 | RED | {"min_threshold_packets": swept(*THRESHOLDS)}
IS_DROP_TAIL: dict[str, Any] = {  # with a queue one short of the buffer a packet passes, with a full one not
    "queue": "red",
    "weight": 1.0,
    "min_threshold_packets": lambda setting: setting.buffer_packets - 1.0,
    "threshold_ratio": 1000.0,
}
# The rarest that Linux's red can: between the thresholds its probability rises by whole 2^-32 a byte.
NEVER_DROPS = {"max_probability": 6e-4, "threshold_ratio": 100.0, "buffer_packets": 1000}
BURSTY_BUFFERS = BURSTY | {"buffer_packets": swept(8, 10, 12, 14, 16, 18, 20, 22)}
BURSTY_RED = BURSTY | {
    "queue": "red",
    "min_threshold_packets": swept(3, 4, 6, 8, 10, 12, 14),
    "buffer_packets": lambda setting: int(4 * setting.min_threshold_packets),
}
FEW_BUFFERS = FIG5 | {"buffer_packets": swept(15, 40, 100, 140)}
FEW_THRESHOLDS = FIG5 | RED | {"min_threshold_packets": swept(3, 5, 15, 50)}
LATER_SENDERS = ("reno", "sack", "cubic")
# Linux's weight for the scripts' `burst`, by minimum threshold: the greatest power of two with which the average stays
# below the threshold after a burst of 5/3 of it into an empty queue (Floyd and Jacobson, equation 3).
CLASS_WEIGHTS = {3: 1 / 4, 5: 1 / 8, 10: 1 / 8, 20: 1 / 16, 50: 1 / 64}
CLASS: dict[str, Any] = {  # from the project's scripts; its thresholds count 1000 bytes
    "queue": "red",
    "sender": "bic",
    "packet_bytes": 1514,
    "unit_bytes": 1000,
    "buffer_packets": 100,
    "min_threshold_packets": swept(3, 5, 10, 20, 50),
    "weight": lambda setting: CLASS_WEIGHTS[setting.min_threshold_packets],
}

CLASS_SENDER = {name: CLASS[name] for name in ("sender", "packet_bytes", "unit_bytes")}
CLASS_DROP_TAIL = CLASS_SENDER | {"buffer_packets": swept(15, 45, 75, 100, 140)}
# What `tc` refuses of the scripts' commands (data/red/SOURCES.md): the delay of 20 ms in front of the bottleneck, so
# that the round trip is 22 ms; with drop tail also the class of 45 Mb/s, so that only the senders' links limit it.
AS_IT_RAN = {"bottleneck_delay_ms": 10.0}


CASES: dict[str, dict[str, Any]] = {
    "fig3": FIG3,
    "fig3, no drops": FIG3 | NEVER_DROPS,
    "drop tail": AT_BUFFERS,
    "red": AT_THRESHOLDS,
    "red, ns-2 of 2009": AT_THRESHOLDS | {"of_2009": True},
    "red, ns-2 of 2009, probability 1": AT_THRESHOLDS | {"of_2009": True, "max_probability": 1.0},
    "red, probability 1": AT_THRESHOLDS | {"max_probability": 1.0},
    "red as drop tail": AT_BUFFERS | IS_DROP_TAIL,
    "bursty, drop tail": BURSTY_BUFFERS,
    "bursty, red": BURSTY_RED,
    "bursty, red, weight 1": BURSTY_RED | {"weight": 1.0},
    "bursty, red as drop tail": BURSTY_BUFFERS | IS_DROP_TAIL,
    "ten, drop tail": TEN,
    "ten, red": TEN | RED,
    "ten, red as drop tail": TEN | IS_DROP_TAIL,
    **{f"drop tail, {sender}": FEW_BUFFERS | {"sender": sender} for sender in LATER_SENDERS},
    **{f"red, {sender}": FEW_THRESHOLDS | {"sender": sender} for sender in LATER_SENDERS},
    "class": CLASS,
    "class, as it ran": CLASS | AS_IT_RAN,
    "class, drop tail as it ran": CLASS_DROP_TAIL | AS_IT_RAN | {"rate_mbps": 1000.0},
    "class, drop tail": CLASS_DROP_TAIL,
}
