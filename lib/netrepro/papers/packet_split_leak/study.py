"""The study: cases, claims, the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from netrepro.papers.packet_split_leak import figures
from netrepro.papers.packet_split_leak.headers import AS_CAPTURED, DRAWN, KEPT_PACKETS, REMOVED, WITHOUT
from netrepro.papers.packet_split_leak.measuring import (
    BY_FLOW,
    BY_PACKET,
    END_TO_END,
    FROZEN,
    TREES,
    measure_all,
    why_no_encoder,
)
from netrepro.papers.packet_split_leak.setting import DEALT, ENCODER, FOREST, SLUG, Setting
from netrepro.study import Evidence, Knob, Play, Runs, Scale, Study, seed_and_repetition, swept

LEAD = 0.1  # a smaller one gives no order; in claims.yaml
SEEN: dict[str, dict[str, Any]] = {
    AS_CAPTURED: {},
    REMOVED: {"headers": REMOVED},
    DRAWN: {"headers": DRAWN},
    figures.DEALT_CASE: {"labels": DEALT},
}
_TREES = {figures.FOREST_CASES.format(name): {**changes, "model": FOREST} for name, changes in SEEN.items()}
FOREST_CASE = figures.FOREST_CASES.format(AS_CAPTURED)


def cannot(setting: Setting, tier: str) -> str:
    """Return why a case cannot be measured; "" where it can."""
    return why_no_encoder() if setting.model == ENCODER else ""


def _order(first: str, second: str) -> Callable[[float, float], list[str]]:
    """Make the function that orders two scores. `first` comes first if it leads by LEAD."""
    return lambda one, other: [first, second] if one >= other + LEAD else [second, first]


_splits = _order(BY_PACKET, BY_FLOW)


def _gains(accuracies: pd.Series) -> list[str]:
    gained = [
        accuracies[f"{END_TO_END}, {split}, accuracy"] - accuracies[f"{FROZEN}, {split}, accuracy"]
        for split in (BY_PACKET, BY_FLOW)
    ]
    return _splits(*gained)


def _flattered(model: str) -> Evidence:
    readings = tuple(f"{model}, {split}" for split in (BY_PACKET, BY_FLOW))
    return Evidence(readings, AS_CAPTURED, control=DRAWN, how=lambda scores: _splits(*scores[list(readings)]))


def _claims() -> dict[str, Evidence]:
    trees, frozen = f"{TREES}, {BY_FLOW}", f"{FROZEN}, {BY_FLOW}"
    shallow = _order("forest on header fields", "frozen representation")
    seen = (AS_CAPTURED, REMOVED)
    carried = _order(*seen)
    four = tuple(f"{model}, {split}, accuracy" for model in (END_TO_END, FROZEN) for split in (BY_PACKET, BY_FLOW))
    return {
        "per-packet-split-flatters-end-to-end-training": _flattered(END_TO_END),
        "identifiers-carry-the-score-of-the-split-by-packet": Evidence(
            f"{END_TO_END}, {BY_PACKET}",
            seen,
            control=Evidence(f"{END_TO_END}, {BY_FLOW}", seen, how=carried),
            how=carried,
        ),
        "shallow-features-beat-the-frozen-representation": Evidence(
            (trees, frozen),
            (FOREST_CASE, AS_CAPTURED),
            control=(figures.FOREST_CASES.format(figures.DEALT_CASE), figures.DEALT_CASE),
            how=lambda forest, encoder: shallow(forest[trees], encoder[frozen]),
        ),
        "per-packet-split-flatters-the-frozen-representation": _flattered(FROZEN),
        "freezing-uncovers-the-shortcut": Evidence(four, AS_CAPTURED, control=REMOVED, how=_gains),
        "accuracy-of-the-split-by-packet": Evidence(four[0], AS_CAPTURED, control=DRAWN),
    }


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    means = figures.summary(runs)
    forest = means.loc[(TREES, AS_CAPTURED)]
    words = f"a forest {forest[BY_FLOW]:.2f} (split by packet: {forest[BY_PACKET]:.2f})"
    if END_TO_END not in means.index.get_level_values("model"):
        return f"Without PyTorch only trees were trained: {words}."
    shown, removed = means.loc[(END_TO_END, AS_CAPTURED)], means.loc[(END_TO_END, REMOVED)]
    return (
        f"Macro-F1 of an encoder trained end to end is {shown[BY_PACKET]:.2f} where packets are split and "
        f"{shown[BY_FLOW]:.2f} where flows are; without identifiers {removed[BY_PACKET]:.2f} and "
        f"{removed[BY_FLOW]:.2f}. Where flows are split, a frozen representation has "
        f"{means.loc[(FROZEN, AS_CAPTURED)][BY_FLOW]:.2f}, {words}."
    )


_KNOB = Scale(changes={"trees": 20})
STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases=SEEN | _TREES,
    measure_all=measure_all,
    cannot=cannot,
    seeds=seed_and_repetition,  # several streams are drawn from it
    answer=answer,
    scales={
        "quick": Scale(repetitions=3),
        "paper": Scale(
            changes={
                "flows_per_application": 200,
                "epochs": 20,  # as the authors train
                "pretraining_epochs": 5,
                "pretraining_packets": 12_000,
                "width": 256,
                "trees": 100,
            }
        ),
        "test": Scale(
            repetitions=2,
            changes={"flows_per_application": 40, "epochs": 4, "pretraining_epochs": 1, "width": 64, "trees": 10},
        ),
    },
    claims=_claims(),
    knobs={
        "identifiers": Knob(
            {FOREST_CASE: {"model": FOREST, "headers": swept(AS_CAPTURED, *WITHOUT, REMOVED)}}, _KNOB, 3
        ),
        "packets": Knob({FOREST_CASE: {"model": FOREST, "packets_per_flow": swept(2, 4, 8, KEPT_PACKETS)}}, _KNOB, 3),
    },
    figures={
        "splits": figures.draw_splits,
        "published": figures.draw_published,
        "control_dealt": figures.draw_dealt,
        "knob_identifiers": figures.draw_identifiers,
        "knob_packets": figures.draw_packets,
    },
    play=Play(
        (FOREST_CASE,),
        {"headers": [AS_CAPTURED, *WITHOUT, REMOVED, DRAWN], "packets_per_flow": (2, KEPT_PACKETS, 1)},
        figures.draw_run,
    ),
)
