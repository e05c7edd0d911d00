"""Several solvers work on the same question, each in its own process; the first answer counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from netrepro.processes import Race
from netrepro.verification.backends import BACKENDS, ClauseSolver, clause_solver


def members(count: int, backend: str, seed: int) -> list[tuple[str, int]]:
    """List (back end, seed) of each portfolio member: the given back end, then the other ones, then further seeds."""
    order = [backend, *(name for name in ("cadical", "z3", "glucose") if name != backend)]
    assert set(order) == set(BACKENDS)
    return [(order[i % len(order)], seed + i // len(order)) for i in range(count)]


class PortfolioClauses(ClauseSolver):
    """Several solvers with the same clauses; each check is a race of forked copies.

    The answer is the same whichever solver wins; the model and the core are the winner's. Facts that a solver learns
    during a check are lost with its process, so a portfolio pays only for hard questions. A time limit is exact to a
    tenth of a second.
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

        race = self._race = Race([partial(ask, s) for s in self.solvers], lambda answer: answer[0] != "unknown")
        answer = race.run(timeout_s)
        self.reason = "" if answer else "timeout or cancelled"
        if answer is None:
            return "unknown"
        status, values, self._core = answer
        self._values = dict(zip(asked, values, strict=True)) if values else {}
        return status

    def values(self, variables: Sequence[int]) -> list[bool]:
        return [self._values[variable] for variable in variables]

    def core(self) -> set[int]:
        return self._core

    def cancel(self) -> None:
        if self._race is not None:
            self._race.cancel()
