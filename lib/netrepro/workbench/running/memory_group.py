"""A control group for a job's processes, where this machine lets us make one: a limit of all their memory together.

The kernel counts there what no look at the processes shows: buffers of sockets and pipes, files in memory, page tables.
Version 1 and version 2 of control groups (Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from netrepro.files import unique_word

PREFIX = "netrepro-"
END_S, LOOK_S = 2.0, 0.02  # an ended process leaves its group a moment later


class MemoryGroup:
    """A control group with a limit of memory.

    folder : its folder, whose cgroup.procs takes a process; None where no group can be made.
    """

    def __init__(self, limit_mb: int):
        self.folder = _made(limit_mb)

    def was_full(self) -> bool:
        """Tell whether the kernel has ended a process of the group, since the group had no memory left."""
        if self.folder is None:
            return False
        said = "".join(_read(self.folder / name) for name in ("memory.events", "memory.oom_control"))
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in said.splitlines())

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        end_s = time.monotonic() + END_S
        while self.folder is not None and time.monotonic() < end_s:
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(LOOK_S)
                continue
            return


def _made(limit_mb: int) -> Path | None:
    """Make a group with the limit; None where none can be made."""
    limit = str(limit_mb << 20)
    for parent, limits in _places():
        _tidy(parent)
        folder = parent / f"{PREFIX}{os.getpid()}-{unique_word()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            for name in limits:
                (folder / name).write_text(limit)
            with suppress(OSError):  # there is no such file without swap
                (folder / "memory.swap.max").write_text("0")
            # Whether a process may move there depends on the groups above: one tries.
            trial = subprocess.run(["/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs"', folder], stderr=subprocess.DEVNULL)
            if trial.returncode == 0:
                return folder
        except OSError:
            pass
        with suppress(OSError):
            folder.rmdir()
    return None


def _tidy(parent: Path) -> None:
    """Remove the groups of runners that were killed."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
            with suppress(OSError):
                folder.rmdir()


def _places() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield folders in which a group may be made, the nearest to our own first, and the files with its limit."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in mounts:
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        for number, controllers, path in own:
            if kind == "cgroup" and "memory" in options and "memory" in controllers.split(","):
                limits: tuple[str, ...] = ("memory.limit_in_bytes",)
            elif kind == "cgroup2" and number == "0":
                limits = ("memory.max",)
            else:
                continue
            root = Path(mount[4])
            nearest = root / Path(path).relative_to(mount[3]) if Path(path).is_relative_to(mount[3]) else root
            for folder in (nearest, *nearest.parents):
                if not folder.is_relative_to(root):
                    break
                if kind == "cgroup":
                    yield folder, limits
                    break  # in version 1 a group with processes has groups, too
                if "memory" in _read(folder / "cgroup.subtree_control").split():  # what it gives its groups
                    yield folder, limits


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
