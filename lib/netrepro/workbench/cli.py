"""The command line: a thin mirror of functions that a notebook can call."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from netrepro.errors import NetreproError

if TYPE_CHECKING:
    from pandas import DataFrame

    from netrepro.workbench.catalogue import Notebook
    from netrepro.workbench.runner import Event, RunReport

app = typer.Typer(
    help="Published network-systems results, run again.", no_args_is_help=True, pretty_exceptions_enable=False
)
console = Console()

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="notebooks; none: all of them")]
Profile = Annotated[str, typer.Option(help="quick, or paper (the published scale)")]
Tier = Annotated[str, typer.Option(help="auto, virtual, privileged, rootless or simulated")]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="may be repeated")
]
Jobs = Annotated[int | None, typer.Option(help="notebooks at a time in the compute lane [default: one a core]")]
Scheduler = Annotated[str | None, typer.Option(help="address of a Dask scheduler, tcp://…")]
Resume = Annotated[bool, typer.Option("--resume", help="keep runs that ended well and whose inputs are unchanged")]
Json = Annotated[bool, typer.Option("--json", help="as JSON, for programs")]
Patience = Annotated[float, typer.Option(help="a cell may take this many times the declared budget")]


def _say_version(asked: bool) -> None:
    if asked:
        from netrepro import __version__

        _print_lines([f"netrepro {__version__}"])
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="say it")] = False,
) -> None:
    """Published network-systems results, run again."""


@app.command()
def run(
    slugs: Slugs = None,
    profile: Profile = "quick",
    tier: Tier = "auto",
    parameter: Parameters = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    patience: Patience = 3.0,
) -> None:
    """Execute notebooks headlessly; end with one's own scorecard beside the published one."""
    given = _assignments(parameter)
    if given:
        _check_early(slugs, given)
    from netrepro.workbench.runner import run as run_notebooks

    with _told() as told:
        report = run_notebooks(
            slugs,
            profile=profile,
            tier=tier,
            parameters=given,
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            patience=patience,
            on_event=told,
        )
    code = report.exit_code
    if not given and (papers := _papers_of(report, slugs)) != []:
        try:
            code = code or int(_print_scorecard(papers))
        except NetreproError as error:  # a malformed claims.yaml must not hide how the notebooks ended
            console.print(f"no scorecard: {error}", style="red", markup=False, soft_wrap=True)
            code = code or 1
    _print_failures(report)  # after the scorecard, which is long
    _print_untrusted(report)
    _print_places(report)
    ended = {outcome: sum(status.outcome == outcome for status in report.statuses) for outcome in _outcomes(report)}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in ended.items()) or "nothing to run")
    raise typer.Exit(code)


@app.command()
def publish(
    slugs: Slugs = None,
    every: Annotated[bool, typer.Option("--all", help="every paper that has a good run")] = False,
    run: Annotated[Path | None, typer.Option(help="the folder of this run, instead of the newest")] = None,
    profile: Annotated[str | None, typer.Option(help="only runs of this profile")] = None,
    tier: Annotated[str | None, typer.Option(help="only runs of this tier")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would change")] = False,
    dirty: Annotated[bool, typer.Option("--dirty", help="take runs of a library that was not committed")] = False,
    fewer: Annotated[bool, typer.Option("--fewer", help="take runs with fewer claims or figures")] = False,
    pictures: Annotated[bool | None, typer.Option(help="publish the figures too [default: the best run's]")] = None,
) -> None:
    """Copy figures and results of good runs from runs/ to figures/, after showing what would change."""
    if sum([bool(slugs), every, run is not None]) != 1:
        raise NetreproError("what is to be published?", "name papers, or give --all, or --run FOLDER")
    from netrepro.workbench.publishing import Publication
    from netrepro.workbench.publishing import publish as publish_runs

    answers: list[bool] = []

    def agree(plan: list[Publication]) -> bool:
        _print_lines(item.text() for item in plan)
        answers.append(yes or (sys.stdin.isatty() and typer.confirm("Publish this?")))
        return answers[0]

    plan = publish_runs(
        slugs,
        run=run,
        profile=profile,
        tier=tier,
        dirty=dirty,
        fewer=fewer,
        pictures=pictures,
        dry_run=dry_run,
        agree=agree,
    )
    if not answers:
        _print_lines(item.text() for item in plan)
    published = sum(bool(item.changes) and not item.refusals for item in plan) if answers == [True] else 0
    refused = sum(bool(item.refusals) for item in plan)
    _print_lines([f"{published} published, {refused} refused, of {len(plan)} runs" + " (dry run)" * dry_run])
    if answers == [False]:
        _print_lines(["nothing was published: answer with yes, or give --yes"])
    if published:
        _print_lines(["to refresh the README's excerpt: netrepro scorecard --readme"])
    raise typer.Exit(int(bool(refused) or answers == [False]))


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="a folder, or its name below runs/, or a published slug")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="another")],
    into: Annotated[Path | None, typer.Option(help="the page to write [default: below runs/compare/]")] = None,
) -> None:
    """Put two runs beside each other: settings, values, verdicts; as a page with their figures too."""
    from netrepro.workbench.comparison import compare as compare_runs

    done = compare_runs(first, second)
    _print_lines(done.lines())
    _print_lines([f"with figures: {_short(done.write(into))}"])


