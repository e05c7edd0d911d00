"""An experiment's traffic in the core traffic generator's format, and its results: the same on every kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from netrepro.emulation.plan import Plan
from netrepro.emulation.source_routes import FlowConnection
from netrepro.emulation.tcp import SocketKind, socket_kind
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Requests

# The same values as in core/sockets/traffic_generator.hpp.
FIRST_SOURCE_PORT, SOURCE_PORTS = 10_000, 50_000
_RESULTS = ["completion_ns", "connected_ns", "delivered_bytes", "bytes_within_duration"]
_RESULTS += ["retransmitted_packets", "timeouts", "connection_attempts", "errno"]
_ANSWERS = ["flow", "request", "asked_ns", "answered_ns"]
_SAMPLES = ["flow", "connection", "time_ns", "window_segments", "threshold_segments", "in_flight_segments"]
_SAMPLES += ["round_trip_us", "segment_bytes"]
LATENESS_BUCKETS = 512  # of core/sockets/lateness_histogram.hpp
_RESULTS_FROM = 3 + LATENESS_BUCKETS
_NO_THRESHOLD = 2**31 - 1  # of the kernel's TCP_INFO

Whole = TypeVar("Whole", int, np.ndarray)


def end_key(address: Whole, port: Whole) -> Whole:
    """Return address and port as one number. address : IPv4, or the last four bytes of IPv6; numbers or arrays."""
    return address << 16 | port


@dataclass(frozen=True)
class TrafficResult:
    """The results that the traffic generator wrote; times are seconds since its beginning (began_ns, CLOCK_REALTIME).

    lasted_s : duration. flows : a row for each flow: completion_s, connected_s (NaN if never), TCP's counters, errno
    (0: none); `timeouts` is NaN where this kernel does not count them (before Linux 6.7). answers : a row for each
    requested answer: flow, request, asked_s, answered_s (NaN if never). windows : samples of TCP's state: flow,
    connection (0, or 1 for a replica), time_s, window_bytes, slow_start_threshold_bytes, round_trip_ms,
    in_flight_bytes. lateness : histogram of how late flows and datagrams left: up_to_us (upper edge), packets.
    waited_share : the share of time in which senders were ready to run and had no processor; NaN where this kernel does
    not count it.
    """

    began_ns: int
    lasted_s: float
    flows: pd.DataFrame
    answers: pd.DataFrame
    windows: pd.DataFrame
    lateness: pd.DataFrame
    waited_share: float


class TrafficDescription:
    """The arguments of the core's traffic generator for an experiment's flows, and a reader of its results.

    made : the experiment's connections. until_complete : True to end with the last flow, if that is earlier than the
    experiment's end.
    kinds : kinds of sockets. kind_of_flow : index into `kinds` for each flow. By default all sockets have the settings
    of the experiment's Tcp. control_of_flow : congestion control of each flow; by default that of the flow table.
    """

    def __init__(
        self,
        experiment: Experiment,
        made: Sequence[FlowConnection],
        plan: Plan,
        until_complete: bool = False,
        *,
        kinds: Sequence[SocketKind] = (),
        kind_of_flow: Sequence[int] = (),
        control_of_flow: Sequence[str] = (),
    ):
        from netrepro import _core

        self._experiment, self._plan = experiment, plan
        self._flows = experiment.flow_table
        self._connections = made
        self._addresses = [each.addresses(plan) for each in made]
        self._control_of_flow = list(control_of_flow or self._flows["congestion_control"])
        interval_ms = experiment.measure.windows_interval_ms
        self._kind_of_flow = kind_of_flow or [0] * len(self._flows)
        self.core = str(_core.__file__)
        self.shared_bytes = _core.traffic_generator_bytes(len(self._flows), self._answers)
        self.arguments = {
            "flows": self._described(),
            "replicas": self._replicas(),
            "conversations": self._conversations(),
            "duration_ns": round(experiment.duration_s * 1e9),
            "seed": experiment.seed,
            "kinds": [tuple(kind) for kind in kinds or [socket_kind(experiment.tcp)]],
            "window_interval_ns": 0 if interval_ms is None else round(interval_ms * 1e6),
            "since_ns": round(experiment.measure.since_s * 1e9),
            "until_complete": until_complete,
            "ipv6": experiment.ipv6,
        }

    def _described(self) -> list[tuple]:
        flows = self._flows

        def nanoseconds(seconds: pd.Series) -> list[int]:
            return np.rint(seconds.fillna(0.0).to_numpy(float) * 1e9).astype(np.int64).tolist()

        first = self._connections[: len(flows)]
        descriptor = {node: self._plan.descriptor(node) for node in {*flows["source"], *flows["destination"]}}
        openers, accepters = zip(*self._addresses, strict=True) if first else ((), ())
        return list(
            zip(
                [descriptor[each.opener] for each in first],
                [descriptor[each.accepter] for each in first],
                openers[: len(first)],
                accepters[: len(first)],
                nanoseconds(flows["start_s"]),
                nanoseconds(flows["duration_s"]),
                flows["size_bytes"].fillna(0.0).astype(np.int64).tolist(),
                self._control_of_flow,
                (flows["rate_mbps"].fillna(0.0) * 1e6).astype(float).tolist(),
                flows["packet_bytes"].astype(int).tolist(),
                (flows["spacing"] == "poisson").tolist(),
                flows["replication"].tolist(),
                self._kind_of_flow,
                strict=True,
            )
        )

    def _replicas(self) -> list[tuple[int, int, int]]:
        return [
            (each.flow, *addresses)
            for each, addresses in zip(self._connections, self._addresses, strict=True)
            if each.place > 0
        ]

    def _conversations(self) -> list[tuple]:
        conversations = []
        for place, flows in self._flows.groupby("entry")["flow"]:
            asked = self._experiment.traffic[place]
            if isinstance(asked, Requests):
                sizes = asked.request_bytes, asked.response_bytes, asked.count
                first = int(flows.iloc[0])
                waits_ns = round(asked.think_ms * 1e6), round(asked.answer_within_ms * 1e6)
                parts = asked.first_bytes or asked.response_bytes, round(asked.rest_after_ms * 1e6)
                conversations.append((first, len(flows), *sizes, asked.barrier, *waits_ns, *parts))
        return conversations

    @property
    def _answers(self) -> int:
        """The number of answers that the experiment requests."""
        return sum(len(each.servers) * each.count for each in self._experiment.traffic if isinstance(each, Requests))

    def result(self, shared: bytes, samples: bytes) -> TrafficResult:
        """Return the results, once the process has ended. shared : its counters. samples : its file of samples."""
        numbers = np.frombuffer(shared, np.int64)
        lasted_ns, waited_ns = (int(number) for number in numbers[1:3])
        return TrafficResult(
            began_ns=int(numbers[0]),
            lasted_s=lasted_ns / 1e9,
            flows=self._results(numbers[_RESULTS_FROM : self._answers_from]),
            answers=_answers(numbers[self._answers_from :]),
            windows=_windows(samples),
            lateness=lateness_table(numbers[3:_RESULTS_FROM]),
            waited_share=waited_ns / lasted_ns if waited_ns >= 0 and lasted_ns else float("nan"),
        )

    def _results(self, numbers: np.ndarray) -> pd.DataFrame:
        table = pd.DataFrame(numbers.reshape(-1, len(_RESULTS)), columns=_RESULTS)
        is_tcp = self._flows["transport"].to_numpy() != "datagrams"
        for moment in ("completion", "connected"):
            seconds = table.pop(f"{moment}_ns").to_numpy() / 1e9
            table[f"{moment}_s"] = np.where(seconds >= 0, seconds, np.nan)
        if (table["timeouts"] < 0).any():
            table["timeouts"] = table["timeouts"].astype(float).where((table["timeouts"] >= 0) & is_tcp)
        table.loc[~is_tcp, "timeouts"] = 0
        return table

    @property
    def _answers_from(self) -> int:
        return _RESULTS_FROM + len(self._flows) * len(_RESULTS)

    def flow_of_end(self) -> dict[int, int]:
        """Map the end_key of a flow's opener to the flow; where flows share a port, to the last flow.

        The kernel chooses the ports of further subflows. So they have a key of their path's address and port 0.
        """
        ports = FIRST_SOURCE_PORT + np.arange(len(self._connections)) % SOURCE_PORTS
        return {
            end_key(int(self._plan.path_addresses[path]), 0): each.flow
            for each in self._connections
            for path in each.paths[2:]
        } | {
            end_key(address, int(port)): each.flow
            for each, (address, _), port in zip(self._connections, self._addresses, ports, strict=True)
        }


def _answers(numbers: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(numbers.reshape(-1, len(_ANSWERS)), columns=_ANSWERS)
    table = table[table["asked_ns"] >= 0].sort_values("asked_ns", kind="stable", ignore_index=True)
    for moment in ("asked", "answered"):
        nanoseconds = table.pop(f"{moment}_ns")
        table[f"{moment}_s"] = (nanoseconds / 1e9).where(nanoseconds >= 0)
    return table


def _windows(content: bytes) -> pd.DataFrame:
    samples = pd.DataFrame(np.frombuffer(content, np.int64).reshape(-1, len(_SAMPLES)), columns=_SAMPLES)
    threshold = samples["threshold_segments"].astype(float)
    return pd.DataFrame(
        {
            "flow": samples["flow"],
            "connection": samples["connection"],
            "time_s": samples["time_ns"] / 1e9,
            "window_bytes": (samples["window_segments"] * samples["segment_bytes"]).astype(float),
            "slow_start_threshold_bytes": threshold.where(threshold < _NO_THRESHOLD, np.inf) * samples["segment_bytes"],
            "round_trip_ms": (samples["round_trip_us"] / 1e3).where(samples["round_trip_us"] > 0),
            "in_flight_bytes": (samples["in_flight_segments"] * samples["segment_bytes"]).astype(float),
        }
    )


def lateness_table(counts: np.ndarray) -> pd.DataFrame:
    """Return the core's histogram of lateness as a table: up_to_us (upper edge), packets.

    counts : packets in each bucket, shape (LATENESS_BUCKETS,).
    """
    bucket = np.flatnonzero(counts)
    up_to_us = 2.0 ** (bucket // 8) * (1 + (bucket % 8 + 1) / 8) / 1000
    return pd.DataFrame({"up_to_us": up_to_us, "packets": counts[bucket]})
