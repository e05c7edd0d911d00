"""What tests of one link's parts have in common: datagrams over it, in the simulator and in the virtual kernel."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.networks import Cable, Datagrams, DropTail, Experiment, Link, Measure, Measurements, Topology
from netrepro.simulation import simulate

TIERS = ["simulated", pytest.param("virtual", marks=needs_virtual)]
FAST = Link(1000, 0.1, DropTail(packets=10_000))
BEFORE, TESTED = ("h1", "s1"), ("s1", "h2")


def run(experiment: Experiment, tier: str) -> Measurements:
    return simulate(experiment) if tier == "simulated" else emulate(experiment, "virtual")


def sent_over(
    link: Link,
    rate_mbps: float,
    sizes_bytes: Sequence[int],
    seed: int,
    *,
    seconds: float = 2.0,
    idle_s: float,
    spacing: str = "poisson",
    queues: Sequence[tuple[str, str]] = (),
) -> Experiment:
    """Datagrams, of each size the same number, over a fast link and then the tested one; then idle_s without any."""
    net = Topology((Cable("h1", "s1", FAST), Cable("s1", "h2", link, FAST)))
    shares = [size / sum(sizes_bytes) for size in sizes_bytes]
    traffic = [
        Datagrams("h1", "h2", rate_mbps * share, seconds, packet_bytes=size, spacing=spacing)
        for size, share in zip(sizes_bytes, shares, strict=True)
    ]
    measure = Measure(queues=tuple(queues), packets=(BEFORE, TESTED))
    return Experiment(net, traffic, seconds + idle_s, seed, measure, clock_skew_ppm=0)
