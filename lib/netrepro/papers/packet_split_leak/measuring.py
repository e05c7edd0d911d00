"""The experiments: each model on packets that are split by packet and by flow."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, f1_score

from netrepro.papers.gmm_traffic.threads import one_thread, one_thread_each
from netrepro.papers.packet_split_leak.headers import (
    LABELLED_DAY,
    UNLABELLED_DAY,
    Headers,
    draw_packets,
    load_headers,
)
from netrepro.papers.packet_split_leak.setting import DEALT, FOREST, RIGHT, Setting
from netrepro.study import Check, OneRun, Progress, Reading
from netrepro.traffic import grouped_splits, random_split
from netrepro.traffic.splits import Split

BY_PACKET, BY_FLOW = "split by packet", "split by flow"
END_TO_END, FROZEN, TREES = "end to end", "frozen", "forest"
FOLDS = 5  # a fifth of the packets tests


@dataclass(frozen=True)
class Task:
    """Labelled headers and their two splits.

    headers : treated, for the models. labels : numbers of the applications, one for each packet; dealt : whether they
    were dealt out anew among the flows. splits : BY_PACKET, BY_FLOW -> row numbers.
    """

    headers: Headers
    labels: NDArray[np.int64]
    dealt: bool
    splits: dict[str, Split]


def why_no_encoder() -> str:
    """Return why no encoder can be trained here; "" where it can."""
    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"


def seeds_of(seed: Sequence[int]) -> dict[str, int]:
    """Derive the seeds of a repetition: one for each thing that is drawn. No model or treatment changes another's."""
    names = ("packets", "labels", "splits", "identifiers", "other identifiers", "encoder", "classifier", "forest")
    drawn = np.random.SeedSequence(list(seed)).generate_state(len(names)) % 2**31
    return dict(zip(names, drawn.tolist(), strict=True))


def make_task(headers: Headers, setting: Setting, seeds: dict[str, int]) -> Task:
    """Draw packets of a labelled day, treat their headers, and split them by packet and by flow."""
    drawn = draw_packets(headers, setting.flows_per_application, setting.packets_per_flow, seeds["packets"])
    _, labels = np.unique(drawn.application, return_inverse=True)
    if setting.labels == DEALT:
        labels = deal(labels, drawn.flow, seeds["labels"])
    by_packet = random_split(labels, training_share=1 - 1 / FOLDS, seed=seeds["splits"])
    by_flow = grouped_splits(labels, drawn.flow, folds=FOLDS, seed=seeds["splits"])[0]
    treated = drawn.treated(setting.headers, np.random.default_rng(seeds["identifiers"]))
    return Task(treated, labels, setting.labels == DEALT, {BY_PACKET: by_packet, BY_FLOW: by_flow})


