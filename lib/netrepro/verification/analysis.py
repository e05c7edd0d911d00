"""Questions to the solver about a contention point, a base workload and a query; answers as objects."""

from __future__ import annotations

import gc
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import z3

from netrepro._core import BooleanCircuit
from netrepro.errors import NetreproError, nearest
from netrepro.verification.backends import BACKENDS, ClauseSolver, check_z3, clause_solver, z3_steps
from netrepro.verification.circuit_encoding import CircuitEncoding
from netrepro.verification.encodings import IntegerEncoding
from netrepro.verification.points import ContentionPoint
from netrepro.verification.portfolio import PortfolioClauses
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import Metric, Query, Workload, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENCODINGS = ("circuit", "integers")
REMEMBERED = 16
LARGEST_SEED = 1_000_000_000  # solvers reduce a larger seed modulo their integer size, or refuse it


@dataclass(frozen=True)
class Answer:
    """The answer of the solver.

    Attributes
    ----------
    status : "sat" (a trace exists), "unsat" (none exists) or "unknown" (time-out or cancel; see `reason`).
    trace : the solver's example, replayed with real packets where the modules allow it; None unless "sat".
    """

    status: str
    trace: Trace | None = None
    reason: str = ""

    @property
    def is_known(self) -> bool:
        """True unless the solver gave up."""
        return self.status != "unknown"

    def grid(self, metric: Metric | str = Metric.QSIZE) -> pd.DataFrame:
        """Return the metric of each step (row) and queue (column). Raises NetreproError where there is no trace."""
        return self._shown().grid(metric)

    def draw(self, queues: Sequence[str] | None = None, title: str = "Packets waiting, step by step") -> Figure:
        """Draw the trace with `Trace.draw`. Raises NetreproError where there is no trace."""
        return self._shown().draw(queues, title)

    def _shown(self) -> Trace:
        if self.trace is None:
            raise NetreproError(f"the answer is {self.status!r}: there is no trace to show", self.reason)
        return self.trace


@dataclass(frozen=True)
class Verification:
    """The verdict on whether every input of a workload leads to the query.

    Attributes
    ----------
    status : "proven" (some input satisfies the workload, and none is a counterexample), "refuted", "infeasible"
        (no input satisfies the workload) or "unknown".
    counterexample : if "refuted", an input that satisfies the workload and for which the query is false.
    """

    status: str
    counterexample: Trace | None = None
    reason: str = ""


