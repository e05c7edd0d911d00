"""Runs an Experiment on this machine's kernel, in real time."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity
from netrepro.emulation.real_time.changes import MOST_LATE_MS, Changes, now_ns
from netrepro.emulation.real_time.generated_traffic import GeneratedTraffic
from netrepro.emulation.real_time.machine import awake_processors
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.real_time.recording import RealTimeRecording
from netrepro.emulation.recording import folder_for_captures
from netrepro.emulation.refusals import check_experiment
from netrepro.emulation.source_routes import FlowConnection, connections
from netrepro.errors import NetreproError
from netrepro.networks.checks import Check, check_table
from netrepro.networks.experiment import Experiment, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.networks.tables import PACKET_COLUMNS, QUEUE_COLUMNS, WINDOW_COLUMNS

# Bounds of the sampling interval: samples also show whether a port was busy, so they are taken at least this often.
MOST_QUEUE_INTERVAL_MS, LEAST_QUEUE_INTERVAL_MS = 10.0, 0.1
# Room for packets of a port, as a multiple of the full packets that it can send: acknowledgements are smaller.
PACKET_ROOM, MOST_RECORDED_PACKETS = 2.0, 4_000_000
MOST_WAITED_SHARE = 0.1  # fixed before any run
MOST_CONNECTIONS = 50_000  # of one experiment; each has its own source port


def emulate_in_real_time(
    experiment: Experiment,
    tier: str = "auto",
    progress: Callable[[float], None] | None = None,
    prepare: Callable[[RealTimeNetwork], None] | None = None,
    *,
    programs_control: str = "",
    captures: str | os.PathLike[str] | None = None,
    cpu_limits: Mapping[str, float] | None = None,
    until_complete: bool = False,
) -> Measurements:
    """Run the experiment on this machine's kernel, as `emulate` does; tier "auto", "privileged" or "rootless"."""
    made = _checked_connections(experiment)
    paths = {path for each in made for path in (each.there, each.back) if path}
    folder = folder_for_captures(captures)
    net = RealTimeNetwork(
        experiment.topology,
        tier,
        programs_control,
        experiment.seed,
        tcp=experiment.tcp,
        cpu_limits=cpu_limits,
        ipv6=experiment.ipv6,
        routing=experiment.routing,
        paths=sorted(paths),
    )
    measure = experiment.measure
    ports = tuple(dict.fromkeys((*measure.queues, *measure.packets)))
    interval_ms = min(measure.queue_interval_ms, MOST_QUEUE_INTERVAL_MS)
    with net:
        net.check_congestion_controls(set(experiment.flow_table["congestion_control"]) - {""})
        if prepare is not None:
            prepare(net)
        recording = net.record(
            queues=ports,
            packets=ports,
            interval_ms=interval_ms,
            most_packets=_room(experiment),
            captures=folder,
        )
        changes = Changes(net, experiment, recording.count_from_now)
        awake = awake_processors() if net.tier == "privileged" else nullcontext()
        with awake, recording as seen:
            traffic = GeneratedTraffic(net, experiment, made, until_complete)
            try:
                traffic.wait(progress, changes, now_ns)
                seen.begin_at(traffic.began_ns)
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


def _checked_connections(experiment: Experiment) -> list[FlowConnection]:
    """List the experiment's connections. Raises NetreproError for an experiment that cannot run in real time."""
    check_experiment(experiment)
    measure = experiment.measure
    if measure.queue_interval_ms < LEAST_QUEUE_INTERVAL_MS:
        raise NetreproError(
            f"queues sampled every {measure.queue_interval_ms:g} ms",
            f"give {LEAST_QUEUE_INTERVAL_MS:g} ms or more, or use tier 'virtual'",
        )
    if measure.deliveries:
        raise NetreproError("deliveries, which real time does not record", "use tier 'simulated' or 'virtual'")
    table = experiment.flow_table
    count = len(table) + int((table["replication"] != "").sum())
    if count > MOST_CONNECTIONS:
        raise NetreproError(
            f"{count} connections, and there are {MOST_CONNECTIONS} source ports to tell them apart",
            "give fewer flows, or use tier 'simulated'",
        )
    return connections(experiment)


def _room(experiment: Experiment) -> int:
    """Return how many packets of each measured port to make room for; MOST_RECORDED_PACKETS at most."""
    measure = experiment.measure
    rates_mbps = [experiment.topology.link(*port).rate_mbps for port in (*measure.queues, *measure.packets)]
    full_packets = max(rates_mbps, default=0.0) * 1e6 / 8 / FULL_PACKET_BYTES * experiment.duration_s
    return min(int(PACKET_ROOM * full_packets) + 20_000, MOST_RECORDED_PACKETS)


def _queues(experiment: Experiment, seen: RealTimeRecording, interval_ms: float) -> pd.DataFrame:
    """Select the samples that the experiment's `measure` asks for: its ports, its interval, its duration."""
    measure = experiment.measure
    queues = seen.queues()
    every = max(round(measure.queue_interval_ms / interval_ms), 1)
    place = queues.groupby(["source", "destination"], sort=False).cumcount()
    asked = pd.MultiIndex.from_frame(queues[["source", "destination"]]).isin(measure.queues)
    during = (queues["time_s"] >= 0) & (queues["time_s"] <= experiment.duration_s)
    return queues[asked & during & (place % every == 0)].reset_index(drop=True)[QUEUE_COLUMNS]


def _packets(experiment: Experiment, seen: RealTimeRecording, flow_of_end: dict[int, int]) -> pd.DataFrame:
    packets = seen.packets(flow_of_end)
    if "wait_ms" not in packets:
        packets = packets.assign(wait_ms=np.nan)
    asked = pd.MultiIndex.from_frame(packets[["source", "destination"]]).isin(experiment.measure.packets)
    during = (packets["time_s"] >= 0) & (packets["time_s"] <= experiment.duration_s)
    return packets[asked & during].reset_index(drop=True)[PACKET_COLUMNS]


def _fidelity(
    ports: tuple[Port, ...],
    seen: RealTimeRecording,
    lateness: pd.DataFrame,
    waited_share: float,
    latest_change_ms: float,
) -> pd.DataFrame:
    judged = [checks for port in ports if (checks := seen.port_checks(*port)) is not None]
    told = [check for checks in judged for check in checks]
    if not np.isnan(latest_change_ms):
        told.append(Check("lateness of changes of links in ms", latest_change_ms, at_most=MOST_LATE_MS))
    told.append(Check("measured ports that were busy enough to judge", float(len(judged))))
    # A sender without a CPU looks like a slow network, and the checks of ports do not show it. NaN: nobody knows.
    told.append(Check(fidelity.STARVED, waited_share, at_most=None if np.isnan(waited_share) else MOST_WAITED_SHARE))
    told += fidelity.lateness_checks("starts and datagrams", lateness)
    return check_table([*told, *seen.machine_checks()])
