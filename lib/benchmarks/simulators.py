"""The peers of the packet simulator: packet-hops a CPU second of ns-3 and htsim, or why one is not there.

htsim (Raiciu, Handley and others; Broadcom/csg-htsim on GitHub) is not fetched or built here. NETREPRO_HTSIM names the
folder of its library, libhtsim.a, and of its headers. `htsim_peer.cpp` gives it the cables and paths that ns-3 gets.
What differs from our simulator, beside what `simulate_ns3` lists: its TCP is NewReno without SACK, its shortest
timeout is 250 ms and its timers are looked at every 10 ms, a buffer of n packets holds n times the bytes of a full one,
an acknowledgement has 40 bytes, and a SYN one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment
from netrepro.programs import need_program
from netrepro.simulation.ns3 import build_ns3, simulate_ns3

Measured = Callable[[Experiment], tuple[float, float]]
HTSIM_SOURCE = Path(__file__).with_name("htsim_peer.cpp")
HTSIM_VARIABLE = "NETREPRO_HTSIM"
NS3_OF_DEBIAN, NS3_OF_PYPI, HTSIM = NAMES = ("ns-3 of Debian", "ns-3 of PyPI", "htsim")
NS3_REMEDIES = {
    NS3_OF_DEBIAN: "apt-get install libns3-dev",
    NS3_OF_PYPI: "pip install --target FOLDER ns3, then PYTHONPATH=FOLDER",
}


def simulators(folder: Path, names: tuple[str, ...] = NAMES) -> dict[str, Measured | str]:
    """Build the peers into `folder`. Each is a function of an experiment that returns (packet-hops a CPU second,
    goodput in Mb/s), or the reason why it is not there."""
    found: dict[str, Measured | str] = {}
    for name in names:
        try:
            found[name] = _htsim(folder) if name == HTSIM else _ns3(folder, name)
        except NetreproError as error:
            found[name] = f"{error.problem} ({error.remedy})"
    return found


def _ns3(folder: Path, name: str) -> Measured:
    program = build_ns3(folder, from_pypi=name == NS3_OF_PYPI)
    if program is None:
        raise NetreproError("not installed", NS3_REMEDIES[name])
    return lambda experiment: _hops_per_s(program, experiment)


def _htsim(folder: Path) -> Measured:
    program = build_htsim(folder)

    def measured(experiment: Experiment) -> tuple[float, float]:
        check_for_htsim(experiment)
        return _hops_per_s(program, experiment)

    return measured


def _hops_per_s(program: Path, experiment: Experiment) -> tuple[float, float]:
    found = simulate_ns3(experiment, program)
    delivered_bytes = float(found.flows["delivered_bytes"].sum())
    return found.packet_hops / found.cpu_s, delivered_bytes * 8 / experiment.duration_s / 1e6


def build_htsim(folder: Path) -> Path:
    """Compile the program that runs experiments in htsim into `folder`, and return its path: `simulate_ns3` runs it.

    Raises NetreproError where NETREPRO_HTSIM does not name a folder with libhtsim.a, without a C++ compiler, and where
    the program does not compile against that htsim.
    """
    named = os.environ.get(HTSIM_VARIABLE, "")
    library = Path(named, "libhtsim.a").resolve()
    if not named or not library.exists():
        problem = f"no libhtsim.a where {HTSIM_VARIABLE} points" if named else "not installed"
        raise NetreproError(problem, f"have {HTSIM_VARIABLE} name the folder of htsim's headers and libhtsim.a")
    program = folder / "htsim_peer"
    options = ["-std=c++17", "-O2", f"-I{library.parent}", "-o", str(program), str(HTSIM_SOURCE), str(library)]
    done = subprocess.run([need_program("c++"), *options], capture_output=True, text=True)
    if done.returncode:
        problem = next((line for line in done.stderr.splitlines() if "error: " in line), "").rpartition("error: ")[2]
        raise NetreproError(f"{HTSIM_SOURCE.name} does not compile: {problem}", "try another version of htsim")
    return program


def check_for_htsim(experiment: Experiment) -> None:
    """Raise NetreproError for what htsim_peer.cpp does not do, beside what `simulate_ns3` refuses."""
    table, links = experiment.flow_table, experiment.topology.ports.values()
    refused = {
        "another control than Reno": set(table["congestion_control"]) != {"reno"},
        "another queue than DropTail": not all(isinstance(link.queue, DropTail) for link in links),
        "loss": any(link.loss for link in links),
        "flows of a size": bool(table["size_bytes"].notna().any()),
        "flows that end early": bool((table["start_s"] + table["duration_s"] < experiment.duration_s - 1e-9).any()),
        "delayed acknowledgements": experiment.tcp.delayed_ack_ms > 0,
        "measured queues": bool(experiment.measure.queues),
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise NetreproError(f"the program for htsim does not do {what}", "leave htsim away")
