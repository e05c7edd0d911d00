"""RED: the gateway's average computed again, its closed forms, the equivalence with drop tail, and the controls."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks import Link, star
from netrepro.papers import red as paper
from netrepro.papers.red import experiments, figures
from netrepro.study import Reading, points, read_once, run_experiment, run_once

SECONDS = 5.0
RATE = experiments.Setting().rate_mbps
OF_KERNEL = paper.STUDY.scale("paper", "virtual")


def run_of(case: str, seconds: float = SECONDS, seed: int = 3, **changed):
    return run_once(paper.STUDY, case, seconds, seed=seed, **changed)


def packets_at(leaves_ms, waits_ms):
    """Make the record of a gateway, with the columns that `averages` reads."""
    table = pd.DataFrame({"time_s": np.array(leaves_ms) / 1e3, "wait_ms": waits_ms, "size_bytes": 1000})
    return SimpleNamespace(packets=table)


def burst(packets: int, weight: float) -> pd.DataFrame:
    """The average of a burst that comes at once."""
    one_ms = experiments.Setting().packet_ms
    leaves = one_ms * np.arange(1, packets + 1)
    waits = np.maximum(leaves - one_ms - 1e-9 * np.arange(packets), 0.0)
    return experiments.averages(packets_at(leaves, waits), experiments.Setting(weight=weight))


@pytest.mark.parametrize("weight", [0.002, 0.1])
def test_equation_3_of_a_burst_into_an_empty_queue(weight):
    """After arrivals that found 1, ..., L waiting the average is L + 1 + ((1 - w)^(L + 1) - 1)/w."""
    table = burst(40, weight)
    waiting = table.queue_packets.to_numpy()
    assert list(waiting[1:]) == list(range(39))  # the one that is being sent does not wait
    last = 38
    assert table.average_packets.iloc[-1] == pytest.approx(last + 1 + ((1 - weight) ** (last + 1) - 1) / weight)


@given(some.floats(0.001, 1.0), some.integers(2, 60))
def test_the_average_lies_between_none_and_the_greatest_queue_and_weight_1_is_the_queue(weight, packets):
    table = burst(packets, weight)
    assert ((table.average_packets >= 0) & (table.average_packets <= table.queue_packets.max() + 1e-9)).all()
    alike = burst(packets, 1.0)
    assert np.allclose(alike.average_packets, alike.queue_packets)


def test_while_the_link_is_idle_the_average_falls_as_if_packets_found_no_queue():
    one_ms = experiments.Setting().packet_ms
    leaves = [*(one_ms * np.arange(1, 21)), 20 * one_ms + 10.5 * one_ms + one_ms]
    waits = [*np.maximum(one_ms * np.arange(20) - 1e-6, 0), 0.0]
    average = experiments.averages(
        packets_at(leaves, waits), experiments.Setting(weight=0.1)
    ).average_packets.to_numpy()
    assert average[-2] > 1
    assert average[-1] == pytest.approx(average[-2] * 0.9**10)


def test_the_queue_computed_again_is_the_sampled_one():
    """Without drops every arrival is recorded: the queue's time average must be that of the samples."""
    run = run_of("fig3, no drops", 1.0)
    table = experiments.averages(run, paper.STUDY.case("fig3, no drops"))
    samples = run.queues[run.queues.time_s < table.time_s.iloc[-1]]  # who came later had not left at the end
    at = np.searchsorted(table.time_s, samples.time_s) - 1
    later, sampled = table.queue_packets.to_numpy()[at[1:]], samples.queue_packets.to_numpy()[1:]
    assert sampled.max() > 150
    assert abs(later - sampled).max() <= 6  # since the last arrival some have left
    assert abs(later.mean() - sampled.mean()) < 1


def test_nothing_is_dropped_while_the_average_stays_below_the_minimum_threshold():
    setting = replace(paper.STUDY.case("fig3"), min_threshold_packets=400.0, buffer_packets=1000)
    reading = read_once(paper.STUDY, setting)
    assert 1 < reading["greatest_average"] < 400
    assert reading["dropped_share"] == 0


@pytest.mark.parametrize("buffer", [15, 60, 140])
def test_with_weight_1_and_thresholds_next_to_each_other_red_is_drop_tail(buffer):
    same, tail = (
        next(points({"": experiments.CASES[name] | {"buffer_packets": buffer}}, experiments.Setting())).setting
        for name in ("red as drop tail", "drop tail")
    )
    ours, theirs = (read_once(paper.STUDY, setting, SECONDS, seed=5) for setting in (same, tail))
    assert ours["utilisation"] == theirs["utilisation"] > 0.3
    assert ours["mean_queue_packets"] == theirs["mean_queue_packets"]


