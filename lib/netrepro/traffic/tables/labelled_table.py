"""A table of labelled flows or packets, whatever tool wrote it, and what each of its columns is."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError, nearest

Told = Callable[[int, int], None] | None  # called with how much is done, of how much
FLOW, PACKET = "flow", "packet"
FEATURE, TEXT, PAYLOAD = "feature", "text", "payload"
# What tells who talks, where and when, and not how: a classifier that needs it has learnt a trace and not a class.
IDENTIFIERS = {
    "addresses": "addresses",
    "source port": "the source port",
    "destination port": "the destination port",
    "TTL": "the TTL",
    "sequence numbers": "sequence numbers",
    "checksums": "checksums",
    "times": "absolute times",
    "row numbers": "row numbers",
    "names": "names of servers and programs",
}
ENDS = ("source_address", "source_port", "destination_address", "destination_port", "protocol")

# What tools call the same thing, in small letters and with _ for all other characters.
_NAMES = {
    "source_address": (
        "source_address", "src_ip", "source_ip", "src_addr", "srcaddr", "ip_src", "id_orig_h", "saddr", "srcip",
        "sourceip", "ipv4_src_addr",
    ),
    "destination_address": (
        "destination_address", "dst_ip", "destination_ip", "dst_addr", "dstaddr", "ip_dst", "id_resp_h", "daddr",
        "dstip", "destinationip", "ipv4_dst_addr",
    ),
    "source_port": ("source_port", "src_port", "sport", "id_orig_p", "srcport", "sourceport", "l4_src_port"),
    "destination_port": (
        "destination_port", "dst_port", "dport", "id_resp_p", "dstport", "destinationport", "dest_port", "l4_dst_port",
    ),
    "protocol": ("protocol", "proto", "prot", "ip_proto", "l4_proto"),
    "start": (
        "start_us", "timestamp", "ts", "bidirectional_first_seen_ms", "time_first", "start_time", "stime",
        "flow_start_milliseconds", "first_seen", "time_us",
    ),
}  # fmt: skip
LABELS = (
    "label", "class", "app", "attack", "attack_cat", "application", "category", "traffic_category", "target",
    "activity", "application_name",
)  # fmt: skip
_ROLES = (
    ("addresses", r"(^|_)(ip|addr|address|mac|oui|asn|subnet|country)$"),
    ("source port", r"(^|_)(src|source|s)_?port$"),
    ("destination port", r"(^|_)(dst|destination|dest|d)_?port$"),
    ("TTL", r"(^|_)(ttl|hop_limit|hlim)(_|$)"),
    (
        "sequence numbers",
        r"(^|_)(seq|seqno|tcp_seq|tcp_ack|ack_number|acknum|ip_id|ipid|sequence|ts_?val|ts_?ecr|flow_label)(_|$)",
    ),
    ("checksums", r"checksum|chksum|(^|_)(csum|crc)(_|$)"),
    ("times", r"(first|last)_(seen|switched)|time_(first|last)|timestamp|(^|_)(start|end)_(us|ms|s|time)$"),
    ("times", r"^(ts|stime|ltime|date|day|time|epoch|record_time_us)$"),
    ("row numbers", r"^(id|uid|fid|flow_id|expiration_id|index|unnamed.*|row|no|number|frame_number|)$"),
    ("names", r"(^|_)(sni|server_name|user_agent|ja3s?|ja4|client_fingerprint|server_fingerprint|hostname|domain)$"),
)
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58, "ipv6-icmp": 58, "sctp": 132}


def plain_name(column: object) -> str:
    """Write a column's name in small letters, with _ for all other characters.

    >>> plain_name(" Fwd Packet Length Max"), plain_name("id.orig_h"), plain_name("Flow Bytes/s")
    ('fwd_packet_length_max', 'id_orig_h', 'flow_bytes_s')
    """
    return re.sub(r"[^a-z0-9]+", "_", str(column).lower()).strip("_")


def role_of(column: object, *, is_text: bool = False) -> str:
    """Tell by its name whether a column is a feature or one of IDENTIFIERS; TEXT is any other column of words.

    >>> role_of("Dst Port"), role_of("orig_ip_bytes"), role_of("TIME_FIRST"), role_of("history", is_text=True)
    ('destination port', 'feature', 'times', 'text')
    """
    name = plain_name(column)
    for end, role in zip(ENDS[:4], ("addresses", "source port", "addresses", "destination port"), strict=True):
        if name in _NAMES[end]:
            return role
    if name in _NAMES["start"]:
        return "times"
    for role, pattern in _ROLES:
        if re.search(pattern, name):
            return role
    return TEXT if is_text else FEATURE


def find_label(columns: Iterable[object], asked: str | None = None) -> str:
    """Return the column that holds the labels: the one asked for, else the first of LABELS that is there.

    Raises NetreproError where there is none.
    """
    names = [str(column) for column in columns]
    by_plain = {plain_name(name): name for name in reversed(names)}
    if asked is not None:
        if asked in names:
            return asked
        if plain_name(asked) in by_plain:
            return by_plain[plain_name(asked)]
        raise NetreproError(f"no column {asked!r}", nearest(asked, names))
    for name in LABELS:
        if name in by_plain:
            return by_plain[name]
    raise NetreproError("no column holds labels", f"name it: --label COLUMN, of {', '.join(names[:20])}")


@dataclass(frozen=True)
class LabelledTable:
    """Labelled flows or packets.

    columns : one row a flow or packet; numbers are float32 (float64 for times), words are categories.
    labels (n,) : the classes, as texts. roles : of each column: FEATURE, PAYLOAD, TEXT or one of IDENTIFIERS.
    ends : of each row what is known of ENDS (addresses as categories), start_s (s since 1970), file, flow, sample.
    unit : FLOW or PACKET. kind : the tool that wrote it, in words. notes : what a reader should know about the reading.
    """

    columns: pd.DataFrame
    labels: NDArray[Any]
    roles: Mapping[str, str]
    ends: pd.DataFrame
    unit: str = FLOW
    kind: str = "a table"
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def of_role(self, *roles: str) -> list[str]:
        """List the columns of some roles."""
        return [name for name, role in self.roles.items() if role in roles]

    @property
    def features(self) -> list[str]:
        """The columns that a classifier may use."""
        return self.of_role(FEATURE, PAYLOAD)

    @property
    def identifiers(self) -> dict[str, list[str]]:
        """The columns of each of IDENTIFIERS that the table has."""
        return {role: names for role in IDENTIFIERS if (names := self.of_role(role))}

    def numbers(self, names: list[str], rows: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float32]:
        """Return some columns of some rows as numbers, shape (n, d): words and addresses by their rank, times from the
        first on."""
        table = np.empty((len(self.labels[rows]), len(names)), np.float32)
        largest = np.finfo(np.float32).max
        for place, name in enumerate(names):
            column = self.columns[name]
            if isinstance(column.dtype, pd.CategoricalDtype):
                values = _ranks(column.cat.categories)[column.cat.codes.to_numpy()[rows]]
            else:
                numbers = column.to_numpy()
                first = np.nanmin(numbers) if self.roles[name] == "times" and len(numbers) else 0.0
                values = numbers[rows] - (first if np.isfinite(first) else 0.0)
            table[:, place] = np.clip(values, -largest, largest)
        return table


def _ranks(categories: pd.Index) -> NDArray[np.float64]:
    """Return the rank of each category, addresses by their number, and NaN in the end for a missing one."""
    keys = [_address_key(text) for text in map(str, categories)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.empty(len(keys) + 1)
    ranks[order] = np.arange(len(keys))
    ranks[-1] = np.nan  # the code of a missing value is -1
    return ranks


def _address_key(text: str) -> tuple[int, int, str]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return 9, 0, text
    return address.version, int(address), ""


def make_table(
    frame: pd.DataFrame,
    *,
    label: str | None = None,
    roles: Mapping[str, str] | None = None,
    unit: str = FLOW,
    kind: str = "a table",
    notes: tuple[str, ...] = (),
) -> LabelledTable:
    """Make a labelled table of a data frame, whose columns are told apart by their names.

    label : the column of labels; None takes the first of LABELS. roles : of columns whose name does not tell.
    The columns file, flow and sample say which rows belong together, and are no features. Rows without a label are
    left out. Raises NetreproError for no rows, for no column of labels and for fewer than two classes.
    """
    if frame.empty:
        raise NetreproError("the table has no rows", "give one with labelled flows or packets")
    name = find_label(frame.columns, label)
    labels = _labels(frame[name])
    present = np.array([label is not None for label in labels])
    left_out = int((~present).sum())
    notes += (f"{left_out:,} rows without a label are left out",) * bool(left_out)
    frame, labels = (frame, labels) if not left_out else (frame[present], labels[present])
    if len(classes := sorted(set(labels))) < 2:
        words = ", ".join(classes) or "none"
        raise NetreproError(f"the column {name!r} has fewer than two classes: {words}", "name another: --label COLUMN")
    columns, known = {}, {}
    for column in frame.columns:
        if column == name or column in ("file", "flow", "sample"):
            continue
        values = _as_column(frame[column])
        is_text = isinstance(values.dtype, pd.CategoricalDtype)
        columns[str(column)] = values
        known[str(column)] = (roles or {}).get(column) or role_of(column, is_text=is_text)
    table = pd.DataFrame(columns, copy=False).reset_index(drop=True)
    return LabelledTable(table, labels, known, _ends(frame.reset_index(drop=True), table), unit, kind, notes)


def _labels(values: pd.Series) -> NDArray[Any]:
    """Return the classes as texts, None where there is none; also where a header is repeated among the rows."""
    categories = values.cat if isinstance(values.dtype, pd.CategoricalDtype) else values.astype("category").cat
    kinds = categories.categories
    # A number that was read as a float is the class 3 and not 3.0.
    words = [f"{kind:g}" if isinstance(kind, float) else str(kind).strip() for kind in kinds.tolist()]
    none = ("", "nan", "None", "-", str(values.name))
    texts = np.array([*(None if word in none else word for word in words), None], object)
    return texts[categories.codes.to_numpy()]


def _as_column(values: pd.Series) -> pd.Series:
    """Return numbers as float32 (large ones as float64) and words as categories."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values
    if pd.api.types.is_datetime64_any_dtype(values):
        return values.astype("int64").where(values.notna()).astype(float) / 1e9
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        large = role_of(values.name) in ("times", "row numbers")
        return values.astype(np.float64 if large else np.float32)
    return values.astype("category")


