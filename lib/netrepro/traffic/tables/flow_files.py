"""Labelled flows in the files of other tools: CICFlowMeter's and nfstream's CSV, any other CSV, and Zeek's conn.log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.traffic.tables.labelled_table import Told, plain_name, role_of

CHUNK_ROWS, SNIFFED_ROWS = 100_000, 2000
MOST_LISTED = 32  # numbers of a list in one cell, such as nfstream's splt_ps, that become columns
CIC = "CICFlowMeter's CSV"
NFSTREAM = "nfstream's CSV"
ZEEK = "Zeek's conn.log"
DATAZOO_FRAME = "a table of CESNET DataZoo"
_TOLD_BY = (
    (CIC, ("fwd_psh_flags", "bwd_psh_flags")),
    (NFSTREAM, ("bidirectional_first_seen_ms", "src2dst_packets")),
    (ZEEK, ("conn_state", "orig_bytes")),
    (DATAZOO_FRAME, ("ppi_len", "bytes_rev")),
    ("our meter's table", ("flow_fpackets", "total_fhlen")),
)


def kind_of(columns: Any) -> str:
    """Tell by its columns which tool wrote a table."""
    names = {plain_name(column) for column in columns}
    return next((kind for kind, marks in _TOLD_BY if names.issuperset(marks)), "a table")


def read_flow_csv(path: str | PathLike[str], progress: Told = None) -> pd.DataFrame:
    """Read a CSV of flows, plain or as .gz, .bz2, .xz or .zip; numbers become float32, words categories.

    A header that is repeated within the file (CSE-CIC-IDS2018 has some) and cells that are no number are missing
    values. Columns of words that number the rows (Flow ID, uid) are left out. Lists of numbers in a cell become
    columns. Raises NetreproError where the file cannot be read or has no rows.
    """
    place = Path(path)
    try:
        head = pd.read_csv(place, nrows=SNIFFED_ROWS, skipinitialspace=True, encoding_errors="replace")
    except (OSError, ValueError, EOFError) as error:  # pandas' own errors are ValueErrors
        raise NetreproError(f"{place} is no CSV that can be read: {error}", "give a CSV with a header line") from None
    if head.empty:
        raise NetreproError(f"{place} has no rows", "give a CSV with a header line and labelled flows")
    numeric = {str(name): _number_type(name) for name in head if pd.api.types.is_numeric_dtype(head[name])}
    kept = [name for name in head if str(name) in numeric or role_of(name, is_text=True) != "row numbers"]
    try:
        frame = _joined(_chunks(place, kept, dict(numeric), progress))
    except (ValueError, TypeError):  # a cell that is no number: read again, with all cells as words
        frame = _joined(_coerced(chunk, numeric) for chunk in _chunks(place, kept, dict.fromkeys(kept, str), progress))
    return expand_lists(frame)


def _number_type(name: object) -> Any:
    return np.float64 if role_of(name) in ("times", "row numbers") else np.float32


def _chunks(place: Path, kept: list[Any], types: dict[str, Any], progress: Told) -> Iterator[pd.DataFrame]:
    size = place.stat().st_size
    with (
        place.open("rb") as raw,
        pd.read_csv(
            raw,
            compression=_compression(place),
            usecols=kept,
            dtype=types,
            chunksize=CHUNK_ROWS,
            skipinitialspace=True,
            encoding_errors="replace",
        ) as reader,
    ):
        for chunk in reader:
            if progress:
                progress(min(raw.tell(), size), size)
            yield chunk


def _compression(place: Path) -> Any:
    return {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}.get(place.suffix)


def _coerced(chunk: pd.DataFrame, numeric: dict[str, Any]) -> pd.DataFrame:
    numbers = {name: pd.to_numeric(chunk[name], errors="coerce").astype(kind) for name, kind in numeric.items()}
    return chunk.assign(**numbers)


def _joined(chunks: Iterator[pd.DataFrame]) -> pd.DataFrame:
    """Put chunks together column by column, so that no more than one column is there twice."""
    parts: dict[str, list[Any]] = {}
    for chunk in chunks:
        for name in chunk.columns:
            values = chunk[name]
            is_number = pd.api.types.is_numeric_dtype(values)
            # A copy: a view would keep the whole chunk.
            parts.setdefault(str(name), []).append(values.to_numpy(copy=True) if is_number else pd.Categorical(values))
    columns: dict[str, Any] = {}
    for name in list(parts):
        pieces = parts.pop(name)
        if all(isinstance(piece, pd.Categorical) for piece in pieces):
            columns[name] = pd.api.types.union_categoricals(pieces)
        elif any(isinstance(piece, pd.Categorical) for piece in pieces):
            columns[name] = pd.Categorical(np.concatenate([np.asarray(piece, object) for piece in pieces]).astype(str))
        else:
            columns[name] = np.concatenate(pieces)
    return pd.DataFrame(columns, copy=False)


def expand_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns NAME_1, NAME_2, ... in place of a column of lists such as "[76, 142, -1]"."""
    for name in list(frame.columns):
        values = frame[name]
        if not isinstance(values.dtype, pd.CategoricalDtype) or not len(values.cat.categories):
            continue
        words = values.cat.categories.astype(str)
        if not words.str.match(r"\[[-\d., ]*\]$").all():
            continue
        lists = [[float(each) for each in word[1:-1].split(",") if each.strip()][:MOST_LISTED] for word in words]
        width = max(map(len, lists))
        table = np.full((len(lists) + 1, width), np.nan, np.float32)
        for row, numbers in enumerate(lists):
            table[row, : len(numbers)] = numbers
        spread = table[values.cat.codes.to_numpy()]
        columns = {f"{name}_{i + 1}": spread[:, i] for i in range(width)}
        frame = pd.concat([frame.drop(columns=name), pd.DataFrame(columns, index=frame.index)], axis=1)
    return frame


