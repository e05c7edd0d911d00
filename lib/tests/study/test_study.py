"""The house's part of a paper: grids, claims out of readings, knobs, tables, tiers, trust."""

from __future__ import annotations

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro import backends
from netrepro.errors import NetreproError
from netrepro.study import (
    BESIDE,
    REAL_TIME,
    VIRTUAL,
    Check,
    Evidence,
    Knob,
    Reading,
    Scale,
    Study,
    check_table,
    curve,
    greatest_first,
    jackknife,
    least_first,
    least_first_by,
    load_runs,
    measure,
    points,
    ratio,
    run_once,
    seed_of,
    swept,
    trust_of,
    trust_table,
    vary,
)
from netrepro.study.declaration import LEAST_REPETITIONS


@dataclass(frozen=True)
class Setting:
    load: float = 0.5
    servers: int = 1
    label: str = "plain"
    sizes: tuple[int, ...] = (1, 2)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    noise = np.random.default_rng(seed).random()
    delay_ms = 10 * setting.load * setting.servers + noise
    samples = pd.DataFrame({"time_s": [0.0, 1.0], "delay_ms": [setting.load, noise]})
    return Reading(
        {"delay_ms": delay_ms, "seconds": seconds, "lost": float(noise > 0.5)},
        {"samples": samples},
        [Check("delay", setting.load, at_most=1.0)],
    )


CASES = {
    "low": {"load": 0.1},
    "high": {"load": 0.9, "label": "loaded"},
    "many": {"servers": swept(1, 2, 4)},
    "twice": {"load": 0.2, "servers": lambda setting: int(20 * setting.load)},
}
STUDY = Study(
    slug="two_numbers",
    setting=Setting(),
    cases=CASES,
    measure_one=measure_one,
    scales={
        "quick": Scale(1.0),
        "paper": Scale(9.0, repetitions=2, changes={"label": "paper"}, only={"servers": (1, 4)}),
    },
    knobs={"load": Knob({"knob": {"load": swept(0.2, 0.4)}}, Scale(2.0), repetitions=2)},
)


@pytest.fixture(scope="module")
def runs():
    return measure(STUDY, repetitions=3, seed=5)


def values(runs, *given, **named):
    return runs.values_of(Evidence(*given, **named))


def test_every_case_place_and_repetition_is_a_row_with_what_was_swept(runs):
    assert len(runs.values) == 3 * (1 + 1 + 3 + 1)
    assert list(runs.numbers("many").servers) == [1, 1, 1, 2, 2, 2, 4, 4, 4]
    assert list(runs.numbers("low").servers) == [1, 1, 1]
    assert set(runs.numbers("twice").servers) == {4}


def test_a_repetition_has_the_same_seed_in_every_case(runs):
    noise = [np.random.default_rng(seed_of(5, repetition)).random() for repetition in range(3)]
    assert values(runs, "delay_ms", "low") == pytest.approx([1 + each for each in noise])
    assert values(runs, "delay_ms", ("high", "low"), how=lambda high, low: high - low) == pytest.approx([8.0] * 3)


def test_seeds_of_neighbouring_bases_do_not_overlap():
    assert len({seed_of(base, repetition) for base in range(10) for repetition in range(20)}) == 200


def test_a_study_makes_seeds_of_its_own_for_measure_one_and_knobs_alike():
    seen = []
    study = replace(
        STUDY,
        seeds=lambda seed, repetition: (seed, repetition),
        measure_one=lambda setting, seconds, seed, tier: (
            seen.append(seed) or measure_one(setting, seconds, sum(seed), tier)
        ),
    )
    vary(measure(study, repetitions=3, seed=5), "load")
    assert set(seen) == {(5, 0), (5, 1), (5, 2)}


