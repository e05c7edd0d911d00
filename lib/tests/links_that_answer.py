"""What tests of RCP and XCP have in common: one shared link with plenty of room, and rates that were seen there."""

from __future__ import annotations

import numpy as np

from netrepro.networks import DropTail, Link, Measurements, Topology, dumbbell

PLENTY = DropTail(packets=100_000)
PAYLOAD = 1448 / 1514  # of a full packet on the wire


def shared(pairs: int, rate_mbps: float = 100, delay_ms: float = 20, *, access: Link) -> Topology:
    return dumbbell(pairs, access, Link(rate_mbps, delay_ms, PLENTY))


def rates_mbps(measured: Measurements, flow: int, times_s: np.ndarray) -> np.ndarray:
    """Compute the rate (Mb/s) at which a flow left the recorded port between one time and the next."""
    packets = measured.packets[measured.packets["flow"] == flow]
    counted, _ = np.histogram(packets["time_s"], times_s, weights=packets["size_bytes"])
    return counted * 8e-6 / np.diff(times_s)
