"""An Internet, the CDN in it, and the announcements of the CDN's sites."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from netrepro.errors import NetreproError
from netrepro.protocols.as_graph import AsGraph, Relation, hierarchy, load_as_relationships
from netrepro.study.setting import parameter

SPECIFIC, COVERING = PREFIXES = "184.164.244.0/24", "184.164.244.0/23"
CDN = 47065  # the sites' AS number
FIRST_SITE = 1_000_000  # the sites' numbers as speakers: above all AS numbers
DELAY_LAWS = ("exponential", "lognormal", "constant")
GENERATED = "generated"
ANYCAST, REACTIVE, PREPENDING, SUPERPREFIX = PAPER = (
    "anycast",
    "reactive-anycast",
    "proactive-prepending",
    "proactive-superprefix",
)


@dataclass(frozen=True)
class Setting:
    """The Internet, the CDN, and how the measurement watches it.

    internet : GENERATED (of `top`, `transit` and `stubs` ASes), or the path of a file with CAIDA's AS relationships.
    announcement_share : time that an announcement takes through an AS, as a share of a withdrawal's time; the default
    is from `failures.share_of_beacons`. reaction_s : when the other sites announce the prefix, with reactive-anycast,
    after the failure; negative before it, as where operators move clients away. technique : a name of `techniques`.
    worlds : number of Internets in a repetition. mean_delay_s : mean time of an update through an AS; 0 to calibrate it
    on calibration_worlds Internets.
    is_small : one Internet small enough for daemons. site_providers : of each site. peers_of_one_site : share of the
    transit ASes that peer with the first site, as at an exchange.
    """

    top: int = 8
    transit: int = 80
    stubs: int = 240
    peering: float = 0.4
    sites: int = parameter(5, "of the CDN; every one fails in turn", low=2, high=20)
    prepends: int = parameter(3, "of the other sites, with proactive-prepending", low=0, high=20)
    ping_interval_s: float = parameter(1.5, "between two pings to a client", "s", low=0.1, high=60)
    watch_s: float = parameter(600.0, "how long clients are pinged after the failure", "s", low=10, high=100_000)
    link_delay_ms: float = 20.0
    delay_law: str = parameter("exponential", "of an update's way through an AS", one_of=DELAY_LAWS)
    advertisement_interval_s: float = parameter(
        0.0,
        "least time between two announcements to a neighbour; RFC 4271 suggests 30; on tier virtual 0",
        "s",
        low=0,
        high=300,
    )
    announcement_share: float = parameter(
        0.4, "of a withdrawal's time through an AS that an announcement takes; from beacons", low=0.01, high=1
    )
    internet: str = parameter(
        GENERATED,
        "a file holds CAIDA's AS relationships (as-rel, serial-1), in place of the levels below",
        one_of=(GENERATED, "a file"),
    )
    technique: str = "anycast"
    reaction_s: float = 0.0
    worlds: int = 3
    mean_delay_s: float = 0.0
    calibration_worlds: int = 30
    is_small: bool = False
    site_providers: int = 2
    peers_of_one_site: float = 0.0


@dataclass(frozen=True)
class Technique:
    """The announcements of all sites but the failing one.

    prefix : announced before the failure; "" for none. prepends : number of prepends on their announcements.
    reacts_after_s : seconds from the failure until they announce the specific prefix, negative before it; None for
    never. delays : False for routers that pass on every update at once.
    """

    prefix: str = ""
    prepends: int = 0
    reacts_after_s: float | None = None
    delays: bool = True


def small(technique: str) -> str:
    """Name a technique's case in the small Internet."""
    return f"small, {technique}"


def techniques(setting: Setting) -> dict[str, Technique]:
    """Return the paper's techniques, and the variants of them that are broken on purpose."""
    reactive, prepending = Technique(reacts_after_s=setting.reaction_s), Technique(SPECIFIC, setting.prepends)
    return {
        ANYCAST: Technique(SPECIFIC),
        REACTIVE: reactive,
        PREPENDING: prepending,
        SUPERPREFIX: Technique(COVERING),
        f"{REACTIVE}, no delays": replace(reactive, delays=False),
        f"{PREPENDING}, no delays": replace(prepending, delays=False),
        f"{REACTIVE}, a minute late": Technique(reacts_after_s=60.0),
        "no prepends": Technique(SPECIFIC, 0),
        "prepending after the failure": Technique("", setting.prepends, reacts_after_s=0.0),
    }


@dataclass(frozen=True)
class World:
    """One Internet with the CDN in it: the graph of its ASes, with the sites joined, and the sites' numbers."""

    graph: AsGraph
    sites: tuple[int, ...]

    @property
    def clients(self) -> list[int]:
        """The stubs that are not sites."""
        return [stub for stub in self.graph.stubs if stub < FIRST_SITE]

    def others(self, failed: int) -> list[int]:
        """Return all sites but one."""
        return [site for site in self.sites if site != failed]


@cache
def internet_of(path: str) -> AsGraph:
    """Load the Internet of a file, without the CDN's own AS."""
    links = load_as_relationships(path).links
    return AsGraph(tuple(link for link in links if CDN not in link[:2]))


@lru_cache(maxsize=1)  # the sites of an Internet fail one after the other
def make_world(setting: Setting, seed: int) -> World:
    """Make an Internet in which every site is a customer of `site_providers` transit ASes, and the first one has
    `peers_of_one_site`. In a file, transit ASes are those with both customers and providers.

    Raises NetreproError for a file with too few transit ASes, or with an AS number that a site has.
    """
    if setting.internet == GENERATED:
        graph = hierarchy(seed, top=setting.top, transit=setting.transit, stubs=setting.stubs, peering=setting.peering)
        transits = list(range(setting.top + 1, setting.top + setting.transit + 1))
    else:
        graph = internet_of(setting.internet)
        both = {Relation.CUSTOMER, Relation.PROVIDER}
        transits = [number for number, near in graph.neighbours.items() if both <= set(near.values())]
    wanted = setting.site_providers * setting.sites
    if len(transits) < wanted or max(graph.neighbours) >= FIRST_SITE:
        raise NetreproError(
            f"{setting.internet}: {len(transits)} ASes have customers and providers, the greatest number is "
            f"{max(graph.neighbours)}",
            f"give {wanted} such ASes, for {setting.sites} sites, and numbers below {FIRST_SITE}",
        )
    random = np.random.default_rng([seed, 1])
    providers = random.choice(transits, size=(setting.sites, setting.site_providers), replace=False)
    sites = tuple(FIRST_SITE + place for place in range(setting.sites))
    links = [(site, int(one), Relation.PROVIDER) for site, own in zip(sites, providers, strict=True) for one in own]
    others = sorted(set(transits) - set(providers[0].tolist()))
    peers = random.choice(others, size=round(setting.peers_of_one_site * len(others)), replace=False)
    links += [(sites[0], int(peer), Relation.PEER) for peer in peers]
    return World(graph.joined(links), sites)
