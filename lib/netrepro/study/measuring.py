"""Measures a study on the tier asked for: cases, repetitions with their seeds and knobs, several runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from typing import Any, TypeVar

import pandas as pd
from joblib import Parallel, delayed

from netrepro import backends
from netrepro.cluster import cluster_of_notebooks
from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import whole_number
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.processes import dearest_first
from netrepro.study.declaration import (
    LEAST_REPETITIONS,
    SIMULATED,
    VIRTUAL,
    Knob,
    OneRun,
    Point,
    Progress,
    Reading,
    Scale,
    Study,
    of_profile,
    points,
    seed_of,
)
from netrepro.study.runs import Runs, gather
from netrepro.study.setting import check_setting, parameter_fields
from netrepro.tiers_and_profiles import REAL_TIME_TIERS

Value = TypeVar("Value")

# Against phase effects between flows: up to one packet's time at the slowest link (Floyd and Jacobson 1992, section 3).
HOST_DELAY_PACKETS = 1.0


def in_parallel(
    function: Callable[..., Value],
    work: Sequence[tuple],
    n_jobs: int = -1,
    progress: Progress = iter,
    cost: Callable[..., float] | None = None,
) -> list[Value]:
    """Call `function` with each element of `work` (its arguments) and return the results in that order.

    `n_jobs` calls run at a time; -1: one for each processor, on the cluster that NETREPRO_SCHEDULER names if it is set.
    The most costly start first. Threads suffice, because the simulator releases the interpreter's lock.
    """
    order = dearest_first(work, cost)
    with cluster_of_notebooks() if n_jobs == -1 and len(work) > 1 else nullcontext():
        parallel = Parallel(n_jobs=n_jobs, prefer="threads", pre_dispatch="n_jobs")
        results = parallel(delayed(function)(*each) for each in progress([work[place] for place in order]))
    return [each for _, each in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]


def in_real_time(tier: str) -> bool:
    """Tell whether runs on this tier take real time, on the machine's own clock."""
    return tier in REAL_TIME_TIERS


def run_experiment(
    experiment: Experiment,
    tier: str = "simulated",
    progress: Callable[[float], None] | None = None,
    *,
    prepare: Callable[[Any], None] | None = None,
    until_complete: bool = False,
) -> Measurements:
    """Run the experiment on a tier as `backends.run` does, between hosts that take time, and return its measurements.

    Where several flows run, a host delays each packet by up to `HOST_DELAY_PACKETS` packet times at random, unless the
    experiment says how long. So no two flows run in step. A single flow needs no such delay.

    Raises NetreproError as `backends.run` does.
    """
    experiment = between_real_hosts(experiment)
    return backends.run(experiment, tier, progress, prepare=prepare, until_complete=until_complete)


def between_real_hosts(experiment: Experiment) -> Experiment:
    """Return the experiment with the hosts' delay that `run_experiment` gives it."""
    if experiment.host_delay_packets is None and len(experiment.flow_table) > 1:
        return replace(experiment, host_delay_packets=HOST_DELAY_PACKETS)
    return experiment


def run_all(
    function: Callable[..., Value],
    work: Sequence[tuple],
    tier: str,
    progress: Progress = iter,
    *,
    n_jobs: int = -1,
) -> list[Value]:
    """Call `function` with each element of `work` like `in_parallel`; on tiers in real time, one by one."""
    return in_parallel(function, work, 1 if in_real_time(tier) else n_jobs, progress)


