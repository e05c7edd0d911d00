"""Whether a user's own runs say what is published, from constructed results whose verdicts are known."""

from __future__ import annotations

import pytest

from netrepro.claims.reproduction import LONGER, NOT_RUN, OTHER_TIER, reproduction, reproduction_text
from netrepro.claims.scorecard import scorecard
from netrepro.workbench.cli.console import judged_cells, reproduction_lines

from .test_scorecard import BAD, DECIDED, FAIR, GOOD, a_run, declare, gain, publish, results


def row(*runs, claim: str = "mean-gain"):
    own = results(*runs) if runs else None
    return reproduction(scorecard(), lambda slug: own).set_index("claim").loc[claim]


@pytest.fixture
def decided(workbench):
    """A claim that paper/simulated decides and that agrees; the published quick run says something else."""
    declare(workbench)
    publish(a_run(gain(GOOD), profile="paper"), a_run(gain(FAIR)))
    return workbench


def test_the_deciding_run_of_mine_is_compared_first(decided):
    same = row(a_run(gain(GOOD), profile="paper"), a_run(gain(BAD)))
    assert (same["judged_by"], same["mine"], bool(same["as_published"]), same["why"]) == (
        "paper/simulated",
        "agrees",
        True,
        "",
    )
    other = row(a_run(gain(BAD), profile="paper"))
    assert not other["as_published"] and other["why"] == "the same run, and another result: look at it"


def test_a_quick_run_that_differs_as_the_published_quick_run_does_is_expected(decided):
    expected = row(a_run(gain(FAIR)))
    assert expected["published"] == "agrees" != expected["mine"] and not expected["as_published"]
    assert (
        expected["as_its_run"]
        and "the published quick/simulated says so, too; paper/simulated decides" in expected["why"]
    )
    surprising = row(a_run(gain(BAD)))
    assert not surprising["as_its_run"] and surprising["why"].startswith("not what the published quick/simulated says")


def test_a_run_of_other_code_than_the_published_one_says_so(decided):
    quick = a_run(gain(BAD)).model_copy(update={"code": "another"})
    assert row(quick)["why"] == "not what the published quick/simulated, of other code, says: look at it"
    paper = a_run(gain(BAD), profile="paper").model_copy(update={"code": "another"})
    assert row(paper)["why"] == "the same run, and another result, of other code: look at it"


def test_an_untrusted_run_gives_way_to_a_trusted_one_and_says_so_where_there_is_none(decided):
    doubtful = a_run(gain(GOOD, trusted=False, why="busy"), profile="paper")
    assert row(doubtful, a_run(gain(GOOD)))["judged_by"] == "quick/simulated"
    assert row(doubtful)["why"] == "this run failed its own checks"


@pytest.mark.parametrize(("tier", "need"), [("simulated", NOT_RUN), ("virtual", NOT_RUN), ("privileged", OTHER_TIER)])
def test_what_no_run_judges_says_what_it_needs(workbench, tier, need):
    declare(workbench, lines=DECIDED.replace("simulated", tier))
    assert (row()["why"], row()["judged_by"]) == (need, "")


def test_what_the_runs_that_there_are_leave_out_needs_a_longer_one(decided):
    table = reproduction(scorecard(), lambda slug: results(a_run(gain(FAIR)))).set_index("claim")
    assert list(table.loc[table["judged_by"] == "", "why"]) == [LONGER]


def test_the_sentence_answers_first_and_counts_every_claim_once(decided):
    table = reproduction(scorecard(), lambda slug: results(a_run(gain(FAIR))))
    assert reproduction_text(table) == (
        "Did this machine reproduce what is published? Yes, as far as your runs go. Your runs judged 1 of 2 claims: 0 "
        "as published; 1 otherwise, as the published runs of the same profile and tier. 1 needs a longer run."
    )
    table = reproduction(scorecard(), lambda slug: results(a_run(gain(BAD))))
    assert reproduction_text(table).startswith("Did this machine reproduce what is published? Not everywhere. Your")
    table = reproduction(scorecard(), lambda slug: None)
    text = "Your runs judged 0 of 2 claims: 0 as published. 2 are of papers that you have not run."
    assert reproduction_text(table) == text


def test_a_paper_of_which_nothing_is_published_differs_from_nothing(workbench):
    declare(workbench)
    table = reproduction(scorecard(), lambda slug: results(a_run(gain(GOOD), profile="paper")))
    text = "Your runs judged 1 of 2 claims: 0 as published; 1 of papers of which nothing is published."
    assert reproduction_text(table).startswith(text)
    assert judged_cells(table) == ["1/2", "", "", ""]
    assert not any("otherwise" in line for line in reproduction_lines(table, scorecard()))