def test_a_case_with_a_grid_gives_a_series_over_it(runs):
    found = values(runs, "delay_ms", "many", how=lambda delay: delay[4] - delay[1])
    assert found == pytest.approx([15.0] * 3)
    assert [x for x, _ in values(runs, "delay_ms", "many")[0]] == [1.0, 2.0, 4.0]


def test_readings_become_ratios_rankings_curves_and_proportions(runs):
    high, low = values(runs, "delay_ms", "high"), values(runs, "delay_ms", "low")
    assert values(runs, "delay_ms", ("high", "low"), how=ratio) == [
        one / two for one, two in zip(high, low, strict=True)
    ]
    assert values(runs, "delay_ms", ("high", "low"), how=least_first("H", "L")) == [["L", "H"]] * 3
    assert values(runs, "delay_ms", ("high", "low"), how=greatest_first("H", "L")) == [["H", "L"]] * 3
    assert values(runs, ("delay_ms", "seconds"), "low", how=curve((10, 20)))[0] == [(10.0, low[0]), (20.0, 1.0)]
    assert values(runs, "samples", "high")[0][0] == (0.0, 0.9)
    study = replace(STUDY, claims={"lost": Evidence("lost", "low", counted=True, control="high")})
    measured = measure(study, repetitions=8).measured_claims()[0]
    assert measured.trials == measured.control_trials == 8 and 0 < measured.successes < 8
    exact = replace(STUDY, claims={"time": Evidence("seconds", "low", control="high", exact=True)})
    assert measure(exact, repetitions=3).measured_claims()[0].values == [1.0]


def test_the_paper_profile_makes_at_least_five_repetitions_unless_fewer_are_asked_for():
    study = replace(STUDY, repetitions=3, scales={"quick": Scale(1.0), "paper": Scale(1.0)})
    made = [measure(study, profile=profile).repetitions for profile in ("quick", "paper")]
    assert made == [3, LEAST_REPETITIONS]
    assert measure(study, profile="paper", repetitions=2).repetitions == 2


def test_a_pooled_claim_is_a_statistic_of_all_repetitions_together_with_the_jackknifes_spread(runs):
    def greatest(high, low):
        """Return the jackknife's values of the greatest difference over the repetitions."""
        return jackknife(high, lambda out: max(high[each] - low[each] for each in high if each != out))

    delays = values(runs, "delay_ms", "high")
    assert values(runs, "delay_ms", ("high", "low"), how=greatest, pooled=True) == pytest.approx([8.0] * 3)
    mean = values(runs, "delay_ms", "high", how=lambda high: jackknife(high, mean_of(high)), pooled=True)
    assert mean == pytest.approx(delays)  # of a mean the jackknife's values are the values themselves
    assert jackknife([0], lambda out: 3.0).tolist() == [3.0]


def mean_of(by_repetition):
    return lambda out: float(np.mean([value for each, value in by_repetition.items() if each != out]))


def test_a_function_of_the_setting_says_which_places_of_a_grid_are_measured():
    few = {"quick": Scale(1.0, where=lambda setting: setting.servers < 4)}
    found = measure(replace(STUDY, scales=few), repetitions=1)
    assert list(found.numbers("many").servers) == [1, 2] and found.has("low", "high")
    assert not found.has("twice"), "all places of a case may go"


def test_other_tiers_may_judge_a_claim_by_other_cases():
    claims, other = {"delay": Evidence("delay_ms", "low")}, {"delay": Evidence("delay_ms", "high")}
    study = replace(STUDY, claims=claims, on_kernels=other)
    runs = measure(study, tier="virtual", repetitions=2)
    here, there = (runs.measured_claims(tier)[0].values for tier in ("simulated", "virtual"))
    assert np.subtract(there, here) == pytest.approx([8.0, 8.0])
    both = {"delay": [Evidence("delay_ms", "twice"), other["delay"]]}
    for refused, expected in (("", 7.0), ("virtual", 8.0)):
        cannot = lambda setting, tier, no=refused: "slow" if (setting.load, tier) == (0.2, no) else ""  # noqa: E731
        again = measure(replace(study, on_kernels=both, cannot=cannot), tier="virtual", repetitions=2)
        there = again.measured_claims("virtual")[0].values
        assert np.subtract(there, here) == pytest.approx([expected, expected])
    for wrong in (Evidence("delay_ms", "hihg"), [other["delay"], Evidence("delay_ms", "hihg")]):
        with pytest.raises(NetreproError, match="needs case"):
            replace(STUDY, on_kernels={"delay": wrong})


