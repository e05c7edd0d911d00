"""Retransmission timeouts double, but not beyond the greatest one that a sender is given."""

from __future__ import annotations

import pytest

from netrepro.errors import NetreproError
from netrepro.networks import Experiment, Flow, Link, LinkChange, Tcp, dumbbell
from netrepro.simulation import simulate

DOWN_S = 12.75  # 63 timeouts of 200 ms, and the round trip's share


def timeouts(max_rto_ms: float) -> int:
    """Count the timeouts of a flow whose link fails for DOWN_S seconds."""
    change = LinkChange(1.0, "s1", "s2", up=False)
    network = dumbbell(1, Link(100, 0.01), Link(10, 0.1))
    tcp = Tcp("reno", max_rto_ms=max_rto_ms, tail_loss_probe=False)
    asked = Experiment(network, (Flow("h1", "h2", duration_s=1 + DOWN_S),), 1 + DOWN_S, tcp=tcp, changes=change)
    return int(simulate(asked).flows["timeouts"][0])


def test_a_timeout_that_may_not_double_fires_as_often_as_it_fits():
    # About 200 ms and the round trip, which the queue makes longer.
    assert timeouts(100.0) == pytest.approx(DOWN_S / 0.24, rel=0.2)


def test_without_a_bound_timeouts_double():
    # 0.2 (1 + 2 + 4 + 8 + 16 + 32) = 12.6 s
    assert timeouts(120_000.0) in (5, 6)


def test_it_doubles_up_to_the_bound():
    # 0.2, 0.4, 0.8, and then once a second
    assert timeouts(1000.0) == pytest.approx(3 + (DOWN_S - 1.4) / 1.0, abs=2)


def test_no_timeout_at_all_is_refused():
    with pytest.raises(NetreproError, match="max_rto_ms"):
        Tcp(max_rto_ms=0)
