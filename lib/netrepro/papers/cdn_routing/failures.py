"""A site fails: how routes change, in speakers of ours or in BIRD daemons, and what clients see of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import numpy as np
import pandas as pd

from netrepro.applications.bgp.run import Announcement, Failure, find_bird, run_failures
from netrepro.errors import NetreproError
from netrepro.papers.cdn_routing.setting import (
    ANYCAST,
    CDN,
    COVERING,
    GENERATED,
    REACTIVE,
    SPECIFIC,
    Setting,
    Technique,
    World,
    internet_of,
    make_world,
    techniques,
)
from netrepro.protocols import drive
from netrepro.protocols.bgp import LOCAL, Speaker
from netrepro.protocols.machine import Event, Output

CLASS_CASE = REACTIVE  # whose pings are judged as the class judged them
ADDRESS = "184.164.244.1"  # that answers to pings are sent to
DRAWN = 500  # delays of each AS of daemons
MOST_DAEMONS = 200  # that one kernel's memory holds


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


def converge(world: World, technique: Technique, failed: int, setting: Setting) -> dict[int, Speaker]:
    """Return the speakers once BGP has converged on what the sites announce before site `failed` fails."""
    speakers = {
        number: Speaker(number, neighbours, as_number=CDN if number in world.sites else None)
        for number, neighbours in world.graph.neighbours.items()
    }
    at = [(0.0, _announce(speakers, [failed], SPECIFIC, 0))]
    if technique.prefix:
        others = [site for site in world.sites if site != failed]
        at.append((0.0, _announce(speakers, others, technique.prefix, technique.prepends)))
    drive(speakers, lambda *_: setting.link_delay_ms * 1e-3, math.inf, at=at)
    return speakers


def fail(
    world: World,
    technique: Technique,
    failed: int,
    setting: Setting,
    mean_delay_s: float,
    seed: int,
    converged: Mapping[int, Speaker] | None = None,
) -> Changes:
    """Compute the changes of every AS's routes when site `failed` fails; those at time -1 are the routes before.

    converged : from `converge`, which is asked where there are none; they are left as they are. The site withdraws its
    prefix, as if it were switched off cleanly.
    """
    converged = converged or converge(world, technique, failed, setting)
    speakers = {number: each.settled() for number, each in converged.items()}

    def withdraw(now_s: float) -> list[tuple[int, Output]]:
        return [(failed, each) for each in speakers[failed].withdraw(now_s, SPECIFIC)]

    changes: Changes = {
        number: [(-1.0, prefix, route.next_hop) for prefix, route in each.routes.items()]
        for number, each in speakers.items()
    }
    if technique.delays:  # before the failure nothing needed to take its time
        for number, each in speakers.items():
            slow_down(each, setting, mean_delay_s, random.Random(f"{seed} {number}"))
    after: list[Moment] = [(0.0, withdraw)]
    if technique.reacts_after_s is not None:
        others = [site for site in world.sites if site != failed]
        after.append((technique.reacts_after_s, _announce(speakers, others, SPECIFIC, technique.prepends)))
    for time_s, number, event in drive(speakers, lambda *_: setting.link_delay_ms * 1e-3, setting.watch_s, at=after):
        prefix, next_hop = event.value
        changes[number].append((time_s, prefix, next_hop))
    return changes


def _announce(
    speakers: Mapping[int, Speaker], sites: Sequence[int], prefix: str, prepends: int
) -> Callable[[float], list[tuple[int, Output]]]:
    return lambda now_s: [(site, each) for site in sites for each in speakers[site].originate(now_s, prefix, prepends)]


def slow_down(speaker: Speaker, setting: Setting, mean_delay_s: float, stream: random.Random) -> None:
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


def not_by_daemons(setting: Setting) -> str:
    """Name in words what BIRD daemons do not have of a setting, or that there are none; "" for nothing."""
    if setting.advertisement_interval_s:
        return f"advertisement_interval_s = {setting.advertisement_interval_s:g}: BIRD has no such interval"
    if setting.internet != GENERATED and (count := len(internet_of(setting.internet).neighbours)) > MOST_DAEMONS:
        return f"{setting.internet} has {count} ASes: one machine holds {MOST_DAEMONS} daemons"
    try:
        find_bird()
    except NetreproError as error:
        return error.problem
    return ""


# What is seen of a failure under a technique: the site that each stub reached before (0: none), whether the pings of
# some of them were answered, and to the moment when each of them could be answered first.
Seen = tuple[np.ndarray, Callable[[Sequence[int]], np.ndarray], Callable[[Sequence[int]], np.ndarray]]


def one_failure(
    setting: Setting, mean_delay_s: float, seed: int, site: int, names: Sequence[str]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Measure the clients' times under each technique, and whether pings were answered under CLASS_CASE (none without
    it)."""
    world, pings = make_world(setting, seed), _pings_s(setting, seed, site)
    known, failed = techniques(setting), world.sites[site]
    converged: dict[tuple[str, int], dict[int, Speaker]] = {}

    @cache  # some techniques are the same by other names
    def changes_of(technique: Technique) -> Changes:
        announced = technique.prefix, technique.prepends if technique.prefix else 0
        if announced not in converged:
            converged[announced] = converge(world, technique, failed, setting)
        return fail(world, technique, failed, setting, mean_delay_s, seed, converged[announced])

    def see(name: str) -> Seen:
        changes = changes_of(known[name])
        return (
            arrivals(changes, world.clients, np.array([-0.5]))[:, 0],
            lambda targets: arrivals(changes, targets, pings) > 0,
            lambda targets: _exact_reconnection_s(changes, targets),
        )

    return _clients_times(setting, world, site, pings, names, see)


