"""A network in which programs run, the same on every kernel: the border that a backend keeps.

real_time/network.py builds it on this machine's kernel, virtual/network.py on one in virtual time; emulate.py chooses.
Seconds are those of the network's own time.
"""

from __future__ import annotations

import os
import shlex
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

    returncode : its status, negative for a signal; None until one of the functions here has seen its end.
    """

    returncode: int | None

    def poll(self) -> int | None:
        """Tell its status, or None while it runs."""

    def poll_for(self, seconds: float) -> int | None:
        """Tell its status, or None where so many seconds pass before it ends."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and tell its status. Raises subprocess.TimeoutExpired after `timeout` seconds."""

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end and return what it has printed, and its errors. Raises subprocess.TimeoutExpired, with what
        came until then."""

    def send_signal(self, number: int) -> None:
        """Send it a signal."""

    def kill(self) -> None:
        """End it now, by SIGKILL."""

    def kill_all(self) -> None:
        """End it now, and what it has started."""

    def __enter__(self) -> RunningProgram: ...

    def __exit__(self, *exception: object) -> None: ...


class JupyterKernel(Protocol):
    """A Jupyter kernel inside a node; it ends with its `with` block, or else with the network."""

    @property
    def execute_interactive(self) -> Callable[..., dict[str, Any]]:
        """The function that runs a cell and returns its reply, as of any client of Jupyter's: `code`, and by name
        silent, store_history, user_expressions, timeout (s) and output_hook, which is given each message of output.
        It raises TimeoutError where a cell takes longer."""

    def close(self) -> None:
        """End it, and what it has started; do nothing the second time."""

    def __enter__(self) -> JupyterKernel: ...

    def __exit__(self, *exception: object) -> None: ...


class Recording(Protocol):
    """Ports under observation while its `with` block runs; its tables are there once the block has ended.

    Times are seconds since the block began. Packet sizes include the Ethernet header, as rates and buffers do.
    """

    def queues(self) -> pd.DataFrame:
        """Give the samples of the queues: source, destination, time_s, queue_packets, queue_bytes."""

    def packets(self, flows: Mapping[int, int] | None = None) -> pd.DataFrame:
        """Give the packets as they left: source, destination, time_s, size_bytes.

        flows : end_key of a sender -> flow; adds the column `flow`, which a packet has whichever way it goes, or -1.
        """

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        """Give what each sampled port sent: source, destination, time_s (end of the window), throughput_mbps."""

    def links(self) -> pd.DataFrame:
        """Give totals from beginning to end, a row a port of the network, columns as of Measurements.links."""

    def __enter__(self) -> Recording: ...

    def __exit__(self, *exception: object) -> None: ...


class Node(Protocol):
    """A host or switch: where programs, functions and sockets are opened in its network."""

    name: str

    @property
    def net(self) -> Network:
        """The network that it belongs to."""

    def popen(
        self,
        command: Sequence[str],
        *,
        input: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> RunningProgram:
        """Start a program.

        input : what it reads. environment : beside what programs there have in any case. folder : where it starts.
        Raises NetreproError when it cannot be started.
        """

    def start(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
        """Begin to run a Python function inside, in a process of its own; what it prints is not kept."""

    def jupyter_kernel(self) -> JupyterKernel:
        """Start a Jupyter kernel inside, ready to execute. Raises NetreproError when it cannot be started."""

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """Open a socket in this node's network for the calling process to use, whatever network that is in itself.

        Raises NetreproError in virtual time, which passes inside only.
        """

    def shell(self, command: Sequence[str] = ("bash",)) -> int:
        """Open a shell inside, on the terminal that this is called from, until it ends; return its exit status.

        Raises NetreproError where there is no terminal, as in a notebook, and in virtual time.
        """

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return str(self.net.plan.addresses[self.name])

    @property
    def ipv6_address(self) -> str:
        """Its IPv6 address. Raises NetreproError in a network that has none."""
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
        """Run a program to its end and return its status, output and error output; arguments as of popen.

        Raises NetreproError when it cannot be started, or with `check` when it fails; subprocess.TimeoutExpired, with
        what came until then, when it takes longer than `timeout` seconds. That and Ctrl-C end it and what it started.
        """
        with self.popen(command, input=input or "", environment=environment, folder=folder) as program:
            try:
                output, complaints = program.communicate(timeout=timeout)
            except BaseException:
                with suppress(NetreproError):  # the network may have ended with it
                    program.kill_all()
                raise
        if check and program.returncode:
            last = (complaints.strip() or output.strip()).splitlines()[-1:]
            raise NetreproError(
                f"{shlex.join(map(str, command))} failed on {self.name} with status {program.returncode}"
                + (f": {last[0]}" if last else ""),
                "with check=False its status and output are returned instead",
            )
        return subprocess.CompletedProcess(list(command), program.returncode or 0, output, complaints)

    def python(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Run a Python function inside and return what it returns; raise what it raises."""
        return self.start(function, *arguments, **keywords).result()


