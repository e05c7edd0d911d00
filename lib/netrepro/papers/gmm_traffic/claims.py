"""What was measured, claim by claim, the answer, and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.claims import Measured, load_claims
from netrepro.papers.gmm_traffic.measuring import Runs
from netrepro.papers.gmm_traffic.own_capture import NO_CAPTURE, OwnCapture
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, MODELS, SLUG, VERIFIED_PACKETS
from netrepro.traffic import CLASSES, NAMED_CLASSES, NEURAL, class_scores


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim; those on the paper's own numbers only where the trace is the paper's."""
    trust: dict[str, Any] = {"trusted": runs.audit.passed, "why": runs.audit.why}
    effects = {
        "normalisation-rescues-mixtures": (_rescue(runs, "GMM"), _rescue(runs, "DT")),
        "nine-packets-beat-three": (
            _order(runs, {"9 packets": ("random split", 9), "3 packets": ("random split", 3)}),
            _order(runs, {"9 packets": ("shuffled labels", 9), "3 packets": ("shuffled labels", 3)}),
        ),
        "selection-beats-chance": (
            _order(runs, {"selected": ("random split", 9), "at random": ("random features", 9)}),
            _order(runs, {"selected": ("selected for shuffled labels", 9), "at random": ("random features", 9)}),
        ),
        "few-flows-suffice": (
            runs.values("few flows") / runs.values(),
            runs.values("two flows a class") / runs.values(),
        ),
    }
    published = _published(runs) if runs.trace.published else {}
    return [
        Measured(claim=claim, values=list(ours), control=list(broken), **trust)
        for claim, (ours, broken) in (effects | published).items()
    ]


def _published(runs: Runs) -> dict[str, tuple[Any, Any]]:
    """Return the values for the paper's numbers: ours, and with shuffled labels."""
    asked: dict[str, dict[str, Any]] = {}
    for unit in ("flow", "packet", "byte"):
        asked[f"{unit}-accuracy"] = {"unit": unit}
        asked[f"{unit}-macro-f1"] = {"unit": unit, "scope": "named", "measure": "macro_f1"}
    asked |= {f"flow-f1-{name.lower()}": {"scope": name, "measure": "f1"} for name in NAMED_CLASSES}
    found: dict[str, tuple[Any, Any]] = {
        claim: (runs.values(**each), runs.values("shuffled labels", **each)) for claim, each in asked.items()
    }
    few = runs.values("few flows")
    found["accuracy-from-few-flows"] = few, runs.values("two flows a class")
    found["verification-error"] = half_total_error(runs), half_total_error(runs, case="shuffled labels")
    ranked = pd.DataFrame({name: runs.values(model=name) for name in MODELS})
    best = [["GMM", "baselines"] if row["GMM"] >= row.drop("GMM").max() else ["baselines", "GMM"]
            for _, row in ranked.iterrows()]  # fmt: skip
    control = runs.values("shuffled labels")
    rest = ranked.drop(columns="GMM").max(axis=1)
    found["mixtures-beat-baselines"] = (
        best,
        [
            ["GMM", "baselines"] if ours > theirs else ["baselines", "GMM"]
            for ours, theirs in zip(control, rest, strict=True)
        ],
    )
    return found


def half_total_error(
    runs: Runs, first_packets: int = VERIFIED_PACKETS, case: str = "right labels"
) -> NDArray[np.float64]:
    """Compute the mean over the named classes of the half total error rate (0..1), a value for each repetition."""
    table = runs.verification
    kept = (table["first_packets"] == first_packets) & (table["case"] == case) & table["class"].isin(NAMED_CLASSES)
    return table[kept].groupby("repetition")["half_total_error"].mean().to_numpy(float)


def _rescue(runs: Runs, model: str) -> NDArray[np.float64]:
    """Divide macro-F1 with the setting's normalisation by that of raw features, both at the same regularisation,
    MLE."""
    table = runs.normalisations[runs.normalisations["model"] == model]
    if model == "GMM":
        table = table[(table["prior"] == "mle") & (table["regularisation"] == 1e-2)]
    wide = table.pivot(index="repetition", columns="normalisation", values="macro_f1")
    return (wide["log"] / wide["raw"]).to_numpy(float)


LEAD = 0.02  # of macro-F1; a lesser lead is no order


