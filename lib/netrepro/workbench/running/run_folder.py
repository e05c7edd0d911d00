"""A run's folder: its name, its files, and how to read what the run left.

A run is one execution of one notebook. Job describes the task, Status the end, and files pass both on. The executing
side (this process's supervisor or a Dask worker) reads job.json, writes progress.json while the run goes on and
status.json at its end; a file named `cancel` asks it to stop. A finished run is read as Kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from netrepro.errors import NetreproError
from netrepro.files import file_sha256, remove, replace_folder, write_atomically
from netrepro.paths import runs_dir, workbench_root
from netrepro.tiers_and_profiles import PROFILES

if TYPE_CHECKING:  # imports pandas, which a process that executes a notebook does not need
    from netrepro.claims import Results, Run

JOB, PROGRESS, STATUS, MANIFEST = "job.json", "progress.json", "status.json", "manifest.json"
EXECUTED, LOG, CANCEL, KERNEL_PID = "executed.ipynb", "log.txt", "cancel", "kernel.pid"
RESULTS, RUNNER_LOG = "results.json", "runner.log"
OF_THE_RUNNING = (JOB, PROGRESS, KERNEL_PID, CANCEL, RUNNER_LOG)  # removed when the run has ended
RUN_DIR_VARIABLE = "NETREPRO_RUN_DIR"
ASK_WHERE = signal.SIGUSR1  # a kernel that gets it writes to runner.log what each of its threads is doing

MOST_NAMED = 3  # of files that are not committed
CLOCK_PER_USED = 10.0  # limits are for the time that a run uses; by the clock it may take this many times its limit

# What an executing process says that it used. A sandboxed one may say anything, so the numbers have bounds.
Used = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Outcome = Literal["ok", "failed", "timed out", "kernel died", "interrupted"]
BY_HAND = "by hand"  # a person ran the cells: nothing recorded how the run ended
REFUSED = "refused"  # the folder is not read
FOLDER = re.compile(r"(?:\d\d_)?(?P<slug>[a-z0-9_]+)(--.*)?")


PARTIAL, ASIDE, LIVING = ".partial-", ".aside-", ".living-"  # prefixes of a living runner's temporary files and folders
# The whole names of such a folder and of the runner's lock; the word is of `unique_word`, and the same in both.
UNFINISHED = re.compile(rf"(?P<kind>{re.escape(PARTIAL)}|{re.escape(ASIDE)})(?P<name>.+)-(?P<word>[0-9a-f]{{12}})")
LOCK = re.compile(rf"{re.escape(LIVING)}(?P<word>[0-9a-f]{{12}})")
FAILED = "--failed"


def failed_beside(folder: Path) -> Path:
    """Return the folder for a run that did not end well, beside the folder of the last good run, which stays."""
    return folder.with_name(folder.name + FAILED)


def check_replaceable(folder: Path) -> None:
    """Raise NetreproError where a run's folder would replace something that is not a run's or an empty folder."""
    if not folder.is_symlink() and not folder.exists():
        return
    is_run = (folder / STATUS).is_file() or (folder / JOB).is_file()  # the latter where a full disk took the status
    if folder.is_dir() and not folder.is_symlink() and (is_run or not any(folder.iterdir())):
        return
    raise NetreproError(
        f"{folder} is no folder of a run, and a run would replace it", "move it away, or choose another place: --into"
    )


def strange_entries(folder: Path) -> list[str]:
    """List what a run's folder holds beside files and readable folders, such as links and pipes, as paths in it.

    A run makes none of them. In a folder that somebody handed over, a link may lead to any file of the reader.
    """
    strange: list[Path] = []
    places = [folder] if folder.is_dir() else []
    while places:  # without recursion: the folder may be deep
        place = places.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        places.append(place / entry.name)
                    elif not entry.is_file(follow_symlinks=False):
                        strange.append(place / entry.name)
        except OSError:
            strange.append(place)
    return sorted(str(path.relative_to(folder)) for path in strange)


def folder_suffix(overrides: Mapping[str, Any]) -> str:
    """Return the ending of a folder's name that tells runs with different parameters apart; "" without parameters."""
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
    folder: Path  # for all files that the run makes
    root: Path  # the workbench
    parameters: dict[str, Any]
    inputs: list[str] = []  # parameters whose values are paths of a file or folder on the asking machine
    budget_s: float
    cell_limit_s: float
    total_limit_s: float
    memory_mb: int
    start_limit_s: float = 180
    command: str  # with which a person repeats this run
    threads: int = 1
    manifest: dict[str, Any]
    fingerprint: str
    code: str  # hash of the library that should run it
    shut_in_with: Path | None = None  # for untrusted code, run in a sandbox: the folder that it sees as notebooks/

    def variables(self) -> dict[str, str]:
        """Return the environment variables that describe the job to the executing process and its kernel."""
        threads = str(self.threads)
        return {
            "NETREPRO_ROOT": str(self.root),
            RUN_DIR_VARIABLE: str(self.folder),
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # suppresses a debugger's warning in every log
        }


