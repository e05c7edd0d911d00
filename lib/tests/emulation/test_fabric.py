"""The fabric: real hosts around switches that are one process in virtual time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from emulation_traffic import rootless, transfer

from netrepro.emulation import Emulation, Fabric, emulate, fabric, machine
from netrepro.errors import NetreproError
from netrepro.networks import CoDel, DropTail, EcnThreshold, Link, PhantomQueue, Pie, Red, dumbbell, fat_tree, star
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.networks.routing import LinkChange, shortest_paths
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Datagrams, Flow, Tcp
from netrepro.simulation import simulate

pytestmark = [pytest.mark.timeout(90), rootless]
FAST = Link(100, 0)
PORT = ("s1", "s2")
MOST_LATE_US = 5000  # p99, beyond which a comparison with virtual time says nothing


def run(experiment: Experiment, **options):
    return emulate(experiment, "rootless", backend="fabric", **options)


def run_quietly(experiment: Experiment):
    """A run of which the fabric was in time; skips when the machine is too busy for one in three."""
    for _ in range(3):
        found = run(experiment)
        late_us = found.fidelity.set_index("check")["value"]["lateness of packets handed over in us, p99"]
        if late_us <= MOST_LATE_US:
            return found
    pytest.skip(f"the machine is too busy: packets were late by {late_us / 1e3:.1f} ms")


def port_of(found, port=PORT):
    return found.links.set_index(["source", "destination"]).loc[port]


# Processors -----------------------------------------------------------------------------------------

STEERING = Path("/proc/sys/net/core/rps_default_mask")  # kernels have it since 6.3


def receivers_of(net: Emulation) -> int:
    return int(net["h2"].run(["cat", str(STEERING)]).stdout.replace(",", ""), 16)


def test_a_fabric_keeps_to_a_processor_and_packets_are_received_on_the_others():
    with Emulation(star(2, FAST), "rootless", fabric=Fabric()) as net:
        allowed = net["h1"].run(["grep", "Cpus_allowed_list", f"/proc/{net.fabric.process}/status"]).stdout
        kept = machine.relay_processor()
        assert allowed.split()[-1] == str(kept)
        if STEERING.exists():
            assert receivers_of(net) == sum(1 << each for each in os.sched_getaffinity(0) - {kept})


def test_packets_that_wait_long_for_a_processor_that_receives_them_are_not_trusted():
    """A second of waiting is added to what the fabric counts, as of packets that nobody received."""
    check = "mean time in us that packets waited for a CPU to receive them"
    asked = Experiment(star(2, Link(50, 1)), (Flow("h1", "h2", size_bytes=1_000_000),), 1.5)
    usual = run(asked).fidelity.set_index("check").loc[check]
    assert 0 <= usual["value"] < usual["bound"] and usual["holds"]
    built = []

    def hold_up(share: float) -> None:
        if built:
            process, place = built.pop().fabric._process, fabric._HEADER.index("waited_ns")
            process.write(place, int(process.numbers[place]) + 10**9)

    held_up = run(asked, prepare=built.append, progress=hold_up)
    found = held_up.fidelity.set_index("check").loc[check]
    assert found["value"] > found["bound"] and not found["holds"] and not held_up.trusted


# One switch -----------------------------------------------------------------------------------------


def test_a_flow_through_one_switch_gets_its_rate_and_the_tables_are_those_of_the_simulator():
    asked = Experiment(
        star(2, Link(20, 0.5)),
        (Flow("h1", "h2", duration_s=2.0), Datagrams("h1", "h2", 1.0, 1.0, packet_bytes=500)),
        2.0,
        measure=Measure(
            queues=(("s1", "h2"), ("h1", "s1")), packets=(("s1", "h2"), ("h1", "s1")), windows_interval_ms=100
        ),
    )
    found, expected = run(asked), simulate(asked)
    assert found.flows["goodput_mbps"].iloc[0] == pytest.approx(19.5 * 1448 / FULL_PACKET_BYTES, rel=0.1)
    assert found.flows["delivered_bytes"].iloc[1] == expected.flows["delivered_bytes"].iloc[1]
    for table in ("flows", "queues", "links", "windows", "packets", "fidelity"):
        ours, theirs = getattr(found, table), getattr(expected, table)
        assert set(theirs.columns) - {"connection"} <= set(ours.columns) and len(ours) > 0, table
    assert found.links[["source", "destination"]].equals(expected.links[["source", "destination"]])
    assert set(found.packets["flow"]) == {0, 1}
    own = found.packets.query("source == 'h1'")
    assert own["wait_ms"].isna().all() and found.packets.query("source == 's1'")["wait_ms"].notna().all()
    assert (own["size_bytes"] == FULL_PACKET_BYTES).sum() > 1000


def test_packets_of_a_busy_port_leave_one_packet_time_apart_and_are_as_many_as_the_link_counts():
    asked = Experiment(
        dumbbell(1, FAST, Link(10, 2, DropTail(packets=30))),
        (Flow("h1", "h2", duration_s=2.0),),
        2.0,
        measure=Measure(queues=(PORT,), packets=(PORT,), queue_interval_ms=5),
    )
    found = run(asked)
    packets, ideal_s = found.packets, FULL_PACKET_BYTES * 8 / 10e6
    gap_s = np.diff(packets["time_s"])
    busy = (packets["wait_ms"].to_numpy()[1:] > 0) & (packets["size_bytes"].to_numpy()[1:] == FULL_PACKET_BYTES)
    assert busy.sum() > 500
    assert gap_s[busy] == pytest.approx(np.full(busy.sum(), ideal_s), abs=2e-6)  # of 1211 us
    port = port_of(found)
    assert abs(port.sent_bytes - packets["size_bytes"].sum()) <= 30 * FULL_PACKET_BYTES  # what leaves after the end
    assert port.dropped_packets > 0 and (found.links["dropped_packets"].sum() == port.dropped_packets)
    assert 20 < found.queues["queue_packets"].max() <= 30
    assert packets["wait_ms"].max() <= 30 * ideal_s * 1e3 + 1.3


def test_a_flow_takes_as_long_as_in_the_simulator():
    sizes, starts_s = (10_000, 100_000, 500_000), (0.2, 0.6, 1.3)
    net = dumbbell(1, Link(200, 1, DropTail(packets=1000)), Link(20, 38, DropTail(packets=60)))
    flows = tuple(Flow("h1", "h2", size, start_s=start) for size, start in zip(sizes, starts_s, strict=True))
    asked = Experiment(net, flows, 2.8, measure=Measure(queues=(PORT,)), tcp=Tcp("reno"))
    found, expected = run_quietly(asked), simulate(asked)
    assert (found.flows["delivered_bytes"] == expected.flows["delivered_bytes"]).all()
    # 15 % and 10 ms are for a busy machine; a timeout more or less would be 200 ms.
    assert found.flows["completion_ms"].to_numpy() == pytest.approx(
        expected.flows["completion_ms"].to_numpy(), rel=0.15, abs=10
    )


def test_losses_of_the_wire_and_of_a_small_buffer_are_counted_and_repaired():
    small = Experiment(
        dumbbell(1, FAST, Link(10, 2, DropTail(packets=5))), (Flow("h1", "h2", size_bytes=600_000),), 4.0
    )
    found = run(small)
    assert port_of(found).dropped_packets > 0 and port_of(found).lost_packets == 0
    assert found.flows["delivered_bytes"].iloc[0] == 600_000
    assert found.flows["retransmitted_packets"].iloc[0] >= port_of(found).dropped_packets
    lossy = Experiment(star(2, Link(50, 1, loss=0.02)), (Flow("h1", "h2", size_bytes=1_000_000),), 4.0)
    found = run(lossy)
    assert found.links["lost_packets"].sum() > 5 and found.links["dropped_packets"].sum() == 0
    assert found.flows["delivered_bytes"].iloc[0] == 1_000_000
    assert found.trusted or not found.fidelity.set_index("check")["holds"]["lateness of packets handed over in us, p99"]


def settled_queue(queue):
    """Packets that wait on average at a port that two flows fill, and packets that it marked."""
    asked = Experiment(
        dumbbell(2, FAST, Link(20, 5, queue)),
        tuple(Flow(f"h{i}", f"h{i + 2}", duration_s=3.0) for i in (1, 2)),
        3.0,
        measure=Measure(queues=(PORT,)),
        tcp=Tcp("reno", ecn=True),
    )
    found = run(asked)
    return found.queues[found.queues["time_s"] > 1]["queue_packets"].mean(), port_of(found).marked_packets


@pytest.fixture(scope="module")
def drop_tail():
    return settled_queue(DropTail(packets=300))


@pytest.mark.parametrize(
    "rule",
    [EcnThreshold(300, 20), Red(300, 10, 40, 0.1, 0.01, ecn=True), CoDel(300, ecn=True), Pie(300, ecn=True),
     PhantomQueue(300, 0.9, 6000)],
)  # fmt: skip
def test_every_rule_that_marks_keeps_the_queue_shorter_than_drop_tail(rule, drop_tail):
    kept, marked = settled_queue(rule)
    filled, unmarked = drop_tail
    assert marked > 0 and unmarked == 0
    assert kept < filled / 2


def test_queues_are_the_kernels_at_hosts_and_the_fabrics_inside():
    asked = Experiment(
        star(2, Link(20, 0, DropTail(packets=200))),
        (Flow("h1", "h2", duration_s=1.0),),
        1.0,
        measure=Measure(queues=(("h1", "s1"), ("s1", "h2")), queue_interval_ms=10),
    )
    queues = run(asked).queues.groupby("source")["queue_packets"]
    # The host's own link is as fast as the next, so that all wait there, where TCP feels it.
    assert queues.max()["h1"] > 5 and queues.max()["s1"] <= 3


# Many switches --------------------------------------------------------------------------------------


def test_a_recording_of_a_fabric_tells_throughput_and_has_a_certificate_as_another_has():
    ports = [("h1", "s1"), ("s1", "h2")]
    with Emulation(star(2, Link(20, 0)), "rootless", fabric=Fabric()) as net:
        with net.record(packets=ports) as seen:
            transfer(net, "h1", "h2", 500_000)
        with pytest.raises(NetreproError, match="packets from h2 to s1 were not recorded"):
            seen.certificate("h2", "s1")
    throughput = seen.throughput(window_ms=50)
    assert throughput.groupby(["source", "destination"])["throughput_mbps"].max().between(18, 21).to_dict() == {
        port: True for port in ports
    }
    own, inside = (set(seen.certificate(*port)["check"]) for port in ports)
    assert "gaps of a busy link" in own - inside
    assert {f"tier rootless, kernel {platform.release()}", "lateness of packets handed over in us, p99"} <= inside


def test_what_was_late_before_a_recording_is_not_its_fault():
    with Emulation(star(2, Link(20, 0)), "rootless", fabric=Fabric()) as net:
        process, place = net.fabric._process, len(fabric._HEADER) + 8 * 30
        process.write(place, 1000)  # by a second
        with net.record() as before:
            transfer(net, "h1", "h2", 50_000)
        with net.record() as meanwhile:
            process.write(place, 2000)
    late = [seen.machine_checks().set_index("check").loc["lateness of packets handed over in us, p99"]
            for seen in (before, meanwhile)]  # fmt: skip
    assert late[0]["value"] < 1e6 < late[1]["value"] and not late[1]["holds"]


def test_the_blocks_own_error_is_not_hidden_by_a_fabric_that_has_ended():
    with Emulation(star(2, FAST), "rootless", fabric=Fabric()) as net:
        seen = net.record(queues=[("h1", "s1")])
        with pytest.raises(KeyboardInterrupt), seen:
            net["h1"].run(["sh", "-c", f"kill -KILL {net.fabric.process}; sleep 0.1"])
            raise KeyboardInterrupt
        assert len(seen._hosts.queues())  # which have ended too


def test_a_recording_whose_fabric_was_killed_meanwhile_is_an_error():
    with Emulation(star(2, FAST), "rootless", fabric=Fabric()) as net:
        seen = net.record(queues=[("h1", "s1")])
        with pytest.raises(NetreproError, match="its process ended"), seen:
            net["h1"].run(["sh", "-c", f"kill -KILL {net.fabric.process}; sleep 0.1"])
        assert len(seen._hosts.queues())


def test_a_second_recording_of_a_fabric_at_a_time_is_refused_and_the_first_goes_on():
    with Emulation(star(2, FAST), "rootless", fabric=Fabric()) as net:
        with net.record(queues=[("s1", "h2")]) as seen:
            with pytest.raises(NetreproError, match="a second recording"), net.record():
                pass
            transfer(net, "h1", "h2", 500_000)
        with net.record(queues=[("s1", "h2")]):
            pass
    assert seen.queues()["queue_packets"].max() > 0


def core_packets(found) -> np.ndarray:
    """Full-grown links into the core of a fat-tree of k = 4: packets that each carried."""
    links = found.links
    into_core = links["destination"].isin(["s17", "s18", "s19", "s20"])
    return links[into_core]["sent_packets"].to_numpy()


def permutation(**options) -> Experiment:
    """64 flows over the core: four from every host to the host eight further."""
    traffic = tuple(Flow(f"h{i + 1}", f"h{(i + 8) % 16 + 1}", duration_s=3.0) for i in range(16) for _ in range(4))
    return Experiment(fat_tree(4, Link(5, 0.05, DropTail(packets=20))), traffic, 3.0, **options)


def test_a_permutation_spreads_over_all_links_to_the_core_and_over_one_with_a_tree():
    hashed = run(permutation())
    carried = core_packets(hashed)
    assert (carried > 0.1 * carried.max()).all()
    assert hashed.flows["goodput_mbps"].sum() > 0.6 * 16 * 5
    tree = run(permutation(routing="spanning_tree"))
    assert np.count_nonzero(core_packets(tree) > 100) == 4  # one from each pod
    assert tree.flows["goodput_mbps"].sum() < 0.35 * 16 * 5


def test_spraying_balances_every_flow_over_all_paths():
    asked = Experiment(
        fat_tree(4, Link(20, 0.05)), (Flow("h1", "h16", duration_s=1.0),), 1.0, routing="packet_spraying"
    )
    carried = core_packets(run(asked))
    used = carried[carried > 10]
    assert len(used) == 4 + 4 and used[:4].min() > 0.7 * used[:4].max()


def test_flows_hash_to_the_same_paths_again_and_to_others_with_another_seed():
    def used(seed: int) -> list[bool]:
        traffic = tuple(Flow(f"h{i}", f"h{i + 8}", size_bytes=20_000) for i in range(1, 9))
        return list(run(Experiment(fat_tree(4, FAST), traffic, 0.6, seed)).links["sent_packets"] > 5)

    assert used(1) == used(1) != used(2)


def test_a_flow_with_a_path_of_its_own_takes_it_there_and_back():
    topology = fat_tree(4, Link(20, 0.05))
    for path in shortest_paths(topology, "h1", "h16")[::3]:
        found = run(Experiment(topology, (Flow("h1", "h16", size_bytes=100_000, path=path),), 0.6))
        links = found.links.set_index(["source", "destination"])["sent_packets"]
        assert (links[list(pairwise(path))] > 60).all()
        assert set(links[links > 0].index) == {*pairwise(path), *pairwise(path[::-1])}


# Several cables ---------------------------------------------------------------------------------------

TWO_WAYS = Topology(
    tuple(Cable(*ends, FAST) for ends in (("h1", "s1"), ("h1", "s2"), ("s1", "s3"), ("s2", "s3"), ("s3", "h2")))
)


@pytest.mark.parametrize("backend", ["kernel", "fabric"])
def test_flows_of_a_host_with_two_cables_use_both_and_each_keeps_to_its_own(backend):
    flows = tuple(Flow("h1", "h2", size_bytes=30_000, start_s=0.02 * i) for i in range(24))
    back = tuple(Flow("h2", "h1", size_bytes=30_000, start_s=0.02 * i) for i in range(24))
    asked = Experiment(TWO_WAYS, flows + back, 1.5, measure=Measure(packets=(("h1", "s1"), ("s1", "s3"))))
    found = emulate(asked, "rootless", backend=backend)
    assert (found.flows["delivered_bytes"] == 30_000).all()
    sent = found.links.set_index(["source", "destination"])["sent_bytes"]
    assert all(sent[ends] > 90_000 for ends in TWO_WAYS.ports if ends != ("s3", "h2"))
    # Whatever enters by a cable goes on behind it.
    first, next_ = (found.packets[found.packets["source"] == source] for source in ("h1", "s1"))
    assert len(first) > 100 and first["flow"].value_counts().equals(next_["flow"].value_counts())


@pytest.mark.parametrize("backend", ["kernel", "fabric"])
def test_a_flow_is_given_either_cable_and_a_broken_one_is_left(backend):
    for switch in ("s1", "s2"):
        path = ("h1", switch, "s3", "h2")
        found = emulate(
            Experiment(TWO_WAYS, (Flow("h1", "h2", size_bytes=50_000, path=path),), 0.5), "rootless", backend=backend
        )
        used = found.links.set_index(["source", "destination"])["sent_packets"]
        assert set(used[used > 0].index) == {*pairwise(path), *pairwise(path[::-1])}
    broken = tuple(LinkChange(0.0, switch, "s3", up=False) for switch in ("s1",))
    flows = tuple(Flow("h1", "h2", size_bytes=30_000, start_s=0.3) for _ in range(8))
    found = emulate(Experiment(TWO_WAYS, flows, 1.0, changes=broken), "rootless", backend=backend)
    assert (found.flows["delivered_bytes"] == 30_000).all()
    assert port_of(found, ("s1", "s3")).sent_packets == 0


def test_hosts_joined_to_each_other_and_by_switches_reach_all():
    cables = (Cable("h1", "h2", FAST), Cable("h1", "s1", FAST), Cable("h2", "s1", FAST), Cable("h3", "s1", FAST))
    flows = tuple(
        Flow(f"h{a}", f"h{b}", size_bytes=20_000) for a, b in ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
    )
    found = run(Experiment(Topology(cables), flows, 0.6))
    assert (found.flows["delivered_bytes"] == 20_000).all()
    assert port_of(found, ("h1", "h2")).sent_bytes > 20_000  # directly: data, and nothing of it by the switch
    assert port_of(found, ("s1", "h2")).sent_bytes < 30_000  # from h3 only


def test_routing_that_would_choose_a_hosts_cable_for_it_is_refused():
    asked = Experiment(TWO_WAYS, (Flow("h1", "h2", size_bytes=1),), 1.0, routing="packet_spraying")
    with pytest.raises(NetreproError, match="h1 has several cables, among which its kernel chooses"):
        run(asked)


# How it is built, refused and removed ---------------------------------------------------------------


def test_programs_reach_each_other_by_name_and_switches_run_none():
    with Emulation(star(3, Link(50, 1)), tier="rootless", fabric=Fabric()) as net:
        assert transfer(net, "h1", "h3", 200_000)[0] == 200_000
        net["h2"].run(["getent", "hosts", "h3"])
        with pytest.raises(NetreproError, match="s1 is a switch of the fabric"):
            net["s1"].run(["true"])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Topology((Cable("h1", "s1", FAST), Cable("h1", "s2", FAST), Cable("h2", "s1", FAST), Cable("h3", "s2", FAST))),
         "only through another host"),
        (star(2, Link(5000, 0)), "a kernel shapes 2000 Mb/s at most"),
    ],
)  # fmt: skip
def test_what_a_fabric_cannot_be_is_refused_before_anything_is_built(asked, says, monkeypatch):
    monkeypatch.setattr(Emulation, "__enter__", lambda self: pytest.fail("something was built"))
    with pytest.raises(NetreproError, match=says):
        run(Experiment(asked, (Flow("h1", "h2", size_bytes=1),), 1.0))


def test_another_backend_and_routing_that_kernels_lack_are_refused_with_what_to_use():
    asked = Experiment(star(2, FAST), (Flow("h1", "h2", size_bytes=1),), 1.0, routing="packet_spraying")
    with pytest.raises(NetreproError, match="no backend 'fabrik'"):
        emulate(asked, "rootless", backend="fabrik")
    with pytest.raises(NetreproError, match="use backend 'fabric'"):
        emulate(asked, "rootless")


def test_an_interrupted_run_leaves_no_process():
    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Experiment(star(2, FAST), (Flow("h1", "h2", duration_s=50.0),), 50.0), progress=interrupt)
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True).stdout
    assert not [line for line in listed.splitlines() if sys.executable in line and "core_process.py" in line]
