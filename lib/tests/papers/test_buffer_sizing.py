"""Buffer sizing (Mininet-HiFi section 5.3): the search against known answers, the simulator against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.papers import buffer_sizing as paper
from netrepro.simulation import simulate

FLOWS = (1, 2, 5, 10, 50, 100, 200)
# A tenth of the pipe: one flow's sawtooth is twenty times shorter.
SHORT = replace(paper.PRINTED, rate_mbps=12.5, round_trip_ms=43.5)


@pytest.fixture(scope="module")
def sweep() -> paper.Sweep:
    """Three repetitions on the published path, and two of the control."""
    return paper.measure(paper.Scale(FLOWS, 3.0, FLOWS[1:]), repetitions=3, seed=7)


def ran(flows: int, buffer_packets: int, setting: paper.Setting = SHORT, seed: int = 1):
    asked = paper.experiment(flows, buffer_packets, setting, 10.0, seed)
    return simulate(asked, clock_skew_ppm=setting.clock_skew_ppm)


def share(flows: int, buffer_packets: int, setting: paper.Setting = SHORT, seed: int = 1) -> float:
    return paper.utilisation(ran(flows, buffer_packets, setting, seed), paper.warm_up_s(flows, setting))


def test_every_claim_is_measured_and_none_of_the_controls_agrees(sweep):
    claims = load_claims("buffer_sizing")
    measured = {each.claim: each for each in paper.measured_claims(sweep)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        assert judge(claim, measured[claim.id], "simulated").counts
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict == "disagrees"


def test_runs_that_fail_a_check_are_untrusted(sweep):
    broken = replace(sweep, fidelity=sweep.fidelity.assign(holds=False))
    claims = load_claims("buffer_sizing")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_section_5_3_more_flows_need_less_buffer_and_synchronised_ones_hardly_less(sweep):
    means = sweep.buffers.groupby(["case", "flows"]).buffer_packets.mean()
    ours, together = means["published"], means["synchronised"]
    assert ours[1] > ours[5] > ours[10] > ours[50] and ours[100] < ours[1] / 3
    assert together[100] > 0.6 * together[2]


def test_the_bandwidth_delay_product_is_that_of_the_text():
    """62.5 Mb/s over 87 ms: 453 packets of 1500 bytes."""
    assert paper.PRINTED.pipe_packets * 1514 / 1500 == pytest.approx(453, abs=0.2)
    assert paper.theory_packets(100) == pytest.approx(paper.PRINTED.pipe_packets / 10)


@pytest.mark.parametrize("b", [0.0, 0.3, 0.7, 1.0])
def test_the_closed_form_of_the_sawtooth_is_its_integral(b):
    """Windows from (1 + b) / 2 to 1 + b of the pipe; a round trip takes 1, or the window where that is more."""
    low, high = (1 + b) / 2, 1 + b
    sent = quad(lambda window: window, low, high)[0]
    lasted = quad(lambda window: max(1.0, window), low, high, points=[1.0])[0]
    assert paper.sawtooth_utilisation(b) == pytest.approx(sent / lasted)


@pytest.mark.parametrize("b", [0.25, 0.5, 0.75, 1.0])
def test_one_reno_flow_uses_the_link_as_its_sawtooth_says(b):
    """The remedy of a loss costs a little beside the closed form."""
    buffer_packets = round(b * paper.PRINTED.pipe_packets)
    assert share(1, buffer_packets, paper.PRINTED) == pytest.approx(paper.sawtooth_utilisation(b), abs=0.015)


def test_a_buffer_of_the_whole_pipe_keeps_the_link_busy_and_a_packet_does_not():
    pipe = round(SHORT.pipe_packets)
    assert share(1, round(1.2 * pipe)) > 0.995
    assert share(1, 1) < 0.85


def test_utilisation_never_exceeds_the_link():
    for flows, packets in ((1, 10), (10, 60), (40, 60)):
        assert share(flows, packets) <= 1 + 2e-4  # a link's clock may be 100 ppm fast, and a packet straddles the start


@settings(max_examples=100, deadline=None)
@given(answer=st.floats(1, 600), slope=st.floats(0.01, 0.2))
def test_the_search_finds_the_answer_of_a_known_curve_within_its_resolution(answer, slope):
    found = paper.smallest_buffer(lambda packets: 0.99 + slope * np.log(packets / answer), 0.99, 673)
    assert found.reached
    assert max(1, answer) == pytest.approx(found.buffer_packets, rel=0.01, abs=1)


def test_the_search_bears_noise():
    """Utilisation that rises by 1 point in 15 % more buffer, as one flow's does, blurred by a fifth of a point."""
    errors = []
    for seed in range(200):
        noise = np.random.default_rng(seed)
        found = paper.smallest_buffer(
            lambda packets, noise=noise: 0.99 + 0.07 * np.log(packets / 150) + noise.normal(0, 0.002), 0.99, 673
        )
        errors.append(np.log(found.buffer_packets / 150))
    assert abs(np.mean(errors)) < 0.01 and np.std(errors) < 0.06


