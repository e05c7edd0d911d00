"""DCTCP's queue (Mininet-HiFi section 5.1): the simulated experiment beside hardware, and what must not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netrepro.claims import judge, load_claims
from netrepro.networks.links import FULL_PACKET_BYTES, bandwidth_delay_packets
from netrepro.papers import dctcp as paper
from netrepro.simulation import simulate
from netrepro.study import Runs, check_table, measure, run_once, vary

SECONDS = 15.0
LONG_PATH_K_1 = "dctcp, long path, K = 1"


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, repetitions=4, seed=7)


def found(case: str, **changed):
    return run_once(paper.STUDY, case, SECONDS, seed=3, **changed)


def settled(measured):
    return measured.queues[measured.queues.time_s >= paper.SETTLED_S].queue_packets


@pytest.mark.parametrize("threshold", [10, 20, 40, 80])
def test_section_3_1_the_queue_of_dctcp_stays_near_the_marking_threshold(threshold):
    """A packet is marked when it finds K waiting; two senders then overshoot by a packet or so each."""
    queue = settled(found("dctcp", threshold_packets=threshold))
    assert 0.7 * threshold <= queue.mean() <= threshold + 2
    assert queue.quantile(0.99) <= threshold + 4


@pytest.mark.parametrize("buffer", [100, 425])
def test_reno_fills_whatever_buffer_there_is_and_halves(buffer):
    queue = settled(found("tcp", buffer_packets=buffer))
    assert queue.max() >= buffer - 1
    assert 0.55 * buffer <= queue.mean() <= 0.95 * buffer


@pytest.mark.parametrize("buffer", [1, 20])
def test_a_buffer_below_the_thresholds_runs_in_every_case(buffer):
    """RED's upper threshold is 23 packets, DCTCP's 20: no queue holds more than there is room for."""
    for case in paper.CASES:
        run = run_once(paper.STUDY, case, 1.0, buffer_packets=buffer)
        assert run.flows.delivered_bytes.sum() > 0, case
        assert run.queues.queue_packets.max() <= buffer, case


def test_goodput_never_exceeds_the_payload_share_of_the_link(runs):
    most_mbps = runs.setting.rate_mbps * 1448 / FULL_PACKET_BYTES * (1 + 1e-4)  # a link's clock may be that fast
    assert (runs.values.goodput_mbps <= most_mbps).all()
    assert runs.numbers("dctcp").goodput_mbps.min() >= 0.98 * most_mbps


def test_fig_5_only_the_senders_links_have_a_delay_and_flows_start_together():
    asked = paper.experiment(paper.Setting(), 20.0, 1)
    delays = {(one, other): link.delay_ms for (one, other), link in asked.topology.ports.items()}
    assert delays == {("h1", "s1"): 0.075, ("s1", "h1"): 0.075, ("h2", "s1"): 0.075, ("s1", "h2"): 0.075} | {
        ("h3", "s1"): 0.0,
        ("s1", "h3"): 0.0,
    }
    assert {flow.start_s for flow in asked.traffic} == {0.0}
    assert asked.topology.link("s1", "h1").queue.packets > 425 == asked.topology.link(*paper.PORT).queue.packets


def test_section_3_4_a_threshold_far_below_the_guideline_loses_throughput_and_one_above_does_not():
    """C RTT / 7 is 23.6 packets at 20 ms; DCTCP keeps most of its throughput somewhat below it."""
    low, high = (
        paper.read(found("dctcp", threshold_packets=k, host_delay_ms=10.0), paper.Setting())["goodput_mbps"]
        for k in (1, 24)
    )
    assert low < 0.7 * high
    assert high > 0.95 * 100 * 1448 / FULL_PACKET_BYTES


def test_the_project_s_threshold_is_the_first_above_the_guideline_and_its_port_is_full():
    """C RTT / 7 at 100 Mb/s and 40 ms is 47.2 packets."""
    setting = paper.STUDY.case("dctcp, long path")
    guideline = bandwidth_delay_packets(setting.rate_mbps, 2 * setting.host_delay_ms) / 7
    assert setting.threshold_packets - 1 < guideline < setting.threshold_packets
    full, idle = (paper.read(found(case), setting)["utilisation"] for case in ("dctcp, long path", LONG_PATH_K_1))
    assert idle < full <= 1 + 2e-4


def test_a_port_off_the_rate_fails_the_fidelity_check():
    measured = found("tcp")
    late = measured.packets.assign(time_s=measured.packets.time_s * 1.02, wait_ms=measured.packets.wait_ms * 1.02)
    on_time, off = (
        check_table(paper.read(each, paper.Setting()).checks).set_index("check").holds
        for each in (measured, replace(measured, packets=late))
    )
    assert on_time.all()
    assert not off["gaps within 1 %"] and off["gaps within 10 %"]


@pytest.fixture(scope="module")
def tcp_only() -> Runs:
    """The runs that a kernel without DCTCP can make, here made by the simulator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netrepro.backends.why_not", lambda experiment, tier: "")
        patch.setattr("netrepro.backends.run", lambda experiment, *_, **__: simulate(experiment))
        study = replace(paper.STUDY, cannot=lambda setting, tier: without_dctcp(setting, tier))
        return measure(study, repetitions=3, seed=7, tier="virtual")


