"""RepFlow and RepSYN: what a second connection gains, costs and leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from netrepro.networks import Cable, DropTail, Experiment, Flow, Link, Measure, PoissonFlows, Tcp, Topology, leaf_spine
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.simulation import simulate

SEGMENT, FULL, ACK, SYN = 1448, 1514, 66, 74
FAST = Link(1000, 0.1, DropTail(packets=1000))
SIZE = 20 * SEGMENT
AT_ONCE = Tcp("reno", delayed_ack_ms=0)


def two_paths(first: Link, second: Link) -> Topology:
    """h1 to h2 over s2 or s3, with equally many hops; all ways back are alike."""
    return Topology(
        (
            Cable("h1", "s1", FAST),
            Cable("s1", "s2", first, FAST),
            Cable("s1", "s3", second, FAST),
            Cable("s2", "s4", FAST),
            Cable("s3", "s4", FAST),
            Cable("s4", "h2", FAST),
        )
    )


def many(net: Topology, count: int = 400, gap_s: float = 1.0, **flow) -> pd.DataFrame:
    flows = tuple(Flow("h1", "h2", SIZE, start_s=i * gap_s, **flow) for i in range(count))
    return simulate(Experiment(net, flows, count * gap_s + 200, tcp=AT_ONCE, clock_skew_ppm=0)).flows


def test_a_replicated_flow_is_slow_only_when_both_copies_are():
    # Half of all paths are slow: a copy is slow with p = 1/2, both with p^2 = 1/4 (RepNet, section 2.1).
    net = two_paths(FAST, replace(FAST, delay_ms=10))
    single = many(net)["completion_ms"]
    slow_ms = single.max()
    slow = {
        "one": (single > 0.9 * slow_ms).mean(),
        "repflow": (many(net, replication="repflow")["completion_ms"] > 0.9 * slow_ms).mean(),
        "repsyn": (many(net, replication="repsyn")["completion_ms"] > 0.9 * slow_ms).mean(),
        "same path": (many(net, replication="repflow", replica_same_path=True)["completion_ms"] > 0.9 * slow_ms).mean(),
    }
    # Binomial, 400 flows: standard errors 0.025 and 0.022.
    assert slow["one"] == pytest.approx(0.5, abs=0.1) and slow["same path"] == pytest.approx(0.5, abs=0.1)
    assert slow["repflow"] == pytest.approx(0.25, abs=0.08) and slow["repsyn"] == pytest.approx(0.25, abs=0.08)


@pytest.mark.parametrize("replication", ["repflow", "repsyn"])
def test_a_replicated_flow_takes_as_long_as_the_faster_path_alone(replication):
    slower = replace(FAST, delay_ms=10)
    net = two_paths(FAST, slower)
    alone = {
        name: float(many(two_paths(link, link), count=1)["completion_ms"][0])
        for name, link in (("fast", FAST), ("slow", slower))
    }
    seen = many(net, replication=replication)["completion_ms"]
    # Both copies share the host's port: the other's SYN, reset or data may be ahead.
    copies = 2 if replication == "repflow" else 1
    ahead_ms = (SYN + ACK + (copies - 1) * SIZE / SEGMENT * FULL) * 8 / 1e6
    near_fast = seen.between(alone["fast"] - 1e-9, alone["fast"] + ahead_ms)
    near_slow = seen.between(alone["slow"] - 1e-9, alone["slow"] + ahead_ms)
    assert (near_fast | near_slow).all() and near_fast.mean() > 0.6


def test_repflow_sends_every_byte_twice_and_repsyn_only_the_syn():
    net = two_paths(FAST, FAST)
    sent = {}
    for replication in ("", "repflow", "repsyn"):
        flow = Flow("h1", "h2", SIZE, replication=replication)
        links = simulate(Experiment(net, (flow,), 5, tcp=AT_ONCE)).links
        sent[replication] = links.query("source == 'h1'")["sent_bytes"].item()
    assert sent[""] == SYN + 20 * FULL
    assert sent["repflow"] == 2 * (SYN + 20 * FULL)
    assert sent["repsyn"] == 2 * SYN + 20 * FULL + ACK  # and the reset


def test_the_slower_copy_is_stopped_when_the_flow_is_complete():
    # The second path carries a copy of 100 segments in 1.2 s; the first in 5 ms.
    net = two_paths(FAST, replace(FAST, rate_mbps=1))
    flows = tuple(
        Flow("h1", "h2", 100 * SEGMENT, start_s=2.0 * i, replication="repflow", replicate_below_bytes=10**6)
        for i in range(20)
    )
    measured = simulate(Experiment(net, flows, 50, measure=Measure(packets=(("s1", "s3"),)), tcp=AT_ONCE))
    slow_copies = measured.packets.query("size_bytes > 100").groupby("flow").size()
    decided = measured.flows["completion_ms"] < 100
    beaten = slow_copies[slow_copies.index[decided[slow_copies.index]]]
    assert len(beaten) > 3 and (beaten < 50).all()
    assert (measured.flows["delivered_bytes"] == 100 * SEGMENT).all()


@pytest.mark.parametrize("replication", ["repflow", "repsyn"])
def test_a_connection_that_never_opens_hurts_nobody(replication):
    # A path that loses nearly everything: who has one copy on the other path never feels it.
    net = two_paths(FAST, replace(FAST, loss=0.99))
    seen = many(net, count=200, replication=replication)
    quick = seen["completion_ms"] < 50
    assert quick.mean() == pytest.approx(0.75, abs=0.1)
    assert (seen["delivered_bytes"][seen["completion_ms"].notna()] == SIZE).all()


def test_larger_flows_than_the_threshold_are_not_replicated():
    flows = tuple(Flow("h1", "h2", size, start_s=size / 1e5, replication="repflow") for size in (100_000, 100_001))
    packets = simulate(
        Experiment(two_paths(FAST, FAST), flows, 5, measure=Measure(packets=(("h1", "s1"),)), tcp=AT_ONCE)
    ).packets
    syns = packets[packets["size_bytes"] == SYN].groupby("flow").size()
    assert syns.tolist() == [2, 1]


def test_replication_shortens_the_tail_of_small_flows_among_large_ones_and_not_on_one_path():
    # The claim of the paper in small: leaf-spine, web search, load about a half.
    link = Link(1000, 0.01, DropTail(packets=300))
    net = leaf_spine(2, 3, 3, link, link)
    tail = {}
    for name, options in {
        "tcp": {},
        "repflow": {"replication": "repflow"},
        "repsyn": {"replication": "repsyn"},
        "same path": {"replication": "repflow", "replica_same_path": True},
    }.items():
        entries = tuple(
            PoissonFlows(load_flow_sizes("web_search"), 55, 160, (f"h{i}",), (f"h{i + 3}",), **options)
            for i in (1, 2, 3)
        )
        flows = simulate(Experiment(net, entries, 6, seed=2, tcp=Tcp("cubic", min_rto_ms=10))).flows
        tail[name] = flows.query("size_bytes <= 100_000")["completion_ms"].quantile(0.95)
    assert tail["repflow"] < tail["tcp"] and tail["repsyn"] < tail["tcp"]
    assert tail["repflow"] < tail["same path"]


@pytest.mark.parametrize("replication", ["", "repflow", "repsyn"])
def test_a_flow_is_connected_when_the_answer_to_its_first_syn_is_back(replication):
    """Over four links and back; of two connections the faster path's counts."""
    slower = replace(FAST, delay_ms=10)
    flows = many(two_paths(FAST, slower), replication=replication)
    ways_ms = {"fast": 8 * 0.1, "slow": 7 * 0.1 + 10}
    near = {name: flows["connected_ms"].between(least, least + 8 * 2 * SYN * 8e-6) for name, least in ways_ms.items()}
    assert (near["fast"] | near["slow"]).all()
    assert near["slow"].mean() == pytest.approx(0.25 if replication else 0.5, abs=0.1)
    assert (flows["connected_ms"] < flows["completion_ms"]).all()


def test_a_flow_whose_syn_is_lost_is_connected_after_the_timeout_and_one_without_an_answer_never():
    lost = replace(FAST, loss=0.5)
    flows = many(two_paths(lost, lost), gap_s=10.0)
    is_late = flows["connected_ms"] > 900
    assert 0.3 < is_late.mean() < 0.9 and (flows.loc[is_late, "connected_ms"] >= 1000).all()
    blind = simulate(Experiment(two_paths(FAST, FAST), (Flow("h1", "h2", SIZE),), 1e-4, tcp=AT_ONCE)).flows
    assert blind["connected_ms"].isna().all()