def failures_of_daemons(
    setting: Setting, mean_delay_s: float, seed: int, names: Sequence[str]
) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Do the work of `one_failure` for every site of one Internet whose ASes are BIRD daemons. Each AS has the same
    delays in all of them."""
    world, known = make_world(setting, seed), techniques(setting)
    wanted = list(dict.fromkeys(known[name] for name in (ANYCAST, *names)))  # some are the same by other names
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
    for name in dict.fromkeys((ANYCAST, *names)):
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
            "exact_s": exact_of(targets) if name == ANYCAST else math.nan,
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


Beacon = tuple[float, float, float]  # times in s; see `beacons_of`


def beacons_of(setting: Setting, mean_delay_s: float, seed: int) -> list[Beacon]:
    """Announce and withdraw a new prefix at each site of a world, as a beacon, and watch all ASes that have customers.

    Returns for each site when half of the watched have a route, when all have, and when less than a tenth is left with
    one after the withdrawal.
    """
    world, found = make_world(setting, seed), []
    watched = set(world.graph.neighbours) - set(world.graph.stubs) - set(world.sites)
    for site in world.sites:
        speakers = {number: Speaker(number, near) for number, near in world.graph.neighbours.items()}
        came: dict[int, float] = {}
        for time_s, number, _ in _told(speakers, partial(_originated, speakers[site]), setting, mean_delay_s, seed):
            came.setdefault(number, time_s)
        speakers = {number: each.settled() for number, each in speakers.items()}
        went: dict[int, float] = {}
        for time_s, number, event in _told(speakers, partial(_withdrawn, speakers[site]), setting, mean_delay_s, seed):
            if event.value[1] is None:
                went[number] = time_s  # the last time: others may have told it of a route once more
        coming, going = (np.sort([times[number] for number in watched]) for times in (came, went))
        half, nine_tenths = math.ceil(0.5 * len(watched)), math.floor(0.9 * len(watched))
        found.append((float(coming[half - 1]), float(coming[-1]), float(going[nine_tenths])))
    return found


def _told(
    speakers: Mapping[int, Speaker],
    told: Callable[[float], list[tuple[int, Output]]],
    setting: Setting,
    mean_delay_s: float,
    seed: int,
) -> list[tuple[float, int, Event]]:
    for number, each in speakers.items():
        slow_down(each, setting, mean_delay_s, random.Random(f"{seed} {number} beacon"))
    return drive(speakers, lambda *_: setting.link_delay_ms * 1e-3, math.inf, at=[(0.0, told)])


def _originated(speaker: Speaker, now_s: float) -> list[tuple[int, Output]]:
    return [(speaker.number, each) for each in speaker.originate(now_s, SPECIFIC)]


def _withdrawn(speaker: Speaker, now_s: float) -> list[tuple[int, Output]]:
    return [(speaker.number, each) for each in speaker.withdraw(now_s, SPECIFIC)]
