"""What the class tried and saw: its columns of scores, its baselines over packets, its analysis of the features; and
its future work, a model on sequences of packets. Always with right labels beside the fitted noise."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_selection import f_classif
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors

from netrepro.errors import NetreproError
from netrepro.papers.gmm_diagnosis.noise import forest, redraw
from netrepro.papers.gmm_diagnosis.run import DiagnosisRun, flows_as_reported
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS
from netrepro.paths import data_dir
from netrepro.study import Reading
from netrepro.traffic import (
    CLASSIFIERS,
    NAMED_CLASSES,
    NeuralClassifier,
    Rows,
    make_rows,
    packet_sequences,
    score_table,
    search_features,
    sequence_columns,
)
from netrepro.traffic.packets import Packets

RIGHT_LABELS, NOISE = "right labels", "fitted noise"
LABELS = (RIGHT_LABELS, NOISE)
REMEDIES = {"initial": ("raw", "mle"), "normalised": ("z", "mle"), "normalised MAP": ("z", "map")}
PRUNED_BELOW = 0.1  # F1 of a class that the report leaves out of its pruned mean
BAYES, *OTHER_BASELINES = BASELINES = ("NB", "KNN", "DT")
WITH_PORT = "netmate59+port"  # the report's features include the destination port
NEIGHBOURS = 10
SMALL = ("MAILS", "SKYPE")


def _both(right: Rows, run: DiagnosisRun) -> Iterator[tuple[str, Rows]]:
    """Give the rows with right labels, and with the fitted share of them drawn anew."""
    yield RIGHT_LABELS, right
    yield NOISE, right.relabelled(redraw(right.labels, run.fitted_share, run.seed))


# The columns of the report's table.


def read_columns(run: DiagnosisRun) -> Reading:
    """Measure the mixtures of the report's three columns, with its scores: normalisation, then the prior. Raw features
    may allow no fit; this column is then left out."""
    method, tables = replace(run.setting.method, regularisation=1e-2), []
    for remedy, (normalisation, prior) in REMEDIES.items():
        right = method.rows(run.flows(), run.seed, normalisation=normalisation)
        for labels, rows in _both(right, run):
            try:
                predicted = rows.predict(rows.train(method.mixtures(run.seed)).with_prior(prior))
            except NetreproError:
                continue
            scores = column_of(rows.score(predicted)).rename_axis(["row", "measure"]).rename("value").reset_index()
            tables.append(scores.assign(column=remedy, labels=labels))
    return Reading(tables={"columns": pd.concat(tables)})


def column_of(scores: pd.DataFrame) -> pd.Series:
    """Return the report's scores by (row, measure), from a `score_table`: in 0..1, macro-F1 over the four classes."""
    values = scores.set_index(["unit", "scope", "measure"])["value"]
    f1 = pd.Series({name: values["flow", name, "f1"] for name in NAMED_CLASSES}).fillna(0)
    support = pd.Series({name: values["flow", name, "support"] for name in NAMED_CLASSES})
    column = {
        ("all", "flow macro-F1"): f1.mean(),
        ("all", "weighted flow F1"): (f1 * support).sum() / support.sum(),
        ("all", "pruned flow macro-F1"): f1[f1 >= PRUNED_BELOW].mean(),
    }
    for unit in ("packet", "byte"):
        of_classes = [values[unit, name, "f1"] for name in NAMED_CLASSES]
        column["all", f"{unit} macro-F1"] = float(np.nan_to_num(of_classes).mean())
    column |= {("all", f"{unit} accuracy"): values[unit, "all", "accuracy"] for unit in ("flow", "packet", "byte")}
    return pd.Series(column | {(name, "f1"): f1[name] for name in NAMED_CLASSES})


# Baselines over the number of packets.


