"""Flows of several subflows on the virtual kernel: MPTCP as an Experiment describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.source_routes import connections
from netrepro.emulation.virtual.kernel import congestion_controls
from netrepro.emulation.virtual.speech import speech_of
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import (
    CONGESTION_CONTROLS,
    CONTROLS_OF_THE_SIMULATOR,
    Flow,
    PoissonFlows,
    Tcp,
)
from netrepro.simulation import simulate

FAST = Link(1000.0, 0.0, DropTail(packets=10_000))
OVER_WIFI, OVER_MOBILE = (("h1", "s1", middle, "s2", "h2") for middle in ("s3", "s4"))
PORTS = (("s1", "s3"), ("s1", "s4"), ("s3", "s1"), ("s4", "s1"))
RENO = Tcp("reno", receive_window_bytes=8 * 2**20)


def phone(tcp: Tcp, *, first: Link, second: Link, seconds: float = 8.0, **how: Any) -> Experiment:
    """One host over two networks to another."""
    topology = Topology(
        (
            Cable("h1", "s1", FAST),
            Cable("s1", "s3", first),
            Cable("s3", "s2", FAST),
            Cable("s1", "s4", second),
            Cable("s4", "s2", FAST),
            Cable("s2", "h2", FAST),
        )
    )
    changes = how.pop("changes", ())
    how = {"subflows": 2, "subflow_paths": (OVER_WIFI, OVER_MOBILE)} | how
    flow = Flow("h1", "h2", duration_s=seconds, tcp=tcp, **how)
    measure = Measure(packets=PORTS, windows_interval_ms=50.0)
    return Experiment(topology, (flow,), seconds, measure=measure, changes=changes)


WIFI, MOBILE = Link(8.0, 10.0, DropTail(packets=54)), Link(2.0, 40.0, DropTail(packets=50))


def goodput(found: Measurements) -> float:
    return float(found.flows["goodput_mbps"].iloc[0])


def sent(found: Measurements, *port: str) -> int:
    return int(found.links_by_port.loc[port, "sent_packets"])


@needs_virtual
def test_a_flow_fills_both_of_its_paths_which_carry_their_own_acknowledgements():
    experiment = phone(RENO, first=WIFI, second=MOBILE)
    found, simulated = emulate(experiment, tier="virtual"), simulate(experiment)
    alone = emulate(
        phone(RENO, first=WIFI, second=MOBILE, subflows=1, subflow_paths=(), path=OVER_WIFI), tier="virtual"
    )
    assert goodput(found) > goodput(alone) + 1.0
    assert goodput(found) == pytest.approx(goodput(simulated), rel=0.1)
    for each in (found, simulated):
        assert sent(each, "s1", "s4") == pytest.approx(2.0 * 8e6 / 8 / 1514, rel=0.15)
        for switch in ("s3", "s4"):
            assert sent(each, switch, "s1") > 0.4 * sent(each, "s1", switch)
    assert sent(alone, "s1", "s4") == sent(alone, "s4", "s1") == 0
    assert set(found.packets["flow"]) == {0}
    samples = found.windows.groupby("connection")["round_trip_ms"].median()
    assert samples[0] < 110 < samples[1]  # each with a buffer of its own
    assert found.trusted
    again = emulate(experiment, tier="virtual")
    assert again.packets.equals(found.packets)


@needs_virtual
@pytest.mark.parametrize("window_kb", [50, 200])
def test_subflows_share_one_receive_window(window_kb):
    """Both together carry a window a round trip, as in the simulator; a wide window carries several times as much."""
    link = Link(50.0, 50.0, DropTail(packets=500))
    experiment = phone(replace(RENO, receive_window_bytes=window_kb * 1024), first=link, second=link)
    found = goodput(emulate(experiment, tier="virtual"))
    assert found == pytest.approx(goodput(simulate(experiment)), rel=0.06)
    assert found == pytest.approx(window_kb * 1024 * 8e-6 / 0.1, rel=0.12)


@needs_virtual
def test_a_flow_lives_on_over_the_other_path_while_one_is_down():
    """Data that were under way are sent again there; once the path is back it is used again."""
    down = tuple(LinkChange(at_s, "s1", "s3", up=up) for at_s, up in ((3.0, False), (6.0, True)))
    found = emulate(phone(RENO, first=WIFI, second=MOBILE, seconds=12.0, changes=down), tier="virtual")
    data = found.packets[found.packets.size_bytes > 500]
    rate = data.assign(second=data.time_s.astype(int)).groupby(["source", "destination", "second"]).size()
    wifi, mobile = (rate["s1", middle].reindex(range(12), fill_value=0) for middle in ("s3", "s4"))
    assert (wifi[3:6] == 0).all() and (wifi[1:3] > 400).all() and wifi[10:].min() > 400
    assert (mobile[4:12] > 100).all()
    assert found.flows["timeouts"].iloc[0] > 0 and found.trusted
    alone = phone(
        RENO, first=WIFI, second=MOBILE, seconds=5.0, changes=down[:1], subflows=1, subflow_paths=(), path=OVER_WIFI
    )
    assert goodput(emulate(alone, tier="virtual")) * 5 < goodput(found) * 12 - 2 * 8


@pytest.mark.parametrize(
    ("tcp", "how", "said"),
    [
        (RENO, {"subflow_paths": ()}, "2 subflows without paths"),
        (RENO, {"subflow_paths": (OVER_WIFI, OVER_WIFI)}, "2 paths, 1 of them different"),
        (replace(RENO, penalisation=True), {}, "penalisation"),
        (replace(RENO, opportunistic_retransmission=True), {}, "opportunistic_retransmission"),
        (replace(RENO, scheduler="redundant"), {}, "scheduler = 'redundant'"),
        (replace(RENO, segment_bytes=1000), {}, "segment_bytes = 1000"),
        (replace(RENO, send_buffer_bytes=9000), {}, "send_buffer_bytes = 9000 of subflows"),
    ],
)
def test_what_linux_does_not_do_is_refused_by_name(tcp, how, said):
    refused(phone(tcp, first=WIFI, second=MOBILE, **how), said)


def test_hosts_announce_the_same_to_all():
    experiment = phone(RENO, first=WIFI, second=MOBILE)
    (flow,) = experiment.traffic
    other = replace(flow, subflow_paths=flow.subflow_paths[::-1])
    refused(replace(experiment, traffic=(flow, other)), "to h2 over different paths")
    back = replace(other, source="h2", destination="h1", subflow_paths=[path[::-1] for path in flow.subflow_paths])
    refused(replace(experiment, traffic=(flow, back)), "sends and receives")
    sizes = FlowSizeDistribution(((1000, 0), (2000, 1)), "bytes", "small")
    refused(replace(experiment, traffic=(PoissonFlows(sizes, 10.0, 5, subflows=2),)), "without paths")


def refused(experiment: Experiment, said: str) -> None:
    with pytest.raises(NetreproError, match=said):
        speech_of(experiment, connections(experiment))


@needs_virtual
@pytest.mark.parametrize("control", CONTROLS_OF_THE_SIMULATOR)
def test_a_control_that_the_kernel_has_not_is_refused_by_name_and_the_simulator_named(control):
    with pytest.raises(
        NetreproError, match=f"the virtual kernel has no {control}\n.*use tier 'simulated', which alone"
    ):
        emulate(phone(replace(RENO, congestion_control=control), first=WIFI, second=MOBILE), tier="virtual")


def test_the_controls_of_the_simulator_are_those_that_the_kernel_lacks():
    assert set(CONTROLS_OF_THE_SIMULATOR) == set(CONGESTION_CONTROLS) - congestion_controls()


def beside_one_tcp(control: str) -> Experiment:
    """Two subflows and a plain flow that meet at one bottleneck."""
    middle = "s2", "s5", Link(10.0, 10.0, DropTail(packets=60))
    cables = [Cable("h1", "s1", FAST), Cable("h3", "s2", FAST), Cable("s5", "h2", FAST), Cable(*middle)]
    cables += [Cable(*ends, FAST) for ends in (("s1", "s3"), ("s3", "s2"), ("s1", "s4"), ("s4", "s2"), ("s5", "h4"))]
    paths = tuple(("h1", "s1", way, "s2", "s5", "h2") for way in ("s3", "s4"))
    flows = (
        Flow("h1", "h2", duration_s=20.0, subflows=2, subflow_paths=paths, congestion_control=control),
        Flow("h3", "h4", duration_s=20.0, path=("h3", "s2", "s5", "h4"), congestion_control="reno"),
    )
    return Experiment(Topology(tuple(cables)), flows, 20.0, measure=Measure(windows_interval_ms=100.0), tcp=RENO)


@needs_virtual
def test_lia_takes_of_one_bottleneck_what_one_tcp_takes():
    """RFC 6356, section 1, goal 2; subflows that are not coupled take twice as much."""
    shares = {}
    for control in ("lia", "reno"):
        both, one = emulate(beside_one_tcp(control), tier="virtual").flows["goodput_mbps"]
        shares[control] = both / one
    assert 0.7 < shares["lia"] < 1.3 and shares["reno"] > 1.6
