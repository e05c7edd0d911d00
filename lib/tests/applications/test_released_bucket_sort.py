"""Bucket sort as RepNet's authors released it: on the loopback, and on a kernel in virtual time."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.applications.bucket_sort import released_guest as guest
from netrepro.applications.bucket_sort import run
from netrepro.applications.bucket_sort.run import ReleasedSort, sort_as_released
from netrepro.errors import NetreproError
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import leaf_spine
from netrepro.networks.workloads import Tcp
from netrepro.papers.repnet.setting import SCHEMES

LINK = Link(1000, 0.02, DropTail(packets=200))


@given(st.lists(st.integers(0, guest.VALUES - 1), max_size=500), st.integers(1, 7))
def test_every_number_leaves_once_in_a_message_of_its_slave(numbers, slaves):
    dealt = guest.deal(np.array(numbers, int), slaves)
    width = guest.VALUES / slaves
    for slave, parts in enumerate(dealt):
        assert all(len(part) == guest.NUMBERS_A_MESSAGE for part in parts[:-1])
        assert all(slave * width <= number < (slave + 1) * width for part in parts for number in part)
    back = [number for parts in dealt for part in parts for number in guest.from_text(guest.as_text(part))]
    assert sorted(back) == sorted(numbers)


def test_a_loop_takes_time_for_a_message_once(monkeypatch):
    happened = []
    monkeypatch.setattr(time, "sleep", lambda seconds: happened.append(seconds))

    async def serve(reader, writer):
        happened.append("served")
        writer.close()

    async def test():
        (address,) = _addresses(1)
        servers = [await asyncio.start_server(serve, address, guest.TO_SLAVE + more) for more in (0, 1)]
        one, other, again = (socket.socket() for _ in range(3))
        for each in (one, other, again):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.setblocking(False)
        for each in (one, other):
            each.bind((address, 0))
        again.bind(one.getsockname())  # the second connection of a message has the source port of the first
        for each, more in ((one, 0), (other, 0), (again, 1)):
            await asyncio.get_running_loop().sock_connect(each, (address, guest.TO_SLAVE + more))
        while happened.count("served") < 3:
            await asyncio.sleep(0.01)
        for each in (one, other, again, *servers):
            each.close()

    with asyncio.Runner(loop_factory=lambda: guest.OneThread(0.25)) as runner:
        runner.run(test())
    assert happened.count(0.25) == 2


def _addresses(count: int) -> list[str]:
    """Addresses of the loopback that no other test process uses."""
    return [f"127.{os.getpid() >> 8 & 127 | 128}.{os.getpid() & 255}.{place}" for place in range(1, count + 1)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_master_gets_its_numbers_back_in_order_over_the_loopback(scheme):
    addresses = _addresses(4)  # one master, three slaves
    command = [sys.executable, "-P", "-m", guest.__name__]
    programs = []
    for number, address in enumerate(addresses):
        orders = {"role": "slave" if number else "master", "number": number, "address": address, "others": addresses}
        orders |= {"slaves": [1, 2, 3], "scheme": scheme, "message_s": 0.0, "jobs": 1, "patience_s": 30.0, "seed": 3}
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program.stdin.write(json.dumps(orders) + "\n")
        program.stdin.flush()
        programs.append(program)
    try:
        assert all(program.stdout.readline() == "ready\n" for program in programs)
        programs[0].stdin.write(f"{time.monotonic()!r}\n")
        programs[0].stdin.flush()
        ((_, took_s, back_share, is_right),) = json.loads(programs[0].stdout.readline())
    finally:
        for program in programs:
            program.kill()
            program.communicate()
    assert is_right and took_s > guest.SCAN_S
    assert back_share > 0.9  # a slave sorts what it has when the end mark comes


@needs_virtual
def test_jobs_of_the_released_program_wait_for_slow_slaves_in_virtual_time():
    def sorted_by(scheme: str, message_ms: float, hosts: int = 2):
        topology = leaf_spine(2, 3, hosts, LINK, LINK)
        return sort_as_released(ReleasedSort(topology, Tcp("cubic"), scheme, message_ms / 1e3), 1, 3)

    jobs, checks = sorted_by("tcp", 0.05)
    assert len(jobs) == 4 and checks.holds.all() and (jobs.back_share > 0.9).all()
    slow, checks = sorted_by("repsyn", 1.0)
    assert checks.holds.all() and slow.took_ms.min() > jobs.took_ms.max()
    once, again = (sorted_by("repflow", 0.05, hosts=1)[0] for _ in range(2))
    assert len(once) == 2 and once.equals(again)


@needs_virtual
@pytest.mark.parametrize("role", ["slave", "master"])
def test_a_program_that_ends_early_is_named_with_its_last_words(monkeypatch, role):
    real = " ".join(run._command(guest))
    broken = f"""read -r orders; case "$orders" in *'"role": "{role}"'*) echo no more room >&2; exit 3;; esac
        (echo "$orders"; cat) | {real}"""
    monkeypatch.setattr(run, "_command", lambda _: ["sh", "-c", broken])
    with pytest.raises(NetreproError, match="the program of h1 has not sorted: no more room"):
        sort_as_released(ReleasedSort(leaf_spine(2, 3, 1, LINK, LINK), Tcp("cubic"), "tcp", 1e-4), 1, 3)
