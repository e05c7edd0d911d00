"""Links in real time that the kernel's netem delays, what it is told of them, and what is refused."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from emulation_traffic import emulation, rootless

from netrepro.emulation import emulate, messages
from netrepro.emulation.netem import wire
from netrepro.emulation.plan import HUB, make_plan
from netrepro.emulation.real_time.changes import Links
from netrepro.emulation.refusals import check_change
from netrepro.emulation.tiers import check_feature, probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Link, LinkChange, Red, dumbbell, star
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.workloads import Flow

ROOMY = DropTail(packets=2000)
FAST = Link(1000, 0, ROOMY)
PORT = ("s1", "s2")


def has_netem() -> bool:
    if not probe_tiers().rootless.available:
        return False
    try:
        check_feature("netem", "rootless", "")
    except NetreproError:
        return False
    return True


NETEM = has_netem()
needs_netem = pytest.mark.skipif(not NETEM, reason="needs a kernel with netem")


# What the kernel is told ------------------------------------------------------------------------------


def decoded(request: messages.NetlinkRequest):
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    message = tcmsg(request.message)
    message.decode()
    return message


def attributes(options: bytes) -> dict[int, bytes]:
    """Kind -> payload."""
    found, start = {}, 0
    while start < len(options):
        length, kind = struct.unpack_from("=HH", options, start)
        found[kind] = options[start + 4 : start + length]
        start += (length + 3) & ~3
    return found


def said_of(link: Link) -> tuple[dict, dict[int, bytes]]:
    """Decode a wire's message: the fields that pyroute2 reads, and the attributes that it does not know."""
    request = wire(5, link, seed=7)
    message = decoded(request)
    assert (message["index"], message.get_attr("TCA_KIND")) == (5, "netem")
    options = attributes(request.message[36:])[2]
    return message.get_attr("TCA_OPTIONS"), attributes(options[24:])


def test_pyroute2_reads_the_delay_and_the_loss_that_the_link_has():
    from pyroute2.netlink.rtnl.tcmsg.sched_netem import get_parameters

    theirs = get_parameters({"delay": 20_000, "loss": 25})  # microseconds, per cent
    options, more = said_of(Link(10, 20, loss=0.25))
    assert options["delay"] * 64 == pytest.approx(20e6) == theirs["delay"] * 64
    assert options["loss"] == pytest.approx(0.25 * 2**32, rel=1e-6) == pytest.approx(theirs["loss"], rel=1e-6)
    assert options["gap"] == options["duplicate"] == 0 and options["limit"] >= 10**9
    latency_ns, jitter_ns, seed = (struct.unpack("=q", more[kind])[0] for kind in (10, 11, 14))
    assert (latency_ns, jitter_ns, seed) == (20_000_000, 0, 7) and 2 not in more


