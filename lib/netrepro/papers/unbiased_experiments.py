"""When does an A/B test in a network lie? Spang et al., "Unbiased Experiments in Congested Networks", IMC 2021.

Applications share one link. Some are treated: they use BBR in place of CUBIC, two connections in place of one, or
pacing. An A/B test compares treated with untreated applications at the same time, where each takes what another
loses. The truth is what changes when all are treated instead of none. A switchback treats all in some intervals,
drawn at random, and none in the others; an event study treats all from one moment on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks import DropTail, Experiment, Flow, Link, Measurements, Sfq, Tcp, dumbbell
from netrepro.networks.links import bandwidth_delay_packets
from netrepro.paths import data_dir
from netrepro.study import VIRTUAL, Check, Evidence, Gauge, Knob, Part, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.figures import Level, Panel, Picture, Published, Sweep, plot
from netrepro.study.live import QUEUE, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

TREATMENTS = {"BBR": "bbr", "two connections": "cubic", "pacing": "cubic"}  # a treated connection's control
SWITCHBACK, EVENT = "switchback", "event study"
FEW, MOST, APPLICATIONS = 1, 9, 10
PUBLISHED = {FEW: 2.5, MOST: 0.25}  # treated / untreated, in the A/B tests of the paper's abstract
COLOURS = {"treated": CURVES[6], "untreated": CURVES[0]}
START_WITHIN = 0.1  # of an interval: sessions begin at random in its first tenth


@dataclass(frozen=True)
class OneLink:
    """Applications on one link. The ten and their treatments are the paper's, from memory. Rate, round trip and buffer
    are not known; they are those for which others published the same comparison on real hosts
    (data/unbiased_experiments/SOURCES.md)."""

    bottleneck_mbps: float = parameter(100.0, "rate of the shared link", "Mb/s", low=1, high=10_000)
    round_trip_ms: float = parameter(40.0, "round trip without queues", "ms", low=5, high=500)
    buffer_round_trips: float = parameter(2.0, "buffer of the shared link", "round trips at its rate", low=0.1, high=20)
    treatment: str = "BBR"
    treated: int = APPLICATIONS  # number of applications treated in an interval with treatment

    @property
    def buffer_packets(self) -> int:
        """The buffer of the shared link (packets)."""
        in_flight = bandwidth_delay_packets(self.bottleneck_mbps, self.round_trip_ms)
        return max(2, round(self.buffer_round_trips * in_flight))

    @property
    def shared(self) -> Link:
        """The shared link. Hosts' links have 1 ms of the delay on either side."""
        return Link(self.bottleneck_mbps, self.round_trip_ms / 2 - 2, DropTail(packets=self.buffer_packets))


@dataclass(frozen=True)
class Setting(OneLink):
    """An A/B test."""

    treated: int = FEW
    is_shared: bool = True  # if False, each application's own link is its limit
    loss: float = 0.0  # share of packets lost at random
    is_fair: bool = False  # the shared link serves its connections in turn


@dataclass(frozen=True)
class Switchback(OneLink):
    """Half of the intervals, drawn at random, have treatment. joining : applications that join in the second half."""

    intervals: int = 8
    joining: int = 0


@dataclass(frozen=True)
class EventStudy(Switchback):
    """The intervals of the second half have treatment."""


