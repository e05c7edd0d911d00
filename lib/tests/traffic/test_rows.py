"""Rows on which models train: drawn, split, normalised; and the features that classifiers search on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB

from netrepro.traffic import (
    BASELINES,
    CLASSES,
    Rows,
    draw_flows,
    feature_selection,
    feature_sets,
    load_standin,
    make_rows,
    of_large_classes,
    random_split,
    score_table,
    search_features,
)
from netrepro.traffic.feature_selection import _macro_f1

COLUMNS = feature_sets()["netmate59"]


@pytest.fixture(scope="module")
def trace() -> pd.DataFrame:
    return load_standin(first_packets=9).flows


def few_rows(trace: pd.DataFrame, count: int) -> Rows:
    flows = draw_flows(trace, count, seed=2, smallest_class=12)
    return make_rows(flows, COLUMNS, random_split(flows["class"], training_share=0.7, seed=2))


def test_the_normaliser_learns_from_training_rows_only(trace):
    flows = draw_flows(trace, 500, seed=1, smallest_class=12)
    split = np.arange(300), np.arange(300, len(flows))
    changed = flows.copy()
    changed.loc[300:, "total_bvolume"] *= 1000
    rows, other = (make_rows(each, COLUMNS, split) for each in (flows, changed))
    pd.testing.assert_frame_equal(rows.features.iloc[:300], other.features.iloc[:300])
    assert not rows.features.iloc[300:].equals(other.features.iloc[300:])


def test_fewer_flows_keep_the_shares_of_the_classes(trace):
    kept = draw_flows(trace, 1000, seed=1, smallest_class=12)
    shares = [table["class"].value_counts(normalize=True) for table in (trace, kept)]
    assert len(kept) == pytest.approx(1000, abs=15)
    assert (shares[0] - shares[1]).abs().max() < 0.01
    assert draw_flows(trace, None, seed=1, smallest_class=12) is trace


def test_flows_of_small_classes_are_left_out():
    flows = pd.DataFrame({"class": [*["WEB"] * 5, *["P2P"] * 3, "SKYPE"]})
    assert list(of_large_classes(flows, 3)["class"].value_counts()) == [5, 3]
    assert list(of_large_classes(flows, 4).index) == [0, 1, 2, 3, 4]


def test_a_model_sees_training_rows_and_names_testing_rows(trace):
    rows = few_rows(trace, 300)
    known = pd.Series(rows.labels[rows.split[0]]).mode()[0]
    predicted = rows.train_and_predict(DummyClassifier(strategy="most_frequent"))
    assert set(predicted) == {known} and len(predicted) == len(rows.split[1]) == len(rows.tested_labels)
    scores = rows.score(predicted, model="dummy")
    accuracy = scores.query("unit == 'flow' and scope == 'all' and measure == 'accuracy'")["value"].item()
    assert accuracy == pytest.approx((rows.tested_labels == known).mean())
    expected = score_table(rows.tested_labels, predicted, rows.totals.iloc[rows.split[1]])
    pd.testing.assert_frame_equal(scores.drop(columns="model"), expected)


def test_other_labels_features_and_training_rows_leave_the_rest_as_it_is(trace):
    rows = few_rows(trace, 300)
    fewer = rows.trained_on(rows.split[0][:10]).only(["fpl4"]).relabelled(rows.labels[::-1])
    assert list(fewer.features) == ["fpl4"] and fewer.features["fpl4"].equals(rows.features["fpl4"])
    assert len(fewer.split[0]) == 10 and np.array_equal(fewer.split[1], rows.split[1])
    assert np.array_equal(fewer.labels[::-1], rows.labels)


def test_the_searchs_score_is_scikit_learns():
    random = np.random.default_rng(3)
    table, labels = random.normal(size=(90, 3)), random.integers(0, len(CLASSES), 90)
    for seen in (5, 3):  # classes that the model knows; the rest it never names
        kept = labels < seen
        model = GaussianNB().fit(table[kept], labels[kept])
        expected = f1_score(labels, model.predict(table), average="macro", zero_division=0)
        assert _macro_f1(model, table, labels) == pytest.approx(expected)


class Recorder:
    """Stands for a model or a search, and keeps the table that it is fitted to."""

    def __init__(self, *_: object, **__: object):
        Recorder.last = self

    def fit(self, table: np.ndarray, labels: np.ndarray) -> Recorder:
        self.table, self.labels = table, labels
        return self

    def get_support(self) -> np.ndarray:
        return np.ones(self.table.shape[1], bool)


def test_neither_training_nor_a_search_sees_a_row_that_is_tested(trace, monkeypatch):
    rows = few_rows(trace, 150)
    numbered = rows.features[[COLUMNS[0]]].assign(row=np.arange(len(rows.labels), dtype=float))
    rows = replace(rows, features=numbered)
    training, testing = map(set, rows.split)
    trained = rows.train(Recorder())
    assert set(trained.table[:, 1]) == training and not training & testing
    assert list(trained.labels) == list(rows.labels[trained.table[:, 1].astype(int)])
    monkeypatch.setattr(feature_selection, "SequentialFeatureSelector", Recorder)
    for limit in (60, 10_000):
        search_features("DT", rows, 1, folds=3, limit=limit, seed=2)
        searched = Recorder.last.table[:, -1].astype(int)
        assert len(searched) == min(limit, len(training)) and set(searched) <= training


@pytest.mark.parametrize("model", BASELINES)
def test_every_baseline_searches_features_of_its_own(trace, model):
    offered = [COLUMNS[0], "fpl4", "bpl3"]
    rows = few_rows(trace, 150).only(offered)
    chosen = search_features(model, rows, 2, folds=3, limit=105, seed=2)
    assert len(set(chosen)) == 2 and set(chosen) <= set(offered)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_search_for_naive_bayes_is_scikit_learns(share):
    """A constant class's feature, small classes and features of unlike scale included."""
    random = np.random.default_rng(4)
    labels = random.choice(["a", "b", "c", "d"], 300, p=[0.6, 0.3, 0.07, 0.03])
    values = random.normal(size=(300, 12)) * np.logspace(-2, 3, 12)
    values += 0.7 * np.logspace(-2, 3, 12) * random.normal(size=(4, 12))[np.unique(labels, return_inverse=True)[1]]
    values[labels == "b", 3] = 1.0
    labels = np.where(random.random(300) < share, random.permutation(labels), labels)
    table = pd.DataFrame(values, columns=[f"f{i}" for i in range(12)])
    rows = Rows(table, labels, (np.arange(300), np.arange(300)), table)
    chosen = search_features("NB", rows, 5, folds=3, limit=240, seed=2)
    training = rows.trained_on_few(240, seed=2).split[0]
    theirs = SequentialFeatureSelector(GaussianNB(), n_features_to_select=5, scoring="f1_macro", cv=3)
    theirs.fit(values[training], labels[training])
    assert chosen == list(table.columns[theirs.get_support()])
