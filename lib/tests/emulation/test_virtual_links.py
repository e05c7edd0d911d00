"""Links and routes in virtual time: clocks that are off, loss, jitter, trees and given paths; where no kernel runs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, emulate
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual import instance
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.emulation.virtual.plan import make_virtual_plan
from netrepro.emulation.virtual.probe import try_virtual, why_no_ptrace
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    Routing,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    jellyfish,
    star,
)
from netrepro.networks.routing import k_shortest_paths, spanning_tree
from netrepro.simulation import simulate

pytestmark = needs_virtual
RESTRAINED = Path(__file__).with_name("restrained.py")
PORTS = (("h1", "s1"), ("h2", "s1"))


# Links ----------------------------------------------------------------------------------------------


def rates_mbps(skew_ppm: float) -> np.ndarray:
    """At which two hosts of a star really send, each to a third of its own and more than its link carries."""
    traffic = tuple(Datagrams(host, to, 12.0, 1.0) for host, to in (("h1", "h3"), ("h2", "h4")))
    asked = Experiment(star(4, Link(10.0, 0.5, DropTail(packets=50))), traffic, 1.0, measure=Measure(packets=PORTS))
    packets = emulate_virtually(replace(asked, clock_skew_ppm=skew_ppm)).packets
    assert packets["size_bytes"].nunique() == 1
    found = [packets[packets["source"] == host].iloc[20:] for host, _ in PORTS]
    return np.array([each["size_bytes"].iloc[1:].sum() * 8e-6 / np.ptp(each["time_s"]) for each in found])


def test_each_link_has_a_clock_of_its_own_that_is_off_by_as_much_as_its_plan_says():
    exact, off = rates_mbps(0.0), rates_mbps(100.0)
    assert exact == pytest.approx(10.0, rel=1e-6)
    factors = make_virtual_plan(star(4, Link(10.0, 0.5)), 1, None, skew_ppm=100.0).clock_factors
    assert off == pytest.approx([10.0 * factors[port] for port in PORTS], rel=1e-6)
    assert off[0] != pytest.approx(off[1], rel=5e-6)
    assert np.abs(off / 10.0 - 1).max() < 1e-4


def test_a_network_of_five_hundred_hosts_is_up_when_its_traffic_begins():
    flow = Flow("h1", "h500", size_bytes=100_000)
    found = emulate_virtually(Experiment(star(500, Link(100.0, 0.1)), (flow,), 1.0))
    assert found.flows["completion_ms"].iloc[0] < 20


def test_loss_and_jitter_are_as_described():
    """10,000 datagrams over a wire with jitter and then one with loss; three standard errors each."""
    shaky = Link(100.0, 2.0, DropTail(packets=100), jitter_ms=0.2)
    lossy = Link(1000.0, 0.0, DropTail(packets=100), loss=0.03)
    net = Topology((Cable("h1", "s1", shaky), Cable("s1", "h2", lossy)))
    count, size = 10_000, 500
    sent = Datagrams("h1", "h2", size * 8e-3 / 1.25, 1.25e-3 * count, packet_bytes=size)  # 1.25 ms apart
    ports = (("h1", "s1"), ("s1", "h2"))
    found = emulate(Experiment(net, (sent,), 1.25e-3 * count + 0.1, measure=Measure(packets=ports)), "virtual")
    left, passed = (found.packets.query("source == @host")["time_s"].to_numpy() for host in ("h1", "s1"))
    assert len(left) == len(passed) == pytest.approx(count, abs=1)
    delay_ms = (passed - left) * 1e3 - size * 8e-6
    assert delay_ms.mean() == pytest.approx(2.0, abs=3 * 0.2 / np.sqrt(count))
    assert delay_ms.std() == pytest.approx(0.2, rel=3 / np.sqrt(2 * count))
    for deviations, share in ((1, 0.3173), (2, 0.0455), (3, 0.0027)):  # a bell
        beyond = np.mean(np.abs(delay_ms - 2.0) > 0.2 * deviations)
        assert beyond == pytest.approx(share, abs=3 * np.sqrt(share / count))
    lost = found.links_by_port["lost_packets"]
    assert lost["s1", "h2"] / len(passed) == pytest.approx(0.03, abs=3 * np.sqrt(0.03 / count))
    assert lost.drop(("s1", "h2")).sum() == 0
    assert found.flows["delivered_bytes"][0] == size * (len(passed) - lost["s1", "h2"])


def test_hosts_take_a_packets_time_at_most_or_so_half_of_it_in_the_mean_and_keep_the_order():
    """5,000 datagrams in two sizes, each first alone: three standard errors."""
    packet_ms = 1514 * 8 / 100e3
    net = star(2, Link(100.0, 1.0, DropTail(packets=100)))
    sent = tuple(Datagrams("h1", "h2", size * 8e-3, 2.5, packet_bytes=size) for size in (1514, 100))  # every ms
    ports = (("h1", "s1"), ("s1", "h2"))
    asked = Experiment(net, sent, 2.6, measure=Measure(packets=ports), host_delay_packets=1.0)
    packets = emulate_virtually(replace(asked, clock_skew_ppm=0.0)).packets
    left, passed = (packets.query("source == @host").reset_index() for host in ("h1", "s1"))
    assert left["size_bytes"].tolist() == passed["size_bytes"].tolist()
    first = left["size_bytes"] == left["size_bytes"][0]
    delay_ms = (passed["time_s"] - left["time_s"])[first] * 1e3 - left["size_bytes"][0] * 8 / 100e3 - 1.0
    deviation_ms = packet_ms / np.sqrt(12)
    assert delay_ms.mean() == pytest.approx(packet_ms / 2, abs=3 * deviation_ms / np.sqrt(len(delay_ms)))
    assert delay_ms.std() == pytest.approx(deviation_ms, rel=3 / np.sqrt(2 * len(delay_ms)))
    switch = make_virtual_plan(net, 1, None, host_delay_ms=1.0).lines["s1", "h2"]
    assert switch.link == net.link("s1", "h2")


def test_two_equal_datagram_senders_share_a_line_where_hosts_take_time():
    net = star(3, Link(100.0, 0.1, DropTail(packets=50)))
    traffic = tuple(Datagrams(host, "h3", 60.0, 1.0) for host in ("h1", "h2"))
    for seed in (1, 2, 3):
        asked = Experiment(net, traffic, 1.1, seed, host_delay_packets=1.0)
        first, again = emulate_virtually(asked).flows, emulate_virtually(asked).flows
        assert first.to_csv() == again.to_csv()
        assert 0.8 < first["delivered_bytes"][0] / first["delivered_bytes"][1] < 1.25


@pytest.mark.parametrize(
    ("queue", "congestion_control"),
    [
        (DropTail(packets=40), "cubic"),
        (DropTail(bytes=60_000), "reno"),
        (EcnThreshold(packets=60, threshold_packets=15), "dctcp"),
    ],
)
def test_nobody_can_tell_a_queue_that_was_recorded_from_one_that_was_not(queue, congestion_control):
    """A full line that nobody looks at wakes up once a packet, and another twice: same drops, marks, and times."""
    bottleneck, fast = Link(20.0, 5.0, queue, loss=0.001), Link(1000.0, 0.1)
    flows = tuple(Flow(f"h{i}", f"h{i + 2}", size_bytes=1_500_000, start_s=0.05 * i) for i in (1, 2))
    changes = (
        LinkChange(0.5, "s1", "s2", rate_mbps=10.0, delay_ms=8.0),
        LinkChange(0.9, "s1", "s2", up=False),
        LinkChange(1.0, "s1", "s2", up=True),
    )
    net, tcp = dumbbell(2, fast, bottleneck), Tcp(congestion_control)
    plain = Experiment(net, flows, 4.0, tcp=tcp, changes=changes)
    recorded = replace(plain, measure=Measure(packets=(("s1", "s2"),)))
    first, second = emulate_virtually(plain), emulate_virtually(recorded)
    assert first.flows.equals(second.flows) and (first.flows["retransmitted_packets"] > 0).all()
    counted = ["source", "destination", "sent_packets", "sent_bytes", "lost_packets", "dropped_packets"]
    counted.append("marked_packets")
    assert first.links[counted].equals(second.links[counted])
    assert first.links["dropped_packets"].sum() > 0


TEN_AT_ONCE = """
import socket
sending = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(10):
    sending.sendto(bytes(1208), ("10.0.0.2", 5000))
