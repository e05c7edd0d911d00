"""Receivers that acknowledge what they should not: closed forms, the senders that heed them, and what must not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.networks.receivers import OptimisticAck
from netrepro.papers import misbehaving_receiver as paper
from netrepro.programs import why_missing
from netrepro.study import Runs, measure, read_once, vary

SEGMENTS = 42  # of 1460 bytes in 60 kB


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=4, seed=7)


def read(**changed):
    return read_once(paper.STUDY, replace(paper.Setting(round_trip_spread_ms=0.0), **changed), 20.0)


def share(repetitions: int = 3, **changed) -> float:
    setting = replace(paper.Setting(), **paper.SHARED, **changed)
    return float(np.mean([read_once(paper.STUDY, setting, 20.0, seed)["goodput_share"] for seed in range(repetitions)]))


def rounds_of(pieces: int) -> int:
    """Round trips until all segments are sent, when each that is acknowledged lets `pieces` more go."""
    window, left, rounds = 1, SEGMENTS, 0
    while left > 0:
        sent = min(window, left)
        window, left, rounds = window + pieces * sent, left - sent, rounds + 1
    return rounds


@settings(max_examples=15)
@given(pieces=st.integers(1, 60), round_trip_ms=st.floats(20, 200))
def test_a_divider_is_done_after_as_many_rounds_as_the_rule_says(pieces, round_trip_ms):
    reading = read(receiver="division", pieces=pieces, round_trip_ms=round_trip_ms)
    packet_ms = 1514 * 8e-3 / 100
    trips = rounds_of(pieces) + 1  # the handshake and the request; the first data come with the second
    assert 0 <= reading["last_data_ms"] - trips * round_trip_ms <= (SEGMENTS + 3) * packet_ms
    assert reading["second_round_segments"] == min(1 + pieces, SEGMENTS - 1)


def test_the_papers_example_of_three_pieces():
    assert read(receiver="division", pieces=3)["second_round_segments"] == 4


@pytest.mark.parametrize("counts", ["bytes", "segments"])
def test_pieces_gain_nothing_from_who_counts_bytes_or_segments(counts):
    honest, divided = (read(receiver=name, counts=counts)["last_data_ms"] for name in ("honest", "division"))
    assert divided == pytest.approx(honest, abs=2.0)  # the last of 50 acknowledgements comes a little later


def test_copies_inflate_by_one_segment_each_and_byte_counting_is_no_remedy():
    for copies in (5, 10, 30):
        assert read(receiver="spoofing", copies=copies)["second_round_segments"] == copies + 1
    honest, spoofed = (read(receiver=name, counts="bytes")["last_data_ms"] for name in ("honest", "spoofing"))
    assert honest - spoofed > 3.5 * 72


def test_who_repeats_only_the_first_acknowledgement_gains_as_much_and_has_one_segment_twice():
    every, first = (read(receiver="spoofing", first_only=first_only) for first_only in (False, True))
    assert first["last_data_ms"] == every["last_data_ms"]
    assert (first["sent_again"], every["sent_again"]) == (1, SEGMENTS - 1)


def test_a_tahoe_punishes_who_spoofs_and_a_sack_sender_does_not_hear_it():
    honest, tahoe, sack = (
        read(receiver=receiver, recovery=recovery)["last_data_ms"]
        for receiver, recovery in (("honest", "tahoe"), ("spoofing", "tahoe"), ("spoofing", "sack"))
    )
    assert tahoe > 2 * honest
    assert sack == pytest.approx(honest, abs=1.0)


def test_optimistic_acknowledgements_leave_three_round_trips_and_the_interval():
    """Handshake, request and the first data's way, a round trip for the last; each acknowledgement releases two."""
    for round_trip_ms in (36.0, 72.0):
        fast, slow = (
            read(receiver="optimistic", ack_interval_ms=interval, round_trip_ms=round_trip_ms)["last_data_ms"]
            for interval in (1.0, 2.0)
        )
        assert slow - fast == pytest.approx(20, abs=0.5)
        assert fast - 20 == pytest.approx(3 * round_trip_ms, abs=5)


def test_a_sum_of_nonces_takes_away_all_that_optimism_gains_and_costs_an_honest_receiver_nothing():
    honest, with_nonce = read(), read(nonce=True)
    assert with_nonce["last_data_ms"] == honest["last_data_ms"]
    assert with_nonce["course"].equals(honest["course"])
    optimistic = read(receiver="optimistic", nonce=True)
    assert optimistic["last_data_ms"] >= honest["last_data_ms"] > read(receiver="optimistic")["last_data_ms"]
    assert all(check.holds for check in optimistic.checks)  # the document is complete in the end


def test_a_burst_that_the_buffer_does_not_hold_harms_the_attacker():
    honest = read(buffer_packets=16)
    for receiver in ("division", "spoofing"):
        assert read(receiver=receiver, buffer_packets=16)["last_data_ms"] > 1.5 * honest["last_data_ms"]
        assert read(receiver=receiver, buffer_packets=64)["last_data_ms"] < 0.5 * honest["last_data_ms"]
    assert not honest["dropped_packets"]


