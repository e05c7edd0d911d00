"""Known faults of CICFlowMeter, looked for in the numbers of a table alone.

Each is exact: no flow of a meter that counts right can have such numbers. Where they are described:
Engelen, Rimmer and Joosen, "Troubleshooting an Intrusion Detection Dataset: the CICIDS2017 Case Study" (WTMC 2021);
Rosay et al., "Network Intrusion Detection: A Comprehensive Analysis of CIC-IDS2017" (ICISSP 2022); Liu et al., "Error
Prevalence in NIDS datasets" (CNS 2022); Lanvin et al., "Errors in the CICIDS2017 dataset" (CRiSIS 2022); and the
program itself (ahlashkari/CICFlowMeter, BasicFlow.java at 1d358377) with its issues 41, 64, 94, 129 and 135. Not looked
for, as no column shows it: the backward initial window is that of the last packet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netrepro.traffic.tables import LabelledTable
from netrepro.traffic.tables.labelled_table import plain_name

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# What the versions of 2017, of 2018 and of today call a column.
NAMES = {
    "fwd packets": ("total_fwd_packets", "tot_fwd_pkts", "total_fwd_packet"),
    "bwd packets": ("total_backward_packets", "tot_bwd_pkts", "total_bwd_packets"),
    "fwd bytes": ("total_length_of_fwd_packets", "totlen_fwd_pkts", "total_length_of_fwd_packet"),
    "bwd bytes": ("total_length_of_bwd_packets", "totlen_bwd_pkts", "total_length_of_bwd_packet"),
    "mean length": ("packet_length_mean", "pkt_len_mean", "pkt_len_avg"),
    "mean size": ("average_packet_size", "pkt_size_avg"),
    "down/up": ("down_up_ratio",),
    "fwd psh": ("fwd_psh_flags",),
    "bwd psh": ("bwd_psh_flags",),
    "psh": ("psh_flag_count", "psh_flag_cnt"),
    "ack": ("ack_flag_count", "ack_flag_cnt"),
}
LONG_PACKETS, REMNANT_PACKETS = 10, 3
PADDING_BYTES = 6  # of the shortest Ethernet frame, counted as payload (issue 64)


@dataclass(frozen=True)
class Fault:
    """A fault: the share of the rows of which it can be told that have it (0..1), and what it is."""

    name: str
    share: float
    says: str


def known_faults(table: LabelledTable) -> list[Fault]:
    """Look for every fault that the table's columns can show; a share of 0 says that it is not there."""
    by_plain = {plain_name(column): str(column) for column in reversed(table.features)}
    columns: dict[str, Floats] = {}
    for what, names in NAMES.items():
        if name := next((by_plain[each] for each in names if each in by_plain), None):
            columns[what] = table.columns[name].to_numpy(np.float64)
    protocol = table.ends["protocol"].to_numpy() if "protocol" in table.ends else None
    is_tcp = np.ones(len(table), bool) if protocol is None else protocol == 6
    faults: list[Fault] = []
    with np.errstate(all="ignore"):
        faults += _flags(columns, is_tcp if protocol is not None else None)
        faults += _lengths(columns)
        if protocol is not None:
            faults += _remnants(table, columns, is_tcp)
            says = "have protocol 0: they are no IP flows, and their addresses are other bytes"
            faults.append(Fault("protocol 0", float((protocol == 0).mean()), says))
    return faults + _times(table)


def _share(of: Flags, among: Flags) -> float:
    return float((of & among).sum() / among.sum()) if among.any() else 0.0


def _flags(columns: dict[str, Floats], is_tcp: Flags | None) -> list[Fault]:
    faults = []
    if is_tcp is not None and {"ack", "fwd packets", "bwd packets"} <= columns.keys():
        long = is_tcp & (columns["fwd packets"] + columns["bwd packets"] >= LONG_PACKETS)
        says = (
            f"of at least {LONG_PACKETS} packets have at most one ACK, where all but a connection's first have one: "
            "flags were counted in the first packet only"
        )
        faults.append(Fault("flags of the first packet", _share(columns["ack"] <= 1, long), says))
    if {"psh", "fwd psh", "bwd psh"} <= columns.keys():
        known = np.isfinite(columns["psh"])
        differ = columns["psh"] != columns["fwd psh"] + columns["bwd psh"]
        says = "count other PSH flags in both directions together than in one and the other"
        faults.append(Fault("PSH by direction", _share(differ, known), says))
    return faults


