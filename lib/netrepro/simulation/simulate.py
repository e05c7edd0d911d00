"""Runs an Experiment in virtual time on the compiled simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks.experiment import (
    FIDELITY_COLUMNS,
    FLOW_COLUMNS,
    LINK_COLUMNS,
    PACKET_COLUMNS,
    QUEUE_COLUMNS,
    REQUEST_COLUMNS,
    WINDOW_COLUMNS,
    Experiment,
    Measurements,
)
from netrepro.networks.links import (
    FULL_PACKET_BYTES,
    CoDel,
    DropTail,
    EcnThreshold,
    Link,
    PhantomQueue,
    Pie,
    Red,
    SharedBuffer,
)
from netrepro.networks.workloads import Flow

SIMULATED_CONGESTION_CONTROLS = ("reno", "cubic", "dctcp", "lia", "olia")
# Between two looks at the progress and at Ctrl-C: a hundredth of a second or so.
EVENTS_AT_A_TIME = 1 << 17
# Packets of its own that a host lets wait at its port, as TCP small queues do; more wait in the sockets.
OWN_PACKETS_AT_PORT = 4


def simulate(
    experiment: Experiment,
    progress: Callable[[float], None] | None = None,
    *,
    clock_skew_ppm: float = 100.0,
) -> Measurements:
    """Run the experiment in virtual time and return what it measured; tier "simulated".

    Parameters
    ----------
    experiment : what to run. The same one gives the same bytes on every machine.
    progress : called with the share of simulated time that has passed, 0 to 1, many times a second.
    clock_skew_ppm : every link's rate is off by a factor drawn evenly from 1 +- this many parts per million. With 0
        all clocks are identical, as on no real network, and two flows may lock each other out of a queue.

    Ctrl-C, or an exception from `progress`, ends it at once. Beside FLOW_COLUMNS, `flows` has
    `connection_attempts` (SYNs sent) of TCP, and beside WINDOW_COLUMNS `windows` has `connection`, the number of the
    window among those of its flow. Retransmissions, timeouts and attempts of a flow are those of all its connections.
    Raises NetreproError for what the simulator cannot do: a congestion control that it lacks.

    Connections open with a SYN and close without FIN; the acknowledgement of the SYN-ACK rides on the first data.
    Requests and answers travel on connections of their own, each with its acknowledgements.
    """
    if not 0 <= clock_skew_ppm < 1e6:
        raise NetreproError(f"clock_skew_ppm = {clock_skew_ppm}", "give parts per million, 0 to below 1,000,000")
    _check_supported(experiment)
    simulator = _build(experiment, clock_skew_ppm)
    while not simulator.run(EVENTS_AT_A_TIME):
        if progress is not None:
            progress(simulator.now_s / experiment.duration_s)
    if progress is not None:
        progress(1.0)
    return _measurements(experiment, simulator)


def _check_supported(experiment: Experiment) -> None:
    lacking = [f"the routing {experiment.routing.scheme}"] if experiment.routing.scheme != "ecmp" else []
    lacking += ["changes of links"] if experiment.changes else []
    lacking += ["paths of flows"] if any(isinstance(entry, Flow) and entry.path for entry in experiment.traffic) else []
    for link in experiment.topology.ports.values():
        lacking += ["reordering"] if link.reordering else []
        lacking += [type(link.queue).__name__] if isinstance(link.queue, (Pie, PhantomQueue, SharedBuffer)) else []
    if lacking:
        raise NetreproError(f"the simulator has no {lacking[0]} yet", "leave it away")


def _build(experiment: Experiment, clock_skew_ppm: float) -> _core.Simulator:
    _refuse_what_is_not_there(experiment)
    topology, tcp = experiment.topology, experiment.tcp
    number = {name: i for i, name in enumerate((*topology.hosts, *topology.switches))}
    simulator = _core.Simulator(
        nodes=len(number),
        seed=experiment.seed,
        duration_s=experiment.duration_s,
        clock_skew=clock_skew_ppm * 1e-6,
        segment_bytes=tcp.segment_bytes,
        initial_window_segments=float(tcp.initial_window_segments),
        receive_window_bytes=tcp.receive_window_bytes,
        minimum_timeout_s=tcp.min_rto_ms / 1e3,
        initial_timeout_s=tcp.initial_rto_ms / 1e3,
        acknowledgement_delay_s=tcp.delayed_ack_ms / 1e3,
        selective=tcp.sack,
        tail_loss_probe=tcp.tail_loss_probe,
        ecn=tcp.ecn,
        dctcp_first_alpha=tcp.dctcp_alpha,
        slow_start_after_idle=tcp.slow_start_after_idle,
        hystart=tcp.hystart,
        opportunistic_retransmission=tcp.opportunistic_retransmission,
        penalisation=tcp.penalisation,
    )
    for (source, destination), link in topology.ports.items():
        _add_link(simulator, number[source], number[destination], link)
    ports = {port: i for i, port in enumerate(topology.ports)}
    for row in experiment.flow_table.itertuples():
        ends = number[row.source], number[row.destination]
        if row.transport == "datagrams":
            simulator.add_datagrams(
                *ends, row.start_s, row.duration_s, row.rate_mbps * 1e6, row.packet_bytes, row.spacing == "poisson"
            )
            continue
        if row.congestion_control not in SIMULATED_CONGESTION_CONTROLS:
            raise NetreproError(
                f"the simulator has no {row.congestion_control}",
                f"use {', '.join(SIMULATED_CONGESTION_CONTROLS)}, or another tier",
            )
        has_size = not np.isnan(row.size_bytes)
        size_bytes, duration_s = (int(row.size_bytes), 0.0) if has_size else (0, row.duration_s)
        simulator.add_tcp(*ends, row.start_s, size_bytes, duration_s, row.congestion_control)
        if row.replication:
            simulator.replicate(row.flow, row.replication, row.replica_same_path)
        elif row.subflows > 1:
            simulator.split(row.flow, row.subflows)
    for place, answers in experiment.flow_table.query("transport == 'requests'").groupby("entry"):
        asked = experiment.traffic[place]
        sizes = asked.request_bytes, asked.response_bytes, asked.count
        simulator.request(answers["flow"].iloc[0], len(answers), *sizes, asked.barrier, asked.think_ms / 1e3)
    measure = experiment.measure
    simulator.sample_queues([ports[port] for port in measure.queues], measure.queue_interval_ms / 1e3)
    if measure.windows_interval_ms is not None:
        simulator.sample_windows(measure.windows_interval_ms / 1e3)
    for port in measure.packets:
        simulator.record_departures(ports[port])
    return simulator


def _refuse_what_is_not_there(experiment: Experiment) -> None:
    tcp = experiment.tcp
    lacking = {
        "pacing": tcp.pacing,
    }
    for name, asked in lacking.items():
        if asked:
            raise NetreproError(f"the simulator has no {name} yet", "leave it out")


def _add_link(simulator: _core.Simulator, source: int, destination: int, link: Link) -> None:
    queue = link.queue
    bytes_limit = queue.bytes if isinstance(queue, (DropTail, SharedBuffer)) else None
    packets_limit = None if isinstance(queue, SharedBuffer) else queue.packets
    limit_packets = packets_limit or (bytes_limit or 0) // FULL_PACKET_BYTES
    settings = _core.LinkSettings(
        source=source,
        destination=destination,
        rate=link.rate_mbps * 1e6,
        delay_s=link.delay_ms / 1e3,
        jitter_s=link.jitter_ms / 1e3,
        loss=link.loss,
        room=min(OWN_PACKETS_AT_PORT, limit_packets),
    )
    match queue:
        case DropTail():
            simulator.add_drop_tail(settings, queue.packets or 0, bytes_limit or 0)
        case EcnThreshold():
            simulator.add_ecn_threshold(settings, queue.packets, queue.threshold_packets)
        case Red():
            thresholds = queue.min_threshold_packets, queue.max_threshold_packets
            simulator.add_red(settings, queue.packets, *thresholds, queue.max_probability, queue.weight, queue.ecn)
        case CoDel():
            simulator.add_codel(settings, queue.packets, queue.target_ms / 1e3, queue.interval_ms / 1e3, queue.ecn)


def _measurements(experiment: Experiment, simulator: _core.Simulator) -> Measurements:
    sources, destinations = (np.array(ends) for ends in zip(*experiment.topology.ports, strict=True))
    links = pd.DataFrame(simulator.links())
    links["utilisation"] = links["busy_s"] / experiment.duration_s
    counts = [name for name in LINK_COLUMNS if name.endswith(("_packets", "_bytes"))]
    links = links.astype(dict.fromkeys(counts, int)).assign(source=sources, destination=destinations)

    queues = pd.DataFrame(simulator.queue_samples())
    sampled = queues["link"].astype(int)
    queues = queues.assign(source=sources[sampled], destination=destinations[sampled])
    queues = queues.astype({"queue_packets": int, "queue_bytes": int})

    windows = pd.DataFrame(simulator.window_samples())
    segment = experiment.tcp.segment_bytes
    threshold = windows["threshold_segments"].where(windows["threshold_segments"] < 1e17, np.inf)
    windows = windows.astype({"flow": int, "connection": int}).assign(
        window_bytes=windows["window_segments"] * segment,
        slow_start_threshold_bytes=threshold * segment,
        round_trip_ms=windows["round_trip_s"].where(windows["round_trip_s"] > 0) * 1e3,
    )
    return Measurements(
        experiment=experiment,
        tier="simulated",
        flows=_flows(experiment, simulator),
        queues=queues[QUEUE_COLUMNS],
        links=links[LINK_COLUMNS],
        windows=windows[[*WINDOW_COLUMNS, "connection"]],
        packets=_packets(experiment, simulator),
        fidelity=_fidelity(simulator),
        requests=_requests(experiment, simulator),
    )


def _flows(experiment: Experiment, simulator: _core.Simulator) -> pd.DataFrame:
    flows = pd.concat([experiment.flow_table[FLOW_COLUMNS[:9]], pd.DataFrame(simulator.flows())], axis=1)
    counts = ["delivered_bytes", "retransmitted_packets", "timeouts", "connection_attempts"]
    flows = flows.astype(dict.fromkeys(counts, int))
    flows["completion_ms"] = (flows["completion_s"] - flows["start_s"]) * 1e3
    until_s = flows["completion_s"].fillna(
        np.minimum(flows["start_s"] + flows["duration_s"].fillna(np.inf), experiment.duration_s)
    )
    lasted_s = until_s - flows["start_s"]
    flows["goodput_mbps"] = (flows["delivered_bytes"] * 8 / 1e6 / lasted_s).where(lasted_s > 0, 0.0)
    return flows[[*FLOW_COLUMNS, "connection_attempts"]]


def _requests(experiment: Experiment, simulator: _core.Simulator) -> pd.DataFrame:
    requests = pd.DataFrame(simulator.requests()).astype({"flow": int, "request": int})
    answers = experiment.flow_table[["flow", "label", "source", "destination"]]
    requests = requests.merge(answers.rename(columns={"source": "server", "destination": "client"}), on="flow")
    requests["completion_ms"] = (requests["answered_s"] - requests["asked_s"]) * 1e3
    return requests[REQUEST_COLUMNS]


def _packets(experiment: Experiment, simulator: _core.Simulator) -> pd.DataFrame:
    ports = {port: i for i, port in enumerate(experiment.topology.ports)}
    tables = [
        pd.DataFrame(simulator.departures(ports[port])).assign(source=port[0], destination=port[1])
        for port in experiment.measure.packets
    ]
    if not tables:
        return pd.DataFrame(columns=PACKET_COLUMNS)
    packets = pd.concat(tables, ignore_index=True).astype({"flow": int, "size_bytes": int})
    packets["wait_ms"] = packets["wait_s"] * 1e3
    return packets[PACKET_COLUMNS]


def _fidelity(simulator: _core.Simulator) -> pd.DataFrame:
    """Every packet that was made must be somewhere."""
    account = simulator.account
    ended = account["delivered"] + account["dropped"] + account["lost"] + account["inside"]
    missing = account["created"] - ended
    return pd.DataFrame([("packets unaccounted for", float(missing), 0.0, missing == 0)], columns=FIDELITY_COLUMNS)
