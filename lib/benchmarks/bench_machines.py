"""Protocol machines: calls a processor second by `drive` and by `simulate_machines`, beside the compiled engines.

A call is a message that arrives or an alarm that goes off. Echo: five machines that send every message back, which
shows what the drivers cost. Raft: five servers with a leader and its heartbeats, nine of ten calls messages; elections
of four survivors, by `drive` and compiled, where a test has both end every trial at the same time.
Swarm: blocks that arrive in a swarm of 33, by clients that speak the protocol and compiled; both ask the same chokers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pandas as pd

from netrepro.networks import Experiment, Link, star
from netrepro.protocols import Send, drive
from netrepro.protocols.bittorrent.chokers import choker
from netrepro.protocols.bittorrent.client import Client
from netrepro.protocols.bittorrent.metainfo import BLOCK_BYTES, make_torrent
from netrepro.protocols.raft import Disk, Raft
from netrepro.protocols.raft_elections import Election, elect
from netrepro.simulation import simulate_machines
from netrepro.simulation.swarm import SwarmPeer, run_swarm

NAMES = ("a", "b", "c", "d", "e")
ELECTION_S = 0.6  # after which hardly an election with timeouts of 150 to 300 ms is open
PIECES, BLOCKS, LEECHERS, SEED_RATE, RATE = 48, 16, 30, 128e3, 80e3


class Counted:
    """A machine and how often it was called."""

    def __init__(self, machine: Any):
        self.machine, self.calls = machine, 0

    @property
    def wake_at_s(self) -> float:
        return self.machine.wake_at_s

    def start(self, now_s: float) -> Any:
        return self.machine.start(now_s)

    def receive(self, now_s: float, sender: Any, message: Any) -> Any:
        self.calls += 1
        return self.machine.receive(now_s, sender, message)

    def wake(self, now_s: float) -> Any:
        self.calls += 1
        return self.machine.wake(now_s)


class Echo:
    """Sends a message to each of its peers at first, and every message back."""

    wake_at_s = math.inf

    def __init__(self, peers: list[str]):
        self.peers = peers

    def start(self, _: float) -> list[Send]:
        return [Send(peer, "message") for peer in self.peers]

    def receive(self, _: float, sender: str, message: str) -> list[Send]:
        return [Send(sender, message)]


def echoes() -> dict[str, Counted]:
    return {name: Counted(Echo([each for each in NAMES if each != name])) for name in NAMES}


def servers(seed: int) -> dict[str, Counted]:
    random = Random(seed)

    def one(name: str) -> Raft:
        others = [each for each in NAMES if each != name]
        return Raft(name, others, Disk(), election_timeout_s=lambda: random.uniform(0.15, 0.3), heartbeat_s=0.01)

    return {name: Counted(one(name)) for name in NAMES}


def timed(act: Callable[[], float]) -> float:
    """What it returns, a processor second."""
    began = time.process_time()
    done = act()
    return done / (time.process_time() - began)


def by_drive(machines: dict[str, Counted], seconds: float) -> float:
    drive(machines, lambda *_: 4e-4, seconds)
    return sum(each.calls for each in machines.values())


def by_simulator(machines: dict[str, Counted], seconds: float) -> float:
    hosts = {name: f"h{place}" for place, name in enumerate(NAMES, 1)}
    experiment = Experiment(star(5, Link(1000, 0.2)), (), seconds)
    simulate_machines(experiment, machines, lambda _: 100, hosts, most_events=10**8)
    return sum(each.calls for each in machines.values())


def elections_by_drive(trials: int) -> float:
    for trial in range(trials):
        machines = servers(trial)

        def crash(now_s: float) -> list:
            del machines["a"]  # noqa: B023 - called before the next trial
            return []

        drive(machines, lambda *_: 4e-4, ELECTION_S, at=[(0.0, crash)])
    return trials


def elections_compiled(trials: int) -> float:
    return float(elect("150-300", Election(0.4, 0.4), trials, 1).elected.sum())


def blocks_by_clients(pieces: int) -> float:
    content = Random(1).randbytes(pieces * BLOCKS * BLOCK_BYTES)
    torrent, clients = make_torrent("file", content, BLOCKS * BLOCK_BYTES), dict[str, Client]()
    for place in range(3 + LEECHERS):
        random, is_seed = Random(place), place < 3
        clients[f"p{place}"] = Client(
            torrent,
            b"-NR0001-%012d" % place,
            choker("propshare", random),
            choker("seed", random),
            random,
            content=content if is_seed else None,
            upload_bytes_per_s=SEED_RATE if is_seed else RATE,
            peers=[] if is_seed else list(clients),
        )
    drive(clients, lambda *_: 0.005, 600.0)
    return sum(each.received_bytes for each in clients.values()) / BLOCK_BYTES


def blocks_compiled(swarms: int) -> float:
    peers = [SwarmPeer("seed", SEED_RATE / 1e3, is_seed=True)] * 3
    peers += [SwarmPeer("propshare", RATE / 1e3)] * LEECHERS
    found = [run_swarm(peers, seed, pieces=PIECES, blocks_per_piece=BLOCKS) for seed in range(swarms)]
    return sum(each["received_bytes"].sum() for each in found) / BLOCK_BYTES


def run(quick: bool = True) -> pd.DataFrame:
    """A row a driver: what is counted, how much of it a processor second, and the ratio to `drive`."""
    times = 1 if quick else 10
    rows = [
        ("echo, drive", "messages", timed(lambda: by_drive(echoes(), 4.0 * times))),
        ("echo, simulate_machines", "messages", timed(lambda: by_simulator(echoes(), 4.0 * times))),
        ("Raft, drive", "calls", timed(lambda: by_drive(servers(1), 20.0 * times))),
        ("Raft, simulate_machines", "calls", timed(lambda: by_simulator(servers(1), 20.0 * times))),
        ("elections, drive", "elections", timed(lambda: elections_by_drive(20 * times))),
        ("elections, compiled", "elections", timed(lambda: elections_compiled(20_000 * times))),
        ("swarm, drive", "blocks", timed(lambda: blocks_by_clients(2 * times))),
        ("swarm, compiled", "blocks", timed(lambda: blocks_compiled(2 * times))),
    ]
    table = pd.DataFrame(rows, columns=["what", "counted", "a second"]).set_index("what")
    first = table.groupby("counted", sort=False)["a second"].transform("first")
    return table.assign(ratio=table["a second"] / first)
