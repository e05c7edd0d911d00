"""A network paper as data: the paper declares, the house runs.

How to write a paper. In `papers/<slug>.py` stands what is the paper's own:

    @dataclass(frozen=True)
    class Setting:                                   # the notebook's parameters, and what else
        rate_mbps: float = setting(100.0, "of every link", "Mb/s", low=1, high=10_000)  # see setting.py
        congestion_control: str = "reno"             # cases change

    def experiment(setting, seconds, seed) -> Experiment: ...       # the network and traffic of one setting

    def read(found, setting) -> dict:                # what one run says: numbers, tables (DataFrames), checks
        return {"goodput_mbps": ..., "queue": table, "checks": [Check("blocks complete", 1.0, at_least=1.0)]}

    STUDY = Study(
        slug="...", setting=Setting(), experiment=experiment, read=read, answer=answer,
        cases={"tcp": {}, "dctcp": {"congestion_control": "dctcp"},  # name -> what changes in the setting
               "many": {"servers": each(1, 8, 64)}},                 # a grid: one run for each value
        profiles={"quick": Scale(seconds=30), "paper": Scale(seconds=120)},
        claims={                                                     # id in claims.yaml -> what is compared with it
            "mean-queue": Evidence("mean_packets", "dctcp", control="no marking"),
            "as-fast": Evidence("goodput_mbps", ("dctcp", "tcp"), control=("slow", "tcp"), how=ratio),
            "steadier": Evidence("deviation", ("dctcp", "red"), control=("no marking", "red"),
                                 how=least_first("dctcp", "red")),
            "collapse": Evidence("share", "many", control="deep buffer", how=lambda share: share[64] / share[1])},
        knobs={"rate": Knob({"dctcp": {"rate_mbps": each(10, 100)}}, Scale(seconds=10))},
        figures={"fig6_queue": draw_queues})                         # file name -> function of the Runs

`Evidence.how` is given one argument a case, those of the same repetition: a number; of a case with `each` a Series
over its values (over two: with two levels); a table where the reading is one; of a tuple of readings, a Series of
them. It returns what the claim's kind wants: a number, a ranking (`least_first`, `greatest_first`), a curve
(`curve(xs)`, or by default the points of a Series or of a table with two columns). A proportion of trials: a reading
that is 0 or 1 (or a table of them), and `counted=True`. A statistic of all repetitions together, such as a percentile
of their flows: `pooled=True` and `jackknife`. A control that is computed otherwise is an Evidence itself.

A paper whose experiment is no `Experiment`, or of which more is read than Measurements, gives `measure_one`, a function
(setting, seconds, seed, tier) -> dict, in place of `experiment` and `read` (or of `read` alone, so that it is known
what the virtual kernel refuses). In the notebook: `runs = report.measure(paper.STUDY, setting)`, `runs.summary()`,
`runs.trust_table()`, `runs.tier_table()`, `report.draw(runs, "fig6_queue")`, `report.judge(runs.measured_claims())`,
`report.vary(runs, "rate")`, `paper.STUDY.explore()`. Tables land in `tables/` of the run's folder;
`netrepro draw <slug>` makes figures and verdicts from them without measuring. Every repetition has a seed of its own,
the same for all cases. `_drawing.py` has the standard pictures, `_trust.py` the checks; take what fits. Where a paper
is odd, it writes plain functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.emulation.virtual.experiment import check_virtually
from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.study.measuring import Progress, in_real_time, of_profile, run_all, run_experiment, seed_of
from netrepro.study.setting import check_setting, parameter_fields
from netrepro.study.trust import Check, check_table, trust_of, trust_table, with_directions

SIMULATED, VIRTUAL = "simulated", "virtual"
TABLES = "tables"  # in the folder of a run
LABELS = ["tier", "case", "repetition"]
Changes = Mapping[str, Any]
Readings = Mapping[str, Any]


@dataclass(frozen=True)
class Each:
    """Values of a setting's field, of which every one is measured; made by `each`."""

    values: tuple[Any, ...]


