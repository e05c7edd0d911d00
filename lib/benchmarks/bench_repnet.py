"""RepNet's asyncio streams against asyncio's own: 1-KB flows over the loopback, one after the other.

Two connections cannot cost less than one; beside plain streams stands what two plain connections cost.
"""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pandas as pd

from netrepro.papers.repnet.measuring import measure_overhead


async def _two_plain_connections(flows: int) -> float:
    """Mean ms until both of two plain connections, opened together, have brought 1 KB to their server."""
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1000)
        arrived.put_nowait(None)
        await reader.read()
        writer.close()

    servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for _ in range(2)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    took_ms = []
    for _ in range(flows):
        began = time.perf_counter()
        streams = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for port in ports))
        for _, writer in streams:
            writer.write(bytes(1000))
        for _ in streams:
            await arrived.get()
        took_ms.append((time.perf_counter() - began) * 1e3)
        for reader, writer in streams:
            writer.close()
            await reader.read()
    for server in servers:
        server.close()
    return float(np.mean(took_ms))


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """Mean completion time (ms) by scheme, best of the repetitions, and its ratio to plain streams."""
    flows, repetitions = (300, 4) if quick else (3000, 8)
    table = pd.DataFrame([measure_overhead(flows, begin) for begin in range(repetitions)]).min().to_frame("mean_ms")
    plain_twice = min(asyncio.run(_two_plain_connections(flows)) for _ in range(repetitions))
    table.loc["two plain connections"] = plain_twice
    return {"loopback flows": table.assign(ratio=table["mean_ms"] / table.loc["tcp", "mean_ms"])}
