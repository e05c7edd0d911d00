"""The user-space relay that delays, shakes, reorders, loses and queues packets, and what it says of itself."""

from __future__ import annotations

import os
import resource
import tempfile

import numpy as np
import pandas as pd

from netrepro.emulation.core_guest import LATENESS_BUCKETS, CoreGuest, lateness_table
from netrepro.emulation.guests import LauncherConnection
from netrepro.emulation.plan import HUB, Delay, Plan, kernel_queue

# A socket holds about 200 kB of waiting packets, each charged with its bookkeeping.
CHARGE_PER_PACKET_BYTES, LEAST_SOCKET_BYTES, SMALLEST_PACKET_BYTES = 2304, 200_000, 60
COUNTERS = (
    "received_packets",
    "lost_packets",
    "forwarded_packets",
    "dropped_packets",
    "failed_packets",
    "dropped_by_rule",
    "marked_packets",
)
_HEADER, _SAMPLE_EVERY, _WAITED = 4, 2, 3  # numbers before the histogram, and places among them
_STATE = (*COUNTERS, "asked_rate_bps")  # of a direction
_INTERRUPTED = -1  # in place of a sample's direction; its second number is then how long, in ns
_SAMPLE = np.dtype([(name, np.int64) for name in ("time_ns", "direction", "queue_packets", "queue_bytes")])
# Fixed before any run: nine packets of ten may be late by this share of the shortest delay, or by its clock's tick.
MOST_LATE_SHARE, LEAST_MOST_LATE_US = 0.1, 100.0
FLUSH_S = 0.08  # within which the relay has written its last samples


class Relay:
    """A process in the hub that holds packets for their delay; started before the network has interfaces."""

    def __init__(
        self, launcher: LauncherConnection, place: int, plan: Plan, nice: int = 0, processor: int | None = None
    ):
        from netrepro import _core  # networks without delays need no compiled core

        self.plan = plan
        directions = [(each.from_index, each.to_index, *_described(each), each.direction[0]) for each in plan.delays]
        self._samples = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the network
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._process = CoreGuest(
            launcher,
            place,
            "run_link_relay",
            {
                "directions": directions,
                "seed": plan.seed,
                "most_sockets": min(_sockets(plan), files - 64),
                "sample_descriptor": 4,
            },
            shared_bytes=_core.link_relay_bytes(len(plan.delays)),
            what="links with a delay cannot be emulated here",
            remedy="use links without delay and loss, or tier 'simulated'",
            real_time=not plan.paced,  # the kernel holds up what is always awake and real-time, 50 ms of each second
            nice=nice,
            processor=processor,
            descriptors=[self._samples.fileno()],
        )
        self.real_time = self._process.real_time

    def counters(self) -> pd.DataFrame:
        """One row a relayed direction: source, destination, and COUNTERS so far.

        dropped_packets found the queue behind the relay full, dropped_by_rule and marked_packets are the doing of
        the relay's own queues; failed_packets should be 0.
        """
        table = self._numbers()[_HEADER + LATENESS_BUCKETS :].reshape(-1, len(_STATE))[:, : len(COUNTERS)]
        ends = [each.direction for each in self.plan.delays]
        return pd.DataFrame(ends, columns=["source", "destination"]).join(pd.DataFrame(table, columns=list(COUNTERS)))

    def set_rate(self, port: tuple[str, str], rate_mbps: float) -> None:
        """Let a port (from, to) have another rate from now on: packets take as long, and a queue feeds its shaper."""
        number = [each.direction for each in self.plan.delays].index(port)
        place = _HEADER + LATENESS_BUCKETS + number * len(_STATE) + _STATE.index("asked_rate_bps")
        self._process.write(place, round(rate_mbps * 1e6))

    def check(self) -> None:
        """Raises NetreproError, with what it said, when it has ended."""
        if self._process.guest.poll() is not None:
            raise self._process.failure()

    @property
    def process(self) -> int:
        """Its process id, as programs inside the network see it."""
        return self._process.guest.pid

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

    @property
    def waited_packets(self) -> int:
        """Paced packets that waited inside the kernel until they were due; without privileges the relay waits."""
        return int(self._numbers()[_WAITED])

    def lateness(self) -> pd.DataFrame:
        """Histogram of how late packets left: up_to_us (upper edge), packets."""
        return lateness_table(self._numbers()[_HEADER : _HEADER + LATENESS_BUCKETS])

    @property
    def most_late_us(self) -> dict[int, float]:
        """Percentiles of lateness with the most that each may be for a run to be trusted."""
        shortest_us = min((each.link.delay_ms * 1e3 for each in self.plan.delays if each.link.delay_ms), default=0.0)
        most_us = max(MOST_LATE_SHARE * shortest_us, LEAST_MOST_LATE_US)
        return {90: most_us, 99: 10 * most_us}

    @property
    def is_sampling(self) -> bool:
        """Whether it samples its own queues for somebody."""
        return bool(self._numbers()[_SAMPLE_EVERY])

    def sample_queues(self, interval_s: float) -> int:
        """Sample the relay's own queues from now on, 0 for no more; returns how many bytes of samples there are."""
        self._process.write(_SAMPLE_EVERY, round(interval_s * 1e9))
        return os.fstat(self._samples.fileno()).st_size

    def queue_samples(self, from_byte: int) -> pd.DataFrame:
        """Samples of the relay's own queues: source, destination, time_ns, queue_packets, queue_bytes."""
        samples = self._written(from_byte)
        samples = samples[samples["direction"] != _INTERRUPTED]
        table = pd.DataFrame({name: samples[name] for name in _SAMPLE.names or ()})
        ends = pd.DataFrame([each.direction for each in self.plan.delays], columns=["source", "destination"])
        return ends.loc[table.pop("direction")].reset_index(drop=True).join(table)

    def interruptions_ns(self, from_byte: int) -> np.ndarray:
        """When a relay that was awake did not run while its queues were sampled: shape (interruptions, 2), from and to.

        Only what is longer than 10 us is noticed, and only while the relay has nothing to do but to look at the clock.
        """
        samples = self._written(from_byte)
        samples = samples[samples["direction"] == _INTERRUPTED]
        return np.stack([samples["time_ns"] - samples["queue_packets"], samples["time_ns"]], axis=1)

    def _written(self, from_byte: int) -> np.ndarray:
        descriptor = self._samples.fileno()
        size = os.fstat(descriptor).st_size // _SAMPLE.itemsize * _SAMPLE.itemsize
        return np.frombuffer(os.pread(descriptor, max(size - from_byte, 0), from_byte), _SAMPLE)


def _described(of: Delay) -> tuple:
    """What the relay does to a direction, as run_link_relay takes it."""
    link = of.link
    delay_ns, jitter_ns, reordering_ns = (round(ms * 1e6) for ms in (link.delay_ms, link.jitter_ms, link.reordering_ms))
    rule = ("", ()) if kernel_queue(link, of.paced) else link.queue.rule()
    return delay_ns, jitter_ns, link.loss, link.reordering, reordering_ns, *rule, link.rate_mbps * 1e6, of.paced


def _sockets(plan: Plan) -> int:
    """Enough that the queues behind the relay fill before its sockets do, small packets included."""
    packets = 0.0
    for port in plan.ports.values():
        queue = kernel_queue(port.link, port.paced)
        if port.shaper[0] == HUB and queue:
            packets += queue.packets or (queue.bytes or 0) / SMALLEST_PACKET_BYTES
    return 4 + int(packets * CHARGE_PER_PACKET_BYTES / LEAST_SOCKET_BYTES)
