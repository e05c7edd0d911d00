"""Jellyfish (Singla et al., NSDI 2012): random graphs, optimal routing against closed forms, and the controls."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import networkx as nx
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation.virtual.experiment import check_virtually
from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology, star
from netrepro.papers import jellyfish as paper
from netrepro.study import Runs, jain, measure

SMALL = paper.Setting(ports=4)


def network(kind: str, seed: int = 1, servers: int = 18) -> Topology:
    return paper.same_equipment(kind, 4, servers, SMALL.link, seed)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=2, seed=3)


def test_servers_are_spread_to_within_one():
    for servers in range(0, 60, 7):
        held = paper.servers_of_switches(20, servers)
        assert sum(held) == servers and max(held) - min(held) <= 1


@pytest.mark.parametrize("kind", ["jellyfish", "edge only"])
def test_the_same_equipment_is_the_switches_and_ports_of_the_fat_tree(kind):
    topology, tree = network(kind), network("fat-tree")
    assert len(topology.switches) == len(tree.switches) == SMALL.switches
    assert len(tree.hosts) == SMALL.fat_tree_servers and len(topology.hosts) == 18
    assert max(degree for node, degree in topology.graph.degree if node[0] == "s") <= SMALL.ports


def test_the_controls_servers_are_where_the_fat_trees_are_and_jellyfishs_on_nearly_all_switches():
    homes = {}
    for kind in paper.NETWORKS:
        topology = network(kind)
        homes[kind] = {next(iter(topology.graph[host])) for host in topology.hosts}
    assert homes["edge only"] == homes["fat-tree"] and len(homes["jellyfish"]) == 18


def test_every_server_sends_once_and_hears_once_in_a_permutation():
    topology = network("jellyfish")
    sources, destinations = zip(*paper.permutation(topology, 5), strict=True)
    assert set(sources) == set(destinations) == set(topology.hosts)
    assert len(set(sources)) == len(sources) and all(a != b for a, b in zip(sources, destinations, strict=True))


def test_nobody_in_a_permutation_sends_to_a_server_at_its_own_switch():
    topology = network("edge only")  # two servers or three a switch
    switch_of = {host: next(iter(topology.graph[host])) for host in topology.hosts}
    for seed in range(50):
        assert all(switch_of[a] != switch_of[b] for a, b in paper.permutation(topology, seed))


def test_a_permutation_is_refused_where_one_switch_has_most_of_the_servers():
    with pytest.raises(NetreproError, match="3 of 3 servers at switch s1"):
        paper.permutation(star(3, SMALL.link), 1)


def test_a_random_graph_carries_more_servers_than_one_with_servers_at_the_edge(runs):
    gain = runs.summary()["gain"].droplevel("ports")
    assert gain["full rate, jellyfish"] > 1.2 * gain["full rate, edge only"]


def test_no_more_servers_are_carried_at_the_edge_than_ports_lead_up():
    reading = paper.measure_full_rate(paper.FullRate("edge only", ports=4), 1)
    assert 0 < reading["servers_at_full_rate"] <= SMALL.fat_tree_servers


@pytest.mark.parametrize("kind", paper.NETWORKS)
def test_distances_are_those_that_a_search_finds(kind):
    topology = network(kind)
    cables = dict(nx.all_pairs_shortest_path_length(topology.graph))
    lengths = [cables[a][b] for a, b in combinations(topology.hosts, 2)]
    asked = replace(SMALL, network=kind, server_gain=18 / 16)
    assert paper.measure_lengths(asked, 1)["cables"] == pytest.approx(sum(lengths) / len(lengths))


def test_over_one_tree_jellyfish_loses_its_short_paths_and_the_fat_tree_nothing():
    tree, jellyfish = (replace(SMALL, network=kind) for kind in ("fat-tree", "jellyfish"))
    assert paper.measure_tree(tree, 1)["cables"] == pytest.approx(paper.measure_lengths(tree, 1)["cables"])
    assert paper.measure_tree(jellyfish, 1)["cables"] > paper.measure_lengths(jellyfish, 1)["cables"] + 0.5


def test_all_paths_over_a_link_are_counted_once_and_together_have_the_length_of_all_paths():
    one, topology = replace(SMALL, paths=1), network("jellyfish", 2)
    single = {paper.k_shortest_paths(topology, *pair, 1)[0][1:-1] for pair in paper.permutation(topology, 2)}
    links = paper.measure_links(one, 2)["links"]
    assert links.paths_over_it.sum() == sum(len(list(pairwise(path))) for path in single)
    assert len(links) == len(paper.measure_links(SMALL, 2)["links"]) == len(topology.fabric.edges) * 2


def test_fig_9_a_link_is_on_more_of_8_shortest_paths_than_of_ecmps():
    ecmp = replace(SMALL, **paper.ECMP)
    ours, theirs = (paper.measure_links(setting, 2)["paths_over_a_link"] for setting in (SMALL, ecmp))
    assert ours > theirs > 0


@pytest.mark.parametrize(("shares", "index"), [([1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([2, 1], 0.9)])
def test_jains_index_is_that_of_its_definition(shares, index):
    assert jain(shares) == pytest.approx(index)


def subflow_paths(case: str) -> dict[tuple[str, str], list]:
    experiment = paper.experiment(paper.STUDY.case(case, SMALL), 0.2, 1)
    return {(flow.source, flow.destination): list(flow.subflow_paths) for flow in experiment.traffic}


def test_subflows_take_the_shortest_paths_in_turn():
    topology = network("jellyfish")
    for pair, taken in subflow_paths("jellyfish, 8 paths, MPTCP").items():
        assert set(taken) == set(paper.k_shortest_paths(topology, *pair, 8)) and len(taken) == 8


def test_the_control_of_ecmp_has_just_the_paths_that_ecmp_has():
    topology, fewer = network("jellyfish"), 0
    for pair, taken in subflow_paths("jellyfish, ECMP in turn, MPTCP").items():
        equal = paper.shortest_paths(topology, *pair)[:8]
        assert set(taken) == set(equal) and len(taken) == 8
        fewer += len(equal) < 8
    assert fewer > 9  # of 18 servers: ECMP has few paths


def test_all_servers_of_a_case_are_there_and_get_no_more_than_their_rate(runs):
    table = runs.table("servers", "fat-tree, ECMP, 8 flows")
    assert table.groupby("repetition")["server"].nunique().eq(SMALL.fat_tree_servers).all()
    assert table["share"].between(0, 1.001).all()
    # One flow of sixteen that collide by hash against eight: the more flows, the evener.
    index = runs.summary()["jain"].droplevel("ports")
    assert index["fat-tree, ECMP, 8 flows"] > index["fat-tree, ECMP, 1 flow"]


@needs_virtual
def test_on_the_virtual_kernel_the_same_servers_send_and_get_about_the_same():
    name = "jellyfish, 8 paths, 8 flows"
    one = replace(paper.STUDY, cases={name: paper.CASES[name]}, claims={})
    runs = measure(one, profile="quick", tier="virtual", repetitions=1, seed=3)
    servers = {tier: runs.table("servers", name, tier) for tier in runs.tiers}
    assert list(servers["virtual"].server) == list(servers["simulated"].server)
    assert servers["virtual"].share.between(0.01, 1.001).all() and runs.trusted
    assert servers["virtual"].share.mean() == pytest.approx(servers["simulated"].share.mean(), rel=0.15)


def test_a_kernel_runs_tcp_and_nothing_else_so_that_no_claim_is_measured_there():
    small = replace(paper.Setting(), **paper.SMALL)
    able = set()
    for name in paper.CASES:
        setting = paper.STUDY.case(name, small)
        if not paper.cannot(setting, "virtual"):
            try:
                check_virtually(paper.experiment(setting, 1.0, 1))
                able.add(name)
            except NetreproError:
                assert setting.transport == "MPTCP"
    assert able == {f"{row}, {transport}" for row in paper.REMEMBERED for transport in ("1 flow", "8 flows")}
    assert not any({*claim.case_names} <= able for claim in paper.STUDY.claims.values())


def test_in_slow_motion_a_packet_takes_as_much_longer_as_its_way_does():
    slow = replace(SMALL, slow_motion=5.0).link
    assert slow.rate_mbps * 5 == SMALL.link.rate_mbps and slow.delay_ms == 5 * SMALL.link.delay_ms


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"network": "jelyfish"}, "did you mean 'jellyfish'"),
        ({"transport": "MPTC"}, "did you mean 'MPTCP'"),
        ({"routing": "ECM"}, "did you mean 'ECMP'"),
        ({"server_gain": 5.0}, "ports of a switch for others"),
    ],
)
def test_what_cannot_be_built_is_refused(changed, hint):
    with pytest.raises(NetreproError, match=hint):
        paper.experiment(replace(SMALL, **changed), 1.0, 1)
