"""A network in which programs run: the interface that every backend implements.

real_time/network.py implements it on this machine's kernel, virtual/network.py on a kernel in virtual time; emulate.py
chooses between them. Seconds are those of the network's own time.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pandas as pd

from netrepro.emulation.call import Call
from netrepro.emulation.check import check_network
from netrepro.emulation.plan import Plan
from netrepro.errors import NetreproError
from netrepro.networks.routing import Path
from netrepro.networks.topology import Topology


class RunningProgram(Protocol):
    """A program that was started in a node, used like subprocess.Popen; it ends with the network at the latest.

    returncode : exit status, negative for a signal; None until a method of this class has seen the program's end.
    """

    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs."""

    def poll_for(self, seconds: float) -> int | None:
        """Wait at most so many seconds for the end; return the exit status, or None if the program still runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return output and error output. Raises subprocess.TimeoutExpired after `timeout` seconds,
        with the output so far."""

    def send_signal(self, number: int) -> None:
        """Send the program a signal, by its number."""

    def kill(self) -> None:
        """End the program now, by SIGKILL."""

    def kill_all(self) -> None:
        """End the program, and the programs that it has started, now by SIGKILL."""

    def __enter__(self) -> RunningProgram: ...

    def __exit__(self, *exception: object) -> None: ...


class JupyterKernel(Protocol):
    """A Jupyter kernel inside a node; it ends with its `with` block, or with the network at the latest."""

    @property
    def execute_interactive(self) -> Callable[..., dict[str, Any]]:
        """The function that runs a cell and returns the kernel's reply, as in any Jupyter client. It takes `code`, and
        by name silent, store_history, user_expressions, timeout (s) and output_hook, which is called with each output
        message. It raises TimeoutError where a cell takes longer than `timeout`."""

    def close(self) -> None:
        """End the kernel and the processes that it has started; do nothing the second time."""

    def __enter__(self) -> JupyterKernel: ...

    def __exit__(self, *exception: object) -> None: ...


class Recording(Protocol):
    """A recording of ports while its `with` block runs; the tables can be read once the block has ended.

    Times are seconds since the block began. Packet sizes include the Ethernet header, as rates and buffers do.
    """

    def queues(self) -> pd.DataFrame:
        """Return the samples of the queues: source, destination, time_s, queue_packets, queue_bytes."""

    def packets(self, flows: Mapping[int, int] | None = None) -> pd.DataFrame:
        """Return the packets as they left: source, destination, time_s, size_bytes.

        flows : end_key of one end of a flow -> flow; adds the column `flow`, for packets of both directions (-1: none).
        """

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        """Return the rate of each sampled port: source, destination, time_s (end of the window), throughput_mbps."""

    def links(self) -> pd.DataFrame:
        """Return totals from beginning to end: a row for each port of the network, columns as in Measurements.links."""

    def __enter__(self) -> Recording: ...

    def __exit__(self, *exception: object) -> None: ...


