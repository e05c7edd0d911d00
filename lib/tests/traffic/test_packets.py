"""Packets changed in place, against what scapy wrote and reads again."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter, rdpcap

from netrepro.errors import NetreproError
from netrepro.traffic.packets import Packets


def connection(port: int, start_s: float) -> list:
    """A handshake, data and the end, 0.25 s apart."""
    script = [(0, "S", b""), (1, "SA", b""), (0, "A", b""), (0, "PA", b"ask"), (1, "PA", b"answer" * 9), (0, "FA", b"")]
    packets = []
    for i, (side, flags, payload) in enumerate(script):
        ends = ["192.0.2.1", "198.51.100.7"][:: -1 if side else 1]
        ports = [port, 80][:: -1 if side else 1]
        packet = Ether() / IP(src=ends[0], dst=ends[1]) / TCP(sport=ports[0], dport=ports[1], flags=flags)
        packet = packet / Raw(payload) if payload else packet
        packet.time = start_s + 0.25 * i
        packets.append(packet)
    return packets


@pytest.fixture(params=["<", ">"], ids=["little", "big"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two connections, the second twice on the same port."""
    path = tmp_path / "a.pcap"
    with PcapWriter(str(path), endianness=request.param) as file:
        file.write([packet for i, port in enumerate((1000, 2000, 2000)) for packet in connection(port, 10.0 + 5 * i)])
    return path


def changed(path: Path, change) -> list:
    packets = Packets.read(path).copy()
    change(packets)
    packets.write(path)
    return list(rdpcap(str(path)))


def flags(packets: list) -> list[str]:
    return [str(packet[TCP].flags) for packet in packets]


def test_what_is_not_changed_is_written_as_it_was(capture):
    before = capture.read_bytes()
    assert len(changed(capture, lambda packets: None)) == 18 and capture.read_bytes() == before


def test_lengths_can_be_those_of_the_transport_or_of_what_was_captured(capture):
    before = [packet[IP].len for packet in rdpcap(str(capture))]
    transport = changed(capture, Packets.count_transport_bytes)
    assert [packet[IP].len for packet in transport] == [length - 20 for length in before]
    captured = changed(capture, Packets.count_captured_bytes)
    assert [packet[IP].len for packet in captured] == before  # all bytes were captured


def test_whole_seconds_have_no_fraction(capture):
    before = [float(packet.time) for packet in rdpcap(str(capture))]
    assert [float(packet.time) for packet in changed(capture, Packets.keep_whole_seconds)] == [t // 1 for t in before]


def test_openings_are_dropped_and_nothing_else(capture):
    assert flags(changed(capture, Packets.drop_openings)) == ["SA", "A", "PA", "PA", "FA"] * 3


def test_handshakes_are_dropped_also_of_a_port_that_is_used_again(capture):
    packets = changed(capture, Packets.drop_handshakes)
    assert flags(packets) == ["PA", "PA", "FA"] * 3
    assert changed(capture, Packets.keep_whole_seconds)[1][Raw].load == b"answer" * 9  # places are right again


def test_a_pcapng_file_is_not_taken_for_a_pcap_file(tmp_path: Path):
    path = tmp_path / "a.pcapng"
    path.write_bytes(bytes.fromhex("0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000"))
    with pytest.raises(NetreproError, match="no pcap capture of Ethernet"):
        Packets.read(path)
