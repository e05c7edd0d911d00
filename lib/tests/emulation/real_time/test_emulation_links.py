"""Queues and fidelity of emulated links, against arithmetic, pyroute2 and synthetic packets."""

from __future__ import annotations

import platform
import socket
import sys
from dataclasses import replace

import cloudpickle
import numpy as np
import pytest
from emulation_traffic import emulation, needs, rootless, transfer
from hypothesis import given
from hypothesis import strategies as st

from netrepro.emulation import messages
from netrepro.emulation.fidelity import Interval, deviation_in, inter_dequeue_deviation, intervals, port_checks
from netrepro.emulation.messages import Interface, NextHop
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Link, dumbbell, star
from netrepro.networks.checks import CHECK_COLUMNS, check_table

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = rootless
FAST = Link(100, 0)


def datagrams(net, source: str, destination: str) -> tuple[socket.socket, socket.socket]:
    """Two UDP sockets, one to send with, one that the datagrams arrive at."""
    sender = net[source].socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver = net[destination].socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    receiver.bind(("", 7000))
    sender.connect((net[destination].address, 7000))
    return sender, receiver


def received(receiver: socket.socket, patience_s: float = 1.0) -> list[bytes]:
    """All datagrams until none comes for a while."""
    receiver.settimeout(patience_s)
    found = []
    try:
        while True:
            found.append(receiver.recv(2048))
    except TimeoutError:
        return found


def test_the_very_first_packets_arrive_because_building_waits_for_the_links():
    for _ in range(4):
        with emulation(dumbbell(1, FAST, FAST)) as net:
            sender, receiver = datagrams(net, "h1", "h2")
            with sender, receiver:
                for number in range(20):
                    sender.send(bytes([number]))
                assert received(receiver, 0.2) == [bytes([number]) for number in range(20)]


# Queues -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [DropTail(packets=40), DropTail(bytes=40 * 1514)])
def test_a_burst_fills_the_buffer_and_what_is_beyond_is_dropped(limit):
    with emulation(dumbbell(1, Link(1000, 0), Link(0.5, 0, limit))) as net:
        sender, receiver = datagrams(net, "h1", "h2")
        with sender, receiver, net.record(queues=[("s1", "s2")]) as seen:
            for _ in range(200):
                sender.send(bytes(1472))
            arrived = len(received(receiver))
    queues, links = seen.queues(), seen.links().set_index(["source", "destination"]).loc["s1", "s2"]
    assert queues["queue_packets"].max() == 40
    assert queues["queue_bytes"].max() == 40 * 1514
    assert links.sent_packets == arrived and links.sent_bytes == arrived * 1514
    assert links.sent_packets + links.dropped_packets == 200


def test_what_a_recording_says_of_a_link_agrees_with_the_packets_it_stamped():
    with emulation(dumbbell(1, FAST, Link(10, 0))) as net:
        with net.record(packets=[("s1", "s2")], interval_ms=2) as seen:
            transfer(net, "h1", "h2", 500_000)
        with pytest.raises(NetreproError, match="were not recorded"):
            seen.certificate("s2", "s1")
    packets, links = seen.packets(), seen.links().set_index(["source", "destination"]).loc["s1", "s2"]
    assert packets["size_bytes"].sum() == links.sent_bytes and len(packets) == links.sent_packets
    assert packets["time_s"].is_monotonic_increasing and packets["size_bytes"].max() == 1514
    throughput = seen.throughput(window_ms=100)
    busiest = throughput["throughput_mbps"].max()
    assert 9 < busiest < 10 * 1.05
    assert 0 < links.utilisation < 1.01


def test_a_recording_says_when_its_ring_was_too_small_and_is_not_trusted():
    with emulation(dumbbell(1, FAST, Link(50, 0))) as net:
        with net.record(packets=[("s1", "s2")], most_packets=512) as seen:
            transfer(net, "h1", "h2", 2_000_000)
        with pytest.raises(NetreproError, match="no cable"):
            net.record(queues=[("h1", "h2")])
        with pytest.raises(NetreproError, match="interval"):
            net.record(queues=[("s1", "s2")], interval_ms=0)
    assert len(seen.packets()) == 512
    checks = seen.certificate("s1", "s2").set_index("check")
    assert f"tier rootless, kernel {platform.release()}" in checks.index
    assert checks.loc["packets missed", "value"] > 0 and not checks.loc["packets missed", "holds"]


def test_a_recording_cannot_be_read_before_it_ends():
    with emulation(star(2, FAST)) as net:
        seen = net.record(queues=[("s1", "h1")])
        with seen, pytest.raises(NetreproError, match="has not ended"):
            seen.queues()
        assert len(seen.queues()) >= 2


@pytest.mark.parametrize(("most_packets", "says"), [(0, "room for 0 packets"), (10**9, "no room to record 1000000000")])
def test_room_for_packets_that_cannot_be_had_is_refused(most_packets, says):
    with emulation(star(2, FAST)) as net:
        with pytest.raises(NetreproError, match=says), net.record(packets=[("s1", "h1")], most_packets=most_packets):
            pass
        assert transfer(net, "h1", "h2", 1000)[0] == 1000


