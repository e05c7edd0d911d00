"""MTU, send buffers and what else hosts have for themselves, in the kernel in virtual time as in the simulator."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, emulate
from netrepro.emulation.plan import make_plan
from netrepro.emulation.source_routes import connections
from netrepro.emulation.tcp import SEGMENT_MEMORY_BYTES
from netrepro.emulation.virtual.speech import speech_of
from netrepro.errors import NetreproError
from netrepro.networks.compiled import within_mtu
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import Cable, Topology, dumbbell, star
from netrepro.networks.workloads import Datagrams, Flow, Requests, Tcp
from netrepro.simulation import simulate

ROUND_TRIP_S, RATE_MBPS, SECONDS = 0.04, 100.0, 3.0
HEADERS_BYTES = 66  # of a segment on the wire, with time stamps


def lone(tcp: Tcp, mtu_bytes: int | None = None) -> Experiment:
    """A flow over 100 Mb/s and 40 ms, with a buffer that never fills."""
    link = Link(RATE_MBPS, ROUND_TRIP_S * 250, DropTail(packets=2000), mtu_bytes=mtu_bytes)
    flow = Flow("h1", "h2", duration_s=SECONDS)
    return Experiment(star(2, link), (flow,), SECONDS, tcp=tcp, measure=Measure(packets=(("s1", "h2"),)))


def on_virtual(experiment: Experiment) -> Measurements:
    return emulate(experiment, tier="virtual")


TIERS = [pytest.param(on_virtual, marks=needs_virtual, id="virtual"), pytest.param(simulate, id="simulated")]


def rate_after_start_mbps(found: Measurements, segment_bytes: int) -> float:
    """Payload of the segments that arrive from the first second on."""
    packets = found.packets
    count = ((packets.time_s >= 1) & (packets.size_bytes == segment_bytes + HEADERS_BYTES)).sum()
    return count * segment_bytes * 8e-6 / (SECONDS - 1)


@pytest.mark.parametrize("run", TIERS)
@pytest.mark.parametrize("segments", [30, 60, 120])
def test_a_send_buffer_bounds_the_rate_to_itself_over_the_round_trip(run, segments):
    """The kernel wakes a writer when a third of the buffer is free, so that a third is sent after the round trip."""
    held = segments * 1448
    rate_mbps = rate_after_start_mbps(run(lone(Tcp(send_buffer_bytes=held))), 1448)
    third_s = held / 3 * 8e-6 / RATE_MBPS if run is on_virtual else 0.0
    assert rate_mbps == pytest.approx(held * 8e-6 / (ROUND_TRIP_S + third_s), rel=0.03)


@pytest.mark.parametrize("run", TIERS)
def test_a_send_buffer_holds_whole_segments(run):
    """No more than a window of so many leaves in any round trip."""
    packets = run(lone(Tcp(send_buffer_bytes=8 * 1448 + 1000))).packets
    at = packets[packets.size_bytes == 1514].time_s.to_numpy()
    most = max(np.searchsorted(at, at + ROUND_TRIP_S, "left") - np.arange(len(at)))
    assert most == 8


@pytest.mark.parametrize("run", TIERS)
@pytest.mark.parametrize(
    ("mtu_bytes", "asked_bytes", "segment_bytes"),
    [(600, 1448, 548), (1500, 1448, 1448), (9000, 8948, 8948), (9000, 960, 960)],
)
def test_segments_are_those_that_were_asked_for_or_what_the_mtu_leaves(run, mtu_bytes, asked_bytes, segment_bytes):
    experiment = lone(Tcp(segment_bytes=asked_bytes), mtu_bytes)
    found = run(experiment)
    assert found.packets.size_bytes.max() == segment_bytes + HEADERS_BYTES
    assert found.packets.size_bytes.mode()[0] == segment_bytes + HEADERS_BYTES
    share = segment_bytes / (segment_bytes + HEADERS_BYTES)
    assert rate_after_start_mbps(found, segment_bytes) == pytest.approx(RATE_MBPS * share, rel=0.03)


@pytest.mark.parametrize("run", TIERS)
def test_the_smaller_of_both_hosts_mtus_counts(run):
    near, far = Link(100.0, 1.0, mtu_bytes=9000), Link(100.0, 1.0, mtu_bytes=1000)
    topology = Topology((Cable("h1", "s1", near), Cable("h2", "s1", far)))
    flows = Flow("h1", "h2", 200_000), Flow("h2", "h1", 200_000)
    experiment = Experiment(
        topology, flows, 1.0, tcp=Tcp(segment_bytes=8948), measure=Measure(packets=(("s1", "h1"), ("s1", "h2")))
    )
    found = run(experiment)
    assert found.packets.groupby("destination").size_bytes.max().to_list() == [1014, 1014]
    assert found.flows.delivered_bytes.to_list() == [200_000, 200_000]


NARROW = dumbbell(1, Link(100.0, 1.0), Link(50.0, 5.0, mtu_bytes=800))


@needs_virtual
def test_the_kernels_hosts_find_out_about_a_narrow_path():
    found = on_virtual(
        Experiment(NARROW, (Flow("h1", "h2", 500_000),), 2.0, measure=Measure(packets=(("h1", "s1"), ("s1", "s2"))))
    )
    largest = found.packets.groupby("source").size_bytes.max()
    assert largest["h1"] == 1514 and largest["s1"] == 814  # until a router says so
    assert found.flows.delivered_bytes.to_list() == [500_000]
    assert (found.hosts.set_index("host").loc["h1", "TcpRetransSegs"]) >= 1


def test_the_simulators_hosts_are_told_to_be_narrow_themselves():
    with pytest.raises(NetreproError, match=r"(?s)s1 to s2: mtu_bytes = 800.*virtual"):
        simulate(Experiment(NARROW, (Flow("h1", "h2", 500_000),), 2.0))
    small = Experiment(NARROW, (Flow("h1", "h2", 500_000),), 2.0, tcp=Tcp(segment_bytes=748))
    assert simulate(small).flows.delivered_bytes.to_list() == [500_000]
    with pytest.raises(NetreproError, match=r"(?s)Datagrams of 1514 bytes.*814 bytes or less"):
        simulate(Experiment(NARROW, (Datagrams("h1", "h2", 1.0, 0.1),), 2.0))


def pair(first: Tcp, second: Tcp, **more: object) -> Experiment:
    """Two flows of different hosts over 20 Mb/s and 50 ms, with room for both."""
    topology = dumbbell(2, Link(100.0, 1.0), Link(20.0, 23.0, DropTail(packets=1000)))
    flows = Flow("h1", "h3", duration_s=1.0, tcp=first), Flow("h2", "h4", duration_s=1.0, tcp=second)
    return Experiment(topology, flows, 1.0, measure=Measure(packets=(("s1", "s2"),)), **more)


@pytest.mark.parametrize("run", TIERS)
def test_hosts_have_their_own_initial_windows(run):
    found = run(pair(Tcp(initial_window_segments=4), Tcp(initial_window_segments=20)))
    data = found.packets[found.packets.size_bytes == 1514]
    first = data.groupby("flow").time_s.min().min()
    assert data[data.time_s < first + 0.045].groupby("flow").size().to_list() == [4, 20]


@pytest.mark.parametrize("run", TIERS)
def test_hosts_have_their_own_send_buffers_and_acknowledgements(run):
    """Where each segment is acknowledged at once, there are as many acknowledgements."""
    ways = Tcp(send_buffer_bytes=20 * 1448, delayed_ack_ms=0), Tcp(send_buffer_bytes=40 * 1448)
    experiment = replace(pair(*ways), measure=Measure(packets=(("s1", "s2"), ("s2", "s1"))))
    packets = run(experiment).packets
    data = packets[(packets.source == "s1") & (packets.size_bytes == 1514)].groupby("flow").size()
    acknowledgements = packets[packets.source == "s2"].groupby("flow").size()
    assert data[1] / data[0] == pytest.approx(2, rel=0.15)
    assert acknowledgements[0] / data[0] > 0.95 and acknowledgements[1] / data[1] < 0.65


@pytest.mark.parametrize("name", ["min_rto_ms", "initial_window_segments", "send_buffer_bytes"])
def test_flows_of_one_host_cannot_want_different_things_of_it(name):
    first, second = Tcp(), replace(Tcp(), **{name: 50_000 if name == "send_buffer_bytes" else 7})
    experiment = pair(first, second)
    speech_of(experiment, connections(experiment))
    flows = tuple(replace(flow, source="h1") for flow in experiment.traffic)
    with pytest.raises(NetreproError, match=rf"(?s)flows of h1 with {name}.*simulated"):
        speech_of(replace(experiment, traffic=flows), connections(experiment))


def test_who_asks_and_who_answers_are_told_all_that_a_connection_says():
    asked = Requests("h1", ("h3",), 100, 1000, 2, tcp=Tcp(min_rto_ms=10.0, delayed_ack_ms=0))
    experiment = replace(pair(Tcp(), Tcp()), traffic=(asked, Flow("h2", "h4", 1000)))
    told = speech_of(experiment, connections(experiment)).tcp_of_hosts
    assert {host: (told[host].min_rto_ms, told[host].delayed_ack_ms) for host in ("h1", "h3")} == {
        "h1": (10.0, 0.0),
        "h3": (10.0, 0.0),
    }
    assert (told["h2"].min_rto_ms, told["h4"].delayed_ack_ms) == (200.0, 40.0)


@needs_virtual
def test_programs_of_hosts_meet_the_settings_that_the_host_was_given():
    ask = """
