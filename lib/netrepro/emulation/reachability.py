"""Does every host reach every other one, and how long does it take?"""

from __future__ import annotations

import itertools
import json

import networkx as nx
import pandas as pd

from netrepro.emulation.check import probe_command
from netrepro.emulation.network import Network
from netrepro.networks.compiled import IPV6_MORE_BYTES
from netrepro.networks.topology import Topology

PACKET_BYTES = 98  # a ping of 56 bytes, as Ethernet carries it


def ping_all(net: Network, count: int = 3, timeout_s: float = 1.0, *, ipv6: bool = False) -> pd.DataFrame:
    """Ping every host from every other one, one after the other, in a network that is built.

    Parameters
    ----------
    count : pings a pair; the first may have to ask for addresses, so the least round trip counts.
    timeout_s : seconds, of the network's time, after which a ping is lost.
    ipv6 : ping by IPv6, in a network that has it.

    Returns a row a pair: from, to, answered (pings), round_trip_ms (NaN where none was), described_ms (what delays and
    rates of the links on a shortest path say).
    """
    hosts = net.topology.hosts
    address = {host: net[host].ipv6_address if ipv6 else net[host].address for host in hosts}
    packet_bytes = PACKET_BYTES + (IPV6_MORE_BYTES if ipv6 else 0)
    rows = []
    for source in hosts:
        others = [f"{host}={address[host]}" for host in hosts if host != source]
        trips_to = json.loads(net[source].run(probe_command("ping", count, timeout_s, *others)).stdout)
        for host, trips in trips_to.items():
            trip = min(trips, default=float("nan"))
            described_ms = described_round_trip_ms(net.topology, source, host, packet_bytes)
            rows.append((source, host, len(trips), trip, described_ms))
    return pd.DataFrame(rows, columns=["from", "to", "answered", "round_trip_ms", "described_ms"])


def described_round_trip_ms(
    topology: Topology, source: str, destination: str, packet_bytes: int = PACKET_BYTES
) -> float:
    """Compute the round trip of a ping over an idle shortest path: delays and transmission times of links (ms)."""
    path = nx.shortest_path(topology.graph, source, destination)
    hops = [*itertools.pairwise(path), *itertools.pairwise(path[::-1])]
    return sum(link.delay_ms + packet_bytes * 8e-3 / link.rate_mbps for link in (topology.link(*hop) for hop in hops))
