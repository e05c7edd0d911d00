"""Structured streams: web pages over SST, HTTP's four ways with TCP, and QUIC (Ford, SIGCOMM 2007, Fig. 8).

One client, one server, a line of 1.5 Mb/s and 50 ms. Pages of a trace are loaded one after the other, each by a new TCP
connection a request (serial, parallel), by two connections that stay (persistent, pipelined), or by a stream of SST a
request, all in one channel. SST is the machine of `netrepro.protocols.sst`, byte for byte. HTTP/3 over QUIC, which came
of the idea, is that of aioquic, with a stream a request in one connection; nothing was published of it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.web.run import (
    CLIENT,
    SERVER,
    Line,
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
from netrepro.study import SIMULATED, VIRTUAL, Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first, ratio
from netrepro.study.setting import setting
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme, use_logarithm
from netrepro.traffic.home_ip import pages, read_trace

SLUG = "sst"
STANDIN = "UCB-home-IP-standin.tr.gz"
PANELS = {"1": (1, 1), "2": (2, 2), "3-4": (3, 4), "5-8": (5, 8), "9+": (9, 10**6)}
UNLIMITED = 10**6
SHORT_BYTES, LONGER_BYTES = (2000, 3500), (4500, 7000)  # below and above three segments of 1200
LONG_BYTES = (100_000, 300_000)


@dataclass(frozen=True)
class Setting:
    """The line, the pages, and how they are asked for; `initial_window_segments` and `segment_bytes` are TCP's,
    `sst_window` is SST's first window (packets). `connections` of 0 are without a limit. `kept`: connections stay from
    page to page; `fresh`: a channel of SST, or a connection of QUIC, does not. `early`: QUIC's requests leave in the
    first packet of a connection (0-RTT). `in_order`: its responses count in the order of requests, whichever is there
    first. `server_window`: SST's server has a congestion window."""

    rate_mbps: float = setting(1.5, "of the line, in both directions", "Mb/s", low=0.01, high=1000)
    one_way_ms: float = setting(25.0, "delay of the line", "ms", low=0.1, high=1000)
    queue_packets: int = setting(50, "buffer at each end of the line; a choice", "packets", low=1, high=10_000)
    loss_percent: float = 0.0
    trace: str = setting("standin", "the pages; a .tr.gz file holds a part of the trace", one_of=("standin", "a file"))
    pages: int = 400
    request_bytes: int = setting(300, "of a request, which the trace does not say; a choice", low=12, high=1200)
    pause_ms: float = 100.0
    initial_window_segments: int = setting(3, "of a new TCP connection", "segments of 1200 bytes", low=1, high=100)
    segment_bytes: int = 1200
    sst_window: int = 2
    over: str = "TCP"
    connections: int = 1
    depth: int = 1
    kept: bool = False
    fresh: bool = False
    early: bool = False
    in_order: bool = False
    server_window: bool = True
    beside_tcp: bool = False


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
CLASS: dict[str, dict[str, Any]] = {
    "pipelined, 6 x 4": PIPELINED | {"connections": 6},
    "SST, no server window": SST | {"server_window": False},
}
BESIDE: dict[str, dict[str, Any]] = {
    "SST beside TCP": SST | {"beside_tcp": True},
    "no window, beside TCP": SST | {"beside_tcp": True, "server_window": False},
}
COLOURS = dict(zip(SCHEMES, CURVES, strict=False)) | {"QUIC": scheme("QUIC").colour}
MARKERS = dict(zip(SCHEMES, "o^sDvx", strict=True))


def line_of(setting: Setting) -> Line:
    """Return the line of a setting. Raises NetreproError for a loss outside [0, 100) %."""
    if not 0 <= setting.loss_percent < 100:
        raise NetreproError(f"loss_percent = {setting.loss_percent}", "give 0 or more, and less than 100")
    return Line(setting.rate_mbps, setting.one_way_ms, setting.queue_packets, setting.loss_percent / 100)


def way_of(setting: Setting) -> Way:
    """Make the way in which a setting's pages are asked for."""
    manner = Manner(setting.connections or UNLIMITED, setting.depth, setting.kept)
    tcp = Tcp(
        "reno",
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=65_535,
        syn_linear_timeouts=0,
        slow_start_after_idle=False,
    )
    client = Manners(initial_window=setting.sst_window)
    server = replace(client, controlled=setting.server_window)
    return Way(manner, tcp, setting.over, setting.fresh, setting.early, setting.in_order, client, server)


