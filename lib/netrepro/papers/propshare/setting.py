"""Swarms of both kinds of clients: their peers, each one's rate, and how each chooses whom to serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import Choker, RoundRobin, choker
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer
from netrepro.study import seed_of
from netrepro.study.setting import parameter

BETWEEN = (0.0, 1.0)  # fractions of pure swarms


@dataclass(frozen=True)
class Setting:
    """A swarm. We did not have the paper's numbers of peers, capacities and file. These are our choice; the file is
    long enough for times in the range of Fig. 8.

    free_riders : their share of the leechers. seeds_know_clients : seeds serve only one identity of a Sybil. lends :
    the part of a PropShare client's upload that one peer cannot use goes to others; otherwise it is lost. fraction :
    share of leechers, chosen at random, that use the choker `kind`; the others use BitTorrent's. baseline : the
    part of a PropShare client's upload, without the reserve, that all who ask share equally. identities : if above
    0, the first leecher is an attacker with twice the median rate that appears as this many peers. swapped : at a
    fraction of one half, the two kinds change places. paired : a trial's swarms have the same capacities at every
    fraction; otherwise only pure swarms do. processes : a swarm for processes, of which the simulator makes several
    draws.
    """

    leechers: int = 30
    seeds: int = 3
    seed_kilobytes_per_s: float = parameter(128.0, "upload of each of the three seeds", "kB/s", low=1, high=100_000)
    slowest_kilobytes_per_s: float = 20.0
    fastest_kilobytes_per_s: float = parameter(
        300.0, "upload of the fastest leecher; the slowest has 20", "kB/s", low=20, high=100_000
    )
    pieces: int = parameter(48, "of 256 KiB each: how long the file is", low=1, high=10_000)
    blocks_per_piece: int = 16
    reserve: float = parameter(0.1, "PropShare's part of the upload for newcomers", "ratio", low=0, high=1)
    baseline: float = 0.0
    free_riders: float = 0.0
    round_s: float = 10.0
    optimistic_s: float = 30.0
    seeds_know_clients: bool = False
    lends: bool = True
    fraction: float = 0.5
    kind: str = "propshare"
    identities: int = 0
    swapped: bool = False
    paired: bool = False
    processes: bool = False

    @property
    def file_bytes(self) -> int:
        """The size of the shared file, in bytes."""
        return self.pieces * self.blocks_per_piece * BLOCK_BYTES

    @property
    def median_kilobytes_per_s(self) -> float:
        """The median upload rate (kB/s) of the leechers, whose rates are uniform on a logarithmic scale."""
        return float(np.sqrt(self.slowest_kilobytes_per_s * self.fastest_kilobytes_per_s))


def trial_seed(setting: Setting, seed: int, trial: int) -> int:
    """Return the seed of one trial's swarm. Mixed swarms have different capacities at every fraction, so that trials
    are independent."""
    is_shared = setting.paired or setting.fraction in BETWEEN
    return seed_of(seed, trial if is_shared else trial + 100_000 * round(100 * setting.fraction))


def capacities(setting: Setting, seed: int) -> list[float]:
    """Choose the upload rates of the leechers (kB/s) at random, uniform on a logarithmic scale."""
    random, low = Random(seed), setting.slowest_kilobytes_per_s
    ratio = setting.fastest_kilobytes_per_s / low
    return [low * ratio ** random.random() for _ in range(setting.leechers)]


def swarm(setting: Setting, seed: int) -> list[SwarmPeer]:
    """Make seeds and leechers.

    Raises NetreproError for a fraction, or a share of free riders, outside 0 to 1.
    """
    for name, value in (("fraction", setting.fraction), ("share of free riders", setting.free_riders)):
        if not 0 <= value <= 1:
            raise NetreproError(f"a {name} of {value:g}", "give 0 to 1")
    random, rates = Random(seed_of(seed, 1)), capacities(setting, seed)
    order = random.sample(range(setting.leechers), setting.leechers)
    riders = set(order[: round(setting.free_riders * setting.leechers)])
    givers = [i for i in order if i not in riders]
    ours = set((givers[::-1] if setting.swapped else givers)[: round(setting.fraction * len(givers))])
    identities = setting.identities
    peers = [SwarmPeer("seed", setting.seed_kilobytes_per_s, is_seed=True)] * setting.seeds
    for i, rate in enumerate(rates):
        own = setting.kind if i in ours else "bittorrent"
        lends = setting.lends or own == "bittorrent"
        if identities and i == 0:
            each, client = 2 * setting.median_kilobytes_per_s / identities, "attacker"
            peers += [SwarmPeer(own, each, client, lends=lends)] * identities
        elif i in riders:
            peers.append(SwarmPeer("free rider", 0.0))
        else:
            peers.append(SwarmPeer(own, rate, lends=lends))
    return peers


class OneIdentity(RoundRobin):
    """A seed's choker that knows which peers belong to the attacker, and serves only the first of them."""

    def __init__(self, random: Random, others: range, **own: Any):
        super().__init__(random, **own)
        self.others = others

    def decide(self, now_s: float, interested: Sequence, received_bytes: Mapping) -> dict:
        """See Choker."""
        return super().decide(now_s, [peer for peer in interested if peer not in self.others], received_bytes)


def make_choker(setting: Setting, kind: str, random: Random) -> Choker:
    """Make the choker of a kind with the setting's constants."""
    own = constants(setting).get(kind, {})
    if kind == "seed" and setting.seeds_know_clients:
        return OneIdentity(random, range(setting.seeds + 1, setting.seeds + setting.identities), **own)
    return choker(kind, random, **own)


def constants(setting: Setting) -> dict[str, dict[str, float]]:
    """Return the constants of each kind of choker."""
    rounds = {"round_s": setting.round_s, "optimistic_s": setting.optimistic_s}
    return {
        "bittorrent": rounds,
        "seed": {"round_s": setting.round_s, "turn_s": setting.optimistic_s},
        "by chance": rounds,
    } | dict.fromkeys(("propshare", "permuted"), rounds | {"reserve": setting.reserve, "baseline": setting.baseline})
