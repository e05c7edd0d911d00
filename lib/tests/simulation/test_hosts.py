"""Programs at simulated hosts: datagrams and timers, messages over TCP, machines of `protocols`, web pages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from netrepro.errors import NetreproError
from netrepro.networks import (
    Datagrams,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Measure,
    Sfq,
    dumbbell,
    star,
)
from netrepro.protocols import Event, Send, drive
from netrepro.simulation import Hosts, simulate, simulate_machines

LINK = Link(10, 5, DropTail(packets=100))


def quiet(link: Link = LINK, duration_s: float = 10.0, **more: Any) -> Experiment:
    """Two hosts at a switch, and nothing else."""
    return Experiment(star(2, link), (), duration_s, clock_skew_ppm=0.0, **more)


def arrivals(hosts: Hosts, sizes: list[int], at_s: float = 0.0, **more: Any) -> dict[int, float]:
    """Send datagrams of these payloads from h1 to h2 at once; return number -> time of arrival (s)."""
    found: dict[int, float] = {}

    def send(_now_s: float) -> None:
        for number, size in enumerate(sizes):
            hosts.send("h1", "h2", size, lambda now_s, number=number: found.update({number: now_s}), **more)

    hosts.at(at_s, send)
    hosts.run()
    return found


@pytest.mark.parametrize("payload", [0, 100, 1472])
def test_a_datagram_takes_two_transmissions_and_two_delays(payload):
    found = arrivals(Hosts(quiet()), [payload], at_s=1.0)
    assert found == {0: pytest.approx(1 + 2 * ((payload + 42) * 8 / 10e6 + 0.005), abs=1e-9)}


def test_a_large_datagram_is_there_when_its_last_fragment_is():
    found = arrivals(Hosts(quiet()), [4000])  # 1472 + 1472 + 1056
    first, last = (1472 + 42) * 8 / 10e6, (1056 + 42) * 8 / 10e6
    assert found[0] == pytest.approx(3 * first + last + 0.01, abs=1e-9)


def test_a_large_datagram_is_lost_with_any_of_its_fragments():
    for fragments in (1, 3):
        lossy = Link(1000, 1, DropTail(packets=1000), loss=0.1)
        found = arrivals(Hosts(quiet(lossy)), [1472 * fragments] * 300)  # they fit into the host's port
        assert len(found) / 300 == pytest.approx(0.9 ** (2 * fragments), abs=0.09)  # two links


def test_datagrams_that_find_the_queue_full_are_dropped_and_the_others_keep_their_order():
    hosts = Hosts(quiet(Link(10, 5, DropTail(packets=20))))
    found = arrivals(hosts, [1000] * 2000)
    # The host's own port is Linux's (1000 packets), and the one being sent does not wait.
    assert list(found) == list(range(1001)) and sorted(found.values()) == list(found.values())
    assert hosts.measurements().links["dropped_packets"].sum() == 999


def delays_beside_a_blast(queue: Any) -> tuple[list[float], Any]:
    """Measure the delays (ms) of a hundred small datagrams, while another host sends twice the bottleneck's rate."""
    net = dumbbell(2, Link(100, 1), Link(10, 1, queue))
    hosts = Hosts(Experiment(net, (Datagrams("h2", "h4", 20, 3),), 4, measure=Measure(packets=(("s1", "s2"),))))
    found: list[float] = []

    def send(now_s: float) -> None:
        hosts.send("h1", "h3", 200, lambda there_s: found.append((there_s - now_s) * 1e3))

    for i in range(100):
        hosts.at(1 + i / 100, send)
    hosts.run()
    return found, hosts.measurements()