def each(*values: Any) -> Each:
    """In a case: this field takes all of these values, one after the other."""
    return Each(values)


@dataclass(frozen=True)
class Scale:
    """What a profile stands for: simulated or real seconds of a run (0 where the experiment knows itself when to end),
    repetitions at most, changes of the setting, of values swept by `each` the only ones that are measured (all where a
    field is not named), and of settings those of which `where` says so, the cases that are left out, where they would
    take too long, those repeated less often (case -> repetitions at most), and the claims that runs of this size are
    too short for."""

    seconds: float = 0.0
    repetitions: int | None = None
    changes: Changes = field(default_factory=dict)
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    where: Callable[[Any], bool] | None = None
    without: Sequence[str] = ()
    fewer: Mapping[str, int] = field(default_factory=dict)
    unjudged: Sequence[str] = ()


@dataclass(frozen=True)
class Evidence:
    """What is compared with a published claim: a reading (or several) of cases, and how it becomes the claim's value.

    control : the cases in which the mechanism is broken, in the same order; or an Evidence of its own.
    how : of one argument a case, as the module says. counted : sum successes and trials over all repetitions.
    exact : a closed form, the same in every repetition, of which the first is taken. pooled : `how` is given the
    readings of all repetitions (repetition -> reading) of each case, and returns the values itself.
    """

    reading: str | tuple[str, ...]
    cases: str | tuple[str, ...]
    control: str | tuple[str, ...] | Evidence | None = None
    how: Callable[..., Any] | None = None
    counted: bool = False
    exact: bool = False
    pooled: bool = False

    @property
    def case_names(self) -> tuple[str, ...]:
        return (self.cases,) if isinstance(self.cases, str) else self.cases

    @property
    def broken(self) -> Evidence | None:
        """The control, as evidence."""
        if self.control is None or isinstance(self.control, Evidence):
            return self.control
        return replace(self, cases=self.control, control=None)


@dataclass(frozen=True)
class Knob:
    """What the paper did not turn: cases of its own, at one scale or one a profile; in the simulator.

    tables : those read that are kept, as knob "<name>_<table>", beside the numbers.
    """

    cases: Mapping[str, Changes]
    scale: Scale | Mapping[str, Scale]
    repetitions: int = 1
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Play:
    """For `explore`: cases to choose from, sliders (field -> least, most, step) or menus (field -> list of values), and
    how one run is drawn."""

    cases: tuple[str, ...]
    sliders: Mapping[str, tuple[float, float, float] | list[Any]]
    draw: Callable[[Any, str], Figure]  # of Measurements (else what measure_one returned), and the case
    seconds: float = 10.0


