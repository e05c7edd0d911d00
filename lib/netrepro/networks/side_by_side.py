"""Several experiments as parts of one network, each on hosts, switches and links of its own.

On real kernels an experiment takes real time: small ones that have nothing to do with each other may share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain, pairwise, permutations, product

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.links import Link
from netrepro.networks.routing import Path
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Datagrams, PoissonFlows, Requests, Traffic

# The others choose among equals by the switches' order, or by which nodes a search meets first.
_ROUTINGS = ("ecmp", "packet_spraying")
_ENDS = ("source", "destination", "client", "server")
_TABLES = ("flows", "queues", "links", "windows", "packets", "requests")


def side_by_side(experiments: Sequence[Experiment]) -> Experiment:
    """One experiment that is all of these at once: hosts and switches of the second follow those of the first, etc.

    A cable joins the first switch of each part to that of the next, as a network must be connected. Paths are shortest
    or given, so nothing takes it; its rate and delay are those of the slowest link, which every tier has anyway. Flows
    that name no congestion control get that of their part's Tcp. Parts may differ in topology, traffic, changes and
    measured ports; the seed is the first one's, and what is drawn at random (losses, jitter, equal paths) is not what
    a part alone would draw.

    Raises NetreproError for no experiments, for anything else of the whole experiment's in which they differ, and for
    what would not be the same: PoissonFlows, routes that depend on the switches' numbers, a part without a switch,
    cables of one part that break or are mended while another's routes are still to follow.
    """
    _check(experiments)
    first, renamed = experiments[0], _new_names(experiments)
    parts = list(zip(experiments, renamed, strict=True))
    cables = [
        replace(cable, first=names[cable.first], second=names[cable.second])
        for part, names in parts
        for cable in part.topology.cables
    ]
    every = chain.from_iterable(part.topology.ports.values() for part in experiments)
    slowest = min(every, key=lambda link: link.rate_mbps)
    entrances = [names[part.topology.switches[0]] for part, names in parts]
    cables += [Cable(*ends, Link(slowest.rate_mbps, slowest.delay_ms)) for ends in pairwise(entrances)]
    return replace(
        first,
        topology=Topology(tuple(cables), "side by side: " + ", ".join(part.topology.name for part in experiments)),
        traffic=tuple(
            _renamed(entry, names, part.tcp_of(entry).congestion_control)
            for part, names in parts
            for entry in part.traffic
        ),
        measure=replace(
            first.measure,
            queues=tuple((names[a], names[b]) for part, names in parts for a, b in part.measure.queues),
            packets=tuple((names[a], names[b]) for part, names in parts for a, b in part.measure.packets),
        ),
        changes=tuple(
            replace(change, source=names[change.source], destination=names[change.destination])
            for part, names in parts
            for change in part.changes
        ),
    )


def apart(found: Measurements, experiments: Sequence[Experiment]) -> list[Measurements]:
    """What was measured in each of the experiments, as if it had run alone: with its own names and numbers of flows.

    The fidelity is the whole run's for every part. Raises NetreproError unless `found` is of side_by_side(experiments),
    whatever its seed.
    """
    joint = side_by_side(experiments)
    if found.experiment != replace(joint, seed=found.experiment.seed):
        raise NetreproError("measurements of other experiments", "give those that side_by_side was given, in order")
    parts, begin = [], 0
    for experiment, names in zip(experiments, _new_names(experiments), strict=True):
        own = {new: name for name, new in names.items()}
        flows = range(begin, begin + len(experiment.flow_table))
        tables = {name: _rows_of(getattr(found, name), own, flows) for name in _TABLES}
        parts.append(replace(found, experiment=experiment, **tables))
        begin = flows.stop
    return parts


def _rows_of(table: pd.DataFrame, names: Mapping[str, str], flows: range) -> pd.DataFrame:
    ends = [name for name in _ENDS if name in table]
    # Where there are nodes they tell: of a packet it may be unknown whose it is.
    is_own = table[ends].isin(list(names)).all(axis=1) if ends else table["flow"].isin(flows)
    rows = table[is_own].reset_index(drop=True)
    for name in ends:
        rows[name] = rows[name].map(names)
    if "flow" in rows:
        rows["flow"] = rows["flow"].where(rows["flow"] < 0, rows["flow"] - flows.start)
    return rows


def _new_names(experiments: Sequence[Experiment]) -> list[dict[str, str]]:
    """A node's name in its part -> in the whole, for every part; the order of the numbers stays."""
    found, hosts, switches = [], 0, 0
    for topology in (experiment.topology for experiment in experiments):
        names = {host: f"h{hosts + place}" for place, host in enumerate(topology.hosts, 1)}
        names |= {switch: f"s{switches + place}" for place, switch in enumerate(topology.switches, 1)}
        hosts, switches = hosts + len(topology.hosts), switches + len(topology.switches)
        found.append(names)
    return found