def test_datagrams_share_queues_with_the_experiments_own_traffic_and_are_told_apart_by_fair_ones():
    (fair_ms, fair), (tail_ms, tail) = (delays_beside_a_blast(queue) for queue in (Sfq(100), DropTail(packets=100)))
    assert len(fair_ms) == 100 and max(fair_ms) < 3 + 3 * 1.3
    assert min(tail_ms) > 50
    assert fair.trusted and tail.trusted
    flows = fair.packets["flow"]
    assert (flows >= 1 << 31).sum() == 100 and (flows == 0).sum() > 1000 and len(fair.flows) == 1


def test_timers_ring_in_their_order_between_what_the_network_does():
    hosts, heard = Hosts(quiet()), []
    hosts.at(0.5, lambda now_s: heard.append(("late", now_s)))
    hosts.at(0.2, lambda now_s: hosts.at(now_s, lambda again_s: heard.append(("nested", again_s))))
    hosts.at(0.2, lambda now_s: heard.append(("second", now_s)))
    hosts.at(0.19, lambda now_s: hosts.send("h1", "h2", 1000, lambda there_s: heard.append(("there", there_s))))
    hosts.run(0.3)
    assert [name for name, _ in heard] == ["second", "nested", "there"] and hosts.now_s == 0.3
    hosts.run()
    assert heard[-1] == ("late", 0.5) and hosts.now_s == 10
    with pytest.raises(NetreproError, match="a time to come"):
        hosts.at(1, print)


# Messages over TCP ------------------------------------------------------------------------------------


def test_a_request_takes_a_round_trip_after_the_one_that_opens_the_connection():
    hosts, heard = Hosts(quiet()), {}
    connection = hosts.connect("h1", "h2", lambda now_s: heard.update(connected=now_s))

    def asked(now_s: float) -> None:
        heard["asked"] = now_s
        connection.send(1000, lambda there_s: heard.update(answered=there_s), to_client=True)

    connection.send(100, asked)
    hosts.run()
    # 74 bytes of a SYN, 66 of a header; four links there and back.
    handshake = 0.02 + 4 * 74 * 8 / 10e6
    assert heard["connected"] == pytest.approx(handshake, abs=5e-4)
    assert heard["asked"] - heard["connected"] == pytest.approx(0.01 + 2 * 166 * 8 / 10e6, abs=5e-4)
    assert heard["answered"] - heard["asked"] == pytest.approx(0.01 + 2 * 1066 * 8 / 10e6, abs=5e-4)


def test_messages_arrive_once_and_in_their_order_whatever_is_lost():
    lossy = Link(10, 5, DropTail(packets=8), loss=0.03)
    hosts = Hosts(quiet(lossy, 300.0), most_connections=1)
    connection, heard = hosts.connect("h1", "h2"), {True: [], False: []}
    sizes = [1, 1448, 1449, 5000, 100_000, 3, 3] * 5
    for number, size in enumerate(sizes):
        for to_client in (False, True):
            there = heard[to_client]
            connection.send(size, lambda _now_s, there=there, number=number: there.append(number), to_client=to_client)
    hosts.run()
    assert heard[False] == heard[True] == list(range(len(sizes)))
    connection.close()
    assert hosts.measurements().trusted


def test_a_connection_fills_its_path_as_a_flow_of_the_experiment_does():
    net = dumbbell(1, Link(100, 1), Link(10, 10, DropTail(packets=50)))
    size = 3_000_000
    flow = simulate(Experiment(net, (Flow("h1", "h2", size),), 10)).flows["completion_ms"].item()
    hosts, ended = Hosts(Experiment(net, (), 10)), []
    hosts.connect("h1", "h2").send(size, ended.append)
    hosts.run()
    assert ended[0] * 1e3 == pytest.approx(flow, rel=0.02)


