"""Runs an Experiment on a network of real kernels, in real time or in virtual time."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity
from netrepro.emulation.plan import check_experiment
from netrepro.emulation.real_time.changes import MOST_LATE_MS, Changes, now_ns
from netrepro.emulation.real_time.generated_traffic import GeneratedTraffic
from netrepro.emulation.real_time.machine import awake_processors
from netrepro.emulation.real_time.network import Emulation
from netrepro.emulation.real_time.recording import Recording, check_captures
from netrepro.emulation.source_routes import Connection, connections
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks.experiment import (
    FIDELITY_COLUMNS,
    PACKET_COLUMNS,
    QUEUE_COLUMNS,
    WINDOW_COLUMNS,
    Experiment,
    Measurements,
    Port,
)
from netrepro.networks.links import FULL_PACKET_BYTES

# Whether a port was busy is judged by samples at least this often, however seldom they are asked for.
MOST_QUEUE_INTERVAL_MS, LEAST_QUEUE_INTERVAL_MS = 10.0, 0.1
# Room for a port's packets beyond as many full ones as it can send; acknowledgements are smaller and more.
PACKET_ROOM, MOST_RECORDED_PACKETS = 2.0, 4_000_000
MOST_WAITED_SHARE = 0.1  # fixed before any run
MOST_CONNECTIONS = 50_000  # of one experiment, each with a port of its own


def emulate(
    experiment: Experiment,
    tier: str = "auto",
    progress: Callable[[float], None] | None = None,
    prepare: Callable[[Emulation], None] | None = None,
    *,
    programs_control: str = "",
    captures: str | os.PathLike[str] | None = None,
    cpu_limits: Mapping[str, float] | None = None,
    until_complete: bool = False,
) -> Measurements:
    """Run the experiment on this machine's kernel and return what it measured.

    Parameters
    ----------
    experiment : what to run; in real time it takes `duration_s`. Connections have the source ports 10000 + flow, those
        of replicas follow. Requests and answers of one server share a connection, which the client opens.
    tier : "auto", "privileged" or "rootless" in real time, or "virtual", which takes as long as its packets need: see
        emulate_virtually. In virtual time there are no prepare and cpu_limits.
    progress : called with the share of the time that has passed, 0 to 1, ten times a second.
    prepare : called with the network once it is built, before its traffic begins: to start programs in its hosts, which
        end with it, or to change what the experiment cannot describe.
    programs_control : congestion control of what such programs send, and of all flows; "" leaves both to themselves.
    captures : a folder for a pcap of each of `measure.packets`, as Emulation.record writes it.
    cpu_limits : cores that programs of a host may have, as of Emulation; the traffic itself is not held back.
    until_complete : end when all flows have ended, if that is earlier; rates of links are then of the shorter time.

    Ctrl-C, or an exception from `progress`, ends it at once and leaves nothing behind. Beside FLOW_COLUMNS, `flows`
    has `connection_attempts` (SYNs sent) and `errno` of a connection that broke, else 0. `timeouts` is NaN on kernels
    that do not count them, `wait_ms` of packets is NaN where a kernel's queue does not tell.

    `fidelity` checks every measured port (queue or packets) whose queue was waiting often enough to judge, that no
    packet escaped the recording, that no port may send frames of several packets, and that senders had a
    processor when they wanted one; it says which tier and kernel that was. Raises NetreproError before anything is
    built for what a kernel cannot honour (make_plan, check_tcp, check_experiment) and when the tier cannot be had;
    while it is built for what this kernel lacks.
    """
    if tier == "virtual":
        _check_virtual(prepare, programs_control, cpu_limits)
        return emulate_virtually(experiment, progress, captures=captures, until_complete=until_complete)
    made = _checked_connections(experiment)
    paths = {path for each in made for path in (each.there, each.back) if path}
    check_captures(None if captures is None else Path(captures))
    net = Emulation(
        experiment.topology,
        tier,
        programs_control,
        experiment.seed,
        tcp=experiment.tcp,
        cpu_limits=cpu_limits,
        routing=experiment.routing,
        paths=sorted(paths),
    )
    measure = experiment.measure
    ports = tuple(dict.fromkeys((*measure.queues, *measure.packets)))
    interval_ms = min(measure.queue_interval_ms, MOST_QUEUE_INTERVAL_MS)
    with net:
        net.check_congestion_controls(set(experiment.flow_table["congestion_control"]) - {""})
        changes = Changes(net, experiment)
        if prepare is not None:
            prepare(net)
        recording = net.record(
            queues=ports,
            packets=ports,
            interval_ms=interval_ms,
            most_packets=_room(experiment),
            captures=captures,
        )
        awake = awake_processors() if net.tier == "privileged" else nullcontext()
        with awake, recording as seen:
            traffic = GeneratedTraffic(net, experiment, made, until_complete)
            try:
                traffic.wait(progress, changes, now_ns)
                seen.begin_at(traffic.began_ns)
                seen.changed(changes.made)
                result, flow_of_end = traffic.result(), traffic.flow_of_end()
            finally:
                traffic.close()
        return Measurements(
            experiment=experiment,
            tier=net.tier,
            flows=experiment.flow_results(result.flows),
            queues=_queues(experiment, seen, interval_ms),
            links=seen.links(),
            windows=result.windows[[*WINDOW_COLUMNS, "connection"]],
            packets=_packets(experiment, seen, flow_of_end),
            fidelity=experiment.with_late_flows(
                _fidelity(ports, seen, result.lateness, result.waited_share, changes.latest_ms)
            ),
            requests=experiment.request_results(result.answers),
            kernel=platform.release(),
        )


def _check_virtual(prepare: object, programs_control: str, cpu_limits: object) -> None:
    given = {"prepare": prepare is not None, "programs_control": programs_control, "cpu_limits": cpu_limits}
    for name in (name for name, wanted in given.items() if wanted):
        raise NetreproError(f"{name} on tier 'virtual', which has none", "leave it out, or use another tier")


def _checked_connections(experiment: Experiment) -> list[Connection]:
    """Those that the experiment opens. Raises NetreproError for what cannot be emulated."""
    check_experiment(experiment)
    measure = experiment.measure
    if measure.queue_interval_ms < LEAST_QUEUE_INTERVAL_MS:
        raise NetreproError(
            f"queues sampled every {measure.queue_interval_ms:g} ms",
            f"give {LEAST_QUEUE_INTERVAL_MS:g} ms or more, or use tier 'virtual'",
        )
    table = experiment.flow_table
    count = len(table) + int((table["replication"] != "").sum())
    if count > MOST_CONNECTIONS:
        raise NetreproError(
            f"{count} connections, and there are {MOST_CONNECTIONS} source ports to tell them apart",
            "give fewer flows, or use tier 'simulated'",
        )
    return connections(experiment)


def _room(experiment: Experiment) -> int:
    """Packets that any measured port can send, with room to spare."""
    measure = experiment.measure
    rates_mbps = [experiment.topology.link(*port).rate_mbps for port in (*measure.queues, *measure.packets)]
    full_packets = max(rates_mbps, default=0.0) * 1e6 / 8 / FULL_PACKET_BYTES * experiment.duration_s
    return min(int(PACKET_ROOM * full_packets) + 20_000, MOST_RECORDED_PACKETS)


def _queues(experiment: Experiment, seen: Recording, interval_ms: float) -> pd.DataFrame:
    """The samples that were asked for: of these ports, at this interval, during the experiment."""
    measure = experiment.measure
    queues = seen.queues()
    every = max(round(measure.queue_interval_ms / interval_ms), 1)
    place = queues.groupby(["source", "destination"], sort=False).cumcount()
    asked = pd.MultiIndex.from_frame(queues[["source", "destination"]]).isin(measure.queues)
    during = (queues["time_s"] >= 0) & (queues["time_s"] <= experiment.duration_s)
    return queues[asked & during & (place % every == 0)].reset_index(drop=True)[QUEUE_COLUMNS]


def _packets(experiment: Experiment, seen: Recording, flow_of_end: dict[int, int]) -> pd.DataFrame:
    packets = seen.packets(flow_of_end)
    if "wait_ms" not in packets:
        packets = packets.assign(wait_ms=np.nan)
    asked = pd.MultiIndex.from_frame(packets[["source", "destination"]]).isin(experiment.measure.packets)
    during = (packets["time_s"] >= 0) & (packets["time_s"] <= experiment.duration_s)
    return packets[asked & during].reset_index(drop=True)[PACKET_COLUMNS]


def _fidelity(
    ports: tuple[Port, ...],
    seen: Recording,
    lateness: pd.DataFrame,
    waited_share: float,
    latest_change_ms: float,
) -> pd.DataFrame:
    parts = [checks for port in ports if (checks := seen.port_checks(*port)) is not None]
    judged = ("measured ports that were busy enough to judge", float(len(parts)), float("nan"), True)
    if not np.isnan(latest_change_ms):
        late = ("lateness of changes of links in ms", latest_change_ms, MOST_LATE_MS, latest_change_ms <= MOST_LATE_MS)
        parts.append(pd.DataFrame([late], columns=FIDELITY_COLUMNS))
    # A starved sender looks like a slow network, which no port shows.
    starved = (fidelity.STARVED, waited_share, MOST_WAITED_SHARE)
    rows = [judged, (*starved, not waited_share > MOST_WAITED_SHARE)]
    rows += fidelity.lateness_rows("starts and datagrams", lateness)
    parts.append(pd.DataFrame(rows, columns=FIDELITY_COLUMNS))
    return pd.concat([*parts, seen.machine_checks()], ignore_index=True)
