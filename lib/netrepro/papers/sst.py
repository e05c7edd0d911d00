"""Structured streams: web pages over SST, HTTP's four ways with TCP, and QUIC (Ford, SIGCOMM 2007, Fig. 8).

One client, one server, a line of 1.5 Mb/s and 55 ms. Pages of a trace are loaded one after the other: each request over
a new TCP connection (serial, parallel), over two lasting connections (persistent, pipelined), or over a stream of SST,
all in one channel. SST is the state machine of `netrepro.protocols.sst`, byte for byte. HTTP/3 over QUIC, which the
idea led to, is aioquic's, with a stream a request in one connection; the paper has no numbers for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.web.frames import MEANS, send_frames
from netrepro.applications.web.run import (
    CLIENT,
    SERVER,
    SymmetricLine,
    Way,
    least_s,
    load_pages,
    load_really,
    share_beside_tcp,
    why_no_quic,
)
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.protocols.browser import Manner
from netrepro.protocols.sst.channel import Manners
from netrepro.study import VIRTUAL, Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first, ratio
from netrepro.study.figures import Bars, Course, Level, Look, Mark, Panel, Picture, Sweep, beside, plot
from netrepro.study.setting import parameter
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic.home_ip import pages, read_trace

SLUG = "sst"
STANDIN = "UCB-home-IP-standin.tr.gz"
PANELS = {"1": (1, 1), "2": (2, 2), "3-4": (3, 4), "5-8": (5, 8), "9+": (9, 10**6)}
UNLIMITED = 10**6
SHORT_BYTES, LONGER_BYTES = (2000, 3500), (4500, 7000)  # below and above three segments of 1200
LONG_BYTES = (100_000, 300_000)
LATE_S = 0.2  # a frame that is not there by then is late


@dataclass(frozen=True)
class Setting:
    """The line, the pages, and how they are requested. `initial_window_segments` and `segment_bytes` are TCP's,
    `sst_window` is SST's first window (packets). `connections`: greatest number at once; 0 for no limit. `kept`:
    connections stay open from page to page. `fresh`: every page has a new SST channel or QUIC connection. `early`:
    QUIC's requests leave in the first packet of a connection (0-RTT). `in_order`: QUIC's responses count in the order
    of requests, not of arrival. `server_window`: SST's server has a congestion window. `smallest_first`, `by_bytes`,
    `more_small`: how a browser that pipelines asks, see `Manner`. `frames_over`: instead of pages, frames of
    `frame_packets` are sent over SST, see `send_frames`. `missed_behind`: see SST's
    `Manners`; before 2008, the year after the paper, every hole was a loss.

    Rate, delay, queue, requests and the missing pause are those of the author's programs (data/sst/SOURCES.md). His
    simulator had two queues, of 37 and of 9 packets; which one made Fig. 8 is not known, and we take the older one."""

    rate_mbps: float = parameter(1.5, "of the line, in both directions", "Mb/s", low=0.01, high=1000)
    one_way_ms: float = parameter(27.5, "delay of the line", "ms", low=0.1, high=1000)
    queue_packets: int = parameter(37, "buffer at each end of the line", "packets", low=1, high=10_000)
    loss_percent: float = 0.0
    trace: str = parameter(
        "standin", "the pages; a .tr.gz file holds a part of the trace", one_of=("standin", "a file")
    )
    pages: int = 400
    request_bytes: int = parameter(128, "of a request, which the trace does not say", low=12, high=1200)
    pause_ms: float = 0.0
    initial_window_segments: int = parameter(3, "of a new TCP connection", "segments of 1200 bytes", low=1, high=100)
    segment_bytes: int = 1200
    sst_window: int = 2
    missed_behind: int = 1
    over: str = "TCP"
    connections: int = 1
    depth: int = 1
    kept: bool = False
    fresh: bool = False
    early: bool = False
    in_order: bool = False
    server_window: bool = True
    beside_tcp: bool = False
    smallest_first: bool = False
    by_bytes: bool = False
    more_small: int = 0
    frames_over: str = ""
    frame_packets: int = 1


SST: dict[str, Any] = {"over": "SST", "connections": 0}
QUIC: dict[str, Any] = {"over": "QUIC", "connections": 0}
ONE = SST | {"connections": 1}
PIPELINED: dict[str, Any] = {"connections": 2, "depth": 4, "kept": True}
SCHEMES: dict[str, dict[str, Any]] = {
    "SST": SST,
    "pipelined": PIPELINED,
    "persistent": {"connections": 2, "kept": True},
    "parallel": {"connections": 8},
    "serial": {"connections": 1},
    "QUIC": QUIC,
}
HANDSHAKES: dict[str, dict[str, Any]] = {
    "QUIC, fresh connection": QUIC | {"fresh": True},
    "QUIC, fresh, 0-RTT": QUIC | {"fresh": True, "early": True},
}
CONTROLS: dict[str, dict[str, Any]] = {
    "SST, fresh channel": SST | {"fresh": True},
    "SST, one stream": ONE,
    "SST, fresh, one stream": ONE | {"fresh": True},
    "serial, window of 10": {"connections": 1, "initial_window_segments": 10},
    "one connection": {"connections": 1, "kept": True},
}
SIX = PIPELINED | {"connections": 6}
# The browser of the class's program: what each of its three changes does, and all of them.
BROWSER: dict[str, dict[str, Any]] = {
    "6 x 4": SIX,
    "6 x 4, smallest first": SIX | {"smallest_first": True},
    "6 x 4, fewest bytes": SIX | {"by_bytes": True},
    "6 x 4, deeper for small": SIX | {"more_small": 2},
    "6 x 4, all three": SIX | {"smallest_first": True, "by_bytes": True, "more_small": 2},
}
CLASS: dict[str, dict[str, Any]] = {
    "pipelined, 6 x 4": SIX,
    "SST, no server window": SST | {"server_window": False},
}
BESIDE: dict[str, dict[str, Any]] = {
    "SST beside TCP": SST | {"beside_tcp": True},
    "TCP beside TCP": {"beside_tcp": True},
    "no window, beside TCP": SST | {"beside_tcp": True, "server_window": False},
}
LOOKS: dict[str, dict[str, Any]] = {
    name: {"label": name, "color": colour, "marker": marker}
    for name, colour, marker in zip(SCHEMES, (*CURVES[:5], scheme("QUIC").colour), "o^sDvx", strict=True)
}
FRESH, FRESH_ONE, IN_ORDER = "SST, fresh channel", "SST, fresh, one stream", "QUIC, in order"


def line_of(setting: Setting) -> SymmetricLine:
    """Return the line of a setting. Raises NetreproError for a loss outside [0, 100) %."""
    if not 0 <= setting.loss_percent < 100:
        raise NetreproError(f"loss_percent = {setting.loss_percent}", "give 0 or more, and less than 100")
    return SymmetricLine(setting.rate_mbps, setting.one_way_ms, setting.queue_packets, setting.loss_percent / 100)


def way_of(setting: Setting) -> Way:
    """Make the way in which a setting's pages are requested."""
    asks = (setting.smallest_first, setting.by_bytes, setting.more_small)
    manner = Manner(setting.connections or UNLIMITED, setting.depth, setting.kept, *asks)
    tcp = Tcp(
        "reno",
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=65_535,
        syn_linear_timeouts=0,
        slow_start_after_idle=False,
    )
    client = Manners(initial_window=setting.sst_window, missed_behind=setting.missed_behind)
    server = replace(client, controlled=setting.server_window)
    return Way(manner, tcp, setting.over, setting.fresh, setting.early, setting.in_order, client, server)


