"""The same Experiment in ns-3, where that is installed: a second opinion, and a peer in speed.

ns-3 is Debian's (libns3-dev, 3.37) or PyPI's (`pip install ns3`, 3.44), which brings its headers and libraries.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.files import whole_file
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import DropTail, EcnThreshold, Link
from netrepro.networks.workloads import Flow
from netrepro.programs import find_program

SOURCE = Path(__file__).with_name("ns3_peer.cpp")
LIBRARIES = ("core", "network", "internet", "applications", "point-to-point", "traffic-control")
NS3_CONTROLS = {"reno": "ns3::TcpLinuxReno", "cubic": "ns3::TcpCubic", "dctcp": "ns3::TcpDctcp"}


@dataclass(frozen=True)
class Ns3Run:
    """The result of ns-3.

    flows : a row for each flow: completion_ms, delivered_bytes, goodput_mbps. queues : time_s, queue_packets of the one
    port that is measured. packet_hops : number of transmissions that ended. cpu_s : CPU seconds of the run.
    """

    flows: pd.DataFrame
    queues: pd.DataFrame
    packet_hops: int
    cpu_s: float


def build_ns3(folder: Path, *, from_pypi: bool = False) -> Path | None:
    """Compile the program that runs experiments in ns-3 into `folder`, unless it is there already.

    from_pypi : use PyPI's ns-3; otherwise the one that the compiler finds, which is Debian's.

    Returns the program's path; None where this ns-3 or a C++ compiler is missing. Raises NetreproError when ns-3 is
    there and the program does not compile against it.
    """
    compiler = find_program("c++")
    options = _pypi_options() if from_pypi else ["-std=c++17", *(f"-lns3-{name}" for name in LIBRARIES)]
    if options is None:
        return None
    made_of = SOURCE.read_bytes() + "\0".join(options).encode()
    program = folder / f"ns3_peer_{hashlib.sha256(made_of).hexdigest()[:12]}"
    if compiler is None or program.exists():
        return program if program.exists() else None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with whole_file(program) as partial:
            command = [compiler, "-O2", "-o", str(partial), str(SOURCE), *options]
            subprocess.run(command, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as failed:
        problem = next((line for line in failed.stderr.splitlines() if "error" in line), "")
        if "ns3/" in problem and "No such file" in problem:
            return None
        raise NetreproError(
            f"{SOURCE.name} does not compile: {problem}", "install libns3-dev 3.37 or ns3 3.44 of PyPI, or remove it"
        ) from None
    return program


def _pypi_options() -> list[str] | None:
    """Return the compiler's options that use the ns-3 of PyPI; None where that is not installed."""
    package = importlib.util.find_spec("ns3")
    for folder in map(Path, package.submodule_search_locations or () if package else ()):
        core = next((folder / "lib64").glob("libns3*-core.so"), None)
        if core is not None:
            prefix = core.stem.removeprefix("lib").removesuffix("core")
            searched = [f"-L{core.parent}", f"-Wl,-rpath,{core.parent}", f"-Wl,-rpath-link,{core.parent}"]
            return ["-std=c++20", f"-I{folder / 'include'}", *searched, *(f"-l{prefix}{name}" for name in LIBRARIES)]
    return None


