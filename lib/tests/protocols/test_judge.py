"""The judge of agreement: each rule holds, is broken by the smallest thing that breaks it, or is not judged."""

import math

import pandas as pd
import pytest

from netrepro.protocols import judge as rules
from netrepro.protocols.judge import BROKEN, COMMIT, HOLDS, LEADER, NOT_JUDGED, announcements_of, judge
from netrepro.protocols.registers import HISTORY_COLUMNS


def lead(time_s, node, term):
    return (time_s, node, 1, LEADER, term, None, None)


def commit(time_s, node, index, entry, life=1):
    return (time_s, node, life, COMMIT, None, index, entry)


def asked(op, sent_s, answered_s, value=None, result=None, key="x"):
    return (f"{op} at {sent_s}", "client1", key, op, value, None, result, sent_s, answered_s)


def verdicts(announced=(), history=(), end_s=10.0, calm_s=0.0, within_s=2.0) -> pd.DataFrame:
    table = pd.DataFrame(list(history), columns=HISTORY_COLUMNS, dtype=object)
    table = table.astype({"sent_s": float, "answered_s": float})
    found = judge(announcements_of(announced), table, end_s=end_s, calm_s=calm_s, within_s=within_s)
    return found.set_index("rule")


def test_where_nothing_is_announced_and_nobody_asks_nothing_is_judged():
    assert set(verdicts().verdict) == {NOT_JUDGED}


def test_one_leader_a_term_and_the_first_pair_is_shown():
    one = [lead(1.0, "n1", 1), lead(2.0, "n2", 2), lead(3.0, "n1", 3), lead(3.5, "n1", 3)]
    assert verdicts(one).verdict[rules.ONE_LEADER] == HOLDS
    row = verdicts([*one, lead(4.0, "n2", 3), lead(5.0, "n3", 1)]).loc[rules.ONE_LEADER]
    assert (row.verdict, row.evident_s) == (BROKEN, 4.0)
    assert "term 3: n1 leads at 3.000 s, and so does n2 at 4.000 s" in row.counterexample


def test_one_entry_an_index_whichever_node_commits_it():
    same = [commit(1.0, "n1", 1, "a"), commit(1.1, "n2", 1, "a"), commit(1.2, "n1", 2, "b")]
    assert verdicts(same).verdict[rules.SAME_ENTRY] == HOLDS
    for node, life in (("n3", 1), ("n1", 2)):
        row = verdicts([*same, commit(2.0, node, 2, "c", life)]).loc[rules.SAME_ENTRY]
        assert row.verdict == BROKEN and row.counterexample.startswith("index 2: n1 commits b at 1.200 s")


def test_commits_come_in_order_and_a_restarted_node_may_begin_anew():
    again = [commit(1.0, "n1", 1, "a"), commit(1.1, "n1", 2, "b"), commit(3.0, "n1", 1, "a", life=2)]
    assert verdicts(again).verdict[rules.IN_ORDER] == HOLDS
    for index in (1, 2, 4):
        assert verdicts([*again[:2], commit(2.0, "n1", index, "d")]).verdict[rules.IN_ORDER] == BROKEN


def test_what_clients_saw_must_be_linearizable_and_the_register_with_fewest_operations_is_shown():
    good = [asked("write", 1.0, 1.1, value=7), asked("read", 2.0, 2.1, result=7)]
    assert verdicts(history=good).verdict[rules.LINEARIZABLE] == HOLDS
    bad = [*good, asked("read", 3.0, 3.1), asked("read", 4.0, 4.1, result=9, key="y")]
    row = verdicts(history=bad).loc[rules.LINEARIZABLE]
    assert (row.verdict, row.evident_s) == (
        BROKEN,
        4.1,
    ) and row.counterexample == "read at 4.0 reads y: 9 (4.000 to 4.100 s)"
    assert row.looked_at == "4 answers, 0 pending"


@pytest.mark.parametrize(
    ("answers_s", "calm_s", "verdict"),
    [
        ([1.0, 2.5, 4.0, 5.5, 7.0, 8.5], 0.0, HOLDS),
        ([1.0, 2.5, 4.0, 7.0, 8.5], 0.0, BROKEN),
        ([1.0, 2.5, 4.0, 7.0, 8.5], 6.0, HOLDS),
        ([1.0, 2.5, 4.0, 5.5], 0.0, BROKEN),
        ([], 0.0, BROKEN),
        ([1.0], 8.5, NOT_JUDGED),
        ([1.0], math.inf, NOT_JUDGED),
    ],
)
def test_silence_counts_once_all_is_calm_until_the_end(answers_s, calm_s, verdict):
    history = [asked("read", time_s - 0.1, time_s) for time_s in answers_s] + [asked("read", 9.0, math.nan)]
    assert verdicts(history=history, calm_s=calm_s).verdict[rules.ANSWERS] == verdict
