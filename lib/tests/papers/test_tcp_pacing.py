"""TCP pacing (INFOCOM 2000): closed forms of slow start and sawtooth, what pacing is, and how windows are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Measure
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.papers import tcp_pacing as paper
from netrepro.papers.tcp_pacing import experiments, readings, study
from netrepro.simulation import simulate
from netrepro.study import points, read_once

PAPER = experiments.Setting()


def readings_of(seconds: float = 40.0, seed: int = 3, **changed):
    """Read one flow."""
    return read_once(paper.STUDY, replace(PAPER, **changed), seconds, seed)


def readings_of_fifty(seconds: float, **changed):
    return read_once(paper.STUDY, replace(paper.STUDY.case("fifty reno"), **changed), seconds, 3)


def far(**changed):
    return experiments.trips_experiment(replace(paper.STUDY.case("two round trips paced"), **changed), 60.0, 1)


def late(**changed):
    return experiments.together_experiment(replace(paper.STUDY.case("fifty reno"), **changed), 10.0, 1)


def test_the_published_path_holds_108_packets_of_a_round_trip_of_100_ms():
    assert PAPER.round_trip_ms == 100
    assert PAPER.path_packets == pytest.approx(108, abs=1)
    assert paper.STUDY.case("fifty reno").path_packets == pytest.approx(1237, abs=1)


@pytest.mark.parametrize("rate_mbps, buffer_packets", [(5.0, 25), (5.0, 60), (3.0, 25), (5.0, 108)])
@pytest.mark.parametrize("paced", [False, True])
def test_the_sawtooth_turns_where_path_and_buffer_are_full(rate_mbps, buffer_packets, paced):
    """It grows by a packet each round trip, one more until the loss is noticed, and the link itself holds one."""
    setting = replace(PAPER, rate_mbps=rate_mbps)
    reading = readings_of(60.0, rate_mbps=rate_mbps, buffer_packets=buffer_packets, paced=paced)
    assert 0 <= reading["top_packets"] - setting.path_packets - buffer_packets <= 5


@settings(max_examples=8)
@given(st.integers(8, 45))
def test_bursts_of_slow_start_overflow_a_buffer_within_a_round_and_paced_ones_only_beyond_the_path(buffer):
    """In the round that doubles a window one packet queues for each acknowledgement. So the first loss comes in the
    round from 2^k > buffer on, at a window of 2^k + buffer; it has doubled at most when the sender learns of it."""
    lost_at = 2 ** int(np.floor(np.log2(buffer)) + 1) + buffer
    reno, paced = (readings_of(4.0, buffer_packets=buffer, paced=paced)["exit_packets"] for paced in (False, True))
    assert lost_at <= reno <= 2 * lost_at + 4
    assert paced >= PAPER.path_packets + buffer
    assert paced > reno


def test_a_paced_flow_spreads_its_packets_over_the_round_trip_and_reno_sends_them_in_bursts():
    """The window is well below the path's: Reno's largest gap is most of a round trip, a paced flow's a small part."""

    def largest_share(paced: bool) -> float:
        asked = experiments.experiment(replace(PAPER, paced=paced, buffer_packets=500), 0.75, 1)
        packets = simulate(replace(asked, measure=Measure(packets=(("h1", "s1"),)))).packets
        times = packets[packets.size_bytes == PAPER.packet_bytes].time_s
        sent = times[(times >= 0.5) & (times < 0.7)].diff()  # windows of 8 to 32
        return float(sent.max() * 1e3 / PAPER.round_trip_ms)

    assert largest_share(False) > 0.6
    assert largest_share(True) < 0.3


def test_a_single_flow_gains_by_pacing_with_a_small_buffer_and_not_with_the_paths_own():
    carried = {
        (buffer, paced): readings_of(15.0, buffer_packets=buffer, paced=paced)["carried_mbit"]
        for buffer in (25, 108)
        for paced in (False, True)
    }
    assert carried[25, True] > 1.05 * carried[25, False]
    assert carried[108, True] == pytest.approx(carried[108, False], rel=0.02)


