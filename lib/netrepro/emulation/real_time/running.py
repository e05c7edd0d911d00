"""What recordings, traffic and link changes need of a network of real kernels."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from netrepro.emulation.messages import Request
from netrepro.emulation.plan import Plan
from netrepro.emulation.real_time.guests import LauncherConnection
from netrepro.networks.topology import Topology


class RunningNetwork(Protocol):
    """A network that is built, as `Emulation` is inside its `with` block."""

    plan: Plan
    topology: Topology
    tier: str

    @property
    def launcher(self) -> LauncherConnection:
        """The connection to the process that owns the network."""

    def place(self, node: str) -> int:
        """The number of the node's namespace."""

    def send(self, requests: Mapping[str, Sequence[Request]]) -> None:
        """Send messages to the kernel inside nodes."""

    def open_socket(self, node: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the network of a node."""
