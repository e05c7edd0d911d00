"""Linux's own cost a packet: that each case does what it is called, seen in its counters, never in its time."""

from __future__ import annotations

import pytest
from emulation_traffic import emulation, rootless

from netrepro.emulation.kernel_costs import CASES, time_kernel, time_relay
from netrepro.errors import NetreproError
from netrepro.networks import star
from netrepro.networks.links import Link


def count_what_passes() -> dict[str, tuple[int, int]]:
    """Of each case: u32 rules, and packets that reached the interface."""
    import socket

    from pyroute2 import IPRoute

    from netrepro import _core
    from netrepro.emulation import kernel_costs as costs

    counted = {}
    with IPRoute() as kernel, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        kernel.link("add", ifname="sink0", kind="ifb")
        index = kernel.link_lookup(ifname="sink0")[0]
        kernel.link("set", index=index, state="up", arp=False)
        kernel.addr("add", index=index, address=costs.OWN_ADDRESS, prefixlen=24)
        sender.bind((costs.OWN_ADDRESS, costs.OWN_PORT))
        sender.connect((costs.FAR_ADDRESS, costs.FAR_PORT))
        for case in costs.CASES:
            before = kernel.get_links(index)[0].get_attr("IFLA_STATS64")["rx_dropped"]
            costs._make_queue(kernel, index, case)
            _core.send_datagrams(sender.fileno(), 2, 50, costs.PAYLOAD_BYTES)
            rules = [each for each in kernel.get_filters(index, parent=costs.ROOT) if "keys" in str(each)]
            passed = kernel.get_links(index)[0].get_attr("IFLA_STATS64")["rx_dropped"] - before
            kernel.tc("del", index=index, handle=0, parent=costs.ROOT_PARENT)
            counted[case] = (len(rules), passed)
    return counted


@rootless
def test_packets_end_in_the_queue_or_behind_it_as_the_case_says():
    with emulation(star(2, Link(100.0, 0.0))) as net:
        counted = net["h1"].python(count_what_passes)
    assert {case: passed for case, (_, passed) in counted.items()} == {
        "A": 0,
        "B": 0,
        "B100": 0,
        "99 rules behind": 0,
        "C0": 100,
        "Cr": 100,
    }
    assert {case: rules for case, (rules, _) in counted.items() if rules} == {
        "B": 1,
        "B100": 100,
        "99 rules behind": 100,
    }


@rootless
def test_every_case_is_timed_in_every_batch():
    table = time_kernel("rootless", batches=4, batch_packets=20, repetitions=2)
    assert table.groupby("case").batch.count().to_dict() == dict.fromkeys(CASES, 8)
    firsts = table.drop_duplicates("repetition").set_index("repetition").case
    assert firsts.to_dict() == {0: CASES[0], 1: CASES[1]}
    assert (table.processor_ns > 0).all()


@rootless
def test_a_delayed_link_passes_every_packet_on_and_is_charged_in_every_batch():
    table = time_relay("rootless", delay_ms=2.0, batches=3, batch_packets=100, repetitions=2)
    assert list(table.batch) == [0, 1, 2] * 2 and set(table.case) == {"Cd"} and set(table.repetition) == {0, 1}
    assert (table.processor_ns > 0).all()


def test_a_link_without_delay_has_no_relay_to_charge():
    with pytest.raises(NetreproError, match="delay_ms = 0"):
        time_relay("rootless", delay_ms=0, batches=1)


def test_the_simulated_tier_has_no_kernel_to_measure():
    with pytest.raises(NetreproError, match="simulated"):
        time_kernel("simulated", batches=1)
