"""HULL: what the phantom queue and the pacer do, and what must not hold without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.networks.links import FULL_PACKET_BYTES, NicPacer
from netrepro.papers import hull as paper
from netrepro.simulation import simulate
from netrepro.study import Scale, measure

SECONDS = 0.4
READ = ("dynamic pq950", "dynamic 30k")


@pytest.fixture(scope="module")
def runs():
    """Without the cases with requests that no test looks at, which take longest."""
    unread = [name for name in paper.CASES if name.startswith(("replica", "dynamic")) and name not in READ]
    smaller = replace(paper.STUDY, scales={"quick": Scale(0.6, without=unread, changes={"large_requests": 12})})
    return measure(smaller, repetitions=2, seed=7)


@pytest.fixture(scope="module")
def table(runs):
    return runs.summary().droplevel("load").xs(2, level="flows")


def test_the_phantom_queue_keeps_goodput_below_its_own_rate_and_near_it(table):
    most_mbps = 0.95 * 1000 * 1448 / FULL_PACKET_BYTES
    assert 0.85 * most_mbps <= table.loc["pq950"].goodput_mbps <= most_mbps


def test_at_gamma_1_queue_and_throughput_come_back(table):
    ours, broken = table.loc["pq950"], table.loc["pq950, gamma 1"]
    assert broken.mean_us > 10 * ours.mean_us
    assert broken.goodput_mbps > 1.05 * ours.goodput_mbps


def test_without_the_pacer_bursts_wait_longer(table):
    assert table.loc["pq950, no pacer"].p99_us > 1.5 * table.loc["pq950"].p99_us


def test_a_packet_that_counts_itself_is_always_marked_so_gamma_is_of_no_matter(table):
    ours = table.loc["pq950, counts itself"].goodput_mbps
    assert ours == pytest.approx(table.loc["counts itself, gamma 1"].goodput_mbps)
    assert ours < 0.5 * table.loc["pq950"].goodput_mbps


def all_marked(
    flows: int, round_trip_us: float, window_segments: float = 2.0, rate_mbps: float = 1000.0
) -> tuple[float, float]:
    """(payload in Mb/s, wait at the switch in microseconds) of DCTCP flows whose every packet is marked.

    Each keeps `window_segments`, of which there are two at least; what does not fit into the round trip without a
    queue (microseconds, with its transmission times) waits at the switch.
    """
    packets = flows * window_segments
    packet_us = FULL_PACKET_BYTES * 8 / rate_mbps
    goodput_mbps = packets * 1448 * 8 / max(round_trip_us, packets * packet_us)
    return goodput_mbps, max(packets * packet_us - round_trip_us, 0.0)


@pytest.mark.parametrize(("flows", "delay_ms"), [(2, 0.04), (2, 0.16), (8, 0.02), (16, 0.005)])
def test_where_all_is_marked_the_closed_form_holds(flows, delay_ms):
    """Windows are two segments, three at times; an acknowledgement waits for the second: three transmissions.

    A reduction lasts until something new is acknowledged, so that a segment waits now and then: of the least Linux
    itself has .78 to .83 in virtual time.
    """
    setting = paper.STUDY.case("pq950, counts itself", paper.Setting(link_delay_ms=delay_ms))
    setting = replace(setting, flows=flows, pacer="none", offload_bytes=0)
    reading = paper.measure_one(setting, SECONDS, 1, "simulated")
    round_trip_us = 4e3 * delay_ms + 3 * FULL_PACKET_BYTES * 8 / 1000 + 2 * 0.6
    least, most = (all_marked(flows, round_trip_us, window) for window in (2.0, 3.0))
    assert 0.8 * least[0] <= reading["goodput_mbps"] <= 1.02 * most[0]
    assert 0.9 * least[1] - 12 <= reading["mean_us"] <= most[1] + 13


def test_the_published_numbers_exclude_that_all_is_marked():
    most, least = paper.rule_bounds()["round trip (µs)"]
    assert most < least


def test_dctcp_waits_about_as_long_as_its_threshold_lasts(table):
    threshold_us = 20 * FULL_PACKET_BYTES * 8 / 1000
    assert 0.5 * threshold_us <= table.loc["30k"].mean_us <= 1.2 * threshold_us


def test_two_to_eight_flows_wait_as_their_windows_say(runs):
    """The order holds up to eight, whose windows of two segments are sixteen packets: more than the round trip is."""
    static = runs.summary().droplevel("load").mean_us
    ours, plain, tcp = (static[f"static {name}"] for name in ("pq950", "30k", "tcp"))
    assert list(ours.index) == list(range(2, 9)) == list(plain.index) == list(tcp.index)
    assert (ours < plain).all() and (plain < tcp).all()
    assert ours[8] > 1.5 * ours[2]


def test_latency_is_sampled_in_time_and_idle_time_counts():
    """Ten packets join at once, which takes .12 ms to send, then nothing comes for a second."""
    run = simulate(paper.experiment(paper.STUDY.case("tcp"), 0.1, 1))
    sent_s = FULL_PACKET_BYTES * 8e-9
    left_s = np.array([*(0.5 + sent_s * np.arange(1, 11)), 1.5])
    waits_ms = np.array([*(1e3 * sent_s * np.arange(10)), 0.0])
    packets = pd.DataFrame({"time_s": left_s, "wait_ms": waits_ms, "size_bytes": FULL_PACKET_BYTES})
    alike = replace(run, packets=packets)
    pings = paper.pinged_us(alike, 0.50005 - 2e-3)
    assert list(pings[:2]) == [0, 0] and pings[3:].max() == 0
    assert pings[2] == pytest.approx((10 * sent_s - 5e-5) * 1e6)
    # In the window of 10 ms with all ten the queue is 9 packets, then 8, ...: 45 packets' times in all.
    windows = paper.windows_us(alike, 0.4999)
    assert windows == pytest.approx([45 * sent_s * sent_s / 0.01 * 1e6])


def test_sampled_often_enough_a_busy_port_has_the_packets_own_waits():
    run = simulate(paper.experiment(paper.STUDY.case("30k"), SECONDS, 1))
    pings = paper.pinged_us(run, SECONDS / 3)
    own = run.packets[run.packets.time_s > SECONDS / 3].wait_ms.mean() * 1e3
    assert pings.mean() == pytest.approx(own, rel=0.05)
    assert paper.windows_us(run, SECONDS / 3).mean() == pytest.approx(own, rel=0.1)


def test_requests_offer_the_load_that_was_asked_for():
    asked = paper.request_experiment(paper.STUDY.case("replica pq950"), 0.0, 1)
    flows = asked.flow_table
    offered = flows.size_bytes.sum() * 8 / (asked.duration_s * paper.ARRIVING_SHARE) / 1e9
    assert offered == pytest.approx(0.2, rel=0.35)
    assert set(flows.size_bytes) == {900, paper.LARGE_BYTES}
    assert len(set(flows.source)) == paper.SERVERS and set(flows.destination) == {"h10"}


def test_small_requests_gain_and_large_ones_pay(runs):
    ours, plain = (runs.summary().xs(f"dynamic {name}") for name in ("pq950", "30k"))
    assert (ours.small_p99_ms < plain.small_p99_ms).all()
    assert (ours.large_mean_ms > plain.large_mean_ms).all()


def test_over_connections_that_stay_open_no_request_waits_for_a_lost_syn():
    setting = paper.Requests(load=0.6, large_requests=18)
    asked = paper.request_experiment(setting, 0.0, 1)
    own = simulate(asked).flows  # each opens a connection of its own
    kept = paper.over_open_connections(asked, 16)
    assert own.completion_ms.max() > 1000
    assert kept.flows.completion_ms.max() < 1000
    # The same requests, each whole; and a short one needs no handshake: two ways, and a transmission on each link.
    assert kept.flows.start_s.equals(asked.flow_table.start_s)
    assert kept.flows.delivered_bytes.sum() == asked.flow_table.size_bytes.sum()
    alone_ms = sum(
        2 * (setting.link_delay_ms + (size + paper.HEADER_BYTES) * 8 / 1e6)
        for size in (paper.REQUEST_BYTES, setting.small_bytes)
    )
    assert alone_ms <= kept.flows.completion_ms.min() < 1.05 * alone_ms  # hosts take a little time


def test_a_kernel_is_not_said_to_have_kept_connections_open():
    for name in ("dynamic tcp", "replica tcp"):
        kept = paper.STUDY.case(name)
        assert paper.cannot(kept, "virtual") and not paper.cannot(kept, "simulated")
    assert not paper.cannot(paper.Requests(), "virtual") and not paper.cannot(paper.Setting(), "virtual")


def test_requests_of_one_connection_wait_for_each_other():
    setting = paper.Requests(load=0.6, large_requests=18)
    asked = paper.request_experiment(setting, 0.0, 3)
    flows = paper.over_open_connections(asked, 1).flows
    arrived = flows.assign(arrived_s=flows.start_s + flows.completion_ms / 1e3).groupby("source").arrived_s
    assert arrived.apply(lambda times: times.is_monotonic_increasing).all()
    assert flows.completion_ms[flows.size_bytes == setting.small_bytes].max() > 50


def test_in_turn_requests_of_a_size_wait_for_their_own_size_alone():
    setting = paper.Requests(load=0.6, large_requests=18)
    asked = paper.request_experiment(setting, 0.0, 3)
    flows = paper.over_open_connections(asked, 1, in_turn=True).flows
    arrived = flows.assign(arrived_s=flows.start_s + flows.completion_ms / 1e3)
    for size_bytes, rows in arrived.groupby("size_bytes"):
        assert list(rows.source[: paper.SERVERS]) == sorted(set(rows.source)) and rows.source.nunique() == paper.SERVERS
        assert rows.groupby("source").arrived_s.apply(lambda times: times.is_monotonic_increasing).all(), size_bytes
    assert flows.completion_ms[flows.size_bytes == setting.small_bytes].max() < 50


def test_percentiles_are_of_the_requests_of_all_repetitions_together_at_each_load():
    """A tenth of one repetition's requests are late: of all three a thirtieth, which the 99th percentile sees."""

    def times(late_ms, load):
        ms = np.repeat([10.0, late_ms], [90, 10])
        return pd.DataFrame({"load": load, "size_bytes": paper.LARGE_BYTES, "completion_ms": ms})

    plain = {place: pd.concat([times(10.0, 0.2), times(10.0, 0.4)]) for place in range(3)}
    ours = plain | {0: pd.concat([times(30.0, 0.2), times(10.0, 0.4)])}
    values = paper.change_of_requests(paper.LARGE_BYTES)(ours, plain)
    assert (
        paper.percentile_ms(ours, paper.LARGE_BYTES)[0.2] == 30
        and paper.percentile_ms(ours, paper.LARGE_BYTES, 0)[0.2] == 10
    )
    # The mean of 3 and 1 where the late ones are among them, 1 and 1 where their repetition is left out.
    whole, without = 2.0, np.array([1.0, 2.0, 2.0])
    assert values == pytest.approx(whole + 2 * (without.mean() - without))


