"""The time that budgets limit: with the machine to itself it is the clock's, and what others take does not count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from netrepro.workbench.running.used_time import UsedTime, look_at, used_s

Start = Callable[..., subprocess.Popen]
COMPUTES = "while True: pass"
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTES!r}])"
IN_A_THREAD = (
    f"import threading, time; threading.Thread(target=lambda: exec({COMPUTES!r}), daemon=True).start(); time.sleep(600)"
)
SLEEPS = "import time; time.sleep(600)"


@pytest.fixture
def start() -> Iterator[Start]:
    """Programs that are killed with what they have started, and that share one processor."""
    processor = min(os.sched_getaffinity(0))
    started = []

    def begin(program: str) -> subprocess.Popen:
        pinned = f"import os; os.sched_setaffinity(0, [{processor}])\n{program}"
        started.append(subprocess.Popen([sys.executable, "-c", pinned], start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(holds: Callable[[], bool]) -> None:
    gives_up_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < gives_up_s
        time.sleep(0.05)


def test_what_waits_for_a_processor_uses_what_it_gets_and_what_waits_for_time_uses_it():
    assert used_s(10.0, 2.5, wants_to_go_on=True) == 2.5
    assert used_s(10.0, 0.1, wants_to_go_on=False) == 10.0
    assert used_s(10.0, 40.0, wants_to_go_on=True) == 10.0  # four processors at once, ten seconds long


@pytest.mark.parametrize("program", [COMPUTES, IN_A_CHILD, IN_A_THREAD])
def test_work_is_seen_wherever_it_is_done(start, program):
    process = start(program)
    until(lambda: look_at(process.pid)[0] > 0.3 and look_at(process.pid)[1])


def test_a_run_beside_others_uses_less_than_the_clock_says_and_a_sleeping_one_as_much(start):
    busy, sleeping = start(COMPUTES), start(SLEEPS)
    for _ in range(4):
        start(COMPUTES)
    until(lambda: look_at(busy.pid)[0] > 0.1 and not look_at(sleeping.pid)[1])
    used, slept, began_s = UsedTime(busy.pid), UsedTime(sleeping.pid), time.monotonic()
    used.now_s()
    before = look_at(busy.pid)[0]
    until(lambda: look_at(busy.pid)[0] > before + 0.3 and time.monotonic() > began_s + 1.5)
    passed_s = time.monotonic() - began_s
    assert used.now_s() < 0.7 * passed_s
    assert slept.now_s() > 0.7 * passed_s


def test_a_program_that_has_ended_uses_nothing(start):
    process = start("pass")
    process.wait()
    assert look_at(process.pid) == (0.0, False)


def test_processes_may_end_while_they_are_looked_at(start):
    process = start("import subprocess\nwhile True: subprocess.run(['/bin/true'])")
    ends_s = time.monotonic() + 1.0
    while time.monotonic() < ends_s:
        look_at(process.pid)
