"""Experiments on networks of real kernels: the tables, TCP's settings, what is refused, and how a run ends."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from emulation_traffic import AVAILABLE, emulation, needs, needs_bpf, rootless

from netrepro.emulation import Emulation, Fabric, bpf_controls, emulate, tiers
from netrepro.emulation.bpf_controls import has_congestion_control, missing_for_bpf, remove_orphans
from netrepro.emulation.fidelity import PACKETS_A_FRAME
from netrepro.emulation.guests import LauncherConnection
from netrepro.emulation.tiers import TierStatus
from netrepro.emulation.traffic import TrafficDescription
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, EcnThreshold, Link, dumbbell, fat_tree, star
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.networks.workloads import Datagrams, Flow, PoissonFlows, Tcp
from netrepro.papers import _running
from netrepro.papers._running import run_experiment, run_together
from netrepro.simulation import simulate

pytestmark = [pytest.mark.timeout(60), rootless]
FAST = Link(100, 0)
PORT = ("s1", "s2")
STEERING = Path("/proc/sys/net/core/rps_default_mask")
KERNEL = sys.modules["netrepro.emulation.emulate"]


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
    sent = emulated.links.set_index(["source", "destination"]).loc[PORT, "sent_bytes"]
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


def test_losses_of_a_small_buffer_are_repaired_and_counted():
    asked = Experiment(narrow(10, 2, packets=5), (Flow("h1", "h2", size_bytes=600_000),), 5.0)
    found = run(asked)
    flow, links = found.flows.iloc[0], found.links.set_index(["source", "destination"])
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
    packets = run(asked).packets
    full = packets[packets["size_bytes"] > 1000]["time_s"]
    return int((full < full.min() + 0.1).sum())


def test_the_initial_window_is_the_one_asked_for():
    assert first_flight(Tcp(initial_window_segments=3)) == 3
    assert first_flight(Tcp(initial_window_segments=20)) == 20


def test_the_receive_window_bounds_what_is_under_way():
    window = 40_000
    asked = Experiment(narrow(50, 50), (Flow("h1", "h2", duration_s=2.0),), 2.0, tcp=Tcp(receive_window_bytes=window))
    goodput_mbps = run(asked).flows["goodput_mbps"].iloc[0]
    bound_mbps = window * 8e-6 / 0.1
    assert 0.5 * bound_mbps < goodput_mbps <= 1.01 * bound_mbps
    assert run(Experiment(asked.topology, asked.traffic, 2.0)).flows["goodput_mbps"].iloc[0] > 2 * bound_mbps


def acknowledgements_per_segment(delayed_ack_ms: float) -> float:
    asked = Experiment(
        narrow(10), (Flow("h1", "h2", size_bytes=1_000_000),), 2.0, tcp=Tcp(delayed_ack_ms=delayed_ack_ms)
    )
    links = run(asked).links.set_index(["source", "destination"])["sent_packets"]
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


@needs_bpf
def test_a_congestion_control_that_the_kernel_lacks_is_loaded_and_removed_with_the_network():
    queue = EcnThreshold(200, 20)
    asked = Experiment(
        star(3, Link(40, 1, queue)),
        tuple(Flow(host, "h3", duration_s=3.0) for host in ("h1", "h2")),
        3.0,
        measure=Measure(queues=(("s1", "h3"),), windows_interval_ms=100),
        tcp=Tcp("dctcp"),
    )
    loaded = []
    found = emulate(asked, "privileged", prepare=lambda net: loaded.append(AVAILABLE.read_text()))
    settled = found.queues[found.queues["time_s"] > 1]["queue_packets"]
    link = found.links.set_index(["source", "destination"]).loc["s1", "h3"]
    assert link.marked_packets > 50 and link.dropped_packets == 0
    assert 3 < settled.mean() < 40  # about the threshold, far below the buffer
    assert (found.flows["congestion_control"] == "dctcp").all()
    name = re.search(r"nrdctcp\d+", loaded[0])
    assert name and name[0] not in AVAILABLE.read_text()


KILLED = """
import os, signal, sys
from netrepro.emulation import Emulation
from netrepro.networks import Link, star
net = Emulation(star(2, Link(50, 1)), "privileged", congestion_control="dctcp").__enter__()
print(net.plan.congestion_control["h1"], flush=True)
if "its launcher too" in sys.argv:
    os.kill(net.launcher.process, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_bpf
@pytest.mark.parametrize("who", ["it alone", "its launcher too"])
def test_what_a_killed_owner_has_loaded_is_removed_by_its_launcher_or_by_the_next(who):
    name = subprocess.run([sys.executable, "-c", KILLED, who], capture_output=True, text=True).stdout.strip()
    assert name.startswith("nrdctcp")
    if who == "its launcher too":
        assert name in AVAILABLE.read_text()
        deadline = time.monotonic() + 10
        while name in AVAILABLE.read_text() and time.monotonic() < deadline:  # until init has buried the launcher
            remove_orphans()
    deadline = time.monotonic() + 10
    while name in AVAILABLE.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert name not in AVAILABLE.read_text()


@needs_bpf
def test_dctcp_in_ebpf_halves_at_a_timeout_however_few_packets_were_marked():
    """As Linux's own (dctcp_cwnd_event), RFC 8257, section 3.5."""

    def threshold_and_window(connection: socket.socket) -> tuple[int, ...]:
        return struct.unpack_from("=2I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 76)

    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Emulation(star(2, Link(50, 0)), "privileged", congestion_control="dctcp"))
        server, sender = (stack.enter_context(net[host].socket()) for host in ("h2", "h1"))
        server.bind(("", 5000))
        server.listen()
        sender.connect((net["h2"].address, 5000))
        receiver = stack.enter_context(server.accept()[0])
        for _ in range(200):  # alpha begins at 1, and falls with each round trip
            sender.send(b"ping")
            receiver.send(receiver.recv(4))
            sender.recv(4)
        net["h2"].run(["ip", "link", "set", "h2-eth0", "down"])
        _, window = threshold_and_window(sender)
        sender.send(b"lost")
        deadline = time.monotonic() + 10
        while threshold_and_window(sender)[1] > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        threshold, at_last = threshold_and_window(sender)
    assert window >= 10 and at_last == 1 and threshold == window // 2


def test_a_machine_whose_kernel_has_no_dctcp_has_it_only_where_loading_was_tried_and_works(monkeypatch, tmp_path):
    monkeypatch.setattr(bpf_controls.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(bpf_controls, "HEADER", tmp_path)
    monkeypatch.setattr(tiers, "probe_tiers", lambda: {"privileged": TierStatus(True, "")})
    kernel = {"TCP dctcp": False, "eBPF congestion control": True}
    columns = ["feature", "works"]
    monkeypatch.setattr(
        tiers, "_features", lambda tier: pd.DataFrame(kernel.items(), columns=columns).assign(why="EPERM")
    )
    assert has_congestion_control("dctcp", "privileged")
    assert not has_congestion_control("vegas", "privileged")
    monkeypatch.setattr(bpf_controls, "HEADER", tmp_path / "none")
    assert "headers" in missing_for_bpf() and not has_congestion_control("dctcp", "privileged")
    monkeypatch.setattr(bpf_controls, "HEADER", tmp_path)
    kernel["eBPF congestion control"] = False
    assert missing_for_bpf() == "EPERM" and not has_congestion_control("dctcp", "privileged")
    kernel["TCP dctcp"] = True  # as after its module was loaded, whatever the list of what is available says
    assert has_congestion_control("dctcp", "privileged")


@needs_bpf
@pytest.mark.skipif(not STEERING.exists(), reason="needs a kernel of 6.3 or later")
def test_beside_a_congestion_control_in_ebpf_packets_are_received_where_they_are_sent():
    """Else an interrupted process may receive them, in which some kernels leave eBPF out."""
    for asked, elsewhere in (((), True), (("dctcp",), False)):
        with Emulation(star(2, Link(50, 1)), "privileged", fabric=Fabric(), controls=asked) as net:
            mask = net["h2"].run(["cat", str(STEERING)]).stdout
            assert (int(mask.replace(",", ""), 16) != 0) == elsewhere


def test_all_that_a_flow_has_received_at_the_end_is_counted():
    """Receivers of long flows are not woken for each packet."""
    port = ("s1", "h9")
    flows = tuple(Flow(f"h{i}", "h9", duration_s=9.0) for i in range(1, 9))
    roomy = Link(6, 0, DropTail(packets=5000))  # nothing is lost, so that nothing waits for what was
    found = run(Experiment(star(9, roomy), flows, 3.0, measure=Measure(packets=(port,))))
    sent_bytes = 1448 * (found.packets["size_bytes"] == FULL_PACKET_BYTES).sum()
    assert sent_bytes - 6 * 1448 <= found.flows["delivered_bytes"].sum() <= sent_bytes + 6 * 1448


def test_dctcp_without_root_is_refused_with_the_reason():
    if "dctcp" in AVAILABLE.read_text().split():
        pytest.skip("needs root of a kernel without DCTCP")
    with pytest.raises(NetreproError, match="only root may load it"):
        run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1),), 1.0, tcp=Tcp("dctcp")))


