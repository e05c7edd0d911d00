"""How fast traffic leaves a CDN site that fails: Zhu et al., "The Best of Both Worlds: High Availability CDN Routing
Without Compromising Control" (IMC 2022), Fig. 2.

A CDN has several sites and one AS number. The site that fails stops to announce its prefix; routers without a valid
route drop what clients send, or send it in circles, until they have heard of another site. What the other sites
announce, and when, is the technique. Everything runs in virtual time: BGP speakers with the usual policies on a
generated Internet, whose delays are calibrated to anycast alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.bgp.run import Announcement, Failure, find_bird, run_failures
from netrepro.claims import Measured
from netrepro.emulation.virtual.probe import try_virtual
from netrepro.errors import NetreproError
from netrepro.processes import in_processes
from netrepro.protocols import drive
from netrepro.protocols.as_graph import AsGraph, Relation, hierarchy, load_as_relationships
from netrepro.protocols.bgp import LOCAL, Speaker
from netrepro.protocols.machine import Output
from netrepro.study import CheckedRuns, Progress, in_parallel, of_profile, rankings, seed_of, trust_by_tier
from netrepro.study.setting import check_setting, setting
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

SPECIFIC, COVERING = "184.164.244.0/24", "184.164.244.0/23"
CDN = 47065  # the sites' AS number
FIRST_SITE = 1_000_000  # the sites' numbers as speakers: beyond all ASes
PUBLISHED_MEDIAN_S = 10.0
ADDRESS = "184.164.244.1"  # that answers to pings are sent to
DRAWN = 500  # delays of each AS of daemons
DELAY_LAWS = ("exponential", "lognormal", "constant")
GENERATED = "generated"
MOST_DAEMONS = 200  # that one kernel's memory holds


@dataclass(frozen=True)
class Setting:
    """The Internet, the CDN and how it is watched.

    internet : GENERATED (of `top`, `transit` and `stubs` ASes), or the path of a file with CAIDA's AS relationships.
    announcement_share : an announcement takes this share of a withdrawal's time through an AS.
    """

    top: int = 8
    transit: int = 80
    stubs: int = 240
    peering: float = 0.4
    sites: int = setting(5, "of the CDN; every one fails in turn", low=2, high=20)
    prepends: int = setting(3, "of the other sites, with proactive-prepending", low=0, high=20)
    ping_interval_s: float = setting(1.5, "between two pings to a client", "s", low=0.1, high=60)
    watch_s: float = setting(600.0, "how long clients are pinged after the failure", "s", low=10, high=100_000)
    link_delay_ms: float = 20.0
    delay_law: str = setting("exponential", "of an update's way through an AS", one_of=DELAY_LAWS)
    advertisement_interval_s: float = setting(
        0.0,
        "least time between two announcements to a neighbour; RFC 4271 suggests 30; on tier virtual 0",
        "s",
        low=0,
        high=300,
    )
    announcement_share: float = setting(
        1.0, "of a withdrawal's time through an AS that an announcement takes", low=0.01, high=1
    )
    internet: str = setting(
        GENERATED,
        "or the path of a file with CAIDA's AS relationships (as-rel, serial-1), in place of the levels below",
    )

    def __post_init__(self) -> None:
        check_setting(self)


PRINTED = Setting()


@dataclass(frozen=True)
class Technique:
    """The announcements of all sites but the specific one.

    prefix : announced before the failure; "" for none. prepends : the number of prepends on it. reacts_after_s : the
    seconds from the failure to the announcement of the specific prefix; None: never. delays : False for routers that
    pass everything on at once.
    """

    prefix: str = ""
    prepends: int = 0
    reacts_after_s: float | None = None
    delays: bool = True


def techniques(setting: Setting = PRINTED) -> dict[str, Technique]:
    """Return the paper's techniques, and each one broken on purpose."""
    found = {
        "anycast": Technique(SPECIFIC),
        "reactive-anycast": Technique(reacts_after_s=0.0),
        "proactive-prepending": Technique(SPECIFIC, setting.prepends),
        "proactive-superprefix": Technique(COVERING),
    }
    return found | {
        "reactive-anycast, no delays": replace(found["reactive-anycast"], delays=False),
        "proactive-prepending, no delays": replace(found["proactive-prepending"], delays=False),
        "reactive-anycast, a minute late": Technique(reacts_after_s=60.0),
        "no prepends": Technique(SPECIFIC, 0),
        "prepending after the failure": Technique("", setting.prepends, reacts_after_s=0.0),
    }


CLASS_CASE = "reactive-anycast"  # whose pings are judged as the class judged them
PAPER = ("anycast", "reactive-anycast", "proactive-prepending", "proactive-superprefix")


def worlds_of(profile: str, tier: str = "simulated") -> int:
    """Return the number of Internets in a repetition of profile "quick" or "paper"."""
    return of_profile(profile, {"quick": 3, "paper": 20} if tier == "simulated" else {"quick": 1, "paper": 8})


def setting_of(profile: str, tier: str = "simulated", **changed: Any) -> Setting:
    """Return the setting of profile "quick" or "paper", which has the larger Internet; on tier "virtual", where every
    AS is a daemon, both are smaller: 45 ASes or 139, and the sites. Raises NetreproError for another profile."""
    sizes = {"quick": (8, 80, 240), "paper": (8, 400, 2000)}
    if tier == "virtual":
        sizes = {"quick": (4, 16, 25), "paper": (5, 44, 90)}
    top, transit, stubs = of_profile(profile, sizes)
    return Setting(top=top, transit=transit, stubs=stubs, **changed)


