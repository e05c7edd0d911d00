"""The interface of a network in real time for its recordings, its traffic and its changes of links."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.plan import Plan
from netrepro.emulation.real_time.guests import LauncherConnection
from netrepro.networks.topology import Topology


@dataclass(frozen=True)
class Made:
    """A change of a link that was made between two instants (ns, CLOCK_REALTIME); rate_mbps : rate from then on."""

    begun_ns: int
    made_ns: int
    rate_mbps: float


class RunningNetwork(Protocol):
    """A network that is built, as RealTimeNetwork is inside its `with` block.

    made : port -> its changes so far, in order.
    """

    topology: Topology
    tier: str
    made: dict[tuple[str, str], list[Made]]

    @property
    def plan(self) -> Plan:
        """The plan by which the network was built."""

    @property
    def launcher(self) -> LauncherConnection:
        """The connection to the process that owns the network."""

    def place(self, node: str) -> int:
        """Return the index of the node's namespace."""

    def send(self, requests: Mapping[str, Sequence[NetlinkRequest]]) -> None:
        """Send messages to the kernel inside nodes."""

    def open_socket(self, node: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Open a socket in the network of a node."""
