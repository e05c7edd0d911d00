"""The published language of workloads and queries: its classes, parser and text form, and its truth on a trace.

Source: Tahmasbi Arashloo, Beckett and Agarwal, "Formal Methods for Network Performance Analysis" (NSDI 2023),
grammar of workloads and queries. Times are printed 1..horizon, as in the paper.

    workload  := timed ("and" timed)* | "*"                 "*" is every workload
    timed     := "[" first "," last "]" ":" spec            spec holds at every t of the range
    spec      := same(METRIC(q,t)) | incr(..) | decr(..) | uniq(METRIC({q, ..},t)) | term OP side
    term      := METRIC(q,t) | sum METRIC({q, ..},t)
    side      := term | number | [number] t [+ number]
    query     := (exists | forall) t in "[" first "," last "]" ":" measure OP number
    measure   := METRIC(q,t) | METRIC(q,t) - METRIC(q,t) | sum METRIC({q, ..},t)
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from netrepro.errors import NetreproError, nearest


class Metric(StrEnum):
    """A quantity of a queue at a time; the comments give the meanings."""

    CENQ = "cenq"  # packets offered so far, including dropped ones
    CDEQ = "cdeq"  # packets dequeued so far
    DEQ = "deq"  # packets dequeued in this step
    QSIZE = "qsize"  # packets waiting before this step's dequeue
    CBLOCKED = "cblocked"  # consecutive steps, up to this one, with packets waiting and none dequeued
    AIPG = "aipg"  # steps between the latest arrival and the one before it (or after it, if it is the first)
    DST = "dst"  # destination of the packets offered in this step; valid only if there are any and they agree
    ECMP = "ecmp"  # path label of the packets offered in this step; valid under the same condition


FIELDS = (Metric.DST, Metric.ECMP)
NEVER_FALLING = (Metric.CENQ, Metric.CDEQ)
OPERATORS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


class MeasuredTrace(Protocol):
    """The interface of a trace on which workloads and queries can be judged."""

    @property
    def horizon(self) -> int:
        """The number of steps; times are 1 to this number."""

    def metric(self, metric: Metric, queue: str, time: int) -> int | None:
        """Return the value at `time` (1..horizon); None where the metric is not valid."""
        ...

    def offered(self, queue: str, time: int) -> int:
        """Count the packets offered to `queue` at `time`."""
        ...


def as_metric(word: str | Metric) -> Metric:
    """Return the metric called `word`. Raises NetreproError, which suggests the nearest name, for an unknown word."""
    try:
        return Metric(str(word).lower())
    except ValueError:
        raise NetreproError(f"no metric is called {word!r}", nearest(str(word), list(Metric))) from None


def as_operator(sign: str) -> str:
    """Return `sign` ("==" becomes "=") if it is one of OPERATORS. Raises NetreproError otherwise."""
    sign = "=" if sign == "==" else sign
    if sign not in OPERATORS:
        raise NetreproError(f"{sign!r} does not compare two numbers", f"valid: {', '.join(OPERATORS)}")
    return sign


def whole(what: str, number: object) -> int:
    """Return a whole number, also one of NumPy, as int. Raises NetreproError, which begins with `what`, otherwise."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise NetreproError(f"{what} {number!r} is not a whole number", "give an int")
    return int(number)


def _refuse_bad_set(what: str, queues: Sequence[object]) -> None:
    wrong = [queue for queue in queues if not isinstance(queue, str)]
    if wrong:
        raise NetreproError(f"{what} names {wrong[0]!r} as a queue", "give the queue's name")
    if len(set(queues)) < len(queues):
        raise NetreproError(f"{what} names a queue twice: {', '.join(map(str, queues))}", "name each queue once")


# --- sides of a comparison ---


@dataclass(frozen=True)
class Term:
    """A metric of one queue, or its sum over several queues."""

    metric: Metric
    queues: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))
        object.__setattr__(self, "queues", tuple(self.queues))
        if not self.queues:
            raise NetreproError(f"{self.metric} is asked of no queue", "name at least one queue")
        _refuse_bad_set(f"the sum of {self.metric}", self.queues)

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 1 if len(self.queues) == 1 else 2 + len(self.queues)

    def value(self, trace: MeasuredTrace, time: int) -> int | None:
        """Return the sum of the metric over the queues at `time`; None where it is not valid in one of them."""
        total = 0
        for queue in self.queues:
            value = trace.metric(self.metric, queue, time)
            if value is None:
                return None
            total += value
        return total

    def __str__(self) -> str:
        if len(self.queues) == 1:
            return f"{self.metric}({self.queues[0]},t)"
        return f"sum {self.metric}({{{','.join(self.queues)}}},t)"