def deal(labels: NDArray[np.int64], flow: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Deal labels out anew among the flows; all packets of a flow keep one label, and classes their flows' number."""
    numbers, first, of_packet = np.unique(flow, return_index=True, return_inverse=True)
    return labels[first][np.random.default_rng(seed).permutation(len(numbers))][of_packet]


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure all runs. Those that differ in nothing but their labels share one pre-trained encoder."""
    groups: dict[tuple[Any, Any], list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault((replace(run.setting, labels=RIGHT), run.seed), []).append(place)
    for day in (UNLABELLED_DAY, LABELLED_DAY):
        load_headers(day)  # once, before threads ask for it
    with one_thread():
        work = [([runs[place] for place in places],) for places in groups.values()]
        read = one_thread_each(_measure_group, work, progress, cost=_cost)
    readings = {
        place: one
        for places, ones in zip(groups.values(), read, strict=True)
        for place, one in zip(places, ones, strict=True)
    }
    return [readings[place] for place in range(len(runs))]


def _cost(group: Sequence[OneRun]) -> float:
    return len(group) * (1.0 if group[0].setting.model == FOREST else 10.0)


def _measure_group(group: Sequence[OneRun]) -> list[Reading]:
    setting, seeds = group[0].setting, seeds_of(group[0].seed)
    tasks = [make_task(load_headers(LABELLED_DAY), run.setting, seeds) for run in group]
    if setting.model == FOREST:
        return [read(task, {TREES: _forest(task, setting, seeds)}) for task in tasks]
    encoder = pretrained(load_headers(UNLABELLED_DAY), setting, seeds)
    return [read(task, _encoders(task, encoder, setting, seeds)) for task in tasks]


def pretrained(unlabelled: Headers, setting: Setting, seeds: dict[str, int]) -> Any:
    """Pre-train an encoder on unlabelled headers that are treated as the labelled ones will be."""
    encoders = importlib.import_module("netrepro.papers.packet_split_leak.encoder")
    random = np.random.default_rng(seeds["other identifiers"])
    rows = unlabelled.only(random.permutation(len(unlabelled))[: setting.pretraining_packets])
    bits = rows.treated(setting.headers, random).bits()
    return encoders.pretrain(
        encoders.make_encoder(bits.shape[1], setting.width, setting.representation, seeds["encoder"]),
        bits,
        corrupted_share=setting.corrupted_share,
        epochs=setting.pretraining_epochs,
        seed=seeds["encoder"],
    )


Named = dict[str, NDArray[np.int64]]  # split -> the classes named for its testing packets


def _encoders(task: Task, encoder: Any, setting: Setting, seeds: dict[str, int]) -> dict[str, Named]:
    encoders = importlib.import_module("netrepro.papers.packet_split_leak.encoder")
    bits = task.headers.bits()
    return {
        name: {
            split: encoders.classify(
                encoder,
                (bits[trains], task.labels[trains]),
                bits[tests],
                frozen=name == FROZEN,
                epochs=setting.epochs,
                seed=seeds["classifier"],
            )
            for split, (trains, tests) in task.splits.items()
        }
        for name in (END_TO_END, FROZEN)
    }


def _forest(task: Task, setting: Setting, seeds: dict[str, int]) -> Named:
    fields = task.headers.fields().to_numpy()
    forest = RandomForestClassifier(setting.trees, random_state=seeds["forest"], n_jobs=1)
    return {
        split: forest.fit(fields[trains], task.labels[trains]).predict(fields[tests])
        for split, (trains, tests) in task.splits.items()
    }


def read(task: Task, named: dict[str, Named]) -> Reading:
    """Read macro-F1 and accuracy (0 to 1) of each model on each split, and check the splits themselves.

    Numbers are named "<model>, <split>" for macro-F1, with ", accuracy" after it for the accuracy; the table "scores"
    has the same in columns.
    """
    rows = []
    for model, splits in named.items():
        for split, names in splits.items():
            right = task.labels[task.splits[split][1]]
            macro_f1 = f1_score(right, names, average="macro", zero_division=0)
            rows.append((model, split, float(macro_f1), float(accuracy_score(right, names))))
    scores = pd.DataFrame(rows, columns=["model", "split", "macro_f1", "accuracy"])
    numbers = {f"{model}, {split}": macro_f1 for model, split, macro_f1, _ in rows}
    numbers |= {f"{model}, {split}, accuracy": accuracy for model, split, _, accuracy in rows}
    checks = [Check("testing packets whose flow trains, split by flow", _on_both_sides(task, BY_FLOW), at_most=0)]
    checks.append(
        Check("testing packets whose flow trains, split by packet", _on_both_sides(task, BY_PACKET), at_least=0.5)
    )
    if task.dealt:
        # No model knows a label that was dealt to a flow it has not seen: chance, and as much again for luck.
        chance = float(np.bincount(task.labels).max() / len(task.labels))
        known = float(scores[scores["split"] == BY_FLOW]["accuracy"].max())
        checks.append(Check("accuracy on labels dealt to unseen flows / largest class", known / chance, at_most=2))
    return Reading(numbers, {"scores": scores}, checks)


def _on_both_sides(task: Task, split: str) -> float:
    trains, tests = (task.headers.flow[rows] for rows in task.splits[split])
    return float(np.isin(tests, trains).mean())
