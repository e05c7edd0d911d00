"""Queue disciplines written in Python."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from netrepro.errors import NetreproError
from netrepro.networks import (
    CoDel,
    Datagrams,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Tcp,
    dumbbell,
)
from netrepro.simulation import OwnQueueDiscipline, simulate

PORT = ("s1", "s2")


class TailDrop(OwnQueueDiscipline):
    packets = 30

    def __init__(self):
        self.waiting = deque()

    def enqueue(self, packet, now_s):
        if len(self.waiting) < self.packets:
            self.waiting.append(packet)
        else:
            packet.drop()

    def dequeue(self, now_s):
        return self.waiting.popleft()

    def clear(self):
        self.waiting.clear()


class Threshold(TailDrop):
    """DCTCP's marking: ten packets wait already."""

    def enqueue(self, packet, now_s):
        if packet.ecn_capable and 10 <= len(self.waiting) < self.packets:
            packet.mark()
        super().enqueue(packet, now_s)


class RoundRobin(OwnQueueDiscipline):
    """A packet of each flow in turn; where 30 wait, the longest flow's first is dropped."""

    def __init__(self):
        self.flows = {}

    def enqueue(self, packet, now_s):
        self.flows.setdefault(packet.flow, deque()).append(packet)
        if sum(map(len, self.flows.values())) > 30:
            self._take(max(self.flows, key=lambda flow: len(self.flows[flow]))).drop()

    def _take(self, flow):
        packet = self.flows[flow].popleft()
        if not self.flows[flow]:
            del self.flows[flow]
        return packet

    def dequeue(self, now_s):
        flow = next(iter(self.flows))
        rest = self.flows.pop(flow)
        packet = rest.popleft()
        if rest:
            self.flows[flow] = rest  # behind the others
        return packet

    def clear(self):
        self.flows.clear()


class Late(TailDrop):
    """Drops what has waited for 5 ms."""

    def dequeue(self, now_s):
        while self.waiting:
            packet = self.waiting.popleft()
            if now_s - packet.arrived_s <= 0.005:
                return packet
            packet.drop()
        return None


def experiment(queue, *, control="reno", changes=(), flows=2, **tcp) -> Experiment:
    net = dumbbell(flows, Link(1000, 1, DropTail(packets=1000)), Link(20, 10, queue))
    traffic = [Flow(f"h{i}", f"h{i + flows}", start_s=i / 10, duration_s=4) for i in range(1, flows + 1)]
    measure = Measure(queues=(PORT,), packets=(PORT,))
    return Experiment(net, traffic, 5, measure=measure, changes=changes, tcp=Tcp(control, **tcp))


@pytest.mark.parametrize(
    ("core", "own", "tcp"),
    [
        (DropTail(packets=30), TailDrop, {}),
        (EcnThreshold(30, 10), Threshold, {"control": "dctcp", "ecn": True}),
    ],
)
def test_a_queue_in_python_does_what_the_cores_does(core, own, tcp):
    expected = simulate(experiment(core, **tcp))
    found = simulate(experiment(core, **tcp), queues={PORT: own})
    assert found.flows.equals(expected.flows)
    assert found.packets.equals(expected.packets)
    assert found.links.equals(expected.links)
    bottleneck = found.links_by_port.loc[PORT]
    assert bottleneck.dropped_packets + bottleneck.marked_packets > 0


def test_turns_are_fair_where_one_flow_does_not_give_way():
    traffic = [Flow("h1", "h3", duration_s=4), Datagrams("h2", "h4", rate_mbps=40, duration_s=4)]
    greedy = replace(experiment(DropTail(packets=30)), traffic=traffic)
    shares = [simulate(greedy, queues=queues).flows["goodput_mbps"][0] for queues in ({}, {PORT: RoundRobin})]
    assert shares[0] < 2 < 8 < shares[1]


def test_a_packet_that_waited_may_be_dropped_at_its_turn():
    found = simulate(experiment(DropTail(packets=30)), queues={PORT: Late})
    assert found.links_by_port.loc[PORT, "dropped_packets"] > 0
    assert found.packets["wait_ms"].max() <= 5
    assert simulate(experiment(CoDel(30)), queues={}).packets["wait_ms"].max() > 5


