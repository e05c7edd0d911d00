"""The command line: each command calls a function that a notebook can call too."""

from __future__ import annotations

import datetime
import io
import re
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import (
    COLUMNS,
    change_lines,
    columns_of,
    console,
    folded,
    history_lines,
    live_lines,
    outcomes_of,
    print_failures,
    print_json,
    print_lines,
    print_places,
    print_scorecard,
    print_untrusted,
    records,
    short,
    sweep_lines,
    verdict_lines,
)

if TYPE_CHECKING:
    from netrepro.workbench.catalogue.notebooks import Notebook
    from netrepro.workbench.running.runner import RunReport

app = typer.Typer(
    help="Published network-systems results, run again.", no_args_is_help=True, pretty_exceptions_enable=False
)

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="notebooks; none: all of them")]
Profile = Annotated[str, typer.Option(help="quick, or paper (the published scale)")]
Tier = Annotated[str, typer.Option(help="auto, virtual, privileged, rootless or simulated")]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="may be repeated")
]
Jobs = Annotated[int | None, typer.Option(help="notebooks at a time in the compute lane (default: one a core)")]
Scheduler = Annotated[str | None, typer.Option(help="address of a Dask scheduler, tcp://…")]
Resume = Annotated[
    bool, typer.Option("--resume", help="keep runs that ended well, if notebook, data, settings and code are unchanged")
]
Json = Annotated[bool, typer.Option("--json", help="as JSON, for programs")]
Patience = Annotated[float, typer.Option(help="a cell may take this many times the declared budget")]


def _say_version(asked: bool) -> None:
    if asked:
        from netrepro import __version__

        print_lines([f"netrepro {__version__}"])
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
    build_kernel: Annotated[
        bool, typer.Option("--build-kernel", help="build a missing virtual kernel; only what uses it waits for it")
    ] = False,
    both: Annotated[
        bool, typer.Option("--both", help="run notebooks that can on two tiers: the simulator and real kernels")
    ] = False,
    as_json: Json = False,
) -> None:
    """Execute notebooks headlessly; then show your own scorecard beside the published one."""
    given = _assignments(parameter)
    if given:
        _check_early(slugs, given)
    from netrepro.workbench.running.runner import run as run_notebooks

    with live_lines(silent=as_json) as tell:
        report = run_notebooks(
            slugs,
            profile=profile,
            tier=tier,
            parameters=given,
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            patience=patience,
            build_kernel=build_kernel,
            both=both,
            on_event=tell,
        )
    if as_json:
        print_json(_ended(report))
        raise typer.Exit(report.exit_code)
    code = report.exit_code
    if not given and (papers := _papers_of(report, slugs)) != []:
        try:
            code = code or int(print_scorecard(papers, untrusted=False))
        except NetreproError as error:  # a malformed claims.yaml must not hide how the notebooks ended
            print_lines([f"no scorecard: {error}"], "red")
            code = code or 1
    print_failures(report)  # after the scorecard, which is long and would hide them
    print_lines([report.no_kernel] if report.no_kernel else [], "yellow")
    print_untrusted(report)
    print_places(report)
    ended = {outcome: sum(status.outcome == outcome for status in report.statuses) for outcome in outcomes_of(report)}
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
    pictures: Annotated[bool | None, typer.Option(help="publish the figures too (default: the best run's)")] = None,
) -> None:
    """Copy figures and results of good runs from runs/ to figures/, after showing what would change."""
    given = [word for word, said in {"papers": slugs, "--all": every, "--run": run is not None}.items() if said]
    if len(given) > 1:
        raise NetreproError(" and ".join(given), "give one of them")
    if not given:
        raise NetreproError("what is to be published?", "name papers, or give --all, or --run FOLDER")
    from netrepro.workbench.publishing.results import Publication
    from netrepro.workbench.publishing.results import publish as publish_runs

    answers: list[bool] = []

    def agree(plan: list[Publication]) -> bool:
        print_lines(item.text() for item in plan)
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
        print_lines(item.text() for item in plan)
    published = sum(bool(item.changes) and not item.refusals for item in plan) if answers == [True] else 0
    refused = sum(bool(item.refusals) for item in plan)
    print_lines([f"{published} published, {refused} refused, of {len(plan)} runs" + " (dry run)" * dry_run])
    if answers == [False]:
        print_lines(["nothing was published: answer with yes, or give --yes"])
    if published:
        print_lines(["to refresh the scorecard's page and the README's counts: netrepro scorecard --readme"])
    raise typer.Exit(int(bool(refused) or answers == [False]))


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="a folder, or its name below runs/, or a published slug")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="another")],
    into: Annotated[Path | None, typer.Option(help="the page to write (default: below runs/compare/)")] = None,
    as_json: Json = False,
) -> None:
    """Compare two runs: settings, values and verdicts; also write a page with their figures."""
    from netrepro.workbench.publishing.comparison import compare as compare_runs

    done = compare_runs(first, second)
    if as_json:
        print_json(done.content() | {"page": str(done.write(into))})
        return
    print_lines(done.lines())
    print_lines([f"with figures: {short(done.write(into))}"])


