"""Congestion controls of our own in the kernel (lib/kernel/modules), beside the simulator's of the same description."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.source_routes import connections
from netrepro.emulation.virtual.speech import speech_of
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate

pytestmark = needs_virtual
SUSS = Tcp("suss", receive_window_bytes=64 * 2**20, receive_window_grows=False, hystart_rounds_from_start=True)
CUBIC = replace(SUSS, suss_rounds=0)
RENO = Tcp("reno", initial_window_segments=2, delayed_ack_ms=0, tail_loss_probe=False)
PACED = replace(RENO, pacing=True, unpaced_segments=0, pacing_slow_start_ratio=1.0, pacing_ratio=1.0)


def one_flow(tcp: Tcp, size: int, round_trip_ms: float, *, rate_mbps: float = 50.0, buffer: int = 0) -> Experiment:
    """A flow alone over a bottleneck with a buffer of its round trip, or of so many packets."""
    buffer = buffer or round(rate_mbps * 1e3 * round_trip_ms / 8 / 1514)
    bottleneck = Link(rate_mbps, round_trip_ms / 2 - 2, DropTail(packets=buffer))
    measure = Measure(packets=(("h1", "s1"),), windows_interval_ms=2.0)
    flow = Flow("h1", "h2", size_bytes=size, tcp=tcp)
    return Experiment(dumbbell(1, Link(1000.0, 1.0), bottleneck), (flow,), 8.0, measure=measure)


def both(experiment: Experiment) -> list[Measurements]:
    return [emulate(experiment, tier="virtual"), simulate(experiment)]


def completion_ms(found: Measurements) -> float:
    return float(found.flows["completion_ms"].iloc[0])


def sent_s(found: Measurements) -> np.ndarray:
    """List the times at which the sender sent its segments, from the first on."""
    times = found.packets[found.packets.size_bytes > 500]["time_s"].to_numpy()
    return times - times[0]


def by_round(found: Measurements, round_trip_ms: float) -> np.ndarray:
    """Segments sent in each round trip, while rounds are apart."""
    return np.bincount((sent_s(found) * 1e3 / round_trip_ms + 0.02).astype(int))


def exit_segments(found: Measurements) -> float:
    """The window at which slow start ended."""
    ends = found.windows[np.isfinite(found.windows.slow_start_threshold_bytes)]
    return float(ends.iloc[0].slow_start_threshold_bytes / 1448)


@pytest.mark.parametrize(
    ("round_trip_ms", "size"), [(49.5, 500_000), (100.0, 200_000), (100.0, 2_000_000), (250.0, 5_000_000)]
)
def test_suss_and_cubic_of_the_module_take_as_long_as_in_the_simulator(round_trip_ms, size):
    """And SUSS saves the more than a round trip that its authors saw; without fourfold rounds it saves nothing."""
    took = {
        name: [completion_ms(found) for found in both(one_flow(tcp, size, round_trip_ms))]
        for name, tcp in (("suss", SUSS), ("cubic", CUBIC))
    }
    for ours, simulated in took.values():
        assert ours == pytest.approx(simulated, rel=0.005)
    assert took["cubic"][0] - took["suss"][0] > 0.7 * round_trip_ms
    assert completion_ms(
        emulate(one_flow(replace(CUBIC, congestion_control="cubic"), size, round_trip_ms), tier="virtual")
    ) == pytest.approx(took["cubic"][0], rel=0.005)


def test_suss_quadruples_for_as_many_rounds_as_it_may_and_paces_what_is_beyond_a_doubling():
    """10, 40, 160 segments; the last 120 of them at even gaps of three quarters of the round trip / 120."""
    found, simulated = both(one_flow(SUSS, 1_000_000, 100.0))
    assert by_round(found, 100.2)[:4].tolist() == by_round(simulated, 100.2)[:4].tolist() == [10, 40, 160, 320]
    third = [sent_s(each)[50:210] for each in (found, simulated)]
    np.testing.assert_allclose(third[0], third[1], atol=0.0015)
    gaps_ms = np.diff(third[0][45:155]) * 1e3
    assert gaps_ms == pytest.approx(75.2 / 120, rel=0.01)
    twofold = emulate(one_flow(replace(SUSS, suss_rounds=1), 1_000_000, 100.0), tier="virtual")
    assert by_round(twofold, 100.2)[:3].tolist() == [10, 40, 80]
    at_once = emulate(one_flow(replace(SUSS, suss_pacing=False), 1_000_000, 100.0), tier="virtual")
    assert np.median(np.diff(sent_s(at_once)[55:205])) < 0.1e-3


def test_suss_stays_away_from_short_paths():
    """Where the least round trip is 10 ms or less the windows are CUBIC's."""
    took = [completion_ms(emulate(one_flow(tcp, 500_000, 9.0), tier="virtual")) for tcp in (SUSS, CUBIC)]
    assert took[0] == took[1]


