"""Hedera's patterns on a fat-tree (Mininet-HiFi section 5.2): schedulers against brute force, claims and controls."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.topology import fat_tree
from netrepro.papers import hedera as paper
from netrepro.simulation import simulate

TREE = fat_tree(4, paper.PRINTED.link)
DEMANDS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda flow: flow[0] != flow[1]), min_size=1, max_size=40
)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(paper.Profile(2.0, 1), 3, 5, setting=paper.Setting(counted_from_s=4.0))


def test_every_claim_is_measured_and_none_of_the_controls_agrees(runs):
    claims = load_claims("hedera")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        judgement = judge(claim, measured[claim.id], "simulated")
        assert judgement.counts == (claim.control_weakness is None)
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees"


def test_hashing_moves_as_the_testbed_does_and_under_other_patterns_not(runs):
    claim = load_claims("hedera").claim("hash-like-hardware-ecmp")
    ours = next(each for each in paper.measured_claims(runs) if each.claim == claim.id)
    # Of few repetitions: it moves as published, beyond three times the distance that is accepted.
    assert judge(claim, ours, "simulated").verdict == "disagrees"
    assert judge(claim, ours.broken(), "simulated").verdict == "disagrees"
    assert [y for _, y in ours.control[0]] == [y for _, y in ours.values[0]][::-1] and len(ours.control) == 3
    # What would be found of a network whose links suffice, and of a control that moves as published.
    flat = [[[x, 1.0] for x, _ in curve] for curve in ours.values]
    assert judge(claim, ours.model_copy(update={"values": flat}), "simulated").verdict == "disagrees"
    published = [[list(point) for point in claim.published]] * 3
    as_good = ours.model_copy(update={"values": published, "control": published})
    assert not judge(claim, as_good, "simulated").counts


def test_the_guess_which_scheduler_is_which_decides_no_verdict(runs):
    other = {"first fit": "annealing", "annealing": "first fit"}
    exchanged = replace(runs, shares=runs.shares.replace({"scheme": other}))
    for claim in load_claims("hedera").claims[-3:]:
        found = [
            next(each for each in paper.measured_claims(chosen) if each.claim == claim.id)
            for chosen in (runs, exchanged)
        ]
        assert len({judge(claim, each, "simulated").verdict for each in found}) == 1


def test_the_patterns_are_the_papers():
    found = paper.patterns()
    assert len(found) == 20 and list(found)[6:10] == ["stride1", "stride2", "stride4", "stride8"]
    for stride in (1, 2, 4, 8):
        assert set(found[f"stride{stride}"]) == {(i, (i + stride) % 16) for i in range(16)}
    for name in paper.BIJECTIVE:
        sources, destinations = zip(*found[name], strict=True)
        assert sorted(sources) == sorted(destinations) == list(range(16))
    assert [len(found[name]) for name in ("randx2", "randx3", "randx4", "hotspot")] == [32, 48, 64, 16]


@given(DEMANDS)
@settings(max_examples=200, deadline=None)
def test_estimated_demands_are_max_min_fair_shares_of_host_links(flows):
    """Water filling by a second method: raise all flows together, freeze those at a full link, go on."""
    demands = paper.estimate_demands(flows)
    links = [("from", source) for source, _ in flows], [("to", destination) for _, destination in flows]
    rates, frozen = np.zeros(len(flows)), np.zeros(len(flows), dtype=bool)
    while not frozen.all():
        room = {}
        for side in links:
            for link in set(side):
                here = np.array([each == link for each in side])
                if (here & ~frozen).any():
                    room[link] = (1 - rates[here].sum()) / (here & ~frozen).sum()
        step = min(room.values())
        rates[~frozen] += step
        for side in links:
            for link in set(side):
                here = np.array([each == link for each in side])
                if rates[here].sum() >= 1 - 1e-12:
                    frozen |= here
    assert demands == pytest.approx(rates, abs=1e-9)


def load_of(paths, demands):
    loads = {}
    for path, demand in zip(paths, demands, strict=True):
        for link in pairwise(path):
            loads[link] = loads.get(link, 0.0) + demand
    return loads


@given(DEMANDS)
@settings(max_examples=50, deadline=None)
def test_first_fit_overloads_no_link_and_takes_the_first_path_that_has_room(flows):
    paths = paper.first_fit(TREE, flows)
    demands = paper.estimate_demands(flows)
    placed = [(path, demand) for path, demand in zip(paths, demands, strict=True) if path]
    assert max(load_of(*zip(*placed, strict=True)).values()) <= 1 + 1e-6
    for (source, destination), path in zip(flows, paths, strict=True):
        if path:
            assert path[0] == f"h{source + 1}" and path[-1] == f"h{destination + 1}"
            assert nx.is_path(TREE.graph, path)
            assert len(path) == nx.shortest_path_length(TREE.graph, path[0], path[-1]) + 1


@pytest.mark.parametrize("name", ["stride2", "stride4", "stride8", "randbij1"])
def test_annealing_places_bijective_patterns_without_overload_where_that_is_possible(name):
    """A fat-tree is rearrangeable: bijective patterns fit. The search by destination's core reaches it for these."""
    flows = paper.pattern_named(name)
    loads = load_of(paper.annealing(TREE, flows, seed=3), paper.estimate_demands(flows))
    assert max(loads.values()) <= 1 + 1e-9