def test_a_tier_is_trusted_by_its_own_checks_alone():
    def checked(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
        return Reading({"delay_ms": setting.load}, checks=[Check("busy", float(tier == "virtual"), at_most=0.0)])

    study = replace(STUDY, measure_one=checked, claims={"delay": Evidence("delay_ms", "low")}, knobs={})
    runs = measure(study, tier="virtual", repetitions=2)
    assert [runs.measured_claims(tier)[0].trusted for tier in ("simulated", "virtual")] == [True, False]
    assert [replace(runs, tier=tier).trusted for tier in ("simulated", "virtual")] == [True, False]


def test_what_takes_real_time_is_measured_when_all_else_is_done():
    order = []

    def noted(setting, seconds, seed, tier):
        order.append(setting.label)
        return measure_one(setting, seconds, seed, tier)

    study = replace(STUDY, measure_one=noted, in_turn=lambda setting: setting.label == "loaded", knobs={})
    found = measure(study, repetitions=2)
    assert order[-2:] == ["loaded", "loaded"] and "loaded" not in order[:-2]
    assert found.values.equals(measure(STUDY, repetitions=2).values)


def test_equal_readings_are_ranked_against_the_order_that_is_asked_for():
    assert least_first("a", "b", "c")(1.0, 1.0, 1.0) == ["c", "b", "a"]
    assert greatest_first("a", "b")(2.0, 2.0) == ["b", "a"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6, unique=True))
def test_a_ranking_sorts(numbers):
    names = [str(each) for each in range(len(numbers))]
    ranked = least_first(*names)(*numbers)
    assert [numbers[int(name)] for name in ranked] == sorted(numbers)
    assert greatest_first(*names)(*numbers) == ranked[::-1]


@given(st.lists(st.sampled_from([-2.0, 0.0, 1.0, 1.05, 3.0]), min_size=2, max_size=5))
def test_a_ranking_with_no_least_lead_is_the_plain_one(numbers):
    names = [str(each) for each in range(len(numbers))]
    assert least_first_by(0.0, *names)(*numbers) == least_first(*names)(*numbers)


def test_a_lead_that_is_too_small_is_none_and_counts_against_the_order():
    by_a_tenth = least_first_by(0.1, "a", "b", "c")
    assert by_a_tenth(1.0, 2.0, 3.0) == ["a", "b", "c"]
    assert by_a_tenth(1.0, 1.05, 3.0) == ["b", "a", "c"]
    assert by_a_tenth(2.95, 2.9, 3.0) == ["c", "b", "a"]
    assert least_first_by(0.1, "a", "b")(-3.0, -2.9) == ["b", "a"]
    with pytest.raises(NetreproError, match="share = 10"):
        least_first_by(10, "a", "b")


def test_a_control_may_be_computed_otherwise():
    claims = {"low": Evidence("delay_ms", "low", control=Evidence("seconds", ("low", "high"), how=ratio))}
    measured = measure(replace(STUDY, claims=claims), repetitions=2).measured_claims()[0]
    assert measured.control == [1.0, 1.0]


def test_profiles_change_seconds_repetitions_setting_and_grid():
    found = measure(STUDY, profile="paper", repetitions=5)
    assert found.repetitions == 2 and set(found.values.seconds) == {9.0}
    assert set(found.numbers("many").servers) == {1, 4}
    changed = [point.setting.label for point in points(CASES, Setting(), STUDY.scale("paper"))]
    assert changed == ["paper", "loaded", "paper", "paper", "paper"]