def measure(
    study: Study,
    setting: Any = None,
    *,
    profile: str = "quick",
    tier: str = SIMULATED,
    repetitions: int | None = None,
    seed: int = 1,
    beside: bool = True,
    progress: Progress = iter,
) -> Runs:
    """Measure every case and repetition of a study on the tier.

    beside : also measure in the simulator, and on the virtual kernel where the study has a scale for it. progress :
    wraps the list of runs, to show progress.

    Raises NetreproError for an unknown profile or tier, for a setting out of its range, a seed below 0, and fewer than
    one repetition.
    """
    seed = whole_number(seed, "seed", least=0)
    setting, scale = setting or study.setting, study.scale(profile, tier)
    check_setting(setting)
    asked = study.repetitions if repetitions is None else repetitions
    asked = whole_number(asked, "repetitions")
    if profile == "paper" and asked == study.repetitions:
        asked = max(asked, LEAST_REPETITIONS)
    times = max(scale.least_repetitions, scale.at_most(asked))
    runs = Runs(study, setting, tier, profile, seed, times, scale.seconds)
    scales = {tier: scale}
    if beside:
        also = study.scale_beside(profile)
        scales |= {SIMULATED: scale, **({VIRTUAL: also} if also else {})} | scales
    wanted = {where: list(_points(study, setting, each)) for where, each in scales.items()}
    swept = _places([point for each in wanted.values() for point in each])
    for where, own in scales.items():
        reasons = _why_not(study, own, profile, wanted[where], where, is_asked=where == tier)
        runs.skipped.update({f"{where}: {case}": why for case, why in reasons.items()})
        able = [point for point in wanted[where] if point.case not in reasons]
        work = _work(study, able, own, own.at_most(times), seed, where)
        readings = _read_all(study, work, progress)
        runs.add(gather([(point, place, readings[run]) for point, place, run in work], where, swept))
        if where == SIMULATED:
            runs.known = {run: readings[run] for run in _runs_of_knobs(runs) if run in readings}
    return runs


def _points(study: Study, setting: Any, scale: Scale) -> Iterator[Point]:
    """Yield every setting of the cases that the scale does not leave out."""
    return points({name: changes for name, changes in study.cases.items() if name not in scale.without}, setting, scale)


def _why_not(
    study: Study, scale: Scale, profile: str, wanted: Sequence[Point], tier: str, *, is_asked: bool
) -> dict[str, str]:
    """Say why cases are not run on a tier: case -> why."""
    absent = backends.why_absent(tier) if tier == VIRTUAL and not is_asked else ""
    reasons = dict.fromkeys(scale.without, f"left out at profile {profile!r} on this tier, to save time")
    return reasons | {
        point.case: why for point in wanted if (why := absent or study.why_not(point, tier, scale.seconds))
    }


def vary(runs: Runs, name: str, progress: Progress = iter) -> pd.DataFrame:
    """Turn a knob of the runs' study in the simulator; return its table, which `runs.knobs` keeps.

    The table has a row for each point and repetition, with the fields that change and the numbers read. Points that
    the simulator cannot run are left out; known runs are not run again. A knob that is a function makes the table
    itself. Raises NetreproError for an unknown knob.
    """
    study = runs.study
    if name not in study.knobs:
        raise NetreproError(f"{study.slug} has no knob {name!r}", nearest(name, study.knobs))
    knob = study.knobs[name]
    if not isinstance(knob, Knob):
        runs.knobs[name] = knob(runs, progress)
        return runs.knobs[name]
    scale = _scale_of_knob(knob, runs.profile)
    wanted = [point for point in points(knob.cases, runs.setting, scale) if not study.why_not(point, SIMULATED)]
    work = _work(study, wanted, scale, scale.at_most(knob.repetitions), runs.seed, SIMULATED)
    readings = _read_all(study, work, progress, runs.known)
    tables = gather([(point, place, readings[run]) for point, place, run in work], SIMULATED, _places(wanted))
    runs.knobs[name] = tables.values.drop(columns="tier")
    runs.knobs |= {f"{name}_{table}": tables.tables[table].drop(columns="tier") for table in knob.tables}
    return runs.knobs[name]


def setting_of(study: Study, case: str, **changed: Any) -> Any:
    """Return a case's setting with fields changed. Raises NetreproError for an unknown one, and for one out of its
    range."""
    setting = study.case(case)
    known = [each.name for each in fields(setting)]
    for name in set(changed) - set(known):
        raise NetreproError(f"the setting of {study.slug} has no {name!r}", nearest(name, known))
    setting = replace(setting, **changed)
    check_setting(replace(study.part_of(setting).setting, **changed))
    return setting


def run_once(study: Study, case: str, seconds: float, seed: int = 1, **changed: Any) -> Any:
    """Run a case once in the simulator; return Measurements, or a Reading where the study gives no `read`.

    changed : fields of the setting, which override the case. Raises NetreproError for one out of its range.
    """
    setting = setting_of(study, case, **changed)
    part = study.part_of(setting)
    if part.experiment is None or part.read is None:
        return read_once(study, setting, seconds, seed)
    return run_experiment(part.experiment(setting, seconds, seed))


