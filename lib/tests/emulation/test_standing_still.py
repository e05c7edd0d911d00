"""Where virtual time stands still, the error tells who has the processor, what it does there, and what to do."""

import os
import re
import signal
import sys
import time
from collections import Counter

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.virtual import outside
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import star

pytestmark = needs_virtual
SMALL = star(2, Link(10.0, 5.0))


def program(*lines: str) -> list[str]:
    """A program that first sleeps, so that its start, which may take long beside other work, is over."""
    return [sys.executable, "-c", "\n".join(["import os, time", "time.sleep(1.5)", *lines])]


def stands_still(command: list[str], **how: object) -> NetreproError:
    """Run a command on h2, while another program sleeps on h1, until the error."""
    with Emulation(SMALL, "virtual", patience_s=3.0, **how) as net:  # type: ignore[arg-type]
        net["h1"].popen(["sleep", "100"])
        with pytest.raises(NetreproError, match=r"has not advanced for 3 s \(wait ") as error:
            net["h2"].run(command)
    return error.value


def test_a_program_that_spins_is_told_from_those_that_sleep():
    error = stands_still(program("while True: pass"))
    said = r"python\S* \(process \d+ on h2\) computes without a system call; while these programs run: sleep 100 on h1"
    assert re.search(said, error.problem)
    assert "spin_after_s" in error.remedy


def test_a_program_that_polls_at_no_cost_is_told_with_its_calls():
    poll = program("while time.monotonic() < 1e9: os.getppid(); os.stat('/')")
    error = stands_still(poll, syscall_cost_ns=0)
    assert re.search(r"python\S* \(process \d+ on h2\) polls, by about [\d,]+ system calls", error.problem)
    calls = error.problem.partition(" system calls a second (")[2].partition(")")[0].split(", ")
    assert {"clock_gettime", "system call 110"} & set(calls), "getppid has no name in the table"
    assert "syscall_cost_ns, such as 1000" in error.remedy


def test_who_computes_at_no_cost_is_told_that_it_is_not_watched():
    error = stands_still(program("while True: pass"), syscall_cost_ns=0)
    assert "computes without a system call" in error.problem and "give a syscall_cost_ns" in error.remedy


def test_a_program_that_polls_for_longer_than_the_patience_is_no_error_while_time_passes():
    def poll() -> float:
        begun = time.monotonic()
        while time.monotonic() < begun + 0.15:  # 150,000 system calls, of 10 us at least
            pass
        return time.monotonic() - begun

    with Emulation(SMALL, "virtual") as net:
        call = net["h1"].start(poll)
        net.sleep(0.05)  # the call has started then
        net.instance._patience_s = 1.0
        assert call.result() == pytest.approx(0.15, abs=1e-5)


def test_the_clock_is_read_from_outside_and_reading_it_takes_no_time():
    with Emulation(SMALL, "virtual") as net:
        view = net.instance._outside
        first = view.clock_ns()
        assert first == view.clock_ns() == pytest.approx(1e9 * net.monotonic_s, abs=1e6)
        net.sleep(3.0)
        assert view.clock_ns() - first == pytest.approx(3e9, rel=1e-3)
    assert view.clock_ns() is None, "the kernel has ended"


def test_a_kernel_that_waits_for_the_machine_is_told_from_one_that_computes():
    why, remedy = outside._without_programs(Counter({0: 100}), computes=False)
    assert why == "the kernel waits for this machine (read)" and "named pipe" in remedy
    for kernel_in, computes in ((Counter({None: 80, 61: 20}), True), (Counter({61: 100}), False)):
        why, remedy = outside._without_programs(kernel_in, computes)
        assert "the kernel itself computes" in why and "give each path a rate" in remedy


def test_a_program_without_an_answer_has_no_name():
    """A stopped kernel answers nobody, and a process that has ended has done nothing."""
    with Emulation(SMALL, "virtual", patience_s=60.0) as net:
        view = net.instance._outside
        kernel = view.kernel
        os.kill(kernel, signal.SIGSTOP)
        try:
            assert view._name(view.programs()[0], lambda: "") == "a program"
        finally:
            os.kill(kernel, signal.SIGCONT)
        assert net["h1"].run(["echo", "on"]).stdout == "on\n"
    assert (view.programs(), outside.stops_of(kernel), outside.state_of(kernel)) == ([], 0, "")
