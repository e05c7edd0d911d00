"""Two hosts with a container each, joined by an overlay of this machine's kernel, with ONCache's programs or without.

Hosts and containers are network namespaces. A host has a bridge, a routed VXLAN (or GENEVE) device and a "network card"
(one end of a veth pair), with the kernel's own forwarding, netfilter and connection tracking between them. Needs root.
The caches' programs are compiled on this machine (clang) and loaded by bpftool, with one set of maps for each host.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import platform
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from netrepro.emulation.overlay.iptables import iptables_program, restore_input
from netrepro.emulation.overlay.kube_proxy import filter_rules, nat_rules
from netrepro.emulation.tiers import missing_feature
from netrepro.errors import NetreproError
from netrepro.programs import need_program, why_missing

SOURCES = Path(__file__).with_name("sources")
TUNNEL_PORTS = {"vxlan": 4789, "geneve": 6081}
COUNTERS = ("egress_hit", "egress_miss", "ingress_hit", "ingress_miss", "egress_learned", "ingress_learned")
CACHES = ("to_host", "to_route", "containers", "filter")
NETFILTERS = ("nothing", "overlay", "kube-proxy")
KINDS = ("tcp_rr", "udp_rr", "tcp_stream", "udp_stream")
MOST_FLOWS, FIRST_PORT = 256, 5000
TUNNEL_BYTES = 50  # Ethernet, IP, UDP and tunnel headers around a container's packet
_BUILDING = (
    *("clang", "bpftool", "ip", "bridge", "tc", "iptables", "iptables-restore", "ethtool"),
    *("sysctl", "mount", "umount", "nsenter"),
)
_TRAFFIC = ("cc", "taskset", "chrt", "nice")
HEADER = Path("/usr/include/bpf/bpf_helpers.h")
_RUN = Path("/run")
_PREFIX = "nrov"  # then the process id: a later process removes what an ended process left
_LIBC = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count()


@dataclass(frozen=True)
class Cache:
    """Options for compiling the cache's programs: sizes of the maps, and parts that can be left out or changed.

    route_check : True if the reverse check of arriving packets needs an entry for the route, too, not only for the
    other host. constant_port : UDP source port of all tunnelled packets, 0 for one that depends on the flow. prints :
    True to log to the kernel's trace.
    """

    host_entries: int = 4096
    route_entries: int = 1024
    container_entries: int = 1024
    filter_entries: int = 4096
    reverse_check: bool = True
    route_check: bool = False
    constant_port: int = 0
    prints: bool = False


@dataclass(frozen=True)
class Overlay:
    """The description of a network of two hosts.

    tunnel : "vxlan" or "geneve". cache : options of ONCache's programs, or None for the overlay alone. rules : number
    of rules, none of which matches, in the chain for forwarded packets. marks : True if the overlay marks packets of
    established connections. steering : True if network cards spread packets over processors by their outer headers.
    segmentation : True if containers send segments of 64 KB that are cut later. packet_bytes : greatest IP packet of
    the containers; the hosts' cards take 50 bytes more. netfilter : what the hosts' netfilter has: "nothing" (then no
    connection is tracked, and no packet marked), "overlay" or "kube-proxy" (kube-proxy's rules besides).
    """

    tunnel: str = "vxlan"
    cache: Cache | None = None
    rules: int = 0
    marks: bool = True
    steering: bool = False
    segmentation: bool = True
    packet_bytes: int = 1450
    netfilter: str = "overlay"


@dataclass(frozen=True)
class Traffic:
    """The result of one run of the traffic program.

    count : transactions, bytes received or datagrams received. seconds : the duration of the longest flow.
    client_s, server_s : processor time of their programs, including the kernel's work that is charged to them.
    """

    count: float
    seconds: float
    client_s: float
    server_s: float

    @property
    def rate(self) -> float:
        """The count per second of all flows together."""
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def processor_us(self) -> float:
        """The processor time of one transaction, byte or datagram, in microseconds: client and server together."""
        return self.client_us + self.server_us

    @property
    def client_us(self) -> float:
        """The client's part of processor_us."""
        return 1e6 * self.client_s / self.count if self.count else float("nan")

    @property
    def server_us(self) -> float:
        """The server's part of processor_us."""
        return 1e6 * self.server_s / self.count if self.count else float("nan")


def missing_for_overlays() -> str:
    """Return, in words, what this machine lacks for overlays and their caches; "" where nothing is missing."""
    why = missing_feature("eBPF program", "privileged") or missing_feature("VXLAN", "privileged")
    if why:
        return why
    return why_missing(*_TRAFFIC) or missing_for_trials()


def missing_for_trials() -> str:
    """Return, in words, which programs and headers of trials on any kernel are missing here; "" for none."""
    missing = why_missing(*_BUILDING)
    return missing or ("" if HEADER.exists() else f"libbpf's headers are not installed (no {HEADER})")


@functools.cache
def missing_for_kube_proxy() -> str:
    """Return, in words, why this machine's kernel cannot have kube-proxy's rules; "" where it can. Needs root."""
    missing = why_missing("unshare", "iptables", "iptables-restore")
    if missing:
        return missing
    words = [need_program("unshare"), "--net", need_program(iptables_program("-restore"))]
    given = restore_input(filter=filter_rules(), nat=nat_rules())
    done = subprocess.run(words, input=given, capture_output=True, text=True)
    why = (done.stderr.strip().splitlines() or ["no reason given"])[0]
    return f"kube-proxy's rules are refused by this kernel's netfilter: {why}" if done.returncode else ""


class OverlayNetwork:
    """A running network of two hosts, numbered 1 and 2, with a container each; use it as a context manager.

    programs : object file from compiled_programs; None to compile one. A function that runs inside a virtual kernel can
    build the network there. Raises NetreproError for a bad description, and for what the machine lacks.
    """

    def __init__(self, overlay: Overlay, programs: Path | None = None):
        if overlay.tunnel not in TUNNEL_PORTS:
            raise NetreproError(f"tunnel = {overlay.tunnel!r}", f"give one of {', '.join(TUNNEL_PORTS)}")
        if not 0 <= overlay.rules <= 60_000:
            raise NetreproError(f"rules = {overlay.rules}", "give 0 to 60000")
        if overlay.netfilter not in NETFILTERS:
            raise NetreproError(f"netfilter = {overlay.netfilter!r}", f"give one of {', '.join(NETFILTERS)}")
        if overlay.netfilter == "nothing" and (overlay.rules or overlay.cache):
            raise NetreproError("netfilter = 'nothing' with rules or a cache", "leave these out, or the netfilter")
        if not 576 <= overlay.packet_bytes <= 9000 - TUNNEL_BYTES:
            raise NetreproError(f"packet_bytes = {overlay.packet_bytes}", "give 576 to 8950")
        for name in ("host_entries", "route_entries", "container_entries", "filter_entries"):
            if overlay.cache and getattr(overlay.cache, name) < 1:
                raise NetreproError(f"{name} = {getattr(overlay.cache, name)}", "give 1 or more")
        if overlay.cache and not 0 <= overlay.cache.constant_port < 1 << 16:
            raise NetreproError(f"constant_port = {overlay.cache.constant_port}", "give a port, 0 for none")
        self.overlay, self._programs = overlay, programs
        self.name = f"{_PREFIX}{os.getpid()}x{next(_numbers)}"
        self.pins = _RUN / self.name
        self._ports = itertools.cycle(range(FIRST_PORT, 30_000, MOST_FLOWS))

    def host(self, number: int) -> str:
        """Return the name of a host's namespace."""
        return f"{self.name}h{number}"

    def container(self, number: int) -> str:
        """Return the name of the namespace of a host's container."""
        return f"{self.name}c{number}"

    @staticmethod
    def address(number: int, bare: bool = False) -> str:
        """Return the IPv4 address of a host's container, or with `bare` of the host's network card."""
        return f"192.168.77.{number}" if bare else f"10.10.{number}.2"

    def __enter__(self) -> OverlayNetwork:
        missing = "" if self._programs else missing_for_overlays()  # compiling them has checked the machine
        if missing:
            raise NetreproError(f"no overlay can be built on this machine: {missing}", "see `netrepro doctor`")
        remove_orphans()
        try:
            self._build()
            if self.overlay.cache:
                self._load(self.overlay.cache)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the network's namespaces and its maps."""
        _remove(self.name)

    # Building.

    def _build(self) -> None:
        for number in (1, 2):
            for name in (self.host(number), self.container(number)):
                _run(["ip", "netns", "add", name])
        _ip(f"link add nic netns {self.host(1)} type veth peer name nic netns {self.host(2)}")
        for number in (1, 2):
            self._build_host(number, 3 - number)

    def _build_host(self, number: int, other: int) -> None:
        host, container, port = self.host(number), self.container(number), TUNNEL_PORTS[self.overlay.tunnel]
        own, far = self.address(number, bare=True), self.address(other, bare=True)
        packet = self.overlay.packet_bytes
        kind = (
            f"vxlan id 1 local {own} dstport {port} dev nic nolearning noudpcsum"
            if self.overlay.tunnel == "vxlan"
            else f"geneve id 1 remote {far} dstport {port} noudpcsum"
        )
        lines = [
            "link set lo up",
            f"link set nic address {_mac(1, number)} mtu {packet + TUNNEL_BYTES} up",
            f"addr add {own}/24 dev nic",
            "link add bridge type bridge",
            f"link set bridge address {_mac(2, number)} up",
            f"addr add 10.10.{number}.1/24 dev bridge",
            f"link add veth0 mtu {packet + TUNNEL_BYTES} type veth peer name eth0 netns {container}",
            "link set veth0 master bridge up",
            f"link add tunnel mtu {packet} address {_mac(3, number)} type {kind}",
            "link set tunnel up",
            f"addr add 10.10.{number}.0/32 dev tunnel",
            f"route add 10.10.{other}.0/24 via 10.10.{other}.0 dev tunnel onlink",
            f"neigh replace 10.10.{other}.0 lladdr {_mac(3, other)} dev tunnel nud permanent",
        ]
        try:
            _ip(*lines, namespace=host)
        except NetreproError as error:
            if "nknown device type" in error.problem:
                raise NetreproError(f"this kernel has no {self.overlay.tunnel}", "take the other tunnel") from None
            raise
        _ip(
            "link set lo up",
            f"link set eth0 address {_mac(4, number)} mtu {packet} up",
            f"addr add {self.address(number)}/24 dev eth0",
            f"route add default via 10.10.{number}.1",
            namespace=container,
        )
        if self.overlay.tunnel == "vxlan":
            _run(["bridge", "-n", host, "fdb", "append", _mac(3, other), "dev", "tunnel", "dst", far])
        chain = [f"-A FORWARD -s 203.0.{rule >> 8}.{rule & 255} -j DROP" for rule in range(self.overlay.rules)]
        mark = "-A FORWARD -m conntrack --ctstate ESTABLISHED -m dscp --dscp 0x1 -j DSCP --set-dscp 0x3"
        # A rule on the connections' state turns on connection tracking, for the overlay with and without caches.
        asks = mark if self.overlay.marks else mark.replace("--set-dscp 0x3", "--set-dscp 0x1")
        tables = {"mangle": [asks], "filter": chain}
        if self.overlay.netfilter == "kube-proxy":
            tables |= {"filter": [*filter_rules(), *chain], "nat": nat_rules()}
        self.inside(host, ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        if self.overlay.netfilter != "nothing":
            self.inside(host, [iptables_program("-restore")], given=restore_input(**tables))
        if self.overlay.steering:
            everyone = f"{(1 << min(os.cpu_count() or 1, 32)) - 1:x}"
            write = f"echo {everyone} > /sys/class/net/nic/queues/rx-0/rps_cpus"
            _run(["ip", "netns", "exec", host, "sh", "-c", write])  # ip netns exec mounts the namespace's /sys
        if not self.overlay.segmentation:
            self.inside(container, ["ethtool", "-K", "eth0", "tso", "off", "gso", "off"])

    def _load(self, cache: Cache) -> None:
        with (
            nullcontext(self._programs) if self._programs else compiled_programs(cache, self.overlay.tunnel) as program
        ):
            self._load_programs(program)

    def _load_programs(self, program: Path) -> None:
        self.pins.mkdir()
        _run(["mount", "-t", "bpf", "bpf", str(self.pins)])
        for number in (1, 2):
            pins, host, container = self._pins(number), self.host(number), self.container(number)
            pins.mkdir()
            _run(["bpftool", "prog", "loadall", str(program), str(pins), "type", "tc", "pinmaps", str(pins)])
            nic, veth = (self._index(host, name) for name in ("nic", "veth0"))
            address = bytes(map(int, self.address(number, bare=True).split(".")))
            self._update(number, "hosts", nic.to_bytes(4, "little"), address + _mac_bytes(_mac(1, number)) + bytes(2))
            self.register(number, veth)
            for namespace, device, direction, name in (
                (host, "veth0", "ingress", "egress"),
                (host, "nic", "egress", "egress_init"),
                (host, "nic", "ingress", "ingress"),
                (container, "eth0", "ingress", "ingress_init"),
            ):
                if direction == "ingress" or name == "egress_init":
                    self.inside(namespace, ["tc", "qdisc", "replace", "dev", device, "clsact"])
                words = ["filter", "add", "dev", device, direction, "bpf", "da", "pinned", str(pins / name)]
                self.inside(namespace, ["tc", *words])

    def _index(self, namespace: str, device: str) -> int:
        return int(json.loads(_run(["ip", "-n", namespace, "-j", "link", "show", device]))[0]["ifindex"])

    def _pins(self, number: int) -> Path:
        return self.pins / str(number)

    @staticmethod
    def inside(namespace: str, command: list[str], given: str = "") -> str:
        """Run a command in one of the namespaces and return its output."""
        return _run([*_within(namespace), need_program(command[0]), *command[1:]], given)

    # The work of ONCache's daemon.

    def register(self, number: int, veth: int | None = None) -> None:
        """Enter a host's container into the host's cache; the cache learns the rest from packets."""
        veth = veth or self._index(self.host(number), "veth0")
        self._update(number, "containers", _address_bytes(self.address(number)), veth.to_bytes(4, "little") + bytes(12))

    def entries(self, number: int, cache: str) -> list[tuple[bytes, bytes]]:
        """List the (key, value) pairs of one of a host's caches. cache : one of CACHES."""
        dumped = json.loads(_run(["bpftool", "-j", "map", "dump", "pinned", str(self._pins(number) / cache)]))
        return [(_bytes(each["key"]), _bytes(each["value"])) for each in dumped]

    def evict(self, number: int, cache: str) -> int:
        """Remove all entries of one of a host's caches and return their number.

        The cache "containers" gets the host's container again.
        """
        keys = [key for key, _ in self.entries(number, cache)]
        for key in keys:
            self._map("delete", number, cache, "key", "hex", *_hex(key))
        if cache == "containers":
            self.register(number)
        return len(keys)

    def pause(self, paused: bool) -> None:
        """Stop both hosts' caches from learning, or let them learn again."""
        for number in (1, 2):
            self._update(number, "paused", bytes(4), int(paused).to_bytes(4, "little"))

    def refuse(self, port: int, delete: bool = True) -> None:
        """Make host 2 drop packets to a UDP port, by delete-and-reinitialise. delete : False to skip the deletion."""
        self.pause(True)
        rule = [iptables_program(), "-I", "FORWARD", "-p", "udp", "--dport", str(port), "-j", "DROP"]
        if delete:
            for number in (1, 2):
                for key, _ in self.entries(number, "filter"):
                    if port.to_bytes(2, "big") in (key[8:10], key[10:12]):
                        self._map("delete", number, "filter", "key", "hex", *_hex(key))
        self.inside(self.host(2), rule)
        self.pause(False)

    def counters(self, number: int) -> dict[str, int]:
        """Return a host's numbers of packets that hit, missed and taught its caches: name (COUNTERS) -> number."""
        dumped = json.loads(_run(["bpftool", "-j", "map", "dump", "pinned", str(self._pins(number) / "counters")]))
        sums = [sum(int.from_bytes(_bytes(cpu["value"]), "little") for cpu in each["values"]) for each in dumped]
        return dict(zip(COUNTERS, sums, strict=True))

    def _update(self, number: int, name: str, key: bytes, value: bytes) -> None:
        self._map("update", number, name, "key", "hex", *_hex(key), "value", "hex", *_hex(value))

    def _map(self, what: str, number: int, name: str, *words: str) -> None:
        _run(["bpftool", "map", what, "pinned", str(self._pins(number) / name), *words])

    # Trials.

    @contextmanager
    def conversation(self, own_port: int, far_port: int) -> Iterator[Conversation]:
        """Yield a UDP flow from container 1 to container 2, to send its packets one by one."""
        with ExitStack() as opened:
            ends = [
                opened.enter_context(_socket_in(self.container(number), self.address(number), port))
                for number, port in ((1, own_port), (2, far_port))
            ]
            for end, (number, port) in zip(ends, ((2, far_port), (1, own_port)), strict=True):
                end.connect((self.address(number), port))
            yield Conversation(self, *ends)

    def forget_connections_after(self, seconds: int) -> None:
        """Set how long the hosts' connection tracking remembers a UDP connection without packets."""
        for number in (1, 2):
            for name in ("udp_timeout", "udp_timeout_stream"):
                self.inside(self.host(number), ["sysctl", "-qw", f"net.netfilter.nf_conntrack_{name}={seconds}"])

    # Traffic.

    def run_traffic(
        self,
        kind: str,
        seconds: float,
        flows: int = 1,
        bare: bool = False,
        one_processor: bool = False,
        datagram_bytes: int = 1400,
    ) -> Traffic:
        """Send from the first container (with `bare`, host) to the second; each flow has a process at both ends.

        kind : one of KINDS. Each host's processes use one half of the processors, as on two machines; with
        `one_processor` all use the same one. Otherwise the rate would depend on whether the kernel puts both ends of a
        flow on one processor. They have real-time priority, so that other work on the machine does not interrupt them;
        the kernel limits that to 0.95 s of each second. Streams are counted at the receiver. datagram_bytes : of UDP's
        streams; what a packet cannot hold is sent in fragments.

        Raises NetreproError for an unknown kind, bad numbers, and traffic that fails or does not end in time.
        """
        if kind not in KINDS:
            raise NetreproError(f"kind = {kind!r}", f"give one of {', '.join(KINDS)}")
        if not 1 <= flows <= MOST_FLOWS or not 0 < seconds <= 3600:
            raise NetreproError(f"{flows} flows for {seconds} s", f"give 1 to {MOST_FLOWS} flows, and a time")
        if not 2 <= datagram_bytes <= 65_507:
            raise NetreproError(f"datagram_bytes = {datagram_bytes}", "give 2 to 65507")
        program, port = str(traffic_program()), str(next(self._ports))
        where = self.host if bare else self.container
        words = [kind, self.address(2, bare), port, str(flows)]
        apart = partial(_apart, kind=kind, flows=flows, one_processor=one_processor)
        with subprocess.Popen(
            [*apart(2), *_within(where(2)), program, "server", *words], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout
                server.stdout.readline()
                more = [str(seconds), str(datagram_bytes)]
                client = _run([*apart(1), *_within(where(1)), program, "client", *words, *more], timeout_s=seconds + 10)
                at_its_server, _ = server.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                raise NetreproError(f"{kind} of {flows} flows does not end", "see whether packets pass") from None
            finally:
                server.kill()
        at_client, at_server = (list(map(float, line.split())) for line in (client, at_its_server))
        counted = at_server if kind.endswith("stream") else at_client
        return Traffic(counted[0], counted[1], at_client[2], at_server[2])


@dataclass(frozen=True)
class Conversation:
    """The two ends of a UDP flow, as connected sockets."""

    net: OverlayNetwork
    client: socket.socket
    server: socket.socket

    def exchange(self, times: int = 1) -> int:
        """Send so many requests; answer each that arrives. Return how many requests and answers arrived."""
        arrived = 0
        for _ in range(times):
            for sender, receiver in ((self.client, self.server), (self.server, self.client)):
                sender.send(b"x")
                try:
                    receiver.recv(16)
                except TimeoutError:
                    break
                arrived += 1
        return arrived

    def is_fast(self, times: int = 3) -> bool:
        """Make so many exchanges; tell whether all packets arrive without a miss in either host's cache."""
        before = [self.net.counters(number) for number in (1, 2)]
        arrived = self.exchange(times)
        after = [self.net.counters(number) for number in (1, 2)]
        missed = ("egress_miss", "ingress_miss")
        return arrived == 2 * times and all(
            a[name] == b[name] for a, b in zip(after, before, strict=True) for name in missed
        )


def _socket_in(namespace: str, address: str, port: int) -> socket.socket:
    """Open a UDP socket in another network namespace; only the calling thread enters it, and returns."""
    with Path("/proc/thread-self/ns/net").open() as own, Path("/run/netns", namespace).open() as other:
        _enter(other.fileno())
        try:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            _enter(own.fileno())
    opened.bind((address, port))
    opened.settimeout(0.3)
    return opened


def _enter(descriptor: int) -> None:
    if _LIBC.setns(descriptor, 0x40000000) < 0:  # CLONE_NEWNET
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def remove_orphans() -> None:
    """Remove networks of processes that have ended without removing them."""
    names = [path.name for folder in (Path("/run/netns"), _RUN) for path in folder.glob(f"{_PREFIX}*x*")]
    for name in {name.split("h")[0].split("c")[0] for name in names}:
        owner = name.removeprefix(_PREFIX).split("x")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            _remove(name)


def _remove(name: str) -> None:
    for path in Path("/run/netns").glob(f"{name}[hc][12]"):
        subprocess.run([need_program("ip"), "netns", "delete", path.name], capture_output=True)
    if (_RUN / name).exists():
        subprocess.run([need_program("umount"), str(_RUN / name)], capture_output=True)
        with suppress(FileNotFoundError):  # another process may remove the same orphan at the same time
            (_RUN / name).rmdir()


@contextmanager
def compiled_programs(cache: Cache, tunnel: str = "vxlan") -> Iterator[Path]:
    """Compile the caches' programs; yield the object file, which exists within the context.

    Raises NetreproError where they do not compile.
    """
    settings = {
        "TUNNEL_PORT": TUNNEL_PORTS[tunnel],
        "L1_ENTRIES": cache.host_entries,
        "L2_ENTRIES": cache.route_entries,
        "INGRESS_ENTRIES": cache.container_entries,
        "FILTER_ENTRIES": cache.filter_entries,
        "REVERSE_CHECK": int(cache.reverse_check),
        "ROUTE_CHECK": int(cache.route_check),
        "CONSTANT_PORT": cache.constant_port,
        "PRINTS": int(cache.prints),
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "oncache.o"
        words = [f"-D{name}={value}" for name, value in settings.items()]
        words += [f"-I/usr/include/{platform.machine()}-linux-gnu", "-c", str(SOURCES / "oncache.bpf.c")]
        _run(["clang", "-O2", "-g", "-target", "bpf", *words, "-o", str(out)])
        yield out


@functools.cache
def _folder_of_programs() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="netrepro-traffic-")


@functools.cache
def traffic_program() -> Path:
    """Return the traffic program, which is compiled once per process. Raises NetreproError where that fails."""
    out = Path(_folder_of_programs().name) / "traffic"
    _run(["cc", "-O2", str(SOURCES / "traffic.c"), "-o", str(out)])
    return out


def _apart(number: int, kind: str, flows: int, one_processor: bool) -> list[str]:
    """Make the command prefix that binds a program to its host's processors and gives it priority.

    Each host has half of the processors; with `one_processor` all programs have the first. Several streams only get a
    favourable nice value: with real-time priority one stream would block the next for longer than the run lasts.
    """
    processors = sorted(os.sched_getaffinity(0))
    half = len(processors) // 2
    own = processors[:1] if one_processor or not half else processors[:half] if number == 1 else processors[half:]
    several = kind.endswith("stream") and flows > 1
    first = [need_program("nice"), "-n", "-20"] if several else [need_program("chrt"), "-f", "1"]
    return [*first, need_program("taskset"), "-c", ",".join(map(str, own))]


def _within(namespace: str) -> list[str]:
    return [need_program("nsenter"), f"--net=/run/netns/{namespace}"]


def _ip(*lines: str, namespace: str = "") -> None:
    _run(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], "\n".join(lines) + "\n")


def _run(command: list[str], given: str = "", timeout_s: float = 60.0) -> str:
    words = [need_program(command[0]), *command[1:]]
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = next((line for line in lines if "rror" in line), lines[-1] if lines else f"status {done.returncode}")
        raise NetreproError(f"{' '.join(command)[:200]}: {why.strip()}", "see `netrepro doctor`")
    return done.stdout


def _mac(kind: int, number: int) -> str:
    return f"02:00:00:00:{kind:02x}:{number:02x}"


def _mac_bytes(text: str) -> bytes:
    return bytes(int(part, 16) for part in text.split(":"))


def _address_bytes(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def _hex(content: bytes) -> list[str]:
    return [f"{byte:02x}" for byte in content]


def _bytes(words: list[str]) -> bytes:
    return bytes(int(word, 16) for word in words)
