"""Raft's elections (Ongaro and Ousterhout, ATC 2014, section 9.3): closed forms, published curves, the claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro import backends
from netrepro.applications.raft.run import CHECKS, violations
from netrepro.errors import NetreproError
from netrepro.papers.raft import setting as lines
from netrepro.papers.raft import study as paper
from netrepro.papers.raft.processes import crash_processes
from netrepro.protocols.raft_elections import Election, elect, split_vote_share, timeouts_of
from netrepro.study import VIRTUAL, OneRun, Reading, Runs, measure

SETTING = paper.Setting()
DISK = Election(least_write_ms=0.5, extra_write_ms=3.5, timer_late_ms=0.05, log_lengths=(10, 10, 9, 9))
LOGCABIN = replace(DISK, whole_ms=True, two_writes=True)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=2, seed=3)


def medians(setting: Election, *lines: str, trials: int = 400) -> list[float]:
    return [elect(line, setting, trials, 1).without_leader_ms.median() for line in lines]


# Section 9.3.


def test_section_9_3_five_milliseconds_of_randomness_bring_seconds_down_to_a_third_of_a_second(runs):
    none, five = (runs.summary().median_ms[line] for line in ("150-150", "150-155"))
    assert none > 3000
    assert 230 < five < 360


def test_section_9_3_more_randomness_improves_the_worst_case_and_costs_the_median_little(runs):
    table = runs.summary()
    worst = [table.greatest_ms[line] for line in ("150-151", "150-155", "150-200")]
    assert worst == sorted(worst, reverse=True)
    assert table.median_ms["150-300"] < 1.3 * table.median_ms["150-200"]


def test_the_table_of_lines_has_what_was_published_beside_it(runs):
    table = paper.line_table(runs)
    assert list(table.index) == list(paper.LINES) and table.median_published["150-155"] == pytest.approx(287, abs=1)


# Published curves.


def test_the_published_curves_give_the_numbers_of_the_text():
    curves = lines.published()
    assert set(curves) == set(paper.LINES)
    assert all(len(curve) == 101 and (np.diff(curve) >= 0).all() for curve in curves.values())
    assert curves["150-155"][50] == pytest.approx(287, abs=1)
    assert curves["150-200"][100] == pytest.approx(513, abs=1)
    assert curves["12-24"][100] == pytest.approx(152, abs=1)
    assert curves["12-24"].mean() == pytest.approx(35, abs=1)


def test_the_distance_of_two_distributions_is_nothing_for_one_law_and_one_where_they_do_not_overlap():
    grid = np.linspace(0, 100, 101)
    assert lines.distance(np.linspace(0, 100, 10_001), grid) < 0.001
    assert lines.distance(grid + 200, grid) == 1.0
    assert lines.distance(np.linspace(50, 100, 10_001), grid) == pytest.approx(0.5, abs=0.001)


def test_the_calibration_finds_a_disk_of_the_published_broadcast_time():
    table = paper.calibrate(SETTING, "test", 1)
    nearest = paper.calibrated(SETTING, table)
    fits = table.low_end_fits
    assert fits.any() and fits.is_monotonic_decreasing and table.distance[fits].is_monotonic_increasing
    # A broadcast of 15 ms is the slowest of several writes: single ones take some milliseconds.
    assert 2 <= nearest.least_write_ms + nearest.extra_write_ms <= 6
    assert table.distance.iloc[0] < 0.1 < table.distance.iloc[-1]


def test_the_low_end_of_a_line_tells_a_disks_least_time_and_the_rules_of_the_program_that_was_measured():
    """The published first percentile of 25-50 is 25.3 ms. With one write a vote the same disk stays below it."""

    def first_percentile(least_ms: float, extra_ms: float, rules: Election) -> float:
        disk = replace(rules, least_write_ms=least_ms, extra_write_ms=extra_ms)
        return float(np.percentile(elect("25-50", disk, 4000, 1).without_leader_ms, 1))

    published = lines.published()["25-50"][1]
    assert published == pytest.approx(25.3, abs=0.1)
    assert abs(first_percentile(1.5, 1.75, LOGCABIN) - published) < 0.6
    assert first_percentile(0.0, 3.0, LOGCABIN) < published - 0.6
    assert first_percentile(1.5, 1.75, DISK) < published - 0.6


def test_what_a_majority_has_together_with_the_dead_is_committed():
    for lengths, committed in (((10, 10, 9, 9), 10), ((12, 11, 10, 9), 11), ((12, 11, 10), 12)):
        assert Election(log_lengths=lengths).committed == committed
        assert elect("25-50", replace(LOGCABIN, log_lengths=lengths), 500, 1).safe.all()


def test_the_wan_is_simulated_as_its_authors_did_and_its_crashes_stand_beside():
    """All begin with fresh timers, so the first of four timeouts over 300 ms and two messages pass at least."""
    own, crashed = (
        replace(SETTING, **(paper.RAFT | paper.CRASHES)[name]) for name in (paper.WANS[0], paper.WAN_CRASHES[0])
    )
    assert (own.fresh_timers, own.until_elected, own.whole_ms, own.two_writes) == (True, True, False, False)
    assert own.trials == 10_000 and paper.cannot(own, VIRTUAL) and not paper.cannot(crashed, VIRTUAL)
    times = elect(own.line, own.election, 4000, 1)
    assert times.without_leader_ms.min() >= 300 + 2 * 30
    assert elect(crashed.line, crashed.election, 4000, 1).without_leader_ms.min() < 300


# Split votes.


@pytest.mark.parametrize(("latency_ms", "percent"), [(1, 0.06), (10, 5.2), (20, 18.1)])
def test_the_dissertations_examples_of_split_votes(latency_ms, percent):
    assert 100 * split_vote_share(latency_ms / 100) == pytest.approx(percent, abs=0.05)


@settings(max_examples=20)
@given(st.integers(3, 8), st.floats(0.01, 0.9), st.integers(0, 2**32))
def test_the_closed_form_is_the_order_statistics_of_timeouts(servers, share, seed):
    survivors = servers - 1
    together = survivors - servers // 2 + 1
    drawn = np.sort(np.random.default_rng(seed).uniform(size=(4000, survivors)), axis=1)
    split = (drawn[:, together - 1] - drawn[:, 0] <= share).mean()
    expected = split_vote_share(share, survivors, servers)
    assert abs(split - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-3


# Bounds and knobs.


def test_no_election_is_faster_than_a_timeout_less_a_heartbeat_interval_and_three_messages():
    fastest = elect("150-300", DISK, 5000, 1).without_leader_ms.min()
    assert fastest >= 150 - 75 + 3 * 0.2
    assert fastest < 110


def test_without_disk_and_delay_nothing_but_the_first_timeout_counts():
    """The first of four timeouts over a range of 100 ms comes 20 ms after the least, on average."""
    plain = Election(0.001, 0.001)
    times = elect("150-250", plain, 20_000, 1).without_leader_ms
    assert times.mean() == pytest.approx(150 + 20 - 75 / 2, abs=0.6)


def test_pre_vote_saves_terms_and_short_timeouts_gain_by_it():
    off, on = DISK, replace(DISK, pre_vote=True)
    assert elect("12-24", on, 500, 1).terms.mean() < 0.7 * elect("12-24", off, 500, 1).terms.mean()
    assert medians(on, "12-24") < medians(off, "12-24")


def test_the_fewer_can_win_the_longer_it_takes():
    eligible = [(10, 10, 10, 10), (10, 10, 10, 9), (10, 10, 9, 9), (12, 11, 10)]
    times_ms = [medians(replace(DISK, log_lengths=logs), "150-300")[0] for logs in eligible]
    assert times_ms == sorted(times_ms)


def test_heartbeats_that_go_out_apart_replace_randomness():
    table = paper.classes(SETTING, 1, count=10)
    assert table.share_beyond_10_s["together", "150-150"] > 0.2
    assert table.share_beyond_10_s["apart", "150-150"] < 0.05


def test_later_fastest_writes_and_more_even_timers_lengthen_elections_without_randomness():
    table = paper.without_randomness(SETTING, 60, 1).pivot(
        index="least_write_ms", columns="timer_late_ms", values="median_s"
    )
    assert (np.diff(table.to_numpy(), axis=0) > 0).all() and (np.diff(table.to_numpy(), axis=1) < 0).all()


def test_equal_seeds_give_equal_trials_and_others_do_not():
    first, second = (elect("150-155", DISK, 50, seed) for seed in (1, 2))
    assert first.equals(elect("150-155", DISK, 50, 1))
    assert not first.equals(second)


# Real processes.


def crash(names=("12-24", "150-300"), trials=6, seed=3, **changed) -> dict[str, Reading]:
    """Readings by case."""
    cases = [each for name in names for each in (name, paper.ONE_SEED.format(name))]
    own = replace(SETTING, least_write_ms=0.5, extra_write_ms=3.5, process_trials=trials, **changed)
    settings_of = [replace(own, **paper.STUDY.cases[name]) for name in cases]
    runs = [OneRun(each, 0.0, (seed, 0), VIRTUAL) for each in settings_of]
    return dict(zip(cases, crash_processes(runs), strict=True))


@pytest.fixture(scope="module")
def crashes() -> dict[str, Reading]:
    return crash()


@needs_virtual
def test_real_processes_elect_one_leader_a_term_and_their_logs_are_the_same(crashes):
    assert all(check.holds for reading in crashes.values() for check in reading.checks)
    assert {check.name for check in crashes["12-24"].checks} >= {f"processes: {check}" for check in CHECKS}
    assert [len(reading["trials"]) for reading in crashes.values()] == [6, 1, 6, 1]
    assert all((crashes[line]["trials"].terms >= 1).all() for line in ("12-24", "150-300"))


@needs_virtual
def test_logs_are_compared_when_nobody_lags_and_nothing_is_under_way():
    """Writes as long as the timeouts depose leaders all the time: entries are lost, withheld and late."""
    own = replace(SETTING, **paper.timeouts("12-24"), least_write_ms=0.0, extra_write_ms=8.0, process_trials=6)
    readings = crash_processes([OneRun(own, 0.0, (1, repetition), VIRTUAL) for repetition in range(2)])
    assert all(check.holds for reading in readings for check in reading.checks)


@needs_virtual
def test_real_processes_need_a_timeout_less_a_heartbeat_interval_and_one_seed_is_no_randomness(crashes):
    for line, least_ms in (("12-24", 12), ("150-300", 150)):
        ours, broken = (crashes[name]["trials"].without_leader_ms for name in (line, paper.ONE_SEED.format(line)))
        assert ours.min() >= least_ms / 2 and np.median(ours) < 3 * least_ms
        assert broken.min() > 2 * np.median(ours)


@needs_virtual
def test_the_same_seed_gives_the_same_crashes_to_the_nanosecond():
    first, again = (crash(("12-24",), 2) for _ in range(2))
    assert first["12-24"]["trials"].equals(again["12-24"]["trials"])


def test_of_few_crashes_medians_and_means_are_judged_and_of_a_thousand_curves_too(runs):
    names = list(paper.PROCESS_LINES)
    names += [paper.ONE_SEED.format(name) for name in names]
    crashed = runs.values[runs.values.case.isin(names)].assign(tier=VIRTUAL)
    tables = {"trials": runs.tables["trials"].assign(tier=VIRTUAL)}
    for profile, few in (("quick", True), ("paper", False)):
        processes = replace(runs, tier=VIRTUAL, profile=profile, values=crashed, tables=tables)
        judged = {each.claim for each in processes.measured_claims()}
        assert judged == set(paper.OF_FEW_TRIALS) if few else {"curve-12-24", "short-timeouts-worst"} < judged


CRASHED = {
    "reports": [("a", 1, 0.1, "leader", 1), ("a", 1, 0.2, "applied", [1, "x"]), ("b", 2, 0.3, "applied", [1, "x"])],
    "logs": {"a": [[1, "x"]], "b": [[1, "x"]]},
}


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (None, {}),
        (CHECKS[0], {"reports": [*CRASHED["reports"], ("b", 2, 0.4, "leader", 1)]}),
        (CHECKS[1], {"logs": {"a": [[1, "x"]], "b": [[1, "x"], [2, "y"]]}}),
        (CHECKS[2], {"reports": [*CRASHED["reports"], ("b", 2, 0.4, "applied", [1, "y"])]}),
        (CHECKS[3], {"logs": {"a": [[1, "x"]], "b": []}}),
    ],
)
def test_logs_and_leaders_that_break_a_promise_are_noticed(check, change):
    wrong = violations(CRASHED | change)
    assert (sum(wrong.values()) == 0) if check is None else wrong[check] >= 1


def test_without_the_kernel_the_figure_says_so(monkeypatch):
    monkeypatch.setattr(backends, "why_absent", lambda tier: "no virtual kernel: not built")
    few = dict.fromkeys(("trials", "control_trials", "calibration_trials"), 20)
    runs = measure(paper.STUDY, replace(SETTING, **few), repetitions=2)
    assert runs.skipped["virtual: 12-24"].startswith("no virtual kernel") and paper.tier_table(runs).empty
    said = [text.get_text() for axis in paper.draw_tiers(runs).axes for text in axis.texts]
    assert said == ["not measured on the virtual tier"] * 2


# etcd, figures, mistakes.


def test_an_etcd_that_is_absent_is_not_measured_and_the_figure_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    times_ms, why = paper.measure_etcd(3, 1)
    assert len(times_ms) == 0
    assert "etcd-server" in why
    virtual = paper.measure_virtual_etcd(3, 1)
    figure = paper.draw_etcd((times_ms, why), virtual, trials=100)
    said = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert sum("not measured" in each for each in said) == 2


@pytest.mark.parametrize("line", ["150", "300-150", "0-10", "a-b"])
def test_a_range_that_is_none_is_refused(line):
    with pytest.raises(NetreproError, match="no range of timeouts"):
        timeouts_of(line)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"timer_late_ms": -1.0}, "timer_late_ms"),
        ({"least_delay_ms": 5.0}, "delays from 5"),
        ({"log_lengths": (1,)}, "survivors"),
        ({"log_lengths": (1,) * 5}, "survivors"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(change, words):
    with pytest.raises(NetreproError, match=words):
        _ = replace(SETTING, **change).election


def test_what_the_simulator_found_is_not_said_to_be_of_the_tier_that_was_asked_for(runs):
    assert paper.answer(replace(runs, tier="virtual")) == f"In the simulator, beside this tier: {paper.answer(runs)}"
