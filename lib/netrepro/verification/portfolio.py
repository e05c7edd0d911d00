"""Several ways to one answer, side by side in processes of their own: the first that answers wins."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from netrepro.verification.backends import BACKENDS, ClauseSolver, clause_solver

Result = TypeVar("Result")
LOOK_EVERY_S = 0.1  # for Ctrl-C, which another thread may have caught, and for the end of time
DIE_WITH_PARENT = 1  # Linux: PR_SET_PDEATHSIG


class Race(Generic[Result]):
    """Tasks in forked processes; the losers are ended as soon as one has answered.

    Parameters
    ----------
    tasks : functions without arguments; their results travel back pickled.
    is_answer : whether a result wins; others are set aside.
    """

    def __init__(self, tasks: Sequence[Callable[[], Result]], is_answer: Callable[[Result], bool] = lambda _: True):
        self.tasks, self.is_answer = list(tasks), is_answer
        self._runners: dict[Connection, BaseProcess] = {}

    def run(self, timeout_s: float | None = None) -> Result | None:
        """The first answer; without one, the last result set aside, or None (time-out, cancel).

        Ctrl-C ends all at once. Raises what a task raised, where no other had a result.
        """
        context = multiprocessing.get_context("fork")
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        aside: Result | None = None
        error: BaseException | None = None
        try:
            for task in self.tasks:
                receiver, sender = context.Pipe(duplex=False)
                runner: BaseProcess = context.Process(target=_run, args=(task, sender))
                self._runners[receiver] = runner
                runner.start()
                sender.close()
            waiting = list(self._runners)
            while waiting:
                ready = wait(waiting, LOOK_EVERY_S)
                if not ready and ends_s is not None and time.monotonic() >= ends_s:
                    return aside
                for receiver in [r for r in waiting if r in ready]:
                    waiting.remove(receiver)
                    try:
                        result, failure = receiver.recv()
                    except EOFError:  # ended from outside
                        continue
                    if failure is not None:
                        error = failure
                    elif self.is_answer(result):
                        return result
                    else:
                        aside = result
            if aside is None and error is not None:
                raise error
            return aside
        finally:
            self.cancel()
            for receiver, runner in self._runners.items():
                if runner.pid is not None:
                    runner.join()
                receiver.close()
            self._runners.clear()

    def cancel(self) -> None:
        """End all tasks, from any thread."""
        for runner in list(self._runners.values()):
            if runner.pid is not None:
                runner.kill()


def _run(task: Callable[[], Any], sender: Connection) -> None:
    # A solver left alone by a parent that was killed would run for ever. Ctrl-C is the parent's to handle.
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer: tuple[Any, BaseException | None]
    try:
        answer = task(), None
    except (Exception, KeyboardInterrupt) as error:
        answer = None, error
    with contextlib.suppress(BrokenPipeError):
        sender.send(answer)


def members(count: int, backend: str, seed: int) -> list[tuple[str, int]]:
    """(back end, seed) of each member of a portfolio: the given ones first, then the others, then other seeds."""
    order = [backend, *(name for name in ("cadical", "z3", "glucose") if name != backend)]
    assert set(order) == set(BACKENDS)
    return [(order[i % len(order)], seed + i // len(order)) for i in range(count)]


class PortfolioClauses(ClauseSolver):
    """Several solvers with the same clauses; each check is a race of forked copies.

    "sat" and "unsat" are the same whoever wins; the model and the core are the winner's. What a check learns is
    lost with its process, so that a portfolio is for hard questions. A time limit holds for every back end.
    """

    def __init__(self, count: int, backend: str, seed: int):
        self.solvers = [clause_solver(name, number) for name, number in members(count, backend, seed)]
        self._race: Race[tuple[str, list[bool], set[int]]] | None = None
        self._values: dict[int, bool] = {}
        self._core: set[int] = set()

    def load(self, clauses: Sequence[int]) -> None:
        for solver in self.solvers:
            solver.load(clauses)

    def check(self, assumptions: Sequence[int], timeout_s: float | None) -> str:
        asked = self.free_variables()

        def ask(solver: ClauseSolver) -> tuple[str, list[bool], set[int]]:
            status = solver.check(assumptions, None)
            return (
                status,
                solver.values(asked) if status == "sat" else [],
                solver.core() if status == "unsat" else set(),
            )

        race = self._race = Race([partial(ask, s) for s in self.solvers], lambda found: found[0] != "unknown")
        found = race.run(timeout_s)
        self.reason = "" if found else "timeout or cancelled"
        if found is None:
            return "unknown"
        status, values, self._core = found
        self._values = dict(zip(asked, values, strict=True)) if values else {}
        return status

    def values(self, variables: Sequence[int]) -> list[bool]:
        return [self._values[variable] for variable in variables]

    def core(self) -> set[int]:
        return self._core

    def cancel(self) -> None:
        if self._race is not None:
            self._race.cancel()
