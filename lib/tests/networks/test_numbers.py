"""Numbers of NumPy are numbers, flags are flags, names survive."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    Link,
    Measure,
    PoissonFlows,
    Red,
    Tcp,
    bandwidth_delay_packets,
    dumbbell,
    fat_tree,
    from_graph,
    jellyfish,
    leaf_spine,
    names_of_switches,
    star,
)
from netrepro.networks.description import from_json, to_json
from netrepro.networks.flow_sizes import FlowSizeDistribution, empirical_flow_sizes
from netrepro.papers import misbehaving_receiver
from netrepro.simulation import Hosts, simulate
from netrepro.study import read_once

EIGHT, HALF = np.int64(8), np.float32(0.5)
PLAIN = Link(8, 8)


@pytest.mark.parametrize(
    ("of_numpy", "of_python"),
    [
        (lambda: Flow("h1", "h2", EIGHT, start_s=HALF), lambda: Flow("h1", "h2", 8, start_s=0.5)),
        (lambda: DropTail(packets=np.uint16(8)), lambda: DropTail(packets=8)),
        (lambda: Link(EIGHT, HALF, loss=np.float16(0.5)), lambda: Link(8, 0.5, loss=0.5)),
        (lambda: Tcp(pacing_ratio=HALF, sack=np.bool_(False)), lambda: Tcp(pacing_ratio=0.5, sack=False)),
        (lambda: Datagrams("h1", "h2", EIGHT, HALF), lambda: Datagrams("h1", "h2", 8, 0.5)),
        (lambda: Experiment(star(2, PLAIN), [], HALF, seed=EIGHT), lambda: Experiment(star(2, PLAIN), [], 0.5, seed=8)),
        (lambda: Measure(queue_interval_ms=EIGHT), lambda: Measure(queue_interval_ms=8)),
    ],
)
def test_a_number_of_numpy_describes_what_the_same_number_of_python_does(of_numpy: Any, of_python: Any) -> None:
    assert of_numpy() == of_python() and hash(of_numpy()) == hash(of_python())
    assert to_json(of_numpy()) == to_json(of_python())
    assert from_json(to_json(of_numpy())) == of_python()


@pytest.mark.parametrize("numbers", [("10", 1), (10, 0), (10, 1, -1), (float("inf"), 1), (True, 1)])
def test_the_packets_of_a_path_need_positive_numbers(numbers: Any) -> None:
    assert bandwidth_delay_packets(12, 10, 1500) == 10
    with pytest.raises(NetreproError, match="give a number above 0"):
        bandwidth_delay_packets(*numbers)


def test_networks_take_numbers_of_numpy() -> None:
    two, four = np.int64(2), np.int32(4)
    assert star(four, PLAIN) == star(4, PLAIN)
    assert dumbbell(two, PLAIN, PLAIN) == dumbbell(2, PLAIN, PLAIN)
    assert fat_tree(four, PLAIN) == fat_tree(4, PLAIN)
    assert leaf_spine(two, two, two, PLAIN, PLAIN) == leaf_spine(2, 2, 2, PLAIN, PLAIN)
    assert jellyfish(np.int64(8), four, two, PLAIN, EIGHT) == jellyfish(8, 4, 2, PLAIN, 8)
    assert jellyfish(8, 4, np.full(8, 2), PLAIN, 8) == jellyfish(8, 4, 2, PLAIN, 8)
    ring = nx.cycle_graph(4)
    assert from_graph(ring, PLAIN, two) == from_graph(ring, PLAIN, 2) == from_graph(ring, PLAIN, np.full(4, 2))


@pytest.mark.parametrize("counts", [[1, 1, 1.5, 1], [1, 1, "1", 1], [1, 1, -1, 1]])
def test_hosts_of_a_switch_are_a_whole_number(counts: list[Any]) -> None:
    with pytest.raises(NetreproError, match=r"hosts of a switch = .*\n.*whole number of 0 or more"):
        from_graph(nx.cycle_graph(4), PLAIN, counts)


@pytest.mark.parametrize("wrong", [np.float64(1.5), np.nan, np.bool_(True), True, "1", np.array([1])])
def test_what_is_no_whole_number_is_refused(wrong: Any) -> None:
    with pytest.raises(NetreproError, match="give a whole number"):
        Experiment(star(2, PLAIN), [], 1, seed=wrong)


@pytest.mark.parametrize("wrong", [np.float32("nan"), np.inf, np.bool_(True), "1", 1j])
def test_what_is_no_finite_number_is_refused(wrong: Any) -> None:
    with pytest.raises(NetreproError, match="give a finite number"):
        Link(wrong, 1)


@pytest.mark.parametrize("wrong", ["no", "", 0, 1, None])
def test_a_flag_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(NetreproError, match=r"Tcp: sack = .*\n.*True or False"):
        Tcp(sack=wrong)
    with pytest.raises(NetreproError, match=r"Red: ecn = .*\n.*True or False"):
        Red(100, 10, 20, ecn=wrong)


def test_names_of_a_graphs_nodes_lead_to_its_switches() -> None:
    graph = nx.Graph([("Seattle", "Denver"), ("Denver", "Chicago")])
    switches = names_of_switches(graph)
    assert switches == {"Seattle": "s1", "Denver": "s2", "Chicago": "s3"}
    network = from_graph(graph, PLAIN)
    for first, second in graph.edges:
        assert network.link(switches[first], switches[second]) == PLAIN


def test_a_last_probability_that_rounds_to_one_is_shown_as_it_is() -> None:
    with pytest.raises(NetreproError, match=r"the last probability is 0\.99999999999, not 1"):
        FlowSizeDistribution(((1.0, 0.0), (2.0, 0.99999999999)), "bytes", "mine")


def test_a_study_measures_with_numbers_of_numpy() -> None:
    of_numpy, of_python = (
        replace(misbehaving_receiver.Setting(), document_bytes=size, rate_mbps=rate)
        for size, rate in ((np.int64(30_000), np.float32(50)), (30_000, 50.0))
    )
    read = (
        read_once(misbehaving_receiver.STUDY, setting, seconds, seed)
        for setting, seconds, seed in ((of_numpy, np.float32(20), np.int64(3)), (of_python, 20.0, 3))
    )
    assert next(read).numbers == next(read).numbers


def test_simulators_take_numbers_of_numpy() -> None:
    flows = [Flow("h1", "h2", np.int32(10_000)), Flow("h2", "h1", EIGHT)]
    asked = Experiment(star(np.uint8(2), PLAIN), flows, EIGHT, clock_skew_ppm=HALF)
    late = simulate(asked, start_after={np.int64(1): np.int64(0)})
    assert late.flows["completion_ms"].notna().all()
    followed = simulate(replace(asked, measure=Measure(deliveries=np.int64(0), since_s=HALF)))
    assert followed.deliveries["delivered_bytes"].iloc[-1] == 10_000
    hosts = Hosts(asked, most_connections=np.uint8(1))
    heard: list[float] = []
    hosts.at(HALF, lambda now_s: hosts.send("h1", "h2", np.int64(100), heard.append))
    connection = hosts.connect("h1", "h2", lambda now_s: connection.send(np.uint8(100), heard.append))
    hosts.run(np.float32(1.5))
    assert len(heard) == 2


# What flows get.

SMALL = empirical_flow_sizes([1000])


def test_datagrams_above_the_lines_rate_get_the_lines_rate() -> None:
    found = simulate(Experiment(star(2, Link(10, 1)), [Datagrams("h1", "h2", 100, duration_s=1)], 6))
    flow = found.flows.iloc[0]
    assert 9.9 < flow["goodput_mbps"] <= 10
    assert flow["delivered_bytes"] * 8e-6 > 20  # what had been queued came later


def test_an_unfinished_flow_has_its_goodput_over_the_whole_time() -> None:
    found = simulate(Experiment(star(2, Link(1, 1)), [Flow("h1", "h2", duration_s=0.5)], 0.55))
    flow = found.flows.iloc[0]
    assert np.isnan(flow["completion_ms"])  # some of what it had handed over is still under way
    assert 0.5 < flow["goodput_mbps"] <= 1
    assert flow["goodput_mbps"] == pytest.approx(flow["delivered_bytes"] * 8e-6 / 0.55)


def test_flows_that_start_after_the_end_are_counted_and_have_no_goodput() -> None:
    asked = Experiment(star(4, Link(10, 1)), [PoissonFlows(SMALL, 10, 1000)], 5)
    with pytest.warns(UserWarning, match="9.. of 1000 flows start after the end"):
        found = simulate(asked)
    started = found.flows["start_s"] < 5
    late = found.fidelity.set_index("check").loc["flows that start after the end"]
    assert late["value"] == (~started).sum() > 900 and late["holds"]
    assert found.flows["goodput_mbps"][~started].isna().all()
    assert (found.flows["goodput_mbps"][started] > 0).all()


def test_the_few_that_chance_puts_after_the_end_are_counted_without_a_warning() -> None:
    found = simulate(Experiment(star(4, Link(10, 1)), [PoissonFlows(SMALL, 20, 100)], 5, seed=4))
    late = found.fidelity.set_index("check").loc["flows that start after the end"]
    assert late["value"] > 0 and late["holds"]


def test_of_flows_that_all_start_nothing_is_said(recwarn: pytest.WarningsRecorder) -> None:
    found = simulate(Experiment(star(4, Link(10, 1)), [PoissonFlows(SMALL, 100, 10)], 5))
    assert not recwarn.list and "flows that start after the end" not in set(found.fidelity["check"])


def test_measurements_are_shown_in_a_line() -> None:
    found = simulate(Experiment(star(2, Link(10, 1)), [Flow("h1", "h2", 100_000)], 5))
    assert repr(found) == "Measurements(star of 2 hosts, simulated, rows of flows: 1, links: 4, trusted=True)"


# Pairs of hosts.


@pytest.mark.parametrize(
    "ends", [((), ()), (("h1", "h2"), ("h2", "h3", "h4")), (("h1", "h1", "h2"), ("h2", "h1", "h1"))]
)
def test_pairs_of_hosts_are_even_and_those_of_the_whole_table(ends: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    network = star(4, Link(10, 1))
    flows = Experiment(network, [PoissonFlows(SMALL, 1e6, 2000, *ends)], 5).flow_table
    sources, destinations = (np.array(names or network.hosts) for names in ends)
    first, second = np.nonzero(sources[:, None] != destinations[None, :])
    drawn = np.random.Generator(np.random.PCG64(np.random.SeedSequence([1, 0, 2]))).integers(0, len(first), 2000)
    assert flows["source"].tolist() == sources[first[drawn]].tolist()
    assert flows["destination"].tolist() == destinations[second[drawn]].tolist()


def test_flows_among_27_648_hosts_need_no_table_of_their_pairs() -> None:
    names = tuple(f"h{i + 1}" for i in range(48**3 // 4))
    network = star(2, Link(10, 1))
    object.__setattr__(network, "hosts", names)
    flows = Experiment(network, [PoissonFlows(SMALL, 1e6, 1000)], 5).flow_table
    assert (flows["source"] != flows["destination"]).all()
    assert flows["source"].nunique() > 900
