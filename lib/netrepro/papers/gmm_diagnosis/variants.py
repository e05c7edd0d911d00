"""What is suspected: variants of the trace, each with one fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from netrepro.papers.gmm_diagnosis.captures import CHANGES, all_labelled, changed_trace
from netrepro.papers.gmm_diagnosis.noise import forest, redraw
from netrepro.papers.gmm_diagnosis.setting import Scale
from netrepro.papers.gmm_traffic.measuring import audit_relabelled, shuffled, workstations
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, Setting, Trace
from netrepro.papers.gmm_traffic.threads import one_thread_each
from netrepro.study import Progress
from netrepro.traffic import (
    JOINS,
    JoinAudit,
    audit_join,
    day_split,
    draw_flows,
    feature_sets,
    grouped_splits,
    join_labels,
    of_large_classes,
    random_split,
    score_table,
)
from netrepro.traffic.splits import Split


@dataclass(frozen=True)
class Variant:
    """One row of the table of experiments.

    flows : makes them; `class` as this variant labels them, `right` (where it differs) as they are.
    fault : "labels" or "features" where it is a mistake that the class could have made, else "".
    """

    experiment: str
    name: str
    flows: Callable[[int], pd.DataFrame]
    fault: str = ""
    columns: tuple[str, ...] | None = None
    split: Callable[[pd.DataFrame, int], Split] | None = None
    audit: JoinAudit = field(kw_only=True)

    @property
    def is_in_claims(self) -> bool:
        """True where a claim needs it in every repetition."""
        needed = ("right labels", "join by time", f"first {BEST_PACKETS} packets")
        return self.fault == "features" or self.name in needed


def is_time(name: str) -> bool:
    """Return True where a feature is made of time stamps."""
    return any(word in name for word in ("iat", "duration", "active", "idle"))


def variants(trace: Trace, scale: Scale, *, progress: Progress = iter) -> list[Variant]:
    """Return every variant of E2 to E5, E7 to E10 and E12, with what does not depend on the seed made ready."""
    found = trace.at()

    def same(flows: pd.DataFrame) -> Callable[[int], pd.DataFrame]:
        return lambda seed: flows

    def noisy(share: float) -> Callable[[int], pd.DataFrame]:
        return lambda seed: found.flows.assign(
            right=found.flows["class"], **{"class": redraw(found.flows["class"].to_numpy(str), share, seed)}
        )

    right = same(found.flows)
    as_joined = partial(Variant, flows=right, audit=found.audit)
    made = [as_joined("E1", "right labels")]
    for share in (0.3, 0.65):
        audit = audit_relabelled(found, partial(redraw, share=share, seed=0))
        made.append(Variant("E2", f"{share:.0%} of labels drawn anew", noisy(share), "labels", audit=audit))
    joins = [(by, 0.0) for by in JOINS] + [("endpoints", 7200.0), ("workstation", 5.0), ("time", 5.0)]
    work: list[Callable[[], Variant]] = [partial(_joined, trace, by, ahead) for by, ahead in joins]
    work += [partial(_changed, change) for change in CHANGES]
    work += [
        partial(_changed, "SYNs missed", forward="opener"),
        *(partial(_timed_out, seconds) for seconds in (1, 60, None)),
        partial(_timed_out, 1, only_whole=False),
    ]
    made += one_thread_each(lambda make: make(), [(make,) for make in work], progress)
    one_thread_each(trace.at, [(packets,) for packets in scale.first_packets])
    made.append(Variant("E2", "labels dealt out anew", noisy(1.0), "labels", audit=shuffled(found, 0)))
    for packets in scale.first_packets:
        words, fault = (f"first {packets} packets", "") if packets else ("whole flows", "features")
        seen = trace.at(packets)
        # Whole flows are audited as what the report took them for, first packets.
        audit = seen.audit if packets else audit_join(seen.join, trace=seen.trace, first_packets=BEST_PACKETS)
        made.append(Variant("E4", words, same(seen.flows), fault, audit=audit))
    names = feature_sets()
    for words, columns in {
        "with the server's port": names["netmate59+port"],
        "the port alone": ["destination_port"],
        "the 39 statistics": names["netmate39"],
        "no times": [name for name in names["netmate59"] if not is_time(name)],
        "times alone": [name for name in names["netmate59"] if is_time(name)],
    }.items():
        made.append(as_joined("E5", words, columns=tuple(columns)))
    for share in scale.training_shares:
        made.append(as_joined("E10", f"{share:.1%} train", split=partial(_split_share, share)))
    made.append(as_joined("E12", "first day trains", split=lambda flows, _: day_split(flows["day"], [0])))
    made.append(
        as_joined(
            "E12",
            "hosts apart",
            split=lambda flows, seed: grouped_splits(flows["class"], workstations(flows, found), folds=3, seed=seed)[0],
        )
    )
    return sorted(made, key=lambda each: int(each.experiment[1:]))


def _split_share(share: float, flows: pd.DataFrame, seed: int) -> Split:
    return random_split(flows["class"], training_share=share, seed=seed)


def _timed_out(seconds: float | None, *, only_whole: bool = True) -> Variant:
    """Make the variant with another time-out. only_whole : flows without a handshake are left out, as netmate-flowcalc
    does."""
    found = changed_trace(None, timeout_s=seconds)
    flows = found.flows if only_whole else all_labelled(found)
    words = "no time-out" if seconds is None else f"time-out {seconds:g} s"
    words += "" if only_whole else ", flows without SYN kept"
    return Variant("E8", words, lambda seed: flows, "features", audit=found.audit)


def _joined(trace: Trace, by: str, ahead_s: float) -> Variant:
    """Make the variant whose labels are joined another way, or with the log's clock taken to be `ahead_s` ahead."""
    found = trace.at()
    metered = found.join.flows.drop(columns=["class", "application", "application_protocol"])
    join = join_labels(metered, found.ground_truth.records, by=by, clock_offset_s=found.join.clock_offset_s + ahead_s)
    flows = join.flows.assign(right=found.join.flows["class"])
    flows = flows[flows["valid"] & flows["class"].notna() & flows["right"].notna()].reset_index(drop=True)
    audit = audit_join(
        join,
        trace=found.trace,
        first_packets=BEST_PACKETS,
        unreadable_share=found.ground_truth.unreadable_share,
    )
    words = by + (f", clock {ahead_s:+.0f} s" if ahead_s else "")
    return Variant("E3", f"join by {words}", lambda seed: flows, "labels", audit=audit)


