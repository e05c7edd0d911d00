"""Real processes of our own protocols in virtual time: how their programs are started in a network."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import netrepro
from netrepro.emulation.plan import addresses
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual.network import VirtualEmulation, VirtualProgram
from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

PACKAGE = Path(netrepro.__file__).parent
LONGEST_S = 1e6  # of virtual time, in which a program that waits for nothing is not ended


def why_no_processes() -> str:
    """Why this machine cannot run them, "" where it can."""
    virtual = probe_tiers().virtual
    return "" if virtual.available else f"no virtual kernel: {virtual.why}"


def addresses_in(topology: Topology, places: Mapping[str, str]) -> str:
    """name -> address as JSON, of names at hosts (name -> host)."""
    known = addresses(topology, "10.0.0.0/8")
    return json.dumps({name: str(known[host]) for name, host in places.items()})


def start(net: VirtualEmulation, host: str, guest: Path, *words: str) -> VirtualProgram:
    """Start an application's guest.py on a host; it is told first where it finds the package."""
    return start_script(net, host, guest, str(PACKAGE.parent), *words)


def start_script(net: VirtualEmulation, host: str, script: Path, *words: str) -> VirtualProgram:
    """Start a script on a host, by an interpreter that imports nothing that it need not."""
    return net[host].popen([sys.executable, "-I", "-S", "-B", str(script), *words])


def lines_of(program: VirtualProgram, others: Sequence[VirtualProgram] = ()) -> Iterable[Any]:
    """The lines of JSON that it has printed when it ends. Raises NetreproError where it, or one of `others`, fails."""
    program.wait(LONGEST_S)
    failed = [each for each in (*others, program) if each.poll()]
    if failed or program.returncode is None:
        said = [each.errors.strip().splitlines() for each in (*failed, program)]
        last = next((lines[-1] for lines in said if lines), "nothing")
        raise NetreproError(f"a program in virtual time did not end well, and said: {last}")
    return [json.loads(line) for line in program.output.splitlines()]