def test_without_loss_the_bursty_node_has_its_window_over_its_round_trip():
    setting = replace(paper.STUDY.case("bursty, drop tail"), buffer_packets=200)
    run = read_once(paper.STUDY, setting, SECONDS)
    queue_ms = run["delay_ms"]
    ours, others = 8 / (36 + queue_ms), 4 * 12 / (6 + queue_ms)
    assert run["dropped_share"] == 0
    assert run["burst_share"] == pytest.approx(ours / (ours + others), rel=0.1)


def windows(limits: dict[int, list[float]]) -> SimpleNamespace:
    """Slow-start thresholds of flows, sampled every 10 ms."""
    rows = [(flow, 0.01 * place, limit) for flow, each in limits.items() for place, limit in enumerate(each)]
    table = pd.DataFrame(rows, columns=["flow", "time_s", "slow_start_threshold_bytes"])
    return SimpleNamespace(windows=table, flows=pd.DataFrame(index=range(len(limits))))


def test_flows_that_lose_in_one_round_trip_are_counted_together_and_each_once():
    both = windows({0: [9, 9, 4, 4, 2, 2, 2, 2], 1: [9, 9, 9, 5, 5, 5, 5, 5]})
    assert experiments.losing_share(both, 0.035) == 1.0  # flow 0 twice, flow 1 once, within one round trip
    assert experiments.losing_share(both, 0.005) == 0.5  # three, one after the other
    assert np.isnan(experiments.losing_share(windows({0: [9, 9], 1: [9, 12]}), 0.05))


@pytest.mark.parametrize(("low", "weight"), experiments.CLASS_WEIGHTS.items())
def test_the_weight_that_tc_takes_is_the_greatest_that_lets_the_burst_pass(low, weight):
    burst = 5 * low // 3

    def average(of: float) -> float:
        """Equation 3: after a burst into an empty queue."""
        return burst + 1 + ((1 - of) ** (burst + 1) - 1) / of

    assert average(weight) <= low + 1
    assert average(2 * weight) > low


def test_what_ran_of_the_class_projects_drop_tail_had_no_bottleneck_and_so_no_buffer_to_vary():
    small, large = (
        experiments.read(
            run_of("class, drop tail as it ran", 2.0, buffer_packets=packets), experiments.Setting(rate_mbps=1000.0)
        )
        for packets in (15, 140)
    )
    assert small["throughput_mbps"] == pytest.approx(large["throughput_mbps"], rel=0.02)
    assert small["throughput_mbps"] > RATE and small["dropped_share"] == 0


def test_the_class_counts_thousands_of_bytes():
    setting = paper.STUDY.case("class")
    assert setting.limits_packets == (66, pytest.approx(3000 / 1514), pytest.approx(9000 / 1514))
    assert replace(setting, min_threshold_packets=50.0).limits_packets[2] == 66


def test_the_claims_numbers_are_those_of_the_re_run():
    table = figures.replica()
    tail, red = (table[table.gateway == name] for name in ("drop tail", "red"))
    assert tuple(tail.packets) == experiments.BUFFERS and tuple(red.packets) == experiments.THRESHOLDS
    claims = load_claims("red")
    assert claims.claim("drop-tail-needs-queue").published == list(
        zip(map(float, tail.packets), tail.utilisation, strict=True)
    )
    assert figures.mean_from_5(red.set_index("packets").utilisation) == pytest.approx(
        claims.claim("red-flat").published, rel=0.01
    )


def test_delays_are_compared_where_both_carry_the_band_or_next_to_it():
    table = pd.DataFrame({"carried_share": [0.6, 0.75, 0.76, 0.9], "delay_ms": [1.0, 2.0, 4.0, 50.0]})
    assert figures.delay_in_band(table) == 3.0
    assert figures.delay_in_band(table.iloc[[0, 3]]) == 50.0  # .9 is nearer to .755 than .6 by .01
    assert figures.delay_ratio(table.iloc[:2], table) == pytest.approx(2 / 3)


def test_the_claims_ratio_of_delays_is_the_re_runs():
    table = figures.replica().rename(columns={"utilisation": "carried_share"})
    tail, red = (table[table.gateway == name] for name in ("drop tail", "red"))
    published = load_claims("red").claim("delay-at-equal-utilisation").published
    assert figures.delay_ratio(red, tail) == pytest.approx(published, rel=0.02)


