"""The reader's own captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from netrepro.errors import NetreproError
from netrepro.papers.gmm_diagnosis.noise import forest
from netrepro.papers.gmm_traffic.own_capture import labelled_by_inspection
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, Setting
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.study import Progress
from netrepro.traffic import grouped_splits, meter, of_large_classes, score_table

COLUMNS = ["split", "flows", "classes", "forest_accuracy", "forest_f1", "mixtures_accuracy", "mixtures_f1"]


def try_real_captures(
    folder: str, setting: Setting, seed: int, *, trees: int = 100, progress: Progress = iter
) -> pd.DataFrame:
    """Measure E13: all captures of a folder, labelled by packet inspection, split at random and by file.

    Returns COLUMNS; no row where `folder` is empty. Raises NetreproError where the folder is missing or has too few
    flows that can be labelled.
    """
    if not folder:
        return pd.DataFrame(columns=COLUMNS)
    files = sorted(
        path
        for path in Path(check_folder(folder)).iterdir()
        if path.is_file() and not {".pcap", ".pcapng", ".cap"}.isdisjoint(path.suffixes)
    )
    parts = []
    for file in progress(files):
        flows = meter(file, first_packets=BEST_PACKETS).flows
        flows = flows[flows["valid"] & (flows["protocol"] == 6)]
        labelled = labelled_by_inspection(file, flows) if len(flows) else flows.assign(**{"class": None})
        parts.append(labelled[labelled["class"].notna()].assign(file=file.name))
    parts = [part for part in parts if len(part)]
    flows = of_large_classes(pd.concat(parts, ignore_index=True), 6) if parts else pd.DataFrame({"class": []})
    if flows["class"].nunique() < 2 or flows["file"].nunique() < 3:
        raise NetreproError(
            f"{folder} has too few labelled flows of two classes in three files", "add captures, or leave pcaps empty"
        )
    labels = flows["class"].to_numpy(str)
    splits = {
        "at random": list(KFold(3, shuffle=True, random_state=seed).split(labels)),
        "by file": grouped_splits(labels, flows["file"].to_numpy(str), folds=3, seed=seed),
    }
    rows = []
    with one_thread():
        for words, folds in splits.items():
            row: dict[str, Any] = {"split": words, "flows": len(flows), "classes": flows["class"].nunique()}
            for name, model in (("forest", forest(trees, seed)), ("mixtures", setting.mixtures(seed))):
                predicted = np.empty(len(flows), object)
                for training, testing in folds:
                    counts = pd.Series(labels[training]).value_counts()
                    enough = training[np.isin(labels[training], counts[counts >= 2].index)]
                    used = setting.rows(flows, seed, split=(enough, testing))
                    predicted[testing] = used.train_and_predict(model)
                accuracy, macro_f1 = score_table(labels, predicted)["value"].head(2)
                row |= {f"{name}_accuracy": accuracy, f"{name}_f1": macro_f1}
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def check_folder(folder: str) -> str:
    """Check that the path is empty or a folder, and return it. Raises NetreproError otherwise."""
    if folder and not Path(folder).is_dir():
        raise NetreproError(f"{folder} is no folder", "give a folder of captures, or leave pcaps empty")
    return folder
