"""The reader's own capture, classified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.papers.gmm_traffic.setting import BEST_PACKETS, SLUG, LabelledTrace, Setting, open_trace
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.study import Progress
from netrepro.traffic import CLASSES, MeterResult, draw_flows, find_unibs, inspect_capture, join_labels, meter
from netrepro.traffic.captures import CaptureFile


@dataclass(frozen=True)
class OwnCapture:
    """The classes that the mixtures and packet inspection give to the flows of a capture.

    flows : the columns of `meter`, and inspected (nDPI's class, missing where unknown), application (nDPI's name),
    predicted (class by the mixtures), certainty (posterior, 0..1). trained_on : the mixtures' training trace, in words.
    """

    path: str
    flows: pd.DataFrame
    trained_on: str = ""

    @property
    def confusion(self) -> pd.DataFrame:
        """Number of flows by nDPI's class (rows; UNKNOWN where it has none) and the mixtures' class (columns)."""
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
        ]
        return " ".join(word for word in words if word)


NO_CAPTURE = OwnCapture("", pd.DataFrame({"inspected": [], "predicted": [], "application": []}))


def check_capture(path: str) -> str:
    """Check that the path is empty or a capture, and return it; for a folder with UNIBS-2009's files, which is a trace
    and no capture to classify, return "". Raises NetreproError otherwise."""
    if path and Path(path).is_dir():
        find_unibs(path)
        return ""
    if path:
        CaptureFile(path)
    return path


def classify_capture(
    path: str,
    trace: LabelledTrace | None = None,
    setting: Setting | None = None,
    *,
    limit: int = 3000,
    seed: int = 1,
    progress: Progress = iter,
) -> OwnCapture:
    """Classify the flows of a capture by mixtures trained on a trace, and by packet inspection with nfstream.

    trace : None for the available one. limit : greatest number of the trace's flows. An empty path gives an empty
    result. Raises NetreproError where the file is no capture or has no TCP flow that opens and carries data.
    """
    if not path:
        return NO_CAPTURE
    trace, setting = trace or open_trace(), setting or Setting()
    flows = _whole_tcp_flows(Path(path).name, meter(path, first_packets=BEST_PACKETS))
    known = draw_flows(trace.at().flows, limit, seed=seed, smallest_class=12)
    steps: tuple[Callable[[], Any], ...] = (
        lambda: labelled_by_inspection(path, flows),
        lambda: _posterior(flows, known, setting, seed),
    )
    inspected, (names, posterior) = (step() for step in progress(steps))
    named = flows.assign(
        inspected=inspected["class"].astype(object).where(inspected["class"].notna(), None),
        application=inspected["application"].to_numpy(object),
        predicted=names[posterior.argmax(axis=1)],
        certainty=posterior.max(axis=1),
    )
    return OwnCapture(path, named, trace.name)


def _whole_tcp_flows(name: str, metered: MeterResult) -> pd.DataFrame:
    """Return the TCP flows that open and carry data. Raises NetreproError where there are none, and says what the
    capture has instead."""
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
    """Return the flows with nDPI's class and application, None where nDPI does not know them."""
    records = inspect_capture(path)
    if records.empty:
        return flows.assign(**{"class": None, "application": None})
    return join_labels(flows, records, clock_offset_s=0.0, scan_s=0.0, before_s=5.0, after_s=5.0).flows


def _posterior(
    flows: pd.DataFrame, trace: pd.DataFrame, setting: Setting, seed: int
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the classes, and each flow's class probabilities, by mixtures trained on all of the trace's flows."""
    both = pd.concat([trace, flows], ignore_index=True).assign(**{"class": [*trace["class"], *["OTHERS"] * len(flows)]})
    split = np.arange(len(trace)), np.arange(len(trace), len(both))
    with one_thread():
        chosen = setting.selected(setting.rows(both, seed, split=split))
        model = chosen.train(setting.mixtures(seed))
        return model.classes_, model.predict_proba(chosen.features.to_numpy()[split[1]])
