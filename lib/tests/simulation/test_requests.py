"""Requests and answers over connections opened beforehand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, DropTail, Experiment, Link, LinkChange, Measure, Requests, Tcp, star
from netrepro.networks.tables import REQUEST_COLUMNS
from netrepro.simulation import simulate

SEGMENT, FULL, ACK = 1448, 1514, 66
LINK = Link(1000, 1, DropTail(packets=10_000))
AT_ONCE = Tcp("reno", delayed_ack_ms=0)
ROUND_TRIP_MS = 4.0


def run(entry: Requests, tcp: Tcp = AT_ONCE, duration_s: float = 60):
    return simulate(Experiment(star(5, LINK), (entry,), duration_s, tcp=tcp, clock_skew_ppm=0))


def serialisation_ms(*packets_bytes: int) -> float:
    return sum(packets_bytes) * 8 / 1e6


def test_an_answer_within_the_initial_window_takes_one_round_trip():
    requests = run(Requests("h1", ("h2",), 100, 5 * SEGMENT, 3)).requests
    # Both ways two links; the answer's segments follow the request's acknowledgement, and each other on the second.
    expected = ROUND_TRIP_MS + serialisation_ms(166, 166, ACK, FULL, *[FULL] * 5)
    assert requests["completion_ms"][0] == pytest.approx(expected, abs=1e-9)
    # Later requests leave behind the acknowledgement of the answer before.
    assert requests["completion_ms"][1:].to_numpy() == pytest.approx(expected + serialisation_ms(ACK), abs=1e-9)
    assert requests["request"].tolist() == [0, 1, 2] and list(requests) == REQUEST_COLUMNS


def test_a_warm_connection_answers_faster_than_a_cold_one():
    # 20 segments: rounds of 10 and 20 at first, then the window has grown.
    requests = run(Requests("h1", ("h2",), 100, 20 * SEGMENT, 5)).requests["completion_ms"]
    assert requests[0] == pytest.approx(2 * ROUND_TRIP_MS, rel=0.1)
    assert requests[1:].to_numpy() == pytest.approx(ROUND_TRIP_MS, rel=0.15)


def test_a_silent_connection_starts_again_from_the_initial_window():
    # RFC 2861 as in Linux: the window halves for each timeout of silence, here 204 ms, down to 10 segments.
    asked = Requests("h1", ("h2",), 100, 40 * SEGMENT, 6, think_ms=3000)
    cold = run(asked).requests["completion_ms"]
    warm = run(asked, Tcp("reno", delayed_ack_ms=0, slow_start_after_idle=False)).requests["completion_ms"]
    assert cold[1:].to_numpy() == pytest.approx(cold[0], rel=0.02)
    # Warm, the window has grown beyond an answer after two of them.
    assert warm[2:].max() < cold.min() - 1.5 * ROUND_TRIP_MS


def test_a_cubic_window_grows_only_while_something_is_under_way():
    # Linux's cubictcp_cwnd_event: short silences too shift the start of the cubic, which levels out at 161 segments, on
    # the kernel at 158. A loss in slow start begins it; pauses are shorter than a timeout.
    cut = (LinkChange(0.551, "h2", "s1", up=False), LinkChange(0.5511, "h2", "s1", up=True))
    net = star(2, Link(1000, 25, DropTail(packets=10_000)))
    windows = []
    for think_ms in (0.0, 150.0):
        asked = Requests("h1", ("h2",), 100, 400 * SEGMENT, 60, think_ms=think_ms, congestion_control="cubic")
        measure = Measure(windows_interval_ms=5)
        found = simulate(Experiment(net, (asked,), 60, measure=measure, tcp=AT_ONCE, changes=cut, clock_skew_ppm=0))
        answering = found.windows.query("connection == 0")
        answered = pd.merge_asof(found.requests, answering, left_on="answered_s", right_on="time_s")
        windows.append(answered["window_bytes"].to_numpy() / SEGMENT)
    busy, pausing = windows
    assert pausing == pytest.approx(busy, abs=0.1)
    assert busy[0] < 120 and busy[20:25] == pytest.approx(np.full(5, 161), abs=1) and busy[-1] > 200


@pytest.mark.parametrize("think_ms", [0.0, 7.5])
def test_behind_a_barrier_the_next_round_waits_for_the_last_answer(think_ms):
    requests = run(Requests("h1", ("h2", "h3", "h4"), 100, 50_000, 10, think_ms=think_ms)).requests
    rounds = requests.groupby("request")
    assert (rounds["asked_s"].nunique() == 1).all() and (rounds.size() == 3).all()
    last = rounds["answered_s"].max().to_numpy()
    assert rounds["asked_s"].first().to_numpy()[1:] == pytest.approx(last[:-1] + think_ms / 1e3, abs=1e-11)


def test_without_a_barrier_every_server_is_asked_by_itself():
    requests = run(Requests("h1", ("h2", "h3"), 100, 50_000, 10, barrier=False)).requests
    for _, own in requests.groupby("server"):
        assert own["asked_s"].to_numpy()[1:] == pytest.approx(own["answered_s"].to_numpy()[:-1], abs=1e-11)
    assert requests.groupby("request")["asked_s"].nunique().max() == 2


def test_servers_answer_after_a_time_drawn_evenly_and_each_for_itself():
    within_ms, small = 40.0, ("h1", ("h2", "h3", "h4"), 100, 1000)
    at_once_ms = run(Requests(*small, 3)).requests["completion_ms"].min()
    requests = run(Requests(*small, 200, answer_within_ms=within_ms)).requests
    delays_ms = requests.pivot(index="request", columns="server", values="completion_ms") - at_once_ms
    # Three small requests and answers in each other's way cost some microseconds.
    assert delays_ms.min().min() >= 0 and delays_ms.max().max() < within_ms + 0.01
    assert kstest(delays_ms.to_numpy().ravel() / within_ms, "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(delays_ms.to_numpy().T) - np.eye(3)).max() < 0.2


def test_an_answer_in_two_parts_is_there_a_round_of_the_rest_after_the_wait():
    # Five segments at once, acknowledged meanwhile; the rest fits into the window that has grown from 10.
    wait_ms, first, rest = 30.0, 5 * SEGMENT, 7 * SEGMENT + 100
    asked = Requests("h1", ("h2",), 100, first + rest, 3, first_bytes=first, rest_after_ms=wait_ms)
    requests = run(asked).requests["completion_ms"]
    whole = run(Requests("h1", ("h2",), 100, rest, 3)).requests["completion_ms"]
    assert requests.to_numpy() == pytest.approx(whole + wait_ms, abs=serialisation_ms(2 * ACK))
    # The parts' last segments are short ones, and each byte counts once.
    odd = Requests("h1", ("h2", "h3"), 1, 12_345, 7, first_bytes=1500, rest_after_ms=5)
    assert run(odd).flows["delivered_bytes"].tolist() == [7 * 12_345] * 2
    cut = run(odd, duration_s=0.003 + 7 * 0.005 / 2).flows["delivered_bytes"]
    assert (cut % 12_345).gt(0).all() and (cut < 7 * 12_345).all()


def test_an_answer_no_longer_than_its_first_part_does_not_wait():
    at_once = run(Requests("h1", ("h2",), 100, 5000, 4)).requests
    assert run(Requests("h1", ("h2",), 100, 5000, 4, first_bytes=5000, rest_after_ms=50)).requests.equals(at_once)
    with pytest.raises(NetreproError, match="first_bytes"):
        Requests("h1", ("h2",), 100, 5000, 4, rest_after_ms=50)


def test_servers_that_take_their_time_leave_other_traffic_as_it_was():
    net = star(5, Link(50, 1, DropTail(packets=20), loss=0.02, jitter_ms=0.2))

    def others(answer_within_ms: float):
        apart = Requests("h3", ("h4",), 100, 5000, 20, answer_within_ms=answer_within_ms)
        alike = Requests("h1", ("h2",), 100, 50_000, 20), Datagrams("h5", "h2", 3, 2, spacing="poisson")
        found = simulate(Experiment(net, (apart, *alike), 30, measure=Measure(packets=(("s1", "h2"),))))
        return found.requests.query("client == 'h1'"), found.packets.query("source == 's1'")

    for before, after in zip(others(0.0), others(7.0), strict=True):
        assert before.reset_index(drop=True).equals(after.reset_index(drop=True))


def test_answers_that_end_within_a_segment_are_counted_to_the_byte():
    measured = run(Requests("h1", ("h2", "h3"), 1, 12_345, 7, label="reads"))
    assert measured.flows["delivered_bytes"].tolist() == [7 * 12_345] * 2
    assert measured.flows["completion_ms"].to_numpy() == pytest.approx(
        measured.requests.groupby("flow")["answered_s"].max().to_numpy() * 1e3
    )
    assert set(measured.requests["label"]) == {"reads"} and measured.trusted


def test_requests_survive_loss_and_end():
    bad = star(4, Link(50, 1, DropTail(packets=20), loss=0.02))
    entry = Requests("h1", ("h2", "h3", "h4"), 3000, 40_000, 20)
    measured = simulate(Experiment(bad, (entry,), 300, tcp=Tcp(min_rto_ms=10)))
    assert measured.requests["answered_s"].notna().all() and len(measured.requests) == 60
    assert measured.flows["retransmitted_packets"].min() > 0
    assert (measured.flows["delivered_bytes"] == 20 * 40_000).all()


def test_what_is_not_answered_by_the_end_is_missing():
    measured = run(Requests("h1", ("h2",), 100, 10**9, 2), duration_s=1)
    assert measured.requests["answered_s"].isna().tolist() == [True]
    assert 0 < measured.flows["delivered_bytes"][0] < 10**9
