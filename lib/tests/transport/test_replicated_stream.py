"""RepNet's state machine: Tables 2 and 3 of the paper, and two machines over a network that does its worst."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.transport.replicated_stream import (
    Close,
    Deliver,
    DeliverEof,
    Lost,
    ReplicatedStream,
    Reset,
    Send,
    SendEof,
    State,
)

BROKEN = ConnectionResetError("broken")


def client(mode: str = "repflow", threshold_bytes: int = 100, opened: tuple[int, ...] = (0, 1)) -> ReplicatedStream:
    stream = ReplicatedStream("client", mode, threshold_bytes)
    for connection in opened:
        stream.connected(connection)
    return stream


def server(opened: tuple[int, ...] = (0,), threshold_bytes: int = 100) -> ReplicatedStream:
    stream = ReplicatedStream("server", threshold_bytes=threshold_bytes)
    for connection in opened:
        stream.connected(connection)
    return stream


# Table 2 -------------------------------------------------------------------------------------------


def test_a_client_starts_in_dup_conn_and_a_server_in_one_conn():
    assert client(opened=()).state is State.DUP_CONN
    assert server().state is State.ONE_CONN


def test_in_one_conn_a_server_writes_on_its_only_connection():
    assert server().write(b"early") == [Send(0, b"early")]


@pytest.mark.parametrize("stream", [client(), server((0, 1))])
def test_in_dup_conn_both_ends_write_on_both_connections(stream):
    assert stream.write(b"twice") == [Send(0, b"twice"), Send(1, b"twice")]


def test_in_chosen_only_the_chosen_connection_is_written_on():
    stream = server((0, 1))
    stream.lost(0, BROKEN)
    assert stream.write(b"once") == [Send(1, b"once")]


def test_what_both_connections_bring_is_delivered_once_and_as_soon_as_one_brings_it():
    stream = client()
    assert stream.received(1, b"abc") == [Deliver(b"abc")]
    assert stream.received(0, b"ab") == []
    assert stream.received(0, b"cde") == [Deliver(b"de")]
    assert stream.received(1, b"def") == [Deliver(b"f")]
    assert stream.delivered_bytes == 6


def test_the_end_of_the_stream_is_delivered_once():
    stream = client()
    stream.received(0, b"ab")
    assert stream.received_eof(0) == [DeliverEof()]
    assert stream.received(1, b"ab") == [] and stream.received_eof(1) == []


# Table 3 -------------------------------------------------------------------------------------------


def test_transition_1_the_second_connection_gets_what_was_archived():
    stream = server()
    stream.write(b"first")
    stream.write_eof()
    assert stream.connected(1) == [Send(1, b"first"), SendEof(1)]
    assert stream.state is State.DUP_CONN and not stream.expects_another


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("make", [client, lambda: server((0, 1))])
def test_transition_2_an_error_on_one_connection_leaves_the_other(make, gone):
    stream = make()
    assert stream.lost(gone, BROKEN) == []
    assert stream.state is State.CHOSEN and stream.active == [1 - gone]


def test_transition_3_a_flow_that_waits_too_long_is_a_plain_client():
    stream = server()
    assert stream.waiting_over() == []
    assert stream.state is State.CHOSEN and not stream.expects_another
    assert stream.connected(1) == [Reset(1)]  # the replica after all: not a new stream


def test_transition_4_a_server_that_has_written_much_does_without_the_second_connection():
    stream = server(threshold_bytes=10)
    stream.write(b"x" * 10)
    assert stream.state is State.ONE_CONN
    stream.write(b"y")
    assert stream.state is State.CHOSEN
    assert stream.expects_another  # stays on the waiting list until the second SYN arrives
    assert stream.connected(1) == [] and stream.write(b"z") == [Send(0, b"z")]


def test_after_transition_4_the_client_may_still_choose_the_second_connection():
    stream = server(threshold_bytes=10)
    stream.write(b"x" * 11)
    stream.connected(1)
    assert stream.lost(0, BROKEN) == [Send(1, b"x" * 11)]
    assert stream.write(b"y") == [Send(1, b"y")]


@pytest.mark.parametrize("make", [client, lambda: server((0, 1))])
def test_transitions_5_to_7_the_stream_ends_when_both_connections_have(make):
    stream = make()
    stream.lost(1, BROKEN)
    assert stream.lost(0, BROKEN) == [Lost(BROKEN)]
    assert stream.state is State.ENDED


def test_closing_sends_the_rest_and_ends_with_the_first_connection_that_is_done():
    stream = client()
    assert stream.close() == [Close(0), Close(1)]
    assert stream.lost(1, None) == [Lost(None)]
    assert stream.lost(0, None) == [] and stream.state is State.ENDED


def test_a_server_that_closed_early_still_answers_on_the_connection_that_comes_late():
    stream = server()
    stream.write(b"bye")
    assert stream.close() == [Close(0)]
    assert stream.lost(0, None) == [Lost(None)]
    assert stream.connected(1) == [Send(1, b"bye"), Close(1)]
    late = server()
    late.close()
    late.lost(0, None)
    late.waiting_over()
    assert late.connected(1) == [Reset(1)]


def test_a_server_whose_only_connection_is_reset_waits_for_the_other_one():
    stream = server()
    stream.write(b"hello")
    assert stream.lost(0, BROKEN) == []
    assert stream.connected(1) == [Send(1, b"hello")] and stream.state is State.CHOSEN
    hopeless = server()
    hopeless.lost(0, BROKEN)
    assert hopeless.waiting_over() == [Lost(BROKEN)]


# The client ----------------------------------------------------------------------------------------


def test_repsyn_uses_the_connection_that_opens_first_and_resets_the_other():
    stream = client("repsyn", opened=())
    assert stream.connected(1) == [] and stream.state is State.CHOSEN
    assert stream.write(b"data") == [Send(1, b"data")]
    assert stream.connected(0) == [Reset(0)]
    assert stream.lost(0, BROKEN) == []


def test_repsyn_has_no_second_copy():
    stream = client("repsyn", opened=(0,))
    assert stream.lost(0, BROKEN) == [Reset(1), Lost(BROKEN)]


def test_repflow_catches_up_on_the_connection_that_opens_second():
    stream = client(opened=(1,))
    stream.write(b"request")
    assert stream.connected(0) == [Send(0, b"request")]


def test_repflow_survives_the_loss_of_its_first_connection_before_the_second_is_open():
    stream = client(opened=(1,))
    stream.write(b"request")
    assert stream.lost(1, BROKEN) == [] and stream.write(b"more") == []
    assert stream.connected(0) == [Send(0, b"requestmore")] and stream.state is State.CHOSEN


def test_beyond_the_threshold_the_connection_with_less_to_send_is_kept():
    stream = client(threshold_bytes=10)
    assert stream.write(b"x" * 11, unsent_bytes=(5000, 200)) == [Send(0, b"x" * 11), Send(1, b"x" * 11), Reset(0)]
    assert stream.state is State.CHOSEN and stream.active == [1]


def test_a_client_that_receives_much_keeps_the_connection_that_brings_it():
    stream = client(threshold_bytes=10)
    assert stream.received(1, b"x" * 11) == [Deliver(b"x" * 11), Reset(0)]


def test_what_the_server_serves_counts_more_than_what_waits_to_be_sent():
    stream = client(threshold_bytes=10)
    stream.received(0, b"hello")
    assert Reset(1) in stream.write(b"x" * 11, unsent_bytes=(9000, 0))


def test_beyond_the_threshold_a_connection_that_is_still_opening_is_given_up():
    stream = client(threshold_bytes=10, opened=(0,))
    assert stream.write(b"x" * 11) == [Send(0, b"x" * 11), Reset(1)]


def test_a_client_refused_at_one_port_uses_the_other_and_at_both_fails():
    stream = client(opened=())
    assert stream.lost(1, ConnectionRefusedError()) == []
    stream.connected(0)
    assert stream.state is State.CHOSEN
    refused, first = client(opened=()), ConnectionRefusedError("port p")
    refused.lost(1, ConnectionRefusedError("port p + 1"))
    assert refused.lost(0, first) == [Lost(first)]


def test_abort_resets_everything_and_nothing_follows():
    stream = client()
    assert stream.abort() == [Reset(0), Reset(1), Lost(None)]
    assert stream.abort() == stream.write(b"x") == stream.received(0, b"x") == stream.lost(0, BROKEN) == []


def test_what_cannot_be_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'repsyn'"):
        ReplicatedStream("client", "repsin")
    with pytest.raises(NetreproError, match="threshold_bytes = -1"):
        ReplicatedStream("client", threshold_bytes=-1)
    with pytest.raises(NetreproError, match="role"):
        ReplicatedStream("proxy")


# Two of them ---------------------------------------------------------------------------------------


class End:
    """A machine with an application that writes its messages at moments of the network's choosing."""

    def __init__(self, stream: ReplicatedStream, messages: list[bytes]):
        self.stream, self.messages = stream, messages
        self.sent = b"".join(messages)
        self.got, self.saw_eof, self.has_ended, self.error = b"", False, False, None


