"""DCTCP's queue at one switch port: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.1, Figs 5 and 6.

Two hosts send one long flow each to a third through a port of 100 Mb/s. TCP fills the port's buffer; DCTCP, whose
senders react to the share of marked packets, keeps the queue at the marking threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, EcnThreshold, Link, Queue, Red, bandwidth_delay_packets
from netrepro.networks.topology import Topology, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.study import (
    GOODPUT_OF_FLOWS,
    VIRTUAL,
    Evidence,
    Gauge,
    Knob,
    Live,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import curve, least_first, ratio
from netrepro.study.live import QUEUE
from netrepro.study.setting import parameter
from netrepro.study.trust import gap_checks
from netrepro.style import CURVES, new_figure, scheme

SENDERS, PORT = ("h1", "h2"), ("s1", "h3")
PERCENTILES = (1, 10, 25, 50, 75, 90, 99)
SETTLED_S = 5.0  # slow start is over; the hardware's samples count from 5 s after the first of them, too
ROOMY = DropTail(packets=1_000_000)  # the authors' ports to the senders
RED_PACKET_BYTES = 1500


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.1, as the authors' scripts have it. `queue` is "drop tail", "ecn" or "red"."""

    rate_mbps: float = parameter(100.0, "of every link", "Mb/s", low=1, high=10_000)
    buffer_packets: int = parameter(425, "buffer of the port", "packets", low=1, high=100_000)
    threshold_packets: int = parameter(20, "marking threshold K of the switch", "packets", low=1, high=100_000)
    host_delay_ms: float = parameter(0.075, "of the senders' links, one way", "ms", low=0, high=1000)
    host_jitter_ms: float = 0.05
    red_packets: tuple[float, float] = (30_000 / RED_PACKET_BYTES, 35_000 / RED_PACKET_BYTES)
    congestion_control: str = "reno"
    queue: str = "drop tail"


DCTCP = {"congestion_control": "dctcp", "queue": "ecn"}
# A public project of the class (sibanez12/dctcp-ns2) has this path, and sweeps K over it.
LONG_PATH = {"host_delay_ms": 20.0}
ABOVE_GUIDELINE = 48  # packets: C RTT / 7 is 47.2 on that path
CASES: dict[str, dict[str, Any]] = {
    "tcp": {},
    "dctcp": DCTCP,
    "red": {"queue": "red"},
    "dctcp, no marking": {"congestion_control": "dctcp"},
    "tcp, long path": LONG_PATH,
    "dctcp, long path": DCTCP | LONG_PATH | {"threshold_packets": ABOVE_GUIDELINE},
    "dctcp, long path, K = 1": DCTCP | LONG_PATH | {"threshold_packets": 1},
}


def _queue(setting: Setting) -> Queue:
    """Return the queue of the receiver's port. Thresholds are lowered where the buffer is too small for them."""
    packets = setting.buffer_packets
    if setting.queue == "ecn":
        return EcnThreshold(packets, min(setting.threshold_packets, packets))
    if setting.queue == "red":
        low, high = (min(1.0, packets / setting.red_packets[1]) * each for each in setting.red_packets)
        # tc's weight for 30,000 bytes, packets of 1500 and a burst of 20: it grants such a burst half of the average.
        return Red(packets, low, high, 1.0, weight=0.5, ecn=True, mean_packet_bytes=RED_PACKET_BYTES)
    return DropTail(packets=packets)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: two long flows, which start together, into one port. The senders' links have the delay."""
    plain = Link(setting.rate_mbps, 0.0, _queue(setting))
    far = replace(plain, delay_ms=setting.host_delay_ms, jitter_ms=setting.host_jitter_ms, queue=ROOMY)
    cables = [host_cable(host, "s1", far if host in SENDERS else plain) for host in (*SENDERS, "h3")]
    return Experiment(
        Topology(tuple(cables), "star of 3 hosts"),
        tuple(Flow(host, "h3", duration_s=seconds) for host in SENDERS),
        seconds,
        seed,
        Measure(queues=(PORT,), queue_interval_ms=10.0, packets=(PORT,)),
        Tcp(setting.congestion_control, ecn=True),  # has no effect where no queue marks
        host_delay_packets=0,  # the authors' jitter replaces it
    )


def read(run: Measurements, _: Setting) -> Reading:
    """Read mean, deviation, percentiles and samples of the queue (packets) and the used share of the port's rate, all
    after SETTLED_S, and the payload rate of both flows (Mb/s)."""
    seconds = run.experiment.duration_s
    settled = run.queues[run.queues.time_s >= SETTLED_S]
    queue = settled["queue_packets"].to_numpy()
    numbers = {"mean_packets": queue.mean(), "deviation_packets": queue.std()}
    numbers |= dict(zip(QUANTILES, np.percentile(queue, PERCENTILES), strict=True))
    left = run.packets.size_bytes[run.packets.time_s >= SETTLED_S]
    rate_bps = run.experiment.topology.link(*PORT).rate_mbps * 1e6
    numbers["utilisation"] = float(left.sum()) * 8 / (seconds - SETTLED_S) / rate_bps
    numbers["goodput_mbps"] = float(run.flows["delivered_bytes"].sum()) * 8e-6 / seconds
    return Reading(numbers, {"queue": settled[["time_s", "queue_packets"]]}, gap_checks(run, PORT))


