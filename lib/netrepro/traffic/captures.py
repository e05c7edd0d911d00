"""Opening capture files: plain, gzip, bzip2 or xz, alone or in a tar archive. The content decides, not the name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import BinaryIO, cast

import netrepro._core as _core
from netrepro.errors import NetreproError

CHUNK_BYTES, STEP_BYTES = 1 << 20, 1 << 13
COMPRESSIONS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f\x8b": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    b"BZh": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    b"\xfd7zXZ\x00": lambda file: cast(BinaryIO, lzma.LZMAFile(file)),  # noqa: SIM115 (closed by the caller)
}
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError)
READABLE = "pcap and pcapng are read, plain or as .gz, .bz2, .xz, .tar, .tar.gz, .tar.bz2 or .tar.xz"


# Link types that are common but not decoded, by their number in a capture (LINKTYPE_ values of tcpdump.org).
LINK_NAMES = {
    6: "IEEE 802.5 token ring",
    9: "PPP",
    10: "FDDI",
    50: "PPP in HDLC-like framing",
    51: "PPPoE",
    104: "Cisco HDLC",
    105: "IEEE 802.11 wireless LAN",
    107: "Frame Relay",
    117: "OpenBSD pflog",
    119: "IEEE 802.11 with a Prism header",
    127: "IEEE 802.11 with a radiotap header",
    187: "Bluetooth HCI",
    189: "USB of Linux",
    192: "PPI",
    195: "IEEE 802.15.4",
    201: "Bluetooth HCI with directions",
    220: "USB of Linux, padded",
    227: "CAN",
    230: "IEEE 802.15.4 without a checksum",
    239: "NFLOG",
    249: "USBPcap",
    251: "Bluetooth Low Energy",
    253: "Netlink",
}


def link_name(number: int) -> str:
    """Write a capture's link type: its number and, where it is one of LINK_NAMES, its name.

    >>> link_name(105), link_name(147)
    ('105 (IEEE 802.11 wireless LAN)', '147')
    """
    return f"{number} ({LINK_NAMES[number]})" if number in LINK_NAMES else str(number)


class _UntilDamage:
    """A stream of decompressed or archived bytes that ends at the first damage; all bytes before it are read."""

    def __init__(self, stream: BinaryIO, step_bytes: int = STEP_BYTES):
        self.stream, self.step_bytes = stream, step_bytes
        self.damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Read `size` bytes; fewer where the stream ends or is damaged."""
        parts = []
        while size > 0 and not self.damage:
            try:
                # In small steps: a step that meets damage loses the bytes that it has read.
                part = self.stream.read1(min(size, self.step_bytes))  # type: ignore[attr-defined]
            except DAMAGE as error:
                self.damage = error
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class _Rejoined:
    """A stream whose first bytes have been read already."""

    def __init__(self, head: bytes, rest: _UntilDamage):
        self.head, self.rest = head, rest

    def read(self, size: int) -> bytes:
        head, self.head = self.head[:size], self.head[size:]
        return head + self.rest.read(size - len(head))


def capture_files(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[CaptureFile]:
    """Open the captures of one path or several. Raises NetreproError as CaptureFile does, and for no or invalid
    paths."""
    several = [paths] if isinstance(paths, str | PathLike) or not isinstance(paths, Iterable) else list(paths)
    for path in several:
        if not isinstance(path, str | PathLike):
            raise NetreproError(f"a capture {path!r}", "give one path or a list of paths")
    if not several:
        raise NetreproError("no capture was given", "give one path or a list of paths")
    return [CaptureFile(path) for path in several]


class CaptureFile:
    """One file on disk that holds a capture, or an archive of captures.

    Raises NetreproError where the file is missing, or is neither a capture nor an archive.
    `captures()` yields the chunks of each capture in turn. Errors inside the file are counted, not raised:
    `damage` counts compressed or archived streams that break off, and `skipped_members` counts archive members
    that are not captures.
    """

    def __init__(self, path: str | PathLike[str]):
        self.path = Path(path)
        self.bytes_read = 0
        self.damage = 0
        self.skipped_members = 0
        if not self.path.exists():
            raise NetreproError(f"{self.path} does not exist", "give the path of a capture file")
        if not self.path.is_file():
            raise NetreproError(f"{self.path} is not a file", "give the paths of the capture files in it")
        self.size_bytes = self.path.stat().st_size
        with self.path.open("rb") as file, ExitStack() as stack:
            head, _ = self._begin(file, stack)
        self.is_archive = head[TAR_MAGIC_AT:].startswith(TAR_MAGIC)
        if not self.is_archive and not _core.starts_a_capture(head):
            raise self._no_capture(f"it begins with {head[:4].hex(' ')}" if head else "it is empty")

    def captures(self) -> Iterator[Iterator[bytes]]:
        """Yield the captures of the file, each an iterator of chunks of bytes.

        Raises NetreproError where no member of an archive is a capture.
        """
        with self.path.open("rb") as file, ExitStack() as stack:
            head, rest = self._begin(file, stack)
            stream = _Rejoined(head, rest)
            is_any = False
            for chunks in self._members(stream, file) if self.is_archive else [self._chunks(stream, file)]:
                is_any = True
                yield chunks
            # `_members` itself counts an archive that breaks off.
            self.damage += bool(rest.damage) and not self.is_archive
        self.bytes_read = self.size_bytes
        if not is_any:
            raise self._no_capture("no member of the archive is one")

    def _begin(self, file: BinaryIO, stack: ExitStack) -> tuple[bytes, _UntilDamage]:
        """Return the first bytes of the decompressed file, and the rest of it, which `stack` closes."""
        magic = file.read(6)
        file.seek(0)
        opener = next((open_ for start, open_ in COMPRESSIONS.items() if magic.startswith(start)), None)
        # A plain file is not compressed, so no step can lose bytes to damage: large steps are safe.
        stream = _UntilDamage(stack.enter_context(opener(file))) if opener else _UntilDamage(file, CHUNK_BYTES)
        head = stream.read(512)
        if stream.damage and not head:
            raise self._no_capture(f"its compressed data cannot be read: {stream.damage}")
        return head, stream

    def _no_capture(self, why: str) -> NetreproError:
        return NetreproError(f"{self.path} is not a capture: {why}", READABLE)

    def _chunks(self, stream: _Rejoined, file: BinaryIO) -> Iterator[bytes]:
        while chunk := stream.read(CHUNK_BYTES):
            self.bytes_read = file.tell()
            yield chunk

    def _members(self, stream: _Rejoined, file: BinaryIO) -> Iterator[Iterator[bytes]]:
        try:
            with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isfile() else None
                    if content is None:
                        continue
                    member_stream = _UntilDamage(cast(BinaryIO, content))
                    head = member_stream.read(4)
                    if _core.starts_a_capture(head):
                        yield self._chunks(_Rejoined(head, member_stream), file)
                    else:
                        self.skipped_members += 1
        except DAMAGE:
            self.damage += 1
