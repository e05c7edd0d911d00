"""Bucket sort (Liu et al., "RepNet", section 5.3): what it sorts, over sockets and kernels, and its traffic."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.applications.bucket_sort import guest
from netrepro.applications.bucket_sort.run import Sort, emulate_sort, simulate_sort, sort_in_virtual_time
from netrepro.emulation.tiers import probe_tiers
from netrepro.networks.links import DropTail, Link, SharedBuffer
from netrepro.networks.topology import leaf_spine
from netrepro.networks.workloads import Tcp
from netrepro.transport import open_connection, start_server

SCHEMES = ("tcp", "repflow", "repsyn")
LINK = Link(1000.0, 0.0215, SharedBuffer(bytes=4_000_000, alpha=0.21))
SLOW = Link(2.0, 0.0, DropTail(packets=50))
OLD_LINUX = Tcp(
    "cubic",
    initial_window_segments=3,
    min_rto_ms=10.0,
    initial_rto_ms=1000.0,
    delayed_ack_ms=40.0,
    tail_loss_probe=False,
)


def test_the_messages_are_the_numbers_in_the_order_of_a_scan():
    numbers = np.random.default_rng(1).integers(0, guest.VALUES, 3000)
    steps = list(guest.messages(numbers, 11))
    sent = [[np.frombuffer(part, "<u2") for part in step] for step in steps]
    for slave in range(11):
        mine = np.concatenate([step[slave] for step in sent])
        assert mine.tolist() == [n for n in numbers.tolist() if n * 11 // guest.VALUES == slave]
    # In whole messages, but for the last, and only of what was scanned by then.
    assert all(len(part) % 20 == 0 for step in sent[:-1] for part in step)
    for place, step in enumerate(sent, 1):
        scanned = set(numbers[: 3000 * place // len(sent)].tolist())
        assert all(scanned.issuperset(part.tolist()) for part in step)


@pytest.mark.parametrize("name", SCHEMES)
def test_it_sorts_over_real_sockets(name):
    async def test() -> bytes:
        server: Any = await (asyncio.start_server if name == "tcp" else start_server)(
            partial(guest.sort_bucket, guest.Processor(0.0)), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        connect: Any = asyncio.open_connection if name == "tcp" else partial(open_connection, mode=name)
        streams = [await connect("127.0.0.1", port) for _ in range(5)]
        in_order = await guest.sort(numbers, streams)
        server.close()
        return in_order

    numbers = np.random.default_rng(2).integers(0, guest.VALUES, 4000)
    assert asyncio.run(test()) == guest.as_bytes(np.sort(numbers))


PROMPT = replace(OLD_LINUX, delayed_ack_ms=5.0)


def simulated(jobs: int, scheme: str = "tcp", tcp: Tcp = PROMPT, **changes: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate jobs of 20,000 numbers by twelve hosts at 1 Gb/s."""
    how = {"threshold_bytes": 100_000, "starts_within_s": 0.002, "scan_s": 0.005, "range_s": 0.002, "rest_s": 0.004}
    sort = Sort(leaf_spine(2, 3, 6, LINK, LINK), tcp, scheme, 20_000, **how | changes)
    return simulate_sort(sort, jobs, 5, 1.0)


def test_masters_begin_within_the_time_and_each_job_after_the_last_one_of_its_master():
    jobs, _ = simulated(3, rest_s=0.1)
    assert len(jobs) == 36
    assert (jobs.start_s[:12] < 0.002).all() and (jobs.start_s[12:] > 0.05).all()
    assert len(simulated(3, one_master=True)[0]) == 3


def test_jobs_that_share_links_take_longer_than_alone_and_the_same_seed_gives_the_same_jobs():
    together, alone = (simulated(4, one_master=one)[0].took_ms for one in (False, True))
    assert together.median() > alone.median()
    assert simulated(4)[0].took_ms.equals(together)


@pytest.mark.parametrize("name", SCHEMES[1:])
@pytest.mark.parametrize("same_path", [False, True])
def test_simulated_streams_of_two_connections_carry_every_job(name, same_path):
    for threshold_bytes in (1000, 100_000):  # below what a stream has, and above
        jobs, checks = simulated(2, name, same_path=same_path, threshold_bytes=threshold_bytes)
        assert len(jobs) == 24 and checks.holds.all()


@pytest.mark.parametrize("same_path", [False, True])
def test_a_stream_waits_for_the_copies_of_the_connection_that_it_closes(same_path):
    jobs, checks = simulated(2, "repflow", Tcp("cubic"), same_path=same_path)
    assert len(jobs) == 24 and checks.holds.all()


@pytest.mark.parametrize("name", ["tcp", "repflow"])
def test_every_host_sorts_through_real_kernels(name):
    tier = probe_tiers().best
    if tier == "simulated":
        pytest.skip("needs user namespaces")
    sort = Sort(leaf_spine(2, 3, 3, SLOW, SLOW), Tcp("cubic"), name, 500, 100, 0.1, 0.02, 0.001, 0.05)
    jobs, checks = emulate_sort(sort, 2.0, 1, tier)
    assert len(jobs) >= 6 and (jobs.took_ms > 0).all()
    assert checks.set_index("check").loc["arrays that came out sorted", "holds"]


@needs_virtual
@pytest.mark.parametrize("name", ["tcp", "repflow"])
def test_every_host_sorts_in_virtual_time_and_alike_again(name):
    # Of six hosts: most of the time is that of their programs' start.
    sort = Sort(leaf_spine(2, 3, 3, LINK, LINK), OLD_LINUX, name, 3000, 100_000, 0.01, 0.02, 0.002, 0.05)
    jobs, checks = sort_in_virtual_time(sort, 2, 1)
    assert len(jobs) == 12 and checks.holds.all()
    # Processor time and the answers at least.
    assert (jobs.took_ms > 20 + 2 + 3000 * 2 * 8 / 1e6).all() and (jobs.start_s < 0.02).sum() == 6
    again, _ = sort_in_virtual_time(sort, 2, 1)
    assert again.equals(jobs)
