"""A replicated key-value store and its clients in virtual time, by the C++ core or by the machines of `protocols`.

Both run the same commands over the same delays. The core is for measuring. The machines, which a person can read, check
the core: without jitter they give the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import netrepro._core as _core
from netrepro.errors import NetreproError, nearest
from netrepro.protocols import Machine, drive
from netrepro.protocols.epaxos import EPaxosReplica
from netrepro.protocols.multi_paxos import MultiPaxosReplica
from netrepro.protocols.replicated_store import Command, LateAnswers, Processor, StoreClient

PROTOCOLS = ("epaxos", "multi-paxos")
GROUPS = ("none", "quorum", "union", "all")


@dataclass(frozen=True)
class Deployment:
    """Replicas, one in each region, and how they run.

    round_trips_ms : round trips between regions, a symmetric matrix with 0 on the diagonal.
    leader : region of Multi-Paxos's leader; "" for the first.
    toq : the replicas that hold an EPaxos command back until all of them have it: "none", the leader's "quorum", the
        "union" of all quorums, or "all". They wait `toq_margin_ms` longer than this takes in the mean.
    clock_errors_ms : time by which each region's clock is ahead of the true time; empty for none.
    message_cost_us : processor time for every message that a replica gets; sending is free.
    jitter_ms : mean extra delay of a message between regions (exponential; connections keep the order).
    execution_interval_ms : time between two looks for commands that can be executed, at multiples of it; 0: at once.

    Raises NetreproError for a deployment that is not possible.
    """

    regions: tuple[str, ...]
    round_trips_ms: tuple[tuple[float, ...], ...]
    protocol: str = "epaxos"
    leader: str = ""
    chain_fix: bool = True
    fast_path: bool = True
    toq: str = "none"
    toq_margin_ms: float = 0.0
    clock_errors_ms: tuple[float, ...] = ()
    message_cost_us: float = 0.0
    jitter_ms: float = 0.0
    execution_interval_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise NetreproError(f"no protocol {self.protocol!r}", nearest(self.protocol, PROTOCOLS))
        if self.toq not in GROUPS:
            raise NetreproError(f"toq is {self.toq!r}", nearest(self.toq, GROUPS))
        if len(self.regions) not in (3, 5):
            raise NetreproError(f"{len(self.regions)} regions", "give 3 or 5: quorums are of these")
        if self.leader and self.leader not in self.regions:
            raise NetreproError(f"no region {self.leader!r} for the leader", nearest(self.leader, self.regions))
        matrix = np.asarray(self.round_trips_ms, dtype=float)
        if matrix.shape != (len(self.regions),) * 2 or (matrix != matrix.T).any() or (matrix.diagonal() != 0).any():
            raise NetreproError("round_trips_ms is no matrix of the regions", "make it symmetric, 0 on the diagonal")
        if len(self.clock_errors_ms) not in (0, len(self.regions)):
            raise NetreproError(f"{len(self.clock_errors_ms)} clock errors", "give one a region, or none")
        if min(self.message_cost_us, self.jitter_ms, self.toq_margin_ms, self.execution_interval_ms) < 0:
            raise NetreproError("a negative cost, jitter, margin or interval", "give 0 or more")

    @property
    def delays_s(self) -> np.ndarray:
        """The one-way delays between regions, without jitter."""
        return np.asarray(self.round_trips_ms, dtype=float) / 2e3

    def quorum(self, region: int) -> list[int]:
        """Find the nearest replicas that make a majority with a region's own, which is left out."""
        near = np.argsort(self.delays_s[region], kind="stable")
        return [int(each) for each in near if each != region][: len(self.regions) // 2]

    @property
    def hold_back_s(self) -> list[float]:
        """The time for which each region's commands are held back; empty without TOQ."""
        every = range(len(self.regions))
        if self.toq == "none":
            return []
        union = sorted({member for region in every for member in self.quorum(region)})
        extra = (self.jitter_ms + self.toq_margin_ms) / 1e3
        groups: dict[str, Callable[[int], Iterable[int]]] = {
            "union": lambda _: union,
            "all": lambda _: every,
            "quorum": self.quorum,
        }
        return [max(self.delays_s[i][j] for j in groups[self.toq](i)) + extra for i in every]

    def minimum_ms(self) -> np.ndarray:
        """Compute the least latency of execution by region: without conflicts, message costs or jitter."""
        delays, every = self.delays_s * 1e3, range(len(self.regions))
        if self.protocol == "multi-paxos":
            leader = self.regions.index(self.leader or self.regions[0])
            return np.array([2 * delays[i][leader] + 2 * delays[leader][self.quorum(leader)[-1]] for i in every])
        held = np.array(self.hold_back_s or [0.0] * len(self.regions)) * 1e3
        answers = [sorted(max(held[i], delays[i][j]) + delays[i][j] for j in every if j != i) for i in every]
        first = np.array([each[len(self.regions) // 2 - 1] for each in answers])
        return first if self.fast_path else first + np.array([2 * delays[i][self.quorum(i)[-1]] for i in every])


@dataclass(frozen=True)
class Demand:
    """The commands of all clients.

    By command: arrivals_s, clients (ascending numbers), keys, writes; by client: regions (names).
    cap : the most commands that a client has under way. stop_s : the time after which nothing is sent.
    looks_at_arrivals : whether a client notices a free place only when its next command arrives, not with the answer.
    """

    arrivals_s: np.ndarray
    clients: np.ndarray
    keys: np.ndarray
    writes: np.ndarray
    regions: tuple[str, ...]
    cap: int
    stop_s: float
    looks_at_arrivals: bool = False

    def __post_init__(self) -> None:
        sizes = {len(self.arrivals_s), len(self.clients), len(self.keys), len(self.writes)}
        if len(sizes) > 1 or (np.diff(self.clients) < 0).any():
            raise NetreproError("columns of a demand", "give them the same length, client after client")
        if self.cap < 1:
            raise NetreproError(f"a cap of {self.cap}", "give 1 at least")


@dataclass(frozen=True)
class ReplicatedRun:
    """The result of a replicated run.

    commands : a row for each command that was sent: command, client, region, key, is_write, sent_s, committed_s,
    answered_s, is_fast (EPaxos's first round was enough), value (the command whose write it saw, -1 for none).

    busy_share : by region, the busy share of its processor until the last answer. unlike_keys : number of keys whose
    writes have another order at some replica than at the first. unexecuted : sent commands that a replica has not
    executed at the end (the core counts the worst replica, the machines all replicas). events : number of events.
    """

    commands: pd.DataFrame
    busy_share: np.ndarray
    unlike_keys: int
    unexecuted: int
    events: int = 0


def simulate_replication(deployment: Deployment, demand: Demand, seed: int = 1) -> ReplicatedRun:
    """Run the clients against the replicas, by the C++ core. `seed` is the seed of the jitter."""
    places = _places(deployment, demand)
    leader = deployment.regions.index(deployment.leader or deployment.regions[0])
    is_epaxos = deployment.protocol == "epaxos"
    keys, compact = np.unique(demand.keys, return_inverse=True)
    outcome: dict[str, Any] = _core.simulate_replication(
        delays=deployment.delays_s.tolist(),
        jitter=deployment.jitter_ms / 1e3,
        message_cost=deployment.message_cost_us / 1e6,
        stop=demand.stop_s,
        execution_interval=deployment.execution_interval_ms / 1e3,
        cap=demand.cap,
        looks_at_arrivals=demand.looks_at_arrivals,
        seed=seed,
        is_epaxos=is_epaxos,
        leader=leader,
        chain_fix=deployment.chain_fix,
        fast_path=deployment.fast_path,
        hold_back=deployment.hold_back_s,
        clock_error=_clock_errors_s(deployment),
        arrivals=demand.arrivals_s,
        clients=demand.clients,
        keys=compact,
        writes=demand.writes,
        regions=places,
        replicas=places if is_epaxos else [leader] * len(places),
        key_count=len(keys),
    )
    columns = {name: outcome[name] for name in ("sent", "committed", "answered", "is_fast", "value")}
    return replicated_run(
        demand, columns, outcome["busy"], outcome["unlike_keys"], outcome["unexecuted"], outcome["events"]
    )


def drive_replication(deployment: Deployment, demand: Demand) -> ReplicatedRun:
    """Run the same by the machines of `protocols`. Raises NetreproError for a deployment with jitter."""
    if deployment.jitter_ms:
        raise NetreproError("the machines are driven without jitter", "set jitter_ms=0")
    places, names, errors = _places(deployment, demand), deployment.regions, _clock_errors_s(deployment)
    leader, held = deployment.leader or names[0], deployment.hold_back_s
    replicas: dict[str, Any] = {
        name: EPaxosReplica(
            name,
            names,
            chain_fix=deployment.chain_fix,
            fast_path=deployment.fast_path,
            hold_back_s=dict(zip(names, held, strict=True)) if held else None,
            clock_error_s=errors[i],
        )
        if deployment.protocol == "epaxos"
        else MultiPaxosReplica(name, names, leader)
        for i, name in enumerate(names)
    }
    cost_s = deployment.message_cost_us / 1e6
    hosts: dict[str, Any] = {name: Processor(each, cost_s) if cost_s else each for name, each in replicas.items()}
    interval_s = deployment.execution_interval_ms / 1e3
    machines: dict[Hashable, Machine] = {
        name: LateAnswers(each, interval_s) if interval_s else each for name, each in hosts.items()
    }
    rows: dict[Command, int] = {}
    for client, region in enumerate(demand.regions):
        mine = np.flatnonzero(demand.clients == client)
        commands = [Command(client, i, int(demand.keys[row]), bool(demand.writes[row])) for i, row in enumerate(mine)]
        rows |= {command: int(row) for command, row in zip(commands, mine, strict=True)}
        asked = region if deployment.protocol == "epaxos" else leader
        machines[client] = StoreClient(
            asked, demand.arrivals_s[mine].tolist(), commands, demand.cap, demand.stop_s, demand.looks_at_arrivals
        )
    place: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
    place.update(enumerate(places))
    delays = deployment.delays_s
    size = len(demand.keys)
    columns: dict[str, np.ndarray] = {name: np.full(size, -1.0) for name in ("sent", "committed", "answered")}
    columns |= {"is_fast": np.zeros(size, bool), "value": np.full(size, -1)}
    executed = 0
    long_after_s = demand.stop_s + 3600.0
    for time_s, _, event in drive(machines, lambda a, b, _: float(delays[place[a], place[b]]), long_after_s):
        if event.kind == "sent":
            columns["sent"][rows[event.value]] = time_s
        elif event.kind == "committed":
            fast = getattr(event.value, "is_fast", True)
            row = rows[getattr(event.value, "command", event.value)]
            columns["committed"][row], columns["is_fast"][row] = time_s, fast
        elif event.kind == "answered":
            row = rows[event.value.command]
            columns["answered"][row] = time_s
            columns["value"][row] = -1 if event.value.value is None else rows[event.value.value]
        else:
            executed += 1
    stores = [replica.store.writes for replica in replicas.values()]
    unlike = max(sum(store.get(key) != stores[0].get(key) for key in {*store, *stores[0]}) for store in stores)
    missing = int((columns["sent"] >= 0).sum()) * len(names) - executed
    busy = [getattr(host, "busy_s", 0.0) for host in hosts.values()]
    return replicated_run(demand, columns, busy, unlike, missing, 0)


def _places(deployment: Deployment, demand: Demand) -> list[int]:
    for region in demand.regions:
        if region not in deployment.regions:
            raise NetreproError(f"no replica in the clients' region {region!r}", nearest(region, deployment.regions))
    return [deployment.regions.index(region) for region in demand.regions]


def _clock_errors_s(deployment: Deployment) -> list[float]:
    return [each / 1e3 for each in deployment.clock_errors_ms] or [0.0] * len(deployment.regions)


def replicated_run(
    demand: Demand, columns: dict[str, np.ndarray], busy: Any, unlike: int, missing: int, events: int
) -> ReplicatedRun:
    """Make the result from columns of the commands (sent, committed, answered, is_fast, value; -1 for none)."""
    table = pd.DataFrame(
        {
            "command": np.arange(len(demand.keys)),
            "client": demand.clients,
            "region": np.asarray(demand.regions)[demand.clients],
            "key": demand.keys,
            "is_write": demand.writes,
            "sent_s": columns["sent"],
            "committed_s": columns["committed"],
            "answered_s": columns["answered"],
            "is_fast": columns["is_fast"],
            "value": columns["value"],
        }
    )
    table = table[table.sent_s >= 0].reset_index(drop=True)
    end_s = float(table.answered_s.max()) if len(table) else 1.0
    return ReplicatedRun(table, np.asarray(busy) / end_s, int(unlike), int(missing), int(events))
