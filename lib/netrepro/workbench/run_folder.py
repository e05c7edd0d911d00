"""A run's folder: its name, what lies in it, and what may be believed of it.

A run is one execution of one notebook: what is asked (Job), what came of it (Status), and the files between them.
Whoever executes it (this process's supervisor, a Dask worker) reads job.json and leaves progress.json while it goes on
and status.json at the end; a file named `cancel` asks it to stop. What ended well is read as Kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from netrepro.errors import NetreproError
from netrepro.paths import runs_dir, workbench_root
from netrepro.tiers_and_profiles import PROFILES

if TYPE_CHECKING:  # pandas, which who executes a notebook need not import
    from netrepro.claims import Results, Run

JOB, PROGRESS, STATUS, MANIFEST = "job.json", "progress.json", "status.json", "manifest.json"
EXECUTED, LOG, CANCEL, KERNEL_PID = "executed.ipynb", "log.txt", "cancel", "kernel.pid"
RESULTS, RUNNER_LOG = "results.json", "runner.log"
OF_THE_RUNNING = (JOB, PROGRESS, KERNEL_PID, CANCEL, RUNNER_LOG)  # gone once it has ended
RUN_DIR_VARIABLE = "NETREPRO_RUN_DIR"
ASK_WHERE = signal.SIGUSR1  # to a kernel, which then writes to runner.log what each of its threads is doing

CLOCK_PER_USED = 10.0  # a run's limits are of the time that it uses; by the clock it may take this many times as long

Outcome = Literal["ok", "failed", "timed out", "kernel died", "interrupted"]
BY_HAND = "by hand"  # cells run by a person: nobody saw how it ended
FOLDER = re.compile(r"(?:\d\d_)?(?P<slug>[a-z0-9_]+)(--.*)?")


PARTIAL, ASIDE, LIVING = ".partial-", ".aside-", ".living-"  # begin what a runner makes while it lives
FAILED = "--failed"


def failed_beside(folder: Path) -> Path:
    """Name the folder of a run that did not end well: beside that of the last good one, which stays."""
    return folder.with_name(folder.name + FAILED)


def folder_suffix(overrides: Mapping[str, Any]) -> str:
    """Make a folder-name ending that tells runs with other parameters apart."""
    if not overrides:
        return ""
    text = ",".join(f"{name}={value}" for name, value in sorted(overrides.items()))
    readable = re.sub(r"[^A-Za-z0-9=.,_+-]", "_", text)
    if len(readable) > 80 or readable != text:
        readable = f"{readable[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return f"--{readable}"


class Job(BaseModel):
    """The task of one runner: the notebook, its folder, and its limits."""

    slug: str
    name: str  # NN_slug
    kind: str
    notebook: Path
    folder: Path  # where everything it makes goes
    root: Path  # the workbench
    parameters: dict[str, Any]
    inputs: list[str] = []  # those that name a file or folder of who asks
    budget_s: float
    cell_limit_s: float
    total_limit_s: float
    memory_mb: int
    start_limit_s: float = 180
    command: str  # what a person types to run just this again
    threads: int = 1
    manifest: dict[str, Any]
    fingerprint: str
    code: str  # hash of the library that was asked to run it
    shut_in_with: Path | None = None  # for code that nobody trusts: a sandbox, and what lies in it as notebooks/

    def variables(self) -> dict[str, str]:
        """Return the variables by which the executing process and its kernel know the job."""
        threads = str(self.threads)
        return {
            "NETREPRO_ROOT": str(self.root),
            RUN_DIR_VARIABLE: str(self.folder),
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # a debugger's warning that would stand in every log
        }


class Progress(BaseModel):
    """The place that a running notebook has reached."""

    heading: str = "starting the kernel"
    cell: int = 0
    cells: int = 0


class Status(BaseModel):
    """The end of a run, judged from exceptions, never from what the saved notebook says of itself."""

    slug: str
    name: str
    outcome: Outcome
    seconds: float
    budget_s: float
    used_s: float = 0.0  # what its budget limits, see UsedTime
    cpu_s: float = 0.0  # of processors, of the kernel and of all that it started and waited for
    peak_mb: float = 0.0  # memory of the largest of these processes
    fingerprint: str = ""
    parameters: dict[str, Any] = {}
    folder: Path | None = None
    heading: str = ""  # the last Markdown heading above the failing cell
    cell: int | None = None
    exception: str = ""
    log_tail: list[str] = []
    command: str = ""
    reused: bool = False  # taken over from an earlier run by --resume
    stays: Path | None = None  # the last good run, in whose place this one did not come

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def over_budget(self) -> bool:
        return self.used_s > self.budget_s

    def explanation(self) -> str:
        """Write the failure report: where, what, the last log lines, and the command that repeats it."""
        if self.ok:
            return ""
        where = f"in {self.heading!r}, cell {self.cell}" if self.cell is not None else "before its first cell"
        lines = [f"{self.name}: {self.outcome} {where}", f"  {self.exception}"]
        lines += [f"  | {line}" for line in self.log_tail[-20:]]
        lines += [f"  what it left: {shown_path(self.folder)}"] if self.folder else []
        lines += [f"  the last good run stays: {shown_path(self.stays)}"] if self.stays else []
        lines += [f"  again: {self.command}"]
        return "\n".join(lines)


def cell_too_long(job: Job) -> str:
    """Say that one cell has used up what a cell may."""
    return f"a cell ran longer than {job.cell_limit_s:.0f} s (the notebook declares {job.budget_s:.0f} s in all)"


@dataclass(frozen=True)
class Kept:
    """A run's folder.

    outcome : how it ended ("ok", "failed", …); "by hand" for cells run by a person.
    result : what it measured; None where `problem` says why there is nothing to use.
    made : when its results were written, seconds of the epoch.
    manifest : what it stood on; empty for a run by hand.
    """

    folder: Path
    slug: str
    outcome: str
    result: Run | None
    made: float
    problem: str = ""
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """True where the run ended well and has results."""
        return self.outcome == "ok" and self.result is not None

    @property
    def name(self) -> str:
        """Its folder as a person would type it."""
        return shown_path(self.folder)


def good_status(folder: Path) -> Status | None:
    """Read how the good run of a folder ended; None where there is none."""
    try:
        status = Status.model_validate_json((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return status if status.ok else None


def shown_path(path: Path) -> str:
    """Return a path from the workbench on, or whole where it lies elsewhere."""
    root = workbench_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_kept(folder: Path) -> Kept:
    """Read a run's folder; what is wrong with it becomes its `problem`, and nothing raises."""
    folder = folder.resolve()
    match = FOLDER.fullmatch(folder.name)
    slug, outcome, manifest = match["slug"] if match else folder.name, BY_HAND, {}
    from netrepro.claims import read_results

    results = folder / RESULTS
    try:
        if (folder / STATUS).exists():
            status = Status.model_validate_json((folder / STATUS).read_text(encoding="utf-8"))
            slug, outcome = status.slug, status.outcome
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if not status.ok:
                return Kept(folder, slug, outcome, None, 0.0, f"it {_ended(outcome)}: {status.exception}", manifest)
        (run,) = read_results(results).runs.values()
        return Kept(folder, slug, outcome, run, results.stat().st_mtime, manifest=manifest)
    except NetreproError as error:
        problem = error.problem
    except (OSError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    return Kept(folder, slug, outcome, None, 0.0, problem, manifest)


def _ended(outcome: str) -> str:
    return outcome if outcome in ("failed", "timed out") else f"ended as {outcome!r}"


def _folders(slug: str) -> Iterator[Path]:
    for place in (*PROFILES, "interactive"):
        for folder in sorted((runs_dir() / place).glob(f"*{slug}*")):
            match = FOLDER.fullmatch(folder.name)
            if match and match["slug"] == slug and folder.is_dir():
                yield folder


def kept_runs(slug: str) -> list[Kept]:
    """List every run of a paper in runs/<profile>/ and runs/interactive/, the newest first, those without results
    last."""
    return sorted((read_kept(folder) for folder in _folders(slug)), key=lambda kept: -kept.made)


def standard_runs(slug: str) -> list[Kept]:
    """List the runs in runs/ with standard settings that ended well, the newest first."""
    return [kept for kept in kept_runs(slug) if kept.outcome == "ok" and not kept.manifest.get("changed")]


def standard_run(slug: str, key: str) -> Kept | None:
    """Find the newest of them with results of a profile and tier, "profile/tier"; None where there is none."""
    return next((kept for kept in standard_runs(slug) if kept.result and kept.result.key == key), None)


def newest_executed(slug: str) -> Path | None:
    """Find the newest folder with an executed notebook, of a paper or a guide; None where there is none.

    Only runs with standard settings that ended well count: those on the tier that "auto" takes or, where there are
    none, on another.
    """
    fitting = [kept for kept in standard_runs(slug) if (kept.folder / EXECUTED).exists()]
    usual = [kept for kept in fitting if kept.manifest.get("tier") == kept.manifest.get("usual_tier")]
    folders = [kept.folder for kept in usual or fitting]
    return max(folders, key=lambda folder: (folder / EXECUTED).stat().st_mtime, default=None)


def own_results(slug: str) -> Results | None:
    """Collect a user's newest results of each profile and tier, with the standard settings; None without a run.

    Runs that failed do not count; cells run by hand do.
    """
    from netrepro.claims import Results

    runs: dict[str, Run] = {}
    for kept in kept_runs(slug):
        if kept.result is not None and not kept.result.changed:
            runs.setdefault(kept.result.key, kept.result)
    return Results(paper=slug, runs=dict(sorted(runs.items()))) if runs else None
