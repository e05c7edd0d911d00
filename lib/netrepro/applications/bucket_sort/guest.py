"""Distributed bucket sort over asyncio's streams or RepNet's: Liu et al., "RepNet" (IEEE TSC 2018), section 5.3.

A master scans numbers and sends them, 20 to a message and two bytes each, to the slaves whose ranges they are in; a
slave counts what arrives and returns its range sorted; the master joins the ranges. Processor time is told, not taken:
a scan lasts as long as the orders say, and so does a slave's writing of a range, one after the other at each slave. As
a program it is one host, which is master and slave at once: it is given its orders in a line of JSON on standard input,
says "ready" once it listens, waits for the time to begin (s, CLOCK_MONOTONIC), sorts one array after the other, so many
or until a time, and at the end writes how long each took.
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

VALUES = 65_536  # numbers are below
NUMBER_BYTES = 2
NUMBERS_A_MESSAGE = 20
SCAN_STEPS = 76  # in which messages leave: a millisecond each of a scan at the published rate
REST_SPREAD = 1 / 3  # a master rests its mean time, give or take evenly so much of it
PORT = 7000  # and 7001
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def whole_messages(scanned: np.ndarray) -> np.ndarray:
    """Compute how many numbers have left for a slave, given how many were scanned by the end of each step: those of
    whole messages, and in the last step all; a message that is just full waits for the next number."""
    left = np.maximum((scanned - 1) // NUMBERS_A_MESSAGE * NUMBERS_A_MESSAGE, 0)
    left[-1] = scanned[-1]
    return left


def messages(numbers: np.ndarray, slaves: int) -> Iterator[list[bytes]]:
    """Give what leaves in each step of a scan, for every slave.

    numbers : integers from 0 to VALUES - 1; slave i has those from i VALUES / slaves on.
    """
    bucket = numbers * slaves // VALUES
    ends = len(numbers) * np.arange(1, SCAN_STEPS + 1) // SCAN_STEPS
    parts = []
    for slave in range(slaves):
        places = np.flatnonzero(bucket == slave)
        parts.append(np.split(numbers[places], whole_messages(np.searchsorted(places, ends))[:-1]))
    return ([as_bytes(part) for part in step] for step in zip(*parts, strict=True))


def draw_rest_s(rest_s: float, random: np.random.Generator) -> float:
    """Draw how long a master rests after a job, while it makes the next array."""
    return rest_s * float(random.uniform(1 - REST_SPREAD, 1 + REST_SPREAD))


def as_bytes(numbers: np.ndarray) -> bytes:
    """Write numbers as two bytes each."""
    return numbers.astype("<u2").tobytes()


class Processor:
    """A slave's processor, which writes one range after the other, each in so many seconds."""

    def __init__(self, range_s: float):
        self._range_s, self._free_s = range_s, 0.0

    def done_s(self, now_s: float) -> float:
        """Take on one more range; return when it will be written."""
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
        pass  # the master sees an answer without an end
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


Job = tuple[float, float, bool]  # its start, seconds taken, whether it came out sorted


async def _job(orders: dict[str, Any], random: np.random.Generator, begin_s: float) -> Job:
    """Run one job; times are since `begin_s`. One that has lost a connection, or has not ended when patience does, is
    not sorted."""
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
    """Run the orders' jobs, or those that begin within their seconds, the first at random within a time."""
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
