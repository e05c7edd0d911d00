"""What a receiver holds while a simulation runs."""

from __future__ import annotations

import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Tcp, dumbbell
from netrepro.simulation import simulate, simulate_deliveries

NET = dumbbell(2, Link(100, 1), Link(10, 5, DropTail(packets=20), loss=0.01))
ASKED = Experiment(NET, (Flow("h1", "h3", 300_000), Flow("h2", "h4", duration_s=3)), 3)


def test_looking_changes_nothing_and_ends_with_what_was_delivered():
    alone = simulate(ASKED)
    for flow in (0, 1):
        found, delivered = simulate_deliveries(ASKED, flow=flow)
        pd.testing.assert_frame_equal(found.flows, alone.flows)
        assert delivered.delivered_bytes.iloc[-1] == alone.flows.delivered_bytes[flow]
        assert delivered.time_s.is_monotonic_increasing and (delivered.delivered_bytes.diff()[1:] > 0).all()


def test_the_last_byte_arrives_when_the_flow_is_complete():
    found, delivered = simulate_deliveries(ASKED)
    assert delivered.time_s.iloc[-1] * 1e3 == pytest.approx(found.flows.completion_ms[0], abs=1e-6)


def test_without_losses_every_segment_arrives_by_itself_at_the_links_rate():
    net = dumbbell(1, Link(1000, 1), Link(10, 5, DropTail(packets=1000)))
    tcp = Tcp("reno", receive_window_bytes=40_000)
    _, delivered = simulate_deliveries(Experiment(net, (Flow("h1", "h2", duration_s=2),), 2, tcp=tcp, clock_skew_ppm=0))
    late = delivered[delivered.time_s > 1]
    assert set(late.delivered_bytes.diff()[1:]) == {1448}
    assert late.time_s.diff()[1:].to_numpy() == pytest.approx(1514 * 8 / 10e6, rel=1e-6)


def test_looks_farther_apart_are_late_but_never_early():
    _, exact = simulate_deliveries(ASKED, flow=1)
    _, coarse = simulate_deliveries(ASKED, flow=1, events=16)
    at = coarse.merge(exact, on="delivered_bytes")
    assert len(at) == len(coarse) < len(exact)
    assert (at.time_s_x >= at.time_s_y).all() and (at.time_s_x > at.time_s_y).any()


def test_what_cannot_be_is_refused():
    with pytest.raises(NetreproError, match="events between two looks = 0"):
        simulate_deliveries(ASKED, events=0)
    with pytest.raises(NetreproError, match="no flow 2"):
        simulate_deliveries(ASKED, flow=2)
