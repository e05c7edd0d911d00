"""What a receiver holds and a sender knows, off the wire: against bytes built by hand, the kernel and the simulator."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation.virtual.deliveries import read_headers, stream_of
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.simulation import simulate

SYN, ACK = 2, 16
KEY = 2**63 + 5  # of a stream's first byte; differences must not be those of signed numbers


def frame(time_ns, subflow, sequence, *, flags=ACK, payload=0, acknowledged=0, signal=b""):
    """A record of a capture: what the kernel keeps of one TCP packet, after a NOP of its options."""
    options = b"\x01" + signal
    options += b"\x01" * (-len(options) % 4)
    words = (5 + len(options) // 4) << 4
    tcp = struct.pack(">HHIIBBHHH", 1000 + subflow, 80, sequence % 2**32, acknowledged, words, flags, 0, 0, 0) + options
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + payload, 0, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    kept = bytes(12) + b"\x08\x00" + ip + tcp
    return struct.pack("=4I", time_ns // 10**9, time_ns % 10**9, len(kept), len(kept) + payload) + kept


def mapping(ahead, begins, size, told=None):
    """A data sequence signal with a map of 64 bits; told : an acknowledgement of 32 before it."""
    ack = b"" if told is None else struct.pack(">I", (KEY + told) % 2**32)
    body = ack + struct.pack(">QIH", (KEY + ahead) % 2**64, begins, size)
    return struct.pack(">BBBB", 30, 4 + len(body), 0x20, (0 if told is None else 1) | 4 | 8) + body


def told(ahead, long=True):
    body = struct.pack(">Q", (KEY + ahead) % 2**64) if long else struct.pack(">I", (KEY + ahead) % 2**32)
    return struct.pack(">BBBB", 30, 4 + len(body), 0x20, 1 | (2 if long else 0)) + body


def capture(*frames):
    return read_headers(bytes(24) + b"".join(frames))


def test_a_stream_over_two_subflows_grows_where_the_gap_closes():
    data = capture(
        frame(1, 0, 100, flags=SYN),
        frame(2, 1, 2**32 - 1, flags=SYN),
        frame(10, 0, 101, payload=100, signal=mapping(0, 1, 100)),
        frame(20, 0, 201, payload=50, signal=mapping(300, 101, 100)),  # of a map of two segments
        frame(21, 0, 251, payload=50),  # whose second has none of its own
        frame(30, 1, 0, payload=200, signal=mapping(100, 1, 200, told=0)),  # the subflow's numbers begin anew
        frame(40, 0, 101, payload=100, signal=mapping(0, 1, 100)),  # once more: nothing new
    )
    answers = capture(
        frame(11, 0, 1, signal=told(100)),
        frame(35, 1, 1, signal=told(400, long=False)),
        frame(36, 0, 1, signal=told(100)),
    )
    delivered, acknowledged = stream_of(data, answers)
    assert delivered.to_numpy().tolist() == [[10, 100], [30, 400]]
    assert acknowledged.to_numpy().tolist() == [[11, 100], [35, 400]]


def test_without_signals_the_stream_is_tcps_whose_numbers_begin_anew():
    first = 2**32 - 50
    data = capture(
        frame(1, 0, first - 1, flags=SYN),
        frame(10, 0, first + 40, payload=40),
        frame(20, 0, first, payload=40),
        frame(30, 0, first + 80, payload=20),
    )
    answers = capture(frame(25, 0, 1, acknowledged=(first + 80) % 2**32), frame(35, 0, 1, acknowledged=50))
    delivered, acknowledged = stream_of(data, answers)
    assert delivered.to_numpy().tolist() == [[20, 80], [30, 100]]
    assert acknowledged.to_numpy().tolist() == [[25, 80], [35, 100]]


FAST = Link(1000.0, 0.0, DropTail(packets=10_000))
WAYS = tuple(("h1", "s1", middle, "s2", "h2") for middle in ("s3", "s4"))


def two_ways(**how) -> Experiment:
    links = {"s3": Link(8.0, 10.0, DropTail(packets=54)), "s4": Link(2.0, 40.0, DropTail(packets=50))}
    cables = [Cable("h1", "s1", FAST), Cable("s2", "h2", FAST)]
    for middle, link in links.items():
        cables += [Cable("s1", middle, link), Cable(middle, "s2", FAST)]
    flow = Flow("h1", "h2", duration_s=6.0, **how)
    return Experiment(
        Topology(tuple(cables)),
        (flow,),
        6.0,
        measure=Measure(deliveries=(0,)),
        tcp=Tcp("reno", receive_window_bytes=100 * 1024),
    )


@needs_virtual
def test_tcps_stream_on_the_kernel_is_the_simulators():
    asked = two_ways(path=WAYS[0])
    found = emulate_virtually(asked)
    delivered, acknowledged, simulated = found.deliveries, found.acknowledgements, simulate(asked).deliveries
    for share in (0.2, 0.5, 1.0):
        held = [table.delivered_bytes[table.time_s <= share * 6.0].max() for table in (delivered, simulated)]
        assert held[0] == pytest.approx(held[1], rel=0.02)
    assert delivered.delivered_bytes.max() == found.flows.delivered_bytes.iloc[0]
    at = np.searchsorted(delivered.time_s, acknowledged.time_s - 10e-3, side="right")
    before = np.concatenate([[0], delivered.delivered_bytes])[at]  # one way is 10 ms
    assert (acknowledged.acknowledged_bytes <= before).all()


@needs_virtual
def test_mptcps_stream_on_the_kernel_is_what_its_receiver_counts():
    found = emulate_virtually(two_ways(subflows=2, subflow_paths=WAYS))
    delivered, acknowledged = found.deliveries, found.acknowledgements
    counted = found.flows.delivered_bytes.iloc[0]
    assert counted > 1e6 and abs(delivered.delivered_bytes.max() - counted) <= 2 * 1448
    assert delivered.delivered_bytes.is_monotonic_increasing and delivered.time_s.max() <= 6.0
    assert 0.95 * counted < acknowledged.acknowledged_bytes.max() <= delivered.delivered_bytes.max()


def test_other_traffic_or_a_last_link_with_delay_is_refused():
    asked = two_ways(path=WAYS[0])
    with pytest.raises(NetreproError, match="shares a host with other flows"):
        emulate_virtually(replace(asked, traffic=asked.traffic * 2))
    late = Topology(
        (*asked.topology.cables[:1], Cable("s2", "h2", replace(FAST, delay_ms=1.0)), *asked.topology.cables[2:])
    )
    with pytest.raises(NetreproError, match="last link with delay"):
        emulate_virtually(replace(asked, topology=late))
