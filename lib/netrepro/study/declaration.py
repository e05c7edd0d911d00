"""A network paper as data: its cases, experiment, readings, profiles, claims, knobs and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro import backends
from netrepro.errors import NetreproError, nearest
from netrepro.networks.checks import Check
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.study.evidence import Evidence
from netrepro.study.refusals import refuse_misfit
from netrepro.study.setting import parameter_fields
from netrepro.tiers_and_profiles import REAL_TIME_TIERS

SIMULATED, VIRTUAL = "simulated", "virtual"
REAL_TIME = "real time"  # what real kernels run, whose runs take real time
BESIDE = "beside"  # what the virtual kernel, where there is one, runs beside another tier that was asked for
Changes = Mapping[str, Any]
Key = str | tuple[str, str]  # of a scale: a profile, or (profile, VIRTUAL, REAL_TIME or BESIDE)
Progress = Callable[[Iterable], Iterable]  # wraps an iterable of work, to show its progress
Value = TypeVar("Value")


def seed_of(seed: int, repetition: int) -> int:
    """Return the seed of one repetition's experiment."""
    return int(np.random.SeedSequence([seed, repetition]).generate_state(1)[0])


def seed_and_repetition(seed: int, repetition: int) -> tuple[int, int]:
    """Return (seed, repetition), a NumPy seed for studies that draw several random streams from it."""
    return seed, repetition


def of_profile(profile: str, values: Mapping[str, Value]) -> Value:
    """Return the value of a profile. Raises NetreproError, with the nearest name, for a profile not in `values`."""
    if profile not in values:
        raise NetreproError(f"no profile {profile!r}", nearest(profile, values))
    return values[profile]


@dataclass(frozen=True)
class Each:
    """Values of one field of the setting, each of which is measured; made by `swept`."""

    values: tuple[Any, ...]


OPEN_FIGURES = 5  # that a notebook shows; it folds the others
LEAST_REPETITIONS = 5  # of profile "paper" by default, unless its scale allows fewer


def swept(*values: Any) -> Each:
    """Let a field of a case take all of these values, one after the other."""
    return Each(values)


@dataclass(frozen=True)
class Scale:
    """The size of the runs of a profile.

    seconds : simulated or real seconds of a run; 0 where the experiment itself knows when to end.
    repetitions, least_repetitions : the largest and the smallest number, whatever the user asks for; for a knob, only
        the largest counts.
    changes : field of the setting -> its value at this scale.
    only : field -> those of its swept values that are measured; a field not named is swept in full.
    where : function of a setting; true for the settings that are measured.
    without : cases left out, because they would take too long.
    fewer : case -> the largest number of its repetitions.
    unjudged : claims for which runs of this size are too short.
    """

    seconds: float = 0.0
    repetitions: int | None = None
    changes: Changes = field(default_factory=dict)
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    where: Callable[[Any], bool] | None = None
    without: Sequence[str] = ()
    fewer: Mapping[str, int] = field(default_factory=dict)
    unjudged: Sequence[str] = ()
    least_repetitions: int = 1

    def at_most(self, repetitions: int) -> int:
        """Return `repetitions`, but no more than this scale's largest number."""
        return min(repetitions, self.repetitions or repetitions)


@dataclass(frozen=True)
class Knob:
    """A parameter that the paper did not vary, as cases of its own; they run in the simulator.

    scale : one scale, or profile -> scale. quick : the scale of profile "quick", where it differs from `scale`.
    tables : names of the tables that are kept beside the numbers, in `Runs.knobs` as "<name>_<table>".
    """

    cases: Mapping[str, Changes]
    scale: Scale | Mapping[str, Scale]
    repetitions: int = 1
    tables: tuple[str, ...] = ()
    quick: Scale | None = None


TEXT = "text"  # marks a field whose value the user types into a box


@dataclass(frozen=True)
class Gauge:
    """A number of a Reading that a live page computes itself. `of` says how, as `Reading` of lib/web/netrepro-web.d.ts
    does; where its table is of ports, the page adds the port."""

    label: str
    unit: str
    of: Mapping[str, Any]


# Numbers that several papers' pages show.
DROPPED_PACKETS = Gauge(
    "packets dropped",
    "share",
    {"table": "links", "column": "dropped_packets", "reduce": "sum", "of": ["dropped_packets", "sent_packets"]},
)
GOODPUT_OF_FLOWS = {"table": "flows", "column": "delivered_bytes", "reduce": "sum", "times": 8e-6, "a_second": True}


