"""Runs an Experiment in virtual time on the compiled simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from inspect import isfunction, signature
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError, nearest
from netrepro.networks.checks import Check, check_table
from netrepro.networks.compiled import (
    ETHERNET_HEADER_BYTES,
    Port,
    header_bytes,
    link_calls,
    link_numbers,
    links_on,
    node_numbers,
    routing_calls,
    tcp_settings,
    within_mtu,
)
from netrepro.networks.description import check_mapping
from netrepro.networks.experiment import MOST_SAMPLES, Experiment, Measurements, check_is_experiment
from netrepro.networks.tables import DELIVERY_COLUMNS, LINK_COLUMNS, PACKET_COLUMNS, QUEUE_COLUMNS, WINDOW_COLUMNS
from netrepro.networks.workloads import (
    CONGESTION_CONTROLS,
    CONTROLS_OF_KERNELS,
    CONTROLS_OF_LINKS,
    OWN_CONTROL_PREFIX,
    REPLICATIONS,
    Datagrams,
    Flow,
    Tcp,
    own_tcp,
)
from netrepro.simulation.own_control import OwnCongestionControl
from netrepro.simulation.own_queue import OwnQueueDiscipline
from netrepro.simulation.parallel import ParallelSimulator, parts_of, warn_of_one_core, why_undivided

# Events between two checks of the progress and of Ctrl-C: a hundredth of a second or so.
EVENTS_AT_A_TIME = 1 << 17
# What `build` makes of the core.
CORE = SimpleNamespace(Simulator=_core.Simulator, LinkSettings=_core.LinkSettings, TcpSettings=_core.TcpSettings)


def simulate(
    experiment: Experiment,
    progress: Callable[[float], None] | None = None,
    *,
    congestion_controls: Mapping[str, type[OwnCongestionControl]] | None = None,
    queues: Mapping[Port, Callable[[], OwnQueueDiscipline]] = MappingProxyType({}),
    start_after: Mapping[int, int] = MappingProxyType({}),
    cores: int | None = None,
) -> Measurements:
    """Run the experiment in virtual time and return its measurements; tier "simulated".

    Parameters
    ----------
    experiment : what to run. The same one gives the same bytes on every machine.
    progress : called with the share of simulated time that has passed, 0 to 1, many times a second.
    congestion_controls : classes of your own by name; names start with "my_". Slow, for teaching: every
        acknowledgement runs Python.
    queues : port -> a class of your own, called without arguments, whose object replaces the link's `queue`. Slow, for
        teaching: every packet runs Python twice.
    start_after : flow -> the flow whose completion starts it, both by their numbers in `flows`; its own start_s is then
        ignored. It may be an answer, or the next step of a program. In the results its start_s is the time at which it
        started; NaN where the other flow was never complete.
    cores : threads that share the work, each with a part of the network. The parts wait for each other each time that
        the least delay of the cables between them has passed. Any number gives the same bytes, 1 too, but not those of
        None: simultaneous events then come in an order that does not depend on the parts, and the ends of a connection
        learn of each other by packets only. It pays for large networks on idle cores: where other work keeps one busy,
        all wait. It warns and takes one core where the network has no such parts of about equal weight. An experiment
        that needs the whole network at once runs as with None: with a class of your own, start_after, Requests,
        subflows, replication, rcp or OptimisticAck.

    Ctrl-C, or an exception from `progress`, ends it at once. In addition to FLOW_COLUMNS, `flows` has
    `connection_attempts` (SYNs sent) of TCP. In addition to WINDOW_COLUMNS, `windows` has `connection`, the number of
    the connection among those of its flow. Retransmissions, timeouts and attempts of a flow count all its connections.

    Raises NetreproError for a congestion control of your own that is not given or that returns no number, for a class
    of your own that lacks a method, for a queue of your own that sends a packet that does not wait, for queues recorded
    at every change, for packets that are larger than a port's mtu_bytes, for too many packets to record, and for a flow
    that waits for itself or for anything but a TCP flow. An exception from a class of your own is passed on, with a
    note of the class and the method.

    Connections open with a SYN and close without FIN; the first data carry the acknowledgement of the SYN-ACK.
    Requests and answers travel on connections of their own, each with its acknowledgements.

    >>> from netrepro.networks import DropTail, Flow, Link, dumbbell
    >>> network = dumbbell(1, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))
    >>> run = simulate(Experiment(network, [Flow("h1", "h2", duration_s=5)], duration_s=5))
    >>> run.flows["goodput_mbps"].round(1).tolist()
    [9.5]
    """
    check_is_experiment(experiment, progress)
    check_mapping("start_after", start_after, "{1: 0}")
    simulator: _core.Simulator | ParallelSimulator
    if cores is not None and _can_divide(experiment, queues, start_after, cores):
        simulator = build_parallel(experiment, cores)
    else:
        simulator = whole = build(experiment, congestion_controls or {}, queues)
        start_flows_after(experiment, whole, start_after)
    while not simulator.run(EVENTS_AT_A_TIME):
        if progress is not None:
            progress(simulator.now_s / experiment.duration_s)
    if progress is not None:
        progress(1.0)
    return measurements(experiment, simulator, start_after)


def build(
    experiment: Experiment,
    own_controls: Mapping[str, type[OwnCongestionControl]] = MappingProxyType({}),
    own_queues: Mapping[Port, Callable[[], OwnQueueDiscipline]] = MappingProxyType({}),
    core: Any = CORE,
) -> _core.Simulator:
    """Build an experiment's simulator, before anything has happened. Raises NetreproError as simulate does.

    core : what makes the simulator, and the settings of links and of TCP.
    """
    check_is_experiment(experiment)
    _check_controls(experiment, own_controls)
    _check_packets(experiment)
    topology = experiment.topology
    number, ports = node_numbers(topology), link_numbers(topology)
    simulator = core.Simulator(
        nodes=len(number),
        seed=experiment.seed,
        duration_s=experiment.duration_s,
        clock_skew=experiment.clock_skew_ppm * 1e-6,
        segment_bytes=within_mtu(experiment.tcp, ipv6=experiment.ipv6).segment_bytes,
        header_bytes=header_bytes(experiment.ipv6) + ETHERNET_HEADER_BYTES,
    )
    for settings, rule, numbers in link_calls(topology, experiment.host_delay_ms):
        simulator.add_link(core.LinkSettings(**settings), rule, numbers)
    check_mapping("queues", own_queues, '{("s1", "s2"): MyQueue}')
    go_down = {port for change in experiment.changes if change.up is False for port in change.links}
    for port, make in own_queues.items():
        if port not in ports:
            raise NetreproError(
                f"queues: no port {port}", f"a port is (from, to); {nearest(str(port), map(str, ports))}"
            )
        simulator.give_queue(ports[port], _own_queue(make, goes_down=port in go_down))
    _add_flows(core, simulator, experiment, number, own_controls)
    table = experiment.flow_table
    answers = table[table["transport"] == "requests"]
    # An entry's answers follow one another.
    for place, first, count in zip(*np.unique(answers["entry"], return_index=True, return_counts=True), strict=True):
        asked = experiment.traffic[place]
        sizes = asked.request_bytes, asked.response_bytes, asked.count
        waits_s = asked.think_ms / 1e3, asked.answer_within_ms / 1e3
        parts = asked.first_bytes or asked.response_bytes, asked.rest_after_ms / 1e3
        simulator.request(answers["flow"].iloc[first], int(count), *sizes, asked.barrier, *waits_s, *parts)
    _route(simulator, experiment)
    measure = experiment.measure
    measure.check_sampled()
    simulator.sample_queues([ports[port] for port in measure.queues], measure.queue_interval_ms / 1e3)
    if measure.windows_interval_ms is not None:
        simulator.sample_windows(measure.windows_interval_ms / 1e3)
    for port in measure.packets:
        simulator.record_departures(ports[port], MOST_SAMPLES)
    for flow in measure.deliveries:
        simulator.record_deliveries(flow)
    simulator.count_since(measure.since_s)
    return simulator


def start_flows_after(experiment: Experiment, simulator: Any, start_after: Mapping[int, int]) -> None:
    """Let flows of a simulator start when others are complete; as in `simulate`, which raises the same errors."""
    _check_start_after(experiment, start_after)
    for flow, earlier in start_after.items():
        simulator.start_after(flow, earlier)


def build_parallel(experiment: Experiment, cores: int) -> ParallelSimulator:
    """Build the simulators of an experiment's parts, before anything has happened."""
    part_of_node, ports = parts_of(experiment, cores), link_numbers(experiment.topology)
    parts = [build(experiment) for _ in range(1 + max(part_of_node))]
    return ParallelSimulator(parts, part_of_node, [ports[port] for port in experiment.measure.queues])


