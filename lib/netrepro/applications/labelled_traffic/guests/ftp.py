"""Listing and fetching files over FTP (passive mode) with Python's own client."""

from __future__ import annotations

import asyncio
import ftplib
import random

from common import begin, keep_to_schedule, own_random, say


def session(server: str, rng: random.Random) -> None:
    with ftplib.FTP(server, timeout=40) as client:
        client.login()
        client.cwd("/")
        names = client.nlst()
        for name in rng.sample(names, rng.choice((0, 1, 1, 2))):
            client.retrbinary(f"RETR {name}", len)


async def main() -> None:
    work = begin()

    async def act(number: int) -> None:
        rng = own_random(work, number)
        await asyncio.to_thread(session, rng.choice(work["servers"]), rng)

    say({"failed": await keep_to_schedule(work["begin_s"], work["times_s"], act)})


asyncio.run(main())
