"""Packet-hops a second: the compiled simulator beside ns-3 (Debian's and PyPI's), htsim and SimPy, in one run.

A packet-hop is one completed transmission, of data or of an acknowledgement. Dumbbell: 10 Reno flows through
100 Mb/s. Fat-tree: k = 4 and k = 8, 1 Gb/s, a flow from each host to the other half. Same links, buffers and windows in
ns-3 and htsim, and a path for each destination drawn by a generator of its own; `simulators.py` has what differs.
SimPy carries the Poisson packets of one link only, as in its documentation. Read the ratios: the machine's speed
cancels.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.simulators import HTSIM, Measured, simulators
from netrepro.networks import (
    Cable,
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    FqCoDel,
    Link,
    PoissonFlows,
    Queue,
    Sfq,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
)
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.simulation.simulate import EVENTS_AT_A_TIME, build, simulate

BOTTLENECK_QUEUE = DropTail(packets=100)


def dumbbell_experiment(
    duration_s: float,
    sack: bool = True,
    queue: Queue = BOTTLENECK_QUEUE,
) -> Experiment:
    """Ten flows, 10 ms apart, through 100 Mb/s, 10 ms and 100 packets."""
    net = dumbbell(10, Link(1000, 0.5, DropTail(packets=1000)), Link(100, 10, queue))
    flows = tuple(Flow(f"h{i + 1}", f"h{i + 11}", duration_s=duration_s - i / 100, start_s=i / 100) for i in range(10))
    tcp = Tcp("reno", delayed_ack_ms=0, sack=sack, receive_window_bytes=2**22)
    return Experiment(net, flows, duration_s, tcp=tcp)


def fat_tree_experiment(k: int, duration_s: float, routing: str = "ecmp") -> Experiment:
    """Every host sends to the one half the tree away."""
    net = fat_tree(k, Link(1000, 0.01, DropTail(packets=100)))
    hosts = len(net.hosts)
    flows = tuple(
        Flow(f"h{i + 1}", f"h{(i + hosts // 2) % hosts + 1}", duration_s=duration_s - i * 1e-4, start_s=i * 1e-4)
        for i in range(hosts)
    )
    tcp = Tcp("reno", delayed_ack_ms=0, receive_window_bytes=2**18, min_rto_ms=10)
    return Experiment(net, flows, duration_s, tcp=tcp, routing=routing)


def short_flows_experiment(flows: int) -> Experiment:
    """A million flows a second of a packet each, over a fat-tree of k = 8."""
    net = fat_tree(8, Link(1000, 0.01, DropTail(packets=100)))
    return Experiment(net, (PoissonFlows(empirical_flow_sizes([1000, 1448]), 1e6, flows),), flows / 1e6 + 1)


def hops_per_s(experiment: Experiment) -> tuple[float, float]:
    """(packet-hops a CPU second, goodput in Mb/s) of the best of three runs."""
    best = 0.0
    for _ in range(3):
        simulator = build(experiment)
        started = time.process_time()
        while not simulator.run(EVENTS_AT_A_TIME):
            pass
        best = max(best, simulator.packet_hops / (time.process_time() - started))
    return best, float(simulator.flows()["delivered_bytes"].sum()) * 8 / experiment.duration_s / 1e6


def beside_simulators(
    peers: dict[str, Measured | str],
    ours: dict[str, tuple[float, float]],
    theirs: Callable[[str], tuple[Experiment, ...]],
) -> list[tuple]:
    """List (benchmark, ours_per_s, peer, peer_per_s, ours_mbps, peer_mbps) for each peer and benchmark.

    ours : (hops a CPU second, Mb/s) by benchmark; theirs : the experiments that a peer runs, in that order. A peer that
    is not there has one row, which says why.
    """
    rows: list[tuple] = []
    for name, peer in peers.items():
        if isinstance(peer, str):
            rows.append(("-", np.nan, f"{name}: {peer}", np.nan, np.nan, np.nan))
            continue
        for (benchmark, (per_s, mbps)), experiment in zip(ours.items(), theirs(name), strict=True):
            peer_per_s, peer_mbps = peer(experiment)
            rows.append((benchmark, per_s, name, peer_per_s, mbps, peer_mbps))
    return rows


def peak_mb(make: Callable[..., Experiment], size: float) -> float:
    """Most memory of a process that makes the experiment of that size and runs it."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak_mb, (make, size))


