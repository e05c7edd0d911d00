"""The tier `virtual`: a Linux network stack in virtual time. None of this depends on how busy the machine is."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.emulation import Emulation, emulate
from netrepro.emulation.plan import make_plan
from netrepro.emulation.virtual import events, instance
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.emulation.virtual.instance import Instance
from netrepro.emulation.virtual.kernel import kernel_path
from netrepro.emulation.virtual.plan import _red_idle_table, make_virtual_plan
from netrepro.emulation.virtual.programs import Program, run_programs
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import Link
from netrepro.networks.queues import (
    ISOLATIONS,
    Cake,
    CoDel,
    DropTail,
    EcnThreshold,
    Fq,
    FqCoDel,
    NicPacer,
    PhantomQueue,
    Pie,
    Queue,
    Red,
    Sfq,
    SharedBuffer,
)
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology, dumbbell, leaf_spine, star
from netrepro.networks.workloads import Datagrams, Flow, Requests, Tcp
from netrepro.papers import dctcp
from netrepro.simulation import simulate

pytestmark = needs_virtual
PORT = ("s1", "h3")


def two_flows(rate_mbps: float, seconds: float, seed: int = 1, control: str = "cubic") -> Experiment:
    """Two long flows through one port of a star, as in Mininet-HiFi's Fig. 5."""
    link = Link(rate_mbps, 0.075, DropTail(packets=425), jitter_ms=0.05)
    flows = tuple(
        Flow(host, "h3", duration_s=seconds - start, start_s=start)
        for host, start in (("h1", 0.0), ("h2", seconds / 60))
    )
    measure = Measure(queues=(PORT,), packets=(PORT,), windows_interval_ms=10.0)
    return Experiment(star(3, link), flows, seconds, seed, measure, Tcp(control))


def digest(found: Measurements) -> str:
    tables = (found.flows, found.queues, found.links, found.windows, found.packets)
    return hashlib.sha256("".join(table.to_csv() for table in tables).encode()).hexdigest()


def check(found: Measurements, name: str) -> float:
    return float(found.fidelity.set_index("check")["value"][f"s1 to h3: {name}"])


@contextmanager
def busy_machine() -> Iterator[None]:
    """A loop on every core."""
    loops = []
    try:
        for core in sorted(os.sched_getaffinity(0)):
            program = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
            loops.append(subprocess.Popen([sys.executable, "-c", program]))
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    ("rate_mbps", "seconds", "least"), [(100.0, 1.0, 0.999), (1000.0, 0.3, 0.999), (10_000.0, 0.1, 0.99)]
)
def test_gaps_are_those_of_the_rate_at_any_rate_on_a_busy_machine(rate_mbps, seconds, least):
    with busy_machine():
        found = emulate(two_flows(rate_mbps, seconds), tier="virtual")
    assert check(found, "share of gaps within 1 %") >= least
    assert found.trusted and found.tier == "virtual" and "netrepro" in found.kernel


