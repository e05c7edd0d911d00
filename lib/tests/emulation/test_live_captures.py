"""A live capture is read while packets leave, and what reads it may go away."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from scapy.utils import RawPcapNgReader
from virtual_kernel import needs_virtual

from netrepro.dummynet import headers_of_capture
from netrepro.emulation import Emulation
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import Link, dumbbell

TIERS = [
    pytest.param("virtual", marks=needs_virtual),
    pytest.param(
        "rootless", marks=pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
    ),
]
SEND = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range({count}):
    out.sendto(bytes(1000), ("{address}", 9))
"""


@pytest.fixture(scope="module", params=TIERS)
def net(request):
    with Emulation(dumbbell(1, Link(100.0, 0.0), Link(100.0, 0.0)), request.param) as built:
        yield built


def send(net, count: int) -> None:
    net["h1"].run([sys.executable, "-I", "-S", "-c", SEND.format(count=count, address=net["h2"].address)])


def test_a_fifo_gets_the_packets_of_all_ports_with_their_names_and_stamps(net, tmp_path):
    fifo, seen = tmp_path / "live", tmp_path / "seen.pcapng"
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: seen.write_bytes(fifo.read_bytes()))
    reader.start()
    ports = [("s1", "s2"), ("h1", "s1")]
    with net.record(packets=ports, captures=tmp_path, live=fifo) as recorded:
        send(net, 20)
        net.sleep(0.2)
    reader.join()
    with RawPcapNgReader(str(seen)) as capture:
        packets = list(capture)
    assert {each.ifname for _, each in packets} == {b"s1-s2", b"h1-s1"}
    assert len(packets) == len(recorded.packets()) >= 40
    kept = headers_of_capture(tmp_path / "s1-s2.pcap")
    live = [each for _, each in packets if each.ifname == b"s1-s2"]
    assert [each.wirelen for each in live] == list(recorded.packets().query("source == 's1'").size_bytes)
    times_ns = [(each.tshigh << 32) + each.tslow for each in live]
    assert times_ns == sorted(times_ns) and len(kept) <= len(live)
    assert (times_ns[-1] - times_ns[0]) / 1e9 == pytest.approx(kept.time_s.iloc[-1], abs=1e-3) or len(kept) < len(live)


def test_a_packet_is_there_to_read_before_the_block_ends(net):
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader:
        with net.record(packets=[("s1", "s2")], live=into):
            send(net, 1000)
            net.sleep(0.2)
            head = reader.read(200)
            assert head[:4] == bytes.fromhex("0a0d0d0a") and b"s1-s2" in head
            rest = threading.Thread(target=reader.read)
            rest.start()
            os.close(into)
        rest.join()


def test_a_reader_that_goes_away_disturbs_nothing(net):
    out, into = os.pipe()
    os.close(out)
    with net.record(packets=[("s1", "s2")], live=into) as recorded:
        send(net, 20)
        net.sleep(0.2)
    os.close(into)
    assert len(recorded.packets()) >= 20


def test_what_cannot_be_written_to_is_refused_and_leaves_the_port_free(net, tmp_path):
    with (
        pytest.raises(NetreproError, match=r"no live capture to .*nowhere"),
        net.record(packets=[("s1", "s2")], live=tmp_path / "nowhere" / "live"),
    ):
        pass
    with pytest.raises(NetreproError, match=r"no port's packets\n.*packets="):
        net.record(queues=[("s1", "s2")], live=1)
    with net.record(packets=[("s1", "s2")]) as recorded:
        send(net, 1)
        net.sleep(0.2)
    assert len(recorded.packets()) >= 1
