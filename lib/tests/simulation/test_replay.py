"""One queue alone, fed with recorded arrivals. Beside the kernel's queues: tests/emulation/test_kernels_queues.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import CoDel, DropTail, EcnThreshold, FqCoDel, NicPacer, Pie, Red, Sfq, SharedBuffer
from netrepro.simulation import replay


def arrivals(times_s, size_bytes=1250, flow=0, ecn=False) -> pd.DataFrame:
    return pd.DataFrame({"time_s": times_s, "size_bytes": size_bytes, "flow": flow, "ecn": ecn})


def test_a_link_sends_one_packet_after_the_other_and_its_queue_drops_what_does_not_fit():
    # A packet takes a millisecond. The first is sent at once, two wait, the fourth finds no room.
    found = replay(DropTail(packets=2), arrivals([0.5, 0.5, 0.5, 0.5, 0.5011, 0.6]), 10)
    assert found.decision.tolist() == ["sent"] * 3 + ["dropped"] + ["sent"] * 2
    assert found.decided_s.tolist() == pytest.approx([0.5, 0.501, 0.502, 0.5, 0.503, 0.6], abs=1e-12)
    assert not found.marked.any()


def test_marks_are_of_packets_that_can_be_marked():
    found = replay(EcnThreshold(10, 1), arrivals([0.0] * 4, ecn=[True, False, True, True]), 10)
    assert found.marked.tolist() == [False, False, True, True]


def test_a_link_that_asks_at_given_times_sends_then():
    found = replay(DropTail(packets=5), arrivals([0.0, 1.0, 2.0]), 10, asked_s=[0.5, 0.6, 2.0])
    assert found.decision.tolist() == ["sent", "sent", "waits"]
    assert found.decided_s.tolist()[:2] == [0.5, 2.0] and np.isnan(found.decided_s[2])


@pytest.mark.parametrize(
    "queue",
    [CoDel(50), FqCoDel(50), Sfq(20), Pie(100, target_ms=2), Red(50, 5, 15, 0.1), Red(50, 5, 15, variant="floyd1993")],
    ids=repr,
)
def test_a_queue_decides_the_same_when_the_link_asks_at_the_times_of_its_rate(queue):
    random = np.random.default_rng(1)
    came = arrivals(np.cumsum(random.exponential(0.9e-3, 4000)), flow=random.integers(0, 3, 4000))
    by_rate = replay(queue, came, 10)
    sent = by_rate[by_rate.decision == "sent"].decided_s
    in_vain = by_rate.decided_s[sent.index] + 1e-3  # after each packet; where one waits it is sent then
    asked = np.unique(np.round(np.concatenate([sent, in_vain]), 12))
    assert (by_rate.decision == "dropped").sum() > 10
    pd.testing.assert_frame_equal(replay(queue, came, 10, asked_s=asked), by_rate)


def test_what_cannot_be_replayed_is_refused():
    came = arrivals([0.0, 1.0])
    with pytest.raises(NetreproError, match="without flow, ecn"):
        replay(DropTail(packets=1), came[["time_s", "size_bytes"]], 10)
    with pytest.raises(NetreproError, match="arrivals that go back in time"):
        replay(DropTail(packets=1), came[::-1], 10)
    with pytest.raises(NetreproError, match="asked_s that go back in time"):
        replay(DropTail(packets=1), came, 10, asked_s=[1.0, 0.5])
    for queue in (SharedBuffer(10_000), NicPacer()):
        with pytest.raises(NetreproError, match="simulate a network"):
            replay(queue, came, 10)
    with pytest.raises(NetreproError, match="give all draws"):
        replay(Red(100, 1, 50, weight=1.0), arrivals([0.0] * 20), 10, draws=[])
