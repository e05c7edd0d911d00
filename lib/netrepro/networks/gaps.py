"""How evenly a port sends: the fidelity check of Handigol et al. (CoNEXT 2012, section 5.1), for any tier's packets."""

from __future__ import annotations

import numpy as np

from netrepro.networks.experiment import Measurements, Port

# The most by which a gap may differ from its ideal (share), and the least share of gaps that must keep within this.
GAP_BOUNDS = {"gaps within 10 %": (0.1, 0.99), "gaps within 1 %": (0.01, 0.9)}


def gap_shares(run: Measurements, port: Port) -> list[tuple[str, float, float]]:
    """Compute (check, share of gaps within it, bound) for packets that left the recorded `port` while busy, full as the
    experiment's `tcp` fills them.

    A share is NaN where the port was never busy from one full packet to the next.
    """
    asked = run.experiment
    full_bytes = asked.full_packet_bytes(asked.tcp)
    ideal_s = full_bytes * 8 / (asked.topology.link(*port).rate_mbps * 1e6)
    packets = run.packets_by_port.get(port, run.packets[:0])
    # A packet that waited longer than the gap before it found the port busy from end to end.
    gap_s, rest = np.diff(packets["time_s"].to_numpy()), packets.iloc[1:]
    busy = (rest["wait_ms"].to_numpy() * 1e-3 >= gap_s) & (rest["size_bytes"].to_numpy() == full_bytes)
    deviation = np.abs(gap_s[busy] - ideal_s) / ideal_s
    if not len(deviation):
        return [(name, np.nan, bound) for name, (_, bound) in GAP_BOUNDS.items()]
    return [(name, float((deviation <= within).mean()), bound) for name, (within, bound) in GAP_BOUNDS.items()]
