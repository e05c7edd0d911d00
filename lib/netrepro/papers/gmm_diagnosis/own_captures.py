"""Captures of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.papers.gmm_diagnosis.noise import forest
from netrepro.papers.gmm_traffic.own_capture import labelled_by_inspection
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, Setting
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.study import Progress
from netrepro.traffic import grouped_splits, meter, of_large_classes, score_table


def try_real_captures(
    folder: str, setting: Setting, seed: int, *, trees: int = 100, progress: Progress = iter
) -> pd.DataFrame:
    """Measure E13: all captures of a folder, labelled by packet inspection, split at random and by file.

    Returns split, flows, classes, forest_accuracy, forest_f1, mixtures_accuracy, mixtures_f1; no row where `folder` is
    empty. Raises NetreproError where the folder is missing or too little in it can be labelled.
    """
    columns = ["split", "flows", "classes", "forest_accuracy", "forest_f1", "mixtures_accuracy", "mixtures_f1"]
    if not folder:
        return pd.DataFrame(columns=columns)
    files = sorted(
        path
        for path in Path(check_folder(folder)).iterdir()
        if path.is_file() and not {".pcap", ".pcapng", ".cap"}.isdisjoint(path.suffixes)
    )
    parts = []
    for file in progress(files):
        flows = meter(file, first_packets=BEST_PACKETS).flows
        flows = flows[flows["valid"] & (flows["protocol"] == 6)]
        if len(flows):
            labelled = labelled_by_inspection(file, flows)
            parts.append(labelled[labelled["class"].notna()].assign(file=file.name))
    parts = [part for part in parts if len(part)]
    flows = of_large_classes(pd.concat(parts, ignore_index=True), 6) if parts else pd.DataFrame({"class": []})
    if flows["class"].nunique() < 2 or flows["file"].nunique() < 3:
        raise NetreproError(
            f"{folder} has too few labelled flows of two classes in three files", "add captures, or leave pcaps empty"
        )
    labels = flows["class"].to_numpy(str)
    order = np.random.default_rng(seed).permutation(len(flows))
    at_random = [(np.setdiff1d(order, part), np.sort(part)) for part in np.array_split(order, 3)]
    rows = []
    with one_thread():
        for words, splits in (
            ("at random", at_random),
            ("by file", grouped_splits(labels, flows["file"].to_numpy(str), folds=3, seed=seed)),
        ):
            row: dict[str, Any] = {"split": words, "flows": len(flows), "classes": flows["class"].nunique()}
            for name in ("forest", "mixtures"):
                predicted = np.empty(len(flows), object)
                for split in splits:
                    enough = pd.Series(labels[split[0]]).value_counts()
                    training = split[0][np.isin(labels[split[0]], enough[enough >= 2].index)]
                    used = setting.rows(flows, seed, split=(training, split[1]))
                    model = forest(trees, seed) if name == "forest" else setting.mixtures(seed)
                    predicted[split[1]] = used.train_and_predict(model)
                scores = score_table(labels, predicted)["value"].to_numpy()
                row |= {f"{name}_accuracy": scores[0], f"{name}_f1": scores[1]}
            rows.append(row)
    return pd.DataFrame(rows, columns=columns)


def check_folder(folder: str) -> str:
    """Check that the path is empty or a folder, and return it. Raises NetreproError else."""
    if folder and not Path(folder).is_dir():
        raise NetreproError(f"{folder} is no folder", "give a folder of captures, or leave pcaps empty")
    return folder
