"""A small trace in UNIBS-2009's format whose labels are known: three days of captures without payload, and the log.

Its flows have the published shares of the classes and about the published bytes; nothing else about it is realistic.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from packet_builder import ACK, ETHERNET, FIN, PSH, SYN, in_link, ipv4, pcap, tcp

DAY_ONE_S = 1_254_297_600  # 2009-09-30 08:00 UTC
NAMES = [f"unibs{day}.anon.pcap" for day in ("20090930", "20091001", "20091002")]
STATIONS = [f"10.1.0.{i}" for i in range(1, 21)]
SNAP_BYTES = 54
# class: (share of flows, bytes of a data segment, segments, what the log says, server ports; None: any high port)
KINDS = {
    "WEB": (0.62, 1000, 3, [("firefox", "http", 80), ("firefox", "ssl", 443), ("iexplore", "http", 8080)]),
    "P2P": (0.28, 1460, 33, [("azureus", "bittorrent", None), ("amule", "edonkey", None)]),
    "MAILS": (0.06, 60, 2, [("thunderbird", "pop3", 110), ("thunderbird", "ssl", 993), ("mail", "smtp", 25)]),
    "SKYPE": (0.03, 700, 12, [("skype", "skype", 33033)]),
    "OTHERS": (0.01, 300, 4, [("ssh", "ssh", 22), ("gftp", "ftp", 21)]),
}


@dataclass(frozen=True)
class Connection:
    """A connection of a workstation; `incoming` ones were opened by the other end."""

    start_s: float
    station: str
    station_port: int
    other: str
    other_port: int
    incoming: bool
    name: str
    application: str
    application_protocol: str
    seconds_to_log: float

    def log_line(self, clock_ahead_s: float = 0.0) -> str:
        time_s = self.start_s + self.seconds_to_log + clock_ahead_s
        ends = f"{self.station}:{self.other}:{self.station_port}:{self.other_port}"
        return f"{time_s:.6f}:{ends}:TCP:{self.application}:{self.application_protocol}"

    def packets(self) -> list[tuple[float, bool, int, int]]:
        """(time, whether by the opening end, flags, payload bytes)."""
        _, segment_bytes, segments, _ = KINDS[self.name]
        script = [(True, SYN, 0), (False, SYN | ACK, 0), (True, ACK, 0)]
        script += [(True, PSH | ACK, 40 if self.name == "MAILS" else 200)]
        script += [(False, PSH | ACK, segment_bytes)] * segments
        script += [(True, FIN | ACK, 0), (False, FIN | ACK, 0), (True, ACK, 0)]
        return [(self.start_s + 0.01 * i, *step) for i, step in enumerate(script)]


def connections(count: int = 400, seed: int = 7) -> list[Connection]:
    """Over ten minutes of three days; after some a second one with the same addresses and ports, of another class."""
    random = np.random.default_rng(seed)
    made: list[Connection] = []
    for i in range(count):
        # The first twenty make sure of every class.
        name = list(KINDS)[i % 5] if i < 20 else str(random.choice(list(KINDS), p=[kind[0] for kind in KINDS.values()]))
        said = KINDS[name][3]
        application, protocol, port = said[int(random.integers(len(said)))]
        connection = Connection(
            start_s=DAY_ONE_S + 86_400 * (i % 3) + float(random.integers(0, 600)) + float(random.uniform()),
            station=str(random.choice(STATIONS)),
            station_port=int(random.integers(20_000, 60_000)),
            other=f"85.{random.integers(1, 250)}.{random.integers(1, 250)}.9",
            other_port=port or int(random.integers(20_000, 60_000)),
            incoming=name == "P2P" and bool(random.uniform() < 0.4),
            name=name,
            application=application,
            application_protocol=protocol,
            seconds_to_log=float(random.uniform(-0.5, 2.0)),
        )
        made.append(connection)
        if name == "P2P" and i % 20 == 0:
            labels = {"name": "SKYPE", "application": "skype", "application_protocol": "skype"}
            made.append(replace(connection, start_s=connection.start_s + 100, incoming=False, **labels))
    return sorted(made, key=lambda c: c.start_s)


def write_captures(folder: Path, made: list[Connection]) -> list[Path]:
    """One tar.bz2 a day, headers only, the length on the wire kept."""
    paths = []
    for day, name in enumerate(NAMES):
        records = []
        for connection in made:
            if (connection.start_s - DAY_ONE_S) // 86_400 != day:
                continue
            ends = [(connection.station, connection.station_port), (connection.other, connection.other_port)]
            opener, answerer = ends[::-1] if connection.incoming else ends
            for time_s, by_opener, flags, payload_bytes in connection.packets():
                source, destination = (opener, answerer) if by_opener else (answerer, opener)
                header = tcp(source[1], destination[1], flags)
                packet = ipv4(header, source[0], destination[0], total=40 + payload_bytes)
                records.append((round(time_s * 1e6), in_link(packet, ETHERNET), SNAP_BYTES + payload_bytes))
        content = pcap(sorted(records))
        paths.append(folder / f"{name}.tar.bz2")
        with tarfile.open(paths[-1], "w:bz2") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return paths


def write_log(path: Path, made: list[Connection], *, clock_ahead_s: float = 0.0, missed: float = 0.04) -> Path:
    """GT misses some flows."""
    random = np.random.default_rng(3)
    lines = [connection.log_line(clock_ahead_s) for connection in made if random.uniform() >= missed]
    path.write_text("\n".join(["time:src:dst:sport:dport:transport:application:protocol", *lines]) + "\n")
    return path
