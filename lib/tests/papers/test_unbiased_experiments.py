"""Unbiased experiments: shares in closed form, designs as they must be, and links without interference."""

from __future__ import annotations

import pytest

from netrepro.papers import unbiased_experiments as paper
from netrepro.study import run_once

SECONDS = 16.0


def reading(case: str, seed: int = 1, **changed):
    found = run_once(paper.STUDY, case, SECONDS, seed=seed, **changed)
    return paper.read(found, paper.Setting(**{"treated": 0, **changed}))


def intervals(seed: int = 1, **changed) -> dict[int, set[str]]:
    """The groups of each interval."""
    found: dict[int, set[str]] = {}
    for session in paper.sessions(paper.Setting(**changed), SECONDS, seed):
        found.setdefault(session.interval, set()).add(session.group)
    return found


@pytest.mark.parametrize(("treatment", "estimate"), [("BBR", 1.0), ("two connections", 2.0), ("pacing", 1.0)])
def test_where_connections_are_served_in_turn_an_application_has_a_share_for_each(treatment, estimate):
    found = reading(treatment, treated=1, is_fair=True)
    assert found["estimate"] == pytest.approx(estimate, rel=0.1)


@pytest.mark.parametrize("treatment", paper.TREATMENTS)
def test_without_congestion_an_ab_test_finds_that_no_treatment_matters(treatment):
    for treated in (paper.FEW, paper.MOST):
        assert reading(treatment, treated=treated, is_shared=False)["estimate"] == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("treatment", paper.TREATMENTS)
def test_a_full_link_carries_the_same_whoever_is_treated(treatment):
    none, every = (reading(treatment, treated=treated)["all_mbps"] for treated in (0, paper.APPLICATIONS))
    assert every == pytest.approx(none, rel=0.05)


def test_an_ab_test_treats_as_many_as_it_is_told_and_another_seed_others():
    chosen = []
    for seed in (1, 2):
        sessions = list(paper.sessions(paper.Setting(treated=3), SECONDS, seed))
        assert [session.application for session in sessions] == list(range(10))
        chosen.append({session.application for session in sessions if session.group == "treated"})
    assert [len(each) for each in chosen] == [3, 3] and chosen[0] != chosen[1]


def test_a_switchback_treats_all_in_half_of_the_intervals_and_none_in_the_others():
    found = intervals(treated=10, design=paper.SWITCHBACK)
    assert sorted(map(sorted, found.values())) == [["treated"]] * 4 + [["untreated"]] * 4
    assert found != intervals(seed=2, treated=10, design=paper.SWITCHBACK)


def test_an_event_study_treats_all_in_the_second_half():
    found = intervals(treated=10, design=paper.EVENT)
    assert list(found.values()) == [{"untreated"}] * 4 + [{"treated"}] * 4


def test_twice_as_many_applications_halve_what_an_event_study_finds_though_the_treatment_does_nothing():
    """Two connections for all change nothing; the event study blames them for the halved shares."""
    found = reading(paper.EVENT, treatment="two connections", treated=10, design=paper.EVENT, joining=10)
    assert found["estimate"] == pytest.approx(0.5, abs=0.03)


def test_connections_of_a_session_count_together():
    found = run_once(paper.STUDY, "two connections", SECONDS, treated=2)
    table = paper.by_session(found)
    assert len(found.flows) == 12 and len(table) == 10
    assert table["segments"].sum() * 1448 == pytest.approx(found.flows["delivered_bytes"].sum())
