"""The source route of each connection of an experiment, and the addresses that lead over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from netrepro.emulation.plan import Plan
from netrepro.networks.experiment import Experiment
from netrepro.networks.routing import Path, k_shortest_paths, shortest_paths
from netrepro.networks.workloads import Flow


@dataclass(frozen=True)
class FlowConnection:
    """One connection of a flow.

    place : 1 for the connection of a replica, else 0. opener, accepter : hosts. there, back : source routes from opener
    to accepter and from accepter to opener; () for none. further : with MPTCP, the paths of the other subflows, whose
    packets take the same path back.
    """

    flow: int
    place: int
    opener: str
    accepter: str
    there: Path = ()
    back: Path = ()
    further: tuple[Path, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """All paths of the connection's packets, in both directions."""
        backwards = (path[::-1] for path in self.further)
        return [path for path in (self.there, self.back, *self.further, *backwards) if path]

    def addresses(self, plan: Plan) -> tuple[int, int]:
        """Return (opener's address, accepter's address): addresses that lead over the paths, else the hosts' own."""
        return int(plan.address_over(self.back, self.opener)), int(plan.address_over(self.there, self.accepter))


def connections(experiment: Experiment) -> list[FlowConnection]:
    """List the connections of the flows, in the flows' order, then the connections of the replicas.

    A client that requests data opens the connection on which the answers come. With "k_shortest_paths" each connection
    draws its paths from the experiment's seed and the flow's number, one path for each direction. With "ecmp" a flow
    and its replica draw one common shortest path for both directions, if the replica is to take the same path.
    """
    return list(_connections(experiment))


def _connections(experiment: Experiment) -> Iterator[FlowConnection]:
    routing, topology = experiment.routing, experiment.topology
    flows = experiment.flow_table
    for place, table in enumerate((flows, flows[flows["replication"] != ""])):
        for row in table.itertuples():
            opener, accepter = row.source, row.destination
            if row.transport == "requests":
                opener, accepter = accepter, opener
            entry = experiment.traffic[row.entry]
            subflows = entry.subflow_paths if isinstance(entry, Flow) else ()
            there: Path = subflows[0] if subflows else row.path
            back = there[::-1]
            if not there and routing.scheme == "k_shortest_paths":
                random = np.random.default_rng([experiment.seed, row.flow, 0 if row.replica_same_path else place])
                there, back = (
                    paths[random.integers(len(paths))]
                    for ends in ((opener, accepter), (accepter, opener))
                    for paths in (k_shortest_paths(topology, *ends, routing.paths),)
                )
            elif not there and row.replication and row.replica_same_path and routing.scheme == "ecmp":
                paths = shortest_paths(topology, opener, accepter)
                there = paths[np.random.default_rng([experiment.seed, row.flow]).integers(len(paths))]
                back = there[::-1]
            yield FlowConnection(row.flow, place, opener, accepter, there, back, tuple(subflows[1:]))
