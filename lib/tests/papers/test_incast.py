"""TCP incast (Vasudevan et al., SIGCOMM 2009): the collapse, its cure, and settings in which it cannot appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.networks.routing import LinkChange
from netrepro.papers import incast as paper
from netrepro.simulation import simulate
from netrepro.study import Knob, Point, Runs, Scale, check_table, measure, read_once, run_experiment, swept, vary

DEFAULT = paper.Setting()


def in_slow_motion(setting: paper.Setting, factor: float) -> paper.Setting:
    """All times `factor` times as long and the rate as much lower, so that all shares and counts stay."""
    times = ("link_delay_ms", "min_rto_ms", "delayed_ack_ms", "scatter_ms")
    longer = {name: factor * getattr(setting, name) for name in times}
    return replace(setting, rate_mbps=setting.rate_mbps / factor, **longer)


@pytest.fixture(scope="module")
def runs() -> Runs:
    """Without numbers of servers that no test looks at."""
    smaller = {"quick": Scale(changes={"blocks": 3}, only={"servers": (1, 4, 8, 16, 32, 48, 64)})}
    return measure(replace(paper.STUDY, scales=smaller), repetitions=3, seed=7)


@pytest.fixture(scope="module")
def of_the_prototype() -> Runs:
    """With the prototype's packets and timers."""
    cases = {name: paper.CASES[name] for name in ("200 ms", "10 ms", "1 ms")}
    only = {"servers": (8, 32, 64)}
    study = replace(paper.STUDY, cases=cases, claims={}, scales={"quick": Scale(changes={"blocks": 3}, only=only)})
    return measure(study, replace(DEFAULT, segment_bytes=1448, short_timers_double=True), repetitions=3, seed=7)


def read(seed: int = 3, **changed):
    return read_once(paper.STUDY, replace(DEFAULT, **changed), seed=seed)


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
def test_goodput_is_within_a_fifth_of_an_earlier_prototypes(of_the_prototype, case, servers, earlier_mbps):
    """data/incast/SOURCES.md; with fewer servers only some blocks wait, and three blocks are no mean."""
    assert paper.goodput(of_the_prototype)[case][servers] == pytest.approx(earlier_mbps, rel=0.2)


def test_short_timers_do_not_double_and_the_long_one_does():
    bound = {}
    for double in (False, True):
        for least_ms in (0.2, 10.0, 200.0):
            setting = replace(DEFAULT, short_timers_double=double, min_rto_ms=least_ms)
            bound[double, least_ms] = paper.experiment(setting, 0.0, 1).tcp.max_rto_ms
    short = {key: most_ms for key, most_ms in bound.items() if most_ms < 120_000}
    assert short == {(False, 0.2): 0.2, (False, 10.0): 10.0}
    many = {"servers": 64, "min_rto_ms": 10.0}
    doubling, constant = (
        np.mean([read(seed, short_timers_double=double, **many)["goodput_share"] for seed in (1, 2)])
        for double in (True, False)
    )
    assert constant > doubling


@settings(max_examples=25)
@given(servers=st.integers(1, 16), window=st.integers(2, 20), seed=st.integers(0, 1000), surplus=st.integers(0, 5))
def test_where_all_windows_fit_into_the_buffer_nothing_is_lost_and_nobody_waits(servers, window, seed, surplus):
    buffer = servers * window + surplus
    found = read(seed, servers=servers, blocks=1, receive_window_segments=window, buffer_packets=buffer)
    assert found["drops_per_block"] == 0 and found["timeouts_per_block"] == 0


@pytest.mark.parametrize("timeout_ms", [50.0, 200.0, 1000.0])
def test_a_collapsed_block_takes_the_links_own_time_and_one_timeout(timeout_ms):
    found = read(servers=32, blocks=5, min_rto_ms=timeout_ms)
    assert found["median_delay_ms"] == pytest.approx(timeout_ms, abs=10)


