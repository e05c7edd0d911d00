"""The user-space relay that delays and loses packets, and what it says of its own punctuality."""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.emulation.guests import Guest, LauncherConnection
from netrepro.emulation.plan import HUB, Plan
from netrepro.errors import NetreproError
from netrepro.networks.links import DropTail

_PROCESS = Path(__file__).with_name("relay_process.py")
# A socket holds about 200 kB of waiting packets, each charged with its bookkeeping.
CHARGE_PER_PACKET_BYTES, LEAST_SOCKET_BYTES, SMALLEST_PACKET_BYTES = 2304, 200_000, 60
_LATENESS_BUCKETS = 512
COUNTERS = ("received_packets", "lost_packets", "forwarded_packets", "dropped_packets", "failed_packets")


class Relay:
    """A process in the hub that holds packets for their delay; started before the network has interfaces."""

    def __init__(self, launcher: LauncherConnection, place: int, plan: Plan):
        from netrepro import _core  # networks without delays need no compiled core

        self.plan = plan
        self._size = _core.link_relay_bytes(len(plan.delays))
        work = {
            "directions": [
                (each.from_index, each.to_index, round(each.delay_ms * 1e6), each.loss) for each in plan.delays
            ],
            "seed": plan.seed,
            "most_sockets": _sockets(plan),
        }
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as complaints, \
                tempfile.TemporaryFile() as shared, os.fdopen(reader, "rb") as answer:  # fmt: skip
            asked.write(json.dumps(work).encode())
            asked.seek(0)
            shared.truncate(self._size)
            self._shared = mmap.mmap(shared.fileno(), self._size)
            command = [sys.executable, "-I", "-S", str(_PROCESS), str(_core.__file__)]
            streams = [asked.fileno(), writer, complaints.fileno(), shared.fileno()]
            try:
                self._guest = Guest(launcher, place, command, streams)
            finally:
                os.close(writer)
            priority = answer.read().decode()
            if not priority:
                complaints.seek(0)
                lines = complaints.read().decode(errors="replace").strip().splitlines()
                raise NetreproError(
                    f"links with a delay cannot be emulated here: {lines[-1] if lines else 'the relay ended'}",
                    "use links without delay and loss, or tier 'simulated'",
                )
        self.real_time = priority == "real-time"

    @property
    def process(self) -> int:
        """Its process id, as programs inside the network see it."""
        return self._guest.pid

    def _numbers(self) -> np.ndarray:
        return np.frombuffer(self._shared, dtype=np.uint64).astype(np.int64)

    def counters(self) -> pd.DataFrame:
        """One row a relayed direction: source, destination, and COUNTERS so far.

        dropped_packets found the queue behind the relay full; failed_packets should be 0.
        """
        table = self._numbers()[2 + _LATENESS_BUCKETS :].reshape(-1, len(COUNTERS))
        ends = [each.direction for each in self.plan.delays]
        return pd.DataFrame(ends, columns=["source", "destination"]).join(pd.DataFrame(table, columns=list(COUNTERS)))

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
        counts = self._numbers()[2 : 2 + _LATENESS_BUCKETS]
        bucket = np.flatnonzero(counts)
        up_to_us = 2.0 ** (bucket // 8) * (1 + (bucket % 8 + 1) / 8) / 1000
        return pd.DataFrame({"up_to_us": up_to_us, "packets": counts[bucket]})


def _sockets(plan: Plan) -> int:
    """Enough that the queues behind the relay fill before its sockets do, small packets included."""
    packets = 0.0
    for port in plan.ports.values():
        if port.shaper[0] == HUB and isinstance(port.link.queue, DropTail):
            packets += port.link.queue.packets or (port.link.queue.bytes or 0) / SMALLEST_PACKET_BYTES
    return 4 + int(packets * CHARGE_PER_PACKET_BYTES / LEAST_SOCKET_BYTES)