def _can_divide(
    experiment: Experiment,
    own_queues: Mapping[Port, Callable[[], OwnQueueDiscipline]],
    start_after: Mapping[int, int],
    cores: int,
) -> bool:
    if not isinstance(cores, int | np.integer) or cores < 1:
        raise NetreproError(f"cores = {cores!r}", "give a whole number from 1 on, or None")
    because = "a queue in Python" if own_queues else "start_after" if start_after else why_undivided(experiment)
    if because and cores > 1:
        warn_of_one_core(cores, f"{because} needs the whole network at once")
    return not because


def _own_queue(make: Callable[[], OwnQueueDiscipline], *, goes_down: bool) -> OwnQueueDiscipline:
    queue = make() if callable(make) else None
    if not isinstance(queue, OwnQueueDiscipline):
        raise NetreproError(f"queues: {make!r} makes no OwnQueueDiscipline", "give a class that is derived from it")
    needed = ["enqueue", "dequeue", *(["clear"] if goes_down else [])]
    _check_methods(type(queue), OwnQueueDiscipline, needed)
    return queue


def _check_methods(own: type, base: type, needed: Iterable[str]) -> None:
    """Raise NetreproError for a class that lacks a needed method, or whose method cannot take the arguments."""
    for name in needed:
        method, described = getattr(own, name), getattr(base, name)
        takes = list(signature(described).parameters)
        remedy = f"write def {name}({', '.join(takes)})"
        if method is described or not callable(method):
            raise NetreproError(f"{own.__name__} has no method {name}", remedy)
        if isfunction(method) and not _takes(method, takes):
            raise NetreproError(f"{own.__name__}.{name} does not take ({', '.join(takes)})", remedy)