@dataclass(frozen=True)
class Live:
    """A paper's live page: what the reader's browser runs and shows, by the cases and sliders of its Play.

    gauges : number of the Reading -> how the page computes it; a page is made only where both are equal. course : the
    table and the column that are drawn over time, with a port as in Gauge. axis : its label, with the unit. values :
    field -> the values that its slider offers; the page has those of all combinations. port : setting -> the port that
    is looked at. cases : those of the play that the page has; () for all. broken : case -> the case in which its
    mechanism is switched off.
    """

    gauges: Mapping[str, Gauge]
    course: Mapping[str, Any]
    axis: str
    values: Mapping[str, Sequence[Any]]
    port: Callable[[Any], tuple[str, str]]
    cases: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Play:
    """Controls of `explore`, and the function that draws one run.

    cases : those to choose from. sliders : field -> (least, most, step) of a slider, a list of values of a menu, or
    TEXT for a box. seconds : of a run. live : what the paper's live page shows; None where it has none.
    """

    cases: tuple[str, ...]
    sliders: Mapping[str, tuple[float, float, float] | list[Any] | str]
    draw: Callable[[Any, str], Figure]  # takes Measurements (else a Reading) and the case
    seconds: float = 10.0
    live: Live | None = None


@dataclass(frozen=True, eq=False)
class Reading:
    """All that is read from one run. `|` joins two readings of a run; `reading[name]` is a number or a table.

    numbers : name -> number, to be summarised and judged. tables : name -> tidy table, with units in its column names.
    checks : conditions that must hold for the run to be believed. fidelity : the tier's own checks
    (`Measurements.fidelity`), which the library adds where a study gives `read`.

    Raises NetreproError for a table among the numbers, or the reverse.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    fidelity: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        for name, value in self.numbers.items():
            if isinstance(value, pd.DataFrame | pd.Series | Mapping):
                raise NetreproError(f"{name!r} is no number", "give it as a DataFrame in tables=")
        for name, table in self.tables.items():
            if not isinstance(table, pd.DataFrame):
                raise NetreproError(f"{name!r} is no table", "give a DataFrame, or a number in numbers=")

    def __getitem__(self, name: str) -> Any:
        known = {**self.numbers, **self.tables}
        if name not in known:
            raise NetreproError(f"no {name!r} was read", nearest(name, known))
        return known[name]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers or name in self.tables

    def __or__(self, other: Reading) -> Reading:
        own = [each for each in (self.fidelity, other.fidelity) if each is not None]
        return Reading(
            {**self.numbers, **other.numbers},
            {**self.tables, **other.tables},
            [*self.checks, *other.checks],
            pd.concat(own, ignore_index=True) if own else None,
        )


PART = "part"  # the key by which a case names its part


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of a paper's experiments, with a setting of its own class; a case names it: `{"part": EDGE, ...}`.

    Of the study's setting, it takes the notebook's parameters of the same names. The other fields are as in Study, with
    either experiment and read, or measure_one.
    """

    setting: Any
    experiment: Callable[[Any, float, int], Experiment] | None = None
    read: Callable[[Measurements, Any], Reading] | None = None
    measure_one: Callable[[Any, float, Any, str], Reading] | None = None
    until_complete: bool = False

    def setting_with(self, parameters: Any) -> Any:
        """Return this part's setting with the notebook's parameters that another setting has."""
        own = {each.name for each in fields(self.setting)}
        taken = [each.name for each in parameter_fields(parameters) if each.name in own]
        return replace(self.setting, **{name: getattr(parameters, name) for name in taken})


class OneRun(NamedTuple):
    """One run: all that determines its reading."""

    setting: Any
    seconds: float
    seed: Any
    tier: str


@dataclass(frozen=True)
class Point:
    """One setting that is measured: a case at one point of its grid. swept : field -> its value there."""

    case: str
    swept: Mapping[str, Any]
    setting: Any


