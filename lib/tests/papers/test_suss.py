"""SUSS: the closed form of what it saves, the authors' logs and table, and where nothing may be saved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.papers import suss as paper
from netrepro.papers.suss import closed_form, experiments, figures
from netrepro.papers.suss.experiments import SUSS, FifthFlow, Setting
from netrepro.study import Runs, Scale, measure, points, read_once, run_once


@pytest.fixture(scope="module")
def runs() -> Runs:
    """All but the grid and the fifth flow, once each."""
    few = {
        name: changes
        for name, changes in experiments.CASES.items()
        if name.split(",")[0] in ("example", "later", "class")
    }
    return measure(replace(paper.STUDY, cases=few, claims={}), repetitions=1, seed=11)


def completion_ms(**changed) -> float:
    return float(read_once(paper.STUDY, replace(Setting(), **changed))["completion_ms"])


def saved(**changed) -> float:
    """Round trips."""
    round_trip_ms = changed.get("round_trip_ms", 100.0)
    return (completion_ms(**changed) - completion_ms(**{**SUSS, **changed})) / round_trip_ms


def test_the_closed_form_by_hand():
    """196 segments fill the example's path: 10 20 40 80 160 against 10 40 160."""
    assert closed_form.round_windows(196, 0) == [10, 20, 40, 80, 160]
    assert closed_form.round_windows(196, 2) == [10, 40, 160]
    assert closed_form.saved_round_trips(196) == pytest.approx((5 - 310 / 196) - (3 - 210 / 196))
    assert closed_form.round_windows(1000, 3) == [10, 40, 160, 640]
    assert closed_form.round_windows(5000, 3) == [10, 40, 160, 640, 1280, 2560]


@pytest.mark.parametrize(
    "rate_mbps, round_trip_ms", [(48, 49.5), (50, 75), (50, 100), (50, 200), (100, 100), (50, 250)]
)
def test_the_saving_is_the_closed_forms_where_hystart_is_mended(rate_mbps, round_trip_ms):
    path = {"rate_mbps": rate_mbps, "round_trip_ms": round_trip_ms, "buffer_bdp": 2.0, "mended": True}
    closed = closed_form.saved_round_trips(Setting(**path).bdp_packets)
    assert 1.4 < closed < 2.7
    for size_mb in (4.0, 10.0):
        assert saved(size_mb=size_mb, **path) == pytest.approx(closed, abs=0.06)


@pytest.mark.parametrize("rate_mbps, round_trip_ms, size_mb", [(50, 100, 4.0), (100, 100, 10.0), (25, 200, 4.0)])
def test_completion_times_are_the_closed_forms_where_hystart_is_mended(rate_mbps, round_trip_ms, size_mb):
    path = {"rate_mbps": rate_mbps, "round_trip_ms": round_trip_ms, "size_mb": size_mb, "mended": True}
    setting = Setting(**path)
    fourfold = paper.rounds_that_grow_fourfold(setting.bdp_packets)
    for changes, times in (({}, 0), (SUSS, fourfold)):
        closed_ms = paper.completion_at_full_path_ms(setting, times)
        assert completion_ms(**changes, **path, buffer_bdp=2.0) == pytest.approx(closed_ms, rel=0.02)


def test_the_fault_of_hystart_makes_the_saving_look_larger_on_long_paths():
    """The paper's kernels leave slow start too early without SUSS."""
    path = {"round_trip_ms": 250.0, "size_mb": 10.0}
    assert saved(**path) > 2 * saved(**path, mended=True) > 5


@pytest.mark.parametrize("round_trip_ms", [100.0, 250.0])
def test_with_the_fault_suss_overshoots_a_buffer_of_one_product_and_mended_it_does_not(round_trip_ms):
    lost = {
        (control, mended): read_once(
            paper.STUDY, Setting(round_trip_ms=round_trip_ms, size_mb=10.0, congestion_control=control, mended=mended)
        )["dropped_packets"]
        for control in ("cubic", "suss")
        for mended in (False, True)
    }
    assert lost.pop(("suss", False)) > 300
    assert set(lost.values()) == {0}


@pytest.mark.parametrize("bdp_packets, fourfold", [(39, 0), (40, 1), (159, 1), (160, 2), (639, 2), (640, 3), (9999, 3)])
def test_the_window_grows_fourfold_while_it_fits_the_path(bdp_packets, fourfold):
    assert paper.rounds_that_grow_fourfold(bdp_packets) == fourfold