"""


@pytest.mark.skipif(not shutil.which("tc"), reason="needs tc")
def test_who_asks_finds_a_queue_as_it_is_though_nothing_has_arrived_behind_it_yet():
    """Ten datagrams of 1,250 bytes, and 10 ms each: after 45 ms four have left, one leaves, and five wait."""
    net = Topology((Cable("h1", "s1", Link(1000.0, 0.0)), Cable("s1", "h2", Link(1.0, 500.0, DropTail(packets=50)))))
    with Emulation(net, tier="virtual") as made:
        made["h1"].popen([sys.executable, "-c", TEN_AT_ONCE])
        made.sleep(0.045)
        queues = made["s1"].run(["tc", "-s", "qdisc", "show"]).stdout
    assert re.findall(r"qdisc pfifo .*\n.*\n backlog \d+b (\d+)p", queues).count("5") == 1


# Routes ---------------------------------------------------------------------------------------------


def sent_bytes(measured: Measurements) -> pd.Series:
    return measured.links_by_port["sent_bytes"]


def test_a_spanning_tree_carries_everything_and_other_cables_nothing():
    net = fat_tree(4, Link(100.0, 0.01))
    flows = tuple(Flow(f"h{i}", f"h{(i + 4) % 16 + 1}", size_bytes=40_000) for i in range(1, 17))
    asked = Experiment(net, flows, 0.5, routing=Routing("spanning_tree", root="s18"))
    measured = emulate(asked, "virtual")
    assert (measured.flows["delivered_bytes"] == 40_000).all()
    tree, used = spanning_tree(net, "s18"), sent_bytes(measured)
    unused = [port for port in net.ports if not tree.has_edge(*port)]
    assert len(unused) > 10 and (used[unused] == 0).all()
    assert (used > 10_000).equals(sent_bytes(simulate(asked)) > 10_000)


def test_a_flow_takes_the_path_that_it_is_given_there_and_back():
    net = fat_tree(4, Link(100.0, 0.01))
    ways = k_shortest_paths(net, "h1", "h16", 4)
    for way in (ways[1], ways[2]):
        measured = emulate(Experiment(net, (Flow("h1", "h16", size_bytes=100_000, path=way),), 0.3), "virtual")
        assert measured.flows["delivered_bytes"][0] == 100_000
        used = sent_bytes(measured)
        assert {port for port in net.ports if used[port] > 0} == {*pairwise(way), *pairwise(way[::-1])}


def test_flows_by_k_shortest_paths_use_those_and_more_of_them_than_shortest_ones():
    net = jellyfish(12, 6, 4, Link(100.0, 0.01), seed=2)
    source, destination = net.hosts[0], net.hosts[-1]
    flows = tuple(Flow(source, destination, size_bytes=30_000, start_s=0.02 * i) for i in range(24))
    used = sent_bytes(emulate(Experiment(net, flows, 1.0, routing=Routing("k_shortest_paths", paths=4)), "virtual"))
    ways, back = (k_shortest_paths(net, *ends, 4) for ends in ((source, destination), (destination, source)))
    assert {port for port in net.ports if used[port] > 0} <= {port for way in (*ways, *back) for port in pairwise(way)}
    assert len({len(way) for way in ways}) > 1  # not only shortest ones
    assert all(used[port] > 60_000 for way in ways for port in pairwise(way))


# Where no kernel runs -------------------------------------------------------------------------------

TRY = "from netrepro.emulation.virtual.probe import try_virtual; print(*try_virtual())"


def test_where_ptrace_is_refused_the_probe_says_so_and_what_to_do():
    command = [sys.executable, str(RESTRAINED), "no ptrace", sys.executable, "-c", TRY]
    said = subprocess.check_output(command, text=True)
    assert said.startswith("False ptrace is refused here") and "SYS_PTRACE" in said


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("proc/sys/kernel/yama/ptrace_scope", "2\n", "ptrace_scope is 2.*=1\\)"),
        ("proc/sys/kernel/yama/ptrace_scope", "3\n", "ptrace_scope is 3.*restart"),
        ("sys/fs/selinux/booleans/deny_ptrace", "1 1", "setsebool -P deny_ptrace off"),
        ("proc/self/status", "Name:\tx\nSeccomp:\t2\n", "--cap-add SYS_PTRACE"),
        ("proc/self/status", "Name:\tx\nSeccomp:\t0\n", "another machine"),
    ],
)
def test_what_forbids_ptrace_is_named_with_what_to_do(file, text, said, tmp_path):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert re.search(said, why_no_ptrace(tmp_path))


def test_a_kernel_that_does_not_start_says_its_last_words(monkeypatch, tmp_path):
    dying = tmp_path / "linux"
    dying.write_text("#!/bin/sh\necho first; echo no room for me\nexit 3\n")
    dying.chmod(0o755)
    monkeypatch.setattr(instance, "kernel_path", lambda: dying)
    assert try_virtual() == (False, "the virtual kernel has ended: status 3; no room for me")


@pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
def test_where_no_folder_of_temporary_files_may_run_programs_the_probe_says_so_and_what_to_do(tmp_path):
    def outcome(*folders: str) -> str:
        mounts = [f"mount -t tmpfs -o noexec none '{folder}'" for folder in folders]
        script = " && ".join([*mounts, 'exec "$@"'])
        command = ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable, "-c", TRY]
        environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}
        return subprocess.check_output(command, text=True, env=environment)

    refused = outcome("/dev/shm", str(tmp_path))
    assert refused.startswith("False no folder of temporary files for the virtual kernel's memory: ")
    assert "/dev/shm is mounted noexec" in refused and f"{tmp_path} is mounted noexec" in refused
    assert outcome("/dev/shm").startswith("True")


# Hosts ----------------------------------------------------------------------------------------------

ECHO = """
import socket
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(("", 5000))
while True:
    heard.sendto(*heard.recvfrom(2000))
