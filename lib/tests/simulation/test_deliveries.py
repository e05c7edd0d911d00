"""What a receiver holds while a simulation runs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import simulate

NET = dumbbell(2, Link(100, 1), Link(10, 5, DropTail(packets=20), loss=0.01))
ASKED = Experiment(NET, (Flow("h1", "h3", 300_000), Flow("h2", "h4", duration_s=3)), 3)
FOLLOWED = replace(ASKED, measure=Measure(deliveries=(0, 1)))


def test_looking_changes_nothing_and_ends_with_what_was_delivered():
    alone, followed = simulate(ASKED), simulate(FOLLOWED)
    pd.testing.assert_frame_equal(followed.flows, alone.flows)
    for flow, rows in followed.deliveries.groupby("flow"):
        assert rows.delivered_bytes.iloc[-1] == alone.flows.delivered_bytes[flow]
        assert rows.time_s.is_monotonic_increasing and (rows.delivered_bytes.diff()[1:] > 0).all()
    assert set(followed.deliveries.flow) == {0, 1} and alone.deliveries.empty


def test_the_last_byte_arrives_when_the_flow_is_complete():
    followed = simulate(FOLLOWED)
    last = followed.deliveries[followed.deliveries.flow == 0].iloc[-1]
    assert last.time_s * 1e3 == pytest.approx(followed.flows.completion_ms[0], abs=1e-6)


def test_without_losses_every_segment_arrives_by_itself_at_the_links_rate():
    net = dumbbell(1, Link(1000, 1), Link(10, 5, DropTail(packets=1000)))
    tcp = Tcp("reno", receive_window_bytes=40_000)
    flow, look = Flow("h1", "h2", duration_s=2), Measure(deliveries=0)
    delivered = simulate(Experiment(net, flow, 2, measure=look, tcp=tcp, clock_skew_ppm=0)).deliveries
    late = delivered[delivered.time_s > 1]
    assert set(late.delivered_bytes.diff()[1:]) == {1448}
    assert late.time_s.diff()[1:].to_numpy() == pytest.approx(1514 * 8 / 10e6, rel=1e-6)


@pytest.mark.parametrize("how", [{"replication": "repflow"}, {"subflows": 2}])
def test_a_flow_of_several_connections_is_followed_to_its_last_byte(how):
    asked = replace(FOLLOWED, traffic=(Flow("h1", "h3", 300_000, **how), Flow("h2", "h4", duration_s=3)))
    followed = simulate(asked)
    last = followed.deliveries[followed.deliveries.flow == 0].iloc[-1]
    assert last.delivered_bytes == 300_000
    assert last.time_s * 1e3 == pytest.approx(followed.flows.completion_ms[0], abs=1e-6)


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(NetreproError, match="deliveries of 2, which is no TCP flow"):
        replace(ASKED, measure=Measure(deliveries=2))
    with pytest.raises(NetreproError, match="deliveries of 0, which is no TCP flow"):
        Experiment(NET, Datagrams("h1", "h3", 1, 3), 3, measure=Measure(deliveries=0))
    for wrong in (-1, True, "0", 0.5):
        with pytest.raises(NetreproError, match="give numbers of flows"):
            Measure(deliveries=wrong)