@app.command("list")
def list_notebooks(as_json: Json = False) -> None:
    """Name every notebook, its declared cost, lane, tiers and question."""
    from netrepro.workbench.catalogue import catalogue, strays
    from netrepro.workbench.lines import columns_of, folded

    notebooks = catalogue()
    if as_json:
        _print_json([_described(notebook) for notebook in notebooks])
        return
    rows = [["slug", "quick", "paper", "lane"]]
    for notebook in notebooks:
        declared = notebook.declaration
        cost = [f"{declared.budget_s[name]:.0f} s" for name in ("quick", "paper")]
        rows.append([notebook.slug, *cost, declared.lane])
    heads = columns_of(rows)
    _print_lines(heads[:1])
    for line, notebook in zip(heads[1:], notebooks, strict=True):
        tiers = [] if notebook.problem else folded(f"on {', '.join(notebook.declaration.tiers)}", "    ")
        _print_lines([line, *folded(notebook.problem or notebook.title, "    "), *tiers])
    for name in strays():
        _print_lines(folded(f"! {name} is left out: its name has no number, as in 70_red_queue.ipynb", "", "  "))


@app.command()
def show(slug: str, as_json: Json = False) -> None:
    """Show a notebook's parameters with types, defaults, ranges and help, and what it costs."""
    from netrepro.workbench.catalogue import find
    from netrepro.workbench.lines import folded

    notebook = find(slug)
    if notebook.problem:
        raise NetreproError(notebook.problem)
    if as_json:
        _print_json(_described(notebook))
        return
    declared = notebook.declaration
    _print_lines([*folded(f"{notebook.title} ({notebook.path.name})"), *folded(f"tiers: {', '.join(declared.tiers)}")])
    for profile in ("quick", "paper"):
        _print_lines([f"{profile}: {declared.budget_s[profile]:.0f} s, {declared.memory_mb[profile]} MB"])
    for item in notebook.parameters.values():
        _print_lines(["", *folded(f"{item.name}: {item.type} = {item.default!r}"), *folded(item.help, "    ")])


def _described(notebook: Notebook) -> dict[str, Any]:
    """A notebook as JSON."""
    return {
        "slug": notebook.slug,
        "file": notebook.path.name,
        "question": notebook.title,
        "problem": notebook.problem,
        **notebook.declaration.model_dump(exclude={"slug"}),
        "parameters": [asdict(item) for item in notebook.parameters.values()],
    }


