"""Five sites of a wide-area network, their clients' commands, and the protocol that orders these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.networks.zipf import exact_ranks, gray_ranks
from netrepro.paths import data_dir
from netrepro.simulation.replication import Demand, Deployment
from netrepro.study.setting import parameter

SLUG = "epaxos_revisited"
REGIONS = ("CA", "VA", "OR", "JP", "EU")
CLASS_REGIONS = ("OR", "EU", "VA")
LEADER, OTHER_LEADER = "CA", "EU"
MULTI, MULTI_FAR = "Multi-Paxos", "Multi-Paxos from EU"
LONGEST_ROUND_TRIP_MS = 220.0
# The cells in which the authors compared TOQ, and the cell with most conflicts.
TOQ_CELLS = ((0.8, 0.5), (0.99, 1.0))
HOTTEST = (0.99, 1.0)
CLOCKS_APART_MS = 100.0
SKEWS_AS_RELEASED = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
SKEWS_OF_THE_CLASS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
WRITES_AS_RELEASED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WRITES_OF_THE_CLASS = (0.0, 0.1, *WRITES_AS_RELEASED)
GRID, LIGHT, IDLE = "grid", "light", "idle"
MULTI_PAXOS: dict[str, Any] = {"protocol": "multi-paxos"}
# Schemes that run without load, for their least latency, and those that real processes run.
SCHEMES: dict[str, dict[str, Any]] = {
    "EPaxos": {"own_keys": True},
    MULTI: MULTI_PAXOS,
    "EPaxos, TOQ union": {"own_keys": True, "toq": "union"},
    "EPaxos without fast path": {"own_keys": True, "fast_path": False},
    MULTI_FAR: MULTI_PAXOS | {"leader": OTHER_LEADER},
    "EPaxos, TOQ of all": {"own_keys": True, "toq": "all"},
}
PROCESSES: dict[str, dict[str, Any]] = {
    MULTI: MULTI_PAXOS,
    **{
        f"theta {theta:g}, writes {writes:g}": {"theta": theta, "writes": writes}
        for theta, writes in ((0.8, 0.5), (0.9, 0.5), HOTTEST)
    },
}


@dataclass(frozen=True)
class Setting:
    """The load and the network, as in the authors' released harness where it gives them.

    arrival_ms : mean time between a client's commands (Poisson). cap : the most of its commands under way at once.
    message_cost_us : processor time of a replica for each message; this default keeps Multi-Paxos's leader 80 % busy.
    jitter_ms : mean extra delay of a message between regions; our choice. own_keys : no two clients share a key.
    hot_share : share of commands that use one hot key, while all others have keys of their own (None: Zipf's keys).
    lan_round_trip_ms : round trip between any two replicas, 0 for those of the regions.
    looks_at_arrivals, execution_interval_ms : as the released programs: a client whose places are taken looks again at
    its next arrival only, and replicas look every millisecond for what they can execute.
    clock_error_ms : greatest difference between two clocks. settle_s : time before measuring starts. kind : GRID;
    LIGHT, a load that real processes can carry, for light_s in all; or IDLE, a load so small that commands never meet.
    """

    clients_per_region: int = parameter(10, "at each of the five sites", low=1, high=1000)
    cap: int = parameter(10, "commands that a client has under way at most", low=1, high=1_000_000)
    arrival_ms: float = parameter(4.5, "mean time between a client's commands", "ms", low=0.01, high=10_000)
    keys: int = 1_000_000
    message_cost_us: float = parameter(38.0, "of a replica's processor, a message", "microseconds", low=0, high=100_000)
    jitter_ms: float = parameter(0.2, "mean of what a message takes longer", "ms", low=0, high=1000)
    protocol: str = "epaxos"
    theta: float = 0.9
    writes: float = 0.5
    own_keys: bool = False
    hot_share: float | None = None
    lan_round_trip_ms: float = 0.0
    leader: str = LEADER
    toq: str = "none"
    chain_fix: bool = True
    fast_path: bool = True
    looks_at_arrivals: bool = True
    execution_interval_ms: float = 1.0
    clock_error_ms: float = 0.0
    settle_s: float = 1.0
    kind: str = GRID
    light_s: float = 1.0


@cache
def round_trips(regions: tuple[str, ...] = REGIONS) -> tuple[tuple[float, ...], ...]:
    """Read the round trips between regions (ms), from data/epaxos_revisited/round_trips.csv."""
    table = pd.read_csv(data_dir(SLUG) / "round_trips.csv")
    known = {(a, b): float(ms) for a, b, ms in zip(table["from"], table["to"], table["round_trip_ms"], strict=True)}
    known |= {(b, a): ms for (a, b), ms in known.items()} | {(region, region): 0.0 for region in REGIONS}
    return tuple(tuple(known[a, b] for b in regions) for a in regions)


def demand(setting: Setting, stop_s: float, seed: int, clients: Sequence[str] | None = None) -> Demand:
    """Generate the commands that clients want up to stop_s. clients : a region for each client; None for the setting's
    number in every region.

    Keys come from Gray's generator, or from the exact law where theta is 1 or more, which Gray's generator cannot draw.
    Raises NetreproError for fewer than two keys.
    """
    if setting.keys < 2:
        raise NetreproError(f"keys = {setting.keys}", "give two at least")
    where = tuple(np.repeat(REGIONS, setting.clients_per_region)) if clients is None else tuple(clients)
    random = np.random.default_rng(seed)
    gap_s = setting.arrival_ms / 1e3
    each = int(stop_s / gap_s + 5 * np.sqrt(stop_s / gap_s)) + 10
    arrivals = random.exponential(gap_s, (len(where), each)).cumsum(axis=1).ravel()
    uniform = random.random(len(arrivals))
    ranks = (gray_ranks if setting.theta < 1 else exact_ranks)(uniform, setting.keys, setting.theta)
    owners = np.repeat(np.arange(len(where)), each)
    keys = ranks * len(where) + owners if setting.own_keys else ranks
    if setting.hot_share is not None:
        keys = np.where(uniform < setting.hot_share, 0, 1 + np.arange(len(arrivals)))
    wanted = random.random(len(arrivals)) < setting.writes
    sent = arrivals < stop_s
    return Demand(
        arrivals[sent], owners[sent], keys[sent], wanted[sent], where, setting.cap, stop_s, setting.looks_at_arrivals
    )


def deployment(setting: Setting, seed: int, regions: Sequence[str] = REGIONS) -> Deployment:
    """Return the replicas of a setting."""
    half = setting.clock_error_ms / 2
    errors = np.random.default_rng([seed, 7]).uniform(-half, half, len(regions)) if half else ()
    near = tuple(tuple(setting.lan_round_trip_ms * (a != b) for b in regions) for a in regions)
    return Deployment(
        tuple(regions),
        near if setting.lan_round_trip_ms else round_trips(tuple(regions)),
        setting.protocol,
        setting.leader if setting.leader in regions else regions[0],
        setting.chain_fix,
        setting.fast_path,
        setting.toq,
        clock_errors_ms=tuple(errors),
        message_cost_us=setting.message_cost_us,
        jitter_ms=setting.jitter_ms,
        execution_interval_ms=setting.execution_interval_ms,
    )
