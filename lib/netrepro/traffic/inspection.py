"""Labels by packet inspection: nfstream classifies each connection of a capture with nDPI.

Such a label is an opinion, not the truth; it serves where no log says which process opened which connection.
"""

from __future__ import annotations

import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.traffic.captures import CaptureFile
from netrepro.traffic.unibs import RECORD_COLUMNS, labels


def classify_inspected(application: str, category: str, rules: dict[str, Any] | None = None) -> str | None:
    """Return the class of nDPI's result, by the rules `inspection` in labels.yaml; None where nDPI found nothing."""
    rules = rules or labels()
    asked = rules["inspection"]
    parts = [part.strip().lower() for part in application.split(".")]
    if not any(parts) or parts[0] in asked["unknown"]:
        return None
    for name, words in asked["names"].items():
        if any(part in words for part in parts):
            return name
    for name, words in asked["categories"].items():
        if category.strip().lower() in words:
            return name
    return rules["everything_else"]


def inspect_capture(path: str | PathLike[str]) -> pd.DataFrame:
    """Classify the TCP and UDP connections of a capture with nDPI.

    Returns one row for each connection, with the columns of GroundTruth.records, as `join_labels` takes them. The
    class is None where nDPI found nothing; application is nDPI's name, application_protocol is nDPI's category.
    Raises NetreproError where the file is not a capture or nfstream cannot read it.
    """
    from nfstream import NFStreamer

    rules = labels()
    rows = []
    with tempfile.TemporaryDirectory(prefix="netrepro-") as folder:
        for file in _plain_files(CaptureFile(path), Path(folder)):
            try:
                for flow in NFStreamer(source=str(file), n_meters=1, statistical_analysis=False):
                    said, category = flow.application_name, flow.application_category_name
                    name = classify_inspected(said, category, rules)
                    ends = (flow.src_ip, flow.src_port, flow.dst_ip, flow.dst_port, flow.protocol)
                    rows.append((flow.bidirectional_first_seen_ms * 1000, *ends, name, said, category))
            except (ValueError, OSError) as error:
                raise NetreproError(f"nfstream cannot read {Path(path).name}: {error}", "give a pcap file") from None
    table = pd.DataFrame(rows, columns=RECORD_COLUMNS)
    return table[table["protocol"].isin((6, 17))].reset_index(drop=True)


def _plain_files(capture: CaptureFile, folder: Path) -> list[Path]:
    """Unpack the captures of a file into `folder` and return their paths: nfstream reads only plain files."""
    files = []
    for number, chunks in enumerate(capture.captures()):
        files.append(folder / f"{number}.pcap")
        with files[-1].open("wb") as file:
            file.writelines(chunks)
    return files