def read_once(study: Study, setting: Any, seconds: float = 0.0, seed: int = 1) -> Reading:
    """Read one run of a setting, in the simulator."""
    # Papers also seed Python's random streams with it, which do not take NumPy's integers.
    seed = whole_number(seed, "seed", least=0)
    own = seed if study.seeds is seed_of else study.seeds(seed, 0)
    (reading,) = _read_together(study, [OneRun(setting, seconds, own, SIMULATED)], iter)
    return reading


def _work(
    study: Study, wanted: list[Point], scale: Scale, times: int, seed: int, tier: str
) -> list[tuple[Point, int, OneRun]]:
    """List (point, repetition, run) for each point and each of its repetitions, in their order."""
    return [
        (point, repetition, OneRun(point.setting, scale.seconds, study.seeds(seed, repetition), tier))
        for point in wanted
        for repetition in range(times)
        if repetition < scale.fewer.get(point.case, times)
    ]


def _read_all(
    study: Study,
    work: list[tuple[Point, int, OneRun]],
    progress: Progress,
    known: Mapping[OneRun, Reading] | None = None,
) -> dict[OneRun, Reading]:
    """Measure each run of the work and return its reading.

    First repetitions come first, and runs that need the machine for themselves last. Known runs are not measured
    again.
    """
    readings = dict(known or {})
    in_order = [run for _, repetition, run in sorted(work, key=lambda each: each[1])]
    new = [run for run in dict.fromkeys(in_order) if run not in readings]
    alone = [run for run in new if study.in_turn is not None and study.in_turn(run.setting)]
    together = [run for run in new if run not in alone]
    if study.measure_all is not None:
        read = _read_together(study, together, progress)
    else:
        read = run_all(_read, [(study, run) for run in together], new[0].tier if new else SIMULATED, progress)
    readings |= zip(together, read, strict=True)
    return readings | {run: _read_together(study, [run], iter)[0] for run in alone}


def _read_together(study: Study, runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read runs of one tier, with one call where the study measures all together."""
    if study.measure_all is None:
        return [_read(study, run) for run in runs]
    if not runs:
        return []
    with _parameters_named(study, runs[0].setting):
        return [_checked(study, each) for each in study.measure_all(runs, progress)]


def _read(study: Study, run: OneRun) -> Reading:
    with _parameters_named(study, run.setting):
        part = study.part_of(run.setting)
        if part.measure_one is not None:
            return _checked(study, part.measure_one(run.setting, run.seconds, run.seed, run.tier))
        assert part.experiment is not None and part.read is not None
        asked = part.experiment(run.setting, run.seconds, run.seed)
        measured = run_experiment(asked, run.tier, until_complete=part.until_complete)
        return replace(_checked(study, part.read(measured, run.setting)), fidelity=measured.fidelity)


def _checked(study: Study, reading: Any) -> Reading:
    if not isinstance(reading, Reading):
        what = f"{study.slug}: what is read of a run is of type {type(reading).__name__}"
        raise NetreproError(what, "return Reading(numbers, tables, checks)")
    return reading


@contextmanager
def _parameters_named(study: Study, setting: Any) -> Iterator[None]:
    """Name the parameters that are not at their defaults in an error of the block: one of them may be the cause."""
    try:
        yield
    except NetreproError as refused:
        values = {each.name: getattr(setting, each.name) for each in parameter_fields(setting)}
        usual = study.part_of(setting).setting
        changed = [f"{name} = {value!r}" for name, value in values.items() if value != getattr(usual, name)]
        if not changed:
            raise
        raise NetreproError(f"with {', '.join(changed)}: {refused.problem}", refused.remedy) from refused


def _scale_of_knob(knob: Knob, profile: str) -> Scale:
    if profile == "quick" and knob.quick is not None:
        return knob.quick
    return knob.scale if isinstance(knob.scale, Scale) else of_profile(profile, knob.scale)


def _runs_of_knobs(runs: Runs) -> set[OneRun]:
    """Collect the simulator runs that all knobs together need."""
    return {
        run
        for knob in runs.study.knobs.values()
        if isinstance(knob, Knob)
        for scale in [_scale_of_knob(knob, runs.profile)]
        for wanted in [list(points(knob.cases, runs.setting, scale))]
        for *_, run in _work(runs.study, wanted, scale, scale.at_most(knob.repetitions), runs.seed, SIMULATED)
    }


def _places(wanted: Sequence[Point]) -> list[str]:
    """List the fields that any of the points sweeps."""
    return list(dict.fromkeys(name for point in wanted for name in point.swept))
