"""RepFlow's queueing model (Liu et al. 2018, section 3): sentences of the paper, claims end to end."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("agg")

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.papers import repflow_model as paper
from netrepro.study import Reading, Runs, measure, read_once, vary

PRINTED = paper.Setting()


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=8, seed=1)


@pytest.fixture(scope="module")
def verdicts(runs: Runs) -> dict:
    measured = {each.claim: each for each in runs.measured_claims()}
    claims = load_claims("repflow_model").claims
    return {claim.id: judge(claim, measured.get(claim.id), "simulated") for claim in claims}


def simulate(short_flows: int, long_flows: int, seed: int = 1, **changes) -> Reading:
    setting = replace(PRINTED, short_flows=short_flows, long_flows=long_flows, **changes)
    return read_once(paper.STUDY, setting, seed=seed)


def _value(closed: pd.DataFrame, quantity: str, scheme: str, load: float) -> float:
    rows = closed[(closed.quantity == quantity) & (closed.scheme == scheme) & np.isclose(closed.load, load)]
    return float(rows.normalised_fct.iloc[0])


# The formulas, as figures.


def test_figures_5_to_8_have_the_values_of_an_independent_evaluation():
    """The paper prints curves only; these values come from a derivation made apart from this code."""
    closed = paper.closed_form(PRINTED)
    sheet = {
        ("short_mean", 0.5): (4.767, 2.433),
        ("long_mean", 0.5): (1.500, 1.553),
        ("short_p99", 0.5): (11.21, 4.88),
        ("long_p99", 0.5): (1.683, 1.755),
        ("short_mean", 0.9): (34.91, 32.45),
        ("long_p99", 0.9): (7.150, 12.74),
    }
    for (quantity, load), values in sheet.items():
        ours = [_value(closed, quantity, scheme, load) for scheme in ("tcp", "repflow")]
        assert ours == pytest.approx(values, rel=0.005)
    assert len(closed) == 4 * 2 * 9 and not closed.isna().any().any()


def test_figures_6_and_8_draw_a_price_of_three_quarters_at_load_0_9():
    """By hand, with ε = .05: (6) over (5) is 9.59 over 5.50, (8) over (7) 12.74 over 7.15."""
    closed = paper.closed_form(PRINTED, loads=[0.9])
    for quantity, price in (("long_mean", 1.744), ("long_p99", 1.782)):
        rise = _value(closed, quantity, "repflow", 0.9) / _value(closed, quantity, "tcp", 0.9)
        assert rise == pytest.approx(price, abs=2e-3)


def test_as_load_grows_the_effective_load_gains_less():
    """Section 3.2.1: "As ρ increases the difference is smaller"; relative to ρ it is 1 - (1 + ε)^2 ρ."""
    loads = np.array(paper.LOADS)
    decrease = 1 - PRINTED.model.effective_load(loads, 2) / loads
    assert decrease == pytest.approx(1 - 1.05**2 * loads)
    assert np.all(np.diff(decrease) < 0) and np.all(decrease > 0)


# The simulation.


def test_the_simulation_agrees_with_3_and_5_at_every_load(runs):
    for quantity in ("short_mean", "long_mean"):
        for load, values in runs.numbers(paper.AS_PRINTED).groupby("load")[f"{quantity}_tcp_over_formula"]:
            # 18 comparisons with Student's t of 7 degrees: one is beyond 7 errors once in 250 seeds.
            assert abs(values.mean() - 1) < 7 * values.sem() < 0.3, (quantity, load)


def test_the_99th_percentile_of_flows_exceeds_7_whose_sum_has_a_spread_of_its_own():
    """An independent Monte Carlo with independent rounds: 1.717 and 2.325 at loads .3 and .5."""
    for load, expected in ((0.3, 1.717), (0.5, 2.325)):
        readings = [simulate(0, 10_000, seed, load=load, long_round_gap_packets=3_000.0) for seed in (3, 4)]
        assert np.mean([each["long_p99_tcp"] for each in readings]) == pytest.approx(expected, rel=0.03)
        assert min(each["long_p99_tcp_over_formula"] for each in readings) > 1


def test_the_99th_percentile_of_short_flows_is_well_above_the_formulas(runs):
    """An independent Monte Carlo puts it at 1.6 to 3.5 times the analogue of (7), rounds being independent.

    Rounds a round-trip time apart meet nearly the same queue, so that ours is higher.
    """
    ratios = runs.summary()["short_p99_tcp_over_formula"][paper.AS_PRINTED]
    assert ratios[[0.3, 0.5, 0.8]].between(1.6, 5).all()


def test_one_copy_on_one_path_is_tcp():
    reading = simulate(500, 50, copies=1, paths=1)
    assert all(reading[f"{quantity}_ratio"] == 1 for quantity in paper.QUANTITIES)


def test_more_paths_help_and_one_does_not(runs):
    ratios = vary(runs, "paths").groupby("paths")["short_mean_ratio"].mean()
    assert ratios[9] < 0.8 and ratios[1] >= 1


# Claims.


def test_a_simulation_that_misses_its_own_load_is_not_trusted():
    random = np.random.default_rng(1)
    assert paper._busy_as_loaded(random.random(8_000) < 0.5, 0.5).holds
    assert not paper._busy_as_loaded(random.random(8_000) < 0.55, 0.5).holds


def test_own_flows_can_take_the_workloads_place():
    own = empirical_flow_sizes([10_000] * 9 + [1_000_000])
    closed = paper.closed_form(replace(PRINTED, workload=own), loads=[0.5])
    assert _value(closed, "short_mean", "tcp", 0.5) == pytest.approx(
        1 + 22 * np.log2(10_000 / 1460 / 3 + 1) / (10_000 / 1460)
    )


def test_every_negative_control_flips(verdicts):
    without = {claim.id for claim in load_claims("repflow_model").claims if not claim.control}
    open_here = {name for name, each in verdicts.items() if "control did not flip: it is undecided" in each.reason}
    assert {name for name, judgement in verdicts.items() if not judgement.counts} - open_here <= without
    assert len(open_here) <= 2  # small runs


def test_both_of_two_independent_paths_are_busy_as_often_as_the_square_of_their_load_says(runs):
    """Section 3.2.1: (1 + ε)^2 ρ^2, and (1 + ε) ρ where both copies take one path."""
    busy = runs.summary()["busy_repflow"]
    assert busy[paper.AS_PRINTED, 0.5] == pytest.approx(0.525**2, rel=0.05)
    assert busy[paper.SAME_PATH, 0.5] == pytest.approx(0.525, rel=0.05)


def test_figure_5_repflow_is_faster_at_every_load_and_slower_over_one_path(runs):
    ratios = runs.summary()["short_mean_ratio"]
    assert (ratios[paper.AS_PRINTED] < 1).all() and (ratios[paper.SAME_PATH] > 1).all()


def test_repsyn_gains_less_than_repflow_at_low_load_more_at_high_load_and_nothing_on_one_path(runs):
    means = runs.summary()[["short_mean_tcp", "short_mean_repflow", "short_mean_repsyn"]].dropna()
    printed, same = means.loc[paper.AS_PRINTED], means.loc[paper.SAME_PATH]
    assert (printed.short_mean_repsyn < printed.short_mean_tcp).all()
    assert printed.short_mean_repflow[0.3] < printed.short_mean_repsyn[0.3]
    assert printed.short_mean_repsyn[0.9] < 0.7 * printed.short_mean_repflow[0.9]  # whose paths carry the copies
    assert (same.short_mean_repsyn / same.short_mean_tcp)[[0.3, 0.5]].between(0.9, 1.1).all()


def test_a_third_connection_of_repsyn_brings_less_than_the_second(runs):
    means = vary(runs, "copies").groupby("copies")["short_mean_repsyn"].mean()
    assert means[1] - means[2] > 2 * (means[2] - means[3]) > 0


def test_epsilon_as_printed_is_not_the_workloads(verdicts):
    """95 % of the bytes are in flows above 1 MB, not above 100 KB: the paper's ε is five times too large."""
    assert verdicts["bytes-in-replicated-flows"].verdict == "disagrees"
    assert verdicts["bytes-in-replicated-flows"].value == pytest.approx(0.0128, abs=1e-4)


