"""Frames over SST: what a datagram, a stream, and a stream that is given up bring on a line that loses packets."""

from __future__ import annotations

import numpy as np
import pytest

from netrepro.applications.web.frames import MEANS, send_frames
from netrepro.applications.web.run import SymmetricLine
from netrepro.errors import NetreproError

LATE_S = 0.2


def frames(over: str, packets: int, loss: float, count: int = 300):
    return send_frames(SymmetricLine(1.5, 27.5, 37, loss), over, packets, count, 3, late_s=LATE_S)


@pytest.mark.parametrize("over", MEANS)
def test_without_loss_every_frame_takes_one_way_and_its_transmission(over):
    line, delay_s = SymmetricLine(1.5, 27.5, 37), frames(over, 4, 0.0, 40).delay_s
    least_s = line.one_way_ms / 1e3 + line.seconds_for(4 * 1200)
    assert delay_s.min() > least_s and delay_s.iloc[10:].max() < 1.1 * least_s  # the window has grown


def test_a_datagram_is_whole_only_with_all_its_packets():
    """Within 4 standard errors of (1 - loss)^packets."""
    for packets, loss in ((1, 0.05), (4, 0.05)):
        expected = (1 - loss) ** packets
        error = np.sqrt(expected * (1 - expected) / 300)
        assert frames("datagrams", packets, loss).delay_s.notna().mean() == pytest.approx(expected, abs=4 * error)


def test_a_stream_brings_every_frame_and_one_that_is_given_up_brings_fewer_and_none_much_later():
    kept, given_up = (frames(over, 16, 0.05).delay_s for over in MEANS[1:])
    assert kept.notna().all() and kept.max() > 1.5 * LATE_S
    assert 0.5 < given_up.notna().mean() < 1
    assert given_up.max() < LATE_S + 0.055  # what was under way when it was given up


def test_means_that_do_not_exist_and_datagrams_of_five_packets_are_refused():
    with pytest.raises(NetreproError, match="datagrams, streams"):
        frames("stream", 1, 0.0)
    with pytest.raises(NetreproError, match="open a stream"):
        frames("datagrams", 5, 0.0)
