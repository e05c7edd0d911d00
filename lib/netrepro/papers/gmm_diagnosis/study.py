"""The study: experiments, claims, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from netrepro.papers.gmm_diagnosis import feature_figures, figures
from netrepro.papers.gmm_diagnosis.measuring import EXPERIMENTS, ONE_SHARE, measure_all
from netrepro.papers.gmm_diagnosis.setting import BALANCED, RIGHT, SLUG, TRANSFORMER, Setting
from netrepro.papers.gmm_traffic.setting import neural_models
from netrepro.papers.gmm_traffic.study import LEAD
from netrepro.study import Evidence, Play, Runs, Scale, Study, seed_and_repetition

NEEDS_PYTORCH = ("neural models", "gradients", "sequences")
CASES = {name: {"experiment": name} for name in ("noise", "fit", "variants", *EXPERIMENTS)}


def cannot(setting: Setting, tier: str) -> str:
    """Return why an experiment cannot be measured; "" where it can."""
    return "" if setting.experiment not in NEEDS_PYTORCH or neural_models() else "PyTorch is not installed"


def _lost(accuracies: Mapping[int, pd.Series]) -> list[float]:
    """Compute for each repetition how much lower the last accuracy is than the first."""
    table = pd.DataFrame(accuracies)
    return list(table.iloc[0] - table.iloc[-1])


def _lost_again(accuracies: Mapping[int, float]) -> list[float]:
    """Compute the difference between each repetition's accuracy and the one before; for the first, the last."""
    right = np.array(list(accuracies.values()))
    return list(right - np.roll(right, 1))


def _starts(first: pd.Series) -> list[str]:
    """Order naive Bayes and the better of the other baselines by accuracy, best first."""
    names = ["naive Bayes", "the better of the others"]
    bayes, others = first
    return names if bayes >= others + LEAD else names[::-1]


def _claims() -> dict[str, Evidence]:
    again = Evidence("with_right_labels_by_mixtures", "variants", how=_lost_again, pooled=True)
    loss = partial(Evidence, cases="variants", control=again, how=_lost, pooled=True)

    def remedies(labels: str, control: Evidence | None = None) -> Evidence:
        return Evidence("remedies", "remedies", control, partial(figures.order_of_remedies, labels=labels))

    def starts(labels: str, control: Evidence | None = None) -> Evidence:
        return Evidence((f"bayes_first_{labels}", f"others_first_{labels}"), "packets", control, _starts)

    def compared(case: str, ours: str, broken: str) -> Evidence:
        return Evidence(ours, case, control=Evidence(broken, case))

    return {
        "method-works-with-right-labels": compared("method", "method_with_right_labels", "method_with_join_by_time"),
        "order-of-remedies-under-noise": remedies("fitted noise", remedies("right labels")),
        "labels-explain-the-loss": loss(("with_right_labels_by_mixtures", "joined_by_time_by_mixtures")),
        "features-explain-the-loss": loss(("with_right_labels_by_mixtures", "worst_metering_by_mixtures")),
        "naive-bayes-accuracy-under-noise": compared(
            "naive bayes", "bayes_accuracy_fitted_noise", "bayes_accuracy_right_labels"
        ),
        "naive-bayes-names-only-web-and-p2p": compared(
            "naive bayes", "bayes_named_fitted_noise", "bayes_named_right_labels"
        ),
        "naive-bayes-does-not-improve-with-packets": compared(
            "packets", "bayes_gain_fitted_noise", "bayes_gain_right_labels"
        ),
        "other-baselines-do-not-improve-with-packets": compared(
            "packets", "others_gain_fitted_noise", "others_gain_right_labels"
        ),
        "naive-bayes-starts-ahead": starts("fitted_noise", starts("right_labels")),
        "small-classes-hardly-correlate": compared(
            "features", "small_classes_fitted_noise", "small_classes_right_labels"
        ),
        "first-packet-of-43-bytes": compared("variants", "first_packet_bytes", "first_packet_bytes_without_handshake"),
        "first-packet-alike-in-every-class": Evidence("longest_over_shortest_first_packet", "variants", exact=True),
        "transformer-accuracy-under-noise": compared("neural models", TRANSFORMER, TRANSFORMER + RIGHT),
        "balanced-transformer-accuracy-under-noise": compared(
            "neural models", TRANSFORMER + BALANCED, TRANSFORMER + BALANCED + RIGHT
        ),
    }


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table, means = figures.variants_of(runs), runs.numbers("variants").mean(numeric_only=True)
    faults = table[table["fault"] == "features"].groupby("variant")["forest_accuracy"].mean()
    fit = runs.numbers("fit").iloc[0]
    return (
        f"Most likely its labels: the report's confusion is that of labels of which {fit.fitted_share:.0%} "
        f"({fit.low:.0%} to {fit.high:.0%}) were drawn anew; a join by time alone leaves {means.joined_by_time:.0%} "
        f"accuracy of {means.with_right_labels:.0%}, the worst mistake in metering ({faults.idxmin()}) "
        f"{faults.min():.0%}. The trace itself would have to confirm it."
    )


_ONCE = {"fit": 1, ONE_SHARE: 1}
_QUICK = _ONCE | {"recovered": 1} | dict.fromkeys(set(EXPERIMENTS) - {ONE_SHARE, "recovered"}, 2)
_QUICK |= {"variants": 2}
STUDY = Study(
    slug=SLUG,
    setting=Setting(),
    cases=CASES,
    measure_all=measure_all,
    cannot=cannot,
    seeds=seed_and_repetition,  # the fit uses the first
    answer=answer,
    repetitions=10,
    scales={
        "quick": Scale(repetitions=3, fewer=_QUICK),
        "paper": Scale(
            changes={
                "flows": None,
                "noise_flows": None,
                "trees": 60,
                "noise": (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95),
                "first_packets": (3, 4, 5, 6, 7, 8, 9, 10, 12, None),
                "others_once": False,
                "search_rows": 1000,
                "network_noise": (0.3, 0.45, 0.55, 0.65, 0.75, 0.9),
                "large_networks": True,
                "batch_rows": 256,
                "baseline_packets": tuple(range(3, 11)),
                "other_search_rows": 400,
                "map_flows": 3000,
                "map_rounds": 1000,
            },
            fewer=_ONCE | {"packets": 5},
        ),
        "test": Scale(
            repetitions=2,
            changes={
                "flows": 500,
                "noise_flows": 900,
                "trees": 8,
                "noise": (0, 0.3, 0.6, 0.95),
                "first_packets": (3, 9, None),
                "search_rows": 1000,
                "baseline_packets": (3, 10),
                "map_flows": 100,
            },
            fewer=_ONCE,
        ),
    },
    claims=_claims(),
    figures={
        "e3_joins": partial(
            figures.draw_variants, title="E1 to E3: whose label is it?", experiments=("E1", "E2", "E3")
        ),
        "e4_metering": partial(
            figures.draw_variants,
            title="Metering: packets, lengths, time",
            experiments=("E4", "E7", "E8", "E9"),
        ),
        "e2_noise": figures.draw_noise,
        "noise_fit": figures.draw_fit,
        "e6_remedies": figures.draw_remedies,
        "baselines_over_packets": feature_figures.draw_baselines,
        "f_ranking": feature_figures.draw_ranks,
        "correlations": feature_figures.draw_correlations,
        "map": feature_figures.draw_map,
        "gradients": feature_figures.draw_gradients,
        "sequences": feature_figures.draw_sequences,
    },
    play=Play((ONE_SHARE,), {"share": (0.0, 1.0, 0.05)}, figures.draw_run),
)
