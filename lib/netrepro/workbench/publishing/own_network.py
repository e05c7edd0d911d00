"""A page in which a reader builds a network, runs it in the browser, and takes it along as a Python script.

The page computes no description: it puts together parts that `describe` made here, for each topology and each number of
flows, and for each value that a control offers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from netrepro.networks import (
    CoDel,
    DropTail,
    Experiment,
    Flow,
    FqCoDel,
    Link,
    Measure,
    Pie,
    Queue,
    Red,
    Topology,
    dumbbell,
    fat_tree,
    host_cable,
    star,
)
from netrepro.networks.topology import Cable
from netrepro.simulation.described import describe

OWN_PAGE = "own.html"
SEED, APART_S = 1, 0.125  # seconds between the starts of two flows
ACCESS_TIMES, ACCESS_MS = 10, 1.0  # hosts' links: rate as a multiple of the inner links', and delay
FLOWS = (1, 2, 3, 4, 6, 8)
RATES_MBPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
DELAYS_MS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
SIZES_PACKETS = (5, 10, 20, 50, 100, 200, 500, 1000)
SECONDS = (2, 5, 10, 20)
FLOW_KB = (0, 20, 100, 500, 2000)  # 0: flows that last to the end
CONTROLS = ("reno", "cubic", "bic", "bbr")
WINDOWS_MS, QUEUES_MS = 50.0, 10.0  # between samples


def red(packets: int) -> Red:
    """Make RED with thresholds of a sixth and a half of the buffer, and the weight of Floyd and Jacobson (1993)."""
    return Red(packets, packets / 6, packets / 2, 0.1, 0.002)


# Each queue: how it is made of a number of packets, and how Python writes that.
QUEUES: dict[str, tuple[Callable[[int], Queue], str]] = {
    "drop tail": (lambda packets: DropTail(packets=packets), "DropTail(packets={packets})"),
    "CoDel": (lambda packets: CoDel(packets), "CoDel({packets})"),
    "FQ-CoDel": (lambda packets: FqCoDel(packets), "FqCoDel({packets})"),
    "PIE": (lambda packets: Pie(packets), "Pie({packets})"),
    "RED": (red, "Red({packets}, {packets} / 6, {packets} / 2, 0.1, 0.002)"),
}


class Shape(NamedTuple):
    """A topology of so many flows: `build` makes it of the inner link, `pairs` are the flows' ends, `ports` are those
    whose queues are shown, and `written` is the Python of `build`."""

    build: Callable[[Link, int], Topology]
    pairs: Callable[[int], list[tuple[str, str]]]
    ports: Callable[[int], list[tuple[str, str]]]
    written: str


def _access(link: Link) -> Link:
    return Link(ACCESS_TIMES * link.rate_mbps, ACCESS_MS)


def parking_lot(link: Link, flows: int) -> Topology:
    """Build s1 to s4 in a row; the first flow crosses all three links, each other one a single link."""
    access = _access(link)
    cables = [host_cable("h1", "s1", access), host_cable("h2", "s4", access)]
    for i in range(1, flows):
        hop = (i - 1) % 3 + 1
        cables.append(host_cable(f"h{2 * i + 1}", f"s{hop}", access))
        cables.append(host_cable(f"h{2 * i + 2}", f"s{hop + 1}", access))
    cables += [Cable(f"s{i}", f"s{i + 1}", link) for i in (1, 2, 3)]
    return Topology(tuple(cables), "parking lot")


PARKING_LOT = """\
cables = [host_cable("h1", "s1", access), host_cable("h2", "s4", access)]
for i in range(1, {flows}):
    hop = (i - 1) % 3 + 1
    cables.append(host_cable(f"h{2 * i + 1}", f"s{hop}", access))
    cables.append(host_cable(f"h{2 * i + 2}", f"s{hop + 1}", access))