def is_zeek(path: Path) -> bool:
    """Tell whether a file is a conn.log of Zeek's, as tab-separated lines or as JSON."""
    opener: Any = pd.io.common.get_handle
    try:
        with opener(path, "r", compression="infer", errors="replace") as opened:
            lines = [opened.handle.readline() for _ in range(12)]
    except (OSError, EOFError, ValueError):
        return False
    if lines[0].startswith("#separator"):
        return any(line.startswith("#fields") and "id.orig_h" in line for line in lines)
    return lines[0].startswith("{") and '"id.orig_h"' in lines[0]


def read_zeek(path: str | PathLike[str]) -> pd.DataFrame:
    """Read Zeek's conn.log, as tab-separated lines or JSON lines; also with the labels that IoT-23 appends.

    Fields that are not set ("-") or empty are missing. Raises NetreproError where the file is no such log.
    """
    place = Path(path)
    opener: Any = pd.io.common.get_handle
    try:
        with opener(place, "r", compression="infer", errors="replace") as opened:
            first = opened.handle.readline()
            if first.startswith("{"):
                rows = [json.loads(line) for line in [first, *opened.handle] if line.strip()]
                return _joined(iter([pd.DataFrame(rows)]))
            fields, above = _zeek_fields(opened.handle)
    except (OSError, EOFError, ValueError) as error:
        raise NetreproError(f"{place} is no conn.log: {error}", "give Zeek's log, as it writes it") from None
    if "id.orig_h" not in fields:
        raise NetreproError(f"{place} is no conn.log: its fields are not named", "give Zeek's log, as it writes it")
    # IoT-23 has three fields in the last one, with blanks between them.
    last = fields[-1].split()
    chunks = pd.read_csv(
        place,
        sep="\t",
        names=[*fields[:-1], " ".join(last)],
        skiprows=above + 1,
        na_values=["-", "(empty)"],
        keep_default_na=False,
        chunksize=CHUNK_ROWS,
        low_memory=False,
        quoting=3,
        encoding_errors="replace",
        compression=_compression(place),
    )
    frame = _joined(_zeek_rows(chunk, last) for chunk in chunks)
    return frame.drop(columns=[name for name in ("uid",) if name in frame])


def _zeek_fields(handle: Any) -> tuple[list[str], int]:
    """Return the names of the fields, and how many lines with # follow the first."""
    fields: list[str] = []
    for number, line in enumerate(handle):
        if not line.startswith("#"):
            return fields, number
        if line.startswith("#fields"):
            fields = line.rstrip("\n").split("\t")[1:]
    return fields, 0


def _zeek_rows(chunk: pd.DataFrame, last: list[str]) -> pd.DataFrame:
    chunk = chunk[~chunk.iloc[:, 0].astype(str).str.startswith("#")]  # "#close" ends the log
    chunk = chunk.assign(**{name: pd.to_numeric(chunk[name], errors="coerce") for name in _ZEEK_NUMBERS & {*chunk}})
    if len(last) > 1:
        joint = chunk.columns[-1]
        parts = chunk[joint].astype(str).str.split(r"\s{2,}|\t", n=len(last) - 1, expand=True, regex=True)
        parts = parts.reindex(columns=range(len(last))).set_axis(last, axis=1).replace({"-": None, "(empty)": None})
        chunk = pd.concat([chunk.drop(columns=joint), parts], axis=1)
    empty = [name for name in chunk if chunk[name].isna().all() and name not in _ZEEK_NUMBERS]
    return chunk.assign(**{name: chunk[name].astype(object) for name in empty})


_ZEEK_NUMBERS = {
    "ts", "id.orig_p", "id.resp_p", "duration", "orig_bytes", "resp_bytes", "missed_bytes", "orig_pkts",
    "orig_ip_bytes", "resp_pkts", "resp_ip_bytes",
}  # fmt: skip
