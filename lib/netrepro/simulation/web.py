"""Web pages over the simulator's TCP: serial, parallel, persistent and pipelined requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.networks.description import check_count, set_number
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.simulation.hosts import Connection, Hosts

WEB_COLUMNS = [
    "page",  # place among the pages
    "label",
    "client",
    "server",
    "request",  # place of its response
    "connection",  # its number
    "wanted_s",  # when the client could have asked, had it had a connection to spare
    "asked_s",  # when it handed the request to one, which may not be open yet
    "answered_s",  # NaN if never
    "response_bytes",
]


@dataclass(frozen=True)
class WebPage:
    """A client that fetches a page: `response_bytes` of each object, the first of which it needs to ask for the others.

    `connections` at most are open at a time. Without `persistent` each serves one request, with it all that follow;
    `pipelined` sends a connection's requests without waiting for answers, which come in their order. The first object
    is asked for by itself unless `first_alone=False`. A server answers `server_ms` after a request is there.
    """

    client: str
    server: str
    response_bytes: tuple[int, ...]
    request_bytes: int = 300
    start_s: float = 0.0
    connections: int = 1
    persistent: bool = True
    pipelined: bool = False
    first_alone: bool = True
    server_ms: float = 0.0
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "response_bytes", tuple(self.response_bytes))
        if not self.response_bytes or not all(isinstance(n, int) and n >= 1 for n in self.response_bytes):
            raise NetreproError(
                f"WebPage: response_bytes = {self.response_bytes!r}", "give whole numbers, one an object, 1 or more"
            )
        check_count(self, "request_bytes")
        check_count(self, "connections")
        set_number(self, "start_s", least=0)
        set_number(self, "server_ms", least=0)
        if self.pipelined and not self.persistent:
            raise NetreproError("WebPage: pipelined, and not persistent", "give one of the two")


def simulate_web(
    experiment: Experiment, pages: Iterable[WebPage], *, clock_skew_ppm: float = 100.0
) -> tuple[pd.DataFrame, Measurements]:
    """Fetch all pages beside the experiment's traffic: WEB_COLUMNS, a row a request, and what was measured."""
    pages = tuple(pages)
    most = sum(page.connections if page.persistent else len(page.response_bytes) for page in pages)
    hosts = Hosts(experiment, most_connections=most, clock_skew_ppm=clock_skew_ppm)
    fetches = [_Fetch(hosts, place, page) for place, page in enumerate(pages)]
    for fetch in fetches:
        hosts.at(fetch.page.start_s, fetch.start)
    hosts.run()
    rows = [row for fetch in fetches for row in fetch.rows]
    table = pd.DataFrame(rows, columns=WEB_COLUMNS)
    return table.astype({"answered_s": float}), hosts.measurements()


class _Fetch:
    def __init__(self, hosts: Hosts, place: int, page: WebPage):
        self.hosts, self.place, self.page = hosts, place, page
        self.rows: list[dict] = []
        self.wanted: deque[tuple[int, float]] = deque()  # requests, and since when
        self.open = 0
        self.idle: list[Connection] = []

    def start(self, now_s: float) -> None:
        count = len(self.page.response_bytes)
        self.want(range(1 if self.page.first_alone else count), now_s)

    def want(self, requests: Iterable[int], now_s: float) -> None:
        self.wanted.extend((request, now_s) for request in requests)
        while self.wanted and (self.idle or self.open < self.page.connections):
            if self.idle:
                connection = self.idle.pop()
            else:
                self.open += 1
                connection = self.hosts.connect(self.page.client, self.page.server)
            self.ask(connection, now_s)

    def ask(self, connection: Connection, now_s: float) -> None:
        """The next request on this connection; pipelined, its part of all."""
        free = self.page.connections - self.open + len(self.idle) + 1
        share = -(-len(self.wanted) // free) if self.page.pipelined else 1
        asked = [self.wanted.popleft() for _ in range(share)]
        for i, (request, wanted_s) in enumerate(asked):
            size = self.page.response_bytes[request]
            row = dict(zip(WEB_COLUMNS, (self.place, self.page.label, self.page.client, self.page.server, request,
                                         connection.number, wanted_s, now_s, None, size), strict=True))  # fmt: skip
            self.rows.append(row)
            self.request(connection, row, last=i == len(asked) - 1)

    def request(self, connection: Connection, row: dict, last: bool) -> None:
        def answered(now_s: float) -> None:
            row["answered_s"] = now_s
            self.after(connection, row["request"], last, now_s)

        def answer(_now_s: float) -> None:
            connection.send(row["response_bytes"], answered, to_client=True)

        def arrived(now_s: float) -> None:
            if self.page.server_ms:
                self.hosts.at(now_s + self.page.server_ms / 1e3, answer)
            else:
                answer(now_s)

        connection.send(self.page.request_bytes, arrived)

    def after(self, connection: Connection, request: int, last: bool, now_s: float) -> None:
        first = request == 0 and self.page.first_alone
        if last and self.page.persistent:
            self.idle.append(connection)
        elif last:
            connection.close()
            self.open -= 1
        self.want(range(1, len(self.page.response_bytes)) if first else (), now_s)
        if len(self.rows) == len(self.page.response_bytes) and len(self.idle) == self.open:  # all is there
            for spare in self.idle:
                spare.close()
            self.open, self.idle = 0, []