def test_controls_of_what_agrees_flip(runs):
    measured = {each.claim: each for each in runs.measured_claims()}
    claims = measured["static-latency-order"]
    assert all(order[0] == "pq950" for order in claims.values)
    assert all(order[0] != "pq950" for order in claims.control)
    assert all(0.867 <= value <= 0.887 for value in measured["static-sacrifice"].values)
    assert all(value > 0.92 for value in measured["static-sacrifice"].control)


def test_kernels_are_asked_for_what_they_have():
    setting = paper.as_kernels_can(paper.STUDY.case("pq950"))
    asked = paper.experiment(setting, 1.0, 1)
    assert asked.tcp.pacing
    assert not any(link.offload_bytes or isinstance(link.queue, NicPacer) for link in asked.topology.ports.values())


def test_the_replicas_table_is_whole():
    table = paper.replica_table()
    assert set(table.case) == set(paper.NAMES) and len(table) == 12
    assert (table.p99_us > table.mean_us).all()


def test_a_queue_that_there_is_not_and_an_unknown_case_are_refused():
    with pytest.raises(NetreproError):
        paper.STUDY.case("pq90")
    with pytest.raises(NetreproError):
        paper.experiment(paper.Setting(queue="phantom", drain_share=1.5), 1.0, 1)


@needs_virtual
def test_requests_wait_on_a_kernel_in_the_simulators_order():
    for tier in ("virtual", "simulated"):
        waits = []
        for name in ("pq950", "30k", "tcp"):
            setting = paper.Requests(load=0.4, large_requests=10, **paper.SCHEMES[name])
            reading = paper.A_CONNECTION_EACH.measure_one(setting, 0.0, 1, tier)
            assert all(check.holds for check in reading.checks)
            waits.append(reading["p99_us"])
        assert waits[0] < 0.5 * waits[1] < 0.5 * waits[2], tier


@needs_virtual
def test_the_kernel_agrees_with_the_simulator_on_its_pacing():
    setting = paper.STUDY.case("pq950, linux pacing")
    kernel, ours = (paper.measure_one(setting, 0.3, 1, tier) for tier in ("virtual", "simulated"))
    assert kernel["goodput_mbps"] == pytest.approx(ours["goodput_mbps"], rel=0.1)
    assert 0.5 <= kernel["mean_us"] / ours["mean_us"] <= 2
    assert kernel.fidelity.holds.all()
