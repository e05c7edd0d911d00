"""The classifiers of the comparison on points whose classes are known, and on flows metered from captures."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import unibs_format
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from netrepro.errors import NetreproError
from netrepro.traffic import (
    BASELINES,
    CLASSES,
    LabelledFlows,
    day_split,
    evaluate,
    fit_predict,
    flow_totals,
    load_unibs,
    make_classifier,
    oversample,
    random_split,
    score_table,
    signed_log,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of small models mostly wait for each other, the longer the busier the machine."""
    with threadpool_limits(1):
        yield


def blobs(rows: int, seed: int, distance: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    """One round cloud a class, in the corners of a cross of two features; two more features tell nothing."""
    random = np.random.default_rng(seed)
    place = random.permutation(np.arange(rows) % len(CLASSES))
    centres = distance * np.array([[0, 0, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0]])
    return centres[place] + random.normal(size=(rows, 4)), np.array(CLASSES)[place]


def pick(table: pd.DataFrame, unit: str = "flow", scope: str = "all", measure: str = "accuracy") -> float:
    return table.set_index(["unit", "scope", "measure"]).loc[(unit, scope, measure), "value"]


@pytest.mark.parametrize("name", [*BASELINES, "GMM"])
def test_each_classifier_tells_separate_classes_apart_and_learns_nothing_from_shuffled_labels(name: str) -> None:
    features, labels = blobs(600, seed=1)
    split = random_split(labels, training_share=0.5, seed=1)
    shuffled = np.random.default_rng(2).permutation(labels)
    assert pick(evaluate(name, features, labels, split)) > 0.97
    assert pick(evaluate(name, features, shuffled, split)) < 0.35  # a fifth is chance


@pytest.mark.parametrize("name", ["KNN", "SVM"])
def test_one_feature_in_other_units_ruins_a_distance_unless_features_are_normalised(name: str) -> None:
    features, labels = blobs(400, seed=3)
    features[:, 3] *= 1e6
    split = random_split(labels, training_share=0.5, seed=1)
    scores = {how: pick(evaluate(name, features, labels, split, normalisation=how)) for how in ("raw", "z", "quantile")}
    assert scores["raw"] < 0.6 < 0.8 < scores["quantile"]  # ranks draw the arms of the cross together
    assert scores["z"] > 0.95


def test_the_logarithm_lets_naive_bayes_tell_classes_that_differ_by_decades() -> None:
    random = np.random.default_rng(4)
    labels = np.repeat(["WEB", "P2P"], 500)
    sizes = np.exp(random.normal(np.where(labels == "WEB", 5, 9), 2))[:, None]
    split = random_split(labels, training_share=0.5, seed=1)
    scores = {how: pick(evaluate("NB", sizes, labels, split, normalisation=how)) for how in ("raw", "log")}
    # Two normal distributions whose means are two deviations apart are told apart with probability Phi(1).
    assert scores["log"] == pytest.approx(norm.cdf(1), abs=0.04)
    assert scores["raw"] < scores["log"] - 0.05


@settings(max_examples=60)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20))
def test_the_signed_logarithm_is_odd_increasing_and_0_at_0(values: list[float]) -> None:
    numbers = np.sort(np.array([0.0, *values]))
    logs = signed_log(numbers)
    np.testing.assert_array_equal(signed_log(-numbers), -logs)
    assert (np.diff(logs) >= 0).all()
    assert logs[np.flatnonzero(numbers == 0)[0]] == 0


@pytest.mark.parametrize("how", ["z", "log", "quantile"])
def test_the_normalisation_is_learnt_from_the_training_rows_alone(how: str) -> None:
    features, labels = blobs(300, seed=5)
    training, testing = random_split(labels, training_share=0.5, seed=1)
    wild = features.copy()
    wild[testing[0]] = 1e9
    plain, beside_wild = (
        fit_predict("KNN", table, labels, (training, testing), normalisation=how)[1:] for table in (features, wild)
    )
    np.testing.assert_array_equal(plain, beside_wild)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(CLASSES), min_size=1, max_size=60), st.integers(0, 99))
def test_oversampling_keeps_every_row_and_makes_classes_as_large_as_the_largest(labels: list[str], seed: int) -> None:
    rows = oversample(labels, seed=seed)
    counts = pd.Series(np.array(labels)[rows]).value_counts()
    assert set(counts) == {pd.Series(labels).value_counts().max()}
    assert rows[: len(labels)].tolist() == list(range(len(labels)))