@dataclass(frozen=True)
class Line:
    """slope * t + offset, with t counted from 1."""

    slope: int
    offset: int = 0

    def __post_init__(self) -> None:
        for name in ("slope", "offset"):
            object.__setattr__(self, name, whole("the line's number", getattr(self, name)))

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 1 + (self.slope > 1) + (self.slope > 0 and self.offset > 0)

    def value(self, trace: MeasuredTrace | None, time: int) -> int:
        """Return slope * time + offset; the trace does not matter."""
        return self.slope * time + self.offset

    def __str__(self) -> str:
        if self.slope == 0:
            return str(self.offset)
        rising = "t" if self.slope == 1 else f"{self.slope}t"
        return rising if self.offset == 0 else f"{rising} + {self.offset}"


def Constant(value: int) -> Line:
    """Make the right side of a comparison: the number `value`."""
    return Line(0, value)


def Time(coefficient: int = 1) -> Line:
    """Make the right side of a comparison: coefficient * t."""
    return Line(coefficient)


# --- specifications ---


@dataclass(frozen=True)
class Comp:
    """A comparison that holds at every step of the range; it is false where a metric is not valid."""

    left: Term
    sign: str
    right: Term | Line

    def __post_init__(self) -> None:
        object.__setattr__(self, "sign", as_operator(self.sign))
        if not isinstance(self.left, Term) or not isinstance(self.right, Term | Line):
            raise NetreproError(
                f"{self.left!r} {self.sign} {self.right!r} does not compare a Term with a Term or a Line",
                "write a number as Constant(number)",
            )

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of the queues that both sides ask about."""
        return self.left.queues + (self.right.queues if isinstance(self.right, Term) else ())

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 1 + self.left.size + self.right.size

    def holds(self, trace: MeasuredTrace, first: int, last: int) -> bool:
        """Tell whether the comparison holds at every step from `first` to `last`."""

        def at(time: int) -> bool:
            left, right = self.left.value(trace, time), self.right.value(trace, time)
            return left is not None and right is not None and OPERATORS[self.sign](left, right)

        return all(at(time) for time in range(first, last + 1))

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True)
class Same:
    """A specification that a metric keeps one value over the range.

    For a packet field (dst, ecmp), a queue that is silent in the whole range satisfies it, too. A queue that
    sends must send in every step, with agreeing fields. The original program does not ask for silence in the first
    step of the range, so a silent host may send mixed packets there; `original=True` selects that form.
    """

    metric: Metric
    queue: str
    original: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))

    @property
    def queues(self) -> tuple[str, ...]:
        """The name of the queue, in a tuple."""
        return (self.queue,)

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 2

    def holds(self, trace: MeasuredTrace, first: int, last: int) -> bool:
        """Tell whether it holds from `first` to `last`."""
        if self.metric in FIELDS:
            silent_from = first + 1 if self.original else first
            if all(trace.offered(self.queue, time) == 0 for time in range(silent_from, last + 1)):
                return True
        values = {trace.metric(self.metric, self.queue, time) for time in range(first, last + 1)}
        return len(values) == 1 and None not in values

    def __str__(self) -> str:
        return f"{'original_same' if self.original else 'same'}({self.metric}({self.queue},t))"


@dataclass(frozen=True)
class Steps:
    """incr or decr: at every step of the range but the first, the metric is above (below) its value one step before."""

    metric: Metric
    queue: str
    rising: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))

    @property
    def queues(self) -> tuple[str, ...]:
        """The name of the queue, in a tuple."""
        return (self.queue,)

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 2

    def holds(self, trace: MeasuredTrace, first: int, last: int) -> bool:
        """Tell whether it holds from `first` to `last`."""
        values = [trace.metric(self.metric, self.queue, time) for time in range(first, last + 1)]
        pairs = itertools.pairwise(values)
        return all(a is not None and b is not None and (a < b if self.rising else a > b) for a, b in pairs)

    def __str__(self) -> str:
        return f"{'incr' if self.rising else 'decr'}({self.metric}({self.queue},t))"


def Incr(metric: Metric | str, queue: str) -> Steps:
    """Make the specification that the metric rises at every step."""
    return Steps(as_metric(metric), queue, rising=True)


def Decr(metric: Metric | str, queue: str) -> Steps:
    """Make the specification that the metric falls at every step."""
    return Steps(as_metric(metric), queue, rising=False)


@dataclass(frozen=True)
class Uniq:
    """A specification that no two queues of the set have the same valid value at any step."""

    metric: Metric
    queues: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))
        object.__setattr__(self, "queues", tuple(self.queues))
        _refuse_bad_set(f"uniq of {self.metric}", self.queues)

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 2 + len(self.queues)

    def holds(self, trace: MeasuredTrace, first: int, last: int) -> bool:
        """Tell whether it holds from `first` to `last`."""
        for time in range(first, last + 1):
            values = [trace.metric(self.metric, queue, time) for queue in self.queues]
            valid = [value for value in values if value is not None]
            if len(valid) != len(set(valid)):
                return False
        return True

    def __str__(self) -> str:
        return f"uniq({self.metric}({{{','.join(self.queues)}}},t))"


Spec = Comp | Same | Steps | Uniq


@dataclass(frozen=True)
class TimedSpec:
    """A specification that holds at every step first..last (counted from 1, both included)."""

    spec: Spec
    first: int
    last: int

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            object.__setattr__(self, name, whole("the time", getattr(self, name)))
        if not 1 <= self.first <= self.last:
            raise NetreproError(
                f"the time range [{self.first},{self.last}] of {self.spec} is empty or starts before 1",
                "write [first,last] with 1 <= first <= last",
            )

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree."""
        return 1 + self.spec.size

    def holds(self, trace: MeasuredTrace) -> bool:
        """Tell whether the specification holds in `trace` at its steps."""
        return self.spec.holds(trace, self.first, self.last)

    def __str__(self) -> str:
        return f"[{self.first},{self.last}]: {self.spec}"


