"""The kernel in virtual time beside real time: seconds of a network that pass in one, and how even its gaps are.

Dumbbells with two CUBIC flows and a k = 4 fat-tree with 16, each on one core, and the same by the rootless tier and by
Mininet (Debian's; TCLink, iperf3, tcpdump; every node a router with our routes). Speeds count building and starting,
too; that of the virtual kernel is by processor time. A gap is one between two packets of a busy port, and is even
within 1 % of what the rate makes it; ports of Mininet's count where they carried 95 % of their rate. Links have no
delay, as few kernels have netem. Whatever runs beside this slows all of them, and spoils the gaps of both peers. Flows
are written and read by the virtual kernel itself (lib/kernel/built_in/streams.c); goals are for a processor that nobody
else uses.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.builds import commands, described
from netrepro.emulation import emulate
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, Topology, dumbbell, fat_tree
from netrepro.networks.experiment import Port

COLUMNS = [
    "benchmark",
    "ours_times_real_time",
    "goal",
    "ours_within_1_percent",
    "ours_mbps",
    "peer",
    "peer_times_real_time",
    "ratio",
    "peer_within_1_percent",
    "peer_mbps",
    "remark",
]
ROOTLESS, MININET = "our rootless tier", "Mininet"
BUSY_SHARE = 0.95  # of its rate
SETTLED_SHARE = 0.25  # of the time, in which flows begin
HEADERS_BYTES, SEGMENT_BYTES = 66, 1448  # a burst of several segments is captured with the headers of one


@dataclass(frozen=True)
class Case:
    """A network and its flows, the ports whose gaps count, seconds of it for us and for peers, and how many times real
    time ours should be on one core."""

    name: str
    topology: Topology
    flows: tuple[tuple[str, str], ...]
    ports: tuple[Port, ...]
    seconds: float
    peer_seconds: float
    goal: float

    def experiment(self, seconds: float) -> Experiment:
        flows = tuple(Flow(*ends, duration_s=seconds) for ends in self.flows)
        return Experiment(self.topology, flows, seconds, measure=Measure(packets=self.ports), tcp=Tcp("cubic"))


@dataclass(frozen=True)
class Found:
    """Seconds of the network in a second, the share of gaps within 1 %, goodput of all flows; NaN, and why."""

    speed: float = float("nan")
    within: float = float("nan")
    mbps: float = float("nan")
    remark: str = ""


def cases(scale: float) -> tuple[Case, ...]:
    """Two dumbbells and a fat-tree; scale : of how long they last."""
    made = []
    for rate_mbps, seconds, peer_seconds, goal in ((100.0, 20.0, 4.0, 20.0), (1000.0, 3.0, 3.0, 2.0)):
        link = Link(rate_mbps, 0.0, DropTail(packets=100))
        name = f"dumbbell, {rate_mbps:g} Mb/s, 2 flows"
        flows, ports = (("h1", "h3"), ("h2", "h4")), (("s1", "s2"),)
        made.append(Case(name, dumbbell(2, link, link), flows, ports, seconds * scale, peer_seconds * scale, goal))
    tree = fat_tree(4, Link(100.0, 0.0, DropTail(packets=100)))
    flows = tuple((f"h{i + 1}", f"h{(i + 8) % 16 + 1}") for i in range(16))
    ports = tuple(port for port in tree.ports if port[0] in tree.hosts)
    made.append(Case("fat-tree k=4, 100 Mb/s, 16 flows", tree, flows, ports, 4.0 * scale, 4.0 * scale, 1.3))
    return tuple(made)


@contextmanager
def one_core() -> Iterator[None]:
    """This process, and what it starts, on the last of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def processor_s() -> float:
    """Tell the processor time of this process and of those it has waited for."""
    return sum(os.times()[:4])


def emulated(case: Case, tier: str, seconds: float) -> Found:
    """By a tier of ours, whose own fidelity checks tell of its gaps."""
    status = probe_tiers()[tier]
    if not status.available:
        return Found(remark=status.why)
    clock = processor_s if tier == "virtual" else time.perf_counter
    started = clock()
    found = emulate(case.experiment(seconds), tier)
    took_s = clock() - started
    checks = found.fidelity.set_index("check")
    ports = [
        name.removesuffix(": gaps of a busy link") for name in checks.index if name.endswith("gaps of a busy link")
    ]
    gaps, within = (
        np.array([checks["value"][f"{port}: {what}"] for port in ports])
        for what in ("gaps of a busy link", "share of gaps within 1 %")
    )
    failed = [name for name, holds in checks["holds"].items() if not holds]
    remark = f"not trusted: {failed[0]}" + (f" and {len(failed) - 1} more" if failed[1:] else "") if failed else ""
    share = float(np.average(within, weights=gaps)) if gaps.sum() else float("nan")
    return Found(seconds / took_s, share, float(found.flows["goodput_mbps"].sum()), remark)