def read_baselines(run: DiagnosisRun) -> Reading:
    """Measure three baselines over the number of first packets, with standard scores."""
    rows_of: list[dict[str, Any]] = []
    for packets in run.setting.baseline_packets:
        right = run.setting.method.rows(flows_as_reported(run.setting, run.seed, packets), run.seed, normalisation="z")
        for labels, rows in _both(right, run):
            for model in BASELINES:
                used = rows.only(_chosen(model, rows, run))
                with np.errstate(divide="ignore", invalid="ignore"):  # a class's feature may have one value
                    predicted = used.train_and_predict(CLASSIFIERS[model](run.seed))
                accuracy = float((predicted == used.tested_labels).mean())
                rows_of.append({"packets": packets, "labels": labels, "model": model, "accuracy": accuracy})
    table = pd.DataFrame(rows_of)
    numbers = {}
    for labels in LABELS:
        own = table[table["labels"] == labels].pivot(index="packets", columns="model", values="accuracy")
        gained, key = own.iloc[-1] - own.iloc[0], labels.replace(" ", "_")
        for name, accuracies in (("gain", gained), ("first", own.iloc[0])):
            numbers[f"bayes_{name}_{key}"] = float(accuracies[BAYES])
            numbers[f"others_{name}_{key}"] = float(accuracies[OTHER_BASELINES].max())
    return Reading(numbers, {"packets": table})


def _chosen(model: str, rows: Rows, run: DiagnosisRun) -> list[str]:
    """Choose ten features by the model's own forward search; without `other_search_rows` only naive Bayes searches."""
    setting = run.setting
    limit = setting.search_rows if model == BAYES else setting.other_search_rows
    if not limit:
        return list(rows.features.columns)
    how = {"folds": setting.method.folds, "limit": limit, "seed": run.seed}
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return search_features(model, rows, setting.selected_features, **how)


# The features.


def rank_features(rows: Rows) -> pd.Series:
    """Compute the F statistic (ANOVA) of each feature of the training rows that varies, the greatest first."""
    training = rows.split[0]
    table = rows.features.iloc[training]
    table = table.loc[:, table.std() > 0]
    with np.errstate(divide="ignore", invalid="ignore"):  # a feature may be constant within every class
        statistic, _ = f_classif(table.to_numpy(), rows.labels[training])
    return pd.Series(statistic, table.columns).sort_values(ascending=False, kind="stable")


def correlate(rows: Rows) -> pd.DataFrame:
    """Compute Pearson's correlation of each feature that varies with each class (1 for its flows, else 0)."""
    table = rows.features.loc[:, rows.features.std() > 0]
    is_class = pd.DataFrame({name: (rows.labels == name).astype(float) for name in NAMED_CLASSES}, table.index)
    return pd.DataFrame({name: table.corrwith(is_class[name]) for name in NAMED_CLASSES})


def read_features(run: DiagnosisRun) -> Reading:
    """Rank the features by F, correlate them with the classes, and draw some flows' map by t-SNE; of whole flows, with
    standard scores and the destination port, as the report did."""
    method = replace(run.setting.method, feature_set=WITH_PORT)
    right = method.rows(run.flows(), run.seed, normalisation="z")
    ranks, correlations, numbers = [], [], {}
    for labels, rows in _both(right, run):
        ranks.append(rank_features(rows).rename_axis("feature").rename("f").reset_index().assign(labels=labels))
        table = correlate(rows)
        correlations.append(table.rename_axis("feature").reset_index().assign(labels=labels))
        numbers[f"small_classes_{labels.replace(' ', '_')}"] = float(table[list(SMALL)].abs().max(axis=None))
    tables = {"ranks": pd.concat(ranks), "correlations": pd.concat(correlations)}
    if run.setting.map_flows:
        tables["map"], alike = _map(right, run)
        numbers |= {f"neighbours_alike_{labels.replace(' ', '_')}": share for labels, share in alike.items()}
    return Reading(numbers, tables)