@app.command()
def sweep(
    slug: str,
    vary: Annotated[str, typer.Option(metavar="NAME=A..B", help="NAME=A..B, or NAME=A,B,C")],
    points: Annotated[int, typer.Option(help="how many values of a range")] = 9,
    profile: Profile = "quick",
    tier: Tier = "auto",
    parameter: Parameters = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
) -> None:
    """Run a notebook over values of one parameter; a table and a figure land under runs/sweeps/."""
    from netrepro.workbench.sweeping import cost_of
    from netrepro.workbench.sweeping import sweep as run_sweep

    cost = cost_of(slug, vary, points=points, profile=profile, tier=tier, jobs=jobs)
    _print_lines([cost] if cost else [])
    with _told() as told:
        done = run_sweep(
            slug,
            vary,
            points=points,
            profile=profile,
            tier=tier,
            parameters=_assignments(parameter),
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            on_event=told,
        )
    _print_failures(done.report)
    name = vary.partition("=")[0]
    console.print(done.table.dropna(subset=["value"]).pivot_table(index="claim", columns=name, values="value"))
    console.print(f"table and figure: {_short(done.folder)}/sweep.csv, sweep.png")
    raise typer.Exit(done.report.exit_code)


kernel = typer.Typer(help="The kernel in virtual time: build it, say where it is, look inside.", no_args_is_help=True)
app.add_typer(kernel, name="kernel")


@kernel.command("build")
def build_kernel(
    jobs: Annotated[int | None, typer.Option(help="compilers at a time [default: one a core]")] = None,
    source: Annotated[
        Path | None, typer.Option(help="a linux source archive or folder [default: the newest package that apt has]")
    ] = None,
    quietly: Annotated[
        bool, typer.Option("--if-possible", help="say in one line what is missing, and fail never")
    ] = False,
) -> None:
    """Build it from the distribution's source package, or from one that you name, into your cache; minutes, once."""
    from rich.progress import Progress

    from netrepro.emulation.virtual.kernel import Source, kernel_path
    from netrepro.emulation.virtual.kernel import build_kernel as build

    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task, before = bar.add_task("the virtual kernel", total=1.0), ""

            def tell(what: str, share: float) -> None:
                nonlocal before
                if what != before and not console.is_terminal:
                    console.print(f"  the virtual kernel: {what} ...", markup=False, soft_wrap=True)
                before = what
                bar.update(task, description=what, completed=share)

            path = build(tell, Source.at(source) if source else None, jobs=jobs)
    except NetreproError as error:
        if not quietly:
            raise
        console.print(
            f"no virtual kernel: {error.remedy or error.problem}".splitlines()[0], markup=False, soft_wrap=True
        )
        return
    console.print(f"the virtual kernel: {path} ({path.stat().st_size / 1e6:.1f} MB)", soft_wrap=True)
    if path != kernel_path():
        console.print(f"not what runs, as a newer one is there: {kernel_path()}", markup=False, soft_wrap=True)


@kernel.command("path")
def show_kernel_path() -> None:
    """Print where it is."""
    from netrepro.emulation.virtual.kernel import kernel_path

    typer.echo(kernel_path())


@kernel.command("shell")
def kernel_shell() -> None:
    """Run a shell inside it, as its root; virtual time passes as commands sleep or wait for packets."""
    from netrepro.emulation.virtual.instance import run_shell

    raise typer.Exit(run_shell())


