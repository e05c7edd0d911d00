"""M/G/1, first come first served, infinite buffer: waiting times in closed form and simulated.

Jobs arrive Poisson; sizes are in packets and capacity is one packet a time unit, so waits are in packet
times. `load` is the share of time that the server is busy. Every function raises NetreproError for a load
outside [0, 1): a queue at load 1 or above grows without end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import gammaln, pdtrc

import netrepro._core as _core
from netrepro.errors import NetreproError
from netrepro.queueing.service import Service


def check_load(load: float) -> None:
    """Raise NetreproError unless 0 <= load < 1."""
    if not 0 <= load < 1:
        raise NetreproError(
            f"load {load:g}: the queue is unstable" if load >= 1 else f"load {load:g}",
            "give a load from 0 up to, but not including, 1",
        )


def _check_probability(probability: float) -> None:
    if not 0 < probability < 1:
        raise NetreproError(f"a quantile at {probability}", "give a probability between 0 and 1")


def mean_wait(load: float, service: Service) -> float:
    """Compute E[W] = load E[S^2] / (2 E[S] (1 - load)), in packet times (Pollaczek and Khinchine)."""
    check_load(load)
    return load * service.second_moment / (2 * service.mean * (1 - load))


# M/M/1: P(W > t) = load exp(-(1 - load) t / E[S]).


def mm1_wait_cdf(packet_times: float | np.ndarray, load: float, mean_packets: float) -> np.ndarray:
    """Compute P(W <= t) of M/M/1; shape of `packet_times`."""
    check_load(load)
    t = np.asarray(packet_times, dtype=float)
    return np.where(t < 0, 0.0, 1 - load * np.exp(-(1 - load) * np.maximum(t, 0) / mean_packets))


def mm1_wait_quantile(probability: float, load: float, mean_packets: float) -> float:
    """Compute the wait that a share `probability` of the jobs does not exceed, M/M/1, in packet times.

    >>> round(mm1_wait_quantile(0.99, load=0.5, mean_packets=1), 2)
    7.82
    """
    check_load(load)
    _check_probability(probability)
    return max(0.0, mean_packets / (1 - load) * math.log(max(load, 1 - probability) / (1 - probability)))


# M/D/1: the classical formula for P(W <= t) alternates in sign and loses all digits; the two below add
# positive terms.


def _md1_queue_length_cdf(load: float, count: int) -> np.ndarray:
    """Compute P(N <= n) for n = 0 .. count - 1 of the number N of jobs in an M/D/1 system.

    Level crossing at departures: up-crossings of n equal down-crossings, and every term is positive.
    """
    terms = np.arange(0, 64)  # P(Poisson(1) >= 64) is 0 in double precision
    at_least = np.concatenate([[1.0], pdtrc(terms[1:] - 1, load)]) if load > 0 else (terms == 0).astype(float)
    none = math.exp(-load)
    p = np.zeros(count)
    p[0] = 1 - load
    for n in range(count - 1):
        first = max(1, n + 2 - (len(terms) - 1))
        up = p[first : n + 1] @ at_least[n + 2 - np.arange(first, n + 1)]
        if n + 1 < len(terms):
            up += p[0] * at_least[n + 1]
        p[n + 1] = up / none
    return np.minimum(np.cumsum(p), 1.0)


def md1_wait_cdf(packet_times: float | np.ndarray, load: float, size_packets: float) -> np.ndarray:
    """Compute P(W <= t) of M/D/1, exactly; shape of `packet_times`.

    Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29
    (2001), for c = 1: with (k - 1) D <= t < k D and u = k D - t, it is the probability that at most k - 1 -
    j jobs wait, summed over the j arrivals in u.
    """
    check_load(load)
    t = np.asarray(packet_times, dtype=float)
    k = np.floor(np.maximum(t, 0) / size_packets).astype(int) + 1
    arrivals = load * (k - np.maximum(t, 0) / size_packets)
    queue_at_most = _md1_queue_length_cdf(load, int(np.max(k, initial=1)) + 1)
    total = np.zeros_like(t)
    for j in range(min(64, int(np.max(k, initial=1)))):
        # exp(-a) a^j / j!, in logarithms because a may be 0
        with np.errstate(divide="ignore", invalid="ignore"):
            log_power = np.where(arrivals > 0, j * np.log(arrivals), 0.0 if j == 0 else -np.inf)
        poisson = np.exp(log_power - arrivals - gammaln(j + 1))
        total += np.where(j < k, queue_at_most[np.maximum(k - j, 0)] * poisson, 0.0)
    return np.where(t < 0, 0.0, np.minimum(total, 1.0))


def md1_wait_quantile(probability: float, load: float, size_packets: float) -> float:
    """Compute the wait that a share `probability` of the jobs does not exceed, M/D/1, in packet times."""
    check_load(load)
    _check_probability(probability)
    if probability <= 1 - load:
        return 0.0

    def excess(t: float) -> float:
        return float(md1_wait_cdf(t, load, size_packets)) - probability

    high = size_packets
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0, high, xtol=1e-12 * size_packets, rtol=1e-13))


def wait_quantile_bounds(probability: float, load: float, service: Service, cells: int = 8192) -> tuple[float, float]:
    """Compute the lower and upper bound on a quantile of the M/G/1 wait, in packet times.

    The wait is a geometric number of residual service times (Pollaczek and Khinchine). Rounding each
    residual down, then up, to a grid of `cells` cells brackets it; the compound sums on the grid are exact
    recursions (Panjer), and what lies beyond the grid cannot matter below it.
    """
    check_load(load)
    _check_probability(probability)
    if probability <= 1 - load:
        return 0.0, 0.0
    span = 2 * tail_wait_exponential(probability, mean_wait(load, service))
    while True:
        grid = span * np.arange(cells + 1) / cells
        mass = np.diff(service.residual_cdf(grid))
        quantiles = []
        for residual in (mass, np.concatenate([[0.0], mass[:-1]])):
            filtered = np.concatenate([[1 - load * residual[0]], -load * residual[1:]])
            impulse = np.zeros(cells)
            impulse[0] = 1
            reached = np.cumsum(lfilter([1 - load], filtered, impulse))
            quantiles.append(np.searchsorted(reached, probability))
        if quantiles[1] < cells:
            return float(grid[quantiles[0]]), float(grid[quantiles[1]])
        span *= 2


# Two tail approximations that need the mean only.


def tail_wait_exponential(probability: float, mean_wait_packet_times: float) -> float:
    """Compute -ln(1 - p) E[W]: the wait as if it were exponential, the RepNet paper's (7) and (8); for p = .99, 2 ln
    10 E[W].
    """
    return -math.log1p(-probability) * mean_wait_packet_times


def tail_wait_when_busy(probability: float, load: float, mean_wait_packet_times: float) -> float:
    """Compute ln(load / (1 - p)) / load E[W]: exponential given that the server is busy, else zero. Exact for
    M/M/1.
    """
    check_load(load)
    if load <= 1 - probability:
        return 0.0
    return math.log(load / (1 - probability)) / load * mean_wait_packet_times


@dataclass(frozen=True)
class SimulatedWaits:
    """Waits of simulated jobs, in packet times.

    batch_means : shape (batches,); mean : their mean; standard_error : of that mean, batches taken as
        independent.
    """

    batch_means: np.ndarray
    _counts: np.ndarray

    @property
    def mean(self) -> float:
        """The mean wait, in packet times."""
        return float(self.batch_means.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, in packet times; batches count as independent."""
        return float(self.batch_means.std(ddof=1) / math.sqrt(len(self.batch_means)))

    def quantile(self, probability: float) -> float:
        """Return the wait that a share `probability` of the jobs did not exceed, within 1/256 of it (histogram
        bins).
        """
        _check_probability(probability)
        bins = _core.WaitHistogram
        steps = np.arange(bins.octaves * bins.bins_per_octave + 1)
        octave, place = np.divmod(steps, bins.bins_per_octave)
        edges = np.ldexp(1 + place / bins.bins_per_octave, octave + bins.lowest_exponent)
        reached = np.cumsum(self._counts)
        wanted = probability * reached[-1]
        bin_ = int(np.searchsorted(reached, wanted))
        if bin_ == 0:
            return 0.0
        if bin_ > len(edges) - 1:
            raise NetreproError("waits beyond 2^44 packet times", "give sizes in a larger unit")
        share = (wanted - reached[bin_ - 1]) / self._counts[bin_]
        return float(edges[bin_ - 1] + share * (edges[bin_] - edges[bin_ - 1]))


def simulate_waits(
    load: float,
    service: Service,
    *,
    jobs: int,
    seed: int,
    batches: int = 32,
    warm_up_jobs: int | None = None,
) -> SimulatedWaits:
    """Simulate the waits of `jobs` jobs in `batches` batches, by Lindley's recursion in the compiled core.

    The queue starts empty, and a warm-up comes first: 100 / (1 - load)^2 jobs unless given, many times the
    queue's memory. Ctrl-C interrupts it. Raises NetreproError for a load of 0 (no jobs), 1 or above, or fewer than 2
    batches.
    """
    check_load(load)
    if load == 0:
        raise NetreproError("load 0: no job ever arrives", "give a load above 0")
    if batches < 2 or jobs < batches:
        raise NetreproError(f"{jobs} jobs in {batches} batches", "give 2 batches or more, and a job for each")
    queue = _core.SingleServerQueue(service.sampler(), service.mean / load, seed)
    queue.skip(int(100 / (1 - load) ** 2) if warm_up_jobs is None else warm_up_jobs)
    return SimulatedWaits(*queue.batch_means(batches, jobs // batches))