def test_who_listens_at_the_next_hop_sees_the_same_gaps():
    """Packets are stamped by the receiver's kernel as they come in, which knows nothing of links."""

    def arrivals(seconds: float) -> list[tuple[int, int]]:
        """Read full packets from a packet socket's ring: (the kernel's time of arrival in ns, bytes on the wire)."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as tap:
            tap.setsockopt(263, 10, 1)  # PACKET_VERSION: TPACKET_V2
            tap.setsockopt(263, 5, struct.pack("=4I", 2**16, 32, 256, 2**13))  # PACKET_RX_RING: frames of 256 bytes
            with mmap.mmap(tap.fileno(), 2**21) as ring:
                time.sleep(seconds)
                found = []
                for frame in range(0, 2**21, 256):
                    status, size, _, _, _, second, nanosecond = struct.unpack_from("=3I2H2I", ring, frame)
                    if status & 1 and ring[frame + 42] == socket.PACKET_HOST and size > 1400:
                        found.append((second * 10**9 + nanosecond, size))
                return found

    def receive(port: int) -> None:
        with socket.create_server(("0.0.0.0", port)) as server:
            connection, _ = server.accept()
            while connection.recv(1 << 20, socket.MSG_TRUNC):
                pass

    def send(address: str, port: int) -> None:
        with socket.create_connection((address, port)) as connection:
            connection.sendall(bytes(4_000_000))

    slow, fast = Link(1000.0, 0.05, DropTail(packets=1000)), Link(5000.0, 0.05, DropTail(packets=1000))
    network = Topology((Cable("h1", "s1", fast), Cable("s1", "h2", slow)))
    with Emulation(network, tier="virtual") as net:
        net["h2"].start(receive, 5000)
        seen = net["h2"].start(arrivals, 3.0)
        net.sleep(1.0)
        net["h1"].python(send, net["h2"].address, 5000)
        at_ns, size = np.array(seen.result()).T
        rate = 1e9 * net.plan.clock_factors["s1", "h2"]
    gaps_ns = np.diff(at_ns)[1000:]  # by then slow start has filled the queue
    off = np.abs(gaps_ns / (size[1001:] * 8e9 / rate) - 1)
    assert len(off) > 1500 and np.mean(off <= 0.01) >= 0.999


def test_the_same_seed_gives_the_same_bytes_beside_other_work_too(tmp_path):
    experiment = two_flows(100.0, 1.0, seed=7)
    folders = [tmp_path / name for name in ("first", "second")]
    found = []
    for folder in folders:
        folder.mkdir()
        with busy_machine() if found else nullcontext():
            found.append(emulate(experiment, tier="virtual", captures=folder))
    first, second = ((folder / "s1-h3.pcap").read_bytes() for folder in folders)
    assert first == second and len(first) > 500_000
    assert digest(found[0]) == digest(found[1])
    other = emulate(replace(experiment, seed=8), tier="virtual")
    assert digest(other) != digest(found[0])


def test_dctcp_keeps_a_short_queue_where_tcp_fills_the_buffer_as_on_hardware():
    """Mininet-HiFi, Fig. 6, by its claims' own acceptance; without marks DCTCP fills the buffer as TCP does."""
    cases = {"tcp": ({}, 25.0), "dctcp": (dctcp.DCTCP, 8.0), "no marks": (dctcp.DCTCP | {"queue": "drop tail"}, 8.0)}
    found = {}
    for case, (change, lasts) in cases.items():
        experiment = dctcp.experiment(replace(dctcp.Setting(), **change), lasts, 1)
        queues = emulate(experiment, tier="virtual").queues
        found[case] = queues[queues.time_s >= lasts / 4]["queue_packets"].to_numpy()
    for claim, case in (("tcp-mean-queue", "tcp"), ("dctcp-mean-queue", "dctcp")):
        low, high = load_claims("dctcp").claim(claim).accepted_band()
        assert low <= found[case].mean() <= high
        assert not low <= found["no marks" if case == "dctcp" else "dctcp"].mean() <= high
    hardware = dctcp.hardware_queue().set_index("percentile")["tcp_packets"]
    curve = np.percentile(found["tcp"], dctcp.PERCENTILES) - hardware[list(dctcp.PERCENTILES)].to_numpy()
    assert np.sqrt(np.mean(curve**2)) < 0.15 * (hardware[99] - hardware[1])


def test_incast_collapses_with_the_standard_timeout_and_not_with_a_short_one():
    """Goodput of synchronised reads through a shallow buffer, in the kernel as in the simulator."""
    goodput = {}
    for rto_ms in (200.0, 5.0):
        experiment = incast_experiment(rto_ms)
        for name, found in (("virtual", emulate(experiment, tier="virtual")), ("simulated", simulate(experiment))):
            assert len(found.requests) == found.requests["request"].nunique() * 16
            took_s = found.requests["answered_s"].max() - found.requests["asked_s"].min()
            goodput[name, rto_ms] = found.flows["delivered_bytes"].sum() * 8e-6 / took_s
    for name in ("virtual", "simulated"):
        assert goodput[name, 200.0] < 0.4 * goodput[name, 5.0]
    assert goodput["virtual", 5.0] == pytest.approx(goodput["simulated", 5.0], rel=0.25)


def incast_experiment(rto_ms: float) -> Experiment:
    link = Link(1000.0, 0.02, DropTail(packets=40))
    servers = tuple(f"h{number}" for number in range(2, 18))
    asked = Requests("h1", servers, request_bytes=100, response_bytes=32_768, count=10, barrier=True)
    return Experiment(star(17, link), (asked,), 6.0, 3, Measure(), Tcp("reno", min_rto_ms=rto_ms))


def test_a_single_flow_takes_as_long_as_in_the_simulator():
    """Ten Mb/s, 44 ms, 50 packets: sizes from one window to a long flow."""
    topology = dumbbell(1, access=Link(100.0, 1.0), bottleneck=Link(10.0, 20.0, DropTail(packets=50)))
    for size in (10_000, 100_000, 1_000_000):
        experiment = Experiment(topology, (Flow("h1", "h2", size_bytes=size),), 10.0, 1, Measure(), Tcp("reno"))
        ours, simulated = emulate(experiment, tier="virtual"), simulate(experiment)
        took = [float(found.flows["completion_ms"].iloc[0]) for found in (ours, simulated)]
        assert took[0] == pytest.approx(took[1], rel=0.02)


