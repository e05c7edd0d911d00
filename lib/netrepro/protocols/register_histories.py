"""A check whether one copy of registers with compare-and-set explains what clients saw, with unanswered operations.

`linearizability` checks histories of reads and writes quickly. Here an operation may depend on the register's value,
and an unanswered one may have happened at any time after it was sent, or not at all. Orders are tried one after the
other (Wing and Gong, "Testing and Verifying Concurrent Objects", J. Parallel Distrib. Comput. 17, 1993), and states
that have failed are not tried again (Lowe, "Testing for Linearizability", Concurrency Computat. 29, 2017).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.protocols.registers import CAS, READ, WRITE

MOST_STATES = 300_000


class TooManyOrders(NetreproError):
    """The error that there are too many orders to try: too many operations overlapped or had no answer."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on one register, as its client saw it; answered_s is math.inf if no answer came."""

    id: str
    op: str
    value: Hashable
    expected: Hashable
    result: Hashable
    sent_s: float
    answered_s: float

    @property
    def is_pending(self) -> bool:
        """True where no answer came."""
        return self.answered_s == math.inf

    def step(self, value: Hashable) -> tuple[bool, Hashable]:
        """Apply the operation to a register of this value; returns whether its answer fits, and the new value."""
        if self.op == READ:
            return self.is_pending or self.result == value, value
        sets = self.op == WRITE or self.expected == value
        fits = self.is_pending or self.op == WRITE or bool(self.result) == sets
        return fits, self.value if sets else value


@dataclass(frozen=True)
class Violation:
    """A few operations on the register `key` that no order explains, as names and as sentences; evident_s is the time
    of the last answer."""

    key: str
    evident_s: float
    operations: tuple[str, ...]
    sentences: tuple[str, ...]


def operations_of(history: pd.DataFrame) -> dict[str, list[Operation]]:
    """Convert a history (HISTORY_COLUMNS of `registers`) to key -> its operations, in the order of sending."""
    by_key: dict[str, list[Operation]] = {}
    for row in history.itertuples():
        answered_s = math.inf if math.isnan(row.answered_s) else row.answered_s
        by_key.setdefault(row.key, []).append(
            Operation(row.operation, row.op, row.value, row.expected, row.result, row.sent_s, answered_s)
        )
    return {key: sorted(operations, key=lambda each: each.sent_s) for key, operations in by_key.items()}


def is_explained(operations: Sequence[Operation], most_states: int = MOST_STATES) -> bool:
    """Tell whether one register that begins as None explains all operations.

    An operation must come before another if its answer came before the other was sent. All answered operations happen;
    unanswered ones may happen. Raises TooManyOrders after more than most_states states (beginnings of orders).
    """
    search = _Search([each for each in operations if not (each.is_pending and each.op == READ)])
    return search.run(most_states)


class _Search:
    """A depth-first search for an order of the operations on one register.

    A state is the set of operations that have happened (one bit each) and the register's value. An operation that fits
    now and changes nothing happens at once: to delay it has no advantage.
    """

    def __init__(self, operations: Sequence[Operation]):
        self.operations = sorted(operations, key=lambda each: (each.sent_s, each.answered_s))
        numbered = list(enumerate(self.operations))
        self.complete = sum(1 << number for number, each in numbered if not each.is_pending)
        self.by_answer = sorted((each.answered_s, number) for number, each in numbered if not each.is_pending)
        looked_for = {each.result for each in self.operations if each.op == READ}
        looked_for |= {each.expected for each in self.operations if each.op == CAS}
        # Unanswered writes of values that no operation has read or expects are equivalent: the first sent goes first.
        self.alike = [
            n for n, each in numbered if each.is_pending and each.op == WRITE and each.value not in looked_for
        ]

    def run(self, most_states: int) -> bool:
        nothing: Hashable = None
        first = (self._settle(0, nothing), nothing)
        waiting, seen = [first], {first}
        while waiting:
            done, value = waiting.pop()
            if done & self.complete == self.complete:
                return True
            if len(seen) > most_states:
                raise TooManyOrders(f"more than {most_states:,} ways to order {len(self.operations)} operations")
            for number in self._next(done):
                fits, then = self.operations[number].step(value)
                if not fits:
                    continue
                state = (self._settle(done | 1 << number, then), then)
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return False

    def _bound_s(self, done: int) -> float:
        """Return the earliest answer of the operations that have not happened; those sent later must come after it."""
        return next((answered_s for answered_s, number in self.by_answer if not done >> number & 1), math.inf)

    def _candidates(self, done: int) -> list[int]:
        bound_s, numbers = self._bound_s(done), []
        for number, each in enumerate(self.operations):
            if each.sent_s > bound_s:
                break
            if not done >> number & 1:
                numbers.append(number)
        return numbers

    def _next(self, done: int) -> list[int]:
        """List the operations that may happen next; the last one, with the earliest answer, is tried first."""
        left_alike = [number for number in self.alike if not done >> number & 1]
        fitting = [n for n in self._candidates(done) if n not in left_alike or n == left_alike[0]]
        return sorted(fitting, key=lambda number: -self.operations[number].answered_s)

    def _settle(self, done: int, value: Hashable) -> int:
        """Add all answered operations that fit now and leave the value unchanged."""
        while True:
            before = done
            for number in self._candidates(done):
                each = self.operations[number]
                if not each.is_pending and each.step(value) == (True, value):
                    done |= 1 << number
            if done == before:
                return done


