"""Captures changed on purpose, and metered again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS
from netrepro.paths import data_dir
from netrepro.traffic import LabelledFlows, load_labelled_flows
from netrepro.traffic.captures import CaptureFile


@dataclass
class Packets:
    """A classic pcap capture of Ethernet frames, to be changed in place: its bytes, and where each record begins."""

    content: NDArray[np.uint8]
    starts: NDArray[np.int64]
    captured: NDArray[np.int64]
    byte_order: str

    @classmethod
    def read(cls, path: Path) -> Packets:
        """Read a capture. Raises NetreproError where the file is no classic pcap capture of Ethernet frames."""
        content = b"".join(b"".join(chunks) for chunks in CaptureFile(path).captures())
        order = "<" if content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        words = np.dtype(f"{order}u4")
        if content[:4] == b"\n\r\r\n" or int(np.frombuffer(content, words, 1, 20)[0]) & 0xFFFF != 1:
            raise NetreproError(f"{path.name} is no pcap capture of Ethernet frames", "the stand-in's captures are")
        starts, sizes, place = [], [], 24
        kind = "little" if order == "<" else "big"
        while place + 16 <= len(content):
            size = int.from_bytes(content[place + 8 : place + 12], kind)  # type: ignore[arg-type]
            starts.append(place)
            sizes.append(size)
            place += 16 + size
        return cls(np.frombuffer(content, np.uint8).copy(), np.array(starts), np.array(sizes), order)

    @property
    def ip(self) -> NDArray[np.int64]:
        """The places where each packet's IPv4 header begins."""
        return self.starts + 16 + 14

    def _word(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.content[places].astype(np.int64) << 8 | self.content[places + 1]

    def _set_ip_length(self, lengths: NDArray[np.int64]) -> None:
        self.content[self.ip + 2], self.content[self.ip + 3] = lengths >> 8, lengths & 255

    def count_captured_bytes(self) -> None:
        """Set the IP length to what was captured, as a tool does that reads the record and not the header."""
        self._set_ip_length(self.captured - 14)

    def count_transport_bytes(self) -> None:
        """Take the IP header off the IP length. A meter that checks lengths could refuse that; ours does not."""
        self._set_ip_length(self._word(self.ip + 2) - 4 * (self.content[self.ip] & 15).astype(np.int64))

    def keep_whole_seconds(self) -> None:
        """Cut the fractions off time stamps, as in flowtbag."""
        for byte in range(4, 8):
            self.content[self.starts + byte] = 0

    @property
    def tcp(self) -> NDArray[np.int64]:
        """The places where each packet's TCP header begins."""
        return self.ip + 4 * (self.content[self.ip] & 15).astype(np.int64)

    def drop_openings(self) -> None:
        """Drop each connection's SYN; its SYN-ACK stays."""
        self._keep((self.content[self.tcp + 13] & 18) != 2)

    def drop_handshakes(self) -> None:
        """Drop each connection's SYN, SYN-ACK and the acknowledgement after it."""
        tcp = self.tcp
        ends = np.stack([self._word(self.ip + 12 + 2 * i) for i in range(4)], axis=1)
        hosts = np.stack([ends[:, 0] << 16 | ends[:, 1], ends[:, 2] << 16 | ends[:, 3]], axis=1)
        ports = np.stack([self._word(tcp), self._word(tcp + 2)], axis=1)
        sides = np.sort(hosts << 16 | ports, axis=1)
        has_syn = (self.content[tcp + 13] & 2) > 0
        connection = pd.DataFrame(sides).groupby([0, 1], sort=False).ngroup()
        # A port that is used again begins a new connection with its SYN.
        opens = has_syn & ((self.content[tcp + 13] & 16) == 0)
        turn = pd.Series(opens).groupby(connection).cumsum()
        order = connection.groupby([connection, turn]).cumcount().to_numpy()
        self._keep((order >= 3) & ~has_syn)

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        parts = [self.content[:24]]
        sizes = 16 + self.captured
        parts += [
            self.content[start : start + size] for start, size in zip(self.starts[kept], sizes[kept], strict=True)
        ]
        self.content, self.captured = np.concatenate(parts), self.captured[kept]
        self.starts = 24 + np.concatenate([[0], np.cumsum(16 + self.captured)[:-1]])

    def copy(self) -> Packets:
        return replace(self, content=self.content.copy())

    def write(self, path: Path) -> None:
        path.write_bytes(self.content.tobytes())


@lru_cache(maxsize=2)
def _read_once(path: Path) -> Packets:
    """Read one day's packets, which every change takes a copy of."""
    return Packets.read(path)


CHANGES: dict[str, Callable[[Packets], None]] = {
    "captured lengths": Packets.count_captured_bytes,
    "transport lengths": Packets.count_transport_bytes,
    "whole seconds": Packets.keep_whole_seconds,
    "SYNs missed": Packets.drop_openings,
    "handshakes missed": Packets.drop_handshakes,
}


def changed_trace(change: str | None, *, folder: Path | None = None, **metering: Any) -> LabelledFlows:
    """Meter the stand-in at nine packets, from captures that were changed, or otherwise metered.

    Its audit does not ask for the published bytes, since the captures hold the beginnings of flows only.
    """
    place = folder or data_dir("gmm_traffic") / "standin"
    captures = sorted(place.glob("day*.pcap.xz"))
    with tempfile.TemporaryDirectory(prefix="netrepro-") as name:
        files = [Path(name) / f"{number}.pcap" for number in range(len(captures))]
        for capture, file in zip(captures, files, strict=True):
            packets = _read_once(capture)
            if change:
                packets = packets.copy()
                CHANGES[change](packets)
            packets.write(file)
        log = place / "groundtruth.log.xz"
        return load_labelled_flows(files, log, first_packets=BEST_PACKETS, clock_offset_s=0.0, **metering)


def all_labelled(found: LabelledFlows) -> pd.DataFrame:
    """Return the labelled flows, also those that netmate-flowcalc would not export."""
    return found.join.flows[found.join.flows["class"].notna()].reset_index(drop=True)
