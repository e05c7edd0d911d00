"""What was measured, claim by claim, and the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netrepro.claims import Measured
from netrepro.papers.gmm_diagnosis.measuring import Diagnosis
from netrepro.papers.gmm_diagnosis.setting import BALANCED, RIGHT, TRANSFORMER, WRONG
from netrepro.papers.gmm_traffic.study import LEAD
from netrepro.traffic import NAMED_CLASSES


def measured_claims(found: Diagnosis) -> list[Measured]:
    """Return one measurement for each claim of data/gmm_diagnosis/claims.yaml."""
    audit = found.trace.at().audit
    trust: dict[str, Any] = {"trusted": audit.passed, "why": audit.why}
    right = found.of("right labels")
    again = np.roll(right, 1)
    faults = found.table[found.table["fault"] == "features"].groupby("repetition")["forest_accuracy"].min().to_numpy()
    models = found.models.groupby("model")["accuracy"].agg(list)
    bayes = found.naive_bayes.pivot(index="repetition", columns="labels", values=["accuracy", "named"])
    remedies = {labels: order_of_remedies(found.remedies, labels) for labels in ("right labels", "fitted noise")}
    values: dict[str, tuple[Any, Any]] = {
        "method-works-with-right-labels": (found.method["right"], found.method["by time"]),
        "order-of-remedies-under-noise": (remedies["fitted noise"], remedies["right labels"]),
        "labels-explain-the-loss": (right - found.of("join by time"), right - again),
        "features-explain-the-loss": (right - faults, right - again),
        "naive-bayes-accuracy-under-noise": (bayes["accuracy", "fitted noise"], bayes["accuracy", "right labels"]),
        "naive-bayes-names-only-web-and-p2p": (bayes["named", "fitted noise"], bayes["named", "right labels"]),
        "first-packet-of-43-bytes": (
            found.of("right labels", "first_packet"),
            found.of("handshakes missed", "first_packet"),
        ),
    }
    if TRANSFORMER in models:  # without PyTorch these are not measured
        for claim, name in (
            ("transformer-accuracy-under-noise", TRANSFORMER),
            ("balanced-transformer-accuracy-under-noise", TRANSFORMER + BALANCED),
        ):
            values[claim] = (models[name], models[name + RIGHT])
    measured = [
        Measured(
            claim=claim,
            values=list(np.asarray(ours).tolist()),
            control=list(np.asarray(broken).tolist()),
            **trust,
        )
        for claim, (ours, broken) in values.items()
    ]
    longest = packet_lengths(found).max(axis=1) / packet_lengths(found).min(axis=1)
    alike = Measured(claim="first-packet-alike-in-every-class", values=[longest["first"]], exact=True, **trust)
    return [*measured, alike]


def audited(found: Diagnosis) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the variants whose labels are wrong in more than WRONG, and those joined otherwise that reach most of the
    flows."""
    of_labels = found.table["experiment"].isin(["E1", "E2", "E3"])
    table = found.table[of_labels & (found.table["repetition"] == 0)]
    table = table.assign(rejected=table["audit"] != "passed")[["variant", "wrong", "flows", "audit", "rejected"]]
    enough = ~table["audit"].str.contains("matched flows")
    return table[table["wrong"] > WRONG], table[(table["wrong"] <= WRONG) & enough]


def order_of_remedies(table: pd.DataFrame, labels: str) -> list[list[str]]:
    """Order the report's three mixtures by accuracy, best first. Where a lead is less than LEAD, they stand in reverse
    of its order."""
    asked = {"raw, MLE": ("raw", "mle"), "normalised, MLE": ("z", "mle"), "normalised, MAP": ("z", "map")}
    kept = table[(table["model"] == "GMM") & (table["labels"] == labels) & (table["regularisation"] == 1e-2)]
    orders = []
    for _, rows in kept.groupby("repetition"):
        found = rows.set_index(["normalisation", "prior"])["accuracy"].fillna(0)
        order: list[str] = []
        for name, key in asked.items():  # worst first in the report
            place = next((i for i, other in enumerate(order) if found[key] >= found[asked[other]] + LEAD), len(order))
            order.insert(place, name)
        orders.append(order)
    return orders


def answer(found: Diagnosis) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    faults = found.table[found.table["fault"] == "features"].groupby("variant")["forest_accuracy"].mean()
    by_time, right = found.of("join by time").mean(), found.of("right labels").mean()
    return (
        f"Most likely its labels: the report's confusion is that of labels of which {found.fit.share:.0%} "
        f"({found.fit.low:.0%} to {found.fit.high:.0%}) were drawn anew; a join by time alone leaves {by_time:.0%} "
        f"accuracy of {right:.0%}, the worst mistake in metering ({faults.idxmin()}) {faults.min():.0%}. "
        f"The trace itself would have to confirm it."
    )


def packet_lengths(found: Diagnosis) -> pd.DataFrame:
    """Return the mean IP length in bytes of the first and the third packet forward, a column for each class."""
    flows = found.trace.at().flows
    means = flows[flows["class"].isin(NAMED_CLASSES)].groupby("class")[["fpl1", "fpl3"]].mean().T
    return means.set_axis(["first", "third"])