def _takes(function: Callable[..., Any], arguments: Iterable[str]) -> bool:
    try:
        signature(function).bind(*arguments)
    except TypeError:
        return False
    return True


def _add_flows(
    core: Any,
    simulator: _core.Simulator,
    experiment: Experiment,
    number: dict[str, int],
    own_controls: Mapping[str, type[OwnCongestionControl]],
) -> None:
    table = experiment.flow_table
    places, names = pd.factorize(table["congestion_control"])
    spoken, tcps = _tcp_of_flows(experiment)
    simulator.add_flows(
        is_tcp=table["transport"] != "datagrams",
        source=[number[host] for host in table["source"].tolist()],
        destination=[number[host] for host in table["destination"].tolist()],
        start_s=table["start_s"].clip(upper=2 * experiment.duration_s),  # those beyond the end never start
        size_bytes=table["size_bytes"].fillna(0.0),
        duration_s=table["duration_s"].fillna(0.0),
        control=places,
        # Datagrams name none; connections with a control of one's own get that below.
        controls=["reno" if not name or name in own_controls else name for name in names],
        tcp=spoken,
        tcps=[core.TcpSettings(**tcp_settings(tcp)) for tcp in tcps],
        replication=[REPLICATIONS.index(name) for name in table["replication"].tolist()],
        same_path=table["replica_same_path"],
        subflows=table["subflows"],
        rate=table["rate_mbps"].fillna(0.0) * 1e6,
        packet_bytes=table["packet_bytes"],
        poisson=table["spacing"] == "poisson",
    )
    for name, control in own_controls.items():
        for flow in table["flow"][table["congestion_control"] == name]:
            simulator.give_control(flow, control)


