"""Synthesis of concise workloads: every input of such a workload satisfies the query.

`method="generalise"` (the default) starts from the base example. All facts that describe this example are given to the
solver at once; the unsatisfiable core selects the facts that matter. These are then dropped or loosened one at a time.
`method="stochastic"` is the published search: it starts from the empty workload and is guided by a cost, like simulated
annealing. Both methods keep every counterexample: a candidate that allows a known counterexample is refused without
asking the solver.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.processes import Race
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import BaseExample, base_example, examples
from netrepro.verification.points import ContentionPoint
from netrepro.verification.portfolio import members
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import (
    FIELDS,
    NEVER_FALLING,
    Comp,
    Line,
    Metric,
    Same,
    Spec,
    Term,
    TimedSpec,
    Workload,
    whole,
)

METHODS = ("generalise", "stochastic")


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    workload : the most concise workload found, or None.
    status : "proven" (some input satisfies the workload, and the query holds for all such inputs), "nothing found" or
        "unknown" (because of a time-out).
    base : the example that the search started from.
    questions : number of questions to the solver.
    history : one row per candidate: round, cost, verdict, workload.
    """

    workload: Workload | None
    status: str
    base: BaseExample
    questions: int
    history: pd.DataFrame = field(repr=False)


class Search:
    """A search that synthesises a workload for an analysis.

    Parameters
    ----------
    analysis : model, base workload and query.
    method : "generalise" or "stochastic". seed : seed of every random choice.
    maximum_specs : largest number of specifications in a workload.
    good_examples, bad_examples : number of examples of each kind that the stochastic search starts with.
    rounds : largest number of rounds of the stochastic search.
    portfolio : number of searches that run in parallel, each in its own process: first with the analysis' back end and
        `seed`, then with other back ends and seeds. The first proven workload wins, so the workload may change from run
        to run; it is always proven. 0 or 1: one search in this process.
    starts : number of examples besides the base example that are generalised; the most concise result is taken. If
        none generalises, further examples are tried.
    base : the base example, if it is already known.

    Raises NetreproError for an unknown method; `run` raises it when no input satisfies the query.
    """

    def __init__(
        self,
        analysis: Analysis,
        *,
        method: str = "generalise",
        seed: int = 0,
        maximum_specs: int = 10,
        good_examples: int = 25,
        bad_examples: int = 25,
        rounds: int = 300,
        starts: int = 4,
        base: BaseExample | None = None,
        portfolio: int = 0,
    ):
        if method not in METHODS:
            raise NetreproError(f"no search method is called {method!r}", nearest(method, METHODS))
        self.analysis, self.method, self.seed = analysis, method, whole("the seed", seed)
        self.maximum_specs, self.rounds = maximum_specs, rounds
        self._starts, self._base = starts, base
        self._example_counts = (good_examples, bad_examples)
        self._dice = random.Random(self.seed)
        self._bad: list[Trace] = []
        self._good: list[Trace] = []
        self._masks: dict[tuple[str, TimedSpec], tuple[int, int]] = {}
        self._rows: list[tuple[int, float, str, str]] = []
        self._has_timed_out = False

        self._portfolio = portfolio

    def run(self) -> SearchResult:
        """Run the search; `SearchResult.status` says whether its workload is proven."""
        return self._race() if self._portfolio > 1 else self._run()

    def _race(self) -> SearchResult:
        choices = members(self._portfolio, self.analysis.backend, self.seed)
        searches = [self._other(name, seed) for name, seed in choices]
        result = Race([search._run for search in searches], lambda answer: answer.status == "proven").run()
        if result is None:
            raise NetreproError("every search was ended from outside", "run it again")
        self.analysis.questions += result.questions
        return result

    def _other(self, backend: str, seed: int) -> Search:
        """Return the same search with another solver and seed."""
        analysis = self.analysis.copy(backend=backend, seed=seed, portfolio=0)
        good, bad = self._example_counts
        return Search(
            analysis,
            method=self.method,
            seed=seed,
            maximum_specs=self.maximum_specs,
            good_examples=good,
            bad_examples=bad,
            rounds=self.rounds,
            starts=self._starts,
            base=self._base,
        )

    def _run(self) -> SearchResult:
        base = self._base or base_example(self.analysis)
        if self.method == "generalise":
            workload = self._generalise(base.trace)
        else:
            self._good = [base.trace, *self._examples(base.trace, self._example_counts[0], is_good=True)]
            self._bad = self._examples(base.trace, self._example_counts[1], is_good=False)
            workload = self._anneal(base.trace)
        status = "unknown" if self._has_timed_out else "nothing found"
        if workload is not None:
            status = self.analysis.verify(workload).status
        history = pd.DataFrame(self._rows, columns=["round", "cost", "verdict", "workload"])
        return SearchResult(workload, status, base, self.analysis.questions, history)

    def _examples(self, base: Trace, count: int, *, is_good: bool) -> list[Trace]:
        return examples(self.analysis, base, count, is_good=is_good, seed=self._dice.randrange(2**32))

    # --- asking ---

    def _held_by(self, workload: Workload, traces: list[Trace], kind: str) -> int:
        """Return a number whose bit i is set where trace i satisfies the workload.

        The lists of examples only grow, so earlier results stay valid and are kept.
        """
        held = (1 << len(traces)) - 1
        for timed in workload.specs:
            known, mask = self._masks.get((kind, timed), (0, 0))
            for place in range(known, len(traces)):
                mask |= timed.holds(traces[place]) << place
            self._masks[kind, timed] = (len(traces), mask)
            held &= mask
        return held

    def _is_enough(self, workload: Workload) -> bool:
        """Tell whether every input of the workload satisfies the query. Counterexamples are kept."""
        if self._held_by(workload, self._bad, "bad"):
            self._note(workload, "known counterexample")
            return False
        answer = self.analysis.check_workload_without_query(workload)
        if answer.trace is not None:
            self._bad.append(answer.trace)
        self._has_timed_out |= answer.status == "unknown"
        self._note(workload, {"sat": "new counterexample", "unsat": "enough"}.get(answer.status, "unknown"))
        return answer.status == "unsat"

    def _note(self, workload: Workload, verdict: str) -> None:
        self._rows.append((len(self._rows), cost(workload), verdict, str(workload)))

    # --- generalising from an example ---

    def _generalise(self, base: Trace) -> Workload | None:
        workloads = [self._generalise_one(base)]
        workloads += [self._generalise_one(t) for t in self._examples(base, self._starts, is_good=True)]
        few = [w for w in workloads if w is not None and len(w.specs) <= self.maximum_specs]
        for trace in [] if few else self._more_examples(base):
            workload = self._generalise_one(trace)
            if workload is not None and len(workload.specs) <= self.maximum_specs:
                return workload
        return min(few, key=lambda workload: (cost(workload), str(workload)), default=None)

    def _more_examples(self, base: Trace) -> Iterator[Trace]:
        """Yield the plainest example with steady labels, then examples near that one and near the base example."""
        near = [base]
        if any(self.analysis.point.has_labels(queue) for queue in self.analysis.point.inputs):
            try:
                near.insert(0, base_example(self.analysis, steady_labels=True).trace)
                yield near[0]
            except NetreproError:  # no such example: labels must change
                pass
        for trace in near:
            yield from self._examples(trace, 8, is_good=True)

    def _generalise_one(self, trace: Trace) -> Workload | None:
        # Concise facts first; facts about single steps only where the concise ones do not suffice.
        told = list(facts(trace, self.analysis.point))
        concise = Workload(tuple(timed for timed in told if not _is_pointed(timed)))
        answer, workload = self.analysis.excuses(concise)
        if answer.status == "sat":
            answer, workload = self.analysis.excuses(Workload(tuple(told)))
            if answer.status == "unsat":
                pointed = [timed for timed in workload.specs if _is_pointed(timed)]
                workload = self._thin(concise.add(*pointed), only=pointed)
                answer, workload = self.analysis.excuses(workload)
        self._has_timed_out |= answer.status == "unknown"
        if answer.status != "unsat":
            # Even exactly this input may violate the query: workloads say nothing about the modules' free choices.
            if answer.trace is not None:
                self._bad.append(answer.trace)
            return None
        workload = self._thin(workload)
        while True:
            easier = self._easier(workload, trace)
            if easier is None:
                return workload
            workload = easier

    def _thin(self, workload: Workload, only: Sequence[TimedSpec] | None = None) -> Workload:
        """Drop every specification (of `only`, if given) that is not needed, starting with the most particular one."""
        candidates = workload.specs if only is None else only
        for timed in sorted(candidates, key=lambda timed: -particularity(timed)):
            without = Workload(tuple(other for other in workload.specs if other != timed))
            if len(without.specs) < len(workload.specs) and self._is_enough(without):
                workload = without
        return workload

    def _easier(self, workload: Workload, trace: Trace) -> Workload | None:
        """Find the first cheaper or looser workload that still suffices and that `trace` still satisfies."""
        for candidate in looser(workload):
            if candidate.holds(trace) and self._is_enough(candidate):
                return self._thin(candidate)
        return None

    # --- the published search ---

    def _anneal(self, base: Trace) -> Workload | None:
        current, current_cost = Workload(), self._examples_cost(Workload())
        start_cost, stale = current_cost, 0
        for _ in range(self.rounds):
            candidate = self._neighbour(current, base)
            if len(candidate.specs) > self.maximum_specs or candidate == current:
                continue
            candidate_cost = self._examples_cost(candidate)
            gain = current_cost - candidate_cost
            stale = 0 if gain > 0.003 * start_cost else stale + 1
            if gain >= 0 or self._dice.random() <= math.exp((gain - 1) / 10):
                if not self._held_by(candidate, self._bad, "bad"):
                    feasible = self.analysis.ask(candidate, with_trace=False)
                    self._has_timed_out |= feasible.status == "unknown"
                    if feasible.status != "sat":
                        self._note(candidate, "infeasible")
                        continue
                    if self._is_enough(candidate):
                        return self._refine(candidate)
                    candidate_cost = self._examples_cost(candidate)
                current, current_cost = candidate, candidate_cost
            if stale > 60:
                current, current_cost, stale = Workload(), self._examples_cost(Workload()), 0
        return None

    def _refine(self, workload: Workload) -> Workload:
        answer = self.analysis.check_workload_with_query(workload)
        if answer.trace is None:
            return workload
        workload = self._thin(workload)
        while (easier := self._easier(workload, answer.trace)) is not None:
            workload = easier
        return workload

    def _examples_cost(self, workload: Workload) -> float:
        missed = len(self._good) - self._held_by(workload, self._good, "good").bit_count()
        allowed = self._held_by(workload, self._bad, "bad").bit_count()
        return 10 * (missed + 2 * allowed) + cost(workload)

    def _neighbour(self, workload: Workload, base: Trace) -> Workload:
        """Return one of several random changes (additions, removals, replacements, looser forms), if possible a cheaper
        one."""
        changed = [workload.add(self._random_spec()) for _ in range(5)]
        for place in range(len(workload.specs)):
            changed += [workload.without(place), workload.with_spec(place, self._random_spec())]
        changed += list(itertools.islice(looser(workload), 10))
        changed = [candidate for candidate in changed if candidate != workload]
        priced = [(self._examples_cost(candidate), candidate) for candidate in changed]
        now = self._examples_cost(workload)
        lower = [candidate for price, candidate in priced if price < now]
        return self._dice.choice(lower or changed)

    def _random_spec(self) -> TimedSpec:
        """Draw a specification as the original program does: constants 0..3, slopes 1..10 (at most max_enqueue), signs
        evenly."""
        dice, point = self._dice, self.analysis.point
        first = dice.randint(1, point.horizon)
        last = dice.choice([point.horizon, dice.randint(first, point.horizon)])
        metrics = [Metric.CENQ, Metric.AIPG]
        if any(point.has_labels(queue) for queue in point.inputs):
            metrics += list(FIELDS)
        metric = dice.choice(metrics)
        if metric in FIELDS and dice.random() < 0.2:
            return TimedSpec(Same(metric, dice.choice(point.inputs)), first, last)
        queues: tuple[str, ...] = (dice.choice(point.inputs),)
        if metric is Metric.CENQ and len(point.inputs) > 1 and dice.random() < 0.5:
            count = dice.randint(2, len(point.inputs))
            queues = tuple(sorted(dice.sample(point.inputs, count)))
        right = Line(0, dice.randint(0, 3))
        if metric is Metric.CENQ and dice.random() < 0.5:
            right = Line(dice.randint(1, min(10, point.queues[queues[0]].max_enqueue)))
        return TimedSpec(Comp(Term(metric, queues), dice.choice(["<", "<=", "=", ">=", ">"]), right), first, last)


