"""The core's queues beside the kernel's, open loop: fed with what came to a port of the kernel, they decide alike.

A run of the kernel sends one load through ports with different queues. Its events tell what came to each and what
became of it, when the line asked for a packet, and what the queue drew. Every decision must be the same.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro import _core as core
from netrepro.emulation.virtual.events import DREW, DROPPED, LEFT, QUEUED, STARTED, Events
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    CoDel,
    Datagrams,
    DropTail,
    DualPi2,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    Measure,
    Pie,
    Queue,
    Red,
    Sfq,
    Tcp,
    Topology,
)
from netrepro.simulation import replay

pytestmark = needs_virtual

RATE_MBPS = 20.0
STARTS_S = 1.0  # when PIE's timer runs
# At each queue, for each load: make test-all asks for 10⁵.
LEAST_ARRIVALS = int(os.environ.get("NETREPRO_REPLAY_ARRIVALS", "1700"))
SECONDS = LEAST_ARRIVALS / 1700  # more come in a second
QUEUES: dict[str, Queue] = {
    "drop tail, packets": DropTail(packets=40),
    "drop tail, bytes": DropTail(bytes=40_000),
    "ecn threshold": EcnThreshold(60, 10),
    "codel": CoDel(300),
    "codel, marks": CoDel(100, ecn=True),
    "codel, hasty": CoDel(300, target_ms=1, interval_ms=10),
    "fq_codel": FqCoDel(300, ecn=False),
    "fq_codel, marks and overflows": FqCoDel(50, ecn=True),
    "fq_codel, marks beyond a threshold": FqCoDel(300, ecn=False, ce_threshold_ms=8),
    "fq_codel, marks none but ECT(1)": FqCoDel(300, ecn=False, ce_threshold_ms=0.1, ce_threshold_ect_1=True),
    "fq": Fq(60),
    "fq, marks beyond a threshold": Fq(300, 30, quantum_bytes=1514, initial_quantum_bytes=1514, ce_threshold_ms=3),
    "fq, all flows in one queue": Fq(100, ce_threshold_ms=3, flows=1),
    "sfq": Sfq(60),
    "sfq, deep": Sfq(400),
    "red": Red(200, 10, 40, 0.1),
    "red, marks": Red(40, 5, 15, 0.05, 0.02, ecn=True),
    "pie": Pie(300),
    "pie, marks": Pie(60, target_ms=5, update_ms=5, ecn=True),
    "dualpi2": DualPi2(300),
    "dualpi2, hasty": DualPi2(60, target_ms=5, update_ms=5, step_ms=0.5, coupling=3, classic_share=0.3),
}
SENDERS = ("h1", "h2", "h3")
SIZES_BYTES = (1514, 997, 211)  # of their datagrams
SHARES = {"datagrams, light": 0.9, "datagrams, heavy": 1.25, "tcp": 0.2}


def port_of(name: str) -> tuple[str, str]:
    """The port with that queue."""
    return "s1", f"h{len(SENDERS) + 1 + list(QUEUES).index(name)}"


def experiment(load: str) -> Experiment:
    """Three hosts that send to a host behind each queue."""
    wire = Link(1000, 0.05, DropTail(packets=10_000))
    cables = [Cable(sender, "s1", wire) for sender in SENDERS]
    traffic: list[Datagrams | Flow] = []
    for name, queue in QUEUES.items():
        port, receiver = port_of(name)
        cables.append(Cable(port, receiver, Link(RATE_MBPS, 2, queue), Link(RATE_MBPS, 2, DropTail(packets=1000))))
        for sender, size in zip(SENDERS, SIZES_BYTES, strict=True):
            rate = RATE_MBPS * SHARES[load] * size / sum(SIZES_BYTES)  # of each as many packets
            pace = {"packet_bytes": size, "spacing": "poisson", "start_s": STARTS_S}
            traffic.append(Datagrams(sender, receiver, rate, SECONDS, **pace))
        if load == "tcp":
            controls = ("cubic", "prague" if isinstance(queue, DualPi2) else "cubic")
            traffic += [
                Flow(sender, receiver, duration_s=SECONDS, start_s=STARTS_S, congestion_control=control)
                for sender, control in zip(SENDERS, controls, strict=False)
            ]
    measure = Measure(queues=tuple(map(port_of, QUEUES)), queue_interval_ms=0)
    return Experiment(Topology(tuple(cables)), traffic, STARTS_S + SECONDS + 0.5, 7, measure, Tcp("cubic", ecn=True))


@lru_cache(maxsize=1)  # at 10⁵ arrivals a load's events take half a gigabyte
def recorded(load: str, folder: str) -> Events:
    """The events of a run of the kernel."""
    run = experiment(load)
    path = Path(folder, f"{load}.events")
    emulate_virtually(run, events=path)
    return Events(path.read_bytes(), list(run.topology.ports), 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("events"))


class Recording:
    """The packets that came to a port and their fate, in the order of the kernel's events."""

    def __init__(self, events: np.ndarray):
        self.draws = events["started_ns"][events["kind"] == DREW].tolist()
        events = events[events["kind"] != DREW]
        kinds, times_ns = events["kind"], events["time_ns"].astype(np.int64)
        comes = np.isin(kinds, (QUEUED, DROPPED))
        times_ps = self._in_order(times_ns, comes)
        came = events[comes]
        self.arrivals = pd.DataFrame(
            {
                "time_s": times_ps[comes] / 1e12,
                "size_bytes": came["size"].astype(np.int64),
                "flow": _flows(came),
                "ecn": came["ecn"] > 0,
                "ect_1": came["ecn"] == 1,
            }
        )
        starts = kinds == STARTED
        self.asked_s = times_ps[starts | self._in_vain(kinds)] / 1e12
        # A packet's number is another's once it has left.
        number, newest, sent, before = 0, {}, [], []
        for kind, packet in zip(kinds.tolist(), events["packet"].tolist(), strict=True):
            if kind in (QUEUED, DROPPED):
                newest[packet] = number
                number += 1
            elif kind == STARTED:
                sent.append(newest[packet])
                before.append(number)
        self.sent, self.came_before = np.array(sent), np.array(before)
        self.marked = (events["ecn"][starts] == 3) & (came["ecn"][self.sent] != 3)
        self.sent_ps = times_ps[starts]
        self.queue_packets = events["queue_packets"][starts].astype(np.int64)

    @staticmethod
    def _in_order(times_ns: np.ndarray, comes: np.ndarray) -> np.ndarray:
        """Picoseconds; a packet that came at the time of a call for one, and after it, a picosecond later."""
        times_ps, rank = times_ns * 1000, 0
        for place in range(1, len(times_ns)):
            if times_ns[place] > times_ns[place - 1]:
                rank = 0
            elif comes[place] and not comes[place - 1]:
                rank += 1
            times_ps[place] += rank
        return times_ps

    @staticmethod
    def _in_vain(kinds: np.ndarray) -> np.ndarray:
        """After which events the line asks for a packet and there is none."""
        vain, idle = np.zeros(len(kinds), dtype=bool), True
        for place, kind in enumerate(kinds[:-1].tolist()):
            idle = (idle or kind == LEFT) and kind != STARTED and kinds[place + 1] != STARTED
            vain[place] = idle and kind in (LEFT, DROPPED)
        return vain


