"""RepNet's bucket sort (Fig. 17): the application itself on real kernels, and its traffic in the simulator."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.bucket_sort import guest as bucket_sort
from netrepro.applications.repnet.run import BEGIN_S, Programs, hash_addresses_only
from netrepro.emulation import Network, emulate
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks.experiment import FIDELITY_COLUMNS, Experiment, Measure
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate
from netrepro.study import HOST_DELAY_PACKETS

ROUND_S = 60.0  # of rounds in virtual time, those of the simulator each a run; a SYN lost three times takes 21 s
PATIENCE_S, LAST_S = 6.0, 1.0  # for jobs under way when no more begin; and then until the network ends
PROGRAMS_MB = 4096  # of memory for a kernel in virtual time and twelve programs with a million numbers each
# Of each value as a line of text.
TEXT_BYTES = np.array([len(bucket_sort.as_text(np.array([value]))) for value in range(bucket_sort.VALUES)])


@dataclass(frozen=True)
class Sort:
    """Bucket sort by all hosts of `topology` at once, each as master of the others, over one scheme.

    starts_within_s : masters begin at random within this time. threshold_bytes : of a stream, that RepNet replicates.
    same_path : the control, both connections of a stream on one path.
    """

    topology: Topology
    tcp: Tcp
    scheme: str
    numbers: int
    threshold_bytes: int
    starts_within_s: float
    same_path: bool = False

    @property
    def slaves(self) -> int:
        """The number of slaves of each master."""
        return len(self.topology.hosts) - 1


def emulate_sort(sort: Sort, seconds: float, seed: int, tier: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the application on real kernels, where masters sort array after array for `seconds`. Returns (jobs,
    fidelity).

    jobs : a row each, start_s, took_ms. The fidelity has the tier's checks of the links between switches, and that
    every array came out sorted. Raises NetreproError as emulate does, and when a host's program fails.
    """
    programs = Programs(bucket_sort.__name__, partial(_orders, sort, seconds, 1, seed))

    def prepare(net: RealTimeNetwork) -> None:
        if sort.same_path:
            hash_addresses_only(net)
        programs.start(net)

    uplinks = tuple(port for port in sort.topology.ports if port[0] == "s1" and port[1] not in sort.topology.hosts)
    duration_s = seconds + PATIENCE_S + LAST_S
    idle = Experiment(sort.topology, (), duration_s, seed, Measure(queues=uplinks), sort.tcp)
    found = emulate(idle, tier, prepare=prepare, programs_control=sort.tcp.congestion_control)
    jobs, checks = _read(programs.outcomes())
    return jobs, pd.concat([found.fidelity, checks], ignore_index=True)


def sort_in_virtual_time(sort: Sort, rounds: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the application itself on a kernel in virtual time: `rounds` times a job of every master, as simulate_sort
    has them, but over one network. The same seed gives the same jobs. Programs' own time is nothing. Returns (jobs,
    fidelity).

    With `same_path` all connections of two hosts share their path, as no other fields than addresses are hashed.
    Raises NetreproError without the kernel, and when a host's program fails.
    """
    net = VirtualNetwork(
        sort.topology, congestion_control=sort.tcp.congestion_control, seed=seed, tcp=sort.tcp, memory_mb=PROGRAMS_MB
    )
    with net:
        if sort.same_path:
            hash_addresses_only(net)
        begin_s = net.monotonic_s + BEGIN_S
        command = [sys.executable, "-P", "-B", "-m", bucket_sort.__name__]
        started = {}
        for host in sort.topology.hosts:
            orders = json.dumps(_orders(sort, 0.0, rounds, seed, net, host))
            started[host] = net[host].popen(command, input=f"{orders}\n{begin_s!r}\n")
        net.sleep(BEGIN_S + (rounds - 1) * ROUND_S + sort.starts_within_s + PATIENCE_S + LAST_S)
        outcomes = {}
        for host, program in started.items():
            ready, _, said = program.output.partition("\n")
            if not said or program.poll() is not None:
                last = (program.errors.strip() or ready).splitlines()[-1:]
                raise NetreproError(f"the program of {host} has not sorted: {''.join(last)}", "run the notebook again")
            outcomes[host] = json.loads(said)
    return _read(outcomes)


def _read(outcomes: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read what the hosts' programs said: (jobs, whether they came out sorted)."""
    jobs = [job for each in outcomes.values() for job in each]
    table = pd.DataFrame(jobs, columns=["start_s", "took_s", "is_sorted"])
    share = float(table["is_sorted"].mean())
    rows = pd.DataFrame([("arrays that came out sorted", share, 1.0, share == 1.0)], columns=FIDELITY_COLUMNS)
    table["took_ms"] = table.pop("took_s") * 1e3
    return table[["start_s", "took_ms"]], rows