@lru_cache(maxsize=2)
def all_pages(trace: str) -> tuple[tuple[int, ...], ...]:
    """Return the pages of the stand-in, or of a file of the true trace: response sizes (bytes), the primary first."""
    path = data_dir(SLUG) / STANDIN if trace == "standin" else Path(trace)
    return tuple(pages(read_trace(path)))


def pages_of(setting: Setting, seed: int) -> list[tuple[int, ...]]:
    """Return `setting.pages` consecutive pages of the trace, from a place that the seed chooses."""
    known = all_pages(setting.trace)
    start = int(np.random.default_rng(seed).integers(len(known)))
    return [known[(start + place) % len(known)] for place in range(setting.pages)]


def experiment(setting: Setting, seconds: float = 1.0, seed: int = 1) -> Experiment:
    """Make the network with one transfer over it, for drawing."""
    return Experiment(line_of(setting).topology, (Flow(SERVER, CLIENT, size_bytes=1000),), seconds, seed)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Load the pages. Read the fastest page (floor) and median of each panel in ms, and the mean time of all responses
    from the beginning of their page. The table has each page's time and bound.

    Where no page of nine or more requests has LONG_BYTES, the longest one replaces them.
    """
    way, line = way_of(setting), line_of(setting)
    if setting.frames_over:
        return _read_frames(setting, seed)
    if setting.beside_tcp:
        return Reading({"share": share_beside_tcp(way, line, seconds, seed % 2**31)})
    asked = pages_of(setting, seed)
    load = load_really if tier == VIRTUAL else load_pages
    loaded = load(asked, way, line, setting.request_bytes, setting.pause_ms / 1e3, seed % 2**31)
    table = pd.DataFrame(
        {
            "requests": each.requests,
            "size_bytes": each.size_bytes,
            "time_ms": 1e3 * (each.ended_s - each.began_s),
            "response_ms": 1e3 * each.response_s,
            "bound_ms": 1e3 * least_s(page, way, line, setting.request_bytes),
            "panel": panel_of(each.requests),
        }
        for page, each in zip(asked, loaded, strict=False)
    )
    by_panel = table.groupby("panel").time_ms.agg(["min", "median"]).reindex(list(PANELS))
    one = table[table.requests == 1]
    short, longer = (one.time_ms[one.size_bytes.between(*ends)].median() for ends in (SHORT_BYTES, LONGER_BYTES))
    long = table[(table.panel == "9+") & table.size_bytes.between(*LONG_BYTES)]
    if long.empty:
        long = table[table.panel == "9+"].nlargest(1, "size_bytes")
    in_full_s = line.seconds_for(1.0) * long.size_bytes
    numbers = {
        "median_ms": table.time_ms.median(),
        "mean_ms": table.time_ms.mean(),
        "response_ms": np.average(table.response_ms, weights=table.requests),
        **by_panel["min"].add_prefix("floor_"),
        **by_panel["median"].add_prefix("median_"),
        "step": longer / short,
        "long_over_link": (long.time_ms / 1e3 / in_full_s).median(),
    }
    checks = [
        Check("share of pages that are there", len(loaded) / setting.pages, at_least=1.0),
        Check("fastest page over its closed-form bound", float((table.time_ms / table.bound_ms).min()), at_least=1.0),
    ]
    return Reading(numbers, {"pages": table}, checks)


def _read_frames(setting: Setting, seed: int) -> Reading:
    """Send as many frames as there are `pages`. Read the shares that arrive whole and in time (LATE_S), the share that
    datagrams of independent packets would bring, and the mean delay of whole frames in ms."""
    line, packets = line_of(setting), setting.frame_packets
    delay_s = send_frames(line, setting.frames_over, packets, setting.pages, seed % 2**31, late_s=LATE_S).delay_s
    numbers = {"whole": delay_s.notna().mean(), "in_time": (delay_s <= LATE_S).mean(), "delay_ms": 1e3 * delay_s.mean()}
    return Reading({**numbers, "independent": (1 - line.loss) ** packets})


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting; "" where it can."""
    if setting.over == "QUIC" and (why := why_no_quic()):
        return why
    return "the program on the virtual kernel loads pages only" if setting.beside_tcp and tier == VIRTUAL else ""