def _tcp_of_flows(experiment: Experiment) -> tuple[np.ndarray, list[Tcp]]:
    """Return each flow's place in the list of TCP settings in use, and this list."""
    place = {experiment.tcp: 0}
    of_entries = [
        place.setdefault(experiment.tcp_of(entry), len(place)) if own_tcp(entry) else 0 for entry in experiment.traffic
    ]
    table, mtus = experiment.flow_table, experiment.topology.mtu_of_hosts
    spoken = np.array(of_entries, dtype=int)[table["entry"].to_numpy(dtype=int)]
    if any(mtus.values()) or experiment.ipv6:
        said = list(place)
        for flow, (source, destination) in enumerate(zip(table["source"], table["destination"], strict=True)):
            tcp = within_mtu(said[spoken[flow]], mtus[source], mtus[destination], ipv6=experiment.ipv6)
            spoken[flow] = place.setdefault(tcp, len(place))
    return spoken, list(place)


def _check_start_after(experiment: Experiment, start_after: Mapping[int, int]) -> None:
    """Raise NetreproError for flows that wait for themselves or for anything but a TCP flow."""
    check_mapping("start_after", start_after, "{1: 0}")
    transport = experiment.flow_table["transport"].tolist()
    for flow in {*start_after, *start_after.values()}:
        if not (isinstance(flow, int | np.integer) and 0 <= flow < len(transport) and transport[flow] == "tcp"):
            raise NetreproError(
                f"start_after: {flow!r} is no TCP flow of this experiment",
                f"there are {len(transport)} flows, from 0 on",
            )
    try:
        TopologicalSorter({flow: [earlier] for flow, earlier in start_after.items()}).prepare()
    except CycleError as error:
        first = error.args[1][0]
        raise NetreproError(
            f"start_after: flow {first} waits for itself", "let the first of them wait for none"
        ) from None


def _check_packets(experiment: Experiment) -> None:
    """Raise NetreproError for packets that a port would have to fragment or to refuse."""
    sizes = {port: link.mtu_bytes for port, link in experiment.topology.ports.items() if link.mtu_bytes is not None}
    if not sizes:
        return
    port = min(sizes, key=lambda port: sizes[port])
    for entry in experiment.traffic:
        if isinstance(entry, Datagrams) and entry.packet_bytes - ETHERNET_HEADER_BYTES > sizes[port]:
            raise NetreproError(
                f"Datagrams of {entry.packet_bytes} bytes, and {' to '.join(port)} has mtu_bytes = {sizes[port]}; the "
                "simulator cuts no packets",
                f"give {sizes[port] + ETHERNET_HEADER_BYTES} bytes or less, or use tier 'virtual'",
            )
    # Hosts' own cables limit their segments already.
    inner = [port for port in sizes if port[0][0] == port[1][0] == "s"]
    port = min(inner, key=lambda port: sizes[port], default=port)
    spoken, tcps = _tcp_of_flows(experiment)
    segments = [tcps[place].segment_bytes for place in set(spoken[experiment.flow_table["transport"] != "datagrams"])]
    if inner and max(segments, default=0) + header_bytes(experiment.ipv6) > sizes[port]:
        raise NetreproError(
            f"{' to '.join(port)}: mtu_bytes = {sizes[port]}, and hosts send larger packets; the simulator's find out "
            "about no path",
            f"give their own ports {sizes[port]} too, or use tier 'virtual'",
        )


