"""A network on the virtual kernel in which programs run; virtual time passes only during some of the caller's calls."""

from __future__ import annotations

import errno
import itertools
import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from io import TextIOWrapper
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import numpy as np

from netrepro.emulation import messages
from netrepro.emulation.call import CALL_GUEST, Call, pickled_call
from netrepro.emulation.network import Network, Node, RunningProgram, checked_words
from netrepro.emulation.plan import check_name, tcp_by_host
from netrepro.emulation.recording import check_asked, folder_for_captures
from netrepro.emulation.virtual.experiment import (
    PCAP_HEADER,
    build,
    changed_line,
    policed_packets,
    release_numbers,
    whole_settings,
)
from netrepro.emulation.virtual.instance import (
    MEMORY_MB,
    NO_FILES,
    STARTS_AT,
    SYSCALL_COST_NS,
    Instance,
    batched_by_node,
    clock_start_ns,
)
from netrepro.emulation.virtual.kernel import congestion_controls, modules_for
from netrepro.emulation.virtual.plan import (
    RECORD,
    REPORT,
    PortLine,
    VirtualPlan,
    make_virtual_plan,
    new_line,
    queues_of_modules,
)
from netrepro.emulation.virtual.recording import VirtualRecording
from netrepro.emulation.virtual.speech import check_ways
from netrepro.emulation.virtual.spinning import SPIN_AFTER_S, check_spin_after
from netrepro.errors import NetreproError
from netrepro.networks.description import whole_number
from netrepro.networks.experiment import longest_host_delay_ms
from netrepro.networks.routing import LinkChange, Routing
from netrepro.networks.routing import Path as Route
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

if TYPE_CHECKING:
    from netrepro.emulation.virtual.jupyter import VirtualJupyterKernel

PATIENCE_S = 120.0
MOST_CAPTURES = 16  # at a time: the kernel's process opens their files at its start
NAME_INSIDE = "/run/folder"  # of a network's folder: its own name is another one in every run
MOST_LETTERS = 100  # length of a command in errors


