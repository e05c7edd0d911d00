"""BBR version 3 (draft-ietf-ccwg-bbr-06): beside a second implementation, and what it does to networks."""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from random import Random

import pytest
from bbr3_twin import INF, SECOND, Bbr3Twin

from netrepro import _core as core
from netrepro.networks import (
    Cable,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    Queue,
    Requests,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.compiled import tcp_settings
from netrepro.simulation import simulate

MSS = 1448


@dataclass
class Path:
    """A bottleneck: segments a second, round trip (s), places in its queue; what it does to segments."""

    rate: float
    round_trip_s: float = 0.04
    places: int = 1000
    loss: float = 0.0
    marks_from: float = INF  # waiting segments
    batch_s: float = 0.0  # acknowledgements come in batches so long
    changes: tuple[tuple[float, float], ...] = ()  # (from s on, segments a second)
    pauses: tuple[tuple[float, float], ...] = ()  # (from s, to s): the application has nothing
    limited_to: float = INF  # segments a second that the application has
    bucket: float = 0.0  # tokens of a policer that drops what is faster than the rate, in place of the queue
    dead: tuple[tuple[float, float], ...] = ()  # (from s, to s): all is lost
    needless: float = 0.0  # share of recoveries that are undone
    tails: float = 0.0  # share of acknowledgements that tell of a loss that a probe has repaired
    sack: bool = True
    handshake: bool = True  # has measured the round trip


@dataclass
class Sent:
    segment: int
    order: int
    at: int
    first_sent: int
    delivered_at: int
    delivered: float
    limited: bool
    in_flight: int
    lost: int
    marked: int
    ce: bool = False


@dataclass
class Step:
    """The state of a sender after an acknowledgement."""

    now_s: float
    phase: str
    cwnd: float
    pacing: float
    in_flight: int
    limited: bool
    twin: dict = field(repr=False)


def drive(path: Path, seconds: float, react: Callable[[Step, Path], None] = lambda *_: None) -> list[Step]:
    """Send over the path under bbr3; whatever happens is told to the twin too, and both must answer alike.

    `react` sees each step, and may change the path.
    """
    random = Random(1)
    control = core.ControlStand("bbr3", core.TcpSettings(**tcp_settings(Tcp("bbr3", sack=path.sack))))
    round_trip = round(path.round_trip_s * SECOND)
    start = SECOND
    srtt = round_trip if path.handshake else 0
    control.connect(True, srtt / SECOND, start / SECOND)
    twin = Bbr3Twin(10, srtt, start, MSS, path.sack)
    steps: list[Step] = []
    now, end = start, start + round(seconds * SECOND)
    arrivals: list[tuple[int, int, Sent]] = []
    out: dict[int, Sent] = {}  # by the order of sending
    resend: list[int] = []
    next_segment = order = lost = marked = 0
    delivered, delivered_at, first_sent = 0.0, start, start
    limited_until = 0.0
    next_send, busy_until, last_answer = start, start, start
    state, recovery_point = "", 0
    least = INF
    limit = path.limited_to, start, 0
    tokens, filled_at = path.bucket, start
    window_full = False
    full_until = 0

    def within(spells_s: tuple[tuple[float, float], ...]) -> bool:
        return any(a * SECOND <= now - start < b * SECOND for a, b in spells_s)

    def rate() -> float:
        return next((r for from_s, r in reversed(path.changes) if now >= start + from_s * SECOND), path.rate)

    def has_data() -> bool:
        if within(path.pauses):
            return False
        nonlocal limit
        if limit[0] != path.limited_to:
            limit = path.limited_to, now, next_segment
        return next_segment < limit[2] + path.limited_to * ((now - limit[1]) / SECOND)

    def leave(segment: int) -> None:
        nonlocal order, next_send, busy_until, first_sent, delivered_at, last_answer, tokens, filled_at
        if not out:
            last_answer = now
            if limited_until:
                control.restart(now=now)
                twin.restart_from_idle(now)
            first_sent = delivered_at = now
        sent = Sent(segment, order, now, first_sent, delivered_at, delivered, limited_until > 0, 0, lost, marked)
        out[order] = sent
        sent.in_flight = len(out)
        order += 1
        next_send = max(now, next_send) + round(MSS / control.pacing_rate * SECOND)
        if path.bucket:
            tokens, filled_at = min(path.bucket, tokens + (now - filled_at) / SECOND * rate()), now
            if tokens >= 1:
                tokens -= 1
                heapq.heappush(arrivals, (now + round_trip, sent.order, sent))
            return
        waiting = max(0, busy_until - now) / SECOND * rate()
        if waiting >= path.places or random.random() < path.loss or within(path.dead):
            return
        sent.ce = waiting > path.marks_from
        busy_until = max(now, busy_until) + round(SECOND / rate())
        at = busy_until + round_trip
        if path.batch_s:
            batch = round(path.batch_s * SECOND)
            at = -(-at // batch) * batch
        heapq.heappush(arrivals, (at, sent.order, sent))

    def lose(gone: list[Sent]) -> None:
        nonlocal lost
        for sent in gone:
            del out[sent.order]
            lost += 1
            resend.append(sent.segment)
            control.lose(
                now=now,
                segment=sent.segment,
                in_flight_at_departure=sent.in_flight,
                lost_since=lost - sent.lost,
                total_delivered=delivered,
                application_limited=sent.limited,
            )
            twin.lose(now, sent.segment, sent.in_flight, lost - sent.lost, delivered, sent.limited)

    def agree() -> None:
        assert control.phase == twin.state, (now / SECOND, control.phase, twin.state)
        assert control.window.segments == pytest.approx(twin.cwnd, rel=1e-9), (now / SECOND, control.phase)
        assert control.pacing_rate == pytest.approx(twin.pacing_rate, rel=1e-9), (now / SECOND, control.phase)

    while now < end:
        # Send what may leave now.
        while True:
            full = len(out) >= max(1, int(control.window.segments + 1e-9))
            if full:
                window_full, full_until = True, order
                break
            if not resend and not has_data():
                limited_until = max(1.0, delivered + len(out))
                break
            if next_send > now:
                break
            if resend:
                leave(resend.pop(0))
            else:
                leave(next_segment)
                next_segment += 1
        events = [end]
        if arrivals:
            events.append(arrivals[0][0])
        if len(out) < int(control.window.segments + 1e-9) and (resend or has_data()):
            events.append(max(next_send, now + 1))
        if not resend and not has_data():
            events.append(now + SECOND // 500)
        if out:
            events.append(last_answer + SECOND)
        now = min(event for event in events if event > now)
        if arrivals and arrivals[0][0] <= now:
            in_flight_before = len(out)
            limited_window = window_full
            newest, newly, ce = None, 0, 0
            last_answer = now
            while arrivals and arrivals[0][0] <= now:
                sent = heapq.heappop(arrivals)[2]
                if sent.order not in out:
                    continue  # taken for lost too soon
                del out[sent.order]
                newly, ce, newest = newly + 1, ce + sent.ce, sent
                delivered += 1
            if newest is None:
                continue
            delivered_at = now
            if limited_until and delivered > limited_until:
                limited_until = 0.0
            marked += ce
            control.hear(now=now, segments=newly, marked_segments=ce)
            twin.hear(newly, ce)
            if random.random() < path.tails:
                control.repair_tail(now=now, total_delivered=delivered, application_limited=limited_until > 0)
                twin.tlp_recovery(now, delivered, limited_until > 0)
            if newest.order >= full_until:
                window_full = False
            if state and not any(s.segment < recovery_point for s in out.values()) and not resend:
                state = ""
                if random.random() < path.needless:
                    control.undo()
                    twin.spurious_loss()
            gone = [s for s in out.values() if s.order < newest.order - 3]
            if gone and not state:
                control.begin_recovery()
                twin.enter_fast_recovery()
                state, recovery_point = "recovery", next_segment
            lose(gone)
            round_trip_now = now - newest.at
            least = min(least, round_trip_now)
            interval = max(newest.at - newest.first_sent, now - newest.delivered_at)
            first_sent = newest.at
            told = {
                "interval": interval,
                "delivered": delivered - newest.delivered if interval >= least else 0,
                "prior_delivered": newest.delivered,
                "total_delivered": delivered,
                "application_limited": newest.limited,
                "newly_delivered": newly,
                "in_flight": len(out),
                "in_flight_before": in_flight_before,
                "in_flight_at_departure": newest.in_flight,
                "lost": lost - newest.lost,
                "marked": marked - newest.marked,
                "window_limited": limited_window,
                "round_trip": round_trip_now,
            }
            no_measure = control.measure(now=now, told=told, state=state)
            twin.ack(now, told, state)
            agree()
            assert no_measure == twin.app_limit_mark
            if no_measure:
                limited_until = max(1.0, delivered + len(out))
            known = {k: v for k, v in vars(twin).items() if isinstance(v, int | float | bool | str)} | {"lost": lost}
            seen_s = (now - start) / SECOND
            steps.append(Step(seen_s, twin.state, twin.cwnd, twin.pacing_rate, len(out), newest.limited, known))
            react(steps[-1], path)
        elif out and now >= last_answer + SECOND:
            last_answer = now
            control.time_out(0)
            twin.enter_rto(0)
            state, recovery_point = "loss", next_segment
            lose(list(out.values()))
            control.end_timeout()
            twin.rto_losses_are_told()
            resend.sort()
    return steps


PATHS = {
    "a deep queue": Path(500),
    "a shallow queue": Path(1000, places=15),
    "almost no queue": Path(1000, places=4),
    "losses by chance": Path(800, loss=0.005),
    "many losses by chance": Path(800, loss=0.05),
    "marks": Path(800, marks_from=10),
    "marks and a short queue": Path(800, places=30, marks_from=25),
    "batches": Path(800, places=60, batch_s=0.02),
    "less than a segment": Path(20, 0.01, places=30),
    "ten times the rate": Path(200, places=40, changes=((8, 2000),)),
    "a tenth of the rate": Path(1500, places=60, changes=((6, 150),)),
    "pauses": Path(800, places=60, pauses=((2, 2.3), (5, 11), (12.01, 12.5))),
    "pauses and timeouts": Path(800, places=60, pauses=((7, 7.7),), dead=((4, 6), (7.75, 9), (12, 12.1))),
    "an application that has little": Path(800, places=60, limited_to=200),
    "needless recoveries": Path(800, places=15, loss=0.001, needless=0.5),
    "repaired tails": Path(800, places=60, tails=0.003),
    "no SACK": Path(800, places=20, sack=False),
    "no handshake": Path(800, places=20, handshake=False),
}


@functools.cache
def run_of(name: str) -> list[Step]:
    return drive(PATHS[name], 15)


@pytest.mark.parametrize("name", PATHS)
def test_a_second_implementation_has_the_same_phases_windows_and_rates(name):
    assert len(run_of(name)) > 100  # all are compared in drive()


def test_the_comparison_goes_through_all_phases_and_limits():
    runs = {name: run_of(name) for name in PATHS}
    phases = Counter(step.phase for steps in runs.values() for step in steps)
    assert set(phases) == {"startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"}
    for name in ("inflight_longterm", "inflight_shortterm", "bw_shortterm"):
        assert any(step.twin[name] < INF for steps in runs.values() for step in steps), name
    for name in ("prev_probe_precautionary", "prev_probe_too_high", "app_limit_mark", "ecn_in_cycle", "undo_state"):
        assert any(step.twin.get(name) for steps in runs.values() for step in steps), name


# The draft's test cases (appendix "BBR Example Test Cases"), in its order, each beside the second implementation.


def spells(steps: list[Step]) -> list[list[Step]]:
    """Cut into runs of one phase."""
    return [list(of) for _, of in groupby(steps, key=lambda step: step.phase)]


def first_spell(steps: list[Step], phase: str) -> tuple[list[Step], Step]:
    """Return the first run of the phase, and the step that follows it."""
    runs = spells(steps)
    place = next(i for i, spell in enumerate(runs) if spell[0].phase == phase)
    return runs[place], runs[place + 1][0]


def when_first(phase: str, **values: float) -> Callable[[Step, Path], None]:
    """Change the path once, when the phase is first seen."""
    done: list[Step] = []

    def react(step: Step, path: Path) -> None:
        if step.phase == phase and not done:
            done.append(step)
            for name, value in values.items():
                setattr(path, name, value)

    return react


def test_startup_ends_on_a_plateau_of_the_rate():
    """Exiting STARTUP on Bandwidth Plateau."""
    startup, drain = first_spell(drive(Path(1000), 2), "startup")
    assert drain.phase == "drain"
    assert startup[-1].twin["full_bw_count"] == 2 and drain.twin["full_bw_count"] == 3
    assert drain.twin["full_bw_now"] and drain.twin["full_bw_reached"]
    assert drain.twin["max_bw"] == pytest.approx(1000, rel=0.02)


def test_startup_ends_on_losses_though_the_application_limits():
    """Exiting STARTUP on Loss When Application-Limited."""
    startup, drain = first_spell(drive(Path(4000, loss=0.1, limited_to=400), 6), "startup")
    # So little is in flight that Drain, and the slow phase after it, may end with the same acknowledgement.
    assert drain.phase in ("drain", "down", "cruise") and drain.twin["full_bw_count"] < 3
    assert drain.twin["full_bw_now"] and drain.twin["full_bw_reached"]
    assert all(step.limited for step in startup)


def test_drain_ends_when_the_queue_is_gone():
    """Exiting DRAIN Based on Inflight."""
    drain, after = first_spell(drive(Path(1000), 2), "drain")
    assert all(step.pacing == pytest.approx(0.5 * 0.99 * MSS * step.twin["bw"]) for step in drain)
    # The slow phase that begins then may end with the same acknowledgement.
    assert after.phase in ("down", "cruise") and after.in_flight <= after.twin["bw"] * 0.04 < drain[-1].in_flight


def test_drain_ends_after_three_rounds_whatever_is_in_flight():
    """Exiting DRAIN Based on Time. The draft takes a tenth of the rate away: at half the rate that is drained too."""

    def slower(step: Step, path: Path) -> None:
        if step.twin["full_bw_count"] == 2:
            path.rate = 100

    _, after = first_spell(drive(Path(1000), 6, slower), "drain")
    assert after.phase == "down" and after.in_flight > after.twin["bw"] * 0.04
    assert after.twin["round_count"] == after.twin["drain_start_round"] + 4


def test_a_probe_ends_on_a_plateau_of_the_rate():
    """Exiting PROBE_UP on Bandwidth Plateau."""
    up, after = first_spell(drive(Path(1000), 6), "up")
    assert after.phase == "down" and after.twin["full_bw_now"] and after.twin["full_bw_count"] == 3
    assert not any(step.twin["is_loss_in_round"] for step in up)


def test_a_probe_ends_on_losses_though_the_application_limits():
    """Exiting PROBE_UP on Loss When Application-Limited. Its pseudocode leaves the long-term limit as it is."""
    up, after = first_spell(drive(Path(1000), 6, when_first("up", limited_to=500, loss=0.1)), "up")
    assert after.phase in ("down", "cruise") and after.twin["prev_probe_too_high"] and not after.twin["full_bw_now"]
    assert after.twin["inflight_longterm"] == up[0].twin["inflight_longterm"]


def test_without_losses_startup_does_not_end_while_the_application_limits():
    """Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss."""
    assert {step.phase for step in drive(Path(1000, limited_to=200), 12)} == {"startup", "probe_rtt"}


def test_without_losses_a_probe_does_not_end_while_the_application_limits():
    """The same, of PROBE_UP. Only ProbeRTT ends it."""
    up, after = first_spell(drive(Path(1000), 9, when_first("up", limited_to=300)), "up")
    assert after.phase == "probe_rtt" and after.now_s - up[0].now_s > 1


def test_the_slow_phase_ends_when_there_is_room():
    """Exiting PROBE_DOWN on Inflight."""
    for places in (15, 1000):
        runs = spells(drive(Path(1000, places=places), 12))
        ended = [
            (down, then[0]) for down, then in pairwise(runs) if (down[0].phase, then[0].phase) == ("down", "cruise")
        ]
        assert len(ended) > 2
        for down, after in ended:
            assert all(s.pacing == pytest.approx(0.9 * 0.99 * MSS * s.twin["bw"]) for s in down)
            assert after.in_flight <= max(0.85 * after.twin["inflight_longterm"], 4)
            assert after.in_flight <= max(after.twin["max_bw"] * after.twin["min_rtt"] / SECOND, 6)


def test_the_slow_phase_ends_in_any_case_when_the_wait_is_over():
    """Exiting PROBE_DOWN After Max Time."""
    _, after = first_spell(drive(Path(1000, 0.02), 5, when_first("down", rate=800)), "down")
    assert after.phase == "refill" and after.in_flight > after.twin["max_bw"] * after.twin["min_rtt"] / SECOND


def test_probe_rtt_comes_after_five_seconds_and_lasts_200_ms():
    """Entering and Exiting PROBE_RTT."""
    runs = spells(drive(Path(1000), 12))
    probes = [(probe, then[0]) for probe, then in pairwise(runs) if probe[0].phase == "probe_rtt"]
    assert [probe[0].now_s for probe, _ in probes] == pytest.approx([5.1, 10.4], abs=0.3)
    for probe, after in probes:
        assert 0.2 < after.now_s - probe[0].now_s < 0.35 and after.phase == "cruise"
        assert probe[-1].cwnd <= 0.55 * 1000 * 0.04


def test_a_pause_of_the_application_saves_probe_rtt():
    """Skipping PROBE_RTT Due to Application-Limited Sending."""
    paused, busy = drive(Path(1000, pauses=((3, 9),)), 12), drive(Path(1000), 12)
    assert [any(s.phase == "probe_rtt" for s in steps if s.now_s > 8.9) for steps in (paused, busy)] == [False, True]


def test_startup_comes_to_the_full_rate_through_aggregation():
    """Achieving Expected STARTUP Bandwidth on a Link With Aggregation."""
    startup, _ = first_spell(drive(Path(1000, batch_s=0.02), 3), "startup")
    assert startup[-1].twin["max_bw"] > 0.9 * 1000
    assert startup[-1].twin["extra_acked"] > 10 and startup[-1].cwnd > 2 * 1000 * 0.04


def test_cruising_fills_a_link_with_aggregation():
    """Achieving Expected Cruise Bandwidth on a Link With Aggregation."""
    steps = [step for step in drive(Path(1000, batch_s=0.03), 5) if step.now_s > 1.5]
    rate = (steps[-1].twin["delivered"] - steps[0].twin["delivered"]) / (steps[-1].now_s - steps[0].now_s)
    assert rate > 0.95 * 1000
    assert min(step.twin["extra_acked"] for step in steps if step.phase == "cruise") > 10


def test_four_segments_may_be_in_flight_where_the_pipe_holds_less_than_one():
    """Correctly Managing Sub-Packet BDPs."""
    steps = [step for step in run_of("less than a segment") if step.phase in ("down", "cruise", "refill")]
    assert min(step.cwnd for step in steps) >= 4
    assert steps[-1].twin["bw"] == pytest.approx(20, rel=0.05)


def test_ten_times_the_rate_is_reached_in_a_few_rounds_though_the_long_term_limit_has_to_grow():
    """Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached."""
    steps = drive(Path(300, places=6, changes=((8, 3000),)), 14)
    limit = [step.twin["inflight_longterm"] for step in steps if step.now_s < 8][-1]
    assert limit < 0.5 * 3000 * 0.04 and steps[-1].twin["max_bw"] == pytest.approx(3000, rel=0.05)
    assert max(step.twin["bw_probe_up_rounds"] for step in steps if step.now_s > 8) > 4


def test_a_tenth_of_the_rate_is_known_after_two_cycles():
    """Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down."""
    steps = run_of("a tenth of the rate")
    assert min(step.twin["bw_shortterm"] for step in steps if 6 < step.now_s < 9) < 0.8 * 1500
    assert steps[-1].twin["max_bw"] == pytest.approx(150, rel=0.05)


def test_behind_a_policer_little_is_lost_in_the_long_run():
    """Handling Token Bucket Policers."""
    steps = drive(Path(1000, bucket=100), 20)
    assert min(step.twin["bw_shortterm"] for step in steps) < INF
    late = [step for step in steps if step.now_s > 10]
    delivered = late[-1].twin["delivered"] - late[0].twin["delivered"]
    assert delivered > 0.85 * 1000 * 9.9 and late[-1].twin["lost"] - late[0].twin["lost"] < 0.05 * delivered


@pytest.mark.parametrize("dead", [(), ((4, 5.5),)])
def test_a_needless_recovery_is_undone(dead):
    """Handling Spurious Fast Recovery; Handling Spurious RTO Recovery."""
    steps = drive(Path(800, places=15, loss=0.002, needless=1.0, dead=dead), 12)
    undone = [(a, b) for a, b in pairwise(steps) if a.twin["in_recovery"] and not b.twin["in_recovery"]]
    assert len(undone) > 3
    for before, after in undone:
        assert after.twin["inflight_longterm"] >= before.twin["undo_inflight_longterm"]
        if before.twin.get("undo_state") == "up" and before.phase in ("down", "cruise"):
            assert after.phase in ("refill", "up")
    assert dead == () or any(before.twin["in_recovery"] == "loss" for before, _ in undone)


def test_probe_rtt_in_startup_goes_back_to_startup():
    """Entering and Exiting PROBE_RTT During STARTUP."""
    runs = spells(drive(Path(1000, limited_to=200), 8))
    assert [spell[0].phase for spell in runs[:3]] == ["startup", "probe_rtt", "startup"]


def test_a_loss_in_a_probe_ends_it_and_lowers_the_long_term_limit_by_three_tenths_at_most():
    """Handling Loss During PROBE_UP After inflight_longterm is Set."""
    steps = drive(Path(1000, places=15), 14)
    ended = [
        (a, b)
        for a, b in pairwise(steps)
        if a.phase == "up" and b.phase == "down" and b.twin["prev_probe_too_high"] and a.twin["inflight_longterm"] < INF
    ]
    assert ended
    for before, after in ended:
        assert after.twin["inflight_longterm"] <= before.twin["inflight_longterm"]
        assert after.twin["inflight_longterm"] >= 0.69 * min(before.cwnd, before.twin["bw"] * 0.04)


def test_a_pause_in_the_refill_does_not_lower_the_rate():
    """Handling Application-Limited Sending During PROBE_REFILL."""
    steps = drive(Path(1000), 6, when_first("refill", limited_to=100))
    refill, after = first_spell(steps, "refill")
    assert after.phase == "up" and after.twin["max_bw"] == refill[0].twin["max_bw"]
    assert any(step.limited for step in steps if refill[0].now_s < step.now_s < after.now_s + 0.2)


# In networks.

FULL, PORT = 1514, ("s1", "h2")
BBR, BBR3 = Tcp("bbr"), Tcp("bbr3")


def pipe(rate_mbps: float, round_trip_ms: float) -> float:
    """Packets of a bandwidth-delay product."""
    return rate_mbps * 1e3 * round_trip_ms / 8 / FULL


def alone(
    tcp: Tcp, rate_mbps: float, round_trip_ms: float, queue: Queue, seconds: float = 30.0, **more
) -> Measurements:
    """One flow over one bottleneck."""
    link = Link(rate_mbps, round_trip_ms / 2, queue)
    net = Topology((Cable("h1", "s1", Link(1000, 0, DropTail(packets=10_000))), Cable("s1", "h2", link)))
    measure = Measure(queues=(PORT,), queue_interval_ms=2, windows_interval_ms=5, packets=(("h1", "s1"), PORT))
    flow = Flow("h1", "h2", duration_s=seconds)
    return simulate(Experiment(net, (flow,), seconds, measure=measure, tcp=tcp, **more))


def together(tcp: Tcp, flows: int, buffer_pipes: float, seconds: float) -> Measurements:
    """Flows that start a second after each other and share 50 Mb/s, with a round trip of 40 ms."""
    narrow = Link(50, 10, DropTail(packets=round(buffer_pipes * pipe(50, 40))))
    net = dumbbell(flows, Link(1000, 5, DropTail(packets=100_000)), narrow)
    traffic = [Flow(f"h{i + 1}", f"h{i + flows + 1}", duration_s=seconds - i, start_s=i) for i in range(flows)]
    return simulate(Experiment(net, tuple(traffic), seconds, tcp=tcp))


def rate_in(measured: Measurements, from_s: float, to_s: float, node: str = "s1") -> float:
    """Mb/s that left the bottleneck, or the sender (h1)."""
    left = measured.packets.query("source == @node and size_bytes > 1000 and @from_s <= time_s < @to_s")
    return left["size_bytes"].sum() * 8e-6 / (to_s - from_s)


@pytest.mark.parametrize(("rate", "round_trip_ms"), [(50, 40.0), (10, 100.0), (100, 10.0)])
def test_one_flow_fills_its_link_and_most_of_the_time_there_is_no_queue(rate, round_trip_ms):
    of_pipe = {}
    for tcp in (BBR, BBR3):
        measured = alone(tcp, rate, round_trip_ms, DropTail(packets=int(5 * pipe(rate, round_trip_ms))))
        of_pipe[tcp] = measured.queues.query("time_s > 3")["queue_packets"] / pipe(rate, round_trip_ms)
        assert measured.flows["goodput_mbps"][0] > 0.93 * rate * MSS / FULL
        assert measured.flows["retransmitted_packets"][0] == 0
    # Probes are rarer than in version 1, and go on for some rounds: to 2.25 pipes in flight at most.
    assert of_pipe[BBR3].median() < 0.2 * of_pipe[BBR].median()
    assert of_pipe[BBR3].mean() < 0.15 and of_pipe[BBR3].max() < 1.25


def test_in_a_short_buffer_it_loses_a_fifth_of_what_version_1_does():
    lost, goodput = {}, {}
    for tcp in (BBR, BBR3):
        flow = alone(tcp, 50, 40, DropTail(packets=16)).flows.iloc[0]
        lost[tcp], goodput[tcp] = flow["retransmitted_packets"], flow["goodput_mbps"]
    assert 0 < lost[BBR3] < 0.2 * lost[BBR] and goodput[BBR3] > 0.9 * goodput[BBR]


def test_a_full_buffer_ends_startup_by_its_losses():
    # Startup would go on for three rounds without growth, at 2.77 times the rate of the link.
    windows = alone(BBR3, 50, 40, DropTail(packets=16), 3).windows
    below = windows["slow_start_threshold_bytes"] < INF
    ended_s = windows["time_s"][below].iloc[0]
    roomy = alone(BBR3, 50, 40, DropTail(packets=1000), 3).windows
    plateau_s = roomy["time_s"][roomy["slow_start_threshold_bytes"] < INF].iloc[0]
    assert ended_s < plateau_s - 0.04


@pytest.mark.parametrize("buffer_pipes", [0.3, 1.0, 4.0])
def test_two_flows_come_to_share_the_link(buffer_pipes):
    first, second = together(BBR3, 2, buffer_pipes, 240).flows["goodput_mbps"]
    assert 1 / 1.35 < first / second < 1.35 and first + second > 0.93 * 50 * MSS / FULL


def test_six_flows_in_a_buffer_of_less_than_a_pipe_resend_a_fifth_of_what_version_1_does_and_share_more_evenly():
    flows = {tcp: together(tcp, 6, 0.8, 30).flows for tcp in (BBR, BBR3)}
    resent = {tcp: table["retransmitted_packets"].sum() for tcp, table in flows.items()}
    slowest = {tcp: table["goodput_mbps"].min() for tcp, table in flows.items()}
    assert resent[BBR3] < 0.2 * resent[BBR] and slowest[BBR3] > 2 * slowest[BBR]


def test_a_link_that_becomes_ten_times_as_fast_is_filled_with_the_next_probe():
    change = LinkChange(15, "s1", "h2", rate_mbps=100)
    measured = alone(BBR3, 10, 40, DropTail(packets=400), 25, changes=(change,))
    assert rate_in(measured, 10, 15) == pytest.approx(10, rel=0.06)
    # The wait for the probe is 3 s at most, and each round of it a quarter more.
    assert rate_in(measured, 19, 24) > 90


def test_a_link_that_becomes_ten_times_as_slow_stays_full_and_two_cycles_later_hardly_anything_is_lost():
    change = LinkChange(15, "s1", "h2", rate_mbps=10)
    measured = alone(BBR3, 100, 40, DropTail(packets=400), 45, changes=(change,))
    assert rate_in(measured, 16, 45) == pytest.approx(10, rel=0.05)
    # A cycle takes 3 s at most, and ProbeRTT may come between. What the queue holds is small beside 15 s of the rate.
    at_first, later = (1 - rate_in(measured, *of) / rate_in(measured, *of, "h1") for of in ((15, 20), (30, 45)))
    assert at_first > 0.1 and later < 0.02


def test_losses_by_chance_below_two_of_a_hundred_do_not_slow_it_down():
    link = Link(20, 20, DropTail(packets=300), loss=0.01)
    net = Topology((Cable("h1", "s1", Link(1000, 0, DropTail(packets=10_000))), Cable("s1", "h2", link)))
    goodput = {
        name: simulate(Experiment(net, (Flow("h1", "h2", duration_s=20),), 20, tcp=Tcp(name))).flows["goodput_mbps"][0]
        for name in ("bbr3", "cubic")
    }
    assert goodput["bbr3"] > 0.8 * 20 * MSS / FULL > 2 * goodput["cubic"]


def test_every_five_seconds_it_halves_its_window_to_see_the_least_round_trip():
    windows = alone(BBR3, 50, 40, DropTail(packets=600), 22).windows
    small = windows.query("time_s > 2 and window_bytes < @MSS * 0.55 * 165")["time_s"]
    starts = small[small.diff().fillna(9) > 1]
    assert len(starts) == 4 and starts.diff().dropna().between(5, 5.6).all()


@pytest.mark.parametrize("how", [{"ecn": True}, {"accurate_ecn": True}])
def test_marks_from_a_threshold_on_hold_its_probes_back(how):
    threshold = 16
    plain, marked = (alone(Tcp("bbr3", **each), 50, 20, EcnThreshold(1000, threshold)) for each in ({}, how))
    high = [each.queues.query("time_s > 3")["queue_packets"].quantile(0.95) for each in (plain, marked)]
    assert high[1] < 2 * threshold < high[0]
    assert marked.flows["goodput_mbps"][0] > 0.85 * 50 * MSS / FULL


@pytest.mark.parametrize("round_trip_ms", [4, 20])
def test_with_googles_limit_marks_count_only_where_the_least_round_trip_is_short(round_trip_ms):
    queue = EcnThreshold(1000, 16)
    runs = [
        alone(Tcp("bbr3", ecn=True, bbr3_ecn_round_trip_ms=limit_ms), 50, round_trip_ms, queue, 10)
        for limit_ms in (0.0, 5.0)
    ]
    same = runs[0].flows.equals(runs[1].flows)
    assert same == (round_trip_ms < 5)
    if not same:  # as if it had asked for none
        deaf = alone(Tcp("bbr3"), 50, round_trip_ms, EcnThreshold(1000, 1000), 10)
        assert runs[1].flows["goodput_mbps"][0] == pytest.approx(deaf.flows["goodput_mbps"][0], rel=1e-3)


def test_pauses_of_the_application_do_not_lower_its_estimate():
    net = Topology((Cable("h1", "s1", Link(1000, 0)), Cable("s1", "h2", Link(50, 20, DropTail(packets=400)))))
    entry = Requests("h2", ("h1",), 100, 300 * MSS, 30, think_ms=100)
    requests = simulate(Experiment(net, (entry,), 60, tcp=BBR3)).requests["completion_ms"]
    ideal = 40 + 300 * FULL * 8 / 50e3
    assert requests[5:].median() < 1.5 * ideal and requests[0] > 2 * ideal


def test_the_same_seed_gives_the_same_bytes_and_another_one_other_probes():
    first, again, other = (alone(BBR3, 20, 20, DropTail(packets=20), 8, seed=seed) for seed in (1, 1, 2))
    assert first.windows.to_csv() == again.windows.to_csv() != other.windows.to_csv()
