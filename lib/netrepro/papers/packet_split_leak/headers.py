"""Headers of the stand-in's packets, with the flow and the application of each, and identifiers taken out of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.paths import data_dir
from netrepro.traffic import load_standin
from netrepro.traffic.packets import Packets, ends_of, time_stamp_options
from netrepro.traffic.standin import KEPT_PACKETS, capture_name

APPLICATIONS = ("bittorrent", "http", "pop3", "skype", "smtp", "ssl")  # of 60 flows or more a day
UNLABELLED_DAY, LABELLED_DAY = 0, 1
HEADER_BYTES = 60  # IP without options, TCP with all that it may have
FIXED_BYTES = 40  # of both headers without options

# Bytes of the fields, from the beginning of the IP header (RFC 791, RFC 9293).
ENDS = slice(12, 24)  # addresses and ports
IDENTIFICATION, NUMBERS = [*range(4, 6)], [*range(24, 32)]
CHECKSUMS = [10, 11, 36, 37]
IDENTIFIERS = ("sequence numbers", "time stamps", "identification", "checksums")

AS_CAPTURED, REMOVED, DRAWN = "as captured", "identifiers removed", "identifiers drawn anew"
WITHOUT = {f"without {name}": name for name in IDENTIFIERS}
TREATMENTS = (AS_CAPTURED, REMOVED, DRAWN, *WITHOUT)


@dataclass(frozen=True)
class Headers:
    """IP and TCP headers of n packets, without addresses and ports.

    content : bytes, shape (n, HEADER_BYTES), zero after the end of a header. flow : number of each packet's flow. place
    : of the packet in its flow, from 0. application : a word for each packet, "" where it has no label.
    """

    content: NDArray[np.uint8]
    flow: NDArray[np.int64]
    place: NDArray[np.int64]
    application: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.content)

    def only(self, kept: NDArray) -> Headers:
        """Return some of the packets; kept : row numbers, or a truth value for each packet."""
        return Headers(self.content[kept], self.flow[kept], self.place[kept], self.application[kept])

    def bits(self) -> NDArray[np.float32]:
        """Return the headers as bits of -1 and 1, shape (n, 8 * HEADER_BYTES)."""
        return np.unpackbits(self.content, axis=1).astype(np.float32) * 2 - 1

    def fields(self) -> pd.DataFrame:
        """Return the fields that the authors' trees see, as numbers: a row for each packet.

        Left out are fields that are the same in every packet here.
        """
        byte = self.content.astype(np.int64)

        def number(first: int, count: int) -> NDArray[np.int64]:
            return sum((byte[:, first + i] << 8 * (count - 1 - i) for i in range(count)), np.zeros(len(self), np.int64))

        stamps = time_stamps(self.content)
        at = np.where(stamps.any(axis=1), stamps.argmax(axis=1), 0)
        rows = np.arange(len(self))
        values = [sum(byte[rows, at + first + i] << 8 * (3 - i) for i in range(4)) for first in (0, 4)]
        return pd.DataFrame(
            {
                "length": number(2, 2),
                "identification": number(4, 2),
                "fragment_flags": byte[:, 6] >> 5,
                "time_to_live": byte[:, 8],
                "ip_checksum": number(10, 2),
                "sequence": number(24, 4),
                "acknowledgement": number(28, 4),
                "data_offset": byte[:, 32] >> 4,
                "tcp_flags": byte[:, 33],
                "window": number(34, 2),
                "tcp_checksum": number(36, 2),
                "time_stamp": np.where(at > 0, values[0], 0),
                "echoed_time_stamp": np.where(at > 0, values[1], 0),
            }
        )

    def treated(self, treatment: str, random: np.random.Generator) -> Headers:
        """Return the headers with identifiers removed (zero), all or one kind, or drawn anew in every packet."""
        content = self.content.copy()
        if treatment == AS_CAPTURED:
            return self
        where = identifiers(content, IDENTIFIERS if treatment in (REMOVED, DRAWN) else (WITHOUT[treatment],))
        content[where] = random.integers(0, 256, where.sum(), np.uint8) if treatment == DRAWN else 0
        return replace(self, content=content)


def identifiers(content: NDArray[np.uint8], kinds: tuple[str, ...] = IDENTIFIERS) -> NDArray[np.bool_]:
    """Tell which bytes of headers are identifiers of these kinds, shape (n, HEADER_BYTES)."""
    where = np.zeros(content.shape, bool)
    for kind, places in (("identification", IDENTIFICATION), ("sequence numbers", NUMBERS), ("checksums", CHECKSUMS)):
        where[:, places] |= kind in kinds
    return where | time_stamps(content) if "time stamps" in kinds else where


def time_stamps(content: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Find the eight bytes of TCP's time stamps (value and echo) in headers, shape (n, HEADER_BYTES)."""
    stamps = np.zeros(content.shape, bool)
    rows, places = np.arange(len(content)), np.arange(HEADER_BYTES)
    end = np.minimum(20 + 4 * (content[:, 32].astype(np.int64) >> 4), HEADER_BYTES)

    def byte_at(place: NDArray[np.int64]) -> NDArray[np.int64]:
        return content[rows, np.minimum(place, HEADER_BYTES - 1)].astype(np.int64)

    for there, option in time_stamp_options(byte_at, np.full(len(content), FIXED_BYTES), end):
        first = option[:, None] + 2
        stamps |= there[:, None] & (places >= first) & (places < first + 8)
    return stamps


@cache
def load_headers(day: int) -> Headers:
    """Load the headers of one day of the stand-in, in the order of the capture. Addresses and ports are zero.

    Flows are numbered by their ends; the stand-in has no two flows of a day between the same ends.
    """
    packets = Packets.read(data_dir("gmm_traffic") / "standin" / capture_name(day))
    last = len(packets.content) - 1
    reach = packets.ip[:, None] + np.arange(HEADER_BYTES)
    content = packets.content[np.minimum(reach, last)]
    length = 20 + 4 * (content[:, 32].astype(np.int64) >> 4)
    content[np.arange(HEADER_BYTES) >= length[:, None]] = 0
    flow, known = pd.factorize(_words(packets.ends()))
    flows = load_standin(first_packets=KEPT_PACKETS).flows
    flows = flows[flows["day"] == day]
    applications = flows.set_index(_words(ends_of(flows)))["application_protocol"]
    application = applications.reindex(known).fillna("").to_numpy(str)[flow]
    content[:, ENDS] = 0
    place = pd.Series(flow).groupby(flow).cumcount().to_numpy()
    return Headers(content, flow.astype(np.int64), place, application)


def _words(ends: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray:
    """Return a word for each pair of ends, the same in both directions."""
    return np.array([f"{low}-{high}" for low, high in np.sort(np.stack(ends, axis=1), axis=1)])


def draw_packets(headers: Headers, flows_per_application: int, packets_per_flow: int, seed: int) -> Headers:
    """Draw flows of each application, at most this number, and keep their first packets."""
    random = np.random.default_rng(seed)
    of_flow = pd.Series(headers.application).groupby(headers.flow).first()
    kept = [
        random.permutation(of_flow.index[of_flow == name].to_numpy())[:flows_per_application] for name in APPLICATIONS
    ]
    return headers.only(np.isin(headers.flow, np.concatenate(kept)) & (headers.place < packets_per_flow))
