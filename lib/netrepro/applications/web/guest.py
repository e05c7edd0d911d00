"""Web pages over real sockets: `serve` answers over TCP, SST and QUIC; `load` loads pages in each of several ways.

    guest.py LIBRARY serve PLAN ADDRESS
    guest.py LIBRARY load PLAN ADDRESS      ADDRESS: the server's

LIBRARY is the folder of the package. PLAN is a JSON file with `ways`, each with its manner and, over SST, the settings
of both ends' senders; `pages`, `request_bytes`, `pause_s`, `socket_options`; and `packages`, the folders with aioquic,
for ways over QUIC. After every way, `load` writes a line of JSON with the fields of `Loaded` for each page. The
machines of SST and QUIC and the browser are the simulator's.
"""

from __future__ import annotations

import json
import math
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from netrepro.protocols.browser import Browser, Manner, asked_bytes, request
from netrepro.protocols.machine import Event, Machine, Output
from netrepro.protocols.sst.channel import Manners
from netrepro.protocols.sst.web import SstClient, SstServer

PORT = 8000  # the TCP port, and the first way's UDP port; each further way uses the next UDP port
MOST_BYTES = 1 << 16
BEFORE_S = 1.0  # time for the server to start


def speak_as(plan: dict[str, Any], own: socket.socket) -> None:
    """Set a socket's options to the plan's segment and window sizes, and send written data at once (TCP_NODELAY)."""
    for option, value in plan["socket_options"]:
        own.setsockopt(socket.IPPROTO_TCP, option, value)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class WebConnection:
    """A TCP socket, the bytes to write to it, and the responses expected from it."""

    def __init__(self, own: socket.socket):
        self.socket, self.waiting = own, bytearray()
        self.got = bytearray()
        self.awaited: deque[int] = deque()  # sizes of the expected responses, in bytes
        own.setblocking(False)

    def fileno(self) -> int:
        return self.socket.fileno()

    def write(self, data: bytes = b"") -> None:
        self.waiting += data
        try:
            sent = self.socket.send(self.waiting) if self.waiting else 0
        except (BlockingIOError, BrokenPipeError):  # the latter: not connected yet
            return
        del self.waiting[:sent]


# The server.


def serve(plan: dict[str, Any], address: str) -> None:
    """Serve until the process is killed."""
    listener = socket.socket()
    speak_as(plan, listener)
    listener.bind((address, PORT))
    listener.listen(64)
    connections: set[WebConnection] = set()
    ends = [DatagramEnd(server_of(way), (address, PORT + place)) for place, way in
            enumerate(plan["ways"]) if way["over"] != "TCP"]  # fmt: skip
    while True:
        blocked = [each for each in connections if each.waiting]
        looked_at: list[Any] = [listener, *ends, *connections]
        readable, writable, _ = select.select(looked_at, blocked, [], wait_s(ends))
        for connection in writable:
            connection.write()
        for ready in readable:
            if ready is listener:
                connections.add(WebConnection(listener.accept()[0]))
            elif isinstance(ready, DatagramEnd):
                ready.take()
            elif not answer(ready, plan["request_bytes"]):
                connections.discard(ready)
                ready.socket.close()
        for end in ends:
            end.wake()


def answer(connection: WebConnection, request_bytes: int) -> bool:
    """Answer every complete request; return False once the client has closed or has sent an invalid request."""
    try:
        data = connection.socket.recv(MOST_BYTES)
    except ConnectionError:
        return False
    connection.got += data
    while len(connection.got) >= request_bytes:
        asked = bytes(connection.got[:request_bytes])
        del connection.got[:request_bytes]
        if (size := asked_bytes(asked)) is None:
            return False
        connection.write(bytes(size))
    return bool(data)


def server_of(way: dict[str, Any]) -> Machine:
    """Make the server that answers over SST or QUIC."""
    if way["over"] == "SST":
        return SstServer(Manners(**way["server"]))
    from netrepro.protocols.quic import QuicServer

    return QuicServer()


class DatagramEnd:
    """A machine over a UDP socket; its peers' names are their addresses."""

    def __init__(self, machine: Machine, here: tuple[str, int] | None = None):
        self.machine, self.is_done = machine, False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        if here:
            self.socket.bind(here)

    def fileno(self) -> int:
        return self.socket.fileno()

    def take(self) -> None:
        """Read all datagrams that have arrived, and pass them to the machine."""
        while True:
            try:
                data, sender = self.socket.recvfrom(MOST_BYTES)
            except BlockingIOError:
                return
            self.act(self.machine.receive(time.monotonic(), sender, data))

    def wake(self) -> None:
        now_s = time.monotonic()
        if self.machine.wake_at_s <= now_s:
            self.act(self.machine.wake(now_s))

    def act(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Event):
                self.is_done |= output.kind == "done"
            else:
                address: Any = output.to
                self.socket.sendto(output.message, address)


