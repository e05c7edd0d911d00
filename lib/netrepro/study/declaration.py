"""A network paper as data: its cases, experiment, readings, profiles, claims, knobs and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.emulation.tiers import REAL_TIME_TIERS
from netrepro.emulation.virtual.experiment import check_virtually
from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.study.evidence import Evidence
from netrepro.study.trust import Check

SIMULATED, VIRTUAL = "simulated", "virtual"
Changes = Mapping[str, Any]
Progress = Callable[[Iterable], Iterable]  # wraps what is worked through, to show how far it is
Value = TypeVar("Value")


def seed_of(seed: int, repetition: int) -> int:
    """Return the seed of one repetition's experiment."""
    return int(np.random.SeedSequence([seed, repetition]).generate_state(1)[0])


def seed_and_repetition(seed: int, repetition: int) -> tuple[int, int]:
    """Return both, as a seed of NumPy's for studies that draw several streams of it."""
    return seed, repetition


def of_profile(profile: str, values: Mapping[str, Value]) -> Value:
    """Return the value of a profile. Raises NetreproError, with the nearest name, for a profile not in `values`."""
    if profile not in values:
        raise NetreproError(f"no profile {profile!r}", nearest(profile, values))
    return values[profile]


@dataclass(frozen=True)
class Each:
    """Values of a setting's field, of which every one is measured; made by `each`."""

    values: tuple[Any, ...]


OPEN_FIGURES = 5  # of a notebook; it folds the others
LEAST_REPETITIONS = 5  # of evidence that decides, where a scale names no fewer


def each(*values: Any) -> Each:
    """Let a field of a case take all of these values, one after the other."""
    return Each(values)


@dataclass(frozen=True)
class Scale:
    """The size of the runs of a profile.

    seconds : simulated or real seconds of a run; 0 where the experiment itself knows when to end. repetitions,
    least_repetitions : the largest and the smallest number, whatever is asked for; of a knob's the first counts.
    changes : of the setting. only : field -> the values, of those swept by `each`, that are measured (all where a field
    is not named). where : true for the settings that are measured. without : cases left out, because they would take
    too long. fewer : case -> the largest number of its repetitions. unjudged : claims for which runs of this size are
    too short.
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
        """Return so many repetitions, or the largest number, where that is smaller."""
        return min(repetitions, self.repetitions or repetitions)


@dataclass(frozen=True)
class Knob:
    """A parameter that the paper did not vary: cases of its own, at one scale or one a profile; in the simulator.

    quick : the scale of that profile, where it is another. tables : names of the tables that are kept, as knob
    "<name>_<table>", beside the numbers.
    """

    cases: Mapping[str, Changes]
    scale: Scale | Mapping[str, Scale]
    repetitions: int = 1
    tables: tuple[str, ...] = ()
    quick: Scale | None = None


TEXT = "text"  # of a field that is written, in a box


@dataclass(frozen=True)
class Play:
    """Controls of `explore`: cases to choose from, sliders (field -> least, most, step), menus (field -> list of
    values) or boxes (field -> TEXT), and how one run is drawn."""

    cases: tuple[str, ...]
    sliders: Mapping[str, tuple[float, float, float] | list[Any] | str]
    draw: Callable[[Any, str], Figure]  # of Measurements (else what measure_one returned), and the case
    seconds: float = 10.0


@dataclass(frozen=True, eq=False)
class Reading:
    """All that is read of one run; `|` joins two of the same run, and `reading[name]` is a number or a table of it.

    numbers : what is summarised and judged. tables : tidy, with units in the names of their columns. checks : what must
    hold for the run to be believed. fidelity : the tier's own checks (`Measurements.fidelity`), which the house adds
    where a study gives `read`. Raises NetreproError for a table among the numbers, or the reverse.
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


class OneRun(NamedTuple):
    """One run: what settles all that is read of it."""

    setting: Any
    seconds: float
    seed: Any
    tier: str


@dataclass(frozen=True)
class Point:
    """One setting that is measured: of a case, at a place of its grid."""

    case: str
    swept: Mapping[str, Any]
    setting: Any


