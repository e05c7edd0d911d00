"""Splits of flows into training and testing flows: at random, by day, or with no group on both sides.

A split is (training, testing), two arrays of row numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold

from netrepro.errors import NetreproError

Split = tuple[NDArray[np.int64], NDArray[np.int64]]


def random_split(classes: ArrayLike, *, training_share: float, seed: int, smallest_class: int = 2) -> Split:
    """Draw a share of each class for training; the rest is for testing.

    training_share : between 0 and 1; the smallest share in the paper is 0.005. Of each class, at least `smallest_class`
    rows are for training (a mixture needs two), and at least one is for testing.
    Raises NetreproError where the share is not between 0 and 1 or a class is too small.
    """
    if not 0 < training_share < 1:
        raise NetreproError(f"training_share is {training_share}", "it must be between 0 and 1")
    labels = np.asarray(classes, object)
    random = np.random.default_rng(seed)
    training = []
    for name in sorted(set(labels)):
        rows = random.permutation(np.flatnonzero(labels == name))
        if len(rows) <= smallest_class:
            raise NetreproError(f"{name} has {len(rows)} flows only", f"{smallest_class + 1} are needed to split it")
        count = min(max(round(training_share * len(rows)), smallest_class), len(rows) - 1)
        training.append(rows[:count])
    chosen = np.sort(np.concatenate(training))
    return chosen, np.setdiff1d(np.arange(len(labels)), chosen)


def day_split(days: ArrayLike, training_days: Collection[Any]) -> Split:
    """Split by day: the flows of `training_days` are for training, those of all other days for testing.

    Raises NetreproError where either side would be empty.
    """
    trains = np.isin(np.asarray(days), list(training_days))
    if trains.all() or not trains.any():
        there = ", ".join(map(str, np.unique(np.asarray(days))))
        raise NetreproError(f"days {list(training_days)} leave one side empty", f"there are flows of the days {there}")
    return np.flatnonzero(trains), np.flatnonzero(~trains)


def grouped_splits(classes: ArrayLike, groups: ArrayLike, *, folds: int, seed: int) -> list[Split]:
    """Make folds in which all flows of a group (a capture file, a workstation) are on the same side.

    Every flow is a testing flow once; the classes' shares are kept as far as the groups allow.
    Raises NetreproError for fewer than 2 folds, and for fewer groups than folds.
    """
    group = np.asarray(groups)
    if not 2 <= folds <= len(np.unique(group)):
        raise NetreproError(
            f"{len(np.unique(group))} groups for {folds} folds", "use 2 folds or more, and as many groups"
        )
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(group)), np.asarray(classes), group))
