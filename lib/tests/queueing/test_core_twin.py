"""The compiled core against its twin in plain Python: the same random numbers, the same results, bit for
bit.
"""

from __future__ import annotations

import _thread
import threading

import netrepro._core as core
import numpy as np
import pytest
import queueing_twin as twin
from scipy.stats import kstest

POINTS = ((6.0, 0.0), (6.0, 0.15), (13.0, 0.2), (33.0, 0.4), (33.0, 0.53), (667.0, 0.7), (20000.0, 1.0))
SAMPLERS = {
    "constant": (core.SizeSampler.constant(44), twin.Constant(44.0), 44.0),
    "exponential": (core.SizeSampler.exponential(44), twin.Exponential(44.0), 44.0),
    "piecewise": (core.SizeSampler.piecewise(*zip(*POINTS, strict=True)), twin.Piecewise(POINTS), 3167.0),
}


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_the_core_draws_the_sizes_that_its_twin_draws(kind, seed):
    compiled, plain, _ = SAMPLERS[kind]
    random = twin.RandomStream(seed, 0)
    assert compiled.draw(20_000, seed).tolist() == [plain(random) for _ in range(20_000)]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_waits_of_the_core_are_those_of_its_twin(kind):
    compiled, plain, mean = SAMPLERS[kind]
    ours = core.SingleServerQueue(compiled, mean / 0.8, 5).waits(20_000)
    assert ours.tolist() == twin.waits(plain, mean / 0.8, 5, 20_000)


@pytest.mark.parametrize("choice", ["hashed", "distinct", "same"])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["constant", "piecewise"])
@pytest.mark.parametrize("first_open", [False, True])
def test_the_delays_of_replicated_flows_are_those_of_the_twin(choice, correlation, kind, first_open):
    compiled, plain, mean = SAMPLERS[kind]
    setting = dict(
        paths=3,
        mean_interarrival=mean / 0.7,
        correlation=correlation,
        copies=2,
        choice=choice,
        round_gap=15.0,
        flow_gap=200.0,
        seed=9,
    )
    rounds = np.array([0.4, 1.0, 2.5, 4.0] * 300)
    model = core.ReplicatedFlows(bursts=compiled, **setting)
    model.advance(5000.0)
    ours = model.run_first_open(rounds).reshape(-1, 1) if first_open else model.run(rounds)
    theirs = twin.replicated_delays(plain, rounds.tolist(), warm_up=5000.0, first_open=first_open, **setting)
    assert ours.tolist() == theirs and ours.max() > 0


def test_exponential_numbers_are_exponential_also_in_the_tail():
    drawn = core.SizeSampler.exponential(1).draw(2_000_000, 3)
    assert kstest(drawn, "expon").pvalue > 0.001
    beyond = drawn[drawn > 7.7]  # the base layer's tail, about 900 draws
    assert kstest(beyond - 7.7, "expon").pvalue > 0.001


def test_the_ziggurats_layers_are_as_exact_as_the_mathematical_library():
    assert np.allclose(twin.HEIGHTS, np.exp(-np.array(twin.EDGES)), rtol=1e-13, atol=0)
    areas = np.array(twin.EDGES[1:256]) * np.diff(twin.HEIGHTS[1:])
    assert np.allclose(areas, twin.AREA, rtol=1e-9, atol=0)


def test_streams_of_one_seed_are_not_shifted_copies_of_each_other():
    words = [tuple(twin.RandomStream(1, stream).words) for stream in range(200)]
    assert len({word for words_of_one in words for word in words_of_one}) == 800


def test_batches_and_histogram_hold_every_wait():
    sampler = core.SizeSampler.constant(44)
    waits = core.SingleServerQueue(sampler, 55, 2).waits(10_000)
    means, counts = core.SingleServerQueue(sampler, 55, 2).batch_means(10, 1000)
    assert np.allclose(means, waits.reshape(10, 1000).mean(axis=1), rtol=1e-12)
    assert counts.sum() == 10_000 and counts[0] == np.sum(waits < 2.0**-20)
    for octave, low in enumerate(2.0 ** np.arange(-20, 12)):
        inside = counts[1 + 256 * octave : 1 + 256 * (octave + 1)].sum()
        assert inside == np.sum((waits >= low) & (waits < 2 * low))


def test_ctrl_c_stops_a_simulation_that_would_run_for_hours():
    queue = core.SingleServerQueue(core.SizeSampler.constant(1), 2, 1)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        queue.skip(10**13)
    timer.join()


def test_the_core_refuses_points_that_decrease():
    with pytest.raises(ValueError, match="decrease"):
        core.SizeSampler.piecewise([1, 2, 1.5], [0, 0.5, 1])
    with pytest.raises(ValueError, match="hashed, distinct or same"):
        core.ReplicatedFlows(
            bursts=core.SizeSampler.constant(1),
            paths=1,
            mean_interarrival=2,
            correlation=0,
            copies=1,
            choice="hash",
            round_gap=1,
            flow_gap=1,
            seed=1,
        )
