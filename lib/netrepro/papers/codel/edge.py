"""CoDel's consumer edge: calls, downloads, web pages and uploads over one slow link; and how fairly any port drops.

Section "Consumer edge" of the article, and Fig. 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements, Port
from netrepro.networks.workloads import Datagrams, Flow, Requests, Traffic
from netrepro.papers.codel.packmime import responses
from netrepro.paths import data_dir
from netrepro.study import Runs, greatest_first, jain
from netrepro.study import pictures as drawing
from netrepro.style import CURVES, PUBLISHED_GREY

RATES = (0.512, 1.5)
DIRECTIONS = ("download", "upload")
LINKS = [(rate, direction) for rate in RATES for direction in DIRECTIONS]
UPLOAD_BYTES = 1_000_000
LEAST_PAUSE_S, MOST_PAUSE_S = 5.0, 15.0
PUBLISHED_S = 300.0
CALL_MBPS, CALL_BYTES = 0.064, 100
COLUMNS = {
    "dropped_percent": "dropped (%)",
    "median_ms": "median delay (ms)",
    "sent_mb": "sent (MB in 300 s)",
    "drop_fairness": "share of the fairest (Jain)",
}
LEAST_DROPS = 40  # of all sources: the index of fewer is that of chance


def traffic(pairs: Sequence[tuple[str, str]], web_per_s: float, seconds: float) -> list[Traffic]:
    """Make the traffic of four pairs (server, client). The first downloads without end, the second loads web objects,
    the third calls both ways, and the client of the fourth uploads 1 MB time and again over one connection. After each
    upload it pauses for 5 to 15 s, drawn evenly: an upload is a late answer to a request of one byte."""
    download, pages, call, upload = pairs
    pause_ms = 1e3 * LEAST_PAUSE_S
    return [
        Flow(*download, duration_s=seconds, label="download"),
        responses(web_per_s, seconds, pages[:1], pages[1:]),
        Datagrams(*call, CALL_MBPS, seconds, packet_bytes=CALL_BYTES, label="call"),
        Datagrams(*call[::-1], CALL_MBPS, seconds, packet_bytes=CALL_BYTES, label="call"),
        Requests(
            upload[0],
            (upload[1],),
            1,
            UPLOAD_BYTES,
            ceil(seconds / LEAST_PAUSE_S) + 1,
            think_ms=pause_ms,
            answer_within_ms=1e3 * MOST_PAUSE_S - pause_ms,
            label="upload",
        ),
    ]


# Drops by source.


def drops_by_source(found: Measurements, port: Port, rate_mbps: float, since_s: float = 0.0) -> pd.DataFrame:
    """Count for every host behind the port, by name, the packets that `came` to it and those `dropped`.

    Packets count that came from `since_s` on and before the last that left, so that none still waits. The port and
    those of the hosts must be recorded. The port's rate is fixed, and its queue lets packets go in the order in which
    they came.
    """
    packets, topology = found.packets, found.experiment.topology
    left = packets[(packets.source == port[0]) & (packets.destination == port[1])]
    came = packets[(packets.destination == port[0]) & (packets.source != port[1])]
    delay_s = came.source.map({host: topology.link(host, port[0]).delay_ms / 1e3 for host in came.source.unique()})
    came_s = came.time_s + delay_s
    left_came_s = left.time_s - left.size_bytes * 8e-6 / rate_mbps - left.wait_ms / 1e3
    until_s = left_came_s.max() + 1e-6
    near = came.groupby("flow").source.first()  # of each flow the host on this side of the port
    counts = [
        host[(at_s >= since_s) & (at_s <= until_s)].value_counts()
        for host, at_s in ((came.source, came_s), (left.flow.map(near), left_came_s))
    ]
    table = pd.concat(counts, axis=1, keys=["came", "left"]).fillna(0).astype(int).sort_index()
    return pd.DataFrame({"came": table.came, "dropped": table.came - table.left})


def fairness(drops: pd.DataFrame) -> float:
    """Compute Jain's index of the share of its packets that each source loses: 1 where all lose the same, 1 / sources
    where one loses all; NaN without drops."""
    return jain(drops.dropped / drops.came)


def fairer(*names: str) -> Callable[..., list[str]]:
    """Rank the schemes by their mean index, fairest first, over the places of their grid where all drop LEAST_DROPS
    packets or more. Each scheme has a table with columns drop_fairness and dropped."""

    def ranked(*tables: pd.DataFrame) -> list[str]:
        enough = np.all([table.dropped >= LEAST_DROPS for table in tables], axis=0)
        means = [table.drop_fairness[enough].mean() if enough.any() else 0.0 for table in tables]
        return greatest_first(*names)(*means)

    return ranked


# The table.


def read(found: Measurements, ports: Mapping[str, Port], rate_mbps: float) -> pd.DataFrame:
    """Return a row for each direction, with COLUMNS: share of packets dropped (%), median of the wait of those that
    left (ms), megabytes that left in PUBLISHED_S, or would if the run lasted so long, and the index of drops by
    source."""
    rows = []
    links = found.links.set_index(["source", "destination"])
    for direction, port in ports.items():
        left = found.packets[(found.packets.source == port[0]) & (found.packets.destination == port[1])]
        link = links.loc[port]
        rows.append(
            {
                "direction": direction,
                "dropped_percent": 100 * link.dropped_packets / (link.dropped_packets + link.sent_packets),
                "median_ms": left.wait_ms.median(),
                "sent_mb": left.size_bytes.sum() / 1e6 * PUBLISHED_S / found.experiment.duration_s,
                "drop_fairness": fairness(drops_by_source(found, port, rate_mbps)),
            }
        )
    return pd.DataFrame(rows)


def ratios(column: str, ours: pd.DataFrame, baseline: pd.DataFrame) -> pd.Series:
    """Divide the first table by the second, by rate and direction. Tables have edge_mbps, direction and COLUMNS."""
    first, second = (each.set_index(["edge_mbps", "direction"])[column] for each in (ours, baseline))
    return first / second


def ratio_at(column: str, rate_mbps: float, direction: str) -> Callable[[pd.DataFrame, pd.DataFrame], float]:
    """Make the function that reads the ratio of one link from two tables."""
    return lambda ours, baseline: float(ratios(column, ours, baseline)[rate_mbps, direction])


def greatest_ratio(column: str) -> Callable[[pd.DataFrame, pd.DataFrame], float]:
    """Compute the greatest ratio of all links."""
    return lambda ours, baseline: float(ratios(column, ours, baseline).max())


def mean_ratio(column: str) -> Callable[[pd.DataFrame, pd.DataFrame], float]:
    """Compute the mean ratio of all links."""
    return lambda ours, baseline: float(ratios(column, ours, baseline).mean())


@cache
def published() -> pd.DataFrame:
    """Read the article's table: rate_mbps, direction, queue, COLUMNS."""
    return pd.read_csv(data_dir("codel") / "edge.csv", comment="#")