def panel_of(requests: int) -> str:
    """Return the panel of Fig. 8 for pages with this number of requests."""
    return next(name for name, (least, most) in PANELS.items() if least <= requests <= most)


def levels() -> pd.DataFrame:
    """Return the lowest points of Fig. 8 as read off: panel, case, least_ms, most_ms."""
    return pd.read_csv(data_dir(SLUG) / "fig8_levels.csv", dtype={"panel": str})


def page_table(setting: Setting) -> pd.DataFrame:
    """Describe all pages of the trace by panel: their number, and percentiles of their length in bytes."""
    sizes = pd.DataFrame([(panel_of(len(page)), sum(page)) for page in all_pages(setting.trace)])
    table = sizes.groupby(0)[1].describe(percentiles=[0.05, 0.5, 0.95])[["count", "min", "5%", "50%", "95%", "max"]]
    return table.astype(int).rename_axis("requests a page")


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary()
    sst, serial, pipelined = table.loc["SST"], table.loc["serial"], table.loc["pipelined"].median_ms
    return (
        f"A page of one request takes {sst['floor_1']:.0f} ms over SST and {serial['floor_1']:.0f} ms over a new TCP "
        f"connection (published 56 and 112), one of nine or more {sst['floor_9+']:.0f} ms and "
        f"{serial['floor_9+']:.0f} ms (135 and 1000); over all pages SST's median is {sst.median_ms / pipelined:.2f} "
        "times that of HTTP/1.1 with pipelining, and on a fresh channel for every page "
        f"{table.loc[FRESH].median_ms / pipelined:.2f} times."
    )


