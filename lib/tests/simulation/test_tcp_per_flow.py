"""Flows that speak TCP in their own way: as an experiment of their own would, beside others that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netrepro.emulation.refusals import check_experiment
from netrepro.errors import NetreproError
from netrepro.networks import (
    DropTail,
    Experiment,
    Flow,
    Link,
    Measure,
    PoissonFlows,
    Requests,
    Tcp,
    star,
)
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.simulation import simulate

LINK = Link(20, 5, DropTail(packets=15))
VARIANTS = {
    "initial window": Tcp(initial_window_segments=3),
    "segments": Tcp(segment_bytes=536),
    "timeouts": Tcp("reno", min_rto_ms=10, initial_rto_ms=3000, tail_loss_probe=False),
    "receive window": Tcp(receive_window_bytes=20_000),
    "no SACK": Tcp("reno", sack=False),
    "no delayed ACK": Tcp(delayed_ack_ms=0),
    "pacing": Tcp(pacing=True, pacing_ratio=1.0),
    "no HyStart": Tcp(hystart=False),
    "control": Tcp("dctcp", dctcp_alpha=0.5),
    "of subflows": Tcp("lia", penalisation=True, opportunistic_retransmission=True, scheduler="round_robin"),
}


def experiment(tcp: Tcp, traffic) -> Experiment:
    return Experiment(star(4, LINK), traffic, 3, tcp=tcp, measure=Measure(windows_interval_ms=50))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_flow_speaks_as_an_experiment_that_speaks_like_it(name):
    tcp = VARIANTS[name]
    flow = Flow("h1", "h2", 400_000, subflows=2 if name == "of subflows" else 1)
    own = simulate(experiment(Tcp(), (replace(flow, tcp=tcp),)))
    all_of_it = simulate(experiment(tcp, (flow,)))
    assert own.flows.equals(all_of_it.flows) and own.windows.equals(all_of_it.windows)
    assert own.links.equals(all_of_it.links)


@pytest.mark.parametrize("name", sorted(set(VARIANTS) - {"of subflows"}))
def test_requests_and_poisson_flows_speak_likewise(name):
    tcp = VARIANTS[name]
    sizes = load_flow_sizes("web_search")
    for entry in (Requests("h1", ("h2", "h3"), 100, 50_001, 5), PoissonFlows(sizes, 20, 20)):
        own = simulate(experiment(Tcp(), (replace(entry, tcp=tcp),)))
        all_of_it = simulate(experiment(tcp, (entry,)))
        assert own.flows.equals(all_of_it.flows) and own.requests.equals(all_of_it.requests)


def test_flows_beside_each_other_differ_as_their_windows_and_pacing_say():
    net = star(6, Link(100, 10, DropTail(packets=1000)))
    ten, three = Tcp(delayed_ack_ms=0), Tcp(delayed_ack_ms=0, initial_window_segments=3)
    traffic = (
        Flow("h1", "h4", 30 * 1448),
        Flow("h2", "h5", 30 * 1448, tcp=three),
        Flow("h3", "h6", 30 * 1448, tcp=replace(ten, pacing=True, unpaced_segments=0)),
    )
    ports = (("h1", "s1"), ("h3", "s1"))
    measured = simulate(Experiment(net, traffic, 3, tcp=ten, measure=Measure(packets=ports)))
    fast, slow, _ = measured.flows["completion_ms"]
    # A round trip is 40 ms. One for the handshake, then rounds of 10, 20 and of 3, 6, 12, 24 segments.
    assert fast == pytest.approx(40 + 40 + 20, abs=4) and slow == pytest.approx(40 + 3 * 40 + 20, abs=4)
    gaps_ms = {
        source: np.diff(packets["time_s"].to_numpy()[1:11]).max() * 1e3
        for source, packets in measured.packets.groupby("source")
    }
    assert gaps_ms["h1"] < 0.2  # back to back: 0.12 ms of 1514 bytes
    assert gaps_ms["h3"] == pytest.approx(40 / 10 / 2, rel=0.05)  # twice the window a round trip


def test_windows_are_told_in_the_bytes_of_the_flows_own_segments():
    small = Flow("h1", "h2", 100_000, tcp=Tcp(segment_bytes=536))
    mixed = replace(experiment(Tcp(), (small, Flow("h3", "h4", 100_000))), measure=Measure(windows_interval_ms=10))
    assert list(simulate(mixed).windows.groupby("flow")["window_bytes"].min()) == [5360, 14480]  # the first ones


def test_a_congestion_control_of_the_flow_comes_before_that_of_its_tcp():
    flows = (
        Flow("h1", "h2", 10, tcp=Tcp("reno")),
        Flow("h1", "h2", 10, congestion_control="dctcp", tcp=Tcp("reno")),
        Flow("h1", "h2", 10),
    )
    assert list(experiment(Tcp("bbr"), flows).flow_table["congestion_control"]) == ["reno", "dctcp", "bbr"]


def test_such_experiments_stay_descriptions():
    one = experiment(Tcp(), (Flow("h1", "h2", 10, tcp=Tcp("reno", min_rto_ms=10)),))
    same = experiment(Tcp(), (Flow("h1", "h2", 10, tcp=Tcp("reno", min_rto_ms=10.0)),))
    assert one == same and hash(one) == hash(same) and Experiment.from_json(one.to_json()) == one
    with pytest.raises(NetreproError, match="give a Tcp"):
        Flow("h1", "h2", 10, tcp="reno")


def test_an_emulated_network_refuses_what_its_hosts_cannot_do_for_one_flow():
    own = experiment(Tcp(), (Flow("h1", "h2", 10, tcp=Tcp("reno", min_rto_ms=10, sack=False)),))
    with pytest.raises(NetreproError, match="min_rto_ms, sack"):
        check_experiment(own)
    check_experiment(experiment(Tcp(), (Flow("h1", "h2", 10, tcp=Tcp("reno")),)))
