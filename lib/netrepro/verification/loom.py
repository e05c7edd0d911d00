"""Loom's case study: a network card with a transmit queue for each core, shared by two tenants.

Each core keeps the two tenants' packets apart and serves the tenants in turn. In each step the card takes one packet
from every core, sorts it by application into one of two queues, and sends memcached before Spark. So the tenants are
treated equally on each core, but not on the wire.

Source: the authors' program (its Loom contention point). The card is the multiqueue one with which Stephens, Akella and
Swift compare Loom (NSDI 2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from netrepro.errors import NetreproError
from netrepro.verification.leaf_spine import Forwarder
from netrepro.verification.logic import Number
from netrepro.verification.parsing import parse_workload
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import ImmediateQueue, Queue
from netrepro.verification.schedulers import RoundRobin, StrictPriority
from netrepro.verification.step import Step
from netrepro.verification.traces import Packet, PacketRun
from netrepro.verification.workloads import Query, Workload

FLOWS = ("tenant1_spark", "tenant2_spark", "tenant2_memcached")  # their packets have dst 0, 1 and 2
MEMCACHED = frozenset([2])


class TenantQueues(QueuingModule):
    """A module that moves a core's packets into one queue for each tenant; two flows of a tenant take turns.

    Parameters
    ----------
    inputs : one queue for each flow. tenants : one queue for each tenant. flows_of : for each tenant, the indices in
        `inputs` of its one or two flows.
    """

    always_solvable: ClassVar[bool] = True

    def __init__(
        self, name: str, inputs: Sequence[Queue], tenants: Sequence[Queue], flows_of: Sequence[tuple[int, ...]]
    ):
        super().__init__(name, inputs, tenants)
        self.flows_of = list(flows_of)

    def constraints(self, step: Step) -> Iterable[Any]:
        logic = step.logic
        for tenant, flows in zip(self.outputs, self.flows_of, strict=True):
            queues, most = [self.inputs[i] for i in flows], tenant.max_enqueue
            lengths = [step.length(queue) for queue in queues]
            # Each of two flows gets half of the `most` places (the first flow one more if odd), and the places that
            # the other leaves free.
            shares: list[Number] = [logic.number(most)]
            if len(queues) == 2:
                halves = [most - most // 2, most // 2]
                shares = [
                    logic.add(logic.number(half), logic.minus(logic.number(most - half), other))
                    for half, other in zip(halves, reversed(lengths), strict=True)
                ]
            counts = [logic.minimum(length, share) for length, share in zip(lengths, shares, strict=True)]
            for queue, count in zip(queues, counts, strict=True):
                step.take(queue, count)
            step.offer(
                tenant,
                [
                    step.when(logic.at_least(count, place + 1), step.packet(queue, place))
                    for place in range(most)
                    for queue, count in zip(queues, counts, strict=True)
                ],
            )
        return []

    def serve(self, run: PacketRun) -> None:
        for tenant, flows in zip(self.outputs, self.flows_of, strict=True):
            moved: list[Packet] = []
            queues = [self.inputs[i].name for i in flows]
            turn = 0
            while len(moved) < tenant.max_enqueue and any(run.waiting(queue) for queue in queues):
                queue = queues[turn % len(queues)]
                moved += run.take(queue, min(1, len(run.waiting(queue))))
                turn += 1
            run.offer(tenant.name, moved)


def loom_inputs(cores: int, flow: str) -> list[str]:
    """Name the input queues, core by core, of all FLOWS whose name starts with `flow` (such as "tenant2")."""
    return [f"core{core + 1}_{name}" for core in range(cores) for name in FLOWS if name.startswith(flow)]


def loom(cores: int = 4, horizon: int = 10, *, queue_capacity: int = 10, max_enqueue: int = 4) -> ContentionPoint:
    """Make a card with `cores` transmit queues. Its inputs are core1_tenant1_spark, ..., its outputs to_tenant1 and
    to_tenant2.

    A packet may pass the whole card in the step of its arrival. Raises NetreproError for fewer than one core.
    """
    if cores < 1:
        raise NetreproError(f"a network card for {cores} cores", "give at least 1")
    classes = {name: place for place, name in enumerate(FLOWS)}
    modules: list[QueuingModule] = []
    sends_to: dict[str, list[int]] = {}
    of_cores = [ImmediateQueue(f"core{core + 1}", queue_capacity) for core in range(cores)]
    for core, queue in enumerate(of_cores):
        flows = []
        for name in FLOWS:
            flows.append(ImmediateQueue(f"core{core + 1}_{name}", queue_capacity, max_enqueue, max_enqueue))
            sends_to[flows[-1].name] = [classes[name]]
        tenants = [ImmediateQueue(f"core{core + 1}.tenant{i}", queue_capacity, max_enqueue) for i in (1, 2)]
        modules.append(TenantQueues(f"core{core + 1}.flows", flows, tenants, [(0,), (1, 2)]))
        modules.append(RoundRobin(f"core{core + 1}.round_robin", tenants, queue))
    applications = [ImmediateQueue(name, queue_capacity, cores) for name in ("memcached", "spark")]
    everything = frozenset(classes.values())
    by_application = [(MEMCACHED, None), (everything - MEMCACHED, None)]
    by_tenant = [(frozenset([0]), None), (everything - {0}, None)]
    wire = ImmediateQueue("wire", queue_capacity)
    outputs = [ImmediateQueue(f"to_tenant{i}", queue_capacity) for i in (1, 2)]
    modules += [
        Forwarder("card", of_cores, applications, by_application),
        StrictPriority("priority", applications, wire),
        Forwarder("receivers", [wire], outputs, by_tenant),
    ]
    return ContentionPoint(f"loom-{cores}", horizon, modules, destinations=len(FLOWS), sends_to=sends_to)


def unfair_query(point: ContentionPoint) -> Query:
    """Make the query that tenant 2 has received over 3 packets more than tenant 1 in each of the last four steps."""
    last = point.horizon
    return Query("forall", (max(1, last - 3), last), ("to_tenant2", "to_tenant1"), "cenq", ">", 3)


def steady_tenants(point: ContentionPoint) -> Workload:
    """Make the workload in which each tenant has sent at least t packets by each step t over all cores, and no
    memcached packets are sent.

    This is the original program's base workload.
    """
    cores, last = sum(module.name.endswith(".round_robin") for module in point.modules), point.horizon
    tenants = [",".join(loom_inputs(cores, flow)) for flow in ("tenant1", "tenant2")]
    urgent = ",".join(loom_inputs(cores, "tenant2_memcached"))
    lines = [f"[1,{last}]: sum cenq({{{queues}}},t) >= t" for queues in tenants]
    return parse_workload(" and ".join([*lines, f"[1,{last}]: sum cenq({{{urgent}}},t) <= 0"]))
