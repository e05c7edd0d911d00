"""Columns that are constant, copies, missing, impossible or give the label away."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from netrepro.traffic.auditing.scores import score_predictions, split_at_random
from netrepro.traffic.tables import LabelledTable
from netrepro.traffic.tables.labelled_table import FEATURE, PAYLOAD, TEXT, plain_name

COLUMN_COLUMNS = ["column", "role", "constant", "missing", "infinite", "negative", "alone", "copy_of"]
# Features that cannot be negative: counts, sizes and times. CICFlowMeter's initial windows are -1 where there is none.
_NOT_NEGATIVE = (
    "packet",
    "pkt",
    "byte",
    "byt",
    "length",
    "len",
    "duration",
    "iat",
    "count",
    "cnt",
    "flag",
    "idle",
    "active",
)
_MAY_BE_NEGATIVE = ("init", "win", "splt", "dir", "pktl")


def look_at_columns(table: LabelledTable, rows: NDArray[np.int64], *, seed: int) -> pd.DataFrame:
    """Describe each feature and each column of words, with the columns COLUMN_COLUMNS.

    missing, infinite, negative : shares of rows (negative : where that is impossible, else 0). alone : macro-F1 on the
    sample `rows` of a small tree that sees only this column. copy_of : an earlier column with the same values.
    """
    labels = table.labels[rows]
    classes = np.unique(labels.astype(str), return_inverse=True)[1]
    training, testing = split_at_random(labels, seed)
    known: dict[int, str] = {}
    described = []
    for name in table.of_role(FEATURE, PAYLOAD, TEXT):
        values = _values(table, name)
        finite = np.isfinite(values)
        constant = not finite.any() or bool(values[finite].min() == values[finite].max())
        key = hash(name) if constant else int(pd.util.hash_array(values).sum(dtype=np.uint64))
        copy = known.get(key, "")
        if copy and not np.array_equal(_values(table, copy), values, equal_nan=values.dtype.kind == "f"):
            copy = ""
        known.setdefault(key, name)
        with np.errstate(invalid="ignore"):
            negative = float((values < 0).mean()) if _cannot_be_negative(name, table.roles[name]) else 0.0
        missing = float((values == -1).mean()) if table.roles[name] == TEXT else float(np.isnan(values).mean())
        infinite = float((~finite).mean()) - missing if table.roles[name] != TEXT else 0.0
        alone = np.nan
        if not constant:
            tree = DecisionTreeClassifier(max_leaf_nodes=4 * max(len(np.unique(classes)), 2), random_state=seed)
            one = table.numbers([name], rows)
            tree.fit(one[training], classes[training])
            alone = score_predictions(
                classes[testing], tree.predict(one[testing]), np.unique(classes[training])
            ).macro_f1
        described.append((name, table.roles[name], constant, missing, infinite, negative, alone, copy))
    return pd.DataFrame(described, columns=COLUMN_COLUMNS)


def _values(table: LabelledTable, name: str) -> NDArray[np.float32]:
    column = table.columns[name]
    return column.cat.codes.to_numpy() if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()


def _cannot_be_negative(name: str, role: str) -> bool:
    plain = plain_name(name)
    return (
        role == FEATURE
        and any(word in plain for word in _NOT_NEGATIVE)
        and not any(word in plain for word in _MAY_BE_NEGATIVE)
    )
