"""Starting the guests of applications on hosts of a network in virtual time, and reading the lines that they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import netrepro
from netrepro.emulation.plan import addresses
from netrepro.emulation.virtual.network import VirtualNetwork, VirtualProgram
from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

PACKAGE = Path(netrepro.__file__).parent
LONGEST_S = 1e6  # virtual time after which a program that has not ended counts as failed


def addresses_in(topology: Topology, places: Mapping[str, str]) -> str:
    """Write name -> IPv4 address as JSON. places : name -> host."""
    known = addresses(topology, "10.0.0.0/8")
    return json.dumps({name: str(known[host]) for name, host in places.items()})


def start(net: VirtualNetwork, host: str, guest: Path, *words: str) -> VirtualProgram:
    """Start an application's guest.py on a host; its first argument is the folder that contains the package."""
    return start_script(net, host, guest, str(PACKAGE.parent), *words)


def start_script(net: VirtualNetwork, host: str, script: Path, *words: str) -> VirtualProgram:
    """Start a script on a host, by a Python that is isolated and imports no site packages."""
    return net[host].popen([sys.executable, "-I", "-S", "-B", str(script), *words])


def lines_of(program: VirtualProgram, others: Sequence[VirtualProgram] = ()) -> Iterable[Any]:
    """Wait until a program ends and return the lines of JSON that it has printed, decoded.

    Raises NetreproError if the program or one of `others` fails.
    """
    program.poll_for(LONGEST_S)
    failed = [each for each in (*others, program) if each.poll()]
    if failed or program.returncode is None:
        said = [each.errors.strip().splitlines() for each in (*failed, program)]
        last = next((lines[-1] for lines in said if lines), "nothing")
        raise NetreproError(f"a program in virtual time did not end well, and said: {last}")
    return [json.loads(line) for line in program.output.splitlines()]