@dataclass(frozen=True)
class World:
    """One Internet with the CDN in it: its graph with the sites joined to it, and the sites."""

    graph: AsGraph
    sites: tuple[int, ...]

    @property
    def clients(self) -> list[int]:
        """Stubs that are no sites."""
        return [stub for stub in self.graph.stubs if stub < FIRST_SITE]


@cache
def _internet_of(path: str) -> AsGraph:
    """Load the Internet of a file, without the CDN's own AS."""
    links = load_as_relationships(path).links
    return AsGraph(tuple(link for link in links if CDN not in link[:2]))


def make_world(setting: Setting, seed: int) -> World:
    """Make an Internet in which every site buys from two transit ASes; those of a file have customers and providers.

    Raises NetreproError for a file that is none, has an AS of a site's number, or too few transit ASes.
    """
    if setting.internet == GENERATED:
        graph = hierarchy(seed, top=setting.top, transit=setting.transit, stubs=setting.stubs, peering=setting.peering)
        transits = list(range(setting.top + 1, setting.top + setting.transit + 1))
    else:
        graph = _internet_of(setting.internet)
        both = {Relation.CUSTOMER, Relation.PROVIDER}
        transits = [number for number, near in graph.neighbours.items() if both <= set(near.values())]
        if len(transits) < 2 * setting.sites or max(graph.neighbours) >= FIRST_SITE:
            raise NetreproError(
                f"{setting.internet}: {len(transits)} ASes have customers and providers, the greatest number is "
                f"{max(graph.neighbours)}",
                f"give {2 * setting.sites} such ASes, for {setting.sites} sites, and numbers below {FIRST_SITE}",
            )
    providers = np.random.default_rng([seed, 1]).choice(transits, size=(setting.sites, 2), replace=False)
    sites = tuple(FIRST_SITE + place for place in range(setting.sites))
    links = [(site, int(one), Relation.PROVIDER) for site, pair in zip(sites, providers, strict=True) for one in pair]
    return World(graph.joined(links), sites)


def delay_of(law: str, mean_s: float, random_stream: random.Random) -> Callable[[], float]:
    """Make the function that draws how long an update takes through an AS. The mean of all laws is `mean_s`."""
    sigma = 1.2
    draws: dict[str, Callable[[], float]] = {
        "exponential": lambda: random_stream.expovariate(1 / mean_s),
        "lognormal": lambda: random_stream.lognormvariate(math.log(mean_s) - sigma**2 / 2, sigma),
        "constant": lambda: mean_s,
    }
    return draws[law]


Changes = dict[int, list[tuple[float, str, int | None]]]  # AS -> (time after the failure in s, prefix, next hop)


Moment = tuple[float, Callable[[float], list[tuple[int, Output]]]]


def fail(world: World, technique: Technique, failed: int, setting: Setting, mean_delay_s: float, seed: int) -> Changes:
    """Compute the changes of every AS's routes when site `failed` fails; those at time -1 are the routes before.

    BGP has converged before; then the site withdraws its prefix, as if it were switched off cleanly.
    """
    speakers = {
        number: Speaker(number, neighbours, as_number=CDN if number in world.sites else None)
        for number, neighbours in world.graph.neighbours.items()
    }
    others = [site for site in world.sites if site != failed]

    def announce(sites: Sequence[int], prefix: str, prepends: int) -> Callable[[float], list[tuple[int, Output]]]:
        return lambda now_s: [
            (site, each) for site in sites for each in speakers[site].originate(now_s, prefix, prepends)
        ]

    def withdraw(now_s: float) -> list[tuple[int, Output]]:
        return [(failed, each) for each in speakers[failed].withdraw(now_s, SPECIFIC)]

    link_s = setting.link_delay_ms * 1e-3
    before: list[Moment] = [(0.0, announce([failed], SPECIFIC, 0))]
    if technique.prefix:
        before.append((0.0, announce(others, technique.prefix, technique.prepends)))
    drive(speakers, lambda *_: link_s, math.inf, at=before)
    changes: Changes = {
        number: [(-1.0, prefix, route.next_hop) for prefix, route in each.routes.items()]
        for number, each in speakers.items()
    }
    if technique.delays:  # before the failure nothing needed to take its time
        for number, each in speakers.items():
            _slow_down(each, setting, mean_delay_s, random.Random(f"{seed} {number}"))
    after: list[Moment] = [(0.0, withdraw)]
    if technique.reacts_after_s is not None:
        after.append((technique.reacts_after_s, announce(others, SPECIFIC, technique.prepends)))
    for time_s, number, event in drive(speakers, lambda *_: link_s, setting.watch_s, at=after):
        prefix, next_hop = event.value
        changes[number].append((time_s, prefix, next_hop))
    return changes


def _slow_down(speaker: Speaker, setting: Setting, mean_delay_s: float, stream: random.Random) -> None:
    speaker.delay_s = delay_of(setting.delay_law, mean_delay_s, stream)
    speaker.announcement_share = setting.announcement_share
    if setting.advertisement_interval_s:  # with the jitter that RFC 4271, section 10, asks for
        speaker.advertisement_interval_s = lambda: setting.advertisement_interval_s * stream.uniform(0.75, 1)


