"""The flow meter beside nfstream and scapy, on one header-only capture in one run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.traffic import meter

PACKETS = 1_000_000
NFSTREAM_PACKETS = 200_000  # the peers get a smaller capture of the same making: they are that much slower
SCAPY_PACKETS = 20_000


def write_header_only_capture(path: Path, packets: int, *, mean_flow_packets: int = 25, seed: int = 1) -> int:
    """Write a pcap of TCP connections cut to 54 bytes a packet; returns the number of connections.

    Each connection opens, carries data both ways and closes; their packets are interleaved in time.
    """
    random = np.random.default_rng(seed)
    flows = max(packets // mean_flow_packets, 1)
    sizes = 7 + random.geometric(1 / max(mean_flow_packets - 7, 1), flows)
    flow = np.repeat(np.arange(flows), sizes)[:packets]
    place = np.arange(len(flow)) - np.repeat(np.cumsum(sizes) - sizes, sizes)[: len(flow)]
    left = sizes[flow] - place
    gaps_us = random.exponential(30_000, len(flow)).astype(np.int64) + 1
    within_us = np.cumsum(gaps_us)
    start_us = random.uniform(0, 60e6 * packets / 1e6, flows).astype(np.int64)
    time_us = start_us[flow] + within_us - within_us[np.searchsorted(flow, flow)]
    backward = np.where(place < 3, place == 1, random.random(len(flow)) < 0.55)
    backward = np.where(left <= 3, left == 2, backward)
    flags = np.select([place == 0, place == 1, (left <= 3) & (left >= 2)], [0x02, 0x12, 0x11], 0x10)
    data = (place >= 3) & (left > 3)
    flags = np.where(data & (random.random(len(flow)) < 0.3), 0x18, flags)
    ip_bytes = np.where(data, 40 + random.choice([0, 120, 700, 1460], len(flow)), 40)

    order = np.argsort(time_us, kind="stable")
    flow, time_us, backward = flow[order], time_us[order] + 1_600_000_000_000_000, backward[order]
    layout = (
        "seconds <u4, us <u4, captured <u4, wire <u4, mac V12, type >u2, version u1, service u1, length >u2, "
        "rest >u4, life u1, protocol u1, sum >u2, source >u4, destination >u4, source_port >u2, "
        "destination_port >u2, sequence >u8, offset u1, flags u1, window >u2, check >u4"
    )
    record = np.dtype([tuple(field.split()) for field in layout.split(", ")])
    rows = np.zeros(len(flow), record)
    rows["seconds"], rows["us"] = time_us // 1_000_000, time_us % 1_000_000
    rows["captured"], rows["wire"] = 54, 14 + ip_bytes[order]
    rows["type"], rows["version"], rows["length"] = 0x0800, 0x45, ip_bytes[order]
    rows["life"], rows["protocol"], rows["offset"], rows["flags"] = 64, 6, 0x50, flags[order]
    client, server = 0x0A000000 + flow % 5000, 0xC0A80000 + flow % 777
    client_port, web = 10_000 + flow % 50_000, 443
    rows["source"], rows["destination"] = np.where(backward, (server, client), (client, server))
    rows["source_port"] = np.where(backward, web, client_port)
    rows["destination_port"] = np.where(backward, client_port, web)
    header = np.array([0xA1B2C3D4, 0x00040002, 0, 0, 54, 1], "<u4")
    path.write_bytes(header.tobytes() + rows.tobytes())
    return flows


def packets_per_second(read: Callable[[], object], packets: int) -> float:
    """Processor time of this process's own thread would miss nfstream's workers, so it is wall time."""
    start = time.perf_counter()
    read()
    return packets / (time.perf_counter() - start)


def nfstream_reads(path: Path, **settings: object) -> None:
    from nfstream import NFStreamer

    for _ in NFStreamer(source=str(path), accounting_mode=1, n_meters=1, **settings):
        pass


def scapy_reads(path: Path) -> dict[tuple[object, ...], int]:
    from scapy.layers.inet import IP, TCP
    from scapy.utils import PcapReader

    flows: dict[tuple[object, ...], int] = {}
    with PcapReader(str(path)) as packets:
        for packet in packets:
            ends = sorted([(packet[IP].src, packet[TCP].sport), (packet[IP].dst, packet[TCP].dport)])
            flows[tuple(ends)] = flows.get(tuple(ends), 0) + 1
    return flows


def compare() -> pd.DataFrame:
    """Packets a second of each reader and how many times faster the meter is."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {name: Path(folder) / f"{name}.pcap" for name in ("large", "middle", "small")}
        for path, packets in zip(sizes.values(), (PACKETS, NFSTREAM_PACKETS, SCAPY_PACKETS), strict=True):
            write_header_only_capture(path, packets)
        middle = sizes["middle"]
        rates = {
            "netrepro meter, 59 features": packets_per_second(lambda: meter(sizes["large"]), PACKETS),
            "nfstream, default": packets_per_second(lambda: nfstream_reads(middle), NFSTREAM_PACKETS),
            "nfstream, statistics, no dissection": packets_per_second(
                lambda: nfstream_reads(middle, statistical_analysis=True, n_dissections=0), NFSTREAM_PACKETS
            ),
            "nfstream, SPLT of 10, no dissection": packets_per_second(
                lambda: nfstream_reads(middle, splt_analysis=10, n_dissections=0), NFSTREAM_PACKETS
            ),
            "scapy, 5-tuples only": packets_per_second(lambda: scapy_reads(sizes["small"]), SCAPY_PACKETS),
        }
    table = pd.DataFrame({"packets_per_second": pd.Series(rates).round(0)})
    table["meter_is_times_faster"] = (
        table["packets_per_second"].iloc[0] / table["packets_per_second"]
    ).round(1)
    return table


if __name__ == "__main__":
    print(compare().to_string())
