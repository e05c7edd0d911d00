"""A trace of a link, read or drawn, becomes changes that let as much through as it says, again and again."""

from __future__ import annotations

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    Experiment,
    Link,
    LinkChange,
    Measure,
    cellular_trace,
    dumbbell,
    read_link_trace,
)
from netrepro.networks.traces import LinkTrace
from netrepro.simulation import simulate

TIERS = [simulate, pytest.param(lambda each: emulate(each, "virtual"), marks=needs_virtual, id="virtual")]
LONG = DropTail(packets=10_000)


@pytest.fixture
def file(tmp_path):
    def write(*lines: object):
        path = tmp_path / "trace"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def overloaded(changes, seconds: float) -> Experiment:
    network = dumbbell(1, Link(1000, 0), Link(10, 0, LONG))
    flow = Datagrams("h1", "h2", rate_mbps=30, packet_bytes=1514, start_s=0.02, duration_s=seconds - 0.02)
    return Experiment(network, [flow], seconds, changes=changes, measure=Measure(packets=[("s1", "s2")]))


@pytest.mark.parametrize("run", TIERS)
def test_a_busy_link_sends_as_many_packets_as_mahimahis_trace_has(run, file):
    trace = read_link_trace(file(*range(1, 101), *(each for each in range(101, 201) for _ in (1, 2))))
    found = run(overloaded(trace.changes("s1", "s2", 0.6), 0.6))
    left, _ = np.histogram(found.packets.time_s, np.arange(1, 7) / 10)
    assert left == pytest.approx([200, 100, 200, 100, 200], abs=4)


def test_a_busy_link_sends_a_packet_at_each_of_mahimahis_milliseconds(file):
    at_ms = [2, 3, 3, 8, 20]
    trace = read_link_trace(file(*at_ms), window_ms=0)
    assert trace.period_s == 0.02
    found = simulate(overloaded(trace.changes("s1", "s2", 0.08), 0.08))
    wanted_ms = [turn * 20 + each for turn in (1, 2, 3) for each in at_ms]
    left_ms = found.packets.time_s.to_numpy() * 1e3
    # It begins when the first packet comes; of two that leave in one millisecond, the first has half of it.
    even_ms = np.array(wanted_ms) - np.tile([0, 0.5, 0, 0, 0], 3)
    assert left_ms == pytest.approx(even_ms[: len(left_ms)], abs=0.5) and len(left_ms) >= 14


def test_a_window_holds_as_many_packets_as_the_trace_has_there(file):
    trace = read_link_trace(file(*range(1, 101), *[100] * 20), window_ms=30)
    assert [at_s for at_s, *_ in trace.steps] == [0, 0.03, 0.06, 0.09]
    assert [rate * 1e3 / (1514 * 8) for _, rate, *_ in trace.steps] == pytest.approx([1, 1, 1, 3])
    assert trace.mean_mbps == pytest.approx(120 * 1514 * 8e-6 / 0.1)


def test_a_table_tells_rate_delay_and_loss_and_is_repeated(file):
    trace = read_link_trace(file("time_s, rate_mbps, delay_ms, loss", "0,12,20,0", "1.5,4,,.01", "3,,,"))
    assert trace.changes("s1", "s2", 5.0) == (
        LinkChange(0, "s1", "s2", 12, both_directions=False, delay_ms=20, loss=0),
        LinkChange(1.5, "s1", "s2", 4, both_directions=False, loss=0.01),
        LinkChange(3, "s1", "s2", 12, both_directions=False, delay_ms=20, loss=0),
        LinkChange(4.5, "s1", "s2", 4, both_directions=False, loss=0.01),
    )


@pytest.mark.parametrize("run", TIERS)
def test_delay_and_loss_change_while_packets_travel_and_nobody_overtakes(run):
    network = dumbbell(1, Link(1000, 0), Link(100, 10, LONG))
    flow = Datagrams("h1", "h2", rate_mbps=10, packet_bytes=1250, duration_s=2.0)
    changes = [LinkChange(0.5, "s1", "s2", delay_ms=100), LinkChange(1.0, "s1", "s2", delay_ms=1)]
    changes += [LinkChange(1.5, "s1", "s2", loss=0.5)]
    look = Measure(packets=[("s1", "s2"), ("s2", "h2")])
    found = run(Experiment(network, [flow], 2.5, changes=changes, measure=look))
    first, second = (found.packets[found.packets.source == switch].time_s.to_numpy() for switch in ("s1", "s2"))
    # One packet each millisecond, so that what arrived is told by when it left.
    travelled_ms = (second[:1400] - first[:1400]) * 1e3
    assert travelled_ms[100:450] == pytest.approx(10, abs=0.2)
    assert travelled_ms[520:950] == pytest.approx(100, abs=0.2)
    assert (np.diff(second) >= 0).all()
    assert travelled_ms[1150:1400] == pytest.approx(1, abs=0.2)
    lost = found.links_by_port.lost_packets["s1", "s2"]
    assert 180 < lost < 320 and len(second) == len(first) - lost


def test_a_drawn_trace_has_its_mean_and_spread_and_the_same_seed_draws_the_same():
    trace = cellular_trace(mean_mbps=10, duration_s=4000, seed=3)
    rates = np.array([rate for _, rate, *_ in trace.steps])
    assert trace == cellular_trace(mean_mbps=10, duration_s=4000, seed=3) != cellular_trace(10, 4000, seed=4)
    assert trace.mean_mbps == pytest.approx(10, rel=0.1)
    assert np.log(rates).std() == pytest.approx(0.6, rel=0.1)
    lag = np.corrcoef(np.log(rates[:-20]), np.log(rates[20:]))[0, 1]  # 2 s apart
    assert lag == pytest.approx(np.exp(-1), abs=0.1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "not in order or none"),
        ((3, 2), "not in order"),
        ((1, "x"), "line 2: 'x'"),
        (("time_s,speed", "0,1", "1,1"), "speed"),
        (("time_s,rate_mbps", "0,1"), "1 rows"),
        (("time_s,rate_mbps", "0,fast", "1,1"), "line 2: 'fast'"),
        (("time_s,rate_mbps", "0,1", "0,2", "1,1"), "begin at 0"),
        (("time_s,rate_mbps", "0,0", "1,1"), "rate_mbps = 0"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_place(file, lines, message):
    with pytest.raises(NetreproError, match=message):
        read_link_trace(file(*lines))


def test_a_trace_of_too_many_changes_is_refused():
    with pytest.raises(NetreproError, match="window_ms"):
        LinkTrace(((0.0, 1.0, None, None),), 0.001).changes("s1", "s2", 1000.0)