class Progress(BaseModel):
    """The place that a running notebook has reached."""

    heading: str = "starting the kernel"
    cell: int = 0
    cells: int = 0


class Status(BaseModel):
    """The end of a run, as exceptions tell it; the saved notebook's own metadata are not used."""

    slug: str
    name: str
    outcome: Outcome
    seconds: float
    budget_s: float
    used_s: Used = 0.0  # the time that the budget limits, see UsedTime
    cpu_s: Used = 0.0  # processor time of the kernel and of the processes that it started and waited for
    peak_mb: Used = 0.0  # memory of the largest of these processes
    fingerprint: str = ""
    code: str = ""  # hash of the library that ran it
    parameters: dict[str, Any] = {}
    folder: Path | None = None
    heading: str = ""  # the last Markdown heading above the failing cell
    cell: int | None = None
    exception: str = ""
    log_tail: list[str] = []
    command: str = ""
    reused: bool = False  # --resume took it from an earlier run
    stays: Path | None = None  # the last good run, which this failed run did not replace

    @property
    def ok(self) -> bool:
        """True where the run ended well."""
        return self.outcome == "ok"

    @property
    def over_budget(self) -> bool:
        """True where the run used more time than its budget; both in seconds."""
        return self.used_s > self.budget_s

    def explanation(self) -> str:
        """Return the failure report: where and how the run failed, the last log lines, and the command that repeats it;
        "" for a run that ended well."""
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
    """Return the message that a cell has exceeded its time limit."""
    return f"a cell ran longer than {job.cell_limit_s:.0f} s (the notebook declares {job.budget_s:.0f} s in all)"


