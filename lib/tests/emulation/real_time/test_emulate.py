"""Experiments on networks of real kernels: the tables, TCP's settings, what is refused, and how a run ends."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from emulation_traffic import AVAILABLE, emulation, needs, rootless
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.fidelity import PACKETS_A_FRAME
from netrepro.emulation.real_time.guests import LauncherConnection
from netrepro.emulation.traffic import TrafficDescription
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Link, dumbbell, fat_tree, star
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.networks.workloads import Datagrams, Flow, PoissonFlows, Tcp
from netrepro.simulation import simulate
from netrepro.study import run_experiment

pytestmark = rootless
FAST = Link(100, 0)
PORT = ("s1", "s2")


def run(experiment: Experiment, **options):
    return emulate(experiment, "rootless", **options)


def narrow(rate_mbps: float = 10, delay_ms: float = 0, packets: int = 50, pairs: int = 1, **link):
    """Pairs of hosts whose packets meet at the port from s1 to s2."""
    return dumbbell(pairs, FAST, Link(rate_mbps, delay_ms, DropTail(packets=packets), **link))


# Tables ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both():
    """One experiment of everything that both tiers do, emulated and simulated."""
    traffic = (
        Flow("h1", "h3", duration_s=1.0, label="long"),
        Flow("h2", "h4", size_bytes=50_000, start_s=0.3, congestion_control="reno"),
        Datagrams("h2", "h3", 1.0, 1.0, packet_bytes=500),
        PoissonFlows(load_flow_sizes("web_search").conditional(high=6), 40, 5, ("h1",), ("h4",)),
    )
    asked = Experiment(
        narrow(pairs=2, packets=200),
        traffic,
        2.0,
        measure=Measure(queues=(PORT,), packets=(PORT,), queue_interval_ms=20, windows_interval_ms=100),
    )
    return run(asked), simulate(asked)


def test_an_emulated_run_has_the_tables_of_a_simulated_one(both):
    emulated, simulated = both
    assert (emulated.tier, emulated.kernel) == ("rootless", platform.release())
    assert f"tier rootless, kernel {platform.release()}" in set(emulated.fidelity["check"])
    assert (simulated.tier, simulated.kernel) == ("simulated", "")
    for table in ("flows", "queues", "links", "windows", "packets", "fidelity"):
        ours, theirs = getattr(emulated, table), getattr(simulated, table)
        assert set(theirs.columns) - {"connection"} <= set(ours.columns), table
        assert len(ours) > 0, table
    for table in ("flows", "links"):
        ours, theirs = getattr(emulated, table), getattr(simulated, table)
        assert ours[["source", "destination"]].equals(theirs[["source", "destination"]]), table
    assert emulated.windows["flow"].isin(emulated.flows["flow"]).all()
    assert emulated.fidelity["check"].str.startswith("s1 to s2: ").any()


def test_every_byte_that_is_asked_for_arrives_and_is_counted_once(both):
    emulated, _ = both
    flows, packets = emulated.flows, emulated.packets
    sized = flows[flows["size_bytes"].notna()]
    assert (sized["delivered_bytes"] == sized["size_bytes"]).all() and sized["completion_ms"].notna().all()
    assert (flows["errno"] == 0).all() and (flows["connection_attempts"][flows.transport == "tcp"] >= 1).all()
    datagrams = flows[flows.transport == "datagrams"].iloc[0]
    assert datagrams.delivered_bytes % 500 == 0 and np.isnan(datagrams.completion_ms)
    at_the_port = packets.groupby("flow")["size_bytes"].sum()
    assert at_the_port[datagrams.flow] >= datagrams.delivered_bytes
    for flow in flows[flows.transport == "tcp"].itertuples():
        headers = 66 * (packets["flow"] == flow.flow).sum()
        assert at_the_port[flow.flow] - headers >= flow.delivered_bytes
    sent = emulated.links_by_port.loc[PORT, "sent_bytes"]
    assert packets["size_bytes"].sum() == pytest.approx(sent, abs=10 * 66)  # the last FINs are after the end


def test_queue_samples_are_those_asked_for_and_lie_within_the_experiment(both):
    emulated, _ = both
    queues = emulated.queues
    assert set(zip(queues["source"], queues["destination"], strict=True)) == {PORT}
    assert queues["time_s"].between(0, 2).all() and queues["time_s"].is_monotonic_increasing
    assert 10 <= len(queues) <= 2.0 / 0.02 + 2
    assert 0 < queues["queue_packets"].max() <= 200


def test_an_emulated_long_flow_gets_the_rate_of_its_bottleneck():
    found = run(Experiment(narrow(10), (Flow("h1", "h2", duration_s=2.0),), 2.0))
    assert 5 < found.flows["goodput_mbps"].iloc[0] < 10
    assert found.trusted  # no port was measured, and no packet missed


def test_frames_of_several_packets_are_not_trusted_where_no_port_was_measured():
    needs("ip")
    asked = Experiment(star(2, FAST), (Flow("h1", "h2", size_bytes=200_000),), 0.5)

    def leave_offloading_on(net):
        net["h1"].run(["ip", "link", "set", "h1-eth0", "gso_max_segs", "65535"])

    usual, offloaded = (
        found.fidelity.set_index("check").loc[PACKETS_A_FRAME]
        for found in (run(asked), run(asked, prepare=leave_offloading_on))
    )
    assert usual["value"] == 1 and usual["holds"]
    assert offloaded["value"] == 65535 and not offloaded["holds"]


def test_what_came_before_does_not_count():
    look = Measure(packets=PORT, since_s=1.0)
    asked = Experiment(narrow(), (Flow("h1", "h2", duration_s=2.0), Flow("h1", "h2", 50_000)), 2.0, measure=look)
    counted = run(asked)
    port, arrived = counted.links_by_port.loc[PORT], counted.flows.delivered_bytes
    assert arrived.tolist() == [pytest.approx(1e7 / 8 * 1448 / 1514, rel=0.05), 0]
    assert port.sent_bytes == pytest.approx(1e7 / 8, rel=0.05)
    assert port.utilisation == pytest.approx(1.0, abs=0.03) and counted.packets.time_s.min() >= 1.0


def test_deliveries_are_refused_beforehand():
    with pytest.raises(NetreproError, match="deliveries, which real time does not record"):
        run(Experiment(narrow(), Flow("h1", "h2", 50_000), 1.0, measure=Measure(deliveries=0)))


def test_losses_of_a_small_buffer_are_repaired_and_counted():
    asked = Experiment(narrow(10, packets=5), (Flow("h1", "h2", size_bytes=600_000),), 5.0)
    found = run(asked)
    flow, links = found.flows.iloc[0], found.links_by_port
    assert links.loc[PORT, "dropped_packets"] > 0
    assert flow.delivered_bytes == 600_000 and flow.retransmitted_packets > 0
    assert (links.drop(index=[PORT])["dropped_packets"] == 0).all()


def test_datagrams_come_at_their_rate():
    found = run(
        Experiment(
            narrow(50),
            (
                Datagrams("h1", "h2", 4.0, 1.0, packet_bytes=1000),
                Datagrams("h1", "h2", 4.0, 1.0, packet_bytes=1000, spacing="poisson"),
            ),
            1.5,
        )
    )
    constant, poisson = found.flows["delivered_bytes"] // 1000
    assert constant == 500
    assert abs(poisson - 500) < 5 * 500**0.5 and poisson != 500


def test_flows_take_the_same_paths_again_because_ports_and_seeds_are_the_experiments():
    traffic = tuple(Flow(f"h{i}", f"h{i + 8}", size_bytes=20_000) for i in range(1, 9))
    asked = Experiment(fat_tree(4, Link(100, 0)), traffic, 1.0)
    used = [run(asked).links["sent_packets"] > 5 for _ in range(2)]
    assert used[0].equals(used[1])


# How hosts speak TCP --------------------------------------------------------------------------------


def first_flight(tcp: Tcp) -> int:
    """Full segments that leave in the first round trip after the handshake, of a round trip of 200 ms."""
    asked = Experiment(
        narrow(50, 100), (Flow("h1", "h2", size_bytes=200_000),), 1.0, measure=Measure(packets=(PORT,)), tcp=tcp
    )
    packets = emulate(asked, "virtual").packets
    full = packets[packets["size_bytes"] > 1000]["time_s"]
    return int((full < full.min() + 0.1).sum())


@needs_virtual
def test_the_initial_window_is_the_one_asked_for():
    assert first_flight(Tcp(initial_window_segments=3)) == 3
    assert first_flight(Tcp(initial_window_segments=20)) == 20


@needs_virtual
def test_the_receive_window_bounds_what_is_under_way():
    window = 40_000
    asked = Experiment(narrow(50, 50), (Flow("h1", "h2", duration_s=2.0),), 2.0, tcp=Tcp(receive_window_bytes=window))
    goodput_mbps = emulate(asked, "virtual").flows["goodput_mbps"].iloc[0]
    bound_mbps = window * 8e-6 / 0.1
    assert 0.5 * bound_mbps < goodput_mbps <= 1.01 * bound_mbps
    usual = emulate(Experiment(asked.topology, asked.traffic, 2.0), "virtual")
    assert usual.flows["goodput_mbps"].iloc[0] > 2 * bound_mbps


def acknowledgements_per_segment(delayed_ack_ms: float) -> float:
    asked = Experiment(
        narrow(10), (Flow("h1", "h2", size_bytes=1_000_000),), 2.0, tcp=Tcp(delayed_ack_ms=delayed_ack_ms)
    )
    links = run(asked).links_by_port["sent_packets"]
    return links["s2", "s1"] / links["s1", "s2"]


def test_every_second_segment_is_acknowledged_or_each_one():
    assert acknowledgements_per_segment(40) < 0.75
    assert acknowledgements_per_segment(0) > 0.9


def test_segments_are_as_large_as_asked():
    measure = Measure(packets=(PORT,))
    asked = Experiment(
        narrow(), (Flow("h1", "h2", size_bytes=50_000),), 1.0, measure=measure, tcp=Tcp(segment_bytes=500)
    )
    found = run(asked)
    assert found.packets["size_bytes"].max() == 500 + 66
    assert found.flows["delivered_bytes"].iloc[0] == 50_000


def test_hosts_have_the_settings_of_tcp_and_routers_keep_their_own():
    needs("ip")
    tcp = Tcp(min_rto_ms=20, sack=False, tail_loss_probe=False, ecn=True, slow_start_after_idle=False)
    with emulation(star(2, FAST), tcp=tcp) as net:
        assert "rto_min lock 20ms" in net["h1"].run(["ip", "route", "show", "default"]).stdout
        for name, host, router in (
            ("tcp_sack", "0", "1"),
            ("tcp_early_retrans", "0", "3"),
            ("tcp_ecn", "1", "2"),
            ("tcp_slow_start_after_idle", "0", "1"),
        ):
            read = ["cat", f"/proc/sys/net/ipv4/{name}"]
            assert (net["h1"].run(read).stdout.strip(), net["s1"].run(read).stdout.strip()) == (host, router), name


# What is refused, and how a run ends ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tcp", "says"),
    [
        (Tcp(initial_rto_ms=100), "initial_rto_ms = 100"),
        (Tcp(delayed_ack_ms=10), "delayed_ack_ms = 10"),
        (Tcp(min_rto_ms=1), "min_rto_ms = 1"),
        (Tcp(segment_bytes=8960), "segment_bytes = 8960"),
        (Tcp(dctcp_alpha=0), "dctcp_alpha = 0"),
        (Tcp(hystart=False), "hystart = False"),
    ],
)
def test_what_no_kernel_lets_a_host_set_is_refused_before_anything_is_built(tcp, says, monkeypatch):
    monkeypatch.setattr(LauncherConnection, "__init__", lambda *_: pytest.fail("something was built"))
    with pytest.raises(NetreproError, match=says):
        run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1),), 1.0, tcp=tcp))


def test_samples_too_fast_to_take_and_congestion_controls_that_are_not_there_are_refused():
    flow = (Flow("h1", "h2", size_bytes=1),)
    with pytest.raises(NetreproError, match=r"every 0\.01 ms"):
        run(Experiment(narrow(), flow, 1.0, measure=Measure(queues=(PORT,), queue_interval_ms=0.01)))
    with pytest.raises(NetreproError, match="no congestion control 'bic'"):
        run(Experiment(narrow(), flow, 1.0, tcp=Tcp("bic")))


def test_progress_is_told_and_its_exception_ends_the_run_and_all_processes():
    heard = []
    run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1000),), 0.5), progress=heard.append)
    assert heard[-1] == 1.0 and heard == sorted(heard)

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Experiment(narrow(), (Flow("h1", "h2", duration_s=50.0),), 50.0), progress=interrupt)
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True).stdout
    assert not [line for line in listed.splitlines() if sys.executable in line and "core_process.py" in line]


def test_all_that_a_flow_has_received_at_the_end_is_counted():
    """Receivers of long flows are not woken for each packet."""
    port = ("s1", "h9")
    flows = tuple(Flow(f"h{i}", "h9", duration_s=9.0) for i in range(1, 9))
    roomy = Link(6, 0, DropTail(packets=5000))  # nothing is lost, so that nothing waits for what was
    found = run(Experiment(star(9, roomy), flows, 3.0, measure=Measure(packets=(port,))))
    sent_bytes = 1448 * (found.packets["size_bytes"] == FULL_PACKET_BYTES).sum()
    assert sent_bytes - 6 * 1448 <= found.flows["delivered_bytes"].sum() <= sent_bytes + 6 * 1448


def test_a_congestion_control_that_the_kernel_lacks_is_refused_before_anything_is_sent():
    known = AVAILABLE.read_text().split()
    missing = next(name for name in ("dctcp", "bbr", "bic", "vegas") if name not in known)
    with pytest.raises(NetreproError, match=f"no congestion control '{missing}'"):
        run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1),), 1.0, tcp=Tcp(missing)))


def test_a_papers_experiment_runs_on_the_tier_that_is_named():
    asked = Experiment(narrow(), (Flow("h1", "h2", size_bytes=1000),), 0.3)
    for tier in ("rootless", "simulated"):
        found = run_experiment(asked, tier)
        assert found.tier == tier and found.flows["delivered_bytes"].iloc[0] == 1000
    with pytest.raises(NetreproError, match="no tier 'rotless'"):
        run_experiment(asked, "rotless")


def test_traffic_that_waits_for_a_processor_is_not_trusted():
    """A starved sender looks like a slow network. It wants most of a core; beside it, on the one that all may use, are
    programs that never rest."""
    check = "share of time in which the traffic waited for a CPU"
    experiment = Experiment(star(2, Link(1000, 0)), (Datagrams("h1", "h2", 300, 2.0, packet_bytes=200),), 2.0)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # of this process, and so of all that it starts
    try:
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
        try:
            starved = emulate(experiment, "rootless").fidelity.set_index("check").loc[check]
        finally:
            for each in others:
                each.kill()
                each.wait()
    finally:
        os.sched_setaffinity(0, allowed)
    assert starved["value"] > starved["at_most"] and not starved["holds"]


def test_a_generator_that_fails_says_why(monkeypatch):
    nowhere = (7, 7, 1, 1, 0, 0, 1, "reno", 0.0, 0, False, "", 0)
    monkeypatch.setattr(TrafficDescription, "_described", lambda self: [nowhere])
    with pytest.raises(NetreproError, match=r"the traffic cannot be sent: .*namespace"):
        run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1),), 1.0))
