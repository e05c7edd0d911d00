"""Run one job in its own process, and end everything that this process starts.

The same function serves a local thread and a Dask worker. Whatever happens (a killed kernel, an endless cell, a request
to stop, a crash of the executing process), it returns a Status and leaves no process or socket behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from netrepro.files import remove, write_atomically
from netrepro.provenance import code_hash
from netrepro.workbench.running import prepared, run_folder
from netrepro.workbench.running.forks import Forked
from netrepro.workbench.running.ipc import KERNEL_PID_FILE
from netrepro.workbench.running.manifest import describe_machine
from netrepro.workbench.running.run_folder import Job, Outcome, Progress, Status
from netrepro.workbench.running.shut_in import ShutIn
from netrepro.workbench.running.used_time import UsedTime, started_at

POLL_S = 0.05
GRACE_S = 3.0  # between asking a process to stop and killing it
SAVE_S = 10.0  # time to save the outputs of a stopped kernel
LAST_MOMENT_S = 0.5  # so long before its time is over, a kernel is asked what it is doing
FRAMES = 12  # most stack frames of its answer that are shown
MOST_TEMPORARY_BYTES = 60  # longest path of the temporary folder; a socket's name adds some 40 bytes


def supervise(folder: Path) -> Status:
    """Execute the job described in `folder`/job.json and return its status. An error in a notebook raises nothing."""
    job = Job.model_validate_json((folder / run_folder.JOB).read_text())
    start = time.monotonic()
    sockets = _folder_for_sockets()  # outside the job's folder, whose path may be long
    stopped: Outcome | None = None
    why = "stopped on request"
    used_s = 0.0
    try:
        if (folder / run_folder.CANCEL).exists():
            return _status(job, folder, None, "interrupted", why)
        if code_hash() != job.code:
            edited = "the library was edited since the run began, or is another on this worker: run it again"
            return _status(job, folder, None, "failed", edited)
        manifest = describe_machine() | job.manifest
        write_atomically(folder / run_folder.MANIFEST, json.dumps(manifest, indent=1, default=str))
        command = [sys.executable, "-P", "-m", "netrepro.workbench.running.execute", str(folder)]
        shut_in = ShutIn(job, command) if job.shut_in_with else None
        with (folder / run_folder.RUNNER_LOG).open("a") as log:
            process = shut_in.process if shut_in else _started(job, command, sockets, log)
            if process is None:
                return _status(job, folder, None, "interrupted", why)
            limits = _Limits(job, process.pid)
            asked = False
            try:
                while process.poll() is None:
                    left_s, reason = limits.left_s()
                    if shut_in and (excess := shut_in.look_at()):
                        stopped, why = "failed", excess
                    elif not shut_in and not asked and left_s < LAST_MOMENT_S and limits.in_a_cell:
                        asked = True
                        _signal_kernel(job, run_folder.ASK_WHERE)
                    if (folder / run_folder.CANCEL).exists():
                        stopped = "interrupted"
                    elif left_s < 0:
                        stopped, why = "timed out", reason
                        if shut_in:
                            break
                        _kill_kernel(job)  # the executing process then saves the outputs so far
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(SAVE_S)
                    if stopped:
                        break
                    time.sleep(POLL_S)
            finally:
                used_s = limits.used.now_s()
                _stop(process)
                if shut_in:
                    if not stopped and (excess := shut_in.excess()):
                        stopped, why = "failed", excess
                    shut_in.bring_out()
        status = _status(job, folder, process.returncode, stopped, why)
        status.seconds, status.used_s = time.monotonic() - start, used_s
        return status
    finally:
        _kill_kernel(job)
        remove(sockets)


def _started(job: Job, command: list[str], sockets: Path, log: IO[str]) -> subprocess.Popen[bytes] | Forked | None:
    """Start a trusted job: as a fork, which imports nothing, or else by its command. None: a stop was requested."""
    environment = _environment(job, sockets)
    with suppress(OSError):
        stop = (job.folder / run_folder.CANCEL).exists
        return prepared.start(job.folder, environment, job.code, log, stop, job.start_limit_s)
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # so that Ctrl-C reaches only the runner, which then asks to stop
    )


def _folder_for_sockets() -> Path:
    """Make a folder with a short path, whatever TMPDIR is: the path of a Unix socket has at most 107 bytes."""
    is_short = len(os.fsencode(tempfile.gettempdir())) <= MOST_TEMPORARY_BYTES
    return Path(tempfile.mkdtemp(prefix="netrepro-", dir=None if is_short else "/tmp"))


def _environment(job: Job, sockets: Path) -> dict[str, str]:
    own = {"JUPYTER_RUNTIME_DIR": str(sockets), KERNEL_PID_FILE: str(job.folder / run_folder.KERNEL_PID)}
    return {**os.environ, **job.variables(), **own}


def _stop(process: subprocess.Popen[bytes] | Forked) -> None:
    for ask in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, ask)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                continue


class _Limits:
    """The time that a run may still use. The limits are for the time that the run uses; a longer limit by the clock
    ends a run that gets no processor."""

    def __init__(self, job: Job, process: int):
        self.job, self.used = job, UsedTime(process)
        self._start_s = time.monotonic()
        self._cell_began: int | None = None
        self._used_before_cell_s = 0.0

    @property
    def in_a_cell(self) -> bool:
        """True once a cell has begun. Before that, the signal that asks a kernel what it is doing would kill it."""
        return self._cell_began is not None

    def left_s(self) -> tuple[float, str]:
        """Return the seconds until the running cell or the whole notebook has used its time up, and the message for
        that case."""
        job, used_s = self.job, self.used.now_s()
        advice = "raise --patience on a slow machine"
        clock_s = job.total_limit_s * run_folder.CLOCK_PER_USED
        left = [
            (job.total_limit_s - used_s, f"it ran longer than {job.total_limit_s:.0f} s in all: {advice}"),
            (self._start_s + clock_s - time.monotonic(), f"it has not ended in {clock_s:.0f} s: {advice}"),
        ]
        with suppress(OSError):  # no cell yet
            began = (job.folder / run_folder.PROGRESS).stat().st_mtime_ns
            if began != self._cell_began:
                self._cell_began, self._used_before_cell_s = began, used_s
            left_of_cell_s = self._used_before_cell_s + job.cell_limit_s - used_s
            left.append((left_of_cell_s, f"{run_folder.cell_too_long(job)}: {advice}"))
        return min(left)


def _kernel(job: Job) -> int | None:
    """Return the kernel's process id; None where it has not begun or has ended, also where the id was given again."""
    try:
        pid, start = map(int, (job.folder / run_folder.KERNEL_PID).read_text().split())
        return pid if started_at(pid) == start else None
    except (OSError, ValueError):
        return None


