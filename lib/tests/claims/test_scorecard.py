"""The sheet of all verdicts, from constructed results whose verdicts are known."""

from __future__ import annotations

import shutil

import pytest

from netrepro.claims import Measured, Results, Run, publish_run
from netrepro.claims.scorecard import (
    beside,
    paper_summary,
    regressions,
    scorecard,
    stale_main_claims,
)
from netrepro.errors import NetreproError

from .conftest import CLAIMS, write_claims

GOOD, FAIR, BAD = 0.5, 0.8, 1.5  # agrees, agrees in direction, disagrees


def gain(value: float, control: float | None = 1.0, **more) -> Measured:
    broken = None if control is None else [control, control + 0.001]
    return Measured(claim="mean-gain", values=[value, value + 0.001], control=broken, **more)


def order(*rankings: str) -> Measured:
    return Measured(claim="best-first", values=[list(ranking) for ranking in rankings], control=[list("cba")] * 2)


def a_run(*measured: Measured, profile="quick", tier="simulated") -> Run:
    return Run(
        date="2026-11-21",
        commit="abc1234",
        profile=profile,
        tier=tier,
        seed=1,
        repetitions=2,
        parameters={},
        answer="",
        measured=list(measured),
    )


def publish(*runs: Run, slug="constructed") -> None:
    for run in runs:
        publish_run(slug, run)


def row(claim="mean-gain", **filters):
    return scorecard(**filters).set_index("claim").loc[claim]


def test_a_claim_nobody_ran_is_not_measured(workbench):
    table = scorecard()
    assert list(table["claim"]) == ["mean-gain", "best-first"]
    assert set(table["verdict"]) == {"not measured"} and set(table["reason"]) == {"no run yet"}


def test_a_row_holds_what_was_published_and_what_was_measured(workbench):
    publish(a_run(gain(GOOD), order("abc", "abc")))
    found = row()
    assert (found["published"], found["class_report"], found["where"]) == (0.5, 0.6, "Fig. 1")
    assert found["ours_simulated"] == pytest.approx(0.5005)
    assert found["interval_low"] < 0.5 < found["interval_high"] and found["repetitions"] == 1  # they do not vary
    assert (found["verdict"], found["counts"], found["profile"]) == ("agrees", True, "quick")
    assert (found["date"], found["commit"]) == ("2026-11-21", "abc1234")
    assert row("best-first")["published"] == "a > b > c" and row("best-first")["ours_simulated"] == 1


def test_stored_measurements_are_judged_by_todays_claims(workbench):
    publish(a_run(gain(0.6)))
    assert row()["verdict"] == "agrees in direction"
    write_claims(workbench, CLAIMS.replace("{relative: 0.1}", "{relative: 0.3}"))
    assert row()["verdict"] == "agrees"


def test_the_best_tier_that_measured_and_is_trusted_decides_whatever_it_says(workbench):
    publish(
        a_run(gain(GOOD), order("abc", "abc"), profile="paper"),
        a_run(gain(FAIR), profile="paper", tier="rootless"),
        a_run(gain(BAD), tier="rootless"),
        a_run(gain(GOOD, trusted=False, why="too busy"), tier="privileged"),
    )
    found = row()
    assert (found["tier"], found["profile"], found["verdict"]) == ("rootless", "paper", "agrees in direction")
    assert found["verdict_simulated"] == "agrees" and found["verdict_privileged"] == "untrusted"
    assert row("best-first")["tier"] == "simulated"
    assert row(profile="quick")["verdict"] == "disagrees"
    assert row(tier="simulated")["verdict"] == "agrees"
    assert row(tier="privileged")["reason"] == "too busy"


def test_an_unknown_filter_names_the_nearest(workbench):
    with pytest.raises(NetreproError, match="did you mean 'quick'"):
        scorecard(profile="quik")
    with pytest.raises(NetreproError, match="did you mean 'simulated'"):
        scorecard(tier="simulatd")
    with pytest.raises(NetreproError, match="did you mean 'constructed'"):
        scorecard(["construct"])


def test_a_summary_counts_claims_that_count_and_says_how_many_do_not(workbench):
    publish(a_run(gain(GOOD, control=GOOD), order("bac", "bac")))
    (summary,) = paper_summary().to_dict("records")
    assert summary["level"] == "replicated with differences"  # the ordering alone counts, and not in full
    assert (summary["agrees"], summary["agrees in direction"], summary["not_counted"]) == (0, 1, 1)
    assert (summary["claims"], summary["coverage"]) == (2, "1 of 2 claims")


