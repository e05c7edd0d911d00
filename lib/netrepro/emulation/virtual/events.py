"""Events that the lines of a virtual kernel wrote: packets queued, dropped, started and sent, each link's totals, and
random numbers by which a queue decided about arriving packets.

The records are struct line_event of lib/kernel/built_in/line.c. A time, in nanoseconds of the kernel's monotonic clock,
is that at which the kernel handled the event.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity
from netrepro.emulation.traffic import end_key
from netrepro.errors import NetreproError
from netrepro.networks.experiment import MOST_SAMPLES
from netrepro.networks.tables import LINK_COLUMNS, PACKET_COLUMNS, QUEUE_COLUMNS

QUEUED, DROPPED, STARTED, LEFT, TOTALS, DREW = 1, 2, 3, 4, 5, 6
EVENT = np.dtype(
    [
        ("time_ns", "<u8"),
        ("started_ns", "<u8"),
        ("packet", "<u4"),
        ("port", "<u2"),
        ("kind", "u1"),
        ("ecn", "u1"),
        ("queue_packets", "<u4"),
        ("queue_bytes", "<u4"),
        ("size", "<u4"),
        ("from", "<u4"),
        ("to", "<u4"),
        ("from_port", "<u2"),
        ("to_port", "<u2"),
    ]
)


class Events:
    """Recorded events of one run. ports : in the order of their numbers. began_ns : the clock at time 0 of results."""

    def __init__(self, content: bytes, ports: Sequence[tuple[str, str]], began_ns: int):
        unordered = np.frombuffer(content, EVENT)
        # Sorted by port, and by time within a port: methods select a port's events many times.
        self._all = unordered[np.argsort(unordered["port"], kind="stable")]
        self._starts = np.searchsorted(self._all["port"], np.arange(len(ports) + 1))
        self._ports, self._began_ns = list(ports), began_ns
        self._numbers = {port: number for number, port in enumerate(self._ports)}

    def of(self, port: tuple[str, str], *kinds: int) -> np.ndarray:
        """Return the port's events of these kinds, in order; shape (events,), EVENT."""
        number = self._numbers[port]
        mine = self._all[self._starts[number] : self._starts[number + 1]]
        return mine[np.isin(mine["kind"], kinds)]

    def seconds(self, events: np.ndarray, name: str = "time_ns") -> np.ndarray:
        """Return the times of these events in seconds since the beginning. name : field with the time."""
        return (events[name].astype(np.int64) - self._began_ns) / 1e9

    def queue(self, port: tuple[str, str]) -> pd.DataFrame:
        """Return the port's queue after each event: time_s, queue_packets, queue_bytes."""
        changes = self.of(port, QUEUED, STARTED, DROPPED)
        table = pd.DataFrame({name: changes[name].astype(np.int64) for name in QUEUE_COLUMNS[3:]})
        table.insert(0, "time_s", self.seconds(changes))
        return table

    def queues(self, ports: Sequence[tuple[str, str]], duration_s: float) -> pd.DataFrame:
        """Return QUEUE_COLUMNS after each event, from 0 to `duration_s`."""
        parts = [pd.DataFrame(columns=QUEUE_COLUMNS)]
        for source, destination in ports:
            table = self.queue((source, destination)).assign(source=source, destination=destination)
            parts.append(table[(table["time_s"] >= 0) & (table["time_s"] <= duration_s)])
        return pd.concat(parts[1:] or parts, ignore_index=True)[QUEUE_COLUMNS]

    def sampled(self, ports: Sequence[tuple[str, str]], interval_s: float, duration_s: float) -> pd.DataFrame:
        """Return QUEUE_COLUMNS every `interval_s`, from 0 to `duration_s`."""
        time_s = np.arange(int(duration_s / interval_s + 1e-9) + 1) * interval_s
        parts = [pd.DataFrame(columns=QUEUE_COLUMNS)]
        for source, destination in ports:
            changes = self.of((source, destination), QUEUED, STARTED, DROPPED)
            last = np.searchsorted(self.seconds(changes), time_s, side="right")
            columns = {"source": source, "destination": destination, "time_s": time_s}
            for name in QUEUE_COLUMNS[3:]:
                columns[name] = np.concatenate([[0], changes[name]])[last].astype(np.int64)
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts[1:] or parts, ignore_index=True)

    def packets(self, ports: Sequence[tuple[str, str]], flow_of_end: dict[int, int], duration_s: float) -> pd.DataFrame:
        """Return PACKET_COLUMNS of the packets that left from 0 to `duration_s`; flow is -1 for packets of no flow.

        flow_of_end : end_key -> flow. Raises NetreproError for a port with more than MOST_SAMPLES packets.
        """
        parts = [pd.DataFrame(columns=PACKET_COLUMNS)]
        for source, destination in ports:
            left, queued = self.of((source, destination), LEFT), self.of((source, destination), QUEUED)
            if len(left) > MOST_SAMPLES:
                raise NetreproError(
                    f"Measure: packets of a port are {MOST_SAMPLES} or more",
                    "record a slower port, or let the experiment be shorter",
                )
            ends = [
                end_key(left[address].astype(np.int64), left[f"{address}_port"].astype(np.int64))
                for address in ("from", "to")
            ]
            flow = pd.Series(np.nan, range(len(left)))
            for end in (*ends, *(end >> 16 << 16 for end in ends)):  # then by the address alone (port 0)
                flow = flow.fillna(pd.Series(end).map(flow_of_end))
            flow = flow.fillna(-1)
            table = pd.DataFrame(
                {
                    "source": source,
                    "destination": destination,
                    "flow": flow.astype(int),
                    "time_s": self.seconds(left),
                    "size_bytes": left["size"].astype(np.int64),
                    "wait_ms": _waits_ns(left, queued) / 1e6,
                }
            )
            parts.append(table[(table["time_s"] >= 0) & (table["time_s"] <= duration_s)])
        return pd.concat(parts[1:] or parts, ignore_index=True)[PACKET_COLUMNS]

    def sent(self, ports: Sequence[tuple[str, str]], interval_s: float, duration_s: float) -> pd.DataFrame:
        """Return the bytes that ports had sent, every `interval_s`: source, destination, time_s, sent_bytes."""
        time_s = np.arange(int(duration_s / interval_s + 1e-9) + 1) * interval_s
        parts = [pd.DataFrame(columns=["source", "destination", "time_s", "sent_bytes"])]
        for source, destination in ports:
            left = self.of((source, destination), LEFT)
            before = np.concatenate([[0], np.cumsum(left["size"].astype(np.int64))])
            sent_bytes = before[np.searchsorted(self.seconds(left), time_s, side="right")]
            parts.append(
                pd.DataFrame({"source": source, "destination": destination, "time_s": time_s, "sent_bytes": sent_bytes})
            )
        return pd.concat(parts[1:] or parts, ignore_index=True)

    def links(self, duration_s: float, before: pd.DataFrame, policed: np.ndarray) -> pd.DataFrame:
        """Return LINK_COLUMNS of so many seconds, from the last totals of each line, minus the totals `before`.

        policed : packets that each port's policer has dropped meanwhile, which no line has seen; shape (ports,).
        """
        table = self.totals()
        table["dropped_packets"] += policed
        counted = table.columns[2:]
        table[counted] -= before[counted]
        return table.assign(utilisation=(table.pop("busy_s") / duration_s).clip(upper=1.0))[LINK_COLUMNS]

    def totals(self, first: bool = False) -> pd.DataFrame:
        """Return the last totals of each line, or the first: LINK_COLUMNS, with busy_s in place of the utilisation."""
        totals = self._all[self._all["kind"] == TOTALS]
        told = {int(each["port"]): each for each in (totals[::-1] if first else totals)}
        rows = []
        for number, (source, destination) in enumerate(self._ports):
            event = told[number] if number in told else np.zeros((), EVENT)
            sent_bytes = int(event["from"]) | int(event["to"]) << 32
            counts = (event[name] for name in ("queue_packets", "queue_bytes", "size", "packet"))
            sent, dropped, marked, lost = map(int, counts)
            busy_s = int(event["started_ns"]) / 1e9
            rows.append((source, destination, sent, sent_bytes, dropped, marked, lost, busy_s))
        return pd.DataFrame(rows, columns=[*LINK_COLUMNS[:-1], "busy_s"])

    def deviation(self, port: tuple[str, str], rates: Sequence[fidelity.Interval]) -> fidelity.Deviation:
        """Measure the gaps between a port's packets while its queue was not empty. rates : as in deviation_in."""
        left, queue = self.of(port, LEFT), self.queue(port)
        return fidelity.deviation_in(
            rates,
            self.seconds(left),
            left["size"].astype(np.int64),
            queue["time_s"].to_numpy(),
            queue["queue_packets"].to_numpy(),
        )


def _waits_ns(left: np.ndarray, queued: np.ndarray) -> np.ndarray:
    """Return how long (ns) each packet waited before it was sent; NaN where its arrival was not recorded."""
    starts = pd.DataFrame({"packet": left["packet"], "at": left["started_ns"].astype(np.int64)})
    arrivals = pd.DataFrame({"packet": queued["packet"], "at": queued["time_ns"].astype(np.int64)})
    arrivals["arrived"] = arrivals["at"].astype(float)
    pairs = pd.merge_asof(starts, arrivals, on="at", by="packet")  # packet numbers are reused later
    return (pairs["at"] - pairs["arrived"]).to_numpy()
