"""A campus of workstations, an internet of servers and peers, and the programs that run on them for some minutes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.emulation.virtual.network import VirtualNetwork, VirtualProgram
from netrepro.errors import NetreproError
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import Cable, Topology, host_cable

Progress = Callable[[Iterable], Iterable]

HERE = Path(__file__).parent
LIBRARIES = ("aiohttp", "aiosmtpd", "asyncssh", "cryptography", "libtorrent", "pyftpdlib")
WORKSTATIONS, REMOTES = 10, 12
BORDER = ("s2", "s1")  # packets are captured on this cable, at its end at s1
# Options that a workstation or server announces in its SYN: (timestamps, window scaling, selective ACK, time to live).
STACKS = ((1, 1, 1, 64), (0, 1, 1, 128), (0, 0, 1, 128), (1, 1, 1, 64), (0, 1, 0, 64))
# Application in the watchers' log -> its protocol, or server port -> protocol.
PROTOCOLS: dict[str, str | dict[int, str]] = {
    "browser": {80: "http", 8080: "http", 443: "ssl"},
    "mailclient": {25: "smtp", 587: "smtp", 465: "ssl", 110: "pop3", 995: "ssl", 143: "imap", 993: "ssl"},
    "bittorrent": "bittorrent",
    "skypelike": "skype",
    "ftp": "ftp",
    "ssh": "ssh",
}
RECORD_COLUMNS = ["seconds", "address", "port", "other_address", "other_port", "application"]
SWARM_WORKSTATIONS, SWARM_REMOTES = 5, 8
MEMORY_MB = 3072  # the kernel's memory, for some sixty programs
READY_S, LONGEST_STOP_S = 10.0, 20.0  # virtual time for the programs to start, and for each to end


@dataclass(frozen=True)
class Mix:
    """The approximate number of flows of each class in a day; the actual numbers are counted afterwards.

    The default is near UNIBS-2009's shares, with more flows of SKYPE and OTHERS, which would otherwise be too few for
    training.
    """

    web: int = 3200
    p2p: int = 1450
    mails: int = 260
    skype: int = 200
    others: int = 50

    def scaled(self, factor: float) -> Mix:
        """Multiply the numbers by a factor; each result is at least five."""
        counts = (self.web, self.p2p, self.mails, self.skype, self.others)
        return Mix(*(max(5, round(count * factor)) for count in counts))


@dataclass(frozen=True)
class Day:
    """The recording of one run of the network.

    capture : a pcap of all packets at the border, headers only. records : the connections that the workstations'
    watchers saw: seconds (since 1970), address and port of the workstation, other_address, other_port, application.
    packets, missed_packets : numbers of captured packets and of packets that the capture missed (should be 0).
    failed : program -> number of sessions that ended in an error.
    """

    capture: Path
    records: pd.DataFrame
    packets: int
    missed_packets: int
    failed: dict[str, int]

    def log_lines(self, later_s: int = 0) -> list[str]:
        """Return the records as lines of a log in UNIBS's format, with `later_s` seconds added to all times."""
        lines = []
        for row in self.records.sort_values("seconds").itertuples(index=False):
            protocol = PROTOCOLS[row.application]
            if isinstance(protocol, dict):
                protocol = protocol[row.other_port]
            ends = f"{row.address}:{row.other_address}:{row.port}:{row.other_port}"
            lines.append(f"{row.seconds + later_s:.6f}:{ends}:TCP:{row.application}:{protocol}")
        return lines


