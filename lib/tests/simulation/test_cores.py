"""One simulation on several cores: the same bytes however many parts the network has."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd
import pytest
from own_reno import MyReno
from test_random_networks import between, random_experiment, random_queue, random_tcp, sometimes

from netrepro.errors import NetreproError
from netrepro.networks import (
    AckDivision,
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Measurements,
    OptimisticAck,
    Requests,
    Routing,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    leaf_spine,
    star,
)
from netrepro.networks.partition import partition
from netrepro.networks.topology import Cable, host_cable
from netrepro.networks.workloads import CONTROLS_OF_LINKS
from netrepro.simulation import simulate

RUNS = int(os.environ.get("NETREPRO_RANDOM_RUNS", "100")) // 4
RUNS_A_TEST = 25
PORT = next(iter(fat_tree(4, Link(1000, 0.01)).ports))
TABLES = "flows", "queues", "links", "windows", "packets", "fidelity"


def check_same(one: Measurements, other: Measurements) -> None:
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True, obj=name)


def check_cores(experiment: Experiment, clock_skew_ppm: float = 100.0) -> Measurements:
    """Run the experiment on one, two and four cores, and check that what they measure is the same."""
    experiment = replace(experiment, clock_skew_ppm=clock_skew_ppm)
    alone = simulate(experiment, cores=1)
    assert alone.trusted, alone.fidelity
    for cores in (2, 4):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "cores = ")
            check_same(alone, simulate(experiment, cores=cores))
    return alone


def random_mesh(random: Random) -> Topology:
    """Switches in a ring with chords, each with hosts, and links of many kinds between them."""
    count = random.randint(4, 8)
    delays_ms = [between(random, 0.01, 5)] * random.choice([1, 8]) + [between(random, 0.01, 5)]

    def link() -> Link:
        return Link(
            random.choice([10, 100]),
            random.choice(delays_ms),
            random_queue(random),
            loss=sometimes(random, 0.2, lambda: 0.02, 0),
            jitter_ms=sometimes(random, 0.05, lambda: 0.1, 0),
            reordering=sometimes(random, 0.1, lambda: 0.05, 0),
            reordering_ms=1,
        )

    pairs = [(place, (place + 1) % count) for place in range(count)]
    pairs += [(0, count // 2)] * (random.random() < 0.5)
    cables = [Cable(f"s{a + 1}", f"s{b + 1}", link(), link()) for a, b in pairs]
    hosts = [
        host_cable(f"h{2 * place + i}", f"s{place + 1}", Link(100, random.choice([0, 0.01]), DropTail(packets=20)))
        for place in range(count)
        for i in (1, 2)
    ]
    return Topology((*cables, *hosts), "mesh")


def random_divided(seed: int) -> Experiment:
    """An experiment whose network can mostly be cut, with all that may happen on and around the cut."""
    random = Random(seed)
    if random.random() < 0.5:
        topology = random_mesh(random)
    else:
        same = Link(100, random.choice([0.01, 0.1]), random_queue(random))
        topology = random.choice([lambda: leaf_spine(4, 2, 2, same, same), lambda: fat_tree(4, same)])()
    lasts_s = 0.4
    traffic: list[Any] = []
    shared = random_tcp(random, alone=True)
    for _ in range(random.randint(2, 12)):
        source, destination = random.sample(topology.hosts, 2)
        start_s = random.choice([0.0, 0.0, 0.1, lasts_s * random.random() / 2])
        tcp = random.choice([shared, random_tcp(random, alone=True)])
        if isinstance(tcp.receiver, OptimisticAck):
            tcp = replace(tcp, receiver=AckDivision(3))
        if tcp.congestion_control in CONTROLS_OF_LINKS:
            tcp = replace(tcp, congestion_control="cubic")
        if random.random() < 0.2:
            spacing = random.choice(["constant", "poisson"])
            traffic.append(Datagrams(source, destination, 5, 0.2, spacing=spacing, start_s=start_s))
        elif random.random() < 0.5:
            traffic.append(Flow(source, destination, round(between(random, 1, 1e6)), start_s=start_s, tcp=tcp))
        else:
            lasts = random.choice([0.05, 0.2, lasts_s - start_s])
            traffic.append(Flow(source, destination, duration_s=lasts, start_s=start_s, tcp=tcp))
    inner = [cable for cable in topology.cables if cable.first[0] == "s"]
    changes: list[LinkChange] = []
    for _ in range(random.choice([0, 0, 1, 3])):
        cable, at_s = random.choice(inner), 0.8 * lasts_s * random.random()
        what: Any = random.choice([dict(rate_mbps=20.0), dict(delay_ms=0.02), dict(delay_ms=3.0), dict(loss=0.1)])
        if random.random() < 0.5:
            changes.append(LinkChange(at_s, cable.first, cable.second, up=False))
            at_s, what = at_s + 0.05, dict(up=True)
        changes.append(LinkChange(at_s, cable.first, cable.second, **what))
    schemes = ["ecmp", "ecmp", "packet_spraying", "spanning_tree", "k_shortest_paths"]
    ports = list(topology.ports)
    return Experiment(
        topology,
        traffic,
        lasts_s,
        seed=seed,
        measure=Measure(
            queues=random.sample(ports, 3), queue_interval_ms=1, windows_interval_ms=10, packets=random.sample(ports, 2)
        ),
        routing=Routing(random.choice(schemes), rerouting_ms=random.choice([0, 20])),
        changes=sorted(changes, key=lambda change: change.at_s),
        host_delay_packets=random.choice([0, 1]),
    )


@pytest.mark.parametrize("first", range(0, RUNS, RUNS_A_TEST))
def test_any_number_of_cores_gives_the_same_bytes(first: int) -> None:
    for seed in range(first, min(first + RUNS_A_TEST, RUNS)):
        try:
            check_cores(random_divided(seed), clock_skew_ppm=Random(seed).choice([0.0, 100.0]))
        except Exception as error:
            raise AssertionError(f"random_divided({seed}) fails: {error}") from error


@pytest.mark.parametrize("seed", range(10))
def test_whatever_the_experiment_cores_give_the_same_bytes(seed: int) -> None:
    check_cores(random_experiment(seed))


def all_to_all(k: int, **options: Any) -> Experiment:
    """Every host of a fat-tree sends to the one half the tree away, all at once and by identical clocks."""
    network = fat_tree(k, Link(1000, 0.01, DropTail(packets=20)))
    hosts = len(network.hosts)
    flows = [Flow(f"h{i + 1}", f"h{(i + hosts // 2) % hosts + 1}", duration_s=0.02) for i in range(hosts)]
    return Experiment(network, flows, 0.02, tcp=Tcp("reno", min_rto_ms=10), host_delay_packets=0, **options)


def test_events_of_one_time_come_in_the_same_order_in_any_division() -> None:
    found = check_cores(all_to_all(4), clock_skew_ppm=0.0)
    assert found.links["dropped_packets"].sum() > 0


def test_results_on_cores_are_close_to_those_without() -> None:
    experiment = all_to_all(4, seed=3)
    alone, divided = simulate(experiment), simulate(experiment, cores=2)
    assert divided.flows["goodput_mbps"].mean() == pytest.approx(alone.flows["goodput_mbps"].mean(), rel=0.05)


def test_a_flow_without_size_is_complete_when_its_last_byte_is_there() -> None:
    network = dumbbell(1, Link(100, 0.1), Link(10, 20, DropTail(packets=20)))
    experiment = Experiment(network, [Flow("h1", "h2", duration_s=1)], 3)
    alone, divided = simulate(experiment), simulate(experiment, cores=2)
    assert 1000 < divided.flows["completion_ms"][0] == pytest.approx(alone.flows["completion_ms"][0], rel=0.01)


def test_progress_is_told_and_ends_a_run_on_cores() -> None:
    told: list[float] = []
    simulate(replace(all_to_all(4), duration_s=0.1), told.append, cores=2)
    assert told[-1] == 1.0 and told == sorted(told)

    def refuse(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(all_to_all(4), refuse, cores=2)


def test_a_run_that_fails_on_a_core_fails() -> None:
    experiment = all_to_all(4, measure=Measure(packets=(PORT,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["netrepro.simulation.simulate"], "MOST_SAMPLES", 10)
        with pytest.raises(NetreproError, match="packets of a port"):
            simulate(experiment, cores=2)


WHOLE: dict[str, list[Any]] = {
    "Requests": [Requests("h1", ("h2", "h3"), 100, 10_000, 2)],
    "replicated flows": [Flow("h1", "h3", 10_000, replication="repflow")],
    "subflows": [Flow("h1", "h3", 10_000, subflows=2)],
    "rcp": [Flow("h1", "h3", 10_000, congestion_control="rcp")],
    "xcp": [Flow("h1", "h3", 10_000, congestion_control="xcp")],
    "an OptimisticAck": [Flow("h1", "h3", 10_000, tcp=Tcp(receiver=OptimisticAck(5)))],
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_needs_the_whole_network_says_so_and_runs_as_ever(what: str) -> None:
    experiment = Experiment(dumbbell(2, Link(100, 0.1), Link(10, 10)), WHOLE[what], 0.5)
    with pytest.warns(UserWarning, match=f"cores = 2, and the simulation runs on one: {what}"):
        found = simulate(experiment, cores=2)
    check_same(found, simulate(experiment))


def test_classes_in_python_and_flows_after_others_run_on_one_core() -> None:
    network = dumbbell(2, Link(100, 0.1), Link(10, 10))
    mine = Experiment(network, [Flow("h1", "h3", 10_000, congestion_control="my_reno")], 0.5)
    with pytest.warns(UserWarning, match="a congestion control in Python"):
        simulate(mine, cores=2, congestion_controls={"my_reno": MyReno})
    two = Experiment(network, [Flow("h1", "h3", 10_000), Flow("h3", "h1", 10_000)], 0.5)
    with pytest.warns(UserWarning, match="start_after"):
        simulate(two, cores=2, start_after={1: 0})


@pytest.mark.parametrize(
    "network",
    [star(4, Link(100, 1)), dumbbell(1, Link(100, 1), Link(10, 0)), dumbbell(1, Link(9, 1), Link(9, 1, jitter_ms=1))],
)
def test_a_network_that_cannot_be_cut_says_so(network: Topology) -> None:
    experiment = Experiment(network, [Flow("h1", "h2", 10_000)], 0.5)
    with pytest.warns(UserWarning, match="cores = 2, and the simulation runs on one: .* no 2 parts"):
        found = simulate(experiment, cores=2)
    check_same(found, simulate(experiment, cores=1))


@pytest.mark.parametrize("cores", [0, -1, 1.5, "2"])
def test_no_number_of_cores_is_refused(cores: Any) -> None:
    with pytest.raises(NetreproError, match="cores"):
        simulate(all_to_all(4), cores=cores)


def cut_cables(topology: Topology, part_of: dict[str, int]) -> int:
    return sum(part_of[cable.first] != part_of[cable.second] for cable in topology.cables)


def test_a_fat_tree_is_cut_by_pods() -> None:
    network = fat_tree(8, Link(1000, 0.01))
    part_of = partition(network, 2)
    assert part_of is not None
    assert sorted(sum(part_of[host] == part for host in network.hosts) for part in (0, 1)) == [64, 64]
    assert cut_cables(network, part_of) == 64  # each of four pods by half of its cables to the core
    four = partition(network, 4)
    assert four is not None and {sum(four[host] == part for host in network.hosts) for part in range(4)} == {32}


def test_the_cables_with_the_longest_delay_are_cut() -> None:
    inner, outer = Link(100, 0.1), Link(100, 10)
    ring = [Cable(f"s{i + 1}", f"s{(i + 1) % 6 + 1}", outer if i in (0, 3) else inner) for i in range(6)]
    network = Topology((*ring, *(host_cable(f"h{i}", f"s{i}", inner) for i in range(1, 7))))
    part_of = partition(network, 2)
    assert part_of is not None and part_of["s2"] == part_of["s3"] == part_of["s4"] != part_of["s5"] == part_of["s1"]
    assert partition(network, 2, [LinkChange(1, "s1", "s2", delay_ms=0)]) != part_of
