"""The measurement: a run is one condition, at a number of first packets; runs share traces and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.analysis import feature_tables, importance
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, FEW_FLOWS, Setting, neural_models, open_trace
from netrepro.papers.gmm_traffic.training import (
    Rows,
    make_model,
    make_rows,
    one_thread,
    one_thread_each,
    own_features,
    predict,
    score,
    select_features,
    take,
    train,
)
from netrepro.study import Check, OneRun, Progress, Reading
from netrepro.traffic import (
    BASELINES,
    CLASSIFIERS,
    NAMED_CLASSES,
    NORMALISATIONS,
    JoinAudit,
    LabelledFlows,
    MixturePerClassClassifier,
    audit_join,
    confusion,
    day_split,
    grouped_splits,
    random_split,
    score_table,
    verify,
)

RIGHT, SHUFFLED = "right labels", "shuffled labels"


class Searches:
    """The searches of features that several runs need, each made once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Any] = {}
        self._locks: dict[tuple[Any, ...], Lock] = {}

    def once(self, make: Callable[[], Any], *key: Any) -> Any:
        """Return what `make` returned for this key."""
        with self._locks.setdefault(key, Lock()):
            if key not in self._found:
                self._found[key] = make()
            return self._found[key]

    def features(self, rows: Rows, setting: Setting, seed: int, labels: str = RIGHT) -> pd.DataFrame:
        """Return `select_features` of a repetition's rows, as they are or dealt out."""
        return self.once(lambda: select_features(rows, setting), *_metering(setting), seed, labels)


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure runs, which share the settings that no condition changes."""
    searches = Searches()
    with one_thread():
        one_thread_each(metered, sorted({(*_metering(run.setting),) for run in runs}))
        work = [(searches, run.setting, run.seed) for run in runs]
        return one_thread_each(measure_condition, work, progress, cost=_cost)


def measure_condition(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure what the setting's condition is."""
    return CONDITIONS[setting.condition](searches, setting, seed)


def _metering(setting: Setting) -> tuple[str, int, bool]:
    return setting.trace, setting.first_packets, setting.handshake


def metered(trace: str, first_packets: int, handshake: bool) -> LabelledFlows:
    """Return the flows of a trace, metered once."""
    return open_trace(trace).at(first_packets, **({} if handshake else {"handshake": False}))


def _cost(_: Searches, setting: Setting, seed: int) -> float:
    """Put what takes longest first, or one processor waits for it at the end."""
    return {"neural models": 2.0, "features": 1.0}.get(setting.condition, 0.0)


def audit_relabelled(
    found: LabelledFlows, relabel: Callable[[NDArray[Any]], NDArray[Any]], first_packets: int | None = BEST_PACKETS
) -> JoinAudit:
    """Audit the same join with `relabel` of its labels."""
    flows = found.join.flows
    has_label = flows["class"].notna().to_numpy()
    changed = flows.copy()
    changed.loc[has_label, "class"] = relabel(flows["class"].to_numpy(object)[has_label])
    return audit_join(replace(found.join, flows=changed), trace=found.trace, first_packets=first_packets)


def shuffled(found: LabelledFlows, seed: int) -> JoinAudit:
    """Audit the same join with its labels dealt out anew."""
    return audit_relabelled(found, np.random.default_rng(seed).permutation)


def rows_at(setting: Setting, seed: int) -> Rows:
    """Return the rows of a repetition."""
    return make_rows(flows_at(setting, seed), setting, seed)


def flows_at(setting: Setting, seed: int) -> pd.DataFrame:
    """Return the flows of a repetition."""
    return take(metered(*_metering(setting)), setting.flows, seed)


def dealt_out(rows: Rows, seed: int) -> Rows:
    """Return the rows with their labels dealt out anew."""
    return rows.relabelled(np.random.default_rng(seed).permutation(rows.labels))


