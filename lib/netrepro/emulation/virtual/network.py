"""A network on the virtual kernel in which programs run; its time stands still while the caller thinks."""

from __future__ import annotations

import os
import pickle
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import cloudpickle

from netrepro.emulation import messages
from netrepro.emulation.captures import check_captures
from netrepro.emulation.plan import check_name
from netrepro.emulation.virtual.experiment import PCAP_HEADER, build, release_numbers, whole_settings
from netrepro.emulation.virtual.instance import MEMORY_MB, Instance, batched_by_node
from netrepro.emulation.virtual.kernel import modules_for
from netrepro.emulation.virtual.plan import REPORT, UP, Line, make_virtual_plan, new_line
from netrepro.emulation.virtual.speech import check_ways
from netrepro.errors import NetreproError
from netrepro.networks.routing import Path as Route
from netrepro.networks.routing import Routing
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

if TYPE_CHECKING:
    from netrepro.emulation.virtual.jupyter import VirtualNodeKernel

CALL = Path(__file__).with_name("call.py")
MOST_CAPTURES = 16  # at a time: the kernel's process has their files from its start on
MOST_LETTERS = 100  # of a command, in errors


class VirtualEmulation:
    """A network on the virtual kernel while its `with` block runs; `net["h1"]` is a node.

    topology, congestion_control, seed, address_pool, tcp, routing, paths : as of Emulation. patience_s : seconds of
    real time in which virtual time has to advance. memory_mb : of the kernel and all programs.

    Virtual time passes while `run`, `wait`, `python` or `sleep` wait, and stands still otherwise. Programs see the
    machine's files, may write to `folder` and to /run, and have no other network than their node's. What they print
    lies in `folder`. The same seed and the same calls give the same output. Raises NetreproError as Instance.
    """

    tier = "virtual"

    def __init__(
        self,
        topology: Topology,
        tier: str = "virtual",
        congestion_control: str | Mapping[str, str] = "cubic",
        seed: int = 1,
        address_pool: str = "10.0.0.0/8",
        tcp: Tcp | Mapping[str, Tcp] | None = None,
        routing: Routing | str = "ecmp",
        paths: Iterable[Route] = (),
        patience_s: float = 120.0,
        memory_mb: int = MEMORY_MB,
    ):
        self.topology, self._seed, self._patience_s, self._memory_mb = topology, seed, patience_s, memory_mb
        self._described: dict[str, Any] = {
            "tcp": tcp,
            "routing": routing,
            "paths": list(paths),
            "congestion_control": congestion_control,
            "address_pool": address_pool,
        }
        ways = [each for each in (tcp.values() if isinstance(tcp, Mapping) else [tcp]) if each]
        if ways:
            check_ways(ways)
        self._way = ways[0] if ways else None  # of what the whole kernel has one of
        self.plan = make_virtual_plan(topology, seed, **self._described)
        self._instance: Instance | None = None
        self._started = 0
        self._files: list[IO[bytes]] = []  # that the kernel's process has open: one for nothing, others for captures
        self._free: list[IO[bytes]] = []

    def __enter__(self) -> VirtualEmulation:
        if self._instance:
            raise NetreproError("this network is built already", "leave its with block first, or make another")
        self._free = [tempfile.TemporaryFile() for _ in range(MOST_CAPTURES)]  # noqa: SIM115  until close
        self._files = [Path(os.devnull).open("wb"), *self._free]
        try:
            files = [file.fileno() for file in self._files]
            self._instance = Instance(self._seed, files, self._patience_s, self._memory_mb)
            seeds = release_numbers(self._instance.kernel) >= (6, 11)
            self.plan = make_virtual_plan(self.topology, self._seed, has_seeds=seeds, **self._described)
            self._lines = dict(self.plan.lines)
            self.folder = self._instance.folder / "programs"
            self.folder.mkdir()
            build(self._instance, self.plan, whole_settings(self._way))
            self._instance.order("share", folder=str(self.folder))
            self._began_ns = self._instance.order("clock")["monotonic_ns"]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the network and all that runs inside; does nothing the second time."""
        if self._instance:
            self._instance.close()
            self._instance = None
        for file in self._files:
            file.close()
        self._files = self._free = []

    @property
    def instance(self) -> Instance:
        """The kernel. Raises NetreproError when the network is not built."""
        if not self._instance:
            raise NetreproError("this network is not built", "use it inside `with Emulation(...) as net:`")
        return self._instance

    def __getitem__(self, name: str) -> VirtualNode:
        check_name(name, (*self.topology.hosts, *self.topology.switches), "host or switch")
        return VirtualNode(self, name)

    @property
    def now_s(self) -> float:
        """Virtual time since the network was built."""
        return self.monotonic_s - self._began_ns / 1e9

    @property
    def monotonic_s(self) -> float:
        """What programs inside read as time.monotonic()."""
        return self.instance.order("clock")["monotonic_ns"] / 1e9

    def load_control(self, name: str) -> None:
        """Have the kernel know a congestion control that is a module of ours, for sockets to ask for; one that is built
        in it knows. Raises NetreproError for a module that does not compile."""
        self.instance.load(modules_for([name], {}))

    def sleep(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        if seconds > 0:
            self.instance.order("sleep", seconds=seconds)

    def path_address(self, path: Route) -> str:
        """The address of the path's last host that packets from its first one reach over the path."""
        if tuple(path) not in self.plan.path_addresses:
            raise NetreproError(f"no address for the path {' '.join(path)}", "name it in Emulation(paths=...)")
        return str(self.plan.path_addresses[tuple(path)])

    def change_link(
        self,
        source: str,
        destination: str,
        *,
        rate_mbps: float | None = None,
        up: bool | None = None,
        both: bool = True,
    ) -> None:
        """Another rate, or down and up again; routes stay. both : in both directions.

        What waits in a link that goes down, and what is under way on it, is lost.
        """
        ways = ((source, destination), (destination, source)) if both else ((source, destination),)
        for port in ways:
            self.topology.link(*port)
            line = self._lines[port]
            if rate_mbps is not None:
                line = line.with_rate(rate_mbps * self.plan.clock_factors[port])
            if up is not None:
                line = line.with_flags(line.flags | UP if up else line.flags & ~UP)
            self._set_line(port, line)

    def _set_line(self, port: tuple[str, str], line: Line, once: int = 0) -> None:
        """once : flags that it has now only."""
        self._lines[port] = line
        node, index = self.plan.ports[port].shaper
        asked = messages.replacing(new_line(index, line.with_flags(line.flags | once)))
        self.instance.order("change", requests=batched_by_node({node: [asked]}))

    @contextmanager
    def record(self, packets: Iterable[tuple[str, str]], captures: str | os.PathLike[str]) -> Iterator[None]:
        """Capture what ports (from, to) send until the `with` block of the result ends.

        captures : a folder that gets a pcap for each port, "s1-s2.pcap", when the block ends: headers and first bytes,
        stamped in nanoseconds of virtual time as the last bit leaves. Raises NetreproError for ports and folders that
        are not there, for a port that is recorded already, and for more than 16 ports.
        """
        folder, ports = Path(captures), list(dict.fromkeys(packets))
        check_captures(folder)
        for port in ports:
            self.topology.link(*port)
            if self._lines[port].capture >= 0:
                raise NetreproError(f"{'-'.join(port)} is recorded already", "end that recording before")
        if len(ports) > len(self._free):
            raise NetreproError(f"{len(ports)} captures, and {len(self._free)} are left", "record fewer ports")
        files = [self._free.pop() for _ in ports]
        for port, file in zip(ports, files, strict=True):
            file.seek(0)
            file.truncate()
            file.write(PCAP_HEADER)
            file.flush()
            captured = replace(self._lines[port], events=self._files[0].fileno(), capture=file.fileno())
            self._set_line(port, captured)
        try:
            yield
            for port in ports:
                self._set_line(port, self._lines[port], REPORT)
        finally:
            for port in ports:
                self._set_line(port, replace(self._lines[port], events=-1, capture=-1))
            self._free += files
        for port, file in zip(ports, files, strict=True):
            file.seek(0)
            (folder / f"{'-'.join(port)}.pcap").write_bytes(file.read())

    def next_file(self, name: str) -> Path:
        """Of a program's output."""
        self._started += 1
        return self.folder / f"{self._started}-{Path(name).name}"


