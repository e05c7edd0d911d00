"""Queues that are open in slots: in the simulator, and netem's in the virtual kernel."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from link_under_test import BEFORE, FAST, TIERS, run, sent_over
from link_under_test import TESTED as SLOTTED
from scipy import stats
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.plan import make_plan
from netrepro.emulation.virtual.plan import make_virtual_plan
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    Cake,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measurements,
    Slotted,
    Tcp,
    Topology,
    dumbbell,
)
from netrepro.networks.queues import Queue
from netrepro.simulation import simulate

RATE_MBPS = 100
WAKES_LATE_S = {"simulated": 0.0, "virtual": 2e-9}  # netem's timer, which counts in the ticks of its clock


def sent_through(
    queue: Queue,
    rate_mbps: float,
    sizes_bytes: Sequence[int],
    seed: int,
    seconds: float = 2.0,
    spacing: str = "poisson",
) -> Experiment:
    """Datagrams at random times, or evenly spaced, over a link of 100 Mb/s with the queue."""
    link = Link(RATE_MBPS, 0.1, queue)
    return sent_over(
        link, rate_mbps, sizes_bytes, seed, seconds=seconds, idle_s=0.5, spacing=spacing, queues=(SLOTTED,)
    )


def crossing(measured: Measurements) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Packets as they came to the queue, and as the link began to send them: at_s, size_bytes, wait_ms."""
    tables = measured.packets_by_port
    came = tables[BEFORE].assign(at_s=tables[BEFORE]["time_s"] + 1e-4)
    sent = tables[SLOTTED]
    sent = sent.assign(at_s=sent["time_s"] - sent["size_bytes"] * 8e-6 / RATE_MBPS)
    return came.reset_index(drop=True), sent.reset_index(drop=True)


class Slots:
    """netem's rule (netem_dequeue and get_slot_next of sch_netem.c) in front of a link, with gaps of one length."""

    def __init__(self, queue: Slotted, wakes_late_s: float):
        self.wakes_late_s = wakes_late_s
        assert queue.min_gap_ms == queue.max_gap_ms
        self.queue, self.gap_s = queue, queue.min_gap_ms / 1e3
        self.waiting: deque[tuple[float, int]] = deque()
        self.slot_s, self.free_s = -1.0, 0.0
        self.sent: list[tuple[float, int]] = []
        self.dropped = 0
        self.allow()

    def begin_gap(self, now_s: float) -> None:
        self.slot_s = now_s + self.gap_s
        self.allow()

    def allow(self) -> None:
        self.packets = self.queue.slot_packets or 2**31 - 1
        self.bytes = self.queue.slot_bytes or 2**31 - 1

    def ask(self, now_s: float) -> None:
        if not self.waiting:
            return
        came_s, size = self.waiting[0]
        if self.slot_s < came_s:
            self.begin_gap(now_s)
        if self.slot_s > now_s:
            return
        self.waiting.popleft()
        self.sent.append((now_s, size))
        self.free_s = now_s + size * 8e-6 / RATE_MBPS
        self.packets, self.bytes = self.packets - 1, self.bytes - size
        if self.packets <= 0 or self.bytes <= 0:
            self.begin_gap(now_s)

    def until(self, end_s: float) -> None:
        """Let the link ask when it is free and a slot is open, or a slot has to be drawn, up to that time."""
        while self.waiting:
            drawn = self.slot_s >= self.waiting[0][0]
            due_s = max(self.free_s, self.waiting[0][0])
            if drawn and self.slot_s > due_s:
                due_s = self.slot_s + self.wakes_late_s
            if due_s >= end_s:
                return
            self.ask(due_s)

    def feed(self, came: pd.DataFrame) -> None:
        for at_s, size in came[["at_s", "size_bytes"]].itertuples(index=False):
            self.until(at_s)
            if len(self.waiting) >= self.queue.packets:
                self.dropped += 1
            else:
                self.waiting.append((at_s, size))
        self.until(float("inf"))


