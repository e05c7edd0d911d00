"""The commands on results: scorecards, comparisons, pages, exports, publications and releases."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Annotated

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import (
    change_lines,
    console,
    history_lines,
    live_lines,
    print_failures,
    print_json,
    print_lines,
    print_scorecard,
    records,
    short,
)
from netrepro.workbench.cli.options import Jobs, Json, Patience, Slugs, app


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
def publish(
    slugs: Slugs = None,
    every: Annotated[bool, typer.Option("--all", help="every paper that has a good run")] = False,
    run: Annotated[Path | None, typer.Option(help="the folder of this run, instead of the newest")] = None,
    profile: Annotated[str | None, typer.Option(help="only runs of this profile")] = None,
    tier: Annotated[str | None, typer.Option(help="only runs of this tier")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would change")] = False,
    dirty: Annotated[bool, typer.Option("--dirty", help="take runs of a library that was not committed")] = False,
    fewer: Annotated[
        bool, typer.Option("--fewer", help="take runs with fewer claims, figures or repetitions of controls")
    ] = False,
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
