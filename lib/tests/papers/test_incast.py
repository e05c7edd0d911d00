"""TCP incast (Vasudevan et al., SIGCOMM 2009): the collapse, its cure, and settings in which it cannot appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.claims import judge, load_claims
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.routing import LinkChange
from netrepro.papers import incast as paper
from netrepro.simulation import simulate

BLOCKS = 3
rootless = pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(paper.Scale(BLOCKS, BLOCKS, (1, 4, 8, 16, 32, 48, 64)), repetitions=3, seed=7)


def fetched(servers: int, blocks: int = BLOCKS, seed: int = 3, **changed):
    return paper.fetch(replace(paper.PRINTED, **changed), servers, blocks, seed)[0]


def test_every_claim_is_measured_and_none_of_the_controls_agrees(runs):
    claims = load_claims("incast")
    measured = {each.claim: each for each in paper.measured_claims(runs)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        assert judge(claim, measured[claim.id], "simulated").counts
        assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees"


@pytest.mark.parametrize(
    ("case", "servers", "earlier_mbps"),
    [
        ("200 ms", 32, 40),
        ("200 ms", 64, 17),
        ("10 ms", 32, 537),
        ("10 ms", 64, 318),
        ("1 ms", 8, 945),
        ("1 ms", 64, 752),
    ],
)
def test_goodput_is_within_a_fifth_of_an_earlier_prototypes(runs, case, servers, earlier_mbps):
    """data/incast/SOURCES.md; with fewer servers only some blocks wait, and three blocks are no mean."""
    assert paper.summary(runs)[case][servers] == pytest.approx(earlier_mbps, rel=0.2)


@settings(max_examples=25, deadline=None)
@given(servers=st.integers(1, 16), window=st.integers(2, 20), seed=st.integers(0, 1000), surplus=st.integers(0, 5))
def test_where_all_windows_fit_into_the_buffer_nothing_is_lost_and_nobody_waits(servers, window, seed, surplus):
    buffer = servers * window + surplus
    found = fetched(servers, 1, seed, receive_window_segments=window, buffer_packets=buffer)
    assert found["drops_per_block"] == 0 and found["timeouts_per_block"] == 0


@pytest.mark.parametrize("timeout_ms", [50.0, 200.0, 1000.0])
def test_a_collapsed_block_takes_the_links_own_time_and_one_timeout(timeout_ms):
    found = fetched(16, 5, min_rto_ms=timeout_ms)
    assert found["median_delay_ms"] == pytest.approx(timeout_ms, abs=10)


def test_one_timeout_a_block_leaves_what_the_formula_says():
    """Link idle for one timeout: share T / (T + 1), T the block's time in timeouts; at 100 Mb/s, T = 0.43."""
    setting = replace(paper.PRINTED, rate_mbps=100.0)
    expected = paper.share_after_timeouts(setting.ideal_block_ms / setting.min_rto_ms)
    assert fetched(32, 5, rate_mbps=100.0)["goodput_share"] == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(("timeout_ms", "factor"), [(200.0, 10), (0.2, 50)])
def test_stretching_all_times_alike_changes_nothing(timeout_ms, factor):
    """A link ten times as slow with delays and timeout ten times as long is the same experiment in slow motion."""
    setting = replace(paper.PRINTED, min_rto_ms=timeout_ms)
    fast, slow = (paper.fetch(each, 16, 10, 3)[0] for each in (setting, setting.in_slow_motion(factor)))
    assert slow["goodput_share"] == pytest.approx(fast["goodput_share"], rel=0.1)
    assert slow["drops_per_block"] == pytest.approx(fast["drops_per_block"], rel=0.1)


def test_real_kernels_run_as_slowly_as_their_rate_and_their_timers_need():
    factors = {name: paper.slow_motion(setting) for name, setting in paper.cases().items()}
    assert factors["200 ms"] == factors["1 ms"] == factors["1 ms, deep buffer"] == 10 and factors["200 us"] == 50
    assert paper.slow_motion(replace(paper.PRINTED, rate_mbps=50)) == 1


def test_claims_and_tiers_are_compared_in_published_time(runs):
    slow = runs.goodput.assign(slow_motion=10.0, median_delay_ms=10 * runs.goodput.median_delay_ms)
    slower = replace(runs, goodput=slow.assign(goodput_mbps=slow.goodput_mbps / 10), tier="rootless")
    for ours, theirs in zip(paper.measured_claims(runs), paper.measured_claims(slower), strict=True):
        ranking = ours.claim == "smaller-is-better"
        assert list(theirs.values) == (ours.values if ranking else pytest.approx(list(ours.values)))
    table = paper.tier_table([runs, slower])
    for case in paper.TIMEOUTS_MS:
        assert table[case, "rootless"].equals(table[case, "simulated"])


@rootless
def test_real_kernels_collapse_too():
    setting = replace(paper.PRINTED, min_rto_ms=50.0).in_slow_motion(10)
    alone, many = (paper.fetch(setting, servers, 2, 1, "rootless")[0] for servers in (1, 32))
    assert alone["drops_per_block"] == alone["timeouts_per_block"] == 0
    assert many["drops_per_block"] > 0 and many["timeouts_per_block"] >= 1
    # A busy machine makes blocks longer, and none shorter.
    assert many["median_delay_ms"] > 0.9 * setting.min_rto_ms


def test_a_larger_buffer_delays_the_collapse_until_the_block_fits():
    # Forty blocks: with 16 packets and few servers about every second one waits for a timeout.
    table = paper.vary_buffer(40, 5, buffers_packets=(16, 64, 256, 1024), servers=(2, 4, 8, 16, 32))
    collapsed = table[table.goodput_mbps < 300].groupby("buffer_packets")["servers"].min()
    assert collapsed[16] < collapsed[64] < collapsed[256]
    assert 1024 not in collapsed.index