QUANTILES = tuple(f"p{percentile}" for percentile in PERCENTILES)


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table, hardware = runs.summary(), {name: _hardware_mean(name) for name in ("tcp", "dctcp")}
    tcp, dctcp = table.loc["tcp"], table.loc["dctcp"]
    return (
        f"DCTCP keeps {dctcp.mean_packets:.1f} packets in the queue at {dctcp.goodput_mbps:.1f} Mb/s of goodput where "
        f"TCP keeps {tcp.mean_packets:.0f} at {tcp.goodput_mbps:.1f} Mb/s "
        f"(hardware: {hardware['dctcp']:.1f} and {hardware['tcp']:.0f})."
    )


def hardware_queue() -> pd.DataFrame:
    """Return the percentiles of the queue at the hardware switch's port: percentile, tcp_packets, dctcp_packets."""
    return pd.read_csv(data_dir("dctcp") / "hardware_queue.csv", comment="#")


def _hardware_mean(name: str) -> float:
    """Compute the mean queue (packets) as the integral of its percentiles, which are all that the data have."""
    queue = hardware_queue()
    return float(np.trapezoid(queue[f"{name}_packets"], queue["percentile"] / 100))


# Figures.


def draw_idea() -> Figure:
    """Draw how a sender changes its window once in a round trip (SIGCOMM 2010, equation 2)."""
    figure, axis = new_figure(
        "How a sender answers marks", "packets marked in a round trip (share)", "window kept (share)"
    )
    marked = np.linspace(0.001, 1, 200)
    axis.plot(marked, 1 - marked / 2, color=scheme("dctcp").colour, label="DCTCP, once the share has lasted")
    axis.plot(marked, np.full_like(marked, 0.5), color=scheme("tcp").colour, label="TCP")
    axis.set_ylim(0, 1.05)
    axis.legend(loc="lower left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw three hosts on one switch (Fig. 5), with the queues of DCTCP's case."""
    asked = experiment(STUDY.case("dctcp", setting), 1.0, 1)
    return drawing.draw_network(asked, "Two long flows meet at one port (Fig. 5)")


def draw_queues(runs: Runs) -> Figure:
    """Draw the queue over time, one repetition of each scheme (Fig. 6 a and b)."""
    names = [scheme(name).label for name in ("tcp", "dctcp")]
    figure, axes = drawing.panels("Queue at the port (Fig. 6 a, b)", "time (s)", "queue (packets)", names)
    for axis, name in zip(axes, ("tcp", "dctcp"), strict=True):
        _draw_first_seconds(axis, runs, name, label=runs.tier, color=scheme(name).colour, linewidth=1)
        median = hardware_queue().set_index("percentile")[f"{name}_packets"][50]
        drawing.draw_published_level(axis, median, f"median on hardware ({median:.0f})")
        axis.set_ylim(bottom=0)
        axis.legend()
    return figure


def _draw_first_seconds(axis: Any, runs: Runs, case: str, what: str = "", **look: Any) -> None:
    """Draw five seconds of a case's first repetition, from SETTLED_S on."""
    if not runs.has(case):
        drawing.say_not_measured(axis, runs.tier, what)
        return
    rows = runs.table("queue", case).query("repetition == 0")
    rows = rows[rows.time_s < rows.time_s.min() + 5.0]
    axis.plot(rows.time_s, rows.queue_packets, **look)


def draw_distributions(runs: Runs) -> Figure:
    """Draw the distribution of the queue beside the hardware's (Fig. 6 c and d), on every tier that was measured."""
    names, hardware = [scheme(name).label for name in ("tcp", "dctcp")], hardware_queue()
    figure, axes = drawing.panels("Distribution of the queue (Fig. 6 c, d)", "queue (packets)", "share of time", names)
    for axis, name in zip(axes, ("tcp", "dctcp"), strict=True):
        drawing.draw_published_curve(axis, hardware[f"{name}_packets"], hardware["percentile"] / 100, "hardware")
        for tier in reversed(runs.tiers):
            other = {} if tier == runs.tier else {"color": scheme("simulated").colour, "linestyle": "--"}
            if runs.has(name, tier=tier):
                look = {"color": scheme(name).colour} | other
                label = f"{tier}, every repetition"
                drawing.draw_distribution(axis, runs.table("queue", name, tier), "queue_packets", label, **look)
            else:
                drawing.say_not_measured(axis, tier)
        axis.legend(loc="upper left")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw DCTCP's queue without marking, beside TCP's."""
    figure, axis = new_figure("Broken on purpose: DCTCP without marking", "time (s)", "queue (packets)")
    looks: dict[str, dict[str, Any]] = {
        "dctcp": {"color": scheme("dctcp").colour, "linewidth": 1},
        "tcp": {"color": scheme("tcp").colour, "linewidth": 5, "alpha": 0.35},
        "dctcp, no marking": {"color": scheme("control").colour, "linewidth": 1.2, "linestyle": "--"},
    }
    for name, look in looks.items():
        _draw_first_seconds(axis, runs, name, "DCTCP: ", label=name, **look)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_threshold(runs: Runs) -> Figure:
    """Draw the used share of the port's rate and the mean queue over K, a curve for each round trip. Dotted: the
    guideline C RTT / 7 at the setting's rate."""
    table = runs.knobs["threshold"].assign(round_trip_ms=lambda rows: 2 * rows.host_delay_ms)
    figure = drawing.sweep_figure(
        "How small may the threshold be?",
        table,
        ("threshold_packets", "marking threshold K (packets)"),
        {"utilisation": "used of the port's rate (share)", "mean_packets": "mean queue (packets)"},
        by="round_trip_ms",
        label="round trip {} ms",
    )
    for axis in figure.axes:
        for colour, round_trip_ms in zip(CURVES, table.round_trip_ms.unique(), strict=False):
            guideline = bandwidth_delay_packets(runs.setting.rate_mbps, round_trip_ms) / 7
            name = f"C RTT / 7 at {round_trip_ms:g} ms"
            axis.axvline(guideline, color=colour, linestyle=":", linewidth=1, label=name)
    drawing.share_legend(figure)
    return figure


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's whole queue over time."""
    goodput_mbps = read(run, STUDY.setting)["goodput_mbps"]
    figure, axis = new_figure(f"{case}: {goodput_mbps:.1f} Mb/s in all", "time (s)", "queue (packets)")
    axis.plot(run.queues.time_s, run.queues.queue_packets, linewidth=1)
    return figure


NO_MARKS = "dctcp, no marking"
_SETTLED = QUEUE | {"from_s": SETTLED_S}
LIVE = Live(
    {
        "mean_packets": Gauge("mean queue", "packets", _SETTLED),
        "deviation_packets": Gauge("its standard deviation", "packets", _SETTLED | {"reduce": "deviation"}),
        "goodput_mbps": Gauge("goodput of both flows", "Mb/s", GOODPUT_OF_FLOWS),
    },
    QUEUE,
    "queue (packets)",
    {"threshold_packets": (1, 2, 4, 8, 12, 16, 20, 32, 48, 64, 100), "host_delay_ms": (0.025, 0.075, 0.25, 1.0, 5.0)},
    lambda _: PORT,
    cases=("dctcp", "tcp", "red"),
    broken={"dctcp": NO_MARKS},
)
STUDY = Study(
    slug="dctcp",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(30.0),
        "paper": Scale(120.0),
        ("quick", VIRTUAL): Scale(20.0, repetitions=3),  # long enough for several sawteeth
    },
    claims={
        "dctcp-mean-queue": Evidence("mean_packets", "dctcp", control=NO_MARKS),
        "tcp-mean-queue": Evidence("mean_packets", "tcp", control="dctcp"),
        "tcp-queue-distribution": Evidence(QUANTILES, "tcp", control="dctcp", how=curve(PERCENTILES)),
        "dctcp-queue-distribution": Evidence(QUANTILES, "dctcp", control=NO_MARKS, how=curve(PERCENTILES)),
        "dctcp-throughput": Evidence(
            "utilisation",
            ("dctcp, long path", "tcp, long path"),
            control=("dctcp, long path, K = 1", "tcp, long path"),
            how=ratio,
        ),
        "dctcp-steadier-than-red": Evidence(
            "deviation_packets", ("dctcp", "red"), control=(NO_MARKS, "red"), how=least_first("dctcp", "red")
        ),
    },
    knobs={
        "threshold": Knob(
            {
                "dctcp": DCTCP
                | {"host_delay_ms": swept(0.075, 2.0, 20.0), "threshold_packets": swept(1, 2, 4, 8, 16, 32, 64)}
            },
            Scale(20.0),
        )
    },
    figures={
        "fig6ab_queue_over_time": draw_queues,
        "fig6cd_queue_distribution": draw_distributions,
        "control_no_marking": draw_control,
        "knob_threshold": draw_threshold,
    },
    play=Play(
        ("dctcp", "tcp", "red", NO_MARKS),
        {"threshold_packets": (1, 100, 1), "host_delay_ms": (0.025, 10.0, 0.025)},
        draw_run,
        live=LIVE,
    ),
)