class VirtualNetwork(Network):
    """A network on the virtual kernel while its `with` block runs; `net["h1"]` is a node.

    Arguments are those of Emulation.

    Virtual time passes while `run`, `wait`, `python` or `sleep` wait, and stands still otherwise, except that a start
    takes some microseconds. The kernel's clock starts at `starts_at`, and files in `folder` have times of that clock.
    Computing takes no time; a system call takes at least `syscall_cost_ns`, so that a program that polls lets time
    pass. So does a loop without any system call, after `spin_after_s`, but not with the same bytes each time (`spins`).
    Programs read the machine's files with the caller's rights, may write to `folder` and to /run, and have only their
    node's network. They are root inside the kernel. Landlock, on machines that have it (`netrepro doctor` tells), also
    keeps root and kernel modules from writing elsewhere. Their host's name is that of their node, and nodes' names lead
    to their addresses. The same seed and the same calls give the same output.

    Programs start in `folder`, for which they have a second name, /run/folder, that is the same in every run. Their
    output is stored there. A file that a program writes, so its output too, may have `memory_mb` at most; a program
    that writes more gets SIGXFSZ, as with `ulimit -f`.

    Programs see what the caller changes in files, also in files that they have open, and the caller sees what they
    change. Only a program that has mapped a file into its memory may keep what it has read.

    Threads may share a network: their calls are carried out one after the other, so that a call that waits for a
    program keeps the others waiting. A forked process cannot use it. Raises NetreproError like Instance.
    """

    tier = "virtual"

    def __init__(
        self,
        topology: Topology,
        congestion_control: str | Mapping[str, str] = "cubic",
        seed: int = 1,
        address_pool: str = "10.0.0.0/8",
        tcp: Tcp | Mapping[str, Tcp] | None = None,
        routing: Routing | str = "ecmp",
        paths: Iterable[Route] = (),
        *,
        ipv6: bool = False,
        host_delay_packets: float = 0.0,
        patience_s: float = PATIENCE_S,
        memory_mb: int = MEMORY_MB,
        syscall_cost_ns: int = SYSCALL_COST_NS,
        starts_at: str | datetime = STARTS_AT,
        spin_after_s: float = SPIN_AFTER_S,
    ):
        self.topology, self._seed, self._patience_s, self._memory_mb = topology, seed, patience_s, memory_mb
        self._syscall_cost_ns = whole_number(syscall_cost_ns, "syscall_cost_ns", 0, 10**9)
        clock_start_ns(starts_at)  # refuses what is no date
        self._starts_at = starts_at
        # A program that polls may never get on at a cost of 0, and so may one that spins.
        self._spin_after_s = check_spin_after(spin_after_s) if self._syscall_cost_ns else inf
        self._described: dict[str, Any] = {
            "tcp": tcp,
            "routing": routing,
            "paths": list(paths),
            "congestion_control": congestion_control,
            "address_pool": address_pool,
            "ipv6": ipv6,
            "host_delay_ms": longest_host_delay_ms(topology, host_delay_packets),
        }
        for_all, of_hosts = tcp_by_host(topology, tcp)
        ways = [for_all] if for_all else list(of_hosts.values())
        if ways:
            check_ways(ways)
        self._way = ways[0] if ways else None  # for settings that are common to the whole kernel
        self._plan = make_virtual_plan(topology, seed, **self._described)
        self._instance: Instance | None = None
        self._numbers = itertools.count(1)  # of programs' files
        self._files: list[IO[bytes]] = []  # open in the kernel's process: one for events, others for captures
        self._free: list[IO[bytes]] = []
        self._programs_folder: int | None = None  # descriptor of `folder`, while the network is built

    def __enter__(self) -> VirtualNetwork:
        if self._instance:
            raise NetreproError("this network is built already", "leave its with block first, or make another")
        controls = set(self.plan.congestion_control.values()) - {""}
        for name in sorted(controls - congestion_controls()):
            raise NetreproError(f"the virtual kernel has no {name}", f"use {', '.join(sorted(congestion_controls()))}")
        modules = modules_for(controls | queues_of_modules(self.topology), {})
        self._free = [tempfile.TemporaryFile() for _ in range(MOST_CAPTURES)]  # noqa: SIM115  until close
        self._files = [tempfile.TemporaryFile(), *self._free]
        try:
            files = [file.fileno() for file in self._files]
            self._instance = Instance(
                self._seed,
                files,
                self._patience_s,
                self._memory_mb,
                self._syscall_cost_ns,
                self._starts_at,
                self._spin_after_s,
            )
            seeds = release_numbers(self._instance.kernel) >= (6, 11)
            self._plan = make_virtual_plan(
                self.topology, self._seed, has_seeds=seeds, events=files[0], **self._described
            )
            self._lines = dict(self.plan.lines)
            self.folder = self._instance.folder / "programs"
            self.folder.mkdir()
            self._programs_folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._instance.load(modules)
            build(self._instance, self.plan, whole_settings(self._way, controls), named=True)
            self._instance.order("share", folder=str(self.folder), also=NAME_INSIDE)
            self._began_ns = self._instance.order("clock")["monotonic_ns"]
        except BaseException:
            self.close()
            raise
        return self

    @property
    def plan(self) -> VirtualPlan:
        """The addresses, interfaces and routes of its nodes."""
        return self._plan

    def close(self) -> None:
        """End the network and everything that runs inside; do nothing the second time."""
        if self._instance:
            self._instance.close()
            self._instance = None
        for file in self._files:
            file.close()
        self._files = self._free = []
        if self._programs_folder is not None:
            os.close(self._programs_folder)
            self._programs_folder = None

    @property
    def most_bytes(self) -> int:
        """The size of the largest file that a program may write, in bytes."""
        return self._memory_mb << 20

    @property
    def instance(self) -> Instance:
        """The running kernel. Raises NetreproError when the network is not built."""
        if not self._instance:
            raise NetreproError("this network is not built", "use it inside `with Emulation(...) as net:`")
        return self._instance

    def __getitem__(self, name: str) -> VirtualNode:
        check_name(name, (*self.topology.hosts, *self.topology.switches), "host or switch")
        return VirtualNode(self, name)

    @property
    def now_s(self) -> float:
        """The virtual time since the network was built, in seconds."""
        return self.monotonic_s - self._began_ns / 1e9

    @property
    def spins(self) -> int:
        """The number of times that a program which made no system call lost the processor for a tick of 1 ms.

        What a program had done until then depends on the machine. So where this is not 0, the same seed need not give
        the same output.
        """
        return self.instance.spins.count

    @property
    def monotonic_s(self) -> float:
        """The virtual time that programs inside read as time.monotonic(), in seconds."""
        return self.instance.order("clock")["monotonic_ns"] / 1e9

    def load_control(self, name: str) -> None:
        """Load a congestion control that is a module of lib/kernel/modules, so that sockets can use it.

        Do nothing for other names. Raises NetreproError for a module that does not compile.
        """
        self.instance.load(modules_for([name], {}))

    def sleep(self, seconds: float) -> None:
        """Let so many seconds of virtual time pass."""
        if seconds > 0:
            self.instance.order("sleep", seconds=seconds)

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
        """Change a link as Network says; packets on the wire of a link that goes down are lost, too."""
        self.topology.link(source, destination)
        self.carry_out(LinkChange(0.0, source, destination, rate_mbps, up, both, delay_ms, loss))

    def carry_out(self, change: LinkChange) -> None:
        """Change a link now, whatever the time of the change."""
        for port in change.links:
            self._set_line(port, changed_line(self._lines[port], change, self.plan.clock_factors[port]))

    def _set_line(self, port: tuple[str, str], line: PortLine) -> None:
        self._lines[port] = line
        self._tell_lines([port])

    def _tell_lines(self, ports: Iterable[tuple[str, str]], once: int = 0) -> None:
        """Send the kernel the present parameters of the ports' lines. once : flags for this message only."""
        asked: dict[str, list[messages.NetlinkRequest]] = {}
        for port in ports:
            (node, index), line = self.plan.ports[port].shaper, self._lines[port]
            request = messages.replacing(new_line(index, line.with_flags(line.flags | once)))
            asked.setdefault(node, []).append(request)
        self.instance.order("change", requests=batched_by_node(asked))

    def record(
        self,
        queues: Iterable[tuple[str, str]] = (),
        packets: Iterable[tuple[str, str]] = (),
        interval_ms: float = 1.0,
        most_packets: int = 200_000,
        captures: str | os.PathLike[str] | None = None,
        live: int | str | os.PathLike[str] | None = None,
    ) -> VirtualRecording:
        """Record ports as Network says, with 16 captures at a time at most.

        The time stamp is that of a packet's last bit. Entering the recording raises NetreproError for a port that is
        recorded already.
        """
        queues, packets = list(dict.fromkeys(queues)), list(dict.fromkeys(packets))
        folder = folder_for_captures(captures)
        check_asked(self.topology, queues, packets, interval_ms, most_packets)
        return VirtualRecording(self, queues, packets, interval_ms, folder, live)

    def observe(
        self, ports: Sequence[tuple[str, str]], captured: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], IO[bytes]]:
        """Let the kernel record events of ports until `unobserve`; return port -> capture file for `captured`.

        Raises NetreproError for a port that is observed already, and for more captures than there are free files.
        """
        for port in ports:
            if self._lines[port].flags & RECORD:
                raise NetreproError(f"{'-'.join(port)} is recorded already", "end that recording before")
        if len(captured) > len(self._free):
            raise NetreproError(f"{len(captured)} captures, and {len(self._free)} are left", "record fewer ports")
        if not any(line.flags & RECORD for line in self._lines.values()):  # nobody reads the old events any more
            self._files[0].seek(0)
            self._files[0].truncate()
        files = {port: self._free.pop() for port in captured}
        for file in files.values():
            file.seek(0)
            file.truncate()
            file.write(PCAP_HEADER)
            file.flush()
        for port in ports:
            line = self._lines[port]
            capture = files[port].fileno() if port in files else -1
            self._lines[port] = replace(line, flags=line.flags | RECORD, capture=capture)
        self._tell_lines(ports)
        return files

    def unobserve(self, ports: Sequence[tuple[str, str]], files: Mapping[tuple[str, str], IO[bytes]]) -> None:
        """Let the kernel stop recording events of ports; take the capture files back."""
        for port in ports:
            line = self._lines[port]
            self._lines[port] = replace(line, flags=line.flags & ~RECORD, capture=-1)
        self._tell_lines(ports)
        self._free += files.values()

    def report(self) -> tuple[int, int]:
        """Let every line write its totals and all buffered events; return the events file's size before and after."""
        before = os.fstat(self._files[0].fileno()).st_size
        self._tell_lines(self._lines, REPORT)
        return before, os.fstat(self._files[0].fileno()).st_size

    def policed(self) -> np.ndarray:
        """Count the packets that each port's policer has dropped so far, in the order of the plan's ports."""
        return policed_packets(self.instance, self.plan)

    def events(self, first: int, last: int) -> bytes:
        """Read events (records of virtual/events.py) between two byte positions of the file."""
        with Path(f"/proc/self/fd/{self._files[0].fileno()}").open("rb") as file:  # own file position
            file.seek(first)
            return file.read(last - first)

    def next_file(self, name: str) -> Path:
        """Return a new path, without suffix, for the files of a program."""
        return self.instance.folder / "programs" / f"{next(self._numbers)}-{Path(name).name}"

    def write_new(self, path: Path, content: bytes = b"") -> None:
        """Write a new file into `folder`, and follow no link that a program inside has made there.

        Raises NetreproError where something has this name already, and for a network that is not built.
        """
        assert self.instance and self._programs_folder is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL follows no link
        try:
            descriptor = os.open(path.name, flags, 0o666, dir_fd=self._programs_folder)
        except FileExistsError:
            raise NetreproError(
                f"a program inside has made a file {path.name}, a name that the network uses itself",
                "give the program's files other names",
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def open_from_inside(path: Path) -> IO[bytes]:
    """Open a file that programs inside may change. Raises NetreproError where one has put something else in its place:
    a link leads elsewhere, and a pipe keeps whoever reads it."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        file.close()
        why = "it is no file"
    except OSError as error:
        why = error.strerror or str(error)
    raise NetreproError(f"{path.name} of a program inside cannot be read: {why}", "see which program inside changes it")


def _text_from_inside(path: Path) -> str:
    with TextIOWrapper(open_from_inside(path), encoding="utf-8", errors="replace") as text:
        return text.read()


class VirtualProgram(RunningProgram):
    """A program that was started in a node; its output is stored in files."""

    def __init__(self, net: VirtualNetwork, program: int, command: Sequence[str], files: Path):
        self._net, self._program, self._files = net, program, files
        self.command = list(command)
        self.returncode: int | None = None
        self.ended_s: float | None = None  # virtual time since the network was built

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs; no virtual time passes."""
        return self._wait(0.0)

    def poll_for(self, seconds: float) -> int | None:
        return self._wait(seconds)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.command, timeout or 0.0, self.output, self.errors)
        return status

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return self.output, self.errors

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._ended(self._net.instance.order("wait", name=self.command[0], program=self._program, seconds=timeout))
        return self.returncode

    def converse(
        self, line: str, heard: Callable[[dict[str, Any]], None] | None = None, timeout: float | None = None
    ) -> dict[str, Any] | None:
        """Send a line to a program that was started with `talks`, and return its reply (see guest.Guest.converse).

        line : "" to send nothing and only wait. heard : called with each message before the reply. timeout : seconds of
        virtual time. Returns None after the timeout, or where the program ends; then `returncode` is set.
        """
        answer = self._net.instance.order(
            "converse", name=self.command[0], heard=heard, program=self._program, line=line, seconds=timeout
        )
        if answer["reply"] is None:
            self._ended(answer)
        return answer["reply"]

    def _ended(self, answer: Mapping[str, Any]) -> None:
        self.returncode = answer["status"]
        if answer["status"] is not None:
            self.ended_s = answer["ended_s"] - self._net._began_ns / 1e9

    def send_signal(self, number: int) -> None:
        """Send the program a signal at once; the program handles it when virtual time passes."""
        self._signal(number)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def kill_all(self) -> None:
        self._signal(signal.SIGKILL, to_all=True)

    def _signal(self, number: int, to_all: bool = False) -> None:
        if number not in signal.valid_signals():
            raise NetreproError(f"no signal {number!r}", "give one of the module signal, such as signal.SIGTERM")
        self._net.instance.order("kill", program=self._program, number=int(number), whole=to_all)

    def __enter__(self) -> VirtualProgram:
        return self

    def __exit__(self, *exception: object) -> None:
        if not any(exception):
            self.wait()

    @property
    def output(self) -> str:
        """The program's output so far."""
        return _text_from_inside(self._files.with_suffix(".out"))

    @property
    def errors(self) -> str:
        """The program's error output so far."""
        return _text_from_inside(self._files.with_suffix(".err"))


