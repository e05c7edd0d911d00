"""Opening whatever holds labelled traffic: one file or a folder of them."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.traffic.captures import CaptureFile
from netrepro.traffic.join import LabelledFlows, load_unibs
from netrepro.traffic.meter import meter
from netrepro.traffic.standin import FLOWS, load_standin
from netrepro.traffic.tables.datazoo import is_datazoo, read_datazoo
from netrepro.traffic.tables.flow_files import NFSTREAM, ZEEK, is_zeek, kind_of, read_flow_csv, read_zeek
from netrepro.traffic.tables.labelled_packets import payload_roles, read_packets
from netrepro.traffic.tables.labelled_table import FLOW, PACKET, LabelledTable, Told, make_table
from netrepro.traffic.unibs import published_trace

CAPTURES, TABLES, ZEEK_LOG, DATAZOO = "captures", "tables", "Zeek", "DataZoo"
UNITS = ("auto", FLOW, PACKET)
# Columns of the meter's table that say what became of a flow's label, or how it was metered.
_NOT_FEATURES = (
    "application", "application_protocol", "record_time_us", "record_delay_s", "valid", "end", "starts_with_syn", "day",
    "end_us",
)  # fmt: skip


def table_of(source: pd.DataFrame | LabelledFlows | LabelledTable, label: str | None = None) -> LabelledTable:
    """Make a labelled table of a data frame (of any tool, DataZoo's package included) or of a loaded trace."""
    if isinstance(source, LabelledTable):
        return source
    if isinstance(source, LabelledFlows):
        flows = source.flows.drop(columns=[name for name in _NOT_FEATURES if name in source.flows])
        return make_table(flows, label=label or "class", kind="our meter's table")
    if not isinstance(source, pd.DataFrame):
        raise NetreproError(f"a table {type(source).__name__}", "give a path, a data frame or a loaded trace")
    frame = source.copy(deep=False)
    for name in frame.columns:
        if frame[name].dtype == object and len(frame) and isinstance(frame[name].iloc[0], np.ndarray):
            values = np.stack(frame[name].tolist()).reshape(len(frame), -1).astype(np.float32)
            parts = {f"{name}_{i + 1}": values[:, i] for i in range(values.shape[1])}
            frame = pd.concat([frame.drop(columns=name), pd.DataFrame(parts, index=frame.index)], axis=1)
    return make_table(frame, label=label, kind=kind_of(frame.columns))


def load_labelled(
    path: str | PathLike[str],
    *,
    label: str | None = None,
    unit: str = "auto",
    progress: Told = None,
) -> LabelledTable:
    """Load labelled flows or packets from a file or a folder; what it is, the content tells.

    A file is CICFlowMeter's, nfstream's or another CSV, Zeek's conn.log, a data base of CESNET DataZoo, or a pcapng
    that pcapml labelled. A folder has such files (their names become the column file), UNIBS-2009's, those of the
    stand-in, or one folder of captures a class. label : the column of labels; `folder` or `file` takes these names.
    unit : of captures: FLOW meters them, PACKET takes each packet; "auto" takes packets. progress : called with (bytes
    read, bytes in all). Raises NetreproError where nothing is labelled, and says what can be read.
    """
    place = Path(path)
    if unit not in UNITS:
        raise NetreproError(f"no unit {unit!r}", f"one of {', '.join(UNITS)}")
    if not place.exists():
        raise NetreproError(f"{place} does not exist", "give a file or a folder of labelled flows or packets")
    if place.is_dir():
        if (trace := load_known_trace(place, progress)) is not None:
            return table_of(trace)
        files = _files_in(place)
    else:
        files = {_kind(place): [place]}
    for kind in (TABLES, ZEEK_LOG, DATAZOO, CAPTURES):
        if kind in files:
            return _load(kind, files[kind], place, label, unit, progress)
    raise NetreproError(
        f"{place} has nothing that can be read",
        "give a CSV of flows, Zeek's conn.log, DataZoo's data base or captures; plain or compressed",
    )


def load_known_trace(path: str | PathLike[str], progress: Told = None) -> LabelledFlows | None:
    """Load a folder with UNIBS-2009's files, or the stand-in's; None for a file and for any other folder."""
    place = Path(path)
    if not place.is_dir():
        return None
    if all(list(place.glob(f"{name}*")) for name in published_trace("unibs-2009")["captures"]):
        return load_unibs(place, progress=progress)
    return load_standin(place, progress=progress) if (place / FLOWS).is_file() else None


def _files_in(place: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for each in sorted(place.rglob("*")):
        if each.is_file() and not each.name.startswith(".") and each.stat().st_size and (kind := _kind(each)):
            files.setdefault(kind, []).append(each)
    return files


def captures_in(path: str | PathLike[str]) -> list[Path]:
    """List the captures in a folder, which may lie beside the table that was made of them."""
    return _files_in(Path(path)).get(CAPTURES, []) if Path(path).is_dir() else []


def _kind(path: Path) -> str:
    """Tell by a file's content, and its name where that does not tell, what it holds; "" for anything else."""
    if is_datazoo(path):
        return DATAZOO
    if is_zeek(path):
        return ZEEK_LOG
    name = path.name.lower()
    if name.endswith(tuple(f".csv{packed}" for packed in _PACKED)):
        return TABLES
    try:
        source = CaptureFile(path)
    except NetreproError:
        return ""
    return CAPTURES if source else ""


_PACKED = ("", ".gz", ".bz2", ".xz", ".zip")


def _load(kind: str, files: list[Path], place: Path, label: str | None, unit: str, progress: Told) -> LabelledTable:
    below = place if place.is_dir() else place.parent
    told = _of_all(files, progress)
    if kind == CAPTURES:
        return _captures(files, below, label, unit, told)
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        TABLES: lambda each: read_flow_csv(each, told(each)),
        ZEEK_LOG: read_zeek,
        DATAZOO: read_datazoo,
    }
    frames = []
    for each in files:
        frame = readers[kind](each)
        if place.is_dir() and "file" not in frame:
            frame = frame.assign(file=pd.Categorical([each.relative_to(below).as_posix()] * len(frame)))
        frames.append(frame)
    frame = _stacked(frames)
    label, frame = _named_by_place(frame, label)
    of = kind_of(frame.columns) if kind == TABLES else {ZEEK_LOG: ZEEK, DATAZOO: "a data base of CESNET DataZoo"}[kind]
    table = make_table(frame, label=label, kind=of)
    if of == NFSTREAM and label is None and "label" not in frame and "class" not in frame:
        note = "the labels are nDPI's, which is an opinion of the same packets and not the truth"
        return make_table(frame, label=label, kind=of, notes=(note,))
    return table


def _of_all(files: list[Path], progress: Told) -> Callable[[Path], Told]:
    """Make for each file the function that tells its progress as part of that of all files."""
    sizes = [each.stat().st_size for each in files]
    before = dict(zip(files, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))

    def of(each: Path) -> Told:
        return (lambda done, _: progress(before[each] + done, sum(sizes))) if progress else None

    return of


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Put tables below each other; categories are united, a column that some lack is missing there."""
    if len(frames) == 1:
        return frames[0]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for frame in frames for name in frame.columns):
        pieces = [
            frame[name] if name in frame else pd.Series(np.full(len(frame), np.nan, np.float32)) for frame in frames
        ]
        if any(isinstance(piece.dtype, pd.CategoricalDtype) for piece in pieces):
            united = [pd.Categorical(piece.astype(str).where(piece.notna())) for piece in pieces]
            columns[name] = pd.api.types.union_categoricals(united)
        else:
            columns[name] = np.concatenate([piece.to_numpy() for piece in pieces])
    return pd.DataFrame(columns)


def _named_by_place(frame: pd.DataFrame, label: str | None) -> tuple[str | None, pd.DataFrame]:
    """Return the column of labels and the table; with `folder` or `file` the labels are the names of these."""
    if label not in ("folder", "file") or (label in frame and label != "file"):
        return label, frame
    if "file" not in frame:
        raise NetreproError(f"--label {label} of one file", "give the folder in which the files are")
    names = frame["file"].astype(str)
    labels = names if label == "file" else names.str.rpartition("/")[0].str.rpartition("/")[2]
    return "class", frame.assign(**{"class": labels})


def _captures(
    files: list[Path], below: Path, label: str | None, unit: str, told: Callable[[Path], Told]
) -> LabelledTable:
    frames = []
    for each in files:
        name = each.relative_to(below)
        if unit == FLOW:
            frame = meter(each, progress=told(each)).flows.drop(columns=["valid", "end", "starts_with_syn", "end_us"])
        else:
            frame = read_packets(each, progress=told(each))
            frame["flow"] = name.as_posix() + ":" + frame["flow"].astype(str)
        if ("label" not in frame and label is None) or label == "folder":
            frame["label"] = name.parent.name
        if label == "file":
            frame["label"] = name.name
        frames.append(frame.assign(file=name.as_posix()))
    whole = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    if label in (None, "folder", "file"):
        if whole["label"].astype(str).replace("", np.nan).nunique() < 2:
            raise NetreproError(
                f"the packets of {below} have no labels",
                "label them with pcapml, or put each class's captures into a folder of its own",
            )
        label = "label"
    return make_table(
        whole,
        label=label,
        roles=payload_roles(),
        unit=FLOW if unit == FLOW else PACKET,
        kind="our meter's table" if unit == FLOW else "packets of captures",
    )
