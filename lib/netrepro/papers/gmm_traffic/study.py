"""The study: cases, claims, tables, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from netrepro.papers.gmm_traffic import figures
from netrepro.papers.gmm_traffic.measuring import RIGHT, SHUFFLED, measure_all, shuffled
from netrepro.papers.gmm_traffic.own_capture import NO_CAPTURE, OwnCapture
from netrepro.papers.gmm_traffic.setting import (
    BEST_PACKETS,
    LARGE_NETWORKS,
    MODELS,
    SLUG,
    VERIFIED_PACKETS,
    Setting,
    derived_seed,
    neural_models,
    open_trace,
)
from netrepro.study import Evidence, Play, Runs, Scale, Study, ratio, swept
from netrepro.traffic import NAMED_CLASSES, NORMALISATIONS

LEAD = 0.02  # in macro-F1; a smaller lead gives no order
PACKETS = swept(*range(3, 11))
OTHERS = tuple(name for name in figures.CONDITIONS_AT_NINE if name not in (RIGHT, figures.NO_HANDSHAKE))
CASES: dict[str, dict[str, Any]] = {
    RIGHT: {},
    "first packets": {"first_packets": PACKETS},
    f"first packets, {SHUFFLED}": {"condition": SHUFFLED, "first_packets": swept(3, BEST_PACKETS)},
    "baselines": {"condition": "baselines"},
    "baselines, first packets": {"condition": "baselines", "first_packets": PACKETS},
    **{name: {"condition": name} for name in OTHERS},
    figures.NO_HANDSHAKE: {"first_packets": 3, "handshake": False},
    "neural models": {"condition": "neural models"},
    "normalisations": {"condition": "normalisations"},
    "verification": {"condition": "verification", "first_packets": swept(3, VERIFIED_PACKETS, BEST_PACKETS)},
    f"verification, {SHUFFLED}": {"condition": f"verification, {SHUFFLED}", "first_packets": VERIFIED_PACKETS},
}


def cannot(setting: Setting, tier: str) -> str:
    """Return why a condition cannot be measured; "" where it can."""
    return "" if setting.condition != "neural models" or neural_models() else "PyTorch is not installed"


def _is_published(setting: Setting) -> bool:
    return open_trace(setting.which_trace).published


def _order(first: str, second: str) -> Any:
    """Make the function that orders two scores. `first` comes first if it leads by LEAD."""
    return lambda ours, theirs: [first, second] if ours >= theirs + LEAD else [second, first]


def _nine_and_three(macro_f1: pd.Series) -> list[str]:
    return _order("9 packets", "3 packets")(macro_f1[BEST_PACKETS], macro_f1[3])


def _best(mixtures: pd.Series, baselines: pd.Series) -> list[str]:
    leads = mixtures["accuracy_GMM"] >= baselines.drop("accuracy_GMM").max()
    return ["GMM", "baselines"] if leads else ["baselines", "GMM"]


def _at_six(error: pd.Series | float) -> float:
    return float(error[VERIFIED_PACKETS] if isinstance(error, pd.Series) else error)


def _claims() -> Mapping[str, Evidence]:
    selected, accuracies = _order("selected", "at random"), tuple(f"accuracy_{name}" for name in MODELS)
    scores = [f"{unit}_{score}" for unit in ("flow", "packet", "byte") for score in ("accuracy", "macro_f1")]
    scores += [f"flow_f1_{name.lower()}" for name in NAMED_CLASSES]
    published = {
        name.replace("_", "-"): Evidence(name, RIGHT, control=SHUFFLED, where=_is_published) for name in scores
    }
    return {
        "normalisation-rescues-mixtures": Evidence(
            "gain_of_mixtures", "normalisations", control=Evidence("gain_of_a_tree", "normalisations")
        ),
        "nine-packets-beat-three": Evidence(
            "flow_macro_f1", "first packets", control=f"first packets, {SHUFFLED}", how=_nine_and_three
        ),
        "selection-beats-chance": Evidence(
            "flow_macro_f1",
            (RIGHT, "random features"),
            control=("selected for shuffled labels", "random features"),
            how=selected,
        ),
        "few-flows-suffice": Evidence(
            "flow_accuracy", ("few flows", RIGHT), control=("two flows a class", RIGHT), how=ratio
        ),
        **published,
        "accuracy-from-few-flows": Evidence(
            "flow_accuracy", "few flows", control="two flows a class", where=_is_published
        ),
        "verification-error": Evidence(
            "half_total_error", "verification", control=f"verification, {SHUFFLED}", how=_at_six, where=_is_published
        ),
        "mixtures-beat-baselines": Evidence(
            accuracies, (RIGHT, "baselines"), control=(SHUFFLED, "baselines"), how=_best, where=_is_published
        ),
    }


def audits(setting: Setting, seed: int) -> pd.DataFrame:
    """Return every check of the labels, as joined and shuffled."""
    labelled = open_trace(setting.which_trace).at()
    table = labelled.audit.table()[["meaning", "by_design", "needed", "value", "passed"]]
    return table.join(shuffled(labelled, seed).table()[["value", "passed"]].add_suffix(" (shuffled)"))


def answer(runs: Runs, own: OwnCapture = NO_CAPTURE) -> str:
    """Answer the paper's question in one sentence, with this run's numbers; add the findings on the reader's own
    capture."""
    means = runs.summary().xs(BEST_PACKETS, level="first_packets").loc[RIGHT]
    trace, features = open_trace(runs.setting.which_trace), runs.setting.selected_features
    compared = "the paper names 97.7 % on UNIBS-2009."
    if not trace.published:
        compared = "on traffic of our own making this neither confirms nor denies the paper's 97.7 % on UNIBS-2009."
    words = (
        f"On {trace.name}, mixtures over {features} features of the first nine packets name {means.flow_accuracy:.1%} "
        f"of the flows rightly (macro-F1 {means.flow_macro_f1:.2f}, packets {means.packet_accuracy:.1%}, bytes "
        f"{means.byte_accuracy:.1%}); {compared}"
    )
    return f"{words} {own.text}" if own.path else words


ONCE = {"neural models": 1}
SWEPT_ONCE = ONCE | {"baselines, first packets": 1}
STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases=CASES,
    measure_all=measure_all,
    cannot=cannot,
    seeds=derived_seed,
    answer=answer,
    repetitions=3,
    scales={
        "quick": Scale(only={"first_packets": (3, 4, VERIFIED_PACKETS, BEST_PACKETS)}, fewer=SWEPT_ONCE),
        "paper": Scale(changes={"flows": None, "search_rows": 1000, **LARGE_NETWORKS}, fewer=ONCE),
        "test": Scale(
            repetitions=2,
            changes={"flows": 700, "epochs": (3, 1), "widths": (8, 8), "neural_rows": 120},
            only={"first_packets": (3, VERIFIED_PACKETS, BEST_PACKETS)},
            fewer=SWEPT_ONCE,
        ),
    },
    claims=_claims(),
    figures={
        "fig3_first_packets": figures.draw_first_packets,
        "table3_models": figures.draw_table3,
        "confusion": figures.draw_confusion,
        "verification": figures.draw_verification,
        "cases": figures.draw_cases,
        "normalisations": figures.draw_normalisations,
        "forward_search": figures.draw_forward_search,
    },
    best=("fig3_first_packets", "table3_models", "verification", "cases", "normalisations"),
    play=Play(
        (RIGHT,),
        {"first_packets": (3, 10, 1), "selected_features": (1, 12, 1), "normalisation": list(NORMALISATIONS)},
        figures.draw_run,
    ),
)
