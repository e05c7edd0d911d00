"""Why a class reproduction of Alizadeh et al. (IEEE Access 8, 2020) named 20 to 55 % of the flows and not 97.7 %.

Its data and code are not public; its tables are. Each suspicion becomes an experiment on a trace whose labels are known
to be right: wrong joins, labels drawn anew, other truncations, lengths, clocks, time-outs, features, normalisations.
What reproduces the report's tables is a candidate; what does not is cleared.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from netrepro.claims import Measured, load_claims
from netrepro.errors import NetreproError, nearest
from netrepro.papers._running import Progress, of_profile
from netrepro.papers.gmm_traffic import (
    BEST_PACKETS,
    LEAD,
    Rows,
    Setting,
    Trace,
    audit_relabelled,
    derived_seed,
    draw_matrix,
    make_model,
    make_rows,
    neural_models,
    normalisation_grid,
    one_thread,
    one_thread_each,
    own_features,
    predict,
    scale_of,
    select_features,
    shuffled,
    take,
    train,
    verification,
    workstations,
)
from netrepro.paths import data_dir
from netrepro.processes import in_processes
from netrepro.style import PUBLISHED_GREY, new_figure, scheme
from netrepro.traffic import (
    CLASSIFIERS,
    JOINS,
    NAMED_CLASSES,
    NORMALISATIONS,
    JoinAudit,
    LabelledFlows,
    audit_join,
    class_scores,
    confusion,
    day_split,
    feature_sets,
    grouped_splits,
    inspect_capture,
    join_labels,
    load_labelled_flows,
    meter,
    random_split,
    score_table,
)
from netrepro.traffic.captures import CaptureFile

SLUG = "gmm_diagnosis"
Floats = NDArray[np.float64]
Split = tuple[NDArray[np.int64], NDArray[np.int64]]
INJECTED = (0.3, 0.5, 0.65)
TRANSFORMER, BALANCED, RIGHT = "FT-Transformer", ", balanced", ", right labels"
WRONG = 0.1  # share of wrong labels above which a join must be rejected
TABLE = ["experiment", "variant", "fault", "flows", "wrong", "forest_accuracy", "forest_f1", "mixtures_accuracy",
         "mixtures_f1", "header_bytes", "first_packet", "audit"]  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """What a profile affords: flows (for the noise, whose fit must be sharp, more), trees of a forest, shares of
    re-drawn labels, first packets, training shares. others_once : what no claim needs is measured in the first
    repetition only. most_variants, most_transformers : repetitions of the variants, the method and verification, and
    of transformer and naive Bayes at most (None: as many as of all else). search_rows : on which naive Bayes searches
    its features."""

    flows: int | None
    noise_flows: int | None
    trees: int
    noise: tuple[float, ...]
    first_packets: tuple[int | None, ...]
    training_shares: tuple[float, ...]
    others_once: bool = False
    most_variants: int | None = None
    most_transformers: int | None = None
    search_rows: int = 1000


SCALES = {
    "quick": Scale(
        2000, 5000, 30, (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95), (3, 6, 9, None), (0.005, 0.02, 0.1, 0.7), True,
        most_variants=3, most_transformers=5, search_rows=400,
    ),
    "paper": Scale(
        None, None, 60, (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95),
        (3, 4, 5, 6, 7, 8, 9, 10, 12, None), (0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.7),
    ),
}  # fmt: skip


def diagnosis_scale(profile: str) -> Scale:
    """Raises NetreproError for another profile than quick and paper."""
    return of_profile(profile, SCALES)


def class_report() -> pd.DataFrame:
    """Every number of the class report: table, row, measure, value."""
    return pd.read_csv(data_dir(SLUG) / "class_report.csv", comment="#")


def reported(table: str) -> pd.DataFrame:
    """One table of the class report: a row a class or "all", a column a measure."""
    found = class_report()
    known = list(dict.fromkeys(found["table"]))
    if table not in known:
        raise NetreproError(f"the class report has no table {table!r}", nearest(table, known))
    return found[found["table"] == table].pivot(index="row", columns="measure", values="value")


# Labels drawn anew.


def redraw(labels: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    """Each label is replaced, with probability `share`, by one drawn from all labels; so fewer than that are wrong."""
    random = np.random.default_rng(seed)
    drawn = random.choice(labels, len(labels))
    return np.where(random.uniform(size=len(labels)) < share, drawn, labels)


def match_shares(flows: pd.DataFrame, support: pd.Series, limit: int, seed: int) -> pd.DataFrame:
    """At most `limit` flows of the named classes, drawn so that classes have the shares of `support`."""
    counts = flows["class"].value_counts()
    shares = support / support.sum()
    total = min(limit, int((counts.reindex(shares.index) / shares).min()))
    random = np.random.default_rng(seed)
    rows = [
        random.choice(np.flatnonzero(flows["class"] == name), max(round(total * share), 4), replace=False)
        for name, share in shares.items()
    ]
    return flows.iloc[np.sort(np.concatenate(rows))].reset_index(drop=True)


def forest(trees: int, seed: int, *, balanced: bool = False) -> RandomForestClassifier:
    """The classifier that most experiments use: quick, indifferent to scale, and not led astray by single labels."""
    weight = "balanced_subsample" if balanced else None
    return RandomForestClassifier(trees, min_samples_leaf=5, class_weight=weight, random_state=seed)


def named_confusion(rows: Rows, predicted: NDArray[Any]) -> Floats:
    """Rows: labels as given (not the right ones); columns: predictions. Rows sum to 1."""
    matrix = confusion(rows.labels[rows.split[1]], predicted, classes=NAMED_CLASSES).to_numpy(float)
    return matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)


def published_counts() -> Floats:
    """What precision, recall and support of the report's transformer say of its confusion.

    Shape (3, 3): labels WEB, P2P, and MAILS with SKYPE; named P2P, WEB, something else. It named nothing MAILS or
    SKYPE, so that every cell follows.
    """
    table = reported("transformer") / 100
    support = 100 * table["support"].drop("all")
    hits = (table["recall"].drop("all") * support).round()
    named = hits / table["precision"].drop("all").replace(0, np.nan)
    web_as_p2p, p2p_as_web = support["WEB"] - hits["WEB"], support["P2P"] - hits["P2P"]
    rest_as_p2p = round(named["P2P"] - hits["P2P"] - web_as_p2p)
    rest = support["MAILS"] + support["SKYPE"]
    return np.array(
        [[web_as_p2p, hits["WEB"], 0], [hits["P2P"], p2p_as_web, 0], [rest_as_p2p, rest - rest_as_p2p, 0]], float
    )


def collapse(confusions: Floats) -> Floats:
    """Confusions (..., 4, 4) over NAMED_CLASSES, rows summing to 1, as rows and columns of `published_counts`."""
    places = {name: place for place, name in enumerate(NAMED_CLASSES)}
    support = reported("transformer")["support"]
    rest = (support["MAILS"], support["SKYPE"])
    rows = np.stack(
        [
            confusions[..., places["WEB"], :],
            confusions[..., places["P2P"], :],
            (rest[0] * confusions[..., places["MAILS"], :] + rest[1] * confusions[..., places["SKYPE"], :]) / sum(rest),
        ],
        axis=-2,
    )
    p2p, web = rows[..., places["P2P"]], rows[..., places["WEB"]]
    return np.stack([p2p, web, np.maximum(1 - p2p - web, 0)], axis=-1)


@dataclass(frozen=True)
class NoiseFit:
    """The share of re-drawn labels under which a confusion is likeliest.

    share : the maximum; low, high : 95 % of the bootstrap (counts and repetitions drawn anew). profile : share,
    log_likelihood below the maximum (nats). fitted, published : (3, 3) rows summing to 1, as `published_counts`.
    distance : share of flows in other cells than published.
    """

    share: float
    low: float
    high: float
    profile: pd.DataFrame
    fitted: Floats
    published: Floats
    distance: float


LEAST = 1e-3  # no cell is thought impossible
FINE = np.linspace(0, 0.95, 191)


def fit_noise(shares: Sequence[float], curves: Floats, counts: Floats, seed: int, *, draws: int = 300) -> NoiseFit:
    """Fit the share of re-drawn labels to counts (3, 3) by maximum likelihood.

    curves : (repetitions, shares, 4, 4), the confusions measured at `shares`; between them every cell is interpolated.
    """
    by_repetition = np.stack([_interpolate(shares, collapse(each)) for each in curves])
    observed = counts / counts.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=1).astype(int)

    def likelihood(model: Floats, seen: Floats) -> Floats:
        floored = np.maximum(model, LEAST)
        return (seen * np.log(floored / floored.sum(axis=-1, keepdims=True))).sum(axis=(-1, -2))

    random = np.random.default_rng(seed)
    mean = by_repetition.mean(axis=0)
    profile = likelihood(mean, counts)
    best = int(profile.argmax())
    drawn = []
    for _ in range(draws):
        again = np.stack([random.multinomial(total, row) for total, row in zip(totals, observed, strict=True)])
        model = by_repetition[random.integers(0, len(by_repetition), len(by_repetition))].mean(axis=0)
        drawn.append(FINE[likelihood(model, again.astype(float)).argmax()])
    low, high = np.quantile(drawn, (0.025, 0.975))
    weights = totals / totals.sum()
    distance = float((np.abs(mean[best] - observed).sum(axis=1) / 2 * weights).sum())
    table = pd.DataFrame({"share": FINE, "log_likelihood": profile - profile.max()})
    return NoiseFit(float(FINE[best]), float(low), float(high), table, mean[best], observed, distance)


def _interpolate(shares: Sequence[float], values: Floats) -> Floats:
    """Values (shares, ...) at FINE."""
    flat = values.reshape(len(shares), -1)
    columns = [np.interp(FINE, shares, column) for column in flat.T]
    return np.stack(columns, axis=-1).reshape(len(FINE), *values.shape[1:])


# Captures changed on purpose.


@dataclass
class Packets:
    """A classic pcap capture of Ethernet frames, to be changed in place: its bytes, and where each record begins."""

    content: NDArray[np.uint8]
    starts: NDArray[np.int64]
    captured: NDArray[np.int64]
    byte_order: str

    @classmethod
    def read(cls, path: Path) -> Packets:
        """Raises NetreproError where the file is no classic pcap capture of Ethernet frames."""
        content = b"".join(b"".join(chunks) for chunks in CaptureFile(path).captures())
        order = "<" if content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        words = np.dtype(f"{order}u4")
        if content[:4] == b"\n\r\r\n" or int(np.frombuffer(content, words, 1, 20)[0]) & 0xFFFF != 1:
            raise NetreproError(f"{path.name} is no pcap capture of Ethernet frames", "the stand-in's captures are")
        starts, sizes, place = [], [], 24
        kind = "little" if order == "<" else "big"
        while place + 16 <= len(content):
            size = int.from_bytes(content[place + 8 : place + 12], kind)  # type: ignore[arg-type]
            starts.append(place)
            sizes.append(size)
            place += 16 + size
        return cls(np.frombuffer(content, np.uint8).copy(), np.array(starts), np.array(sizes), order)

    @property
    def ip(self) -> NDArray[np.int64]:
        """Where each packet's IPv4 header begins."""
        return self.starts + 16 + 14

    def _word(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.content[places].astype(np.int64) << 8 | self.content[places + 1]

    def _set_ip_length(self, lengths: NDArray[np.int64]) -> None:
        self.content[self.ip + 2], self.content[self.ip + 3] = lengths >> 8, lengths & 255

    def count_captured_bytes(self) -> None:
        """The IP length becomes what was captured, as a tool does that reads the record and not the header."""
        self._set_ip_length(self.captured - 14)

    def count_transport_bytes(self) -> None:
        """The IP length loses the IP header. A meter that checks lengths could refuse that, ours does not."""
        self._set_ip_length(self._word(self.ip + 2) - 4 * (self.content[self.ip] & 15).astype(np.int64))

    def keep_whole_seconds(self) -> None:
        """Time stamps lose their fractions, as in flowtbag."""
        for byte in range(4, 8):
            self.content[self.starts + byte] = 0

    @property
    def tcp(self) -> NDArray[np.int64]:
        """Where each packet's TCP header begins."""
        return self.ip + 4 * (self.content[self.ip] & 15).astype(np.int64)

    def drop_openings(self) -> None:
        """Nothing is left of each connection's SYN; its SYN-ACK stays."""
        self._keep((self.content[self.tcp + 13] & 18) != 2)

    def drop_handshakes(self) -> None:
        """Nothing is left of each connection's SYN, SYN-ACK and the acknowledgement after it."""
        tcp = self.tcp
        ends = np.stack([self._word(self.ip + 12 + 2 * i) for i in range(4)], axis=1)
        hosts = np.stack([ends[:, 0] << 16 | ends[:, 1], ends[:, 2] << 16 | ends[:, 3]], axis=1)
        ports = np.stack([self._word(tcp), self._word(tcp + 2)], axis=1)
        sides = np.sort(hosts << 16 | ports, axis=1)
        has_syn = (self.content[tcp + 13] & 2) > 0
        connection = pd.DataFrame(sides).groupby([0, 1], sort=False).ngroup()
        # A port that is used again begins a new connection with its SYN.
        opens = has_syn & ((self.content[tcp + 13] & 16) == 0)
        turn = pd.Series(opens).groupby(connection).cumsum()
        order = connection.groupby([connection, turn]).cumcount().to_numpy()
        self._keep((order >= 3) & ~has_syn)

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        parts = [self.content[:24]]
        sizes = 16 + self.captured
        parts += [
            self.content[start : start + size] for start, size in zip(self.starts[kept], sizes[kept], strict=True)
        ]
        self.content, self.captured = np.concatenate(parts), self.captured[kept]
        self.starts = 24 + np.concatenate([[0], np.cumsum(16 + self.captured)[:-1]])

    def copy(self) -> Packets:
        return replace(self, content=self.content.copy())

    def write(self, path: Path) -> None:
        path.write_bytes(self.content.tobytes())


@lru_cache(maxsize=2)
def _read_once(path: Path) -> Packets:
    """One day's packets, which every change takes a copy of."""
    return Packets.read(path)


CHANGES: dict[str, Callable[[Packets], None]] = {
    "captured lengths": Packets.count_captured_bytes,
    "transport lengths": Packets.count_transport_bytes,
    "whole seconds": Packets.keep_whole_seconds,
    "SYNs missed": Packets.drop_openings,
    "handshakes missed": Packets.drop_handshakes,
}


def changed_trace(change: str | None, *, folder: Path | None = None, **metering: Any) -> LabelledFlows:
    """The stand-in at nine packets, metered from captures that were changed, or otherwise metered.

    Its audit does not ask for the published bytes, since the captures hold the beginnings of flows only.
    """
    place = folder or data_dir("gmm_traffic") / "standin"
    captures = sorted(place.glob("day*.pcap.xz"))
    with tempfile.TemporaryDirectory(prefix="netrepro-") as name:
        files = [Path(name) / f"{number}.pcap" for number in range(len(captures))]
        for capture, file in zip(captures, files, strict=True):
            packets = _read_once(capture)
            if change:
                packets = packets.copy()
                CHANGES[change](packets)
            packets.write(file)
        log = place / "groundtruth.log.xz"
        return load_labelled_flows(files, log, first_packets=BEST_PACKETS, clock_offset_s=0.0, **metering)


def all_labelled(found: LabelledFlows) -> pd.DataFrame:
    """The labelled flows, also those that netmate-flowcalc would not export."""
    return found.join.flows[found.join.flows["class"].notna()].reset_index(drop=True)


# Experiments.


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
        """Whether a claim needs it in every repetition."""
        needed = ("right labels", "join by time", f"first {BEST_PACKETS} packets")
        return self.fault == "features" or self.name in needed


def is_time(name: str) -> bool:
    """Whether a feature is made of time stamps."""
    return any(word in name for word in ("iat", "duration", "active", "idle"))


def variants(trace: Trace, scale: Scale, *, progress: Progress = iter) -> list[Variant]:
    """Every variant of E2 to E5, E7 to E10 and E12, with what does not depend on the seed made ready."""
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
    """only_whole : flows without a handshake are left out, as netmate-flowcalc does."""
    found = changed_trace(None, timeout_s=seconds)
    flows = found.flows if only_whole else all_labelled(found)
    words = "no time-out" if seconds is None else f"time-out {seconds:g} s"
    words += "" if only_whole else ", flows without SYN kept"
    return Variant("E8", words, lambda seed: flows, "features", audit=found.audit)


def _joined(trace: Trace, by: str, ahead_s: float) -> Variant:
    """Labels joined another way, or with the log's clock taken to be `ahead_s` ahead."""
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
    """Forest and mixtures trained and tested on a variant's labels, as one does who knows no better."""
    flows = variant.flows(seed)
    counts = flows["class"].value_counts()
    flows = flows[flows["class"].isin(counts[counts >= 12].index)].reset_index(drop=True)
    wrong = float((flows["class"] != flows["right"]).mean()) if "right" in flows else 0.0
    if scale.flows is not None and len(flows) > scale.flows:
        kept, _ = random_split(flows["class"], training_share=scale.flows / len(flows), seed=seed, smallest_class=11)
        flows = flows.iloc[kept].reset_index(drop=True)
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
    rows = make_rows(flows, setting, seed, split=split, columns=variant.columns)
    for name, model in (("forest", forest(scale.trees, seed)), ("mixtures", setting.mixtures(seed))):
        scores = score_table(rows.labels[rows.split[1]], predict(train(model, rows), rows))["value"].to_numpy()
        row |= {f"{name}_accuracy": scores[0], f"{name}_f1": scores[1]}
    return row


@dataclass
class Diagnosis:
    """Everything measured.

    table : a row a variant and repetition, columns TABLE; accuracies and F1 (four classes) in 0..1, `wrong` the share
    of wrong labels, header_bytes and first_packet the means of total_fhlen and fpl1 of WEB flows, audit "passed" or the
    checks that failed.
    method : accuracy in 0..1 of the paper's own method (selected features, MAP) with right labels and joined by time.
    noise : repetition, share, measure, value. curves : (repetitions, shares, 4, 4). fit : to the published confusion.
    recovered : repetition, injected, fitted, control (fitted to confused counts). remedies : as `normalisation_grid`,
    by labels. models : scores of models under the fitted noise, of the transformer with RIGHT labels too.
    naive_bayes : labels, accuracy, named (share of flows named WEB or P2P). verification : labels, first_packets,
    error.
    """

    scale: Scale
    trace: Trace
    fit: NoiseFit
    curves: Floats
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    method: pd.DataFrame = field(default_factory=pd.DataFrame)
    noise: pd.DataFrame = field(default_factory=pd.DataFrame)
    recovered: pd.DataFrame = field(default_factory=pd.DataFrame)
    remedies: pd.DataFrame = field(default_factory=pd.DataFrame)
    models: pd.DataFrame = field(default_factory=pd.DataFrame)
    naive_bayes: pd.DataFrame = field(default_factory=pd.DataFrame)
    verification: pd.DataFrame = field(default_factory=pd.DataFrame)

    def of(self, variant: str, column: str = "forest_accuracy") -> Floats:
        """A column of a variant, a value a repetition."""
        return self.table[self.table["variant"] == variant].sort_values("repetition")[column].to_numpy(float)


def noise_confusion(
    flows: pd.DataFrame, share: float, setting: Setting, model: Any, seed: int
) -> tuple[Rows, NDArray[Any]]:
    """Rows with re-drawn labels, and what the model says of the testing ones."""
    rows = make_rows(flows, setting, seed)
    rows = rows.relabelled(redraw(rows.labels, share, seed))
    return rows, predict(train(model, rows), rows)


def measure(
    trace: Trace, setting: Setting, scale: Scale, repetitions: int, seed: int, *, progress: Progress = iter
) -> Diagnosis:
    """All experiments but E13."""
    seeds = [derived_seed(seed, repetition) for repetition in range(repetitions)]
    with one_thread():
        curves, noise = _measure_noise(trace, setting, scale, seeds, progress)
        fit = fit_noise(scale.noise, curves, published_counts(), seed)
        found = Diagnosis(scale, trace, fit, curves, noise=noise)
        found.recovered = _recover(found, setting, seeds, progress)
        made = variants(trace, scale, progress=progress)
        turns, once = range(repetitions)[: scale.most_variants], scale.others_once
        work = [(i, each) for i in turns for each in made if i == 0 or not once or each.is_in_claims]

        def run_one(repetition: int, variant: Variant) -> dict[str, Any]:
            return try_variant(variant, setting, scale, seeds[repetition]) | {"repetition": repetition}

        found.table = pd.DataFrame(in_processes(run_one, work, progress, at_a_time=8)).reindex(
            columns=[*TABLE, "repetition"]
        )
        by_time = next(each for each in made if each.name == "join by time")
        _measure_rest(found, setting, by_time, seeds, progress)
    return found


def _measure_rest(
    found: Diagnosis, setting: Setting, by_time: Variant, seeds: Sequence[int], progress: Progress
) -> None:
    """Models, remedies, method and verification."""
    steps: dict[str, Callable[[int, int], pd.DataFrame]] = {
        "models": partial(_models, found, setting),
        "naive_bayes": partial(_naive_bayes, found, setting),
        "remedies": partial(_remedies, found, setting),
        "method": partial(_method, found, setting, by_time),
        "verification": partial(_verification, found, setting),
    }
    scale = found.scale
    once, few = (1 if scale.others_once else scale.most_variants), scale.most_variants
    most = {"naive_bayes": scale.most_transformers, "method": few, "verification": once}
    work = [(name, i) for name in steps for i in range(len(seeds))[: most.get(name)]]
    tables = in_processes(lambda name, i: steps[name](seeds[i], i).assign(repetition=i), work, progress)
    for name in steps:
        parts = [table for (each, _), table in zip(work, tables, strict=True) if each == name]
        setattr(found, name, pd.concat(parts, ignore_index=True))


def _flows_as_reported(trace: Trace, scale: Scale, seed: int) -> pd.DataFrame:
    """Whole flows (the report's features) of the four named classes, in the report's shares."""
    support = reported("transformer")["support"].drop("all")
    return match_shares(trace.at(None).flows, support, scale.noise_flows or 10**9, seed)


def _measure_noise(
    trace: Trace, setting: Setting, scale: Scale, seeds: Sequence[int], progress: Progress
) -> tuple[Floats, pd.DataFrame]:
    """The forest's confusion and scores over the share of re-drawn labels (E2)."""
    flows = [_flows_as_reported(trace, scale, seed) for seed in seeds]
    work = [(i, j) for i in range(len(seeds)) for j in range(len(scale.noise))]

    def run_one(i: int, j: int) -> tuple[Floats, dict[str, float]]:
        model = forest(scale.trees, seeds[i])
        used, predicted = noise_confusion(flows[i], scale.noise[j], setting, model, seeds[i])
        return named_confusion(used, predicted), _scores(used, predicted)

    curves = np.zeros((len(seeds), len(scale.noise), 4, 4))
    rows = []
    for (i, j), (matrix, scores) in zip(work, in_processes(run_one, work, progress, at_a_time=4), strict=True):
        curves[i, j] = matrix
        rows += [(i, scale.noise[j], name, value) for name, value in scores.items()]
    return curves, pd.DataFrame(rows, columns=["repetition", "share", "measure", "value"])


def _scores(rows: Rows, predicted: NDArray[Any]) -> dict[str, float]:
    """Accuracy, macro-F1 of the named, and each class's precision and recall (0 where nothing is named so)."""
    matrix = confusion(rows.labels[rows.split[1]], predicted, classes=NAMED_CLASSES)
    table = class_scores(matrix).fillna(0)
    found = {"accuracy": float(np.trace(matrix) / matrix.to_numpy().sum()), "macro-F1": float(table["f1"].mean())}
    for name in NAMED_CLASSES:
        found |= {f"{name} {measure}": float(table.loc[name, measure]) for measure in ("precision", "recall")}
    return found


def _recover(found: Diagnosis, setting: Setting, seeds: Sequence[int], progress: Progress) -> pd.DataFrame:
    """Fit shares that were put in, on splits and draws other than those that the curves were measured on."""
    support = reported("transformer")["support"]
    totals = np.array([support["WEB"], support["P2P"], support["MAILS"] + support["SKYPE"]])

    def run_one(i: int, share: float) -> tuple[int, float, float, float]:
        fresh = derived_seed(seeds[i], 1)
        flows = _flows_as_reported(found.trace, found.scale, fresh)
        used, predicted = noise_confusion(flows, share, setting, forest(found.scale.trees, fresh), fresh)
        counts = collapse(named_confusion(used, predicted)) * totals[:, None]
        confused = counts[[1, 0, 2]]
        fitted, control = (
            fit_noise(found.scale.noise, found.curves, each, 0, draws=2).share for each in (counts, confused)
        )
        return i, share, fitted, control

    work = [(i, share) for i in range(len(seeds)) for share in INJECTED]
    rows = in_processes(run_one, work, progress, at_a_time=2)
    return pd.DataFrame(rows, columns=["repetition", "injected", "fitted", "control"])


def _method(found: Diagnosis, setting: Setting, by_time: Variant, seed: int, _: int) -> pd.DataFrame:
    """The paper's own method, selection and all, with right labels and with labels joined by time (E1)."""
    row: dict[str, float] = {}
    for words, flows in (("right", found.trace.at().flows), ("by time", by_time.flows(seed))):
        limit = found.scale.flows
        kept = flows if limit is None else flows.sample(min(limit, len(flows)), random_state=seed)
        counts = kept["class"].value_counts()
        kept = kept[kept["class"].isin(counts[counts >= 8].index)].reset_index(drop=True)
        used = make_rows(kept, setting, seed)
        used = used.only(select_features(used, setting)["feature"])
        predicted = predict(train(setting.mixtures(seed), used), used)
        row[words] = float((predicted == used.labels[used.split[1]]).mean())
    return pd.DataFrame([row])


def _remedies(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """Normalisation, prior and regularisation, with right labels and under the fitted noise (E6)."""
    flows = _flows_as_reported(found.trace, found.scale, seed)
    noisy = flows.assign(**{"class": redraw(flows["class"].to_numpy(str), found.fit.share, seed)})
    return pd.concat(
        [
            normalisation_grid(each, setting, seed, others=()).assign(labels=labels)
            for labels, each in (("right labels", flows), ("fitted noise", noisy))
        ]
    )


def _models(found: Diagnosis, setting: Setting, seed: int, repetition: int) -> pd.DataFrame:
    """Forests and neural models, plain and balanced, under the fitted noise; the transformer with right labels too.

    Neural models see the features that the mixtures' search selects, and at most `neural_rows` rows train them.
    """
    rows = []
    profile = scale_of("paper" if found.scale.flows is None else "quick")
    flows = _flows_as_reported(found.trace, found.scale, seed)
    for words, balanced in (("forest", False), (f"forest{BALANCED}", True)):
        model = forest(found.scale.trees, seed, balanced=balanced)
        rows.append({"model": words} | _scores(*noise_confusion(flows, found.fit.share, setting, model, seed)))
    most = found.scale.most_transformers
    if most is not None and repetition >= most:
        return pd.DataFrame(rows)
    for labels, share in (("", found.fit.share), (RIGHT, 0.0)):
        used, _ = noise_confusion(flows, share, setting, forest(1, seed), seed)
        used = used.only(select_features(used, setting)["feature"])
        used = used.trained_on(np.random.default_rng(seed).permutation(used.split[0])[: profile.neural_rows])
        for name in neural_models():
            if name != TRANSFORMER and (repetition or labels):
                continue  # no claim needs it
            for words, balanced in ((name, False), (f"{name}{BALANCED}", True)):
                model = make_model(name, setting, profile, seed).set_params(oversampling=balanced)
                rows.append({"model": words + labels} | _scores(used, predict(train(model, used), used)))
    return pd.DataFrame(rows)


def _naive_bayes(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """The report's naive Bayes at four packets, with right labels and under the fitted noise."""
    support = reported("transformer")["support"].drop("all")
    flows = match_shares(found.trace.at(4).flows, support, found.scale.noise_flows or 10**9, seed)
    given = make_rows(flows, setting, seed, normalisation="z")
    noisy = given.relabelled(redraw(given.labels, found.fit.share, seed))
    rows = []
    for labels, used in (("right labels", given), ("fitted noise", noisy)):
        # A feature that few rows all share has no variance: its likelihood is no number, and the search passes it by.
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # Skype: six of 400 rows
            used = used.only(own_features("NB", used, setting, seed, limit=found.scale.search_rows))
            predicted = predict(train(CLASSIFIERS["NB"](seed), used), used)
        correct = predicted == used.labels[used.split[1]]
        rows.append((labels, float(correct.mean()), float(np.isin(predicted, ("WEB", "P2P")).mean())))
    return pd.DataFrame(rows, columns=["labels", "accuracy", "named"])


def _verification(found: Diagnosis, setting: Setting, seed: int, _: int) -> pd.DataFrame:
    """The likelihood test's error with right labels and under the fitted noise (E11)."""
    rows = []
    for packets in (3, 6, 9):
        flows = take(found.trace.at(packets), found.scale.flows, seed)
        noisy = flows.assign(**{"class": redraw(flows["class"].to_numpy(str), found.fit.share, seed)})
        for labels, each in (("right labels", flows), ("fitted noise", noisy)):
            table = verification(each, setting, seed)
            error = table[table["class"].isin(NAMED_CLASSES)]["half_total_error"].mean()
            rows.append((labels, packets, float(error)))
    return pd.DataFrame(rows, columns=["labels", "first_packets", "error"])


def try_real_captures(
    folder: str, setting: Setting, seed: int, *, trees: int = 100, progress: Progress = iter
) -> pd.DataFrame:
    """E13: all captures of a folder, labelled by packet inspection, split at random and by file.

    Returns split, flows, classes, forest_accuracy, forest_f1, mixtures_accuracy, mixtures_f1; no row where `folder` is
    empty. Raises NetreproError where the folder is missing or too little in it can be labelled.
    """
    columns = ["split", "flows", "classes", "forest_accuracy", "forest_f1", "mixtures_accuracy", "mixtures_f1"]
    if not folder:
        return pd.DataFrame(columns=columns)
    files = sorted(
        path
        for path in Path(check_folder(folder)).iterdir()
        if path.is_file() and not {".pcap", ".pcapng", ".cap"}.isdisjoint(path.suffixes)
    )
    parts = []
    for file in progress(files):
        flows = meter(file, first_packets=BEST_PACKETS).flows
        flows = flows[flows["valid"] & (flows["protocol"] == 6)]
        records = inspect_capture(file) if len(flows) else flows
        if len(flows) and len(records):
            joined = join_labels(flows, records, clock_offset_s=0.0, scan_s=0.0, before_s=5.0, after_s=5.0).flows
            parts.append(joined[joined["class"].notna()].assign(file=file.name))
    flows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"class": []})
    counts = flows["class"].value_counts()
    flows = flows[flows["class"].isin(counts[counts >= 6].index)].reset_index(drop=True) if parts else flows
    if flows["class"].nunique() < 2 or flows["file"].nunique() < 3:
        raise NetreproError(
            f"{folder} has too few labelled flows of two classes in three files", "add captures, or leave pcaps empty"
        )
    labels = flows["class"].to_numpy(str)
    order = np.random.default_rng(seed).permutation(len(flows))
    at_random = [(np.setdiff1d(order, part), np.sort(part)) for part in np.array_split(order, 3)]
    rows = []
    with one_thread():
        for words, splits in (
            ("at random", at_random),
            ("by file", grouped_splits(labels, flows["file"].to_numpy(str), folds=3, seed=seed)),
        ):
            row: dict[str, Any] = {"split": words, "flows": len(flows), "classes": flows["class"].nunique()}
            for name in ("forest", "mixtures"):
                predicted = np.empty(len(flows), object)
                for split in splits:
                    enough = pd.Series(labels[split[0]]).value_counts()
                    training = split[0][np.isin(labels[split[0]], enough[enough >= 2].index)]
                    used = make_rows(flows, setting, seed, split=(training, split[1]))
                    model = forest(trees, seed) if name == "forest" else setting.mixtures(seed)
                    predicted[split[1]] = predict(train(model, used), used)
                scores = score_table(labels, predicted)["value"].to_numpy()
                row |= {f"{name}_accuracy": scores[0], f"{name}_f1": scores[1]}
            rows.append(row)
    return pd.DataFrame(rows, columns=columns)


def check_folder(folder: str) -> str:
    """The folder, once it is known to be empty or one. Raises NetreproError else."""
    if folder and not Path(folder).is_dir():
        raise NetreproError(f"{folder} is no folder", "give a folder of captures, or leave pcaps empty")
    return folder


# Claims.


def measured_claims(found: Diagnosis) -> list[Measured]:
    """One measurement a claim of data/gmm_diagnosis/claims.yaml."""
    audit = found.trace.at().audit
    trust: dict[str, Any] = {"trusted": audit.passed, "why": audit.why}
    right = found.of("right labels")
    again = np.roll(right, 1)
    faults = found.table[found.table["fault"] == "features"].groupby("repetition")["forest_accuracy"].min().to_numpy()
    models = found.models.groupby("model")["accuracy"].agg(list)
    bayes = found.naive_bayes.pivot(index="repetition", columns="labels", values=["accuracy", "named"])
    worst = found.recovered.assign(
        off=found.recovered["fitted"] - found.recovered["injected"],
        broken=found.recovered["control"] - found.recovered["injected"],
    )
    largest = worst.groupby("repetition")[["off", "broken"]].agg(lambda each: each.loc[each.abs().idxmax()])
    remedies = {labels: _order_of_remedies(found.remedies, labels) for labels in ("right labels", "fitted noise")}
    values: dict[str, tuple[Any, Any]] = {
        "method-works-with-right-labels": (found.method["right"], found.method["by time"]),
        "order-of-remedies-under-noise": (remedies["fitted noise"], remedies["right labels"]),
        "labels-explain-the-loss": (right - found.of("join by time"), right - again),
        "features-explain-the-loss": (right - faults, right - again),
        "noise-fit-recovers": (largest["off"], largest["broken"]),
        "header-bytes-of-nine-packets": (
            found.of("first 9 packets", "header_bytes"),
            found.of("whole flows", "header_bytes"),
        ),
        "naive-bayes-accuracy-under-noise": (bayes["accuracy", "fitted noise"], bayes["accuracy", "right labels"]),
        "naive-bayes-names-only-web-and-p2p": (bayes["named", "fitted noise"], bayes["named", "right labels"]),
        "first-packet-of-43-bytes": (
            found.of("right labels", "first_packet"),
            found.of("handshakes missed", "first_packet"),
        ),
    }
    if TRANSFORMER in models:  # without PyTorch these are not measured
        for claim, name in (
            ("transformer-accuracy-under-noise", TRANSFORMER),
            ("balanced-transformer-accuracy-under-noise", TRANSFORMER + BALANCED),
        ):
            values[claim] = (models[name], models[name + RIGHT])
    measured = [
        Measured(
            claim=claim,
            values=list(np.asarray(ours).tolist()),
            control=list(np.asarray(broken).tolist()),
            **trust,
        )
        for claim, (ours, broken) in values.items()
    ]
    longest = packet_lengths(found).max(axis=1) / packet_lengths(found).min(axis=1)
    measured.append(
        Measured(
            claim="first-packet-alike-in-every-class",
            values=[longest["first"]],
            control=[longest["third"]],
            exact=True,
            **trust,
        )
    )
    rejected, kept = audited(found)
    measured.append(
        Measured(
            claim="audit-rejects-wrong-joins",
            successes=int(rejected["rejected"].sum()),
            trials=len(rejected),
            control_successes=int(kept["rejected"].sum()),
            control_trials=len(kept),
            exact=True,
        )
    )
    return measured


def audited(found: Diagnosis) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels of which more than WRONG are wrong, and those joined otherwise that reach most of the flows."""
    of_labels = found.table["experiment"].isin(["E1", "E2", "E3"])
    table = found.table[of_labels & (found.table["repetition"] == 0)]
    table = table.assign(rejected=table["audit"] != "passed")[["variant", "wrong", "flows", "audit", "rejected"]]
    enough = ~table["audit"].str.contains("matched flows")
    return table[table["wrong"] > WRONG], table[(table["wrong"] <= WRONG) & enough]


def _order_of_remedies(table: pd.DataFrame, labels: str) -> list[list[str]]:
    """The report's three mixtures by accuracy, best first; where a lead is less than LEAD, in reverse of its order."""
    asked = {"raw, MLE": ("raw", "mle"), "normalised, MLE": ("z", "mle"), "normalised, MAP": ("z", "map")}
    kept = table[(table["model"] == "GMM") & (table["labels"] == labels) & (table["regularisation"] == 1e-2)]
    orders = []
    for _, rows in kept.groupby("repetition"):
        found = rows.set_index(["normalisation", "prior"])["accuracy"].fillna(0)
        order: list[str] = []
        for name, key in asked.items():  # worst first in the report
            place = next((i for i, other in enumerate(order) if found[key] >= found[asked[other]] + LEAD), len(order))
            order.insert(place, name)
        orders.append(order)
    return orders


def answer(found: Diagnosis) -> str:
    """The question answered in one sentence, with this run's numbers."""
    faults = found.table[found.table["fault"] == "features"].groupby("variant")["forest_accuracy"].mean()
    by_time, right = found.of("join by time").mean(), found.of("right labels").mean()
    return (
        f"Most likely its labels: the report's confusion is that of labels of which {found.fit.share:.0%} "
        f"({found.fit.low:.0%} to {found.fit.high:.0%}) were drawn anew; a join by time alone leaves {by_time:.0%} "
        f"accuracy of {right:.0%}, the worst mistake in metering ({faults.idxmin()}) {faults.min():.0%}. "
        f"The trace itself would have to confirm it."
    )


# Tables and figures.


def summary(found: Diagnosis, *experiments: str) -> pd.DataFrame:
    """Means over the repetitions, in %, a row a variant; all experiments where none is named."""
    table = found.table[found.table["experiment"].isin(experiments)] if experiments else found.table
    numbers = table.groupby(["experiment", "variant"], sort=False)[TABLE[4:9]].mean() * 100
    return numbers.assign(audit=table.groupby(["experiment", "variant"], sort=False)["audit"].first())


def header_lengths(found: Diagnosis) -> pd.DataFrame:
    """Mean forward header bytes of WEB flows by packets seen, beside the most that can be and the class report's."""
    table = found.table[found.table["experiment"] == "E4"].groupby("variant", sort=False)["header_bytes"].mean()
    packets = [each or np.nan for each in found.scale.first_packets]
    report = reported("total_fhlen").loc["WEB", "mean"]
    return pd.DataFrame({"mean bytes": table, "at most": [120 * each for each in packets], "class report": report})


def packet_lengths(found: Diagnosis) -> pd.DataFrame:
    """Mean IP length in bytes of the first and the third packet forward, a column a class."""
    flows = found.trace.at().flows
    means = flows[flows["class"].isin(NAMED_CLASSES)].groupby("class")[["fpl1", "fpl3"]].mean().T
    return means.set_axis(["first", "third"])


def naive_bayes_table(found: Diagnosis) -> pd.DataFrame:
    """Naive Bayes at four packets: accuracy and flows named WEB or P2P, in %, and the class report's."""
    means = 100 * found.naive_bayes.groupby("labels")[["accuracy", "named"]].mean()
    means.loc["class report"] = [reported("naive Bayes at four packets").loc["all", "flow accuracy"], 100]
    return means.rename(columns={"named": "named WEB or P2P"})


def models_table(found: Diagnosis) -> pd.DataFrame:
    """The report's transformer, plain and balanced, beside models under the fitted noise; all in %."""
    ours = 100 * found.models.groupby("model", sort=False).mean(numeric_only=True).drop(columns="repetition")
    rows = {}
    for words, table in (("class report", "transformer"), ("class report, balanced", "transformer balanced")):
        numbers = reported(table)
        rows[words] = {
            "accuracy": numbers.loc["all", "flow accuracy"],
            "macro-F1": numbers.loc["all", "flow macro-F1"],
        } | {f"{name} {each}": numbers.loc[name, each] for name in NAMED_CLASSES for each in ("precision", "recall")}
    return pd.concat([pd.DataFrame(rows).T, ours])[ours.columns]


def draw_idea() -> Figure:
    """Flows and log records on two lines of time; arrows of the right join and of the nearest record."""
    figure, axis = new_figure("Whose label is it?", "time", "")
    starts, names = np.array([0.6, 1.3, 1.5, 2.6, 3.1, 4.2]), ("WEB", "P2P", "WEB", "MAILS", "WEB", "P2P")
    records = starts + np.array([0.5, 0.7, 0.15, 0.6, 0.2, 0.3])
    for start, record, name in zip(starts, records, names, strict=True):
        axis.plot(start, 1, "s", color=scheme(name).colour, ms=10)
        axis.plot(record, 0, "o", color=scheme(name).colour, ms=10)
        axis.annotate("", (record, 0.08), (start, 0.92), arrowprops={"arrowstyle": "->", "color": "#555555"})
        near = records[np.argmin(np.abs(records - start))]
        if near != record:
            look = {"arrowstyle": "->", "color": "#D55E00", "linestyle": "--"}
            axis.annotate("", (near, 0.08), (start, 0.92), arrowprops=look)
    axis.set_yticks([0, 1], ["log of\nlabels", "flows"])
    axis.set(ylim=(-0.5, 1.7), xlim=(0.2, 5.2), xticks=[])
    axis.text(0.3, 1.3, "grey: same addresses and ports\ndashed: nearest in time, another flow's")
    for name in ("WEB", "P2P", "MAILS"):
        axis.plot([], [], "s", color=scheme(name).colour, label=name)
    axis.legend(loc="lower right", ncols=3)
    axis.grid(False)
    return figure


def draw_scan(found: Diagnosis) -> Figure:
    """Share of flows that find a record by their endpoints, over the clock offset tried (E1)."""
    figure, axis = new_figure("E1: is the log's clock right?", "clock offset tried (minutes)", "flows matched (%)")
    scan = found.trace.at().join.scan
    axis.plot(scan["offset_s"] / 60, 100 * scan["matched"], color=scheme("GMM").colour)
    axis.axvline(found.trace.at().join.clock_offset_s / 60, color=PUBLISHED_GREY, linestyle="--", label="used")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_variants(found: Diagnosis, title: str, *experiments: str) -> Figure:
    """Accuracy of forest and mixtures for every variant; for joins, wrong labels and the audit's verdict beside."""
    table = summary(found, *experiments)
    figure, axis = new_figure(title, "accuracy on the labels given (%)", "")
    figure.set_size_inches(8.5, 1.6 + 0.34 * len(table))
    places = np.arange(len(table))[::-1]
    axis.barh(places + 0.2, table["forest_accuracy"], 0.38, color=scheme("RF").colour, label="random forest")
    axis.barh(places - 0.2, table["mixtures_accuracy"], 0.38, color=scheme("GMM").colour, label="Gaussian mixtures")
    names = [f"{experiment}  {variant}" for experiment, variant in table.index]
    axis.set_yticks(places, names)
    for place, (_, row) in zip(places, table.iterrows(), strict=True):
        words = "nothing matches" if np.isnan(row["wrong"]) else f"{row['wrong']:.0f} % wrong" if row["wrong"] else ""
        words += ("; " if words else "") + ("audit passed" if row["audit"] == "passed" else "audit failed")
        axis.text(101, place, words, va="center", fontsize=8)
    axis.axvline(69.06, color=PUBLISHED_GREY, linestyle="--", label="class report, transformer")
    axis.set_xlim(0, 100)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def draw_noise(found: Diagnosis) -> Figure:
    """Scores over the share of re-drawn labels, the class report's as dotted lines; shaded: the fitted share (E2)."""
    figure, axes = new_figure("E2: labels drawn anew", "share of labels drawn anew (%)", "%", columns=2)
    means = 100 * found.noise.groupby(["measure", "share"])["value"].mean().unstack(0)
    numbers = reported("transformer")
    looks = {"accuracy": (scheme("RF"), numbers.loc["all", "flow accuracy"]),
             "macro-F1": (scheme("GMM"), numbers.loc["all", "flow macro-F1"])}  # fmt: skip
    for name, (look, level) in looks.items():
        axes[0].plot(100 * means.index, means[name], color=look.colour, marker=look.marker, label=name)
        axes[0].axhline(level, color=look.colour, linestyle=":", lw=1)
    for name in NAMED_CLASSES:
        look = scheme(name)
        axes[1].plot(100 * means.index, means[f"{name} recall"], color=look.colour, marker=look.marker, label=name)
        axes[1].axhline(numbers.loc[name, "recall"], color=look.colour, linestyle=":", lw=1)
    for axis, title in zip(axes, ("all flows", "recall by class"), strict=True):
        axis.axvspan(
            100 * found.fit.low, 100 * found.fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="fitted share"
        )
        axis.plot([], [], ":", color="black", label="class report")
        axis.set_title(title, fontsize=10)
        axis.set_ylim(-2, 102)
        axis.legend(fontsize=8)
    return figure


def draw_fit(found: Diagnosis) -> Figure:
    """The likelihood of the published confusion over the share, and the published and fitted confusion."""
    figure, axes = new_figure("Which share fits the report's confusion?", "", "", columns=2)
    profile = found.fit.profile
    axes[0].plot(100 * profile["share"], profile["log_likelihood"], color=scheme("GMM").colour)
    axes[0].axvspan(
        100 * found.fit.low, 100 * found.fit.high, color=PUBLISHED_GREY, alpha=0.3, lw=0, label="95 % interval"
    )
    axes[0].set(xlabel="share of labels drawn anew (%)", ylabel="log likelihood below the best (nats)")
    axes[0].set_yscale("symlog", linthresh=10)
    axes[0].legend(loc="upper left")
    names = [f"{label}\nas {named}" for label in ("WEB", "P2P", "others") for named in ("P2P", "WEB", "other")]
    places = np.arange(9)
    axes[1].bar(places - 0.2, 100 * found.fit.published.ravel(), 0.38, color=PUBLISHED_GREY, label="class report")
    axes[1].bar(places + 0.2, 100 * found.fit.fitted.ravel(), 0.38, color=scheme("RF").colour,
                label=f"forest, {found.fit.share:.0%} drawn anew")  # fmt: skip
    axes[1].set_xticks(places, names, fontsize=8)
    axes[1].set_ylabel("share of the label's flows (%)")
    axes[1].legend()
    return figure


def draw_remedies(found: Diagnosis) -> Figure:
    """Accuracy of the mixtures by normalisation, prior and regularisation, right labels and fitted noise (E6)."""
    flows = f"{found.scale.noise_flows:,} flows at most" if found.scale.noise_flows else "all flows"
    repeated = found.remedies["repetition"].nunique()
    title = f"E6: accuracy of mixtures (%), all 59 features; {flows}, mean of {repeated} repetitions"
    figure, axes = new_figure(title, "normalisation", "", columns=2)
    published = load_claims(SLUG).claim("order-of-remedies-under-noise").published
    table = found.remedies[found.remedies["model"] == "GMM"]
    for axis, labels in zip(axes, ("right labels", "fitted noise"), strict=True):
        kept = table[table["labels"] == labels]
        means = 100 * kept.groupby(["prior", "regularisation", "normalisation"])["accuracy"].mean().unstack()
        means = means[list(NORMALISATIONS)]
        means.index = pd.Index([f"{prior.upper()}, {value:g}" for prior, value in means.index])
        draw_matrix(axis, means, shade=means.fillna(0) / 100)
        met = sum(order == list(published) for order in _order_of_remedies(found.remedies, labels))
        axis.set_title(f"{labels}; the report's order in {met} of {repeated}", fontsize=10)
    axes[0].set_ylabel("prior, regularisation")
    return figure


def draw_training_and_verification(found: Diagnosis) -> Figure:
    """Accuracy over the training share (E10), and the likelihood test's error over first packets (E11)."""
    figure, axes = new_figure("Fewer flows to train on; verification", "", "", columns=2)
    table = summary(found, "E10")
    shares = [100 * each for each in found.scale.training_shares]
    for name, model in (("forest", "RF"), ("mixtures", "GMM")):
        look = scheme(model)
        axes[0].plot(shares, table[f"{name}_accuracy"], color=look.colour, marker=look.marker, label=look.label)
    axes[0].plot([0.5], [96.6], "D", color=PUBLISHED_GREY, label="paper (0.5 % are 395 flows)")
    axes[0].set(xscale="log", xlabel="flows that train (%)", ylabel="accuracy (%)", title="E10")
    axes[0].set_xticks(shares, [f"{each:g}" for each in shares])
    axes[0].minorticks_off()
    for labels, colour in (("right labels", "#0072B2"), ("fitted noise", scheme("control").colour)):
        kept = found.verification[found.verification["labels"] == labels]
        mean = 100 * kept.groupby("first_packets")["error"].mean()
        axes[1].plot(mean.index, mean, "o-", color=colour, label=labels)
    axes[1].plot([6], [7.65], "D", color=PUBLISHED_GREY, label="paper, UNIBS-2009")
    axes[1].set(xlabel="first packets of a flow", ylabel="half total error rate (%)", title="E11", ylim=(0, 55))
    for axis in axes:
        axis.legend(fontsize=8)
    return figure


def draw_real(table: pd.DataFrame) -> dict[str, Figure]:
    """E13, where captures were given."""
    if table.empty:
        return {}
    figure, axis = new_figure("E13: your captures, labelled by inspection", "", "accuracy (%)")
    places = np.arange(len(table))
    for shift, name, model in ((-0.2, "forest", "RF"), (0.2, "mixtures", "GMM")):
        look = scheme(model)
        axis.bar(places + shift, 100 * table[f"{name}_accuracy"], 0.38, color=look.colour, label=look.label)
    axis.set_xticks(places, table["split"])
    axis.legend()
    return {"e13_real_captures": figure}


def real_text(table: pd.DataFrame) -> str:
    """What E13 found, or that it was left out."""
    if table.empty:
        return (
            "E13 was left out: no folder of captures was given (netrepro run gmm_diagnosis -p pcaps=/path/to/folder)."
        )
    rows = table.set_index("split")
    return (
        f"E13: {rows['flows'].iloc[0]} flows of {rows['classes'].iloc[0]} classes; the forest names "
        f"{rows.loc['at random', 'forest_accuracy']:.0%} rightly with flows of one file on both sides, "
        f"{rows.loc['by file', 'forest_accuracy']:.0%} with files apart."
    )


def explore(found: Diagnosis, setting: Setting, seed: int) -> Any:
    """The forest's confusion under a share of re-drawn labels, behind a slider."""
    import ipywidgets as widgets
    from IPython.display import display

    flows = _flows_as_reported(found.trace, replace(found.scale, noise_flows=1200), seed)

    def show(share: int) -> None:
        with one_thread():
            rows, predicted = noise_confusion(flows, share / 100, setting, forest(30, seed), seed)
        figure, axis = new_figure(f"{share} % of labels drawn anew", "named by the forest", "label given")
        draw_matrix(axis, confusion(rows.labels[rows.split[1]], predicted, classes=NAMED_CLASSES))
        display(figure)

    return widgets.interactive(show, share=widgets.IntSlider(65, 0, 100, 5, continuous_update=False))
