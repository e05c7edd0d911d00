"""The numbers of a table beside those of our meter, flow by flow, where the captures are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.errors import NetreproError
from netrepro.traffic.join import join_labels
from netrepro.traffic.meter import meter
from netrepro.traffic.tables import LabelledTable
from netrepro.traffic.tables.labelled_table import ENDS, plain_name
from netrepro.traffic.unibs import RECORD_COLUMNS

METER_COLUMNS = ["quantity", "column", "compared", "equal", "counted_as"]
# What tools call what the meter counts too, forward and backward.
_NAMES = {
    "forward packets": (
        "total_fwd_packets", "tot_fwd_pkts", "total_fwd_packet", "src2dst_packets", "orig_pkts", "flow_fpackets",
        "packets",
    ),
    "backward packets": (
        "total_backward_packets", "tot_bwd_pkts", "total_bwd_packets", "dst2src_packets", "resp_pkts", "flow_bpackets",
        "packets_rev",
    ),
    "forward bytes": (
        "total_length_of_fwd_packets", "totlen_fwd_pkts", "total_length_of_fwd_packet", "src2dst_bytes",
        "orig_ip_bytes", "flow_fbytes", "bytes",
    ),
    "backward bytes": (
        "total_length_of_bwd_packets", "totlen_bwd_pkts", "total_length_of_bwd_packet", "dst2src_bytes",
        "resp_ip_bytes", "flow_bbytes", "bytes_rev",
    ),
    "duration": ("flow_duration", "bidirectional_duration_ms", "duration"),
    "forward PSH flags": ("fwd_psh_flags", "src2dst_psh_packets", "fpsh_cnt"),
    "backward PSH flags": ("bwd_psh_flags", "dst2src_psh_packets", "bpsh_cnt"),
}  # fmt: skip
_ETHERNET_BYTES = 14
_SWAPPED = {"forward": "backward", "backward": "forward"}
ZONE_STEP_S, ZONE_S, WINDOW_S = 900.0, 14 * 3600.0, 60.0


def compare_with_meter(
    table: LabelledTable,
    captures: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Compare a table of flows with what our meter makes of the captures, and return METER_COLUMNS, a row a quantity.

    A flow of the meter's takes the row with the same ends, whichever comes first, that is nearest in time (within
    WINDOW_S; the table's clock may be whole quarters of an hour off). compared : number of pairs. equal : share of them
    (0..1) with the same number; of durations, within a hundredth or a millisecond. counted_as : which bytes (payload,
    IP, Ethernet) or unit of time fits most rows, as tools differ. Three rows have no column: the table's rows that have
    a flow, the flows that have a row (compared counts all, equal is the share), and the direction of the pairs.
    Raises NetreproError where the table lacks ends, or a file is no capture.
    """
    lacking = [end for end in ENDS if end not in table.ends]
    if lacking:
        raise NetreproError(
            f"the table has no {lacking[0]}", "a comparison with captures needs addresses, ports, protocol"
        )
    flows = meter(captures, quirks=False, progress=progress).flows
    rows = _pairs(table, flows)
    paired = np.flatnonzero(rows >= 0)
    pairs, flows_of = rows[paired], flows.iloc[paired].reset_index(drop=True)
    transported = table.ends["protocol"].isin((6, 17)).sum()
    result: list[tuple[str, str, int, float, str]] = [
        ("rows with a flow", "", int(transported), len(np.unique(pairs)) / max(int(transported), 1), ""),
        ("flows with a row", "", len(flows), len(pairs) / max(len(flows), 1), ""),
    ]
    if not len(pairs):
        return pd.DataFrame(result, columns=METER_COLUMNS)
    theirs = table.ends.iloc[pairs].reset_index(drop=True)
    same_port = theirs["source_port"].to_numpy() == flows_of["source_port"].to_numpy()
    same = same_port & (theirs["source_address"].astype(str) == flows_of["source_address"].astype(str)).to_numpy()
    result.append(("direction", "", len(pairs), float(same.mean()), "the end that sends first is the source"))
    by_plain = {plain_name(column): str(column) for column in reversed(table.features)}
    for quantity, names in _NAMES.items():
        column = next((by_plain[name] for name in names if name in by_plain), None)
        if column is None or isinstance(table.columns[column].dtype, pd.CategoricalDtype):
            continue
        values = table.columns[column].to_numpy(np.float64)[pairs]
        options = _candidates(flows_of, quantity, ~same)
        shares = {words: _equal(values, each, quantity) for words, each in options.items()}
        best = max(shares, key=shares.__getitem__)
        result.append((quantity, column, len(pairs), shares[best], best))
    return pd.DataFrame(result, columns=METER_COLUMNS)


