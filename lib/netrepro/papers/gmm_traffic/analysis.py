"""The class report's analyses of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.feature_selection import f_classif
from sklearn.inspection import permutation_importance
from sklearn.manifold import TSNE

from netrepro.papers.gmm_traffic.setting import Setting
from netrepro.papers.gmm_traffic.training import Rows, make_rows
from netrepro.traffic import CLASSES, NEURAL, NORMALISATIONS


def feature_tables(flows: pd.DataFrame, setting: Setting, seed: int) -> dict[str, pd.DataFrame]:
    """Compute what the class report looked at, on one split.

    anova : feature, normalisation, f (between over within the classes). correlation : features by classes, -1..1.
    distributions : class, feature, normalisation, value. maps : map ("t-SNE", "PCA"), x, y, class.
    """
    by_name = {name: make_rows(flows, setting, seed, normalisation=name) for name in NORMALISATIONS}
    rows = by_name[setting.normalisation]
    parts = [
        pd.DataFrame({"feature": each.features.columns, "f": _anova(each), "normalisation": name})
        for name, each in by_name.items()
    ]
    anova = pd.concat(parts)
    best = anova[anova["normalisation"] == setting.normalisation].nlargest(6, "f")["feature"]
    shown = [
        each.only(best).features.assign(**{"class": each.labels, "normalisation": name})
        for name, each in by_name.items()
        if name in ("raw", setting.normalisation)
    ]
    return {
        "anova": anova,
        "correlation": _correlation(rows).reset_index(),
        "distributions": pd.concat(shown).melt(["class", "normalisation"], var_name="feature"),
        "maps": _maps(rows, setting.mapped_flows, seed),
    }


def _anova(rows: Rows) -> NDArray[np.float64]:
    changing = rows.features.to_numpy().std(axis=0) > 0
    found = np.zeros(len(changing))
    found[changing] = f_classif(rows.features.to_numpy()[:, changing], rows.labels)[0]
    return np.nan_to_num(found, posinf=0.0)


def _correlation(rows: Rows) -> pd.DataFrame:
    """Compute Pearson's correlation of each feature with belonging to each class; 0 where a feature never changes."""
    member = pd.get_dummies(pd.Series(rows.labels)).reindex(columns=list(CLASSES), fill_value=False).astype(float)
    ours, theirs = ((table - table.mean()) / table.std().replace(0, np.inf) for table in (rows.features, member))
    return (ours.T @ theirs / len(ours)).rename_axis("feature")


def _maps(rows: Rows, points: int, seed: int) -> pd.DataFrame:
    kept = np.random.default_rng(seed).permutation(len(rows.labels))[:points]
    table = rows.features.to_numpy()[kept]
    maps = {
        "t-SNE": TSNE(init="pca", perplexity=min(30, len(kept) // 4), random_state=seed),
        "PCA": PCA(2, random_state=seed),
    }
    found = []
    for name, each in maps.items():
        x, y = np.asarray(each.fit_transform(table), float).T
        found.append(pd.DataFrame({"map": name, "x": x, "y": y, "class": rows.labels[kept]}))
    return pd.concat(found, ignore_index=True)


def importance(name: str, model: Any, used: Rows, seed: int) -> pd.DataFrame:
    """Measure how much each feature matters to a trained model: by shuffling it, and by gradients where it has them.

    Columns: feature, model, how ("gradient", "permutation"), value (share of the model's largest).
    """
    table, testing = used.features.to_numpy(), used.split[1][:600]
    values = {
        "permutation": permutation_importance(
            model, table[testing], used.labels[testing], scoring="f1_macro", n_repeats=3, random_state=seed
        ).importances_mean
    }
    if name in NEURAL:
        values["gradient"] = model.input_gradients(table[testing])
    shares = {how: value / max(np.abs(value).max(), 1e-12) for how, value in values.items()}
    found = [
        pd.DataFrame({"feature": used.features.columns, "model": name, "how": how, "value": share})
        for how, share in shares.items()
    ]
    return pd.concat(found, ignore_index=True)