def _mixtures(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure the mixtures on a random split (Fig. 3, Table 3), and audit the labels."""
    rows = rows_at(setting, seed)
    selection = searches.features(rows, setting, seed)
    used = rows.only(selection["feature"])
    predicted = predict(train(setting.mixtures(seed), used), used)
    found = confusion(rows.labels[rows.split[1]], predicted).stack().rename("flows").reset_index()
    audit = open_trace(setting.trace).at().audit
    checks = [Check("checks of the labels that failed (count)", len(audit.failed), at_most=0)]
    return _scored(score(rows, predicted, model="GMM")) | Reading(
        tables={"selections": selection, "confusions": found}, checks=checks
    )


def _scored(scores: pd.DataFrame) -> Reading:
    """Read a model's scores: all as a table, of mixtures what is claimed as numbers."""
    value = scores.set_index(["model", "unit", "scope", "measure"])["value"]
    numbers = {f"accuracy_{name}": value[name, "flow", "all", "accuracy"] for name in dict.fromkeys(scores["model"])}
    if "GMM" in value.index:
        mixtures = value["GMM"]
        for unit in ("flow", "packet", "byte"):
            numbers[f"{unit}_accuracy"] = mixtures[unit, "all", "accuracy"]
            numbers[f"{unit}_macro_f1"] = mixtures[unit, "named", "macro_f1"]
        numbers |= {f"flow_f1_{name.lower()}": mixtures["flow", name, "f1"] for name in NAMED_CLASSES}
    return Reading({name: float(each) for name, each in numbers.items()}, {"scores": scores})


def _mixtures_on(rows_of: Callable[[Searches, Setting, int], Rows]) -> Callable[[Searches, Setting, int], Reading]:
    """Make the condition of mixtures that train and test on other rows."""

    def condition(searches: Searches, setting: Setting, seed: int) -> Reading:
        used = rows_of(searches, setting, seed)
        return _scored(score(used, predict(train(setting.mixtures(seed), used), used), model="GMM"))

    return condition


def _shuffled(searches: Searches, setting: Setting, seed: int) -> Rows:
    rows = dealt_out(rows_at(setting, seed), seed)
    return rows.only(searches.features(rows, setting, seed, SHUFFLED)["feature"])


def _fewer(searches: Searches, setting: Setting, seed: int, *, flows: int) -> Rows:
    """Train on a part of the training rows, with features chosen on all of them. flows : 0 for two a class."""
    rows = rows_at(setting, seed)
    training = rows.split[0]
    share = min(flows, len(training) - 1) / len(training) if flows else 1e-9
    few = random_split(rows.labels[training], training_share=share, seed=seed)[0]
    return rows.only(searches.features(rows, setting, seed)["feature"]).trained_on(training[few])


def _random_features(searches: Searches, setting: Setting, seed: int) -> Rows:
    rows, random = rows_at(setting, seed), np.random.default_rng(seed)
    random.permutation(rows.labels)
    count = len(searches.features(rows, setting, seed))
    return rows.only(list(random.choice(rows.features.columns, count, replace=False)))


def _selected_for_shuffled(searches: Searches, setting: Setting, seed: int) -> Rows:
    rows = rows_at(setting, seed)
    return rows.only(searches.features(dealt_out(rows, seed), setting, seed, SHUFFLED)["feature"])


def _apart(searches: Searches, setting: Setting, seed: int, *, by: str) -> Rows:
    """Split so that no host, or no day, is on both sides."""
    flows = flows_at(setting, seed)
    if by == "day":
        split = day_split(flows["day"], [flows["day"].min()])
    else:
        stations = workstations(flows, metered(*_metering(setting)))
        split = grouped_splits(flows["class"].to_numpy(str), stations, folds=3, seed=seed)[0]
    rows = make_rows(flows, setting, seed, split=split)
    return rows.only(select_features(rows, setting)["feature"])


def _own_features(searches: Searches, name: str, rows: Rows, setting: Setting, seed: int) -> Rows:
    """Return the rows with the features of a baseline's own search, else with those of the mixtures."""
    if not setting.search_rows:
        return rows.only(searches.features(rows, setting, seed)["feature"])
    limit = setting.search_rows
    return rows.only(searches.once(lambda: own_features(name, rows, setting, seed, limit=limit), name, seed))


def _baselines(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure the other classifiers on the same split."""
    rows, scores = rows_at(setting, seed), []
    for name in BASELINES:
        used = _own_features(searches, name, rows, setting, seed)
        predicted = predict(train(make_model(name, setting, seed), used), used)
        scores.append(score(rows, predicted, model=name))
    return _scored(pd.concat(scores))


def _importance(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure what mixtures and forest look at."""
    rows, found = rows_at(setting, seed), []
    for name in ("GMM", "RF"):
        used = rows.only(searches.features(rows, setting, seed)["feature"])
        used = used if name == "GMM" else _own_features(searches, name, rows, setting, seed)
        found.append(importance(name, train(make_model(name, setting, seed), used), used, seed))
    return Reading(tables={"importance": pd.concat(found)})


def _neural(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure the neural models, on the mixtures' features and a part of the training rows, and what they look at."""
    rows = rows_at(setting, seed)
    few = np.random.default_rng(seed).permutation(rows.split[0])[: setting.neural_rows]
    used = rows.only(searches.features(rows, setting, seed)["feature"]).trained_on(few)
    scores, looked = [], []
    for name in neural_models():
        model = train(make_model(name, setting, seed), used)
        scores.append(score(rows, predict(model, used), model=name))
        looked.append(importance(name, model, used, seed))
    return _scored(pd.concat(scores)) | Reading(tables={"importance": pd.concat(looked)})


def _features(searches: Searches, setting: Setting, seed: int) -> Reading:
    return Reading(tables=feature_tables(flows_at(setting, seed), setting, seed))


def workstations(flows: pd.DataFrame, found: LabelledFlows) -> NDArray[Any]:
    """Find the workstation of each flow: its end that the log knows as one that was watched."""
    watched = set(found.ground_truth.records["source_address"])
    return np.where(flows["source_address"].isin(watched), flows["source_address"], flows["destination_address"])


def normalisation_grid(
    flows: pd.DataFrame, setting: Setting, seed: int, others: Sequence[str] = ("NB", "DT")
) -> pd.DataFrame:
    """Measure mixtures by normalisation, prior and regularisation, and beside them other classifiers, on all
    features."""
    found = []
    for normalisation in NORMALISATIONS:
        rows = make_rows(flows, setting, seed, normalisation=normalisation)
        models: list[tuple[str, str, float, Any]] = [
            (name, "", np.nan, train(CLASSIFIERS[name](seed), rows)) for name in others
        ]
        mixtures = {each: _mixtures_or_none(setting.mixtures(seed, reg_covar=each), rows) for each in (1e-6, 1e-2)}
        for prior in ("mle", "map"):
            for regularisation, fitted in mixtures.items():
                models.append(("GMM", prior, regularisation, fitted and fitted.with_prior(prior)))
        for name, prior, regularisation, model in models:
            accuracy = macro_f1 = np.nan
            if model is not None:
                table = score_table(rows.labels[rows.split[1]], predict(model, rows))["value"].to_numpy()
                accuracy, macro_f1 = table[0], table[1]
            found.append((name, normalisation, prior, regularisation, accuracy, macro_f1))
    names = ["model", "normalisation", "prior", "regularisation", "accuracy", "macro_f1"]
    return pd.DataFrame(found, columns=names)


def _mixtures_or_none(model: MixturePerClassClassifier, rows: Rows) -> MixturePerClassClassifier | None:
    """Fit the model; None where a covariance is singular."""
    try:
        return train(model, rows)
    except NetreproError:
        return None


def _normalisations(searches: Searches, setting: Setting, seed: int) -> Reading:
    """Measure normalisations, and macro-F1 with the logarithm over that of raw features, of mixtures (MLE) and of a
    tree."""
    table = normalisation_grid(flows_at(setting, seed), setting, seed)
    compared = {
        "gain_of_mixtures": table[(table["prior"] == "mle") & (table["regularisation"] == 1e-2)],
        "gain_of_a_tree": table[table["model"] == "DT"],
    }
    macro_f1 = {name: rows.set_index("normalisation")["macro_f1"] for name, rows in compared.items()}
    gains = {name: float(each["log"] / each["raw"]) for name, each in macro_f1.items()}
    return Reading(gains, {"normalisations": table})


def verification(flows: pd.DataFrame, setting: Setting, seed: int, *, shuffle: bool = False) -> pd.DataFrame:
    """Measure the likelihood test: half of the flows train, a quarter sets thresholds, a quarter is judged."""
    rows = make_rows(flows, setting, seed, split=random_split(flows["class"], training_share=0.5, seed=seed))
    if shuffle:
        rows = dealt_out(rows, seed)
    rows = rows.only(select_features(rows, setting)["feature"])
    table, (training, rest) = rows.features.to_numpy(), rows.split
    model = setting.mixtures(seed).fit(table[training], rows.labels[training])
    tuning, testing = (rest[part] for part in random_split(rows.labels[rest], training_share=0.5, seed=seed))
    return verify(model, (table[tuning], rows.labels[tuning]), (table[testing], rows.labels[testing])).reset_index()


def _verification(searches: Searches, setting: Setting, seed: int, *, shuffle: bool = False) -> Reading:
    table = verification(flows_at(setting, seed), setting, seed, shuffle=shuffle)
    errors = table[table["class"].isin(NAMED_CLASSES)]["half_total_error"]
    return Reading({"half_total_error": float(errors.mean())}, {"verification": table})


Condition = Callable[[Searches, Setting, int], Reading]
CONDITIONS: dict[str, Condition] = {
    "mixtures": _mixtures,
    SHUFFLED: _mixtures_on(_shuffled),
    "few flows": _mixtures_on(partial(_fewer, flows=FEW_FLOWS)),
    "two flows a class": _mixtures_on(partial(_fewer, flows=0)),
    "random features": _mixtures_on(_random_features),
    "selected for shuffled labels": _mixtures_on(_selected_for_shuffled),
    "all features": _mixtures_on(lambda _, setting, seed: rows_at(setting, seed)),
    "hosts apart": _mixtures_on(partial(_apart, by="host")),
    "days apart": _mixtures_on(partial(_apart, by="day")),
    "baselines": _baselines,
    "neural models": _neural,
    "importance": _importance,
    "features": _features,
    "normalisations": _normalisations,
    "verification": _verification,
    "verification, shuffled labels": partial(_verification, shuffle=True),
}
