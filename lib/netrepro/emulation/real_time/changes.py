"""Changes of links and routes while an emulated network runs, as messages to the kernel at given times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from netrepro.emulation import messages
from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.plan import HUB, Plan
from netrepro.emulation.real_time.running import Made, RunningNetwork
from netrepro.networks.experiment import Experiment
from netrepro.networks.routing import LinkChange, links_in_use

MOST_LATE_MS = 20.0  # fixed before any run: a change that is later makes the run untrusted


def now_ns() -> int:
    """Read the clock of packets' time stamps (CLOCK_REALTIME), in ns."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


class Changes:
    """The experiment's changes of links, and the changes of routes that follow from them, in order.

    A link that goes down loses its buffer: waiting packets, and arriving ones until it is up again, are dropped.
    Packets that netem delays are on the wire, and still arrive. latest_ms : how late a change was made at most, so far.

    settled : is called at `measure.since_s`, where that is not 0.
    """

    def __init__(self, net: RunningNetwork, experiment: Experiment, settled: Callable[[], None]):
        self._net = net
        plan, since_s = net.plan, experiment.measure.since_s
        moments = [*_link_changes(plan, experiment), *_route_changes(plan, experiment)]
        moments += [_Moment(since_s, then=settled)] if since_s else []
        self._left = sorted(moments, key=lambda moment: moment.at_s)
        self.latest_ms = 0.0 if experiment.changes else float("nan")

    @property
    def next_s(self) -> float:
        """The time of the next change, in seconds since the experiment began; infinity when none is left."""
        return self._left[0].at_s if self._left else float("inf")

    def make_due(self, now_s: float) -> None:
        """Make all changes that are due. Raises NetreproError for a change that the kernel refuses."""
        while self.next_s <= now_s:
            moment = self._left.pop(0)
            if moment.then is not None:
                moment.then()
            make(self._net, moment.requests, moment.rates_mbps)
            self.latest_ms = max(self.latest_ms, (now_s - moment.at_s) * 1e3)


@dataclass
class _Moment:
    """Changes at one time: node -> messages to its kernel. then : is called before them."""

    at_s: float
    requests: dict[str, list[NetlinkRequest]] = field(default_factory=dict)
    rates_mbps: dict[tuple[str, str], float] = field(default_factory=dict)  # new rates of all changed ports
    then: Callable[[], None] | None = None


class Links:
    """The present state of a network's links, after the changes so far."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._links = {port: described.link for port, described in plan.ports.items()}
        self._wired = {each.direction for each in plan.wires}
        self._down: set[tuple[str, str]] = set()

    def change(self, port: tuple[str, str], change: LinkChange) -> tuple[dict[str, list[NetlinkRequest]], float]:
        """Change a port's link; return (node -> messages to its kernel, the link's rate from then on)."""
        plan, described = self._plan, self._plan.ports[port]
        requests: dict[str, list[NetlinkRequest]] = {described.shaper[0]: []}
        wanted = requests[described.shaper[0]]
        before = self._links[port]
        if change.up is not None:
            self._down = self._down - {port} if change.up else self._down | {port}
        self._links[port] = change.on_wire(before)
        if change.rate_mbps is not None:
            self._links[port] = replace(self._links[port], rate_mbps=change.rate_mbps)
            wanted.append(messages.replacing(described.shaped(self._links[port])[0]))
        if port in self._wired and self._links[port] != before:
            requests[HUB] = [messages.replacing(plan.wire(port, self._links[port]))]
        # A new rate resets the shaper's buffer, so make the buffer again; a link that is down has none.
        closed = port in self._down
        buffer = messages.closed_buffer(described.shaper[1]) if closed else described.buffer(self._links[port])
        wanted.append(messages.replacing(buffer))
        return requests, self._links[port].rate_mbps


def make(
    net: RunningNetwork, requests: Mapping[str, Sequence[NetlinkRequest]], rates_mbps: Mapping[tuple[str, str], float]
) -> None:
    """Make a change now, and note its time in `net.made`. rates_mbps : changed port -> its rate from then on."""
    begun_ns = now_ns()
    net.send(requests)
    for port, rate_mbps in rates_mbps.items():
        net.made.setdefault(port, []).append(Made(begun_ns, now_ns(), rate_mbps))


def _link_changes(plan: Plan, experiment: Experiment) -> list[_Moment]:
    links = Links(plan)
    moments = []
    for change in sorted(experiment.changes, key=lambda change: change.at_s):
        moment = _Moment(change.at_s)
        for port in change.links:
            requests, moment.rates_mbps[port] = links.change(port, change)
            for node, wanted in requests.items():
                moment.requests.setdefault(node, []).extend(wanted)
        moments.append(moment)
    return moments


def _route_changes(plan: Plan, experiment: Experiment) -> list[_Moment]:
    """List route changes; where no path is left, the old route stays, and packets are dropped at the broken link."""
    ways = links_in_use(experiment.topology, experiment.routing, experiment.changes)
    before = plan.routes_over(plan.in_use)
    moments = []
    for at_s, in_use in ways[1:]:
        moment = _Moment(at_s)
        for node, routes in plan.routes_over(in_use).items():
            changed = {to: route for to, route in routes.items() if before[node].get(to) != route}
            before[node] |= changed
            if changed:
                moment.requests[node] = [messages.replacing(route) for route in changed.values()]
        moments.append(moment)
    return moments
