"""The leaf-spine network of section 8: hosts, leaves and spines with virtual output queues and crossbars."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from netrepro.errors import NetreproError
from netrepro.verification.parsing import parse_workload
from netrepro.verification.points import ContentionPoint, QueuingModule
from netrepro.verification.queues import ImmediateQueue, Link, Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import Packet, PacketRun
from netrepro.verification.workloads import Query, Workload, refuse_unknown


class Forwarder(QueuingModule):
    """A module that moves the first packet of every port's queue into the output queue that its route names.

    Parameters
    ----------
    ports : input queues; their first packets are moved in this order.
    routes : for each output queue, the destinations that use it and its path label (None: any).
    """

    always_solvable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        ports: Sequence[Queue],
        outputs: Sequence[Queue],
        routes: Sequence[tuple[frozenset[int], int | None]],
    ):
        super().__init__(name, ports, outputs)
        self.routes = list(routes)

    def constraints(self, step: Step) -> Iterable[Any]:
        heads = [step.packet(port) for port in self.inputs]
        for port in self.inputs:
            step.take(port, step.nonempty(port))
        for queue, (destinations, path) in zip(self.outputs, self.routes, strict=True):
            step.offer(queue, [step.only(head, destinations=destinations, path=path) for head in heads])
        return []

    def serve(self, run: PacketRun) -> None:
        for port in self.inputs:
            for packet in run.take(port.name, min(1, len(run.waiting(port.name)))):
                for queue, (destinations, path) in zip(self.outputs, self.routes, strict=True):
                    if packet[0] in destinations and path in (None, packet[1]):
                        run.offer(queue.name, [packet])


class Crossbar(QueuingModule):
    """A round-robin crossbar: in each step a stable matching of ports in and ports out.

    A virtual output queue (i, j) is matched if and only if it holds packets, output j is not matched to an
    input that it prefers, and input i is not matched to an output that it prefers. Every port prefers the
    next port after the one it was matched with last (at first: port 1). The solver may choose any stable matching.

    Parameters
    ----------
    queues : (port in, port out) -> virtual output queue. outputs : for each port out, the queue that it fills.
    """

    always_solvable: ClassVar[bool] = True

    def __init__(self, name: str, queues: dict[tuple[int, int], Queue], outputs: Sequence[Queue]):
        super().__init__(name, list(queues.values()), outputs)
        self.queues, self.ports = queues, len(outputs)
        self._labels = {(i, j): f"match_{i}_{j}" for i, j in queues}

    def _is_preferred(self, last: int, a: int, b: int) -> bool:
        return (a - last - 1) % self.ports < (b - last - 1) % self.ports

    def constraints(self, step: Step) -> Iterable[Any]:
        logic, pairs = step.logic, list(self.queues)
        match = {pair: step.free(label) for pair, label in self._labels.items()}
        sides = list(itertools.product((0, 1), range(self.ports)))
        last = [
            [step.recall((*side, k), logic.true if k == 0 else logic.false) for k in range(self.ports)]
            for side in sides
        ]
        wanted = [step.nonempty(queue) for queue in self.queues.values()]
        demands, last = logic.match_ports(pairs, wanted, list(match.values()), last)
        for side, pointers in zip(sides, last, strict=True):
            for k, bit in enumerate(pointers):
                step.remember((*side, k), bit)
        for pair in pairs:
            step.take(self.queues[pair], match[pair])
        for port, queue in enumerate(self.outputs):
            heads = [(match[p], step.packet(self.queues[p])) for p in pairs if p[1] == port]
            step.offer(queue, [step.pick(heads)])
        return demands

    def serve(self, run: PacketRun) -> None:
        pointers = run.memory.setdefault("last", {})
        wanted = [pair for pair, queue in self.queues.items() if run.waiting(queue.name)]
        labels = {pair: f"{self.name}.{label}@{run.time}" for pair, label in self._labels.items()}
        known = {pair: run.choice(label) for pair, label in labels.items()}
        if None not in known.values():
            matched = {pair for pair, chosen in known.items() if chosen}
            assert self._is_stable(wanted, matched, pointers), f"{self.name}: not a stable matching"
        else:
            matched = self._propose(wanted, int(run.generator.integers(2)), pointers)
        for pair, label in labels.items():
            run.chose(label, pair in matched)
        for i, j in matched:
            run.offer(self.outputs[j].name, run.take(self.queues[i, j].name))
            pointers[0, i], pointers[1, j] = j, i

    def _propose(
        self, wanted: list[tuple[int, int]], side: int, pointers: dict[tuple[int, int], int]
    ) -> set[tuple[int, int]]:
        """Run Gale and Shapley's deferred acceptance; the ports of `side` propose."""

        def rank(where: int, port: int, other: int) -> int:
            return (other - pointers.get((where, port), 0) - 1) % self.ports

        lists: dict[int, list[int]] = {}
        for pair in wanted:
            lists.setdefault(pair[side], []).append(pair[1 - side])
        for port, others in lists.items():
            others.sort(key=lambda other, port=port: rank(side, port, other))  # type: ignore[misc]
        held: dict[int, int] = {}
        free = list(lists)
        while free:
            port = free.pop()
            while lists[port]:
                other = lists[port].pop(0)
                rival = held.get(other)
                if rival is None or rank(1 - side, other, port) < rank(1 - side, other, rival):
                    held[other] = port
                    if rival is not None:
                        free.append(rival)
                    break
        return {(port, other) if side == 0 else (other, port) for other, port in held.items()}

    def _is_stable(
        self,
        wanted: list[tuple[int, int]],
        matched: set[tuple[int, int]],
        pointers: dict[tuple[int, int], int],
    ) -> bool:
        out_of, into = dict(matched), {j: i for i, j in matched}
        if len(out_of) != len(matched) or len(into) != len(matched) or not matched <= set(wanted):
            return False
        for i, j in set(wanted) - matched:
            better_output = i in out_of and self._is_preferred(pointers.get((0, i), 0), out_of[i], j)
            better_input = j in into and self._is_preferred(pointers.get((1, j), 0), into[j], i)
            if not (better_output or better_input):
                return False
        return True


