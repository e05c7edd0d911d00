"""RepFlow's flow completion times in closed form: (1) to (8) of Liu et al., "RepNet" (IEEE TSC 2018),
section 3.

A flow completion time here is normalised by the time without contention and has no unit. The formulas are
printed for two copies, k = 3, M = 44, S_L = 68 and the web-search workload; all of these are free here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from netrepro.errors import NetreproError


class FlowSizes(Protocol):
    """A distribution of flow sizes X in packets, with the methods that the formulas need, such as
    networks.flow_sizes.FlowSizeDistribution.

    mean_rounds_per_size : E[log2(X/k + 1)/X | low < X <= high], in 1/packets; initial_window is k, in packets.
    """

    @property
    def unit(self) -> str:
        """The unit of the sizes; the formulas need "packets"."""

    def mean_inverse(self, low: float | None = None, high: float | None = None) -> float:
        """Compute E[1/X | low < X <= high], in 1/packets."""

    def mean_rounds_per_size(
        self, initial_window: float, low: float | None = None, high: float | None = None
    ) -> float: ...

    def share_of_bytes_below(self, size: float) -> float:
        """Compute the share of all bytes, 0 to 1, that flows of at most `size` packets carry."""


@dataclass(frozen=True)
class ReplicationModel:
    """The queueing model of short flows, sent in several copies, and long ones, sent once.

    Parameters
    ----------
    flow_sizes : in packets.
    extra_load : ε, the load that one more copy of each short flow adds, as a share of the load. The paper
        prints .05; None takes the workload's own share of bytes in short flows (web search: .010).
    initial_window_packets : k.
    burst_packets : M, size of the bursts that load the paths (64 KB; 43.8 packets, printed as 44).
    long_flow_packets : S_L, the size up to which flows count as short (100 KB; 68.5 packets, printed as 68).
    percentile : the percentile of the tail formulas, as a share from 0 to 1.

    Loads of all methods are those without replicas, scalars or arrays in [0, 1), and results have their
    shape; where the replicas push the load of a path to 1 or above, the result is infinite ((4), (6), (8)
    with ε = .05: from load .952 on). Raises NetreproError for loads outside [0, 1) and for settings that
    make no sense.
    """

    flow_sizes: FlowSizes
    extra_load: float | None = 0.05
    initial_window_packets: float = 3
    burst_packets: float = 44
    long_flow_packets: float = 68
    percentile: float = 0.99

    def __post_init__(self) -> None:
        if self.flow_sizes.unit != "packets":
            raise NetreproError("flow sizes in bytes", "give them in packets: .in_packets()")
        for what in ("initial_window_packets", "burst_packets", "long_flow_packets"):
            if not getattr(self, what) > 0:
                raise NetreproError(f"{what} of {getattr(self, what)}", "give a positive number")
        if self.extra_load is not None and not 0 <= self.extra_load <= 1:
            raise NetreproError(f"an extra load of {self.extra_load}", "give a share from 0 to 1, or None")
        if not 0 < self.percentile < 1:
            raise NetreproError(f"percentile {self.percentile}", "give a share between 0 and 1")

    # What the workload contributes.

    @cached_property
    def epsilon(self) -> float:
        """ε: as given, or the share of bytes that short flows carry."""
        if self.extra_load is not None:
            return self.extra_load
        return self.flow_sizes.share_of_bytes_below(self.long_flow_packets)

    @cached_property
    def rounds_per_packet(self) -> float:
        """A = E[log2(X/k + 1)/X | X <= S_L], the integral in (3) and (4)."""
        return self.flow_sizes.mean_rounds_per_size(self.initial_window_packets, None, self.long_flow_packets)

    @cached_property
    def inverse_of_short(self) -> float:
        """E[1/X | X <= S_L]."""
        return self.flow_sizes.mean_inverse(None, self.long_flow_packets)

    @cached_property
    def inverse_of_long(self) -> float:
        """P = E[1/X | X > S_L], beside (8)."""
        return self.flow_sizes.mean_inverse(self.long_flow_packets, None)

    # Loads and waits.

    def path_load(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute (1 + (copies - 1) ε) load: the load of every path once the copies are on it."""
        load = np.asarray(load, dtype=float)
        if not np.all((load >= 0) & (load < 1)):
            raise NetreproError(
                f"load {load}: the queue is unstable from 1 on", "give loads from 0 up to, not including, 1"
            )
        if copies < 1:
            raise NetreproError(f"{copies} copies", "give 1 (TCP), 2 (RepFlow) or more")
        return (1 + (copies - 1) * self.epsilon) * load

    def effective_load(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute ((1 + (copies - 1) ε) load)^copies: the probability that all paths of a flow's copies are busy.

        The paper treats the replicated flow as if alone on one path of this load; for two copies (1 + ε)^2
        load^2.
        """
        return self.path_load(load, copies) ** copies

    def _mean_wait(self, load: np.ndarray) -> np.ndarray:
        """Compute the wait of Pollaczek and Khinchine with bursts of M packets: load M / (2 (1 - load)); infinite from
        load 1 on."""
        stable = np.where(load < 1, load, 0.0)
        return np.where(load < 1, stable * self.burst_packets / (2 * (1 - stable)), math.inf)

    def short_mean(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute (3), or (4) for two copies: the mean completion time of short flows.

        A flow of X packets needs log2(X/k + 1) rounds, each of which waits W; dividing by X and taking means
        over W and X leaves E[W] A + 1.
        """
        return self._mean_wait(self.effective_load(load, copies)) * self.rounds_per_packet + 1

    def long_mean(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute (5), or (6) for two copies of short flows: the mean completion time of long flows.

        X/M rounds, each waiting W: E[W] (X/M)/X + 1, and X cancels. Long flows are sent once, on a path
        whose load the copies of short ones have raised.
        """
        return self._mean_wait(self.path_load(load, copies)) / self.burst_packets + 1

    @property
    def _tail_excess(self) -> float:
        return -math.log1p(-self.percentile) - 1

    def long_tail(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute (7), or (8) for two copies: the 99th percentile of long flows.

        An exponential tail puts the 99th percentile of W at 2 ln 10 E[W]. One round of the flow waits that
        long and the others the mean: the mean completion time plus (2 ln 10 - 1) E[W] E[1/X | X > S_L].
        """
        wait = self._mean_wait(self.path_load(load, copies))
        return self.long_mean(load, copies) + self._tail_excess * wait * self.inverse_of_long

    def short_tail(self, load: float | np.ndarray, copies: int = 1) -> np.ndarray:
        """Compute the 99th percentile of short flows (Fig. 7), by the argument of (7).

        The paper draws it and defers its formula to a supplement that we do not have: this is (7) with short
        flows' mean, E[1/X | X <= S_L] and, with copies, the wait at the effective load. Infinite when sizes
        reach 0.
        """
        wait = self._mean_wait(self.effective_load(load, copies))
        with np.errstate(invalid="ignore"):
            excess = np.where(wait > 0, self._tail_excess * wait * self.inverse_of_short, 0.0)
        return self.short_mean(load, copies) + excess
