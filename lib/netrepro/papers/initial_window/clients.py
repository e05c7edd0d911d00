"""The settings of the initial window's experiments, and their clients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import expon, norm

from netrepro.paths import data_dir
from netrepro.study.setting import parameter

SEGMENT_BYTES = 1430
WIRE_BYTES = SEGMENT_BYTES + 66  # with headers of TCP (including time stamps), IP and Ethernet
REQUEST_BYTES = 400
WINDOWS = (3, 6, 10, 16, 26, 42)
OLD, NEW = 3, 10
PERCENTILES = (10, 50, 90, 95, 96, 97, 99, 99.9)
LEAST_ROUND_TRIP_MS, MOST_ROUND_TRIP_MS = 5.0, 6000.0
LEAST_RATE_KBPS = 28.0  # a modem's rate
MOST_RATE_KBPS = 10_000.0
RANK_CORRELATION = -0.55  # of rate and round trip; see data/initial_window/SOURCES.md
HEADER_SEGMENTS = (3, 4)
MOST_LOSS = 0.3
BUFFER_SPREAD = 0.69  # deviation of the logarithm
APART_S = 0.01  # clients ask one after the other, so that they do not meet at the servers
PATIENCE_S = 900.0
AT_99TH, TRIMMED = (0.985, 0.995), 0.1  # responses at the 99th percentile; share cut at both ends of their differences
LEAST_GAIN_MS = 0.1  # smaller gains count as this for the logarithm
PANELS = {
    "round_trip_ms": "round trip (ms)",
    "rate_kbps": "rate (kb/s)",
    "product_kb": "rate x round trip (kB)",
    "size_segments": "size (segments)",
}


@dataclass(frozen=True)
class Transport:
    """The TCP of the servers.

    receive_window_segments : of the clients. initial_rto_ms : the first timeout, 3 s until RFC 6298 (2011).
    """

    initial_window_segments: int = NEW
    receive_window_segments: int = 4000
    pacing: bool = False
    initial_rto_ms: float = 3000.0


@dataclass(frozen=True)
class Clients(Transport):
    """Clients of a data centre, "average" or "slow", that are drawn from the published distributions.

    Sizes are the published ones times `size_scale`, of at most `most_segments`; buffers (median in kB) are log-normal.
    Wire loss is the published mean times `loss_scale`. service : "search" or "maps", whose responses are smaller.
    evenly : few clients represent many. Their values are evenly spaced in each distribution; only their combination is
    random.
    """

    size_scale: float = parameter(1.0, "size of responses, times the published", low=0.1, high=100)
    buffer_kb: float = parameter(64.0, "median buffer of the clients' links", "kB", low=1, high=1_000_000)
    loss_scale: float = parameter(1.0, "loss on the wire, times the published mean", low=0, high=10)
    most_segments: int = 10_000
    centre: str = "average"
    service: str = "search"
    clients: int = 1000
    evenly: bool = False


@dataclass(frozen=True)
class Setting(Clients):
    """Searches. Each client asks for this many `responses`, one after the other."""

    back_end_ms: float = parameter(200.0, "time between a response's headers and the rest", "ms", low=0, high=10_000)
    responses: int = 1


@dataclass(frozen=True)
class Maps(Clients):
    """Slow clients of Maps, each with this many `connections` at once; no back end."""

    centre: str = "slow"
    service: str = "maps"
    connections: int = 10


@dataclass(frozen=True)
class ClassProject(Transport):
    """The few clients of a class project."""


def published(name: str) -> pd.DataFrame:
    """Read a table of data/initial_window by its name without .csv."""
    return pd.read_csv(data_dir("initial_window") / f"{name}.csv", comment="#")


def published_buckets(centre: str, panel: str) -> pd.DataFrame:
    """Read the published shares and gains of a centre by one of PANELS: upper (NaN for the open bucket), share_percent,
    gain_ms, gain_percent."""
    return published("buckets").query("centre == @centre and panel == @panel")


@lru_cache(maxsize=8)
def population(setting: Clients, seed: int) -> pd.DataFrame:
    """Return a row for each client: round_trip_ms, rate_kbps, product_kb (of these two), size_bytes and header_bytes
    (of a response), loss (on the wire), buffer_bytes. They depend on the seed, but not on the initial window or on
    pacing."""
    percent = published("retransmissions").set_index(["centre", "service", "initial_window_segments"]).percent
    loss = percent[setting.centre, setting.service, OLD] / 100
    rate, other, size, buffer = np.random.default_rng([seed, 13]).standard_normal((4, setting.clients))
    losses = np.random.default_rng([seed, 14]).exponential(loss, setting.clients)
    headers = np.random.default_rng([seed, 15]).choice(HEADER_SEGMENTS, setting.clients)
    tied = RANK_CORRELATION * rate + np.sqrt(1 - RANK_CORRELATION**2) * other
    if setting.evenly:
        rate, tied, size, buffer = (_evenly(drawn, norm) for drawn in (rate, tied, size, buffer))
        losses = _evenly(losses, expon(scale=loss))
    segments = setting.size_scale * size_quantile(setting.service, norm.cdf(size)) / SEGMENT_BYTES
    buffers = 1e3 * setting.buffer_kb * np.exp(BUFFER_SPREAD * buffer)
    return _with_product(
        {
            "round_trip_ms": round_trip_quantile(norm.cdf(tied)),
            "rate_kbps": rate_quantile(setting.centre, norm.cdf(rate)),
            "size_bytes": np.ceil(SEGMENT_BYTES * np.minimum(segments, setting.most_segments)).astype(int),
            "header_bytes": headers * SEGMENT_BYTES,
            "loss": np.minimum(MOST_LOSS, setting.loss_scale * losses),
            "buffer_bytes": np.maximum(2 * WIRE_BYTES, buffers).astype(int),
        }
    )


def sizes_of(setting: Maps, seed: int) -> np.ndarray:
    """Return the bytes of a response for each client (rows) and connection; those of the first are in `population`."""
    first = population(setting, seed).size_bytes.to_numpy()[:, None]
    drawn = np.random.default_rng([seed, 16]).random((len(first), setting.connections - 1))
    others = np.ceil(setting.size_scale * size_quantile(setting.service, drawn)).astype(int)
    return np.hstack([first, np.clip(others, 1, setting.most_segments * SEGMENT_BYTES)])


def class_clients() -> pd.DataFrame:
    """Return a class project's clients, as `population` does: one for each of its round trips, with 28 segments at 1.2
    Mb/s and no loss."""
    round_trips = published("class_gains")["round_trip_ms"].astype(float)
    fixed = {"rate_kbps": 1200.0, "size_bytes": 28 * SEGMENT_BYTES, "loss": 0.0, "buffer_bytes": 100 * WIRE_BYTES}
    return _with_product({"round_trip_ms": round_trips, **fixed})


def _evenly(drawn: np.ndarray, distribution: Any) -> np.ndarray:
    """Replace drawn values, keeping their order, by the middles of equally probable parts of the distribution."""
    return distribution.ppf((np.argsort(np.argsort(drawn)) + 0.5) / len(drawn))


def _with_product(columns: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(columns)
    return table.assign(product_kb=table.rate_kbps * table.round_trip_ms / 8e3)


def round_trip_quantile(share: np.ndarray) -> np.ndarray:
    """Compute the round trip (ms) that a share of the average centre's responses does not exceed (Fig. 5). It is
    interpolated in the logarithm within a bucket."""
    buckets = published_buckets("average", "round_trip_ms")
    ends = np.log([LEAST_ROUND_TRIP_MS, *buckets["upper"].fillna(MOST_ROUND_TRIP_MS)])
    return np.exp(_quantile(share, ends, buckets["share_percent"]))


def rate_quantile(centre: str, share: np.ndarray) -> np.ndarray:
    """Compute the rate (kb/s) that a share of a centre's searches does not exceed (Figs 5 and 6). It is interpolated in
    the logarithm within a bucket."""
    buckets = published_buckets(centre, "rate_kbps")
    ends = np.log([LEAST_RATE_KBPS, *buckets["upper"].fillna(MOST_RATE_KBPS)])
    return np.exp(_quantile(share, ends, buckets["share_percent"]))


def size_quantile(service: str, share: np.ndarray) -> np.ndarray:
    """Compute the size (bytes) that a share of a service's responses does not exceed (Figs 7 and 1). It is interpolated
    within a bucket."""
    buckets = published("sizes").query("service == @service")
    return _quantile(share, np.array([0, *buckets["upper_bytes"]]), buckets["share_percent"])


def _quantile(share: np.ndarray, ends: np.ndarray, shares_percent: pd.Series) -> np.ndarray:
    reached = np.concatenate([[0], np.cumsum(shares_percent)])
    return np.interp(share, reached / reached[-1], ends)
