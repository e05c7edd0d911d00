"""The suspicions: variants of the trace, each with one fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.papers.gmm_diagnosis.noise import forest, redraw
from netrepro.papers.gmm_diagnosis.setting import Setting, standin
from netrepro.papers.gmm_traffic.measuring import audit_relabelled, shuffled
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS
from netrepro.papers.gmm_traffic.threads import one_thread_each
from netrepro.paths import data_dir
from netrepro.study import Progress
from netrepro.traffic import (
    JOINS,
    JoinAudit,
    LabelledFlows,
    audit_join,
    draw_flows,
    join_labels,
    load_labelled_flows,
    of_large_classes,
    score_table,
)
from netrepro.traffic.packets import Packets


@dataclass(frozen=True)
class Variant:
    """One row of the table of experiments.

    flows : `class` is the variant's label, `right` (where it may differ) the true one. redrawn : share of labels that
    each repetition draws anew. fault : "labels" or "features" for a mistake that the class could have made, else "".
    """

    experiment: str
    name: str
    flows: pd.DataFrame
    fault: str = ""
    redrawn: float = 0.0
    audit: JoinAudit = field(kw_only=True)

    @property
    def is_in_claims(self) -> bool:
        """True where a claim needs the variant in every repetition."""
        needed = ("right labels", "join by time", f"first {BEST_PACKETS} packets")
        return self.fault == "features" or self.name in needed


CHANGES: dict[str, tuple[str, Callable[[Packets], None]]] = {
    "captured lengths": ("E7", Packets.count_captured_bytes),
    "transport lengths": ("E7", Packets.count_transport_bytes),
    "whole seconds": ("E9", Packets.keep_whole_seconds),
    "SYNs missed": ("E8", Packets.drop_openings),
    "handshakes missed": ("E8", Packets.drop_handshakes),
}


@lru_cache(maxsize=2)
def _read_once(path: Path) -> Packets:
    """Read one day's packets once; every change works on a copy."""
    return Packets.read(path)


def changed_trace(change: str | None, **metering: Any) -> LabelledFlows:
    """Meter the stand-in at nine packets, with a change to its captures or other metering options.

    The audit does not ask for the published bytes, since the captures hold only the beginnings of flows.
    """
    place = data_dir("gmm_traffic") / "standin"
    with tempfile.TemporaryDirectory(prefix="netrepro-") as folder:
        files = []
        for number, capture in enumerate(sorted(place.glob("day*.pcap.xz"))):
            packets = _read_once(capture)
            if change:
                packets = packets.copy()
                CHANGES[change][1](packets)
            files.append(Path(folder) / f"{number}.pcap")
            packets.write(files[-1])
        log = place / "groundtruth.log.xz"
        return load_labelled_flows(files, log, first_packets=BEST_PACKETS, clock_offset_s=0.0, **metering)


def all_labelled(labelled: LabelledFlows) -> pd.DataFrame:
    """Return the labelled flows, including those that netmate-flowcalc would not export."""
    return labelled.join.flows[labelled.join.flows["class"].notna()].reset_index(drop=True)


def variants(setting: Setting, progress: Progress = iter) -> list[Variant]:
    """Return every variant of E1 to E4 and E7 to E9. All that does not depend on the seed is already computed."""
    labelled = standin().at()
    made = [Variant("E1", "right labels", labelled.flows, audit=labelled.audit)]
    redrawn = partial(Variant, "E2", flows=labelled.flows, fault="labels")
    for share in (0.3, 0.65):
        audit = audit_relabelled(labelled, partial(redraw, share=share, seed=0))
        made.append(redrawn(f"{share:.0%} of labels drawn anew", redrawn=share, audit=audit))
    joins = [(by, 0.0) for by in JOINS] + [("endpoints", 7200.0), ("workstation", 5.0), ("time", 5.0)]
    work: list[Callable[[], Variant]] = [partial(_joined, by, ahead) for by, ahead in joins]
    work += [partial(_changed, change) for change in CHANGES]
    work += [
        partial(_changed, "SYNs missed", forward="opener"),
        *(partial(_timed_out, seconds) for seconds in (1, 60, None)),
        partial(_timed_out, 1, only_whole=False),
    ]
    made += one_thread_each(lambda make: make(), [(make,) for make in work], progress)
    one_thread_each(standin().at, [(packets,) for packets in setting.first_packets])
    made.append(redrawn("labels dealt out anew", redrawn=1.0, audit=shuffled(labelled, 0)))
    for packets in setting.first_packets:
        words, fault = (f"first {packets} packets", "") if packets else ("whole flows", "features")
        seen = standin().at(packets)
        # Whole flows are audited as first packets, which the report took them for.
        audit = seen.audit if packets else audit_join(seen.join, trace=seen.trace, first_packets=BEST_PACKETS)
        made.append(Variant("E4", words, seen.flows, fault, audit=audit))
    return sorted(made, key=lambda variant: variant.experiment)


