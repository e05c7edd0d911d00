"""Registers with compare-and-set: the requests and replies between clients and nodes, and a client.

Whatever protocol the nodes use, a client gets a Reply, a Refusal (the operation never happens), or nothing. In the last
case it does not know whether the operation has happened or ever will.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.protocols.machine import Output, Send

READ, WRITE, CAS = "read", "write", "cas"
HISTORY_COLUMNS = ["operation", "client", "key", "op", "value", "expected", "result", "sent_s", "answered_s"]
SHARES: Mapping[str, float] = {READ: 0.4, WRITE: 0.3, CAS: 0.3}  # shares of a client's operations

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Request:
    """An operation: `read` returns the value of `key`, `write` sets it, `cas` sets it if it equals `expected`."""

    id: str
    op: str
    key: str
    value: Value = None
    expected: Value = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer that the operation has happened. result : a read's value, whether a cas has set; None for a write."""

    id: str
    result: Value | bool = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer that the operation has not happened and never will; `leader` names the node to ask instead, or is
    None."""

    id: str
    leader: Hashable = None


class Registers:
    """One copy of the registers; all are None at first."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}

    def execute(self, request: Request) -> Reply:
        """Carry out an operation and return its reply."""
        before = self.values.get(request.key)
        if request.op == READ:
            return Reply(request.id, before)
        sets = request.op == WRITE or before == request.expected
        if sets:
            self.values[request.key] = request.value
        return Reply(request.id, sets if request.op == CAS else None)


@dataclass(slots=True)
class _Asked:
    request: Request
    sent_s: float
    result: Value | bool = None
    answered_s: float = math.nan


class RegisterClient:
    """A client with one open operation at a time: reads, writes and compare-and-sets; each value is written only once.

    Parameters
    ----------
    nodes : the nodes, which it asks one at a time. After a refusal and `retry_s`, it asks the named leader or else the
        next node. After `timeout_s` without an answer, it goes to the next node with another operation.
    number : the client's number, from 1; it writes the values number * 1000 + 1 and more.
    interval_s : mean pause between an answer and the next operation, uniform from half of it to one and a half.
    stop_s : time after which it begins no operation. shares : READ, WRITE and CAS -> share of the operations.

    An answer that comes late still counts. Raises NetreproError for no node or key, and for times of 0 or less.
    """

    def __init__(
        self,
        name: str,
        number: int,
        nodes: Sequence[Hashable],
        keys: Sequence[str],
        seed: int | str,
        *,
        interval_s: float = 0.05,
        timeout_s: float = 0.5,
        retry_s: float = 0.02,
        stop_s: float = math.inf,
        shares: Mapping[str, float] = SHARES,
    ):
        if not nodes or not keys:
            raise NetreproError(f"a client of {len(nodes)} nodes and {len(keys)} keys", "give it one of each at least")
        if not min(interval_s, timeout_s, retry_s) > 0:
            raise NetreproError(
                f"a client with the times {interval_s}, {timeout_s} and {retry_s} s", "give more than 0 seconds"
            )
        self.name, self.number, self.nodes, self.keys = name, number, list(nodes), list(keys)
        self.interval_s, self.timeout_s, self.retry_s, self.stop_s = interval_s, timeout_s, retry_s, stop_s
        self.shares = dict(shares)
        self._random = Random(f"{seed} {name}")
        self._target = (number - 1) % len(self.nodes)
        self._asked: dict[str, _Asked] = {}
        self._seen: dict[str, Value] = {}
        self._open: str | None = None
        self._next_s = self._retry_at_s = self._deadline_s = math.inf

    @property
    def wake_at_s(self) -> float:
        """The time of the next operation, or of the open operation's retry or time-out."""
        return self._next_s if self._open is None else min(self._retry_at_s, self._deadline_s)

    def start(self, now_s: float) -> Iterable[Output]:
        """Plan the first operation."""
        self._pause(now_s)
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        """Begin an operation, ask another node for it, or give it up."""
        if self._open is None:
            return self._begin(now_s) if now_s >= self._next_s else ()
        if now_s >= self._deadline_s:
            self._target = (self._target + 1) % len(self.nodes)
            self._pause(now_s)
        elif now_s >= self._retry_at_s:
            self._retry_at_s = math.inf
            return [Send(self.nodes[self._target], self._asked[self._open].request)]
        return ()

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Handle a Reply or a Refusal; a second reply to an operation changes nothing."""
        asked = self._asked.get(message.id)
        if asked is None or not math.isnan(asked.answered_s):
            return ()
        if isinstance(message, Reply):
            asked.result, asked.answered_s = message.result, now_s
            self._learn(asked.request, message.result)
            if message.id == self._open:
                self._pause(now_s)
        elif message.id == self._open:
            knows = message.leader in self.nodes and message.leader != sender
            at = self.nodes.index(message.leader if knows else sender)
            self._target = at if knows else (at + 1) % len(self.nodes)
            self._retry_at_s = now_s + self.retry_s
        return ()

    def _pause(self, now_s: float) -> None:
        self._open, self._deadline_s, self._retry_at_s = None, math.inf, math.inf
        due_s = now_s + self.interval_s * self._random.uniform(0.5, 1.5)
        self._next_s = due_s if due_s < self.stop_s else math.inf

    def _begin(self, now_s: float) -> list[Output]:
        number = len(self._asked) + 1
        op = self._random.choices(list(self.shares), list(self.shares.values()))[0]
        key = self._random.choice(self.keys)
        value = None if op == READ else self.number * 1000 + number
        expected = self._seen.get(key) if op == CAS else None
        request = Request(f"{self.name}-{number}", op, key, value, expected)
        self._asked[request.id] = _Asked(request, now_s)
        self._open, self._deadline_s = request.id, now_s + self.timeout_s
        return [Send(self.nodes[self._target], request)]

    def _learn(self, request: Request, result: Value | bool) -> None:
        if request.op == READ:
            self._seen[request.key] = result
        elif request.op == WRITE or result:
            self._seen[request.key] = request.value

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row of HISTORY_COLUMNS for each operation; answered_s is NaN for an unanswered one."""
        return [
            (each.request.id, self.name, each.request.key, each.request.op, each.request.value, each.request.expected,
             each.result, each.sent_s, each.answered_s)
            for each in self._asked.values()
        ]  # fmt: skip


def history_of(clients: Iterable[RegisterClient]) -> pd.DataFrame:
    """Make the table of all clients' operations, in the order of sending (columns: HISTORY_COLUMNS)."""
    rows = sorted((row for client in clients for row in client.rows()), key=lambda row: (row[-2], row[0]))
    columns: dict[str, Any] = {}
    for place, name in enumerate(HISTORY_COLUMNS):
        # pandas would turn None, which is a value here, into NaN.
        kind = float if name.endswith("_s") else object
        cells = np.empty(len(rows), dtype=kind)
        cells[:] = [row[place] for row in rows]
        columns[name] = pd.Series(cells, dtype=kind)
    return pd.DataFrame(columns)
