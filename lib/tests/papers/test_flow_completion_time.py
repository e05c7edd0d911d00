"""Flow-completion time (Dukkipati and McKeown, CCR 2006): closed forms, exact processor sharing, and the claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers import flow_completion_time as paper
from netrepro.simulation import simulate

SLOWER = replace(paper.PRINTED, rate_mbps=600.0)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(12.0, repetitions=2, seed=3, setting=SLOWER)


def test_every_claim_is_measured_and_none_of_the_controls_agrees(runs):
    claims = load_claims("flow_completion_time")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees", claim.id


def test_rcp_is_near_processor_sharing_and_faster_than_tcp(runs):
    table = runs.summary
    assert table.all_ms["RCP"] < 1.2 * table.processor_sharing_ms["RCP"]
    assert table.all_ms["TCP"] > 2 * table.all_ms["RCP"]


@pytest.mark.parametrize("packets", [1, 3, 7, 31, 127, 511])
def test_one_tcp_flow_alone_takes_what_slow_start_takes(packets):
    """Windows that are full to the last packet, where the formula is exact but for the packets' own times."""
    link = Link(2400.0, 24.5, DropTail(packets=20_000))
    network = dumbbell(1, Link(24_000.0, 12.75, DropTail(packets=20_000)), link)
    tcp = Tcp("reno", initial_window_segments=1, delayed_ack_ms=0.0, receive_window_bytes=2**30)
    flow = Flow("h1", "h2", size_bytes=packets * paper.SEGMENT_BYTES)
    found = simulate(Experiment(network, (flow,), 5.0, tcp=tcp)).flows
    expected_ms = 1e3 * paper.slow_start_s(packets)
    assert found.completion_ms[0] == pytest.approx(expected_ms, rel=0.01)


def test_a_first_window_that_holds_the_flow_leaves_one_and_a_half_round_trips():
    wide = replace(paper.PRINTED, initial_window_segments=64)
    assert paper.slow_start_s(10, wide) == pytest.approx(0.15 + 10 / wide.packets_per_s)


def test_processor_sharing_of_two_overlapping_flows_is_worked_out_by_hand():
    # The first alone for 1 s, both for 4 s at half speed (it leaves at 5), the second alone for 1 s.
    assert paper.share_processor([0.0, 1.0], [3.0, 3.0]) == pytest.approx([5.0, 5.0])
    assert paper.share_processor([0.0, 10.0], [3.0, 2.0]) == pytest.approx([3.0, 2.0])


@settings(max_examples=40, deadline=None)
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
    tables = [paper.experiment(case, SLOWER, 100.0, 7).flow_table for case in paper.CASES.values()]
    assert all((table["size_bytes"] == tables[0]["size_bytes"]).all() for table in tables)
    wire = tables[0]["size_bytes"].sum() * 1514 / 1448 * 8e-6
    assert wire / 75.0 / SLOWER.rate_mbps == pytest.approx(0.9, rel=0.05)


def test_active_flows_are_counted_and_follow_littles_law(runs):
    rows = runs.flows[(runs.flows.case == "RCP") & (runs.flows.repetition == 0)]
    times = np.linspace(0, rows["start_s"].max() + rows["completion_s"].max(), 20_001)
    counted = np.trapezoid(paper.active_flows(rows, times), times)
    assert counted == pytest.approx(rows["completion_s"].sum(), rel=0.01)


def test_the_slower_link_of_the_tiers_has_the_load_and_tcp_is_no_faster_than_slow_start_there():
    """Where nothing is lost a flow takes slow start's time; losses and queues only add to the mean."""
    by_tier = paper.measure_by_tier(paper.Scale(1.0, 1.0, 12.0), 2, 3)
    table, flows = paper.tier_table(by_tier), by_tier["simulated"].flows
    assert table["trusted"].to_dict() == {"simulated": True} and table["flows"].to_dict() == {"simulated": len(flows)}
    wire_mbit = flows["packets"].sum() * 1514 * 8e-6
    assert wire_mbit / (2 * 0.75 * 12.0) / paper.REAL_RATE_MBPS == pytest.approx(0.9, rel=0.25)
    slower = replace(paper.PRINTED, rate_mbps=paper.REAL_RATE_MBPS)
    expected_s = paper.slow_start_s(flows["packets"].to_numpy(), slower).mean()
    assert 0.95 * expected_s < flows["completion_s"].mean() < 3 * expected_s


@needs_virtual
def test_the_virtual_kernel_carries_the_same_flows_and_is_no_faster_than_light():
    by_tier = paper.measure_by_tier(paper.Scale(1.0, 1.0, 4.0), 1, 3, tier="virtual")
    simulated, real = (by_tier[tier].flows for tier in ("simulated", "virtual"))
    assert simulated["packets"].tolist() == real["packets"].tolist()
    checks = by_tier["virtual"].fidelity.groupby("check")["holds"].all()
    assert checks["flows faster than light and link"]
    # A flow of one packet needs its handshake and its way, whoever carries it.
    assert real["completion_s"].min() == pytest.approx(simulated["completion_s"].min(), rel=0.01)
    assert real["completion_s"].mean() == pytest.approx(simulated["completion_s"].mean(), rel=0.1)


def test_no_claim_is_measured_on_kernels_which_have_no_rcp(runs):
    assert paper.measured_claims(runs, "virtual") == []


def test_bins_of_sizes_lose_no_flow(runs):
    table = paper.by_size(runs.flows)
    assert table.groupby("case")["flows"].sum().to_dict() == runs.flows.groupby("case").size().to_dict()


def test_a_run_that_fails_a_check_is_untrusted(runs):
    broken = replace(runs, fidelity=runs.fidelity.assign(holds=False))
    claims = load_claims("flow_completion_time")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_the_same_seed_gives_the_same_flows_and_times():
    first, again = (paper.run(paper.CASES["RCP"], SLOWER, 2.0, 5)[0] for _ in range(2))
    pd.testing.assert_frame_equal(first, again)


def test_an_unknown_profile_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
