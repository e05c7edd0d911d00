"""Git is asked about the workbench and about no other repository, in one place; what it cannot know it does not say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import command

from netrepro import git as module
from netrepro.claims.history import history
from netrepro.errors import NetreproError
from netrepro.git import git, require_whole_history
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.publishing.results import lost_verdicts, publish
from netrepro.workbench.running.manifest import git_state
from netrepro.workbench.running.standard import commit_name, edited_inputs

LIBRARY = Path(__file__).parents[2] / "netrepro"


def run_git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True, env=clean()
    )
    return done.stdout.strip()


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in module.OF_ANOTHER_REPOSITORY}


@pytest.fixture
def outer(tmp_path_factory, commit_all) -> Path:
    """Another repository with a commit."""
    folder = tmp_path_factory.mktemp("outer")
    (folder / "theirs.txt").write_text("something else")
    commit_all(folder)
    return folder


@pytest.mark.parametrize("ignored", [False, True])
def test_a_copy_inside_another_repository_has_no_commit(ignored, outer, good_echo, workbench, commit_all, monkeypatch):
    """A release's archive is unpacked in a project that is a repository of its own."""
    copy = outer / "netrepro"
    shutil.copytree(workbench, copy)
    if ignored:
        (outer / ".gitignore").write_text("netrepro/\n")
        run_git(outer, "add", ".gitignore")
        run_git(outer, "commit", "-m", "ignore it")
    monkeypatch.setenv("NETREPRO_ROOT", str(copy))
    state = git_state(copy)
    assert (state["commit"], state["dirty"]) == (None, None) and f"it lies in that of {outer}" in state["why"]
    assert edited_inputs(find("echo")) is None and commit_name(None, find("echo")) == "unknown"
    (item,) = publish(run=copy / "runs/quick/10_echo", dry_run=True)
    assert any("git does not say which commit" in refusal for refusal in item.refusals)
    for asked in (history, lost_verdicts):
        with pytest.raises(NetreproError, match="no git repository of its own"):
            asked()


def test_a_commit_without_an_answer_about_edits_is_unknown(echo_paper, workbench):
    assert commit_name("0123456789", find("echo")) == "unknown"


def test_the_variables_of_another_repository_are_not_obeyed(outer, echo_paper, workbench, commit_all, monkeypatch):
    """A hook of another repository starts a run: git tells it which repository it is by variables."""
    commit_all(workbench)
    own = run_git(workbench, "rev-parse", "--short=10", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(outer / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(outer))
    monkeypatch.setenv("GIT_INDEX_FILE", str(outer / ".git/index"))
    assert git_state(workbench) == {"commit": own, "dirty": False}
    assert edited_inputs(find("echo")) == []
    assert set(history()["git"]) == {"not measured"}


def test_git_itself_lists_no_variable_of_a_repository_that_is_obeyed():
    listed = run_git(Path.cwd(), "rev-parse", "--local-env-vars").split()
    settings = {"GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"}
    assert set(listed) - settings <= set(module.OF_ANOTHER_REPOSITORY)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_shallow_clone_has_no_history(depth, echo_paper, workbench, commit_all, tmp_path_factory, monkeypatch):
    for _ in range(3):
        commit_all(workbench)
    require_whole_history()
    clone = tmp_path_factory.mktemp("clone") / "shallow"
    run_git(workbench, "clone", "--quiet", f"--depth={depth}", f"file://{workbench}", str(clone))
    (clone / "figures").mkdir(exist_ok=True)
    monkeypatch.setenv("NETREPRO_ROOT", str(clone))
    with pytest.raises(NetreproError, match="this clone is shallow") as error:
        history(["echo"])
    assert error.value.remedy == "fetch it: git fetch --unshallow"
    assert git_state(clone)["commit"] == run_git(workbench, "rev-parse", "--short=10", "HEAD")
    run_git(clone, "fetch", "--quiet", "--unshallow")
    assert set(history(["echo"])["git"]) == {"not measured"}


def test_a_version_that_git_cannot_show_is_an_error_and_one_that_was_removed_is_none(good_echo, workbench, commit_all):
    claims = workbench / "data/echo/claims.yaml"
    text = claims.read_text()
    commit_all(workbench)
    claims.unlink()
    commit_all(workbench)
    claims.write_text(text)
    commit_all(workbench)
    assert set(history(["echo"])["git"]) == {"not measured"}
    blob = run_git(workbench, "rev-parse", "HEAD:data/echo/claims.yaml")
    (workbench / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(NetreproError, match="git show"):
        history(["echo"])


def test_a_check_that_compares_nothing_fails(good_echo, workbench, commit_all):
    for commit in (False, True):  # no clone; a clone in which nothing is published
        if commit:
            commit_all(workbench)
        done = command("scorecard", "--check")
        assert done.returncode != 0 and "still holds" not in done.stdout
    publish(["echo"], dirty=True)
    commit_all(workbench)
    done = command("scorecard", "--check")
    assert done.returncode == 0 and "every committed verdict still holds" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_clone_of_another_owner_answers_nothing(good_echo, workbench, commit_all, monkeypatch):
    monkeypatch.setenv("HOME", str(workbench))  # without a safe.directory of this machine
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    publish(["echo"], dirty=True)
    commit_all(workbench)
    for path in (workbench, *workbench.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    done = command("scorecard", "--check")
    assert done.returncode != 0 and "still holds" not in done.stdout
    assert "dubious ownership" in git_state(workbench)["why"]


def test_git_is_asked_in_one_place():
    asks = re.compile(r"""(?:\[\s*|need_program\()["']git["'],""")
    assert [path.name for path in LIBRARY.rglob("*.py") if asks.search(path.read_text())] == ["git.py"]
    assert git("rev-parse", "--is-inside-work-tree").strip() == "true"
