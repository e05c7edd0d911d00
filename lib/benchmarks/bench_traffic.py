"""Traffic beside its peers, in one run on one machine: only the ratios count.

The flow meter beside argus, nfpcapd, tshark, cicflowmeter, nfstream and scapy on header-only captures of the same
making, where these are installed; component-wise EM beside the PyPI package gmm-mml, likewise; forward selection beside
scikit-learn's SequentialFeatureSelector over GaussianMixture, whose time is extrapolated from a sample of its fits.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs, make_classification
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from netrepro.programs import need_program, why_missing
from netrepro.traffic import ComponentwiseGaussianMixture, MixtureFeatureSelector, meter

# Packets of three captures of one making: slow meters get the smaller ones.
LARGE, MIDDLE, SMALL = 1_000_000, 200_000, 20_000
REPEATS = 3  # of the large one, whose quickest counts: the others had to wait for other programs
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
    return int(flow.max()) + 1  # the last ones may not have begun


def seconds_of(task: Callable[[], object]) -> float:
    """Wall time."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def seconds_and_processor_seconds_of(task: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall time; user and system time of this process and of the children that it has waited for; what the task
    returns."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    start, before = time.perf_counter(), used()
    found = task()
    return time.perf_counter() - start, used() - before, found


@dataclass(frozen=True)
class Meter:
    """What turns a capture into flows.

    packets : of its capture. run : (capture, empty folder) -> anything; this is timed.
    look : (folder, what run returned) -> flows, columns of each; this is not.
    programs, module : what has to be on the PATH, its reader too, or to be importable. remedy : where that comes from.
    """

    name: str
    packets: int
    run: Callable[[Path, Path], Any]
    look: Callable[[Path, Any], tuple[int, int]]
    programs: tuple[str, ...] = ()
    module: str = "netrepro"
    remedy: str = ""

    @property
    def is_there(self) -> bool:
        return not why_missing(*self.programs) and bool(find_spec(self.module))