class Node(Protocol):
    """A host or switch, in whose network programs, functions, sockets and shells are started."""

    name: str

    @property
    def net(self) -> Network:
        """The network to which the node belongs."""

    def popen(
        self,
        command: Sequence[str],
        *,
        input: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> RunningProgram:
        """Start a program.

        input : text on its standard input. environment : variables added to the programs' usual environment. folder :
        working directory. Raises NetreproError for a program that cannot be started.
        """

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
        """Start a Python function inside the node, in its own process; its output is discarded.

        It may return numbers, texts, bytes, None, dates, paths, addresses, arrays of NumPy (also of objects), frames,
        series and indices of pandas; and lists, tuples, sets and dicts of these. Nothing else comes back: a program
        inside could write over the result, and the objects of a class cannot be rebuilt without trust.
        """

    def jupyter_kernel(self) -> JupyterKernel:
        """Start a Jupyter kernel inside the node and wait until it is ready. Raises NetreproError where that fails."""

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """Open a socket in this node's network; the calling process uses it from its own network.

        Raises NetreproError in virtual time, which does not pass for processes outside.
        """

    def shell(self, command: Sequence[str] = ("bash",)) -> int:
        """Run a shell inside the node, on the caller's terminal; wait for its end and return its exit status.

        Raises NetreproError where there is no terminal, as in a notebook, and in virtual time.
        """

    @property
    def address(self) -> str:
        """The node's IPv4 address."""
        return str(self.net.plan.addresses[self.name])

    @property
    def ipv6_address(self) -> str:
        """The node's IPv6 address. Raises NetreproError in a network without IPv6."""
        if not self.net.plan.ipv6:
            raise NetreproError(f"no IPv6 address of {self.name}", "build the network with Emulation(..., ipv6=True)")
        return str(self.net.plan.ipv6_addresses[self.name])

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
        """Run a program to its end and return its status, output and error output; other arguments as in popen.

        Raises NetreproError for a program that cannot be started, and with `check` for one whose status is not 0.
        Raises subprocess.TimeoutExpired, with the output so far, after `timeout` seconds. A timeout and Ctrl-C end the
        program and the programs that it has started.
        """
        with self.popen(command, input=input or "", environment=environment, folder=folder) as program:
            try:
                output, complaints = program.communicate(timeout=timeout)
            except BaseException:
                with suppress(NetreproError):  # the network may have ended together with the program
                    program.kill_all()
                raise
        if check and program.returncode:
            last = (complaints.strip() or output.strip()).rpartition("\n")[2]
            signalled = signal.strsignal(-program.returncode) if program.returncode < 0 else None
            raise NetreproError(
                f"{shlex.join(map(str, command))} failed on {self.name} with status {program.returncode}"
                + (f" ({signalled})" if signalled else "")
                + (f": {last}" if last else ""),
                "with check=False its status and output are returned instead",
            )
        return subprocess.CompletedProcess(list(command), program.returncode or 0, output, complaints)

    def python(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Run a Python function inside the node; return what it returns, or raise what it raises (see start)."""
        return self.start(function, *arguments, **keywords).result()


class Network(Protocol):
    """A topology that exists while its `with` block runs; `net["h1"]` is a node.

    It has hosts, switches (routers that forward over all shortest paths, chosen flow by flow) and links. A backend
    refuses what it cannot do before it starts.
    """

    topology: Topology
    tier: str

    @property
    def plan(self) -> Plan:
        """The addresses, interfaces and routes of its nodes."""

    def __getitem__(self, name: str) -> Node:
        """Return the host or switch of that name. Raises NetreproError, with the nearest name, for an unknown name."""

    @property
    def now_s(self) -> float:
        """The time since the network was built, in seconds."""

    def sleep(self, seconds: float) -> None:
        """Let so many seconds of the network's time pass."""

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
        """Change a link's rate, delay or loss, as LinkChange says, or take the link down or up; routes do not change.

        both : True to change both directions. Packets that wait at a link that goes down are lost. Raises NetreproError
        for an unknown link, and in real time for a delay or loss of a cable that was built without delay, loss, jitter
        and reordering.
        """

    def record(
        self,
        queues: Iterable[tuple[str, str]] = (),
        packets: Iterable[tuple[str, str]] = (),
        interval_ms: float = 1.0,
        most_packets: int = 200_000,
        captures: str | os.PathLike[str] | None = None,
        live: int | str | os.PathLike[str] | None = None,
    ) -> Recording:
        """Record ports (from, to) until the `with` block of the result ends.

        queues : ports whose queue is sampled every `interval_ms`.
        packets : ports at which every packet is time-stamped as it leaves; their queues are sampled too. In real time
            `most_packets` of each port are kept, in virtual time all.
        captures : a folder for one pcap of each port in `packets`, "s1-s2.pcap", written when the block ends. It holds
            the packets' first bytes, with their headers, and nanosecond time stamps.
        live : a file descriptor or the path of a FIFO, to which the same packets are written while the block runs. The
            format is one pcapng, which Wireshark shows (`wireshark -k -i -`). Another process has to read it; the
            reader may leave at any time. The virtual kernel writes packets in pieces of 32 kB, the rest at the end.

        Raises NetreproError for unknown ports, missing folders, and a file that cannot be written to.
        """

    def close(self) -> None:
        """End the network and everything that runs inside; do nothing the second time."""

    def __enter__(self) -> Network: ...

    def __exit__(self, *exception: object) -> None:
        self.close()

    def check(self, expected: Mapping[str, Any] | str | os.PathLike[str]) -> pd.DataFrame:
        """Check whether the network does what is expected, one phrase after the other, in the network's own time.

        expected : phrase -> expected value, such as {"h1 reaches h3": True, "h1->h3 mtu": 1500}, or a YAML file of such
            lines. check.py lists the phrases and how each is measured.

        Returns a row for each phrase: what, expected, found, holds. Raises NetreproError, before anything is measured,
        for an unknown phrase (and lists the known ones), an unknown node or an unsuitable value.
        """
        return check_network(self, expected)

    def path_address(self, path: Path) -> str:
        """Return the address of the path's last host to which packets from its first host take the path.

        Raises NetreproError for a path that was not in Emulation(paths=...).
        """
        if tuple(path) not in self.plan.path_addresses:
            raise NetreproError(f"no address for the path {' '.join(path)}", "name it in Emulation(paths=...)")
        return str(self.plan.path_addresses[tuple(path)])


def checked_words(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a command's words as strings. Raises NetreproError for a command that cannot start a program."""
    if isinstance(command, (str, bytes)):
        raise NetreproError(f"a command in one string, {command!r}", f"give its words, {str(command).split()!r}")
    words = list(command)
    for word in words:
        if not isinstance(word, (str, os.PathLike)) or "\0" in os.fspath(word):
            raise NetreproError(f"{word!r} in a command", "give strings or paths without a NUL character")
    if not words:
        raise NetreproError("a command without a word", "name the program first")
    return [os.fspath(word) for word in words]
