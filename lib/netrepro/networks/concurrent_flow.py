"""Maximum concurrent flow: the greatest share of a cable's rate that all pairs of hosts can have at once, when every
pair may split its traffic over all paths.

It is the solution of a linear programme over paths, which are too many to list (Ford and Fulkerson, "A Suggested
Computation for Maximal Multi-Commodity Network Flows", Management Science 5, 1958). The programme begins with a few
paths for each pair. The prices that its solution puts on full cables say which other paths are worth adding. When none
is, the solution is the one over all paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack
from scipy.sparse.csgraph import dijkstra

from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

FIRST_ROUNDS = 16  # of first paths; each round avoids the cables that the ones before have filled
MEMORY = 0.7  # weight of earlier prices in the average that finds further paths: single prices jump, and find few
CLOSE = 1e-7  # relative distance of the bounds at which the answer is known, the solver's own precision
LEAST_PRICE = 1e-12  # of a cable: of paths that cost nothing, the one with the fewest cables is taken

Pairs = Sequence[tuple[str, str]]
Links = tuple[int, ...]  # a path, by its links


def greatest_share(topology: Topology, pairs: Pairs, limit: float = np.inf) -> float:
    """Compute the greatest share that all pairs can have at once, or `limit` where that is less, which takes less time.

    The cables between switches are taken to be equal. Hosts' own cables are ignored: only they limit a share above 1.
    Returns infinity where no pair needs a cable between switches.
    """
    least = np.inf
    for least, _ in share_bounds(topology, pairs):
        if least >= limit:
            break
    return float(min(least, limit))


def can_have(topology: Topology, pairs: Pairs, share: float) -> bool:
    """Tell whether all pairs can have this share at once; compute no more than this needs."""
    least = np.inf
    for least, most in share_bounds(topology, pairs):
        if least >= share or most < share:
            break
    return bool(least >= share)


def share_bounds(topology: Topology, pairs: Pairs) -> Iterator[tuple[float, float]]:
    """Yield bounds (least, most) of `greatest_share` until they meet; none where it is infinite.

    The paths known so far can carry `least`. `most` follows from any prices: the cost of all cables, over what all
    pairs pay for a rate of 1 on their cheapest paths. Raises NetreproError where a pair has no path.
    """
    programme = _Programme(topology, pairs)
    if not len(programme.rates):
        return
    least, most, carried, prices = 0.0, np.inf, np.zeros(programme.links), np.ones(programme.links)
    for rounds in range(1, FIRST_ROUNDS + 1):
        paths, bound = programme.cheapest(prices)
        load = programme.load_of(paths)
        carried += load
        least, most = max(least, rounds / carried.max()), min(most, bound)
        yield least, most
        prices *= 1 + load / load.max()
    average, is_known = prices / prices.sum(), False
    while not is_known:
        least, prices = programme.solve()
        before = programme.size
        most = min(most, programme.cheapest(prices)[1])
        is_known = programme.size == before or most - least <= CLOSE * least
        average = MEMORY * average + (1 - MEMORY) * prices / prices.sum()
        most = min(most, programme.cheapest(average)[1])
        yield least, max(least, most)


class _Programme:
    """The linear programme: links with room for 1 each, pairs of switches with the rates that they want, paths."""

    def __init__(self, topology: Topology, pairs: Pairs):
        home = {host: next(iter(topology.graph[host])) for host in topology.hosts}
        wanted = Counter((home[a], home[b]) for a, b in pairs if home[a] != home[b])
        number = {switch: place for place, switch in enumerate(topology.switches)}
        ports = [(number[a], number[b]) for a, b in topology.ports if a in number and b in number]
        self.rates = np.array(list(wanted.values()), dtype=float)
        self.links, self._nodes = len(ports), len(number)
        self._link_between = {port: place for place, port in enumerate(ports)}
        self._ends = np.array(ports).reshape(-1, 2).T
        self._destinations = [number[b] for _, b in wanted]
        sources = np.array([number[a] for a, _ in wanted], dtype=int)
        self._sources, self._row_of_pair = np.unique(sources, return_inverse=True)
        self._paths: dict[tuple[int, Links], None] = {}  # (pair, path), in the order in which they were found

    @property
    def size(self) -> int:
        """The number of known paths."""
        return len(self._paths)

    def cheapest(self, prices: np.ndarray) -> tuple[list[Links], float]:
        """Return the cheapest path of every pair, which is then known, and the bound on the share by these prices.

        Raises NetreproError where a pair has no path.
        """
        graph = csr_array((prices + LEAST_PRICE, tuple(self._ends)), (self._nodes, self._nodes))
        costs, previous = dijkstra(graph, indices=self._sources, return_predecessors=True)
        cost = costs[self._row_of_pair, self._destinations]
        if not np.isfinite(cost).all():
            raise NetreproError("switches that no cables between switches join", "give a connected network")
        paths = []
        for row, node in zip(self._row_of_pair.tolist(), self._destinations, strict=True):
            path, back = [], previous[row]
            while (before := int(back[node])) >= 0:
                path.append(self._link_between[before, node])
                node = before
            paths.append(tuple(path))
        self._paths |= dict.fromkeys(enumerate(paths))
        return paths, float(prices.sum() / (self.rates @ cost))

    def load_of(self, paths: Sequence[Links]) -> np.ndarray:
        """Compute what links carry when each pair takes one path."""
        links = np.concatenate([np.array(path) for path in paths])
        return np.bincount(links, np.repeat(self.rates, [len(path) for path in paths]), self.links)

    def solve(self) -> tuple[float, np.ndarray]:
        """Return the greatest share over the known paths, and the links' prices. The last variable is the share."""
        pairs, paths = zip(*self._paths, strict=True)
        count, lengths = len(paths), [len(path) for path in paths]
        links, columns = np.concatenate([np.array(path) for path in paths]), np.repeat(np.arange(count), lengths)
        load = csr_array((np.ones(len(links)), (links, columns)), (self.links, count + 1))
        rows = np.concatenate([pairs, np.arange(len(self.rates))])
        columns = np.concatenate([np.arange(count), np.full(len(self.rates), count)])
        values = np.concatenate([-np.ones(count), self.rates])
        lacking = csr_array((values, (rows, columns)), (len(self.rates), count + 1))
        room = np.concatenate([np.ones(self.links), np.zeros(len(self.rates))])
        goal = np.zeros(count + 1)
        goal[-1] = -1
        solution = linprog(goal, vstack([load, lacking]), room, method="highs")
        if not solution.success:
            raise NetreproError(f"no optimal routing: {solution.message}", "give a smaller network")
        return float(solution.x[-1]), np.maximum(-solution.ineqlin.marginals[: self.links], 0.0)