def test_the_gateway_of_2009_is_as_ns_2_sets_it():
    """Its thresholds and its limit count 500 bytes, and its weight follows from the link's rate."""
    setting = replace(paper.STUDY.case("red, ns-2 of 2009"), min_threshold_packets=15.0)
    gateway = experiments.experiment(setting, SECONDS, 1).topology.link(*experiments.port_of(setting)).queue
    assert gateway.weight == pytest.approx(0.000089, rel=0.01) and gateway.mean_packet_bytes == 500
    assert (gateway.packets, gateway.min_threshold_packets, gateway.max_threshold_packets) == (67, 15, 45)
    assert gateway.by_bytes and gateway.gentle and gateway.wait and not gateway.adaptive
    assert gateway.max_probability == 0.02


def test_what_is_carried_counts_new_data_without_headers_and_a_delay_is_a_packets():
    """Without a loss every packet is new: the link is busy with 1040 bytes for each 1000 that count, and Little's law
    turns the mean queue over time into the packets' mean wait."""
    setting = replace(paper.STUDY.case("drop tail"), buffer_packets=1000)
    reading = experiments.read(run_once(paper.STUDY, "drop tail", SECONDS, seed=3, buffer_packets=1000), setting)
    assert reading["dropped_share"] == 0
    assert reading["carried_share"] == pytest.approx(reading["utilisation"] * 1000 / 1040, rel=0.02)
    arrivals_per_ms = reading["utilisation"] / setting.packet_ms
    assert reading["delay_ms"] == pytest.approx(reading["mean_queue_packets"] / arrivals_per_ms, rel=0.05)


# Linux's own red, in virtual time.


def kernel_setting(changes: dict[str, object]):
    """The setting of a case that the kernel can run, too."""
    return next(points({"": changes}, experiments.Setting(), OF_KERNEL)).setting


def read_on(tier: str, case: str, seed: int = 1, **changed) -> Reading:
    """Run a case that the kernel can run, too, and return its reading."""
    setting = replace(kernel_setting(experiments.CASES[case]), **changed)
    part = paper.STUDY.part_of(setting)
    return part.read(run_experiment(part.experiment(setting, SECONDS, seed), tier), setting)


@needs_virtual
def test_on_the_kernel_a_seed_gives_the_same_values_again_and_another_gives_others():
    runs = [read_on("virtual", "red", seed) for seed in (3, 3, 4)]
    names = ("utilisation", "mean_queue_packets", "dropped_share")
    first, again, other = ([run[name] for name in names] for run in runs)
    assert first == again != other


@needs_virtual
def test_on_the_kernel_the_average_stays_below_the_threshold_only_where_packets_are_dropped():
    works, broken = read_on("virtual", "fig3"), read_on("virtual", "fig3, no drops")
    assert works["share_within"] > 0.9 > 0.3 > broken["share_within"]
    assert works["dropped_share"] > 20 * broken["dropped_share"]


@needs_virtual
def test_on_the_kernel_bursts_are_far_above_the_average_unless_the_average_is_the_queue():
    works, broken = read_on("virtual", "fig3"), read_on("virtual", "fig3", weight=1.0)
    assert works["greatest_queue"] > works["far_above_average"]
    assert broken["greatest_queue"] < broken["far_above_average"]


@needs_virtual
def test_on_the_kernel_red_of_weight_1_with_thresholds_next_to_each_other_is_drop_tail():
    ours, theirs = (
        run_experiment(experiments.experiment(kernel_setting(changes), SECONDS, 5), "virtual")
        for changes in (experiments.IS_DROP_TAIL | {"buffer_packets": 60}, {"buffer_packets": 60})
    )
    assert ours.queues.queue_packets.max() >= 59
    pd.testing.assert_frame_equal(ours.queues, theirs.queues)
    pd.testing.assert_frame_equal(ours.links, theirs.links)


@needs_virtual
@pytest.mark.parametrize("case", ["ten, drop tail", "ten, red"])
def test_the_kernel_drops_as_much_as_the_simulator_where_no_setting_differs(case):
    """Ten flows of one sender at one gateway, three seeds: shares of dropped packets within a third of each other,
    what the link carries within a tenth."""
    kernel, ours = (
        pd.DataFrame([read_on(tier, case, seed).numbers for seed in (1, 2, 3)])[["dropped_share", "utilisation"]].mean()
        for tier in ("virtual", "simulated")
    )
    assert 0.005 < ours.dropped_share < 0.05
    assert kernel.dropped_share == pytest.approx(ours.dropped_share, rel=1 / 3)
    assert kernel.utilisation == pytest.approx(ours.utilisation, rel=0.1)