class FakeNetwork:
    """Two connections between two ends: first in, first out each way, any interleaving, resets that destroy."""

    def __init__(self, near: End, far: End, dice: random.Random):
        self.ends, self.dice = (near, far), dice
        self.queues: dict[tuple[int, int], list] = {(end, number): [] for end in (0, 1) for number in (0, 1)}
        self.is_open = {key: False for key in self.queues}
        self.handshakes = [0, 1]

    def perform(self, end: int, actions: list) -> None:
        for action in actions:
            me = self.ends[end]
            if isinstance(action, Deliver):
                me.got += action.data
            elif isinstance(action, DeliverEof):
                me.saw_eof = True
            elif isinstance(action, Lost):
                me.has_ended, me.error = True, action.error
            elif isinstance(action, Reset) and not self.is_open[end, action.connection]:
                if action.connection in self.handshakes:
                    self.handshakes.remove(action.connection)
            elif isinstance(action, Reset):
                self.reset(end, action.connection)
            elif self.is_open[end, action.connection]:
                queue = self.queues[1 - end, action.connection]
                if isinstance(action, Send):
                    queue.append(action.data)
                else:
                    queue.append("eof")

    def reset(self, end: int, number: int) -> None:
        """Reset a connection at one end; data on the way may be lost, and the other end learns of it later."""
        self.is_open[end, number] = False
        self.queues[end, number].clear()
        queue = self.queues[1 - end, number]
        kept = self.dice.randrange(len(queue) + 1)
        starts_with_accept = queue[:1] == ["accept"]
        del queue[max(kept, int(starts_with_accept)) :]
        queue.append("reset")

    def steps(self) -> list[tuple]:
        found: list[tuple] = [("shake", number) for number in self.handshakes]
        found += [("take", *key) for key, queue in self.queues.items() if queue]
        for end, each in enumerate(self.ends):
            # Nobody writes before open_connection has returned, or the server has accepted.
            if any(each.stream.has_opened(number) for number in (0, 1)) and not (
                each.stream.eof_written or each.stream.is_closing
            ):
                found.append(("write", end))
        return found

    def step(self, what: str, *where: int) -> None:
        if what == "shake":
            self.handshakes.remove(where[0])
            self.is_open[0, where[0]] = True
            self.queues[1, where[0]].append("accept")
            self.perform(0, self.ends[0].stream.connected(where[0]))
        elif what == "write":
            me = self.ends[where[0]]
            if me.messages:
                unsent = self.dice.sample(range(100), 2)
                self.perform(where[0], me.stream.write(me.messages.pop(0), unsent))
            else:
                self.perform(where[0], me.stream.write_eof())
        else:
            self.take(*where)

    def take(self, end: int, number: int) -> None:
        item, stream = self.queues[end, number].pop(0), self.ends[end].stream
        if item == "accept":
            self.is_open[end, number] = True
            self.perform(end, stream.connected(number))
        elif item == "reset":
            self.is_open[end, number] = False
            self.perform(end, stream.lost(number, BROKEN))
        elif item == "eof":
            self.perform(end, stream.received_eof(number))
        else:
            self.perform(end, stream.received(number, item))


