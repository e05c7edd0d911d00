"""Bencoding, and torrents of a single file (BEP 3): their pieces, hashes and the info hash, which names the swarm."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from netrepro.errors import NetreproError

HASH_BYTES = 20  # SHA-1
BLOCK_BYTES = 16384
MOST_NESTED = 64


def bencode(value: Any) -> bytes:
    """Encode integers, bytes, strings (as UTF-8), lists and dictionaries with keys of bytes or strings.

    Raises NetreproError for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, bytes, str, list, tuple, dict)):
        raise NetreproError(f"{value!r} cannot be bencoded", "give integers, bytes, strings, lists and dictionaries")
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"%d:%s" % (len(value), value)
    if isinstance(value, (list, tuple)):
        return b"l" + b"".join(map(bencode, value)) + b"e"
    items = {key.encode() if isinstance(key, str) else key: each for key, each in value.items()}
    return b"d" + b"".join(bencode(key) + bencode(items[key]) for key in sorted(items)) + b"e"


def bdecode(data: bytes) -> Any:
    """Decode one whole bencoded value; strings are returned as bytes.

    Raises NetreproError for malformed data.
    """
    try:
        value, end = _decode(data, 0, 0)
    except (ValueError, IndexError, TypeError):
        raise NetreproError("this is not bencoded", "is it a torrent?") from None
    if end != len(data):
        raise NetreproError(f"{len(data) - end} bytes follow the bencoded value", "is it a torrent?")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MOST_NESTED:
        raise ValueError
    first = data[at : at + 1]
    if first == b"i":
        end = data.index(b"e", at)
        digits = data[at + 1 : end]
        if digits != b"%d" % int(digits):  # no -0, no leading zeros, no blanks
            raise ValueError
        return int(digits), end + 1
    if first == b"l":
        values, at = [], at + 1
        while data[at : at + 1] != b"e":
            value, at = _decode(data, at, depth + 1)
            values.append(value)
        return values, at + 1
    if first == b"d":
        items: dict[bytes, Any] = {}
        at += 1
        while data[at : at + 1] != b"e":
            key, at = _decode(data, at, depth + 1)
            if not isinstance(key, bytes) or (items and key <= next(reversed(items))):
                raise ValueError
            items[key], at = _decode(data, at, depth + 1)
        return items, at + 1
    colon = data.index(b":", at)
    if not data[at:colon].isdigit():
        raise ValueError
    size = int(data[at:colon])
    if colon + 1 + size > len(data):
        raise ValueError
    return data[colon + 1 : colon + 1 + size], colon + 1 + size


@dataclass(frozen=True)
class Torrent:
    """A torrent of a single file. info : the bencoded info dictionary, whose SHA-1 names the swarm."""

    name: str
    size_bytes: int
    piece_bytes: int
    hashes: tuple[bytes, ...]
    info: bytes

    @property
    def info_hash(self) -> bytes:
        """The SHA-1 of `info`, 20 bytes, which names the swarm (BEP 3)."""
        return hashlib.sha1(self.info).digest()

    @property
    def file(self) -> bytes:
        """The bytes of a .torrent file without a tracker."""
        return b"d4:info" + self.info + b"e"

    def piece_size(self, piece: int) -> int:
        """Return the size of a piece in bytes; the last piece may be shorter."""
        return min(self.piece_bytes, self.size_bytes - piece * self.piece_bytes)

    def blocks(self, piece: int) -> list[tuple[int, int]]:
        """List (offset, size in bytes) of the blocks of a piece."""
        size = self.piece_size(piece)
        return [(at, min(BLOCK_BYTES, size - at)) for at in range(0, size, BLOCK_BYTES)]


def make_torrent(name: str, content: bytes, piece_bytes: int = 16 * BLOCK_BYTES) -> Torrent:
    """Make the torrent of a file. Raises NetreproError for an empty file, and for pieces of less than 1 byte."""
    if not content or piece_bytes < 1:
        raise NetreproError(f"{len(content)} bytes in pieces of {piece_bytes}", "give at least 1 of each")
    hashes = [hashlib.sha1(content[at : at + piece_bytes]).digest() for at in range(0, len(content), piece_bytes)]
    info = {"length": len(content), "name": name, "piece length": piece_bytes, "pieces": b"".join(hashes)}
    return Torrent(name, len(content), piece_bytes, tuple(hashes), bencode(info))
