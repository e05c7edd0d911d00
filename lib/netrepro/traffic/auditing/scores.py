"""What of a classifier's score survives: other splits, without identifiers, headers of others, labels at random.

The classifier is a forest of few trees, always the same, on a sample of the table. A sample takes whole sessions: with
rows at random, two rows of a session would seldom meet, and a split by session would have nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from netrepro.traffic.tables import IDENTIFIERS, PACKET, LabelledTable
from netrepro.traffic.tables.labelled_table import Told

Rows = NDArray[np.int64]
TREES, DRAWS = 10, 3
# Share of the columns that a tree looks at in each step. The usual square root finds no single leak among the many
# columns of encrypted payload.
FEATURES_A_STEP = 1 / 3
TEST_SHARE = 0.3
SESSION_GAP_S = 300.0  # two hosts that are silent for so long begin a new session
LEAST_OF_A_CLASS = 200  # rows of a small class in the sample, as far as it has them
SCORE_COLUMNS = ["what", "kind", "macro_f1", "accuracy", "low", "high", "classes", "says"]
# The names of kinds of rows in `scores`.
SPLIT, WITHOUT, ALONE, SHUFFLED, CHANCE = "split", "without", "alone", "headers shuffled", "labels permuted"
SPLITS = {
    "packet": "packets at random",
    "flow": "flows at random",
    "sample": "no labelled sample on both sides",
    "session": f"no session on both sides (two hosts, no gap above {SESSION_GAP_S:g} s)",
    "host": "no client's address on both sides",
    "file": "no file on both sides",
    "time": "of each class, the earlier 70 % train; absolute times left out",
}


def sessions_of(ends: pd.DataFrame) -> NDArray[np.int64] | None:
    """Number the sessions: rows between the same two addresses without a gap above SESSION_GAP_S; None without
    addresses."""
    if not {"source_address", "destination_address"}.issubset(ends):
        return None
    both = pd.api.types.union_categoricals([ends["source_address"], ends["destination_address"]]).codes.astype(np.int64)
    one, other = both[: len(ends)], both[len(ends) :]
    pair = pd.factorize(np.minimum(one, other) * (both.max() + 2) + np.maximum(one, other))[0]
    if "start_s" not in ends:
        return pair.astype(np.int64)
    start = ends["start_s"].to_numpy()
    order = np.lexsort((start, pair))
    begins = np.ones(len(ends), bool)
    with np.errstate(invalid="ignore"):
        begins[1:] = (np.diff(pair[order]) != 0) | (np.diff(start[order]) > SESSION_GAP_S)
    numbers = np.empty(len(ends), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers


def groups_of(table: LabelledTable) -> dict[str, NDArray[np.int64]]:
    """Return the group of each row for every split of SPLITS that the table allows, but those at random and by time."""
    ends, groups = table.ends, {}
    for name, column in (("flow", "flow"), ("sample", "sample"), ("file", "file")):
        if column in ends and not (name == "flow" and table.unit != PACKET):
            groups[name] = ends[column].cat.codes.to_numpy().astype(np.int64)
    if (sessions := sessions_of(ends)) is not None:
        groups["session"] = sessions
        groups["host"] = _clients(table)
    # A group for each row is the split at random; one group for all is none.
    return {name: group for name, group in groups.items() if 1 < len(np.unique(group)) < 0.98 * len(group)}


def _clients(table: LabelledTable) -> NDArray[np.int64]:
    """Return the client's address of each row: a flow's source, and of a packet the end with the higher port."""
    ends = table.ends
    both = pd.api.types.union_categoricals([ends["source_address"], ends["destination_address"]]).codes.astype(np.int64)
    one, other = both[: len(ends)], both[len(ends) :]
    if table.unit != PACKET or not {"source_port", "destination_port"}.issubset(ends):
        return one
    return np.where(ends["source_port"] >= ends["destination_port"], one, other)


def draw_sample(labels: NDArray[Any], groups: NDArray[np.int64], most: int, *, seed: int) -> Rows:
    """Draw about `most` rows, whole groups, with the classes' shares kept but for LEAST_OF_A_CLASS of each.

    Of a very large group an eighth of its class's part of the sample is drawn, so that others are there too.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    random = np.random.default_rng(seed)
    _, classes = np.unique(labels.astype(str), return_inverse=True)
    counts = np.bincount(classes)
    wanted = np.minimum(counts, np.maximum(np.round(counts * most / len(labels)), LEAST_OF_A_CLASS)).astype(int)
    _, numbers = np.unique(groups, return_inverse=True)
    turn = random.permutation(numbers.max() + 1)[numbers]
    chosen = []
    for place, want in enumerate(wanted):
        rows = np.flatnonzero(classes == place)
        order = rows[np.lexsort((random.random(len(rows)), turn[rows]))]
        run = turn[order]
        starts = np.flatnonzero(np.r_[True, run[1:] != run[:-1]])
        nth = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        kept = order[nth < max(want // 8, 20)]
        if len(kept) < want:  # too few groups: fill up with the rest of the large ones
            kept = np.r_[kept, np.setdiff1d(order, kept, assume_unique=True)]
        chosen.append(kept[:want])
    return np.sort(np.concatenate(chosen))


def split_by_group(labels: NDArray[Any], groups: NDArray[np.int64], *, seed: int) -> tuple[Rows, Rows]:
    """Split so that no group is on both sides: (training, testing) rows, about TEST_SHARE of each class for testing.

    A group counts as one of the class that most of its rows have. A class with a single group is for training only.
    """
    random = np.random.default_rng(seed)
    _, classes = np.unique(labels.astype(str), return_inverse=True)
    _, numbers = np.unique(groups, return_inverse=True)
    table = np.zeros((numbers.max() + 1, classes.max() + 1), np.int64)
    np.add.at(table, (numbers, classes), 1)
    sizes, mostly = table.sum(axis=1), table.argmax(axis=1)
    tests = np.zeros(len(sizes), bool)
    for place in range(table.shape[1]):
        own = random.permutation(np.flatnonzero(mostly == place))
        if len(own) < 2:
            continue
        # Groups are taken while more of the share is missing than half of the next one.
        before = np.cumsum(sizes[own]) - sizes[own]
        taken = before + sizes[own] / 2 <= TEST_SHARE * sizes[own].sum()
        taken[0], taken[-1] = True, False
        tests[own[taken]] = True
    return np.flatnonzero(~tests[numbers]), np.flatnonzero(tests[numbers])


def split_at_random(labels: NDArray[Any], seed: int) -> tuple[Rows, Rows]:
    """Draw the rows that train and those that test; TEST_SHARE of each label's rows test. Both are in order."""
    random = np.random.default_rng(seed)
    _, classes = np.unique(labels.astype(str), return_inverse=True)
    order = np.lexsort((random.random(len(labels)), classes))
    starts = np.r_[0, np.cumsum(np.bincount(classes))[:-1]]
    nth = np.arange(len(labels)) - starts[classes[order]]
    tests = nth < np.round(TEST_SHARE * np.bincount(classes))[classes[order]]
    return np.sort(order[~tests]), np.sort(order[tests])


def _split_by_time(labels: NDArray[Any], start_s: NDArray[np.float64]) -> tuple[Rows, Rows]:
    order = np.lexsort((start_s, labels.astype(str)))
    _, classes = np.unique(labels.astype(str), return_inverse=True)
    counts = np.bincount(classes)
    nth = np.arange(len(labels)) - np.r_[0, np.cumsum(counts)[:-1]][classes[order]]
    trains = nth < np.round((1 - TEST_SHARE) * counts)[classes[order]]
    return np.sort(order[trains]), np.sort(order[~trains])


@dataclass(frozen=True)
class Score:
    """Scores, 0 to 1, of the test rows of so many classes."""

    macro_f1: float
    accuracy: float
    classes: int


def score_predictions(truth: NDArray[Any], predicted: NDArray[Any], known: NDArray[Any]) -> Score:
    """Score the test rows whose class some training row has; NaN where fewer than two classes are left."""
    kept = np.isin(truth, known)
    truth, predicted = truth[kept], predicted[kept]
    present = np.unique(truth)
    if len(present) < 2:
        return Score(np.nan, np.nan, len(present))
    hits = truth == predicted
    top = int(max(truth.max(), predicted.max())) + 1
    hit, of, said = (np.bincount(each, minlength=top)[present] for each in (truth[hits], truth, predicted))
    return Score(float(np.mean(2 * hit / (of + said))), float(hits.mean()), len(present))


class _Yardstick:
    """The sample as numbers, and the forest that is trained on it."""

    def __init__(self, table: LabelledTable, rows: Rows, seed: int, jobs: int):
        self.rows, self.seed, self.jobs = rows, seed, jobs
        self.names = [*table.features, *(name for names in table.identifiers.values() for name in names)]
        self.values = table.numbers(self.names, rows)
        self.labels = table.labels[rows]
        self.classes = np.unique(self.labels.astype(str), return_inverse=True)[1]

    def places(self, names: list[str]) -> Rows:
        chosen = set(names)
        return np.array([place for place, name in enumerate(self.names) if name in chosen], np.int64)

    def fit(self, split: tuple[Rows, Rows], names: list[str], labels: NDArray[Any] | None = None) -> Any:
        model = RandomForestClassifier(TREES, max_features=FEATURES_A_STEP, random_state=self.seed, n_jobs=self.jobs)
        return self.fit_to(model, split, names, labels)

    def fit_to(self, model: Any, split: tuple[Rows, Rows], names: list[str], labels: NDArray[Any] | None = None) -> Any:
        truth = self.classes if labels is None else labels
        return model.fit(self.values[np.ix_(split[0], self.places(names))], truth[split[0]])

    def score(self, model: Any, split: tuple[Rows, Rows], names: list[str]) -> Score:
        predicted = model.predict(self.values[np.ix_(split[1], self.places(names))])
        return score_predictions(self.classes[split[1]], predicted, np.unique(self.classes[split[0]]))

    def score_with_others_headers(
        self, model: Any, split: tuple[Rows, Rows], names: list[str], headers: list[str]
    ) -> Score:
        """Score test rows whose headers are those of a test row of another class."""
        random, tested = np.random.default_rng(self.seed), split[1]
        values = self.values[np.ix_(tested, self.places(names))]
        truth = self.classes[tested]
        donors = random.integers(len(tested), size=len(tested))
        for _ in range(20):
            same = truth[donors] == truth
            donors[same] = random.integers(len(tested), size=int(same.sum()))
        columns = np.flatnonzero(np.isin(self.places(names), self.places(headers)))
        values[:, columns] = values[np.ix_(donors, columns)]
        return score_predictions(truth, model.predict(values), np.unique(self.classes[split[0]]))


def measure_scores(
    table: LabelledTable, *, sample: int, seed: int, jobs: int = 1, progress: Told = None
) -> tuple[pd.DataFrame, Rows]:
    """Measure the scores of a table, and return them with the rows of the sample.

    Columns SCORE_COLUMNS: low and high are the least and the greatest macro-F1 of DRAWS splits (else the same),
    classes the number that could be tested, says the row in words. A score that cannot be had is NaN.
    """
    groups = groups_of(table)
    coarse = groups.get("session", groups.get("flow", np.arange(len(table))))
    rows = draw_sample(table.labels, coarse, sample, seed=seed)
    yardstick = _Yardstick(table, rows, seed, jobs)
    everything = yardstick.names
    at_random = [split_at_random(yardstick.labels, seed + draw) for draw in range(DRAWS)]
    done: list[tuple[Any, ...]] = []
    work = list(_work(table, rows, groups, yardstick, at_random, everything, seed))
    for number, (what, kind, says, run) in enumerate(work):
        if progress:
            progress(number, len(work))
        scores = run()
        values = [each.macro_f1 for each in scores]
        least, greatest = (min(values), max(values)) if not np.isnan(values).any() else (np.nan, np.nan)
        mean = [float(np.mean([getattr(each, name) for each in scores])) for name in ("macro_f1", "accuracy")]
        done.append((what, kind, *mean, least, greatest, min(each.classes for each in scores), says))
    if progress:
        progress(len(work), len(work))
    return pd.DataFrame(done, columns=SCORE_COLUMNS), rows


Job = tuple[str, str, str, Callable[[], list[Score]]]


def _work(
    table: LabelledTable,
    rows: Rows,
    groups: dict[str, NDArray[np.int64]],
    yardstick: _Yardstick,
    at_random: list[tuple[Rows, Rows]],
    everything: list[str],
    seed: int,
) -> Iterator[Job]:
    def fit(splits: list[tuple[Rows, Rows]], names: list[str]) -> Callable[[], list[Score]]:
        return lambda: [
            yardstick.score(yardstick.fit(split, names), split, names)
            if len(split[0]) and len(split[1]) and len(np.unique(yardstick.classes[split[0]])) > 1
            else Score(np.nan, np.nan, 0)
            for split in splits
        ]

    base = "packet" if table.unit == PACKET else "flow"
    yield f"by {base}", SPLIT, SPLITS[base], fit(at_random, everything)
    for name, words in SPLITS.items():
        if name in groups:
            group = groups[name][rows]
            splits = [split_by_group(yardstick.labels, group, seed=seed + draw) for draw in range(DRAWS)]
            yield f"by {name}", SPLIT, words, fit(splits, everything)
    start = table.ends["start_s"].to_numpy()[rows] if "start_s" in table.ends else np.zeros(1)
    if np.isfinite(start).all() and len(np.unique(start)) > 1:
        timeless = [name for name in everything if name not in table.identifiers.get("times", ())]
        yield "by time", SPLIT, SPLITS["time"], fit([_split_by_time(yardstick.labels, start)], timeless)
    first, identifiers = at_random[:1], table.identifiers
    headers = [name for names in identifiers.values() for name in names]
    if table.features:
        for role, names in identifiers.items():
            rest = [name for name in everything if name not in names]
            yield f"without {role}", WITHOUT, f"{IDENTIFIERS[role]} taken out", fit(first, rest)
        if headers:
            words = "addresses, ports and all other identifiers taken out"
            yield "without identifiers", WITHOUT, words, fit(first, table.features)
    for role, names in identifiers.items():
        yield f"{role} alone", ALONE, f"nothing but {IDENTIFIERS[role]}", fit(first, names)
    if headers:
        tree = DecisionTreeClassifier(random_state=seed)
        split = first[0]
        yield (
            "identifiers alone",
            ALONE,
            "one decision tree on nothing but identifiers",
            lambda: [yardstick.score(yardstick.fit_to(tree, split, headers), split, headers)],
        )
    if headers and table.features:
        yield (
            SHUFFLED,
            SHUFFLED,
            "tested with the identifiers of a row of another class",
            lambda: [
                yardstick.score_with_others_headers(yardstick.fit(each, everything), each, everything, headers)
                for each in first
            ],
        )
    permuted = np.random.default_rng(seed).permutation(yardstick.classes)
    yield (
        CHANCE,
        CHANCE,
        "trained on labels in random order: what chance gives",
        lambda: [yardstick.score(yardstick.fit(each, everything, permuted), each, everything) for each in first],
    )
