"""Building a fat-tree of namespaces without root: ours against iproute2, pyroute2 and Mininet, in networks a second.

All build the same, as benchmarks.builds describes. Ratios of one run are what to read: the
machine's speed cancels.
"""

from __future__ import annotations

import pandas as pd

from benchmarks.builds import IP, IP_BATCH, MININET, PYROUTE2, compare_builds


def run(quick: bool = True) -> pd.DataFrame:
    """One row a benchmark and peer: benchmark, ours_per_s, peer, peer_per_s, ratio, remark (why a peer has none)."""
    tables = []
    for k in (4, 8):
        slow = () if quick and k > 4 else (IP, MININET)
        found = compare_builds(k, 3 if quick else 10, (IP_BATCH, PYROUTE2, *slow))
        peers = found[1:].rename(columns={"built_by": "peer", "times_ours": "ratio"})
        ours = {"benchmark": f"fat-tree k={k}", "ours_per_s": 1 / found.seconds[0]}
        tables.append(peers.assign(**ours, peer_per_s=1 / peers.seconds))
    columns = ["benchmark", "ours_per_s", "peer", "peer_per_s", "ratio", "remark"]
    return pd.concat(tables, ignore_index=True)[columns]
