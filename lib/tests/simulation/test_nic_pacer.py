"""HULL's pacer at a host's port, and the bursts of segmentation offload that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.emulation.plan import make_plan
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    DropTail,
    Experiment,
    Flow,
    Link,
    Measure,
    NicPacer,
    PhantomQueue,
    Tcp,
    Topology,
)
from netrepro.simulation import simulate

US = 1_000_000  # picoseconds
PLAIN = DropTail(packets=1000)
UPDATE_US = 64


def paced_departures(arrivals, bucket=3000, eta=0.125, beta=16.0, end_us=20_000):
    """List when packets of a paced flow are let through, by stepping time: (time_us, name).

    arrivals : (time_us, bytes), in order. The steps are a twentieth of a microsecond.
    """
    step_us = 0.05
    rate, tokens, came, queue, gone = 0.0, float(bucket), 0, [], []
    coming = list(enumerate(arrivals))
    for tick in range(int(end_us / step_us)):
        now_us = tick * step_us
        if tick:
            tokens = min(bucket, tokens + rate * step_us / 1e6)
        if tick and tick % round(UPDATE_US / step_us) == 0:
            while queue and tokens >= queue[0][1]:
                tokens -= queue[0][1]
                gone.append((now_us, queue.pop(0)[0]))
            waiting = sum(size for _, size in queue)
            rate, came = (1 - eta) * rate + eta * came / (UPDATE_US / 1e6) + beta * waiting, 0
        while coming and coming[0][1][0] <= now_us + 1e-9:
            name, (_, size) = coming.pop(0)
            queue.append((name, size))
            came += size
        while queue and tokens >= queue[0][1]:
            tokens -= queue[0][1]
            gone.append((now_us, queue.pop(0)[0]))
        if not coming and not queue:
            break
    return gone


def let_through(queue, arrivals, end_us=20_000, flow=7):
    """List the same for the queue, which is asked whenever it wants to be: (time_us, name)."""
    gone, now, coming = [], 0, list(enumerate(arrivals))
    while now <= end_us * US:
        while coming and coming[0][1][0] * US == now:
            name, (_, size) = coming.pop(0)
            assert queue.join(name, size, flow, True, now) == []
        sent, _ = queue.next(now)
        while sent:
            gone.append((now / US, sent[0]))
            sent, _ = queue.next(now)
        now = min(queue.ready_at, coming[0][1][0] * US if coming else 1 << 62)
    return gone


def pacer(**changes):
    always = NicPacer(**{"association": 1.0, "associated_ms": 1000.0, **changes})
    return core.NamedQueue(*always.rule(), rate=1e9, seed=1)


arrival_lists = st.lists(st.tuples(st.integers(0, 300), st.sampled_from([300, 1514])), min_size=5, max_size=25)


@settings(max_examples=15)
@given(arrival_lists)
def test_a_paced_flow_leaves_as_the_token_bucket_of_the_paper_lets_it(gaps):
    times = np.cumsum([gap for gap, _ in gaps])
    arrivals = [(int(time), size) for time, (_, size) in zip(times, gaps, strict=True)]
    queue = pacer()
    queue.hear_echo(7, 0)
    found, expected = let_through(queue, arrivals), paced_departures(arrivals)
    assert [name for _, name in found] == [name for _, name in expected]
    waits = [time - arrivals[name][0] for time, name in expected]
    event(f"waits up to {int(max(waits)) // 500 * 500} us")
    for (time, _), (theirs, _) in zip(found, expected, strict=True):
        assert time == pytest.approx(theirs, rel=2e-3, abs=0.2)


def test_flows_that_have_heard_of_no_congestion_go_past_those_that_are_paced():
    queue = pacer()
    queue.hear_echo(1, 0)
    for name in range(10):
        queue.join(name, 1514, 1, True, 0)
    for name in range(10, 15):
        queue.join(name, 1514, 2, True, 0)
    sent = [queue.next(0)[0] for _ in range(7)]
    assert [packet and packet[0] for packet in sent] == [0, 10, 11, 12, 13, 14, None]  # a bucket of 3 KB lets one go
    assert queue.packets == 9 and 0 < queue.ready_at <= UPDATE_US * US


def test_a_flow_is_associated_by_chance_and_for_a_time():
    share = 0
    for flow in range(4000):
        share += flow_is_paced(0.125, flow, heard_at=0, seen_at=1)
    assert share / 4000 == pytest.approx(0.125, abs=0.02)
    assert flow_is_paced(1.0, 1, heard_at=0, seen_at=9_999) and not flow_is_paced(1.0, 1, heard_at=0, seen_at=10_000)
    assert not flow_is_paced(0.0, 1, heard_at=0, seen_at=1)


def flow_is_paced(association, seed, heard_at, seen_at):
    queue = core.NamedQueue(*NicPacer(association=association, bucket_bytes=1514).rule(), seed=seed)
    queue.hear_echo(1, heard_at * US)
    for name in range(3):
        queue.join(name, 1514, 1, True, seen_at * US)
    return [queue.next(seen_at * US)[0] is not None for _ in range(3)] == [True, False, False]


def test_no_packet_overtakes_those_of_its_flow_when_the_association_ends_while_they_wait():
    queue = pacer(associated_ms=1.0)
    queue.hear_echo(1, 0)
    for name in range(20):
        queue.join(name, 1514, 1, True, 990 * US)
    queue.join(20, 1514, 1, True, 1100 * US)
    arrived = []
    now = 1100 * US
    while queue.packets:
        sent, _ = queue.next(now)
        arrived += [sent[0]] if sent else []
        now = now if sent else queue.ready_at
    assert arrived == list(range(21))


# In a network -----------------------------------------------------------------------------------------


def waits_us(host_queue, offload_bytes=0, delay_ms=0.02):
    """Measure how long packets of two long flows wait at the port where they meet, behind a phantom queue of 6 KB."""
    port = Link(1000, delay_ms, PhantomQueue(500, 0.95, 6000))
    own = Link(1000, delay_ms, host_queue, offload_bytes=offload_bytes)
    net = Topology(tuple(Cable(f"h{i + 1}", "s1", own, port) for i in range(3)))
    flows = [Flow(f"h{i + 1}", "h3", duration_s=1) for i in range(2)]
    measure = Measure(packets=(("s1", "h3"),))
    found = simulate(Experiment(net, flows, 1, measure=measure, tcp=Tcp("dctcp", min_rto_ms=10)))
    assert found.trusted
    link = found.links.query("source == 's1' and destination == 'h3'").iloc[0]
    assert link["utilisation"] > 0.75 and link["dropped_packets"] == 0
    return found.packets.query("time_s > 0.2")["wait_ms"] * 1e3


def test_a_paced_sender_leaves_shorter_queues_and_one_that_is_never_associated_does_not():
    unpaced, paced = waits_us(PLAIN), waits_us(NicPacer())
    assert paced.mean() < 0.5 * unpaced.mean() and paced.quantile(0.99) < 0.7 * unpaced.quantile(0.99)
    never = waits_us(NicPacer(association=0.0))
    assert never.mean() == pytest.approx(unpaced.mean(), rel=0.2)


def test_bursts_of_segmentation_offload_make_queues_that_single_segments_do_not():
    segments, bursts = (waits_us(PLAIN, offload_bytes, delay_ms=0.1) for offload_bytes in (0, 65_536))
    assert bursts.quantile(0.99) > 1.8 * segments.quantile(0.99)
    assert bursts.mean() > 1.3 * segments.mean()


def test_a_sender_with_offload_hands_over_thirds_of_its_window_and_loses_nothing_by_it():
    bursts = {}
    for offload_bytes in (0, 65_536):
        own = Link(1000, 1, DropTail(packets=1000), offload_bytes=offload_bytes)
        fast, slow = Link(1000, 1), Link(100, 4, DropTail(packets=1000))
        net = Topology((Cable("h1", "s1", own, fast), Cable("s1", "s2", slow), Cable("h2", "s2", fast)))
        port = ("h1", "s1")
        flow = Flow("h1", "h2", size_bytes=20_000_000)
        tcp = Tcp("reno", receive_window_bytes=1 << 20)
        found = simulate(Experiment(net, (flow,), 30, measure=Measure(packets=(port,)), tcp=tcp))
        assert found.flows["retransmitted_packets"].item() == 0
        assert found.flows["delivered_bytes"].item() == 20_000_000
        packets = found.packets.query("1 < time_s < 1.5 and size_bytes > 1000")
        ends = (packets["time_s"].diff() > 50e-6).sum()  # a packet takes 12 us, and a slow one 121 us
        bursts[offload_bytes] = len(packets) / (ends + 1)
    assert bursts[0] < 4 and bursts[65_536] == pytest.approx(45, rel=0.1)  # 65,536 bytes of 1,448


def test_pacers_and_offload_are_refused_where_they_are_none():
    paced, offloaded = Link(100, 1, NicPacer()), Link(100, 1, offload_bytes=65_536)
    for link, what in ((paced, "NicPacer"), (offloaded, "segmentation offload")):
        with pytest.raises(NetreproError, match=f"{what} at switch s1"):
            Topology((Cable("h1", "s1", link), Cable("h2", "s1", Link(100, 1))))
        own = Topology((Cable("h1", "s1", link, Link(100, 1)), Cable("h2", "s1", Link(100, 1))))
        with pytest.raises(NetreproError, match=f"{what}, which kernels have not"):
            make_plan(own)
    with pytest.raises(NetreproError, match="1514 or more"):
        NicPacer(bucket_bytes=1000)
    with pytest.raises(NetreproError, match="0 to 65536"):
        Link(1, 1, offload_bytes=-1)
