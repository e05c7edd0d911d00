"""Queues that keep their packets and tell flows apart: against a second implementation, and by what they are for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import queue_twin as twin
from hypothesis import event, given, settings
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.emulation.plan import make_plan
from netrepro.errors import NetreproError
from netrepro.networks import (
    CoDel,
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    LinkChange,
    Measure,
    Pie,
    Red,
    Sfq,
    Tcp,
    dumbbell,
    star,
)
from netrepro.simulation import simulate

FAST = Link(1000, 0.1)
# (gap, flow, bytes) of a packet that comes, or (gap, None, 0) of a call for the next one.
events = st.tuples(st.integers(0, 500), st.none() | st.integers(0, 5), st.sampled_from([66, 600, 1514]))
PS_PER_S = 10**12


@settings(max_examples=60)
@given(st.lists(events, min_size=50, max_size=300), st.integers(2, 20), st.integers(100, 3000), st.integers(1, 8))
def test_sfq_sends_and_drops_what_a_second_implementation_does(steps, limit, quantum, buckets):
    queue = core.NamedQueue("sfq", [limit, quantum, buckets])
    oracle = twin.SfqQueue(limit, quantum, lambda flow: core.flow_bucket(flow, buckets), buckets)
    dropped = 0
    for name, (_, flow, size) in enumerate(steps):
        if flow is None:
            sent, lost = queue.next(0)
            assert (sent and sent[0], lost) == (oracle.dequeue(), [])
            continue
        victim = oracle.enqueue(twin.Waiting(name, size, 0), flow)
        assert queue.join(name, size, flow, False, 0) == ([] if victim is None else [victim])
        assert queue.packets == sum(map(len, oracle.packets.values())) <= limit
        dropped += victim is not None
    event(f"dropped {min(dropped, 3)}")


@settings(max_examples=60)
@given(
    st.lists(events, min_size=100, max_size=400),
    st.integers(3, 40),
    st.integers(100, 3000),
    st.integers(1, 6),
    st.integers(50, 400),
)
def test_fq_codel_sends_and_drops_what_rfc_8290_says(steps, limit, quantum, flows, interval):
    target = interval // 10
    seconds = target / PS_PER_S, interval / PS_PER_S
    queue = core.NamedQueue("fq_codel", [limit, *seconds, 0, quantum, flows])
    oracle = twin.FqCoDelQueue(limit, target, interval, quantum, flows, lambda flow: core.flow_bucket(flow, flows))
    now, by_codel, by_limit = 0, 0, 0
    for name, (gap, flow, size) in enumerate(steps):
        now += gap // 8
        if flow is None:
            sent, lost = queue.next(now)
            assert (sent and sent[0], lost) == oracle.dequeue(now)
            by_codel += len(lost)
        else:
            lost = queue.join(name, size, flow, False, now)
            assert lost == oracle.enqueue(name, size, flow, now)
            by_limit += len(lost)
    event(f"dropped by CoDel {min(by_codel, 3)}, by the limit {min(by_limit, 3)}")


def test_a_full_fq_codel_takes_half_of_the_fattest_queue_and_64_packets_at_most():
    queue = core.NamedQueue("fq_codel", [300, 0.005, 0.1, 1, 1514, 1024])
    queue.join(0, 1514, 2, False, 0)
    names = [queue.join(name, 1514, 1, False, 0) for name in range(1, 301)]
    assert names[:-1] == [[]] * 299 and names[-1] == list(range(1, 65))
    small = core.NamedQueue("fq_codel", [10, 0.005, 0.1, 1, 1514, 1024])
    assert [small.join(name, 100, 1, False, 0) for name in range(11)][-1] == [0, 1, 2, 3, 4, 5]


@settings(max_examples=60)
@given(
    st.lists(events, min_size=100, max_size=400),
    st.integers(3, 40),
    st.integers(2, 20),
    st.integers(100, 3000),
    st.integers(0, 6000),
    st.sampled_from([1, 3, 8]),
    st.integers(0, 40),
)
def test_fq_sends_drops_and_marks_what_a_second_implementation_does(
    steps, limit, flow_limit, quantum, first, flows, refill
):
    threshold, tick = 3 * PS_PER_S // 1000, PS_PER_S // 10_000
    queue = core.NamedQueue("linux_fq", [limit, flow_limit, quantum, first, threshold / PS_PER_S, refill / 1e3, flows])
    oracle = twin.FqQueue(
        limit, flow_limit, quantum, first, threshold, refill, lambda flow: core.flow_bucket(flow, flows)
    )
    now = marks = drops = 0
    for name, (gap, flow, size) in enumerate(steps):
        now += gap // 16 * tick
        if flow is None:
            sent, lost = queue.next(now)
            assert (sent, lost) == (oracle.dequeue(now), [])
            marks += sent is not None and sent[1]
        else:
            lost = queue.join(name, size, flow, True, now)
            assert lost == ([] if oracle.enqueue(twin.Waiting(name, size, now), flow) else [name])
            drops += len(lost)
    event(f"marked {min(marks, 3)}, dropped {min(drops, 3)}")


def test_fq_counts_neither_marks_nor_limits_for_eight_packets_that_pass_by():
    queue = core.NamedQueue(*Fq(2, ce_threshold_ms=1, flows=1).rule())
    lost = [queue.join(name, 1514, name, True, 0) for name in range(12)]
    assert lost == [[]] * 10 + [[10], [11]]
    sent = [queue.next(PS_PER_S)[0] for _ in range(11)]
    assert sent == [(name, name >= 8) for name in range(10)] + [None]


def test_fq_serves_flows_in_turn_and_with_one_queue_in_the_order_in_which_they_came():
    for flows, order in ((1024, [0, 1, 6, 7, 2, 3, 8, 4, 5]), (1, list(range(9)))):
        queue = core.NamedQueue(*Fq(quantum_bytes=3028, initial_quantum_bytes=3028, flows=flows).rule())
        for name in range(8):  # that pass by
            queue.join(100 + name, 1514, 99, True, 0)
        # Six packets of a flow, then three of another; each may send two a turn.
        for name in range(9):
            queue.join(name, 1514, 5 if name < 6 else 7, True, 0)
        assert [queue.next(0)[0][0] for _ in range(17)][8:] == order


def ect_1_and_others(queue, wait_ms):
    """Tell whether packets that waited so long are marked: one without ECN, one with ECT(0) and one with ECT(1)."""
    stand = core.NamedQueue(*queue.rule())
    for name, (ecn, ect_1) in enumerate([(False, False), (True, False), (True, True)]):
        stand.join(name, 1514, 1, ecn, 0, ect_1=ect_1)
    return [stand.next(wait_ms * PS_PER_S // 1000)[0][1] for _ in range(3)]


@pytest.mark.parametrize("ecn", [False, True])
def test_fq_codel_marks_beyond_its_ce_threshold_all_that_can_bear_it_or_those_of_l4s_alone(ecn):
    for only, marked in ((False, [False, True, True]), (True, [False, False, True])):
        queue = FqCoDel(ecn=ecn, ce_threshold_ms=1, ce_threshold_ect_1=only)
        assert ect_1_and_others(queue, 2) == marked
        assert ect_1_and_others(queue, 1) == [False] * 3
    assert ect_1_and_others(FqCoDel(ecn=ecn), 50) == [False] * 3


def test_fq_marks_one_flow_beyond_its_threshold_and_so_keeps_its_queue_near_it():
    waits_ms = {}
    for threshold_ms in (None, 2.0):
        queue = Fq(500, 500, ce_threshold_ms=threshold_ms, flows=1)
        network = dumbbell(1, access=FAST, bottleneck=Link(50, 5, queue))
        flow = [Flow("h1", "h2", duration_s=10)]
        run = simulate(Experiment(network, flow, 10, tcp=Tcp("dctcp"), measure=Measure(packets=[("s1", "s2")])))
        waits_ms[threshold_ms] = run.packets.query("time_s > 3")["wait_ms"].median()
        marked = run.links.query("source == 's1' and destination == 's2'")["marked_packets"].item()
        assert (marked > 0) == (threshold_ms is not None) and run.trusted
    assert 1 < waits_ms[2.0] < 3 and waits_ms[None] > 20


def test_no_bucket_of_sfq_holds_more_than_127_packets():
    queue = core.NamedQueue(*Sfq(1000).rule())
    dropped = [name for name in range(200) if queue.join(name, 1514, 1, False, 0)]
    assert dropped == list(range(127, 200)) and queue.join(200, 1514, 2, False, 0) == []


def test_a_queue_of_linuxs_fq_codel_drops_its_only_packet_while_others_wait():
    # RFC 8290's each spare their own last packet, so that a flow with one packet at a time is never told.
    dropped = {}
    for variant in ("linux", "rfc8290"):
        queue, dropped[variant] = core.NamedQueue(*FqCoDel(10_000, variant=variant).rule()), 0
        for name in range(2000):
            queue.join(name, 1514, 1, False, 0)
        queue.join(lone := 2000, 1514, 2, False, 0)
        for now in range(0, 4 * PS_PER_S, PS_PER_S // 100):
            sent, lost = queue.next(now)
            dropped[variant] += lone in lost
            if sent[0] == lone or lone in lost:
                queue.join(lone := lone + 1, 1514, 2, False, now)
    assert dropped["linux"] > 5 and dropped["rfc8290"] == 0


def test_flows_spread_evenly_over_buckets_and_otherwise_with_another_seed():
    counts = Counter(core.flow_bucket(flow, 16, seed=3) for flow in range(16_000))
    assert set(counts) == set(range(16)) and max(counts.values()) < 1.15 * min(counts.values())
    others = [core.flow_bucket(flow, 16, seed=4) for flow in range(100)]
    assert others != [core.flow_bucket(flow, 16, seed=3) for flow in range(100)]


def blast(queue, *, sizes=(1514, 1514), rates=(40.0, 2.0)):
    """Two flows of datagrams over 10 Mb/s: flows, links, and packets of the bottleneck."""
    network = dumbbell(2, access=FAST, bottleneck=Link(10, 1, queue))
    traffic = [
        Datagrams(f"h{i + 1}", f"h{i + 3}", rate, 4, packet_bytes=size)
        for i, (rate, size) in enumerate(zip(rates, sizes, strict=True))
    ]
    return simulate(Experiment(network, traffic, 5, measure=Measure(packets=[("s1", "s2")])))


@pytest.mark.parametrize("queue", [Sfq(100), FqCoDel(100)])
def test_a_fair_queue_shields_a_small_flow_from_a_big_one_and_drop_tail_does_not(queue):
    small, sent = 1, 2e6 / 8 * 4
    fair, tail = blast(queue), blast(DropTail(packets=100))
    assert fair.flows["delivered_bytes"][small] > 0.99 * sent
    assert tail.flows["delivered_bytes"][small] < 0.5 * sent
    # It waits for one packet of the other flow, not for a full queue.
    for found, bound in ((fair, 3 * 1.22), (tail, 200)):
        wait_ms = found.packets.query("flow == @small")["wait_ms"].max()
        assert wait_ms < bound
    assert tail.packets.query("flow == @small")["wait_ms"].max() > 100
    assert fair.trusted and tail.trusted


def test_fq_shields_a_small_flow_but_for_what_passes_by_at_first():
    run = blast(Fq(200))
    assert run.flows["delivered_bytes"][1] > 0.99 * 2e6 / 8 * 4
    small = run.packets.query("flow == 1")
    # Behind the first credit of the big flow, ten packets, and eight that pass by; later behind two or three a turn.
    assert small["wait_ms"].max() < 19 * 1.22 and small.query("time_s > 0.1")["wait_ms"].max() < 4 * 1.22


def test_sfq_shares_bytes_and_not_packets():
    ratios = {}
    for buckets in (1024, 1):  # in one bucket they share its turns as packets
        packets = blast(Sfq(100, buckets=buckets), sizes=(1514, 300), rates=(20.0, 20.0)).packets
        sent = packets.query("0.5 < time_s < 4").groupby("flow")["size_bytes"].sum()
        ratios[buckets] = sent[0] / sent[1]
    assert ratios[1024] == pytest.approx(1, rel=0.01)
    assert ratios[1] != pytest.approx(1, rel=0.05)


def test_sfq_gives_connections_of_different_round_trips_the_same_share_and_drop_tail_does_not():
    shares = {}
    for queue in (DropTail(packets=30), Sfq(60)):
        near, far = Link(100, 1, DropTail(packets=1000)), Link(100, 20, DropTail(packets=1000))
        network = dumbbell(2, access=near, bottleneck=Link(10, 1, queue))
        network = replace(
            network,
            cables=tuple(
                replace(cable, forward=far, backward=far) if "h2" in (cable.first, cable.second) else cable
                for cable in network.cables
            ),
        )
        flows = [Flow("h1", "h3", duration_s=20), Flow("h2", "h4", duration_s=20)]
        found = simulate(Experiment(network, flows, 20, tcp=Tcp("reno")))
        shares[type(queue)] = found.flows["goodput_mbps"][0] / found.flows["goodput_mbps"][1]
    assert shares[DropTail] > 2 and 0.9 < shares[Sfq] < 1.25


def test_fq_codel_keeps_the_delay_of_a_bulk_flow_at_its_target_and_marks_who_can_bear_it():
    flow = [Flow("h1", "h2", duration_s=20)]
    for ecn in (False, True):
        network = dumbbell(1, access=FAST, bottleneck=Link(10, 10, FqCoDel(ecn=True)))
        found = simulate(
            Experiment(network, flow, 20, tcp=Tcp("reno", ecn=ecn), measure=Measure(packets=[("s1", "s2")]))
        )
        wait_ms = found.packets.query("time_s > 5")["wait_ms"]
        assert wait_ms.median() < 7
        link = found.links.query("source == 's1' and destination == 's2'").iloc[0]
        assert (link.marked_packets > 0, link.dropped_packets > 0) == (ecn, not ecn)
        assert link.utilisation > 0.9


@pytest.mark.parametrize("queue", [Sfq(40), FqCoDel(40), Fq(40), CoDel(40)])
def test_a_link_that_breaks_drops_what_its_discipline_keeps_and_serves_again_when_it_is_mended(queue):
    network = dumbbell(2, access=FAST, bottleneck=Link(10, 1, queue))
    traffic = [Datagrams("h1", "h3", 15, 3), Datagrams("h2", "h4", 3, 3)]
    changes = (
        LinkChange(1.0, "s1", "s2", up=False),
        LinkChange(1.5, "s1", "s2", up=True),
        LinkChange(2.0, "s1", "s2", rate_mbps=5),
    )
    found = simulate(Experiment(network, traffic, 4, changes=changes, measure=Measure(packets=[("s1", "s2")])))
    assert found.trusted
    times = found.packets["time_s"]
    assert not times.between(1.001, 1.499).any() and times.between(1.5, 1.51).any()
    slow = found.packets.query("2.1 < time_s < 2.9")
    assert slow["size_bytes"].sum() * 8 / 0.8 == pytest.approx(5e6, rel=0.02)


@pytest.mark.parametrize("queue", [DropTail(packets=20), EcnThreshold(20, 5), Red(20, 4, 12, 0.1, 0.01), Pie(20)])
def test_a_rule_that_decides_at_arrival_decides_the_same_in_front_of_a_queue_that_keeps_its_packets(queue):
    rule, numbers = queue.rule()
    kept = core.NamedQueue(rule, numbers, rate=1e9, seed=1)
    waiting, now = [], 0
    dropped, marked = set(), set()
    for name in range(200):
        now += 3_000_000  # a packet takes 12,112,000
        dropped.update(kept.join(name, 1514, 0, True, now))
        waiting.append(name)
        if name % 4 == 3:
            sent, lost = kept.next(now)
            assert not lost
            assert sent[0] == next(other for other in waiting if other not in dropped)
            waiting = [other for other in waiting if other > sent[0]]
            if sent[1]:
                marked.add(sent[0])
    assert dropped
    assert bool(marked) == isinstance(queue, EcnThreshold)
    left = [name for name in waiting if name not in dropped]
    assert kept.clear() == left and kept.packets == kept.bytes == 0


def test_fair_queues_refuse_what_they_cannot_be():
    for make in (
        lambda: Sfq(0),
        lambda: Sfq(quantum_bytes=0),
        lambda: Sfq(buckets=1 << 20),
        lambda: FqCoDel(flows=0),
        lambda: FqCoDel(target_ms=0),
        lambda: FqCoDel(quantum_bytes=1.5),
        lambda: FqCoDel(ce_threshold_ms=0),
        lambda: FqCoDel(ce_threshold_ms=1, variant="rfc8290"),
        lambda: FqCoDel(ce_threshold_ect_1=True),
        lambda: Fq(flow_packets=0),
        lambda: Fq(flows=0),
        lambda: Fq(ce_threshold_ms=-1),
    ):
        with pytest.raises(NetreproError, match="give"):
            make()


def test_a_fair_queue_is_refused_in_real_time():
    with pytest.raises(NetreproError, match="Sfq; in real time links are drop-tail"):
        make_plan(star(2, Link(10, 1, Sfq(100))))
