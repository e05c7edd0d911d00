"""Sequences of packets, against what was written and against the meter's lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.traffic import load_standin, meter, packet_sequences, sequence_columns
from netrepro.traffic.packets import Packets

SCRIPT = (
    (0, "S", 0),
    (1, "SA", 0),
    (0, "A", 0),
    (0, "PA", 30),
    (1, "PA", 100),
    (0, "FA", 0),
    (1, "FA", 0),
    (0, "A", 0),
)


@pytest.fixture(params=[("<", False), (">", True)], ids=["little, microseconds", "big, nanoseconds"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two connections on the same ports, one after the other, a quarter of a second between packets."""
    order, nano = request.param
    path = tmp_path / "a.pcap"
    with PcapWriter(str(path), endianness=order, nano=nano) as file:
        for start_s in (10.0, 20.0):
            for i, (side, flags, payload) in enumerate(SCRIPT):
                ends = ["192.0.2.1", "198.51.100.7"][:: -1 if side else 1]
                ports = [40_000, 80][:: -1 if side else 1]
                packet = Ether() / IP(src=ends[0], dst=ends[1]) / TCP(sport=ports[0], dport=ports[1], flags=flags)
                packet = packet / Raw(bytes(payload)) if payload else packet
                packet.time = start_s + 0.25 * i
                file.write(packet)
    return path


def test_each_flow_has_its_own_packets_in_order_also_on_ports_that_are_used_again(capture):
    flows = meter(capture).flows
    assert len(flows) == 2
    table = packet_sequences([Packets.read(capture)], flows, 9)
    assert list(table.columns) == sequence_columns(9) and len(table) == 2
    for row in table.to_numpy().reshape(2, 9, 3):
        assert row[:8, 0].tolist() == [40 + payload for _, _, payload in SCRIPT]
        assert row[:8, 1] == pytest.approx([0] + 7 * [250_000], abs=1)
        assert row[:8, 2].tolist() == [-1 if side else 1 for side, _, _ in SCRIPT]
        assert (row[8] == 0).all()  # there is no ninth packet
    assert packet_sequences([Packets.read(capture)], flows.iloc[1:], 2).index.tolist() == [1]


def test_lengths_by_direction_are_those_of_the_meter():
    place = data_dir("gmm_traffic") / "standin"
    flows = load_standin(first_packets=9).flows
    flows = flows.sample(300, random_state=1)
    captures = [Packets.read(day) for day in sorted(place.glob("day*.pcap.xz"))]
    for flow, row in zip(flows.itertuples(), packet_sequences(captures, flows, 9).to_numpy(), strict=True):
        packets = row.reshape(9, 3)
        for sign, side in ((1, "f"), (-1, "b")):
            lengths = packets[packets[:, 2] == sign, 0]
            metered = np.array([getattr(flow, f"{side}pl{i + 1}") for i in range(9)])
            assert lengths.tolist() == metered[metered > 0].tolist()


def test_a_sequence_has_a_packet_at_least(capture):
    with pytest.raises(NetreproError, match="give 1 or more"):
        packet_sequences([Packets.read(capture)], meter(capture).flows, 0)