@settings(max_examples=100, deadline=None)
@given(answer=st.floats(1, 600), slope=st.floats(0.01, 0.2), expected=st.floats(0.5, 900))
def test_wherever_the_search_begins_it_finds_the_answer_and_near_it_with_fewer_probes(answer, slope, expected):
    def probe(packets):
        return 0.99 + slope * np.log(packets / answer)

    found = paper.smallest_buffer(probe, 0.99, 673, expected_packets=expected)
    assert found.reached and max(1, answer) == pytest.approx(found.buffer_packets, rel=0.01, abs=1)
    begun_near = paper.smallest_buffer(probe, 0.99, 673, expected_packets=answer * 1.3)
    if 10 < answer < 400:
        assert len(begun_near.probes) <= 5 < len(paper.smallest_buffer(probe, 0.99, 673).probes) + 1


def test_the_search_says_when_no_buffer_is_enough_and_when_one_packet_is():
    never = paper.smallest_buffer(lambda packets: 0.98, 0.99, 100)
    always = paper.smallest_buffer(lambda packets: 1.0, 0.99, 100)
    assert (never.buffer_packets, never.reached) == (100, False)
    assert (always.buffer_packets, always.reached) == (1, True)


def test_a_probe_near_the_target_is_repeated_with_the_further_seeds(monkeypatch):
    used = []

    def run(flows, buffer_packets, seed, *_):
        used.append((buffer_packets, seed))
        near = {1: 0.9905, 2: 0.9885, 3: 0.9885}
        return near[seed] if buffer_packets == 10 else 0.9, pd.DataFrame({"check": []}), np.zeros(1)

    monkeypatch.setattr(paper, "_run", run)
    setting = replace(SHORT, rate_mbps=SHORT.rate_mbps * 10 / 1.5 / SHORT.pipe_packets)  # 10 packets are the most
    outcome, _, _ = paper.search(4, setting, paper.Scale((4,), 2.0), (1, 2, 3))
    assert [seed for packets, seed in used if packets == 10] == [1, 2, 3]
    assert all(seed == 1 for packets, seed in used if packets != 10)
    assert dict(outcome.probes)[10] == pytest.approx((0.9905 + 2 * 0.9885) / 3) and not outcome.reached


def test_a_link_off_its_rate_fails_the_fidelity_check():
    measured = ran(4, 40)
    assert paper.check_fidelity(measured).holds.all()
    slow = measured.packets.assign(time_s=measured.packets.time_s * 1.05, wait_ms=measured.packets.wait_ms * 1.05)
    checks = paper.check_fidelity(replace(measured, packets=slow)).set_index("check").holds
    assert not checks["busy link off its rate"] and checks["gaps within 10 %"]
    jittered = np.sort(measured.packets.time_s + np.random.default_rng(1).normal(0, 0.0005, len(measured.packets)))
    checks = paper.check_fidelity(replace(measured, packets=measured.packets.assign(time_s=jittered)))
    assert not checks.set_index("check").holds["gaps within 10 %"]


def test_nothing_is_lost_but_at_the_bottleneck():
    links = ran(20, 30).links
    elsewhere = links[~((links.source == "s1") & (links.destination == "s2"))]
    assert elsewhere.dropped_packets.sum() == 0 and links.dropped_packets.sum() > 0


def test_unequal_round_trips_keep_their_mean_and_span():
    topology = paper.experiment(20, 30, replace(paper.PRINTED, round_trip_spread=0.5), 1.0, 1).topology
    delays_ms = [2 * topology.link(f"h{i}", "s1").delay_ms for i in range(1, 21)]
    assert np.mean(delays_ms) == pytest.approx(87) and (min(delays_ms), max(delays_ms)) == (43.5, 130.5)