@lru_cache(maxsize=2)
def all_pages(trace: str) -> tuple[tuple[int, ...], ...]:
    """Return the pages of the stand-in, or of a file of the true trace: response bytes, the primary first."""
    path = data_dir(SLUG) / STANDIN if trace == "standin" else Path(trace)
    return tuple(pages(read_trace(path)))


def pages_of(setting: Setting, seed: int) -> list[tuple[int, ...]]:
    """Return so many pages of the trace one after the other, from a place on that the seed chooses."""
    known = all_pages(setting.trace)
    start = int(np.random.default_rng(seed).integers(len(known)))
    return [known[(start + place) % len(known)] for place in range(setting.pages)]


def experiment(setting: Setting, seconds: float = 1.0, seed: int = 1) -> Experiment:
    """Make the network with one transfer over it, which is what is drawn."""
    return Experiment(line_of(setting).topology, (Flow(SERVER, CLIENT, size_bytes=1000),), seconds, seed)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Load the pages. Floors (fastest page) and medians by panel in ms, the mean over all responses of their time from
    the beginning of their page, and of every page its time and bound.

    Where no page of nine or more requests has LONG_BYTES, the longest stands for them.
    """
    way, line = way_of(setting), line_of(setting)
    if setting.beside_tcp:
        return Reading({"share": share_beside_tcp(way, line, seconds, seed % 2**31)})
    asked = pages_of(setting, seed)
    load = load_really if tier == VIRTUAL else load_pages
    loaded = load(asked, way, line, setting.request_bytes, setting.pause_ms / 1e3, seed % 2**31)
    table = pd.DataFrame(
        [
            (each.requests, each.size_bytes, 1e3 * (each.ended_s - each.began_s), 1e3 * each.response_s)
            for each in loaded
        ],
        columns=["requests", "size_bytes", "time_ms", "response_ms"],
    )
    least_ms = [1e3 * least_s(page, way, line, setting.request_bytes) for page in asked[: len(loaded)]]
    table["bound_ms"] = least_ms
    table["panel"] = table.requests.map(panel_of)
    floors = {f"floor_{name}": table.time_ms[table.panel == name].min() for name in PANELS}
    medians = {f"median_{name}": table.time_ms[table.panel == name].median() for name in PANELS}
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
        **floors,
        **medians,
        "step": longer / short,
        "long_over_link": (long.time_ms / 1e3 / in_full_s).median(),
    }
    checks = [
        Check("share of pages that are there", len(loaded) / setting.pages, at_least=1.0),
        Check("fastest page over its closed-form bound", float((table.time_ms / table.bound_ms).min()), at_least=1.0),
    ]
    return Reading(numbers, {"pages": table}, checks)


def cannot(setting: Setting, tier: str) -> str:
    """Say in words what a tier cannot run of a setting; "" for nothing."""
    if setting.over == "QUIC" and (why := why_no_quic()):
        return why
    return "the program on the virtual kernel loads pages only" if setting.beside_tcp and tier == VIRTUAL else ""


def panel_of(requests: int) -> str:
    """Return the panel of Fig. 8 of a page with so many requests."""
    return next(name for name, (least, most) in PANELS.items() if least <= requests <= most)


def levels() -> pd.DataFrame:
    """Return the lowest points of Fig. 8 as they were read off: panel, case, least_ms, most_ms."""
    return pd.read_csv(data_dir(SLUG) / "fig8_levels.csv", dtype={"panel": str})


def page_table(setting: Setting) -> pd.DataFrame:
    """Describe all pages of the trace by panel: how many there are, and percentiles of their length in bytes."""
    sizes = pd.DataFrame([(panel_of(len(page)), sum(page)) for page in all_pages(setting.trace)])
    found = sizes.groupby(0)[1].describe(percentiles=[0.05, 0.5, 0.95])[["count", "min", "5%", "50%", "95%", "max"]]
    return found.astype(int).rename_axis("requests a page")


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

LOSS = "loss_percent", "packets lost, each way (%)"
SIZE, TIME = "page (bytes)", "request + response time (ms)"


def draw_idea() -> Figure:
    """Draw the round trips that a page takes at least, over its requests, by each way."""
    figure, axis = new_figure("Round trips before a page is there, at least", "requests of a page (count)", "")
    requests, setting = np.arange(1, 17), Setting()
    for name, changes in SCHEMES.items():
        own = replace(setting, **changes)
        line = replace(line_of(own), rate_mbps=1e9)
        trips = [1e3 * least_s([1] * n, way_of(own), line, 1) / (2 * own.one_way_ms) for n in requests]
        axis.plot(requests, trips, marker=MARKERS[name], color=COLOURS[name], label=name)
    axis.set(ylim=(0, 20), ylabel="round trips (count)")
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the line."""
    return drawing.draw_network(experiment(setting), "The server (left) and the client, on a line of 2007")


