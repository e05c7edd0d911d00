"""Flow-size distributions: published statements, a second implementation (quadrature), invariants, bad
files.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad

from netrepro.errors import NetreproError
from netrepro.networks.flow_sizes import (
    KNOWN_FLOW_SIZES,
    FlowSizeDistribution,
    empirical_flow_sizes,
    load_flow_sizes,
)


@st.composite
def distributions(draw: st.DrawFn) -> FlowSizeDistribution:
    steps = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=8))
    first = draw(st.integers(0, 30))
    sizes = np.cumsum([first, *[width for width, _ in steps]])
    masses = np.cumsum([0, *[mass for _, mass in steps]])
    if masses[-1] == 0:
        masses[-1] = 1
    if sizes[-1] == 0:
        sizes[-1] = 1
    probabilities = [float(mass / masses[-1]) for mass in masses]
    assume(all(size > 0 or probability == 0 for size, probability in zip(sizes, probabilities, strict=True)))
    return FlowSizeDistribution(tuple(zip(sizes.astype(float).tolist(), probabilities, strict=True)))


# What papers and their data files state.


@pytest.mark.parametrize(
    ("name", "mean_megabytes"),
    [
        ("web_search", 1.67),
        ("web_search_bytes", 1.711),
        ("web_search_authors", 1.140),
        ("data_mining", 7.47),
        ("data_mining_bytes", 12.66),
    ],
)
def test_the_mean_flow_size_is_the_published_one(name, mean_megabytes):
    assert load_flow_sizes(name).in_bytes().mean / 1e6 == pytest.approx(mean_megabytes, rel=0.003)


def test_about_sixty_percent_of_web_search_flows_are_below_100_kilobytes():
    """RepNet, section 5.2.1. The readings of the figure say 54 to 58 %."""
    shares = {
        name: load_flow_sizes(name).in_bytes().share_of_flows_below(100e3)
        for name in KNOWN_FLOW_SIZES
        if name.startswith("web")
    }
    assert shares["web_search_authors"] == pytest.approx(0.58)
    assert shares["web_search_bytes"] == pytest.approx(0.5417, abs=1e-4)
    assert shares["web_search"] == pytest.approx(0.5436, abs=1e-4)


def test_flows_above_one_megabyte_are_thirty_percent_and_carry_95_percent_of_the_bytes():
    flows = load_flow_sizes("web_search_bytes")
    assert 1 - flows.share_of_flows_below(1e6) == pytest.approx(0.3)
    assert 1 - flows.share_of_bytes_below(1e6) == pytest.approx(0.950, abs=5e-4)


def test_flows_that_repflow_replicates_carry_one_percent_of_the_bytes():
    assert load_flow_sizes("web_search_bytes").share_of_bytes_below(100e3) == pytest.approx(0.0102, abs=1e-4)
    assert load_flow_sizes("web_search_authors").share_of_bytes_below(100e3) == pytest.approx(0.0128, abs=1e-4)
    assert load_flow_sizes("data_mining").in_bytes().share_of_bytes_below(100e3) == pytest.approx(4e-4, abs=1e-4)


def test_the_integrals_of_the_queueing_model_are_those_of_the_independent_derivation():
    web, mining = load_flow_sizes("web_search"), load_flow_sizes("data_mining")
    assert web.mean_rounds_per_size(3, None, 68) == pytest.approx(0.1712, abs=5e-5)
    assert mining.mean_rounds_per_size(3, None, 68) == pytest.approx(0.3799, abs=5e-5)
    assert web.mean_inverse(None, 68) == pytest.approx(0.0812, abs=5e-5)
    assert mining.mean_inverse(None, 68) == pytest.approx(0.767, abs=5e-4)
    assert web.mean_inverse(68, None) == pytest.approx(0.00231, abs=5e-6)
    assert mining.mean_inverse(68, None) == pytest.approx(0.00331, abs=5e-6)


# Second implementation: quadrature over quantiles knows nothing of segments, atoms or dilogarithms.


@pytest.mark.parametrize("name", KNOWN_FLOW_SIZES)
@pytest.mark.parametrize("function", ["inverse", "rounds", "size"])
def test_means_in_closed_form_agree_with_quadrature(name, function):
    flows = load_flow_sizes(name).in_packets()
    low, high = 5.0, 900.0
    ours = {
        "inverse": flows.mean_inverse(low, high),
        "rounds": flows.mean_rounds_per_size(3, low, high),
        "size": flows.partial_mean(low, high) / (flows.cdf(high) - flows.cdf(low)),
    }[function]
    integrand = {
        "inverse": lambda x: 1 / x,
        "rounds": lambda x: math.log2(x / 3 + 1) / x,
        "size": lambda x: x,
    }[function]
    start, end = float(flows.cdf(low)), float(flows.cdf(high))
    cuts = [start, *[p for p in flows.probabilities if start < p < end], end]
    integral = sum(
        quad(lambda p: integrand(float(flows.quantile(p))), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in pairwise(cuts)
        if b > a
    )
    assert ours == pytest.approx(integral / (end - start), rel=1e-7)


def test_an_atom_at_the_edge_of_a_range_belongs_to_the_range_that_ends_there():
    flows = FlowSizeDistribution(((10, 0), (10, 0.5), (20, 0.5), (20, 1)))
    assert flows.partial_mean(None, 10) == 5
    assert flows.partial_mean(10, None) == 10
    assert flows.conditional(10, None).mean == 20


def test_mean_inverse_is_infinite_when_sizes_reach_zero():
    assert load_flow_sizes("web_search_bytes").mean_inverse() == math.inf
    assert math.isfinite(load_flow_sizes("web_search_bytes").mean_rounds_per_size(4380))


# Invariants.


@given(distributions(), st.floats(0, 1))
def test_a_quantile_is_the_least_size_that_reaches_its_probability(flows, probability):
    size = float(flows.quantile(probability))
    assert flows.cdf(size) >= probability
    if probability > 0:
        assert flows.cdf(size * (1 - 1e-9) - 1e-9) <= probability


@given(distributions())
def test_the_quantile_at_0_is_the_smallest_size(flows):
    assert float(flows.quantile(0)) == flows.sizes[0]


@given(distributions(), st.floats(0, 400), st.floats(0, 400))
def test_both_shares_grow_with_size_and_stay_between_0_and_1(flows, one, other):
    low, high = sorted([one, other])
    for share in (flows.share_of_flows_below, flows.share_of_bytes_below):
        assert -1e-12 <= share(low) <= share(high) + 1e-12 <= 1 + 2e-12


@given(distributions(), st.floats(0, 400))
def test_a_distribution_is_the_mixture_of_its_two_conditional_halves(flows, cut):
    below = float(flows.cdf(cut))
    if not 0.01 < below < 0.99:
        return
    low, high = flows.conditional(None, cut), flows.conditional(cut, None)
    assert below * low.mean + (1 - below) * high.mean == pytest.approx(flows.mean)
    assert low.largest <= cut <= high.largest


@given(distributions())
def test_units_convert_back_and_scale_the_mean(flows):
    assert flows.in_bytes().mean == pytest.approx(1460 * flows.mean)
    assert flows.in_bytes().in_packets().mean == pytest.approx(flows.mean)
    assert flows.in_bytes().unit == "bytes" and flows.in_packets() is flows


@pytest.mark.parametrize("name", KNOWN_FLOW_SIZES)
def test_samples_follow_the_distribution(name):
    flows = load_flow_sizes(name)
    drawn = np.sort(flows.sample(np.random.default_rng(7), 100_000))
    # Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand samples.
    at_most = np.arange(1, len(drawn) + 1) / len(drawn)
    distinct = np.append(np.diff(drawn) > 0, True)
    most = 1.95 / math.sqrt(len(drawn))
    assert np.max(np.abs(flows.cdf(drawn) - at_most)[distinct]) < most
    # From below, too: sizes between the points are drawn as well.
    below = np.searchsorted(drawn, drawn) / len(drawn)
    assert np.max(np.abs(flows.cdf(np.nextafter(drawn, 0)) - below)) < most


def test_equal_descriptions_are_equal_and_hash_equal():
    assert load_flow_sizes("web_search") == load_flow_sizes("web_search")
    assert hash(load_flow_sizes("web_search")) == hash(load_flow_sizes("web_search"))


# Bad input: every error names what was given.


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("size,probability\n1,1\n", "header"),
        ("size_bytes,probability\n1,0\n2,x\n", "line 3: 'x' is not a number"),
        ("size_bytes,probability\n1,0\n2,0.5,7\n", "line 3: 3 values"),
        ("size_bytes,probability\n1,0\n# note\n2,1.5\n", "line 4: probability 1.5"),
        ("size_bytes,probability\n1,0\n3,0.5\n2,1\n", "line 4: size 2 is below"),
        ("size_bytes,probability\n1,0\n3,0.5\n4,0.4\n5,1\n", "line 4: probability 0.4 is below"),
        ("size_bytes,probability\n1,0\n3,0.9\n", "line 3: the last probability is 0.9"),
        ("size_bytes,probability\n1,1\n", "2 points"),
        ("size_bytes,probability\n", "no points"),
        ("size_bytes,probability\n-1,0\n3,1\n", "line 2: size -1 is negative"),
        ("size_bytes,probability\n1,0\nnan,1\n", "line 3: (nan, 1.0) is not finite"),
        ("size_bytes,probability\n0,0\n0,0.2\n5,1\n", "line 3: a share 0.2 of the flows has size 0"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_reason(tmp_path, text, complaint):
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(NetreproError) as error:
        load_flow_sizes(path)
    assert complaint in str(error.value) and "own.csv" in str(error.value)


def test_a_file_of_a_spreadsheet_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "sizes.csv"
    path.write_text("size_packets,probability\n1,0.5\n10,1\n", encoding="utf-8-sig")
    assert load_flow_sizes(path).quantile(0.5) > 0


def test_a_mistyped_name_gets_the_nearest_one():
    with pytest.raises(NetreproError, match="did you mean 'web_search'"):
        load_flow_sizes("websearch")


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_a_quantile_outside_0_to_1_is_refused(probability):
    with pytest.raises(NetreproError):
        load_flow_sizes("web_search").quantile(probability)


def test_an_empty_range_of_sizes_is_refused():
    with pytest.raises(NetreproError, match="no flow is larger"):
        load_flow_sizes("web_search").mean_inverse(None, 5)


# A user's own flows.


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50))
def test_the_empirical_distribution_has_the_samples_mean_and_shares(sizes):
    flows = empirical_flow_sizes(sizes)
    assert flows.mean == pytest.approx(np.mean(sizes))
    assert flows.second_moment == pytest.approx(np.mean(np.square(np.array(sizes, dtype=float))))
    for size in sizes:
        assert flows.cdf(size) == pytest.approx(np.mean(np.array(sizes) <= size))


@pytest.mark.parametrize("sizes", [[], [0], [-1], [math.nan], [math.inf]])
def test_flow_sizes_that_are_none_are_refused(sizes):
    with pytest.raises(NetreproError):
        empirical_flow_sizes(sizes)


@pytest.mark.parametrize("points", [3, (1, 2), ((1, 0, 0), (2, 1, 1)), (("1", 0), ("2", 1))])
def test_points_that_are_no_pairs_are_refused(points):
    with pytest.raises(NetreproError, match="give pairs"):
        FlowSizeDistribution(points)


def test_flow_sizes_are_loaded_by_a_name_or_a_path():
    with pytest.raises(NetreproError, match="no flow sizes 3"):
        load_flow_sizes(3)