def test_a_verdict_that_does_not_count_hides_none_that_does(workbench):
    publish(a_run(gain(GOOD, control=GOOD), tier="privileged"), a_run(gain(BAD)))
    assert (row()["tier"], row()["verdict"], row()["counts"]) == ("simulated", "disagrees", True)


def test_other_verdicts_stand_beside_the_one_that_decides_better_and_worse(workbench):
    busy = gain(BAD, trusted=False, why="too busy")
    publish(
        a_run(gain(FAIR), tier="privileged"),
        a_run(gain(BAD), tier="rootless", profile="paper"),
        a_run(busy, tier="rootless"),
        a_run(gain(GOOD)),
    )
    assert row()["verdict"] == "agrees in direction"
    assert row()["elsewhere"] == "quick simulated agrees, paper rootless disagrees"


DECIDED = """\
    decided_by: {tier: simulated, profile: paper, because: "no kernel has these senders"}
    role: main
"""


def declare(root, claim="mean-gain", lines=DECIDED) -> None:
    path = root / "data/constructed/claims.yaml"
    path.write_text(path.read_text().replace(f"  - id: {claim}\n", f"  - id: {claim}\n{lines}"))


def test_the_declared_evidence_decides_whatever_else_was_measured(workbench):
    assert row()["decided_by"] == "not declared"
    declare(workbench)
    kernel = a_run(gain(GOOD), profile="paper", tier="privileged")
    publish(kernel, a_run(gain(GOOD)))
    assert (row()["verdict"], row()["reason"]) == ("not measured", "paper/simulated decides, and was not run")
    assert row()["elsewhere"] == "paper privileged agrees, quick simulated agrees"
    publish(a_run(gain(BAD), profile="paper"))
    assert (row()["tier"], row()["profile"], row()["verdict"]) == ("simulated", "paper", "disagrees")
    assert row()["value"] == row()["ours_simulated"] == pytest.approx(1.5005)
    assert row()["elsewhere"] == "paper privileged agrees, quick simulated agrees"
    assert row()["decided_by"] == "paper/simulated"


def test_the_level_is_that_of_the_main_claims_which_come_first(workbench):
    declare(workbench, "best-first", "    role: main\n")
    publish(a_run(gain(BAD), order("abc", "abc")))
    assert list(scorecard()["claim"]) == ["best-first", "mean-gain"]
    (summary,) = paper_summary().to_dict("records")
    assert (summary["level"], summary["coverage"]) == ("replicated", "1 of 1 main claims")
    assert (summary["agrees"], summary["disagrees"]) == (1, 1)


def test_a_settled_disagreement_has_a_count_of_its_own(workbench):
    publish(a_run(gain(BAD), order("cba", "cba")))
    declare(workbench, lines='    blame: paper\n    settles: "their load"\n    settled: "notebook, section 10"\n')
    (summary,) = paper_summary().to_dict("records")
    assert (summary["disagrees"], summary["settled"], summary["level"]) == (1, 1, "not reproduced")


def test_what_other_code_measured_is_stale(workbench):
    publish(a_run(gain(GOOD)), a_run(gain(GOOD), profile="paper").model_copy(update={"code": "then"}))
    assert not row()["stale"] and not row(code=lambda slug, tier: "then")["stale"]
    assert row(code=lambda slug, tier: "now")["stale"]
    assert row(profile="quick", code=lambda slug, tier: "now")["stale"]  # a run that kept no hash may be of any code


@pytest.mark.parametrize("value", [GOOD, FAIR, BAD])
def test_a_stale_main_claim_is_named_whatever_its_verdict(workbench, value):
    declare(workbench, lines="    role: main\n")
    publish(a_run(gain(value), order("cba", "cba")).model_copy(update={"code": "then"}))
    assert stale_main_claims(scorecard(code=lambda slug, tier: "then")) == []
    (named,) = stale_main_claims(scorecard(code=lambda slug, tier: "now"))
    assert named == "constructed: mean-gain stands on abc1234, and the code has changed since"


