"""The measurement. A run is one condition at a number of first packets; runs share traces and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, FEW_FLOWS, Setting, neural_models, open_trace
from netrepro.papers.gmm_traffic.threads import one_thread, one_thread_each
from netrepro.study import Check, OneRun, Progress, Reading
from netrepro.traffic import (
    BASELINES,
    CLASSIFIERS,
    NAMED_CLASSES,
    NORMALISATIONS,
    JoinAudit,
    LabelledFlows,
    MixturePerClassClassifier,
    Rows,
    audit_join,
    confusion,
    draw_flows,
    grouped_splits,
    random_split,
    score_table,
    search_features,
    verify,
)

RIGHT, SHUFFLED = "right labels", "shuffled labels"


class Searches:
    """The feature searches that several runs need; each is made only once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}
        self._locks: dict[tuple[Any, ...], Lock] = {}

    def once(self, make: Callable[[], Any], *key: Any) -> Any:
        """Return what `make` returns; it is called only once for each key."""
        with self._locks.setdefault(key, Lock()):
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


@dataclass(frozen=True)
class TrafficRun:
    """One run: its setting and seed, and the searches that it shares with others."""

    setting: Setting
    seed: int
    searches: Searches

    @property
    def metering(self) -> tuple[str, int, bool]:
        """The arguments of `metered`."""
        return self.setting.which_trace, self.setting.first_packets, self.setting.handshake

    @cached_property
    def flows(self) -> pd.DataFrame:
        """The flows of this repetition."""
        return draw_flows(metered(*self.metering).flows, self.setting.flows, seed=self.seed, smallest_class=12)

    @cached_property
    def rows(self) -> Rows:
        """The rows of this repetition."""
        return self.setting.rows(self.flows, self.seed)

    @property
    def shuffled(self) -> Rows:
        """The rows with their labels shuffled."""
        return self.rows.relabelled(np.random.default_rng(self.seed).permutation(self.rows.labels))

    def selection(self, labels: str = RIGHT) -> pd.DataFrame:
        """Return `Setting.select` of the rows, with right or shuffled labels."""
        rows = self.rows if labels == RIGHT else self.shuffled
        return self.searches.once(lambda: self.setting.select(rows), *self.metering, self.seed, labels)

    def selected(self, labels: str = RIGHT) -> Rows:
        """Return the rows with only the selected features."""
        return self.rows.only(self.selection(labels)["feature"])


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure runs that share all settings except those that a condition changes."""
    searches = Searches()
    work = [(run.setting, run.seed, searches) for run in runs]
    with one_thread():
        one_thread_each(metered, sorted({TrafficRun(*each).metering for each in work}))
        return one_thread_each(measure_condition, work, progress, cost=_cost)


def measure_condition(setting: Setting, seed: int, searches: Searches) -> Reading:
    """Measure the setting's condition."""
    return CONDITIONS[setting.condition](TrafficRun(setting, seed, searches))


def _cost(setting: Setting, *_: Any) -> float:
    """Return a relative cost, so that the longest task starts first and no processor waits for it at the end."""
    return float(setting.condition == "neural models")


def metered(trace: str, first_packets: int, handshake: bool) -> LabelledFlows:
    """Return the flows of a trace, which is metered only once."""
    return open_trace(trace).at(first_packets, **({} if handshake else {"handshake": False}))


def audit_relabelled(labelled: LabelledFlows, relabel: Callable[[NDArray[Any]], NDArray[Any]]) -> JoinAudit:
    """Audit the same join with labels changed by `relabel`."""
    flows = labelled.join.flows.copy()
    has_label = flows["class"].notna().to_numpy()
    flows.loc[has_label, "class"] = relabel(flows["class"].to_numpy(object)[has_label])
    return audit_join(replace(labelled.join, flows=flows), trace=labelled.trace, first_packets=BEST_PACKETS)


def shuffled(labelled: LabelledFlows, seed: int) -> JoinAudit:
    """Audit the same join with shuffled labels."""
    return audit_relabelled(labelled, np.random.default_rng(seed).permutation)


