"""A program in any language that answers events with actions, over standard input and output.

Each event and each action is one line with a JSON object. The program gets an event, writes any number of actions, and
then `{"do": "done"}`; only then does it get the next event. It needs no clock: time is virtual, comes with the events,
and stands still while the program computes. Text for people goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netrepro.errors import NetreproError, nearest
from netrepro.processes import die_with_parent

MOST_BYTES = 1 << 20  # largest output of a program after one event
MOST_ACTIONS = 10_000  # largest number of actions after one event
MOST_FILE_BYTES = 1 << 28  # largest file that a program may write; standard error is one
LONGEST_SHOWN = 120  # characters of a line that an error shows
LAST_WORDS = 1_000  # characters of standard error that an error shows

Doing = Mapping[str, Callable[[dict[str, Any]], None]]  # action -> the function that carries it out


class BadAction(Exception):
    """The error that an action cannot be carried out. Arguments: what is wrong, and what to do."""


class LineProcess:
    """The process of such a program, from its start to `end`.

    Parameters
    ----------
    who : the program's name in errors, such as "node n1".
    command : the program and its arguments.
    patience_s : largest time in real seconds that an answer to an event may take.

    Raises NetreproError for a program that cannot be started. `tell` raises it for a program that is too slow, ends,
    writes too much, or writes a line that is not an action; the error shows the event and the line.
    """

    def __init__(self, who: str, command: Sequence[str], *, patience_s: float = 10.0):
        self.who, self.command, self.patience_s = who, [str(word) for word in command], patience_s
        self._lines, self._event, self._unwritten, self._unread = 0, "", b"", bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (until `end`)
        self._process = self._started()
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
                env=os.environ | {"PYTHONHASHSEED": "0"},  # the order of a Python set must be the same in each run
                preexec_fn=_prepare,
            )
        except (OSError, IndexError, ValueError, subprocess.SubprocessError) as error:
            self._errors.close()
            raise NetreproError(
                f"{self.who} cannot be started as {self.command}: {error}",
                'give the program and its arguments, such as ["python3", "node.py"]',
            ) from error

    def end(self) -> str:
        """Kill the process and its children; returns the text that it wrote to standard error ("" the second time)."""
        if self._errors.closed:
            return ""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._errors.seek(0)
        with self._errors:
            return self._errors.read().decode(errors="replace")

    def tell(self, event: Mapping[str, Any], doing: Doing) -> None:
        """Pass an event to the program and carry out the actions that it answers.

        doing : the permitted actions: name -> function of the action. It raises BadAction for an invalid action, and
        KeyError for a missing field.
        """
        self._event = json.dumps(event)
        self._unwritten = (self._event + "\n").encode()
        ends_s, written = time.monotonic() + self.patience_s, 0
        for count in range(MOST_ACTIONS + 1):
            line = self._line(ends_s)
            written += len(line)
            self._lines += 1
            action = self._action(line, doing)
            if action["do"] == "done" and not self._unwritten:
                return
            if action["do"] == "done":
                raise self._bad(line, "comes before it has read the event", "write it once, after the event's actions")
            if written > MOST_BYTES or count == MOST_ACTIONS:
                break
            self._carry_out(action, line, doing)
        raise self.wrong(
            f"{count:,} actions and {written:,} bytes in answer to one event, and no end",
            'end each answer with {"do": "done"}',
        )

    def _line(self, ends_s: float) -> bytes:
        """Read the next line; meanwhile, write the rest of the event as the program reads it."""
        while b"\n" not in self._unread:
            left_s = ends_s - time.monotonic()
            both = select.poll()
            both.register(self._output, select.POLLIN)
            if self._unwritten:
                both.register(self._input, select.POLLOUT)
            ready = [descriptor for descriptor, _ in both.poll(max(left_s, 0.0) * 1e3)]
            if self._output in ready:
                self._read()
            if self._input in ready:
                self._write()
            if not ready and left_s <= 0:
                raise self.wrong(
                    f"no answer within {self.patience_s:g} s of real time",
                    'it must end each answer with the line {"do": "done"}, and flush standard output',
                )
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return line

    def _write(self) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._input, self._unwritten) :]
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self) -> None:
        some = os.read(self._output, 1 << 16)
        if not some:
            raise self._ended()
        self._unread += some
        if len(self._unread) > MOST_BYTES and b"\n" not in self._unread:
            raise self.wrong(f"a line of more than {MOST_BYTES:,} bytes", "write each action as one line of JSON")

    def _ended(self) -> NetreproError:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return self.wrong("it has closed its standard input or output", "read events until there are no more")
        how = f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"
        return self.wrong(how, "read events until there are no more; what it said to standard error is above")

    def _action(self, line: bytes, doing: Doing) -> dict[str, Any]:
        try:
            action = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):  # ValueError also for bytes that are not UTF-8
            raise self._bad(line, "is no JSON", "what a person is to read goes to standard error") from None
        if not isinstance(action, dict) or not isinstance(action.get("do"), str):
            raise self._bad(line, "is no action", 'write an object such as {"do": "done"}')
        if action["do"] != "done" and action["do"] not in doing:
            raise self._bad(line, f"is no action: {action['do']!r}", nearest(action["do"], [*doing, "done"]))
        return action

    def _carry_out(self, action: dict[str, Any], line: bytes, doing: Doing) -> None:
        try:
            doing[action["do"]](action)
        except KeyError as missing:
            raise self._bad(line, f"has no {missing}", f"{action['do']} needs it") from None
        except BadAction as error:
            raise self._bad(line, error.args[0], error.args[1]) from None

    def _bad(self, line: bytes, what: str, remedy: str) -> NetreproError:
        shown = line.decode(errors="replace")
        shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + " ..."
        return self.wrong(f"its line {self._lines} {what}: {shown}", remedy)

    def wrong(self, what: str, remedy: str) -> NetreproError:
        """End the process; return the error, which shows the last event and the end of standard error."""
        event, said = self._event, self.end().strip()[-LAST_WORDS:]
        event = event if len(event) <= LONGEST_SHOWN else event[:LONGEST_SHOWN] + " ..."
        words = f"\n  standard error: {said}" if said else ""
        return NetreproError(f"{self.who} ({' '.join(self.command)}): {what}\n  after {event}{words}", remedy)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")  # NaN and Infinity, which other languages cannot read


def _prepare() -> None:
    """Make the process die with its parent and limit the size of its files; called in the child."""
    die_with_parent()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    own = MOST_FILE_BYTES if most == resource.RLIM_INFINITY else min(MOST_FILE_BYTES, most)
    resource.setrlimit(resource.RLIMIT_FSIZE, (own, most))
