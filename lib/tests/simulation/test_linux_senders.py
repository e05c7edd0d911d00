"""What senders do about marks, losses and timeouts, against the RFCs' rules and a kernel's on the same description.

A link that is down for a while loses exactly the packets that come meanwhile, in the simulator as in the kernel.
"""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, emulate
from netrepro.networks import (
    Cable,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    Requests,
    Routing,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.queues import Queue
from netrepro.simulation import Hosts, simulate

SEGMENT = 1448
PLENTY = DropTail(packets=10_000)
SENT, SLOW, GAP = ("h1", "s1"), ("s1", "s2"), ("s2", "s3")
ROUND_TRIP_MS = 40.0
RETRY_MS = ROUND_TRIP_MS + 200


def line(
    traffic: Flow | Requests,
    tcp: Tcp,
    *down_s: tuple[float, float],
    queue: Queue = PLENTY,
    rate_mbps: float = 100.0,
    lasts_s: float = 5.0,
    backwards: bool = False,
) -> Experiment:
    """A bottleneck and a round trip of 40 ms; what comes to a link beyond it is lost while that is down."""
    net = Topology(
        (
            Cable("h1", "s1", Link(1000, 0, PLENTY)),
            Cable("s1", "s2", Link(rate_mbps, 0, queue)),
            Cable("s2", "s3", Link(10_000, 0, PLENTY)),
            Cable("s3", "h2", Link(1000, ROUND_TRIP_MS / 2, PLENTY)),
        ),
        "line",
    )
    source, destination = reversed(GAP) if backwards else GAP
    gap = dict(source=source, destination=destination, both_directions=False)
    changes = tuple(LinkChange(at, up=up, **gap) for begin, end in down_s for at, up in ((begin, False), (end, True)))
    return Experiment(
        net,
        (traffic,),
        lasts_s,
        tcp=tcp,
        changes=changes,
        routing=Routing(rerouting_ms=60_000),
        measure=Measure(packets=(SENT,), windows_interval_ms=1),
    )


def run(experiment: Experiment, tier: str) -> Measurements:
    return simulate(replace(experiment, clock_skew_ppm=0)) if tier == "simulated" else emulate(experiment, tier)


def on_both(test):
    """Run a test on the simulator and, where there is one, the virtual kernel."""
    tiers = ["simulated", pytest.param("virtual", marks=needs_virtual)]
    return pytest.mark.parametrize("tier", tiers)(test)


def sent_ms(found: Measurements) -> np.ndarray:
    """List the times (ms) at which the segments of the first flow left its host, from its first on."""
    packets = found.packets[(found.packets["size_bytes"] > 500) & (found.packets["flow"] == 0)]
    times = packets["time_s"].to_numpy() * 1e3
    return times - times[0]


def thresholds(found: Measurements) -> list[float]:
    """The values that ssthresh has had, in segments."""
    values = found.windows["slow_start_threshold_bytes"] / SEGMENT
    return [float(value) for value in values[values.ne(values.shift())] if np.isfinite(value)]


# Marks ---------------------------------------------------------------------------------------------------------------


def marked(control: str, *down_s: tuple[float, float], lasts_s: float = 1.5) -> Experiment:
    """One packet a millisecond, marked where 20 wait."""
    flow = Flow("h1", "h2", duration_s=lasts_s - 0.1, start_s=0.1)
    tcp = Tcp(control, ecn=True, delayed_ack_ms=0, hystart=False)
    return line(flow, tcp, *down_s, queue=EcnThreshold(1000, 20), rate_mbps=12.112, lasts_s=lasts_s)


def test_dctcps_receiver_acknowledges_what_it_held_back_before_the_mark_changes():
    """RFC 8257, section 3.2: where the mark changes behind a segment held back, two acknowledgements leave at once."""
    net = Topology(
        (Cable("h1", "s1", Link(1000, 20, PLENTY)), Cable("s1", "h2", Link(12.112, 0, EcnThreshold(1000, 20)))), "short"
    )
    flow, ports = Flow("h1", "h2", duration_s=6), (("s1", "h2"), ("h2", "s1"))
    tcp = Tcp("dctcp", ecn=True, hystart=False, delayed_ack_ms=40)
    found = run(Experiment(net, (flow,), 6, tcp=tcp, measure=Measure(packets=ports)), "simulated")
    sent = found.packets["source"] == "s1"
    data, answers = found.packets[sent & (found.packets["size_bytes"] > 500)], found.packets[~sent]
    # All packets are of one size: those that waited longest were marked.
    marked = data["wait_ms"].rank(ascending=False, method="first") <= found.links["marked_packets"].sum()
    # At the start it acknowledges every segment. At a change nothing stays held back: the count begins there.
    begin_s = data["time_s"][(marked != marked.shift()) & (data["time_s"] > 1)].iloc[0]
    held, echo, twice = 0, None, 0
    for mark, time_s in zip(marked, data["time_s"], strict=True):
        if mark != echo:
            twice += held > 0 and time_s > begin_s
        held = 0 if mark != echo or held == 1 else held + 1
        echo = mark
    times_s = answers["time_s"][answers["time_s"] > begin_s + 1e-3]
    assert twice >= 5 and (times_s.diff() < 1e-4).sum() == twice


@pytest.mark.parametrize("control", ["reno", "cubic", "dctcp"])
def test_a_loss_while_the_window_comes_down_for_a_mark_is_a_part_of_that_reduction(control):
    """Linux's tcp_enter_recovery does so, except for DCTCP: RFC 8257, section 3.5, asks it for half the window."""
    begins_s = run(marked(control), "simulated").windows.query("slow_start_threshold_bytes < inf")["time_s"].iloc[0]
    found = run(marked(control, (begins_s - 0.020, begins_s - 0.019)), "simulated")
    assert found.links["dropped_packets"].sum() == 1 == found.flows["retransmitted_packets"][0]
    meanwhile = found.windows.query(f"{begins_s} < time_s < {begins_s + 0.055}")
    windows, values = (
        (meanwhile[name] / SEGMENT).to_numpy() for name in ("window_bytes", "slow_start_threshold_bytes")
    )
    if control == "dctcp":
        cut = np.flatnonzero(np.diff(values))
        assert len(cut) == 1 and values[-1] == pytest.approx(windows[cut[0]] // 2, abs=1)
    else:
        assert len(set(values)) == 1


@on_both
@pytest.mark.parametrize("silent_rounds", [20, 30, 110])
def test_dctcps_estimate_forgets_a_sixteenth_a_round_trip_in_whole_1024ths(tier, silent_rounds):
    """Linux's dctcp_update_alpha. From 1 on; below 16 nothing is a sixteenth, and it falls to 0."""
    window = 100
    tcp = Tcp("dctcp", delayed_ack_ms=0, initial_window_segments=window, receive_window_bytes=window * SEGMENT)
    tcp = replace(tcp, slow_start_after_idle=False, tail_loss_probe=False)
    slow_s = 0.1 + (silent_rounds + 0.5) * ROUND_TRIP_MS / 1e3
    experiment = line(
        Flow("h1", "h2", duration_s=slow_s + 0.2, start_s=0.1),
        tcp,
        queue=EcnThreshold(1000, 70),
        rate_mbps=1000,
        lasts_s=slow_s + 0.4,
    )
    slower = tuple(LinkChange(at, *SLOW, rate_mbps=rate) for at, rate in ((slow_s, 10), (slow_s + 0.06, 1000)))
    found = run(replace(experiment, changes=slower), tier)
    windows = (found.windows["window_bytes"] / SEGMENT).to_numpy()
    values = (found.windows["slow_start_threshold_bytes"] / SEGMENT).to_numpy()
    cut = np.flatnonzero(np.isfinite(values))[0]
    alphas = [1024]
    while len(alphas) <= silent_rounds + 2:
        alphas.append(alphas[-1] - (alphas[-1] // 16 or alphas[-1]))
    expected = [windows[cut - 1] - windows[cut - 1] * alpha // 2048 for alpha in alphas]
    # Of the round trips since the first acknowledgement one more or less has ended.
    assert values[cut] in expected[-3:]


# Timeouts ------------------------------------------------------------------------------------------------------------

LOST_WINDOW = (0.12, 0.2)
BLIND = Tcp("reno", delayed_ack_ms=0, tail_loss_probe=False)


def rounds(found: Measurements, first_ms: float) -> list[int]:
    """Count the segments sent in each round trip from then on."""
    times = sent_ms(found)
    return np.bincount(((times[times > first_ms - 5] - first_ms) / ROUND_TRIP_MS + 0.2).astype(int)).tolist()


@on_both
@pytest.mark.parametrize("sack", [True, False])
def test_after_a_timeout_new_segments_are_sent_before_the_second_repair(tier, sack):
    """F-RTO, RFC 5682: the first repair's acknowledgement lets two new segments out, which tell of the rest."""
    found = run(line(Flow("h1", "h2", 60 * SEGMENT, start_s=0.1), replace(BLIND, sack=sack), LOST_WINDOW), tier)
    # From the fourth round on, as the kernel does: two acknowledgements told of the new ones, and let the window be.
    assert rounds(found, RETRY_MS)[:5] == ([1, 2, 2, 4, 5] if sack else [1, 2, 2, 2, 3])
    assert found.flows["timeouts"][0] == 1 and found.flows["retransmitted_packets"][0] == 10


@on_both
def test_after_a_timeout_with_nothing_new_to_send_repairs_follow_at_once(tier):
    found = run(line(Flow("h1", "h2", 10 * SEGMENT, start_s=0.1), BLIND, LOST_WINDOW), tier)
    assert rounds(found, RETRY_MS) == [1, 2, 4, 3]


@on_both
def test_what_left_within_a_round_trip_before_a_timeout_is_not_sent_again_for_it(tier):
    """RFC 8985, section 6.3: ten at once, then one by one; of the first 215 ms all are lost, the rest is under way."""
    paced = replace(BLIND, initial_window_segments=40, pacing=True, pacing_slow_start_ratio=0.1)
    found = run(line(Flow("h1", "h2", 60 * SEGMENT, start_s=0.1), paced, (0.12, 0.14 + 0.215)), tier)
    lost = found.links["dropped_packets"].sum()
    assert 10 < lost < 35 and found.flows["timeouts"][0] == 1
    assert found.flows["retransmitted_packets"][0] <= lost


# What arrived twice ---------------------------------------------------------------------------------------------------


def broken(flow: Flow, tcp: Tcp, *cuts: tuple[float, float, bool], **more) -> Experiment:
    """A line, of which packets to h2 (True) or to h1 (False) are lost from one moment to another, in s."""
    whole = line(flow, tcp, **more)
    changes = tuple(
        LinkChange(at, *(GAP if forwards else reversed(GAP)), up=up, both_directions=False)
        for begin, end, forwards in cuts
        for at, up in ((begin, False), (end, True))
    )
    return replace(whole, changes=changes)


def answered_once(*lost: int) -> Experiment:
    """Thirty segments, one a millisecond; some are lost, and all acknowledgements. The probe repeats the last, which is
    there already: its answer is the first thing that the sender hears."""
    tcp = Tcp("reno", delayed_ack_ms=0, initial_window_segments=30, receive_window_bytes=30 * SEGMENT)
    first_s = 0.1 + ROUND_TRIP_MS / 1e3
    holes = tuple((first_s + (place + 0.3) / 1e3, first_s + (place + 1.3) / 1e3, True) for place in lost)
    silence = (first_s + 0.01, first_s + 0.1, False)
    return broken(Flow("h1", "h2", 60 * SEGMENT, start_s=0.1), tcp, *holes, silence, rate_mbps=12.112)


@on_both
def test_a_segment_that_came_twice_takes_the_place_of_one_of_three_blocks(tier):
    """RFC 2883: beside a time stamp there is room for three. The third run is not told, and its four are sent again."""
    found = run(answered_once(0, 5, 10), tier)
    assert found.links_by_port.loc[GAP, "dropped_packets"] == 3
    assert found.flows["retransmitted_packets"][0] == 1 + 3 + 4 and found.flows["timeouts"][0] == 0


@on_both
def test_what_is_acknowledged_in_order_tells_how_long_losses_are_waited_for(tier):
    """Linux's RACK.rtt is that of the last segment it hears of, in order after those beyond. Those before the hole were
    under way for as long as the silence was: RACK's timer comes first, lets one repair out, and that tells the rest."""
    found = run(answered_once(5, 10, 15), tier)
    assert found.links_by_port.loc[GAP, "dropped_packets"] == 3
    assert found.flows["retransmitted_packets"][0] == 1 + 3 and found.flows["timeouts"][0] == 0


@on_both
@pytest.mark.parametrize("tail_is_lost", [False, True])
def test_a_probe_that_repeats_what_had_come_reduces_no_window(tier, tail_is_lost):
    """RFC 8985, section 7.4: what came twice tells that nothing was lost; a probe that repairs a loss costs half."""
    tcp = Tcp("reno", delayed_ack_ms=0, receive_window_bytes=10 * SEGMENT)
    second_s = 0.1 + 2 * ROUND_TRIP_MS / 1e3
    cuts = [(second_s + 0.03, second_s + 0.08, False)]  # no acknowledgement of that round
    if tail_is_lost:
        cuts.append((second_s + 0.0108, second_s + 0.03, True))
    found = run(broken(Flow("h1", "h2", 60 * SEGMENT, start_s=0.1), tcp, *cuts, rate_mbps=12.112), tier)
    assert found.flows["retransmitted_packets"][0] == 1 and found.flows["timeouts"][0] == 0
    assert found.links["dropped_packets"].sum() == 10
    assert len(thresholds(found)) == tail_is_lost


def test_what_an_overtaken_acknowledgement_tells_counts():
    """Over a round trip of 0.4 ms time stamps do not tell copy from original: each reduction for what comes late is
    undone by the acknowledgement of what came twice, which others overtake. Unheard, it costs up to half the rate."""
    late = Link(1000, 0.2, PLENTY, reordering=0.02, reordering_ms=0.3)
    back = Link(1000, 0.2, PLENTY, reordering=0.5, reordering_ms=0.2)

    def completion_ms(forth: Link, back: Link, seed: int) -> float:
        net = Topology((Cable("h1", "s1", forth, back), Cable("s1", "h2", Link(1000, 0, PLENTY))))
        experiment = Experiment(net, (Flow("h1", "h2", 10**7),), 60, seed, tcp=Tcp(hystart=False))
        return run(experiment, "simulated").flows["completion_ms"][0]

    in_order_ms = completion_ms(replace(late, reordering=0), replace(back, reordering=0), 1)
    assert max(completion_ms(late, back, seed) for seed in (1, 2, 3)) < 1.05 * in_order_ms


# Round trips and timers ----------------------------------------------------------------------------------------------


def timeout_after(rounds_before: int) -> float:
    """The timeout in ms of Linux's tcp_rtt_estimator after so many rounds of ten samples that are all the same."""
    mean = variation = largest = 2 * ROUND_TRIP_MS  # four times the deviation; of the handshake
    for _ in range(rounds_before):
        for sample in range(10):
            mean -= mean / 4
            largest = max(largest, mean)
            if sample == 0:  # what was sent after the last round is acknowledged
                variation -= (variation - largest) / 4
                largest = 10.0
    return ROUND_TRIP_MS + variation


@on_both
@pytest.mark.parametrize("rounds_before", [2, 6])
def test_a_timeout_forgets_a_quarter_of_its_variation_in_a_round_trip(tier, rounds_before):
    """Linux's way; RFC 6298's, of which each sample forgets a quarter, would be at the minimum after one round."""
    tcp = replace(BLIND, min_rto_ms=10, receive_window_bytes=10 * SEGMENT)
    cut_s = 0.1 + (rounds_before + 1.5) * ROUND_TRIP_MS / 1e3
    found = run(line(Flow("h1", "h2", 400 * SEGMENT, start_s=0.1), tcp, (cut_s, cut_s + 0.06)), tier)
    times = sent_ms(found)
    silence = np.argmax(np.diff(times) > 1.2 * ROUND_TRIP_MS)
    last_answer_ms = times[silence]  # which lets the last of the window out, and starts the timer anew
    assert times[silence + 1] - last_answer_ms == pytest.approx(timeout_after(rounds_before + 1), abs=3)


@on_both
def test_time_stamps_give_round_trips_where_everything_is_sent_twice(tier):
    """RFC 7323, section 4: each segment takes 600 ms, so that the timeout of the handshake is far too short."""
    found = run(line(Flow("h1", "h2", 12 * SEGMENT, start_s=0.1), BLIND, rate_mbps=1514 * 8 / 600e3, lasts_s=30), tier)
    assert found.flows["completion_ms"].notna().all() and found.flows["timeouts"][0] <= 4


# Windows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", ["reno", "cubic", "dctcp"])
def test_windows_are_whole_segments_and_their_shares_are_rounded_down(control):
    flow = Flow("h1", "h2", duration_s=4, start_s=0.1)
    queue = EcnThreshold(60, 20) if control == "dctcp" else DropTail(11)
    windows = run(line(flow, Tcp(control, delayed_ack_ms=0), queue=queue, rate_mbps=12.112), "simulated").windows
    segments = windows["window_bytes"].to_numpy() / SEGMENT
    values = windows["slow_start_threshold_bytes"].to_numpy() / SEGMENT
    cuts = np.flatnonzero(np.diff(np.where(np.isfinite(values), values, 1e9)))
    assert len(cuts) >= 2 and (segments == np.round(segments)).all()
    assert (values[cuts + 1] == np.round(values[cuts + 1])).all()
    if control == "reno":
        assert (np.abs(segments[cuts] // 2 - values[cuts + 1]) <= 1).all()


def test_in_congestion_avoidance_a_window_of_acknowledgements_gives_a_segment_more():
    """RFC 5681, section 3.1. One acknowledgement a millisecond: a segment more takes as many as the window has."""
    flow = Flow("h1", "h2", duration_s=3.9, start_s=0.1)
    found = run(line(flow, BLIND, queue=DropTail(100), rate_mbps=12.112, lasts_s=4), "simulated")
    windows = (found.windows["window_bytes"] / SEGMENT).to_numpy()
    steps = np.flatnonzero(np.diff(windows) != 0)[-13:]  # the last of them long after the recovery
    assert (np.diff(windows)[steps] == 1).all()
    assert steps[-1] - steps[0] == pytest.approx(windows[steps[1:]].sum(), abs=2)


@on_both
def test_cubic_leaves_slow_start_where_the_kernels_does(tier):
    """HyStart's rounds begin with the first segments; where they began at a window of 16, it is left at 72."""
    net = dumbbell(1, Link(100, 1), Link(10, 20, DropTail(50)))
    flow, look = Flow("h1", "h2", 300_000, start_s=0.1), Measure(windows_interval_ms=5)
    assert thresholds(run(Experiment(net, (flow,), 2, measure=look), tier))[0] == 60


@on_both
@pytest.mark.parametrize(("start_s", "segments"), [(0.1017, 60), (0.10025, 98)])
def test_a_receivers_clock_of_milliseconds_decides_where_slow_start_is_left(tier, start_s, segments):
    """Its buffer grows once a round trip as its time stamps tell it: 45 ms, or 46 where a tick falls between.

    One millisecond later one segment is not acknowledged at once, and HyStart's train breaks at that gap.
    """
    net = dumbbell(1, Link(1000, 0), Link(10, 22, DropTail(50)))
    flow, look = Flow("h1", "h2", 300_000, start_s=start_s), Measure(windows_interval_ms=5)
    assert thresholds(run(Experiment(net, (flow,), 2, measure=look), tier))[0] == segments


@on_both
def test_a_receiver_compresses_acknowledgements_by_the_round_trip_of_its_own(tier):
    """5 % of the least that it knows, here the first one: shorter than a packet's time, though a queue makes 12 ms."""
    net = dumbbell(1, Link(1000, 0.0125), Link(100, 0.05, DropTail(100)))
    look = Measure(packets=(("s2", "s1"),))
    packets = run(Experiment(net, (Flow("h1", "h2", duration_s=0.4),), 0.4, measure=look), tier).packets
    told = packets[packets["size_bytes"] > 66]  # acknowledgements with blocks
    assert told["time_s"].diff().median() == pytest.approx(1514 * 8 / 100e6, rel=0.05)  # one for each segment


# Handshakes and requests ---------------------------------------------------------------------------------------------


@on_both
def test_bbr_paces_by_its_round_trip_after_a_lost_syn(tier):
    """Linux's bbr_set_pacing_rate: the first sample, if only of a time stamp, corrects what was guessed."""

    def longest_queue(*down_s: tuple[float, float]) -> float:
        flow = Flow("h1", "h2", duration_s=2.5, start_s=0.1)
        experiment = line(flow, Tcp("bbr"), *down_s, rate_mbps=20)
        measure = Measure(queues=(("s1", "s2"),), queue_interval_ms=1)
        return run(replace(experiment, measure=measure), tier).queues["queue_packets"].max()

    assert longest_queue((0.09, 0.2)) == pytest.approx(longest_queue(), rel=0.1)


@on_both
@pytest.mark.parametrize(("linear", "waits_s"), [(4, [1, 1, 1, 1, 1, 2]), (0, [1, 2, 4])])
def test_the_first_repeated_syns_wait_no_longer_than_the_first(tier, linear, waits_s):
    """Linux's net.ipv4.tcp_syn_linear_timeouts, since 6.5; before it every timeout doubled the next."""
    flow = Flow("h1", "h2", SEGMENT, start_s=0.1)
    found = run(line(flow, Tcp("reno", syn_linear_timeouts=linear), (0.05, sum(waits_s) - 0.5), lasts_s=10), tier)
    times = found.packets["time_s"].to_numpy()
    assert np.diff(times)[: len(waits_s)] == pytest.approx(waits_s, rel=0.05)
    assert found.flows["connection_attempts"][0] == 1 + len(waits_s)


def first_burst(found: Measurements) -> int:
    return int((sent_ms(found) < 20).sum())


@on_both
def test_a_syn_that_was_repeated_for_nothing_leaves_the_initial_window(tier):
    """RFC 6298, section 5.7, and Linux's tcp_try_undo_spurious_syn: two lost ones leave a window of one segment."""
    far = Link(1000, 1500, PLENTY)
    net = Topology((Cable("h1", "s1", Link(1000, 0, PLENTY)), Cable("s1", "h2", far)))
    measure = Measure(packets=(SENT,))
    needless = run(
        Experiment(net, (Flow("h1", "h2", 20 * SEGMENT, start_s=0.1),), 20, measure=measure, tcp=Tcp("reno")), tier
    )
    assert first_burst(needless) == 10
    lost = run(line(Flow("h1", "h2", 20 * SEGMENT, start_s=0.1), Tcp("reno"), (0.09, 1.5)), tier)
    assert first_burst(lost) == 1


@on_both
def test_a_request_is_acknowledged_before_its_answer(tier):
    """On a link on which a segment of the answer takes longer than the timeout, the request is sent once only."""
    asked = Requests("h2", ("h1",), 400, 2 * SEGMENT, 2, start_s=0.1)
    found = run(line(asked, BLIND, rate_mbps=1514 * 8 / 400e3, lasts_s=10), tier)
    assert len(found.requests) == 2 and found.requests["answered_s"].notna().all()
    requests = found.links_by_port.loc[("h2", "s3")]
    # Two requests, the handshakes, and an acknowledgement of each segment of the two answers.
    assert requests["sent_packets"] <= 2 + 4 + 4 + 2


# Applications that send less than the window -------------------------------------------------------------------------

BURSTS = ((0.1, 400), (0.5, 5), (0.65, 5), (0.84, 400))  # when, and how many segments
BACK = ("h2", "s1")
SLOWER_AT_S, SLOWER_MS = 0.45, 200.0  # the way back from then on, so that nothing is acknowledged for a timeout
LISTEN = "import socket\nstream = socket.create_server(('', 5000)).accept()[0]\nwhile stream.recv(1 << 20): pass"


def write_bursts() -> None:
    """Write to h2, in a kernel."""
    with socket.create_connection(("10.0.0.2", 5000)) as connection:
        began = time.monotonic()
        for at, segments in BURSTS:
            time.sleep(began + at - time.monotonic())
            connection.sendall(bytes(segments * SEGMENT))
        time.sleep(1)


def on_kernel(net: Topology, tcp: Tcp) -> pd.DataFrame:
    with Emulation(net, tier="virtual", tcp=tcp, syscall_cost_ns=0) as kernel:  # so that imports take no time
        kernel["h2"].popen([sys.executable, "-c", LISTEN])
        kernel.sleep(0.5)
        with kernel.record(packets=(SENT,)) as recording:
            writing = kernel["h1"].start(write_bursts)
            kernel.sleep(SLOWER_AT_S)
            kernel.change_link(*BACK, delay_ms=SLOWER_MS, both=False)
            writing.result()
    return recording.packets()


def in_simulator(net: Topology, tcp: Tcp) -> pd.DataFrame:
    slower = LinkChange(SLOWER_AT_S, *BACK, delay_ms=SLOWER_MS, both_directions=False)
    hosts = Hosts(Experiment(net, (), 3, tcp=tcp, changes=(slower,), measure=Measure(packets=(SENT,))))
    connection = hosts.connect("h1", "h2")
    for at, segments in BURSTS:
        hosts.at(at, lambda now_s, size=segments * SEGMENT: connection.send(size, lambda now_s: None))
    hosts.run()
    return hosts.measurements().packets


@pytest.mark.parametrize("write", [in_simulator, pytest.param(on_kernel, marks=needs_virtual)])
@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_a_window_of_which_an_application_uses_little_comes_half_way_down_to_that(write, control):
    """RFC 2861, as Linux's tcp_cwnd_application_limited: what leaves when nothing was acknowledged for a timeout and
    the window does not hold it back, shows how much of that is used, the initial window at least."""
    net = Topology((Cable("h1", "s1", Link(1000, 0, PLENTY)), Cable("s1", "h2", Link(1000, ROUND_TRIP_MS / 2, PLENTY))))
    packets = write(net, Tcp(control, delayed_ack_ms=0, tail_loss_probe=False, hystart=False))
    times = packets[packets["size_bytes"] > 500]["time_s"].to_numpy()
    since_first = times - times[0] + BURSTS[0][0]
    (last_at, _), used, grown = BURSTS[-1], 10, 10 + 400
    burst = ((since_first > last_at - 0.005) & (since_first < last_at + 0.02)).sum()
    assert burst == (grown + used) // 2 - 5  # of the burst before, which is still under way


@needs_virtual
@pytest.mark.parametrize(("control", "think_ms"), [("reno", 150.0), ("cubic", 150.0), ("cubic", 400.0)])
def test_windows_of_an_application_that_pauses_are_the_kernels(control, think_ms):
    """Answers of 30 segments, a part of the window: within a timeout it stays, after one it starts again."""
    net = Topology((Cable("h1", "s1", Link(1000, 0, PLENTY)), Cable("s1", "h2", Link(100, ROUND_TRIP_MS / 2, PLENTY))))
    asked = Requests("h2", ("h1",), 100, 30 * SEGMENT, 8, think_ms=think_ms, start_s=0.1)
    tcp, look = Tcp(control, delayed_ack_ms=0), Measure(windows_interval_ms=5)
    experiment = Experiment(net, (asked,), 5, tcp=tcp, measure=look)
    simulated, kernel = (
        run(experiment, tier).windows.query("connection == 0").drop_duplicates("time_s").set_index("time_s")
        for tier in ("simulated", "virtual")
    )
    both = pd.merge_asof(kernel["window_bytes"], simulated["window_bytes"], on="time_s")
    assert np.isclose(both["window_bytes_x"], both["window_bytes_y"], atol=SEGMENT / 2).mean() > 0.98
