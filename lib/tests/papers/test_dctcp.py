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
from netrepro.papers import _running
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


def without_dctcp(runs: paper.Runs, tier: str) -> paper.Runs:
    """What real kernels without DCTCP would have left."""
    reno = ["tcp", "red", "tcp, long path"]
    queues, totals = (table[table.case.isin(reno)] for table in (runs.queues, runs.totals))
    return replace(runs, queues=queues, totals=totals, tier=tier)


def test_where_dctcp_cannot_be_had_only_tcps_claims_are_measured_and_none_counts(runs):
    tcp_only = without_dctcp(runs, "rootless")
    claims = load_claims("dctcp")
    measured = {each.claim: each for each in paper.measured_claims(tcp_only)}
    assert set(measured) == {"tcp-mean-queue", "tcp-queue-distribution"}
    for claim in claims.claims:
        judgement = judge(claim, measured.get(claim.id), "rootless")
        if claim.id in measured:
            assert judgement.verdict == "agrees" and not judgement.counts
        else:
            assert judgement.verdict == "not measured" and "a kernel with DCTCP" in judgement.reason


def test_where_dctcp_cannot_be_had_the_answer_says_why_and_what_to_do(runs, monkeypatch):
    monkeypatch.setattr(paper, "missing_for_bpf", lambda: "clang is not installed")
    rootless, privileged = (paper.answer(without_dctcp(runs, tier)) for tier in ("rootless", "privileged"))
    for said in (rootless, privileged):
        assert "no DCTCP" in said and "modprobe tcp_dctcp" in said
    assert "tier 'privileged' can" in rootless and "clang" not in rootless
    assert "clang is not installed; see `netrepro doctor`" in privileged


def test_where_dctcp_cannot_be_had_figures_say_so_and_draw_no_empty_curve(runs):
    tcp_only = without_dctcp(runs, "rootless")
    figures = [paper.draw_queues(tcp_only), paper.draw_distributions(tcp_only, runs), paper.draw_control(tcp_only)]
    for figure in figures:
        last = figure.axes[-1]
        assert any("not measured on the rootless tier" in text.get_text() for text in last.texts)
        legend = [text.get_text() for text in last.get_legend().get_texts()]
        assert not [label for label in legend if "dctcp" in label or "rootless" in label]


def test_the_tiers_stand_side_by_side_in_a_table_and_in_the_distribution(runs):
    kernels = without_dctcp(runs, "rootless")
    kernels = replace(kernels, queues=kernels.queues.assign(queue_packets=kernels.queues.queue_packets + 10))
    table = paper.tier_table([kernels, runs])
    assert list(table.index) == list(paper.CASES)
    means = table["mean_packets"]
    assert means.loc["tcp", "rootless"] == pytest.approx(means.loc["tcp", "simulated"] + 10)
    assert np.isnan(means.loc["dctcp", "rootless"]) and means.loc["dctcp", "simulated"] < 21
    legends = [
        [text.get_text() for text in paper.draw_distributions(*drawn).axes[0].get_legend().get_texts()]
        for drawn in ((kernels, runs), (runs, runs))
    ]
    each = "every repetition"
    assert legends == [["hardware", f"simulated, {each}", f"rootless, {each}"], ["hardware", f"simulated, {each}"]]


def test_three_cases_share_a_fabric_and_the_simulator_repeats_what_they_ran(monkeypatch):
    groups = []

    def note(experiments, tier, **_):
        groups.append(len(experiments))
        return [simulate(each) for each in experiments]

    monkeypatch.setattr(_running, "run_together", note)
    monkeypatch.setattr(paper, "has_congestion_control", lambda *_: True)
    runs = paper.measure(3.0, repetitions=1, seed=1, tier="rootless")
    assert groups == [3, 3]
    reference = paper.beside(runs, 3.0, 1, 1)
    assert paper.beside(reference, 3.0, 1, 1) is reference and reference.tier == "simulated"
    pd.testing.assert_frame_equal(reference.queues, runs.queues)
    groups.clear()
    paper.measure(3.0, repetitions=1, seed=1, tier="rootless", setting=replace(paper.PRINTED, rate_mbps=250.0))
    assert groups == [1] * 6


def test_the_answer_names_both_goodputs_whatever_they_are(runs):
    slow = runs.totals.assign(goodput_mbps=runs.totals.goodput_mbps.where(runs.totals.case != "dctcp", 9.7))
    said = paper.answer(replace(runs, totals=slow))
    assert "at 9.7 Mb/s of goodput" in said and "at 95.6 Mb/s" in said and "same" not in said


def test_the_guideline_is_drawn_at_the_settings_rate():
    table = pd.DataFrame([(20, 4.0, 9.0, 19.0)], columns=[
        "threshold_packets", "round_trip_ms", "goodput_mbps", "mean_queue_packets"])  # fmt: skip
    drawn = [
        paper.draw_threshold(table, replace(paper.PRINTED, rate_mbps=rate)).axes[0].lines[-1].get_xdata()[0]
        for rate in (100.0, 10.0)
    ]
    assert drawn == pytest.approx([100e6 * 4e-3 / 8 / FULL_PACKET_BYTES / 7, 10e6 * 4e-3 / 8 / FULL_PACKET_BYTES / 7])


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
    assert [paper.repetitions_of("quick", tier, 5) for tier in ("rootless", "simulated")] == [3, 5]
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
