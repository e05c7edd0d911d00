"""Flows sent several times over parallel M/G/1 paths: the delay of each copy, by simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import netrepro._core as _core
from netrepro.errors import NetreproError, nearest
from netrepro.queueing.mg1 import check_load
from netrepro.queueing.service import Service

PATH_CHOICES = ("hashed", "distinct", "same")


def slow_start_rounds(sizes_packets: np.ndarray, initial_window_packets: float, whole: bool) -> np.ndarray:
    """Compute rounds of slow start, log2(X/k + 1), shape of `sizes_packets`; `whole` rounds them up, as TCP does."""
    rounds = np.log2(np.asarray(sizes_packets) / initial_window_packets + 1)
    # X = k (2^n - 1) takes n rounds, also when log2 rounds to a little more.
    return np.ceil(rounds - 1e-12) if whole else rounds


def window_rounds(sizes_packets: np.ndarray, window_packets: float, whole: bool) -> np.ndarray:
    """Compute the rounds of a constant window, X/M, shape of `sizes_packets`; `whole` rounds them up."""
    rounds = np.asarray(sizes_packets) / window_packets
    return np.ceil(rounds - 1e-12) if whole else rounds


@dataclass(frozen=True)
class ReplicatedPaths:
    """Parallel paths of equal load, and how flows are replicated over them.

    Parameters
    ----------
    load : busy share of every path, replicas included.
    bursts : sizes of the bursts that load the paths, in packets; capacity is one packet a time unit.
    paths : number of paths.
    copies : number of copies of each flow; 1 is TCP, 2 RepFlow.
    path_choice : "hashed", each copy on a random path, independently (ECMP: two copies share one with probability
        1/paths); "distinct", all on different paths; "same", all on one path, a control in which replication
        cannot help.
    correlation : share of a path's bursts that hit all paths at the same moment, 0 to 1.
    round_gap_packets : mean time from one round to the next, in packet times.
    flow_gap_packets : mean time from the last round of a flow to the first of the next. Longer makes flows
        less alike.

    Raises NetreproError for a setting out of range.
    """

    load: float
    bursts: Service
    paths: int = 3
    copies: int = 2
    path_choice: str = "hashed"
    correlation: float = 0.0
    round_gap_packets: float = 15.0
    flow_gap_packets: float = 1000.0

    def __post_init__(self) -> None:
        check_load(self.load)
        if self.load == 0:
            raise NetreproError("load 0: no burst ever arrives", "give a load above 0")
        if self.paths < 1 or self.copies < 1:
            raise NetreproError(f"{self.copies} copies over {self.paths} paths", "give one or more of each")
        if self.path_choice not in PATH_CHOICES:
            raise NetreproError(f"choice of paths {self.path_choice!r}", nearest(self.path_choice, PATH_CHOICES))
        if self.path_choice == "distinct" and self.copies > self.paths:
            raise NetreproError(
                f"{self.copies} copies cannot take distinct paths of {self.paths}", "hash them, or add paths"
            )
        if not 0 <= self.correlation <= 1:
            raise NetreproError(f"correlation {self.correlation}", "give a share from 0 to 1")
        if not (self.round_gap_packets >= 0 and self.flow_gap_packets >= 0):
            raise NetreproError("a gap below 0", "give gaps of 0 packet times or more")


def simulate_delays(setting: ReplicatedPaths, rounds: np.ndarray, *, seed: int) -> np.ndarray:
    """Simulate the total queueing delay of every copy of every flow, in packet times.

    Flows are probes: once a round a copy meets the unfinished work of its path (Poisson arrivals see time
    averages) and adds none. A copy keeps its path for all rounds. The delay of a replicated flow is the
    least of its row; the first column is the delay of the original alone, as with TCP.

    Parameters
    ----------
    rounds : shape (flows,), positive; a fractional last round counts by its fraction.
    seed : the paths' bursts depend on it alone, so that settings which differ only in copies or choice of
        paths see the same queues.

    Returns
    -------
    array, shape (flows, copies).

    Raises NetreproError unless every number of rounds is positive and finite.
    """
    return _warmed_up(setting, seed).run(_checked(rounds))


def simulate_first_open_delays(setting: ReplicatedPaths, rounds: np.ndarray, *, seed: int) -> np.ndarray:
    """Simulate the total queueing delay of every flow with RepSYN (Liu et al., IEEE TSC 2018, section 2.2), in packet
    times.

    The SYNs of a flow's copies look at their paths, and a round later the data follow on the path whose SYN waited
    least. The SYNs' own waits do not count. Parameters and errors are those of `simulate_delays`; the load of
    `setting` has no copies in it where all flows are RepSYN's.

    Returns
    -------
    array, shape (flows,).
    """
    return _warmed_up(setting, seed).run_first_open(_checked(rounds))


def _checked(rounds: np.ndarray) -> np.ndarray:
    rounds = np.ascontiguousarray(rounds, dtype=float)
    if rounds.ndim != 1 or not np.all(np.isfinite(rounds) & (rounds > 0)):
        raise NetreproError("a flow without a positive number of rounds", "give a one-dimensional array of them")
    return rounds


def _warmed_up(setting: ReplicatedPaths, seed: int) -> _core.ReplicatedFlows:
    bursts, load = setting.bursts, setting.load
    flows = _core.ReplicatedFlows(
        bursts=bursts.sampler(),
        paths=setting.paths,
        mean_interarrival=bursts.mean / load,
        correlation=setting.correlation,
        copies=setting.copies,
        choice=setting.path_choice,
        round_gap=setting.round_gap_packets,
        flow_gap=setting.flow_gap_packets,
        seed=seed,
    )
    # Paths start empty: warm up for 100 times the time that a queue remembers, E[S^2] / (E[S] (1 - load)^2).
    flows.advance(100 * bursts.second_moment / bursts.mean / (1 - load) ** 2)
    return flows
