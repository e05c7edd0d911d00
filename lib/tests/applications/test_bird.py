"""BIRD daemons as the routers of ASes in virtual time: their routes and clients' pings beside our own speakers'."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from netrepro.applications.bgp.run import Announcement, Failure, find_bird, run_failures
from netrepro.emulation.virtual.probe import try_virtual
from netrepro.errors import NetreproError
from netrepro.papers import cdn_routing as paper
from netrepro.papers.cdn_routing import failures as routing
from netrepro.papers.cdn_routing import setting
from netrepro.protocols import drive
from netrepro.protocols.bgp import Speaker, arrivals
from netrepro.study import VIRTUAL

SMALL = paper.Setting(top=3, transit=8, stubs=12, sites=3, watch_s=120.0)
# The notebook's ASes.
FIFTY = paper.STUDY.scaled(paper.Setting(watch_s=120.0, announcement_share=0.5), "quick", VIRTUAL)
MEAN_S = 4.0


@pytest.fixture(scope="module", autouse=True)
def daemons() -> None:
    works, why = try_virtual()
    if not works:
        pytest.skip(f"no virtual kernel: {why}")
    try:
        find_bird()
    except NetreproError as error:
        pytest.skip(error.problem)


def paths_of_speakers(world: setting.World, announcing) -> dict[int, tuple[int, ...] | None]:
    speakers = {
        number: Speaker(number, near, as_number=setting.CDN if number in world.sites else None)
        for number, near in world.graph.neighbours.items()
    }
    announce = lambda now_s: [  # noqa: E731
        (site, each) for site in announcing for each in speakers[site].originate(now_s, setting.SPECIFIC)
    ]
    drive(speakers, lambda *_: 0.01, math.inf, at=[(0.0, announce)])
    routes = {number: each.routes.get(setting.SPECIFIC) for number, each in speakers.items()}
    return {number: route.path if route else None for number, route in routes.items()}


def test_every_as_chooses_the_same_route_and_every_ping_arrives_where_our_speakers_say():
    """After the withdrawal of a site, with the same delays drawn by both, through circles and holes."""
    world = setting.make_world(FIFTY, 4)
    failed, *others = world.sites
    assert len(world.graph.neighbours) == 50
    stubs = world.clients
    streams = {number: random.Random(f"4 {number}") for number in world.graph.neighbours}
    delays_s = {number: [each.expovariate(1 / MEAN_S) for _ in range(500)] for number, each in streams.items()}
    pings_s = 0.7 + 1.5 * np.arange(60)
    names = {"anycast": [], "proactive-prepending": [], "reactive-anycast": ["specific"]}
    before = {"anycast": ["specific"], "proactive-prepending": ["prepended"], "reactive-anycast": []}
    failures = [
        Failure(
            failed,
            {failed: ["specific"]} | dict.fromkeys(others, before[name]),
            dict.fromkeys(others, later) if later else {},
            first=name == "anycast",
            pings_s=pings_s.tolist(),
        )
        for name, later in names.items()
    ]
    found = run_failures(
        world.graph,
        world.sites,
        stubs,
        setting.CDN,
        {"specific": Announcement(setting.SPECIFIC), "prepended": Announcement(setting.SPECIFIC, 3)},
        failures,
        delays_s,
        address=routing.ADDRESS,
        link_delay_ms=FIFTY.link_delay_ms,
        announcement_share=FIFTY.announcement_share,
    )
    for name, each in zip(names, found, strict=True):
        changes = routing.fail(world, setting.techniques(SMALL)[name], failed, FIFTY, MEAN_S, 4)
        expected = arrivals(changes, setting.PREFIXES, stubs, np.array([-0.5]))[:, 0]
        assert [each.before[stub] for stub in stubs] == expected.tolist()
        clients = list(each.answers)
        seen = np.array([each.answers[client] for client in clients])
        assert len(clients) > 1 and seen.shape[1] > 5 and not seen[:, 0].all() and seen[:, -1].all()
        same = seen == arrivals(changes, setting.PREFIXES, clients, pings_s[: seen.shape[1]])
        assert same.mean() > 0.98  # a packet under way when a table changes may go either way
    for place, announcing in enumerate((world.sites, others)):
        chosen = {number: own.get(setting.SPECIFIC) for number, own in found[0].paths[place].items()}
        assert chosen == paths_of_speakers(world, announcing)


def test_a_site_that_announces_what_it_does_not_have_is_named():
    world = setting.make_world(replace(SMALL, sites=2), 4)
    failure = Failure(world.sites[0], {world.sites[0]: ["specifik"]}, first=True, pings_s=[1.0])
    with pytest.raises(NetreproError, match="specifik"):
        run_failures(world.graph, world.sites, [], setting.CDN, {}, [failure], {}, address=routing.ADDRESS)
