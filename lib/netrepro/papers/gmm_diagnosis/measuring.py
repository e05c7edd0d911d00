"""The experiments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.papers.gmm_diagnosis import features
from netrepro.papers.gmm_diagnosis.noise import (
    NoiseFit,
    collapse,
    fit_noise,
    forest,
    named_confusion,
    published_counts,
    redraw,
)
from netrepro.papers.gmm_diagnosis.run import DiagnosisRun, flows_as_reported, rows_with_noise, scores_of
from netrepro.papers.gmm_diagnosis.setting import (
    BALANCED,
    INJECTED,
    RIGHT,
    TABLE,
    TRANSFORMER,
    Floats,
    Setting,
    reported,
    standin,
)
from netrepro.papers.gmm_diagnosis.variants import Variant, try_variant, variants
from netrepro.papers.gmm_traffic.measuring import normalisation_grid
from netrepro.papers.gmm_traffic.setting import derived_seed, neural_models
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.processes import in_processes
from netrepro.study import Check, OneRun, Progress, Reading
from netrepro.traffic import (
    CLASSIFIERS,
    NAMED_CLASSES,
    Rows,
    confusion,
    of_large_classes,
    search_features,
)

ONE_SHARE = "labels drawn anew"
NETWORK_FITS = 3  # repetitions that fit the share with transformers, each training one for every share
Readings = dict[tuple[str, int], Reading]  # (experiment, repetition) -> what was read
Seeds = Mapping[int, int]  # repetition -> its seed


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure all experiments but E13. Most of them use the noise that is fitted to all repetitions together."""
    setting, (first_seed, _) = runs[0].setting, runs[0].seed
    seeds = {run.seed[1]: derived_seed(*run.seed) for run in runs}
    asked = {(run.setting.experiment, run.seed[1]): run.setting for run in runs}
    names = {experiment for experiment, _ in asked}
    readings: Readings = {}
    curves, fit, made = np.empty(0), None, {}
    with one_thread():
        if names - {"variants", "method", ONE_SHARE}:
            curves, readings = _measure_noise(setting, seeds, progress)
            fit = _fit(setting, curves, seeds, progress, first_seed)
            readings |= {each: _read_fit(fit) for each in asked if each[0] == "fit"}
        if names & {"variants", "method"}:
            made = {variant.name: variant for variant in variants(setting, progress)}
            tried = {repetition: seeds[repetition] for experiment, repetition in asked if experiment == "variants"}
            readings |= _try_variants(list(made.values()), setting, tried, progress)

        def run_one(experiment: str, repetition: int) -> Reading:
            run = DiagnosisRun(asked[experiment, repetition], seeds[repetition], curves, fit, made)
            return EXPERIMENTS[experiment](run)

        rest = [each for each in asked if each not in readings]
        readings |= zip(rest, in_processes(run_one, rest, progress), strict=True)
    return [readings[run.setting.experiment, run.seed[1]] for run in runs]


# The noise and its fit.


def _measure_noise(setting: Setting, seeds: Seeds, progress: Progress) -> tuple[Floats, Readings]:
    """Measure the forest's confusion and scores over the share of re-drawn labels (E2)."""
    flows = {repetition: flows_as_reported(setting, seed) for repetition, seed in seeds.items()}
    work = [(repetition, share) for repetition in seeds for share in setting.noise]

    def run_one(repetition: int, share: float) -> tuple[Floats, dict[str, float]]:
        seed = seeds[repetition]
        rows = rows_with_noise(flows[repetition], share, setting, seed)
        predicted = rows.train_and_predict(forest(setting.trees, seed))
        return named_confusion(rows, predicted), scores_of(rows, predicted)

    measured = dict(zip(work, in_processes(run_one, work, progress, at_a_time=4), strict=True))
    curves = np.array([[measured[i, share][0] for share in setting.noise] for i in seeds])
    readings = {}
    for i in seeds:
        rows = [(share, name, value) for share in setting.noise for name, value in measured[i, share][1].items()]
        readings["noise", i] = Reading(tables={"noise": pd.DataFrame(rows, columns=["redrawn", "measure", "value"])})
    return curves, readings


def _fit(setting: Setting, curves: Floats, seeds: Seeds, progress: Progress, seed: int) -> NoiseFit:
    """Fit the share of re-drawn labels, with a transformer like the report's, or with the forest.

    The forest's curves are used where `network_noise` is empty or PyTorch is missing.
    """
    if not setting.network_noise or not neural_models():
        return fit_noise(setting.noise, curves, published_counts(), seed)
    work = [(i, share) for i in list(seeds)[:NETWORK_FITS] for share in setting.network_noise]
    flows = {i: flows_as_reported(setting, seeds[i]) for i, _ in work}

    def run_one(repetition: int, share: float) -> Floats:
        rows = _rows_for_networks(flows[repetition], share, setting, seeds[repetition])
        return named_confusion(rows, rows.train_and_predict(_transformer(setting, seeds[repetition], balanced=False)))

    measured = in_processes(run_one, work, progress, at_a_time=2)
    shape = (-1, len(setting.network_noise), len(NAMED_CLASSES), len(NAMED_CLASSES))
    return fit_noise(setting.network_noise, np.array(measured).reshape(shape), published_counts(), seed)


