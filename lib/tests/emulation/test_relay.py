"""What the relay does to packets beside delaying them: jitter, reordering, and queues under the simulator's rules."""

from __future__ import annotations

import socket
import struct
from dataclasses import replace

import numpy as np
import pytest
from emulation_traffic import emulation, rootless

from netrepro.emulation import emulate
from netrepro.networks import (
    Cable,
    CoDel,
    Datagrams,
    DropTail,
    EcnThreshold,
    Link,
    LinkChange,
    PhantomQueue,
    Pie,
    Red,
    SharedBuffer,
    Topology,
    dumbbell,
)
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate

pytestmark = [pytest.mark.timeout(60), rootless]
FAST = Link(100, 0)
PORT = ("s1", "s2")
ECN_CAPABLE, MARKED = 2, 3  # the last bits of the type of service


def through(link: Link, count: int, *, type_of_service: int = 0, size_bytes: int = 100, gap_s: float = 0.0):
    """Numbered datagrams sent over the link: (numbers, type of service) as they arrive, the relay's counters, the
    arrival times."""
    numbers, services, times = [], [], []
    with emulation(dumbbell(1, Link(1000, 0), link)) as net:
        sender = net["h1"].socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver = net["h2"].socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sender, receiver:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, type_of_service)
            receiver.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
            receiver.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            receiver.settimeout(0.5)
            receiver.bind(("", 7000))
            sender.connect((net["h2"].address, 7000))
            started = 0
            while True:
                for number in range(started, min(started + 100, count)):
                    sender.send(number.to_bytes(4, "big") + bytes(size_bytes - 4))
                started = min(started + 100, count)
                receiver.settimeout(0.02 if started < count else 0.5)
                try:
                    while True:
                        data, extra, _, _ = receiver.recvmsg(2048, 256)
                        numbers.append(int.from_bytes(data[:4], "big"))
                        for level, kind, value in extra:
                            if level == socket.IPPROTO_IP:
                                services.append(value[0])
                            elif kind == 35:
                                seconds, nanoseconds = struct.unpack("qq", value[:16])
                                times.append(seconds + nanoseconds * 1e-9)
                except TimeoutError:
                    if started == count:
                        break
        counters = net.relay.counters().set_index(["source", "destination"]).loc[PORT]
    return np.array(numbers), np.array(services), counters, np.array(times)


def test_reordered_packets_are_the_share_asked_for_and_none_is_lost():
    link = Link(1000, 1, DropTail(packets=2000), reordering=0.1, reordering_ms=3)
    numbers, _, _, _ = through(link, 1000)
    assert sorted(numbers) == list(range(1000))
    overtaken = (np.maximum.accumulate(numbers) > numbers).mean()
    # Of those held back, the last of each hundred is not overtaken by anything.
    assert 0.04 < overtaken < 0.16
    in_order, _, _, _ = through(Link(1000, 1, DropTail(packets=2000)), 300)
    assert list(in_order) == list(range(300))


def apart(link: Link, count: int, size_bytes: int = 1) -> Experiment:
    """Connections that send so much over the link, one after the other: none waits for another's packets."""
    flows = tuple(Flow("h1", "h2", size_bytes=size_bytes, start_s=0.15 * i) for i in range(count))
    return Experiment(dumbbell(1, FAST, link), flows, 0.15 * count + 0.5)


def round_trips_ms(link: Link, count: int) -> np.ndarray:
    return emulate(apart(link, count), "rootless").flows["completion_ms"].to_numpy()


@pytest.mark.parametrize("queue", [DropTail(packets=50), EcnThreshold(50, 20)])
def test_a_packet_takes_its_own_transmission_where_the_shaper_lets_it_pass_at_once(queue):
    asked = apart(Link(1, 20, queue), 10, size_bytes=1400)
    ours, theirs = (run.flows["completion_ms"].min() for run in (emulate(asked, "rootless"), simulate(asked)))
    # Three passages of 20 ms, and 1,466 bytes at 1 Mb/s beside the handshake's.
    assert 72 < ours == pytest.approx(theirs, abs=1.5)


def test_a_rate_that_changes_changes_how_long_a_packet_takes():
    asked = replace(apart(Link(1, 20), 10, size_bytes=1400), changes=(LinkChange(0.7, "s1", "s2", rate_mbps=10),))
    took_ms = emulate(asked, "rootless").flows["completion_ms"]
    assert took_ms[:4].min() > 72 and took_ms[6:].min() < 65


def test_jitter_shakes_the_delay_and_keeps_the_order():
    numbers, _, _, _ = through(Link(1000, 5, DropTail(packets=2000), jitter_ms=1), 300)
    assert list(numbers) == list(range(300))
    still, shaken = (round_trips_ms(Link(100, 20, jitter_ms=jitter_ms), 25) for jitter_ms in (0.0, 4.0))
    # Three passages until the byte is there: 60 ms, and a deviation of 4 ms times the root of 3. What load adds is at
    # the upper end, so quartiles are compared.
    assert still.min() >= 60 > shaken.min()
    spread = np.percentile(shaken, 75) - np.percentile(shaken, 25)
    assert 0.4 < spread / (1.349 * 4 * 3**0.5) < 2.5


def test_an_ecn_capable_packet_is_marked_where_the_queue_is_long_and_others_are_not():
    link = Link(5, 1, EcnThreshold(150, 20))
    numbers, services, counters, _ = through(link, 100, type_of_service=ECN_CAPABLE, size_bytes=1000)
    assert list(numbers) == list(range(100))
    first_marked = int(np.argmax(services & 3 == MARKED))
    assert 15 <= first_marked <= 30  # the shaper takes a few ahead, and sending takes time
    assert set(services & 3) == {ECN_CAPABLE, MARKED}
    assert counters["marked_packets"] == (services & 3 == MARKED).sum() > 50
    _, services, counters, _ = through(link, 100, size_bytes=1000)
    assert counters["marked_packets"] == 0 and set(services) == {0}


