"""Linux's own cost a packet: that each case does what it is called, seen in its counters, never in its time."""

from __future__ import annotations

import pytest
from emulation_traffic import emulation, rootless

from netrepro.errors import NetreproError
from netrepro.networks import star
from netrepro.networks.links import Link
from netrepro.papers.dummynet.kernel_costs import CASES, time_kernel


def count_what_passes() -> dict[str, tuple[int, int]]:
    """Count for each case the u32 rules, and the packets that reached the interface."""
    from pyroute2 import IPRoute

    from netrepro import _core
    from netrepro.papers.dummynet import kernel_costs as costs

    counted = {}
    with IPRoute() as kernel:
        for place, case in enumerate(costs.CASES):
            with costs._open_sender(kernel, place, case) as sender:
                index = kernel.link_lookup(ifname=f"sink{place}")[0]
                before = kernel.get_links(index)[0].get_attr("IFLA_STATS64")["rx_dropped"]
                _core.send_datagrams(sender.fileno(), 2, 50, costs.PAYLOAD_BYTES)
            rules = [each for each in kernel.get_filters(index, parent=costs.ROOT) if "keys" in str(each)]
            passed = kernel.get_links(index)[0].get_attr("IFLA_STATS64")["rx_dropped"] - before
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
def test_the_cases_are_timed_in_turn_and_each_in_every_batch():
    """A disturbance that lasts longer than a batch must fall on all cases, not on one."""
    table = time_kernel("rootless", batches=4, batch_packets=20, repetitions=2)
    rounds = [list(rows.case) for _, rows in table.groupby(["repetition", "batch"])]
    assert [set(each) for each in rounds] == [set(CASES)] * 8 and all(len(each) == len(CASES) for each in rounds)
    assert [each[0] for each in rounds] == [CASES[number % len(CASES)] for number in range(8)]
    assert (table.processor_ns > 0).all()


def test_the_simulated_tier_has_no_kernel_to_measure():
    with pytest.raises(NetreproError, match="simulated"):
        time_kernel("simulated", batches=1)
