"""Random networks, links, queues, traffic and settings of TCP: whatever is asked for ends, and adds up."""

import os
from collections.abc import Callable
from dataclasses import replace
from math import isnan
from random import Random
from typing import Any

import pytest

from netrepro.networks import (
    AckDivision,
    CoDel,
    Datagrams,
    DropTail,
    DualPi2,
    DuplicateSpoofing,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    LinkChange,
    Measure,
    NicPacer,
    OptimisticAck,
    PhantomQueue,
    Pie,
    PoissonFlows,
    Policer,
    Red,
    Requests,
    Routing,
    Sfq,
    SharedBuffer,
    Slotted,
    Tcp,
    Topology,
    dumbbell,
    leaf_spine,
    star,
)
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.networks.queues import CODEL_VARIANTS, FQ_CODEL_VARIANTS, PIE_VARIANTS
from netrepro.networks.topology import Cable
from netrepro.networks.workloads import (
    CONGESTION_CONTROLS,
    CONTROLS_OF_LINKS,
    COUNTS,
    RECEIVERS_ECN,
    RECOVERIES,
    SCHEDULERS,
)
from netrepro.simulation.simulate import EVENTS_AT_A_TIME, build, measurements

RUNS = int(os.environ.get("NETREPRO_RANDOM_RUNS", "100"))  # `make test-all` asks for ten thousand
RUNS_A_TEST = 50
LEAST_MBPS, MOST_MBPS = 0.2, 1000.0
MOST_PACKETS = 3000  # that the fastest link sends in an experiment: it lasts so long


def between(random: Random, low: float, high: float) -> float:
    """A number whose order of magnitude is even."""
    return low * (high / low) ** random.random()


def sometimes(random: Random, share: float, value: Callable[[], Any], otherwise: Any) -> Any:
    return value() if random.random() < share else otherwise


def random_queue(random: Random) -> Any:
    packets = round(between(random, 1, 500))
    share = random.random()
    low = between(random, 1, 20)

    def red(**options: Any) -> Red:
        return Red(
            40 + packets,
            min_threshold_packets=low,
            max_threshold_packets=low * (1 + random.random()) + 0.1,
            max_probability=share,
            weight=between(random, 0.0005, 1),
            ecn=random.random() < 0.5,
            adaptive=share > 0.01 and random.random() < 0.3,
            **options,
        )

    kinds = [
        lambda: DropTail(packets=packets),
        lambda: DropTail(bytes=1514 * packets + random.randrange(1514)),
        lambda: EcnThreshold(packets, random.randint(1, packets)),
        red,
        lambda: red(variant="floyd1993", **{name: random.random() < 0.5 for name in ("by_bytes", "gentle", "wait")}),
        lambda: CoDel(
            packets,
            between(random, 0.1, 50),
            between(random, 1, 500),
            ecn=random.random() < 0.5,
            variant=random.choice(CODEL_VARIANTS),
        ),
        lambda: Pie(
            packets,
            between(random, 0.1, 50),
            between(random, 1, 100),
            ecn=random.random() < 0.5,
            variant=random.choice(PIE_VARIANTS),
        ),
        lambda: PhantomQueue(packets, drain_share=max(share, 0.05)),
        lambda: SharedBuffer(1514 * 100, alpha=between(random, 0.1, 8), mark_packets=random.choice([None, 5])),
        lambda: Sfq(packets, buckets=random.choice([1, 8, 1024])),
        lambda: FqCoDel(
            packets,
            between(random, 0.1, 50),
            flows=random.choice([1, 8, 1024]),
            variant=random.choice(FQ_CODEL_VARIANTS),
        ),
        lambda: FqCoDel(packets, ce_threshold_ms=between(random, 0.1, 50), ce_threshold_ect_1=random.random() < 0.5),
        lambda: DualPi2(packets, between(random, 0.1, 50), coupling=random.choice([0, 2, 3])),
        lambda: Fq(
            packets,
            flow_packets=random.choice([1, 8, 100]),
            ce_threshold_ms=random.choice([None, 1.0]),
            flows=random.choice([1, 8, 1024]),
        ),
    ]
    return random.choice(kinds)()


