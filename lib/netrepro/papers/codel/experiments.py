"""CoDel's settings, its links and traffic, and what is read of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import (
    FULL_PACKET_BYTES,
    CoDel,
    DropTail,
    FqCoDel,
    Link,
    Queue,
    Red,
    bandwidth_delay_packets,
)
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.networks.workloads import Datagrams, Flow, Tcp, Traffic
from netrepro.papers.codel import edge
from netrepro.papers.codel.packmime import responses
from netrepro.study import Check, Reading, gap_checks
from netrepro.study.setting import parameter

PORT, BACK = ("s1", "s2"), ("s2", "s1")
FTPS = 4
PAIRS = [(f"h{i}", f"h{i + FTPS}") for i in range(1, FTPS + 1)]
WIDE = DropTail(packets=10_000)
SENDERS = tuple(f"h{i}" for i in range(1, FTPS + 1))
ACCESS = tuple((host, PORT[0]) for host in SENDERS)
ACCESS_BACK = tuple((f"h{i + FTPS}", BACK[0]) for i in range(1, FTPS + 1))
HEADERS_BYTES = FULL_PACKET_BYTES - 1448
SCHEDULE_MBPS = (100.0, 10.0, 1.0, 50.0, 1.0, 100.0)  # each for a sixth of the run
FALLS = (1, 2, 4)  # indices in the schedule where the rate falls
NS2_MEAN_PACKET_BYTES = 500  # ns-2.35's default for RED, which neither article nor script changes
BIN_S = 0.1  # bins of the delay over time


@dataclass(frozen=True)
class SharedLink:
    """The shared link. Delays and windows are those of the authors' script (codel.tcl).

    queue : "codel", "fq_codel", "red" or "drop tail". reentry : CoDel's variant, see networks.queues.CoDel; the default
    is that of the authors' simulations. buffer_packets : 0 for eight times the product of rate and round trip, at least
    50. packet_bytes : on the wire. red : "ns2", or "linux", which has neither gentle nor wait. least_bytes : CoDel
    drops nothing while at most this much waits; 0 for one packet. Linux uses its device's largest packet.
    """

    rate_mbps: float = 10.0
    round_trip_ms: float = 100.0
    queue: str = "codel"
    target_ms: float = parameter(5.0, "a wait that may stand", "ms", low=0.1, high=10_000)
    interval_ms: float = parameter(100.0, "for how long it may be exceeded", "ms", low=1, high=10_000)
    reentry: str = "ns2_2012"
    buffer_packets: int = 0
    packet_bytes: int = FULL_PACKET_BYTES
    web_per_s: float = 0.0
    red: str = "ns2"
    least_bytes: int = 0

    @property
    def path_packets(self) -> int:
        """The product of rate and round trip in packets, at least one."""
        return max(1, round(bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)))

    @property
    def buffer(self) -> int:
        """The packets that fit in the buffer."""
        return self.buffer_packets or max(50, 8 * self.path_packets)


@dataclass(frozen=True)
class Setting(SharedLink):
    """Section "Simulation experiments": a link of fixed rate, for `static_s`.

    udp_share : in place of long flows, datagrams at this multiple of the rate. count_drops : record arrivals at the
    link too, which show whose packets it drops.
    """

    udp_share: float = 0.0
    static_s: float = 10.0
    count_drops: bool = False


@dataclass(frozen=True)
class Dynamic(SharedLink):
    """Section "Performance on dynamic links": the rate follows SCHEDULE_MBPS. The rest as in Setting."""

    rate_mbps: float = SCHEDULE_MBPS[0]
    buffer_packets: int = 830
    web_per_s: float = 5.0
    udp_share: float = 0.0
    count_drops: bool = False


@dataclass(frozen=True)
class Edge(SharedLink):
    """A consumer edge of `edge_mbps`, with its own traffic and the queue in both directions; it runs for `edge_s`."""

    buffer_packets: int = 13  # 100 ms at the link's rate
    web_per_s: float = 2.0
    edge_mbps: float = edge.RATES[0]
    edge_s: float = 300.0


QUEUES = ("codel", "fq_codel", "red", "drop tail")


def queue_of(setting: SharedLink) -> Queue:
    """Make the queue before the link. Raises NetreproError, with the nearest name, for an unknown queue."""
    if setting.queue not in QUEUES:
        raise NetreproError(f"queue = {setting.queue!r}", nearest(setting.queue, QUEUES))
    times = (setting.target_ms, setting.interval_ms)
    if setting.queue == "codel":
        least_bytes = setting.least_bytes or setting.packet_bytes
        return CoDel(setting.buffer, *times, variant=setting.reentry, least_bytes=least_bytes)
    if setting.queue == "fq_codel":
        variant = "linux" if setting.reentry == "linux" else "rfc8290"
        return FqCoDel(setting.buffer, *times, ecn=False, quantum_bytes=setting.packet_bytes, variant=variant)
    if setting.queue == "red":
        # A kernel's average of so many small packets would overflow its 32 bits; it counts packets of the link's size.
        is_linux = setting.red == "linux"
        unit = setting.packet_bytes if is_linux else NS2_MEAN_PACKET_BYTES
        ours = Red.self_configured(setting.rate_mbps, setting.buffer, adaptive=False, mean_packet_bytes=unit)
        return replace(ours, by_bytes=False, gentle=False, wait=False, variant="linux") if is_linux else ours
    return DropTail(packets=setting.buffer)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a link of fixed rate."""
    watched = Measure(packets=(PORT, *ACCESS) if setting.count_drops else (PORT,))
    traffic = long_flows(setting, setting.static_s, setting.udp_share)
    return Experiment(network(setting), traffic, setting.static_s, seed, watched, tcp_of(setting))


