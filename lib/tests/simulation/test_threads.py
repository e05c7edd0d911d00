"""Sweeps whose runs are threads of one process; `make sanitize-threads` runs them under the thread sanitizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from test_own_control import MyReno

from netrepro.networks import (
    CoDel,
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    FqCoDel,
    Link,
    Measure,
    Measurements,
    Pie,
    Red,
    Requests,
    Tcp,
    dumbbell,
    fat_tree,
)
from netrepro.queueing.mg1 import simulate_waits
from netrepro.queueing.service import ExponentialService
from netrepro.simulation import Hosts, simulate

THREADS, TIMES = 4, 2


def crowded(control: str, queue: DropTail | CoDel | FqCoDel | Pie | Red) -> Experiment:
    net = dumbbell(2, Link(1000, 1), Link(20, 10, queue))
    traffic = (
        Flow("h1", "h3", duration_s=0.5),
        Flow("h1", "h3", 200_000, subflows=2, congestion_control="lia"),
        Flow("h2", "h4", 20_000, start_s=0.1, replication="repflow"),
        Requests("h3", ("h1", "h2"), 100, 20_000, 5),
        Datagrams("h2", "h4", 5, 0.5, spacing="poisson"),
    )
    measure = Measure(queues=(("s1", "s2"),), windows_interval_ms=10, packets=(("s1", "s2"),))
    return Experiment(net, traffic, 0.6, measure=measure, tcp=Tcp(control, ecn=True))


def spread() -> Experiment:
    flows = tuple(Flow(f"h{1 + place}", f"h{16 - place}", 50_000) for place in range(8))
    return Experiment(fat_tree(4, Link(100, 0.01, DropTail(packets=50))), flows, 1)


EXPERIMENTS = [
    crowded("cubic", FqCoDel(packets=100)),
    crowded("bbr", CoDel(packets=100)),
    crowded("dctcp", Red(100, 10, 40, 0.1)),
    crowded("reno", Pie(packets=100)),
    crowded("suss", DropTail(packets=30)),
    spread(),
]


def seen(found: Measurements) -> str:
    return "".join(getattr(found, name).to_csv() for name in ("flows", "links", "queues", "windows", "packets"))


def together(call, arguments) -> list:
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(call, arguments))


def test_a_sweep_by_threads_gives_what_its_runs_give_one_by_one() -> None:
    sweep = [replace(experiment, seed=seed) for experiment in EXPERIMENTS for seed in range(TIMES)]
    assert together(lambda each: seen(simulate(each)), sweep) == [seen(simulate(each)) for each in sweep]


def test_threads_may_run_controls_in_python_and_programs_of_hosts() -> None:
    experiment = replace(crowded("my_reno", DropTail(packets=30)), traffic=(Flow("h1", "h3", 100_000),))

    def own(seed: int) -> str:
        return seen(simulate(replace(experiment, seed=seed), congestion_controls={"my_reno": MyReno}))

    def programs(seed: int) -> list[float]:
        hosts = Hosts(replace(experiment, seed=seed, traffic=(), tcp=Tcp("reno")))
        arrivals: list[float] = []
        connection = hosts.connect("h1", "h3", lambda now_s: connection.send(100_000, arrivals.append))
        hosts.at(0.1, lambda now_s: hosts.send("h2", "h4", 5000, arrivals.append))
        hosts.run()
        return arrivals

    for call in (own, programs):
        assert together(call, range(4)) == [call(seed) for seed in range(4)]


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_queues_of_theory_are_simulated_by_threads_too(load: float) -> None:
    def mean(seed: int) -> float:
        return simulate_waits(load, ExponentialService(1.0), jobs=20_000, seed=seed).mean

    assert together(mean, range(4)) == [mean(seed) for seed in range(4)]
