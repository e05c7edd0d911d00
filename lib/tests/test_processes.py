"""Work in forked processes: a race that the first answer wins, and many answers side by side."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from netrepro import NetreproError, processes
from netrepro.processes import Race, as_they_come, in_processes


def endless() -> str:
    time.sleep(600)
    return "too late"


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


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and that nobody has waited for is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], bool]) -> bool:
    """Wait until it holds, for 30 s at most, which is long on any machine; tell whether it does."""
    gives_up_s = time.monotonic() + 30
    while not holds() and time.monotonic() < gives_up_s:
        time.sleep(0.05)
    return holds()


def test_a_runner_dies_with_an_owner_that_is_killed(tmp_path):
    said = tmp_path / "pid"

    def runs_on() -> str:
        (tmp_path / "new").write_text(str(os.getpid()))
        (tmp_path / "new").rename(said)
        return endless()

    owner = multiprocessing.get_context("fork").Process(target=Race([runs_on]).run)
    owner.start()
    assert wait_until(said.exists)
    runner = int(said.read_text())
    try:
        assert is_alive(runner)
        owner.kill()
        owner.join()
        assert wait_until(lambda: not is_alive(runner))
    finally:
        if is_alive(runner):
            os.kill(runner, signal.SIGKILL)


# --- many answers ---


def counts_to(last: int) -> range:
    return range(1, last + 1)


def test_what_each_process_gives_comes_in_its_order_and_with_its_number():
    found = list(as_they_come([partial(counts_to, last) for last in (3, 0, 2)], at_once=2))
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
    for _ in as_they_come([partial(counts_to, 2)] * 5, at_once=2):
        seen.append(len(still_racing()))
    assert max(seen) <= 2 and still_racing() == []


def test_an_error_in_one_process_is_raised_and_ends_the_others():
    def fails():
        yield 1
        raise NetreproError("no way", "go back")

    with pytest.raises(NetreproError, match="no way"):
        list(as_they_come([lambda: [endless()], fails], at_once=2))
    assert still_racing() == []


def test_a_process_that_is_ended_from_outside_is_not_taken_for_one_that_has_nothing_to_say():
    def dies():
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(NetreproError, match="ended from outside"):
        list(as_they_come([dies]))


def test_a_process_that_sleeps_starts_again_after_what_it_has_given(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "SILENCE_S", 0.5)

    def sleeps_once():
        yield "first"
        if not (tmp_path / "slept").exists():
            (tmp_path / "slept").touch()
            endless()
        yield "second"

    assert [result for _, result in as_they_come([sleeps_once])] == ["first", "second"]


def test_what_costs_most_starts_first():
    started_ns = in_processes(lambda _: time.monotonic_ns(), [(1,), (3,), (2,)], at_a_time=3, cost=float)
    assert started_ns[1] < started_ns[2] < started_ns[0]
