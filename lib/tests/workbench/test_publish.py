"""What is published: the README's excerpt, the scorecard's files, verdicts that CI guards."""

from __future__ import annotations

from pathlib import Path

import pytest

from netrepro.claims import committed_results
from netrepro.claims.scorecard import scorecard, to_markdown
from netrepro.errors import NetreproError
from netrepro.workbench.publish import README_BEGIN, README_END, lost_verdicts, refresh_readme, write_scorecard
from netrepro.workbench.runner import run

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_shows_the_committed_scorecard_or_that_of_the_last_run(monkeypatch):
    excerpt = README.read_text().partition(README_BEGIN)[2].partition(README_END)[0]
    last_run = to_markdown(scorecard()).strip()
    # `make run` measures anew, and how fast this machine is may change a verdict.
    monkeypatch.setattr("netrepro.claims.scorecard.published_results", lambda slug: committed_results(slug)[0])
    assert excerpt.strip() in (last_run, to_markdown(scorecard()).strip()), "run: netrepro scorecard --readme"


def test_refreshing_a_readme_changes_nothing_but_the_excerpt(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{README_BEGIN}\nold\n{README_END}\nafter\n")
    refresh_readme(scorecard(), readme)
    text = readme.read_text()
    assert text.startswith(f"before\n{README_BEGIN}\n| paper") and text.endswith(f"{README_END}\nafter\n")
    assert "old" not in text
    refresh_readme(scorecard(), readme)
    assert readme.read_text() == text


def test_a_readme_without_marks_is_refused_and_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    with pytest.raises(NetreproError, match="no <!-- scorecard -->"):
        refresh_readme(scorecard(), readme)
    assert readme.read_text() == "no marks"


def test_the_scorecard_is_written_in_every_form_and_the_same_twice(tmp_path):
    write_scorecard(scorecard(), tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {f"scorecard.{ending}" for ending in ("csv", "md", "html", "png", "svg")}
    write_scorecard(scorecard(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_a_verdict_that_no_longer_holds_is_named_against_the_last_commit(echo_paper, workbench):
    import subprocess

    def git(*words: str) -> None:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        subprocess.run(["git", "-C", str(workbench), *identity, *words], check=True, capture_output=True)

    assert run(["echo"]).ok
    assert lost_verdicts()[0] == [] and "not committed" in lost_verdicts()[1][0]
    git("init")
    git("add", "figures")
    git("commit", "-m", "results")
    assert lost_verdicts() == ([], [])
    path = workbench / "notebooks/10_echo.ipynb"
    path.write_text(path.read_text().replace("load: float = 0.5", "load: float = 0.7"))
    assert run(["echo"]).ok
    (lost,) = lost_verdicts()[0]
    assert "load-is-half at quick/simulated was 'agrees'" in lost and "'disagrees'" in lost


def test_a_figure_that_the_notebook_no_longer_draws_is_removed(echo_paper, workbench):
    old = workbench / "figures/echo/fig0_old.png"
    old.parent.mkdir()
    old.write_bytes(b"")
    assert run(["echo"]).ok
    assert not old.exists() and (workbench / "figures/echo/fig1_load.png").exists()