def _mixtures(run: TrafficRun) -> Reading:
    """Measure the mixtures on a random split (Fig. 3, Table 3), and audit the labels."""
    used = run.selected()
    predicted = used.train_and_predict(run.setting.mixtures(run.seed))
    confusions = confusion(used.tested_labels, predicted).stack().rename("flows").reset_index()
    failed = open_trace(run.setting.which_trace).at().audit.failed
    checks = [Check("checks of the labels that failed (count)", len(failed), at_most=0)]
    tables = {"selections": run.selection(), "confusions": confusions}
    return _scored(used.score(predicted, model="GMM")) | Reading(tables=tables, checks=checks)


def _scored(scores: pd.DataFrame) -> Reading:
    """Read a model's scores: all of them as a table, and the mixtures' claimed ones as numbers."""
    value = scores.set_index(["model", "unit", "scope", "measure"])["value"]
    numbers = {f"accuracy_{name}": value[name, "flow", "all", "accuracy"] for name in dict.fromkeys(scores["model"])}
    if "GMM" in value.index:
        mixtures = value["GMM"]
        for unit in ("flow", "packet", "byte"):
            numbers[f"{unit}_accuracy"] = mixtures[unit, "all", "accuracy"]
            numbers[f"{unit}_macro_f1"] = mixtures[unit, "named", "macro_f1"]
        numbers |= {f"flow_f1_{name.lower()}": mixtures["flow", name, "f1"] for name in NAMED_CLASSES}
    return Reading({name: float(number) for name, number in numbers.items()}, {"scores": scores})


def _mixtures_on(rows_of: Callable[[TrafficRun], Rows]) -> Callable[[TrafficRun], Reading]:
    """Make the condition in which mixtures train and test on other rows."""

    def condition(run: TrafficRun) -> Reading:
        used = rows_of(run)
        return _scored(used.score(used.train_and_predict(run.setting.mixtures(run.seed)), model="GMM"))

    return condition


def _shuffled(run: TrafficRun) -> Rows:
    return run.selected(SHUFFLED).relabelled(run.shuffled.labels)


def _fewer(run: TrafficRun, *, flows: int) -> Rows:
    """Train on a part of the training rows, with features selected on all of them. flows : number of rows to train on;
    0 for two a class."""
    training = run.rows.split[0]
    share = min(flows, len(training) - 1) / len(training) if flows else 1e-9
    few = random_split(run.rows.labels[training], training_share=share, seed=run.seed)[0]
    return run.selected().trained_on(training[few])


def _random_features(run: TrafficRun) -> Rows:
    random = np.random.default_rng(run.seed)
    random.permutation(run.rows.labels)  # `shuffled` draws this first, too
    return run.rows.only(random.choice(run.rows.features.columns, len(run.selection()), replace=False))


def _hosts_apart(run: TrafficRun) -> Rows:
    """Split so that no workstation is in both parts."""
    stations = workstations(run.flows, metered(*run.metering))
    split = grouped_splits(run.flows["class"].to_numpy(str), stations, folds=3, seed=run.seed)[0]
    return run.setting.selected(run.setting.rows(run.flows, run.seed, split=split))


def workstations(flows: pd.DataFrame, labelled: LabelledFlows) -> NDArray[Any]:
    """Find each flow's workstation: the end whose address the log has as a watched one."""
    watched = set(labelled.ground_truth.records["source_address"])
    return np.where(flows["source_address"].isin(watched), flows["source_address"], flows["destination_address"])


def _baselines(run: TrafficRun) -> Reading:
    """Measure the other classifiers on the same split. With `search_rows` each searches features of its own; the first
    run does this, at nine packets, for all."""
    setting, scores = run.setting, []
    for name in BASELINES:
        used = run.selected()
        if setting.search_rows:
            how = {"folds": setting.folds, "limit": setting.search_rows, "seed": run.seed}
            search = partial(search_features, name, run.rows, setting.selected_features, **how)
            used = run.rows.only(run.searches.once(search, name, run.seed))
        scores.append(used.score(used.train_and_predict(setting.model(name, run.seed)), model=name))
    return _scored(pd.concat(scores))


def _neural(run: TrafficRun) -> Reading:
    """Measure the neural models, on the mixtures' features and a part of the training rows."""
    used = run.selected().trained_on_few(run.setting.neural_rows, seed=run.seed)
    scores = [
        used.score(used.train_and_predict(run.setting.model(name, run.seed)), model=name) for name in neural_models()
    ]
    return _scored(pd.concat(scores))