def table(runs: Runs, cases: Mapping[str, str]) -> pd.DataFrame:
    """Return the article's table and ours, means over repetitions: a row for each link, direction and metric; columns
    C, T and C/T (%) of both. cases : queue -> case, CoDel's first."""
    names = {"C": "codel", "T": "drop tail"}
    theirs = published().set_index(["queue", "rate_mbps", "direction"])
    rows = []
    for rate, direction in LINKS:
        for column, metric in COLUMNS.items():
            row: dict[tuple[str, str], float | str] = {
                ("", "link"): f"{rate:g} Mb/s, {direction}",
                ("", "metric"): "fairness of drops" if column == "drop_fairness" else metric,
            }
            at = (rate, direction, column)
            ours = {name: float(np.mean(_values(runs, cases[queue], *at))) for name, queue in names.items()}
            others = {name: float(theirs.loc[(queue, rate, direction), column]) for name, queue in names.items()}
            for whose, values in (("published", others), ("ours", ours)):
                row |= {(whose, name): value for name, value in values.items()}
                row[whose, "C/T (%)"] = 100 * values["C"] / values["T"] if values["T"] else np.nan
            rows.append(row)
    found = pd.DataFrame(rows).set_index([("", "link"), ("", "metric")]).rename_axis(["link", "metric"])
    return found.set_axis(pd.MultiIndex.from_tuples(found.columns), axis=1)


def _values(runs: Runs, case: str, rate: float, direction: str, column: str) -> list[float]:
    rows = runs.table("edge", case)
    return list(rows[(rows.edge_mbps == rate) & (rows.direction == direction)][column])


def draw(runs: Runs, cases: Mapping[str, str]) -> Figure:
    """Draw the article's table as bars, a panel for each metric; grey what was published. cases : queue -> case."""
    figure, axes = drawing.panels("The consumer edge", "", "", [""] * len(COLUMNS))
    labels = {"codel": "CoDel", "drop tail": "drop tail"}
    theirs = published().set_index(["queue", "rate_mbps", "direction"])
    for axis, (column, label) in zip(axes, COLUMNS.items(), strict=True):
        for place, (rate, direction) in enumerate(LINKS):
            for side, (queue, case) in enumerate(cases.items()):
                at, values = place + 0.4 * side - 0.2, _values(runs, case, rate, direction, column)
                drawing.draw_bar(axis, at, values, 0.38, color=CURVES[side], label=labels[queue])
                level = theirs.loc[(queue, rate, direction), column]
                axis.hlines(level, at - 0.19, at + 0.19, color=PUBLISHED_GREY, linewidth=4, zorder=3, label="published")
        axis.set_xticks(range(len(LINKS)), [f"{rate:g} Mb/s\n{direction}" for rate, direction in LINKS])
        axis.set(ylabel=label, ylim=(0, 1.05 if column == "drop_fairness" else None))
    drawing.share_legend(figure)
    return figure


def draw_buffers(found: pd.DataFrame) -> Figure:
    """Draw the median delay and drops over the buffer of both directions, a curve for each link; dotted the published
    level of drop tail, thin CoDel. found : case, buffer_packets, edge_mbps, direction, COLUMNS."""
    columns = {"median_ms": COLUMNS["median_ms"], "dropped_percent": COLUMNS["dropped_percent"]}
    figure, axes = drawing.panels("How long was the buffer?", "buffer (packets)", "", [""] * 2, log_x=True)
    theirs = published().set_index(["queue", "rate_mbps", "direction"])
    for axis, (column, label) in zip(axes, columns.items(), strict=True):
        for colour, (rate, direction) in zip(CURVES, LINKS, strict=False):
            rows = found[(found.edge_mbps == rate) & (found.direction == direction)]
            tail, ours = (
                rows[rows.case == case].groupby("buffer_packets")[column].mean() for case in ("drop tail", "codel")
            )
            axis.plot(tail.index, tail, color=colour, linewidth=2, label=f"{rate:g} Mb/s, {direction}")
            axis.plot(ours.index, ours, color=colour, linewidth=0.8, linestyle="--")
            axis.axhline(theirs.loc[("drop tail", rate, direction), column], color=colour, linestyle=":", linewidth=1.5)
        axis.plot([], [], color="black", linewidth=0.8, linestyle="--", label="CoDel")
        axis.plot([], [], color="black", linestyle=":", label="drop tail, published")
        axis.set(ylabel=label, ylim=(0, 160 if column == "median_ms" else None))
        drawing.name_ticks(axis, "x", found.buffer_packets)
    drawing.share_legend(figure)
    return figure
