"""From whole captures to the shipped files: the first packets of each flow, features of the whole flows, the log."""

from __future__ import annotations

import ipaddress
import lzma
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from netrepro.applications.labelled_traffic.generate import Day
from netrepro.traffic.join import DAY_S
from netrepro.traffic.meter import meter
from netrepro.traffic.standin import DAY_ONE_S, FLOWS, KEPT_PACKETS, LOG, RUNS, capture_name, load_standin

_ENDS = ["source_address", "source_port", "destination_address", "destination_port"]
LOG_HEADER = "time:workstation:other:workstation port:other port:transport:application:protocol"


@dataclass(frozen=True)
class ShortDay:
    """A day in its shipped form.

    capture : a pcap of the first KEPT_PACKETS packets of each flow. flows : the valid flows of the whole capture, as
    `meter` returns them. log : lines of labels.
    run : numbers of the whole recording: packets, missed_packets (by the capture), flows, left_out (flows that are not
    valid, or whose ends an earlier flow used), records, failed (sessions that ended in an error).
    """

    capture: bytes
    flows: pd.DataFrame
    log: list[str]
    run: dict[str, int]


def shorten_day(day: Day, number: int) -> ShortDay:
    """Move a recording to the `number`-th simulated day (from 0) and keep the beginnings of its valid flows.

    A later flow between the same ends is left out: after an earlier flow whose end is cut off, the meter could not
    separate the two.
    """
    whole = meter(day.capture).flows
    whole["valid"] &= ~_between_used_ends(whole)
    begun_s = int(whole["start_us"].min()) // 1_000_000
    later_s = DAY_ONE_S + DAY_S * number - begun_s
    shipped = whole[whole["valid"]]
    capture = b"".join(_kept_packets(day.capture, whole, later_s))
    later = {name: shipped[name] + later_s * 1_000_000 for name in ("start_us", "end_us")}
    run = {
        "packets": day.packets,
        "missed_packets": day.missed_packets,
        "flows": len(shipped),
        "left_out": len(whole) - len(shipped),
        "records": len(day.records),
        "failed": sum(day.failed.values()),
    }
    return ShortDay(capture, shipped.assign(**later), day.log_lines(later_s), run)


def _between_used_ends(flows: pd.DataFrame) -> pd.Series:
    """Mark valid flows that have the same two ends as an earlier valid flow, in either direction."""
    valid = flows[flows["valid"]].sort_values("start_us", kind="stable")
    ends = [frozenset(((row[0], row[1]), (row[2], row[3]))) for row in valid[_ENDS].itertuples(index=False)]
    return pd.Series(ends, valid.index).duplicated().reindex(flows.index, fill_value=False)


def _end(address: str, port: int) -> bytes:
    return ipaddress.ip_address(address).packed + struct.pack(">H", port)


def _kept_packets(capture: Path, flows: pd.DataFrame, later_s: int) -> Iterator[bytes]:
    """Yield the file's header, then the kept records, with `later_s` seconds added to their times.

    A packet belongs to the last flow between its ends that began at or before its time.
    """
    begun: dict[bytes, list[list]] = {}  # ends -> flows in order: [start_us, whether it is shipped, packets so far]
    ordered = flows.sort_values("start_us", kind="stable")
    columns = [*_ENDS, "start_us", "valid"]
    for source, source_port, destination, destination_port, start_us, valid in ordered[columns].itertuples(index=False):
        ends = sorted((_end(source, source_port), _end(destination, destination_port)))
        begun.setdefault(b"".join(ends), []).append([start_us, valid, 0])
    data = memoryview(capture.read_bytes())
    yield bytes(data[:24])
    at = 24
    while at < len(data):
        seconds, microseconds, kept_bytes, wire_bytes = struct.unpack_from("<IIII", data, at)
        packet = data[at + 16 : at + 16 + kept_bytes]
        at += 16 + kept_bytes
        ports = 14 + 4 * (packet[14] & 15)
        ends = sorted(
            (bytes(packet[26:30]) + packet[ports : ports + 2], bytes(packet[30:34]) + packet[ports + 2 : ports + 4])
        )
        between = begun[b"".join(ends)]
        time_us = seconds * 1_000_000 + microseconds
        while len(between) > 1 and between[1][0] <= time_us:
            between.pop(0)
        flow = between[0]
        flow[2] += 1
        if flow[1] and flow[2] <= KEPT_PACKETS:
            yield struct.pack("<IIII", seconds + later_s, microseconds, kept_bytes, wire_bytes) + packet


def write_standin(folder: Path, days: list[ShortDay]) -> pd.DataFrame:
    """Write the days to `folder` in the form that `load_standin` reads; return the flows and bytes of each day and
    class.

    RUNS gets one row for each day, with the numbers of ShortDay.run. All files are first written to a temporary folder
    beside them, so that none is left incomplete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flows = pd.concat([day.flows for day in days], ignore_index=True).drop(columns=["valid"])
    lines = [LOG_HEADER, *(line for day in days for line in day.log), ""]
    contents = {capture_name(i): day.capture for i, day in enumerate(days)}
    contents |= {FLOWS: flows.to_csv(index=False, float_format="%.10g").encode(), LOG: "\n".join(lines).encode()}
    contents = {name: lzma.compress(content, preset=9 | lzma.PRESET_EXTREME) for name, content in contents.items()}
    contents[RUNS] = pd.DataFrame([day.run for day in days]).to_csv(index_label="day").encode()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".netrepro-") as aside:
        for name, content in contents.items():
            (Path(aside) / name).write_bytes(content)
        for name in contents:
            (Path(aside) / name).replace(folder / name)
    labelled = load_standin(folder).flows
    volume = labelled["flow_fbytes"] + labelled["flow_bbytes"]
    return labelled.assign(bytes=volume).groupby(["day", "class"]).agg(flows=("bytes", "size"), bytes=("bytes", "sum"))
