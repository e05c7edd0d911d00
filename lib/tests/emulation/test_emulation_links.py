"""Delay, loss, queues and fidelity of emulated links, against arithmetic, pyroute2 and synthetic packets."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
import time
from dataclasses import replace

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from emulation_traffic import emulation, needs, rootless, send, serve, transfer
from hypothesis import given
from hypothesis import strategies as st

from netrepro.emulation import messages
from netrepro.emulation.fidelity import (
    BETWEEN_INTERRUPTIONS,
    Interval,
    deviation_in,
    inter_dequeue_deviation,
    intervals,
    machine_checks,
    port_checks,
)
from netrepro.emulation.messages import Interface, NextHop
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, EcnThreshold, Link, dumbbell, star

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.timeout(60), rootless]
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


def stamp_arrivals(count: int, port: int = 7001):
    """Inside a host: the wall-clock time between each datagram's sending and its arrival, in ms."""
    import socket
    import struct
    import time

    waits = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("", port))
        receiver.settimeout(20)
        for _ in range(count):
            sent = struct.unpack("d", receiver.recv(64)[:8])[0]
            waits.append((time.time() - sent) * 1000)
    return waits


def send_stamps(address: str, count: int, port: int = 7001):
    import socket
    import struct
    import time

    time.sleep(0.3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(count):
            sender.sendto(struct.pack("d", time.time()), (address, port))
            time.sleep(0.002)


@pytest.mark.parametrize("delay_ms", [0.0, 1.0])
def test_the_very_first_packets_arrive_because_building_waits_for_the_links(delay_ms):
    for _ in range(4):
        with emulation(dumbbell(1, FAST, Link(100, delay_ms))) as net:
            sender, receiver = datagrams(net, "h1", "h2")
            with sender, receiver:
                for number in range(20):
                    sender.send(bytes([number]))
                assert received(receiver, 0.2) == [bytes([number]) for number in range(20)]


# Delay and loss ---------------------------------------------------------------------------------------


def test_no_packet_arrives_before_its_delay_and_the_directions_have_their_own():
    from netrepro.networks import Cable, Topology

    topology = Topology((Cable("h1", "s1", Link(100, 20), Link(100, 5)), Cable("h2", "s1", FAST)))
    with emulation(topology) as net:
        for source, destination, delay_ms in (("h1", "h2", 20), ("h2", "h1", 5)):
            arrivals = net[destination].start(stamp_arrivals, 50)
            net[source].python(send_stamps, net[destination].address, 50)
            waits = np.array(arrivals.result(30))
            assert waits.min() >= delay_ms
            assert waits.min() < delay_ms + 5  # the least delayed of 50, so hardly a matter of load
        counters = net.relay.counters().set_index(["source", "destination"])
        assert counters.loc[("h1", "s1"), "forwarded_packets"] >= 50
        assert counters["failed_packets"].sum() == 0 and net.relay.missed_packets == 0


def broken_checksums():
    """Of the TCP segments that reach this host: how many do not add up."""
    import pathlib

    lines = [line.split() for line in pathlib.Path("/proc/net/snmp").read_text().splitlines() if line[:4] == "Tcp:"]
    return int(dict(zip(*lines, strict=True))["InCsumErrors"])


def test_tcp_passes_the_relay_whole_because_senders_finish_checksums(monkeypatch):
    with emulation(star(2, Link(100, 1))) as net:
        assert transfer(net, "h1", "h2", 100_000)[0] == 100_000
        assert net["h2"].python(broken_checksums) == 0
    monkeypatch.setattr("netrepro.emulation.plan.Plan.relayed_interfaces", {})
    with emulation(star(2, Link(100, 1))) as net:
        net["h2"].start(serve)
        sender = net["h1"].start(send, net["h2"].address, 100)
        with pytest.raises(subprocess.TimeoutExpired):
            sender.result(1.5)
        assert net["h2"].python(broken_checksums) > 0


def test_delayed_tcp_moves_all_bytes_in_both_directions():
    with emulation(dumbbell(1, Link(100, 1), Link(50, 2))) as net:
        assert transfer(net, "h1", "h2", 500_000)[0] == 500_000
        assert transfer(net, "h2", "h1", 500_000)[0] == 500_000
        time.sleep(0.2)  # the last acknowledgements are under way
        lateness = net.relay.lateness()
        counters = net.relay.counters()
        assert lateness["packets"].sum() == (counters.forwarded_packets + counters.dropped_packets).sum()


def test_packets_of_a_direction_keep_their_order():
    with emulation(star(2, Link(1000, 3))) as net:
        sender, receiver = datagrams(net, "h1", "h2")
        with sender, receiver:
            for number in range(300):
                sender.send(number.to_bytes(4, "big"))
            assert [int.from_bytes(each, "big") for each in received(receiver)] == list(range(300))


def losses(net, count: int) -> list[int]:
    sender, receiver = datagrams(net, "h1", "h2")
    with sender, receiver:
        arrived = set()
        for number in range(count):
            sender.send(number.to_bytes(4, "big"))
            if number % 100 == 99:  # a receive buffer does not hold them all
                arrived |= {int.from_bytes(each, "big") for each in received(receiver, 0.03)}
        arrived |= {int.from_bytes(each, "big") for each in received(receiver, 0.3)}
    return [number for number in range(count) if number not in arrived]


def test_losses_come_at_their_rate_and_again_with_the_same_seed():
    found = []
    for seed, delay_ms in ((1, 1), (1, 0), (2, 1)):
        topology = dumbbell(1, FAST, Link(100, delay_ms, DropTail(packets=3000), loss=0.1))
        with emulation(topology, seed=seed) as net:
            found.append(losses(net, 1000))
            lost = net.relay.counters().set_index("source").loc["s1", "lost_packets"]
            assert lost == len(found[-1])
    assert found[0] == found[1] != found[2]
    deviation = (1000 * 0.1 * 0.9) ** 0.5
    assert abs(len(found[0]) - 100) < 4 * deviation


def burst_through_a_relay(most_sockets: int | None, monkeypatch) -> tuple[int, int]:
    """Datagrams that arrive of 600 sent at once into a buffer of 800, and the relay's sockets."""
    if most_sockets:
        monkeypatch.setattr("netrepro.emulation.relay._sockets", lambda plan: most_sockets)
    with emulation(dumbbell(1, Link(1000, 0), Link(10, 1, DropTail(packets=800)))) as net:
        sender, receiver = datagrams(net, "h1", "h2")
        with sender, receiver:
            for _ in range(600):
                sender.send(bytes(1400))
            return len(received(receiver)), net.relay.sockets


def test_the_buffer_behind_the_relay_is_as_large_as_asked_because_sockets_are_added(monkeypatch):
    arrived, sockets = burst_through_a_relay(None, monkeypatch)
    assert arrived == 600 and sockets > 1
    arrived, sockets = burst_through_a_relay(1, monkeypatch)
    assert arrived < 600 and sockets == 1  # one socket's own buffer is full first


# Queues -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay_ms", [0.0, 2.0])
@pytest.mark.parametrize("limit", [DropTail(packets=40), DropTail(bytes=40 * 1514)])
def test_a_burst_fills_the_buffer_and_what_is_beyond_is_dropped(limit, delay_ms):
    with emulation(dumbbell(1, Link(1000, 0), Link(0.5, delay_ms, limit))) as net:
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


@pytest.mark.parametrize(("of", "says"), [("sampler", "ended early, with status -9"), ("relay", "its process ended")])
def test_a_recording_whose_sampler_or_relay_was_killed_meanwhile_is_an_error(of, says):
    with emulation(dumbbell(1, FAST, Link(10, 1))) as net:
        seen = net.record(queues=[("s1", "s2")])
        with pytest.raises(NetreproError, match=says), seen:
            process = net.relay.process if of == "relay" else seen._sampler
            net["h1"].run(["sh", "-c", f"kill -KILL {process}; sleep 0.1"])


def test_the_blocks_own_error_is_not_hidden_by_a_network_that_has_ended():
    with emulation(star(2, FAST)) as net, pytest.raises(KeyboardInterrupt), net.record(queues=[("s1", "h1")]):
        net.close()
        raise KeyboardInterrupt


def test_a_second_recording_at_a_time_is_refused_where_the_relay_samples_and_the_first_goes_on():
    with emulation(dumbbell(1, FAST, Link(0.5, 2, EcnThreshold(100, 50)))) as net:
        with net.record(queues=[("s1", "s2")], interval_ms=2) as seen:
            with pytest.raises(NetreproError, match="a second recording"), net.record(queues=[("s2", "s1")]):
                pass
            time.sleep(0.2)  # whose samples there are
        with net.record(queues=[("s1", "s2")]) as again:
            time.sleep(0.2)
    assert seen.queues()["time_s"].max() > 0.15 and len(again.queues())


def test_a_recording_that_a_taken_queue_ended_leaves_the_relay_to_the_next_one():
    needs("tc")
    with emulation(dumbbell(1, FAST, Link(10, 2))) as net:
        with pytest.raises(NetreproError, match="has lost its queue"), net.record():
            net["h1"].run(["tc", "qdisc", "del", "dev", "h1-eth0", "root"])
        net["h1"].run(
            ["tc", "qdisc", "add", "dev", "h1-eth0", "root", "tbf", "rate", "1mbit", "burst", "2k", "limit", "9k"]
        )
        with net.record() as seen:
            pass
    assert len(seen.links())


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
    checks = port_checks(found).set_index("check")
    assert checks.loc["share of gaps within 10 %", "value"] == pytest.approx(1 - wrong.mean(), abs=0.002)
    assert checks.loc["share of gaps within 10 %", "holds"] == (
        checks.loc["share of gaps within 10 %", "value"] >= 0.95
    )
    assert found.rate_share == pytest.approx(1000 * 1514 * 8 / (rate_mbps * 1e6) / time_s[-1])


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
    """Of a queue that is simulated packet by packet, sampled whenever: every gap that counts is the link's own."""
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
    assert found.rate_share == pytest.approx(1) and port_checks(found)["holds"].all()
    by_the_first = inter_dequeue_deviation(time_s, sizes, 10, samples, waiting)
    assert not port_checks(by_the_first)["holds"].all()
    # A rate that the link did not take is found out.
    kept = deviation_in(intervals(10, [replace(changed, rate_mbps=20)]), time_s, sizes, samples, waiting)
    assert not port_checks(kept)["holds"].all()


def test_what_waited_when_a_link_broke_is_not_said_to_wait_when_it_is_mended():
    time_s, size_bytes = ideal_packets(200, 10)
    time_s[100:] += 1.0  # dropped, and sent again later
    down, up = (Interval(at_s, at_s + 1e-4, 10) for at_s in (time_s[99] + 1e-4, time_s[100] - 1e-3))
    samples, waiting = np.array([0.0, time_s[100] - 5e-4]), np.array([150, 3])
    found = deviation_in(intervals(10, [down, up]), time_s, size_bytes, samples, waiting)
    assert len(found.deviation) == 99 + 2 and found.deviation.max() < 1e-6
    assert inter_dequeue_deviation(time_s, size_bytes, 10, samples, waiting).deviation.max() > 100


def test_gaps_that_an_interruption_touched_are_told_from_those_that_the_link_itself_got_wrong():
    time_s, size_bytes = ideal_packets(200, 10)
    gap_s = 1514 * 8 / 10e6
    time_s[100] += 0.5 * gap_s  # by an interruption, and gap 100 is shorter for it
    time_s[150] += 0.5 * gap_s  # by nothing that was seen
    found = inter_dequeue_deviation(time_s, size_bytes, 10, np.array([0.0]), np.array([200]))
    harmless, harmful = time_s[50] + 0.3 * gap_s, time_s[100] - 1e-5
    interruptions = pd.DataFrame({"from_s": [harmless, harmful - 0.6 * gap_s], "to_s": [harmless + 5e-5, harmful]})
    assert (found.deviation > 0.1).sum() == 4
    untouched = found.untouched_by(interruptions)
    assert untouched.sum() == 199 - 2 - 3 and (found.deviation[untouched] > 0.1).sum() == 2
    assert found.untouched_by(interruptions[:0]).all()
    told = port_checks(found, interruptions=interruptions).set_index("check").loc[BETWEEN_INTERRUPTIONS.format(10)]
    assert told["value"] == pytest.approx(192 / 194) and np.isnan(told["bound"]) and told["holds"]
    assert not port_checks(found)["check"].str.contains("interruption").any()


def test_too_little_to_judge_is_not_trusted():
    found = inter_dequeue_deviation(np.array([0.0]), np.array([1514]), 10, np.array([]), np.array([]))
    checks = port_checks(found)
    assert not checks["holds"].all() and list(checks.columns) == ["check", "value", "bound", "holds"]


def test_a_relay_that_is_late_is_told():
    lateness = pd.DataFrame({"up_to_us": [10.0, 100.0, 5000.0], "packets": [90, 8, 2]})
    checks = machine_checks(lateness=lateness).set_index("check")["value"]
    assert checks["lateness of delayed packets in us, p50"] == 10
    assert checks["lateness of delayed packets in us, p99"] == 5000


def checks_of_datagrams(net, meanwhile, segment_bytes: int = 0) -> pd.DataFrame:
    """What the machine did while h1 sent 200 datagrams in 0.4 s, or as many segments of fewer, to h2."""
    sender, receiver = datagrams(net, "h1", "h2")
    with sender, receiver, net.record(queues=[("s1", "s2")]) as seen:
        if segment_bytes:
            sender.setsockopt(socket.IPPROTO_UDP, 103, segment_bytes)  # UDP_SEGMENT
        for number in range(200 if not segment_bytes else 20):
            sender.send(bytes(100 if not segment_bytes else 10 * segment_bytes))
            time.sleep(0.002)
            if number == 10:
                meanwhile(net)
        time.sleep(0.2)
    return seen.machine_checks().set_index("check")


def test_a_relay_that_came_late_is_not_trusted():
    def stop_relay(net):
        net["h1"].popen(["sh", "-c", f"kill -STOP {net.relay.process}; sleep 0.3; kill -CONT {net.relay.process}"])

    with emulation(dumbbell(1, FAST, Link(10, 5))) as net:
        checks = checks_of_datagrams(net, stop_relay)
    assert checks.loc["lateness of delayed packets in us, p99", "value"] > 10 * 500
    assert not checks.loc["lateness of delayed packets in us, p99", "holds"]
    assert checks.loc["packets missed", "holds"]


def test_what_was_late_or_missed_before_a_recording_is_not_its_fault_nor_its_merit():
    def checks_while_sending(net, datagrams_: int):
        sender, receiver = datagrams(net, "h1", "h2")
        with sender, receiver, net.record() as seen:
            for _ in range(datagrams_):
                sender.send(bytes(100))
                time.sleep(0.002)
            time.sleep(0.1)
        return seen.machine_checks().set_index("check")

    def add(net, place: int, count: int):
        net.relay._process.write(place, int(net.relay._process.numbers[place]) + count)

    late = "lateness of delayed packets in us, p99"
    histogram = 4  # numbers before it
    with emulation(dumbbell(1, FAST, Link(10, 20))) as net:
        add(net, 0, 7)  # missed
        add(net, histogram + 8 * 30, 1000)  # by a second
        found = checks_while_sending(net, 20)
        assert found.loc["packets missed", "holds"]
        assert found.loc[late, "value"] < 1e6
        add(net, histogram, 10**6)  # not late at all
        with net.record() as seen:
            add(net, 0, 3)
            add(net, histogram + 8 * 30, 10)
        add(net, 0, 2)
        add(net, histogram, 10**6)
        found = seen.machine_checks().set_index("check")
    assert found.loc["packets missed", "value"] == 3
    assert found.loc[late, "value"] > 1e6 and not found.loc[late, "holds"]


def test_a_frame_of_several_packets_that_the_relay_cannot_pass_on_is_not_trusted(monkeypatch):
    needs("ip")
    monkeypatch.setattr("netrepro.emulation.plan.Plan.relayed_interfaces", {})  # else the kernel cuts it before
    with emulation(dumbbell(1, Link(1000, 0), Link(1000, 1))) as net:
        assert checks_of_datagrams(net, lambda net: None, 1000).loc["packets missed", "holds"]
        for node, interface in (("h1", "h1-eth0"), ("s1", "s1-eth2")):
            net[node].run(["ip", "link", "set", interface, "gso_max_segs", "65535"])
        checks = checks_of_datagrams(net, lambda net: None, 1000)
    assert checks.loc["packets missed", "value"] == 20 and not checks.loc["packets missed", "holds"]


@pytest.mark.parametrize(("delay_ms", "most_us"), [(0.05, 100), (5, 500), (200, 20_000)])
def test_packets_may_be_late_by_a_tenth_of_the_shortest_delay(delay_ms, most_us):
    with emulation(dumbbell(1, Link(100, 300), Link(10, delay_ms))) as net:
        assert net.relay.most_late_us == {90: most_us, 99: 10 * most_us}


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
        messages.Request(b"".join([(16 + size).to_bytes(4, "little"), bytes(12 + size)]), "") for size in lengths
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
