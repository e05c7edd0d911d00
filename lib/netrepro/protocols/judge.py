"""A judge of nodes that agree on a log and answer clients from it: one verdict for each rule, with a counterexample.

The judge sees the nodes' announcements (that they lead a term, that an entry is committed) and the clients' histories.
It does not know the protocol by which the nodes agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from netrepro.protocols.register_histories import TooManyOrders, Violation, operations_of, smallest_violation

ANNOUNCEMENT_COLUMNS = ["time_s", "node", "life", "kind", "term", "log_index", "entry"]
LEADER, COMMIT, NOTE = "leader", "commit", "note"  # kinds of announcements

ONE_LEADER = "one leader a term"
SAME_ENTRY = "one entry an index"
IN_ORDER = "commits in order"
LINEARIZABLE = "linearizable"
ANSWERS = "answers"
RULES = (ONE_LEADER, SAME_ENTRY, IN_ORDER, LINEARIZABLE, ANSWERS)
HOLDS, BROKEN, NOT_JUDGED = "holds", "broken", "not judged"
VERDICT_COLUMNS = ["rule", "verdict", "looked_at", "counterexample", "evident_s"]

_Row = tuple[str, str, str, float]


def announcements_of(rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """Make the table of announcements from rows of ANNOUNCEMENT_COLUMNS; fields that a kind does not have are None."""
    return pd.DataFrame(list(rows), columns=ANNOUNCEMENT_COLUMNS, dtype=object).astype({"time_s": float})


def judge(
    announced: pd.DataFrame, history: pd.DataFrame, *, end_s: float, calm_s: float, within_s: float
) -> pd.DataFrame:
    """Judge a run by RULES; returns one row for each rule: rule, verdict, looked_at, counterexample, evident_s.

    one leader a term : no two nodes announce that they lead the same term (Raft's election safety).
    one entry an index : no two nodes, nor one node twice, announce different entries at one index of the log.
    commits in order : the entries that a node announces between its start and its crash have consecutive indices.
    linearizable : a single copy of each register explains the history; unanswered operations may have happened or not.
    answers : after the last fault, no more than `within_s` passes without an answer, as clients ask all the time.

    Parameters
    ----------
    announced : rows of ANNOUNCEMENT_COLUMNS in the order of time; `entry` as text, `life` counts a node's starts.
    history : the clients' operations, rows of HISTORY_COLUMNS of `registers`.
    end_s : the end of the run. calm_s : the end of the last fault; math.inf where too few nodes are left.
    within_s : seconds without an answer that are allowed.

    evident_s is the time at which the counterexample was complete, NaN without one.

    A rule is "not judged" if the run has nothing that could break it, or if too many orders would have to be tried.
    "holds" means that the rule held in this run; it is not a proof.
    """
    leads = announced[announced["kind"] == LEADER]
    commits = announced[announced["kind"] == COMMIT]
    verdicts = {
        ONE_LEADER: _one_leader(leads),
        SAME_ENTRY: _same_entry(commits),
        IN_ORDER: _in_order(commits),
        LINEARIZABLE: _linearizable(history),
        ANSWERS: _answers(history, end_s, calm_s, within_s),
    }
    return pd.DataFrame([(rule, *verdicts[rule]) for rule in RULES], columns=VERDICT_COLUMNS)


def _row(counterexample: str, evident_s: float, looked_at: str, count: int) -> _Row:
    return (BROKEN if counterexample else HOLDS if count else NOT_JUDGED), looked_at, counterexample, evident_s


def _one_leader(leads: pd.DataFrame) -> _Row:
    leaders: dict[Any, tuple[Any, float]] = {}
    broken, evident_s = "", math.nan
    for row in leads.itertuples():
        first, time_s = leaders.setdefault(row.term, (row.node, row.time_s))
        if first != row.node and not broken:
            broken = f"term {row.term}: {first} leads at {time_s:.3f} s, and so does {row.node} at {row.time_s:.3f} s"
            evident_s = row.time_s
    return _row(broken, evident_s, _count(len(leaders), "term"), len(leaders))


def _same_entry(commits: pd.DataFrame) -> _Row:
    entries: dict[Any, Any] = {}
    broken, evident_s = "", math.nan
    for row in commits.itertuples():
        first = entries.setdefault(row.log_index, row)
        if first.entry != row.entry and not broken:
            broken = (
                f"index {row.log_index}: {first.node} commits {first.entry} at {first.time_s:.3f} s, "
                f"and {row.node} commits {row.entry} at {row.time_s:.3f} s"
            )
            evident_s = row.time_s
    return _row(broken, evident_s, _count(len(entries), "index", "indices"), len(entries))


def _in_order(commits: pd.DataFrame) -> _Row:
    last: dict[tuple[Any, Any], int] = {}
    broken, evident_s = "", math.nan
    for row in commits.itertuples():
        life, index = (row.node, row.life), row.log_index
        if life in last and index != last[life] + 1 and not broken:
            broken = f"{row.node} commits index {index} right after {last[life]} at {row.time_s:.3f} s"
            evident_s = row.time_s
        last[life] = index
    return _row(broken, evident_s, _count(len(commits), "commit"), len(commits))


def _linearizable(history: pd.DataFrame) -> _Row:
    by_key = operations_of(history)
    pending = sum(each.is_pending for operations in by_key.values() for each in operations)
    answered = len(history) - pending
    looked_at = f"{_count(answered, 'answer')}, {pending} pending"
    smallest: Violation | None = None
    for key, operations in sorted(by_key.items()):
        try:
            violation = smallest_violation(operations, key)
        except TooManyOrders as error:
            return NOT_JUDGED, f"{looked_at}; {error.problem}", "", math.nan
        if violation and (smallest is None or len(violation.operations) < len(smallest.operations)):
            smallest = violation
    if smallest is None:
        return _row("", math.nan, looked_at, answered)
    return _row("; ".join(smallest.sentences), smallest.evident_s, looked_at, answered)


def _answers(history: pd.DataFrame, end_s: float, calm_s: float, within_s: float) -> _Row:
    """Find the first time of more than `within_s` without an answer after `calm_s`."""
    answered = np.sort(history["answered_s"].dropna().to_numpy())
    answered = answered[answered >= calm_s]
    looked_at = _count(len(answered), "answer") + " once calm"
    if history.empty or end_s - calm_s <= within_s:
        return NOT_JUDGED, looked_at, "", math.nan
    edges = [calm_s, *answered, end_s]
    for begins_s, ends_s in pairwise(edges):
        if ends_s - begins_s > within_s:
            return BROKEN, looked_at, f"nobody has an answer from {begins_s:.3f} to {ends_s:.3f} s", begins_s + within_s
    return HOLDS, looked_at, "", math.nan


def _count(number: int, name: str, names: str = "") -> str:
    return f"{number} {name if number == 1 else names or name + 's'}"
