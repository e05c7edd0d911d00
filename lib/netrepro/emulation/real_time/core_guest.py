"""A function of the compiled core that runs in its own process inside the network, and its shared counters."""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netrepro.emulation.real_time.guests import Guest, LauncherConnection
from netrepro.errors import NetreproError

_PROCESS = Path(__file__).with_name("core_process.py")


class CoreGuest:
    """The process that runs the function; `numbers` are its counters so far.

    place : index of its namespace. arguments : keyword arguments of the function, as JSON. shared_bytes : size of the
    counters. what, remedy : words for errors. descriptors : further file descriptors, from 4 on. namespaces : indices
    of the namespaces that it may enter. Raises NetreproError, with the last line of its errors, where the process ends
    before it is ready.
    """

    def __init__(
        self,
        launcher: LauncherConnection,
        place: int,
        function: str,
        arguments: dict[str, Any],
        *,
        shared_bytes: int,
        what: str,
        remedy: str,
        descriptors: Sequence[int] = (),
        namespaces: Sequence[int] = (),
    ):
        from netrepro import _core

        self._what, self._remedy = what, remedy
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        work = {"function": function, "arguments": arguments}
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as shared, os.fdopen(reader, "rb") as answer:
            asked.write(json.dumps(work).encode())
            asked.seek(0)
            shared.truncate(shared_bytes)
            self._shared = mmap.mmap(shared.fileno(), shared_bytes)
            command = [sys.executable, "-I", "-S", str(_PROCESS), str(_core.__file__)]
            streams = [asked.fileno(), writer, self._complaints.fileno(), shared.fileno(), *descriptors]
            try:
                self.guest = Guest(launcher, place, command, streams, namespaces=namespaces)
            finally:
                os.close(writer)
            ready = answer.read()
        if not ready:
            raise self.failure()

    @property
    def numbers(self) -> np.ndarray:
        """A copy of the shared counters, an array of int64."""
        return np.frombuffer(self._shared, dtype=np.int64).copy()

    def failure(self) -> NetreproError:
        """Return an error with the last line of the process's error output."""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return NetreproError(f"{self._what}: {lines[-1] if lines else 'its process ended'}", self._remedy)