def drawn_ms(more: dict[int, bytes]) -> np.ndarray:
    """Every addition to the delay that netem can draw, each as likely: tabledist() of sch_netem.c."""
    places, spread_ns = np.frombuffer(more[2], np.int16).astype(np.int64), struct.unpack("=q", more[11])[0]
    return (spread_ns % 8192 * places / 8192 + spread_ns // 8192 * places) / 1e6


def test_jitter_is_bell_shaped_with_the_links_deviation_and_packets_are_sent_in_order_at_the_links_rate():
    _, more = said_of(Link(10, 20, jitter_ms=3))
    drawn = drawn_ms(more)
    assert drawn.mean() == pytest.approx(0, abs=0.01) and drawn.std() == pytest.approx(3, rel=0.01)
    assert (np.abs(drawn) < 3).mean() == pytest.approx(0.6827, abs=0.01)
    assert struct.unpack("=Q", more[8])[0] == 1_250_000 and more[6] == bytes(16)  # bytes a second


@pytest.mark.parametrize("share", [0.5, 0.1, 0.003, 1.0])
def test_the_share_asked_for_is_held_back_by_the_time_asked_for(share):
    _, more = said_of(Link(10, 20, reordering=share, reordering_ms=7))
    drawn = drawn_ms(more)
    assert set(drawn) <= {0.0, 7.0} and (drawn == 7).mean() == pytest.approx(share, rel=1e-4)
    assert 6 not in more and 8 not in more  # nothing that keeps the order


def test_what_arrives_at_one_end_of_a_cable_is_handed_to_the_other():
    plan = make_plan(star(2, Link(10, 5)))
    requests = plan.requests[HUB]
    assert len(plan.wires) == 4
    filters = [decoded(each) for each in requests if each.message[4] == messages.NEW_FILTER]
    handed = {}
    for each in filters:
        assert each.get_attr("TCA_KIND") == "matchall"
        action = each.get_attr("TCA_OPTIONS").get_attr("TCA_MATCHALL_ACT").get_attr("TCA_ACT_PRIO_1")
        assert action.get_attr("TCA_ACT_KIND") == "mirred"
        handed[each["index"]] = action.get_attr("TCA_ACT_OPTIONS").get_attr("TCA_MIRRED_PARMS")["ifindex"]
    assert handed == {each.from_index: each.to_index for each in plan.wires}
    assert all(handed[there] == back for back, there in handed.items())


def test_the_shaper_stays_at_the_port_before_the_wire():
    plan = make_plan(dumbbell(1, FAST, Link(10, 5)))
    assert all(port.shaper[0] == port.source for port in plan.ports.values())
    assert plan.ports[PORT].tap[0] == HUB and plan.ports["h1", "s1"].tap[0] == "s1"


def test_a_new_delay_and_loss_are_told_to_the_wire_alone():
    links = Links(make_plan(dumbbell(1, FAST, Link(10, 5))))
    requests, rate_mbps = links.change(PORT, LinkChange(0, *PORT, delay_ms=20, loss=0.25))
    (request,) = requests[HUB]
    options = decoded(request).get_attr("TCA_OPTIONS")
    assert rate_mbps == 10 and options["delay"] * 64 == pytest.approx(20e6)
    assert options["loss"] == pytest.approx(0.25 * 2**32, rel=1e-6)


def test_a_cable_without_netem_takes_no_delay():
    network = dumbbell(1, FAST, Link(10, 0))
    check_change(network, LinkChange(0.5, *PORT, rate_mbps=5, delay_ms=0))
    with pytest.raises(NetreproError, match=r"s1 to s2 at 0.5 s: a delay or a loss.*\n.*from the beginning"):
        check_change(network, LinkChange(0.5, *PORT, delay_ms=5))


@pytest.mark.parametrize(
    ("link", "why"),
    [
        (Link(10, 5, Red(100, 5, 20)), "a queue of kind Red; in real time links are drop-tail"),
        (Link(10, 5, jitter_ms=1, reordering=0.1, reordering_ms=1), "beside reordering"),
        (Link(10, 5000, jitter_ms=3000), "vary by more than 2000 ms"),
        (Link(10, 5, reordering=1e-6, reordering_ms=1), "netem's least is 1 in 16384"),
    ],
)
def test_what_a_kernel_does_not_do_in_real_time_is_refused_and_virtual_time_named(link, why):
    with pytest.raises(NetreproError, match=why) as refused:
        make_plan(dumbbell(1, FAST, link))
    assert "tier 'virtual'" in str(refused.value)


@rootless
@pytest.mark.skipif(NETEM, reason="needs a kernel without netem")
def test_a_kernel_without_netem_is_told_before_anything_is_built():
    with pytest.raises(NetreproError, match="no netem on the rootless tier") as refused:
        emulation(star(2, Link(10, 5)))
    assert "tier 'virtual'" in str(refused.value)


# What the kernel then does ----------------------------------------------------------------------------


def arrivals(receiver: socket.socket) -> Iterator[tuple[int, float]]:
    """Read datagrams until the socket's time-out: each one's number, and how long it was under way (ms)."""
    while True:
        try:
            data, extra, _, _ = receiver.recvmsg(2048, 256)
        except (BlockingIOError, TimeoutError):
            return
        number, sent_ns = struct.unpack("=Iq", data)
        seconds, nanoseconds = struct.unpack("qq", extra[0][2][:16])
        yield number, (seconds * 10**9 + nanoseconds - sent_ns) / 1e6


def through(link: Link, count: int, gap_s: float = 0.0) -> tuple[np.ndarray, np.ndarray, object]:
    """Numbers of datagrams as they arrive over the link, for how long each was under way (ms), and the link's row."""
    import time

    seen: list[tuple[int, float]] = []
    with emulation(dumbbell(1, FAST, link)) as net:
        sender = net["h1"].socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver = net["h2"].socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        receiver.bind(("", 7000))
        sender.connect((net["h2"].address, 7000))
        with sender, receiver, net.record() as recording:
            receiver.settimeout(0)
            for number in range(count):
                sender.send(struct.pack("=Iq", number, time.time_ns()))
                time.sleep(gap_s)
                seen += arrivals(receiver)  # a socket may hold no more than a few hundred
            receiver.settimeout(1.0)
            seen += arrivals(receiver)
        row = recording.links().set_index(["source", "destination"]).loc[PORT]
    numbers, waits_ms = zip(*seen, strict=True)
    return np.array(numbers), np.array(waits_ms), row


@rootless
@needs_netem
def test_netem_holds_every_packet_for_the_links_delay_and_loses_none():
    numbers, waits_ms, row = through(Link(1000, 20, ROOMY), 300, 0.002)
    assert list(numbers) == list(range(300)) and row.lost_packets == row.dropped_packets == 0
    assert waits_ms.min() >= 20 and np.median(waits_ms) < 23


@rootless
@needs_netem
def test_netem_loses_the_share_that_the_link_loses_and_it_is_counted():
    numbers, _, row = through(Link(1000, 1, ROOMY, loss=0.2), 1000)
    assert row.lost_packets == 1000 - len(numbers) and row.dropped_packets == 0
    assert 0.15 < row.lost_packets / 1000 < 0.25


@rootless
@needs_netem
def test_netems_jitter_has_the_links_deviation_and_keeps_the_order():
    numbers, waits_ms, _ = through(Link(1000, 30, ROOMY, jitter_ms=5), 300, 0.03)
    assert list(numbers) == list(range(300))
    spread = np.percentile(waits_ms, 75) - np.percentile(waits_ms, 25)
    assert 0.75 < spread / (1.349 * 5) < 1.35 and np.median(waits_ms) == pytest.approx(30, abs=3)


@rootless
@needs_netem
def test_netem_holds_back_the_share_asked_for_and_those_behind_overtake():
    numbers, waits_ms, _ = through(Link(1000, 10, ROOMY, reordering=0.1, reordering_ms=20), 600, 0.002)
    assert sorted(numbers) == list(range(600))
    held = waits_ms > 25
    assert 0.06 < held.mean() < 0.15 and waits_ms[held].min() >= 30 and waits_ms[~held].min() >= 10
    assert (np.maximum.accumulate(numbers) > numbers).mean() == pytest.approx(held.mean(), abs=0.03)


@rootless
@needs_netem
def test_a_packet_is_sent_as_a_whole_at_the_rate_that_the_link_has_then():
    flows = tuple(Flow("h1", "h2", size_bytes=1400, start_s=0.2 * number) for number in range(8))
    change = LinkChange(0.7, *PORT, rate_mbps=10)
    asked = Experiment(dumbbell(1, FAST, Link(1, 20, ROOMY)), flows, 2.0, changes=(change,))
    took_ms = emulate(asked, "rootless").flows["completion_ms"]
    # Three passages of 20 ms, and 1,466 bytes at 1 Mb/s beside the handshake's.
    assert took_ms[:3].min() > 72 > took_ms[4:].min()


@rootless
@needs_netem
def test_the_queue_before_netem_is_the_links_own_and_its_packets_are_seen_as_they_leave():
    asked = Experiment(
        dumbbell(1, FAST, Link(4, 50, DropTail(packets=20))),
        (Flow("h1", "h2", duration_s=4.0),),
        4.0,
        measure=Measure(queues=(PORT,), packets=(PORT,)),
    )
    found = emulate(asked, "rootless")
    link = found.links_by_port.loc[PORT]
    assert found.queues["queue_packets"].max() in (20, 21) and link.dropped_packets > 0
    gaps_ms = np.diff(found.packets["time_s"]) * 1e3
    assert np.median(gaps_ms) == pytest.approx(1514 * 8e-3 / 4, rel=0.05)


@pytest.mark.parametrize("rate_mbps", [0.5, 10.0, 62.5, 1000.0])
def test_a_shaper_is_given_the_links_rate_in_bytes_a_second(rate_mbps, monkeypatch):
    asked, ports = [], make_plan(star(2, Link(rate_mbps, 1.0))).ports
    monkeypatch.setattr(messages, "new_shaper", lambda *words: asked.append(words))
    for port in ports.values():
        port.shaped(port.link)
    assert len(asked) == len(ports) and {bytes_per_s for _, bytes_per_s, *_ in asked} == {rate_mbps * 125_000}