def draw_pages(runs: Runs) -> Figure:
    """Draw Fig. 8: every page's time over its size, by requests a page, with bounds (lines) and published levels
    (grey)."""
    title = "Pages over TCP and over SST (Fig. 8), and over QUIC; lines: closed-form bounds"
    return _scatter(runs, tuple(case for case in SCHEMES if runs.has(case)), title)


def _scatter(runs: Runs, cases: tuple[str, ...], title: str) -> Figure:
    names = [f"{panel} request{'s' * (panel != '1')} a page" for panel in PANELS]
    figure, axes = drawing.panels(title, SIZE, TIME, names, log_x=True, log_y=True)
    published = levels()
    for axis, panel in zip(axes, PANELS, strict=True):
        for name in reversed(cases):
            pages = runs.table("pages", name)
            rows = pages[pages.panel == panel]
            axis.plot(
                rows.size_bytes,
                rows.time_ms,
                MARKERS[name],
                color=COLOURS[name],
                markersize=2 if name == "SST" else 3 if name == "QUIC" else 4,
                alpha=0.6,
                label=name,
            )
            _draw_bound(axis, replace(runs.setting, **SCHEMES[name]), PANELS[panel][0], COLOURS[name])
        for row in published[published.panel == panel].itertuples():
            axis.axhspan(row.least_ms * 0.99, row.most_ms * 1.01, 0, 0.06, color=PUBLISHED_GREY, zorder=1)
        axis.plot([], [], "s", color=PUBLISHED_GREY, label="published, fastest pages")
        axis.set_xlim(50, 4e5)
        axis.set_ylim(45, 6000)
        axis.yaxis.label.set_visible(panel == "1")
    figure.set_size_inches(18, 4.6)
    drawing.share_legend(figure)
    return figure


def _draw_bound(axis: Axes, setting: Setting, requests: int, colour: str) -> None:
    sizes = np.geomspace(64, 3e5, 60)
    share = [(1.0,) if requests == 1 else (0.0, *[1 / (requests - 1)] * (requests - 1))][0]
    way, line = way_of(setting), line_of(setting)
    least = [1e3 * least_s([size * each for each in share], way, line, setting.request_bytes) for size in sizes]
    axis.plot(sizes, least, color=colour, linewidth=1)


def draw_floors(runs: Runs) -> Figure:
    """Draw the fastest page of each panel, beside what was published (grey bars)."""
    return _floors(runs, tuple(SCHEMES), "The fastest page by requests a page", with_published=True)


def draw_controls(runs: Runs) -> Figure:
    """Draw the same of SST without its warm channel, or with one stream at a time."""
    cases = ("SST", "SST, fresh channel", "SST, one stream", "SST, fresh, one stream", "persistent")
    return _floors(runs, cases, "Broken on purpose: a fresh channel a page, one stream at a time")


