"""Running real Raft in virtual time: an etcd server on every host, whose leader is killed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random

from netrepro.applications.etcd.server import Timing, server_command
from netrepro.emulation.virtual.network import VirtualNetwork, VirtualProgram
from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

_ELECTED = re.compile(r"raft\.node: (\w+) (?:elected leader|changed leader from \w+ to) (\w+) at term")
_LOOK_S = 0.02
_STEADY_S = 0.3
_LONGEST_S = 30.0


def etcd_without_leader_s(
    topology: Topology,
    crashes: int,
    seed: int,
    *,
    heartbeat_ms: int,
    election_ms: int,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[float]:
    """Kill the leader by SIGKILL, at any time between two heartbeats, and restart it once there is a new leader.

    Returns for each crash the seconds until the servers of all other hosts have logged one new leader; the resolution
    is a millisecond, as in etcd's log.

    There is one server on every host of the topology. Unlike with other programs, two calls with one seed may differ;
    the reason is not known. Raises NetreproError without etcd or the virtual kernel, for timeouts that etcd refuses,
    and if there is no leader within 30 s.
    """
    timing = Timing(heartbeat_ms, election_ms)
    random = Random(seed)
    with VirtualNetwork(topology, seed=seed, syscall_cost_ns=0) as net:
        cluster = _Cluster(net, timing)
        return [cluster.crash(random.uniform(0, heartbeat_ms / 1e3)) for _ in progress(range(crashes))]


class _Cluster:
    def __init__(self, net: VirtualNetwork, timing: Timing):
        self._net, self._timing = net, timing
        self._hosts = {host: net[host].address for host in net.topology.hosts}
        self._programs: dict[str, VirtualProgram] = {}
        for host in self._hosts:
            self._start(host)

    def _start(self, host: str) -> None:
        peers = {each: f"{address}:2380" for each, address in self._hosts.items()}
        command = server_command(host, self._net.folder, f"{self._hosts[host]}:2379", peers, self._timing)
        self._programs[host] = self._net[host].popen(command, environment={"GOMAXPROCS": "1"})

    def crash(self, after_s: float) -> float:
        """Kill the leader after a steady time and `after_s`; return the seconds until all others know a new leader. The
        killed server is then restarted."""
        old, _ = self._wait_for_leader(list(self._hosts), None)
        self._net.sleep(_STEADY_S + after_s)
        names = {member: host for host, (_, member, _) in self._told().items()}
        killed = names[old]
        self._programs[killed].kill_all()
        killed_s = self._net.instance.order("clock")["realtime_ns"] / 1e9
        _, heard_s = self._wait_for_leader([host for host in self._hosts if host != killed], old)
        self._programs[killed].wait()
        self._start(killed)
        return heard_s - killed_s

    def _wait_for_leader(self, hosts: list[str], before: str | None) -> tuple[str, float]:
        """Return the leader (a member id other than `before`) that all hosts' servers name, and the time of the last
        log line about it."""
        end_s = self._net.now_s + _LONGEST_S
        while self._net.now_s < end_s:
            told = self._told()
            leaders = {told[host][2] for host in hosts if host in told}
            if len(leaders) == 1 and before not in leaders and all(host in told for host in hosts):
                return leaders.pop(), max(told[host][0] for host in hosts)
            self._net.sleep(_LOOK_S)
        failed = [program.errors for program in self._programs.values() if program.poll() is not None]
        last = (failed[0].strip().splitlines() or ["nothing"])[-1][:200] if failed else "they run"
        raise NetreproError(f"etcd has no leader after {_LONGEST_S:g} s of virtual time: {last}")

    def _told(self) -> dict[str, tuple[float, str, str]]:
        """Return host -> (time, own member id, leader's member id) from the last log line about a leader, if any."""
        states = {}
        for host, program in self._programs.items():
            for line in program.errors.splitlines():
                if match := _ELECTED.search(line):
                    at_s = datetime.fromisoformat(json.loads(line)["ts"]).timestamp()
                    states[host] = (at_s, match[1], match[2])
        return states