@dataclass(frozen=True)
class Workload:
    """A conjunction of timed specifications; the empty workload allows every input."""

    specs: tuple[TimedSpec, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", tuple(self.specs))

    @property
    def size(self) -> int:
        """Number of nodes of the syntax tree; a concise workload has few."""
        return sum(spec.size for spec in self.specs)

    @property
    def queues(self) -> frozenset[str]:
        """The names of all queues that the specifications ask about."""
        return frozenset(queue for timed in self.specs for queue in timed.spec.queues)

    def holds(self, trace: MeasuredTrace) -> bool:
        """Tell whether every specification of this workload holds in `trace`."""
        return all(spec.holds(trace) for spec in self.specs)

    def add(self, *specs: TimedSpec) -> Workload:
        """Return this workload with more specifications at its end."""
        return Workload(self.specs + specs)

    def without(self, position: int) -> Workload:
        """Return this workload without the specification at a position (from 0)."""
        return Workload(self.specs[:position] + self.specs[position + 1 :])

    def with_spec(self, position: int, spec: TimedSpec) -> Workload:
        """Return this workload with another specification at a position (from 0)."""
        return Workload((*self.specs[:position], spec, *self.specs[position + 1 :]))

    def as_original(self) -> Workload:
        """Rewrite the workload as the original program reads it.

        Each `same` gets the original's form. The original removes a queue that must be silent (a sum of cenq that may
        not exceed 0) before it reads the rest. So a comparison that demands packets only of silent queues is dropped,
        instead of making the workload infeasible.
        """
        silent_until: dict[str, int] = {}
        for timed in self.specs:
            for queue in timed.spec.queues if _is_silence(timed) else ():
                silent_until[queue] = max(timed.last, silent_until.get(queue, 0))
        return Workload(tuple(_original(timed) for timed in self.specs if not _is_dropped(timed, silent_until)))

    def __str__(self) -> str:
        return "\nand ".join(str(spec) for spec in self.specs) or "*"


def _line_beside_packets(timed: TimedSpec) -> tuple[str, Line] | None:
    """Return the sign and the right side of a comparison of cenq with a line; None for other specifications."""
    spec = timed.spec
    if isinstance(spec, Comp) and spec.left.metric is Metric.CENQ and isinstance(spec.right, Line):
        return spec.sign, spec.right
    return None


def _is_silence(timed: TimedSpec) -> bool:
    """Tell whether a specification forbids its queues any packet up to its last step."""
    match _line_beside_packets(timed):
        case ("<=" | "<" | "=") as sign, line:
            return line.value(None, timed.last) - (sign == "<") <= 0
    return False


def _is_dropped(timed: TimedSpec, silent_until: Mapping[str, int]) -> bool:
    """Tell whether a specification demands packets at a step by which all of its queues must still be silent."""
    match _line_beside_packets(timed):
        case sign, line:
            until = min(timed.last, *(silent_until.get(queue, 0) for queue in timed.spec.queues))
            return any(not OPERATORS[sign](0, line.value(None, time)) for time in range(timed.first, until + 1))
    return False


def _original(timed: TimedSpec) -> TimedSpec:
    return replace(timed, spec=replace(timed.spec, original=True)) if isinstance(timed.spec, Same) else timed


# --- queries ---


@dataclass(frozen=True)
class Difference:
    """A metric of one queue minus the same metric of another queue."""

    metric: Metric
    queue: str
    minus: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))
        _refuse_bad_set(f"the difference of {self.metric}", self.queues)

    @property
    def queues(self) -> tuple[str, ...]:
        """The two queues, the one that is subtracted last."""
        return (self.queue, self.minus)

    def value(self, trace: MeasuredTrace, time: int) -> int | None:
        """Return the difference at `time`; None where the metric is not valid in one of them."""
        a, b = (trace.metric(self.metric, queue, time) for queue in self.queues)
        return None if a is None or b is None else a - b

    def __str__(self) -> str:
        return f"{self.metric}({self.queue},t) - {self.metric}({self.minus},t)"


