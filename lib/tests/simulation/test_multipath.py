"""Flows over several subflows: what they fill, what they leave to others, and what a small receive window does."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro import _core as core
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    Red,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.workloads import SCHEDULERS
from netrepro.simulation import simulate

SEGMENT = 1448
FAST = Link(1000, 0.1, DropTail(packets=1000))


def over(*middle: Link) -> Topology:
    """h1 to h2 by as many paths of equally many hops."""
    cables = [Cable("h1", "s1", FAST), Cable("s2", "h2", FAST)]
    for i, link in enumerate(middle):
        cables += [Cable("s1", f"s{i + 3}", link), Cable(f"s{i + 3}", "s2", FAST)]
    return Topology(tuple(cables))


def using_all(net: Topology, flow: Flow, duration_s: float, tcp: Tcp) -> Measurements:
    """The flow with its subflows on the paths in turn."""
    middle = [switch for switch in net.switches if switch not in ("s1", "s2")]
    paths = [("h1", "s1", middle[i % len(middle)], "s2", "h2") for i in range(flow.subflows)]
    return simulate(Experiment(net, (replace(flow, subflow_paths=paths),), duration_s, tcp=tcp))


@pytest.mark.parametrize("control", ["lia", "olia", "balia", "reno", "cubic"])
def test_two_subflows_fill_two_paths(control):
    # RFC 6356, goal 1: no less than the best path alone; with nobody else there, the sum of both.
    net = over(Link(40, 5, DropTail(packets=60)), Link(20, 5, DropTail(packets=60)))
    measured = using_all(net, Flow("h1", "h2", duration_s=30, subflows=2), 30, Tcp(control, delayed_ack_ms=0))
    assert measured.flows["goodput_mbps"][0] > 0.9 * 60 * SEGMENT / 1514
    assert measured.trusted


def share_of_the_split_flow(control: str, seed: int) -> float:
    net = dumbbell(2, FAST, Link(40, 10, Red(200, 20, 80, 0.05)))
    flows = (
        Flow("h1", "h3", duration_s=60, subflows=4, congestion_control=control),
        Flow("h2", "h4", duration_s=60, congestion_control="reno"),
    )
    goodput = simulate(Experiment(net, flows, 60, seed, tcp=Tcp(delayed_ack_ms=0))).flows["goodput_mbps"]
    return goodput[0] / goodput.sum()


@pytest.mark.parametrize("control", ["lia", "olia", "balia"])
def test_coupled_subflows_take_no_more_of_a_bottleneck_than_one_tcp(control):
    # RFC 6356, goal 2; four subflows of uncoupled Reno take four fifths.
    shares = [share_of_the_split_flow(control, seed) for seed in (1, 2)]
    assert 0.3 < sum(shares) / 2 < 0.6
    assert share_of_the_split_flow("reno", 1) > 0.7


CROWDED = ("s1", "s3", "s2")


@pytest.mark.parametrize("control", ["lia", "olia", "balia"])
def test_coupled_subflows_leave_the_congested_path_to_others(control):
    # RFC 6356, goal 3: a path where five others send carries less than a path alone, beyond its smaller share.
    net = Topology(
        (
            *(Cable(f"h{i}", "s1", FAST) for i in range(1, 7)),
            Cable("s1", "s3", Link(20, 5, Red(200, 10, 50, 0.05))),
            Cable("s3", "s2", FAST),
            Cable("s1", "s4", Link(20, 5, Red(200, 10, 50, 0.05))),
            Cable("s4", "s2", FAST),
            *(Cable("s2", f"h{i}", FAST) for i in range(7, 13)),
        )
    )
    others = [
        Flow(f"h{i}", f"h{i + 6}", duration_s=40, congestion_control="reno", path=(f"h{i}", *CROWDED, f"h{i + 6}"))
        for i in range(2, 7)
    ]
    paths = [("h1", *CROWDED, "h7"), ("h1", "s1", "s4", "s2", "h7")]
    split = Flow("h1", "h7", duration_s=40, subflows=2, congestion_control=control, subflow_paths=paths)
    measure = Measure(packets=(("s1", "s3"), ("s1", "s4")))
    measured = simulate(Experiment(net, (split, *others), 40, measure=measure, tcp=Tcp(delayed_ack_ms=0)))
    own = measured.packets.query("flow == 0 and size_bytes > 1000").groupby("destination").size()
    assert own.min() < 0.15 * own.max()


def test_a_stream_is_delivered_once_whatever_its_subflows_lose():
    net = over(Link(20, 5, DropTail(packets=10), loss=0.02), Link(20, 30, DropTail(packets=10), loss=0.02))
    for size in (1, SEGMENT, 100_001, 1_000_000):
        flow = Flow("h1", "h2", size, subflows=3, congestion_control="lia")
        measured = simulate(Experiment(net, (flow,), 60))
        assert measured.flows["delivered_bytes"][0] == size and measured.flows["completion_ms"].notna().all()


def test_what_a_dead_path_holds_is_sent_again_over_the_living_one():
    net = over(Link(20, 5, DropTail(packets=100)), Link(20, 5, DropTail(packets=100), loss=0.5))
    flow = Flow("h1", "h2", 2_000_000, subflows=4, congestion_control="lia")
    measured = using_all(net, flow, 100, Tcp(delayed_ack_ms=0))
    # At 20 Mb/s alone 0.8 s; a subflow that backs off alone would hold the stream up for seconds.
    assert measured.flows["completion_ms"][0] < 3000


WIFI, MOBILE = Link(8, 10, DropTail(packets=54)), Link(2, 75, DropTail(packets=334))


def wireless(receive_window: int, **tcp) -> float:
    net = over(WIFI, MOBILE)
    settings = Tcp("lia", receive_window_bytes=receive_window, **tcp)
    return float(using_all(net, Flow("h1", "h2", duration_s=40, subflows=2), 40, settings).flows["goodput_mbps"][0])


def test_a_small_receive_window_is_blocked_by_the_slower_path_unless_it_is_rescued():
    # Raiciu et al. (NSDI 2012), sections 4.2 and 6.1: with little memory plain MPTCP is below TCP over WiFi alone;
    # opportunistic retransmission and penalisation bring it back; with plenty both paths are full.
    tcp = Tcp("reno", receive_window_bytes=200_000)
    alone = simulate(Experiment(over(WIFI), (Flow("h1", "h2", duration_s=40),), 40, tcp=tcp)).flows["goodput_mbps"][0]
    plain = wireless(200_000)
    rescued = wireless(200_000, opportunistic_retransmission=True, penalisation=True)
    assert plain < 0.8 * alone and rescued > 0.95 * alone
    assert wireless(2_000_000) > 1.05 * alone


def test_a_send_buffer_of_its_own_is_full_more_seldom_than_a_receive_window_and_penalises_less():
    # As in the authors' kernel: a writer sleeps until a third is free, and while anything of a full buffer has been
    # acknowledged, only the slower path's segments are sent again.
    own = dict(receive_window=6_000_000, send_buffer_bytes=200_000)
    rescued = dict(opportunistic_retransmission=True, penalisation=True)
    assert wireless(**own) < wireless(**own, **rescued) < wireless(200_000, **rescued)
    assert wireless(**own) < wireless(200_000)
    # A receive window that is the smaller one decides as if it were alone.
    assert wireless(150_000, send_buffer_bytes=6_000_000, **rescued) == wireless(150_000, **rescued)


@pytest.mark.parametrize("lost", [4, 5])
def test_a_subflow_that_repairs_a_timeout_carries_nothing_new(lost):
    # Its first window is lost, and repeated in rounds of 40 ms: 1, 2, and what is left. The window of the third round
    # has room for more (mptcp_is_temp_unavailable in the authors' kernel).
    net = over(*[Link(100, 20, DropTail(packets=100))] * 2)
    changes = (LinkChange(0.055, "s1", "s3", up=False), LinkChange(0.2, "s1", "s3", up=True))
    paths = [("h1", "s1", middle, "s2", "h2") for middle in ("s3", "s4")]
    flow = Flow("h1", "h2", duration_s=0.5, subflows=2, subflow_paths=paths)
    tcp = Tcp("reno", initial_window_segments=lost, tail_loss_probe=False, delayed_ack_ms=0)
    look = Measure(packets=(("s1", "s3"),))
    packets = simulate(Experiment(net, (flow,), 0.5, 1, look, tcp, changes=changes)).packets
    data_s = packets.time_s[packets.size_bytes > SEGMENT]
    timeout_s = data_s[data_s > 0.2].min()
    rounds = ((data_s[data_s >= timeout_s] - timeout_s) / 0.0405).round().astype(int).value_counts()
    assert [rounds[each] for each in range(3)] == [1, 2, lost - 3] and rounds[3] > lost - 3


@given(
    now=st.integers(0, 1000),
    penalised=st.integers(0, 1000),
    own=st.integers(1, 400),
    other=st.integers(1, 2000),
    window=st.integers(1, 20),
    facts=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_a_blocked_subflow_penalises_and_repeats_as_the_authors_kernel_does(now, penalised, own, other, window, facts):
    """mptcp_rcv_buf_optimization, read in multipath-tcp/mptcp 0a7e92df: step by step, with its early ends."""
    is_open, is_full, is_carried = facts
    penalises = False
    if is_full and not now - penalised < own and own < other and is_open:  # the last one was a round trip ago
        penalises = True
    repeats = False
    if not is_carried:
        if window <= 4:
            repeats = True
        elif 4 * own >= other:
            repeats = False
        else:
            repeats = True
    assert core.rescues(now, penalised + own, own, other, window, is_open, is_full, is_carried) == (penalises, repeats)


def test_a_segment_that_was_repeated_already_does_not_spare_the_slower_subflow():
    blocked = dict(zip(("now", "until", "own", "other", "window"), (100, 50, 20, 200, 10), strict=True))
    assert core.rescues(*blocked.values(), True, True, False) == (True, True)
    assert core.rescues(*blocked.values(), True, True, True) == (True, False)


def test_no_more_of_a_stream_is_under_way_than_the_send_buffer_holds():
    buffer, path_mbps = 40 * SEGMENT, 40
    net = over(*[Link(path_mbps, 10, DropTail(packets=200))] * 2)
    flow = Flow("h1", "h2", duration_s=10, subflows=2)
    found = using_all(net, flow, 10, Tcp("lia", send_buffer_bytes=buffer, delayed_ack_ms=0))
    most_mbps = buffer * 8e-6 / 0.0204
    # Between a buffer a round trip, and two thirds of it.
    assert 0.6 * most_mbps < found.flows["goodput_mbps"][0] < most_mbps < 2 * path_mbps


def sent_over(measured: Measurements, middle: str) -> int:
    return int(measured.links_by_port.loc[("s1", middle), "sent_packets"])


@pytest.mark.parametrize(
    ("scheduler", "round_trip_ms", "slow_share"),
    [("lowest_rtt", 10.6, (0, 0.01)), ("round_robin", 50.6, (0.45, 0.55)), ("redundant", 10.6, (0.15, 0.2))],
)
@pytest.mark.parametrize("window", [10, 40])
def test_a_scheduler_fills_a_small_window_over_the_subflows_of_its_choice(scheduler, round_trip_ms, slow_share, window):
    # Round trips of 10 and 50 ms and 0.6 ms of serialisation; congestion windows never fill. A window of the stream
    # takes the round trip of the slowest subflow that it needs. A redundant slow one goes on from what the fast one
    # has not brought yet, so that it carries a window each of its own round trips: a fifth of what the fast one does.
    net = over(Link(100, 5, DropTail(packets=1000)), Link(100, 25, DropTail(packets=1000)))
    size = window * SEGMENT
    tcp = Tcp("reno", receive_window_bytes=size, receive_window_grows=False, delayed_ack_ms=0, scheduler=scheduler)
    measured = using_all(net, Flow("h1", "h2", duration_s=10, subflows=2), 10, tcp)
    assert measured.flows["goodput_mbps"][0] == pytest.approx(size * 8 / round_trip_ms / 1e3, rel=0.03)
    fast, slow = sent_over(measured, "s3"), sent_over(measured, "s4")
    assert slow_share[0] <= slow / (fast + slow) <= slow_share[1]


def cut_at(cut_s: float | None, scheduler: str) -> float:
    """Completion in ms of 2 MB over two paths of 20 Mb/s, of which one breaks."""
    net = over(Link(20, 5, DropTail(packets=200)), Link(20, 5, DropTail(packets=200)))
    paths = tuple(("h1", "s1", middle, "s2", "h2") for middle in ("s3", "s4"))
    flow = Flow("h1", "h2", 2_000_000, subflows=2, subflow_paths=paths)
    changes = () if cut_s is None else (LinkChange(cut_s, "s1", "s3", up=False),)
    tcp = Tcp("reno", delayed_ack_ms=0, hystart=False, scheduler=scheduler)
    return float(simulate(Experiment(net, (flow,), 20, tcp=tcp, changes=changes)).flows["completion_ms"][0])


def test_a_redundant_stream_does_not_notice_that_a_path_breaks_and_pays_with_the_other_paths_rate():
    one_path_ms = -(-2_000_000 // SEGMENT) * 1514 * 8 / 20e3
    assert cut_at(None, "redundant") == pytest.approx(one_path_ms, rel=0.04)
    assert cut_at(0.2, "redundant") < cut_at(None, "redundant") + 12  # a round trip more at the most
    assert cut_at(None, "lowest_rtt") == pytest.approx(one_path_ms / 2, rel=0.1)
    assert cut_at(0.2, "lowest_rtt") > one_path_ms - 200 + 150  # what the dead path held waits for its timeout


def test_a_stream_that_fills_every_window_is_the_same_in_turn_as_by_round_trip():
    # Paasch et al. (CSWS 2014), section 2.1: acknowledgements make the room, and so the schedule.
    assert cut_at(None, "round_robin") == pytest.approx(cut_at(None, "lowest_rtt"), rel=0.01)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_delivers_a_stream_once_whatever_its_subflows_lose(scheduler):
    net = over(Link(20, 5, DropTail(packets=10), loss=0.02), Link(20, 30, DropTail(packets=10), loss=0.02))
    for size in (1, SEGMENT, 100_001, 1_000_000):
        flow = Flow("h1", "h2", size, subflows=3, congestion_control="lia")
        measured = simulate(Experiment(net, (flow,), 60, tcp=Tcp(pacing=size > SEGMENT, scheduler=scheduler)))
        assert measured.flows["delivered_bytes"][0] == size and measured.flows["completion_ms"].notna().all()
        assert measured.trusted


def test_a_scheduler_that_there_is_not_is_refused():
    with pytest.raises(NetreproError, match="blest"):
        Tcp(scheduler="blest")


def test_a_single_subflow_of_a_coupled_control_is_reno():
    net = over(Link(20, 5, DropTail(packets=20)))
    flows = [
        simulate(Experiment(net, (Flow("h1", "h2", duration_s=5, congestion_control=name),), 5)).flows
        for name in ("reno", "lia", "olia", "balia")
    ]
    same = [table.drop(columns="congestion_control").to_csv() for table in flows]
    assert all(table == same[0] for table in same)


def test_windows_are_sampled_for_every_subflow():
    net = over(FAST, FAST)
    experiment = Experiment(
        net, (Flow("h1", "h2", duration_s=1, subflows=3),), 1, measure=Measure(windows_interval_ms=50)
    )
    windows = simulate(experiment).windows
    assert set(windows["flow"]) == {0} and set(windows["connection"]) == {0, 1, 2}
    again = simulate(replace(experiment, seed=1)).windows
    assert windows.to_csv() == again.to_csv()


@pytest.mark.parametrize("control", ["lia", "bbr"])
def test_paced_subflows_behind_one_slow_port_take_turns_and_end(control):
    # Each waits for its pace or for the port; neither may wake the other for nothing, which would never end.
    slow = Link(5, 8, DropTail(packets=50))
    net = Topology((Cable("h1", "s1", slow), Cable("s1", "h2", Link(20, 15, DropTail(packets=20), loss=0.01))))
    flow = Flow("h1", "h2", 300_000, subflows=3)
    measured = simulate(Experiment(net, (flow,), 60, tcp=Tcp(control, pacing=True)))
    assert measured.flows["completion_ms"].notna().all() and measured.trusted


# The controls' formulas, written once more -----------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The state of a subflow, as a coupled control knows it."""

    window: float
    round_trip_s: float  # 0 before the first sample
    since_loss: float
    between_losses: float

    @property
    def quality(self) -> float:
        """l^2/rtt of Khalili et al., with l the larger of both intervals."""
        return max(self.since_loss, self.between_losses) ** 2 / self.round_trip_s if self.round_trip_s else 0.0

    @property
    def rate(self) -> float:
        """Segments a second, 0 before the first sample."""
        return self.window / self.round_trip_s if self.round_trip_s else 0.0


