"""M/G/1 waits: closed forms against each other, against samples of their definition, and against the
simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.queueing.mg1 import (
    md1_wait_cdf,
    md1_wait_quantile,
    mean_wait,
    mm1_wait_cdf,
    mm1_wait_quantile,
    simulate_waits,
    tail_wait_exponential,
    tail_wait_when_busy,
    wait_quantile_bounds,
)
from netrepro.queueing.service import ConstantService, ExponentialService, PiecewiseService

WEB_SEARCH = PiecewiseService(load_flow_sizes("web_search").points)
SERVICES = {"constant": ConstantService(44), "exponential": ExponentialService(44), "web search": WEB_SEARCH}
loads = st.floats(0.01, 0.97)


# Means.


@given(loads)
def test_the_wait_of_an_md1_queue_is_half_that_of_an_mm1_queue(load):
    assert mean_wait(load, ConstantService(3)) == pytest.approx(mean_wait(load, ExponentialService(3)) / 2)


@given(loads)
def test_bursts_of_m_packets_wait_load_m_over_two_times_one_minus_load(load):
    """RepNet, appendix A: lambda = load / M."""
    assert mean_wait(load, ConstantService(44)) == pytest.approx(load * 44 / (2 * (1 - load)), rel=1e-12)


def test_the_moments_of_web_search_are_those_of_its_distribution():
    flows = load_flow_sizes("web_search")
    assert WEB_SEARCH.mean == pytest.approx(flows.mean, rel=1e-12)
    assert WEB_SEARCH.second_moment == pytest.approx(flows.second_moment, rel=1e-12)


@given(loads)
def test_the_mean_of_the_exact_distributions_is_pollaczek_and_khinchines(load):
    """E[W] is the integral of P(W > t); Simpson's rule between the kinks of M/D/1."""
    grid = np.linspace(0, 1, 41)
    weights = np.ones(41)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    weights /= 120
    steps = math.ceil(40 / (1 - load))
    total = weights @ (1 - md1_wait_cdf(np.arange(steps) + grid[:, np.newaxis] * (1 - 1e-13), load, 1.0))
    assert total.sum() == pytest.approx(mean_wait(load, ConstantService(1)), rel=1e-7)
    mm1 = weights @ (1 - mm1_wait_cdf(np.arange(steps) + grid[:, np.newaxis], load, 1.0))
    assert mm1.sum() == pytest.approx(mean_wait(load, ExponentialService(1)), rel=1e-7)


# Distributions.


def test_the_md1_distribution_agrees_with_the_alternating_formula_where_that_one_is_accurate():
    """P(W <= t) = (1 - load) sum over j <= t of exp(a) (-a)^j / j!, a = load (t - j) (Erlang 1909)."""
    for load in (0.1, 0.5, 0.9):
        for t in np.linspace(0, 8, 33):
            terms = [math.exp(load * (t - j)) * (-load * (t - j)) ** j / math.factorial(j) for j in range(int(t) + 1)]
            assert float(md1_wait_cdf(t, load, 1.0)) == pytest.approx((1 - load) * sum(terms), abs=1e-9)


@given(loads)
def test_a_job_finds_the_server_idle_with_probability_one_minus_load(load):
    assert float(md1_wait_cdf(0, load, 44)) == pytest.approx(1 - load, rel=1e-12)
    assert float(mm1_wait_cdf(0, load, 44)) == pytest.approx(1 - load, rel=1e-12)


@given(loads)
def test_the_md1_distribution_is_continuous_at_multiples_of_the_service_time(load):
    multiples = np.arange(1.0, 30.0)
    jump = md1_wait_cdf(multiples, load, 1.0) - md1_wait_cdf(multiples * (1 - 1e-14), load, 1.0)
    assert np.max(np.abs(jump)) < 1e-12


@given(loads, st.floats(0.001, 0.9999))
def test_quantiles_invert_the_exact_distributions(load, probability):
    for cdf, quantile in ((mm1_wait_cdf, mm1_wait_quantile), (md1_wait_cdf, md1_wait_quantile)):
        wait = quantile(probability, load, 44)
        if probability <= 1 - load:
            assert wait == 0
        else:
            assert float(cdf(wait, load, 44)) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("load", [0.05, 0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99, 0.999])
def test_the_bounds_on_a_quantile_enclose_the_exact_one(load, probability):
    for exact, service in (
        (mm1_wait_quantile(probability, load, 44), ExponentialService(44)),
        (md1_wait_quantile(probability, load, 44), ConstantService(44)),
    ):
        low, high = wait_quantile_bounds(probability, load, service)
        assert low - 1e-9 <= exact <= high + 1e-9
        assert high - low <= 0.035 * high  # widest at load .95: a cell is 1.6 % of a residual, rounded up or down


def test_a_sample_of_geometric_sums_of_residuals_has_the_web_search_quantile():
    """Pollaczek and Khinchine by their definition: as many residuals as busy predecessors, geometric in
    number.
    """
    load, random = 0.6, np.random.default_rng(11)
    count = random.geometric(1 - load, 200_000) - 1
    # A residual is a uniform part of a size-biased job; size-biased by inversion of the size-weighted
    # distribution.
    grid = np.concatenate([np.linspace(a, b, 400) for a, b in zip(*WEB_SEARCH._segments[:2], strict=True)])
    residuals = np.interp(random.random(count.sum()), WEB_SEARCH.residual_cdf(grid), grid)
    waits = np.bincount(np.repeat(np.arange(count.size), count), residuals, minlength=count.size)
    assert waits.mean() == pytest.approx(mean_wait(load, WEB_SEARCH), rel=0.02)
    low, high = wait_quantile_bounds(0.99, load, WEB_SEARCH)
    assert np.mean(waits <= low) == pytest.approx(0.99, abs=0.0015)
    assert np.mean(waits <= high) == pytest.approx(0.99, abs=0.0015)


