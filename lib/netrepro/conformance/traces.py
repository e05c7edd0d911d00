"""A run of a scenario as a trace: windows, what is in flight, packets at the sender and at the bottleneck."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from netrepro.networks import Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, bandwidth_delay_packets

LEAST_DATA_BYTES = 200  # on the wire; acknowledgements, SYNs and requests are smaller


@dataclass(frozen=True)
class Samples:
    """The samples of one flow's window: arrays of equal length, in segments and seconds."""

    time_s: np.ndarray
    window: np.ndarray
    threshold: np.ndarray
    in_flight: np.ndarray
    round_trip_s: np.ndarray

    def between(self, from_s: float, to_s: float) -> Samples:
        """Return the samples of a part of the time."""
        inside = (self.time_s >= from_s) & (self.time_s <= to_s)
        return Samples(*(getattr(self, each.name)[inside] for each in fields(self)))

    def at(self, time_s: float) -> int:
        """Return the place of the last sample at or before a time."""
        return max(int(np.searchsorted(self.time_s, time_s, side="right")) - 1, 0)

    def reductions(self, from_s: float = 0.0, to_s: float = np.inf) -> list[int]:
        """Return the places of samples at which a reduction begins, in a part of the time: the threshold is set anew,
        below the window; or, as it may be set to what it was, the window begins to fall, two round trips or more after
        the last reduction."""
        set_anew = (self.threshold[1:] != self.threshold[:-1]) & (self.threshold[1:] <= self.window[:-1])
        falls = self.window[1:] < self.window[:-1]
        places: list[int] = []
        fell_s = -np.inf
        for place in (np.flatnonzero(set_anew | falls) + 1).tolist():
            now_s, settled_s = self.time_s[place], 2 * self.round_trip_s[place]
            if set_anew[place - 1] or now_s > fell_s + settled_s:
                places.append(place)
            fell_s = now_s
        return [place for place in places if from_s <= self.time_s[place] <= to_s]


class TcpTrace:
    """The trace of a scenario's run: h1, h2, ... send over s1 and s2, each a flow, in the order of the traffic."""

    def __init__(self, measured: Measurements):
        experiment = measured.experiment
        self.measured, self.controls = measured, experiment.flow_table["congestion_control"].tolist()
        self.seconds, self.sample_s = experiment.duration_s, (experiment.measure.windows_interval_ms or 0) / 1e3
        self.rate_mbps, self.packet_bytes = experiment.topology.link("s1", "s2").rate_mbps, FULL_PACKET_BYTES
        self.access_mbps = measured.experiment.topology.link("h1", "s1").rate_mbps
        self._samples: dict[int, Samples] = {}
        self._sent: dict[int, np.ndarray] = {}

    def round_trip_s(self, flow: int) -> float:
        """Return the base round trip of a flow, in s."""
        links = (self.measured.experiment.topology.link(*port) for port in ((f"h{flow + 1}", "s1"), ("s1", "s2")))
        return 2 * sum(link.delay_ms for link in links) / 1e3

    def pipe(self, flow: int) -> float:
        """Return the bandwidth-delay product of a flow, in segments."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_s(flow) * 1e3)

    def samples(self, flow: int) -> Samples:
        """Return the samples of a flow's window."""
        if flow not in self._samples:
            table = self.measured.windows
            own = table[table["flow"] == flow]
            own = own[own["connection"] == own["connection"].max()]
            segment = self.measured.experiment.tcp.segment_bytes
            columns = ("window_bytes", "slow_start_threshold_bytes", "in_flight_bytes")
            window, threshold, in_flight = (own[name].to_numpy(dtype=float) / segment for name in columns)
            round_trips = own["round_trip_ms"].to_numpy(dtype=float) / 1e3
            round_trips = np.where(np.isfinite(round_trips), round_trips, self.round_trip_s(flow))
            self._samples[flow] = Samples(
                own["time_s"].to_numpy(dtype=float), window, threshold, in_flight, round_trips
            )
        return self._samples[flow]

    def sent(self, flow: int, from_s: float = 0.0, to_s: float = np.inf) -> np.ndarray:
        """Return when the data packets of a flow left its sender, in a part of the time, in s."""
        if flow not in self._sent:
            table = self.measured.packets_by_port.get((f"h{flow + 1}", "s1"))
            of_data = np.array([]) if table is None else table["time_s"][table["size_bytes"] >= LEAST_DATA_BYTES]
            self._sent[flow] = np.sort(np.asarray(of_data))
        sent = self._sent[flow]
        return sent[(sent >= from_s) & (sent < to_s)]

    @cached_property
    def _passed(self) -> dict[str, np.ndarray]:
        table = self.measured.packets_by_port.get(("s1", "s2"))
        if table is None:
            return {name: np.array([]) for name in ("flow", "time_s", "size_bytes", "wait_ms")}
        table = table[table["size_bytes"] >= LEAST_DATA_BYTES]
        return {name: table[name].to_numpy() for name in ("flow", "time_s", "size_bytes", "wait_ms")}

    def _inside(self, from_s: float, to_s: float, flow: int | None) -> np.ndarray:
        passed = self._passed
        inside = (passed["time_s"] >= from_s) & (passed["time_s"] < to_s)
        return inside if flow is None else inside & (passed["flow"] == flow)

    def passed(self, from_s: float, to_s: float, flow: int | None = None) -> int:
        """Count the data packets that the bottleneck sent."""
        return int(self._inside(from_s, to_s, flow).sum())

    def delivered_mbps(self, from_s: float, to_s: float, flow: int | None = None) -> float:
        """Return the rate at which the bottleneck sent data packets, of all flows or of one, in Mb/s."""
        sizes = self._passed["size_bytes"][self._inside(from_s, to_s, flow)]
        return float(sizes.sum() * 8e-6 / (to_s - from_s))

    def goodputs_mbps(self, from_s: float, to_s: float) -> list[float]:
        """Return the rate at which the bottleneck sent each flow's data packets, in Mb/s."""
        return [self.delivered_mbps(from_s, to_s, flow) for flow in range(len(self.controls))]

    def rates_mbps(self, edges_s: np.ndarray, flow: int) -> np.ndarray:
        """Return the rates at which the bottleneck sent a flow's data packets between edges in time, in Mb/s."""
        inside = self._passed["flow"] == flow
        times_s, sizes = self._passed["time_s"][inside], self._passed["size_bytes"][inside]
        return np.histogram(times_s, edges_s, weights=sizes)[0] * 8e-6 / np.diff(edges_s)

    def waits_ms(self, from_s: float, to_s: float, flow: int | None = None) -> np.ndarray:
        """Return how long data packets have waited at the bottleneck, in ms."""
        return self._passed["wait_ms"][self._inside(from_s, to_s, flow)]
