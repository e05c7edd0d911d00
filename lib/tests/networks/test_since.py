"""What counts of a run: what happens from a time on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, DropTail, Experiment, Flow, Link, LinkChange, Measure, Policer, dumbbell
from netrepro.simulation import simulate

NET = dumbbell(2, Link(100, 1), Link(10, 5, DropTail(packets=20), loss=0.01))
LONG = Flow("h1", "h3", size_bytes=1_000_000_000), Flow("h2", "h4", size_bytes=1_000_000_000)
SHORT, SENT = Flow("h1", "h3", 100_000), Datagrams("h2", "h4", 0.5, 10)
COUNTED = ["delivered_bytes", "retransmitted_packets", "timeouts"]
OF_LINKS = ["sent_packets", "sent_bytes", "dropped_packets", "lost_packets"]


def lasting(seconds: float, since_s: float = 0.0, traffic: tuple = (*LONG, SHORT), **how) -> Experiment:
    look = Measure((("s1", "s2"),), 10, 50, (("s1", "s2"),), since_s=since_s)
    return Experiment(NET, traffic, seconds, measure=look, **how)


def test_a_run_is_what_counts_and_what_came_before():
    whole, before, after = (simulate(lasting(*times)) for times in ((6,), (2,), (6, 2)))
    for table, counted in (("flows", COUNTED), ("links", OF_LINKS)):
        parts = [getattr(run, table)[counted].to_numpy() for run in (before, after)]
        assert (parts[0] + parts[1] == getattr(whole, table)[counted].to_numpy()).all()
        assert parts[1].sum() > 0
    busy = 2 * before.links.utilisation + 4 * after.links.utilisation
    assert busy.to_numpy() == pytest.approx(6 * whole.links.utilisation.to_numpy())
    np.testing.assert_array_equal(after.flows.completion_ms, whole.flows.completion_ms)


def test_goodput_is_of_the_time_that_counts():
    run = simulate(lasting(6, 2))
    assert run.flows.goodput_mbps[:2].to_numpy() == pytest.approx(run.flows.delivered_bytes[:2] * 8e-6 / 4)
    assert run.flows.completion_ms[2] < 2000 and run.flows.delivered_bytes[2] == 0
    assert np.isnan(run.flows.goodput_mbps[2])
    late = simulate(lasting(6, 2, (*LONG, replace(SHORT, start_s=3.0))))
    size, took_ms = late.flows.loc[2, ["delivered_bytes", "completion_ms"]]
    assert size == 100_000 and late.flows.goodput_mbps[2] == pytest.approx(size * 8e-3 / took_ms)


def test_samples_and_packets_begin_then_and_are_those_of_the_whole_run():
    whole, after = simulate(lasting(6)), simulate(lasting(6, 2))
    for name in ("queues", "windows", "packets"):
        table, rows = getattr(whole, name), getattr(after, name)
        np.testing.assert_array_equal(rows, table[table.time_s >= 2.0])
        assert 0 < len(rows) < len(table)


def test_datagrams_before_do_not_count():
    run = simulate(lasting(10, 4, (SENT,)))
    assert run.flows.goodput_mbps[0] == pytest.approx(0.5, rel=0.03)
    assert run.flows.delivered_bytes[0] == pytest.approx(0.5e6 / 8 * 6, rel=0.03)


def test_a_simulation_on_two_cores_counts_the_same():
    one, two = (simulate(lasting(6, 2), cores=cores) for cores in (1, 2))
    np.testing.assert_array_equal(one.flows[COUNTED], two.flows[COUNTED])
    np.testing.assert_array_equal(one.links[OF_LINKS], two.links[OF_LINKS])


@needs_virtual
def test_the_virtual_kernel_leaves_out_what_came_before():
    change = LinkChange(1.0, "s1", "s2", rate_mbps=5.0), LinkChange(3.0, "s1", "s2", rate_mbps=10.0)
    whole, after = (emulate_virtually(lasting(6, since_s, changes=change)) for since_s in (0.0, 2.0))
    times = whole.packets.time_s
    port = after.links_by_port.loc[("s1", "s2")]
    assert port.sent_packets == pytest.approx((times >= 2).sum(), abs=2)
    assert port.utilisation == pytest.approx(1.0, abs=0.02)
    assert (after.flows.delivered_bytes[:2] < 0.9 * whole.flows.delivered_bytes[:2]).all()
    carried = after.flows.delivered_bytes.sum() * 1514 / 1448
    assert carried == pytest.approx(port.sent_bytes, rel=0.05)
    assert after.flows.delivered_bytes[2] == 0 and whole.flows.delivered_bytes[2] == 100_000
    assert after.flows.retransmitted_packets.sum() < whole.flows.retransmitted_packets.sum()


@needs_virtual
def test_a_run_that_ends_early_counts_from_that_time_too():
    sized = (Flow("h1", "h3", 2_000_000),)
    run = emulate_virtually(lasting(30, 1.0, sized), until_complete=True)
    ended_s = run.flows.completion_ms[0] / 1e3
    assert 1.5 < ended_s < 10
    port, times = run.links_by_port.loc[("s1", "s2")], run.packets.time_s
    assert port.sent_packets == pytest.approx((times >= 1).sum(), abs=2) and port.sent_packets > 500
    assert port.utilisation == pytest.approx(port.sent_bytes * 8e-7 / (ended_s - 1), rel=0.05)


def test_a_policers_drops_of_a_part_are_the_simulators_only():
    policed = dumbbell(2, Link(100, 1), Link(10, 5, policer=Policer(5, 20_000)))
    asked = replace(lasting(6, 2), topology=policed)
    assert simulate(asked).links_by_port.dropped_packets["s1", "s2"] > 0
    with pytest.raises(NetreproError, match="since_s and a policer"):
        emulate_virtually(asked)


def test_no_time_that_counts_is_refused():
    for since_s in (6.0, 7.0):
        with pytest.raises(NetreproError, match=f"since_s = {since_s:g} in an experiment of 6 s"):
            lasting(6, since_s)
    with pytest.raises(NetreproError, match="since_s"):
        Measure(since_s=-1.0)