@dataclass(frozen=True)
class Kept:
    """A run as its folder keeps it.

    outcome : how it ended ("ok", "failed", …); "by hand" for cells run by a person; "refused" for a folder with links.
    result : what it measured; None where it has no usable result, and `problem` says why.
    made : time when its results were written, in seconds since the epoch; 0 without a result.
    manifest : code, machine and settings of the run; empty for a run by hand.
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
        """The path of its folder as a person would type it."""
        return shown_path(self.folder)


def good_status(folder: Path) -> Status | None:
    """Return the Status of the run in a folder; None where there is no run or it did not end well."""
    try:
        status = Status.model_validate_json((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return status if status.ok else None


def shown_path(path: Path) -> str:
    """Return a path relative to the workbench, or the whole path where it lies elsewhere."""
    root = workbench_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_kept(folder: Path) -> Kept:
    """Read a run's folder; an error in it becomes the run's `problem` and raises nothing."""
    folder = folder.resolve()
    match = FOLDER.fullmatch(folder.name)
    slug, outcome, manifest = match["slug"] if match else folder.name, BY_HAND, {}
    if strange := strange_entries(folder):
        problem = f"it holds {strange[0]!r}, which is neither a file nor a readable folder; a link may lead anywhere"
        return Kept(folder, slug, REFUSED, None, 0.0, problem)
    from netrepro.claims import read_results

    results, status = folder / RESULTS, None
    try:
        if (folder / STATUS).exists():
            status = Status.model_validate_json((folder / STATUS).read_text(encoding="utf-8"))
            slug, outcome = status.slug, status.outcome
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if not status.ok:
                return Kept(folder, slug, outcome, None, 0.0, f"it {_ended(outcome)}: {status.exception}", manifest)
        (run,) = read_results(results).runs.values()
        run = run.model_copy(update={"cpu_s": math.ceil(status.cpu_s)}) if status is not None else run
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
    """List every run of a paper in runs/<profile>/ and runs/interactive/: the newest first, runs without results
    last."""
    return sorted((read_kept(folder) for folder in _folders(slug)), key=lambda kept: -kept.made)


def standard_runs(slug: str) -> list[Kept]:
    """List the runs in runs/ with standard settings that ended well, the newest first."""
    return [kept for kept in kept_runs(slug) if kept.outcome == "ok" and not kept.manifest.get("changed")]


def standard_run(slug: str, key: str) -> Kept | None:
    """Find the newest of `standard_runs` with results for a key, "profile/tier"; None where there is none."""
    return next((kept for kept in standard_runs(slug) if kept.result and kept.result.key == key), None)


def newest_executed(slug: str) -> Path | None:
    """Find the newest folder with an executed notebook of a paper or a guide; None where there is none.

    Only runs with standard settings that ended well count. Runs on the tier that "auto" takes are preferred to runs on
    other tiers.
    """
    fitting = [kept for kept in standard_runs(slug) if (kept.folder / EXECUTED).exists()]
    usual = [kept for kept in fitting if kept.manifest.get("tier") == kept.manifest.get("usual_tier")]
    folders = [kept.folder for kept in usual or fitting]
    return max(folders, key=lambda folder: (folder / EXECUTED).stat().st_mtime, default=None)


def own_results(slug: str) -> Results | None:
    """Collect the user's newest results of a paper with standard settings, for each profile and tier; None without any.

    Runs that failed do not count; cells run by hand do.
    """
    from netrepro.claims import Results

    runs: dict[str, Run] = {}
    for kept in kept_runs(slug):
        if kept.result is not None and not kept.result.changed:
            runs.setdefault(kept.result.key, kept.result)
    return Results(paper=slug, runs=dict(sorted(runs.items()))) if runs else None


def keep(job: Job, final: Path, status: Status) -> None:
    """Complete the manifest of a job that has ended, remove files that only the running job needed, and give the folder
    its final name. A good run replaces the last good run; a failed one gets a folder beside it."""
    folder, failed = job.folder, failed_beside(final)
    status.folder = final if status.ok else failed
    status.stays = final if not status.ok and good_status(final) else None
    made = [path for path in sorted(folder.iterdir()) if path.suffix in (".png", ".svg", ".csv")]
    made += [path for path in [folder / RESULTS] if path.exists()]
    try:
        before = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        before = job.manifest
    after = {
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "outcome": status.outcome,
        "seconds": round(status.seconds, 2),
        "used_s": round(status.used_s, 2),
        "cpu_s": round(status.cpu_s, 2),
        "peak_mb": round(status.peak_mb),
        "sha256": {path.name: file_sha256(path) for path in made},
    }
    write_atomically(folder / MANIFEST, json.dumps(before | after, indent=1, default=str))
    write_atomically(folder / STATUS, status.model_dump_json(indent=1))
    for leftover in OF_THE_RUNNING:
        (folder / leftover).unlink(missing_ok=True)
    replace_folder(folder, status.folder, _aside(folder, status.folder))
    if status.ok:
        remove(failed)


def keep_what_is_left(job: Job, final: Path) -> Path | None:
    """Keep what is left of a run whose last files cannot be written, such as on a full disk; None where it is lost."""
    folder, failed = job.folder, failed_beside(final)
    try:
        if folder.is_dir():
            replace_folder(folder, failed, _aside(folder, failed))
    except OSError:
        return None
    return failed if failed.is_dir() else None


def _aside(folder: Path, final: Path) -> Path:
    word = folder.name.rpartition("-")[2]
    return final.with_name(f"{ASIDE}{final.name}-{word}")


def expected_s(job: Job, final: Path, key: str) -> float:
    """Return the processor seconds that the last good run took here, or else the published run of that profile and
    tier, or else the budget."""
    from netrepro.claims.results import published_results

    last = good_status(final)
    if last is not None and last.cpu_s:
        return last.cpu_s
    try:
        published = published_results(job.slug)
    except NetreproError:  # a malformed file is told where it is read for itself
        published = None
    run = published.runs.get(key) if published else None
    return run.cpu_s if run and run.cpu_s else job.budget_s


def note_of_edits(jobs: Sequence[Job]) -> str:
    """Say that `publish` will refuse the standard runs among these jobs, as files differ from the commit; "" where it
    will not, and where git says nothing."""
    asked = [job.manifest for job in jobs if job.kind == "paper" and not job.manifest["changed"]]
    edited = sorted({name for manifest in asked for name in manifest["edited"] or ()})
    if not edited:
        return ""
    more = f" and {len(edited) - MOST_NAMED} more" if len(edited) > MOST_NAMED else ""
    files = ", ".join(edited[:MOST_NAMED]) + more
    return f"not yet committed: {files}; netrepro publish refuses what runs now, so commit before a run to publish"
