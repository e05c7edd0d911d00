"""Runs an Experiment on the virtual kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity, messages
from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.plan import HUB
from netrepro.emulation.recording import folder_for_captures, pcap_header
from netrepro.emulation.source_routes import connections
from netrepro.emulation.traffic import TrafficDescription
from netrepro.emulation.virtual.deliveries import last_links, streams
from netrepro.emulation.virtual.events import Events
from netrepro.emulation.virtual.instance import MEMORY_MB, Instance, batched, batched_by_node
from netrepro.emulation.virtual.kernel import congestion_controls, modules_for
from netrepro.emulation.virtual.multipath import tell_path_managers
from netrepro.emulation.virtual.plan import (
    CAPTURED_BYTES,
    UP,
    WHOLE,
    PortLine,
    VirtualPlan,
    make_virtual_plan,
    new_line,
    queues_of_modules,
)
from netrepro.emulation.virtual.speech import OF_MODULE, Speech, speech_of
from netrepro.errors import NetreproError
from netrepro.files import whole_file
from netrepro.networks.checks import Check, check_table
from netrepro.networks.description import check_mapping, check_not_negative
from netrepro.networks.experiment import Experiment, Measurements, Port, check_is_experiment
from netrepro.networks.queues import OwnQueue
from netrepro.networks.routing import LinkChange, links_in_use
from netrepro.networks.tables import HOST_COLUMNS, WINDOW_COLUMNS
from netrepro.networks.workloads import CONTROLS_OF_THE_SIMULATOR, OWN_CONTROL_PREFIX, Tcp

# Fixed before any run; it is strict, because this kernel's clock jumps straight to the next event.
LEAST_SHARE_WITHIN_1_PERCENT = 0.99
MOST_ENDS = 4  # pairs of hosts that an error names
PCAP_HEADER = pcap_header(CAPTURED_BYTES)


def emulate_virtually(
    experiment: Experiment,
    progress: Callable[[float], None] | None = None,
    *,
    captures: str | os.PathLike[str] | None = None,
    until_complete: bool = False,
    patience_s: float = 120.0,
    modules: Mapping[str, str | Path] | None = None,
    events: str | os.PathLike[str] | None = None,
) -> Measurements:
    """Run the experiment in the virtual kernel and return its measurements, as `emulate` does; tier "virtual".

    The same experiment gives the same bytes. patience_s : the longest real time (s) in which virtual time may take to
    advance by a hundredth of the experiment's duration. modules : name of a congestion control or of
    an OwnQueue -> its C code, as a file or a text; it is compiled as a module and loaded. Names start with "my_".
    events : a file to which the events at the measured ports are written, in the format of `virtual.events`.

    Raises NetreproError before the kernel starts for what it cannot do and for a kernel that is not built; later for a
    kernel that ends, with its last lines, and for one whose time stands still.
    """
    check_is_experiment(experiment, progress)
    check_mapping("modules", modules or {}, '{"my_control": "my_control.c"}')
    check_not_negative(patience_s, "patience_s")
    if events is not None and not Path(events).parent.is_dir():
        raise NetreproError(f"no folder {Path(events).parent} for events", "make it first")
    made = connections(experiment)
    speech = speech_of(experiment, made)
    controls = _controls(speech, modules or {})
    _check_policers(experiment)
    loaded = modules_for(controls | _queues_of_modules(experiment, modules or {}), modules or {})
    folder = folder_for_captures(captures)
    measure = experiment.measure
    ends = {flow: last_links(experiment, flow) for flow in measure.deliveries}
    ports = tuple(dict.fromkeys((*measure.queues, *measure.packets)))
    captured = dict.fromkeys((*(measure.packets if folder else ()), *(port for both in ends.values() for port in both)))
    with ExitStack() as undone:
        recorded = undone.enter_context(tempfile.TemporaryFile())
        files = {port: undone.enter_context(tempfile.TemporaryFile()) for port in captured}
        for file in files.values():
            file.write(PCAP_HEADER)
            file.flush()
        descriptors = [recorded.fileno(), *(file.fileno() for file in files.values())]
        instance = Instance(experiment.seed, descriptors, patience_s, _memory_mb(experiment))
        undone.callback(instance.close)
        plan = make_virtual_plan(
            experiment.topology,
            experiment.seed,
            speech.tcp,
            experiment.routing,
            sorted({path for each in made for path in each.paths}),
            tcp_of_hosts=speech.tcp_of_hosts,
            skew_ppm=experiment.clock_skew_ppm,
            events=recorded.fileno(),
            recorded=frozenset(ports),
            captures={port: file.fileno() for port, file in files.items()},
            host_delay_ms=experiment.host_delay_ms,
            has_seeds=release_numbers(instance.kernel) >= (6, 11),
            ipv6=experiment.ipv6,
        )
        instance.load(loaded)
        build(instance, plan, whole_settings(speech.tcp, controls))
        tell_path_managers(instance, plan, made)
        settled_bytes = _settled_bytes(instance, plan, recorded.fileno())
        policed_before = policed_packets(instance, plan)
        traffic = TrafficDescription(
            experiment,
            made,
            plan,
            until_complete,
            kinds=speech.kinds,
            kind_of_flow=speech.kind_of_flow,
            control_of_flow=speech.control_of_flow,
        )
        answer = instance.order(
            "traffic",
            progress,
            _who_sends(experiment),
            core=traffic.core,
            arguments=traffic.arguments,
            shared_bytes=traffic.shared_bytes,
            changes=_changes(plan, experiment),
            tells=True,
        )
        instance.order("change", requests=batched_by_node(plan.reports()))
        # Only now, because a little time passes while they are read.
        counted = instance.order("totals", hosts=list(experiment.topology.hosts))
        policed = policed_packets(instance, plan) - policed_before
        instance.close()
        undone.pop_all()
        with recorded, ExitStack() as closed:
            for file in files.values():
                closed.enter_context(file)
            recorded.seek(0)
            seen_bytes = recorded.read()
            if events is not None:
                with whole_file(Path(events)) as part:
                    part.write_bytes(seen_bytes)
            content = {}
            for port, file in files.items():
                file.seek(0)
                content[port] = file.read()
            for port in measure.packets if folder else ():
                with whole_file(folder / f"{'-'.join(port)}.pcap") as part:  # type: ignore[operator]
                    part.write_bytes(content[port])
    shared, samples = answer["contents"]
    result = traffic.result(shared, samples)
    began_ns = result.began_ns - (answer["realtime_ns"] - answer["monotonic_ns"])
    before, seen = (
        Events(part, list(plan.ports), began_ns) for part in (seen_bytes[:settled_bytes], seen_bytes[settled_bytes:])
    )
    lasted_s = result.lasted_s if until_complete else experiment.duration_s
    counted_before = seen.totals(first=True) if measure.since_s else before.totals()
    deliveries, acknowledgements = streams(experiment, ends, content, result.began_ns)
    if progress is not None:
        progress(1.0)
    return Measurements(
        experiment=experiment,
        tier="virtual",
        flows=experiment.flow_results(result.flows),
        queues=(
            seen.sampled(measure.queues, measure.queue_interval_ms / 1e3, lasted_s)
            if measure.queue_interval_ms
            else seen.queues(measure.queues, lasted_s)
        ),
        links=seen.links(lasted_s - measure.since_s, counted_before, policed),
        windows=result.windows[[*WINDOW_COLUMNS, "connection"]],
        packets=seen.packets(measure.packets, traffic.flow_of_end(), experiment.duration_s),
        fidelity=experiment.with_late_flows(_fidelity(experiment, plan, seen, ports, result.lateness, instance.kernel)),
        requests=experiment.request_results(result.answers),
        kernel=instance.kernel,
        hosts=_host_totals(counted["names"], counted["totals"]),
        deliveries=deliveries,
        acknowledgements=acknowledgements,
    )


def _host_totals(names: list[str], totals: Mapping[str, list[int]]) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(totals, orient="index", columns=names)
    return table.rename_axis(HOST_COLUMNS[0]).reset_index()


def check_virtually(experiment: Experiment) -> None:
    """Raise NetreproError for an experiment that the virtual kernel cannot run, as emulate_virtually; start nothing."""
    made = connections(experiment)
    speech = speech_of(experiment, made)
    _controls(speech, {})
    _queues_of_modules(experiment, {})
    _check_policers(experiment)
    paths = sorted({path for each in made for path in each.paths})
    make_virtual_plan(experiment.topology, experiment.seed, speech.tcp, experiment.routing, paths, ipv6=experiment.ipv6)


def build(instance: Instance, plan: VirtualPlan, whole: Mapping[str, str], named: bool = False) -> None:
    """Build the plan's network in the instance. whole : file -> content, settings of the whole kernel. named : True to
    give each node its name as host name, and to let programs look up all nodes' names."""
    instance.order(
        "build",
        whole=dict(whole),
        nodes={node: plan.descriptor(node) for node in plan.nodes},
        sysctls=plan.sysctls,
        owner=HUB,
        cables=batched(plan.cables),
        interfaces=len(plan.ports),
        requests=batched_by_node(plan.requests),
        host_names={node: str(address) for node, address in plan.addresses.items()} if named else {},
    )


