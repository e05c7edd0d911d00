"""Running BIRD, a BGP daemon of the real Internet, as the router of every AS, in virtual time.

The routing policies are those of Gao and Rexford (ToN 2001). guest.py runs inside: it lets sites fail and follows the
clients' packets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from netrepro.emulation import messages
from netrepro.emulation.virtual.instance import batched_by_node
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import Cable, Topology
from netrepro.programs import need_program
from netrepro.protocols.as_graph import AsGraph, Relation

GUEST = Path(__file__).with_name("guest.py")
PORT = 1790  # BGP's port here, for daemons that may not open 179
PREFERENCE = {Relation.CUSTOMER: 300, Relation.PEER: 200, Relation.PROVIDER: 100}
CLIENT_RATE_MBPS = 100.0
_EDGE = """
router id {router_id};
define from_customer = (65535, 1);
filter give_some {{ if source = RTS_STATIC || from_customer ~ bgp_community then accept; reject; }}
protocol device {{ }}
"""
_TO_KERNEL = "protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; scan time 100000; }\n"
_SESSION = """
protocol bgp to_{neighbour} {{
  local {local} port {port} as {number};
  neighbor {other} port {port} as {its_number};
  strict bind; multihop; {passive}
  connect delay time 0; connect retry time 1; error wait time 1, 2; startup hold time 60; hold time {hold_s};
  ipv4 {{
    import filter {{ bgp_local_pref = {preference}; bgp_community.{mark}; {gateway} accept; }};
    export {export}; next hop self;
  }};
}}
"""
_HOLD_S = 60_000  # long, so that sessions send few keep-alives


@dataclass(frozen=True)
class Announcement:
    """A prefix that an AS can announce as its own, with its AS number 1 + `prepends` times in the path."""

    prefix: str
    prepends: int = 0


@dataclass(frozen=True)
class Session:
    """One end of a BGP session. relation : the neighbour's role. local, other : addresses of both ends. its_number :
    the neighbour's AS number. gateway : next hop of packets ("": BGP's). passive : the other end connects."""

    neighbour: int
    relation: Relation
    local: str
    other: str
    its_number: int
    gateway: str = ""
    passive: bool = False


def find_bird() -> str:
    """Return the path of the daemon. Raises NetreproError if BIRD is not installed."""
    return need_program("bird")


def bird_configuration(
    number: int,
    router_id: str,
    sessions: Iterable[Session],
    announcements: Mapping[str, Announcement],
    *,
    to_kernel: bool = False,
) -> str:
    """Write the daemon's configuration file for AS `number`.

    Routes of customers are preferred to those of peers, and these to those of providers. Routes from peers and
    providers are announced only to customers. Among equals, the shorter path wins, then the neighbour's lower
    `router_id`. announcements : name of a static protocol -> the prefix that it announces. to_kernel : routes go to the
    kernel's table, and each announcement must first be enabled.
    """
    text = _EDGE.format(router_id=router_id) + (_TO_KERNEL if to_kernel else "")
    for name, each in announcements.items():
        path = f" {{ {f'bgp_path.prepend({number}); ' * each.prepends}}}" if each.prepends else ""
        disabled = "disabled; " if to_kernel else ""
        text += f"protocol static {name} {{ {disabled}ipv4; route {each.prefix} blackhole{path}; }}\n"
    for session in sessions:
        is_customer = session.relation == Relation.CUSTOMER
        text += _SESSION.format(
            neighbour=session.neighbour,
            number=number,
            its_number=session.its_number,
            local=session.local,
            other=session.other,
            port=PORT,
            passive="passive;" if session.passive else "",
            hold_s=_HOLD_S,
            preference=PREFERENCE[session.relation],
            mark="add(from_customer)" if is_customer else "delete([from_customer])",
            gateway=f"gw = {session.gateway};" if session.gateway else "",
            export="all" if is_customer else "filter give_some",
        )
    return text


@dataclass(frozen=True)
class Failure:
    """A failure of the site `failed`.

    before : site -> names of its announcements before the failure. after : further announcements, made `reacts_after_s`
    after it. delayed : whether ASes delay updates from the failure on. first : whether the clients that reach the site
    now are also the clients of later failures of this site. pings_s : times of the clients' pings after the failure.
    """

    failed: int
    before: Mapping[int, Sequence[str]]
    after: Mapping[int, Sequence[str]] = field(default_factory=dict)
    reacts_after_s: float = 0.0
    delayed: bool = True
    first: bool = False
    pings_s: Sequence[float] = ()


@dataclass(frozen=True)
class Failed:
    """The effects of a failure.

    before : client -> site that it reached, 0 for none. answers : client -> the site that each of its pings reached, 0
    for none, for the clients that reached the failed site. Pings end once no table changes any more: all later ones
    would reach the same site as the last one. paths : before and at the end, AS -> prefix -> AS path.
    updates : number of updates that neighbours got after the failure.
    """

    before: Mapping[int, int]
    answers: Mapping[int, Sequence[int]]
    paths: tuple[Mapping[int, Mapping[str, tuple[int, ...]]], ...]
    updates: int


def run_failures(
    graph: AsGraph,
    sites: Sequence[int],
    clients: Sequence[int],
    as_number: int,
    announcements: Mapping[str, Announcement],
    failures: Sequence[Failure],
    delays_s: Mapping[int, Sequence[float]],
    *,
    address: str,
    link_delay_ms: float = 20.0,
    announcement_share: float = 1.0,
    seed: int = 1,
    patience_s: float = 120.0,
) -> list[Failed]:
    """Let sites fail, one after the other, in an Internet of BIRD daemons on a Linux kernel in virtual time.

    Every AS is a network namespace with a daemon that fills its routing table; every link delays by `link_delay_ms`.
    A client's pings are packets to `address`, which all sites have. They follow the kernels' tables, also into loops
    and black holes, and count if they arrive at another site than the failed one. BIRD has no interval between
    announcements and answers at once. So each session goes through a relay in the receiving AS, which delays every
    update, in order, by the AS's next value of `delays_s`, or by `announcement_share` of it if the update withdraws
    nothing. The values are used cyclically, and from the beginning for each failure. sites : ASes without customers
    that share `as_number` and have two links or more.

    Raises NetreproError without BIRD or the virtual kernel, and for daemons that do not come up.
    """
    bird = find_bird()
    names = {each: f"h{sites.index(each) + 1}" if each in sites else f"s{each}" for each in graph.neighbours}
    link = Link(CLIENT_RATE_MBPS, link_delay_ms)
    topology = Topology(tuple(Cable(names[a], names[b], link) for a, b, _ in graph.links), "ASes")
    with VirtualNetwork(topology, seed=seed, patience_s=patience_s, syscall_cost_ns=0) as net:
        addresses = {number: str(net.plan.addresses[name]) for number, name in names.items()}
        places = {number: {each: k for k, each in enumerate(near, 1)} for number, near in graph.neighbours.items()}
        _give_peers(net, names, graph)
        for number, near in graph.neighbours.items():
            sessions = [
                Session(
                    each,
                    relation,
                    f"127.0.1.{places[number][each]}",
                    f"127.0.2.{places[number][each]}",
                    as_number if each in sites else each,
                    gateway=addresses[each],
                    passive=number > each,
                )
                for each, relation in near.items()
            ]
            own = announcements if number in sites else {}
            shown = as_number if number in sites else number
            text = bird_configuration(shown, _router_id(number), sessions, own, to_kernel=True)
            (net.folder / f"{number}.conf").write_text(text)
            control = f"/run/{number}.ctl"
            net[names[number]].popen([bird, "-f", "-c", f"{number}.conf", "-s", control, "-P", f"/run/{number}.pid"])
        asked: dict[str, Any] = {
            "namespaces": {each: f"/proc/1/fd/{net.plan.descriptor(name)}" for each, name in names.items()},
            "sessions": [(a, b, places[a][b], places[b][a]) for a, near in places.items() for b in near if a < b],
            "addresses": addresses,
            "port": PORT,
            "announcement_share": announcement_share,
            "delays_s": {each: list(values) for each, values in delays_s.items()},
            "sites": list(sites),
            "clients": list(clients),
            "address": address,
            "failures": [asdict(each) for each in failures],
            "announcements": list(announcements),
        }
        (net.folder / "asked.json").write_text(json.dumps(asked))
        net["h1"].run([sys.executable, "-I", "-S", "-B", str(GUEST), "asked.json", "found.json"])
        outcome = json.loads((net.folder / "found.json").read_text())
    if "problem" in outcome:
        raise NetreproError(
            f"BIRD in virtual time: {outcome['problem']}", "are the graph and its sites as they should be?"
        )
    return [_failed(each) for each in outcome["failures"]]


def _give_peers(net: VirtualNetwork, names: Mapping[int, str], graph: AsGraph) -> None:
    """Set the peer address at both ends of every link, so that BIRD finds its neighbours."""
    plan, requests = net.plan, {}
    for number, near in graph.neighbours.items():
        node = names[number]
        requests[node] = [
            messages.new_address(
                plan.ports[node, names[each]].shaper[1],
                plan.addresses[node].packed,
                plan.addresses[names[each]].packed,
            )
            for each in near
        ]
    net.instance.order("change", requests=batched_by_node(requests))


def _router_id(number: int) -> str:
    """Make a router identifier; identifiers are in the order of AS numbers, because the lower one wins among equals."""
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _failed(each: Mapping[str, Any]) -> Failed:
    return Failed(
        {int(client): site for client, site in each["before"].items()},
        {int(client): sites for client, sites in each["answers"].items()},
        tuple(
            {int(number): {prefix: tuple(path) for prefix, path in own.items()} for number, own in paths.items()}
            for paths in each["paths"]
        ),
        each["updates"],
    )
