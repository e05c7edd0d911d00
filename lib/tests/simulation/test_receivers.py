"""Receivers that acknowledge what they should not (Savage et al., CCR 1999), and senders that do or do not heed it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netrepro.emulation.tcp import check_tcp
from netrepro.errors import NetreproError
from netrepro.networks import (
    AckDivision,
    Datagrams,
    DropTail,
    DuplicateSpoofing,
    Experiment,
    Flow,
    Link,
    Measure,
    OptimisticAck,
    Requests,
    Tcp,
    dumbbell,
)
from netrepro.simulation import simulate
from netrepro.simulation.hosts import Hosts

PLENTY = DropTail(packets=10_000)
# A sender of 1999 and its path: 60 KB, 72 ms.
OF_1999 = Tcp(
    "reno",
    initial_window_segments=2,
    segment_bytes=1460,
    delayed_ack_ms=0,
    recovery="reno",
    counts="acknowledgements",
    tail_loss_probe=False,
)
DOCUMENT_BYTES, ROUND_TRIP_MS = 60_000, 72


def fetch(tcp: Tcp, size_bytes=DOCUMENT_BYTES, *, seed=0, **link):
    net = dumbbell(1, Link(1000, 0.01, PLENTY), Link(100, ROUND_TRIP_MS / 2 - 0.02, **{"queue": PLENTY, **link}))
    measure = Measure(windows_interval_ms=2, packets=(("h1", "s1"),))
    return simulate(Experiment(net, (Flow("h1", "h2", size_bytes),), 30, seed, tcp=tcp, measure=measure))


def rounds(measured) -> list[int]:
    """Segments that left in each round trip, from the first on."""
    data = measured.packets[measured.packets["size_bytes"] > 100]["time_s"].to_numpy()
    return np.bincount(np.round((data - data[0]) * 1e3 / ROUND_TRIP_MS).astype(int)).tolist()


@pytest.mark.parametrize("pieces", [1, 2, 3, 10])
def test_who_counts_acknowledgements_sends_one_segment_more_for_every_piece(pieces):
    sent = rounds(fetch(replace(OF_1999, receiver=AckDivision(pieces))))
    expected, left = [], 42  # of 1460 bytes
    window = 2
    while left > 0:
        expected.append(min(window, left))
        left -= expected[-1]
        window += expected[-1] * pieces
    assert sent == expected


@pytest.mark.parametrize("counts", ["segments", "bytes"])
def test_who_counts_bytes_or_whole_segments_gives_nothing_for_pieces(counts):
    honest = fetch(replace(OF_1999, counts=counts))
    divided = fetch(replace(OF_1999, counts=counts, receiver=AckDivision(20)))
    assert divided.flows["completion_ms"][0] == pytest.approx(honest.flows["completion_ms"][0], abs=0.5)
    assert rounds(divided) == rounds(honest)


def test_bytes_are_acknowledged_exactly():
    # In congestion avoidance from the first segment on: of pieces a third each, a third of the growth each.
    thirds = fetch(replace(OF_1999, counts="bytes", receiver=AckDivision(3)), 10 * 1460).windows["window_bytes"]
    grown = np.unique(np.round(np.diff(thirds / 1460), 6))
    assert set(grown[grown > 0]) <= {round(k / 3, 6) for k in range(1, 60)}
    assert thirds.iloc[-1] == pytest.approx(fetch(OF_1999, 10 * 1460).windows["window_bytes"].iloc[-1])


def test_spoofed_duplicates_inflate_the_window_of_a_reno_until_the_rest_leaves_at_once():
    honest = fetch(OF_1999)
    spoofed = fetch(replace(OF_1999, receiver=DuplicateSpoofing(100)))
    assert rounds(spoofed)[0] == 2 and sum(rounds(spoofed)[:2]) >= 42  # all but the first round in the second one
    assert spoofed.flows["completion_ms"][0] < honest.flows["completion_ms"][0] - 2 * ROUND_TRIP_MS
    # It looked like a loss: something was sent again though nothing was lost.
    assert spoofed.flows["retransmitted_packets"][0] > 0 == honest.flows["retransmitted_packets"][0]


def test_copies_of_the_first_acknowledgement_alone_have_one_segment_sent_again():
    spoofed = fetch(replace(OF_1999, receiver=DuplicateSpoofing(100, first_only=True)))
    assert sum(rounds(spoofed)[:2]) >= 42 and spoofed.flows["retransmitted_packets"][0] == 1
    back = spoofed.links_by_port.loc[("h2", "s2")]
    assert back["sent_packets"] <= 100 + 1 + 43  # copies, the handshake, and an acknowledgement of each that came


def test_a_sender_with_sack_does_not_hear_duplicates_that_tell_of_nothing():
    modern = Tcp("reno", delayed_ack_ms=0)
    honest, spoofed = fetch(modern), fetch(replace(modern, receiver=DuplicateSpoofing(100)))
    assert spoofed.flows["completion_ms"][0] == pytest.approx(honest.flows["completion_ms"][0], abs=3)
    assert spoofed.flows["retransmitted_packets"][0] == 0


def test_optimistic_acknowledgements_make_the_round_trip_short():
    honest, optimistic = fetch(OF_1999), fetch(replace(OF_1999, receiver=OptimisticAck(2.0)))
    assert optimistic.flows["completion_ms"][0] < honest.flows["completion_ms"][0] - ROUND_TRIP_MS
    assert optimistic.flows["delivered_bytes"][0] == DOCUMENT_BYTES
    seen_ms = optimistic.windows["round_trip_ms"].dropna()
    assert seen_ms.min() < 0.8 * ROUND_TRIP_MS


@pytest.mark.parametrize("recovery", ["linux", "sack", "newreno", "reno", "tahoe"])
def test_a_sender_with_nonces_heeds_no_acknowledgement_of_what_has_not_come(recovery):
    tcp = replace(OF_1999, recovery=recovery, cumulative_nonce=True)
    honest, optimistic = fetch(tcp), fetch(replace(tcp, receiver=OptimisticAck(2.0)))
    assert optimistic.flows["delivered_bytes"][0] == DOCUMENT_BYTES  # what is proven is heeded: it does end
    assert optimistic.flows["completion_ms"][0] > honest.flows["completion_ms"][0]
    assert optimistic.flows["timeouts"][0] > 0
    seen_ms = optimistic.windows["round_trip_ms"].dropna()
    assert seen_ms.min() > 0.99 * ROUND_TRIP_MS


@pytest.mark.parametrize("receiver", [None, AckDivision(7), DuplicateSpoofing(5)])
def test_nonces_change_nothing_for_who_acknowledges_what_has_come(receiver):
    """So they stop neither pieces nor copies."""
    tcp = replace(OF_1999, receiver=receiver)
    with_nonce, without = (
        fetch(replace(tcp, cumulative_nonce=on), queue=DropTail(packets=20), loss=0.1) for on in (True, False)
    )
    assert without.links["lost_packets"].sum() > 0
    for table in ("flows", "packets", "windows"):
        assert getattr(with_nonce, table).equals(getattr(without, table))


VARIED = replace(OF_1999, boundary_spread_bytes=15)


def ends(measured) -> np.ndarray:
    """Where each segment ends (bytes), of a flow that lost nothing."""
    return measured.packets.query("size_bytes > 100").size_bytes.sub(66).cumsum().to_numpy()


def test_segments_end_at_every_place_and_nobody_can_foretell_at_which():
    found = ends(fetch(VARIED, 1_000_000))
    assert found[-1] == 1_000_000
    places = found[:-1] - np.arange(1, len(found)) * (1460 - 15)
    assert set(places) == set(range(16))
    assert abs(np.corrcoef(places[1:], places[:-1])[0, 1]) < 0.1  # of some 690: three deviations are .11
    assert not np.array_equal(found, ends(fetch(VARIED, 1_000_000, loss=1e-12, seed=5)))
    assert np.array_equal(found, ends(fetch(VARIED, 1_000_000)))


@pytest.mark.parametrize("recovery", ["linux", "sack", "newreno", "reno", "tahoe"])
def test_a_sender_that_varies_its_segments_heeds_no_guess(recovery):
    tcp = replace(VARIED, recovery=recovery)
    honest, optimistic = fetch(tcp), fetch(replace(tcp, receiver=OptimisticAck(2.0)))
    assert optimistic.flows["delivered_bytes"][0] == DOCUMENT_BYTES  # what is right is heeded: it does end
    assert optimistic.flows["completion_ms"][0] > honest.flows["completion_ms"][0]
    assert honest.flows["completion_ms"][0] == pytest.approx(fetch(OF_1999).flows["completion_ms"][0], abs=1)
    divided = fetch(replace(tcp, receiver=AckDivision(20)))  # of whose pieces only the last ends where a segment does
    assert rounds(divided) == rounds(honest)


@pytest.mark.parametrize("delayed_ack_ms", [0, 40])
@pytest.mark.parametrize("recovery", ["linux", "sack", "newreno", "reno", "tahoe"])
def test_varied_segments_survive_losses_and_reordering(recovery, delayed_ack_ms):
    tcp = replace(VARIED, recovery=recovery, delayed_ack_ms=delayed_ack_ms, min_rto_ms=50, boundary_spread_bytes=300)
    found = fetch(tcp, 400_000, loss=0.03, jitter_ms=1, queue=DropTail(packets=20))
    assert found.links["lost_packets"].sum() > 0 and found.trusted
    assert found.flows["delivered_bytes"][0] == 400_000 and found.flows["completion_ms"].notna()[0]


def test_a_flow_that_is_ended_by_time_ends_with_a_whole_segment():
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(20, 5, DropTail(packets=15)))
    measure = Measure(packets=(("h1", "s1"),))
    found = simulate(Experiment(net, (Flow("h1", "h2", duration_s=1),), 2, tcp=VARIED, measure=measure))
    assert found.trusted and found.flows["delivered_bytes"][0] > 1_000_000
    first = found.packets.query("size_bytes > 100").size_bytes.sum() - 66 * (found.packets.size_bytes > 100).sum()
    assert found.flows["delivered_bytes"][0] <= first


def test_what_was_lost_under_optimistic_acknowledgements_never_comes():
    lossy = fetch(replace(OF_1999, receiver=OptimisticAck(2.0)), queue=DropTail(packets=10_000), loss=0.05)
    assert lossy.links["lost_packets"].sum() > 0
    assert np.isnan(lossy.flows["completion_ms"][0]) and lossy.flows["delivered_bytes"][0] < DOCUMENT_BYTES
    assert lossy.trusted


def test_claims_far_beyond_what_was_sent_are_no_news_and_the_flow_ends_all_the_same():
    measured = fetch(replace(OF_1999, receiver=OptimisticAck(2000.0), min_rto_ms=50))
    assert measured.flows["completion_ms"].notna()[0] and measured.flows["timeouts"][0] > 0


def test_a_greedy_receiver_takes_from_an_honest_one_unless_bytes_are_counted():
    net = dumbbell(2, Link(1000, 0.1, PLENTY), Link(20, 20, DropTail(packets=60)))

    def share(counts, recovery="sack"):
        tcp = replace(OF_1999, counts=counts, recovery=recovery)
        greedy = replace(tcp, receiver=AckDivision(10))
        flows = (Flow("h1", "h3", duration_s=30, tcp=greedy), Flow("h2", "h4", duration_s=30))
        goodput = simulate(Experiment(net, flows, 30, tcp=tcp)).flows["goodput_mbps"]
        return goodput[0] / goodput.sum()

    assert share("acknowledgements") > 0.8
    assert share("bytes") == pytest.approx(0.5, abs=0.1) and share("segments") == pytest.approx(0.5, abs=0.1)
    # Ten segments more each round trip lose too many at once for a sender without SACK: greed harms itself.
    assert share("acknowledgements", "newreno") < 0.5


@pytest.mark.parametrize("receiver", [AckDivision(7), DuplicateSpoofing(5), OptimisticAck(5.0)])
@pytest.mark.parametrize("recovery", ["linux", "sack", "newreno", "reno", "tahoe"])
def test_no_receiver_breaks_a_sender_or_loses_account_of_packets(receiver, recovery):
    net = dumbbell(2, Link(1000, 0.1, PLENTY), Link(20, 5, DropTail(packets=15), jitter_ms=2))
    tcp = replace(OF_1999, recovery=recovery, min_rto_ms=20, receiver=receiver)
    flows = (Flow("h1", "h3", 1_000_000), Flow("h2", "h4", duration_s=2), Datagrams("h2", "h4", 1, 3))
    measured = simulate(Experiment(net, flows, 20, tcp=tcp))
    assert measured.trusted
    whole = measured.flows["delivered_bytes"][0] == 1_000_000
    assert whole == measured.flows["completion_ms"].notna()[0]
    assert whole or isinstance(receiver, OptimisticAck)


def test_what_cannot_be_is_refused():
    greedy = Tcp(receiver=AckDivision(3))
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(20, 5, PLENTY))
    for tcp in (greedy, VARIED):
        for entry in (
            Requests("h2", ("h1",), 10, 10, 1, tcp=tcp),
            Flow("h1", "h2", 10, subflows=2, tcp=tcp),
            Flow("h1", "h2", 10, replication="repflow", tcp=tcp),
        ):
            with pytest.raises(NetreproError, match="several connections"):
                Experiment(net, (entry,), 1)
    with pytest.raises(NetreproError, match="boundary_spread_bytes = 15 of connections of programs"):
        Hosts(Experiment(net, (), 1, tcp=VARIED))
    for spread in (-1, 365, 1.5):
        with pytest.raises(NetreproError, match="boundary_spread_bytes"):
            replace(VARIED, boundary_spread_bytes=spread)
    with pytest.raises(NetreproError, match="boundary_spread_bytes = 15"):
        check_tcp(Tcp(boundary_spread_bytes=15))
    for make in (lambda: AckDivision(0), lambda: DuplicateSpoofing(1.5), lambda: OptimisticAck(0)):
        with pytest.raises(NetreproError, match="give a"):
            make()
    with pytest.raises(NetreproError, match="AckDivision"):
        Tcp(receiver="optimistic")
    with pytest.raises(NetreproError, match="receiver"):
        check_tcp(greedy)
    with pytest.raises(NetreproError, match="cumulative_nonce = True"):
        check_tcp(Tcp(cumulative_nonce=True))


def test_such_flows_are_descriptions():
    net = dumbbell(1, Link(1000, 0.1, PLENTY), Link(20, 5, PLENTY))
    for receiver in (AckDivision(3), DuplicateSpoofing(2), DuplicateSpoofing(2, first_only=True), OptimisticAck(3)):
        one = Experiment(net, (Flow("h1", "h2", 10, tcp=Tcp(receiver=receiver)),), 1)
        assert Experiment.from_json(one.to_json()) == one and hash(one) == hash(Experiment.from_json(one.to_json()))


def test_an_honest_receiver_acknowledges_as_the_kernels_does():
    """20 ms, 100 Mb/s: Linux 6.12 answers 23 segments one by one, then every second until what the last round trip
    brought lets its window grow. Counted in a capture of that kernel."""
    net = dumbbell(1, Link(1000, 0.01, DropTail(10_000)), Link(100, 9.98, DropTail(1000)))
    measure = Measure(packets=(("h2", "s2"),))
    times_s = simulate(Experiment(net, (Flow("h1", "h2", 400_000),), 10, measure=measure)).packets["time_s"][1:]
    assert [int(((times_s > a) & (times_s < a + 0.02)).sum()) for a in (0.025, 0.045, 0.065)] == [10, 16, 38]