def three_papers(workbench) -> None:
    for slug in ("alpha", "omega"):
        write_claims(workbench, CLAIMS.replace("paper: constructed", f"paper: {slug}"), slug)
    publish(a_run(gain(GOOD), order("abc", "abc")))
    publish(a_run(gain(BAD), order("cba", "cba")), slug="alpha")


def test_mine_stands_beside_what_is_published_and_what_i_did_not_run_is_marked(workbench):
    three_papers(workbench)  # published: constructed and alpha
    own = {"constructed": results(a_run(gain(BAD), order("abc", "abc"), profile="paper"))}
    mine, published = scorecard(results=own.get), scorecard()
    table = beside(mine, published).set_index(["paper", "claim"])
    gains = table.xs("mean-gain", level="claim")
    assert list(gains["mine_verdict"]) == ["not measured", "disagrees", "not measured"]
    assert list(gains["mine_date"] != "") == [False, True, False]
    assert gains.loc["constructed", ["mine_profile", "mine_value"]].tolist() == ["paper", pytest.approx(1.5005)]
    assert gains.loc["constructed", ["published_verdict", "published_tier"]].tolist() == ["agrees", "simulated"]


def test_a_scorecard_without_papers_is_empty(workbench):
    shutil.rmtree(workbench / "data" / "constructed")
    table = scorecard()
    assert table.empty and "verdict" in table
    assert paper_summary(table).empty


# Regressions ---------------------------------------------------------------------------------------


WIDE = Measured(claim="mean-gain", values=[0.2, 0.5, 1.2], control=[1.0, 1.001])


def results(*runs: Run) -> Results:
    return Results(paper="constructed", runs={run.key: run for run in runs})


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (gain(GOOD), gain(GOOD), False),
        (gain(GOOD), gain(FAIR), False),  # it still holds, in direction
        (gain(GOOD), gain(BAD), True),
        (gain(FAIR), gain(BAD), True),
        (gain(GOOD), WIDE, False),  # more repetitions would decide
        (gain(BAD), gain(BAD), False),  # a paper may disagree
        (gain(BAD), gain(GOOD), False),
        (gain(GOOD), gain(GOOD, trusted=False, why="too busy"), True),
        (gain(GOOD), gain(GOOD, control=GOOD), True),  # its control no longer flips
        (gain(GOOD), gain(GOOD, control=None), True),
        (gain(GOOD, control=None), gain(BAD), False),  # it never counted
    ],
)
def test_a_regression_is_a_verdict_that_held_and_no_longer_holds(workbench, before, after, lost):
    assert bool(regressions(results(a_run(before)), results(a_run(after)))) is lost


def test_a_regression_says_what_was_lost_where_and_why(workbench):
    (line,) = regressions(results(a_run(gain(GOOD))), results(a_run(gain(BAD))))
    assert line.startswith("constructed: mean-gain at quick/simulated was 'agrees' (0.5005,")
    assert "is 'disagrees' (1.5" in line and "outside the accepted 0.45 to 0.55" in line


def test_a_claim_no_longer_measured_is_a_regression(workbench):
    old, new = results(a_run(gain(GOOD), order("abc", "abc"))), results(a_run(gain(GOOD)))
    assert [line.split()[1] for line in regressions(old, new)] == ["best-first"]


def test_only_the_same_profile_and_tier_are_compared(workbench):
    old = results(a_run(gain(GOOD), tier="privileged"), a_run(gain(GOOD), profile="paper"))
    assert regressions(old, results(a_run(gain(BAD)))) == []


def test_another_verdict_on_a_timed_claim_is_no_regression(workbench):
    old, new = (Results(paper="constructed", runs={"quick/simulated": a_run(gain(value))}) for value in (GOOD, 2.0))
    assert len(regressions(old, new)) == 1
    claims = workbench / "data/constructed/claims.yaml"
    claims.write_text(claims.read_text().replace("  - id: mean-gain\n", "  - id: mean-gain\n    timed: true\n"))
    assert regressions(old, new) == []


def test_a_changed_acceptance_is_no_regression(workbench):
    old = results(a_run(gain(GOOD)))
    write_claims(workbench, CLAIMS.replace("published: 0.5", "published: 1.9"))
    assert regressions(old, results(a_run(gain(GOOD)))) == []


def test_results_of_two_papers_cannot_be_compared(workbench):
    with pytest.raises(NetreproError, match="cannot be compared"):
        regressions(results(), Results(paper="other", runs={}))
