"""Tables of packet headers, a row for each packet: made evenly spaced, read from a capture, and checked."""

from __future__ import annotations

import ipaddress
from os import PathLike

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.traffic.captures import CaptureFile

HEADER_COLUMNS = (
    "time_s",
    "source",
    "destination",
    "source_port",
    "destination_port",
    "protocol",
    "size_bytes",
    "ecn_capable",
)
MOST_S = 1e6  # the last time at which a packet may arrive


def synthetic_headers(
    packets: int,
    spacing_us: float,
    *,
    source: str = "10.0.0.1",
    source_port: int = 4000,
    destination: str = "10.0.0.2",
    destination_port: int = 5000,
    protocol: int = 17,
    size_bytes: int = 46,
    ecn_capable: bool = False,
) -> pd.DataFrame:
    """Make headers of one flow of equal packets, evenly spaced from time 0 on."""
    return pd.DataFrame(
        {
            "time_s": np.arange(packets) * (spacing_us * 1e-6),
            "source": source,
            "destination": destination,
            "source_port": source_port,
            "destination_port": destination_port,
            "protocol": protocol,
            "size_bytes": size_bytes,
            "ecn_capable": ecn_capable,
        }
    )


def headers_of_capture(path: str | PathLike[str]) -> pd.DataFrame:
    """Read headers of the IPv4 packets of a pcap or pcapng file; time_s counts from the first; addresses as text.

    Packets that go back in time are put in order. ECN bits are not read: ecn_capable is False.
    Raises NetreproError for a file that is no capture.
    """
    from netrepro import _core

    reader = _core.HeaderReader()
    for chunks in CaptureFile(path).captures():
        for chunk in chunks:
            reader.feed(chunk)
        reader.finish()
    columns = reader.columns()
    order = np.argsort(columns["time_us"], kind="stable")
    times = columns["time_us"][order]
    addresses, ports = columns["addresses"][order], columns["ports"][order]
    return pd.DataFrame(
        {
            "time_s": (times - times[0]) * 1e-6 if len(times) else times.astype(float),
            "source": _texts(addresses[:, 0]),
            "destination": _texts(addresses[:, 1]),
            "source_port": ports[:, 0],
            "destination_port": ports[:, 1],
            "protocol": columns["protocol"][order],
            "size_bytes": columns["size_bytes"][order],
            "ecn_capable": False,
        }
    )


def _texts(addresses: np.ndarray) -> np.ndarray:
    codes, numbers = pd.factorize(addresses)
    return np.array([str(ipaddress.IPv4Address(int(number))) for number in numbers], dtype=object)[codes]


def checked_headers(headers: pd.DataFrame | np.ndarray) -> pd.DataFrame:
    """Return the table of headers, with ecn_capable False where it is missing. Raises NetreproError for other missing
    columns, times that go back, and numbers that no packet has."""
    table = pd.DataFrame(headers).reset_index(drop=True)
    if "ecn_capable" not in table:
        table = table.assign(ecn_capable=False)
    missing = [name for name in HEADER_COLUMNS if name not in table]
    if missing:
        hint = nearest(missing[0], [str(name) for name in table])
        raise NetreproError(f"headers without column {missing[0]!r}", f"needs {', '.join(HEADER_COLUMNS)}; {hint}")
    times = table["time_s"].to_numpy(dtype=float)
    if len(times) and not (np.isfinite(times).all() and times[0] >= 0 and (np.diff(times) >= 0).all()):
        raise NetreproError("headers whose time_s is negative, not a number or goes back", "sort by time_s, from 0 on")
    if len(times) and times[-1] > MOST_S:
        raise NetreproError(f"headers until time_s = {times[-1]:g}", f"let them begin at 0 and end by {MOST_S:g} s")
    for name, most in (
        ("source_port", 65_535),
        ("destination_port", 65_535),
        ("protocol", 255),
        ("size_bytes", 65_535),
    ):
        if len(table) and not table[name].between(0, most).all():
            raise NetreproError(f"headers with {name} outside 0 to {most}", "mend those rows")
    return table


def address_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Turn addresses, as text or numbers, into numbers. Raises NetreproError for what is no IPv4 address."""
    if pd.api.types.is_integer_dtype(column):
        if len(column) and not column.between(0, 2**32 - 1).all():
            raise NetreproError(f"headers with {name} outside IPv4", "give addresses as text, or numbers below 2**32")
        return column.to_numpy(dtype=np.uint32)
    codes, texts = pd.factorize(column)
    try:
        numbers = [int(ipaddress.IPv4Address(text)) for text in texts]
    except ValueError as error:
        raise NetreproError(f"headers with a {name} that is no IPv4 address: {error}", "mend those rows") from None
    return np.array(numbers, dtype=np.uint32)[codes] if len(column) else np.array([], dtype=np.uint32)