def _order(runs: Runs, cases: dict[str, tuple[str, int]]) -> list[list[str]]:
    """Order the two cases of each repetition. The first named is first where its macro-F1 leads by LEAD."""
    first, second = cases
    ours, theirs = (
        runs.values(case, first_packets=packets, scope="named", measure="macro_f1") for case, packets in cases.values()
    )
    return [[first, second] if a >= b + LEAD else [second, first] for a, b in zip(ours, theirs, strict=True)]


def answer(runs: Runs, own: OwnCapture = NO_CAPTURE) -> str:
    """Answer the paper's question in one sentence, with this run's numbers; then what was found in a capture."""
    found = (
        f"On {runs.trace.name}, mixtures over {runs.setting.selected_features} features of the first nine packets name "
        f"{runs.values().mean():.1%} of the flows rightly"
    )
    f1 = runs.values(scope="named", measure="macro_f1").mean()
    packets, sizes = (runs.values(unit=unit).mean() for unit in ("packet", "byte"))
    others = f"(macro-F1 {f1:.2f}, packets {packets:.1%}, bytes {sizes:.1%})"
    words = f"{found} {others}; the paper names 97.7 % on UNIBS-2009."
    return f"{words} {own.text}" if own.path else words


def table3(runs: Runs) -> pd.DataFrame:
    """Return Table 3 at nine packets: a row for each model, accuracy and macro-F1 (over four and five classes) in %."""
    rows = {}
    asked: dict[str, dict[str, Any]] = {
        f"{unit} {words}": {"unit": unit, "scope": scope, "measure": measure}
        for unit in ("flow", "packet", "byte")
        for words, scope, measure in (
            ("accuracy", "all", "accuracy"),
            ("F1 of four", "named", "macro_f1"),
            ("F1 of five", "all", "macro_f1"),
        )
    }
    for name in (*MODELS, *NEURAL):
        if len(runs.values(model=name)):
            rows[name] = {column: 100 * runs.values(model=name, **each).mean() for column, each in asked.items()}
    claims = load_claims(SLUG)
    for words, attribute in (("paper's mixtures", "published"), ("class report's mixtures", "class_report")):
        rows[words] = {
            f"{unit} {column}": 100 * getattr(claims.claim(f"{unit}-{claim}"), attribute)
            for unit in ("flow", "packet", "byte")
            for column, claim in (("accuracy", "accuracy"), ("F1 of four", "macro-f1"))
        }
    return pd.DataFrame(rows).T.rename_axis("model")[list(asked)]


def by_class(runs: Runs) -> pd.DataFrame:
    """Return mixtures at nine packets: precision, recall, F1 in %, testing flows, beside the published F1."""
    total = runs.confusions.groupby(["true", "predicted"])["flows"].sum().unstack().reindex(CLASSES)[list(CLASSES)]
    table = class_scores(total).mul({"precision": 100, "recall": 100, "f1": 100, "support": 1})
    claims = load_claims(SLUG)
    for words, attribute in (("paper's f1", "published"), ("class report's f1", "class_report")):
        named = {name: 100 * getattr(claims.claim(f"flow-f1-{name.lower()}"), attribute) for name in NAMED_CLASSES}
        table[words] = pd.Series(named)
    return table.assign(support=table["support"].astype(int))


def cases_table(runs: Runs) -> pd.DataFrame:
    """Return mixtures in every case: mean accuracy and macro-F1 (four classes) in %, and their least and largest
    accuracy."""
    table = runs.scores[(runs.scores["model"] == "GMM") & (runs.scores["unit"] == "flow")]
    main = (table["first_packets"] == BEST_PACKETS) | (table["case"] == "three packets after the handshake")
    table = table[main]
    accuracy = 100 * table[table["measure"] == "accuracy"].groupby("case", sort=False)["value"].agg(
        ["mean", "min", "max"]
    )
    named = table[(table["measure"] == "macro_f1") & (table["scope"] == "named")]
    accuracy.columns = ["accuracy", "least", "largest"]
    return accuracy.assign(**{"F1 of four": 100 * named.groupby("case", sort=False)["value"].mean()})


def audits(runs: Runs) -> pd.DataFrame:
    """Return every check, with the labels as joined and with the same labels dealt out anew."""
    table = runs.audit.table()[["meaning", "by_design", "needed", "value", "passed"]]
    broken = runs.audit_shuffled.table()[["value", "passed"]].add_suffix(" (shuffled)")
    return table.join(broken)
