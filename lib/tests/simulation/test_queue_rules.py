"""The queue rules that simulator and emulator share, against a second implementation and their definitions."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
import queue_twin as twin
from hypothesis import event, given, settings
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.errors import NetreproError
from netrepro.networks import CoDel, Red
from netrepro.networks.queues import CODEL_VARIANTS, FqCoDel, Pie

ACCEPT, MARK, DROP = core.Verdict.accept, core.Verdict.mark, core.Verdict.drop
REENTRIES = CODEL_VARIANTS[1:]  # of CoDels with a root
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


@given(
    st.lists(steps, min_size=50, max_size=400),
    st.integers(5, 60),
    st.integers(20, 200),
    st.integers(100, 2000),
    st.sampled_from(REENTRIES),
    st.sampled_from([600, 1514]),
)
def test_codel_drops_what_the_pseudocode_of_its_version_drops(steps, limit, target, interval, version, least):
    rule = core.CoDelRule(limit, target, interval, False, REENTRIES.index(version), least)
    oracle = twin.CoDelQueue(limit, target, interval, version, least)
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


@pytest.mark.parametrize(
    ("version", "gap", "second"),
    [  # drops come at 100, 200, 270, 327, 377, 421, 462 and so on: nine by 534; then a calm of so many intervals
        ("rfc8289", 2, [2, 8]),
        ("ns2_2012", 2, [9, 8]),
        ("draft01", 2, [9, 7]),
        ("rfc8289", 9, [2, 8]),
        ("ns2_2012", 9, [9, 8]),
        ("draft01", 9, [9, 1]),
        ("rfc8289", 20, [2, 1]),
        ("ns2_2012", 20, [9, 1]),
        ("draft01", 20, [9, 1]),
    ],
)
def test_codel_starts_again_as_its_version_says(version, gap, second):
    """The gaps between drops tell the count: interval / sqrt(count)."""
    interval = 1000
    rule = core.CoDelRule(10_000, 50, interval, False, REENTRIES.index(version))

    def drops(begin, end):
        verdicts = [(now, rule.departure(50, 75_000, 500, 1514, False, now)) for now in range(begin, end)]
        return [now for now, verdict in verdicts if verdict == DROP]

    first = drops(0, 5400)
    assert len(first) == 9
    begin = 5400 + gap * interval
    rule.departure(0, 0, 0, 1514, False, 5400)  # calm
    again = drops(begin, begin + 4 * interval)
    # Entered one interval after it had become bad again, with the count of the version.
    count = second[1]
    assert again[0] == begin + interval
    assert again[1] - again[0] == pytest.approx(interval / count**0.5, abs=1.5)


def drops_of(queue, wait_ms, count, gap_ms=0.1):
    """List when (ms) a queue that keeps its packets drops; packets each find `wait_ms` of others before them."""
    stand = core.NamedQueue(*queue.rule())
    ps, dropped_ms = 10**9, []
    for name in range(count):
        now_ms = name * gap_ms
        stand.join(name, 1514, 0, False, int(now_ms * ps))
        if now_ms >= wait_ms and stand.next(int(now_ms * ps))[1]:
            dropped_ms.append(now_ms)
    return dropped_ms


def test_linuxs_codel_takes_one_step_of_newtons_towards_the_root_at_each_drop():
    # x (3 - n x^2) / 2 from 1 on is .5 at n = 2, .5625 at 3, .4878 at 4, .4415 at 5; roots are .707, .577, .5, .447.
    dropped_ms = drops_of(CoDel(10**6), 50, 10_000)
    assert [b - a for a, b in pairwise(dropped_ms)][:5] == pytest.approx([100, 50, 56.25, 48.78, 44.15], abs=0.25)
    exact_ms = drops_of(CoDel(10**6, variant="rfc8289"), 50, 10_000)
    assert [b - a for a, b in pairwise(exact_ms)][:5] == pytest.approx([100, 70.7, 57.7, 50, 44.7], abs=0.25)


@pytest.mark.parametrize(("units", "dropped"), [(99, []), (100, []), (101, [1])])
def test_linuxs_codel_drops_after_and_not_at_the_end_of_an_interval(units, dropped):
    unit_ps = 1024 * 1000
    queue = CoDel(10**6, target_ms=10 * unit_ps / 1e9, interval_ms=100 * unit_ps / 1e9)
    stand = core.NamedQueue(*queue.rule())
    for name in range(50):
        stand.join(name, 1514, 0, False, 0)
    assert stand.next(20 * unit_ps)[1] == []  # above the target from here on
    assert stand.next((20 + units) * unit_ps)[1] == dropped


def lots(count, average=10_000_000, **options):
    """List which of `count` packets Linux's RED drops while `average` bytes wait, which is also the average queue."""
    stand = core.NamedQueue(*Red(10**6, 5, 15, 0.1, 1.0, **options).rule())
    stand.join(10**6, average, 0, False, 0)
    return [name for name in range(count) if stand.join(name, 0, 0, False, 1)]


