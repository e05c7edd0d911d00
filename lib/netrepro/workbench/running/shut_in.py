"""A job in a sandbox: the files that go in, the limits, the files that are brought out."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from netrepro.files import write_atomically
from netrepro.workbench.classroom.answers import ANSWERS
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.memory_group import MemoryGroup
from netrepro.workbench.running.run_folder import Job
from netrepro.workbench.running.sandbox import Sandbox, Started, font_lists, library_paths
from netrepro.workbench.running.used_time import tree_of

HANDED_IN, JOB_INSIDE = "handed_in.ipynb", "job_inside.json"
# The files that are brought out, with the most bytes of each. Any other file may be meant to deceive a reader.
BROUGHT_OUT = {
    run_folder.PROGRESS: 10_000,
    run_folder.STATUS: 1_000_000,
    run_folder.LOG: 10_000_000,
    ANSWERS: 20_000_000,
    run_folder.EXECUTED: 50_000_000,
}
MOST_LOG = 1_000_000  # bytes of what the executing process itself prints
LOOK_EVERY_S = 0.5
# Limit: a multiple of the declared memory, and at least so much, as the virtual kernel has files in memory.
MEMORY_SHARE, LEAST_MEMORY_MB = 3, 3000
MOST_PROCESSES = 600
MOST_ON_DISK_MB = 200
MOST_FILES = 10_000


class ShutIn:
    """A job in its sandbox, started when this is made.

    process : the process that was started.
    """

    def __init__(self, job: Job, command: Sequence[str]):
        assert job.shut_in_with is not None
        self.folder = job.folder
        its_own = job.model_copy(update={"notebook": job.folder / HANDED_IN, "shut_in_with": None})
        write_atomically(self.folder / JOB_INSIDE, its_own.model_dump_json())
        into = {HANDED_IN: job.notebook, run_folder.JOB: self.folder / JOB_INSIDE}
        self.memory_mb = max(MEMORY_SHARE * job.memory_mb, LEAST_MEMORY_MB)
        self._group = MemoryGroup(self.memory_mb)
        around = Sandbox(
            folder=str(job.folder),
            read_only=library_paths(job.root) | {str(job.root / "notebooks"): str(job.shut_in_with)},
            copied=font_lists() | {str(job.folder / name): str(path) for name, path in into.items()},
            memory_mb=self.memory_mb,
            folder_mb=MOST_ON_DISK_MB,
            folder_files=MOST_FILES,
            processes=MOST_PROCESSES,
            processor_s=int(job.total_limit_s) + 1,
            group=str(self._group.folder or ""),
        )
        self._started = around.start(command, job.variables() | {"JUPYTER_RUNTIME_DIR": "/tmp"})
        self.process: subprocess.Popen[bytes] = self._started.process
        assert self.process.stdout is not None
        (self.folder / run_folder.RUNNER_LOG).touch()
        keep = (self.process.stdout, self.folder / run_folder.RUNNER_LOG)
        self._log = threading.Thread(target=_keep_log, args=keep, daemon=True)
        self._log.start()
        (self.folder / JOB_INSIDE).unlink()
        self._looked_s, self._progress = 0.0, b""

    def look_at(self) -> str:
        """Say which limit the job exceeds, "" where none; copy its progress to the job's folder. It looks at most once
        in LOOK_EVERY_S."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_EVERY_S:
            return ""
        self._looked_s = now_s
        progress = self._started.read(run_folder.PROGRESS, BROUGHT_OUT[run_folder.PROGRESS])
        if progress and progress != self._progress:  # the file's time tells when a cell began
            self._progress = progress
            with suppress(OSError):
                write_atomically(self.folder / run_folder.PROGRESS, progress)
        tree = tree_of(self.process.pid)
        if len(tree) > MOST_PROCESSES:
            return f"it started more than {MOST_PROCESSES} processes"
        if _memory_mb(tree, self._started) > self.memory_mb:
            return f"it used more than {self.memory_mb} MB of memory"
        return self.excess()

    def excess(self) -> str:
        """Say which limit the job has come up against, also where it has ended; "" where none."""
        if self._group.was_full():
            return f"it used more than {self.memory_mb} MB of memory"
        if self._started.full():
            return f"it wrote more than {MOST_ON_DISK_MB} MB or {MOST_FILES:,} files"
        return ""

    def bring_out(self) -> None:
        """Copy the files of BROUGHT_OUT from the ended job into the job's folder, and let go of all others."""
        for name in BROUGHT_OUT:
            self._bring_out(name)
        self._started.close()
        self._group.remove()
        self._log.join()  # all who could write have ended

    def _bring_out(self, name: str) -> None:
        most = BROUGHT_OUT[name]
        content = self._started.read(name, most + 1)
        if content is not None and len(content) <= most:
            with suppress(OSError):
                write_atomically(self.folder / name, content)


def _keep_log(stream: IO[bytes], path: Path) -> None:
    """Write what a stream says to a file, the first MOST_LOG bytes of it, until nobody can write to the stream."""
    left = MOST_LOG
    with stream, path.open("ab") as log:
        while chunk := os.read(stream.fileno(), 1 << 16):
            log.write(chunk[:left])
            log.flush()
            left = max(left - len(chunk), 0)


def _memory_mb(tree: set[int], started: Started) -> float:
    """Return the memory in MB of some processes, of the files that they have in memory, and of these alone."""
    sums = {"Pss_Anon": 0.0, "Pss_File": 0.0, "Pss_Shmem": 0.0}
    for process in tree:
        with suppress(OSError, ValueError):  # it has ended
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                name, _, size = line.partition(":")
                if name in sums:
                    sums[name] += int(size.split()[0]) / 1024
    # A file in memory that a process has mapped is in both of the latter.
    return sums["Pss_Anon"] + sums["Pss_File"] + max(sums["Pss_Shmem"], started.temporary_mb())
