"""Loading pages over one link, by each of the transports: in the simulator, and by processes in virtual time.

guest.py is the server on one host, and the browser on the other.

QUIC is aioquic's. Without this package, pages cannot be loaded over QUIC; all other ways work.
"""

from __future__ import annotations

import importlib.util
import json
import math
import socket
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netrepro.applications.processes import lines_of, start
from netrepro.emulation.tcp import socket_kind
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import Topology, dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.protocols.browser import Browser, Loaded, Manner
from netrepro.protocols.machine import Machine
from netrepro.protocols.sst.channel import Manners
from netrepro.protocols.sst.peer import BUFFER_BYTES
from netrepro.protocols.sst.web import SstClient, SstServer
from netrepro.simulation import Hosts, simulate, simulate_machines
from netrepro.simulation.hosts import Connection

if TYPE_CHECKING:
    from netrepro.protocols.quic import QuicClient, QuicServer

Pages = Sequence[Sequence[int]]
CLIENT, SERVER = "h1", "h2"
ENDS: dict[Hashable, str] = {"client": CLIENT, "server": SERVER}
ACCESS = Link(1000.0, 0.0)
MOST_S_A_PAGE = 60.0


@dataclass(frozen=True)
class Way:
    """A way to load pages. manner : the browser's use of connections. over : "TCP", "SST" or "QUIC". fresh : each page
    has a new channel (SST) or connection (QUIC). early : with `fresh` over QUIC, requests leave in the first packet
    (0-RTT). in_order : the browser gets QUIC's responses in the order of the requests. client, server : over SST, the
    settings of their channel ends. tcp : the settings of TCP."""

    manner: Manner
    tcp: Tcp = field(default_factory=Tcp)
    over: str = "TCP"
    fresh: bool = False
    early: bool = False
    in_order: bool = False
    client: Manners = field(default_factory=Manners)
    server: Manners = field(default_factory=Manners)


@dataclass(frozen=True)
class SymmetricLine:
    """The link between client and server, equal in both directions."""

    rate_mbps: float
    one_way_ms: float
    queue_packets: int
    loss: float = 0.0

    @property
    def topology(self) -> Topology:
        """The topology: one client, one server, and this line between their switches."""
        queue = DropTail(packets=self.queue_packets)
        return dumbbell(1, ACCESS, Link(self.rate_mbps, self.one_way_ms, queue, loss=self.loss))

    def seconds_for(self, size_bytes: float) -> float:
        """Compute the transmission time of so many bytes, in seconds."""
        return size_bytes * 8 / (self.rate_mbps * 1e6)


def load_pages(
    pages: Pages, way: Way, line: SymmetricLine, request_bytes: int, pause_s: float, seed: int
) -> list[Loaded]:
    """Load the pages one after the other in the simulator."""
    asked = Experiment(line.topology, (), MOST_S_A_PAGE * (len(pages) + 1), seed, tcp=way.tcp)
    if way.over == "TCP":
        return _TcpClient(asked, pages, way.manner, request_bytes, pause_s).run()
    words = "server", pages, way.manner, request_bytes, pause_s, way.fresh
    client: SstClient | QuicClient
    server: SstServer | QuicServer
    if way.over == "QUIC":
        from netrepro.protocols.quic import QuicClient, QuicServer

        client, server = QuicClient(*words, way.early, way.in_order), QuicServer()
    else:
        client, server = SstClient(*words, way.client), SstServer(way.server)
    machines: dict[Hashable, Machine] = {"client": client, "server": server}
    simulate_machines(asked, machines, len, ENDS, most_events=100_000_000)
    return client.browser.loaded


def why_no_quic() -> str:
    """Return the reason why pages cannot be loaded over QUIC, or "" if they can."""
    return "" if importlib.util.find_spec("aioquic") else "the package aioquic is not installed: pip install aioquic"


def share_beside_tcp(way: Way, line: SymmetricLine, seconds: float, seed: int) -> float:
    """Measure the share of all bytes that an endless response gets beside a TCP connection from the same server, which
    begins within the first second. The response goes over SST, or over another such TCP connection."""
    begins_s = float(np.random.default_rng(seed).random())
    flow = Flow(SERVER, CLIENT, duration_s=seconds - begins_s, start_s=begins_s)
    if way.over == "TCP":
        both = Experiment(
            line.topology, (replace(flow, duration_s=seconds, start_s=0.0), flow), seconds, seed, tcp=way.tcp
        )
        first, second = simulate(both).flows.delivered_bytes
        return float(first / (first + second))
    asked = Experiment(line.topology, (flow,), seconds, seed, tcp=way.tcp)
    most_windows = 1 + seconds / (2 * line.one_way_ms / 1e3)
    endless = int(min(line.rate_mbps * 1e6 / 8 * seconds, BUFFER_BYTES * most_windows))
    client = SstClient("server", [(endless,)], way.manner, manners=way.client)
    machines: dict[Hashable, Machine] = {"client": client, "server": SstServer(way.server)}
    _, measured = simulate_machines(asked, machines, len, ENDS, most_events=100_000_000)
    return client.arriving_bytes / (client.arriving_bytes + float(measured.flows.delivered_bytes.sum()))


