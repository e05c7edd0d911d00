"""Policers: token buckets before a link's queue, in the simulator and in the virtual kernel (act_police)."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest
from link_under_test import BEFORE, FAST, TIERS, run, sent_over
from link_under_test import TESTED as POLICED
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.plan import make_plan
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    Policer,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.simulation import simulate


@dataclass
class Bucket:
    """The single bucket of RFC 2697, section 3, in exact bytes: it is full at first, and fills between packets."""

    bytes_per_s: Fraction
    size: int
    largest: int | None = None
    tokens: Fraction = field(init=False)
    counted_s: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        self.tokens = Fraction(self.size)

    def passes(self, packet_bytes: int, at_s: Fraction) -> bool:
        self.tokens = min(Fraction(self.size), self.tokens + (at_s - self.counted_s) * self.bytes_per_s)
        self.counted_s = at_s
        if (self.largest is not None and packet_bytes > self.largest) or packet_bytes > self.tokens:
            return False
        self.tokens -= packet_bytes
        return True


@dataclass
class LinuxBucket:
    """The same as Linux counts it: tokens are ns, the burst is whole ticks of 64 ns, and a byte's time is rounded."""

    bytes_per_s: int
    size: int
    largest: int | None = None
    tokens_ns: int = field(init=False)
    counted_ns: int = 0

    def __post_init__(self) -> None:
        self.burst_ns = self.tokens_ns = math.ceil(Fraction(self.size * 10**9, self.bytes_per_s * 64)) * 64
        self.bits = next(bits for bits in range(35) if (10**9 << bits) // self.bytes_per_s >= 2**31 or bits == 34)
        self.per_byte = (10**9 << self.bits) // self.bytes_per_s

    def passes(self, packet_bytes: int, at_s: Fraction) -> bool:
        if self.largest is not None and packet_bytes > self.largest:
            return False
        now_ns = int(at_s * 10**9)
        filled = min(self.burst_ns, self.tokens_ns + min(now_ns - self.counted_ns, self.burst_ns))
        left = filled - (packet_bytes * self.per_byte >> self.bits)
        if left < 0:
            return False
        self.tokens_ns, self.counted_ns = left, now_ns
        return True


def sent_through(policer: Policer, rate_mbps: float, sizes_bytes: Sequence[int], seed: int) -> Experiment:
    return sent_over(replace(FAST, policer=policer), rate_mbps, sizes_bytes, seed, idle_s=0.1)


def came_and_passed(measured: Measurements) -> tuple[list[tuple[Fraction, int]], list[int]]:
    """(When each packet came to the policer, its size), and the sizes of those that passed, in order."""
    tables = measured.packets_by_port
    travels_s = Fraction(1, 10_000)
    came = [
        (Fraction(round(time_s * 10**12), 10**12) + travels_s, size)
        for time_s, size in tables[BEFORE][["time_s", "size_bytes"]].itertuples(index=False)
    ]
    return came, tables[POLICED]["size_bytes"].tolist()


CASES = {
    "twice the rate": (Policer(5, 20_000), 10, (1514, 700, 90)),
    "just below the rate, in bursts": (Policer(5, 3000), 4.8, (1514, 211)),
    "a burst of one packet": (Policer(7, 1514), 10, (1514,)),
    "a rate that is no whole number of ns a byte": (Policer(7.31, 12_345), 15, (1514, 997)),
    "large packets never pass": (Policer(50, 100_000, mtu_bytes=1000), 10, (1514, 1000, 1001)),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", CASES)
def test_a_policer_passes_what_linuxs_token_bucket_passes_packet_by_packet(case, tier):
    policer, rate_mbps, sizes = CASES[case]
    measured = run(sent_through(policer, rate_mbps, sizes, seed=3), tier)
    came, passed = came_and_passed(measured)
    bucket = LinuxBucket(round(policer.rate_mbps * 125_000), policer.burst_bytes, policer.mtu_bytes)
    expected = [size for at_s, size in came if bucket.passes(size, at_s)]
    assert 100 < len(expected) < len(came) - 20
    assert passed == expected
    links = measured.links_by_port
    assert links["dropped_packets"][POLICED] == len(came) - len(passed)
    assert links["dropped_packets"].sum() == links["dropped_packets"][POLICED]
    assert measured.flows["delivered_bytes"].sum() == sum(passed)


@pytest.mark.parametrize("case", CASES)
def test_linuxs_bucket_is_that_of_rfc_2697_but_for_rounding(case):
    """Rounding moves a decision only where tokens and packet differ by less than a packet's rounding: rarely."""
    policer, rate_mbps, sizes = CASES[case]
    came, _ = came_and_passed(simulate(sent_through(policer, rate_mbps, sizes, seed=4)))
    exact = Bucket(Fraction(policer.rate_mbps) * 125_000, policer.burst_bytes, policer.mtu_bytes)
    linux = LinuxBucket(round(policer.rate_mbps * 125_000), policer.burst_bytes, policer.mtu_bytes)
    passed = [[size for at_s, size in came if bucket.passes(size, at_s)] for bucket in (exact, linux)]
    assert sum(passed[0]) == pytest.approx(sum(passed[1]), abs=max(sizes))


@pytest.mark.parametrize("tier", TIERS)
def test_in_no_span_of_time_does_more_pass_than_the_burst_and_the_rate_allow(tier):
    policer = Policer(5, 20_000)
    measured = run(sent_through(policer, 12, (1514,), seed=5), tier)
    table = measured.packets_by_port[POLICED]
    joined_s = table["time_s"].to_numpy() - table["wait_ms"].to_numpy() / 1e3
    before = np.concatenate([[0], np.cumsum(table["size_bytes"])])
    # Bytes up to the end of a span less those before its start, less what the rate brings: at most the burst.
    above = before[1:] - 625_000 * joined_s, before[:-1] - 625_000 * joined_s
    assert (np.maximum.accumulate(above[0][::-1])[::-1] - above[1]).max() <= 20_000 * (1 + 1e-6)
    assert before[-1] == pytest.approx(20_000 + 625_000 * 2.0, rel=0.01)  # and hardly less, as more came


@pytest.mark.parametrize("tier", TIERS)
def test_a_policer_keeps_its_rate_when_the_links_changes(tier):
    asked = sent_through(Policer(5, 3028), 20, (1514,), seed=6)
    slower = LinkChange(1.0, *POLICED, rate_mbps=50.0)
    down, up = (LinkChange(at_s, *POLICED, up=up) for at_s, up in ((1.3, False), (1.6, True)))
    table = run(replace(asked, changes=(slower, down, up)), tier).packets_by_port[POLICED]
    for start_s, end_s in ((0.1, 0.9), (1.0, 1.3), (1.6, 2.0)):
        passed_bytes = table["size_bytes"][table["time_s"].between(start_s, end_s)].sum()
        assert passed_bytes == pytest.approx(625_000 * (end_s - start_s), rel=0.02)


# TCP ------------------------------------------------------------------------------------------------


def behind_a_policer(policer: Policer, control: str, seed: int, *, at_host: bool = False) -> Experiment:
    """One flow over a round trip of 40 ms, policed at the switch, or at its own host's port."""
    access, core = Link(100, 1, DropTail(packets=1000)), Link(100, 18, DropTail(packets=1000))
    policed = replace(access if at_host else core, policer=policer)
    cables = (
        Cable("h1", "s1", policed if at_host else access, access),
        Cable("s1", "s2", core if at_host else policed, core),
        Cable("s2", "h2", access),
    )
    return Experiment(
        Topology(cables), (Flow("h1", "h2", duration_s=15.0, start_s=0.1 + seed / 97),), 15.5, seed, tcp=Tcp(control)
    )


def of_seeds(control: str, tier: str, *, at_host: bool = False) -> dict[str, np.ndarray]:
    """Goodput (Mb/s), packets dropped by the policer, and retransmitted packets of five seeds."""
    port = BEFORE if at_host else ("s1", "s2")
    asked = [behind_a_policer(Policer(10, 60_000), control, seed, at_host=at_host) for seed in range(1, 6)]
    runs = [run(each, tier) for each in asked]
    return {
        "goodput_mbps": np.array([each.flows["goodput_mbps"][0] for each in runs]),
        "dropped": np.array([each.links_by_port["dropped_packets"][port] for each in runs]),
        "retransmitted": np.array([each.flows["retransmitted_packets"][0] for each in runs]),
    }


def allowed(*values: np.ndarray) -> float:
    """The larger of both spreads over seeds, or 3 %."""
    return float(max(*map(np.ptp, values), 0.03 * np.mean(values)))


@needs_virtual
@pytest.mark.parametrize("control", ["cubic", "reno", "bbr"])
def test_tcp_behind_a_policer_fares_in_the_simulator_as_in_the_kernel(control):
    simulated, kernel = (of_seeds(control, tier) for tier in ("simulated", "virtual"))
    for name in simulated:
        ours, theirs = simulated[name], kernel[name]
        assert theirs.min() > 0
        assert abs(ours.mean() - theirs.mean()) <= allowed(ours, theirs), (name, ours, theirs)
    assert max(simulated["goodput_mbps"].max(), kernel["goodput_mbps"].max()) < 10 * 1448 / 1514 * 1.01


@needs_virtual
@pytest.mark.parametrize("control", ["cubic", "reno", "bbr"])
def test_a_host_takes_its_own_policers_drops_for_losses_in_the_network(control):
    """It repairs each by a retransmission, and its goodput is the simulator's. A socket that was told would send the
    packet again without counting it.

    The number of losses is compared behind a switch alone: here CUBIC's first slow start loses fewer in the kernel, 125
    packets for 162.
    """
    simulated, kernel = (of_seeds(control, tier, at_host=True) for tier in ("simulated", "virtual"))
    for each in (simulated, kernel):
        assert each["dropped"].min() > 50
        assert each["retransmitted"] == pytest.approx(each["dropped"], rel=0.02)
    ours, theirs = simulated["goodput_mbps"], kernel["goodput_mbps"]
    assert abs(ours.mean() - theirs.mean()) <= allowed(ours, theirs)


def longest_at(measured: Measurements, rate_mbps: float) -> float:
    """The longest time (s) in which what the host sends is, in every 200 ms, the rate within 6 %."""
    table, window_s = measured.packets_by_port[BEFORE], 0.2
    at_s = np.arange(0, measured.experiment.duration_s + window_s, window_s)
    sent_bytes = np.histogram(table["time_s"], at_s, weights=table["size_bytes"])[0]
    near = np.abs(sent_bytes / (rate_mbps * 125_000 * window_s) - 1) < 0.06
    return window_s * max(len(list(run)) for is_near, run in groupby(near) if is_near)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("burst_bytes", [60_000, 250_000])
def test_bbr_notices_a_policer_and_keeps_to_its_rate_for_48_round_trips(burst_bytes, tier):
    """bbr_lt_bw_max_rtts of tcp_bbr.c; a round trip is 40 ms. CUBIC keeps to no rate."""
    policer = Policer(10, burst_bytes)
    recorded = Measure(packets=(BEFORE,))
    longest_s = {
        control: longest_at(run(replace(behind_a_policer(policer, control, 1), measure=recorded), tier), 10)
        for control in ("bbr", "cubic")
    }
    assert longest_s["bbr"] >= 48 * 0.04 - 0.2  # the windows of 200 ms at both ends are of other rates, too
    assert longest_s["cubic"] < 1.0


# Descriptions ---------------------------------------------------------------------------------------


def test_a_policer_that_cannot_be_is_refused():
    for broken, words in (
        (lambda: Policer(0, 20_000), "rate_mbps = 0"),
        (lambda: Policer(5, 1000), "burst_bytes = 1000"),
        (lambda: Policer(0.001, 100_000), r"which is 800 s\s+give a burst of 270 s at most"),
        (lambda: Link(10, 1, policer=5), r"policer = 5\s+give Policer"),
    ):
        with pytest.raises(NetreproError, match=words):
            broken()


def test_a_policer_in_real_time_is_refused_before_anything_is_built():
    net = dumbbell(1, FAST, Link(10, 1, policer=Policer(5, 20_000)))
    with pytest.raises(NetreproError, match=r"link from s1 to s2: a policer in real time\s+use tier 'virtual'"):
        make_plan(net)


def test_a_policer_is_in_the_experiments_json_and_on_its_page():
    net = dumbbell(1, FAST, Link(10, 1, policer=Policer(5, 20_000)))
    asked = Experiment(net, [Flow("h1", "h2", 1000)], 1.0)
    assert Experiment.from_json(asked.to_json()) == asked
    assert "Policer(rate_mbps=5, burst_bytes=20000)" in asked._repr_html_()
    assert "Policer" not in replace(asked, topology=dumbbell(1, FAST, FAST))._repr_html_()


TWENTY_AT_ONCE = """
import socket
sending = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(20):
    sending.sendto(bytes(1000), ("10.0.0.2", 5000))
"""


@needs_virtual
@pytest.mark.skipif(not shutil.which("tc"), reason="needs tc")
def test_tc_shows_the_kernels_policer_and_a_recording_counts_what_it_drops():
    """Twenty datagrams of 1,042 bytes at once: two fit into the burst."""
    link = replace(FAST, policer=Policer(0.1, 3028))
    net = Topology((Cable("h1", "s1", FAST), Cable("s1", "h2", link, FAST)))
    with Emulation(net, tier="virtual") as made:
        shown = made["s1"].run(["tc", "filter", "show", "dev", "s1-eth2", "egress"]).stdout
        for _ in range(2):  # the second recording counts only its own
            made.sleep(1.0)
            with made.record(queues=[POLICED]) as seen:
                made["h1"].run([sys.executable, "-c", TWENTY_AT_ONCE])
                made.sleep(0.1)
            links = seen.links().set_index(["source", "destination"])
            assert links["dropped_packets"][POLICED] == links["dropped_packets"].sum() == 18
            assert links["sent_packets"][POLICED] == 2
    assert "police" in shown and "rate 100Kbit burst 3028b" in shown