def arrivals(changes: Changes, targets: Sequence[int], times_s: np.ndarray) -> np.ndarray:
    """Find at which site the answers of targets arrive: an array (targets, times) of the sites' numbers, 0 for none.

    Each AS sends along its next hop for the longest prefix of which it has a route; where routes are missing or lead
    in a circle, the answer is lost. What is on its way takes no time here.
    """
    every = [(time_s, number, prefix, hop) for number, each in changes.items() for time_s, prefix, hop in each]
    moments = sorted(every, key=lambda moment: moment[0])  # an AS's own stay in their order
    tables: dict[str, dict[int, int]] = {SPECIFIC: {}, COVERING: {}}
    found = np.zeros((len(targets), len(times_s)), dtype=np.int64)
    place = 0
    ends: dict[int, int] = {}

    def end_of(number: int) -> int:
        way = []
        while number not in ends:
            way.append(number)
            ends[number] = 0  # until it is known: coming by again is a circle
            hop = tables[SPECIFIC].get(number, tables[COVERING].get(number))
            if hop == LOCAL:
                ends[number] = number
            elif hop is not None:
                number = hop
        for each in way:
            ends[each] = ends[number]
        return ends[number]

    for column, time_s in enumerate(times_s):
        if column and (place == len(moments) or moments[place][0] > time_s):
            found[:, column] = found[:, column - 1]
            continue
        while place < len(moments) and moments[place][0] <= time_s:
            _, number, prefix, hop = moments[place]
            if hop is None:
                tables[prefix].pop(number, None)
            else:
                tables[prefix][number] = hop
            place += 1
            ends = {}
        found[:, column] = [end_of(target) for target in targets]
    return found


# Measured.


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All failures of all repetitions under every technique.

    times : technique, repetition, site, target, reconnection_s, failover_s (watch_s where it never came).
    answers : of the first repetition's failures under CLASS_CASE, array (targets, pings): whether an answer arrived.
    mean_delay_s : the calibrated mean time of an update through an AS.
    fidelity : check, value, bound, holds.
    """

    times: pd.DataFrame
    answers: np.ndarray
    mean_delay_s: float
    setting: Setting
    fidelity: pd.DataFrame

    def of(self, technique: str) -> pd.DataFrame:
        return self.times[self.times.technique == technique]


def calibrated_delay_s(setting: Setting, seed: int, worlds: int = 30) -> float:
    """Return the mean time of an update through an AS with which anycast's median of reconnection is 10 s.

    Found on Internets of their own, from anycast alone. Times grow with the mean, but for the links' delays.
    """
    unit = replace(setting, link_delay_ms=1e-3, advertisement_interval_s=0.0)
    seeds = [seed_of(seed, 1_000_000 + number) for number in range(worlds)]
    work = [(unit, 1.0, each, site, ("anycast",)) for each in seeds for site in range(setting.sites)]
    found = pd.concat([times for times, _ in in_processes(_one_failure, work, at_a_time=setting.sites)])
    return PUBLISHED_MEDIAN_S / float(found.exact_s.median())


def measure(
    setting: Setting,
    repetitions: int,
    seed: int,
    *,
    worlds: int = 3,
    tier: str = "simulated",
    progress: Progress = iter,
) -> Runs:
    """Let every site fail, one after the other, in `worlds` Internets a repetition, under each technique.

    How fast a site is left depends on the few ASes next to it, which all targets share: single failures differ widely.
    Targets are the stubs whose traffic anycast brings to the failing site; those that a technique does not bring there
    are left out of it. On tier "virtual" every AS is a BIRD daemon with a kernel's table. Raises NetreproError there
    without BIRD or the kernel, and for what `not_by_daemons` names.
    """
    if tier == "virtual" and (why := not_by_daemons(setting)):
        raise NetreproError(why, "choose tier simulated")
    mean_delay_s = calibrated_delay_s(setting, seed)
    names = tuple(techniques(setting))
    places = [(repetition, world) for repetition in range(repetitions) for world in range(worlds)]
    seeds = {place: seed_of(seed, place[0] * worlds + place[1]) for place in places}
    if tier == "virtual":
        # Threads: they only wait for their kernels.
        worlds_of_daemons = [(setting, mean_delay_s, seeds[place], names) for place in places]
        found = list(chain(*in_parallel(_failures_of_daemons, worlds_of_daemons, progress=progress)))
    else:
        work = [(setting, mean_delay_s, seeds[place], site, names) for place in places for site in range(setting.sites)]
        found = in_processes(_one_failure, work, progress, at_a_time=setting.sites)
    labels = [(*place, site) for place in places for site in range(setting.sites)]
    tables = [
        table.assign(repetition=repetition, world=world, site=site)
        for (table, _), (repetition, world, site) in zip(found, labels, strict=True)
    ]
    times = pd.concat(tables, ignore_index=True)
    first = [answers for (_, answers), (repetition, *_) in zip(found, labels, strict=True) if repetition == 0]
    return Runs(times, np.concatenate(first), mean_delay_s, setting, _fidelity(times, setting))


def not_by_daemons(setting: Setting) -> str:
    """Name in words what BIRD daemons do not have of a setting; "" for nothing."""
    if setting.advertisement_interval_s:
        return f"advertisement_interval_s = {setting.advertisement_interval_s:g}: BIRD has no such interval"
    if setting.internet != GENERATED and (count := len(_internet_of(setting.internet).neighbours)) > MOST_DAEMONS:
        return f"{setting.internet} has {count} ASes: one machine holds {MOST_DAEMONS} daemons"
    return ""


def compare_tiers(setting: Setting, seed: int, *, progress: Progress = iter) -> tuple[pd.DataFrame, str]:
    """Measure one Internet in which every site fails under the paper's techniques, with our speakers and with BIRD
    daemons.

    Returns tier and the columns of Runs.times; and why there are no daemons, "" where there are.
    """
    works, why = try_virtual()
    if works:
        try:
            find_bird()
            why = not_by_daemons(setting)
        except NetreproError as error:
            why = error.problem
        works = not why
    mean_delay_s, world = calibrated_delay_s(setting, seed, worlds=8), seed_of(seed, 0)
    work = [(setting, mean_delay_s, world, site, PAPER) for site in range(setting.sites)]
    found = {"simulated": in_processes(_one_failure, work, progress)}
    if works:
        found["virtual"] = _failures_of_daemons(setting, mean_delay_s, world, PAPER)
    tables = [
        table.assign(tier=tier, site=site) for tier, each in found.items() for site, (table, _) in enumerate(each)
    ]
    return pd.concat(tables, ignore_index=True), "" if works else why


def tier_table(times: pd.DataFrame, interval_s: float) -> pd.DataFrame:
    """Return a row for each technique: the medians of both tiers, and the share of clients whose times differ by a ping
    at most.

    times : of `compare_tiers`, with daemons or without (NaN).
    """
    key, rows = ["technique", "site", "target"], {}
    wide = times.pivot_table(index=key, columns="tier", values=["reconnection_s", "failover_s"])
    for name in PAPER:
        own = wide.loc[name]
        row = {"clients": len(own)}
        for what in ("reconnection_s", "failover_s"):
            tiers = own[what].reindex(columns=["simulated", "virtual"])
            row |= {f"{what} {tier}": tiers[tier].median() for tier in tiers}
            apart = (tiers["simulated"] - tiers["virtual"]).abs().dropna()
            row[f"{what} same"] = (apart <= 1.01 * interval_s).mean()
        rows[name] = row
    return pd.DataFrame(rows).T


# What is seen of a failure under a technique: the site that each stub reached before (0: none), whether the pings of
# some of them were answered, and to the moment when each of them could be answered first.
Seen = tuple[np.ndarray, Callable[[Sequence[int]], np.ndarray], Callable[[Sequence[int]], np.ndarray]]


def _one_failure(
    setting: Setting, mean_delay_s: float, seed: int, site: int, names: Sequence[str]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Measure the clients' times under each technique, and whether pings were answered under CLASS_CASE (none without
    it)."""
    world, pings = make_world(setting, seed), _pings_s(setting, seed, site)

    def see(name: str) -> Seen:
        changes = fail(world, techniques(setting)[name], world.sites[site], setting, mean_delay_s, seed)
        return (
            arrivals(changes, world.clients, np.array([-0.5]))[:, 0],
            lambda targets: arrivals(changes, targets, pings) > 0,
            lambda targets: _exact_reconnection_s(changes, targets),
        )

    return _clients_times(setting, world, site, pings, names, see)


