"""TCP incast (Vasudevan et al., SIGCOMM 2009): the collapse, its cure, and settings in which it cannot appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.papers import incast as paper
from netrepro.simulation import simulate

BLOCKS = 3


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(BLOCKS, repetitions=3, seed=7, servers=(1, 4, 8, 32, 48, 64))


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
    """data/incast/SOURCES.md; the prototype kept connections open, so fewer servers than these compare badly."""
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
    assert fetched(8, 5, rate_mbps=100.0)["goodput_share"] == pytest.approx(expected, rel=0.25)


def test_stretching_all_times_alike_changes_nothing():
    """A link ten times as slow with delays and timeout ten times as long is the same experiment in slow motion."""
    printed = paper.PRINTED
    stretched = {name: 10 * getattr(printed, name) for name in ("link_delay_ms", "min_rto_ms", "scatter_ms")}
    stretched |= {"rate_mbps": printed.rate_mbps / 10, "request_spacing_ms": 10 * printed.request_spacing_ms}
    fast, slow = fetched(16), fetched(16, **stretched)
    assert slow["goodput_share"] == pytest.approx(fast["goodput_share"], rel=0.02)
    assert slow["drops_per_block"] == pytest.approx(fast["drops_per_block"], rel=0.1)


def test_a_larger_buffer_delays_the_collapse_until_the_block_fits():
    table = paper.vary_buffer(2, 5, buffers_packets=(16, 64, 256, 1024), servers=(2, 4, 8, 16, 32))
    collapsed = table[table.goodput_mbps < 300].groupby("buffer_packets")["servers"].min()
    assert collapsed[16] < collapsed[64] < collapsed[256]
    assert 1024 not in collapsed.index


def test_below_the_published_rate_the_collapse_is_shallow(runs):
    """Why slow emulated links do not show it: at 10 Mb/s a block takes four timeouts anyway."""
    slow = fetched(32, rate_mbps=10.0)
    assert slow["timeouts_per_block"] > 1 and slow["goodput_share"] > 0.8
    assert paper.summary(runs, "goodput_share")["200 ms"][32] < 0.1


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
    block = (found.packets.time_s // setting.longest_block_s).astype(int)
    new = found.packets[found.packets.size_bytes > 100]
    last_s = new.groupby(block)["time_s"].max() - np.arange(4) * setting.longest_block_s
    times_s = paper.block_times_s(found, setting)
    # Nothing but a copy of what has arrived already can follow the last byte.
    assert np.all(times_s <= last_s + setting.link_delay_ms * 1e-3 + 1e-9)
    assert np.median(last_s + setting.link_delay_ms * 1e-3 - times_s) == pytest.approx(0, abs=1e-7)


def test_goodput_never_exceeds_the_payload_share_of_the_link(runs):
    assert (runs.goodput.goodput_share <= 1 + 1e-4).all()  # a link's clock may be that fast


def test_a_port_off_the_rate_and_a_block_without_end_fail_the_fidelity_check():
    setting = paper.PRINTED
    found = simulate(paper.experiment(setting, 16, 2, 3))
    times_s = paper.block_times_s(found, setting)
    assert paper.check_fidelity(found, times_s, setting).holds.all()
    late = found.packets.assign(time_s=found.packets.time_s * 1.02, wait_ms=found.packets.wait_ms * 1.02)
    checks = paper.check_fidelity(replace(found, packets=late), times_s, setting).set_index("check").holds
    assert not checks["gaps within 1 %"] and checks["gaps within 10 %"]
    endless = replace(
        found, flows=found.flows.assign(completion_ms=found.flows.completion_ms.where(lambda ms: ms < 100))
    )
    checks = paper.check_fidelity(endless, paper.block_times_s(endless, setting), setting).set_index("check").holds
    assert not checks["blocks complete before the next"]


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
    assert experiment.flow_table.groupby("label")["size_bytes"].sum().tolist() == [1_024_000, 1_024_000]
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
    with pytest.raises(NetreproError, match="0 servers"):
        paper.experiment(paper.PRINTED, 0, 1, 1)
    with pytest.raises(NetreproError, match="servers without"):
        paper.measure(1, 1, 1, servers=(1, 2))


def test_equal_goodput_counts_against_the_order_of_the_timeouts():
    table = pd.DataFrame(
        [(case, count, 0, 1.0) for case in ("200 ms", "10 ms", "1 ms") for count in paper.MANY],
        columns=["case", "servers", "repetition", "goodput_mbps"],
    )
    equal = paper.Runs(table, pd.DataFrame({"holds": [True]}))
    assert paper._orders(equal, "") == [["200 ms", "10 ms", "1 ms"]]
