"""Execute notebooks headlessly: check everything first, run in two lanes, keep every finished run in runs/.

The compute lane runs several notebooks at a time, each in its own process. The quiet lane (emulated, timing-sensitive)
runs one notebook at a time with nothing beside it. With a Dask scheduler, the same jobs go to its workers, and the
quiet lane asks for the worker resource `quiet_machine`. Notebooks that read other runs stay on this machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from netrepro.emulation.tiers import VIRTUAL_TIME_TIERS, probe_tiers, resolve_tier
from netrepro.errors import NetreproError
from netrepro.files import (
    held,
    is_own,
    left_behind,
    remove,
    unique_word,
    write_atomically,
)
from netrepro.paths import check_writable, runs_dir, workbench_root
from netrepro.provenance import check_code, code_hash
from netrepro.tiers_and_profiles import TIERS, check_profile, check_tier
from netrepro.workbench.catalogue.notebooks import Declaration, Notebook, find, select
from netrepro.workbench.catalogue.parameters import check_parameters, files_named
from netrepro.workbench.catalogue.settings_cells import check_in_setting
from netrepro.workbench.code import code_of, forget
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.events import RunEvent, RunReport
from netrepro.workbench.running.kernel_beside import KernelBuild, building
from netrepro.workbench.running.lanes import Lane, lanes
from netrepro.workbench.running.manifest import notebook_fingerprint
from netrepro.workbench.running.run_folder import Job, Progress, Status, folder_suffix
from netrepro.workbench.running.standard import changed_parameters, edited_inputs, run_command
from netrepro.workbench.running.stopping import stop_on_interrupt

if TYPE_CHECKING:
    pass

POLL_S = 0.1
START_S = 180  # time for a kernel to start, in addition to the notebook's budget


Resume = bool | Literal["same library"]


def run(
    names: Sequence[str] | None = None,
    *,
    profile: str = "quick",
    tier: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    resume: Resume = False,
    patience: float = 3.0,
    into: Path | None = None,
    build_kernel: bool = False,
    both: bool = False,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunReport:
    """Execute notebooks and return how each ended; figures/ is not changed (see `publish`).

    Parameters
    ----------
    names : slugs, or None for the whole set.
    profile : "quick" or "paper" (the published scale).
    tier : "auto", or a tier that each named notebook must support.
    parameters : values for notebook parameters; every named notebook must have each of them.
    jobs : number of notebooks at a time in the compute lane; default: one for each core.
    scheduler : address of a Dask scheduler ("tcp://…"), whose workers have this library, instead of local processes.
    resume : True reuses runs that ended well with the same notebook, data and parameters, and with the same code
        behind the numbers (`netrepro.workbench.code`); "same library" only those of exactly this library, whose
        pictures and texts are those of today, too.
    patience : a cell's time limit, as a multiple of the notebook's declared budget. Time spent waiting for processors
        that other programs use does not count.
    into : the folder for executed notebooks, figures, results, logs and manifests; default: runs/<profile>/. A run
        whose parameters are not the committed notebook's defaults gets its own folder, named after them.
    build_kernel : build the virtual kernel where it is missing. Notebooks that use it wait for it, the others run
        meanwhile. Where it cannot be built, they run without it, and `RunReport.no_kernel` says why.
    both : execute notebooks that declare both_kinds twice: on the tier that "auto" takes, and on a tier of the other
        kind (simulator or real kernels) if the machine has one.
    on_event : called with a RunEvent at every start, at the end of every run, and several times a second in between.

    Raises
    ------
    NetreproError : before anything starts, for an unknown notebook, profile, tier or parameter, a value of the wrong
        type, a folder that cannot be written, or `both` with a tier. An error in a notebook raises nothing: see its
        Status.
    """
    if both and tier != "auto":
        raise NetreproError(f"--both with --tier {tier}", "leave --tier out: --both chooses two tiers for a notebook")
    asked = [(notebook, dict(parameters or {})) for notebook in select(names)]
    settings = _Settings(profile, tier, into or runs_dir() / profile, workers(jobs), patience, scheduler=scheduler)
    with building(build_kernel, lambda line: on_event(RunEvent("kernel", "", 0, reason=line))) as build:
        plan = partial(_plan, settings=settings, named=bool(names), on_event=on_event, both_kinds=both)
        now, rest = asked, None
        if build is not None:
            now = [pair for pair in asked if not _awaits_kernel(pair[0], tier)]
            if now:
                rest = _Rest(build, lambda: plan(asked)[0])
            else:
                build.wait()
                now = asked
        planned, refused = plan(now)
        if note := run_folder.note_of_edits([item.job for item in planned]):
            on_event(RunEvent("note", "", 0, reason=note))
        report = _execute(planned, refused, settings, resume, on_event, rest)
        report.no_kernel = "" if build is None else build.problem
        return report


def _awaits_kernel(notebook: Notebook, tier: str) -> bool:
    """Tell whether a notebook may use the virtual kernel when it runs first; its second run on a tier of the other kind
    is planned once there is a kernel."""
    declared = notebook.declaration
    prefers = tier == "auto" and "virtual" in declared.tiers and declared.tiers[0] != "simulated"
    return not notebook.problem and (declared.beside_kernel or tier == "virtual" or prefers)


@dataclass(frozen=True)
class _Rest:
    """The runs that wait for the build of the virtual kernel, among them second runs of notebooks that do not wait.

    plan_all : plans all runs anew, once the build has ended.
    """

    build: KernelBuild
    plan_all: Callable[[], list[_Planned]]


def run_variants(
    name: str,
    variants: Sequence[Mapping[str, Any]],
    *,
    into: Path,
    profile: str = "quick",
    tier: str = "auto",
    jobs: int | None = None,
    scheduler: str | None = None,
    resume: Resume = False,
    patience: float = 3.0,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunReport:
    """Execute one notebook once for each set of parameters, in a folder named after the set; otherwise like `run`."""
    asked = [(find(name), dict(variant)) for variant in variants]
    settings = _Settings(profile, tier, into, workers(jobs), patience, scheduler=scheduler, variants=True)
    planned, refused = _plan(asked, settings, True, on_event)
    return _execute(planned, refused, settings, resume, on_event)


@dataclass(frozen=True)
class Copy:
    """A file to execute like the notebook that it is a copy of.

    notebook : that notebook's description, with the path of the copy.
    parameters : values for its parameters.
    shut_in_with : for an untrusted copy, which runs in a sandbox: the folder that it sees as notebooks/.
    """

    notebook: Notebook
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shut_in_with: Path | None = None


def run_copies(
    copies: Sequence[Copy],
    *,
    into: Path,
    jobs: int | None = None,
    patience: float = 3.0,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunReport:
    """Execute files other than the workbench's own notebooks, in the quick profile; otherwise like `run`."""
    settings = _Settings("quick", "auto", into, workers(jobs), patience)
    shut_in = {copy.notebook.path: copy.shut_in_with for copy in copies}
    planned, refused = _plan([(copy.notebook, dict(copy.parameters)) for copy in copies], settings, False, on_event)
    planned = [
        replace(item, job=item.job.model_copy(update={"shut_in_with": shut_in[item.job.notebook]})) for item in planned
    ]
    return _execute(planned, refused, settings, False, on_event)


