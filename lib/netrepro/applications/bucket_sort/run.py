"""Running bucket sort by all hosts of a network: the application itself on kernels, its traffic in the simulator, and
the authors' program in virtual time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.bucket_sort import guest as bucket_sort
from netrepro.applications.bucket_sort import released_guest as released
from netrepro.applications.repnet.run import BEGIN_S, Programs, hash_addresses_only
from netrepro.emulation import Network, emulate
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks.checks import Check, check_table
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp
from netrepro.simulation import Hosts
from netrepro.simulation.hosts import Connection

MOST_JOBS = 1_000_000  # no limit: the time ends the jobs
PATIENCE_S, LAST_S = 6.0, 1.0  # time for unfinished jobs when no more begin, and then until the network ends
LONGEST_JOB_S = 40.0  # longest job in virtual time; a SYN lost three times takes 21 s
RELEASED_PATIENCE_S = 30.0  # for a job of the authors' program; with its rest it stays below the longest
BUSY_S = 900.0  # real time that twelve programs may take to start or to sort
PROGRAMS_MB = 4096  # memory for a kernel in virtual time and twelve programs with a million numbers each
Delivered = Callable[[float], Any]


@dataclass(frozen=True)
class Sort:
    """Bucket sort by all hosts of `topology` at once, each as master of the others, over one scheme.

    scheme : "tcp", "repflow" or "repsyn". numbers : size of an array. threshold_bytes : number of first bytes of a
    stream that RepNet replicates. starts_within_s : masters begin at random within this time. scan_s, range_s :
    processor time of a master's scan and of a slave's range. rest_s : mean pause of a master between two jobs.
    same_path : both connections of a stream use one path. one_master : only the first host begins jobs.
    """

    topology: Topology
    tcp: Tcp
    scheme: str
    numbers: int
    threshold_bytes: int
    starts_within_s: float
    scan_s: float
    range_s: float
    rest_s: float
    same_path: bool = False
    one_master: bool = False

    @property
    def masters(self) -> tuple[str, ...]:
        """The hosts that begin jobs."""
        return self.topology.hosts[:1] if self.one_master else self.topology.hosts


Sorted = tuple[
    pd.DataFrame, pd.DataFrame
]  # jobs: one row each, with start_s and took_ms; fidelity: the checks of the tier, and our own


# The application.


def emulate_sort(sort: Sort, seconds: float, seed: int, tier: str) -> Sorted:
    """Run the application on real kernels: masters sort array after array for `seconds`, and each result is checked.
    Raises NetreproError as emulate does, and when a host's program fails."""
    programs = Programs(bucket_sort.__name__, partial(_orders, sort, seconds, MOST_JOBS, seed))

    def prepare(net: RealTimeNetwork) -> None:
        if sort.same_path:
            hash_addresses_only(net)
        programs.start(net)

    uplinks = tuple(port for port in sort.topology.ports if port[0] == "s1" and port[1] not in sort.topology.hosts)
    duration_s = seconds + PATIENCE_S + LAST_S
    idle = Experiment(sort.topology, (), duration_s, seed, Measure(queues=uplinks), sort.tcp)
    measurements = emulate(idle, tier, prepare=prepare, programs_control=sort.tcp.congestion_control)
    jobs, whole = _told(programs.outcomes())
    return jobs, pd.concat([measurements.fidelity, whole], ignore_index=True)


def sort_in_virtual_time(sort: Sort, jobs: int, seed: int) -> Sorted:
    """Run the application itself on a kernel in virtual time: `jobs` jobs of every master, one after the other. The
    same seed gives the same jobs. Programs take only the time that the orders give.

    With `same_path`, all connections of two hosts share their path, because only addresses are hashed.
    Raises NetreproError without the kernel, and when a host's program fails.
    """
    with _in_virtual_time(sort, seed) as net:
        if sort.same_path:
            hash_addresses_only(net)
        begin_s = net.monotonic_s + BEGIN_S
        started = {}
        for host in sort.topology.hosts:
            orders = json.dumps(_orders(sort, jobs * LONGEST_JOB_S, jobs, seed, net, host))
            started[host] = net[host].popen(_command(bucket_sort), input=f"{orders}\n{begin_s!r}\n")
        return _told(_outcomes(net, started, jobs))