def _lengths(columns: dict[str, Floats]) -> list[Fault]:
    faults = []
    if {"mean length", "mean size", "fwd packets", "bwd packets"} <= columns.keys():
        count = columns["fwd packets"] + columns["bwd packets"]
        size, length = columns["mean size"], columns["mean length"]
        known = (size > 0) & (count > 0)
        twice = (np.abs(size * count - length * (count + 1)) <= 1e-3 * size * count) & (
            np.abs(size - length) > 1e-3 * size
        )
        says = "count the first packet's length twice: packet length times (packets + 1) is average size times packets"
        faults.append(Fault("first packet twice", _share(twice, known), says))
    if {"down/up", "fwd packets", "bwd packets"} <= columns.keys():
        ratio = columns["bwd packets"] / columns["fwd packets"]
        known = np.isfinite(ratio) & (np.abs(ratio - np.round(ratio)) > 1e-3)
        cut = columns["down/up"] == np.floor(ratio)
        says = "whose ratio of packets down and up is no whole number have it cut to one"
        faults.append(Fault("ratio cut", _share(cut, known), says))
    return faults


def _remnants(table: LabelledTable, columns: dict[str, Floats], is_tcp: Flags) -> list[Fault]:
    ends = table.ends
    needed = {"source_address", "destination_address", "source_port", "destination_port"}
    if not needed <= {*ends} or not {"fwd packets", "bwd packets", "fwd bytes", "bwd bytes"} <= columns.keys():
        return []
    both = pd.api.types.union_categoricals([ends["source_address"], ends["destination_address"]]).codes.astype(np.int64)
    one = both[: len(ends)] << 16 | ends["source_port"].to_numpy()
    other = both[len(ends) :] << 16 | ends["destination_port"].to_numpy()
    keys = pd.DataFrame({"low": np.minimum(one, other), "high": np.maximum(one, other)})
    packets = columns["fwd packets"] + columns["bwd packets"]
    small = (packets <= REMNANT_PACKETS) & (columns["fwd bytes"] + columns["bwd bytes"] <= PADDING_BYTES * packets)
    # A remnant needs a flow that it is the remnant of.
    whole = pd.Series(is_tcp & ~small).groupby([keys["low"], keys["high"]]).transform("any").to_numpy()
    says = (
        f"are remnants: at most {REMNANT_PACKETS} packets without payload between ports that have a real flow too, "
        "since a flow ended at the first FIN"
    )
    return [Fault("remnants of TCP flows", _share(small & whole, is_tcp), says)]


def _times(table: LabelledTable) -> list[Fault]:
    if "start_s" not in table.ends or not np.isfinite(table.ends["start_s"]).any():
        return []
    start = table.ends["start_s"].dropna().to_numpy()
    faults = []
    if np.ptp(start) > 600:
        minutes = float((start % 60 == 0).all())
        faults.append(Fault("whole minutes", minutes, "have a time in whole minutes: their order is not known"))
    hours = np.unique(start // 3600 % 24)
    is_half = hours.min() >= 1 and hours.max() <= 12 and hours.min() <= 6 and hours.max() >= 8 and len(hours) >= 5
    says = "have a time on a clock of 12 hours without AM and PM: afternoons come before mornings"
    faults.append(Fault("12-hour clock", float(is_half and bool(minutes_or_words(table))), says))
    return faults


def minutes_or_words(table: LabelledTable) -> bool:
    """Tell whether times are written as words, and not as seconds since 1970, which have all hours."""
    return any(isinstance(table.columns[name].dtype, pd.CategoricalDtype) for name in table.of_role("times"))
