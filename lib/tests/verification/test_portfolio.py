"""Solvers side by side: the first answer wins, the others end at once."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import signal
import threading
import time
from functools import partial

import pytest
from test_analysis import pigeons

from netrepro import NetreproError, processes
from netrepro.processes import Race, in_processes, side_by_side
from netrepro.verification.analysis import Analysis
from netrepro.verification.backends import BACKENDS, PySatClauses, clause_solver
from netrepro.verification.leaf_spine import base_workload, leaf_spine, throughput_query
from netrepro.verification.portfolio import PortfolioClauses, members
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.search import Search
from netrepro.verification.workloads import parse_query, parse_workload


def endless() -> str:
    time.sleep(600)
    return "too late"


def stubborn(portfolio: int) -> PortfolioClauses:
    solver = PortfolioClauses(portfolio, "cadical", 0)
    solver.load(pigeons(12))
    return solver


def still_racing() -> list[multiprocessing.process.BaseProcess]:
    """Processes of a race that are left; a pool that joblib keeps for other tests is none of its."""
    return [child for child in multiprocessing.active_children() if "Loky" not in type(child).__name__]


def test_the_first_answer_wins_and_the_losers_are_ended():
    assert Race([endless, lambda: "here", endless]).run() == "here"
    assert still_racing() == []


def test_what_is_no_answer_waits_for_a_better_one():
    def late() -> int:
        time.sleep(0.3)
        return 7

    assert Race([lambda: 2, late], lambda number: number > 5).run() == 7
    assert Race([lambda: 2], lambda number: number > 5).run() == 2


def test_an_error_counts_only_where_nobody_has_a_result():
    def fails() -> int:
        raise NetreproError("no way", "go back")

    assert Race([fails, lambda: 3]).run() == 3
    with pytest.raises(NetreproError, match="no way"):
        Race([fails, fails]).run()


def test_a_runner_that_is_killed_is_no_answer():
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert Race([dies]).run() is None


def test_a_lock_that_another_thread_held_at_the_fork_does_not_stop_a_race(monkeypatch):
    """The copy of a held lock is never released: only a new copy, made when it is free, gets through."""
    monkeypatch.setattr(processes, "SILENCE_S", 1.0)
    lock, held = threading.Lock(), threading.Event()

    def hold_until_forked() -> None:
        with lock:
            held.set()
            while not still_racing():
                time.sleep(0.01)

    def needs_the_lock() -> str:
        with lock:
            return "through"

    holder = threading.Thread(target=hold_until_forked)
    holder.start()
    held.wait()
    assert Race([needs_the_lock]).run(120) == "through"
    holder.join()
    assert still_racing() == []


def test_a_task_that_always_sleeps_is_given_up(monkeypatch):
    monkeypatch.setattr(processes, "SILENCE_S", 0.3)
    assert Race([endless]).run() is None
    assert Race([endless, lambda: 2], lambda number: number != 2).run() == 2


def test_a_task_that_computes_in_silence_is_left_alone(monkeypatch):
    monkeypatch.setattr(processes, "SILENCE_S", 0.3)

    def busy() -> int:
        ends_s = time.process_time() + 0.5
        while time.process_time() < ends_s:
            pass
        return os.getpid()

    monkeypatch.setattr(processes, "MOST_STARTS", 1)
    assert Race([busy]).run() is not None


def test_a_runner_does_nothing_more_once_it_has_answered(tmp_path):
    """Exit handlers and streams are the parent's: to wait for them could take for ever."""

    def answers() -> int:
        multiprocessing.util.Finalize(None, (tmp_path / "tidied up").touch, exitpriority=1)
        return 2

    def late() -> int:
        time.sleep(1.0)
        return 7

    assert Race([answers, late], lambda number: number == 7).run() == 7
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_cannot_travel_is_an_error_with_its_reason():
    with pytest.raises(NetreproError, match="cannot travel"):
        Race([lambda: threading.Lock()]).run()


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


# --- many answers ---


def counts_to(last: int) -> range:
    return range(1, last + 1)


def test_what_each_process_gives_comes_in_its_order_and_with_its_number():
    found = list(side_by_side([partial(counts_to, last) for last in (3, 0, 2)], at_once=2))
    assert sorted(found) == [(0, 1), (0, 2), (0, 3), (2, 1), (2, 2)]
    assert [result for number, result in found if number == 0] == [1, 2, 3]
    assert in_processes(lambda a, b: a - b, [(5, 1), (1, 5), (2, 2)]) == [4, -4, 0]


def test_a_process_may_take_several_of_the_work_and_all_comes_in_its_order():
    seen: list[int] = []

    def progress(numbers):
        for number in numbers:
            seen.append(number)
            yield number

    found = in_processes(lambda number: (number, os.getpid()), [(i,) for i in range(7)], progress, at_a_time=3)
    assert [number for number, _ in found] == seen == list(range(7))
    makers = [process for _, process in found]
    assert len(set(makers)) == 3 and makers[0] == makers[2] and makers[3] == makers[5]


def test_no_more_processes_than_allowed_work_at_once():
    seen = []
    for _ in side_by_side([partial(counts_to, 2)] * 5, at_once=2):
        seen.append(len(still_racing()))
    assert max(seen) <= 2 and still_racing() == []


def test_an_error_in_one_process_is_raised_and_ends_the_others():
    def fails():
        yield 1
        raise NetreproError("no way", "go back")

    with pytest.raises(NetreproError, match="no way"):
        list(side_by_side([lambda: [endless()], fails], at_once=2))
    assert still_racing() == []


def test_a_process_that_is_ended_from_outside_is_not_taken_for_one_that_has_nothing_to_say():
    def dies():
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(NetreproError, match="ended from outside"):
        list(side_by_side([dies]))


def test_a_process_that_sleeps_starts_again_after_what_it_has_given(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "SILENCE_S", 0.5)

    def sleeps_once():
        yield "first"
        if not (tmp_path / "slept").exists():
            (tmp_path / "slept").touch()
            endless()
        yield "second"

    assert [result for _, result in side_by_side([sleeps_once])] == ["first", "second"]


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
        for found in side_by_side([partial(solve_pigeons, backend)] * 2, at_once=2):
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
