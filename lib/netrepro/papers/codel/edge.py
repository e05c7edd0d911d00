"""CoDel's consumer edge: calls, downloads, web pages and uploads over one slow link; and how evenly drops fall on
sources.

Section "Consumer edge" of the article, and Fig. 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import ceil

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Measurements, Port
from netrepro.networks.workloads import Datagrams, Flow, Requests, Traffic
from netrepro.papers.codel.packmime import responses
from netrepro.paths import data_dir
from netrepro.study import Runs, greatest_first, jain

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
    "drop_fairness": "fairness of drops (Jain)",
}
EDGE_CODEL, EDGE_TAIL = "codel, edge", "drop tail, edge"
LEAST_DROPS = 40  # of all sources together: with fewer drops, chance decides the index


def traffic(pairs: Sequence[tuple[str, str]], web_per_s: float, seconds: float) -> list[Traffic]:
    """Make the traffic of four pairs (server, client). The first downloads without end, the second loads web objects,
    and the third calls in both directions. The client of the fourth uploads 1 MB repeatedly over one connection. After
    each upload it pauses for 5 to 15 s (uniform): an upload is a delayed answer to a request of one byte."""
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


def drops_by_source(run: Measurements, port: Port, rate_mbps: float, since_s: float = 0.0) -> pd.DataFrame:
    """Count for every host behind the port, by name, the packets that `came` from it to the port and those `dropped`.

    Packets count that came from `since_s` on and before the last packet that left, so that none still waits. Packets
    must be recorded at the port and at the hosts' ports. The port's rate must be fixed, and its queue first in, first
    out.
    """
    packets, topology = run.packets, run.experiment.topology
    left = packets[(packets.source == port[0]) & (packets.destination == port[1])]
    came = packets[(packets.destination == port[0]) & (packets.source != port[1])]
    delay_s = came.source.map({host: topology.link(host, port[0]).delay_ms / 1e3 for host in came.source.unique()})
    came_s = came.time_s + delay_s
    left_came_s = left.time_s - left.size_bytes * 8e-6 / rate_mbps - left.wait_ms / 1e3
    until_s = left_came_s.max() + 1e-6
    near = came.groupby("flow").source.first()  # for each flow, its host on this side of the port
    counts = [
        host[(at_s >= since_s) & (at_s <= until_s)].value_counts()
        for host, at_s in ((came.source, came_s), (left.flow.map(near), left_came_s))
    ]
    table = pd.concat(counts, axis=1, keys=["came", "left"]).fillna(0).astype(int).sort_index()
    return pd.DataFrame({"came": table.came, "dropped": table.came - table.left})


def fairness(drops: pd.DataFrame) -> float:
    """Compute Jain's index of the sources' loss shares: 1 where all sources lose the same share of their packets, 1 /
    sources where only one loses any; NaN without drops."""
    return jain(drops.dropped / drops.came)


def fairer(*names: str) -> Callable[..., list[str]]:
    """Make the function that ranks schemes by their mean index, fairest first. It uses the points of the grid where
    every scheme drops at least LEAST_DROPS packets. Each scheme has a table with columns drop_fairness and dropped."""

    def ranked(*tables: pd.DataFrame) -> list[str]:
        enough = np.all([table.dropped >= LEAST_DROPS for table in tables], axis=0)
        means = [table.drop_fairness[enough].mean() if enough.any() else 0.0 for table in tables]
        return greatest_first(*names)(*means)

    return ranked


# The table.


def named(rate_mbps: float, direction: str) -> str:
    """Name a direction of a link in words: "1.5 Mb/s, upload"."""
    return f"{rate_mbps:g} Mb/s, {direction}"


def read(run: Measurements, ports: Mapping[str, Port], rate_mbps: float) -> pd.DataFrame:
    """Return a row for each direction, with COLUMNS: share of packets dropped (%), median wait of the packets that left
    (ms), megabytes that left, scaled to a run of PUBLISHED_S, and the fairness index of drops by source."""
    rows = []
    links = run.links_by_port
    for direction, port in ports.items():
        left = run.packets[(run.packets.source == port[0]) & (run.packets.destination == port[1])]
        link = links.loc[port]
        rows.append(
            {
                "direction": direction,
                "link": named(rate_mbps, direction),
                "dropped_percent": 100 * link.dropped_packets / (link.dropped_packets + link.sent_packets),
                "median_ms": left.wait_ms.median(),
                "sent_mb": left.size_bytes.sum() / 1e6 * PUBLISHED_S / run.experiment.duration_s,
                "drop_fairness": fairness(drops_by_source(run, port, rate_mbps)),
            }
        )
    return pd.DataFrame(rows)


def ratio(column: str, pick: Callable[[pd.Series], float]) -> Callable[[pd.DataFrame, pd.DataFrame], float]:
    """Make the function that divides a column of the first table by the second's, by rate and direction. `pick` reduces
    the ratios to one value. Tables have edge_mbps, direction and COLUMNS."""

    def picked(ours: pd.DataFrame, baseline: pd.DataFrame) -> float:
        first, second = (table.set_index(["edge_mbps", "direction"])[column] for table in (ours, baseline))
        return float(pick(first / second))

    return picked


@cache
def published() -> pd.DataFrame:
    """Read the article's table: COLUMNS by queue, edge_mbps and direction."""
    table = pd.read_csv(data_dir("codel") / "edge.csv", comment="#")
    return table.rename(columns={"rate_mbps": "edge_mbps"}).set_index(["queue", "edge_mbps", "direction"])


def table(runs: Runs) -> pd.DataFrame:
    """Return the article's table and ours, as means over repetitions: a row for each link, direction and metric.
    Columns, for both: C (CoDel), T (drop tail) and C/T (%)."""
    codel, tail = (
        runs.table("edge", case).groupby(["edge_mbps", "direction"])[list(COLUMNS)].mean()
        for case in (EDGE_CODEL, EDGE_TAIL)
    )
    theirs = published()[list(COLUMNS)]
    parts = {}
    for whose, pair in {"published": (theirs.loc["codel"], theirs.loc["drop tail"]), "ours": (codel, tail)}.items():
        first, second = (each.stack() for each in pair)
        parts[whose] = pd.DataFrame({"C": first, "T": second, "C/T (%)": 100 * first / second.where(second > 0)})
    return pd.concat(parts, axis=1).rename(index=COLUMNS, level=2).rename_axis(["link (Mb/s)", "direction", "metric"])
