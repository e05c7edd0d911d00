"""The failure of a site: how routes change, with our BGP speakers or with BIRD daemons, and what clients see."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
import pandas as pd

from netrepro.applications.bgp.run import Announcement, Failure, find_bird, run_failures
from netrepro.errors import NetreproError
from netrepro.papers.cdn_routing.setting import (
    ANYCAST,
    CDN,
    GENERATED,
    PREFIXES,
    REACTIVE,
    SPECIFIC,
    Setting,
    Technique,
    World,
    internet_of,
    make_world,
    techniques,
)
from netrepro.processes import in_processes
from netrepro.protocols import drive
from netrepro.protocols.bgp import Changes, Speaker, arrivals
from netrepro.protocols.machine import Event, Output
from netrepro.study import VIRTUAL, seed_of

CLASS_CASE = REACTIVE  # the case whose pings are also judged by the class's definition
ADDRESS = "184.164.244.1"  # the destination of clients' answers to pings
DRAWN = 500  # number of delays drawn for each AS run by a daemon
MOST_DAEMONS = 200  # the most that fit in one kernel's memory
BEFORE_S = np.array([-0.5])  # a moment before the failure


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Stop Python from looking for cycles of references: updates are many objects and make none, and the searches took
    a fifth of the processor time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Act = Callable[[float], list[tuple[int, Output]]]  # what speakers do at a time (s)


def delay_of(law: str, mean_s: float, random_stream: random.Random) -> Callable[[], float]:
    """Make a function that draws the time (s) that an update takes through an AS. Every law has the mean `mean_s`."""
    sigma = 1.2
    draws: dict[str, Callable[[], float]] = {
        "exponential": lambda: random_stream.expovariate(1 / mean_s),
        "lognormal": lambda: random_stream.lognormvariate(math.log(mean_s) - sigma**2 / 2, sigma),
        "constant": lambda: mean_s,
    }
    return draws[law]


def slow_down(speakers: Mapping[int, Speaker], setting: Setting, mean_delay_s: float, streams: str) -> None:
    """Set each speaker's delays. Each has a random stream of its own, named by `streams` and the speaker's number."""
    for number, speaker in speakers.items():
        stream = random.Random(streams.format(number))
        speaker.delay_s = delay_of(setting.delay_law, mean_delay_s, stream)
        speaker.announcement_share = setting.announcement_share
        if setting.advertisement_interval_s:  # with the jitter of RFC 4271, section 10
            speaker.advertisement_interval_s = lambda own=stream: (
                setting.advertisement_interval_s * own.uniform(0.75, 1)
            )


def _announce(speakers: Mapping[int, Speaker], sites: Sequence[int], prefix: str, prepends: int = 0) -> Act:
    return lambda now_s: [(site, each) for site in sites for each in speakers[site].originate(now_s, prefix, prepends)]


def _withdraw(speakers: Mapping[int, Speaker], site: int) -> Act:
    return lambda now_s: [(site, each) for each in speakers[site].withdraw(now_s, SPECIFIC)]


def converge(world: World, failed: int, setting: Setting, prefix: str, prepends: int) -> dict[int, Speaker]:
    """Return the speakers once BGP has converged. Site `failed` announces the specific prefix, the other sites announce
    `prefix`; "" for none."""
    speakers = {
        number: Speaker(number, neighbours, as_number=CDN if number in world.sites else None)
        for number, neighbours in world.graph.neighbours.items()
    }
    at = [(0.0, _announce(speakers, [failed], SPECIFIC))]
    if prefix:
        at.append((0.0, _announce(speakers, world.others(failed), prefix, prepends)))
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
    """Compute the route changes of every AS when site `failed` fails. Entries at time -1, or a second before a
    technique that acts before the failure does, are the routes before it.

    The site withdraws its prefix, as if it were switched off cleanly. converged : speakers from `converge`, which are
    not changed; None to compute them here.
    """
    converged = converged or converge(world, failed, setting, technique.prefix, technique.prepends)
    speakers = {number: each.settled() for number, each in converged.items()}
    early_s = max(0.0, -(technique.reacts_after_s or 0.0))  # from the first announcement to the failure
    changes: Changes = {
        number: [(-1.0 - early_s, prefix, route.next_hop) for prefix, route in each.routes.items()]
        for number, each in speakers.items()
    }
    if technique.delays:  # set only now: convergence before the failure needs no delays
        slow_down(speakers, setting, mean_delay_s, f"{seed} {{}}")
    after = [(early_s, _withdraw(speakers, failed))]
    if technique.reacts_after_s is not None:
        reaction = _announce(speakers, world.others(failed), SPECIFIC, technique.prepends)
        after.append((early_s + technique.reacts_after_s, reaction))
    for time_s, number, event in drive(
        speakers, lambda *_: setting.link_delay_ms * 1e-3, early_s + setting.watch_s, at=after
    ):
        prefix, next_hop = event.value
        changes[number].append((time_s - early_s, prefix, next_hop))
    return changes


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting, as BIRD daemons lack some features; "" where it can."""
    if tier != VIRTUAL:
        return ""
    if setting.advertisement_interval_s:
        return f"advertisement_interval_s = {setting.advertisement_interval_s:g}: BIRD has no such interval"
    if setting.reaction_s < 0:
        return f"reaction_s = {setting.reaction_s:g}: daemons announce with the failure or after it"
    if setting.internet != GENERATED and (count := len(internet_of(setting.internet).neighbours)) > MOST_DAEMONS:
        return f"{setting.internet} has {count} ASes: one machine holds {MOST_DAEMONS} daemons"
    try:
        find_bird()
    except NetreproError as error:
        return error.problem
    return ""


