"""The theory of buffer sizing, updated: closed forms, known windows, flows that all step down. test_studies.py tests
the rest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from netrepro.claims import load_claims
from netrepro.papers import buffer_sizing as older
from netrepro.papers import buffer_sizing_theory as paper
from netrepro.study import read_once, run_once


def _windows(*rows, interval_s=0.02):
    """Samples of each flow's window, in segments; all of it is in flight."""
    table = pd.DataFrame(rows).rename_axis("place").melt(var_name="flow", value_name="window_bytes", ignore_index=False)
    return table.reset_index().assign(
        time_s=lambda each: each.place * interval_s, in_flight_bytes=lambda each: each.window_bytes
    )


def _lowest(values, flows=(1,), shares=(0.25, 0.5, 1.0)):
    index = pd.MultiIndex.from_product([flows, shares], names=["flows", "buffer_share"])
    return pd.Series(values, index)


def test_the_closed_form_is_the_authors_for_one_flow_and_the_old_rule_for_root_n():
    """One flow's lowest utilisation reaches 1 with just this buffer."""
    for kept in paper.KEPT.values():
        assert kept * (1 + paper.enough(kept)) == pytest.approx(1)
    assert paper.enough(0.5) == 1
    many = 10_000
    assert paper.enough(0.5, many**-0.5) == pytest.approx(0.5 * many**-0.5, rel=0.01)


@pytest.mark.parametrize(("claim", "kept"), [("lowest-use-by-reno", 0.5), ("lowest-use-by-cubic", 717 / 1024)])
def test_the_published_curves_are_the_authors_formula(claim, kept):
    for share, lowest in load_claims("buffer_sizing_theory").claim(claim).published:
        assert lowest == pytest.approx(min(kept * (1 + share), 1), abs=0.0006)


def test_one_reno_flow_with_the_whole_pipe_as_buffer_keeps_the_link_full_and_with_half_it_does_not():
    """But for its start, in which it learns what the path holds."""
    whole, half = (read_once(paper.STUDY, paper.Setting(buffer_share=share), 5.0)["used"] for share in (1.1, 0.5))
    assert whole > 0.99
    assert half == pytest.approx(older.sawtooth_utilisation(0.5), abs=0.02)


def test_the_pipe_is_as_long_as_the_setting_says():
    found = run_once(paper.STUDY, "Reno", 2.0, flows=1, buffer_share=0.06, round_trip_ms=40.0, pipe_packets=100)
    assert found.windows["round_trip_ms"].min() == pytest.approx(40.0, abs=1.5)
    link = found.experiment.topology.link(*paper.PORT)
    assert link.rate_mbps * 40e3 / 8 / 1514 == pytest.approx(100)
    assert link.queue.packets == 6


def test_the_queue_is_read_at_the_packets_of_the_middle_third():
    """A flow with more than a pipe of buffer never empties the queue; one with half a pipe does."""
    full, idle = (
        read_once(paper.STUDY, paper.Setting(buffer_share=share), 5.0)["least_queue"] for share in (1.25, 0.5)
    )
    assert full > paper.ABOVE > idle == 0


def test_the_authors_points_are_read_by_sender_and_test():
    assert paper.published("BBR", "over_rule")[64] == 1.49
    assert paper.published("Reno", "by_queue")[8] == 1.89
    assert all(set(paper.published(name, "over_rule")) == set(paper.COUNTS) for name in paper.NAMES)


def test_flows_start_within_one_round_trip_and_no_interval_is_left_out():
    made = paper.experiment(paper.Setting(flows=4), 6.0, 1)
    assert 0 < max(flow.start_s for flow in made.traffic) < 0.02
    late = read_once(paper.STUDY, paper.Setting(flows=16, buffer_share=0.5), 5.0)
    assert late["lowest"] <= late["used"] < 1


def test_steps_are_counted_where_windows_begin_to_fall():
    """Two flows of four fall over two samples, which is one step; a fifth of all windows falls later, alone."""
    flows, share = paper.steps_down(
        _windows([10, 10, 10, 10], [7, 8, 11, 11], [5, 5, 12, 12], [6, 6, 13, 13], [7, 7, 6.5, 14]), 20.0
    )
    first, second = 20 / 40, 13 / 38
    assert flows == pytest.approx((2**2 + 1) / 3)
    assert share == pytest.approx((first**2 + second**2) / (first + second))
    assert np.isnan(paper.steps_down(_windows([1, 2], [2, 3], [3, 4]), 20.0)).all()


def test_the_needed_buffer_lies_between_those_that_were_tried():
    assert paper.needed(paper.alone(_lowest([0.7, 0.83, 0.87]))) == pytest.approx(0.5**0.5)
    assert paper.needed(paper.alone(_lowest([0.86, 1.0, 1.0]))) == 0.25
    assert paper.needed(paper.alone(_lowest([0.6, 0.7, 0.84]))) == 1.0
    assert paper.needed(paper.alone(_lowest([0.7, 0.96, 1.0])), 0.98) == pytest.approx(0.5**0.5)
    assert paper.of_reno(_lowest([0.84, 0.85, 1]), _lowest([0.9, 1, 1]), _lowest([0.7, 0.8, 0.85])) == 0.5


def test_the_rule_is_judged_by_the_worst_number_of_flows_and_not_by_one_alone():
    lowest = _lowest([0.5, 0.6, 0.85, 0.8, 0.85, 1.0, 0.84, 0.85, 1.0], flows=(1, 4, 16))
    assert paper.over_rule(lowest) == pytest.approx(0.5 * 4)


def test_a_lead_below_a_quarter_is_none():
    few, more, most = ([0.7, 0.85, 1.0], [0.7, 0.84, 0.85], [0.7, 0.849, 0.851])
    at = [_lowest(values, flows=(16,), shares=(0.2, 0.4, 0.48)) for values in (few, more, most)]
    assert paper.rank("drops", "marks", 16, at[0], at[1]) == ["marks", "drops"]
    far = _lowest(more, flows=(16,), shares=(0.2, 0.4, 0.6))
    assert paper.rank("drops", "marks", 16, at[0], far) == ["drops", "marks"]


def test_marks_make_all_flows_one_and_need_the_pipe():
    """Sixteen flows that are marked together use the link no better than one flow with the same buffer."""
    marked = read_once(paper.STUDY, paper.Setting(flows=16, buffer_share=0.5, asks_for_ecn=True, marks=True), 10.0)
    dropped = read_once(paper.STUDY, paper.Setting(flows=16, buffer_share=0.5), 10.0)
    assert marked["flows_at_once"] > 1.5 * dropped["flows_at_once"]
    assert marked["used"] < older.sawtooth_utilisation(0.5) + 0.01 < dropped["used"]