def policed_packets(instance: Instance, plan: VirtualPlan) -> np.ndarray:
    """Count the packets that each port's policer has dropped since it was built, in the order of the plan's ports."""
    if not plan.policed:
        return np.zeros(len(plan.ports), np.int64)
    dropped = {node: iter(each) for node, each in instance.order("policed", ports=plan.policed)["dropped"].items()}
    ports = plan.ports.values()
    return np.array([next(dropped[port.source]) if port.link.policer else 0 for port in ports], np.int64)


def _settled_bytes(instance: Instance, plan: VirtualPlan, events: int) -> int:
    """Return the size in bytes of the events from before the traffic; 0 without IPv6.

    IPv6 routers tell their neighbours to which multicast groups they listen (MLD). IPv4 routers send nothing.
    """
    if not plan.ipv6:
        return 0
    instance.order("change", requests=batched_by_node(plan.reports()))
    return os.fstat(events).st_size


def whole_settings(tcp: Tcp | None, controls: Collection[str] = ()) -> dict[str, str]:
    """Map file -> content, settings of the whole kernel: high limits, and switches of TCP that all hosts share.

    controls : congestion controls; the switches of the modules of SUSS and Prague are included where one is used.
    """
    tcp = tcp or Tcp()
    suss = {
        "fourfold_rounds": tcp.suss_rounds,
        "guards": tcp.suss_guard,
        "paces": tcp.suss_pacing,
        "hystart": tcp.hystart,
        "rounds_from_start": tcp.hystart_rounds_from_start,
    }
    of_suss = {f"/sys/module/tcp_suss/parameters/{name}": str(int(value)) for name, value in suss.items()}
    prague = {
        "alpha_on_init": round(1024 * tcp.dctcp_alpha),
        "virtual_round_trip_us": round(1e3 * tcp.prague_round_trip_ms),
        "rounds_before": tcp.prague_rounds,
    }
    of_prague = {f"/sys/module/tcp_prague/parameters/{name}": str(value) for name, value in prague.items()}
    return (
        WHOLE
        | (of_suss if OF_MODULE & set(controls) else {})
        | (of_prague if "prague" in controls else {})
        | {
            "/sys/module/tcp_cubic/parameters/hystart": str(int(tcp.hystart)),
            "/sys/module/tcp_dctcp/parameters/dctcp_alpha_on_init": str(round(1024 * tcp.dctcp_alpha)),
        }
    )


