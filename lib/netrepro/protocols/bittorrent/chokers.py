"""Chokers: they decide which peers are served, and with what share of the upload (BitTorrent's, PropShare's, a seed's).

BitTorrent: the specification BEP 3 and Cohen, "Incentives Build Robustness in BitTorrent" (2003). PropShare: Levin,
LaCurts, Spring and Bhattacharjee, "BitTorrent is an Auction" (SIGCOMM 2008).

A choker is asked once a round, and between rounds when all interested peers are choked. It gets the time, the
interested peers, and the number of bytes that each peer has sent so far (a new mapping each time, which the choker
keeps). It answers with the weight of each peer to unchoke. Weights are shares of the upload: the share that a peer
cannot use goes to the others in proportion to their weights. An empty answer chokes all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Protocol, TypeVar

from netrepro.errors import NetreproError, nearest

ROUND_S = 10.0  # BEP 3: the choker decides again every 10 s
OPTIMISTIC_S = 30.0  # BEP 3: the optimistic unchoke is rotated every 30 s
SLOTS = 4  # BEP 3: four downloaders, one of them optimistic

Name = TypeVar("Name", bound=Hashable)


class Choker(Protocol):
    """The interface of every choker. `round_s`: the time between two decisions."""

    round_s: float

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """Return peer -> weight for the peers to unchoke, a subset of `interested`."""


class _Recent:
    """The bytes received in the last `window_s`, and one optimistic unchoke that is rotated."""

    def __init__(self, random: Random, *, round_s: float, optimistic_s: float, window_s: float):
        if not 0 < round_s <= optimistic_s:
            raise NetreproError(
                f"a round of {round_s:g} s and an optimistic unchoke of {optimistic_s:g} s",
                "give a round of more than 0 s, and an optimistic unchoke of at least a round",
            )
        self.round_s, self.optimistic_s, self.window_s, self.random = round_s, optimistic_s, window_s, random
        self._seen: deque[tuple[float, Mapping]] = deque([(-math.inf, {})])  # oldest first
        self._optimistic: Hashable = None
        self._rotate_at_s = 0.0

    def _recent(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """Count the bytes from each interested peer since the last decision that is at least `window_s` ago.

        A peer that has reconnected begins at 0 again: all bytes that it has sent since then count.
        """
        self._seen.append((now_s, received_bytes))
        while self._seen[1][0] <= now_s - self.window_s:
            self._seen.popleft()
        old, sent = self._seen[0][1], {name: received_bytes.get(name, 0.0) for name in interested}
        return {name: now - old.get(name, 0.0) if now >= old.get(name, 0.0) else now for name, now in sent.items()}

    def _choose_optimistic(self, now_s: float, candidates: Sequence[Name]) -> list[Name]:
        """Choose the optimistic unchoke: keep the old one until its time is over or it is no longer a candidate."""
        if self._optimistic in candidates and now_s < self._rotate_at_s:
            return [name for name in candidates if name == self._optimistic]
        if not candidates:
            return []
        chosen = self.random.choice(candidates)
        self._optimistic, self._rotate_at_s = chosen, now_s + self.optimistic_s
        return [chosen]


class TitForTat(_Recent):
    """BitTorrent's choker: the peers that sent most in the last two rounds, and a random one, get equal shares.

    The paper calls this an auction: a peer's bid is the number of bytes that it sent, and every winner gets the same.
    """

    def __init__(
        self, random: Random, *, slots: int = SLOTS, round_s: float = ROUND_S, optimistic_s: float = OPTIMISTIC_S
    ):
        super().__init__(random, round_s=round_s, optimistic_s=optimistic_s, window_s=2 * round_s)
        if slots < 2:
            raise NetreproError(f"{slots} slots", "give at least 2: one of them is the optimistic unchoke")
        self.slots = slots

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """See Choker. Ties between equal bids are broken at random."""
        bids = self._recent(now_s, interested, received_bytes)
        order = sorted(interested, key=lambda name: (-bids[name], self.random.random()))
        winners = order[: self.slots - 1]
        optimistic = self._choose_optimistic(now_s, order[self.slots - 1 :])
        return dict.fromkeys([*winners, *optimistic], 1.0 / self.slots)


class PropShare(_Recent):
    """PropShare's choker: each interested peer's share is its part of the bytes that all sent in the last round.

    reserve : the part of the upload that is kept for a random one of the peers that sent nothing (a tenth in a course's
    example, Harvard's CS 136). baseline : the part of the rest that all interested peers share equally, so that none
    starves while a single one has all that is new. While no interested peer has sent anything, SLOTS random peers get
    equal shares.
    """

    def __init__(
        self,
        random: Random,
        *,
        reserve: float = 0.1,
        baseline: float = 0.0,
        round_s: float = ROUND_S,
        optimistic_s: float = OPTIMISTIC_S,
    ):
        super().__init__(random, round_s=round_s, optimistic_s=optimistic_s, window_s=round_s)
        if not 0 < reserve < 1:
            raise NetreproError(
                f"a reserve of {reserve:g}", "give more than 0, or no newcomer is served, and less than 1"
            )
        if not 0 <= baseline < 1:
            raise NetreproError(f"a baseline of {baseline:g}", "give 0 or more, and less than 1")
        self.reserve, self.baseline = reserve, baseline

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """See Choker."""
        sent = self._credit(self._recent(now_s, interested, received_bytes))
        total = sum(sent.values())
        newcomers = [name for name in interested if sent[name] <= 0]
        if total <= 0:
            chosen = self.random.sample(newcomers, min(SLOTS, len(newcomers)))
            return dict.fromkeys(chosen, 1.0 / SLOTS)
        shared = (1 - self.reserve) * (1 - self.baseline)
        weights = {name: shared * bytes_ / total for name, bytes_ in sent.items() if bytes_ > 0}
        weights |= dict.fromkeys(self._choose_optimistic(now_s, newcomers), self.reserve)
        if not self.baseline:
            return weights
        each = (1 - self.reserve) * self.baseline / len(interested)
        return {name: weights.get(name, 0.0) + each for name in interested}

    def _credit(self, sent: dict[Name, float]) -> dict[Name, float]:
        return sent


class PermutedPropShare(PropShare):
    """A control for experiments: PropShare with the received bytes permuted at random among the interested peers."""

    def _credit(self, sent: dict[Name, float]) -> dict[Name, float]:
        return dict(zip(sent, self.random.sample(list(sent.values()), len(sent)), strict=True))


class ServingByChance(_Recent):
    """A class's reading of PropShare: a peer is served with a probability equal to its part of the bytes that all sent.

    The class decided so for each request; here it is decided for each round, and those that are served share the upload
    equally. There is no reserve: the optimistic unchoke is always served, and all are while nobody has sent anything.
    """

    def __init__(self, random: Random, *, round_s: float = ROUND_S, optimistic_s: float = OPTIMISTIC_S):
        super().__init__(random, round_s=round_s, optimistic_s=optimistic_s, window_s=round_s)

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """See Choker."""
        sent = self._recent(now_s, interested, received_bytes)
        total = sum(sent.values())
        drawn = [name for name in interested if total <= 0 or self.random.random() < sent[name] / total]
        served = [*drawn, *self._choose_optimistic(now_s, [name for name in interested if name not in drawn])]
        return dict.fromkeys(served, 1.0 / max(len(served), 1))


class RoundRobin:
    """A seed's choker: `slots` peers are served for `turn_s` each, and then those that have waited longest."""

    def __init__(self, random: Random, *, slots: int = SLOTS, round_s: float = ROUND_S, turn_s: float = OPTIMISTIC_S):
        if slots < 1 or not 0 < round_s <= turn_s:
            raise NetreproError(
                f"{slots} slots, rounds of {round_s:g} s, turns of {turn_s:g} s", "give 1, and rounds first"
            )
        self.slots, self.round_s, self.turn_s, self.random = slots, round_s, turn_s, random
        self._since_s: dict[Hashable, float] = {}
        self._last_s: dict[Hashable, float] = {}

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """See Choker."""
        kept = [name for name in interested if now_s - self._since_s.get(name, -self.turn_s) < self.turn_s]
        waiting = self.random.sample([name for name in interested if name not in kept], len(interested) - len(kept))
        waiting.sort(key=lambda name: self._last_s.get(name, -1.0))
        chosen = [*kept, *waiting][: self.slots]
        self._since_s = {name: self._since_s[name] if name in kept else now_s for name in chosen}
        self._last_s |= dict.fromkeys(chosen, now_s)
        return dict.fromkeys(chosen, 1.0 / self.slots)


class FreeRider:
    """A choker that serves nobody."""

    round_s = ROUND_S

    def decide(
        self, now_s: float, interested: Sequence[Name], received_bytes: Mapping[Name, float]
    ) -> dict[Name, float]:
        """See Choker: the answer is always empty."""
        return {}


CHOKERS: dict[str, Callable[..., Choker]] = {
    "bittorrent": TitForTat,
    "propshare": PropShare,
    "permuted": PermutedPropShare,
    "by chance": ServingByChance,
    "seed": RoundRobin,
    "free rider": lambda random: FreeRider(),
}


def choker(name: str, random: Random, **constants: float) -> Choker:
    """Make a choker by its name in CHOKERS; `constants` replace the protocol's. Raises NetreproError for an unknown
    name."""
    if name not in CHOKERS:
        raise NetreproError(f"no choker {name!r}", nearest(name, CHOKERS))
    return CHOKERS[name](random, **constants)