def traffic(
    setting: OneLink, intervals: Sequence[Sequence[int]], seconds: float, random: np.random.Generator
) -> tuple[Flow, ...]:
    """List the connections; a label holds application, interval and group. intervals : of each, how many applications
    there are, and how many of them are treated."""
    pairs, connections = max(present for present, _ in intervals), list[Flow]()
    for interval, (present, treated) in enumerate(intervals):
        chosen = random.permutation(present)[:treated]
        for application in range(present):
            start_s = (interval + START_WITHIN * random.random()) * seconds / len(intervals)
            group = "treated" if application in chosen else "untreated"
            treatment = setting.treatment if group == "treated" else ""
            connection = Flow(
                f"h{application + 1}",
                f"h{pairs + application + 1}",
                duration_s=(interval + 1) * seconds / len(intervals) - start_s,
                start_s=start_s,
                congestion_control=TREATMENTS.get(treatment, "cubic"),
                label=f"{application} {interval} {group}",
                tcp=Tcp(pacing=True) if treatment == "pacing" else None,
            )
            connections += [connection] * (2 if treatment == "two connections" else 1)
    return tuple(connections)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make an A/B test. Each application has two hosts of its own; all send over one link."""
    rate, queue = setting.bottleneck_mbps, (Sfq if setting.is_fair else DropTail)(packets=setting.buffer_packets)
    shared_mbps, own_mbps = (rate, 10 * rate) if setting.is_shared else (4 * rate, rate / APPLICATIONS)
    shared = replace(setting.shared, rate_mbps=shared_mbps, queue=queue, loss=setting.loss)
    network = dumbbell(APPLICATIONS, access=Link(own_mbps, 1.0), bottleneck=shared)
    sent = traffic(setting, [(APPLICATIONS, setting.treated)], seconds, np.random.default_rng(seed))
    return Experiment(network, sent, seconds, seed)


def in_intervals(setting: Switchback, seconds: float, seed: int, *, drawn: bool) -> Experiment:
    """Make a switchback (drawn) or an event study."""
    random, is_late = np.random.default_rng(seed), np.arange(setting.intervals) >= setting.intervals // 2
    is_on = random.permutation(is_late) if drawn else is_late
    joined, own = setting.joining * is_late, Link(10 * setting.bottleneck_mbps, 1.0)
    intervals = np.column_stack([APPLICATIONS + joined, (setting.treated + joined) * is_on]).tolist()
    network = dumbbell(APPLICATIONS + setting.joining, access=own, bottleneck=setting.shared)
    return Experiment(network, traffic(setting, intervals, seconds, random), seconds, seed)


def by_session(run: Measurements) -> pd.DataFrame:
    """Sum the connections of each session: throughput, segments that arrived and segments that were sent again."""
    parts = run.flows["label"].str.split(expand=True)
    rows = run.flows.assign(application=parts[0].astype(int), interval=parts[1].astype(int), group=parts[2])
    rows["mbps"] = rows["delivered_bytes"] * 8e-6 / run.experiment.flow_table["duration_s"]
    rows["segments"] = rows["delivered_bytes"] / run.experiment.tcp.segment_bytes
    summed = ["mbps", "segments", "retransmitted_packets"]
    return rows.groupby(["application", "interval", "group"], as_index=False)[summed].sum()


def read_full(run: Measurements, setting: OneLink, least: float | None = 0.8) -> Reading:
    """Read the mean throughput of all, of treated and of untreated applications (Mb/s), the segments sent again (as a
    share of those that arrived), and the estimate: treated over untreated. least : how much of its rate the shared link
    must carry; None where it need not be full."""
    table, numbers = by_session(run), {}
    for name, rows in {"all": table, **{group: table[table["group"] == group] for group in COLOURS}}.items():
        numbers[f"{name}_mbps"] = rows["mbps"].mean()
        numbers[f"{name}_resent"] = rows["retransmitted_packets"].sum() / (rows["segments"].sum() or np.nan)
    numbers["estimate"] = numbers["treated_mbps"] / numbers["untreated_mbps"]
    used = run.flows["delivered_bytes"].sum() * 8e-6 / run.experiment.duration_s / setting.bottleneck_mbps
    link = "free" if least is None else "full"
    return Reading(numbers, {}, [Check(f"share of a {link} link's rate that arrives", used, least, 1.0)])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read an A/B test, as `read_full` does."""
    return read_full(run, setting, 0.8 if setting.is_shared and not setting.loss else None)


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
BUFFERS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
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
    {"treated": tuple(range(APPLICATIONS + 1)), "buffer_round_trips": BUFFERS},
    lambda _: ("s1", "s2"),
    watched={"queues": (("s1", "s2"),), "queue_interval_ms": 20.0},
)

PARTS = {
    SWITCHBACK: Part(setting=Switchback(), experiment=partial(in_intervals, drawn=True), read=read_full),
    EVENT: Part(setting=EventStudy(), experiment=partial(in_intervals, drawn=False), read=read_full),
}

STUDY = Study(
    slug="unbiased_experiments",
    setting=Setting(),
    parts=tuple(PARTS.values()),
    cases={
        **{name: {"treatment": name, "treated": swept(0, FEW, 3, 5, 7, MOST, APPLICATIONS)} for name in TREATMENTS},
        **{name: {"part": part} for name, part in PARTS.items()},
        "one in turns": {"part": PARTS[SWITCHBACK], "treated": FEW},
        "not congested": {"treated": swept(FEW, MOST), "is_shared": False},
        "losses by chance": {"treated": swept(0, APPLICATIONS), "loss": 0.03},
    },
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(64.0, repetitions=3, only=QUICKLY),
        "paper": Scale(64.0),
        ("quick", VIRTUAL): Scale(8.0, repetitions=2, only=QUICKLY, unjudged=AB_TESTS),
        ("paper", VIRTUAL): Scale(64.0, only=QUICKLY),
    },
    claims={
        "few-treated-seem-faster": Evidence("estimate", "BBR", "not congested", lambda estimates: estimates[FEW]),
        "most-treated-seem-slower": Evidence("estimate", "BBR", "not congested", lambda estimates: estimates[MOST]),
        "all-treated-change-nothing": Evidence("all_mbps", "BBR", "losses by chance", lambda of: of[10] / of[0]),
        "switchback-finds-the-truth": Evidence("estimate", SWITCHBACK, "one in turns"),
    },
    knobs={
        "buffer": Knob({"BBR": {"treated": swept(FEW, MOST), "buffer_round_trips": swept(*BUFFERS)}}, LONG, 5),
        "is_fair": Knob({name: {"treatment": name, "is_fair": swept(False, True)} for name in TREATMENTS}, LONG, 3),
        "joining": Knob(
            {name: {"part": part, "joining": swept(0, APPLICATIONS)} for name, part in PARTS.items()}, LONG, 5
        ),
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
        "fair": partial(
            draw_knob,
            knob="is_fair",
            title="A queue that serves connections in turn",
            names={False: "one queue", True: "in turn"},
        ),
        "growth": partial(
            draw_knob, knob="joining", title="Traffic that grows meanwhile", names={0: "steady", APPLICATIONS: "grows"}
        ),
    },
    play=Play(
        tuple(TREATMENTS),
        {"treated": (0, APPLICATIONS, 1), "buffer_round_trips": (0.5, 16.0, 0.5)},
        draw_run,
        live=LIVE,
    ),
)
