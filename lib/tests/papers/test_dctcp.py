"""DCTCP's queue (Mininet-HiFi section 5.1): the simulated experiment beside hardware, and what must not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers import dctcp as paper
from netrepro.simulation import simulate

SECONDS = 15.0


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(30.0, repetitions=4, seed=7)


def found(case: str, **changed):
    return simulate(paper.experiment(paper.CASES[case], replace(paper.PRINTED, **changed), SECONDS, 3))


def mean_queue(measured) -> float:
    return measured.queues[measured.queues.time_s >= paper.SETTLED_S].queue_packets.mean()


def test_every_claim_is_measured_and_none_of_the_controls_agrees(runs):
    claims = load_claims("dctcp")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        assert judge(claim, measured[claim.id], "simulated").counts
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees"


@pytest.mark.parametrize("threshold", [10, 20, 40, 80])
def test_section_3_1_the_queue_of_dctcp_stays_near_the_marking_threshold(threshold):
    """A packet is marked when it finds K waiting; two senders then overshoot by a packet or so each."""
    measured = found("dctcp", threshold_packets=threshold)
    queue = measured.queues[measured.queues.time_s >= paper.SETTLED_S].queue_packets
    assert 0.7 * threshold <= queue.mean() <= threshold + 2
    assert queue.quantile(0.99) <= threshold + 4


@pytest.mark.parametrize("buffer", [100, 425])
def test_reno_fills_whatever_buffer_there_is_and_halves(buffer):
    measured = found("tcp", buffer_packets=buffer)
    queue = measured.queues[measured.queues.time_s >= paper.SETTLED_S].queue_packets
    assert queue.max() >= buffer - 1
    assert 0.55 * buffer <= queue.mean() <= 0.95 * buffer


def test_goodput_never_exceeds_the_payload_share_of_the_link(runs):
    most_mbps = paper.PRINTED.rate_mbps * 1448 / FULL_PACKET_BYTES * (1 + 1e-4)  # a link's clock may be that fast
    assert (runs.totals.goodput_mbps <= most_mbps).all()
    assert runs.totals[runs.totals.case == "dctcp"].goodput_mbps.min() >= 0.98 * most_mbps


def test_section_3_4_a_threshold_far_below_the_guideline_loses_throughput_and_one_above_does_not():
    """C RTT / 7 is 23.6 packets at 20 ms; DCTCP keeps most of its throughput somewhat below it."""
    table = paper.vary_threshold(SECONDS, 3, thresholds=(1, 24), host_delays_ms=(5.0,)).set_index("threshold_packets")
    assert table.goodput_mbps[1] < 0.7 * table.goodput_mbps[24]
    assert table.goodput_mbps[24] > 0.95 * 100 * 1448 / FULL_PACKET_BYTES


def test_a_port_off_the_rate_fails_the_fidelity_check():
    measured = found("tcp")
    assert paper.check_fidelity(measured).holds.all()
    late = measured.packets.assign(time_s=measured.packets.time_s * 1.02, wait_ms=measured.packets.wait_ms * 1.02)
    checks = paper.check_fidelity(replace(measured, packets=late)).set_index("check").holds
    assert not checks["gaps within 1 %"] and checks["gaps within 10 %"]


def test_where_dctcp_cannot_be_had_only_tcps_claims_are_measured_and_none_counts(runs):
    tcp_only = replace(
        runs,
        queues=runs.queues[runs.queues.case.isin(["tcp", "red"])],
        totals=runs.totals[runs.totals.case.isin(["tcp", "red"])],
        tier="rootless",
    )
    claims = load_claims("dctcp")
    measured = paper.measured_claims(tcp_only)
    assert {each.claim for each in measured} == {"tcp-mean-queue", "tcp-queue-distribution"}
    for each in measured:
        judgement = judge(claims.claim(each.claim), each, "rootless")
        assert judgement.verdict == "agrees" and not judgement.counts
    assert "no DCTCP" in paper.answer(tcp_only)
    for figure in (paper.draw_queues(tcp_only), paper.draw_distributions(tcp_only), paper.draw_control(tcp_only)):
        assert figure.axes


def test_runs_that_fail_a_check_are_untrusted(runs):
    broken = replace(runs, fidelity=runs.fidelity.assign(holds=False))
    claims = load_claims("dctcp")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_the_same_seed_gives_the_same_runs_and_another_seed_others():
    first, again, other = (paper.measure(6.0, repetitions=1, seed=seed).queues for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_the_hardware_table_is_a_distribution():
    table = paper.hardware_queue()
    assert list(table.percentile) == list(range(101))
    for column in ("tcp_packets", "dctcp_packets"):
        assert np.all(np.diff(table[column]) >= 0)


def test_an_experiment_survives_json():
    experiment = paper.experiment(paper.CASES["red"], paper.PRINTED, 10.0, 1)
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_quick_runs_on_real_kernels_are_short_and_few():
    assert (
        paper.duration_s("quick", "rootless") < 10 < paper.duration_s("quick") < paper.duration_s("paper", "rootless")
    )
    assert [paper.repetitions_of("quick", tier, 5) for tier in ("rootless", "simulated")] == [2, 5]
    assert paper.repetitions_of("paper", "rootless", 5) == 5
    assert (paper.settled_s(6.0), paper.settled_s(120.0)) == (2.0, paper.SETTLED_S)


def test_tables_list_a_case_after_the_other_and_of_each_its_repetitions():
    found = paper.measure(3.0, repetitions=2, seed=1)
    listed = [(name, each) for name in paper.CASES for each in range(2)]
    assert list(found.totals[["case", "repetition"]].itertuples(index=False, name=None)) == listed
    assert list(found.queues.drop_duplicates(["case", "repetition"]).case) == [name for name, _ in listed]


def test_an_unknown_profile_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.duration_s("papr")


def test_the_answer_names_the_hardwares_means_which_are_those_of_the_claims(runs):
    claims = load_claims("dctcp")
    dctcp, tcp = (claims.claim(f"{name}-mean-queue").published for name in ("dctcp", "tcp"))
    assert f"(hardware: {dctcp:.1f} and {tcp:.0f})" in paper.answer(runs)
