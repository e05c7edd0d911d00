"""Low latency, low loss and scalable throughput (L4S, RFC 9330): its queue, its feedback and its senders."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import replace
from random import Random
from typing import ClassVar

import pytest
import queue_twin as twin
from hypothesis import event, given, settings
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    CoDel,
    DropTail,
    DualPi2,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    Measure,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.compiled import tcp_settings
from netrepro.simulation import OwnCongestionControl, OwnQueueDiscipline, simulate

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


# AccECN.


def acknowledged_by_rfc_9768(marked, every):
    """Section 3.2.2.5.1 and 3.2.2: by packet, the last field that was sent, and whether marks alone sent it."""
    cep, told, unsent, before, fields = 5, 5 % 8, 0, False, []
    for number, mark in enumerate(marked):
        cep += mark
        unsent += mark
        at_once = (mark and not before) or (mark and unsent >= 2)
        before = mark
        if at_once or number % every == every - 1:
            told, unsent = cep % 8, 0
        fields.append((told, at_once))
    return fields


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 50))
def test_a_receiver_counts_marks_and_tells_them_when_rfc_9768_says(marked, every):
    acknowledged = [number % every == every - 1 for number in range(len(marked))]
    told = core.accurate_ecn_fields(marked, acknowledged)
    oracle = acknowledged_by_rfc_9768(marked, every)
    assert [at_once for _, at_once in told] == [at_once for _, at_once in oracle]
    sent = [number for number, (_, at_once) in enumerate(oracle) if at_once or acknowledged[number]]
    assert [told[number][0] for number in sent] == [oracle[number][0] for number in sent]


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_a_sender_reads_marks_as_appendix_a_2_1_of_rfc_9768_says_and_never_too_few(marked, gaps):
    heard, truth, place = [], [], 0
    for gap in gaps:
        part = marked[place : place + gap]
        place += len(part)
        heard.append(((5 + sum(marked[:place])) % 8, len(part)))
        truth.append(sum(part))
    marks = core.accurate_ecn_marks(heard)
    counted = 5
    for (field, delivered), read, true in zip(heard, marks, truth, strict=True):
        least = (field + 8 - counted % 8) % 8
        safer = delivered - (delivered - least) % 8
        assert read == (max(safer, least) if delivered else 0)
        counted += read
        assert true <= read <= delivered and (read - true) % 8 == 0
        assert read == true or delivered >= 8


def test_a_sender_believes_a_counter_that_is_ahead_of_what_was_delivered():
    # Two marks and one delivery, because an acknowledgement between came late and told of no delivery.
    assert core.accurate_ecn_marks([(6, 0), (7, 1), (7, 1)]) == [0, 2, 0]


class Listening(OwnCongestionControl):
    """Reno that writes down what acknowledgements tell."""

    heard: ClassVar[list[tuple[float, float, bool]]] = []

    def grow(self, window, delivery):
        left = window.slow_start(delivery.segments) if window.in_slow_start else delivery.segments
        if left:
            window.avoid_congestion(left, int(window.segments))

    def threshold_after_loss(self, window):
        return max(window.segments / 2, 2)

    def on_delivery(self, window, delivery):
        self.heard.append((delivery.segments, delivery.marked_segments, delivery.marked))


def listened(tcp, *, loss_back=0.0):
    """Return the marks that a sender hears of in a network that marks, and the marks that there were."""
    there, back = Link(20, 5, EcnThreshold(200, 15)), Link(20, 5, loss=loss_back)
    network = Topology((Cable("h1", "s1", FAST), Cable("s1", "h2", there, back)))
    flow = Flow("h1", "h2", size_bytes=12_000_000, congestion_control="my_listener")
    Listening.heard.clear()
    run = simulate(Experiment(network, [flow], 20, tcp=tcp), congestion_controls={"my_listener": Listening})
    assert run.trusted and run.flows["completion_ms"].notna().all()
    link = run.links.query("source == 's1' and destination == 'h2'").iloc[0]
    return Listening.heard, link.marked_packets


def test_a_sender_with_accurate_ecn_hears_of_every_mark_once_and_with_classic_ecn_of_whole_windows():
    heard, marked = listened(Tcp(accurate_ecn=True))
    assert marked > 50 and sum(marks for _, marks, _ in heard) == marked
    assert all(is_marked == (marks > 0) for _, marks, is_marked in heard)
    heard, marked = listened(Tcp(ecn=True))
    assert sum(marks for _, marks, _ in heard) > 2 * marked
    assert all(marks == (segments if is_marked else 0) for segments, marks, is_marked in heard)


def test_lost_acknowledgements_hide_no_mark():
    heard, marked = listened(Tcp(accurate_ecn=True), loss_back=0.3)
    told = sum(marks for _, marks, _ in heard)
    assert told > marked and (told - marked) % 8 == 0  # where eight or more are acknowledged at once it may have cycled


@pytest.mark.parametrize(
    ("asks", "knows", "gets"),
    [
        ({"accurate_ecn": True}, "accurate", "accurate"),
        ({"accurate_ecn": True}, "classic", "classic"),
        ({"accurate_ecn": True}, "none", "none"),
        ({"ecn": True}, "accurate", "classic"),
        ({"ecn": True}, "classic", "classic"),
        ({"ecn": True}, "none", "none"),
        ({}, "accurate", "none"),
    ],
)
def test_both_ends_agree_on_the_most_that_one_asks_for_and_the_other_knows(asks, knows, gets):
    heard, marked = listened(Tcp(receiver_ecn=knows, **asks))
    told = sum(marks for _, marks, _ in heard)
    assert (marked > 0) == (told > 0) == (gets != "none")
    if gets != "none":
        assert (told == marked) == (gets == "accurate")


class Reading(OwnQueueDiscipline):
    """First in, first out; it writes down which packets are full, ECN-capable, and with ECT(1)."""

    seen: ClassVar[Counter[tuple[bool, bool, bool]]] = Counter()

    def __init__(self):
        self.waiting = deque()

    def enqueue(self, packet, now_s):
        self.seen[packet.bytes > 1000, packet.ecn_capable, packet.ect_1] += 1
        self.waiting.append(packet)

    def dequeue(self, now_s):
        return self.waiting.popleft()

    def clear(self):
        self.waiting.clear()


@pytest.mark.parametrize(
    ("tcp", "code_point"),
    [
        (Tcp("cubic"), (False, False)),
        (Tcp("cubic", ecn=True), (True, False)),
        (Tcp("cubic", accurate_ecn=True), (True, False)),
        (Tcp("dctcp", accurate_ecn=True, ect_1=True), (True, True)),
        (Tcp("dctcp", accurate_ecn=True, ect_1=True, receiver_ecn="classic"), (True, False)),
        (Tcp("prague"), (True, True)),
        (Tcp("prague", receiver_ecn="classic"), (True, False)),
        (Tcp("prague", receiver_ecn="none"), (False, False)),
    ],
)
def test_data_carry_the_code_point_that_was_agreed_and_acknowledgements_none(tcp, code_point):
    Reading.seen.clear()
    network = dumbbell(1, access=FAST, bottleneck=Link(10, 2))
    queues = {("s1", "s2"): Reading, ("s2", "s1"): Reading}
    simulate(Experiment(network, [Flow("h1", "h2", size_bytes=70 * 1448)], 5, tcp=tcp), queues=queues)
    assert set(Reading.seen) == {(True, *code_point), (False, False, False)}


def test_ect_1_without_accurate_ecn_is_refused():
    with pytest.raises(NetreproError, match="accurate_ecn=True"):
        Tcp(ect_1=True)
    with pytest.raises(NetreproError, match="classic"):
        Tcp(receiver_ecn="clasic")


def test_dctcp_with_accurate_ecn_sends_as_much_as_with_its_own_echoes():
    rates = {}
    for accurate in (False, True):
        network = dumbbell(1, access=FAST, bottleneck=Link(100, 5, EcnThreshold(200, 20)))
        run = simulate(
            Experiment(network, [Flow("h1", "h2", duration_s=10)], 10, tcp=Tcp("dctcp", accurate_ecn=accurate))
        )
        rates[accurate] = run.flows["goodput_mbps"][0]
    assert rates[True] == pytest.approx(rates[False], rel=0.02) and rates[True] > 90


# TCP Prague.


class PragueTwin:
    """draft-briscoe-iccrg-prague-congestion-control, sections 2.3 and 2.4, in the words of its authors' kernel.

    cwnd is whole and follows frac_cwnd by one at an acknowledgement. Times are seconds.
    """

    def __init__(self, accurate, round_trip, now, target, transition, alpha):
        self.accurate, self.srtt, self.target, self.transition = accurate, round_trip, target, transition
        self.cwnd, self.ssthresh, self.frac_cwnd, self.alpha = 10.0, 1e18, 10.0, alpha
        self.round = self.next_seq = self.acked = self.ce = 0
        self.alpha_stamp = self.cwr_stamp = now
        self.saw_ce = False

    @property
    def rtt_indep(self):
        return self.accurate and self.target > 0 and self.cwnd >= self.ssthresh and self.round >= self.transition

    def goal(self):
        return max(math.ceil(self.frac_cwnd - 1e-9), 2)

    def ack(self, now, segments, ce, rtt, una, nxt, recovers, reduces, limited):
        if reduces and recovers:
            self.frac_cwnd = max(self.frac_cwnd / 2, 1)
        elif reduces and not (self.rtt_indep and now - self.cwr_stamp < self.target - 1e-12):
            self.cwr_stamp = now
            self.frac_cwnd = max(self.frac_cwnd - self.frac_cwnd * (self.alpha if self.accurate else 1) / 2, 1)
        if reduces:
            self.ssthresh = min(self.ssthresh, self.goal())
        self.srtt += (rtt - self.srtt) / 8
        ce = ce if self.accurate else 0
        self.saw_ce |= ce > 0
        self.acked += segments
        self.ce += ce
        good = segments - ce
        if good > 0 and not recovers and limited:
            if self.cwnd < self.ssthresh:
                grown = min(self.cwnd + good, self.ssthresh)
                good -= grown - self.cwnd
                self.cwnd = self.frac_cwnd = grown
            scale = (self.srtt / self.target) ** 2 if self.rtt_indep and self.srtt < self.target else 1
            self.frac_cwnd += good * scale / self.frac_cwnd
        if self.cwnd > self.goal():
            self.cwnd = self.ssthresh = max(self.cwnd - 1, self.goal())
        elif self.cwnd < self.goal():
            self.cwnd = min(self.cwnd + 1, self.goal())
        if una >= self.next_seq and not (self.rtt_indep and now - self.alpha_stamp < self.target - 1e-12):
            if self.saw_ce and self.acked:
                self.alpha = 15 / 16 * self.alpha + min(self.ce / self.acked, 1) / 16
            self.alpha_stamp, self.next_seq, self.acked, self.ce = now, nxt, 0, 0
            self.round += self.cwnd >= self.ssthresh

    def pacing_rate(self, in_flight, mss):
        rate = max(self.frac_cwnd, 2, in_flight) * (mss + 52 * self.accurate) / self.srtt  # tcp_mss_to_mtu
        return 2 * rate if self.cwnd < self.ssthresh / 2 else rate


acknowledgements = st.tuples(
    st.integers(1, 20),  # milliseconds since the one before
    st.integers(1, 6),  # segments
    st.sampled_from([0, 0, 0, 0, 1, 2]),  # of them marked
    st.integers(4, 40),  # round trip, ms
    st.sampled_from(["", "", "", "", "", "marks", "loses", "recovers"]),
    st.sampled_from([True, True, True, False]),
)


@settings(max_examples=60)
@given(
    st.lists(acknowledgements, min_size=100, max_size=400),
    st.booleans(),
    st.sampled_from([0.0, 25.0]),
    st.sampled_from([0, 5, 500]),
    st.sampled_from([0.0, 1.0]),
)
def test_pragues_window_is_that_of_a_second_implementation(steps, accurate, target_ms, transition, alpha):
    tcp = Tcp("prague", prague_round_trip_ms=target_ms, prague_rounds=transition, dctcp_alpha=alpha)
    stand = core.ControlStand("prague", core.TcpSettings(**tcp_settings(tcp)))
    stand.connect(accurate, 0.01, 1.0)
    oracle = PragueTwin(accurate, 0.01, 1.0, target_ms / 1e3, transition, alpha)
    now_ms, first = 1000, 0
    for gap_ms, segments, ce, rtt_ms, what, limited in steps:
        now_ms += gap_ms
        first += segments
        in_flight = int(stand.window.segments) + 3
        told = {"marked_segments": min(ce, segments), "recovers": what in ("loses", "recovers")}
        reduces = what in ("marks", "loses")
        stand.deliver(
            now_s=now_ms / 1e3,
            segments=segments,
            round_trip_s=rtt_ms / 1e3,
            first=first,
            next=first + in_flight,
            reduces=reduces,
            in_flight=in_flight,
            window_limited=limited,
            **told,
        )
        oracle.ack(
            now_ms / 1e3,
            segments,
            told["marked_segments"],
            rtt_ms / 1e3,
            first,
            first + in_flight,
            told["recovers"],
            reduces,
            limited,
        )
        assert stand.window.segments == oracle.cwnd
        assert stand.window.threshold == pytest.approx(oracle.ssthresh)
        assert stand.pacing_rate == pytest.approx(oracle.pacing_rate(in_flight, 1448), rel=1e-6)


CUBIC, CUBIC_ECN, PRAGUE = Tcp("cubic"), Tcp("cubic", ecn=True), Tcp("prague")


def side_by_side(queue, first, second, *, seconds=30, round_trips_ms=(10.0, 10.0)):
    """Two flows through 100 Mb/s: their rates (Mb/s) and, by flow, how long their packets wait from 5 s on (ms)."""
    cables = [Cable("s1", "s2", Link(100, 0, queue), Link(100, 0, DropTail(packets=10_000)))]
    for place, round_trip_ms in enumerate(round_trips_ms):
        wire = Link(1000, round_trip_ms / 4, DropTail(packets=10_000))
        cables += [Cable(f"h{place + 1}", "s1", wire), Cable("s2", f"h{place + 3}", wire)]
    flows = [Flow(f"h{i + 1}", f"h{i + 3}", duration_s=seconds, tcp=tcp) for i, tcp in enumerate((first, second))]
    run = simulate(Experiment(Topology(tuple(cables)), flows, seconds, measure=Measure(packets=[("s1", "s2")])))
    assert run.trusted
    return run.flows["goodput_mbps"].tolist(), run.packets.query("time_s > 5").groupby("flow")["wait_ms"]


def test_prague_and_cubic_share_a_dualpi2_and_without_coupling_prague_takes_nearly_all():
    (prague, cubic), _ = side_by_side(DualPi2(target_ms=5.0), PRAGUE, CUBIC)
    assert 1 / 1.5 < prague / cubic < 1.5 and prague + cubic > 90
    (prague, cubic), _ = side_by_side(DualPi2(target_ms=5.0, coupling=0.0), PRAGUE, CUBIC)
    assert prague / cubic > 4


def test_in_a_dualpi2_pragues_packets_wait_for_a_millisecond_at_most_and_cubics_for_the_target():
    _, waits_ms = side_by_side(DualPi2(target_ms=15.0), PRAGUE, CUBIC)
    assert waits_ms.quantile(0.99)[0] < 1.2 and waits_ms.mean()[1] == pytest.approx(15, rel=0.15)
    rates, waits_ms = side_by_side(DualPi2(), PRAGUE, PRAGUE)
    assert (waits_ms.quantile(0.99) < 1.3).all() and (waits_ms.mean() > 0.4).all() and sum(rates) > 90
    assert max(rates) / min(rates) < 1.3


def test_fq_codel_with_a_threshold_for_ect_1_keeps_pragues_delay_low_and_gives_each_its_half():
    queue = FqCoDel(ce_threshold_ms=1.0, ce_threshold_ect_1=True)
    rates, waits_ms = side_by_side(queue, PRAGUE, CUBIC_ECN)
    assert max(rates) / min(rates) < 1.1
    assert waits_ms.median()[0] < 1.2 < 2.5 < waits_ms.median()[1]
    _, waits_ms = side_by_side(FqCoDel(), PRAGUE, CUBIC_ECN)
    assert waits_ms.median()[0] > 2


def test_in_one_queue_that_marks_all_alike_prague_leaves_cubic_little_and_where_it_drops_it_does_not():
    marks = Fq(168, 168, ce_threshold_ms=5.0, flows=1)
    (prague, cubic), _ = side_by_side(marks, PRAGUE, CUBIC_ECN)
    assert prague > 5 * cubic
    (prague, cubic), _ = side_by_side(CoDel(168), PRAGUE, CUBIC)
    assert prague < cubic


def test_after_some_rounds_a_shorter_round_trip_gives_prague_no_more_and_without_that_it_does():
    ratios = {}
    for target_ms in (0.0, 25.0):
        tcp = Tcp("prague", prague_round_trip_ms=target_ms, prague_rounds=100)
        (near, far), _ = side_by_side(DualPi2(), tcp, tcp, seconds=60, round_trips_ms=(6.0, 24.0))
        ratios[target_ms] = near / far
    assert ratios[0.0] > 2 and 0.7 < ratios[25.0] < 1.4


def test_prague_without_accurate_ecn_is_reno_with_pacing():
    for knows, queue, ecn in (("none", DropTail(packets=80), False), ("classic", EcnThreshold(200, 40), True)):
        reno = Tcp("reno", ecn=ecn)
        theirs, _ = side_by_side(queue, replace(reno, pacing=True, pacing_ratio=1.0), reno, seconds=60)
        ours, _ = side_by_side(queue, Tcp("prague", receiver_ecn=knows), reno, seconds=60)
        assert ours == pytest.approx(theirs, rel=0.15)


def test_prague_that_is_told_to_heed_no_mark_fills_an_l4s_queue_that_it_else_keeps_short():
    heeds, is_deaf = (
        side_by_side(DualPi2(), replace(PRAGUE, prague_heeds_marks=heeds), CUBIC)[1].median()[0]
        for heeds in (True, False)
    )
    assert is_deaf > 4 * heeds


def test_prague_grows_while_marks_come_and_halves_for_a_loss():
    tcp = Tcp("prague", prague_round_trip_ms=0.0, dctcp_alpha=0.0)
    stand = core.ControlStand("prague", core.TcpSettings(**tcp_settings(tcp)))
    stand.connect(True, 0.01, 0.0)
    windows = []

    def round_trip(number, marked, recovers=False, reduces=False):
        for place in range(10):
            told = {"segments": 10, "round_trip_s": 0.01, "first": 100 * number + 10 * place, "window_limited": True}
            told |= {"next": told["first"] + 100, "in_flight": 100}
            told |= {"marked_segments": marked if place == 0 else 0, "recovers": recovers}
            told |= {"reduces": reduces and place == 0}
            stand.deliver(now_s=0.01 * (number + 1) + place / 1e3, **told)
        windows.append(stand.window.segments)

    round_trip(0, 0)
    assert windows[-1] == 110  # slow start: a segment more for each
    round_trip(1, 1, reduces=True)
    for number in range(2, 22):
        round_trip(number, 1)
    # With one mark in a hundred segments and no reduction but the first, of nothing, it has grown in every round.
    assert windows[-1] - windows[1] == pytest.approx(20 * 99 / 120, rel=0.2)
    before = windows[-1]
    for number in range(22, 30):
        round_trip(number, 0, recovers=True, reduces=number == 22)
    assert windows[-1] == pytest.approx(before / 2, abs=5)