def _failures_of_daemons(
    setting: Setting, mean_delay_s: float, seed: int, names: Sequence[str]
) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Do the work of `_one_failure` for every site of one Internet whose ASes are BIRD daemons. Each AS has the same
    delays in all of them."""
    world, known = make_world(setting, seed), techniques(setting)
    wanted = list(dict.fromkeys(known[name] for name in ("anycast", *names)))  # some are the same by other names
    announced = {(SPECIFIC, 0), *((each.prefix or SPECIFIC, each.prepends) for each in known.values())}
    name_of = {each: f"announced{place}" for place, each in enumerate(sorted(announced))}
    failures = []
    for site, failed in enumerate(world.sites):
        others = [each for each in world.sites if each != failed]
        for each in wanted:
            first = [name_of[each.prefix, each.prepends]] if each.prefix else []
            later = [] if each.reacts_after_s is None else [name_of[SPECIFIC, each.prepends]]
            failures.append(
                Failure(
                    failed,
                    {failed: [name_of[SPECIFIC, 0]]} | dict.fromkeys(others, first),
                    dict.fromkeys(others, later) if later else {},
                    each.reacts_after_s or 0.0,
                    each.delays,
                    each == wanted[0],
                    _pings_s(setting, seed, site).tolist(),
                )
            )
    delays_s = {}
    for number in world.graph.neighbours:
        draw = delay_of(setting.delay_law, mean_delay_s, random.Random(f"{seed} {number}"))
        delays_s[number] = [round(draw(), 6) for _ in range(DRAWN)]
    found = run_failures(
        world.graph,
        world.sites,
        world.clients,
        CDN,
        {name: Announcement(*each) for each, name in name_of.items()},
        failures,
        delays_s,
        address=ADDRESS,
        link_delay_ms=setting.link_delay_ms,
        announcement_share=setting.announcement_share,
    )

    def see_at(site: int, name: str) -> Seen:
        each = found[site * len(wanted) + wanted.index(known[name])]

        def answered(targets: Sequence[int]) -> np.ndarray:
            seen = np.zeros((len(targets), len(_pings_s(setting, seed, site))), dtype=bool)
            for row, target in zip(seen, targets, strict=True):
                reached = np.array(each.answers[target]) > 0
                row[: len(reached)], row[len(reached) :] = reached, reached[-1]  # where the last ping went, all go
            return seen

        before = np.array([each.before[client] for client in world.clients])
        return before, answered, lambda targets: np.full(len(targets), math.nan)

    return [
        _clients_times(setting, world, site, _pings_s(setting, seed, site), names, partial(see_at, site))
        for site in range(setting.sites)
    ]


def _pings_s(setting: Setting, seed: int, site: int) -> np.ndarray:
    """Choose the times of the pings of clients. Pings do not know of the failure's moment, so their phase is random."""
    phase = np.random.default_rng([seed, site]).random()
    return (phase + np.arange(math.ceil(setting.watch_s / setting.ping_interval_s) - 1)) * setting.ping_interval_s