def _in_virtual_time(sort: Sort | ReleasedSort, seed: int) -> VirtualNetwork:
    """Make the network of a kernel in virtual time."""
    how: dict[str, Any] = {"seed": seed, "tcp": sort.tcp, "patience_s": BUSY_S, "memory_mb": PROGRAMS_MB}
    return VirtualNetwork(sort.topology, congestion_control=sort.tcp.congestion_control, syscall_cost_ns=0, **how)


def _command(program: Any) -> list[str]:
    return [sys.executable, "-P", "-B", "-m", program.__name__]


def _outcomes(
    net: VirtualNetwork, started: Mapping[str, Any], jobs: int, beside: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Wait for the outcome of each host's program; returns host -> outcome. Programs `beside` them must not end."""
    end_s, outcomes = net.monotonic_s + jobs * LONGEST_JOB_S, {}
    while net.monotonic_s < end_s and not all(map(_is_done, started.values())):
        net.sleep(LAST_S)
        for host, program in beside.items():
            if program.poll() is not None:
                raise _failure(host, program.errors.strip())
    for host, program in started.items():
        ready, _, outcome = program.output.partition("\n")
        if not outcome or program.poll() is not None:
            raise _failure(host, program.errors.strip() or ready)
        outcomes[host] = json.loads(outcome)
    return outcomes


def _failure(host: str, said: str) -> NetreproError:
    return NetreproError(f"the program of {host} has not sorted: {''.join(said.splitlines()[-1:])}", "run it again")


def _is_done(program: Any) -> bool:
    """Tell whether a program has written its outcome, or has ended."""
    return program.output.count("\n") > 1 or program.poll() is not None


def _orders(sort: Sort, seconds: float, jobs: int, seed: int, net: Network, host: str) -> dict[str, Any]:
    same = ("scheme", "numbers", "threshold_bytes", "starts_within_s", "scan_s", "range_s", "rest_s")
    return {name: getattr(sort, name) for name in same} | {
        "address": net[host].address,
        "slaves": [net[other].address for other in net.topology.hosts if other != host],
        "seconds": seconds,
        "jobs": jobs if host in sort.masters else 0,
        "patience_s": PATIENCE_S,
        "seed": [seed, net.topology.hosts.index(host)],
    }


def _told(outcomes: Mapping[str, Any]) -> Sorted:
    """Make the result tables from the outcomes of the hosts' programs."""
    rows = [job for of_host in outcomes.values() for job in of_host]
    jobs = pd.DataFrame(rows, columns=["start_s", "took_s", "is_sorted"])
    whole = _all_of("arrays that came out sorted", float(jobs["is_sorted"].mean()))
    return jobs[["start_s"]].assign(took_ms=jobs["took_s"] * 1e3), whole


def _all_of(what: str, share: float) -> pd.DataFrame:
    return check_table([Check(what, share, at_least=1.0, at_most=1.0)])


# The authors' program.


@dataclass(frozen=True)
class ReleasedSort:
    """Bucket sort as the authors' program sends it, between the two racks of `topology`: half of the hosts are a rack,
    and each is the master of six slaves, one on every host of the other rack.

    scheme : as in Sort. message_s : a slave's processor time for a message.
    """

    topology: Topology
    tcp: Tcp
    scheme: str
    message_s: float


def sort_as_released(sort: ReleasedSort, jobs: int, seed: int) -> Sorted:
    """Run the authors' program on a kernel in virtual time: `jobs` jobs of every master, one after the other. The same
    seed gives the same jobs; their table also has back_share, the share of the numbers that a job brought back.

    Raises NetreproError without the kernel, and when a host's program fails.
    """
    hosts, masters, slaves = sort.topology.hosts, {}, {}
    half = len(hosts) // 2
    with _in_virtual_time(sort, seed) as net:
        begin_s = net.monotonic_s + BEGIN_S
        others = [net[host].address for host in hosts]
        for number, host in enumerate(hosts):
            orders = {"number": number, "address": net[host].address, "others": others, "scheme": sort.scheme} | {
                "slaves": [*range(half, len(hosts))] if number < half else [*range(half)],
                "message_s": sort.message_s,
                "jobs": jobs,
                "patience_s": RELEASED_PATIENCE_S,
                "seed": [seed, number],
            }
            slave, master = (json.dumps(orders | {"role": role}) for role in ("slave", "master"))
            slaves[host] = net[host].popen(_command(released), input=f"{slave}\n")
            masters[host] = net[host].popen(_command(released), input=f"{master}\n{begin_s!r}\n")
        rows = [job for of_host in _outcomes(net, masters, jobs, slaves).values() for job in of_host]
    table = pd.DataFrame(rows, columns=["start_s", "took_s", "back_share", "is_right"])
    right = _all_of("jobs whose answers are sorted numbers of theirs", float(table["is_right"].mean()))
    return table[["start_s", "back_share"]].assign(took_ms=table["took_s"] * 1e3), right


# Its traffic.


def simulate_sort(sort: Sort, jobs: int, seed: int, host_delay_packets: float | None = None) -> Sorted:
    """Simulate the application's traffic: `jobs` jobs of every master, one after the other.

    A stream carries a master's numbers to a slave while they are scanned, and the sorted numbers back; _Stream says
    over which connections. host_delay_packets : as in Experiment.
    """
    experiment = Experiment(
        sort.topology, (), jobs * LONGEST_JOB_S, seed, tcp=sort.tcp, host_delay_packets=host_delay_packets
    )
    streams = jobs * len(sort.masters) * (len(sort.topology.hosts) - 1)
    network = Hosts(experiment, most_connections=streams * (1 if sort.scheme == "tcp" else 2))
    processors = {host: bucket_sort.Processor(sort.range_s) for host in sort.topology.hosts}
    done: list[tuple[float, float]] = []
    for place, host in enumerate(sort.masters):
        random = np.random.default_rng([seed, place])
        slaves = [other for other in sort.topology.hosts if other != host]
        master = _Master(sort, network, host, slaves, jobs, random, processors, done)
        network.at(random.uniform(0, sort.starts_within_s), master.begin)
    network.run()
    whole = _all_of("jobs that are done", len(done) / (jobs * len(sort.masters)))
    table = pd.DataFrame(sorted(done), columns=["start_s", "took_ms"])
    return table, pd.concat([network.measurements().fidelity, whole], ignore_index=True)


@dataclass
class _Master:
    """A master of the simulated application; it also simulates its slaves' work.

    jobs : number of jobs that are left. processors : host -> its processor as a slave. done : list to which all masters
    add their finished jobs, as (start_s, took_ms).
    """

    sort: Sort
    network: Hosts
    host: str
    slaves: list[str]
    jobs: int
    random: np.random.Generator
    processors: dict[str, bucket_sort.Processor]
    done: list[tuple[float, float]]

    def begin(self, now_s: float) -> None:
        """Begin a job: open the streams and start the scan."""
        count, steps = len(self.slaves), bucket_sort.SCAN_STEPS
        self.jobs -= 1
        self._start_s, self._missing = now_s, count
        # How many numbers each slave gets in each step; the numbers themselves are not needed.
        shares = np.full(steps * count, 1 / (steps * count))
        scanned = self.random.multinomial(self.sort.numbers, shares).reshape(count, steps).cumsum(axis=1)
        left_bytes = [bucket_sort.whole_messages(each) * bucket_sort.NUMBER_BYTES for each in scanned]
        self._total_bytes = [int(each[-1]) for each in left_bytes]
        self._step_bytes = np.diff(left_bytes, prepend=0).T.tolist()
        self._streams = [_Stream(self.network, self.host, slave, self.sort) for slave in self.slaves]
        for step in range(steps):
            self.network.at(now_s + self.sort.scan_s * (step + 1) / steps, partial(self._scan, step))

    def _scan(self, step: int, _: float) -> None:
        is_last = step == bucket_sort.SCAN_STEPS - 1
        for slave, size_bytes in enumerate(self._step_bytes[step]):
            if size_bytes:
                arrived = partial(self._arrived, slave) if is_last else lambda _: None
                self._streams[slave].send(size_bytes, arrived)

    def _arrived(self, slave: int, now_s: float) -> None:
        """Let the slave write its range, after the ranges that wait there, and send it back."""
        done_s = self.processors[self.slaves[slave]].done_s(now_s)
        answered = partial(self._answered, slave)
        self.network.at(done_s, lambda _: self._streams[slave].answer(self._total_bytes[slave], answered))

    def _answered(self, slave: int, now_s: float) -> None:
        self._streams[slave].close()
        self._missing -= 1
        if self._missing:
            return
        self.done.append((self._start_s, (now_s - self._start_s) * 1e3))
        if self.jobs:
            self.network.at(now_s + bucket_sort.draw_rest_s(self.sort.rest_s, self.random), self.begin)


class _Stream:
    """A master's stream to a slave: one connection with TCP, otherwise two.

    With RepSYN, the connection that opens first carries all bytes. With RepFlow, both carry the first bytes, up to the
    threshold, and the first copy to arrive counts; all later bytes go over the connection that has delivered more
    copies. With `same_path`, the first connection is always chosen.
    """

    def __init__(self, network: Hosts, master: str, slave: str, sort: Sort):
        self._sort = sort
        self._sent_bytes, self._copied_messages, self._brought = 0, 0, [0, 0]
        self._is_done = False
        self._heard: set[int] = set()  # delivered messages, by the number of bytes before them
        self._early: list[tuple[int, Delivered]] = []  # messages sent before RepSYN has a connection
        places = (0,) if sort.scheme == "tcp" else (0, 1)
        self._all = [network.connect(master, slave, partial(self._opened, place)) for place in places]
        is_known = sort.scheme == "tcp" or (sort.scheme == "repflow" and sort.same_path)
        self._chosen = self._all[0] if is_known else None

    def send(self, size_bytes: int, delivered: Delivered) -> None:
        """Send `size_bytes` to the slave; `delivered` is called with the time of their arrival."""
        if self._sort.scheme == "repflow" and self._sent_bytes <= self._sort.threshold_bytes:
            for place, connection in enumerate(self._all):
                connection.send(size_bytes, partial(self._copied, place, self._sent_bytes, delivered))
            self._sent_bytes, self._copied_messages = self._sent_bytes + size_bytes, self._copied_messages + 1
        elif self._connection is None:
            self._early.append((size_bytes, delivered))
        else:
            self._connection.send(size_bytes, delivered)

    def answer(self, size_bytes: int, delivered: Delivered) -> None:
        """Send `size_bytes` to the master."""
        assert self._connection is not None
        self._connection.send(size_bytes, delivered, to_client=True)

    def close(self) -> None:
        """Close the chosen connection once it has delivered its copies, even those that came second."""
        self._is_done = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        assert self._chosen is not None
        if self._brought[self._all.index(self._chosen)] == self._copied_messages:
            self._chosen.close()

    @property
    def _connection(self) -> Connection | None:
        """The connection for bytes that are not copied; with RepFlow, the first use of this property chooses it."""
        if self._chosen is None and self._sort.scheme == "repflow":
            self._chosen = self._all[int(self._brought[1] > self._brought[0])]
        return self._chosen

    def _opened(self, place: int, _: float) -> None:
        if self._sort.scheme != "repsyn" or self._chosen is not None or (self._sort.same_path and place):
            return
        self._chosen = self._all[place]
        self._all[1 - place].close()
        for size_bytes, delivered in self._early:
            self._chosen.send(size_bytes, delivered)

    def _copied(self, place: int, before: int, delivered: Delivered, now_s: float) -> None:
        self._brought[place] += 1
        if before not in self._heard:
            self._heard.add(before)
            delivered(now_s)
        elif self._is_done:
            self._close_if_idle()
