"""Flows of one experiment that speak TCP in different ways, in the kernel in virtual time as in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.source_routes import connections
from netrepro.emulation.virtual.speech import Speech, speech_of
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Datagrams, Flow, Tcp
from netrepro.simulation import simulate

OLD = Tcp("reno", initial_window_segments=2, segment_bytes=960, delayed_ack_ms=0, tail_loss_probe=False)


def speak(experiment: Experiment) -> Speech:
    return speech_of(experiment, connections(experiment))


def beside(first: Tcp, second: Tcp, *, seconds: float = 3.0) -> Experiment:
    """A flow each over 20 Mb/s and 50 ms, with room for both."""
    topology = dumbbell(2, Link(100.0, 1.0), Link(20.0, 23.0, DropTail(packets=1000)))
    flows = (Flow("h1", "h3", duration_s=seconds, tcp=first), Flow("h2", "h4", duration_s=seconds, tcp=second))
    return Experiment(topology, flows, seconds, measure=Measure(packets=(("s1", "s2"),)))


@needs_virtual
def test_flows_have_their_own_windows_and_segments():
    """Each carries its window a round trip, in segments of its own, as in the simulator."""
    ways = replace(OLD, receive_window_bytes=12 * 960), replace(OLD, segment_bytes=480, receive_window_bytes=40 * 480)
    experiment = beside(*ways)
    found, simulated = emulate(experiment, tier="virtual"), simulate(experiment)
    goodput = [each.flows["goodput_mbps"].to_numpy() for each in (found, simulated)]
    np.testing.assert_allclose(goodput[0], goodput[1], rtol=0.02)
    expected = np.array([way.receive_window_bytes * 8e-3 / 50 for way in ways])
    assert (goodput[0] < expected).all() and (goodput[0] > 0.9 * expected).all()
    largest = found.packets.groupby("flow")["size_bytes"].max().to_list()
    assert largest == simulated.packets.groupby("flow")["size_bytes"].max().to_list() == [960 + 66, 480 + 66]


@needs_virtual
def test_one_flow_is_paced_beside_one_that_is_not():
    """In slow start segments of the one that is not follow each other at the bottleneck's rate, the other's do not."""
    way = replace(OLD, receive_window_bytes=40 * 960)
    experiment = beside(replace(way, pacing=True), way, seconds=0.3)
    back_to_back_ms = 1026 * 8e-3 / 20
    for found in (emulate(experiment, tier="virtual"), simulate(experiment)):
        data = found.packets[(found.packets.size_bytes > 500) & (found.packets.time_s > 0.15)]
        gaps_ms = data.groupby("flow")["time_s"].apply(lambda at: 1e3 * at.diff().median())
        assert gaps_ms[0] > 1.5 * back_to_back_ms and gaps_ms[1] < 1.2 * back_to_back_ms


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sack": False}, "sack"),
        ({"min_rto_ms": 300.0}, "min_rto_ms"),
        ({"initial_window_segments": 4}, "initial_window_segments"),
        ({"receive_window_bytes": 2**21}, "receive_window_bytes"),
        ({"recovery": "newreno"}, "recovery"),
    ],
)
def test_what_flows_cannot_have_for_themselves_is_refused_by_name(change, said):
    experiment = beside(OLD, replace(OLD, **change))
    flows = tuple(replace(flow, source="h1", destination="h3") for flow in experiment.traffic)
    with pytest.raises(NetreproError, match=f"(?s){said}"):
        speak(replace(experiment, traffic=flows))


def test_flows_that_speak_alike_share_sockets_whatever_their_control():
    experiment = beside(OLD, replace(OLD, congestion_control="cubic"))
    experiment = replace(experiment, traffic=(Datagrams("h1", "h3", 1.0, 1.0), *experiment.traffic))
    found = speak(experiment)
    assert len(found.kinds) == 1 and found.kind_of_flow == (0, 0, 0) and found.tcp == OLD
