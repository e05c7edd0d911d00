"""Equal and nearly equal rows, found by hashing all rows at once.

Two rows are duplicates where all features are equal (in single precision). They are near duplicates where every
feature that is no time lies in the same cell of a grid: 0, and from there steps of a tenth (x and 1.1 x are one step
apart), for each sign. A grid has edges, so a second one, shifted by half a step, is tried too: one of them suffices.
Times (gaps, durations, rates) are left out of near duplicates, as the same exchange never takes the same microseconds
twice. What a row is, not where it comes from, counts: no address, port or other identifier is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.traffic.tables import LabelledTable
from netrepro.traffic.tables.labelled_table import plain_name

STEP = 1.1
TRAINING_SHARE = 0.7
BLOCK_ROWS = 50_000
_TIMES = re.compile(
    r"iat|ipt|duration|idle|active|jitter|delay|rate|(^|_)time(_|$)|(^|_)(byts|bytes|pkts|packets)_s$|_m?s$"
)


@dataclass(frozen=True)
class Duplicates:
    """Shares of rows, 0..1, of one kind of duplicates.

    repeated : of all rows, those with a duplicate. contradictory : those with a duplicate of another class. seen : of
    the test rows of a random split, those with a duplicate among the training rows; seen_otherwise : with one of
    another class. best_accuracy : the highest that any classifier of the features can have on all rows.
    """

    repeated: float
    contradictory: float
    seen: float
    seen_otherwise: float
    best_accuracy: float


def is_time(name: str) -> bool:
    """Tell by its name whether a feature is a time or a rate.

    >>> is_time("Flow IAT Mean"), is_time("Flow Bytes/s"), is_time("total_fvolume"), is_time("splt_piat_ms_3")
    (True, True, False, True)
    """
    return bool(_TIMES.search(plain_name(name)))


def find_duplicates(table: LabelledTable, *, seed: int) -> dict[str, Duplicates]:
    """Find the equal ("exact") and nearly equal ("near") rows of a table. seed : of the random split."""
    features = table.features
    _, classes = np.unique(table.labels.astype(str), return_inverse=True)
    trains = np.random.default_rng(seed).random(len(table)) < TRAINING_SHARE
    counted: dict[str, Duplicates] = {}
    lasting = [name for name in features if not is_time(name)]
    kinds: dict[str, tuple[list[str], tuple[float | None, ...]]] = {"exact": (features, (None,))}
    if len(lasting) >= 2:
        kinds["near"] = (lasting, (0.0, 0.5))
    for kind, (names, shifts) in kinds.items():
        if names:
            hashes = _hashes(table, names, shifts)
            counted[kind] = _count(hashes, classes, trains)
    return counted


def _hashes(table: LabelledTable, names: list[str], shifts: tuple[float | None, ...]) -> list[NDArray[np.uint64]]:
    """Hash each row, once a grid; a shift of None takes the values themselves."""
    hashes = [np.zeros(len(table), np.uint64) for _ in shifts]
    for begin in range(0, len(table), BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        values = table.numbers(names, rows)
        for hashed, shift in zip(hashes, shifts, strict=True):
            hashed[rows] = _hash_rows(values if shift is None else _cells(values, shift))
    return hashes


def _cells(values: NDArray[np.float32], shift: float) -> NDArray[np.float32]:
    """Return the cell of each value: 0 for 0, else the number of steps from 1e-30, with its sign."""
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.floor(np.log(size) / np.float32(np.log(STEP)) + np.float32(shift)) + 1000
        return np.where(values == 0, np.float32(0), np.sign(values) * steps).astype(np.float32)


def _hash_rows(values: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Hash rows of numbers to 64 bits; all NaN are equal, and so are 0 and -0."""
    bits = np.where(values == 0, np.float32(0), values).view(np.uint32).astype(np.uint64)
    bits[np.isnan(values)] = 0x7FC00000
    hashed = np.full(len(values), 0x9E3779B97F4A7C15, np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:  # each column is mixed in as splitmix64 mixes its state
            hashed = (hashed ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            hashed ^= hashed >> np.uint64(27)
            hashed *= np.uint64(0x94D049BB133111EB)
            hashed ^= hashed >> np.uint64(31)
    return hashed


def _count(hashes: list[NDArray[np.uint64]], classes: NDArray[Any], trains: NDArray[np.bool_]) -> Duplicates:
    """Count over one grid or several: a row has a duplicate where it has one in any of them."""
    flags = np.zeros((4, len(classes)), bool)
    best = 1.0
    for hashed in hashes:
        groups, _ = pd.factorize(hashed)
        both = pd.factorize(groups.astype(np.int64) * (classes.max() + 1) + classes)[0]
        in_group, in_both = np.bincount(groups), np.bincount(both)
        trained, trained_both = (
            np.bincount(groups[trains], minlength=len(in_group)),
            np.bincount(both[trains], minlength=len(in_both)),
        )
        flags[0] |= in_group[groups] > 1
        flags[1] |= in_group[groups] > in_both[both]
        flags[2] |= trained[groups] > 0
        flags[3] |= trained[groups] > trained_both[both]
        largest = np.zeros(len(in_group), np.int64)
        np.maximum.at(largest, groups, in_both[both])
        best = min(best, float(largest.sum() / len(classes)))
    tested = ~trains
    seen, otherwise = (float(each[tested].mean()) if tested.any() else 0.0 for each in flags[2:])
    return Duplicates(float(flags[0].mean()), float(flags[1].mean()), seen, otherwise, best)
