"""A host of an emulated network, as a program: sends flows over asyncio or RepNet, and times those that reach it.

It reads its orders, a line of JSON on standard input, and writes "ready" once it listens. It reads a second line, the
time to begin (s, CLOCK_MONOTONIC, which all processes of a machine share). At the end it writes its times as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import sys
import time
from typing import Any

from netrepro.transport import open_connection, start_server

PLAIN_PORT, REPLICATED_PORT = 7000, 7001  # RepNet also uses 7002
WAITING_S = 5.0  # waiting time of RepNet's servers: a second SYN may be lost (1 s) and then meet full queues
HEADER = struct.Struct("!II")  # number of the flow, its bytes


class Host:
    """One host, which sends and receives flows; times are CLOCK_MONOTONIC (s).

    began : flow -> time at which its connection was requested. opened : flow -> time at which it was open. arrived :
    flow -> time at which its last byte arrived.
    """

    def __init__(self) -> None:
        self.began: dict[int, float] = {}
        self.opened: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.errors: list[str] = []

    async def listen(self, address: str) -> None:
        """Accept flows on all ports."""
        await asyncio.start_server(self._receive, address, PLAIN_PORT)
        await start_server(self._receive, address, REPLICATED_PORT, waiting_s=WAITING_S)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            flow, size_bytes = HEADER.unpack(await reader.readexactly(HEADER.size))
            await reader.readexactly(size_bytes - HEADER.size)
            self.arrived[flow] = time.monotonic()
            await reader.read()
        writer.close()

    async def send(self, flow: int, address: str, size_bytes: int, at_s: float, scheme: str) -> None:
        """Wait until `at_s`, then send one flow."""
        await asyncio.sleep(at_s - time.monotonic())
        self.began[flow] = time.monotonic()
        try:
            if scheme:
                reader, writer = await open_connection(address, REPLICATED_PORT, mode=scheme)
            else:
                reader, writer = await asyncio.open_connection(address, PLAIN_PORT)
            self.opened[flow] = time.monotonic()
            writer.write(HEADER.pack(flow, size_bytes) + bytes(size_bytes - HEADER.size))
            writer.write_eof()
            await reader.read()
            writer.close()
        except OSError as error:
            self.errors.append(f"flow {flow}: {error}")


async def _run(orders: dict[str, Any]) -> None:
    host = Host()
    await host.listen(orders["address"])
    say("ready")
    begin_s = float(await asyncio.to_thread(sys.stdin.readline))
    sending = [
        asyncio.create_task(host.send(flow, address, size_bytes, begin_s + start_s, scheme))
        for flow, address, size_bytes, start_s, scheme in orders["flows"]
    ]
    await asyncio.sleep(begin_s + orders["seconds"] - time.monotonic())
    for each in sending:
        each.cancel()
    say(json.dumps({name: getattr(host, name) for name in ("began", "opened", "arrived", "errors")}))


def say(line: str) -> None:
    """Write a line to the program that has started this one."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the program."""
    orders = json.loads(sys.stdin.readline())
    asyncio.run(_run(orders))


if __name__ == "__main__":
    main()
