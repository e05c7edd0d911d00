"""How senders of old recover from losses, what they count, and BIC: against the papers that described them."""

from __future__ import annotations

import numpy as np
import pytest

from netrepro import _core
from netrepro.emulation.tcp import check_tcp
from netrepro.errors import NetreproError
from netrepro.networks import (
    CONGESTION_CONTROLS,
    Cable,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Routing,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.workloads import RECOVERIES
from netrepro.simulation import OwnCongestionControl, simulate

PLENTY = DropTail(packets=10_000)
ROUND_TRIP_MS = 41
OLD = RECOVERIES[1:]


def with_losses(recovery: str, losses: int, **tcp) -> Experiment:
    """Forty segments a round trip, one each millisecond; so many that follow each other are lost."""
    net = Topology(
        (
            Cable("h1", "s1", Link(12.112, 0, PLENTY)),
            Cable("s1", "s2", Link(10_000, 0, PLENTY)),
            Cable("s2", "h2", Link(1000, 20, PLENTY)),
        ),
        "line",
    )
    gap = dict(source="s1", destination="s2", both_directions=False)
    changes = (LinkChange(0.26, up=False, **gap), LinkChange(0.26 + losses / 1e3, up=True, **gap)) if losses else ()
    return Experiment(
        net,
        (Flow("h1", "h2", 600_000),),
        10,
        tcp=Tcp("reno", recovery=recovery, delayed_ack_ms=0, receive_window_bytes=40 * 1448, **tcp),
        changes=changes,
        routing=Routing(rerouting_ms=5000),
        measure=Measure(windows_interval_ms=1),
    )


def outcome(recovery: str, losses: int, **tcp) -> tuple[float, int, int, float]:
    """Completion time beyond that without losses in round trips, segments sent again, timeouts, smallest window."""
    measured = simulate(with_losses(recovery, losses, **tcp))
    undisturbed_ms = simulate(with_losses(recovery, 0, **tcp)).flows["completion_ms"][0]
    flow = measured.flows.iloc[0]
    assert losses == 0 or measured.links["dropped_packets"].sum() == losses
    windows = measured.windows["window_bytes"]
    late = (flow["completion_ms"] - undisturbed_ms) / ROUND_TRIP_MS
    return late, flow["retransmitted_packets"], flow["timeouts"], windows.min() / 1448


@pytest.mark.parametrize("losses", [1, 2, 3, 4])
def test_newreno_needs_a_round_trip_for_each_loss_and_sack_one_for_all(losses):
    # Fall and Floyd (CCR 1996), section 4.
    late, again, timeouts, _ = outcome("newreno", losses)
    assert late == pytest.approx(losses, abs=0.15) and (again, timeouts) == (losses, 0)
    late, again, timeouts, _ = outcome("sack", losses)
    assert late == pytest.approx(1, abs=0.25) and (again, timeouts) == (losses, 0)


def test_reno_recovers_from_one_loss_and_waits_for_its_timer_after_several():
    # Fall and Floyd (CCR 1996), section 4: with a window that cannot grow meanwhile two are too many.
    assert outcome("reno", 1)[1:3] == (1, 0)
    for losses in (2, 3, 4):
        late, _, timeouts, smallest = outcome("reno", losses)
        assert timeouts == 1 and late * ROUND_TRIP_MS > 200 and smallest == 1


def test_tahoe_starts_again_from_one_segment_and_sends_what_had_arrived_once_more():
    for losses in (1, 2, 3, 4):
        _, again, timeouts, smallest = outcome("tahoe", losses)
        # In slow start one, two, four segments: of what goes out with the last that was lost, the rest had arrived.
        assert again == {1: 1, 2: 3, 3: 3 + 2, 4: 7}[losses] and timeouts == 0 and smallest == 1


def test_only_those_of_old_cut_their_window_at_once():
    net = dumbbell(1, Link(1000, 0.01, PLENTY), Link(20, 20, DropTail(packets=40)))
    flow, measure = Flow("h1", "h2", 3_000_000), Measure(windows_interval_ms=1)

    def after_the_loss(recovery):
        windows = simulate(Experiment(net, (flow,), 3, tcp=Tcp("reno", recovery=recovery), measure=measure)).windows
        loss = np.argmax(np.isfinite(windows["slow_start_threshold_bytes"]))
        return (windows["window_bytes"] - windows["slow_start_threshold_bytes"])[loss : loss + 30] / 1448

    above = after_the_loss("linux")
    assert above.iloc[0] > 20 and above.nunique() > 10  # proportional rate reduction
    for recovery in ("sack", "newreno", "reno"):
        assert after_the_loss(recovery).iloc[0] == 0


def test_reno_halves_again_for_each_loss_of_a_window_and_newreno_once():
    # A window large enough for three duplicates after each partial acknowledgement.
    net = dumbbell(1, Link(1000, 0.01, PLENTY), Link(20, 20, DropTail(packets=40)))
    flow, measure = Flow("h1", "h2", 3_000_000), Measure(windows_interval_ms=1)

    def reductions(recovery):
        measured = simulate(Experiment(net, (flow,), 60, tcp=Tcp("reno", recovery=recovery), measure=measure))
        thresholds = measured.windows["slow_start_threshold_bytes"]
        assert measured.flows["completion_ms"].notna().all()
        return (thresholds.diff() < 0).sum(), measured.flows["timeouts"][0]

    many, timeouts = reductions("reno")
    few, none = reductions("newreno")
    assert timeouts >= 1 and none == 0 and many + timeouts > few


@pytest.mark.parametrize("recovery", OLD)
@pytest.mark.parametrize("control", ["reno", "cubic", "bic", "dctcp"])
def test_all_bytes_arrive_whatever_is_lost(recovery, control):
    net = dumbbell(2, Link(1000, 0.1, PLENTY), Link(20, 5, DropTail(packets=12), loss=0.02, jitter_ms=0.5))
    flows = (Flow("h1", "h3", 1_500_000), Flow("h2", "h4", 1_500_000, start_s=0.1))
    measured = simulate(Experiment(net, flows, 120, tcp=Tcp(control, recovery=recovery, min_rto_ms=20)))
    assert list(measured.flows["delivered_bytes"]) == [1_500_000] * 2 and measured.flows["completion_ms"].notna().all()
    assert measured.trusted and measured.flows["retransmitted_packets"].min() > 10


def test_the_older_the_sender_the_slower_it_recovers_from_random_losses():
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(50, 20, PLENTY, loss=0.02))
    goodput = {
        recovery: np.mean(
            [
                simulate(Experiment(net, (Flow("h1", "h2", duration_s=30),), 30, seed, tcp=tcp)).flows["goodput_mbps"][
                    0
                ]
                for seed in range(3)
            ]
        )
        for recovery in RECOVERIES
        for tcp in [Tcp("reno", recovery=recovery, delayed_ack_ms=0)]
    }
    assert goodput["sack"] >= 0.97 * goodput["newreno"] > 0.97 * goodput["reno"]
    assert goodput["reno"] > goodput["tahoe"] or goodput["newreno"] > goodput["tahoe"]


