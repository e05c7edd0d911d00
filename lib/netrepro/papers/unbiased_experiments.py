"""When does an A/B test in a network lie? Spang et al., "Unbiased Experiments in Congested Networks", IMC 2021.

Applications share one link. Some are treated: they use BBR in place of CUBIC, two connections in place of one, or
pacing. An A/B test compares treated with untreated applications at the same time, where each takes what another
loses. The truth is what changes when all are treated instead of none. A switchback treats all in some intervals,
drawn at random, and none in the others; an event study treats all from one moment on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks import DropTail, Experiment, Flow, Link, Measurements, Sfq, Tcp, dumbbell
from netrepro.networks.links import bandwidth_delay_packets
from netrepro.paths import data_dir
from netrepro.study import Check, Evidence, Gauge, Knob, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.figures import Level, Panel, Picture, Published, Sweep, plot
from netrepro.study.live import QUEUE, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

TREATMENTS = {"BBR": "bbr", "two connections": "cubic", "pacing": "cubic"}  # a treated connection's control
AB, SWITCHBACK, EVENT = "A/B test", "switchback", "event study"
FEW, MOST, APPLICATIONS = 1, 9, 10
PUBLISHED = {FEW: 2.5, MOST: 0.25}  # treated / untreated, in the A/B tests of the paper's abstract
COLOURS = {"treated": CURVES[6], "untreated": CURVES[0]}
START_WITHIN = 0.1  # of an interval: sessions begin at random in its first tenth


@dataclass(frozen=True)
class Setting:
    """The ten applications and their treatments are the paper's, from memory. Rate, round trip and buffer are not
    known; they are those for which others published the same comparison on real hosts
    (data/unbiased_experiments/SOURCES.md)."""

    bottleneck_mbps: float = parameter(100.0, "rate of the shared link", "Mb/s", low=1, high=10_000)
    round_trip_ms: float = parameter(40.0, "round trip without queues", "ms", low=5, high=500)
    buffer_round_trips: float = parameter(2.0, "buffer of the shared link", "round trips at its rate", low=0.1, high=20)
    applications: int = APPLICATIONS
    treatment: str = "BBR"
    treated: int = FEW  # number of applications treated in an interval with treatment
    design: str = AB
    intervals: int = 8  # of a switchback or an event study
    joining: int = 0  # number of applications that join in the second half of the run
    is_shared: bool = True  # if False, each application's own link is its limit
    loss: float = 0.0  # share of packets lost at random
    is_fair: bool = False  # the shared link serves its connections in turn

    @property
    def buffer_packets(self) -> int:
        """The buffer of the shared link (packets)."""
        in_flight = bandwidth_delay_packets(self.bottleneck_mbps, self.round_trip_ms)
        return max(2, round(self.buffer_round_trips * in_flight))


class Session(NamedTuple):
    """One application in one interval; its connections belong to it alone."""

    application: int
    interval: int
    group: str  # treated or untreated
    start_s: float
    end_s: float


def sessions(setting: Setting, seconds: float, seed: int) -> Iterator[Session]:
    """Yield which application sends when, and whether it is treated. Half of the intervals have treatment; an A/B test
    has one interval, with treatment."""
    random = np.random.default_rng(seed)
    count = 1 if setting.design == AB else setting.intervals
    is_on = np.arange(count) >= count // 2  # True for the only interval of an A/B test
    if setting.design == SWITCHBACK:
        random.shuffle(is_on)
    for interval, on in enumerate(is_on):
        joined = setting.joining if interval >= count / 2 else 0
        present = setting.applications + joined
        chosen = random.permutation(present)[: (setting.treated + joined) * on]
        for application in range(present):
            start_s = (interval + START_WITHIN * random.random()) * seconds / count
            group = "treated" if application in chosen else "untreated"
            yield Session(application, interval, group, start_s, (interval + 1) * seconds / count)


def flows(setting: Setting, session: Session) -> list[Flow]:
    """List the connections of a session; their label holds application, interval and group."""
    application, treatment = session.application + 1, setting.treatment if session.group == "treated" else ""
    flow = Flow(
        f"h{application}",
        f"h{setting.applications + setting.joining + application}",
        duration_s=session.end_s - session.start_s,
        start_s=session.start_s,
        congestion_control=TREATMENTS.get(treatment, "cubic"),
        label=" ".join(map(str, session[:3])),
        tcp=Tcp(pacing=True) if treatment == "pacing" else None,
    )
    return [flow] * (2 if treatment == "two connections" else 1)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: each application has two hosts of its own; all send over one link."""
    rate, delay_ms = setting.bottleneck_mbps, setting.round_trip_ms / 2 - 2  # less 1 ms on either side
    queue = (Sfq if setting.is_fair else DropTail)(packets=setting.buffer_packets)
    shared = Link(rate if setting.is_shared else 4 * rate, delay_ms, queue, loss=setting.loss)
    own = Link(10 * rate if setting.is_shared else rate / setting.applications, 1.0)
    network = dumbbell(setting.applications + setting.joining, access=own, bottleneck=shared)
    traffic = [flow for session in sessions(setting, seconds, seed) for flow in flows(setting, session)]
    return Experiment(network, tuple(traffic), seconds, seed)


