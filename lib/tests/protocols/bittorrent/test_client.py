"""Messages, pieces and whole clients in virtual time (BEP 3), and the block-level swarm against them."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols import Event, Send, drive
from netrepro.protocols.bittorrent.chokers import choker
from netrepro.protocols.bittorrent.client import SNUBBED_S, Client
from netrepro.protocols.bittorrent.metainfo import BLOCK_BYTES, bdecode, bencode, make_torrent
from netrepro.protocols.bittorrent.picker import PiecePicker
from netrepro.protocols.bittorrent.wire import (
    Decoder,
    Message,
    ProtocolError,
    decode_bits,
    encode,
    encode_bits,
    handshake,
)
from netrepro.simulation.swarm import SwarmPeer, run_swarm

CONTENT = Random(1).randbytes(10 * BLOCK_BYTES + 123)
TORRENT = make_torrent("file", CONTENT, 4 * BLOCK_BYTES)

values = st.recursive(
    st.integers() | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=5), inner, max_size=4),
    max_leaves=12,
)
messages = st.one_of(
    st.builds(Message, st.sampled_from(["choke", "unchoke", "interested", "not interested", "keep alive"])),
    st.builds(Message, st.just("have"), st.integers(0, 2**32 - 1)),
    st.builds(Message, st.sampled_from(["request", "cancel"]), *[st.integers(0, 2**32 - 1)] * 3),
    st.builds(Message, st.just("bitfield"), data=st.binary(max_size=40)),
    st.builds(Message, st.just("piece"), st.integers(0, 99), st.integers(0, 99), data=st.binary(max_size=99)),
)


def client(number: int, *, kind: str = "bittorrent", torrent=TORRENT, **more) -> Client:
    random = Random(number)
    return Client(torrent, b"-NR0001-%012d" % number, choker(kind, random), choker("seed", random), random, **more)


# Formats.


@given(st.lists(messages, min_size=1, max_size=5), st.integers(1, 40))
def test_a_decoder_says_what_the_message_lacks(some, size):
    decoder, data = Decoder(), handshake(bytes(20), bytes(20))
    assert list(decoder.feed(data)) and decoder.missing_bytes == 0
    for each in some:
        whole = encode(each)
        for at in range(0, len(whole), size):
            list(decoder.feed(whole[at : at + size]))
            there = min(at + size, len(whole))
            assert decoder.missing_bytes == (len(whole) - there if there >= 4 else 0)


@given(values)
def test_bencoding_is_read_back(value):
    assert bdecode(bencode(value)) == value


def test_bencoding_is_that_of_the_specification():
    assert bencode({"spam": ["a", "b"], "cow": "moo", "n": -3}) == b"d3:cow3:moo1:ni-3e4:spaml1:a1:bee"


@pytest.mark.parametrize("data", [b"", b"i03e", b"i-0e", b"4:abc", b"l", b"d1:b0:1:a0:e", b"i1ex", b"x", b"l" * 100])
def test_what_is_not_bencoded_is_refused(data):
    with pytest.raises(NetreproError):
        bdecode(data)


def test_the_last_piece_and_its_last_block_are_what_remains():
    assert [TORRENT.piece_size(piece) for piece in range(3)] == [65536, 65536, 2 * BLOCK_BYTES + 123]
    assert TORRENT.blocks(2) == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), (2 * BLOCK_BYTES, 123)]


@given(st.lists(messages, max_size=8), st.data())
def test_messages_are_read_back_however_the_bytes_are_cut(sent, data):
    stream = handshake(b"h" * 20, b"p" * 20) + b"".join(map(encode, sent))
    decoder, found, at = Decoder(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += decoder.feed(stream[at : at + size])
        at += size
    assert found == [Message("handshake", data=b"h" * 20 + b"p" * 20), *sent]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1",
        handshake(b"h" * 20, b"p" * 20) + b"\xff\xff\xff\xff",
        handshake(b"h" * 20, b"p" * 20) + b"\0\0\0\2\4\0",
        handshake(b"h" * 20, b"p" * 20) + b"\0\0\0\2\0\0",
    ],
)
def test_broken_messages_are_noticed(data):
    with pytest.raises(ProtocolError):
        list(Decoder().feed(data))


def test_a_message_that_bep_3_does_not_have_is_passed_over():
    stream = handshake(b"h" * 20, b"p" * 20) + b"\0\0\0\2\x14\0" + encode(Message("have", 3))
    assert [each.kind for each in Decoder().feed(stream)] == ["handshake", "have"]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_bitfields_are_read_back(have):
    assert decode_bits(encode_bits(have), len(have)) == have


@pytest.mark.parametrize(("bits", "pieces"), [(b"\0", 9), (b"\0\0", 8), (b"\x01", 7)])
def test_a_bitfield_that_does_not_fit_is_noticed(bits, pieces):
    with pytest.raises(ProtocolError):
        decode_bits(bits, pieces)


# The picker.


def test_the_rarest_piece_comes_first_and_a_begun_one_is_finished_before():
    picker = PiecePicker(TORRENT, Random(1))
    picker.copies = [3, 1, 2]
    theirs = [True, True, False]
    blocks = [picker.pick("a", theirs) for _ in range(5)]
    assert [block[0] for block in blocks] == [1, 1, 1, 1, 0]


def test_a_seed_brings_new_pieces_and_others_help_with_begun_ones():
    picker = PiecePicker(TORRENT, Random(1))
    picker.copies = [5, 5, 1]
    first = picker.pick("leecher", [True, False, False])
    assert first is not None and first[0] == 0
    from_seed = picker.pick("seed", [True, True, True])
    assert from_seed is not None and from_seed[0] == 2
    again = picker.pick("leecher", [True, True, False])
    assert again is not None and again[0] == 0


def test_in_the_end_game_the_last_blocks_are_asked_of_several_and_cancelled():
    picker = PiecePicker(TORRENT, Random(1))
    everything = [True] * 3
    blocks = {picker.pick("a", everything) for _ in range(11)}
    assert len(blocks) == 11 and picker.pick("a", everything) is None
    late = picker.pick("b", everything)
    assert late in blocks
    assert picker.arrived(late) == {"a", "b"}


def test_blocks_that_are_given_back_are_asked_of_others():
    picker = PiecePicker(TORRENT, Random(1))
    asked = [picker.pick("a", [True, False, False]) for _ in range(4)]
    assert picker.pick("b", [True, True, False])[0] == 1
    picker.give_back("a", asked)
    assert {picker.pick("b", [True, False, False]) for _ in range(4)} == set(asked)


# Clients in virtual time.


def swarm(clients: dict[str, Client], until_s: float = 2000.0):
    return drive(clients, lambda *_: 0.005, until_s)


def test_a_leecher_downloads_the_file_from_a_seed_at_the_seed_s_rate():
    machines = {"s": client(1, content=CONTENT, upload_bytes_per_s=1e4), "l": client(2, peers=["s"])}
    events = swarm(machines)
    (complete,) = [time_s for time_s, name, event in events if event.kind == "complete"]
    assert machines["l"].content == CONTENT
    assert len(CONTENT) / 1e4 - 2 < complete < len(CONTENT) / 1e4 + 12


@settings(max_examples=15)
@given(
    kinds=st.lists(st.sampled_from(["bittorrent", "propshare", "permuted", "free rider"]), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    drops=st.booleans(),
)
def test_every_client_ends_with_the_file_whoever_is_in_the_swarm(kinds, seed, drops):
    machines = {"s": client(seed, content=CONTENT, upload_bytes_per_s=5e3)}
    for i, kind in enumerate(kinds):
        machines[f"l{i}"] = client(seed + i + 1, kind=kind, peers=list(machines), upload_bytes_per_s=4e3)
    at = []
    if drops and len(kinds) > 1:  # the first leecher vanishes, and its neighbours are told

        def crash(now_s):
            machines.pop("l0", None)
            return [(name, output) for name, each in machines.items() for output in each.lose(now_s, "l0")]

        at = [(9.0, crash)]
    drive(machines, lambda *_: 0.005, 1000.0, at=at)
    assert all(each.content == CONTENT for each in machines.values())


def test_without_lending_a_client_gives_each_no_more_than_its_share():
    """A seed serves four, a quarter each; the only leecher gets its quarter."""
    machines = {"s": client(1, content=CONTENT, upload_bytes_per_s=4e4, lends=False), "l": client(2, peers=["s"])}
    (complete,) = [time_s for time_s, _, event in swarm(machines) if event.kind == "complete"]
    assert len(CONTENT) / 1e4 - 2 < complete < len(CONTENT) / 1e4 + 12


def test_a_bad_block_costs_a_piece_that_is_fetched_again_and_its_only_giver_the_connection():
    bad, good, leecher = client(1, content=CONTENT), client(2, content=CONTENT), client(3, peers=["bad"])
    bad._content[5] ^= 1

    def greet(now_s):
        return [("leecher", output) for output in leecher.connect(now_s, "good")]

    events = drive({"bad": bad, "good": good, "leecher": leecher}, lambda *_: 0.2, 100.0, at=[(60.0, greet)])
    ours = [(time_s, event) for time_s, name, event in events if name == "leecher"]
    closed = [(time_s, event.value) for time_s, event in ours if event.kind == "closed"]
    assert any(event == Event("bad piece", 0) for _, event in ours)
    assert closed[0][0] < 60 and closed[0][1] == ("bad", "piece 0 was bad")
    assert leecher.content == CONTENT


def test_a_peer_that_never_answers_is_not_waited_for():
    leecher = client(1)
    leecher.start(0)
    greeting = handshake(TORRENT.info_hash, b"x" * 20)
    seed = encode(Message("bitfield", data=encode_bits([True] * 3))) + encode(Message("unchoke"))
    mute = leecher.receive(1, "mute", greeting + seed)
    asked = {output.message for output in mute if isinstance(output, Send) and output.message[4:5] == b"\6"}
    assert len(asked) == 10
    assert leecher.wake_at_s <= 1 + SNUBBED_S
    leecher.wake(1 + SNUBBED_S)
    good = leecher.receive(2 + SNUBBED_S, "good", handshake(TORRENT.info_hash, b"y" * 20) + seed)
    again = {output.message for output in good if isinstance(output, Send) and output.message[4:5] == b"\6"}
    assert asked & again


@pytest.mark.parametrize(
    "message",
    [
        handshake(b"z" * 20, b"x" * 20),
        handshake(TORRENT.info_hash, b"-NR0001-%012d" % 1),
        handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("have", 3)),
        handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("bitfield", data=b"\xff")),
        handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("request", 2, 3 * BLOCK_BYTES, BLOCK_BYTES)),
        handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("request", 0, 0, 2**20)),
        handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("piece", 0, 1, data=bytes(BLOCK_BYTES))),
    ],
)
def test_who_breaks_the_protocol_is_disconnected(message):
    outputs = client(1).receive(0.0, "them", message)
    assert [output.kind for output in outputs if isinstance(output, Event)] == ["closed"]


def test_who_is_choked_gets_nothing():
    rider = client(1, kind="free rider", content=None)
    rider.picker.have = [True, True, False]
    ask = handshake(TORRENT.info_hash, b"x" * 20) + encode(Message("interested")) + encode(Message("request", 0, 0, 99))
    outputs = rider.receive(0.0, "them", ask) + rider.wake(50.0)
    assert not [o for o in outputs if isinstance(o, Send) and o.message[4:5] in (b"\1", b"\7")]


def test_a_block_that_nobody_asked_for_earns_its_bytes_once():
    leecher, block = client(1), Message("piece", 0, 0, data=CONTENT[:BLOCK_BYTES])
    leecher.receive(0.0, "them", handshake(TORRENT.info_hash, b"x" * 20) + 1000 * encode(block))
    assert leecher.traffic["them"] == (BLOCK_BYTES, 0) and leecher.received_bytes == BLOCK_BYTES


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: client(1, content=b"x"), "content"),
        (lambda: client(1, upload_bytes_per_s=0), "upload"),
        (lambda: client(1, upload_bytes_per_s=math.nan), "upload"),
        (lambda: Client(TORRENT, b"short", None, None, Random(1)), "name"),
        (lambda: make_torrent("x", b""), "pieces"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, words):
    with pytest.raises(NetreproError, match=words):
        make()


@pytest.mark.parametrize(("kind", "lends"), [("bittorrent", True), ("propshare", True), ("propshare", False)])
def test_the_block_level_swarm_takes_as_long_as_clients_that_speak_the_protocol(kind, lends):
    rates, content = [8e3, 16e3, 32e3, 64e3] * 2, Random(2).randbytes(12 * 4 * BLOCK_BYTES)
    torrent = make_torrent("file", content, 4 * BLOCK_BYTES)
    clients, blocks = [], []
    for trial in range(3):
        machines = {"s": client(100 * trial, torrent=torrent, content=content, upload_bytes_per_s=40e3)}
        for i, rate in enumerate(rates):
            own = {
                "kind": kind,
                "torrent": torrent,
                "peers": list(machines),
                "upload_bytes_per_s": rate,
                "lends": lends,
            }
            machines[f"l{i}"] = client(100 * trial + i + 1, **own)
        clients += [time_s for time_s, _, event in swarm(machines, 400) if event.kind == "complete"]
        peers = [SwarmPeer("seed", 40, is_seed=True)] + [
            SwarmPeer(kind, rate / 1e3, stays_s=400, lends=lends) for rate in rates
        ]
        table = run_swarm(peers, trial, pieces=12, blocks_per_piece=4)
        blocks += list(table["complete_s"][1:])
    assert len(clients) == len(blocks) == 24
    assert sum(clients) == pytest.approx(sum(blocks), rel=0.15)