def olia(subflows: list[Seen], place: int) -> float:
    """Khalili et al. (CoNEXT 2012), equation 5 and alpha below it."""
    own = subflows[place]
    if own.round_trip_s == 0:
        return 1 / own.window
    known = [seen for seen in subflows if seen.round_trip_s]
    largest = [i for i, seen in enumerate(subflows) if seen.window == max(other.window for other in subflows)]
    best = [i for i, seen in enumerate(subflows) if seen.quality == max(other.quality for other in subflows)]
    collected = [i for i in best if i not in largest]
    alpha = 0.0
    if collected and place in largest:
        alpha = -1 / len(known) / len(largest)
    elif place in collected:
        alpha = 1 / len(known) / len(collected)
    rate = sum(seen.window / seen.round_trip_s for seen in known)
    return own.window / own.round_trip_s**2 / rate**2 + alpha / own.window


def lia(subflows: list[Seen], place: int) -> float:
    """RFC 6356: min(alpha/total, 1/window) for each segment."""
    known = [seen for seen in subflows if seen.round_trip_s]
    own = 1 / subflows[place].window
    if not known:
        return own
    rate = sum(seen.window / seen.round_trip_s for seen in known)
    return min(max(seen.window / seen.round_trip_s**2 for seen in known) / rate**2, own)  # alpha/total


