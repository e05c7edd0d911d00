"""Bucket sort with a connection for each message, as RepNet's authors released it: NetX-lab/RepNet-Experiments,
app_repnetsorting (cbee475); Liu et al., "RepNet" (IEEE TSC 2018), section 5.3.

A master sends its numbers to six slaves, in messages of 20, each over a connection of its own. It opens all of them in
one turn of its loop, and then one more to each slave, with an end mark. A slave that gets an end mark sorts what it has
of the job, whether or not all messages have come, and tells the master over one more connection. The master fetches the
sorted numbers over plain TCP. A job ends with the sixth answer.

A slave is one thread with one accept queue, which all masters of the other rack fill. It takes connections one after
the other. Processor time is simulated by sleeping.

The program is a master or a slave. It reads its orders, a line of JSON on standard input, and writes "ready" once it
listens. A master then reads the time to begin (s, CLOCK_MONOTONIC), runs its jobs, and writes their times.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import resource
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from netrepro.applications.bucket_sort.guest import NUMBERS_A_MESSAGE
from netrepro.applications.repnet.guest import WAITING_S, say
from netrepro.transport import open_connection, start_server

VALUES = 6000  # numbers are 0..VALUES - 1
NUMBERS = 10_000
TO_SLAVE, TO_MASTER, ANSWERS = 5600, 5700, 5800  # ports; RepNet also uses the next one
ACCEPT_QUEUE = 128  # net.core.somaxconn of kernels of that time; the program asks for more
HEADER = struct.Struct("!HHI")  # master or slave, numbers of a message (0: the end mark), job
REST_S, REST_MORE_S = 1.0, 0.1  # between two jobs; what a new process takes is random here
# Processor time: a master's scan, one more connection, its message; a slave's answer. Without it, a kernel in virtual
# time would get all messages of a job at one instant, more than a host's queue holds.
SCAN_S, CONNECT_S, WRITE_S, RANGE_S = 20e-3, 0.05e-3, 0.05e-3, 2e-3
TIMER_SLACK = 29  # PR_SET_TIMERSLACK: else each sleep lasts 50 us longer
STEPS_OF_CONNECT = 3  # of the loop, after which both SYNs of a stream have left
Message = tuple[str, int, bytes]  # address, port, content
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def deal(numbers: np.ndarray, slaves: int) -> list[list[np.ndarray]]:
    """Cut each slave's numbers into messages of 20; the last one may be shorter. numbers : integers from 0 to VALUES -
    1; slave i gets those from i VALUES / slaves on."""
    bucket = numbers * slaves // VALUES
    parts = (numbers[bucket == slave] for slave in range(slaves))
    return [np.split(part, range(NUMBERS_A_MESSAGE, len(part), NUMBERS_A_MESSAGE)) for part in parts]


def as_text(numbers: Sequence[int] | np.ndarray) -> bytes:
    """Encode numbers as a text, as the authors do."""
    return ",".join(map(str, numbers)).encode()


def from_text(text: bytes) -> list[int]:
    """Decode `as_text`."""
    return [int(word) for word in text.split(b",")] if text else []


class OneThread(asyncio.SelectorEventLoop):
    """An event loop that takes connections as Node does: it serves each before it takes the next one, until the queue
    is empty. asyncio empties the queue first, so that hardly a queue fills.

    message_s : processor time for a message. Its second connection, which has the same source port, takes none.
    """

    def __init__(self, message_s: float = 0.0):
        super().__init__()
        self._message_s = message_s
        self._one_is_there: set[tuple[str, int]] = set()  # ports hardly come twice in a run

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """Listen, with an accept queue of its own."""
        listening = _Listening(socket.AF_INET, socket.SOCK_STREAM)
        listening.on_accept = self._serve if port in (TO_SLAVE, TO_SLAVE + 1) else None
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        start = options.get("start_serving", True)
        return await super().create_server(protocol_factory, sock=listening, backlog=ACCEPT_QUEUE, start_serving=start)

    def _serve(self, client: tuple[str, int]) -> None:
        if client in self._one_is_there:
            self._one_is_there.remove(client)
        else:
            self._one_is_there.add(client)
            time.sleep(self._message_s)


class _Listening(socket.socket):
    """A listening socket that reports each connection that is taken."""

    on_accept: Callable[[tuple[str, int]], None] | None

    def accept(self) -> tuple[socket.socket, Any]:
        connection, client = super().accept()
        if self.on_accept:
            self.on_accept(client)
        return connection, client


class _Program:
    """A master or a slave: it listens and sends messages."""

    def __init__(self, orders: dict[str, Any]):
        self._orders = orders
        self._number: int = orders["number"]
        self._connect: Any = asyncio.open_connection
        if orders["scheme"] != "tcp":
            self._connect = partial(open_connection, mode=orders["scheme"])
        self._sending: set[asyncio.Task[None]] = set()

    async def _listen(self, serve: Serve, port: int, plain: bool = False) -> None:
        if plain or self._orders["scheme"] == "tcp":
            await asyncio.start_server(serve, self._orders["address"], port)
        else:
            await start_server(serve, self._orders["address"], port, waiting_s=WAITING_S)

    async def _send(self, *messages: Message) -> None:
        """Open a connection for each message; none is written before all are opened, in one turn of Node's loop."""
        turn = asyncio.Event()
        for message in messages:
            time.sleep(CONNECT_S)
            task = asyncio.ensure_future(self._send_one(turn, *message))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            for _ in range(STEPS_OF_CONNECT):
                await asyncio.sleep(0)
        turn.set()

    async def _send_one(self, turn: asyncio.Event, address: str, port: int, message: bytes) -> None:
        """Send one message. A message whose connection cannot be opened is lost, as with the authors."""
        with contextlib.suppress(OSError):
            reader, writer = await self._connect(address, port)
            await turn.wait()
            time.sleep(WRITE_S)
            writer.write(message)
            writer.write_eof()
            await reader.read()
            writer.close()