def _peak_mb(make: Callable[..., Experiment], size: float) -> float:
    simulate(make(size))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_link_experiment(packets: int) -> Experiment:
    """Poisson packets at a load of 0.8 of one link."""
    net = Topology((Cable("h1", "h2", Link(100, 0, DropTail(packets=100_000))),))
    duration_s = packets * 1514 * 8 / 80e6
    return Experiment(net, (Datagrams("h1", "h2", 80, duration_s, spacing="poisson"),), duration_s)


def simpy_packets_per_s(packets: int) -> float:
    """A link as a resource, a process for each packet."""
    import simpy

    environment = simpy.Environment()
    link = simpy.Resource(environment)

    def packet():
        with link.request() as turn:
            yield turn
            yield environment.timeout(1)

    def source():
        for gap in np.random.default_rng(1).exponential(1 / 0.8, packets).tolist():
            yield environment.timeout(gap)
            environment.process(packet())

    environment.process(source())
    started = time.process_time()
    environment.run()
    return packets / (time.process_time() - started)


def simulate_packets_per_s(packets: int) -> float:
    """The whole of simulate(), tables included."""
    experiment = one_link_experiment(packets)
    started = time.process_time()
    simulate(experiment)
    return packets / (time.process_time() - started)


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """Tables "speeds" (a row a comparison: benchmark, ours_per_s, peer, peer_per_s, ratio, ours_mbps, peer_mbps, the
    goodput), "memory" (simulated_s, peak_mb: flat, since nothing is kept of a packet that has arrived) and "short
    flows" (flows, peak_mb: of a flow that is over its row in the tables is kept).
    """
    scale = 1 if quick else 4
    full = (
        dumbbell_experiment(20.0 * scale),
        fat_tree_experiment(4, 0.3 * scale),
        fat_tree_experiment(8, 0.05 * scale),
    )
    part = (dumbbell_experiment(5.0 * scale), *(fat_tree_experiment(k, 0.03 * scale) for k in (4, 8)))
    benchmarks = ("dumbbell, hops/s", "fat-tree k = 4, hops/s", "fat-tree k = 8, hops/s")
    ours = dict(zip(benchmarks, map(hops_per_s, full), strict=True))
    (d, d_mbps), (f, f_mbps), (f8, _) = ours.values()
    rows: list[tuple] = [("fat-tree k = 8, hops/s", f8, "ours, k = 4", f, np.nan, np.nan)]
    sprayed, sprayed_mbps = hops_per_s(fat_tree_experiment(4, 0.3 * scale, "packet_spraying"))
    rows.append(("fat-tree k = 4, sprayed, hops/s", sprayed, "ours, a path a flow", f, sprayed_mbps, f_mbps))
    for queue in (Sfq(100), FqCoDel(100)):
        fair, fair_mbps = hops_per_s(dumbbell_experiment(20.0 * scale, queue=queue))
        rows.append((f"dumbbell, {type(queue).__name__}, hops/s", fair, "ours, drop tail", d, fair_mbps, d_mbps))
    link = simulate_packets_per_s(2_000_000)
    rows.append(("one link, Poisson, packets/s", link, "SimPy", simpy_packets_per_s(20_000 * scale), np.nan, np.nan))
    with tempfile.TemporaryDirectory() as folder:
        peers = simulators(Path(folder))
        rows += beside_simulators(peers, ours, lambda name: full if name == HTSIM else part)  # ns-3 is slow
    table = pd.DataFrame(rows, columns=["benchmark", "ours_per_s", "peer", "peer_per_s", "ours_mbps", "peer_mbps"])
    memory = pd.DataFrame({"simulated_s": [5.0 * scale, 50.0 * scale]})
    memory["peak_mb"] = [peak_mb(dumbbell_experiment, seconds) for seconds in memory["simulated_s"]]
    short = pd.DataFrame({"flows": [1_000, 1_000_000]})
    short["peak_mb"] = [peak_mb(short_flows_experiment, flows) for flows in short["flows"]]
    speeds = table.assign(ratio=table.ours_per_s / table.peer_per_s)
    return {"speeds": speeds, "memory": memory, "short flows": short}
