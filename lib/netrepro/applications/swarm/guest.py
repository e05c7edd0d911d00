"""Swarms of BitTorrent peers as real processes: one program forks all peers, each into its own network.

    guest.py LIBRARY PLAN

LIBRARY is the folder of the package, PLAN a JSON file with `addresses` and `namespaces` by peer, and `cases`, which run
one after the other. There is no tracker: every peer connects to all peers before it (seeds only to leechers), and all
send their handshakes at the same time. A complete peer stays for its `stays_s`, a seed until all others are gone. Each
case ends with a line of JSON: for each peer, its sent and received bytes, the time at which it was complete, and
whether its file is right. All peers share one kernel, and so one clock.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import os
import select
import socket
import sys
import termios
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, sys.argv[1])

from netrepro.protocols.bittorrent.chokers import choker
from netrepro.protocols.bittorrent.client import Client
from netrepro.protocols.bittorrent.metainfo import BLOCK_BYTES, Torrent, make_torrent
from netrepro.protocols.machine import Event, Output

PORT = 6881
NEW_NETWORK = 0x40000000
BEFORE_S = 5.0  # time in which all connections are made
READ_BYTES = 2**16
LEAST_WAITED_FOR = 2_000  # bytes; a peer that waits for fewer is woken by any packet


def enter(namespace: str) -> None:
    """Enter a network namespace; open sockets stay in theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(namespace).open() as file:
        if libc.setns(file.fileno(), NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"no way into the network {namespace}")


class PeerConnection:
    """A socket, and the bytes that its kernel has not yet taken."""

    def __init__(self, own: socket.socket):
        self.socket, self.waiting, self.least_bytes = own, b"", 1
        own.setblocking(False)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes = b"") -> None:
        self.waiting += data
        try:
            self.waiting = self.waiting[self.socket.send(self.waiting) :]
        except BlockingIOError:
            pass

    def queued_bytes(self) -> int:
        """Count the bytes to send that the other end has not acknowledged."""
        answer = fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4))
        return len(self.waiting) + int.from_bytes(answer, sys.byteorder)

    def wait_for(self, missing_bytes: int) -> None:
        """Make the socket readable only when so many bytes have come: one call for a block, not one for each packet."""
        least_bytes = missing_bytes if missing_bytes >= LEAST_WAITED_FOR else 1
        if least_bytes != self.least_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)
            self.least_bytes = least_bytes


class SwarmPeer:
    """The machine of `netrepro.protocols.bittorrent` over sockets.

    The peer's link limits the upload: a block leaves the machine only when less than one block waits in the sockets. So
    the machine's weights decide which peers are served, and the link is never idle.
    """

    def __init__(self, client: Client, sockets: Iterable[socket.socket]):
        self.client = client
        self.connections = {name: PeerConnection(each) for name, each in enumerate(sockets)}
        self.sending: set[Any] = set()
        self.complete_s = 0.0 if client.is_complete else math.inf

    def run(self, begins_s: float, stays_s: float, limit_s: float) -> float:
        """Run until no connection is left or the peer's time is over; return the seconds since the beginning."""
        time.sleep(begins_s - time.monotonic())
        self.act(self.client.start(0.0))
        now_s = 0.0
        while self.connections and now_s < (ends_s := min(self.complete_s + stays_s, limit_s)):
            blocked = [each for each in self.connections.values() if each.waiting]
            due_s = min(ends_s, self.client.wake_at_s)
            ready = select.select(list(self.connections.values()), blocked, [], max(due_s - now_s, 0.0))
            now_s = time.monotonic() - begins_s
            self.hold_back(now_s)
            for connection in ready[1]:
                self.send(connection)
            for name, connection in list(self.connections.items()):
                if connection in ready[0]:
                    self.read(now_s, name, connection)
            if self.client.wake_at_s <= now_s:
                self.act(self.client.wake(now_s))
        for connection in self.connections.values():
            connection.socket.close()
        return now_s

    def hold_back(self, now_s: float) -> None:
        """Postpone the next block until the sockets are nearly empty."""
        client = self.client
        if now_s < client.free_at_s or not self.sending:
            return
        queued = {name: self.connections[name].queued_bytes() for name in self.sending if name in self.connections}
        self.sending = {name for name, waits in queued.items() if waits}
        if (too_many := sum(queued.values()) - BLOCK_BYTES) > 0:
            client.free_at_s = now_s + max(too_many, BLOCK_BYTES / 2) / client.rate

    def read(self, now_s: float, name: Any, connection: PeerConnection) -> None:
        try:
            data = connection.socket.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.lose(now_s, name)
            return
        self.act(self.client.receive(now_s, name, data))
        if name in self.connections:
            connection.wait_for(self.client.missing_bytes(name))

    def lose(self, now_s: float, name: Any) -> None:
        if (connection := self.connections.pop(name, None)) is not None:
            connection.socket.close()
            self.act(self.client.lose(now_s, name))

    def act(self, outputs: Iterable[Output]) -> None:
        """Send messages, all to the same peer together. The next read detects a failed connection."""
        letters: dict[Any, bytes] = {}
        for output in outputs:
            if not isinstance(output, Event):
                letters[output.to] = letters.get(output.to, b"") + output.message
            elif output.kind == "complete":
                self.complete_s = output.value
            elif output.kind == "closed":
                raise SystemExit(f"a peer broke the protocol: {output.value[1]}")
        for name, data in letters.items():
            if name in self.connections:
                self.send(self.connections[name], data)
                if len(data) >= BLOCK_BYTES:
                    self.sending.add(name)

    def send(self, connection: PeerConnection, data: bytes = b"") -> None:
        try:
            connection.send(data)
        except OSError:
            connection.waiting = b""


