"""Sends in bulk between pairs of hosts in virtual time; guest.py sends, and counts what it receives in each second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netrepro.applications.processes import lines_of, start_script
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp

GUEST = Path(__file__).with_name("guest.py")


def bytes_each_second(
    topology: Topology, pairs: Sequence[tuple[str, str]], seconds: int, *, paced: bool, tcp: Tcp, seed: int
) -> list[list[int]]:
    """Send as fast as Reno may from the first to the second host of each pair, all at once.

    Returns bytes received in each second, a list a pair. Raises NetreproError where a program fails.
    """
    how = "paced" if paced else "unpaced"
    with VirtualNetwork(topology, congestion_control="reno", seed=seed, tcp=tcp) as net:
        receivers = [start_script(net, there, GUEST, "receive", str(seconds)) for _, there in pairs]
        net.sleep(0.1)
        senders = [
            start_script(net, here, GUEST, "send", net[there].address, str(seconds + 1), how) for here, there in pairs
        ]
        return [count for each in receivers for count in lines_of(each, senders)]