# Figures.

LOSS, SIZE, TIME = "packets lost, each way (%)", "page (bytes)", "request + response time (ms)"


def draw_idea() -> Figure:
    """Draw the least number of round trips of a page over its requests, for each way."""
    figure, axis = new_figure("Round trips before a page is there, at least", "requests of a page (count)", "")
    requests, setting = np.arange(1, 17), Setting()
    for name, changes in SCHEMES.items():
        own = replace(setting, **changes)
        line = replace(line_of(own), rate_mbps=1e9)
        trips = [1e3 * least_s([1] * n, way_of(own), line, 1) / (2 * own.one_way_ms) for n in requests]
        axis.plot(requests, trips, **LOOKS[name])
    axis.set(ylim=(0, 20), ylabel="round trips (count)")
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the line."""
    return drawing.draw_network(experiment(setting), "The server (left) and the client, on a line of 2007")


def _pages_panel(panel: str) -> Panel:
    """Show every page's time over its size, with closed-form bounds (lines) and published levels (grey)."""
    least, _ = PANELS[panel]
    share = [1.0] if least == 1 else [0.0, *[1 / (least - 1)] * (least - 1)]
    sizes = np.geomspace(64, 3e5, 60)

    def draw_bounds(axis: Axes, runs: Runs) -> None:
        for name in filter(runs.has, SCHEMES):
            setting = replace(runs.setting, **SCHEMES[name])
            way, line, asks = way_of(setting), line_of(setting), setting.request_bytes
            bounds = [1e3 * least_s([size * each for each in share], way, line, asks) for size in sizes]
            axis.plot(sizes, bounds, color=LOOKS[name]["color"], linewidth=1)
        for row in levels().query(f"panel == '{panel}'").itertuples():
            axis.axhspan(row.least_ms * 0.99, row.most_ms * 1.01, 0, 0.06, color=PUBLISHED_GREY, zorder=1)
        axis.plot([], [], "s", color=PUBLISHED_GREY, label="published, fastest pages")

    dots = {"linestyle": "", "markersize": 3, "alpha": 0.6}
    looks = {name: look | dots for name, look in reversed(LOOKS.items())}
    dots_of_pages = Course("pages", "time_ms", looks, "size_bytes", f"panel == '{panel}'")
    title = f"{panel} request{'s' * (panel != '1')} a page"
    return Panel(SIZE, TIME, dots_of_pages, draw_bounds, title=title, log="xy", x_range=(50, 4e5), y_range=(45, 6000))


def _floors(title: str, looks: Mapping[str, Look], *marks: Mark) -> Picture:
    """Show the fastest page of each panel by each way."""

    def table(runs: Runs) -> pd.DataFrame:
        rows = runs.values[runs.values.tier == runs.tier].rename(columns=lambda name: name.removeprefix("floor_"))
        return rows.melt(["case", "repetition"], list(PANELS), "panel", "floor_ms")

    floors = Sweep("panel", "floor_ms", table, looks=looks)
    return plot(title, "requests a page (count)", "fastest page (ms)", floors, *marks, log="y")


def _draw_published_floors(axis: Axes, _: Runs) -> None:
    for _, rows in levels().groupby("case"):
        drawing.draw_published_curve(axis, rows.panel, rows.least_ms)


def _fastest(panel: str, least: int, most: int, title: str) -> Panel:
    """Show the fastest page with `least` to `most` requests, and the lowest published points of its panel."""

    def table(runs: Runs) -> pd.DataFrame:
        chosen = runs.tables["pages"].query(f"tier == '{runs.tier}' and requests >= {least} and requests <= {most}")
        chosen = chosen[chosen.case.isin(SCHEMES)]
        return chosen.groupby(["case", "repetition"], sort=False).time_ms.min().reset_index()

    published = levels().query(f"panel == '{panel}'").set_index("case").least_ms
    return Panel("", "fastest page (ms)", Bars("time_ms", table, published=dict(published)), title=title, log="y")