@dataclass(frozen=True)
class Point:
    """One setting that is measured: of a case, at a place of its grid."""

    case: str
    swept: Mapping[str, Any]
    setting: Any


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a paper declares; the module's text shows all of it.

    on_virtual : scales that the virtual kernel (and real ones) takes instead, as it is slower. in_real_time : those
    that real kernels take in place of both. on_kernels : claims that other tiers than the simulator judge by other
    cases, or that they alone can; of several evidences the first of which the tier ran the cases. in_turn : setting ->
    whether it takes real time on any tier, and is measured when nothing else is. until_complete : runs there end when
    all sized traffic has arrived. cannot : (setting, tier) -> why that tier cannot run it, or ""; what the virtual
    kernel refuses need not be said. repetitions : the notebook's default.

    Raises NetreproError for cases, evidence or knobs that name what there is not.
    """

    slug: str
    setting: Any
    cases: Mapping[str, Changes]
    profiles: Mapping[str, Scale]
    experiment: Callable[[Any, float, int], Experiment] | None = None
    read: Callable[[Measurements, Any], Readings] | None = None
    measure_one: Callable[[Any, float, int, str], Readings] | None = None
    claims: Mapping[str, Evidence] = field(default_factory=dict)
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Runs], Figure]] = field(default_factory=dict)
    answer: Callable[[Runs], str] | None = None
    play: Play | None = None
    repetitions: int = 5
    on_virtual: Mapping[str, Scale] = field(default_factory=dict)
    in_real_time: Mapping[str, Scale] = field(default_factory=dict)
    on_kernels: Mapping[str, Evidence | Sequence[Evidence]] = field(default_factory=dict)
    in_turn: Callable[[Any], bool] | None = None
    until_complete: bool = False
    cannot: Callable[[Any, str], str] | None = None

    def __post_init__(self) -> None:
        if (self.measure_one is None) == (self.experiment is None or self.read is None):
            raise NetreproError(f"{self.slug}: what is measured", "give experiment and read, or measure_one")
        known = [each.name for each in fields(self.setting)]
        for name, changes in [
            *self.cases.items(),
            *(pair for knob in self.knobs.values() for pair in knob.cases.items()),
        ]:
            for changed in set(changes) - set(known):
                raise NetreproError(f"{self.slug}: case {name!r} changes {changed!r}", nearest(changed, known))
        there = [(claim, each) for claim, given in self.on_kernels.items() for each in _several(given)]
        for claim, evidence in [*self.claims.items(), *there]:
            for case in {*evidence.case_names, *(evidence.broken.case_names if evidence.broken else ())}:
                if case not in self.cases:
                    raise NetreproError(f"{self.slug}: claim {claim!r} needs case {case!r}", nearest(case, self.cases))

    # What is measured.

    def scale(self, profile: str, tier: str = SIMULATED) -> Scale:
        """The sizes of a profile on a tier. Raises NetreproError, with the nearest name, for an unknown profile."""
        own = {} if tier == SIMULATED else {**self.on_virtual, **(self.in_real_time if in_real_time(tier) else {})}
        return of_profile(profile, {**self.profiles, **own})

    def case(self, name: str, setting: Any = None) -> Any:
        """The setting of a case, at the first place of its grid. Raises NetreproError for an unknown case."""
        if name not in self.cases:
            raise NetreproError(f"{self.slug} has no case {name!r}", nearest(name, self.cases))
        return next(points({name: self.cases[name]}, setting or self.setting)).setting

    def why_not(self, point: Point, tier: str, seconds: float = 1.0) -> str:
        """Why this tier cannot run it for so long, and what to do; "" where it can."""
        if self.cannot is not None and (why := self.cannot(point.setting, tier)):
            return why
        if self.experiment is not None and tier == VIRTUAL:
            try:
                check_virtually(self.experiment(point.setting, seconds, 1))
            except NetreproError as refused:
                return str(refused)
        return ""

    def measure(
        self,
        setting: Any = None,
        *,
        profile: str = "quick",
        tier: str = SIMULATED,
        repetitions: int | None = None,
        seed: int = 1,
        beside: bool = True,
        progress: Progress = iter,
    ) -> Runs:
        """Every case and repetition on the tier and, unless `beside` is False, the same in the simulator.

        progress : wraps what is worked through. Raises NetreproError for an unknown profile or tier, for a setting out
        of its range, and for fewer than one repetition.
        """
        setting, scale = setting or self.setting, self.scale(profile, tier)
        check_setting(setting)
        asked = self.repetitions if repetitions is None else repetitions
        if asked < 1:
            raise NetreproError(f"{asked} repetitions", "give 1 or more")
        times = min(asked, scale.repetitions or asked)
        runs = Runs(self, setting, tier, profile, seed, times, scale.seconds)
        cases = {name: changes for name, changes in self.cases.items() if name not in scale.without}
        wanted = list(points(cases, setting, scale))
        for where in dict.fromkeys((tier, SIMULATED) if beside else (tier,)):
            left_out = dict.fromkeys(scale.without, f"left out at profile {profile!r} on this tier, to save time")
            reasons = left_out | {
                point.case: why for point in wanted if (why := self.why_not(point, where, scale.seconds))
            }
            runs.skipped.update({f"{where}: {case}": why for case, why in reasons.items()})
            able = [point for point in wanted if point.case not in reasons]
            found = self._measure_points(able, scale, times, seed, where, progress, _places(wanted))
            runs.add(found)
            if where == SIMULATED:
                asked_again = self._runs_of_knobs(runs)
                runs.known = {run: said for run, said in found.readings.items() if run in asked_again}
        return runs

    def vary(self, runs: Runs, name: str, progress: Progress = iter) -> pd.DataFrame:
        """Turn a knob, in the simulator: a row a place and repetition, with the fields that change and the numbers
        read. Kept in `runs.knobs`. What the simulator cannot run is left out, what it ran before is not run again.
        Raises NetreproError for an unknown knob."""
        if name not in self.knobs:
            raise NetreproError(f"{self.slug} has no knob {name!r}", nearest(name, self.knobs))
        knob = self.knobs[name]
        scale = self._scale_of_knob(knob, runs.profile)
        wanted = [each for each in points(knob.cases, runs.setting, scale) if not self.why_not(each, SIMULATED)]
        found = self._measure_points(wanted, scale, knob.repetitions, runs.seed, SIMULATED, progress, known=runs.known)
        runs.knobs[name] = found.values.drop(columns="tier")
        runs.knobs |= {f"{name}_{table}": found.tables[table].drop(columns="tier") for table in knob.tables}
        return runs.knobs[name]

    def _scale_of_knob(self, knob: Knob, profile: str) -> Scale:
        return knob.scale if isinstance(knob.scale, Scale) else of_profile(profile, knob.scale)

    def _runs_of_knobs(self, runs: Runs) -> set[_Run]:
        """What all knobs together will ask of the simulator."""
        return {
            _Run(point.setting, scale.seconds, seed_of(runs.seed, repetition), SIMULATED)
            for knob in self.knobs.values()
            for scale in [self._scale_of_knob(knob, runs.profile)]
            for point in points(knob.cases, runs.setting, scale)
            for repetition in range(knob.repetitions)
        }

    def _measure_points(
        self,
        wanted: list[Point],
        scale: Scale,
        times: int,
        seed: int,
        tier: str,
        progress: Progress,
        swept: Sequence[str] = (),
        known: Mapping[_Run, Readings] | None = None,
    ) -> _Found:
        work = [
            (point, repetition, _Run(point.setting, scale.seconds, seed_of(seed, repetition), tier))
            for repetition in range(times)
            for point in wanted
            if repetition < scale.fewer.get(point.case, times)
        ]
        readings = dict(known or {})
        new = [run for run in dict.fromkeys(run for *_, run in work) if run not in readings]
        alone = [run for run in new if self.in_turn is not None and self.in_turn(run.setting)]
        together = [run for run in new if run not in alone]
        readings |= zip(together, run_all(self._run, [(run,) for run in together], tier, progress), strict=True)
        readings |= {run: self._run(run) for run in alone}
        order = {id(point): place for place, point in enumerate(wanted)}
        work.sort(key=lambda each: order[id(each[0])])
        found = [(point, repetition, readings[run]) for point, repetition, run in work]
        return _gather(found, tier, swept or _places(wanted), readings)

    def _run(self, run: _Run) -> Readings:
        with self._parameters_named(run.setting):
            if self.measure_one is not None:
                return self.measure_one(*run)
            assert self.experiment is not None and self.read is not None
            asked = self.experiment(run.setting, run.seconds, run.seed)
            found = run_experiment(asked, run.tier, until_complete=self.until_complete)
            return {**self.read(found, run.setting), "_fidelity": found.fidelity}

    @contextmanager
    def _parameters_named(self, setting: Any) -> Iterator[None]:
        """Name the parameters that are not at their defaults in what is refused meanwhile: one of them is why."""
        try:
            yield
        except NetreproError as refused:
            values = {each.name: getattr(setting, each.name) for each in parameter_fields(setting)}
            changed = [f"{name} = {value!r}" for name, value in values.items() if value != getattr(self.setting, name)]
            if not changed:
                raise
            raise NetreproError(f"with {', '.join(changed)}: {refused.problem}", refused.remedy) from refused

    def explore(self) -> object:
        """Sliders and a menu of cases; the simulator redraws one run at once. Raises NetreproError without `play`."""
        import ipywidgets as widgets
        from IPython.display import display

        if self.play is None:
            raise NetreproError(f"{self.slug} has nothing to play with", "give its Study play=Play(...)")
        play, controls = self.play, {}
        controls["case"] = widgets.Dropdown(options=list(play.cases), description="case")
        for name, values in play.sliders.items():
            start, said = getattr(self.setting, name), {"description": name.replace("_", " ")}
            if isinstance(values, list):
                controls[name] = widgets.Dropdown(options=values, value=start, **said)
            else:
                kind = widgets.IntSlider if isinstance(start, int) else widgets.FloatSlider
                controls[name] = kind(start, **dict(zip(("min", "max", "step"), values, strict=True)), **said)
            controls[name].style.description_width = "initial"

        def redraw(case: str, **changed: Any) -> None:
            display(play.draw(self.run_once(case, play.seconds, **changed), case))

        return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])

    def run_once(self, case: str, seconds: float, seed: int = 1, **changed: Any) -> Any:
        """One run of a case in the simulator: Measurements, or what measure_one returns. A field that is `changed` wins
        over the case. Raises NetreproError for one out of its range."""
        check_setting(replace(self.setting, **changed))
        setting = replace(self.case(case), **changed)
        if self.measure_one is not None:
            return self.measure_one(setting, seconds, seed, SIMULATED)
        assert self.experiment is not None
        return run_experiment(self.experiment(setting, seconds, seed))

    def read_once(self, setting: Any, seconds: float = 0.0, seed: int = 1) -> Readings:
        """What is read of one run of a setting in the simulator."""
        with self._parameters_named(setting):
            if self.measure_one is not None:
                return self.measure_one(setting, seconds, seed, SIMULATED)
            assert self.experiment is not None and self.read is not None
            return self.read(run_experiment(self.experiment(setting, seconds, seed)), setting)

    def load(self, folder: Path) -> Runs:
        """The runs whose tables `Runs.save` left in a folder. Raises NetreproError where there are none."""
        path = folder / "run.json"
        if not path.is_file():
            raise NetreproError(f"no tables in {folder}", f"measure first: netrepro run {self.slug}")
        said = json.loads(path.read_text())
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in said["setting"].items()}
        runs = Runs(self, replace(self.setting, **plain), *(said[name] for name in _SAID))
        runs.skipped.update(said["skipped"])
        tables = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
        runs.values, runs.checks = tables.pop("values"), tables.pop("checks").astype({"holds": bool})
        for name, table in tables.items():
            target = runs.knobs if name.startswith("knob_") else runs.tables
            target[name.removeprefix("knob_")] = table
        return runs


_SAID = ("tier", "profile", "seed", "repetitions", "seconds")


class _Run(NamedTuple):
    """One run: what settles all that is read of it."""

    setting: Any
    seconds: float
    seed: int
    tier: str


@dataclass
class _Found:
    values: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    checks: pd.DataFrame
    readings: dict[_Run, Readings]


@dataclass
class Runs:
    """All that was measured, on the tier that was asked for and in the simulator beside it.

    values : tier, case, repetition, the fields that any case sweeps, and the numbers read. tables : those read, with
    the same labels. checks : with the same labels, CHECK_COLUMNS. knobs : what `Study.vary` found. skipped : "tier:
    case" -> why it could not be run. seconds : of a run. known : what was read of runs that a knob asks for again.
    """

    study: Study
    setting: Any
    tier: str
    profile: str
    seed: int
    repetitions: int
    seconds: float
    values: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    knobs: dict[str, pd.DataFrame] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    known: dict[_Run, Readings] = field(default_factory=dict, repr=False)

    def add(self, found: _Found) -> None:
        """Take in what was found on one more tier."""
        self.values = _below(self.values, found.values)
        self.checks = _below(self.checks, found.checks)
        for name, table in found.tables.items():
            self.tables[name] = _below(self.tables.get(name, pd.DataFrame()), table)

    @property
    def tiers(self) -> list[str]:
        """The tiers that were measured, the one asked for first."""
        return list(dict.fromkeys([self.tier, *self.values["tier"]]))

    @property
    def swept(self) -> list[str]:
        """The fields that any measured case sweeps."""
        places = [name for changes in self.study.cases.values() for name in _swept(changes)]
        return [name for name in dict.fromkeys(places) if name in self.values]

    def has(self, *cases: str, tier: str = "") -> bool:
        """Whether the tier (the one asked for unless named) ran all of these cases."""
        return set(cases) <= set(self.values["case"][self.values["tier"] == (tier or self.tier)])

    def why_not(self, case: str) -> str:
        """Why a case is missing on the tier asked for; "" where it is there."""
        return self.skipped.get(f"{self.tier}: {case}", "")

    def numbers(self, case: str, tier: str = "") -> pd.DataFrame:
        """The rows of `values` of one case on one tier."""
        return self.values[(self.values["case"] == case) & (self.values["tier"] == (tier or self.tier))]

    def table(self, name: str, case: str, tier: str = "") -> pd.DataFrame:
        """The rows of a table of one case on one tier. Raises NetreproError for an unknown table."""
        if name not in self.tables:
            raise NetreproError(f"{self.study.slug} reads no table {name!r}", nearest(name, self.tables))
        table = self.tables[name]
        return table[(table["case"] == case) & (table["tier"] == (tier or self.tier))]

    def reading(self, name: str | tuple[str, ...], case: str, tier: str = "") -> dict[int, Any]:
        """What was read in each repetition of a case: a number, of a case with a grid a Series over it, of a name of a
        table that table, of several names a Series of them. Raises NetreproError for an unknown name."""
        grid = _swept(self.study.cases[case])
        if isinstance(name, str) and name in self.tables:
            rows = self.table(name, case, tier)
            drop = [column for column in (*LABELS, *self.swept) if column not in grid]
            return {int(each): group.drop(columns=drop) for each, group in rows.groupby("repetition")}
        rows, names = self.numbers(case, tier), [name] if isinstance(name, str) else list(name)
        known = [column for column in self.values if column not in LABELS]
        for missing in set(names) - set(known):
            raise NetreproError(f"{self.study.slug} reads no {missing!r}", nearest(missing, [*known, *self.tables]))
        found: dict[int, Any] = {}
        for repetition, group in rows.groupby("repetition"):
            wanted = group.set_index(grid)[names] if grid else group[names].iloc[0]
            found[int(repetition)] = wanted[name] if isinstance(name, str) else wanted
        return found

    def summary(self, tier: str = "") -> pd.DataFrame:
        """Means over repetitions of every number read: a row a case (and place of its grid)."""
        rows = self.values[self.values["tier"] == (tier or self.tier)]
        return rows.drop(columns=["tier", "repetition"]).groupby(["case", *self.swept], sort=False).mean()

    def tier_table(self, *readings: str) -> pd.DataFrame:
        """The tiers side by side: a row a case, for every number read (or those named) each tier's mean; NaN where not
        measured."""
        means = {tier: self.summary(tier) for tier in self.tiers}
        columns = list(readings) or list(next(iter(means.values())).columns)
        side = pd.concat({tier: table[columns] for tier, table in means.items()}, axis=1).swaplevel(axis=1)
        order = [case for case in self.study.cases if case in set(side.index.get_level_values(0))]
        return side[columns].loc[order]

    def trust_table(self) -> pd.DataFrame:
        """Every check that was made, of all tiers: its worst value, its bounds, how often it was made and failed."""
        return trust_table(self.checks)

    @property
    def trusted(self) -> bool:
        """Whether every check of the tier asked for holds."""
        return bool(trust_of(self.checks[self.checks["tier"] == self.tier])["trusted"])

    def measured_claims(self, tier: str = "") -> list[Measured]:
        """One measurement a claim whose cases the tier could run, with its control where that could be run too; none of
        those that the scale leaves unjudged."""
        where = tier or self.tier
        trust, found = trust_of(self.checks[self.checks["tier"] == where]), []
        unjudged = self.study.scale(self.profile, self.tier).unjudged
        claims = {**self.study.claims, **(self.study.on_kernels if where != SIMULATED else {})}
        for claim, asked in claims.items():
            ran = [each for each in _several(asked) if self.has(*each.case_names, tier=where)]
            if claim in unjudged or not ran:
                continue
            evidence = ran[0]
            given = _as_measured(self.values_of(evidence, where), evidence)
            broken = evidence.broken
            if broken is not None and self.has(*broken.case_names, tier=where):
                control = _as_measured(self.values_of(broken, where), broken)
                given |= {"control" if name == "values" else f"control_{name}": each for name, each in control.items()}
            given.pop("control_exact", None)
            found.append(Measured(claim=claim, **given, **trust))
        return found

    def values_of(self, evidence: Evidence, tier: str = "") -> list[Any]:
        """What the evidence makes of every repetition that its cases have in common."""
        by_case = [self.reading(evidence.reading, case, tier) for case in evidence.case_names]
        how = evidence.how or _itself
        common = sorted(set(by_case[0]).intersection(*by_case))
        if evidence.pooled:
            return list(how(*({each: readings[each] for each in common} for readings in by_case)))
        return [how(*(readings[each] for readings in by_case)) for each in common]

    def save(self, folder: Path) -> None:
        """Leave every table as a CSV file, and run.json, which says how they were measured."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"values": self.values, "checks": self.checks, **self.tables}
        tables |= {f"knob_{name}": table for name, table in self.knobs.items()}
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        said = {name: getattr(self, name) for name in _SAID}
        said |= {"slug": self.study.slug, "setting": asdict(self.setting), "skipped": self.skipped}
        (folder / "run.json").write_text(json.dumps(said, indent=1))


