"""Who is served with what share: the auction, the proportional share, and what a Sybil gains from each."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import CHOKERS, SLOTS, PropShare, RoundRobin, TitForTat, choker

GIVEN = {"a": 4.0, "b": 6.0, "c": 1.0, "d": 9.0}  # the example of a course's assignment, with its reserve of a tenth


def test_shares_are_those_of_a_course_s_example():
    shares = PropShare(Random(1), reserve=0.1).decide(10, ["a", "b", "e", "f"], GIVEN)
    assert shares["a"] == pytest.approx(0.36) and shares["b"] == pytest.approx(0.54)
    (newcomer,) = set(shares) - {"a", "b"}
    assert newcomer in ("e", "f") and shares[newcomer] == pytest.approx(0.1)


def test_the_winners_of_the_auction_get_equal_shares_whatever_they_bid():
    shares = TitForTat(Random(1)).decide(10, ["a", "b", "c", "d", "e"], GIVEN)
    assert {"a", "b", "d"} < set(shares) and len(shares) == SLOTS
    assert set(shares.values()) == {0.25}


def test_bittorrent_remembers_twenty_seconds_and_propshare_ten():
    ours, theirs = PropShare(Random(1)), TitForTat(Random(1), slots=2)
    peers = ["a", "b", "c", "d", "e"]
    for now_s, received in ((10, {"a": 9.0}), (20, {"a": 9.0, "b": 2.0}), (30, {"a": 9.0, "b": 2.0, "c": 1.0})):
        shares, winners = ours.decide(now_s, peers, dict(received)), theirs.decide(now_s, peers, dict(received))
    assert shares["c"] == pytest.approx(0.9) and len(shares) == 2  # the other is a newcomer at random
    assert next(iter(winners)) == "b"


def test_the_optimistic_unchoke_is_kept_for_thirty_seconds_and_rotated():
    auction = TitForTat(Random(1))
    peers = list(range(30))
    received = {0: 3.0, 1: 2.0, 2: 1.0}
    chosen = []
    for now_s in range(10, 310, 10):
        # The three best stay the best.
        received = {name: received[name] + 10 for name in received}
        (optimistic,) = set(auction.decide(now_s, peers, dict(received))) - {0, 1, 2}
        chosen.append(optimistic)
    assert all(len(set(chosen[i : i + 3])) == 1 for i in range(0, 30, 3)) and len(set(chosen)) > 5


@given(
    given=st.dictionaries(st.integers(0, 20), st.floats(1, 1e6), min_size=1),
    parts=st.integers(2, 5),
    seed=st.integers(0, 9),
)
def test_splitting_what_one_gives_into_identities_changes_no_proportional_share(given, parts, seed):
    whole = PropShare(Random(seed)).decide(10, list(given), given)
    victim, sent = next(iter(given.items()))
    split = {name: bytes_ for name, bytes_ in given.items() if name != victim}
    split |= {f"sybil {i}": sent / parts for i in range(parts)}
    shares = PropShare(Random(seed)).decide(10, list(split), split)
    assert sum(shares[f"sybil {i}"] for i in range(parts)) == pytest.approx(whole[victim])


def test_in_the_auction_the_best_bidder_wins_three_slots_by_splitting():
    bids = {"attacker": 9.0, "a": 2.0, "b": 2.0, "c": 2.0}
    split = {"s1": 3.0, "s2": 3.0, "s3": 3.0, "a": 2.0, "b": 2.0, "c": 2.0}
    assert TitForTat(Random(1)).decide(10, list(bids), bids)["attacker"] == 0.25
    shares = TitForTat(Random(1)).decide(10, list(split), split)
    assert sum(shares[name] for name in ("s1", "s2", "s3")) == 0.75


@given(
    name=st.sampled_from(sorted(CHOKERS)),
    rounds=st.lists(st.lists(st.integers(0, 9), unique=True), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_only_who_is_interested_is_served_and_nobody_gives_more_than_all(name, rounds, seed):
    random, received = Random(seed), dict.fromkeys(range(10), 0.0)
    asked = choker(name, Random(seed))
    for i, interested in enumerate(rounds):
        received = {peer: bytes_ + random.choice((0, 0, random.random())) for peer, bytes_ in received.items()}
        shares = asked.decide(10.0 * (i + 1), interested, received)
        assert set(shares) <= set(interested) and all(share > 0 for share in shares.values())
        assert sum(shares.values()) <= 1 + 1e-9
        assert shares or not interested or name == "free rider"


def test_the_control_gives_the_same_shares_to_others():
    peers, received = list(range(8)), {i: float(i) for i in range(1, 6)}
    real = PropShare(Random(1)).decide(10, peers, received)
    controls = [choker("permuted", Random(seed)).decide(10, peers, received) for seed in range(50)]
    assert all(sorted(shares.values()) == pytest.approx(sorted(real.values())) for shares in controls)
    mean = sum(shares.get(5, 0) for shares in controls) / 50
    assert mean < 0.7 * real[5]


def test_a_seed_serves_everybody_in_turn():
    seed, peers = RoundRobin(Random(1)), list(range(12))
    served: set[int] = set()
    for now_s in range(0, 90, 10):
        chosen = seed.decide(now_s, peers, {})
        assert len(chosen) == 4
        served |= set(chosen)
    assert served == set(peers)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: choker("propshair", Random(1)), "propshare"),
        (lambda: PropShare(Random(1), reserve=0), "reserve"),
        (lambda: PropShare(Random(1), reserve=1), "reserve"),
        (lambda: TitForTat(Random(1), slots=1), "slots"),
        (lambda: TitForTat(Random(1), round_s=0), "round"),
        (lambda: RoundRobin(Random(1), turn_s=1), "turns"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, words):
    with pytest.raises(NetreproError, match=words):
        make()


def test_a_peer_that_connects_anew_is_credited_with_what_it_has_sent_since():
    ours = PropShare(Random(1))
    ours.decide(10, ["x", "y"], {"x": 100.0, "y": 100.0})
    shares = ours.decide(20, ["x", "y"], {"x": 50.0, "y": 150.0})  # x began at 0 again
    assert shares == {"x": pytest.approx(0.45), "y": pytest.approx(0.45)}
