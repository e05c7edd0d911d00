"""Floor 1: topologies, links, traffic and experiments as plain descriptions."""

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import CoDel, DropTail, EcnThreshold, Link, Queue, Red
from netrepro.networks.topology import (
    Cable,
    Topology,
    dumbbell,
    fat_tree,
    from_graph,
    host_cable,
    leaf_spine,
    star,
)
from netrepro.networks.workloads import (
    CONGESTION_CONTROLS,
    Datagrams,
    Flow,
    PoissonFlows,
    Requests,
    Tcp,
    Traffic,
    flows_per_s_at_load,
)

__all__ = [
    "CONGESTION_CONTROLS",
    "Cable",
    "CoDel",
    "Datagrams",
    "DropTail",
    "EcnThreshold",
    "Experiment",
    "Flow",
    "Link",
    "Measure",
    "Measurements",
    "PoissonFlows",
    "Queue",
    "Red",
    "Requests",
    "Tcp",
    "Topology",
    "Traffic",
    "dumbbell",
    "fat_tree",
    "flows_per_s_at_load",
    "from_graph",
    "host_cable",
    "leaf_spine",
    "star",
]