def by_session(run: Measurements) -> pd.DataFrame:
    """Sum the connections of each session: throughput, segments that arrived and segments that were sent again."""
    parts = run.flows["label"].str.split(expand=True)
    rows = run.flows.assign(application=parts[0].astype(int), interval=parts[1].astype(int), group=parts[2])
    rows["mbps"] = rows["delivered_bytes"] * 8e-6 / run.experiment.flow_table["duration_s"]
    rows["segments"] = rows["delivered_bytes"] / run.experiment.tcp.segment_bytes
    summed = ["mbps", "segments", "retransmitted_packets"]
    return rows.groupby(["application", "interval", "group"], as_index=False)[summed].sum()


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the mean throughput of all, of treated and of untreated applications (Mb/s), the segments sent again (as a
    share of those that arrived), and the estimate: treated over untreated."""
    table, numbers = by_session(run), {}
    for name, rows in {"all": table, **{group: table[table["group"] == group] for group in COLOURS}}.items():
        numbers[f"{name}_mbps"] = rows["mbps"].mean()
        numbers[f"{name}_resent"] = rows["retransmitted_packets"].sum() / (rows["segments"].sum() or np.nan)
    numbers["estimate"] = numbers["treated_mbps"] / numbers["untreated_mbps"]
    used = run.flows["delivered_bytes"].sum() * 8e-6 / run.experiment.duration_s / setting.bottleneck_mbps
    full, least = ("full", 0.8) if setting.is_shared and not setting.loss else ("free", None)
    return Reading(numbers, {}, [Check(f"share of a {full} link's rate that arrives", used, least, 1.0)])


def effects(runs: Runs) -> pd.DataFrame:
    """Tabulate for each treatment the effect on throughput that A/B tests estimate, the true effect, and the share of
    segments sent again."""
    means = runs.summary().unstack("treated").loc[list(TREATMENTS)]
    return pd.DataFrame(
        {
            "A/B test, one of ten": means["estimate"][FEW],
            "A/B test, nine of ten": means["estimate"][MOST],
            "all against none": means["all_mbps"][APPLICATIONS] / means["all_mbps"][0],
            "sent again, none treated": means["all_resent"][0],
            "sent again, all treated": means["all_resent"][APPLICATIONS],
        }
    )


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    few, most, truth, *_ = effects(runs).loc["BBR"]
    switchback = float(runs.numbers(SWITCHBACK)["estimate"].mean())
    return (
        f"On one full link an A/B test gives BBR {few:.3g} times the throughput of CUBIC with one application of ten "
        f"treated and {most:.3g} times with nine, although treating all gives {truth:.2f} times that of treating none; "
        f"a switchback finds {switchback:.2f} times."
    )


def draw_idea() -> Figure:
    """Draw the idea: applications' shares of the link; a treated application takes two."""
    names = {"nobody treated": 0, "A/B test: one of ten": FEW, "everybody treated": APPLICATIONS}
    figure, axes = drawing.panels("Two connections take two shares", "share of the link", "", list(names))
    for axis, treated in zip(axes, names.values(), strict=True):
        shares = np.where(np.arange(APPLICATIONS) < treated, 2.0, 1.0)
        colours = [COLOURS["treated" if share > 1 else "untreated"] for share in shares]
        axis.barh(range(APPLICATIONS), shares / shares.sum(), color=colours)
        axis.set(xlim=(0, 0.2), yticks=[])
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network with its rates, delays and buffers."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Ten applications share a link")