def test_a_profile_may_repeat_at_least_so_often():
    often = replace(STUDY, scales={"quick": Scale(1.0, least_repetitions=4)}, knobs={})
    assert [measure(often, repetitions=asked).repetitions for asked in (2, 6)] == [4, 6]


def test_what_a_scale_leaves_unjudged_is_measured_but_no_claim(runs):
    claims = {name: Evidence("delay_ms", name) for name in ("low", "high")}
    for unjudged, judged in (((), {"low", "high"}), (("low",), {"high"})):
        study = replace(STUDY, claims=claims, scales={"quick": Scale(1.0, unjudged=unjudged)})
        again = replace(runs, study=study)
        assert {each.claim for each in again.measured_claims()} == judged and again.has("low")


def test_a_case_may_be_repeated_less_often_and_a_claim_takes_the_repetitions_that_all_its_cases_have():
    study = replace(STUDY, scales={"quick": Scale(1.0, fewer={"high": 2, "many": 1})})
    found = measure(study, repetitions=3)
    assert {name: len(found.numbers(name)) for name in CASES} == {"low": 3, "high": 2, "many": 3, "twice": 3}
    low, high = values(found, "delay_ms", "low"), values(found, "delay_ms", "high")
    assert high == pytest.approx([8 + delay for delay in low[:2]])
    assert values(found, "delay_ms", ("low", "high"), how=ratio) == [low[0] / high[0], low[1] / high[1]]


def test_a_knob_is_a_grid_of_its_own(runs):
    table = vary(runs, "load")
    assert list(table.load) == [0.2, 0.2, 0.4, 0.4] and set(table.seconds) == {2.0}


def test_a_scale_may_give_a_knob_fewer_repetitions():
    own = {"quick": Scale(2.0, repetitions=1), "paper": Scale(2.0)}
    study = replace(STUDY, knobs={"load": replace(STUDY.knobs["load"], scale=own)})
    assert list(vary(measure(study, repetitions=3, seed=5), "load").load) == [0.2, 0.4]
    assert list(vary(measure(study, profile="paper", seed=5), "load").load) == [0.2, 0.2, 0.4, 0.4]


def test_what_a_case_and_a_knob_have_in_common_runs_once():
    asked = []

    def count(setting, seconds, seed, tier):
        asked.append((setting, seconds, seed))
        return measure_one(setting, seconds, seed, tier)

    cases = {**CASES, "low by another name": {"load": 0.1}}
    knobs = {
        "load": Knob({"knob": {"load": swept(0.1, 0.3)}}, Scale(1.0), repetitions=2),
        "longer": Knob({"knob": {"load": 0.1}}, Scale(2.0), repetitions=2),
    }
    study = replace(STUDY, measure_one=count, cases=cases, knobs=knobs)
    found = measure(study, repetitions=3, seed=5)
    assert len(asked) == 3 * 6  # low, high, many at three places, twice
    assert list(found.numbers("low").delay_ms) == list(found.numbers("low by another name").delay_ms)
    table = vary(found, "load")
    assert len(asked) == 3 * 6 + 2
    assert list(table.delay_ms[table.load == 0.1]) == list(found.numbers("low").delay_ms[:2])
    vary(found, "longer")
    assert len(asked) == len(set(asked)) == 3 * 6 + 4