@app.command()
def draw(
    slug: str,
    folder: Annotated[Path | None, typer.Option("--from", help="folder of a run [default: the newest]")] = None,
) -> None:
    """Draw a paper's figures again, and judge its claims, from the tables of a run; nothing is measured."""
    from netrepro.workbench.redraw import redraw

    found, verdicts = redraw(slug, folder)
    console.print(verdicts.to_string(index=False), markup=False, soft_wrap=True)
    console.print(f"figures: {_short(found)}")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine can do, and what each notebook would use."""
    from netrepro.workbench.doctor import examine

    found = examine()
    if as_json:
        _print_json({name: _records(table) for name, table in found.tables().items()})
    else:
        _print_lines(found.lines())


@app.command()
def capture(
    into: Annotated[Path, typer.Option(help="folder for the captures, the flows and the log")],
    seconds: Annotated[float, typer.Option(help="how long each day is")] = 240.0,
    scale: Annotated[float, typer.Option(help="times about 5,000 flows a day")] = 1.0,
    days: Annotated[int, typer.Option(help="runs, each on a day of its own")] = 2,
    seed: Annotated[int, typer.Option(help="of who does what when")] = 1,
) -> None:
    """Make a labelled capture of real applications in virtual time, as data/gmm_traffic/standin."""
    from tqdm import tqdm

    from netrepro.applications.labelled_traffic import make_capture

    cost = f"{days} x {seconds:g} s of traffic in virtual time, about {scale * 5000 * days:,.0f} flows"
    waits = "a minute to start each, and a processor's second or more each second"
    console.print(f"{cost}: {waits}", markup=False, soft_wrap=True)
    made = make_capture(into, seconds=seconds, scale=scale, days=days, seed=seed, progress=partial(tqdm, disable=None))
    console.print(made.to_string())


@app.command()
def new(
    slug: Annotated[str, typer.Argument(help="small letters, digits and _, such as red_queue")],
    number: Annotated[int | None, typer.Option(help="of the notebook's file [default: a free one from 70 on]")] = None,
) -> None:
    """Begin a paper: module, claims, notebook and test that run, to be filled."""
    from netrepro.workbench.skeleton import new_paper

    made = new_paper(slug, number)
    _print_lines(["written, with an invented claim to replace:", *(f"  {_short(path)}" for path in made)])
    _print_lines([f"it runs: netrepro run {slug}; its test: pytest {_short(made[3])}"])


@app.command()
def exercises(
    slugs: Slugs = None,
    into: Annotated[Path | None, typer.Option(help="write class copies, without solutions, to this folder")] = None,
    grade: Annotated[Path | None, typer.Option(help="execute and grade what students handed in there")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """List the notebooks' exercises; write copies for a class; grade what students hand in."""
    if into is not None and grade is not None:
        raise NetreproError("--into and --grade", "give one of them")
    if into is not None:
        from netrepro.workbench.exercises import write_class_copies

        made = write_class_copies(into, slugs)
        _print_lines([f"{len(made)} notebooks without solutions: {_short(into)}/"])
    elif grade is not None:
        if slugs:
            raise NetreproError("--grade takes no notebooks", "each file says which notebook it is a copy of")
        from netrepro.workbench.grading import GRADED, RESULTS, STUDENTS, by_student
        from netrepro.workbench.grading import grade as grade_folder

        with _told() as told:
            table = grade_folder(grade, jobs=jobs, on_event=told)
        from netrepro.workbench.lines import columns_of

        students = by_student(table)
        if as_json:
            _print_json({"students": _records(students), "grades": _records(table)})
            return
        rows = table[["result", "exercise", "file", "why"]].astype(str).to_numpy().tolist()
        _print_lines(columns_of([["result", "exercise", "file", "why"], *rows]))
        _print_lines(["", *columns_of([list(students), *students.astype(str).to_numpy().tolist()])])
        counts = table["result"].value_counts()
        _print_lines(["", ", ".join(f"{counts.get(each, 0)} {each}" for each in RESULTS)])
        _print_lines([f"as tables: {_short(grade)}/{STUDENTS} (a row a student), {_short(grade)}/{GRADED}"])
    else:
        from netrepro.workbench.exercises import exercises as list_of
        from netrepro.workbench.lines import folded

        slug = ""
        for each in list_of(slugs):
            _print_lines(["", each.slug] if each.slug != slug else [])
            slug = each.slug
            how = f" [checked: {each.answer}, {each.how_close}]" if each.answer else " [read by a person]"
            _print_lines(folded(each.text + how, f"  {each.number}. ", "     "))


@app.command()
def gallery(
    into: Annotated[Path, typer.Option(help="folder for the pages")],
    functions: Annotated[bool, typer.Option(help="describe the library's functions too (needs pdoc)")] = True,
) -> None:
    """Make static pages of the executed notebooks, with the scorecard as their index."""
    from tqdm import tqdm

    from netrepro.workbench.pages import gallery as make

    pages = make(
        into, functions=functions, progress=lambda notebooks: tqdm(notebooks, desc="pages", leave=False, disable=None)
    )
    run = sum(page.run is not None for page in pages)
    _print_lines([f"{len(pages)} pages, {run} of them executed: {_short(into / 'index.html')}"])