def _shade_sizes(axis: Axes, _: Runs) -> None:
    for ends in (SHORT_BYTES, LONGER_BYTES):
        axis.axvspan(*ends, color=PUBLISHED_GREY, alpha=0.15)


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw each page's time over its size in one run."""
    figure, axis = new_figure(f"{case}: median {reading['median_ms']:.0f} ms", SIZE, TIME, log_x=True, log_y=True)
    for colour, (panel, rows) in zip(CURVES, reading["pages"].groupby("panel"), strict=False):
        axis.plot(rows.size_bytes, rows.time_ms, ".", color=colour, label=f"{panel} requests")
    axis.legend()
    return figure


def _dashed(name: str, like: str, marker: str = "x") -> dict[str, Any]:
    return LOOKS[like] | {"label": name, "linestyle": "--", "marker": marker}


BROKEN = {
    "SST": LOOKS["SST"],
    FRESH: _dashed(FRESH, "SST"),
    "SST, one stream": _dashed("SST, one stream", "SST", "s"),
    FRESH_ONE: _dashed(FRESH_ONE, "SST", "D"),
    "persistent": LOOKS["persistent"],
}
FRESH_QUIC = {"SST": LOOKS["SST"], FRESH: BROKEN[FRESH], "QUIC": LOOKS["QUIC"]}
FRESH_QUIC |= {name: _dashed(name, "QUIC", marker) for name, marker in zip(HANDSHAKES, "sD", strict=True)}
STEPS = {name: LOOKS[name] | {"linestyle": "", "marker": "."} for name in ("serial", "persistent", "SST")}
STEPS |= {"serial, window of 10": {"label": "serial, window of 10", "linestyle": "", "marker": "."}}
ORDERS = {name: LOOKS[name] for name in ("SST", "pipelined", "QUIC")} | {IN_ORDER: _dashed(IN_ORDER, "QUIC")}
THIRD, FIFTH = ("SST", "persistent", "parallel", "serial"), ("SST", "pipelined", "persistent", "serial")
STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases={**SCHEMES, **HANDSHAKES, **CONTROLS, **CLASS, **BESIDE},
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales={
        "quick": Scale(60.0, fewer=dict.fromkeys((*HANDSHAKES, "QUIC", "SST, no server window"), 1)),
        "paper": Scale(300.0, changes={"pages": 800}),
        "test": Scale(40.0, changes={"pages": 120}),
        ("quick", VIRTUAL): Scale(60.0, repetitions=3, changes={"pages": 200}),
        ("paper", VIRTUAL): Scale(300.0, repetitions=3, changes={"pages": 800}),
        ("test", VIRTUAL): Scale(40.0, repetitions=1, changes={"pages": 40}),
    },
    claims={
        "one-request-floor": Evidence("floor_1", "SST", control=FRESH),
        "handshake-doubles-one": Evidence("floor_1", ("serial", "SST"), control=("serial", FRESH), how=ratio),
        "handshake-doubles-two": Evidence("floor_2", ("serial", "SST"), control=("serial", FRESH), how=ratio),
        "order-three-or-four": Evidence("floor_3-4", THIRD, control=(FRESH_ONE, *THIRD[1:]), how=least_first(*THIRD)),
        "order-nine-or-more": Evidence("floor_9+", FIFTH, control=(FRESH_ONE, *FIFTH[1:]), how=least_first(*FIFTH)),
        "many-requests-floor": Evidence("floor_9+", "SST", control="SST, one stream"),
        "serial-falls-behind": Evidence(
            "floor_9+", ("serial", "SST"), control=("serial", "SST, one stream"), how=ratio
        ),
        "as-good-as-pipelined": Evidence("median_ms", ("SST", "pipelined"), control=(FRESH, "pipelined"), how=ratio),
        "step-at-4-kb": Evidence("step", "serial", control="serial, window of 10"),
        "long-pages-fill-the-link": Evidence("long_over_link", "SST", control="SST, one stream"),
        "depth-does-not-matter": Evidence(
            "mean_ms", ("pipelined, 6 x 4", "pipelined"), control=("one connection", "pipelined"), how=ratio
        ),
        "tcp-friendly": Evidence("share", "SST beside TCP", control="no window, beside TCP"),
    },
    knobs={
        "loss": Knob(
            {
                name: changes | {"loss_percent": swept(0.0, 0.5, 1.0, 2.0, 3.0)}
                for name, changes in (*SCHEMES.items(), (IN_ORDER, QUIC | {"in_order": True}))
            },
            {
                "quick": Scale(changes={"pages": 200}, only={"loss_percent": (0.0, 1.0, 3.0)}),
                "paper": Scale(changes={"pages": 1600}),
                "test": Scale(changes={"pages": 100}),
            },
        ),
        "queue": Knob(
            {name: SCHEMES[name] | {"queue_packets": swept(9, 37)} for name in ("SST", "pipelined", "serial")},
            {"quick": Scale(changes={"pages": 100}), "paper": Scale(), "test": Scale(changes={"pages": 40})},
        ),
        "browser": Knob(
            {name: changes | {"connections": swept(2, 6)} for name, changes in BROWSER.items()},
            {
                "quick": Scale(only={"connections": (6,)}),
                "paper": Scale(),
                "test": Scale(changes={"pages": 60}),
            },
        ),
        # A datagram has four packets at most.
        "frames": Knob(
            {
                over: {"frames_over": over, "loss_percent": swept(0.0, 1.0, 3.0)}
                | {"frame_packets": swept(*(1, 4) if over == MEANS[0] else (1, 4, 16))}
                for over in MEANS
            },
            {
                "quick": Scale(changes={"pages": 200}, only={"loss_percent": (3.0,)}),
                "paper": Scale(changes={"pages": 2000}),
                "test": Scale(changes={"pages": 40}),
            },
        ),
        "window": Knob(
            {
                name: changes | {"sst_window": swept(2, 3, 10)}
                for name, changes in (("SST", SST), (FRESH, SST | {"fresh": True}))
            },
            {"quick": Scale(changes={"pages": 100}), "paper": Scale(), "test": Scale(changes={"pages": 40})},
        ),
    },
    figures={
        "fig8_pages": Picture(
            "Pages over TCP and over SST (Fig. 8), and over QUIC; lines: closed-form bounds", *map(_pages_panel, PANELS)
        ),
        "fig8_floors": _floors("The fastest page by requests a page", LOOKS, _draw_published_floors),
        "fig8_one_more": Picture(
            "One request more than the fewest",
            _fastest("3-4", 4, 4, "four requests"),
            _fastest("9+", 10, UNLIMITED, "ten or more requests"),
        ),
        "fig8_step": plot(
            "One request: a new connection's first window",
            SIZE,
            TIME,
            Course("pages", "time_ms", STEPS, "size_bytes", "requests == 1"),
            *(Level(value, "published: about 130 and 180 ms") for value in (130, 180)),
            _shade_sizes,
            log="x",
            x_range=(300, 2e4),
            y_range=(0, 300),
        ),
        "control_floors": _floors("Broken on purpose: a fresh channel a page, one stream at a time", BROKEN),
        "quic": _floors("What became of it: QUIC, and its handshake", FRESH_QUIC),
        "knob_loss": Picture(
            "Loss on the line: pages, and single responses",
            Panel(LOSS, "mean page (ms)", Sweep("loss_percent", "mean_ms", "loss", looks=LOOKS)),
            Panel(LOSS, "mean response (ms)", Sweep("loss_percent", "response_ms", "loss", looks=ORDERS)),
        ),
        "knob_window": beside(
            "SST's first window",
            "first window (packets)",
            {"median_ms": "median page (ms)", "mean_ms": "mean page (ms)"},
            lambda reading: Sweep("sst_window", reading, "window", looks={"SST": LOOKS["SST"], FRESH: BROKEN[FRESH]}),
        ),
    },
    play=Play(
        ("SST", "pipelined", "persistent", "parallel", "serial", FRESH, "QUIC", *HANDSHAKES),
        {"loss_percent": (0.0, 3.0, 0.5), "one_way_ms": (5.0, 150.0, 5.0), "rate_mbps": (0.5, 20.0, 0.5)},
        draw_run,
    ),
)