class Analysis:
    """One contention point with its base workload and query; it is loaded once and answers many questions.

    Parameters
    ----------
    point, query, base : what is analysed; the base workload restricts the inputs (by default it allows all).
    encoding : "circuit" (fast) or "integers" (like the original program, for reference).
    backend : "z3", "cadical" or "glucose"; for the circuit encoding only.
    seed : seed of the solver. timeout_s : time limit of each question, in seconds; None for no limit.
    portfolio : number of solvers that run in parallel, each in its own process: `backend` first, then the other
        back ends, then other seeds. The first answer wins. 0: no extra process. 1: a cancel or time-out acts at once.
    shuffle : seed that puts the formula's parts into a random order; None keeps their order. The meaning does not
        change, but the solver's variables do: it numbers them in the order of appearance.

    Raises NetreproError for a workload or query that does not fit the point, and for an unknown encoding or back end.
    """

    def __init__(
        self,
        point: ContentionPoint,
        query: Query,
        base: Workload | None = None,
        *,
        encoding: str = "circuit",
        backend: str = "z3",
        seed: int = 0,
        timeout_s: float | None = None,
        portfolio: int = 0,
        shuffle: int | None = None,
    ):
        base = base or Workload()
        point.check(base, query)
        if encoding not in ENCODINGS:
            raise NetreproError(f"no encoding is called {encoding!r}", nearest(encoding, ENCODINGS))
        if backend not in BACKENDS:
            raise NetreproError(f"no solver is called {backend!r}", nearest(backend, BACKENDS))
        portfolio, seed = whole("the portfolio", portfolio), whole("the seed", seed)
        shuffle = None if shuffle is None else whole("the shuffle's seed", shuffle)
        if portfolio < 0 or (portfolio and encoding != "circuit"):
            raise NetreproError(f"a portfolio of {portfolio} for {encoding!r}", "0 or more, for the circuit")
        if not 0 <= seed <= LARGEST_SEED:
            raise NetreproError(f"a seed of {seed}", f"give 0 to {LARGEST_SEED}")
        if timeout_s is not None and not timeout_s > 0:  # nan, too
            raise NetreproError(f"a time limit of {timeout_s} s", "give a positive number, or None")
        timeout_s = None if timeout_s is None else float(timeout_s)
        self.point, self.query, self.base = point, query, base
        self.seed, self.timeout_s = seed, timeout_s
        self.questions = 0
        self._options: dict[str, Any] = {
            "encoding": encoding,
            "backend": backend,
            "seed": seed,
            "timeout_s": timeout_s,
            "portfolio": portfolio,
            "shuffle": shuffle,
        }
        self._base_is_known = False
        self._inputs: deque[Trace] = deque(maxlen=REMEMBERED)

    @cached_property
    def _asker(self) -> _CircuitAsker | _IntegerAsker:
        """The formula and its solver; made by the first question."""
        options = self._options
        order = None if options["shuffle"] is None else random.Random(options["shuffle"])
        if options["encoding"] == "integers":
            return _IntegerAsker(self.point, self.query, self.base, self.seed, order)
        if options["portfolio"]:
            solver: ClauseSolver = PortfolioClauses(options["portfolio"], options["backend"], self.seed)
        else:
            solver = clause_solver(options["backend"], self.seed)
        return _CircuitAsker(self.point, self.query, self.base, solver, self.seed, order)

    @property
    def encoded(self) -> CircuitEncoding | IntegerEncoding:
        """The formulas; use them to count, or to build conditions of your own for `ask`."""
        return self._asker.encoding

    @property
    def backend(self) -> str:
        """The solver that was asked for, by name."""
        return str(self._options["backend"])

    @property
    def solver_steps(self) -> int:
        """The steps that z3 has counted so far: the same on every machine for the same questions.

        Raises NetreproError for other back ends.
        """
        return self._asker.solver_steps()

    def copy(self, **changes: Any) -> Analysis:
        """Return the same analysis with nothing loaded and with `changes` of its options (encoding, seed, ...)."""
        return Analysis(self.point, self.query, self.base, **{**self._options, **changes})

    def cancel(self) -> None:
        """Stop a question that another thread is asking; its answer is then "unknown"."""
        self._asker.cancel()

    def ask(
        self,
        workload: Workload | None = None,
        *,
        query: bool | None = None,
        conditions: Sequence[Any] = (),
        with_trace: bool = True,
    ) -> Answer:
        """Ask whether some input satisfies the base workload, `workload` and `conditions`, with the query as asked.

        Parameters
        ----------
        workload : a workload besides the base. query : True, False, or None if the query's value does not matter.
        conditions : bits of the encoding that must hold, too. with_trace : False where only the status matters.
        """
        self.point.check(workload)
        self.questions += 1
        asker = self._asker
        try:
            status, reason = asker.check(workload or Workload(), query, conditions, self.timeout_s)
        finally:
            if not asker.is_whole:
                del self._asker  # the next question starts anew
        if status != "sat" or not with_trace:
            return Answer(status, None, reason)
        with _uncollected():
            trace = asker.trace()
            if self.point.can_run:  # the solver's answer is checked by running the packets
                wanted = [self.base.holds(trace), workload is None or workload.holds(trace)]
                if query is not None:
                    wanted.append(self.query.holds(trace) == query)
                if not all(wanted):
                    raise AssertionError(f"{self.point.name}: the solver's model does not replay")
        self._inputs.append(trace)
        return Answer(status, trace)

    def satisfy_query(self) -> Answer:
        """Find an input of the base workload for which the query holds."""
        answer = self.ask(query=True)
        if answer.status == "unsat":
            self.refuse_empty_base()
        return answer

    def check_workload_with_query(self, workload: Workload) -> Answer:
        """Find an input of the workload for which the query holds."""
        return self.ask(workload, query=True)

    def check_workload_without_query(self, workload: Workload) -> Answer:
        """Find an input of the workload for which the query does not hold."""
        return self.ask(workload, query=False)

    def verify(self, workload: Workload) -> Verification:
        """Check that some input satisfies the workload, and that the query holds for every such input.

        Inputs that are known from earlier answers or from `remember` are tried first.
        """
        self.point.check(workload)
        known = [trace for trace in reversed(self._inputs) if workload.holds(trace)]
        for trace in known:
            if not self.query.holds(trace):
                return Verification("refuted", trace)
        against = self.check_workload_without_query(workload)
        if against.status == "sat":  # the counterexample also shows that the workload is feasible
            return Verification("refuted", against.trace)
        if against.status == "unknown":
            return Verification("unknown", reason=against.reason)
        if known:
            return Verification("proven")
        feasible = self.ask(workload)
        if feasible.status == "unsat":
            self.refuse_empty_base()
            return Verification("infeasible")
        return Verification("proven" if feasible.status == "sat" else "unknown", reason=feasible.reason)

    def remember(self, trace: Trace) -> None:
        """Keep an input of the base workload; `verify` then often needs no question to see that a workload is feasible.

        The latest REMEMBERED traces are kept, the solver's own among them. Raises NetreproError for a trace that breaks
        the base workload.
        """
        if not self.base.holds(trace):
            raise NetreproError("the trace breaks the base workload", "give one that keeps it")
        self._inputs.append(trace)

    def refuse_empty_base(self) -> None:
        """Raise NetreproError if no input satisfies the base workload; the error names the contradicting part."""
        if self._base_is_known:
            return
        status = self.ask(with_trace=False).status
        if status != "unsat":
            self._base_is_known = status == "sat"
            return
        kept = Workload()
        for timed in self.base.specs:
            kept = kept.add(timed)
            if Analysis(self.point, self.query, kept, timeout_s=self.timeout_s).ask().status == "unsat":
                raise NetreproError(
                    f"no input of {self.point.name!r} has the base workload: {timed} contradicts what is before it",
                    "drop or loosen that specification",
                )
        raise NetreproError(f"the constraints of {self.point.name!r} have no solution", "check its modules")

    def excuses(self, workload: Workload) -> tuple[Answer, Workload]:
        """Run `check_workload_without_query`; if "unsat", also return a part of the workload that suffices for it."""
        answer = self.check_workload_without_query(workload)
        if answer.status != "unsat":
            return answer, workload
        return answer, self._asker.needed(workload)

    def minimise(
        self,
        bits: Sequence[Any],
        count: Callable[[int], Sequence[Any]],
        conditions: Sequence[Any],
        start: Trace,
    ) -> tuple[Trace, int, Any, bool]:
        """Find the trace in which the fewest of `bits` are true, by lowering a bound (circuit encoding only).

        `count(limit)` makes the unary count of the true bits, up to `limit`. Returns the trace, its count, a bit that
        holds where the count is no larger, and whether the count is proven minimal (False after a time-out).
        """
        best, trace, is_least = self._how_many(bits, start), start, True
        # The count is built once, up to the first value found: each later bound is one literal of it.
        number = [*count(best + 1), *([0] * (best + 1))]
        # Long steps down while they succeed, shorter ones when they do not.
        least, step = 0, 1
        while best > least and is_least:
            target = max(least, best - step)
            answer = self.ask(query=True, conditions=[*conditions, number[target] ^ 1])
            if answer.status == "unsat":
                least, step = target + 1, max(1, step // 4)
            elif answer.trace is None:
                is_least = False
            else:
                trace, best, step = answer.trace, self._how_many(bits, answer.trace), 2 * step
        return trace, best, number[best] ^ 1, is_least

    def _how_many(self, bits: Sequence[int], trace: Trace) -> int:
        encoding = self._asker.encoding
        if not isinstance(encoding, CircuitEncoding):
            raise NetreproError("minimise needs the circuit encoding", "encoding='circuit'")
        return sum(encoding.circuit.evaluate(encoding.assignment(trace), list(bits)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switch off Python's garbage collector. Formulas and traces have no cycles, but their many objects trigger it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _CircuitAsker:
    """Questions to the circuit encoding: clauses are loaded when a question first needs them.

    is_whole : False where loading was interrupted; the solver's answers are then worthless.
    """

    def __init__(
        self,
        point: ContentionPoint,
        query: Query,
        base: Workload,
        solver: ClauseSolver,
        seed: int,
        order: random.Random | None,
    ):
        with _uncollected():
            self.encoding = CircuitEncoding(point)
            self.query = self.encoding.query_bit(query)
            self.base = [self.encoding.spec_bit(timed) for timed in base.specs]
        self.solver = solver
        self.solver.free_variables = lambda: self._known()[1]
        self._has_loaded_base = False
        self.is_whole = True
        self._seed, self._order = seed, order

    def cancel(self) -> None:
        self.solver.cancel()

    def _load(self, bits: Sequence[int]) -> None:
        self.is_whole = False  # the encoding returns each clause once: an interrupt in here loses clauses
        roots = list(bits) if self._has_loaded_base else [*self.base, *bits]
        demands = self.encoding.new_constraints_below(roots)
        if not self._has_loaded_base:
            demands += self.base
            self._has_loaded_base = True
        demands = [bit for bit in dict.fromkeys(demands) if bit != 1]
        clauses = self.encoding.circuit.new_clauses(roots, demands)
        if self._order is not None:
            clauses = BooleanCircuit.shuffled(clauses, self._order.getrandbits(64))
        if clauses:
            with _uncollected():
                self.solver.load(clauses)
        self.is_whole = True

    def check(
        self, workload: Workload, query: bool | None, conditions: Sequence[int], timeout_s: float | None
    ) -> tuple[str, str]:
        asked = [self.encoding.spec_bit(timed) for timed in workload.specs] + list(conditions)
        if query is not None:
            asked.append(self.query if query else self.query ^ 1)
        asked = [bit for bit in dict.fromkeys(asked) if bit != 1]
        if 0 in asked:
            return "unsat", ""
        self._load(asked)
        variables = [self.encoding.circuit.dimacs_variable(bit) for bit in asked]
        return self.solver.check(variables, timeout_s), self.solver.reason

    def solver_steps(self) -> int:
        return self.solver.steps()

    def needed(self, workload: Workload) -> Workload:
        """Return the specifications that took part in the last "unsat"."""
        bits = [self.encoding.spec_bit(timed) for timed in workload.specs]
        if 0 in bits:  # the solver was not asked: one specification is never true
            return Workload((workload.specs[bits.index(0)],))
        core, variable = self.solver.core(), self.encoding.circuit.dimacs_variable
        pairs = zip(workload.specs, bits, strict=True)
        return Workload(tuple(timed for timed, bit in pairs if bit != 1 and variable(bit) in core))

    def _known(self) -> tuple[list[int], list[int]]:
        """Return the free literals that occur in loaded clauses, and the solver's variables for them."""
        free = list(self.encoding.logic.labels)
        variables = self.encoding.circuit.dimacs_variables(free)
        known = [bit for bit, variable in zip(free, variables, strict=True) if variable]
        return known, [variable for variable in variables if variable]

    def trace(self) -> Trace:
        encoding = self.encoding
        known, variables = self._known()
        true = {bit for bit, value in zip(known, self.solver.values(variables), strict=True) if value}
        arrivals = encoding.read_arrivals(true)
        choices = {encoding.logic.labels[bit]: bit in true for bit in known}
        if encoding.point.can_run:
            return encoding.point.simulate(arrivals, choices=choices, seed=self._seed)
        offered, taken, length = encoding.tables(sorted(true))
        arrived = {name: arrivals.get(name, [[(0, 0)] * count for count in counts]) for name, counts in offered.items()}
        return Trace(encoding.point.horizon, arrived, taken, length, choices)


class _IntegerAsker:
    """Questions to the integer encoding, with z3's general solver."""

    is_whole = True

    def __init__(self, point: ContentionPoint, query: Query, base: Workload, seed: int, order: random.Random | None):
        self.encoding = IntegerEncoding(point)
        self._seed, self._order = seed, order
        self._query = self.encoding.query_bit(query)
        self._base = self.encoding.workload_bit(base)

    def cancel(self) -> None:
        self.encoding.context.interrupt()

    def check(
        self, workload: Workload, query: bool | None, conditions: Sequence[Any], timeout_s: float | None
    ) -> tuple[str, str]:
        asked = [self.encoding.workload_bit(workload), *conditions]
        if query is not None:
            asked.append(self._query if query else z3.Not(self._query))
        # A fresh solver for each question: z3 then simplifies the whole formula first, which saves more time than an
        # incremental solver's learned facts.
        self.solver = z3.Solver(ctx=self.encoding.context)
        self.solver.set("random_seed", self._seed)
        parts = [self._base, *self.encoding.constraints, *asked]
        if self._order is not None:
            self._order.shuffle(parts)
        self.solver.add(*parts)
        status, reason = check_z3(self.solver, [], timeout_s)
        self._model = self.solver.model() if status == "sat" else None
        return status, reason

    def solver_steps(self) -> int:
        return z3_steps(self.solver)

    def needed(self, workload: Workload) -> Workload:
        """Return the whole workload: the reference encoding keeps no unsatisfiable core."""
        return workload

    def trace(self) -> Trace:
        point, model = self.encoding.point, self._model
        assert model is not None
        choices = {
            label: z3.is_true(model.eval(bit, model_completion=True))
            for label, bit in self.encoding.logic.labels.items()
        }
        arrivals = self.encoding.read_arrivals(model)
        if point.can_run:
            return point.simulate(arrivals, choices=choices, seed=self._seed)
        offered, taken, length = self.encoding.tables(model)
        arrived = {name: arrivals.get(name, [[(0, 0)] * count for count in counts]) for name, counts in offered.items()}
        return Trace(point.horizon, arrived, taken, length, choices)
