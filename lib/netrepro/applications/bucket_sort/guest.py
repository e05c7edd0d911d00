"""Distributed bucket sort over asyncio's streams or RepNet's: Liu et al., "RepNet" (IEEE TSC 2018), section 5.3.

A master scans numbers and sends each to the slave in whose range it is, in messages of 20 numbers of two bytes each. A
slave counts the numbers and returns its range sorted; the master joins the ranges. Processor time is simulated by
waiting: the orders give the duration of a scan, and of a slave's writing of a range. Each slave writes one range at a
time.

The program is one host, which is master and slave at once. It reads its orders, a line of JSON on standard input, and
writes "ready" once it listens. It reads the time to begin (s, CLOCK_MONOTONIC), sorts one array after the other, up to
a number or a time, and then writes how long each took.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from netrepro.applications.repnet.guest import WAITING_S, say
from netrepro.transport import open_connection, start_server

VALUES = 65_536  # numbers are 0..VALUES - 1
NUMBER_BYTES = 2
NUMBERS_A_MESSAGE = 20
SCAN_STEPS = 76  # steps of a scan, at whose ends messages leave: one millisecond each at the published rate
REST_SPREAD = 1 / 3  # a master's rest is uniform within this share of its mean
PORT = 7000  # RepNet also uses 7001
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def whole_messages(scanned: np.ndarray) -> np.ndarray:
    """Compute how many numbers have been sent to a slave by the end of each step, from the number scanned for it: those
    of whole messages, and in the last step all. A message that has just become full waits for the next number."""
    left = np.maximum((scanned - 1) // NUMBERS_A_MESSAGE * NUMBERS_A_MESSAGE, 0)
    left[-1] = scanned[-1]
    return left


def messages(numbers: np.ndarray, slaves: int) -> Iterator[list[bytes]]:
    """Return, for each step of a scan, the bytes that are sent to every slave.

    numbers : integers from 0 to VALUES - 1; slave i gets those from i VALUES / slaves on.
    """
    bucket = numbers * slaves // VALUES
    ends = len(numbers) * np.arange(1, SCAN_STEPS + 1) // SCAN_STEPS
    parts = []
    for slave in range(slaves):
        places = np.flatnonzero(bucket == slave)
        parts.append(np.split(numbers[places], whole_messages(np.searchsorted(places, ends))[:-1]))
    return ([as_bytes(part) for part in step] for step in zip(*parts, strict=True))


def draw_rest_s(rest_s: float, random: np.random.Generator) -> float:
    """Draw a master's pause after a job, in seconds; in it, the master makes the next array."""
    return rest_s * float(random.uniform(1 - REST_SPREAD, 1 + REST_SPREAD))


def as_bytes(numbers: np.ndarray) -> bytes:
    """Encode numbers as two bytes each."""
    return numbers.astype("<u2").tobytes()


class Processor:
    """A slave's processor, which writes one range at a time, each in `range_s` seconds."""

    def __init__(self, range_s: float):
        self._range_s, self._free_s = range_s, 0.0

    def done_s(self, now_s: float) -> float:
        """Add one more range; return the time at which it will be written."""
        self._free_s = max(now_s, self._free_s) + self._range_s
        return self._free_s


async def sort_bucket(processor: Processor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as slave: count the numbers of a connection while they arrive, and return them sorted."""
    counts, rest = np.zeros(VALUES, dtype=np.int64), b""
    try:
        while block := await reader.read(65_536):
            block = rest + block
            whole = len(block) // NUMBER_BYTES * NUMBER_BYTES
            counts += np.bincount(np.frombuffer(block[:whole], "<u2"), minlength=VALUES)
            rest = block[whole:]
        now_s = time.monotonic()
        await asyncio.sleep(processor.done_s(now_s) - now_s)
        values = np.flatnonzero(counts)
        writer.write(as_bytes(np.repeat(values, counts[values])))
        writer.write_eof()
    except OSError:
        pass  # the master sees an incomplete answer
    writer.close()


async def sort(numbers: np.ndarray, streams: Sequence[Stream], scan_s: float = 0.0) -> bytes:
    """Act as master: return the numbers sorted by the slaves behind the streams, which are then closed."""
    began_s = time.monotonic()
    for place, parts in enumerate(messages(numbers, len(streams)), 1):
        await asyncio.sleep(began_s + scan_s * place / SCAN_STEPS - time.monotonic())
        for (_, writer), part in zip(streams, parts, strict=True):
            if part:
                writer.write(part)
    for _, writer in streams:
        writer.write_eof()
    ranges = await asyncio.gather(*(reader.read() for reader, _ in streams))
    for _, writer in streams:
        writer.close()
    return b"".join(ranges)


async def _listen(orders: dict[str, Any]) -> None:
    slave, address = partial(sort_bucket, Processor(orders["range_s"])), orders["address"]
    if orders["scheme"] == "tcp":
        await asyncio.start_server(slave, address, PORT)
    else:
        await start_server(slave, address, PORT, threshold_bytes=orders["threshold_bytes"], waiting_s=WAITING_S)


Job = tuple[float, float, bool]  # start (s), duration (s), whether the result is sorted


async def _job(orders: dict[str, Any], random: np.random.Generator, begin_s: float) -> Job:
    """Run one job; its start counts from `begin_s`. A job that loses a connection, or takes longer than allowed, counts
    as not sorted."""
    connect: Any = asyncio.open_connection
    if orders["scheme"] != "tcp":
        connect = partial(open_connection, mode=orders["scheme"], threshold_bytes=orders["threshold_bytes"])
    numbers, sorted_here = random.integers(0, VALUES, orders["numbers"]), b""
    start_s = time.monotonic() - begin_s
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(orders["seconds"] + orders["patience_s"] - start_s):
            streams = await asyncio.gather(*(connect(address, PORT) for address in orders["slaves"]))
            sorted_here = await sort(numbers, streams, orders["scan_s"])
    took_s = time.monotonic() - begin_s - start_s
    return start_s, took_s, sorted_here == as_bytes(np.sort(numbers))


async def _jobs(orders: dict[str, Any], begin_s: float) -> list[Job]:
    """Run as many jobs as ordered, or as begin within the ordered seconds; the first begins at a random time."""
    random = np.random.default_rng(orders["seed"])
    jobs: list[Job] = []
    await asyncio.sleep(begin_s + random.uniform(0, orders["starts_within_s"]) - time.monotonic())
    while len(jobs) < orders["jobs"] and time.monotonic() - begin_s < orders["seconds"]:
        jobs.append(await _job(orders, random, begin_s))
        await asyncio.sleep(draw_rest_s(orders["rest_s"], random))
    return jobs


async def _run(orders: dict[str, Any]) -> None:
    await _listen(orders)
    say("ready")
    begin_s = float(await asyncio.to_thread(sys.stdin.readline))
    say(json.dumps(await _jobs(orders, begin_s)))
    await asyncio.Event().wait()  # others' jobs may still be under way; this ends with the network


if __name__ == "__main__":
    asyncio.run(_run(json.loads(sys.stdin.readline())))