def _check_controls(experiment: Experiment, own_controls: Mapping[str, type[OwnCongestionControl]]) -> None:
    check_mapping("congestion_controls", own_controls, '{"my_control": MyControl}')
    for name, control in own_controls.items():
        if not str(name).startswith(OWN_CONTROL_PREFIX):
            raise NetreproError(
                f"a congestion control of your own called {name!r}", f"call it {OWN_CONTROL_PREFIX}{name}"
            )
        if not (isinstance(control, type) and issubclass(control, OwnCongestionControl)):
            raise NetreproError(f"{name!r} is no class of congestion controls", "derive it from OwnCongestionControl")
        if isfunction(control.__init__) and not _takes(control.__init__, ["self"]):
            raise NetreproError(f"{control.__name__} is not made without arguments", "give each of them a default")
        _check_methods(control, OwnCongestionControl, ("grow", "threshold_after_loss"))
    table = experiment.flow_table
    for name in CONTROLS_OF_LINKS:
        told = table["congestion_control"] == name
        if (told & (table["subflows"] > 1)).any():
            raise NetreproError(
                f"subflows with {name}, which couples nothing", "give such flows lia, olia or balia, or one subflow"
            )
        if experiment.ipv6 and told.any():
            raise NetreproError(f"{name} over IPv6, whose links reckon with IPv4's headers", "leave ipv6 away")
    for name in table["congestion_control"].unique():
        if name in CONTROLS_OF_KERNELS:
            here = ", ".join(CONGESTION_CONTROLS)
            raise NetreproError(f"the simulator has no congestion control {name!r}", f"there are {here}")
        if name.startswith(OWN_CONTROL_PREFIX) and name not in own_controls:
            remedy = f"give its class to simulate(congestion_controls=...); {nearest(name, own_controls)}"
            raise NetreproError(f"the simulator has no {name}", remedy)


def _route(simulator: _core.Simulator, experiment: Experiment) -> None:
    table, ports = experiment.flow_table, link_numbers(experiment.topology)
    pairs = zip(table["source"], table["destination"], strict=True)
    for method, arguments in routing_calls(experiment.topology, experiment.routing, pairs, experiment.changes):
        getattr(simulator, method)(*arguments)
    for flow, path in enumerate(table["path"].tolist()):
        if path:
            simulator.give_path(flow, 0, links_on(path, ports), links_on(path[::-1], ports))
    entries = table["entry"].to_numpy()
    for flow in np.flatnonzero(table["subflows"] > 1).tolist():
        split = experiment.traffic[entries[flow]]
        for place, path in enumerate(split.subflow_paths if isinstance(split, Flow) else ()):
            simulator.give_path(flow, place, links_on(path, ports), links_on(path[::-1], ports))
    if (table["congestion_control"] == "rcp").any():
        rcp = experiment.rcp
        simulator.offer_rates(rcp.alpha, rcp.beta, rcp.update_ms / 1e3, rcp.first_share)
    if (table["congestion_control"] == "xcp").any():
        xcp = experiment.xcp
        simulator.give_feedback(xcp.alpha, xcp.beta, xcp.gamma)
    for change in experiment.changes:
        for port in change.links:
            delay_s = None if change.delay_ms is None else change.delay_ms / 1e3
            rate = (change.rate_mbps or 0) * 1e6
            simulator.change_link(change.at_s, ports[port], rate, change.up, delay_s, change.loss)