"""


def ask_often() -> list[float]:
    """Round trips of datagrams to h2 and back (ms), in a kernel."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _ in range(500):
            began = time.monotonic()
            asking.sendto(b"?", ("10.0.0.2", 5000))
            asking.recv(100)
            found.append((time.monotonic() - began) * 1e3)
    return found


@pytest.mark.parametrize("host_delay_packets", [None, 2.0])
def test_hosts_of_programs_take_time_where_that_is_asked_for(host_delay_packets):
    link, wires_ms = Link(10, 1), 4 * 43 * 8e-3 / 10
    with Emulation(star(2, link), tier="virtual", host_delay_packets=host_delay_packets) as net:
        net["h2"].popen([sys.executable, "-c", ECHO])
        net.sleep(0.5)
        trips_ms = np.array(net["h1"].python(ask_often)[1:])
    late_ms = trips_ms - 4 * link.delay_ms - wires_ms
    packet_ms = 1514 * 8e-3 / 10
    if host_delay_packets is None:
        assert late_ms == pytest.approx(0, abs=0.05)
    else:  # there and back, each up to two packets' time
        assert late_ms.mean() == pytest.approx(2 * packet_ms, rel=0.1)
        assert late_ms.std() == pytest.approx(2 * packet_ms / np.sqrt(6), rel=0.15)


def test_a_time_that_hosts_cannot_take_is_refused():
    with pytest.raises(NetreproError, match=r"host_delay_packets = -1\n.*0 or more"):
        Emulation(star(2, Link(10, 1)), tier="virtual", host_delay_packets=-1)
    with pytest.raises(NetreproError, match="host_delay_packets on tier 'rootless'"):
        Emulation(star(2, Link(10, 1)), tier="rootless", host_delay_packets=1)