import socket, struct, sys
with socket.create_connection(("10.0.0.2", 5000)) as connection:
    sent = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    print(sent, struct.unpack_from("I", info, 16)[0], struct.unpack_from("I", info, 80)[0])
"""
    listen = "import socket; s = socket.create_server(('', 5000)); [s.accept() for _ in range(2)]"
    own = {"h1": Tcp(initial_window_segments=4, send_buffer_bytes=20 * 1448)}
    with Emulation(star(3, Link(10.0, 5.0, mtu_bytes=700)), tier="virtual", tcp=own) as net:
        net["h2"].popen([sys.executable, "-c", listen])
        net.sleep(0.5)
        said = [net[host].run([sys.executable, "-c", ask]).stdout.split() for host in ("h1", "h3")]
    buffers, segments, windows = zip(*said, strict=True)
    assert int(buffers[0]) == 20 * (1448 + SEGMENT_MEMORY_BYTES) != int(buffers[1])
    assert segments == ("648", "648")
    assert windows == ("4", "10")
    with pytest.raises(NetreproError, match=r"no host 'h7'"):
        Emulation(star(2, Link(10.0, 5.0)), tier="virtual", tcp={"h7": Tcp()})
    with pytest.raises(NetreproError, match=r"(?s)hystart.*one for all"):
        Emulation(star(2, Link(10.0, 5.0)), tier="virtual", tcp={"h1": Tcp(), "h2": Tcp(hystart=False)})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Link(1.0, 0.0, mtu_bytes=127), "mtu_bytes = 127"),
        (lambda: Link(1.0, 0.0, mtu_bytes=65_536), "mtu_bytes = 65536"),
        (lambda: Link(1.0, 0.0, mtu_bytes=1e3), "mtu_bytes = 1000.0"),
        (lambda: Cable("h1", "h2", Link(1.0, 0.0, mtu_bytes=600), Link(1.0, 0.0)), "600 there and None back"),
        (lambda: Tcp(send_buffer_bytes=1447), "send_buffer_bytes = 1447"),
        (lambda: Tcp(send_buffer_bytes=2**60), "send_buffer_bytes"),
        (lambda: make_plan(star(2, Link(1.0, 0.0, mtu_bytes=600))), "(?s)mtu_bytes in real time.*virtual"),
        (lambda: make_plan(star(2, Link(1.0, 0.0)), tcp=Tcp(send_buffer_bytes=9000)), "send_buffer_bytes in real time"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(make, said):
    with pytest.raises(NetreproError, match=said):
        make()


def test_segments_get_no_larger_by_an_mtu():
    tcp = Tcp(segment_bytes=960)
    assert within_mtu(tcp, 9000, None) is tcp
    assert within_mtu(tcp, 9000, 600).segment_bytes == 548
