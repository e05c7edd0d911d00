"""The experiments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
from netrepro.papers.gmm_traffic.measuring import normalisation_grid, verification
from netrepro.papers.gmm_traffic.setting import (
    LARGE_NETWORKS,
    SMALL_NETWORKS,
    Setting,
    Trace,
    derived_seed,
    neural_models,
)
from netrepro.papers.gmm_traffic.training import (
    Rows,
    make_model,
    make_rows,
    of_large_classes,
    one_thread,
    own_features,
    predict,
    select_features,
    take,
    train,
)
from netrepro.processes import in_processes
from netrepro.study import Progress
from netrepro.traffic import CLASSIFIERS, NAMED_CLASSES, class_scores, confusion


@dataclass
class Diagnosis:
    """Everything measured.

    table : a row a variant and repetition, columns TABLE; accuracies and F1 (four classes) in 0..1, `wrong` the share
    of wrong labels, header_bytes and first_packet the means of total_fhlen and fpl1 of WEB flows, audit "passed" or the
    checks that failed.
    method : accuracy in 0..1 of the paper's own method (selected features, MAP) with right labels and joined by time.
    noise : repetition, share, measure, value. curves : (repetitions, shares, 4, 4). fit : to the published confusion.
    recovered : repetition, injected, fitted, control (fitted to confused counts). remedies : as `normalisation_grid`,
    by labels. models : scores of models under the fitted noise, of the transformer with RIGHT labels too.
    naive_bayes : labels, accuracy, named (share of flows named WEB or P2P). verification : labels, first_packets,
    error.
    """

    scale: Scale
    trace: Trace
    fit: NoiseFit
    curves: Floats
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    method: pd.DataFrame = field(default_factory=pd.DataFrame)
    noise: pd.DataFrame = field(default_factory=pd.DataFrame)
    recovered: pd.DataFrame = field(default_factory=pd.DataFrame)
    remedies: pd.DataFrame = field(default_factory=pd.DataFrame)
    models: pd.DataFrame = field(default_factory=pd.DataFrame)
    naive_bayes: pd.DataFrame = field(default_factory=pd.DataFrame)
    verification: pd.DataFrame = field(default_factory=pd.DataFrame)

    def of(self, variant: str, column: str = "forest_accuracy") -> Floats:
        """Return a column of a variant, a value for each repetition."""
        return self.table[self.table["variant"] == variant].sort_values("repetition")[column].to_numpy(float)


def noise_confusion(
    flows: pd.DataFrame, share: float, setting: Setting, model: Any, seed: int
) -> tuple[Rows, NDArray[Any]]:
    """Return rows with re-drawn labels, and what the model predicts for the testing ones."""
    rows = make_rows(flows, setting, seed)
    rows = rows.relabelled(redraw(rows.labels, share, seed))
    return rows, predict(train(model, rows), rows)


def measure(
    trace: Trace, setting: Setting, scale: Scale, repetitions: int, seed: int, *, progress: Progress = iter
) -> Diagnosis:
    """Measure all experiments but E13."""
    seeds = [derived_seed(seed, repetition) for repetition in range(repetitions)]
    with one_thread():
        curves, noise = _measure_noise(trace, setting, scale, seeds, progress)
        fit = fit_noise(scale.noise, curves, published_counts(), seed)
        found = Diagnosis(scale, trace, fit, curves, noise=noise)
        found.recovered = _recover(found, setting, seeds, progress)
        made = variants(trace, scale, progress=progress)
        turns, once = range(repetitions)[: scale.most_variants], scale.others_once
        work = [(i, each) for i in turns for each in made if i == 0 or not once or each.is_in_claims]

        def run_one(repetition: int, variant: Variant) -> dict[str, Any]:
            return try_variant(variant, setting, scale, seeds[repetition]) | {"repetition": repetition}

        found.table = pd.DataFrame(in_processes(run_one, work, progress, at_a_time=8)).reindex(
            columns=[*TABLE, "repetition"]
        )
        by_time = next(each for each in made if each.name == "join by time")
        _measure_rest(found, setting, by_time, seeds, progress)
    return found


def _measure_rest(
    found: Diagnosis, setting: Setting, by_time: Variant, seeds: Sequence[int], progress: Progress
) -> None:
    """Measure models, remedies, method and verification."""
    steps: dict[str, Callable[[int, int], pd.DataFrame]] = {
        "models": partial(_models, found, setting),
        "naive_bayes": partial(_naive_bayes, found, setting),
        "remedies": partial(_remedies, found, setting),
        "method": partial(_method, found, setting, by_time),
        "verification": partial(_verification, found, setting),
    }
    scale = found.scale
    once, few = (1 if scale.others_once else scale.most_variants), scale.most_variants
    most = {"naive_bayes": scale.most_transformers, "method": few, "verification": once}
    work = [(name, i) for name in steps for i in range(len(seeds))[: most.get(name)]]
    tables = in_processes(lambda name, i: steps[name](seeds[i], i).assign(repetition=i), work, progress)
    for name in steps:
        parts = [table for (each, _), table in zip(work, tables, strict=True) if each == name]
        setattr(found, name, pd.concat(parts, ignore_index=True))


def flows_as_reported(trace: Trace, scale: Scale, seed: int) -> pd.DataFrame:
    """Return whole flows (the report's features) of the four named classes, in the report's shares."""
    support = reported("transformer")["support"].drop("all")
    return match_shares(trace.at(None).flows, support, scale.noise_flows or 10**9, seed)


def _measure_noise(
    trace: Trace, setting: Setting, scale: Scale, seeds: Sequence[int], progress: Progress
) -> tuple[Floats, pd.DataFrame]:
    """Measure the forest's confusion and scores over the share of re-drawn labels (E2)."""
    flows = [flows_as_reported(trace, scale, seed) for seed in seeds]
    work = [(i, j) for i in range(len(seeds)) for j in range(len(scale.noise))]

    def run_one(i: int, j: int) -> tuple[Floats, dict[str, float]]:
        model = forest(scale.trees, seeds[i])
        used, predicted = noise_confusion(flows[i], scale.noise[j], setting, model, seeds[i])
        return named_confusion(used, predicted), _scores(used, predicted)

    curves = np.zeros((len(seeds), len(scale.noise), 4, 4))
    rows = []
    for (i, j), (matrix, scores) in zip(work, in_processes(run_one, work, progress, at_a_time=4), strict=True):
        curves[i, j] = matrix
        rows += [(i, scale.noise[j], name, value) for name, value in scores.items()]
    return curves, pd.DataFrame(rows, columns=["repetition", "share", "measure", "value"])


def _scores(rows: Rows, predicted: NDArray[Any]) -> dict[str, float]:
    """Compute accuracy, macro-F1 of the named, and each class's precision and recall (0 where nothing is named so)."""
    matrix = confusion(rows.labels[rows.split[1]], predicted, classes=NAMED_CLASSES)
    table = class_scores(matrix).fillna(0)
    found = {"accuracy": float(np.trace(matrix) / matrix.to_numpy().sum()), "macro-F1": float(table["f1"].mean())}
    for name in NAMED_CLASSES:
        found |= {f"{name} {measure}": float(table.loc[name, measure]) for measure in ("precision", "recall")}
    return found


def _recover(found: Diagnosis, setting: Setting, seeds: Sequence[int], progress: Progress) -> pd.DataFrame:
    """Fit shares that were put in, on splits and draws other than those that the curves were measured on."""
    support = reported("transformer")["support"]
    totals = np.array([support["WEB"], support["P2P"], support["MAILS"] + support["SKYPE"]])

    def run_one(i: int, share: float) -> tuple[int, float, float, float]:
        fresh = derived_seed(seeds[i], 1)
        flows = flows_as_reported(found.trace, found.scale, fresh)
        used, predicted = noise_confusion(flows, share, setting, forest(found.scale.trees, fresh), fresh)
        counts = collapse(named_confusion(used, predicted)) * totals[:, None]
        confused = counts[[1, 0, 2]]
        fitted, control = (
            fit_noise(found.scale.noise, found.curves, each, 0, draws=2).share for each in (counts, confused)
        )
        return i, share, fitted, control

    work = [(i, share) for i in range(len(seeds)) for share in INJECTED]
    rows = in_processes(run_one, work, progress, at_a_time=2)
    return pd.DataFrame(rows, columns=["repetition", "injected", "fitted", "control"])


def _method(found: Diagnosis, setting: Setting, by_time: Variant, seed: int, _: int) -> pd.DataFrame:
    """Measure the paper's own method, selection and all, with right labels and with labels joined by time (E1)."""
    row: dict[str, float] = {}
    for words, flows in (("right", found.trace.at().flows), ("by time", by_time.flows(seed))):
        limit = found.scale.flows
        kept = flows if limit is None else flows.sample(min(limit, len(flows)), random_state=seed)
        used = make_rows(of_large_classes(kept, 8), setting, seed)
        used = used.only(select_features(used, setting)["feature"])
        predicted = predict(train(setting.mixtures(seed), used), used)
        row[words] = float((predicted == used.labels[used.split[1]]).mean())
    return pd.DataFrame([row])


def _remedies(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """Measure normalisation, prior and regularisation, with right labels and under the fitted noise (E6)."""
    flows = flows_as_reported(found.trace, found.scale, seed)
    return pd.concat(
        [
            normalisation_grid(each, setting, seed, others=()).assign(labels=labels)
            for labels, each in _by_labels(found, flows, seed).items()
        ]
    )


def _by_labels(found: Diagnosis, flows: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """Return the flows with right labels, and under the fitted noise."""
    noisy = redraw(flows["class"].to_numpy(str), found.fit.share, seed)
    return {"right labels": flows, "fitted noise": flows.assign(**{"class": noisy})}


def _models(found: Diagnosis, setting: Setting, seed: int, repetition: int) -> pd.DataFrame:
    """Measure forests and neural models, plain and balanced, under the fitted noise; the transformer with right labels
    too.

    Neural models see the features that the mixtures' search selects, and at most `neural_rows` rows train them.
    """
    rows = []
    networks = LARGE_NETWORKS if found.scale.flows is None else SMALL_NETWORKS
    setting = replace(setting, **networks)
    flows = flows_as_reported(found.trace, found.scale, seed)
    for words, balanced in (("forest", False), (f"forest{BALANCED}", True)):
        model = forest(found.scale.trees, seed, balanced=balanced)
        rows.append({"model": words} | _scores(*noise_confusion(flows, found.fit.share, setting, model, seed)))
    most = found.scale.most_transformers
    if most is not None and repetition >= most:
        return pd.DataFrame(rows)
    for labels, share in (("", found.fit.share), (RIGHT, 0.0)):
        used, _ = noise_confusion(flows, share, setting, forest(1, seed), seed)
        used = used.only(select_features(used, setting)["feature"])
        used = used.trained_on(np.random.default_rng(seed).permutation(used.split[0])[: setting.neural_rows])
        for name in neural_models():
            if name != TRANSFORMER and (repetition or labels):
                continue  # no claim needs it
            for words, balanced in ((name, False), (f"{name}{BALANCED}", True)):
                model = make_model(name, setting, seed).set_params(oversampling=balanced)
                rows.append({"model": words + labels} | _scores(used, predict(train(model, used), used)))
    return pd.DataFrame(rows)


def _naive_bayes(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """Measure the report's naive Bayes at four packets, with right labels and under the fitted noise."""
    support = reported("transformer")["support"].drop("all")
    flows = match_shares(found.trace.at(4).flows, support, found.scale.noise_flows or 10**9, seed)
    given = make_rows(flows, setting, seed, normalisation="z")
    noisy = given.relabelled(redraw(given.labels, found.fit.share, seed))
    rows = []
    for labels, used in (("right labels", given), ("fitted noise", noisy)):
        # A feature that few rows all share has no variance: its likelihood is no number, and the search passes it by.
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # Skype: six of 400 rows
            used = used.only(own_features("NB", used, setting, seed, limit=found.scale.search_rows))
            predicted = predict(train(CLASSIFIERS["NB"](seed), used), used)
        correct = predicted == used.labels[used.split[1]]
        rows.append((labels, float(correct.mean()), float(np.isin(predicted, ("WEB", "P2P")).mean())))
    return pd.DataFrame(rows, columns=["labels", "accuracy", "named"])


def _verification(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """Measure the likelihood test's error with right labels and under the fitted noise (E11)."""
    rows = []
    for packets in (3, 6, 9):
        flows = take(found.trace.at(packets), found.scale.flows, seed)
        for labels, each in _by_labels(found, flows, seed).items():
            table = verification(each, setting, seed)
            error = table[table["class"].isin(NAMED_CLASSES)]["half_total_error"].mean()
            rows.append((labels, packets, float(error)))
    return pd.DataFrame(rows, columns=["labels", "first_packets", "error"])
