"""Recording the program behind each TCP connection of the host, as GT does, by asking the kernel again and again.

A connection that begins and ends between two queries is missed, as GT misses some.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

from common import begin, say, told_to_stop

LISTENING, ENDED = "0A", "0"  # a TCP state; the inode of a socket that no process holds any more


def connections() -> list[tuple[str, str, str]]:
    """List (local end, remote end, inode) of each connection, with the ends in the kernel's format."""
    with open("/proc/self/net/tcp") as table:  # noqa: PTH123
        rows = [line.split() for line in table.readlines()[1:]]
    return [(row[1], row[2], row[9]) for row in rows if row[3] != LISTENING and row[9] != ENDED]


def end(text: str) -> tuple[str, int]:
    address, _, port = text.partition(":")
    return socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


class Owners:
    """A lookup of the programs that hold sockets."""

    def __init__(self) -> None:
        self._own = Path("/proc/self/ns/net").readlink()
        self._is_here: dict[str, bool] = {}

    def now(self) -> dict[str, str]:
        """Return inode -> name of the program, for all sockets that this host's processes hold."""
        owners = {}
        for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            try:
                if process not in self._is_here:
                    self._is_here[process] = Path(f"/proc/{process}/ns/net").readlink() == self._own
                if not self._is_here[process]:
                    continue
                name = Path(f"/proc/{process}/comm").read_text().strip()
                for descriptor in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
                    target = os.readlink(f"/proc/{process}/fd/{descriptor}")  # noqa: PTH115  (many, and fast)
                    if target.startswith("socket:["):
                        owners[target[8:-1]] = name
            except OSError:  # the process ended, or closed the socket, meanwhile
                continue
        return owners


def main() -> None:
    work = begin()
    stopped, owners, seen = told_to_stop(), Owners(), set()
    records = []
    say("ready")
    while not stopped.wait(work["interval_s"]):
        new = [connection for connection in connections() if connection not in seen]
        if not new:
            continue
        seconds = time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9
        held = owners.now()
        for connection in new:
            if connection[2] in held:
                seen.add(connection)
                records.append((seconds, *end(connection[0]), *end(connection[1]), held[connection[2]]))
    say(records)


main()
