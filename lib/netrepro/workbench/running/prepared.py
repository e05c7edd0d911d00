"""A process that has imported what every run imports: a run is a fork of it, and so is the run's kernel.

The library and what it stands on take three seconds of a processor to import, as much as a quick run of a small paper.
A runner starts this process once, as `python -m netrepro.workbench.running.prepared CONTROL`. It has one thread and
executes nothing itself. It ends with its last run, once the runner wants no more or has ended.
"""

from __future__ import annotations

import atexit
import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO

from netrepro.workbench.running.forks import NUMBER, Forked, ForkedKernel, ask, read_request, tell_runner
from netrepro.workbench.running.ipc import KERNEL_PID_FILE, IPCKernelManager
from netrepro.workbench.running.run_folder import RUN_DIR_VARIABLE

LOOK_EVERY_S = 0.05
IMPORTED = (
    "netrepro.workbench.running.execute",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "netrepro.networks",
    "netrepro.study",
    "netrepro.workbench.notebook.guide",
)
# Nothing reads these while it is imported: each fork sets its own.
OF_ONE_RUN = {
    "NETREPRO_ROOT",
    RUN_DIR_VARIABLE,
    KERNEL_PID_FILE,
    "JUPYTER_RUNTIME_DIR",
    "PYTEST_CURRENT_TEST",
}
# ipykernel sets it, unless somebody has, before a notebook imports matplotlib, which reads it then.
DRAWS_INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}


@dataclass
class _Prepared:
    """The caller's end of the newest prepared process. key : the code and the environment that it has read."""

    key: object = None
    control: socket.socket | None = None
    process: subprocess.Popen[bytes] | None = None

    def replace(self, key: object, environment: Mapping[str, str]) -> None:
        """Start another. The one before ends with its last run."""
        self.end()
        if self.process is not None and self.process.poll() is None:
            _older.append(self.process)
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                env=DRAWS_INLINE | dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.key, self.control = key, ours

    def end(self) -> None:
        """Want no more forks."""
        if self.control is not None:
            self.control.close()
        self.key = self.control = None


_newest, _lock = _Prepared(), threading.Lock()
atexit.register(_newest.end)
_older: list[subprocess.Popen[bytes]] = []


def start(
    folder: Path, environment: Mapping[str, str], code: str, log: IO[str], stop: Callable[[], bool], limit_s: float
) -> Forked | None:
    """Execute the job in `folder` in a fork of the prepared process, which is started where there is none yet.

    environment : of the run. code : hash of the library that the run needs. stop : asked while the fork is awaited,
    for `limit_s` seconds at most. Returns None where `stop` said so. Raises OSError where there is no such process.
    """
    if not hasattr(os, "pidfd_open"):
        raise OSError("this system has no pidfd_open")
    shared = {name: value for name, value in environment.items() if name not in OF_ONE_RUN}
    asking, asked = socket.socketpair()
    told, telling = socket.socketpair()
    with asking:
        with asked, telling, _lock:
            _older[:] = [process for process in _older if process.poll() is None]
            if _newest.key != (key := (code, shared)):
                _newest.replace(key, shared)
            assert _newest.control is not None
            try:
                socket.send_fds(_newest.control, [b"+"], [log.fileno(), asked.fileno(), telling.fileno()])
            except OSError:
                _newest.end()  # it was killed: the next run starts another
                told.close()
                raise
        told.settimeout(LOOK_EVERY_S)
        until_s = time.monotonic() + limit_s
        while not stop() and time.monotonic() < until_s:
            with suppress(TimeoutError):
                said = told.recv(NUMBER.size)
                if not said:
                    _newest.end()
                    break
                ask(asking, {"folder": str(folder), "environment": dict(environment), "cwd": str(Path.cwd())})
                (pid,) = NUMBER.unpack(said)
                return Forked(pid, told)
    told.close()
    if not stop():
        raise ChildProcessError("the prepared process was killed, or does not answer")
    return None


def _run(log: int, asked: socket.socket) -> int:
    """Execute one job. A fork that becomes its kernel is made before anything begins that a fork would tear apart."""
    from ipykernel.kernelapp import launch_new_instance

    from netrepro.workbench.running.execute import main

    os.setsid()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    request = read_request(asked)
    asking, asked = socket.socketpair()
    if pid := os.fork():
        asked.close()
        IPCKernelManager.prepared = ForkedKernel(pid, asking)
        return main(Path(request["folder"]))
    asking.close()
    os.setsid()
    sys.argv = read_request(asked)["argv"]
    launch_new_instance()
    return 0


def _serve(control: socket.socket) -> Callable[[], int] | None:
    """Fork as often as the runner asks. Returns what a fork has to do; None once no more is wanted and all have ended.

    A fork whose runner has gone is killed.
    """
    running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells of its end
    with selectors.PollSelector() as look:
        look.register(control, selectors.EVENT_READ)
        wanted = True
        while wanted or running:
            for key, _ in look.select():
                if key.fileobj is control:
                    asked, fds, _, _ = socket.recv_fds(control, 1, 3)
                    if not asked:
                        wanted = False
                        look.unregister(control)
                        continue
                    log, request, telling = fds[0], socket.socket(fileno=fds[1]), socket.socket(fileno=fds[2])
                    if not (pid := os.fork()):
                        for end, (_, socket_of_it) in running.items():
                            os.close(end)
                            socket_of_it.close()
                        control.close()
                        telling.close()
                        return partial(_run, log, request)
                    os.close(log)
                    request.close()
                    ended = os.pidfd_open(pid)
                    running[ended] = pid, telling
                    look.register(ended, selectors.EVENT_READ)
                    look.register(telling, selectors.EVENT_READ, pid)
                    tell_runner(telling, pid)
                elif key.data is not None:
                    os.kill(key.data, signal.SIGKILL)
                    look.unregister(key.fileobj)
                elif key.fd in running:
                    pid, telling = running.pop(key.fd)
                    look.unregister(key.fd)
                    os.close(key.fd)
                    with suppress(KeyError):  # its runner has gone
                        look.unregister(telling)
                    tell_runner(telling, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    telling.close()
    return None


def main(control: socket.socket) -> int:
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would go through all of this, and so copy its pages
    run = _serve(control)
    return run() if run else 0


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
