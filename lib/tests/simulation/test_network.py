"""What links, switches and routes do in the simulator, against what their descriptions promise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from netrepro.networks import (
    ROUTINGS,
    Cable,
    CoDel,
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    PhantomQueue,
    Pie,
    Routing,
    SharedBuffer,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    from_graph,
    k_shortest_paths,
    leaf_spine,
    spanning_tree,
    star,
)
from netrepro.simulation import simulate

PLENTY = DropTail(packets=100_000)
FAST = Link(1000, 0.01, PLENTY)
KILOBYTE = dict(packet_bytes=1000)


def used_ports(measured) -> set[tuple[str, str]]:
    sent = measured.links[measured.links["sent_packets"] > 0]
    return set(zip(sent["source"], sent["destination"], strict=True))


# Routes -----------------------------------------------------------------------------------------------


def test_sprayed_packets_of_one_flow_spread_evenly_over_all_shortest_paths():
    net = leaf_spine(2, 4, 1, FAST, FAST)
    stream = Datagrams("h1", "h2", 100, 1, **KILOBYTE)
    measured = simulate(Experiment(net, (stream,), 2, routing="packet_spraying"))
    first_hop = measured.links.query("source == 's1' and destination != 'h1'")["sent_packets"]
    # Binomial: 12500 packets, standard deviation 48.
    assert first_hop.sum() == 12_500 and (first_hop - 3125).abs().max() < 4 * 49
    assert measured.flows["delivered_bytes"][0] == 12_500_000


def test_a_sprayed_transfer_uses_all_paths_in_both_directions_and_ends():
    measured = simulate(Experiment(fat_tree(4, FAST), (Flow("h1", "h16", 10**6),), 5, routing="packet_spraying"))
    cores = {f"s{i}" for i in (17, 18, 19, 20)}
    assert {source for source, _ in used_ports(measured)} >= cores
    assert measured.flows["completion_ms"].notna().all()


def test_a_flow_with_a_path_takes_it_there_and_back_and_no_other_way():
    net = leaf_spine(2, 3, 1, FAST, FAST)
    for routing in ROUTINGS:
        path = ("h1", "s1", "s4", "s2", "h2")
        measured = simulate(Experiment(net, (Flow("h1", "h2", 10**6, path=path),), 5, routing=routing))
        assert used_ports(measured) == {*pairwise(path), *pairwise(path[::-1])}


def test_a_spanning_tree_leaves_all_other_cables_idle():
    net = fat_tree(4, FAST)
    flows = tuple(Flow(host, net.hosts[i - 8], 100_000) for i, host in enumerate(net.hosts))
    measured = simulate(Experiment(net, flows, 5, routing=Routing("spanning_tree", root="s18")))
    tree = spanning_tree(net, "s18")
    assert all(tree.has_edge(*port) for port in used_ports(measured))
    assert measured.flows["completion_ms"].notna().all()


def test_in_a_tree_every_routing_gives_the_same_run():
    net = dumbbell(3, FAST, Link(50, 2, DropTail(packets=20)))
    flows = tuple(Flow(f"h{i}", f"h{i + 3}", 500_000) for i in (1, 2, 3))
    runs = {simulate(Experiment(net, flows, 5, routing=routing)).flows.to_csv() for routing in ROUTINGS}
    assert len(runs) == 1


def test_each_flow_takes_one_of_the_k_shortest_paths_and_all_of_them_are_taken():
    # A ring of five: one path of two cables, one of three.
    net = from_graph(nx.cycle_graph(5), FAST)
    streams = tuple(Datagrams("h1", "h3", 1, 0.02, start_s=i / 100, **KILOBYTE) for i in range(400))
    port = ("s1", "s2"), ("s1", "s5")
    for k, share in ((1, 1.0), (2, 0.5), (8, 0.5)):
        routing = Routing("k_shortest_paths", paths=k)
        packets = simulate(Experiment(net, streams, 10, measure=Measure(packets=port), routing=routing)).packets
        assert packets["flow"].nunique() == 400 and (packets.groupby("flow")["destination"].nunique() == 1).all()
        short = packets.query("destination == 's2'")["flow"].nunique() / 400
        assert short == pytest.approx(share, abs=4 * 0.025 if share < 1 else 0)


def test_k_shortest_paths_are_those_that_the_function_gives():
    net = from_graph(nx.petersen_graph(), FAST)
    flows = tuple(Flow("h1", "h7", 1000, start_s=i / 100) for i in range(200))
    measured = simulate(Experiment(net, flows, 5, routing=Routing("k_shortest_paths", paths=3)))
    paths = [*k_shortest_paths(net, "h1", "h7", 3), *k_shortest_paths(net, "h7", "h1", 3)]
    assert used_ports(measured) == {port for path in paths for port in pairwise(path)}


# Changes ----------------------------------------------------------------------------------------------


def straight(link: Link) -> Topology:
    return Topology((Cable("h1", "s1", FAST), Cable("s1", "h2", link)))


@pytest.mark.parametrize("queue", [PLENTY, CoDel(packets=100_000, target_ms=1e5)])
def test_what_waits_when_the_rate_changes_leaves_at_the_new_rate(queue):
    # 20 Mb/s into 10 Mb/s: 1250 packets wait after a second, and take 80 us each at 100 Mb/s.
    stream = Datagrams("h1", "h2", 20, 1, **KILOBYTE)
    change = LinkChange(1, "s1", "h2", rate_mbps=100)
    port = ("s1", "h2")
    experiment = Experiment(
        straight(Link(10, 0, queue)), (stream,), 2, measure=Measure(packets=(port,)), changes=change
    )
    measured = simulate(replace(experiment, clock_skew_ppm=0))
    packets = measured.packets
    gaps_ms = np.diff(packets["time_s"]) * 1e3
    assert len(packets) == 2500
    assert gaps_ms[packets["time_s"][1:] < 1] == pytest.approx(0.8) and gaps_ms[-1200:] == pytest.approx(0.08)
    # The one being sent at that moment finishes at the old rate.
    assert packets["time_s"].iloc[-1] == pytest.approx(1.1, abs=1e-3)
    # FIFO: the n-th to come, 0.4 ms apart, is the n-th to leave.
    at_old_rate = np.arange(2500) <= (packets["time_s"] < 1).sum()
    left_s = packets["time_s"] - np.where(at_old_rate, 0.8e-3, 0.08e-3)
    came_s = np.arange(2500) * 0.4e-3 + 0.018e-3
    assert packets["wait_ms"].to_numpy() == pytest.approx((left_s - came_s).to_numpy() * 1e3, abs=1e-6)
    busy = measured.links.query("source == 's1' and destination == 'h2'")["utilisation"].item()
    assert busy * 2 == pytest.approx(packets["time_s"].iloc[-1], abs=1e-4)


def test_a_rate_may_change_in_one_direction_only_and_for_another_one_again():
    changes = (
        LinkChange(1, "s1", "h2", rate_mbps=5, both_directions=False),
        LinkChange(2, "s1", "h2", rate_mbps=10, both_directions=False),
    )
    streams = (Datagrams("h1", "h2", 20, 3, **KILOBYTE), Datagrams("h2", "h1", 20, 3, **KILOBYTE))
    net = straight(replace(FAST, rate_mbps=10, queue=DropTail(packets=10)))
    bytes_there, bytes_back = simulate(Experiment(net, streams, 3, changes=changes)).flows["delivered_bytes"]
    assert bytes_there * 8 / 1e6 == pytest.approx(25, rel=0.005)
    assert bytes_back * 8 / 1e6 == pytest.approx(30, rel=0.005)


def test_a_broken_cable_drops_what_comes_and_loses_what_is_under_way():
    # 1000 packets a second, 10 ms on the wire; broken from 0.5 to 0.8 s.
    stream = Datagrams("h1", "h2", 8, 1, **KILOBYTE)
    changes = (LinkChange(0.5, "s1", "h2", up=False), LinkChange(0.8, "s1", "h2", up=True))
    measured = simulate(Experiment(straight(Link(100, 10, PLENTY)), (stream,), 2, changes=changes))
    link = measured.links.query("source == 's1' and destination == 'h2'").iloc[0]
    assert link["dropped_packets"] == pytest.approx(300, abs=1) and link["lost_packets"] == pytest.approx(10, abs=1)
    assert link["sent_packets"] == 1000 - link["dropped_packets"]
    assert measured.flows["delivered_bytes"][0] == 1000 * (link["sent_packets"] - link["lost_packets"])


def test_a_queue_is_gone_when_its_cable_breaks():
    stream = Datagrams("h1", "h2", 20, 0.5, **KILOBYTE)
    changes = (LinkChange(0.6, "s1", "h2", up=False), LinkChange(0.7, "s1", "h2", up=True))
    for queue in (PLENTY, CoDel(packets=100_000, target_ms=1e5)):
        port = ("s1", "h2")
        measure = Measure(queues=(port,), packets=(port,))
        measured = simulate(Experiment(straight(Link(10, 0, queue)), (stream,), 2, measure=measure, changes=changes))
        assert len(measured.packets) == 750 and measured.packets["time_s"].max() <= 0.6 + 1e-6
        assert measured.queues.query("time_s > 0.6")["queue_packets"].max() == 0
        assert measured.links.query("destination == 'h2'")["dropped_packets"].item() == 500


@pytest.mark.parametrize("routing", ["ecmp", "spanning_tree", "k_shortest_paths"])
def test_routes_lead_round_a_broken_cable_after_the_rerouting_time_and_back_later(routing):
    net = leaf_spine(2, 2, 1, FAST, FAST)
    stream = Datagrams("h1", "h2", 8, 3, **KILOBYTE)
    ports = (("s1", "s3"), ("s1", "s4"))
    plain = Experiment(net, (stream,), 4, measure=Measure(packets=ports), routing=Routing(routing, rerouting_ms=200))
    (spine,) = simulate(plain).packets["destination"].unique()
    broken = (LinkChange(1, "s1", spine, up=False), LinkChange(2, "s1", spine, up=True))
    measured = simulate(replace(plain, changes=broken))
    # Lost: what comes in 200 ms, and a packet or so on the wire. Nothing else, the cable being up before it is used.
    assert measured.flows["delivered_bytes"][0] / 1000 == pytest.approx(3000 - 200, abs=2)
    ways = measured.packets.assign(usual=measured.packets["destination"] == spine)
    assert ways.query("time_s < 1 or time_s > 2.2")["usual"].all()
    assert not ways.query("time_s > 1.2 and time_s < 2.2")["usual"].any()


def test_sprayed_packets_avoid_a_broken_cable():
    net = leaf_spine(2, 2, 1, FAST, FAST)
    stream = Datagrams("h1", "h2", 8, 2, **KILOBYTE)
    change = LinkChange(1, "s1", "s3", up=False)
    routing = Routing("packet_spraying", rerouting_ms=0)
    measured = simulate(Experiment(net, (stream,), 3, routing=routing, changes=change))
    assert measured.flows["delivered_bytes"][0] / 1000 == pytest.approx(2000, abs=2)
    shares = measured.links.query("source == 's1' and destination != 'h1'").set_index("destination")["sent_packets"]
    assert shares["s3"] == pytest.approx(500, abs=70) and shares["s4"] == pytest.approx(1500, abs=70)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_transfer_whose_only_way_breaks_goes_on_when_it_is_mended(routing):
    changes = (LinkChange(0.1, "s1", "h2", up=False), LinkChange(1.5, "s1", "h2", up=True))
    flows = (Flow("h1", "h2", 5 * 10**6), Flow("h1", "h2", 1000, start_s=0.5))
    measured = simulate(Experiment(straight(Link(50, 1, PLENTY)), flows, 10, routing=routing, changes=changes))
    assert measured.trusted and (measured.flows["delivered_bytes"] == [5 * 10**6, 1000]).all()
    ended_s = measured.flows["start_s"] + measured.flows["completion_ms"] / 1e3
    assert (ended_s > 1.5).all() and measured.flows["connection_attempts"][1] > 1


def test_a_host_whose_own_cable_breaks_sends_on_when_it_is_mended():
    for queue in (PLENTY, CoDel(packets=1000)):
        net = Topology((Cable("h1", "s1", Link(50, 1, queue)), Cable("s1", "h2", FAST)))
        changes = (LinkChange(0.1, "h1", "s1", up=False), LinkChange(1.5, "h1", "s1", up=True))
        flows = (Flow("h1", "h2", 5 * 10**6), Flow("h1", "h2", 5 * 10**6))
        measured = simulate(Experiment(net, flows, 10, changes=changes))
        assert measured.trusted and (measured.flows["delivered_bytes"] == 5 * 10**6).all()


# Reordering -------------------------------------------------------------------------------------------


def test_the_share_of_packets_that_is_held_back_comes_later_by_the_time_given_and_is_overtaken():
    stream = Datagrams("h1", "h2", 8, 20, **KILOBYTE)  # one a millisecond
    wire = Link(100, 1, PLENTY, reordering=0.2, reordering_ms=2.5)
    net = Topology((Cable("h1", "s1", wire), Cable("s1", "h2", FAST)))
    packets = simulate(
        Experiment(net, (stream,), 30, measure=Measure(packets=(("s1", "h2"),)), clock_skew_ppm=0)
    ).packets
    phase_ms = (packets["time_s"] * 1e3) % 1
    # 0.08 ms at 100 Mb/s, 1 ms, 0.008 ms at 1 Gb/s; those held back are half a millisecond off the others' grid.
    in_time, held = np.isclose(phase_ms, 0.088), np.isclose(phase_ms, 0.588)
    assert len(packets) == 20_000 and (in_time | held).all()
    assert held.mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / 20_000))
    assert simulate(Experiment(net, (stream,), 30)).flows["delivered_bytes"][0] == 20_000_000


def test_a_transfer_survives_reordering_and_needs_fewer_repairs_without():
    repaired = []
    for reordering in (0.0, 0.1):
        wire = Link(100, 5, PLENTY, reordering=reordering, reordering_ms=10)
        measured = simulate(Experiment(straight(wire), (Flow("h1", "h2", 10**6),), 20))
        assert measured.flows["delivered_bytes"][0] == 10**6
        repaired.append(measured.flows["retransmitted_packets"][0])
    assert repaired[0] == 0 < repaired[1]


@pytest.mark.parametrize(("round_trip_ms", "held_back_ms"), [(40, 8), (40, 15), (0.4, 0.3)])
def test_a_sender_that_has_seen_reordering_gives_late_packets_time(round_trip_ms, held_back_ms):
    # RFC 8985, section 6.2: a quarter of the round trip, and another one for each round trip in which something arrived
    # twice. Whoever counted three packets beyond a missing one as its loss would send nearly all of them again.
    rate_mbps = 4000 / round_trip_ms
    wire = Link(min(rate_mbps, 1000), round_trip_ms / 2, PLENTY, reordering=0.02, reordering_ms=held_back_ms)
    found = simulate(Experiment(straight(wire), (Flow("h1", "h2", 10**7),), 60))
    held_back = 0.02 * 10**7 / 1448
    assert found.flows["delivered_bytes"][0] == 10**7
    assert found.flows["retransmitted_packets"][0] < 0.1 * held_back


def completion_ms(wire: Link, control: str) -> float:
    flow = Flow("h1", "h2", 10**7, congestion_control=control)
    tcp = Tcp(hystart=False)  # which may take what is held back for a queue, and leave slow start
    return simulate(Experiment(straight(wire), (flow,), 60, tcp=tcp)).flows["completion_ms"][0]


@pytest.mark.parametrize("control", ["reno", "cubic", "bbr"])
def test_a_window_that_was_reduced_for_reordering_comes_back(control):
    # RFC 3522 and 4015: the first one held back looks like a loss in slow start, until the original's time stamp tells.
    # Without the undo 10 MB take more than five times as long as over the path that keeps the order.
    wire = Link(100, 20, PLENTY, reordering=0.02, reordering_ms=8)
    assert completion_ms(wire, control) < 1.25 * completion_ms(replace(wire, reordering=0), control)


@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_a_segment_that_arrived_twice_tells_that_its_loss_was_none(control):
    # RFC 3708: over a round trip of 0.4 ms time stamps of whole milliseconds cannot tell copy and original apart.
    # Without the undo 10 MB take four times as long as over the path that keeps the order.
    wire = Link(1000, 0.2, PLENTY, reordering=0.02, reordering_ms=0.3)
    assert completion_ms(wire, control) < 2 * completion_ms(replace(wire, reordering=0), control)


def test_a_loss_is_not_undone():
    # Nothing is held back: every repair was needed, and the window stays as reduced as it was.
    wire = Link(100, 20, PLENTY, loss=0.002)
    found = simulate(Experiment(straight(wire), (Flow("h1", "h2", duration_s=20),), 20))
    # Mathis et al. (1997): sqrt(3/2 / p) segments a round trip; CUBIC's Reno-friendly part keeps near it.
    assert found.flows["goodput_mbps"][0] < 2 * math.sqrt(1.5 / 0.002) * 1448 * 8 / 40e3


# Queues -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "ports"), [(1.0, 1), (1.0, 2), (0.5, 3), (4.0, 2)])
def test_ports_that_share_a_buffer_hold_what_dynamic_thresholds_grant(alpha, ports):
    # Choudhury and Hahne: n overloaded ports settle at alpha B / (1 + n alpha) each.
    size = 400_000
    queue = SharedBuffer(size, alpha)
    hosts = tuple(Cable(f"h{i + 1}", "s1", FAST, Link(10, 0, queue)) for i in range(2 * ports))
    streams = tuple(Datagrams(f"h{i + 1}", f"h{ports + i + 1}", 50, 2, **KILOBYTE) for i in range(ports))
    measure = Measure(queues=tuple(("s1", f"h{ports + i + 1}") for i in range(ports)))
    waiting = simulate(Experiment(Topology(hosts), streams, 2, measure=measure)).queues.query("time_s > 1")
    expected = alpha * size / (1 + ports * alpha)
    assert waiting.groupby("destination")["queue_bytes"].mean().to_numpy() == pytest.approx(expected, rel=0.02)


def test_a_port_of_a_shared_buffer_may_hold_more_than_its_part_and_marks_from_its_own_threshold():
    queue = SharedBuffer(4_000_000, alpha=8, mark_packets=20)
    net = star(3, Link(100, 0.1, queue))
    flows = (Flow("h1", "h3", duration_s=1, congestion_control="dctcp"), Flow("h2", "h3", duration_s=1))
    for control, high in (("dctcp", 60), ("reno", 300)):
        these = tuple(replace(flow, congestion_control=control) for flow in flows)
        port = ("s1", "h3")
        measured = simulate(Experiment(net, these, 1, measure=Measure(queues=(port,))))
        largest = measured.queues["queue_packets"].max()
        assert largest < high if control == "dctcp" else largest > high


def test_pie_holds_the_delay_of_long_flows_near_its_target_and_the_link_busy():
    # RFC 8033, section 1: 15 ms, where drop-tail of the same memory lets half a second stand.
    delay_ms = {}
    for queue in (Pie(1000), DropTail(packets=1000)):
        net = dumbbell(8, FAST, Link(25, 20, queue))
        flows = tuple(Flow(f"h{i}", f"h{i + 8}", duration_s=40 - i / 10, start_s=i / 10) for i in range(1, 9))
        port = ("s1", "s2")
        measured = simulate(Experiment(net, flows, 40, measure=Measure((port,)), tcp=Tcp("reno")))
        waiting = measured.queues.query("time_s > 10")
        delay_ms[type(queue)] = waiting["queue_bytes"].mean() * 8 / 25e3
        assert measured.links.query("source == 's1' and destination == 's2'")["utilisation"].item() > 0.9
    assert delay_ms[Pie] == pytest.approx(15, rel=0.25) and delay_ms[DropTail] > 200


def test_a_phantom_queue_keeps_the_real_one_empty_for_a_share_of_the_rate():
    # HULL, section 6: DCTCP behind a phantom that drains at 0.9 of the rate sends no more than that, and waits for
    # nothing. It sends less, for its windows, some three packets, halve by whole packets.
    results = {}
    for queue in (PhantomQueue(500, 0.9, 6000), EcnThreshold(500, 20)):
        net = star(3, Link(1000, 0.02, queue))
        flows = (Flow("h1", "h3", duration_s=2), Flow("h2", "h3", duration_s=2))
        port = ("s1", "h3")
        measure = Measure((port,), queue_interval_ms=1)
        measured = simulate(Experiment(net, flows, 2, measure=measure, tcp=Tcp("dctcp", delayed_ack_ms=1)))
        link = measured.links.query("source == 's1' and destination == 'h3'").iloc[0]
        results[type(queue)] = link["utilisation"], measured.queues.query("time_s > 0.2")["queue_packets"].mean()
        assert link["dropped_packets"] == 0
    assert 0.75 < results[PhantomQueue][0] < 0.91 and results[EcnThreshold][0] > 0.97
    assert results[PhantomQueue][1] < 3 < 10 < results[EcnThreshold][1]


# Repetition -------------------------------------------------------------------------------------------


def tangled(routing: str) -> Experiment:
    pooled = replace(FAST, queue=SharedBuffer(100_000), reordering=0.01, reordering_ms=0.1)
    phantom = Link(200, 0.05, PhantomQueue(50, 0.9, 3000))
    net = leaf_spine(3, 3, 2, pooled, phantom)
    flows = tuple(Flow(f"h{1 + i % 6}", f"h{1 + (i + 3) % 6}", 200_000, start_s=i / 500) for i in range(40))
    changes = (
        LinkChange(0.03, "s1", "s4", up=False),
        LinkChange(0.05, "s2", "s5", rate_mbps=50),
        LinkChange(0.08, "s1", "s4", up=True),
    )
    return Experiment(net, flows, 0.5, 5, Measure(), Tcp("dctcp"), Routing(routing, 3, rerouting_ms=10), changes)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_looking_closer_changes_nothing_and_the_same_seed_gives_the_same_bytes_on_every_route(routing):
    experiment = tangled(routing)
    plain = simulate(experiment)
    ports = tuple(experiment.topology.ports)
    probed = simulate(replace(experiment, measure=Measure(ports, 0.1, 0.1, ports)))
    assert plain.flows.to_csv() == probed.flows.to_csv() and plain.links.to_csv() == probed.links.to_csv()
    assert plain.links["dropped_packets"].sum() > 0 and plain.links["marked_packets"].sum() > 0
    assert simulate(replace(experiment, seed=6)).links.to_csv() != plain.links.to_csv()