@pytest.mark.parametrize("bdp_packets, fourfold", [(30, 0), (60, 1), (120, 1), (250, 2), (500, 2), (900, 3)])
def test_the_simulator_grows_fourfold_as_often_as_the_closed_form_says(bdp_packets, fourfold):
    """One round fewer allowed must cost time, one more must not save any."""
    path = {"rate_mbps": bdp_packets * 8 * 1514 / 100e3, "size_mb": 2.0, "buffer_bdp": 2.0, "mended": True}
    times = [completion_ms(**SUSS, **path, suss_rounds=n) for n in range(4)]
    assert np.all(np.diff(times[: fourfold + 1]) < -1)
    assert times[fourfold:] == pytest.approx([times[fourfold]] * (4 - fourfold), abs=0.5)


@given(st.floats(20, 20_000))
def test_the_closed_form_saves_never_less_than_nothing_nor_more_than_the_rounds_it_skips(bdp_packets):
    skipped = len(closed_form.round_windows(bdp_packets, 0)) - len(
        closed_form.round_windows(bdp_packets, paper.rounds_that_grow_fourfold(bdp_packets))
    )
    assert 0 <= closed_form.saved_round_trips(bdp_packets) <= skipped + 1e-9 <= 3 + 1e-9
    assert closed_form.saved_round_trips(bdp_packets, most=0) == 0


def flights(segments: int, fourfold: int) -> int:
    """The round trips in which so many segments leave a sender that nothing holds up."""
    return int(np.searchsorted(np.cumsum(closed_form.round_windows(1e9, fourfold)), segments)) + 1


