"""The stand-in for UNIBS-2009: traffic of real applications in an emulated network, labelled by our own watchers.

data/gmm_traffic/README.md says how it was made, and what it can and cannot show.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.traffic.join import LabelledFlows, load_labelled_flows

KEPT_PACKETS = 12
FLOWS, LOG, RUNS = "flows.csv.xz", "groundtruth.log.xz", "runs.csv"
DAY_ONE_S = 1_767_603_600  # 2026-01-05 09:00 UTC, a Monday; an arbitrary date for the first simulated day
_FLOW = ["source_address", "source_port", "destination_address", "destination_port", "protocol", "start_us"]


def capture_name(day: int) -> str:
    """Name the capture file of a simulated day (from 0)."""
    return f"day{day + 1}.pcap.xz"


def load_standin(
    folder: str | PathLike[str] | None = None,
    *,
    first_packets: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **metering: Any,
) -> LabelledFlows:
    """Load the stand-in, or another capture made in the same way, in the form in which `load_unibs` loads UNIBS-2009.

    folder : None for data/gmm_traffic/standin. first_packets : up to 12, the number of packets of a flow in the
    captures, from which the features are then metered; None loads the stored features of the whole flows. These were
    metered with the default settings, so `metering` must be empty. `flow_*`, end and end_us always cover whole flows.
    The join is audited as for UNIBS-2009; that shares and bytes come near the published ones is `by_design`.

    Raises NetreproError where files are missing, for more than 12 packets, and for `metering` without `first_packets`.
    """
    place = Path(folder) if folder is not None else data_dir("gmm_traffic") / "standin"
    captures = sorted(place.glob(capture_name(0).replace("1", "*")))
    missing = [name for name in (FLOWS, LOG) if not (place / name).is_file()]
    if missing or not captures:
        raise NetreproError(
            f"no stand-in in {place}: no {', '.join(missing) or capture_name(0)}",
            "data/gmm_traffic/README.md says how to make one",
        )
    if first_packets is not None and first_packets > KEPT_PACKETS:
        raise NetreproError(
            f"the stand-in has {KEPT_PACKETS} packets of a flow, not {first_packets}",
            f"give first_packets=1 to {KEPT_PACKETS}, or None for features of whole flows",
        )
    if first_packets is None and metering:
        raise NetreproError(
            f"features of the stand-in's whole flows are metered already, without {', '.join(metering)}",
            f"give first_packets=1 to {KEPT_PACKETS} with it",
        )
    whole = pd.read_csv(place / FLOWS)
    if first_packets is not None:
        whole = whole[[*_FLOW, "end_us", "end", *(name for name in whole if name.startswith("flow_"))]]
    return load_labelled_flows(
        captures,
        place / LOG,
        trace="standin",
        first_packets=first_packets,
        progress=progress,
        amend=lambda flows: _amend(flows, whole, place),
        **metering,
    )


def _amend(flows: pd.DataFrame, whole: pd.DataFrame, place: Path) -> pd.DataFrame:
    """Return the flows with the columns of `whole` (whole flows) in place of those metered from their first packets."""
    names = [name for name in whole if name in flows and name not in _FLOW]
    merged = flows[_FLOW].merge(whole, on=_FLOW, how="left", validate="one_to_one")
    strange = int(merged["end_us"].isna().sum())
    if strange:
        raise NetreproError(
            f"{strange} flows of the captures in {place} are not in {FLOWS}",
            "the files belong to different captures: make them again, together",
        )
    return flows.assign(**{name: merged[name].astype(flows[name].dtype).to_numpy() for name in names})