@app.command("conform")
def conform_control(
    subject: Annotated[
        str, typer.Argument(metavar="CONTROL", help='a control by name, "./program with words", program.py, module.c')
    ],
    suite: Annotated[
        list[str] | None, typer.Option(help="rfc, bbr, fairness or a YAML file; may be repeated (default: all three)")
    ] = None,
    scenario: Annotated[list[str] | None, typer.Option(help="only this scenario; may be repeated")] = None,
    claims: Annotated[
        str, typer.Option(help="what it claims, as rfc9438,paced (default: what is known of it, else rfc5681)")
    ] = "",
    tier: Annotated[str | None, typer.Option(help="simulated or virtual (default: by the kind of control)")] = None,
    into: Annotated[
        Path | None, typer.Option(help="write a page, pictures, traces (qlog), JSON and JUnit here")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML here")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="count departures as failures")] = False,
    as_json: Json = False,
) -> None:
    """Test a congestion control against sentences of RFCs, the BBR draft's cases, and questions of fairness. Exit code
    1 where a sentence fails."""
    from netrepro.conformance import SUITES, conform
    from netrepro.files import write_atomically
    from netrepro.workbench.cli.conforming import report_lines, write_report

    named = [word.strip() for word in claims.split(",") if word.strip()]
    with live_lines(silent=True) if as_json else console.status("scenarios run ...") as status:

        def tell(name: str) -> None:
            if not as_json:
                status.update(f"{name} has run ...")  # type: ignore[union-attr]

        report = conform(
            subject,
            suite or SUITES,
            scenarios=scenario or (),
            claims=named,
            tier=tier,
            references=into is not None,
            progress=tell,
        )
    if junit:
        write_atomically(junit, report.to_junit())
    page = write_report(report, into) if into else None
    if as_json:
        typer.echo(report.to_json(), nl=False)
    else:
        print_lines(report_lines(report))
        print_lines([f"with pictures: {short(page)}"] if page else [])
    raise typer.Exit(int(not report.holds(strict=strict)))


@app.command("list")
def list_notebooks(as_json: Json = False) -> None:
    """List every notebook with its declared cost, lane, tiers and question."""
    from netrepro.workbench.catalogue.notebooks import catalogue, strays

    notebooks = catalogue()
    if as_json:
        print_json([_described(notebook) for notebook in notebooks])
        return
    rows = [["slug", "quick", "paper", "lane"]]
    for notebook in notebooks:
        declared = notebook.declaration
        cost = [f"{declared.budget_s[name]:.0f} s" for name in ("quick", "paper")]
        rows.append([notebook.slug, *cost, declared.lane])
    heads = columns_of(rows)
    print_lines(heads[:1])
    for line, notebook in zip(heads[1:], notebooks, strict=True):
        tiers = [] if notebook.problem else folded(f"on {', '.join(notebook.declaration.tiers)}", "    ")
        print_lines([line, *folded(notebook.problem or notebook.title, "    "), *tiers])
    for name in strays():
        print_lines(folded(f"! {name} is left out: its name has no number, as in 70_red_queue.ipynb", "", "  "))


@app.command()
def show(slug: str, as_json: Json = False) -> None:
    """Show a notebook's parameters with types, defaults, ranges and help, and what it costs."""
    from netrepro.workbench.catalogue.notebooks import find

    notebook = find(slug)
    if notebook.problem:
        raise NetreproError(notebook.problem)
    if as_json:
        print_json(_described(notebook))
        return
    declared = notebook.declaration
    print_lines([*folded(f"{notebook.title} ({notebook.path.name})"), *folded(f"tiers: {', '.join(declared.tiers)}")])
    for profile in ("quick", "paper"):
        print_lines([f"{profile}: {declared.budget_s[profile]:.0f} s, {declared.memory_mb[profile]} MB"])
    if declared.longer_because:
        print_lines(folded(f"quick takes longer because {declared.longer_because}"))
    for item in notebook.parameters.values():
        print_lines(["", *folded(f"{item.name}: {item.type} = {item.default!r}"), *folded(item.help, "    ")])


def _described(notebook: Notebook) -> dict[str, Any]:
    """Describe a notebook as JSON."""
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
    vary: Annotated[
        list[str], typer.Option(metavar="NAME=A..B", help="NAME=A..B, or NAME=A,B,C; several: every combination")
    ],
    points: Annotated[int, typer.Option(help="how many values of a range")] = 9,
    profile: Profile = "quick",
    tier: Tier = "auto",
    parameter: Parameters = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Run a notebook over values of its parameters; write a table and a figure below runs/sweeps/."""
    from netrepro.workbench.running.sweeping import cost_of
    from netrepro.workbench.running.sweeping import sweep as run_sweep

    given = _assignments(parameter)
    cost = cost_of(slug, vary, points=points, profile=profile, tier=tier, parameters=given, jobs=jobs)
    print_lines(folded(cost, "", "  ") if cost and not as_json else [])
    with live_lines(silent=as_json) as tell:
        done = run_sweep(
            slug,
            vary,
            points=points,
            profile=profile,
            tier=tier,
            parameters=given,
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            on_event=tell,
        )
    if as_json:
        print_json(_ended(done.report) | {"folder": str(done.folder), "claims": records(done.table)})
        raise typer.Exit(done.report.exit_code)
    print_lines(sweep_lines(done.table, done.names))
    print_failures(done.report)
    print_lines([f"table and figure: {short(done.folder)}/sweep.csv, sweep.png"])
    raise typer.Exit(done.report.exit_code)


def _ended(report: RunReport) -> dict[str, Any]:
    """Describe the end of a run as JSON: every notebook, and every claim of the notebooks that ended well."""
    left_out = {"log_tail", "fingerprint", "library_code"}
    return {
        "interrupted": report.interrupted,
        "notebooks": [status.model_dump(mode="json", exclude=left_out) for status in report.statuses],
        "claims": records(report.claims()),
    }


kernel = typer.Typer(help="The kernel in virtual time: build it, say where it is, look inside.", no_args_is_help=True)
app.add_typer(kernel, name="kernel")


@kernel.command("build")
def build_kernel(
    jobs: Annotated[int | None, typer.Option(help="compilers at a time (default: one a core)")] = None,
    source: Annotated[
        Path | None, typer.Option(help="an archive, package or folder of Linux 6.12 (default: Debian's 6.12.117)")
    ] = None,
    quietly: Annotated[
        bool, typer.Option("--if-possible", help="say in one line what is missing, and fail never")
    ] = False,
) -> None:
    """Build the virtual kernel from the source of Linux into your cache, once, in minutes. It needs no root and fetches
    the tools that are missing."""
    from rich.progress import Progress

    from netrepro.emulation.virtual.build import build_kernel as build
    from netrepro.emulation.virtual.kernel import kernel_path

    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task, before = bar.add_task("the virtual kernel", total=1.0), ""

            def tell(what: str, share: float) -> None:
                nonlocal before
                if what != before and not console.is_terminal:
                    print_lines([f"  the virtual kernel: {what} ..."])
                before = what
                bar.update(task, description=what, completed=share)

            path = build(tell, source, jobs=jobs)
    except NetreproError as error:
        if not quietly:
            raise
        print_lines([f"no virtual kernel: {error.problem.splitlines()[0]}; {error.remedy}"])
        return
    print_lines([f"the virtual kernel: {path} ({path.stat().st_size / 1e6:.1f} MB)"])
    if path != kernel_path():
        print_lines([f"not what runs, as a newer one is there: {kernel_path()}"])


@kernel.command("path")
def show_kernel_path() -> None:
    """Print the path of the virtual kernel."""
    from netrepro.emulation.virtual.kernel import kernel_path

    typer.echo(kernel_path())


@kernel.command("shell")
def kernel_shell() -> None:
    """Run a shell in the virtual kernel, as its root; virtual time passes as commands sleep or wait for packets."""
    from netrepro.emulation.virtual.instance import run_shell

    raise typer.Exit(run_shell())


@app.command()
def export(
    slug: str,
    kind: Annotated[str, typer.Option("--as", help="artifact, codecheck or ro-crate")],
    into: Annotated[Path | None, typer.Option(help="a new folder (default: below runs/export/)")] = None,
    run: Annotated[Path | None, typer.Option(help="the folder of a run (default: the newest good one)")] = None,
) -> None:
    """Write a paper, or a run of it, in a form that others check: an artifact's appendix, a codecheck, an RO-Crate."""
    from netrepro.workbench.publishing.exporting import export as write_export

    print_lines([f"written: {short(write_export(slug, kind, into, run))}/"])


@app.command()
def draw(
    slug: str,
    folder: Annotated[Path | None, typer.Option("--from", help="folder of a run (default: the newest)")] = None,
) -> None:
    """Draw a paper's figures and judge its claims again from the tables of a run, without measuring."""
    from netrepro.workbench.publishing.redraw import redraw

    drawn, verdicts = redraw(slug, folder)
    print_lines(verdict_lines(verdicts))
    print_lines([f"figures: {short(drawn)}"])


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine can do, and what each notebook would use."""
    from netrepro.workbench.cli.doctor import examine

    report = examine()
    if as_json:
        print_json({name: records(table) for name, table in report.tables().items()})
    else:
        print_lines(report.lines())


@app.command()
def capture(
    into: Annotated[Path, typer.Option(help="folder for the captures, the flows and the log")],
    seconds: Annotated[float, typer.Option(help="how long each day is")] = 240.0,
    scale: Annotated[float, typer.Option(help="times about 5,000 flows a day")] = 1.0,
    days: Annotated[int, typer.Option(help="runs, each on a day of its own")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="of who does what when")] = 1,
) -> None:
    """Make a labelled capture of real applications in virtual time, as data/gmm_traffic/standin."""
    from tqdm import tqdm

    from netrepro.applications.labelled_traffic import check_capture, make_capture

    check_capture(seconds, scale, days)
    cost = f"{days} x {seconds:g} s of traffic in virtual time, about {scale * 5000 * days:,.0f} flows"
    waits = "a minute to start each, and a processor's second or more each second"
    print_lines([f"{cost}: {waits}"])
    made = make_capture(into, seconds=seconds, scale=scale, days=days, seed=seed, progress=partial(tqdm, disable=None))
    print_lines([made.to_string(line_width=COLUMNS)])


@app.command()
def audit(
    path: Annotated[Path, typer.Argument(help="a CSV of flows, Zeek's conn.log, labelled captures, or a folder")],
    label: Annotated[str | None, typer.Option(help="column of labels, or folder or file for their names")] = None,
    unit: Annotated[str, typer.Option(help="of captures: flow or packet [auto: packet]")] = "auto",
    capture: Annotated[
        list[Path] | None, typer.Option(help="what a table was made of, to compare with; may be repeated")
    ] = None,
    sample: Annotated[int, typer.Option(help="rows that train and test forests; other checks see all")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="of splits and forests")] = 0,
    into: Annotated[
        Path | None, typer.Option(help="folder for picture and tables (default: below runs/audit/)")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="fail if anything is found")] = False,
    as_json: Json = False,
) -> None:
    """Audit labelled traffic: can a classifier's score on it be believed? A table, a picture, a sentence a finding."""
    from netrepro.workbench.cli.auditing import audit_lines, audit_path, write_audit

    done = audit_path(path, label=label, unit=unit, captures=capture or [], sample=sample, seed=seed)
    folder = write_audit(done, path, into)
    if as_json:
        print_json(done.content() | {"folder": str(folder)})
    else:
        print_lines(audit_lines(done))
        print_lines(["", f"picture and tables: {short(folder)}/audit.png, checks.csv, scores.csv, columns.csv"])
    raise typer.Exit(int(check and not done.passed))


@app.command()
def new(
    slug: Annotated[str, typer.Argument(help="small letters, digits and _, such as red_queue")],
    number: Annotated[int | None, typer.Option(help="of the notebook's file (default: a free one from 70 on)")] = None,
) -> None:
    """Begin a paper: write a module, claims, a notebook and a test, which run and which you then fill in."""
    from netrepro.workbench.catalogue.skeleton import new_paper

    made = new_paper(slug, number)
    print_lines(["written, with an invented claim to replace:", *(f"  {short(path)}" for path in made)])
    print_lines([f"it runs: netrepro run {slug}; while you write: netrepro check {slug}"])
    print_lines([f"its test: pytest {short(made[3])}"])


@app.command("check")
def check_papers(
    slugs: Annotated[list[str], typer.Argument(metavar="SLUG...", help="papers that you write")],
    as_json: Json = False,
) -> None:
    """Check a paper that you write, in half a minute: its files fit together, each case runs, figures draw. Exit code 1
    where something does not."""
    from netrepro.workbench.catalogue.checking import Checked, check_paper
    from netrepro.workbench.catalogue.notebooks import find

    def tell(checked: Checked) -> None:
        word, colour = ("wrong", "red") if checked.problems else ("ok   ", "green")
        print_lines([f"{word}  {checked.name}"], colour)
        print_lines([f"       {line}" for problem in checked.problems for line in problem.splitlines()])

    done = {find(slug).slug: check_paper(slug, (lambda checked: None) if as_json else tell) for slug in slugs}
    if as_json:
        print_json({slug: {each.name: each.problems for each in checks} for slug, checks in done.items()})
    raise typer.Exit(int(any(each.problems for checks in done.values() for each in checks)))


@app.command()
def exercises(
    slugs: Slugs = None,
    into: Annotated[Path | None, typer.Option(help="write class copies, without solutions, to this folder")] = None,
    form: Annotated[
        str, typer.Option("--format", help="of the copies: netrepro; the instructor's for nbgrader or otter")
    ] = "netrepro",
    grade: Annotated[Path | None, typer.Option(help="execute and grade what students handed in there")] = None,
    trust: Annotated[bool, typer.Option(help="grade with your own rights, and not in a sandbox")] = False,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """List the notebooks' exercises; write copies for a class; grade what students hand in."""
    if into is not None and grade is not None:
        raise NetreproError("--into and --grade", "give one of them")
    if into is None and form != "netrepro":
        raise NetreproError(f"--format {form} without --into", "name the folder to write copies to: --into FOLDER")
    if into is not None:
        from netrepro.workbench.classroom.class_formats import write_class_copies

        made = write_class_copies(into, slugs, form)
        what = "without solutions" if form == "netrepro" else f"with solutions and hidden tests, for {form}"
        print_lines([f"{len(made)} notebook{'s' if len(made) != 1 else ''} {what}: {short(into)}/"])
    elif grade is not None:
        if slugs:
            raise NetreproError("--grade takes no notebooks", "each file says which notebook it is a copy of")
        from netrepro.workbench.classroom.grading import GRADED, RESULTS, STUDENTS, by_student
        from netrepro.workbench.classroom.grading import grade as grade_folder

        kept: list[tuple[Path, Path]] = []
        with live_lines() as tell:
            table = grade_folder(
                grade, jobs=jobs, trust=trust, on_event=tell, on_kept=lambda *moved: kept.append(moved)
            )

        students = by_student(table)
        if as_json:
            aside = {short(path): short(now) for path, now in kept}
            print_json({"students": records(students), "grades": records(table), "kept_aside": aside})
            return
        rows = table[["result", "exercise", "file", "why"]].astype(str).to_numpy().tolist()
        print_lines(columns_of([["result", "exercise", "file", "why"], *rows]))
        print_lines(["", *columns_of([list(students), *students.astype(str).to_numpy().tolist()])])
        counts = table["result"].value_counts()
        print_lines(["", ", ".join(f"{counts.get(each, 0)} {each}" for each in RESULTS)])
        print_lines([f"as tables: {short(grade)}/{STUDENTS} (a row a student), {short(grade)}/{GRADED}"])
        print_lines([f"{short(path)} had been changed since: it is kept as {short(now)}" for path, now in kept])
    else:
        from netrepro.workbench.classroom.exercises import exercises as list_of

        slug = ""
        for each in list_of(slugs):
            print_lines(["", each.slug] if each.slug != slug else [])
            slug = each.slug
            how = f" [checked: {each.answer}, {each.how_close}]" if each.answer else " [read by a person]"
            print_lines(folded(each.text + how, f"  {each.number}. ", "     "))


@app.command()
def gallery(
    into: Annotated[Path, typer.Option(help="folder for the pages")],
    functions: Annotated[bool, typer.Option(help="describe the library's functions too (needs pdoc)")] = True,
    live: Annotated[
        bool, typer.Option("--live", help="make live pages too, where Emscripten, node and npm are")
    ] = False,
) -> None:
    """Make static pages of the executed notebooks, with the scorecard as their index."""
    from tqdm import tqdm

    from netrepro.workbench.publishing.pages import gallery as make
    from netrepro.workbench.publishing.webassembly import get_tools

    why = get_tools() if live else ""
    pages = make(
        into,
        functions=functions,
        live=live and not why,
        progress=lambda notebooks: tqdm(notebooks, desc="pages", leave=False, disable=None),
    )
    if why:
        print_lines([f"pages stay still: {why}"])
    run = sum(page.run is not None for page in pages)
    print_lines([f"{len(pages)} pages, {run} of them executed: {short(into / 'index.html')}"])


@app.command()
def web(into: Annotated[Path, typer.Option(help="folder for the package")]) -> None:
    """Make netrepro-web: the simulator as WebAssembly, an npm package for pages and node (needs Emscripten)."""
    from netrepro.workbench.publishing.webassembly import get_tools, write_web_package

    if why := get_tools():
        raise NetreproError(why, "connect this machine to the network, or install it")
    files = write_web_package(into)
    print_lines([f"{path.name}: {path.stat().st_size / 1e3:.0f} kB" for path in files])


@app.command()
def scorecard(
    slugs: Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="show each claim of these")] = None,
    claims: Annotated[bool, typer.Option("--claims", help="show each claim of every paper")] = False,
    check: Annotated[bool, typer.Option("--check", help="fail if a committed verdict no longer holds")] = False,
    into: Annotated[Path | None, typer.Option(help="write scorecard.csv, .md, .html and .png to this folder")] = None,
    readme: Annotated[
        bool, typer.Option("--readme", help="refresh figures/scorecard.* and the README's counts")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="ask git when acceptances, controls and first results came")
    ] = False,
    since: Annotated[
        str, typer.Option(metavar="VERSION", help="ask git what has changed since a release, such as 0.3.0")
    ] = "",
    as_json: Json = False,
) -> None:
    """Compare every paper's numbers with your own results and with those published here."""
    if history or since:
        from netrepro.claims.history import changes_since
        from netrepro.claims.history import history as ask_git

        asked = changes_since(since, slugs) if since else ask_git(slugs)
        if as_json:
            print_json(records(asked))
        else:
            print_lines(change_lines(asked, since) if since else history_lines(asked))
        return
    from netrepro.claims.release import read_release
    from netrepro.claims.reproduction import reproduction
    from netrepro.claims.scorecard import beside, problems_of, stale_main_claims
    from netrepro.claims.scorecard import scorecard as build
    from netrepro.paths import workbench_root
    from netrepro.workbench.code import code_of
    from netrepro.workbench.publishing.results import lost_verdicts, refresh_readme, write_scorecard
    from netrepro.workbench.running.run_folder import own_results

    written = []
    if into is not None or readme:
        mine, published = build(results=own_results, code=code_of), build(code=code_of)  # of all papers
        for slug, problem in problems_of(mine, published).items():
            raise NetreproError(f"nothing is written, as {slug} cannot be read: {problem}", "mend it first")
    if into is not None:
        write_scorecard(published, into, mine)
        written.append(f"written: {short(into)}/scorecard.csv, .md, .html, .png")
    if readme:
        write_scorecard(published, workbench_root() / "figures")
        refresh_readme(published, workbench_root() / "README.md")
        written.append("written: figures/scorecard.csv, .md, .html, .png and the README's counts")
    if as_json:
        mine, published = build(slugs, results=own_results, code=code_of), build(slugs, code=code_of)
        judged = reproduction(published, own_results).rename(columns={"mine": "judged", "mine_value": "judged_value"})
        more = ["judged_by", "judged", "judged_value", "as_published", "as_its_run", "why"]
        print_json(records(beside(mine, published).merge(judged[["paper", "claim", *more]], on=["paper", "claim"])))
        problems = bool(problems_of(mine, published))
    else:
        problems = print_scorecard(slugs, claims=bool(slugs) or claims)
        print_lines(written)
    if check:
        lost, notes = lost_verdicts()
        if read_release() is not None:
            lost += stale_main_claims(build(code=code_of))
        print_lines(notes, "dim")
        print_lines(lost, "red")
        console.print("every committed verdict still holds" if not lost else f"{len(lost)} verdicts no longer hold")
        raise typer.Exit(int(bool(lost) or problems))
    raise typer.Exit(int(problems))