def draw_ratios(title: str, ratios: Mapping[str, pd.Series], published: Mapping[str, float] | None = None) -> Figure:
    """Draw ratios on a logarithmic axis: a point for each repetition, a star for each published value."""
    figure, axis = new_figure(title, "", "throughput with / without treatment (ratio)", log_y=True)
    for place, values in enumerate(ratios.values()):
        axis.plot([place] * len(values), values, "o", color=CURVES[0], alpha=0.6)
    axis.plot([], [], "o", color=CURVES[0], label="ours, each repetition")
    if published:
        at = [place + 0.15 for place, name in enumerate(ratios) if name in published]
        axis.plot(at, list(published.values()), "*", markersize=13, color=PUBLISHED_GREY, label="published")
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xticks(range(len(ratios)), list(ratios), fontsize=8)
    axis.set_xlim(-0.5, len(ratios) - 0.5)
    axis.legend()
    return figure


def draw_designs(runs: Runs) -> Figure:
    """Draw each design's estimate of BBR's effect, beside the truth and the published values."""
    rows = runs.numbers("BBR").set_index(["treated", "repetition"])
    ratios = {f"A/B test,\n{number} of 10": rows["estimate"][number] for number in PUBLISHED}
    ratios["truth: all\nagainst none"] = rows["all_mbps"][APPLICATIONS] / rows["all_mbps"][0]
    published = dict(zip(ratios, (*PUBLISHED.values(), 1.0), strict=True))
    ratios |= {name: runs.numbers(name)["estimate"] for name in (SWITCHBACK, EVENT)}
    return draw_ratios("What each design finds about BBR", ratios, published)


def draw_control(runs: Runs) -> Figure:
    """Draw what A/B tests estimate about BBR on a congested link and on one that is not."""
    cases = {"full link": "BBR", "not congested": "not congested"}
    estimates = {name: runs.numbers(case).set_index("treated")["estimate"] for name, case in cases.items()}
    ratios = {f"{name},\n{number} of 10": of[number] for name, of in estimates.items() for number in PUBLISHED}
    published = dict(zip(ratios, PUBLISHED.values(), strict=False))
    return draw_ratios("Without congestion an A/B test tells the truth", ratios, published)


def _throughput(treatment: str) -> Panel:
    """Show the throughput of both groups over the number of treated applications."""
    looks = {group: {treatment: {"label": group, "color": colour}} for group, colour in COLOURS.items()}
    curves = (Sweep("treated", f"{group}_mbps", look) for group, look in looks.items())
    return Panel("treated applications (of ten)", "throughput of one (Mb/s)", *curves, title=treatment)


def draw_knob(runs: Runs, knob: str, title: str, names: Mapping[object, str]) -> Figure:
    """Draw the estimates of a knob's cases. names : a label for each of the knob's values."""
    rows = runs.knobs[knob].groupby(["case", knob], sort=False)["estimate"]
    return draw_ratios(title, {f"{case},\n{names[value]}".replace(" c", "\nc"): of for (case, value), of in rows})


def draw_fair(runs: Runs) -> Figure:
    """Draw what A/B tests of one in ten estimate, with and without a link that serves connections in turn."""
    return draw_knob(runs, "is_fair", "A queue that serves connections in turn", {False: "one queue", True: "in turn"})


def draw_growth(runs: Runs) -> Figure:
    """Draw the estimates of switchback and event study where the number of applications doubles in the second half."""
    return draw_knob(runs, "joining", "Traffic that grows meanwhile", {0: "steady", APPLICATIONS: "grows"})


def on_hosts(treated: int, _: Runs) -> pd.Series:
    """Read what others measured on real hosts with so many BBR flows among ten: buffer -> mean ratio."""
    rows = pd.read_csv(data_dir("unbiased_experiments") / "hosts.csv", comment="#").query("treated == @treated")
    return rows.groupby("buffer_round_trips").ratio.mean()


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw each application's throughput in one run."""
    figure, axis = new_figure(case, "application", "throughput (Mb/s)")
    table = by_session(run)
    axis.bar(table["application"] + 1, table["mbps"], color=table["group"].map(COLOURS))
    return figure


