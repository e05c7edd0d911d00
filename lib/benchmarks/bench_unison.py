"""A fat-tree as the artifact of Unison runs it, ours beside sequential ns-3, and what Unison publishes of its speed.

Unison (Bai and others, EuroSys 2024) is ns-3 on several cores. Its abstract says 40 times sequential ns-3 on 24 cores,
not for which traffic. Its run times lie in figures; the texts that we could read (abstract, artifact, a part of the
evaluation) have neither those nor events a second, and none of 16 cores. So the column from elsewhere is that factor,
of another machine, of run times. Beside it stands by how much one core of ours is faster than sequential ns-3 here, in
packet-hops a CPU second.

The traffic is that of `flexible` in its artifact's exp.py (NASA-NJU/UNISON-for-ns-3, branch unison-evaluations): k = 8,
100 Gb/s, 3 us, DCTCP, flows of web-search sizes between hosts drawn evenly, at 0.3 of the hosts' rate. It has no
k = 16, which is the same traffic on a larger tree. What differs: the sizes are this library's table of web search; a
port marks from 100 packets on, where its RED has 50 and 150; a buffer has 2,666 packets, not 4 MB; only the first
milliseconds are simulated, not a second.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.bench_simulation import hops_per_s
from benchmarks.simulators import NS3_OF_DEBIAN, simulators
from netrepro.networks import EcnThreshold, Experiment, Flow, Link, Tcp, fat_tree, flows_per_s_at_load
from netrepro.networks.flow_sizes import load_flow_sizes

UNISON_TIMES_NS3 = {8: 40.0}  # by k, on 24 cores: the abstract
LOAD, RATE_MBPS = 0.3, 100_000


def experiment(k: int, duration_s: float, seed: int = 1) -> Experiment:
    """Flows that begin in the first `duration_s` seconds of Unison's fat-tree; what has not arrived by then is cut."""
    net = fat_tree(k, Link(RATE_MBPS, 0.003, EcnThreshold(packets=2666, threshold_packets=100)))
    hosts, random = len(net.hosts), np.random.default_rng(seed)
    sizes = load_flow_sizes("web_search").in_bytes()
    per_s = flows_per_s_at_load(sizes, LOAD, hosts * RATE_MBPS)
    starts_s = np.cumsum(random.exponential(1 / per_s, int(2 * per_s * duration_s) + 100))
    starts_s = starts_s[starts_s < duration_s]
    sources = random.integers(hosts, size=len(starts_s))
    destinations = (sources + random.integers(1, hosts, size=len(starts_s))) % hosts
    size_bytes = np.maximum(1, np.round(sizes.sample(random, len(starts_s)))).astype(int)
    flows = tuple(
        Flow(f"h{source + 1}", f"h{destination + 1}", size_bytes=int(size), start_s=float(start_s))
        for source, destination, size, start_s in zip(sources, destinations, size_bytes, starts_s, strict=True)
    )
    tcp = Tcp("dctcp", delayed_ack_ms=200, receive_window_bytes=2**30, min_rto_ms=5, initial_rto_ms=10)
    return Experiment(net, flows, duration_s, tcp=tcp)


def run(quick: bool = True) -> pd.DataFrame:
    """Tabulate by k: ours_per_s and ns3_per_s in packet-hops a CPU second, their ratio, goodputs in Mb/s, and
    unison_24_cores_times_ns3_elsewhere, which is published. ns-3 runs k = 8 only."""
    duration_s = 0.001 if quick else 0.004
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ns3 = simulators(Path(folder), (NS3_OF_DEBIAN,))[NS3_OF_DEBIAN]
        for k in (8, 16):
            ours, ours_mbps = hops_per_s(experiment(k, duration_s))
            theirs, theirs_mbps, remark = np.nan, np.nan, ""
            if isinstance(ns3, str):
                remark = f"{NS3_OF_DEBIAN}: {ns3}"
            elif k in UNISON_TIMES_NS3:
                theirs, theirs_mbps = ns3(experiment(k, duration_s))
            rows.append((f"fat-tree k = {k}", ours, theirs, ours / theirs, ours_mbps, theirs_mbps, remark))
    columns = ["benchmark", "ours_per_s", "ns3_per_s", "ours_times_ns3", "ours_mbps", "ns3_mbps", "remark"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(unison_24_cores_times_ns3_elsewhere=[UNISON_TIMES_NS3.get(k, np.nan) for k in (8, 16)])