@app.command()
def release(
    version: Annotated[str | None, typer.Argument(help="such as 0.3.0")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="only list the runs that decide, and their state")] = False,
    since: Annotated[
        str, typer.Option(help="compare verdicts with those of this commit or tag; default: the previous release")
    ] = "",
    jobs: Jobs = None,
    patience: Patience = 3.0,
) -> None:
    """Measure every run that decides a claim and whose code has changed, publish all runs, and tag the version.

    It says first how many runs that are, and how long they take. After an interruption it continues: it reuses runs
    that ended well with the same code, also published ones.
    """
    from netrepro.workbench.publishing.releasing import (
        measure_release,
        problems_of_checkout,
        problems_of_release,
        publish_release,
        release_plan,
        runs_to_measure,
        tag_release,
        to_measure_lines,
    )

    if plan:
        print_lines(release_plan().to_string(index=False, na_rep="not known").splitlines())
        print_lines(["", *to_measure_lines(runs_to_measure())])
        return
    if version is None:
        raise NetreproError("which version?", "netrepro release 0.3.0, or --plan")
    if problems := problems_of_checkout(version, since):  # before the hours that measuring takes
        print_lines(problems, "red")
        console.print(f"nothing is measured: the above forbids release {version}", markup=False)
        raise typer.Exit(1)
    print_lines(to_measure_lines(runs_to_measure()))
    with live_lines() as tell:
        report = measure_release(jobs=jobs, patience=patience, on_event=tell)
    print_failures(report)
    if report.interrupted:
        raise typer.Exit(report.exit_code)
    if problems := problems_of_release(version, since):
        print_lines(problems, "red")
        console.print(f"nothing is published: the above forbids release {version}")
        raise typer.Exit(1)
    changed = publish_release(version, datetime.datetime.now(datetime.UTC).date(), since)
    tag_release(version)
    print_lines(changed.attrs["left_out"])
    print_lines(changed.to_string(index=False).splitlines() if len(changed) else [])
    console.print(f"released: v{version}, {len(changed)} verdicts changed")


