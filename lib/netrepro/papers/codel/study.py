"""CoDel: Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 10(5) and CACM 55(7), 2012.

CoDel tells a standing queue from a passing burst by the least wait of recent packets. Long CUBIC flows and web traffic
cross one link with CoDel, RED or drop tail: at a fixed rate from 128 kb/s to 100 Mb/s (Figs 5, 6, 8 and 9), or at one
that changes by two orders of magnitude (Fig. 7). The consumer edge is in `edge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers.codel import edge
from netrepro.papers.codel.edge import EDGE_CODEL, EDGE_TAIL
from netrepro.papers.codel.experiments import (
    PORT,
    SCHEDULE_MBPS,
    Dynamic,
    Edge,
    Setting,
    dynamic_experiment,
    edge_experiment,
    experiment,
    over_time,
    read,
    read_dynamic,
    read_edge,
)
from netrepro.study import DROPPED_PACKETS, VIRTUAL, Evidence, Gauge, Knob, Live, Part, Play, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, least_first, ratio
from netrepro.study.figures import Course, Level, Look, Mark, Panel, Picture, Sweep
from netrepro.study.live import WAIT
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

# Functions that claims apply to readings, Series indexed by rate, round trip or packet size.


def utilisation_below_500_ms(utilisation: pd.Series) -> float:
    """Compute the mean utilisation (share) over the grid without round trips of 500 ms, where queues run empty."""
    return float(utilisation[utilisation.index.get_level_values("round_trip_ms") < 500].mean())


def of_utilisations(ours: pd.Series, baseline: pd.Series) -> float:
    """Compute the ratio of two `utilisation_below_500_ms`: ours over the baseline's."""
    return utilisation_below_500_ms(ours) / utilisation_below_500_ms(baseline)