def replay(tier: str, setting: experiments.Setting) -> pd.DataFrame:
    """Every packet of the first second that came to the gateway: dropped or not, the queue that it found, and two
    averages. As the paper's, while the queue is empty every arrival lets it fall by the time since the queue became
    empty; as Linux's, the first arrival does, and the next count as arrivals at a queue of none. Without jitter the
    time of an arrival says which packet passed."""
    asked, port = experiments.experiment(setting, 1.0, 1), experiments.port_of(setting)
    flows = range(1, 1 + len(asked.traffic))
    measure = replace(asked.measure, packets=(port, *((f"h{each}", "s1") for each in flows)))
    packets = run_experiment(replace(asked, measure=measure), tier).packets
    packets = packets[packets.size_bytes > setting.packet_bytes / 2]
    out, came = packets[packets.source == "s1"], packets[packets.source != "s1"]
    begins_s = np.sort(out.time_s - out.size_bytes * 8e-6 / setting.rate_mbps)
    let_in_s = np.sort(out.time_s - out.wait_ms * 1e-3 - out.size_bytes * 8e-6 / setting.rate_mbps)
    arrives_s = np.sort(came.time_s) + 1e-3  # the senders' delay
    passed = np.abs(arrives_s[:, None] - let_in_s).min(axis=1) < 1e-6
    assert passed.sum() == len(out)
    until = int(np.flatnonzero(passed)[-1]) + 1  # of those after the last that left, nothing is known
    arrives_s, passed = arrives_s[:until], passed[:until]
    paper_s, linux_s, emptied, rows = 0.0, 0.0, -1.0, []
    for time_s, ok in zip(arrives_s, passed, strict=True):
        gone = int(np.searchsorted(begins_s, time_s, side="right"))
        queue = max(int(np.searchsorted(let_in_s, time_s - 1e-6)) - gone, 0)
        since = begins_s[gone - 1] if gone else 0.0
        fall = (1 - setting.weight) ** ((time_s - since) / (setting.packet_ms * 1e-3))
        paper_s = paper_s + setting.weight * (queue - paper_s) if queue else paper_s * fall
        linux_s = linux_s * fall if not queue and since != emptied else linux_s + setting.weight * (queue - linux_s)
        emptied = emptied if queue else since
        rows.append((not ok, queue, paper_s, linux_s))
    return pd.DataFrame(rows, columns=["dropped", "queue", "paper", "linux"])


@needs_virtual
def test_linux_goes_on_to_drop_at_an_empty_queue_as_a_dropped_packet_ends_its_idle_time(monkeypatch):
    """The paper's RED lets packets in again once its queue has been empty for a while. Linux's drops on, and its
    average, which each arrival then lowers by a 512th only, is where it says."""
    monkeypatch.setattr(experiments, "OVERHEAD_MS", 0.0)
    setting = replace(kernel_setting(experiments.CASES["class"]), weight=2.0**-9)
    _, low, high = setting.limits_packets
    kernel, ours = replay("virtual", setting), replay("simulated", replace(setting, variant=experiments.FLOYD))
    on_kernel, in_simulator = (table[table.dropped & (table.queue == 0)] for table in (kernel, ours))
    assert len(on_kernel) > 100 and (on_kernel.linux > 0.95 * high).mean() > 0.95
    assert (on_kernel.paper < low).mean() > 0.8
    assert len(in_simulator) < 0.2 * len(on_kernel) and (in_simulator.paper > low).all()


@needs_virtual
@pytest.mark.skipif(not shutil.which("tc"), reason="needs iproute2")
def test_what_the_kernel_answers_to_the_class_projects_commands():
    with VirtualNetwork(star(2, Link(100.0, 1.0)), seed=1) as net:

        def say(host: str, command: str) -> tuple[str, str]:
            done = net[host].run(command.replace("port", f"{host}-eth0").split(), check=False)
            return done.stdout, "" if not done.returncode else (done.stderr or done.stdout).splitlines()[0]

        for host, (_, commands) in zip(("h1", "h2"), paper.class_commands().groupby("gateway"), strict=True):
            say(host, "tc qdisc del dev port root")
            for row in commands.itertuples():
                assert say(host, row.command)[1] == row.answer
        assert "red" in say("h1", "tc qdisc show dev port")[0]
        for low in experiments.CLASS_WEIGHTS:
            say("h2", "tc qdisc del dev port root")
            say("h2", f"tc qdisc add dev port root red limit 100000 min {low}000 max {3 * low}000 avpkt 1000 "
                f"burst {5 * low // 3} bandwidth 45mbit probability 0.02")  # fmt: skip
            logarithm = int(say("h2", "tc -d qdisc show dev port")[0].split("ewma ")[1].split()[0])
            assert experiments.CLASS_WEIGHTS[low] == 2.0**-logarithm