def test_marked_packets_have_a_checksum_that_holds():
    """IPv4 drops packets whose header does not add up: every one of these has been marked and arrives."""
    link = Link(5, 1, EcnThreshold(150, 1))
    for type_of_service in (1, 2, 0xB9, 0xFE):
        numbers, services, counters, _ = through(link, 20, type_of_service=type_of_service, size_bytes=1000)
        assert len(numbers) == 20 and counters["marked_packets"] >= 15
        assert set(services[-5:]) == {type_of_service | 3}


def test_the_relays_queue_drops_what_does_not_fit():
    numbers, _, counters, _ = through(Link(1, 1, EcnThreshold(30, 30)), 100, size_bytes=1400)
    assert counters["dropped_by_rule"] == 100 - len(numbers)
    assert 30 <= len(numbers) <= 40 and list(numbers) == list(range(len(numbers)))
    assert counters["dropped_packets"] == counters["failed_packets"] == 0


def queue_under(queue, tcp: Tcp):
    asked = Experiment(
        dumbbell(2, FAST, Link(20, 5, queue)),
        tuple(Flow(f"h{i}", f"h{i + 2}", duration_s=3.0) for i in (1, 2)),
        3.0,
        measure=Measure(queues=(PORT,)),
        tcp=tcp,
    )
    found = emulate(asked, "rootless")
    link = found.links.set_index(["source", "destination"]).loc[PORT]
    settled = found.queues[found.queues["time_s"] > 1]["queue_packets"]
    return settled, link, found


@pytest.fixture(scope="module")
def drop_tail():
    """What every rule is compared with: (packets in its queue, its link, the measurements)."""
    return queue_under(DropTail(packets=300), Tcp("reno", ecn=True))


@pytest.mark.parametrize(
    "rule",
    [
        EcnThreshold(300, 20),
        Red(300, 10, 40, 0.1, 0.01, ecn=True),
        CoDel(300, ecn=True),
        Pie(300, ecn=True),
        PhantomQueue(300),
        SharedBuffer(600_000, mark_packets=20),
    ],
)
def test_marks_keep_the_queue_short_where_drop_tail_fills_the_buffer(rule, drop_tail):
    kept, link, found = queue_under(rule, Tcp("reno", ecn=True))
    assert link.marked_packets > 0 and found.flows["retransmitted_packets"].sum() <= link.dropped_packets
    assert 0 < kept.mean() < 80 and len(kept) > 100
    assert found.fidelity["check"].str.startswith("s1 to s2").any()
    filled, link, _ = drop_tail
    assert link.marked_packets == 0
    assert filled.mean() > 2 * kept.mean()


def test_without_ecn_red_codel_and_pie_drop():
    for rule in (Red(300, 10, 40, 0.1, 0.01), CoDel(300), Pie(300)):
        _, link, found = queue_under(rule, Tcp("reno"))
        assert link.dropped_packets > 0 and link.marked_packets == 0
        assert found.flows["retransmitted_packets"].sum() >= link.dropped_packets * 0.5


def test_pie_holds_the_delay_that_it_is_given_as_in_the_simulator():
    target_ms = 20.0
    rule = Pie(1000, target_ms=target_ms)
    kept, _, found = queue_under(rule, Tcp("cubic"))
    simulated = simulate(found.experiment).queues
    theirs = simulated[simulated["time_s"] > 1]["queue_packets"]
    packet_ms = 1514 * 8e-3 / 20
    assert kept.mean() * packet_ms == pytest.approx(target_ms, rel=0.5)
    assert kept.mean() == pytest.approx(theirs.mean(), rel=0.4)


def test_a_phantom_queue_keeps_the_real_one_empty_for_a_tenth_of_the_rate():
    # HULL, NSDI 2012, section 4.1: drained at 90 % of the link, it marks before anything waits.
    kept, link, _ = queue_under(PhantomQueue(300, drain_share=0.9, threshold_bytes=6000), Tcp("reno", ecn=True))
    longer, plain, _ = queue_under(EcnThreshold(300, 20), Tcp("reno", ecn=True))
    assert kept.mean() < 0.5 * longer.mean() and link.marked_packets > 0
    assert 0.5 < link.utilisation < 0.92 and link.utilisation < plain.utilisation


@pytest.mark.parametrize(("busy", "share"), [(1, 1 / 2), (2, 1 / 3)])
def test_ports_of_one_switch_share_a_memory_by_dynamic_thresholds(busy, share):
    # Choudhury and Hahne, ToN 1998: n busy ports hold alpha / (1 + n alpha) of the memory each.
    memory_bytes = 150 * 1514
    slow = Link(5, 0, SharedBuffer(memory_bytes, alpha=1.0))
    net = Topology((
        *(Cable(host, "s1", FAST) for host in ("h1", "h2")),
        *(Cable("s1", host, slow, FAST) for host in ("h3", "h4")),
    ))  # fmt: skip
    traffic = tuple(Datagrams(f"h{i}", f"h{i + 2}", 12.0, 1.8) for i in range(1, busy + 1))
    found = emulate(Experiment(net, traffic, 2.0, measure=Measure(queues=(("s1", "h3"),))), "rootless")
    most_bytes = found.queues["queue_bytes"].max()
    assert most_bytes == pytest.approx(share * memory_bytes, abs=4 * 1514)