def _joined(by: str, ahead_s: float) -> Variant:
    """Make the variant whose labels are joined by another key, or with the log's clock assumed to be `ahead_s`
    ahead."""
    right = standin().at()
    metered = right.join.flows.drop(columns=["class", "application", "application_protocol"])
    join = join_labels(metered, right.ground_truth.records, by=by, clock_offset_s=right.join.clock_offset_s + ahead_s)
    flows = join.flows.assign(right=right.join.flows["class"])
    flows = flows[flows["valid"] & flows["class"].notna() & flows["right"].notna()].reset_index(drop=True)
    audit = audit_join(
        join, trace=right.trace, first_packets=BEST_PACKETS, unreadable_share=right.ground_truth.unreadable_share
    )
    words = by + (f", clock {ahead_s:+.0f} s" if ahead_s else "")
    return Variant("E3", f"join by {words}", flows, "labels", audit=audit)


def _changed(change: str, **metering: Any) -> Variant:
    labelled = changed_trace(change, **metering)
    # Without a handshake, or without data, netmate-flowcalc considers no flow valid; include those too.
    takes_all = change in ("SYNs missed", "handshakes missed", "captured lengths")
    flows = all_labelled(labelled) if takes_all else labelled.flows
    words = change + (", direction by who opened" if metering.get("forward") == "opener" else "")
    return Variant(CHANGES[change][0], words, flows, "features", audit=labelled.audit)


def _timed_out(seconds: float | None, *, only_whole: bool = True) -> Variant:
    """Make the variant with another time-out. only_whole : leave out flows without a handshake, as netmate-flowcalc
    does."""
    labelled = changed_trace(None, timeout_s=seconds)
    flows = labelled.flows if only_whole else all_labelled(labelled)
    words = "no time-out" if seconds is None else f"time-out {seconds:g} s"
    words += "" if only_whole else ", flows without SYN kept"
    return Variant("E8", words, flows, "features", audit=labelled.audit)


def try_variant(variant: Variant, setting: Setting, seed: int) -> dict[str, Any]:
    """Train and test forest and mixtures on a variant's labels, as if these were right."""
    flows, method = variant.flows, setting.method
    if variant.redrawn:
        given = redraw(flows["class"].to_numpy(str), variant.redrawn, seed)
        flows = flows.assign(right=flows["class"], **{"class": given})
    flows = of_large_classes(flows, 12)
    wrong = float((flows["class"] != flows["right"]).mean()) if "right" in flows else 0.0
    flows = draw_flows(flows, setting.flows, seed=seed, smallest_class=11)
    web = flows[flows["class"] == "WEB"]
    row = {
        "experiment": variant.experiment,
        "variant": variant.name,
        "fault": variant.fault,
        "flows": len(flows),
        "wrong": wrong,
        "header_bytes": float(web["total_fhlen"].mean()),
        "first_packet": float(web["fpl1"].mean()),
        "audit": "; ".join(variant.audit.failed) or "passed",
    }
    if flows["class"].nunique() < 2:
        return row
    rows = method.rows(flows, seed)
    for name, model in (("forest", forest(setting.trees, seed)), ("mixtures", method.mixtures(seed))):
        accuracy, macro_f1 = score_table(rows.tested_labels, rows.train_and_predict(model))["value"].head(2)
        row |= {f"{name}_accuracy": accuracy, f"{name}_f1": macro_f1}
    return row