def _transformer(setting: Setting, seed: int, *, balanced: bool) -> Any:
    """Make the transformer, plain or with the rows of small classes repeated."""
    model = setting.method.model(TRANSFORMER, seed)
    return model.set_params(oversampling=balanced, batch_rows=setting.batch_rows)


def _rows_for_networks(flows: pd.DataFrame, share: float, setting: Setting, seed: int) -> Rows:
    """Return rows with re-drawn labels, the features that the mixtures' search selects, and only some training rows."""
    rows = setting.method.selected(rows_with_noise(flows, share, setting, seed))
    return rows.trained_on_few(setting.method.neural_rows, seed=seed)


def _read_fit(fit: NoiseFit) -> Reading:
    numbers = {"fitted_share": fit.share, "low": fit.low, "high": fit.high, "distance": fit.distance}
    cells = pd.DataFrame({"published": fit.published.ravel(), "fitted": fit.fitted.ravel()})
    return Reading(numbers, {"likelihood": fit.profile, "cells": cells})


def _recover(run: DiagnosisRun) -> Reading:
    """Fit known shares, on splits and draws other than those of the curves."""
    support = reported("transformer")["support"]
    totals = np.array([support["WEB"], support["P2P"], support["MAILS"] + support["SKYPE"]])
    setting, seed, fits = run.setting, derived_seed(run.seed, 1), []
    for share in INJECTED:
        rows = rows_with_noise(flows_as_reported(setting, seed), share, setting, seed)
        predicted = rows.train_and_predict(forest(setting.trees, seed))
        counts = collapse(named_confusion(rows, predicted)) * totals[:, None]
        both = (fit_noise(setting.noise, run.curves, each, 0, draws=2).share for each in (counts, counts[[1, 0, 2]]))
        fits.append((share, *both))
    return Reading(tables={"recovered": pd.DataFrame(fits, columns=["injected", "fitted", "control"])})


# Variants of the trace.


def _try_variants(made: Sequence[Variant], setting: Setting, seeds: Seeds, progress: Progress) -> Readings:
    """Try every variant. With `others_once`, repetitions after the first try only those that a claim needs."""
    work = [(i, each) for i in seeds for each in made if i == 0 or not setting.others_once or each.is_in_claims]

    def run_one(repetition: int, variant: Variant) -> dict[str, Any]:
        return try_variant(variant, setting, seeds[repetition])

    rows = in_processes(run_one, work, progress, at_a_time=8)
    failed = standin().at().audit.failed
    check = Check("checks of the right labels that failed (count)", len(failed), at_most=0)
    first = packet_lengths().loc["first"]
    readings = {}
    for repetition in seeds:
        own = [row for row, (i, _) in zip(rows, work, strict=True) if i == repetition]
        table = pd.DataFrame(own).reindex(columns=TABLE)
        by_name = table.set_index("variant")
        mistakes = table[table["fault"] == "features"]
        numbers = {
            f"{name}{words}": value
            for words, column in (("", "forest_accuracy"), ("_by_mixtures", "mixtures_accuracy"))
            for name, value in (
                ("with_right_labels", by_name.loc["right labels", column]),
                ("joined_by_time", by_name.loc["join by time", column]),
                ("worst_metering", mistakes[column].min()),
            )
        }
        numbers |= {
            "first_packet_bytes": by_name.loc["right labels", "first_packet"],
            "first_packet_bytes_without_handshake": by_name.loc["handshakes missed", "first_packet"],
            "longest_over_shortest_first_packet": first.max() / first.min(),
        }
        numbers = {name: float(value) for name, value in numbers.items()}
        readings["variants", repetition] = Reading(numbers, {"variants": table}, [check])
    return readings


def packet_lengths() -> pd.DataFrame:
    """Return the mean IP length (bytes) of the first and third forward packets, a column for each class."""
    flows = standin().at().flows
    means = flows[flows["class"].isin(NAMED_CLASSES)].groupby("class")[["fpl1", "fpl3"]].mean().T
    return means.set_axis(["first", "third"])


