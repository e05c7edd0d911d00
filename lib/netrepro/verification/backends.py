"""Solvers behind one small interface: load clauses or formulas, check under assumptions, read the model.

An answer is "sat", "unsat" or "unknown" (a time-out, a cancel); "unknown" is never treated as one of the others.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import pysolvers
import z3
from pysat.solvers import Solver

from netrepro._core import BooleanCircuit
from netrepro.errors import NetreproError, nearest

BACKENDS = ("z3", "cadical", "glucose")
LONGEST_MS = 4_294_967_295  # z3's "no limit"
IGNORE_SIGNALS = 0  # python-sat: let Python handle them


def check_z3(solver: z3.Solver, assumptions: Sequence[Any], timeout_s: float | None) -> tuple[str, str]:
    """Return (answer, reason); Ctrl-C becomes KeyboardInterrupt although z3 catches the signal itself."""
    # z3 takes the milliseconds modulo 2^32: a limit just above 50 days would become a very short one.
    limit_ms = LONGEST_MS if timeout_s is None else min(timeout_s * 1000, LONGEST_MS)
    solver.set("timeout", max(1, round(limit_ms)))
    answer = str(solver.check(*assumptions))
    reason = solver.reason_unknown() if answer == "unknown" else ""
    if "keyboard" in reason:
        raise KeyboardInterrupt
    return answer, reason


def z3_steps(solver: z3.Solver) -> int:
    """Return z3's own count ("rlimit") of its steps in the solver's context so far; no clock affects this count."""
    return int(solver.statistics().get_key_value("rlimit count"))


_setting_of_the_process = threading.Lock()


@contextmanager
def _models_as_they_are() -> Iterator[None]:
    """Let z3 return models without its search for constants that are defined by each other.

    Clauses have no such constants, and the search takes ten times as long as making the model. The setting holds for
    the whole process, so it is restored afterwards.
    """
    with _setting_of_the_process:
        before = z3.get_param("model.compact")
        z3.set_param("model.compact", False)
        try:
            yield
        finally:
            z3.set_param("model.compact", before)


class ClauseSolver(ABC):
    """A SAT solver: clauses are loaded into it, and it is asked whether they can hold under assumptions."""

    reason = ""
    # The variables whose values may be asked for after a check.
    free_variables: Callable[[], list[int]] = staticmethod(list)

    @abstractmethod
    def load(self, clauses: Sequence[int]) -> None:
        """Add clauses: numbers, with a zero at the end of each clause."""

    @abstractmethod
    def check(self, assumptions: Sequence[int], timeout_s: float | None) -> str:
        """Ask whether the clauses can hold under `assumptions`, which are numbers of variables, negative where false.

        Returns "sat", "unsat" or, after `timeout_s` seconds (None: never) or `cancel`, "unknown", with its `reason`.
        """

    @abstractmethod
    def values(self, variables: Sequence[int]) -> list[bool]:
        """Return the variables' values in the model found last."""

    @abstractmethod
    def core(self) -> set[int]:
        """Return the assumptions of the last check that contradict the clauses together."""

    def steps(self) -> int:
        """Return the solver's own count of its steps so far. Raises NetreproError where it does not count."""
        raise NetreproError("only z3 counts its steps", "backend='z3'")

    @abstractmethod
    def cancel(self) -> None:
        """Make a check that runs in another thread return "unknown" soon."""


