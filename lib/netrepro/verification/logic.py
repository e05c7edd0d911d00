"""Two ways to write down bits and numbers: as gates of one Boolean circuit, and as z3's unbounded integers.

Modules are written once, with the operations of `Logic`; the encoding decides which of the two forms they take.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import z3

from netrepro._core import BooleanCircuit

Bit = Any  # a literal of the circuit, or a z3 Boolean
Number = Any  # a unary or binary number of circuit literals, or a z3 integer


class Logic(ABC):
    """Operations on bits and on whole numbers >= 0."""

    true: Bit
    false: Bit

    @abstractmethod
    def free(self, label: str) -> Bit:
        """Return a bit that the solver may choose."""

    @abstractmethod
    def opposite(self, bit: Bit) -> Bit:
        """Return the bit that holds where `bit` does not."""

    @abstractmethod
    def all_of(self, bits: Iterable[Bit]) -> Bit:
        """Return the bit that holds where all of `bits` hold; `true` for no bits."""

    @abstractmethod
    def any_of(self, bits: Iterable[Bit]) -> Bit:
        """Return the bit that holds where one of `bits` holds; `false` for no bits."""

    @abstractmethod
    def iff(self, a: Bit, b: Bit) -> Bit:
        """Return the bit that holds where a and b are equal."""

    @abstractmethod
    def choose(self, condition: Bit, a: Bit, b: Bit) -> Bit:
        """Return a where the condition holds, otherwise b."""

    @abstractmethod
    def number(self, value: int) -> Number:
        """Return a known whole number >= 0."""

    @abstractmethod
    def count(self, bits: Sequence[Bit]) -> Number:
        """Return the number of bits that hold."""

    @abstractmethod
    def add(self, a: Number, b: Number, limit: int | None = None) -> Number:
        """Compute a + b; with a `limit`, a larger sum may be cut to it."""

    @abstractmethod
    def minus(self, a: Number, b: Number) -> Number:
        """Compute a - b, or 0 where b is larger."""

    @abstractmethod
    def minimum(self, a: Number, b: Number) -> Number:
        """Return the smaller of two numbers."""

    @abstractmethod
    def choose_number(self, condition: Bit, a: Number, b: Number) -> Number:
        """Return the number a where the condition holds, otherwise b."""

    @abstractmethod
    def at_least(self, a: Number, value: int) -> Bit:
        """Return the bit a >= value, for a known value."""

    @abstractmethod
    def not_below(self, a: Number, b: Number) -> Bit:
        """Return the bit a >= b."""

    @abstractmethod
    def equal(self, a: Number, b: Number) -> Bit:
        """Return the bit a = b."""

    keeps_names: ClassVar[bool] = False

    def named(self, label: str, bit: Bit) -> Bit:
        """Return the same bit as a named variable, where the encoding keeps names."""
        return bit

    def named_number(self, label: str, number: Number) -> Number:
        """Return the same number as a named variable, where the encoding keeps names."""
        return number

    def implies(self, a: Bit, b: Bit) -> Bit:
        """Return the bit that holds unless `a` holds without `b`."""
        return self.any_of([self.opposite(a), b])

    def match_ports(
        self, pairs: Sequence[tuple[int, int]], wanted: Sequence[Bit], matched: Sequence[Bit], last: Sequence[list[Bit]]
    ) -> tuple[list[Bit], list[list[Bit]]]:
        """Make one step of a round-robin crossbar; return (bits that must hold, `last` after this step).

        Pair (i, j), port in and port out, is matched if and only if it is wanted and neither of its ports is matched
        with another port that it prefers. A port prefers the next port after the one it was matched with last.

        last : one row of bits for each port in, then one for each port out. Bit k of row i says that port i was last
        matched with port k of the other side.
        """
        ports = len(last) // 2
        row = dict(zip(itertools.product((0, 1), range(ports)), last, strict=True))
        match = dict(zip(pairs, matched, strict=True))

        def is_sooner(k: int, a: int, b: int) -> bool:
            return (a - k - 1) % ports < (b - k - 1) % ports

        def gives_way(rival: tuple[int, int], pair: tuple[int, int], side: int) -> Bit:
            """Return a bit: the port that both pairs share on `side` is not matched in `rival`, or prefers `pair`."""
            pointers, a, b = row[side, pair[side]], rival[1 - side], pair[1 - side]
            prefers = self.any_of([pointers[k] for k in range(ports) if is_sooner(k, a, b)])
            return self.implies(match[rival], self.opposite(prefers))

        demands = []
        for pair, bit in zip(pairs, wanted, strict=True):
            rivals = [(r, side) for r in pairs if r != pair for side in (0, 1) if r[side] == pair[side]]
            free_to_go = [gives_way(rival, pair, side) for rival, side in rivals]
            demands.append(self.iff(match[pair], self.all_of([bit, *free_to_go])))
        after = []
        for (side, port), pointers in row.items():
            mine = {pair[1 - side]: match[pair] for pair in pairs if pair[side] == port}
            some = self.any_of(mine.values())
            after.append([self.choose(some, mine.get(k, self.false), pointers[k]) for k in range(ports)])
        return demands, after

    def compare(self, a: Number, sign: str, b: Number) -> Bit:
        """Return the bit a SIGN b, for the signs of the published grammar."""
        if sign == ">=":
            return self.not_below(a, b)
        if sign == "<=":
            return self.not_below(b, a)
        if sign == ">":
            return self.opposite(self.not_below(b, a))
        if sign == "<":
            return self.opposite(self.not_below(a, b))
        return self.equal(a, b)


class Binary:
    """A binary number of circuit literals, lowest bit first; its unary form is made on first use."""

    __slots__ = ("bits", "top", "unary")

    def __init__(self, bits: tuple[int, ...], top: int):
        self.bits, self.top = bits, top
        self.unary: tuple[int, ...] | None = None


class CircuitLogic(Logic):
    """The logic of the circuit: bits are literals; numbers are unary tuples whose literal k says "more than k"."""

    true, false = 1, 0

    def __init__(self) -> None:
        self.circuit = BooleanCircuit()
        self.labels: dict[int, str] = {}  # free literal -> label

    def free(self, label: str) -> int:
        literal = self.circuit.input()
        self.labels[literal] = label
        return literal

    def opposite(self, bit: int) -> int:
        return bit ^ 1

    def all_of(self, bits: Iterable[int]) -> int:
        return self.circuit.all_of(list(bits))

    def any_of(self, bits: Iterable[int]) -> int:
        return self.circuit.any_of(list(bits))

    def iff(self, a: int, b: int) -> int:
        return self.circuit.differ(a, b) ^ 1

    def choose(self, condition: int, a: int, b: int) -> int:
        return self.circuit.choose(condition, a, b)

    def number(self, value: int) -> tuple[int, ...]:
        return (1,) * value

    def count(self, bits: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.circuit.count(list(bits), len(bits)))

    def unary(self, a: Number) -> tuple[int, ...]:
        """Return a number in its unary form; a binary one is converted once."""
        if not isinstance(a, Binary):
            return a
        if a.unary is None:
            a.unary = tuple(self._binary_at_least(a.bits, k) for k in range(1, a.top + 1))
        return a.unary

    def _binary_at_least(self, bits: tuple[int, ...], value: int) -> int:
        result = 1
        for place, bit in enumerate(bits):
            both_or_either = self.circuit.both if value - 1 >> place & 1 else self.circuit.either
            result = both_or_either(bit, result) if place else (0 if (value - 1) & 1 else bit)
        return result

    def add(self, a: Number, b: Number, limit: int | None = None) -> tuple[int, ...]:
        a, b = self.unary(a), self.unary(b)
        return tuple(self.circuit.add(a, b, len(a) + len(b) if limit is None else max(0, limit)))

    def minus(self, a: Number, b: Number) -> tuple[int, ...]:
        a, b = self.unary(a), self.unary(b)
        # a - b > k  <=>  for some j: b == j and a > k + j
        exactly = [self.circuit.both(b[j - 1] if j else 1, b[j] ^ 1 if j < len(b) else 1) for j in range(len(b) + 1)]
        return self._trim(
            self.any_of(self.circuit.both(exactly[j], a[k + j]) for j in range(min(len(b), len(a) - k - 1) + 1))
            for k in range(len(a))
        )

    def minimum(self, a: Number, b: Number) -> tuple[int, ...]:
        return self._trim(self.circuit.both(x, y) for x, y in zip(self.unary(a), self.unary(b), strict=False))

    def choose_number(self, condition: int, a: Number, b: Number) -> tuple[int, ...]:
        return tuple(self.circuit.choose_number(condition, self.unary(a), self.unary(b)))

    def at_least(self, a: Number, value: int) -> int:
        a = self.unary(a)
        return 1 if value <= 0 else a[value - 1] if value <= len(a) else 0

    def not_below(self, a: Number, b: Number) -> int:
        a, b = self.unary(a), self.unary(b)
        return self.all_of(self.implies(bit, a[k] if k < len(a) else 0) for k, bit in enumerate(b))

    def implies(self, a: int, b: int) -> int:
        return self.circuit.either(a ^ 1, b)

    def match_ports(
        self, pairs: Sequence[tuple[int, int]], wanted: Sequence[Bit], matched: Sequence[Bit], last: Sequence[list[Bit]]
    ) -> tuple[list[int], list[list[int]]]:
        demands, after = self.circuit.match_ports(pairs, wanted, matched, last)
        return demands, after

    def equal(self, a: Number, b: Number) -> int:
        if isinstance(a, Binary) and isinstance(b, Binary):
            x, y = a.bits, b.bits
        else:
            x, y = self.unary(a), self.unary(b)
        longest = max(len(x), len(y))
        x, y = x + (0,) * (longest - len(x)), y + (0,) * (longest - len(y))
        return self.all_of(self.iff(i, j) for i, j in zip(x, y, strict=True))

    @staticmethod
    def _trim(bits: Iterable[int]) -> tuple[int, ...]:
        kept = list(bits)
        while kept and kept[-1] == 0:
            kept.pop()
        return tuple(kept)


class IntegerLogic(Logic):
    """The logic of z3: Booleans and unbounded integers; named values are variables, as in the original program."""

    keeps_names: ClassVar[bool] = True

    def __init__(self) -> None:
        self.context = z3.Context()
        self.true, self.false = z3.BoolVal(True, self.context), z3.BoolVal(False, self.context)
        self.labels: dict[str, Any] = {}
        self.definitions: list[Any] = []

    def free(self, label: str) -> Any:
        self.labels[label] = z3.Bool(label, self.context)
        return self.labels[label]

    def named(self, label: str, bit: Any) -> Any:
        name = z3.Bool(label, self.context)
        self.definitions.append(name == bit)
        return name

    def named_number(self, label: str, number: Any) -> Any:
        name = z3.Int(label, self.context)
        self.definitions.append(name == number)
        return name

    def opposite(self, bit: Any) -> Any:
        return z3.Not(bit)

    def all_of(self, bits: Iterable[Any]) -> Any:
        return z3.And(self.true, *bits)

    def any_of(self, bits: Iterable[Any]) -> Any:
        return z3.Or(self.false, *bits)

    def iff(self, a: Any, b: Any) -> Any:
        return a == b

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        return z3.If(condition, a, b)

    def number(self, value: int) -> Any:
        return z3.IntVal(value, self.context)

    def count(self, bits: Sequence[Any]) -> Any:
        zero, one = self.number(0), self.number(1)
        return z3.Sum([zero, *(z3.If(bit, one, zero) for bit in bits)])

    def add(self, a: Any, b: Any, limit: int | None = None) -> Any:
        return a + b

    def minus(self, a: Any, b: Any) -> Any:
        return z3.If(a >= b, a - b, self.number(0))

    def minimum(self, a: Any, b: Any) -> Any:
        return z3.If(a <= b, a, b)

    def choose_number(self, condition: Any, a: Any, b: Any) -> Any:
        return z3.If(condition, a, b)

    def at_least(self, a: Any, value: int) -> Any:
        return a >= value

    def not_below(self, a: Any, b: Any) -> Any:
        return a >= b

    def equal(self, a: Any, b: Any) -> Any:
        return a == b
