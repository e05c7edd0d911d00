"""Ports that the relay paces: their rate, buffer and order, what they do after a pause, and what is refused."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from emulation_traffic import emulation, rootless

from netrepro.emulation import emulate, machine, network, recording
from netrepro.emulation.fidelity import BETWEEN_INTERRUPTIONS, INTERRUPTED, WAITED
from netrepro.emulation.tiers import kernel_features, probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, EcnThreshold, Link, LinkChange, dumbbell
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.workloads import Flow, Tcp

pytestmark = [
    pytest.mark.timeout(60),
    rootless,
    pytest.mark.skipif(not machine.can_pace(), reason="needs a second processor"),
]
PORT = ("s1", "s2")
TIER = "privileged" if probe_tiers().privileged.available else "rootless"  # which can keep processors awake
STEERING = Path("/proc/sys/net/core/rps_default_mask")  # kernels have it since 6.3
BUSY = Measure(queues=(PORT,), queue_interval_ms=1.0, packets=(PORT,))


def run(
    link: Link, duration_s: float = 1.0, tcp: Tcp | None = None, changes=(), prepare=None, tier: str = TIER
) -> Measurements:
    """A long flow through a paced port."""
    net, flows = dumbbell(1, Link(200, 0), link), (Flow("h1", "h2", duration_s=duration_s),)
    asked = Experiment(net, flows, duration_s, 1, BUSY, tcp=tcp or Tcp("cubic"), changes=changes)
    return emulate(asked, tier, paced=(PORT,), prepare=prepare)


def rate_of(found: Measurements, from_s: float, to_s: float) -> float:
    packets = found.packets
    inside = packets[(packets["time_s"] >= from_s) & (packets["time_s"] < to_s)]
    return inside["size_bytes"].sum() * 8e-6 / (to_s - from_s)


@pytest.mark.parametrize("tier", ["rootless", "privileged"])
@pytest.mark.parametrize("delay_ms", [0, 5])
def test_a_paced_port_keeps_its_rate_and_its_buffer_and_counts_what_it_drops(delay_ms, tier):
    if tier == "privileged" and not probe_tiers().privileged.available:
        pytest.skip("needs root")
    found = run(Link(20, delay_ms, DropTail(packets=30)), tier=tier)
    assert 18 < rate_of(found, 0.3, 1.0) < 20.5
    queue = found.queues["queue_packets"]
    assert 25 <= queue.max() <= 30
    link = found.links.set_index(["source", "destination"]).loc[PORT]
    assert link["dropped_packets"] > 0 and link["sent_packets"] == pytest.approx(len(found.packets), abs=50)
    checks = found.fidelity.set_index("check")["value"]
    assert checks["packets missed"] == 0 and checks["s1 to s2: largest packet in bytes"] == 1514


def test_a_buffer_counted_in_bytes_is_the_relays_too():
    found = run(Link(20, 0, DropTail(bytes=20_000)), 0.6)
    assert 15_000 < found.queues["queue_bytes"].max() <= 20_000


def test_a_paced_port_marks_as_its_queue_says():
    found = run(Link(20, 0, EcnThreshold(200, 10)), tcp=Tcp("reno", ecn=True))
    link = found.links.set_index(["source", "destination"]).loc[PORT]
    assert link["marked_packets"] > 0 and link["dropped_packets"] == 0


def test_the_rate_of_a_paced_port_changes():
    changes = (LinkChange(0.8, "s1", "s2", rate_mbps=5),)
    found = run(Link(20, 0, DropTail(packets=20)), 1.8, changes=changes)
    assert rate_of(found, 0.3, 0.75) == pytest.approx(20, rel=0.1)
    assert rate_of(found, 1.0, 1.75) == pytest.approx(5, rel=0.1)


def test_a_port_that_was_held_up_does_not_send_all_that_it_missed_at_once():
    """A link's rate is what it can carry: the kernel's shaper, too, makes up for 128 us only."""

    def prepare(net) -> None:
        relay = net.relay.process
        net["h1"].popen(["sh", "-c", f"sleep 0.6; kill -STOP {relay}; sleep 0.1; kill -CONT {relay}"])

    found = run(Link(20, 0, DropTail(packets=400)), 1.2, prepare=prepare)
    times = found.packets["time_s"].to_numpy()
    resumed = int(np.argmax(np.diff(times[times > 0.2]))) + int((times <= 0.2).sum()) + 1
    assert times[resumed] - times[resumed - 1] > 0.08
    # 20 ms of 20 Mb/s are 33 packets; what was missed would be 165 more.
    assert ((times >= times[resumed]) & (times < times[resumed] + 0.02)).sum() < 45


def test_what_interrupts_the_relay_is_told_apart_from_what_it_does_itself_and_spoils_one_gap_a_time():
    """Real-time work on its processor holds it up for 0.3 ms, some 300 times a second."""

    def prepare(net) -> None:
        code = (
            "import os, time\n"
            f"os.sched_setaffinity(0, {{{machine.relay_processor()}}})\n"
            "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\n"
            "while True:\n"
            "    until = time.monotonic() + 3e-4\n"
            "    while time.monotonic() < until: pass\n"
            "    time.sleep(0.003)\n"
        )
        net["h1"].popen([sys.executable, "-c", code])

    if TIER != "privileged":
        pytest.skip("needs root")
    found = run(Link(20, 0, DropTail(packets=50)), 1.2, prepare=prepare)
    value = found.fidelity.set_index("check")["value"]
    every, untouched = (
        value[f"s1 to s2: {check}"] for check in ("share of gaps within 10 %", BETWEEN_INTERRUPTIONS.format(10))
    )
    assert value[INTERRUPTED] > 0.03
    assert every < 0.97 and untouched > every + 0.02
    # What a packet is late, those behind make up together: none comes close behind it.
    sent = found.packets[found.packets["time_s"] > 0.3]
    full = (sent["size_bytes"] == 1514).to_numpy()
    gap_ms = np.diff(sent["time_s"])[full[:-1] & full[1:]] * 1e3
    ideal_ms = 1514 * 8e-3 / 20
    too_long, too_short = (gap_ms > 1.1 * ideal_ms).mean(), (gap_ms < 0.9 * ideal_ms).mean()
    assert too_long > 0.01 and too_short < too_long / 4


def test_only_a_relay_that_is_always_awake_can_tell_what_interrupts_it():
    net, flows = dumbbell(1, Link(200, 0), Link(20, 5)), (Flow("h1", "h2", duration_s=0.3),)
    found = emulate(Experiment(net, flows, 0.3, 1, BUSY), TIER)
    assert not found.fidelity["check"].str.contains("interrupt").any()


def test_a_relay_that_paces_keeps_to_a_processor_and_packets_are_received_on_the_others():
    told = {}

    def prepare(net) -> None:
        def last(*command: str) -> str:
            return net["h2"].run(command).stdout.split()[-1]

        told["relay"] = last("grep", "Cpus_allowed_list", f"/proc/{net.relay.process}/status")
        if STEERING.exists():
            told["receivers"] = int(last("cat", str(STEERING)).replace(",", ""), 16)

    found = run(Link(200, 0, DropTail(packets=50)), 0.6, prepare=prepare)
    kept = machine.relay_processor()
    assert told["relay"] == str(kept)
    if STEERING.exists():
        assert told["receivers"] == sum(1 << each for each in os.sched_getaffinity(0) - {kept})
    assert 140 < rate_of(found, 0.3, 0.6) < 206


@pytest.mark.parametrize("tier", ["rootless", "privileged"])
def test_packets_wait_inside_the_kernel_where_it_loads_programs_and_in_the_relay_elsewhere(tier):
    if not probe_tiers()[tier].available:
        pytest.skip("needs root")
    features = kernel_features(tier).set_index("feature")["works"]
    delayed = run(Link(40, 2, DropTail(packets=50)), 0.6, tier=tier)
    at_once = run(Link(40, 0, EcnThreshold(200, 10)), 0.6, tier=tier, tcp=Tcp("reno", ecn=True))
    for found in (delayed, at_once):
        share = found.fidelity.set_index("check").loc[WAITED, "value"]
        assert share > 0.9 if features["eBPF on leaving (tcx)"] else share == 0


def test_packets_that_wait_inside_the_kernel_leave_when_they_are_due():
    """Half of the gaps are right to 0.4 us; by the relay alone to 0.7 to 1 us, as ways into the kernel differ."""
    if TIER != "privileged" or not kernel_features(TIER).set_index("feature")["works"]["eBPF on leaving (tcx)"]:
        pytest.skip("needs root and Linux 6.6")
    found = run(Link(40, 0, DropTail(packets=50)))
    assert found.fidelity.set_index("check").loc["s1 to s2: deviation of gaps, p50", "value"] < 1.4e-3  # of 303 us


def test_packets_that_a_receiving_processor_refuses_are_missed(monkeypatch):
    """The kernel counts them for the whole machine; here it is made to count three meanwhile."""
    before = recording.refused_packets()
    counts = iter([before, before + 3])
    monkeypatch.setattr(recording, "refused_packets", lambda: next(counts))
    found = run(Link(20, 0, DropTail(packets=30)), 0.3)
    missed = found.fidelity.set_index("check").loc["packets missed"]
    assert missed["value"] == 3 and not missed["holds"] and not found.trusted


@pytest.mark.skipif(not STEERING.exists(), reason="needs a kernel of 6.3 or later")
def test_where_nothing_is_paced_packets_are_received_where_they_are_sent():
    with emulation(dumbbell(1, Link(200, 0), Link(20, 1))) as net:
        assert int(net["h2"].run(["cat", str(STEERING)]).stdout.replace(",", ""), 16) == 0


def test_a_mask_of_many_processors_has_a_word_for_each_32(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(40)))
    assert machine.receive_elsewhere(39) in ({"net/core/rps_default_mask": "7f,ffffffff"}, {})


def test_what_cannot_be_paced_is_refused_before_anything_is_built(monkeypatch):
    net = dumbbell(1, Link(2000, 0), Link(800, 0))
    for options, said in (
        ({"paced": [("s1", "s9")]}, "s9"),
        ({"paced": [PORT, ("s2", "s1")]}, "1600 Mb/s together"),
        ({"paced": [PORT], "delayed_by": "netem"}, "beside netem"),
    ):
        with pytest.raises(NetreproError, match=said):
            emulation(net, **options)
    monkeypatch.setattr(network, "can_pace", lambda: False)
    with pytest.raises(NetreproError, match="take a processor"):
        emulation(net, paced=[PORT])


def test_processors_are_asked_to_stay_awake_within_the_block(monkeypatch, tmp_path):
    asked = tmp_path / "cpu_dma_latency"
    asked.touch()
    monkeypatch.setattr(machine, "_LATENCY_REQUESTS", asked)
    with machine.awake_processors():
        assert asked.read_bytes() == struct.pack("=i", 0)
    monkeypatch.setattr(machine, "_LATENCY_REQUESTS", tmp_path / "none")
    with machine.awake_processors():
        pass  # where it may not ask, it does without


@pytest.mark.skipif(not os.access("/dev/cpu_dma_latency", os.R_OK | os.W_OK), reason="needs root: only it may ask")
def test_the_request_ends_with_the_block():
    def allowed_us() -> int:
        with Path("/dev/cpu_dma_latency").open("rb", buffering=0) as told:
            return struct.unpack("=i", told.read(4))[0]

    before = allowed_us()
    with machine.awake_processors():
        assert allowed_us() == 0
    assert allowed_us() == before != 0