def check_libraries() -> None:
    """Raise NetreproError if a library that the applications need is missing."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise NetreproError(
            f"the traffic's applications need {', '.join(missing)}, which this Python lacks",
            "install the library with its extra: pip install 'netrepro[capture]'",
        )


def campus(seed: int) -> Topology:
    """Build a network: workstations h1..h10 behind s1, and the internet s2, whose hosts are 3 to 45 ms away.

    The standard deviation of a host's delay is 2 to 20 % of the delay. Some links lose packets, some reorder a few.
    """
    rng, shaking = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 5])
    cables = [host_cable(f"h{i + 1}", "s1", Link(100, 0)) for i in range(WORKSTATIONS)]
    for i in range(REMOTES):
        delay_ms = round(float(np.exp(rng.uniform(np.log(3), np.log(45)))), 2)
        loss = float(rng.choice((0.0, 0.001, 0.003, 0.006)))
        link = Link(
            float(rng.choice((6, 10, 20, 40))),
            delay_ms,
            DropTail(packets=120),
            loss,
            jitter_ms=round(delay_ms * float(shaking.uniform(0.02, 0.2)), 2),
            reordering=float(shaking.choice((0.0, 0.0, 0.001, 0.003))),
            reordering_ms=5.0,
        )
        cables.append(host_cable(f"h{WORKSTATIONS + i + 1}", "s2", link))
    return Topology((*cables, Cable("s1", "s2", Link(200, 0, DropTail(packets=2000)))), "campus and internet")


class _Programs:
    """A group of programs in the network: each is started with a line of JSON (its work) and stopped by SIGTERM."""

    def __init__(self, net: VirtualNetwork):
        self.net = net
        self._asked: list[tuple[str, dict[str, Any], Path]] = []
        self._started: list[tuple[str, VirtualProgram]] = []

    def start(self, file: str, host: str, name: str, **work: Any) -> None:
        """Add a program to the group, which `begin` starts."""
        files = self.net.next_file(name)
        for ending in (".out", ".err"):
            self.net.write_new(files.with_suffix(ending))
        program = {
            "file": file,
            "namespace": self.net.plan.descriptor(host),
            "output": str(files.with_suffix(".out")),
            "errors": str(files.with_suffix(".err")),
            "work": {"name": name, **work},
        }
        self._asked.append((f"{name} on {host}", program, files))

    def begin(self, *imports: str) -> None:
        """Start all added programs. imports : modules to import once, before the programs are forked."""
        asked = {"imports": imports, "programs": [program for _, program, _ in self._asked]}
        command = [sys.executable, "-B", str(HERE / "guests" / "nursery.py")]
        begun = self.net[self.net.topology.hosts[0]].run(command, input=json.dumps(asked) + "\n")
        for (name, program, files), process in zip(self._asked, json.loads(begun.stdout), strict=True):
            number = self.net.instance.order("adopt", process=process)["program"]
            self._started.append((name, VirtualProgram(self.net, number, [program["file"]], files)))
        self._asked = []

    def check_ready(self) -> None:
        """Raise NetreproError if a program has not written "ready"."""
        for name, program in self._started:
            if "ready" not in program.output:
                said = (program.errors.strip() or "it says nothing").splitlines()[-1]
                raise NetreproError(f"{name} did not start: {said}", "see whether its libraries can be imported")

    def running(self) -> bool:
        return any(program.poll() is None for _, program in self._started)

    def stop(self) -> list[tuple[str, Any]]:
        """Stop all programs; returns (name, last line as JSON) for each, None instead of the line if it failed or was
        killed."""
        for _, program in self._started:
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
        said = []
        for name, program in self._started:
            if program.poll_for(LONGEST_STOP_S) is None:
                program.kill_all()
            last = program.output.strip().splitlines()[-1:] if program.returncode == 0 else []
            said.append((name, json.loads(last[0]) if last else None))
        return said


def record_day(folder: Path, *, seconds: float, mix: Mix, seed: int, day: int = 0, progress: Progress = iter) -> Day:
    """Build the network in virtual time, let all programs work for `seconds`, and capture their traffic.

    folder : an existing folder for the capture. seed : seed of the campus (hosts, links, and which host uses which
    program). day : together with `seed`, the seed of the day's actions and their times.
    progress : wraps the iteration over the seconds.
    Raises NetreproError if libraries or the virtual kernel are missing, or if a program does not start.
    """
    check_libraries()
    with VirtualNetwork(campus(seed), seed=seed * 1000 + day, memory_mb=MEMORY_MB, syscall_cost_ns=0) as net:
        return _Run(net, folder, seconds, mix, seed, day).record(progress)


class _Run:
    def __init__(
        self,
        net: VirtualNetwork,
        folder: Path,
        seconds: float,
        mix: Mix,
        seed: int,
        day: int,
    ):
        self.net, self.scratch, self.seconds, self.mix, self.seed = net, net.folder, seconds, mix, seed
        # Every day has the same campus, so the campus and the day have separate random generators.
        self.campus, self.rng = np.random.default_rng([seed, 2]), np.random.default_rng([seed, day, 4])
        self.capture = folder / "all.pcap"
        self.stations = net.topology.hosts[:WORKSTATIONS]
        self.remotes = net.topology.hosts[WORKSTATIONS:]
        self.address = {host: net[host].address for host in net.topology.hosts}
        self.sysctls = {host: _stack(self.campus) for host in net.topology.hosts}
        self.begin_s = 0.0

    def record(self, progress: Progress) -> Day:
        swarms = self._make_swarms()
        tap, watchers, standing, clients = (_Programs(self.net) for _ in range(4))
        captured = self.scratch / self.capture.name
        interface = self.net.plan.ports[BORDER].arrival_interface
        tap.start("tap.py", "s1", "tap", interface=interface, capture=str(captured))
        for host in self.stations:
            interface = self.net.plan.ports["s1", host].arrival_interface
            watchers.start(
                "watcher.py",
                host,
                "watcher",
                interval_s=0.05,
                sysctls=self.sysctls[host],
                whole_packets=interface,
            )
        for host in self.remotes:
            self._start_servers(standing, host)
        tap.begin()
        watchers.begin()
        standing.begin("aiohttp.web", "aiosmtpd.smtp", "asyncssh", "pyftpdlib.servers")
        self.net.sleep(READY_S)
        for group in (tap, watchers, standing):
            group.check_ready()
        self.begin_s = self.net.monotonic_s + 1
        self._start_peers(standing, swarms)
        self._start_media(standing)
        standing.begin("libtorrent")
        self._start_clients(clients)
        clients.begin("aiohttp", "asyncssh")
        standing_said: list[tuple[str, Any]] = []
        try:
            for second in progress(range(round(self.seconds) + 90)):
                self.net.sleep(1)
                if second > self.seconds and not clients.running():
                    break
        finally:
            said = clients.stop()
            standing_said = standing.stop()
        records = [row for _, rows in watchers.stop() for row in rows or []]
        ((_, counted),) = tap.stop()
        shutil.move(captured, self.capture)
        failed: dict[str, int] = {}
        for name, answer in (*said, *standing_said):
            program = name.partition(" ")[0]
            if program != "server":
                failed[program] = failed.get(program, 0) + (answer["failed"] if isinstance(answer, dict) else 1)
        table = pd.DataFrame(records, columns=RECORD_COLUMNS)
        known = table["application"].isin(PROTOCOLS)
        return Day(self.capture, table[known], counted["packets"], counted["missed"], failed)

    def _port(self, *usual: int) -> int:
        """Draw one of the usual ports or of three random ones."""
        return int(self.campus.choice((*usual, *self.campus.integers(1024, 32_000, 3))))

    def _times(self, count: int, until: float = 1.0) -> list[float]:
        return np.sort(self.rng.uniform(0, self.seconds * until, count)).tolist()

    def _shares(self, count: int, hosts: int) -> list[int]:
        """Split `count` at random among hosts, of which some are busier than others."""
        return self.rng.multinomial(count, self.rng.dirichlet(np.full(hosts, 4.0))).tolist()

    def _addresses(self, hosts: Iterable[str]) -> list[str]:
        return [self.address[host] for host in hosts]

    def _start_servers(self, programs: _Programs, host: str) -> None:
        content = self.scratch / f"files of {host}"
        content.mkdir()
        for i in range(6):
            (content / f"file{i}.bin").write_bytes(bytes(int(min(400_000, self.rng.lognormal(np.log(20_000), 1.3)))))
        certificate = self.scratch / f"{host}.pem"
        certificate.write_bytes(_certificate(self.campus))
        programs.start(
            "server.py", host, "server", **self._seeds(), sysctls=self.sysctls[host],
            certificate=str(certificate), content=str(content),
        )  # fmt: skip

    def _seeds(self) -> dict[str, Any]:
        return {"style": int(self.campus.integers(2**31)), "seed": int(self.rng.integers(2**31))}

    def _some(self, hosts: Iterable[str], count: int) -> list[str]:
        return [str(host) for host in self.campus.permutation(list(hosts))[:count]]

    def _start_clients(self, clients: _Programs) -> None:
        mix, remotes = self.mix, self._addresses(self.remotes)
        # (file, name, sessions, workstations that run it); a page is about three connections, an FTP session about two.
        kinds = (
            ("browser.py", "browser", max(1, round(mix.web / 3.2)), 10),
            ("mail.py", "mailclient", mix.mails, 7),
            ("ftp.py", "ftp", max(1, round(mix.others / 5)), 3),
            ("ssh.py", "ssh", max(1, round(mix.others / 2)), 4),
        )
        for file, name, sessions, hosts in kinds:
            chosen = self._some(self.stations, min(hosts, sessions))
            for host, count in zip(chosen, self._shares(sessions, len(chosen)), strict=True):
                servers = self._some(remotes, len(remotes) if name == "browser" else 5)
                clients.start(
                    file, str(host), name, **self._seeds(), campus=self.seed, begin_s=self.begin_s,
                    servers=servers, times_s=self._times(count),
                )  # fmt: skip

    def _start_media(self, programs: _Programs) -> None:
        stations, remotes = self._some(self.stations, 7), self._some(self.remotes, 8)
        port = {
            host: int(self.campus.choice((33033, 12350, 40001, *self.campus.integers(1024, 65535, 3))))
            for host in remotes
        }
        port |= {host: int(self.campus.integers(1024, 30_000)) for host in stations}
        incoming = round(self.mix.skype * 0.2)
        for own, others, total in (
            (stations, remotes, self.mix.skype - incoming),
            (remotes, stations, incoming),
        ):
            for host, count in zip(own, self._shares(total, len(own)), strict=True):
                programs.start(
                    "media.py", host, "skypelike", **self._seeds(), sysctls={}, begin_s=self.begin_s,
                    port=port[host], others=[(self.address[other], port[other]) for other in others],
                    times_s=self._times(count, 0.9),
                )  # fmt: skip

    def _make_swarms(self) -> list[Path]:
        """Make torrents of random content; returns their files."""
        import libtorrent

        content = self.scratch / "shared"
        content.mkdir()
        torrents = []
        swarms = self.mix.p2p / (SWARM_WORKSTATIONS * SWARM_REMOTES)
        for i in range(max(1, round(swarms)) if swarms else 0):
            name = content / f"content{i}.bin"
            size = int(min(12e6, max(3e5, self.rng.lognormal(np.log(1.7e6), 0.6))))
            name.write_bytes(self.rng.bytes(size))
            made = libtorrent.create_torrent(libtorrent.list_files(str(name)), 1 << int(self.rng.integers(16, 19)))
            made.set_priv(True)
            libtorrent.set_piece_hashes(made, str(content))
            torrents.append(self.scratch / f"{i}.torrent")
            torrents[-1].write_bytes(libtorrent.bencode(made.generate()))
        return torrents

    def _start_peers(self, programs: _Programs, torrents: list[Path]) -> None:
        stations, remotes = self._some(self.stations, 8), list(self.remotes)
        port = {
            host: int(self.campus.choice((6881, *self.campus.integers(6882, 65535, 4)))) for host in stations + remotes
        }
        swarms: dict[str, list[dict]] = {host: [] for host in stations + remotes}
        for torrent in torrents:
            begun_s = self.rng.uniform(0, 0.7 * self.seconds)
            local = [str(host) for host in self.rng.permutation(stations)[:SWARM_WORKSTATIONS]]
            far = [str(host) for host in self.rng.permutation(remotes)[:SWARM_REMOTES]]
            joins = {host: begun_s + min(0.2 * self.seconds, self.rng.exponential(6.0)) for host in local + far}
            seeds = {*far[:3], *(host for host in local + far if self.rng.random() < 0.15)}
            for host in local + far:
                others = [other for other in (far if host in local else local) if self._is_told(joins, host, other)]
                swarms[host].append(
                    {
                        "torrent": str(torrent),
                        "seed": host in seeds,
                        "join_s": joins[host],
                        "leave_s": joins[host] + self.rng.uniform(0.15, 0.5) * self.seconds,
                        "peers": [(self.address[other], port[other]) for other in others],
                    }
                )
        for host, entered in swarms.items():
            own_seeds = self._seeds()
            if entered:
                programs.start(
                    "peer.py", host, "bittorrent", **own_seeds, begin_s=self.begin_s, port=port[host],
                    swarms=entered, content=str(self.scratch / "shared"), folder=str(self.scratch),
                )  # fmt: skip

    def _is_told(self, joins: dict[str, float], host: str, other: str) -> bool:
        """Draw whether a host knows another peer: mostly if the other joined earlier, seldom if it joined later."""
        return bool(self.rng.random() < (0.95 if joins[other] < joins[host] else 0.07))


def _stack(rng: np.random.Generator) -> dict[str, int]:
    timestamps, scaling, selective, hops = STACKS[int(rng.integers(len(STACKS)))]
    return {
        "net/ipv4/tcp_timestamps": timestamps,
        "net/ipv4/tcp_window_scaling": scaling,
        "net/ipv4/tcp_sack": selective,
        "net/ipv4/ip_default_ttl": hops,
    }


def _certificate(rng: np.random.Generator) -> bytes:
    """Make a key and a chain of one to three certificates (PEM).

    The lengths are realistic and depend only on `rng`: all signatures of one kind have the same length.
    """
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
    from cryptography.x509.oid import NameOID

    def name(length: int) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "n" * length)])

    chain = []
    depth = int(rng.integers(1, 4))
    is_rsa = rng.random() < 0.7
    own_key: Any = None
    for i in range(depth):
        key: Any = rsa.generate_private_key(65537, 2048) if is_rsa else ed25519.Ed25519PrivateKey.generate()
        own_key = own_key or key
        names = [
            x509.DNSName(f"{'h' * int(rng.integers(5, 40))}{j}.example.org") for j in range(int(rng.integers(1, 12)))
        ]
        builder = x509.CertificateBuilder(
            issuer_name=name(int(rng.integers(10, 60))),
            subject_name=name(int(rng.integers(10, 60))),
            public_key=key.public_key(),
            serial_number=int(rng.integers(1, 2**62)),
            not_valid_before=datetime(2020, 1, 1, tzinfo=UTC),
            not_valid_after=datetime(2120, 1, 1, tzinfo=UTC),
        )
        if i == 0:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(key, hashes.SHA256() if is_rsa else None)
        chain.append(signed.public_bytes(serialization.Encoding.PEM))
    private = own_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return b"".join((private, *chain))
