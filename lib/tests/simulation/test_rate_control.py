"""Pacing, BBR and HyStart: who decides when segments leave, and what queues they build."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.networks import Cable, DropTail, Experiment, Flow, Link, Measure, Measurements, Requests, Tcp, Topology
from netrepro.simulation import simulate

SEGMENT, FULL = 1448, 1514
PORT = ("s1", "h2")
AT_ONCE = Tcp("reno", delayed_ack_ms=0)


def run(rate: float, round_trip_ms: float, buffer: int, duration_s: float, tcp: Tcp, **link) -> Measurements:
    """One flow over one bottleneck."""
    narrow = Link(rate, round_trip_ms / 2, DropTail(packets=buffer), **link)
    wide = Link(rate, round_trip_ms / 2, DropTail(packets=10_000))
    net = Topology((Cable("h1", "s1", Link(1000, 0, DropTail(packets=10_000))), Cable("s1", "h2", narrow, wide)))
    measure = Measure(queues=(PORT,), queue_interval_ms=2, windows_interval_ms=5, packets=(("h1", "s1"),))
    return simulate(Experiment(net, (Flow("h1", "h2", duration_s=duration_s),), duration_s, measure=measure, tcp=tcp))


def gaps_ms(measured: Measurements) -> pd.Series:
    return measured.packets.query("size_bytes > 1000")["time_s"].diff().dropna() * 1e3


# Pacing -----------------------------------------------------------------------------------------------


def test_paced_segments_leave_evenly_over_the_round_trip():
    # 100 segments a round trip of 100 ms by the receiver's window, at 1 Gb/s: bursts without pacing.
    tcp = replace(AT_ONCE, receive_window_bytes=100 * SEGMENT)
    burst, paced = (
        gaps_ms(run(1000, 100, 1000, 5, replace(tcp, pacing=pacing, pacing_ratio=1.0, pacing_slow_start_ratio=1.0)))
        for pacing in (False, True)
    )
    line_ms = FULL * 8 / 1e6
    # Windows may grow to twice what is out while nobody limits them: gaps of half the even ones.
    assert (burst < 2 * line_ms).mean() > 0.9
    assert (paced < 0.3).mean() < 0.05 and paced.median() > 0.4


@pytest.mark.parametrize(("unpaced", "at_line_rate"), [(0, 0), (10, 9)])
def test_the_first_segments_leave_at_once_as_far_as_is_asked(unpaced, at_line_rate):
    tcp = replace(AT_ONCE, pacing=True, unpaced_segments=unpaced)
    first = gaps_ms(run(1000, 100, 1000, 1, tcp)).to_numpy()[:9]
    assert (first < 0.02).sum() == at_line_rate
    if unpaced == 0:
        # The initial window of 10 at twice the window over the round trip.
        assert first[1:] == pytest.approx(100 / 20, rel=0.01)


def window_at_first_loss(pacing: bool) -> float:
    # Aggarwal, Savage and Anderson (INFOCOM 2000), section 4.1: 5 Mb/s, 100 ms, 25 packets, segments of 576 bytes.
    tcp = replace(AT_ONCE, segment_bytes=536, sack=False, initial_window_segments=2, pacing=pacing)
    tcp = replace(tcp, pacing_ratio=1.0, pacing_slow_start_ratio=1.0, unpaced_segments=0)
    measured = run(5, 100, 25, 5, tcp)
    windows = measured.windows
    lost = windows["slow_start_threshold_bytes"].lt(np.inf).to_numpy().argmax()
    return windows["window_bytes"].iloc[:lost].max() / 536


def test_pacing_delays_the_first_loss_of_slow_start_and_makes_it_worse():
    # A burst of slow start piles up half its window: the first loss comes at a window of about twice the buffer,
    # and is felt one round trip later. Paced, the pipe and the buffer must be full first; a round trip later, by now
    # longer, the window is a little more than twice that.
    pipe = 5e6 * 0.1 / 8 / (536 + 66)
    burst, paced = window_at_first_loss(False), window_at_first_loss(True)
    assert 2 * 25 < burst < 1.5 * 2 * 2 * 25
    assert pipe + 25 < paced < 2.5 * (pipe + 25)
    assert paced > 1.5 * burst


def test_reno_gets_the_same_throughput_with_and_without_pacing_in_a_large_buffer():
    goodput = [
        run(20, 40, 100, 30, replace(AT_ONCE, pacing=pacing)).flows["goodput_mbps"][0] for pacing in (False, True)
    ]
    assert goodput == pytest.approx([20 * SEGMENT / FULL] * 2, rel=0.03)


# BBR --------------------------------------------------------------------------------------------------


BBR = Tcp("bbr")


@pytest.mark.parametrize(("rate", "round_trip_ms"), [(50, 40.0), (10, 100.0), (100, 10.0)])
def test_one_bbr_flow_fills_its_link_with_hardly_a_queue(rate, round_trip_ms):
    pipe = rate * 1e6 * round_trip_ms / 1e3 / 8 / FULL
    measured = run(rate, round_trip_ms, int(5 * pipe), 30, BBR)
    steady = measured.queues.query("time_s > 3")["queue_packets"]
    assert measured.flows["goodput_mbps"][0] > 0.94 * rate * SEGMENT / FULL
    # Probing adds a quarter of the pipe for one of eight round trips; the window bounds it to one pipe.
    assert steady.mean() < 0.35 * pipe and steady.max() < pipe
    assert measured.flows["retransmitted_packets"][0] == 0


def test_bbr_probes_for_the_round_trip_every_ten_seconds_for_200_ms():
    windows = run(50, 40, 600, 32, BBR).windows
    small = windows.query("window_bytes <= 4 * 1448.001")["time_s"].to_numpy()
    starts = small[np.r_[True, np.diff(small) > 1]]
    assert len(starts) == 3 and np.diff(starts) == pytest.approx(10.2, abs=0.3) and starts[0] > 9.9
    lasts = [small[(small >= start) & (small < start + 1)].max() - start for start in starts]
    assert lasts == pytest.approx([0.24] * 3, abs=0.08)


def test_bbr_leaves_startup_when_the_pipe_is_full_and_drains_its_queue():
    # Startup at 2/ln 2 fills two more pipes' worth of queue at most, then drains it within a few round trips.
    measured = run(50, 40, 1000, 2, BBR)
    pipe = 50e6 * 0.04 / 8 / FULL
    queue = measured.queues.set_index("time_s")["queue_packets"]
    assert pipe < queue.max() < 2.2 * pipe
    assert queue[queue.idxmax() + 0.6 :].mean() < 0.3 * pipe


def test_random_loss_does_not_slow_bbr_down():
    # Cardwell et al. (ACM Queue 2016), Fig. 8: up to 15 % of loss; a loss-based control collapses at 1 %.
    goodput = {name: run(20, 40, 300, 20, Tcp(name), loss=0.02).flows["goodput_mbps"][0] for name in ("bbr", "reno")}
    assert goodput["bbr"] > 0.85 * 20 * SEGMENT / FULL > 4 * goodput["reno"]


def test_a_short_buffer_costs_bbr_losses_but_no_throughput():
    measured = run(50, 40, 20, 20, BBR)
    assert measured.flows["retransmitted_packets"][0] > 0
    assert measured.flows["goodput_mbps"][0] > 0.85 * 50 * SEGMENT / FULL


def test_pauses_of_the_application_do_not_lower_bbrs_estimate():
    # 2 Mb/s are asked of a link of 50 Mb/s: samples that the application limits do not count.
    narrow = Link(50, 20, DropTail(packets=400))
    net = Topology((Cable("h1", "s1", Link(1000, 0)), Cable("s1", "h2", narrow)))
    entry = Requests("h2", ("h1",), 100, 300 * SEGMENT, 30, think_ms=100)
    requests = simulate(Experiment(net, (entry,), 60, tcp=BBR)).requests["completion_ms"]
    ideal = 40 + 300 * FULL * 8 / 50e3
    assert requests[5:].median() < 1.5 * ideal and requests[0] > 2 * ideal


def test_the_same_seed_gives_the_same_bytes_with_every_rate_control():
    for tcp in (BBR, replace(AT_ONCE, pacing=True)):
        first, second = (run(20, 20, 50, 3, tcp, loss=0.01) for _ in range(2))
        assert first.windows.to_csv() == second.windows.to_csv()
        assert first.packets.to_csv() == second.packets.to_csv()


# HyStart ----------------------------------------------------------------------------------------------


def test_hystart_leaves_slow_start_before_the_buffer_overflows():
    lost = {on: run(50, 60, 300, 3, Tcp("cubic", hystart=on)).flows["retransmitted_packets"][0] for on in (True, False)}
    assert lost[True] < 0.2 * lost[False] and lost[False] > 100
