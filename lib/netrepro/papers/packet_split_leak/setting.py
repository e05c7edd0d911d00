"""The parameters: what a model sees, what it is, and the sizes that a profile sets."""

from __future__ import annotations

from dataclasses import dataclass

from netrepro.papers.packet_split_leak.headers import AS_CAPTURED, KEPT_PACKETS
from netrepro.study.setting import parameter

SLUG = "packet_split_leak"
ENCODER, FOREST = "encoder", "forest"
RIGHT, DEALT = "right", "dealt out anew"


@dataclass(frozen=True)
class Setting:
    """The case that a run measures, and the sizes that a profile sets.

    flows_per_application : at most, drawn from the labelled day. epochs : of each training with labels;
    pretraining_epochs and pretraining_packets (at most) : without labels, on the other day. headers : one of
    `headers.TREATMENTS`. model : ENCODER or FOREST. labels : RIGHT, or DEALT out anew among flows. width : of the
    encoder's hidden layer; representation : numbers that it makes of a header. trees : of a forest.
    """

    packets_per_flow: int = parameter(KEPT_PACKETS, "the first of each flow", "packets", low=2, high=KEPT_PACKETS)
    corrupted_share: float = parameter(0.15, "of a header's bytes, which pre-training hides", low=0, below=1)
    flows_per_application: int = 50
    epochs: int = 12
    pretraining_epochs: int = 3
    headers: str = AS_CAPTURED
    model: str = ENCODER
    labels: str = RIGHT
    width: int = 128
    representation: int = 64
    trees: int = 40
    pretraining_packets: int = 4000