def run_on_tiers(
    wanted: Sequence[tuple[str, str]],
    profile: str,
    *,
    jobs: int | None = None,
    resume: Resume = False,
    patience: float = 3.0,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunReport:
    """Execute notebooks with their standard settings, each on its own tier; otherwise like `run`.

    wanted : pairs (slug, tier); a notebook may occur with several tiers.
    """
    shared = _Settings(profile, "auto", runs_dir() / profile, workers(jobs), patience)
    planned: list[_Planned] = []
    refused: list[Status] = []
    for slug, tier in wanted:
        notebook = find(slug)
        settings = replace(shared, tier="auto" if tier == _usual_tier(notebook.declaration) else tier)
        also_planned, also_refused = _plan([(notebook, {})], settings, True, on_event)
        planned += also_planned
        refused += also_refused
    return _execute(planned, refused, shared, resume, on_event)


def workers(jobs: int | None) -> int:
    """Return how many notebooks run at a time: `jobs`, or one for each processor. Raises NetreproError for jobs < 1."""
    if jobs is not None and jobs < 1:
        raise NetreproError(f"jobs = {jobs}", "how many run at a time is 1 or more")
    return len(os.sched_getaffinity(0)) if jobs is None else jobs


def _library() -> str:
    """Return the library's hash as its files are now, and forget what was read of them before."""
    forget()
    return code_hash()


@dataclass(frozen=True)
class _Settings:
    """The settings that all notebooks of one call share."""

    profile: str
    tier: str
    folder: Path
    workers: int
    patience: float
    scheduler: str | None = None
    variants: bool = False
    code: str = field(default_factory=_library)
    word: str = field(default_factory=unique_word)  # ends the name of each unfinished folder


def _execute(
    planned: list[_Planned],
    refused: list[Status],
    settings: _Settings,
    resume: Resume,
    on_event: Callable[[RunEvent], None],
    rest: _Rest | None = None,
) -> RunReport:
    report = RunReport()
    for status in refused:
        report.statuses.append(status)
        on_event(RunEvent("ended", status.name, status.budget_s, status=status))
    order: dict[str, int] = {}

    def add(every: Sequence[_Planned]) -> list[_Planned]:
        """Note the order of all runs; return those of them that are new and have not been taken over."""
        new = [item for item in every if item.job.name not in order]
        order.update({item.job.name: index for index, item in enumerate(every)})
        return [item for item in new if not (resume and _take_over(item, report, on_event, resume == "same library"))]

    def add_rest() -> list[_Planned] | None:
        """Return what joins the first group once there is a kernel; None while it is being built."""
        assert rest is not None
        if not rest.build.has_ended():
            return None
        probe_tiers.cache_clear()
        new = add(rest.plan_all())
        to_run.extend(new)
        return _group(new, *_PHASES[0])

    to_run = add(planned)
    with (
        _alive(settings),
        lanes(settings.workers, settings.scheduler, on_event) as lane_of,
        stop_on_interrupt() as stop,
    ):
        for phase in _PHASES:
            group, more = _group(to_run, *phase), add_rest if rest is not None and phase == _PHASES[0] else None
            if group or more:
                _run_group(group, lane_of(*phase), stop, report, on_event, more)
    report.statuses.sort(key=lambda status: order.get(status.name, -1))
    return report


@dataclass(frozen=True)
class _Planned:
    """A job, the final place of its folder, its lane, whether it runs after all others (`last`), and the seconds that
    it is expected to take."""

    job: Job
    final: Path
    lane: str
    last: bool
    expected_s: float


def _plan(
    asked: Sequence[tuple[Notebook, dict[str, Any]]],
    settings: _Settings,
    named: bool,
    on_event: Callable[[RunEvent], None],
    *,
    both_kinds: bool = False,
) -> tuple[list[_Planned], list[Status]]:
    """Check everything that can be checked before anything starts; return the jobs and the notebooks refused.

    named : whether the user named the notebooks. Then a tier that is missing raises; otherwise the notebook is skipped.
    both_kinds : whether notebooks that declare both_kinds run on both kinds of tiers.
    """
    check_profile(settings.profile)
    check_tier(settings.tier, or_auto=True)
    if not 0 < settings.patience < float("inf"):
        raise NetreproError(f"patience = {settings.patience}", "it must be positive")
    for name, chosen in (("profile", settings.profile), ("tier", settings.tier)):
        others = {str(given[name]) for _, given in asked if name in given} - {chosen}
        if others:
            raise NetreproError(f"-p {name}={others.pop()}", f"choose it by --{name}, which sets budgets and lanes too")
    checked = [
        (notebook, check_parameters(notebook.parameters, given, notebook.slug))
        for notebook, given in asked
        if not notebook.problem
    ]
    check_code()
    check_writable(settings.folder)
    settings.folder.mkdir(parents=True, exist_ok=True)
    refused = [_refusal(notebook, settings) for notebook, _ in asked if notebook.problem]
    planned = []
    for notebook, given in checked:
        try:
            tier = resolve_tier(settings.tier, notebook.declaration.tiers, probe_tiers())
        except NetreproError as error:
            if named:
                raise
            on_event(RunEvent("skipped", notebook.name, 0, reason=error.problem))
            continue
        planned.append(_plan_one(notebook, given, tier, settings))
        for other in second_tier(notebook.declaration) if both_kinds else ():
            why = probe_tiers()[other].why
            planned.append(_plan_one(notebook, given, (other, why), replace(settings, tier=other)))
    return planned, refused


def second_tier(declared: Declaration) -> list[str]:
    """List the tier that a notebook with both_kinds runs on besides the one that "auto" takes: the best one of the
    other kind that it supports and this machine has. The two kinds are the simulator and real kernels."""
    if not declared.both_kinds:
        return []
    probe, is_simulated = probe_tiers(), _usual_tier(declared) == "simulated"
    others = [each for each in TIERS if each in declared.tiers and (each == "simulated") != is_simulated]
    return [each for each in others if probe[each].available][:1]


def _usual_tier(declared: Declaration) -> str:
    """Return the tier that "auto" takes here."""
    return resolve_tier("auto", declared.tiers, probe_tiers())[0]


def lane_on(declared: Declaration, tier: str) -> str:
    """Return the lane that a notebook runs in; a tier in real time needs the machine to itself."""
    return declared.lane if tier in VIRTUAL_TIME_TIERS else "quiet"


def _plan_one(
    notebook: Notebook,
    given: dict[str, Any],
    resolved_tier: tuple[str, str],
    settings: _Settings,
) -> _Planned:
    check_in_setting(notebook, given)
    declared, (tier, why_tier) = notebook.declaration, resolved_tier
    lane = lane_on(declared, tier)
    standard = {"profile": settings.profile, "tier": tier}
    values = {name: value for name, value in standard.items() if name in notebook.parameters} | given
    root, budget_s = workbench_root(), declared.budget_on(tier, settings.profile)
    used = {name: values.get(name, item.default) for name, item in notebook.parameters.items()}
    changed = changed_parameters(notebook, used)
    named = (given if settings.variants else {}) | changed | ({} if settings.tier == "auto" else {"tier": tier})
    final = settings.folder / (notebook.name + folder_suffix(named))
    for place in (final, run_folder.failed_beside(final)):
        run_folder.check_replaceable(place)
    inputs = files_named(notebook.parameters, used, notebook.path.parent)
    given_paths = [name for name in given if notebook.parameters[name].names_path(values[name])]
    shown = {
        "slug": notebook.slug,
        "profile": settings.profile,
        "tier": tier,
        "why_tier": why_tier,
        "lane": lane,
        "budget_s": budget_s,
        "usual_tier": _usual_tier(declared),  # figures of this tier are published
        "parameters": used,
        "changed": changed,
        "edited": edited_inputs(notebook),
    }
    job = Job(
        slug=notebook.slug,
        name=final.name,
        kind=declared.kind,
        notebook=notebook.path,
        folder=settings.folder / f"{run_folder.PARTIAL}{final.name}-{settings.word}",
        root=root,
        parameters=values,
        inputs=given_paths,
        budget_s=budget_s,
        cell_limit_s=settings.patience * budget_s,
        total_limit_s=settings.patience * budget_s + START_S,
        memory_mb=declared.memory_mb[settings.profile],
        command=run_command(
            notebook.slug, settings.profile, settings.tier, changed | given, scheduler=settings.scheduler
        ),
        threads=1 if lane == "quiet" else max(1, len(os.sched_getaffinity(0)) // settings.workers),
        manifest=shown,
        fingerprint=notebook_fingerprint(
            notebook.path,
            notebook.slug,
            standard | values,
            root,
            code_of(notebook.slug, tier) or settings.code,
            inputs,
        ),
        code=settings.code,
    )
    return _Planned(job, final, lane, declared.last, run_folder.expected_s(job, final, f"{settings.profile}/{tier}"))


@contextmanager
def _alive(settings: _Settings) -> Iterator[None]:
    """Show by a lock that this runner is alive, so that others leave its folders alone; tidy up after dead runners."""
    folder = settings.folder
    with held(folder / f"{run_folder.LIVING}{settings.word}"):
        for lock in sorted(folder.iterdir()):
            named = run_folder.LOCK.fullmatch(lock.name)
            if named and named["word"] != settings.word and is_own(lock):
                with left_behind(lock) as is_dead:
                    for path in sorted(folder.iterdir()) if is_dead else []:
                        made = run_folder.UNFINISHED.fullmatch(path.name)
                        if made and made["word"] == named["word"] and is_own(path):
                            _tidy(path, path.with_name(made["name"]) if made["kind"] == run_folder.ASIDE else None)
        yield


def _tidy(path: Path, final: Path | None) -> None:
    """Remove an unfinished folder of a dead runner. A good run that it had set aside gets its name `final` back."""
    if final is not None and not final.exists():
        with suppress(OSError):
            path.rename(final)
    remove(path)


def _refusal(notebook: Notebook, settings: _Settings) -> Status:
    return Status(
        slug=notebook.slug,
        name=notebook.name,
        outcome="failed",
        seconds=0,
        budget_s=notebook.declaration.budget_s[settings.profile],
        exception=notebook.problem,
        command=run_command(notebook.slug, settings.profile, "auto", {}, scheduler=settings.scheduler),
    )


def _take_over(item: _Planned, report: RunReport, on_event: Callable[[RunEvent], None], same_library: bool) -> bool:
    """Report the last good run as reused where its fingerprint is the same; return whether it was."""
    status = run_folder.good_status(item.final)
    if item.last or status is None or status.fingerprint != item.job.fingerprint:
        return False
    if same_library and status.code != item.job.code:
        return False
    status.reused = True
    report.statuses.append(status)
    on_event(RunEvent("ended", status.name, status.budget_s, status.seconds, status=status))
    return True


# (lane, last) of the groups that run one after the other.
_PHASES = (("compute", False), ("quiet", False), ("compute", True), ("quiet", True))


def _group(planned: Sequence[_Planned], lane: str, last: bool) -> list[_Planned]:
    """List the jobs of a group: the shortest, so that there is something to see soon, and then the longest first."""
    group = [item for item in planned if item.last == last and item.lane == lane]
    group.sort(key=lambda item: -item.expected_s)
    return [*group[-1:], *group[:-1]]


def _run_group(
    group: list[_Planned],
    lane: Lane,
    stop: threading.Event,
    report: RunReport,
    on_event: Callable[[RunEvent], None],
    more: Callable[[], list[_Planned] | None] | None = None,
) -> None:
    """Run jobs that may run beside each other. When `stop` is set, ask all to end and wait until they have ended.

    It also asks them to end where this process cannot go on, for example because nobody reads its output any more.
    more : called now and then until it returns jobs that join the group.
    """
    started: dict[str, float] = {}
    pending: dict[Future, _Planned] = {}

    def submit(items: Sequence[_Planned]) -> None:
        for item in items:
            _write_job(item.job)
            if stop.is_set():
                (item.job.folder / run_folder.CANCEL).touch()
            pending[lane.submit(item.job.folder)] = item

    try:
        submit(group)
        while pending or more is not None:
            if stop.is_set():
                more = None
            elif more is not None and (joining := more()) is not None:
                more = None
                group += joining
                submit(joining)
            if stop.is_set() and not report.interrupted:
                report.interrupted = True
                _ask_to_end(pending.values())
                lane.stop()
            lane.look()
            done, _ = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
            if not pending and more is not None:
                time.sleep(POLL_S)
            for future in done:
                _finish(pending.pop(future), future, report, on_event)
            for item in pending.values():
                _tell_progress(item.job, started, on_event)
    except BaseException:
        _ask_to_end(pending.values())
        lane.end()
        raise
    finally:
        for item in group:
            remove(item.job.folder)


def _ask_to_end(items: Iterable[_Planned]) -> None:
    for item in items:
        with suppress(OSError):
            (item.job.folder / run_folder.CANCEL).touch()


def _write_job(job: Job) -> None:
    job.folder.mkdir(mode=0o700 if job.shut_in_with else 0o777, parents=True)
    write_atomically(job.folder / run_folder.JOB, job.model_dump_json(indent=1))


def _tell_progress(job: Job, started: dict[str, float], on_event: Callable[[RunEvent], None]) -> None:
    try:
        progress = Progress.model_validate_json((job.folder / run_folder.PROGRESS).read_text())
    except (OSError, ValueError):
        if not (job.folder / run_folder.RUNNER_LOG).exists():
            return  # the job still waits for its turn
        progress = Progress()
    if job.name not in started:
        started[job.name] = time.monotonic()
        on_event(RunEvent("started", job.name, job.budget_s))
    on_event(RunEvent("progress", job.name, job.budget_s, time.monotonic() - started[job.name], progress))


def _finish(item: _Planned, future: Future, report: RunReport, on_event: Callable[[RunEvent], None]) -> None:
    """Report how a job ended and keep its folder; an interrupted run leaves nothing."""
    job = item.job
    try:
        status = future.result()
    except Exception as error:  # for example a lost Dask worker
        status = Status(
            slug=job.slug,
            name=job.name,
            outcome="failed",
            seconds=0,
            budget_s=job.budget_s,
            exception=f"{type(error).__name__}: {error}",
            command=job.command,
        )
    if status.outcome != "interrupted":
        try:
            run_folder.keep(job, item.final, status)
        except OSError as error:
            status.outcome, status.folder = "failed", run_folder.keep_what_is_left(job, item.final)
            status.exception = f"its results cannot be kept: {error.strerror} ({error.filename or item.final})"
    report.statuses.append(status)
    on_event(RunEvent("ended", job.name, job.budget_s, status.seconds, status=status))
