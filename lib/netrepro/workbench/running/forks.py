"""Forks of the prepared process (prepared.py): what their callers hold of them, and what is said between both ends.

A fork reads one request, a line of JSON. The prepared process tells the runner two numbers: a fork's id, and its exit
code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

NUMBER = struct.Struct("q")


class Forked:
    """A run that is a fork, with what a supervisor asks of a `subprocess.Popen`."""

    def __init__(self, pid: int, told: socket.socket):
        self.pid = pid
        self.returncode: int | None = None
        self._told = told

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait until it has ended and return its exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                said = self._told.recv(NUMBER.size)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout) from None
            (self.returncode,) = NUMBER.unpack(said) if said else (-signal.SIGKILL,)
            self._told.close()
        assert self.returncode is not None
        return self.returncode


class ForkedKernel:
    """A child process that becomes a kernel when it is told how, with what a provisioner asks of `subprocess.Popen`.

    pid : of the child. asking : where it listens.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int, asking: socket.socket):
        self.pid, self._asking = pid, asking
        self.returncode: int | None = None

    def begin(self, argv: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        """Have it become a kernel: argv, as of `ipykernel_launcher`."""
        ask(self._asking, {"argv": list(argv), "environment": dict(environment), "cwd": folder})

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self.wait(os.WNOHANG)

    def wait(self, options: int = 0) -> int | None:
        """Wait until it has ended and return its exit code."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def ask(asking: socket.socket, request: Mapping[str, Any]) -> None:
    """Tell a fork what to do; `read_request` is its other end."""
    with asking:
        asking.sendall(json.dumps(request).encode() + b"\n")


def read_request(asked: socket.socket) -> dict[str, Any]:
    """Read what is asked of a fork and make its environment that of this process. Nothing is asked: end."""
    with asked, asked.makefile("rb") as stream:
        text = stream.readline()
    if not text:
        os._exit(0)
    request: dict[str, Any] = json.loads(text)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    np.random.seed()  # noqa: NPY002  # for cells that use it; Python's own generator does it at a fork
    return request


def tell_runner(runner: socket.socket, number: int) -> None:
    """Tell the runner a number, if it is still there."""
    with suppress(BrokenPipeError):
        runner.sendall(NUMBER.pack(number))