CASES = {
    "by packets": (Slotted(500, 4, 4, slot_packets=8), 13, (1514, 700)),
    "by bytes": (Slotted(500, 4, 4, slot_bytes=9000), 16, (1514, 997, 211)),
    "all that wait": (Slotted(500, 3, 3), 40, (1514, 90)),
    "more than it can carry": (Slotted(30, 5, 5, slot_packets=5), 20, (1514, 211)),
    "slots that take longer than a gap": (Slotted(500, 0.05, 0.05, slot_packets=3), 90, (1514, 700)),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", CASES)
def test_every_packet_leaves_when_netems_rule_says(case, tier):
    queue, rate_mbps, sizes = CASES[case]
    measured = run(sent_through(queue, rate_mbps, sizes, seed=3), tier)
    came, sent = crossing(measured)
    twin = Slots(queue, WAKES_LATE_S[tier])
    twin.feed(came)
    assert len(sent) == len(twin.sent) > 500
    assert sent["size_bytes"].tolist() == [size for _, size in twin.sent]
    assert sent["at_s"].to_numpy() == pytest.approx([at_s for at_s, _ in twin.sent], abs=2e-8, rel=0)
    assert measured.links_by_port["dropped_packets"][SLOTTED] == twin.dropped == len(came) - len(sent)
    assert (twin.dropped > 0) == (case == "more than it can carry")


def bursts(sent: pd.DataFrame) -> list[pd.DataFrame]:
    """The packets, in the bursts that leave without a pause between them."""
    pause = sent["at_s"].diff() > sent["size_bytes"].shift() * 8e-6 / RATE_MBPS + 1e-6
    return [burst for _, burst in sent.groupby(pause.cumsum())]


@pytest.mark.parametrize("tier", TIERS)
def test_gaps_between_full_slots_are_even_from_the_least_to_the_most(tier):
    measured = run(sent_through(Slotted(1000, 2, 6, slot_packets=4), 14, (1514,), seed=5, seconds=4.0), tier)
    of_slots = [burst for burst in bursts(crossing(measured)[1])[20:-5]]
    assert {len(burst) for burst in of_slots} == {4}
    gaps_ms = np.array(
        [(after["at_s"].iloc[0] - before["at_s"].iloc[-1]) * 1e3 for before, after in pairwise(of_slots)]
    )
    assert len(gaps_ms) > 700
    assert gaps_ms.min() >= 2 - 1e-4 and gaps_ms.max() <= 6 + 1e-4
    assert stats.kstest(gaps_ms, "uniform", args=(2, 4)).pvalue > 0.001


@pytest.mark.parametrize("tier", TIERS)
def test_a_packet_that_comes_alone_waits_for_a_gap(tier):
    asked = sent_through(Slotted(10, 1, 5), 100 * 1514 * 8e-6, (1514,), seed=6, seconds=5.0, spacing="constant")
    waits_ms = crossing(run(asked, tier))[1]["wait_ms"].to_numpy()
    assert len(waits_ms) >= 499
    assert waits_ms.min() >= 1 - 1e-4 and waits_ms.max() <= 5 + 1e-4
    assert stats.kstest(waits_ms, "uniform", args=(1, 4)).pvalue > 0.001


@needs_virtual
@pytest.mark.parametrize(
    ("queue", "rate_mbps"), [(Slotted(1000, 1, 9, slot_packets=20), 15), (Slotted(1000, 0, 4, slot_bytes=20_000), 25)]
)
def test_datagrams_wait_in_the_simulator_as_in_the_kernel_and_keep_their_order(queue, rate_mbps):
    """By waits and by sizes of bursts, of eight seeds. Waits of one burst belong together, so one of fifty is taken."""
    waits_ms: dict[str, list[float]] = {"simulated": [], "virtual": []}
    sizes: dict[str, list[int]] = {"simulated": [], "virtual": []}
    for tier in waits_ms:
        for seed in range(8):
            measured = run(sent_through(queue, rate_mbps, (1514, 700), seed), tier)
            came, sent = crossing(measured)
            assert came["size_bytes"].tolist() == sent["size_bytes"].tolist()
            assert sent["wait_ms"].to_numpy() == pytest.approx((sent["at_s"] - came["at_s"]) * 1e3, abs=1e-3)
            waits_ms[tier] += sent["wait_ms"].tolist()[::51]
            sizes[tier] += [len(burst) for burst in bursts(sent)][::3]
    for both in (waits_ms, sizes):
        assert min(map(len, both.values())) > 300
        assert stats.ks_2samp(both["simulated"], both["virtual"]).pvalue > 0.001


# TCP ------------------------------------------------------------------------------------------------


@needs_virtual
@pytest.mark.parametrize("control", ["cubic", "bbr"])
@pytest.mark.parametrize("packets", [200, 60])
def test_tcp_over_slots_fares_in_the_simulator_as_in_the_kernel(packets, control):
    """Goodput of five seeds over 20 packets in some 12 ms, or 20 Mb/s: means differ by less than a spread, or 3 %."""
    queue = Slotted(packets, 4, 20, slot_packets=20)
    access, back = Link(1000, 1, DropTail(packets=1000)), Link(200, 20, DropTail(packets=1000))
    middle = Cable("s1", "s2", Link(200, 20, queue), back)
    net = Topology((Cable("h1", "s1", access), middle, Cable("s2", "h2", access)))
    goodput_mbps = {
        tier: np.array(
            [
                run(Experiment(net, [Flow("h1", "h2", duration_s=10.0)], 10.5, seed, tcp=Tcp(control)), tier).flows[
                    "goodput_mbps"
                ][0]
                for seed in range(1, 6)
            ]
        )
        for tier in ("simulated", "virtual")
    }
    simulated, kernel = goodput_mbps["simulated"], goodput_mbps["virtual"]
    allowed = max(np.ptp(simulated), np.ptp(kernel), 0.03 * kernel.mean())
    assert abs(simulated.mean() - kernel.mean()) <= allowed, goodput_mbps
    assert 5 < kernel.mean() < 20.5


@pytest.mark.parametrize("tier", TIERS)
def test_a_link_that_was_down_opens_its_slots_again(tier):
    queue = Slotted(500, 4, 4, slot_packets=8)
    asked = sent_through(queue, 20, (1514,), seed=7)
    changes = [LinkChange(at_s, *SLOTTED, up=up) for at_s, up in ((0.9, False), (1.1, True))]
    measured = run(replace(asked, changes=changes), tier)
    came, sent = crossing(measured)
    links = measured.links_by_port.loc[SLOTTED]
    assert links["dropped_packets"] + links["sent_packets"] == len(came)
    assert not sent["at_s"].between(0.9 + 1e-3, 1.1).any()
    later = sent[sent["at_s"] > 1.15]
    assert len(later) == pytest.approx((came["at_s"] > 1.15).sum(), abs=20)
    assert max(map(len, bursts(later))) <= 8


def test_a_host_fills_the_slots_of_its_own_port_in_the_simulator_and_is_refused_them_on_kernels():
    """Twenty packets a slot, and a slot every 10 ms and 19 packets' time: 19.7 Mb/s with headers."""
    port = Link(RATE_MBPS, 1, Slotted(200, 10, 10, slot_packets=20))
    net = Topology((Cable("h1", "s1", port, FAST), Cable("s1", "h2", FAST)))
    asked = Experiment(net, [Flow("h1", "h2", duration_s=3.0)], 3.5)
    carried_mbps = 20 * 1448 * 8e-6 / (10e-3 + 19 * 1514 * 8e-6 / RATE_MBPS)
    assert simulate(asked).flows["goodput_mbps"][0] == pytest.approx(carried_mbps, rel=0.03)
    with pytest.raises(NetreproError, match=r"h1 to s1: slots at a host's own port.*\s+give them to a switch's link"):
        make_virtual_plan(net, 1, None)


# Descriptions ---------------------------------------------------------------------------------------


def test_slots_that_cannot_be_are_refused():
    for broken, words in (
        (lambda: Slotted(100, 5, 2), r"min_gap_ms = 5, and max_gap_ms = 2\s+swap them"),
        (lambda: Slotted(100, 0, 0), "max_gap_ms = 0"),
        (lambda: Slotted(100, 1, 3000), "max_gap_ms = 3000"),
        (lambda: Slotted(100, 1, 2, slot_packets=0), "slot_packets = 0"),
        (lambda: make_plan(dumbbell(1, FAST, Link(10, 1, Slotted(100, 1, 2)))), "of kind Slotted; in real time"),
    ):
        with pytest.raises(NetreproError, match=words):
            broken()


def test_slots_are_in_the_experiments_json_and_on_its_page():
    asked = sent_through(Slotted(100, 1, 2, slot_packets=8), 1, (1514,), seed=1)
    assert Experiment.from_json(asked.to_json()) == asked
    assert "Slotted(packets=100, min_gap_ms=1, max_gap_ms=2, slot_packets=8)" in asked._repr_html_()


@needs_virtual
@pytest.mark.parametrize("queue", [Slotted(500, 4, 4, slot_packets=8), Cake(shaped_mbps=20)], ids=["slots", "shaper"])
def test_a_measured_port_that_holds_packets_back_is_not_blamed_for_its_gaps(queue):
    assert run(sent_through(queue, 30, (1514,), seed=1), "virtual").trusted


@needs_virtual
@pytest.mark.skipif(not shutil.which("tc"), reason="needs tc")
def test_tc_shows_the_kernels_slots():
    net = Topology((Cable("h1", "s1", FAST), Cable("s1", "h2", Link(10, 1, Slotted(77, 1, 2, 8, 9000)), FAST)))
    with Emulation(net, tier="virtual") as made:
        shown = made["s1"].run(["tc", "qdisc", "show", "dev", "s1-eth2"]).stdout
    assert "qdisc netem" in shown and "limit 77 slot 1ms 2ms packets 8 bytes 9000" in shown