class VirtualProgram:
    """A program that was started in a node."""

    def __init__(self, net: VirtualEmulation, process: int, command: Sequence[str], files: Path):
        self._net, self._process, self._files = net, process, files
        self.command = list(command)
        self.returncode: int | None = None
        self.ended_s: float | None = None  # of virtual time since the network was built

    def wait(self, timeout: float | None = None) -> int | None:
        """Its status, or None where so many seconds of virtual time pass before it ends; negative: by a signal."""
        if self.returncode is None:
            self._ended(self._net.instance.order("wait", name=self.command[0], process=self._process, seconds=timeout))
        return self.returncode

    def poll(self) -> int | None:
        """Its status, or None while it runs; no time passes."""
        return self.wait(0.0)

    def converse(
        self, line: str, heard: Callable[[dict[str, Any]], None] | None = None, timeout: float | None = None
    ) -> dict[str, Any] | None:
        """The reply of a program that talks (popen) to a line, as `guest.Guest.converse` says; "" only listens.

        heard : is given what it says before. None where so many seconds of virtual time pass, or where it ends, of
        which `returncode` then tells.
        """
        found = self._net.instance.order(
            "converse", name=self.command[0], heard=heard, process=self._process, line=line, seconds=timeout
        )
        if found["reply"] is None:
            self._ended(found)
        return found["reply"]

    def _ended(self, found: Mapping[str, Any]) -> None:
        self.returncode = found["status"]
        if found["status"] is not None:
            self.ended_s = found["ended_s"] - self._net._began_ns / 1e9

    def send_signal(self, number: int) -> None:
        """At once; it hears of it when time passes."""
        self._net.instance.order("kill", process=self._process, number=int(number), whole=False)

    def kill(self) -> None:
        """End it and what it has started, as `kill -9`."""
        self._net.instance.order("kill", process=self._process, number=int(signal.SIGKILL), whole=True)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._files.with_suffix(".out").read_text(errors="replace")

    @property
    def errors(self) -> str:
        """What it has printed to its error output so far."""
        return self._files.with_suffix(".err").read_text(errors="replace")


