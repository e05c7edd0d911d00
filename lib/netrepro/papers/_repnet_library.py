"""An experiment on real kernels, its small flows sent by RepNet's asyncio library from programs in the hosts."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd

from netrepro.emulation import Emulation, emulate
from netrepro.emulation.guests import Guest
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.workloads import Flow
from netrepro.papers import _repnet_host

BEGIN_S = 0.3  # from the last host's being ready
LAST_S = 1.0  # hosts report this long before the experiment ends
ADDRESSES_ONLY = "7"  # of a packet, source, destination and protocol


def emulate_with_library(
    experiment: Experiment, small_bytes: int, tier: str, *, hash_ports: bool = True
) -> Measurements:
    """What `emulate` measures, flows of `small_bytes` at most being sent by programs in the hosts: those that are
    replicated with RepNet's library, the others with asyncio's own streams.

    `hash_ports` False makes all routers choose paths by addresses alone, so that the connections of a flow share
    theirs. Of the library's flows, retransmissions and timeouts are not known (NaN). Raises NetreproError as emulate
    does, and when a host's program fails.
    """
    table = experiment.flow_table
    is_small = table["size_bytes"] <= small_bytes
    large = tuple(
        Flow(row.source, row.destination, size_bytes=int(row.size_bytes), start_s=row.start_s, label=row.label)
        for row in table[~is_small].itertuples()
        if row.start_s < experiment.duration_s
    )
    hosts = _Hosts(table[is_small], experiment.duration_s, hash_ports)
    control = experiment.tcp.congestion_control
    found = emulate(replace(experiment, traffic=large), tier, prepare=hosts.start, programs_control=control)
    took_s, late_ms = hosts.outcome()
    measured = pd.DataFrame(index=table.index)
    measured["completion_s"] = table["start_s"] + table["flow"].map(took_s)
    measured["delivered_bytes"] = table["size_bytes"].where(measured["completion_s"].notna(), 0.0)
    measured["retransmitted_packets"] = measured["timeouts"] = np.nan
    places = table.index[~is_small & (table["start_s"] < experiment.duration_s)]
    theirs = found.flows.set_index(places)
    measured.loc[places, "completion_s"] = theirs["start_s"] + theirs["completion_ms"] / 1e3
    for column in ("delivered_bytes", "retransmitted_packets", "timeouts"):
        measured.loc[places, column] = theirs[column]
    told = [(f"lateness of the library's flows in ms, p{q}", float(np.percentile(late_ms, q))) for q in (50, 99)]
    rows = pd.DataFrame([(*row, np.nan, True) for row in told], columns=list(found.fidelity))
    return replace(
        found,
        experiment=experiment,
        flows=experiment.flow_results(measured),
        fidelity=pd.concat([found.fidelity, rows], ignore_index=True),
    )


class _Hosts:
    """The programs of all hosts, from their start in the network until their outcome."""

    def __init__(self, flows: pd.DataFrame, duration_s: float, hash_ports: bool):
        self._flows, self._duration_s, self._hash_ports = flows, duration_s, hash_ports
        self._guests: dict[str, Guest] = {}
        self._begin_s = 0.0

    def start(self, net: Emulation) -> None:
        """Start every host's program, and let them begin together."""
        if not self._hash_ports:
            for switch in net.topology.switches:
                path = "/proc/sys/net/ipv4/fib_multipath_hash_fields"
                net[switch].run(["sh", "-c", f"echo {ADDRESSES_ONLY} > {path}"])
        command = [sys.executable, "-P", "-m", _repnet_host.__name__]
        for host in net.topology.hosts:
            self._guests[host] = net[host].popen(command)
            self._tell(host, json.dumps(self._orders(net, host)))
        for host in net.topology.hosts:
            self._hear(host)
        self._begin_s = time.monotonic() + BEGIN_S
        for host in net.topology.hosts:
            self._tell(host, repr(self._begin_s))

    def _orders(self, net: Emulation, host: str) -> dict:
        mine = self._flows[self._flows["source"] == host]
        return {
            "address": net[host].address,
            "seconds": self._duration_s - LAST_S,
            "flows": [
                (
                    int(row.flow),
                    net[row.destination].address,
                    max(int(row.size_bytes), _repnet_host.HEADER.size),
                    row.start_s,
                    row.replication,
                )
                for row in mine.itertuples()
                if row.start_s < self._duration_s - LAST_S
            ],
        }

    def outcome(self) -> tuple[dict[int, float], np.ndarray]:
        """(flow -> from asking for its connection until its last byte arrived, s; lateness of the starts, ms)."""
        began: dict[int, float] = {}
        arrived: dict[int, float] = {}
        for host in self._guests:
            seen = json.loads(self._hear(host))
            began |= {int(flow): at_s for flow, at_s in seen["began"].items()}
            arrived |= {int(flow): at_s for flow, at_s in seen["arrived"].items()}
        due = self._flows.set_index("flow")["start_s"] + self._begin_s
        late_ms = np.array([(at_s - due[flow]) * 1e3 for flow, at_s in began.items()])
        return {flow: arrived[flow] - began[flow] for flow in arrived}, late_ms

    def _tell(self, host: str, line: str) -> None:
        stream = self._guests[host].stdin
        assert stream is not None
        stream.write(line + "\n")
        stream.flush()

    def _hear(self, host: str) -> str:
        guest = self._guests[host]
        assert guest.stdout is not None and guest.stderr is not None
        line = guest.stdout.readline()
        if not line:
            said = guest.stderr.read().strip().splitlines()[-1:]
            raise NetreproError(f"the program of {host} has ended: {''.join(said)}", "run the notebook again")
        return line
