"""The gaps between packets that leave a busy port, by which a run is believed."""

from __future__ import annotations

import pytest

from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import gap_shares, simulate

PORT = ("s1", "s2")


def test_gaps_are_those_of_the_port_whatever_else_is_recorded():
    network = dumbbell(2, Link(100, 1), Link(10, 5, DropTail(packets=30)))
    flows = (Flow("h1", "h3", duration_s=3), Flow("h2", "h4", duration_s=3))
    alone, among_others = (
        gap_shares(simulate(Experiment(network, flows, 3, measure=Measure(packets=ports), seed=2)), PORT)
        for ports in ((PORT,), (("h1", "s1"), PORT, ("s2", "h3"), ("s2", "s1")))
    )
    assert alone == among_others and all(share > bound for _, share, bound in alone)


@pytest.mark.parametrize("segment_bytes", [1000, 1460, 8948])
def test_full_packets_are_those_that_tcp_fills(segment_bytes):
    network = dumbbell(1, Link(100, 1), Link(10, 5, DropTail(packets=30)))
    flow = Flow("h1", "h2", duration_s=3)
    asked = Experiment(network, flow, 3, measure=Measure(packets=(PORT,)), tcp=Tcp(segment_bytes=segment_bytes))
    found = simulate(asked)
    assert set(found.packets["size_bytes"]) == {66 + 8, 66 + segment_bytes}
    assert all(share > bound for _, share, bound in gap_shares(found, PORT))