def _changed(change: str, **metering: Any) -> Variant:
    experiment = {"captured lengths": "E7", "transport lengths": "E7", "whole seconds": "E9"}.get(change, "E8")
    # Without a handshake, or without a byte of data, no flow is valid to netmate-flowcalc; take those too.
    found = changed_trace(change, **metering)
    flows = all_labelled(found) if change in ("SYNs missed", "handshakes missed", "captured lengths") else found.flows
    words = change + (", direction by who opened" if metering.get("forward") == "opener" else "")
    return Variant(experiment, words, lambda seed: flows, "features", audit=found.audit)


def try_variant(variant: Variant, setting: Setting, scale: Scale, seed: int) -> dict[str, Any]:
    """Train and test forest and mixtures on a variant's labels, as one does who knows no better."""
    flows = of_large_classes(variant.flows(seed), 12)
    wrong = float((flows["class"] != flows["right"]).mean()) if "right" in flows else 0.0
    flows = draw_flows(flows, scale.flows, seed=seed, smallest_class=11)
    row = {
        "experiment": variant.experiment,
        "variant": variant.name,
        "fault": variant.fault,
        "flows": len(flows),
        "wrong": wrong,
        "header_bytes": float(flows.loc[flows["class"] == "WEB", "total_fhlen"].mean()),
        "first_packet": float(flows.loc[flows["class"] == "WEB", "fpl1"].mean()),
        "audit": "; ".join(variant.audit.failed) or "passed",
    }
    if flows["class"].nunique() < 2:
        return row
    split = variant.split(flows, seed) if variant.split else None
    rows = setting.rows(flows, seed, split=split, columns=variant.columns or ())
    for name, model in (("forest", forest(scale.trees, seed)), ("mixtures", setting.mixtures(seed))):
        scores = score_table(rows.tested_labels, rows.train_and_predict(model))["value"].to_numpy()
        row |= {f"{name}_accuracy": scores[0], f"{name}_f1": scores[1]}
    return row
