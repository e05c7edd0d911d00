"""When acceptances were fixed, from the commits of a constructed repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from netrepro.claims import Measured, Results, Run, write_results
from netrepro.claims.history import changes_since, history
from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import change_lines, history_lines

from .conftest import CLAIMS, write_claims

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def commit(workbench, monkeypatch):
    """A function that commits all there is, a day after the commit before."""
    days = iter(range(1, 28))

    def git(*words: str, date: str = "") -> None:
        who = {
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        for name, value in who.items() | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}.items():
            monkeypatch.setenv(name, value)
        subprocess.run(["git", "-C", workbench, *words], check=True, capture_output=True)

    def commit_all() -> None:
        date = f"2026-11-{next(days):02}T12:00:00+00:00"
        git("add", "-A", date=date)
        git("commit", "-m", "more", date=date)

    git("init")
    return commit_all


def write_measured(workbench: Path, *claims: str) -> None:
    folder = workbench / "figures" / "constructed"
    folder.mkdir(parents=True, exist_ok=True)
    runs = {"quick/simulated": {"measured": [{"claim": claim} for claim in claims]}}
    (folder / "results.json").write_text(json.dumps({"runs": runs}))


def write_code(workbench: Path) -> None:
    folder = workbench / "lib" / "netrepro" / "papers"
    folder.mkdir(parents=True)
    (folder / "constructed.py").write_text("STUDY = None")


def said() -> dict[str, str]:
    return dict(history().set_index("claim")["git"])


def test_an_acceptance_committed_before_any_code_is_shown_to_be_fixed_before(workbench, commit):
    commit()
    write_code(workbench)
    commit()
    assert said() == {"mean-gain": "not measured", "best-first": "not measured"}
    write_measured(workbench, "mean-gain")
    commit()
    assert said() == {"mean-gain": "before", "best-first": "not measured"}
    (row,) = history().query("claim == 'mean-gain'").to_dict("records")
    assert (row["fixed"], row["accepted"], row["measured"]) == ("before", "2026-11-01 12:00", "2026-11-03 12:00")


def test_the_history_of_named_papers_is_theirs_alone(workbench, commit):
    other = workbench / "data" / "other" / "claims.yaml"
    other.parent.mkdir()
    other.write_text((workbench / "data/constructed/claims.yaml").read_text().replace("constructed", "other", 1))
    commit()
    assert set(history()["paper"]) == {"constructed", "other"}
    assert set(history(["other"])["paper"]) == {"other"}
    with pytest.raises(NetreproError, match="no claims for 'nosuch'"):
        history(["nosuch"])


def test_an_acceptance_committed_with_the_code_has_to_be_believed(workbench, commit):
    write_code(workbench)
    commit()
    write_measured(workbench, "mean-gain", "best-first")
    commit()
    assert set(said().values()) == {"before results"}


def test_an_acceptance_committed_with_results_or_changed_after_them_is_noticed(workbench, commit):
    write_measured(workbench, "mean-gain", "best-first")
    commit()
    write_claims(workbench, CLAIMS.replace("{relative: 0.1}", "{relative: 0.5}").replace("no emulation", "no better"))
    commit()
    assert said() == {"mean-gain": "after results", "best-first": "with results"}


def test_a_number_that_is_said_to_be_the_class_reports_is_no_other_acceptance(workbench, commit):
    commit()
    write_code(workbench)
    write_measured(workbench, "best-first")
    commit()
    write_claims(workbench, CLAIMS.replace("published: [a, b, c]", "class_report: [a, b, c]\n    source: class"))
    commit()
    assert said()["best-first"] == "before"
    write_claims(workbench, CLAIMS.replace("published: [a, b, c]", "class_report: [b, a, c]\n    source: class"))
    commit()
    assert said()["best-first"] == "after results"


def test_what_is_not_committed_is_named_and_no_clone_is_an_error(workbench, commit):
    (workbench / "README.md").write_text("nothing yet")
    claims = (workbench / "data" / "constructed" / "claims.yaml").rename(workbench / "claims.yaml")
    commit()
    claims.rename(workbench / "data" / "constructed" / "claims.yaml")
    assert set(said().values()) == {"not committed"}


def test_without_a_clone_git_is_asked_in_vain(workbench):
    with pytest.raises(NetreproError, match="work in a clone"):
        history()


def test_code_that_became_a_package_is_as_old_as_its_module(workbench, commit):
    write_code(workbench)
    commit()
    package = workbench / "lib" / "netrepro" / "papers" / "constructed"
    package.mkdir()
    (package.parent / "constructed.py").rename(package / "__init__.py")
    commit()
    write_measured(workbench, "mean-gain", "best-first")
    commit()
    assert set(history()["code"]) == {"2026-11-01 12:00"}


def test_a_control_or_a_deciding_run_that_came_after_results_is_noticed(workbench, commit):
    commit()
    write_code(workbench)
    write_measured(workbench, "mean-gain", "best-first")
    commit()
    shown = history().set_index("claim")
    assert set(shown["git_evidence"]) == set(shown["git"]) == {"before"}
    write_claims(workbench, CLAIMS.replace("the ratio must return to 1", "the ratio must be 1"))
    commit()
    shown = history().set_index("claim")
    assert dict(shown["git_evidence"]) == {"mean-gain": "after results", "best-first": "before"}
    assert set(shown["git"]) == {"before"} and shown.evidence["mean-gain"] == "2026-11-03 12:00"
    lines = history_lines(history())
    told = _told(lines)
    assert "git: acceptance before any code; control and deciding run after the first result" in told
    assert "mean-gain: acceptance written before, as the claim says" in told
    (late,) = [line.strip() for line in lines if line.strip().startswith("2026-11-03 12:00")]
    assert late.endswith("  control and deciding run") and "Git proves only 'before any code'" in told


def _told(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


DECIDED = "decided_by: {tier: simulated, profile: quick, because: it is fast}"


def write_release(workbench: Path, version: str, *values: float, seconds: float = 10.0) -> None:
    write_claims(workbench, CLAIMS.replace("comparable_on: [privileged, rootless, simulated]", DECIDED))
    measured = Measured(claim="mean-gain", values=list(values), control=[1.0] * len(values))
    run = Run.model_validate(
        {"date": "2026-11-01", "commit": "abc", "profile": "quick", "tier": "simulated", "seed": 1, "parameters": {}}
        | {"repetitions": len(values), "answer": "", "measured": [measured], "seconds": seconds}
    )
    folder = workbench / "figures" / "constructed"
    folder.mkdir(parents=True, exist_ok=True)
    write_results(Results(paper="constructed", runs={run.key: run}), folder / "results.json")
    (workbench / "figures/release.json").write_text(json.dumps({"version": version, "date": "2026-11-01", "code": {}}))


def test_what_changed_since_a_release_is_told_claim_by_claim(workbench, commit):
    write_release(workbench, "0.1.0", 0.5, 0.5)
    commit()
    write_release(workbench, "0.2.0", 0.8, 0.81, 0.8, seconds=30.0)
    text = (workbench / "data/constructed/claims.yaml").read_text()
    write_claims(workbench, text.replace("id: best-first", "id: first").replace("relative: 0.1", "relative: 0.2"))
    commit()
    table = changes_since("v0.1.0")
    told = {(row.claim, row.what): (row.before, row.after) for row in table.itertuples()}
    assert told["mean-gain", "verdict"] == ("agrees", "agrees in direction")
    assert told["mean-gain", "run"] == ("2 repetitions of 10 s", "3 repetitions of 30 s")
    assert set(told) == {
        *(("mean-gain", what) for what in ("verdict", "run", "acceptance")),
        ("best-first", "claim"),
        ("first", "claim"),
    }
    lines = _told(change_lines(table, "0.1.0"))
    assert "best-first: no claim any more" in lines and "first: new" in lines
    assert "mean-gain: size of that run was 2 repetitions of 10 s, is 3 repetitions of 30 s" in lines
    assert "since 0.1.0: 1 verdicts have changed; 1 were: agrees, now agrees in direction" in lines
    assert changes_since("0.2.0").empty
    with pytest.raises(NetreproError, match=r"no release '0\.3\.0'"):
        changes_since("0.3.0")


def test_every_published_disagreement_says_whose_fault_it_is_and_what_would_settle_it(monkeypatch):
    monkeypatch.setenv("NETREPRO_ROOT", str(REPOSITORY))
    table = scorecard()  # by what decides: other evidence stands beside it
    red = table[table["verdict"] == "disagrees"]
    assert len(red) and list(red.loc[(red["blame"] == "") | (red["settles"] == ""), "claim"]) == []
