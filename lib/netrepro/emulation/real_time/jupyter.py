"""An IPython kernel inside a node, over Unix sockets: these are files, which are open to every network namespace."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.blocking import BlockingKernelClient

from netrepro.emulation.real_time.guests import Guest, LauncherConnection, last_line
from netrepro.errors import NetreproError

LONGEST_START_S = 180.0


class RealTimeJupyterKernel(BlockingKernelClient):
    """A kernel inside a node, and its client; by `connection_file` others, such as a console, can connect to it.

    It ends with its `with` block, or with the network at the latest. `guest` is the kernel's process; SIGINT interrupts
    the running cell.
    """

    def __init__(self, launcher: LauncherConnection, place: int, name: str, limits: Mapping[str, Any]):
        """Start the kernel and wait until it is ready.

        place : index of the namespace. name : of the node, for errors. limits : CPU limits, as arguments of Guest.
        Raises NetreproError, with the last line of errors, where the kernel ends or does not answer.
        """
        launcher.remove_at_end([launcher.folder])
        launcher.folder.mkdir(mode=0o700, exist_ok=True)
        super().__init__(connection_file=str(launcher.folder / f"{name}-{uuid.uuid4().hex[:8]}.json"), transport="ipc")
        self.write_connection_file()
        try:
            self.start_channels()
        except zmq.ZMQError as error:
            raise NetreproError(f"no Jupyter kernel on {name}: {error}", "set TMPDIR to a shorter path") from None
        launcher.at_end.callback(self.stop_channels)
        # Without this variable: a kernel ends when the process JPY_PARENT_PID is not its parent.
        environment = {key: value for key, value in os.environ.items() if key != "JPY_PARENT_PID"}
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", self.connection_file]
        with tempfile.TemporaryFile() as complaints, Path(os.devnull).open("r+b") as nowhere:
            streams = [each.fileno() for each in (nowhere, nowhere, complaints)]
            self.guest = Guest(launcher, place, command, streams, environment=environment, **limits)
            try:
                self.wait_for_ready(LONGEST_START_S)
            except BaseException as error:
                status = self.guest.poll()
                self.close()
                if not isinstance(error, RuntimeError):
                    raise
                how = "did not answer" if status is None else f"ended with status {status}"
                raise NetreproError(
                    f"the Jupyter kernel on {name} {how}: {last_line(complaints)}",
                    "see whether `python -m ipykernel_launcher` starts outside the network",
                ) from None

    def is_alive(self) -> bool:
        return self.guest.poll() is None

    async def _async_is_alive(self) -> bool:
        return self.is_alive()

    def close(self) -> None:
        """End the kernel and the processes that it has started, and remove its files; do nothing the second time."""
        self.guest.kill_all()
        self.guest.wait()
        self.stop_channels()
        self.cleanup_connection_file()
        self.cleanup_ipc_files()

    def __enter__(self) -> RealTimeJupyterKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
