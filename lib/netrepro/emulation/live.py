"""Packets of recorded ports as they leave, written to a pipe as one pcapng that Wireshark or tshark shows live.

Each port is an interface of the capture, named "s1-s2". Time stamps are in nanoseconds.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from netrepro.errors import NetreproError

LOOK_S = 0.05  # time between two polls for new packets; nothing announces them
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER, _ETHERNET, _NAME, _RESOLUTION, _NANOSECONDS = 0x1A2B3C4D, 1, 2, 9, 9

Packet = tuple[int, int, int, bytes]  # index of the port, ns since 1970, size in bytes, first bytes of the frame


def head(names: Sequence[str], kept_bytes: int) -> bytes:
    """Make the header of a pcapng: one interface for each name. kept_bytes : kept of each frame at most."""
    blocks = _block(_SECTION, struct.pack("=IHHq", _BYTE_ORDER, 1, 0, -1))
    for name in names:
        options = _option(_NAME, name.encode()) + _option(_RESOLUTION, bytes([_NANOSECONDS])) + bytes(4)
        blocks += _block(_INTERFACE, struct.pack("=HHI", _ETHERNET, 0, kept_bytes) + options)
    return blocks


def packet_block(packet: Packet) -> bytes:
    """Make a packet's block of the pcapng."""
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
    """A thread that writes packets to a pipe or file, from `open` to `close`.

    to : a file descriptor that is open for writing, or the path of a FIFO or file. A reader that closes its end stops
    only the writing.
    """

    def __init__(self, to: int | str | os.PathLike[str]):
        self._to = to
        self._ending = threading.Event()
        self._problem: OSError | None = None

    def open(self, ports: Iterable[tuple[str, str]], kept_bytes: int, take: Callable[[], Iterable[Packet]]) -> None:
        """Open the file and start the thread; with a FIFO, wait for its reader.

        ports : (from, to) of each interface. take : returns the packets that are new since its last call.

        Raises NetreproError for a file that cannot be written to.
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
        """Write the remaining packets and end the thread. Raises NetreproError where writing failed."""
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
        except BrokenPipeError:  # the reader has gone
            pass
        except OSError as error:
            self._problem = error
        finally:
            os.close(self._file)

    def _write(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._file, content) :]


def live_capture(to: int | str | os.PathLike[str] | None, packets: Collection[tuple[str, str]]) -> LiveCapture | None:
    """Make the capture for `Network.record(live=)`, None for None. Raises NetreproError where `packets` is empty."""
    if to is not None and not packets:
        raise NetreproError("a live capture of no port's packets", "name ports in packets=")
    return None if to is None else LiveCapture(to)
