"""DCell (SIGCOMM 2008): outages against TCP's timer, ends against counted links, and what must not hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.networks.dcell import DCell
from netrepro.networks.experiment import Experiment
from netrepro.papers import dcell as paper
from netrepro.papers.dcell import experiments
from netrepro.papers.dcell.experiments import Setting
from netrepro.paths import data_dir
from netrepro.queueing.backpressure import drain
from netrepro.study import run_experiment

FIG_11 = Setting(timeline_s=(2.0, 5.0, 6.0, 14.0))
LEAST_TIMER_S = 0.2


def measured(setting: Setting, seed: int = 1, tier: str = "simulated"):
    part = paper.STUDY.part_of(setting)
    if part.measure_one is not None:
        return part.measure_one(setting, 0.0, seed, tier)
    asked = part.experiment(setting, 0.0, seed)
    return part.read(run_experiment(asked, tier, until_complete=part.until_complete), setting)


def next_retransmission_s(known_s: float) -> float:
    """Return the time of the first retransmission that finds the new route; the timer doubles from 0.2 s on."""
    return next(at for at in (LEAST_TIMER_S * (2**place - 1) for place in range(1, 12)) if at >= known_s)


@pytest.mark.parametrize("phase", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_an_outage_ends_with_the_first_retransmission_over_the_new_path(phase):
    setting = replace(FIG_11, hello_phase=phase)
    run = measured(setting)
    down = experiments.failures(setting, 1)[2]
    waited_s = next_retransmission_s(down.known_s - down.at_s)
    assert waited_s <= run["node_outage_s"] < waited_s * 1.05 + 0.05  # the timer is a little above 0.2 s
    assert run["link_outage_s"] < LEAST_TIMER_S * 1.05 + 0.05  # known at once
    assert run["new_path_share"] == 1.0
    assert run["detour_share"] == pytest.approx(1.0, abs=0.01)


@given(st.floats(0.0, 0.999), st.floats(0.1, 1.0), st.floats(1.0, 5.0), st.integers(1, 50))
def test_a_link_is_known_at_once_and_a_server_within_the_timeout(phase, hello_s, timeout_s, seed):
    setting = replace(FIG_11, hello_phase=phase, hello_s=hello_s, timeout_s=timeout_s)
    out, back, down = experiments.failures(setting, seed)
    for change in (out, back):
        assert change.known_s == change.at_s
    assert timeout_s - hello_s - 1e-9 <= down.known_s - down.at_s <= timeout_s + 1e-9


def test_the_connection_takes_the_published_paths():
    first, around, back, last = (path for _, path in experiments.known_paths(FIG_11, 1))
    assert first == back == ((0, 0), (0, 3), (4, 0), (4, 3))
    assert experiments.FIRST_SERVER in first and tuple(sorted(experiments.FIRST_LINK)) in pairwise(first)
    assert last == ((0, 0), (1, 0), (1, 3), (4, 1), (4, 3))
    assert tuple(sorted(experiments.FIRST_LINK)) not in pairwise(around)


def test_without_rerouting_the_link_must_come_back_and_the_server_never_does():
    run = measured(replace(FIG_11, reroutes=False))
    assert run["link_outage_s"] == pytest.approx(3.0, abs=0.01) and run["node_outage_s"] > 7.9
    assert run["new_path_share"] == run["detour_share"] == 0.0


def test_silence_is_the_longest_gap_ends_of_the_time_included():
    times_s = np.array([0.0, 2.5, 3.0, 7.0, 7.5, 30.0])
    assert experiments.longest_silence(times_s, 2.0, 8.0) == 4.0
    assert experiments.longest_silence(times_s, 4.0, 6.0) == 2.0
    assert experiments.longest_silence(times_s, 7.0, 20.0) == 12.5


def test_counted_links_are_those_that_were_counted_by_hand():
    table = paper.busiest_links().set_index("network")
    assert table.flows.to_dict() == {
        "DCell": 27,  # a server's port to its mini-switch
        "DCell, processor's limit": 62,  # 19 sent, 19 received, 24 forwarded
        "tree": 64,  # 4 servers, each to 16 others
        "tree, 4 x uplinks": 19,
    }
    assert experiments.ONE_HOP.sum() == 20 and len(experiments.PAIRS) == 380


def test_forwarded_flows_are_those_that_lie_inside_the_paths():
    """A second count of what passes a processor: every server on a path, its ends included."""
    counted = {server: 0 for server in experiments.NETWORK.servers}
    for pair in experiments.PAIRS:
        for server in experiments.NETWORK.route(*pair):
            counted[server] += 1
    of_model = experiments.flows_on_links(experiments.Machines(processor_share=1.07))
    assert counted == {server: of_model[("in", server), ("out", server)] for server in counted}


@pytest.mark.parametrize(
    ("case", "network"),
    [
        ("dcell", "DCell"),
        ("dcell, processor", "DCell, processor's limit"),
        ("tree", "tree"),
        ("tree, 4 x uplinks", "tree, 4 x uplinks"),
        ("dcell, pause", "DCell"),
        ("dcell, pause, processor", "DCell, processor's limit"),
        ("tree, pause", "tree"),
        ("tree, pause, past the head", "tree"),
    ],
)
def test_no_network_ends_before_its_busiest_link_can(case, network):
    setting = paper.STUDY.case(case)
    run = measured(replace(setting, **({"flow_kb": 200} if hasattr(setting, "flow_kb") else {"model_kb": 100})))
    least = paper.busiest_links().set_index("network").least_finish[network]
    assert run["finish"] > 0.999 * least
    if case in ("dcell, processor", "dcell, pause, processor", "tree, pause, past the head", "tree, 4 x uplinks"):
        assert run["finish"] < 1.1 * least  # nothing but that link holds it back


def test_pause_costs_the_tree_what_head_of_line_blocking_of_five_inputs_leaves():
    """About 64 % (Karol, Hluchyj and Morgan 1987; four ports .6553, eight .6184), by the busiest link."""
    run = measured(replace(paper.STUDY.case("tree, pause"), model_kb=150))
    least = paper.busiest_links().set_index("network").least_finish["tree"]
    assert 0.6184 < least / run["finish"] < 0.6753


@settings(max_examples=20)
@given(st.sampled_from(experiments.PAIRS), st.booleans())
def test_ways_of_the_model_are_paths_with_mini_switches_between(pair, has_processor):
    way = experiments.lossless_way(experiments.Machines(processor_share=1.07 if has_processor else 0.0), *pair)
    servers = [node[1] for node in way if node[0] == "out"]
    assert tuple(servers) == experiments.NETWORK.route(*pair)
    assert len(set(way)) == len(way)


@pytest.mark.parametrize("case", ["fig 11", "dcell", "dcell, processor", "tree"])
def test_an_experiment_survives_json(case):
    setting = paper.STUDY.case(case)
    experiment = paper.STUDY.part_of(setting).experiment(setting, 0.0, 1)
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_in_the_model_a_processor_takes_its_servers_own_packets_and_each_ports_by_turns():
    """Two flows through one server, and three of its own: a third of the time an input, not a fifth a flow."""
    ways = [("a", "in", "out", "z1"), ("b", "in", "out", "z2")] + 3 * [("in", "out", "z3")]
    run = drain(ways, 300, window=4, room=8, past_head=("in", "out"), until=300.0)
    arrived = np.bincount(run.of_flow, minlength=5)
    assert arrived[0] == pytest.approx(100, abs=5) and arrived[1] == pytest.approx(100, abs=5)
    assert arrived[2:].sum() == pytest.approx(100, abs=5)


def test_the_measured_curve_of_fig_12_carries_what_the_flows_sent():
    """380 flows of 5 GB."""
    curve = pd.read_csv(data_dir("dcell") / "fig12.csv", comment="#").query("network == 'dcell'")
    assert np.trapezoid(curve.gbps, curve.time_s) / 8 == pytest.approx(380 * 5, rel=0.03)


@needs_virtual
def test_a_linux_stack_waits_as_long_as_the_simulators():
    setting = replace(FIG_11, rate_mbps=20.0, hello_phase=0.3)
    simulated, virtual = (measured(setting, tier=tier) for tier in ("simulated", "virtual"))
    for name in ("node_outage_s", "new_path_share", "before_mbps"):
        assert virtual[name] == pytest.approx(simulated[name], rel=0.05), name
    assert max(virtual["link_outage_s"], simulated["link_outage_s"]) < 0.05  # known at once


def test_a_broadcast_over_failures_reaches_exactly_its_own_part():
    network, random = DCell(2, 2), np.random.default_rng(5)
    for _ in range(20):
        order = [network.servers[place] for place in random.permutation(len(network.servers))]
        failed, alive = order[:12], order[12:]
        hops, _ = network.broadcast(alive[0], failed)
        live = network.graph.subgraph(alive)
        assert hops == dict(nx.single_source_shortest_path_length(live, alive[0]))