_MININETS_PYTHON = ("/usr/bin/python3", "-P")  # the distribution's, for which it packages Mininet
_WITH_MININET = """
import json, subprocess, sys, time
from mininet.link import TCLink
from mininet.net import Mininet
wanted = json.load(sys.stdin)
started = time.perf_counter()
net = Mininet(controller=None)
nodes = {name: net.addHost(name, ip=None) for name in wanted["nodes"]}
for first, name, second, peer_name, mbps in wanted["cables"]:
    net.addLink(nodes[first], nodes[second], cls=TCLink, bw=mbps, intfName1=name, intfName2=peer_name)
net.build()
for name, commands in wanted["commands"].items():
    nodes[name].cmd("sysctl -w net.ipv4.ip_forward=1")
    for command in commands:
        said = nodes[name].cmd("ip " + command).strip()
        if said:
            sys.exit(f"ip {command}: {said}")
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
taps = [
    nodes[name].popen(["tcpdump", "-i", interface, "-Q", "out", "-s", "64", "-B", "65536", "-Z", "root", "-w", file,
                       "--time-stamp-precision=nano"], **quiet)
    for name, interface, file in wanted["captures"]
]
servers = [nodes[to].popen(["iperf3", "-s", "-1", "-p", str(port)], **quiet) for _, to, _, port in wanted["flows"]]
time.sleep(1)
clients = [
    nodes[of].popen(["iperf3", "-J", "-C", "cubic", "-t", str(wanted["seconds"]), "-c", address, "-p", str(port)])
    for of, _, address, port in wanted["flows"]
]
answers = [json.loads(client.communicate()[0]) for client in clients]
for process in (*servers, *taps):
    process.terminate()
    process.wait()
taken = time.perf_counter() - started
net.stop()
for answer in answers:
    if "error" in answer:
        sys.exit(answer["error"])
print(json.dumps([taken, sum(answer["end"]["sum_received"]["bits_per_second"] for answer in answers)]))
"""


def with_mininet(case: Case, seconds: float) -> Found:
    """By Mininet, as root, with routes as ours, in a network of its own."""
    for tool, package in (("mn", "mininet"), ("iperf3", "iperf3"), ("tcpdump", "tcpdump")):
        if not shutil.which(tool):
            return Found(remark=f"{package} is not installed")
    wanted, inside = described(case.topology), commands(case.topology)[1]
    addresses = {node: address for node, (address, _) in wanted["addresses"].items()}
    names = {}
    for first, name, second, peer_name in wanted["cables"]:
        names |= {(first, second): name, (second, first): peer_name}
    with tempfile.TemporaryDirectory() as folder:
        files = {port: str(Path(folder, "-".join(port))) for port in case.ports}
        given = {
            "nodes": wanted["nodes"],
            "cables": [(*ends, case.topology.link(ends[0], ends[2]).rate_mbps) for ends in wanted["cables"]],
            "commands": inside,
            "captures": [(port[0], names[port], file) for port, file in files.items()],
            "flows": [(of, to, addresses[to], 5001 + place) for place, (of, to) in enumerate(case.flows)],
            "seconds": max(round(seconds), 1),
        }
        command = ["unshare", "-nm", "--propagation", "private", *_MININETS_PYTHON, "-c", _WITH_MININET]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]
            return Found(remark=f"Mininet: {last}")
        took_s, rate = json.loads(done.stdout.splitlines()[-1])
        off = [gaps_off(Path(file), case.topology.link(*port).rate_mbps) for port, file in files.items()]
    busy = [each for each in off if len(each)]
    within = float(np.mean(np.concatenate(busy) <= 0.01)) if busy else float("nan")
    remark = "" if len(busy) == len(off) else f"{len(busy)} of {len(off)} ports were busy"
    return Found(given["seconds"] / took_s, within, rate / 1e6, remark)


def gaps_off(capture: Path, rate_mbps: float) -> np.ndarray:
    """How far the gaps of a capture are from those of the rate, shape (gaps,); none where it was not busy throughout.

    capture : a pcap with nanoseconds.
    """
    content, at, found = capture.read_bytes(), 24, []
    while at + 16 <= len(content):
        second, nanosecond, kept, size = struct.unpack_from("=4I", content, at)
        found.append((second * 10**9 + nanosecond, size))
        at += 16 + kept
    if len(found) < 100:
        return np.empty(0)
    at_ns, size = np.array(found, dtype=np.int64).T
    size += HEADERS_BYTES * np.maximum(np.ceil((size - HEADERS_BYTES) / SEGMENT_BYTES).astype(np.int64) - 1, 0)
    span = at_ns[-1] - at_ns[0]
    counted = (at_ns >= at_ns[0] + SETTLED_SHARE * span) & (at_ns <= at_ns[0] + 0.95 * span)
    at_ns, size = at_ns[counted], size[counted]
    gaps_ns, ideal_ns = np.diff(at_ns), size[1:] * 8e3 / rate_mbps
    if ideal_ns.sum() < BUSY_SHARE * gaps_ns.sum():
        return np.empty(0)
    return np.abs(gaps_ns / ideal_ns - 1)


def compare(those: Sequence[Case]) -> pd.DataFrame:
    """COLUMNS, a row a case and peer; peers that this machine lacks, and what they refuse, have no numbers."""
    peers: dict[str, Callable[[Case], Found]] = {
        ROOTLESS: lambda case: emulated(case, "rootless", case.peer_seconds),
        MININET: lambda case: with_mininet(case, case.peer_seconds),
    }
    rows = []
    with one_core():
        for case in those:
            ours = emulated(case, "virtual", case.seconds)
            for peer, measure in peers.items():
                try:
                    found = measure(case)
                except NetreproError as error:
                    found = Found(remark=error.problem)
                remark = "; ".join(filter(None, (ours.remark and f"ours: {ours.remark}", found.remark)))
                of_ours, of_peer = (ours.within, ours.mbps), (found.within, found.mbps)
                ratio = ours.speed / found.speed
                rows.append((case.name, ours.speed, case.goal, *of_ours, peer, found.speed, ratio, *of_peer, remark))
    return pd.DataFrame(rows, columns=COLUMNS)


def run(quick: bool = True) -> pd.DataFrame:
    """One row a benchmark and peer: times real time, of a goal for ours on one core, share of gaps within 1 %, goodput,
    the ratio of speeds, and why a peer has none."""
    return compare(cases(1.0 if quick else 4.0))
