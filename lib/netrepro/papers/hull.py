"""A little bandwidth for low latency: Alizadeh et al., "Less Is More" (HULL, NSDI 2012).

Flows meet at one switch port of 1 Gb/s. DCTCP keeps a short queue. A phantom queue, which drains slower than the link,
marks before there is a real queue, and pacers at the hosts spread the bursts of segmentation offload. The load is long
flows (static), or requests of 1 KB and 10 MB (dynamic), as in the paper and in a replica in ns-2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, EcnThreshold, Link, NicPacer, PhantomQueue, Queue
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, PoissonFlows, Tcp, Traffic, flows_per_s_at_load
from netrepro.paths import data_dir
from netrepro.simulation import Hosts
from netrepro.study import (
    GOODPUT_OF_FLOWS,
    SIMULATED,
    VIRTUAL,
    Check,
    Evidence,
    Gauge,
    Knob,
    Part,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import jackknife, least_first, ratio
from netrepro.study.figures import Bars, Course, Level, Look, Mark, Panel, Picture, Published, Sweep, beside, plot
from netrepro.study.live import WAIT, LiveRun
from netrepro.study.measuring import HOST_DELAY_PACKETS, run_experiment
from netrepro.study.setting import parameter
from netrepro.study.trust import gap_checks
from netrepro.style import CURVES, new_figure, scheme

SETTLED_SHARE = 1 / 3  # of a run with long flows; slow start is over by then
SMALL_BYTES, LARGE_BYTES = 1000, 10_000_000
SMALL_SHARE = 0.8  # four small requests for each large one; a choice
REPLICA_SMALL_SHARE = 5 / 6  # five, in the replica's results
REQUEST_BYTES = 100  # what a client sends to ask, in the replica
PING_MS, WINDOW_MS = 1.0, 10.0  # samples of the paper's latency, and windows over which the replica takes means
SERVERS = 9  # and one client
OPENED_S = 0.1  # time by which all connections that stay open are open
ARRIVING_SHARE = 0.75  # of a run with requests; the rest is for completing them
HEADER_BYTES = FULL_PACKET_BYTES - 1448
PUBLISHED_PQ_US = {2: 11, 3: 13, 4: 14, 5: 17, 6: 22, 7: 22, 8: 48}  # read off a replica's report, Fig. 2(a)
PUBLISHED_US = {"tcp": 2190.0, "30k": 165.0, "6k": 25.5, "pq950": 11.5}  # two flows, from the same figure
PUBLISHED_PQ_MBPS = 860.0  # at least, from the same figure


@dataclass(frozen=True)
class OnePort:
    """Section 4's mechanisms; link delay and buffer are choices. `queue` is "drop tail", "ecn" or "phantom", `pacer`
    "none", "nic" (the paper's) or "linux" (paces each segment, at 1.2 windows a round trip)."""

    rate_mbps: float = 1000.0
    link_delay_ms: float = parameter(0.04, "of every link, one way; a choice", "ms", low=0.001, high=10)
    buffer_packets: int = parameter(425, "of the port; a choice", "packets", low=1, high=100_000)
    segment_bytes: int = 1448
    queue: str = "drop tail"
    threshold_packets: int = 20
    drain_share: float = 0.95
    phantom_bytes: int = 1000
    congestion_control: str = "reno"
    pacer: str = "none"
    offload_bytes: int = 65_536
    slow_start_after_idle: bool = True

    @property
    def port(self) -> Queue:
        """The queue of every port of the switch; a threshold larger than the buffer is reduced to it."""
        if self.queue == "ecn":
            return EcnThreshold(self.buffer_packets, min(self.threshold_packets, self.buffer_packets))
        if self.queue == "phantom":
            return PhantomQueue(self.buffer_packets, self.drain_share, self.phantom_bytes)
        return DropTail(packets=self.buffer_packets)


@dataclass(frozen=True)
class Setting(OnePort):
    """Long flows."""

    flows: int = 2


@dataclass(frozen=True)
class Requests(OnePort):
    """Requests, each over a connection of its own. load : share of the port's rate, until about `large_requests` of 10
    MB have come."""

    load: float = 0.4
    large_requests: int = 40
    small_bytes: int = SMALL_BYTES
    small_share: float = SMALL_SHARE


@dataclass(frozen=True)
class KeptOpen(Requests):
    """A request takes an idle one of its server's `open_connections`."""

    open_connections: int = 16


@dataclass(frozen=True)
class Replica(KeptOpen):
    """Servers are asked one after the other and keep separate connections for each size, as in the replica. Values are
    from its scripts."""

    small_bytes: int = 900
    small_share: float = REPLICA_SMALL_SHARE
    segment_bytes: int = 990 - HEADER_BYTES
    open_connections: int = 1
    slow_start_after_idle: bool = False


def at_port(setting: OnePort, senders: int, traffic: Iterable[Traffic], seconds: float, seed: int) -> Experiment:
    """Make an experiment in which hosts send to one more, the last, through s1."""
    port = Link(setting.rate_mbps, setting.link_delay_ms, setting.port)
    out = NicPacer() if setting.pacer == "nic" else DropTail(packets=1000)
    own = Link(setting.rate_mbps, setting.link_delay_ms, out, offload_bytes=setting.offload_bytes)
    tcp = Tcp(
        setting.congestion_control,
        segment_bytes=setting.segment_bytes,
        ecn=setting.queue != "drop tail",
        min_rto_ms=10,
        syn_linear_timeouts=0,
        pacing=setting.pacer == "linux",
        slow_start_after_idle=setting.slow_start_after_idle,
    )
    star = Topology(tuple(Cable(f"h{host + 1}", "s1", own, port) for host in range(senders + 1)))
    return Experiment(star, tuple(traffic), seconds, seed, Measure(packets=(("s1", f"h{senders + 1}"),)), tcp)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment with long flows that start a millisecond apart."""
    receiver, starts_s = f"h{setting.flows + 1}", [at * 1e-3 for at in range(setting.flows)]
    flows = (Flow(f"h{at}", receiver, None, seconds - start_s, start_s) for at, start_s in enumerate(starts_s, 1))
    return at_port(setting, setting.flows, flows, seconds, seed)


def request_experiment(setting: Requests, _: float, seed: int) -> Experiment:
    """Make the experiment with requests at random times, as long as they take."""
    small, large, share = setting.small_bytes, LARGE_BYTES, setting.small_share
    sizes = FlowSizeDistribution(((small, 0.0), (small, share), (large, share), (large, 1.0)), "bytes")
    per_s = flows_per_s_at_load(sizes, setting.load, setting.rate_mbps)
    count = round(setting.large_requests / (1 - share))
    servers = tuple(f"h{number + 1}" for number in range(SERVERS))
    requests = PoissonFlows(sizes, per_s, count, servers, (f"h{SERVERS + 1}",))
    return at_port(setting, SERVERS, [requests], count / per_s / ARRIVING_SHARE, seed)


def over_open_connections(asked: Experiment, of_each_server: int, *, in_turn: bool = False) -> Measurements:
    """Simulate the same requests, from OPENED_S on, over connections that are opened before and stay open.

    A request takes a random idle connection of its server; where none is idle, it waits on a random one. The client
    asks with REQUEST_BYTES, and its clock runs from then until the last byte has come. Servers open the connections.
    in_turn : requests of a size ask the servers one after the other, and each server keeps `of_each_server` connections
    for every size.
    """
    requests, seconds = asked.flow_table, asked.duration_s + OPENED_S
    client = requests.destination.iloc[0]
    servers = sorted({*asked.topology.hosts} - {client})
    if in_turn:
        turns = requests.groupby("size_bytes").cumcount() % len(servers)
        requests = requests.assign(source=[servers[turn] for turn in turns])
    kinds = requests.size_bytes if in_turn else pd.Series(0, index=requests.index)
    network = replace(asked, traffic=(), duration_s=seconds, host_delay_packets=HOST_DELAY_PACKETS)
    hosts = Hosts(network, most_connections=len(servers) * kinds.nunique() * of_each_server)
    opened = {
        (server, kind): [hosts.connect(server, client) for _ in range(of_each_server)]
        for server in servers
        for kind in kinds.unique()
    }
    carried = dict.fromkeys((one for ones in opened.values() for one in ones), 0)
    random = np.random.default_rng([asked.seed, of_each_server])
    completion_ms = np.full(len(requests), np.nan)

    def ask(place: int, asked_s: float) -> None:
        own = opened[requests.source[place], kinds[place]]
        free = [one for one in own if not carried[one]] or own
        chosen = free[random.integers(len(free))]

        def arrived(now_s: float) -> None:
            carried[chosen] -= 1
            completion_ms[place] = (now_s - asked_s) * 1e3

        def serve(_: float) -> None:
            chosen.send(int(requests.size_bytes[place]), arrived)

        carried[chosen] += 1
        chosen.send(REQUEST_BYTES, serve, to_client=True)  # to the server, which opened the connection

    for place, start_s in enumerate(requests.start_s):
        hosts.at(OPENED_S + start_s, partial(ask, place))
    hosts.run()
    delivered = requests.size_bytes.where(np.isfinite(completion_ms), 0.0)
    flows = requests.assign(completion_ms=completion_ms, delivered_bytes=delivered)
    return replace(hosts.measurements(), flows=flows)


def pinged_us(run: Measurements, since_s: float) -> np.ndarray:
    """Compute how long a packet would wait at the switch (microseconds) that came every PING_MS, until what came before
    it has left. Idle time counts."""
    times_s = np.arange(since_s, run.packets.time_s.max(), PING_MS / 1e3)
    entered_s, _, left_s, _ = _stays(run)
    last = np.maximum.accumulate(left_s)[np.searchsorted(entered_s, times_s) - 1]
    return np.maximum(np.where(times_s > entered_s[0], last - times_s, 0.0), 0.0) * 1e6


def windows_us(run: Measurements, since_s: float) -> np.ndarray:
    """Compute the mean queue over windows of WINDOW_MS, as time at the port's rate (microseconds). The packet that is
    being sent is not in the queue. Idle time counts, but not in windows before the first and after the last queue."""
    edges_s = np.arange(since_s, run.packets.time_s.max(), WINDOW_MS / 1e3)
    entered_s, began_s, _, sent_s = _stays(run)

    def seconds_until(times_s: np.ndarray) -> np.ndarray:
        """Sum up, over packets, their time of sending times how long each is there before each of the edges."""
        weights, ordered = np.cumsum([0.0, *sent_s[np.argsort(times_s)]]), np.sort(times_s)
        moments = np.cumsum([0.0, *(sent_s * times_s)[np.argsort(times_s)]])
        place = np.searchsorted(ordered, edges_s)
        return np.asarray(weights[place] * edges_s - moments[place])

    means = np.diff(seconds_until(entered_s) - seconds_until(began_s)) / (WINDOW_MS / 1e3)
    busy = np.flatnonzero(means > 1e-12)
    return means[busy[0] : busy[-1] + 1] * 1e6 if len(busy) else np.zeros(1)


def _stays(run: Measurements) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return when each packet joined the port's queue, began to be sent, and had left, and how long it was sent (s)."""
    packets, port = run.packets, run.experiment.measure.packets[0]
    left_s = packets.time_s.to_numpy()
    sent_s = packets.size_bytes.to_numpy() * 8e-6 / run.experiment.topology.link(*port).rate_mbps
    began_s = left_s - sent_s
    return began_s - packets.wait_ms.to_numpy() / 1e3, began_s, left_s, sent_s


def read_waits(run: Measurements, sampled_us: np.ndarray, since_s: float = 0.0) -> Reading:
    """Read the wait at the switch (mean and 99th percentile of what was sampled in time, microseconds), and received
    payload (Mb/s). The table `waits` is of packets."""
    numbers = {
        "mean_us": float(sampled_us.mean()),
        "p99_us": float(np.quantile(sampled_us, 0.99)),
        "goodput_mbps": float(run.flows["delivered_bytes"].sum()) * 8e-6 / run.experiment.duration_s,
    }
    shares, waits_us = np.linspace(0, 1, 101), run.packets.wait_ms[run.packets.time_s >= since_s].to_numpy() * 1e3
    return Reading(numbers, {"waits": pd.DataFrame({"share": shares, "wait_us": np.quantile(waits_us, shares)})})


def read(run: Measurements, _: Setting) -> Reading:
    """Read the waits after slow start. The flows must keep the port busy."""
    settled_s = SETTLED_SHARE * run.experiment.duration_s
    checks = gap_checks(run, run.experiment.measure.packets[0])
    return read_waits(run, pinged_us(run, settled_s), settled_s) | Reading({}, {}, checks)


def read_requests(run: Measurements, setting: Requests, sampled_us: np.ndarray | None = None) -> Reading:
    """Read the waits (sampled as a ping does by default), and completion times of requests (ms)."""
    flows = run.flows
    small, large = (flows.completion_ms[flows.size_bytes == size] for size in (setting.small_bytes, LARGE_BYTES))
    numbers = {"small_mean_ms": small.mean(), "small_p99_ms": small.quantile(0.99)}
    numbers |= {"large_mean_ms": large.mean(), "large_p99_ms": large.quantile(0.99)}
    # Percentiles leave out incomplete requests.
    complete = Check("requests complete", float(flows.completion_ms.notna().mean()), at_least=0.999)
    times = flows[["size_bytes", "completion_ms"]]
    return read_waits(run, pinged_us(run, 0.0) if sampled_us is None else sampled_us) | Reading(
        numbers, {"requests": times}, [complete]
    )


def as_kernels_can(setting: OnePort) -> OnePort:
    """Replace what kernels lack: they use Linux's pacing for the NIC's, and their own segmentation offload."""
    return replace(setting, pacer="linux" if setting.pacer == "nic" else setting.pacer, offload_bytes=0)


def measure_one(
    setting: Any, seconds: float, seed: int, tier: str, make: Any = experiment, read: Any = read
) -> Reading:
    """Measure one run on the tier, on kernels with the setting of `as_kernels_can`."""
    run = run_experiment(make(setting if tier == SIMULATED else as_kernels_can(setting), seconds, seed), tier)
    return replace(read(run, setting), fidelity=run.fidelity)


def measure_open(setting: KeptOpen, seconds: float, seed: int, _: str, *, in_turn: bool = False) -> Reading:
    """Measure one run over connections that stay open, in the simulator. in_turn : as the replica does."""
    asked = request_experiment(setting, seconds, seed)
    run = over_open_connections(asked, setting.open_connections, in_turn=in_turn)
    sampled_us = (windows_us if in_turn else pinged_us)(run, 0.0)
    return replace(read_requests(run, setting, sampled_us), fidelity=run.fidelity)


def cannot(setting: OnePort, tier: str) -> str:
    """Return why the tier cannot run a setting, apart from what the kernel refuses; "" where it can."""
    kept_open = isinstance(setting, KeptOpen) and tier != SIMULATED
    return "a kernel's requests open a connection each" if kept_open else ""


A_CONNECTION_EACH = Part(
    setting=Requests(), measure_one=partial(measure_one, make=request_experiment, read=read_requests)
)
OPEN = Part(setting=KeptOpen(), measure_one=measure_open)
THE_REPLICA = Part(setting=Replica(), measure_one=partial(measure_open, in_turn=True))
DCTCP = {"congestion_control": "dctcp"}
ITSELF = DCTCP | {"queue": "phantom", "pacer": "nic"}
# The marked packet does not count itself. The core counts it, so its threshold is larger by one full packet.
PQ950 = ITSELF | {"phantom_bytes": 1000 + FULL_PACKET_BYTES}
SCHEMES: dict[str, dict[str, Any]] = {
    "tcp": {},
    "30k": DCTCP | {"queue": "ecn"},
    "6k": DCTCP | {"queue": "ecn", "threshold_packets": 4, "pacer": "nic"},
    "pq950": PQ950,
    "pq950, gamma 1": PQ950 | {"drain_share": 1.0},
}
GAMMA_1 = "pq950, gamma 1"
LOOKS = {name: {"label": name, "color": colour} for name, colour in zip(PUBLISHED_US, CURVES, strict=False)}
LOOKS[GAMMA_1] = {"label": GAMMA_1, "color": scheme("control").colour, "linestyle": "--"}
LOADS = {"part": OPEN, "load": swept(0.2, 0.4, 0.6)}
LONG_FLOWS = {"flows": swept(*PUBLISHED_PQ_US)}
# The replica's packets of 950 bytes are below the threshold, so they may count themselves. 30 KB are 31 of them.
REPLICA = LOADS | {"part": THE_REPLICA, "link_delay_ms": 0.005, "buffer_packets": 500}
REPLICA_OWN: dict[str, dict[str, Any]] = {
    "30k": {"threshold_packets": 31},
    "6k": {"threshold_packets": 6},
    "pq950": {"phantom_bytes": 1000},
    "pq950, gamma 1": {"phantom_bytes": 1000},
}
CASES: dict[str, dict[str, Any]] = {
    **SCHEMES,
    "30k, no marking": DCTCP,
    "pq950, no pacer": PQ950 | {"pacer": "none"},
    "pq950, linux pacing": PQ950 | {"pacer": "linux", "offload_bytes": 0},
    "pq950, counts itself": ITSELF,
    "counts itself, gamma 1": ITSELF | {"drain_share": 1.0},
    **{f"static {name}": SCHEMES[name] | LONG_FLOWS for name in PUBLISHED_US},
    **{f"dynamic {name}": changes | LOADS for name, changes in SCHEMES.items()},
    **{f"replica {name}": changes | REPLICA | REPLICA_OWN.get(name, {}) for name, changes in SCHEMES.items()},
    "replica 6k, no pacer": SCHEMES["6k"] | REPLICA | REPLICA_OWN["6k"] | {"pacer": "none", "load": 0.4},
}


# Closed forms.


def rule_bounds() -> pd.DataFrame:
    """Compute which round trips (microseconds) fit the published numbers if a packet counts itself, so that all packets
    are marked.

    Two flows of at most three segments (two, and one more before the next cut) reach the published 860 Mb/s only if it
    is below the first row. Eight flows of at least two wait no longer than published only if it is above the second.
    """
    most = 2 * 3 * 1448 * 8 / PUBLISHED_PQ_MBPS
    least = 8 * 2 * FULL_PACKET_BYTES * 8 / 1000 - PUBLISHED_PQ_US[8]
    rows = {"2 flows, goodput: at most": most, "8 flows, wait: at least": least}
    return pd.DataFrame({"round trip (µs)": rows})


# Claims.


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    ours, plain = (runs.numbers(name).mean(numeric_only=True) for name in ("pq950", "30k"))
    return (
        f"With the phantom queue a packet waits {ours.mean_us:.1f} microseconds at {ours.goodput_mbps:.0f} Mb/s, "
        f"with DCTCP-30K {plain.mean_us:.0f} at {plain.goodput_mbps:.0f} Mb/s."
    )


def change_of_means(ours: pd.Series, baseline: pd.Series) -> float:
    """Compute ours / baseline of the means over the loads, as in the replica's report."""
    return float(ours.mean() / baseline.mean())


def percentile_ms(runs: Mapping[int, pd.DataFrame], size_bytes: int, left_out: int | None = None) -> pd.Series:
    """Compute the 99th percentile of the completion time (ms) by load, of the requests of one size in all repetitions
    together, without `left_out`. runs : repetition -> the rows of a case's table `requests`."""
    rows = pd.concat([table for repetition, table in runs.items() if repetition != left_out])
    return rows[rows.size_bytes == size_bytes].groupby("load").completion_ms.quantile(0.99)


def change_of_requests(size_bytes: int) -> Callable[..., np.ndarray]:
    """Make the function that computes `change_of_means` of `percentile_ms`, with a `jackknife` value for each
    repetition."""

    def change(ours: Mapping[int, pd.DataFrame], baseline: Mapping[int, pd.DataFrame]) -> np.ndarray:
        both = (ours, baseline)
        return jackknife(ours, lambda out: change_of_means(*(percentile_ms(runs, size_bytes, out) for runs in both)))

    return change


def _dynamic(baseline: str, size_bytes: int = 0) -> Evidence:
    """Make the evidence on the wait at the switch, or on requests of one size, under dynamic load."""
    pair, broken = ("dynamic pq950", f"dynamic {baseline}"), ("dynamic pq950, gamma 1", f"dynamic {baseline}")
    if size_bytes:
        return Evidence("requests", pair, control=broken, how=change_of_requests(size_bytes), pooled=True)
    return Evidence("p99_us", pair, control=broken, how=change_of_means)


# Figures.


def replica_table() -> pd.DataFrame:
    """Return the replica's own results: load, case, mean_us, p99_us of the wait at the switch."""
    return pd.read_csv(data_dir("hull") / "replica.csv", comment="#")


def draw_idea() -> Figure:
    """Draw a link at 97 % of its rate: its phantom queue grows while the real one stays empty."""
    figure, axis = new_figure("Two queues, one of them imaginary", "time (ms)", "queue (packets)")
    time_ms = np.linspace(0, 3, 300)
    sent, packet_ms = np.where(time_ms < 1.5, 0.97, 0.9), FULL_PACKET_BYTES * 8e-6
    grown = np.cumsum((sent - 0.95) / packet_ms) * (time_ms[1] - time_ms[0])
    axis.plot(time_ms, np.maximum(grown, 0), color=CURVES[0], label="phantom: drains at 95 %")
    axis.plot(time_ms, np.zeros_like(time_ms), color="0.2", label="real: drains at 100 %")
    axis.axvspan(0, 1.5, color="0.92", zorder=0)
    axis.text(0.75, grown.max() * 1.04, "link at 97 %", ha="center")
    axis.text(2.25, grown.max() * 1.04, "link at 90 %", ha="center")
    axis.set_ylim(-0.1, grown.max() * 1.15)
    axis.legend(loc="center right")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw two senders and a receiver on one switch."""
    asked = experiment(STUDY.case("pq950", setting), 1.0, 1)
    return drawing.draw_network(asked, "Long flows meet at one port")


def _load_panels(group: str, *marks: Mark) -> list[Panel]:
    """Show the wait at the switch, with more marks, and the completion of requests, over the load."""
    sweeps = {reading: Sweep("load", reading, looks_of(group)) for reading in REQUESTS}
    return [
        Panel(LOAD, label, sweeps[reading], *(marks if reading == "p99_us" else ()), log="y")
        for reading, label in REQUESTS.items()
    ]


def _draw_replicas_own(axis: Axes, _: Runs) -> None:
    for name, rows in replica_table().groupby("case"):
        axis.plot(rows.load, rows.p99_us, "o", mfc="none", color=LOOKS[str(name)]["color"], markersize=8)
    axis.plot([], [], "o", mfc="none", color="0.3", markersize=8, label="the replica's own")


def looks_of(group: str) -> dict[str, dict[str, str]]:
    """Return the look of each case of a group that exists, by the case's name: "<group> <scheme>"."""
    return {f"{group} {name}": look for name, look in LOOKS.items() if f"{group} {name}" in CASES}


def _flows(title: str, sweep: Callable[[str], Mark], **how: Any) -> Picture:
    """Show the wait and the goodput of long flows over their number, and the published wait of PQ950."""
    published = Published(PUBLISHED_PQ_US, "published: pq950")
    return Picture(
        title,
        Panel(FLOWS, "mean wait at the switch (µs)", published, sweep("mean_us"), log="y" + how.get("log", "")),
        Panel(FLOWS, "goodput of all flows (Mb/s)", sweep("goodput_mbps"), y_range=(0, 1050), **how),
    )


LOAD, FLOWS = "load (share of the rate)", "flows that last"
REQUESTS = {
    "p99_us": "wait, 99th (µs)",
    "small_p99_ms": "small requests, 99th (ms)",
    "large_p99_ms": "large requests, 99th (ms)",
}


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the distribution of waits in one run."""
    title = f"{case}: mean {reading['mean_us']:.1f} µs, {reading['goodput_mbps']:.0f} Mb/s"
    figure, axis = new_figure(title, "wait at the switch (µs)", "share of packets")
    axis.plot(reading["waits"].wait_us, reading["waits"].share)
    return figure


OWN = ", a connection each"
PROFILES = {"quick": Scale(0.5, changes={"large_requests": 30}), "paper": Scale(5.0, changes={"large_requests": 250})}
NAMES = ("pq950", "6k", "30k", "tcp")
PAIRS = dict(zip(PUBLISHED_US, PUBLISHED_US, strict=True))  # of long flows
MOST_MBPS = 950 * 1448 / FULL_PACKET_BYTES
CONTROLS: dict[str, Look] = {"pq950": {"label": "pq950", "linewidth": 5, "alpha": 0.4}}  # kernels: with linux pacing
CONTROLS |= {name: name for name in ("pq950, no pacer", "pq950, linux pacing", "pq950, counts itself", GAMMA_1, "30k")}
CONNECTIONS = {name: LOOKS[name] for name in ("tcp", "30k", "pq950")}
CONNECTIONS |= {name + OWN: look | {"label": name + OWN, "linestyle": "--"} for name, look in CONNECTIONS.items()}
PLAYED_S = 0.2
# As read samples the queue of long flows.
_PINGS = {"table": "pings", "column": "wait_ms", "every_ms": PING_MS, "from_s": SETTLED_SHARE * PLAYED_S, "times": 1e3}
LIVE = LiveRun(
    {
        "mean_us": Gauge("mean wait at the switch", "µs", _PINGS),
        "p99_us": Gauge("its 99th percentile", "µs", _PINGS | {"reduce": "p99"}),
        "goodput_mbps": Gauge("goodput", "Mb/s", GOODPUT_OF_FLOWS),
    },
    WAIT,
    "wait of a packet (ms)",
    {"flows": (2, 4, 6, 8, 12, 16), "drain_share": (0.8, 0.85, 0.9, 0.95, 1.0)}
    | {"link_delay_ms": (0.005, 0.02, 0.04, 0.1, 0.2)},
    lambda asked: ("s1", f"h{asked.flows + 1}"),
    cases=("pq950", "30k", "tcp"),
    broken={"pq950": "pq950, no pacer", "30k": "30k, no marking"},
    experiment=experiment,
)
STUDY = Study(
    slug="hull",
    setting=Setting(),
    parts=(A_CONNECTION_EACH, OPEN, THE_REPLICA),
    cases=CASES,
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales=PROFILES
    | {
        # A kernel's requests open a connection each and need seconds to complete, so there are none.
        ("quick", VIRTUAL): Scale(0.6, repetitions=2, only={"load": (), "flows": (2, 4, 6, 8)}),
        ("paper", VIRTUAL): Scale(2.0, only={"load": ()}),
    },
    claims={
        "static-latency-order": Evidence("mean_us", NAMES, control=(GAMMA_1, *NAMES[1:]), how=least_first(*NAMES)),
        "static-latency-30k": Evidence("mean_us", "30k", control="30k, no marking"),
        "static-latency-pq": Evidence("mean_us", "pq950", control=GAMMA_1),
        "static-sacrifice": Evidence("goodput_mbps", ("pq950", "30k"), control=(GAMMA_1, "30k"), how=ratio),
        "dynamic-latency-tcp": _dynamic("tcp"),
        "dynamic-latency-30k": _dynamic("30k"),
        "dynamic-small-tcp": _dynamic("tcp", SMALL_BYTES),
        "dynamic-small-30k": _dynamic("30k", SMALL_BYTES),
        "dynamic-large-tcp": _dynamic("tcp", LARGE_BYTES),
        "dynamic-large-30k": _dynamic("30k", LARGE_BYTES),
        "dynamic-large-mean": Evidence(
            "large_mean_ms",
            ("dynamic pq950", "dynamic tcp"),
            control=(f"dynamic {GAMMA_1}", "dynamic tcp"),
            how=change_of_means,
        ),
        "replica-latency-order": Evidence(
            "p99_us",
            tuple(f"replica {name}" for name in NAMES),
            control=tuple(f"replica {name}" for name in (GAMMA_1, *NAMES[1:])),
            how=lambda *waits: least_first(*NAMES)(*(of_load[0.4] for of_load in waits)),
        ),
        "replica-large-mean": Evidence(
            "large_mean_ms",
            ("replica pq950", "replica tcp"),
            control=(f"replica {GAMMA_1}", "replica tcp"),
            how=lambda ours, tcp: ours.iloc[0] / tcp.iloc[0],
        ),
    },
    knobs={
        "connections": Knob(
            {
                f"{name}{own}": SCHEMES[name] | LOADS | ({"part": A_CONNECTION_EACH} if own else {})
                for name in ("tcp", "30k", "pq950")
                for own in ("", OWN)
            },
            {name: replace(scale, repetitions=1) if name == "quick" else scale for name, scale in PROFILES.items()},
            repetitions=3,
        ),
        "flows": Knob({name: CASES[name] | {"flows": swept(2, 4, 8, 16, 32)} for name in NAMES[:3]}, Scale(0.3)),
    },
    figures={
        "static": Picture(
            "Two long flows",
            Panel("", "mean wait at the switch (µs)", Bars("mean_us", PAIRS, published=PUBLISHED_US), log="y"),
            Panel(
                "",
                "payload of both (Mb/s)",
                Bars("goodput_mbps", PAIRS),
                Level(MOST_MBPS, "95 % of the rate", published=False),
            ),
        ),
        "static_flows": _flows(
            "Two to eight long flows", lambda reading: Sweep("flows", reading, looks_of("static"), tiers=True)
        ),
        "control_waits": plot(
            "Broken on purpose",
            "wait at the switch (µs)",
            "share of packets",
            Course("waits", "share", CONTROLS, x="wait_us"),
            log="x",
            x_range=(0.5, None),
        ),
        "dynamic": Picture("Requests of 1 KB and 10 MB", *_load_panels("dynamic")),
        "replica": Picture("The replica's network", *_load_panels("replica", _draw_replicas_own)),
        "knob_connections": beside(
            "Requests over connections that stay open, and over their own",
            LOAD,
            REQUESTS,
            lambda reading: Sweep("load", reading, "connections", looks=CONNECTIONS),
            log="y",
        ),
        "knob_flows": _flows(
            "More flows through one port", lambda reading: Sweep("flows", reading, "flows", looks=LOOKS), log="x"
        ),
    },
    play=Play(
        ("pq950", "30k", "tcp", "pq950, no pacer"),
        {"drain_share": (0.8, 1.0, 0.01), "flows": (2, 16, 1), "link_delay_ms": (0.005, 0.2, 0.005)},
        draw_run,
        PLAYED_S,
        LIVE,
    ),
)