# What is counted -----------------------------------------------------------------------------------------


def test_who_counts_acknowledgements_grows_half_as_fast_under_delayed_ones():
    net = dumbbell(1, Link(1000, 0.01, PLENTY), Link(1000, 50, PLENTY))
    times_ms = {
        (counts, delay): simulate(
            Experiment(net, (Flow("h1", "h2", 300 * 1448),), 9, tcp=Tcp("reno", counts=counts, delayed_ack_ms=delay))
        ).flows["completion_ms"][0]
        for counts in ("segments", "bytes", "acknowledgements")
        for delay in (0, 40)
    }
    # Rounds of 10, 20, 40, 80, 150 segments; a sixth where every second acknowledgement is missing. At first it is not:
    # the receiver acknowledges the first 16, and those that let its window grow, one by one.
    assert len({times_ms[counts, 0] for counts in ("segments", "bytes", "acknowledgements")}) == 1
    assert times_ms["segments", 40] == times_ms["bytes", 40] == pytest.approx(times_ms["segments", 0], abs=1)
    assert times_ms["acknowledgements", 40] > times_ms["segments", 40] + 90


# BIC and the registry ---------------------------------------------------------------------------------------


class MyBic(OwnCongestionControl):
    """A second BIC, by the paper's words: midpoints, at most 16 segments a round trip."""

    def __init__(self):
        self.maximum = 0.0

    def grow(self, window, delivery):
        if not delivery.window_limited:
            return
        left = delivery.segments
        if window.in_slow_start:
            left = window.slow_start(left)
        if left > 0:
            window.segments += left * self.a_round_trip(window.segments) / window.segments

    def a_round_trip(self, window):
        if window <= 14:
            return 1
        if window < self.maximum:
            to_target = (self.maximum - window) / 4
            step = 0.2 if to_target <= 1 else min(to_target, 16)
        else:
            beyond = window - self.maximum
            step = 0.2 if beyond < 4 else min(beyond / 3, 16) if beyond < 48 else 16
        if self.maximum == 0:
            step = max(step, window / 20)
        return min(step, window)

    def threshold_after_loss(self, window):
        lower = window.segments < self.maximum
        self.maximum = window.segments * (1024 + 819) / 2048 if lower else window.segments
        return max(window.segments * (0.5 if window.segments <= 14 else 819 / 1024), 2.0)

    def on_timeout(self):
        self.maximum = 0.0