def cost(workload: Workload) -> int:
    """Count the nodes of the workload's syntax tree, the measure of conciseness."""
    return workload.size


def _is_pointed(timed: TimedSpec) -> bool:
    """Tell whether a specification is about one step, or about a constant number of packets."""
    spec = timed.spec
    if timed.first == timed.last:
        return True
    if not isinstance(spec, Comp) or not isinstance(spec.right, Line) or spec.left.metric not in NEVER_FALLING:
        return False
    return spec.right.slope == 0 and not (spec.sign == "<=" and spec.right.offset == 0)


def particularity(timed: TimedSpec) -> float:
    """Score how closely a specification describes one example rather than many; high scores are dropped first."""
    is_label = isinstance(timed.spec, Comp) and timed.spec.left.metric in FIELDS
    return 30 * _is_pointed(timed) + 20 * is_label + timed.size + 1 / (1 + timed.last - timed.first)


def facts(trace: Trace, point: ContentionPoint) -> Iterator[TimedSpec]:
    """Yield specifications that a trace satisfies, concise and exact ones; together they determine its arrivals."""
    horizon, inputs = trace.horizon, point.inputs
    times = range(1, horizon + 1)
    silent = [queue for queue in inputs if trace.metric(Metric.CENQ, queue, horizon) == 0]
    active = [queue for queue in inputs if queue not in silent]
    for queue in silent:
        yield TimedSpec(Comp(Term(Metric.CENQ, (queue,)), "<=", Line(0, 0)), 1, horizon)
    groups: list[tuple[str, ...]] = [(queue,) for queue in active]
    groups += list(itertools.combinations(active, 2)) if len(active) > 1 else []
    groups += [tuple(active)] if len(active) > 2 else []
    for group in groups:
        term = Term(Metric.CENQ, group)
        sums = [term.value(trace, time) or 0 for time in times]
        yield from _lines(term, sums, horizon)
    for queue in active:
        term = Term(Metric.CENQ, (queue,))
        counts = [term.value(trace, time) or 0 for time in times]
        quiet = sum(count == 0 for count in counts)
        if quiet:
            yield TimedSpec(Comp(term, "<=", Line(0, 0)), 1, quiet)
        for time, count in zip(times, counts, strict=True):
            if count:
                yield TimedSpec(Comp(term, ">=", Line(0, count)), time, horizon)
            yield TimedSpec(Comp(term, "<=", Line(0, count)), 1, time)
        if point.has_labels(queue):
            yield from _labels(trace, queue, horizon)
        gap = Term(Metric.AIPG, (queue,))
        gaps = [gap.value(trace, time) or 0 for time in times]
        for first, last in itertools.combinations(times, 2):
            least = min(gaps[first - 1 : last])
            if least > 0:
                yield TimedSpec(Comp(gap, ">=", Line(0, least)), first, last)


