"""Captures of a port's packets, read back by scapy and by our own meter."""

from __future__ import annotations

import numpy as np
import pytest
from emulation_traffic import emulation, rootless, transfer
from scapy.layers import inet
from scapy.utils import PcapReader, RawPcapReader
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.real_time.guests import LauncherConnection
from netrepro.errors import NetreproError
from netrepro.networks import EcnThreshold, Experiment, Flow, Link, Measure, Tcp, dumbbell, star
from netrepro.traffic import meter

pytestmark = rootless
PORTS = (("s1", "s2"), ("s2", "s1"))


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """A run of two flows, and the folder with its captures."""
    folder = tmp_path_factory.mktemp("captures")
    flows = (Flow("h1", "h3", size_bytes=60_000), Flow("h2", "h4", size_bytes=30_000, start_s=0.2))
    asked = Experiment(dumbbell(2, Link(100, 0), Link(20, 0)), flows, 0.8, measure=Measure(packets=PORTS))
    return emulate(asked, "rootless", captures=folder), folder


def test_a_capture_has_the_packets_of_the_table_with_their_sizes_and_times(captured):
    measured, folder = captured
    assert sorted(path.name for path in folder.iterdir()) == ["s1-s2.pcap", "s2-s1.pcap"]
    for source, destination in PORTS:
        with RawPcapReader(str(folder / f"{source}-{destination}.pcap")) as reader:
            assert reader.nano and reader.linktype == 1
            found = [(each.sec + each.usec * 1e-9, each.wirelen) for _, each in reader]
        table = measured.packets[
            (measured.packets["source"] == source) & (measured.packets["destination"] == destination)
        ]
        times, sizes = map(np.array, zip(*found, strict=True))
        # The capture goes on until the network ends: the last FINs may be later than the table.
        assert sizes[: len(table)].tolist() == table["size_bytes"].tolist() and len(found) <= len(table) + 10
        assert np.diff(times)[: len(table) - 1] == pytest.approx(np.diff(table["time_s"]), abs=1e-6)


def test_scapy_reads_addresses_and_ports_of_the_packets(captured):
    _, folder = captured
    with PcapReader(str(folder / "s1-s2.pcap")) as reader:
        ends = {(packet["IP"].src, packet["TCP"].sport) for packet in reader}
    assert ends == {("10.0.0.1", 10_000), ("10.0.0.2", 10_001)}


def test_our_own_meter_finds_the_flows_of_a_capture(captured):
    _, folder = captured
    flows = meter(folder / "s1-s2.pcap").flows
    assert len(flows) == 2


@needs_virtual
def test_captures_have_marks_from_the_port_on_that_sets_them(tmp_path):
    ports = (("h1", "s1"), ("s1", "s2"), ("s2", "h2"))
    asked = Experiment(
        dumbbell(1, Link(100, 0), Link(10, 2, EcnThreshold(200, 10))),
        (Flow("h1", "h2", duration_s=1.0),),
        1.2,
        measure=Measure(packets=ports),
        tcp=Tcp("reno", ecn=True),
    )
    measured = emulate(asked, "virtual", captures=tmp_path)
    marked = {}
    for source, destination in ports:
        with PcapReader(str(tmp_path / f"{source}-{destination}.pcap")) as reader:
            packets = [packet["IP"] for packet in reader]
        marked[source] = sum(packet.tos & 3 == 3 for packet in packets)
        checksums = [(packet.chksum, inet.IP(bytes(packet)[:20])) for packet in packets[-50:]]
        for said, header in checksums:
            del header.chksum
            assert inet.IP(bytes(header)).chksum == said
    counted = measured.links_by_port["marked_packets"][("s1", "s2")]
    assert marked["h1"] == 0 and marked["s1"] == marked["s2"] == counted > 3


def test_a_recording_of_any_program_is_captured(tmp_path):
    with emulation(star(2, Link(10, 0))) as net:
        with net.record(packets=[("s1", "h2")], captures=tmp_path):
            transfer(net, "h1", "h2", 20_000)
        with PcapReader(str(tmp_path / "s1-h2.pcap")) as reader:
            packets = list(reader)
    assert sum(packet["IP"].len - 4 * packet["IP"].ihl - 4 * packet["TCP"].dataofs for packet in packets) >= 20_000


def test_a_folder_that_is_not_there_is_refused_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(LauncherConnection, "__init__", lambda *_: pytest.fail("something was built"))
    asked = Experiment(star(2, Link(10, 0)), (Flow("h1", "h2", size_bytes=1),), 0.1)
    with pytest.raises(NetreproError, match="no folder"):
        emulate(asked, "rootless", captures=tmp_path / "nowhere")
    for tier in ("rootless", "virtual"):
        with pytest.raises(NetreproError, match="captures = 5"):
            emulate(asked, tier, captures=5)