def test_the_sizes_are_judged_on_one_reading_and_the_others_stand_beside(verdicts):
    """By hand: 58 % up to 100 KB; 70 % up to 667 and 80 % up to 1333, so 75 % up to 1000."""
    assert verdicts["flows-below-100-kb"].value == pytest.approx(0.58)
    assert verdicts["flows-above-1-mb"].value == pytest.approx(0.25, abs=1e-3)
    assert verdicts["bytes-in-flows-above-1-mb"].value == pytest.approx(0.9136, abs=1e-3)
    table = paper.readings()
    assert table.loc["web_search_bytes", "bytes above 1 MB"] == pytest.approx(0.95, abs=1e-3)
    assert list(table.loc["the paper"]) == [0.6, 0.3, 0.95, 0.05]


def test_long_flows_are_judged_with_the_epsilon_of_the_sizes_and_the_printed_one_stands_beside(runs, verdicts):
    """(6) over (5) by hand: .0127 more load at .9 makes 1.116, .05 makes 1.744."""
    ours, printed = (runs.summary()["long_mean_ratio"][case, 0.9] for case in (paper.DRAWN, paper.AS_PRINTED))
    assert ours == pytest.approx(1.116, abs=0.05) and printed == pytest.approx(1.744, abs=0.2)
    assert verdicts["long-mean-at-load-0.9"].value == pytest.approx(ours)


def test_with_independent_rounds_formula_4_is_a_quarter_too_low(verdicts):
    assert verdicts["formula-4-independent-rounds-at-load-0.5"].value == pytest.approx(1.26, abs=0.04)


# Figures and errors.


def test_the_panel_shows_formulas_that_the_replicas_fill_as_infinite():
    reading = read_once(paper.STUDY, replace(PRINTED, load=0.7, extra_load=0.3, copies=4))
    figure = paper.draw_panel(reading, paper.FORMULAS)
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert "RepFlow: inf" in labels and any(label.startswith("TCP: ") and "inf" not in label for label in labels)


def test_replicas_that_fill_the_paths_cannot_be_simulated():
    with pytest.raises(NetreproError, match=r"load 0\.96"):
        simulate(100, 0, load=0.96)


def test_an_unknown_workload_gets_a_hint():
    with pytest.raises(NetreproError, match="data_mining"):
        paper.closed_form(replace(PRINTED, workload="datamining"))
