"""A small encoder of packet headers: pre-trained without labels, then frozen or trained further. Needs PyTorch.

As the authors' Pcap-Encoder in its first phase, it learns to restore headers of which some bytes are hidden; as theirs,
its classifier is one hidden layer and one score for each class. It is a multilayer perceptron on bits in place of a
T5 on hexadecimal words.

All random draws come from generators of the caller's seed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from netrepro.traffic.neural import Optimiser

BATCH_ROWS = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
ROWS_AT_ONCE = 8192


def make_encoder(inputs: int, width: int, representation: int, seed: int) -> nn.Sequential:
    """Make an encoder with weights drawn from a seed."""
    return _layers(inputs, width, representation, seed=seed)


def pretrain(
    encoder: nn.Sequential, bits: NDArray[np.float32], *, corrupted_share: float, epochs: int, seed: int
) -> nn.Sequential:
    """Train a copy of an encoder to restore headers, and return it in place of the given one.

    bits : -1 and 1, shape (n, inputs). corrupted_share : of the bytes of each header, whose bits are shown as 0. The
    loss is the cross entropy of every bit.
    """
    random = _generator(seed)
    encoder = copy.deepcopy(encoder)
    width, representation, inputs = _outputs(encoder[0]), _outputs(encoder[-1]), bits.shape[1]
    whole = nn.Sequential(encoder, nn.ReLU(), _layers(representation, width, inputs, seed=seed + 1))
    optimiser, rows = Optimiser(whole, LEARNING_RATE, WEIGHT_DECAY), torch.from_numpy(bits)
    for batch in _batches(len(rows), epochs, random):
        shown = rows[batch]
        kept = torch.rand(len(batch), inputs // 8, generator=random) >= corrupted_share
        restored = whole(shown * kept.repeat_interleave(8, dim=1))
        optimiser.step(functional.binary_cross_entropy_with_logits(restored, (shown + 1) / 2))
    return encoder


def represent(encoder: nn.Module, bits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the representation of headers, shape (n, representation)."""
    with torch.no_grad():
        return torch.cat([encoder(rows) for rows in torch.from_numpy(bits).split(ROWS_AT_ONCE)]).numpy()


def classify(
    encoder: nn.Sequential,
    training: tuple[NDArray[np.float32], NDArray[np.int64]],
    testing: NDArray[np.float32],
    *,
    frozen: bool,
    epochs: int,
    seed: int,
) -> NDArray[np.int64]:
    """Train a classifier on an encoder and name the classes of the testing headers.

    training : bits and numbers of classes. frozen : whether only the classifier learns, or a copy of the encoder with
    it.
    """
    bits, labels = training
    random, classes = _generator(seed), int(labels.max()) + 1
    size = _outputs(encoder[-1])
    head = _layers(size, size, classes, seed=seed + 1)
    if frozen:
        bits, testing = represent(encoder, bits), represent(encoder, testing)
        centre, spread = bits.mean(axis=0), bits.std(axis=0) + 1e-6
        bits, testing = (bits - centre) / spread, (testing - centre) / spread
        network: nn.Module = head
    else:
        network = nn.Sequential(copy.deepcopy(encoder), head)
    optimiser, rows, wanted = (
        Optimiser(network, LEARNING_RATE, WEIGHT_DECAY),
        torch.from_numpy(bits),
        torch.from_numpy(labels),
    )
    for batch in _batches(len(rows), epochs, random):
        optimiser.step(functional.cross_entropy(network(rows[batch]), wanted[batch]))
    return represent(network, testing).argmax(axis=1)


def _batches(rows: int, epochs: int, random: torch.Generator) -> Iterator[Tensor]:
    for _ in range(epochs):
        yield from torch.randperm(rows, generator=random).split(BATCH_ROWS)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _outputs(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear)
    return layer.out_features


def _layers(inputs: int, width: int, outputs: int, *, seed: int) -> nn.Sequential:
    """Make two linear layers with ReLU between them. Weights and biases are drawn as PyTorch does it, but from a
    generator of their own."""
    random = _generator(seed)
    layers = [skip_init(nn.Linear, *sizes) for sizes in ((inputs, width), (width, outputs))]
    with torch.no_grad():
        for layer in layers:
            bound = layer.in_features**-0.5
            layer.weight.uniform_(-bound, bound, generator=random)
            layer.bias.uniform_(-bound, bound, generator=random)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])
