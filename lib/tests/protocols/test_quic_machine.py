"""Pages over QUIC: round trips of each kind of beginning, losses, what repeats, and what is no packet."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("aioquic", reason="aioquic is not installed")

from aioquic.quic.stream import QuicStream
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from netrepro.errors import NetreproError
from netrepro.protocols import drive
from netrepro.protocols.browser import Manner
from netrepro.protocols.quic import QuicClient, QuicServer, certificate

ONE_WAY_S = 0.05
ALL_AT_ONCE = Manner(1000)


def load(pages, *, delay_s=lambda *_: ONE_WAY_S, until_s=1000.0, manner=ALL_AT_ONCE, **how):
    """The client, and round trips of each page."""
    client = QuicClient("server", pages, manner, 300, 1.0, **how)
    drive({"client": client, "server": QuicServer()}, delay_s, until_s)
    return client, [(page.ended_s - page.began_s) / (2 * ONE_WAY_S) for page in client.browser.loaded]


@pytest.mark.parametrize(
    ("how", "requests", "trips"),
    [
        ({}, 1, [1, 1, 1]),
        ({}, 20, [2, 2, 2]),
        ({"manner": Manner(1)}, 5, [5, 5, 5]),
        ({"fresh": True}, 1, [2, 2, 2]),
        ({"fresh": True}, 20, [3, 3, 3]),
        ({"fresh": True, "early": True}, 1, [2, 1, 1]),  # the first has no ticket yet
        ({"fresh": True, "early": True}, 20, [3, 2, 2]),
    ],
)
def test_pages_take_their_round_trips(how, requests, trips):
    client, found = load([[1] * requests] * 3, **how)
    assert found == pytest.approx(trips, abs=0.15)  # requests are paced
    assert client.resumed == (2 if how.get("early") else 0)


def test_a_long_response_grows_the_window_from_ten_packets():
    _, found = load([[1000 * count] for count in (8, 70)], fresh=True)
    assert found[0] == pytest.approx(2, abs=0.2)
    assert found[1] > 3.5


def test_in_order_a_short_response_waits_for_a_long_one_that_was_asked_for_before():
    responses = [
        load([[1, 60_000, 1]], in_order=in_order)[0].browser.loaded[0].response_s / ONE_WAY_S
        for in_order in (False, True)
    ]
    assert responses[0] == pytest.approx((2 + 4 + 12) / 3, rel=0.25)
    assert responses[1] > 1.3 * responses[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", [{}, {"fresh": True}, {"fresh": True, "early": True}])
def test_every_page_arrives_though_packets_are_lost_and_overtake_each_other(seed, how):
    """Nor does time stand still, which it does for some of these seeds where timers are not a little later."""
    random = Random(seed)

    def delay_s(*_):
        return None if random.random() < 0.05 else ONE_WAY_S * random.uniform(1, 1.5)

    pages = [[random.randrange(1, 30_000) for _ in range(random.randrange(1, 12))] for _ in range(8)]
    client, _ = load(pages, delay_s=delay_s, **how)
    assert [(page.requests, page.size_bytes) for page in client.browser.loaded] == [(len(p), sum(p)) for p in pages]


@pytest.mark.parametrize("how", [{}, {"fresh": True, "early": True}])
def test_keys_differ_from_run_to_run_and_lengths_and_times_do_not(how):
    def record():
        seen, random = [], Random(1)

        def delay_s(_sender, _receiver, message):
            seen.append(message)
            return None if random.random() < 0.05 else ONE_WAY_S

        client, _ = load([[2000, 30, 400, *range(100, 130)]] * 6, delay_s=delay_s, **how)
        return client.browser.loaded, seen

    (first, sent), (again, sent_again) = record(), record()
    assert first == again
    assert [len(message) for message in sent] == [len(message) for message in sent_again]
    assert sent[0] != sent_again[0]


def test_streams_of_one_packet_have_an_order_that_no_address_decides():
    streams = {QuicStream(stream_id=4 * number) for number in (5, 2, 0, 4, 1, 3)}
    assert [stream.stream_id for stream in streams] == [0, 4, 8, 12, 16, 20]


def test_the_certificate_is_the_same_each_time_and_another_one_is_refused(monkeypatch):
    assert certificate() == certificate()
    client = QuicClient("server", [[1]], ALL_AT_ONCE)
    monkeypatch.setattr("netrepro.protocols.quic.KEY", Ed25519PrivateKey.generate())
    with pytest.raises(NetreproError, match="self-signed"):
        drive({"client": client, "server": QuicServer()}, lambda *_: ONE_WAY_S, 10.0)


def test_what_is_no_packet_is_dropped():
    server = QuicServer()
    for message in (b"", b"\x00", b"\x40" + bytes(30), bytes(range(200))):
        assert list(server.receive(0.0, "client", message)) == []
    client = QuicClient("server", [[1]], ALL_AT_ONCE)
    assert list(client.receive(0.0, "server", b"early")) == []
    assert client.wake_at_s == server.wake_at_s == float("inf")


def test_a_server_that_does_not_answer_is_told():
    client = QuicClient("server", [[1]], ALL_AT_ONCE)
    with pytest.raises(NetreproError, match="QUIC ended"):
        drive({"client": client, "server": QuicServer()}, lambda *_: None, 1000.0)
