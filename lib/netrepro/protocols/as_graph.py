"""The Internet as a graph of autonomous systems (ASes) with business relations: generated, or read from a file."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np

from netrepro.errors import NetreproError


class Relation(IntEnum):
    """The role of an AS's neighbour. Routes from a neighbour of greater role are preferred (Gao, Rexford, ToN 2001)."""

    PROVIDER = 1
    PEER = 2
    CUSTOMER = 3


_OPPOSITE = {Relation.PROVIDER: Relation.CUSTOMER, Relation.PEER: Relation.PEER, Relation.CUSTOMER: Relation.PROVIDER}


@dataclass(frozen=True)
class AsGraph:
    """A graph of ASes, given by number, and their business relations.

    links : (a, b, role of b for a), each pair once.
    """

    links: tuple[tuple[int, int, Relation], ...]

    def __post_init__(self) -> None:
        pairs = [frozenset((a, b)) for a, b, _ in self.links]
        if len(set(pairs)) < len(pairs) or any(len(pair) < 2 for pair in pairs):
            raise NetreproError("two links between the same ASes, or one from an AS to itself", "give each pair once")

    @cached_property
    def neighbours(self) -> dict[int, dict[int, Relation]]:
        """AS -> neighbour -> the neighbour's role for the AS, in the order of numbers."""
        relations: dict[int, dict[int, Relation]] = {}
        for a, b, relation in self.links:
            relations.setdefault(a, {})[b] = relation
            relations.setdefault(b, {})[a] = _OPPOSITE[relation]
        return {number: dict(sorted(relations[number].items())) for number in sorted(relations)}

    @property
    def stubs(self) -> list[int]:
        """The ASes without customers or peers."""
        return [number for number, others in self.neighbours.items() if set(others.values()) == {Relation.PROVIDER}]

    def joined(self, links: Iterable[tuple[int, int, Relation]]) -> AsGraph:
        """Return the same graph with more links, and with the new ASes at their ends."""
        return AsGraph((*self.links, *links))


def hierarchy(
    seed: int, *, top: int = 6, transit: int = 40, stubs: int = 120, peering: float = 0.25, most_providers: int = 2
) -> AsGraph:
    """Draw a random Internet in three levels: a clique at the top, transit ASes, and stubs.

    Each transit AS has 1 to `most_providers` providers at the top or among the transit ASes before it; each stub has
    as many among the transit ASes. About a share `peering` of the transit ASes peers with another one. Numbers run from
    1: the top, transit, stubs. Raises NetreproError for fewer than two ASes at a level or a share outside of 0..1.
    """
    if min(top, transit, stubs) < 2 or most_providers < 1 or not 0 <= peering <= 1:
        raise NetreproError(
            f"{top} + {transit} + {stubs} ASes, a share of {peering:g} peering, {most_providers} providers at most",
            "give 2 ASes or more at each level, 1 provider or more, and a share between 0 and 1",
        )
    random = np.random.default_rng(seed)
    links: dict[frozenset[int], tuple[int, int, Relation]] = {}

    def join(a: int, b: int, relation: Relation) -> None:
        if a != b:
            links.setdefault(frozenset((a, b)), (a, b, relation))

    for a in range(1, top + 1):
        for b in range(a + 1, top + 1):
            join(a, b, Relation.PEER)
    first_stub = top + transit + 1
    for number in range(top + 1, first_stub):
        # Half of the transit ASes have providers only at the top, so that paths have different lengths.
        above = number if number > top + transit // 2 else top + 1
        for provider in random.choice(np.arange(1, above), size=random.integers(1, most_providers + 1), replace=False):
            join(number, int(provider), Relation.PROVIDER)
    transits = np.arange(top + 1, first_stub)
    for number in random.choice(transits, size=round(peering * transit), replace=False):
        join(int(number), int(random.choice(transits)), Relation.PEER)
    for number in range(first_stub, first_stub + stubs):
        for provider in random.choice(transits, size=random.integers(1, most_providers + 1), replace=False):
            join(number, int(provider), Relation.PROVIDER)
    return AsGraph(tuple(links.values()))


def load_as_relationships(path: str | Path) -> AsGraph:
    """Load CAIDA's AS relationships, serial-1: lines `a|b|-1` (a is b's provider) and `a|b|0` (peers); # begins a
    comment.

    Compressed files (.bz2, .gz) can be read directly. Raises NetreproError for a missing or empty file, and for any
    other line; the error gives the line's number.
    """
    path = Path(path)
    if not path.is_file():
        raise NetreproError(f"no file {path}", "CAIDA offers such files on request; `hierarchy` makes an Internet")
    openers = {".bz2": bz2.open, ".gz": gzip.open}
    links = []
    try:
        with openers.get(path.suffix, open)(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.startswith("#") or not line.strip():
                    continue
                parts = line.strip().split("|")
                kinds = {"-1": Relation.CUSTOMER, "0": Relation.PEER}
                if len(parts) < 3 or parts[2] not in kinds or not (parts[0].isdigit() and parts[1].isdigit()):
                    raise NetreproError(
                        f"{path.name} line {number}: {line.strip()[:60]!r}", "lines are a|b|-1 or a|b|0"
                    )
                links.append((int(parts[0]), int(parts[1]), kinds[parts[2]]))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise NetreproError(f"{path.name} cannot be read: {error}", "is it whole?") from error
    if not links:
        raise NetreproError(f"{path.name} has no relation", "lines are a|b|-1 or a|b|0")
    return AsGraph(tuple(links))