def _floors(
    runs: Runs,
    cases: tuple[str, ...],
    title: str,
    with_published: bool = False,
    looks: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Figure:
    figure, axis = new_figure(title, "requests a page (count)", "fastest page (ms)", log_y=True)
    published, extra = levels(), [colour for colour in CURVES if colour not in COLOURS.values()]
    for place, name in enumerate(case for case in cases if runs.has(case)):
        at = np.arange(len(PANELS)) + 0.13 * (place - 2.5)
        rows = runs.numbers(name)
        means = [rows[f"floor_{panel}"].mean() for panel in PANELS]
        colour, marker = looks.get(name) or (COLOURS.get(name) or extra[place - 1], MARKERS.get(name, "x"))
        axis.plot(at, means, marker, color=colour, label=name, zorder=3)
        for x, panel in zip(at, PANELS, strict=True):
            axis.plot([x] * len(rows), rows[f"floor_{panel}"], ".", color=colour, alpha=0.35)
            level = published[(published.panel == panel) & (published.case == name)]
            if with_published and len(level):
                ends = level.least_ms.iloc[0] * 0.985, level.most_ms.iloc[0] * 1.015
                axis.fill_between([x - 0.06, x + 0.06], *ends, color=PUBLISHED_GREY, zorder=1)
    if with_published:
        axis.plot([], [], "s", color=PUBLISHED_GREY, label="published")
    axis.set_xticks(range(len(PANELS)), list(PANELS))
    axis.legend()
    return figure


def draw_one_more(runs: Runs) -> Figure:
    """Draw the fastest page of four requests, and of ten or more: beyond the fewest of their panels."""
    names = ("four requests", "ten or more requests")
    figure, axes = drawing.panels("One request more than the fewest", "", "fastest page (ms)", names, log_y=True)
    published = levels()
    for axis, panel, least, most in zip(axes, ("3-4", "9+"), (4, 10), (4, UNLIMITED), strict=True):
        ours: dict[str, list[float]] = {}
        for name in filter(runs.has, SCHEMES):
            pages = runs.table("pages", name)
            rows = pages[pages.requests.between(least, most)]
            ours[name] = list(rows.groupby("repetition").time_ms.min())
        level = published[published.panel == panel].set_index("case")
        drawing.draw_bars(axis, ours, dict(level.least_ms), COLOURS, "published, lowest point of the panel")
    drawing.share_legend(figure)
    return figure


def draw_step(runs: Runs) -> Figure:
    """Draw pages of one request by size: where the initial window of a new connection is used up."""
    figure, axis = new_figure("One request: a new connection's first window", SIZE, TIME, log_x=True)
    look = {
        "serial": (COLOURS["serial"], "three segments, new connection"),
        "serial, window of 10": (CURVES[5], "ten segments, new connection"),
        "persistent": (COLOURS["persistent"], "a connection that stays"),
        "SST": (COLOURS["SST"], "SST"),
    }
    for name, (colour, label) in look.items():
        if runs.has(name):
            rows = runs.table("pages", name).query("requests == 1").sort_values("size_bytes")
            axis.plot(rows.size_bytes, rows.time_ms, ".", color=colour, label=label)
    for value in (130, 180):
        drawing.draw_published_level(axis, value, "published: about 130 and 180 ms")
    axis.axvspan(*SHORT_BYTES, color=PUBLISHED_GREY, alpha=0.15)
    axis.axvspan(*LONGER_BYTES, color=PUBLISHED_GREY, alpha=0.15)
    axis.set(xlim=(300, 2e4), ylim=(0, 300))
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axis.legend(handles.values(), handles)
    return figure


def draw_class(runs: Runs) -> Figure:
    """Draw what the class did otherwise: the median page by panel, and a server without a window beside a TCP
    connection."""
    names = ("pages", "a long response beside one TCP connection (simulated)")
    figure, (left, right) = drawing.panels("What the class did otherwise", "", "median page (ms)", names)
    left.set_xlabel("requests a page (count)")
    looks = {"SST": "o-", "SST, no server window": "o--", "pipelined": "^-", "pipelined, 6 x 4": "^--"}
    for name, look in looks.items():
        if runs.has(name):
            means = [runs.numbers(name)[f"median_{panel}"].mean() for panel in PANELS]
            left.plot(list(PANELS), means, look, color=COLOURS[name.split(",")[0]], label=name)
    use_logarithm(left, "y")
    left.legend()
    right.set_ylabel("share of bytes that are SST's")
    if runs.has(*BESIDE, tier=SIMULATED):
        found = {name: runs.numbers(name, SIMULATED).share for name in BESIDE}
        shares = {name.split(" beside")[0].rstrip(","): list(values) for name, values in found.items()}
        drawing.draw_bars(right, shares, {"SST": 0.5}, {"SST": COLOURS["SST"]})
        right.legend()
    else:
        drawing.say_not_measured(right, runs.tier)
    right.set_ylim(0, 1)
    return figure


def draw_loss(runs: Runs) -> Figure:
    """Draw page times over loss on the line."""
    return drawing.sweep_figure(
        "Loss on the line",
        _loss_of(runs, *SCHEMES),
        LOSS,
        {"median_ms": "median page (ms)", "mean_ms": "mean page (ms)"},
        by="case",
        log_x=False,
    )


def draw_streams(runs: Runs) -> Figure:
    """Draw over loss when pages are there, and when single responses are, with streams and in the order of requests."""
    return drawing.sweep_figure(
        "Loss on the line: a stream a response, or one order for all",
        _loss_of(runs, "SST", "pipelined", IN_ORDER, "QUIC"),
        LOSS,
        {"mean_ms": "mean page (ms)", "response_ms": "mean response (ms)"},
        by="case",
        log_x=False,
    )


def _loss_of(runs: Runs, *cases: str) -> pd.DataFrame:
    table = runs.knobs["loss"]
    return pd.concat([table[table.case == case] for case in cases])


def draw_quic(runs: Runs) -> Figure:
    """Draw the fastest page of each panel, which shows what a handshake costs QUIC, and what becomes of it with
    0-RTT."""
    if not runs.has("QUIC"):
        figure, axis = new_figure("What became of it: QUIC", "requests a page (count)", "fastest page (ms)")
        drawing.say_not_measured(axis, runs.tier)
        return figure
    looks = {name: (COLOURS["QUIC"], marker) for name, marker in zip(HANDSHAKES, "sD", strict=True)}
    looks[FRESH] = COLOURS["SST"], "s"
    return _floors(runs, ("SST", FRESH, "QUIC", *HANDSHAKES), "What became of it: QUIC, and its handshake", looks=looks)


def draw_window(runs: Runs) -> Figure:
    """Draw page times over SST's first window: on a warm channel, and on a fresh one for every page."""
    return drawing.sweep_figure(
        "SST's first window",
        runs.knobs["window"],
        ("sst_window", "first window (packets)"),
        {"median_ms": "median page (ms)", "mean_ms": "mean page (ms)"},
        by="case",
        ticks=(2, 3, 10),
    )


def draw_run(found: Reading, case: str) -> Figure:
    """Draw one run's pages."""
    table = found["pages"]
    figure, axis = new_figure(f"{case}: median {found['median_ms']:.0f} ms", SIZE, TIME, log_x=True, log_y=True)
    for colour, (panel, rows) in zip(CURVES, table.groupby("panel"), strict=False):
        axis.plot(rows.size_bytes, rows.time_ms, ".", color=colour, label=f"{panel} requests")
    axis.legend()
    return figure


FRESH, FRESH_ONE = "SST, fresh channel", "SST, fresh, one stream"
IN_ORDER = "QUIC, in order"
THIRD, FIFTH = ("SST", "persistent", "parallel", "serial"), ("SST", "pipelined", "persistent", "serial")
STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases={**SCHEMES, **HANDSHAKES, **CONTROLS, **CLASS, **BESIDE},
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    profiles={
        "quick": Scale(60.0, fewer=dict.fromkeys((*HANDSHAKES, "QUIC", "SST, no server window"), 1)),
        "paper": Scale(300.0, changes={"pages": 800}),
        "test": Scale(40.0, changes={"pages": 120}),
    },
    on_virtual={
        "quick": Scale(60.0, repetitions=3, changes={"pages": 200}),
        "paper": Scale(300.0, repetitions=3, changes={"pages": 800}),
        "test": Scale(40.0, repetitions=1, changes={"pages": 40}),
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
                name: changes | {"loss_percent": each(0.0, 0.5, 1.0, 2.0, 3.0)}
                for name, changes in (*SCHEMES.items(), (IN_ORDER, QUIC | {"in_order": True}))
            },
            {
                "quick": Scale(changes={"pages": 200}, only={"loss_percent": (0.0, 1.0, 3.0)}),
                "paper": Scale(changes={"pages": 1600}),
                "test": Scale(changes={"pages": 100}),
            },
        ),
        "window": Knob(
            {
                name: changes | {"sst_window": each(2, 3, 10)}
                for name, changes in (("SST", SST), (FRESH, SST | {"fresh": True}))
            },
            {"quick": Scale(changes={"pages": 100}), "paper": Scale(), "test": Scale(changes={"pages": 40})},
        ),
    },
    figures={
        "fig8_pages": draw_pages,
        "fig8_floors": draw_floors,
        "fig8_one_more": draw_one_more,
        "fig8_step": draw_step,
        "control_floors": draw_controls,
        "class_deviations": draw_class,
        "quic": draw_quic,
        "knob_loss": draw_loss,
        "knob_loss_streams": draw_streams,
        "knob_window": draw_window,
    },
    play=Play(
        ("SST", "pipelined", "persistent", "parallel", "serial", FRESH, "QUIC", *HANDSHAKES),
        {"loss_percent": (0.0, 3.0, 0.5), "one_way_ms": (5.0, 150.0, 5.0), "rate_mbps": (0.5, 20.0, 0.5)},
        draw_run,
    ),
)
