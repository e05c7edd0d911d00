"""UNIBS-2009: its files, and its log, which names the application of each flow.

The trace covers three days of a campus network, without payload. Its ground truth is from GT (Gringoli et al., ACM CCR
39(5), 2009): a daemon on each workstation noted the process behind every socket. See data/gmm_traffic/README.md.
"""

from __future__ import annotations

import ipaddress
import lzma
from dataclasses import dataclass
from functools import cache, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from netrepro.errors import NetreproError, nearest
from netrepro.paths import data_dir

NAMED_CLASSES = ("MAILS", "P2P", "SKYPE", "WEB")
CLASSES = (*NAMED_CLASSES, "OTHERS")
LABELS = ["class", "application", "application_protocol"]
PROTOCOL_NUMBERS = {"tcp": 6, "6": 6, "udp": 17, "17": 17}
RECORD_COLUMNS = [
    "time_us", "source_address", "source_port", "destination_address", "destination_port", "protocol", *LABELS,
]  # fmt: skip
ASK = "data/gmm_traffic/README.md says how to ask for the trace and where to put it"


@dataclass(frozen=True)
class TraceFiles:
    """The captures of a labelled trace, in order of time, and its log."""

    captures: tuple[Path, ...]
    log: Path


@dataclass(frozen=True)
class GroundTruth:
    """A log of labels.

    records : one row for each line that can be read: time_us (since 1970 by the log's clock), source_* (the
        workstation, which need not have opened the connection), destination_*, protocol (6 TCP, 17 UDP, 0 unknown),
        class, application, application_protocol. unreadable : all other lines: line (number from 1), text.
    """

    records: pd.DataFrame
    unreadable: pd.DataFrame

    @property
    def unreadable_share(self) -> float:
        """The share of the log's lines that cannot be read, 0 to 1; 0 for an empty log."""
        lines = len(self.records) + len(self.unreadable)
        return len(self.unreadable) / lines if lines else 0.0

    def table(self) -> pd.DataFrame:
        """Count the records of each pair of application and protocol, with the class of the pair."""
        return self.records.groupby(LABELS).size().rename("records").reset_index()


@cache
def labels() -> dict[str, Any]:
    """Load data/gmm_traffic/labels.yaml."""
    return yaml.safe_load((data_dir("gmm_traffic") / "labels.yaml").read_text())


def published_trace(name: str) -> dict[str, Any]:
    """Return a trace's entry in labels.yaml, completed by the entry of the trace that it was `made_to_meet`, if any.

    Raises NetreproError for an unknown name.
    """
    traces = labels()["traces"]
    if name not in traces:
        raise NetreproError(f"no trace {name!r}", nearest(name, traces))
    return traces.get(traces[name].get("made_to_meet"), {}) | traces[name]


def classify_label(application: str, application_protocol: str, rules: dict[str, Any] | None = None) -> str:
    """Return the class of a label by the rules of labels.yaml."""
    rules = rules or labels()
    application, application_protocol = application.strip().lower(), application_protocol.strip().lower()
    for name, protocols in rules["classes"].items():
        if application_protocol in protocols:
            return name
    encrypted = rules["encrypted"]
    if application_protocol not in encrypted["protocols"]:
        return rules["everything_else"]
    for name, words in encrypted["applications"].items():
        if any(word in application for word in words):
            return name
    return encrypted["otherwise"]


def find_unibs(folder: str | PathLike[str] | None = None) -> TraceFiles:
    """Find the three daily captures (archived or not) and the log in `folder`, data/gmm_traffic/unibs-2009 if None.

    Raises NetreproError where a file is missing; the error names the file and says how to get it.
    """
    place = Path(folder) if folder is not None else data_dir("gmm_traffic") / "unibs-2009"
    trace = published_trace("unibs-2009")
    files = {name: sorted(place.glob(f"{name}*")) for name in (*trace["captures"], trace["log"])}
    missing = [name for name, paths in files.items() if not paths]
    if missing:
        raise NetreproError(f"UNIBS-2009 is not complete in {place}: no {', '.join(missing)}", ASK)
    return TraceFiles(tuple(files[name][0] for name in trace["captures"]), files[trace["log"]][0])


def read_ground_truth(path: str | PathLike[str]) -> GroundTruth:
    """Read a log in UNIBS's format: a header, then lines of fields between colons.

    The fields are time (seconds since 1970), source and destination address, source and destination port, transport
    protocol, application, protocol; logs with each port directly after its address are read, too. A ";" around a field
    is no part of it ("http;"), and a sixth field that names no transport protocol (some readers call it "verdict") fits
    TCP and UDP. Lines that cannot be read go to `unreadable`. A log may be compressed (.xz). The result is cached and
    shared between callers, so do not change its tables. Raises NetreproError where the file is missing or no line can
    be read.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        raise NetreproError(f"{path} cannot be read: {error.strerror or error}", ASK) from None
    return _read_log(Path(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _read_log(path: Path, changed_ns: int, size_bytes: int) -> GroundTruth:
    """Read the log; the time of its last change and its size are part of the cache's key."""
    try:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", errors="replace") as log:
            lines = log.read().splitlines()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise NetreproError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", ASK) from None
    rules = labels()
    records, unreadable = [], []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            records.append(_fields(line))
        except (ValueError, OverflowError):
            unreadable.append((number, line))
    if not records:
        raise NetreproError(
            f"{path} is no log of labels: none of its {len(unreadable)} lines after the first can be read",
            "time:address:address:port:port:transport:application:protocol is expected",
        )
    table = pd.DataFrame(records, columns=[name for name in RECORD_COLUMNS if name != "class"])
    pairs = table[["application", "application_protocol"]].drop_duplicates()
    classes = {(said, seen): classify_label(said, seen, rules) for said, seen in pairs.itertuples(index=False)}
    table["class"] = [classes[pair] for pair in zip(table["application"], table["application_protocol"], strict=True)]
    return GroundTruth(table[RECORD_COLUMNS], pd.DataFrame(unreadable, columns=["line", "text"]))


def _fields(line: str) -> tuple[int, str, int, str, int, int, str, str]:
    """Read the fields of a line in the order of RECORD_COLUMNS without the class. Raises ValueError."""
    fields = [field.strip("; \t\r\n") for field in line.split(":", 7)]
    time, first, second, third, fourth, transport, application, protocol = fields
    if second.isdigit():
        second, third = third, second
    ports = int(third), int(fourth)
    if not all(0 <= port < 65536 for port in ports):
        raise ValueError(line)
    time_us = round(float(time) * 1e6)
    number = PROTOCOL_NUMBERS.get(transport.lower(), 0)
    return time_us, _address(first), ports[0], _address(second), ports[1], number, application, protocol


@cache
def _address(text: str) -> str:
    return str(ipaddress.ip_address(text))