def points(cases: Mapping[str, Changes], setting: Any, scale: Scale | None = None) -> Iterator[Point]:
    """Every setting of every case, in order. A change that is a function is given the setting with all the others."""
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


def _swept(changes: Changes) -> list[str]:
    return [name for name, change in changes.items() if isinstance(change, Each)]


def _places(wanted: Sequence[Point]) -> list[str]:
    """The fields that any of the points sweeps."""
    return list(dict.fromkeys(name for point in wanted for name in point.swept))


def _gather(
    found: list[tuple[Point, int, Readings]], tier: str, swept: Sequence[str], readings: dict[_Run, Readings]
) -> _Found:
    """The readings of one tier as tables; `swept` fields are columns of all, also where this tier sweeps none."""
    rows, checks = [], []
    tables: dict[str, list[pd.DataFrame]] = {}
    for point, repetition, read in found:
        label = {"tier": tier, "case": point.case, "repetition": repetition}
        label |= {name: getattr(point.setting, name) for name in swept}
        numbers = {}
        for name, value in read.items():
            if name == "_fidelity":
                checks.append(with_directions(value).assign(**label))
            elif name == "checks":
                checks.append(check_table(value).assign(**label))
            elif isinstance(value, pd.DataFrame):
                tables.setdefault(name, []).append(_labelled(value, label))
            else:
                numbers[name] = value
        rows.append(label | numbers)
    together = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
    made = [each for each in checks if len(each)]
    columns = [*LABELS, *swept, "check", "value", "at_least", "at_most", "holds"]
    checked = pd.concat(made, ignore_index=True).reindex(columns=columns) if made else pd.DataFrame(columns=columns)
    return _Found(pd.DataFrame(rows), together, checked.astype({"holds": bool}), readings)