def _assignments(words: list[str] | None) -> dict[str, str]:
    given = {}
    for word in words or []:
        name, separator, value = word.partition("=")
        name = name.strip()
        if not separator or not name:
            raise NetreproError(f"-p {word}", "write -p name=value")
        if name in given:
            raise NetreproError(f"-p {name} is given twice", "give it once: netrepro sweep takes several values")
        given[name] = value
    return given


def _check_early(slugs: list[str] | None, given: dict[str, str]) -> None:
    """Check the parameters before slow imports, so that a mistyped one is reported at once."""
    from netrepro.workbench.catalogue.notebooks import select
    from netrepro.workbench.catalogue.parameters import check_parameters

    for notebook in select(slugs):
        if not notebook.problem:
            check_parameters(notebook.parameters, given, notebook.slug)


def _papers_of(report: RunReport, slugs: list[str] | None) -> list[str] | None:
    """Return the papers among the notebooks that ran; None where no notebook was named."""
    from netrepro.workbench.catalogue.notebooks import find

    if not slugs:
        return None
    run = dict.fromkeys(status.slug for status in report.statuses)
    return [slug for slug in run if find(slug).declaration.kind == "paper"]


def _has_folder() -> bool:
    """Tell whether the working directory is still there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def main() -> None:
    """Run the command line. A NetreproError or a missing extra is printed and gives exit code 2, Ctrl-C gives 130."""
    # A shell starts background jobs with this signal ignored; a person who sends it wants to stop them, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows question marks
    try:
        if not _has_folder():
            raise NetreproError("the working directory is gone", "change into another")
        if empty := [word for word in sys.argv[1:] if not word or re.fullmatch(r"--[\w-]+=", word)]:
            raise NetreproError(f"an empty value ({empty[0]!r})", "give one; is a variable of the shell not set?")
        app()
    except (NetreproError, ModuleNotFoundError) as error:
        from netrepro.extras import what_is_missing

        told = what_is_missing(error) if isinstance(error, ModuleNotFoundError) else error
        if told is None:
            raise
        print_lines([f"netrepro: {told}"], "red")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
