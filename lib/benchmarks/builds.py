"""How long it takes to build the same network by this library, iproute2, pyroute2 and, where it is installed, Mininet.

All build the same without root: namespaces, cables, addresses, shapers, forwarding, all shortest-path routes. What
the peers send is prepared, and their interpreters have started, before their time begins; ours includes planning and
starting its process. Mininet's network is its own fat-tree of the same shape, needs root, and has no routes: switches
are bridges, which a spanning tree keeps from sending in circles.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd

from netrepro.emulation.plan import make_plan
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import Topology, fat_tree

LINK = Link(10, 0)
IP_BATCH, IP, PYROUTE2, MININET = "ip -batch, tc -batch", "ip and tc, one process a command", "pyroute2", "Mininet"
OURS = "netrepro"
COLUMNS = ["built_by", "seconds", "times_ours", "remark"]


def compare_builds(
    k: int = 4, times: int = 3, peers: tuple[str, ...] = (IP_BATCH, PYROUTE2, IP, MININET)
) -> pd.DataFrame:
    """Time the best of `times` builds of a fat-tree, by us and by each peer: built_by, seconds, times_ours, remark.

    A peer that this machine lacks has no time (NaN), and the remark says why. `ip` alone and Mininet are tried once.
    """
    topology = fat_tree(k, LINK)
    builders: dict[str, Callable[[Topology], float]] = {
        IP_BATCH: lambda each: build_with_iproute2(each, batched=True),
        IP: lambda each: build_with_iproute2(each, batched=False),
        PYROUTE2: build_with_pyroute2,
        MININET: build_with_mininet,
    }
    build_ours(fat_tree(2, LINK))  # imports and the probe of tiers are not what is compared
    ours = min(build_ours(topology) for _ in range(times))
    rows: list[tuple[str, float, float, str]] = [(OURS, ours, 1.0, "")]
    for peer in peers:
        try:
            best = min(builders[peer](topology) for _ in range(1 if peer in (IP, MININET) else times))
            rows.append((peer, best, best / ours, ""))
        except NetreproError as error:
            rows.append((peer, float("nan"), float("nan"), error.problem))
    return pd.DataFrame(rows, columns=COLUMNS)


def build_ours(topology: Topology) -> float:
    """Measure the seconds from the description to a network that can be used, without root."""
    started = time.perf_counter()
    with RealTimeNetwork(topology, tier="rootless"):
        return time.perf_counter() - started


def described(topology: Topology) -> dict[str, Any]:
    """Describe in plain words what to build: nodes, cables [(node, interface, peer, its interface)], and for every node
    its address with the interface that has it, its interfaces with their buffers in packets, and its routes
    [(destination or "default", [(via or "", interface)])]."""
    addresses = {node: str(address) for node, address in make_plan(topology).addresses.items()}
    graph = topology.graph
    names: dict[tuple[str, str], str] = {}
    for cable in topology.cables:
        for node, peer in ((cable.first, cable.second), (cable.second, cable.first)):
            names[node, peer] = f"{node}-eth{sum(of == node for of, _ in names)}"
    distances = dict(nx.all_pairs_shortest_path_length(graph))
    routes: dict[str, list[tuple[str, list[tuple[str, str]]]]] = {node: [] for node in graph}
    for node in graph:
        if node[0] == "h":
            (switch,) = graph[node]
            routes[node].append(("default", [(addresses[switch], names[node, switch])]))
            continue
        for host in topology.hosts:
            if host in graph[node]:
                routes[node].append((addresses[host], [("", names[node, host])]))
                continue
            nearer = [peer for peer in graph[node] if distances[peer][host] < distances[node][host]]
            routes[node].append((addresses[host], [(addresses[peer], names[node, peer]) for peer in nearer]))
    return {
        "nodes": list(graph),
        "cables": [
            (cable.first, names[cable.first, cable.second], cable.second, names[cable.second, cable.first])
            for cable in topology.cables
        ],
        "addresses": {node: (addresses[node], "lo" if node[0] == "s" else f"{node}-eth0") for node in graph},
        "interfaces": {
            node: [(names[node, peer], topology.link(node, peer).queue.packets) for peer in graph[node]]
            for node in graph
        },
        "routes": routes,
    }


def commands(topology: Topology) -> tuple[list[str], dict[str, list[str]], dict[str, list[str]]]:
    """Return arguments of `ip` outside the nodes, of `ip` in each node, and of `tc` in each node."""
    wanted = described(topology)
    outside = [f"netns add {node}" for node in wanted["nodes"]]
    outside += [
        f"link add {name} netns {node} gso_max_segs 1 type veth peer name {peer_name} netns {peer} gso_max_segs 1"
        for node, name, peer, peer_name in wanted["cables"]
    ]
    inside: dict[str, list[str]] = {}
    shapers: dict[str, list[str]] = {}
    for node in wanted["nodes"]:
        inside[node], shapers[node] = ["link set lo up"], []
        for name, packets in wanted["interfaces"][node]:
            inside[node].append(f"link set {name} up")
            shapers[node].append(f"qdisc add dev {name} root handle 1: tbf rate 10mbit burst 1760 limit 1514")
            shapers[node].append(f"qdisc add dev {name} parent 1: pfifo limit {packets}")
        address, home = wanted["addresses"][node]
        inside[node].append(f"address add {address}/32 dev {home}")
        for destination, hops in wanted["routes"][node]:
            ways = [f"via {via} dev {name} onlink" if via else f"dev {name}" for via, name in hops]
            way = ways[0] if len(ways) == 1 else " ".join(f"nexthop {each}" for each in ways)
            control = " congctl cubic" if node[0] == "h" else ""
            inside[node].append(f"route add {destination} {way}{control}")
    return outside, inside, shapers


def _settings(node: str) -> str:
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward" if node[0] == "s" else "true"
    return f"ip netns exec {node} sh -c '{forward}'"


def build_with_iproute2(topology: Topology, batched: bool) -> float:
    """Measure the seconds of a shell script that builds the network by `ip -batch`, or by one `ip` for each command.

    Raises NetreproError where iproute2 or unshare is missing or fails.
    """
    outside, inside, shapers = commands(topology)
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for place, tool, node, wanted in (
            (0, "ip", "", outside),
            *((1, "ip", node, wanted) for node, wanted in inside.items()),
            *((2, "tc", node, wanted) for node, wanted in shapers.items()),
        ):
            if place == 1:
                lines.append(_settings(node))
            where = f"{tool} -n {node}" if node else tool
            if batched:
                path = Path(folder, f"{place}{node}")
                path.write_text("\n".join(wanted) + "\n")
                lines.append(f"{where} -batch {path}")
            else:
                lines += [f"{where} {each}" for each in wanted]
        script = Path(folder, "script")
        script.write_text("set -e\nmount -t tmpfs none /run\n" + "\n".join(lines) + "\n")
        started = time.perf_counter()
        _run(["sh", str(script)], "ip")
        return time.perf_counter() - started


_WITH_PYROUTE2 = """
import json, subprocess, sys, time
from pathlib import Path
from pyroute2 import IPRoute, netns
subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
wanted = json.load(sys.stdin)
started = time.perf_counter()
for node in wanted["nodes"]:
    netns.create(node)
