"""Scores against scikit-learn's with sample weights, and against the paper's own arithmetic; splits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

from netrepro.errors import NetreproError
from netrepro.traffic import (
    CLASSES,
    NAMED_CLASSES,
    class_scores,
    confusion,
    day_split,
    flow_totals,
    grouped_splits,
    random_split,
    score_table,
)

LABELLED = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.sampled_from(CLASSES), st.integers(1, 50), st.integers(40, 90_000)),
    min_size=1,
    max_size=60,
)


def columns(rows: list) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    truth, predicted, packets, size_bytes = (np.array(part) for part in zip(*rows, strict=True))
    return truth, predicted, pd.DataFrame({"packet": packets, "byte": size_bytes})


def value(table: pd.DataFrame, unit: str, scope: str, measure: str) -> float:
    return values(table)[unit, scope, measure]


def values(table: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    """By unit, scope and measure; each is there once."""
    by_name = table.set_index(["unit", "scope", "measure"])["value"]
    assert by_name.index.is_unique
    return by_name.to_dict()


@settings(max_examples=60)
@given(LABELLED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_score_is_scikit_learns_with_packets_and_bytes_as_sample_weights(rows: list) -> None:
    truth, predicted, totals = columns(rows)
    found = values(score_table(truth, predicted, totals))
    for unit in ("flow", "packet", "byte"):
        weights = None if unit == "flow" else totals[unit]
        settings_ = {"labels": list(CLASSES), "sample_weight": weights, "zero_division": np.nan}
        expected = precision_recall_fscore_support(truth, predicted, **settings_)
        for place, name in enumerate(CLASSES):
            for measure, of_classes in zip(("precision", "recall", "f1", "support"), expected, strict=True):
                np.testing.assert_allclose(found[unit, name, measure], of_classes[place])
        accuracy = accuracy_score(truth, predicted, sample_weight=weights)
        np.testing.assert_allclose(found[unit, "all", "accuracy"], accuracy)
        for scope, labels in {"named": NAMED_CLASSES, "all": CLASSES}.items():
            macro = f1_score(truth, predicted, average="macro", **(settings_ | {"labels": list(labels)}))
            np.testing.assert_allclose(found[unit, scope, "macro_f1"], macro)
        np.testing.assert_allclose(
            confusion(truth, predicted, weights),
            confusion_matrix(truth, predicted, labels=list(CLASSES), sample_weight=weights),
        )


@settings(max_examples=40)
@given(LABELLED)
def test_weights_all_alike_give_the_scores_of_flows(rows: list) -> None:
    truth, predicted, totals = columns(rows)
    table = score_table(truth, predicted, totals.assign(packet=7, byte=1500))
    flow, packet, byte = (
        table[table["unit"] == unit].set_index(["scope", "measure"])["value"] for unit in table["unit"].unique()
    )
    shares = flow.index.get_level_values("measure") != "support"
    pd.testing.assert_series_equal(flow[shares], packet[shares])
    pd.testing.assert_series_equal(flow * np.where(shares, 1, 1500), byte)


def test_the_published_macro_f1_is_the_mean_over_the_four_named_classes() -> None:
    # Flow F1 at 9 packets: MAILS 92.21, P2P 97.74, WEB 98.51, SKYPE 84.78; macro-F1 93.31. A confusion matrix with
    # F1 = 2 a / (2 a + b): a flows right and b of the class taken for OTHERS, so that OTHERS spoils no named class.
    published = {"MAILS": 0.9221, "P2P": 0.9774, "WEB": 0.9851, "SKYPE": 0.8478}
    truth: list[str] = []
    predicted: list[str] = []
    for name, f1 in published.items():
        right = round(100_000 * f1 / (2 - f1))
        truth += [name] * 100_000
        predicted += [name] * right + ["OTHERS"] * (100_000 - right)
    table = score_table(truth, predicted)
    assert value(table, "flow", "named", "macro_f1") == pytest.approx(0.9331, abs=5e-5)
    assert value(table, "flow", "all", "macro_f1") == pytest.approx(0.9331 * 4 / 5, abs=5e-5)


def test_one_long_flow_that_is_wrong_costs_bytes_and_hardly_a_flow() -> None:
    truth, predicted = ["P2P"] + ["WEB"] * 99, ["WEB"] * 100
    table = score_table(truth, predicted, pd.DataFrame({"packet": [901] + [1] * 99, "byte": [9901] + [1] * 99}))
    assert [value(table, unit, "all", "accuracy") for unit in ("flow", "packet", "byte")] == [0.99, 0.099, 0.0099]


def test_totals_are_those_of_the_whole_flow_in_both_directions() -> None:
    flows = pd.DataFrame({"flow_fpackets": [3], "flow_bpackets": [4], "flow_fbytes": [100], "flow_bbytes": [2000],
                          "total_fpackets": [2], "total_bpackets": [1]})  # fmt: skip
    assert flow_totals(flows).to_dict("list") == {"packet": [7], "byte": [2100]}


def test_a_class_that_neither_is_nor_is_predicted_has_no_f1_and_one_never_found_has_0() -> None:
    scores = class_scores(confusion(["WEB", "P2P"], ["WEB", "WEB"]))
    assert scores.loc["P2P", "f1"] == 0 and np.isnan(scores.loc["P2P", "precision"])
    assert np.isnan(scores.loc["MAILS", "f1"])


def test_labels_and_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NetreproError, match="no class 'web'"):
        confusion(["web"], ["WEB"])
    with pytest.raises(NetreproError, match="2 true"):
        confusion(["WEB", "WEB"], ["WEB"])
    with pytest.raises(NetreproError, match="negative"):
        confusion(["WEB"], ["WEB"], [-1])


CLASS_LISTS = st.lists(st.sampled_from(CLASSES), max_size=80).map(lambda extra: list(CLASSES) * 3 + extra)


@settings(max_examples=60)
@given(CLASS_LISTS, st.floats(0.001, 0.999), st.integers(0, 1000))
def test_a_random_split_uses_each_flow_once_and_keeps_every_class_on_both_sides(
    classes: list[str], share: float, seed: int
) -> None:
    training, testing = random_split(classes, training_share=share, seed=seed)
    assert sorted([*training, *testing]) == list(range(len(classes)))
    labels = np.array(classes)
    for name in CLASSES:
        count = (labels == name).sum()
        trained = (labels[training] == name).sum()
        assert abs(trained - share * count) <= 0.5 or trained in (2, count - 1)
        assert 2 <= trained < count


def test_half_a_percent_of_seventy_thousand_flows_is_about_350_in_the_shares_of_the_classes() -> None:
    counts = {"MAILS": 5030, "P2P": 20_935, "SKYPE": 1025, "WEB": 44_945, "OTHERS": 150}
    classes = np.repeat(list(counts), list(counts.values()))
    training, _ = random_split(classes, training_share=0.005, seed=1)
    assert pd.Series(classes[training]).value_counts().to_dict() == {
        "MAILS": 25, "P2P": 105, "SKYPE": 5, "WEB": 225, "OTHERS": 2,
    }  # fmt: skip


def test_the_seed_alone_decides_a_random_split() -> None:
    classes = list(CLASSES) * 40
    first, again, other = (random_split(classes, training_share=0.3, seed=seed)[0].tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_a_day_split_trains_on_the_named_days_only() -> None:
    training, testing = day_split([0, 1, 2, 0, 1], [0])
    assert training.tolist() == [0, 3] and testing.tolist() == [1, 2, 4]
    with pytest.raises(NetreproError, match="one side empty"):
        day_split([0, 0], [0])
    with pytest.raises(NetreproError, match="one side empty"):
        day_split([0, 1], [5])


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(CLASSES), st.integers(0, 6)), min_size=40, max_size=80), st.integers(0, 99))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_group_is_on_both_sides_of_a_grouped_split(rows: list, seed: int) -> None:
    rows = [*rows, *(("WEB", group) for group in range(3))]
    classes, groups = (np.array(part) for part in zip(*rows, strict=True))
    splits = grouped_splits(classes, groups, folds=3, seed=seed)
    for training, testing in splits:
        assert not set(groups[training]) & set(groups[testing])
    assert sorted(np.concatenate([testing for _, testing in splits])) == list(range(len(rows)))


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(NetreproError, match="SKYPE has 2 flows"):
        random_split(["WEB"] * 9 + ["SKYPE"] * 2, training_share=0.5, seed=0)
    with pytest.raises(NetreproError, match="training_share is 0"):
        random_split(["WEB"] * 9, training_share=0, seed=0)
    with pytest.raises(NetreproError, match="1 groups for 3 folds"):
        grouped_splits(["WEB"] * 9, [1] * 9, folds=3, seed=0)
