"""Switches that pause, against what is known of head-of-line blocking, and invariants."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.queueing.backpressure import drain

KAROL = {2: 0.75, 3: 0.6825, 4: 0.6553, 8: 0.6184}  # Karol, Hluchyj and Morgan 1987, table I


def carried(ports, past_head=()):
    """Measure the share that a switch carries whose inputs are always full, each packet for any output."""
    ways = [(("source", i), ("input", i), "switch", ("output", j)) for i in range(ports) for j in range(ports)]
    found = drain(ways, 10**6, room=50, window=400, until=4000, past_head=past_head, seed=3)
    return (found.delivered_at > 500).sum() / 3500 / ports


@pytest.mark.parametrize("ports", KAROL)
def test_head_of_line_blocking_leaves_what_karol_found(ports):
    assert carried(ports) == pytest.approx(KAROL[ports], rel=0.02)


def test_a_switch_that_looks_past_the_head_carries_all():
    everywhere = [(kind, place) for kind in ("source", "input") for place in range(4)]
    assert carried(4, ["switch", *everywhere]) > 0.99


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5, unique=True), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 5),
    st.booleans(),
)
def test_all_arrive_none_sooner_than_its_busiest_link_allows(ways, packets, window, looks_past):
    # Nodes ascend along every way, so that no packets can block each other in a circle.
    ways = [tuple(sorted(way)) for way in ways]
    found = drain(ways, packets, room=2, window=window, past_head=range(5) if looks_past else ())
    assert np.bincount(found.of_flow, minlength=len(ways)).tolist() == [packets] * len(ways)
    loads = {}
    for way in ways:
        for link in pairwise(way):
            loads[link] = loads.get(link, 0) + packets
    assert found.delivered_at[-1] >= max(loads.values())
    assert (np.diff(found.delivered_at) >= 0).all()


def test_a_rate_is_kept_and_a_link_of_ones_own_is_full():
    found = drain([("a", "b", "c")], 1000, rates={("b", "c"): 0.5})
    assert found.delivered_at[-1] == pytest.approx(2001, abs=1)
    assert found.ends(1)[0] == found.delivered_at[-1]


def test_packets_that_block_each_other_in_a_circle_are_told():
    ring = [(("source", i), i, (i + 1) % 3, (i + 2) % 3, ("sink", i)) for i in range(3)]
    with pytest.raises(NetreproError, match="block each other"):
        drain(ring, 50, room=1, window=20)
    with pytest.raises(NetreproError, match="1 or more"):
        drain([("a", "b")], 0)
