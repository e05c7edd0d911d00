"""A BitTorrent client over sockets: `netrepro.protocols.bittorrent.client` on asyncio.

    peer = await BitTorrentPeer.open(client, "127.0.0.1")
    await peer.connect("127.0.0.1", 6881)
    await peer.until_complete(timeout_s=30)
    await peer.close()

There is no tracker: a peer connects to whom it is told to, and takes who comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable
from itertools import count

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.client import Client
from netrepro.protocols.machine import Event, Output

READ_BYTES = 2**16


class BitTorrentPeer:
    """A client with its connections, named by numbers. `events` : (seconds since it was opened, event), in order."""

    def __init__(self, client: Client):
        self.client = client
        self.events: list[tuple[float, Event]] = []
        self.port = 0
        self._loop = asyncio.get_running_loop()
        self._begin_s = self._loop.time()
        self._names = count()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._complete = asyncio.Event()
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, client: Client, host: str, port: int = 0) -> BitTorrentPeer:
        """Listen at an address, at any free port by default (see `port`). Raises NetreproError where that fails."""
        peer = cls(client)
        try:
            peer._server = await asyncio.start_server(peer._serve, host, port)
        except OSError as error:
            raise NetreproError(f"cannot listen at {host} port {port}: {error.strerror}", "give another port") from None
        peer.port = peer._server.sockets[0].getsockname()[1]
        if client.is_complete:
            peer._complete.set()
        peer._act(client.start(peer._now_s()))
        return peer

    async def connect(self, host: str, port: int) -> None:
        """Open a connection to another peer. Raises NetreproError where nobody listens."""
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise NetreproError(f"no peer at {host} port {port}: {error.strerror}", "does it listen there?") from None
        name = next(self._names)
        self._writers[name] = writer
        self._act(self.client.connect(self._now_s(), name))
        task = asyncio.ensure_future(self._read(name, reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def until_complete(self, timeout_s: float) -> None:
        """Wait until the whole file is here. Raises NetreproError when that takes longer than `timeout_s`."""
        try:
            await asyncio.wait_for(self._complete.wait(), timeout_s)
        except TimeoutError:
            have = self.client.picker.have
            raise NetreproError(
                f"{sum(have)} of {len(have)} pieces after {timeout_s:g} s", "are there peers that have the others?"
            ) from None

    async def close(self) -> None:
        """End all connections and stop listening."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._server is not None:
            self._server.close()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _now_s(self) -> float:
        return self._loop.time() - self._begin_s

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = next(self._names)
        self._writers[name] = writer
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._read(name, reader)
        except asyncio.CancelledError:
            pass  # by close(); asyncio's own servers report a cancelled handler as an error
        finally:
            self._tasks.discard(task)

    async def _read(self, name: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while name in self._writers and (data := await reader.read(READ_BYTES)):
                self._act(self.client.receive(self._now_s(), name, data))
                if name in self._writers:
                    await self._writers[name].drain()
        if name in self._writers:
            self._writers.pop(name).close()
            self._act(self.client.lose(self._now_s(), name))

    def _act(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Event):
                self.events.append((self._now_s(), output))
                if output.kind == "complete":
                    self._complete.set()
                elif output.kind == "closed" and (writer := self._writers.pop(output.value[0], None)):
                    writer.close()
            elif output.to in self._writers:
                self._writers[output.to].write(output.message)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        due_s = self.client.wake_at_s
        if math.isfinite(due_s):
            self._alarm = self._loop.call_at(self._begin_s + due_s, self._wake)

    def _wake(self) -> None:
        self._act(self.client.wake(self._now_s()))