def without_dctcp(setting: paper.Setting, tier: str) -> str:
    return "no DCTCP" if tier == "virtual" and setting.congestion_control == "dctcp" else ""


def test_where_dctcp_cannot_be_had_only_tcps_claims_are_measured_and_none_counts(tcp_only):
    measured = {each.claim: each for each in tcp_only.measured_claims()}
    assert set(measured) == {"tcp-mean-queue", "tcp-queue-distribution"}
    for claim in load_claims("dctcp").claims:
        judgement = judge(claim, measured.get(claim.id), "virtual")
        if claim.id in measured:
            assert judgement.verdict != "not measured" and not judgement.counts
        else:
            assert judgement.verdict == "not measured"


def test_where_dctcp_cannot_be_had_figures_say_so_and_draw_no_empty_curve(tcp_only):
    for draw in (paper.draw_queues, paper.draw_distributions, paper.draw_control):
        last = draw(tcp_only).axes[-1]
        assert any("not measured on the virtual tier" in text.get_text() for text in last.texts)
        legend = [text.get_text() for text in last.get_legend().get_texts()]
        assert not [label for label in legend if "dctcp" in label or "virtual" in label]


def test_the_tiers_stand_side_by_side_in_a_table_and_in_the_distribution(runs, tcp_only):
    table = tcp_only.tier_table("mean_packets")
    assert list(table.index) == list(paper.CASES)
    assert np.isnan(table.loc["dctcp", ("mean_packets", "virtual")])
    assert table.loc["dctcp", ("mean_packets", "simulated")] < 21
    legends = [
        [text.get_text() for text in paper.draw_distributions(drawn).axes[0].get_legend().get_texts()]
        for drawn in (tcp_only, runs)
    ]
    each = "every repetition"
    assert legends == [["hardware", f"simulated, {each}", f"virtual, {each}"], ["hardware", f"simulated, {each}"]]


def test_the_guideline_is_drawn_at_the_settings_rate(runs):
    vary(runs, "threshold")
    for rate in (100.0, 10.0):
        at = replace(runs, setting=replace(runs.setting, rate_mbps=rate))
        drawn = paper.draw_threshold(at).axes[0].lines[-1].get_xdata()[0]
        assert drawn == pytest.approx(rate * 1e6 * 40e-3 / 8 / FULL_PACKET_BYTES / 7)


def test_the_hardware_table_is_a_distribution():
    table = paper.hardware_queue()
    assert list(table.percentile) == list(range(101))
    for column in ("tcp_packets", "dctcp_packets"):
        assert np.all(np.diff(table[column]) >= 0)


def test_the_answer_names_the_hardwares_means_which_are_those_of_the_claims(runs):
    claims = load_claims("dctcp")
    dctcp, tcp = (claims.claim(f"{name}-mean-queue").published for name in ("dctcp", "tcp"))
    assert f"(hardware: {dctcp:.1f} and {tcp:.0f})" in paper.answer(runs)


def test_the_network_is_drawn_with_the_threshold_that_was_asked_for():
    said = [text.get_text() for text in paper.draw_network(paper.Setting(threshold_packets=40)).legends[0].get_texts()]
    assert any("marks from 40 on" in line and "buffer of 425 packets" in line for line in said), said


def test_each_kind_of_tier_runs_as_long_as_it_can_afford():
    seconds = {tier: paper.STUDY.scale("quick", tier).seconds for tier in ("simulated", "virtual")}
    assert seconds == {"simulated": 30.0, "virtual": 20.0}
    assert paper.STUDY.scale("paper", "virtual") == paper.STUDY.scale("paper", "simulated")