def wait_s(ends: Iterable[DatagramEnd], also_s: float = math.inf) -> float | None:
    """Compute the seconds until the first end wants to be woken, or the time also_s; None for never."""
    due_s = min([also_s, *(end.machine.wake_at_s for end in ends)])
    return None if due_s == math.inf else max(due_s - time.monotonic(), 0.0)


# The client.


def load(plan: dict[str, Any], address: str) -> None:
    """Load the pages in every way, and write one line of JSON for each way."""
    time.sleep(BEFORE_S)
    for place, way in enumerate(plan["ways"]):
        over_tcp = way["over"] == "TCP"
        browser = OverTcp(plan, way, address).run() if over_tcp else over_udp(plan, way, (address, PORT + place))
        rows = [list(astuple(each)) for each in browser.loaded]
        sys.stdout.write(json.dumps(rows) + "\n")
        sys.stdout.flush()


def over_udp(plan: dict[str, Any], way: dict[str, Any], server: tuple[str, int]) -> Browser:
    manner = Manner(**way["manner"])
    words = server, plan["pages"], manner, plan["request_bytes"], plan["pause_s"], way["fresh"]
    if way["over"] == "QUIC":
        from netrepro.protocols.quic import QuicClient

        client: Any = QuicClient(*words, way["early"], way["in_order"])
    else:
        client = SstClient(*words, Manners(**way["client"]))
    end = DatagramEnd(client)
    end.act(client.start(time.monotonic()))
    while not end.is_done:
        if select.select([end], [], [], wait_s([end]))[0]:
            end.take()
        end.wake()
    end.socket.close()
    return client.browser


class OverTcp:
    """The browser over the kernel's TCP; persistent connections are open before the first page begins."""

    def __init__(self, plan: dict[str, Any], way: dict[str, Any], address: str):
        self.plan, self.address, self.manner = plan, address, Manner(**way["manner"])
        self.connections: dict[int, WebConnection] = {}
        self.browser = Browser(plan["pages"], self.manner, plan["pause_s"])

    def connect(self, number: int, waits: bool) -> None:
        own = socket.socket()
        speak_as(self.plan, own)
        own.setblocking(waits)
        own.connect_ex((self.address, PORT))
        self.connections[number] = WebConnection(own)

    def run(self) -> Browser:
        for number in range(self.manner.connections if self.manner.keeps else 0):
            self.connect(number, waits=True)
        self.browser.begins_s = time.monotonic()
        while not self.browser.is_done:
            now_s = time.monotonic()
            if self.browser.begins_s <= now_s:
                self.ask(self.browser.begin(now_s))
            open_ones = list(self.connections.values())
            blocked = [each for each in open_ones if each.waiting]
            readable, writable, _ = select.select(open_ones, blocked, [], wait_s([], self.browser.begins_s))
            for each in writable:
                each.write()
            for number, each in list(self.connections.items()):
                if each in readable:
                    self.take(number, each)
        for each in self.connections.values():
            each.socket.close()
        return self.browser

    def ask(self, asked: Iterable[tuple[int, int, int]]) -> None:
        for number, _, size in asked:
            if number not in self.connections:
                self.connect(number, waits=False)
            connection = self.connections[number]
            connection.awaited.append(size)
            connection.write(request(self.plan["request_bytes"], size))

    def take(self, number: int, connection: WebConnection) -> None:
        try:
            left = len(connection.socket.recv(MOST_BYTES))
        except BlockingIOError:
            return
        if not left:
            raise SystemExit("the server has hung up")
        while left:
            here = min(left, connection.awaited[0])
            connection.awaited[0] -= here
            left -= here
            if not connection.awaited[0]:
                connection.awaited.popleft()
                if not self.manner.keeps:
                    self.connections.pop(number).socket.close()
                self.ask(self.browser.answered(time.monotonic(), number))


if __name__ == "__main__":
    what, asked, server = sys.argv[2], json.loads(Path(sys.argv[3]).read_text()), sys.argv[4]
    sys.path += asked["packages"]
    serve(asked, server) if what == "serve" else load(asked, server)
