"""Measured flows as qlog files, which public viewers such as qvis draw: congestion window, round trip, packets sent.

Version 0.3 of draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events, as JSON-SEQ (RFC 7464): the newest
that qvis reads. A file has what was measured of one flow, seen from the host that sends its data, and nothing else:

| event                    | from           | when                                                           |
|--------------------------|----------------|----------------------------------------------------------------|
| simulation:scenario      | the flow table | the flow starts                                                |
| recovery:metrics_updated | `windows`      | each sample: congestion_window, bytes_in_flight, ssthresh,     |
|                          |                | smoothed_rtt                                                   |
| transport:packet_sent    | `packets`      | its last bit leaves the sender, where that port was recorded   |
| simulation:marker        | `flows`        | the flow is complete, else the end: retransmissions, time-outs |

Packets are numbered in the order in which they left, because TCP's have no such numbers. Their type is "unknown",
because they are not QUIC's. When a packet was acknowledged or lost is not measured. qvis draws windows, bytes in flight
and round trips from these events; its time axis ends with the last packet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

VERSION, FORMAT, ENDING = "0.3", "JSON-SEQ", ".sqlog"
RECORD_SEPARATOR = "\x1e"

QlogEvent = tuple[float, str, dict[str, Any]]  # time in s, name, data


def qlog_files(
    title: str, tier: str, duration_s: float, flows: pd.DataFrame, windows: pd.DataFrame, packets: pd.DataFrame
) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of a file for each connection of every flow that has samples or packets.

    The tables are those of Measurements.
    """
    sampled, sent = dict(list(windows.groupby("flow"))), dict(list(packets.groupby("flow")))
    for flow in flows.itertuples():
        own = sampled.get(flow.flow, windows[:0])
        left = sent.get(flow.flow, packets[:0])
        left = left[left["source"] == flow.source]
        if own.empty and left.empty:
            continue
        connections = dict(list(own.groupby("connection"))) or {0: own}
        for number, samples in connections.items():
            alone = len(connections) == 1
            events = [*_metrics(samples), *(_packets(left) if alone else ())]
            name = f"{flow.flow}-{flow.source}-{flow.destination}" + ("" if alone else f"-{number}")
            yield name + ENDING, _text(name, title, tier, flow, sorted(events, key=lambda event: event[0]), duration_s)


def _metrics(samples: pd.DataFrame) -> Iterator[QlogEvent]:
    for sample in samples.itertuples():
        values = {
            "congestion_window": sample.window_bytes,
            "bytes_in_flight": sample.in_flight_bytes,
            "ssthresh": sample.slow_start_threshold_bytes,
            "smoothed_rtt": sample.round_trip_ms,
        }
        data = {name: value for name, value in values.items() if np.isfinite(value)}
        yield sample.time_s, "recovery:metrics_updated", data


def _packets(packets: pd.DataFrame) -> Iterator[QlogEvent]:
    for number, packet in enumerate(packets.sort_values("time_s", kind="stable").itertuples()):
        header = {"packet_type": "unknown", "packet_number": number}
        yield packet.time_s, "transport:packet_sent", {"header": header, "raw": {"length": int(packet.size_bytes)}}


def _text(name: str, title: str, tier: str, flow: Any, events: list[QlogEvent], duration_s: float) -> str:
    complete = np.isfinite(flow.completion_ms)
    ends_s = flow.start_s + flow.completion_ms / 1e3 if complete else duration_s
    described = {"tier": tier, "transport": flow.transport, "congestion_control": flow.congestion_control}
    counted = {"retransmitted_packets": flow.retransmitted_packets, "timeouts": flow.timeouts}
    told = ", ".join(f"{name} = {value:.0f}" for name, value in counted.items() if np.isfinite(value))
    first: QlogEvent = flow.start_s, "simulation:scenario", {"name": title, "details": described}
    last: QlogEvent = ends_s, "simulation:marker", {"type": "complete" if complete else "end", "message": told}
    later = next((place for place, event in enumerate(events) if event[0] > ends_s), len(events))
    header = {
        "qlog_version": VERSION,
        "qlog_format": FORMAT,
        "title": f"{title}: {name}",
        "trace": {
            "title": f"{flow.source} to {flow.destination} {flow.label}".strip(),
            "vantage_point": {
                "name": flow.source,
                "type": "server" if flow.transport == "requests" else "client",
            },
            "common_fields": {"time_format": "relative", "reference_time": 0, "protocol_type": ["TCP"]},
        },
    }
    records = [first, *events[:later], last, *events[later:]]
    lines = [{"time": round(at_s * 1e3, 6), "name": kind, "data": data} for at_s, kind, data in records]
    return "".join(f"{RECORD_SEPARATOR}{json.dumps(line, allow_nan=False)}\n" for line in (header, *lines))
