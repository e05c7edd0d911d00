"""The part of recording ports that is the same on every kernel: checks, headers of captures, throughput."""

from __future__ import annotations

import os
import struct
from collections.abc import Container, Iterable
from pathlib import Path

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

_NANOSECOND_PCAP, _ETHERNET = 0xA1B23C4D, 1
THROUGHPUT_COLUMNS = ["source", "destination", "time_s", "throughput_mbps"]


def folder_for_captures(given: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder, None for None. Raises NetreproError where it is not a path or the folder does not exist."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise NetreproError(f"captures = {given!r}", "give the path of a folder")
    if not Path(given).is_dir():
        raise NetreproError(f"no folder {given} for captures", "make it first")
    return Path(given)


def pcap_header(kept_bytes: int) -> bytes:
    """Make the header of a pcap file with nanosecond time stamps. kept_bytes : kept of each frame at most."""
    return struct.pack("=IHHiIII", _NANOSECOND_PCAP, 2, 4, 0, 0, kept_bytes, _ETHERNET)


def check_asked(
    topology: Topology,
    queues: Iterable[tuple[str, str]],
    packets: Iterable[tuple[str, str]],
    interval_ms: float,
    most_packets: int,
) -> None:
    """Raise NetreproError for arguments of Network.record that no network can record."""
    if not 0.1 <= interval_ms <= 60_000:
        raise NetreproError(f"a sampling interval of {interval_ms} ms", "give 0.1 ms to 60 000 ms")
    if packets and most_packets < 1:
        raise NetreproError(f"room for {most_packets} packets", "give most_packets of 1 or more")
    for port in (*queues, *packets):
        topology.link(*port)


def check_recorded(port: tuple[str, str], recorded: Container[tuple[str, str]]) -> None:
    """Raise NetreproError for a port whose packets were not recorded."""
    if port not in recorded:
        raise NetreproError(f"packets from {' to '.join(port)} were not recorded", "name the port in packets=")


def throughput_in(sent: pd.DataFrame, window_ms: float) -> pd.DataFrame:
    """Compute Recording.throughput. sent : source, destination, time_s, sent_bytes (in total until then)."""
    parts = [pd.DataFrame(columns=THROUGHPUT_COLUMNS)]
    for (source, destination), samples in sent.groupby(["source", "destination"], sort=False):
        window = (samples["time_s"] // (window_ms / 1000)).astype(int)
        last = samples.groupby(window).last()
        mbps = last["sent_bytes"].diff() * 8 / last["time_s"].diff() / 1e6
        parts.append(
            pd.DataFrame(
                {"source": source, "destination": destination, "time_s": last["time_s"], "throughput_mbps": mbps}
            ).dropna()
        )
    return pd.concat(parts[1:] or parts, ignore_index=True)
