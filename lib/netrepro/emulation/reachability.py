"""Pings between all hosts of a network: which pairs reach each other, and in what round-trip time."""

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
    """Ping every host from every other host, one pair after the other, in a network that is built.

    Parameters
    ----------
    count : pings for each pair. The first may wait for address resolution, so the shortest round trip counts.
    timeout_s : seconds of the network's time after which a ping counts as lost.
    ipv6 : ping by IPv6, in a network that has IPv6.

    Returns one row for each pair: from, to, answered (number of pings), round_trip_ms (NaN without an answer),
    described_ms (round trip that the delays and rates of the links on a shortest path add up to).
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
    """Compute the round trip (ms) of a ping over an idle shortest path: the links' delays and transmission times."""
    path = nx.shortest_path(topology.graph, source, destination)
    hops = [*itertools.pairwise(path), *itertools.pairwise(path[::-1])]
    return sum(link.delay_ms + packet_bytes * 8e-3 / link.rate_mbps for link in (topology.link(*hop) for hop in hops))