def test_oversampling_finds_more_of_a_rare_class_and_leaves_the_testing_rows_alone() -> None:
    random = np.random.default_rng(6)
    labels = np.repeat(["WEB", "SKYPE"], [2000, 60])
    points = random.normal(np.where(labels == "WEB", 0.0, 1.8), 1)[:, None]
    split = random_split(labels, training_share=0.5, seed=1)
    plain, balanced = (evaluate("NB", points, labels, split, oversampling=on) for on in (False, True))
    assert pick(plain, scope="SKYPE", measure="recall") < 0.5 < pick(balanced, scope="SKYPE", measure="recall")
    assert pick(balanced, scope="SKYPE", measure="support") == 30
    assert set(balanced["testing_rows"]) == {1030}


def test_the_table_of_an_evaluation_is_the_score_of_its_predictions() -> None:
    features, labels = blobs(300, seed=7, distance=2)
    split = random_split(labels, training_share=0.3, seed=1)
    totals = pd.DataFrame({"packet": np.arange(300) + 1, "byte": (np.arange(300) + 40) ** 2})
    table = evaluate("DT", features, labels, split, totals=totals, seed=3)
    predicted = fit_predict("DT", features, labels, split, seed=3)
    expected = score_table(labels[split[1]], predicted, totals.iloc[split[1]])
    pd.testing.assert_frame_equal(table[expected.columns.tolist()], expected)
    assert set(table["model"]) == {"DT"} and set(table["training_rows"]) == {90}
    assert 0.4 < pick(table) < 0.95


def test_an_estimator_is_used_as_it_is_and_left_unfitted() -> None:
    features, labels = blobs(200, seed=8)
    split = random_split(labels, training_share=0.5, seed=1)
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    table = evaluate(tree, features, labels, split)
    assert pick(table) < 0.5 and not hasattr(tree, "tree_")
    assert set(table["model"]) == {"DecisionTreeClassifier"}


def test_the_seed_alone_decides_a_forest() -> None:
    features, labels = blobs(300, seed=9, distance=1.5)
    split = random_split(labels, training_share=0.5, seed=1)
    first, again, other = (fit_predict("RF", features, labels, split, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


def test_wrong_names_and_broken_rows_are_refused() -> None:
    features, labels = blobs(50, seed=1)
    split = random_split(labels, training_share=0.5, seed=1)
    with pytest.raises(NetreproError, match="did you mean 'FT-Transformer'"):
        make_classifier("FT Transformer", seed=0)
    with pytest.raises(NetreproError, match="did you mean 'quantile'"):
        make_classifier("NB", seed=0, normalisation="quantiles")
    with pytest.raises(NetreproError, match="missing or infinite"):
        evaluate("NB", np.where(features > 5, np.nan, features), labels, split)
    with pytest.raises(NetreproError, match="0 testing rows"):
        evaluate("NB", features, labels, (split[0], split[1][:0]))
    with pytest.raises(NetreproError, match="all training rows are WEB"):
        evaluate("SVM", features, np.full(len(features), "WEB"), split)


def test_without_pytorch_a_neural_model_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if there were none
    monkeypatch.delitem(sys.modules, "netrepro.traffic.neural", raising=False)
    features, labels = blobs(50, seed=1)
    with pytest.raises(NetreproError, match="PyTorch is not installed") as error:
        evaluate("MLP", features, labels, random_split(labels, training_share=0.5, seed=1))
    assert "make run NEURAL=1" in error.value.remedy


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> LabelledFlows:
    folder = tmp_path_factory.mktemp("unibs")
    made = unibs_format.connections(count=300)
    unibs_format.write_captures(folder, made)
    unibs_format.write_log(folder / "groundtruth.log", made)
    return load_unibs(folder, first_packets=9)


@pytest.mark.parametrize("name", ["DT", "RF", "GMM"])
def test_flows_of_two_days_teach_the_classes_of_the_third_and_shuffled_labels_do_not(
    trace: LabelledFlows, name: str
) -> None:
    assert trace.audit.passed, trace.audit.why
    features = trace.features()[["mean_bpktl", "total_bvolume", "std_bpktl", "max_fpktl"]]
    labels, totals = trace.flows["class"].to_numpy(str), flow_totals(trace.flows)
    split = day_split(trace.flows["day"], [0, 1])
    model = make_classifier(name, seed=1, normalisation="log")
    model.set_params(**{"classify__reg_covar": 1e-3} if name == "GMM" else {})
    table = evaluate(model, features, labels, split, totals=totals)
    assert all(pick(table, unit) > 0.95 for unit in ("flow", "packet", "byte"))
    shuffled = np.random.default_rng(1).permutation(labels)
    most_frequent = pick(evaluate(DummyClassifier(), features, shuffled, split))
    assert pick(evaluate(model, features, shuffled, split)) < most_frequent + 0.1
