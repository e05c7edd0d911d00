"""A little bandwidth for low latency: Alizadeh et al., "Less Is More" (HULL, NSDI 2012), with static flows.

Long flows meet at one switch port of 1 Gb/s. DCTCP keeps a short queue; a phantom queue, which drains slower than the
link, marks before there is one, and pacers at the hosts take the bursts of segmentation offload apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, EcnThreshold, Link, NicPacer, PhantomQueue, Queue
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers import _drawing as drawing
from netrepro.papers._study import Evidence, Knob, Runs, Scale, Study, each, least_first, ratio

SETTLED_SHARE = 1 / 3  # of a run; slow start is over by then
PUBLISHED_PQ_US = {2: 11, 3: 13, 4: 14, 5: 17, 6: 22, 7: 22, 8: 48}  # read off a replica's report, Fig. 2(a)


@dataclass(frozen=True)
class Setting:
    """Section 4's mechanisms; link delay and buffer are choices. `queue` is "drop tail", "ecn" or "phantom"."""

    flows: int = 2
    rate_mbps: float = 1000.0
    link_delay_ms: float = 0.04
    buffer_packets: int = 425
    queue: str = "drop tail"
    threshold_packets: int = 20
    drain_share: float = 0.95
    phantom_bytes: int = 1000
    congestion_control: str = "reno"
    paced: bool = False
    offload_bytes: int = 65_536


DCTCP = {"congestion_control": "dctcp"}
PQ950 = DCTCP | {"queue": "phantom", "paced": True}
OTHERS = PQ950 | {"phantom_bytes": 1000 + FULL_PACKET_BYTES}
CASES: dict[str, dict[str, Any]] = {
    "tcp": {},
    "30k": DCTCP | {"queue": "ecn"},
    "6k": DCTCP | {"queue": "ecn", "threshold_packets": 4, "paced": True},
    "pq950": PQ950,
    "30k, no marking": DCTCP,
    "pq950, gamma 1": PQ950 | {"drain_share": 1.0},
    "pq950, no pacer": PQ950 | {"paced": False},
    # The packet that is marked does not count itself: with full packets, the threshold and one of them.
    "pq950, others count": OTHERS,
    "others count, gamma 1": OTHERS | {"drain_share": 1.0},
    "others count, no pacer": OTHERS | {"paced": False},
}


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """`flows` hosts send one long flow each to another, a millisecond apart, with Linux's segmentation offload."""
    queues: dict[str, Queue] = {
        "drop tail": DropTail(packets=setting.buffer_packets),
        "ecn": EcnThreshold(setting.buffer_packets, setting.threshold_packets),
        "phantom": PhantomQueue(setting.buffer_packets, setting.drain_share, setting.phantom_bytes),
    }
    port = Link(setting.rate_mbps, setting.link_delay_ms, queues[setting.queue])
    out = NicPacer() if setting.paced else DropTail(packets=1000)
    own = Link(setting.rate_mbps, setting.link_delay_ms, out, offload_bytes=setting.offload_bytes)
    receiver = f"h{setting.flows + 1}"
    cables = tuple(Cable(f"h{place + 1}", "s1", own, port) for place in range(setting.flows + 1))
    starts = [place * 1e-3 for place in range(setting.flows)]
    flows = tuple(Flow(f"h{n + 1}", receiver, duration_s=seconds - at, start_s=at) for n, at in enumerate(starts))
    tcp = Tcp(setting.congestion_control, ecn=setting.queue != "drop tail", min_rto_ms=10)
    return Experiment(Topology(cables), flows, seconds, seed, Measure(packets=(("s1", receiver),)), tcp)


def read(found: Measurements, _: Setting) -> dict[str, Any]:
    """Waits at the switch (mean and 99th percentile, microseconds), once settled; payload of all flows (Mb/s)."""
    seconds = found.experiment.duration_s
    waits_us = found.packets[found.packets.time_s >= SETTLED_SHARE * seconds]["wait_ms"] * 1e3
    return {
        "mean_us": float(waits_us.mean()),
        "p99_us": float(waits_us.quantile(0.99)),
        "goodput_mbps": float(found.flows["delivered_bytes"].sum()) * 8e-6 / seconds,
    }


def answer(runs: Runs) -> str:
    """The paper's question answered in one sentence, with this run's numbers."""
    table = runs.summary()
    ours, plain = table.loc["pq950"], table.loc["30k"]
    return (
        f"With the phantom queue a packet waits {ours.mean_us:.1f} microseconds at {ours.goodput_mbps:.0f} Mb/s, "
        f"with DCTCP-30K {plain.mean_us:.0f} at {plain.goodput_mbps:.0f} Mb/s."
    )


def draw_flows(runs: Runs) -> Figure:
    """Latency and goodput over the number of flows, beyond the published 8."""
    figure = drawing.sweep_figure(
        "More flows through one port",
        runs.knobs["flows"],
        ("flows", "long flows"),
        {"mean_us": "mean wait at the switch (µs)", "goodput_mbps": "goodput of all flows (Mb/s)"},
        by="case",
        label="{}",
    )
    figure.axes[0].plot(*zip(*PUBLISHED_PQ_US.items(), strict=True), "o", color="0.6", label="PQ950, published")
    figure.axes[0].set_yscale("log")
    figure.axes[0].legend()
    return figure


GAMMA_1 = "pq950, gamma 1"
ORDER = least_first("pq950", "6k", "30k", "tcp")
STUDY = Study(
    slug="hull",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=3,
    profiles={"quick": Scale(0.6), "paper": Scale(5.0)},
    claims={
        "static-latency-order": Evidence(
            "mean_us", ("pq950", "6k", "30k", "tcp"), control=(GAMMA_1, "6k", "30k", "tcp"), how=ORDER
        ),
        "static-latency-30k": Evidence("mean_us", "30k", control="30k, no marking"),
        "static-latency-pq": Evidence("mean_us", "pq950", control=GAMMA_1),
        "static-sacrifice": Evidence("goodput_mbps", ("pq950", "30k"), control=(GAMMA_1, "30k"), how=ratio),
    },
    knobs={
        "flows": Knob(
            {
                name: CASES[name] | {"flows": each(2, 4, 8, 16)}
                for name in ("30k", "6k", "pq950", "pq950, others count")
            },
            Scale(0.3),
        )
    },
    figures={"knob_flows": draw_flows},
)
