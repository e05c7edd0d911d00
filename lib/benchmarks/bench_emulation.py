"""Building a fat-tree of namespaces without root: ours against iproute2, in networks a second.

All build the same: namespaces, cables, addresses, shapers, forwarding, all shortest-path routes. What the peers
send is written to files before their time starts; ours includes planning and starting its process. Ratios of one
run are what to read: the machine's speed cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pandas as pd

from netrepro.emulation.build_times import (
    IP,
    IP_BATCH,
    LINK,
    MININET,
    build_ours,
    build_with_iproute2,
    build_with_mininet,
)
from netrepro.errors import NetreproError
from netrepro.networks import fat_tree


def _fastest(build: Callable[[], float], times: int) -> float:
    return min(build() for _ in range(times))


def run(quick: bool = True) -> pd.DataFrame:
    """One row a benchmark: benchmark, ours_per_s, peer, peer_per_s, ratio (networks built in a second)."""
    build_ours(fat_tree(2, LINK))  # imports and the probe of tiers are not what is compared
    times = 3 if quick else 10
    rows = []
    for k in (4, 8):
        topology = fat_tree(k, LINK)
        ours = 1 / _fastest(lambda topology=topology: build_ours(topology), times)  # type: ignore[misc]
        for peer, batched in ((IP_BATCH, True), (IP, False)):
            if not batched and quick and k > 4:
                continue
            peers = 1 / _fastest(
                lambda topology=topology, batched=batched: build_with_iproute2(topology, batched),  # type: ignore[misc]
                times if batched else 1,
            )
            rows.append((f"fat-tree k={k}", ours, peer, peers))
        if k == 4 or not quick:
            with suppress(NetreproError):  # not installed, or not root
                rows.append((f"fat-tree k={k}", ours, MININET, 1 / build_with_mininet(topology)))
    table = pd.DataFrame(rows, columns=["benchmark", "ours_per_s", "peer", "peer_per_s"])
    return table.assign(ratio=table.ours_per_s / table.peer_per_s)
