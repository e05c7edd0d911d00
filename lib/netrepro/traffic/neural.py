"""The networks of NeuralClassifier and their training. Only this module needs PyTorch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.adamw import adamw

Part = tuple[NDArray[np.float32], NDArray[np.int64]]
ROWS_AT_ONCE = 4096
PACKET_NUMBERS = 3  # length, gap and direction
_one_draws = threading.Lock()  # one thread at a time: PyTorch's random generator is global


class MultiLayerPerceptron(nn.Sequential):
    """A network of hidden layers with ReLU and dropout, and one output score for each class."""

    def __init__(self, features: int, classes: int, *, width: int, depth: int, dropout: float, **_: Any):
        layers: list[nn.Module] = []
        for i in range(depth):
            layers += [nn.Linear(width if i else features, width), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers, nn.Linear(width, classes))


class FeatureTokenTransformer(nn.Module):
    """The FT-Transformer: each feature x becomes a token (x times a vector, plus a vector); an extra token collects the
    result.

    Blocks normalise before attention and before the feed-forward layer, as in the paper; GELU replaces its ReGLU.
    """

    def __init__(self, features: int, classes: int, *, width: int, depth: int, n_heads: int, dropout: float):
        super().__init__()
        bound = width**-0.5
        self.scale = nn.Parameter(torch.empty(features, width).uniform_(-bound, bound))
        self.shift = nn.Parameter(torch.empty(features, width).uniform_(-bound, bound))
        self.answer = nn.Parameter(torch.empty(width).uniform_(-bound, bound))
        block = nn.TransformerEncoderLayer(
            width, n_heads, 2 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, rows: Tensor) -> Tensor:
        """Compute the scores, shape (rows, classes). rows : shape (rows, features)."""
        tokens = rows[:, :, None] * self.scale + self.shift
        answers = self.answer.expand(len(rows), 1, -1)
        return self.head(self.blocks(torch.cat([answers, tokens], dim=1))[:, 0])


class PacketGru(nn.Module):
    """A recurrent network over packets: gated recurrent units (Cho et al., EMNLP 2014), and one output score for each
    class from their last state. The features are three numbers of each packet, packet after packet."""

    def __init__(self, features: int, classes: int, *, width: int, depth: int, dropout: float, **_: Any):
        super().__init__()
        self.units = nn.GRU(PACKET_NUMBERS, width, depth, batch_first=True, dropout=dropout if depth > 1 else 0.0)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Compute the scores, shape (rows, classes). rows : shape (rows, features), three numbers a packet."""
        states, _ = self.units(rows.reshape(len(rows), -1, PACKET_NUMBERS))
        return self.head(states[:, -1])


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MultiLayerPerceptron,
    "ft-transformer": FeatureTokenTransformer,
    "gru": PacketGru,
}


class Optimiser:
    """PyTorch's AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019), with equal results.

    PyTorch's AdamW class imports PyTorch's compiler, which takes three seconds of processor time; its function, which
    is used here, does not.
    """

    def __init__(self, network: nn.Module, learning_rate: float, weight_decay: float):
        self.parameters: list[Tensor] = list(network.parameters())
        self.settings: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay}
        self.settings |= {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}
        self.means, self.squares = ([torch.zeros_like(each) for each in self.parameters] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in self.parameters]

    def step(self, loss: Tensor) -> None:
        """Change the network's parameters by one step that lowers the loss."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        with torch.no_grad():
            adamw(
                self.parameters, gradients, self.means, self.squares, [], self.steps, foreach=False, **self.settings
            )  # fmt: skip


def train(
    settings: Any, training: Part, validation: Part, classes: int, progress: Callable[[int, int], None] | None
) -> tuple[nn.Module, list[tuple[float, float]], int]:
    """Train a network with the settings of a NeuralClassifier.

    Returns the network of least validation loss, the (training, validation) losses of all epochs, and the network's
    epoch (from 1).
    """
    # The random draws here (first weights, dropout, order of rows) do not change PyTorch's global state.
    with _one_draws, torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(settings.random_state)
        network = NETWORKS[settings.architecture](
            training[0].shape[1],
            classes,
            width=settings.width,
            depth=settings.depth,
            n_heads=settings.n_heads,
            dropout=settings.dropout,
        )
        return _train(network, settings, training, validation, classes, progress)


def _train(
    network: nn.Module,
    settings: Any,
    training: Part,
    validation: Part,
    classes: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[nn.Module, list[tuple[float, float]], int]:
    rows, labels = (torch.from_numpy(np.ascontiguousarray(part)) for part in training)
    counts = torch.bincount(labels, minlength=classes).double()
    # After balanced training, the validation loss is balanced, too.
    balance = (1 / counts.clamp(min=1)).float() if settings.oversampling else torch.ones(classes)
    optimiser = Optimiser(network, settings.learning_rate, settings.weight_decay)
    best, best_loss, best_epoch = copy.deepcopy(network.state_dict()), float("inf"), 0
    losses: list[tuple[float, float]] = []
    for epoch in range(1, settings.max_epochs + 1):
        network.train()
        total = 0.0
        order = _rows_of_an_epoch(labels, counts) if settings.oversampling else torch.randperm(len(labels))
        for batch in order.split(settings.batch_rows):
            loss = functional.cross_entropy(network(rows[batch]), labels[batch])
            optimiser.step(loss)
            total += loss.item() * len(batch)
        validation_loss = _loss(network, validation, balance)
        losses.append((total / len(order), validation_loss))
        if validation_loss < best_loss:
            best, best_loss, best_epoch = copy.deepcopy(network.state_dict()), validation_loss, epoch
        if progress:
            progress(epoch, settings.max_epochs)
        if epoch - best_epoch >= settings.patience:
            break
    network.load_state_dict(best)
    network.eval()
    return network, losses, best_epoch


def _rows_of_an_epoch(labels: Tensor, counts: Tensor) -> Tensor:
    """Draw the rows of one epoch, in random order: as many of each class as the largest class has.

    A smaller class contributes each of its rows once, and random repeats.
    """
    largest = int(counts.max())
    rows = []
    for label in range(len(counts)):
        of_class = torch.nonzero(labels == label)[:, 0]
        if len(of_class):
            again = torch.randint(len(of_class), (largest - len(of_class),))
            rows += [of_class, of_class[again]]
    drawn = torch.cat(rows)
    return drawn[torch.randperm(len(drawn))]


def _loss(network: nn.Module, part: Part, balance: Tensor) -> float:
    labels = torch.from_numpy(part[1])
    scores = _scores(network, part[0])
    return float(functional.cross_entropy(scores, labels, weight=balance))


def _scores(network: nn.Module, rows: NDArray[np.float32]) -> Tensor:
    network.eval()
    with torch.no_grad():
        return torch.cat([network(batch) for batch in torch.from_numpy(np.array(rows)).split(ROWS_AT_ONCE)])


def probabilities(network: nn.Module, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the softmax of the scores, shape (n, classes)."""
    return torch.softmax(_scores(network, rows).double(), dim=1).numpy()


def mean_input_gradients(network: nn.Module, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the mean over the rows of |d score of the predicted class / d feature|, shape (features,)."""
    network.eval()
    total = np.zeros(rows.shape[1])
    for batch in torch.from_numpy(np.array(rows)).split(ROWS_AT_ONCE):
        inputs = batch.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(network(inputs).max(dim=1).values.sum(), inputs)
        total += gradient.abs().sum(dim=0).double().numpy()
    return total / len(rows)