def dynamic_experiment(setting: Dynamic, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a link whose rate changes."""
    watched = Measure((PORT,), packets=(PORT, *ACCESS)) if setting.count_drops else Measure(packets=(PORT,))
    dwell_s = seconds / len(SCHEDULE_MBPS)
    changes = tuple(LinkChange(dwell_s * at, *PORT, rate_mbps=rate) for at, rate in enumerate(SCHEDULE_MBPS) if at > 0)
    traffic = long_flows(setting, seconds, setting.udp_share)
    return Experiment(network(setting), traffic, seconds, seed, watched, tcp_of(setting), changes=changes)


def edge_experiment(setting: Edge, seconds: float, seed: int) -> Experiment:
    """Make the experiment with a consumer edge, where acknowledgements use much of the link."""
    watched = Measure(packets=(PORT, BACK, *ACCESS, *ACCESS_BACK))
    traffic = tuple(edge.traffic(PAIRS, setting.web_per_s, setting.edge_s))
    at_both = network(setting, queue_of(setting))
    tcp = replace(tcp_of(setting), slow_start_after_idle=False)  # TCP/Linux of ns-2 sends its old window after a pause
    return Experiment(at_both, traffic, setting.edge_s, seed, watched, tcp)


def network(setting: SharedLink, back: Queue = WIDE) -> Topology:
    """Build four pairs over one link. One way, each access link takes a fifth of the round trip and the shared link a
    tenth; the pairs' access delays differ by a millisecond. back : the shared link's queue on the way back."""
    access_ms, delay_ms = setting.round_trip_ms / 5, setting.round_trip_ms / 10
    cables = [
        host_cable(f"h{i + far}", f"s{2 if far else 1}", Link(10 * setting.rate_mbps, access_ms + (0 if far else i)))
        for far in (0, FTPS)
        for i in range(1, FTPS + 1)
    ]
    ways = (Link(setting.rate_mbps, delay_ms, queue) for queue in (queue_of(setting), back))
    return Topology((*cables, Cable(*PORT, *ways)), "dumbbell of 4 pairs")


def tcp_of(setting: SharedLink) -> Tcp:
    """Return the hosts' TCP, which acknowledges every packet, as in the authors' script."""
    return Tcp(
        initial_window_segments=4,
        segment_bytes=setting.packet_bytes - HEADERS_BYTES,
        receive_window_bytes=max(2**16, 16 * setting.path_packets * setting.packet_bytes),
        delayed_ack_ms=0.0,
        hystart=False,  # newer than the simulator's TCP
        syn_linear_timeouts=0,
    )


def long_flows(setting: SharedLink, seconds: float, udp_share: float) -> tuple[Traffic, ...]:
    """Make a long flow of each pair, or datagrams at a multiple of the rate, and web traffic."""
    traffic: list[Traffic] = [Flow(*pair, duration_s=seconds, label="long") for pair in PAIRS]
    if udp_share:
        rate = udp_share * setting.rate_mbps
        traffic = [Datagrams(*PAIRS[0], rate, seconds, packet_bytes=setting.packet_bytes, label="unresponsive")]
    if setting.web_per_s:
        sources, destinations = zip(*PAIRS, strict=True)
        traffic.append(responses(setting.web_per_s, seconds, sources, destinations))
    return tuple(traffic)


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_line` reads from a quarter of the run on, after slow start. With count_drops, also read the
    number of drops and their fairness by source (Fig. 9)."""
    since_s = run.experiment.duration_s / 4
    of_line, _ = read_line(run, setting, setting.rate_mbps, since_s)
    numbers = {}
    if setting.count_drops:
        drops = edge.drops_by_source(run, PORT, setting.rate_mbps, since_s)
        numbers = {"drop_fairness": edge.fairness(drops), "dropped": int(drops.dropped.sum())}
    return of_line | Reading(numbers, checks=gap_checks(run, PORT))


def read_dynamic(run: Measurements, setting: Dynamic) -> Reading:
    """Read what `read_line` reads, the first drop after a fall of the rate (ms) and, for each tenth of a second, delay
    and megabytes so far."""
    of_line, course = read_line(run, setting, float(np.mean(SCHEDULE_MBPS)))
    first_drop_ms = max(first_drops_ms(run)) if setting.count_drops else np.nan
    return of_line | Reading({"first_drop_ms": first_drop_ms}, {"course": course})


def read_edge(run: Measurements, setting: Edge) -> Reading:
    """Read what `read_line` reads, and the table `edge`."""
    of_line, _ = read_line(run, setting, setting.rate_mbps)
    ports = dict(zip(edge.DIRECTIONS, (PORT, BACK), strict=True))
    return of_line | Reading({}, {"edge": edge.read(run, ports, setting.edge_mbps)})


def read_line(
    run: Measurements, setting: SharedLink, mean_mbps: float, since_s: float = 0.0
) -> tuple[Reading, pd.DataFrame]:
    """Read the wait of packets that left the port (median, upper quartile, ms; greatest, s), 95th percentile of the
    delay over time (ms), utilisation, megabytes sent, share dropped. Return the table `over_time`, too."""
    seconds = run.experiment.duration_s
    packets = run.packets[(run.packets.time_s >= since_s) & (run.packets.source == PORT[0])]
    link = run.links_by_port.loc[PORT]
    capacity_mb = mean_mbps * (seconds - since_s) / 8
    sent_mb = packets.size_bytes.sum() / 1e6
    course = over_time(packets, since_s, seconds)
    numbers: dict[str, float] = {
        "median_ms": float(packets.wait_ms.median()),
        "upper_quartile_ms": float(packets.wait_ms.quantile(0.75)),
        "p95_time_ms": float(course.mean_ms.quantile(0.95)),
        "greatest_s": float(packets.wait_ms.max()) / 1e3,
        "utilisation": sent_mb / capacity_mb,
        "sent_mb": float(sent_mb),
        "drop_share": float(link.dropped_packets / (link.dropped_packets + link.sent_packets)),
    }
    # Without the first packet, which began earlier. A link's clock may be 100 parts in a million fast.
    share = (sent_mb - setting.packet_bytes / 1e6) / capacity_mb
    within = Check("bytes sent over what the link could", share, at_most=1.001)
    return Reading(numbers, checks=[within]), course


def over_time(packets: pd.DataFrame, since_s: float, until_s: float) -> pd.DataFrame:
    """Return a row for each tenth of a second (BIN_S): time_s at its beginning, mean and greatest wait (ms; 0 where no
    packet left), and sent_mb, the megabytes sent so far."""
    count = max(1, round((until_s - since_s) / BIN_S))
    place = np.minimum(((packets.time_s - since_s) / BIN_S).astype(int), count - 1)
    rows = packets.groupby(place).agg(
        mean_ms=("wait_ms", "mean"), greatest_ms=("wait_ms", "max"), mb=("size_bytes", "sum")
    )
    rows = rows.reindex(range(count), fill_value=0)
    return pd.DataFrame(
        {
            "time_s": since_s + BIN_S * np.arange(count),
            "mean_ms": rows.mean_ms.to_numpy(),
            "greatest_ms": rows.greatest_ms.to_numpy(),
            "sent_mb": rows.mb.cumsum().to_numpy() / 1e6,
        }
    )


def drops_over_time(run: Measurements) -> pd.DataFrame:
    """Count the packets dropped by the port up to each sample of its queue: all arrivals, less those that began to
    leave and those that wait. Columns time_s, drops. Needs a dynamic link, whose access ports are recorded."""
    packets, queue = run.packets, run.queues
    came = packets[packets.destination == PORT[0]]
    delay_ms = came.source.map({host: run.experiment.topology.link(host, PORT[0]).delay_ms for host in SENDERS})
    came_s = np.sort((came.time_s + delay_ms / 1e3).to_numpy())
    left = packets[packets.source == PORT[0]]
    dwell_s = run.experiment.duration_s / len(SCHEDULE_MBPS)
    place = np.minimum((left.time_s / dwell_s).astype(int), len(SCHEDULE_MBPS) - 1)
    began_s = np.sort((left.time_s - left.size_bytes * 8e-6 / np.array(SCHEDULE_MBPS)[place]).to_numpy())
    at = queue.time_s.to_numpy()
    gone = np.searchsorted(came_s, at, "right") - np.searchsorted(began_s, at, "right")
    drops = gone - queue.queue_packets.to_numpy()
    return pd.DataFrame({"time_s": at, "drops": np.minimum.accumulate(drops[::-1])[::-1]})  # a count never falls


def first_drops_ms(run: Measurements) -> list[float]:
    """Measure the time from each fall of the rate to the port's first drop (ms), to the precision of the queue's
    samples (10 ms). Without a drop, it is the time to the next change."""
    dwell_s, drops = run.experiment.duration_s / len(SCHEDULE_MBPS), drops_over_time(run)
    first = []
    for fall in FALLS:
        rows = drops[(drops.time_s >= fall * dwell_s) & (drops.time_s < (fall + 1) * dwell_s)]
        later = rows.time_s[rows.drops > rows.drops.iloc[0]]
        first.append(float(later.min() - fall * dwell_s if len(later) else dwell_s) * 1e3)
    return first
