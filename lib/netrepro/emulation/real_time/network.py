"""A network of real kernels: `with Emulation(topology) as net: net["h1"].run(["ping", "-c", "1", "h2"])`."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import pty
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import tty
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle

from netrepro.emulation import messages
from netrepro.emulation.messages import Request
from netrepro.emulation.netem import INSTEAD
from netrepro.emulation.plan import HUB, Plan, check_name, make_plan
from netrepro.emulation.real_time.cpu_limits import CpuLimits, check_cpu_limits
from netrepro.emulation.real_time.guests import Call, Guest, LauncherConnection, errno_text
from netrepro.emulation.real_time.recording import Recording
from netrepro.emulation.tiers import check_feature, probe_tiers, resolve_tier
from netrepro.emulation.virtual.network import VirtualEmulation
from netrepro.errors import NetreproError, nearest
from netrepro.networks.routing import Path, Routing
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

if TYPE_CHECKING:
    from netrepro.emulation.real_time.jupyter import NodeKernel

_GUEST = pathlib.Path(__file__).with_name("guest.py")
TIERS_OF_KERNELS = ("privileged", "rootless")


class Emulation:
    """A topology built of network namespaces, and everything that runs inside.

    topology : hosts, switches (routers that forward over all shortest paths, chosen flow by flow) and links. These are
        the kernel's shapers, with a drop-tail buffer; a bucket (a packet and 128 us) passes an idle link at once. What
        a link does beyond its rate and its buffer is the kernel's netem's, where it has one.
    tier : "auto", "privileged" or "rootless"; "virtual" makes a VirtualEmulation, in virtual time.
    congestion_control : of all hosts, or host -> name (others: cubic). Always set, because the machine's own
        default may be anything; "" leaves it to the programs' sockets.
    seed : of the routers' path choice and of losses.
    address_pool : hosts take its addresses from the first on (h1 10.0.0.1), switches from the last downwards.
    tcp : how hosts speak TCP, but for the congestion control; None leaves the kernel's own settings. Or host -> Tcp, to
        leave those of other hosts.
    routing : "ecmp", over all shortest paths, or "spanning_tree"; other addresses than those of `paths` have "ecmp"
        with "k_shortest_paths".
    paths : nodes from host to host; `net.path_address(path)` is an address of the last one that leads over the path.
    cpu_limits : host -> cores that its programs and functions may have together, such as 0.2. Control groups keep
        them where this process may make some, else nice +10 holds the programs back: `how_cpu_is_limited` says which.

    All of it lives in namespaces that one process owns; leaving the `with` block, Ctrl-C, or any end of the
    calling process ends that process, every guest, and so the network. The machine's own network is not touched.

    Raises NetreproError before anything is built for what `make_plan` refuses, for a tier that cannot be had and for
    links with more than a rate and a buffer where the kernel has no netem; on entering, for what the kernel refuses: a
    congestion control it lacks, a queue, a setting.
    """

    def __new__(cls, topology: Topology, tier: str = "auto", *arguments: Any, **keywords: Any) -> Any:
        if tier == "virtual":  # with the same nodes and programs, and another kernel
            return VirtualEmulation(topology, tier, *arguments, **keywords)
        return super().__new__(cls)

    def __init__(
        self,
        topology: Topology,
        tier: str = "auto",
        congestion_control: str | Mapping[str, str] = "cubic",
        seed: int = 1,
        address_pool: str = "10.0.0.0/8",
        tcp: Tcp | Mapping[str, Tcp] | None = None,
        routing: Routing | str = "ecmp",
        paths: Iterable[Path] = (),
        cpu_limits: Mapping[str, float] | None = None,
    ):
        self.plan: Plan = make_plan(topology, congestion_control, seed, address_pool, tcp, routing, paths)
        check_cpu_limits(topology, cpu_limits or {})
        self._cpu = CpuLimits(cpu_limits or {})
        self.topology = topology
        self.tier, self.why_tier = resolve_tier(tier, TIERS_OF_KERNELS, probe_tiers())
        if self.plan.wires:
            check_feature("netem", self.tier, INSTEAD)
        self._connection: LauncherConnection | None = None

    def __enter__(self) -> Emulation:
        if self._connection:
            raise NetreproError("this network is built already", "leave its with block first, or make another")
        try:
            self._connection = LauncherConnection(self.tier)
            self._cpu.open(self._connection)
            self.check_congestion_controls(set(self.plan.congestion_control.values()) - {""})
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the network and all that runs inside; does nothing the second time."""
        if self._connection:
            try:
                self._connection.close()
            finally:
                self._connection = None

    @property
    def launcher(self) -> LauncherConnection:
        """The connection to the process that owns the network. Raises NetreproError when it is not built."""
        if not self._connection:
            raise NetreproError("this network is not built", "use it inside `with Emulation(topology) as net:`")
        return self._connection

    def place(self, node: str) -> int:
        """The number of the node's namespace. Raises NetreproError, with the nearest name, for no node."""
        check_name(node, self.plan.nodes, "host or switch")
        return self.plan.nodes.index(node)

    def __getitem__(self, name: str) -> Node:
        """The host or switch of that name."""
        check_name(name, (*self.topology.hosts, *self.topology.switches), "host or switch")
        return Node(self, name)

    def path_address(self, path: Path) -> str:
        """The address of the path's last host that packets from its first one reach over the path."""
        if tuple(path) not in self.plan.path_addresses:
            raise NetreproError(f"no address for the path {' '.join(path)}", "name it in Emulation(paths=...)")
        return str(self.plan.path_addresses[tuple(path)])

    def send(self, requests: Mapping[str, Sequence[Request]]) -> None:
        """Send messages to the kernel inside nodes. Raises NetreproError for what it refuses."""
        wanted = [(node, list(each)) for node, each in requests.items()]
        batches = [(self.place(node), messages.batches(each)) for node, each in wanted]
        _raise_refusal(self.launcher.ask("send", batches=batches)[0], wanted)

    def open_socket(self, node: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the network of a host, a switch, or the hub, for the calling process. Raises OSError."""
        answer, descriptors = self.launcher.ask(
            "socket", place=self.place(node), kind=(int(family), int(kind), protocol)
        )
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return socket.socket(fileno=descriptors[0])

    def record(
        self,
        queues: Iterable[tuple[str, str]] = (),
        packets: Iterable[tuple[str, str]] = (),
        interval_ms: float = 1.0,
        most_packets: int = 200_000,
        captures: str | os.PathLike[str] | None = None,
    ) -> Recording:
        """Record ports (from, to) until the `with` block of the result ends.

        queues : ports whose queue is sampled every `interval_ms`.
        packets : ports whose every packet is stamped as it leaves, up to `most_packets` each.
        captures : a folder that gets a pcap with these packets for each such port, "s1-s2.pcap", when the block ends:
            their headers and first bytes, with stamps of nanoseconds.

        Raises NetreproError for ports and folders that are not there.
        """
        folder = None if captures is None else pathlib.Path(captures)
        return Recording(self, tuple(queues), tuple(packets), interval_ms, most_packets, folder)

    def check_congestion_controls(self, names: Iterable[str]) -> None:
        """Raises NetreproError for a congestion control that this kernel lacks or denies."""
        missing = self.launcher.ask("congestion_controls", names=sorted(names))[0]["missing"]
        for name, number in missing.items():
            known = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
            raise NetreproError(
                f"this kernel has no congestion control {name!r} ({errno_text(number)})",
                f"{nearest(name, known)}; there are {', '.join(known)}; or use tier 'virtual' or 'simulated'",
            )

    @property
    def how_cpu_is_limited(self) -> str:
        """What keeps `cpu_limits`, in words; "" without any."""
        return self._cpu.kept_by

    def limits_of(self, node: str) -> dict[str, Any]:
        """What holds a program of the node back, as Guest takes it."""
        return {"nice": self._cpu.nice(node), "control_group": self._cpu.folder(node)}

    def _build(self) -> None:
        plan = self.plan
        order = [(HUB, plan.cables), *((node, plan.requests[node]) for node in plan.requests)]
        place_of = {node: place for place, node in enumerate(plan.nodes)}
        answer, _ = self.launcher.ask(
            "build",
            sysctls=[plan.sysctls[node] for node in plan.nodes],
            batches=[(place_of[node], messages.batches(wanted)) for node, wanted in order],
            host_names="".join(f"{address}\t{node}\n" for node, address in plan.addresses.items()),
        )
        if "namespaces" in answer:
            raise NetreproError(
                f"{len(plan.nodes)} namespaces are needed, and this machine gives {answer['namespaces']}: "
                f"{errno_text(answer['errno'])}",
                "raise `ulimit -n` and sysctl user.max_net_namespaces, or take a smaller topology",
            )
        if "refused" in answer:
            raise _refused_setting(answer["refused"], answer["errno"])
        _raise_refusal(answer, order)


def _raise_refusal(answer: Mapping[str, Any], requests: Sequence[tuple[str, Sequence[Request]]]) -> None:
    if answer:
        node, asked = requests[answer["entry"]]
        said = f" ({answer['said']})" if answer["said"] else ""
        where = "" if node == HUB else f" at {node}"
        raise NetreproError(
            f"this kernel refuses {asked[answer['number'] - 1].purpose}{where}: {errno_text(answer['errno'])}{said}",
            "see what it has with `netrepro doctor`, or use tier 'simulated'",
        )


def _refused_setting(name: str, number: int) -> NetreproError:
    if number == errno.ENOENT:
        return NetreproError(f"this kernel has no setting {name}", "use a newer kernel, or tier 'simulated'")
    return NetreproError(
        f"the kernel setting {name} cannot be set: {errno_text(number)}",
        "in a container, allow writing /proc/sys/net; or use tier 'simulated'",
    )


class Node:
    """A host or switch: where programs, functions and sockets are opened in its network."""

    def __init__(self, net: Emulation, name: str):
        self.net, self.name = net, name

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return str(self.net.plan.addresses[self.name])

    def popen(
        self,
        command: Sequence[str],
        *,
        text: bool = True,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> Guest:
        """Start a program with its standard streams as pipes. Raises NetreproError when it cannot be started."""
        ours, theirs = [], []
        for writable in (True, False, False):
            reader, writer = os.pipe()
            ours.append(writer if writable else reader)
            theirs.append(reader if writable else writer)
        try:
            streams = [
                os.fdopen(end, ("w" if writable else "r") + ("" if text else "b"), buffering=1 if text else -1)
                for end, writable in zip(ours, (True, False, False), strict=True)
            ]
            try:
                return Guest(
                    self.net.launcher,
                    self.net.place(self.name),
                    command,
                    theirs,
                    text=text,
                    **self.net.limits_of(self.name),
                    environment=None if environment is None else dict(environment),
                    folder=folder,
                    stdin=streams[0],
                    stdout=streams[1],
                    stderr=streams[2],
                )
            except BaseException:
                for stream in streams:
                    stream.close()
                raise
        finally:
            for end in theirs:
                os.close(end)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        input: str | None = None,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> subprocess.CompletedProcess:
        """Run a program to its end and return its status, output and error output.

        Raises NetreproError when it cannot be started, or with `check` when it fails; subprocess.TimeoutExpired, with
        what came until then, when it takes longer than `timeout` seconds. That and Ctrl-C end it and what it started.
        """
        with self.popen(command, environment=environment, folder=folder) as guest:
            try:
                output, complaints = guest.communicate(input, timeout)
            except BaseException:
                guest.kill_all()
                raise
        if check and guest.returncode:
            last = (complaints.strip() or output.strip()).splitlines()[-1:]
            raise NetreproError(
                f"{shlex.join(map(str, command))} failed on {self.name} with status {guest.returncode}"
                + (f": {last[0]}" if last else ""),
                "with check=False its status and output are returned instead",
            )
        return subprocess.CompletedProcess(list(command), guest.returncode or 0, output, complaints)

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
        """Begin to run a Python function inside, in a process of its own; what it prints is not kept."""
        with tempfile.TemporaryFile() as call:
            call.write(cloudpickle.dumps(sys.path) + cloudpickle.dumps((function, arguments, keywords)))
            call.seek(0)
            outcome, complaints = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
            with pathlib.Path(os.devnull).open("wb") as nowhere:
                streams = [each.fileno() for each in (call, nowhere, complaints, outcome)]
                command = [sys.executable, "-P", str(_GUEST)]
                guest = Guest(
                    self.net.launcher, self.net.place(self.name), command, streams, **self.net.limits_of(self.name)
                )
        return Call(guest, outcome, complaints)

    def python(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What a Python function returns when it runs inside; raises what it raises."""
        return self.start(function, *arguments, **keywords).result()

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """A socket in this node's network for the calling process to use, whatever network that is in itself."""
        return self.net.open_socket(self.name, family, kind, protocol)

    def jupyter_kernel(self) -> NodeKernel:
        """A Jupyter kernel inside: its client, ready to execute. It ends with its `with` block, or the network.

        Others of the same user join it by the client's `connection_file`, as `jupyter console --existing FILE` does.
        Raises NetreproError when it cannot be started.
        """
        from netrepro.emulation.real_time.jupyter import NodeKernel  # takes longer to import than a network to build

        return NodeKernel(self.net.launcher, self.net.place(self.name), self.name, self.net.limits_of(self.name))

    def shell(self, command: Sequence[str] = ("bash",)) -> int:
        """A shell inside, on the terminal that this is called from, until it ends; returns its exit status.

        Raises NetreproError where there is no terminal, as in a notebook.
        """
        if not (os.isatty(0) and os.isatty(1)):
            raise NetreproError(
                "a shell needs a terminal, and there is none here", f"in a terminal: {self.enter_command}"
            )
        own, theirs = pty.openpty()
        try:
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(own, termios.TIOCSWINSZ, size)
            guest = Guest(
                self.net.launcher,
                self.net.place(self.name),
                command,
                (theirs, theirs, theirs),
                terminal=True,
                **self.net.limits_of(self.name),
            )
        finally:
            os.close(theirs)
        before = termios.tcgetattr(0)
        tty.setraw(0)
        try:
            _copy_terminal(own)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            os.close(own)
        guest.send_signal(signal.SIGHUP)
        return guest.wait()

    @property
    def enter_command(self) -> str:
        """What to type in another terminal of the same user for a shell inside."""
        process = self.net.launcher.first_process
        user = "--preserve-credentials -U " if self.net.tier == "rootless" else ""
        descriptor = self.net.plan.descriptor(self.name)
        return f"nsenter {user}-t {process} --net=/proc/{process}/fd/{descriptor} -m -p"


def _copy_terminal(own: int) -> None:
    """Keys to the shell and its output back, until it ends."""
    while True:
        ready, _, _ = select.select([0, own], [], [])
        try:
            if own in ready:
                shown = os.read(own, 65536)
                if not shown:
                    return
                os.write(1, shown)
            if 0 in ready:
                os.write(own, os.read(0, 4096))
        except OSError:  # EIO: the last program on the terminal has ended
            return
