"""Execute one job in this process: papermill runs the cells, and this module finds out how they ended.

The supervisor starts it as `python -m netrepro.workbench.running.execute <job folder>`.
"""

from __future__ import annotations

import errno
import math
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import netrepro.workbench.running.lean_imports  # noqa: F401

# isort: split

import nbformat
import papermill
from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError

from netrepro.files import write_atomically
from netrepro.processes import die_with_parent
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.ipc import IPCKernelManager
from netrepro.workbench.running.run_folder import Job, Outcome, Progress, Status

# Code that makes a kernel answer `run_folder.ASK_WHERE`; it defines no name in the notebook.
ANSWER_WHERE = f"__import__('faulthandler').register({int(run_folder.ASK_WHERE)}, file=__import__('sys').__stderr__)"
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Position:
    """The running cell and the last heading above it, written to progress.json at each code cell."""

    def __init__(self, folder: Path, cells: int = 0):
        self.folder, self.cells = folder, cells
        self.cell: int | None = None
        self.heading = ""

    def __call__(self, *, cell: Any, cell_index: int, **_: Any) -> None:
        if cell.cell_type == "markdown":
            headings = [line for line in cell.source.splitlines() if line.startswith("#")]
            self.heading = headings[-1].lstrip("# ").strip() if headings else self.heading
        elif cell.cell_type == "code":
            self.cell = cell_index
            progress = Progress(heading=self.heading, cell=cell_index, cells=self.cells)
            write_atomically(self.folder / run_folder.PROGRESS, progress.model_dump_json())


def execute(job: Job) -> Status:
    """Run the job's notebook, write its executed copy and log, and return how it ended.

    Exceptions of papermill, nbclient, the kernel's start and the file system become an outcome; only KeyboardInterrupt
    escapes.
    """
    start = time.monotonic()
    position = Position(job.folder)
    outcome, exception = _run_cells(job, position)
    if outcome == "ok" and job.kind == "paper" and not (job.folder / run_folder.RESULTS).exists():
        outcome, exception = "failed", "the notebook ended without report.finish(...): it has no results"
    if outcome != "ok":
        _mark_executed_copy(job.folder / run_folder.EXECUTED, position.cell)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Status(
        slug=job.slug,
        name=job.name,
        outcome=outcome,
        seconds=time.monotonic() - start,
        budget_s=job.budget_s,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1024,
        fingerprint=job.fingerprint,
        code=job.code,
        parameters=job.parameters,
        heading=position.heading,
        cell=position.cell,
        exception=exception,
        command=job.command,
    )


def _run_cells(job: Job, position: Position) -> tuple[Outcome, str]:
    try:
        with (job.folder / run_folder.LOG).open("w", encoding="utf-8") as log:
            position.cells = len(nbformat.read(job.notebook, as_version=4).cells) + 1  # papermill adds one
            papermill.execute_notebook(
                job.notebook,
                job.folder / run_folder.EXECUTED,
                job.parameters,
                progress_bar=False,
                stdout_file=log,
                stderr_file=log,
                start_timeout=job.start_limit_s,
                # Seconds of the clock, a looser limit: the supervisor limits the time that a run has used.
                execution_timeout=math.ceil(job.cell_limit_s * run_folder.CLOCK_PER_USED),
                kernel_manager_class=IPCKernelManager,
                extra_arguments=[f"--IPKernelApp.exec_lines={ANSWER_WHERE}"],
                on_cell_start=position,
                resources={"metadata": {"path": str(job.notebook.parent)}},
            )
    except PapermillExecutionError as error:
        _log(job, "\n".join(error.traceback))
        return "failed", f"{error.ename}: {error.evalue}"
    except CellTimeoutError:
        return "timed out", f"{run_folder.cell_too_long(job)}: raise --patience on a slow machine"
    except DeadKernelError:
        return "kernel died", (
            "the kernel was killed; running out of memory is the usual cause "
            f"(the notebook declares {job.memory_mb} MB)"
        )
    except NoSuchKernel as error:
        return (
            "failed",
            f"no Jupyter kernel called {error.name!r} here: choose another in the notebook's metadata",
        )
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return "failed", f"no space left on the disk that holds {job.folder}"
        return "failed", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    return "ok", ""


def _log(job: Job, text: str) -> None:
    with (job.folder / run_folder.LOG).open("a", encoding="utf-8") as log:
        log.write(ANSI.sub("", text) + "\n")


def _mark_executed_copy(path: Path, failed_cell: int | None) -> None:
    """Correct papermill's copy, which marks every cell as completed even after a killed kernel or a time-out."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError):
        path.unlink(missing_ok=True)  # half-written
        return
    notebook.metadata.setdefault("papermill", {})["exception"] = True
    code = [cell for cell in notebook.cells if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])]
    for index, cell in enumerate(code):
        if failed_cell is None or index > failed_cell:
            cell.metadata.setdefault("papermill", {})["status"] = "pending"
        elif index == failed_cell:
            cell.metadata.setdefault("papermill", {}).update(status="failed", exception=True)
    write_atomically(path, nbformat.writes(notebook))


def main(folder: Path) -> int:
    # This process ends with its supervisor, however that one ends; the kernel watches this process by itself.
    die_with_parent()
    job = Job.model_validate_json((folder / run_folder.JOB).read_text())
    status = execute(job)
    write_atomically(folder / run_folder.STATUS, status.model_dump_json(indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