class _TcpClient:
    """The browser over the simulator's TCP; persistent connections are open before the first page begins."""

    def __init__(self, asked: Experiment, pages: Pages, manner: Manner, request_bytes: int, pause_s: float):
        most = manner.connections if manner.keeps else sum(map(len, pages))
        self.hosts = Hosts(asked, most_connections=most)
        self.browser = Browser(pages, manner, pause_s)
        self.manner, self.request_bytes = manner, request_bytes
        self.connections: dict[int, Connection] = {}
        self.opened_count = 0

    def run(self) -> list[Loaded]:
        if self.manner.keeps:
            for number in range(self.manner.connections):
                self.connections[number] = self.hosts.connect(CLIENT, SERVER, self.opened)
        else:
            self.hosts.at(0.0, self.begin)
        while not self.browser.is_done and self.hosts.now_s < self.hosts.experiment.duration_s:
            self.hosts.run(self.hosts.now_s + MOST_S_A_PAGE)
        return self.browser.loaded

    def opened(self, now_s: float) -> None:
        self.opened_count += 1
        if self.opened_count == self.manner.connections:
            self.begin(now_s)

    def begin(self, now_s: float) -> None:
        self.ask(self.browser.begin(now_s))

    def ask(self, asked: Sequence[tuple[int, int, int]]) -> None:
        for number, _, size in asked:
            if number not in self.connections:
                self.connections[number] = self.hosts.connect(CLIENT, SERVER)
            self.connections[number].send(self.request_bytes, self.answer_with(number, size))

    def answer_with(self, number: int, size: int) -> Callable[[float], None]:
        def answer(now_s: float) -> None:
            self.connections[number].send(size, lambda at_s: self.answered(at_s, number), to_client=True)

        return answer

    def answered(self, now_s: float, number: int) -> None:
        if not self.manner.keeps:
            self.connections.pop(number).close()
        self.ask(self.browser.answered(now_s, number))
        if self.browser.begins_s < math.inf:
            self.hosts.at(self.browser.begins_s, self.begin)


GUEST = Path(__file__).with_name("guest.py")
WINDOW_CLAMP = 10  # TCP_WINDOW_CLAMP, for which Python has no name


def load_really(
    pages: Pages, way: Way, line: SymmetricLine, request_bytes: int, pause_s: float, seed: int
) -> list[Loaded]:
    """Load the pages by two processes on a kernel in virtual time, over the kernel's TCP or UDP. Raises NetreproError
    without the kernel, and if a process fails."""
    kind = socket_kind(way.tcp)
    options = [(socket.TCP_MAXSEG, kind.segment_bytes), (WINDOW_CLAMP, kind.receive_window_bytes)]
    plan = {
        "ways": [{name: value for name, value in asdict(way).items() if name != "tcp"}],
        "pages": [list(page) for page in pages],
        "request_bytes": request_bytes,
        "pause_s": pause_s,
        "socket_options": [option for option in options if option[1]],
        "packages": [path for path in sys.path if Path(path).is_absolute()] if way.over == "QUIC" else [],
    }
    with VirtualNetwork(
        line.topology, congestion_control=way.tcp.congestion_control, seed=seed, tcp=way.tcp, syscall_cost_ns=0
    ) as net:
        (net.folder / "plan.json").write_text(json.dumps(plan))
        words = ("plan.json", net[SERVER].address)
        server = start(net, SERVER, GUEST, "serve", *words)
        (rows,) = lines_of(start(net, CLIENT, GUEST, "load", *words), [server])
    return [Loaded(*row) for row in rows]


def least_s(page: Sequence[int], way: Way, line: SymmetricLine, request_bytes: int) -> float:
    """Compute a lower bound of the page's loading time, in seconds: round trips, and bytes at the line's rate without
    headers.

    There are connections times depth places for open requests. Each request takes a place for at least one round trip,
    and for two if it opens a connection. A fresh channel or connection costs one more round trip before the first
    request, unless the request leaves with the first packet.
    """
    round_trip_s = 2 * line.one_way_ms / 1e3
    opens = way.over == "TCP" and not way.manner.keeps
    each_s = round_trip_s * (2 if opens else 1)
    secondaries = len(page) - 1
    first_s = each_s + line.seconds_for(request_bytes + page[0]) + round_trip_s * (way.fresh and not way.early)
    if not secondaries:
        return first_s
    rounds = math.ceil(secondaries / (way.manner.connections * way.manner.depth))
    return first_s + max(rounds * each_s, each_s + line.seconds_for(request_bytes + sum(page[1:])))
