"""A Jupyter kernel at a host in virtual time.

Sockets do not lead out of the virtual kernel. So a program beside the Jupyter kernel talks to it (jupyter_guest), and
forwards its messages through the channel of all orders. Virtual time passes while a cell runs, and stands still
otherwise. A thread or task that a cell leaves running goes on whenever virtual time passes.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError

_GUEST = Path(__file__).with_name("jupyter_guest.py")
_CHANNEL = 3  # file descriptor of the program's socket
STARTS_WITHIN_S, ENDS_WITHIN_S = 60.0, 10.0  # of virtual time
# Suppresses long warnings of the debugger, which is not used here.
ENVIRONMENT = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class VirtualJupyterKernel:
    """A Jupyter kernel inside a node; it ends with its `with` block, or with the network at the latest.

    Consoles cannot connect to it, and cells cannot ask for input. `program` talks to the kernel; SIGINT to `program`
    interrupts the running cell. Raises NetreproError, with the last line of errors, where the kernel ends.
    """

    def __init__(self, name: str, popen: Callable[..., Any]):
        """Start the kernel. name : its host, for errors. popen : VirtualNode.popen of that host."""
        self._name = name
        command = [sys.executable, "-P", "-B", str(_GUEST), str(_CHANNEL)]
        self.program = popen(command, environment=ENVIRONMENT, talks=True)
        try:
            self.request("kernel_info_request", {}, timeout=STARTS_WITHIN_S)
        except BaseException:
            self.close()
            raise

    def execute_interactive(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
        timeout: float | None = None,
        output_hook: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Run a cell and return the kernel's reply, which also reports errors of the cell, as in any Jupyter client.

        timeout : seconds of virtual time. output_hook : called with each output message as it comes. Interrupts the
        cell and raises TimeoutError after `timeout`; raises NetreproError where the kernel ends.
        """

        def heard(message: dict[str, Any]) -> None:
            if output_hook is not None and message["msg_type"] not in ("status", "execute_input"):
                output_hook(message)

        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history and not silent,
            "user_expressions": dict(user_expressions or {}),
            "allow_stdin": False,
            "stop_on_error": True,
        }
        return self.request("execute_request", content, timeout=timeout, heard=heard)

    def request(
        self,
        kind: str,
        content: Mapping[str, Any],
        *,
        timeout: float | None = None,
        heard: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Send a request of the shell channel, such as "complete_request"; return the reply. heard : called with each
        message of the IOPub channel. timeout and errors as in execute_interactive."""
        line = json.dumps({"msg_type": kind, "content": dict(content)})
        if self.program.returncode is not None:
            raise NetreproError(f"the Jupyter kernel on {self._name} has ended", "start another")
        reply = self.program.converse(line, heard, timeout)
        if reply is None and self.program.returncode is None:
            self.program.send_signal(signal.SIGINT)
            if self.program.converse("", heard, ENDS_WITHIN_S) is None:
                self.close()
            raise TimeoutError(f"after {timeout:g} s of virtual time")
        if reply is None:
            last = (self.program.errors.strip().splitlines() or ["nothing"])[-1]
            raise NetreproError(
                f"the Jupyter kernel on {self._name} ended with status {self.program.returncode}, and said: {last}",
                "see whether `python -m ipykernel_launcher` starts outside the network",
            )
        return reply

    def close(self) -> None:
        """End the kernel and the processes that it has started; do nothing the second time."""
        with suppress(NetreproError):  # the network may have ended, and the kernel with it
            if self.program.returncode is None:
                self.program.kill_all()
                self.program.poll_for(ENDS_WITHIN_S)

    def __enter__(self) -> VirtualJupyterKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
