"""One execution of one notebook: what is asked (Job), what came of it (Status), and the files between them.

A job lives in a folder of its own. Whoever runs it (this process's supervisor, a Dask worker) reads job.json
and leaves progress.json while it goes on and status.json at the end; a file named `cancel` asks it to stop.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

JOB, PROGRESS, STATUS, MANIFEST = "job.json", "progress.json", "status.json", "manifest.json"
EXECUTED, LOG, CANCEL, KERNEL_PID = "executed.ipynb", "log.txt", "cancel", "kernel.pid"
RESULTS, RUNNER_LOG = "results.json", "runner.log"
RUN_DIR_VARIABLE = "NETREPRO_RUN_DIR"
ASK_WHERE = signal.SIGUSR1  # to a kernel, which then writes to runner.log what each of its threads is doing

Outcome = Literal["ok", "failed", "timed out", "kernel died", "interrupted"]


class Job(BaseModel):
    """What to execute, where, and how long it may take."""

    slug: str
    name: str  # NN_slug
    kind: str
    notebook: Path
    folder: Path  # where everything it makes goes
    root: Path  # the workbench
    parameters: dict[str, Any]
    budget_s: float
    cell_limit_s: float
    total_limit_s: float
    memory_mb: int
    start_limit_s: float = 180
    command: str  # what a person types to run just this again
    threads: int = 1
    manifest: dict[str, Any]
    fingerprint: str


class Progress(BaseModel):
    """Where a running notebook is."""

    heading: str = "starting the kernel"
    cell: int = 0
    cells: int = 0


class Status(BaseModel):
    """How it ended; judged from exceptions, never from what the saved notebook says of itself."""

    slug: str
    name: str
    outcome: Outcome
    seconds: float
    budget_s: float
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

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def over_budget(self) -> bool:
        return self.seconds > self.budget_s

    def explanation(self) -> str:
        """The failure report: where, what, the last log lines, and the command that repeats it."""
        if self.ok:
            return ""
        where = f"in {self.heading!r}, cell {self.cell}" if self.cell is not None else "before its first cell"
        lines = [f"{self.name}: {self.outcome} {where}", f"  {self.exception}"]
        lines += [f"  | {line}" for line in self.log_tail[-20:]]
        lines += [f"  again: {self.command}"]
        return "\n".join(lines)


def write_atomically(path: Path, text: str) -> None:
    """Write under a temporary name, then rename: a reader sees the old file or the new one, never half."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
