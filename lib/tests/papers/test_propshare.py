"""PropShare (Levin et al., SIGCOMM 2008): swarms of both kinds of clients, the controls that flip, and the readings."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest

from netrepro.applications.swarm.run import run_real_swarms
from netrepro.claims import judge, load_claims
from netrepro.emulation.tiers import why_no_processes
from netrepro.errors import NetreproError
from netrepro.papers import propshare as paper
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer

SCALE = paper.Scale(30, (0.0, 0.5, 1.0), 2, 3)
SMALL = replace(paper.PRINTED, leechers=10, pieces=16)
SMALL_SCALE = paper.Scale(10, (0.0, 0.5, 1.0), 2, 2)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(SCALE, 12, 3)


def test_every_claim_is_measured_and_trusted(runs):
    claims = load_claims("propshare")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    assert runs.trusted, runs.fidelity[~runs.fidelity["holds"]]


def test_proportional_shares_reward_contribution_and_permuted_ones_do_not(runs):
    claim = load_claims("propshare").claim("rewards-contribution")
    measured = {each.claim: each for each in paper.measured_claims(runs)}[claim.id]
    judgement = judge(claim, measured, "simulated")
    assert judgement.verdict == "agrees" and judgement.counts
    assert judge(claim, measured.broken(), "simulated").verdict == "disagrees"


def test_bittorrent_itself_rewards_contribution_as_measurements_of_it_say(runs):
    """Legout et al., "Clustering and sharing incentives in BitTorrent systems" (SIGMETRICS 2007)."""
    assert paper.rank_correlation(runs, "figure 8", 0.0).mean() > 0.5


def test_with_permuted_shares_free_riders_lose_nothing(runs):
    assert paper.free_rider_cost(runs, "free riders", 1.0).min() > 1.1
    assert paper.free_rider_cost(runs, "free riders, permuted", 1.0).mean() < 1.1


def test_fast_peers_gain_by_proportional_shares_and_slow_ones_lose(runs):
    rows = runs.clients[runs.clients.case == "figure 8"]
    fast = rows[rows.upload_kilobytes_per_s > 200].groupby("fraction")["complete_s"].mean()
    slow = rows[rows.upload_kilobytes_per_s < 40].groupby("fraction")["complete_s"].mean()
    assert fast[1.0] < fast[0.0] and slow[1.0] > slow[0.0]


def test_an_untrusted_run_gives_no_verdict(runs):
    broken = replace(runs, fidelity=runs.fidelity.assign(holds=False))
    claims = load_claims("propshare")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_a_small_reserve_is_hard_on_free_riders():
    table = paper.vary_reserve(paper.Scale(30, (), 2, 4), 1).groupby("reserve")["cost"].mean()
    assert table.index.tolist() == sorted(paper.KNOBS["reserve"][1])
    assert table[0.05] > table[0.4] + 0.2


def fake_runs(ours: list[float], theirs: list[float]) -> paper.Runs:
    """One client of each kind a trial at a fraction of one half, with the given times."""
    rows = [
        {"case": "figure 8", "fraction": 0.5, "trial": i, "client": kind, "kind": kind, "complete_s": time_s}
        for i, pair in enumerate(zip(ours, theirs, strict=True))
        for kind, time_s in zip(("propshare", "bittorrent"), pair, strict=True)
    ]
    clients = pd.DataFrame(rows).assign(upload_kilobytes_per_s=1.0, sent_bytes=1.0)
    return paper.Runs(
        clients, pd.DataFrame({"case": ["figure 8"], "check": "x", "value": 0, "bound": 0, "holds": True})
    )


def test_the_comparison_is_of_means_within_a_swarm():
    runs = fake_runs([90, 100, 110, 120], [100, 125, 100, 100])
    assert paper.ratios(runs).tolist() == pytest.approx([0.9, 0.8, 1.1, 1.2])
    row = paper.comparison(runs).loc[0.5]
    assert (row["trials"], row["ratio"], row["faster"]) == (4, pytest.approx(1.0), 0.5)
    assert row["low"] < 1 < row["high"] and row["p"] > 0.5


def test_a_clear_difference_is_found():
    random = Random(1)
    theirs = [100 + random.random() for _ in range(12)]
    row = paper.comparison(fake_runs([0.9 * time_s for time_s in theirs], theirs)).loc[0.5]
    assert row["faster"] == 1 and row["p"] < 0.001 and row["high"] < 0.91


def test_rates_are_uniform_on_a_logarithmic_axis():
    rates = paper.capacities(replace(SMALL, leechers=4000), 1)
    assert 20 <= min(rates) < 21 and 290 < max(rates) <= 300
    assert np.median(rates) == pytest.approx(SMALL.median_kilobytes_per_s, rel=0.05)


def test_pure_swarms_of_a_trial_have_the_same_capacities(runs):
    rows = runs.clients[runs.clients.case == "figure 8"]
    by_fraction = {f: each.sort_values(["trial", "client"]) for f, each in rows.groupby("fraction")}
    assert by_fraction[0.0]["upload_kilobytes_per_s"].tolist() == by_fraction[1.0]["upload_kilobytes_per_s"].tolist()
    assert by_fraction[0.5]["upload_kilobytes_per_s"].tolist() != by_fraction[1.0]["upload_kilobytes_per_s"].tolist()


def test_swapping_gives_every_leecher_the_other_choker():
    here, there = (paper.swarm(SMALL, 0.5, 7, swapped=swapped) for swapped in (False, True))
    for one, other in zip(here, there, strict=True):
        assert one.upload_kilobytes_per_s == other.upload_kilobytes_per_s
        assert one.is_seed or {one.kind, other.kind} == {"bittorrent", "propshare"}


def test_the_attacker_uploads_the_same_as_one_and_as_four():
    alone, split = (paper.swarm(SMALL, 1.0, 7, identities=count) for count in (1, 4))
    sums = [sum(p.upload_kilobytes_per_s for p in each if p.client == "attacker") for each in (alone, split)]
    assert sums[0] == pytest.approx(sums[1]) == pytest.approx(2 * SMALL.median_kilobytes_per_s)
    assert len(split) == len(alone) + 3


def test_seeds_that_know_clients_serve_one_identity():
    known = paper.make_choker(replace(SMALL, seeds_know_clients=True), 4, "seed", Random(1))
    first = SMALL.seeds
    assert set(known.decide(0, list(range(first, first + 6)), {})) == {first, first + 4, first + 5}


def test_only_propshares_clients_lose_what_nobody_uses():
    peers = paper.swarm(replace(paper.PRINTED, lends=False), 0.5, 1)
    assert {peer.kind for peer in peers if not peer.lends} == {"propshare"}
    assert all(peer.lends for peer in paper.swarm(paper.PRINTED, 0.5, 1))


def test_what_is_lost_shows_in_what_is_used_and_sent():
    table = paper.vary_lending(replace(SCALE, knob_trials=4), 1)
    assert list(table.index) == [True, False]
    assert table.used[False] < table.used[True] and table.sent[False] < table.sent[True]
    assert (table.sent_low < table.sent).all() and (table.time < table.time_high).all()


def test_free_riders_are_so_many_and_give_nothing():
    peers = paper.swarm(replace(SMALL, free_riders=0.3), 0.5, 7)
    assert sum(peer.kind == "free rider" and peer.upload_kilobytes_per_s == 0 for peer in peers) == 3


def test_the_class_s_swarm_has_nothing_to_share():
    clients, checks = paper.run_one(paper.CLASS, 0.5, 1)
    assert len(clients) == 12 and paper.CLASS.file_bytes == 4 * 2**20
    _, capped = paper.run_one(paper.CLASS_CASES["class, with upload caps"], 0.5, 1)
    used = "share of the upload that is used"
    assert checks[used] < paper.BOUNDS[used][1] < 0.8 < capped[used]
    assert clients["complete_s"].max() < 10  # a few choking rounds of 2 s


def test_an_experiment_of_three_trials_finds_a_difference_as_often_as_chance_does(runs):
    table = paper.class_table(runs)
    assert list(table.index) == list(paper.CLASS_CASES)
    assert (table["experiments"] == 4).all() and table["find a difference"].between(0, 1).all()


def test_every_picture_is_drawn(runs):
    figures = [paper.draw_idea(), paper.draw_swarm()]
    for name in ("figure_8", "ratio", "by_capacity", "strategies", "class", "control"):
        figures.append(getattr(paper, f"draw_{name}")(runs))
    tables = {name: paper.vary(name, SMALL_SCALE, 1, setting=SMALL) for name in ("reserve", "stays_s")}
    figures.append(paper.draw_knobs(tables))
    figures.append(paper.draw_identities(paper.vary_identities(SMALL_SCALE, 1, setting=SMALL)))
    sybil = paper.vary_sybil(SMALL_SCALE, 1, pieces=(8, 16), setting=SMALL)
    figures.append(paper.draw_reserve(paper.vary_reserve(SMALL_SCALE, 1, setting=SMALL), sybil))
    assert all(figure.axes for figure in figures)
    assert "300" not in paper.answer(runs) and "12 swarms" in paper.answer(runs)


# Real processes.


@pytest.fixture(scope="module")
def real() -> list[pd.DataFrame]:
    """A seed with one leecher, and then a mixed swarm with the same links."""
    if why := why_no_processes():
        pytest.skip(why)
    rates = (100.0, 30.0, 50.0, 80.0)
    kinds = ("seed", "propshare", "bittorrent", "permuted")
    swarms = [
        [SwarmPeer(kind, rate, is_seed=kind in seeds) for kind, rate in zip(kinds, rates, strict=True)]
        for seeds in (("seed", "bittorrent", "permuted"), ("seed",))
    ]
    return run_real_swarms(swarms, paper.constants(paper.PRINTED), 1, pieces=3, blocks_per_piece=8)


def test_real_peers_get_the_file_and_send_no_more_than_their_links_carry(real):
    for found in real:
        seen = paper.checks_of(found)
        assert found["is_right"].all() and found["complete_s"].notna().all()
        assert all(seen[check] <= most for check, most in paper.REAL_BOUNDS.items() if check in seen)
        # What was under way to peers that left is lost, and it is not much.
        assert 0 <= found["sent_bytes"].sum() - found["received_bytes"].sum() < 30 * BLOCK_BYTES


def test_links_limit_a_leecher_of_three_seeds(real):
    """It cannot have the file sooner than their links carry it; all choke it for up to a round at first."""
    (time_s,) = real[0]["complete_s"][~real[0].is_seed]
    at_best_s = 3 * 8 * BLOCK_BYTES / (230.0 * 1e3)
    assert at_best_s < time_s < 3 * at_best_s + paper.PRINTED.round_s
    (received,) = real[0]["received_bytes"][~real[0].is_seed]
    assert received >= 3 * 8 * BLOCK_BYTES


def test_leechers_send_to_each_other(real):
    mixed = real[1][~real[1].is_seed]
    assert (mixed["sent_bytes"] > 0).sum() >= 2 and mixed["complete_s"].nunique() == 3


def test_swarms_of_processes_are_measured_as_the_simulated_ones(monkeypatch):
    if why := why_no_processes():
        pytest.skip(why)
    monkeypatch.setattr(paper, "PROCESSES", {"leechers": 8, "pieces": 6})
    found = paper.measure_processes(replace(SCALE, process_trials=1), 1)
    assert found.trusted, found.fidelity
    table = paper.tier_table(found)
    assert len(table) == 4 and table["ratio"].between(0.7, 1.4).all(), table
    assert len(found.simulated) == len(found.clients) * paper.SIMULATED_DRAWS
    assert ("virtual", "processes: files that are not right") in paper.checks(found, found).index
    assert paper.draw_tiers(found).axes


def test_without_the_kernel_nothing_is_measured_and_it_says_why(monkeypatch, runs):
    monkeypatch.setattr(paper, "why_no_processes", lambda: "no virtual kernel: not built")
    found = paper.measure_processes(SCALE, 1)
    assert found.why == "no virtual kernel: not built" and not len(found.clients)
    assert paper.draw_tiers(found).axes
    assert not paper.checks(runs, found)["failed"].any()
    assert len(paper.claims_on("simulated", runs, found)) == 6


def test_claims_of_processes_are_read_as_those_of_the_simulation(runs):
    """The four of mixed and pure swarms, by the same readings."""
    real = paper.RealRuns(runs.clients, runs.fidelity, runs.clients)
    simulated = {each.claim: each for each in paper.measured_claims(runs)}
    found = paper.claims_on("virtual", runs, real)
    assert len(found) == 4 and all(each == simulated[each.claim] for each in found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: paper.swarm(SMALL, 1.5, 1), "fraction"),
        (lambda: paper.swarm(replace(SMALL, free_riders=-0.1), 0.5, 1), "free riders"),
        (lambda: paper.run_one(SMALL, 0.5, 1, kind="propshair"), "propshare"),
        (lambda: paper.run_one(replace(SMALL, reserve=1.0), 1.0, 1), "reserve"),
        (lambda: paper.run_one(replace(SMALL, seed_kilobytes_per_s=0.0), 1.0, 1), "seed"),
        (lambda: paper.vary("reserves", SMALL_SCALE, 1), "reserve"),
        (lambda: paper.scale("large"), "quick"),
    ],
)
def test_a_mistake_is_named(make, words):
    with pytest.raises(NetreproError, match=words):
        make()
