"""Which flows train and which test: at random, by day, or so that no group is on both sides.

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
    """Draw `training_share` (0..1) of each class to train on, the rest to test on; the paper's least is 0.005.

    Of each class at least `smallest_class` rows train (a mixture needs two), and at least one tests.
    Raises NetreproError where the share is not between 0 and 1 or a class is too small for that.
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
    """Train on the flows of `training_days`, test on those of all other days.

    Raises NetreproError where either side would be empty.
    """
    trains = np.isin(np.asarray(days), list(training_days))
    if trains.all() or not trains.any():
        there = ", ".join(map(str, np.unique(np.asarray(days))))
        raise NetreproError(f"days {list(training_days)} leave one side empty", f"there are flows of the days {there}")
    return np.flatnonzero(trains), np.flatnonzero(~trains)


def grouped_splits(classes: ArrayLike, groups: ArrayLike, *, folds: int, seed: int) -> list[Split]:
    """Make folds in which all flows of a group (a capture file, a workstation) are on the same side.

    Every flow tests once; shares of the classes are kept as well as the groups allow.
    Raises NetreproError where there are fewer groups than folds.
    """
    group = np.asarray(groups)
    if not 2 <= folds <= len(np.unique(group)):
        raise NetreproError(
            f"{len(np.unique(group))} groups for {folds} folds", "use 2 folds or more, and as many groups"
        )
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(group)), np.asarray(classes), group))