def _orders(sort: Sort, seconds: float, rounds: int, seed: int, net: Network, host: str) -> dict[str, Any]:
    return {
        "address": net[host].address,
        "slaves": [net[other].address for other in net.topology.hosts if other != host],
        "scheme": sort.scheme,
        "numbers": sort.numbers,
        "threshold_bytes": sort.threshold_bytes,
        "starts_within_s": sort.starts_within_s,
        "seconds": seconds,
        "rounds": rounds,
        "round_s": ROUND_S,
        "patience_s": PATIENCE_S,
        "seed": [seed, net.topology.hosts.index(host)],
    }


def simulate_sort(sort: Sort, rounds: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate the application's traffic in virtual time: `rounds` times a job of every master. Returns (jobs,
    fidelity).

    A replicated flow takes a master's numbers to each slave, and a plain flow the sorted ones back, as soon as they are
    there.
    """
    found = [_simulate_round(sort, [seed, number]) for number in range(rounds)]
    jobs, checks = zip(*found, strict=True)
    return pd.concat(jobs, ignore_index=True), pd.concat(checks, ignore_index=True)


def _simulate_round(sort: Sort, place: list[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(place)
    jobs, ways = _traffic(sort, random)
    seed = int(random.integers(2**31))
    flows, count = (*_flows_there(sort, ways), *_flows_back(ways)), len(ways)
    experiment = Experiment(
        sort.topology, flows, 2 * ROUND_S, seed, tcp=sort.tcp, host_delay_packets=HOST_DELAY_PACKETS
    )
    found = simulate(experiment, start_after={count + way: way for way in range(count)})
    answers = found.flows.iloc[count:].reset_index(drop=True)
    back_s = answers["start_s"] + answers["completion_ms"] / 1e3
    share = float(back_s.notna().mean())
    whole = pd.DataFrame([("answers that are there", share, 1.0, share == 1.0)], columns=list(found.fidelity))
    took_ms = (back_s.groupby(ways["job"]).max() - jobs["start_s"]) * 1e3
    return jobs.assign(took_ms=took_ms), pd.concat([found.fidelity, whole], ignore_index=True)


def _traffic(sort: Sort, random: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (jobs: start_s; a row for each job and slave: job, master, slave, size_bytes, start_s)."""
    hosts = sort.topology.hosts
    starts_s = random.uniform(0, sort.starts_within_s, len(hosts))
    rows = []
    for job, master in enumerate(hosts):
        slaves = [host for host in hosts if host != master]
        buckets = (np.arange(bucket_sort.VALUES) * len(slaves)) // bucket_sort.VALUES
        # How often each value comes: the numbers themselves are not needed.
        counts = random.multinomial(sort.numbers, np.full(bucket_sort.VALUES, 1 / bucket_sort.VALUES))
        text_bytes = np.bincount(buckets, weights=counts * TEXT_BYTES)
        for slave, size_bytes in zip(slaves, text_bytes.astype(int).tolist(), strict=True):
            rows.append((job, master, slave, size_bytes, starts_s[job]))
    columns = ["job", "master", "slave", "size_bytes", "start_s"]
    return pd.DataFrame({"start_s": starts_s}), pd.DataFrame(rows, columns=columns)


def _flows_there(sort: Sort, ways: pd.DataFrame) -> list[Flow]:
    replication = "" if sort.scheme == "tcp" else sort.scheme
    how: dict[str, Any] = {"replication": replication, "replicate_below_bytes": 10**9, "label": "numbers"}
    how["replica_same_path"] = sort.same_path
    return [
        Flow(row.master, row.slave, size_bytes=row.size_bytes, start_s=row.start_s, **how) for row in ways.itertuples()
    ]


def _flows_back(ways: pd.DataFrame) -> list[Flow]:
    return [Flow(row.slave, row.master, size_bytes=row.size_bytes, label="sorted") for row in ways.itertuples()]
