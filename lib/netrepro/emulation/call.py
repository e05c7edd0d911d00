"""A Python function that runs inside a node: the input for call_guest.py, and the result that it writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import cloudpickle

from netrepro.emulation.call_values import outcome_from
from netrepro.errors import NetreproError

CALL_GUEST = Path(__file__).with_name("call_guest.py")


class _Process(Protocol):
    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill_all(self) -> None: ...


def pickled_call(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bytes:
    """Pickle a call as call_guest.py reads it: first sys.path, then (function, arguments, keywords)."""
    return cloudpickle.dumps(sys.path) + cloudpickle.dumps((function, tuple(arguments), dict(keywords)))


class Call:
    """A Python function that runs inside a node, in a process of its own."""

    def __init__(self, process: _Process, outcome: Callable[[], bytes], complaint: Callable[[], str]):
        """Watch the process. outcome : returns what call_guest.py has written. complaint : the last line of errors."""
        self._process, self._outcome, self._complaint = process, outcome, complaint
        self._known: tuple[bool, Any] | None = None

    def done(self) -> bool:
        """Tell whether the function has returned or raised."""
        return self._process.poll() is not None

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the function; return what it returned, or raise what it raised.

        An error of a class that is neither built in nor NetreproError comes as its nearest built-in class. Raises
        subprocess.TimeoutExpired after `timeout` seconds, and NetreproError for a process without a result, and for one
        that does not travel (see Node.start).
        """
        if self._known is None:
            status = self._process.wait(timeout)
            written = self._outcome()
            if not written:
                raise NetreproError(
                    f"the function ended without a result, with status {status}: {self._complaint()}",
                    "a function inside a node must return",
                )
            self._known = outcome_from(written)
        returned, value = self._known
        if returned:
            return value
        raise value

    def stop(self) -> None:
        """Kill the function's process and what it has started; wait for its end."""
        self._process.kill_all()
        self._process.wait()
