"""The measurement: sweeps of first packets, hard cases, normalisations, verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.setting import (
    BEST_PACKETS,
    FEW_FLOWS,
    VERIFIED_PACKETS,
    Scale,
    Setting,
    Step,
    Trace,
    derived_seed,
    neural_models,
)
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
from netrepro.study import Progress
from netrepro.traffic import (
    BASELINES,
    CLASSIFIERS,
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


@dataclass
class Runs:
    """Everything measured; every table has a column `repetition`.

    scores : case, model, first_packets, unit, scope, measure, value. selections : first_packets, place, feature,
    score. confusions : true, predicted, flows (mixtures at nine packets). verification : as `verify`, by first_packets.
    normalisations : model, normalisation, prior, regularisation, accuracy, macro_f1 (missing where no fit is possible).
    fitted : at nine packets, the first repetition's models and the rows that they were trained and tested on.
    audit, audit_shuffled : of the labels as joined, and of the same labels dealt out anew.
    searches : see `search`.
    """

    trace: Trace
    setting: Setting
    scale: Scale
    audit: JoinAudit
    audit_shuffled: JoinAudit
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    selections: pd.DataFrame = field(default_factory=pd.DataFrame)
    confusions: pd.DataFrame = field(default_factory=pd.DataFrame)
    verification: pd.DataFrame = field(default_factory=pd.DataFrame)
    normalisations: pd.DataFrame = field(default_factory=pd.DataFrame)
    fitted: dict[str, tuple[Any, Rows]] = field(default_factory=dict)
    searches: dict[tuple[Any, ...], pd.DataFrame] = field(default_factory=dict)

    def search(self, rows: Rows, *key: Any) -> pd.DataFrame:
        """Return `select_features` of rows that the key tells from all others. The search is made once."""
        if key not in self.searches:
            self.searches[key] = select_features(rows, self.setting)
        return self.searches[key]

    def values(
        self,
        case: str = "random split",
        model: str = "GMM",
        first_packets: int = BEST_PACKETS,
        *,
        unit: str = "flow",
        scope: str = "all",
        measure: str = "accuracy",
    ) -> NDArray[np.float64]:
        """Return one score, a value for each repetition."""
        table = self.scores
        rows = table[
            (table["case"] == case) & (table["model"] == model) & (table["first_packets"] == first_packets)
            & (table["unit"] == unit) & (table["scope"] == scope) & (table["measure"] == measure)
        ]  # fmt: skip
        return rows.sort_values("repetition")["value"].to_numpy(float)


def audit_relabelled(
    found: LabelledFlows, relabel: Callable[[NDArray[Any]], NDArray[Any]], first_packets: int = BEST_PACKETS
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


def measure(
    trace: Trace, setting: Setting, scale: Scale, repetitions: int, seed: int, *, progress: Progress = iter
) -> Runs:
    """Measure the sweep, cases, normalisations, verification and, where PyTorch is installed, neural models."""
    found = trace.at()
    runs = Runs(trace, setting, scale, found.audit, shuffled(found, seed))
    seeds = [derived_seed(seed, repetition) for repetition in range(repetitions)]
    swept, verified = sorted({*scale.first_packets, BEST_PACKETS}), sorted({3, VERIFIED_PACKETS, BEST_PACKETS})
    steps = [
        *((_sweep, packets) for packets in swept),
        (_cases, BEST_PACKETS),
        (_normalise, BEST_PACKETS),
        *((_verify, packets) for packets in verified),
    ]
    # What takes longest first, or one processor waits for it at the end.
    work: list[tuple[Step, int, int]] = [(_try_neural, BEST_PACKETS, 0)] if neural_models() else []
    work += [(step, packets, repetition) for repetition in range(repetitions) for step, packets in steps]

    def run_one(step: Step, packets: int, repetition: int) -> dict[str, pd.DataFrame]:
        tables = step(runs, packets, seeds[repetition], repetition == 0)
        return {name: table.assign(repetition=repetition) for name, table in tables.items()}

    with one_thread():
        # What steps share comes first.
        one_thread_each(trace.at, [(packets,) for packets in sorted({*swept, *verified})])
        one_thread_each(partial(_search_ahead, runs), [(packets, each) for each in seeds for packets in swept])
        tables = one_thread_each(run_one, work, progress)
    for name in ("scores", "selections", "confusions", "verification", "normalisations"):
        parts = [found[name] for found in tables if name in found]
        setattr(runs, name, pd.concat(parts, ignore_index=True))
    return runs


def rows_at(runs: Runs, packets: int, seed: int, **metering: Any) -> Rows:
    """Return the rows of a repetition."""
    flows = take(runs.trace.at(packets, **metering), runs.scale.flows, seed)
    return make_rows(flows, runs.setting, seed)


def dealt_out(rows: Rows, seed: int) -> Rows:
    """Return the rows with their labels dealt out anew."""
    return rows.relabelled(np.random.default_rng(seed).permutation(rows.labels))


def _search_ahead(runs: Runs, packets: int, seed: int) -> None:
    """Make the searches that several steps use."""
    rows = rows_at(runs, packets, seed)
    runs.search(rows, packets, seed, "right labels")
    if packets in _with_control(runs):
        runs.search(dealt_out(rows, seed), packets, seed, "shuffled labels")


def _with_control(runs: Runs) -> tuple[int, int]:
    """Return the numbers of first packets at which the mixtures also learn shuffled labels."""
    return min(runs.scale.first_packets), BEST_PACKETS


def _sweep(runs: Runs, packets: int, seed: int, is_first: bool) -> dict[str, pd.DataFrame]:
    """Measure the models at a number of first packets (Fig. 3, Table 3), and the control."""
    setting, scale = runs.setting, runs.scale
    rows = rows_at(runs, packets, seed)
    selection = runs.search(rows, packets, seed, "right labels")
    chosen = rows.only(selection["feature"])
    found = {"selections": selection.assign(first_packets=packets)}
    scores = []
    is_best = packets == BEST_PACKETS
    for name in ("GMM", *(BASELINES if is_best or is_first or not scale.sweeps_once else ())):
        searches = is_best and scale.search_rows and name in BASELINES
        used = rows.only(own_features(name, rows, setting, seed, limit=scale.search_rows)) if searches else chosen
        model = train(make_model(name, setting, scale, seed), used)
        predicted = predict(model, used)
        scores.append(score(rows, predicted, case="random split", model=name, first_packets=packets))
        if is_best and is_first:
            runs.fitted[name] = model, used
        if name == "GMM" and is_best:
            matrix = confusion(rows.labels[rows.split[1]], predicted).stack().rename("flows").reset_index()
            found["confusions"] = matrix
    if packets in _with_control(runs):
        dealt = dealt_out(rows, seed)
        used = dealt.only(runs.search(dealt, packets, seed, "shuffled labels")["feature"])
        predicted = predict(train(setting.mixtures(seed), used), used)
        scores.append(score(used, predicted, case="shuffled labels", model="GMM", first_packets=packets))
    return found | {"scores": pd.concat(scores)}


def _try_neural(runs: Runs, packets: int, seed: int, _: bool) -> dict[str, pd.DataFrame]:
    """Measure the neural models, on the mixtures' features and a part of the training rows."""
    rows = rows_at(runs, packets, seed)
    few = np.random.default_rng(seed).permutation(rows.split[0])[: runs.scale.neural_rows]
    used = rows.only(runs.search(rows, packets, seed, "right labels")["feature"]).trained_on(few)
    scores = []
    for name in neural_models():
        model = train(make_model(name, runs.setting, runs.scale, seed), used)
        scores.append(score(rows, predict(model, used), case="random split", model=name, first_packets=packets))
        runs.fitted[name] = model, used
    return {"scores": pd.concat(scores)}


