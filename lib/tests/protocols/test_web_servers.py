"""Servers of pages over SST and QUIC: what is cut, changed or no request ends neither them nor a page."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.applications.web.run import why_no_quic
from netrepro.errors import NetreproError
from netrepro.protocols import drive
from netrepro.protocols.browser import MOST_RESPONSE_BYTES, Manner, asked_bytes, request
from netrepro.protocols.sst.channel import Channel
from netrepro.protocols.sst.web import SstClient, SstServer
from netrepro.protocols.sst.wire import CLOSE, HELLO, INIT, Segment, negotiation

ALL_AT_ONCE = Manner(1000)
OVER = ["SST", pytest.param("QUIC", marks=pytest.mark.skipif(bool(why_no_quic()), reason=why_no_quic()))]
NO_REQUESTS = [b"", b"GET / HTTP/1.0", b"-5 .", b"\xff\xfe 1", "١٢ ".encode(), b"1073741825 .", b"999999999999"]


def ends_of(over, pages, **how):
    if over == "SST":
        return SstClient("server", pages, ALL_AT_ONCE, 300, 1.0, **how), SstServer()
    from netrepro.protocols.quic import QuicClient, QuicServer

    return QuicClient("server", pages, ALL_AT_ONCE, 300, 1.0, **how), QuicServer()


class Changing:
    """A machine to which some of the datagrams come cut, with a bit changed, or as other bytes."""

    def __init__(self, machine, random, share):
        self.machine, self.random, self.share, self.changed = machine, random, share, 0
        self.start, self.wake = machine.start, machine.wake

    @property
    def wake_at_s(self):
        return self.machine.wake_at_s

    def receive(self, now_s, sender, message):
        if self.random.random() < self.share:
            self.changed += 1
            message = self.random.choice([self.cut, self.flip, self.replace])(message)
        return self.machine.receive(now_s, sender, message)

    def cut(self, message):
        return message[: self.random.randrange(len(message))]

    def flip(self, message):
        place = self.random.randrange(min(len(message), self.random.choice([20, 1500])))  # in a header, or anywhere
        return message[:place] + bytes([message[place] ^ 1 << self.random.randrange(8)]) + message[place + 1 :]

    def replace(self, message):
        return self.random.randbytes(self.random.randrange(1500))


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_pages_arrive_though_datagrams_are_cut_and_changed(over, fresh, seed):
    random = Random(seed)
    pages = [[random.randrange(1, 20_000) for _ in range(random.randrange(1, 6))] for _ in range(4)]
    client, server = (Changing(end, random, 0.08) for end in ends_of(over, pages, fresh=fresh))
    drive({"client": client, "server": server}, lambda *_: 0.05, 1000.0)
    loaded = client.machine.browser.loaded
    assert [(page.requests, page.size_bytes) for page in loaded] == [(len(page), sum(page)) for page in pages]
    assert client.changed and server.changed


@pytest.mark.parametrize("over", OVER)
def test_a_first_datagram_that_is_cut_or_changed_does_not_end_a_server(over):
    client, server = ends_of(over, [[1]])
    (first,) = client.start(0.0)
    for place in range(min(len(first.message), 60)):
        changed = bytearray(first.message)
        changed[place] ^= 1 << place % 8
        for message in (bytes(changed), first.message[:place]):
            for each in (server, ends_of(over, [[1]])[1]):
                list(each.receive(0.0, "stranger", message))
    again, _ = ends_of(over, [[1, 2]])
    drive({"client": again, "server": server, "stranger": Deaf()}, lambda *_: 0.05, 100.0)
    assert again.browser.is_done


class Deaf:
    """Hears nothing and says nothing."""

    wake_at_s = float("inf")

    def start(self, now_s):
        return ()

    def receive(self, now_s, sender, message):
        return ()


@pytest.mark.parametrize("said", NO_REQUESTS)
def test_what_asks_for_nothing_or_too_much_is_no_request(said):
    assert asked_bytes(said) is None
    assert asked_bytes(request(300, MOST_RESPONSE_BYTES)) == MOST_RESPONSE_BYTES


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("said", NO_REQUESTS)
def test_what_is_no_request_is_refused_and_the_server_goes_on(over, said, monkeypatch):
    module = "netrepro.protocols.sst.web" if over == "SST" else "netrepro.protocols.quic"
    client, server = ends_of(over, [[5]])
    with monkeypatch.context() as changed, pytest.raises(NetreproError, match="refused"):
        changed.setattr(f"{module}.request", lambda *_: said)
        drive({"client": client, "server": server}, lambda *_: 0.05, 100.0)
    again, _ = ends_of(over, [[5]], fresh=True)
    drive({"client": again, "server": server}, lambda *_: 0.05, 100.0)
    assert again.browser.is_done


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5), st.integers(0, 15), st.binary(max_size=20))))
def test_no_segments_of_a_fool_end_a_server_of_sst(segments):
    server, fool = SstServer(), Channel(1)
    list(server.receive(0.0, "fool", negotiation(HELLO, 1)))
    for kind, stream, flags, payload in segments:
        segment = Segment(kind, stream, flags, 10, stream + 1 if kind < 3 else 0, 0, payload)
        list(server.receive(0.0, "fool", fool.send(0.0, segment.encode(), "x")))
    list(server.receive(0.0, "fool", fool.send(0.0, Segment(INIT, 0, CLOSE, 10, 99, 0, b"no").encode(), "x")))
