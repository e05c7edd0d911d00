"""Running Raft as five real processes in virtual time: leaders are killed by SIGKILL, logs are compared at the end.

guest.py keeps a server on each of five hosts, and runs the tester on a sixth.

The machine is the one against which the simulator's elections are checked; sockets, timers and crashes are Linux's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netrepro.applications.processes import addresses_in, lines_of, start
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.links import Link
from netrepro.networks.topology import Topology, star
from netrepro.protocols.raft_elections import Election

GUEST = Path(__file__).with_name("guest.py")
SERVERS = ("a", "b", "c", "d", "e")
PLACES = {name: f"h{number}" for number, name in enumerate((*SERVERS, "tester"), start=1)}
CHECKS = ("terms with two leaders", "logs that differ", "places of the log with two commands", "committed and lost")


def network(setting: Election, hosts: int = len(PLACES)) -> Topology:
    """Put five servers and the tester on a switch; a message's delay has the setting's mean and standard deviation."""
    delay_ms = (setting.least_delay_ms + setting.greatest_delay_ms) / 2
    deviation_ms = (setting.greatest_delay_ms - setting.least_delay_ms) / np.sqrt(12)
    return star(hosts, Link(1000.0, delay_ms / 2, jitter_ms=float(deviation_ms / np.sqrt(2))))


def run(topology: Topology, cases: Sequence[Mapping[str, Any]], seed: int) -> Iterable[dict[str, Any]]:
    """Run the cases and return the tester's results of each: trials, reports, logs."""
    where = addresses_in(topology, PLACES)
    with VirtualNetwork(topology, seed=seed, syscall_cost_ns=0) as net:
        keepers = [start(net, PLACES[name], GUEST, "keep", name, where) for name in SERVERS]
        return lines_of(start(net, PLACES["tester"], GUEST, "crash", json.dumps(cases), where), keepers)


def violations(outcome: Mapping[str, Any]) -> Counter:
    """Count failures of CHECKS (election safety, log matching, state machine safety, leader completeness) in a case."""
    leads = {(value, name) for name, _, _, kind, value in outcome["reports"] if kind == "leader"}
    applied = {tuple(value) for _, _, _, kind, value in outcome["reports"] if kind == "applied"}
    logs = [[tuple(entry) for entry in log] for log in outcome["logs"].values()]
    wrong = Counter({name: 0 for name in CHECKS})
    wrong[CHECKS[0]] = len(leads) - len({term for term, _ in leads})
    wrong[CHECKS[1]] = sum(log != logs[0] for log in logs)
    wrong[CHECKS[2]] = len(applied) - len({index for index, _ in applied})
    # Every applied command was committed, also the last one before each kill.
    wrong[CHECKS[3]] = sum(
        len(log) < index or log[index - 1][1] != command for log in logs for index, command in applied
    )
    return wrong
