"""TCP Outcast: the networks, what a run says beside other ways to find it, and what must turn round."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.claims import load_claims
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Red
from netrepro.networks.routing import spanning_tree
from netrepro.papers import outcast as paper
from netrepro.papers.outcast import experiments, figures, readings
from netrepro.papers.outcast import study as paper_study
from netrepro.simulation import simulate
from netrepro.study import Runs, Scale, measure, points, read_once

SECONDS, LONGER_S = 0.4, 2.0


def shares(case: str, seeds: int = 8, **changed) -> np.ndarray:
    setting = replace(paper.STUDY.case(case), **changed)
    return np.array([read_once(paper.STUDY, setting, LONGER_S, seed)["near_share"] for seed in range(seeds)])


@pytest.fixture(scope="module")
def few() -> Runs:
    study = replace(paper.STUDY, scales={"quick": Scale(0.2, only={"drops_in_a_row": (0, 5, 6)})}, knobs={})
    return measure(study, repetitions=2, seed=3)


# Networks.


@pytest.mark.parametrize(("hops", "published_ms"), [(2, 0.41), (4, 0.57), (6, 0.75)])
def test_round_trips_are_those_of_fig_2b(hops, published_ms):
    setting = experiments.Setting()
    there_ms = 2 * setting.host_delay_ms + (hops - 2) * setting.hop_delay_ms
    assert 2 * there_ms == pytest.approx(published_ms, abs=0.015)


def test_in_the_fat_tree_one_two_and_twelve_flows_come_over_2_4_and_6_hops_and_in_at_the_published_ports():
    topology, hops = experiments.whole_fat_tree(experiments.Tree())
    tree = spanning_tree(topology, "s17")
    paths = {host: nx.shortest_path(tree, host, experiments.RECEIVER) for host in hops}
    assert {host: f"{len(path) - 1} hops" for host, path in paths.items()} == hops
    last = pd.Series([path[-3] for path in paths.values()]).value_counts()
    assert sorted(last) == [1, 14]
    above = pd.Series([path[-4] for path in paths.values() if len(path) > 3]).value_counts()
    assert sorted(above) == [2, 12]


def test_with_equal_length_routing_every_packet_passes_the_core_and_no_flow_has_a_port_for_itself():
    topology, hops = experiments.equal_length(experiments.Tree())
    paths = {host: nx.shortest_path(topology.graph, host, experiments.RECEIVER) for host in hops}
    assert {len(path) - 1 for path in paths.values()} == {6}
    assert all(path[-4:] == ["s3", "s2", "s1", "h1"] for path in paths.values())
    into_the_core = pd.Series([path[-5] for path in paths.values()]).value_counts()
    assert sorted(into_the_core) == [3, 4, 4, 4]


def test_in_the_figure_with_13_flows_one_comes_over_2_hops_and_the_moved_one_over_the_far_flows_port():
    for case, port in (("13 flows", "h2"), ("13 flows, near moved", "s2")):
        asked = experiments.tree_experiment(paper.STUDY.case(case), SECONDS, 1)
        assert [flow.label for flow in asked.traffic] == [experiments.NEAR] + 12 * [experiments.FAR]
        path = nx.shortest_path(spanning_tree(asked.topology, "s17"), "h2", experiments.RECEIVER)
        last = nx.shortest_path(spanning_tree(asked.topology, "s17"), "h16", experiments.RECEIVER)[-3]
        assert (path[-3] == last) == (port != "h2")


def test_simulations_of_section_5_have_30_packets_of_1040_bytes_at_the_port():
    for case in ("drop tail, ns-2", "red", "sfq", "paced"):
        setting = paper.STUDY.case(case)
        assert setting.port_queue.packets == 30
        sizes = simulate(experiments.experiment(setting, 0.05, 1)).packets.query("destination == 'h1'").size_bytes
        assert sizes.max() == 1040


def test_the_near_flow_moves_behind_the_far_port_and_nothing_else_changes():
    topology, hops = experiments.two_ports(replace(experiments.Setting(), near_moved=True))
    assert topology.graph.has_edge("h2", "s2") and not topology.graph.has_edge("h2", "s1")
    assert hops == experiments.two_ports(experiments.Setting())[1]


def test_reds_upper_threshold_fits_in_its_buffer_but_not_in_the_papers():
    queue = replace(experiments.Setting(), queue="red").port_queue
    assert isinstance(queue, Red) and queue.packets >= 2 * queue.max_threshold_packets
    assert queue.max_threshold_packets * FULL_PACKET_BYTES > experiments.Setting().buffer_bytes
    assert experiments.Setting().port_queue == DropTail(bytes=16_384)


# What is read.


@given(st.lists(st.booleans(), max_size=60))
def test_rows_of_drops_are_those_that_counting_finds(dropped):
    marks = "".join("x" if each else " " for each in dropped)
    lengths, starts = readings.rows_of_drops(np.array(dropped, dtype=bool))
    assert list(lengths) == [len(row) for row in marks.split()]
    assert list(starts) == [place for place in range(len(marks)) if (" " + marks)[place : place + 2] == " x"]


@given(st.lists(st.booleans(), max_size=60), st.randoms(use_true_random=False))
def test_packets_that_were_let_in_are_found_by_when_they_came_at_whatever_time_their_host_took(let_in, random):
    came = 3.0 * np.arange(len(let_in))
    late = np.array([random.random() for _ in let_in])
    assert readings.first_of_each(came, (came + late)[let_in] - 1.0).tolist() == np.flatnonzero(let_in).tolist()


def test_no_packet_is_found_to_be_let_in_twice():
    assert readings.first_of_each(np.arange(4.0), np.array([0.5, 0.6, 2.5, 3.5])).tolist() == [1, 2, 3]


@pytest.mark.parametrize("case", ["drop tail", "drop tail, ns-2", "red", "paced"])
def test_drops_that_are_found_by_input_port_are_as_many_as_the_port_counts(case):
    setting = paper.STUDY.case(case)
    run = simulate(experiments.experiment(setting, SECONDS, 2))
    table = readings.arrivals(run, experiments.inputs(setting))
    counted = run.links_by_port.dropped_packets[experiments.PORT]
    assert counted > 100
    assert table.dropped.sum() == pytest.approx(counted, abs=12)  # what the queue holds at the end


def test_a_packet_that_never_left_is_found_to_be_dropped_at_its_port():
    setting = paper.STUDY.case("drop tail")
    run = simulate(experiments.experiment(setting, 0.1, 2))
    before = readings.arrivals(run, experiments.inputs(setting))
    left = run.packets[(run.packets.source == "s1") & (run.packets.destination == "h1")]
    near = left.index[left.flow == 0][5]
    after = readings.arrivals(replace(run, packets=run.packets.drop(index=near)), experiments.inputs(setting))
    more = after.groupby("port").dropped.sum() - before.groupby("port").dropped.sum()
    assert dict(more) == {experiments.NEAR: 1, experiments.FAR: 0}


def test_the_longest_row_begins_at_no_time_and_holds_as_many_drops_as_counting_all_arrivals_finds():
    setting = paper.STUDY.case("drop tail")
    run = simulate(experiments.experiment(setting, SECONDS, 2))
    reading, table = readings.read(run, setting), readings.arrivals(run, experiments.inputs(setting))
    near = table[(table.port == experiments.NEAR) & (table.time_s >= experiments.SETTLED_S)].dropped
    assert reading["longest_row"] == readings.rows_of_drops(near.to_numpy())[0].max() > 1
    shown = reading["timeline"].query("port == @experiments.NEAR")
    assert shown.dropped[shown.time_ms == 0].all() and len(shown[shown.time_ms == 0]) == 1
    before = shown[shown.time_ms < 0].dropped
    assert not before.tail(1).any()


def test_where_ports_cannot_be_told_apart_drops_are_no_numbers_and_no_checks():
    for case in ("near moved", "fat-tree"):
        setting = paper.STUDY.case(case)
        part = paper.STUDY.part_of(setting)
        reading = part.read(simulate(part.experiment(setting, 0.1, 1)), setting)
        assert np.isnan(reading.numbers.get("longest_row", np.nan)) and "timeline" not in reading
        assert all(check.holds for check in reading.checks)


# A port that is on and off.


@pytest.mark.parametrize(("packets", "apart"), [(1, False), (6, False), (6, True)])
def test_a_busy_port_loses_just_the_packets_it_should(packets, apart):
    setting = replace(paper.STUDY.case("rows, apart"), far_flows=3, drops_in_a_row=packets, drops_apart=apart)
    lost = simulate(experiments.on_and_off_experiment(setting, SECONDS, 1)).links_by_port.loc[("s2", "s3")]
    rows = len(np.arange(experiments.SETTLED_S, experiments.ROWS_TIMES_LONGER * SECONDS - 1e-3, experiments.ON_S))
    assert lost.dropped_packets + lost.lost_packets == pytest.approx(rows * packets, rel=0.06)


def test_a_port_that_is_always_on_changes_nothing():
    assert experiments.changes(replace(paper.STUDY.case("rows"), drops_in_a_row=0), 1.0) == ()


def test_rows_of_drops_stop_reno_of_1990_and_not_a_sender_with_sack():
    def share(case: str) -> float:
        mbps = [
            read_once(paper.STUDY, replace(paper.STUDY.case(case), far_flows=1, drops_in_a_row=packets), 1.0)[
                "total_mbps"
            ]
            for packets in (6, 0)
        ]
        return mbps[0] / mbps[1]

    assert share("rows, reno, 200 ms") < 0.2 < 0.8 < share("rows")


# What must turn round.


def test_the_near_flow_is_the_outcast_and_with_red_it_wins():
    assert (shares("drop tail") < 0.6).all()  # the virtual kernel's: 0.43 to 0.57
    assert (shares("red") > 1.3).all()


def test_behind_the_far_flows_port_the_near_flow_is_no_outcast():
    assert np.median(shares("near moved")) > 2 * np.median(shares("drop tail"))


def test_in_a_parking_lot_the_nearest_of_six_senders_gets_least_and_behind_the_next_switch_far_more():
    """Mininet-HiFi, section 6.3, without a number."""
    setting = paper.STUDY.case("parking lot, 6")
    topology, hops = experiments.parking_lot(setting)
    paths = {host: nx.shortest_path(topology.graph, host, experiments.RECEIVER) for host in hops}
    assert [len(path) for path in paths.values()] == [4, 5, 6, 7, 8, 9] and hops["h2"] == experiments.NEAR
    into_second = [path[path.index("s2") - 1] for path in paths.values()]
    assert sorted(into_second) == ["h2", *["s3"] * 5]
    run = simulate(experiments.lot_experiment(setting, LONGER_S, 1)).flows
    assert run.goodput_mbps.idxmin() == 0 and run.source[0] == "h2"
    moved = shares("parking lot, 6, near moved")
    assert np.median(shares("parking lot, 6")) < 0.7 < np.median(moved)


def test_beside_two_others_in_a_parking_lot_the_nearest_sender_is_no_outcast():
    assert np.median(shares("parking lot, 3")) > 0.8


def test_where_hosts_take_up_to_a_packets_time_the_flows_over_4_hops_lose_too():
    def middle(**hosts: float) -> float:
        setting = replace(paper.STUDY.case("fat-tree"), **hosts)
        runs = (read_once(paper.STUDY, setting, SECONDS, seed) for seed in range(5))
        return float(np.median([reading["middle_share"] for reading in runs]))

    assert middle() < 0.7 < middle(host_delay_packets=0.0)


# The study.


def test_every_claim_is_measured_in_the_simulator_and_rows_are_left_out_in_virtual_time(few):
    claims = {claim.id for claim in load_claims("outcast").claims}
    assert {each.claim for each in few.measured_claims()} == claims == set(paper.STUDY.claims)
    without = list(points(paper_study.CASES, experiments.Setting(), paper.STUDY.scale("quick", "virtual")))
    assert {point.case for point in without} == {case for case in paper_study.CASES if not case.startswith("rows")}


def test_where_rows_were_not_measured_tables_and_figures_do_without(few):
    study = replace(paper.STUDY, scales={"quick": Scale(0.1, only=paper_study.NOT_IN_ROWS)})
    runs = measure(study, repetitions=2, seed=3)
    assert runs.swept == [] and list(runs.summary().index) == [case for case in paper_study.CASES if "rows" not in case]
    measured = {each.claim for each in runs.measured_claims()}
    assert set(paper.STUDY.claims) - measured == {"one-flow-collapses", "many-flows-survive"}
    texts = [text.get_text() for axis in paper.STUDY.figures["rows_of_drops"](runs).axes for text in axis.texts]
    assert [text for text in texts if not text.isdigit()] == ["not measured on the simulated tier"] * 3
    assert few.swept == ["far_flows", "drops_in_a_row"]


def test_published_numbers_in_figures_are_those_of_the_claims():
    claims = load_claims("outcast")
    by_claim = {"13 flows": "near-flow-outcast", "red": "red-turns-it", "sfq": "sfq-fair", "paced": "pacing-partial"}
    assert {case: claims.claim(claim).published for case, claim in by_claim.items()} == experiments.PUBLISHED_SHARES
    published = experiments.FAT_TREE_MBPS
    near, middle = (published[hops] / published[experiments.FAR] for hops in (experiments.NEAR, experiments.MIDDLE))
    assert near == pytest.approx(claims.claim("fat-tree-2-hops").published, abs=0.001)
    assert middle == pytest.approx(claims.claim("fat-tree-4-hops").published, abs=0.001)


def test_figures_show_every_seed_and_the_answer_both_queues(few):
    dots = figures.draw_shares(few, "remedies").axes[0].lines
    assert sum(len(line.get_xdata()) for line in dots if line.get_marker() == "o") == 4 * few.repetitions
    for name, draw in paper.STUDY.figures.items():
        if not name.startswith("knob"):
            assert draw(few).axes
    answer = paper.answer(few)
    assert "drop-tail" in answer and "RED" in answer and "nan" not in answer
