"""What another user of the same machine may try: a workbench in /tmp, folders under our names."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from netrepro.errors import NetreproError
from netrepro.paths import workbench_root
from netrepro.workbench.publishing import pages
from netrepro.workbench.running.runner import run

ANOTHER, ANYBODY = 12345, 12346
NOT_HERE = "0" * 12

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def planted(echo_paper, workbench, monkeypatch) -> Path:
    """A workbench above the working directory, which no variable names."""
    below = workbench / "work/here"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.delenv("NETREPRO_ROOT")
    return workbench


@needs_root
@pytest.mark.parametrize("which", [".", "notebooks", "data"])
def test_root_runs_no_other_users_workbench(which, planted, monkeypatch):
    assert workbench_root() == planted
    os.chown(planted / which, ANOTHER, ANOTHER)
    with pytest.raises(NetreproError, match=rf"another user's: .* belongs to user {ANOTHER}") as error:
        workbench_root()
    assert f"NETREPRO_ROOT={planted}" in error.value.remedy
    with pytest.raises(NetreproError, match="another user's"):
        run(["echo"])
    monkeypatch.setenv("NETREPRO_ROOT", str(planted))
    assert workbench_root() == planted


@needs_root
def test_an_ordinary_user_runs_no_other_users_workbench(planted):
    """The folder belongs to root, as /tmp does, or to a third person; the notebooks to whoever put them there."""
    ask = "from netrepro.paths import workbench_root\ntry: print(workbench_root())\nexcept Exception as e: print(e)"
    for folder in (planted, *list(planted.parents)[:-1]):
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o755)
    for owner, runs in ((0, False), (ANOTHER, False), (ANYBODY, True)):
        for place in (planted, planted / "notebooks", planted / "data"):
            os.chown(place, owner, owner)
        if shutil.which("setpriv") is None:
            pytest.skip("util-linux or iproute2 is absent")
        as_anybody = ["setpriv", f"--reuid={ANYBODY}", f"--regid={ANYBODY}", "--clear-groups", sys.executable]
        said = subprocess.run([*as_anybody, "-c", ask], capture_output=True, text=True, cwd=planted / "work/here")
        assert (said.stdout.strip() == str(planted)) is runs, said
        assert ("another user's" in said.stdout) is not runs


def test_the_checkout_that_the_library_runs_from_may_be_anybodys(monkeypatch):
    """Root in a container with a mounted clone is such a case, as is sudo: the checkout's code runs already."""
    checkout = Path(__file__).parents[3]
    monkeypatch.chdir(checkout / "lib")
    monkeypatch.delenv("NETREPRO_ROOT", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: ANYBODY)
    assert workbench_root() == checkout.resolve()


def test_folders_that_only_look_like_a_dead_runners_stay(add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    runs = workbench / "results"
    dead = "d" * 12
    ours = [f".partial-10_well_behaved-{dead}", f".partial-10_other-{dead}"]
    others = [
        ".partial-notes-2026",  # a name of somebody else's
        ".aside-thesis-old",
        f".partial-10_x-{NOT_HERE}",  # the whole pattern, and no runner's lock beside it
        f".aside-10_x-{NOT_HERE}",
        f".partial-10_x-{dead}.bak",
    ]
    for name in (*ours, *others):
        (runs / name).mkdir(parents=True)
        (runs / name / "kept.txt").write_text("work of years")
    (runs / f".living-{dead}").write_text(socket.gethostname())
    (runs / ".living-2026").write_text(socket.gethostname())
    elsewhere = workbench / "elsewhere"
    elsewhere.mkdir()
    (runs / f".aside-10_link-{dead}").symlink_to(elsewhere)
    assert run(["well_behaved"], into=runs).ok
    left = {path.name for path in runs.iterdir()}
    assert left == {"10_well_behaved", ".living-2026", f".aside-10_link-{dead}", *others}
    assert all((runs / name / "kept.txt").read_text() for name in others) and elsewhere.is_dir()


@needs_root
def test_folders_of_another_user_are_not_swept(add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    runs, dead = workbench / "results", "e" * 12
    folder, lock = runs / f".partial-10_x-{dead}", runs / f".living-{dead}"
    folder.mkdir(parents=True)
    lock.write_text(socket.gethostname())
    for path in (folder, lock):
        os.chown(path, ANOTHER, ANOTHER)
    assert run(["well_behaved"], into=runs).ok and folder.exists() and lock.exists()


@pytest.mark.parametrize("kind", ["folder", "file", "link", "failed"])
def test_a_run_replaces_nothing_that_is_no_run(kind, add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    into = workbench / "mine"
    into.mkdir()
    final = into / ("10_well_behaved--failed" if kind == "failed" else "10_well_behaved")
    if kind == "file":
        final.write_text("work of years")
    elif kind == "link":
        (workbench / "elsewhere").mkdir()
        final.symlink_to(workbench / "elsewhere")
    else:
        final.mkdir()
        (final / "thesis.tex").write_text("work of years")
    before = {path: path.lstat().st_ino for path in into.rglob("*")}
    with pytest.raises(NetreproError, match="is no folder of a run"):
        run(["well_behaved"], into=into)
    assert {path: path.lstat().st_ino for path in into.rglob("*")} == before


def test_a_run_replaces_a_run_and_an_empty_folder(add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    into = workbench / "mine"
    (into / "10_well_behaved").mkdir(parents=True)
    for _ in range(2):
        assert run(["well_behaved"], into=into).ok


def test_no_module_in_the_working_directory_runs(echo_paper, workbench, tmp_path_factory, monkeypatch):
    """In /tmp another user may have put modules under names that we import."""
    here = tmp_path_factory.mktemp("here")
    came = here / "came"
    for name in ("json", "nbformat", "papermill", "pandas", "netrepro", "pdoc", "sitecustomize"):
        (here / f"{name}.py").write_text(f"open({str(came)!r}, 'w').close()")
    command = [sys.executable, "-P", "-m", "netrepro.workbench.cli.commands", "run", "echo"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    assert done.returncode == 0 and (workbench / "runs/quick/10_echo/results.json").exists(), done.stdout + done.stderr
    monkeypatch.chdir(here)
    monkeypatch.setattr(pages, "_module_names", lambda: ["netrepro.errors"])
    pages._describe_functions(workbench / "described")
    assert (workbench / "described/index.html").exists() and not came.exists()
