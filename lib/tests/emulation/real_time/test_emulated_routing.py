"""Routes of emulated networks other than ECMP, paths with addresses of their own, and links that change."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from emulation_traffic import emulation, rootless, send, serve

from netrepro.emulation import emulate
from netrepro.emulation.real_time.changes import MOST_LATE_MS
from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Routing,
    dumbbell,
    fat_tree,
    jellyfish,
    star,
)
from netrepro.networks.routing import k_shortest_paths, spanning_tree
from netrepro.simulation import simulate

pytestmark = rootless
FAST = Link(100, 0)
# One way through each of the tree's four cores.
WAYS = k_shortest_paths(fat_tree(4, FAST), "h1", "h16", 4)


def run(experiment: Experiment, **options):
    return emulate(experiment, "rootless", **options)


def sent_bytes(measured):
    return measured.links_by_port["sent_bytes"]


# Routes ---------------------------------------------------------------------------------------------


def test_a_spanning_tree_carries_everything_and_other_cables_nothing():
    net = fat_tree(4, FAST)
    flows = tuple(Flow(f"h{i}", f"h{(i + 4) % 16 + 1}", size_bytes=40_000) for i in range(1, 17))
    asked = Experiment(net, flows, 1.5, routing=Routing("spanning_tree", root="s18"))
    measured = run(asked)
    assert (measured.flows["delivered_bytes"] == 40_000).all()
    tree = spanning_tree(net, "s18")
    used = sent_bytes(measured)
    assert (used[[port for port in net.ports if not tree.has_edge(*port)]] == 0).all()
    simulated = sent_bytes(simulate(asked))
    assert (used > 10_000).equals(simulated > 10_000)


@pytest.mark.parametrize("way", WAYS)
def test_a_flow_takes_the_path_that_it_is_given_there_and_back(way):
    net = fat_tree(4, FAST)
    flow = Flow("h1", "h16", size_bytes=100_000, path=way)
    measured = run(Experiment(net, (flow,), 0.6))
    assert measured.flows["delivered_bytes"][0] == 100_000
    used = sent_bytes(measured)
    expected = {*pairwise(way), *pairwise(way[::-1])}
    assert {port for port in net.ports if used[port] > 0} == expected


def test_flows_by_k_shortest_paths_use_those_and_more_of_them_than_shortest_ones():
    net = jellyfish(12, 6, 4, FAST, seed=2)
    source, destination = net.hosts[0], net.hosts[-1]
    flows = tuple(Flow(source, destination, size_bytes=30_000, start_s=0.02 * i) for i in range(24))
    asked = Experiment(net, flows, 1.5, routing=Routing("k_shortest_paths", paths=4))
    measured = run(asked)
    assert (measured.flows["delivered_bytes"] == 30_000).all()
    allowed = {
        port for ends in ((source, destination), (destination, source))
        for path in k_shortest_paths(net, *ends, 4) for port in pairwise(path)
    }  # fmt: skip
    used = sent_bytes(measured)
    assert {port for port in net.ports if used[port] > 0} <= allowed
    ways = {path[1:-1] for path in k_shortest_paths(net, source, destination, 4)}
    firsts = {(path[0], path[1]) for path in ways}
    assert len(firsts) > 1 and all(used[port] > 20_000 for port in firsts)
    assert run(asked).links["sent_bytes"].gt(10_000).equals(measured.links["sent_bytes"].gt(10_000))


def test_any_program_may_use_a_path_by_its_address():
    net = fat_tree(4, FAST)
    with emulation(net, paths=(WAYS[2],)) as built:
        with built.record() as seen:
            receiver = built["h16"].start(serve)
            built["h1"].python(send, built.path_address(WAYS[2]), 50_000)
            receiver.result(timeout=30)
        used = seen.links().set_index(["source", "destination"])["sent_bytes"]
        assert all(used[port] >= 50_000 for port in pairwise(WAYS[2]))
        with pytest.raises(NetreproError, match="no address for the path"):
            built.path_address(WAYS[0])


# Changes --------------------------------------------------------------------------------------------


def rates_mbps(measured, edges_s) -> np.ndarray:
    packets = measured.packets
    carried, _ = np.histogram(packets["time_s"], edges_s, weights=packets["size_bytes"])
    return carried * 8e-6 / np.diff(edges_s)


@pytest.mark.parametrize("queue", [DropTail(packets=30), DropTail(bytes=45_000)])
def test_a_link_carries_its_new_rate_from_the_change_on(queue):
    net = dumbbell(1, FAST, Link(10, 0, queue))
    asked = Experiment(
        net,
        (Flow("h1", "h2", duration_s=2.4),),
        2.4,
        measure=Measure(packets=(("s1", "s2"),), queues=(("s1", "s2"),)),
        changes=(LinkChange(0.8, "s1", "s2", rate_mbps=40), LinkChange(1.6, "s1", "s2", rate_mbps=5)),
    )
    measured = run(asked)
    found = rates_mbps(measured, [0.2, 0.8, 0.9, 1.6, 1.7, 2.4])[::2]
    assert found == pytest.approx([10, 40, 5], rel=0.25)
    late = measured.fidelity.set_index("check").loc["lateness of changes of links in ms"]
    assert late.at_most == MOST_LATE_MS and late.holds == (late.value <= MOST_LATE_MS)
    checks = measured.fidelity.set_index("check")["value"]
    assert checks["s1 to s2: share of the rate achieved while busy"] == pytest.approx(1, abs=0.1)
    assert checks["s1 to s2: deviation of gaps, p50"] < 0.1
    # The buffer is the one that was asked for, before and after.
    most = measured.queues["queue_bytes"].max()
    assert most <= (45_000 if queue.bytes else 30 * 1514) and measured.queues["queue_packets"].max() <= 31


def test_nothing_passes_a_link_that_is_down_and_the_flow_goes_on_when_it_is_mended():
    net = dumbbell(1, FAST, Link(20, 0, DropTail(packets=50)))
    changes = (LinkChange(0.5, "s1", "s2", up=False), LinkChange(1.0, "s1", "s2", up=True))
    asked = Experiment(
        net, (Flow("h1", "h2", duration_s=3.0),), 3.0, measure=Measure(packets=(("s1", "s2"),)), changes=changes
    )
    measured = run(asked)
    during = measured.packets["time_s"].between(0.5 + MOST_LATE_MS / 1e3, 1.0)
    before, after = measured.packets["time_s"] < 0.5, measured.packets["time_s"] > 1.0
    assert during.sum() == 0 and before.sum() > 300 and after.sum() > 300
    links = measured.links_by_port
    assert links.loc[("s1", "s2"), "dropped_packets"] > 10  # what waited, and what came
    simulated = simulate(asked)
    ratio = measured.flows["delivered_bytes"][0] / simulated.flows["delivered_bytes"][0]
    assert 0.6 < ratio < 1.5


def test_a_hosts_own_link_changes_its_rate_breaks_and_is_mended():
    changes = (
        LinkChange(0.6, "h1", "s1", rate_mbps=5, both_directions=False),
        LinkChange(1.2, "h1", "s1", up=False),
        LinkChange(1.6, "h1", "s1", up=True),
    )
    asked = Experiment(
        star(2, Link(20, 0)),
        (Datagrams("h1", "h2", 30.0, 2.4),),
        2.4,
        measure=Measure(packets=(("s1", "h2"),)),
        changes=changes,
    )
    edges_s = [0.1, 0.6, 0.7, 1.2, 1.2 + MOST_LATE_MS / 1e3, 1.6, 1.7, 2.4]
    found = rates_mbps(run(asked), edges_s)[::2]
    assert found == pytest.approx([20, 5, 0, 5], rel=0.25)


def test_routes_leave_a_broken_cable_for_another_way():
    net = fat_tree(4, FAST)
    flow = Flow("h1", "h16", duration_s=2.5)
    first = run(Experiment(net, (Flow("h1", "h16", size_bytes=50_000),), 0.5))
    used = sent_bytes(first)
    aggregate, core = next(port for port in net.ports if port[1] in net.switches and used[port] > 40_000
                           and port[0] in WAYS[0][2] + WAYS[2][2] and port[1] not in WAYS[0][1])  # fmt: skip
    broken = LinkChange(0.5, aggregate, core, up=False)
    measured, stays = (
        run(Experiment(net, (flow,), 2.5, changes=(broken,), routing=Routing(rerouting_ms=waits_ms)))
        for waits_ms in (50, 60_000)
    )
    assert measured.flows["delivered_bytes"][0] > 3 * stays.flows["delivered_bytes"][0]


def test_what_cannot_change_while_it_runs_is_refused():
    faster = LinkChange(0.5, "h1", "s1", rate_mbps=50_000)
    with pytest.raises(NetreproError, match="50000 Mb/s"):
        run(Experiment(star(2, FAST), (), 1.0, changes=(faster,)))