@pytest.mark.parametrize(
    "queue",
    [
        DropTail(bytes=60_000),
        EcnThreshold(100, 20),
        Red(200, 20, 60, max_probability=0.1, ecn=True),
        Red(200, 20, 60, max_probability=0.1),
        CoDel(300),
        Pie(300),
        PhantomQueue(200),
        SharedBuffer(150_000, alpha=2.0),
        Sfq(packets=100, buckets=4096),
        FqCoDel(packets=300),
        FqCoDel(packets=300, ecn=False),
        Cake(),
    ],
    ids=lambda queue: type(queue).__name__,
)
def test_every_queue_holds_what_it_says_and_counts_every_packet(queue):
    control = "dctcp" if isinstance(queue, (EcnThreshold, PhantomQueue)) else "cubic"
    link = Link(50.0, 1.0, queue)
    flows = tuple(Flow(host, "h3", duration_s=3.0) for host in ("h1", "h2"))
    measure = Measure(queues=(PORT,), packets=(PORT,))
    experiment = Experiment(star(3, link), flows, 3.0, 1, measure, Tcp(control, ecn=True))
    modelled = experiment
    if isinstance(queue, Cake):  # which no simulator has; CoDel of each flow is what it is nearest to
        ours = Link(50.0, 1.0, FqCoDel(packets=300))
        modelled = replace(experiment, topology=star(3, ours))
    found, simulated = emulate(experiment, tier="virtual"), simulate(modelled)
    port, model = (each.links_by_port.loc[PORT] for each in (found, simulated))
    assert port["sent_packets"] == pytest.approx(model["sent_packets"], rel=0.03)
    if isinstance(queue, PhantomQueue | SharedBuffer | Cake):  # the others: test_kernels_queues.py
        settled = [each.queues[each.queues.time_s > 1.0]["queue_packets"].mean() for each in (found, simulated)]
        assert settled[0] == pytest.approx(settled[1], rel=0.35, abs=3)
    counted = (
        "marked_packets" if getattr(queue, "ecn", isinstance(queue, Cake)) or control == "dctcp" else "dropped_packets"
    )
    assert port[counted] > 0 and model[counted] > 0
    assert found.trusted


def beside_a_flood(queue: Queue, seconds: float = 6.0) -> pd.DataFrame:
    """Mb/s and the median wait of a CUBIC flow, and of datagrams that alone would take 40 of the link's 50 Mb/s."""
    network = dumbbell(2, access=Link(200.0, 2.0), bottleneck=Link(50.0, 10.0, queue))
    traffic = (Flow("h1", "h3", duration_s=seconds), Datagrams("h2", "h4", 40.0, seconds))
    measure = Measure(packets=(("s1", "s2"),))
    packets = emulate(Experiment(network, traffic, seconds, 1, measure), tier="virtual").packets
    flows = packets[packets.time_s > seconds / 3].groupby("flow")
    mbps = flows["size_bytes"].sum() * 8e-6 / (seconds * 2 / 3)
    return pd.DataFrame({"mbps": mbps, "wait_ms": flows["wait_ms"].median()})


def test_cake_shares_evenly_with_a_flow_that_never_answers():
    """The flood gets half and waits alone; through a plain queue it gets nearly all that it sends."""
    cake, plain = beside_a_flood(Cake()), beside_a_flood(DropTail(packets=200))
    assert cake["mbps"].sum() == pytest.approx(50, rel=0.02)
    assert cake["mbps"][0] == pytest.approx(cake["mbps"][1], rel=0.1)
    assert cake["wait_ms"][0] < 10 < plain["wait_ms"][0]
    assert plain["mbps"][1] > 2 * plain["mbps"][0]


def test_cake_isolates_hosts_or_flows_and_shapes_below_the_link_as_it_is_told():
    """One host with three flows beside one with a single one."""
    shares = {}
    for cake in (Cake(isolation="dual-srchost"), Cake(isolation="flows"), Cake(shaped_mbps=10.0)):
        network = dumbbell(2, access=Link(200.0, 2.0), bottleneck=Link(20.0, 5.0, cake))
        flows = (Flow("h1", "h3", duration_s=6.0), *(Flow("h2", "h4", duration_s=6.0) for _ in range(3)))
        goodput = emulate(Experiment(network, flows, 6.0), tier="virtual").flows["goodput_mbps"].to_numpy()
        shares[cake] = goodput[0] / goodput.sum(), goodput.sum()
    by_host, by_flow, shaped = shares.values()
    assert by_host[0] == pytest.approx(1 / 2, abs=0.05) and by_flow[0] == pytest.approx(1 / 4, abs=0.05)
    assert by_host[1] == pytest.approx(19, abs=0.5) and shaped[1] == pytest.approx(9.5, abs=0.3)


def test_cake_drops_acknowledgements_that_later_ones_make_needless():
    """A link back that is too slow for all of them; with the filter the flow is not held up by it."""
    goodput = {}
    for filtered in (False, True):
        back = Link(0.2, 5.0, Cake(ack_filter=filtered))
        network = Topology((Cable("h1", "s1", Link(50.0, 5.0)), Cable("s1", "h2", Link(50.0, 5.0), back)))
        found = emulate(Experiment(network, (Flow("h1", "h2", duration_s=5.0),), 5.0), tier="virtual")
        port = found.links_by_port.loc[("h2", "s1")]
        goodput[filtered] = found.flows["goodput_mbps"].iloc[0], port["dropped_packets"]
    assert goodput[True][0] > 1.5 * goodput[False][0] and goodput[True][1] > 2 * goodput[False][1]