def test_annealing_is_the_same_for_the_same_seed():
    flows = paper.pattern_named("randx3")
    assert paper.annealing(TREE, flows, 4) == paper.annealing(TREE, flows, 4) != paper.annealing(TREE, flows, 5)


def test_the_tree_has_every_host_and_no_circle_and_its_core_carries_four_links():
    tree = paper.only_tree(TREE)
    assert nx.is_tree(tree.graph.subgraph(tree.switches))
    assert tree.hosts == TREE.hosts
    assert tree.graph.degree(paper.CORES[0]) == 4


def test_stride_8_over_one_tree_is_limited_by_four_links_to_the_core(runs):
    """Every flow crosses one core switch with one link a pod: 4 of 16 links' payload at most (max-flow bound)."""
    shares = runs.by_pattern()["spanning tree"]
    assert 0.8 * 0.25 <= shares["stride8"] / paper.PAYLOAD_SHARE <= 0.25 * 1.001


@pytest.mark.parametrize("name", ["stride1", "stride8", "rand0", "hotspot", "stag0(0.2,0.3)"])
def test_no_scheme_exceeds_what_host_links_allow_by_linear_programming(runs, name):
    """The most that any allocation can carry when only host links limit it."""
    flows = paper.pattern_named(name)
    limits = np.array(
        [[flow[side] == host for flow in flows] for side in (0, 1) for host in range(paper.HOSTS)], dtype=float
    )
    best = -linprog(-np.ones(len(flows)), A_ub=limits, b_ub=np.ones(len(limits))).fun / paper.HOSTS
    assert (runs.by_pattern().loc[name] <= best * paper.PAYLOAD_SHARE * 1.002).all()


def test_schedulers_lose_less_than_hashing_and_hashing_less_than_one_tree(runs):
    means = runs.by_pattern().mean()
    assert means["annealing"] > means["ECMP"] > means["spanning tree"]
    assert means["first fit"] > means["ECMP"]


def test_without_paths_for_each_flow_the_schedulers_claims_are_left_unmeasured(runs):
    kept = runs.shares[~runs.shares.scheme.isin(paper.SCHEDULED)]
    measured = {each.claim for each in paper.measured_claims(paper.Runs(kept, runs.fidelity, "virtual"))}
    assert "tree-like-hardware-ecmp" in measured and not measured & {"hedera-1", "hedera-2", "gain-falls-with-flows"}


def test_an_experiment_survives_json():
    trial = paper.experiment(paper.pattern_named("randx2"), "annealing", paper.PRINTED, 5.0, 1)
    assert Experiment.from_json(trial.to_json()) == trial


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(NetreproError, match="did you mean 'stride8'"):
        paper.pattern_named("strid8")
    with pytest.raises(NetreproError, match="did you mean 'first fit'"):
        paper.experiment(((0, 1),), "firstfit", paper.PRINTED, 1.0, 1)
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.profile_named("papr")


def test_few_patterns_measure_the_claim_about_strides_and_stand_beside_other_tiers(runs):
    few = replace(runs, shares=runs.shares[runs.shares.pattern.isin(paper.FEW)], tier="virtual")
    assert [each.claim for each in paper.measured_claims(few)] == ["longer-strides-lose"]
    table = paper.tier_table([runs, few])
    assert list(table.index) == ["simulated", "virtual"] and list(table.patterns) == [20, len(paper.FEW)]
    assert table["spanning tree: correlation"].iloc[0] > 0.9 and np.isnan(table["spanning tree: correlation"].iloc[1])


@pytest.mark.parametrize("count", [3, 9, 10, 20])
def test_what_the_testbeds_ecmp_was_is_said_of_ten_patterns_at_least(runs, count):
    kept = replace(runs, shares=runs.shares[runs.shares.pattern.isin(list(paper.patterns())[:count])])
    said = paper.answer(kept)
    assert f"over {count} patterns" in said
    assert ("correlation" in said) == (count >= 10)
    labels = [text.get_text() for text in paper.draw_which_routing(kept).axes[0].get_legend().get_texts()]
    assert any("correlation" in label for label in labels) == (count >= 10)


