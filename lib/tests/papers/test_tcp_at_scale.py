"""TCP at scale: Mathis's constant in closed form, halvings in windows that are known, and runs without a warm-up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.networks.experiment import Measure
from netrepro.papers import tcp_at_scale as paper
from netrepro.simulation import simulate
from netrepro.study import read_once

LONE = paper.Setting(rate_mbps=10.0, flows_per_100_mbps=10, round_trip_ms=20.0, buffer_ms=200.0)


def windows(*flows: list[tuple[int, int]]) -> pd.DataFrame:
    """Samples of windows and thresholds (segments), a list of pairs for each flow."""
    rows = [
        (flow, time_s, window * 1448, threshold * 1448)
        for flow, samples in enumerate(flows)
        for time_s, (window, threshold) in enumerate(samples)
    ]
    return pd.DataFrame(rows, columns=["flow", "time_s", "window_bytes", "slow_start_threshold_bytes"])


def test_a_lone_flow_has_the_constant_of_its_sawtooth():
    """A window that rises evenly a round trip from W / 2 to W carries 3/8 W^2 packets. While the queue never empties
    the round trip grows with the window, which is 7/9 W on average over time: C = 7/9 root(8/3)."""
    found = read_once(paper.STUDY, LONE, 400.0)
    assert found["constant_halvings"] == pytest.approx(7 / 9 * (8 / 3) ** 0.5, rel=0.03)


def test_a_lone_flow_is_halved_once_a_cycle():
    """Half of the largest window are the round trips of a cycle, which last 3/4 of the longest on average."""
    packet_ms = 1514 * 8e-3 / 10
    most = (20.0 + 200.0) / packet_ms + 1
    cycle_s = most / 2 * 0.75 * (20.0 + 200.0) * 1e-3
    found = read_once(paper.STUDY, LONE, 400.0)
    halvings = found["halving_rate"] * 300.0 * 1e3 / packet_ms
    assert halvings == pytest.approx(300.0 / cycle_s, rel=0.1)


@pytest.mark.parametrize(
    ("samples", "halvings"),
    [
        ([(20, 20), (30, 20), (40, 20), (20, 20), (30, 20)], 1),  # to the same threshold
        ([(20, 20), (40, 20), (38, 21), (30, 21), (21, 21), (22, 21)], 1),  # a window that comes down slowly
        ([(20, 20), (40, 20), (20, 20), (40, 20), (19, 19), (30, 19)], 2),
        ([(20, 20), (21, 20), (22, 20), (23, 20)], 0),
        ([(21, 20), (20, 20), (21, 20), (20, 20)], 0),  # as much as a recovery wavers
    ],
)
def test_a_halving_is_counted_once(samples, halvings):
    assert paper.count_halvings(windows(samples)) == halvings
    assert paper.count_halvings(windows(samples, samples)) == 2 * halvings


def test_samples_between_which_two_halvings_fit_are_not_needed():
    """Four times as many samples tell of the same halvings."""
    asked = paper.experiment(replace(paper.Setting(), buffer_ms=100.0), 20.0, 1)
    often = Measure(windows_interval_ms=asked.measure.windows_interval_ms / 4)
    seldom, fine = (simulate(each).windows.query("time_s > 5") for each in (asked, replace(asked, measure=often)))
    assert paper.count_halvings(seldom) == pytest.approx(paper.count_halvings(fine), rel=0.02)


def test_slow_start_does_not_count():
    asked = paper.experiment(paper.Setting(), 8.0, 1)
    whole = simulate(replace(asked, measure=replace(asked.measure, since_s=0.0)))
    assert (
        simulate(asked).links_by_port.dropped_packets["s1", "s2"]
        < 0.6 * whole.links_by_port.dropped_packets["s1", "s2"]
    )


def test_a_mix_has_as_many_flows_of_one_kind_as_of_the_other_on_every_host():
    table = paper.experiment(paper.Setting(senders="bbr reno", rate_mbps=200.0), 8.0, 1).flow_table
    assert (pd.crosstab(table["source"], table["congestion_control"]) == 5).all(axis=None)


def test_ratios_compare_scale_and_edge_where_both_have_as_many_flows_for_a_rate():
    edge = {(100.0, 10): 9.0, (100.0, 50): 2.0, (1000.0, 50): 3.0}
    found = pd.Series(edge).rename_axis(["rate_mbps", "flows_per_100_mbps"])
    assert paper.scale_to_edge(found) == pytest.approx(1.5)
    assert paper.least_at_scale(found) == 3.0


@pytest.mark.parametrize(("shares", "first"), [((0.7, 0.9), "BBR"), ((0.6, 0.9), "loss-based")])
def test_who_has_less_than_twice_as_much_is_not_highly_unfair(shares, first):
    index = pd.MultiIndex.from_tuples([(1000.0, 50)], names=["rate_mbps", "flows_per_100_mbps"])
    assert paper.rank_bbr(*(pd.Series([share], index) for share in np.array(shares)))[0] == first


def test_losses_are_compared_at_100_ms_and_bbr_and_halvings_at_both_longer_round_trips():
    places = pd.MultiIndex.from_product(
        [(100.0, 1000.0), (10,), (100.0, 200.0)], names=["rate_mbps", "flows_per_100_mbps", "round_trip_ms"]
    )
    found = pd.Series([2.0, 2.5, 3.0, 6.0], places)
    assert paper.ratio_at_100_ms(found) == pytest.approx(1.5)
    assert paper.CLAIMS["losses-per-halving-at-scale"].how(found) == pytest.approx(4.5)
    assert paper.least_at_scale(found) == 3.0


def test_the_buffer_is_the_papers_at_the_edge_and_at_scale():
    packets = {rate: paper.queue_of(paper.Setting(rate_mbps=rate)).packets for rate in (100.0, 1000.0)}
    assert packets[100.0] * 1514 == pytest.approx(3e6, rel=0.01)  # 3 MB
    assert packets[1000.0] * 1514 == pytest.approx(375e6 / 10, rel=0.01)  # 375 MB at ten times the rate