def test_one_timeout_a_block_leaves_what_the_formula_says():
    """Link idle for one timeout: share T / (T + 1), T the block's time in timeouts; at 100 Mb/s, T = 0.43."""
    setting = replace(DEFAULT, rate_mbps=100.0)
    expected = paper.share_after_timeouts(setting.ideal_block_ms / setting.min_rto_ms)
    assert read(blocks=5, rate_mbps=100.0)["goodput_share"] == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(("timeout_ms", "factor"), [(200.0, 10), (0.2, 50)])
def test_stretching_all_times_alike_changes_nothing(timeout_ms, factor):
    """A link ten times as slow with delays and timeout ten times as long is the same experiment in slow motion."""
    setting = replace(DEFAULT, min_rto_ms=timeout_ms, servers=32, blocks=10)
    # But for time stamps, which are whole milliseconds in both: single runs differ, their means do not.
    for name in ("goodput_share", "drops_per_block"):
        fast, slow = (
            np.mean([read_once(paper.STUDY, each, seed=seed)[name] for seed in range(1, 9)])
            for each in (setting, in_slow_motion(setting, factor))
        )
        assert slow == pytest.approx(fast, rel=0.1)


def test_the_virtual_kernel_measures_what_its_timers_can_and_says_what_they_cannot():
    study, asked = paper.STUDY, {}
    for case in paper.CASES:
        setting = replace(study.case(case), **paper.OF_KERNELS)
        asked[case] = study.why_not(Point(case, {}, setting), "virtual")
    assert "timers tick" in asked.pop("200 us") and not any(asked.values())


@needs_virtual
def test_a_kernel_collapses_too():
    setting = replace(DEFAULT, min_rto_ms=50.0, blocks=2, **paper.OF_KERNELS)
    alone, many = (
        paper.read(run_experiment(paper.experiment(at, 0.0, 1), "virtual", until_complete=True), at)
        for at in (replace(setting, servers=servers) for servers in (1, 32))
    )
    assert alone["drops_per_block"] == alone["timeouts_per_block"] == 0
    assert many["drops_per_block"] > 0 and many["timeouts_per_block"] >= 1
    assert 0.9 * setting.min_rto_ms < many["median_delay_ms"] < 3 * setting.min_rto_ms


def turned(cases, blocks, seed=5):
    """Vary a knob with these cases, with other numbers of blocks and servers than the notebook's."""
    study = replace(paper.STUDY, knobs={"knob": Knob(cases, Scale(changes={"blocks": blocks}))})
    return vary(Runs(study, DEFAULT, "simulated", "quick", seed, 1, 0.0), "knob")


def test_a_larger_buffer_delays_the_collapse_until_the_block_fits():
    # Half the link is lost. Forty blocks: with 16 packets and few servers about every tenth waits for a timeout.
    grid = {"buffer_packets": swept(16, 64, 256, 2048), "servers": swept(2, 4, 8, 16, 32, 64)}
    table = turned({"reno": grid}, blocks=40)
    collapsed = table[table.goodput_mbps < 470].groupby("buffer_packets")["servers"].min()
    assert collapsed[16] < collapsed[64] < collapsed[256]
    assert 2048 not in collapsed.index  # a block is 1024 packets


def test_below_the_published_rate_the_collapse_is_shallow(runs):
    """Why slow emulated links do not show it: at 10 Mb/s a block takes four timeouts anyway."""
    slow = read(rate_mbps=10.0)
    assert slow["timeouts_per_block"] > 1 and slow["goodput_share"] > 0.8
    assert paper.goodput(runs, "goodput_share")["200 ms"][32] < 0.1


def test_with_few_servers_it_is_packets_in_step_that_wait_and_with_many_it_is_not():
    """A packet's time of hosts spreads nearly as many losses over all servers, which then repair them at once."""
    few_in_step, few, many = (
        pd.DataFrame(
            read(seed, servers=servers, blocks=20, host_delay_packets=time).numbers for seed in (1, 2, 3)
        ).mean()
        for servers, time in ((16, 0.0), (16, 1.0), (32, 1.0))
    )
    assert few_in_step["drops_per_block"] == pytest.approx(few["drops_per_block"], rel=0.2)
    assert few_in_step["timeouts_per_block"] > 2 * few["timeouts_per_block"]
    assert many["goodput_share"] < 0.1