def test_fifty_paced_flows_overshoot_and_collapse_and_with_selective_acknowledgements_the_fall_is_no_such_one():
    reno, linux = (readings_of_fifty(4.0, paced=True, recovery=recovery) for recovery in ("reno", "linux"))
    holds = paper.STUDY.case("fifty reno").path_packets + 312
    assert reno["peak_packets"] > 1.8 * holds
    assert reno["least_packets"] < 0.2 * holds < linux["least_packets"]
    assert linux["carried_mbit"] > 1.2 * reno["carried_mbit"]


def test_only_the_paced_flows_of_a_mix_pace_and_in_the_control_none_does():
    for case, pacing in (("mixed, two paced", 2), ("mixed, none paced", 0)):
        flows = experiments.mix_experiment(paper.STUDY.case(case), 1.0, 1).traffic
        assert sum(flow.label == "paced" for flow in flows) * 10 == len(flows) == 20
        assert sum(flow.tcp.pacing for flow in flows) == pacing
        assert {flow.size_bytes for flow in flows} == {5000 * PAPER.segment_bytes}
    paced, none = (
        experiments.mix_experiment(paper.STUDY.case(case), 1.0, 5) for case in ("mixed, two paced", "mixed, none paced")
    )
    assert [flow.start_s for flow in paced.traffic] == [flow.start_s for flow in none.traffic]