def test_fig_9c_gaps_of_the_busy_link_are_a_packet_time_but_for_its_clock_and_shaken_ones_are_not():
    measured = ran(4, 40)
    off = paper.gap_deviations(measured)
    assert len(off) > 1000 and off.max() < 2e-4  # 100 parts per million
    shaken = np.sort(measured.packets.time_s + np.random.default_rng(1).normal(0, 0.0005, len(measured.packets)))
    assert paper.gap_deviations(replace(measured, packets=measured.packets.assign(time_s=shaken))).mean() > 0.1


def test_fig_9b_has_800_flows_in_the_paper_profile_of_every_tier():
    assert {max(paper.scale("paper", tier).flow_counts) for tier in ("simulated", "virtual")} == {800}


def test_a_scale_for_kernels_searches_around_theory_and_answers_what_it_searched():
    scale = paper.scale("quick", "virtual")
    least, most = scale.range_packets(100, paper.PRINTED)
    assert least < paper.theory_packets(100) / 10 and most > 3 * paper.theory_packets(100)
    found = paper.smallest_buffer(lambda packets: 0.99 + 0.05 * np.log(packets / 50), 0.99, most, least, 1.4)
    assert found.buffer_packets == pytest.approx(50, rel=0.1) and min(dict(found.probes)) >= least


def test_a_sweep_of_few_flows_measures_the_claims_that_it_can_and_stands_beside_the_simulator(sweep):
    rows = sweep.buffers.query("case == 'published' and flows == 100")
    few = replace(sweep, buffers=rows, tier="virtual")
    assert [each.claim for each in paper.measured_claims(few)] == ["hardware-100-flows"]
    assert f"{rows.buffer_packets.mean():.0f} packets for 100 flows" in paper.answer(few)
    slow = replace(paper.PRINTED, target=0.985, rate_mbps=paper.PRINTED.rate_mbps / 5)
    answered = paper.answer(few, slow)
    assert "98.5 % busy" in answered and "packets for 100 flows (theory: 9)" in answered
    table = paper.tier_table([few, sweep])
    assert table.loc[100, "virtual"] == table.loc[100, "simulated"] and np.isnan(table.loc[5, "virtual"])


@needs_virtual
def test_a_kernel_fills_the_link_from_a_large_buffer_and_not_from_a_packet():
    (few, _, _), (many, checks, gaps) = (paper._run(4, packets, 1, SHORT, 2.0, "virtual") for packets in (2, 150))
    assert few < many and 0.95 < many <= 1 + 2e-4
    assert checks.holds.all() and len(gaps) > 1000 and gaps.max() < 2e-4  # 100 parts per million


@needs_virtual
def test_a_kernels_flows_that_halve_together_leave_the_link_idle():
    setting = paper.synchronised(SHORT)
    buffer_packets = round(float(paper.theory_packets(20, SHORT)))
    apart, together = (paper._run(20, buffer_packets, 1, each, 5.0, "virtual")[0] for each in (SHORT, setting))
    assert together < apart - 0.01


def test_the_result_depends_on_the_seed_and_not_on_the_number_of_processes():
    def buffers(seed: int, n_jobs: int) -> pd.DataFrame:
        scale = paper.Scale((1, 4), 2.0, (2,))
        return paper.measure(scale, 1, seed, setting=SHORT, n_jobs=n_jobs).buffers

    pd.testing.assert_frame_equal(buffers(1, 1), buffers(1, 2))
    assert not buffers(1, 1).equals(buffers(2, 1))


def test_differences_lead_from_the_published_experiment_to_the_synchronised_one():
    steps = list(paper.differences().values())
    assert steps[0] == paper.PRINTED and steps[-2] == paper.synchronised(paper.PRINTED)
    assert len(set(steps)) == len(steps)


def test_the_published_table_is_that_of_the_claims():
    rows = paper.hardware_buffers().set_index(["source", "flows"])
    for flows in paper.HARDWARE_FLOWS:
        claim, row = load_claims("buffer_sizing").claim(f"hardware-{flows}-flows"), rows.loc["hardware", flows]
        assert claim.published == row.mean_packets
        assert claim.accept.band == (row.low_packets, row.high_packets)


def test_an_experiment_survives_json():
    experiment = paper.experiment(3, 30, paper.PRINTED, 5.0, 1)
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_what_a_user_mistypes_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
    with pytest.raises(NetreproError, match="target = 99"):
        paper.Setting(target=99)
    with pytest.raises(NetreproError, match="round_trip_spread"):
        paper.Setting(round_trip_spread=1.5)