@app.command()
def scorecard(
    slugs: Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="show each claim of these")] = None,
    claims: Annotated[bool, typer.Option("--claims", help="show each claim of every paper")] = False,
    check: Annotated[bool, typer.Option("--check", help="fail if a committed verdict no longer holds")] = False,
    into: Annotated[Path | None, typer.Option(help="write scorecard.csv, .md, .html and .png to this folder")] = None,
    readme: Annotated[
        bool, typer.Option("--readme", help="refresh figures/scorecard.* and the README's excerpt")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="ask git when acceptances and first results came")] = False,
    as_json: Json = False,
) -> None:
    """Compare every paper's numbers with mine and with what is published here."""
    if history:
        from netrepro.claims.history import history as ask_git

        console.print(ask_git().to_string(index=False), markup=False, soft_wrap=True)
        return
    from netrepro.claims.scorecard import beside, problems_of
    from netrepro.claims.scorecard import scorecard as build
    from netrepro.paths import workbench_root
    from netrepro.workbench.publishing import lost_verdicts, refresh_readme, write_scorecard
    from netrepro.workbench.run_folder import own_results

    written = []
    if into is not None or readme:
        mine, published = build(results=own_results), build()  # of all papers
        for slug, problem in problems_of(mine, published).items():
            raise NetreproError(f"nothing is written, as {slug} cannot be read: {problem}", "mend it first")
    if into is not None:
        write_scorecard(published, into, mine)
        written.append(f"written: {_short(into)}/scorecard.csv, .md, .html, .png")
    if readme:
        write_scorecard(published, workbench_root() / "figures")
        refresh_readme(published, workbench_root() / "README.md")
        written.append("written: figures/scorecard.csv, .md, .html, .png and the README's excerpt")
    if as_json:
        mine, published = build(slugs, results=own_results), build(slugs)
        _print_json(_records(beside(mine, published)))
        problems = bool(problems_of(mine, published))
    else:
        problems = _print_scorecard(slugs, claims=bool(slugs) or claims, differences=not written)
        _print_lines(written)
    if check:
        lost, notes = lost_verdicts()
        for line in notes:
            console.print(line, style="dim", markup=False, soft_wrap=True)
        for line in lost:
            console.print(line, style="red", markup=False, soft_wrap=True)
        console.print("every committed verdict still holds" if not lost else f"{len(lost)} verdicts no longer hold")
        raise typer.Exit(int(bool(lost) or problems))
    raise typer.Exit(int(problems))


def _assignments(words: list[str] | None) -> dict[str, str]:
    given = {}
    for word in words or []:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise NetreproError(f"-p {word}", "write -p name=value")
        given[name.strip()] = value
    return given


def _check_early(slugs: list[str] | None, given: dict[str, str]) -> None:
    """Answer a mistyped parameter before anything heavy is imported."""
    from netrepro.workbench.catalogue import select
    from netrepro.workbench.parameters import check_parameters

    for notebook in select(slugs):
        if not notebook.problem:
            check_parameters(notebook.parameters, given, notebook.slug)


class _Lines:
    """One line a notebook: on a terminal a live line while it runs; in a log one line when it has ended."""

    def __init__(self, live: Live | None):
        self.live = live
        self.running: dict[str, Event] = {}

    def __call__(self, event: Event) -> None:
        if event.kind == "skipped":
            console.print(f"[yellow]skipped[/yellow]  {event.name}: {event.reason}")
        elif event.kind == "ended" and event.status is not None:
            self.running.pop(event.name, None)
            status = event.status
            colour = "green" if status.ok else "red"
            notes = [" (kept from an earlier run)"] if status.reused else []
            notes += [f", over its budget of {status.budget_s:.0f} s"] if status.over_budget else []
            spent = f"{status.seconds:.0f} s of {status.budget_s:.0f} s"
            if status.cpu_s:
                spent += f" (CPU {status.cpu_s:.0f} s, {status.peak_mb:.0f} MB)"
            console.print(
                f"[{colour}]{status.outcome:<12}[/{colour}] {event.name:<32} {spent}{''.join(notes)}", soft_wrap=True
            )
        else:
            self.running[event.name] = event
        if self.live is not None:
            self.live.update(self._table())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for event in self.running.values():
            progress = event.progress
            cells = f"{progress.cell}/{progress.cells}" if progress and progress.cells else ""
            spent = f"{event.elapsed_s:.0f} s of {event.budget_s:.0f} s"
            table.add_row("[cyan]running[/cyan]", event.name, spent, cells, progress.heading if progress else "")
        return table


