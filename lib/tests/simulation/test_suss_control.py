"""SUSS (SIGCOMM 2024) and HyStart, against the run that the authors publish and what the algorithm says."""

from __future__ import annotations

import numpy as np
import pytest

from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import simulate

PLENTY = DropTail(packets=10_000)


def completion(control: str, size_bytes: int, round_trip_ms=49.5, rate_mbps=48.0, queue=1000, **tcp):
    net = dumbbell(1, Link(1000, 0.01, PLENTY), Link(rate_mbps, round_trip_ms / 2 - 0.02, DropTail(queue)))
    ports = (("h1", "s1"),)
    measure = Measure(windows_interval_ms=1, packets=ports)
    spoken = Tcp(control, **({"receive_window_grows": False, "hystart_rounds_from_start": False} | tcp))
    return simulate(Experiment(net, (Flow("h1", "h2", size_bytes),), 60, tcp=spoken, measure=measure))


def from_first_acknowledgement_ms(measured) -> float:
    return measured.flows["completion_ms"][0] - 1.5 * 49.5


def exit_segments(measured) -> float:
    thresholds = measured.windows["slow_start_threshold_bytes"]
    return thresholds[np.isfinite(thresholds)].iloc[0] / 1448


# The example run in the authors' repository: least round trip 49.5 ms, 46 to 48 Mbit/s, no loss; before the fix of
# HyStart's rounds.
PUBLISHED_MS = {200_000: (166, 123), 500_000: (259, 183), 1_000_000: (342, 266), 2_000_000: (510, 434)}


@pytest.mark.parametrize("size_bytes", PUBLISHED_MS)
def test_the_authors_example_run(size_bytes):
    off, on = (from_first_acknowledgement_ms(completion(control, size_bytes)) for control in ("cubic", "suss"))
    assert off == pytest.approx(PUBLISHED_MS[size_bytes][0], rel=0.03)
    assert on == pytest.approx(PUBLISHED_MS[size_bytes][1], rel=0.03)


def test_the_saving_is_the_same_for_all_sizes_once_both_fill_the_path():
    saved = [
        completion("cubic", size).flows["completion_ms"][0] - completion("suss", size).flows["completion_ms"][0]
        for size in (1_000_000, 2_000_000, 4_000_000)
    ]
    assert np.ptp(saved) < 3 and np.mean(saved) == pytest.approx(76, abs=4)


def test_windows_grow_fourfold_twice_and_then_twofold():
    windows = completion("suss", 4_000_000).windows
    segments = np.interp([0.095, 0.145, 0.195, 0.247], windows["time_s"], windows["window_bytes"] / 1448)
    assert list(np.round(segments)) == pytest.approx([10, 40, 160, 320], rel=0.02)


def test_what_came_back_too_soon_caps_the_window():
    # The authors' log: at 608 segments. With rounds from the start the train of the round before is long enough.
    assert exit_segments(completion("suss", 4_000_000)) == pytest.approx(608, rel=0.05)
    assert exit_segments(completion("suss", 4_000_000, hystart_rounds_from_start=True)) < 300


def test_the_red_part_is_paced_evenly_after_the_guard_interval():
    # The authors' log of the second round: 20 red segments in 25.0 ms, after a guard of 11.3 ms.
    packets = completion("suss", 4_000_000).packets
    times_ms = packets[packets["size_bytes"] > 1000]["time_s"].to_numpy() * 1e3
    blue_end, red = times_ms[29], times_ms[30:50]
    assert red[0] - blue_end == pytest.approx(11.3, abs=0.7)
    assert np.diff(red) == pytest.approx(49.5 / 2 / 20, rel=0.05)
    without = completion("suss", 4_000_000, suss_guard=False).packets
    bare = without[without["size_bytes"] > 1000]["time_s"].to_numpy() * 1e3
    assert bare[30] - bare[29] < 1.5
    burst = completion("suss", 4_000_000, suss_pacing=False).packets
    at_once = burst[burst["size_bytes"] > 1000]["time_s"].to_numpy() * 1e3
    assert np.diff(at_once[30:50]).max() < 0.2


@pytest.mark.parametrize(
    "options", [{"suss_rounds": 0}, {"round_trip_ms": 9.0}, {"pacing": True}, {"round_trip_ms": 50, "rate_mbps": 3}]
)
def test_where_suss_may_not_quadruple_it_is_cubic(options):
    for size in (100_000, 1_000_000):
        suss = completion("suss", size, **options)
        cubic = completion("cubic", size, **options)
        assert suss.flows["completion_ms"][0] == pytest.approx(cubic.flows["completion_ms"][0], rel=2e-3)


def test_more_rounds_are_used_only_where_the_path_has_room():
    wide = [completion("suss", 3_000_000, 100, 1000, 10_000, suss_rounds=n).flows["completion_ms"][0] for n in range(4)]
    narrow = [completion("suss", 3_000_000, 100, 20, 400, suss_rounds=n).flows["completion_ms"][0] for n in range(4)]
    assert np.all(np.diff(wide) < 0)  # each round that quadruples saves time
    assert narrow[3] == narrow[2]  # the third would find the path full


def test_a_loss_ends_it_for_good():
    measured = completion("suss", 3_000_000, 60, 20, 20)
    assert measured.flows["retransmitted_packets"][0] > 10 and measured.flows["completion_ms"].notna().all()
    after = measured.windows[np.isfinite(measured.windows["slow_start_threshold_bytes"])]["window_bytes"]
    assert after.diff().max() / 1448 < 12


def test_hystart_leaves_slow_start_where_the_authors_saw_it_before_and_after_their_fix():
    # Their note to the kernel list: 50 Mbit/s, 150 ms, 619 packets: 516 segments by delay, 632 by the train after it.
    before, after = (
        completion("cubic", 8_000_000, 150, 50, 619, hystart_rounds_from_start=fixed) for fixed in (False, True)
    )
    assert exit_segments(before) == pytest.approx(516, rel=0.08)
    assert exit_segments(after) == pytest.approx(632, rel=0.03)
    # "300 kB more in 1.5 s"; the same bytes come sooner.
    assert after.flows["completion_ms"][0] < before.flows["completion_ms"][0] - 48


# The authors' test of 2025: 50 Mbit/s, 100 ms, a buffer of 413 packets. Time of 5 MB in s, losses of 20 MB, exit.
PUBLISHED_2025 = {"none": (1.5, 1105, None), "hystart": (1.29, 40, 530), "suss": (1.11, 35, 540)}


@pytest.mark.parametrize("name", PUBLISHED_2025)
def test_the_authors_test_of_2025(name):
    time_s, losses, exit_at = PUBLISHED_2025[name]
    control, options = {
        "none": ("cubic", {"hystart": False}),
        "hystart": ("cubic", {"hystart_rounds_from_start": True}),
        "suss": ("suss", {"hystart_rounds_from_start": True}),
    }[name]
    short, long = (completion(control, size, 100, 50, 413, **options) for size in (5_000_000, 20_000_000))
    assert short.flows["completion_ms"][0] / 1e3 - 0.15 == pytest.approx(time_s, abs=0.06)
    assert long.links["dropped_packets"].sum() == pytest.approx(losses, rel=0.25)
    if exit_at:
        assert exit_segments(long) == pytest.approx(exit_at, rel=0.03)
