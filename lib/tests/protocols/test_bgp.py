"""BGP speakers with business relations: what they choose, pass on, and forget; and the same routes as BIRD's."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.applications.bgp.run import Announcement, Session, bird_configuration
from netrepro.errors import NetreproError
from netrepro.protocols import Send, drive
from netrepro.protocols.as_graph import AsGraph, Relation, hierarchy, load_as_relationships
from netrepro.protocols.bgp import LOCAL, Speaker, Update, arrivals

PREFIX = "192.0.2.0/24"


def speakers(graph: AsGraph, **more) -> dict[int, Speaker]:
    return {number: Speaker(number, neighbours, **more) for number, neighbours in graph.neighbours.items()}


def announce(machines, *origins: int, prepends: int = 0):
    return lambda now_s: [
        (each, output) for each in origins for output in machines[each].originate(now_s, PREFIX, prepends)
    ]


def converged(graph: AsGraph, *origins: int) -> dict[int, Speaker]:
    machines = speakers(graph)
    drive(machines, lambda *_: 0.01, math.inf, at=[(0.0, announce(machines, *origins))])
    return machines


def test_a_customer_is_preferred_to_a_peer_and_a_peer_to_a_provider_however_long_the_path():
    speaker = Speaker(1, {2: Relation.CUSTOMER, 3: Relation.PEER, 4: Relation.PROVIDER})
    speaker.receive(0.0, 4, Update(PREFIX, (4,)))
    assert speaker.routes[PREFIX].next_hop == 4
    speaker.receive(0.0, 3, Update(PREFIX, (3, 9)))
    assert speaker.routes[PREFIX].next_hop == 3
    speaker.receive(0.0, 2, Update(PREFIX, (2, 7, 8, 9)))
    assert speaker.routes[PREFIX].next_hop == 2
    speaker.receive(0.0, 2, Update(PREFIX, None))
    assert speaker.routes[PREFIX].next_hop == 3


def test_among_equals_the_shorter_path_then_the_lower_number_wins():
    speaker = Speaker(1, {2: Relation.PEER, 3: Relation.PEER, 4: Relation.PEER})
    speaker.receive(0.0, 4, Update(PREFIX, (4, 9)))
    speaker.receive(0.0, 3, Update(PREFIX, (3, 9)))
    assert speaker.routes[PREFIX].next_hop == 3
    speaker.receive(0.0, 2, Update(PREFIX, (2, 2, 9)))
    assert speaker.routes[PREFIX].next_hop == 3


@pytest.mark.parametrize(
    ("source", "told"),
    [(Relation.CUSTOMER, {3, 4}), (Relation.PEER, {3}), (Relation.PROVIDER, {3})],
)
def test_what_comes_from_peers_and_providers_goes_to_customers_only(source, told):
    speaker = Speaker(1, {2: source, 3: Relation.CUSTOMER, 4: Relation.PEER})
    outputs = speaker.receive(0.0, 2, Update(PREFIX, (2,)))
    assert {each.to for each in outputs if isinstance(each, Send)} == told


def test_rfc_4271_a_path_with_the_own_number_is_refused_unless_it_is_allowed():
    for allowed, routes in ((0, 0), (1, 1)):
        speaker = Speaker(1, {2: Relation.PROVIDER}, accepts_own=allowed)
        speaker.receive(0.0, 2, Update(PREFIX, (2, 1, 3)))
        assert len(speaker.routes) == routes


def test_prepends_make_the_path_longer_and_nothing_else():
    speaker = Speaker(1, {2: Relation.PROVIDER}, as_number=65000)
    (update,) = [each for each in speaker.originate(0.0, PREFIX, 3) if isinstance(each, Send)]
    assert update.message.path == (65000,) * 4


def test_rfc_4271_announcements_wait_for_the_interval_and_withdrawals_do_not():
    speaker = Speaker(1, {2: Relation.CUSTOMER, 3: Relation.PROVIDER}, advertisement_interval_s=lambda: 30.0)
    assert any(isinstance(each, Send) for each in speaker.receive(0.0, 3, Update(PREFIX, (3, 9))))
    assert not [each for each in speaker.receive(1.0, 3, Update(PREFIX, (3, 8, 9))) if isinstance(each, Send)]
    assert speaker.wake_at_s == 30.0
    (late,) = speaker.wake(30.0)
    assert late == Send(2, Update(PREFIX, (1, 3, 8, 9)))
    gone = [each for each in speaker.receive(31.0, 3, Update(PREFIX, None)) if isinstance(each, Send)]
    assert gone == [Send(2, Update(PREFIX, None))]


def test_delayed_updates_of_one_neighbour_stay_in_order():
    delays = iter([5.0, 1.0])
    speaker = Speaker(1, {2: Relation.PROVIDER}, delay_s=lambda: next(delays))
    speaker.receive(0.0, 2, Update(PREFIX, (2, 9)))
    speaker.receive(0.5, 2, Update(PREFIX, None))
    speaker.wake(5.0)
    assert not speaker.routes


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_paths_are_valley_free_and_loop_free_and_everybody_is_reached(seed):
    """Gao and Rexford: with these policies routing converges, and no path goes down and up again."""
    graph = hierarchy(seed, top=3, transit=10, stubs=15, peering=0.5)
    origin = random.Random(seed).choice(graph.stubs)
    machines = converged(graph, origin)
    for number, machine in machines.items():
        hops = [number]
        while (hop := machines[hops[-1]].routes[PREFIX].next_hop) != LOCAL:
            hops.append(hop)
            assert len(hops) <= len(machines)
        assert hops[-1] == origin and len(set(hops)) == len(hops)
        assert len(machine.routes[PREFIX].path) == len(hops) - 1
        kinds = [graph.neighbours[a][b] for a, b in pairwise(hops)]
        downhill = [kind != Relation.PROVIDER for kind in kinds]
        assert downhill == sorted(downhill) and sum(kind == Relation.PEER for kind in kinds) <= 1


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_what_delays_do_on_the_way_does_not_matter_in_the_end(seed):
    graph = hierarchy(seed, top=3, transit=10, stubs=10, peering=0.5)
    origins, stream = graph.stubs[:3], random.Random(seed)
    reference = converged(graph, *origins[1:])
    machines = speakers(graph, delay_s=lambda: stream.expovariate(1.0))
    withdraw = lambda now_s: [(origins[0], each) for each in machines[origins[0]].withdraw(now_s, PREFIX)]  # noqa: E731
    drive(machines, lambda *_: 0.01, math.inf, at=[(0.0, announce(machines, *origins)), (500.0, withdraw)])
    assert {number: each.routes for number, each in machines.items()} == {
        number: each.routes for number, each in reference.items()
    }


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_packets_arrive_at_the_last_as_of_the_path_that_routing_chose(seed):
    graph = hierarchy(seed, top=3, transit=12, stubs=20)
    origins = graph.stubs[:2]
    machines = converged(graph, *origins)
    changes = {number: [(0.0, PREFIX, each.routes[PREFIX].next_hop)] for number, each in machines.items()}
    ends = [([number, *each.routes[PREFIX].path])[-1] for number, each in machines.items()]
    assert arrivals(changes, [PREFIX], list(machines), [-1.0, 0.0]).tolist() == [[0, end] for end in ends]


def test_a_circle_and_a_missing_route_lose_the_packet_and_the_longer_prefix_wins():
    longer, shorter = "192.0.2.0/24", "192.0.2.0/23"
    changes = {
        1: [(-1.0, longer, 2)],
        2: [(-1.0, longer, 1), (5.0, longer, None), (5.0, shorter, 3)],
        3: [(-1.0, shorter, LOCAL)],
        4: [],
    }
    assert arrivals(changes, [longer, shorter], [1, 2, 3, 4], [0.0, 6.0]).tolist() == [[0, 3], [0, 3], [3, 3], [0, 0]]


def test_a_file_of_relations_is_read_and_a_bad_line_is_named(tmp_path: Path):
    file = tmp_path / "as-rel.txt"
    file.write_text("# a comment\n1|2|-1\n1|3|0\n")
    graph = load_as_relationships(file)
    assert graph.neighbours[2] == {1: Relation.PROVIDER} and graph.neighbours[3] == {1: Relation.PEER}
    file.write_text("1|2|-1\n1|x|0\n")
    with pytest.raises(NetreproError, match="line 2"):
        load_as_relationships(file)
    with pytest.raises(NetreproError, match="no file"):
        load_as_relationships(tmp_path / "absent.bz2")
    (tmp_path / "broken.gz").write_bytes(b"nothing")
    with pytest.raises(NetreproError, match="cannot be read"):
        load_as_relationships(tmp_path / "broken.gz")


def test_an_impossible_internet_and_a_link_to_itself_are_refused():
    with pytest.raises(NetreproError, match="share"):
        hierarchy(1, peering=1.5)
    with pytest.raises(NetreproError, match="itself"):
        AsGraph(((1, 1, Relation.PEER),))


# BIRD: real daemons that speak BGP with each other over loopback addresses, as they do in virtual time.


def address(number: int) -> str:
    return f"127.77.{number // 250}.{number % 250 + 1}"


def configuration(graph: AsGraph, number: int, origins: list[int]) -> str:
    sessions = [
        Session(each, relation, address(number), address(each), its_number=each)
        for each, relation in graph.neighbours[number].items()
    ]
    announced = {"own": Announcement(PREFIX)} if number in origins else {}
    return bird_configuration(number, address(number).replace("127.77", "10.0"), sessions, announced)


def bird_paths(client: str, folder: Path, numbers: list[int]) -> dict[int, tuple[int, ...] | None]:
    found = {}
    for number in numbers:
        asked = [client, "-s", str(folder / f"{number}.ctl"), "show", "route", PREFIX, "primary", "all"]
        shown = subprocess.run(asked, capture_output=True, text=True).stdout
        path = re.search(r"BGP\.as_path:([ \d]*)", shown)
        found[number] = tuple(map(int, path.group(1).split())) if path else () if "blackhole" in shown else None
    return found


def test_every_as_chooses_the_route_that_bird_chooses(tmp_path: Path):
    """24 ASes, two of which announce the same prefix: equal paths everywhere, before and after one of them stops."""
    bird = shutil.which("bird") or shutil.which("bird", path="/usr/sbin")
    client = bird and shutil.which("birdc", path=str(Path(bird).parent))
    if bird is None or client is None:
        pytest.skip("needs BIRD 2 (package bird2)")
    graph = hierarchy(3, top=3, transit=8, stubs=13, peering=0.5)
    origins = [graph.stubs[0], graph.stubs[5]]
    daemons = {}
    try:
        for number in graph.neighbours:
            (tmp_path / f"{number}.conf").write_text(configuration(graph, number, origins))
            command = [bird, "-f", "-c", f"{number}.conf", "-s", f"{number}.ctl", "-P", f"{number}.pid"]
            with (tmp_path / f"{number}.log").open("w") as log:
                daemons[number] = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        for stops in ((), origins[:1]):
            for number in stops:
                daemons[number].kill()
                daemons[number].wait()
            ours = converged(graph, *[each for each in origins if each not in stops])
            alive = [number for number in graph.neighbours if number not in stops]
            expected = {number: ours[number].routes[PREFIX].path for number in alive}
            for _ in range(60):
                found = bird_paths(client, tmp_path, alive)
                if found == expected:
                    break
                time.sleep(0.5)
            assert found == expected
    finally:
        for daemon in daemons.values():
            daemon.kill()
            daemon.wait()


def test_an_announcement_takes_its_share_of_a_withdrawals_time():
    for update, due_s in ((Update("p", (2, 3)), 1.0), (Update("p", None), 4.0)):
        speaker = Speaker(1, {2: Relation.PROVIDER}, delay_s=lambda: 4.0, announcement_share=0.25)
        speaker.receive(0.0, 2, update)
        assert speaker.wake_at_s == due_s


def test_rfc_4271_the_interval_is_a_prefixs_so_that_five_prefixes_are_told_again_together():
    """Section 9.2.1.1 limits how often a route to one destination is announced to a peer."""
    speaker = Speaker(1, {2: Relation.CUSTOMER, 3: Relation.PROVIDER}, advertisement_interval_s=lambda: 30.0)
    prefixes = [f"192.0.{number}.0/24" for number in range(5)]
    first = [output for each in prefixes for output in speaker.receive(0.0, 3, Update(each, (3, 9)))]
    again = [output for each in prefixes for output in speaker.receive(1.0, 3, Update(each, (3, 8, 9)))]
    told = [each.message.prefix for each in first if isinstance(each, Send)]
    assert told == prefixes and [each for each in again if isinstance(each, Send)] == []
    assert speaker.wake_at_s == 30.0
    later = speaker.wake(30.0)
    assert [(each.to, each.message) for each in later] == [(2, Update(each, (1, 3, 8, 9))) for each in prefixes]
    assert speaker.wake_at_s == math.inf


def test_an_update_from_no_neighbour_is_refused():
    with pytest.raises(NetreproError, match="AS 1 has an update from 9"):
        Speaker(1, {2: Relation.CUSTOMER}).receive(0.0, 9, Update(PREFIX, (9,)))