def _signal_kernel(job: Job, number: signal.Signals) -> None:
    pid = _kernel(job)
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_kernel(job: Job) -> None:
    """Kill the kernel and the processes of its group."""
    pid = _kernel(job)
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _where(folder: Path) -> list[str]:
    """Return lines on what the kernel's main thread was doing when it was asked, innermost call first; empty without an
    answer."""
    dump = _tail(folder / run_folder.RUNNER_LOG, 1000)
    begins = [number for number, line in enumerate(dump) if "(most recent call first)" in line]
    frames = dump[begins[-1] + 1 :] if begins else []
    return ["when its time was over it was here:", *frames[:FRAMES]] if frames else []


def _status(job: Job, folder: Path, code: int | None, stopped: Outcome | None, why: str) -> Status:
    """Return how a job ended. Which job it was says the job alone: an untrusted one may have written its status."""
    try:
        status = Status.model_validate_json((folder / run_folder.STATUS).read_text())
    except (OSError, ValueError):
        status = Status(
            slug=job.slug,
            name=job.name,
            outcome="failed",
            seconds=0.0,
            budget_s=job.budget_s,
            exception=f"the executing process ended with code {code}",
            command=job.command,
        )
        status.log_tail = _tail(folder / run_folder.RUNNER_LOG)
        with suppress(OSError, ValueError):  # there is no progress before the first cell
            reached = Progress.model_validate_json((folder / run_folder.PROGRESS).read_text())
            status.heading, status.cell = reached.heading, reached.cell
    if stopped:
        status.outcome, status.exception = stopped, why
    status.slug, status.name, status.command, status.budget_s = job.slug, job.name, job.command, job.budget_s
    status.parameters, status.fingerprint, status.code = job.parameters, job.fingerprint, job.code
    status.folder, status.stays, status.reused = None, None, False
    if not status.ok and not status.log_tail:
        status.log_tail = _tail(folder / run_folder.LOG)
    if status.outcome == "timed out":
        status.log_tail = status.log_tail[-5:] + _where(folder)
    return status


def _tail(path: Path, lines: int = 20) -> list[str]:
    try:
        return path.read_text(errors="replace").strip().splitlines()[-lines:]
    except OSError:
        return []