def test_linuxs_red_draws_a_lot_once_a_drop_and_reaches_it_by_counting():
    # Half-way between the thresholds 1/p is 20 packets: gaps are even on 1 to 20.
    dropped = lots(200_000, 10 * 1514)
    gaps = [b - a for a, b in pairwise(dropped)]
    assert sum(gaps) / len(gaps) == pytest.approx(10.5, rel=0.02) and set(gaps) == set(range(1, 21))
    assert lots(100, 4 * 1514) == [] and lots(100, 15 * 1514) == list(range(100))


def test_linuxs_red_starts_from_a_new_lot_when_the_average_comes_back_between_the_thresholds():
    # Given lots of 2^-32 of all (a drop after one more packet) and of all (never in so few packets).
    for draw, dropped in ((0, 1), (2**32 - 1, 0)):
        stand = core.NamedQueue(*Red(1000, 5, 15, 0.1, 1.0).rule(), draws=[draw, 2**32 - 1])
        stand.join(1, 10 * 1514, 0, False, 0)
        found = [stand.join(name, 0, 0, False, 1) for name in (2, 3, 4)]
        assert found[0] == []  # it only draws
        assert [bool(each) for each in found[1:]] == [bool(dropped), False]


def test_a_queue_that_draws_more_than_it_is_given_says_so():
    stand = core.NamedQueue(*Red(1000, 5, 15, 0.1, 1.0).rule(), draws=[])
    stand.join(1, 10 * 1514, 0, False, 0)
    with pytest.raises(IndexError, match="more random numbers than were given"):
        stand.join(2, 1514, 0, False, 1)


