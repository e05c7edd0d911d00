"""A release: all that decides is measured by one code, published at once and tagged; else nothing is touched."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from command_line import command

from netrepro.claims import Results, published_results, write_results
from netrepro.claims.release import read_release
from netrepro.claims.scorecard import beside, scorecard, stale_main_claims
from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.cli.console import verdict_words
from netrepro.workbench.publishing import releasing
from netrepro.workbench.publishing.releasing import (
    deciding_runs,
    measure_release,
    problems_of_checkout,
    problems_of_release,
    publish_release,
    release_plan,
    runs_to_measure,
    tag_release,
    to_measure_lines,
)
from netrepro.workbench.publishing.results import README_BEGIN, README_END, publish, write_scorecard

FIXTURES = Path(__file__).parents[1] / "notebooks"
TODAY = datetime.date(2026, 1, 31)
DECIDED = 'decided_by: {tier: simulated, profile: paper, because: "the published scale"}'


def build(root: Path, repetitions: int) -> None:
    """Write a workbench with one paper, whose only claim its paper profile decides, and the files of a version."""
    (root / "notebooks").mkdir(exist_ok=True)
    notebook = nbformat.read(FIXTURES / "echo.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("repetitions: int = 2", f"repetitions: int = {repetitions}")
        cell.source = cell.source.replace("values=[load, load]", "values=[load] * repetitions")
    nbformat.write(notebook, root / "notebooks/10_echo.ipynb")
    shutil.copytree(FIXTURES / "echo_data", root / "data/echo", dirs_exist_ok=True)
    claims = root / "data/echo/claims.yaml"
    claims.write_text(claims.read_text().replace("comparable_on: [simulated]", f"role: main\n    {DECIDED}"))
    (root / "lib").mkdir()
    (root / "lib/pyproject.toml").write_text('[project]\nname = "echo"\nversion = "0.1.0"\n')
    (root / "lib/kernel").mkdir()
    (root / "lib/kernel/pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    (root / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.1.0\ndate-released: 2026-01-01\n")
    for name, date in (("codemeta.json", "datePublished"), (".zenodo.json", "publication_date")):
        (root / name).write_text(json.dumps({"version": "0.1.0", date: "2026-01-01", "keywords": []}, indent=2))
    (root / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n### Added\n- Echo.\n")
    (root / "README.md").write_text(f"{README_BEGIN}\n{README_END}\n")


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory, commit_all) -> Path:
    root = tmp_path_factory.mktemp("release")
    build(root, repetitions=5)
    commit_all(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        assert set(release_plan()["state"]) == {"not run"}
        assert problems_of_release("0.2.0") == ["echo paper/simulated: not run"]
        assert measure_release().ok
    return root


@pytest.fixture
def measured(measured_once, workbench, monkeypatch) -> Path:
    """A copy of a workbench in which all that decides is measured."""
    shutil.copytree(measured_once, workbench, dirs_exist_ok=True)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@example.invalid")
    return workbench


def publish_older_run(run_key: str = "paper/simulated") -> None:
    """Publish what another code measured, under the name of this run and of one that decides nothing."""
    found = published_results("echo")
    run = found.runs[run_key]
    older = run.model_copy(update={"code": "another"})
    elsewhere = older.model_copy(update={"tier": "virtual"})
    write_results(
        Results(paper="echo", runs={older.key: older, elsewhere.key: elsewhere}), Path("figures/echo/results.json")
    )


def test_a_release_is_published_marked_and_tagged(measured, monkeypatch):
    monkeypatch.chdir(measured)
    assert problems_of_release("0.2.0") == []
    assert release_plan().iloc[0][["state", "claims", "main"]].tolist() == ["ready", 1, 1]
    changed = publish_release("0.2.0", TODAY)
    tag_release("0.2.0")

    assert changed.iloc[0].tolist() == ["echo", "load-is-half", "main", "not measured", "agrees 0.5"]
    assert published_results("echo").runs.keys() == {"paper/simulated", "quick/simulated"}
    assert read_release().version == "0.2.0" and scorecard()["of_release"].all()
    assert 'version = "0.2.0"' in (measured / "lib/pyproject.toml").read_text()
    assert (measured / "CITATION.cff").read_text().endswith("\nversion: 0.2.0\ndate-released: 2026-01-31\n")
    for name, date in (("codemeta.json", "datePublished"), (".zenodo.json", "publication_date")):
        said = json.loads((measured / name).read_text())
        assert said == {"version": "0.2.0", date: "2026-01-31", "keywords": []}
    log = (measured / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n### Verdicts that changed\n" in log
    assert "| echo | load-is-half | main | not measured | agrees 0.5 |\n\n### Added\n" in log
    assert "1 paper: " in (measured / "README.md").read_text()
    git = ["git", "-C", str(measured)]
    assert subprocess.check_output([*git, "tag"], text=True) == "v0.2.0\n"
    assert subprocess.check_output([*git, "status", "--porcelain"], text=True) == ""

    # What was published after a release is compared with that release, whose tag a copy of the repository may lack.
    subprocess.run([*git, "tag", "--delete", "v0.2.0"], check=True)
    publish_older_run()
    subprocess.run([*git, "commit", "-qam", "older"], check=True)
    assert publish_release("0.3.0", TODAY).empty
    assert "## 0.3.0 - 2026-01-31\n\nNo verdict changed since v0.2.0.\n" in (measured / "CHANGELOG.md").read_text()


def test_verdicts_are_compared_with_those_of_a_commit_that_one_names(measured, commit_all):
    publish(fewer=True)
    write_scorecard(scorecard(), measured / "figures")
    card = measured / "figures/scorecard.csv"
    measured_card = card.read_text()
    card.write_text(measured_card.replace(",agrees,", ",disagrees,"))
    commit_all(measured)
    card.write_text(measured_card)
    commit_all(measured)
    assert problems_of_checkout("0.2.0", "HEAD~1") == []
    changed = publish_release("0.2.0", TODAY, since="HEAD~1")
    assert changed[["before", "after"]].values.tolist() == [["disagrees 0.5", "agrees 0.5"]]
    assert "### Verdicts that changed since HEAD~1\n" in (measured / "CHANGELOG.md").read_text()
    assert "there is no commit nowhere" in problems_of_checkout("0.3.0", "nowhere")[-1]
    card.write_text("paper,claim,verdict\n")
    commit_all(measured)
    assert problems_of_checkout("0.3.0", "HEAD") == [
        "HEAD: figures/scorecard.csv has no column counts, value: name a later commit: --since COMMIT"
    ]


def test_what_other_code_measured_goes_with_the_release_and_is_marked_after_it(measured, monkeypatch):
    monkeypatch.chdir(measured)
    publish_release("0.2.0", TODAY)
    tag_release("0.2.0")
    publish_older_run()
    row = beside(scorecard(), scorecard(code=lambda slug, tier: "today")).to_dict("records")[0]
    assert verdict_words(row, "published").endswith("stale: measured by older code, not of the release")
    assert len(stale_main_claims(scorecard(code=lambda slug, tier: "today"))) == 1
    subprocess.run(["git", "-C", str(measured), "commit", "-qam", "older"], check=True)
    publish_release("0.3.0", TODAY)
    assert published_results("echo").runs.keys() == {"paper/simulated", "quick/simulated"}
    assert stale_main_claims(scorecard()) == []


def test_a_quick_run_that_may_not_be_published_is_left_out_and_a_deciding_run_forbids(measured, commit_all):
    publish(fewer=True)
    commit_all(measured)

    def distrust(profile: str) -> None:
        results = measured / f"runs/{profile}/10_echo/results.json"
        content = json.loads(results.read_text())
        (claim,) = content["runs"][f"{profile}/simulated"]["measured"]
        claim.update(trusted=False, why="disturbed")
        results.write_text(json.dumps(content))

    distrust("quick")
    (why,) = publish_release("0.2.0", TODAY).attrs["left_out"]
    assert "untrusted" in why and "quick/simulated" in why
    assert published_results("echo").runs["quick/simulated"].measured[0].trusted
    tag_release("0.2.0")
    distrust("paper")
    with pytest.raises(NetreproError, match=r"no release 0\.3\.0: .*paper/simulated.*\n.*untrusted"):
        publish_release("0.3.0", TODAY)


def test_what_is_published_and_committed_counts_on_another_machine(measured, commit_all):
    publish(fewer=True)
    commit_all(measured)
    shutil.rmtree(measured / "runs")
    assert release_plan()["state"].tolist() == ["ready"]
    assert measure_release().statuses == [] and problems_of_release("0.2.0") == []
    publish_release("0.2.0", TODAY)
    assert published_results("echo").runs.keys() == {"paper/simulated", "quick/simulated"}


def test_what_was_measured_with_edits_that_nobody_committed_does_not_count(measured):
    publish(pictures=False, fewer=True)
    shutil.rmtree(measured / "runs")
    found = published_results("echo")
    dirty = {key: run.model_copy(update={"commit": f"{run.commit}-dirty"}) for key, run in found.runs.items()}
    write_results(Results(paper="echo", runs=dirty), measured / "figures/echo/results.json")
    assert release_plan()["state"].tolist() == ["other code"]


def test_what_forbids_a_release_is_said_and_nothing_is_touched(measured):
    assert problems_of_release("0.1.0") == ["0.1.0 is not newer than 0.1.0"]
    assert problems_of_release("next") == ["'next' is no version: write such as 0.3.0"]
    readme = measured / "README.md"
    readme.write_text(readme.read_text() + "edited\n")
    assert problems_of_release("0.2.0") == ["1 files differ from the commit: commit or undo them"]
    results = measured / "runs/paper/10_echo/results.json"
    content = json.loads(results.read_text())
    content["runs"]["paper/simulated"]["code"] = "another"
    results.write_text(json.dumps(content))
    assert problems_of_release("0.2.0")[1:] == ["echo paper/simulated: measured by other code"]
    assert set(release_plan()["state"]) == {"other code"}
    with pytest.raises(NetreproError, match=r"no release 0\.2\.0: .*measured by other code"):
        publish_release("0.2.0", TODAY)
    assert not (measured / "figures").exists() or not any((measured / "figures").iterdir())


def test_a_deciding_run_needs_five_repetitions(measured):
    results = measured / "runs/paper/10_echo/results.json"
    content = json.loads(results.read_text())
    (claim,) = content["runs"]["paper/simulated"]["measured"]
    claim["values"] = claim["values"][:4]
    results.write_text(json.dumps(content))
    assert problems_of_release("0.2.0") == ["echo paper/simulated: fewer than 5 repetitions of load-is-half"]
    claim["values"], claim["exact"] = claim["values"][:1], True
    results.write_text(json.dumps(content))
    assert problems_of_release("0.2.0") == []


def test_it_says_beforehand_what_it_will_measure_and_how_long_that_takes(measured, monkeypatch):
    assert runs_to_measure() == [] and to_measure_lines([])[0].startswith("nothing to measure")
    monkeypatch.setattr(releasing, "code_of", lambda slug, tier: "of today")
    quick, paper = runs_to_measure()
    assert (quick.slug, quick.profile, quick.tier) == ("echo", "quick", "")
    assert (paper.slug, paper.profile, paper.tier) == ("echo", "paper", "simulated")
    assert 0 < quick.cpu_s < 60 and not quick.is_guess and not paper.is_guess  # as they took last, with other code
    last = to_measure_lines([quick, paper])[-1]
    assert last.startswith("2 runs to measure: ") and last.endswith("minutes on two idle ones")
    assert release_plan()["cpu_s"].notna().all()


def test_a_notebook_of_both_kinds_is_also_measured_on_the_other_tier(measured, monkeypatch):
    monkeypatch.setattr(releasing.runner, "second_tier", lambda declared: ["virtual"])
    (other,) = runs_to_measure()
    assert (other.slug, other.profile, other.tier) == ("echo", "quick", "virtual")


def test_a_run_that_nobody_has_timed_counts_with_all_that_it_may_take(measured):
    shutil.rmtree(measured / "runs")
    guesses = runs_to_measure()
    budget_s = find("echo").declaration.budget_s
    assert [(each.cpu_s, each.is_guess) for each in guesses] == [(budget_s["quick"], True), (budget_s["paper"], True)]
    assert "2 of them were never timed" in to_measure_lines(guesses)[-1]
    assert release_plan()["cpu_s"].isna().all()


def test_the_time_of_a_run_is_published_with_it(measured, commit_all):
    publish(fewer=True)
    commit_all(measured)
    times = {key: run.cpu_s for key, run in published_results("echo").runs.items()}
    assert all(time > 0 for time in times.values())
    shutil.rmtree(measured / "runs")
    assert release_plan()["cpu_s"].tolist() == [times["paper/simulated"]]


def test_what_this_machine_lacks_is_in_the_plan(measured):
    (run,) = deciding_runs()
    assert (run.slug, run.profile, run.tier, run.why_not) == ("echo", "paper", "simulated", "")
    assert release_plan([replace(run, tier="virtual", why_not="no kernel")])["state"].tolist() == ["no kernel"]


def test_what_forbids_a_release_whatever_is_measured_is_said_before_hours_of_measuring(workbench, commit_all):
    with pytest.raises(NetreproError, match=r"has no CHANGELOG.md\n  release from a clone"):
        problems_of_checkout("0.2.0")
    build(workbench, repetitions=5)
    commit_all(workbench)
    assert problems_of_checkout("0.2.0") == []
    done = command("release", "next")
    assert done.returncode == 1 and "'next' is no version" in done.stdout and "nothing is measured" in done.stdout
    assert not (workbench / "runs").exists()
