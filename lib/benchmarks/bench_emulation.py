"""Building a fat-tree of namespaces without root: ours against iproute2, in networks a second.

All build the same: namespaces, cables, addresses, shapers, forwarding, all shortest-path routes. What the peers
send is written to files before their time starts; ours includes planning and starting its process. Ratios of one
run are what to read: the machine's speed cancels.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pandas as pd

from netrepro.emulation import Emulation
from netrepro.emulation.plan import make_plan
from netrepro.networks import Link, Topology, fat_tree

LINK = Link(10, 0)


def build_ours(topology: Topology) -> float:
    """Seconds from the description to a network that can be used."""
    started = time.perf_counter()
    with Emulation(topology, tier="rootless"):
        return time.perf_counter() - started


def commands(topology: Topology) -> tuple[list[str], dict[str, list[str]], dict[str, list[str]]]:
    """Arguments of `ip` outside the nodes, of `ip` in each node, and of `tc` in each node."""
    addresses = {node: str(address) for node, address in make_plan(topology).addresses.items()}
    graph = topology.graph
    names: dict[tuple[str, str], str] = {}
    for cable in topology.cables:
        for node, peer in ((cable.first, cable.second), (cable.second, cable.first)):
            names[node, peer] = f"{node}-eth{sum(of == node for of, _ in names)}"
    outside = [f"netns add {node}" for node in graph]
    outside += [
        f"link add {names[cable.first, cable.second]} netns {cable.first} gso_max_segs 1 type veth "
        f"peer name {names[cable.second, cable.first]} netns {cable.second} gso_max_segs 1"
        for cable in topology.cables
    ]
    inside: dict[str, list[str]] = {node: ["link set lo up"] for node in graph}
    shapers: dict[str, list[str]] = {node: [] for node in graph}
    for (node, peer), name in names.items():
        queue = topology.link(node, peer).queue
        inside[node].append(f"link set {name} up")
        shapers[node].append(f"qdisc add dev {name} root handle 1: tbf rate 10mbit burst 1760 limit 1514")
        shapers[node].append(f"qdisc add dev {name} parent 1: pfifo limit {queue.packets}")  # type: ignore[union-attr]
    distances = dict(nx.all_pairs_shortest_path_length(graph))
    for node in graph:
        first = "lo" if node[0] == "s" else f"{node}-eth0"
        inside[node].append(f"address add {addresses[node]}/32 dev {first}")
        if node[0] == "h":
            (switch,) = graph[node]
            inside[node].append(f"route add default via {addresses[switch]} dev {first} onlink congctl cubic")
            continue
        for host in topology.hosts:
            if host in graph[node]:
                inside[node].append(f"route add {addresses[host]} dev {names[node, host]}")
                continue
            nearer = [peer for peer in graph[node] if distances[peer][host] < distances[node][host]]
            hops = " ".join(f"nexthop via {addresses[peer]} dev {names[node, peer]} onlink" for peer in nearer)
            inside[node].append(f"route add {addresses[host]} {hops}")
    return outside, inside, shapers


def _settings(node: str) -> str:
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward" if node[0] == "s" else "true"
    return f"ip netns exec {node} sh -c '{forward}'"


def build_with_iproute2(topology: Topology, batched: bool) -> float:
    """Seconds of a shell script that builds the network by `ip -batch`, or by one `ip` for each command."""
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
        done = subprocess.run(["unshare", "-Urnm", "sh", str(script)], capture_output=True, text=True)
        taken = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(done.stderr)
    return taken


def _fastest(build: Callable[[], float], times: int) -> float:
    return min(build() for _ in range(times))


def run(quick: bool = True) -> pd.DataFrame:
    """One row a benchmark: benchmark, ours_per_s, peer, peer_per_s, ratio (networks built in a second)."""
    build_ours(fat_tree(2, LINK))  # imports and the probe of tiers are not what is compared
    times = 3 if quick else 10
    rows = []
    for k in (4, 8):
        topology = fat_tree(k, LINK)
        ours = 1 / _fastest(lambda topology=topology: build_ours(topology), times)  # type: ignore[misc]
        for peer, batched in (("ip -batch, tc -batch", True), ("ip and tc, one process a command", False)):
            if not batched and quick and k > 4:
                continue
            peers = 1 / _fastest(
                lambda topology=topology, batched=batched: build_with_iproute2(topology, batched),  # type: ignore[misc]
                times if batched else 1,
            )
            rows.append((f"fat-tree k={k}", ours, peer, peers))
    table = pd.DataFrame(rows, columns=["benchmark", "ours_per_s", "peer", "peer_per_s"])
    return table.assign(ratio=table.ours_per_s / table.peer_per_s)
