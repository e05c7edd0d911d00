"""Hosts take time: what they send is late by a random time, in order, and flows are no longer locked in step."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.networks import Datagrams, DropTail, Experiment, Flow, Link, Measure, Tcp, Topology, dumbbell, star
from netrepro.networks.topology import Cable
from netrepro.simulation import simulate

PLENTY = DropTail(packets=10_000)
TABLES = ("flows", "queues", "links", "windows", "packets", "fidelity")
PACKET_MS = 1514 * 8 / 100e3  # at 100 Mb/s
SEEDS = range(1, 6)


def delays_ms(host_delay_packets: float, jitter_ms: float = 0) -> np.ndarray:
    """Measure the delays of 5,000 datagrams, far apart, from host to switch, less the wire and the port behind it."""
    net = star(2, Link(100, 1, PLENTY, jitter_ms=jitter_ms))
    ports = (("h1", "s1"), ("s1", "h2"))
    sent = Datagrams("h1", "h2", 1514 * 8e-3, 5.0)  # a millisecond apart
    asked = Experiment(net, (sent,), 5.1, measure=Measure(packets=ports), host_delay_packets=host_delay_packets)
    packets = simulate(replace(asked, clock_skew_ppm=0)).packets
    left, passed = (packets.query("source == @node")["time_s"].to_numpy() for node in ("h1", "s1"))
    return (passed - left) * 1e3 - PACKET_MS - 1


def test_a_host_is_late_by_a_uniform_time_up_to_that_of_a_packet_and_by_half_of_it_in_the_mean():
    found = delays_ms(1)
    assert found.min() >= -1e-9 and found.max() <= PACKET_MS + 1e-9
    error = PACKET_MS / np.sqrt(12 * len(found))
    assert found.mean() == pytest.approx(PACKET_MS / 2, abs=3 * error)
    quarters = np.histogram(found, 4, (0, PACKET_MS))[0] / len(found)
    assert quarters == pytest.approx(4 * [0.25], abs=3 * np.sqrt(0.1875 / len(found)))


def test_a_jitter_of_the_line_comes_on_top():
    found = delays_ms(1, jitter_ms=0.05)
    assert found.mean() == pytest.approx(PACKET_MS / 2, rel=0.05)
    assert found.std() == pytest.approx(np.hypot(0.05, PACKET_MS / np.sqrt(12)), rel=0.05)


streams = st.builds(
    Datagrams,
    st.just("h1"),
    st.just("h2"),
    st.floats(1, 40),
    st.just(0.1),
    packet_bytes=st.integers(64, 1514),
    spacing=st.sampled_from(["constant", "poisson"]),
)
controls = st.sampled_from(["reno", "cubic", "bbr"])
flows = st.builds(Flow, st.just("h1"), st.just("h2"), st.integers(1, 10**6), congestion_control=controls)


@settings(max_examples=40)
@given(
    st.lists(streams | flows, min_size=1, max_size=5),
    st.floats(0.1, 50),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 99),
)
def test_no_packet_of_a_host_leaves_before_an_earlier_one(traffic, host_delay_packets, jitter_ms, seed):
    net = star(2, Link(100, 0.5, PLENTY, jitter_ms=jitter_ms))
    backward = tuple(replace(entry, source="h2", destination="h1") for entry in traffic)
    ports = (("h1", "s1"), ("s1", "h2"), ("h2", "s1"), ("s1", "h1"))
    measure = Measure(packets=ports)
    asked = Experiment(net, (*traffic, *backward), 0.3, seed, measure, host_delay_packets=host_delay_packets)
    packets = simulate(asked).packets.groupby(["source", "destination"])
    for host, other in (("h1", "h2"), ("h2", "h1")):
        sent, passed = (
            packets.get_group(port)[["flow", "size_bytes"]].to_numpy() for port in ((host, "s1"), ("s1", other))
        )
        assert len(passed) > 0 and np.array_equal(sent[: len(passed)], passed)


def shaken(host_delay_packets: float, seed: int = 1) -> Experiment:
    """A network in which everything else is random too: losses, jitter, reordering, gaps."""
    shaky = Link(100, 1, DropTail(packets=20), loss=0.02, jitter_ms=0.1, reordering=0.01, reordering_ms=1)
    net = Topology((Cable("h1", "s1", shaky), Cable("s1", "h2", shaky), Cable("h3", "s1", shaky)))
    traffic = (
        Flow("h1", "h2", duration_s=1),
        Datagrams("h3", "h2", 20, 1, spacing="poisson"),
    )
    ports = tuple(net.ports)
    measure = Measure(queues=ports, windows_interval_ms=5, packets=ports)
    return Experiment(net, traffic, 1, seed, measure, host_delay_packets=host_delay_packets)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    first, second, other = simulate(shaken(1)), simulate(shaken(1)), simulate(shaken(1, seed=2))
    for name in TABLES:
        assert getattr(first, name).to_csv() == getattr(second, name).to_csv()
    assert first.packets.to_csv() != other.packets.to_csv()


def test_what_hosts_draw_moves_no_other_draw():
    """The packets of h3 leave at the same times, and its line loses and holds back the same ones."""
    prompt, late = (simulate(shaken(packets)) for packets in (0, 1))
    tables = ("packets", "links")
    ours, theirs = (
        [getattr(found, name).query("source == 'h3'").to_csv(index=False) for name in tables]
        for found in (prompt, late)
    )
    assert ours == theirs and late.links.query("source == 'h3'")["lost_packets"].iloc[0] > 0
    assert late.packets.to_csv() != prompt.packets.to_csv()


# In step ----------------------------------------------------------------------------------------------


def ratio_of_two_senders(host_delay_packets: float, seed: int) -> float:
    """Compute the ratio of two equal datagram senders' shares, 60 Mb/s each over 100 Mb/s."""
    net = star(3, Link(100, 0.1, DropTail(packets=50)))
    traffic = tuple(Datagrams(host, "h3", 60, 2) for host in ("h1", "h2"))
    found = simulate(Experiment(net, traffic, 2, seed, host_delay_packets=host_delay_packets))
    first, second = found.flows["delivered_bytes"]
    return first / second


def test_two_equal_datagram_senders_share_a_line_where_hosts_take_time_and_do_not_where_they_take_none():
    assert max(abs(np.log(ratio_of_two_senders(0, seed))) for seed in SEEDS) > np.log(1.4)
    for seed in SEEDS:
        assert 0.8 < ratio_of_two_senders(1, seed) < 1.25


def windows_in_step(host_delay_packets: float, seed: int) -> float:
    """The variance of the sum of ten equal flows' windows over the sum of their variances: 1 of flows that have nothing
    to do with each other, 10 of flows that halve all at once."""
    net = dumbbell(10, Link(1000, 9.75, PLENTY), Link(100, 0.5, DropTail(packets=120)))
    traffic = tuple(Flow(f"h{i + 1}", f"h{i + 11}", duration_s=40 - i / 10, start_s=i / 10) for i in range(10))
    look = Measure(windows_interval_ms=10)
    tcp = Tcp("reno", delayed_ack_ms=0)
    found = simulate(Experiment(net, traffic, 40, seed, look, tcp, host_delay_packets=host_delay_packets))
    windows = found.windows.query("time_s > 10").pivot(index="time_s", columns="flow", values="window_bytes")
    return float(windows.sum(axis=1).var() / windows.var().sum())


def test_ten_equal_flows_lose_in_step_only_where_hosts_take_no_time():
    for seed in SEEDS:
        assert windows_in_step(1, seed) < 3 < 8 < windows_in_step(0, seed)