def _ends(frame: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    by_plain = {plain_name(column): str(column) for column in reversed(list(table.columns))}
    columns: dict[str, Any] = {}
    for end, names in _NAMES.items():
        column = next((by_plain[name] for name in names if name in by_plain), None)
        if column is None:
            continue
        values = table[column]
        if end == "start":
            if (seconds := _seconds(values)) is not None:
                columns["start_s"] = seconds
        elif end.endswith("address"):
            columns[end] = values.astype("category")
        else:
            columns[end] = _small_number(values)
    for group in ("file", "flow", "sample"):
        if group in frame:
            columns[group] = frame[group].astype("category")
    return pd.DataFrame(columns, index=table.index)


def _small_number(values: pd.Series) -> NDArray[np.int64]:
    """Return ports or protocol numbers, -1 where there is none; protocols may be words."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        words = [str(word).lower() for word in values.cat.categories]
        numbers = [_PROTOCOLS.get(word, int(word) if word.isdigit() else -1) for word in words]
        return np.array([*numbers, -1])[values.cat.codes.to_numpy()]
    return values.fillna(-1).to_numpy().astype(np.int64)


# How tools write a time; CICFlowMeter's day comes first.
_FORMATS = (
    "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S",
    "ISO8601",
)  # fmt: skip


def _seconds(values: pd.Series) -> NDArray[np.float64] | None:
    """Return times in seconds since 1970, whatever their unit; None where they cannot be read."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        words = pd.Series(values.cat.categories.astype(str))
        for form in _FORMATS:
            if pd.to_datetime(words.head(1000), format=form, errors="coerce").notna().mean() >= 0.95:
                parsed = pd.to_datetime(words, format=form, errors="coerce", utc=True)
                seconds = (parsed - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy()
                return np.append(seconds, np.nan)[values.cat.codes.to_numpy()]
        return None
    numbers = values.to_numpy(np.float64)
    middle = float(np.nanmedian(numbers)) if np.isfinite(numbers).any() else 0.0
    unit = next((size for limit, size in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if middle > limit), 1.0)
    return numbers / unit