def _memory_mb(experiment: Experiment) -> int:
    """Return the kernel's memory (MB): more for many flows, whose packets are in flight and in queues."""
    return MEMORY_MB if len(experiment.flow_table) < 2000 else 4 * MEMORY_MB


def release_numbers(release: str) -> tuple[int, ...]:
    """Split a kernel release into numbers: (6, 12, 3) for 6.12.3-netrepro."""
    return tuple(int(part) for part in release.partition("-")[0].split("."))


def _who_sends(experiment: Experiment) -> str:
    """Return the first MOST_ENDS pairs of hosts that have flows, in words for errors."""
    ends = experiment.flow_table[["source", "destination"]].drop_duplicates()
    named = [f"{source} to {destination}" for source, destination in ends.head(MOST_ENDS).itertuples(index=False)]
    more = len(ends) - len(named)
    return f"from {', '.join(named)}{f' and {more} other pairs' if more else ''}" if named else ""


def _controls(speech: Speech, modules: Mapping[str, str | Path]) -> set[str]:
    """Return the congestion controls of the flows. Raises NetreproError for one that the kernel does not have."""
    wanted, there = set(speech.control_of_flow) - {""}, congestion_controls() | set(modules)
    for name in sorted(wanted - there):
        own = f"give its C in modules={{{name!r}: ...}}, or " if name.startswith(OWN_CONTROL_PREFIX) else ""
        simulated = "use tier 'simulated', which alone has it, or " if name in CONTROLS_OF_THE_SIMULATOR else ""
        remedy = f"{own}{simulated}use {', '.join(sorted(there))}"
        raise NetreproError(f"the virtual kernel has no {name}", remedy)
    return wanted


def _check_policers(experiment: Experiment) -> None:
    """Raise NetreproError for policers in a run whose beginning does not count: their drops are read at the ends."""
    if experiment.measure.since_s and any(link.policer for link in experiment.topology.ports.values()):
        raise NetreproError(
            "since_s and a policer in the virtual kernel, which tells its drops only of the whole run",
            "use tier 'simulated', or leave since_s away",
        )


