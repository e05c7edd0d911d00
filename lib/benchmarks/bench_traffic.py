"""Traffic beside its peers, in one run on one machine: only the ratios count.

The flow meter beside nfstream and scapy on header-only captures of the same making; component-wise EM beside
the PyPI package gmm-mml, where that is installed; forward selection beside scikit-learn's
SequentialFeatureSelector over GaussianMixture, whose time is extrapolated from a sample of its fits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs, make_classification
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from netrepro.traffic import ComponentwiseGaussianMixture, MixtureFeatureSelector, meter

PACKETS = 1_000_000
NFSTREAM_PACKETS = 200_000  # the peers get a smaller capture of the same making: they are that much slower
SCAPY_PACKETS = 20_000
ROWS, FEATURES, CLASSES, FOLDS, CHOSEN, COMPONENTS = 20_000, 59, 5, 5, 10, 5


def write_header_only_capture(path: Path, packets: int, *, mean_flow_packets: int = 25, seed: int = 1) -> int:
    """Write a pcap of TCP connections cut to 54 bytes a packet; returns the number of connections.

    Each connection opens, carries data both ways and closes; their packets are interleaved in time.
    """
    random = np.random.default_rng(seed)
    flows = max(packets // mean_flow_packets, 1)
    sizes = 7 + random.geometric(1 / max(mean_flow_packets - 7, 1), flows)
    flow = np.repeat(np.arange(flows), sizes)[:packets]
    place = np.arange(len(flow)) - np.repeat(np.cumsum(sizes) - sizes, sizes)[: len(flow)]
    left = sizes[flow] - place
    gaps_us = random.exponential(30_000, len(flow)).astype(np.int64) + 1
    within_us = np.cumsum(gaps_us)
    start_us = random.uniform(0, 60e6 * packets / 1e6, flows).astype(np.int64)
    time_us = start_us[flow] + within_us - within_us[np.searchsorted(flow, flow)]
    backward = np.where(place < 3, place == 1, random.random(len(flow)) < 0.55)
    backward = np.where(left <= 3, left == 2, backward)
    flags = np.select([place == 0, place == 1, (left <= 3) & (left >= 2)], [0x02, 0x12, 0x11], 0x10)
    data = (place >= 3) & (left > 3)
    flags = np.where(data & (random.random(len(flow)) < 0.3), 0x18, flags)
    ip_bytes = np.where(data, 40 + random.choice([0, 120, 700, 1460], len(flow)), 40)

    order = np.argsort(time_us, kind="stable")
    flow, time_us, backward = flow[order], time_us[order] + 1_600_000_000_000_000, backward[order]
    layout = (
        "seconds <u4, us <u4, captured <u4, wire <u4, mac V12, type >u2, version u1, service u1, length >u2, "
        "rest >u4, life u1, protocol u1, sum >u2, source >u4, destination >u4, source_port >u2, "
        "destination_port >u2, sequence >u8, offset u1, flags u1, window >u2, check >u4"
    )
    record = np.dtype([tuple(field.split()) for field in layout.split(", ")])
    rows = np.zeros(len(flow), record)
    rows["seconds"], rows["us"] = time_us // 1_000_000, time_us % 1_000_000
    rows["captured"], rows["wire"] = 54, 14 + ip_bytes[order]
    rows["type"], rows["version"], rows["length"] = 0x0800, 0x45, ip_bytes[order]
    rows["life"], rows["protocol"], rows["offset"], rows["flags"] = 64, 6, 0x50, flags[order]
    client, server = 0x0A000000 + flow % 5000, 0xC0A80000 + flow % 777
    client_port, web = 10_000 + flow % 50_000, 443
    rows["source"], rows["destination"] = np.where(backward, (server, client), (client, server))
    rows["source_port"] = np.where(backward, web, client_port)
    rows["destination_port"] = np.where(backward, client_port, web)
    header = np.array([0xA1B2C3D4, 0x00040002, 0, 0, 54, 1], "<u4")
    path.write_bytes(header.tobytes() + rows.tobytes())
    return flows


def seconds_of(task: Callable[[], object]) -> float:
    """Wall time: processor time of this process would miss nfstream's workers."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def nfstream_reads(path: Path, **settings: object) -> None:
    from nfstream import NFStreamer

    for _ in NFStreamer(source=str(path), accounting_mode=1, n_meters=1, **settings):
        pass


def scapy_reads(path: Path) -> dict[tuple[object, ...], int]:
    from scapy.layers.inet import IP, TCP
    from scapy.utils import PcapReader

    flows: dict[tuple[object, ...], int] = {}
    with PcapReader(str(path)) as packets:
        for packet in packets:
            ends = sorted([(packet[IP].src, packet[TCP].sport), (packet[IP].dst, packet[TCP].dport)])
            flows[tuple(ends)] = flows.get(tuple(ends), 0) + 1
    return flows


