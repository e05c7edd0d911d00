"""Packets of a pcap capture, changed in place, to imitate errors that a meter or a capture could make."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.traffic.captures import CaptureFile

FILE_HEADER, RECORD_HEADER, ETHERNET_HEADER = 24, 16, 14  # bytes
SYN, ACK = 2, 16  # flags of TCP
END_OF_OPTIONS, NO_OPERATION, TIME_STAMPS, TIME_STAMPS_BYTES = 0, 1, 8, 10  # options of TCP (RFC 9293, RFC 7323)


@dataclass
class Packets:
    """A classic pcap capture of IPv4 packets in Ethernet frames: its bytes (`content`), the offset of each record
    (`starts`) and the number of captured bytes in each record (`captured`)."""

    content: NDArray[np.uint8]
    starts: NDArray[np.int64]
    captured: NDArray[np.int64]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Packets:
        """Read a capture. Raises NetreproError where the file is not a classic pcap capture of Ethernet frames."""
        content = b"".join(b"".join(chunks) for chunks in CaptureFile(path).captures())
        order = "<" if content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        words = np.dtype(f"{order}u4")
        if content[:4] == b"\n\r\r\n" or int(np.frombuffer(content, words, 1, 20)[0]) & 0xFFFF != 1:
            raise NetreproError(f"{Path(path).name} is no pcap capture of Ethernet frames", "convert it to one")
        starts, sizes, place = [], [], FILE_HEADER
        while place + RECORD_HEADER <= len(content):
            size = int(np.frombuffer(content, words, 1, place + 8)[0])
            starts.append(place)
            sizes.append(size)
            place += RECORD_HEADER + size
        return cls(np.frombuffer(content, np.uint8).copy(), np.array(starts), np.array(sizes))

    def copy(self) -> Packets:
        """Return a copy; changes to it leave this object as it is."""
        return replace(self, content=self.content.copy())

    def write(self, path: Path) -> None:
        """Write the packets as a capture file."""
        path.write_bytes(self.content.tobytes())

    @property
    def ip(self) -> NDArray[np.int64]:
        """The offset in `content` of each packet's IPv4 header."""
        return self.starts + RECORD_HEADER + ETHERNET_HEADER

    @property
    def tcp(self) -> NDArray[np.int64]:
        """The offset in `content` of each packet's TCP header."""
        return self.ip + self._ip_header_bytes

    @property
    def ip_lengths(self) -> NDArray[np.int64]:
        """The length of each packet by its IPv4 header, in bytes."""
        return self._word(self.ip + 2)

    @property
    def protocols(self) -> NDArray[np.int64]:
        """The number of each packet's protocol above IPv4: 6 for TCP."""
        return self.content[self.ip + 9].astype(np.int64)

    @property
    def times_us(self) -> NDArray[np.int64]:
        """The time stamp of each packet, in whole microseconds since 1970."""
        magic = self.content[:4].tobytes()
        is_little, is_nano = magic[0] in (0xD4, 0x4D), magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
        bytes_of_words = self.content[self.starts[:, None] + np.arange(8)]
        words = bytes_of_words.copy().view("<u4" if is_little else ">u4").astype(np.int64)
        return words[:, 0] * 1_000_000 + words[:, 1] // (1000 if is_nano else 1)

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sender and the receiver of each packet: the IPv4 address times 65,536, plus the port."""
        words = np.stack([self._word(self.ip + 12 + 2 * i) for i in range(4)], axis=1)
        hosts = words[:, ::2] << 16 | words[:, 1::2]
        sender, receiver = (hosts[:, i] << 16 | self._word(self.tcp + 2 * i) for i in range(2))
        return sender, receiver

    @property
    def _ip_header_bytes(self) -> NDArray[np.int64]:
        return 4 * (self.content[self.ip] & 15).astype(np.int64)

    def _word(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.content[places].astype(np.int64) << 8 | self.content[places + 1]

    def _set_ip_length(self, lengths: NDArray[np.int64]) -> None:
        self.content[self.ip + 2], self.content[self.ip + 3] = lengths >> 8, lengths & 255

    def count_captured_bytes(self) -> None:
        """Set the IP length to the captured bytes, like a tool that reads the record instead of the IP header."""
        self._set_ip_length(self.captured - ETHERNET_HEADER)

    def count_transport_bytes(self) -> None:
        """Subtract the IP header from the IP length. A meter that checks lengths could refuse this; ours does not."""
        self._set_ip_length(self.ip_lengths - self._ip_header_bytes)

    def keep_whole_seconds(self) -> None:
        """Remove the fractions of seconds from all time stamps, as flowtbag does."""
        for byte in range(4, 8):
            self.content[self.starts + byte] = 0

    def drop_openings(self) -> None:
        """Drop each connection's SYN; its SYN-ACK stays."""
        self._keep((self.content[self.tcp + 13] & (SYN | ACK)) != SYN)

    def drop_handshakes(self) -> None:
        """Drop the first three packets of each connection and every packet with a SYN flag."""
        sides = np.sort(np.stack(self.ends(), axis=1), axis=1)
        flags = self.content[self.tcp + 13]
        connection = pd.DataFrame(sides).groupby([0, 1], sort=False).ngroup()
        # Ports may be used again: each SYN begins a new connection.
        turn = pd.Series((flags & (SYN | ACK)) == SYN).groupby(connection).cumsum()
        order = connection.groupby([connection, turn]).cumcount().to_numpy()
        self._keep((order >= 3) & ((flags & SYN) == 0))

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        sizes = RECORD_HEADER + self.captured[kept]
        records = [self.content[start : start + size] for start, size in zip(self.starts[kept], sizes, strict=True)]
        self.content, self.captured = np.concatenate([self.content[:FILE_HEADER], *records]), self.captured[kept]
        self.starts = FILE_HEADER + np.cumsum(sizes) - sizes


def ends_of(flows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the source and the destination of each flow of a table of `meter`, as `Packets.ends` has them; IPv4."""
    source, destination = (_numbers(flows[f"{end}_address"], flows[f"{end}_port"]) for end in ("source", "destination"))
    return source, destination


def _numbers(addresses: pd.Series, ports: pd.Series) -> NDArray[np.int64]:
    place, distinct = pd.factorize(np.asarray(addresses, object))
    hosts = np.array([int(ipaddress.IPv4Address(each)) for each in distinct], np.int64)
    return hosts[place] << 16 | ports.to_numpy(np.int64)


def time_stamp_options(
    byte_at: Callable[[NDArray[np.int64]], NDArray[np.int64]], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Walk through the TCP options of many packets at once, and yield where time stamps are met: in which packets, and
    where the option begins.

    byte_at : gives the byte at a place of each packet. begin, end : of each packet's options. A list of options ends
    early at a length that cannot be.
    """
    place = begin.copy()
    while (walks := place + 1 < end).any():
        kind, length = byte_at(place), byte_at(place + 1)
        fits = place + TIME_STAMPS_BYTES <= end
        yield walks & (kind == TIME_STAMPS) & (length == TIME_STAMPS_BYTES) & fits, place
        goes_on = walks & (kind != END_OF_OPTIONS) & ((kind == NO_OPERATION) | (length >= 2))
        place = np.where(goes_on, place + np.where(kind == NO_OPERATION, 1, length), end)