def host(number: int) -> str:
    """Name the input queue of a host numbered from 0; names count from 1 (host1, host2, ...), as in the paper."""
    return f"host{number + 1}"


def received(number: int) -> str:
    """Name the output queue of the packets that a host, numbered from 0, receives."""
    return f"to_host{number + 1}"


def leaf_spine(
    spines: int = 2,
    leaves: int = 3,
    hosts_per_leaf: int = 2,
    horizon: int = 10,
    *,
    queue_capacity: int = 10,
    max_enqueue: int = 4,
) -> ContentionPoint:
    """Make the network of section 8. Each packet freely has a dst (host, from 0) and an ecmp (spine, from 0).

    A host's queue feeds its leaf. Every wire takes one step. The first packet can be received in step 4.

    Raises NetreproError for an empty network.
    """
    if spines < 1 or leaves < 2 or hosts_per_leaf < 1:
        raise NetreproError(
            f"a leaf-spine of {spines} spines, {leaves} leaves and {hosts_per_leaf} hosts a leaf",
            "give at least 1 spine, 2 leaves and 1 host a leaf",
        )
    everyone = frozenset(range(leaves * hosts_per_leaf))
    inside = [frozenset(range(x * hosts_per_leaf, (x + 1) * hosts_per_leaf)) for x in range(leaves)]
    modules: list[QueuingModule] = []
    for leaf in range(leaves):
        ports_in = [
            *(Queue(host(h), capacity=queue_capacity, max_enqueue=max_enqueue) for h in sorted(inside[leaf])),
            *(Link(f"spine{s + 1}_leaf{leaf + 1}") for s in range(spines)),
        ]
        ports_out = [
            *(Link(received(h)) for h in sorted(inside[leaf])),
            *(Link(f"leaf{leaf + 1}_spine{s + 1}") for s in range(spines)),
        ]
        routes: list[tuple[frozenset[int], int | None]] = [
            *((frozenset([h]), None) for h in sorted(inside[leaf])),
            *((everyone - inside[leaf], s) for s in range(spines)),
        ]
        skip = [
            (i, j)
            for i in range(len(ports_in))
            for j in range(len(ports_in))
            if i == j or (i >= hosts_per_leaf and j >= hosts_per_leaf)
        ]
        modules += _switch(f"leaf{leaf + 1}", ports_in, ports_out, routes, skip, queue_capacity)
    for spine in range(spines):
        modules += _switch(
            f"spine{spine + 1}",
            [Link(f"leaf{leaf + 1}_spine{spine + 1}") for leaf in range(leaves)],
            [Link(f"spine{spine + 1}_leaf{leaf + 1}") for leaf in range(leaves)],
            [(inside[leaf], None) for leaf in range(leaves)],
            [(leaf, leaf) for leaf in range(leaves)],
            queue_capacity,
        )
    name = f"S{spines}-L{leaves}-H{leaves * hosts_per_leaf}"
    return ContentionPoint(
        name,
        horizon,
        modules,
        destinations=len(everyone),
        paths=spines,
        sends_to={host(h): everyone - {h} for h in everyone},
    )


