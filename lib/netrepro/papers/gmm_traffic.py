"""Traffic classified by Gaussian mixtures: H. Alizadeh, H. Vranken, A. Zúquete, A. Miri, "Timely Classification and
Verification of Network Traffic Using Gaussian Mixture Models", IEEE Access 8, 2020.

A flow's first packets become 59 numbers; a forward search picks some of them; each class gets a mixture whose number
of components finds itself; a flow goes to the class of the largest posterior. The paper's trace, UNIBS-2009, is used
where it is present; else a stand-in made by real applications, on which no published number can be judged.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.feature_selection import SequentialFeatureSelector, f_classif
from sklearn.inspection import permutation_importance
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from netrepro.claims import Measured, load_claims
from netrepro.errors import NetreproError, nearest
from netrepro.papers._running import Progress, Value, in_parallel, of_profile
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import (
    BASELINES,
    CLASSES,
    CLASSIFIERS,
    NAMED_CLASSES,
    NEURAL,
    NORMALISATIONS,
    JoinAudit,
    LabelledFlows,
    MeterResult,
    MixtureFeatureSelector,
    MixturePerClassClassifier,
    NeuralClassifier,
    audit_join,
    class_scores,
    confusion,
    day_split,
    feature_sets,
    find_unibs,
    flow_totals,
    grouped_splits,
    inspect_capture,
    join_labels,
    load_standin,
    load_unibs,
    make_normaliser,
    meter,
    random_split,
    score_table,
    verify,
)
from netrepro.traffic.captures import CaptureFile

SLUG = "gmm_traffic"
BEST_PACKETS = 9  # the paper's best number of first packets, which it calls RPC
VERIFIED_PACKETS = 6  # at which verification errs least in the paper
MODELS = ("GMM", *BASELINES)
# 0.5 % of the paper's 79,000 flows; what a mixture can learn depends on the count, not on the share.
FEW_FLOWS = 395
TRACES = {"auto": "UNIBS-2009 where present", "unibs": "UNIBS-2009", "standin": "the stand-in"}
Split = tuple[NDArray[np.int64], NDArray[np.int64]]
Step = Callable[..., dict[str, pd.DataFrame]]  # a part of the measurement, and its tables


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open, as we chose it.

    feature_set : see feature_sets.yaml. normalisation : of NORMALISATIONS, learnt from training rows.
    regularisation : added to every variance of normalised features; a feature with few values makes a mixture
    infinitely sure otherwise. prior : "map" or "mle". selected_features : how many the forward search picks.
    max_components : each class's mixture begins with so many. training_share : of the flows, the rest tests.
    """

    feature_set: str = "netmate59"
    normalisation: str = "log"
    regularisation: float = 1e-2
    prior: str = "map"
    selected_features: int = 10
    max_components: int = 10
    training_share: float = 0.7
    folds: int = 3

    def __post_init__(self) -> None:
        for name, valid in (("feature_set", feature_sets()), ("normalisation", NORMALISATIONS)):
            if getattr(self, name) not in valid:
                raise NetreproError(f"no {name} {getattr(self, name)!r}", nearest(getattr(self, name), valid))
        if self.prior not in ("map", "mle"):
            raise NetreproError(f"no prior {self.prior!r}", nearest(self.prior, ("map", "mle")))
        for name, least in (("regularisation", 0), ("selected_features", 1), ("max_components", 1), ("folds", 2)):
            if getattr(self, name) < least:
                raise NetreproError(f"{name} is {getattr(self, name)}", f"it must be {least} or more")
        if not 0 < self.training_share < 1:
            raise NetreproError(f"training_share is {self.training_share}", "it must be between 0 and 1")

    def mixtures(self, seed: int, **changed: Any) -> MixturePerClassClassifier:
        """The paper's classifier."""
        settings: dict[str, Any] = {
            "prior": self.prior,
            "reg_covar": self.regularisation,
            "max_components": self.max_components,
            "n_init": 2,
        }
        return MixturePerClassClassifier(**(settings | changed), random_state=seed)


@dataclass(frozen=True)
class Scale:
    """What a profile affords.

    flows : used of the trace (None: all). first_packets : swept. epochs, widths, neural_rows : of MLP and
    FT-Transformer, and the rows that train them (in the first repetition).
    search_rows : on so many rows each baseline searches features of its own at nine packets (0: none does).
    sweeps_once : the baselines are swept in the first repetition only; at nine packets they are in all.
    """

    flows: int | None
    first_packets: tuple[int, ...]
    epochs: tuple[int, int]
    widths: tuple[int, int]
    neural_rows: int
    search_rows: int
    sweeps_once: bool


SCALES = {
    "quick": Scale(3000, (3, 4, 6, 9), (30, 8), (64, 32), 1500, 0, True),
    "paper": Scale(None, (3, 4, 5, 6, 7, 8, 9, 10), (60, 20), (256, 48), 3000, 1000, False),
}
# A search asks thousands of fits; these stand for the whole model in it.
CHEAPER: dict[str, dict[str, Any]] = {
    "RF": {"n_estimators": 5},
    "GBT": {"max_iter": 5, "learning_rate": 0.4, "max_leaf_nodes": 8},
}


def scale_of(profile: str) -> Scale:
    """Raises NetreproError for another profile than quick and paper."""
    return of_profile(profile, SCALES)


class Trace:
    """A labelled trace, metered once for every way of metering that is asked for.

    name : in words. published : whether it is the paper's own, so that its numbers can be compared.
    """

    def __init__(self, name: str, load: Callable[..., LabelledFlows], *, published: bool):
        self.name, self.published = name, published
        self._load = load
        self._known: dict[tuple, LabelledFlows] = {}

    def at(self, first_packets: int | None = BEST_PACKETS, **metering: Any) -> LabelledFlows:
        """Its flows with the features of their first packets; keywords go to `meter`."""
        key = (first_packets, *sorted(metering.items()))
        if key not in self._known:
            self._known[key] = self._load(first_packets=first_packets, **metering)
        return self._known[key]

    def overview(self) -> pd.DataFrame:
        """A row a class: flows, share of flows, of bytes (0..1), and of flows in UNIBS-2009."""
        flows = self.at().flows
        sizes = flow_totals(flows).groupby(flows["class"].to_numpy(str)).sum().reindex(list(CLASSES)).fillna(0)
        count = flows["class"].value_counts().reindex(list(CLASSES)).fillna(0).astype(int)
        published = pd.Series({"MAILS": 4503, "P2P": 21883, "SKYPE": 1106, "WEB": 48347, "OTHERS": 158})
        return pd.DataFrame(
            {
                "flows": count,
                "share of flows": count / count.sum(),
                "share of bytes": sizes["byte"] / sizes["byte"].sum(),
                "share of flows in UNIBS-2009": published / published.sum(),
            }
        ).rename_axis("class")


