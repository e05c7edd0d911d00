"""Running swarms of BitTorrent peers in virtual time: one process per peer, over TCP, with the simulation's link rates.

guest.py forks all peers, each into the network of its host.

The machine is the one that exchanges files with libtorrent in the tests; its chokers are those of the simulated swarm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.applications.processes import lines_of, start
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.links import Link
from netrepro.networks.topology import HOST_QUEUE, Cable, Topology
from netrepro.simulation.swarm import BLOCK_BYTES, SwarmPeer

GUEST = Path(__file__).with_name("guest.py")
DELAY_MS = 5.0  # delay of a link; two links connect two peers
DOWNLOAD_MBPS = 100.0  # high enough never to be the limit
SEGMENT_BYTES, FRAME_BYTES = 1448, 1514  # a full segment: its data, and its size on a link


def link_rate_mbps(kilobytes_per_s: float) -> float:
    """Compute the link rate at which blocks alone are sent at a peer's upload rate."""
    return kilobytes_per_s * 8 / 1e3 * FRAME_BYTES / SEGMENT_BYTES


def network(peers: Sequence[SwarmPeer]) -> Topology:
    """Make a topology: all peers on one switch, each with its own upload rate."""
    down = Link(DOWNLOAD_MBPS, DELAY_MS)
    cables = [
        Cable(f"h{place}", "s1", Link(link_rate_mbps(peer.upload_kilobytes_per_s), DELAY_MS, HOST_QUEUE), down)
        for place, peer in enumerate(peers, start=1)
    ]
    return Topology(tuple(cables), f"{len(peers)} peers")


def run_real_swarms(
    swarms: Sequence[Sequence[SwarmPeer]],
    chokers: Mapping[str, Mapping[str, float]],
    seed: int,
    *,
    pieces: int,
    blocks_per_piece: int,
    limit_s: float = 36_000.0,
) -> list[pd.DataFrame]:
    """Run swarms of the same upload rates, one after the other, on one kernel. chokers : kind -> its constants.

    Returns a table for each swarm, with the columns of `netrepro.simulation.swarm.run_swarm` and is_right (whether the
    peer's file is right). Raises NetreproError if a peer fails, and without the kernel.
    """
    cases = [
        {
            "peers": [
                {
                    "kind": peer.kind,
                    "is_seed": peer.is_seed,
                    "stays_s": peer.stays_s,
                    "bytes_per_s": 1e3 * peer.upload_kilobytes_per_s,
                }
                for peer in peers
            ],
            "chokers": chokers,
            "pieces": pieces,
            "piece_bytes": blocks_per_piece * BLOCK_BYTES,
            "limit_s": limit_s,
            "seed": seed + place,
        }
        for place, peers in enumerate(swarms)
    ]
    hosts = [f"h{place}" for place in range(1, len(swarms[0]) + 1)]
    with VirtualNetwork(network(swarms[0]), seed=seed, syscall_cost_ns=0) as net:
        plan: dict[str, Any] = {
            "addresses": [net[host].address for host in hosts],
            "namespaces": [f"/proc/1/fd/{net.plan.descriptor(host)}" for host in hosts],
            "cases": cases,
        }
        (net.folder / "plan.json").write_text(json.dumps(plan))
        lines_of_swarms = lines_of(start(net, hosts[0], GUEST, "plan.json"))
    return [_table(peers, lines) for peers, lines in zip(swarms, lines_of_swarms, strict=True)]


def _table(peers: Sequence[SwarmPeer], lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    described = [
        {
            "kind": peer.kind,
            "client": peer.client if peer.client is not None else str(place),
            "is_seed": peer.is_seed,
            "upload_kilobytes_per_s": peer.upload_kilobytes_per_s,
        }
        for place, peer in enumerate(peers)
    ]
    table = pd.DataFrame(lines).join(pd.DataFrame(described))
    return table.assign(complete_s=table["complete_s"].astype(float))
