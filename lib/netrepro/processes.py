"""Work in forked processes that can be ended at once: side by side, or in a race that the first answer wins.

Processes, not threads, because the work may hold the interpreter's lock or may have to end in the middle.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

from netrepro.errors import NetreproError

Result = TypeVar("Result")
LOOK_EVERY_S = 0.1  # to notice Ctrl-C, which another thread may have caught, and the time-out
SILENCE_S = 10.0  # a task that sleeps this long waits for a lock that is never released
MOST_STARTS = 3
_C = ctypes.CDLL(None)  # loaded here, since a forked process should not load libraries


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends, however that ends (prctl(2))."""
    _C.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class _Runner:
    """A task in a forked process, which sends its results one after the other.

    A fork copies only the thread that calls it. If another thread holds a lock just then, in z3 or in an import, the
    copy never releases it. A task that needs this lock sleeps for ever; a task that computes does not sleep.
    """

    def __init__(self, task: Callable[[], Iterable[Any]]):
        self.task, self.starts, self._received = task, 0, 0
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_run, args=(self.task, self._received, sender))
        self.process.start()
        sender.close()
        self.starts += 1
        self._seen, self._seen_s = "", time.monotonic()

    def receive(self) -> tuple[Any, BaseException | None]:
        """Return (next result, None) or (None, the error that ended the task). Raises EOFError at the end."""
        message: tuple[Any, BaseException | None] = self.receiver.recv()
        self._received += 1
        return message

    def is_stuck(self) -> bool:
        """Tell whether the process has slept for SILENCE_S seconds without any work."""
        now, state = time.monotonic(), _state(self.process.pid)
        if state != self._seen or not state.startswith("S"):
            self._seen, self._seen_s = state, now
        return now - self._seen_s > SILENCE_S

    def is_lost(self) -> bool:
        """Start a stuck process again; tell whether it is stuck and has already had MOST_STARTS starts."""
        if not self.is_stuck():
            return False
        self.end()
        if self.starts < MOST_STARTS:
            self.start()
            return False
        return True

    def was_killed(self) -> bool:
        """Tell whether a task that sends nothing any more was ended from outside."""
        self.process.join()
        self.receiver.close()
        return self.process.exitcode != 0

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.receiver.close()


