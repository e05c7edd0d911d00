"""One simulation on several cores: which experiments can be divided, and the joint measurements of the parts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netrepro import _core
from netrepro.networks.compiled import node_numbers
from netrepro.networks.experiment import Experiment
from netrepro.networks.partition import partition
from netrepro.networks.receivers import OptimisticAck
from netrepro.networks.workloads import OWN_CONTROL_PREFIX, own_tcp

Columns = dict[str, np.ndarray]


def why_undivided(experiment: Experiment) -> str | None:
    """Say what in the experiment's traffic needs the whole network at once, None where nothing does."""
    table = experiment.flow_table
    controls = table["congestion_control"]
    spoken = [experiment.tcp, *(experiment.tcp_of(entry) for entry in experiment.traffic if own_tcp(entry))]
    reasons = {
        "Requests": (table["transport"] == "requests").any(),
        "replicated flows": (table["replication"] != "").any(),
        "subflows": (table["subflows"] > 1).any(),
        "rcp": (controls == "rcp").any(),
        "xcp": (controls == "xcp").any(),
        "a congestion control in Python": controls.str.startswith(OWN_CONTROL_PREFIX).any(),
        "what deliveries record": bool(experiment.measure.deliveries),
        "an OptimisticAck": any(isinstance(tcp.receiver, OptimisticAck) for tcp in spoken),
    }
    return next((name for name, is_there in reasons.items() if is_there), None)


def parts_of(experiment: Experiment, cores: int) -> list[int]:
    """List the part of each node, by its number in node_numbers; warn where the network stays in one part."""
    numbers = node_numbers(experiment.topology)
    parts = partition(experiment.topology, cores, experiment.changes) if cores > 1 else None
    if parts is None and cores > 1:
        name = experiment.topology.name
        warn_of_one_core(cores, f"{name} has no {cores} parts of about equal weight with delay between them")
    return [parts[node] if parts else 0 for node in numbers]


def warn_of_one_core(cores: int, because: str) -> None:
    """Warn that a simulation runs on one core only."""
    warnings.warn(f"cores = {cores}, and the simulation runs on one: {because}", stacklevel=4)


class ParallelSimulator:
    """A simulator in parts, with the methods and properties that `measurements` needs.

    queues : the links whose queues are sampled, in their order.
    """

    def __init__(self, parts: list[_core.Simulator], part_of_node: list[int], queues: list[int]) -> None:
        self._parts = parts
        self._run = _core.ParallelRun(parts, part_of_node)
        self._place_of_queue = {link: place for place, link in enumerate(queues)}

    def run(self, events: int) -> bool:
        """Go on for about so many events in each part; return True when the end is reached."""
        return self._run.run(events * len(self._parts))

    @property
    def now_s(self) -> float:
        """Virtual time that all parts have reached."""
        return self._run.now_s

    @property
    def events(self) -> int:
        """Number of events in all parts."""
        return self._run.events

    @property
    def packet_hops(self) -> int:
        """Number of times that a packet came to the end of a link."""
        return sum(part.packet_hops for part in self._parts)

    @property
    def account(self) -> dict[str, int]:
        """Number of packets by their fate, over all parts."""
        return {name: sum(part.account[name] for part in self._parts) for name in self._parts[0].account}

    def flows(self) -> Columns:
        """Join what the parts know of each flow."""
        return self._run.flows()

    def requests(self) -> Columns:
        """Return the empty columns of requests: experiments with requests are not divided."""
        return self._parts[0].requests()

    def links(self) -> Columns:
        """Add up the columns: a link's part counts the packets that leave, the part at its end those that are lost."""
        return _summed([part.links() for part in self._parts])

    def counted_before(self) -> tuple[Columns, Columns]:
        """Add up what the parts had counted of flows and links before what counts."""
        flows, links = zip(*(part.counted_before() for part in self._parts), strict=True)
        return _summed(flows), _summed(links)

    def deliveries(self) -> Columns:
        """Return the empty columns of deliveries: experiments with them are not divided."""
        return self._parts[0].deliveries()

    def queue_samples(self) -> Columns:
        """Put the parts' samples together, by time and in the order of the queues."""
        samples = _joined([part.queue_samples() for part in self._parts])
        places = [self._place_of_queue[int(link)] for link in samples["link"]]
        return _sorted(samples, places, samples["time_s"])

    def window_samples(self) -> Columns:
        """Put the parts' samples together, by time and flow."""
        samples = _joined([part.window_samples() for part in self._parts])
        return _sorted(samples, samples["flow"], samples["time_s"])

    def departures(self, link: int) -> Columns:
        """Return the packets that have left a link, from the part that has recorded them."""
        return _joined([part.departures(link) for part in self._parts])


def _summed(columns: Sequence[Columns]) -> Columns:
    return {name: np.sum([each[name] for each in columns], axis=0) for name in columns[0]}


def _joined(columns: list[Columns]) -> Columns:
    return {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}


def _sorted(columns: Mapping[str, np.ndarray], *keys: Any) -> Columns:
    order = np.lexsort(keys)
    return {name: column[order] for name, column in columns.items()}