def test_bic_does_as_a_second_one_in_python():
    net = dumbbell(2, Link(1000, 0.1, PLENTY), Link(100, 20, DropTail(packets=300), loss=1e-4))

    def run(control, **own):
        flows = (Flow("h1", "h3", duration_s=15), Flow("h2", "h4", duration_s=10, start_s=3))
        return simulate(Experiment(net, flows, 15, tcp=Tcp(control), measure=Measure(windows_interval_ms=20)), **own)

    core, own = run("bic"), run("my_bic", congestion_controls={"my_bic": MyBic})
    np.testing.assert_allclose(core.windows["window_bytes"], own.windows["window_bytes"], rtol=1e-6)
    assert core.flows["retransmitted_packets"].sum() > 100


def test_every_congestion_control_of_the_registry_runs_and_is_known_by_name():
    assert list(CONGESTION_CONTROLS) == _core.congestion_controls() and len(set(CONGESTION_CONTROLS)) >= 9
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(20, 5, DropTail(packets=20)))
    for control in CONGESTION_CONTROLS:
        measured = simulate(Experiment(net, (Flow("h1", "h2", 500_000),), 20, tcp=Tcp(control)))
        assert measured.flows["completion_ms"].notna().all()


def test_a_congestion_control_that_only_kernels_have_is_refused_by_name():
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(20, 5, DropTail(packets=20)))
    with pytest.raises(NetreproError, match="no congestion control 'vegas'"):
        simulate(Experiment(net, (Flow("h1", "h2", 500_000),), 20, tcp=Tcp("vegas")))


def test_what_senders_of_old_cannot_be_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'newreno'"):
        Tcp(recovery="new reno")
    with pytest.raises(NetreproError, match="acknowledgements"):
        Tcp(counts="acknowledgement")
    with pytest.raises(NetreproError, match="without SACK"):
        Tcp(recovery="sack", sack=False)
    for tcp in (Tcp(recovery="reno"), Tcp(counts="bytes"), Tcp(hystart_rounds_from_start=False)):
        with pytest.raises(NetreproError, match="use tier 'simulated'"):
            check_tcp(tcp)


@pytest.mark.parametrize("control", ["reno", "cubic"])
@pytest.mark.parametrize("recovery", RECOVERIES)
def test_of_its_window_reno_keeps_another_share_where_its_first_loss_ends_slow_start_and_half_later(recovery, control):
    """Two losses, each alone; the threshold after each, over the window before it. CUBIC has its own share."""

    def kept(share: float) -> list[float]:
        tcp = Tcp(control, recovery=recovery, delayed_ack_ms=0, tail_loss_probe=False, slow_start_exit_share=share)
        net = dumbbell(1, Link(1000, 1), Link(20, 20, DropTail(packets=60)))
        asked = Experiment(net, (Flow("h1", "h2", duration_s=20),), 20, tcp=tcp, measure=Measure(windows_interval_ms=1))
        windows = simulate(asked).windows
        window, threshold = windows["window_bytes"], windows["slow_start_threshold_bytes"]
        cuts = threshold.ne(threshold.shift()) & (windows.index > 0)
        return [float(threshold[at] / window[at - 1]) for at in windows.index[cuts]]

    halves, quarter = kept(0.5), kept(0.25)
    if control == "cubic":
        assert halves == quarter
        return
    assert halves[0] == pytest.approx(0.5, abs=0.03) and quarter[0] == pytest.approx(0.25, abs=0.03)
    assert min(halves[-1], quarter[-1]) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_a_share_of_the_window_is_above_none_and_at_most_all(share):
    with pytest.raises(NetreproError, match="slow_start_exit_share"):
        Tcp("reno", slow_start_exit_share=share)


def test_kernels_refuse_another_share_by_name():
    with pytest.raises(NetreproError, match=r"slow_start_exit_share = 0\.25"):
        check_tcp(Tcp("reno", slow_start_exit_share=0.25), 1.0)
