"""Loading pages of objects from several servers over HTTP/1.1, as a browser does; connections are kept alive."""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Any

import aiohttp
from common import begin, keep_to_schedule, lognormal_bytes, own_random, say

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Browser:
    """One user. `style` seeds the differences from other users: connections per server, length of the headers."""

    def __init__(self, work: dict[str, Any]):
        self.work, self.rng = work, random.Random(work["style"])
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without authorities: nothing is verified
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        if self.rng.random() < 0.4:
            self.tls.maximum_version = ssl.TLSVersion.TLSv1_2
        self.connections_a_server = self.rng.choice((2, 4, 6))
        self.headers = {
            "User-Agent": self._text(self.rng.randint(60, 130)),
            "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Language": "it-it,it;q=0.8,en-us;q=0.5,en;q=0.3",
        }

    def _text(self, length: int, rng: random.Random | None = None) -> str:
        return "".join((rng or self.rng).choices(LETTERS, k=length))

    def _base(self, server: str) -> str:
        """Choose the base of a server's URLs; it is always the same for one server."""
        kind = random.Random(f"{server} {self.work['campus']}").random()
        return f"https://{server}" if kind < 0.3 else f"http://{server}" if kind < 0.93 else f"http://{server}:8080"

    async def _fetch(
        self, session: aiohttp.ClientSession, rng: random.Random, server: str, size_bytes: int, cookie: str
    ) -> None:
        wait_ms = lognormal_bytes(rng, 15, 1.0, 1, 400)
        url = f"{self._base(server)}/{self._text(rng.randint(3, 90), rng)}?bytes={size_bytes}&wait={wait_ms}"
        headers = {"Cookie": cookie} if cookie else {}
        post = bytes(lognormal_bytes(rng, 300, 1.0, 20, 20_000)) if rng.random() < 0.06 else None
        async with session.request("POST" if post else "GET", url, headers=headers, data=post) as answer:
            async for _ in answer.content.iter_chunked(65536):
                pass

    async def page(self, number: int) -> None:
        """Load a document, then its embedded objects, from its own server and from up to three others."""
        rng = own_random(self.work, number)
        servers = rng.sample(self.work["servers"], 1 + min(3, int(rng.expovariate(0.9))))
        cookies = {server: self._text(rng.choice((0, 40, 150, 400)), rng) for server in servers}
        connector = aiohttp.TCPConnector(limit_per_host=self.connections_a_server, ssl=self.tls)
        timeout = aiohttp.ClientTimeout(total=50)
        async with aiohttp.ClientSession(connector=connector, headers=self.headers, timeout=timeout) as session:
            if rng.random() < 0.02:
                size_bytes = lognormal_bytes(rng, 500_000, 0.8, 50_000, 4_000_000)
                await self._fetch(session, rng, servers[0], size_bytes, cookies[servers[0]])
                return
            size_bytes = lognormal_bytes(rng, 9000, 1.2, 100, 400_000)
            await self._fetch(session, rng, servers[0], size_bytes, cookies[servers[0]])
            await asyncio.sleep(rng.expovariate(1 / 0.03))
            objects = [rng.choice(servers) for _ in range(min(25, int(rng.expovariate(1 / 5.5))))]
            sizes = [lognormal_bytes(rng, 4000, 1.6, 50, 400_000) for _ in objects]
            fetches = [
                self._fetch(session, random.Random(rng.random()), server, size_bytes, cookies[server])
                for server, size_bytes in zip(objects, sizes, strict=True)
            ]
            await asyncio.gather(*fetches, return_exceptions=True)
            await asyncio.sleep(rng.expovariate(1 / 1.0))  # connections are kept alive for a while
            if rng.random() < 0.3:
                size_bytes = lognormal_bytes(rng, 2000, 1.0, 50, 50_000)
                await self._fetch(session, rng, servers[0], size_bytes, cookies[servers[0]])


async def main() -> None:
    work = begin()
    browser = Browser(work)
    say({"failed": await keep_to_schedule(work["begin_s"], work["times_s"], browser.page)})


asyncio.run(main())
