"""CICFlowMeter's CSV of a list of connections, with its faults (BasicFlow.java at 1d358377) or without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from packet_builder import ACK, FIN, PSH, Packet, in_link, ipv4

CLIENT, SERVER, SERVER_PORT = "10.0.0.1", "192.168.7.9", 443
START_US = 1_700_000_000_000_000
Connection = tuple[int, list[Packet]]  # client's port, packets


def connections(count: int = 60, seed: int = 2) -> list[Connection]:
    """Connections of UDP's and TCP's shapes, one after the other, of 12 to 30 packets that open, talk and close."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        start = START_US + number * 20_000_000
        script = [Packet(0, False, 0, 2), Packet(0, True, 0, 18), Packet(0, False, 0, ACK)]
        for _ in range(int(random.integers(4, 12))):
            script += [
                Packet(0, False, int(random.integers(20, 400)), PSH | ACK),
                Packet(0, True, int(random.integers(100, 1400)), PSH | ACK),
            ]
        script += [Packet(0, False, 0, FIN | ACK), Packet(0, True, 0, FIN | ACK), Packet(0, False, 0, ACK)]
        gaps = np.cumsum(random.integers(1000, 90_000, size=len(script)))
        times = [start + int(gap) for gap in gaps]
        made.append((30_000 + number, [replace(p, time_us=time) for p, time in zip(script, times, strict=True)]))
    return made


def records(made: list[Connection]) -> list[tuple[int, bytes]]:
    """The packets of all connections as records of a capture."""
    result = []
    for port, packets in made:
        for packet in packets:
            ends = [(CLIENT, port), (SERVER, SERVER_PORT)]
            (source, source_port), (destination, destination_port) = ends[::-1] if packet.backward else ends
            content = ipv4(packet.to_transport(source_port, destination_port), source, destination)
            result.append((packet.time_us, in_link(content, 1)))
    return sorted(result)


def rows(made: list[Connection], *, faulty: bool) -> pd.DataFrame:
    """A row a flow. faulty : flows end at the first FIN; flags count the first packet; its length counts twice."""
    table = []
    for port, packets in made:
        parts = [packets]
        if faulty:
            end = next(place for place, packet in enumerate(packets) if packet.flags & FIN) + 1
            parts = [packets[:end], packets[end:]]
        table += [_row(port, part, faulty) for part in parts]
    frame = pd.DataFrame(table)
    return frame.assign(Label=np.where(np.arange(len(frame)) % 2, "BENIGN", "Bot"))


def _row(port: int, packets: list[Packet], faulty: bool) -> dict[str, object]:
    turned = packets[0].backward  # the first packet's sender is the source
    forward = [packet for packet in packets if packet.backward == turned]
    backward = [packet for packet in packets if packet.backward != turned]
    sizes = [packet.payload_bytes for packet in packets]
    counted = packets[:1] if faulty else packets
    lengths = [sizes[0], *sizes] if faulty else sizes
    ends = [(SERVER, SERVER_PORT), (CLIENT, port)] if turned else [(CLIENT, port), (SERVER, SERVER_PORT)]
    when = pd.Timestamp(packets[0].time_us, unit="us")
    ratio = len(backward) / len(forward)
    return {
        "Src IP": ends[0][0],
        "Src Port": ends[0][1],
        "Dst IP": ends[1][0],
        "Dst Port": ends[1][1],
        "Protocol": 6,
        "Timestamp": when.strftime("%d/%m/%Y %I:%M" if faulty else "%Y-%m-%d %H:%M:%S.%f"),
        "Flow Duration": packets[-1].time_us - packets[0].time_us,
        "Total Fwd Packet": len(forward),
        "Total Bwd packets": len(backward),
        "Total Length of Fwd Packet": sum(packet.payload_bytes for packet in forward),
        "Total Length of Bwd Packet": sum(packet.payload_bytes for packet in backward),
        "Packet Length Mean": float(np.mean(lengths)),
        "Average Packet Size": sum(lengths) / len(packets),
        "Fwd PSH Flags": sum(bool(p.flags & PSH) for p in counted if p.backward == turned),
        "Bwd PSH Flags": sum(bool(p.flags & PSH) for p in counted if p.backward != turned),
        "PSH Flag Count": sum(bool(p.flags & PSH) for p in packets),
        "ACK Flag Count": sum(bool(p.flags & ACK) for p in counted),
        "Down/Up Ratio": float(int(ratio)) if faulty else ratio,
    }