def test_hystart_ends_slow_start_where_it_did_before_and_after_2025():
    """50 Mb/s, 150 ms, 619 packets: 516 segments by delay before the change, 632 by the train after it, as its own
    message says; the kernel's CUBIC has it."""
    ends = {
        mended: exit_segments(
            emulate(
                one_flow(replace(CUBIC, hystart_rounds_from_start=mended), 5_000_000, 150.0, buffer=619), tier="virtual"
            )
        )
        for mended in (False, True)
    }
    assert ends[False] == pytest.approx(516, rel=0.02) and ends[True] == pytest.approx(632, rel=0.02)
    kernels = emulate(one_flow(Tcp(receive_window_bytes=64 * 2**20), 5_000_000, 150.0, buffer=619), tier="virtual")
    assert exit_segments(kernels) == pytest.approx(ends[True], rel=0.01)


@pytest.mark.parametrize(("round_trip_ms", "size"), [(20.0, 30_000), (100.0, 300_000)])
def test_reno_that_counts_acknowledgements_grows_as_they_come(round_trip_ms, size):
    """Every second segment is acknowledged: a round adds half, where Reno that counts segments doubles."""
    counting = replace(RENO, delayed_ack_ms=40.0, counts="acknowledgements")
    found, simulated = both(one_flow(counting, size, round_trip_ms))
    assert completion_ms(found) == pytest.approx(completion_ms(simulated), rel=0.005)
    segments = emulate(one_flow(replace(counting, counts="segments"), size, round_trip_ms), tier="virtual")
    rounds = pd.DataFrame(by_round(each, round_trip_ms * 1.002)[:6] for each in (found, simulated, segments))
    if size > 100_000:
        assert rounds.iloc[2].tolist() == [2, 4, 8, 16, 32, 64] and (rounds.iloc[0][4:] < rounds.iloc[2][4:]).all()
    np.testing.assert_allclose(rounds.iloc[0], rounds.iloc[1], rtol=0.1)


@pytest.mark.parametrize("counts", ["segments", "acknowledgements"])
def test_paced_reno_spreads_every_window_over_the_round_trip_from_the_first_on(counts):
    tcp = replace(PACED, initial_window_segments=10, counts=counts)
    found, simulated = both(one_flow(tcp, 300_000, 100.0))
    # The simulator's first segment is followed after half a gap.
    assert completion_ms(found) == pytest.approx(completion_ms(simulated), rel=0.01)
    np.testing.assert_allclose(by_round(found, 100.2)[:4], by_round(simulated, 100.2)[:4], atol=2)
    assert np.diff(sent_s(found)[:10]) * 1e3 == pytest.approx(10.0, rel=0.01)
    kernels = emulate(one_flow(replace(tcp, unpaced_segments=10, counts="segments"), 300_000, 100.0), tier="virtual")
    assert np.diff(sent_s(kernels)[:10]).max() < 0.1e-3


@pytest.mark.parametrize(
    ("counts", "paced"), [("acknowledgements", False), ("segments", True), ("acknowledgements", True)]
)
def test_cubic_does_both_too_at_the_ratios_of_its_rate(counts, paced):
    """At twice the window over the round trip a first window of ten segments takes half of it."""
    tcp = Tcp("cubic", pacing=paced, unpaced_segments=0, counts=counts, hystart=False)
    found, simulated = both(one_flow(tcp, 300_000, 100.0))
    assert completion_ms(found) == pytest.approx(completion_ms(simulated), rel=0.01)
    assert sent_s(found)[9] == pytest.approx(0.045 if paced else 0.0, abs=0.0005)
    plain = emulate(one_flow(replace(tcp, counts="segments"), 300_000, 100.0), tier="virtual")
    assert (completion_ms(found) == completion_ms(plain)) == (counts == "segments")


@pytest.mark.parametrize(
    ("tcp", "said"),
    [
        (Tcp("bbr", counts="acknowledgements"), "bbr with counts"),
        (Tcp("reno", counts="bytes"), "reno with counts = 'bytes'"),
        (replace(PACED, congestion_control="bic"), "unpaced_segments = 0"),
        (replace(PACED, unpaced_segments=4), "unpaced_segments = 4"),
    ],
)
def test_what_only_reno_and_cubic_do_is_refused_of_others(tcp, said):
    with pytest.raises(NetreproError, match=said):
        experiment = one_flow(tcp, 1000, 20.0)
        speech_of(experiment, connections(experiment))
