"""A network of this machine's kernel, in real time: namespaces that one process owns."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import pty
import select
import signal
import socket
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from netrepro.emulation import messages
from netrepro.emulation.call import CALL_GUEST, Call, pickled_call
from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.netem import INSTEAD
from netrepro.emulation.network import Network, Node
from netrepro.emulation.plan import HUB, Plan, check_name, make_plan
from netrepro.emulation.real_time.changes import Links, make
from netrepro.emulation.real_time.cpu_limits import CpuLimits, check_cpu_limits
from netrepro.emulation.real_time.guests import Guest, LauncherConnection, errno_text, last_line
from netrepro.emulation.real_time.recording import RealTimeRecording
from netrepro.emulation.real_time.running import Made
from netrepro.emulation.recording import folder_for_captures
from netrepro.emulation.refusals import check_change
from netrepro.emulation.tiers import check_feature, probe_tiers, resolve_tier
from netrepro.errors import NetreproError, nearest
from netrepro.networks.routing import LinkChange, Path, Routing
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import CONTROLS_OF_THE_SIMULATOR, Tcp

if TYPE_CHECKING:
    from netrepro.emulation.real_time.jupyter import RealTimeJupyterKernel

TIERS_OF_KERNELS = ("privileged", "rootless")


class RealTimeNetwork(Network):
    """A topology built of network namespaces, and everything that runs inside.

    Links are the kernel's shapers (token bucket filters) with a drop-tail buffer. A burst of one bucket (a packet and
    128 us at the link's rate) passes an idle link at once. The kernel's netem adds delay, jitter, loss and reordering.
    Arguments are those of Emulation; tier : "auto", "privileged" or "rootless".

    One process owns all namespaces. Leaving the `with` block, Ctrl-C, or any end of the calling process ends that
    process, every guest, and so the network. The machine's own network is not touched.

    Raises NetreproError before anything is built for what `make_plan` refuses, for a tier that is not available and for
    links that need netem where the kernel has none. On entering, raises it for what the kernel refuses: a congestion
    control it lacks, a queue, a setting.
    """

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
        ipv6: bool = False,
    ):
        self._plan = make_plan(topology, congestion_control, seed, address_pool, tcp, routing, paths, ipv6=ipv6)
        check_cpu_limits(topology, cpu_limits or {})
        self._cpu = CpuLimits(cpu_limits or {})
        self.topology = topology
        self.tier, self.why_tier = resolve_tier(tier, TIERS_OF_KERNELS, probe_tiers())
        if self._plan.wires:
            check_feature("netem", self.tier, INSTEAD)
        self._connection: LauncherConnection | None = None
        self.made: dict[tuple[str, str], list[Made]] = {}

    def __enter__(self) -> RealTimeNetwork:
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
        self._links, self.made, self._began = Links(self.plan), {}, time.monotonic()
        return self

    @property
    def plan(self) -> Plan:
        """The addresses, interfaces and routes of its nodes."""
        return self._plan

    def close(self) -> None:
        """End the network and everything that runs inside; do nothing the second time."""
        if self._connection:
            try:
                self._connection.close()
            finally:
                self._connection = None

    @property
    def launcher(self) -> LauncherConnection:
        """The connection to the process that owns the network. Raises NetreproError when the network is not built."""
        if not self._connection:
            raise NetreproError("this network is not built", "use it inside `with Emulation(topology) as net:`")
        return self._connection

    def place(self, node: str) -> int:
        """Return the index of the node's namespace. Raises NetreproError, with the nearest name, for an unknown one."""
        check_name(node, self.plan.nodes, "host or switch")
        return self.plan.nodes.index(node)

    def __getitem__(self, name: str) -> RealTimeNode:
        check_name(name, (*self.topology.hosts, *self.topology.switches), "host or switch")
        return RealTimeNode(self, name)

    @property
    def now_s(self) -> float:
        """The time since the network was built, in seconds."""
        return time.monotonic() - self._began

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""
        if seconds > 0:
            time.sleep(seconds)

    def change_link(
        self,
        source: str,
        destination: str,
        *,
        rate_mbps: float | None = None,
        delay_ms: float | None = None,
        loss: float | None = None,
        up: bool | None = None,
        both: bool = True,
    ) -> None:
        """Change a link as Network says; packets that netem delays are on the wire, and still arrive."""
        self.topology.link(source, destination)
        change = LinkChange(0.0, source, destination, rate_mbps, up, both, delay_ms, loss)
        check_change(self.topology, change)
        for port in change.links:
            requests, rate = self._links.change(port, change)
            make(self, requests, {port: rate})

    def send(self, requests: Mapping[str, Sequence[NetlinkRequest]]) -> None:
        """Send messages to the kernel inside nodes. Raises NetreproError for a message that the kernel refuses."""
        wanted = [(node, list(each)) for node, each in requests.items()]
        batches = [(self.place(node), messages.batches(each)) for node, each in wanted]
        _raise_refusal(self.launcher.ask("send", batches=batches)[0], wanted)

    def open_socket(self, node: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Open a socket for the calling process in the network of a host, a switch, or the hub. Raises OSError."""
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
        live: int | str | os.PathLike[str] | None = None,
    ) -> RealTimeRecording:
        """Record ports as Network says; the recording can also check that they behaved like links (`certificate`)."""
        folder = folder_for_captures(captures)
        return RealTimeRecording(self, tuple(queues), tuple(packets), interval_ms, most_packets, folder, live)

    def check_congestion_controls(self, names: Iterable[str]) -> None:
        """Raise NetreproError for a congestion control that this kernel lacks or does not permit."""
        missing = self.launcher.ask("congestion_controls", names=sorted(names))[0]["missing"]
        for name, number in missing.items():
            known = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
            tiers = "'simulated'" if name in CONTROLS_OF_THE_SIMULATOR else "'virtual' or 'simulated'"
            raise NetreproError(
                f"this kernel has no congestion control {name!r} ({errno_text(number)})",
                f"use tier {tiers}, or one that it has; {nearest(name, known, with_all=True)}",
            )

    @property
    def how_cpu_is_limited(self) -> str:
        """The mechanism that enforces `cpu_limits`, in words; "" without limits."""
        return self._cpu.kept_by

    def limits_of(self, node: str) -> dict[str, Any]:
        """Return the CPU limits of the node's programs (nice value and control group) as arguments of Guest."""
        return {"nice": self._cpu.nice(node), "control_group": self._cpu.folder(node)}

    def _build(self) -> None:
        plan = self.plan
        order = [(HUB, plan.cables), *((node, plan.requests[node]) for node in plan.requests)]
        place_of = {node: place for place, node in enumerate(plan.nodes)}
        answer, _ = self.launcher.ask(
            "build",
            names=["" if node == HUB else node for node in plan.nodes],
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


def _raise_refusal(answer: Mapping[str, Any], requests: Sequence[tuple[str, Sequence[NetlinkRequest]]]) -> None:
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


class RealTimeNode(Node):
    """A host or switch in real time: a network namespace."""

    def __init__(self, net: RealTimeNetwork, name: str):
        self._net, self.name = net, name

    @property
    def net(self) -> RealTimeNetwork:
        return self._net

    def popen(
        self,
        command: Sequence[str],
        *,
        input: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        text: bool = True,
    ) -> Guest:
        """Start a program as Node says, with pipes as standard streams.

        text : True for text streams, False for bytes. The result's `stdin` is None where `input` is given.
        """
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
            if input is not None:
                streams[0].close()
                pipe, theirs[0] = theirs[0], _file_with(input)
                os.close(pipe)
            try:
                return Guest(
                    self.net.launcher,
                    self.net.place(self.name),
                    command,
                    theirs,
                    text=text,
                    **self.net.limits_of(self.name),
                    environment={**os.environ, **(environment or {})},
                    folder=None if folder is None else os.fspath(folder),
                    stdin=streams[0] if input is None else None,
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

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
        with tempfile.TemporaryFile() as call:
            call.write(pickled_call(function, arguments, keywords))
            call.seek(0)
            outcome, complaints = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
            with pathlib.Path(os.devnull).open("wb") as nowhere:
                streams = [each.fileno() for each in (call, nowhere, complaints, outcome)]
                command = [sys.executable, "-P", str(CALL_GUEST)]
                guest = Guest(
                    self.net.launcher, self.net.place(self.name), command, streams, **self.net.limits_of(self.name)
                )
        return Call(guest, partial(_whole_content, outcome), partial(last_line, complaints))

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        return self.net.open_socket(self.name, family, kind, protocol)

    def jupyter_kernel(self) -> RealTimeJupyterKernel:
        """Start a Jupyter kernel inside the node and return its client.

        Other clients of the same user connect by `connection_file`, such as `jupyter console --existing FILE`.
        """
        # Imported here, because the import takes longer than building a network.
        from netrepro.emulation.real_time.jupyter import RealTimeJupyterKernel

        return RealTimeJupyterKernel(
            self.net.launcher, self.net.place(self.name), self.name, self.net.limits_of(self.name)
        )

    def shell(self, command: Sequence[str] = ("bash",)) -> int:
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
        """The command that opens a shell inside the node, from another terminal of the same user."""
        process = self.net.launcher.first_process
        user = "--preserve-credentials -U " if self.net.tier == "rootless" else ""
        descriptor = self.net.plan.descriptor(self.name)
        return f"nsenter {user}-t {process} --net=/proc/{process}/fd/{descriptor} -m -p"


def _file_with(content: str) -> int:
    """Write an anonymous file in memory; return its file descriptor, positioned at the beginning."""
    descriptor = os.memfd_create("input")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _whole_content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _copy_terminal(own: int) -> None:
    """Copy keys to the shell's terminal and its output back, until the shell ends. own : file descriptor of our end."""
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
