"""Machines of `netrepro.protocols` over real sockets: one UDP socket a process, JSON in the datagrams, real timers.

The machines are those that `netrepro.protocols.drive` runs; here the clock is the kernel's. This module imports little,
because programs that start often inside a kernel in virtual time import it: there, Python takes no virtual time, but it
does take real time.
"""

from __future__ import annotations

import json
import math
import select
import socket
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from netrepro.protocols.machine import Event, Machine, Output

MOST_BYTES = 65_000  # largest datagram


class Post:
    """A UDP socket for messages between named machines.

    addresses : name -> (IPv4 address, port), for every machine. here : this process's address, one of these.
    kinds : the dataclasses of which messages are made; the other end must know them, too.
    """

    def __init__(self, addresses: Mapping[Any, tuple[str, int]], here: tuple[str, int], kinds: Iterable[type]):
        self.addresses: dict[Any, tuple[str, int]] = dict(addresses)
        self.understand(kinds)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(here)

    def understand(self, kinds: Iterable[type]) -> None:
        """Replace the dataclasses that `decode` can make."""
        self.kinds = {kind.__name__: kind for kind in kinds}

    def send(self, sender: Hashable, to: Hashable, message: Any) -> None:
        """Send one datagram; it may get lost."""
        self.socket.sendto(self.encode([sender, to, message]), self.addresses[to])

    def wait(self, seconds: float) -> tuple[Hashable, Hashable, Any] | None:
        """Wait for a datagram and return (sender, to, message); None after so many `seconds` (math.inf: no limit)."""
        # `select` counts microseconds; a socket's own timeout counts whole milliseconds.
        limit = None if seconds == math.inf else max(seconds, 0.0)
        if not select.select([self.socket], [], [], limit)[0]:
            return None
        return self.decode(self.socket.recv(MOST_BYTES))

    def encode(self, content: Any) -> bytes:
        """Encode a message as JSON: dataclasses as {class name: [values of the fields]}, tuples as lists."""
        return json.dumps(_plain(content), separators=(",", ":")).encode()

    def decode(self, content: bytes) -> Any:
        """Decode the result of `encode`; lists become tuples."""
        return self._made(json.loads(content))

    def _made(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(self._made, value))
        if isinstance(value, dict):
            ((kind, values),) = value.items()
            return self.kinds[kind](*map(self._made, values))
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    fields = getattr(value, "__dataclass_fields__", None)
    return value if fields is None else {type(value).__name__: [_plain(getattr(value, name)) for name in fields]}


def drive_over_sockets(
    machines: Mapping[Any, Machine],
    post: Post,
    note: Callable[[float, Hashable, Event], None],
    until_s: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the machines of this process until `clock` reaches until_s; `note` is called with (time_s, name, event)."""
    now_s = clock()

    def carry_out(name: Hashable, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Event):
                note(now_s, name, output)
            else:
                post.send(name, output.to, output.message)

    for name, machine in machines.items():
        carry_out(name, machine.start(now_s))
    while now_s < until_s:
        due_s = min(until_s, *(machine.wake_at_s for machine in machines.values()))
        letter = post.wait(due_s - now_s)
        now_s = clock()
        if letter is not None:
            sender, to, message = letter
            carry_out(to, machines[to].receive(now_s, sender, message))
        for name, machine in machines.items():
            if machine.wake_at_s <= now_s:
                carry_out(name, machine.wake(now_s))
