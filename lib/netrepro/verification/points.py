"""Queues, queuing modules and the contention points that are composed of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from netrepro.errors import NetreproError
from netrepro.verification.queues import Queue
from netrepro.verification.step import Step
from netrepro.verification.traces import Packet, PacketRun, Trace
from netrepro.verification.workloads import (
    FIELDS,
    Query,
    TimedSpec,
    Uniq,
    Workload,
    refuse_unknown,
    whole,
)


class QueuingModule:
    """A module that takes packets from its input queues and offers them to its output queues, step by step.

    A new module is a subclass with one method, `constraints`. With a second method, `serve`, the module can also run
    with real packets, and then every answer of the solver is replayed.
    """

    # True where `constraints` has a solution for all inputs: then constraints that no question depends on are left out.
    always_solvable: ClassVar[bool] = False

    def __init__(self, name: str, inputs: Sequence[Queue], outputs: Sequence[Queue]):
        self.name, self.inputs, self.outputs = name, list(inputs), list(outputs)

    def constraints(self, step: Step) -> Iterable[Any]:
        """Return the bits that must hold in one step; take and offer packets with `step`."""
        raise NotImplementedError

    def serve(self, run: PacketRun) -> None:
        """Do one step with real packets."""
        raise NotImplementedError

    @property
    def can_run(self) -> bool:
        """True where the module can serve real packets."""
        return type(self).serve is not QueuingModule.serve


class ContentionPoint:
    """Queuing modules wired together by the queues they share, over a bounded number of steps.

    Queues that no module writes are the inputs; queues that no module reads are the outputs. Outputs drain by
    themselves, max_dequeue packets a step.

    Parameters
    ----------
    name : name of the point, for titles and messages.
    horizon : number of steps, printed as 1..horizon.
    modules : the modules, in any order.
    destinations, paths : how many values the packet fields dst and ecmp have; 1 where they play no part.
    sends_to : input queue -> the dst values that its packets may have; a queue that is not listed may use all.

    Raises NetreproError, with the offending name, for an empty horizon, a queue with two writers or two
    readers, a queue wired to the same module twice, two queues or modules of one name, a module without
    queues, a cycle of immediate queues, and an input without a permitted dst.
    """

    def __init__(
        self,
        name: str,
        horizon: int,
        modules: Sequence[QueuingModule],
        *,
        destinations: int = 1,
        paths: int = 1,
        sends_to: Mapping[str, Iterable[int]] | None = None,
    ):
        horizon = whole(f"{name!r}: the horizon", horizon)
        destinations, paths = (whole(f"{name!r}: the number", count) for count in (destinations, paths))
        if horizon < 1:
            raise NetreproError(f"{name!r} has horizon {horizon}", "give at least 1 step")
        if not modules:
            raise NetreproError(f"{name!r} has no queuing module", "give at least one")
        if destinations < 1 or paths < 1:
            raise NetreproError(f"{name!r} has {destinations} destinations and {paths} paths", "at least 1 each")
        self.name, self.horizon, self.modules = name, horizon, list(modules)
        self.destinations, self.paths = destinations, paths
        self.queues: dict[str, Queue] = {}
        self.writer: dict[str, QueuingModule] = {}
        self.reader: dict[str, QueuingModule] = {}
        names = set()
        for module in self.modules:
            if module.name in names:
                raise NetreproError(f"two modules are called {module.name!r}", "give each a name of its own")
            names.add(module.name)
            if not module.inputs or not module.outputs:
                raise NetreproError(f"module {module.name!r} is not connected", "give it inputs and outputs")
            for queue, ends, end in [
                *((queue, self.reader, "read") for queue in module.inputs),
                *((queue, self.writer, "written") for queue in module.outputs),
            ]:
                if self.queues.setdefault(queue.name, queue) != queue:
                    raise NetreproError(f"two queues are called {queue.name!r}", "give each a name of its own")
                if queue.name in ends:
                    raise NetreproError(
                        f"queue {queue.name!r} is {end} by {ends[queue.name].name!r} and by {module.name!r}",
                        "a queue joins one writer to one reader",
                    )
                ends[queue.name] = module
        self.inputs = [name for name in self.queues if name not in self.writer]
        self.outputs = [name for name in self.queues if name not in self.reader]
        if not self.inputs:
            raise NetreproError(f"{name!r} has no input queue", "leave a queue without a writer")
        refuse_unknown("sends_to", sends_to or {}, dict.fromkeys(self.inputs))
        everyone = range(destinations)
        self.sends_to = {
            queue: sorted({whole(f"{queue!r}: dst", number) for number in (sends_to or {}).get(queue, everyone)})
            for queue in self.inputs
        }
        for source, allowed in self.sends_to.items():
            if not allowed or not {*allowed} <= {*everyone}:
                raise NetreproError(f"input {source!r} sends to {allowed}", f"give some of 0..{destinations - 1}")
        self.order = list(self._order())

    def _order(self) -> Iterator[QueuingModule]:
        """Order the modules: the writer of an immediate queue comes before its reader."""
        waiting = list(self.modules)
        done: set[str] = set()
        while waiting:
            for module in waiting:
                fillers = [self.writer[q.name].name for q in module.inputs if q.immediate and q.name in self.writer]
                if all(filler in done for filler in fillers):
                    break
            else:
                raise NetreproError(
                    f"immediate queues form a cycle through module {waiting[0].name!r}",
                    "make one queue of the cycle an ordinary one",
                )
            waiting.remove(module)
            done.add(module.name)
            yield module

    def has_labels(self, name: str) -> bool:
        """Tell whether packets of an input may differ in dst or ecmp."""
        return len(self.sends_to[name]) * self.paths > 1

    @cached_property
    def can_run(self) -> bool:
        """True where every module can be run with real packets."""
        return all(module.can_run for module in self.modules)

    def check(self, workload: Workload | None = None, query: Query | None = None) -> None:
        """Raise NetreproError if the workload or the query does not fit this contention point."""
        for timed in workload.specs if workload else ():
            if any(queue not in self.inputs for queue in timed.spec.queues):  # the message is costly to make
                self._refuse_strangers(timed)
            if timed.last > self.horizon:
                raise NetreproError(f"the workload's {timed} ends after the horizon {self.horizon}")
            if isinstance(timed.spec, Uniq) and len(set(timed.spec.queues)) < 2:
                raise NetreproError(f"the workload's {timed} compares fewer than two queues")
        if query is not None:
            refuse_unknown(f"the query {query}", query.queues, self.queues)
            if query.time_range[1] > self.horizon:
                raise NetreproError(f"the query {query} ends after the horizon {self.horizon}")
            if query.metric in FIELDS and not isinstance(query.lhs, str) and len(query.queues) > 1:
                raise NetreproError(
                    f"the query {query} adds or subtracts {query.metric}, which is a label",
                    "ask of one queue",
                )

    def _refuse_strangers(self, timed: TimedSpec) -> None:
        refuse_unknown(f"the workload's {timed}", timed.spec.queues, self.queues)
        stranger = next(queue for queue in timed.spec.queues if queue not in self.inputs)
        raise NetreproError(
            f"the workload's {timed} speaks of {stranger!r}, which is not an input",
            f"inputs: {', '.join(self.inputs)}",
        )

    # --- running ---

    def simulate(
        self,
        arrivals: Mapping[str, Sequence[Sequence[Packet]]],
        *,
        choices: Mapping[str, bool] | None = None,
        seed: int = 0,
    ) -> Trace:
        """Run real packets through the modules.

        Parameters
        ----------
        arrivals : input queue -> for each step, the packets (dst, ecmp) offered; absent queues stay silent.
        choices : label -> the value of a module's free choice, where it is known.
        seed : seed of all other choices.

        Raises NetreproError for unknown inputs, for too many steps or packets, and where a module cannot be run.
        """
        refuse_unknown("arrivals", arrivals, dict.fromkeys(self.inputs))
        for name, steps in arrivals.items():
            too_many = next((len(s) for s in steps if len(s) > self.queues[name].max_enqueue), None)
            if len(steps) > self.horizon or too_many:
                raise NetreproError(
                    f"arrivals at {name!r}: {len(steps)} steps, {too_many or 'allowed'} packets in one",
                    f"at most {self.horizon} steps and {self.queues[name].max_enqueue} packets a step",
                )
        missing = next((module.name for module in self.modules if not module.can_run), None)
        if missing is not None:
            raise NetreproError(f"module {missing!r} cannot be run", "give its class the method `serve`")
        run = PacketRun(self.queues, self.horizon, dict(choices or {}), np.random.default_rng(seed))
        for time in range(self.horizon):
            run.begin(time)
            for name in self.inputs:
                steps = arrivals.get(name, ())
                run.offer(name, list(steps[time]) if time < len(steps) else [])
            for module in self.order:
                run.module = module.name
                module.serve(run)
            for name in self.outputs:
                run.take(name, min(len(run.waiting(name)), self.queues[name].max_dequeue))
            run.end()
        return run.trace()

    def random_arrivals(self, seed: int, load: float = 0.5) -> dict[str, list[list[Packet]]]:
        """Draw arrivals for `simulate`; each input is silent in each step with probability 1 - load."""
        generator = np.random.default_rng(seed)
        arrivals: dict[str, list[list[Packet]]] = {}
        for name in self.inputs:
            arrivals[name] = []
            for _ in range(self.horizon):
                count = (generator.random() < load) * int(generator.integers(1, self.queues[name].max_enqueue + 1))
                arrivals[name].append(
                    [
                        (int(generator.choice(self.sends_to[name])), int(generator.integers(self.paths)))
                        for _ in range(count)
                    ]
                )
        return arrivals
