"""Fetching a document from a real Linux sender by a client in user space, in virtual time; guest.py is both ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.applications.processes import lines_of, start_script
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp
from netrepro.programs import need_program

GUEST = Path(__file__).with_name("guest.py")
PORT = 80


@dataclass(frozen=True)
class ReceivingClient:
    """A client and its kind of acknowledgements: honest, division (`how_many` pieces), spoofing (`how_many` copies),
    first spoofing (copies of the first acknowledgement) or optimistic (`how_many` ms between segments).
    """

    receiver: str
    how_many: float
    segment_bytes: int
    sack: bool


def fetch(
    topology: Topology,
    route: tuple[str, ...],
    client: ReceivingClient,
    size_bytes: int,
    control: str,
    tcp: Tcp,
    **run: Any,
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Fetch a document from the route's last host by a client at the route's first host.

    Returns the data packets that arrive at the client (time_s since its SYN, size_bytes of payload, start_bytes: offset
    of the first byte), and the counters of the server's kernel (sent_again, timeouts).

    control : the sender's congestion control, by its kernel name. run : seconds, seed. Raises NetreproError as
    VirtualNetwork does, and if a program fails.
    """
    paths = sorted([route, route[::-1]])
    with VirtualNetwork(
        topology, congestion_control="", seed=run["seed"], tcp=tcp, paths=paths, syscall_cost_ns=0
    ) as net:
        net.load_control(control)
        own, server = (net.path_address(path) for path in (route[::-1], route))
        host = net[route[0]]
        # The host's kernel sends no resets for an address that it does not own; packets are still routed there.
        host.run([need_program("ip"), "address", "delete", f"{own}/32", "dev", f"{route[0]}-eth0"])
        how = "sack" if client.sack else "none"
        serving = start_script(net, route[-1], GUEST, "serve", str(PORT), str(size_bytes), control)
        words = [own, server, PORT, size_bytes, run["seconds"], client.receiver, client.how_many, client.segment_bytes]
        fetching = start_script(net, route[0], GUEST, "fetch", *map(str, words), how)
        (rows,), (counted,) = lines_of(fetching, [serving]), lines_of(serving)
    return pd.DataFrame(rows, columns=["time_s", "size_bytes", "start_bytes"]), counted