def _clients_times(
    setting: Setting, world: World, site: int, pings: np.ndarray, names: Sequence[str], see: Callable[[str], Seen]
) -> tuple[pd.DataFrame, np.ndarray]:
    tables, answers, near = [], np.zeros((0, len(pings)), dtype=bool), None
    for name in dict.fromkeys(("anycast", *names)):
        reached, answered_by, exact_of = see(name)
        before = reached == world.sites[site]
        near = before if near is None else near
        targets = [stub for stub, is_one in zip(world.clients, near & before, strict=True) if is_one]
        answered = answered_by(targets)
        if name == CLASS_CASE:
            answers = answered
        columns = {
            "technique": name,
            "target": targets,
            "reconnection_s": first_answer_s(answered, pings, setting.watch_s),
            "failover_s": failover_s(answered, pings, setting.watch_s),
            "share_at_site": before.mean(),
            "exact_s": exact_of(targets) if name == "anycast" else math.nan,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True), answers


def _exact_reconnection_s(changes: Changes, targets: Sequence[int]) -> np.ndarray:
    """Find the time at which an answer could first arrive, which is the moment of the change that made it possible."""
    moments = np.unique([max(time_s, 0.0) for each in changes.values() for time_s, *_ in each])
    return first_answer_s(arrivals(changes, targets, moments) > 0, moments, math.inf)


def first_answer_s(answered: np.ndarray, times_s: np.ndarray, never_s: float) -> np.ndarray:
    """Find the reconnection time, when the first answer arrived, by target; `never_s` where none did."""
    return np.where(answered.any(axis=1), times_s[answered.argmax(axis=1)], never_s)


def failover_s(answered: np.ndarray, times_s: np.ndarray, never_s: float) -> np.ndarray:
    """Find the failover time, from which on every ping was answered until the end, by target; `never_s` where the last
    was not."""
    missed = answered.shape[1] - answered[:, ::-1].argmin(axis=1)  # one beyond the last that was missed
    missed = np.where(answered.all(axis=1), 0, missed)
    return np.where(missed < len(times_s), times_s[np.minimum(missed, len(times_s) - 1)], never_s)


def consecutive_s(answered: np.ndarray, times_s: np.ndarray, count: int, never_s: float) -> np.ndarray:
    """Find the failover time as the class took it, when the first `count` answers in a row began; `never_s` where none
    did."""
    whole = np.all(np.lib.stride_tricks.sliding_window_view(answered, count, axis=1), axis=2)
    return first_answer_s(whole, times_s, never_s)