def _map(right: Rows, run: DiagnosisRun) -> tuple[pd.DataFrame, dict[str, float]]:
    """Map flows to two dimensions by t-SNE (van der Maaten and Hinton, JMLR 2008), and compute how much more often than
    by chance a flow's neighbours on the map have its label (0: as by chance; 1: always)."""
    kept = np.random.default_rng(run.seed).permutation(len(right.labels))[: run.setting.map_flows]
    places = TSNE(init="pca", max_iter=run.setting.map_rounds, random_state=run.seed).fit_transform(
        right.features.to_numpy()[kept]
    )
    table = pd.DataFrame(places, columns=["x", "y"])
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(places).kneighbors(return_distance=False)
    alike = {}
    for labels, rows in _both(right, run):
        own = rows.labels[kept]
        table[labels] = own
        chance = float((pd.Series(own).value_counts(normalize=True) ** 2).sum())
        alike[labels] = (float((own[near] == own[:, None]).mean()) - chance) / (1 - chance)
    return table, alike


def read_gradients(run: DiagnosisRun) -> Reading:
    """Measure the mean size of the gradient of a perceptron's answer by each feature (whole flows, standard scores,
    oversampled, as in the report), and the perceptron's accuracy."""
    method = replace(run.setting.method, feature_set=WITH_PORT)
    right = method.rows(run.flows(), run.seed, normalisation="z")
    tables, numbers = [], {}
    for labels, rows in _both(right.trained_on_few(method.neural_rows, seed=run.seed), run):
        model = rows.train(method.model("MLP", run.seed))
        sizes = model.input_gradients(rows.features.to_numpy()[rows.split[1]])
        tables.append(pd.DataFrame({"feature": rows.features.columns, "gradient": sizes, "labels": labels}))
        accuracy = float((rows.predict(model) == rows.tested_labels).mean())
        numbers[f"perceptron_accuracy_{labels.replace(' ', '_')}"] = accuracy
    return Reading(numbers, {"gradients": pd.concat(tables)})


# Sequences of packets.


def flows_with_sequences(run: DiagnosisRun) -> pd.DataFrame:
    """Return flows of nine first packets, with the columns of `packet_sequences`."""
    flows = flows_as_reported(run.setting, run.seed, BEST_PACKETS)
    days = sorted((data_dir("gmm_traffic") / "standin").glob("day*.pcap.xz"))
    sequences = packet_sequences([Packets.read(day) for day in days], flows, BEST_PACKETS)
    return pd.concat([flows, sequences], axis=1)


def read_sequences(run: DiagnosisRun) -> Reading:
    """Measure a recurrent network on lengths, gaps and directions of nine packets, beside a perceptron and a forest on
    the features of the same packets; and the network on the same packets in random order."""
    method, flows = run.setting.method, flows_with_sequences(run)
    statistics = method.rows(flows, run.seed)
    in_order = make_rows(flows, sequence_columns(BEST_PACKETS), statistics.split, seed=run.seed)
    network = NeuralClassifier(
        "gru",
        width=32,
        depth=1,
        batch_rows=run.setting.batch_rows,
        max_epochs=method.epochs[0] // 2,
        oversampling=False,
        random_state=run.seed,
    )
    models = {
        "recurrent network, packets in order": (in_order, network),
        "the same, packets in random order": (_in_random_order(in_order, run.seed), network),
        "perceptron, 59 features": (statistics, method.model("MLP", run.seed).set_params(oversampling=False)),
        "forest, 59 features": (statistics, forest(run.setting.trees, run.seed)),
    }
    scores = []
    for words, (right, model) in models.items():
        for labels, rows in _both(right.trained_on_few(method.neural_rows, seed=run.seed), run):
            accuracy, macro_f1 = score_table(rows.tested_labels, rows.train_and_predict(model))["value"].head(2)
            scores.append({"model": words, "labels": labels, "accuracy": accuracy, "macro-F1": macro_f1})
    return Reading(tables={"sequences": pd.DataFrame(scores)})


def _in_random_order(rows: Rows, seed: int) -> Rows:
    """Shuffle the packets of each flow."""
    random = np.random.default_rng(seed)
    values = rows.features.to_numpy().reshape(len(rows.features), BEST_PACKETS, -1)
    order = random.permuted(np.tile(np.arange(BEST_PACKETS), (len(values), 1)), axis=1)
    shuffled = np.take_along_axis(values, order[:, :, None], axis=1).reshape(len(values), -1)
    return replace(rows, features=pd.DataFrame(shuffled, columns=rows.features.columns))