@dataclass(frozen=True, kw_only=True)
class Study:
    """The declaration of a paper's experiments; the text of `netrepro.study` shows an example with all of it.

    setting, experiment, read, measure_one : of the cases that name no part; beside measure_one or measure_all, an
        experiment is never run, and tells what kernels cannot run. parts : those that cases name.
    measure_all : in place of measure_one, measures all runs of one tier together, where they share something costly;
        returns their readings in the same order.
    knobs : name -> Knob; or a function of the runs that makes a table itself, where the knob is no grid of cases.
    repetitions : the notebook's default; by default, profile "paper" makes at least LEAST_REPETITIONS.
    scales : profile -> Scale. (profile, VIRTUAL) -> the scale in its place on the virtual kernel and on real kernels,
        which are slower than the simulator; (profile, REAL_TIME) -> on real kernels alone. (profile, BESIDE) -> that of
        what the virtual kernel, where there is one, runs beside another tier that was asked for; these runs are shown,
        but are no evidence.
    on_kernels : claim -> evidence, where kernels judge a claim by other cases than the simulator, or where only kernels
        can judge it; of several, the first whose cases the tier ran.
    in_turn : setting -> True where its runs take real time on any tier, so that nothing else may run at that time.
    until_complete : on kernels, a run ends when all sized traffic has arrived.
    cannot : (setting, tier) -> why the tier cannot run the setting, or ""; it need not repeat what the virtual kernel
        itself refuses.
    seeds : (seed, repetition) -> the seed of that repetition.

    Raises NetreproError for cases, evidence, knobs or scales that name something that does not exist, and for evidence
    whose `how` does not fit its readings and cases.
    """

    slug: str
    setting: Any
    cases: Mapping[str, Changes]
    scales: Mapping[Key, Scale]
    parts: Sequence[Part] = ()
    experiment: Callable[[Any, float, int], Experiment] | None = None
    read: Callable[[Measurements, Any], Reading] | None = None
    measure_one: Callable[[Any, float, Any, str], Reading] | None = None
    measure_all: Callable[[Sequence[OneRun], Progress], Sequence[Reading]] | None = None
    claims: Mapping[str, Evidence] = field(default_factory=dict)
    knobs: Mapping[str, Knob | Callable[[Any, Progress], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Any], Figure]] = field(default_factory=dict)
    best: tuple[str, ...] = ()
    answer: Callable[[Any], str] | None = None
    play: Play | None = None
    repetitions: int = 5
    on_kernels: Mapping[str, Evidence | Sequence[Evidence]] = field(default_factory=dict)
    in_turn: Callable[[Any], bool] | None = None
    until_complete: bool = False
    cannot: Callable[[Any, str], str] | None = None
    seeds: Callable[[int, int], Any] = seed_of

    def __post_init__(self) -> None:
        ways = (self.measure_one, self.measure_all, self.experiment and self.read)
        if sum(way is not None for way in ways) != 1:
            raise NetreproError(
                f"{self.slug}: what is measured", "give experiment and read, or measure_one, or measure_all"
            )
        for name in self.best:
            if name not in self.figures:
                raise NetreproError(f"{self.slug} has no figure {name!r}", nearest(name, self.figures))
        if len(self.best) > OPEN_FIGURES:
            raise NetreproError(f"{self.slug}: {len(self.best)} best figures", f"name {OPEN_FIGURES} at most")
        for name, changes in [
            *self.cases.items(),
            *(pair for knob in self.knobs.values() if isinstance(knob, Knob) for pair in knob.cases.items()),
        ]:
            part = changes.get(PART)
            if part is not None and part not in self.parts:
                raise NetreproError(
                    f"{self.slug}: case {name!r} names a part that the study has not", "add it to parts"
                )
            known = [PART, *(each.name for each in fields(part.setting if part else self.setting))]
            for changed in set(changes) - set(known):
                raise NetreproError(f"{self.slug}: case {name!r} changes {changed!r}", nearest(changed, known))
        self._check_scales()
        for name in set(self.play.sliders if self.play else ()) - self._fields:
            raise NetreproError(f"{self.slug}: play has a slider {name!r}", nearest(name, self._fields))
        there = [(claim, each) for claim, given in self.on_kernels.items() for each in several(given)]
        for claim, evidence in [*self.claims.items(), *there]:
            for case in {*evidence.case_names, *(evidence.broken.case_names if evidence.broken else ())}:
                if case not in self.cases:
                    raise NetreproError(f"{self.slug}: claim {claim!r} needs case {case!r}", nearest(case, self.cases))
        refuse_misfit(self, swept_fields)

    def _check_scales(self) -> None:
        """Raise NetreproError for a scale whose key is none, or that changes a field which no part has."""
        for key, scale in self.scales.items():
            profile, where = key if isinstance(key, tuple) else (key, VIRTUAL)
            if profile not in self.profiles:
                raise NetreproError(f"{self.slug}: scale {key!r} of no profile", nearest(profile, self.profiles))
            if where not in (VIRTUAL, REAL_TIME, BESIDE):
                raise NetreproError(
                    f"{self.slug}: scale {key!r} of no tier", nearest(where, (VIRTUAL, REAL_TIME, BESIDE))
                )
            for changed in set(scale.changes) - self._fields:
                raise NetreproError(
                    f"{self.slug}: profile {profile!r} changes {changed!r}", nearest(changed, self._fields)
                )

    @property
    def profiles(self) -> list[str]:
        """The names of the profiles."""
        return [key for key in self.scales if isinstance(key, str)]

    def scale(self, profile: str, tier: str = SIMULATED) -> Scale:
        """Return the scale of a profile on a tier.

        Raises NetreproError, with the nearest name, for an unknown profile.
        """
        plain = of_profile(profile, {name: self.scales[name] for name in self.profiles})
        if tier == SIMULATED:
            return plain
        on_kernels = self.scales.get((profile, VIRTUAL), plain)
        return self.scales.get((profile, REAL_TIME), on_kernels) if tier in REAL_TIME_TIERS else on_kernels

    def scale_beside(self, profile: str) -> Scale | None:
        """Return the scale of what the virtual kernel runs beside another tier; None where that is nothing."""
        return self.scales.get((profile, BESIDE))

    def scaled(self, setting: Any, profile: str, tier: str = SIMULATED) -> Any:
        """Return a setting with the changes that a profile makes on a tier."""
        return replace(setting, **self.scale(profile, tier).changes)

    def case(self, name: str, setting: Any = None) -> Any:
        """Return the setting of a case, at the first point of its grid. Raises NetreproError for an unknown case."""
        if name not in self.cases:
            raise NetreproError(f"{self.slug} has no case {name!r}", nearest(name, self.cases))
        return next(points({name: self.cases[name]}, setting or self.setting)).setting

    @property
    def _fields(self) -> set[str]:
        """The fields that any part has."""
        return {each.name for part in self._part_by_setting.values() for each in fields(part.setting)}

    @cached_property
    def _part_by_setting(self) -> dict[type, Part]:
        by_setting = {type(self.setting): Part(**{each.name: getattr(self, each.name) for each in fields(Part)})}
        for part in self.parts:
            name = type(part.setting).__name__
            if (part.measure_one is None) != (part.experiment is not None and part.read is not None):
                raise NetreproError(f"{self.slug}: the part of {name}", "give experiment and read, or measure_one")
            if by_setting.setdefault(type(part.setting), part) is not part:
                raise NetreproError(f"{self.slug}: two parts with a {name}", "give each a class of its own")
        return by_setting

    def part_of(self, setting: Any) -> Part:
        """Return the part that a setting belongs to, by its class."""
        return self._part_by_setting[type(setting)]

    def why_not(self, point: Point, tier: str, seconds: float = 1.0) -> str:
        """Say why this tier cannot run a point for so many seconds, and what to do; "" where it can."""
        if self.cannot is not None and (why := self.cannot(point.setting, tier)):
            return why
        experiment = self.part_of(point.setting).experiment
        if experiment is not None and tier == VIRTUAL:
            try:
                return backends.why_not(experiment(point.setting, seconds, 1), tier)
            except NetreproError as refused:
                return str(refused)
        return ""


