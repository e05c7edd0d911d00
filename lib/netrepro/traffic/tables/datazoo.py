"""Data bases of CESNET DataZoo (Luxemburk et al.; CESNET-TLS22, -QUIC22, -TLS-Year22 and their successors).

A data base is an HDF5 file in which /flows has a PyTables table a day. APP and CATEGORY are PyTables enumerations; PPI
holds the first 30 packets of a flow: gaps in ms, directions, sizes and, for TCP, push flags. The package
cesnet-datazoo gives data frames, which `netrepro.traffic.audit` takes as they are; this module reads the file itself.
"""

from __future__ import annotations

import importlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
CHANNELS = ("IPT", "DIR", "SIZE", "PUSH")
ENUMERATED = ("APP", "CATEGORY")


def is_datazoo(path: Path) -> bool:
    """Tell whether a file is HDF5."""
    with path.open("rb") as file:
        return file.read(8) == HDF5_MAGIC


def read_datazoo(path: str | PathLike[str], *, most: int | None = 1_000_000) -> pd.DataFrame:
    """Read flows of a data base, a row each; the column file names the table, which is a day.

    most : number of flows at most, evenly from all tables (None: all; a data base may have 500 million). Raises
    NetreproError where PyTables is not installed, or the file has no table in /flows.
    """
    try:
        tables: Any = importlib.import_module("tables")
    except ModuleNotFoundError:
        raise NetreproError(
            "PyTables is not installed", "pip install tables, or cesnet-datazoo, which brings it"
        ) from None
    try:
        with tables.open_file(str(path), mode="r") as base:
            days = [node for node in base.get_node("/flows") if isinstance(node, tables.Table)]
            counts = [node.nrows for node in days]
            step = max(1, -(-sum(counts) // most)) if most else 1
            parts = [_flows(node.read(step=step), node) for node in days if node.nrows]
    except (OSError, tables.NoSuchNodeError, tables.HDF5ExtError) as error:
        raise NetreproError(f"{path} is no data base of DataZoo: {error}", "it has tables of flows in /flows") from None
    if not parts:
        raise NetreproError(f"{path} has no flows in /flows", "give a data base of CESNET DataZoo")
    return pd.concat(parts, ignore_index=True)


def _flows(rows: np.ndarray, node: Any) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name in rows.dtype.names or ():
        values = rows[name]
        if name == "PPI":
            for channel, label in zip(range(values.shape[1]), CHANNELS, strict=False):
                columns |= {
                    f"{label}_{i + 1}": values[:, channel, i].astype(np.float32) for i in range(values.shape[2])
                }
        elif values.ndim > 1:  # histograms
            columns |= {f"{name}_{i + 1}": values[:, i].astype(np.float32) for i in range(values.shape[1])}
        elif name in ENUMERATED and name in node.coltypes and node.coltypes[name] == "enum":
            known = {number: word for word, number in node.get_enum(name)}
            columns[name] = pd.Series(values).map(known)
        elif values.dtype.kind == "S":
            columns[name] = np.char.decode(values, "utf-8", "replace")
        else:
            columns[name] = values
    return pd.DataFrame(columns).assign(file=node._v_name)
