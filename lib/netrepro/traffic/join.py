"""Labels from a log joined to metered flows, and the audit that tells whether the join can be right.

A wrong join gives no error: every flow has a label, the classes have plausible shares, and classifiers learn little. So
every join is audited. If the audit fails, neither the labels nor any result computed from them can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from netrepro.errors import NetreproError, nearest
from netrepro.traffic.meter import MeterResult, meter
from netrepro.traffic.unibs import (
    CLASSES,
    LABELS,
    NAMED_CLASSES,
    RECORD_COLUMNS,
    GroundTruth,
    TraceFiles,
    find_unibs,
    labels,
    published_trace,
    read_ground_truth,
)

Integers = NDArray[np.int64]
DAY_S = 86_400
# The fields in which a flow and a record must agree. Only the first join is right; the others are mistakes to try out.
JOINS = {
    "endpoints": "both addresses, both ports and the protocol, whichever end comes first",
    "ordered endpoints": "the same, but the record's source must be the flow's",
    "swapped ports": "both ends, but the record's ports are at the wrong addresses",
    "hosts": "both addresses",
    "workstation": "the address of the workstation",
    "time": "nothing: the record nearest in time",
    "order": "nothing: the first flow takes the first record, the second the second",
}


@dataclass(frozen=True)
class Join:
    """Flows with labels.

    flows : the given flows with the columns class, application, application_protocol (missing where no record fits),
        record_time_us and record_delay_s (time from the flow's start to the record, after the clock offset).
    clock_offset_s : the offset used: how far the log's clock is ahead of the capture's.
    scan : one row for each clock offset tried: offset_s, matched (share of flows in 0..1 that find a record by their
        endpoints), distance_s (median time between these flows and their records).
    by : one of JOINS. records : number of records in the log.
    """

    flows: pd.DataFrame
    clock_offset_s: float
    scan: pd.DataFrame
    by: str
    records: int

    @property
    def labelled(self) -> pd.DataFrame:
        """The valid flows that have a label."""
        return self.flows[self.flows["valid"] & self.flows["class"].notna()]


def join_labels(
    flows: pd.DataFrame,
    records: pd.DataFrame,
    *,
    by: str = "endpoints",
    before_s: float = 300.0,
    after_s: float = 60.0,
    clock_offset_s: float | None = None,
    scan_s: float = 3 * 3600.0,
    scan_step_s: float = 60.0,
) -> Join:
    """Give each flow the label of the record that agrees with it and is nearest in time to its start.

    flows : as `meter` returns them. records : as `GroundTruth.records`. The order of the rows does not matter.
    by : a name of JOINS. before_s, after_s : how much earlier and later than the flow's start a record may be.
    clock_offset_s : how far the log's clock is ahead of the capture's. None tries the offsets up to `scan_s` in both
    directions, in steps of `scan_step_s`. Of those under which the most flows (to within 1 %) find a record, it takes
    the one of the least median distance. Raises NetreproError for an unknown `by`, and for no flow or no record.
    """
    if by not in JOINS:
        raise NetreproError(f"no join by {by!r}", nearest(by, JOINS))
    if flows.empty or records.empty:
        raise NetreproError(f"{len(flows)} flows and {len(records)} records cannot be joined", "give some of both")
    # Sorted by all columns, so that the choice between two records of the same time is always the same.
    ordered = records.sort_values(RECORD_COLUMNS, kind="stable", ignore_index=True)
    unknown = ordered["protocol"] == 0
    either = [ordered[~unknown], *(ordered[unknown].assign(protocol=number) for number in (6, 17))]
    ordered = pd.concat(either, ignore_index=True) if unknown.any() else ordered
    window = (round(before_s * 1e6), round(after_s * 1e6))
    starts = flows["start_us"].to_numpy(np.int64)

    steps = round(scan_s / scan_step_s)
    offsets_s = np.arange(-steps, steps + 1) * scan_step_s
    if clock_offset_s is not None:
        offsets_s = np.union1d(offsets_s, [clock_offset_s])
    finder = _Finder(ordered, _keys(flows, ordered, "endpoints"))
    scan = pd.DataFrame(
        [(offset, *row) for offset, row in zip(offsets_s, finder.scan(starts, offsets_s, *window), strict=True)],
        columns=["offset_s", "matched", "distance_s"],
    )
    if clock_offset_s is None:
        good = scan[scan["matched"] >= 0.99 * scan["matched"].max()].assign(size=scan["offset_s"].abs())
        clock_offset_s = float(good.sort_values(["distance_s", "size", "offset_s"])["offset_s"].iloc[0])
    shifted = starts + round(clock_offset_s * 1e6)
    if by == "order":
        places = np.full(len(flows), -1)
        order = np.lexsort((np.arange(len(flows)), starts))[: len(ordered)]
        places[order] = np.argsort(ordered["time_us"].to_numpy(), kind="stable")[: len(order)]
    else:
        wanted = finder if by == "endpoints" else _Finder(ordered, _keys(flows, ordered, by))
        places = wanted.nearest(shifted, *window)
    theirs, hit = ordered.take(np.maximum(places, 0)), places >= 0
    joined = flows.assign(**{name: np.where(hit, theirs[name].to_numpy(object), None) for name in LABELS})
    joined["record_time_us"] = np.where(hit, theirs["time_us"].to_numpy(float), np.nan)
    joined["record_delay_s"] = (joined["record_time_us"] - shifted) / 1e6
    return Join(joined, clock_offset_s, scan, by, len(records))


def _keys(flows: pd.DataFrame, records: pd.DataFrame, by: str) -> tuple[Integers, Integers]:
    """Return a number for each flow and each record; a flow and a record of equal numbers may be joined."""
    columns = ["source_address", "source_port", "destination_address", "destination_port", "protocol"]
    both = pd.concat([flows[columns], records[columns]], ignore_index=True)
    addresses, _ = pd.factorize(pd.concat([both["source_address"], both["destination_address"]], ignore_index=True))
    source, destination = addresses[: len(both)].astype(np.int64), addresses[len(both) :].astype(np.int64)
    ports = [both[name].to_numpy(np.int64) for name in ("source_port", "destination_port")]
    if by == "swapped ports":
        ports = [np.where(np.arange(len(both)) < len(flows), ports[i], ports[1 - i]) for i in (0, 1)]
    ends = (source << 16 | ports[0], destination << 16 | ports[1])
    protocol = both["protocol"].to_numpy(np.int64)
    parts: tuple[Any, ...]
    if by in ("endpoints", "swapped ports"):
        parts = (np.minimum(*ends), np.maximum(*ends), protocol)
    elif by == "ordered endpoints":
        parts = (*ends, protocol)
    elif by == "hosts":
        parts = (np.minimum(source, destination), np.maximum(source, destination))
    elif by == "workstation":
        stations = np.unique(source[len(flows) :])
        parts = (np.where(np.isin(source, stations), source, destination),)
    else:
        parts = (np.zeros(len(both), np.int64),)
    number = pd.DataFrame(dict(enumerate(parts))).groupby(list(range(len(parts))), sort=False).ngroup()
    keys = number.to_numpy(np.int64)
    return keys[: len(flows)], keys[len(flows) :]


class _Finder:
    """A search for the record that has a flow's key and is nearest to a time."""

    def __init__(self, records: pd.DataFrame, keys: tuple[Integers, Integers]):
        flow_keys, record_keys = keys
        self.times = records["time_us"].to_numpy(np.int64)
        self.order = np.lexsort((np.arange(len(records)), self.times, record_keys))
        self.sorted_times = self.times[self.order]
        # A key and the rank of a time among all times make one number, so that one search finds both.
        self.distinct_times, places = np.unique(self.times, return_inverse=True)
        span = len(self.distinct_times) + 1
        self.column = (record_keys * span + places)[self.order]
        self.key_begins = flow_keys * span
        self.begin = np.searchsorted(self.column, self.key_begins)
        self.end = np.searchsorted(self.column, self.key_begins + span)

    def nearest(self, times_us: Integers, before_us: int, after_us: int, flows: Any = slice(None)) -> Integers:
        """Return the index of each flow's record, or -1 where the window holds none; of two equally near records, the
        earlier one."""
        later = np.searchsorted(self.column, self.key_begins[flows] + np.searchsorted(self.distinct_times, times_us))
        distances = []
        for place, limit in ((later - 1, before_us), (later, after_us)):
            distance = np.abs(self.sorted_times[np.clip(place, 0, len(self.times) - 1)] - times_us)
            exists = (place >= self.begin[flows]) & (place < self.end[flows]) & (distance <= limit)
            distances.append(np.where(exists, distance, np.iinfo(np.int64).max))
        is_earlier = distances[0] <= distances[1]
        best = np.clip(np.where(is_earlier, later - 1, later), 0, len(self.times) - 1)
        return np.where(np.minimum(*distances) < np.iinfo(np.int64).max, self.order[best], -1)

    def scan(
        self, starts_us: Integers, offsets_s: NDArray[Any], before_us: int, after_us: int
    ) -> Iterator[tuple[float, float]]:
        """Compute, for each clock offset, the share of flows that find a record, and their median distance to it in
        seconds."""
        records = self.end - self.begin
        alone, several = np.flatnonzero(records == 1), np.flatnonzero(records > 1)
        # Flows with one record find it where its delay is in the window: these are a slice of the sorted delays.
        delays = np.sort(self.sorted_times[self.begin[alone]] - starts_us[alone])
        for offset_us in np.round(offsets_s * 1e6).astype(np.int64):
            low, high = np.searchsorted(delays, (offset_us - before_us, offset_us + after_us + 1))
            shifted = starts_us[several] + offset_us
            places = self.nearest(shifted, before_us, after_us, several)
            has_record = places >= 0
            distances = np.concatenate(
                [delays[low:high] - offset_us, self.times[places[has_record]] - shifted[has_record]]
            )
            middle = float(np.median(np.abs(distances))) / 1e6 if len(distances) else np.nan
            yield len(distances) / len(starts_us), middle


@dataclass(frozen=True)
class Check:
    """One check of the audit: it is passed where `least` <= value <= `most`.

    by_design : True where the trace was made so that the right labels pass the check. Passing is then no evidence; but
    wrong labels may still fail.
    """

    name: str
    value: float
    least: float
    most: float
    meaning: str
    by_design: bool = False

    @property
    def passed(self) -> bool:
        """True where the value is within the limits; NaN never is."""
        return bool(self.least <= self.value <= self.most)

    @property
    def needed(self) -> str:
        """The accepted values in words, such as "at least 0.9"; "any" where there is no limit."""
        if np.isinf([self.least, self.most]).all():
            return "any"
        if self.most == np.inf:
            return f"at least {self.least:.3g}"
        return f"at most {self.most:.3g}" if self.least == -np.inf else f"{self.least:.3g} to {self.most:.3g}"


@dataclass(frozen=True)
class JoinAudit:
    """The results of the checks. If one failed, no result computed from the labels can be trusted."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True where every check is passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.passed]

    @property
    def why(self) -> str:
        """The failed checks in words; empty where the audit passed."""
        return "; ".join(
            f"{check.name}: {check.meaning} is {check.value:.3g}, {check.needed} is needed"
            for check in self.checks
            if not check.passed
        )

    def table(self) -> pd.DataFrame:
        """Return one row for each check: check, value, needed, passed, by_design, meaning."""
        names = ["name", "value", "needed", "passed", "by_design", "meaning"]
        rows = [[getattr(check, name) for name in names] for check in self.checks]
        return pd.DataFrame(rows, columns=["check", *names[1:]]).set_index("check")


def audit_join(
    join: Join, *, trace: str | None = None, first_packets: int | None = None, unreadable_share: float = 0.0
) -> JoinAudit:
    """Check conditions that must hold if the labels of a join are right.

    trace : a trace of labels.yaml whose published flows and bytes must be met (these checks are `by_design` if it was
    made to meet another trace's); None makes only the checks that hold on any trace.
    first_packets : as given to `meter`; the features must then agree with it.
    unreadable_share : share of the log's lines that cannot be read (0..1).
    The limits are our choice, fixed before any trace was seen. They are wide: they tell right joins from wrong ones.
    """
    flows, valid = join.labelled, join.flows[join.flows["valid"]]
    best = join.scan.loc[join.scan["matched"].idxmax()]
    used = join.scan.loc[(join.scan["offset_s"] - join.clock_offset_s).abs().idxmin()]
    matched = _share(valid["class"].notna())
    checks = [
        _at_least("log lines", 1 - unreadable_share, 0.99, "the share of the log's lines that can be read"),
        _at_least(
            "clock",
            used["matched"] / best["matched"] if best["matched"] else np.nan,
            0.95,
            f"what matches with the log {join.clock_offset_s:g} s ahead, of what does with {best['offset_s']:g} s,",
        ),
        _at_least("matched flows", matched, 0.8, "the share of valid flows that have a label"),
        _within_a_second(flows),
        _at_least("begin of flows", _share_opened(join.flows), 0.9, "the share of labelled flows that open with SYN"),
    ]
    for name, ports in labels()["server_ports"].items():
        to_ports = flows.loc[flows["class"] == name, "destination_port"].isin(ports)
        meaning = f"the share of {name} flows to ports {', '.join(map(str, ports))}"
        checks.append(_at_least(f"{name} ports", _share(to_ports), 0.9, meaning))
    checks.append(_at_least("port alone", _score_of_port(flows), 0.6, "macro-F1 of a small tree on the server's port"))
    if trace is not None:
        checks += _published_checks(flows, published_trace(trace))
        if "made_to_meet" not in published_trace(trace):
            checks.append(_published_times(flows, published_trace(trace)["times_s"], join.clock_offset_s))
    if first_packets is not None:
        packets = flows["total_fpackets"] + flows["total_bpackets"]
        within = (packets <= first_packets) & (flows["total_fhlen"] <= 120 * first_packets)
        meaning = f"the share of flows whose features see {first_packets} packets at most"
        checks.append(_at_least("first packets", _share(within), 1.0, meaning))
    return JoinAudit(tuple(checks))


def _at_least(name: str, value: float, least: float, meaning: str) -> Check:
    return Check(name, float(value), least, np.inf, meaning)


def _share(truths: pd.Series) -> float:
    return float(truths.mean()) if len(truths) else np.nan


def _within_a_second(flows: pd.DataFrame) -> Check:
    """Return how many flows begin within a second of their record: those that a join by whole seconds would find."""
    share = _share(flows["record_delay_s"].abs() <= 1)
    return Check("within a second", share, -np.inf, np.inf, "the share of labelled flows within 1 s of their record")


def _published_times(flows: pd.DataFrame, days_s: tuple[float, float], clock_offset_s: float) -> Check:
    """Return how many records that were used are of the trace's days."""
    times_s = flows["record_time_us"] / 1e6 - clock_offset_s
    meaning = "the share of the flows' records that are of the trace's days"
    return _at_least("days of the log", _share(times_s.between(*days_s)), 0.99, meaning)


def _share_opened(flows: pd.DataFrame) -> float:
    """Return the share of labelled flows that open with SYN, without the remnants that netmate-flowcalc drops.

    The meter makes a flow of its own from a late packet of a connection that was silent, or was closed minutes ago. A
    real trace has many of these remnants, and they do not show whether flows are whole.
    """
    ends, _ = _keys(flows, flows.iloc[:0], "endpoints")
    order = flows.assign(ends=ends).sort_values("start_us", kind="stable")
    is_remnant = ~order["valid"] & order["ends"].duplicated()
    return _share(order.loc[order["class"].notna() & ~is_remnant, "starts_with_syn"])


def _score_of_port(flows: pd.DataFrame) -> float:
    """Compute the cross-validated macro-F1 over the named classes of a decision tree on the destination port alone."""
    present = [name for name in NAMED_CLASSES if (flows["class"] == name).any()]
    if len(flows) < 30 or len(present) < 2:
        return np.nan
    # Few leaves, none small: the tree must not memorise single client ports.
    tree = DecisionTreeClassifier(max_leaf_nodes=32, min_samples_leaf=3, class_weight="balanced", random_state=0)
    truth = flows["class"].to_numpy(str)
    folds = KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(tree, flows[["destination_port"]].to_numpy(float), truth, cv=folds)
    return float(f1_score(truth, predicted, labels=present, average="macro", zero_division=0))


def _published_checks(flows: pd.DataFrame, trace: dict[str, Any]) -> list[Check]:
    published = pd.Series(trace["flows"], dtype=float).reindex(list(CLASSES)).fillna(0)
    shares = flows["class"].value_counts(normalize=True).reindex(list(CLASSES)).fillna(0)
    distance = float((shares - published / published.sum()).abs().sum() / 2) if len(flows) else np.nan
    distant = "the share of flows that would have to change class to meet the published shares"
    by_design = "made_to_meet" in trace
    checks = [Check("class shares", distance, -np.inf, 0.1, distant, by_design)]
    bytes_per_flow = (flows["flow_fbytes"] + flows["flow_bbytes"]).groupby(flows["class"].astype(str)).mean()
    expected = pd.Series(trace["bytes_percent"], dtype=float) / published
    for name in ("P2P", "MAILS"):
        ratio = expected[name] / expected["WEB"]
        value = bytes_per_flow.get(name, np.nan) / bytes_per_flow.get("WEB", np.nan)
        meaning = f"mean bytes of a {name} flow over those of a WEB flow"
        checks.append(Check(f"{name} bytes", float(value), ratio / 2, ratio * 2, meaning, by_design))
    return checks


@dataclass(frozen=True)
class LabelledFlows:
    """A labelled trace: its valid flows that have a label, and the results of the steps that gave the labels.

    flows : the columns of `meter`, those of `Join.flows`, and day (0, 1, ... by the trace's local time).
    trace : as given to `audit_join`.
    """

    flows: pd.DataFrame
    metering: MeterResult
    ground_truth: GroundTruth
    join: Join
    audit: JoinAudit
    trace: str | None = None

    def features(self, feature_set: str = "netmate59") -> pd.DataFrame:
        """Return the named feature set of the labelled flows; see `feature_sets`."""
        return MeterResult(self.flows, self.metering.report).features(feature_set)


def load_labelled_flows(
    captures: str | PathLike[str] | Iterable[str | PathLike[str]],
    log: str | PathLike[str],
    *,
    trace: str | None = None,
    clock_offset_s: float | None = None,
    protocols: tuple[int, ...] = (6,),
    local_time_ahead_of_utc_h: float = 0.0,
    first_packets: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    amend: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    **metering: Any,
) -> LabelledFlows:
    """Load captures as labelled flows: meter them, read their log, join the labels and audit the join.

    protocols : transport protocols to keep (6 TCP, 17 UDP); the paper uses TCP. trace : see `audit_join`.
    clock_offset_s : see `join_labels`. first_packets, progress and the rest go to `meter`.
    amend : function that changes the metered flows before the join, where more is known than the captures show.
    Raises NetreproError where a file is missing or unreadable, or no flow is left, but not for a failed audit.
    """
    ground_truth = read_ground_truth(log)
    metered = meter(captures, first_packets=first_packets, progress=progress, **metering)
    flows = metered.flows[metered.flows["protocol"].isin(protocols)].reset_index(drop=True)
    if flows.empty:
        raise NetreproError(f"no flow of protocol {protocols} in the captures", "look at metering.report")
    flows = amend(flows) if amend else flows
    join = join_labels(flows, ground_truth.records, clock_offset_s=clock_offset_s)
    audit = audit_join(join, trace=trace, first_packets=first_packets, unreadable_share=ground_truth.unreadable_share)
    labelled = join.labelled.reset_index(drop=True)
    day = (labelled["start_us"] // 1_000_000 + round(local_time_ahead_of_utc_h * 3600)) // DAY_S
    return LabelledFlows(labelled.assign(day=day - day.min()), metered, ground_truth, join, audit, trace)


def load_unibs(
    folder: str | PathLike[str] | None = None,
    *,
    first_packets: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **metering: Any,
) -> LabelledFlows:
    """Load UNIBS-2009 by `load_labelled_flows`, audited against its published numbers.

    Raises NetreproError where the trace is not in `folder` (see `find_unibs`); the error says how to get it.
    """
    files: TraceFiles = find_unibs(folder)
    return load_labelled_flows(
        files.captures,
        files.log,
        trace="unibs-2009",
        local_time_ahead_of_utc_h=published_trace("unibs-2009")["local_time_ahead_of_utc_h"],
        first_packets=first_packets,
        progress=progress,
        **metering,
    )
