"""Sizes of web responses as PackMime-HTTP draws them: Cao, Cleveland, Gao, Jeffay, Smith and Weigle, "Stochastic Models
for Generating Synthetic HTTP Source Traffic", INFOCOM 2004, with the fitted curves of its ns-2 module.

Runs of downloaded files alternate with runs of validations, answers that a cached page is still valid. The length of a
run depends a little on the rate of connections. Here sizes are drawn independently: each kind has its share as in the
module, but the order is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.workloads import PoissonFlows
from netrepro.paths import data_dir

# Weibull run lengths, rounded up: scale; the shape's logit at one connection a second; its increase with each doubling.
RUNS = {"validation": (0.775, 0.718, 0.357), "download": (3.11, 1.293, 0.316)}


@cache
def curves() -> pd.DataFrame:
    """Return the fitted curves: kind ("validation" or "download"), above (the share of files that are larger),
    size_bytes."""
    return pd.read_csv(data_dir("codel") / "packmime_sizes.csv", comment="#")


def mean_run(kind: str, connections_per_s: float) -> float:
    """Compute the mean number of files of one kind in a row: the sum of P(run > k) over k."""
    scale, logit, by_doubling = RUNS[kind]
    shape = 1 / (1 + np.exp(-(logit + by_doubling * np.log2(connections_per_s))))
    return float(np.exp(-((np.arange(10_000) / scale) ** shape)).sum())


def share_of_downloads(connections_per_s: float) -> float:
    """Compute the share of downloads among all responses."""
    downloads, validations = (mean_run(kind, connections_per_s) for kind in ("download", "validation"))
    return downloads / (downloads + validations)


@cache
def response_sizes(connections_per_s: float) -> FlowSizeDistribution:
    """Return the mixture of both kinds of sizes, linear between the points of their curves, up to the greatest download
    (62 MB)."""
    shares = {"download": share_of_downloads(connections_per_s)}
    shares["validation"] = 1 - shares["download"]
    table = curves()
    sizes = np.sort(table.size_bytes.unique())
    below = np.zeros(len(sizes))
    for kind, rows in table.groupby("kind"):
        below += shares[str(kind)] * np.interp(sizes, rows.size_bytes, 1 - rows.above, left=0.0, right=1.0)
    points = [(float(size), min(1.0, float(share))) for size, share in zip(sizes, below, strict=True)]
    points[-1] = (points[-1][0], 1.0)  # includes the few larger ones
    return FlowSizeDistribution(tuple(points), "bytes", "PackMime responses")


def responses(per_s: float, seconds: float, sources: Sequence[str], destinations: Sequence[str]) -> PoissonFlows:
    """Make web responses over Reno, `per_s` a second, for a run of `seconds`."""
    count = max(1, round(per_s * seconds * 0.95))  # so that all begin before the end
    sizes = response_sizes(per_s)
    return PoissonFlows(
        sizes, per_s, count, tuple(sources), tuple(destinations), congestion_control="reno", label="web"
    )