def test_a_link_whose_queue_was_taken_away_cannot_be_recorded_and_the_network_lives_on():
    needs("tc")
    with emulation(star(2, FAST)) as net:
        net["s1"].run(["tc", "qdisc", "del", "dev", "s1-eth1", "root"])
        with pytest.raises(NetreproError, match="the link from s1 to h1 has lost its queue"):
            net.record(queues=[("s1", "h1")]).__enter__()
        assert transfer(net, "h1", "h2", 1000)[0] == 1000


def test_a_recording_whose_sampler_was_killed_meanwhile_is_an_error():
    with emulation(dumbbell(1, FAST, Link(10, 0))) as net:
        seen = net.record(queues=[("s1", "s2")])
        with pytest.raises(NetreproError, match="ended early, with status -9"), seen:
            net["h1"].run(["sh", "-c", f"kill -KILL {seen._sampler}; sleep 0.1"])


def test_the_blocks_own_error_is_not_hidden_by_a_network_that_has_ended():
    with emulation(star(2, FAST)) as net, pytest.raises(KeyboardInterrupt), net.record(queues=[("s1", "h1")]):
        net.close()
        raise KeyboardInterrupt


# The certificate --------------------------------------------------------------------------------------


def ideal_packets(count: int, rate_mbps: float) -> tuple[np.ndarray, np.ndarray]:
    size_bytes = np.full(count, 1514)
    return np.arange(count) * 1514 * 8 / (rate_mbps * 1e6), size_bytes


@given(st.floats(1, 1000), st.floats(0, 0.5), st.integers(0, 2**31))
def test_a_link_is_trusted_exactly_when_enough_gaps_are_within_10_percent(rate_mbps, shaken, seed):
    time_s, size_bytes = ideal_packets(1001, rate_mbps)
    gap_s = np.diff(time_s)
    random = np.random.default_rng(seed)
    wrong = random.random(1000) < shaken
    gap_s = gap_s * np.where(wrong, random.choice([0.8, 1.2], 1000), random.uniform(0.95, 1.05, 1000))
    time_s = np.concatenate([[0.0], np.cumsum(gap_s)])
    found = inter_dequeue_deviation(time_s, size_bytes, rate_mbps, np.array([0.0]), np.array([1001]))
    assert len(found.deviation) == 1000
    checks = check_table(port_checks(found)).set_index("check")
    assert checks.loc["share of gaps within 10 %", "value"] == pytest.approx(1 - wrong.mean(), abs=0.002)
    assert checks.loc["share of gaps within 10 %", "holds"] == (
        checks.loc["share of gaps within 10 %", "value"] >= 0.95
    )
    assert found.rate_share == pytest.approx(1000 * 1514 * 8 / (rate_mbps * 1e6) / time_s[-1])


@pytest.mark.parametrize(("rate_share", "holds"), [(0.952, False), (0.975, False), (0.985, True)])
def test_a_link_slower_than_it_should_be_is_not_trusted_though_each_gap_is_within_10_percent(rate_share, holds):
    time_s, size_bytes = ideal_packets(1001, 100)
    found = inter_dequeue_deviation(time_s / rate_share, size_bytes, 100, np.array([0.0]), np.array([1001]))
    checks = check_table(port_checks(found)).set_index("check")
    assert found.rate_share == pytest.approx(rate_share) and checks.loc["share of gaps within 10 %", "holds"]
    assert checks.loc["share of the rate achieved while busy", "holds"] == holds == checks["holds"].all()


def test_a_gap_counts_when_both_its_packets_were_seen_to_wait():
    time_s, size_bytes = ideal_packets(100, 10)
    time_s[50:] += 1.0  # nothing to send for a second
    samples = np.array([0.0, time_s[19] + 1e-4, time_s[49] + 0.5, time_s[59] + 1e-4])
    found = inter_dequeue_deviation(time_s, size_bytes, 10, samples, np.array([5, 30, 0, 3]))
    assert len(found.deviation) == 4 + 29 + 2  # packets 0 to 4, 20 to 49, 60 to 62
    assert found.deviation.max() < 1e-6
    wrong = inter_dequeue_deviation(time_s, size_bytes, 10, samples, np.array([5, 31, 0, 3]))
    assert wrong.deviation.max() > 100  # the pause counts once a packet is said to have waited all along


@given(st.lists(st.floats(0.001, 3.0), min_size=2, max_size=60), st.integers(0, 2**31))
def test_only_gaps_of_a_link_that_is_never_idle_count(spacings, seed):
    """A queue is simulated packet by packet and sampled at random times: every gap that counts is the link's own."""
    arrival = np.cumsum(spacings)  # in units of a transmission
    departure = np.empty_like(arrival)  # when transmission begins
    free = 0.0
    for number, came in enumerate(arrival):
        departure[number] = max(came, free)
        free = departure[number] + 1
    samples = np.sort(np.random.default_rng(seed).uniform(0, departure[-1], 20))
    waiting = np.array([np.sum((arrival <= at) & (departure >= at)) for at in samples])
    size_bytes = np.full(len(departure), 125)  # 1 ms at 1 Mb/s
    found = inter_dequeue_deviation(departure * 1e-3, size_bytes, 1.0, samples * 1e-3, waiting)
    assert np.all(found.deviation < 1e-6)