def smallest_violation(operations: Sequence[Operation], key: str, most_states: int = MOST_STATES) -> Violation | None:
    """Find a few operations that no order explains; None if all operations are explained.

    The history is cut at the first answer that cannot be explained: later answers count as not yet given. Then reads,
    failed compare-and-sets and writes that no operation could have seen are left out, as long as the rest stays
    unexplained. So the result is unexplained, whatever the other operations did. Raises TooManyOrders as is_explained
    does.
    """
    if is_explained(operations, most_states):
        return None
    answers = sorted(each.answered_s for each in operations if not each.is_pending)
    low, high = 0, len(answers) - 1  # no continuation of an unexplained beginning is explained
    while low < high:
        middle = (low + high) // 2
        if is_explained(_until(operations, answers[middle]), most_states):
            low = middle + 1
        else:
            high = middle
    left = _until(operations, answers[low])
    before = None
    while before != left:  # a write may be left out only after all reads of it
        before = left
        for each in sorted(left, key=lambda one: (one.op == WRITE, one.sent_s)):
            fewer = [other for other in left if other is not each]
            if _may_be_left_out(each, fewer) and not _may_be_explained(fewer, most_states):
                left = fewer
    left = sorted(left, key=lambda one: one.sent_s)
    sentences = tuple(sentence(each, key) for each in left)
    return Violation(key, answers[low], tuple(each.id for each in left), sentences)


def _may_be_explained(operations: Sequence[Operation], most_states: int) -> bool:
    try:
        return is_explained(operations, most_states)
    except TooManyOrders:
        return True


def _until(operations: Sequence[Operation], end_s: float) -> list[Operation]:
    """Return the operations sent by `end_s`, without the answers that came later."""
    return [
        each
        if each.answered_s <= end_s
        else Operation(each.id, each.op, each.value, each.expected, None, each.sent_s, math.inf)
        for each in operations
        if each.sent_s <= end_s
    ]


def _may_be_left_out(each: Operation, others: Sequence[Operation]) -> bool:
    """Tell whether any order of all operations also explains the others: `each` changes nothing, or could not be seen.

    A write whose value no other operation has read or expects may be left out only if no compare-and-set has failed: it
    may have failed because of this write.
    """
    if each.op == READ or (each.op == CAS and not each.is_pending and not each.result):
        return True
    looked_for = {other.result for other in others if other.op == READ and not other.is_pending}
    looked_for |= {other.expected for other in others if other.op == CAS}
    has_failed = any(other.op == CAS and not other.is_pending and not other.result for other in others)
    return each.op == WRITE and each.value not in looked_for and not has_failed


def sentence(each: Operation, key: str) -> str:
    """Describe an operation and its time in words, as in "client1-7 reads x: 1002 (0.412 to 0.431 s)"."""
    answer = {READ: f": {_word(each.result)}", WRITE: "", CAS: ": done" if each.result else ": not done"}[each.op]
    asked: dict[str, Any] = {
        READ: f"reads {key}",
        WRITE: f"writes {key} = {_word(each.value)}",
        CAS: f"sets {key} = {_word(each.value)} if it is {_word(each.expected)}",
    }
    until = "no answer" if each.is_pending else f"to {each.answered_s:.3f} s"
    return f"{each.id} {asked[each.op]}{'' if each.is_pending else answer} ({each.sent_s:.3f} {until})"


def _word(value: Hashable) -> str:
    return "nothing" if value is None else str(value)