def _lines(term: Term, sums: list[int], horizon: int) -> Iterator[TimedSpec]:
    """Yield, for each range of steps from 1 on, the steepest line below the counts and the flattest line above them."""
    for last in range(1, horizon + 1):
        slope = min(count // time for time, count in enumerate(sums[:last], 1))
        if slope > 0:
            yield TimedSpec(Comp(term, ">=", Line(slope)), 1, last)
        slope = max(-(-count // time) for time, count in enumerate(sums[:last], 1))
        if slope > 0:
            yield TimedSpec(Comp(term, "<=", Line(slope)), 1, last)


def _labels(trace: Trace, queue: str, horizon: int) -> Iterator[TimedSpec]:
    for metric in FIELDS:
        values = [trace.metric(metric, queue, time) for time in range(1, horizon + 1)]
        term = Term(metric, (queue,))
        if len(set(values)) == 1 and values[0] is not None:
            yield TimedSpec(Comp(term, "=", Line(0, values[0])), 1, horizon)
        for time, value in enumerate(values, 1):
            if value is not None:
                yield TimedSpec(Comp(term, "=", Line(0, value)), time, time)


def looser(workload: Workload) -> Iterator[Workload]:
    """Yield workloads one change away that demand less, or the same more concisely; those that save most come first."""
    specs = workload.specs
    for place in range(len(specs)):
        yield workload.without(place)
    yield from _merged(workload)
    for place, timed in enumerate(specs):
        for other in _looser_specs(timed):
            yield workload.with_spec(place, other)


def _merged(workload: Workload) -> Iterator[Workload]:
    """Yield workloads in which two comparisons of cumulative metrics (NEVER_FALLING) are merged into one."""
    specs = workload.specs
    for i, j in itertools.combinations(range(len(specs)), 2):
        a, b = specs[i].spec, specs[j].spec
        if not (isinstance(a, Comp) and isinstance(b, Comp) and a.sign == b.sign):
            continue
        if a.left.metric != b.left.metric or a.left.metric not in NEVER_FALLING or a.left.queues == b.left.queues:
            continue
        if a.right != b.right or set(a.left.queues) & set(b.left.queues):
            continue
        queues = tuple(sorted(set(a.left.queues) | set(b.left.queues)))
        first, last = max(specs[i].first, specs[j].first), min(specs[i].last, specs[j].last)
        if a.sign == "<=" and a.right == Line(0, 0):
            last = max(specs[i].last, specs[j].last)
        if first > last:
            continue
        merged = TimedSpec(Comp(Term(a.left.metric, queues), a.sign, a.right), first, last)
        rest = tuple(timed for k, timed in enumerate(specs) if k not in (i, j))
        yield Workload((*rest, merged))


def _looser_specs(timed: TimedSpec) -> Iterator[TimedSpec]:
    spec, first, last = timed.spec, timed.first, timed.last
    if isinstance(spec, Comp):
        for other in _looser_comparisons(spec):
            yield replace(timed, spec=other)
    length = last - first
    for cut in sorted({length, length // 2, 1}, reverse=True):
        if 0 < cut <= length:
            yield TimedSpec(spec, first, last - cut)
            yield TimedSpec(spec, first + cut, last)


def _looser_comparisons(spec: Comp) -> Iterator[Spec]:
    left, right = spec.left, spec.right
    if spec.sign == "=":
        yield replace(spec, sign=">=")
        yield replace(spec, sign="<=")
    if not isinstance(right, Line):
        return
    if spec.sign == ">=":
        if right.slope:
            for slope in range(1, right.slope):
                yield replace(spec, right=Line(slope, right.offset))
        else:
            for offset in range(1, right.offset):
                yield replace(spec, right=Line(0, offset))
    elif spec.sign == "<=" and left.metric not in FIELDS:
        grown = Line(right.slope + 1, right.offset) if right.slope else Line(0, right.offset + 1)
        yield replace(spec, right=grown)
        if right.slope == 0 and len(left.queues) > 1:
            for queue in left.queues:
                rest = tuple(other for other in left.queues if other != queue)
                yield replace(spec, left=Term(left.metric, rest))