@dataclass(frozen=True)
class Query:
    """A query: (exists | forall) t in time_range: metric of lhs, op, threshold.

    Parameters
    ----------
    quantifier : "exists" or "forall".
    time_range : (first, last), counted from 1, both included.
    lhs : a queue's name, a pair (queue, minus) for a difference, or a list of names for a sum.
    metric, op, threshold : the metric, the comparison sign and the number that it is compared with.

    Raises NetreproError for words that the language does not have and for empty ranges.
    """

    quantifier: str
    time_range: tuple[int, int]
    lhs: str | tuple[str, str] | list[str] | Term | Difference
    metric: Metric | str
    op: str
    threshold: int

    def __post_init__(self) -> None:
        quantifier = str(self.quantifier).lower()
        if quantifier not in ("exists", "forall"):
            raise NetreproError(
                f"no quantifier is called {self.quantifier!r}", nearest(quantifier, ["exists", "forall"])
            )
        metric = as_metric(self.metric)
        lhs: Term | Difference
        if isinstance(self.lhs, Term | Difference):
            lhs = self.lhs
        elif isinstance(self.lhs, str):
            lhs = Term(metric, (self.lhs,))
        elif isinstance(self.lhs, tuple) and len(self.lhs) == 2:
            lhs = Difference(metric, *self.lhs)
        elif isinstance(self.lhs, list) and self.lhs:
            lhs = Term(metric, tuple(self.lhs))
        else:
            raise NetreproError(
                f"the left side {self.lhs!r} of the query is not a queue, a difference or a sum",
                "write 'queue', ('queue', 'minus') or ['queue', ...]",
            )
        if lhs.metric != metric:
            raise NetreproError(f"the query's left side is {lhs}, its metric {metric}", "name one metric")
        if not isinstance(self.time_range, tuple | list) or len(self.time_range) != 2:
            raise NetreproError(f"the query's time range {self.time_range!r} is not a pair", "write (first, last)")
        first, last = (whole("the query's time", time) for time in self.time_range)
        if not 1 <= first <= last:
            raise NetreproError(f"the query's time range [{first},{last}] is empty or starts before 1")
        for name, value in (
            ("quantifier", quantifier),
            ("metric", metric),
            ("lhs", lhs),
            ("op", as_operator(self.op)),
            ("threshold", whole("the query's threshold", self.threshold)),
            ("time_range", (first, last)),
        ):
            object.__setattr__(self, name, value)

    @property
    def measure(self) -> Term | Difference:
        """The left side of the comparison."""
        assert isinstance(self.lhs, Term | Difference)
        return self.lhs

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of the queues that the left side asks about."""
        return self.measure.queues

    def holds(self, trace: MeasuredTrace) -> bool:
        """Tell whether the query is true of `trace`."""
        values = [self.measure.value(trace, time) for time in range(self.time_range[0], self.time_range[1] + 1)]
        answers = [value is not None and OPERATORS[self.op](value, self.threshold) for value in values]
        return all(answers) if self.quantifier == "forall" else any(answers)

    def __str__(self) -> str:
        first, last = self.time_range
        return f"{self.quantifier} t in [{first},{last}]: {self.measure} {self.op} {self.threshold}"


# --- checking against a model ---


def refuse_unknown(what: str, queues: Iterable[str], known: Mapping[str, object]) -> None:
    """Raise NetreproError for the first of `queues` that the model does not have."""
    for queue in queues:
        if queue not in known:
            raise NetreproError(f"{what} names the queue {queue!r}, which is not there", nearest(queue, known))