def balia(subflows: list[Seen], place: int) -> float:
    """Peng et al. (ToN 2016): x/(rtt (sum of x)^2) (1 + alpha)/2 (4 + alpha)/5 for each segment."""
    own = subflows[place]
    if own.round_trip_s == 0:
        return 1 / own.window
    alpha, total = ratio_to_fastest(subflows, place), sum(seen.rate for seen in subflows)
    return own.rate / own.round_trip_s / total**2 * (1 + alpha) / 2 * (4 + alpha) / 5


def balia_after_loss(subflows: list[Seen], place: int) -> float:
    """The same: a loss takes min(alpha, 1.5) halves of the window; two segments stay."""
    window = subflows[place].window
    return max(window - window / 2 * min(ratio_to_fastest(subflows, place), 1.5), 2.0)


def ratio_to_fastest(subflows: list[Seen], place: int) -> float:
    """Alpha of Peng et al.: the largest rate over one's own."""
    own = subflows[place].rate
    return max(seen.rate for seen in subflows) / own if own else 1.0


# Few values, so that subflows are often alike, as in the formulas' ties.
SEEN = st.builds(
    Seen, st.sampled_from([4.0, 10.0, 25.0]), st.sampled_from([0.0, 0.01, 0.08]),
    st.sampled_from([0.0, 30.0, 900.0]), st.sampled_from([0.0, 30.0, 400.0]),
)  # fmt: skip