def _queues_of_modules(experiment: Experiment, modules: Mapping[str, str | Path]) -> set[str]:
    """Return the names of the links' queues that modules hold.

    Raises NetreproError for an OwnQueue without C code in `modules`.
    """
    links = experiment.topology.ports.values()
    own = {link.queue.name for link in links if isinstance(link.queue, OwnQueue)}
    for name in sorted(own - set(modules)):
        raise NetreproError(f"a queue {name} of one's own, and not its C", f"give modules={{{name!r}: ...}}")
    return own | queues_of_modules(experiment.topology)


@dataclass
class _Moment:
    at_s: float
    requests: dict[str, list[NetlinkRequest]]


def changed_line(line: PortLine, change: LinkChange, clock_factor: float) -> PortLine:
    """Return the line after the change. clock_factor : the line's rate over the link's rate."""
    line = replace(line, link=change.on_wire(line.link))
    if change.rate_mbps is not None:
        line = line.with_rate(change.rate_mbps * clock_factor)
    if change.up is not None:
        line = line.with_flags(line.flags | UP if change.up else line.flags & ~UP)
    return line


def _changes(plan: VirtualPlan, experiment: Experiment) -> list[tuple[float, dict[str, Any]]]:
    """List the changes of links and routes in the format of `guest.Guest.traffic`: (time in s, messages by node)."""
    moments: list[_Moment] = []
    since_s = experiment.measure.since_s
    lines, settled = dict(plan.lines), dict(plan.lines)
    for change in sorted(experiment.changes, key=lambda change: change.at_s):
        moment = _Moment(change.at_s, {})
        for port in change.links:
            line = lines[port] = changed_line(lines[port], change, plan.clock_factors[port])
            place, index = plan.ports[port].shaper
            moment.requests.setdefault(place, []).append(messages.replacing(new_line(index, line)))
        moments.append(moment)
        if change.at_s <= since_s:
            settled = dict(lines)
    before = plan.routes_over(plan.in_use)
    for at_s, in_use in links_in_use(experiment.topology, experiment.routing, experiment.changes)[1:]:
        moment = _Moment(at_s, {})
        for node, routes in plan.routes_over(in_use).items():
            changed = {to: route for to, route in routes.items() if before[node].get(to) != route}
            before[node] |= changed
            if changed:
                moment.requests[node] = [messages.replacing(route) for route in changed.values()]
        moments.append(moment)
    if since_s:  # after changes of the same time, because a report says again how a line is set
        moments.append(_Moment(since_s, plan.reports(settled)))
    return [(each.at_s, batched_by_node(each.requests)) for each in sorted(moments, key=lambda each: each.at_s)]


def _fidelity(
    experiment: Experiment,
    plan: VirtualPlan,
    seen: Events,
    ports: tuple[Port, ...],
    lateness: pd.DataFrame,
    kernel: str,
) -> pd.DataFrame:
    """Check that busy ports kept their rate, by the times at which the kernel handled their packets.

    A queue that holds packets back says nothing of when its link was busy.
    """
    of_ports: list[Check] = []
    told, judged = [Check(f"tier virtual, kernel {kernel}", float("nan"))], 0
    for port in ports:
        if experiment.topology.link(*port).queue.holds_back:
            continue
        deviation = seen.deviation(port, _rates(experiment, plan, port))
        if len(deviation.deviation) < fidelity.LEAST_BUSY_GAPS:
            continue
        judged += 1
        of_ports += fidelity.port_checks(deviation, " to ".join(port))
        share, name = float(np.mean(deviation.deviation <= 0.01)), f"{' to '.join(port)}: gaps within 1 %"
        told.append(Check(f"{name}, in virtual time", share, at_least=LEAST_SHARE_WITHIN_1_PERCENT))
    told.append(Check("measured ports that were busy enough to judge", float(judged)))
    told += fidelity.lateness_checks("starts and datagrams", lateness)
    return check_table([*of_ports, *told])


def _rates(experiment: Experiment, plan: VirtualPlan, port: Port) -> list[fidelity.Interval]:
    """List the port's rates by its own clock, with their intervals; going down or up also begins a new interval."""
    factor = plan.clock_factors[port]
    first = rate_mbps = experiment.topology.link(*port).rate_mbps
    changes = []
    for change in sorted(experiment.changes, key=lambda change: change.at_s):
        if port in change.links:
            rate_mbps = change.rate_mbps or rate_mbps
            changes.append(fidelity.Interval(change.at_s, change.at_s, rate_mbps * factor))
    return fidelity.intervals(first * factor, changes)