with IPRoute() as outside:
    for node, name, peer, peer_name in wanted["cables"]:
        other = {"ifname": peer_name, "net_ns_fd": peer, "gso_max_segs": 1}
        outside.link("add", ifname=name, kind="veth", net_ns_fd=node, gso_max_segs=1, peer=other)
for node in wanted["nodes"]:
    with IPRoute(netns=node) as inside:
        index = {link.get("ifname"): link["index"] for link in inside.get_links()}
        inside.link("set", index=index["lo"], state="up")
        for name, packets in wanted["interfaces"][node]:
            inside.link("set", index=index[name], state="up")
            inside.tc("add", "tbf", index[name], 0x10000, rate="10mbit", burst=1760, limit=1514)
            inside.tc("add", "pfifo", index[name], 0x20000, parent=0x10000, limit=packets)
        address, home = wanted["addresses"][node]
        inside.addr("add", index=index[home], address=address, prefixlen=32)
        for destination, hops in wanted["routes"][node]:
            dst = "0.0.0.0/0" if destination == "default" else destination + "/32"
            if not hops[0][0]:
                inside.route("add", dst=dst, oif=index[hops[0][1]], scope=253)
            else:
                ways = [{"gateway": via, "oif": index[name], "flags": ["onlink"]} for via, name in hops]
                inside.route("add", dst=dst, multipath=ways)
        if node[0] == "s":
            netns.pushns(node)
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            netns.popns()
print(time.perf_counter() - started)
"""


def build_with_pyroute2(topology: Topology) -> float:
    """Measure the seconds of a program that builds the network by pyroute2. Raises NetreproError where it fails."""
    said = _run([sys.executable, "-c", _WITH_PYROUTE2], "pyroute2", json.dumps(described(topology)))
    return float(said.split()[-1])


_MININETS_PYTHON = ("/usr/bin/python3", "-P")  # the distribution's, for which it packages Mininet
_WITH_MININET = """
import json, sys, time
from functools import partial
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
from mininet.topo import Topo
wanted = json.load(sys.stdin)
started = time.perf_counter()
topology = Topo()
for node in wanted["nodes"]:
    (topology.addHost if node[0] == "h" else topology.addSwitch)(node)
for node, _, peer, _ in wanted["cables"]:
    topology.addLink(node, peer, bw=10)
net = Mininet(topology, switch=partial(LinuxBridge, stp=True), controller=None, link=TCLink)
net.start()
taken = time.perf_counter() - started
net.stop()
print(taken)
"""


def build_with_mininet(topology: Topology) -> float:
    """Measure the seconds of Mininet, with bridges for switches, as root. Raises NetreproError where there is none.

    Mininet puts its switches into the network that it runs in: here one of its own, not the machine's.
    """
    for program, package in (("mn", "mininet"), ("brctl", "bridge-utils")):
        if not shutil.which(program):
            raise NetreproError(f"Mininet needs {program}, which is not installed", f"apt-get install {package}")
    inside = ["unshare", "-nm", "--propagation", "private", *_MININETS_PYTHON, "-c", _WITH_MININET]
    done = subprocess.run(inside, input=json.dumps(described(topology)), capture_output=True, text=True)
    if done.returncode:
        raise NetreproError(f"Mininet: {_last_line(done.stderr)}", "run as root, with bridge-utils installed")
    return float(done.stdout.split()[-1])


def _run(command: list[str], what: str, given: str = "") -> str:
    try:
        done = subprocess.run(["unshare", "-Urnm", *command], input=given, capture_output=True, text=True)
    except FileNotFoundError:
        raise NetreproError("unshare (util-linux) is not installed", "install it to compare") from None
    if done.returncode:
        raise NetreproError(f"{what}: {_last_line(done.stderr)}", "install iproute2, or leave it out")
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it failed without a word"])[-1]
