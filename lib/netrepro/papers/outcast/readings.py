"""Readings of one run of Outcast's: rates, arrivals at the port, and rows of drops."""

from __future__ import annotations

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Measurements, Port
from netrepro.papers.outcast.experiments import (
    FAR,
    HOPS,
    MIDDLE,
    NEAR,
    PORT,
    SAME_S,
    SETTLED_S,
    SHOWN_S,
    Setting,
    Testbed,
    inputs,
)
from netrepro.study import Check, Reading
from netrepro.study.trust import gap_checks


def arrivals(run: Measurements, ports: dict[str, Port]) -> pd.DataFrame:
    """List the packets from each input port to the receiver's port: time_s, port (its hops), flow, dropped, in order.

    A packet was let in if one of its flow began to wait at its arrival. The host may delay this, but by less than the
    time until its next packet arrives. Needs the packets of all three ports.
    """
    at, topology = run.packets_by_port, run.experiment.topology
    rate_mbps = topology.link(*PORT).rate_mbps
    left = at.get(PORT, run.packets[:0])
    entered_s = left.time_s - left.size_bytes * 8e-6 / rate_mbps - left.wait_ms / 1e3
    parts = []
    for hops, port in ports.items():
        came = at.get(port, run.packets[:0])
        came = came.assign(time_s=came.time_s + topology.link(*port).delay_ms / 1e3, port=hops)
        came = came[["time_s", "port", "flow"]]
        late_s = run.experiment.host_delay_ms / 1e3 if port[0] in topology.hosts else SAME_S
        for flow, rows in came.groupby("flow"):
            let_in = first_of_each(rows.time_s.to_numpy(), entered_s[left.flow == flow].to_numpy() - late_s)
            parts.append(rows.assign(dropped=~np.isin(np.arange(len(rows)), let_in)))
    table = pd.concat(parts).sort_values("time_s", ignore_index=True)
    return table[table.time_s <= entered_s.max()]  # packets that came later may still wait


def first_of_each(times_s: np.ndarray, since_s: np.ndarray) -> np.ndarray:
    """Find the index of the first of `times_s` since each of `since_s`, both ascending; none is found twice."""
    count = np.arange(len(since_s))
    places = np.maximum.accumulate(np.searchsorted(times_s, since_s) - count) + count
    return places[places < len(times_s)]


def rows_of_drops(dropped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the runs of True in a sequence, in order, and the indices where they begin."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], dropped.astype(int), [0]])))
    return edges[1::2] - edges[::2], edges[::2]


def longest_row(table: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """Find in `arrivals` the length of the near port's longest row of drops, and the packets at both ports around it
    (SHOWN_S): time_ms since its first drop, port, dropped."""
    near = table[table.port == NEAR]
    lengths, starts = rows_of_drops(near.dropped.to_numpy())
    longest = int(lengths.max(initial=0))
    first_s = near.time_s.iloc[starts[lengths.argmax()]] if longest else table.time_s.median()
    shown = table[(table.time_s - first_s).between(*SHOWN_S)]
    return longest, shown.assign(time_ms=(shown.time_s - first_s) * 1e3)[["time_ms", "port", "dropped"]]


def read_drops(run: Measurements, setting: Setting) -> Reading:
    """Read the shares of packets lost at the near and far port, the share of rows of drops with one packet (both
    ports), the near port's longest row after slow start, the arrivals around it, and a check. NaN where the ports
    cannot be told apart, and with SFQ, which drops packets that came earlier."""
    names = ("near_lost_share", "far_lost_share", "single_share", "longest_row")
    if not inputs(setting) or setting.queue == "sfq":
        return Reading(dict.fromkeys(names, np.nan))
    table = arrivals(run, inputs(setting))
    near, far = (table[table.port == hops].dropped.to_numpy() for hops in (NEAR, FAR))
    rows = np.concatenate([rows_of_drops(dropped)[0] for dropped in (near, far)])
    longest, timeline = longest_row(table[table.time_s >= SETTLED_S])
    counted = int(run.links_by_port.dropped_packets[PORT])
    share = (int(table.dropped.sum()) + 1) / (counted + 1)
    single_share = float((rows == 1).mean()) if len(rows) else np.nan
    numbers = dict(zip(names, (near.mean(), far.mean(), single_share, longest), strict=True))
    return Reading(numbers, {"timeline": timeline}, [Check("drops found / counted by the port", share, 0.9, 1.01)])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_flows` does, and drops."""
    return read_flows(run, setting) | read_drops(run, setting)


def read_flows(run: Measurements, setting: Testbed) -> Reading:
    """Read the mean goodput by hops (Mb/s; NaN where no flow has them), the near and middle flows' goodput over the far
    ones', and the near flow's timeouts a second. Check the gaps at the port where all flows meet."""
    flows = run.flows.assign(hops=run.flows.label)
    seconds = run.experiment.duration_s
    means = flows.groupby("hops")[["goodput_mbps", "timeouts"]].mean().reindex(HOPS)
    mbps = means.goodput_mbps
    total_mbps = float(flows.delivered_bytes.sum()) * 8e-6 / seconds
    within = Check("payload / the port's rate", total_mbps / setting.rate_mbps, at_most=1.0)
    numbers = {
        **dict(zip(("near_mbps", "middle_mbps", "far_mbps"), mbps, strict=True)),
        "near_share": mbps[NEAR] / mbps[FAR],
        "middle_share": mbps[MIDDLE] / mbps[FAR],
        "total_mbps": total_mbps,
        "near_timeouts_per_s": means.timeouts[NEAR] / seconds,
    }
    last = run.experiment.measure.packets[0]
    return Reading(numbers, {"flows": flows[["flow", "hops", "goodput_mbps"]]}, [within, *gap_checks(run, last)])
