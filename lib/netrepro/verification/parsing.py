"""Workloads and queries read from text, as they print themselves."""

from __future__ import annotations

import re

from netrepro.errors import NetreproError
from netrepro.verification.workloads import (
    Comp,
    Difference,
    Line,
    Query,
    Same,
    Spec,
    Steps,
    Term,
    TimedSpec,
    Uniq,
    Workload,
    as_metric,
    as_operator,
)

# --- parsing ---

NAME = r"[A-Za-z_][\w.\->]*"  # pattern of a queue's name
_TOKEN = re.compile(rf"\s*(>=|<=|==|[><=(){{}}\[\],:*+\-]|\d+|{NAME}|\S)")


class _Words:
    """A cursor over the words of a text."""

    def __init__(self, text: str):
        self.text = text
        self.words: list[str] = _TOKEN.findall(text)
        self.place = 0

    @property
    def next(self) -> str:
        return self.words[self.place] if self.place < len(self.words) else ""

    def take(self, *expected: str) -> str:
        word = self.next
        if expected and word.lower() not in expected:
            raise self.problem(" or ".join(repr(choice) for choice in expected))
        self.place += 1
        return word

    def accept(self, word: str) -> bool:
        if self.next.lower() == word:
            self.place += 1
            return True
        return False

    def number(self) -> int:
        sign = -1 if self.accept("-") else 1
        if not self.next.isdecimal():
            raise self.problem("a whole number")
        return sign * int(self.take())

    def queue(self) -> str:
        if not re.match(r"[A-Za-z_]", self.next):
            raise self.problem("the name of a queue")
        return self.take()

    def problem(self, expected: str) -> NetreproError:
        before = " ".join(self.words[max(0, self.place - 6) : self.place])
        word = repr(self.next) if self.next else "the end"
        return NetreproError(f"after {before!r}: expected {expected}, found {word}", f"in: {self.text.strip()}")


def _range(words: _Words) -> tuple[int, int]:
    words.take("[")
    first = words.number()
    words.take(",")
    last = words.number()
    words.take("]")
    return first, last


def _queues(words: _Words) -> tuple[str, ...]:
    if not words.accept("{"):
        return (words.queue(),)
    queues = [words.queue()]
    while words.accept(","):
        queues.append(words.queue())
    words.take("}")
    return tuple(queues)


def _term(words: _Words) -> Term:
    words.accept("sum")
    if not words.next:
        raise words.problem("a metric")
    metric = as_metric(words.take())
    words.take("(")
    queues = _queues(words)
    words.take(",")
    words.take("t")
    words.take(")")
    return Term(metric, queues)


def _right(words: _Words) -> Term | Line:
    if words.next.isdecimal() or words.next in ("t", "-"):
        slope, offset = 0, 0
        if words.accept("t"):
            slope = 1
        else:
            offset = words.number()
            if words.accept("*"):
                words.take("t")
                slope, offset = offset, 0
            elif words.accept("t"):
                slope, offset = offset, 0
        if slope and words.accept("+"):
            offset = words.number()
        return Line(slope, offset)
    return _term(words)


def _spec(words: _Words) -> Spec:
    if words.next.lower() in ("same", "original_same", "incr", "decr", "uniq"):
        kind = words.take().lower()
        words.take("(")
        term = _term(words)
        words.take(")")
        if kind == "uniq":
            return Uniq(term.metric, term.queues)
        if len(term.queues) != 1:
            raise NetreproError(f"{kind} is asked of {len(term.queues)} queues", "write one queue")
        if kind in ("same", "original_same"):
            return Same(term.metric, term.queues[0], original=kind == "original_same")
        return Steps(term.metric, term.queues[0], rising=kind == "incr")
    left = _term(words)
    sign = as_operator(words.take())
    return Comp(left, sign, _right(words))


def parse_workload(text: str) -> Workload:
    """Parse a workload written in this module's grammar. Raises NetreproError at the first wrong word."""
    words = _Words(text)
    if words.words in ([], ["*"]):
        return Workload()
    specs = []
    while True:
        first, last = _range(words)
        words.take(":")
        specs.append(TimedSpec(_spec(words), first, last))
        if not words.next:
            return Workload(tuple(specs))
        words.take("and")


def parse_query(text: str) -> Query:
    """Parse a query written in this module's grammar. Raises NetreproError at the first wrong word.

    >>> query = parse_query("exists t in [1,8]: cblocked(thin,t) >= 5")
    >>> query.time_range, query.op, query.threshold
    ((1, 8), '>=', 5)
    """
    words = _Words(text)
    quantifier = words.take("exists", "forall")
    words.take("t")
    words.take("in")
    time_range = _range(words)
    words.take(":")
    left: Term | Difference = _term(words)
    if words.accept("-"):
        other = _term(words)
        if len(left.queues) != 1 or len(other.queues) != 1 or left.metric != other.metric:
            raise NetreproError("a difference is taken between one metric of two queues", f"in: {text.strip()}")
        left = Difference(left.metric, left.queues[0], other.queues[0])
    sign = as_operator(words.take())
    query = Query(quantifier, time_range, left, left.metric, sign, words.number())
    if words.next:
        raise words.problem("the end")
    return query
