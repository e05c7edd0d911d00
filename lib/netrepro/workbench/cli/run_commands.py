"""The commands that run notebooks, and that say what there is to run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import (
    SPENT,
    columns_of,
    console,
    folded,
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
from netrepro.workbench.cli.options import (
    Jobs,
    Json,
    Parameters,
    Patience,
    Profile,
    Resume,
    Scheduler,
    Slugs,
    Tier,
    app,
    assignments,
)

if TYPE_CHECKING:
    from netrepro.workbench.catalogue.notebooks import Notebook
    from netrepro.workbench.running.events import RunReport


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
    given = assignments(parameter)
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
    print_lines(folded(SPENT) if report.statuses else [], "dim")
    ended = {outcome: sum(status.outcome == outcome for status in report.statuses) for outcome in outcomes_of(report)}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in ended.items()) or "nothing to run")
    raise typer.Exit(code)


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

    given = assignments(parameter)
    cost = cost_of(
        slug, vary, points=points, profile=profile, tier=tier, parameters=given, jobs=jobs, scheduler=scheduler
    )
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
    left_out = {"log_tail", "fingerprint", "code"}
    return {
        "interrupted": report.interrupted,
        "notebooks": [status.model_dump(mode="json", exclude=left_out) for status in report.statuses],
        "claims": records(report.claims()),
    }


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
