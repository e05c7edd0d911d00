"""BBR beside CUBIC: Mishra, Tiu and Leong, "Are We Heading Towards a BBR-Dominant Internet?", IMC 2022.

Ten long flows share a bottleneck; some use BBR, the others CUBIC. A CUBIC flow fills the queue until it loses a packet.
A BBR flow keeps twice its own rate times its least round trip in flight, whatever the other flows do. A few BBR flows
take more than their share; many take it from one another. Where neither a BBR flow nor a CUBIC flow would gain by
switching to the other, the mix is a Nash equilibrium.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, Queue, Sfq, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.study import (
    VIRTUAL,
    Check,
    Evidence,
    Gauge,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    greatest_first,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.live import QUEUE, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import PUBLISHED_GREY, draw_published, new_figure, scheme

PORT = ("s1", "s2")
SHARED, FAIR = "shared queue", "fair queue"
MIXES = (1, 3, 5, 7, 9)  # BBR flows among ten
LEAST_GAIN = 1.05  # a smaller advantage counts as none
ACCESS_MS = 0.5
GOODPUTS = ("bbr_mbps", "cubic_mbps")
OVER_BBR = ("bbr_flows", "flows that speak BBR, of ten")


@dataclass(frozen=True)
class Setting:
    """Ten flows, of which `bbr_flows` use BBR: rate, round trip and buffer of the paper's Figs 7 and 8, at second hand.

    buffer_pipes : the bottleneck's buffer, in bandwidth-delay products. fair : a fair queue replaces the shared one.
    Flows begin at random within a second.
    """

    rate_mbps: float = parameter(100.0, "of the bottleneck", "Mb/s", low=1, high=10_000)
    round_trip_ms: float = parameter(40.0, "without queues", "ms", low=4, high=1000)
    buffer_pipes: float = parameter(2.0, "of the bottleneck", "bandwidth-delay products", low=0.1, high=100)
    flows: int = 10
    bbr_flows: int = 5
    fair: bool = False

    @property
    def buffer_packets(self) -> int:
        """The bottleneck's buffer in full packets, at least one."""
        pipe = bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)
        return max(1, round(self.buffer_pipes * pipe))

    @property
    def fair_mbps(self) -> float:
        """The payload rate (Mb/s) of a flow with an equal share of the bottleneck."""
        return self.rate_mbps * 1448 / FULL_PACKET_BYTES / self.flows


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: the first flows use BBR, the rest CUBIC. Each flow has two hosts of its own."""
    packets = setting.buffer_packets
    queue: Queue = Sfq(packets=packets) if setting.fair else DropTail(packets=packets)
    bottleneck = Link(setting.rate_mbps, setting.round_trip_ms / 2 - 2 * ACCESS_MS, queue)
    network = dumbbell(setting.flows, access=Link(10 * setting.rate_mbps, ACCESS_MS), bottleneck=bottleneck)
    starts = np.random.default_rng(seed).uniform(0, 1, setting.flows)
    kinds = ["bbr" if place < setting.bbr_flows else "cubic" for place in range(setting.flows)]
    pairs = [(f"h{place + 1}", f"h{setting.flows + place + 1}") for place in range(setting.flows)]
    flows = [
        Flow(*pair, duration_s=seconds - float(start), start_s=float(start), congestion_control=kind)
        for pair, start, kind in zip(pairs, starts, kinds, strict=True)
    ]
    return Experiment(network, tuple(flows), seconds, seed, Measure(queues=(PORT,), queue_interval_ms=50.0))


def goodputs(run: Measurements) -> pd.DataFrame:
    """Compute every flow's mean goodput from its start on: kind, goodput_mbps."""
    flows = run.flows
    goodput = flows["delivered_bytes"] * 8e-6 / (run.experiment.duration_s - flows["start_s"])
    return pd.DataFrame({"kind": flows["congestion_control"], "goodput_mbps": goodput})


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the mean goodput of each kind of flow (Mb/s), and the mean queue as a share of the buffer."""
    rates = goodputs(run)
    means = rates.groupby("kind")["goodput_mbps"].mean()
    numbers = {name: float(means.get(name.removesuffix("_mbps"), np.nan)) for name in GOODPUTS}
    numbers["fair_mbps"] = setting.fair_mbps
    numbers["bbr_of_fair"] = numbers["bbr_mbps"] / setting.fair_mbps
    numbers["queue_of_buffer"] = float(run.queues["queue_packets"].mean()) / setting.buffer_packets
    delivered_mbps = float(run.flows["delivered_bytes"].sum()) * 8e-6 / run.experiment.duration_s
    numbers["payload_of_link"] = delivered_mbps / setting.rate_mbps
    check = Check("payload of the link at most", numbers["payload_of_link"], at_most=1.0)
    return Reading(numbers, {"flows": rates}, [check])


# Claims. Each is judged on a table with one row for each number of BBR flows, with columns GOODPUTS and fair_mbps.


def ranked(names: Sequence[str], values: Sequence[float]) -> list[str]:
    """Rank names by their values, greatest first. Values are rounded down to steps of 5 % above the least one; equal
    ones are ranked in the reverse of the given order."""
    steps = np.floor(np.log(np.asarray(values) / min(values)) / np.log(LEAST_GAIN))
    return greatest_first(*names)(*steps)


def rank_kinds(table: pd.DataFrame) -> list[str]:
    """Rank the only BBR flow and its nine CUBIC neighbours."""
    return ranked(("BBR", "CUBIC"), table.loc[1, list(GOODPUTS)])


def rank_mixes(table: pd.DataFrame) -> list[str]:
    """Rank the mixes by the goodput of a BBR flow in them."""
    return ranked(list(map(str, MIXES)), table.loc[list(MIXES), "bbr_mbps"])


def rank_alone(table: pd.DataFrame) -> list[str]:
    """Rank a flow with a fair share against the only flow of its kind: BBR or CUBIC, whichever gets less."""
    alone = min(table.loc[1, "bbr_mbps"], table.loc[9, "cubic_mbps"])
    return ranked(("the one alone", "a fair share"), (alone, table.loc[1, "fair_mbps"]))


def balance(table: pd.DataFrame) -> float:
    """Interpolate the number of BBR flows at which both kinds get the same goodput, so that nobody gains by switching.

    Returns NaN where one kind gets more in every mix.
    """
    both = table.dropna(subset=list(GOODPUTS))
    lead = np.log(both["bbr_mbps"] / both["cubic_mbps"]).to_numpy()
    after = np.flatnonzero(lead <= 0)
    if not len(after) or after[0] == 0:
        return np.nan
    place, counts = after[0], both.index.to_numpy(float)
    return float(np.interp(0, [-lead[place - 1], -lead[place]], [counts[place - 1], counts[place]]))


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table = runs.summary().loc[SHARED]
    alone, many, count = table.bbr_of_fair[1], table.bbr_of_fair[9], balance(table)
    end = f"both kinds get the same with about {count:.0f} BBR flows" if count > 0 else "one kind always gets more"
    return (
        f"The only BBR flow among ten has {alone:.2g} times a fair share, one of nine {many:.2g} times; with a buffer "
        f"of {runs.setting.buffer_pipes:g} bandwidth-delay products {end}."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw the idea: goodput of BBR and CUBIC flows as BBR's advantage shrinks, and the equilibrium between them."""
    figure, axis = new_figure("Who would switch?", "share of BBR flows", "goodput of a flow / fair share (ratio)")
    share = np.linspace(0.05, 0.95, 50)
    bbr = 2 - 1.6 * share
    axis.plot(share, bbr, color=scheme("bbr").colour, label="BBR")
    axis.plot(share, (1 - share * bbr) / (1 - share), color=scheme("cubic").colour, label="CUBIC")
    axis.axvline(0.625, color=PUBLISHED_GREY, linestyle="--")
    axis.annotate("CUBIC flows\nswitch to BBR", (0.3, 1.75), ha="center")
    axis.annotate("BBR flows\nswitch to CUBIC", (0.87, 1.0), ha="center")
    axis.set_ylim(0, 2.2)
    axis.legend(loc="lower left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network of the cases."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Ten flows, BBR or CUBIC, and one bottleneck")


def draw_goodput(runs: Runs, case: str = SHARED) -> Figure:
    """Draw the goodput of each kind of flow over the number of BBR flows, beside a fair share and what is published of
    one flow among nine others."""
    figure, axis = new_figure(f"What a flow gets: {case}", OVER_BBR[1], "goodput of a flow (Mb/s)")
    rows = runs.numbers(case)
    for kind in ("bbr", "cubic"):
        known = rows.dropna(subset=f"{kind}_mbps")
        look = {"color": scheme(kind).colour, "marker": scheme(kind).marker}
        drawing.draw_sweep(axis, known, OVER_BBR[0], f"{kind}_mbps", label=scheme(kind).label, **look)
    drawing.draw_published_level(axis, runs.setting.fair_mbps, "fair share")
    if case == SHARED:
        claims = load_claims(runs.study.slug)
        alone = {1: claims.claim("lone-bbr-rate").published, 9: claims.claim("lone-cubic-rate").published}
        draw_published(axis, list(alone), list(alone.values()))
    axis.set_ylim(0)
    axis.legend()
    return figure


def draw_queue(runs: Runs) -> Figure:
    """Draw how full the bottleneck's buffer is over the number of BBR flows."""
    columns = {
        "queue_of_buffer": "mean queue / buffer (ratio)",
        "payload_of_link": "payload / rate of the link (ratio)",
    }
    return drawing.sweep_figure(
        "BBR flows leave the buffer emptier", runs.numbers(SHARED), OVER_BBR, columns, top=1.05, log_x=False
    )


def draw_buffers(runs: Runs) -> Figure:
    """Draw a BBR flow's goodput over the number of BBR flows, a curve for each buffer of the bottleneck."""
    return drawing.sweep_figure(
        "The deeper the buffer, the sooner BBR's advantage ends",
        runs.knobs["buffer"],
        OVER_BBR,
        {"bbr_of_fair": "BBR flow's goodput / fair share (ratio)"},
        by="buffer_pipes",
        label="{} bandwidth-delay products",
        log_x=False,
    )


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw the goodput of each flow of one run, beside the mean."""
    rates = goodputs(run)
    figure, axis = new_figure(f"Every flow of this run: {case}", "", "goodput (Mb/s)")
    kinds = [scheme(kind) for kind in rates["kind"]]
    axis.bar(range(len(rates)), rates["goodput_mbps"], color=[kind.colour for kind in kinds])
    axis.set_xticks(range(len(rates)), [kind.label for kind in kinds], rotation=45)
    drawing.draw_published_level(axis, float(rates["goodput_mbps"].mean()), "mean of all")
    axis.legend()
    return figure


EVERY = tuple(range(11))
ALL_READ = (*GOODPUTS, "fair_mbps")
LIVE = LiveRun(
    {
        "bbr_mbps": Gauge("a BBR flow", "Mb/s", {"table": "flows", "column": "goodput_mbps", "control": "bbr"}),
        "cubic_mbps": Gauge("a CUBIC flow", "Mb/s", {"table": "flows", "column": "goodput_mbps", "control": "cubic"}),
        "queue_of_buffer": Gauge("mean queue, of the buffer", "share", QUEUE),
    },
    QUEUE,
    "queue (packets)",
    {"bbr_flows": tuple(range(11)), "buffer_pipes": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)},
    lambda _: PORT,
    broken={SHARED: FAIR},
    of_setting={"queue_of_buffer": lambda asked: {"times": 1 / asked.buffer_packets}},
)
STUDY = Study(
    slug="bbr_equilibrium",
    setting=Setting(),
    cases={SHARED: {"bbr_flows": swept(*EVERY)}, FAIR: {"fair": True, "bbr_flows": swept(*MIXES)}},
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(30.0),
        "paper": Scale(120.0),
        ("quick", VIRTUAL): Scale(20.0, only={"bbr_flows": MIXES}),
    },
    claims={
        name: Evidence(ALL_READ, SHARED, control=FAIR, how=how)
        for name, how in {
            "bbr-has-an-advantage": rank_kinds,
            "advantage-diminishes": rank_mixes,
            "equilibrium-is-mixed": rank_alone,
            "lone-bbr-rate": lambda table: float(table.loc[1, "bbr_mbps"]),
            "lone-cubic-rate": lambda table: float(table.loc[9, "cubic_mbps"]),
        }.items()
    },
    knobs={
        "buffer": Knob(
            {SHARED: {"buffer_pipes": swept(0.5, 1.0, 2.0, 5.0, 10.0), "bbr_flows": swept(*MIXES)}}, Scale(30.0)
        ),
    },
    figures={
        "goodput": draw_goodput,
        "queue": draw_queue,
        "control": lambda runs: draw_goodput(runs, FAIR),
        "knob_buffer": draw_buffers,
    },
    play=Play((SHARED, FAIR), {"bbr_flows": (0, 10, 1), "buffer_pipes": (0.5, 20.0, 0.5)}, draw_run, live=LIVE),
)