def _state(pid: int | None) -> str:
    """Read the state and processor time of a process (proc_pid_stat(5)); empty where they cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return " ".join((fields[0], fields[11], fields[12]))


class Race(Generic[Result]):
    """Tasks in forked processes; the losers are ended as soon as one has answered.

    Parameters
    ----------
    tasks : functions without arguments, which compute and do not wait; their results travel back pickled.
    is_answer : whether a result wins; others are set aside.
    """

    def __init__(self, tasks: Sequence[Callable[[], Result]], is_answer: Callable[[Result], bool] = lambda _: True):
        self.tasks, self.is_answer = list(tasks), is_answer
        self._runners: list[_Runner] = []
        self._is_cancelled = False

    def run(self, timeout_s: float | None = None) -> Result | None:
        """Return the first answer; without one, the last result set aside, or None (time-out, cancel).

        A task that is stuck is started again, up to MOST_STARTS starts. Ctrl-C ends all tasks at once. Raises the
        error of a task where no task had a result.
        """
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        aside: Result | None = None
        error: BaseException | None = None
        try:
            for task in self.tasks:
                self._runners.append(_Runner(partial(_once, task)))
            waiting = list(self._runners)
            while waiting and not self._is_cancelled:
                ready = wait([runner.receiver for runner in waiting], LOOK_EVERY_S)
                if not ready and ends_s is not None and time.monotonic() >= ends_s:
                    return aside
                for runner in [r for r in waiting if r.receiver in ready]:
                    waiting.remove(runner)
                    try:
                        result, failure = runner.receive()
                    except EOFError:  # ended from outside
                        continue
                    if failure is not None:
                        error = failure
                    elif self.is_answer(result):
                        return result
                    else:
                        aside = result
                waiting = [runner for runner in waiting if self._is_cancelled or not runner.is_lost()]
            if aside is None and error is not None:
                raise error
            return aside
        finally:
            for runner in self._runners:
                runner.end()
            self._runners.clear()

    def cancel(self) -> None:
        """End the race, from any thread."""
        self._is_cancelled = True
        for runner in list(self._runners):
            runner.process.kill()


def _once(task: Callable[[], Result]) -> Iterator[Result]:
    yield task()


def as_they_come(
    tasks: Iterable[Callable[[], Iterable[Result]]], at_once: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """Yield (a task's number, one of its results) as they come; each task has a forked process.

    Tasks start in their order; they compute and do not wait, and their results travel pickled. Ctrl-C, an error and
    closing this iterator end all processes at once, even inside a solver.
    at_once : the most processes at a time; None: one for each processor.

    Raises a task's error, and NetreproError where a process was ended from outside or sleeps for ever.
    """
    at_once = at_once or len(os.sched_getaffinity(0))
    coming = enumerate(tasks)
    working: dict[int, _Runner] = {}
    try:
        while True:
            for number, task in islice(coming, at_once - len(working)):
                working[number] = _Runner(task)
            if not working:
                return
            ready = wait([runner.receiver for runner in working.values()], LOOK_EVERY_S)
            for number, runner in list(working.items()):
                if runner.receiver not in ready:
                    if runner.is_lost():
                        raise NetreproError("a process sleeps and does not wake", "run it again")
                    continue
                try:
                    result, failure = runner.receive()
                except EOFError:
                    del working[number]
                    if runner.was_killed():
                        raise NetreproError("a process was ended from outside", "run it again") from None
                    continue
                if failure is not None:
                    raise failure
                yield number, result
    finally:
        for runner in working.values():
            runner.end()


def in_processes(
    function: Callable[..., Result],
    work: Sequence[tuple],
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    *,
    at_a_time: int = 1,
    cost: Callable[..., float] | None = None,
) -> list[Result]:
    """Call `function` with each element of `work` (its arguments) and return the results in that order.

    The calls run in other processes, see `as_they_come`.
    at_a_time : elements for each process; a fork of a large process takes a tenth of a second.
    cost : function that estimates the cost of an element of `work`; see `dearest_first`.
    """
    order = dearest_first(work, cost)
    parts = [order[first : first + at_a_time] for first in range(0, len(work), at_a_time)]
    tasks = (partial(_each, function, work, part) for part in parts)
    with contextlib.closing(as_they_come(tasks)) as ended:
        results = dict(numbered for (_, numbered), _ in zip(ended, progress(range(len(work))), strict=True))
    return [results[number] for number in range(len(work))]


def dearest_first(work: Sequence[tuple], cost: Callable[..., float] | None) -> list[int]:
    """Return the indices of `work`, the most costly first, so that no processor waits long for the last.

    cost : called with the arguments in an element; None keeps the order.
    """
    return sorted(range(len(work)), key=lambda place: -cost(*work[place]) if cost else 0)


def _each(
    function: Callable[..., Result], work: Sequence[tuple], numbers: Sequence[int]
) -> Iterator[tuple[int, Result]]:
    for number in numbers:
        yield number, function(*work[number])


def _run(task: Callable[[], Iterable[Any]], skipped: int, sender: Connection) -> None:
    # A solver left alone by a parent that was killed would run for ever. The parent handles Ctrl-C.
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # a collection would go through all that the parent has imported, and so copy its pages
    with contextlib.suppress(BrokenPipeError):
        try:
            for result in islice(task(), skipped, None):
                _send(sender, result, None)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            _send(sender, None, error)
    # Exit at once: tidying up would flush streams and join threads that belong to the parent.
    os._exit(0)


def _send(sender: Connection, result: Any, error: BaseException | None) -> None:
    try:
        sender.send((result, error))
    except (TypeError, AttributeError, pickle.PicklingError) as reason:
        sender.send((None, NetreproError(f"an answer cannot travel between processes: {reason}")))