@given(st.lists(SEEN, min_size=1, max_size=4), st.data())
def test_coupled_windows_grow_as_the_formulas_say(subflows, data):
    place = data.draw(st.integers(0, len(subflows) - 1))
    numbers = [astuple(seen) for seen in subflows]
    for name, formula in (("olia", olia), ("lia", lia), ("balia", balia)):
        expected = max(1.0, subflows[place].window + formula(subflows, place)) - subflows[place].window
        assert core.coupled_growth(name, numbers, place) == pytest.approx(expected, abs=1e-12), name


@given(st.lists(SEEN, min_size=1, max_size=4), st.data())
def test_a_loss_leaves_coupled_windows_what_the_formulas_say(subflows, data):
    place = data.draw(st.integers(0, len(subflows) - 1))
    numbers = [astuple(seen) for seen in subflows]
    left = {name: core.coupled_threshold(name, numbers, place) for name in ("lia", "olia", "balia")}
    assert left["lia"] == left["olia"] == max(subflows[place].window / 2, 2.0)
    assert left["balia"] == pytest.approx(balia_after_loss(subflows, place), abs=1e-12)


def test_balia_takes_one_step_as_it_is_published():
    """By hand: 4 segments a 10 ms and 10 a 80 ms are 400 and 125 a second, so that alpha is 1 and 3.2."""
    paths = [(4.0, 0.01, 0.0, 0.0), (10.0, 0.08, 0.0, 0.0)]
    grown = [core.coupled_growth("balia", paths, place) for place in (0, 1)]
    assert grown == pytest.approx([40_000 / 525**2, 125 / 0.08 / 525**2 * 2.1 * 1.44], rel=1e-12)
    # The fast one halves; the slow one loses three quarters, which is the most.
    assert [core.coupled_threshold("balia", paths, place) for place in (0, 1)] == [2.0, 2.5]
    near = [(12.0, 0.01, 0.0, 0.0), (10.0, 0.01, 0.0, 0.0)]  # alpha 1.2
    assert core.coupled_threshold("balia", near, 1) == pytest.approx(10 - 5 * 1.2)


def test_olia_moves_from_the_largest_window_to_the_best_path_that_has_a_small_one():
    """By hand: two paths of 10 ms; nothing moves between two that are as good, or where the best has most already."""
    rate = (4 + 25) / 0.01
    unmoved = [window / 0.01**2 / rate**2 for window in (4, 25)]
    for since, between in (((900.0, 30.0), (0.0, 30.0)), ((0.0, 30.0), (900.0, 30.0))):  # either interval may be it
        paths = [(4.0, 0.01, since[0], between[0]), (25.0, 0.01, since[1], between[1])]
        grown = [core.coupled_growth("olia", paths, place) for place in (0, 1)]
        assert grown == pytest.approx([unmoved[0] + 1 / 2 / 4, unmoved[1] - 1 / 2 / 25], abs=1e-12)
        worse = [(4.0, 0.01, since[1], between[1]), (25.0, 0.01, since[0], between[0])]
        assert [core.coupled_growth("olia", worse, place) for place in (0, 1)] == pytest.approx(unmoved, abs=1e-12)
