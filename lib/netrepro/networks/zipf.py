"""Keys whose popularity falls by Zipf's law: the k-th of K keys with a probability in proportion to k to the -theta."""

from __future__ import annotations

from functools import cache

import numpy as np

from netrepro.errors import NetreproError


@cache  # the sum over a million keys is wanted again and again
def zeta(count: int, theta: float) -> float:
    """Sum k**-theta for k from 1 to `count`; beyond a million terms by Euler and Maclaurin, to 12 digits."""
    direct = min(count, 1_000_000)
    total = float((np.arange(1, direct + 1, dtype=float) ** -theta).sum())
    if count == direct:
        return total
    low, high = float(direct), float(count)
    integral = np.log(high / low) if theta == 1 else (high ** (1 - theta) - low ** (1 - theta)) / (1 - theta)
    ends = (high**-theta - low**-theta) / 2
    return float(total + integral + ends - theta * (high ** (-theta - 1) - low ** (-theta - 1)) / 12)


def gray_ranks(uniform: np.ndarray, count: int, theta: float) -> np.ndarray:
    """Turn `uniform` into ranks from 0 as Gray et al. (SIGMOD 1994), YCSB and the released EPaxos client do.

    The two most popular keys have exactly their probability, the others nearly. At theta = 1 the exponent
    1 / (1 - theta) is infinite: IEEE arithmetic then gives the rank `count`, which is no key, to all but the two most
    popular, and so does this function. Raises NetreproError for theta below 0 or above 1, and for no keys.
    """
    if not 0 <= theta <= 1 or count < 2:
        raise NetreproError(f"theta {theta} and {count} keys", "give theta from 0 to 1 and two keys or more")
    scaled = uniform * zeta(count, theta)
    if theta == 1:
        other = np.full(len(uniform), count)
    else:
        second = 1 + 0.5**theta
        eta = (1 - (2 / count) ** (1 - theta)) / (1 - second / zeta(count, theta)) if count > 2 else 0.0
        other = (count * (eta * uniform - eta + 1) ** (1 / (1 - theta))).astype(np.int64)
    return np.where(scaled < 1, 0, np.where(scaled < 1 + 0.5**theta, 1, other)).astype(np.int64)


def exact_ranks(uniform: np.ndarray, count: int, theta: float) -> np.ndarray:
    """Turn `uniform` into ranks from 0 by the inverse distribution: right for any theta of 0 or more.

    It needs memory for all keys. Raises NetreproError for a negative theta and for more than ten million keys.
    """
    if theta < 0 or not 1 <= count <= 10_000_000:
        raise NetreproError(f"theta {theta} and {count} keys", "give theta from 0 on and at most ten million keys")
    shares = np.cumsum(np.arange(1, count + 1, dtype=float) ** -theta)
    return np.minimum(np.searchsorted(shares / shares[-1], uniform, side="right"), count - 1)
