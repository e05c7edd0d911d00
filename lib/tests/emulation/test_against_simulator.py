"""The simulator's TCP beside the kernel's, on the same description."""

from __future__ import annotations

import pytest
from emulation_traffic import rootless

from netrepro.emulation.emulate import emulate
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import simulate

pytestmark = [pytest.mark.timeout(60), rootless]

SIZES_BYTES = (10_000, 100_000, 500_000)
STARTS_S = (0.2, 0.6, 1.3)  # one after the other: no flow meets another
MOST_LATE_US = 5000  # of a round trip of 80 ms


def single_flows(control: str, buffer_packets: int) -> Experiment:
    """Flows of several sizes over 20 Mb/s and a round trip of 80 ms."""
    net = dumbbell(1, Link(200, 1, DropTail(packets=1000)), Link(20, 38, DropTail(packets=buffer_packets)))
    flows = tuple(Flow("h1", "h2", size, start_s=start) for size, start in zip(SIZES_BYTES, STARTS_S, strict=True))
    return Experiment(net, flows, 2.8, measure=Measure(queues=(("s1", "s2"),)), tcp=Tcp(control))


@pytest.mark.parametrize("buffer_packets", [1000, 60])
@pytest.mark.parametrize("control", ["reno", "cubic", "bbr"])
def test_a_flow_takes_as_long_in_the_simulator_as_in_the_kernel(control, buffer_packets):
    # 15 % and 10 ms are for a busy machine; a timeout more or less would be 200 ms.
    experiment = single_flows(control, buffer_packets)
    for _ in range(3):
        measured = emulate(experiment, tier="rootless")
        late_us = measured.fidelity.set_index("check")["value"]["lateness of delayed packets in us, p99"]
        if late_us <= MOST_LATE_US:
            break
    else:
        pytest.skip(f"the machine is too busy: packets were late by {late_us / 1e3:.1f} ms")
    simulated, kernel = simulate(experiment).flows, measured.flows
    assert (kernel["delivered_bytes"] == simulated["delivered_bytes"]).all()
    assert kernel["completion_ms"].to_numpy() == pytest.approx(simulated["completion_ms"].to_numpy(), rel=0.15, abs=10)