def _cases(runs: Runs, packets: int, seed: int, _: bool) -> dict[str, pd.DataFrame]:
    """Measure the mixtures under other splits, other features, fewer flows, and without the handshake among the first
    three."""
    setting = runs.setting
    flows = take(runs.trace.at(packets), runs.scale.flows, seed)
    rows = make_rows(flows, setting, seed)
    random = np.random.default_rng(seed)
    columns = list(runs.search(rows, packets, seed, "right labels")["feature"])
    dealt = rows.relabelled(random.permutation(rows.labels))
    training = rows.split[0]
    labels = rows.labels[training]
    few = min(FEW_FLOWS, len(training) - 1) / len(training)
    chosen = rows.only(columns)
    cases = {
        "few flows": chosen.trained_on(training[random_split(labels, training_share=few, seed=seed)[0]]),
        "two flows a class": chosen.trained_on(training[random_split(labels, training_share=1e-9, seed=seed)[0]]),
        "random features": rows.only(list(random.choice(rows.features.columns, len(columns), replace=False))),
        "selected for shuffled labels": rows.only(runs.search(dealt, packets, seed, "shuffled labels")["feature"]),
        "all features": rows,
    }
    stations = workstations(flows, runs.trace.at(packets))
    splits = {"hosts apart": grouped_splits(rows.labels, stations, folds=3, seed=seed)[0]}
    if flows["day"].nunique() > 1:
        splits["days apart"] = day_split(flows["day"], [flows["day"].min()])
    for name, split in splits.items():
        other = make_rows(flows, setting, seed, split=split)
        cases[name] = other.only(select_features(other, setting)["feature"])
    without = rows_at(runs, 3, seed, handshake=False)
    cases["three packets after the handshake"] = without.only(select_features(without, setting)["feature"])
    scores = [
        score(each, predict(train(setting.mixtures(seed), each), each), case=name, model="GMM", first_packets=packets)
        for name, each in cases.items()
    ]
    return {"scores": pd.concat(scores)}


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


def _normalise(runs: Runs, packets: int, seed: int, _: bool) -> dict[str, pd.DataFrame]:
    flows = take(runs.trace.at(packets), runs.scale.flows, seed)
    return {"normalisations": normalisation_grid(flows, runs.setting, seed)}


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


def _verify(runs: Runs, packets: int, seed: int, _: bool) -> dict[str, pd.DataFrame]:
    flows = take(runs.trace.at(packets), runs.scale.flows, seed)
    tables = [verification(flows, runs.setting, seed).assign(case="right labels")]
    if packets == VERIFIED_PACKETS:
        tables.append(verification(flows, runs.setting, seed, shuffle=True).assign(case="shuffled labels"))
    return {"verification": pd.concat(tables).assign(first_packets=packets)}
