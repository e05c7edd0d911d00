"""`make run` where no virtual kernel is built: it is built while notebooks run that do not need it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path

import pytest

from netrepro.emulation import tiers
from netrepro.paths import workbench_root
from netrepro.workbench.catalogue.notebooks import catalogue
from netrepro.workbench.running import kernel_beside
from netrepro.workbench.running.runner import RunEvent, RunReport, run

# In place of minutes of a compiler: it goes on until a file is there, and says its process.
BUILD = """
import os, pathlib, sys, time
print("  the virtual kernel: compiling ...", os.getpid(), flush=True)
while not pathlib.Path("ends").exists():
    time.sleep(0.05)
print("no virtual kernel: gcc and make, which builds it, is missing; install a C compiler and make")
sys.exit(int(pathlib.Path("ends").read_text()))
"""


@pytest.fixture
def no_kernel(workbench: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No kernel in the cache, and the file whose text is the code with which its build ends."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(workbench / "cache"))
    monkeypatch.chdir(workbench)
    monkeypatch.setattr(kernel_beside, "COMMAND", (sys.executable, "-c", BUILD))
    tiers.probe_tiers.cache_clear()
    return workbench / "ends"


@pytest.fixture(autouse=True)
def probe_anew():
    yield
    tiers.probe_tiers.cache_clear()


def times(report: RunReport, slug: str) -> tuple[datetime, datetime]:
    (folder,) = [status.folder for status in report.statuses if status.slug == slug]
    manifest = json.loads((folder / "manifest.json").read_text())
    return datetime.fromisoformat(manifest["started"]), datetime.fromisoformat(manifest["ended"])


def test_what_needs_no_kernel_runs_while_it_is_built_and_the_others_wait(add_notebook: Callable[..., Path], no_kernel):
    add_notebook("well_behaved", 10, slug="first", tiers=["virtual", "simulated"])
    add_notebook("well_behaved", 11, slug="second", tiers=["simulated", "virtual"])
    add_notebook("well_behaved", 12, slug="third", beside_kernel=True)
    add_notebook("well_behaved", 13, slug="fourth", last=True)
    told: list[str] = []

    def on_event(event: RunEvent) -> None:
        if event.kind == "kernel":
            told.append(event.reason)
        elif event.kind == "ended":
            told.append(event.name)
            no_kernel.write_text("0")

    report = run(build_kernel=True, jobs=2, on_event=on_event)
    assert report.ok, [status.explanation() for status in report.statuses]
    assert [status.slug for status in report.statuses] == ["first", "second", "third", "fourth"]
    assert told[0].startswith("  the virtual kernel: compiling") and told[1] == "11_second"
    assert told[2].startswith("no virtual kernel: gcc and make") and told[5] == "13_fourth"
    assert report.no_kernel == told[2]
    assert times(report, "second")[1] <= min(times(report, "first")[0], times(report, "third")[0])


def test_where_every_notebook_needs_the_kernel_none_begins_before_it_is_built(add_notebook, no_kernel):
    add_notebook("well_behaved", tiers=["virtual", "simulated"])
    begun: list[str] = []
    threading.Timer(1.0, lambda: (begun.append("built"), no_kernel.write_text("0"))).start()
    report = run(build_kernel=True, on_event=lambda event: begun.append(event.kind))
    assert report.ok and begun.index("built") < begun.index("started")


def test_a_build_that_is_killed_is_told_with_its_code(add_notebook, no_kernel, monkeypatch):
    monkeypatch.setattr(kernel_beside, "COMMAND", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))
    add_notebook("well_behaved")
    report = run(build_kernel=True)
    assert report.ok and report.no_kernel == "no virtual kernel: its build ended with code -9"


def test_an_interrupted_run_ends_the_build_too(add_notebook, no_kernel):
    add_notebook("endless_cell")
    processes: list[int] = []

    def on_event(event: RunEvent) -> None:
        if event.kind == "kernel":
            processes.append(int(event.reason.split()[-1]))
        elif event.kind == "progress" and event.progress and event.progress.cell is not None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    report = run(build_kernel=True, on_event=on_event)
    assert report.interrupted and processes
    assert not Path(f"/proc/{processes[0]}").exists()


def test_a_kernel_that_is_there_is_not_built_again(add_notebook, no_kernel, monkeypatch):
    monkeypatch.setattr(kernel_beside, "kernel_path", lambda: no_kernel)
    add_notebook("well_behaved")
    kinds: list[str] = []
    assert run(build_kernel=True, on_event=lambda event: kinds.append(event.kind)).ok
    assert "kernel" not in kinds


def test_a_paper_that_also_measures_on_the_kernel_says_so():
    for notebook in catalogue(workbench_root() / "notebooks"):
        if notebook.declaration.kind == "paper":
            study = import_module(f"netrepro.papers.{notebook.slug}").STUDY
            runs_beside = any(study.scale_beside(profile) for profile in study.profiles)
            assert notebook.declaration.beside_kernel is runs_beside, notebook.slug
