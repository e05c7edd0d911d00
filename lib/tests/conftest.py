"""Shared fixtures: a workbench of its own for tests that run notebooks."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

if core := os.environ.get("NETREPRO_CORE"):  # another build of the core than the installed one: `make sanitize`
    spec = importlib.util.spec_from_file_location("netrepro._core", core)
    assert spec and spec.loader
    sys.modules["netrepro._core"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["netrepro._core"])

# isort: split

import netrepro.workbench.running.lean_imports  # noqa: F401

# isort: split

import nbformat
import pytest
import yaml
from hypothesis import settings

from netrepro.emulation.real_time.machine import processor_ticks
from netrepro.paths import data_dir
from netrepro.workbench import write_class_copies
from netrepro.workbench.classroom.exercises import FOLDED
from netrepro.workbench.running import lanes, run_folder, runner
from netrepro.workbench.running.run_folder import Job, Status
from netrepro.workbench.running.sandbox import why_not

FIXTURES = Path(__file__).parent / "notebooks"
REPOSITORY = Path(__file__).parents[2]

# A background job begins with this signal ignored, and so does what it starts: tests of Ctrl-C would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a time. Examples are the same each time, so that a test fails where what it tests has changed;
# `make test-all` tries ten times as many, others each time.
WHOLE = "NETREPRO_WHOLE" in os.environ
settings.register_profile("netrepro", deadline=None, derandomize=not WHOLE, max_examples=400 if WHOLE else 40)
settings.load_profile("netrepro")


@pytest.fixture
def workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workbench (notebooks/, data/, figures/) that the library takes for its own."""
    for name in ("notebooks", "data", "figures"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("NETREPRO_ROOT", str(tmp_path))
    monkeypatch.delenv("NETREPRO_RUN_DIR", raising=False)
    return tmp_path


@pytest.fixture
def add_notebook(workbench: Path) -> Callable[..., Path]:
    """Put a fixture notebook into the workbench as NN_<slug>.ipynb; keywords change what it declares."""

    def add(fixture: str, number: int = 10, **declared: object) -> Path:
        target = workbench / "notebooks" / f"{number:02}_{declared.get('slug', fixture)}.ipynb"
        shutil.copy(FIXTURES / f"{fixture}.ipynb", target)
        if declared:
            notebook = nbformat.read(target, as_version=4)
            notebook.metadata["netrepro"].update(declared)
            nbformat.write(notebook, target)
        return target

    return add


@pytest.fixture
def echo_paper(add_notebook: Callable[..., Path], workbench: Path) -> Path:
    """A paper whose one claim measures its own parameter `load`: a complete paper that runs in a second."""
    path = add_notebook("echo")
    shutil.copytree(FIXTURES / "echo_data", workbench / "data" / "echo")
    return path


@pytest.fixture(scope="session")
def lay_out_echo() -> Callable[[Path], None]:
    """Write a workbench of `echo_paper` alone into an empty folder."""

    def lay_out(root: Path) -> None:
        (root / "notebooks").mkdir()
        shutil.copy(FIXTURES / "echo.ipynb", root / "notebooks/10_echo.ipynb")
        shutil.copytree(FIXTURES / "echo_data", root / "data/echo")

    return lay_out


@pytest.fixture(scope="session")
def finished_echo(tmp_path_factory: pytest.TempPathFactory, lay_out_echo: Callable[[Path], None]) -> Path:
    """The folder of a good run of `echo_paper`: a kernel is started for it once."""
    root = tmp_path_factory.mktemp("finished")
    lay_out_echo(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        (status,) = runner.run(["echo"]).statuses
    assert status.ok and status.folder, status.explanation()
    return status.folder


@pytest.fixture
def good_echo(finished_echo: Path, echo_paper: Path, workbench: Path) -> Path:
    """The folder of a good run of `echo_paper` in its workbench."""
    return Path(shutil.copytree(finished_echo, workbench / "runs/quick/10_echo"))


@pytest.fixture
def pretended_runs(finished_echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every notebook end well at once, without a kernel; one with claims leaves what a run of `echo_paper` left."""

    def supervise(folder: Path) -> Status:
        job = Job.model_validate_json((folder / run_folder.JOB).read_text())
        if data_dir(job.slug).exists():
            for name in (run_folder.RESULTS, "fig1_load.png"):
                shutil.copy(finished_echo / name, folder)
            results = folder / run_folder.RESULTS
            results.write_text(results.read_text().replace('"paper": "echo"', f'"paper": "{job.slug}"'))
        of_job = ("slug", "name", "budget_s", "fingerprint", "parameters", "command")
        return Status(outcome="ok", seconds=0, code=job.code, **{name: getattr(job, name) for name in of_job})

    monkeypatch.setattr(lanes, "supervise", supervise)


@pytest.fixture
def lesson(echo_paper) -> Path:
    """The paper `echo` with four exercises, of which the third is read by a person."""
    notebook = nbformat.read(echo_paper, as_version=4)
    text = f"## 12 Try next\n\n1. Twice the load?\n2. Its neighbours?\n3. Why?\n4. Half of it?\n\n{FOLDED}"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    both = {"exercise": [1, 2], "answer": ["the load, doubled", "the load and one more"], "within": [0.05, 0]}
    half = {"exercise": 4, "answer": "half of the load", "within": 0.01}
    solution = "double = 2 * load\ndouble, [load, load + 1]"
    for source, said in ((solution, both), ("'because'", {"exercise": 3}), ("load / 2", half)):
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["solution"], "netrepro": said})
        notebook.cells.append(cell)
    nbformat.write(notebook, echo_paper)
    return echo_paper


@pytest.fixture
def hand_in(lesson, tmp_path) -> Callable[..., Path]:
    """Write a class copy as a student hands it in, with answers in the place of the dots."""

    def write(name: str, **answers: str) -> Path:
        (copy,) = write_class_copies(tmp_path / "copies" / name, ["echo"])
        notebook = nbformat.read(copy, as_version=4)
        for cell in notebook.cells:
            for answer, code in answers.items():
                cell.source = cell.source.replace(f"{answer} = ...", code)
        target = tmp_path / "class" / f"{name}.ipynb"
        target.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, target)
        return target

    return write


@pytest.fixture
def sandbox() -> None:
    """Nothing but a skip where this machine has no sandbox."""
    if reason := why_not():
        pytest.skip(f"needs user namespaces: {reason}")


@pytest.fixture(scope="session")
def commit_all() -> Callable[[Path], None]:
    """Commit everything in a workbench but runs/; it becomes a repository of its own with the first commit."""

    def commit(root: Path) -> None:
        (root / ".gitignore").write_text("runs/\n")
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        for words in (["init"], ["add", "."], ["commit", "--allow-empty", "-m", "everything"]):
            subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True)

    return commit


# What takes longest begins first: a worker that is given a long file at the end works alone.
LONGEST_FIRST = (
    "test_browser.py",
    "workbench",
    "study",
    "papers",
    "emulation",
    "applications",
    "simulation",
    "verification",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        top = item.path.relative_to(Path(__file__).parent).parts[0]
        return LONGEST_FIRST.index(top) if top in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


TOO_BUSY = "the machine is too busy"
# A green run that silently skipped what it should test is a failure: in CI only these reasons are accepted.
_listed = yaml.safe_load(Path(__file__).with_name("expected_skips.yaml").read_text())
# What is absent where .ci/bare started this: parts of the list.
_absent = [name for name in os.environ.get("NETREPRO_BARE", "").split(", ") if name]
EXPECTED_SKIPS = tuple(reason for part in ("everywhere", *_absent) for reason in _listed[part])
_unexpected: list[str] = []
_too_busy: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


# Share of the processor time wanted that the machine underneath took: from here on real time tells nothing.
MOST_STOLEN_SHARE = 0.02
_began: dict[Path | str, tuple[int, int]] = {}  # of modules, whose fixtures may have measured, and of tests


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.path.parent.name == "real_time":
        _began[item.nodeid] = processor_ticks()
        _began.setdefault(item.path, _began[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator[None, Any, Any]:
    """A comparison with real time that failed while others took the processors is no failure, and no success."""
    report = yield
    if report.failed and item.path in _began and isinstance(call.excinfo.value, AssertionError):
        now = processor_ticks()
        since = [(now[0] - wanted, now[1] - taken) for wanted, taken in (_began[item.path], _began[item.nodeid])]
        stolen = max(taken / max(wanted, 1) for wanted, taken in since)
        if stolen > MOST_STOLEN_SHARE:
            why = f"others took {stolen:.1%} of the processor time it wanted: {call.excinfo.exconly()[:200]}"
            report.outcome = "skipped"
            report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {TOO_BUSY}: {why}")
    return report


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(TOO_BUSY):
            _too_busy.append(report.nodeid)
        if not reason.startswith(EXPECTED_SKIPS):
            _unexpected.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and _unexpected and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _too_busy:
        terminalreporter.write_line(f"{len(_too_busy)} not judged, {TOO_BUSY}: {', '.join(_too_busy)}", yellow=True)
    for line in _unexpected:
        terminalreporter.write_line(f"unexpected skip: {line}", red=bool(os.environ.get("CI")))