QUICKLY = {"treated": (0, FEW, 5, MOST, APPLICATIONS)}
# Shorter runs show how BBR begins: with 4 round trips of buffer and 16 s, anything from 1.5 to 109 came out.
LONG = {"quick": Scale(64.0, repetitions=2, only={"buffer_round_trips": (1.0, 2.0, 4.0)}), "paper": Scale(64.0)}
AB_TESTS = ("few-treated-seem-faster", "most-treated-seem-slower")  # too short runs show how BBR begins
BUFFERS, GROWTH = swept(0.5, 1.0, 2.0, 4.0, 8.0, 16.0), {"treated": APPLICATIONS, "joining": swept(0, APPLICATIONS)}
_OF_ONE = {"table": "flows", "column": "goodput_mbps", "by": "label", "each": "sum"}
_TREATED, _UNTREATED = (_OF_ONE | {"label_end": f" {group}"} for group in COLOURS)
LIVE = LiveRun(
    {
        "treated_mbps": Gauge("a treated application", "Mb/s", _TREATED),
        "untreated_mbps": Gauge("an untreated application", "Mb/s", _UNTREATED),
        "estimate": Gauge("treated / untreated", "times", _TREATED | {"over": _UNTREATED}),
        "all_mbps": Gauge("an application, of all", "Mb/s", _OF_ONE),
    },
    QUEUE,
    "queue of the shared link (packets)",
    {"treated": tuple(range(APPLICATIONS + 1)), "buffer_round_trips": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)},
    lambda _: ("s1", "s2"),
    watched={"queues": (("s1", "s2"),), "queue_interval_ms": 20.0},
)

STUDY = Study(
    slug="unbiased_experiments",
    setting=Setting(),
    cases={
        **{name: {"treatment": name, "treated": swept(0, FEW, 3, 5, 7, MOST, APPLICATIONS)} for name in TREATMENTS},
        SWITCHBACK: {"treated": APPLICATIONS, "design": SWITCHBACK},
        EVENT: {"treated": APPLICATIONS, "design": EVENT},
        "one in turns": {"treated": FEW, "design": SWITCHBACK},
        "not congested": {"treated": swept(FEW, MOST), "is_shared": False},
        "losses by chance": {"treated": swept(0, APPLICATIONS), "loss": 0.03},
    },
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={"quick": Scale(64.0, repetitions=3, only=QUICKLY), "paper": Scale(64.0)},
    on_virtual={
        "quick": Scale(8.0, repetitions=2, only=QUICKLY, unjudged=AB_TESTS),
        "paper": Scale(64.0, only=QUICKLY),
    },
    claims={
        "few-treated-seem-faster": Evidence("estimate", "BBR", "not congested", lambda estimates: estimates[FEW]),
        "most-treated-seem-slower": Evidence("estimate", "BBR", "not congested", lambda estimates: estimates[MOST]),
        "all-treated-change-nothing": Evidence("all_mbps", "BBR", "losses by chance", lambda of: of[10] / of[0]),
        "switchback-finds-the-truth": Evidence("estimate", SWITCHBACK, "one in turns"),
    },
    knobs={
        "buffer": Knob({"BBR": {"treated": swept(FEW, MOST), "buffer_round_trips": BUFFERS}}, LONG, 5),
        "is_fair": Knob({name: {"treatment": name, "is_fair": swept(False, True)} for name in TREATMENTS}, LONG, 3),
        "joining": Knob({name: GROWTH | {"design": name} for name in (SWITCHBACK, EVENT)}, LONG, 5),
    },
    figures={
        "throughput": Picture("Who gets what", *map(_throughput, TREATMENTS)),
        "designs": draw_designs,
        "control": draw_control,
        "buffer": plot(
            "The buffer decides what an A/B test finds",
            "buffer (round trips at the link's rate)",
            "throughput, treated / untreated (ratio)",
            Sweep("buffer_round_trips", "estimate", "buffer", by="treated", label="{} of ten treated"),
            *(
                Published(partial(on_hosts, number), f"real hosts of others, {number} of ten treated", joined=True)
                for number in PUBLISHED
            ),
            *(Level(ratio, f"published: {ratio:g}, {number} of ten treated") for number, ratio in PUBLISHED.items()),
            log="xy",
        ),
        "fair": draw_fair,
        "growth": draw_growth,
    },
    play=Play(
        tuple(TREATMENTS),
        {"treated": (0, APPLICATIONS, 1), "buffer_round_trips": (0.5, 16.0, 0.5)},
        draw_run,
        live=LIVE,
    ),
)
