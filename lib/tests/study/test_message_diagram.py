"""The diagram has an arrow a message and a cross for each lost one; segments are followed to where they are lost."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from netrepro.applications.own_node.raft import run_raft
from netrepro.applications.own_node.run import Crash, Scenario
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, LinkChange, Measure, Tcp, dumbbell
from netrepro.protocols.judge import announcements_of
from netrepro.protocols.message_log import ARRIVED, LOST, MESSAGE_COLUMNS, UNDER_WAY
from netrepro.simulation import simulate
from netrepro.study.message_diagram import ACK, DATA, MOST_ARROWS, draw_messages, draw_time_sequence, segments_of
from netrepro.style import is_empty

ROWS = [
    ("a", "b", "ask", 0.0, 0.1, ARRIVED),
    ("b", "a", "tell", 0.2, 0.3, ARRIVED),
    ("a", "c", "ask", 0.3, math.nan, LOST),
    ("c", "a", "tell", 0.95, math.nan, UNDER_WAY),
]
MESSAGES = pd.DataFrame(ROWS, columns=MESSAGE_COLUMNS)
LIVES = pd.DataFrame([("a", 0.0, 1.0), ("b", 0.0, 0.4), ("b", 0.6, 1.0)], columns=["node", "up_s", "down_s"])


def arrows(figure: Figure, fate: str | None = None) -> list[FancyArrowPatch]:
    return [patch for patch in figure.axes[0].patches if patch.get_gid() == fate or fate is None]


def lines(figure: Figure, gid: str) -> list:
    return [line for line in figure.axes[0].lines if line.get_gid() == gid]


def test_there_is_an_arrow_a_message_from_sender_to_receiver_and_a_cross_for_each_that_is_lost():
    figure = draw_messages(MESSAGES)
    assert len(arrows(figure)) == 4 and len(arrows(figure, ARRIVED)) == 2 and len(lines(figure, "cross")) == 1
    begins, ends = arrows(figure)[0]._posA_posB
    assert tuple(begins) == (0.0, 0) and tuple(ends) == (0.1, -1)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a", "b", "c"]
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {"ask", "tell", "lost"}
    assert not is_empty(figure)


def test_one_kind_has_one_colour_and_others_have_another():
    figure = draw_messages(MESSAGES)
    colours = [patch.get_edgecolor() for patch in arrows(figure)]
    assert colours[0] == colours[2] and colours[1] == colours[3] and colours[0] != colours[1]
    part = draw_messages(MESSAGES, between=(0.1, 0.25))
    assert [patch.get_edgecolor() for patch in arrows(part)] == [colours[1]]


def test_a_host_that_is_down_has_no_line():
    figure = draw_messages(MESSAGES, between=(0.0, 1.0), lives=LIVES)
    spans = [list(line.get_xdata()) for line in lines(figure, "host")]
    assert spans == [[0.0, 1.0], [0.0, 0.4], [0.6, 1.0], [0.0, 1.0]]
    later = draw_messages(MESSAGES, between=(0.7, 1.0), lives=LIVES)
    assert [list(line.get_xdata()) for line in lines(later, "host")] == [[0.7, 1.0]] * 3


def test_leaders_and_commits_are_marked_at_their_host():
    rows = [
        (0.1, "b", 1, "leader", 7, None, None),
        (0.2, "a", 1, "commit", None, 1, "x"),
        (5.0, "a", 1, "commit", None, 2, "y"),
        (0.3, "c", 1, "note", None, None, "waits"),
    ]
    figure = draw_messages(MESSAGES, announced=announcements_of(rows))
    (star,), (commits,) = lines(figure, "leader"), lines(figure, "commits")
    assert list(star.get_xydata()[0]) == [0.1, -1] and commits.get_xydata().tolist() == [[0.2, 0]]
    assert "commits" in {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    texts = {text.get_text(): tuple(text.xy) for text in figure.axes[0].texts}
    assert texts == {"leads term 7": (0.1, -1), "waits": (0.3, -2)}


def test_a_time_in_which_somebody_is_cut_off_is_shaded():
    cuts = pd.DataFrame([("a", 0.05, 0.2), ("b, c", 5.0, 6.0)], columns=["names", "begins_s", "ends_s"])
    figure = draw_messages(MESSAGES, between=(0.1, 0.9), cuts=cuts)
    (shade,) = [patch for patch in figure.axes[0].patches if patch.get_gid() == "cut"]
    assert (shade.get_x(), shade.get_width()) == pytest.approx((0.1, 0.1))
    assert [text.get_text() for text in figure.axes[0].texts] == ["cut off: a"]


def test_only_the_named_hosts_and_times_are_drawn_and_what_cannot_be_seen_is_refused():
    assert len(arrows(draw_messages(MESSAGES, names=["b", "a"]))) == 2
    for how in (dict(between=(0.4, 0.5)), dict(names=["b", "c"])):
        with pytest.raises(NetreproError, match="0 messages"):
            draw_messages(MESSAGES, **how)
    with pytest.raises(NetreproError, match="no message of 'd'"):
        draw_messages(MESSAGES, names=["a", "d"])
    many = pd.concat([MESSAGES.iloc[:1]] * (MOST_ARROWS + 1))
    with pytest.raises(NetreproError, match=f"{MOST_ARROWS + 1} messages"):
        draw_messages(many)


def test_the_librarys_raft_has_an_arrow_a_message_too():
    trial = run_raft(Scenario(nodes=3, seconds=1.0, loss=0.1, faults=(Crash("leader", 0.5, 0.8),)))
    table = trial.messages[trial.messages.sent_s <= 0.6]
    figure = draw_messages(trial.messages, between=(0.0, 0.6), lives=trial.lives, announced=trial.announced)
    assert len(arrows(figure)) == len(table) and len(lines(figure, "cross")) == (table.fate == LOST).sum() > 0
    assert len(lines(figure, "host")) == len(set(table.sender) | set(table.receiver))


# TCP's segments.

PORTS = (("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("h2", "s2"), ("s2", "s1"), ("s1", "h1"))


def flow(bottleneck: Link, size_bytes: int = 200_000, packets=PORTS, **more):
    network = dumbbell(1, Link(100, 2), bottleneck)
    look = Measure(packets=packets)
    return simulate(Experiment(network, (Flow("h1", "h2", size_bytes),), 3.0, measure=look, tcp=Tcp("reno"), **more))


def test_every_packet_is_followed_and_those_that_are_lost_are_those_that_the_queue_dropped():
    measured = flow(Link(10, 10, DropTail(packets=8)))
    segments = segments_of(measured, 0)
    links = measured.links_by_port
    data, acks = segments[segments.kind == DATA], segments[segments.kind == ACK]
    assert len(data) == links.loc[PORTS[0], "sent_packets"] and len(acks) == links.loc[PORTS[3], "sent_packets"]
    assert (data.fate == LOST).sum() == links.loc[PORTS[1], "dropped_packets"] > 1
    assert set(data.lost_before[data.fate == LOST]) == {"s1"} and set(acks.fate) == {ARRIVED}
    # All that was not lost has come: what the receiver got.
    assert (data.fate == ARRIVED).sum() == links.loc[PORTS[2], "sent_packets"]
    assert list(data.number) == list(range(1, len(data) + 1))


def test_a_segments_way_is_delays_and_transmissions_and_the_wait_for_those_before_it():
    segments = segments_of(flow(Link(10, 10, DropTail(packets=1000)), 30_000), 0)
    came = segments[(segments.kind == DATA) & (segments.fate == ARRIVED)]
    ways_ms = ((came.received_s - came.sent_s) * 1e3).to_numpy()
    # The SYN is first, alone and small: two delays of 2 ms, 10 ms, and some bytes at 10 and at 100 Mb/s.
    assert ways_ms[0] == pytest.approx(14.0, abs=0.1)
    # Ten segments leave at once: each waits for those before, 1.2112 ms each at 10 Mb/s less .1211 ms at 100 Mb/s.
    burst = ways_ms[np.flatnonzero(ways_ms > 15)[:10]]
    assert np.diff(burst) == pytest.approx(1514 * 8e-6 * (1e3 / 10 - 1e3 / 100), rel=2e-4)  # ports' clocks differ


def test_losses_on_a_wire_are_found_too():
    measured = flow(Link(10, 10, DropTail(packets=1000), loss=0.1))
    data = segments_of(measured, 0)
    lost = data[data.fate == LOST]
    expected = measured.links_by_port.lost_packets
    assert len(lost[lost.kind == DATA]) == expected[PORTS[1]] > 0 and len(lost[lost.kind == ACK]) == expected[PORTS[4]]
    assert set(lost.lost_before[lost.kind == DATA]) == {"s2"}


def test_segments_are_drawn_in_both_ways():
    segments = segments_of(flow(Link(10, 10, DropTail(packets=8))), 0)
    begin_s = segments.sent_s.min()
    between = (begin_s, begin_s + 0.15)
    shown = segments[segments.sent_s.between(*between)]
    assert len(arrows(draw_messages(segments, between=between))) == len(shown) > 20
    (axis,) = draw_time_sequence(segments).axes
    data = segments[segments.kind == DATA]
    drawn = {line.get_label(): len(line.get_xdata()) for line in axis.lines}
    fates = data.fate.value_counts()
    assert drawn == {"sent": len(data), "received": fates[ARRIVED], "lost": fates[LOST]}


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(NetreproError, match="no flow 3"):
        segments_of(flow(Link(10, 10)), 3)
    with pytest.raises(NetreproError, match="from s1 on to h2"):
        segments_of(flow(Link(10, 10), packets=PORTS[:1]), 0)
    with pytest.raises(NetreproError, match="links that vary"):
        segments_of(flow(Link(10, 10, jitter_ms=1.0)), 0)
    with pytest.raises(NetreproError, match="links that vary"):
        segments_of(flow(Link(10, 10), changes=(LinkChange(1.0, "s1", "s2", rate_mbps=5.0),)), 0)
    with pytest.raises(NetreproError, match="link to h2 loses"):
        lossy = dumbbell(1, Link(100, 2, loss=0.01), Link(10, 10))
        look = Measure(packets=PORTS)
        segments_of(simulate(Experiment(lossy, (Flow("h1", "h2", 20_000),), 3.0, measure=look)), 0)
    with pytest.raises(NetreproError, match="no segment"):
        draw_time_sequence(segments_of(flow(Link(10, 10)), 0), between=(2.5, 2.6))
