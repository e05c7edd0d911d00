"""An imitation of Skype over TCP, which listens and connects: short probes, chatter with a super-node, calls, files.

Skype's own protocol was never published and its servers are gone. The kinds of exchanges, sizes and gaps are our
choice. As in Skype, the payload looks random, ports are high, and both ends may open the connection.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from typing import Any

from common import begin, close, keep_to_schedule, lognormal_bytes, own_random, say, stop_of_loop

# A message's header: its length, length and delay (ms) of the requested answer; for a call: interval, duration (ms).
HEADER = struct.Struct(">IIHHH")
KINDS = {"probe": 30, "chatter": 42, "call": 23, "file": 5}


def message(length: int, answer: int = 0, wait_ms: int = 0, every_ms: int = 0, for_ms: int = 0) -> bytes:
    length = max(length, HEADER.size)
    return HEADER.pack(length, answer, wait_ms, every_ms, for_ms) + bytes(length - HEADER.size)


async def receive(reader: asyncio.StreamReader) -> tuple[int, int, int, int]:
    length, *asked = HEADER.unpack(await reader.readexactly(HEADER.size))
    await reader.readexactly(length - HEADER.size)
    return tuple(asked)


async def speak(writer: asyncio.StreamWriter, rng: random.Random, size: int, every_ms: int, for_ms: int) -> None:
    """Imitate speech: send messages for `for_ms`, about every `every_ms`, of random sizes around `size` bytes."""
    until = time.monotonic() + for_ms / 1000
    while time.monotonic() < until:
        writer.write(message(int(size * rng.uniform(0.6, 1.4))))
        await writer.drain()
        await asyncio.sleep(every_ms / 1000 * rng.uniform(0.7, 1.3))


class UserProgram:
    """One user's program."""

    def __init__(self, work: dict[str, Any]):
        self.work = work

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                answer, wait_ms, every_ms, for_ms = await receive(reader)
                await asyncio.sleep(wait_ms / 1000)
                if every_ms:
                    rng = random.Random(f"{self.work['seed']} {answer} {every_ms} {for_ms}")
                    await speak(writer, rng, answer, every_ms, for_ms)
                elif answer:
                    writer.write(message(answer))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            await close(writer)

    async def exchange(self, number: int) -> None:
        rng = own_random(self.work, number)
        reader, writer = await asyncio.open_connection(*rng.choice(self.work["others"]))
        (kind,) = rng.choices(list(KINDS), weights=list(KINDS.values()))

        async def ask(size: int, answer: int, wait_ms: int = 0) -> None:
            writer.write(message(size, answer, wait_ms))
            await receive(reader)

        try:
            await ask(rng.randint(14, 90), rng.randint(14, 120), rng.randint(0, 30))
            if kind == "probe":
                return
            await ask(rng.randint(50, 500), rng.randint(20, 700), rng.randint(0, 60))
            if kind == "chatter":
                for _ in range(1 + int(rng.expovariate(1 / 8))):
                    await asyncio.sleep(rng.expovariate(1 / 0.4))
                    await ask(lognormal_bytes(rng, 45, 0.8, 14, 1200), lognormal_bytes(rng, 60, 0.9, 14, 1300))
            elif kind == "file":
                for _ in range(1 + int(rng.expovariate(1 / 6))):
                    await ask(rng.choice((60, 16_000)), rng.choice((60, 16_000)))
            else:
                size, every_ms = rng.choice((60, 90, 130)), rng.choice((20, 40, 60))
                for_ms = lognormal_bytes(rng, 8000, 0.8, 1000, 40_000)
                writer.write(message(size, size, 0, every_ms, for_ms))
                hearing = asyncio.create_task(reader.read(-1))
                await speak(writer, rng, size, every_ms, for_ms)
                hearing.cancel()
        finally:
            await close(writer)


async def main() -> None:
    work = begin()
    program = UserProgram(work)
    server = await asyncio.start_server(program.answer, "0.0.0.0", work["port"])
    stopped = stop_of_loop()
    say("ready")
    failed = await keep_to_schedule(work["begin_s"], work["times_s"], program.exchange)
    say({"failed": failed})
    await stopped.wait()
    server.close()


asyncio.run(main())