cables += [Cable(f"s{i}", f"s{i + 1}", link) for i in (1, 2, 3)]
network = Topology(tuple(cables), "parking lot")"""
SHAPES = {
    "dumbbell": Shape(
        lambda link, flows: dumbbell(flows, _access(link), link),
        lambda flows: [(f"h{i + 1}", f"h{flows + i + 1}") for i in range(flows)],
        lambda _: [("s1", "s2")],
        "network = dumbbell({flows}, access, link)",
    ),
    "star": Shape(
        lambda link, flows: star(flows + 1, link),
        lambda flows: [(f"h{i + 1}", f"h{flows + 1}") for i in range(flows)],
        lambda flows: [("s1", f"h{flows + 1}")],
        "network = star({hosts}, link)",
    ),
    "parking lot": Shape(
        parking_lot,
        lambda flows: [(f"h{2 * i + 1}", f"h{2 * i + 2}") for i in range(flows)],
        lambda _: [("s1", "s2"), ("s2", "s3"), ("s3", "s4")],
        PARKING_LOT,
    ),
    "fat-tree (k = 4)": Shape(
        lambda link, _: fat_tree(4, link),
        lambda flows: [(f"h{i + 1}", f"h{16 - i}") for i in range(flows)],
        lambda _: [("s1", "s9"), ("s1", "s10")],
        "network = fat_tree(4, link)",
    ),
}


def own_experiment(
    shape: str, flows: int, link: Link, seconds: int, flow_kb: int = 0, controls: tuple[str, str] = ("cubic", "cubic")
) -> Experiment:
    """Make the experiment that the page runs for these settings.

    controls : of the first, third, ... flow, and of the others. flow_kb : size of every flow (kB); 0 to send to the
    end.
    """
    made = SHAPES[shape]
    traffic = []
    for place, (source, destination) in enumerate(made.pairs(flows)):
        start_s = place * APART_S
        lasts: dict[str, Any] = {"size_bytes": 1000 * flow_kb} if flow_kb else {"duration_s": seconds - start_s}
        traffic.append(Flow(source, destination, **lasts, start_s=start_s, congestion_control=controls[place % 2]))
    ports, numbers = tuple(made.ports(flows)), tuple(range(flows))
    measure = Measure(ports, QUEUES_MS, windows_interval_ms=WINDOWS_MS, deliveries=numbers)
    return Experiment(made.build(link, flows), tuple(traffic), seconds, SEED, measure, host_delay_packets=1.0)


def page_data() -> dict[str, Any]:
    """Return all that the page needs: the values of its controls, a description for each topology and number of flows,
    and what each value changes in it."""
    link = Link(RATES_MBPS[0], DELAYS_MS[0], DropTail(packets=SIZES_PACKETS[0]))
    return {
        "values": {
            "topology": list(SHAPES),
            "flows": list(FLOWS),
            "rate_mbps": list(RATES_MBPS),
            "delay_ms": list(DELAYS_MS),
            "queue": list(QUEUES),
            "packets": list(SIZES_PACKETS),
            "control": list(CONTROLS),
            "other_control": list(CONTROLS),
            "flow_kb": list(FLOW_KB),
            "seconds": list(SECONDS),
        },
        "first": {"topology": "dumbbell", "flows": 2, "rate_mbps": 10.0, "delay_ms": 10.0, "queue": "drop tail"}
        | {"packets": 50, "control": "cubic", "other_control": "cubic", "flow_kb": 0, "seconds": 5},
        "shapes": {
            name: {
                "written": shape.written,
                "of": {str(count): _template(name, count, link) for count in FLOWS},
            }
            for name, shape in SHAPES.items()
        },
        "rates": [_of_rate(rate) for rate in RATES_MBPS],
        "delays_s": [_inner_call(replace(link, delay_ms=delay))[1]["delay_s"] for delay in DELAYS_MS],
        "queues": {
            name: {"written": written, "of": {str(packets): _of_queue(make(packets)) for packets in SIZES_PACKETS}}
            for name, (make, written) in QUEUES.items()
        },
    }


def _template(name: str, count: int, link: Link) -> dict[str, Any]:
    """Describe a topology and its flows, and say of each port which of the page's values it has: all of the inner link
    ("inner"), all but its queue ("host"), or a host's own ("access")."""
    asked = own_experiment(name, count, link, SECONDS[0])
    roles = []
    for each in asked.topology.ports.values():
        is_inner = each.rate_mbps == link.rate_mbps
        roles.append("inner" if each == link else "host" if is_inner else "access")
    pairs, ports = SHAPES[name].pairs(count), SHAPES[name].ports(count)
    return {"described": describe(asked), "roles": roles, "pairs": pairs, "ports": ports}


def _inner_call(link: Link) -> list[Any]:
    """Return the call by which `describe` adds the inner link."""
    described = describe(own_experiment("dumbbell", 1, link, SECONDS[0]))
    calls = [call for call in described["set_up"] if call[0] == "add_link"]
    return calls[described["ports"].index(["s1", "s2"])]


def _of_rate(rate_mbps: float) -> dict[str, Any]:
    """Return what the inner links' rate decides: rates in the core's unit, and the time that hosts take."""
    described = describe(own_experiment("dumbbell", 1, Link(rate_mbps, 1.0), SECONDS[0]))
    calls = [call[1] for call in described["set_up"] if call[0] == "add_link"]
    host, inner = (calls[described["ports"].index(port)] for port in (["h1", "s1"], ["s1", "s2"]))
    return {
        "inner": inner["rate"],
        "access": host["rate"],
        "access_mbps": ACCESS_TIMES * rate_mbps,
        "host_delay_s": host["host_delay_s"],
    }


def _of_queue(queue: Queue) -> dict[str, Any]:
    """Return what the inner links' queue decides: its call's rule and numbers, the room, and its own description."""
    asked = own_experiment("dumbbell", 1, Link(RATES_MBPS[0], 1.0, queue), SECONDS[0])
    call = _inner_call(Link(RATES_MBPS[0], 1.0, queue))
    described = json.loads(asked.to_json())["topology"]["cables"][-1]["forward"]["queue"]
    return {"rule": call[2], "numbers": call[3], "room": call[1]["room"], "described": described}
