"""The compiled queues once more, in plain Python: slow, readable, drawing the same random numbers."""

from __future__ import annotations

import math
from itertools import pairwise

MASK = 2**64 - 1


def splitmix64(state: int) -> tuple[int, int]:
    """(next state, output)."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def rotate_left(word: int, places: int) -> int:
    return ((word << places) | (word >> (64 - places))) & MASK


TAIL, AREA = 7.69711747013104972, 3.9496598225815571993e-3


def exp_of_minus(x: float) -> float:
    y, term, total = -x / 64, 1.0, 1.0
    for n in range(1, 15):
        term = term * y / n
        total += term
    for _ in range(6):
        total *= total
    return total


def ziggurat() -> tuple[list[float], list[float]]:
    edges = [AREA / exp_of_minus(TAIL), TAIL]
    while len(edges) < 256:
        value, edge = AREA / edges[-1] + exp_of_minus(edges[-1]), edges[-1]
        for _ in range(12):
            edge += 1 - value / exp_of_minus(edge)
        edges.append(edge)
    edges.append(0.0)
    return edges, [exp_of_minus(edge) for edge in edges]


EDGES, HEIGHTS = ziggurat()


class RandomStream:
    def __init__(self, seed: int, stream: int):
        state = (splitmix64(seed)[1] + stream * 0xD1342543DE82EF95) & MASK
        self.words = []
        for _ in range(4):
            state, word = splitmix64(state)
            self.words.append(word)

    def next(self) -> int:
        s = self.words
        result = (rotate_left((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        shifted = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotate_left(s[3], 45)
        return result

    def uniform(self) -> float:
        return (self.next() >> 11) * 2.0**-53

    def below(self, count: int) -> int:
        return int(self.uniform() * count)

    def exponential(self) -> float:
        offset = 0.0
        while True:
            bits = self.next()
            layer = bits & 255
            x = (bits >> 11) * (EDGES[layer] * 2.0**-53)
            if x < EDGES[layer + 1]:
                return offset + x
            if layer == 0:
                offset += TAIL
                continue
            low, high = HEIGHTS[layer], HEIGHTS[layer + 1]
            if low + self.uniform() * (high - low) < math.exp(-x):
                return offset + x


class Constant:
    def __init__(self, size: float):
        self.size = size

    def __call__(self, random: RandomStream) -> float:
        return self.size


class Exponential:
    def __init__(self, mean: float):
        self.mean = mean

    def __call__(self, random: RandomStream) -> float:
        return self.mean * random.exponential()


class Piecewise:
    def __init__(self, points):
        pieces = [(low, high - low, q - p) for (low, p), (high, q) in pairwise(points) if q > p]
        count = self.count = len(pieces)
        total = 0.0
        for piece in pieces:
            total += piece[2]
        height = [mass / total * count for _, _, mass in pieces]
        small = [i for i in range(count) if height[i] < 1]
        large = [i for i in range(count) if not height[i] < 1]

        def line(piece: int, start: float, end: float) -> tuple[float, float]:
            slope = pieces[piece][1] / (end - start)
            return pieces[piece][0] - slope * start, slope

        self.threshold = [1.0] * count
        self.below = [line(i, 0.0, 1.0) for i in range(count)]
        self.above = list(self.below)
        while small and large:
            giver, column = large[-1], small.pop()
            self.threshold[column] = height[column]
            self.below[column] = line(column, 0.0, height[column])
            self.above[column] = line(giver, height[column], 1.0)
            height[giver] -= 1 - height[column]
            if height[giver] < 1:
                small.append(large.pop())

    def __call__(self, random: RandomStream) -> float:
        scaled = random.uniform() * self.count
        column = int(scaled)
        rest = scaled - column
        base, slope = (self.above if rest >= self.threshold[column] else self.below)[column]
        return base + slope * rest


def waits(sizes, mean_interarrival: float, seed: int, jobs: int) -> list[float]:
    arrivals, services = RandomStream(seed, 0), RandomStream(seed, 1)
    wait, recorded = 0.0, []
    for _ in range(jobs):
        recorded.append(wait)
        wait = max(0.0, wait + sizes(services) - mean_interarrival * arrivals.exponential())
    return recorded


class Path:
    """One path's unfinished work, advanced burst by burst."""

    def __init__(self, sizes, mean_interarrival: float, seed: int, stream: int):
        self.sizes, self.mean, self.random = sizes, mean_interarrival, RandomStream(seed, stream)
        self.until, self.work = self.mean * self.random.exponential(), 0.0

    def advance(self, duration: float) -> None:
        while self.until <= duration:
            self.work = max(0.0, self.work - self.until) + self.sizes(self.random)
            duration -= self.until
            self.until = self.mean * self.random.exponential()
        self.work = max(0.0, self.work - duration)
        self.until -= duration


def replicated_delays(
    sizes,
    rounds,
    *,
    paths,
    mean_interarrival,
    correlation,
    copies,
    choice,
    round_gap,
    flow_gap,
    seed,
    warm_up,
    first_open=False,
) -> list[list[float]]:
    common, flows = RandomStream(seed, 0), RandomStream(seed, 1)
    common_mean = mean_interarrival / correlation if correlation > 0 else math.inf
    own_mean = mean_interarrival / (1 - correlation) if correlation < 1 else math.inf
    until_common = common_mean * common.exponential()
    all_paths = [Path(sizes, own_mean, seed, 2 + number) for number in range(paths)]
    order = list(range(paths))

    def advance(duration: float) -> None:
        nonlocal until_common
        while until_common <= duration:
            burst = sizes(common)
            for path in all_paths:
                path.advance(until_common)
                path.work += burst
            duration -= until_common
            until_common = common_mean * common.exponential()
        for path in all_paths:
            path.advance(duration)
        until_common -= duration

    def choose() -> list[int]:
        if choice == "hashed":
            return [flows.below(paths) for _ in range(copies)]
        if choice == "same":
            return [flows.below(paths)] * copies
        for copy in range(copies):
            other = copy + flows.below(paths - copy)
            order[copy], order[other] = order[other], order[copy]
        return order[:copies]

    advance(warm_up)
    table = []
    for count in rounds:
        chosen, delays, left, gap = choose(), [0.0] * copies, count, flow_gap
        if first_open:
            advance(gap * flows.exponential())
            chosen, delays, gap = [min(chosen, key=lambda path: all_paths[path].work)], [0.0], round_gap
        while left > 0:
            advance(gap * flows.exponential())
            for copy, path in enumerate(chosen):
                delays[copy] += min(left, 1.0) * all_paths[path].work
            left, gap = left - 1, round_gap
        table.append(delays)
    return table
