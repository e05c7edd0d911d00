"""The user-space relay that delays and loses packets, and what it says of its own punctuality."""

from __future__ import annotations

import resource

import numpy as np
import pandas as pd

from netrepro.emulation.core_guest import LATENESS_BUCKETS, CoreGuest, lateness_table
from netrepro.emulation.guests import LauncherConnection
from netrepro.emulation.plan import HUB, Plan
from netrepro.networks.links import DropTail

# A socket holds about 200 kB of waiting packets, each charged with its bookkeeping.
CHARGE_PER_PACKET_BYTES, LEAST_SOCKET_BYTES, SMALLEST_PACKET_BYTES = 2304, 200_000, 60
COUNTERS = ("received_packets", "lost_packets", "forwarded_packets", "dropped_packets", "failed_packets")


class Relay:
    """A process in the hub that holds packets for their delay; started before the network has interfaces."""

    def __init__(self, launcher: LauncherConnection, place: int, plan: Plan):
        from netrepro import _core  # networks without delays need no compiled core

        self.plan = plan
        directions = [(each.from_index, each.to_index, round(each.delay_ms * 1e6), each.loss) for each in plan.delays]
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._process = CoreGuest(
            launcher,
            place,
            "run_link_relay",
            {"directions": directions, "seed": plan.seed, "most_sockets": min(_sockets(plan), files - 64)},
            shared_bytes=_core.link_relay_bytes(len(plan.delays)),
            what="links with a delay cannot be emulated here",
            remedy="use links without delay and loss, or tier 'simulated'",
            real_time=True,
        )
        self.real_time = self._process.real_time

    def counters(self) -> pd.DataFrame:
        """One row a relayed direction: source, destination, and COUNTERS so far.

        dropped_packets found the queue behind the relay full; failed_packets should be 0.
        """
        table = self._numbers()[2 + LATENESS_BUCKETS :].reshape(-1, len(COUNTERS))
        ends = [each.direction for each in self.plan.delays]
        return pd.DataFrame(ends, columns=["source", "destination"]).join(pd.DataFrame(table, columns=list(COUNTERS)))

    def _numbers(self) -> np.ndarray:
        return self._process.numbers

    @property
    def missed_packets(self) -> int:
        """Arrivals that were lost because the relay had not read those before: should be 0."""
        return int(self._numbers()[0])

    @property
    def sockets(self) -> int:
        """Sockets opened for sending."""
        return int(self._numbers()[1])

    def lateness(self) -> pd.DataFrame:
        """Histogram of how late packets left: up_to_us (upper edge), packets."""
        return lateness_table(self._numbers()[2 : 2 + LATENESS_BUCKETS])


def _sockets(plan: Plan) -> int:
    """Enough that the queues behind the relay fill before its sockets do, small packets included."""
    packets = 0.0
    for port in plan.ports.values():
        if port.shaper[0] == HUB and isinstance(port.link.queue, DropTail):
            packets += port.link.queue.packets or (port.link.queue.bytes or 0) / SMALLEST_PACKET_BYTES
    return 4 + int(packets * CHARGE_PER_PACKET_BYTES / LEAST_SOCKET_BYTES)