def test_dctcp_holds_out_longer_than_reno_but_not_for_ever():
    schemes = {name: {"congestion_control": name, "servers": swept(24, 64)} for name in ("reno", "dctcp")}
    table = turned(schemes, blocks=3).pivot(index="servers", columns="case", values="goodput_mbps")
    assert table["dctcp"][24] > 5 * table["reno"][24]
    assert table["dctcp"][64] < 0.2 * table["dctcp"][24]


def test_a_long_timeout_sends_again_only_what_was_lost_and_a_short_one_more(runs):
    needless = paper.goodput(runs, "needless_per_block")
    assert (needless["200 ms"] == 0).all()
    assert (needless["200 us"][[32, 48, 64]] > 1).all()  # F-RTO and RACK spare most of what is under way


def test_a_block_ends_when_its_last_packet_has_crossed_the_clients_link():
    setting = replace(DEFAULT, min_rto_ms=10.0, servers=8, blocks=4)
    found = simulate(paper.experiment(setting, 0.0, 11))
    times = paper.block_times(found)
    assert times.asked_s.to_numpy()[1:] == pytest.approx(times.complete_s.to_numpy()[:-1], abs=1e-9)
    left_s = found.packets.time_s[found.packets.size_bytes > 100].to_numpy() + setting.link_delay_ms * 1e-3
    # Whatever follows the last byte within a round trip is a copy of what has arrived already.
    nearest = np.abs(left_s[:, None] - times.complete_s.to_numpy()).min(axis=0)
    assert nearest == pytest.approx(0, abs=1e-9)


def test_goodput_never_exceeds_the_payload_share_of_the_link(runs):
    assert (runs.values.goodput_share <= 1 + 1e-4).all()  # a link's clock may be that fast


def test_a_port_off_the_rate_fails_the_fidelity_check():
    setting = replace(DEFAULT, servers=16, blocks=2)
    found = simulate(paper.experiment(setting, 0.0, 3))
    late = found.packets.assign(time_s=found.packets.time_s * 1.02, wait_ms=found.packets.wait_ms * 1.02)
    on_time, off = (
        check_table(paper.read(each, setting).checks).set_index("check").holds
        for each in (found, replace(found, packets=late))
    )
    assert on_time.all()
    assert not off["gaps within 1 %"] and off["gaps within 10 %"]


def test_a_block_that_never_is_complete_counts_to_the_end_and_fails_the_fidelity_check():
    setting = replace(DEFAULT, servers=8)
    asked = paper.experiment(setting, 0.0, 3)
    whole = paper.block_times(simulate(asked))
    cut = LinkChange(float(whole.complete_s[1]) + 1e-3, *paper.PORT, up=False)  # while the last block is under way
    broken = simulate(replace(asked, changes=cut))
    assert paper.block_times(broken).complete_s.notna().tolist() == [True, True, False]
    said = paper.read(broken, setting)
    checks = check_table(said.checks).set_index("check")
    assert checks.value["blocks complete"] == pytest.approx(2 / 3) and not checks.holds["blocks complete"]
    lasted_s = asked.duration_s - whole.asked_s[0]
    assert said["goodput_mbps"] <= 3 * 1_024_000 * 8e-6 / lasted_s


def test_another_seed_gives_other_runs():
    assert read(1, servers=8)["goodput_mbps"] != read(2, servers=8)["goodput_mbps"]


def test_fragments_make_up_the_block():
    experiment = paper.experiment(replace(DEFAULT, blocks=2), 0.0, 1)
    assert experiment.flow_table["size_bytes"].sum() == 2 * 1_024_000


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(NetreproError, match="0 servers"):
        paper.experiment(replace(DEFAULT, servers=0), 0.0, 1)


def test_equal_goodput_counts_against_the_order_of_the_timeouts():
    flat = pd.Series(1.0, index=list(paper.SERVERS))
    assert paper.by_mean_of_many(*paper.BY_TIMEOUT)(flat, flat, flat) == ["200 ms", "10 ms", "1 ms"]