def _switch(
    name: str,
    ports_in: Sequence[Queue],
    ports_out: Sequence[Queue],
    routes: Sequence[tuple[frozenset[int], int | None]],
    skip: Sequence[tuple[int, int]],
    capacity: int,
) -> list[QueuingModule]:
    queues = {
        (i, j): ImmediateQueue(f"{name}.{i}_to_{j}", capacity=capacity)
        for i in range(len(ports_in))
        for j in range(len(ports_out))
        if (i, j) not in skip
    }
    modules: list[QueuingModule] = []
    for i, port in enumerate(ports_in):
        mine = [pair for pair in queues if pair[0] == i]
        modules.append(Forwarder(f"{name}.port{i}", [port], [queues[p] for p in mine], [routes[p[1]] for p in mine]))
    modules.append(Crossbar(f"{name}.crossbar", queues, ports_out))
    return modules


def throughput_query(point: ContentionPoint, victim: int) -> Query:
    """Make the query of section 8: by the horizon, host `victim` has received fewer packets than half of what its line
    can carry."""
    threshold = point.horizon // 2 - 1
    return Query("forall", (point.horizon, point.horizon), received(victim), "cenq", "<=", threshold)


def base_workload(point: ContentionPoint, victim: int, *, sender: int = 0) -> Workload:
    """Make the base workload of section 8: `sender` sends steadily to `victim`, each host sends to one host, and no two
    hosts send to the same one in a step."""
    steady = max(1, point.horizon - 1)
    lines = [
        f"[1,{steady}]: cenq({host(sender)},t) >= t",
        f"[1,{steady}]: dst({host(sender)},t) = {victim}",
        *(f"[1,{point.horizon}]: same(dst({queue},t))" for queue in point.inputs),
        f"[1,{point.horizon}]: uniq(dst({{{','.join(point.inputs)}}},t))",
    ]
    return parse_workload("\nand ".join(lines))


def path_queues(point: ContentionPoint, source: int, packet: Packet, *, hosts_per_leaf: int) -> list[str]:
    """Name the virtual output queues that a packet (dst, ecmp) from host `source` passes on its way to another leaf.

    Raises NetreproError for a packet that stays in its leaf.
    """
    (first, port_in), (last, port_out) = divmod(source, hosts_per_leaf), divmod(packet[0], hosts_per_leaf)
    if first == last:
        raise NetreproError(f"{host(source)} and {host(packet[0])} are on one leaf", "choose hosts of two leaves")
    uplink = hosts_per_leaf + packet[1]
    queues = [
        f"leaf{first + 1}.{port_in}_to_{uplink}",
        f"spine{packet[1] + 1}.{first}_to_{last}",
        f"leaf{last + 1}.{uplink}_to_{port_out}",
    ]
    refuse_unknown("the path", queues, point.queues)
    return queues