def _labelled(table: pd.DataFrame, label: Mapping[str, Any]) -> pd.DataFrame:
    return table.assign(**label)[[*label, *(name for name in table if name not in label)]]


def _several(evidence: Evidence | Sequence[Evidence]) -> Sequence[Evidence]:
    return (evidence,) if isinstance(evidence, Evidence) else evidence


def _below(above: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    parts = [each for each in (above, more) if len(each)]
    return pd.concat(parts, ignore_index=True) if parts else more


def _as_measured(values: list[Any], evidence: Evidence) -> dict[str, Any]:
    if evidence.counted:
        trials = np.concatenate([np.ravel(np.asarray(each, dtype=float)) for each in values])
        return {"successes": int(trials.sum()), "trials": len(trials)}
    return {"values": values[:1], "exact": True} if evidence.exact else {"values": values}


# How readings of one repetition become a claim's value.


def _itself(value: Any) -> Any:
    """A number as it is; a Series or a table of two columns as a curve."""
    if isinstance(value, pd.Series):
        return [(float(x), float(y)) for x, y in value.items()]
    if isinstance(value, pd.DataFrame):
        return [tuple(map(float, row)) for row in value.itertuples(index=False)]
    return value


def ratio(ours: float, baseline: float) -> float:
    """The first case over the second."""
    return ours / baseline


def curve(xs: Sequence[float]) -> Callable[[pd.Series], list[tuple[float, float]]]:
    """The curve through readings (or the places of a grid), in their order, at `xs`."""
    return lambda values: list(zip(map(float, xs), map(float, values), strict=True))


def least_first(*names: str) -> Callable[..., list[str]]:
    """A ranking of the cases by their readings, under these names. What is equal stands in the reverse of the order
    that is given, so that only a difference can agree with it."""
    return lambda *values: _ranked(names, values)


def greatest_first(*names: str) -> Callable[..., list[str]]:
    """As least_first, the greatest reading first."""
    return lambda *values: _ranked(names, [-value for value in values])


def rankings(values: Mapping[str, Sequence[float] | np.ndarray]) -> list[list[str]]:
    """Of each repetition the names by their values, least first; equal ones count against the order given."""
    return [_ranked(list(values), of_one) for of_one in zip(*values.values(), strict=True)]


def jackknife(repetitions: Collection[int], statistic: Callable[[int | None], float]) -> np.ndarray:
    """A value a repetition: their mean is the statistic of all together, their spread the jackknife's.

    statistic : of all repetitions but the one that is left out, or of all (None).
    """
    whole = statistic(None)
    if len(repetitions) < 2:
        return np.array([whole])
    without = np.array([statistic(each) for each in repetitions])
    return whole + (len(without) - 1) * (without.mean() - without)


def _ranked(names: Sequence[str], values: Sequence[float]) -> list[str]:
    backwards = sorted(zip(values, range(len(names)), strict=True), key=lambda pair: (pair[0], -pair[1]))
    return [names[place] for _, place in backwards]


__all__ = [
    "Check",
    "Each",
    "Evidence",
    "Knob",
    "Play",
    "Point",
    "Runs",
    "Scale",
    "Study",
    "curve",
    "each",
    "greatest_first",
    "jackknife",
    "least_first",
    "points",
    "rankings",
    "ratio",
]