def random_link(random: Random) -> Link:
    return Link(
        between(random, LEAST_MBPS, MOST_MBPS),
        sometimes(random, 0.8, lambda: between(random, 0.01, 200), 0),
        random_queue(random),
        loss=sometimes(random, 0.3, lambda: between(random, 0.001, 0.5), 0),
        jitter_ms=sometimes(random, 0.3, lambda: between(random, 0.01, 50), 0),
        reordering=sometimes(random, 0.5, lambda: random.choice([1.0, random.random()]), 0),
        reordering_ms=between(random, 0.01, 500),
    )


def random_tcp(random: Random, *, alone: bool) -> Tcp:
    """Settings of TCP; `alone`, of connections that are a flow each, with receivers that misbehave too."""

    def flag() -> bool:
        return random.random() < 0.5

    segment_bytes = random.choice([1448, 1448, 536, 100, 8948])
    receivers = [AckDivision(random.randint(1, 8)), DuplicateSpoofing(random.randint(1, 4)), OptimisticAck(5)]
    recovery = random.choice(["linux", "linux", *RECOVERIES])
    return Tcp(
        congestion_control=random.choice(CONGESTION_CONTROLS),
        initial_window_segments=random.randint(1, 20),
        segment_bytes=segment_bytes,
        receive_window_bytes=segment_bytes * round(between(random, 1, 5000)),
        receive_window_grows=flag(),
        send_buffer_bytes=sometimes(random, 0.2 * alone, lambda: segment_bytes * random.randint(1, 100), None),
        min_rto_ms=random.choice([0.001, 1, 10, 200, 1000]),
        initial_rto_ms=random.choice([1, 100, 1000]),
        delayed_ack_ms=random.choice([0, 1, 40, 200]),
        sack=recovery == "sack" or flag(),
        tail_loss_probe=flag(),
        ecn=flag(),
        accurate_ecn=(accurate := flag()),
        ect_1=accurate and flag(),
        receiver_ecn=random.choice(RECEIVERS_ECN),
        prague_round_trip_ms=random.choice([0, 25]),
        prague_rounds=random.choice([0, 5, 500]),
        prague_heeds_marks=flag(),
        bbr3_ecn_round_trip_ms=random.choice([0, 5]),
        bursts=flag(),
        dctcp_alpha=random.random(),
        slow_start_exit_share=1 - random.random(),
        slow_start_after_idle=flag(),
        hystart=flag(),
        hystart_rounds_from_start=flag(),
        pacing=flag(),
        unpaced_segments=random.choice([0, 10]),
        opportunistic_retransmission=flag(),
        penalisation=flag(),
        scheduler=random.choice(SCHEDULERS),
        recovery=recovery,
        counts=random.choice(COUNTS),
        receiver=sometimes(random, 0.2 * alone, lambda: random.choice(receivers), None),
        cumulative_nonce=flag(),
        boundary_spread_bytes=sometimes(random, 0.2 * alone, lambda: random.randrange(segment_bytes // 4), 0),
        suss_rounds=random.randrange(5),
        suss_guard=flag(),
        suss_pacing=flag(),
    )


def random_topology(random: Random) -> Topology:
    kinds = [
        lambda: star(random.randint(2, 4), random_link(random)),
        lambda: dumbbell(random.randint(1, 3), random_link(random), random_link(random)),
        lambda: leaf_spine(2, random.randint(1, 3), random.randint(1, 2), random_link(random), random_link(random)),
    ]
    topology = random.choice(kinds)()
    cables = []
    for cable in topology.cables:
        forward = cable.forward
        if cable.first[0] == "h" and random.random() < 0.3:
            forward = replace(forward, offload_bytes=random.choice([4096, 65_536]))
        if cable.first[0] == "h" and random.random() < 0.2:
            forward = replace(forward, queue=NicPacer())
        cables.append(Cable(cable.first, cable.second, forward, cable.backward))
    return Topology(tuple(cables), topology.name)


def random_slots(random: Random) -> Slotted:
    gaps_ms = sorted((between(random, 0.01, 100), between(random, 0.01, 100)))
    slot_packets = sometimes(random, 0.5, lambda: round(between(random, 1, 64)), None)
    slot_bytes = sometimes(random, 0.5, lambda: round(between(random, 1, 60_000)), None)
    return Slotted(round(between(random, 1, 500)), *gaps_ms, slot_packets, slot_bytes)


def with_policers_and_slots(random: Random, topology: Topology) -> Topology:
    """The topology with policers at some of its links, and slots at others."""

    def changed(link: Link | None) -> Link | None:
        if link is None or random.random() < 0.6:
            return link
        if random.random() < 0.5:
            return replace(link, queue=random_slots(random))
        rate_mbps = max(link.rate_mbps * between(random, 0.05, 2), 0.01)
        burst_bytes = round(between(random, 1514, 300_000))
        return replace(link, policer=Policer(rate_mbps, burst_bytes, random.choice([None, None, 600])))

    cables = (replace(each, forward=changed(each.forward), backward=changed(each.backward)) for each in topology.cables)
    return Topology(tuple(cables), topology.name)


def random_entry(random: Random, hosts: tuple[str, ...], lasts_s: float) -> Any:
    source, destination = random.sample(hosts, 2)
    start_s = sometimes(random, 0.5, lambda: lasts_s / 2 * random.random(), 0.0)
    size_bytes = round(between(random, 1, 3e6))
    kind = random.choice(["flow", "flow", "flow", "subflows", "copies", "datagrams", "poisson", "requests"])
    if kind == "datagrams":
        rate_mbps, spacing = between(random, LEAST_MBPS, 10), random.choice(["constant", "poisson"])
        left_s = (lasts_s - start_s) * random.random()
        return Datagrams(source, destination, rate_mbps, max(left_s, 1e-3), spacing=spacing, start_s=start_s)
    tcp = random_tcp(random, alone=kind == "flow")
    if kind == "flow":
        until_s = sometimes(random, 0.5, lambda: max((lasts_s - start_s) * random.random(), 1e-3), None)
        size = size_bytes if until_s is None else None
        return Flow(source, destination, size, until_s, start_s, tcp=tcp)
    if tcp.congestion_control in CONTROLS_OF_LINKS:
        tcp = replace(tcp, congestion_control="olia")
    if kind == "subflows":
        return Flow(source, destination, size_bytes, start_s=start_s, subflows=random.randint(2, 8), tcp=tcp)
    copies = random.choice(["repflow", "repsyn"])
    if kind == "copies":
        return Flow(source, destination, min(size_bytes, 100_000), replication=copies, tcp=tcp)
    if kind == "poisson":
        sizes = empirical_flow_sizes([100, 10_000, 100_000])
        return PoissonFlows(sizes, 40 / lasts_s, 20, replication=random.choice(["", copies]), tcp=tcp)
    servers = tuple(host for host in hosts if host != source)
    sizes_bytes = round(between(random, 1, 1e4)), round(between(random, 1, 1e5))
    think_ms, within_ms = random.choice([0, 1]), random.choice([0, 1])
    barrier = random.random() < 0.5
    first_bytes = int(random.choice([0, 1, sizes_bytes[1]]))
    parts = {"first_bytes": first_bytes, "rest_after_ms": think_ms if first_bytes else 0.0}
    return Requests(source, servers, *sizes_bytes, 20, barrier, think_ms, answer_within_ms=within_ms, **parts, tcp=tcp)


def reordered_flow(random: Random, seed: int) -> Experiment:
    """A long flow of Linux's kind over one link that reorders: what RACK has to do most with."""
    link = Link(
        between(random, 1, 100),
        between(random, 0.1, 50),
        DropTail(packets=random.choice([10, 100, 1000])),
        loss=random.choice([0, 0, 0.01]),
        reordering=random.choice([0.01, 0.1, 0.5]),
        reordering_ms=between(random, 1, 500),
    )
    lasts_s = MOST_PACKETS * 0.06 / link.rate_mbps
    tcp = Tcp(random.choice(CONGESTION_CONTROLS), min_rto_ms=random.choice([1, 10, 200]), pacing=random.random() < 0.5)
    flow = Flow("h1", "h2", duration_s=lasts_s, tcp=tcp)
    return Experiment(dumbbell(1, Link(1000, 0), link), [flow], lasts_s, seed=seed)


def random_experiment(seed: int) -> Experiment:
    random = Random(seed)
    if random.random() < 0.3:
        return reordered_flow(random, seed)
    topology = with_policers_and_slots(Random(f"more, {seed}"), random_topology(random))
    fastest_mbps = max(link.rate_mbps for link in topology.ports.values())
    lasts_s = min(max(MOST_PACKETS * 0.012 / fastest_mbps, 1.0), 30.0)
    traffic = [random_entry(random, topology.hosts, lasts_s) for _ in range(random.randint(1, 4))]
    cable = random.choice(topology.cables)
    at_s = sorted(lasts_s * random.random() for _ in range(2))
    changes = [
        LinkChange(at_s[0], cable.first, cable.second, up=False),
        LinkChange(at_s[1], cable.first, cable.second, up=True),
        LinkChange(at_s[1], cable.first, cable.second, between(random, LEAST_MBPS, MOST_MBPS)),
        LinkChange(at_s[0], cable.second, cable.first, delay_ms=50 * at_s[1] / lasts_s, loss=0.2 * at_s[0] / lasts_s),
    ]
    schemes = ["ecmp"] * 3 + ["packet_spraying", "spanning_tree", "k_shortest_paths"]
    return Experiment(
        topology,
        traffic,
        lasts_s,
        seed=seed,
        measure=Measure(queues=list(topology.ports)[:1], windows_interval_ms=lasts_s * 50),
        routing=Routing(random.choice(schemes), rerouting_ms=random.choice([0, 100])),
        changes=sometimes(random, 0.3, lambda: random.choice([changes[:1], changes[:2], changes[2:], changes]), []),
        host_delay_packets=sometimes(random, 0.3, lambda: between(random, 0.01, 100), 0),
    )


def check_run(experiment: Experiment) -> Any:
    """Run the experiment and check that everything there was has gone somewhere, and no faster than its lines."""
    simulator = build(experiment)
    while not simulator.run(EVENTS_AT_A_TIME):
        pass
    found = measurements(experiment, simulator)
    assert found.trusted, found.fidelity

    links = simulator.links()
    left = links["sent_packets"] + links["dropped_packets"]
    assert (left <= links["offered_packets"]).all()  # others wait
    assert (links["lost_packets"] <= links["offered_packets"]).all()
    assert (found.links["utilisation"] <= 1 + 1e-9).all()
    account = simulator.account
    assert account["dropped"] + account["lost"] == links["dropped_packets"].sum() + links["lost_packets"].sum()

    fastest = {port: link.rate_mbps for port, link in experiment.topology.ports.items()}
    for change in experiment.changes:
        for port in change.links:
            fastest[port] = max(fastest[port], change.rate_mbps or 0)
    for flow in found.flows.itertuples():
        sends, receives = (
            sum(rate for port, rate in fastest.items() if port[end] == host)
            for end, host in ((0, flow.source), (1, flow.destination))
        )
        line_mbps = min(sends, receives) * (1 + experiment.clock_skew_ppm * 1e-6)
        assert not flow.goodput_mbps > line_mbps * (1 + 1e-9), flow
        assert not flow.completion_ms <= 0, flow
        if not isnan(flow.size_bytes):
            assert flow.delivered_bytes <= flow.size_bytes, flow
            assert isnan(flow.completion_ms) or flow.delivered_bytes == flow.size_bytes, flow
    return found


@pytest.mark.parametrize("first", range(0, RUNS, RUNS_A_TEST))
def test_whatever_the_network_and_the_traffic_a_run_ends_and_adds_up(first: int) -> None:
    for seed in range(first, min(first + RUNS_A_TEST, RUNS)):
        try:
            check_run(random_experiment(seed))
        except Exception as error:
            raise AssertionError(f"random_experiment({seed}) fails: {error}") from error


# 328: a receiver that acknowledges ahead once had a deadline from before its sender was done.
@pytest.mark.parametrize("seed", [328, *range(8)])
def test_time_never_goes_back(seed: int) -> None:
    simulator = build(random_experiment(seed))
    before_s = 0.0
    for _ in range(10_000):
        if simulator.run(1):
            break
        assert simulator.now_s >= before_s
        before_s = simulator.now_s