def _pairs(table: LabelledTable, flows: pd.DataFrame) -> NDArray[np.int64]:
    """Return for each flow the row of the table that is nearest, or -1."""
    is_flow = table.ends["protocol"].isin((6, 17)).to_numpy()
    ends = table.ends[is_flow]
    records = pd.DataFrame({name: ends[name].to_numpy() for name in ENDS})
    records[["source_address", "destination_address"]] = records[["source_address", "destination_address"]].astype(
        object
    )
    timed = "start_s" in ends and bool(np.isfinite(ends["start_s"]).all())
    times = (ends["start_s"].to_numpy() * 1e6).round().astype(np.int64) if timed else np.zeros(len(ends), np.int64)
    records = records.assign(
        time_us=times, **{"class": ""}, application=np.flatnonzero(is_flow), application_protocol=""
    )[RECORD_COLUMNS]
    if flows.empty or records.empty:
        return np.full(len(flows), -1)
    joined = join_labels(
        flows if timed else flows.assign(start_us=0),
        records,
        before_s=WINDOW_S,
        after_s=WINDOW_S,
        clock_offset_s=None if timed else 0.0,
        scan_s=ZONE_S if timed else 0.0,
        scan_step_s=ZONE_STEP_S,
    )
    numbers = pd.to_numeric(joined.flows["application"], errors="coerce").fillna(-1)
    return numbers.to_numpy().astype(np.int64)


def _candidates(flows: pd.DataFrame, quantity: str, swapped: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Return what the meter has for a quantity, in each way in which tools count it."""
    if quantity == "duration":
        whole = (flows["end_us"] - flows["start_us"]).to_numpy(np.float64)
        return {"microseconds": whole, "milliseconds": whole / 1e3, "seconds": whole / 1e6}
    side, what = quantity.split(" ", 1)

    def of(column: str) -> NDArray[np.float64]:
        return np.where(
            swapped,
            flows[column.format(_SWAPPED[side][0])].to_numpy(np.float64),
            flows[column.format(side[0])].to_numpy(np.float64),
        )

    if what == "packets":
        return {"packets": of("flow_{}packets"), "packets up to the close": of("total_{}packets")}
    if what == "PSH flags":
        return {"packets with PSH": of("{}psh_cnt")}
    size, packets = of("flow_{}bytes"), of("flow_{}packets")
    return {
        "IP bytes": size,
        "Ethernet bytes": size + _ETHERNET_BYTES * packets,
        "payload bytes": of("total_{}volume") - of("total_{}hlen"),
    }


def _equal(values: NDArray[np.float64], ours: NDArray[np.float64], quantity: str) -> float:
    known = np.isfinite(values)
    if not known.any():
        return 0.0
    away = np.abs(values[known] - ours[known])
    if quantity == "duration":
        unit = 1e6 if np.nanmax(ours) > 1e5 else 1e3 if np.nanmax(ours) > 1e3 else 1.0
        return float((away <= np.maximum(0.01 * np.abs(ours[known]), 1e-3 * unit)).mean())
    return float((away <= 0.5).mean())