def test_the_residual_of_web_search_flows_is_that_of_size_biased_samples():
    random = np.random.default_rng(4)
    sizes = load_flow_sizes("web_search").sample(random, 400_000)
    for x in (5.0, 6.0, 50.0, 1000.0, 15000.0):
        expected = np.minimum(sizes, x).mean() / sizes.mean()
        assert float(WEB_SEARCH.residual_cdf(np.array(x))) == pytest.approx(expected, rel=0.01)


# Tail approximations.


@given(loads)
def test_the_tail_given_a_busy_server_is_exact_for_mm1(load):
    approximation = tail_wait_when_busy(0.99, load, mean_wait(load, ExponentialService(44)))
    assert approximation == pytest.approx(mm1_wait_quantile(0.99, load, 44), rel=1e-9, abs=1e-9)


def test_the_papers_tail_is_two_ln_ten_times_the_mean():
    assert tail_wait_exponential(0.99, 7.0) == pytest.approx(2 * math.log(10) * 7.0, rel=1e-12)


def test_the_papers_tail_underestimates_the_wait_of_bursts_most_at_low_load():
    """The exact 99th percentile over 2 ln 10 E[W]: 1.9, 1.45, 1.22, 1.13, 1.10 in an independent
    simulation.
    """
    ratios = [
        md1_wait_quantile(0.99, load, 44) / tail_wait_exponential(0.99, mean_wait(load, ConstantService(44)))
        for load in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
    ]
    assert ratios == pytest.approx([3.7, 1.9, 1.45, 1.22, 1.13, 1.10], rel=0.05)
    assert ratios == sorted(ratios, reverse=True)


def test_the_tail_given_a_busy_server_is_close_at_high_load():
    """An independent simulation: within 17 % from load .5 up, 5 % at .8."""
    for load, accuracy in ((0.5, 0.175), (0.7, 0.10), (0.8, 0.06), (0.9, 0.05)):
        approximation = tail_wait_when_busy(0.99, load, mean_wait(load, ConstantService(44)))
        assert approximation == pytest.approx(md1_wait_quantile(0.99, load, 44), rel=accuracy)


# Simulation against theory.


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_the_simulated_mean_wait_is_within_four_standard_errors_of_theory(kind, load):
    simulated = simulate_waits(load, SERVICES[kind], jobs=4_000_000, seed=20)
    expected = mean_wait(load, SERVICES[kind])
    assert abs(simulated.mean - expected) < 4 * simulated.standard_error
    assert simulated.standard_error < 0.03 * expected  # otherwise the line above proves nothing


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_simulated_quantiles_are_the_exact_ones(kind, load):
    runs = [simulate_waits(load, SERVICES[kind], jobs=3_000_000, seed=seed) for seed in range(8)]
    for probability in (0.9, 0.99):
        simulated = np.array([waits.quantile(probability) for waits in runs])
        error = simulated.std(ddof=1) / math.sqrt(len(runs))
        low, high = wait_quantile_bounds(probability, load, SERVICES[kind])
        # A histogram bin is at most 1/256 of the wait wide; 5 standard errors because 8 runs estimate them
        # roughly.
        assert low * (1 - 1 / 256) - 5 * error < simulated.mean() < high * (1 + 1 / 256) + 5 * error
        assert error < 0.03 * high


def test_most_jobs_do_not_wait_at_low_load():
    assert simulate_waits(0.2, ConstantService(44), jobs=100_000, seed=1).quantile(0.7) == 0


def test_the_same_seed_gives_the_same_waits_and_another_seed_others():
    first, again, other = (simulate_waits(0.5, ConstantService(1), jobs=1000, seed=s) for s in (1, 1, 2))
    assert first.batch_means.tolist() == again.batch_means.tolist() != other.batch_means.tolist()


# Errors.


@pytest.mark.parametrize("load", [1.0, 1.5, -0.1, math.nan])
def test_a_load_outside_0_to_1_is_refused(load):
    for act in (
        lambda: mean_wait(load, ConstantService(1)),
        lambda: mm1_wait_quantile(0.5, load, 1),
        lambda: md1_wait_cdf(1, load, 1),
        lambda: wait_quantile_bounds(0.5, load, ConstantService(1)),
        lambda: tail_wait_when_busy(0.5, load, 1),
        lambda: simulate_waits(load, ConstantService(1), jobs=100, seed=1),
    ):
        with pytest.raises(NetreproError, match="unstable" if load >= 1 else "load"):
            act()


@pytest.mark.parametrize("size", [0, -1, math.inf, math.nan])
def test_a_job_size_that_is_none_is_refused(size):
    for service in (ConstantService, ExponentialService):
        with pytest.raises(NetreproError):
            service(size)


def test_impossible_points_quantiles_and_batches_are_refused():
    with pytest.raises(NetreproError, match="decrease"):
        PiecewiseService(((1, 0), (2, 0.6), (3, 0.5)))
    with pytest.raises(NetreproError, match="quantile"):
        md1_wait_quantile(1.0, 0.5, 44)
    with pytest.raises(NetreproError, match="batches"):
        simulate_waits(0.5, ConstantService(1), jobs=10, seed=1, batches=1)
    with pytest.raises(NetreproError, match="no job"):
        simulate_waits(0, ConstantService(1), jobs=10, seed=1)
