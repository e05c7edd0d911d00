"""Logging in over SSH (asyncssh), typing now and then, and running commands with different amounts of output."""

from __future__ import annotations

import asyncio

import asyncssh
from common import begin, keep_to_schedule, lognormal_bytes, own_random, say


async def main() -> None:
    work = begin()

    async def session(number: int) -> None:
        rng = own_random(work, number)
        server = rng.choice(work["servers"])
        async with asyncssh.connect(server, username="user", password="password", known_hosts=None) as connection:
            for _ in range(rng.choice((1, 1, 2))):
                await connection.run(str(lognormal_bytes(rng, 3000, 1.3, 10, 300_000)))
            if rng.random() < 0.5:
                process = await connection.create_process("type")
                for _ in range(int(rng.expovariate(1 / 30))):
                    process.stdin.write("x")
                    await asyncio.sleep(rng.expovariate(1 / 0.12))
                process.stdin.write_eof()
                await process.wait()

    say({"failed": await keep_to_schedule(work["begin_s"], work["times_s"], session)})


asyncio.run(main())