def test_what_programs_cannot_do_is_refused():
    hosts = Hosts(quiet(), most_connections=1)
    for call, says in (
        (lambda: hosts.send("h1", "h9", 1, print), "no host"),
        (lambda: hosts.send("h1", "h1", 1, print), "to itself"),
        (lambda: hosts.send("h1", "h2", -1, print), "whole number"),
        (lambda: hosts.send("h1", "h2", 1.5, print), "whole number"),  # type: ignore[arg-type]
        (lambda: hosts.connect("h2", "h2"), "to itself"),
    ):
        with pytest.raises(NetreproError, match=says):
            call()
    connection = hosts.connect("h1", "h2")
    with pytest.raises(NetreproError, match="most_connections"):
        hosts.connect("h1", "h2")
    with pytest.raises(NetreproError, match="a byte"):
        connection.send(0, print)
    connection.send(10, lambda _now_s: None)
    with pytest.raises(NetreproError, match="on its way"):
        connection.close()
    hosts.run()
    connection.close()
    connection.close()
    with pytest.raises(NetreproError, match="closed"):
        connection.send(1, print)


# Machines ---------------------------------------------------------------------------------------------


@dataclass
class Player:
    """Returns every ball after a while, as often as it may."""

    other: str
    serves: bool
    thinks_s: float = 0.001
    most: int = 20
    wake_at_s: float = math.inf
    held: list[int] = field(default_factory=list)

    def start(self, now_s):
        return [Send(self.other, 0)] if self.serves else []

    def receive(self, now_s, sender, message):
        self.held.append(message)
        self.wake_at_s = now_s + self.thinks_s
        return [Event("ball", message)]

    def wake(self, now_s):
        self.wake_at_s = math.inf
        ball = self.held.pop()
        return [Send(self.other, ball + 1)] if ball < self.most else []


def players() -> dict[Any, Player]:
    return {"a": Player("b", True), "b": Player("a", False)}


HOSTS = {"a": "h1", "b": "h2"}
WAY_S = 2 * ((500 + 42) * 8 / 10e6 + 0.005)


def test_machines_over_a_quiet_network_do_what_they_do_when_driven_by_delays():
    driven = drive(players(), lambda *_: WAY_S, 1.0)
    events, measured = simulate_machines(quiet(), players(), lambda _: 500, HOSTS)
    assert [(name, event) for _, name, event in events] == [(name, event) for _, name, event in driven]
    assert len(events) == 21
    for (found, *_), (expected, *_) in zip(events, driven, strict=True):
        assert found == pytest.approx(expected, rel=1e-3)
    assert measured.links["sent_packets"].sum() == 42 and measured.trusted


def test_machines_lose_what_the_network_loses_and_a_machine_that_is_taken_out_has_crashed():
    broken = quiet(changes=(LinkChange(0.05, "h2", "s1", up=False),))
    events, _ = simulate_machines(broken, players(), lambda _: 500, HOSTS)
    assert 0 < len(events) < 10 and events[-1][0] < 0.06
    team = players()

    def crash(_now_s):
        del team["b"]
        return ()

    events, _ = simulate_machines(quiet(), team, lambda _: 500, HOSTS, at=[(0.05, crash)])
    assert 0 < len(events) < 10 and all(time_s < 0.06 for time_s, *_ in events)


def test_machines_of_one_host_speak_without_the_network():
    events, measured = simulate_machines(quiet(), players(), lambda _: 500, {"a": "h1", "b": "h1"})
    assert len(events) == 21 and measured.links["sent_packets"].sum() == 0
    assert [time_s for time_s, *_ in events] == pytest.approx([0.001 * i for i in range(21)])


def test_machines_without_a_host_without_a_name_and_without_an_end_are_refused():
    with pytest.raises(NetreproError, match="without a host"):
        simulate_machines(quiet(), players(), lambda _: 500, {"a": "h1"})
    with pytest.raises(NetreproError, match="no machine of that name"):
        simulate_machines(quiet(), {"a": Player("c", True)}, lambda _: 500, {"a": "h1"})
    with pytest.raises(NetreproError, match="more than 10 events"):
        simulate_machines(quiet(), players(), lambda _: 500, HOSTS, most_events=10)
