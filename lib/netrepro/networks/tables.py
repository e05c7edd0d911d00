"""The columns that `Experiment.flow_table` and the tables of `Measurements` hold at least; a tier may add columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

FLOW_TABLE_COLUMNS = [
    "flow",  # 0, 1, ... in the order of the traffic; flows of PoissonFlows at their entry's place
    "transport",  # "tcp", "datagrams", or "requests" (the answers of one server)
    "source",
    "destination",
    "start_s",
    "size_bytes",  # payload of TCP; NaN where a duration is given
    "duration_s",  # NaN where a size is given
    "congestion_control",  # "" for datagrams
    "label",
    "rate_mbps",  # of datagrams, else NaN
    "packet_bytes",  # of datagrams, else 0
    "spacing",  # of datagrams, else ""
    "entry",  # place in the traffic
    "replication",  # "repflow" or "repsyn" of flows that are replicated, else ""
    "replica_same_path",
    "subflows",  # 1 of plain TCP
    "path",  # names of the nodes of a source route, () without one
]
FLOW_COLUMNS = [
    *FLOW_TABLE_COLUMNS[:9],
    "completion_ms",  # from the connect call until the receiver holds the last byte that is sent; NaN if never
    "connected_ms",  # from the connect call until the client's first connection is open; NaN if that is not known
    "delivered_bytes",  # payload that the receiver holds in order; of datagrams, bytes on the wire that arrived
    # delivered_bytes over the time from start to completion, or to the end of the experiment; of datagrams, the bytes
    # that arrived while they were sent, over that time; NaN for a flow that starts after the end
    "goodput_mbps",
    "retransmitted_packets",
    "timeouts",
]
QUEUE_COLUMNS = ["source", "destination", "time_s", "queue_packets", "queue_bytes"]
LINK_COLUMNS = [
    "source",
    "destination",
    "sent_packets",
    "sent_bytes",
    "dropped_packets",  # by the queue or the policer before it
    "marked_packets",
    "lost_packets",  # on the wire
    "utilisation",  # share of the experiment's time in which the link was sending
]
WINDOW_COLUMNS = [
    "flow",
    "time_s",
    "window_bytes",
    "slow_start_threshold_bytes",
    "round_trip_ms",
    "in_flight_bytes",  # payload that was sent, and is neither acknowledged nor presumed lost
]
PACKET_COLUMNS = ["source", "destination", "flow", "time_s", "size_bytes", "wait_ms"]
REQUEST_COLUMNS = [
    "flow",  # of the answer
    "label",
    "client",
    "server",
    "request",  # 0, 1, ...
    "asked_s",  # the client hands the request to its connection
    "answered_s",  # the client holds the whole answer; NaN if never
    "completion_ms",
]
DELIVERY_COLUMNS = ["flow", "time_s", "delivered_bytes"]  # payload in order, as in FLOW_COLUMNS
ACKNOWLEDGEMENT_COLUMNS = ["flow", "time_s", "acknowledged_bytes"]
HOST_COLUMNS = ["host"]  # and a column for each counter, by its name in `nstat`


class FlowRow(NamedTuple):
    """A row of the flow table, without the number of the flow."""

    transport: str = "tcp"
    source: str = ""
    destination: str = ""
    start_s: float = 0.0
    size_bytes: float = np.nan
    duration_s: float = np.nan
    congestion_control: str = ""
    label: str = ""
    rate_mbps: float = np.nan
    packet_bytes: int = 0
    spacing: str = ""
    entry: int = 0
    replication: str = ""
    replica_same_path: bool = False
    subflows: int = 1
    path: tuple[str, ...] = ()


def one_table(rows: list[FlowRow]) -> pd.DataFrame:
    """Make a table with a line for each row; its columns are those of FlowRow."""
    # pandas reads many thousands of rows faster by columns.
    return pd.DataFrame({name: [row[place] for row in rows] for place, name in enumerate(FlowRow._fields)})
