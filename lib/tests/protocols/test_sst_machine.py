"""SST: packets byte for byte, the channel's congestion control, and streams over networks that lose and reorder."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols import Event, drive
from netrepro.protocols.sst import Channel, Manners, Peer, Segment, WireError, wire
from netrepro.protocols.sst.wire import (
    ACK,
    ATTACH,
    CLOSE,
    DATA,
    DATAGRAM,
    DETACH,
    FIRST,
    INIT,
    LAST,
    PUSH,
    REPLY,
    RESET,
    Packet,
    checksum,
    decode,
    decode_negotiation,
    decode_segment,
    encode,
    nearest,
    negotiation,
)

# Packets.

SEGMENTS = [
    (Segment(INIT, 0, PUSH | CLOSE, 16, 7, 0, b"GET"), "0000 15 10 0007 0000 474554"),
    (Segment(REPLY, 9, PUSH, 15, 7, 1200, b"x"), "0009 24 0f 0007 04b0 78"),
    (Segment(DATA, 0x1234, CLOSE, 5, 0, 0x01020304, b""), "1234 31 05 01020304"),
    (Segment(DATAGRAM, 3, FIRST | LAST, 0, 0, 0, b"\0"), "0003 43 00 00"),
    (Segment(ACK, 3, 0, 31, window_flags=0xC0), "0003 50 df"),
    (Segment(RESET, 3, wire.RESET_OURS), "0003 61 00"),
    (Segment(ATTACH, 3, wire.ATTACH_INIT | wire.ATTACH_SLOT), "0003 79 00"),
    (Segment(DETACH, 0xFFFF), "ffff 80 00"),
]


@pytest.mark.parametrize(("segment", "content"), SEGMENTS)
def test_every_kind_of_segment_has_these_bytes(segment, content):
    assert segment.encode() == bytes.fromhex(content)
    assert decode_segment(bytes.fromhex(content)) == segment


def test_a_packet_is_two_words_a_segment_and_a_checksum():
    packet = Packet(0xAB, 0x5_000001, 0x3_000002, 4, b"\1\2\3\4")
    data = encode(packet)
    assert data[:-4] == bytes.fromhex("ab000001 04000002 01020304")
    assert decode(data, highest=0x5_000000, acked=0x3_000000) == packet
    assert wire.CHANNEL_HEADER_BYTES + len(Segment(DATA, 1).encode()) + wire.CHECKSUM_BYTES == 20  # of a Data packet


def test_the_checksum_is_two_sums_of_words_modulo_65537():
    # Words 0102, 0300 with the padding 80 in the odd byte's place: 0102, 0380.
    first = 0x0102 + 0x0380
    assert checksum(b"\1\2\3") == first | (0x0102 + first) << 16
    assert checksum(b"") == 0x8000 | 0x8000 << 16
    assert checksum(b"\xff" * 5000) == slow_checksum(b"\xff" * 5000)


def slow_checksum(data: bytes) -> int:
    data += b"\x80" if len(data) % 2 else b"\x80\x00"
    low = high = 0
    for place in range(0, len(data), 2):
        low = (low + int.from_bytes(data[place : place + 2], "big")) % 65537
        high = (high + low) % 65537
    return low & 0xFFFF | (high & 0xFFFF) << 16


def test_the_checksum_covers_the_part_of_the_number_that_is_not_sent():
    data = encode(Packet(1, 5, 0, 0, b""))
    with pytest.raises(WireError, match="checksum"):
        decode(data, highest=5 + (1 << 24), acked=0)
    with pytest.raises(WireError, match="checksum"):
        decode(data, 5, 0, key=1)


@given(st.binary(max_size=100))
def test_the_checksum_is_that_of_its_definition(data):
    assert checksum(data) == slow_checksum(data)


@given(st.integers(0, 1 << 40), st.integers(-(1 << 23), (1 << 23) - 1))
def test_a_number_is_the_nearest_with_its_low_bits(to, ahead):
    assert nearest((to + ahead) & 0xFFFFFF, to, 24) == to + ahead


SEGMENT = st.builds(
    Segment,
    st.integers(1, 8),
    st.integers(0, 0xFFFF),
    st.integers(0, 15),
    st.integers(0, 31),
    payload=st.binary(max_size=50),
    window_flags=st.sampled_from([0, 0x40, 0x80, 0xC0]),
)


@given(SEGMENT, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF), st.integers(1, 255), st.integers(0, 15))
def test_what_is_encoded_is_decoded(segment, other, offset, channel, count):
    if segment.kind in (INIT, REPLY):
        segment = Segment(segment.kind, segment.stream, segment.flags, segment.exponent, other, offset & 0xFFFF,
                          segment.payload, segment.window_flags)  # fmt: skip
    elif segment.kind == DATA:
        segment = Segment(DATA, segment.stream, segment.flags, segment.exponent, 0, offset, segment.payload)
    packet = Packet(channel, 1000, 900, count, segment.encode())
    assert decode(encode(packet), 1000, 900) == packet
    assert decode_segment(packet.body) == segment


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoders(data):
    for read in (decode_segment, lambda each: decode(each, 10, 10)):
        try:
            read(data)
        except WireError:
            pass
    decode_negotiation(data)


@given(st.binary(max_size=40), st.data())
def test_a_changed_bit_is_noticed(body, data):
    packet = bytearray(encode(Packet(3, 100, 90, 2, body)))
    bit = data.draw(st.integers(0, 8 * len(packet) - 1))
    packet[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        decode(bytes(packet), 100, 90)


@pytest.mark.parametrize(
    "segment",
    [Segment(9, 1), Segment(DATA, 1 << 16), Segment(INIT, 1, offset=1 << 16), Segment(ACK, 1, exponent=32),
     Segment(ACK, 1, flags=16), Segment(ACK, 1, window_flags=1)],
)  # fmt: skip
def test_what_does_not_fit_its_field_is_refused(segment):
    with pytest.raises(WireError):
        segment.encode()


def test_negotiation_is_not_taken_for_a_packet():
    data = negotiation(wire.HELLO, 7)
    assert decode_negotiation(data) == (wire.HELLO, 7)
    with pytest.raises(WireError):
        decode(data + bytes(8), 0, 0)
    assert decode_negotiation(data[:-1]) is None


# The channel.


def two_channels(**manners) -> tuple[Channel, Channel]:
    return Channel(1, Manners(**manners)), Channel(1)


def deliver(now_s: float, to: Channel, packets: list[bytes], wants_ack: bool = True) -> list:
    found = []
    for packet in packets:
        news = to.receive(now_s, packet)
        if news is not None:
            to.accept(now_s, news.sequence, wants_ack)
            found.append(news)
    return found


def acknowledge(now_s: float, channel: Channel) -> list[bytes]:
    packets = []
    while channel.is_ack_due(now_s):
        packets.append(channel.send(now_s, b""))
    return packets


def test_the_window_starts_at_two_and_grows_by_what_is_acknowledged_and_one_a_round():
    sender, receiver = two_channels()
    assert sender.room() == 2
    packets = [sender.send(0.0, b"x", word) for word in ("a", "b")]
    assert sender.room() == 0
    deliver(0.05, receiver, packets)
    (news,) = deliver(0.1, sender, acknowledge(0.05, receiver), wants_ack=False)
    assert (news.acked, news.missed) == (["a", "b"], [])
    assert sender.window == 2 + 2 + 1  # slow start, and one for the round trip


def test_a_window_that_did_not_limit_does_not_grow():
    sender, receiver = two_channels(initial_window=10)
    sender.is_limited = False
    deliver(0.05, receiver, [sender.send(0.0, b"x", "a"), sender.send(0.0, b"x", "b")])
    deliver(0.1, sender, acknowledge(0.05, receiver), wants_ack=False)
    assert sender.window == 10


def test_three_packets_behind_is_missed_and_a_window_is_cut_once():
    sender, receiver = two_channels(initial_window=10)
    packets = [sender.send(0.0, b"x", word) for word in range(10)]
    arrived = [packet for place, packet in enumerate(packets) if place not in (1, 2)]
    missed, acked = [], []
    for packet in arrived:
        deliver(0.05, receiver, [packet])
        for news in deliver(0.1, sender, acknowledge(0.05, receiver), wants_ack=False):
            missed, acked = missed + news.missed, acked + news.acked
    assert missed == [1, 2]
    # The first packet's acknowledgement made 12 of 10: one newly acknowledged, one round trip. Half of it, once.
    assert sender.threshold == sender.window == 6
    assert set(acked) <= set(range(10)) - {1, 2}


def test_a_timeout_takes_all_for_lost_and_begins_with_two():
    sender, _ = two_channels(initial_window=8)
    for word in range(6):
        sender.send(0.0, b"x", word)
    assert sender.wake(sender.wake_at_s - 1e-6) == []
    assert sender.wake(sender.wake_at_s) == list(range(6))
    assert (sender.window, sender.threshold, sender.room()) == (2, 3, 2)


def test_an_acknowledgement_waits_for_a_second_packet_or_ten_milliseconds():
    sender, receiver = two_channels(initial_window=5)
    deliver(1.0, receiver, [sender.send(0.0, b"x", 1)])
    assert not receiver.is_ack_due(1.005) and receiver.is_ack_due(1.01)
    deliver(1.001, receiver, [sender.send(0.0, b"x", 2)])
    assert receiver.is_ack_due(1.001)


def test_what_acknowledges_only_is_acknowledged_every_fourth_time():
    sender, receiver = two_channels()
    deliver(0.0, receiver, [sender.send(0.0, b"") for _ in range(3)], wants_ack=False)
    assert receiver.wake_at_s == float("inf")
    deliver(0.0, receiver, [sender.send(0.0, b"")], wants_ack=False)
    assert receiver.is_ack_due(0.0)


def test_a_packet_counts_once_and_none_that_is_too_old():
    sender, receiver = two_channels(initial_window=100)
    packets = [sender.send(0.0, b"x", word) for word in range(40)]
    assert len(deliver(0.0, receiver, [packets[5], packets[5], packets[2]])) == 2
    assert len(deliver(0.0, receiver, [packets[39], packets[2], packets[7], packets[8]])) == 2  # 8th is 32 behind


def test_what_acknowledges_packets_never_sent_is_ignored():
    channel = Channel(1)
    assert channel.receive(0.0, encode(Packet(1, 1, 1, 0, b""))) is None
    assert channel.receive(0.0, encode(Packet(2, 1, 0, 0, b""))) is None


def test_a_number_is_never_used_twice():
    sender, receiver = two_channels(initial_window=1000)
    for number in range(1, 200):
        news = receiver.receive(0.0, sender.send(0.0, b"x", number))
        assert news is not None and news.sequence == number


# Streams.


class Echo:
    """Opens a stream for each of `writes`; the other side answers each with its bytes backwards."""

    def __init__(self, other, asks=False, writes=(), **how):
        self.peer, self.writes, self.got, self.datagrams = Peer(other, asks, **how), writes, {}, []

    @property
    def wake_at_s(self):
        return self.peer.wake_at_s

    def start(self, now_s):
        return self.act(now_s, self.peer.start(now_s))

    def receive(self, now_s, sender, message):
        return self.act(now_s, self.peer.receive(now_s, sender, message))

    def wake(self, now_s):
        return self.act(now_s, self.peer.wake(now_s))

    def act(self, now_s, outputs):
        for output in list(outputs):
            if isinstance(output, Event):
                self.hear(output.kind, output.value)
            yield output
        yield from self.peer.flush(now_s)

    def hear(self, kind, value):
        if kind == "up":
            for data in self.writes:
                stream = self.peer.open()
                self.got[stream] = b""
                stream.write(data, close=True)
        elif kind == "readable":
            self.got[value] = self.got.get(value, b"") + value.read()
        elif kind == "ended" and not value.is_ours:
            value.write(self.got.get(value, b"")[::-1], close=True)
        elif kind == "datagram":
            self.datagrams.append(value[1])


def exchange(writes, delay_s=lambda *_: 0.025, until_s=600.0, **how):
    ends = {"a": Echo("b", True, writes, **how), "b": Echo("a", **how)}
    return ends, drive(ends, delay_s, until_s)


def test_a_request_needs_no_round_trip_before_it():
    ends, events = exchange([b"GET"])
    at = {(name, event.kind): time_s for time_s, name, event in events}
    assert at["a", "up"] == pytest.approx(0.05)
    assert at["b", "opened"] == pytest.approx(0.075)
    assert at["a", "ended"] == pytest.approx(0.1)  # one round trip after the channel was up
    assert list(ends["a"].got.values()) == [b"TEG"]


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 9000), min_size=1, max_size=8),
    st.floats(0.0, 0.3),
    st.floats(0.0, 0.3),
    st.integers(0, 2**32),
)
def test_streams_are_whole_whatever_the_network_loses_repeats_and_reorders(sizes, loss, repeats, seed):
    random = Random(seed)
    writes = [random.randbytes(size) for size in sizes]
    ends = {"a": Repeating("b", True, writes), "b": Repeating("a")}
    for end in ends.values():
        end.random, end.share = random, repeats
    drive(ends, lambda *_: None if random.random() < loss else random.uniform(0.01, 0.06), 3000.0)
    assert list(ends["a"].got.values()) == [data[::-1] for data in writes]
    assert not [stream for end in ends.values() for stream in end.peer._ours.values() if stream is not end.peer.root]


class Repeating(Echo):
    """Some of its packets go twice."""

    random, share = Random(0), 0.0

    def act(self, now_s, outputs):
        for output in super().act(now_s, outputs):
            yield output
            if not isinstance(output, Event) and self.random.random() < self.share:
                yield output


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_packets_of_a_stranger_break_a_peer(packets):
    peer = Peer("b", False)
    peer.is_up = True
    for data in packets:
        list(peer.receive(0.0, "b", data))


@given(st.lists(st.tuples(SEGMENT, st.integers(0, 5), st.integers(0, 9)), max_size=20))
def test_no_segments_of_a_fool_break_a_peer(segments):
    peer, fool = Peer("b", False), Channel(1)
    peer.is_up = True
    for segment, other, offset in segments:
        known = Segment(segment.kind, segment.stream % 6, segment.flags, segment.exponent,
                        other if segment.kind in (INIT, REPLY) else 0,
                        offset if segment.kind in (INIT, REPLY, DATA) else 0, segment.payload)  # fmt: skip
        list(peer.receive(0.0, "b", fool.send(0.0, known.encode(), "x")))


def test_a_long_stream_changes_to_data_once_it_is_known():
    kinds = []

    def delay_s(sender, to, message):
        if sender == "a" and len(message) > 12:
            kinds.append(decode_segment(message[8:-4]).kind)
        return 0.025

    data = Random(1).randbytes(200_000)
    ends, _ = exchange([data], delay_s)
    assert list(ends["a"].got.values()) == [data[::-1]]
    assert kinds[:2] == [INIT, INIT]
    data_at = kinds.index(DATA)
    assert INIT not in kinds[data_at:] and DATA in kinds


def test_with_no_answer_a_stream_sends_as_init_no_more_than_its_offset_can_say():
    peer = Peer("b", True, manners=Manners(initial_window=1000), buffer_bytes=1 << 20)
    peer.is_up = True
    peer.root.credit_bytes = 1 << 20
    peer.open().write(bytes(500_000))
    sent = sum(len(decode_segment(output.message[8:-4]).payload) for output in peer.flush(0.0))
    assert 0xFFFF < sent <= 0xFFFF + wire.MTU_BYTES


class Slow(Echo):
    """Reads nothing before it is told to."""

    def hear(self, kind, value):
        if kind == "opened":
            self.stream = value


def test_a_reader_that_does_not_read_holds_the_sender_back_and_then_lets_it_go_on():
    ends = {"a": Echo("b", True, [bytes(100_000)]), "b": Slow("a", buffer_bytes=0x4000)}
    held, read = [], []

    def look(now_s):
        held.append(len(ends["b"].stream._ready))
        return []

    def read_all(now_s):
        read.append(len(ends["b"].stream.read()))
        return [("b", output) for output in ends["b"].peer.flush(now_s)]

    drive(ends, lambda *_: 0.025, 60.0, at=[(5.0, look), *((6.0 + place, read_all) for place in range(40))])
    assert 0 < held[0] <= 0x4000
    assert max(read) <= 0x4000 and sum(read) == 100_000
    assert ends["b"].stream.end == 100_000 and ends["b"].stream.is_at_end


def test_streams_share_one_window_in_turn():
    ends, _ = exchange([bytes(12_000)] * 4)
    assert all(len(data) == 12_000 for data in ends["a"].got.values())
    peer = Peer("b", True)
    peer.is_up = True
    for _ in range(4):
        peer.open().write(bytes(5000))
    first = [decode_segment(output.message[8:-4]).other for output in peer.flush(0.0)]
    assert first == [1, 2]  # the channel's window is two packets, of two streams


def test_a_loss_in_one_stream_does_not_hold_back_another():
    lost = []

    def delay_s(sender, to, message):
        segment = decode_segment(message[8:-4]) if len(message) > 12 else None
        if sender == "a" and segment is not None and segment.kind == INIT and segment.other == 1 and not lost:
            lost.append(message)
            return None
        return 0.025

    _, events = exchange([b"first", b"second"], delay_s)
    ended = [(time_s, event.value.number) for time_s, name, event in events if name == "a" and event.kind == "ended"]
    assert [number for _, number in ended] == [2, 1]
    assert ended[0][0] < 0.12 < ended[1][0]


def test_a_child_of_a_child_names_its_parent():
    ends, _ = exchange([])
    parent = ends["a"].peer.open()
    child = ends["a"].peer.open(parent)
    parent.write(b"a")
    child.write(b"b")
    kinds = [decode_segment(output.message[8:-4]) for output in ends["a"].peer.flush(0.0)]
    assert [(each.stream, each.other) for each in kinds] == [(0, parent.number), (parent.number, child.number)]


def test_a_reset_ends_a_stream_at_both_ends():
    ends = {"a": Echo("b", True, [bytes(500_000)]), "b": Slow("a")}

    def give_up(now_s):
        peer = ends["b"].peer
        peer.reset(ends["b"].stream)
        return [("b", output) for output in peer.flush(now_s)]

    events = drive(ends, lambda *_: 0.025, 60.0, at=[(1.0, give_up)])
    assert [(name, event.kind) for _, name, event in events][-1] == ("a", "reset")
    assert not [stream for stream in ends["a"].peer._ours.values() if stream is not ends["a"].peer.root]
    with pytest.raises(NetreproError, match="ended"):
        next(iter(ends["a"].got)).write(b"more")


def test_datagrams_arrive_whole_or_not_at_all_and_are_not_sent_again():
    lost = []

    def delay_s(sender, to, message):
        segment = decode_segment(message[8:-4]) if len(message) > 12 else None
        if segment is not None and segment.kind == DATAGRAM and segment.payload[:1] == b"2" and not lost:
            lost.append(message)
            return None
        return 0.025

    ends = {"a": Echo("b", True), "b": Echo("a")}

    def send(number):
        def act(now_s):
            ends["a"].peer.send_datagram(str(number).encode() * 4000)
            return [("a", output) for output in ends["a"].peer.flush(now_s)]

        return act

    drive(ends, delay_s, 60.0, at=[(1.0 + number, send(number)) for number in range(1, 4)])
    assert ends["b"].datagrams == [b"1" * 4000, b"3" * 4000]
    with pytest.raises(NetreproError, match="open a stream"):
        ends["a"].peer.send_datagram(bytes(4801))


def test_datagrams_that_the_window_holds_up_let_it_grow():
    ends = {"a": Echo("b", True), "b": Echo("a")}
    windows = []

    def send(now_s):
        windows.append(ends["a"].peer.channel.window)
        for _ in range(8):
            ends["a"].peer.send_datagram(bytes(4800))
        return [("a", output) for output in ends["a"].peer.flush(now_s)]

    drive(ends, lambda *_: 0.025, 60.0, at=[(1.0, send), (3.0, send)])
    assert len(ends["b"].datagrams) == 16 and windows[1] > 4 * windows[0]


def test_a_channel_is_asked_for_until_somebody_answers():
    tries = []

    def delay_s(sender, to, message):
        if decode_negotiation(message) == (wire.HELLO, 1):
            tries.append(message)
            return None if len(tries) < 4 else 0.025
        return 0.025

    ends, _ = exchange([b"x"], delay_s)
    assert len(tries) == 4 and list(ends["a"].got.values()) == [b"x"]


def test_numbers_of_streams_go_round_and_are_told_apart():
    ends, _ = exchange([])
    for end in ends.values():
        end.peer._last_ours = end.peer._last_theirs = 0xFFFE
    ends["a"].writes = [b"1", b"2", b"3"]

    def begin(now_s):
        ends["a"].hear("up", None)
        return [("a", output) for output in ends["a"].peer.flush(now_s)]

    drive(ends, lambda *_: 0.025, 5.0, at=[(1.0, begin)])
    assert list(ends["a"].got.values()) == [b"1", b"2", b"3"]
    assert ends["a"].peer._last_ours == 0x1_0002  # 0x10000 would look like the root's


def test_an_unknown_stream_and_a_stream_of_another_channel_are_refused_by_reset():
    for kind in (DATA, ATTACH):
        peer, other = Peer("b", False), Channel(1)
        peer.is_up = True
        answers = list(peer.receive(0.0, "b", other.send(0.0, Segment(kind, 77).encode(), "x")))
        assert decode_segment(answers[0].message[8:-4]) == Segment(RESET, 77, wire.RESET_OURS)
