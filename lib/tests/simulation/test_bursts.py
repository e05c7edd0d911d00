"""Bursts as Linux's TCP builds them (tcp_tso_autosize): their length, and that they change no rate."""

from __future__ import annotations

import numpy as np
import pytest

from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import CoDel, DropTail, Link
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate

MSS, SECONDS = 1448, 6
HOST_MBPS = 10_000


def burst_lengths(tcp, rate_mbps, queue, round_trip_ms=10.0):
    """Segments that leave the host with no gap between them, from 2 s on; and the goodput (Mb/s)."""
    host, port = Link(HOST_MBPS, 0, DropTail(packets=10_000)), Link(rate_mbps, round_trip_ms / 2, queue)
    network = Topology((Cable("h1", "s1", host), Cable("s1", "h2", port)))
    asked = Experiment(
        network,
        (Flow("h1", "h2", duration_s=SECONDS),),
        SECONDS,
        measure=Measure(packets=[("h1", "s1")]),
        tcp=tcp,
        host_delay_packets=0,
    )
    run = simulate(asked)
    assert run.trusted
    left = run.packets.query("time_s > 2")
    ends = np.flatnonzero(np.diff(left["time_s"]) > 3 * 1514 * 8e-6 / HOST_MBPS)
    return np.diff(ends), run.flows["goodput_mbps"][0]


@pytest.mark.parametrize("rate_mbps", [50, 100, 200])
def test_bbr_sends_what_its_rate_sends_in_a_millisecond_at_once(rate_mbps):
    lengths, goodput = burst_lengths(Tcp("bbr", bursts=True), rate_mbps, DropTail(packets=1000))
    expected = max(2, int(goodput * 1e6 / 8 / 1024 / MSS))
    assert abs(np.median(lengths) - expected) <= 1
    single, alone = burst_lengths(Tcp("bbr"), rate_mbps, DropTail(packets=1000))
    assert np.median(single) == 1 and goodput == pytest.approx(alone, rel=0.02)


@pytest.mark.parametrize(("rate_mbps", "expected"), [(50, 2), (200, 4)])
def test_pragues_bursts_last_a_quarter_of_a_millisecond(rate_mbps, expected):
    lengths, goodput = burst_lengths(Tcp("prague", bursts=True), rate_mbps, CoDel(1000, ecn=True))
    assert np.median(lengths) == expected
    assert goodput == pytest.approx(burst_lengths(Tcp("prague"), rate_mbps, CoDel(1000, ecn=True))[1], rel=0.03)


def test_a_sender_that_is_not_paced_waits_until_its_window_has_room_for_a_burst():
    lengths, goodput = burst_lengths(Tcp("cubic", bursts=True), 100, DropTail(packets=85))
    single, alone = burst_lengths(Tcp("cubic"), 100, DropTail(packets=85))
    expected = int(1.2 * goodput * 1e6 / 8 / 1024 / MSS)
    assert np.median(single) <= 2 and expected <= np.median(lengths) <= expected + 2  # two are acknowledged at a time
    assert goodput == pytest.approx(alone, rel=0.05)
