"""XCP: links that change flows' windows, against the equations of the paper (SIGCOMM 2002, section 3.5)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import links_that_answer
import numpy as np
import pytest
from links_that_answer import PLENTY, rates_mbps

from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    Datagrams,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Tcp,
    Topology,
    Xcp,
    dumbbell,
)
from netrepro.simulation import simulate

ACCESS = Link(10_000, 0.5, PLENTY)
XCP = Tcp("xcp", delayed_ack_ms=0, receive_window_bytes=2**28)
PORT = ("s1", "s2")
PACKET_BYTES = 1514  # full, on the wire
ROUND_TRIP_S = 0.042
shared = partial(links_that_answer.shared, access=ACCESS)


def test_a_lone_flow_s_window_follows_the_equation_and_fills_the_link_within_ten_round_trips():
    """Without a queue phi = alpha (B - W), B what link and path hold. What an interval has measured is given to packets
    of the next one and comes to the sender in the one after: W(k + 1) = W(k) + alpha (B - W(k - 1))."""
    measure = Measure(packets=(PORT,), queues=(PORT,), windows_interval_ms=1.0)
    flow = Flow("h1", "h2", duration_s=10)
    measured = simulate(Experiment(shared(1, 400), (flow,), 10, measure=measure, tcp=XCP, clock_skew_ppm=0))
    holds = 400e6 / 8 * ROUND_TRIP_S / PACKET_BYTES
    expected = [10.0, 10.0]
    for _ in range(2):
        expected.append(expected[-1] + 0.4 * (holds - expected[-2]))
    windows = measured.windows
    # The first data leave a round trip after the SYN.
    at_s = [(1.5 + k) * ROUND_TRIP_S for k in range(4)]
    got = [windows["window_bytes"][windows["time_s"].searchsorted(time_s)] / 1448 for time_s in at_s]
    assert got == pytest.approx(expected, rel=0.05)
    rates = rates_mbps(measured, 0, np.array([11, 12, 100, 200]) * ROUND_TRIP_S)
    assert rates[0] > 0.9 * 400 and rates[2] == pytest.approx(400, rel=0.02)
    assert measured.queues.query("time_s > 5")["queue_packets"].mean() < 5
    assert measured.links["dropped_packets"].sum() == 0


@pytest.mark.parametrize("flows", [2, 8])
def test_long_flows_share_a_link_evenly_and_fill_it_with_hardly_a_queue(flows):
    starts = [i / 9 for i in range(flows)]
    traffic = tuple(Flow(f"h{i + 1}", f"h{flows + i + 1}", duration_s=20 - s, start_s=s) for i, s in enumerate(starts))
    measure = Measure(queues=(PORT,), packets=(PORT,))
    measured = simulate(Experiment(shared(flows, 400), traffic, 20, measure=measure, tcp=XCP))
    got = [rates_mbps(measured, flow, np.array([10.0, 20.0]))[0] for flow in range(flows)]
    assert got == pytest.approx([400 / flows] * flows, rel=0.05)
    assert measured.queues.query("time_s > 10")["queue_packets"].mean() < 10
    assert measured.links["dropped_packets"].sum() == 0


def late_flow_mbps(xcp: Xcp) -> np.ndarray:
    """The rate of a flow that comes to a link that another one fills, from 5 to 8, 10 to 13, ... round trips on."""
    traffic = (Flow("h1", "h3", duration_s=15), Flow("h2", "h4", duration_s=10, start_s=5))
    measured = simulate(Experiment(shared(2, 400), traffic, 15, measure=Measure(packets=(PORT,)), tcp=XCP, xcp=xcp))
    trips = np.array([[k, k + 3] for k in (5, 10, 20, 40)])
    return np.array([rates_mbps(measured, 1, 5 + pair * ROUND_TRIP_S)[0] for pair in trips])


def test_a_new_flow_on_a_full_link_gets_only_what_is_shuffled():
    """A full link takes and gives gamma C a round trip, half of it to each of two flows: the new one has
    C/2 (1 - (1 - gamma)^k) after k of them. Its first data leave after one, and what they ask for comes two later."""
    trips = np.array([5, 10, 20, 40]) + 1.5 - 3
    assert late_flow_mbps(Xcp()) == pytest.approx(200 * (1 - 0.9**trips), rel=0.2)


def test_without_shuffling_a_new_flow_on_a_full_link_starves():
    assert late_flow_mbps(Xcp(gamma=0))[-1] < 0.25 * late_flow_mbps(Xcp())[-1]


def test_flows_with_other_round_trips_get_the_same_rate():
    # Reno's share would go with the round trip's inverse.
    near, far = Link(10_000, 0.5, PLENTY), Link(10_000, 20, PLENTY)
    ends = [Cable("h1", "s1", near), Cable("h2", "s1", far), Cable("h3", "s2", near), Cable("h4", "s2", near)]
    cables = (*ends, Cable("s1", "s2", Link(400, 10, PLENTY)))
    traffic = (Flow("h1", "h3", duration_s=30), Flow("h2", "h4", duration_s=30))
    measured = simulate(Experiment(Topology(cables), traffic, 30, measure=Measure(packets=(PORT,)), tcp=XCP))
    got = [rates_mbps(measured, flow, np.array([20.0, 30.0]))[0] for flow in (0, 1)]
    assert sum(got) > 0.95 * 400 and got[0] == pytest.approx(got[1], rel=0.1)


def test_without_feedback_the_first_windows_stand():
    traffic = (Flow("h1", "h3", duration_s=5), Flow("h2", "h4", duration_s=5))
    still = Experiment(shared(2), traffic, 5, tcp=XCP, xcp=Xcp(alpha=0, beta=0, gamma=0))
    assert simulate(still).flows["goodput_mbps"].to_numpy() == pytest.approx(10 * 1448 * 8e-6 / ROUND_TRIP_S, rel=0.05)


def test_a_flow_keeps_to_the_slowest_link_and_what_it_leaves_is_for_others():
    # h1 to h3 passes 200 and 50 Mb/s; h2 to h4 passes the 200 alone, and may have what the other cannot use.
    wide, narrow = Link(200, 10, PLENTY), Link(50, 10, PLENTY)
    ends = [Cable(host, switch, ACCESS) for host, switch in (("h1", "s1"), ("h2", "s1"), ("h4", "s2"), ("h3", "s3"))]
    cables = (*ends, Cable("s1", "s2", wide), Cable("s2", "s3", narrow))
    traffic = (Flow("h1", "h3", duration_s=30), Flow("h2", "h4", duration_s=30))
    measured = simulate(Experiment(Topology(cables), traffic, 30, measure=Measure(packets=(PORT,)), tcp=XCP))
    got = [rates_mbps(measured, flow, np.array([20.0, 30.0]))[0] for flow in (0, 1)]
    # A link gives what another refuses to others only in part: up to gamma of it stays unused (Low et al., 2005).
    assert got[0] == pytest.approx(50, rel=0.1) and got[1] > 0.85 * 150


def test_flows_make_room_for_traffic_that_nobody_controls():
    traffic = (Flow("h1", "h3", duration_s=20), Datagrams("h2", "h4", 40, 20))
    measure = Measure(packets=(PORT,), queues=(PORT,))
    measured = simulate(Experiment(shared(2), traffic, 20, measure=measure, tcp=XCP))
    assert rates_mbps(measured, 0, np.array([10.0, 20.0]))[0] == pytest.approx(60, rel=0.05)
    assert measured.queues.query("time_s > 10")["queue_packets"].mean() < 10


def test_flows_follow_a_link_that_changes_its_rate():
    change = LinkChange(10, "s1", "s2", rate_mbps=20)
    flow, measure = Flow("h1", "h2", duration_s=30), Measure(packets=(PORT,), queues=(PORT,))
    measured = simulate(Experiment(shared(1), (flow,), 30, measure=measure, tcp=XCP, changes=change))
    assert rates_mbps(measured, 0, np.array([8.0, 10.0, 28.0, 30.0]))[[0, 2]] == pytest.approx([100, 20], rel=0.05)
    assert measured.queues.query("time_s > 25")["queue_packets"].mean() < 10  # only what stands shows beta at work


def test_losses_are_repaired():
    lossy = dumbbell(1, ACCESS, Link(100, 10, PLENTY, loss=0.001))
    measured = simulate(Experiment(lossy, (Flow("h1", "h2", 20_000_000),), 60, tcp=XCP))
    assert measured.flows["delivered_bytes"][0] == 20_000_000 and measured.flows["retransmitted_packets"][0] > 5


def test_a_flow_of_less_than_a_window_asks_for_nothing():
    """Else what links give would go to flows that end before they hear of it."""
    # The first flow lets the links know a round trip.
    earlier, measure = Flow("h1", "h2", duration_s=1), Measure(windows_interval_ms=1.0)
    most = []
    for packets in (10, 40):
        traffic = (earlier, Flow("h1", "h2", packets * 1448, start_s=2))
        windows = simulate(Experiment(shared(1), traffic, 4, measure=measure, tcp=XCP)).windows
        most.append(windows[windows["flow"] == 1]["window_bytes"].max() / 1448)
    assert most[0] == 10 and most[1] > 20


def test_several_packets_answered_at_once_bring_all_their_feedback():
    ends = {}
    for delayed_ack_ms in (0.0, 40.0):
        tcp = replace(XCP, delayed_ack_ms=delayed_ack_ms)
        found = simulate(Experiment(shared(1), (Flow("h1", "h2", 5_000_000),), 10, tcp=tcp))
        ends[delayed_ack_ms] = found.flows["completion_ms"][0]
    assert ends[40.0] < 1.3 * ends[0.0]


def test_subflows_with_xcp_are_refused():
    with pytest.raises(NetreproError, match="subflows with xcp"):
        simulate(Experiment(shared(1), (Flow("h1", "h2", 1000, subflows=2),), 1, tcp=XCP))