def test_below_the_published_rate_the_collapse_is_shallow(runs):
    """Why slow emulated links do not show it: at 10 Mb/s a block takes four timeouts anyway."""
    slow = fetched(32, rate_mbps=10.0)
    assert slow["timeouts_per_block"] > 1 and slow["goodput_share"] > 0.8
    assert paper.summary(runs, "goodput_share")["200 ms"][32] < 0.1


def test_with_few_servers_it_is_packets_in_step_that_wait_and_with_many_it_is_not():
    """A jitter of a packet's time (12 us) spreads the same losses over all servers, which then repair them at once."""
    few, few_jittered, many_jittered = (
        fetched(servers, 20, 1, jitter_ms=jitter_ms) for servers, jitter_ms in ((8, 0.0), (8, 0.012), (32, 0.012))
    )
    assert few["drops_per_block"] == pytest.approx(few_jittered["drops_per_block"], rel=0.2)
    assert few["timeouts_per_block"] > 0.3 and few_jittered["timeouts_per_block"] < 0.1
    assert many_jittered["goodput_share"] < 0.1


def test_dctcp_holds_out_longer_than_reno_but_not_for_ever():
    table = paper.vary_scheme(BLOCKS, 5, servers=(8, 16, 64)).pivot(
        index="servers", columns="scheme", values="goodput_mbps"
    )
    assert table["dctcp"][8] > 5 * table["reno"][8]
    assert table["dctcp"][64] < 0.2 * table["dctcp"][8]


def test_a_long_timeout_sends_again_only_what_was_lost_and_a_short_one_more(runs):
    needless = paper.summary(runs, "needless_per_block")
    assert (needless["200 ms"] == 0).all()
    assert (needless["200 us"][[32, 48, 64]] > 50).all()


def test_a_block_ends_when_its_last_packet_has_crossed_the_clients_link():
    setting = replace(paper.PRINTED, min_rto_ms=10.0)
    found = simulate(paper.experiment(setting, 8, 4, 11))
    times = paper.block_times(found)
    assert times.asked_s.to_numpy()[1:] == pytest.approx(times.complete_s.to_numpy()[:-1], abs=1e-9)
    left_s = found.packets.time_s[found.packets.size_bytes > 100].to_numpy() + setting.link_delay_ms * 1e-3
    # Whatever follows the last byte within a round trip is a copy of what has arrived already.
    nearest = np.abs(left_s[:, None] - times.complete_s.to_numpy()).min(axis=0)
    assert nearest == pytest.approx(0, abs=1e-9)


def test_goodput_never_exceeds_the_payload_share_of_the_link(runs):
    assert (runs.goodput.goodput_share <= 1 + 1e-4).all()  # a link's clock may be that fast


def test_a_port_off_the_rate_fails_the_fidelity_check():
    found = simulate(paper.experiment(paper.PRINTED, 16, 2, 3))
    assert paper.check_fidelity(found, paper.block_times(found), 2).holds.all()
    late = found.packets.assign(time_s=found.packets.time_s * 1.02, wait_ms=found.packets.wait_ms * 1.02)
    off = replace(found, packets=late)
    checks = paper.check_fidelity(off, paper.block_times(off), 2).set_index("check").holds
    assert not checks["gaps within 1 %"] and checks["gaps within 10 %"]


def test_a_block_that_never_is_complete_counts_to_the_end_and_fails_the_fidelity_check():
    asked = paper.experiment(paper.PRINTED, 8, 3, 3)
    whole = paper.block_times(simulate(asked))
    cut = LinkChange(float(whole.complete_s[1]) + 1e-3, *paper.PORT, up=False)  # while the last block is under way
    broken = simulate(replace(asked, changes=cut))
    times = paper.block_times(broken)
    assert times.complete_s.notna().tolist() == [True, True, False]
    checks = paper.check_fidelity(broken, times, 3).set_index("check")
    assert checks.value["blocks complete"] == pytest.approx(2 / 3) and not checks.holds["blocks complete"]
    lasted_s = asked.duration_s - whole.asked_s[0]
    assert paper.fetched(broken, times, paper.PRINTED)["goodput_mbps"] <= 3 * 1_024_000 * 8e-6 / lasted_s


def test_runs_that_fail_a_check_are_untrusted(runs):
    broken = replace(runs, fidelity=runs.fidelity.assign(holds=False))
    claims = load_claims("incast")
    for measured in paper.measured_claims(broken):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_the_same_seed_gives_the_same_runs_and_another_seed_others():
    first, again, other = (fetched(8, 1, seed) for seed in (1, 1, 2))
    assert first == again and first != other


def test_fragments_make_up_the_block_and_an_experiment_survives_json():
    experiment = paper.experiment(paper.PRINTED, 32, 2, 1)
    assert experiment.flow_table["size_bytes"].sum() == 2 * 1_024_000
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
    with pytest.raises(NetreproError, match="0 servers"):
        paper.experiment(paper.PRINTED, 0, 1, 1)
    with pytest.raises(NetreproError, match="servers without"):
        paper.measure(paper.Scale(1, 1, (1, 2)), 1, 1)


def test_equal_goodput_counts_against_the_order_of_the_timeouts():
    table = pd.DataFrame(
        [(case, count, 0, 1.0) for case in ("200 ms", "10 ms", "1 ms") for count in paper.MANY],
        columns=["case", "servers", "repetition", "goodput_share"],
    )
    equal = paper.Runs(table, pd.DataFrame({"holds": [True]}))
    assert paper._orders(equal, "") == [["200 ms", "10 ms", "1 ms"]]
