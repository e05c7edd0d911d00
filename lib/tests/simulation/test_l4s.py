"""Low latency, low loss and scalable throughput (L4S, RFC 9330): its queue, its feedback and its senders."""

from __future__ import annotations

from random import Random

import pytest
import queue_twin as twin
from hypothesis import event, given, settings
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.errors import NetreproError
from netrepro.networks import (
    DualPi2,
    Experiment,
    Flow,
    Link,
    Measure,
    Tcp,
    dumbbell,
)
from netrepro.simulation import simulate

PS_PER_S, PS_PER_MS = 10**12, 10**9
NOT_ECT, ECT_1, ECT_0, CE = range(4)
FAST = Link(1000, 0.1)

# (gap in 10 us, IP's two bits of ECN or None for a call for the next packet, bytes)
steps = st.tuples(
    st.integers(0, 300), st.none() | st.sampled_from([NOT_ECT, ECT_1, ECT_0, CE]), st.sampled_from([66, 600, 1514])
)


@settings(max_examples=80)
@given(
    st.lists(steps, min_size=200, max_size=500),
    st.integers(5, 80),
    st.floats(0, 40),
    st.floats(0, 300),
    st.sampled_from([0.0, 1.0, 2.0, 3.5]),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_dualpi2_sends_drops_and_marks_what_the_rfcs_pseudocode_does(
    steps, limit, alpha, beta, coupling, classic_share, seed
):
    random = Random(seed)
    draws = [random.getrandbits(32) for _ in range(6 * len(steps))]
    target, update, step = 5 * PS_PER_MS, 3 * PS_PER_MS, PS_PER_MS
    numbers = [limit, target / PS_PER_S, update / PS_PER_S, step / PS_PER_S, alpha, beta, coupling, classic_share]
    queue = core.NamedQueue("dualpi2", numbers, draws=draws)
    oracle = twin.DualPi2Queue(limit, target, alpha, beta, coupling, step, classic_share, draws)
    now, tick, fates = 0, update, set()
    for name, (gap, ecn, size) in enumerate(steps):
        later = now + gap // 4 * 10_000_000
        while tick <= later:
            oracle.update(tick)
            tick += update
        now = later
        if ecn is None:
            sent, lost = queue.next(now)
            assert (sent, lost) == oracle.dequeue(now)
            fates |= {"marked"} if sent and sent[1] else set()
            fates |= {"dropped by probability"} if lost else set()
        else:
            lost = queue.join(name, size, 1, ecn != NOT_ECT, now, ect_1=ecn == ECT_1, marked_before=ecn == CE)
            assert lost == ([] if oracle.enqueue(twin.Waiting(name, size, now), ecn) else [name])
    event(", ".join(sorted(fates)))


def standing(queue, packets, seconds, ecn, seed=1):
    """Let so many packets stand in a queue, sent at 1000 a second: marks, drops and sent, of the last half."""
    stand = core.NamedQueue(*queue.rule(), seed=seed)
    flags = {"ect_1": ecn == ECT_1}
    name = marks = drops = sent = 0
    for number in range(seconds * 1000):
        now = number * PS_PER_MS
        while stand.packets < packets:
            stand.join(name, 1514, 1, ecn != NOT_ECT, now, **flags)
            name += 1
        packet, lost = stand.next(now)
        if number >= seconds * 500:
            marks, drops, sent = marks + packet[1], drops + len(lost), sent + 1
    return marks, drops, sent


def test_l4s_packets_are_marked_twice_as_often_as_the_root_of_how_often_classic_packets_are():
    # Without the step: a delay of 15 to 16 ms gives a p that grows slowly, the same for both.
    settings = {"step_ms": 1e6, "alpha": 0.16, "beta": 3.2}
    queue = DualPi2(target_ms=19.0, **settings)
    l4s_marks, _, sent = standing(queue, 21, 40, ECT_1)
    classic_marks, classic_drops, _ = standing(queue, 21, 40, ECT_0)
    assert classic_drops == 0 and l4s_marks > 500
    assert l4s_marks / sent == pytest.approx(2 * (classic_marks / sent) ** 0.5, rel=0.2)
    marks, drops, _ = standing(queue, 21, 40, NOT_ECT)
    assert marks == 0 and drops > 500
    assert standing(DualPi2(target_ms=19.0, coupling=0.0, step_ms=1e6), 21, 40, ECT_1)[0] == 0


def test_the_step_marks_all_that_wait_longer_than_a_millisecond_behind_two_others():
    assert standing(DualPi2(alpha=0.0, beta=0.0), 4, 2, ECT_1) == (1000, 0, 1000)
    assert standing(DualPi2(alpha=0.0, beta=0.0), 2, 2, ECT_1) == (0, 0, 1000)
    assert standing(DualPi2(alpha=0.0, beta=0.0, step_ms=5.0), 4, 2, ECT_1) == (0, 0, 1000)
    assert standing(DualPi2(alpha=0.0, beta=0.0), 4, 2, ECT_0) == (0, 0, 1000)


def test_the_l4s_queue_goes_first_and_the_classic_one_has_its_share_all_the_same():
    for share in (0.0, 0.1, 0.5):
        stand = core.NamedQueue(*DualPi2(alpha=0.0, beta=0.0, classic_share=share).rule())
        for name in range(4000):
            stand.join(name, 1000, 1, True, 0, ect_1=name % 2 == 1)
        classic = sum(stand.next(0)[0][0] % 2 == 0 for _ in range(2000))
        assert classic == pytest.approx(2000 * share, abs=3)


@pytest.mark.parametrize("target_ms", [15.0, 5.0])
@pytest.mark.parametrize("ecn", [False, True])
def test_dualpi2_keeps_the_delay_of_classic_flows_at_its_target(target_ms, ecn):
    network = dumbbell(2, access=FAST, bottleneck=Link(40, 10, DualPi2(target_ms=target_ms)))
    flows = [Flow(f"h{i}", f"h{i + 2}", duration_s=30) for i in (1, 2)]
    run = simulate(Experiment(network, flows, 30, tcp=Tcp("reno", ecn=ecn), measure=Measure(packets=[("s1", "s2")])))
    assert run.packets.query("time_s > 5")["wait_ms"].mean() == pytest.approx(target_ms, rel=0.25)
    link = run.links.query("source == 's1' and destination == 's2'").iloc[0]
    assert run.trusted
    if ecn:  # what is dropped is so at first, while slow start overloads it
        assert link.marked_packets > 5 * link.dropped_packets
    else:
        assert link.marked_packets == 0 and link.dropped_packets > 50


def test_a_dualpi2_refuses_what_it_cannot_be():
    for make in (lambda: DualPi2(0), lambda: DualPi2(classic_share=1.1), lambda: DualPi2(coupling=-1)):
        with pytest.raises(NetreproError, match="give"):
            make()
