"""The build of the virtual kernel in a process of its own, while notebooks run that do not need it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from netrepro.emulation.virtual.kernel import kernel_path
from netrepro.errors import NetreproError
from netrepro.processes import die_with_parent

COMMAND = (sys.executable, "-m", "netrepro.workbench.cli.commands", "kernel", "build", "--if-possible")
GRACE_S = 120.0  # for a build that is stopped to remove its folder, of tens of thousands of files, on a busy machine


class KernelBuild:
    """A build of the virtual kernel that has begun.

    `problem` says in one line why there is no kernel, once the build has ended; "" where there is one.
    """

    def __init__(self, tell: Callable[[str], None]):
        """Start the build. tell : called with each line that it prints."""
        self._tell, self.problem = tell, ""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        self._place = 0
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that Ctrl-C reaches only the caller, which then ends it
            preexec_fn=die_with_parent,
        )

    def has_ended(self) -> bool:
        """Tell what the build has printed since the last call; return whether it has ended."""
        ended = self._process.poll() is not None
        # Not read(), since the build writes at the same place in the file.
        new = os.pread(self._said.fileno(), os.fstat(self._said.fileno()).st_size - self._place, self._place)
        if not ended:
            new = new[: new.rfind(b"\n") + 1]
        self._place += len(new)
        for line in new.decode(errors="replace").splitlines():
            self._tell(line)
            if line.startswith("no virtual kernel"):
                self.problem = line
        if ended and not self.problem and self._process.returncode:
            self.problem = f"no virtual kernel: its build ended with code {self._process.returncode}"
            self._tell(self.problem)
        return ended

    def wait(self) -> None:
        """Wait until the build has ended."""
        while not self.has_ended():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)

    def end(self) -> None:
        """Stop the build, where it goes on. It removes what it has not finished."""
        for ask in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, ask)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_S)
        self._said.close()


@contextmanager
def building(wanted: bool, tell: Callable[[str], None]) -> Iterator[KernelBuild | None]:
    """Build the virtual kernel beside the block, if that is wanted and there is none yet; else yield None.

    The end of the block ends a build that still goes on. tell : called with each line that it prints.
    """
    if not wanted or _is_built():
        yield None
        return
    build = KernelBuild(tell)
    try:
        yield build
    finally:
        build.end()


def _is_built() -> bool:
    try:
        kernel_path()
    except NetreproError:
        return False
    return True