FLOOD = """
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(600):
    out.sendto(bytes(1400), (sys.argv[1], 7000 + number % int(sys.argv[2])))
    time.sleep(0.0003)
"""


@pytest.mark.parametrize("flows", [1, 7])
@pytest.mark.parametrize(
    "queue", [Cake(60_000), Cake(60_000, shaped_mbps=4.0), FqCoDel(packets=20), Sfq(packets=20)], ids=repr
)
def test_a_queue_that_drops_others_than_the_arrival_leaves_the_line_with_a_right_count(queue, flows):
    """The line counts its queue, what is being sent and what travels; all is gone in the end."""
    network = dumbbell(1, access=Link(100.0, 1.0), bottleneck=Link(5.0, 0.0, queue))
    with Emulation(network, tier="virtual") as net:
        (net.folder / "flood.py").write_text(FLOOD)
        net["h1"].run([sys.executable, "flood.py", net["h2"].address, str(flows)])
        counts = []
        for _ in range(2):
            said = net["s1"].run(["tc", "-s", "qdisc", "show", "dev", "s1-eth2"]).stdout
            counts.append([(int(drops), int(waiting)) for drops, waiting in re.findall(COUNTS, said)])
            net.sleep(3.0)
    ((dropped, line), (_, inside)), after = counts
    assert dropped > 400 and inside > 5 and line == inside + 1
    assert [waiting for _, waiting in after] == [0, 0]


COUNTS = r"dropped (\d+).*\n backlog \S+ (\d+)p"


def test_every_cake_that_can_be_described_can_be_planned():
    for cake in (
        Cake(8192, 0.02, "flowblind", True, 0.001),
        Cake(2**32 - 1, 4e6, "hosts", False, 1e7),
        *(Cake(isolation=name) for name in ISOLATIONS),
    ):
        make_virtual_plan(star(3, Link(50.0, 1.0, cake)), 1, None)


def test_cake_is_refused_by_name_on_every_other_tier():
    link = Link(50.0, 1.0, Cake())
    with pytest.raises(NetreproError, match=r"(?s)Cake.*tier 'virtual'"):
        simulate(Experiment(star(2, link), (Flow("h1", "h2", size_bytes=1000),), 1.0))
    with pytest.raises(NetreproError, match=r"(?s)Cake; in real time.*tier 'virtual'"):
        make_plan(star(2, link))


def average_of(queue: Red, segment_bytes: int = 1448) -> tuple[float, float]:
    """The settled queue, in the kernel and in the simulator."""
    flows = tuple(Flow(host, "h3", duration_s=16.0) for host in ("h1", "h2"))
    tcp = Tcp("reno", segment_bytes=segment_bytes)
    experiment = Experiment(star(3, Link(10.0, 1.0, queue)), flows, 16.0, 1, Measure(queues=(PORT,)), tcp)
    both = emulate(experiment, tier="virtual"), simulate(experiment)
    kernel, simulator = (found.queues[found.queues.time_s > 11.0]["queue_packets"].mean() for found in both)
    return kernel, simulator


def test_red_adapts_its_probability_and_counts_packets_of_the_flows_size():
    """From a probability of a half, which keeps the queue at the lower threshold, towards the middle of both."""
    red = Red(200, 10, 50, max_probability=0.5)
    fixed, adaptive = average_of(red), average_of(replace(red, adaptive=True))
    small = average_of(red, segment_bytes=434)
    for kernel, simulator in (fixed, adaptive, small):
        assert kernel == pytest.approx(simulator, rel=0.2)
    assert adaptive[0] > 1.5 * fixed[0]
    wrong = average_of(replace(red, mean_packet_bytes=1514), segment_bytes=434)  # hold three times as many
    assert wrong[0] > 2 * small[0]


def halved_while_idle(average: int, idle_us: int, scale: int, table: bytes) -> int:
    """red_calc_qavg_from_idle_time of Linux's include/net/red.h."""
    idle_us = min(idle_us, 255 << scale)
    shift = table[(idle_us >> scale) & 255]
    if shift:
        return average >> shift
    lost = (average * idle_us) >> scale
    return average - lost if lost < average >> 1 else average >> 1


@pytest.mark.parametrize("weight_log", [0, 2, 5, 9, 12])
@pytest.mark.parametrize("rate_mbps", [0.064, 1.0, 45.0, 1000.0])
def test_while_the_link_is_idle_reds_average_falls_as_if_packets_found_no_queue(weight_log, rate_mbps):
    """(1 - weight)^packets (Floyd and Jacobson, Fig. 2), within a quarter of the average that it falls from."""
    packet_us, average = 8000 / rate_mbps, 10**6 << weight_log
    scale, table = _red_idle_table(weight_log, packet_us)
    assert len(table) == 256 and table[0] == 0 and max(table) < 32 and scale < 32
    for packets in np.unique(np.geomspace(1, 8 * 2**weight_log, 60).astype(int)):
        if packets * packet_us > 1e9:  # longer than any run
            continue
        found = halved_while_idle(average, int(packets * packet_us), scale, table) / average
        assert found == pytest.approx((1 - 2.0**-weight_log) ** packets, abs=0.5 if weight_log == 0 else 0.25)


