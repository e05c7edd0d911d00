"""A folder for captures, and the beginning of each file in it."""

from __future__ import annotations

import struct
from pathlib import Path

from netrepro.errors import NetreproError

_NANOSECOND_PCAP, _ETHERNET = 0xA1B23C4D, 1


def check_captures(folder: Path | None) -> None:
    """Raises NetreproError for a folder that is not there."""
    if folder is not None and not folder.is_dir():
        raise NetreproError(f"no folder {folder} for captures", "make it first")


def pcap_header(kept_bytes: int) -> bytes:
    """Head a pcap with stamps of nanoseconds that keeps so many bytes of a frame."""
    return struct.pack("=IHHiIII", _NANOSECOND_PCAP, 2, 4, 0, 0, kept_bytes, _ETHERNET)
