"""The block-level swarm against closed forms and conservation laws."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import CHOKERS, RoundRobin, choker
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer, run_swarm

FILE_BYTES = 8 * 16 * BLOCK_BYTES
SEED = SwarmPeer("seed", 100.0, is_seed=True)


class All:
    """Serves everybody with the weights given, from the beginning."""

    round_s = 10.0

    def __init__(self, weights: dict[int, float] | None = None):
        self.weights = weights or {}

    def decide(self, now_s, interested, received_bytes):
        return {peer: self.weights.get(peer, 1.0) for peer in interested}


def test_one_leecher_takes_as_long_as_the_seed_needs_for_the_file():
    table = run_swarm([SEED, SwarmPeer("bittorrent", 0.0)], 1, pieces=8, make_choker=lambda *_: All())
    time_s = table["complete_s"][1]
    assert FILE_BYTES / 1e5 <= time_s <= FILE_BYTES / 1e5 + 10  # the seed's first round begins within 10 s
    assert table["complete_s"][0] == 0


def test_two_who_give_nothing_share_the_seed_by_their_weights():
    takers = [SEED, SwarmPeer("free rider", 0.0), SwarmPeer("free rider", 0.0)]
    early = run_swarm(takers, 1, pieces=8, limit_s=20.0, make_choker=lambda *_: All({1: 3.0, 2: 1.0}))
    assert early["received_bytes"][1] == pytest.approx(3 * early["received_bytes"][2], rel=0.1)
    whole = run_swarm(takers, 1, pieces=8, make_choker=lambda *_: All({1: 3.0, 2: 1.0}))
    # What the first leaves, when it is complete, the second gets: the seed is never idle.
    assert whole["complete_s"][2] == pytest.approx(2 * FILE_BYTES / 1e5, abs=10)


def test_a_swarm_is_never_faster_than_all_its_upload_allows():
    peers = [SEED] + [SwarmPeer("bittorrent", 50.0)] * 10
    table = run_swarm(peers, 3, pieces=32)
    ideal = 10 * 4 * FILE_BYTES / (1e5 + 10 * 5e4)
    assert table["complete_s"].max() >= ideal
    assert table["complete_s"].max() < 3 * ideal


@settings(max_examples=40)
@given(
    kinds=st.lists(st.sampled_from(sorted(set(CHOKERS) - {"seed"})), min_size=1, max_size=12),
    seed=st.integers(0, 10**6),
    stays_s=st.sampled_from((0.0, 30.0)),
)
def test_what_is_sent_is_received_and_no_cap_is_passed(kinds, seed, stays_s):
    random = Random(seed)
    peers = [SEED, SEED] + [
        SwarmPeer(kind, 0.0 if kind == "free rider" else random.uniform(20, 300), stays_s=stays_s) for kind in kinds
    ]
    table = run_swarm(peers, seed, pieces=4, blocks_per_piece=4)
    leechers = table[~table.is_seed]
    assert leechers["complete_s"].notna().all()
    assert (leechers["received_bytes"] == 16 * BLOCK_BYTES).all()
    assert table["sent_bytes"].sum() == table["received_bytes"].sum()
    # A peer finishes the block that it is sending when it leaves.
    most = 1e3 * table["upload_kilobytes_per_s"] * table["present_s"] + BLOCK_BYTES
    assert (table["sent_bytes"] <= most).all()
    assert (table["sent_bytes"][table.kind == "free rider"] == 0).all()


def test_identities_of_a_client_share_what_they_have_and_never_serve_each_other():
    client = [SwarmPeer("propshare", 25.0, client="sybil")] * 4
    table = run_swarm([SEED, *client, *[SwarmPeer("propshare", 80.0)] * 8], 5, pieces=8)
    ours = table[table.client == "sybil"]
    assert ours["complete_s"].nunique() == 1
    assert ours["received_bytes"].sum() == FILE_BYTES
    alone = run_swarm([SEED, *client], 5, pieces=8)
    assert alone[alone.client == "sybil"]["sent_bytes"].sum() == 0


def test_the_same_seed_gives_the_same_swarm_and_another_one_another():
    peers = [SEED] + [SwarmPeer("propshare", 30.0 + i) for i in range(6)]
    first, again, other = (run_swarm(peers, seed, pieces=8) for seed in (1, 1, 2))
    assert first.equals(again) and not first.equals(other)


def test_who_stays_serves_on():
    peers = [SEED] + [SwarmPeer("bittorrent", 20.0 * 15 ** (i / 9)) for i in range(10)]
    leaves, stays = (
        run_swarm([SEED, *[SwarmPeer(p.kind, p.upload_kilobytes_per_s, stays_s=s) for p in peers[1:]]], 4, pieces=32)
        for s in (0.0, 1e4)
    )
    assert stays["complete_s"].max() < leaves["complete_s"].max()


def test_whoever_is_not_complete_at_the_limit_has_no_time():
    table = run_swarm([SEED, SwarmPeer("bittorrent", 10.0)], 1, pieces=8, limit_s=5.0)
    assert table["complete_s"].isna().tolist() == [False, True]


def test_a_choker_that_serves_strangers_is_refused():
    class Wrong(All):
        def decide(self, now_s, interested, received_bytes):
            return {0: 1.0}

    with pytest.raises(ValueError, match="interested"):
        run_swarm([SEED, SwarmPeer("bittorrent", 10.0)], 1, pieces=8, make_choker=lambda *_: Wrong())


def test_what_a_choker_raises_is_passed_on():
    class Broken(All):
        def decide(self, now_s, interested, received_bytes):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_swarm([SEED, SwarmPeer("bittorrent", 10.0)], 1, pieces=8, make_choker=lambda *_: Broken())


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ([SwarmPeer("bittorrent", 10.0)], "without a seed"),
        ([SEED], "seeds alone"),
        ([SEED, SwarmPeer("bitorrent", 10.0)], "bittorrent"),
        ([SEED, SwarmPeer("bittorrent", -1.0)], "rate"),
        ([SEED, SwarmPeer("bittorrent", float("nan"))], "rate"),
        (
            [SEED, SwarmPeer("seed", 1.0, client="x", is_seed=True), SwarmPeer("propshare", 1.0, client="x")],
            "identities",
        ),
    ],
)
def test_a_swarm_that_cannot_be_is_refused_by_name(peers, words):
    with pytest.raises(NetreproError, match=words):
        run_swarm(peers, 1, pieces=8)


def test_rates_are_measured_by_the_same_chokers_with_other_constants():
    made = []

    def hasty(kind, random):
        made.append(kind)
        return RoundRobin(random, round_s=2, turn_s=5) if kind == "seed" else choker(kind, random)

    run_swarm([SEED, SwarmPeer("propshare", 10.0)], 1, pieces=8, make_choker=hasty)
    assert "seed" in made and "propshare" in made


def test_without_lending_a_share_that_nobody_uses_is_lost():
    """The seed serves two at a half each. One is soon complete; then the other gets all of it, or its half still."""
    takers = [SwarmPeer("free rider", 0.0), SwarmPeer("free rider", 0.0)]
    weights = {1: 3 / 4, 2: 1 / 4}
    times = {}
    for lends in (True, False):
        seed = SwarmPeer("seed", 100.0, is_seed=True, lends=lends)
        table = run_swarm([seed, *takers], 1, pieces=8, make_choker=lambda *_: All(weights))
        times[lends] = table["complete_s"].to_numpy()
        assert (table["received_bytes"][1:] == FILE_BYTES).all()
    whole_s = FILE_BYTES / 1e5
    assert times[True][1:] == pytest.approx([whole_s * 4 / 3, whole_s * 2], abs=11)
    assert times[False][1:] == pytest.approx([whole_s * 4 / 3, whole_s * 4], abs=11)


def test_without_lending_the_weights_of_who_is_served_are_kept_while_another_wants_nothing():
    """A third of the rate, alone: three times as long, whoever sends meanwhile."""
    seed = SwarmPeer("seed", 100.0, is_seed=True, lends=False)
    table = run_swarm([seed, SwarmPeer("free rider", 0.0)], 1, pieces=8, make_choker=lambda *_: All({1: 1 / 3}))
    assert table["complete_s"][1] == pytest.approx(3 * FILE_BYTES / 1e5, abs=11)