class Slave(_Program):
    """A slave: it keeps what has come of each master's job."""

    def __init__(self, orders: dict[str, Any]):
        super().__init__(orders)
        self._numbers: dict[tuple[int, int], list[int]] = {}

    async def run(self) -> None:
        """Serve masters until the network ends."""
        await self._listen(self._take, TO_SLAVE)
        await self._listen(self._answer, ANSWERS, plain=True)
        say("ready")
        await asyncio.Event().wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            master, count, job = HEADER.unpack(await reader.readexactly(HEADER.size))
            mine = self._numbers.setdefault((master, job), [])
            mine += from_text(await reader.read())
            if not count:
                told = self._orders["others"][master], TO_MASTER, HEADER.pack(self._number, 0, job)
                await self._send(told)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            master, _, job = HEADER.unpack(await reader.readexactly(HEADER.size))
            time.sleep(RANGE_S)
            writer.write(as_text(sorted(self._numbers.get((master, job), []))))
        writer.close()


Job = tuple[float, float, float, bool]  # start (s), duration (s), share of the numbers that came back, is right


class Master(_Program):
    """A master, which runs one job after the other."""

    def __init__(self, orders: dict[str, Any]):
        super().__init__(orders)
        self._answers: asyncio.Queue[tuple[int, int, list[int]]] = asyncio.Queue()

    async def run(self) -> None:
        """Run the jobs, write their times, and stay until the network ends."""
        await self._listen(self._hear, TO_MASTER)
        say("ready")
        begin_s = float(await asyncio.to_thread(sys.stdin.readline))
        random, jobs = np.random.default_rng(self._orders["seed"]), []
        await asyncio.sleep(begin_s + random.uniform(0, REST_S) - time.monotonic())
        for job in range(self._orders["jobs"]):
            jobs.append(await self._job(job, random, begin_s))
            await asyncio.sleep(REST_S + random.uniform(0, REST_MORE_S))
        say(json.dumps(jobs))
        await asyncio.Event().wait()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            slave, _, job = HEADER.unpack(await reader.readexactly(HEADER.size))
            await self._fetch(slave, job)
        writer.close()

    async def _job(self, job: int, random: np.random.Generator, begin_s: float) -> Job:
        slaves = [self._orders["others"][number] for number in self._orders["slaves"]]
        dealt = deal(random.integers(0, VALUES, NUMBERS), len(slaves))
        start_s = time.monotonic()
        time.sleep(SCAN_S)
        header = partial(HEADER.pack, self._number)
        messages = [
            (address, TO_SLAVE, header(len(part), job) + as_text(part))
            for address, parts in zip(slaves, dealt, strict=True)
            for part in parts
        ]
        order = random.permutation(len(messages))  # as the numbers come, which are random
        ends = [(address, TO_SLAVE, header(0, job)) for address in slaves]
        await self._send(*(messages[place] for place in order), *ends)
        ranges: dict[int, list[int]] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._orders["patience_s"]):
                while len(ranges) < len(slaves):
                    slave, of_job, answer = await self._answers.get()
                    if of_job == job:
                        ranges[slave] = answer
        took_s = time.monotonic() - start_s
        for task in self._sending:
            task.cancel()  # the authors' master ends with its job
        back = sum(map(len, ranges.values()))
        return start_s - begin_s, took_s, back / NUMBERS, self._is_right(ranges, dealt)

    def _is_right(self, ranges: dict[int, list[int]], dealt: Sequence[Sequence[np.ndarray]]) -> bool:
        """Tell whether all slaves answered, each with sorted numbers that it was sent in this job."""
        for slave, parts in zip(self._orders["slaves"], dealt, strict=True):
            back, sent = ranges.get(slave), np.concatenate(parts)
            if back is None or back != sorted(back):
                return False
            if (np.bincount(np.array(back, int), minlength=VALUES) > np.bincount(sent, minlength=VALUES)).any():
                return False
        return True

    async def _fetch(self, slave: int, job: int) -> None:
        reader, writer = await asyncio.open_connection(self._orders["others"][slave], ANSWERS)
        writer.write(HEADER.pack(self._number, 0, job))
        self._answers.put_nowait((slave, job, from_text(await reader.read())))
        writer.close()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(TIMER_SLACK, 1, 0, 0, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    told = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=partial(OneThread, told["message_s"])) as runner:
        runner.run((Slave(told) if told["role"] == "slave" else Master(told)).run())
