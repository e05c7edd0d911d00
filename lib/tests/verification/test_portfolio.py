"""Solvers side by side: the first answer wins, the others end at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import pytest
from test_analysis import pigeons
from test_processes import still_racing

from netrepro import NetreproError
from netrepro.processes import as_they_come
from netrepro.verification.analysis import Analysis
from netrepro.verification.backends import BACKENDS, PySatClauses, clause_solver
from netrepro.verification.leaf_spine import base_workload, leaf_spine, throughput_query
from netrepro.verification.parsing import parse_query, parse_workload
from netrepro.verification.portfolio import PortfolioClauses, members
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.search import Search


def stubborn(portfolio: int) -> PortfolioClauses:
    solver = PortfolioClauses(portfolio, "cadical", 0)
    solver.load(pigeons(12))
    return solver


def test_a_time_limit_holds_for_every_back_end():
    assert stubborn(2).check([], 0.5) == "unknown"
    assert still_racing() == []


def test_a_race_is_cancelled_from_another_thread():
    solver = stubborn(2)
    alarm = threading.Timer(0.5, solver.cancel)
    alarm.start()
    assert solver.check([], 120) == "unknown"
    alarm.cancel()
    assert still_racing() == []


def test_ctrl_c_ends_all_members():
    solver = stubborn(2)
    alarm = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        solver.check([], 120)
    alarm.cancel()
    assert still_racing() == []


def solve_pigeons(backend: str):
    """Announces itself, then computes for hours."""
    solver = clause_solver(backend)
    solver.load(pigeons(14))
    yield "begun"
    yield solver.check([], None)


# --- ending ---

SOON_S = 5.0  # a second is meant; a busy machine gets more


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_ends_a_solver_at_work_and_it_can_be_asked_again(backend):
    solver = clause_solver(backend)
    solver.load([1000, 0])
    solver.load(pigeons(14))
    pressed_s = []

    def press() -> None:
        pressed_s.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    alarm = threading.Timer(1.0, press)
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        solver.check([], None)
    assert time.monotonic() - pressed_s[0] < SOON_S
    assert solver.check([-1000], None) == "unsat"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_time_limit_ends_a_solver_at_work(backend):
    solver = clause_solver(backend)
    solver.load(pigeons(14))
    start_s = time.monotonic()
    assert (solver.check([], 0.5), solver.reason) == ("unknown", "timeout")
    assert time.monotonic() - start_s < 0.5 + SOON_S


@pytest.mark.parametrize("backend", ["cadical", "glucose"])
def test_a_cancel_is_heard_from_the_first_conflict_on(backend, monkeypatch):
    solver, search = clause_solver(backend), PySatClauses._solve_on
    solver.load(pigeons(14))
    asked = []

    def search_while_another_thread_cancels(self, assumptions):
        if not asked:
            self.cancel()
        asked.append(assumptions)
        return search(self, assumptions)

    monkeypatch.setattr(PySatClauses, "_solve_on", search_while_another_thread_cancels)
    assert (solver.check([], 2.0), solver.reason, len(asked)) == ("unknown", "canceled", 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_ends_solvers_in_processes_at_once_and_keeps_what_they_gave(backend):
    kept = []
    pressed_s = 0.0
    with pytest.raises(KeyboardInterrupt):
        for found in as_they_come([partial(solve_pigeons, backend)] * 2, at_once=2):
            kept.append(found)
            if len(kept) == 2:
                pressed_s = time.monotonic()
                threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    assert time.monotonic() - pressed_s < 0.5 + SOON_S
    assert sorted(kept) == [(0, "begun"), (1, "begun")] and still_racing() == []


def test_members_are_different():
    assert members(4, "z3", 5) == [("z3", 5), ("cadical", 5), ("glucose", 5), ("z3", 6)]
    assert len(set(members(9, "cadical", 0))) == 9


def test_a_portfolio_gives_the_answers_of_one_solver():
    point = leaf_spine(2, 2, 2, 6)
    query, base = throughput_query(point, 3), base_workload(point, 3)
    alone, together = (Analysis(point, query, base, backend="cadical", portfolio=count) for count in (0, 3))
    for text in ("*", "[1,6]: ecmp(host1,t) <= 0", "[1,6]: sum cenq({host2,host3,host4},t) <= 0"):
        workload = parse_workload(text)
        assert together.verify(workload).status == alone.verify(workload).status
    # The trace has been replayed; the core that excuses a workload is enough again.
    silent = parse_workload("[1,6]: cenq(host2,t) <= 0 and [1,6]: ecmp(host1,t) <= 0 and [1,1]: cenq(host3,t) <= 4")
    opposite = Analysis(point, parse_query("forall t in [6,6]: cenq(to_host4,t) >= 1"), base, portfolio=2)
    answer, needed = opposite.excuses(silent)
    assert answer.status == "unsat"
    assert opposite.check_workload_without_query(needed).status == "unsat"


def test_searches_side_by_side_prove_what_they_find():
    query = parse_query("exists t in [1,5]: cblocked(q1,t) >= 3")
    analysis = Analysis(scheduler_point("strict_priority", 2, 5), query)
    result = Search(analysis, portfolio=2).run()
    assert result.status == "proven"
    assert analysis.verify(result.workload).status == "proven"
    assert still_racing() == []


def test_a_portfolio_of_the_reference_encoding_is_refused():
    with pytest.raises(NetreproError, match="portfolio of 2 for 'integers'"):
        query = parse_query("exists t in [1,3]: qsize(q0,t) > 1")
        Analysis(scheduler_point("fifo", 1, 3), query, encoding="integers", portfolio=2)
