"""A baseline for all who ask, and serving by chance."""

from __future__ import annotations

from random import Random

import pytest

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import PropShare, ServingByChance

SENT = {"a": 9.0, "b": 1.0, "c": 0.0}


def test_with_a_baseline_none_who_asks_starves_and_the_whole_upload_is_shared():
    """A tenth is the newcomer's; of the rest half is shared equally, half in proportion."""
    weights = PropShare(Random(1), reserve=0.1, baseline=0.5).decide(0.0, list(SENT), SENT)
    assert weights == pytest.approx({"a": 0.45 * 0.9 + 0.15, "b": 0.45 * 0.1 + 0.15, "c": 0.1 + 0.15})
    assert sum(weights.values()) == pytest.approx(1.0)
    assert PropShare(Random(1)).decide(0.0, list(SENT), SENT) == pytest.approx({"a": 0.81, "b": 0.09, "c": 0.1})


def test_a_baseline_is_a_share():
    with pytest.raises(NetreproError, match="less than 1"):
        PropShare(Random(1), baseline=1.0)


def test_by_chance_a_peer_is_served_as_often_as_its_part_of_what_was_sent():
    """The optimistic unchoke is always served beside; it is one of those that were not drawn."""
    sent = {"a": 6.0, "b": 4.0}
    random = Random(3)
    alone = 0
    for _ in range(2000):
        weights = ServingByChance(random).decide(0.0, list(sent), sent)
        assert sum(weights.values()) == pytest.approx(1.0) and set(weights.values()) in ({1.0}, {0.5})
        alone += len(weights) == 1
    # One alone is served where neither was drawn, and the optimistic unchoke is the only one.
    assert alone / 2000 == pytest.approx(0.4 * 0.6, abs=0.04)


def test_by_chance_all_are_served_while_nobody_has_sent_anything():
    assert ServingByChance(Random(1)).decide(0.0, ["a", "b", "c", "d", "e"], {}) == pytest.approx(
        dict.fromkeys("abcde", 0.2)
    )