# A failure under a technique, as clients see it: the site that each stub reached before (0 for none), and a function
# that tells for given stubs which pings were answered.
Seen = tuple[np.ndarray, Callable[[Sequence[int]], np.ndarray]]


@_no_search_for_cycles()
def one_failure(
    setting: Setting, mean_delay_s: float, seed: int, site: int, names: Sequence[str]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Measure the clients' times under each technique, and which pings were answered under CLASS_CASE (an empty array
    where that is not among them)."""
    world, pings = make_world(setting, seed), pings_s(setting, seed, site)
    known, failed = techniques(setting), world.sites[site]
    converged = cache(partial(converge, world, failed, setting))

    @cache  # some techniques are equal under different names
    def changes_of(technique: Technique) -> Changes:
        before = converged(technique.prefix, technique.prepends if technique.prefix else 0)
        return fail(world, technique, failed, setting, mean_delay_s, seed, before)

    def see(name: str) -> Seen:
        changes = changes_of(known[name])
        before = arrivals(changes, PREFIXES, world.clients, BEFORE_S)[:, 0]
        return before, lambda targets: arrivals(changes, PREFIXES, targets, pings) > 0

    return _clients_times(setting, world, site, pings, names, see)


def failures_of_daemons(
    setting: Setting, mean_delay_s: float, seed: int, names: Sequence[str]
) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Do the work of `one_failure` for every site of one Internet whose ASes are BIRD daemons. An AS has the same
    delays in all failures."""
    world, known = make_world(setting, seed), techniques(setting)
    wanted = list(dict.fromkeys(known[name] for name in (ANYCAST, *names)))  # some are equal under different names
    announced = {(SPECIFIC, 0), *((each.prefix or SPECIFIC, each.prepends) for each in known.values())}
    name_of = {each: f"announced{place}" for place, each in enumerate(sorted(announced))}
    pings = [pings_s(setting, seed, site) for site in range(setting.sites)]

    def failure(site: int, technique: Technique) -> Failure:
        failed, others = world.sites[site], world.others(world.sites[site])
        first = [name_of[technique.prefix, technique.prepends]] if technique.prefix else []
        before = {failed: [name_of[SPECIFIC, 0]]} | dict.fromkeys(others, first)
        reacts_after_s, is_first = technique.reacts_after_s, technique == wanted[0]
        later = [] if reacts_after_s is None else [name_of[SPECIFIC, technique.prepends]]
        after = dict.fromkeys(others, later) if later else {}
        return Failure(failed, before, after, reacts_after_s or 0.0, technique.delays, is_first, pings[site].tolist())

    delays_s = {}
    for number in world.graph.neighbours:
        draw = delay_of(setting.delay_law, mean_delay_s, random.Random(f"{seed} {number}"))
        delays_s[number] = [round(draw(), 6) for _ in range(DRAWN)]
    places = [(site, technique) for site in range(setting.sites) for technique in wanted]
    outcomes = run_failures(
        world.graph,
        world.sites,
        world.clients,
        CDN,
        {name: Announcement(*each) for each, name in name_of.items()},
        [failure(*place) for place in places],
        delays_s,
        address=ADDRESS,
        link_delay_ms=setting.link_delay_ms,
        announcement_share=setting.announcement_share,
    )
    outcome_at = dict(zip(places, outcomes, strict=True))

    def see_at(site: int, name: str) -> Seen:
        outcome = outcome_at[site, known[name]]

        def answered(targets: Sequence[int]) -> np.ndarray:
            seen = np.zeros((len(targets), len(pings[site])), dtype=bool)
            for row, target in zip(seen, targets, strict=True):
                reached = np.array(outcome.answers[target]) > 0
                row[: len(reached)], row[len(reached) :] = reached, reached[-1]  # later pings go as the last one
            return seen

        return np.array([outcome.before[client] for client in world.clients]), answered

    return [_clients_times(setting, world, site, own, names, partial(see_at, site)) for site, own in enumerate(pings)]