def compare_meters() -> pd.DataFrame:
    """Packets a second of each reader and how many times faster the meter is."""
    with tempfile.TemporaryDirectory() as folder:
        large, middle, small = (Path(folder) / f"{name}.pcap" for name in ("large", "middle", "small"))
        for path, packets in ((large, PACKETS), (middle, NFSTREAM_PACKETS), (small, SCAPY_PACKETS)):
            write_header_only_capture(path, packets)
        statistics = {"statistical_analysis": True, "n_dissections": 0}
        splt = {"splt_analysis": 10, "n_dissections": 0}
        rates = {
            "netrepro meter, 59 features": PACKETS / seconds_of(lambda: meter(large)),
            "nfstream, default": NFSTREAM_PACKETS / seconds_of(lambda: nfstream_reads(middle)),
            "nfstream, statistics": NFSTREAM_PACKETS / seconds_of(lambda: nfstream_reads(middle, **statistics)),
            "nfstream, SPLT of 10": NFSTREAM_PACKETS / seconds_of(lambda: nfstream_reads(middle, **splt)),
            "scapy, 5-tuples only": SCAPY_PACKETS / seconds_of(lambda: scapy_reads(small)),
        }
    table = pd.DataFrame({"packets_per_second": pd.Series(rates).round(0)})
    table["meter_is_times_faster"] = (rates["netrepro meter, 59 features"] / pd.Series(rates)).round(1)
    return table


def compare_componentwise_em() -> pd.DataFrame:
    """Seconds of one start and what it finds, from 15 components down to 1."""
    points, _ = make_blobs(2000, 9, centers=8, random_state=0)
    ours = ComponentwiseGaussianMixture(n_init=1, random_state=0)
    rows = [("netrepro", seconds_of(lambda: ours.fit(points)), ours.n_components_, ours.score(points))]
    try:
        from gmm_mml import GmmMml
    except ImportError:
        rows.append(("gmm-mml is not installed (pip install gmm-mml)", np.nan, 0, np.nan))
    else:
        theirs = GmmMml(kmax=15)
        np.random.seed(0)  # noqa: NPY002 (it draws from the global state)
        seconds = seconds_of(lambda: theirs.fit(points))
        found = GaussianMixture(theirs.bestk, weights_init=theirs.bestpp)
        found.weights_, found.means_ = theirs.bestpp, theirs.bestmu
        covariances = np.moveaxis(theirs.bestcov, 2, 0)
        found.covariances_ = covariances
        found.precisions_cholesky_ = np.array([np.linalg.inv(np.linalg.cholesky(c)).T for c in covariances])
        rows.append(("gmm-mml", seconds, theirs.bestk, found.score(points)))
    table = pd.DataFrame(rows, columns=["component-wise EM", "seconds", "components", "log_likelihood_of_a_row"])
    table["netrepro_is_times_faster"] = (table["seconds"] / rows[0][1]).round(1)
    return table.set_index("component-wise EM").round(4)


class PlainMixtureClassifier(ClassifierMixin, BaseEstimator):
    """One scikit-learn mixture a class, weighed by the class's share."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> PlainMixtureClassifier:
        self.classes_ = np.unique(y)
        parts = [X[y == label] for label in self.classes_]
        self.mixtures_ = [GaussianMixture(COMPONENTS, random_state=0).fit(part) for part in parts]
        self.log_priors_ = np.log([len(part) / len(X) for part in parts])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        scores = np.column_stack([mixture.score_samples(X) for mixture in self.mixtures_])
        return self.classes_[(scores + self.log_priors_).argmax(axis=1)]


def compare_feature_selection() -> pd.DataFrame:
    """Seconds of the whole search, and the macro-F1 of scikit-learn's own mixtures on the features chosen.

    scikit-learn would fit every candidate in every fold at every step. One candidate in one fold is timed at
    four of the steps; the others are interpolated.
    """
    points, labels = make_classification(
        ROWS,
        FEATURES,
        n_informative=12,
        n_redundant=20,
        n_classes=CLASSES,
        class_sep=1.5,
        weights=[0.61, 0.28, 0.06, 0.03, 0.02],
        random_state=0,
    )
    points = StandardScaler().fit_transform(points)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    ours = MixtureFeatureSelector(CHOSEN, n_components=COMPONENTS, cv=folds, n_jobs=2)
    seconds = seconds_of(lambda: ours.fit(points, labels))

    training, testing = next(folds.split(points, labels))

    def fit_one(count: int) -> None:
        columns = points[:, ours.selected_[:count]]
        PlainMixtureClassifier().fit(columns[training], labels[training]).predict(columns[testing])

    timed = [1, 4, 7, CHOSEN]
    steps = np.arange(1, CHOSEN + 1)
    one_fit = np.interp(steps, timed, [seconds_of(lambda count=count: fit_one(count)) for count in timed])
    all_fits = float((one_fit * FOLDS * (FEATURES - steps + 1)).sum())
    refitted = cross_val_score(PlainMixtureClassifier(), ours.transform(points), labels, cv=folds, scoring="f1_macro")
    rows = [
        ("netrepro, 2 threads", seconds, ours.scores_[-1]),
        ("scikit-learn, time extrapolated, F1 on our features", all_fits, refitted.mean()),
    ]
    table = pd.DataFrame(rows, columns=["forward selection", "seconds", "macro_f1"])
    table["netrepro_is_times_faster"] = (table["seconds"] / seconds).round(0)
    return table.set_index("forward selection").round(3)


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """The three comparisons; they are the same quick or thorough."""
    return {
        "flow meter": compare_meters(),
        "component-wise EM": compare_componentwise_em(),
        "forward selection": compare_feature_selection(),
    }
