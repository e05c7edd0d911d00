"""Raft's elections (Ongaro and Ousterhout, ATC 2014, section 9.3): closed forms, published curves, the claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.papers.raft import processes
from netrepro.papers.raft import study as paper
from netrepro.papers.raft.processes import CHECKS, Case, Crashes, crash_processes, violations
from netrepro.protocols.raft_elections import Election, elect, split_vote_share, timeouts_of

SCALE = replace(paper.scale("quick"), control_trials=50, calibration_trials=1000)
DISK = replace(paper.SETTING, least_write_ms=0.5, extra_write_ms=3.5)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(SCALE, 2, 3, DISK)


def medians(setting: Election, *lines: str, trials: int = 400) -> list[float]:
    return [elect(line, setting, trials, 1).without_leader_ms.median() for line in lines]


# The claims and their controls.


def test_every_claim_is_measured_and_disagrees_with_one_seed_for_all(runs):
    claims = load_claims("raft")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        control = judge(claim, measured[claim.id].broken(), "simulated")
        assert control.verdict in ("disagrees", "undecided"), claim.id  # few trials leave some open


def test_the_run_is_trusted_and_a_run_with_an_unsafe_trial_would_not_be(runs):
    assert runs.trusted
    assert len(runs.trials) == 2 * 12 * 1050


def test_section_9_3_five_milliseconds_of_randomness_bring_seconds_down_to_a_third_of_a_second(runs):
    none, five = (np.mean(runs.each(np.median, line)) for line in ("150-150", "150-155"))
    assert none > 3000
    assert 230 < five < 360


def test_section_9_3_more_randomness_improves_the_worst_case_and_costs_the_median_little(runs):
    worst = [np.mean(runs.each(np.max, line)) for line in ("150-151", "150-155", "150-200")]
    assert worst == sorted(worst, reverse=True)
    assert np.mean(runs.each(np.median, "150-300")) < 1.3 * np.mean(runs.each(np.median, "150-200"))


def test_the_answer_speaks_of_the_run(runs):
    assert "two leaders" in paper.answer(runs)


# Published curves.


def test_the_published_curves_give_the_numbers_of_the_text():
    curves = paper.published()
    assert set(curves) == set(paper.LINES)
    assert all(len(curve) == 101 and (np.diff(curve) >= 0).all() for curve in curves.values())
    assert curves["150-155"][50] == pytest.approx(287, abs=1)
    assert curves["150-200"][100] == pytest.approx(513, abs=1)
    assert curves["12-24"][100] == pytest.approx(152, abs=1)
    assert curves["12-24"].mean() == pytest.approx(35, abs=1)


def test_the_distance_of_two_distributions_is_nothing_for_one_law_and_one_where_they_do_not_overlap():
    grid = np.linspace(0, 100, 101)
    assert paper.distance(np.linspace(0, 100, 10_001), grid) < 0.001
    assert paper.distance(grid + 200, grid) == 1.0
    assert paper.distance(np.linspace(50, 100, 10_001), grid) == pytest.approx(0.5, abs=0.001)


def test_the_calibration_finds_a_disk_of_the_published_broadcast_time():
    table = paper.calibrate(paper.SETTING, 500, 1)
    found = paper.calibrated(paper.SETTING, table)
    assert table.distance.is_monotonic_increasing
    # A broadcast of 15 ms is the slowest of several writes: single ones take some milliseconds.
    assert 2 <= found.least_write_ms + found.extra_write_ms <= 6
    assert table.distance.iloc[0] < 0.1 < table.distance.iloc[-1]


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
    found = (drawn[:, together - 1] - drawn[:, 0] <= share).mean()
    expected = split_vote_share(share, survivors, servers)
    assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-3


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
    found = [medians(replace(DISK, log_lengths=logs), "150-300")[0] for logs in paper.ELIGIBLE.values()]
    assert found == sorted(found)


def test_heartbeats_that_go_out_apart_replace_randomness():
    table = paper.classes(DISK, 1, count=10)
    assert table.share_beyond_10_s["together", "150-150"] > 0.2
    assert table.share_beyond_10_s["apart", "150-150"] < 0.05


def test_later_fastest_writes_and_more_even_timers_lengthen_elections_without_randomness():
    table = paper.without_randomness(DISK, 60, 1).pivot(
        index="least_write_ms", columns="timer_late_ms", values="median_s"
    )
    assert (np.diff(table.to_numpy(), axis=0) > 0).all() and (np.diff(table.to_numpy(), axis=1) < 0).all()


def test_equal_seeds_give_equal_trials_and_others_do_not():
    first, second = (elect("150-155", DISK, 50, seed) for seed in (1, 2))
    assert first.equals(elect("150-155", DISK, 50, 1))
    assert not first.equals(second)


# Real processes.

FEW = replace(SCALE, process_trials=6, process_control_trials=1)


def crash(lines=("12-24", "150-300"), trials=6, seed=3) -> Crashes:
    cases = [Case(line, line, DISK, case) for line in lines for case in ("Raft", "one seed")]
    return crash_processes(cases, {"Raft": trials, "one seed": 1}, 1, seed)


@pytest.fixture(scope="module")
def crashes() -> Crashes:
    return crash()


@needs_virtual
def test_real_processes_elect_one_leader_a_term_and_their_logs_are_the_same(crashes):
    assert crashes.trusted and len(crashes.trials) == 2 * (6 + 1)
    assert set(crashes.fidelity.check) >= {f"processes: {check}" for check in CHECKS}
    raft = crashes.trials[crashes.trials.case == "Raft"]
    assert raft.elected.all() and (raft.terms >= 1).all()


@needs_virtual
def test_logs_are_compared_when_nobody_lags_and_nothing_is_under_way():
    """Writes as long as the timeouts depose leaders all the time: entries are lost, withheld and late."""
    unsteady = replace(DISK, least_write_ms=0.0, extra_write_ms=8.0)
    crashes = crash_processes([Case("12-24", "12-24", unsteady)], {"Raft": 6}, 2, 1)
    assert crashes.trusted, crashes.fidelity


@needs_virtual
def test_real_processes_need_a_timeout_less_a_heartbeat_interval_and_one_seed_is_no_randomness(crashes):
    for line, least_ms in (("12-24", 12), ("150-300", 150)):
        ours, broken = (np.concatenate(crashes.times(case, line)) for case in ("Raft", "one seed"))
        assert ours.min() >= least_ms / 2 and np.median(ours) < 3 * least_ms
        assert broken.min() > 2 * np.median(ours)


@needs_virtual
def test_the_same_seed_gives_the_same_crashes_to_the_nanosecond():
    first, again = (crash(("12-24",), 2) for _ in range(2))
    assert first.trials.equals(again.trials)


@needs_virtual
def test_of_few_crashes_medians_and_means_are_judged_and_controls_do_not_agree(runs):
    few = runs.trials[runs.trials.line.isin([*paper.PROCESS_LINES, *paper.WANS])]
    found = Crashes(few.groupby(["case", "line", "repetition"]).head(20), runs.fidelity)
    names = [each.claim for each in paper.claims_on("virtual", runs, found)]
    assert names == list(paper.OF_FEW_TRIALS)
    whole = [each.claim for each in paper.claims_on("virtual", runs, Crashes(few, runs.fidelity))]
    assert {"curve-150-155", "curve-12-24", "short-timeouts-worst"} < set(whole)
    for each in paper.claims_on("virtual", runs, found):
        assert judge(load_claims("raft").claim(each.claim), each.broken(), "virtual").verdict == "disagrees"


FOUND = {
    "reports": [("a", 1, 0.1, "leader", 1), ("a", 1, 0.2, "applied", [1, "x"]), ("b", 2, 0.3, "applied", [1, "x"])],
    "logs": {"a": [[1, "x"]], "b": [[1, "x"]]},
}


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (None, {}),
        (CHECKS[0], {"reports": [*FOUND["reports"], ("b", 2, 0.4, "leader", 1)]}),
        (CHECKS[1], {"logs": {"a": [[1, "x"]], "b": [[1, "x"], [2, "y"]]}}),
        (CHECKS[2], {"reports": [*FOUND["reports"], ("b", 2, 0.4, "applied", [1, "y"])]}),
        (CHECKS[3], {"logs": {"a": [[1, "x"]], "b": []}}),
    ],
)
def test_logs_and_leaders_that_break_a_promise_are_noticed(check, change):
    wrong = violations(FOUND | change)
    assert (sum(wrong.values()) == 0) if check is None else wrong[check] >= 1


def test_without_the_kernel_the_notebook_says_so_and_goes_on(runs, monkeypatch):
    monkeypatch.setattr(processes, "why_no_processes", lambda: "no virtual kernel: not built")
    crashes = paper.measure_processes(FEW, 5, 1, DISK, "simulated")
    assert crashes.why and not crashes.lines and paper.tier_table(runs, crashes).empty
    assert set(paper.checks(runs, crashes).reset_index()["tier"]) == {"simulated"}
    assert paper.claims_on("simulated", runs, crashes) == paper.measured_claims(runs)
    said = [text.get_text() for axis in paper.draw_tiers(runs, crashes).axes for text in axis.texts]
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


def test_the_figures_can_be_drawn(runs):
    assert paper.draw_lines(runs, paper.RANDOMNESS, "top", logarithmic=True)
    assert paper.draw_control(runs) and paper.draw_splits(runs.splits)
    assert paper.draw_knobs(paper.vary(paper.knobs(DISK), 50, 1))


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
        paper.setting(**change)


def test_another_profile_is_refused():
    with pytest.raises(NetreproError, match="quick"):
        paper.scale("quik")
