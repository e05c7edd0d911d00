"""Unbiased experiments: shares in closed form, designs as they must be, and links without interference."""

from __future__ import annotations

import pandas as pd
import pytest

from netrepro.papers import unbiased_experiments as paper
from netrepro.study import read_once, run_once, setting_of

SECONDS = 16.0


def reading(case: str, **changed):
    return read_once(paper.STUDY, setting_of(paper.STUDY, case, **changed), SECONDS)


def groups(case: str, seed: int = 1, **changed) -> pd.DataFrame:
    """The group of each application (row) in each interval (column)."""
    setting = setting_of(paper.STUDY, case, **changed)
    asked = paper.STUDY.part_of(setting).experiment(setting, SECONDS, seed)
    labels = asked.flow_table.label.drop_duplicates().str.split(expand=True)
    return labels.astype({0: int, 1: int}).pivot(index=0, columns=1, values=2)


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
    first, second = (groups("BBR", seed, treated=3)[0] for seed in (1, 2))
    for chosen in (first, second):
        assert list(chosen.index) == list(range(10)) and (chosen == "treated").sum() == 3
    assert not first.equals(second)


def test_a_switchback_treats_all_in_half_of_the_intervals_and_none_in_the_others():
    found = groups(paper.SWITCHBACK)
    assert (found.nunique() == 1).all()
    assert sorted(found.loc[0]) == ["treated"] * 4 + ["untreated"] * 4
    assert not found.equals(groups(paper.SWITCHBACK, seed=2))


def test_an_event_study_treats_all_in_the_second_half_and_applications_that_join_then():
    found = groups(paper.EVENT, joining=2)
    assert (found.loc[:9, :3] == "untreated").all(axis=None) and (found.loc[:, 4:] == "treated").all(axis=None)
    assert found.loc[10:, :3].isna().all(axis=None) and len(found) == 12


def test_twice_as_many_applications_halve_what_an_event_study_finds_though_the_treatment_does_nothing():
    """Two connections for all change nothing; the event study blames them for the halved shares."""
    found = reading(paper.EVENT, treatment="two connections", joining=10)
    assert found["estimate"] == pytest.approx(0.5, abs=0.03)


def test_connections_of_a_session_count_together():
    found = run_once(paper.STUDY, "two connections", SECONDS, treated=2)
    table = paper.by_session(found)
    assert len(found.flows) == 12 and len(table) == 10
    assert table["segments"].sum() * 1448 == pytest.approx(found.flows["delivered_bytes"].sum())