def test_linuxs_pie_hears_of_the_delay_from_packets_that_leave_and_the_rfcs_knows_it():
    ps = 10**9
    for leaves, dropped in ((False, {"linux": False, "rfc8033": True}), (True, {"linux": True, "rfc8033": True})):
        for variant in ("linux", "rfc8033"):
            stand = core.NamedQueue(*Pie(10**5, variant=variant).rule(), rate=1514 * 8e3, seed=3)
            found = []
            for name in range(3000):  # two a millisecond, where one could leave
                if leaves and name % 2:
                    stand.next(name // 2 * ps)
                found += stand.join(name, 1514, 0, False, name // 2 * ps)
            assert bool(found) == dropped[variant]


red_steps = st.tuples(st.integers(0, 40), st.integers(0, 2000), packet_sizes)


@given(
    st.lists(red_steps, min_size=30, max_size=400),
    st.integers(0, 1000),
    st.sampled_from([0.002, 0.1, 0.5, 1.0]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 500, 1514]),
    st.sampled_from([0, 3000]),
)
def test_red_decides_as_the_algorithm_in_the_paper(steps, seed, weight, most, gentle, wait, mean, interval):
    rule = core.RedRule(
        30, 3.0, 12.0, most, weight, False, 100, seed,
        by_bytes=mean > 0, gentle=gentle, wait=wait, mean_bytes=mean or 1514, adapt_every=interval,
    )  # fmt: skip
    options = dict(gentle=gentle, wait=wait, mean=mean, interval=interval)
    oracle = twin.RedQueue(30, 3.0, 12.0, most, weight, 100, seed, **options)
    now = 0
    for waiting, gap, size in steps:
        idle_since = now
        now += gap
        theirs = oracle.drops(waiting, idle_since, now, size)
        assert (rule.arrival(waiting, waiting * 1514, idle_since, size, False, now) == DROP) is theirs
        assert rule.average == pytest.approx(oracle.average, rel=1e-9, abs=1e-12)
        assert rule.max_probability == pytest.approx(oracle.max_probability, rel=1e-9)


def test_red_with_a_weight_of_one_sees_the_queue_itself_and_without_a_probability_drops_at_the_upper_threshold_only():
    sees = core.RedRule(1000, 5.0, 15.0, 0.02, 1.0, False, 1, 7)
    never = core.RedRule(1000, 5.0, 15.0, 0.0, 1.0, False, 1, 7)
    for i, waiting in enumerate([3, 14, 8, 14, 14, 15, 2]):
        sees.arrival(waiting, 0, 1 << 60, 1514, False, i)
        assert sees.average == waiting
        assert (never.arrival(waiting, 0, 1 << 60, 1514, False, i) == DROP) == (waiting >= 15)


def red_share(average, size=1514, **options):
    """The share of packets that are dropped while so many wait."""
    rule = core.RedRule(1000, 5.0, 15.0, 0.1, 1.0, False, 1, 7, **options)
    count = 40_000
    return sum(rule.arrival(average, average * 1514, 1 << 60, size, False, i) == DROP for i in range(count)) / count


def test_gentle_red_goes_on_from_its_probability_at_the_upper_threshold_to_all_at_twice_that():
    # Gaps are uniform up to 1/p packets, so that 2 p of them are dropped.
    for average, base in ((10, 0.05), (15, 0.1)):
        assert red_share(average, gentle=True) == pytest.approx(2 * base, rel=0.05)
    assert red_share(15) == 1.0 == red_share(30, gentle=True)
    assert red_share(24, gentle=True) < 1.0


def test_red_by_bytes_spares_small_packets_in_proportion():
    small, full = (red_share(10, size, by_bytes=True) for size in (151, 1514))
    assert full == pytest.approx(red_share(10), rel=0.05)
    assert small == pytest.approx(full / 10, rel=0.1)
    assert red_share(10, 151) == pytest.approx(red_share(10, 1514))  # by packets they are alike


def test_red_that_waits_never_drops_two_within_so_many_packets():
    rule = core.RedRule(1000, 5.0, 15.0, 0.1, 1.0, False, 1, 7, wait=True)
    dropped = [i for i in range(20_000) if rule.arrival(10, 15140, 1 << 60, 1514, False, i) == DROP]
    gaps = [b - a for a, b in pairwise(dropped)]
    assert 20 <= min(gaps) <= max(gaps) <= 40  # 1/p to 2/p, p = 0.05
    hasty = core.RedRule(1000, 5.0, 15.0, 0.1, 1.0, False, 1, 7)
    dropped = [i for i in range(20_000) if hasty.arrival(10, 15140, 1 << 60, 1514, False, i) == DROP]
    assert min(b - a for a, b in pairwise(dropped)) < 5


def test_red_set_for_a_link_is_as_ns2_sets_itself():
    slow, fast = (Red.self_configured(rate, 1000) for rate in (3, 100))
    assert (slow.min_threshold_packets, slow.max_threshold_packets) == (5, 15)
    packets_per_s = 100e6 / 8 / 1514
    assert fast.min_threshold_packets == pytest.approx(0.005 * packets_per_s / 2)
    assert fast.max_threshold_packets == 3 * fast.min_threshold_packets
    assert fast.weight == pytest.approx(1 / packets_per_s, rel=1e-3)
    assert fast.adaptive and fast.gentle and fast.wait and fast.by_bytes and fast.max_probability == 0.1


def test_versions_and_options_that_are_none_are_refused():
    with pytest.raises(NetreproError, match="rfc8289"):
        CoDel(variant="rfc8298")
    for make in (FqCoDel, Pie, lambda variant: Red(100, 5, 15, variant=variant)):
        with pytest.raises(NetreproError, match="variant = 'ns2'"):
            make(variant="ns2")
    for option in ("gentle", "wait", "by_bytes"):
        with pytest.raises(NetreproError, match=f"Red with {option}"):
            Red(100, 5, 15, **{option: True})
    with pytest.raises(NetreproError, match="start it above 0"):
        Red(100, 5, 15, 0, adaptive=True)
    with pytest.raises(NetreproError, match="from 0 to 1"):
        Red(100, 5, 15, -0.1)


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


pie_steps = st.tuples(st.integers(1, 400), st.integers(0, 3), packet_sizes)


@settings(max_examples=60)
@given(st.lists(pie_steps, min_size=100, max_size=400), st.integers(0, 99), st.sampled_from([100, 200, 800]))
def test_pie_decides_as_the_rfc_with_a_timer_that_runs_by_itself(steps, seed, rate):
    # Times in microseconds; updates come often, and a burst lasts two of them.
    target, update, burst = 2000, 300, 600
    limit = 60
    rule = core.PieRule(limit, target, update, burst, 10**6, False, seed)
    oracle = twin.PieQueue(limit, target, update, burst, rate, seed)
    now = dropped = 0
    for gap, arrivals, size in steps:
        for moment in range(now + 1, now + gap + 1):
            oracle.tick(moment)
        now += gap
        for _ in range(arrivals):
            waiting, busy_until = oracle.waiting(now), oracle.busy_until
            theirs = oracle.enque(size, now)
            assert (rule.arrival(*waiting, busy_until, size, False, now) == DROP) is theirs
            assert rule.probability == pytest.approx(oracle.drop_prob, rel=1e-9, abs=1e-15)
            dropped += theirs
    event(f"dropped {min(dropped, 3)}")


def overloaded(rule: core.PieRule, ecn: bool, packets: int, delay: int, start: int = 0) -> list[core.Verdict]:
    """List the verdicts on a packet a millisecond, each of which finds a queue of `delay` (us)."""
    times = range(start, start + packets * 1000, 1000)
    return [rule.arrival(50, 75_000, now + delay, 1514, ecn, now) for now in times]


def test_pie_lets_a_burst_through_and_then_drops_more_and_more():
    rule = core.PieRule(1000, 15_000, 15_000, 150_000, 10**6, False, 1)
    verdicts = overloaded(rule, False, 3000, 40_000)
    assert verdicts[:150] == [ACCEPT] * 150
    before = rule.probability
    verdicts += overloaded(rule, False, 1000, 40_000, start=3_000_000)
    shares = [verdicts[i : i + 1000].count(DROP) / 1000 for i in range(0, 4000, 1000)]
    assert shares == sorted(shares) and shares[0] < 0.1 < shares[-1] < rule.probability
    # With a steady delay every 15 ms add alpha (40 - 15) ms: 66 or 67 times in a second.
    assert rule.probability - before == pytest.approx(66.5 * 0.125 * 0.025, abs=0.125 * 0.025)


def test_pie_forgets_its_probability_while_the_link_is_idle():
    rule = core.PieRule(1000, 15_000, 15_000, 150_000, 10**6, False, 1)
    overloaded(rule, False, 8000, 40_000)
    assert rule.probability > 0.5
    rule.arrival(0, 0, 8_000_000, 1514, False, 600_000_000)
    assert rule.probability == 0


def test_pie_marks_who_can_take_it_while_it_drops_one_in_ten_at_most():
    marked = core.PieRule(1000, 15_000, 15_000, 150_000, 10**6, True, 1)
    verdicts = overloaded(marked, True, 8000, 40_000)
    first_drop = verdicts.index(DROP)
    assert MARK in verdicts[:first_drop] and MARK not in verdicts[first_drop:]
    deaf = core.PieRule(1000, 15_000, 15_000, 150_000, 10**6, True, 1)
    assert MARK not in overloaded(deaf, False, 8000, 40_000)


@given(st.lists(st.tuples(st.integers(0, 300), packet_sizes), max_size=200), st.sampled_from([0.8, 0.95, 1.0]))
def test_a_phantom_queue_is_a_queue_behind_a_slower_link(steps, share):
    # The oracle counts byte by byte what a link of one byte a unit of time hands to one of `share`.
    rule = core.PhantomQueueRule(limit_packets=10_000, drain_share=share, threshold_bytes=3000, time_per_byte=1.0)
    now, free_at, phantom_empty_at = 0, 0, 0.0
    for gap, size in steps:
        now += gap
        verdict = rule.arrival(0, 0, free_at, size, True, now)
        free_at = max(free_at, now) + size
        # A virtual link that takes in whole packets as their last bits leave the real one.
        phantom_empty_at = max(phantom_empty_at, free_at) + size / share
        level = (phantom_empty_at - free_at) * share
        assert rule.level == pytest.approx(level, abs=1e-6)
        if abs(level - 3000) > 1e-6:
            assert verdict == (MARK if level > 3000 else ACCEPT)


def test_a_phantom_queue_marks_only_what_can_bear_it_and_drops_what_does_not_fit():
    rule = core.PhantomQueueRule(limit_packets=10, drain_share=0.5, threshold_bytes=100, time_per_byte=1.0)
    assert rule.arrival(0, 0, 0, 1514, False, 0) == ACCEPT
    assert rule.arrival(0, 0, 1514, 1514, True, 0) == MARK
    assert rule.arrival(10, 15_140, 3028, 1514, True, 0) == DROP


def test_a_phantom_queue_drains_while_the_link_is_idle():
    rule = core.PhantomQueueRule(limit_packets=100, drain_share=0.5, threshold_bytes=3000, time_per_byte=1.0)
    assert [rule.arrival(0, 0, 1000 * n, 1000, True, 0) for n in range(8)][-1] == MARK
    assert rule.level == 1000 + 7 * 500
    # The link has sent all at 8000 and is idle: 4000 units later half of a byte each has drained.
    assert rule.arrival(0, 0, 8000, 1000, True, 12_000) == ACCEPT
    assert rule.level == 4500 - (12_000 + 1000 - 8000) * 0.5 + 1000
    rule.arrival(0, 0, 13_000, 1000, True, 1_000_000)
    assert rule.level == 1000  # and never below nothing


def test_a_shared_buffer_drops_at_its_threshold_when_it_is_full_and_marks_at_its_mark():
    pool = core.KnownPool()
    rule = core.SharedBufferRule(pool, limit_bytes=10_000, alpha=0.5, mark_packets=3)
    pool.used_bytes = 4000
    verdicts = [rule.arrival(packets, held, 0, 1000, True, 0) for packets, held in ((2, 2999), (2, 3000), (3, 2999))]
    assert verdicts == [ACCEPT, DROP, MARK]  # 3000 is half of what is free
    assert rule.arrival(3, 2999, 0, 1000, False, 0) == ACCEPT
    greedy = core.SharedBufferRule(pool, limit_bytes=10_000, alpha=1000.0, mark_packets=1 << 40)
    pool.used_bytes = 9000
    assert greedy.arrival(6, 9000, 0, 1000, True, 0) == ACCEPT
    assert greedy.arrival(6, 9000, 0, 1001, True, 0) == DROP  # no room, whatever the threshold
