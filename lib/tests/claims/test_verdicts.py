"""Verdicts of every kind on constructed cases; scipy.stats is the second implementation."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from netrepro.claims import Claim, Judgement, Measured, coverage_text, judge, paper_level
from netrepro.claims.verdicts import kendall_tau, wilson_interval
from netrepro.errors import NetreproError
from netrepro.intervals import bootstrap_interval, mean_interval, student_interval, two_groups

TIERS = ["privileged", "rootless", "simulated"]
POINTS = [[1, 10], [2, 20], [4, 50]]


def a_claim(kind: str, published, accept: dict, **more) -> Claim:
    unit = {"unit": "ms"} if kind == "absolute" else {}
    return Claim(
        id="it",
        says="so",
        where="Fig. 1",
        kind=kind,
        fixed="before",
        published=published,
        accept=accept,
        **({"comparable_on": TIERS} | unit | more),
    )


def verdict(claim: Claim, values, tier="simulated", **more) -> str:
    return judge(claim, Measured(claim="it", values=values, **more), tier).verdict


# Numbers ------------------------------------------------------------------------------------------


def test_relative_factor_and_band_accept_what_they_say():
    for accept, edges in [
        ({"relative": 0.1}, (90, 110)),
        ({"factor": 1.25}, (80, 125)),
        ({"band": [95, 300]}, (95, 300)),
    ]:
        claim = a_claim("absolute", 100, accept)
        assert claim.accepted_band() == pytest.approx(edges)
        for value, expected in [(edges[0], "agrees"), (edges[1], "agrees"), (edges[0] - 0.1, "disagrees")]:
            assert verdict(claim, [value], exact=True) == expected
        assert verdict(claim, [edges[1] + 0.1], exact=True) == "disagrees"


def test_the_edge_of_a_band_is_accepted_though_arithmetic_misses_it():
    assert 0.1 * (1 + 0.15) < 0.115
    assert verdict(a_claim("absolute", 0.1, {"relative": 0.15}), [0.115], exact=True) == "agrees"


def test_a_negative_published_value_has_its_band_the_right_way_round():
    assert a_claim("effect", -4, {"relative": 0.5}, neutral=0).accepted_band() == (-6, -2)
    assert a_claim("effect", -4, {"factor": 2}, neutral=0).accepted_band() == (-8, -2)


def test_a_mean_agrees_only_with_its_whole_interval():
    claim = a_claim("absolute", 100, {"relative": 0.1})
    assert verdict(claim, [99, 101, 100]) == "agrees"
    straddling = judge(claim, Measured(claim="it", values=[90, 100, 110]), "simulated")
    assert straddling.verdict == "undecided"
    assert "straddles the accepted 90 to 110; about 19 repetitions would decide" in straddling.reason
    assert verdict(claim, [130, 131, 132]) == "disagrees"


@pytest.mark.parametrize(
    ("published", "neutral", "values", "expected"),
    [
        (2.0, 1, [2.0, 2.01], "agrees"),
        (2.0, 1, [1.4, 1.41, 1.4], "agrees in direction"),
        (2.0, 1, [3.9, 3.91, 3.9], "agrees in direction"),
        (2.0, 1, [1.3, 1.31, 1.3], "disagrees"),  # the published side, and less than a third of the effect
        (2.0, 1, [9.0, 9.1, 9.0], "disagrees"),  # more than three times of it
        (2.0, 1, [0.9, 0.91, 0.9], "disagrees"),
        (2.0, 1, [0.9, 1.1, 1.2], "disagrees"),  # between nothing and too little
        (2.0, 1, [1.0, 2.0, 3.0], "undecided"),  # between nothing and what is published
        (0.5, 1, [0.7, 0.71, 0.7], "agrees in direction"),
        (0.5, 1, [1.3, 1.31, 1.3], "disagrees"),
        (5.0, 0, [2.0, 2.1, 2.0], "agrees in direction"),
        (1.0, 1, [1.5, 1.51, 1.5], "disagrees"),  # "no effect" has no direction to agree in
        (1.0, 1, [0.9, 1.0, 1.2], "undecided"),  # but its band can be straddled
        (1.05, 1, [0.9, 1.0, 1.2], "undecided"),  # as can one that accepts no effect
    ],
)
def test_an_effect_on_the_published_side_of_no_effect_agrees_in_direction(published, neutral, values, expected):
    assert verdict(a_claim("effect", published, {"relative": 0.1}, neutral=neutral), values) == expected


def test_an_interval_that_reaches_the_band_and_no_effect_has_no_direction():
    judgement = judge(a_claim("effect", 2, {"relative": 0.1}), Measured(claim="it", values=[0.5, 3.5]), "simulated")
    assert judgement.verdict == "undecided" and "includes no effect (1)" in judgement.reason


def test_counted_successes_are_judged_by_wilsons_interval():
    claim = a_claim("proportion", 0.9, {"band": [0.8, 1]})
    few = judge(claim, Measured(claim="it", successes=9, trials=10), "simulated")
    many = judge(claim, Measured(claim="it", successes=900, trials=1000), "simulated")
    assert (few.verdict, many.verdict) == ("agrees in direction", "agrees")
    assert (many.value, many.repetitions) == (0.9, 1000)
    assert verdict(claim, [], successes=5, trials=100) == "disagrees"


@pytest.mark.parametrize(
    ("published", "band", "successes", "trials", "expected"),
    [
        (1, [0.5, 1], 3, 6, "undecided"),  # a coin flip
        (1, [0.5, 1], 55, 100, "undecided"),
        (1, [0.9, 1], 50, 100, "disagrees"),
        (1, [0.9, 1], 80, 100, "agrees in direction"),
        (1, [0.9, 1], 60, 100, "disagrees"),  # of the published distance from a half a fifth
        (0.05, [0, 0.1], 20, 100, "disagrees"),  # a small share is a quantity: to be below a half shows nothing
    ],
)
def test_half_of_the_trials_shows_nothing(published, band, successes, trials, expected):
    claim = a_claim("proportion", published, {"band": band})
    assert verdict(claim, [], successes=successes, trials=trials) == expected


def test_as_many_repetitions_as_an_undecided_verdict_asks_for_decide_it():
    claim = a_claim("absolute", 100, {"relative": 0.1})
    asked = judge(claim, Measured(claim="it", values=[99.0, 107.0, 115.0]), "simulated")
    (count,) = re.findall(r"about (\d+) repetitions", asked.reason)
    assert asked.verdict == "undecided" and verdict(claim, [99.0, 107.0, 115.0] * (int(count) // 3 + 1)) == "agrees"


def test_repetitions_that_do_not_vary_are_one_run_unless_the_claim_is_exact():
    values = Measured(claim="it", values=[100, 100.2, 100.4])
    claim = a_claim("absolute", 100, {"relative": 0.1})
    one = judge(claim, values, "simulated")
    assert (one.verdict, one.repetitions) == ("agrees", 1) and "count as one" in one.reason
    exact = judge(claim.model_copy(update={"exact": True}), values, "simulated")
    assert exact.repetitions == 3 and "one run" not in exact.reason
    assert judge(claim, Measured(claim="it", values=[100, 100.2, 100.6]), "simulated").repetitions == 3


def test_what_hardware_decides_is_shown_and_not_judged():
    claim = a_claim("absolute", 100, {"relative": 0.1}, comparable=False)
    shown = judge(claim, Measured(claim="it", values=[300, 310]), "simulated")
    assert (shown.verdict, shown.value, shown.counts, shown.holds) == ("not judged", 305, False, False)


def test_a_claim_of_the_class_report_alone_is_judged_by_its_number():
    claim = a_claim("absolute", None, {"relative": 0.1}, class_report=200, source="class")
    assert verdict(claim, [199, 201]) == "agrees"


def test_the_interval_of_a_proportion_stays_in_0_to_1():
    claim = a_claim("proportion", 0.9, {"band": [0.8, 1]})
    judgement = judge(claim, Measured(claim="it", values=[0.9, 0.99, 0.99]), "simulated")
    assert judgement.verdict == "agrees" and 0.97 < judgement.interval.high <= 1
    with pytest.raises(NetreproError, match="lies in 0 to 1"):
        verdict(claim, [90, 99])


# Orderings and curves -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rankings", "expected"),
    [
        (["abcd"] * 3, "agrees"),
        (["abcd", "abdc", "abcd", "abcd"], "agrees in direction"),
        (["bacd"] * 3, "agrees in direction"),
        (["dcba"] * 3, "disagrees"),
        (["abcd", "dcba"], "undecided"),
        (["abcd", "abcd", "abcd", "dcba"], "undecided"),  # a mean of .5, and an interval that holds 0
        (["abdc", "badc", "abcd", "bcad", "acdb"], "agrees in direction"),
        (["bdac", "cadb", "bdac", "cadb"], "disagrees"),
    ],
)
def test_an_ordering_is_judged_by_its_rank_correlation(rankings, expected):
    claim = a_claim("ordering", list("abcd"), {"kendall_at_least": 0.9})
    assert verdict(claim, [list(ranking) for ranking in rankings]) == expected


def test_the_value_of_an_ordering_is_kendalls_tau():
    claim = a_claim("ordering", list("abcd"), {"kendall_at_least": 0.9})
    judgement = judge(claim, Measured(claim="it", values=[list("bacd")], exact=True), "simulated")
    assert judgement.value == pytest.approx(stats.kendalltau([0, 1, 2, 3], [1, 0, 2, 3]).statistic)


def test_a_ranking_of_other_names_is_refused():
    claim = a_claim("ordering", ["a", "b"], {"kendall_at_least": 0.9})
    for ranking in (["a"], ["a", "c"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(NetreproError, match="must name each of"):
            verdict(claim, [ranking, ranking])


def test_a_curve_at_the_published_points_has_distance_0():
    claim = a_claim("curve", POINTS, {"curve_distance": 0.1})
    assert judge(claim, Measured(claim="it", values=[POINTS, POINTS]), "simulated").value == 0
    assert verdict(claim, [POINTS, POINTS]) == "agrees"


def test_the_distance_of_a_curve_is_its_rms_error_over_the_published_range():
    shifted = [[x, y + 8] for x, y in POINTS]
    claim = a_claim("curve", POINTS, {"curve_distance": 0.1})
    judgement = judge(claim, Measured(claim="it", values=[shifted, shifted]), "simulated")
    assert judgement.value == pytest.approx(8 / 40)
    assert judgement.verdict == "agrees in direction"


def test_a_curve_agrees_only_with_the_whole_interval_of_its_distances():
    shifted = [[x, y + 8] for x, y in POINTS]
    claim = a_claim("curve", POINTS, {"curve_distance": 0.15})  # the mean distance is 0.1
    assert verdict(claim, [POINTS, shifted]) == "agrees in direction"
    rising = a_claim("curve", POINTS, {"curve_distance": 0.15}, monotonic=True)  # has no direction to agree in
    judgement = judge(rising, Measured(claim="it", values=[POINTS, shifted]), "simulated")
    assert judgement.verdict == "undecided" and "repetitions would decide" in judgement.reason


def test_a_curve_is_interpolated_between_our_points_and_may_come_unsorted():
    ours = [[5, 65], [0, 0], [3, 35], [1.5, 15]]  # a line through x=1: 10, x=2: 15 + 20/3, x=4: 50
    claim = a_claim("curve", POINTS, {"curve_distance": 0.1})
    judgement = judge(claim, Measured(claim="it", values=[ours], exact=True), "simulated")
    assert judgement.value == pytest.approx(math.sqrt((15 + 20 / 3 - 20) ** 2 / 3) / 40)


def test_a_curve_that_falls_where_the_published_one_rises_disagrees():
    claim = a_claim("curve", POINTS, {"curve_distance": 0.1})
    falling = [[1, 50], [2, 20], [4, 10]]
    flat = [[1, 20], [4, 20]]
    assert verdict(claim, [falling, falling]) == "disagrees"
    assert verdict(claim, [flat, flat]) == "disagrees"
    assert verdict(claim, [[[1, 0], [4, 99]], falling]) == "disagrees"  # it must rise in every repetition


def test_nothing_is_extrapolated():
    claim = a_claim("curve", POINTS, {"curve_distance": 0.1})
    with pytest.raises(NetreproError, match="published x is 1 to 4, ours only 1 to 3"):
        verdict(claim, [[[1, 1], [3, 3]]] * 2)
    with pytest.raises(NetreproError, match="two points at one x"):
        verdict(claim, [[[1, 1], [1, 2], [4, 3]]] * 2)


# What is refused, and what cannot be judged -------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_value_that_is_not_finite_is_refused_by_name(value):
    with pytest.raises(NetreproError, match=r"measured 'it': .*\[1\] is (nan|-?inf), not a finite number"):
        Measured(claim="it", values=[1.0, value])
    with pytest.raises(NetreproError, match=r"control.*not a finite number"):
        Measured(claim="it", values=[1.0, 1.0], control=[value])
    with pytest.raises(NetreproError, match=r"\[0\]\[0\]\[1\]"):
        Measured(claim="it", values=[[[0, value], [1, 1]]])


def test_one_repetition_of_something_inexact_is_refused():
    claim = a_claim("absolute", 100, {"relative": 0.1})
    for values in ([], [100]):
        with pytest.raises(NetreproError, match="repeat at least twice"):
            verdict(claim, values)
    with pytest.raises(NetreproError, match="exact=True takes one value"):
        verdict(claim, [100, 100], exact=True)


def test_values_of_another_shape_are_refused():
    number, order = (
        a_claim("absolute", 1, {"relative": 0.1}),
        a_claim("ordering", ["a", "b"], {"kendall_at_least": 1}),
    )
    curve = a_claim("curve", POINTS, {"curve_distance": 1})
    for claim, values in [
        (number, [["a", "b"]] * 2),
        (order, [1, 2]),
        (order, ["ab", "ab"]),
        (curve, [1, 2]),
    ]:
        with pytest.raises(NetreproError, match=f"kind {claim.kind!r} needs"):
            verdict(claim, values)
    with pytest.raises(NetreproError, match="successes and trials are for proportions"):
        verdict(number, [], successes=1, trials=2)


def test_counts_that_cannot_be_are_refused():
    for wrong in ({"successes": 3, "trials": 2}, {"successes": 0, "trials": 0}, {"successes": 1}):
        with pytest.raises(NetreproError, match="successes"):
            Measured(claim="it", **wrong)
    with pytest.raises(NetreproError, match="not both"):
        Measured(claim="it", values=[0.5, 0.5], successes=1, trials=2)


def test_an_unknown_key_of_a_measurement_names_the_nearest():
    with pytest.raises(NetreproError, match="did you mean 'values'"):
        Measured(claim="it", value=[1.0])


def test_a_run_that_failed_its_fidelity_check_is_untrusted_and_says_why():
    claim = a_claim("absolute", 100, {"relative": 0.1})
    judgement = judge(claim, Measured(claim="it", values=[100, 100], trusted=False, why="host too busy"), "simulated")
    assert (judgement.verdict, judgement.reason, judgement.holds) == ("untrusted", "host too busy", False)
    with pytest.raises(NetreproError, match="needs why"):
        Measured(claim="it", values=[], trusted=False)


def test_nothing_is_judged_without_a_measurement_or_on_a_tier_that_cannot():
    claim = a_claim("absolute", 100, {"relative": 0.1}, comparable_on=["privileged"])
    nothing = judge(claim, None, "privileged")
    assert (nothing.verdict, nothing.reason) == ("not measured", "no measurement")
    waiting = judge(claim.model_copy(update={"needs": "a trace"}), None, "privileged")
    assert (waiting.verdict, waiting.reason) == ("not measured", "needs a trace")
    elsewhere = judge(claim, Measured(claim="it", values=[100, 100]), "simulated")
    assert elsewhere.verdict == "not measured" and "only on privileged" in elsewhere.reason
    with pytest.raises(NetreproError, match="did you mean 'simulated'"):
        judge(claim, None, "simulate")
    with pytest.raises(NetreproError, match="given the measurement of 'other'"):
        judge(claim, Measured(claim="other", values=[1, 2]), "privileged")


# The negative control -----------------------------------------------------------------------------

EFFECT = a_claim("effect", 2, {"relative": 0.1}, control="mechanism off: ratio 1")


@pytest.mark.parametrize(
    ("values", "control", "counts"),
    [
        ([2, 2.01], [1, 1.01], True),
        ([2, 2.01], [2, 2.01], False),
        ([2, 2.01], [1.5, 1.51, 1.5], False),  # one grade lower is no flip
        ([2, 2.01], [0.5, 1.5, 2.5], False),  # nor is what is not decided
        ([1.5, 1.51, 1.5], [1.5, 1.51, 1.5], False),  # the same verdict with the mechanism broken
        ([1.5, 1.51, 1.5], [2, 2.01], False),
        ([1.5, 1.51, 1.5], [1, 1], True),
        ([1, 1.01], [2, 2.01], True),  # a claim that fails can fail
        ([1, 1.01], [1, 1.01], True),
    ],
)
def test_a_claim_whose_control_holds_as_well_does_not_count(values, control, counts):
    judgement = judge(EFFECT, Measured(claim="it", values=values, control=control), "simulated")
    assert judgement.counts is counts
    assert ("control did not flip" in judgement.reason) is not counts


def test_a_claim_whose_control_was_not_run_does_not_count():
    judgement = judge(EFFECT, Measured(claim="it", values=[2, 2.01]), "simulated")
    assert judgement.verdict == "agrees" and not judgement.counts and not judgement.holds
    assert "the control was not run" in judgement.reason


def test_a_claim_that_disagrees_counts_though_its_control_was_not_run():
    judgement = judge(EFFECT, Measured(claim="it", values=[0.5, 0.5]), "simulated")
    assert judgement.verdict == "disagrees" and judgement.counts


def test_fewer_repetitions_never_earn_a_direction_by_a_wide_interval_alone():
    absolute = a_claim("absolute", 100, {"relative": 0.1})
    wide = judge(absolute, Measured(claim="it", values=[80, 130, 180]), "simulated")
    assert wide.interval.low < 100 < wide.interval.high
    assert wide.verdict == "undecided"


@pytest.mark.parametrize("given", [{}, {"control": "x/x", "control_weakness": "it is always 1"}])
def test_a_claim_without_a_control_or_with_a_weak_one_counts_only_where_it_disagrees(given):
    claim = a_claim("effect", 2, {"relative": 0.1}, **given)
    for values, counts in (([2, 2], False), ([1.5, 1.5], False), ([0.5, 0.5], True)):
        judgement = judge(claim, Measured(claim="it", values=values, control=[1, 1]), "simulated")
        assert judgement.counts is counts and "control" in judgement.reason


def test_a_curve_that_can_only_rise_earns_nothing_by_rising_and_none_by_a_shape_far_away():
    shifts = {8: "agrees in direction", 20: "disagrees"}  # accepted: 4, a tenth of the range
    for shift, expected in shifts.items():
        ours = [[[x, y + shift] for x, y in POINTS]] * 2
        assert verdict(a_claim("curve", POINTS, {"curve_distance": 0.1}), ours) == expected
        rising = a_claim("curve", POINTS, {"curve_distance": 0.1}, monotonic=True)
        judgement = judge(rising, Measured(claim="it", values=ours), "simulated")
        assert judgement.verdict == "disagrees" and "can only move this way" in judgement.reason
        assert verdict(rising, [POINTS, POINTS]) == "agrees"


def test_controls_of_every_kind_are_judged():
    control = {"control": "broken"}
    ordering = a_claim("ordering", ["a", "b"], {"kendall_at_least": 1}, **control)
    curve = a_claim("curve", POINTS, {"curve_distance": 0.1}, **control)
    share = a_claim("proportion", 0.9, {"band": [0.8, 1]}, **control)
    closed = a_claim("absolute", 9, {"relative": 0.1}, **control)
    falling = [[1, 50], [4, 10]]
    for claim, flips, stays in [
        (ordering, {"values": [["a", "b"]] * 2, "control": [["b", "a"]] * 2}, {"control": [["a", "b"]] * 2}),
        (curve, {"values": [POINTS] * 2, "control": [falling] * 2}, {"control": [POINTS] * 2}),
        (
            share,
            {"successes": 900, "trials": 1000, "control_successes": 9, "control_trials": 1000},
            {"control_successes": 900},
        ),
        (closed, {"values": [9], "exact": True, "control": [5]}, {"control": [9]}),
        (closed, {"values": [9], "exact": True, "control": [5, 5.1, 5]}, {"control": [9, 9, 9]}),
    ]:
        assert judge(claim, Measured(claim="it", **flips), "simulated").counts
        assert not judge(claim, Measured(claim="it", **(flips | stays)), "simulated").counts


def test_a_control_of_one_repetition_is_refused_by_name():
    with pytest.raises(NetreproError, match="control of it: 1 repetition"):
        judge(EFFECT, Measured(claim="it", values=[2, 2.01], control=[1]), "simulated")


# Paper level --------------------------------------------------------------------------------------

LETTERS = {"o": "undecided", "u": "untrusted", "j": "not judged", "n": "not measured"}
LETTERS |= {"a": "agrees", "d": "agrees in direction", "x": "disagrees"}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("aa", "replicated"),
        ("aaun", "replicated"),
        ("aaunn", "partly"),  # less than half of its claims
        ("xunn", "not reproduced"),
        ("ad", "replicated with differences"),
        ("dd", "replicated with differences"),
        ("aao", "undecided"),
        ("xo", "undecided"),
        ("axo", "partly"),
        ("aaj", "replicated"),
        ("ax", "partly"),
        ("dx", "partly"),
        ("adx", "partly"),
        ("xx", "not reproduced"),
        ("xu", "not reproduced"),
        ("un", "not measured"),
        ("", "not measured"),
    ],
)
def test_the_level_of_a_paper_follows_from_its_counted_claims(verdicts, expected):
    judged = [Judgement(claim="it", tier="simulated", verdict=LETTERS[letter], reason="") for letter in verdicts]
    assert paper_level(judged) == expected


@pytest.mark.parametrize(
    ("main", "details", "expected"),
    [
        ("aa", "xxxxx", "replicated"),  # details are counted beside
        ("ad", "", "replicated with differences"),
        ("ax", "aaaaa", "partly"),
        ("dx", "", "partly"),
        ("xx", "aaaaa", "not reproduced"),
        ("ao", "a", "undecided"),
        ("an", "a", "undecided"),  # a main claim that was not measured
        ("axn", "", "partly"),  # whatever the third would be
        ("au", "a", "undecided"),
        ("nn", "aa", "not measured"),
        ("aj", "x", "replicated"),  # what is not comparable is shown, and the other main claims decide
        ("xj", "aa", "not reproduced"),
        ("jj", "aa", "not comparable"),  # details do not stand in for main claims
    ],
)
def test_the_level_of_a_paper_is_that_of_its_main_claims(main, details, expected):
    judged = [
        Judgement(claim="it", tier="simulated", verdict=LETTERS[letter], reason="", role=role)
        for role, letters in (("main", main), ("detail", details))
        for letter in letters
    ]
    assert paper_level(judged) == expected
    decided, of = sum(letter in "adx" for letter in main), len(main.replace("j", ""))
    assert coverage_text(judged) == (f"{decided} of {of} main claims" if of else "no main claim can be judged here")


def test_a_main_claim_that_is_not_comparable_decides_nothing_whether_it_was_measured_or_not():
    claim = a_claim("absolute", 100, {"relative": 0.1}, comparable=False, role="main")
    other = a_claim("absolute", 100, {"relative": 0.1}, role="main")
    shown = judge(claim, Measured(claim="it", values=[300, 310]), "simulated")
    not_measured, untrusted = (
        judge(claim, None, "simulated"),
        judge(claim, Measured(claim="it", trusted=False, why="loss"), "simulated"),
    )
    agrees = judge(other, Measured(claim="it", values=[100, 101], control=[200, 201]), "simulated")
    for each in (shown, not_measured, untrusted):
        assert not each.holds and paper_level([each]) == "not comparable"
        assert paper_level([each, agrees]) == paper_level([agrees])
        assert coverage_text([each, agrees]) == coverage_text([agrees])


@pytest.mark.parametrize("source", ["artefact", "second_hand", "recalled"])
def test_a_recalled_number_is_shown_and_no_level_rests_on_it(source):
    claim = a_claim("absolute", 100, {"relative": 0.1}, role="main", control="cut it", source=source)
    other = a_claim("absolute", 100, {"relative": 0.1}, role="main", control="cut it")
    told, fails = (
        judge(each, Measured(claim="it", values=values, control=[200, 201]), "simulated")
        for each, values in ((claim, [100, 101]), (other, [300, 301]))
    )
    recalled = source == "recalled"
    assert (told.verdict, told.value, told.counts) == ("agrees", 100.5, not recalled)
    assert ("only recalled" in told.reason) == recalled
    assert paper_level([told]) == ("not comparable" if recalled else "replicated")
    assert paper_level([told, fails]) == ("not reproduced" if recalled else "partly")
    wrong = judge(claim, Measured(claim="it", values=[300, 301], control=[200, 201]), "simulated")
    assert wrong.verdict == "disagrees" and wrong.counts == (not recalled)


def test_a_main_claim_whose_control_does_not_flip_leaves_the_level_undecided():
    counted, uncounted = (
        Judgement(claim="it", tier="simulated", verdict="agrees", reason="", role="main", counts=counts)
        for counts in (True, False)
    )
    assert paper_level([counted, uncounted]) == "undecided"


@pytest.mark.parametrize("letter", "adx")
def test_a_claim_that_does_not_count_is_one_that_the_level_lacks(letter):
    agrees, uncounted = (
        Judgement(claim="it", tier="simulated", verdict=verdict, reason="", counts=counts)
        for verdict, counts in (("agrees", True), (LETTERS[letter], False))
    )
    assert paper_level([agrees, uncounted]) == "replicated"
    assert paper_level([agrees, uncounted, uncounted]) == "partly"
    assert coverage_text([agrees, uncounted, uncounted]) == "1 of 3 claims"


# A second implementation, and invariants ----------------------------------------------------------

numbers = st.floats(-1e6, 1e6).map(lambda number: round(number, 6))
positive = st.floats(1e-3, 1e3)
samples = st.lists(numbers, min_size=2, max_size=12)


@given(samples)
def test_the_interval_of_a_mean_is_scipys(values):
    assume(len(set(values)) > 1)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    scale = max(map(abs, values))
    assert student_interval(values) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9 * scale)


@given(samples)
def test_the_interval_by_resampling_lies_within_the_values_and_around_their_mean(values):
    low, high = bootstrap_interval(values)
    assert min(values) <= low + 1e-9 and high <= max(values) + 1e-9
    assert low - 1e-6 <= np.mean(values) <= high + 1e-6
    assert bootstrap_interval(values[::-1]) == (low, high)


def test_resampling_covers_the_mean_of_shares_about_as_often_as_it_says():
    """The shares are often 1, like those of seconds in which bytes arrive: beta-distributed, with mean 10 / 11."""
    shares = np.random.default_rng(1).beta(5, 0.5, (300, 8))
    covered = [low <= 10 / 11 <= high for low, high in map(bootstrap_interval, shares)]
    assert np.mean(covered) > 0.85


def test_an_interval_of_shares_does_not_reach_past_one_and_students_is_kept_where_it_does_not():
    near, far = [0.97, 1.0, 1.0, 1.0, 0.97], [0.5, 0.52, 0.48, 0.51, 0.5]
    assert student_interval(near).high > 1 >= mean_interval(near, (0, 1)).high
    assert mean_interval(far, (0, 1)) == student_interval(far)
    claim = a_claim("absolute", 1.0, {"band": [0.9, 1.0]})
    assert verdict(claim, near) == "undecided"
    assert verdict(claim.model_copy(update={"bounds": (0, 1)}), near) == "agrees"
    with pytest.raises(NetreproError, match="lies in 0 to 1"):
        verdict(claim.model_copy(update={"bounds": (0, 1)}), [1.2, 0.9])


def test_repetitions_in_two_groups_are_resampled_and_named():
    values = [0.1, 0.11, 0.12, 0.9, 0.91]
    assert two_groups(values) == ([0.1, 0.11, 0.12], [0.9, 0.91])
    judgement = judge(a_claim("absolute", 0.5, {"factor": 1.2}), Measured(claim="it", values=values), "simulated")
    assert judgement.interval == bootstrap_interval(values)
    assert "two groups, 3 about 0.11 and 2 about 0.905" in judgement.reason


def test_few_or_spread_repetitions_or_one_that_lies_apart_are_no_two_groups():
    assert two_groups([0.1, 0.1, 0.9, 0.9]) is None
    assert two_groups([7.0, 7.0, 8.0, 8.0, 8.0]) is None
    assert two_groups([0.1, 0.3, 0.5, 0.7, 0.9]) is None
    assert two_groups([0.1, 0.11, 0.12, 0.13, 0.9]) is None
    draws = np.random.default_rng(2).normal(size=(2000, 5))
    assert sum(two_groups(list(each)) is not None for each in draws) < 0.03 * len(draws)


@given(st.integers(1, 500).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_interval_of_a_proportion_is_scipys(counts):
    expected = stats.binomtest(*counts).proportion_ci(0.95, method="wilson")
    assert wilson_interval(*counts) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=10))
def test_kendalls_tau_is_scipys_with_ties_too(pairs):
    left, right = zip(*pairs, strict=True)
    expected = stats.kendalltau(left, right).statistic
    assert kendall_tau(left, right) == pytest.approx(0 if math.isnan(expected) else expected)


KINDS = st.sampled_from(["effect", "absolute"])
WORSE = ("agrees", "agrees in direction", "undecided", "disagrees")


@given(KINDS, st.floats(0.1, 10), st.lists(st.floats(0.01, 30), min_size=2, max_size=6), positive, positive)
def test_widening_the_acceptance_never_worsens_a_verdict(kind, published, values, narrow, more):
    for key, start in (("relative", 0), ("factor", 1)):
        before = verdict(a_claim(kind, published, {key: start + narrow}), values)
        after = verdict(a_claim(kind, published, {key: start + narrow + more}), values)
        assert WORSE.index(after) <= WORSE.index(before)


@given(st.lists(st.permutations("abcd"), min_size=2, max_size=6), st.floats(0.01, 1), st.floats(0.01, 1))
def test_asking_less_of_an_ordering_never_worsens_its_verdict(rankings, one, other):
    strict, lenient = (
        verdict(a_claim("ordering", list("abcd"), {"kendall_at_least": least}), rankings)
        for least in (max(one, other), min(one, other))
    )
    assert WORSE.index(lenient) <= WORSE.index(strict)


@given(st.lists(positive, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_repetitions_changes_nothing(values, random):
    shuffled = random.sample(values, len(values))
    claim = a_claim("effect", 2, {"factor": 2}, control="off")
    before, after = (
        judge(claim, Measured(claim="it", values=each, control=each), "simulated") for each in (values, shuffled)
    )
    assert before == after


@given(st.floats(0.1, 10), st.lists(st.floats(0.01, 30), min_size=2, max_size=6), st.floats(0.05, 3), positive)
def test_scaling_published_and_measured_together_keeps_the_verdict(published, values, width, scale):
    scaled = [scale * value for value in values]
    for key, start in (("relative", 0), ("factor", 1)):
        accept = {key: start + width}
        low, high = a_claim("absolute", published, accept).accepted_band()
        interval = student_interval(values)
        edges = [abs(end - edge) for end in interval for edge in (low, high)]
        assume(min(edges) > 1e-6 * published)  # off the edge, where rounding may decide
        assert verdict(a_claim("absolute", published, accept), values) == verdict(
            a_claim("absolute", scale * published, accept), scaled
        )
        assert verdict(a_claim("effect", published, accept, neutral=0), values) == verdict(
            a_claim("effect", scale * published, accept, neutral=0), scaled
        )


@given(samples, st.one_of(st.none(), samples))
def test_a_measurement_survives_json(values, control):
    measured = Measured(claim="it", values=np.asarray(values), control=control)
    assert Measured(**json.loads(json.dumps(measured.model_dump()))) == measured
