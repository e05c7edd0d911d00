"""A job in a sandbox: the files that go in, the limits, the files that are brought out."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from netrepro.files import write_atomically
from netrepro.workbench import run_folder
from netrepro.workbench.run_folder import Job
from netrepro.workbench.sandbox import Sandbox, font_lists, library_paths
from netrepro.workbench.used_time import tree_of

INSIDE = "inside"  # folder in the job's folder that the sandbox shows as the job's folder
HANDED_IN = "handed_in.ipynb"
LOOK_EVERY_S = 0.5
# Limit: a multiple of the declared memory, and at least so much, as the virtual kernel has files in memory.
MEMORY_SHARE, LEAST_MEMORY_MB = 3, 3000
MOST_PROCESSES = 600
MOST_ON_DISK_MB = 200
MOST_BROUGHT_OUT_MB = 50


class ShutIn:
    """A job in its sandbox.

    command, environment : the command that starts it, and its environment variables.
    """

    def __init__(self, job: Job, command: Sequence[str]):
        assert job.shut_in_with is not None
        self.folder = job.folder
        self.inside = job.folder / INSIDE
        self.inside.mkdir()
        shutil.copy(job.notebook, self.inside / HANDED_IN)
        its_own = job.model_copy(update={"notebook": job.folder / HANDED_IN, "shut_in_with": None})
        write_atomically(self.inside / run_folder.JOB, its_own.model_dump_json())
        self.memory_mb = max(MEMORY_SHARE * job.memory_mb, LEAST_MEMORY_MB)
        around = Sandbox(
            read_only=library_paths(job.root) | {str(job.root / "notebooks"): str(job.shut_in_with)},
            writable={str(job.folder): str(self.inside)},
            copied=font_lists(),
            memory_mb=self.memory_mb,
            processes=MOST_PROCESSES,
            processor_s=int(job.total_limit_s) + 1,
        )
        self.command = around.command(command)
        self.environment = around.environment(job.variables() | {"JUPYTER_RUNTIME_DIR": "/tmp"})
        self._looked_s = 0.0

    def look_at(self, process: int) -> str:
        """Say which limit the job exceeds, "" where none; copy its progress to the job's folder.

        process : id of the process that was started; all its descendants count.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_EVERY_S:
            return ""
        self._looked_s = now_s
        progress = _plain(self.inside / run_folder.PROGRESS, 10_000)
        with suppress(OSError):
            if progress and progress != (_plain(self.folder / run_folder.PROGRESS, 10_000) or b""):
                write_atomically(self.folder / run_folder.PROGRESS, progress.decode(errors="replace"))
        tree = tree_of(process)
        if len(tree) > MOST_PROCESSES:
            return f"it started more than {MOST_PROCESSES} processes"
        if sum(map(_memory_mb, tree)) > self.memory_mb:
            return f"it used more than {self.memory_mb} MB of memory"
        if sum(size for _, size in _files(self.folder)) > MOST_ON_DISK_MB << 20:
            return f"it wrote more than {MOST_ON_DISK_MB} MB"
        return ""

    def bring_out(self) -> None:
        """Copy the files that the job left into the job's folder, and remove `inside`. Only plain files are copied, so
        that no reader blocks on a pipe, and at most MOST_BROUGHT_OUT_MB."""
        left = MOST_BROUGHT_OUT_MB << 20
        for path, size in sorted(_files(self.inside), key=lambda each: each[1]):
            keeps = (run_folder.JOB, HANDED_IN, run_folder.KERNEL_PID, run_folder.CANCEL, run_folder.MANIFEST)
            if path.parent != self.inside or path.name in keeps or path.name.startswith("."):
                continue
            left -= size
            content = _plain(path, size) if left > 0 else None
            if content is not None:
                (self.folder / path.name).write_bytes(content)
        shutil.rmtree(self.inside, ignore_errors=True)


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the plain files below a folder with their sizes."""
    for where, _, names in os.walk(folder):
        for path in (Path(where, name) for name in names):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status.st_size


def _plain(path: Path, most: int) -> bytes | None:
    """Read at most `most` bytes of a plain file; None for a link, a pipe or a missing file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _memory_mb(process: int) -> float:
    """Return the proportional set size of a process in MB; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    except (OSError, ValueError):
        return 0.0
