"""Running an experiment in real time, whose small flows RepNet's asyncio library sends; guest.py runs on each host."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.repnet import guest
from netrepro.emulation import Network, emulate
from netrepro.emulation.real_time.guests import Guest
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.errors import NetreproError
from netrepro.networks.checks import Check, check_table
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.workloads import Flow

BEGIN_S = 0.3  # time from the last host's "ready" to the common beginning
LAST_S = 1.0  # hosts report this long before the experiment ends
ADDRESSES_ONLY = "7"  # hashed fields: source, destination and protocol


def emulate_with_library(
    experiment: Experiment, small_bytes: int, tier: str, *, hash_ports: bool = True
) -> Measurements:
    """Run `emulate`, but let programs in the hosts send flows of at most `small_bytes`: replicated flows with RepNet's
    library, the others with asyncio's own streams.

    `hash_ports` False makes all routers choose paths by addresses alone, so that all connections of a flow share one
    path. Retransmissions and timeouts of these small flows are not known (NaN). Raises NetreproError as emulate does,
    and when a host's program fails.
    """
    table = experiment.flow_table
    is_small = table["size_bytes"] <= small_bytes
    large = tuple(
        Flow(row.source, row.destination, size_bytes=int(row.size_bytes), start_s=row.start_s, label=row.label)
        for row in table[~is_small].itertuples()
        if row.start_s < experiment.duration_s
    )
    programs = Programs(guest.__name__, partial(_orders, table[is_small], experiment.duration_s))

    def prepare(net: RealTimeNetwork) -> None:
        if not hash_ports:
            hash_addresses_only(net)
        programs.start(net)

    control = experiment.tcp.congestion_control
    run = emulate(replace(experiment, traffic=large), tier, prepare=prepare, programs_control=control)
    opened_s, took_s, late_ms = _times(table[is_small], programs)
    measured = pd.DataFrame(index=table.index)
    measured["completion_s"] = table["start_s"] + table["flow"].map(took_s)
    measured["connected_s"] = table["start_s"] + table["flow"].map(opened_s)
    measured["delivered_bytes"] = table["size_bytes"].where(measured["completion_s"].notna(), 0.0)
    measured["retransmitted_packets"] = measured["timeouts"] = np.nan
    measured["bytes_within_duration"] = 0.0  # no program sends datagrams
    places = table.index[~is_small & (table["start_s"] < experiment.duration_s)]
    theirs = run.flows.set_index(places)
    for moment in ("completion", "connected"):
        measured.loc[places, f"{moment}_s"] = theirs["start_s"] + theirs[f"{moment}_ms"] / 1e3
    for column in ("delivered_bytes", "retransmitted_packets", "timeouts"):
        measured.loc[places, column] = theirs[column]
    name = "lateness of the library's flows in ms"
    told = check_table(Check(f"{name}, p{q}", float(np.percentile(late_ms, q))) for q in (50, 99))
    return replace(
        run,
        experiment=experiment,
        flows=experiment.flow_results(measured),
        fidelity=pd.concat([run.fidelity, told], ignore_index=True),
    )


class Programs:
    """A program in every host of an emulated network: they begin together, and each returns an outcome.

    module : module to run; it reads its orders (a line of JSON), writes "ready", reads the time to begin, and writes
    its outcome. orders : function of the network and a host's name that returns the host's orders.
    """

    def __init__(self, module: str, orders: Callable[[Network, str], dict[str, Any]]):
        self._module, self._orders = module, orders
        self._guests: dict[str, Guest] = {}
        self.begin_s = 0.0

    def start(self, net: RealTimeNetwork) -> None:
        """Start every host's program, wait until all are ready, and send them the time to begin."""
        for host in net.topology.hosts:
            self._guests[host] = net[host].popen([sys.executable, "-P", "-m", self._module])
            self._tell(host, json.dumps(self._orders(net, host)))
        for host in net.topology.hosts:
            self._hear(host)
        self.begin_s = time.monotonic() + BEGIN_S
        for host in net.topology.hosts:
            self._tell(host, repr(self.begin_s))

    def outcomes(self) -> dict[str, Any]:
        """Read the outcome of each host's program; returns host -> outcome."""
        return {host: json.loads(self._hear(host)) for host in self._guests}

    def _tell(self, host: str, line: str) -> None:
        stream = self._guests[host].stdin
        assert stream is not None
        stream.write(line + "\n")
        stream.flush()

    def _hear(self, host: str) -> str:
        program = self._guests[host]
        assert program.stdout is not None and program.stderr is not None
        line = program.stdout.readline()
        if not line:
            said = program.stderr.read().strip().splitlines()[-1:]
            raise NetreproError(f"the program of {host} has ended: {''.join(said)}", "run the notebook again")
        return line


def hash_addresses_only(net: Network) -> None:
    """Let all routers choose paths by addresses alone, so that all connections of two hosts share one path."""
    for switch in net.topology.switches:
        path = "/proc/sys/net/ipv4/fib_multipath_hash_fields"
        net[switch].run(["sh", "-c", f"echo {ADDRESSES_ONLY} > {path}"])


def _orders(flows: pd.DataFrame, duration_s: float, net: Network, host: str) -> dict[str, Any]:
    least = guest.HEADER.size
    until_s = duration_s - LAST_S
    mine = flows[(flows["source"] == host) & (flows["start_s"] < until_s)]
    return {
        "address": net[host].address,
        "seconds": until_s,
        "flows": [
            (int(row.flow), net[row.destination].address, max(int(row.size_bytes), least), row.start_s, row.replication)
            for row in mine.itertuples()
        ],
    }


def _times(flows: pd.DataFrame, programs: Programs) -> tuple[dict[int, float], dict[int, float], np.ndarray]:
    """Return (flow -> seconds from the request of its connection until this is open, flow -> seconds to its last byte,
    delays of the flows' starts in ms)."""
    seen: dict[str, dict[int, float]] = {moment: {} for moment in ("began", "opened", "arrived")}
    for told in programs.outcomes().values():
        for moment, times_s in seen.items():
            times_s |= {int(flow): at_s for flow, at_s in told[moment].items()}
    began = seen["began"]
    due_s = flows.set_index("flow")["start_s"] + programs.begin_s
    late_ms = np.array([(at_s - due_s[flow]) * 1e3 for flow, at_s in began.items()])
    opened_s, took_s = (
        {flow: at_s - began[flow] for flow, at_s in seen[moment].items()} for moment in ("opened", "arrived")
    )
    return opened_s, took_s, late_ms
