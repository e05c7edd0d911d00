"""One connection over WiFi and 3G: block latencies against closed forms and a second way, and what must not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.papers import mptcp_wireless as paper
from netrepro.papers.mptcp_wireless import experiments, study
from netrepro.papers.mptcp_wireless.experiments import BOTH, KB, Outage, Setting
from netrepro.programs import why_missing
from netrepro.simulation import simulate
from netrepro.study import Point, run_once

SECONDS = 15.0


def read(case: str, **changed):
    return run_once(paper.STUDY, case, SECONDS, seed=3, **changed)


def on_kernel(case: str) -> Setting:
    return replace(paper.STUDY.case(case), **study.ONE_BUFFER)


def test_the_links_buffers_are_the_classs_packets():
    assert experiments.buffer_packets(8, 80) == 54 and experiments.buffer_packets(2, 2000) == 334
    asked = experiments.experiment(Setting(), 1.0, 1).topology
    assert asked.link("s1", "s3").queue.packets == 54 and asked.link("s1", "s4").queue.packets == 334


# The latency of a block.


def writes(acknowledged, send_buffer):
    """List (time, bytes written until then): the application fills the buffer, then sleeps until a third is free."""
    wrote = [(0.0, send_buffer)]
    for at, known in acknowledged:
        if 3 * (wrote[-1][1] - known) <= 2 * send_buffer:
            wrote.append((at, known + send_buffer))
    return wrote


def one_by_one(delivered, wrote):
    """The application as a loop over its blocks."""
    latencies, end = [], experiments.BLOCK_BYTES
    while end <= max((held for _, held in delivered), default=0):
        accepted = next(at for at, until in wrote if until >= end)
        arrived = next(at for at, held in delivered if held >= end)
        latencies.append((arrived - accepted) * 1e3)
        end += experiments.BLOCK_BYTES
    return latencies


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20_000)), min_size=1, max_size=60),
    delay=st.integers(1, 80),
    send_buffer=st.integers(8 * KB, 100 * KB),
)
def test_latencies_are_those_of_an_application_that_writes_in_a_loop(steps, delay, send_buffer):
    gaps, sizes = zip(*steps, strict=True)
    delivered = list(zip(np.cumsum(gaps) / 1e3, np.cumsum(sizes), strict=True))
    known = [(at + delay / 1e3, held) for at, held in delivered]
    tables = [
        pd.DataFrame(rows, columns=["time_s", name])
        for rows, name in ((delivered, "delivered_bytes"), (known, "acknowledged_bytes"))
    ]
    # Acknowledgements must let the sender write what it delivered: only then is the trace one that could be.
    blocks = experiments.block_latencies(*tables, 10**9)
    assert (blocks.accepted_s == 0).all()
    wrote = writes(known, send_buffer)
    tables[0] = tables[0][tables[0].delivered_bytes <= wrote[-1][1]]
    ours = experiments.block_latencies(*tables, send_buffer).latency_ms
    assert list(ours) == pytest.approx(one_by_one(list(tables[0].itertuples(index=False)), wrote))


@pytest.mark.parametrize(("network", "one_way_ms", "mbps"), [("tcp over wifi", 10.0, 8.0), ("tcp over 3g", 75.0, 2.0)])
@pytest.mark.parametrize("send_buffer_kb", [100, 200])
def test_on_one_path_a_block_waits_for_the_send_buffer_to_drain(network, one_way_ms, mbps, send_buffer_kb):
    """All that the buffer holds when a block is accepted must be acknowledged, but for the last one-way delay. The
    buffer is filled by thirds, so the block in the middle finds five sixths of it."""
    readings = read(network, send_buffer_kb=send_buffer_kb, receive_buffer_kb=60, mobile_jitter_ms=0.0)
    drain_ms = 5 / 6 * send_buffer_kb * KB * 8 / (mbps * 1448 / 1514) / 1e3
    packet_ms = 1514 * 8 / (mbps * 1e3)
    block_ms = experiments.BLOCK_BYTES * 8 / (mbps * 1e3)
    assert readings["median_ms"] == pytest.approx(drain_ms - one_way_ms, abs=block_ms + 2 * packet_ms)


def test_what_the_sender_knows_is_what_the_receiver_held_one_way_delay_before():
    setting = replace(paper.STUDY.case("tcp over wifi"), receive_buffer_kb=40)
    measured = simulate(experiments.experiment(setting, 4.0, 3))
    delivered, known = measured.deliveries, experiments.acknowledged(measured)
    before = np.searchsorted(delivered.time_s, known.time_s - 10e-3, side="right")
    held = np.concatenate([[0], delivered.delivered_bytes])
    assert (known.acknowledged_bytes.to_numpy() == held[before]).mean() > 0.99


# The mechanisms.


def test_what_3g_holds_slows_plain_mptcp_and_both_mechanisms_bring_it_back_to_wifi_only_with_one_buffer_for_both():
    plain, both, wifi = (read(name) for name in ("mptcp", BOTH, "tcp over wifi"))
    assert plain["mean_ms"] > 1.1 * both["mean_ms"] > 1.4 * wifi["mean_ms"]
    assert all(check.holds for each in (plain, both, wifi) for check in each.checks)
    assert read(BOTH, **study.ONE_BUFFER)["mean_ms"] < 1.1 * wifi["mean_ms"]


def test_on_two_equal_paths_the_mechanisms_make_no_difference():
    equal = {"mobile_mbps": 8.0, "mobile_round_trip_ms": 20.0, "mobile_buffer_ms": 80.0, "mobile_jitter_ms": 0.0}
    plain, both = (read(name, **equal) for name in ("mptcp", BOTH))
    assert plain["mobile_share"] > 0.2
    assert both["mean_ms"] == pytest.approx(plain["mean_ms"], rel=0.05)


def test_the_classs_receive_buffer_reaches_3g_only_where_wifi_loses_packets():
    clean, lossy = (read("class: mptcp", wifi_loss=loss) for loss in (0.0, study.PROJECT_LOSS))
    assert clean["mobile_share"] < 0.01 < 0.1 < lossy["mobile_share"]
    rescued = read(f"class: {BOTH}", wifi_loss=study.PROJECT_LOSS)
    assert rescued["mean_ms"] < 0.7 * lossy["mean_ms"]


def test_a_connection_over_both_survives_the_loss_of_wifi_and_tcp_stalls():
    both, alone = (read(f"lost: {name}") for name in ("mptcp", "tcp over wifi"))
    assert both["progress_share"] == 1.0
    assert alone["progress_share"] <= 0.2  # of five seconds, the first has what was on its way
    assert alone["seconds"].goodput_mbps.iloc[-1] > 5  # WiFi is back


def test_progress_counts_whole_seconds_without_wifi_only():
    table = pd.DataFrame({"second": np.arange(9.0), "goodput_mbps": [1, 1, 1, 0, 2, 0, 1, 1, 1]})
    assert experiments.without_wifi(table, Outage(), 9.0).second.tolist() == [3, 4, 5]
    assert experiments.without_wifi(table, Outage(down=0.5, up=0.6), 9.0).empty


# Rankings and mistakes.


def test_equal_ratios_stand_in_the_reverse_of_the_claims_order():
    by_rate = pd.Series([0.1, 0.2, 0.3, 0.4], index=experiments.WIFI_MBPS)
    assert study.latest_first(by_rate) == ["32", "16", "8", "4"]
    assert study.latest_first(0 * by_rate) == ["4", "8", "16", "32"]


def test_a_buffer_below_a_packet_is_refused():
    with pytest.raises(NetreproError, match="less than a packet"):
        experiments.experiment(Setting(receive_buffer_kb=1), 1.0, 1)


def test_tiers_in_real_time_are_refused():
    with pytest.raises(NetreproError, match="simulated"):
        experiments.measure_one(Setting(), 1.0, 1, "privileged")


# Linux's MPTCP, in virtual time.


def test_each_tier_says_what_it_cannot_run():
    told, both = (Point(name, {}, on_kernel(name)) for name in (study.TOLD, BOTH))
    assert "no path manager" in paper.STUDY.why_not(told, "simulated")
    assert "opportunistic_retransmission" in paper.STUDY.why_not(both, "virtual")
    assert paper.STUDY.why_not(told, "virtual") == why_missing("ip")
    assert paper.STUDY.why_not(both, "simulated") == ""


@needs_virtual
def test_tcp_on_one_path_is_the_same_on_both_tiers_and_linuxs_mptcp_uses_3g_with_the_classs_buffer():
    kernel, ours = (
        {name: experiments.measure_one(on_kernel(f"class: {name}"), SECONDS, 3, tier) for name in experiments.FIG7[::2]}
        for tier in ("virtual", "simulated")
    )
    assert kernel["tcp over wifi"]["median_ms"] == pytest.approx(ours["tcp over wifi"]["median_ms"], rel=0.01)
    assert ours["mptcp"]["mobile_share"] < 0.01 < 0.05 < kernel["mptcp"]["mobile_share"]
    assert kernel["mptcp"]["mean_ms"] > 2 * ours["mptcp"]["mean_ms"]
    assert all(check.holds for readings in kernel.values() for check in readings.checks)
    assert all(readings.fidelity.holds.all() for readings in kernel.values())


@needs_virtual
@needs_programs("ip")
def test_a_path_manager_that_is_told_hands_over_at_once_and_a_silent_loss_takes_timeouts():
    """Tested with a control that breaks it: single-path TCP stalls until after WiFi is back."""
    silent, told, alone = (
        experiments.measure_outage(on_kernel(name), 18.0, 3, "virtual")
        for name in ("lost: mptcp", study.TOLD, "lost: tcp over wifi")
    )
    assert told["without_wifi_mbps"] > 1.4 > silent["without_wifi_mbps"] > 0.1 > alone["without_wifi_mbps"]
    assert told["progress_share"] == 1.0 and told["longest_stall_s"] < alone["longest_stall_s"] > 6.0
    assert silent["longest_stall_s"] < alone["longest_stall_s"]
    ends = told["seconds"].goodput_mbps.iloc[-3:]
    assert ends.mean() > 2.3  # more than 3G carries: WiFi is used again


def test_the_longest_stall_counts_from_the_loss_to_the_end():
    at = pd.DataFrame({"time_s": [1.0, 3.5, 5.0, 8.5], "delivered_bytes": [1, 2, 3, 4]})
    assert experiments.longest_stall_s(at, Outage(), 9.0) == pytest.approx(3.5)
    assert experiments.longest_stall_s(at[:1], Outage(), 9.0) == pytest.approx(6.0)
