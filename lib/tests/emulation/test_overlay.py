"""The overlay's network and ONCache's programs on this machine's kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netrepro.emulation.overlay.iptables import iptables_program
from netrepro.emulation.overlay.network import (
    CACHES,
    Cache,
    Overlay,
    OverlayNetwork,
    missing_for_kube_proxy,
    missing_for_overlays,
)
from netrepro.errors import NetreproError
from netrepro.protocols import oncache as model

MISSING = missing_for_overlays()
needs_root = pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")


def test_bad_descriptions_are_refused_by_name():
    for overlay, name in (
        (Overlay(tunnel="gre"), "tunnel"),
        (Overlay(rules=-1), "rules"),
        (Overlay(packet_bytes=9000), "packet_bytes"),
        (Overlay(netfilter="nftables"), "netfilter"),
        (Overlay(netfilter="nothing", cache=Cache()), "cache"),
        (Overlay(cache=Cache(filter_entries=0)), "filter_entries"),
        (Overlay(cache=Cache(constant_port=1 << 16)), "constant_port"),
    ):
        with pytest.raises(NetreproError, match=name):
            OverlayNetwork(overlay)


@needs_root
def test_the_programs_count_hits_misses_and_lessons_as_the_model_does():
    """Differential: the same exchanges, the same counters, at both hosts; with marks and without."""
    for marks in (True, False):
        with OverlayNetwork(Overlay(cache=Cache(), marks=marks)) as net:
            hosts, request = model.two_hosts(marks=marks), model.Packet("a", "b", 700, 800)
            with net.conversation(700, 800) as flow:
                for times in (1, 1, 1, 5):
                    assert flow.exchange(times) == 2 * times
                    model.exchange(hosts, request, times)
                    for number in (1, 2):
                        wanted = {name: hosts[str(number)].counters[name] for name in net.counters(number)}
                        assert net.counters(number) == wanted
            assert [len(net.entries(1, cache)) for cache in CACHES] == ([1] * 4 if marks else [0, 0, 1, 0])


@needs_root
def test_tcp_passes_the_fast_path_whole_and_a_deleted_flow_is_refused():
    with OverlayNetwork(Overlay(cache=Cache(), steering=True, segmentation=False)) as net:
        assert net.run_traffic("tcp_stream", 0.1).count > 1e5
        assert net.run_traffic("tcp_rr", 0.1, flows=4).count > 100
        assert net.run_traffic("udp_rr", 0.1, flows=2, one_processor=True).count > 100
        counted = net.counters(1)
        assert counted["egress_hit"] > 20 * counted["egress_miss"]
        with net.conversation(700, 800) as flow:
            flow.exchange(4)
            assert flow.is_fast()
            net.refuse(800)
            assert flow.exchange(2) == 0
        with pytest.raises(NetreproError, match="kind"):
            net.run_traffic("sctp", 0.1)


@needs_root
def test_8_kb_take_the_fast_path_in_one_packet_and_the_overlay_in_fragments():
    for packet_bytes, fast in ((8220, True), (1450, False)):
        with OverlayNetwork(Overlay(cache=Cache(), segmentation=False, packet_bytes=packet_bytes)) as net:
            received = net.run_traffic("udp_stream", 0.1, datagram_bytes=8192).count
            assert received > 100
            assert (net.counters(1)["egress_hit"] > received) == fast
            with pytest.raises(NetreproError, match="datagram_bytes"):
                net.run_traffic("udp_stream", 0.1, datagram_bytes=1)


@needs_root
def test_bare_hosts_track_connections_only_with_netfilter_and_pass_kube_proxys_rules():
    tracked, passed = {}, {}
    for netfilter in ("nothing", "overlay", *([] if missing_for_kube_proxy() else ["kube-proxy"])):
        with OverlayNetwork(Overlay(netfilter=netfilter)) as net:
            assert net.run_traffic("udp_rr", 0.05, bare=True).count > 100
            asked = net.inside(net.host(2), ["sysctl", "-n", "net.netfilter.nf_conntrack_count"])
            tracked[netfilter] = int(asked) > 0
            listed = (
                net.inside(net.host(2), [iptables_program(), "-xnvL", "INPUT"]) if netfilter == "kube-proxy" else ""
            )
            passed[netfilter] = [int(line.split()[0]) for line in listed.splitlines() if "KUBE-FIREWALL" in line]
    assert tracked.pop("nothing") is False
    assert all(tracked.values())
    assert not passed.get("kube-proxy") or passed["kube-proxy"][0] > 100


@needs_root
def test_nothing_is_left_behind():
    with OverlayNetwork(Overlay(cache=Cache())) as net:
        name = net.name
        assert Path("/run/netns", net.host(1)).exists()
    assert not list(Path("/run").glob(f"{name}*"))
    assert not list(Path("/run/netns").glob(f"{name}*"))
    assert name.startswith(f"nrov{os.getpid()}x")