class VirtualNode(Node):
    """A host or switch in virtual time."""

    def __init__(self, net: VirtualNetwork, name: str):
        self._net, self.name = net, name

    @property
    def net(self) -> VirtualNetwork:
        return self._net

    def popen(
        self,
        command: Sequence[str],
        *,
        input: str | bytes | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        talks: bool = False,
    ) -> VirtualProgram:
        """Start a program as Node says; it runs whenever virtual time passes.

        talks : True to give the program a socket as file descriptor 3, for VirtualProgram.converse.
        """
        words = checked_words(command)
        called = f"{_shortened(shlex.join(words))} on {self.name}"
        files = self.net.next_file(words[0])
        for ending in (".out", ".err"):
            self.net.write_new(files.with_suffix(ending))
        self.net.write_new(files.with_suffix(".in"), input.encode() if isinstance(input, str) else input or b"")
        answer = self.net.instance.order(
            "start",
            name=called,
            node=self.name,
            command=words,
            environment=dict(environment or {}),
            folder=os.path.abspath(folder) if folder else NAME_INSIDE,  # noqa: PTH100  keeps links, as chdir does
            output=str(files.with_suffix(".out")),
            errors=str(files.with_suffix(".err")),
            stdin=str(files.with_suffix(".in")),
            talks=talks,
            most_bytes=self.net.most_bytes,
        )
        if "problem" in answer:
            raise _not_started(words[0], self.name, answer["problem"], answer["where"], folder)
        self.net.instance.programs[answer["program"]] = called
        return VirtualProgram(self.net, answer["program"], words, files)

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
        outcome = self.net.next_file("call").with_suffix(".result")
        self.net.write_new(outcome)
        command = [sys.executable, "-P", "-B", str(CALL_GUEST), str(outcome)]
        program = self.popen(command, input=pickled_call(function, arguments, keywords))

        def written() -> bytes:
            with open_from_inside(outcome) as file:
                return file.read()

        return Call(program, written, lambda: (program.errors.strip().splitlines() or [""])[-1])

    def socket(self, family: int = 0, kind: int = 0, protocol: int = 0) -> NoReturn:
        raise NetreproError(
            f"a socket of {self.name} in virtual time for a process outside of it",
            "open it inside, by python(), or use tier 'rootless'",
        )

    def shell(self, command: Sequence[str] = ()) -> NoReturn:
        raise NetreproError(
            f"a shell on {self.name}, and virtual time does not pass while a person thinks",
            "use run() or jupyter_kernel(), or tier 'rootless'",
        )

    def jupyter_kernel(self) -> VirtualJupyterKernel:
        """Start a Jupyter kernel inside the node; virtual time passes only while a cell runs."""
        from netrepro.emulation.virtual.jupyter import VirtualJupyterKernel

        return VirtualJupyterKernel(self.name, self.popen)


def _not_started(
    program: str, node: str, number: int, where: str, folder: str | os.PathLike[str] | None
) -> NetreproError:
    """Return the error for a program that the kernel refuses to start. where : "folder" or "program"."""
    if where == "folder":
        return NetreproError(
            f"{program} cannot be started on {node} in the folder {folder}: {os.strerror(number)}",
            "give a folder that exists",
        )
    remedies = {errno.ENOENT: "install it, or give its path", errno.EMFILE: NO_FILES}
    return NetreproError(
        f"cannot be started on {node}: {program}: {os.strerror(number)}",
        remedies.get(number, "give the path of a program"),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
