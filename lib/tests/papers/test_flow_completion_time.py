"""Flow-completion time (Dukkipati and McKeown, CCR 2006): closed forms, exact processor sharing, and the claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.networks.experiment import Experiment
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers import flow_completion_time as paper
from netrepro.simulation import simulate
from netrepro.study import points as points_of
from netrepro.study import run_experiment

SLOWER = replace(paper.PRINTED, rate_mbps=600.0)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """The flows of one run, by case."""
    found = {}
    for case in ("TCP", "RCP"):
        setting = replace(SLOWER, **paper.STUDY.cases[case])
        found[case] = paper.flow_table(simulate(paper.experiment(setting, 12.0, 3)), setting)
    return found


def test_rcp_is_near_processor_sharing_and_faster_than_tcp(tables):
    means = {case: table["completion_s"].mean() for case, table in tables.items()}
    assert means["RCP"] < 1.2 * tables["RCP"]["ideal_s"].mean()
    assert means["TCP"] > 2 * means["RCP"]


def test_xcp_keeps_the_queue_short_and_has_flows_wait_all_the_same():
    numbers = {}
    for case in ("TCP", "RCP", "XCP"):
        setting = replace(SLOWER, **paper.STUDY.cases[case])
        run = simulate(paper.experiment(setting, 6.0, 3))
        numbers[case] = paper.read(run, setting).numbers
    xcp = numbers["XCP"]
    assert xcp["dropped_share"] == 0 and xcp["queue_packets"] < 0.1 * numbers["TCP"]["queue_packets"]
    assert xcp["small_ms"] > 1.5 * numbers["RCP"]["small_ms"]
    assert xcp["processor_sharing_ms"] == numbers["RCP"]["processor_sharing_ms"]  # the same flows


@pytest.mark.parametrize("packets", [1, 3, 7, 31, 127, 511])
def test_one_tcp_flow_alone_takes_what_slow_start_takes(packets):
    """Windows that are full to the last packet, where the formula is exact but for the packets' own times."""
    link = Link(2400.0, 24.5, DropTail(packets=20_000))
    network = dumbbell(1, Link(24_000.0, 12.75, DropTail(packets=20_000)), link)
    tcp = Tcp("reno", 1, paper.SEGMENT_BYTES, delayed_ack_ms=0.0, receive_window_bytes=2**30)
    flow = Flow("h1", "h2", size_bytes=packets * paper.SEGMENT_BYTES)
    found = simulate(Experiment(network, (flow,), 5.0, tcp=tcp)).flows
    expected_ms = 1e3 * paper.slow_start_s(packets, replace(paper.PRINTED, initial_window_segments=1))
    assert found.completion_ms[0] == pytest.approx(expected_ms, rel=0.01)


def test_a_first_window_that_holds_the_flow_leaves_one_and_a_half_round_trips():
    wide = replace(paper.PRINTED, initial_window_segments=64)
    assert paper.slow_start_s(10, wide) == pytest.approx(0.15 + 10 / wide.packets_per_s)


def test_processor_sharing_of_two_overlapping_flows_is_worked_out_by_hand():
    # The first alone for 1 s, both for 4 s at half speed (it leaves at 5), the second alone for 1 s.
    assert paper.share_processor([0.0, 1.0], [3.0, 3.0]) == pytest.approx([5.0, 5.0])
    assert paper.share_processor([0.0, 10.0], [3.0, 2.0]) == pytest.approx([3.0, 2.0])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5)), min_size=1, max_size=12))
def test_processor_sharing_agrees_with_a_simulation_in_small_steps(flows):
    starts, work = (np.array(column) for column in zip(*sorted(flows), strict=True))
    left, ends, step = work.copy(), np.full(len(work), np.nan), 0.01
    for now in np.arange(0, starts[-1] + work.sum() + 1, step):
        present = (starts <= now) & (left > 0)
        if present.any():
            left[present] -= step / present.sum()
            ends[present & (left <= 0)] = now + step
    assert paper.share_processor(starts, work) == pytest.approx(ends - starts, abs=0.3)


def test_processor_sharing_of_poisson_flows_has_the_mean_of_its_closed_form():
    random = np.random.default_rng(5)
    starts = np.cumsum(random.exponential(1.0, 200_000))
    work = random.exponential(0.6, len(starts))
    stay = paper.share_processor(starts, work)
    assert stay.mean() == pytest.approx(0.6 / (1 - 0.6), rel=0.05)
    large = work > 1.0  # proportional to size: the mean stay of a size is size / (1 - load)
    assert stay[large].mean() == pytest.approx(work[large].mean() / (1 - 0.6), rel=0.05)


@pytest.mark.parametrize(("mean", "shape"), [(30.0, 1.4), (25.0, 1.2), (30.0, 1.8)])
def test_sizes_have_the_wanted_mean_and_tail(mean, shape):
    sizes = paper.flow_sizes(replace(paper.PRINTED, mean_packets=mean, shape=shape)).in_packets()
    assert sizes.mean == pytest.approx(mean, rel=1e-3)
    drawn = sizes.sample(np.random.default_rng(1), 400_000)
    tail = [np.mean(drawn > limit) for limit in (100, 1000)]
    assert np.log10(tail[0] / tail[1]) == pytest.approx(shape, abs=0.15)