def points(cases: Mapping[str, Changes], setting: Any, scale: Scale | None = None) -> Iterator[Point]:
    """Yield every setting of every case, in order; of a case with a part, settings of that part.

    A scale's changes of another part's fields do nothing. A change may be a function: it is called with the setting
    after all other changes, and returns the field's value.
    """
    scale = scale or Scale(1.0)
    for name, said in cases.items():
        part, changes = said.get(PART), {key: change for key, change in said.items() if key != PART}
        base = part.setting_with(setting) if part else setting
        own = {key: change for key, change in scale.changes.items() if hasattr(base, key)}
        swept = {
            key: _only(change.values, scale.only.get(key))
            for key, change in changes.items()
            if isinstance(change, Each)
        }
        plain = {
            key: change for key, change in changes.items() if not isinstance(change, Each) and not callable(change)
        }
        later = {key: change for key, change in changes.items() if callable(change)}
        for place in product(*swept.values()):
            at = dict(zip(swept, place, strict=True))
            changed = replace(base, **{**own, **plain, **at})
            changed = replace(changed, **{key: change(changed) for key, change in later.items()})
            if scale.where is None or scale.where(changed):
                yield Point(name, at, changed)


def _only(values: Sequence[Any], wanted: Sequence[Any] | None) -> list[Any]:
    return [value for value in values if wanted is None or value in wanted]


def swept_fields(changes: Changes) -> list[str]:
    """List the fields of a case that take several values."""
    return [name for name, change in changes.items() if isinstance(change, Each)]


def several(evidence: Evidence | Sequence[Evidence]) -> Sequence[Evidence]:
    """Return one or several pieces of evidence as a sequence."""
    return (evidence,) if isinstance(evidence, Evidence) else evidence