def test_what_waits_when_the_link_goes_down_is_lost_and_what_comes_later_is_sent():
    changes = (LinkChange(1.0, "s1", "s2", up=False), LinkChange(1.2, "s1", "s2", up=True))
    core = simulate(experiment(DropTail(packets=30), changes=changes))
    found = simulate(experiment(DropTail(packets=30), changes=changes), queues={PORT: TailDrop})
    assert found.flows.equals(core.flows)
    assert found.links.equals(core.links)

    class Forgetful(TailDrop):
        def clear(self):
            """Keeps what is lost: the simulator does not send it."""

    forgetful = simulate(experiment(DropTail(packets=30), changes=changes), queues={PORT: Forgetful})
    assert forgetful.flows.equals(core.flows) and forgetful.links.equals(core.links)


def test_a_queue_that_cannot_forget_is_refused_where_its_link_goes_down():
    class Unfinished(TailDrop):
        clear = OwnQueueDiscipline.clear

    assert simulate(experiment(DropTail(packets=30)), queues={PORT: Unfinished}).flows["delivered_bytes"].gt(0).all()
    changes = (LinkChange(1.0, "s1", "s2", up=False),)
    with pytest.raises(NetreproError, match=r"Unfinished has no method clear\n.*def clear\(self\)"):
        simulate(experiment(DropTail(packets=30), changes=changes), queues={PORT: Unfinished})


class Hoarder(TailDrop):
    def dequeue(self, now_s):
        return None


class Twice(TailDrop):
    def dequeue(self, now_s):
        return self.waiting[0]


class DropsTwice(TailDrop):
    def enqueue(self, packet, now_s):
        packet.drop()
        packet.drop()


class DropsWhatWasSent(TailDrop):
    def dequeue(self, now_s):
        self.sent = super().dequeue(now_s)
        return self.sent

    def enqueue(self, packet, now_s):
        if hasattr(self, "sent"):
            self.sent.drop()
        super().enqueue(packet, now_s)


class MarksAll(TailDrop):
    def enqueue(self, packet, now_s):
        packet.mark()


class SendsANumber(TailDrop):
    def dequeue(self, now_s):
        return 3


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        (Hoarder, "Hoarder.dequeue gives nothing while 1 packets wait"),
        (Twice, "Twice.dequeue gives a packet that was sent or dropped before"),
        (DropsTwice, "a packet is dropped twice"),
        (DropsWhatWasSent, "DropsWhatWasSent.a packet is dropped that was sent before"),
        (MarksAll, "a mark on a packet whose flow has no ECN"),
        (SendsANumber, "SendsANumber.dequeue gives 3"),
        (dict, "queues: <class 'dict'> makes no OwnQueueDiscipline"),
        (TailDrop(), "give a class that is derived from it"),
        (OwnQueueDiscipline, "OwnQueueDiscipline has no method enqueue"),
        (type("Half", (OwnQueueDiscipline,), {"enqueue": TailDrop.enqueue}), "Half has no method dequeue"),
        (type("Bare", (TailDrop,), {"dequeue": lambda self: None}), "Bare.dequeue does not take (self, now_s)"),
    ],
)
def test_a_mistake_ends_the_run_with_what_is_wrong(queue, says):
    with pytest.raises(NetreproError) as told:
        simulate(experiment(DropTail(packets=30)), queues={PORT: queue})
    assert says in str(told.value)


def test_an_object_of_ones_own_is_looked_at_afterwards():
    class Counting(TailDrop):
        came = 0

        def enqueue(self, packet, now_s):
            self.came += 1
            super().enqueue(packet, now_s)

    mine = Counting()
    found = simulate(experiment(DropTail(packets=30)), queues={PORT: lambda: mine})
    bottleneck = found.links_by_port.loc[PORT]
    assert mine.came == bottleneck.sent_packets + bottleneck.dropped_packets > 1000
    assert not mine.waiting  # all has been sent before the end


def test_a_port_that_is_not_there_is_named():
    with pytest.raises(NetreproError, match="no port"):
        simulate(experiment(DropTail(packets=30)), queues={("s1", "s3"): TailDrop})
    with pytest.raises(NetreproError, match="give a dict"):
        simulate(experiment(DropTail(packets=30)), queues=[TailDrop])


def test_an_exception_comes_through_with_class_and_method():
    class Mistake(TailDrop):
        def enqueue(self, packet, now_s):
            raise ValueError("a mistake of the reader's")

    with pytest.raises(ValueError, match="the reader's") as told:
        simulate(experiment(DropTail(packets=30)), queues={PORT: Mistake})
    assert told.value.__notes__ == ["in the middle of the run, in Mistake.enqueue"]