def run_both(mode: str, threshold: int, up: list[bytes], down: list[bytes], seed: int, cut: int | None) -> list[End]:
    """Run until nothing can happen any more; `cut` is the step at which the network breaks one open connection."""
    dice = random.Random(seed)
    near = End(ReplicatedStream("client", mode, threshold), up)
    far = End(ReplicatedStream("server", threshold_bytes=threshold), down)
    network = FakeNetwork(near, far, dice)
    number = 0
    while network.steps():
        both = [n for n in (0, 1) if network.is_open[0, n] and network.is_open[1, n]]
        if cut is not None and number >= cut and len(both) == 2 and len(near.stream.active) == 2:
            cut, broken = None, dice.choice(both)
            network.reset(1, broken)  # both ends see an error
            network.perform(1, far.stream.lost(broken, BROKEN))
        network.step(*dice.choice(network.steps()))
        number += 1
    return [near, far]


MESSAGES = st.lists(st.binary(min_size=1, max_size=30), max_size=6)


@given(
    mode=st.sampled_from(["repflow", "repsyn"]),
    threshold=st.sampled_from([0, 10, 40, 1000]),
    up=MESSAGES,
    down=MESSAGES,
    seed=st.integers(0, 10**9),
)
def test_whatever_the_order_of_events_every_byte_arrives_once_and_in_order(mode, threshold, up, down, seed):
    """The two ends never choose against each other."""
    near, far = run_both(mode, threshold, up, down, seed, cut=None)
    assert not near.has_ended and not far.has_ended
    assert far.got == near.sent and near.got == far.sent
    assert near.saw_eof and far.saw_eof


@given(
    up=MESSAGES,
    down=MESSAGES,
    seed=st.integers(0, 10**9),
    cut=st.integers(0, 12),
)
def test_a_short_flow_loses_nothing_when_the_network_breaks_one_of_its_two_connections(up, down, seed, cut):
    """A long one may just have chosen the connection that breaks, as any TCP flow may."""
    near, far = run_both("repflow", 1000, up, down, seed, cut)
    assert not near.has_ended and not far.has_ended
    assert far.got == near.sent and near.got == far.sent
    assert near.saw_eof and far.saw_eof


def test_the_fake_network_catches_two_ends_that_choose_against_each_other():
    """A machine whose server resets as it likes must fail the test above."""

    class Eager(ReplicatedStream):
        def _choose_when_long(self, unsent_bytes=(0, 0)):
            if self.written_bytes <= self.threshold_bytes or len(self.active) < 2:
                return super()._choose_when_long(unsent_bytes)
            self.state = State.CHOSEN
            return self._give_up(self._opened[1])

    failures = 0
    for seed in range(200):
        near, far = End(Eager("client", "repflow", 5), [b"x" * 6]), End(Eager("server", threshold_bytes=5), [b"y" * 6])
        network = FakeNetwork(near, far, random.Random(seed))
        while steps := network.steps():
            network.step(*network.dice.choice(steps))
        failures += near.got != b"y" * 6 or far.got != b"x" * 6
    assert failures > 0