def test_runs_that_share_something_are_measured_together_and_read_in_their_order():
    asked = []

    def measure_all(work, progress):
        asked.append([(run.setting.load, run.seed) for run in work])
        return [measure_one(*run) for run in work]

    cases = {name: CASES[name] for name in ("low", "high")}
    study = replace(STUDY, measure_one=None, measure_all=measure_all, cases=cases, knobs={})
    apart = measure(replace(STUDY, cases=cases, knobs={}), repetitions=2, seed=5)
    together = measure(study, repetitions=2, seed=5)
    assert asked == [[(load, seed_of(5, repetition)) for repetition in (0, 1) for load in (0.1, 0.9)]]
    pd.testing.assert_frame_equal(together.values, apart.values)
    assert run_once(study, "low", 1.0, load=0.3)["delay_ms"] == run_once(STUDY, "low", 1.0, load=0.3)["delay_ms"]
    with pytest.raises(NetreproError, match=r"has no 'lod'\n.*'load'"):
        run_once(STUDY, "low", 1.0, lod=0.3)


def test_a_tier_runs_the_scale_that_is_nearest_to_its_own():
    plain, on_kernels, real = Scale(1.0), Scale(2.0), Scale(3.0)
    scales = {"quick": plain, "paper": plain, ("quick", VIRTUAL): on_kernels, ("paper", REAL_TIME): real}
    study = replace(STUDY, scales={**scales, ("quick", BESIDE): Scale(4.0)})
    assert study.profiles == ["quick", "paper"]
    tiers = ("simulated", "virtual", "privileged", "rootless")
    assert [study.scale("quick", tier) for tier in tiers] == [plain, *[on_kernels] * 3]
    assert [study.scale("paper", tier) for tier in tiers] == [plain, plain, real, real]
    assert study.scale_beside("quick") == Scale(4.0) and study.scale_beside("paper") is None
    both = replace(STUDY, scales={**scales, ("quick", REAL_TIME): real})
    assert [both.scale("quick", tier) for tier in tiers] == [plain, on_kernels, real, real]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (("quik", VIRTUAL), r"\('quik', 'virtual'\) of no profile\n.*'quick'"),
        (("quick", "virtul"), r"\('quick', 'virtul'\) of no tier\n.*'virtual'"),
        (("quick", "rootless"), r"\('quick', 'rootless'\) of no tier\n.*virtual, real time, beside"),
    ],
)
def test_a_scale_of_no_profile_or_tier_is_refused_by_name(key, words):
    with pytest.raises(NetreproError, match=words):
        replace(STUDY, scales={**STUDY.scales, key: Scale(1.0)})
    with pytest.raises(NetreproError, match=r"no profile 'quik'\n.*'quick'"):
        STUDY.scale("quik")


@pytest.mark.parametrize("why", ["", "no virtual kernel: not built"])
def test_the_virtual_kernel_runs_beside_the_simulator_where_there_is_one_and_judges_nothing(monkeypatch, why):
    monkeypatch.setattr(backends, "why_absent", lambda tier: why)
    small = Scale(2.0, repetitions=1, without=("low", "many", "twice"))
    scales = {**STUDY.scales, ("quick", BESIDE): small}
    study = replace(STUDY, scales=scales, claims={"x": Evidence("delay_ms", "high")})
    runs = measure(study, repetitions=3, seed=5)
    assert runs.tiers == ["simulated"] + ["virtual"] * (not why)
    assert len(runs.numbers("high", "virtual")) == (not why)
    assert runs.skipped.get("virtual: high", "") == why
    assert [len(each.values) for each in runs.measured_claims()] == [3]


def test_evidence_counts_only_with_the_settings_that_it_asks_for(runs):
    study = replace(STUDY, claims={"x": Evidence("delay_ms", "high", where=lambda setting: setting.label == "own")})
    assert replace(runs, study=study).measured_claims() == []
    own = replace(runs, study=study, setting=Setting(label="own"))
    assert [each.claim for each in own.measured_claims()] == ["x"]


def test_a_function_may_make_a_knobs_table(runs):
    study = replace(STUDY, knobs={"own": lambda runs, progress: pd.DataFrame({"seed": [runs.seed]})})
    own = replace(runs, study=study, knobs={})
    assert list(vary(own, "own").seed) == [5] and set(own.knobs) == {"own"}


