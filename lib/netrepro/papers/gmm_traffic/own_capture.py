"""A capture of one's own, classified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, SLUG, Setting, Trace, open_trace
from netrepro.papers.gmm_traffic.training import (
    make_rows,
    of_large_classes,
    one_thread,
    predict,
    select_features,
    take,
    train,
)
from netrepro.study import Progress
from netrepro.traffic import CLASSES, MeterResult, inspect_capture, join_labels, meter
from netrepro.traffic.captures import CaptureFile


@dataclass(frozen=True)
class OwnCapture:
    """The classes that the mixtures and packet inspection give to the flows of a capture.

    flows : columns of `meter`, and inspected (class by nDPI, missing where it knows nothing), application (nDPI's
    name), predicted (class by the mixtures of `trained_on`), certainty (posterior, 0..1). report : of the meter.
    trained_on : in words. cross_validated : accuracy in 0..1 of mixtures trained and tested within the capture, on
    nDPI's classes; missing where they are too few.
    """

    path: str
    flows: pd.DataFrame
    report: pd.DataFrame
    trained_on: str
    cross_validated: float

    @property
    def confusion(self) -> pd.DataFrame:
        """Flows by nDPI's class (rows; UNKNOWN where it has none) and the mixtures' (columns)."""
        names = [*CLASSES, "UNKNOWN"]
        counted = pd.crosstab(self.flows["inspected"].fillna("UNKNOWN"), self.flows["predicted"])
        return counted.reindex(index=names, columns=list(CLASSES), fill_value=0).rename_axis(index="by inspection")

    @property
    def text(self) -> str:
        """The findings in words."""
        if not self.path:
            return f"No capture was given. Classify yours: netrepro run {SLUG} -p capture=/path/to/file.pcap"
        known = self.flows.dropna(subset=["inspected"])
        agreeing = (known["inspected"] == known["predicted"]).mean() if len(known) else np.nan
        silent = self.flows[self.flows["inspected"].isna()]
        guesses = ", ".join(f"{count} {name}" for name, count in silent["predicted"].value_counts().items())
        words = [
            f"{Path(self.path).name}: {len(self.flows)} TCP flows with a handshake and data.",
            f"nDPI names {len(known)} of them; mixtures trained on {self.trained_on} agree with {agreeing:.0%}."
            if len(known)
            else "nDPI names none of them.",
            f"For the {len(silent)} that it does not know they say {guesses}." if len(silent) else "",
            f"Trained and tested within the capture, mixtures agree with nDPI in {self.cross_validated:.0%}."
            if np.isfinite(self.cross_validated)
            else "To train within the capture takes ten flows of each of two classes that nDPI names.",
        ]
        return " ".join(word for word in words if word)


NO_CAPTURE = OwnCapture(
    "", pd.DataFrame({"inspected": [], "predicted": [], "application": []}), pd.DataFrame(), "", np.nan
)


def check_capture(path: str) -> str:
    """Check that the path is empty or a capture, and return it. Raises NetreproError else."""
    if path:
        CaptureFile(path)
    return path


def classify_capture(
    path: str,
    trace: Trace | None = None,
    setting: Setting | None = None,
    *,
    limit: int = 3000,
    seed: int = 1,
    progress: Progress = iter,
) -> OwnCapture:
    """Classify the flows of a capture by mixtures trained on a trace, beside packet inspection by nfstream.

    trace : None for the one at hand. limit : of the trace's flows, and of the capture's in its cross-validation.
    An empty path gives an empty answer. Raises NetreproError where the file is no capture or has no TCP flow that
    opens and carries data.
    """
    if not path:
        return NO_CAPTURE
    trace, setting = trace or open_trace(), setting or Setting()
    metered = meter(path, first_packets=BEST_PACKETS)
    flows = _whole_tcp_flows(Path(path).name, metered)
    steps: tuple[Callable[[], Any], ...] = (
        lambda: labelled_by_inspection(path, flows),
        lambda: _posterior(flows, take(trace.at(), limit, seed), setting, seed),
    )
    inspected, (names, posterior) = (step() for step in progress(steps))
    with one_thread():
        within = _cross_validate(inspected, setting, limit, seed)
    named = flows.assign(
        inspected=inspected["class"].astype(object).where(inspected["class"].notna(), None),
        application=inspected["application"].to_numpy(object),
        predicted=names[posterior.argmax(axis=1)],
        certainty=posterior.max(axis=1),
    )
    return OwnCapture(path, named, metered.report, trace.name, within)


def _whole_tcp_flows(name: str, metered: MeterResult) -> pd.DataFrame:
    """Return the TCP flows that open and carry data. Raises NetreproError, with what else there is, where there is
    none."""
    packets = int(metered.report.loc["packets", "count"])
    if not packets:
        raise NetreproError(f"{name} has no packet", "capture while a connection is opened")
    is_tcp = metered.flows["protocol"] == 6
    flows = metered.flows[metered.flows["valid"] & is_tcp].reset_index(drop=True)
    if flows.empty:
        raise NetreproError(
            f"{name} has no TCP flow with a handshake, then data; it has {packets} packets, {int(is_tcp.sum())} other "
            f"TCP flows and {int((metered.flows['protocol'] == 17).sum())} UDP flows (QUIC is UDP)",
            "capture while a connection is opened; browsers can be told to leave QUIC",
        )
    return flows


def labelled_by_inspection(path: str | Path, flows: pd.DataFrame) -> pd.DataFrame:
    """Return the flows with class and application as nDPI has them, None where it knows nothing."""
    records = inspect_capture(path)
    if records.empty:
        return flows.assign(**{"class": None, "application": None})
    return join_labels(flows, records, clock_offset_s=0.0, scan_s=0.0, before_s=5.0, after_s=5.0).flows


def _posterior(
    flows: pd.DataFrame, trace: pd.DataFrame, setting: Setting, seed: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return classes, and the probability of each for each flow by mixtures trained on all of the trace's flows."""
    both = pd.concat([trace, flows], ignore_index=True).assign(**{"class": [*trace["class"], *["OTHERS"] * len(flows)]})
    split = np.arange(len(trace)), np.arange(len(trace), len(both))
    with one_thread():
        rows = make_rows(both, setting, seed, split=split)
        chosen = rows.only(select_features(rows, setting)["feature"])
        model = train(setting.mixtures(seed), chosen)
        return model.classes_, model.predict_proba(chosen.features.to_numpy()[split[1]])


def _cross_validate(flows: pd.DataFrame, setting: Setting, limit: int, seed: int) -> float:
    """Measure the accuracy of mixtures in three folds of `limit` flows whose class has ten; missing where there is but
    one such."""
    known = flows[flows["class"].notna()]
    known = known.sample(min(limit, len(known)), random_state=seed)
    known = of_large_classes(known, 10)
    if known["class"].nunique() < 2:
        return float("nan")
    right = []
    folds = np.random.default_rng(seed).permutation(len(known)) % 3
    for fold in range(3):
        split = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        rows = make_rows(known, setting, seed, split=split)
        right.append(predict(train(setting.mixtures(seed), rows), rows) == rows.labels[split[1]])
    return float(np.concatenate(right).mean())
