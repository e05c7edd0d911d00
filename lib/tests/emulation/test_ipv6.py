"""Networks over IPv6: the same addresses, routes and results as over IPv4, but for a header that is 20 bytes longer."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from scapy.layers.inet import TCP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.utils import rdpcap
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, emulate, ping_all
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Requests,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    leaf_spine,
)
from netrepro.networks.description import from_json, to_json
from netrepro.networks.workloads import CONTROLS_OF_LINKS
from netrepro.simulation import simulate

TIERS = [
    pytest.param("virtual", marks=needs_virtual),
    pytest.param(
        "rootless", marks=pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
    ),
]
SMALL = dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0))
BETWEEN = ("s1", "s2")


LONGER = dumbbell(1, Link(100.0, 1.0), Link(10.0, 5.0, DropTail(packets=60)))


def one_flow(topology: Topology = LONGER) -> Experiment:
    look = Measure(queues=(BETWEEN,), packets=(BETWEEN,), windows_interval_ms=50)
    return Experiment(topology, (Flow("h1", "h2", duration_s=6.0),), 6.0, measure=look, ipv6=True)


# Networks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
def test_a_network_with_ipv6_does_over_it_what_it_does_over_ipv4(tier):
    expected = {
        "h1 reaches h2": True,
        "h1->h2 path": "h1 s1 s2 h2",
        "h1->h2 through s2": True,
        "h1->h2 mtu": 1500,
        "h1->h2 loss at most": 0.5,
        "h1->h2 rate at least": 2,
        "h1 reaches h2:81": False,
    }
    over = {f"{phrase} over IPv6": value for phrase, value in expected.items()} | {"h1 address": "fd00::a00:1"}
    with Emulation(SMALL, tier, ipv6=True) as net:
        assert (net["h1"].address, net["h1"].ipv6_address) == ("10.0.0.1", "fd00::a00:1")
        found = net.check(expected | over)
        assert found.holds.all(), found
        assert (ping_all(net, ipv6=True).answered == 3).all()
        net.change_link(*BETWEEN, up=False)
        assert not net.check({"h1 reaches h2 over IPv6": True}).holds.any()


@needs_virtual
def test_a_network_without_ipv6_has_none_and_says_what_to_do():
    with Emulation(SMALL, "virtual") as net:
        assert net["h1"].run(["cat", "/proc/net/if_inet6"]).stdout == ""
        with pytest.raises(NetreproError, match=r"no IPv6 address of h1.*\n?.*ipv6=True"):
            net.check({"h1 reaches h2": True, "h1 reaches h2 over IPv6": True})


@needs_virtual
def test_nothing_but_what_programs_send_is_on_the_wire_and_a_ping_is_as_fast_as_its_bits(tmp_path):
    with Emulation(SMALL, "virtual", ipv6=True) as net, net.record(packets=[BETWEEN], captures=tmp_path):
        found = ping_all(net, ipv6=True)
        net.sleep(30.0)
    assert found.round_trip_ms.to_numpy() == pytest.approx(found.described_ms.to_numpy(), abs=0.01)
    packets = rdpcap(str(tmp_path / "s1-s2.pcap"))
    assert len(packets) == 6 and all(packet.haslayer(IPv6) for packet in packets)
    assert sum(packet.haslayer(ICMPv6EchoRequest) for packet in packets) == 3
    assert {packet[IPv6].src for packet in packets} == {"fd00::a00:1"}


@needs_virtual
def test_a_narrow_link_bounds_ipv6s_packets_and_too_narrow_a_one_is_refused():
    def network(mtu_bytes: int) -> Topology:
        return dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0, mtu_bytes=mtu_bytes))

    with Emulation(network(1280), "virtual", ipv6=True) as net:
        assert net.check({"h1->h2 mtu over IPv6": 1280, "h1->h2 rate at least over IPv6": 5}).holds.all()
    with pytest.raises(NetreproError, match="mtu_bytes = 1000, and IPv6 takes no less than 1280"):
        Emulation(network(1000), "virtual", ipv6=True)


# Experiments ----------------------------------------------------------------------------------------


def test_an_experiment_says_that_it_is_over_ipv6():
    assert from_json(to_json(one_flow())) == one_flow() != replace(one_flow(), ipv6=False)
    assert "IPv6" in one_flow()._repr_html_()
    with pytest.raises(NetreproError, match="60 bytes over IPv6"):
        Experiment(SMALL, (Datagrams("h1", "h2", 1.0, 1.0, packet_bytes=60),), 1.0, ipv6=True)
    assert one_flow().host_delay_ms == 0
    slow = replace(one_flow(), host_delay_packets=1)
    assert slow.host_delay_ms == replace(slow, ipv6=False).host_delay_ms == pytest.approx(1514 * 8e-4)


def test_the_simulators_full_packets_are_as_large_and_carry_20_bytes_less():
    over, before = simulate(one_flow()), simulate(replace(one_flow(), ipv6=False))
    assert over.packets["size_bytes"].max() == before.packets["size_bytes"].max() == 1514
    assert (over.windows["window_bytes"] % 1428 == 0).all()
    ratio = over.flows["goodput_mbps"][0] / before.flows["goodput_mbps"][0]
    assert ratio == pytest.approx(1428 / 1448, rel=0.002)
    small = replace(one_flow(), tcp=Tcp(segment_bytes=1000))
    assert simulate(small).packets["size_bytes"].max() == 1086
    back = simulate(replace(one_flow(), measure=Measure(packets=(BETWEEN[::-1],)))).packets
    assert back["size_bytes"].value_counts().idxmax() == 86  # acknowledgements


@needs_virtual
@pytest.mark.parametrize("tcp", [Tcp(), Tcp("reno"), Tcp("dctcp", ecn=True), Tcp(segment_bytes=1000)], ids=str)
def test_kernel_and_simulator_agree_over_ipv6_within_a_hundredth(tcp):
    queue = EcnThreshold(threshold_packets=20, packets=100) if tcp.ecn else DropTail(packets=60)
    asked = replace(one_flow(dumbbell(1, Link(100.0, 1.0), Link(10.0, 5.0, queue))), tcp=tcp)
    kernel, simulated = emulate(asked, "virtual"), simulate(asked)
    goodput = kernel.flows["goodput_mbps"][0]
    assert goodput == pytest.approx(simulated.flows["goodput_mbps"][0], rel=0.01)
    assert kernel.packets["size_bytes"].max() == simulated.packets["size_bytes"].max()
    assert (kernel.packets["flow"] == 0).all()
    before = emulate(replace(asked, ipv6=False), "virtual").flows["goodput_mbps"][0]
    segment = min(tcp.segment_bytes, 1428)
    ratio = segment / (segment + 86) * (tcp.segment_bytes + 66) / tcp.segment_bytes
    assert goodput / before == pytest.approx(ratio, rel=0.005)
    marked = [found.links_by_port["marked_packets"][BETWEEN] for found in (kernel, simulated)]
    assert marked == [0, 0] if not tcp.ecn else min(marked) > 0


@needs_virtual
def test_datagrams_requests_and_many_flows_go_over_ipv6_and_their_seed_gives_the_same_bytes(tmp_path):
    net = leaf_spine(2, 2, 2, Link(100.0, 0.1), Link(100.0, 0.1))
    traffic = (
        Datagrams("h1", "h4", 10.0, 0.5, packet_bytes=500),
        Requests("h1", ("h3", "h4"), 300, 20_000, count=5),
        *(Flow("h2", f"h{number}", size_bytes=50_000, start_s=0.01 * number) for number in (3, 4) * 3),
    )
    asked = Experiment(net, traffic, 1.0, seed=7, measure=Measure(packets=(("s1", "s3"), ("s1", "s4"))), ipv6=True)
    found, again = emulate(asked, "virtual", captures=tmp_path), emulate(asked, "virtual")

    def digest(measured) -> str:
        tables = (measured.flows, measured.links, measured.packets, measured.requests)
        return hashlib.sha256("".join(table.to_csv() for table in tables).encode()).hexdigest()

    assert digest(found) == digest(again)
    simulated = simulate(asked)
    for measured in (found, simulated):
        assert measured.flows["goodput_mbps"][0] == pytest.approx(10.0, rel=0.01)
        assert measured.requests["answered_s"].notna().all()
        assert (measured.flows["delivered_bytes"][3:] == 50_000).all()
    packets = [packet for name in ("s1-s3", "s1-s4") for packet in rdpcap(str(tmp_path / f"{name}.pcap"))]
    assert all(packet.haslayer(IPv6) for packet in packets)
    assert {packet[IPv6].dst for packet in packets if packet.haslayer(TCP)} >= {"fd00::a00:3", "fd00::a00:4"}
    used = found.packets.groupby(["source", "destination"])["flow"].nunique()
    assert len(used) == 2 and used.min() >= 2  # both spines carry some


@needs_virtual
def test_paths_and_new_routes_are_ipv6s_too():
    net = fat_tree(4, Link(100.0, 0.1))
    cut = (LinkChange(0.3, "s1", "s9", up=False), LinkChange(0.3, "s1", "s10", rate_mbps=50.0))
    flows = tuple(Flow("h1", "h16", duration_s=1.0 - 0.1 * place, start_s=0.1 * place) for place in range(3))
    for routing in ("ecmp", "k_shortest_paths"):
        found = emulate(Experiment(net, flows, 1.0, routing=routing, ipv6=True), "virtual")
        assert (found.flows["goodput_mbps"] > 5).all()
    changed = emulate(Experiment(net, flows, 1.0, changes=cut, ipv6=True), "virtual")
    assert (changed.flows["goodput_mbps"] > 5).all()


@needs_virtual
def test_what_does_not_go_over_ipv6_is_refused_by_name():
    split = Flow("h1", "h2", size_bytes=1000, subflows=2, congestion_control="lia")
    with pytest.raises(NetreproError, match="subflows over IPv6"):
        emulate(Experiment(SMALL, (split,), 1.0, ipv6=True), "virtual")
    for name in CONTROLS_OF_LINKS:
        told = Flow("h1", "h2", size_bytes=1000, congestion_control=name)
        with pytest.raises(NetreproError, match=f"{name} over IPv6"):
            simulate(Experiment(SMALL, (told,), 1.0, ipv6=True))


@pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
def test_the_machines_own_kernel_sends_over_ipv6_too():
    found = emulate(one_flow(dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0, DropTail(packets=60)))), "rootless")
    assert found.packets["size_bytes"].max() == 1514 and (found.packets["flow"] == 0).mean() > 0.99
    assert found.flows["goodput_mbps"][0] == pytest.approx(10 * 1428 / 1514, rel=0.1)