def test_short_flows_of_a_mix_start_again_every_fifteen_seconds():
    setting = replace(paper.STUDY.case("mixed, two paced"), **study.SHORT)
    flows = experiments.mix_experiment(setting, 1.0, 1).traffic
    assert len(flows) == 200 and sum(flow.label == "paced" for flow in flows) == 20
    assert [int(flow.start_s // 15) for flow in flows] == [place // 20 for place in range(200)]


def test_throughput_times_round_trip_is_shared_fairly_where_shares_go_as_one_over_the_round_trip():
    assert readings.normalised_fairness([1, 1, 1, 1], [100] * 4) == 1
    assert readings.normalised_fairness([4, 0, 0, 0], [100] * 4) == 0.25
    assert readings.normalised_fairness([2.8, 1.0], [100, 280]) == pytest.approx(1)
    assert readings.normalised_fairness([1, 1], [100, 300]) == pytest.approx(0.8)  # (1 + 3)^2 / (2 (1 + 9))


def test_half_of_the_flows_are_far_by_longer_side_links_and_without_them_the_network_is_a_plain_dumbbell():
    shortest = simulate(far(trips_s=3.0)).windows.groupby("flow").round_trip_ms.min()
    np.testing.assert_allclose(shortest[:25], 100, atol=2)
    np.testing.assert_allclose(shortest[25:], 280, atol=2)
    side, core = Link(20.0, 5.0), Link(5.0, 40.0, DropTail(packets=25))
    assert experiments.experiment(PAPER, 5.0, 1).topology == dumbbell(1, side, core)


def windows_of(**thresholds: list[float]) -> pd.DataFrame:
    tables = [
        pd.DataFrame({"flow": flow, "time_s": np.arange(len(values)) / 20, "packets": 1.0, "threshold_packets": values})
        for flow, values in enumerate(thresholds.values())
    ]
    return pd.concat(tables, ignore_index=True)


def test_the_share_that_loses_counts_flows_once_a_round_trip():
    inf = np.inf
    together = windows_of(a=[inf, inf, 9, 8, 8, 8], b=[inf, inf, inf, 7, 7, 7])
    apart = windows_of(a=[inf, inf, 9, 9, 9, 9], b=[inf, inf, inf, inf, 7, 7])
    assert readings.shares_that_lose(together, 2, 0.1)[0] == 1
    assert readings.shares_that_lose(apart, 2, 0.1)[0] == 0.5
    assert np.isnan(readings.shares_that_lose(windows_of(a=[inf, inf], b=[3, 3]), 2, 0.1)).all()


def test_a_loss_counts_in_the_initial_period_or_after_it():
    before = [9.0] * 80  # 40 round trips of two looks
    first, later = readings.shares_that_lose(windows_of(a=[9, 8, *before], b=[9, 8, *before[1:], 7]), 2, 0.1)
    assert (first, later) == (1, 0.5)


def test_paced_flows_lose_together_at_first_and_apart_later_and_renos_do_not_change_so():
    """Sections VI.B.1 and VI.B.2, the latter mostly where hosts take no time; with RED they lose apart at all times."""
    paced, reno = (readings_of_fifty(20.0, paced=paced) for paced in (True, False))
    assert paced["first_loss_share"] > 1.5 * max(reno["first_loss_share"], paced["later_loss_share"])
    in_step = readings_of_fifty(20.0, host_delay_packets=0.0)
    assert in_step["later_loss_share"] > 1.2 * reno["later_loss_share"] > 1.2 * paced["later_loss_share"]
    random = readings_of_fifty(20.0, **study.RED)
    assert random["later_loss_share"] < 0.5 * paced["later_loss_share"]


def test_tops_are_the_last_windows_before_the_threshold_changes_or_stays_half_of_what_fell():
    """Kernels count in whole packets: 9 and 8 have the same half. A fall from elsewhere is no loss."""
    packets = [2.0, 4, 8, 4, 4, *range(5, 9), 7, 5, 4, *range(5, 10), 4, 4]
    threshold = [np.inf] * 3 + [4.0] * (len(packets) - 3)
    windows = pd.DataFrame({"time_s": np.arange(len(packets)) / 10, "packets": packets, "threshold_packets": threshold})
    assert readings.tops(windows).round(1).to_dict() == {0.2: 8, 0.8: 8, 1.6: 9}
    assert list(readings.tops(windows.assign(threshold_packets=[np.inf] * 3 + [3.0] * (len(packets) - 3)))) == [8]


def test_red_has_the_papers_thresholds():
    red = experiments.together_experiment(paper.STUDY.case("fifty paced, RED"), 1.0, 1).topology.link("s1", "s2").queue
    assert (red.packets, red.min_threshold_packets, red.max_probability) == (312, 5, 0.02)
    assert red.max_threshold_packets == pytest.approx(0.9 * 312)


@pytest.mark.parametrize(
    "make, changed, problem",
    [(far, {"far_round_trip_ms": 50.0}, "far flows at 50 ms"), (late, {"starts_within_s": 100.0}, "duration_s")],
)
def test_what_cannot_be_run_is_refused_by_name(make, changed, problem):
    with pytest.raises(NetreproError, match=problem):
        make(**changed)


def test_every_case_runs_in_virtual_time_with_linuxs_senders_and_none_with_those_of_2000():
    scale = paper.STUDY.scale("quick", "virtual")
    wanted = list(points(study.CASES, PAPER, scale))
    assert [paper.STUDY.why_not(point, "virtual", scale.seconds) for point in wanted] == [""] * len(study.CASES)
    trips = [point for point in wanted if "round trips reno" in point.case]
    assert {experiments.trips_experiment(point.setting, 20.0, 1).duration_s for point in trips} == {30.0}
    assert "recovery = 'reno'" in paper.STUDY.why_not(next(points(study.CASES, PAPER)), "virtual")


def test_several_flows_last_no_longer_than_their_profile_and_case_say():
    assert experiments.experiment(PAPER, 20.0, 1).duration_s == 20
    assert experiments.experiment(paper.STUDY.case("reno, 150 round trips"), 20.0, 1).duration_s == 15
    for case, seconds in (("fifty reno", 12), ("fifty reno, at first", 2.8)):
        setting = replace(paper.STUDY.case(case), many_s=12.0)
        assert experiments.together_experiment(setting, 20.0, 1).duration_s == seconds


@needs_virtual
@pytest.mark.parametrize("paced", [False, True])
def test_linuxs_reno_cuts_its_window_in_virtual_time_where_it_does_in_the_simulator(paced):
    """Slow start's end, and the sawtooth of two cuts; the simulator's windows have fractions of a packet."""
    setting = replace(PAPER, paced=paced, recovery="linux")
    asked = experiments.experiment(setting, 18.0, 3)
    virtual, simulated = (
        readings.read(each(asked), setting) for each in (lambda e: emulate(e, tier="virtual"), simulate)
    )
    assert virtual["exit_packets"] == pytest.approx(simulated["exit_packets"], rel=0.03)
    assert virtual["top_packets"] == pytest.approx(simulated["top_packets"], abs=1.5)
    assert virtual["carried_mbit"] == pytest.approx(simulated["carried_mbit"], rel=0.02)