def _flows(came: np.ndarray) -> np.ndarray:
    """A number for each flow; no two of them share a bucket."""
    ends = ["from", "to", "from_port", "to_port"]
    found = pd.DataFrame({name: came[name].astype(np.int64) for name in ends}).groupby(ends, sort=False).ngroup()
    numbers, taken, number = [], set(), 0
    while len(numbers) <= found.max():
        bucket = core.flow_bucket(number, 1024)
        if bucket not in taken:
            numbers.append(number)
            taken.add(bucket)
        number += 1
    return np.array(numbers)[found.to_numpy()]


def first_difference(recording: Recording, decisions: pd.DataFrame) -> str:
    """In words, "" where there is none."""
    decided_ps = np.rint(decisions.decided_s.to_numpy() * 1e12)
    sent = np.flatnonzero(decisions.decision == "sent")
    sent = sent[np.argsort(decided_ps[sent], kind="stable")]
    marked, sent_ps = decisions.marked.to_numpy()[sent], decided_ps[sent]
    left = recording.came_before - np.searchsorted(np.sort(decided_ps), recording.sent_ps, side="right")
    theirs = recording.sent, recording.marked, recording.sent_ps, recording.queue_packets
    count = min(len(sent), len(recording.sent))
    alike = np.ones(count, dtype=bool)
    for ours, kernels in zip((sent, marked, sent_ps, left), theirs, strict=True):
        alike &= ours[:count] == kernels[:count]
    if alike.all():
        return "" if len(sent) == len(recording.sent) else f"{len(sent)} of {len(recording.sent)} are sent"
    place = int(np.argmin(alike))
    ours, kernels = ([int(each[place]) for each in of] for of in ((sent, marked, sent_ps, left), theirs))
    return f"departure {place} of {len(recording.sent)} (packet, mark, ps, left): {ours}, the kernel's {kernels}"


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("load", SHARES)
def test_a_queue_decides_as_the_kernels_does_packet_by_packet(name, load, folder):
    queue = QUEUES[name]
    if load == "datagrams, light" and name == "fq":
        pytest.skip("the kernel gives a flow its first turn in a band of its own, which Fq has not")
    recording = Recording(recorded(load, folder).of(port_of(name), QUEUED, DROPPED, STARTED, LEFT, DREW))
    assert len(recording.arrivals) >= LEAST_ARRIVALS
    draws = recording.draws if isinstance(queue, Red | Pie | DualPi2) else None
    # No event tells at which of the kernel's ticks PIE's timer began. At another one it also draws more than there is.
    ticks = int(queue.update_ms) + 1 if isinstance(queue, Pie) else 1
    found = []
    for later_s in np.arange(ticks) / 1e3:
        arrivals = recording.arrivals.assign(time_s=recording.arrivals.time_s + later_s)
        try:
            decisions = replay(queue, arrivals, RATE_MBPS, asked_s=recording.asked_s + later_s, draws=draws)
        except NetreproError as error:
            found.append(str(error))
            continue
        found.append(first_difference(recording, decisions.assign(decided_s=decisions.decided_s - later_s)))
        if not found[-1]:
            break
    assert found[-1] == "", found
    if load == "datagrams, heavy":
        assert (decisions.decision == "dropped").any()
    if load == "tcp" and (isinstance(queue, EcnThreshold | DualPi2) or getattr(queue, "ecn", False)):
        assert decisions.marked.any()
