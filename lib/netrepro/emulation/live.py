"""Packets of recorded ports as they leave, written to a pipe as one pcapng: for Wireshark and tshark to look on.

Each port is an interface of the capture, named "s1-s2", with stamps of nanoseconds.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from netrepro.errors import NetreproError

LOOK_S = 0.05  # between two looks for new packets, where nothing tells of them
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER, _ETHERNET, _NAME, _RESOLUTION, _NANOSECONDS = 0x1A2B3C4D, 1, 2, 9, 9

Packet = tuple[int, int, int, bytes]  # place of its port, ns since 1970, size in bytes, first bytes of its frame


def head(names: Sequence[str], kept_bytes: int) -> bytes:
    """Make the head of a pcapng with an interface of each name."""
    blocks = _block(_SECTION, struct.pack("=IHHq", _BYTE_ORDER, 1, 0, -1))
    for name in names:
        options = _option(_NAME, name.encode()) + _option(_RESOLUTION, bytes([_NANOSECONDS])) + bytes(4)
        blocks += _block(_INTERFACE, struct.pack("=HHI", _ETHERNET, 0, kept_bytes) + options)
    return blocks


def packet_block(packet: Packet) -> bytes:
    """Make a packet's block."""
    place, time_ns, size_bytes, frame = packet
    stamp = time_ns >> 32, time_ns & 0xFFFFFFFF
    return _block(_PACKET, struct.pack("=5I", place, *stamp, len(frame), size_bytes) + _padded(frame))


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("=I", len(body) + 12)
    return struct.pack("=I", kind) + size + body + size


def _option(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", kind, len(value)) + _padded(value)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)


class LiveCapture:
    """A thread that writes packets on, from `open` to `close`.

    to : a descriptor that is open for writing, or the path of a FIFO or file. A reader that goes away ends the writing,
    and nothing else.
    """

    def __init__(self, to: int | str | os.PathLike[str]):
        self._to = to
        self._ending = threading.Event()
        self._problem: OSError | None = None

    def open(self, ports: Iterable[tuple[str, str]], kept_bytes: int, take: Callable[[], Iterable[Packet]]) -> None:
        """Begin. take : gives packets that are new, until there are none. A FIFO waits until its reader is there.

        Raises NetreproError for what cannot be written to.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self._file = os.dup(self._to) if isinstance(self._to, int) else os.open(self._to, flags, 0o666)
        except OSError as error:
            raise NetreproError(f"no live capture to {self._to}: {error.strerror}", "give a pipe or a file") from None
        self._take = take
        begin = head(["-".join(port) for port in ports], kept_bytes)
        self._thread = threading.Thread(target=self._run, args=(begin,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and end. Raises NetreproError where something could not be written."""
        self._ending.set()
        self._thread.join()
        if self._problem:
            raise NetreproError(f"the live capture ended early: {self._problem.strerror}", "give a pipe or a file")

    def _run(self, begin: bytes) -> None:
        try:
            self._write(begin)
            ended = False
            while not ended:
                ended = self._ending.wait(LOOK_S)
                while new := b"".join(map(packet_block, self._take())):
                    self._write(new)
        except BrokenPipeError:  # nobody looks any more
            pass
        except OSError as error:
            self._problem = error
        finally:
            os.close(self._file)

    def _write(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._file, content) :]


def live_capture(to: int | str | os.PathLike[str] | None, packets: Collection[tuple[str, str]]) -> LiveCapture | None:
    """Make what `Network.record(live=)` asks for. Raises NetreproError for one without packets."""
    if to is not None and not packets:
        raise NetreproError("a live capture of no port's packets", "name ports in packets=")
    return None if to is None else LiveCapture(to)