class VirtualNode:
    """A host or switch: where programs and functions run in its network."""

    def __init__(self, net: VirtualEmulation, name: str):
        self.net, self.name = net, name

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return str(self.net.plan.addresses[self.name])

    def popen(
        self,
        command: Sequence[str],
        *,
        input: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        talks: bool = False,
    ) -> VirtualProgram:
        """Start a program, which runs whenever virtual time passes. talks : by a socket, its descriptor 3.

        Raises NetreproError when it cannot be started.
        """
        words = [str(word) for word in command]
        called = f"{_shortened(shlex.join(words))} on {self.name}"
        files = self.net.next_file(words[0])
        for ending in (".out", ".err"):
            files.with_suffix(ending).touch()
        files.with_suffix(".in").write_text(input or "")
        answer = self.net.instance.order(
            "start",
            name=called,
            node=self.name,
            command=words,
            environment=dict(environment or {}),
            folder=str(folder or self.net.folder),
            output=str(files.with_suffix(".out")),
            errors=str(files.with_suffix(".err")),
            stdin=str(files.with_suffix(".in")),
            talks=talks,
        )
        if "problem" in answer:
            raise NetreproError(f"cannot be started on {self.name}: {answer['problem']}", "give the path of a program")
        self.net.instance.programs[answer["process"]] = called
        return VirtualProgram(self.net, answer["process"], words, files)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        input: str | None = None,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> subprocess.CompletedProcess:
        """Run a program to its end and return its status, output and error output.

        timeout : seconds of virtual time. Raises NetreproError when it cannot be started, or with `check` when it
        fails; subprocess.TimeoutExpired when it takes longer, and ends it.
        """
        program = self.popen(command, input=input, environment=environment, folder=folder)
        if program.wait(timeout) is None:
            program.kill()
            raise subprocess.TimeoutExpired(list(command), timeout or 0.0, program.output, program.errors)
        output, complaints = program.output, program.errors
        if check and program.returncode:
            last = (complaints.strip() or output.strip()).splitlines()[-1:]
            raise NetreproError(
                f"{shlex.join(program.command)} failed on {self.name} with status {program.returncode}"
                + (f": {last[0]}" if last else ""),
                "with check=False its status and output are returned instead",
            )
        return subprocess.CompletedProcess(list(command), program.returncode or 0, output, complaints)

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> VirtualCall:
        """Begin to run a Python function inside, in a process of its own."""
        call = self.net.next_file("call")
        content = cloudpickle.dumps(sys.path) + cloudpickle.dumps((function, arguments, keywords))
        call.with_suffix(".call").write_bytes(content)
        files = [str(call.with_suffix(ending)) for ending in (".call", ".result")]
        return VirtualCall(self.popen([sys.executable, "-P", "-B", str(CALL), *files]), Path(files[1]))

    def python(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What a Python function returns when it runs inside; raises what it raises."""
        return self.start(function, *arguments, **keywords).result()

    def jupyter_kernel(self) -> VirtualNodeKernel:
        """A Jupyter kernel inside, ready to execute: virtual time passes while a cell runs, and stands still between.

        It ends with its `with` block, or the network. Raises NetreproError when it cannot be started.
        """
        from netrepro.emulation.virtual.jupyter import VirtualNodeKernel

        return VirtualNodeKernel(self.name, self.popen)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


class VirtualCall:
    """A Python function that runs inside."""

    def __init__(self, program: VirtualProgram, outcome: Path):
        self.program, self._outcome = program, outcome

    def result(self, timeout: float | None = None) -> Any:
        """What it returns; raises what it raises, TimeoutError after so much virtual time."""
        if self.program.wait(timeout) is None:
            self.program.kill()
            raise TimeoutError(f"after {timeout:g} s of virtual time")
        if not self._outcome.exists() or not self._outcome.stat().st_size:
            last = (self.program.errors.strip().splitlines() or ["nothing"])[-1]
            raise NetreproError(f"the function ended with status {self.program.returncode}, and said: {last}")
        works, value = pickle.loads(self._outcome.read_bytes())
        if works:
            return value
        raise value


@dataclass(frozen=True)
class Program:
    """A program for run_programs: when and where it starts, and when it is ended by which signal, if it runs then.

    node : host or switch. end_s : None: with the whole run, by SIGTERM.
    """

    node: str
    command: Sequence[str]
    start_s: float = 0.0
    end_s: float | None = None
    end_signal: int = signal.SIGKILL
    environment: Mapping[str, str] = field(default_factory=dict)
    input: str = ""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its status (negative: by that signal), when, and what it printed."""

    program: Program
    returncode: int
    ended_s: float
    output: str
    errors: str


@dataclass(frozen=True)
class Event:
    """A change of a link, for run_programs, as VirtualEmulation.change_link takes it."""

    at_s: float
    source: str
    destination: str
    rate_mbps: float | None = None
    up: bool | None = None
    both: bool = True


def run_programs(
    topology: Topology,
    programs: Sequence[Program],
    seconds: float,
    *,
    seed: int = 1,
    events: Sequence[Event] = (),
    files: Mapping[str, str | bytes] | None = None,
    progress: Callable[[float], None] | None = None,
    **network: Any,
) -> list[Ended]:
    """Run programs in a network for so many seconds of virtual time; how each ended, in their order.

    Real programs on a real network stack, unmodified and without privileges: the same seed gives the same output. They
    see the machine's files, and start in a folder of their own that has `files` (name -> content) and that they may
    write to. What they print is kept; whoever still runs at the end gets SIGTERM and, a second later, SIGKILL.
    events : changes of links. progress : is called with the share of the time that has passed. network : further
    arguments of VirtualEmulation.

    Raises NetreproError for unknown nodes, times outside the run, and for a program that cannot be started or that
    never lets time pass.
    """
    for program in programs:
        if not 0 <= program.start_s <= seconds or (program.end_s is not None and program.end_s < program.start_s):
            raise NetreproError(
                f"{program.command[0]} from {program.start_s:g} s to {program.end_s} s in a run of {seconds:g} s",
                "start it within the run, and end it after it has started",
            )
    with VirtualEmulation(topology, seed=seed, **network) as net:
        for name, content in (files or {}).items():
            path = net.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        running: dict[int, VirtualProgram] = {}

        def begin(place: int) -> None:
            each = programs[place]
            running[place] = net[each.node].popen(each.command, input=each.input, environment=each.environment)

        def end(place: int) -> None:
            if running[place].poll() is None:
                running[place].send_signal(programs[place].end_signal)

        def change(event: Event) -> None:
            how = {"rate_mbps": event.rate_mbps, "up": event.up, "both": event.both}
            net.change_link(event.source, event.destination, **how)  # type: ignore[arg-type]

        moments: list[tuple[float, int, Callable[[], None]]] = [
            (event.at_s, 0, partial(change, event)) for event in events
        ]
        for place, each in enumerate(programs):
            moments.append((each.start_s, 1, partial(begin, place)))
            if each.end_s is not None and each.end_s <= seconds:
                moments.append((each.end_s, 2, partial(end, place)))
        for at_s, _, act in sorted(moments, key=lambda moment: moment[:2]):
            net.sleep(at_s - net.now_s)
            if progress is not None:
                progress(min(at_s / seconds, 1.0))
            act()
        net.sleep(seconds - net.now_s)
        for started in running.values():
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
        net.sleep(1.0)
        found = [_how_it_ended(each, running[place]) for place, each in enumerate(programs)]
    if progress is not None:
        progress(1.0)
    return found


def _how_it_ended(program: Program, started: VirtualProgram) -> Ended:
    if started.poll() is None:
        started.kill()
        started.wait()
    assert started.returncode is not None and started.ended_s is not None
    return Ended(program, started.returncode, started.ended_s, started.output, started.errors)