def test_every_case_sees_the_same_flows_and_they_offer_the_wanted_load():
    ended = replace(SLOWER, longest_packets=1000.0)  # so that a few flows do not make the load
    settings = [paper.STUDY.case(case, ended) for case in ("TCP", "RCP", "XCP", paper.WITHOUT_FEEDBACK)]
    tables = [paper.experiment(each, 100.0, 7).flow_table for each in settings]
    assert all((table["size_bytes"] == tables[0]["size_bytes"]).all() for table in tables)
    wire = tables[0]["size_bytes"].sum() * 1000 / 934 * 8e-6
    assert wire / 75.0 / SLOWER.rate_mbps == pytest.approx(0.9, rel=0.05)


def test_active_flows_are_counted_and_follow_littles_law(tables):
    rows = tables["RCP"]
    times = np.linspace(0, rows["start_s"].max() + rows["completion_s"].max(), 20_001)
    for column in ("completion_s", "ideal_s"):
        counted = np.trapezoid(paper.active_flows(rows, times, column), times)
        assert counted == pytest.approx(rows[column].sum(), rel=0.01)


def test_a_flow_larger_than_link_and_buffer_fills_the_buffer_and_one_that_fits_does_not():
    """The authors' sizes are of both kinds; sizes up to 20,000 packets are not, on their link. Hosts must be faster
    than the link, as a sender's own port would hold the queue otherwise."""
    setting, most = replace(SLOWER, load=0.01), {}
    for packets in (5_000, 60_000):
        asked = paper.experiment(setting, 30.0, 1)
        alone = Flow("h1", "h11", size_bytes=packets * paper.SEGMENT_BYTES)
        found = simulate(replace(asked, traffic=(alone,)))
        most[packets] = found.queues["queue_packets"].max(), found.links["dropped_packets"].sum()
    assert most[5_000][1] == 0 and most[5_000][0] < 0.9 * setting.buffer_packets
    assert most[60_000][1] > 0 and most[60_000][0] >= 0.99 * setting.buffer_packets


def test_the_slower_link_of_the_tiers_has_the_load_and_tcp_is_no_faster_than_slow_start_there():
    """Where nothing is lost a flow takes slow start's time; losses and queues only add to the mean."""
    setting = replace(paper.STUDY.case(paper.SLOWER), longer=1.0)
    flows = paper.flow_table(simulate(paper.experiment(setting, 24.0, 3)), setting)
    wire_mbit = flows["packets"].sum() * paper.PACKET_BYTES * 8e-6
    assert 0.5 < wire_mbit / (0.75 * 24.0) / setting.rate_mbps < 1.5  # such sizes scatter
    expected_s = paper.slow_start_s(flows["packets"].to_numpy(), setting).mean()
    assert 0.95 * expected_s < flows["completion_s"].mean() < 3 * expected_s
    assert (flows["completion_s"] > 0.999 * flows["least_s"]).all()


@needs_virtual
def test_the_virtual_kernel_carries_the_same_flows_and_is_no_faster_than_light():
    setting = replace(paper.STUDY.case(paper.SLOWER), longer=1.0)
    asked = paper.experiment(setting, 4.0, 3)
    simulated, real = (paper.flow_table(run_experiment(asked, tier), setting) for tier in ("simulated", "virtual"))
    assert simulated["packets"].tolist() == real["packets"].tolist()
    assert (real["completion_s"] > 0.99 * real["least_s"]).all()
    # A flow of few packets needs its rounds, whoever carries it.
    assert real["completion_s"].min() == pytest.approx(simulated["completion_s"].min(), rel=0.01)
    assert real["completion_s"].mean() == pytest.approx(simulated["completion_s"].mean(), rel=0.1)


@needs_virtual
def test_kernels_measure_tcp_on_the_slower_link_and_no_claim_as_they_have_no_rcp():
    points = {point.case: point for point in points_of(paper.STUDY.cases, paper.PRINTED)}
    able = [case for case, point in points.items() if not paper.STUDY.why_not(point, "virtual")]
    assert able == [paper.SLOWER]
    assert not any(paper.SLOWER in evidence.case_names for evidence in paper.STUDY.claims.values())


def test_bins_of_sizes_lose_no_flow(tables):
    for table in tables.values():
        assert paper.by_size(table)["flows"].sum() == len(table)


def test_the_checks_fail_for_flows_faster_than_light_and_for_flows_that_never_finish():
    setting = replace(SLOWER, rate_mbps=50.0)
    found = simulate(paper.experiment(setting, 3.0, 1))
    assert all(check.holds for check in paper.read(found, replace(setting)).checks[:1])
    fast = replace(found, flows=found.flows.assign(completion_ms=100.0))
    late = replace(found, flows=found.flows.assign(completion_ms=np.nan))
    assert [check.holds for check in paper.read(fast, setting).checks] == [False, True]
    assert [check.holds for check in paper.read(late, setting).checks] == [True, False]


def test_as_the_scripts_end_only_finished_flows_count_and_flows_start_until_the_end():
    setting = replace(SLOWER, as_scripts_end=True)
    run = simulate(paper.experiment(setting, 3.0, 1))
    finished = run.flows["completion_ms"].notna()
    assert run.flows["start_s"].max() > 2.8 and not finished.all()
    numbers = paper.read(run, setting).numbers
    assert numbers["all_ms"] == pytest.approx(run.flows["completion_ms"][finished].mean())


def test_the_window_is_whole_from_the_start_and_a_lost_syn_waits_for_three_seconds():
    tcp = paper.experiment(paper.PRINTED, 1.0, 1).tcp
    assert (tcp.initial_window_segments, tcp.initial_rto_ms, tcp.min_rto_ms) == (2, 3000.0, 200.0)
    assert tcp.receive_window_bytes == 4 * paper.PRINTED.buffer_packets * tcp.segment_bytes
    assert not tcp.receive_window_grows