class Network(Protocol):
    """A topology, built while its `with` block runs; `net["h1"]` is a node.

    Hosts, switches (routers that forward over all shortest paths, chosen flow by flow) and links. What a backend cannot
    do, it says before it starts.
    """

    topology: Topology
    tier: str

    @property
    def plan(self) -> Plan:
        """The addresses, interfaces and routes of its nodes."""

    def __getitem__(self, name: str) -> Node:
        """Find the host or switch of that name. Raises NetreproError, with the nearest name, for no node."""

    @property
    def now_s(self) -> float:
        """The time since the network was built."""

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""

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
        """Give a link another rate, delay or loss, as LinkChange says, or take it down and up again; routes stay.

        both : in both directions. What waits in a link that goes down is lost. Raises NetreproError for a link that is
        not there, and in real time for a delay or loss of a cable that was built with neither.
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
        packets : ports whose every packet is stamped as it leaves, and whose queue is sampled too. In real time there
            is room for `most_packets` of each; virtual time keeps all.
        captures : a folder that gets a pcap with these packets for each such port, "s1-s2.pcap", when the block ends:
            their headers and first bytes, with stamps of nanoseconds.
        live : a descriptor or the path of a FIFO that gets the same packets while the block runs, as one pcapng, for
            Wireshark to look on (`wireshark -k -i -`). It has to be read meanwhile; a reader may leave at any time.
            The virtual kernel hands packets on in pieces of 32 kB, and the rest as the block ends.

        Raises NetreproError for ports and folders that are not there, and for what cannot be written to.
        """

    def close(self) -> None:
        """End the network and all that runs inside; do nothing the second time."""

    def __enter__(self) -> Network: ...

    def __exit__(self, *exception: object) -> None:
        self.close()

    def check(self, expected: Mapping[str, Any] | str | os.PathLike[str]) -> pd.DataFrame:
        """Check whether the network does what is expected of it, one phrase after the other, in its own time.

        expected : phrase -> what should be found, such as {"h1 reaches h3": True, "h1->h3 mtu": 1500}, or a YAML file
            of such lines. check.py lists the phrases and how each is found.

        Returns a row a phrase: what, expected, found, holds. Raises NetreproError, before anything is looked at, for a
        phrase that it does not know, with those that it knows, and for nodes and values that cannot be meant.
        """
        return check_network(self, expected)

    def path_address(self, path: Path) -> str:
        """Find the address of the path's last host that packets from its first one reach over the path."""
        if tuple(path) not in self.plan.path_addresses:
            raise NetreproError(f"no address for the path {' '.join(path)}", "name it in Emulation(paths=...)")
        return str(self.plan.path_addresses[tuple(path)])


def checked_words(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Check a command and turn it into strings. Raises NetreproError for one that no program can be started with."""
    if isinstance(command, (str, bytes)):
        raise NetreproError(f"a command in one string, {command!r}", f"give its words, {str(command).split()!r}")
    words = list(command)
    for word in words:
        if not isinstance(word, (str, os.PathLike)) or "\0" in os.fspath(word):
            raise NetreproError(f"{word!r} in a command", "give strings or paths without a NUL character")
    if not words:
        raise NetreproError("a command without a word", "name the program first")
    return [os.fspath(word) for word in words]