def pings_s(setting: Setting, seed: int, site: int) -> np.ndarray:
    """Choose the times of the clients' pings (s). They do not depend on the failure, so their phase is random."""
    phase = np.random.default_rng([seed, site]).random()
    return (phase + np.arange(math.ceil(setting.watch_s / setting.ping_interval_s) - 1)) * setting.ping_interval_s


def _clients_times(
    setting: Setting, world: World, site: int, pings: np.ndarray, names: Sequence[str], see: Callable[[str], Seen]
) -> tuple[pd.DataFrame, np.ndarray]:
    tables, answers = [], np.zeros((0, len(pings)), dtype=bool)
    near = see(ANYCAST)[0] == world.sites[site]
    for name in dict.fromkeys((ANYCAST, *names)):
        reached, answered_by = see(name)
        at_site = reached == world.sites[site]
        targets = np.array(world.clients)[near & at_site].tolist()
        answered = answered_by(targets)
        if name == CLASS_CASE:
            answers = answered
        columns = {
            "technique": name,
            "target": targets,
            "reconnection_s": first_answer_s(answered, pings, setting.watch_s),
            "failover_s": failover_s(answered, pings, setting.watch_s),
            "share_at_site": at_site.mean(),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True), answers


@_no_search_for_cycles()
def exact_reconnection_s(setting: Setting, seed: int, site: int) -> np.ndarray:
    """Compute for each client when an answer could first arrive at another site, with anycast and delays of 1 s on
    average. It is the moment of the route change that made this possible."""
    world = make_world(setting, seed)
    changes = fail(world, techniques(setting)[ANYCAST], world.sites[site], setting, 1.0, seed)
    near = arrivals(changes, PREFIXES, world.clients, BEFORE_S)[:, 0] == world.sites[site]
    moments = np.unique([max(time_s, 0.0) for each in changes.values() for time_s, *_ in each])
    answered = arrivals(changes, PREFIXES, np.array(world.clients)[near].tolist(), moments) > 0
    return first_answer_s(answered, moments, math.inf)


