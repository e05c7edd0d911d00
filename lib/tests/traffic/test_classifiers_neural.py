"""The neural classifiers: what they learn, when they stop, and what the seed decides."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from netrepro.errors import NetreproError
from netrepro.traffic import NeuralClassifier, evaluate, random_split

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
neural = pytest.importorskip("netrepro.traffic.neural", reason="PyTorch is not installed")

ARCHITECTURES = ("mlp", "ft-transformer")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of small networks mostly wait for each other, the longer the busier the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quick(architecture: str, **settings: Any) -> NeuralClassifier:
    defaults = {"width": 16, "max_epochs": 40, "learning_rate": 5e-3, "batch_rows": 64}
    return NeuralClassifier(architecture, **(defaults | settings))


def checkerboard(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The class is whether two features have the same sign; two more tell nothing. No line divides it."""
    points = np.random.default_rng(seed).uniform(-2, 2, (rows, 4))
    return points, np.where(points[:, 0] * points[:, 1] > 0, "WEB", "P2P")


def test_each_step_is_that_of_pytorchs_adamw() -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    theirs = copy.deepcopy(ours)
    mine = neural.Optimiser(ours, 0.01, 0.1)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.1)
    for rows in torch.randn(20, 16, 5):
        mine.step(ours(rows).square().mean())
        reference.zero_grad()
        theirs(rows).square().mean().backward()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_makes_no_optimiser_that_imports_pytorchs_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def imports_the_compiler(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", imports_the_compiler)
    quick("mlp", max_epochs=1).fit(*checkerboard(20, seed=1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_network_learns_what_no_line_divides_and_its_gradients_name_the_features(architecture: str) -> None:
    points, labels = checkerboard(700, seed=1)
    training, testing = random_split(labels, training_share=0.7, seed=1)
    network = quick(architecture).fit(points[training], labels[training])
    assert network.score(points[testing], labels[testing]) > 0.9
    gradients = network.input_gradients(points[testing])
    assert gradients.shape == (4,)
    assert gradients[:2].min() > 2 * gradients[2:].max()


def test_a_recurrent_network_learns_an_order_that_no_single_packet_shows() -> None:
    """The class is whether the two long packets go the same way, wherever they stand among six."""
    random = np.random.default_rng(3)
    packets = np.stack([random.normal(size=(900, 6)), random.normal(size=(900, 6)), np.ones((900, 6))], axis=2)
    packets[..., 2] = random.choice([-1.0, 1.0], (900, 6))
    long = random.permuted(np.tile(np.arange(6), (900, 1)), axis=1)[:, :2]
    for i in range(2):
        packets[np.arange(900), long[:, i], 0] = 5.0
    ways = [packets[np.arange(900), long[:, i], 2] for i in range(2)]
    labels = np.where(ways[0] == ways[1], "WEB", "P2P")
    network = quick("gru", max_epochs=60, patience=15, learning_rate=1e-2).fit(
        packets[:700].reshape(700, -1), labels[:700]
    )
    assert network.score(packets[700:].reshape(200, -1), labels[700:]) > 0.9


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_labels_that_mean_nothing_stop_the_training_early_and_the_best_epoch_is_kept(architecture: str) -> None:
    points, labels = checkerboard(200, seed=2)
    shuffled = np.random.default_rng(3).permutation(labels)
    network = quick(architecture, max_epochs=60, patience=4, width=32).fit(points, shuffled)
    assert network.n_iter_ == network.best_epoch_ + 4 < 60
    assert network.losses_["validation"].argmin() + 1 == network.best_epoch_


def test_the_weights_that_are_kept_have_the_least_validation_loss() -> None:
    points, labels = checkerboard(300, seed=4)
    settings = {"oversampling": False, "dropout": 0.0, "patience": 3}
    full = quick("mlp", **settings).fit(points, labels)
    until_best = quick("mlp", **settings, max_epochs=full.best_epoch_).fit(points, labels)
    assert full.best_epoch_ < full.n_iter_
    np.testing.assert_array_equal(full.predict_proba(points), until_best.predict_proba(points))


def test_oversampling_finds_more_of_a_rare_class() -> None:
    random = np.random.default_rng(5)
    labels = np.repeat(["WEB", "SKYPE"], [1200, 40])
    points = random.normal(np.where(labels == "WEB", 0.0, 1.8), 1)[:, None]
    split = random_split(labels, training_share=0.5, seed=1)
    recall = {}
    for on in (False, True):
        table = evaluate(quick("mlp", oversampling=on), points, labels, split).set_index(["scope", "measure"])
        recall[on] = table.loc[("SKYPE", "recall"), "value"]
    assert recall[False] < 0.5 < recall[True]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_seed_alone_decides_and_pytorchs_own_state_stays_as_it_was(architecture: str) -> None:
    points, labels = checkerboard(120, seed=6)
    before = torch.get_rng_state()
    network = quick(architecture, max_epochs=2)
    first = network.fit(points, labels).predict_proba(points)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(7)
    again = clone(network).fit(points, labels).predict_proba(points)
    other = clone(network).set_params(random_state=1).fit(points, labels).predict_proba(points)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    np.testing.assert_allclose(first.sum(axis=1), 1)


def test_networks_trained_at_the_same_time_are_those_trained_one_after_the_other() -> None:
    points, labels = checkerboard(200, seed=11)
    networks = [quick("mlp", max_epochs=8, dropout=0.3, random_state=seed) for seed in range(4)]
    alone = [clone(network).fit(points, labels).predict_proba(points) for network in networks]
    with ThreadPoolExecutor(len(networks)) as pool:
        together = list(pool.map(lambda network: network.fit(points, labels).predict_proba(points), networks))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_input_gradients_are_the_slopes_of_the_predicted_classs_score() -> None:
    points, labels = checkerboard(200, seed=7)
    network = quick("ft-transformer", max_epochs=5).fit(points, labels)
    rows = np.random.default_rng(8).uniform(-1, 1, (20, 4)).astype(np.float32)
    module, step = network.network_.double(), 1e-5

    def scores(table: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(table.astype(float))).numpy()

    predicted = scores(rows).argmax(axis=1)
    slopes = np.empty((20, 4))
    for feature in range(4):
        shift = step * np.eye(4)[feature]
        difference = scores(rows + shift) - scores(rows - shift)
        slopes[:, feature] = difference[np.arange(20), predicted] / (2 * step)
    module.float()
    np.testing.assert_allclose(network.input_gradients(rows), np.abs(slopes).mean(axis=0), rtol=1e-3)


def test_features_in_another_order_with_their_tokens_change_nothing_for_the_transformer() -> None:
    points, labels = checkerboard(150, seed=9)
    network = quick("ft-transformer", max_epochs=3).fit(points, labels)
    before = network.predict_proba(points)
    order = [2, 0, 3, 1]
    with torch.no_grad():
        for parameter in (network.network_.scale, network.network_.shift):
            parameter.copy_(parameter[order].clone())
    np.testing.assert_allclose(network.predict_proba(points[:, order]), before, atol=1e-5)
    assert not np.allclose(network.predict_proba(points), before, atol=1e-3)


def test_progress_is_told_after_each_epoch() -> None:
    points, labels = checkerboard(60, seed=10)
    told: list[tuple[int, int]] = []
    quick("mlp", max_epochs=3, patience=3).fit(points, labels, progress=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"architecture": "mpl"}, "did you mean 'mlp'"),
        ({"max_epochs": 0}, "max_epochs is 0"),
        ({"validation_share": 1.0}, "validation_share is 1.0"),
        ({"architecture": "ft-transformer", "width": 10}, "cannot be divided among 4 heads"),
        ({"architecture": "gru"}, "4 features are no whole packets"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], said: str) -> None:
    points, labels = checkerboard(40, seed=11)
    with pytest.raises(NetreproError, match=said):
        NeuralClassifier(**settings).fit(points, labels)


def test_validation_rows_are_set_apart_before_any_row_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = checkerboard(100, seed=12)
    rare = np.where(np.arange(100) < 10, "SKYPE", labels)
    parts: list[Any] = []
    real = neural.train

    def watched(settings: Any, training: Any, validation: Any, *others: Any) -> Any:
        parts.extend([training, validation])
        return real(settings, training, validation, *others)

    monkeypatch.setattr(neural, "train", watched)
    quick("mlp", max_epochs=1, oversampling=True, validation_share=0.2).fit(points, rare)
    assert [len(labels_of) for _, labels_of in parts] == [80, 20]
    together = np.concatenate([rows for rows, _ in parts])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(points.astype(np.float32), axis=0))
    assert all((labels_of == 1).sum() == share for (_, labels_of), share in zip(parts, (8, 2), strict=True))


def test_the_estimator_keeps_scikit_learns_conventions() -> None:
    estimator = quick("mlp", width=8, max_epochs=20, batch_rows=16, patience=20)
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert {check["check_name"] for check in found if check["status"] == "failed"} == set()
    assert sum(check["status"] == "passed" for check in found) > 40
