"""Jellyfish (Singla et al., NSDI 2012): random graphs, optimal routing against closed forms, and the claims."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.emulation.virtual.experiment import check_virtually
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.papers import jellyfish as paper

SMALL = paper.Setting(ports=4)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(paper.Scale((4,), 4, 0.3), repetitions=2, seed=3, setting=SMALL)


def test_every_claim_is_measured_and_none_of_the_controls_agrees(runs):
    claims = load_claims("jellyfish")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        judgement = judge(claim, measured[claim.id], "simulated")
        # Controls are weak: what agrees does not count.
        assert judgement.counts == (judgement.verdict == "disagrees"), claim.id
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees", claim.id


def test_servers_are_spread_to_within_one():
    for servers in range(0, 60, 7):
        held = paper.servers_of_switches(20, servers)
        assert sum(held) == servers and max(held) - min(held) <= 1


@pytest.mark.parametrize("kind", ["jellyfish", "ring"])
def test_the_same_equipment_is_the_switches_and_ports_of_the_fat_tree(kind):
    topology = paper.same_equipment(kind, SMALL, 18, 1)
    tree = paper.same_equipment("fat-tree", SMALL, 0, 1)
    assert len(topology.switches) == len(tree.switches) == SMALL.switches
    assert len(tree.hosts) == SMALL.fat_tree_servers and len(topology.hosts) == 18
    assert max(degree for node, degree in topology.graph.degree if node[0] == "s") <= SMALL.ports


def test_every_server_sends_once_and_hears_once_in_a_permutation():
    topology = paper.same_equipment("jellyfish", SMALL, 18, 1)
    sources, destinations = zip(*paper.permutation(topology, 5), strict=True)
    assert set(sources) == set(destinations) == set(topology.hosts)
    assert len(set(sources)) == len(sources) and all(a != b for a, b in zip(sources, destinations, strict=True))


def test_a_random_graph_carries_more_servers_than_a_ring_of_the_same_switches():
    assert paper.servers_at_full_rate("jellyfish", SMALL, 1) > 1.2 * paper.servers_at_full_rate("ring", SMALL, 1)


def test_all_paths_over_a_link_are_counted_once_and_together_have_the_length_of_all_paths():
    table = paper.link_paths(SMALL, 2)
    topology = paper.same_equipment("jellyfish", SMALL, round(16 * SMALL.server_gain), 2)
    pairs = paper.permutation(topology, 2)
    single = {paper.k_shortest_paths(topology, *pair, 1)[0][1:-1] for pair in pairs}
    assert table[table.routing == "1 path"]["paths"].sum() == sum(len(list(pairwise(path))) for path in single)
    assert table.groupby("routing")["link"].nunique().nunique() == 1


@pytest.mark.parametrize(("shares", "index"), [([1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([2, 1], 0.9)])
def test_jains_index_is_that_of_its_definition(shares, index):
    assert paper.jain(shares) == pytest.approx(index)


def test_subflows_take_the_shortest_paths_in_turn():
    case = paper.CASES["jellyfish, 8 paths, MPTCP"]
    experiment = paper.experiment(case, SMALL, 0.2, 1)
    for flow in experiment.traffic:
        paths = paper.k_shortest_paths(experiment.topology, flow.source, flow.destination, 8)
        assert set(flow.subflow_paths) == set(paths) and len(flow.subflow_paths) == 8
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_eight_flows_share_the_rate_of_their_server(runs):
    table = runs.servers[runs.servers.case == "fat-tree, ECMP, 8 flows"]
    assert table.groupby("repetition")["server"].nunique().eq(SMALL.fat_tree_servers).all()
    assert table["share"].between(0, 1.001).all()


def test_the_tiers_run_the_small_equipment_and_no_claim():
    by_tier = paper.measure_by_tier(paper.Scale((4,), 4, 0.3, real_seconds=0.5), 2, 3)
    table = paper.tier_table(by_tier)
    assert list(table.index) == list(paper.REAL_CASES) and table["trusted, simulated"].all()
    assert by_tier["simulated"].servers.groupby("case")["server"].nunique().isin((16, 18)).all()
    # One flow of sixteen that collide by hash against eight: the more flows, the evener.
    assert (
        table.loc["fat-tree, ECMP, 8 flows", "Jain, simulated"] > table.loc["fat-tree, ECMP, 1 flow", "Jain, simulated"]
    )


@needs_virtual
def test_on_the_virtual_kernel_the_same_servers_send_and_get_about_the_same(monkeypatch):
    monkeypatch.setattr(
        paper, "REAL_CASES", {"jellyfish, 8 paths, 8 flows": paper.CASES["jellyfish, 8 paths, 8 flows"]}
    )
    by_tier = paper.measure_by_tier(paper.Scale((4,), 4, 0.3, real_seconds=3.0), 1, 3, tier="virtual")
    servers = {tier: runs.servers[["repetition", "server"]].to_numpy().tolist() for tier, runs in by_tier.items()}
    assert servers["virtual"] == servers["simulated"]
    assert by_tier["virtual"].servers["share"].between(0.01, 1.001).all() and by_tier["virtual"].trusted
    shares = {tier: runs.servers["share"].mean() for tier, runs in by_tier.items()}
    assert shares["virtual"] == pytest.approx(shares["simulated"], rel=0.15)


def test_what_a_kernel_has_no_subflows_for_is_not_among_its_cases():
    small = replace(paper.PRINTED, **paper.REAL)
    for name, case in paper.TABLE.items():
        refused = False
        try:
            check_virtually(paper.experiment(case, small, 1.0, 1))
        except NetreproError:
            refused = True
        assert refused == (name not in paper.REAL_CASES), name


def test_no_claim_is_measured_on_kernels(runs):
    assert paper.measured_claims(runs, "virtual") == []


def test_a_run_that_fails_a_check_is_untrusted(runs):
    broken = replace(runs, fidelity=runs.fidelity.assign(holds=False))
    claims = load_claims("jellyfish")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_what_cannot_be_built_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
    with pytest.raises(NetreproError, match="did you mean 'jellyfish'"):
        paper.same_equipment("jelyfish", SMALL, 16, 1)
    with pytest.raises(NetreproError, match="at most 40"):
        paper.same_equipment("jellyfish", SMALL, 60, 1)
    with pytest.raises(NetreproError, match="did you mean 'MPTCP'"):
        paper.experiment(paper.Case("jellyfish", 8, "MPTC"), SMALL, 1.0, 1)