@contextmanager
def _told() -> Any:
    if not console.is_terminal:
        yield _Lines(None)
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield _Lines(live)


def _outcomes(report: RunReport) -> list[str]:
    return sorted({status.outcome for status in report.statuses}, key=lambda outcome: (outcome != "ok", outcome))


def _print_failures(report: RunReport) -> None:
    for status in report.statuses:
        if not status.ok:
            console.print(status.explanation(), style="red", markup=False, highlight=False, soft_wrap=True)


def _print_untrusted(report: RunReport) -> None:
    """Notebooks that ended well, but whose own checks failed: their numbers decide nothing."""
    from netrepro.workbench.run_folder import read_kept
    from netrepro.workbench.terminal import distrust

    for status in report.statuses:
        result = read_kept(status.folder).result if status.ok and status.folder is not None else None
        if result is not None and (said := distrust(result)):
            text = f"{status.name}, tier {result.tier}: {said}"
            console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _print_places(report: RunReport) -> None:
    """Where the executed notebooks are; of one with settings of its own also how to see what they change."""
    from netrepro.claims import published_results

    kept = [(status, status.folder) for status in report.statuses if status.folder is not None]
    if len(kept) == 1:
        ((status, folder),) = kept
        _print_lines([f"executed notebook: {_short(folder)}/executed.ipynb"])
        if status.ok and "--" in status.name and published_results(status.slug) is not None:
            _print_lines([f"beside what is published: netrepro compare {status.name} {status.slug}"])
    elif kept:
        _print_lines([f"executed notebooks, figures and logs: {_short(kept[0][1].parent)}/"])


def _papers_of(report: RunReport, slugs: list[str] | None) -> list[str] | None:
    """The papers among what was run; None for the whole set."""
    from netrepro.workbench.catalogue import find

    if not slugs:
        return None
    run = dict.fromkeys(status.slug for status in report.statuses)
    return [slug for slug in run if find(slug).declaration.kind == "paper"]


def _print_scorecard(slugs: list[str] | None = None, *, claims: bool = False, differences: bool = True) -> bool:
    """The verdicts last, where a terminal shows them. Returns whether papers are left out because their claims or
    results cannot be read.

    claims : show each claim. differences : else list those whose verdicts of mine are not the published ones.
    """
    from netrepro.claims.scorecard import beside, problems_of, scorecard
    from netrepro.workbench.run_folder import own_results
    from netrepro.workbench.terminal import claim_lines, difference_lines, summary_lines, untrusted_lines

    mine, published = scorecard(slugs, results=own_results), scorecard(slugs)
    table = beside(mine, published)
    before = [claim_lines(table)] if claims else [difference_lines(table)] if differences else []
    for lines in (*before, untrusted_lines(mine, published)):
        _print_lines([*lines, ""] if lines else [])
    _print_lines(summary_lines(mine, published))
    problems = problems_of(mine, published)
    for slug, problem in problems.items():
        console.print(f"{slug} is left out: {problem}", style="red", markup=False, highlight=False, soft_wrap=True)
    return bool(problems)


def _records(table: DataFrame) -> list[dict[str, Any]]:
    """A table's rows as JSON has them: what is missing is null."""
    return json.loads(table.to_json(orient="records"))


def _print_json(content: Any) -> None:
    _print_lines(json.dumps(content, indent=1, ensure_ascii=False).splitlines())


def _print_lines(lines: Iterable[str]) -> None:
    """Lines as they are: no markup, no cutting."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def main() -> None:
    """Entry point: a NetreproError, or a missing extra, becomes two lines and exit code 2, a Ctrl-C exit code 130."""
    # A shell starts what is put in the background with this signal ignored; who sends it means it there, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except (NetreproError, ModuleNotFoundError) as error:
        from netrepro.extras import what_is_missing

        told = what_is_missing(error) if isinstance(error, ModuleNotFoundError) else error
        if told is None:
            raise
        console.print(f"netrepro: {told}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