def open_trace(which: str = "auto") -> Trace:
    """The trace of a name of TRACES. Raises NetreproError for another, or where UNIBS-2009 is asked for and absent."""
    if which not in TRACES:
        raise NetreproError(f"no trace {which!r}", nearest(which, TRACES))
    if which != "standin":
        try:
            find_unibs()
            return Trace("UNIBS-2009", load_unibs, published=True)
        except NetreproError:
            if which == "unibs":
                raise
    return Trace("the stand-in", load_standin, published=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small problems: threads that wait for each other cost more than they bring, on a busy machine a hundredfold."""
    torch = importlib.import_module("torch") if neural_models() else None
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def one_thread_each(step: Callable[..., Value], work: Sequence[tuple], progress: Progress = iter) -> list[Value]:
    """`in_parallel` within `one_thread`, which of OpenMP's threads knows only those of the thread that calls it."""

    def alone(*each: Any) -> Value:
        with threadpool_limits(1, user_api="openmp"):
            return step(*each)

    return in_parallel(alone, work, progress=progress)


def neural_models() -> tuple[str, ...]:
    """The neural models that this installation has: all or, without PyTorch, none."""
    return NEURAL if importlib.util.find_spec("torch") else ()


def derived_seed(*parts: int) -> int:
    """A seed of its own for each repetition."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0] % 2**31)


# Training and testing.


@dataclass(frozen=True)
class Rows:
    """Flows to train and to test on: features (normalised as the training rows teach), labels, whole-flow totals."""

    features: pd.DataFrame
    labels: NDArray[Any]
    split: Split
    totals: pd.DataFrame

    def only(self, columns: Sequence[str]) -> Rows:
        return replace(self, features=self.features[list(columns)])

    def relabelled(self, labels: NDArray[Any]) -> Rows:
        return replace(self, labels=labels)

    def trained_on(self, training: NDArray[np.int64]) -> Rows:
        return replace(self, split=(training, self.split[1]))


def take(found: LabelledFlows, limit: int | None, seed: int) -> pd.DataFrame:
    """At most so many flows, drawn with the classes' shares kept."""
    flows = found.flows
    if limit is None or len(flows) <= limit:
        return flows
    kept, _ = random_split(flows["class"], training_share=limit / len(flows), seed=seed, smallest_class=12)
    return flows.iloc[kept].reset_index(drop=True)


def make_rows(
    flows: pd.DataFrame,
    setting: Setting,
    seed: int,
    *,
    split: Split | None = None,
    normalisation: str | None = None,
    columns: Sequence[str] | None = None,
) -> Rows:
    """Split at random (or as given) and normalise. columns : other features than the setting's."""
    labels = flows["class"].to_numpy(str)
    parts = split or random_split(labels, training_share=setting.training_share, seed=seed)
    table = flows[list(columns or feature_sets()[setting.feature_set])].astype(float)
    normaliser = make_normaliser(normalisation or setting.normalisation, seed=seed).fit(table.to_numpy()[parts[0]])
    values = np.asarray(normaliser.transform(table.to_numpy()))
    return Rows(pd.DataFrame(values, columns=table.columns), labels, parts, flow_totals(flows))


def select_features(rows: Rows, setting: Setting) -> pd.DataFrame:
    """The forward search for mixtures on the training rows: place (from 1), feature, score (macro-F1 in 0..1)."""
    training = rows.split[0]
    selector = MixtureFeatureSelector(
        setting.selected_features,
        n_components=3,
        prior=setting.prior,
        cv=setting.folds,
        scored_classes=NAMED_CLASSES,
        reg_covar=setting.regularisation,
        n_jobs=2,
    ).fit(rows.features.to_numpy()[training], rows.labels[training])
    names = rows.features.columns[selector.selected_]
    return pd.DataFrame({"place": range(1, len(names) + 1), "feature": names, "score": selector.scores_})


def own_features(model: str, rows: Rows, setting: Setting, seed: int, *, limit: int) -> list[str]:
    """scikit-learn's forward search for a baseline, on at most `limit` training rows, with CHEAPER fits."""
    training = np.random.default_rng(seed).permutation(rows.split[0])[:limit]
    table = rows.features.iloc[training]
    table = table.loc[:, table.std() > 0]  # naive Bayes divides by the variance
    searcher = CLASSIFIERS[model](seed).set_params(**CHEAPER.get(model, {}))
    wanted = min(setting.selected_features, table.shape[1] - 1)
    selector = SequentialFeatureSelector(
        searcher, n_features_to_select=wanted, scoring=_macro_f1, cv=setting.folds
    ).fit(table.to_numpy(), np.unique(rows.labels[training], return_inverse=True)[1])
    return list(table.columns[selector.get_support()])


def _macro_f1(model: Any, table: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """scikit-learn's "f1_macro" of labels 0, 1, ..., without its checks: a search asks some thousand times."""
    predicted = model.predict(table)
    count = int(max(labels.max(), predicted.max())) + 1
    hits, given, named = (
        np.bincount(each, minlength=count) for each in (labels[labels == predicted], labels, predicted)
    )
    known = given + named > 0
    return float((2 * hits[known] / (given + named)[known]).mean())


def make_model(name: str, setting: Setting, scale: Scale, seed: int) -> Any:
    """The classifier of a name, for rows that are normalised already."""
    if name == "GMM":
        return setting.mixtures(seed)
    if name in NEURAL:
        transformer = name != "MLP"
        return NeuralClassifier(
            "ft-transformer" if transformer else "mlp",
            width=scale.widths[transformer],
            max_epochs=scale.epochs[transformer],
            random_state=seed,
        )
    model = CLASSIFIERS[name](seed)
    # Half of scikit-learn's rounds: all 100 cost twice the time and name no more flows rightly.
    return model.set_params(max_iter=50) if name == "GBT" else model


def train(model: Any, rows: Rows) -> Any:
    """The model, fitted to the training rows."""
    training = rows.split[0]
    return model.fit(rows.features.to_numpy()[training], rows.labels[training])


def predict(model: Any, rows: Rows) -> NDArray[Any]:
    """The classes that a trained model gives the testing rows."""
    return model.predict(rows.features.to_numpy()[rows.split[1]])


def score(rows: Rows, predicted: NDArray[Any], **label: Any) -> pd.DataFrame:
    """`score_table` of the testing rows, with the label's columns."""
    testing = rows.split[1]
    return score_table(rows.labels[testing], predicted, rows.totals.iloc[testing]).assign(**label)


# The measurement.


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
        """`select_features` of rows that the key tells from all others; made once."""
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
        """One score, a value a repetition."""
        table = self.scores
        rows = table[
            (table["case"] == case) & (table["model"] == model) & (table["first_packets"] == first_packets)
            & (table["unit"] == unit) & (table["scope"] == scope) & (table["measure"] == measure)
        ]  # fmt: skip
        return rows.sort_values("repetition")["value"].to_numpy(float)


def audit_relabelled(
    found: LabelledFlows, relabel: Callable[[NDArray[Any]], NDArray[Any]], first_packets: int = BEST_PACKETS
) -> JoinAudit:
    """The audit of the same join with `relabel` of its labels."""
    flows = found.join.flows
    has_label = flows["class"].notna().to_numpy()
    changed = flows.copy()
    changed.loc[has_label, "class"] = relabel(flows["class"].to_numpy(object)[has_label])
    return audit_join(replace(found.join, flows=changed), trace=found.trace, first_packets=first_packets)


def shuffled(found: LabelledFlows, seed: int) -> JoinAudit:
    """The audit of the same join with its labels dealt out anew."""
    return audit_relabelled(found, np.random.default_rng(seed).permutation)


def measure(
    trace: Trace, setting: Setting, scale: Scale, repetitions: int, seed: int, *, progress: Progress = iter
) -> Runs:
    """Sweep, cases, normalisations, verification and, where PyTorch is installed, neural models."""
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
    """The rows of a repetition."""
    flows = take(runs.trace.at(packets, **metering), runs.scale.flows, seed)
    return make_rows(flows, runs.setting, seed)


def dealt_out(rows: Rows, seed: int) -> Rows:
    """The rows with their labels dealt out anew."""
    return rows.relabelled(np.random.default_rng(seed).permutation(rows.labels))


def _search_ahead(runs: Runs, packets: int, seed: int) -> None:
    """Make the searches that several steps use."""
    rows = rows_at(runs, packets, seed)
    runs.search(rows, packets, seed, "right labels")
    if packets in _with_control(runs):
        runs.search(dealt_out(rows, seed), packets, seed, "shuffled labels")


def _with_control(runs: Runs) -> tuple[int, int]:
    """The numbers of first packets at which the mixtures also learn shuffled labels."""
    return min(runs.scale.first_packets), BEST_PACKETS


def _sweep(runs: Runs, packets: int, seed: int, is_first: bool) -> dict[str, pd.DataFrame]:
    """The models at a number of first packets (Fig. 3, Table 3), and the control."""
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
    """The neural models, on the mixtures' features and a part of the training rows."""
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
    """The mixtures under other splits, other features, fewer flows, and without the handshake among the first three."""
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
    """The workstation of each flow: its end that the log knows as one that was watched."""
    watched = set(found.ground_truth.records["source_address"])
    return np.where(flows["source_address"].isin(watched), flows["source_address"], flows["destination_address"])


def normalisation_grid(
    flows: pd.DataFrame, setting: Setting, seed: int, others: Sequence[str] = ("NB", "DT")
) -> pd.DataFrame:
    """Mixtures by normalisation, prior and regularisation, and beside them other classifiers, on all features."""
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
    """The model, fitted; None where a covariance is singular."""
    try:
        return train(model, rows)
    except NetreproError:
        return None


def _normalise(runs: Runs, packets: int, seed: int, _: bool) -> dict[str, pd.DataFrame]:
    flows = take(runs.trace.at(packets), runs.scale.flows, seed)
    return {"normalisations": normalisation_grid(flows, runs.setting, seed)}


def verification(flows: pd.DataFrame, setting: Setting, seed: int, *, shuffle: bool = False) -> pd.DataFrame:
    """The likelihood test: half of the flows train, a quarter sets thresholds, a quarter is judged."""
    rows = make_rows(flows, setting, seed, split=random_split(flows["class"], training_share=0.5, seed=seed))
    if shuffle:
        rows = rows.relabelled(np.random.default_rng(seed).permutation(rows.labels))
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


# The class report's analyses.


@dataclass(frozen=True)
class Analysis:
    """What the class report looked at, on one split at nine packets.

    anova : feature, normalisation, f (between over within the classes). correlation : features by classes, -1..1.
    distributions : class, feature, normalisation, value. maps : map ("t-SNE", "PCA"), x, y, class.
    importance : feature, model, how ("gradient", "permutation"), value (share of the model's largest).
    """

    anova: pd.DataFrame
    correlation: pd.DataFrame
    distributions: pd.DataFrame
    maps: pd.DataFrame
    importance: pd.DataFrame


def analyse(runs: Runs, seed: int, *, points: int = 700, progress: Progress = iter) -> Analysis:
    """Everything of Analysis; `points` flows are mapped."""
    setting, seed = runs.setting, derived_seed(seed, 0)
    flows = take(runs.trace.at(), runs.scale.flows, seed)
    by_name = {name: make_rows(flows, setting, seed, normalisation=name) for name in NORMALISATIONS}
    rows = by_name[setting.normalisation]
    anova = pd.concat(
        [
            pd.DataFrame({"feature": each.features.columns, "f": _anova(each), "normalisation": name})
            for name, each in by_name.items()
        ]
    )
    best = anova[anova["normalisation"] == setting.normalisation].nlargest(6, "f")["feature"]
    shown = [
        each.only(best).features.assign(**{"class": each.labels, "normalisation": name})
        for name, each in by_name.items()
        if name in ("raw", setting.normalisation)
    ]
    steps = [lambda: _maps(rows, points, seed), lambda: _importance(runs, seed)]
    with one_thread():
        maps, importance = one_thread_each(lambda step: step(), [(step,) for step in steps], progress)
    return Analysis(
        anova,
        _correlation(rows),
        pd.concat(shown).melt(["class", "normalisation"], var_name="feature"),
        maps,
        importance,
    )


def _anova(rows: Rows) -> NDArray[np.float64]:
    changing = rows.features.to_numpy().std(axis=0) > 0
    found = np.zeros(len(changing))
    found[changing] = f_classif(rows.features.to_numpy()[:, changing], rows.labels)[0]
    return np.nan_to_num(found, posinf=0.0)


def _correlation(rows: Rows) -> pd.DataFrame:
    """Pearson's correlation of each feature with belonging to each class; 0 where a feature never changes."""
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


def _importance(runs: Runs, seed: int) -> pd.DataFrame:
    """How much each selected feature matters: by gradients (neural models) and by shuffling it (all models)."""
    found = []
    for name in ("GMM", "RF", *(name for name in NEURAL if name in runs.fitted)):
        model, used = runs.fitted[name]
        table, testing = used.features.to_numpy(), used.split[1][:600]
        values = {
            "permutation": permutation_importance(
                model, table[testing], used.labels[testing], scoring="f1_macro", n_repeats=3, random_state=seed
            ).importances_mean
        }
        if name in NEURAL:
            values["gradient"] = model.input_gradients(table[testing])
        for how, value in values.items():
            share = value / max(np.abs(value).max(), 1e-12)
            found.append(pd.DataFrame({"feature": used.features.columns, "model": name, "how": how, "value": share}))
    return pd.concat(found, ignore_index=True)


# A capture of one's own.


@dataclass(frozen=True)
class OwnCapture:
    """What the mixtures and packet inspection make of a capture.

    flows : columns of `meter`, and inspected (class by nDPI, missing where it knows nothing), application (nDPI's
    name), predicted (class by the mixtures of `trained_on`), certainty (posterior, 0..1). report : of the meter.
    trained_on : in words. cross_validated : accuracy in 0..1 of mixtures trained and tested within the capture, on
    nDPI's classes; missing where they are too few.
    """

    path: str
    flows: pd.DataFrame
    report: pd.DataFrame
    trained_on: str
    cross_validated: float

    @property
    def confusion(self) -> pd.DataFrame:
        """Flows by nDPI's class (rows; UNKNOWN where it has none) and the mixtures' (columns)."""
        names = [*CLASSES, "UNKNOWN"]
        counted = pd.crosstab(self.flows["inspected"].fillna("UNKNOWN"), self.flows["predicted"])
        return counted.reindex(index=names, columns=list(CLASSES), fill_value=0).rename_axis(index="by inspection")

    @property
    def text(self) -> str:
        """What was found, in words."""
        if not self.path:
            return f"No capture was given. Classify yours: netrepro run {SLUG} -p capture=/path/to/file.pcap"
        known = self.flows.dropna(subset=["inspected"])
        agreeing = (known["inspected"] == known["predicted"]).mean() if len(known) else np.nan
        silent = self.flows[self.flows["inspected"].isna()]
        guesses = ", ".join(f"{count} {name}" for name, count in silent["predicted"].value_counts().items())
        words = [
            f"{Path(self.path).name}: {len(self.flows)} TCP flows with a handshake and data.",
            f"nDPI names {len(known)} of them; mixtures trained on {self.trained_on} agree with {agreeing:.0%}."
            if len(known)
            else "nDPI names none of them.",
            f"For the {len(silent)} that it does not know they say {guesses}." if len(silent) else "",
            f"Trained and tested within the capture, mixtures agree with nDPI in {self.cross_validated:.0%}."
            if np.isfinite(self.cross_validated)
            else "To train within the capture takes ten flows of each of two classes that nDPI names.",
        ]
        return " ".join(word for word in words if word)


NO_CAPTURE = OwnCapture(
    "", pd.DataFrame({"inspected": [], "predicted": [], "application": []}), pd.DataFrame(), "", np.nan
)


def check_capture(path: str) -> str:
    """The path, once it is known to be empty or a capture. Raises NetreproError else."""
    if path:
        CaptureFile(path)
    return path


def classify_capture(
    path: str,
    trace: Trace | None = None,
    setting: Setting | None = None,
    *,
    limit: int = 3000,
    seed: int = 1,
    progress: Progress = iter,
) -> OwnCapture:
    """Classify the flows of a capture by mixtures trained on a trace, beside packet inspection by nfstream.

    trace : None for the one at hand. limit : of the trace's flows, and of the capture's in its cross-validation.
    An empty path gives an empty answer. Raises NetreproError where the file is no capture or has no TCP flow that
    opens and carries data.
    """
    if not path:
        return NO_CAPTURE
    trace, setting = trace or open_trace(), setting or Setting()
    metered = meter(path, first_packets=BEST_PACKETS)
    flows = _whole_tcp_flows(Path(path).name, metered)
    steps: tuple[Callable[[], Any], ...] = (
        lambda: _inspected(path, flows),
        lambda: _posterior(flows, take(trace.at(), limit, seed), setting, seed),
    )
    inspected, (names, posterior) = (step() for step in progress(steps))
    with one_thread():
        within = _cross_validate(inspected, setting, limit, seed)
    named = flows.assign(
        inspected=inspected["class"].astype(object).where(inspected["class"].notna(), None),
        application=inspected["application"].to_numpy(object),
        predicted=names[posterior.argmax(axis=1)],
        certainty=posterior.max(axis=1),
    )
    return OwnCapture(path, named, metered.report, trace.name, within)


def _whole_tcp_flows(name: str, metered: MeterResult) -> pd.DataFrame:
    """The TCP flows that open and carry data. Raises NetreproError, with what else there is, where there is none."""
    packets = int(metered.report.loc["packets", "count"])
    if not packets:
        raise NetreproError(f"{name} has no packet", "capture while a connection is opened")
    is_tcp = metered.flows["protocol"] == 6
    flows = metered.flows[metered.flows["valid"] & is_tcp].reset_index(drop=True)
    if flows.empty:
        raise NetreproError(
            f"{name} has no TCP flow with a handshake, then data; it has {packets} packets, {int(is_tcp.sum())} other "
            f"TCP flows and {int((metered.flows['protocol'] == 17).sum())} UDP flows (QUIC is UDP)",
            "capture while a connection is opened; browsers can be told to leave QUIC",
        )
    return flows


def _inspected(path: str, flows: pd.DataFrame) -> pd.DataFrame:
    """The flows with class and application as nDPI has them, None where it knows nothing."""
    records = inspect_capture(path)
    if records.empty:
        return flows.assign(**{"class": None, "application": None})
    return join_labels(flows, records, clock_offset_s=0.0, scan_s=0.0, before_s=5.0, after_s=5.0).flows


def _posterior(
    flows: pd.DataFrame, trace: pd.DataFrame, setting: Setting, seed: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Classes, and the probability of each for each flow by mixtures trained on all of the trace's flows."""
    both = pd.concat([trace, flows], ignore_index=True).assign(**{"class": [*trace["class"], *["OTHERS"] * len(flows)]})
    split = np.arange(len(trace)), np.arange(len(trace), len(both))
    with one_thread():
        rows = make_rows(both, setting, seed, split=split)
        chosen = rows.only(select_features(rows, setting)["feature"])
        model = train(setting.mixtures(seed), chosen)
        return model.classes_, model.predict_proba(chosen.features.to_numpy()[split[1]])


def _cross_validate(flows: pd.DataFrame, setting: Setting, limit: int, seed: int) -> float:
    """Accuracy of mixtures in three folds of `limit` flows whose class has ten; missing where there is but one such."""
    known = flows[flows["class"].notna()]
    known = known.sample(min(limit, len(known)), random_state=seed)
    counts = known["class"].value_counts()
    known = known[known["class"].isin(counts[counts >= 10].index)]
    if known["class"].nunique() < 2:
        return float("nan")
    right = []
    folds = np.random.default_rng(seed).permutation(len(known)) % 3
    for fold in range(3):
        split = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        rows = make_rows(known, setting, seed, split=split)
        right.append(predict(train(setting.mixtures(seed), rows), rows) == rows.labels[split[1]])
    return float(np.concatenate(right).mean())


# Claims.


def published_macro_f1(claims: Any = None) -> tuple[float, float]:
    """Mean of the four published F1, and the mean weighted by the class report's test flows (both in %)."""
    claims = claims or load_claims(SLUG)
    each = {name: 100 * claims.claim(f"flow-f1-{name.lower()}").published for name in NAMED_CLASSES}
    support = {"MAILS": 1006, "P2P": 4187, "SKYPE": 205, "WEB": 8989}
    weighted = sum(each[name] * support[name] for name in each) / sum(support.values())
    return float(np.mean(list(each.values()))), weighted


def measured_claims(runs: Runs) -> list[Measured]:
    """One measurement a claim; those on the paper's own numbers only where the trace is the paper's."""
    trust: dict[str, Any] = {"trusted": runs.audit.passed, "why": runs.audit.why}
    mean, weighted = published_macro_f1()
    found = [Measured(claim="macro-f1-is-over-four-classes", values=[mean], control=[weighted], exact=True)]
    effects = {
        "normalisation-rescues-mixtures": (_rescue(runs, "GMM"), _rescue(runs, "DT")),
        "nine-packets-beat-three": (
            _order(runs, {"9 packets": ("random split", 9), "3 packets": ("random split", 3)}),
            _order(runs, {"9 packets": ("shuffled labels", 9), "3 packets": ("shuffled labels", 3)}),
        ),
        "selection-beats-chance": (
            _order(runs, {"selected": ("random split", 9), "at random": ("random features", 9)}),
            _order(runs, {"selected": ("selected for shuffled labels", 9), "at random": ("random features", 9)}),
        ),
        "few-flows-suffice": (
            runs.values("few flows") / runs.values(),
            runs.values("two flows a class") / runs.values(),
        ),
    }
    published = _published(runs) if runs.trace.published else {}
    found += [
        Measured(claim=claim, values=list(ours), control=list(broken), **trust)
        for claim, (ours, broken) in (effects | published).items()
    ]
    return found


def _published(runs: Runs) -> dict[str, tuple[Any, Any]]:
    """The paper's numbers: ours, and with shuffled labels."""
    asked: dict[str, dict[str, Any]] = {}
    for unit in ("flow", "packet", "byte"):
        asked[f"{unit}-accuracy"] = {"unit": unit}
        asked[f"{unit}-macro-f1"] = {"unit": unit, "scope": "named", "measure": "macro_f1"}
    asked |= {f"flow-f1-{name.lower()}": {"scope": name, "measure": "f1"} for name in NAMED_CLASSES}
    found: dict[str, tuple[Any, Any]] = {
        claim: (runs.values(**each), runs.values("shuffled labels", **each)) for claim, each in asked.items()
    }
    few = runs.values("few flows")
    found["accuracy-from-few-flows"] = few, runs.values("two flows a class")
    found["verification-error"] = half_total_error(runs), half_total_error(runs, case="shuffled labels")
    ranked = pd.DataFrame({name: runs.values(model=name) for name in MODELS})
    best = [["GMM", "baselines"] if row["GMM"] >= row.drop("GMM").max() else ["baselines", "GMM"]
            for _, row in ranked.iterrows()]  # fmt: skip
    control = runs.values("shuffled labels")
    rest = ranked.drop(columns="GMM").max(axis=1)
    found["mixtures-beat-baselines"] = (
        best,
        [
            ["GMM", "baselines"] if ours > theirs else ["baselines", "GMM"]
            for ours, theirs in zip(control, rest, strict=True)
        ],
    )
    return found


def half_total_error(
    runs: Runs, first_packets: int = VERIFIED_PACKETS, case: str = "right labels"
) -> NDArray[np.float64]:
    """Mean over the named classes of the half total error rate (0..1), a value a repetition."""
    table = runs.verification
    kept = (table["first_packets"] == first_packets) & (table["case"] == case) & table["class"].isin(NAMED_CLASSES)
    return table[kept].groupby("repetition")["half_total_error"].mean().to_numpy(float)


def _rescue(runs: Runs, model: str) -> NDArray[np.float64]:
    """Macro-F1 with the setting's normalisation over that of raw features, both at the same regularisation, MLE."""
    table = runs.normalisations[runs.normalisations["model"] == model]
    if model == "GMM":
        table = table[(table["prior"] == "mle") & (table["regularisation"] == 1e-2)]
    wide = table.pivot(index="repetition", columns="normalisation", values="macro_f1")
    return (wide["log"] / wide["raw"]).to_numpy(float)


LEAD = 0.02  # of macro-F1; a lesser lead is no order


def _order(runs: Runs, cases: dict[str, tuple[str, int]]) -> list[list[str]]:
    """The two cases a repetition, the first named first where its macro-F1 leads by LEAD."""
    first, second = cases
    ours, theirs = (
        runs.values(case, first_packets=packets, scope="named", measure="macro_f1") for case, packets in cases.values()
    )
    return [[first, second] if a >= b + LEAD else [second, first] for a, b in zip(ours, theirs, strict=True)]


def answer(runs: Runs, own: OwnCapture = NO_CAPTURE) -> str:
    """The paper's question answered in one sentence, with this run's numbers; then what was found in a capture."""
    found = (
        f"On {runs.trace.name}, mixtures over {runs.setting.selected_features} features of the first nine packets name "
        f"{runs.values().mean():.1%} of the flows rightly"
    )
    f1 = runs.values(scope="named", measure="macro_f1").mean()
    packets, sizes = (runs.values(unit=unit).mean() for unit in ("packet", "byte"))
    others = f"(macro-F1 {f1:.2f}, packets {packets:.1%}, bytes {sizes:.1%})"
    words = f"{found} {others}; the paper names 97.7 % on UNIBS-2009."
    return f"{words} {own.text}" if own.path else words


def table3(runs: Runs) -> pd.DataFrame:
    """Table 3 at nine packets: a row a model, accuracy and macro-F1 (over four and five classes) in %."""
    rows = {}
    asked: dict[str, dict[str, Any]] = {
        f"{unit} {words}": {"unit": unit, "scope": scope, "measure": measure}
        for unit in ("flow", "packet", "byte")
        for words, scope, measure in (
            ("accuracy", "all", "accuracy"),
            ("F1 of four", "named", "macro_f1"),
            ("F1 of five", "all", "macro_f1"),
        )
    }
    for name in (*MODELS, *NEURAL):
        if len(runs.values(model=name)):
            rows[name] = {column: 100 * runs.values(model=name, **each).mean() for column, each in asked.items()}
    claims = load_claims(SLUG)
    for words, attribute in (("paper's mixtures", "published"), ("class report's mixtures", "class_report")):
        rows[words] = {
            f"{unit} {column}": 100 * getattr(claims.claim(f"{unit}-{claim}"), attribute)
            for unit in ("flow", "packet", "byte")
            for column, claim in (("accuracy", "accuracy"), ("F1 of four", "macro-f1"))
        }
    return pd.DataFrame(rows).T.rename_axis("model")[list(asked)]


def by_class(runs: Runs) -> pd.DataFrame:
    """Mixtures at nine packets: precision, recall, F1 in %, testing flows, beside the published F1."""
    total = runs.confusions.groupby(["true", "predicted"])["flows"].sum().unstack().reindex(CLASSES)[list(CLASSES)]
    table = class_scores(total).mul({"precision": 100, "recall": 100, "f1": 100, "support": 1})
    claims = load_claims(SLUG)
    for words, attribute in (("paper's f1", "published"), ("class report's f1", "class_report")):
        named = {name: 100 * getattr(claims.claim(f"flow-f1-{name.lower()}"), attribute) for name in NAMED_CLASSES}
        table[words] = pd.Series(named)
    return table.assign(support=table["support"].astype(int))


def cases_table(runs: Runs) -> pd.DataFrame:
    """Mixtures in every case: mean accuracy and macro-F1 (four classes) in %, and their least and largest accuracy."""
    table = runs.scores[(runs.scores["model"] == "GMM") & (runs.scores["unit"] == "flow")]
    main = (table["first_packets"] == BEST_PACKETS) | (table["case"] == "three packets after the handshake")
    table = table[main]
    accuracy = 100 * table[table["measure"] == "accuracy"].groupby("case", sort=False)["value"].agg(
        ["mean", "min", "max"]
    )
    named = table[(table["measure"] == "macro_f1") & (table["scope"] == "named")]
    accuracy.columns = ["accuracy", "least", "largest"]
    return accuracy.assign(**{"F1 of four": 100 * named.groupby("case", sort=False)["value"].mean()})


def audits(runs: Runs) -> pd.DataFrame:
    """Every check, with the labels as joined and with the same labels dealt out anew."""
    table = runs.audit.table()[["meaning", "by_design", "needed", "value", "passed"]]
    broken = runs.audit_shuffled.table()[["value", "passed"]].add_suffix(" (shuffled)")
    return table.join(broken)


# Figures.


def draw_idea() -> Figure:
    """Packets, numbers, mixtures, class."""
    figure, axis = new_figure("A flow's first packets, some numbers, one mixture a class", "", "")
    axis.axis("off")
    sizes = [52, 52, 40, 420, 40, 1500, 1500, 40, 700]
    for i, size in enumerate(sizes):
        forward = i in (0, 2, 3, 7)
        axis.bar(
            0.25 * i, (1 if forward else -1) * (0.12 + size / 1800), 0.16, color="#0072B2" if forward else "#E69F00"
        )
    axis.axhline(0, xmax=0.36, color="black", linewidth=0.8)
    axis.text(1.0, 1.25, "first nine packets", ha="center")
    axis.text(1.0, -1.35, "up: from the opener\ndown: from the other end", ha="center", fontsize=8)
    axis.annotate("", (3.0, 0), (2.35, 0), arrowprops={"arrowstyle": "->"})
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "#0072B2"}
    words = "59 numbers:\nlengths, gaps,\ncounts, flags\n\na search keeps\nthe best 10"
    axis.text(3.6, 0, words, ha="center", va="center", bbox=box, fontsize=9)
    axis.annotate("", (4.9, 0), (4.3, 0), arrowprops={"arrowstyle": "->"})
    x = np.linspace(5.0, 7.2, 200)
    for place, name in enumerate(NAMED_CLASSES):
        centre = 5.4 + 0.45 * place
        y = np.exp(-(((x - centre) / 0.18) ** 2)) + 0.5 * np.exp(-(((x - centre - 0.3) / 0.1) ** 2))
        axis.plot(x, y - 0.5, color=scheme(name).colour, label=name)
    axis.text(6.1, 1.0, "the likeliest mixture wins", ha="center")
    axis.legend(loc="lower right", ncols=2, fontsize=8)
    axis.set(xlim=(-0.3, 7.4), ylim=(-1.7, 1.5))
    return figure


def draw_sweep(runs: Runs) -> Figure:
    """Accuracy over the number of first packets, seven models (Fig. 3), and the mixtures' macro-F1."""
    figure, axes = new_figure("More packets, better names (Fig. 3)", "first packets of a flow", "", columns=2)
    table = runs.scores[(runs.scores["case"] == "random split") & (runs.scores["unit"] == "flow")]
    for axis, scope, measure, label in (
        (axes[0], "all", "accuracy", "flows named rightly (%)"),
        (axes[1], "named", "macro_f1", "macro-F1 over four classes (%)"),
    ):
        kept = table[(table["scope"] == scope) & (table["measure"] == measure)]
        for name in MODELS:
            mean = 100 * kept[kept["model"] == name].groupby("first_packets")["value"].mean()
            look = scheme(name)
            width = 2.4 if name == "GMM" else 1.3
            axis.plot(mean.index, mean, color=look.colour, marker=look.marker, lw=width, label=look.label)
        axis.set_ylabel(label)
    claims = load_claims(SLUG)
    for axis, claim in ((axes[0], "flow-accuracy"), (axes[1], "flow-macro-f1")):
        published = 100 * claims.claim(claim).published
        axis.plot([BEST_PACKETS], [published], "D", color=PUBLISHED_GREY, ms=9, label="paper, UNIBS-2009")
    axes[1].legend(fontsize=8, loc="lower right")
    return figure


def draw_table3(runs: Runs) -> Figure:
    """Flow, packet and byte accuracy and macro-F1 at nine packets (Table 3), ours, the paper's, the class report's."""
    figure, axes = new_figure("At nine packets (Table 3)", "", "%", columns=2)
    table = table3(runs)
    units, width = ("flow", "packet", "byte"), 0.8 / len(table)
    colours = {"paper's mixtures": PUBLISHED_GREY, "class report's mixtures": "#d0d0d0"}
    for axis, column in zip(axes, ("accuracy", "F1 of four"), strict=True):
        for place, name in enumerate(table.index):
            known = str(name) in colours
            look = {"color": colours[str(name)], "label": name} if known else {
                "color": scheme(str(name)).colour, "label": scheme(str(name)).label}  # fmt: skip
            heights = [table.loc[name, f"{unit} {column}"] for unit in units]
            axis.bar(np.arange(3) + width * (place - len(table) / 2), heights, width, **look)
        axis.set_xticks(range(3), units)
        axis.set_title({"accuracy": "accuracy", "F1 of four": "macro-F1 over four classes"}[column], fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.set_size_inches(13, 4)
    return figure


def draw_matrix(
    axis: Axes,
    table: pd.DataFrame,
    *,
    words: str = "{:.0f}",
    shade: pd.DataFrame | None = None,
    missing: str = "no fit",
) -> None:
    """A table as shaded cells with their values written in, `missing` where there is none; shade in 0..1, by rows where
    None.
    """
    values = table.to_numpy(float)
    tone = shade.to_numpy(float) if shade is not None else values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)
    axis.imshow(tone, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = words.format(value) if np.isfinite(value) else missing
        axis.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if tone[i, j] > 0.6 else "black")
    axis.set_xticks(range(len(table.columns)), [str(name) for name in table.columns])
    axis.set_yticks(range(len(table)), [str(name) for name in table.index])
    axis.grid(False)


def draw_confusion(runs: Runs) -> Figure:
    """Where the mixtures put each class's flows, all repetitions together."""
    figure, axis = new_figure("Mixtures at nine packets, all repetitions", "named by the mixtures", "true class")
    total = runs.confusions.groupby(["true", "predicted"])["flows"].sum().unstack().reindex(CLASSES)[list(CLASSES)]
    draw_matrix(axis, total)
    return figure


def draw_cases(runs: Runs) -> Figure:
    """Other splits, other features, fewer flows: accuracy and macro-F1 of the mixtures."""
    figure, axis = new_figure("The same mixtures under other conditions", "%", "")
    table = cases_table(runs).iloc[::-1]
    places = np.arange(len(table))
    axis.barh(places + 0.2, table["accuracy"], 0.38, color=scheme("GMM").colour, label="accuracy")
    axis.barh(places - 0.2, table["F1 of four"], 0.38, color="#56B4E9", label="macro-F1 over four classes")
    axis.set_yticks(places, [f"{name} (control)" if "shuffled" in str(name) else str(name) for name in table.index])
    axis.set_xlim(0, 100)
    axis.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2)
    return figure


def draw_verification(runs: Runs) -> Figure:
    """Half total error rate of the likelihood test over first packets, by class."""
    title, axis_name = "Is this flow what it claims to be?", "half total error rate (%)"
    figure, axis = new_figure(title, "first packets of a flow", axis_name)
    table = runs.verification[runs.verification["case"] == "right labels"]
    for name in CLASSES:
        mean = 100 * table[table["class"] == name].groupby("first_packets")["half_total_error"].mean()
        axis.plot(mean.index, mean, color=scheme(name).colour, marker=scheme(name).marker, label=name, lw=1.2)
    packets = sorted(set(table["first_packets"]))
    means = [100 * half_total_error(runs, each).mean() for each in packets]
    axis.plot(packets, means, color="black", lw=2.4, label="mean of the four named")
    axis.plot([VERIFIED_PACKETS], [7.65], "D", color=PUBLISHED_GREY, ms=9, label="paper, UNIBS-2009")
    axis.plot([VERIFIED_PACKETS], [100 * half_total_error(runs, case="shuffled labels").mean()], "x",
              color=scheme("control").colour, ms=9, label="shuffled labels")  # fmt: skip
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    return figure


def draw_normalisations(runs: Runs) -> Figure:
    """Macro-F1 by normalisation, for mixtures by prior and regularisation, naive Bayes and a tree."""
    table = runs.normalisations.fillna({"regularisation": 0})
    means = (
        table.groupby(["model", "prior", "regularisation", "normalisation"], sort=False)["macro_f1"].mean().unstack()
    )
    means = 100 * means[list(NORMALISATIONS)]
    means.index = pd.Index(
        [
            f"{scheme(model).label}" + (f", {prior.upper()}, {value:g}" if prior else "")
            for model, prior, value in means.index
        ]
    )
    figure, axis = new_figure("Macro-F1 over four classes (%), all 59 features", "normalisation", "")
    draw_matrix(axis, means, shade=means.fillna(0) / 100)
    axis.set_ylabel("model, prior, regularisation")
    return figure


def draw_distributions(found: Analysis, setting: Setting) -> Figure:
    """The six features of the largest F, by class, raw and normalised."""
    table = found.distributions
    features = list(dict.fromkeys(table["feature"]))
    figure, _ = new_figure("The six features that separate the classes most", "", "", columns=2)
    figure.set_size_inches(13, 4.6)
    for axis, name in zip(figure.axes, ("raw", setting.normalisation), strict=True):
        kept = table[table["normalisation"] == name]
        for place, label in enumerate(CLASSES):
            values = [kept[(kept["feature"] == f) & (kept["class"] == label)]["value"].to_numpy() for f in features]
            axis.boxplot(
                values,
                positions=np.arange(len(features)) + 0.15 * (place - 2),
                widths=0.12,
                patch_artist=True,
                flierprops={"marker": ".", "markersize": 1, "markeredgecolor": scheme(label).colour},
                medianprops={"color": "white"},
                boxprops={"facecolor": scheme(label).colour, "edgecolor": scheme(label).colour},
                whiskerprops={"color": scheme(label).colour},
                capprops={"color": scheme(label).colour},
                label=label,
            )
        axis.set_xticks(range(len(features)), features, rotation=15)
        axis.set_title(f"{name}: {NORMALISATIONS[name]}", fontsize=10)
    if setting.normalisation != "raw":
        figure.axes[0].set_yscale("symlog")
        figure.axes[0].set_ylim(bottom=-1.5)
    figure.axes[0].set_ylabel("bytes, packets or µs")
    figure.axes[1].set_ylabel("standard deviations")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def draw_anova(found: Analysis, setting: Setting) -> Figure:
    """ANOVA's F of the twenty best features, raw and normalised, and the correlation of each with each class."""
    figure, axes = new_figure("Which feature knows something of the class?", "", "", columns=2)
    figure.set_size_inches(13, 6)
    wide = found.anova.pivot(index="feature", columns="normalisation", values="f")
    best = wide.nlargest(20, setting.normalisation).iloc[::-1]
    places = np.arange(len(best))
    axes[0].barh(places + 0.2, best[setting.normalisation], 0.38, color="#0072B2", label=setting.normalisation)
    axes[0].barh(places - 0.2, best["raw"], 0.38, color="#E69F00", label="raw")
    axes[0].set_yticks(places, best.index, fontsize=8)
    axes[0].set_xlabel("F: variance between classes over variance within")
    axes[0].set_xscale("symlog")
    axes[0].legend(loc="lower right")
    kept = found.correlation.loc[best.index[::-1]]
    image = axes[1].imshow(kept, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes[1].set_xticks(range(len(kept.columns)), kept.columns)
    axes[1].set_yticks(range(len(kept)), kept.index, fontsize=8)
    axes[1].grid(False)
    figure.colorbar(image, ax=axes[1], label="correlation with belonging to the class")
    return figure


def draw_maps(found: Analysis) -> Figure:
    """t-SNE and PCA of the normalised features."""
    figure, axes = new_figure("Flows on a map, normalised features", "", "", columns=2)
    for axis, name in zip(axes, ("t-SNE", "PCA"), strict=True):
        kept = found.maps[found.maps["map"] == name]
        for label in CLASSES:
            points = kept[kept["class"] == label]
            axis.scatter(points["x"], points["y"], s=8, color=scheme(label).colour, label=label, alpha=0.7, lw=0)
        axis.set(title=name, xticks=[], yticks=[])
    axes[1].legend(markerscale=2, fontsize=8)
    axes[0].set_xlabel("distances between clusters mean nothing here")
    axes[1].set_xlabel("first principal component")
    axes[1].set_ylabel("second")
    return figure


def draw_importance(found: Analysis) -> Figure:
    """Gradients beside permutation, for the selected features."""
    wide = found.importance.assign(key=found.importance["model"] + ", " + found.importance["how"])
    wide = wide.pivot(index="feature", columns="key", values="value")
    wide = wide.loc[wide.mean(axis=1).sort_values(ascending=False).index]
    figure, axis = new_figure("What the models look at (share of each one's largest)", "", "")
    figure.set_size_inches(8.5, 4.6)
    # A model may have searched features of its own.
    draw_matrix(axis, wide, words="{:.2f}", shade=wide.fillna(0).clip(0, 1), missing="")
    axis.set_xticks(range(len(wide.columns)), [name.replace(", ", "\n") for name in wide.columns], fontsize=8)
    return figure


def draw_selection(runs: Runs) -> Figure:
    """Cross-validated macro-F1 as features are added, by first packets."""
    figure, axis = new_figure("The forward search", "features chosen", "macro-F1 over four classes (%)")
    colours = ("#D55E00", "#E69F00", "#009E73", "#56B4E9", "#0072B2", "#CC79A7", "#7f3c8d", "#000000")
    for colour, (packets, rows) in zip(colours, runs.selections.groupby("first_packets"), strict=False):
        mean = 100 * rows.groupby("place")["score"].mean()
        axis.plot(mean.index, mean, "o-", color=colour, label=f"{packets} packets")
    axis.legend(fontsize=8, ncols=2)
    return figure


def draw_own(own: OwnCapture) -> dict[str, Figure]:
    """The confusion of inspection and mixtures on a capture of one's own; nothing where none was given."""
    if not own.path:
        return {}
    figure, axis = new_figure("Your capture", "named by the mixtures", "by inspection (nDPI)")
    draw_matrix(axis, own.confusion)
    return {"own_capture": figure}


def own_tables(own: OwnCapture) -> pd.DataFrame:
    """Applications as nDPI names them, and what the mixtures call their flows."""
    if not own.path:
        return pd.DataFrame(columns=list(CLASSES))
    counted = pd.crosstab(own.flows["application"].fillna("not known to nDPI"), own.flows["predicted"])
    return counted.reindex(columns=list(CLASSES), fill_value=0)


def explore(runs: Runs, seed: int) -> Any:
    """Mixtures at a number of packets, by number of features, behind sliders."""
    import ipywidgets as widgets
    from IPython.display import display

    def show(packets: int, features: int, normalisation: str) -> None:
        setting = replace(runs.setting, selected_features=features, normalisation=normalisation)
        flows = take(runs.trace.at(packets), 1500, seed)
        with one_thread():
            rows = make_rows(flows, setting, seed)
            rows = rows.only(select_features(rows, setting)["feature"])
            predicted = predict(train(setting.mixtures(seed), rows), rows)
        figure, axis = new_figure(", ".join(rows.features.columns), "named by the mixtures", "true class")
        axis.title.set_fontsize(8)
        draw_matrix(axis, confusion(rows.labels[rows.split[1]], predicted))
        display(figure)

    return widgets.interactive(
        show,
        packets=widgets.IntSlider(BEST_PACKETS, 3, 10, continuous_update=False),
        features=widgets.IntSlider(4, 1, 12, continuous_update=False),
        normalisation=widgets.Dropdown(options=list(NORMALISATIONS), value=runs.setting.normalisation),
    )