def test_the_figure_says_that_which_scheduler_is_which_is_a_guess(runs):
    labels = [text.get_text() for text in paper.draw_schedulers(runs).axes[0].get_legend().get_texts()]
    assert any("guess" in label for label in labels)


def test_the_answer_says_of_faster_links_what_kernels_carried_and_whether_to_believe_it(runs):
    fails = runs.fidelity.assign(holds=runs.fidelity.scheme != "non-blocking")
    faster = replace(runs, fidelity=fails, tier="virtual", rate_mbps=100.0)
    assert list(paper.tier_table([runs, faster]).trusted) == [True, False]
    assert "at 100 Mb/s" in paper.answer(runs, [faster]) and "(untrusted)" in paper.answer(runs, [faster])
    assert "at 100 Mb/s" not in paper.answer(runs) and "at 100 Mb/s" not in paper.answer(runs, [runs])


def test_what_the_claim_about_strides_compares_is_repeated_more_often():
    size = paper.Profile(0.3, 1, 1, ("stride1", "stride8", "rand0"), 0.5, 0.1, strides=3)
    found = paper.measure(size, 1, 1, schemes=("non-blocking", "ECMP", "spanning tree"))
    counts = found.shares.groupby(["pattern", "scheme"]).size()
    assert {place for place, count in counts.items() if count == 3} == {
        (name, how) for name in ("stride1", "stride8") for how in paper.ENDS
    }
    assert set(counts) == {1, 3}
    (claim,) = paper.measured_claims(found)
    assert len(claim.values) == len(claim.control) == 3


def test_the_virtual_kernel_runs_shorter():
    quick = paper.profile_named("quick", "virtual")
    setting = quick.applied_to(paper.PRINTED)
    assert quick.only and setting.counted_from_s + quick.counted_s < 2 < paper.PRINTED.counted_from_s
    assert quick.strides == 3  # of two the interval would be four times as wide
    assert paper.profile_named("paper").applied_to(paper.PRINTED) == paper.PRINTED


@pytest.mark.parametrize("how", ["non-blocking", "ECMP", "spanning tree", "annealing"])
def test_rates_from_3_s_on_are_those_from_10_s_on(how):
    # Of three runs: five seconds of one differ from its next five by as much as 0.02.
    flows, quick = paper.pattern_named("stag1(0.2,0.3)"), paper.profile_named("quick")
    soon = quick.applied_to(paper.PRINTED)

    def share(setting: paper.Setting, seed: int) -> float:
        found = simulate(paper.experiment(flows, how, setting, quick.counted_s, seed))
        return paper.goodput_shares(found, setting).mean()

    early, late = (np.mean([share(setting, seed) for seed in range(1, 4)]) for setting in (soon, paper.PRINTED))
    assert early == pytest.approx(late, abs=0.02) and soon.counted_from_s < paper.PRINTED.counted_from_s


@needs_virtual
def test_a_kernels_hosts_lose_most_of_stride_8_in_one_tree():
    size = paper.Profile(1.0, 1, 1, ("stride8",), 1.0, 0.2)
    found = paper.measure(size, 1, 1, tier="virtual", schemes=("non-blocking", "spanning tree", "first fit"))
    shares = found.by_pattern().loc["stride8"]
    assert shares["non-blocking"] > 0.9 and shares["first fit"] > 0.9
    assert 0.2 < shares["spanning tree"] <= 0.25 * paper.PAYLOAD_SHARE * 1.01
    assert found.trusted and found.tier == "virtual"


@needs_virtual
def test_stride_8_at_100_mbps_stands_beside_the_simulator(runs):
    found = replace(runs, tier="virtual", shares=runs.shares[runs.shares.pattern == "stride8"])
    ours, kernel, theirs = paper.other_tiers(found, "quick", 1)
    assert [each.rate_mbps for each in (ours, kernel, theirs)] == [10.0, 100.0, 100.0]
    assert [each.tier for each in (ours, kernel, theirs)] == ["simulated", "virtual", "simulated"]
    expected = ours.by_pattern().loc["stride8"]
    for each in (kernel, theirs):
        shares = each.by_pattern().loc["stride8"]
        assert shares["spanning tree"] == pytest.approx(expected["spanning tree"], abs=0.03)
        assert shares["non-blocking"] == pytest.approx(expected["non-blocking"], abs=0.03)
    assert len(paper.other_tiers(found, "quick", 1, replace(paper.PRINTED, rate_mbps=100.0))) == 1
    assert paper.other_tiers(runs, "quick", 1) == []