@dataclass(frozen=True, kw_only=True)
class Study:
    """The declaration of a paper's experiments; the module's text shows all of it.

    on_virtual : scales that the virtual kernel (and real ones) takes instead, as it is slower. in_real_time : scales
    that real kernels take in place of both. on_kernels : evidence for claims that kernels judge by other cases than
    the simulator, or that only kernels can judge; of several, the first whose cases the tier ran. in_turn : setting ->
    True where it takes real time on any tier, and is measured while nothing else is. until_complete : runs there end
    when all sized traffic has arrived. cannot : (setting, tier) -> why that tier cannot run it, or ""; what the
    virtual kernel itself refuses is not repeated here. repetitions : the notebook's default, of which the
    paper profile makes at least LEAST_REPETITIONS. seeds : (seed, repetition)
    -> what that repetition is given as its seed. measure_all : in place of measure_one, all runs of one tier together,
    where they share something dear; readings in the same order. also_on_virtual : scales of what the virtual kernel,
    where there is one, runs beside another tier that was asked for; shown, and no evidence. knobs : of
    which a function makes a table of the runs itself, where it is no grid of cases.

    Raises NetreproError for cases, evidence or knobs that name something that does not exist.
    """

    slug: str
    setting: Any
    cases: Mapping[str, Changes]
    profiles: Mapping[str, Scale]
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
    on_virtual: Mapping[str, Scale] = field(default_factory=dict)
    also_on_virtual: Mapping[str, Scale] = field(default_factory=dict)
    in_real_time: Mapping[str, Scale] = field(default_factory=dict)
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
        known = [each.name for each in fields(self.setting)]
        for name, changes in [
            *self.cases.items(),
            *(pair for knob in self.knobs.values() if isinstance(knob, Knob) for pair in knob.cases.items()),
        ]:
            for changed in set(changes) - set(known):
                raise NetreproError(f"{self.slug}: case {name!r} changes {changed!r}", nearest(changed, known))
        there = [(claim, each) for claim, given in self.on_kernels.items() for each in several(given)]
        for claim, evidence in [*self.claims.items(), *there]:
            for case in {*evidence.case_names, *(evidence.broken.case_names if evidence.broken else ())}:
                if case not in self.cases:
                    raise NetreproError(f"{self.slug}: claim {claim!r} needs case {case!r}", nearest(case, self.cases))

    def scale(self, profile: str, tier: str = SIMULATED) -> Scale:
        """Return the sizes of a profile on a tier.

        Raises NetreproError, with the nearest name, for an unknown profile.
        """
        own = {} if tier == SIMULATED else {**self.on_virtual, **(self.in_real_time if tier in REAL_TIME_TIERS else {})}
        return of_profile(profile, {**self.profiles, **own})

    def scaled(self, setting: Any, profile: str, tier: str = SIMULATED) -> Any:
        """Return a setting with what a profile changes on a tier."""
        return replace(setting, **self.scale(profile, tier).changes)

    def case(self, name: str, setting: Any = None) -> Any:
        """Return the setting of a case, at the first place of its grid. Raises NetreproError for an unknown case."""
        if name not in self.cases:
            raise NetreproError(f"{self.slug} has no case {name!r}", nearest(name, self.cases))
        return next(points({name: self.cases[name]}, setting or self.setting)).setting

    def why_not(self, point: Point, tier: str, seconds: float = 1.0) -> str:
        """Say why this tier cannot run a setting for so long, and what to do; "" where it can."""
        if self.cannot is not None and (why := self.cannot(point.setting, tier)):
            return why
        if self.experiment is not None and tier == VIRTUAL:
            try:
                check_virtually(self.experiment(point.setting, seconds, 1))
            except NetreproError as refused:
                return str(refused)
        return ""


def points(cases: Mapping[str, Changes], setting: Any, scale: Scale | None = None) -> Iterator[Point]:
    """Yield every setting of every case, in order.

    A change that is a function is given the setting with all the others.
    """
    scale = scale or Scale(1.0)
    for name, changes in cases.items():
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
            changed = replace(setting, **{**scale.changes, **plain, **at})
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