def first_answer_s(answered: np.ndarray, times_s: np.ndarray, never_s: float) -> np.ndarray:
    """Find each target's reconnection time, the time of the first answer (s); `never_s` where there was none."""
    return np.where(answered.any(axis=1), times_s[answered.argmax(axis=1)], never_s)


def failover_s(answered: np.ndarray, times_s: np.ndarray, never_s: float) -> np.ndarray:
    """Find each target's failover time (s), from which every ping was answered until the end; `never_s` where the last
    ping was not answered."""
    missed = answered.shape[1] - answered[:, ::-1].argmin(axis=1)  # one beyond the last missed
    missed = np.where(answered.all(axis=1), 0, missed)
    return np.append(times_s, never_s)[missed]


def consecutive_s(answered: np.ndarray, times_s: np.ndarray, count: int, never_s: float) -> np.ndarray:
    """Find the failover time by the class's definition: the first of the first `count` answers in a row (s); `never_s`
    where there were never so many."""
    whole = np.all(np.lib.stride_tricks.sliding_window_view(answered, count, axis=1), axis=2)
    return first_answer_s(whole, times_s, never_s)


Beacon = tuple[float, float, float]  # times in s; see `beacons_of`
BEACON: Beacon = (10.0, 38.0, 120.0)  # RIS, 2 February 2011; see SOURCES.md


@_no_search_for_cycles()
def beacons_of(setting: Setting, seed: int, mean_delay_s: float = 1.0) -> list[Beacon]:
    """Announce and withdraw a new prefix at each site of a world, as a beacon, and watch all ASes that have customers.

    Returns three times (s) for each site: half of the watched ASes have a route; all have one; after the withdrawal
    fewer than a tenth still have one.
    """
    world, beacons = make_world(setting, seed), []
    watched = set(world.graph.neighbours) - set(world.graph.stubs) - set(world.sites)
    half, nine_tenths = math.ceil(0.5 * len(watched)), math.floor(0.9 * len(watched))

    def watch(speakers: Mapping[int, Speaker], act: Act) -> list[tuple[float, int, Event]]:
        slow_down(speakers, setting, mean_delay_s, f"{seed} {{}} beacon")
        return drive(speakers, lambda *_: setting.link_delay_ms * 1e-3, math.inf, at=[(0.0, act)])

    for site in world.sites:
        speakers = {number: Speaker(number, near) for number, near in world.graph.neighbours.items()}
        announced = watch(speakers, _announce(speakers, [site], SPECIFIC))
        speakers = {number: each.settled() for number, each in speakers.items()}
        withdrawn = watch(speakers, _withdraw(speakers, site))
        came = {number: time_s for time_s, number, _ in reversed(announced)}  # the first time
        went = {number: time_s for time_s, number, event in withdrawn if event.value[1] is None}  # the last time
        coming, going = (np.sort([times[number] for number in watched]) for times in (came, went))
        beacons.append((float(coming[half - 1]), float(coming[-1]), float(going[nine_tenths])))
    return beacons


def slower_withdrawal(beacons: Sequence[Beacon]) -> float:
    """Divide the beacons' median withdrawal time by the geometric mean of their two announcement times."""
    half_s, everywhere_s, gone_s = np.median(beacons, axis=0)
    return float(gone_s / math.sqrt(half_s * everywhere_s))


def share_of_beacons(setting: Setting, seed: int, worlds: int) -> float:
    """Return the announcement_share with which our announcements, relative to withdrawals, are as fast as BEACON's.

    Announcement times grow with the share, withdrawal times hardly do. The mean delay scales all of them alike.
    """
    unit = replace(setting, link_delay_ms=1e-3)
    work = [(unit, seed_of(seed, 2_000_000 + number)) for number in range(worlds)]
    ours = list(chain(*in_processes(beacons_of, work)))
    return setting.announcement_share * slower_withdrawal(ours) / slower_withdrawal([BEACON])