def by_fast_utilisation(*names: str) -> Callable[..., list[str]]:
    """Make the function that ranks queues by their mean utilisation at 10 Mb/s and more, highest first. It takes
    a Series by rate for each name."""
    order = greatest_first(*names)
    return lambda *series: order(*(each[each.index.get_level_values("rate_mbps") >= 10].mean() for each in series))


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case").mean()
    ours, tail, short = (table.loc[name] for name in (DYNAMIC_CODEL, DYNAMIC_TAIL, TEN_PACKETS))
    return (
        f"Where the rate changes between 1 and 100 Mb/s, half of the packets wait for less than {ours.median_ms:.1f} "
        f"ms with CoDel and for {tail.median_ms:.0f} ms or more with drop tail (at worst {tail.greatest_s:.0f} s); "
        f"CoDel carries {ours.sent_mb / tail.sent_mb:.0%} of drop tail's bytes, a buffer of 10 packets "
        f"{short.sent_mb / tail.sent_mb:.0%}."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw two queues that are both never empty for long: one that drains within a round trip, one that stays."""
    names = ["good: a burst, gone within a round trip", "bad: a standing queue"]
    figure, axes = drawing.panels("Which queue should go? (not to scale)", "time (round trips)", "wait (ms)", names)
    time = np.linspace(0, 6, 1201)
    waits = [np.clip(24 - 30 * (time % 1), 0, None), np.clip(24 - 30 * time, 14 + 1.5 * np.sin(12 * time), None)]
    for axis, wait in zip(axes, waits, strict=True):
        least = [wait[(time > now - 1) & (time <= now)].min() for now in time]
        axis.plot(time, wait, color=CURVES[0], label="wait of each packet")
        axis.plot(time, least, color=CURVES[1], label="least wait of the last interval")
        axis.axhline(5, color="#444444", linestyle=":", label="target (5 ms)")
        axis.set_ylim(0, 30)
    axes[1].legend(loc="upper right")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw four pairs over the dynamic link at its first rate."""
    dynamic = dynamic_experiment(STUDY.case(DYNAMIC_CODEL, setting), 60.0, 1)
    return drawing.draw_network(dynamic, "Four pairs share one link")


def _delay_and_utilisation(title: str, label: str, sweep: Callable[[str], Mark], *marks: Mark) -> Picture:
    """Show the median delay, with the target, and the utilisation."""
    target = Level(5.0, "target: 5 ms")
    return Picture(
        title,
        Panel(label, "median delay (ms)", sweep("median_ms"), target, *marks, log="xy"),
        Panel(label, "utilisation (share)", sweep("utilisation"), log="x", y_range=(0, 1.05)),
    )


def _static(title: str, over: str, label: str) -> Picture:
    """Show the static links, as means over the other dimension of their grid."""
    return _delay_and_utilisation(
        title, label, lambda reading: Sweep(over, reading, STATIC_NAMES, averaged=True, tiers=True)
    )


def low_rates(runs: Runs) -> pd.DataFrame:
    """Return the readings at low rates, with the packet size in the case's name. On kernels RED is Linux's own."""
    red = {LOW_RED: "RED"} if runs.has(LOW_RED) else {LOW_LINUX_RED: "Linux's RED"}
    rows = pd.concat(runs.numbers(case).assign(case=name) for case, name in {LOW_CODEL: "CoDel", **red}.items())
    rows["case"] = rows["case"] + rows.packet_bytes.map(lambda size: f", {500 if size == 500 else 1500} bytes")
    return rows.sort_values(["case", "rate_mbps"])


def _draw_published_red(axis: Axes, _: Runs) -> None:
    axis.axhspan(100, 200, color="#bbbbbb", alpha=0.5, zorder=0, label="RED, published")


def _fairness(over: str, label: str) -> Panel:
    """Show Jain's index of drops by source, for links with enough drops."""
    enough = f"dropped >= {edge.LEAST_DROPS}"
    sweep = Sweep(over, "drop_fairness", FAIRNESS_NAMES, rows=enough, averaged=True, tiers=True)
    return Panel(label, "share of the fairest (Jain)", sweep, log="x", y_range=(0, 1.05))


def _over_time(cases: Mapping[str, Look], column: str, *marks: Mark) -> Panel:
    """Show a reading of the dynamic link over time. Dotted lines mark changes of the rate."""
    how: dict[str, Any] = {"log": "y", "y_range": (0.1, 20_000)} if column.endswith("ms") else {}
    return Panel("time (s)", OVER_TIME[column], Course("course", column, cases), _mark_changes, *marks, **how)


def _mark_changes(axis: Axes, runs: Runs) -> None:
    for place in range(1, len(SCHEDULE_MBPS)):
        axis.axvline(runs.seconds / len(SCHEDULE_MBPS) * place, color="#888888", linestyle=":", linewidth=0.8)


def _over_buffer(column: str) -> Panel:
    """Show the edge over the buffer's length, a curve for each link: CoDel dashed, drop tail solid, drop tail's
    published level dotted."""
    tail = Sweep("buffer_packets", column, "edge_buffer_edge", by="link", rows="case == 'drop tail'")
    dashed = {edge.named(*link): {"linestyle": "--", "linewidth": 0.8, "marker": ""} for link in edge.LINKS}
    ours = Sweep("buffer_packets", column, "edge_buffer_edge", by="link", looks=dashed, rows="case == 'codel'")

    def draw_published(axis: Axes, _: Runs) -> None:
        for colour, link in zip(CURVES, edge.LINKS, strict=False):
            axis.axhline(edge.published().loc[("drop tail", *link), column], color=colour, linestyle=":")
        for line, label in (("--", "CoDel"), (":", "drop tail, published")):
            axis.plot([], [], line, color=PUBLISHED_GREY, label=label)

    return Panel("buffer (packets)", edge.COLUMNS[column], tail, ours, draw_published, log="x")


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw the delay of one run over time."""
    course = over_time(run.packets[run.packets.source == PORT[0]], 0.0, run.experiment.duration_s)
    figure, axis = new_figure(f"{case}: {course.sent_mb.iloc[-1]:.0f} MB", "time (s)", "greatest delay (ms)")
    axis.plot(course.time_s, course.greatest_ms, linewidth=1)
    axis.set_ylim(bottom=0)
    return figure


RATES, ROUND_TRIPS = (3.0, 10.0, 45.0, 100.0), (10.0, 30.0, 100.0, 200.0, 500.0)
LOW_RATES, PACKETS = (0.128, 0.256, 0.512, 1.5), (500, FULL_PACKET_BYTES)
INTERVALS = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
OVER_TIME = {"greatest_ms": "greatest delay (ms)", "mean_ms": "mean delay (ms)", "sent_mb": "sent (MB)"}
TAIL, RED_QUEUE = {"queue": "drop tail"}, {"queue": "red"}
COUNTED = {"count_drops": True}
NEVER_DROPS = {"target_ms": 10_000.0, "interval_ms": 10_000.0}
STATIC = {"rate_mbps": swept(*RATES), "round_trip_ms": swept(*ROUND_TRIPS)}
LOW = {"rate_mbps": swept(*LOW_RATES), "packet_bytes": swept(*PACKETS), "round_trip_ms": swept(30.0, 100.0)}
DYNAMIC_LINK = Part(setting=Dynamic(), experiment=dynamic_experiment, read=read_dynamic)
CONSUMER_EDGE = Part(setting=Edge(), experiment=edge_experiment, read=read_edge)
DYNAMIC = {"part": DYNAMIC_LINK}
STATIC_NAMES = {"codel": "CoDel", "red": "RED", "drop tail": "drop tail"}
LOW_CODEL, LOW_RED, LOW_LINUX_RED = "codel, low rates", "red, low rates", "linux red, low rates"
DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL = "codel, dynamic", "red, dynamic", "drop tail, dynamic"
NEVER, UNRESPONSIVE = "codel of 10 s, dynamic", "unresponsive, dynamic"
TEN_PACKETS, TEN_CODEL = "drop tail of 10, dynamic", "codel of 10 packets, dynamic"
RFC, NS2 = "codel rfc8289, dynamic", "codel ns2_2012, dynamic"
FAIR = "fq_codel, dynamic"
EDGE_NEVER, EDGE_HASTY = "codel of 10 s, edge", "codel of 1 ms, edge"
FAIRNESS_NAMES = {"codel": "CoDel", "red": "RED", "codel of 10 packets": "CoDel in a buffer of 10 packets"}
DYNAMIC_NAMES = {DYNAMIC_CODEL: "CoDel", DYNAMIC_RED: "RED", DYNAMIC_TAIL: "drop tail"}
TEN_NAMES = {TEN_PACKETS: "drop tail, 10 packets", TEN_CODEL: "CoDel, 10 packets", DYNAMIC_CODEL: "CoDel, 830 packets"}
CONTROL_NAMES: dict[str, Look] = {
    DYNAMIC_CODEL: "CoDel",
    NEVER: {"label": "target = interval = 10 s", "linewidth": 5, "alpha": 0.35},
    UNRESPONSIVE: "unresponsive UDP, 120 Mb/s",
    DYNAMIC_TAIL: "drop tail",
}
ROUND_TRIP = "round trip (ms)"
EDGE: dict[str, Any] = {
    "part": CONSUMER_EDGE,
    "edge_mbps": swept(*edge.RATES),
    "rate_mbps": lambda setting: setting.edge_mbps,
    "packet_bytes": lambda setting: 500 if setting.edge_mbps < 1 else FULL_PACKET_BYTES,
}
EDGE_BUFFERS = {"buffer_packets": swept(6, 13, 20, 26, 52, 104)}
CASES: dict[str, dict[str, Any]] = {
    "codel": STATIC | COUNTED,
    "red": STATIC | RED_QUEUE | COUNTED,
    "drop tail": STATIC | TAIL,
    "codel of 10 packets": STATIC | {"buffer_packets": 10} | COUNTED,
    "unresponsive": STATIC | {"udp_share": 1.2},
    LOW_CODEL: LOW,
    LOW_RED: LOW | RED_QUEUE | {"red": "ns2"},
    LOW_LINUX_RED: LOW | RED_QUEUE | {"red": "linux"},
    DYNAMIC_CODEL: DYNAMIC | COUNTED,
    DYNAMIC_RED: DYNAMIC | RED_QUEUE,
    DYNAMIC_TAIL: DYNAMIC | TAIL,
    NEVER: DYNAMIC | NEVER_DROPS | COUNTED,
    UNRESPONSIVE: DYNAMIC | {"udp_share": 1.2},
    TEN_PACKETS: DYNAMIC | TAIL | {"buffer_packets": 10},
    TEN_CODEL: DYNAMIC | {"buffer_packets": 10},
    RFC: DYNAMIC | {"reentry": "rfc8289"},
    NS2: DYNAMIC | {"reentry": "ns2_2012"} | COUNTED,  # in the simulator, the same run as DYNAMIC_CODEL
    FAIR: DYNAMIC | {"queue": "fq_codel"},
    EDGE_CODEL: EDGE,
    EDGE_TAIL: EDGE | TAIL,
    EDGE_NEVER: EDGE | NEVER_DROPS,
    EDGE_HASTY: EDGE | {"interval_ms": 1.0},
}
# Linux has one re-entry rule, its own RED, and a CoDel that knows its device's packet size.
LINUX = {"reentry": "linux", "red": "linux", "least_bytes": FULL_PACKET_BYTES}
# Claims about the whole 300 s, with 50 s at each rate; all concern the dynamic link.
OF_LONG_STAYS = (
    *("drop-tail-peak", "dynamic-median", "dynamic-upper-quartile", "dynamic-95th"),
    *("new-control-point", "dynamic-order", "dynamic-bytes", "small-buffer"),
)
OF_NS2_RED = ("fairer-drops",)
# A quick run on a kernel has only two or three uploads.
OF_UPLOADS = (
    *("edge-drops-no-more", "edge-drops-upload-512", "edge-drops-upload-1500"),
    *("edge-delay-upload-512", "edge-bytes"),
)
ONLY_DRAWN = ("unresponsive", LOW_LINUX_RED, UNRESPONSIVE, RFC, NS2, FAIR)
SMALL_CODEL = ("codel of 10 packets", "drop tail")


def _at_edge(column: str, control: str, pick: Callable[[pd.Series], float]) -> Evidence:
    """Make the evidence on CoDel over drop tail at the consumer edge."""
    return Evidence("edge", (EDGE_CODEL, EDGE_TAIL), control=(control, EDGE_TAIL), how=edge.ratio(column, pick))


def _on_link(column: str, control: str, rate_mbps: float, direction: str) -> Evidence:
    return _at_edge(column, control, lambda ratios: ratios[rate_mbps, direction])


_LATER = {"table": "packets", "from_s": Setting.static_s / 4}
LIVE = Live(
    {
        "median_ms": Gauge("median wait", "ms", _LATER | {"column": "wait_ms", "reduce": "p50"}),
        "upper_quartile_ms": Gauge("upper quartile of waits", "ms", _LATER | {"column": "wait_ms", "reduce": "p75"}),
        "sent_mb": Gauge(
            "sent in these 7.5 s", "MB", _LATER | {"column": "size_bytes", "reduce": "sum", "times": 1e-6}
        ),
        "drop_share": DROPPED_PACKETS,
    },
    WAIT,
    "wait of a packet (ms)",
    {"target_ms": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0), "interval_ms": (10.0, 30.0, 100.0, 300.0, 1000.0)}
    | {"round_trip_ms": (20.0, 100.0, 500.0), "rate_mbps": (1.0, 3.0, 10.0, 45.0)},
    lambda _: PORT,
    cases=("codel", "red", "drop tail"),
    broken={"codel": "drop tail"},
)
STUDY = Study(
    slug="codel",
    setting=Setting(),
    parts=(DYNAMIC_LINK, CONSUMER_EDGE),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=5,
    scales={
        "quick": Scale(
            300.0,
            repetitions=3,
            changes={"edge_s": 180.0},
            only={"round_trip_ms": (10.0, 100.0)},
            fewer=dict.fromkeys(ONLY_DRAWN, 1),
        ),
        "paper": Scale(300.0, changes={"static_s": 300.0}),
        "test": Scale(300.0, 2, {"static_s": 5.0, "edge_s": 60.0}, {"round_trip_ms": (30.0, 100.0)}),
        ("quick", VIRTUAL): Scale(
            60.0,
            repetitions=2,
            changes=LINUX | {"static_s": 8.0, "edge_s": 60.0},
            only={"rate_mbps": (LOW_RATES[0], LOW_RATES[2], 3.0, 10.0, 45.0), "round_trip_ms": (100.0,)},
            # The kernel's CoDel is Linux's, not an RFC's; TEN_CODEL shows no more than TEN_PACKETS.
            without=(RFC, UNRESPONSIVE, TEN_CODEL),
            fewer={name: 1 for name, changes in CASES.items() if changes.get("part") is DYNAMIC_LINK},
            unjudged=OF_LONG_STAYS + OF_NS2_RED + OF_UPLOADS,
        ),
        ("paper", VIRTUAL): Scale(
            300.0, repetitions=3, changes=LINUX | {"static_s": 20.0}, without=(RFC,), unjudged=OF_NS2_RED
        ),
    },
    claims={
        "static-median-delay": Evidence("median_ms", "codel", control="drop tail", how=pd.Series.median),
        "static-utilisation": Evidence("utilisation", ("codel", "drop tail"), control=SMALL_CODEL, how=of_utilisations),
        "red-overcontrols": Evidence(
            "utilisation",
            ("codel", "red"),
            control=("codel of 10 packets", "red"),
            how=by_fast_utilisation("codel", "red"),
        ),
        "red-at-low-rates": Evidence("median_ms", LOW_RED, control=LOW_CODEL, how=pd.Series.median),
        "drop-tail-peak": Evidence("greatest_s", DYNAMIC_TAIL, control=DYNAMIC_CODEL),
        "dynamic-median": Evidence("median_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-upper-quartile": Evidence("upper_quartile_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-95th": Evidence("p95_time_ms", DYNAMIC_CODEL, control=NEVER),
        "new-control-point": Evidence("first_drop_ms", DYNAMIC_CODEL, control=NEVER),
        "dynamic-order": Evidence(
            "p95_time_ms",
            (DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL),
            control=(NEVER, DYNAMIC_RED, DYNAMIC_TAIL),
            how=least_first("codel", "red", "drop tail"),
        ),
        "dynamic-bytes": Evidence(
            "sent_mb", (DYNAMIC_CODEL, DYNAMIC_TAIL), control=(TEN_CODEL, DYNAMIC_TAIL), how=ratio
        ),
        "small-buffer": Evidence("sent_mb", (TEN_PACKETS, DYNAMIC_TAIL), how=ratio),
        "fairer-drops": Evidence(
            ("drop_fairness", "dropped"),
            ("codel", "red"),
            control=("codel of 10 packets", "red"),
            how=edge.fairer("codel", "red"),
        ),
        "edge-drops-no-more": _at_edge("dropped_percent", EDGE_HASTY, pd.Series.max),
        "edge-drops-upload-512": _on_link("dropped_percent", EDGE_HASTY, 0.512, "upload"),
        "edge-drops-download-1500": _on_link("dropped_percent", EDGE_HASTY, 1.5, "download"),
        "edge-drops-upload-1500": _on_link("dropped_percent", EDGE_HASTY, 1.5, "upload"),
        "edge-delay-download-512": _on_link("median_ms", EDGE_NEVER, 0.512, "download"),
        "edge-delay-upload-512": _on_link("median_ms", EDGE_NEVER, 0.512, "upload"),
        "edge-delay-download-1500": _on_link("median_ms", EDGE_NEVER, 1.5, "download"),
        "edge-bytes": _at_edge("sent_mb", EDGE_HASTY, pd.Series.mean),
    },
    knobs={
        "interval": Knob(
            {"codel": {"interval_ms": swept(*INTERVALS), "round_trip_ms": swept(10.0, 30.0, 100.0, 500.0)}},
            Scale(changes={"static_s": 15.0}),
        ),
        "edge_buffer": Knob(
            {"codel": EDGE | EDGE_BUFFERS, "drop tail": EDGE | EDGE_BUFFERS | TAIL},
            Scale(300.0),
            tables=("edge",),
            quick=Scale(changes={"edge_s": 60.0}),
        ),
    },
    figures={
        "fig5_static": _static("Links of fixed rate, means over round trips (Fig. 5)", "rate_mbps", "rate (Mb/s)"),
        "fig6_low_rates": _delay_and_utilisation(
            "Slow links (Fig. 6)",
            "rate (Mb/s)",
            lambda reading: Sweep("rate_mbps", reading, low_rates, averaged=True),
            _draw_published_red,
        ),
        "fig7_dynamic": Picture(
            "100, 10, 1, 50, 1 and 100 Mb/s (Fig. 7)",
            _over_time(DYNAMIC_NAMES, "greatest_ms", Level(10_000, "drop tail, published: up to 10 s")),
            _over_time(DYNAMIC_NAMES, "sent_mb"),
        ),
        "fig7_ten_packets": Picture(
            "Buffers of 10 packets (Fig. 7)", *(_over_time(TEN_NAMES, column) for column in ("greatest_ms", "sent_mb"))
        ),
        "fig8_round_trips": _static("Over the round trip, means over rates (Fig. 8)", "round_trip_ms", ROUND_TRIP),
        "fig9_fairness": Picture(
            f"How fairly drops fall on the sources: links with {edge.LEAST_DROPS} drops or more (Fig. 9)",
            _fairness("round_trip_ms", ROUND_TRIP),
            _fairness("rate_mbps", "rate (Mb/s)"),
        ),
        "control": Picture("Broken on purpose", _over_time(CONTROL_NAMES, "mean_ms")),
        "knob_interval": _delay_and_utilisation(
            "How long may the interval be? (10 Mb/s)",
            "interval (ms)",
            lambda reading: Sweep("interval_ms", reading, "interval", by="round_trip_ms", label="round trip {} ms"),
        ),
        "knob_edge_buffer": Picture("How long was the buffer?", *map(_over_buffer, ("median_ms", "dropped_percent"))),
    },
    best=("fig5_static", "fig7_dynamic", "fig8_round_trips", "fig9_fairness", "control"),
    play=Play(
        ("codel", "red", "drop tail", DYNAMIC_CODEL, DYNAMIC_RED, DYNAMIC_TAIL, FAIR),
        {"target_ms": (1.0, 50.0, 1.0), "interval_ms": (10.0, 1000.0, 10.0), "round_trip_ms": (10.0, 500.0, 10.0)},
        draw_run,
        60.0,
        live=LIVE,
    ),
)
