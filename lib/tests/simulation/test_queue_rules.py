"""The queue rules that simulator and emulator share, against a second implementation and their definitions."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
import queue_twin as twin
from hypothesis import given
from hypothesis import strategies as st

from netrepro import _core as core

ACCEPT, MARK, DROP = core.Verdict.accept, core.Verdict.mark, core.Verdict.drop
packet_sizes = st.sampled_from([66, 600, 1514])


def test_drop_tail_takes_what_fits_and_nothing_else():
    packets = core.DropTailRule(limit_packets=3, limit_bytes=1 << 40)
    assert [packets.arrival(n, 100 * n, 0, 1514, True, 0) for n in range(5)] == [ACCEPT] * 3 + [DROP] * 2
    in_bytes = core.DropTailRule(limit_packets=1 << 40, limit_bytes=3000)
    assert in_bytes.arrival(1, 1486, 0, 1514, False, 0) == ACCEPT
    assert in_bytes.arrival(1, 1487, 0, 1514, False, 0) == DROP


def test_an_ecn_threshold_marks_from_the_threshold_on_and_drops_only_when_full():
    rule = core.EcnThresholdRule(limit_packets=5, threshold_packets=2)
    assert [rule.arrival(n, n, 0, 66, True, 0) for n in range(6)] == [ACCEPT] * 2 + [MARK] * 3 + [DROP]
    assert [rule.arrival(n, n, 0, 66, False, 0) for n in range(6)] == [ACCEPT] * 5 + [DROP]


steps = st.tuples(st.integers(0, 400), packet_sizes, st.integers(0, 3), st.integers(0, 3))


@given(st.lists(steps, min_size=50, max_size=400), st.integers(5, 60), st.integers(20, 200), st.integers(100, 2000))
def test_codel_drops_what_the_pseudocode_of_rfc_8289_drops(steps, limit, target, interval):
    rule = core.CoDelRule(limit_packets=limit, target=target, interval=interval, ecn=False)
    oracle = twin.CoDelQueue(limit, target, interval)
    queue: deque[tuple[int, int, int]] = deque()
    dropped, name, now = [], 0, 0
    for gap, size, arrivals, departures in steps:
        now += gap
        for _ in range(arrivals):
            oracle.enqueue(name, size, now)
            if rule.arrival(len(queue), sum(q[1] for q in queue), 0, size, False, now) == DROP:
                dropped.append(name)
            else:
                queue.append((name, size, now))
            name += 1
        for _ in range(departures):
            sent = None
            while queue and sent is None:
                head = queue.popleft()
                left = len(queue), sum(q[1] for q in queue)
                if rule.departure(*left, now - head[2], head[1], False, now) == DROP:
                    dropped.append(head[0])
                else:
                    sent = head[0]
            if sent is None and not oracle.queue:
                continue  # an empty queue calls for nothing
            assert oracle.dequeue(now) == sent
        assert dropped == oracle.dropped


def test_codel_drops_at_all_and_marks_instead_when_ecn_is_on():
    # Long standing delay: the n-th drop comes interval/sqrt(n) after the one before.
    times = {}
    for ecn in (False, True):
        rule = core.CoDelRule(limit_packets=1000, target=5, interval=100, ecn=ecn)
        verdicts = [(now, rule.departure(50, 75_000, 50, 1514, ecn, now)) for now in range(1000)]
        times[ecn] = [now for now, verdict in verdicts if verdict != ACCEPT]
        assert {verdict for _, verdict in verdicts} == {ACCEPT, MARK if ecn else DROP}
    assert times[True][:6] == [100, 200, 270, 327, 377, 421]
    assert len(times[False]) == len(times[True]) > 10


red_steps = st.tuples(st.integers(0, 40), st.integers(0, 2000))


@given(st.lists(red_steps, min_size=30, max_size=400), st.integers(0, 1000), st.sampled_from([0.002, 0.1, 0.5]))
def test_red_decides_as_the_algorithm_in_the_paper(steps, seed, weight):
    settings = dict(limit_packets=30, min_threshold=3.0, max_threshold=12.0, max_probability=0.1, weight=weight)
    rule = core.RedRule(**settings, ecn=False, packet_time=100, seed=seed)
    oracle = twin.RedQueue(30, 3.0, 12.0, 0.1, weight, 100, seed)
    now = 0
    for waiting, gap in steps:
        idle_since = now
        now += gap
        theirs = oracle.drops(waiting, idle_since, now)
        assert (rule.arrival(waiting, waiting * 1514, idle_since, 1514, False, now) == DROP) is theirs
        assert rule.average == pytest.approx(oracle.average, rel=1e-9, abs=1e-12)


def test_red_spreads_its_drops_evenly():
    # Floyd and Jacobson, section 7: with a steady average, gaps are uniform on 1..1/pb, mean near 1/(2 pb).
    rule = core.RedRule(1000, 5.0, 15.0, 0.02, 1.0, False, 1, 7)
    dropped = [i for i in range(200_000) if rule.arrival(10, 15140, 1 << 60, 1514, False, i) == DROP]
    gaps = [b - a for a, b in pairwise(dropped)]
    base = 0.02 / 2
    assert sum(gaps) / len(gaps) == pytest.approx(1 / (2 * base), rel=0.05)
    assert max(gaps) <= 1 / base + 1


def test_red_marks_who_can_take_it_and_drops_the_others():
    rule = core.RedRule(1000, 5.0, 15.0, 0.02, 1.0, True, 1, 7)
    assert rule.arrival(20, 30_280, 1 << 60, 1514, True, 0) == MARK
    assert rule.arrival(20, 30_280, 1 << 60, 1514, False, 1) == DROP
    assert rule.arrival(1000, 30_280, 1 << 60, 1514, True, 2) == DROP