def measurements(
    experiment: Experiment,
    simulator: Any,
    start_after: Mapping[int, int] = MappingProxyType({}),
) -> Measurements:
    """Return what the experiment's simulator has measured so far. start_after : as in `simulate`.

    simulator : one of the core's, or any other object with its columns.
    """
    # Columns are converted before they become tables: pandas takes longer for a short one than a short run lasts.
    sources, destinations = (np.array(ends) for ends in zip(*experiment.topology.ports, strict=True))
    since_s = experiment.measure.since_s
    before = simulator.counted_before() if since_s else ({}, {})
    counts = (name for name in LINK_COLUMNS if name.endswith(("_packets", "_bytes")))
    links = _whole(_without(simulator.links(), before[1]), *counts)
    utilisation = links["busy_s"] / (experiment.duration_s - since_s)
    links |= dict(source=sources, destination=destinations, utilisation=utilisation)

    queues = _whole(simulator.queue_samples(), "link", "queue_packets", "queue_bytes")
    queues |= dict(source=sources[queues["link"]], destination=destinations[queues["link"]])

    windows = _whole(simulator.window_samples(), "flow", "connection")
    spoken, tcps = _tcp_of_flows(experiment)
    # Connections of programs are numbered after the flows, and have the experiment's TCP settings.
    speech = np.append(spoken, 0)[np.minimum(windows["flow"], len(spoken))]
    segment = np.array([tcp.segment_bytes for tcp in tcps])[speech]
    threshold, round_trip_s = "threshold_segments", windows["round_trip_s"]
    windows |= dict(
        window_bytes=windows["window_segments"] * segment,
        in_flight_bytes=windows["in_flight_segments"] * segment,
        slow_start_threshold_bytes=np.where(windows[threshold] < 1e17, windows[threshold], np.inf) * segment,
        round_trip_ms=np.where(round_trip_s > 0, round_trip_s, np.nan) * 1e3,
    )
    return Measurements(
        experiment=experiment,
        tier="simulated",
        flows=_flows(experiment, _without(simulator.flows(), before[0]), start_after),
        queues=_table(queues, QUEUE_COLUMNS),
        links=_table(links, LINK_COLUMNS),
        windows=_table(windows, [*WINDOW_COLUMNS, "connection"]),
        packets=_packets(experiment, simulator),
        fidelity=experiment.with_late_flows(_fidelity(simulator)),
        requests=experiment.request_results(pd.DataFrame(_whole(simulator.requests(), "flow", "request"))),
        deliveries=_table(_whole(simulator.deliveries(), "flow", "delivered_bytes"), DELIVERY_COLUMNS),
    )


def _without(columns: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns without what was counted before; times stay as they are."""
    return {
        name: column - before[name] if name in before and name not in ("completion_s", "connected_s") else column
        for name, column in columns.items()
    }


def _whole(columns: Mapping[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    """Return the columns, the named ones as integers; the core's counts are not copied."""
    return {
        name: column if name not in names else column.view(int) if column.dtype == np.uint64 else column.astype(int)
        for name, column in columns.items()
    }


def _table(columns: Mapping[str, np.ndarray], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: columns[name] for name in names})


def _flows(experiment: Experiment, measured: Mapping[str, np.ndarray], start_after: Mapping[int, int]) -> pd.DataFrame:
    counts = "delivered_bytes", "retransmitted_packets", "timeouts", "connection_attempts", "bytes_within_duration"
    flows = pd.DataFrame(_whole(measured, *counts), copy=False)
    flows = flows.iloc[: len(experiment.flow_table)]  # others: of programs
    if start_after:
        start_s = experiment.flow_table["start_s"].to_numpy(dtype=float, copy=True)
        start_s[list(start_after)] = flows["completion_s"].to_numpy()[list(start_after.values())]
        flows = flows.assign(start_s=start_s)
    return experiment.flow_results(flows)


def _packets(experiment: Experiment, simulator: _core.Simulator | ParallelSimulator) -> pd.DataFrame:
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


def _fidelity(simulator: _core.Simulator | ParallelSimulator) -> pd.DataFrame:
    """Check that every packet that was created is accounted for."""
    account = simulator.account
    ended = account["delivered"] + account["dropped"] + account["lost"] + account["inside"]
    missing = account["created"] - ended
    return check_table([Check("packets unaccounted for", float(missing), at_least=0.0, at_most=0.0)])