def called(name: str, *words: str | Path) -> str:
    """What a program prints."""
    command = [need_program(name), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


# What argus' reader can print of a record that argus has written without further options.
ARGUS_FIELDS = (
    *("stime", "ltime", "dur", "mean", "stddev", "sum", "min", "max", "trans", "flgs", "seq", "state", "dir"),
    *("smac", "dmac", "saddr", "daddr", "proto", "sport", "dport", "stos", "dtos", "sttl", "dttl", "sipid", "dipid"),
    *("spkts", "dpkts", "sbytes", "dbytes", "sappbytes", "dappbytes", "pcr", "sload", "dload", "srate", "drate"),
    *("sloss", "dloss", "sploss", "dploss", "sgap", "dgap", "sintpkt", "dintpkt", "sjit", "djit"),
    *("swin", "dwin", "stcpb", "dtcpb", "tcprtt", "synack", "ackdat", "tcpopt"),
    *("smaxsz", "dmaxsz", "sminsz", "dminsz", "smeansz", "dmeansz"),
)


def look_at_argus(folder: Path, _: object) -> tuple[int, int]:
    printed = called("ra", "-n", "-c", ",", "-L0", "-s", *ARGUS_FIELDS, "-r", folder / "flows", "-", "tcp")
    rows = printed.splitlines()[1:]
    return len(rows), sum(bool(field.strip()) for field in rows[0].split(","))


def look_at_nfdump(folder: Path, _: object) -> tuple[int, int]:
    flows = json.loads(called("nfdump", "-R", folder, "-o", "json"))
    return len(flows), len(flows[0].keys() - {"type", "label"})


def look_at_csv(folder: Path, _: object) -> tuple[int, int]:
    header, *rows = (folder / "flows").read_text().splitlines() or [""]
    return len(rows), len(header.split(",")) if header else 0


def look_at_tshark(_: Path, printed: str) -> tuple[int, int]:
    rows = [line for line in printed.splitlines() if "<->" in line]
    return len(rows), 12  # two addresses and ports, packets and bytes of both ways and in all, start, duration


def nfstream_reads(path: Path, **settings: object) -> tuple[int, int]:
    from nfstream import NFStreamer

    flows = columns = 0
    for flow in NFStreamer(source=str(path), accounting_mode=1, n_meters=1, **settings):
        flows += 1
        columns = columns or len(flow.keys())
    return flows, columns


def scapy_reads(path: Path) -> tuple[int, int]:
    from scapy.layers.inet import IP, TCP
    from scapy.utils import PcapReader

    flows: dict[tuple[object, ...], int] = {}
    with PcapReader(str(path)) as packets:
        for packet in packets:
            ends = sorted([(packet[IP].src, packet[TCP].sport), (packet[IP].dst, packet[TCP].dport)])
            flows[tuple(ends)] = flows.get(tuple(ends), 0) + 1
    return len(flows), 5


def in_python(name: str, packets: int, read: Callable[..., tuple[int, int]], module: str, **settings: object) -> Meter:
    def run(path: Path, _: Path) -> tuple[int, int]:
        return read(path, **settings)

    return Meter(name, packets, run, lambda _, found: found, module=module, remedy=f"pip install {module}")


OURS = in_python("netrepro meter", LARGE, lambda path: meter(path).flows.shape, "netrepro")
BY_TWO_CORES = in_python(f"{OURS.name}, cores=2", LARGE, lambda path: meter(path, cores=2).flows.shape, "netrepro")
METERS = (
    OURS,
    BY_TWO_CORES,
    Meter(
        "argus",
        LARGE,
        lambda path, folder: called("argus", "-r", path, "-w", folder / "flows"),
        look_at_argus,
        programs=("argus", "ra"),
        remedy="apt-get install argus-server argus-client",
    ),
    Meter(
        "nfpcapd, a flow each way",
        LARGE,
        lambda path, folder: called("nfpcapd", "-r", path, "-w", folder),
        look_at_nfdump,
        programs=("nfpcapd", "nfdump"),
        remedy="apt-get install nfdump",
    ),
    Meter(
        "tshark, conversations",
        MIDDLE,
        # Without what it does besides, which doubles its time.
        lambda path, _: called(
            *("tshark", "-n", "-q", "-r", path, "-z", "conv,tcp", "--disable-protocol", "tls"),
            *("-o", "tcp.analyze_sequence_numbers:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"),
        ),
        look_at_tshark,
        programs=("tshark",),
        remedy="apt-get install tshark",
    ),
    in_python("nfstream, default", MIDDLE, nfstream_reads, "nfstream"),
    in_python("nfstream, statistics", MIDDLE, nfstream_reads, "nfstream", statistical_analysis=True, n_dissections=0),
    in_python("nfstream, SPLT of 10", MIDDLE, nfstream_reads, "nfstream", splt_analysis=10, n_dissections=0),
    Meter(
        "cicflowmeter",
        SMALL,
        lambda path, folder: called("cicflowmeter", "-f", path, "-c", folder / "flows"),
        look_at_csv,
        programs=("cicflowmeter",),
        # With later scapy it writes nothing.
        remedy="pip install cicflowmeter 'scapy<2.6' into an environment of its own, on the PATH",
    ),
    in_python("scapy, 5-tuples only", SMALL, scapy_reads, "scapy"),
)


def measure_meter(one: Meter, path: Path) -> tuple[float, float, int, int]:
    """Seconds, processor seconds, flows and columns."""
    quickest, flows, columns = np.full(2, np.inf), 0, 0
    for _ in range(REPEATS if one.packets == LARGE else 1):
        with tempfile.TemporaryDirectory() as folder:
            *seconds, found = seconds_and_processor_seconds_of(lambda to=Path(folder): one.run(path, to))
            quickest = np.minimum(quickest, seconds)
            flows, columns = one.look(Path(folder), found)
    return *quickest.tolist(), flows, columns


def compare_meters() -> pd.DataFrame:
    """Packets a second of each meter, by the clock and of processor time, what it writes, and how many times faster
    ours is: by one core of processor time, by two cores by the clock.

    A program's start counts; it is a fifth of tshark's time, and little beside the others'. Some have several threads.
    Columns are what the peer's own reader shows of a flow. What is not installed has a row that says where it comes
    from.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        captures = {packets: Path(folder) / f"{packets}.pcap" for packets in (LARGE, MIDDLE, SMALL)}
        for packets, path in captures.items():
            write_header_only_capture(path, packets)
        meter(captures[SMALL])  # what is made once a process
        for one in METERS:
            if not one.is_there:
                missing = f"{one.name} is not installed ({one.remedy})"
                rows.append((missing, np.nan, np.nan, np.nan, pd.NA, pd.NA, np.nan, np.nan))
                continue
            found = measure_meter(one, captures[one.packets])
            rows.append((one.name, one.packets, *found, *(one.packets / seconds for seconds in found[:2])))
    names = ["flow meter", "packets", "seconds", "processor_s", "flows", "columns"]
    names += ["packets_per_s", "packets_per_processor_s"]
    table = pd.DataFrame(rows, columns=names).set_index("flow meter")
    return table.assign(
        netrepro_is_times_faster=table["packets_per_processor_s"][OURS.name] / table["packets_per_processor_s"],
        two_cores_are_times_faster=table["packets_per_s"][BY_TWO_CORES.name] / table["packets_per_s"],
    ).convert_dtypes()


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