def swarm(plan: dict[str, Any], case: dict[str, Any]) -> list[dict[str, Any]]:
    """Run all peers of one case, each in its own process; return one result per peer."""
    content = Random(case["seed"]).randbytes(case["pieces"] * case["piece_bytes"])
    torrent = make_torrent("file", content, case["piece_bytes"])
    listeners = []
    for address, namespace in zip(plan["addresses"], plan["namespaces"], strict=True):
        enter(namespace)
        listeners.append(socket.create_server((address, PORT), backlog=len(plan["addresses"])))
    begins_s = time.monotonic() + BEFORE_S
    seeds = [each["is_seed"] for each in case["peers"]]
    heard, told = os.pipe()
    for number in range(len(listeners)):
        if os.fork() == 0:
            enter(plan["namespaces"][number])
            others = [place for place, each in enumerate(seeds) if place != number and not (each and seeds[number])]
            before = [socket.create_connection((plan["addresses"][each], PORT)) for each in others if each < number]
            after = [listeners[number].accept()[0] for each in others if each > number]
            line = be_peer(number, case, torrent, content, [*before, *after], begins_s)
            os.write(told, json.dumps(line).encode() + b"\n")  # short enough to be written atomically
            os._exit(0)
    os.close(told)
    for each in listeners:
        each.close()
    with os.fdopen(heard) as file:
        lines = [json.loads(line) for line in file]
    if len(lines) < len(listeners) or any([os.wait()[1] for _ in listeners]):
        raise SystemExit(f"{len(listeners) - len(lines)} of {len(listeners)} peers failed")
    return sorted(lines, key=lambda line: line["peer"])


def be_peer(
    number: int,
    case: dict[str, Any],
    torrent: Torrent,
    content: bytes,
    sockets: list[socket.socket],
    begins_s: float,
) -> dict[str, Any]:
    """Run one peer and return its result."""
    own, constants = case["peers"][number], case["chokers"]
    random = Random(f"{case['seed']} {number}")
    chokers = [choker(kind, Random(random.getrandbits(64)), **constants[kind]) for kind in (own["kind"], "seed")]
    client = Client(
        torrent,
        b"-NR0001-%012d" % number,
        chokers[0],
        chokers[1],
        random,
        content=content if own["is_seed"] else None,
        upload_bytes_per_s=own["bytes_per_s"],
        peers=range(len(sockets)),
    )
    peer = SwarmPeer(client, sockets)
    stays_s = math.inf if own["is_seed"] else own["stays_s"]
    present_s = peer.run(begins_s, stays_s, case["limit_s"])
    return {
        "peer": number,
        "complete_s": peer.complete_s if client.is_complete else None,
        "present_s": present_s,
        "sent_bytes": client.sent_bytes,
        "received_bytes": client.received_bytes,
        "is_right": client.content == content,
    }


def main(plan: dict[str, Any]) -> None:
    for case in plan["cases"]:
        sys.stdout.write(json.dumps(swarm(plan, case)) + "\n")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[2]).read_text()))
