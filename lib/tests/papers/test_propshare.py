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
from netrepro.papers.propshare import readings, setting, study
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer
from netrepro.study import VIRTUAL, Runs, measure, read_once, vary

PRINTED = paper.Setting()
SMALL = replace(PRINTED, leechers=10, pieces=16)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", seed=3, repetitions=2)


def test_proportional_shares_reward_contribution_and_permuted_ones_do_not(runs):
    claim = load_claims("propshare").claim("rewards-contribution")
    measured = {each.claim: each for each in runs.measured_claims()}[claim.id]
    judgement = judge(claim, measured, "simulated")
    assert judgement.verdict == "agrees" and judgement.counts
    assert judge(claim, measured.broken(), "simulated").verdict == "disagrees"


def test_bittorrent_itself_rewards_contribution_as_measurements_of_it_say(runs):
    """Legout et al., "Clustering and sharing incentives in BitTorrent systems" (SIGMETRICS 2007)."""
    assert readings.of_trials(runs, "rank").loc[0.0].mean() > 0.5


def test_with_permuted_shares_free_riders_lose_nothing(runs):
    assert readings.of_trials(runs, "rider_cost", "free riders").loc[1.0].min() > 1.1
    assert readings.of_trials(runs, "rider_cost", "free riders, permuted").loc[1.0].mean() < 1.1


def test_fast_peers_gain_by_proportional_shares_and_slow_ones_lose(runs):
    rows = runs.table("clients", "figure 8")
    fast = rows[rows.upload_kilobytes_per_s > 200].groupby("fraction")["complete_s"].mean()
    slow = rows[rows.upload_kilobytes_per_s < 40].groupby("fraction")["complete_s"].mean()
    assert fast[1.0] < fast[0.0] and slow[1.0] > slow[0.0]


def test_a_small_reserve_is_hard_on_free_riders(runs):
    table = vary(runs, "riders")
    table = table[table.case == "propshare"].groupby("reserve")["rider_cost"].mean()
    assert tuple(table.index) == study.RESERVES and table[0.05] > table[0.4] + 0.2


def fake_runs(ours: list[float], theirs: list[float]) -> Runs:
    """Mean times of each kind in swarms at a fraction of one half."""
    times = pd.DataFrame({"ours_s": ours, "bittorrent_s": theirs})
    values = times.assign(ratio=times.ours_s / times.bittorrent_s, repetition=times.index, fraction=0.5)
    values = values.assign(case="figure 8", tier="simulated")
    return Runs(paper.STUDY, PRINTED, "simulated", "quick", 1, len(ours), 0.0, values)


def test_the_comparison_is_of_means_within_a_swarm():
    runs = fake_runs([90, 100, 110, 120], [100, 125, 100, 100])
    assert paper.of_trials(runs, "ratio").tolist() == pytest.approx([0.9, 0.8, 1.1, 1.2])
    row = paper.comparison(runs).loc[0.5]
    assert (row["trials"], row["ratio"], row["faster"]) == (4, pytest.approx(1.0), 0.5)
    assert row["low"] < 1 < row["high"] and row["p"] > 0.5


def test_a_clear_difference_is_found():
    random = Random(1)
    theirs = [100 + random.random() for _ in range(12)]
    row = paper.comparison(fake_runs([0.9 * time_s for time_s in theirs], theirs)).loc[0.5]
    assert row["faster"] == 1 and row["p"] < 0.001 and row["high"] < 0.91


def test_rates_are_uniform_on_a_logarithmic_axis():
    rates = setting.capacities(replace(SMALL, leechers=4000), 1)
    assert 20 <= min(rates) < 21 and 290 < max(rates) <= 300
    assert np.median(rates) == pytest.approx(SMALL.median_kilobytes_per_s, rel=0.05)


def test_pure_swarms_of_a_trial_have_the_same_capacities(runs):
    rows = runs.table("clients", "figure 8")
    by_fraction = {f: each.sort_values(["repetition", "client"]) for f, each in rows.groupby("fraction")}
    assert by_fraction[0.0]["upload_kilobytes_per_s"].tolist() == by_fraction[1.0]["upload_kilobytes_per_s"].tolist()
    assert by_fraction[0.5]["upload_kilobytes_per_s"].tolist() != by_fraction[1.0]["upload_kilobytes_per_s"].tolist()


def test_swapping_gives_every_leecher_the_other_choker():
    here, there = (setting.swarm(replace(SMALL, swapped=swapped), 7) for swapped in (False, True))
    for one, other in zip(here, there, strict=True):
        assert one.upload_kilobytes_per_s == other.upload_kilobytes_per_s
        assert one.is_seed or {one.kind, other.kind} == {"bittorrent", "propshare"}


def test_the_attacker_uploads_the_same_as_one_and_as_four():
    alone, split = (setting.swarm(replace(SMALL, fraction=1.0, identities=count), 7) for count in (1, 4))
    sums = [sum(p.upload_kilobytes_per_s for p in each if p.client == "attacker") for each in (alone, split)]
    assert sums[0] == pytest.approx(sums[1]) == pytest.approx(2 * SMALL.median_kilobytes_per_s)
    assert len(split) == len(alone) + 3