def _along(path: Path, names: Mapping[str, str]) -> Path:
    return tuple(names[node] for node in path)


def _renamed(entry: Traffic, names: Mapping[str, str], congestion_control: str) -> Traffic:
    if isinstance(entry, Requests):
        control = entry.congestion_control or congestion_control
        servers = _along(entry.servers, names)
        return replace(entry, client=names[entry.client], servers=servers, congestion_control=control)
    if isinstance(entry, PoissonFlows):
        raise NetreproError("PoissonFlows side by side, which would be other flows", "run that experiment alone")
    entry = replace(entry, source=names[entry.source], destination=names[entry.destination])
    if isinstance(entry, Datagrams):
        return entry
    return replace(
        entry,
        path=_along(entry.path, names),
        subflow_paths=tuple(_along(path, names) for path in entry.subflow_paths),
        congestion_control=entry.congestion_control or congestion_control,
    )


def _of_the_whole(experiment: Experiment) -> dict[str, object]:
    """What parts have in common."""
    found: dict[str, object] = {"duration_s": experiment.duration_s}
    for whole in ("tcp", "routing", "rcp", "measure"):
        held = getattr(experiment, whole)
        found |= {f"{whole}.{field.name}": getattr(held, field.name) for field in fields(held)}
    own = ("tcp.congestion_control", "measure.queues", "measure.packets")
    return {name: value for name, value in found.items() if name not in own}


def _check(experiments: Sequence[Experiment]) -> None:
    if not experiments:
        raise NetreproError("no experiments side by side", "give one or more")
    common, routing = _of_the_whole(experiments[0]), experiments[0].routing
    for experiment in experiments:
        for name, value in _of_the_whole(experiment).items():
            if value != common[name]:
                raise NetreproError(
                    f"experiments side by side with {name} = {common[name]!r} and {value!r}", "give all the same"
                )
        if not experiment.topology.switches:
            raise NetreproError(f"{experiment.topology.name}: no switch to join to others", "run it alone")
    if routing.scheme not in _ROUTINGS or routing.root:
        what = f"{routing.scheme}{f' with root {routing.root}' if routing.root else ''}"
        raise NetreproError(f"experiments side by side with routing {what}", f"give {' or '.join(_ROUTINGS)}, no root")
    if routing.over:
        raise NetreproError("experiments side by side whose routes change by themselves", "run each alone")
    # Routes follow a change with all changes until then, those of other parts too.
    switched = [[change.at_s for change in each.changes if change.up is not None] for each in experiments]
    for one, other in permutations(switched, 2):
        for earlier_s, later_s in product(one, other):
            if earlier_s < later_s <= earlier_s + routing.rerouting_ms / 1e3:
                raise NetreproError(
                    f"cables of experiments side by side that go down or up at {earlier_s:g} s and {later_s:g} s",
                    f"let it be at once, or more than {routing.rerouting_ms:g} ms (rerouting_ms) apart",
                )