def test_the_tiers_stand_side_by_side():
    both = measure(STUDY, repetitions=2, tier="virtual")
    assert both.tiers == ["virtual", "simulated"]
    table = both.tier_table("delay_ms")
    assert list(table.columns) == [("delay_ms", "virtual"), ("delay_ms", "simulated")]
    assert len(both.summary()) == len(table) == 6
    alone = measure(STUDY, repetitions=2, tier="virtual", beside=False)
    assert alone.tiers == ["virtual"]


def test_the_tiers_stand_side_by_side_where_one_of_them_sweeps_nothing():
    few = replace(STUDY, cannot=lambda setting, tier: "one server" if tier == "virtual" and setting.servers > 1 else "")
    table = measure(few, repetitions=2, tier="virtual").tier_table("delay_ms")
    assert table.loc[("low", 1)].notna().all() and list(table.loc["many"].notna().any()) == [False, True]


def test_tables_survive_being_saved_to_the_last_bit(runs, tmp_path):
    vary(runs, "load")
    runs.save(tmp_path)
    again = load_runs(STUDY, tmp_path)
    pd.testing.assert_frame_equal(again.values, runs.values)
    pd.testing.assert_frame_equal(again.tables["samples"], runs.tables["samples"])
    pd.testing.assert_frame_equal(again.knobs["load"], runs.knobs["load"])
    assert again.setting == Setting() and again.trusted
    with pytest.raises(NetreproError, match="measure first: netrepro run two_numbers"):
        load_runs(STUDY, tmp_path / "nowhere")


def test_what_is_misspelt_is_refused_by_name(runs):
    with pytest.raises(NetreproError, match=r"changes 'lod'.*\n.*'load'"):
        replace(STUDY, cases={"low": {"lod": 0.1}})
    with pytest.raises(NetreproError, match="needs case 'lo'"):
        replace(STUDY, claims={"a": Evidence("delay_ms", "lo")})
    with pytest.raises(NetreproError, match="no figure 'knob'"):
        replace(STUDY, best=("knob",))
    with pytest.raises(NetreproError, match="6 best figures"):
        replace(STUDY, figures=dict.fromkeys("abcdef", plt.figure), best=tuple("abcdef"))
    with pytest.raises(NetreproError, match=r"reads no 'delay'\n.*'delay_ms'"):
        values(runs, "delay", "low")
    with pytest.raises(NetreproError, match="no knob 'lod'"):
        vary(runs, "lod")
    with pytest.raises(NetreproError, match="no case 'lwo'"):
        STUDY.case("lwo")
    with pytest.raises(NetreproError, match="what is measured"):
        replace(STUDY, measure_one=None)
    with pytest.raises(NetreproError, match="repetitions = 0"):
        measure(STUDY, repetitions=0)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(("delay_ms", "seconds"), "low"), r"2 readings \(delay_ms, seconds\) without how\n.*curve"),
        (Evidence("delay_ms", ("low", "high")), r"2 cases without how\n.*ratio"),
        (Evidence("delay_ms", "low", pooled=True), "pooled without how"),
        (Evidence("delay_ms", "low", how=ratio), "how cannot be called with 1 argument\n.*one argument a case"),
        (Evidence("delay_ms", "low", control=Evidence("delay_ms", "high", how=ratio)), r"'a \(control\)': how cannot"),
    ],
)
def test_evidence_that_could_never_be_computed_is_refused_where_it_is_declared(evidence, words):
    with pytest.raises(NetreproError, match=words):
        replace(STUDY, claims={"a": evidence})
    with pytest.raises(NetreproError, match=words):
        replace(STUDY, on_kernels={"a": (evidence,)})


def test_evidence_needs_no_how_where_its_readings_are_a_value_as_they_are():
    both = Evidence(("servers", "delay_ms"), "many")
    study = replace(STUDY, claims={"grid": both, "trials": Evidence(("a", "b"), "low", counted=True)})
    assert len(study.claims) == 2