def test_a_papers_experiment_runs_on_the_tier_that_is_named():
    asked = Experiment(narrow(), (Flow("h1", "h2", size_bytes=1000),), 0.3)
    for tier in ("rootless", "simulated"):
        found = run_experiment(asked, tier)
        assert found.tier == tier and found.flows["delivered_bytes"].iloc[0] == 1000
    with pytest.raises(NetreproError, match="no tier 'rotless'"):
        run_experiment(asked, "rotless")


def test_a_run_that_is_not_trusted_is_repeated_and_one_that_is_trusted_is_kept(monkeypatch):
    asked = Experiment(narrow(), (Flow("h1", "h2", size_bytes=1000),), 0.3)
    trusted = simulate(asked)
    late = replace(trusted, fidelity=trusted.fidelity.assign(holds=False))
    for measured, attempts, kept in (([late, trusted, late], 3, trusted), ([late, trusted], 1, late)):
        following = iter(measured)
        monkeypatch.setattr(_running, "emulate", lambda *_, following=following, **__: next(following))
        assert run_experiment(asked, "rootless", attempts=attempts) is kept


def test_experiments_share_a_fabric_and_each_is_told_what_was_its_own(monkeypatch):
    emulated = []

    def note(experiment, *arguments, **options):
        emulated.append(experiment)
        return emulate(experiment, *arguments, **options)

    monkeypatch.setattr(_running, "emulate", note)
    port, rates_mbps = ("s1", "h2"), (4, 16)
    asked = [
        Experiment(
            star(2, Link(rate_mbps, 1, DropTail(packets=30))),
            (Flow("h1", "h2", duration_s=1.0),),
            1.0,
            measure=Measure(queues=(port,), packets=(port,)),
        )
        for rate_mbps in rates_mbps
    ]
    for tier, runs in (("rootless", 1), ("simulated", 0)):
        emulated.clear()
        for found, own, rate_mbps in zip(run_together(asked, tier, backend="fabric"), asked, rates_mbps, strict=True):
            assert found.experiment == own and found.tier == tier
            assert set(found.packets[["source", "destination"]].itertuples(index=False, name=None)) == {port}
            assert found.flows["goodput_mbps"].to_numpy() == pytest.approx([rate_mbps * 0.93], rel=0.1)
            assert list(found.packets["flow"].unique()) == [0] and len(found.queues) > 50
        assert len(emulated) == runs


def test_no_more_run_together_than_a_fabric_bears():
    assert [_running.at_once(2, mbps) for mbps in (160, 250, 1600)] == [2, 1, 1]


def test_traffic_that_waits_for_a_processor_is_not_trusted():
    """A starved sender looks like a slow network. Beside it, on the one core that all may use, programs that never
    rest."""
    check = "share of time in which the traffic waited for a CPU"
    experiment = Experiment(star(2, Link(50, 1)), (Datagrams("h1", "h2", 20, 2.0, packet_bytes=200),), 2.0)
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
    assert starved["value"] > starved["bound"] and not starved["holds"]


def test_a_generator_that_fails_says_why(monkeypatch):
    nowhere = (7, 7, 1, 1, 0, 0, 1, "reno", 0.0, 0, False, "", 0)
    monkeypatch.setattr(TrafficDescription, "_described", lambda self: [nowhere])
    with pytest.raises(NetreproError, match=r"the traffic cannot be sent: .*namespace"):
        run(Experiment(narrow(), (Flow("h1", "h2", size_bytes=1),), 1.0))
