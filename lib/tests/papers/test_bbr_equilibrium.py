"""BBR beside CUBIC: a closed form for flows of one kind, what is ranked, and the balance. test_studies.py tests the
rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.networks.experiment import Measure
from netrepro.papers import bbr_equilibrium as paper
from netrepro.simulation import simulate
from netrepro.study import run_once


def _goodputs(bbr, cubic, counts=(1, 3, 5, 7, 9)):
    table = pd.DataFrame({"bbr_mbps": bbr, "cubic_mbps": cubic, "fair_mbps": 10.0}, index=list(counts))
    return table.rename_axis("bbr_flows")


@pytest.mark.parametrize("kind", ["bbr", "cubic"])
def test_ten_flows_of_one_kind_have_a_fair_share_each(kind):
    count = 10 if kind == "bbr" else 0
    setting = paper.Setting(bbr_flows=count)
    found = paper.read(run_once(paper.STUDY, paper.SHARED, 30.0, bbr_flows=count), setting).numbers
    assert found[f"{kind}_mbps"] == pytest.approx(setting.fair_mbps, rel=0.05)
    other = "cubic_mbps" if kind == "bbr" else "bbr_mbps"
    assert np.isnan(found[other])


def test_a_lone_bbr_flow_sees_the_round_trip_of_the_setting():
    """BBR keeps the queue almost empty: an acknowledgement takes the propagation and the packets' own time."""
    experiment = paper.experiment(paper.Setting(flows=1, bbr_flows=1, round_trip_ms=20.0), 5.0, 1)
    sampled = replace(experiment, measure=Measure(windows_interval_ms=10.0))
    least_ms = simulate(sampled).windows["round_trip_ms"].min()
    assert least_ms == pytest.approx(20.0, abs=1.0)


def test_the_buffer_is_so_many_bandwidth_delay_products():
    pipe_bytes = 100e6 / 8 * 0.04
    packets = paper.Setting(buffer_pipes=5.0).buffer_packets
    assert packets * paper.FULL_PACKET_BYTES == pytest.approx(5 * pipe_bytes, rel=0.001)


def test_a_lead_below_five_per_cent_is_no_advantage():
    assert paper.ranked(("BBR", "CUBIC"), (10.4, 10.0)) == ["CUBIC", "BBR"]
    assert paper.ranked(("BBR", "CUBIC"), (10.6, 10.0)) == ["BBR", "CUBIC"]


def test_an_advantage_that_falls_is_ranked_by_the_number_of_bbr_flows():
    falling = _goodputs([40, 20, 13, 10.5, 8], [6, 7, 8, 9, 20])
    assert paper.rank_mixes(falling) == ["1", "3", "5", "7", "9"]
    assert paper.rank_mixes(_goodputs([10.0] * 5, [10.0] * 5)) == ["9", "7", "5", "3", "1"]


def test_the_mix_is_stable_only_if_both_who_are_alone_gain():
    both = _goodputs([40, 20, 13, 10.5, 8], [6, 7, 8, 9, 20])
    assert paper.rank_alone(both) == ["the one alone", "a fair share"]
    only_bbr = _goodputs([40, 20, 13, 12, 11], [6, 7, 7, 5, 1])
    assert paper.rank_alone(only_bbr) == ["a fair share", "the one alone"]


def test_the_balance_lies_where_both_kinds_get_the_same():
    assert paper.balance(_goodputs([20, 10, 5, 4, 3], [5, 8, 10, 12, 20])) == pytest.approx(
        3 + 2 * np.log(10 / 8) / (np.log(10 / 8) + np.log(2))
    )
    assert np.isnan(paper.balance(_goodputs([20] * 5, [5] * 5)))
