"""Shared code of the programs inside the nodes. They are run by path and import nothing of netrepro, to start fast."""

from __future__ import annotations

import array
import asyncio
import contextlib
import ctypes
import fcntl
import json
import logging
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any


def begin() -> dict[str, Any]:
    """Read and return the work, a line of JSON on standard input; set the program's name and the host's sysctls."""
    logging.disable(logging.CRITICAL)
    work = json.loads(sys.stdin.readline())
    ctypes.CDLL(None).prctl(15, work["name"].encode())  # PR_SET_NAME: the watcher reads this name as the application
    for name, value in work.get("sysctls", {}).items():
        Path("/proc/sys", name).write_text(str(value))
    if "whole_packets" in work:
        _segment_early(work["whole_packets"])
    return work


def _segment_early(interface: str) -> None:
    """Switch off segmentation offload (`ethtool -K interface tso off`), so that no oversized packets are captured."""
    value = array.array("B", struct.pack("=II", 0x1F, 0))  # ETHTOOL_STSO
    request = struct.pack("=16sQ16x", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8946, request)  # SIOCETHTOOL


def say(answer: Any) -> None:
    """Write a line of JSON to standard output, for the generator."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def told_to_stop() -> threading.Event:
    """Return an event that the generator's SIGTERM sets."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    return stopped


def stop_of_loop() -> asyncio.Event:
    """Return such an event for programs with an event loop."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    return stopped


async def keep_to_schedule(begin_s: float, times_s: list[float], act: Callable[[int], Awaitable[None]]) -> int:
    """Begin act(i) at `begin_s` (monotonic clock) plus each of `times_s`; return the number of failed calls."""
    failed = 0

    async def once(i: int) -> None:
        nonlocal failed
        await asyncio.sleep(max(0.0, begin_s + times_s[i] - time.monotonic()))
        try:
            await asyncio.wait_for(act(i), 60)
        except Exception:  # a server that is slow or a connection that breaks off is part of the traffic
            failed += 1

    await asyncio.gather(*(once(i) for i in range(len(times_s))))
    return failed


def own_random(work: dict[str, Any], number: int) -> random.Random:
    """Make the random generator of one session, so that parallel sessions do not affect each other."""
    return random.Random(f"{work['seed']} {number}")


def lognormal_bytes(rng: random.Random, median: float, sigma: float, least: int, most: int) -> int:
    """Draw a log-normal size in bytes, limited to `least` and `most`."""
    return int(min(most, max(least, rng.lognormvariate(0, sigma) * median)))


async def close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Exception):
        writer.close()
        await writer.wait_closed()