def normalisation_grid(
    flows: pd.DataFrame, setting: Setting, seed: int, others: Sequence[str] = ("NB", "DT")
) -> pd.DataFrame:
    """Measure mixtures by normalisation, prior and regularisation, and other classifiers for comparison, on all
    features."""
    measured = []
    for normalisation in NORMALISATIONS:
        rows = setting.rows(flows, seed, normalisation=normalisation)
        models: list[tuple[str, str, float, Any]] = [
            (name, "", np.nan, rows.train(CLASSIFIERS[name](seed))) for name in others
        ]
        mixtures = {
            each: _mixtures_or_none(replace(setting, regularisation=each).mixtures(seed), rows) for each in (1e-6, 1e-2)
        }
        for prior in ("mle", "map"):
            for regularisation, fitted in mixtures.items():
                models.append(("GMM", prior, regularisation, fitted and fitted.with_prior(prior)))
        for name, prior, regularisation, model in models:
            accuracy = macro_f1 = np.nan
            if model is not None:
                accuracy, macro_f1 = score_table(rows.tested_labels, rows.predict(model))["value"].head(2)
            measured.append((name, normalisation, prior, regularisation, accuracy, macro_f1))
    names = ["model", "normalisation", "prior", "regularisation", "accuracy", "macro_f1"]
    return pd.DataFrame(measured, columns=names)


def _mixtures_or_none(model: MixturePerClassClassifier, rows: Rows) -> MixturePerClassClassifier | None:
    """Fit the model; return None where a covariance is singular."""
    try:
        return rows.train(model)
    except NetreproError:
        return None


def _normalisations(run: TrafficRun) -> Reading:
    """Measure normalisations. Read also the macro-F1 with the logarithm over that with raw features, for mixtures (MLE)
    and a tree."""
    table = normalisation_grid(run.flows, run.setting, run.seed)
    compared = {
        "gain_of_mixtures": table[(table["prior"] == "mle") & (table["regularisation"] == 1e-2)],
        "gain_of_a_tree": table[table["model"] == "DT"],
    }
    macro_f1 = {name: rows.set_index("normalisation")["macro_f1"] for name, rows in compared.items()}
    gains = {name: float(scores["log"] / scores["raw"]) for name, scores in macro_f1.items()}
    return Reading(gains, {"normalisations": table})


def _verification(run: TrafficRun, *, shuffle: bool = False) -> Reading:
    """Measure the likelihood test: half of the flows train, a quarter sets thresholds, a quarter is tested."""
    setting, seed = run.setting, run.seed
    rows = setting.rows(run.flows, seed, split=random_split(run.flows["class"], training_share=0.5, seed=seed))
    if shuffle:
        rows = rows.relabelled(run.shuffled.labels)
    rows = setting.selected(rows)
    model = rows.train(setting.mixtures(seed))
    parts = random_split(rows.tested_labels, training_share=0.5, seed=seed)
    tuning, testing = ((rows.features.to_numpy()[rows.split[1][part]], rows.tested_labels[part]) for part in parts)
    table = verify(model, tuning, testing).reset_index()
    errors = table[table["class"].isin(NAMED_CLASSES)]["half_total_error"]
    return Reading({"half_total_error": float(errors.mean())}, {"verification": table})


CONDITIONS: dict[str, Callable[[TrafficRun], Reading]] = {
    "mixtures": _mixtures,
    SHUFFLED: _mixtures_on(_shuffled),
    "few flows": _mixtures_on(partial(_fewer, flows=FEW_FLOWS)),
    "two flows a class": _mixtures_on(partial(_fewer, flows=0)),
    "random features": _mixtures_on(_random_features),
    "selected for shuffled labels": _mixtures_on(lambda run: run.selected(SHUFFLED)),
    "all features": _mixtures_on(lambda run: run.rows),
    "hosts apart": _mixtures_on(_hosts_apart),
    "baselines": _baselines,
    "neural models": _neural,
    "normalisations": _normalisations,
    "verification": _verification,
    "verification, shuffled labels": partial(_verification, shuffle=True),
}