def _fidelity(times: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    anycast = times[times.technique == "anycast"]
    paper = times[times.technique.isin(PAPER)]
    back = float((paper.failover_s < setting.watch_s).mean())
    median = float(anycast.reconnection_s.median())
    low, high = 0.75 * PUBLISHED_MEDIAN_S, 1.25 * PUBLISHED_MEDIAN_S
    rows = [
        ("anycast's median of reconnection, s, at least", median, low, median >= low),
        ("anycast's median of reconnection, s, at most", median, high, median <= high),
        ("share of targets that are served again in the end", back, 0.999, back >= 0.999),
        ("targets", float(len(anycast)), 100.0, len(anycast) >= 100),
    ]
    return pd.DataFrame(rows, columns=["check", "value", "bound", "holds"])


def checks(runs: Runs, tier: str) -> pd.DataFrame:
    """Return the trust table of runs that were made on `tier`."""
    return trust_by_tier({tier: runs})


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each technique: targets, and percentiles of reconnection and failover in seconds."""
    rows = {}
    for name in techniques(runs.setting):
        each = runs.of(name)
        rows[name] = {"targets": len(each)} | {
            f"{what} p{percent}": float(each[f"{what}_s"].quantile(percent / 100))
            for what in ("reconnection", "failover")
            for percent in (5, 10, 50, 90)
        }
    return pd.DataFrame(rows).T


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim of data/cdn_routing/claims.yaml."""

    def quantiles(technique: str, what: str, share: float = 0.5) -> np.ndarray:
        return runs.of(technique).groupby("repetition")[f"{what}_s"].quantile(share).to_numpy()

    reactive, prepending, superprefix = PAPER[1:]
    quick, quick_prepending = f"{reactive}, no delays", f"{prepending}, no delays"
    failover = {name: quantiles(name, "failover") for name in techniques(runs.setting)}
    values: dict[str, tuple[Any, Any]] = {
        "reactive-reconnection": (quantiles(reactive, "reconnection"), quantiles(quick, "reconnection")),
        "prepending-reconnection": (quantiles(prepending, "reconnection"), quantiles(quick_prepending, "reconnection")),
        "reactive-failover": (
            failover[reactive] / failover["anycast"],
            failover[f"{reactive}, a minute late"] / failover["anycast"],
        ),
        "prepending-failover": (
            failover[prepending] - failover[reactive],
            failover["no prepends"] - failover[reactive],
        ),
        "slower-than-its-reconnection": (
            failover[prepending] - quantiles(prepending, "reconnection"),
            failover[quick_prepending] - quantiles(quick_prepending, "reconnection"),
        ),
        "longest-with-superprefix": (
            rankings({name: failover[name] for name in ("anycast", prepending, superprefix)}),
            None,
        ),
        "early-reconnection": (
            rankings({name: quantiles(name, "reconnection", 0.1) for name in (prepending, reactive)}),
            rankings(
                {
                    prepending: quantiles("prepending after the failure", "reconnection", 0.1),
                    reactive: quantiles(reactive, "reconnection", 0.1),
                }
            ),
        ),
        "late-reconnection": (
            rankings({name: quantiles(name, "reconnection", 0.9) for name in (reactive, prepending)}),
            rankings(
                {
                    reactive: quantiles(reactive, "reconnection", 0.9),
                    prepending: quantiles("no prepends", "reconnection", 0.9),
                }
            ),
        ),
        "reactive-begins": (quantiles(reactive, "reconnection", 0.05), quantiles(quick, "reconnection", 0.05)),
    }
    return [
        Measured(claim=claim, values=ours, control=broken, **runs.trust) for claim, (ours, broken) in values.items()
    ]


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    median = runs.times.groupby("technique")[["reconnection_s", "failover_s"]].median()
    said = [f"{name} {median.failover_s[name]:.0f} s" for name in PAPER]
    return (
        f"Half of the clients are served steadily again after: {', '.join(said)}; calibrated to anycast's reconnection "
        f"alone ({median.reconnection_s['anycast']:.0f} s)."
    )


# Knobs.


def vary_prepends(
    setting: Setting,
    seed: int,
    *,
    prepends: Sequence[int] = (0, 1, 2, 3, 5),
    worlds: int = 2,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Measure proactive prepending with more and fewer prepends: what is lost and what is gained.

    Returns prepends, share_at_site (of all clients, if the site is to serve everybody), reconnection_s and failover_s
    (medians).
    """
    mean_delay_s = calibrated_delay_s(setting, seed, worlds=8)
    name, seeds = "proactive-prepending", [seed_of(seed, number) for number in range(worlds)]
    work = [
        (replace(setting, prepends=count), mean_delay_s, each, site, (name,))
        for count in prepends
        for each in seeds
        for site in range(setting.sites)
    ]
    found = in_processes(_one_failure, work, progress, at_a_time=setting.sites)
    rows = [
        times[times.technique == name].assign(prepends=changed.prepends)
        for (changed, *_), (times, _) in zip(work, found, strict=True)
    ]
    grouped = pd.concat(rows).groupby("prepends")
    medians = grouped[["reconnection_s", "failover_s"]].median()
    return medians.assign(share_at_site=grouped.share_at_site.mean()).reset_index()


FASTER_ANNOUNCEMENTS = {"4 times": 1 / 4, "8 times": 1 / 8}


def vary_delays(setting: Setting, seed: int, *, worlds: int = 4, progress: Progress = iter) -> pd.DataFrame:
    """Measure the techniques under other laws of delay, with announcements that are faster than withdrawals, and with
    an advertisement interval of 30 s; each calibrated anew.

    Returns delays, technique, reconnection_s, failover_s (medians), and everywhere_s: the median over worlds and sites
    of when a new announcement has reached every AS, as the beacons of RIS have it.
    """
    laws = {law: replace(setting, delay_law=law) for law in DELAY_LAWS}
    for words, share in FASTER_ANNOUNCEMENTS.items():
        laws[f"{setting.delay_law}, announcements {words} as fast"] = replace(setting, announcement_share=share)
    laws[f"{setting.delay_law}, 30 s between announcements"] = replace(setting, advertisement_interval_s=30.0)
    work, names, everywhere = [], [], {}
    for name, changed in laws.items():
        mean_delay_s = calibrated_delay_s(changed, seed, worlds=8)
        beacons = [(changed, mean_delay_s, seed_of(seed, number)) for number in range(worlds)]
        everywhere[name] = float(np.median(in_processes(_beacons_s, beacons)))
        for number in range(worlds):
            for site in range(setting.sites):
                work.append((changed, mean_delay_s, seed_of(seed, number), site, PAPER))
                names.append(name)
    found = in_processes(_one_failure, work, progress, at_a_time=setting.sites)
    times = pd.concat([table.assign(delays=name) for name, (table, _) in zip(names, found, strict=True)])
    medians = times.groupby(["delays", "technique"], sort=False)[["reconnection_s", "failover_s"]].median()
    return medians.reset_index().assign(everywhere_s=lambda table: table.delays.map(everywhere))


def _beacons_s(setting: Setting, mean_delay_s: float, seed: int) -> list[float]:
    """Measure the time until a new prefix has reached every AS of a world, for each site that announces it."""
    world, found = make_world(setting, seed), []
    for site in world.sites:
        speakers = {number: Speaker(number, near) for number, near in world.graph.neighbours.items()}
        for number, each in speakers.items():
            _slow_down(each, setting, mean_delay_s, random.Random(f"{seed} {number} beacon"))
        told = partial(_originated, speakers[site])
        heard: dict[int, float] = {}
        for time_s, number, _ in drive(speakers, lambda *_: setting.link_delay_ms * 1e-3, math.inf, at=[(0.0, told)]):
            heard.setdefault(number, time_s)
        found.append(max(heard.values()))
    return found


def _originated(speaker: Speaker, now_s: float) -> list[tuple[int, Output]]:
    return [(speaker.number, each) for each in speaker.originate(now_s, SPECIFIC)]


def vary_definition(
    runs: Runs,
    seed: int,
    *,
    losses: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    counts: Sequence[int] = (1, 3, 5, 10),
) -> pd.DataFrame:
    """Measure the median failover of CLASS_CASE when it begins with so many answers in a row and some answers get lost.

    Returns loss (share of answers), count, failover_s. The class took ten in a row.
    """
    answers, interval_s, watch_s = runs.answers, runs.setting.ping_interval_s, runs.setting.watch_s
    pings = np.arange(answers.shape[1]) * interval_s
    stream = np.random.default_rng(seed)
    rows = []
    for loss in losses:
        heard = answers & (stream.random(answers.shape) >= loss)
        for count in counts:
            rows.append((loss, count, float(np.median(consecutive_s(heard, pings, count, watch_s)))))
    return pd.DataFrame(rows, columns=["loss", "count", "failover_s"])


def unicast_failover_s(count: int, seed: int, *, time_to_live_s: float = 60.0) -> np.ndarray:
    """Sample the times at which `count` clients of a unicast site have asked DNS again, in seconds after the failure.

    A model without any routing: records expire evenly within their time to live; 13 % of clients go on with an expired
    one, half of these for 56 s or more (exponential; figures of the first author's later proposal).
    """
    stream = np.random.default_rng(seed)
    expires = stream.random(count) * time_to_live_s
    stays = stream.random(count) < 0.13
    return expires + stays * stream.exponential(56 / math.log(2), count)


# Figures.

LOOKS = dict(zip(PAPER, CURVES, strict=False))


def draw_idea() -> Figure:
    """Draw a table of what the specific site and the others announce, before and after the failure (Fig. 1)."""
    figure, axis = new_figure("Who announces what (Fig. 1)", "", "")
    axis.axis("off")
    said = {
        "unicast": ("specific prefix", "nothing", "nothing; DNS moves clients"),
        "anycast": ("specific prefix", "specific prefix", "the same"),
        "reactive-anycast": ("specific prefix", "nothing", "specific prefix, from now on"),
        "proactive-prepending": ("specific prefix", "specific prefix,\nlonger path", "the same"),
        "proactive-superprefix": ("specific prefix", "covering prefix", "the same"),
    }
    heads = ("technique", "specific site", "other sites, before", "other sites, after its failure")
    cells = [[name, *row] for name, row in said.items()]
    table = axis.table(cells, colLabels=heads, loc="center", cellLoc="left", colWidths=[0.24, 0.19, 0.24, 0.33])
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 2.4)
    for (row, column), cell in table.get_celld().items():
        cell.set_edgecolor("#dddddd")
        if row == 0 or column == 0:
            cell.set_text_props(weight="bold")
        if row > 0 and column == 0 and cells[row - 1][0] in LOOKS:
            cell.set_text_props(weight="bold", color=LOOKS[cells[row - 1][0]])
    return figure


def draw_network(setting: Setting, seed: int) -> Figure:
    """Draw the Internet by level, and the sites' links into it."""
    world = make_world(setting, seed_of(seed, 0))
    stubs = set(world.clients)
    levels: dict[int, list[int]] = {}
    for number, near in world.graph.neighbours.items():
        is_top = Relation.PROVIDER not in near.values()
        level = 0 if number in world.sites else 1 if number in stubs else 3 if is_top else 2
        levels.setdefault(level, []).append(number)
    place = {
        number: ((index + 0.5) / len(numbers), level)
        for level, numbers in levels.items()
        for index, number in enumerate(numbers)
    }
    figure, axis = new_figure("One of the Internets, and the CDN's sites", "", "")
    for a, b, relation in world.graph.links:
        is_site = a >= FIRST_SITE
        colour = CURVES[6] if is_site else PUBLISHED_GREY if relation == Relation.PROVIDER else CURVES[0]
        look = {"linewidth": 1.6 if is_site else 0.3, "alpha": 0.9 if is_site else 0.4}
        axis.plot(*zip(place[a], place[b], strict=True), color=colour, zorder=2 if is_site else 1, **look)
    names = {3: "top", 2: "transit", 1: "stubs (clients)", 0: "sites of the CDN"}
    for level, numbers in levels.items():
        xs = [place[number][0] for number in numbers]
        axis.plot(
            xs, [level] * len(xs), "s" if level == 0 else "o", color="black", markersize=7 if level in (0, 3) else 2
        )
    axis.set_yticks(list(names), [f"{names[level]}: {len(levels[level])}" for level in names])
    axis.set_xticks([])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.plot([], [], color=CURVES[0], label="peers")
    axis.plot([], [], color=PUBLISHED_GREY, label="provider and customer")
    axis.plot([], [], color=CURVES[6], label="a site's providers")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def draw_times(runs: Runs, time_to_live_s: float = 60.0) -> Figure:
    """Draw the distribution of reconnection and failover by technique (Fig. 2), with what was published of it in
    words."""
    figure, _ = new_figure(
        "After a site has failed (Fig. 2)", "seconds after the failure", "share of clients", columns=2
    )
    published = {
        "reconnection": [(10.0, "published medians: 10 s")],
        "failover": [(10.0, "published: anycast, reactive: 10 s"), (15.0, "published: prepending: 5 s later")],
    }
    for axis, (what, points) in zip(figure.axes, published.items(), strict=True):
        for name in PAPER:
            values = np.sort(runs.of(name)[f"{what}_s"])
            axis.step(values, np.arange(1, len(values) + 1) / len(values), color=LOOKS[name], label=name, where="post")
        if what == "failover":
            values = np.sort(unicast_failover_s(2000, 0, time_to_live_s=time_to_live_s))
            share = np.arange(1, len(values) + 1) / len(values)
            axis.plot(values, share, color=CURVES[4], linestyle=":", label="unicast (a model of DNS)")
        for (time_s, words), marker in zip(points, "Dv", strict=False):
            axis.plot(time_s, 0.5, marker, color=PUBLISHED_GREY, markersize=8, label=words, linestyle="none")
        axis.set(xlim=(0, 120), ylim=(0, 1.02), title=what)
        axis.legend(fontsize=8, loc="lower right")
    return figure


def draw_tiers(times: pd.DataFrame, why: str = "") -> Figure:
    """Draw reconnection and failover with BIRD daemons beside our speakers. why : the reason where there are no
    daemons."""
    figure, _ = new_figure(
        f"One Internet, routed twice{f' (not by BIRD: {why[:60]})' if why else ''}",
        "seconds after the failure",
        "share of clients",
        columns=2,
    )
    looks: dict[str, dict[str, Any]] = {"simulated": {"linewidth": 5, "alpha": 0.35}, "virtual": {"linewidth": 1.4}}
    for axis, what in zip(figure.axes, ("reconnection", "failover"), strict=True):
        for name in PAPER:
            for tier, look in looks.items():
                values = np.sort(times[(times.technique == name) & (times.tier == tier)][f"{what}_s"])
                share = np.arange(1, len(values) + 1) / max(len(values), 1)
                axis.step(values, share, color=LOOKS[name], where="post", **look)
        axis.set(title=what, ylim=(0, 1.02))
        axis.set_xlim(left=0)
    lines = [figure.axes[0].plot([], [], color=LOOKS[name], label=name)[0] for name in PAPER]
    names = {"simulated": "our speakers", "virtual": "BIRD"}
    lines += [figure.axes[0].plot([], [], color="black", label=names[tier], **look)[0] for tier, look in looks.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the techniques with their mechanism taken away."""
    figure, axis = new_figure(
        "Broken on purpose", "failover, seconds after the failure", "share of clients", log_x=True
    )
    broken = {
        "reactive-anycast": ("reactive-anycast, no delays", "reactive-anycast, a minute late"),
        "proactive-prepending": ("proactive-prepending, no delays", "prepending after the failure", "no prepends"),
    }
    for name, others in broken.items():
        for style, each in zip(("-", "--", ":", "-."), (name, *others), strict=False):
            values = np.sort(runs.of(each).failover_s)
            share = np.arange(1, len(values) + 1) / len(values)
            axis.step(values, share, color=LOOKS[name], linestyle=style, label=each, where="post", linewidth=1.5)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def draw_prepends(table: pd.DataFrame) -> Figure:
    """Draw the costs and the benefits of more prepends."""
    figure, _ = new_figure("How many prepends?", "prepends", "", columns=2)
    left, right = figure.axes
    left.plot(table.prepends, table.share_at_site, "o-", color=LOOKS["proactive-prepending"])
    left.set(ylabel="share of all clients that go to the site", ylim=(0, 1.05))
    right.plot(table.prepends, table.reconnection_s, "o--", color=LOOKS["proactive-prepending"], label="reconnection")
    right.plot(table.prepends, table.failover_s, "o-", color=LOOKS["proactive-prepending"], label="failover")
    right.set(ylabel="median (s)")
    right.set_ylim(bottom=0)
    right.legend()
    return figure


def draw_delays(table: pd.DataFrame) -> Figure:
    """Draw the medians of the techniques by the law of delays."""
    figure, axis = new_figure("Does it matter how delays are distributed?", "median failover (s)", "")
    laws = list(dict.fromkeys(table.delays))
    for name in PAPER:
        rows = table[table.technique == name].set_index("delays").loc[laws]
        axis.plot(rows.failover_s, range(len(laws)), "o", color=LOOKS[name], label=name, markersize=8)
    axis.plot([10, 15], [-0.35, -0.35], "D", color=PUBLISHED_GREY, label="published: 10 s, prepending 5 s later")
    axis.set_yticks(range(len(laws)), [law.replace(", ", ",\n") for law in laws])
    axis.set_ylim(-0.6, len(laws) - 0.5)
    axis.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def draw_definition(table: pd.DataFrame) -> Figure:
    """Draw failover over the share of lost answers, a curve for each number of answers in a row; the class's in
    grey."""
    figure, axis = new_figure("What the class measured", "share of answers that are lost", "median failover (s)")
    for colour, (count, rows) in zip(CURVES, table.groupby("count"), strict=False):
        axis.plot(rows.loss, rows.failover_s, "o-", color=colour, label=f"{count} in a row")
    axis.axhline(600.48, color=PUBLISHED_GREY, linestyle="--", label="class report: 600.48 s")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=9)
    return figure


def explore(seed: int = 1) -> object:
    """Show sliders for prepends and the law of delays; four failures are run again at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "prepends": widgets.IntSlider(3, min=0, max=6, description="prepends"),
        "law": widgets.Dropdown(options=DELAY_LAWS, description="delays"),
        "mean_s": widgets.FloatSlider(7.0, min=0.5, max=20, step=0.5, description="mean (s)"),
    }

    def redraw(prepends: int, law: str, mean_s: float) -> None:
        setting = replace(PRINTED, prepends=prepends, delay_law=law)
        work = [(setting, mean_s, seed_of(seed, number), 0, PAPER) for number in range(4)]
        times = pd.concat([_one_failure(*each)[0] for each in work], ignore_index=True)
        display(draw_times(Runs(times, np.empty((0, 0)), mean_s, setting, pd.DataFrame())))

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
