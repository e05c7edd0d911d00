"""Distributed bucket sort over asyncio's streams or RepNet's: Liu et al., "RepNet" (IEEE TSC 2018), section 5.3.

A master scans numbers and sends them, 20 to a message, to the slaves whose ranges they are in; a slave counts what
arrives and returns its range sorted; the master joins the ranges. As a program it is one host, which is master and
slave at once: it is given its orders in a line of JSON on standard input, says "ready" once it listens, waits for the
time to begin (s, CLOCK_MONOTONIC), sorts one array after the other, or one in each of so many rounds, and at the end
writes how long each took.
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
NUMBERS_A_MESSAGE = 20
PORT = 7000  # and 7001
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def messages(numbers: np.ndarray, slaves: int) -> Iterator[tuple[int, bytes]]:
    """Give (slave, text) of every message, in the order in which a scan fills them; what is left comes last.

    numbers : integers from 0 to VALUES - 1; slave i has those from i VALUES / slaves on.
    """
    bucket = numbers * slaves // VALUES
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=slaves))
    filled = []
    for slave, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        for start in range(first, last, NUMBERS_A_MESSAGE):
            part = order[start : min(start + NUMBERS_A_MESSAGE, last)]
            is_full = len(part) == NUMBERS_A_MESSAGE
            filled.append((part[-1] if is_full else len(numbers), slave, as_text(numbers[part])))
    return ((slave, text) for _, slave, text in sorted(filled, key=lambda each: each[:2]))


def as_text(numbers: np.ndarray) -> bytes:
    """Write numbers as text, one a line."""
    return "".join([f"{number}\n" for number in numbers.tolist()]).encode()


async def sort_bucket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as slave: count the numbers of a connection while they arrive, and return them sorted."""
    counts, rest = np.zeros(VALUES, dtype=np.int64), b""
    try:
        while block := await reader.read(65_536):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                np.add.at(counts, np.array(whole.split(), dtype=np.int64), 1)
        values = np.flatnonzero(counts)
        writer.write(as_text(np.repeat(values, counts[values])))
        writer.write_eof()
    except OSError:
        pass  # the master sees an answer without an end
    writer.close()


async def sort(numbers: np.ndarray, streams: Sequence[Stream]) -> bytes:
    """Act as master: return the numbers sorted, as text, by the slaves behind the streams, which are then closed."""
    for slave, text in messages(numbers, len(streams)):
        streams[slave][1].write(text)
    for _, writer in streams:
        writer.write_eof()
    ranges = await asyncio.gather(*(reader.read() for reader, _ in streams))
    for _, writer in streams:
        writer.close()
    return b"".join(ranges)


async def _listen(scheme: str, address: str, threshold_bytes: int) -> None:
    if scheme == "tcp":
        await asyncio.start_server(sort_bucket, address, PORT)
    else:
        await start_server(sort_bucket, address, PORT, threshold_bytes=threshold_bytes, waiting_s=WAITING_S)


Job = tuple[float, float, bool]  # its start, seconds taken, whether it came out sorted


async def _job(orders: dict[str, Any], random: np.random.Generator, begin_s: float, end_s: float) -> Job:
    """Run one job; times are since `begin_s`. One that has lost a connection, or has not ended at `end_s`, is not
    sorted."""
    connect: Any = asyncio.open_connection
    if orders["scheme"] != "tcp":
        connect = partial(open_connection, mode=orders["scheme"], threshold_bytes=orders["threshold_bytes"])
    numbers, text = random.integers(0, VALUES, orders["numbers"]), b""
    start_s = time.monotonic() - begin_s
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(end_s - start_s):
            streams = await asyncio.gather(*(connect(address, PORT) for address in orders["slaves"]))
            text = await sort(numbers, streams)
    took_s = time.monotonic() - begin_s - start_s
    return start_s, took_s, text == as_text(np.sort(numbers))


async def _jobs(orders: dict[str, Any], begin_s: float) -> list[Job]:
    """In each round a job, which begins at random within a time; in the orders' seconds of it that are left, others."""
    random, jobs = np.random.default_rng(orders["seed"]), []
    for place in range(orders["rounds"]):
        round_s = begin_s + place * orders["round_s"]
        end_s = place * orders["round_s"] + orders["seconds"]
        await asyncio.sleep(round_s + random.uniform(0, orders["starts_within_s"]) - time.monotonic())
        jobs.append(await _job(orders, random, begin_s, end_s + orders["patience_s"]))
        while time.monotonic() - begin_s < end_s:
            jobs.append(await _job(orders, random, begin_s, end_s + orders["patience_s"]))
    return jobs


async def _run(orders: dict[str, Any]) -> None:
    await _listen(orders["scheme"], orders["address"], orders["threshold_bytes"])
    say("ready")
    begin_s = float(await asyncio.to_thread(sys.stdin.readline))
    say(json.dumps(await _jobs(orders, begin_s)))
    await asyncio.Event().wait()  # others' jobs may still be under way; this ends with the network


if __name__ == "__main__":
    asyncio.run(_run(json.loads(sys.stdin.readline())))
