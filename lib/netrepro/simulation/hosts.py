"""Programs of one's own at the hosts of a simulated network: timers, datagrams, and messages over TCP.

A program consists of functions that are called with the time in seconds and then ask for what happens next. Everything
between hosts travels as packets on the experiment's links, beside the experiment's own traffic.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import count
from typing import Any

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks.compiled import node_numbers, tcp_settings
from netrepro.networks.description import WHOLE
from netrepro.networks.experiment import Experiment, Measurements, check_is_experiment
from netrepro.protocols.machine import Event, Machine, Output
from netrepro.simulation.simulate import build, measurements

Call = Callable[[float], Any]

DATAGRAM_HEADER_BYTES = 42  # Ethernet 14, IPv4 20, UDP 8
MOST_FRAGMENT_BYTES = 1472
MOST_MESSAGE_BYTES = 1 << 40
MOST_CALLS_AT_A_TIME = 1_000_000
FIRST_DATAGRAM_FLOW = 1 << 31


class Hosts:
    """The hosts of a simulated network; time passes in `run`.

    experiment : network, background traffic (may be empty), duration, and what to measure. The same experiment and
        programs give the same bytes.
    most_connections : the most connections that `connect` opens.

    Raises NetreproError for an experiment whose TCP varies its segments: messages begin segments of their own.
    """

    def __init__(self, experiment: Experiment, *, most_connections: int = 1000):
        check_is_experiment(experiment)
        if experiment.tcp.boundary_spread_bytes:
            raise NetreproError(
                f"boundary_spread_bytes = {experiment.tcp.boundary_spread_bytes} of connections of programs", "give 0"
            )
        self.experiment = experiment
        self.now_s = 0.0
        self._core = build(experiment)
        tcp = experiment.tcp
        self._core.reserve_connections(most_connections, tcp.congestion_control, _core.TcpSettings(**tcp_settings(tcp)))
        self._left = most_connections
        self._number = node_numbers(experiment.topology)
        self._order = count()
        self._timers: list[tuple[float, int, Call]] = []
        self._datagrams: dict[int, _Datagram] = {}  # by the place of a fragment inside the simulator
        self._flows: dict[tuple[str, str, str], int] = {}
        self._connections: dict[int, Connection] = {}

    def at(self, time_s: float, call: Call) -> None:
        """Have `call` called at that time; calls at the same time come in the order in which they were asked for.

        Raises NetreproError for a time that has passed.
        """
        if not time_s >= self.now_s:
            raise NetreproError(f"a call at {time_s} s, and it is {self.now_s} s", "ask for a time to come")
        heapq.heappush(self._timers, (time_s, next(self._order), call))

    def send(self, source: str, destination: str, size_bytes: int, delivered: Call, *, flow: str = "") -> None:
        """Send a datagram of so many bytes of payload (UDP), now; `delivered` is called if it arrives.

        A datagram larger than 1,472 bytes travels in fragments, all of which must arrive. To the network, datagrams
        between two hosts are one flow, or several flows with different names `flow`.

        Raises NetreproError for unknown or equal hosts.
        """
        self._check(source, destination, size_bytes)
        number = self._flows.setdefault((source, destination, flow), FIRST_DATAGRAM_FLOW + len(self._flows))
        fragments = max(1, -(-size_bytes // MOST_FRAGMENT_BYTES))
        datagram = _Datagram(fragments, delivered)
        for _ in range(fragments):
            payload = min(size_bytes, MOST_FRAGMENT_BYTES)
            size_bytes -= payload
            ends = self._number[source], self._number[destination]
            self._datagrams[self._core.post(*ends, payload + DATAGRAM_HEADER_BYTES, number)] = datagram

    def connect(self, client: str, server: str, connected: Call | None = None) -> Connection:
        """Open a TCP connection now; `connected` is called when the client may send.

        Raises NetreproError for unknown or equal hosts, and when no connection is left.
        """
        self._check(client, server)
        if not self._left:
            raise NetreproError(f"more than {len(self._connections)} connections", "give most_connections=...")
        self._left -= 1
        number = self._core.connect(self._number[client], self._number[server])
        self._connections[number] = connection = Connection(self, self._core, number, client, server, connected)
        return connection

    def run(self, until_s: float | None = None) -> None:
        """Let time pass, by default to the end of the experiment, and call programs meanwhile.

        Raises NetreproError for programs that ask for calls at the same time for ever.
        """
        calls, stands_at_s = 0, -1.0
        end_s = self.experiment.duration_s if until_s is None else min(until_s, self.experiment.duration_s)
        while True:
            due_s = self._timers[0][0] if self._timers else math.inf
            news = self._core.advance_to_news(max(min(due_s, end_s), self.now_s))
            for time_s, kind, number in news:
                self.now_s = max(self.now_s, time_s)
                self._hear(kind, number)
            if news:
                continue
            self.now_s = max(self.now_s, min(due_s, end_s))
            if due_s > end_s:
                return
            call = heapq.heappop(self._timers)[2]
            calls, stands_at_s = (calls + 1 if self.now_s == stands_at_s else 0), self.now_s
            if calls > MOST_CALLS_AT_A_TIME:
                raise NetreproError(
                    f"time stands still at {self.now_s:g} s: more than {MOST_CALLS_AT_A_TIME:,} calls, now of {call!r}",
                    "have it called at a later time",
                )
            call(self.now_s)

    def measurements(self) -> Measurements:
        """Return the experiment's measurements: its own flows, and queues, links and packets, with those of programs.

        In `packets`, `flow` is the number of a connection of `connect`; datagrams have numbers from 2^31 on.
        """
        return measurements(self.experiment, self._core)

    def _hear(self, kind: str, number: int) -> None:
        if kind == "datagram":
            datagram = self._datagrams.pop(number)
            datagram.missing -= 1
            if not datagram.missing:
                datagram.delivered(self.now_s)
        else:
            self._connections[number].hear(kind, self.now_s)

    def _check(self, source: str, destination: str, size_bytes: int = 1) -> None:
        for host in (source, destination):
            self.experiment.topology.check_host(host)
        if source == destination:
            raise NetreproError(f"a message from {source} to itself", "call what it is for at once")
        check_size(size_bytes)


def check_size(size_bytes: int) -> None:
    """Raise NetreproError unless it is a whole number of bytes from 0 to 2^40."""
    is_whole = isinstance(size_bytes, WHOLE) and not isinstance(size_bytes, bool)
    if not is_whole or not 0 <= size_bytes <= MOST_MESSAGE_BYTES:
        raise NetreproError(f"a message of {size_bytes!r} bytes", f"give a whole number from 0 to {MOST_MESSAGE_BYTES}")


class _Datagram:
    def __init__(self, missing: int, delivered: Call):
        self.missing, self.delivered = missing, delivered


class Connection:
    """A TCP connection, made by Hosts.connect; `number` names it in the measurements.

    Each direction has its own sequence of segments and its own acknowledgements, as with Requests; both open at the
    same time. Each message begins a new segment.
    """

    def __init__(self, hosts: Hosts, core: Any, number: int, client: str, server: str, connected: Call | None):
        self.client, self.server, self.number = client, server, number
        self._hosts, self._core, self._connected = hosts, core, connected
        self._awaited: dict[str, deque[Call]] = {"message to server": deque(), "message to client": deque()}
        self._closed = False

    def send(self, size_bytes: int, delivered: Call, *, to_client: bool = False) -> None:
        """Hand a message to the connection, to its server or `to_client`; `delivered` is called when all is there.

        Messages of one direction arrive in order. They wait until the connection is established. Raises NetreproError
        for a message of 0 bytes, and after `close`.
        """
        check_size(size_bytes)
        if size_bytes == 0:
            raise NetreproError("a message of 0 bytes over TCP", "give it a byte")
        if self._closed:
            raise NetreproError("a message on a connection that is closed", "open another one")
        self._awaited["message to client" if to_client else "message to server"].append(delivered)
        self._core.write(self.number, to_client, size_bytes)

    def close(self) -> None:
        """Send nothing more. Raises NetreproError while a message is on its way."""
        if any(self._awaited.values()):
            raise NetreproError("a connection closed while a message is on its way", "close it when it is delivered")
        if not self._closed:
            self._core.hang_up(self.number)
        self._closed = True

    def hear(self, kind: str, now_s: float) -> None:
        """Handle an event of the simulator: "connected", "message to client" or "message to server"."""
        if kind != "connected":
            self._awaited[kind].popleft()(now_s)
        elif self._connected is not None:
            self._connected(now_s)


def simulate_machines(
    experiment: Experiment,
    machines: Mapping[Hashable, Machine],
    size_bytes: Callable[[Any], int],
    hosts: Mapping[Hashable, str],
    *,
    at: Iterable[tuple[float, Callable[[float], Iterable[tuple[Hashable, Output]]]]] = (),
    most_events: int = 1_000_000,
) -> tuple[list[tuple[float, Hashable, Event]], Measurements]:
    """Run machines against each other as `protocols.drive` does, with their messages as datagrams of the experiment.

    machines : name -> machine; a machine that is removed has crashed.
    size_bytes : function of a message; returns the bytes of its payload.
    hosts : name -> host where the machine runs. Between machines on one host messages take no time.
    at, most_events : as in `drive`.

    Returns (time_s, name, event) in the order in which they happen, and what the experiment measured. Raises
    NetreproError for a message to an unknown name, a machine without a host, and for too many events.
    """
    for name in machines:
        if name not in hosts:
            raise NetreproError(f"a machine {name!r} without a host", "name one in hosts")
    network = Hosts(experiment, most_connections=0)
    events: list[tuple[float, Hashable, Event]] = []
    alarms: dict[Hashable, float] = {}
    names, done = set(machines), count(1)

    def carry_out(name: Hashable, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Event):
                events.append((network.now_s, name, output))
            elif output.to not in names:
                raise NetreproError(f"a message from {name!r} to {output.to!r}", "there is no machine of that name")
            else:
                carry(name, output.to, output.message)
        set_alarm(name)

    def carry(sender: Hashable, receiver: Hashable, message: Any) -> None:
        def delivered(now_s: float) -> None:
            counted()
            if receiver in machines:
                carry_out(receiver, machines[receiver].receive(now_s, sender, message))

        if hosts[sender] == hosts[receiver]:
            network.at(network.now_s, delivered)
        else:
            network.send(hosts[sender], hosts[receiver], size_bytes(message), delivered)

    def set_alarm(name: Hashable) -> None:
        due_s = max(machines[name].wake_at_s, network.now_s) if name in machines else math.inf
        if due_s == alarms.get(name):
            return
        alarms[name] = due_s

        def wake(now_s: float) -> None:
            counted()
            if alarms.get(name) != now_s or name not in machines:  # put off or crashed since
                return
            del alarms[name]
            carry_out(name, machines[name].wake(now_s) if machines[name].wake_at_s <= now_s else ())

        if due_s <= experiment.duration_s:
            network.at(due_s, wake)

    def counted() -> None:
        if next(done) > most_events:
            raise NetreproError(f"more than {most_events} events by {network.now_s:.6g} s", "does time pass?")

    def from_outside(act: Callable[[float], Iterable[tuple[Hashable, Output]]]) -> Call:
        def call(now_s: float) -> None:
            for name, output in act(now_s):
                carry_out(name, [output])
            for name in list(machines):  # whoever acts from outside may have called any machine
                set_alarm(name)

        return call

    for time_s, act in at:
        network.at(time_s, from_outside(act))
    for name, machine in list(machines.items()):
        carry_out(name, machine.start(0.0))
    network.run()
    return events, network.measurements()
