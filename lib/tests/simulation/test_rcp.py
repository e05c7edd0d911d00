"""RCP: links that tell flows their rate, against processor sharing and the equation of the paper."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import links_that_answer
import numpy as np
import pytest
from links_that_answer import PAYLOAD, PLENTY, rates_mbps

from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    PoissonFlows,
    Rcp,
    Tcp,
    dumbbell,
    flows_per_s_at_load,
)
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.simulation import simulate

ACCESS = Link(1000, 0.5, PLENTY)
RCP = Tcp("rcp", delayed_ack_ms=0)
shared = partial(links_that_answer.shared, access=ACCESS)


@pytest.mark.parametrize("flows", [1, 2, 8])
def test_long_flows_share_a_link_evenly_and_fill_it_with_hardly_a_queue(flows):
    port = ("s1", "s2")
    starts = [i / 90 for i in range(flows)]
    traffic = tuple(Flow(f"h{i + 1}", f"h{flows + i + 1}", duration_s=20 - s, start_s=s) for i, s in enumerate(starts))
    measure = Measure(queues=(port,), packets=(port,))
    measured = simulate(Experiment(shared(flows, 400), traffic, 20, measure=measure, tcp=RCP))
    got = [rates_mbps(measured, flow, np.array([10.0, 20.0]))[0] for flow in range(flows)]
    assert got == pytest.approx([400 / flows] * flows, rel=0.03)
    assert measured.queues.query("time_s > 10")["queue_packets"].mean() < 5
    assert measured.links["dropped_packets"].sum() == 0 == measured.flows["retransmitted_packets"].sum()


def test_a_new_flow_has_the_rate_of_the_others_within_a_round_trip():
    # Slow start would need log2(50) round trips for as much.
    ports = (("h1", "s1"), ("h2", "s1"))
    traffic = (Flow("h1", "h3", duration_s=30), Flow("h2", "h4", duration_s=15, start_s=15))
    net = dumbbell(2, replace(ACCESS, rate_mbps=4000), Link(100, 20, PLENTY))  # of which a first flow is offered 200
    measured = simulate(Experiment(net, traffic, 30, measure=Measure(packets=ports), tcp=RCP))
    # 42 ms for the SYN and its answer, and as long until the first data are answered.
    first_data_s = measured.packets.query("flow == 1 and size_bytes > 100")["time_s"].min()
    assert first_data_s == pytest.approx(15 + 0.042, abs=0.001)
    before = rates_mbps(measured, 0, np.array([14.0, 15.0]))[0]
    assert rates_mbps(measured, 1, first_data_s + np.array([0.0, 0.04]))[0] == pytest.approx(before, rel=0.05)
    for flow in (0, 1):
        assert rates_mbps(measured, flow, np.array([25.0, 30.0]))[0] == pytest.approx(50, rel=0.05)


def test_a_rate_left_alone_grows_as_the_equation_says():
    # y = R, q = 0: each 10 ms R grows by 0.1 T/d (C - R)/C, which is logistic with a time constant of ten round trips.
    port = ("s1", "s2")
    flow = Flow("h1", "h2", duration_s=4)
    tcp = replace(RCP, receive_window_bytes=2**26)
    experiment = Experiment(shared(1, 100, 48), (flow,), 4, measure=Measure(packets=(port,)), tcp=tcp)
    times_s = np.arange(0.5, 4.01, 0.5)
    rates = rates_mbps(simulate(replace(experiment, clock_skew_ppm=0)), 0, times_s) / 100
    share, expected, heard_s = 0.05, [], 0.1  # the port's updates begin with the first data
    steps: list[float] = []
    for _ in range(500):
        steps.append(share)
        share += share * 0.1 * (10 / 98) * (1 - share)
    for start, end in pairwise(times_s):
        # What passes now was told a round trip ago; updates begin a round trip after the SYN.
        lag_s = 0.098 + heard_s
        expected.append(np.mean(steps[int((start - lag_s) * 100) : int((end - lag_s) * 100)]))
    assert rates == pytest.approx(expected, rel=0.12)


def test_without_feedback_the_first_rate_stands():
    traffic = (Flow("h1", "h3", duration_s=5), Flow("h2", "h4", duration_s=5))
    still = Experiment(shared(2), traffic, 5, tcp=RCP, rcp=Rcp(alpha=0, beta=0, first_share=0.2))
    assert simulate(still).flows["goodput_mbps"].to_numpy() == pytest.approx(20 * PAYLOAD, rel=0.02)


def test_a_flow_keeps_to_the_slowest_link_of_its_path_and_overflows_nothing():
    slow = dumbbell(1, ACCESS, Link(200, 20, DropTail(packets=50)))
    measured = simulate(Experiment(slow, (Flow("h1", "h2", duration_s=60),), 60, tcp=RCP))
    assert measured.flows["goodput_mbps"][0] == pytest.approx(200 * PAYLOAD, rel=0.05)
    assert measured.links["dropped_packets"].sum() == 0


def test_flows_make_room_for_traffic_that_nobody_controls():
    port = ("s1", "s2")
    traffic = (Flow("h1", "h3", duration_s=20), Datagrams("h2", "h4", 40, 20))
    measured = simulate(Experiment(shared(2), traffic, 20, measure=Measure(packets=(port,), queues=(port,)), tcp=RCP))
    assert rates_mbps(measured, 0, np.array([10.0, 20.0]))[0] == pytest.approx(60, rel=0.03)
    assert measured.queues.query("time_s > 10")["queue_packets"].mean() < 5


def test_flows_follow_a_link_that_changes_its_rate():
    port = ("s1", "s2")
    change = LinkChange(10, "s1", "s2", rate_mbps=20)
    flow, measure = Flow("h1", "h2", duration_s=20), Measure(packets=(port,))
    measured = simulate(Experiment(shared(1), (flow,), 20, measure=measure, tcp=RCP, changes=change))
    assert rates_mbps(measured, 0, np.array([8.0, 10.0, 18.0, 20.0]))[[0, 2]] == pytest.approx([100, 20], rel=0.05)


def test_losses_are_repaired_and_do_not_change_the_rate():
    lossy = dumbbell(1, ACCESS, Link(100, 10, PLENTY, loss=0.01))
    measured = simulate(Experiment(lossy, (Flow("h1", "h2", 20_000_000),), 60, tcp=RCP))
    assert measured.flows["delivered_bytes"][0] == 20_000_000 and measured.flows["retransmitted_packets"][0] > 50
    # About 1.6 s at 100 Mb/s, and about ten round trips of 22 ms until the rate is found; Reno would have 7 Mb/s.
    assert measured.flows["goodput_mbps"][0] > 50


def test_flows_complete_nearly_as_with_processor_sharing_where_tcp_takes_much_longer():
    # Dukkipati and McKeown, section 2: 1.5 round trips, and on average L/(C(1 - load)) for a flow of L bytes.
    sizes = FlowSizeDistribution(((5_000, 0.0), (85_000, 1.0)), unit="bytes")
    load, rate_mbps, round_trip_ms = 0.8, 400, 102
    flows_per_s = flows_per_s_at_load(sizes, load * PAYLOAD, rate_mbps)
    net = shared(4, rate_mbps, 50)
    left, right = net.hosts[:4], net.hosts[4:]
    ratio = {}
    for control in ("rcp", "reno"):
        traffic = (PoissonFlows(sizes, flows_per_s, 20_000, left, right),)
        tcp = replace(RCP, congestion_control=control)
        flows = simulate(Experiment(net, traffic, 20_000 / flows_per_s + 20, seed=3, tcp=tcp)).flows.iloc[5000:]
        assert flows["completion_ms"].notna().all()
        sharing_ms = 1.5 * round_trip_ms + flows["size_bytes"] / PAYLOAD * 8e-3 / rate_mbps / (1 - load)
        ratio[control] = (flows["completion_ms"] / sharing_ms).mean()
    assert ratio["rcp"] == pytest.approx(1, abs=0.25) and ratio["reno"] > 1.5 * ratio["rcp"]


def test_subflows_with_rcp_are_refused():
    with pytest.raises(NetreproError, match="lia, olia or balia"):
        simulate(Experiment(shared(1), (Flow("h1", "h2", 1000, subflows=2),), 1, tcp=RCP))
