"""Replicas of a key-value store and their clients as real processes, several cases one after the other.

    guest.py LIBRARY replica REGION PLAN      the replica of a region, in the region's network
    guest.py LIBRARY clients REGION PLAN      all clients of a region, in the same network

LIBRARY is the folder of the package, PLAN a JSON file with `addresses` by region, and `cases`. Each case has its
clients' `homes` (regions), and begins and ends at a time of the kernel's clock, which all processes share. A case's
times count from its beginning. After a case, each process prints its events as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from netrepro.applications.datagrams import Post, drive_over_sockets
from netrepro.protocols import epaxos, multi_paxos
from netrepro.protocols.machine import Event, Machine
from netrepro.protocols.replicated_store import Command, Processor, Reply, Request, StoreClient

KINDS = (Command, Request, Reply, epaxos.Attributes, epaxos.PreAccept, epaxos.PreAccepted, epaxos.Commit)
# Only one of the two protocols runs at a time.
ROUNDS = {
    "epaxos": (epaxos.Accept, epaxos.Accepted),
    "multi-paxos": (multi_paxos.Accept, multi_paxos.Accepted, multi_paxos.Chosen),
}
REPLICA_PORT, CLIENTS_PORT = 7000, 7001


def replica_of(region: str, regions: list[str], case: dict[str, Any]) -> Machine:
    """Make the region's replica, with a Processor if a message costs time."""
    machine: Machine
    if case["protocol"] == "multi-paxos":
        machine = multi_paxos.MultiPaxosReplica(region, regions, case["leader"])
    else:
        machine = epaxos.EPaxosReplica(
            region,
            regions,
            chain_fix=case["chain_fix"],
            fast_path=case["fast_path"],
            hold_back_s=dict(zip(regions, case["hold_back_s"], strict=True)) if case["hold_back_s"] else None,
        )
    return Processor(machine, case["message_cost_s"]) if case["message_cost_s"] else machine


def clients_of(region: str, case: dict[str, Any]) -> dict[Hashable, Machine]:
    """Make the region's clients, by number; they send to the region's replica, or to Multi-Paxos's leader."""
    asked = case["leader"] if case["protocol"] == "multi-paxos" else region
    clients: dict[Hashable, Machine] = {}
    for number, home in enumerate(case["homes"]):
        if home == region:
            wanted = case["wanted"][number]
            commands = [Command(number, place, key, write) for place, (_, key, write) in enumerate(wanted)]
            arrivals_s = [at_s for at_s, _, _ in wanted]
            clients[number] = StoreClient(asked, arrivals_s, commands, case["cap"], case["stop_s"])
    return clients


def identity(command: Command | None) -> tuple[Any, int] | None:
    return None if command is None else (command.client, command.number)


def main(what: str, region: str, plan: dict[str, Any]) -> None:
    Path("/proc/self/timerslack_ns").write_text("1")  # exact timers: only the plan's delays and costs count
    addresses, is_replica = plan["addresses"], what == "replica"
    post = Post({}, (addresses[region], REPLICA_PORT if is_replica else CLIENTS_PORT), ())
    for case in plan["cases"]:
        post.understand((*KINDS, *ROUNDS[case["protocol"]]))
        post.addresses = {name: (address, REPLICA_PORT) for name, address in addresses.items()}
        post.addresses |= {number: (addresses[home], CLIENTS_PORT) for number, home in enumerate(case["homes"])}
        machines = {region: replica_of(region, list(addresses), case)} if is_replica else clients_of(region, case)
        outcome = run(machines, post, case["begins_s"], case["ends_s"])
        if is_replica:
            host: Any = machines[region]
            store = getattr(host, "machine", host).store
            outcome["busy_s"] = getattr(host, "busy_s", 0.0)
            outcome["writes"] = [(key, [identity(each) for each in commands]) for key, commands in store.writes.items()]
        sys.stdout.write(json.dumps(outcome) + "\n")


def run(machines: Mapping[Any, Machine], post: Post, begins_s: float, ends_s: float) -> dict[str, Any]:
    """Run the machines and return their events and the number of commands executed here. An event is (kind, seconds
    since the beginning, command, more): "sent", "committed" (more: on the fast path) or "answered" (more: the write
    that a read saw)."""
    events: list[tuple[Any, ...]] = []
    executed = 0

    def note(at_s: float, _: Hashable, event: Event) -> None:
        nonlocal executed
        value = event.value
        if event.kind == "executed":
            executed += 1
        elif event.kind == "answered":
            events.append((event.kind, at_s, identity(value.command), identity(value.value)))
        else:
            command, is_fast = getattr(value, "command", value), getattr(value, "is_fast", True)
            events.append((event.kind, at_s, identity(command), is_fast))

    drive_over_sockets(machines, post, note, ends_s - begins_s, lambda: time.monotonic() - begins_s)
    return {"events": events, "executed": executed}


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3], json.loads(Path(sys.argv[4]).read_text()))