def test_a_tenth_of_a_megabyte_cannot_gain_as_it_takes_as_many_flights():
    segments = -(-100_000 // experiments.SEGMENT_BYTES)
    assert flights(segments, 0) == flights(segments, 3) == 3
    assert saved(size_mb=0.1, rate_mbps=200.0, round_trip_ms=250.0) < 0.05
    assert flights(2 * segments, 0) == flights(2 * segments, 3) + 1


@pytest.mark.parametrize("changed", [{"round_trip_ms": 9.0}, {"round_trip_ms": 1.0}, {"suss_rounds": 0}])
def test_where_suss_is_off_nothing_is_saved(changed):
    for size_mb in (0.5, 2.0):
        assert saved(size_mb=size_mb, **changed) == 0


def test_the_authors_example_run(runs):
    table = closed_form.improvements(runs, "example", "completion_s").set_index("size_mb")
    for size_mb, (off_ms, on_ms) in figures.EXAMPLE_PUBLISHED_MS.items():
        assert table.cubic[size_mb] * 1e3 == pytest.approx(off_ms, rel=0.04)
        assert table.suss[size_mb] * 1e3 == pytest.approx(on_ms, rel=0.04)


def test_the_published_numbers_of_module_and_claims_are_the_same():
    claims = load_claims("suss")
    curve = dict(claims.claim("example-improvement").published)
    assert set(curve) == set(figures.EXAMPLE_PUBLISHED_MS) == set(experiments.EXAMPLE_MB)
    for size_mb, (off_ms, on_ms) in figures.EXAMPLE_PUBLISHED_MS.items():
        assert curve[size_mb] == pytest.approx(1 - on_ms / off_ms, abs=6e-4)


LATER_S = {"none": 1.5, "hystart": 1.29, "suss": 1.11}  # the authors' table of 2025: 5 MB


def later_s(runs: Runs) -> dict[str, float]:
    return {case: runs.numbers(f"later, {case}").set_index("size_mb").completion_s[5.0] for case in LATER_S}


def test_the_later_test_takes_as_long_as_the_authors(runs):
    assert later_s(runs) == pytest.approx(LATER_S, rel=0.05)
    claims = load_claims("suss")
    for case in ("hystart", "suss"):
        assert claims.claim(f"later-test-{case}-time").published == LATER_S[case]
        exits = runs.numbers(f"later, {case}").set_index("size_mb").exit_segments
        assert exits[20.0] == pytest.approx({"hystart": 530, "suss": 540}[case], rel=0.03)


def test_in_the_later_test_suss_leaves_slow_start_a_round_trip_sooner_and_too_late_with_the_fault(runs):
    exits = runs.numbers("later, not mended").set_index("size_mb").exit_segments
    assert exits[20.0] > 1000
    peak_s = {}
    for case in ("hystart", "suss"):
        rows = runs.table("windows", f"later, {case}").query("size_mb == 20 and window_segments >= 500")
        peak_s[case] = rows.time_s.min()
    assert peak_s == pytest.approx({"hystart": 0.55, "suss": 0.35}, abs=0.04)  # read off the authors' plot


def test_the_class_saw_little_without_more_delay_and_much_with_it(runs):
    table = closed_form.improvements(runs, "class").set_index("round_trip_ms").improvement
    assert table[40.0] < 0.05 and table[540.0] > 0.3
    mended = 540 * saved(round_trip_ms=540.0, size_mb=12.0, mended=True)  # most of it is HyStart's fault
    assert mended < 0.4 * table_ms(runs)[540.0]


def table_ms(runs: Runs) -> pd.Series:
    return closed_form.improvements(runs, "class").set_index("round_trip_ms").saved_ms


def test_what_was_carried_is_acknowledged_a_round_trip_after_it_left(runs):
    carried = runs.table("carried", "class, cubic").query("round_trip_ms == 540")
    assert carried.time_s.iloc[0] == pytest.approx(0.54, abs=0.01)
    assert carried.carried_mb.max() == pytest.approx(12.0, rel=0.03)


def test_jains_index():
    even = pd.DataFrame({"time_s": np.repeat([0.5, 1.5], 4), "flow": [0, 1, 2, 3] * 2, "size_bytes": 1514})
    assert list(experiments.jain_by_second(even, 4).jain) == [1.0, 1.0]
    assert list(experiments.jain_by_second(even, 5).jain) == pytest.approx([0.8, 0.8])
    alone = even[even.flow == 2]
    assert list(experiments.jain_by_second(alone, 4).jain) == [0.25, 0.25]


def test_a_run_that_never_is_fair_counts_as_long_as_it_lasts():
    setting = FifthFlow(joins_s=2.0, lasts_s=6.0)
    course = pd.DataFrame({"time_s": range(6), "jain": [1.0, 1.0, 0.5, 0.6, 0.97, 0.9]})
    assert experiments.fair_after_s(course, setting) == 2.0
    assert experiments.fair_after_s(course.assign(jain=0.5), setting) == 4.0


def test_only_sizes_and_paths_as_those_of_figure_12_count():
    others = [(0.1, 100.0), (5.0, 100.0), (1.0, 75.0), (1.0, 540.0)]
    places = pd.MultiIndex.from_tuples([(1.0, 100.0), (4.0, 300.0), *others], names=["size_mb", "round_trip_ms"])
    cubic, suss = pd.Series(100.0, places), pd.Series([70.0, 72.0, *[99.0] * len(others)], places)
    assert closed_form.least_improvement(suss, cubic) == pytest.approx(0.28)


def test_data_at_the_same_time_is_the_constant_saving_at_the_links_rate(monkeypatch):
    """The authors' example: 76 ms at 48 Mb/s are .456 MB, of 1, 2 and 4 MB what their plot shows: 45, 23, 11 %."""
    cubic_s = np.array([0.266, 0.342, 0.510, 0.844])
    rows = pd.DataFrame({"size_mb": [0.544, 1.0, 2.0, 4.0], "cubic": cubic_s, "suss": cubic_s - 0.076})
    rows = rows.assign(percent=100 * 0.076 / cubic_s, round_trip_ms=49.5, buffer_bdp=1.0, repetition=0)
    monkeypatch.setattr(closed_form, "improvements", lambda *_, **__: rows)
    ahead = paper.at_the_same_time(None).set_index("size_mb").data_ahead_percent
    assert ahead[[1.0, 2.0, 4.0]].to_numpy() == pytest.approx([45, 23, 11], abs=1.5)


@pytest.mark.parametrize("case", ["example, suss", "example, cubic", "later, suss", "later, not mended"])
def test_every_case_to_play_with_is_drawn(case):
    assert paper.STUDY.play and case in paper.STUDY.play.cases
    figure = figures.draw_run(run_once(paper.STUDY, case, 0.0, size_mb=0.5), case)
    assert np.max(np.asarray(figure.axes[0].lines[0].get_ydata())) > 100


def test_another_rate_is_not_that_of_published_runs():
    setting = replace(Setting(), rate_mbps=20.0)
    rates = {name: paper.STUDY.case(name, setting).rate_mbps for name in experiments.CASES}
    assert {name for name, rate in rates.items() if rate == 20.0} == {
        name for name in experiments.CASES if name.split(",")[0] in ("fig12", "near")
    }


# In virtual time: SUSS as a module of Linux, held against the simulator's and the authors' runs.


@pytest.fixture(scope="module")
def tiers() -> Runs:
    """The example and the test of 2025, once each on both tiers."""
    few = {
        name: changes
        for name, changes in experiments.CASES.items()
        if name.split(",")[0] in ("example", "later", "near")
    }
    few = {name: changes for name, changes in few.items() if name != "example, none fourfold"}
    scale = Scale(
        changes={"module_cubic": True},
        only={"size_mb": (0.5, 4.0, 5.0, 16.0, 20.0), "round_trip_ms": (9.0,)},
    )
    study = replace(paper.STUDY, cases=few, claims={}, scales={"quick": scale})
    return measure(study, tier="virtual", repetitions=1, seed=11)


@needs_virtual
def test_the_module_and_the_simulator_leave_slow_start_together_and_complete_together(tiers):
    """Also with HyStart's fault. But where SUSS with it overshoots a buffer, the kernel loses fewer packets and
    completes sooner; and where a flow is over as slow start ends (0.5 MB), its last look may be an earlier one."""
    times = tiers.tier_table("completion_ms")["completion_ms"].dropna()
    apart = (times["virtual"] / times["simulated"] - 1).abs().groupby("case").max()
    assert len(apart) == 10
    assert apart.drop("later, not mended").max() < 5e-4
    assert apart["later, not mended"] < 0.15
    exits = tiers.tier_table("exit_segments")["exit_segments"].query("size_mb > 0.5").dropna()
    assert {"example, cubic", "example, suss", "later, not mended"} <= set(exits.index.get_level_values("case"))
    np.testing.assert_allclose(exits["virtual"], exits["simulated"], atol=1)
    lost = tiers.tier_table("dropped_packets")["dropped_packets"].drop("later, not mended").dropna()
    np.testing.assert_allclose(lost["virtual"], lost["simulated"], atol=6)


@needs_virtual
def test_the_module_has_the_authors_round_log_and_so_has_the_simulator(tiers):
    for tier in ("virtual", "simulated"):
        windows = tiers.table("windows", "example, suss", tier).query("size_mb == 16")
        ends = [windows.window_segments[windows.time_s <= rounds * 0.0495].iloc[-1] for rounds in (1, 2, 3)]
        assert ends == pytest.approx([40, 160, 320], rel=0.01)
        for case, segments, within in (("suss", 608, 0.02), ("cubic", 265, 0.01)):
            exits = tiers.numbers(f"example, {case}", tier).set_index("size_mb").exit_segments
            assert exits[16.0] == pytest.approx(segments, rel=within)


@needs_virtual
def test_the_module_has_the_authors_completion_times_and_table(tiers):
    table = closed_form.improvements(tiers, "example", "completion_s").set_index("size_mb")
    for size_mb in (0.5, 4.0, 16.0):
        off_ms, on_ms = figures.EXAMPLE_PUBLISHED_MS[size_mb]
        assert table.cubic[size_mb] * 1e3 == pytest.approx(off_ms, rel=0.04)
        assert table.suss[size_mb] * 1e3 == pytest.approx(on_ms, rel=0.04)
    assert later_s(tiers) == pytest.approx(LATER_S, rel=0.05)


@needs_virtual
def test_the_kernels_own_cubic_takes_as_long_as_the_module_without_a_fourfold_round_and_suss_is_off_when_near(tiers):
    own, module, cubic, suss = (
        tiers.numbers(case).set_index("size_mb").completion_ms
        for case in ("later, hystart", "later, none fourfold", "near, cubic", "near, suss")
    )
    assert own[5.0] == pytest.approx(module[5.0], rel=1e-3)
    assert list(cubic) == list(suss)


def test_in_virtual_time_every_case_runs_and_cubic_with_the_fault_is_the_module():
    for profile in ("quick", "paper"):
        scale = paper.STUDY.scale(profile, "virtual")
        wanted = list(points(experiments.CASES, Setting(), scale))
        assert {paper.STUDY.why_not(point, "virtual") for point in wanted} == {""}
        assert {point.case for point in wanted} == set(experiments.CASES)
        for point in wanted:
            faulty = not point.setting.mended
            assert (point.setting.control[0] == "cubic") == (point.case in ("later, none", "later, hystart"))
            if faulty and point.case.endswith("cubic"):
                assert point.setting.control == ("suss", 0)
    assert Setting().control == ("cubic", 3)