class Z3Clauses(ClauseSolver):
    """z3's finite-domain solver, fed with DIMACS.

    z3 names the variables of a DIMACS text by integer symbols. A constant called "k!5" is a different variable, which
    no clause would constrain. So variables are made from integer symbols here; a test checks this.
    """

    FEW_LITERALS = 10_000

    def __init__(self, seed: int = 0):
        self.context = z3.Context()
        self.solver = z3.SolverFor("QF_FD", self.context)
        self.solver.set("random_seed", seed)
        # The circuit is already simplified: z3's preprocessing costs more than it saves.
        for search in ("probing", "asymm_branch", "elim_vars", "subsumption", "scc"):
            self.solver.set(search, False)
        self._sort, self._true = z3.BoolSort(self.context), z3.BoolVal(True, self.context)
        self._functions: dict[int, z3.FuncDeclRef] = {}
        self._literals: dict[int, z3.BoolRef] = {}

    def _variable(self, number: int) -> z3.BoolRef:
        reference = self.context.ref()
        symbol = z3.Z3_mk_int_symbol(reference, number)
        return z3.BoolRef(z3.Z3_mk_const(reference, symbol, self._sort.ast), self.context)

    def _literal(self, number: int) -> z3.BoolRef:
        if number not in self._literals:
            if number > 0:
                self._literals[number] = self._variable(number)
            else:  # z3.Not does the same, ten times as slowly
                opposite = z3.Z3_mk_not(self.context.ref(), self._literal(-number).as_ast())
                self._literals[number] = z3.BoolRef(opposite, self.context)
        return self._literals[number]

    def load(self, clauses: Sequence[int]) -> None:
        # Reading a text costs time for every existing variable; adding a clause costs time only for that clause.
        if len(clauses) > self.FEW_LITERALS:
            self.solver.from_string(BooleanCircuit.dimacs_text(clauses))
            return
        reference, clause = self.context.ref(), []
        for number in clauses:
            if number:
                clause.append(self._literal(number).as_ast())
                continue
            terms = (z3.Ast * len(clause))(*clause)
            z3.Z3_solver_assert(reference, self.solver.solver, z3.Z3_mk_or(reference, len(clause), terms))
            clause = []

    def check(self, assumptions: Sequence[int], timeout_s: float | None) -> str:
        literals = [self._literal(number) for number in assumptions]
        self._asked = {literal.get_id(): number for literal, number in zip(literals, assumptions, strict=True)}
        answer, self.reason = check_z3(self.solver, literals, timeout_s)
        return answer

    def core(self) -> set[int]:
        return {self._asked[literal.get_id()] for literal in self.solver.unsat_core()}

    def values(self, variables: Sequence[int]) -> list[bool]:
        # z3's Python objects take longer than the solving; so the C functions below them are called.
        with _models_as_they_are():
            model = self.solver.model()
        reference, true = self.context.ref(), self._true.as_ast().value
        values = []
        for number in variables:
            if number not in self._functions:
                symbol = z3.Z3_mk_int_symbol(reference, number)
                function = z3.Z3_mk_func_decl(reference, symbol, 0, (z3.Sort * 0)(), self._sort.ast)
                self._functions[number] = z3.FuncDeclRef(function, self.context)
            value = z3.Z3_model_get_const_interp(reference, model.model, self._functions[number].ast)
            values.append(value.value == true)  # equal terms are one term
        return values

    def steps(self) -> int:
        return z3_steps(self.solver)

    def cancel(self) -> None:
        self.context.interrupt()


class PySatClauses(ClauseSolver):
    """CaDiCaL or Glucose, by python-sat."""

    CONFLICTS_AT_ONCE = 1000  # work for a fraction of a second

    def __init__(self, name: str, seed: int = 0):
        self.name = name
        self.solver = Solver(name={"cadical": "cadical195", "glucose": "glucose4"}[name])
        if name == "cadical":
            # CaDiCaL's mode for satisfiable formulas: most questions are satisfiable, and the others are not slower.
            self.solver.configure({"seed": seed, "stabilizeonly": 1})
        self._model: list[int] = []
        self._is_cancelled = False

    # python-sat's C functions: its Python methods around them take 20 % longer.
    ADD_CLAUSE: ClassVar = {"cadical": pysolvers.cadical195_add_cl, "glucose": pysolvers.glucose41_add_cl}

    def load(self, clauses: Sequence[int]) -> None:
        handle = getattr(self.solver.solver, self.name)
        BooleanCircuit.for_each_clause(clauses, partial(self.ADD_CLAUSE[self.name], handle))

    def check(self, assumptions: Sequence[int], timeout_s: float | None) -> str:
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        self.reason, self._is_cancelled = "", False
        answer = self._solve_on(assumptions)
        while answer is None:
            if self._is_cancelled or (ends_s is not None and time.monotonic() >= ends_s):
                self.reason = "canceled" if self._is_cancelled else "timeout"
                return "unknown"
            answer = self._solve_on(assumptions)
        self._model = self.solver.get_model() or [] if answer else []
        return "sat" if answer else "unsat"

    def _solve_on(self, assumptions: Sequence[int]) -> bool | None:
        """Continue to solve: return the answer, or None after CONFLICTS_AT_ONCE conflicts, so that the caller can react
        to Ctrl-C, a cancel or a time limit."""
        self.solver.conf_budget(self.CONFLICTS_AT_ONCE)
        if self.name == "glucose":
            answer: bool | None = self.solver.solve_limited(assumptions=list(assumptions), expect_interrupt=True)
            return answer
        # Not by python-sat's method: there, Ctrl-C jumps out of the solver and leaves its state broken.
        inner = self.solver.solver
        code = pysolvers.cadical195_solve_lim(inner.cadical, list(assumptions), IGNORE_SIGNALS)
        answer = {1: True, -1: False}.get(code)
        inner.prev_assumps, inner.status = list(assumptions), answer
        return answer

    def values(self, variables: Sequence[int]) -> list[bool]:
        model = self._model  # in the order of variables, from 1
        return [number <= len(model) and model[number - 1] > 0 for number in variables]

    def core(self) -> set[int]:
        return set(self.solver.get_core() or ())

    def cancel(self) -> None:
        self._is_cancelled = True


def clause_solver(backend: str, seed: int = 0) -> ClauseSolver:
    """Make the solver called `backend`. Raises NetreproError for an unknown one."""
    if backend == "z3":
        return Z3Clauses(seed)
    if backend in BACKENDS:
        return PySatClauses(backend, seed)
    raise NetreproError(f"no solver is called {backend!r}", nearest(backend, BACKENDS))