def test_a_ratio_to_nothing_says_so_and_names_what_to_do():
    assert ratio(1.0, 2.0) == 0.5
    with pytest.raises(NetreproError, match=r"second case reads 0\n.*difference"):
        ratio(1.0, 0.0)


def test_a_read_that_nothing_calls_is_refused():
    with pytest.raises(NetreproError, match="read is never called"):
        replace(STUDY, read=lambda run, setting: Reading())


# Readings.


def test_two_readings_of_a_run_become_one_with_all_checks():
    numbers = Reading({"a": 1.0, "b": 2.0}, checks=[Check("first", 1.0)], fidelity=pd.DataFrame({"check": ["own"]}))
    more = Reading({"b": 3.0}, {"table": pd.DataFrame({"x": [1]})}, [Check("second", 2.0)])
    both = numbers | more
    assert dict(both.numbers) == {"a": 1.0, "b": 3.0} and list(both.tables) == ["table"]
    assert [check.name for check in both.checks] == ["first", "second"] and list(both.fidelity.check) == ["own"]
    assert both["b"] == 3.0 and list(both["table"].x) == [1] and "table" in both and "c" not in both


def test_what_is_read_must_be_a_reading_with_its_numbers_and_tables_apart():
    table = pd.DataFrame({"x": [1]})
    with pytest.raises(NetreproError, match="'samples' is no number"):
        Reading({"samples": table})
    with pytest.raises(NetreproError, match="'load' is no table"):
        Reading(tables={"load": 0.5})
    with pytest.raises(NetreproError, match=r"no 'lod' was read\n.*'load'"):
        Reading({"load": 0.5})["lod"]
    with pytest.raises(NetreproError, match="two_numbers: what is read of a run is of type dict"):
        measure(replace(STUDY, measure_one=lambda *run: {"load": 0.5}), repetitions=1)


# Trust.


@pytest.mark.parametrize(("name", "what"), [("servers", "swept"), ("case", "label of every run")])
def test_a_number_that_is_read_replaces_no_swept_field_and_no_label(name, what):
    study = replace(STUDY, measure_one=lambda *_: Reading({name: 7.0}))
    with pytest.raises(NetreproError, match=rf"reads a number '{name}', and '{name}' is a .*{what}: 7.0 would"):
        measure(study, repetitions=1)


@pytest.mark.parametrize(("name", "what"), [("servers", "swept"), ("case", "label of every run")])
def test_a_column_that_is_read_is_replaced_by_no_swept_field_and_no_label(name, what):
    study = replace(STUDY, measure_one=lambda *_: Reading(tables={"samples": pd.DataFrame({name: [7.0, 8.0]})}))
    with pytest.raises(NetreproError, match=rf"table 'samples' with a column '{name}', and '{name}' is a .*{what}"):
        measure(study, repetitions=1)


def test_a_column_that_is_the_swept_field_itself_is_kept():
    def same(setting, *_):
        return Reading(tables={"samples": pd.DataFrame({"servers": [setting.servers] * 2})})

    run = measure(replace(STUDY, measure_one=same), repetitions=1)
    assert list(run.table("samples", "many").servers) == [1, 1, 2, 2, 4, 4]


def test_the_worst_value_is_the_one_nearest_to_its_bound():
    checks = [Check("share", 0.9, at_least=0.8), Check("share", 0.7, at_least=0.8), Check("late", 3.0, at_most=5.0)]
    checks += [Check("late", 1.0, at_most=5.0), Check("shown", 7.0)]
    table = trust_table(check_table(checks).assign(tier="simulated")).loc["simulated"]
    assert dict(table.worst) == {"share": 0.7, "late": 3.0, "shown": 7.0}
    assert dict(table.failed) == {"share": 1, "late": 0, "shown": 0}
    assert "share, 0.7 (bound 0.8)" in trust_of(check_table(checks))["why"]