def test_seeds_that_know_clients_serve_one_identity():
    known = setting.make_choker(replace(SMALL, seeds_know_clients=True, identities=4), "seed", Random(1))
    first = SMALL.seeds
    assert set(known.decide(0, list(range(first, first + 6)), {})) == {first, first + 4, first + 5}


def test_only_propshares_clients_lose_what_nobody_uses():
    peers = setting.swarm(replace(PRINTED, lends=False), 1)
    assert {peer.kind for peer in peers if not peer.lends} == {"propshare"}
    assert all(peer.lends for peer in setting.swarm(PRINTED, 1))


def test_what_is_lost_shows_in_what_is_used_and_sent(runs):
    vary(runs, "lending")
    table = paper.lending_table(runs)
    assert list(table.index) == [True, False]
    time, sent, used = table["time"], table["sent"], table["used"]
    assert used["mean"][False] < used["mean"][True] and sent["mean"][False] < sent["mean"][True]
    assert (sent["low"] < sent["mean"]).all() and (time["mean"] < time["high"]).all()


def test_free_riders_are_so_many_and_give_nothing():
    peers = setting.swarm(replace(SMALL, free_riders=0.3), 7)
    assert sum(peer.kind == "free rider" and peer.upload_kilobytes_per_s == 0 for peer in peers) == 3


def test_the_class_s_swarm_has_nothing_to_share():
    own = paper.STUDY.case("class, no cap")
    free, capped = (
        read_once(paper.STUDY, paper.STUDY.case(f"class, {name}")) for name in ("no cap", "with upload caps")
    )
    assert len(free["clients"]) == 12 and own.file_bytes == 4 * 2**20
    assert free["used"] < 0.5 < 0.8 < capped["used"]
    assert free["clients"]["complete_s"].max() < 10  # a few choking rounds of 2 s


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
    return run_real_swarms(swarms, setting.constants(PRINTED), 1, pieces=3, blocks_per_piece=8)


def test_real_peers_get_the_file_and_send_no_more_than_their_links_carry(real):
    for peers in real:
        assert peers["is_right"].all() and peers["complete_s"].notna().all()
        assert all(check.holds for check in readings.checks_of(peers, PRINTED))
        # What was under way to peers that left is lost, and it is not much.
        assert 0 <= peers["sent_bytes"].sum() - peers["received_bytes"].sum() < 30 * BLOCK_BYTES


def test_links_limit_a_leecher_of_three_seeds(real):
    """It cannot have the file sooner than their links carry it; all choke it for up to a round at first."""
    (time_s,) = real[0]["complete_s"][~real[0].is_seed]
    at_best_s = 3 * 8 * BLOCK_BYTES / (230.0 * 1e3)
    assert at_best_s < time_s < 3 * at_best_s + PRINTED.round_s
    (received,) = real[0]["received_bytes"][~real[0].is_seed]
    assert received >= 3 * 8 * BLOCK_BYTES


def test_leechers_send_to_each_other(real):
    mixed = real[1][~real[1].is_seed]
    assert (mixed["sent_bytes"] > 0).sum() >= 2 and mixed["complete_s"].nunique() == 3


def test_swarms_of_processes_are_measured_as_the_simulated_ones():
    if why := why_no_processes():
        pytest.skip(why)
    few = {name: changes | {"leechers": 8, "pieces": 6} for name, changes in study.CASES.items() if name == "processes"}
    runs = measure(replace(paper.STUDY, cases=few, claims={}, on_kernels={}), repetitions=1)
    assert runs.tiers == ["simulated", "virtual"]
    trust = runs.trust_table()
    assert not trust["failed"].any() and ("virtual", "files that are not right") in trust.index
    for name in ("ours_s", "bittorrent_s"):
        times = runs.tier_table(name)[name].dropna()
        assert len(times) == 2 and (times["virtual"] / times["simulated"]).between(0.7, 1.4).all(), times


def test_claims_of_processes_are_the_four_of_mixed_and_pure_swarms():
    assert set(paper.STUDY.on_kernels) == set(study.CLAIMS) - {"sybil-gains-nothing", "free-riders-pay"}
    assert paper.STUDY.cannot(PRINTED, VIRTUAL) and not paper.STUDY.cannot(replace(PRINTED, processes=True), VIRTUAL)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: setting.swarm(replace(SMALL, fraction=1.5), 1), "fraction"),
        (lambda: setting.swarm(replace(SMALL, free_riders=-0.1), 1), "free riders"),
        (lambda: read_once(paper.STUDY, replace(SMALL, kind="propshair")), "propshare"),
        (lambda: read_once(paper.STUDY, replace(SMALL, reserve=1.0, fraction=1.0)), "reserve"),
        (lambda: read_once(paper.STUDY, replace(SMALL, seed_kilobytes_per_s=0.0)), "seed"),
    ],
)
def test_a_mistake_is_named(make, words):
    with pytest.raises(NetreproError, match=words):
        make()
