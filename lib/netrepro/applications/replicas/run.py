"""Running EPaxos and Multi-Paxos as real processes in virtual time; a region is a host, with the matrix's delays.

guest.py runs twice in a region: as its replica, and as all its clients.

Replicas and clients are the machines of `netrepro.protocols`, over UDP sockets. The commands are the same as in the
simulator, so that both can be compared command by command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from netrepro.applications.processes import addresses_in, lines_of, start
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.links import Link
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.simulation.replication import Demand, Deployment, ReplicatedRun, replicated_run

GUEST = Path(__file__).with_name("guest.py")
RATE_MBPS = 10_000.0  # a datagram takes a fraction of a microsecond
SETTLES_S = 1.0  # pause before a case: programs start, and timers that end the case before are late by a thousandth
DRAINS_S = 5.0  # time after the last command, in which all replicas execute all commands


def network(deployment: Deployment) -> Topology:
    """Make a topology: one host and one router per region; a cable between two routers delays by half a round trip."""
    numbers = range(1, len(deployment.regions) + 1)
    near = [host_cable(f"h{i}", f"s{i}", Link(RATE_MBPS, 0.0)) for i in numbers]
    far = [
        Cable(f"s{i}", f"s{j}", Link(RATE_MBPS, deployment.round_trips_ms[i - 1][j - 1] / 2))
        for i, j in combinations(numbers, 2)
    ]
    return Topology((*near, *far), "regions")


def run_replication(cases: Mapping[str, tuple[Deployment, Demand]], seed: int = 1) -> dict[str, ReplicatedRun]:
    """Run all cases one after the other in the same processes, like `simulate_replication` but without jitter.

    All cases must have the regions and the round trips of the first one.
    """
    first, _ = next(iter(cases.values()))
    topology = network(first)
    hosts = {region: f"h{number}" for number, region in enumerate(first.regions, start=1)}
    with VirtualNetwork(topology, seed=seed, syscall_cost_ns=0) as net:
        begins_s = net.instance.order("clock")["monotonic_ns"] / 1e9 + SETTLES_S
        plan: dict[str, Any] = {"addresses": json.loads(addresses_in(topology, hosts)), "cases": []}
        for deployment, demand in cases.values():
            ends_s = begins_s + demand.stop_s + DRAINS_S
            plan["cases"].append(_case(deployment, demand, begins_s, ends_s))
            begins_s = ends_s + SETTLES_S
        path = net.folder / "plan.json"
        path.write_text(json.dumps(plan))
        started = {
            (what, region): start(net, host, GUEST, what, region, str(path))
            for region, host in hosts.items()
            for what in ("replica", "clients")
        }
        said = {who: list(lines_of(program)) for who, program in started.items()}
    runs = {}
    for place, (name, (_, demand)) in enumerate(cases.items()):
        replicas, asking = ([said[what, region][place] for region in hosts] for what in ("replica", "clients"))
        runs[name] = _gathered(demand, replicas, asking)
    return runs


def _case(deployment: Deployment, demand: Demand, begins_s: float, ends_s: float) -> dict[str, Any]:
    wanted: list[list[tuple[float, int, bool]]] = [[] for _ in demand.regions]
    for client, at_s, key, write in zip(demand.clients, demand.arrivals_s, demand.keys, demand.writes, strict=True):
        wanted[client].append((float(at_s), int(key), bool(write)))
    return {
        "begins_s": begins_s,
        "ends_s": ends_s,
        "protocol": deployment.protocol,
        "leader": deployment.leader or deployment.regions[0],
        "chain_fix": deployment.chain_fix,
        "fast_path": deployment.fast_path,
        "hold_back_s": deployment.hold_back_s,
        "message_cost_s": deployment.message_cost_us / 1e6,
        "homes": demand.regions,
        "wanted": wanted,
        "cap": demand.cap,
        "stop_s": demand.stop_s,
    }


def _gathered(demand: Demand, replicas: Sequence[Any], asking: Sequence[Any]) -> ReplicatedRun:
    first = np.searchsorted(demand.clients, np.arange(len(demand.regions)))  # index of each client's first command
    size = len(demand.keys)
    columns: dict[str, np.ndarray] = {name: np.full(size, -1.0) for name in ("sent", "committed", "answered")}
    columns |= {"is_fast": np.zeros(size, bool), "value": np.full(size, -1)}
    for kind, at_s, (client, number), more in (event for each in (*replicas, *asking) for event in each["events"]):
        row = first[client] + number
        columns[kind][row] = at_s
        if kind == "committed":
            columns["is_fast"][row] = more
        elif kind == "answered" and more is not None:
            columns["value"][row] = first[more[0]] + more[1]
    stores = [dict(map(tuple, each["writes"])) for each in replicas]
    unlike = max(sum(store.get(key) != stores[0].get(key) for key in {*store, *stores[0]}) for store in stores)
    missing = int((columns["sent"] >= 0).sum()) * len(replicas) - sum(each["executed"] for each in replicas)
    return replicated_run(demand, columns, [each["busy_s"] for each in replicas], unlike, missing, 0)