def test_a_divider_takes_from_an_honest_flow_only_where_acknowledgements_are_counted():
    divider = {"receiver": "division", "pieces": 10, "recovery": "sack"}
    assert share(**divider) > 0.75
    assert share(**divider, counts="bytes") == pytest.approx(0.5, abs=0.15)


def test_the_verdicts_and_that_every_control_flips(runs):
    verdicts = {}
    for measured in runs.measured_claims():
        claim = load_claims("misbehaving_receiver").claim(measured.claim)
        verdicts[claim.id] = judge(claim, measured, "simulated").verdict
        if measured.has_control():
            assert judge(claim, measured.broken(), "simulated").verdict != "agrees", claim.id
    assert set(verdicts.values()) == {"agrees"}


def test_data_come_in_order_of_time_and_all_of_it(runs):
    for case in ("honest", "division", "optimistic"):
        for _, course in runs.table("course", case).groupby("repetition"):
            assert course.time_ms.is_monotonic_increasing
            assert course.kilobytes.iloc[-1] == pytest.approx(60.0)


def test_gains_are_against_the_honest_receiver_of_the_same_sender(runs):
    table = paper.gains(vary(runs, "senders"))
    assert list(table.index) == list(paper.SENDERS)
    cured = table.index.str.endswith(("nonce", "15 places"))
    assert cured.sum() == 2 and (table["optimistic"][cured] <= 0).all()
    assert (table["optimistic"][~cured & ~table.index.str.endswith("2 places")] > 150).all()
    assert table.loc["Reno, counts bytes", "division"] == pytest.approx(0, abs=2)
    assert table.loc["SACK, counts bytes", "spoofing"] == pytest.approx(0, abs=1)


def test_settings_become_receivers():
    assert paper.receiver_of(paper.Setting()) is None
    assert paper.receiver_of(paper.Setting(receiver="optimistic", ack_interval_ms=10)) == OptimisticAck(1.168)


# A real Linux sender, in virtual time.


def on_kernel(**changed):
    setting = replace(paper.Setting(round_trip_spread_ms=0.0), **changed)
    return paper.measure_one(setting, 20.0, 1, "virtual")


@needs_virtual
@needs_programs("ip")
def test_a_kernel_that_counts_pieces_sends_what_the_simulator_does_and_linux_counts_whole_segments():
    for pieces in (3, 50):
        kernel, ours, linux = (
            measured(receiver="division", pieces=pieces, **more)
            for measured, more in ((on_kernel, {}), (read, {}), (on_kernel, paper.TODAY))
        )
        assert kernel["second_round_segments"] == ours["second_round_segments"] == min(1 + pieces, SEGMENTS - 1)
        assert kernel["last_data_ms"] == pytest.approx(ours["last_data_ms"], abs=2.0)
        assert linux["second_round_segments"] == 2
        assert linux["last_data_ms"] > kernel["last_data_ms"] + 100


@needs_virtual
@needs_programs("ip")
def test_linux_with_sack_does_not_hear_a_spoofer_and_without_makes_it_wait_while_optimism_pays():
    honest, spoofed, unselective, optimistic = (
        on_kernel(**paper.TODAY | more)
        for more in (
            {},
            {"receiver": "spoofing"},
            {"receiver": "spoofing", "recovery": paper.NO_SACK},
            {"receiver": "optimistic"},
        )
    )
    assert spoofed["last_data_ms"] == pytest.approx(honest["last_data_ms"], abs=1.0)
    assert spoofed["sent_again"] == 0 < unselective["sent_again"]
    assert unselective["last_data_ms"] > 1.5 * honest["last_data_ms"]
    assert honest["last_data_ms"] - optimistic["last_data_ms"] > 100
    assert all(check.holds for one in (honest, unselective, optimistic) for check in one.checks)


def test_the_kernel_is_not_asked_for_recoveries_of_1999_or_for_two_flows():
    for case, left_out in (("spoofing", True), ("spoofing, SACK", False), ("Linux without SACK, spoofing", False)):
        assert (paper.cannot(paper.STUDY.case(case), "virtual") != why_missing("ip")) == left_out
        assert paper.cannot(paper.STUDY.case(case), "simulated") == ""
    assert "cumulative_nonce" in paper.cannot(paper.STUDY.case("optimistic, nonce"), "virtual")
    assert "boundary_spread_bytes = 14" in paper.cannot(paper.STUDY.case("optimistic, varied segments"), "virtual")
    assert "two flows" in paper.cannot(replace(paper.Setting(), **paper.SHARED), "virtual")


def test_a_document_is_complete_when_its_last_missing_byte_has_come():
    packets = pd.DataFrame(
        [(0.1, 4, 0), (0.2, 4, 6), (0.3, 4, 0), (0.4, 3, 3)], columns=["time_s", "size_bytes", "start_bytes"]
    )
    assert paper.completion_s(packets, 10) == (0.4, 10)
    end_s, held = paper.completion_s(packets[:3], 10)
    assert np.isnan(end_s) and held == 8