def test_gaps_are_judged_by_the_rate_in_force_and_not_those_in_which_it_changed():
    slow, size_bytes = ideal_packets(200, 10)
    fast, _ = ideal_packets(200, 40)
    time_s, sizes = np.concatenate([slow, slow[-1] + 0.003 + fast]), np.concatenate([size_bytes, size_bytes])
    changed = Interval(slow[-1] + 1e-4, slow[-1] + 2e-3, 40)
    samples, waiting = np.array([0.0, changed.to_s + 5e-4]), np.array([400, 200])
    found = deviation_in(intervals(10, [changed]), time_s, sizes, samples, waiting)
    assert len(found.deviation) == 199 + 199 and found.deviation.max() < 1e-6
    assert found.rate_share == pytest.approx(1) and check_table(port_checks(found))["holds"].all()
    by_the_first = inter_dequeue_deviation(time_s, sizes, 10, samples, waiting)
    assert not check_table(port_checks(by_the_first))["holds"].all()
    # A rate that the link did not take is found out.
    kept = deviation_in(intervals(10, [replace(changed, rate_mbps=20)]), time_s, sizes, samples, waiting)
    assert not check_table(port_checks(kept))["holds"].all()


def test_what_waited_when_a_link_broke_is_not_said_to_wait_when_it_is_mended():
    time_s, size_bytes = ideal_packets(200, 10)
    time_s[100:] += 1.0  # dropped, and sent again later
    down, up = (Interval(at_s, at_s + 1e-4, 10) for at_s in (time_s[99] + 1e-4, time_s[100] - 1e-3))
    samples, waiting = np.array([0.0, time_s[100] - 5e-4]), np.array([150, 3])
    found = deviation_in(intervals(10, [down, up]), time_s, size_bytes, samples, waiting)
    assert len(found.deviation) == 99 + 2 and found.deviation.max() < 1e-6
    assert inter_dequeue_deviation(time_s, size_bytes, 10, samples, waiting).deviation.max() > 100


def test_too_little_to_judge_is_not_trusted():
    found = inter_dequeue_deviation(np.array([0.0]), np.array([1514]), 10, np.array([]), np.array([]))
    checks = check_table(port_checks(found))
    assert not checks["holds"].all() and list(checks.columns) == CHECK_COLUMNS


# Messages against a second encoder --------------------------------------------------------------------


def test_messages_say_what_pyroute2_reads_in_them():
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    def decoded(kind, request):
        message = kind(request.message)
        message.decode()
        return message

    pair = decoded(ifinfmsg, messages.new_pair(Interface("a", 7, 101), Interface("b", 9, 102), b"\x02\0\0\0\0\x05"))
    assert (pair["index"], pair.get_attr("IFLA_IFNAME"), pair.get_attr("IFLA_GSO_MAX_SEGS")) == (7, "a", 1)
    assert pair.get_attr("IFLA_ADDRESS") == "02:00:00:00:00:05"
    peer = pair.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA", "VETH_INFO_PEER")
    assert (peer["index"], peer.get_attr("IFLA_IFNAME"), peer.get_attr("IFLA_NET_NS_FD")) == (9, "b", 102)
    hops = [NextHop(2, socket.inet_aton("10.9.0.1")), NextHop(3, None)]
    route = decoded(rtmsg, messages.new_route(socket.inet_aton("10.0.0.1"), hops, None, "cubic"))
    assert (route["dst_len"], route.get_attr("RTA_DST")) == (32, "10.0.0.1")
    ways = route.get_attr("RTA_MULTIPATH")
    assert [way["oif"] for way in ways] == [2, 3] and ways[0].get_attr("RTA_GATEWAY") == "10.9.0.1"
    shaper = decoded(tcmsg, messages.new_shaper(4, 1_250_000, 1760, 30_000))
    options = shaper.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")
    assert (shaper["index"], options["rate"], options["limit"]) == (4, 1_250_000, 30_000)


@given(st.lists(st.integers(0, 40_000), max_size=40))
def test_batches_hold_every_message_once_in_order_and_ask_for_one_answer_each(lengths):
    requests = [
        messages.NetlinkRequest(b"".join([(16 + size).to_bytes(4, "little"), bytes(12 + size)]), "") for size in lengths
    ]
    found = messages.batches(requests)
    numbers, asked = [], []
    for buffer, last in found:
        start = 0
        while start < len(buffer):
            length = int.from_bytes(buffer[start : start + 4], "little")
            numbers.append(int.from_bytes(buffer[start + 8 : start + 12], "little"))
            asked += [numbers[-1]] if buffer[start + 6] & messages.ACKNOWLEDGE else []
            start += length
        assert numbers[-1] == last
    assert numbers == list(range(1, len(lengths) + 1)) and asked == [last for _, last in found]