def _method(run: DiagnosisRun) -> Reading:
    """Measure the paper's own method, including its selection, with right labels and with labels joined by time
    (E1)."""
    method, limit, numbers = run.setting.method, run.setting.flows, {}
    for name, words in (("right_labels", "right labels"), ("join_by_time", "join by time")):
        flows = run.variants[words].flows
        kept = flows if limit is None else flows.sample(min(limit, len(flows)), random_state=run.seed)
        rows = method.selected(method.rows(of_large_classes(kept, 8), run.seed))
        predicted = rows.train_and_predict(method.mixtures(run.seed))
        numbers[f"method_with_{name}"] = float((predicted == rows.tested_labels).mean())
    return Reading(numbers)


# Experiments under the fitted noise.


def _one_share(run: DiagnosisRun) -> Reading:
    """Read the forest's confusion with one share of labels drawn anew, on a few flows."""
    setting = replace(run.setting, noise_flows=1200)
    rows = rows_with_noise(flows_as_reported(setting, run.seed), setting.share, setting, run.seed)
    predicted = rows.train_and_predict(forest(30, run.seed))
    matrix = confusion(rows.tested_labels, predicted, classes=NAMED_CLASSES)
    return Reading(scores_of(rows, predicted), {"confusion": matrix.rename_axis("label").reset_index()})


def _remedies(run: DiagnosisRun) -> Reading:
    """Measure normalisation, prior and regularisation, with right labels and under the fitted noise (E6)."""
    flows = run.flows()
    noisy = flows.assign(**{"class": redraw(flows["class"].to_numpy(str), run.fitted_share, run.seed)})
    tables = [
        normalisation_grid(each, run.setting.method, run.seed, others=()).assign(labels=labels)
        for labels, each in (("right labels", flows), ("fitted noise", noisy))
    ]
    return Reading(tables={"remedies": pd.concat(tables)})


def _forests(run: DiagnosisRun) -> Reading:
    """Measure forests, plain and balanced, under the fitted noise."""
    rows = rows_with_noise(run.flows(), run.fitted_share, run.setting, run.seed)
    scores = [
        {"model": words}
        | scores_of(rows, rows.train_and_predict(forest(run.setting.trees, run.seed, balanced=balanced)))
        for words, balanced in (("forest", False), (f"forest{BALANCED}", True))
    ]
    return Reading(tables={"models": pd.DataFrame(scores)})


def _transformers(run: DiagnosisRun) -> Reading:
    """Measure the transformer, plain and balanced, under the fitted noise and with right labels.

    It gets the features that the mixtures' search selects, and trains on few rows.
    """
    scores: list[dict[str, Any]] = []
    for labels, share in (("", run.fitted_share), (RIGHT, 0.0)):
        rows = _rows_for_networks(run.flows(), share, run.setting, run.seed)
        for words, balanced in (("", False), (BALANCED, True)):
            model = _transformer(run.setting, run.seed, balanced=balanced)
            scores.append({"model": TRANSFORMER + words + labels} | scores_of(rows, rows.train_and_predict(model)))
    return Reading({row["model"]: row["accuracy"] for row in scores}, {"models": pd.DataFrame(scores)})


def _naive_bayes(run: DiagnosisRun) -> Reading:
    """Measure the report's naive Bayes at four packets, with right labels and under the fitted noise."""
    setting, seed, method, numbers = run.setting, run.seed, run.setting.method, {}
    right = method.rows(flows_as_reported(setting, seed, 4), seed, normalisation="z")
    noisy = right.relabelled(redraw(right.labels, run.fitted_share, seed))
    how = {"folds": method.folds, "limit": setting.search_rows, "seed": seed}
    for labels, rows in (("right_labels", right), ("fitted_noise", noisy)):
        # A feature with one value in all of few rows has no variance: its likelihood is NaN, and the search ignores it.
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # Skype: six of 400 rows
            used = rows.only(search_features("NB", rows, setting.selected_features, **how))
            predicted = used.train_and_predict(CLASSIFIERS["NB"](seed))
        numbers[f"bayes_accuracy_{labels}"] = float((predicted == used.tested_labels).mean())
        numbers[f"bayes_named_{labels}"] = float(np.isin(predicted, ("WEB", "P2P")).mean())
    return Reading(numbers)


# Experiments that are measured one by one; the noise, its fit and the variants are not.
EXPERIMENTS: dict[str, Callable[[DiagnosisRun], Reading]] = {
    "method": _method,
    "recovered": _recover,
    "forests": _forests,
    "neural models": _transformers,
    "naive bayes": _naive_bayes,
    "remedies": _remedies,
    "columns": features.read_columns,
    "packets": features.read_baselines,
    "features": features.read_features,
    "gradients": features.read_gradients,
    "sequences": features.read_sequences,
    ONE_SHARE: _one_share,
}
