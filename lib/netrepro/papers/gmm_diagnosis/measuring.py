"""The experiments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.papers import gmm_traffic
from netrepro.papers.gmm_diagnosis.noise import (
    NoiseFit,
    collapse,
    fit_noise,
    forest,
    match_shares,
    named_confusion,
    published_counts,
    redraw,
)
from netrepro.papers.gmm_diagnosis.setting import BALANCED, INJECTED, RIGHT, TABLE, TRANSFORMER, Floats, Scale, reported
from netrepro.papers.gmm_diagnosis.variants import Variant, try_variant, variants
from netrepro.papers.gmm_traffic.measuring import normalisation_grid
from netrepro.papers.gmm_traffic.setting import (
    LARGE_NETWORKS,
    Trace,
    derived_seed,
    neural_models,
    open_trace,
)
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.processes import in_processes
from netrepro.study import Check, OneRun, Progress, Reading
from netrepro.traffic import (
    CLASSIFIERS,
    NAMED_CLASSES,
    Rows,
    class_scores,
    confusion,
    of_large_classes,
    search_features,
)

NETWORK_FITS = 3  # repetitions whose transformers fit the share: each trains one for every share


@dataclass(frozen=True)
class Shared:
    """The base of the experiments under noise: the trace, the forest's curves (repetitions, shares, 4, 4), and the fit
    (to these curves, or to the transformer's where a profile affords them)."""

    trace: Trace
    method: gmm_traffic.Setting
    scale: Scale
    curves: Floats
    fit: NoiseFit


def noise_confusion(
    flows: pd.DataFrame, share: float, setting: gmm_traffic.Setting, model: Any, seed: int
) -> tuple[Rows, NDArray[Any]]:
    """Return rows with re-drawn labels, and what the model predicts for the testing ones."""
    rows = setting.rows(flows, seed)
    rows = rows.relabelled(redraw(rows.labels, share, seed))
    return rows, rows.train_and_predict(model)


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure all experiments but E13. Most stand on the noise that is fitted to all repetitions together."""
    setting, trace = runs[0].setting, open_trace("standin")
    method, scale = setting.method, setting.scale
    # A run's seed is (seed, repetition); of one run alone just a seed.
    places = [run.seed if isinstance(run.seed, tuple) else (run.seed, 0) for run in runs]
    seeds = {repetition: derived_seed(seed, repetition) for seed, repetition in places}
    asked = [(run.setting.experiment, repetition) for run, (_, repetition) in zip(runs, places, strict=True)]
    found: dict[tuple[str, int], Reading] = {}
    with one_thread():
        if any(experiment not in ("variants", "one share") for experiment, _ in asked):
            curves, noise = _measure_noise(trace, method, scale, seeds, progress)
            fit = _fit(trace, method, scale, curves, seeds, progress, places[0][0])
            found |= noise | dict.fromkeys((each for each in asked if each[0] == "fit"), _read_fit(fit))
            shared = Shared(trace, method, scale, curves, fit)
        if any(experiment in ("variants", "method") for experiment, _ in asked):
            made = variants(trace, scale, progress=progress)
            repetitions = [repetition for experiment, repetition in asked if experiment == "variants"]
            found |= _try_variants(trace, made, method, scale, {each: seeds[each] for each in repetitions}, progress)
            by_time = next(each for each in made if each.name == "join by time")
        rest = [each for each in asked if each not in found]

        def run_one(experiment: str, repetition: int) -> Reading:
            if experiment == "method":
                return _method(trace, method, scale, by_time, seeds[repetition])
            if experiment == "one share":
                (asked_of,) = {run.setting for run in runs if run.setting.experiment == experiment}
                return _one_share(trace, method, scale, asked_of.share, seeds[repetition])
            return EXPERIMENTS[experiment](shared, seeds[repetition], repetition)

        found |= zip(rest, in_processes(run_one, rest, progress), strict=True)
    return [found[each] for each in asked]


def _fit(
    trace: Trace,
    method: gmm_traffic.Setting,
    scale: Scale,
    curves: Floats,
    seeds: Mapping[int, int],
    progress: Progress,
    seed: int,
) -> NoiseFit:
    """Fit the share of re-drawn labels with the model of the report's table, a transformer, or with the forest.

    The forest's curves serve where `scale.network_noise` is empty, or PyTorch is missing.
    """
    if not scale.network_noise or not neural_models():
        return fit_noise(scale.noise, curves, published_counts(), seed)
    method = _with_networks(method, scale)
    work = [(i, share) for i in list(seeds)[:NETWORK_FITS] for share in scale.network_noise]
    flows = {i: flows_as_reported(trace, scale, seeds[i]) for i, _ in work}

    def run_one(repetition: int, share: float) -> Floats:
        rows = _rows_for_networks(flows[repetition], share, method, seeds[repetition])
        model = method.model(TRANSFORMER, seeds[repetition])
        return named_confusion(rows, rows.train_and_predict(model))

    measured = in_processes(run_one, work, progress, at_a_time=2)
    shape = (-1, len(scale.network_noise), len(NAMED_CLASSES), len(NAMED_CLASSES))
    return fit_noise(scale.network_noise, np.array(measured).reshape(shape), published_counts(), seed)


def _with_networks(method: gmm_traffic.Setting, scale: Scale) -> gmm_traffic.Setting:
    networks = LARGE_NETWORKS if scale.flows is None else {}
    return replace(method, **networks)


def _rows_for_networks(flows: pd.DataFrame, share: float, method: gmm_traffic.Setting, seed: int) -> Rows:
    """Return rows with re-drawn labels: the features that the mixtures' search selects, `neural_rows` to train on."""
    used, _ = noise_confusion(flows, share, method, forest(1, seed), seed)
    used = method.selected(used)
    return used.trained_on(np.random.default_rng(seed).permutation(used.split[0])[: method.neural_rows])


def _read_fit(fit: NoiseFit) -> Reading:
    numbers = {"fitted_share": fit.share, "low": fit.low, "high": fit.high, "distance": fit.distance}
    cells = pd.DataFrame({"published": fit.published.ravel(), "fitted": fit.fitted.ravel()})
    return Reading(numbers, {"likelihood": fit.profile, "cells": cells})


def _try_variants(
    trace: Trace,
    made: Sequence[Variant],
    method: gmm_traffic.Setting,
    scale: Scale,
    seeds: Mapping[int, int],
    progress: Progress,
) -> dict[tuple[str, int], Reading]:
    """Try every variant; in later repetitions, where the scale says so, those only that a claim needs."""
    work = [(i, each) for i in seeds for each in made if i == 0 or not scale.others_once or each.is_in_claims]

    def run_one(repetition: int, variant: Variant) -> dict[str, Any]:
        return try_variant(variant, method, scale, seeds[repetition])

    rows = in_processes(run_one, work, progress, at_a_time=8)
    audit = trace.at().audit
    check = Check("checks of the right labels that failed (count)", len(audit.failed), at_most=0)
    longest = packet_lengths().max(axis=1) / packet_lengths().min(axis=1)
    found = {}
    for repetition in seeds:
        own = [row for row, (i, _) in zip(rows, work, strict=True) if i == repetition]
        table = pd.DataFrame(own).reindex(columns=TABLE)
        by_name = table.set_index("variant")
        numbers = {
            "with_right_labels": by_name.loc["right labels", "forest_accuracy"],
            "joined_by_time": by_name.loc["join by time", "forest_accuracy"],
            "worst_metering": table[table["fault"] == "features"]["forest_accuracy"].min(),
            "first_packet_bytes": by_name.loc["right labels", "first_packet"],
            "first_packet_bytes_without_handshake": by_name.loc["handshakes missed", "first_packet"],
            "longest_over_shortest_first_packet": longest["first"],
        }
        numbers = {name: float(value) for name, value in numbers.items()}
        found["variants", repetition] = Reading(numbers, {"variants": table}, [check])
    return found


def packet_lengths() -> pd.DataFrame:
    """Return the mean IP length in bytes of the first and the third packet forward, a column for each class."""
    flows = open_trace("standin").at().flows
    means = flows[flows["class"].isin(NAMED_CLASSES)].groupby("class")[["fpl1", "fpl3"]].mean().T
    return means.set_axis(["first", "third"])


def _one_share(trace: Trace, method: gmm_traffic.Setting, scale: Scale, share: float, seed: int) -> Reading:
    """Read the forest's confusion under one share of labels drawn anew, on few flows."""
    flows = flows_as_reported(trace, replace(scale, noise_flows=1200), seed)
    rows, predicted = noise_confusion(flows, share, method, forest(30, seed), seed)
    matrix = confusion(rows.tested_labels, predicted, classes=NAMED_CLASSES)
    return Reading(_scores(rows, predicted), {"confusion": matrix.rename_axis("label").reset_index()})


def flows_as_reported(trace: Trace, scale: Scale, seed: int) -> pd.DataFrame:
    """Return whole flows (the report's features) of the four named classes, in the report's shares."""
    support = reported("transformer")["support"].drop("all")
    return match_shares(trace.at(None).flows, support, scale.noise_flows or 10**9, seed)


def _measure_noise(
    trace: Trace, method: gmm_traffic.Setting, scale: Scale, seeds: Mapping[int, int], progress: Progress
) -> tuple[Floats, dict[tuple[str, int], Reading]]:
    """Measure the forest's confusion and scores over the share of re-drawn labels (E2)."""
    flows = {repetition: flows_as_reported(trace, scale, seed) for repetition, seed in seeds.items()}
    work = [(repetition, share) for repetition in seeds for share in scale.noise]

    def run_one(repetition: int, share: float) -> tuple[Floats, dict[str, float]]:
        seed = seeds[repetition]
        used, predicted = noise_confusion(flows[repetition], share, method, forest(scale.trees, seed), seed)
        return named_confusion(used, predicted), _scores(used, predicted)

    found = dict(zip(work, in_processes(run_one, work, progress, at_a_time=4), strict=True))
    curves = np.array([[found[i, share][0] for share in scale.noise] for i in seeds])
    readings = {}
    for i in seeds:
        rows = [(share, name, value) for share in scale.noise for name, value in found[i, share][1].items()]
        table = pd.DataFrame(rows, columns=["redrawn", "measure", "value"])
        readings["noise", i] = Reading(tables={"noise": table})
    return curves, readings


def _scores(rows: Rows, predicted: NDArray[Any]) -> dict[str, float]:
    """Compute accuracy, macro-F1 of the named, and each class's precision and recall (0 where nothing is named so)."""
    matrix = confusion(rows.tested_labels, predicted, classes=NAMED_CLASSES)
    table = class_scores(matrix).fillna(0)
    found = {"accuracy": float(np.trace(matrix) / matrix.to_numpy().sum()), "macro-F1": float(table["f1"].mean())}
    for name in NAMED_CLASSES:
        found |= {f"{name} {measure}": float(table.loc[name, measure]) for measure in ("precision", "recall")}
    return found


def _recover(shared: Shared, seed: int, _: int) -> Reading:
    """Fit shares that were put in, on splits and draws other than those that the curves were measured on."""
    support = reported("transformer")["support"]
    totals = np.array([support["WEB"], support["P2P"], support["MAILS"] + support["SKYPE"]])
    fresh, scale = derived_seed(seed, 1), shared.scale
    rows = []
    for share in INJECTED:
        flows = flows_as_reported(shared.trace, scale, fresh)
        used, predicted = noise_confusion(flows, share, shared.method, forest(scale.trees, fresh), fresh)
        counts = collapse(named_confusion(used, predicted)) * totals[:, None]
        confused = counts[[1, 0, 2]]
        both = (fit_noise(scale.noise, shared.curves, each, 0, draws=2).share for each in (counts, confused))
        rows.append((share, *both))
    return Reading(tables={"recovered": pd.DataFrame(rows, columns=["injected", "fitted", "control"])})


def _method(trace: Trace, method: gmm_traffic.Setting, scale: Scale, by_time: Variant, seed: int) -> Reading:
    """Measure the paper's own method, selection and all, with right labels and with labels joined by time (E1)."""
    numbers: dict[str, float] = {}
    for words, flows in (("right_labels", trace.at().flows), ("join_by_time", by_time.flows(seed))):
        kept = flows if scale.flows is None else flows.sample(min(scale.flows, len(flows)), random_state=seed)
        used = method.rows(of_large_classes(kept, 8), seed)
        used = method.selected(used)
        predicted = used.train_and_predict(method.mixtures(seed))
        numbers[f"method_with_{words}"] = float((predicted == used.tested_labels).mean())
    return Reading(numbers)


def _remedies(shared: Shared, seed: int, _: int) -> Reading:
    """Measure normalisation, prior and regularisation, with right labels and under the fitted noise (E6)."""
    flows = flows_as_reported(shared.trace, shared.scale, seed)
    tables = [
        normalisation_grid(each, shared.method, seed, others=()).assign(labels=labels)
        for labels, each in _by_labels(shared, flows, seed).items()
    ]
    return Reading(tables={"remedies": pd.concat(tables)})


def _by_labels(shared: Shared, flows: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Return the flows with right labels, and under the fitted noise."""
    noisy = redraw(flows["class"].to_numpy(str), shared.fit.share, seed)
    return {"right labels": flows, "fitted noise": flows.assign(**{"class": noisy})}


def _forests(shared: Shared, seed: int, _: int) -> Reading:
    """Measure forests, plain and balanced, under the fitted noise."""
    rows, flows = [], flows_as_reported(shared.trace, shared.scale, seed)
    for words, balanced in (("forest", False), (f"forest{BALANCED}", True)):
        model = forest(shared.scale.trees, seed, balanced=balanced)
        scores = _scores(*noise_confusion(flows, shared.fit.share, shared.method, model, seed))
        rows.append({"model": words} | scores)
    return Reading(tables={"models": pd.DataFrame(rows)})


def _networks(shared: Shared, seed: int, repetition: int) -> Reading:
    """Measure neural models, plain and balanced, under the fitted noise; the transformer with right labels too.

    They see the features that the mixtures' search selects, and at most `neural_rows` rows train them.
    """
    rows: list[dict[str, Any]] = []
    method = _with_networks(shared.method, shared.scale)
    flows = flows_as_reported(shared.trace, shared.scale, seed)
    for labels, share in (("", shared.fit.share), (RIGHT, 0.0)):
        used = _rows_for_networks(flows, share, method, seed)
        for name in neural_models():
            if name != TRANSFORMER and (repetition or labels):
                continue  # no claim needs it
            for words, balanced in ((name, False), (f"{name}{BALANCED}", True)):
                model = method.model(name, seed).set_params(oversampling=balanced)
                rows.append({"model": words + labels} | _scores(used, used.train_and_predict(model)))
    numbers = {row["model"]: row["accuracy"] for row in rows if row["model"].startswith(TRANSFORMER)}
    return Reading(numbers, {"models": pd.DataFrame(rows)})


def _naive_bayes(shared: Shared, seed: int, _: int) -> Reading:
    """Measure the report's naive Bayes at four packets, with right labels and under the fitted noise."""
    method, scale = shared.method, shared.scale
    support = reported("transformer")["support"].drop("all")
    flows = match_shares(shared.trace.at(4).flows, support, scale.noise_flows or 10**9, seed)
    given = method.rows(flows, seed, normalisation="z")
    noisy = given.relabelled(redraw(given.labels, shared.fit.share, seed))
    numbers = {}
    for labels, used in (("right_labels", given), ("fitted_noise", noisy)):
        # A feature that few rows all share has no variance: its likelihood is no number, and the search passes it by.
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # Skype: six of 400 rows
            used = used.only(
                search_features(
                    "NB", used, method.selected_features, folds=method.folds, limit=scale.search_rows, seed=seed
                )
            )
            predicted = used.train_and_predict(CLASSIFIERS["NB"](seed))
        numbers[f"bayes_accuracy_{labels}"] = float((predicted == used.tested_labels).mean())
        numbers[f"bayes_named_{labels}"] = float(np.isin(predicted, ("WEB", "P2P")).mean())
    return Reading(numbers)


# Those that stand on the fitted noise.
EXPERIMENTS: dict[str, Callable[[Shared, int, int], Reading]] = {
    "recovered": _recover,
    "forests": _forests,
    "neural models": _networks,
    "naive bayes": _naive_bayes,
    "remedies": _remedies,
}