def simulate_ns3(experiment: Experiment, program: Path) -> Ns3Run:
    """Run the experiment in ns-3; program : the path that build_ns3 returned.

    Differences that remain: ns-3's frames are 12 bytes shorter than Ethernet's; a path is chosen for each
    destination, not for each flow; wires have no jitter, and hosts take no time. Link rates are off by up to 100
    parts per million, as in `simulate`.

    Raises NetreproError for other traffic than plain flows of one congestion control (reno, cubic or dctcp), other
    queues than drop-tail in packets and EcnThreshold, other routing than ECMP, delays that differ by direction,
    reordering, changes, IPv6, mtu_bytes, policers, send_buffer_bytes, and more than one measured queue.
    """
    lines = _described(experiment)
    run = subprocess.run(
        [program, str(experiment.duration_s), str(experiment.seed + 1)],  # ns-3 has no seed 0
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise NetreproError(f"ns-3 failed: {run.stderr.strip()[-200:]}", "see what it prints, or leave ns-3 away")
    numbers_of: dict[str, list[list[float]]] = {"hops": [], "flow": [], "queue": []}
    for line in run.stdout.splitlines():
        kind, *numbers = line.split()
        numbers_of[kind].append([float(number) for number in numbers])
    (packet_hops, cpu_s), *_ = numbers_of["hops"]
    queues = pd.DataFrame(numbers_of["queue"], columns=["time_s", "queue_packets"])
    return Ns3Run(_flows(experiment, numbers_of["flow"]), queues, int(packet_hops), cpu_s)


def _flows(experiment: Experiment, rows: list[list[float]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["flow", "completion_s", "delivered_bytes"])
    measured = pd.DataFrame(
        {
            "completion_s": table["completion_s"].where(table["completion_s"] >= 0),
            "delivered_bytes": table["delivered_bytes"].astype(int),
            "bytes_within_duration": 0,  # nobody sends datagrams
            "retransmitted_packets": 0,
            "timeouts": 0,
        }
    )
    return experiment.flow_results(measured)[["flow", "completion_ms", "delivered_bytes", "goodput_mbps"]]


def _described(experiment: Experiment) -> list[str]:
    _check(experiment)
    topology, tcp, table = experiment.topology, experiment.tcp, experiment.flow_table
    number = {name: i for i, name in enumerate((*topology.hosts, *topology.switches))}
    control = NS3_CONTROLS[table["congestion_control"].iloc[0]]
    skews = np.random.Generator(np.random.PCG64(experiment.seed)).uniform(-1, 1, len(topology.ports))
    rate_bps = {
        port: link.rate_mbps * 1e6 * (1 + experiment.clock_skew_ppm * 1e-6 * skew)
        for (port, link), skew in zip(topology.ports.items(), skews, strict=True)
    }
    lines = [
        f"tcp {control} {tcp.segment_bytes} {tcp.initial_window_segments} {tcp.receive_window_bytes} "
        f"{tcp.min_rto_ms / 1e3} {tcp.initial_rto_ms / 1e3} {tcp.delayed_ack_ms / 1e3} {int(tcp.sack)}",
        f"nodes {len(number)}",
    ]
    for cable in topology.cables:
        there, back = (cable.first, cable.second), (cable.second, cable.first)
        directions = " ".join(_direction(topology.ports[port], rate_bps[port]) for port in (there, back))
        delay_s = cable.forward.delay_ms / 1e3
        lines.append(f"cable {number[cable.first]} {number[cable.second]} {delay_s} {directions}")
    lines += [f"route {number[at]} {number[to]} {number[hop]}" for at, to, hop in _routes(experiment)]
    for flow in table.itertuples():
        stop_s = experiment.duration_s if np.isnan(flow.duration_s) else flow.start_s + flow.duration_s
        size_bytes = 0 if np.isnan(flow.size_bytes) else int(flow.size_bytes)
        ends = f"{number[flow.source]} {number[flow.destination]}"
        lines.append(f"flow {ends} {flow.start_s} {stop_s} {size_bytes}")
    interval_s = experiment.measure.queue_interval_ms / 1e3
    return lines + [f"queue {number[a]} {number[b]} {interval_s}" for a, b in experiment.measure.queues]


def _direction(link: Link, rate_bps: float) -> str:
    threshold = link.queue.threshold_packets if isinstance(link.queue, EcnThreshold) else 0
    assert isinstance(link.queue, (DropTail, EcnThreshold))
    return f"{rate_bps:.0f} {link.loss} {link.queue.packets} {threshold}"


def _routes(experiment: Experiment) -> list[tuple[str, str, str]]:
    """List (at, to, next): a shortest path to every host that packets go to, drawn among equals."""
    graph, table = experiment.topology.graph, experiment.flow_table
    random = np.random.Generator(np.random.PCG64([experiment.seed, 1]))
    routes = []
    for to in sorted({*table["source"], *table["destination"]}):
        distance = nx.single_source_shortest_path_length(graph, to)
        for at in sorted(set(graph) - {to}):
            near = [hop for hop in sorted(graph[at]) if distance[hop] < distance[at] and (hop[0] == "s" or hop == to)]
            routes.append((at, to, near[random.integers(len(near))]))
    return routes


def _check(experiment: Experiment) -> None:
    def refuse(what: str) -> None:
        raise NetreproError(f"the program for ns-3 does not do {what}", "use tier 'simulated'")

    if experiment.changes:
        refuse("changes of links")
    if experiment.ipv6:
        refuse("IPv6")
    if experiment.measure.since_s or experiment.measure.deliveries:
        refuse("since_s or deliveries")
    if experiment.routing.scheme != "ecmp":
        refuse(f"routing by {experiment.routing.scheme}")
    if len(experiment.measure.queues) > 1:
        refuse("more than one measured queue")
    experiment.measure.check_sampled()
    for entry in experiment.traffic:
        if not isinstance(entry, Flow) or entry.replication or entry.subflows > 1 or entry.path or entry.tcp:
            refuse("other traffic than plain flows")
    if experiment.tcp.send_buffer_bytes is not None:
        refuse("send_buffer_bytes")
    controls = set(experiment.flow_table["congestion_control"])
    if len(controls) != 1 or not controls <= NS3_CONTROLS.keys():
        refuse(f"{', '.join(sorted(controls))} (one of {', '.join(NS3_CONTROLS)})")
    for cable in experiment.topology.cables:
        if cable.backward is not None and cable.backward.delay_ms != cable.forward.delay_ms:
            refuse("delays that differ by direction")
    for link in experiment.topology.ports.values():
        in_packets = isinstance(link.queue, DropTail) and link.queue.packets is not None and link.queue.bytes is None
        if not in_packets and not isinstance(link.queue, EcnThreshold):
            refuse(f"{link.queue!r}")
        if link.reordering:
            refuse("reordering")
        if link.mtu_bytes is not None:
            refuse("mtu_bytes")
        if link.policer is not None:
            refuse("policers")
