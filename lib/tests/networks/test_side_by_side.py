"""Experiments side by side: each part measures what it measures alone, and what would not is refused.

Clocks agree, nothing is lost or delayed at random and there are no equal paths to choose from: then the simulator draws
nothing, and parts are equal to the last bit. Nothing begins or changes at an instant at which windows or queues are
sampled: which of two things comes first at one instant depends on when the simulator was told of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    PoissonFlows,
    Rcp,
    Requests,
    Routing,
    SharedBuffer,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    leaf_spine,
    shortest_paths,
    star,
)
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.networks.side_by_side import apart, side_by_side
from netrepro.simulation import simulate

WEB_SEARCH = load_flow_sizes("web_search")
TABLES = ("flows", "queues", "links", "windows", "packets", "requests")
EVERY = Measure(queue_interval_ms=1, windows_interval_ms=5)
MARKING = Link(100, 0.2, EcnThreshold(100, 20))
PLAIN = Link(50, 0.5, DropTail(packets=30))

INCAST = Experiment(
    star(4, MARKING),
    (
        Flow("h1", "h4", duration_s=0.4, label="long"),
        Flow("h2", "h4", size_bytes=400_000, start_s=0.1007),
        Requests("h3", ("h4", "h1", "h2"), 100, 20_000, 5, think_ms=3, start_s=0.0503, label="striped"),
    ),
    0.5,
    seed=7,
    measure=replace(EVERY, queues=(("s1", "h4"), ("h1", "s1")), packets=(("s1", "h4"),)),
    tcp=Tcp("dctcp"),
)
TREE = fat_tree(4, PLAIN)
CHOSEN, OTHER = (shortest_paths(TREE, "h1", "h16")[place] for place in (2, 0))
BETWEEN_PODS = Experiment(
    TREE,
    (
        Flow("h1", "h16", duration_s=0.45, path=CHOSEN),
        Datagrams("h3", "h4", 20, 0.3, start_s=0.1007),
        Flow("h1", "h16", size_bytes=900_000, subflows=2, subflow_paths=(CHOSEN, OTHER), congestion_control="lia"),
        Flow("h4", "h3", size_bytes=500_000, congestion_control="cubic"),
    ),
    0.5,
    measure=replace(EVERY, queues=((CHOSEN[2], CHOSEN[3]),), packets=(("s2", "h4"), (CHOSEN[-2], "h16"))),
    tcp=Tcp("reno"),
    changes=(LinkChange(0.2003, CHOSEN[2], CHOSEN[3], rate_mbps=10), LinkChange(0.3003, "s2", "h4", up=False)),
)
# Numbers with gaps, cables in any order: the order of numbers is that of names, not of cables.
GAPS = Topology((Cable("s9", "h12", PLAIN), Cable("h3", "s4", PLAIN), Cable("s4", "s9", PLAIN)), "gaps")
BREAKING = Experiment(
    GAPS,
    (Flow("h12", "h3", duration_s=0.5), Datagrams("h3", "h12", 5, 0.5)),
    0.5,
    measure=replace(EVERY, queues=(("s9", "s4"),), packets=(("h12", "s9"),)),
    changes=(LinkChange(0.1003, "s9", "s4", up=False), LinkChange(0.1503, "s9", "s4", up=True)),
)
PARTS = (INCAST, BETWEEN_PODS, BREAKING)


def run(experiment: Experiment) -> Measurements:
    return simulate(experiment, clock_skew_ppm=0)


def assert_equal_parts(together: list[Measurements], alone: list[Measurements]) -> None:
    for part, own in zip(together, alone, strict=True):
        assert part.experiment == own.experiment
        for name in TABLES:
            found, expected = getattr(part, name), getattr(own, name)
            # A table without rows has no types of its own.
            types = {"check_dtype": len(expected) > 0, "check_index_type": len(expected) > 0}
            pd.testing.assert_frame_equal(found, expected, check_exact=True, obj=name, **types)


@pytest.fixture(scope="module")
def alone() -> list[Measurements]:
    return [run(part) for part in PARTS]


def test_the_parts_here_do_what_they_are_here_for(alone):
    incast, between_pods, breaking = alone
    assert incast.links["marked_packets"].sum() > 0 and incast.requests["answered_s"].notna().sum() == 15
    assert set(between_pods.flows["congestion_control"]) == {"reno", "lia", "cubic", ""}
    assert between_pods.links["dropped_packets"].sum() > 0 and breaking.flows["timeouts"][0] > 0
    for measured in alone:
        assert min(map(len, (measured.flows, measured.queues, measured.windows, measured.packets))) > 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0), (0, 0, 2)])
def test_parts_measure_side_by_side_what_they_measure_alone(order, alone):
    experiments = [PARTS[place] for place in order]
    found = run(side_by_side(experiments))
    together = apart(found, experiments)
    assert_equal_parts(together, [alone[place] for place in order])
    assert all(part.fidelity.equals(found.fidelity) and part.tier == "simulated" for part in together)


@pytest.mark.parametrize("place", range(len(PARTS)))
def test_one_experiment_side_by_side_is_that_experiment(place, alone):
    assert_equal_parts(apart(run(side_by_side([PARTS[place]])), [PARTS[place]]), [alone[place]])


def test_without_gaps_one_experiment_keeps_network_changes_and_ports():
    joint = side_by_side([BETWEEN_PODS])
    assert joint.topology.cables == TREE.cables and joint.changes == BETWEEN_PODS.changes
    assert joint.measure == BETWEEN_PODS.measure and joint.seed == BETWEEN_PODS.seed
    assert joint.traffic[0] == replace(BETWEEN_PODS.traffic[0], congestion_control="reno")


def test_nodes_and_flows_of_later_parts_follow_those_of_earlier_ones():
    joint = side_by_side(PARTS)
    assert joint.topology.hosts == tuple(f"h{i}" for i in range(1, 4 + 16 + 2 + 1))
    assert joint.topology.switches == tuple(f"s{i}" for i in range(1, 1 + 20 + 2 + 1))
    table = joint.flow_table
    assert table["source"].tolist() == ["h1", "h2", "h4", "h1", "h2", "h5", "h7", "h5", "h8", "h22", "h21"]
    assert table["path"][5] == ("h5", *(f"s{int(switch[1:]) + 1}" for switch in CHOSEN[1:-1]), "h20")
    assert joint.traffic[5].subflow_paths[0] == table["path"][5]
    # s4 and s9 of the last part, which differ in place from cables.
    assert joint.measure.queues[-1] == ("s23", "s22") and joint.changes[-1] == LinkChange(0.1503, "s23", "s22", up=True)
    assert joint.seed == 7


def test_every_flow_has_the_congestion_control_of_its_part():
    controls = side_by_side(PARTS).flow_table["congestion_control"].tolist()
    assert controls == ["dctcp"] * 5 + ["reno", "", "lia", "cubic"] + ["cubic", ""]
    named = replace(INCAST, traffic=(replace(INCAST.traffic[2], congestion_control="bbr"),))
    assert set(side_by_side([BETWEEN_PODS, named]).flow_table["congestion_control"][4:]) == {"bbr"}


def test_the_first_switches_are_joined_by_cables_that_nothing_takes():
    joint = side_by_side(PARTS)
    joining = joint.topology.cables[-2:]
    assert [(cable.first, cable.second) for cable in joining] == [("s1", "s2"), ("s2", "s22")]
    assert {cable.forward for cable in joining} == {Link(50, 0.5)} and joining[0].backward == joining[0].forward
    links = run(joint).links.set_index(["source", "destination"])
    idle = links.loc[[("s1", "s2"), ("s2", "s1"), ("s2", "s22"), ("s22", "s2")], ["sent_bytes", "dropped_packets"]]
    assert (idle == 0).all(axis=None)
    assert sum(len(part.links) for part in apart(run(joint), PARTS)) == len(links) - 4


@pytest.mark.parametrize("scheme", ["ecmp", "packet_spraying"])
def test_routes_among_equals_stay_within_their_part(scheme):
    net = leaf_spine(3, 3, 2, PLAIN, PLAIN)
    part = Experiment(
        net,
        tuple(Flow(source, "h6", size_bytes=50_000) for source in net.hosts[:-1]),
        1,
        routing=scheme,
        changes=(LinkChange(0.01, "s1", "s4", up=False),),
    )
    joint = run(side_by_side([part] * 3))
    assert not joint.links.query("source == 's7' and destination == 's1'")["sent_packets"].any()
    for found in apart(joint, [part] * 3):
        assert (found.flows["delivered_bytes"] == 50_000).all() and len(found.flows) == 5


def test_a_shared_buffer_is_its_part_s_alone():
    part = replace(INCAST, topology=star(4, replace(MARKING, queue=SharedBuffer(60_000))), tcp=Tcp("reno"))
    other = replace(part, topology=star(4, replace(MARKING, queue=SharedBuffer(40_000))))
    parts = [part, other]
    assert_equal_parts(apart(run(side_by_side(parts)), parts), [run(each) for each in parts])


def test_packets_of_unknown_flows_and_columns_of_a_tier_s_own_are_kept():
    found = run(side_by_side(PARTS))
    packets = found.packets.copy()
    packets.loc[::2, "flow"] = -1
    marked = replace(found, packets=packets, flows=found.flows.assign(errno=np.arange(len(found.flows))))
    parts, before = apart(marked, PARTS), apart(found, PARTS)
    assert [part.flows["errno"].tolist() for part in parts] == [[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert pd.concat([part.packets["flow"] for part in parts]).eq(-1).sum() == len(packets.iloc[::2])
    for part, known in zip(parts, before, strict=True):
        kept = part.packets["flow"] >= 0
        assert kept.any() and part.packets["flow"][kept].equals(known.packets["flow"][kept])
    untrusted = replace(found, fidelity=found.fidelity.assign(holds=False))
    assert not any(part.trusted for part in apart(untrusted, PARTS))


def test_measurements_of_other_experiments_are_refused_but_not_those_with_another_seed():
    found = run(side_by_side(PARTS[:2]))
    for others in (PARTS[1::-1], PARTS[:1], PARTS):
        with pytest.raises(NetreproError, match="other experiments"):
            apart(found, others)
    assert len(apart(run(replace(side_by_side(PARTS[:2]), seed=3)), PARTS[:2])) == 2


def test_no_experiments_are_refused():
    with pytest.raises(NetreproError, match="no experiments"):
        side_by_side([])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"duration_s": 0.6}, "duration_s = 0.5 and 0.6"),
        ({"tcp": Tcp("reno", min_rto_ms=10)}, "tcp.min_rto_ms = 200.0 and 10.0"),
        ({"tcp": Tcp("reno", ecn=True)}, "tcp.ecn = False and True"),
        ({"routing": "packet_spraying"}, "routing.scheme = 'ecmp' and 'packet_spraying'"),
        ({"routing": Routing(rerouting_ms=1)}, "routing.rerouting_ms = 100.0 and 1.0"),
        ({"rcp": Rcp(alpha=0.4)}, "rcp.alpha = 0.1 and 0.4"),
        ({"measure": Measure(queue_interval_ms=2, windows_interval_ms=5)}, "measure.queue_interval_ms = 1.0 and 2.0"),
        ({"measure": Measure(queue_interval_ms=1)}, "measure.windows_interval_ms = 5.0 and None"),
        ({"traffic": (PoissonFlows(WEB_SEARCH, 10, 5),)}, "PoissonFlows"),
        (
            {"topology": Topology((Cable("h1", "h2", PLAIN),)), "traffic": (), "measure": EVERY, "changes": ()},
            "no switch to join",
        ),
    ],
)
def test_what_cannot_be_side_by_side_is_refused(changed, named):
    other = replace(BETWEEN_PODS, **changed)
    for experiments in ([INCAST, other], [INCAST, BETWEEN_PODS, other]):
        with pytest.raises(NetreproError) as refused:
            side_by_side(experiments)
        assert named in refused.value.problem and refused.value.remedy


@pytest.mark.parametrize("routing", [Routing("spanning_tree"), Routing("k_shortest_paths"), Routing(root="s1")])
def test_routes_that_depend_on_numbers_of_switches_are_refused(routing):
    with pytest.raises(NetreproError, match=f"routing {routing.scheme}"):
        side_by_side([replace(INCAST, routing=routing)])


def breaking_at(*moments_s: float) -> Experiment:
    net = dumbbell(1, PLAIN, PLAIN)
    changes = tuple(LinkChange(at_s, "s1", "s2", up=place % 2 == 1) for place, at_s in enumerate(moments_s))
    return Experiment(net, (), 1, routing=Routing(rerouting_ms=100), changes=changes)


@pytest.mark.parametrize(
    ("first_s", "second_s", "is_refused"),
    [
        ((0.3,), (0.35,), True),  # routes of the second would follow at 0.4 s with those of the first
        ((0.35,), (0.3,), True),
        ((0.1, 0.3), (0.2, 0.8), True),
        ((0.3,), (0.3,), False),
        ((0.3,), (0.45,), False),
        ((0.3, 0.35), (0.6,), False),  # a part by itself has its own meaning
    ],
)
def test_cables_that_break_while_routes_of_another_part_are_to_follow_are_refused(first_s, second_s, is_refused):
    experiments = [breaking_at(*first_s), breaking_at(*second_s)]
    if is_refused:
        with pytest.raises(NetreproError, match="go down or up at"):
            side_by_side(experiments)
    else:
        assert len(side_by_side(experiments).changes) == len(first_s) + len(second_s)
    # Rates change no routes.
    slower = replace(experiments[1], changes=(LinkChange(0.35, "s1", "s2", rate_mbps=1),))
    assert len(side_by_side([experiments[0], slower]).changes) == len(first_s) + 1