def test_a_red_that_drops_nothing_is_refused_as_the_kernel_takes_0_for_always():
    with pytest.raises(NetreproError, match="max_probability = 0"):
        make_virtual_plan(star(3, Link(50.0, 1.0, Red(200, 20, 60, max_probability=0.0))), 1, None)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (Red(200, 20, 60, variant="floyd1993"), "Red with variant"),
        (Red(9000, 2000, 6000, weight=0.0002), "Red with max_threshold_packets = 6000"),
        (CoDel(variant="ns2_2012"), "CoDel with variant"),
        (FqCoDel(variant="rfc8290"), "FqCoDel with variant"),
        (Pie(variant="rfc8033"), "Pie with variant"),
        (CoDel(least_bytes=600), "CoDel with least_bytes"),
        (Pie(burst_ms=100.0), "Pie with burst_ms"),
        (Sfq(buckets=1000), "buckets = 1000"),
        (Sfq(packets=1), "packets = 1"),
        (Fq(flows=1000), "Fq with flows = 1000"),
        (Fq(quantum_bytes=2**21), "Fq with quantum_bytes"),
        (NicPacer(), "NicPacer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_queue_of_the_kernel_does_is_refused_by_name(queue, said):
    with pytest.raises(NetreproError, match=said):
        make_virtual_plan(star(3, Link(50.0, 1.0, queue)), 1, None)


def test_an_fq_is_refused_where_the_kernels_would_pace():
    wire, fq = Link(50.0, 1.0), Link(50.0, 1.0, Fq())
    at_host = Topology((Cable("h1", "s1", fq, wire), Cable("h2", "s1", wire)))
    with pytest.raises(NetreproError, match="Fq at a host's own port"):
        make_virtual_plan(at_host, 1, None)


def test_bursts_of_segmentation_offload_are_refused():
    bursting = Cable("h1", "s1", Link(50.0, 1.0, offload_bytes=65_536), Link(50.0, 1.0))
    network = Topology((bursting, Cable("h2", "s1", Link(50.0, 1.0))))
    with pytest.raises(NetreproError, match="h1 to s1: segmentation offload"):
        make_virtual_plan(network, 1, None)


def test_what_hosts_count_is_what_flows_and_links_had():
    """A queue that drops, one that marks, and datagrams; each host's kernel counts for itself."""
    lossy, marks = Link(20.0, 2.0, DropTail(packets=15)), Link(20.0, 2.0, EcnThreshold(100, 10))
    cables = (Cable("h1", "s1", Link(200.0, 1.0)), *(Cable("s1", f"h{i}", lossy) for i in (2, 4)))
    net = Topology((*cables, Cable("s1", "h3", marks)))
    flows = (Flow("h1", "h2", 2_000_000), Flow("h1", "h3", 2_000_000), Datagrams("h2", "h4", 1.0, 1.0))
    found = emulate(Experiment(net, flows, 3.0, tcp=Tcp("reno", ecn=True)), tier="virtual")
    hosts, links = found.hosts.set_index("host"), found.links_by_port
    assert list(hosts.index) == list(net.hosts)
    resent = found.flows["retransmitted_packets"]
    assert hosts["TcpRetransSegs"].to_dict() == {"h1": resent.sum(), "h2": 0, "h3": 0, "h4": 0}
    assert resent[0] > 10 and hosts["TcpExtTCPTimeouts"]["h1"] == found.flows["timeouts"].sum()
    assert hosts["IpExtInCEPkts"].to_dict() == {"h1": 0, "h2": 0, "h3": links["marked_packets"]["s1", "h3"], "h4": 0}
    assert hosts["IpExtInCEPkts"]["h3"] > 10
    arrived = found.flows["delivered_bytes"][2] / flows[2].packet_bytes
    assert hosts["UdpInDatagrams"]["h4"] == arrived > 50
    assert simulate(Experiment(net, flows, 0.1)).hosts.empty


def test_datagrams_above_the_lines_rate_get_the_lines_rate_and_no_more():
    found = emulate(Experiment(star(2, Link(10, 1)), [Datagrams("h1", "h2", 100, duration_s=1)], 3), tier="virtual")
    flow = found.flows.iloc[0]
    assert 9.5 < flow["goodput_mbps"] <= 10.01
    assert flow["delivered_bytes"] * 8e-6 > 10.5  # what had been queued came later


def test_recorded_packets_of_a_port_have_an_end(monkeypatch):
    monkeypatch.setattr(events, "MOST_SAMPLES", 50)
    asked = Experiment(star(2, Link(10, 1)), [Flow("h1", "h2", 200_000)], 1, measure=Measure(packets=[("s1", "h2")]))
    with pytest.raises(NetreproError, match=r"packets of a port are 50 or more\n.*slower port"):
        emulate(asked, tier="virtual")


def test_a_queue_may_be_told_at_every_change():
    """Samples are its last value; each change is of one packet, and every packet that left has joined before."""
    sampled = two_flows(100.0, 0.5)
    every = replace(sampled, measure=replace(sampled.measure, queue_interval_ms=0))
    found, told = (emulate(each, tier="virtual") for each in (sampled, every))
    assert digest(replace(found, queues=told.queues)) == digest(told)
    assert len(told.queues) > 2 * len(told.packets) and told.queues["time_s"].is_monotonic_increasing
    assert told.queues["queue_packets"].diff().abs().max() == 1
    last = pd.merge_asof(found.queues[["time_s"]], told.queues, on="time_s")["queue_bytes"].fillna(0)
    assert (last == found.queues["queue_bytes"]).all() and last.max() > 100_000
    with pytest.raises(NetreproError, match="every change"):
        simulate(every)


SMALL = star(3, Link(10.0, 5.0))


def test_programs_run_in_virtual_time_which_stands_still_while_the_caller_thinks():
    def answer_once(port: int) -> int:
        with socket.create_server(("0.0.0.0", port)) as server:
            connection, _ = server.accept()
            received = 0
            while content := connection.recv(65536):
                received += len(content)
            return received

    def ask(address: str, port: int) -> float:
        begun = time.monotonic()
        with socket.create_connection((address, port)) as connection:
            took = time.monotonic() - begun
            connection.sendall(bytes(100_000))
        return took

    with Emulation(SMALL, tier="virtual", seed=3) as net:
        server = net["h2"].start(answer_once, 5000)
        net.sleep(0.5)
        before = net.now_s
        time.sleep(0.3)
        assert net.now_s - before < 1e-6
        took_s = net["h1"].python(ask, net["h2"].address, 5000)
        assert took_s == pytest.approx(0.0202, abs=0.0002)  # 20 ms, and four SYNs' worth of bits
        assert server.result(5.0) == 100_000
        with pytest.raises(subprocess.TimeoutExpired):
            net["h1"].run(["sleep", "1000"], timeout=2.0)
        assert net["h1"].run(["sh", "-c", "sleep 500; echo $NAME"], environment={"NAME": "me"}).stdout == "me\n"
        with pytest.raises(NetreproError, match="status 3"):
            net["h3"].run(["sh", "-c", "exit 3"])
        with pytest.raises(NetreproError, match="No such file"):
            net["s1"].run(["no-such-program"])
        with pytest.raises(ZeroDivisionError):
            net["h1"].python(lambda: 1 // 0)


def test_a_link_goes_down_and_comes_back_slower():
    script = """
import socket, sys, time
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.settimeout(0.5)
for number in range(6):
    begun = time.monotonic()
    asker.sendto(bytes(972), (sys.argv[1], 7000))
    try:
        asker.recv(2000)
        print((time.monotonic() - begun) * 1e3)
    except TimeoutError:
        print("inf")
    time.sleep(max(begun + 1 - time.monotonic(), 0))
"""
    echo = """
import socket
answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
answers.bind(("0.0.0.0", 7000))
while True:
    answers.sendto(*answers.recvfrom(2000))
"""
    programs = [
        Program("h3", [sys.executable, "-c", echo]),
        Program("h1", [sys.executable, "ask.py", "10.0.0.3"], start_s=1.0),
    ]
    changes = [LinkChange(2.5, "h3", "s1", up=False), LinkChange(4.5, "h3", "s1", up=True, rate_mbps=1.0)]
    runs = [run_programs(SMALL, programs, 10.0, events=changes, files={"ask.py": script}) for _ in range(2)]
    echoes, asked = runs[0]
    assert echoes.returncode == -signal.SIGTERM and echoes.ended_s == pytest.approx(10.0, abs=0.01)
    # 1014 bytes take 0.811 ms at 10 Mb/s, 8.112 ms at 1 Mb/s; the system calls take a few microseconds.
    before, after = 4 * (5 + 0.8112), 2 * (5 + 0.8112) + 2 * (5 + 8.112)
    right_ms = [before, before, float("inf"), float("inf"), after, after]
    assert [float(line) for line in asked.output.split()] == pytest.approx(right_ms, abs=0.01)
    assert asked.returncode == 0 and asked.ended_s == pytest.approx(7.0, abs=0.1)
    assert runs[1][1].output == asked.output and runs[1][1].ended_s == asked.ended_s


SPINS = [sys.executable, "-c", "while True: pass"]


def test_a_program_that_never_waits_is_ended_and_named():
    with (
        pytest.raises(NetreproError, match=r"not advanced.*python -c 'while True: pass' on h1"),
        Emulation(SMALL, tier="virtual", patience_s=3.0) as net,
    ):
        net["h1"].run(SPINS)


def test_when_time_stands_still_all_programs_that_run_are_named_and_none_that_has_ended():
    later = "import time; time.sleep(1); [None for _ in iter(int, 1)]"
    programs = [
        Program("h1", ["true"]),
        Program("h2", ["sleep", "100"]),
        Program("s1", ["sleep", "101"], end_s=0.5),
        Program("h3", [sys.executable, "later.py"], start_s=1.0),
    ]
    with pytest.raises(NetreproError, match=r"not advanced.*while these programs run: ") as error:
        run_programs(SMALL, programs, 10.0, files={"later.py": later}, patience_s=3.0)
    assert error.value.problem.partition("run: ")[2] == f"sleep 100 on h2; {sys.executable} later.py on h3"


def test_traffic_in_which_time_stands_still_is_named(monkeypatch):
    class Impatient(Instance):
        def order(self, what, /, *more, **arguments):
            if what == "traffic":
                self._patience_s = 0.0
                self.spins.wait_s = 0.0
                monkeypatch.setattr(self._outside, "clock_ns", lambda: None)
            return super().order(what, *more, **arguments)

    monkeypatch.setattr("netrepro.emulation.virtual.experiment.Instance", Impatient)
    with pytest.raises(NetreproError, match=r"not advanced.*\(traffic from h1 to h3, h2 to h3, after 0%"):
        emulate_virtually(two_flows(100.0, 1.0))


OWN = """
#include <linux/module.h>
#include <net/tcp.h>

static u32 own_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd * 7 / 8, 2U);
}

static void own_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		tcp_slow_start(tp, acked);
	else
		tcp_cong_avoid_ai(tp, max(tp->snd_cwnd / 4, 1U), acked);
}

static struct tcp_congestion_ops own = {
	.ssthresh = own_ssthresh,
	.cong_avoid = own_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = "my_own",
	.owner = THIS_MODULE,
};

static int __init own_init(void)
{
	return tcp_register_congestion_control(&own);
}
module_init(own_init);
MODULE_LICENSE("GPL");
"""


def race() -> Experiment:
    """Describe a congestion control of one's own against CUBIC."""
    flows = (
        Flow("h1", "h3", duration_s=4.0, congestion_control="my_own"),
        Flow("h2", "h3", duration_s=4.0, congestion_control="cubic"),
    )
    return Experiment(star(3, Link(100.0, 2.0, DropTail(packets=100))), flows, 4.0)


def test_a_congestion_control_of_ones_own_is_compiled_and_raced():
    goodput = emulate_virtually(race(), modules={"my_own": OWN}).flows["goodput_mbps"].to_numpy()
    assert goodput.sum() == pytest.approx(95, abs=2) and goodput[0] > 2 * goodput[1]


def test_what_does_not_compile_is_shown_with_its_line():
    with pytest.raises(NetreproError, match=r"\.c:7:.*nothing"):
        emulate_virtually(race(), modules={"my_own": OWN.replace("2U", "nothing")})


def test_a_module_that_panics_ends_the_run_and_nothing_else():
    broken = OWN.replace("return max(tcp_sk(sk)->snd_cwnd * 7 / 8, 2U);", 'panic("no more");')
    ours = f"netrepro-virtual-{os.getpid()}-*"  # others may have theirs
    before = set(Path("/dev/shm").glob(ours))
    with pytest.raises(NetreproError, match=r"Kernel panic.*no more"):
        emulate_virtually(race(), modules={"my_own": broken})
    assert set(Path("/dev/shm").glob(ours)) <= before


def test_a_kernel_outlives_the_thread_that_opened_it():
    made: list[Instance] = []
    thread = threading.Thread(target=lambda: made.append(Instance(1)))
    thread.start()
    thread.join()
    with made[0] as opened:
        for _ in range(3):  # a signal would come between two orders
            assert opened.order("sleep", seconds=1)["monotonic_ns"] > 0


def test_a_kernel_ends_with_the_process_that_opened_it(tmp_path):
    script = """
import os, time
from netrepro.emulation.virtual.instance import Instance
opened = Instance(1)
print(opened.folder, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        folder = owner.stdout.readline().strip()
        assert folder and processes_that_name(folder)
        owner.kill()
    for _ in range(600):
        if not processes_that_name(folder):
            break
        time.sleep(0.1)
    assert not processes_that_name(folder)
    with Instance(1):  # whoever starts the next kernel, here or beside us, sweeps the folder away
        assert not Path(folder).exists()


def processes_that_name(folder: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found += [path.parent.name] if f"uml_dir={folder}/".encode() in path.read_bytes().split(b"\0") else []
    return found


def test_only_what_nobody_keeps_is_swept_away():
    """The processes of two folders cannot be seen; one is kept by a process of another namespace (here: ours)."""
    home, nobody = Path(instance.folder_for_memory()), 2**22 + 1  # above every process's number
    left, kept = (home / f"netrepro-virtual-{nobody}-{name}" for name in ("left", "kept"))
    for folder in (left, kept):
        folder.mkdir()
    descriptor = os.open(kept, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        with Instance(1) as other:
            assert other.folder.exists() and kept.exists() and not left.exists()
        assert not other.folder.exists()
    finally:
        os.close(descriptor)
        kept.rmdir()


def test_equal_paths_share_flows_and_a_dead_one_gets_none():
    topology = leaf_spine(2, 2, 4, Link(100.0, 0.05), Link(100.0, 0.05))
    flows = tuple(Flow(f"h{1 + i % 4}", f"h{5 + i // 4}", size_bytes=200_000, start_s=0.02 * i) for i in range(16))
    spines = [switch for switch in topology.switches if len(topology.graph[switch]) == 2]
    leaf = next(iter(topology.graph[spines[0]]))
    whole = emulate(Experiment(topology, flows, 3.0), tier="virtual").links_by_port
    shares = [whole.loc[(leaf, spine), "sent_bytes"] for spine in spines]
    assert min(shares) > 0.1 * sum(shares)
    cut = tuple(LinkChange(0.001, leaf, spines[0], up=False) for _ in range(1))
    found = emulate(Experiment(topology, flows, 3.0, changes=cut), tier="virtual")
    assert found.flows["completion_ms"].notna().all()
    assert found.links_by_port.loc[(leaf, spines[0]), "sent_bytes"] < 10_000


@pytest.mark.parametrize("control", ["reno", "cubic", "bbr", "bic", "vegas", "westwood"])
def test_each_congestion_control_fills_a_path(control):
    experiment = Experiment(star(2, Link(50.0, 5.0, DropTail(packets=200))), (Flow("h1", "h2", duration_s=4.0),), 4.0)
    found = emulate(replace(experiment, tcp=Tcp(control)), tier="virtual")
    assert found.flows["goodput_mbps"].iloc[0] > 35


def test_multipath_tcp_uses_both_paths():
    """Two addresses a host; the kernel's path manager opens the second subflow."""
    topology = Topology(
        (
            Cable("h1", "s1", Link(8.0, 5.0)),
            Cable("h1", "s2", Link(4.0, 20.0)),
            Cable("s1", "h2", Link(8.0, 5.0)),
            Cable("s2", "h2", Link(4.0, 20.0)),
        )
    )
    script = """
import socket, sys, time
begun = time.monotonic()
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as out:
    out.connect((sys.argv[1], 5000))
    for _ in range(80):
        out.sendall(bytes(100_000))
    out.shutdown(socket.SHUT_WR)
    out.recv(1)
print(8 * 8 / (time.monotonic() - begun))
"""
    answer = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as server:
    server.bind(("0.0.0.0", 5000)); server.listen()
    got, _ = server.accept()
    while got.recv(1 << 20):
        pass
    got.send(b"x")
"""
    paths = [("h1", "s1", "h2"), ("h1", "s2", "h2"), ("h2", "s1", "h1"), ("h2", "s2", "h1")]
    rates = []
    for subflows in (0, 1):
        with Emulation(topology, tier="virtual", seed=2, paths=paths) as net:
            first, second = map(net.path_address, paths[:2])
            net["h1"].run(["ip", "mptcp", "limits", "set", "subflows", "2", "add_addr_accepted", "2"])
            net["h2"].run(["ip", "mptcp", "limits", "set", "subflows", "2"])
            if subflows:
                net["h2"].run(["ip", "mptcp", "endpoint", "add", second, "signal"])
            server = net["h2"].popen([sys.executable, "-c", answer])
            net.sleep(0.5)
            rates.append(float(net["h1"].run([sys.executable, "-c", script, first]).stdout))
            server.kill()
    assert rates[0] < 8 and rates[1] > 1.2 * rates[0]


def test_the_command_line_says_where_the_kernel_is_and_builds_none_twice():
    netrepro = [sys.executable, "-m", "netrepro.workbench.cli.commands", "kernel"]
    path = subprocess.check_output([*netrepro, "path"], text=True).strip()
    assert Path(path) == kernel_path() and Path(path).stat().st_size <= 12e6
    assert path in subprocess.check_output([*netrepro, "build"], text=True)


def test_bgp_daemons_converge_as_programs():
    """BIRD on two hosts, unmodified; what one announces the other's own client shows."""
    if not shutil.which("bird"):
        pytest.skip("needs BIRD 2 (package bird2)")
    with Emulation(SMALL, tier="virtual") as net:
        addresses = [net[name].address for name in ("h1", "h2")]
        for name, number in (("h1", 0), ("h2", 1)):
            ours, theirs = addresses[number], addresses[1 - number]
            network = f"192.0.{2 + number}.0/24"
            settings = (
                f"router id {ours}; protocol device {{}}"
                f" protocol static {{ ipv4; route {network} blackhole; }}"
                f" protocol bgp {{ local {ours} as {65001 + number}; neighbor {theirs} as {65002 - number}; multihop;"
                " ipv4 { import all; export all; next hop self; }; }"
            )
            (net.folder / f"{name}.conf").write_text(settings)
            net[name].popen(["bird", "-f", "-c", f"{name}.conf", "-s", f"/run/{name}.ctl", "-P", f"/run/{name}.pid"])
        net.sleep(30.0)
        seen = net["h1"].run(["birdc", "-s", "/run/h1.ctl", "show", "route"]).stdout
    assert "192.0.3.0/24" in seen and "AS65002" in seen
